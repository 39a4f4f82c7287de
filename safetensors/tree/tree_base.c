/*
 * tree_base.c - looks for the base of a directory's file by its name; or lists the tensors of a folder by their names,
 * and counts in which of its files those of another one are.
 */
#include "safetensors/tree/tree_base.h"

#include "safetensors/archive/links.h"
#include "safetensors/base/folders.h"
#include "safetensors/base/search.h"
#include "safetensors/files/directories.h"
#include "safetensors/files/folder.h"
#include "safetensors/header/name_key.h"

#include <stdlib.h> /* qsort */
#include <string.h>

/* Files with a tensor of one name that get a vote for it: a folder of many snapshots must not cost quadratic time. */
#define VOTES_MAX 64

/* ---- by its name ---- */

/* folder: NULL for the directory itself. One that is not there is left out. */
static int add_dir(st_tree_base *base, const st_options *options, const char *dir, char *folder)
{
    char *path = NULL;
    const int has_memory = st_find_folder(options->allocator, dir, folder, &path);
    if (path)
        base->dirs[base->dir_count++] = path;
    return has_memory;
}

lmc_status st_tree_base_find(st_tree_base *base, const st_options *options, const char *path, int is_archive,
                             st_options *inner, lmc_st_diag *diag)
{
    static const char *const suffixes[] = {"", LMC_ARCHIVE_SUFFIX};
    const lmc_allocator *const memory = options->allocator;
    char *const copy = st_duplicate(memory, path);
    *base = (st_tree_base){
        .dirs = st_allocate_array(memory, 2 * options->base_dir_count + 1, sizeof *base->dirs)};
    if (copy && is_archive)
        copy[strlen(copy) - strlen(LMC_ARCHIVE_SUFFIX)] = '\0';
    char *const slash = copy ? strrchr(copy, '/') : NULL;
    char *const folder = !slash ? NULL : copy;
    const char *const name = !slash ? copy : slash + 1;
    if (slash)
        *slash = '\0';
    int is_done = copy && base->dirs && (!options->base || add_dir(base, options, options->base, folder));
    base->folder = base->dir_count > 0 ? base->dirs[0] : NULL;
    for (size_t i = 0; i < options->base_dir_count && is_done; i++) {
        const char *const dir = options->base_dirs[i];
        is_done = (!folder || add_dir(base, options, dir, folder)) && add_dir(base, options, dir, NULL);
    }
    /* a file whose name could not be recorded is no base */
    const int is_tried = is_done && base->folder && st_base_name_is_valid(name, strlen(name));
    for (size_t i = 0; i < 2 && is_tried && is_done && !base->path; i++) {
        char *const candidate = lmc_path_join(memory, base->folder, name, suffixes[i]);
        is_done = candidate != NULL;
        if (candidate && os_is_file(candidate))
            base->path = candidate;
        else
            st_release(memory, candidate);
    }
    st_release(memory, copy);
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

lmc_status st_tree_base_check(const st_options *options, lmc_st_diag *diag)
{
    if (!options->base || os_is_folder(options->base))
        return LMC_OK;
    st_diag_set_file(diag, options->base);
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the base of a directory must be a directory");
}

/* ---- by its tensors: the folder ---- */

static uint64_t tensor_key(const lmc_st_file *file, size_t index)
{
    const uint64_t kind[2] = {file->header.tensors[index].dtype, st_file_tensor_nbytes(file, index)};
    const uint64_t key = st_name_key(st_header_name(&file->header, index), 0, 1);
    return st_string_hash((st_string){(const char *)kind, sizeof kind}, key);
}

static int compare_tensors(const void *left, const void *right)
{
    const st_named_tensor *const a = left;
    const st_named_tensor *const b = right;
    return a->key != b->key ? (a->key < b->key ? -1 : 1) : (a->file > b->file) - (a->file < b->file);
}

static int compare_paths(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

typedef struct listing {
    st_folder_names *names;
    const lmc_allocator *memory;
    st_buffer room; /* of the paths */
} listing;

/* Adds a file whose name an archive can record as that of its base. */
static int add_path(void *user, const char *name)
{
    listing *const listing = user;
    st_folder_names *const names = listing->names;
    const size_t nbytes = strlen(name) - (lmc_is_archive_name(name) ? strlen(LMC_ARCHIVE_SUFFIX) : 0);
    if (!st_base_name_is_valid(name, nbytes))
        return 0;
    char **const room = (char **)(void *)st_buffer_extend(
        listing->memory, &listing->room, names->path_count * sizeof *names->paths, sizeof *names->paths);
    char *const path = lmc_path_join(listing->memory, names->folder, name, "");
    names->paths = (char **)(void *)listing->room.bytes;
    if (!room || !path) {
        st_release(listing->memory, path);
        return -1;
    }
    if (!os_is_file(path)) {
        st_release(listing->memory, path);
        return 0;
    }
    *room = path;
    names->path_count++;
    return 0;
}

/* 1 if a file that could not be opened is simply none with tensors. */
static int is_passed_over(lmc_status status)
{
    return status != LMC_ERR_NOMEM && status != LMC_ERR_CANCELLED;
}

static lmc_status read_folder(st_folder_names *names, const st_options *options, const char *folder,
                              lmc_st_diag *diag)
{
    const lmc_allocator *const memory = options->allocator;
    listing listing = {.names = names, .memory = memory};
    st_folder_names_free(names, memory);
    names->folder = st_duplicate(memory, folder);
    const int fd = names->folder ? os_open_folder(folder) : -1;
    const int result = fd < 0 ? 0 : os_visit_folder(fd, add_path, &listing);
    if (fd >= 0)
        os_close(fd);
    names->votes = st_allocate_array(memory, names->path_count, sizeof *names->votes);
    if (!names->folder || result < 0 || !names->votes)
        return st_fail_nomem(diag);
    if (names->path_count > 0)
        qsort(names->paths, names->path_count, sizeof *names->paths, compare_paths);
    for (size_t i = 0; i < names->path_count; i++) {
        lmc_st_file *file = NULL;
        lmc_st_diag cause;
        const st_open how = {.path = names->paths[i], .fd = -1, .allocator = memory};
        if (st_is_cancelled(options->cancel))
            return st_fail_cancelled(diag);
        const lmc_status status = st_file_open(&how, &file, &cause);
        if (status != LMC_OK && is_passed_over(status))
            continue;
        if (status != LMC_OK) {
            *diag = cause;
            return status;
        }
        const size_t count = file->header.tensor_count;
        st_named_tensor *const added = (st_named_tensor *)(void *)st_buffer_extend(
            memory, &names->tensors, names->tensor_count * sizeof *added, count * sizeof *added);
        for (size_t j = 0; j < count && added; j++)
            added[j] = (st_named_tensor){tensor_key(file, j), i};
        names->tensor_count += added ? count : 0;
        lmc_st_close(file);
        if (!added)
            return st_fail_nomem(diag);
    }
    if (names->tensor_count > 0)
        qsort(names->tensors.bytes, names->tensor_count, sizeof(st_named_tensor), compare_tensors);
    return LMC_OK;
}

void st_folder_names_free(st_folder_names *names, const lmc_allocator *memory)
{
    for (size_t i = 0; i < names->path_count; i++)
        st_release(memory, names->paths[i]);
    st_release(memory, names->paths);
    st_release(memory, names->folder);
    st_release(memory, names->votes);
    st_buffer_free(memory, &names->tensors);
    memset(names, 0, sizeof *names);
}

/* ---- by its tensors: the file ---- */

/* 1 if the file, or the original of the archive, is named like the path but for digits. */
static int is_named_like(char *file, const char *path)
{
    char *const suffix = file + strlen(file) - strlen(LMC_ARCHIVE_SUFFIX);
    const int is_archive = lmc_is_archive_name(file);
    if (is_archive)
        *suffix = '\0';
    const int is_like = st_is_similar_name(lmc_last_component(file), lmc_last_component(path));
    if (is_archive)
        *suffix = LMC_ARCHIVE_SUFFIX[0];
    return is_like;
}

lmc_status st_renamed_find(st_folder_names *names, const st_options *options, const char *folder,
                           const char *path, char **found, lmc_st_diag *diag)
{
    lmc_st_file *file = NULL;
    lmc_st_diag cause;
    size_t best = 0;
    *found = NULL;
    if (!names->folder || strcmp(names->folder, folder) != 0)
        LMC_TRY(read_folder(names, options, folder, diag));
    const lmc_status status = st_file_open_input(path, options, &file, &cause);
    if (status != LMC_OK && !is_passed_over(status))
        *diag = cause;
    if (status != LMC_OK || names->path_count == 0) {
        lmc_st_close(file);
        return is_passed_over(status) ? LMC_OK : status;
    }
    const st_named_tensor *const tensors = (const st_named_tensor *)(const void *)names->tensors.bytes;
    memset(names->votes, 0, names->path_count * sizeof *names->votes);
    for (size_t i = 0; i < file->header.tensor_count; i++) {
        const uint64_t key = tensor_key(file, i);
        size_t begin = 0;
        size_t end = names->tensor_count;
        while (begin < end) {
            const size_t middle = begin + (end - begin) / 2;
            if (tensors[middle].key < key)
                begin = middle + 1;
            else
                end = middle;
        }
        end = names->tensor_count - begin > VOTES_MAX ? begin + VOTES_MAX : names->tensor_count;
        for (size_t j = begin; j < end && tensors[j].key == key; j++)
            if (j == begin || tensors[j].file != tensors[j - 1].file)
                names->votes[tensors[j].file] += st_file_tensor_nbytes(file, i);
    }
    lmc_st_close(file);
    int is_like = is_named_like(names->paths[0], path);
    for (size_t i = 1; i < names->path_count; i++) {
        const int is_better_named = !is_like && is_named_like(names->paths[i], path);
        if (names->votes[i] < names->votes[best] ||
            (names->votes[i] == names->votes[best] && !is_better_named))
            continue;
        best = i;
        is_like = is_named_like(names->paths[i], path);
    }
    if (names->votes[best] == 0)
        return LMC_OK;
    *found = st_duplicate(options->allocator, names->paths[best]);
    return *found ? LMC_OK : st_fail_nomem(diag);
}
