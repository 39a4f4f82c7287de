/*
 * remove.c - os/dir.h: removing what is meant and nothing else. A directory's contents are reached from the open
 * directory and no link is followed. An input is first given a private name in its own folder, where nobody who knows
 * it by its old one can replace it; it is looked at there, and removed or put back. renameat2 is a Linux call.
 */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include "safetensors/os/dir.h"
#include "safetensors/os/stat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* renameat */
#include <string.h>
#include <unistd.h>

#define PRIVATE_PREFIX ".lmc-kept-"
#define PRIVATE_TRIES 100
#define PRIVATE_NBYTES (sizeof PRIVATE_PREFIX + 12)

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
    } while (entry && is_self_or_parent(entry->d_name));
    *os_errno = !entry ? errno : 0;
    return !entry ? NULL : entry->d_name;
}

/* ---- whatever is there ---- */

/* Goes on after what cannot be removed; returns the first errno. Closes `fd`. */
static int remove_all_in(int fd)
{
    DIR *const stream = fdopendir(fd);
    int os_errno = 0;
    int first_errno = !stream ? errno : 0;
    if (!stream) {
        close(fd);
        return first_errno;
    }
    for (const char *name = NULL; (name = next_name(stream, &os_errno)) != NULL;) {
        struct stat found;
        const int is_folder =
            fstatat(dirfd(stream), name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(found.st_mode);
        if (is_folder)
            os_errno = os_remove_folder(dirfd(stream), name);
        else
            os_errno = unlinkat(dirfd(stream), name, 0) == 0 ? 0 : errno;
        first_errno = first_errno != 0 ? first_errno : os_errno;
    }
    closedir(stream);
    return first_errno != 0 ? first_errno : os_errno;
}

int os_remove_contents(int fd)
{
    const int own_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return own_fd < 0 ? errno : remove_all_in(own_fd);
}

int os_remove_folder(int folder_fd, const char *name)
{
    const int fd = os_open_writable_folder(folder_fd, name); /* a copied one may be read-only by now */
    const int os_errno = fd < 0 ? errno : remove_all_in(fd);
    return os_errno == 0 && unlinkat(folder_fd, name, AT_REMOVEDIR) != 0 ? errno : os_errno;
}

/* ---- a private name ---- */

/* An input on its way out. */
typedef struct removal {
    const lmc_allocator *memory;
    const char *root; /* its path, for messages */
    lmc_st_diag *diag;
} removal;

/* path: within the input, "" for itself. */
static void blame(const removal *removal, const char *path)
{
    char *const full_path = os_path_join(removal->memory, removal->root, path, "");
    st_diag_set_file(removal->diag, !full_path ? removal->root : full_path);
    st_release(removal->memory, full_path);
}

static lmc_status fail_os(const removal *removal, const char *path, int os_errno)
{
    blame(removal, path);
    return st_fail_os(removal->diag, os_errno, LMC_ST_NO_OFFSET, "cannot remove");
}

static lmc_status fail_changed(const removal *removal, const char *path)
{
    blame(removal, path);
    return st_fail(removal->diag, LMC_ERR_IO, LMC_ST_NO_OFFSET,
                   "is no longer what was compared with the output: it is kept");
}

/* Renames within the folder unless the new name is taken. Returns 0 or an errno. */
static int rename_to_free_name(int folder_fd, const char *from, const char *to)
{
    struct stat found;
#ifdef RENAME_NOREPLACE
    if (renameat2(folder_fd, from, folder_fd, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
#endif
    /* linkat() never replaces, and renameat() replaces no file by a directory */
    if (linkat(folder_fd, from, folder_fd, to, 0) == 0)
        return unlinkat(folder_fd, from, 0) == 0 ? 0 : errno;
    if (errno == EEXIST || fstatat(folder_fd, to, &found, AT_SYMLINK_NOFOLLOW) == 0)
        return EEXIST;
    return renameat(folder_fd, from, folder_fd, to) == 0 ? 0 : errno;
}

/* Returns 0 or an errno. */
static int hide(int folder_fd, const char *name, char private_name[PRIVATE_NBYTES])
{
    int os_errno = EEXIST;
    for (int i = 0; i < PRIVATE_TRIES && os_errno == EEXIST; i++) {
        snprintf(private_name, PRIVATE_NBYTES, PRIVATE_PREFIX "%012llx",
                 (unsigned long long)(os_unforeseen_u64() >> 16));
        os_errno = rename_to_free_name(folder_fd, name, private_name);
    }
    return os_errno;
}

/* Adds to the text of the diagnostic. */
static void add_to_text(lmc_st_diag *diag, const char *format, const char *name)
{
    const size_t used = strlen(diag->text);
    snprintf(diag->text + used, sizeof diag->text - used, format, name);
}

/* After a failure that stands in the diagnostic: gives the input its name back. If that is taken by now, both files
 * stay, and the diagnostic says where. */
static lmc_status put_back(const removal *removal, int folder_fd, const char *private_name, const char *name)
{
    if (rename_to_free_name(folder_fd, private_name, name) != 0)
        add_to_text(removal->diag, ", as %s in that folder: it could not get its name back", private_name);
    return removal->diag->status;
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

static lmc_status remove_file(const removal *removal, int folder_fd, const char *name, const char *path,
                              const os_identity *identity, int is_renamed)
{
    char private_name[PRIVATE_NBYTES];
    if (!is_unchanged(folder_fd, name, identity, is_renamed))
        return fail_changed(removal, path);
    const int os_errno = hide(folder_fd, name, private_name);
    if (os_errno != 0)
        return fail_os(removal, path, os_errno);
    if (!is_unchanged(folder_fd, private_name, identity, 1))
        (void)fail_changed(removal, path);
    else if (unlinkat(folder_fd, private_name, 0) != 0)
        (void)fail_os(removal, path, errno);
    else
        return LMC_OK;
    return put_back(removal, folder_fd, private_name, name);
}

/* Opens the folder that the input is in. *path: a copy of its path without slashes at its end, to be released; *name:
 * the last component of that. Returns -1 with errno set. */
static int open_folder_of_input(const removal *removal, char **path, const char **name)
{
    *path = st_duplicate(removal->memory, removal->root);
    if (!*path) {
        errno = ENOMEM;
        return -1;
    }
    for (size_t length = strlen(*path); length > 1 && (*path)[length - 1] == '/'; length--)
        (*path)[length - 1] = '\0';
    char *const slash = strrchr(*path, '/');
    *name = !slash ? *path : slash + 1;
    if (!slash)
        return os_open_folder(".");
    *slash = '\0'; /* for a moment */
    const int fd = os_open_folder(slash == *path ? "/" : *path);
    *slash = '/';
    return fd;
}

lmc_status os_remove_file(const lmc_allocator *memory, const char *path, const os_identity *identity,
                          lmc_st_diag *diag)
{
    const removal removal = {memory, path, diag};
    const char *name = NULL;
    char *own_path = NULL;
    const int folder_fd = open_folder_of_input(&removal, &own_path, &name);
    lmc_status status = folder_fd < 0 ? fail_os(&removal, "", errno) : LMC_OK;
    if (folder_fd >= 0) {
        status = remove_file(&removal, folder_fd, name, "", identity, 0);
        close(folder_fd);
    }
    st_release(memory, own_path);
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
    size_t seen_count, removed_count;
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

/* What cannot be removed is found here, while all of it is there. */
static lmc_status compare_entry(walk *walk, int folder_fd, const char *name, size_t length)
{
    struct stat found;
    const removal *const removal = walk->removal;
    const os_entry *const entry = find_listed(walk, length, name);
    if (!entry) {
        walk->path[length] = '\0';
        return fail_changed(removal, walk->path);
    }
    walk->seen_count++;
    if (entry->identity.device != walk->tree->root_identity.device)
        return fail_os(removal, walk->path, EBUSY); /* a mount point */
    if (!entry->is_directory) {
        return is_unchanged(folder_fd, name, &entry->identity, 0) ? LMC_OK
                                                                  : fail_changed(removal, walk->path);
    }
    const int fd = os_open_own_folder(folder_fd, name);
    if (fd < 0)
        return fail_os(removal, walk->path, errno);
    if (fstat(fd, &found) != 0 || !os_is_identity(&entry->identity, &found)) {
        close(fd);
        return fail_changed(removal, walk->path);
    }
    return compare_folder(walk, fd, strlen(walk->path));
}

/* Looks whether all that is in the folder is listed, and as it was, and may be removed. Closes `fd`. */
static lmc_status compare_folder(walk *walk, int fd, size_t length)
{
    DIR *const stream = fdopendir(fd);
    int os_errno = !stream ? errno : 0;
    lmc_status status = LMC_OK;
    if (!stream) {
        close(fd);
        return fail_os(walk->removal, walk->path, os_errno);
    }
    for (const char *name = NULL; status == LMC_OK && (name = next_name(stream, &os_errno)) != NULL;) {
        status = faccessat(dirfd(stream), ".", W_OK | X_OK, AT_EACCESS) == 0
                     ? compare_entry(walk, dirfd(stream), name, length)
                     : fail_os(walk->removal, walk->path, errno);
        walk->path[length] = '\0';
    }
    closedir(stream);
    return status == LMC_OK && os_errno != 0 ? fail_os(walk->removal, walk->path, os_errno) : status;
}

static lmc_status compare_all(walk *walk)
{
    struct stat found;
    if (fstat(walk->root_fd, &found) != 0 || !os_is_identity(&walk->tree->root_identity, &found))
        return fail_changed(walk->removal, "");
    const int fd = openat(walk->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const lmc_status status = fd < 0 ? fail_os(walk->removal, "", errno) : compare_folder(walk, fd, 0);
    return status == LMC_OK && walk->seen_count != walk->tree->count ? fail_changed(walk->removal, "")
                                                                     : status;
}

/* Without memory of its own: it cannot run out in the midst. A file that has several names may have lost one here. */
static lmc_status remove_listed(walk *walk, const os_entry *entry)
{
    const char *name = NULL;
    snprintf(walk->path, walk->capacity, "%s", entry->path);
    const int folder_fd = os_open_folder_of(walk->root_fd, walk->path, &name);
    if (folder_fd < 0)
        return fail_os(walk->removal, entry->path, errno);
    lmc_status status = LMC_OK;
    if (!entry->is_directory) {
        status = remove_file(walk->removal, folder_fd, name, entry->path, &entry->identity,
                             entry->identity.name_count > 1);
    } else if (unlinkat(folder_fd, name, AT_REMOVEDIR) != 0) {
        status = fail_os(walk->removal, entry->path, errno);
    }
    close(folder_fd);
    walk->removed_count += status == LMC_OK;
    return status;
}

/* Removes what is in the open directory, then its name. */
static lmc_status remove_all(walk *walk, int folder_fd, const char *name)
{
    const os_tree *const tree = walk->tree;
    lmc_status status = compare_all(walk);
    for (size_t i = tree->count; i > 0 && status == LMC_OK; i--)
        status = remove_listed(walk, &tree->entries[i - 1]);
    if (status == LMC_OK && unlinkat(folder_fd, name, AT_REMOVEDIR) != 0)
        status = fail_os(walk->removal, "", errno);
    if (status != LMC_OK && walk->removed_count > 0)
        add_to_text(walk->removal->diag, "; other parts of %s are removed", "the directory");
    return status;
}

/* A directory that cannot be renamed, as one from below an overlay, keeps its name while it is removed. */
static lmc_status remove_directory(walk *walk, int folder_fd, const char *name)
{
    char private_name[PRIVATE_NBYTES];
    const int os_errno = hide(folder_fd, name, private_name);
    const char *const now = os_errno == 0 ? private_name : name;
    if (os_errno != 0 && os_errno != EXDEV)
        return fail_os(walk->removal, "", os_errno);
    walk->root_fd = os_open_own_folder(folder_fd, now);
    const lmc_status status =
        walk->root_fd < 0 ? fail_os(walk->removal, "", errno) : remove_all(walk, folder_fd, now);
    if (walk->root_fd >= 0)
        close(walk->root_fd);
    return status == LMC_OK || now == name ? status : put_back(walk->removal, folder_fd, now, name);
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
    const removal removal = {tree->memory, root, diag};
    const char *name = NULL;
    char *own_path = NULL;
    walk walk = {.removal = &removal, .tree = tree, .capacity = longest_path(tree)};
    const int folder_fd = open_folder_of_input(&removal, &own_path, &name);
    lmc_status status = folder_fd < 0 ? fail_os(&removal, "", errno) : LMC_OK;
    walk.path = st_allocate_zeroed(tree->memory, walk.capacity, 1);
    if (status == LMC_OK)
        status = !walk.path ? st_fail_nomem(diag) : remove_directory(&walk, folder_fd, name);
    if (folder_fd >= 0)
        close(folder_fd);
    st_release(tree->memory, walk.path);
    st_release(tree->memory, own_path);
    return status;
}
