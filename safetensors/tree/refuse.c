/* refuse.c - tree/work.h: what cannot be done. Nothing is written here. */
#include "safetensors/tree/work.h"

#include "safetensors/header/index.h"
#include "safetensors/tree/copied.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

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
    const os_entry *const other = os_tree_find(&work->tree, place);
    const int is_taken = other && !st_tree_is_worked_on(work, other);
    st_release(work->options->allocator, place);
    return is_taken ? st_tree_refuse(work, path, LMC_ERR_ARG,
                                     work->direction == ST_TO_ARCHIVES
                                         ? "something stands where its archive would"
                                         : "something stands where it would be restored")
                    : LMC_OK;
}

static lmc_status check_entry(const st_tree_work *work, const os_entry *entry)
{
    lmc_status status = LMC_OK;
    char *const path = os_path_join(work->options->allocator, work->in_path, entry->path, "");
    if (!path)
        return st_fail_nomem(work->diag);
    if (st_tree_is_worked_on(work, entry))
        status = check_place(work, entry, path);
    else if (st_index_is_name(entry->path))
        status = st_index_check(work->options->allocator, path,
                                work->direction == ST_TO_ARCHIVES ? "" : ST_ARCHIVE_SUFFIX, work->diag);
    st_release(work->options->allocator, path);
    return status;
}

/* Names first: a path that is too long cannot be opened. */
static lmc_status decide(st_tree_work *work)
{
    ST_TRY(st_tree_decide_by_names(work));
    for (size_t i = 0; i < work->tree.count; i++) {
        const os_entry *const entry = &work->tree.entries[i];
        const int is_worked = work->is_worked[i];
        if (st_is_cancelled(work->options->cancel))
            return st_fail_cancelled(work->diag);
        ST_TRY(check_name(work, entry));
        if (!entry->is_directory)
            ST_TRY(st_tree_decide_by_content(work, entry));
        if (work->is_worked[i] != is_worked)
            ST_TRY(check_name(work, entry));
    }
    return LMC_OK;
}

lmc_status st_tree_check(st_tree_work *work)
{
    size_t worked_count = 0;
    ST_TRY(decide(work));
    for (size_t i = 0; i < work->tree.count; i++) {
        const os_entry *const entry = &work->tree.entries[i];
        if (entry->is_directory || st_copied_is_list(entry))
            continue;
        ST_TRY(check_entry(work, entry));
        worked_count += work->is_worked[i];
        work->parts.total_nbytes += entry->nbytes;
    }
    if (worked_count == 0)
        return st_tree_refuse(work, work->in_path, LMC_ERR_ARG,
                              work->direction == ST_TO_ARCHIVES ? "holds no file that can be converted"
                                                                : "holds no LMC archive");
    return work->direction != ST_TO_ARCHIVES
               ? LMC_OK
               : st_copied_list(&work->tree, work->is_worked, work->in_path, &work->copied,
                                &work->copied_nbytes, work->diag);
}
