/*
 * copied.c - tree/copied.h: the list is made in the order of the tree, and read along with it.
 */
#include "safetensors/tree/copied.h"

#include <string.h>

int st_copied_is_list(const st_dir_entry *entry)
{
    return !entry->is_directory && strcmp(entry->path, LMC_COPIES_LIST) == 0;
}

int st_copied_is_to_be_listed(const st_dir_entry *entry)
{
    return !entry->is_directory && lmc_is_archive_name(entry->path);
}

/* ---- making it ---- */

lmc_status st_copied_list(const st_listing *tree, const unsigned char *is_converted, const char *root,
                          char **text, size_t *nbytes, lmc_st_diag *diag)
{
    size_t total = 0;
    *text = NULL;
    *nbytes = 0;
    for (size_t i = 0; i < tree->count; i++) {
        const char *const path = tree->entries[i].path;
        if (is_converted[i] || !st_copied_is_to_be_listed(&tree->entries[i]))
            continue;
        if (strchr(path, '\n')) {
            char *const full_path = lmc_path_join(tree->memory, root, path, "");
            if (!full_path)
                return st_fail_nomem(diag);
            st_diag_set_file(diag, full_path);
            st_release(tree->memory, full_path);
            return st_fail(
                diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                "its path has a line break: a file that is named .lmc and is copied must have none");
        }
        total += strlen(path) + 1;
        if (total > ST_COPIED_NBYTES_MAX) {
            st_diag_set_file(diag, root);
            return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "has too many files that are named .lmc");
        }
    }
    *text = st_allocate(tree->memory, total);
    if (!*text)
        return st_fail_nomem(diag);
    for (size_t i = 0; i < tree->count; i++) {
        const char *const path = tree->entries[i].path;
        if (is_converted[i] || !st_copied_is_to_be_listed(&tree->entries[i]))
            continue;
        const size_t length = strlen(path);
        memcpy(*text + *nbytes, path, length);
        (*text)[*nbytes + length] = '\n';
        *nbytes += length + 1;
    }
    return LMC_OK;
}

/* ---- reading it ---- */

/* A list that was changed could turn a copy into an archive, which would be restored to other bytes: it must be one
 * that this library makes for the directory. */
static lmc_status mark_listed(const st_listing *tree, const char *text, size_t nbytes,
                              unsigned char *is_archive, lmc_st_diag *diag)
{
    size_t entry = 0;
    for (size_t at = 0; at < nbytes;) {
        const char *const line = text + at;
        const char *const end = memchr(line, '\n', nbytes - at);
        const size_t length = end ? (size_t)(end - line) : 0;
        while (end && entry < tree->count &&
               !(is_archive[entry] && strlen(tree->entries[entry].path) == length &&
                 memcmp(tree->entries[entry].path, line, length) == 0))
            entry++;
        if (!end || entry == tree->count) {
            return st_fail(
                diag, LMC_ERR_CORRUPT, at,
                "this list of copied files names one that is not there, or is not as it was written");
        }
        is_archive[entry++] = 0;
        at += length + 1;
    }
    return LMC_OK;
}

lmc_status st_copied_find_archives(const st_listing *tree, const char *root, unsigned char **is_archive,
                                   lmc_st_diag *diag)
{
    st_input input;
    const st_dir_entry *const list = st_listing_find(tree, LMC_COPIES_LIST);
    unsigned char *const found = st_allocate_zeroed(tree->memory, tree->count, 1);
    *is_archive = found;
    if (!found)
        return st_fail_nomem(diag);
    for (size_t i = 0; i < tree->count; i++)
        found[i] = (unsigned char)st_copied_is_to_be_listed(&tree->entries[i]);
    if (!list || list->is_directory)
        return LMC_OK;
    char *const path = lmc_path_join(tree->memory, root, LMC_COPIES_LIST, "");
    if (!path)
        return st_fail_nomem(diag);
    st_diag_set_file(diag, path);
    lmc_status status = st_input_open(&input, path, diag);
    if (status == LMC_OK) {
        const int is_short = input.nbytes <= ST_COPIED_NBYTES_MAX;
        const size_t nbytes = (size_t)input.nbytes;
        char *const text = is_short ? st_allocate(tree->memory, nbytes) : NULL;
        if (!is_short)
            status = st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                             "this list of copied files has more than %zu bytes", ST_COPIED_NBYTES_MAX);
        else
            status = text ? st_input_read(&input, 0, text, nbytes, diag) : st_fail_nomem(diag);
        if (status == LMC_OK)
            status = mark_listed(tree, text, nbytes, found, diag);
        st_release(tree->memory, text);
        st_input_close(&input);
    }
    st_release(tree->memory, path);
    return status;
}
