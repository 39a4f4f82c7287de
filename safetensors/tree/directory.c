/*
 * directory.c - converts, restores and verifies a directory of models, file by file. First it reads the tree and
 * refuses what can be refused. Then the new directory grows beside its place, and takes its name when it is complete.
 */
#include "safetensors/tree/directory.h"

#include "safetensors/base/file.h"
#include "safetensors/convert/convert.h"
#include "safetensors/restore/restore.h"
#include "safetensors/tree/check.h"
#include "safetensors/tree/copied.h"
#include "safetensors/tree/work.h"

#include <errno.h>
#include <string.h>

/* Bytes of a file that are copied at once. */
#define COPY_NBYTES ((size_t)1 << 20)

int st_is_directory(const char *path, const lmc_st_options *options)
{
    return options->in_fd < 0 && os_is_directory(path);
}

/* ---- one file ---- */

/* Adds a finished file to the result of the directory, and reports it. */
static void count_file(st_tree_work *work, const os_entry *entry, lmc_st_event event,
                       const lmc_st_result *one)
{
    work->result->file_nbytes += one->file_nbytes;
    work->result->stored_nbytes += one->stored_nbytes;
    work->result->tensor_count += one->tensor_count;
    work->result->file_count++;
    work->result->kept_count += event == LMC_ST_EVENT_KEPT;
    st_parts_end(&work->parts);
    if (work->options->file_done)
        work->options->file_done(work->options->user, entry->path, event, entry->nbytes,
                                 event == LMC_ST_EVENT_RESTORED ? one->file_nbytes : one->stored_nbytes);
}

static lmc_status copy_bytes(const st_tree_work *work, const os_input *input, const os_output *output)
{
    unsigned char *const piece = st_allocate(work->options->allocator, COPY_NBYTES);
    lmc_status status = !piece ? st_fail_nomem(work->diag) : LMC_OK;
    for (uint64_t at = 0; at < input->nbytes && status == LMC_OK; at += COPY_NBYTES) {
        const size_t nbytes = input->nbytes - at < COPY_NBYTES ? (size_t)(input->nbytes - at) : COPY_NBYTES;
        if (st_is_cancelled(work->options->cancel))
            status = st_fail_cancelled(work->diag);
        else
            status = os_input_read(input, at, piece, nbytes, work->diag);
        if (status == LMC_OK)
            status = os_output_write(output, at, piece, nbytes, work->diag);
    }
    st_release(work->options->allocator, piece);
    return status == LMC_OK ? os_input_check_unchanged(input, work->diag) : status;
}

static lmc_status copy_file(st_tree_work *work, const os_entry *entry, const char *in_path,
                            const os_place *out)
{
    os_input input;
    os_output output;
    st_diag_init(work->diag, in_path);
    ST_TRY(os_input_open(&input, in_path, work->diag));
    lmc_status status = os_output_open(&output, &work->inner, out, &input, 0, work->diag);
    if (status == LMC_OK) {
        status = copy_bytes(work, &input, &output);
        status = os_output_close(&output, &work->inner, status, work->diag);
    }
    os_input_close(&input);
    if (status == LMC_OK)
        count_file(work, entry, LMC_ST_EVENT_COPIED,
                   &(lmc_st_result){.file_nbytes = entry->nbytes, .stored_nbytes = entry->nbytes});
    return status;
}

/* The archive of an earlier run at `out` if it is there, this user's and restores to `in_path`: its descriptor; else
 * -1. */
static int open_kept(const st_tree_work *work, const char *in_path, const os_place *out)
{
    lmc_st_diag unused;
    lmc_st_options quiet = work->inner;
    const int fd = os_staged_open(out);
    quiet.progress = NULL;
    if (fd >= 0 && st_compare_files(out->path, fd, in_path, &quiet, &unused) != LMC_OK) {
        os_close(fd);
        return -1;
    }
    return fd;
}

/* The same for the archive of a directory that is to be replaced, which gets a second name first. */
static int open_taken_over(const st_tree_work *work, const os_entry *entry, const char *in_path,
                           const os_place *out)
{
    char *const old = st_tree_output_path(work, entry, work->staging.target);
    int fd = -1;
    if (old && os_staged_link(out, old)) {
        fd = open_kept(work, in_path, out);
        if (fd < 0)
            os_staged_unlink(out);
    }
    st_release(work->options->allocator, old);
    return fd;
}

