/*
 * st_model_dir.c - see st_model_dir.h. First the tree is read and everything that can be refused is
 * refused; then a directory grows beside its place, file by file, and takes its name when it is complete.
 */
#include "st_model_dir.h"

#include "os_dir.h"
#include "st_content.h"
#include "st_convert.h"
#include "st_index.h"
#include "st_parts.h"
#include "st_restore.h"

#include <string.h>

#define PLAIN_SUFFIX ".safetensors"

/* Bytes of a file that are copied at once. */
#define COPY_NBYTES ((size_t)1 << 20)

typedef enum direction { TO_ARCHIVES, FROM_ARCHIVES } direction;

typedef struct model_dir {
    const char *in_path;
    const char *out_path;
    direction direction;
    const lmc_st_options *options; /* the caller's */
    lmc_st_options inner;          /* for single files */
    st_model_base base;            /* of the one that is worked on */
    lmc_st_result *result;
    lmc_st_diag *diag;
    os_tree tree;
    os_staging staging;
    st_parts parts;
    uint64_t finished_count; /* archives */
    uint64_t found_count;    /* what may be archives of an earlier run */
} model_dir;

static int ends_with(const char *path, const char *suffix)
{
    const size_t length = strlen(path);
    const size_t end = strlen(suffix);
    return length > end && strcmp(path + length - end, suffix) == 0;
}

int st_is_plain_name(const char *path)
{
    return ends_with(path, PLAIN_SUFFIX);
}

int st_is_archive_name(const char *path)
{
    return ends_with(path, PLAIN_SUFFIX ST_ARCHIVE_SUFFIX);
}

int st_is_directory(const char *path, const lmc_st_options *options)
{
    return options->in_fd < 0 && os_is_directory(path);
}

/* ---- names ---- */

/* 1 for files that are converted or restored, 0 for those that are copied. */
static int is_worked_on(const model_dir *dir, const os_entry *entry)
{
    return !entry->is_directory &&
           (dir->direction == TO_ARCHIVES ? st_is_plain_name(entry->path) : st_is_archive_name(entry->path));
}

/* Path of an entry in the output `root`; to be released. */
static char *output_path(const model_dir *dir, const os_entry *entry, const char *root)
{
    const lmc_allocator *const memory = dir->options->allocator;
    const int is_worked = is_worked_on(dir, entry);
    char *const path = os_path_join(memory, root, entry->path,
                                    is_worked && dir->direction == TO_ARCHIVES ? ST_ARCHIVE_SUFFIX : "");
    if (path != NULL && is_worked && dir->direction == FROM_ARCHIVES) {
        path[strlen(path) - strlen(ST_ARCHIVE_SUFFIX)] = '\0';
    }
    return path;
}

/* ---- what is refused before anything is written ---- */

static lmc_status refuse(const model_dir *dir, const char *path, lmc_status status, const char *text)
{
    st_diag_set_file(dir->diag, path);
    return st_fail(dir->diag, status, LMC_ST_NO_OFFSET, "%s", text);
}

static lmc_status choose_base(model_dir *dir, const os_entry *entry)
{
    st_model_base_free(&dir->base, dir->options->allocator);
    return st_model_base_find(&dir->base, dir->options, entry->path, &dir->inner, dir->diag);
}

/* Nothing may be found missing, or be no safetensors file, when half of the output is written. */
static lmc_status check_file_base(const model_dir *dir, const lmc_st_file *file)
{
    lmc_st_file *base = NULL;
    if (dir->direction == FROM_ARCHIVES) {
        return st_content_open_files(file, dir->diag);
    }
    if (dir->base.path == NULL) {
        return LMC_OK;
    }
    const st_open how = {.path = dir->base.path, .fd = -1, .allocator = dir->options->allocator};
    const lmc_status status = st_file_open(&how, &base, dir->diag);
    lmc_st_close(base);
    return status;
}

