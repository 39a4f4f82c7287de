/*
 * os_tree.c - os_dir.h: paths and trees.
 */
#define _FILE_OFFSET_BITS 64

#include "os_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h> /* qsort */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 100

char *os_path_join(const lmc_allocator *memory, const char *directory, const char *name, const char *suffix)
{
    const size_t end = strlen(directory);
    const size_t length = end + strlen(name) + strlen(suffix) + 2;
    char *const path = st_allocate(memory, length);
    const int needs_slash = end > 0 && directory[end - 1] != '/' && name[0] != '\0';
    if (path != NULL) {
        snprintf(path, length, "%s%s%s%s", directory, needs_slash ? "/" : "", name, suffix);
    }
    return path;
}

int os_is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

int os_is_own_directory(const lmc_allocator *memory, const char *path)
{
    struct stat status;
    char *const text = st_duplicate(memory, path);
    size_t length = strlen(path);
    if (text == NULL) {
        return 0;
    }
    while (length > 1 && text[length - 1] == '/') {
        text[--length] = '\0'; /* a slash at the end would follow a link */
    }
    const char *const slash = strrchr(text, '/');
    const char *const name = slash == NULL ? text : slash + 1;
    const int is_own = strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && lstat(text, &status) == 0 &&
                       S_ISDIR(status.st_mode);
    st_release(memory, text);
    return is_own;
}

int os_is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

int os_is_own_file(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISREG(status.st_mode);
}

int os_link(const char *path, const char *new_path)
{
    return link(path, new_path) == 0 ? 0 : errno;
}

lmc_status os_remove_file(const char *path, lmc_st_diag *diag)
{
    if (unlink(path) == 0) {
        return LMC_OK;
    }
    const int os_errno = errno;
    st_diag_set_file(diag, path);
    return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot remove");
}

/* ---- listing ---- */

static void take_attributes(os_attributes *attributes, const struct stat *status)
{
    attributes->is_known = 1;
    attributes->permissions = status->st_mode & 0777;
    attributes->modified_s = (int64_t)status->st_mtim.tv_sec;
    attributes->modified_ns = (int64_t)status->st_mtim.tv_nsec;
}

static lmc_status add_entry(os_tree *tree, char *path, const struct stat *status, lmc_st_diag *diag)
{
    if (tree->count == tree->capacity) {
        const size_t capacity = tree->capacity == 0 ? 64 : 2 * tree->capacity;
        os_entry *const larger = st_allocate(tree->memory, capacity * sizeof(*larger));
        if (larger == NULL) {
            st_release(tree->memory, path);
            return st_fail_nomem(diag);
        }
        if (tree->count > 0) {
            memcpy(larger, tree->entries, tree->count * sizeof(*larger));
        }
        st_release(tree->memory, tree->entries);
        tree->entries = larger;
        tree->capacity = capacity;
    }
    os_entry *const entry = &tree->entries[tree->count++];
    memset(entry, 0, sizeof(*entry));
    entry->path = path;
    entry->is_directory = S_ISDIR(status->st_mode);
    entry->nbytes = (uint64_t)status->st_size;
    take_attributes(&entry->attributes, status);
    return LMC_OK;
}

/* What the name stands for; refuses what cannot be copied. */
static lmc_status look_at(const char *full_path, struct stat *status, lmc_st_diag *diag)
{
    struct stat link;
    st_diag_set_file(diag, full_path);
    if (lstat(full_path, &link) != 0 || stat(full_path, status) != 0) {
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot open");
    }
    if (S_ISLNK(link.st_mode) && S_ISDIR(status->st_mode)) {
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is a link to a directory: links to files only");
    }
    if (!S_ISREG(status->st_mode) && !S_ISDIR(status->st_mode)) {
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "is not a regular file (a pipe, socket or device)");
    }
    return LMC_OK;
}

static lmc_status list(os_tree *tree, const char *root, const char *directory, unsigned depth,
                       lmc_st_diag *diag);

static lmc_status list_name(os_tree *tree, const char *root, const char *directory, const char *name,
                            unsigned depth, lmc_st_diag *diag)
{
    struct stat found;
    char *const path = os_path_join(tree->memory, directory, name, "");
    char *const full_path = path == NULL ? NULL : os_path_join(tree->memory, root, path, "");
    if (full_path == NULL) {
        st_release(tree->memory, path);
        return st_fail_nomem(diag);
    }
    lmc_status status = look_at(full_path, &found, diag);
    st_release(tree->memory, full_path);
    if (status != LMC_OK) {
        st_release(tree->memory, path);
        return status;
    }
    status = add_entry(tree, path, &found, diag);
    return status == LMC_OK && S_ISDIR(found.st_mode) ? list(tree, root, path, depth + 1, diag) : status;
}

