/*
 * model_dir.c - see tree/model_dir.h. First the tree is read and everything that can be refused is
 * refused; then a directory grows beside its place, file by file, and takes its name when it is complete.
 */
#include "safetensors/tree/model_work.h"

#include "safetensors/convert/convert.h"
#include "safetensors/restore/restore.h"

#include <errno.h>
#include <string.h>

/* Bytes of a file that are copied at once. */
#define COPY_NBYTES ((size_t)1 << 20)

/* ---- one file ---- */

static void tell(st_model_dir *dir, const os_entry *entry, lmc_st_event event, uint64_t out_nbytes)
{
    dir->result->file_count++;
    dir->result->kept_count += event == LMC_ST_EVENT_KEPT;
    st_parts_end(&dir->parts);
    if (dir->options->file_done)
        dir->options->file_done(dir->options->user, entry->path, event, entry->nbytes, out_nbytes);
}

static lmc_status copy_bytes(const st_model_dir *dir, const os_input *input, const os_output *output)
{
    unsigned char *const piece = st_allocate(dir->options->allocator, COPY_NBYTES);
    lmc_status status = !piece ? st_fail_nomem(dir->diag) : LMC_OK;
    for (uint64_t at = 0; at < input->nbytes && status == LMC_OK; at += COPY_NBYTES) {
        const size_t nbytes = input->nbytes - at < COPY_NBYTES ? (size_t)(input->nbytes - at) : COPY_NBYTES;
        if (st_is_cancelled(dir->options->cancel))
            status = st_fail_cancelled(dir->diag);
        else
            status = os_input_read(input, at, piece, nbytes, dir->diag);
        if (status == LMC_OK)
            status = os_output_write(output, at, piece, nbytes, dir->diag);
    }
    st_release(dir->options->allocator, piece);
    return status == LMC_OK ? os_input_check_unchanged(input, dir->diag) : status;
}

static lmc_status copy_file(st_model_dir *dir, const os_entry *entry, const char *in_path,
                            const os_place *out)
{
    os_input input;
    os_output output;
    st_diag_init(dir->diag, in_path);
    lmc_status status = os_input_open(&input, in_path, dir->diag);
    if (status != LMC_OK)
        return status;
    status = os_output_create(&output, dir->options->allocator, out, &input, 1, dir->diag);
    if (status == LMC_OK) {
        status = copy_bytes(dir, &input, &output);
        if (status == LMC_OK)
            status = os_output_commit(&output, 1, dir->options->no_fsync, dir->diag);
        else
            os_output_discard(&output);
    }
    os_input_close(&input);
    if (status == LMC_OK) {
        dir->result->file_nbytes += entry->nbytes;
        dir->result->stored_nbytes += entry->nbytes;
        tell(dir, entry, LMC_ST_EVENT_COPIED, entry->nbytes);
    }
    return status;
}

/* The archive of an earlier run at `out` if it is there, this user's and restores to `in_path`: its descriptor; else
 * -1. */
static int open_kept(const st_model_dir *dir, const char *in_path, const os_place *out)
{
    lmc_st_diag unused;
    lmc_st_options quiet = dir->inner;
    const int fd = os_staged_open(out);
    quiet.progress = NULL;
    if (fd >= 0 && st_compare_files(out->path, fd, in_path, &quiet, &unused) != LMC_OK) {
        os_close(fd);
        return -1;
    }
    return fd;
}

/* The same for the archive of a directory that is to be replaced, which gets a second name first. */
static int open_taken_over(const st_model_dir *dir, const os_entry *entry, const char *in_path,
                           const os_place *out)
{
    char *const old = st_model_output_path(dir, entry, dir->staging.target);
    int fd = -1;
    if (old && os_staged_link(out, old)) {
        fd = open_kept(dir, in_path, out);
        if (fd < 0)
            os_staged_unlink(out);
    }
    st_release(dir->options->allocator, old);
    return fd;
}

