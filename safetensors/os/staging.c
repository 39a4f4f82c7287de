/*
 * staging.c - os/dir.h: a directory that grows beside its place. Its folder and itself are held open; names are
 * only looked up in them. flock and realpath are beyond POSIX 2008 as far as the C library is concerned.
 */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include "safetensors/os/dir.h"
#include "safetensors/os/folder.h"
#include "safetensors/os/stat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define PARTIAL_SUFFIX ".lmc-st-partial"
#define OPEN_TRIES 10

/* ---- where ---- */

static lmc_status fail_exists(lmc_st_diag *diag)
{
    diag->os_errno = EEXIST;
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output exists already");
}

/* Sets staging->old if there is something that is to be replaced. */
static lmc_status check_target(os_staging *staging, const char *source, int force, lmc_st_diag *diag)
{
    struct stat found;
    struct stat around;
    const char *const target = staging->target;
    const char *fault = NULL;
    char *const true_source = realpath(source, NULL);
    int has_memory =
        true_source || errno != ENOMEM; /* to tell; without it, the output is not touched either */
    char *const working = realpath(".", NULL);
    has_memory &= working || errno != ENOMEM;
    const int has_target = lstat(target, &found) == 0;
    if (true_source && strcmp(target, true_source) == 0)
        fault = "input and output are the same directory";
    else if (true_source && os_true_is_within(target, true_source))
        fault = "the output would be inside the input";
    else if (true_source && os_true_is_within(true_source, target))
        fault = "the input is inside the output";
    else if (working && os_true_is_within(working, target))
        fault = "the output is the working directory or holds it";
    else if (has_target && !S_ISDIR(found.st_mode))
        fault = "the output exists and is not a directory";
    else if (has_target && fstat(staging->parent_fd, &around) == 0 && around.st_dev != found.st_dev)
        fault = "the output is a mount point, which nothing can take the place of";
    free(true_source);
    free(working);
    if (!has_memory)
        return st_fail_nomem(diag);
    if (fault)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "%s", fault);
    if (has_target && force) {
        staging->has_old = 1;
        os_take_identity(&staging->old, &found);
    }
    if (!has_target || force)
        return LMC_OK;
    DIR *const stream = opendir(target); /* one that cannot be listed counts as full */
    size_t count = stream ? 0 : 3;
    if (!stream && errno == ENOMEM)
        return st_fail_nomem(diag);
    while (count < 3 && readdir(stream) != NULL)
        count++;
    if (stream)
        closedir(stream);
    return count <= 2 ? LMC_OK : fail_exists(diag); /* "." and ".." */
}

/* ---- opening ---- */

/* Returns 0 if the name is that of the open directory, else an errno: a run that ended, or somebody else, may have
 * renamed or removed it. */