/* A file that is worked on must open, and be what its name says. */
static lmc_status check_tensors(const model_dir *dir, const char *path)
{
    lmc_st_file *file = NULL;
    lmc_status status = st_file_open_input(path, &dir->inner, &file, dir->diag);
    if (status == LMC_OK && dir->direction == TO_ARCHIVES && file->is_archive) {
        status = refuse(dir, path, LMC_ERR_CORRUPT, "is an LMC archive already");
    }
    if (status == LMC_OK && dir->direction == FROM_ARCHIVES && !file->is_archive) {
        status = refuse(dir, path, LMC_ERR_CORRUPT, "is a plain safetensors file, not an LMC archive");
    }
    if (status == LMC_OK) {
        status = check_file_base(dir, file);
    }
    lmc_st_close(file);
    return status;
}

/* Nothing that is copied, a directory included, may stand where the output of a file will. */
static lmc_status check_place(const model_dir *dir, const os_entry *entry, const char *path)
{
    char *const place = output_path(dir, entry, "");
    if (place == NULL) {
        return st_fail_nomem(dir->diag);
    }
    const int is_taken = os_tree_find(&dir->tree, place) != NULL;
    st_release(dir->options->allocator, place);
    return is_taken ? refuse(dir, path, LMC_ERR_ARG,
                             dir->direction == TO_ARCHIVES ? "something stands where its archive would"
                                                           : "something stands where it would be restored")
                    : LMC_OK;
}

static lmc_status check_copied(const model_dir *dir, const os_entry *entry, const char *path)
{
    if (dir->direction == TO_ARCHIVES && st_is_archive_name(entry->path)) {
        return refuse(dir, path, LMC_ERR_ARG,
                      "stands where an archive would, and would be restored as one: move it away first");
    }
    if (st_index_is_name(entry->path)) {
        return st_index_check(dir->options->allocator, path,
                              dir->direction == TO_ARCHIVES ? "" : ST_ARCHIVE_SUFFIX, dir->diag);
    }
    return LMC_OK;
}

static lmc_status check_entry(model_dir *dir, const os_entry *entry)
{
    char *const path = os_path_join(dir->options->allocator, dir->in_path, entry->path, "");
    if (path == NULL) {
        return st_fail_nomem(dir->diag);
    }
    const int is_worked = is_worked_on(dir, entry);
    lmc_status status = is_worked ? check_place(dir, entry, path) : check_copied(dir, entry, path);
    if (status == LMC_OK && is_worked) {
        status = choose_base(dir, entry);
    }
    if (status == LMC_OK && is_worked) {
        status = check_tensors(dir, path);
    }
    st_release(dir->options->allocator, path);
    return status;
}

static lmc_status check_tree(model_dir *dir)
{
    size_t worked_count = 0;
    for (size_t i = 0; i < dir->tree.count; i++) {
        const os_entry *const entry = &dir->tree.entries[i];
        if (entry->is_directory) {
            continue;
        }
        const lmc_status status = check_entry(dir, entry);
        if (status != LMC_OK) {
            return status;
        }
        worked_count += (size_t)is_worked_on(dir, entry);
        dir->parts.total_nbytes += entry->nbytes;
    }
    if (worked_count == 0) {
        return refuse(dir, dir->in_path, LMC_ERR_ARG,
                      dir->direction == TO_ARCHIVES ? "holds no safetensors file" : "holds no LMC archive");
    }
    return LMC_OK;
}

/* ---- one file ---- */

static void tell(model_dir *dir, const os_entry *entry, lmc_st_event event, uint64_t out_nbytes)
{
    dir->result->file_count++;
    dir->result->kept_count += event == LMC_ST_EVENT_KEPT;
    st_parts_end(&dir->parts);
    if (dir->options->file_done != NULL) {
        dir->options->file_done(dir->options->user, entry->path, event, entry->nbytes, out_nbytes);
    }
}

static lmc_status copy_bytes(const model_dir *dir, const os_input *input, const os_output *output)
{
    unsigned char *const piece = st_allocate(dir->options->allocator, COPY_NBYTES);
    lmc_status status = piece == NULL ? st_fail_nomem(dir->diag) : LMC_OK;
    for (uint64_t at = 0; at < input->nbytes && status == LMC_OK; at += COPY_NBYTES) {
        const size_t nbytes = input->nbytes - at < COPY_NBYTES ? (size_t)(input->nbytes - at) : COPY_NBYTES;
        if (st_is_cancelled(dir->options->cancel)) {
            status = st_fail_cancelled(dir->diag);
        } else {
            status = os_input_read(input, at, piece, nbytes, dir->diag);
        }
        if (status == LMC_OK) {
            status = os_output_write(output, at, piece, nbytes, dir->diag);
        }
    }
    st_release(dir->options->allocator, piece);
    return status == LMC_OK ? os_input_check_unchanged(input, dir->diag) : status;
}