/* Closes `fd`. */
static lmc_status add_kept(st_model_dir *dir, const os_entry *entry, const char *path, int fd)
{
    lmc_st_file *file = NULL;
    lmc_st_options own = dir->inner;
    own.in_fd = fd;
    lmc_status status = st_file_open_input(path, &own, &file, dir->diag);
    if (status == LMC_OK) {
        const int os_errno = os_finish(fd, &entry->attributes, dir->options->no_fsync);
        status = os_errno == 0 ? LMC_OK
                               : st_fail_os(dir->diag, os_errno, LMC_ST_NO_OFFSET, "cannot finish the file");
    }
    if (status == LMC_OK) {
        dir->result->file_nbytes += file->file_nbytes;
        dir->result->stored_nbytes += file->input.nbytes;
        dir->result->tensor_count += file->header.tensor_count;
        tell(dir, entry, LMC_ST_EVENT_KEPT, file->input.nbytes);
    }
    lmc_st_close(file);
    os_close(fd);
    return status;
}

static lmc_status work_on_file(st_model_dir *dir, const os_entry *entry, const char *in_path,
                               const os_place *out)
{
    lmc_st_result one;
    const int is_forward = dir->direction == ST_TO_ARCHIVES;
    memset(&one, 0, sizeof one);
    int fd = is_forward ? open_kept(dir, in_path, out) : -1;
    if (is_forward && fd < 0)
        fd = open_taken_over(dir, entry, in_path, out);
    if (fd >= 0) {
        dir->finished_count++;
        return add_kept(dir, entry, out->path, fd);
    }
    const lmc_status status = is_forward ? st_convert_file(in_path, out, &dir->inner, &one, dir->diag)
                                         : st_restore_file(in_path, out, &dir->inner, &one, dir->diag);
    if (status != LMC_OK)
        return status;
    dir->finished_count++;
    dir->result->file_nbytes += one.file_nbytes;
    dir->result->stored_nbytes += one.stored_nbytes;
    dir->result->tensor_count += one.tensor_count;
    tell(dir, entry, is_forward ? LMC_ST_EVENT_CONVERTED : LMC_ST_EVENT_RESTORED,
         is_forward ? one.stored_nbytes : one.file_nbytes);
    return LMC_OK;
}

static lmc_status write_file(st_model_dir *dir, const os_entry *entry, const char *in_path,
                             const char *out_path)
{
    os_place out;
    lmc_status status = os_staged_place(&dir->staging, out_path, &out, dir->diag);
    if (status == LMC_OK && st_model_is_worked_on(dir, entry)) {
        status = st_model_choose_base(dir, entry);
        status = status == LMC_OK ? work_on_file(dir, entry, in_path, &out) : status;
    } else if (status == LMC_OK) {
        status = copy_file(dir, entry, in_path, &out);
    }
    os_staged_place_close(&dir->staging, &out);
    return status;
}

static lmc_status write_entry(st_model_dir *dir, const os_entry *entry)
{
    const lmc_allocator *const memory = dir->options->allocator;
    char *const in_path = os_path_join(memory, dir->in_path, entry->path, "");
    char *const out_path = st_model_output_path(dir, entry, "");
    lmc_status status = LMC_OK;
    st_parts_begin(&dir->parts, entry->is_directory ? 0 : entry->nbytes);
    if (!in_path || !out_path)
        status = st_fail_nomem(dir->diag);
    else if (st_is_cancelled(dir->options->cancel))
        status = st_fail_cancelled(dir->diag);
    else if (entry->is_directory)
        status = os_staged_make_directory(&dir->staging, out_path, dir->diag);
    else
        status = write_file(dir, entry, in_path, out_path);
    st_release(memory, in_path);
    st_release(memory, out_path);
    return status;
}

/* ---- the directory ---- */

