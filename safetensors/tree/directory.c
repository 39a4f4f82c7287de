/*
 * directory.c - converts and restores a directory of models, file by file. First it reads the tree and
 * refuses what can be refused. Then the new directory grows beside its place, and takes its name when it is complete.
 */
#include "safetensors/tree/directory.h"

#include "safetensors/base/base_file.h"
#include "safetensors/convert/convert_file.h"
#include "safetensors/restore/restore.h"
#include "safetensors/tree/check.h"
#include "safetensors/tree/copied.h"
#include "safetensors/tree/tree_work.h"

#include <errno.h>
#include <string.h>

int st_is_directory(const char *path, const st_options *options)
{
    return options->in_fd < 0 && os_is_folder(path);
}

/* ---- one file ---- */

/* Adds a finished file to the result of the directory, and reports it. */
static void count_file(st_tree_work *work, const st_dir_entry *entry, lmc_st_event event,
                       const lmc_st_result *one)
{
    work->result->original_nbytes += one->original_nbytes;
    work->result->stored_nbytes += one->stored_nbytes;
    work->result->tensor_count += one->tensor_count;
    work->result->file_count++;
    work->result->kept_count += event == LMC_ST_EVENT_KEPT;
    st_parts_end(&work->parts);
    if (work->options->file_done)
        work->options->file_done(work->options->user, entry->path, event, entry->nbytes,
                                 event == LMC_ST_EVENT_RESTORED ? one->original_nbytes : one->stored_nbytes);
}

/* 1 if the open archive has a base just when this call has one for it. */
static int has_base_as_wanted(const st_tree_work *work, const char *path, int fd)
{
    lmc_st_diag unused;
    lmc_st_file *file = NULL;
    st_options own = work->inner;
    own.in_fd = fd;
    const int has_base =
        st_file_open_input(path, &own, &file, &unused) == LMC_OK && file->bases.file_count > 0;
    lmc_st_close(file);
    return has_base == (work->inner.base != NULL);
}

/* The archive of an earlier run at `out` if it is there, this user's and what this call would write but for its level:
 * its descriptor; else -1. */
static int open_kept(const st_tree_work *work, const char *in_path, const st_place *out)
{
    lmc_st_diag unused;
    st_options quiet = work->inner;
    const int fd = st_staged_open(out);
    quiet.progress = NULL;
    if (fd >= 0 && (!has_base_as_wanted(work, out->path, fd) ||
                    st_compare_files(out->path, fd, in_path, &quiet, &unused) != LMC_OK)) {
        os_close(fd);
        return -1;
    }
    return fd;
}

/* The same for the archive in the directory that is to be replaced. It gets a second name, and must have the attributes
 * of the input already: the directory stays as it is if this call fails. */
static int open_old(const st_tree_work *work, const st_dir_entry *entry, const char *in_path,
                    const st_place *out)
{
    os_state found;
    int fd = -1;
    char *const old = st_tree_output_path(work, entry, work->staging.target);
    if (old && os_lstat(OS_HERE, old, &found) == 0) {
        const st_attributes has = st_attributes_of(&found);
        const st_attributes *const wanted = &entry->attributes;
        if (has.permissions == wanted->permissions && has.modified_s == wanted->modified_s &&
            has.modified_ns == wanted->modified_ns && st_staged_link(out, old)) {
            fd = open_kept(work, in_path, out);
            if (fd < 0)
                st_staged_unlink(out);
        }
    }
    st_release(work->options->allocator, old);
    return fd;
}

/* Converts or restores a file. What an earlier run has finished is kept; so is the archive of a directory that is to be
 * replaced. */
