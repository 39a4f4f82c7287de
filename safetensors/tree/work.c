/* work.c - tree/work.h: what is asked of one entry. */
#include "safetensors/tree/work.h"

#include <string.h>

int st_tree_is_worked_on(const st_tree_work *work, const os_entry *entry)
{
    return work->is_worked[entry - work->tree.entries];
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

lmc_status st_tree_refuse(const st_tree_work *work, const char *path, lmc_status status, const char *text)
{
    st_diag_set_file(work->diag, path);
    return st_fail(work->diag, status, LMC_ST_NO_OFFSET, "%s", text);
}

lmc_status st_tree_choose_base(st_tree_work *work, const os_entry *entry)
{
    st_tree_base_free(&work->base, work->options->allocator);
    return st_tree_base_find(&work->base, work->options, entry->path, work->direction == ST_FROM_ARCHIVES,
                             &work->inner, work->diag);
}
