/*
 * listing.c - directories.h: what is in a directory and below it. Folders are opened from the ones that hold them, so
 * that none is swapped for a link on the way.
 */
#include "safetensors/files/directories.h"

#include <errno.h>
#include <stdlib.h> /* qsort */
#include <string.h>

#define DEPTH_MAX 100

typedef struct lister {
    st_listing *tree;
    const char *root; /* for messages */
    int is_as_it_stands;
    lmc_st_diag *diag;
} lister;

/* Names an entry in the diagnostic. */
static void name_entry(const lister *lister, const char *path)
{
    char *const full_path = lmc_path_join(lister->tree->memory, lister->root, path, "");
    st_diag_set_file(lister->diag, !full_path ? lister->root : full_path);
    st_release(lister->tree->memory, full_path);
}

static lmc_status fail_os(const lister *lister, const char *path, int os_errno, const char *what)
{
    name_entry(lister, path);
    return st_fail_os(lister->diag, os_errno, LMC_ST_NO_OFFSET, what);
}

static lmc_status refuse_entry(const lister *lister, const char *path, const char *why)
{
    name_entry(lister, path);
    return st_fail(lister->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "%s", why);
}

/* ---- all entries ---- */

/* An open directory that is being listed. */
typedef struct listing {
    const lister *lister;
    int fd;
    const char *directory; /* its path below the root */
    unsigned depth;
    lmc_status status; /* of the first name that failed */
} listing;

static lmc_status list_directory(const lister *lister, int fd, const char *directory, unsigned depth);

/* What a name is itself, and what it stands for; refuses what cannot be copied. */
static lmc_status list_name(const lister *lister, int folder_fd, const char *directory, const char *name,
                            unsigned depth)
{
    os_state own = {0};
    os_state meant;
    st_listing *const tree = lister->tree;
    if (tree->count == tree->capacity) {
        const size_t capacity = tree->capacity == 0 ? 64 : 2 * tree->capacity;
        st_dir_entry *const larger = st_allocate_array(tree->memory, capacity, sizeof *larger);
        if (!larger)
            return st_fail_nomem(lister->diag);
        if (tree->count > 0)
            memcpy(larger, tree->entries, tree->count * sizeof *larger);
        st_release(tree->memory, tree->entries);
        tree->entries = larger;
        tree->capacity = capacity;
    }
    st_dir_entry *const entry = &tree->entries[tree->count];
    char *const path = lmc_path_join(tree->memory, directory, name, "");
    *entry = (st_dir_entry){.path = path};
    if (!path)
        return st_fail_nomem(lister->diag);
    tree->count++;
    int os_errno = os_lstat(folder_fd, name, &own);
    meant = own;
    if (os_errno == 0 && own.kind == OS_LINK && !lister->is_as_it_stands)
        os_errno = os_stat(folder_fd, name, &meant);
    if (os_errno != 0)
        return fail_os(lister, path, os_errno,
                       own.kind == OS_LINK ? "cannot follow this link" : "cannot open");
    if (!lister->is_as_it_stands) {
        if (own.kind == OS_LINK && meant.kind == OS_FOLDER)
            return refuse_entry(lister, path, "is a link to a directory: links to files only");
        if (meant.kind != OS_FILE && meant.kind != OS_FOLDER)
            return refuse_entry(lister, path, "is not a regular file (a pipe, socket or device)");
    }
    entry->is_directory = meant.kind == OS_FOLDER;
    entry->nbytes = meant.nbytes;
    entry->state = own;
    entry->attributes = st_attributes_of(&meant);
    if (!entry->is_directory)
        return LMC_OK;
    const int fd = os_open_own_folder(folder_fd, name);
    return fd < 0 ? fail_os(lister, path, errno, "cannot list the directory")
                  : list_directory(lister, fd, path, depth + 1);
}

static int visit_name(void *user, const char *name)
{
    listing *const listing = user;
    listing->status = list_name(listing->lister, listing->fd, listing->directory, name, listing->depth);
    return listing->status == LMC_OK ? 0 : -1;
}

/* Closes `fd`. */
static lmc_status list_directory(const lister *lister, int fd, const char *directory, unsigned depth)
{
    listing listing = {lister, fd, directory, depth, LMC_OK};
    if (depth > DEPTH_MAX) {
        name_entry(lister, directory);
        listing.status = st_fail(lister->diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                                 "more than %u nested directories", DEPTH_MAX);
    }
    const int os_errno = listing.status == LMC_OK ? os_visit_folder(fd, visit_name, &listing) : -1;
    (void)os_close(fd);
    return os_errno > 0 ? fail_os(lister, directory, os_errno, "cannot list the directory") : listing.status;
}