/* Closes `fd`. */
static lmc_status add_kept(st_tree_work *work, const os_entry *entry, const char *path, int fd)
{
    lmc_st_file *file = NULL;
    lmc_st_options own = work->inner;
    own.in_fd = fd;
    lmc_status status = st_file_open_input(path, &own, &file, work->diag);
    if (status == LMC_OK) {
        const int os_errno = os_finish(fd, &entry->attributes, work->options->no_fsync);
        status = os_errno == 0 ? LMC_OK
                               : st_fail_os(work->diag, os_errno, LMC_ST_NO_OFFSET, "cannot finish the file");
    }
    if (status == LMC_OK)
        count_file(work, entry, LMC_ST_EVENT_KEPT,
                   &(lmc_st_result){.file_nbytes = file->file_nbytes,
                                    .stored_nbytes = file->input.nbytes,
                                    .tensor_count = file->header.tensor_count});
    lmc_st_close(file);
    os_close(fd);
    return status;
}

static lmc_status work_on_file(st_tree_work *work, const os_entry *entry, const char *in_path,
                               const os_place *out)
{
    lmc_st_result one = {0};
    const int is_forward = work->direction == ST_TO_ARCHIVES;
    int fd = is_forward ? open_kept(work, in_path, out) : -1;
    if (is_forward && fd < 0)
        fd = open_taken_over(work, entry, in_path, out);
    if (fd >= 0) {
        work->finished_count++;
        return add_kept(work, entry, out->path, fd);
    }
    ST_TRY(is_forward ? st_convert_file(in_path, out, &work->inner, &one, work->diag)
                      : st_restore_file(in_path, out, &work->inner, &one, work->diag));
    work->finished_count++;
    count_file(work, entry, is_forward ? LMC_ST_EVENT_CONVERTED : LMC_ST_EVENT_RESTORED, &one);
    return LMC_OK;
}

static lmc_status write_file(st_tree_work *work, const os_entry *entry, const char *in_path,
                             const char *out_path)
{
    os_place out;
    lmc_status status = os_staged_place(&work->staging, out_path, &out, work->diag);
    if (status == LMC_OK && st_tree_is_worked_on(work, entry)) {
        status = st_tree_choose_base(work, entry);
        status = status == LMC_OK ? work_on_file(work, entry, in_path, &out) : status;
    } else if (status == LMC_OK) {
        status = copy_file(work, entry, in_path, &out);
    }
    os_staged_place_close(&work->staging, &out);
    return status;
}

static lmc_status write_entry(st_tree_work *work, const os_entry *entry)
{
    const lmc_allocator *const memory = work->options->allocator;
    char *const in_path = os_path_join(memory, work->in_path, entry->path, "");
    char *const out_path = st_tree_output_path(work, entry, "");
    lmc_status status = LMC_OK;
    st_parts_begin(&work->parts, entry->is_directory ? 0 : entry->nbytes);
    if (!in_path || !out_path)
        status = st_fail_nomem(work->diag);
    else if (st_is_cancelled(work->options->cancel))
        status = st_fail_cancelled(work->diag);
    else if (entry->is_directory)
        status = os_staged_make_directory(&work->staging, out_path, work->diag);
    else
        status = write_file(work, entry, in_path, out_path);
    st_release(memory, in_path);
    st_release(memory, out_path);
    return status;
}

/* ---- the directory ---- */

/* Removes an entry of the unfinished directory that is neither a folder of this tree nor may be an archive of it. */
static lmc_status clean_entry(st_tree_work *work, const os_entry *entry)
{
    const os_entry *source = NULL;
    if (entry->is_directory)
        source = os_tree_find(&work->tree, entry->path);
    else if (work->direction == ST_TO_ARCHIVES && st_is_archive_name(entry->path))
        source = os_tree_find_original(&work->tree, entry->path, strlen(ST_ARCHIVE_SUFFIX));
    if (source && !entry->is_directory && !st_tree_is_worked_on(work, source))
        source = NULL; /* it would be the archive of a file that is copied now */
    if (!source || source->is_directory != entry->is_directory)
        return os_staged_remove(&work->staging, entry->path, work->diag);
    work->found_count += !entry->is_directory;
    return LMC_OK;
}