/* 1 if the entry of an unfinished directory is a folder, or may be an archive, of this tree. -1: out of memory. */
static int is_wanted(const st_model_dir *dir, const os_entry *entry)
{
    if (entry->is_directory) {
        const os_entry *const source = os_tree_find(&dir->tree, entry->path);
        return source && source->is_directory;
    }
    if (dir->direction != ST_TO_ARCHIVES || !st_is_archive_name(entry->path))
        return 0;
    char *const name = st_duplicate(dir->options->allocator, entry->path);
    if (!name)
        return -1;
    name[strlen(name) - strlen(ST_ARCHIVE_SUFFIX)] = '\0';
    const os_entry *const source = os_tree_find(&dir->tree, name);
    st_release(dir->options->allocator, name);
    return source && !source->is_directory;
}

static lmc_status clean_entry(st_model_dir *dir, const os_entry *entry)
{
    const int wanted = is_wanted(dir, entry);
    if (wanted < 0)
        return st_fail_nomem(dir->diag);
    dir->found_count += wanted && !entry->is_directory;
    return wanted ? LMC_OK : os_staged_remove(&dir->staging, entry->path, dir->diag);
}

/* Removes what an earlier run left and this one has no use for. Folders of a run that was killed at its end may be
 * read-only by now. */
static lmc_status clean_staging(st_model_dir *dir)
{
    os_tree old;
    const os_staging *const staging = &dir->staging;
    lmc_status status =
        os_tree_read_as_it_stands(&old, dir->options->allocator, staging->fd, staging->path, dir->diag);
    for (size_t i = 0; i < old.count && status == LMC_OK; i++)
        if (old.entries[i].is_directory)
            status = os_staged_make_directory(staging, old.entries[i].path, dir->diag);
    for (size_t i = old.count; i > 0 && status == LMC_OK; i--)
        status = clean_entry(dir, &old.entries[i - 1]);
    os_tree_free(&old);
    return status;
}

/* Directories get their attributes when nothing more is written into them; the root, with its name. */
static lmc_status finish_directories(const st_model_dir *dir)
{
    lmc_status status = LMC_OK;
    for (size_t i = dir->tree.count; i > 0 && status == LMC_OK; i--) {
        const os_entry *const entry = &dir->tree.entries[i - 1];
        if (entry->is_directory) {
            status = os_staged_finish_directory(&dir->staging, entry->path, &entry->attributes,
                                                dir->options->no_fsync, dir->diag);
        }
    }
    return status;
}

static lmc_status fill_staging(st_model_dir *dir)
{
    lmc_status status = clean_staging(dir);
    for (size_t i = 0; i < dir->tree.count && status == LMC_OK; i++)
        status = write_entry(dir, &dir->tree.entries[i]);
    return status == LMC_OK ? finish_directories(dir) : status;
}

/* The output must not be, hold, or be part of `base`: a directory that is in the way is removed with all that is in it.
 * may_add: a new one may be made in it. */
static lmc_status check_base_is_elsewhere(const st_model_dir *dir, const char *base, int may_add)
{
    const lmc_allocator *const memory = dir->options->allocator;
    const int is_held = os_is_within(memory, base, dir->out_path);
    const int is_safe = is_held != 0 || (may_add && !os_is_directory(dir->out_path));
    const int is_part = is_safe ? 0 : os_is_within(memory, dir->out_path, base);
    if (is_held < 0 || is_part < 0)
        return st_fail_nomem(dir->diag);
    if (is_held)
        return st_model_refuse(dir, dir->out_path, LMC_ERR_ARG, "the output is the base or holds it");
    return is_part ? st_model_refuse(dir, dir->out_path, LMC_ERR_ARG, "the output is in the base") : LMC_OK;
}

static lmc_status check_bases_are_elsewhere(const st_model_dir *dir)
{
    const lmc_st_options *const options = dir->options;
    lmc_status status = !options->base ? LMC_OK : check_base_is_elsewhere(dir, options->base, 0);
    for (size_t i = 0; i < options->base_dir_count && status == LMC_OK; i++)
        status = check_base_is_elsewhere(dir, options->base_dirs[i], 1);
    return status;
}