static lmc_status copy_file(model_dir *dir, const os_entry *entry, const char *in_path, const char *out_path)
{
    os_input input;
    os_output output;
    st_diag_init(dir->diag, in_path);
    lmc_status status = os_input_open(&input, in_path, dir->diag);
    if (status != LMC_OK) {
        return status;
    }
    status = os_output_create(&output, dir->options->allocator, out_path, &input, 1, dir->diag);
    if (status == LMC_OK) {
        status = copy_bytes(dir, &input, &output);
        if (status == LMC_OK) {
            status = os_output_commit(&output, 1, dir->options->no_fsync, dir->diag);
        } else {
            os_output_discard(&output);
        }
    }
    os_input_close(&input);
    if (status == LMC_OK) {
        dir->result->file_nbytes += entry->nbytes;
        dir->result->stored_nbytes += entry->nbytes;
        tell(dir, entry, LMC_ST_EVENT_COPIED, entry->nbytes);
    }
    return status;
}

/* 1 if `archive` is there, no link, and restores to `plain`. */
static int is_archive_of(const model_dir *dir, const char *archive, const char *plain)
{
    lmc_st_diag unused;
    lmc_st_options quiet = dir->inner;
    quiet.progress = NULL;
    return os_is_own_file(archive) && st_compare_files(archive, plain, &quiet, &unused) == LMC_OK;
}

/* Takes over the archive of a directory that is to be replaced. Returns 1 if that could be done. */
static int take_over(const model_dir *dir, const os_entry *entry, const char *in_path, const char *out_path)
{
    int is_taken = 0;
    char *const old = output_path(dir, entry, dir->staging.target);
    if (old != NULL && is_archive_of(dir, old, in_path)) {
        is_taken = os_link(old, out_path) == 0;
    }
    st_release(dir->options->allocator, old);
    return is_taken;
}

static lmc_status add_kept(model_dir *dir, const os_entry *entry, const char *path)
{
    lmc_st_file *file = NULL;
    lmc_status status = st_file_open_input(path, &dir->inner, &file, dir->diag);
    if (status == LMC_OK) {
        status = os_finish_file(path, &entry->attributes, dir->options->no_fsync, dir->diag);
    }
    if (status == LMC_OK) {
        dir->result->file_nbytes += file->file_nbytes;
        dir->result->stored_nbytes += file->input.nbytes;
        dir->result->tensor_count += file->header.tensor_count;
        tell(dir, entry, LMC_ST_EVENT_KEPT, file->input.nbytes);
    }
    lmc_st_close(file);
    return status;
}

static lmc_status work_on_file(model_dir *dir, const os_entry *entry, const char *in_path,
                               const char *out_path)
{
    lmc_st_result one;
    const int is_forward = dir->direction == TO_ARCHIVES;
    memset(&one, 0, sizeof(one));
    if (is_forward && (is_archive_of(dir, out_path, in_path) ||
                       (!os_is_file(out_path) && take_over(dir, entry, in_path, out_path)))) {
        dir->finished_count++;
        return add_kept(dir, entry, out_path);
    }
    const lmc_status status = is_forward ? st_convert_file(in_path, out_path, &dir->inner, &one, dir->diag)
                                         : st_restore_file(in_path, out_path, &dir->inner, &one, dir->diag);
    if (status != LMC_OK) {
        return status;
    }
    dir->finished_count++;
    dir->result->file_nbytes += one.file_nbytes;
    dir->result->stored_nbytes += one.stored_nbytes;
    dir->result->tensor_count += one.tensor_count;
    tell(dir, entry, is_forward ? LMC_ST_EVENT_CONVERTED : LMC_ST_EVENT_RESTORED,
         is_forward ? one.stored_nbytes : one.file_nbytes);
    return LMC_OK;
}