static lmc_status work_on_file(st_tree_work *work, const st_dir_entry *entry, const char *in_path,
                               const st_place *out)
{
    lmc_st_result one = {0};
    lmc_st_file *file = NULL;
    st_options own = work->inner;
    const int is_forward = work->direction == ST_TO_ARCHIVES;
    int fd = is_forward ? open_kept(work, in_path, out) : -1;
    if (is_forward && fd < 0)
        fd = open_old(work, entry, in_path, out);
    if (fd < 0) {
        LMC_TRY(is_forward ? st_convert_file(in_path, out, &work->inner, &one, work->diag)
                           : st_restore_file(in_path, out, &work->inner, &one, work->diag));
        work->finished_count++;
        count_file(work, entry, is_forward ? LMC_ST_EVENT_CONVERTED : LMC_ST_EVENT_RESTORED, &one);
        return LMC_OK;
    }
    work->finished_count++;
    own.in_fd = fd;
    lmc_status status = st_file_open_input(out->path, &own, &file, work->diag);
    const int os_errno = status == LMC_OK ? st_finish(fd, &entry->attributes, work->options->no_fsync) : 0;
    if (os_errno != 0)
        status = st_fail_os(work->diag, os_errno, LMC_ST_NO_OFFSET, "cannot finish the file");
    if (status == LMC_OK)
        count_file(work, entry, LMC_ST_EVENT_KEPT,
                   &(lmc_st_result){.original_nbytes = file->original_nbytes,
                                    .stored_nbytes = file->input.nbytes,
                                    .tensor_count = file->header.tensor_count});
    lmc_st_close(file);
    os_close(fd);
    return status;
}

static lmc_status copy_file(st_tree_work *work, const st_dir_entry *entry, const char *in_path,
                            const st_place *out)
{
    st_input input;
    st_output output;
    st_diag_init(work->diag, in_path);
    LMC_TRY(st_input_open(&input, in_path, work->diag));
    lmc_status status = st_output_open(&output, &work->inner, out, &input, 0, work->diag);
    if (status == LMC_OK) {
        status = st_output_copy(&output, &input, &work->inner, work->diag);
        if (status == LMC_OK)
            status = st_input_check_unchanged(&input, work->diag);
        status = st_output_close(&output, &work->inner, status, work->diag);
    }
    st_input_close(&input);
    if (status == LMC_OK)
        count_file(work, entry, LMC_ST_EVENT_COPIED,
                   &(lmc_st_result){.original_nbytes = entry->nbytes, .stored_nbytes = entry->nbytes});
    return status;
}

static lmc_status write_entry(st_tree_work *work, const st_dir_entry *entry)
{
    const lmc_allocator *const memory = work->options->allocator;
    char *const in_path = lmc_path_join(memory, work->in_path, entry->path, "");
    char *const out_path = st_tree_output_path(work, entry, "");
    lmc_status status = LMC_OK;
    st_parts_begin(&work->parts, entry->is_directory ? 0 : entry->nbytes);
    if (!in_path || !out_path) {
        status = st_fail_nomem(work->diag);
    } else if (st_is_cancelled(work->options->cancel)) {
        status = st_fail_cancelled(work->diag);
    } else if (entry->is_directory) {
        status = st_staged_make_directory(&work->staging, out_path, work->diag);
    } else {
        st_place out;
        const int is_worked = st_tree_is_worked_on(work, entry);
        status = st_staged_place(&work->staging, out_path, &out, work->diag);
        if (status == LMC_OK && is_worked)
            status = st_tree_choose_base(work, entry);
        if (status == LMC_OK)
            status =
                is_worked ? work_on_file(work, entry, in_path, &out) : copy_file(work, entry, in_path, &out);
        st_staged_place_close(&work->staging, &out);
    }
    st_release(memory, in_path);
    st_release(memory, out_path);
    return status;
}

/* ---- the directory ---- */

/* Removes what an earlier run left and this one has no use for: what is neither a folder of this tree nor may be an
 * archive of it. Folders of a run that was killed at its end may be read-only by now. */