/* ---- a tree ---- */

static int compare_entries(const void *left, const void *right)
{
    return strcmp(((const st_dir_entry *)left)->path, ((const st_dir_entry *)right)->path);
}

/* Reads the tree below `fd`, and closes it; fd -1: it could not be opened, as errno says. */
static lmc_status read_tree(st_listing *tree, const lmc_allocator *memory, int fd, const char *root,
                            int is_as_it_stands, lmc_st_diag *diag)
{
    const lister lister = {tree, root, is_as_it_stands, diag};
    *tree = (st_listing){.memory = memory};
    const int os_errno = fd < 0 ? errno : os_fstat(fd, &tree->root_state);
    if (os_errno != 0) {
        if (fd >= 0)
            (void)os_close(fd);
        return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot open");
    }
    tree->root = st_attributes_of(&tree->root_state);
    const lmc_status status = list_directory(&lister, fd, "", 0);
    if (status == LMC_OK && tree->count > 0)
        qsort(tree->entries, tree->count, sizeof *tree->entries, compare_entries);
    return status;
}

lmc_status st_listing_read(st_listing *tree, const lmc_allocator *memory, const char *root, lmc_st_diag *diag)
{
    st_diag_set_file(diag, root);
    return read_tree(tree, memory, os_open_folder(root), root, 0, diag);
}

lmc_status st_listing_read_as_it_stands(st_listing *tree, const lmc_allocator *memory, int fd,
                                        const char *root, lmc_st_diag *diag)
{
    return read_tree(tree, memory, os_open_own_folder(fd, "."), root, 1, diag);
}

void st_listing_free(st_listing *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        st_release(tree->memory, tree->entries[i].path);
    if (tree->memory)
        st_release(tree->memory, tree->entries);
    memset(tree, 0, sizeof *tree);
}

/* The first `nbytes` bytes of `path` are looked for. */
typedef struct path_key {
    const char *path;
    size_t nbytes;
} path_key;

static int compare_path(const void *left, const void *right)
{
    const path_key *const key = left;
    const char *const path = ((const st_dir_entry *)right)->path;
    const int order = strncmp(key->path, path, key->nbytes);
    return order != 0 || path[key->nbytes] == '\0' ? order : -1;
}

const st_dir_entry *st_listing_find_original(const st_listing *tree, const char *path, size_t suffix_nbytes)
{
    const path_key key = {path, strlen(path) - suffix_nbytes};
    return tree->count == 0 ? NULL
                            : bsearch(&key, tree->entries, tree->count, sizeof *tree->entries, compare_path);
}

const st_dir_entry *st_listing_find(const st_listing *tree, const char *path)
{
    return st_listing_find_original(tree, path, 0);
}

/* ---- folders of similar names ---- */

static const char *skip_digits(const char *text)
{
    while (*text >= '0' && *text <= '9')
        text++;
    return text;
}

int st_is_similar_name(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        const char *const a_end = skip_digits(a);
        const char *const b_end = skip_digits(b);
        if ((a_end == a) != (b_end == b) || (a_end == a && *a != *b))
            return 0;
        a = a_end == a ? a + 1 : a_end;
        b = b_end == b ? b + 1 : b_end;
    }
    return *a == *b;
}

/* A folder that is looked for. */
typedef struct similar {
    const lmc_allocator *memory;
    const char *directory, *name;
    char *found;
    int is_single, has_memory;
} similar;

/* Ends the list once there is more than one. */
static int visit_similar(void *user, const char *name)
{
    similar *const similar = user;
    if (!st_is_similar_name(name, similar->name))
        return 0;
    char *const path = lmc_path_join(similar->memory, similar->directory, name, "");
    similar->has_memory = path != NULL;
    if (path && os_is_folder(path) && !similar->found) {
        similar->found = path;
        return 0;
    }
    similar->is_single = !path || !os_is_folder(path);
    st_release(similar->memory, path);
    return !similar->has_memory || !similar->is_single;
}

int st_find_similar_folder(const lmc_allocator *memory, const char *directory, const char *name, char **found)
{
    similar similar = {memory, directory, name, NULL, 1, 1};
    (void)os_visit_path(directory, visit_similar, &similar);
    if (!similar.is_single || !similar.has_memory) {
        st_release(memory, similar.found);
        similar.found = NULL;
    }
    *found = similar.found;
    return similar.has_memory;
}