static lmc_status write_entry(model_dir *dir, const os_entry *entry)
{
    const lmc_allocator *const memory = dir->options->allocator;
    char *const in_path = os_path_join(memory, dir->in_path, entry->path, "");
    char *const out_path = output_path(dir, entry, dir->staging.path);
    lmc_status status = LMC_OK;
    st_parts_begin(&dir->parts, entry->is_directory ? 0 : entry->nbytes);
    if (in_path == NULL || out_path == NULL) {
        status = st_fail_nomem(dir->diag);
    } else if (st_is_cancelled(dir->options->cancel)) {
        status = st_fail_cancelled(dir->diag);
    } else if (entry->is_directory) {
        status = os_make_directory(out_path, dir->diag);
    } else if (is_worked_on(dir, entry)) {
        status = choose_base(dir, entry);
        status = status == LMC_OK ? work_on_file(dir, entry, in_path, out_path) : status;
    } else {
        status = copy_file(dir, entry, in_path, out_path);
    }
    st_release(memory, in_path);
    st_release(memory, out_path);
    return status;
}

/* ---- the directory ---- */

/* Removes an entry of an unfinished directory unless it is a folder, or may be an archive, of this tree. */
static lmc_status clean_entry(model_dir *dir, const os_entry *entry)
{
    const lmc_allocator *const memory = dir->options->allocator;
    char *const name = st_duplicate(memory, entry->path);
    char *const path = os_path_join(memory, dir->staging.path, entry->path, "");
    lmc_status status = LMC_OK;
    if (name == NULL || path == NULL) {
        status = st_fail_nomem(dir->diag);
    } else if (entry->is_directory) {
        const os_entry *const source = os_tree_find(&dir->tree, name);
        if (source == NULL || !source->is_directory) {
            (void)os_tree_remove(memory, path);
        }
    } else {
        const int is_archive = dir->direction == TO_ARCHIVES && st_is_archive_name(name);
        name[strlen(name) - (is_archive ? strlen(ST_ARCHIVE_SUFFIX) : 0)] = '\0';
        const os_entry *const source = is_archive ? os_tree_find(&dir->tree, name) : NULL;
        if (source == NULL || source->is_directory) {
            status = os_remove_file(path, dir->diag);
        } else {
            dir->found_count++;
        }
    }
    st_release(memory, name);
    st_release(memory, path);
    return status;
}

/* Folders of a run that was killed at its end may be read-only by now. */
static lmc_status open_folder(const model_dir *dir, const os_entry *entry)
{
    char *const path = os_path_join(dir->options->allocator, dir->staging.path, entry->path, "");
    const lmc_status status = path == NULL ? st_fail_nomem(dir->diag) : os_make_directory(path, dir->diag);
    st_release(dir->options->allocator, path);
    return status;
}

/* Removes what an earlier run left and this one has no use for. */
static lmc_status clean_staging(model_dir *dir)
{
    os_tree old;
    lmc_status status = os_tree_read(&old, dir->options->allocator, dir->staging.path, dir->diag);
    for (size_t i = 0; i < old.count && status == LMC_OK; i++) {
        if (old.entries[i].is_directory) {
            status = open_folder(dir, &old.entries[i]);
        }
    }
    for (size_t i = old.count; i > 0 && status == LMC_OK; i--) {
        status = clean_entry(dir, &old.entries[i - 1]);
    }
    os_tree_free(&old);
    return status;
}

/* Directories get their attributes when nothing more is written into them. */
static lmc_status finish_directories(const model_dir *dir)
{
    const lmc_allocator *const memory = dir->options->allocator;
    const int no_fsync = dir->options->no_fsync;
    for (size_t i = dir->tree.count; i > 0; i--) {
        const os_entry *const entry = &dir->tree.entries[i - 1];
        if (!entry->is_directory) {
            continue;
        }
        char *const path = output_path(dir, entry, dir->staging.path);
        const lmc_status status = path == NULL
                                      ? st_fail_nomem(dir->diag)
                                      : os_finish_directory(path, &entry->attributes, no_fsync, dir->diag);
        st_release(memory, path);
        if (status != LMC_OK) {
            return status;
        }
    }
    return os_finish_directory(dir->staging.path, &dir->tree.root, no_fsync, dir->diag);
}

static lmc_status fill_staging(model_dir *dir)
{
    lmc_status status = clean_staging(dir);
    for (size_t i = 0; i < dir->tree.count && status == LMC_OK; i++) {
        status = write_entry(dir, &dir->tree.entries[i]);
    }
    return status == LMC_OK ? finish_directories(dir) : status;
}

