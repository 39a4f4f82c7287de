/*
 * os_remove.c - os_dir.h: removing what is meant and nothing else. A directory's contents are reached from the open
 * directory and no link is followed. An input is first given a private name in its own folder, where nobody who knows
 * it by its old one can replace it; it is looked at there, and removed or put back. renameat2 is a Linux call.
 */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include "os_dir.h"
#include "os_stat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* renameat */
#include <string.h>
#include <unistd.h>

#define PRIVATE_PREFIX ".lmc-kept-"
#define PRIVATE_TRIES 100

static int is_self_or_parent(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* The next name in the directory; NULL at its end, or with *os_errno set. */
static const char *next_name(DIR *stream, int *os_errno)
{
    const struct dirent *entry = NULL;
    do {
        errno = 0;
        entry = readdir(stream);
    } while (entry != NULL && is_self_or_parent(entry->d_name));
    *os_errno = entry == NULL ? errno : 0;
    return entry == NULL ? NULL : entry->d_name;
}

/* ---- whatever is there ---- */

int os_remove_contents(int fd)
{
    const int own_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const stream = own_fd < 0 ? NULL : fdopendir(own_fd);
    int os_errno = stream == NULL ? errno : 0;
    if (stream == NULL) {
        if (own_fd >= 0) {
            close(own_fd);
        }
        return os_errno;
    }
    for (const char *name = NULL; os_errno == 0 && (name = next_name(stream, &os_errno)) != NULL;) {
        struct stat found;
        const int is_folder = fstatat(fd, name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(found.st_mode);
        if (is_folder) {
            os_errno = os_remove_folder(fd, name);
        } else {
            os_errno = unlinkat(fd, name, 0) == 0 ? 0 : errno;
        }
    }
    closedir(stream);
    return os_errno;
}

int os_remove_folder(int folder_fd, const char *name)
{
    const int fd = os_open_writable_folder(folder_fd, name); /* a copied one may be read-only by now */
    if (fd < 0) {
        return errno;
    }
    const int os_errno = os_remove_contents(fd);
    close(fd);
    if (os_errno != 0) {
        return os_errno;
    }
    return unlinkat(folder_fd, name, AT_REMOVEDIR) == 0 ? 0 : errno;
}

/* ---- a private name ---- */

/* An input on its way out. */
typedef struct removal {
    const lmc_allocator *memory;
    char *path;       /* the input's, without slashes at its end */
    const char *name; /* its last component */
    int folder_fd;    /* the folder that it is in */
    char private_name[sizeof(PRIVATE_PREFIX) + 16];
    lmc_st_diag *diag;
} removal;

static lmc_status fail_os(const removal *removal, int os_errno)
{
    return st_fail_os(removal->diag, os_errno, LMC_ST_NO_OFFSET, "cannot remove");
}

static lmc_status fail_changed(const removal *removal)
{
    return st_fail(removal->diag, LMC_ERR_IO, LMC_ST_NO_OFFSET,
                   "is kept: it is no longer what was compared with the output");
}

/* Opens the folder. Ends with close_removal(), in every case. */
static lmc_status open_removal(removal *removal, const lmc_allocator *memory, const char *path,
                               lmc_st_diag *diag)
{
    memset(removal, 0, sizeof(*removal));
    st_diag_set_file(diag, path);
    removal->memory = memory;
    removal->diag = diag;
    removal->folder_fd = -1;
    removal->path = st_duplicate(memory, path);
    if (removal->path == NULL) {
        return st_fail_nomem(diag);
    }
    for (size_t length = strlen(path); length > 1 && path[length - 1] == '/'; length--) {
        removal->path[length - 1] = '\0';
    }
    char *const slash = strrchr(removal->path, '/');
    removal->name = slash == NULL ? removal->path : slash + 1;
    if (slash == NULL) {
        removal->folder_fd = os_open_folder(".");
    } else {
        *slash = '\0'; /* for a moment */
        removal->folder_fd = os_open_folder(slash == removal->path ? "/" : removal->path);
        *slash = '/';
    }
    return removal->folder_fd < 0 ? fail_os(removal, errno) : LMC_OK;
}

static void close_removal(removal *removal)
{
    if (removal->folder_fd >= 0) {
        close(removal->folder_fd);
    }
    st_release(removal->memory, removal->path);
}

/* Renames within the folder unless the new name is taken. Returns 0 or an errno. */
static int rename_to_free_name(int folder_fd, const char *from, const char *to)
{
    struct stat found;
#ifdef RENAME_NOREPLACE
    if (renameat2(folder_fd, from, folder_fd, to, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return errno;
    }
#endif
    if (fstatat(folder_fd, to, &found, AT_SYMLINK_NOFOLLOW) == 0) {
        return EEXIST;
    }
    return renameat(folder_fd, from, folder_fd, to) == 0 ? 0 : errno;
}

static lmc_status hide(removal *removal)
{
    int os_errno = EEXIST;
    for (int i = 0; i < PRIVATE_TRIES && os_errno == EEXIST; i++) {
        snprintf(removal->private_name, sizeof(removal->private_name), PRIVATE_PREFIX "%012llx",
                 (unsigned long long)(os_unforeseen_u64() >> 16));
        os_errno = rename_to_free_name(removal->folder_fd, removal->name, removal->private_name);
    }
    return os_errno == 0 ? LMC_OK : fail_os(removal, os_errno);
}

/* Gives it its name back; `status` stands in the diagnostic. If that name is taken by now, both files stay, and the
 * diagnostic says where. */
static lmc_status put_back(const removal *removal, lmc_status status)
{
    const int os_errno = rename_to_free_name(removal->folder_fd, removal->private_name, removal->name);
    if (os_errno != 0) {
        return st_fail(
            removal->diag, status, LMC_ST_NO_OFFSET,
            "is no longer what was compared with the output: it is kept as %s in the same folder, for it "
            "could not get its name back",
            removal->private_name);
    }
    return status;
}

/* ---- a file ---- */

lmc_status os_identify(const char *path, os_identity *identity, lmc_st_diag *diag)
{
    struct stat found;
    if (lstat(path, &found) != 0) {
        const int os_errno = errno;
        st_diag_set_file(diag, path);
        return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot open");
    }
    os_take_identity(identity, &found);
    return LMC_OK;
}

/* 1 if the name stands for the file in the state that it had. Another name, or one less, moves the time of change. */
static int is_unchanged(int folder_fd, const char *name, const os_identity *identity, int is_renamed)
{
    struct stat found;
    return fstatat(folder_fd, name, &found, AT_SYMLINK_NOFOLLOW) == 0 && os_is_identity(identity, &found) &&
           os_has_same_content_time(identity, &found) &&
           (is_renamed || os_has_same_change_time(identity, &found));
}

static lmc_status remove_file(removal *removal, const os_identity *identity)
{
    const int folder_fd = removal->folder_fd;
    if (!is_unchanged(folder_fd, removal->name, identity, 0)) {
        return fail_changed(removal);
    }
    const lmc_status status = hide(removal);
    if (status != LMC_OK) {
        return status;
    }
    if (!is_unchanged(folder_fd, removal->private_name, identity, 1)) {
        return put_back(removal, fail_changed(removal));
    }
    return unlinkat(folder_fd, removal->private_name, 0) == 0 ? LMC_OK
                                                              : put_back(removal, fail_os(removal, errno));
}

lmc_status os_remove_file(const lmc_allocator *memory, const char *path, const os_identity *identity,
                          lmc_st_diag *diag)
{
    removal removal;
    lmc_status status = open_removal(&removal, memory, path, diag);
    if (status == LMC_OK) {
        status = remove_file(&removal, identity);
    }
    close_removal(&removal);
    return status;
}

/* ---- a directory ---- */

/* A directory beside its list. */
typedef struct walk {
    const removal *removal;
    const os_tree *tree;
    int root_fd;
    char *path; /* relative, of what is looked at */
    size_t capacity;
    size_t seen_count;
} walk;

/* Makes walk->path that of `name` in its folder, whose path has `length` bytes. NULL: nothing of that name is
 * listed. */
static const os_entry *find_listed(walk *walk, size_t length, const char *name)
{
    const size_t room = walk->capacity - length;
    const int written = snprintf(walk->path + length, room, "%s%s", length > 0 ? "/" : "", name);
    return written < 0 || (size_t)written >= room ? NULL : os_tree_find(walk->tree, walk->path);
}

static lmc_status compare_folder(walk *walk, int fd, size_t length);

static lmc_status compare_entry(walk *walk, int folder_fd, const char *name, size_t length)
{
    struct stat found;
    const os_entry *const entry = find_listed(walk, length, name);
    if (entry == NULL) {
        return fail_changed(walk->removal);
    }
    walk->seen_count++;
    if (!entry->is_directory) {
        return is_unchanged(folder_fd, name, &entry->identity, 0) ? LMC_OK : fail_changed(walk->removal);
    }
    const int fd = os_open_own_folder(folder_fd, name);
    if (fd < 0) {
        return fail_os(walk->removal, errno);
    }
    if (fstat(fd, &found) != 0 || !os_is_identity(&entry->identity, &found)) {
        close(fd);
        return fail_changed(walk->removal);
    }
    return compare_folder(walk, fd, strlen(walk->path));
}

/* Looks whether all that is in the folder is listed, and as it was. Closes `fd`. */
static lmc_status compare_folder(walk *walk, int fd, size_t length)
{
    DIR *const stream = fdopendir(fd);
    int os_errno = stream == NULL ? errno : 0;
    lmc_status status = LMC_OK;
    if (stream == NULL) {
        close(fd);
        return fail_os(walk->removal, os_errno);
    }
    for (const char *name = NULL; status == LMC_OK && (name = next_name(stream, &os_errno)) != NULL;) {
        status = compare_entry(walk, dirfd(stream), name, length);
        walk->path[length] = '\0';
    }
    closedir(stream);
    return status == LMC_OK && os_errno != 0 ? fail_os(walk->removal, os_errno) : status;
}

static lmc_status compare_all(walk *walk)
{
    const int fd = openat(walk->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const lmc_status status = fd < 0 ? fail_os(walk->removal, errno) : compare_folder(walk, fd, 0);
    return status == LMC_OK && walk->seen_count != walk->tree->count ? fail_changed(walk->removal) : status;
}

/* Without memory of its own: it cannot run out in the midst. */
static lmc_status remove_listed(walk *walk, const os_entry *entry)
{
    const char *name = NULL;
    snprintf(walk->path, walk->capacity, "%s", entry->path);
    const int folder_fd = os_open_folder_of(walk->root_fd, walk->path, &name);
    if (folder_fd < 0) {
        return fail_os(walk->removal, errno);
    }
    lmc_status status = LMC_OK;
    if (!entry->is_directory && !is_unchanged(folder_fd, name, &entry->identity, 1)) {
        status = fail_changed(walk->removal);
    } else if (unlinkat(folder_fd, name, entry->is_directory ? AT_REMOVEDIR : 0) != 0) {
        status = fail_os(walk->removal, errno);
    }
    close(folder_fd);
    return status;
}

static lmc_status remove_hidden(walk *walk)
{
    struct stat found;
    const removal *const removal = walk->removal;
    const os_tree *const tree = walk->tree;
    walk->root_fd = os_open_own_folder(removal->folder_fd, removal->private_name);
    if (walk->root_fd < 0) {
        return fail_os(removal, errno);
    }
    lmc_status status = fstat(walk->root_fd, &found) == 0 && os_is_identity(&tree->root_identity, &found)
                            ? compare_all(walk)
                            : fail_changed(removal);
    for (size_t i = tree->count; i > 0 && status == LMC_OK; i--) {
        status = remove_listed(walk, &tree->entries[i - 1]);
    }
    close(walk->root_fd);
    if (status == LMC_OK && unlinkat(removal->folder_fd, removal->private_name, AT_REMOVEDIR) != 0) {
        status = fail_os(removal, errno);
    }
    return status;
}

/* Room for the path of every entry. */
static size_t longest_path(const os_tree *tree)
{
    size_t longest = 0;
    for (size_t i = 0; i < tree->count; i++) {
        const size_t length = strlen(tree->entries[i].path);
        longest = length > longest ? length : longest;
    }
    return longest + 1;
}

lmc_status os_remove_tree(const os_tree *tree, const char *root, lmc_st_diag *diag)
{
    removal removal;
    walk walk = {.removal = &removal, .tree = tree, .capacity = longest_path(tree)};
    lmc_status status = open_removal(&removal, tree->memory, root, diag);
    walk.path = st_allocate(tree->memory, walk.capacity);
    if (status == LMC_OK && walk.path == NULL) {
        status = st_fail_nomem(diag);
    }
    if (status == LMC_OK) {
        walk.path[0] = '\0';
        status = hide(&removal);
        if (status == LMC_OK) {
            status = remove_hidden(&walk);
            status = status == LMC_OK ? LMC_OK : put_back(&removal, status);
        }
    }
    st_release(tree->memory, walk.path);
    close_removal(&removal);
    return status;
}