static lmc_status clean_staging(st_tree_work *work)
{
    st_listing old;
    const st_staging *const staging = &work->staging;
    lmc_status status =
        st_listing_read_as_it_stands(&old, work->options->allocator, staging->fd, staging->path, work->diag);
    for (size_t i = 0; i < old.count && status == LMC_OK; i++)
        if (old.entries[i].is_directory)
            status = st_staged_make_directory(staging, old.entries[i].path, work->diag);
    for (size_t i = old.count; i > 0 && status == LMC_OK; i--) {
        const st_dir_entry *const entry = &old.entries[i - 1];
        const st_dir_entry *source = NULL;
        if (entry->is_directory)
            source = st_listing_find(&work->tree, entry->path);
        else if (work->direction == ST_TO_ARCHIVES && lmc_is_archive_name(entry->path))
            source = st_listing_find_original(&work->tree, entry->path, strlen(LMC_ARCHIVE_SUFFIX));
        if (source && !entry->is_directory && !st_tree_is_worked_on(work, source))
            source = NULL; /* it would be the archive of a file that is copied now */
        if (!source || source->is_directory != entry->is_directory)
            status = st_staged_remove(staging, entry->path, work->diag);
        else
            work->found_count += !entry->is_directory;
    }
    st_listing_free(&old);
    return status;
}

/* The output must not be, hold, or be part of `base`: a directory that is in the way is removed with all that is in it.
 * may_add: a new one may be made in it. */
static lmc_status check_base_is_elsewhere(const st_tree_work *work, const char *base, int may_add)
{
    const lmc_allocator *const memory = work->options->allocator;
    const int is_held = st_is_within(memory, base, work->out_path);
    const int is_safe = is_held != 0 || (may_add && !os_is_folder(work->out_path));
    const int is_part = is_safe ? 0 : st_is_within(memory, work->out_path, base);
    if (is_held < 0 || is_part < 0)
        return st_fail_nomem(work->diag);
    if (is_held)
        return st_tree_refuse(work, work->out_path, LMC_ERR_ARG, "the output is the base or holds it");
    return is_part ? st_tree_refuse(work, work->out_path, LMC_ERR_ARG, "the output is in the base") : LMC_OK;
}

/* The bases of an archive that is restored, or is a base itself. They may have been found beside it. */
typedef struct base_check {
    const st_tree_work *work;
    lmc_status status;
} base_check;

static lmc_status look_at_base(void *user, const lmc_st_file *base)
{
    base_check *const check = user;
    return check_base_is_elsewhere(check->work, base->path, 0);
}

/* A missing base is reported when the archive is restored. */
static int look_at_bases(void *user, const lmc_st_file *file)
{
    base_check *const check = user;
    check->status = st_file_visit_bases(file, look_at_base, check, NULL);
    if (check->status == LMC_ERR_NOMEM)
        (void)st_fail_nomem(check->work->diag);
    return check->status != LMC_OK;
}

/* Nothing that the archives are based on, at whatever distance, may be in a directory that is replaced. */
static lmc_status check_bases_are_elsewhere(const st_tree_work *work)
{
    const st_options *const options = work->options;
    const int is_forward = work->direction == ST_TO_ARCHIVES;
    const char *const archives = is_forward ? options->base : work->in_path;
    base_check check = {.work = work};
    st_options own = *options;
    if (options->base)
        LMC_TRY(check_base_is_elsewhere(work, options->base, 0));
    for (size_t i = 0; i < options->base_dir_count; i++)
        LMC_TRY(check_base_is_elsewhere(work, options->base_dirs[i], 1));
    if (!archives || !options->force || !os_is_folder(work->out_path))
        return LMC_OK;
    if (is_forward)
        own.base = NULL; /* it has no base but those that its archives name */
    /* a plain directory may have other files that are named like archives: they can be no base */
    LMC_TRY(st_tree_visit(archives, &own, !is_forward, look_at_bases, &check, work->diag));
    return check.status;
}

/* What was converted must still be what the tree was when it was listed: files of different states make no snapshot. */
static lmc_status check_unchanged(const st_tree_work *work)
{
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < work->tree.count && status == LMC_OK; i++) {
        os_state now;
        const st_dir_entry *const entry = &work->tree.entries[i];
        const st_attributes *const was = &entry->attributes;
        if (work->direction != ST_TO_ARCHIVES || !st_tree_is_worked_on(work, entry))
            continue;
        char *const path = lmc_path_join(work->options->allocator, work->in_path, entry->path, "");
        if (!path)
            status = st_fail_nomem(work->diag);
        else if (os_stat(OS_HERE, path, &now) != 0 || now.nbytes != entry->nbytes ||
                 now.modified_s != was->modified_s || now.modified_ns != was->modified_ns)
            status =
                st_tree_refuse(work, path, LMC_ERR_IO, "the file has changed while the directory was read");
        st_release(work->options->allocator, path);
    }
    return status;
}