/* Removes what an earlier run left and this one has no use for. Folders of a run that was killed at its end may be
 * read-only by now. */
static lmc_status clean_staging(st_tree_work *work)
{
    os_tree old;
    const os_staging *const staging = &work->staging;
    lmc_status status =
        os_tree_read_as_it_stands(&old, work->options->allocator, staging->fd, staging->path, work->diag);
    for (size_t i = 0; i < old.count && status == LMC_OK; i++)
        if (old.entries[i].is_directory)
            status = os_staged_make_directory(staging, old.entries[i].path, work->diag);
    for (size_t i = old.count; i > 0 && status == LMC_OK; i--)
        status = clean_entry(work, &old.entries[i - 1]);
    os_tree_free(&old);
    return status;
}

/* The list of copies that are named as archives, if there are any. */
static lmc_status write_copied(st_tree_work *work)
{
    os_place out;
    os_output output;
    if (work->copied_nbytes == 0)
        return LMC_OK;
    lmc_status status = os_staged_place(&work->staging, ST_COPIED_NAME, &out, work->diag);
    if (status == LMC_OK)
        status = os_output_open(&output, &work->inner, &out, NULL, 0, work->diag);
    if (status == LMC_OK) {
        status = os_output_write(&output, 0, work->copied, work->copied_nbytes, work->diag);
        status = os_output_close(&output, &work->inner, status, work->diag);
    }
    os_staged_place_close(&work->staging, &out);
    return status;
}

/* Directories get their attributes when nothing more is written into them; the root, with its name. */
static lmc_status finish_directories(const st_tree_work *work)
{
    lmc_status status = LMC_OK;
    for (size_t i = work->tree.count; i > 0 && status == LMC_OK; i--) {
        const os_entry *const entry = &work->tree.entries[i - 1];
        if (entry->is_directory) {
            status = os_staged_finish_directory(&work->staging, entry->path, &entry->attributes,
                                                work->options->no_fsync, work->diag);
        }
    }
    return status;
}

/* The output must not be, hold, or be part of `base`: a directory that is in the way is removed with all that is in it.
 * may_add: a new one may be made in it. */
static lmc_status check_base_is_elsewhere(const st_tree_work *work, const char *base, int may_add)
{
    const lmc_allocator *const memory = work->options->allocator;
    const int is_held = os_is_within(memory, base, work->out_path);
    const int is_safe = is_held != 0 || (may_add && !os_is_directory(work->out_path));
    const int is_part = is_safe ? 0 : os_is_within(memory, work->out_path, base);
    if (is_held < 0 || is_part < 0)
        return st_fail_nomem(work->diag);
    if (is_held)
        return st_tree_refuse(work, work->out_path, LMC_ERR_ARG, "the output is the base or holds it");
    return is_part ? st_tree_refuse(work, work->out_path, LMC_ERR_ARG, "the output is in the base") : LMC_OK;
}

static lmc_status check_bases_are_elsewhere(const st_tree_work *work)
{
    const lmc_st_options *const options = work->options;
    lmc_status status = !options->base ? LMC_OK : check_base_is_elsewhere(work, options->base, 0);
    for (size_t i = 0; i < options->base_dir_count && status == LMC_OK; i++)
        status = check_base_is_elsewhere(work, options->base_dirs[i], 1);
    return status;
}

/* The bases of an archive that is restored, which may have been found beside it. */
typedef struct base_check {
    const st_tree_work *work;
    lmc_status status;
} base_check;

/* A base that is missing is told when the archive is restored. */
static int look_at_bases(void *user, const lmc_st_file *file)
{
    lmc_st_diag unused = {0};
    base_check *const check = user;
    const lmc_st_file *base = NULL;
    while (check->status == LMC_OK && st_file_open_base(file, &base, &unused) == LMC_OK && base) {
        check->status = check_base_is_elsewhere(check->work, base->path, 0);
        file = base;
    }
    return check->status != LMC_OK;
}

/* Nothing that the archives are based on may be in the directory that is replaced. */
static lmc_status check_found_bases(const st_tree_work *work)
{
    base_check check = {.work = work};
    const lmc_st_options *const options = work->options;
    if (work->direction == ST_TO_ARCHIVES || !options->force || !os_is_directory(work->out_path))
        return LMC_OK;
    ST_TRY(st_tree_visit(work->in_path, options, look_at_bases, &check, work->diag));
    return check.status;
}