/* The output must not be, hold, or be part of `base`: a directory that is in the way is removed with all that is in it.
 * may_add: a new one may be made in it. */
static lmc_status check_base_is_elsewhere(const model_dir *dir, const char *base, int may_add)
{
    const lmc_allocator *const memory = dir->options->allocator;
    const int is_held = os_is_within(memory, base, dir->out_path);
    const int is_safe = is_held != 0 || (may_add && !os_is_directory(dir->out_path));
    const int is_part = is_safe ? 0 : os_is_within(memory, dir->out_path, base);
    if (is_held < 0 || is_part < 0) {
        return st_fail_nomem(dir->diag);
    }
    if (is_held) {
        return refuse(dir, dir->out_path, LMC_ERR_ARG, "the output is the base or holds it");
    }
    return is_part ? refuse(dir, dir->out_path, LMC_ERR_ARG, "the output is in the base") : LMC_OK;
}

static lmc_status check_bases_are_elsewhere(const model_dir *dir)
{
    const lmc_st_options *const options = dir->options;
    lmc_status status = options->base == NULL ? LMC_OK : check_base_is_elsewhere(dir, options->base, 0);
    for (size_t i = 0; i < options->base_dir_count && status == LMC_OK; i++) {
        status = check_base_is_elsewhere(dir, options->base_dirs[i], 1);
    }
    return status;
}

static lmc_status write_directory(model_dir *dir)
{
    const lmc_st_options *const options = dir->options;
    lmc_status status = check_bases_are_elsewhere(dir);
    if (status != LMC_OK) {
        return status;
    }
    status = os_staging_open(&dir->staging, options->allocator, dir->out_path, dir->in_path, options->force,
                             dir->diag);
    if (status != LMC_OK) {
        return status;
    }
    status = fill_staging(dir);
    if (status == LMC_OK) {
        return os_staging_commit(&dir->staging, options->force, options->no_fsync, dir->diag);
    }
    if (status == LMC_ERR_CANCELLED && dir->direction == TO_ARCHIVES &&
        dir->finished_count + dir->found_count > 0) {
        st_fail(dir->diag, status, LMC_ST_NO_OFFSET,
                "cancelled; finished archives are kept beside the output for the next run");
        os_staging_leave(&dir->staging);
    } else {
        os_staging_discard(&dir->staging);
    }
    return status;
}

static void begin(model_dir *dir, const char *in_path, const lmc_st_options *options, lmc_st_result *result,
                  lmc_st_diag *diag)
{
    memset(dir, 0, sizeof(*dir));
    dir->in_path = in_path;
    dir->options = options;
    dir->result = result;
    dir->diag = diag;
    dir->parts.options = options;
    dir->inner = st_parts_options(&dir->parts);
    dir->inner.force = 1;
}

static lmc_status transform(const char *in_path, const char *out_path, direction direction,
                            const lmc_st_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    model_dir dir;
    begin(&dir, in_path, options, result, diag);
    dir.out_path = out_path;
    dir.direction = direction;
    if (options->out_fd >= 0 || options->salvage) {
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "is a directory: it can be neither streamed nor salvaged");
    }
    lmc_status status = st_model_base_check(options, diag);
    if (status == LMC_OK) {
        status = os_tree_read(&dir.tree, options->allocator, in_path, diag);
    }
    if (status == LMC_OK) {
        status = check_tree(&dir);
    }
    if (status == LMC_OK) {
        status = write_directory(&dir);
    }
    os_tree_free(&dir.tree);
    st_model_base_free(&dir.base, options->allocator);
    if (status != LMC_OK) {
        memset(result, 0, sizeof(*result));
    }
    return status;
}

lmc_status st_model_dir_convert(const char *in_path, const char *out_path, const lmc_st_options *options,
                                lmc_st_result *result, lmc_st_diag *diag)
{
    return transform(in_path, out_path, TO_ARCHIVES, options, result, diag);
}

lmc_status st_model_dir_restore(const char *in_path, const char *out_path, const lmc_st_options *options,
                                lmc_st_result *result, lmc_st_diag *diag)
{
    return transform(in_path, out_path, FROM_ARCHIVES, options, result, diag);
}