/* Keeps the finished archives for the next run, and says so, if they are worth it: the run was cancelled, or what
 * stopped it can be mended. Else nothing is left. */
static lmc_status end_unfinished(st_tree_work *work, lmc_status status)
{
    lmc_st_diag *const diag = work->diag;
    const int is_mendable = diag->os_errno == ENOSPC || diag->os_errno == EDQUOT || diag->os_errno == EIO;
    char cause[sizeof diag->text / 2];
    const size_t nbytes = strlen(diag->text);
    const size_t kept = nbytes < sizeof cause ? nbytes : sizeof cause - 1;
    if (!work->keeps_unfinished || work->finished_count + work->found_count == 0 ||
        (status != LMC_ERR_CANCELLED && !(status == LMC_ERR_IO && is_mendable))) {
        st_staging_discard(&work->staging);
        return status;
    }
    memcpy(cause, diag->text, kept);
    cause[kept] = '\0';
    st_staging_leave(&work->staging);
    return st_fail(
        diag, status, diag->offset,
        status == LMC_ERR_CANCELLED
            ? "%s; finished archives are kept beside the output for the next run"
            : "%s; finished archives are kept beside the output: mend that, and run the same again",
        cause);
}

/* Names the first entry of the tree whose name has not been written. */
static lmc_status refuse_lost_name(st_tree_work *work, const st_listing *written)
{
    const lmc_allocator *const memory = work->options->allocator;
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < work->tree.count && status == LMC_OK; i++) {
        const st_dir_entry *const entry = &work->tree.entries[i];
        if (st_copied_is_list(entry))
            continue;
        char *const path = st_tree_output_path(work, entry, "");
        if (!path)
            status = st_fail_nomem(work->diag);
        else if (!st_listing_find(written, path))
            status = st_tree_refuse(
                work, path, LMC_ERR_ARG,
                "the output's file system takes this name and another one of the tree for the same");
        st_release(memory, path);
    }
    return status;
}

/* As many names as were written must be there: where "a" and "A" are one name, a file of two has replaced the other. */
static lmc_status check_names_differ(st_tree_work *work)
{
    st_listing written;
    const st_staging *const staging = &work->staging;
    size_t wanted_count = work->copied_nbytes > 0;
    if (!st_staging_folds_case(staging))
        return LMC_OK;
    for (size_t i = 0; i < work->tree.count; i++)
        wanted_count += !st_copied_is_list(&work->tree.entries[i]);
    lmc_status status = st_listing_read_as_it_stands(&written, work->options->allocator, staging->fd,
                                                     staging->path, work->diag);
    if (status == LMC_OK && written.count < wanted_count)
        status = refuse_lost_name(work, &written);
    st_listing_free(&written);
    return status;
}

/* Copies that are named as archives. */
static lmc_status write_list_of_copied(st_tree_work *work)
{
    st_place out;
    st_output output;
    if (work->copied_nbytes == 0)
        return LMC_OK;
    lmc_status status = st_staged_place(&work->staging, LMC_COPIES_LIST, &out, work->diag);
    if (status == LMC_OK)
        status = st_output_open(&output, &work->inner, &out, NULL, 0, work->diag);
    if (status == LMC_OK) {
        status = st_output_write(&output, 0, work->copied, work->copied_nbytes, work->diag);
        status = st_output_close(&output, &work->inner, status, work->diag);
    }
    st_staged_place_close(&work->staging, &out);
    return status;
}

