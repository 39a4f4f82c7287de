/*
 * base.c - looks for the base of a directory's file by its name.
 */
#include "safetensors/tree/base.h"

#include "safetensors/common/names.h"
#include "safetensors/os/dir.h"

#include <string.h>

/* The file of this name in the base directory, or its archive; *path stays NULL if neither is there. */
static int find_file(const lmc_st_options *options, const char *name, char **path)
{
    static const char *const suffixes[] = {"", ST_ARCHIVE_SUFFIX};
    for (size_t i = 0; i < 2 && !*path; i++) {
        char *const candidate = os_path_join(options->allocator, options->base, name, suffixes[i]);
        if (!candidate)
            return 0;
        if (os_is_file(candidate))
            *path = candidate;
        else
            st_release(options->allocator, candidate);
    }
    return 1;
}

static int add_dir(st_tree_base *base, const lmc_st_options *options, const char *dir, const char *folder)
{
    char *const path = os_path_join(options->allocator, dir, folder, "");
    if (path)
        base->dirs[base->dir_count++] = path;
    return path != NULL;
}

/* `name` loses its last component. */
static int list_dirs(st_tree_base *base, const lmc_st_options *options, char *name)
{
    char *const slash = strrchr(name, '/');
    base->dirs = st_allocate(options->allocator, (2 * options->base_dir_count + 1) * sizeof *base->dirs);
    if (!base->dirs)
        return 0;
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i < options->base_dir_count; i++) {
        const char *const dir = options->base_dirs[i];
        if ((slash && !add_dir(base, options, dir, name)) || !add_dir(base, options, dir, ""))
            return 0;
    }
    return 1;
}

lmc_status st_tree_base_find(st_tree_base *base, const lmc_st_options *options, const char *path,
                             lmc_st_options *inner, lmc_st_diag *diag)
{
    char *const name = st_duplicate(options->allocator, path);
    memset(base, 0, sizeof *base);
    if (!name)
        return st_fail_nomem(diag);
    if (st_is_archive_name(name))
        name[strlen(name) - strlen(ST_ARCHIVE_SUFFIX)] = '\0';
    const int is_done =
        (!options->base || find_file(options, name, &base->path)) && list_dirs(base, options, name);
    st_release(options->allocator, name);
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