static lmc_status list(os_tree *tree, const char *root, const char *directory, unsigned depth,
                       lmc_st_diag *diag)
{
    char *const full_path = os_path_join(tree->memory, root, directory, "");
    DIR *const stream = full_path == NULL ? NULL : opendir(full_path);
    lmc_status status = LMC_OK;
    if (full_path == NULL) {
        return st_fail_nomem(diag);
    }
    if (stream == NULL) {
        const int os_errno = errno;
        st_diag_set_file(diag, full_path);
        status = st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot list the directory");
    } else if (depth > DEPTH_MAX) {
        st_diag_set_file(diag, full_path);
        status = st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "more than %u nested directories", DEPTH_MAX);
    }
    while (status == LMC_OK) {
        errno = 0;
        const struct dirent *const entry = readdir(stream);
        if (entry == NULL) {
            const int os_errno = errno;
            st_diag_set_file(diag, full_path);
            status = os_errno == 0
                         ? LMC_OK
                         : st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot list the directory");
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            status = list_name(tree, root, directory, entry->d_name, depth, diag);
        }
    }
    if (stream != NULL) {
        closedir(stream);
    }
    st_release(tree->memory, full_path);
    return status;
}

static int compare_entries(const void *left, const void *right)
{
    return strcmp(((const os_entry *)left)->path, ((const os_entry *)right)->path);
}

lmc_status os_tree_read(os_tree *tree, const lmc_allocator *memory, const char *root, lmc_st_diag *diag)
{
    struct stat found;
    memset(tree, 0, sizeof(*tree));
    tree->memory = memory;
    if (stat(root, &found) != 0) {
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot open");
    }
    take_attributes(&tree->root, &found);
    const lmc_status status = list(tree, root, "", 0, diag);
    if (status == LMC_OK && tree->count > 0) {
        qsort(tree->entries, tree->count, sizeof(*tree->entries), compare_entries);
    }
    if (status == LMC_OK) {
        st_diag_set_file(diag, root);
    }
    return status;
}

void os_tree_free(os_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        st_release(tree->memory, tree->entries[i].path);
    }
    if (tree->memory != NULL) {
        st_release(tree->memory, tree->entries);
    }
    memset(tree, 0, sizeof(*tree));
}

const os_entry *os_tree_find(const os_tree *tree, const char *path)
{
    os_entry wanted = {.path = (char *)path};
    return tree->count == 0
               ? NULL
               : bsearch(&wanted, tree->entries, tree->count, sizeof(*tree->entries), compare_entries);
}

/* ---- removing ---- */

static int remove_contents(const lmc_allocator *memory, const char *root)
{
    DIR *const stream = opendir(root);
    int os_errno = stream == NULL ? errno : 0;
    const struct dirent *entry = NULL;
    while (os_errno == 0 && (entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        struct stat found;
        char *const path = os_path_join(memory, root, entry->d_name, "");
        if (path == NULL) {
            os_errno = ENOMEM;
        } else if (lstat(path, &found) == 0 && S_ISDIR(found.st_mode)) {
            os_errno = os_tree_remove(memory, path);
        } else {
            os_errno = unlink(path) == 0 ? 0 : errno;
        }
        st_release(memory, path);
    }
    if (stream != NULL) {
        closedir(stream);
    }
    return os_errno;
}

int os_tree_remove(const lmc_allocator *memory, const char *root)
{
    (void)chmod(root, 0700); /* a copied directory may be read-only by now */
    const int os_errno = remove_contents(memory, root);
    if (os_errno != 0) {
        return os_errno;
    }
    return rmdir(root) == 0 ? 0 : errno;
}

/* Room for "root/path" of every entry. */
static size_t longest_path(const os_tree *tree, const char *root)
{
    size_t longest = 0;
    for (size_t i = 0; i < tree->count; i++) {
        const size_t length = strlen(tree->entries[i].path);
        longest = length > longest ? length : longest;
    }
    return strlen(root) + 1 + longest + 1;
}

int os_tree_remove_listed(const os_tree *tree, const char *root)
{
    /* before anything is gone, so that memory cannot run out in the midst of it */
    const size_t capacity = longest_path(tree, root);
    char *const path = st_allocate(tree->memory, capacity);
    int os_errno = path == NULL ? ENOMEM : 0;
    for (size_t i = tree->count; i > 0 && os_errno == 0; i--) {
        const os_entry *const entry = &tree->entries[i - 1];
        snprintf(path, capacity, "%s/%s", root, entry->path);
        os_errno = (entry->is_directory ? rmdir(path) : unlink(path)) == 0 ? 0 : errno;
    }
    st_release(tree->memory, path);
    return os_errno == 0 && rmdir(root) != 0 ? errno : os_errno;
}