static lmc_status write_directory(st_tree_work *work)
{
    const st_options *const options = work->options;
    const st_staging *const staging = &work->staging;
    LMC_TRY(check_bases_are_elsewhere(work));
    LMC_TRY(st_staging_open(&work->staging, options->allocator, work->out_path, work->in_path, options->force,
                            work->diag));
    lmc_status status = clean_staging(work);
    for (size_t i = 0; i < work->tree.count && status == LMC_OK; i++)
        if (!st_copied_is_list(&work->tree.entries[i]))
            status = write_entry(work, &work->tree.entries[i]);
    if (status == LMC_OK)
        status = write_list_of_copied(work);
    if (status == LMC_OK)
        status = check_names_differ(work);
    if (status == LMC_OK)
        status = check_unchanged(work);
    /* directories get their attributes when nothing more is written into them; the root, with its name */
    for (size_t i = work->tree.count; i > 0 && status == LMC_OK; i--) {
        const st_dir_entry *const entry = &work->tree.entries[i - 1];
        if (entry->is_directory)
            status = st_staged_finish_directory(staging, entry->path, &entry->attributes, options->no_fsync,
                                                work->diag);
    }
    if (status == LMC_OK)
        status = st_staging_commit(&work->staging, &work->tree.root, options->force, options->no_fsync,
                                   work->diag);
    return status == LMC_OK ? LMC_OK : end_unfinished(work, status);
}

/* Reads the tree and decides what becomes of each file. end() follows in every case. */
static lmc_status begin(st_tree_work *work, const st_tree_work *given, lmc_st_diag *diag)
{
    const st_options *const options = given->options;
    *work = *given;
    work->diag = diag;
    work->parts.options = options;
    LMC_TRY(st_tree_base_check(options, diag));
    LMC_TRY(st_listing_read(&work->tree, options->allocator, work->in_path, diag));
    work->name_nbytes_max = st_name_max(options->allocator, work->out_path);
    work->inner = st_parts_options(&work->parts);
    work->inner.force = 1;
    work->inner.raw = 0;
    return st_tree_check(work);
}

static void end(st_tree_work *work)
{
    const lmc_allocator *const memory = work->options->allocator;
    st_release(memory, work->is_worked);
    st_release(memory, work->copied);
    st_listing_free(&work->tree);
    st_tree_base_free(&work->base, memory);
    st_folder_names_free(&work->base_names, memory);
}

static lmc_status transform(const st_tree_work *given, lmc_st_diag *diag)
{
    st_tree_work work;
    const st_options *const options = given->options;
    if (options->out_fd >= 0 || options->salvage)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "is a directory: it can be neither streamed nor salvaged");
    if (options->raw && given->direction == ST_TO_ARCHIVES)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is a directory: raw is for a file");
    lmc_status status = begin(&work, given, diag);
    if (status == LMC_OK)
        status = write_directory(&work);
    end(&work);
    if (status != LMC_OK)
        memset(work.result, 0, sizeof *work.result);
    return status;
}

lmc_status st_tree_visit_sources(const char *in_path, const st_options *options, st_source_fn visit,
                                 void *user, lmc_st_diag *diag)
{
    lmc_st_result unused = {0};
    st_tree_work work;
    const st_tree_work given = {.in_path = in_path,
                                .out_path = in_path,
                                .direction = ST_TO_ARCHIVES,
                                .options = options,
                                .result = &unused};
    lmc_status status = begin(&work, &given, diag);
    for (size_t i = 0; i < work.tree.count && status == LMC_OK; i++) {
        if (!st_tree_is_worked_on(&work, &work.tree.entries[i]))
            continue;
        char *const path = lmc_path_join(options->allocator, in_path, work.tree.entries[i].path, "");
        status = path ? st_convert_visit_file(path, options, visit, user, diag) : st_fail_nomem(diag);
        st_release(options->allocator, path);
    }
    end(&work);
    return status;
}

lmc_status st_tree_convert(const char *in_path, const char *out_path, int keeps_unfinished,
                           const st_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    const st_tree_work work = {.in_path = in_path,
                               .out_path = out_path,
                               .direction = ST_TO_ARCHIVES,
                               .keeps_unfinished = keeps_unfinished,
                               .options = options,
                               .result = result};
    return transform(&work, diag);
}

lmc_status st_tree_restore(const char *in_path, const char *out_path, const st_options *options,
                           lmc_st_result *result, lmc_st_diag *diag)
{
    const st_tree_work work = {.in_path = in_path,
                               .out_path = out_path,
                               .direction = ST_FROM_ARCHIVES,
                               .options = options,
                               .result = result};
    return transform(&work, diag);
}
