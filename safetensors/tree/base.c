/*
 * base.c - looks for the base of a directory's file by its name.
 */
#include "safetensors/tree/base.h"

#include "safetensors/archive/links.h"
#include "safetensors/base/folders.h"
#include "safetensors/common/names.h"
#include "safetensors/os/dir.h"

#include <string.h>

/* The file of this name in the base directory, or its archive; *path stays NULL if neither is there. folder: NULL if it
 * is in the root. */
static int find_file(const lmc_st_options *options, char *folder, const char *name, char **path)
{
    static const char *const suffixes[] = {"", ST_ARCHIVE_SUFFIX};
    char *place = NULL;
    int has_memory = st_find_folder(options->allocator, options->base, folder, &place);
    for (size_t i = 0; i < 2 && place && !*path && has_memory; i++) {
        char *const candidate = os_path_join(options->allocator, place, name, suffixes[i]);
        has_memory = candidate != NULL;
        if (candidate && os_is_file(candidate))
            *path = candidate;
        else
            st_release(options->allocator, candidate);
    }
    st_release(options->allocator, place);
    return has_memory;
}

/* folder: NULL for the directory itself. One that is not there is left out. */
static int add_dir(st_tree_base *base, const lmc_st_options *options, const char *dir, char *folder)
{
    char *path = NULL;
    const int has_memory = st_find_folder(options->allocator, dir, folder, &path);
    if (path)
        base->dirs[base->dir_count++] = path;
    return has_memory;
}

static int list_dirs(st_tree_base *base, const lmc_st_options *options, char *folder)
{
    base->dirs = st_allocate(options->allocator, (2 * options->base_dir_count + 1) * sizeof *base->dirs);
    if (!base->dirs)
        return 0;
    for (size_t i = 0; i < options->base_dir_count; i++) {
        const char *const dir = options->base_dirs[i];
        if ((folder && !add_dir(base, options, dir, folder)) || !add_dir(base, options, dir, NULL))
            return 0;
    }
    return 1;
}

lmc_status st_tree_base_find(st_tree_base *base, const lmc_st_options *options, const char *path,
                             int is_archive, lmc_st_options *inner, lmc_st_diag *diag)
{
    char *const copy = st_duplicate(options->allocator, path);
    memset(base, 0, sizeof *base);
    if (!copy)
        return st_fail_nomem(diag);
    if (is_archive)
        copy[strlen(copy) - strlen(ST_ARCHIVE_SUFFIX)] = '\0';
    char *const slash = strrchr(copy, '/');
    char *const folder = !slash ? NULL : copy;
    const char *const name = !slash ? copy : slash + 1;
    if (slash)
        *slash = '\0';
    /* a file whose name could not be recorded is no base */
    const int may_be_there = options->base && st_base_name_is_valid(name, strlen(name));
    const int is_done =
        (!may_be_there || find_file(options, folder, name, &base->path)) && list_dirs(base, options, folder);
    st_release(options->allocator, copy);
    inner->base = base->path;
    inner->base_dirs = (const char *const *)base->dirs;
    inner->base_dir_count = base->dir_count;
    return is_done ? LMC_OK : st_fail_nomem(diag);
}

void st_tree_base_free(st_tree_base *base, const lmc_allocator *memory)
{
    for (size_t i = 0; i < base->dir_count; i++)
        st_release(memory, base->dirs[i]);
    st_release(memory, base->dirs);
    st_release(memory, base->path);
    memset(base, 0, sizeof *base);
}

lmc_status st_tree_base_check(const lmc_st_options *options, lmc_st_diag *diag)
{
    if (!options->base || os_is_directory(options->base))
        return LMC_OK;
    st_diag_set_file(diag, options->base);
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the base of a directory must be a directory");
}