/* 1 if the finished archives are worth keeping: the run was cancelled, or what stopped it can be mended. */
static int can_be_gone_on_with(const st_model_dir *dir, lmc_status status)
{
    const int os_errno = dir->diag->os_errno;
    const int is_mendable = os_errno == ENOSPC || os_errno == EDQUOT || os_errno == EIO;
    return dir->direction == ST_TO_ARCHIVES && dir->finished_count + dir->found_count > 0 &&
           (status == LMC_ERR_CANCELLED || (status == LMC_ERR_IO && is_mendable));
}

/* Keeps what is finished for the next run, and says so. */
static lmc_status leave_unfinished(st_model_dir *dir, lmc_status status)
{
    char cause[sizeof dir->diag->text / 2];
    const size_t nbytes = strlen(dir->diag->text);
    const size_t kept = nbytes < sizeof cause ? nbytes : sizeof cause - 1;
    memcpy(cause, dir->diag->text, kept);
    cause[kept] = '\0';
    os_staging_leave(&dir->staging);
    return st_fail(
        dir->diag, status, dir->diag->offset,
        status == LMC_ERR_CANCELLED
            ? "%s; finished archives are kept beside the output for the next run"
            : "%s; finished archives are kept beside the output: mend that, and run the same again",
        cause);
}

static lmc_status write_directory(st_model_dir *dir)
{
    const lmc_st_options *const options = dir->options;
    lmc_status status = check_bases_are_elsewhere(dir);
    if (status != LMC_OK)
        return status;
    status = os_staging_open(&dir->staging, options->allocator, dir->out_path, dir->in_path, options->force,
                             dir->diag);
    if (status != LMC_OK)
        return status;
    status = fill_staging(dir);
    if (status == LMC_OK) {
        status =
            os_staging_commit(&dir->staging, &dir->tree.root, options->force, options->no_fsync, dir->diag);
    }
    if (status == LMC_OK)
        return LMC_OK;
    if (can_be_gone_on_with(dir, status))
        return leave_unfinished(dir, status);
    os_staging_discard(&dir->staging);
    return status;
}

static void begin(st_model_dir *dir, const char *in_path, const lmc_st_options *options,
                  lmc_st_result *result, lmc_st_diag *diag)
{
    memset(dir, 0, sizeof *dir);
    dir->in_path = in_path;
    dir->options = options;
    dir->result = result;
    dir->diag = diag;
    dir->parts.options = options;
    dir->inner = st_parts_options(&dir->parts);
    dir->inner.force = 1;
}

static lmc_status transform(const char *in_path, const char *out_path, st_direction direction,
                            const lmc_st_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    st_model_dir dir;
    begin(&dir, in_path, options, result, diag);
    dir.out_path = out_path;
    dir.direction = direction;
    if (options->out_fd >= 0 || options->salvage) {
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "is a directory: it can be neither streamed nor salvaged");
    }
    lmc_status status = st_model_base_check(options, diag);
    if (status == LMC_OK)
        status = os_tree_read(&dir.tree, options->allocator, in_path, diag);
    dir.name_nbytes_max = os_name_max(options->allocator, out_path);
    if (status == LMC_OK)
        status = st_model_check_tree(&dir);
    if (status == LMC_OK)
        status = write_directory(&dir);
    os_tree_free(&dir.tree);
    st_model_base_free(&dir.base, options->allocator);
    if (status != LMC_OK)
        memset(result, 0, sizeof *result);
    return status;
}

lmc_status st_model_dir_convert(const char *in_path, const char *out_path, const lmc_st_options *options,
                                lmc_st_result *result, lmc_st_diag *diag)
{
    return transform(in_path, out_path, ST_TO_ARCHIVES, options, result, diag);
}

lmc_status st_model_dir_restore(const char *in_path, const char *out_path, const lmc_st_options *options,
                                lmc_st_result *result, lmc_st_diag *diag)
{
    return transform(in_path, out_path, ST_FROM_ARCHIVES, options, result, diag);
}
