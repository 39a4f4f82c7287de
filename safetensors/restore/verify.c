/*
 * verify.c - reading an archive whole to see whether it is sound, or equal to the file it was made from.
 */
#include "safetensors/base/content.h"
#include "safetensors/restore/restore.h"

#include <string.h>

/* ---- verify ---- */

/* The whole of a plain file, for its hash alone. */
static lmc_status hash_plain(const lmc_st_file *source, st_sha256 *sha256, const lmc_st_options *options,
                             lmc_st_diag *diag)
{
    enum { PIECE_NBYTES = 1 << 20 };
    unsigned char *const piece = st_allocate(options->allocator, PIECE_NBYTES);
    lmc_status status = !piece ? st_fail_nomem(diag) : LMC_OK;
    for (uint64_t at = 0; at < source->file_nbytes && status == LMC_OK; at += PIECE_NBYTES) {
        const uint64_t left = source->file_nbytes - at;
        const size_t nbytes = left < PIECE_NBYTES ? (size_t)left : PIECE_NBYTES;
        if (st_is_cancelled(options->cancel))
            status = st_fail_cancelled(diag);
        else
            status = os_input_read(&source->input, at, piece, nbytes, diag);
        if (status == LMC_OK)
            st_sha256_update(sha256, piece, nbytes);
        if (status == LMC_OK && options->progress)
            options->progress(options->user, at + nbytes, source->file_nbytes);
    }
    st_release(options->allocator, piece);
    return status == LMC_OK ? os_input_check_unchanged(&source->input, diag) : status;
}

/* A base that is missing is told last, and to the callback if there is damage, which is what the call returns. */
static lmc_status report_damage(const st_damage_log *log, const lmc_st_diag *missing,
                                const lmc_st_options *options, lmc_st_diag *diag)
{
    if (log->lost_count > 0) {
        if (missing && options->damage)
            options->damage(options->user, missing);
        *diag = log->first;
    } else if (missing) {
        *diag = *missing;
    } else {
        return LMC_OK;
    }
    return diag->status;
}

static lmc_status verify_archive(const lmc_st_file *source, st_sha256 *sha256, const lmc_st_options *options,
                                 lmc_st_result *result, lmc_st_diag *diag)
{
    st_damage_log log;
    lmc_st_diag missing = *diag;
    lmc_status status = st_content_open_files(source, &missing);
    const int without_base = status != LMC_OK;
    if (without_base && !st_is_damage(status)) {
        *diag = missing;
        return status;
    }
    ST_TRY(st_damage_log_init(&log, options->allocator, source->header.tensor_count, diag));
    const st_restoration restoration = {.source = source,
                                        .options = options,
                                        .sha256 = options->sha256 ? sha256 : NULL,
                                        .without_base = without_base,
                                        .log = &log};
    if (options->sha256) {
        unsigned char length[8];
        st_store_u64(length, source->header.text_nbytes);
        st_sha256_update(sha256, length, sizeof length);
        st_sha256_update(sha256, source->header.text, source->header.text_nbytes);
    }
    status = st_restore_tensors(&restoration, diag);
    result->damaged_count = log.lost_count;
    if (status == LMC_OK)
        status = report_damage(&log, without_base ? &missing : NULL, options, diag);
    st_damage_log_free(&log, options->allocator);
    return status;
}

static lmc_status verify_open_file(const lmc_st_file *source, const lmc_st_options *options,
                                   lmc_st_result *result, lmc_st_diag *diag)
{
    st_sha256 sha256;
    lmc_status status = LMC_OK;
    st_sha256_init(&sha256);
    if (source->is_archive)
        status = verify_archive(source, &sha256, options, result, diag);
    else if (options->sha256)
        status = hash_plain(source, &sha256, options, diag);
    if (status == LMC_OK) {
        result->file_nbytes = source->file_nbytes;
        result->stored_nbytes = source->input.nbytes;
        result->tensor_count = source->header.tensor_count;
        result->is_archive = source->is_archive;
    }
    if (status == LMC_OK && options->sha256)
        st_sha256_finish(&sha256, result->sha256);
    return status;
}

/* An archive that was cut short, as `diag` has it: says so, then names the tensors that are damaged. */
static lmc_status verify_short_file(const char *in_path, const lmc_st_options *options, lmc_st_result *result,
                                    lmc_st_diag *diag)
{
    lmc_st_diag later;
    lmc_st_file *source = NULL;
    lmc_st_options lenient = *options;
    lenient.salvage = 1;
    lenient.sha256 = 0;
    lmc_status status = st_file_open_input(in_path, &lenient, &source, &later);
    if (status == LMC_OK && source->is_archive) {
        if (options->damage)
            options->damage(options->user, diag);
        status = verify_archive(source, NULL, &lenient, result, &later);
    }
    lmc_st_close(source);
    if (status != LMC_OK && !st_is_damage(status))
        *diag = later; /* cancelled, or out of memory: not all is known */
    return diag->status;
}

lmc_status st_verify_file(const char *in_path, const lmc_st_options *options, lmc_st_result *result,
                          lmc_st_diag *diag)
{
    lmc_st_file *source = NULL;
    lmc_status status = st_file_open_input(in_path, options, &source, diag);
    if (status == LMC_OK)
        status = verify_open_file(source, options, result, diag);
    else if (status == LMC_ERR_TRUNCATED && options->in_fd < 0)
        status = verify_short_file(in_path, options, result, diag);
    lmc_st_close(source);
    return status;
}

/* ---- compare ---- */

static lmc_status fail_different(const char *what, lmc_st_diag *diag)
{
    return st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET, "the archive has another %s than the file",
                   what);
}

static lmc_status compare_open_files(const lmc_st_file *archive, const lmc_st_file *plain,
                                     const lmc_st_options *options, lmc_st_diag *diag)
{
    const st_header *const a = &archive->header;
    const st_header *const b = &plain->header;
    if (!archive->is_archive || plain->is_archive)
        return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                       "an archive and a plain file are needed to be compared");
    if (archive->file_nbytes != plain->file_nbytes)
        return fail_different("size", diag);
    if (a->text_nbytes != b->text_nbytes || memcmp(a->text, b->text, a->text_nbytes) != 0)
        return fail_different("header", diag);
    const st_restoration restoration = {
        .source = archive, .options = options, .original = &plain->input, .original_path = plain->path};
    ST_TRY(st_content_open_files(archive, diag));
    ST_TRY(st_restore_tensors(&restoration, diag));
    return os_input_check_unchanged(&plain->input, diag);
}

lmc_status st_compare_files(const char *archive_path, int archive_fd, const char *plain_path,
                            const lmc_st_options *options, lmc_st_diag *diag)
{
    lmc_st_options paths_only = *options;
    lmc_st_file *archive = NULL;
    lmc_st_file *plain = NULL;
    paths_only.in_fd = -1;
    paths_only.salvage = 0;
    lmc_status status = st_file_open_input(plain_path, &paths_only, &plain, diag);
    if (status == LMC_OK) {
        paths_only.in_fd = archive_fd;
        status = st_file_open_input(archive_path, &paths_only, &archive, diag);
    }
    if (status == LMC_OK)
        status = compare_open_files(archive, plain, &paths_only, diag);
    lmc_st_close(archive);
    lmc_st_close(plain);
    return status;
}