/* 1 if the finished archives are worth keeping: the run was cancelled, or what stopped it can be mended. */
static int can_be_gone_on_with(const st_tree_work *work, lmc_status status)
{
    const int os_errno = work->diag->os_errno;
    const int is_mendable = os_errno == ENOSPC || os_errno == EDQUOT || os_errno == EIO;
    return work->keeps_unfinished && work->finished_count + work->found_count > 0 &&
           (status == LMC_ERR_CANCELLED || (status == LMC_ERR_IO && is_mendable));
}

/* Keeps what is finished for the next run, and says so. */
static lmc_status leave_unfinished(st_tree_work *work, lmc_status status)
{
    char cause[sizeof work->diag->text / 2];
    const size_t nbytes = strlen(work->diag->text);
    const size_t kept = nbytes < sizeof cause ? nbytes : sizeof cause - 1;
    memcpy(cause, work->diag->text, kept);
    cause[kept] = '\0';
    os_staging_leave(&work->staging);
    return st_fail(
        work->diag, status, work->diag->offset,
        status == LMC_ERR_CANCELLED
            ? "%s; finished archives are kept beside the output for the next run"
            : "%s; finished archives are kept beside the output: mend that, and run the same again",
        cause);
}

static lmc_status write_directory(st_tree_work *work)
{
    const lmc_st_options *const options = work->options;
    ST_TRY(check_bases_are_elsewhere(work));
    ST_TRY(check_found_bases(work));
    ST_TRY(os_staging_open(&work->staging, options->allocator, work->out_path, work->in_path, options->force,
                           work->diag));
    lmc_status status = clean_staging(work);
    for (size_t i = 0; i < work->tree.count && status == LMC_OK; i++)
        if (!st_copied_is_list(&work->tree.entries[i]))
            status = write_entry(work, &work->tree.entries[i]);
    if (status == LMC_OK)
        status = write_copied(work);
    if (status == LMC_OK)
        status = finish_directories(work);
    if (status == LMC_OK)
        status = os_staging_commit(&work->staging, &work->tree.root, options->force, options->no_fsync,
                                   work->diag);
    if (status == LMC_OK)
        return LMC_OK;
    if (can_be_gone_on_with(work, status))
        return leave_unfinished(work, status);
    os_staging_discard(&work->staging);
    return status;
}

static lmc_status transform(const st_tree_work *given, lmc_st_diag *diag)
{
    st_tree_work work = *given;
    const lmc_st_options *const options = given->options;
    work.diag = diag;
    work.parts.options = options;
    work.inner = st_parts_options(&work.parts);
    work.inner.force = 1;
    work.inner.raw = 0;
    if (options->out_fd >= 0 || options->salvage)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "is a directory: it can be neither streamed nor salvaged");
    if (options->raw && given->direction == ST_TO_ARCHIVES)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is a directory: raw is for a file");
    lmc_status status = st_tree_base_check(options, diag);
    if (status == LMC_OK)
        status = os_tree_read(&work.tree, options->allocator, work.in_path, diag);
    work.name_nbytes_max = os_name_max(options->allocator, work.out_path);
    if (status == LMC_OK)
        status = st_tree_check(&work);
    if (status == LMC_OK)
        status = write_directory(&work);
    st_release(options->allocator, work.is_worked);
    st_release(options->allocator, work.copied);
    os_tree_free(&work.tree);
    st_tree_base_free(&work.base, options->allocator);
    if (status != LMC_OK)
        memset(work.result, 0, sizeof *work.result);
    return status;
}

lmc_status st_tree_convert(const char *in_path, const char *out_path, int keeps_unfinished,
                           const lmc_st_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    const st_tree_work work = {.in_path = in_path,
                               .out_path = out_path,
                               .direction = ST_TO_ARCHIVES,
                               .keeps_unfinished = keeps_unfinished,
                               .options = options,
                               .result = result};
    return transform(&work, diag);
}

lmc_status st_tree_restore(const char *in_path, const char *out_path, const lmc_st_options *options,
                           lmc_st_result *result, lmc_st_diag *diag)
{
    const st_tree_work work = {.in_path = in_path,
                               .out_path = out_path,
                               .direction = ST_FROM_ARCHIVES,
                               .options = options,
                               .result = result};
    return transform(&work, diag);
}
