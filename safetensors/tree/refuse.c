/*
 * refuse.c - tree/work.h: what of a directory is worked on, where its outputs will be, and why it cannot
 * be done. Nothing is written here.
 */
#include "safetensors/tree/work.h"

#include "safetensors/base/content.h"
#include "safetensors/base/open.h"
#include "safetensors/header/index.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* ---- names ---- */

int st_tree_is_worked_on(const st_tree_work *work, const os_entry *entry)
{
    return !entry->is_directory && (work->direction == ST_TO_ARCHIVES ? st_is_plain_name(entry->path)
                                                                      : st_is_archive_name(entry->path));
}

char *st_tree_output_path(const st_tree_work *work, const os_entry *entry, const char *root)
{
    const lmc_allocator *const memory = work->options->allocator;
    const int is_worked = st_tree_is_worked_on(work, entry);
    char *const path = os_path_join(memory, root, entry->path,
                                    is_worked && work->direction == ST_TO_ARCHIVES ? ST_ARCHIVE_SUFFIX : "");
    if (path && is_worked && work->direction == ST_FROM_ARCHIVES)
        path[strlen(path) - strlen(ST_ARCHIVE_SUFFIX)] = '\0';
    return path;
}

/* ---- what is refused before anything is written ---- */

lmc_status st_tree_refuse(const st_tree_work *work, const char *path, lmc_status status, const char *text)
{
    st_diag_set_file(work->diag, path);
    return st_fail(work->diag, status, LMC_ST_NO_OFFSET, "%s", text);
}

lmc_status st_tree_choose_base(st_tree_work *work, const os_entry *entry)
{
    st_tree_base_free(&work->base, work->options->allocator);
    return st_tree_base_find(&work->base, work->options, entry->path, &work->inner, work->diag);
}

/* Nothing may be found missing, or be no safetensors file, when half of the output is written. */
static lmc_status check_file_base(const st_tree_work *work, const lmc_st_file *file)
{
    lmc_st_file *base = NULL;
    if (work->direction == ST_FROM_ARCHIVES)
        return st_content_open_files(file, work->diag);
    if (!work->base.path)
        return LMC_OK;
    const st_open how = {.path = work->base.path, .fd = -1, .allocator = work->options->allocator};
    const lmc_status status = st_file_open(&how, &base, work->diag);
    lmc_st_close(base);
    return status;
}

/* A file that is worked on must open, and be what its name says. */
static lmc_status check_tensors(const st_tree_work *work, const char *path)
{
    lmc_st_file *file = NULL;
    lmc_status status = st_file_open_input(path, &work->inner, &file, work->diag);
    if (status == LMC_OK && work->direction == ST_TO_ARCHIVES && file->is_archive)
        status = st_tree_refuse(work, path, LMC_ERR_CORRUPT, "is an LMC archive already");
    if (status == LMC_OK && work->direction == ST_FROM_ARCHIVES && !file->is_archive)
        status =
            st_tree_refuse(work, path, LMC_ERR_CORRUPT, "is a plain safetensors file, not an LMC archive");
    if (status == LMC_OK)
        status = check_file_base(work, file);
    lmc_st_close(file);
    return status;
}

/* The output's names are longer than those of the input by a suffix, or its file system takes shorter ones. Files are
 * read by paths, which have a limit too. */
static lmc_status check_name(const st_tree_work *work, const os_entry *entry)
{
    const lmc_allocator *const memory = work->options->allocator;
    char *const path = os_path_join(memory, work->in_path, entry->path, "");
    char *const out_path = st_tree_output_path(work, entry, work->out_path);
    lmc_status status = LMC_OK;
    if (!path || !out_path) {
        status = st_fail_nomem(work->diag);
    } else {
        const size_t nbytes = strlen(strrchr(out_path, '/') + 1);
        const size_t path_nbytes = strlen(strlen(path) > strlen(out_path) ? path : out_path);
        st_diag_set_file(work->diag, path);
        if (nbytes > work->name_nbytes_max) {
            status = st_fail(work->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                             "its name in the output would have %zu bytes, %zu are the most there", nbytes,
                             work->name_nbytes_max);
        } else if (path_nbytes >= PATH_MAX) {
            status = st_fail(work->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                             "its path here or in the output has %zu bytes, %d are the most", path_nbytes,
                             PATH_MAX - 1);
        }
    }
    if (status == LMC_ERR_ARG)
        work->diag->os_errno = ENAMETOOLONG;
    st_release(memory, path);
    st_release(memory, out_path);
    return status;
}

/* Nothing that is copied, a directory included, may stand where the output of a file will. */
static lmc_status check_place(const st_tree_work *work, const os_entry *entry, const char *path)
{
    char *const place = st_tree_output_path(work, entry, "");
    if (!place)
        return st_fail_nomem(work->diag);
    const int is_taken = os_tree_find(&work->tree, place) != NULL;
    st_release(work->options->allocator, place);
    return is_taken ? st_tree_refuse(work, path, LMC_ERR_ARG,
                                     work->direction == ST_TO_ARCHIVES
                                         ? "something stands where its archive would"
                                         : "something stands where it would be restored")
                    : LMC_OK;
}

static lmc_status check_copied(const st_tree_work *work, const os_entry *entry, const char *path)
{
    if (work->direction == ST_TO_ARCHIVES && st_is_archive_name(entry->path))
        return st_tree_refuse(
            work, path, LMC_ERR_ARG,
            "stands where an archive would, and would be restored as one: move it away first");
    if (st_index_is_name(entry->path))
        return st_index_check(work->options->allocator, path,
                              work->direction == ST_TO_ARCHIVES ? "" : ST_ARCHIVE_SUFFIX, work->diag);
    return LMC_OK;
}

static lmc_status check_entry(st_tree_work *work, const os_entry *entry)
{
    char *const path = os_path_join(work->options->allocator, work->in_path, entry->path, "");
    if (!path)
        return st_fail_nomem(work->diag);
    const int is_worked = st_tree_is_worked_on(work, entry);
    lmc_status status = is_worked ? check_place(work, entry, path) : check_copied(work, entry, path);
    if (status == LMC_OK && is_worked)
        status = st_tree_choose_base(work, entry);
    if (status == LMC_OK && is_worked)
        status = check_tensors(work, path);
    st_release(work->options->allocator, path);
    return status;
}

lmc_status st_tree_check(st_tree_work *work)
{
    size_t worked_count = 0;
    for (size_t i = 0; i < work->tree.count; i++) {
        const os_entry *const entry = &work->tree.entries[i];
        lmc_status status = check_name(work, entry);
        if (status == LMC_OK && !entry->is_directory)
            status = check_entry(work, entry);
        if (status != LMC_OK)
            return status;
        if (entry->is_directory)
            continue;
        worked_count += (size_t)st_tree_is_worked_on(work, entry);
        work->parts.total_nbytes += entry->nbytes;
    }
    if (worked_count == 0)
        return st_tree_refuse(work, work->in_path, LMC_ERR_ARG,
                              work->direction == ST_TO_ARCHIVES ? "holds no safetensors file"
                                                                : "holds no LMC archive");
    return LMC_OK;
}