static int check_name(int fd, int folder_fd, const char *name)
{
    struct stat by_fd;
    struct stat by_name;
    if (fstat(fd, &by_fd) != 0 || fstatat(folder_fd, name, &by_name, AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    return lmc_is_same_file(&by_fd, &by_name) ? 0 : ENOENT;
}

/* 1 if the name is known to be another's. */
static int is_taken(int fd, int folder_fd, const char *name)
{
    struct stat by_fd;
    struct stat by_name;
    return fstat(fd, &by_fd) == 0 && fstatat(folder_fd, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0 &&
           !lmc_is_same_file(&by_fd, &by_name);
}

/* What another user has put there, or may have changed, is not gone on with; nor is what has taken the place of a
 * directory that was just created. */
static lmc_status check_is_ours(const os_staging *staging, int is_new, lmc_st_diag *diag)
{
    static const char name[] = ".lmc-st-probe";
    struct stat found;
    struct stat probe;
    const char *fault = NULL;
    if (fstat(staging->fd, &found) != 0)
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot open the unfinished directory beside it");
    int is_ours = found.st_uid == geteuid();
    if (!is_ours && is_new && mkdirat(staging->fd, name, 0700) == 0) {
        /* what this process creates there may get the directory's owner: some file systems give all files to one */
        is_ours =
            fstatat(staging->fd, name, &probe, AT_SYMLINK_NOFOLLOW) == 0 && probe.st_uid == found.st_uid;
        (void)unlinkat(staging->fd, name, AT_REMOVEDIR);
    }
    if (!is_ours)
        fault = "belongs to another user";
    else if (!is_new && (found.st_mode & 022) != 0)
        fault = "may be written in by other users";
    if (!fault)
        return LMC_OK;
    st_diag_set_file(diag, staging->path);
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "this unfinished directory %s: remove it first",
                   fault);
}

/* Creates the directory or opens the one that is there, and locks it. It may go just then. */
static lmc_status open_locked(os_staging *staging, lmc_st_diag *diag)
{
    const char *const name = lmc_last_component(staging->path);
    for (int i = 0; i < OPEN_TRIES; i++) {
        const int is_new = mkdirat(staging->parent_fd, name, 0700) == 0;
        if (!is_new && errno != EEXIST)
            return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a directory beside it");
        staging->fd = lmc_open_own_folder(staging->parent_fd, name);
        if (staging->fd < 0 && errno == ENOENT)
            continue;
        const lmc_status status =
            staging->fd >= 0
                ? check_is_ours(staging, is_new, diag)
                : st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot open the unfinished directory beside it");
        if (status != LMC_OK && is_new)
            (void)unlinkat(staging->parent_fd, name, AT_REMOVEDIR);
        if (status != LMC_OK)
            return status;
        if (flock(staging->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            diag->os_errno = EEXIST;
            return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "another process is writing it");
        }
        if (check_name(staging->fd, staging->parent_fd, name) == 0) {
            (void)fchmod(staging->fd, 0700);
            return LMC_OK;
        }
        close(staging->fd);
        staging->fd = -1;
    }
    return st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "cannot lock the unfinished directory beside it");
}

lmc_status os_staging_open(os_staging *staging, const lmc_allocator *memory, const char *target,
                           const char *source, int force, lmc_st_diag *diag)
{
    *staging = (os_staging){.fd = -1, .parent_fd = -1, .old_fd = -1, .memory = memory};
    st_diag_set_file(diag, target);
    staging->target = os_true_path(memory, target);
    if (!staging->target)
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a directory there");
    const char *const name = lmc_last_component(staging->target);
    const size_t folder_nbytes = (size_t)(name - staging->target);
    const size_t path_nbytes = strlen(staging->target) + sizeof "." PARTIAL_SUFFIX;
    char *const folder = st_duplicate(memory, staging->target);
    staging->path = st_allocate(memory, path_nbytes);
    lmc_status status = folder && staging->path ? LMC_OK : st_fail_nomem(diag);
    if (status == LMC_OK) {
        folder[folder_nbytes > 1 ? folder_nbytes - 1 : 1] = '\0';
        snprintf(staging->path, path_nbytes, "%.*s.%s" PARTIAL_SUFFIX, (int)folder_nbytes, staging->target,
                 name);
        staging->parent_fd = lmc_open_folder(folder);
        if (staging->parent_fd < 0)
            status = st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a directory there");
    }
    st_release(memory, folder);
    if (status == LMC_OK)
        status = check_target(staging, source, force, diag);
    if (status == LMC_OK && strlen(staging->path) >= PATH_MAX) /* it would not be found at the end */
        status = st_fail_os(diag, ENAMETOOLONG, LMC_ST_NO_OFFSET, "cannot create a directory beside it");
    else if (status == LMC_OK)
        status = open_locked(staging, diag);
    if (status != LMC_OK)
        os_staging_leave(staging);
    else
        st_diag_set_file(diag, source);
    return status;
}

/* ---- the end ---- */

static void close_if_open(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void os_staging_leave(os_staging *staging)
{
    close_if_open(&staging->fd);
    close_if_open(&staging->old_fd);
    close_if_open(&staging->parent_fd);
    st_release(staging->memory, staging->target);
    st_release(staging->memory, staging->path);
    staging->target = NULL;
    staging->path = NULL;
}

/* Removes an open directory that has the unfinished one's name. Returns 0 or an errno. */
static int remove_open(const os_staging *staging, int fd)
{
    const char *const name = lmc_last_component(staging->path);
    (void)fchmod(fd, 0700);
    int os_errno = os_remove_contents(fd);
    if (os_errno == 0)
        os_errno = check_name(fd, staging->parent_fd, name);
    return os_errno == 0 && unlinkat(staging->parent_fd, name, AT_REMOVEDIR) != 0 ? errno : os_errno;
}

void os_staging_discard(os_staging *staging)
{
    (void)remove_open(staging, staging->fd);
    os_staging_leave(staging);
}

static int rename_beside(const os_staging *staging, const char *from, const char *to)
{
    return renameat(staging->parent_fd, from, staging->parent_fd, to) == 0 ? 0 : errno;
}

/* "NAME-old" and a number; to be released. */
static char *old_name(const os_staging *staging)
{
    const char *const name = lmc_last_component(staging->path);
    const size_t length = strlen(name) + sizeof("-old-") + 16;
    char *const aside = st_allocate(staging->memory, length);
    if (aside)
        snprintf(aside, length, "%s-old-%012llx", name, (unsigned long long)(lmc_unforeseen_u64() >> 16));
    return aside;
}

/* Puts the directory into the place of another, which gets its name. Returns 0 or an errno. */
static int exchange_directories(const os_staging *staging)
{
    const char *const name = lmc_last_component(staging->path);
    const char *const target = lmc_last_component(staging->target);
    int os_errno = os_folder_exchange(staging->parent_fd, name, target);
    if (os_errno != EINVAL && os_errno != ENOSYS)
        return os_errno;
    char *const aside = old_name(staging);
    os_errno = !aside ? ENOMEM : rename_beside(staging, target, aside);
    if (os_errno == 0) {
        os_errno = rename_beside(staging, name, target);
        (void)rename_beside(staging, aside, os_errno == 0 ? name : target);
    }
    st_release(staging->memory, aside);
    return os_errno;
}

/* Returns 0 or an errno; EEXIST: what is there is not the directory that is to be replaced. That is locked, so that no
 * other run takes it for an unfinished one. Somebody may have put another directory into the place of one of them just
 * before: they are exchanged back then, and nothing is removed. */
static int replace_old(os_staging *staging)
{
    struct stat found;
    const char *const target = lmc_last_component(staging->target);
    staging->old_fd = lmc_open_own_folder(staging->parent_fd, target);
    if (staging->old_fd < 0 && errno == EACCES)
        staging->old_fd = os_open_writable_folder(staging->parent_fd, target);
    if (staging->old_fd < 0 || fstat(staging->old_fd, &found) != 0)
        return errno;
    if (!staging->has_old || !os_is_identity(&staging->old, &found))
        return EEXIST;
    if (flock(staging->old_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return EBUSY;
    (void)fchmod(staging->old_fd, found.st_mode & 0755); /* a later run may have to remove the rest of it */
    const int os_errno = exchange_directories(staging);
    if (os_errno != 0) {
        (void)fchmod(staging->old_fd, found.st_mode & 07777);
        return os_errno;
    }
    if (is_taken(staging->fd, staging->parent_fd, target) ||
        is_taken(staging->old_fd, staging->parent_fd, lmc_last_component(staging->path))) {
        (void)exchange_directories(staging);
        return ENOENT;
    }
    return 0;
}

lmc_status os_staging_commit(os_staging *staging, const os_attributes *attributes, int force, int no_fsync,
                             lmc_st_diag *diag)
{
    os_attributes private = *attributes;
    private.permissions &= ~022u; /* a later run does not go on with what others could write in */
    int os_errno = os_finish(staging->fd, &private, no_fsync);
    /* if it or its folder was moved away meanwhile, the target would be somewhere else */
    if (os_errno == 0)
        os_errno = check_name(staging->fd, AT_FDCWD, staging->path);
    if (os_errno == 0) {
        const char *const target = lmc_last_component(staging->target);
        os_errno =
            rename_beside(staging, lmc_last_component(staging->path), target); /* also over an empty one */
        if (os_errno == ENOTEMPTY || os_errno == EEXIST)
            os_errno = force ? replace_old(staging) : EEXIST;
        else if (os_errno == 0 && is_taken(staging->fd, staging->parent_fd, target))
            os_errno = ENOENT;
    }
    if (os_errno != 0) {
        st_diag_set_file(diag, staging->target);
        close_if_open(&staging->old_fd);
        return os_errno == EEXIST ? fail_exists(diag)
                                  : st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET,
                                               "cannot give the finished directory its name");
    }
    if (private.permissions != attributes->permissions)
        (void)fchmod(staging->fd, (mode_t)attributes->permissions);
    if (!no_fsync)
        (void)fsync(staging->parent_fd); /* some file systems refuse: then it is theirs */
    /* what cannot be removed of another user's directory must not stand in the way of later runs */
    struct stat found;
    if (staging->old_fd >= 0 && remove_open(staging, staging->old_fd) != 0 &&
        fstat(staging->old_fd, &found) == 0 && found.st_uid != geteuid()) {
        char *const aside = old_name(staging);
        if (aside)
            (void)rename_beside(staging, lmc_last_component(staging->path), aside);
        st_release(staging->memory, aside);
    }
    os_staging_leave(staging);
    return LMC_OK;
}

/* ---- what is in it: every path is gone along from the open directory, folder by folder ---- */

lmc_status os_staged_place(const os_staging *staging, const char *path, os_place *place, lmc_st_diag *diag)
{
    char *const shown = lmc_path_join(staging->memory, staging->path, path, "");
    *place = (os_place){-1, NULL, shown};
    if (!shown)
        return st_fail_nomem(diag);
    char *const own = shown + strlen(shown) - strlen(path);
    place->folder_fd = lmc_open_folder_of(staging->fd, own, &place->name);
    if (place->folder_fd < 0) {
        const int os_errno = errno;
        st_diag_set_file(diag, shown);
        return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot open the folder that it is to be in");
    }
    return LMC_OK;
}

void os_staged_place_close(const os_staging *staging, os_place *place)
{
    if (place->folder_fd >= 0)
        close(place->folder_fd);
    st_release(staging->memory, (char *)place->path);
    *place = (os_place){-1, NULL, NULL};
}

int os_staged_open(const os_place *place)
{
    struct stat found;
    const int fd = openat(place->folder_fd, place->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != geteuid())) {
        close(fd);
        return -1;
    }
    return fd;
}

int os_staged_link(const os_place *place, const char *path)
{
    struct stat found;
    return lstat(path, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid() &&
           found.st_nlink == 1 && linkat(AT_FDCWD, path, place->folder_fd, place->name, 0) == 0;
}

void os_staged_unlink(const os_place *place)
{
    (void)unlinkat(place->folder_fd, place->name, 0);
}

static lmc_status fail_place(const os_place *place, int os_errno, const char *what, lmc_st_diag *diag)
{
    st_diag_set_file(diag, place->path);
    return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, what);
}

lmc_status os_staged_make_directory(const os_staging *staging, const char *path, lmc_st_diag *diag)
{
    os_place place;
    struct stat found;
    lmc_status status = os_staged_place(staging, path, &place, diag);
    if (status == LMC_OK && mkdirat(place.folder_fd, place.name, 0700) != 0) {
        int os_errno = errno;
        if (os_errno == EEXIST && fstatat(place.folder_fd, place.name, &found, AT_SYMLINK_NOFOLLOW) != 0) {
            os_errno = errno;
        } else if (os_errno == EEXIST && S_ISDIR(found.st_mode) && found.st_uid == geteuid()) {
            const int fd = os_open_writable_folder(place.folder_fd, place.name);
            os_errno = fd < 0 ? errno : 0;
            if (fd >= 0)
                close(fd);
        }
        if (os_errno != 0)
            status = fail_place(&place, os_errno, "cannot create the directory", diag);
    }
    os_staged_place_close(staging, &place);
    return status;
}

lmc_status os_staged_remove(const os_staging *staging, const char *path, lmc_st_diag *diag)
{
    os_place place;
    lmc_status status = os_staged_place(staging, path, &place, diag);
    if (status == LMC_OK) {
        const int os_errno = os_remove_name(place.folder_fd, place.name);
        status = os_errno == 0 ? LMC_OK : fail_place(&place, os_errno, "cannot remove", diag);
    }
    os_staged_place_close(staging, &place);
    return status;
}

lmc_status os_staged_finish_directory(const os_staging *staging, const char *path,
                                      const os_attributes *attributes, int no_fsync, lmc_st_diag *diag)
{
    os_place place;
    lmc_status status = os_staged_place(staging, path, &place, diag);
    if (status == LMC_OK) {
        const int fd = lmc_open_own_folder(place.folder_fd, place.name);
        const int os_errno = fd < 0 ? errno : os_finish(fd, attributes, no_fsync);
        if (fd >= 0)
            close(fd);
        status = os_errno == 0 ? LMC_OK : fail_place(&place, os_errno, "cannot finish the directory", diag);
    }
    os_staged_place_close(staging, &place);
    return status;
}

int os_finish(int fd, const os_attributes *attributes, int no_fsync)
{
    const int os_errno = os_set_attributes(fd, attributes);
    return os_errno != 0 || no_fsync || fsync(fd) == 0 || errno == EINVAL ? os_errno : errno;
}
