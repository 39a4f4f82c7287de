/*
 * verify.c - reading an archive whole to see whether it is sound, or equal to the file it was made from.
 */
#include "safetensors/archive/archive_skeleton.h"
#include "safetensors/base/content.h"
#include "safetensors/restore/restore.h"

#include <string.h>

/* ---- verify ---- */

/* The whole of a plain file, for its hash alone. */
static lmc_status hash_plain(const lmc_st_file *source, st_sha256 *sha256, const st_options *options,
                             lmc_st_diag *diag)
{
    enum { PIECE_NBYTES = 1 << 20 };
    unsigned char *const piece = st_allocate(options->allocator, PIECE_NBYTES);
    lmc_status status = !piece ? st_fail_nomem(diag) : LMC_OK;
    for (uint64_t at = 0; at < source->original_nbytes && status == LMC_OK; at += PIECE_NBYTES) {
        const uint64_t left = source->original_nbytes - at;
        const size_t nbytes = left < PIECE_NBYTES ? (size_t)left : PIECE_NBYTES;
        if (st_is_cancelled(options->cancel))
            status = st_fail_cancelled(diag);
        else
            status = st_input_read(&source->input, at, piece, nbytes, diag);
        if (status == LMC_OK)
            st_sha256_update(sha256, piece, nbytes);
        if (status == LMC_OK && options->progress)
            options->progress(options->user, at + nbytes, source->original_nbytes);
    }
    st_release(options->allocator, piece);
    return status == LMC_OK ? st_input_check_unchanged(&source->input, diag) : status;
}

static void describe(const lmc_st_file *source, lmc_st_result *result)
{
    result->original_nbytes = source->original_nbytes;
    result->stored_nbytes = source->input.nbytes;
    result->tensor_count = source->header.tensor_count;
    result->is_archive = source->is_archive;
    result->container = source->container;
}

/* What an archive lacks beside its tensors: status LMC_OK if nothing. */
typedef struct whole_faults {
    lmc_st_diag skeleton;
    lmc_st_diag base;
} whole_faults;

static lmc_status verify_archive(const lmc_st_file *source, st_sha256 *sha256, const st_options *options,
                                 lmc_st_result *result, lmc_st_diag *diag)
{
    st_damage_log log;
    whole_faults faults = {.skeleton = *diag, .base = *diag};
    const lmc_status statuses[] = {st_content_open_files(source, &faults.base),
                                   st_skeleton_check(source, &faults.skeleton)};
    for (size_t i = 0; i < 2; i++) {
        if (statuses[i] != LMC_OK && !st_is_damage(statuses[i])) {
            *diag = i == 0 ? faults.base : faults.skeleton;
            return statuses[i];
        }
    }
    LMC_TRY(st_damage_log_init(&log, options->allocator, source->header.tensor_count, diag));
    const int is_hashed = options->sha256 && faults.skeleton.status == LMC_OK;
    const st_restoration restoration = {.source = source,
                                        .options = options,
                                        .sha256 = is_hashed ? sha256 : NULL,
                                        .with_skeleton = is_hashed,
                                        .without_base = faults.base.status != LMC_OK,
                                        .log = &log};
    lmc_status status = st_restore_tensors(&restoration, diag);
    /* damage of tensors comes first, then that between them; a base that is missing comes last; the call returns the
     * first, the callback gets all */
    const lmc_st_diag *const found[] = {log.lost_count > 0 ? &log.first : NULL, &faults.skeleton,
                                        &faults.base};
    const lmc_st_diag *first = NULL;
    for (size_t i = 0; i < 3 && status == LMC_OK; i++) {
        if (!found[i] || found[i]->status == LMC_OK)
            continue;
        if (options->damage && (i == 1 || (i == 2 && first))) /* those of tensors were told */
            options->damage(options->user, found[i]);
        first = first ? first : found[i];
    }
    if (first) {
        *diag = *first;
        status = first->status;
    }
    if (status == LMC_OK || first) {
        describe(source, result);
        result->damaged_count = log.lost_count + (faults.skeleton.status != LMC_OK);
    }
    st_damage_log_free(&log, options->allocator);
    return status;
}

/* An archive that was cut short, as `diag` has it: says so, then names the tensors that are damaged. */
static lmc_status verify_short_file(const char *in_path, const st_options *options, lmc_st_result *result,
                                    lmc_st_diag *diag)
{
    lmc_st_diag later;
    lmc_st_file *source = NULL;
    st_options lenient = *options;
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

lmc_status st_verify_file(const char *in_path, const st_options *options, lmc_st_result *result,
                          lmc_st_diag *diag)
{
    st_sha256 sha256;
    lmc_st_file *source = NULL;
    lmc_status status = st_file_open_input(in_path, options, &source, diag);
    st_sha256_init(&sha256);
    if (status == LMC_ERR_TRUNCATED && options->in_fd < 0)
        status = verify_short_file(in_path, options, result, diag);
    else if (status == LMC_OK && source->is_archive)
        status = verify_archive(source, &sha256, options, result, diag);
    else if (status == LMC_OK && options->sha256)
        status = hash_plain(source, &sha256, options, diag);
    if (status == LMC_OK)
        describe(source, result);
    if (status == LMC_OK && options->sha256)
        st_sha256_finish(&sha256, result->sha256);
    lmc_st_close(source);
    return status;
}

/* ---- compare ---- */

lmc_status st_compare_files(const char *archive_path, int archive_fd, const char *plain_path,
                            const st_options *options, lmc_st_diag *diag)
{
    st_input plain = {.fd = -1};
    st_options paths_only = *options;
    lmc_st_file *archive = NULL;
    paths_only.in_fd = archive_fd;
    paths_only.salvage = 0;
    st_diag_init(diag, plain_path);
    lmc_status status = st_input_open(&plain, plain_path, diag);
    if (status == LMC_OK)
        status = st_file_open_input(archive_path, &paths_only, &archive, diag);
    /* the plain file is compared as bytes: it need not be read as what it is */
    if (status == LMC_OK && !archive->is_archive)
        status = st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                         "an archive can only be compared with a plain file");
    else if (status == LMC_OK && archive->original_nbytes != plain.nbytes)
        status =
            st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET, "the archive has another size than the file");
    const st_restoration restoration = {.source = archive,
                                        .options = &paths_only,
                                        .original = &plain,
                                        .original_path = plain_path,
                                        .with_skeleton = 1};
    if (status == LMC_OK)
        status = st_content_open_files(archive, diag);
    if (status == LMC_OK)
        status = st_restore_tensors(&restoration, diag);
    if (status == LMC_OK) {
        st_diag_set_file(diag, plain_path);
        status = st_input_check_unchanged(&plain, diag);
    }
    lmc_st_close(archive);
    st_input_close(&plain);
    return status;
}
