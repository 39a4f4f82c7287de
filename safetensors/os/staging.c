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

static const char no_memory[] = "out of memory";

/* NULL: none. Without the memory to tell, the output is not touched either. */
static const char *place_fault(const char *target, const char *source)
{
    char *const true_source = realpath(source, NULL);
    const char *fault = !true_source && errno == ENOMEM ? no_memory : NULL;
    char *const working = realpath(".", NULL);
    if (!working && errno == ENOMEM)
        fault = no_memory;
    else if (true_source && strcmp(target, true_source) == 0)
        fault = "input and output are the same directory";
    else if (true_source && os_true_is_within(target, true_source))
        fault = "the output would be inside the input";
    else if (true_source && os_true_is_within(true_source, target))
        fault = "the input is inside the output";
    else if (working && os_true_is_within(working, target))
        fault = "the output is the working directory or holds it";
    free(true_source);
    free(working);
    return fault;
}

/* One that cannot be listed counts as full. Returns 0 if there is no memory to look into it. */
static int look_whether_empty(const char *path, int *is_empty)
{
    DIR *const stream = opendir(path);
    size_t count = 0;
    *is_empty = 0;
    if (!stream)
        return errno != ENOMEM;
    while (count < 3 && readdir(stream) != NULL)
        count++;
    closedir(stream);
    *is_empty = count <= 2; /* "." and ".." */
    return 1;
}

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
    const char *const fault = place_fault(target, source);
    if (fault)
        return fault == no_memory ? st_fail_nomem(diag)
                                  : st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "%s", fault);
    if (lstat(target, &found) != 0)
        return LMC_OK;
    if (!S_ISDIR(found.st_mode))
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output exists and is not a directory");
    if (fstat(staging->parent_fd, &around) == 0 && around.st_dev != found.st_dev)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "the output is a mount point, which nothing can take the place of");
    if (force) {
        staging->has_old = 1;
        os_take_identity(&staging->old, &found);
        return LMC_OK;
    }
    int is_empty = 0;
    if (!look_whether_empty(target, &is_empty))
        return st_fail_nomem(diag);
    return is_empty ? LMC_OK : fail_exists(diag);
}

/* ".NAME.lmc-st-partial" in the same directory. */
static char *partial_path(const lmc_allocator *memory, const char *target)
{
    const char *const slash = strrchr(target, '/'); /* a true path has one */
    const size_t length = strlen(target) + sizeof PARTIAL_SUFFIX + 2;
    char *const path = st_allocate(memory, length);
    if (path)
        snprintf(path, length, "%.*s.%s" PARTIAL_SUFFIX, (int)(slash - target) + 1, target, slash + 1);
    return path;
}

/* Of a true path. */
static const char *last_component(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* ---- opening ---- */

static int is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Returns 0 if the name is that of the open directory, else an errno: a run that ended, or somebody else, may have
 * renamed or removed it. */
static int check_name(int fd, int folder_fd, const char *name)
{
    struct stat by_fd;
    struct stat by_name;
    if (fstat(fd, &by_fd) != 0 || fstatat(folder_fd, name, &by_name, AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    return is_same(&by_fd, &by_name) ? 0 : ENOENT;
}

/* 1 if the name is known to be another's. */
static int is_taken(int fd, int folder_fd, const char *name)
{
    struct stat by_fd;
    struct stat by_name;
    return fstat(fd, &by_fd) == 0 && fstatat(folder_fd, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0 &&
           !is_same(&by_fd, &by_name);
}

/* 1 if what this process creates in the directory gets the directory's own owner, as on a file system that gives all
 * files to one. */
static int gives_files_away(const os_staging *staging, const struct stat *directory)
{
    struct stat probe;
    static const char name[] = ".lmc-st-probe";
    if (mkdirat(staging->fd, name, 0700) != 0)
        return 0;
    const int are_one =
        fstatat(staging->fd, name, &probe, AT_SYMLINK_NOFOLLOW) == 0 && probe.st_uid == directory->st_uid;
    (void)unlinkat(staging->fd, name, AT_REMOVEDIR);
    return are_one;
}

/* What another user has put there, or may have changed, is not gone on with; nor is what has taken the place of a
 * directory that was just created. */
static lmc_status check_is_ours(const os_staging *staging, int is_new, lmc_st_diag *diag)
{
    struct stat found;
    const char *fault = NULL;
    if (fstat(staging->fd, &found) != 0)
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot open the unfinished directory beside it");
    if (found.st_uid != geteuid() && !(is_new && gives_files_away(staging, &found)))
        fault = "belongs to another user";
    else if (!is_new && (found.st_mode & 022) != 0)
        fault = "may be written in by other users";
    if (!fault)
        return LMC_OK;
    st_diag_set_file(diag, staging->path);
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "this unfinished directory %s: remove it first",
                   fault);
}

/* Sets staging->fd; it stays -1 if what was there has gone meanwhile. */
static lmc_status open_or_create(os_staging *staging, int *is_new, lmc_st_diag *diag)
{
    const char *const name = last_component(staging->path);
    *is_new = mkdirat(staging->parent_fd, name, 0700) == 0;
    if (!*is_new && errno != EEXIST)
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a directory beside it");
    staging->fd = os_open_own_folder(staging->parent_fd, name);
    if (staging->fd >= 0 || errno == ENOENT)
        return LMC_OK;
    const int os_errno = errno;
    if (*is_new)
        (void)unlinkat(staging->parent_fd, name, AT_REMOVEDIR);
    return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot open the unfinished directory beside it");
}

static lmc_status open_locked(os_staging *staging, lmc_st_diag *diag)
{
    for (int i = 0; i < OPEN_TRIES; i++) {
        int is_new = 0;
        lmc_status status = open_or_create(staging, &is_new, diag);
        if (status == LMC_OK && staging->fd >= 0) {
            status = check_is_ours(staging, is_new, diag);
            if (status != LMC_OK && is_new)
                (void)unlinkat(staging->parent_fd, last_component(staging->path), AT_REMOVEDIR);
        }
        if (status != LMC_OK)
            return status;
        if (staging->fd < 0)
            continue;
        if (flock(staging->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            diag->os_errno = EEXIST;
            return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "another process is writing it");
        }
        if (check_name(staging->fd, staging->parent_fd, last_component(staging->path)) == 0) {
            (void)fchmod(staging->fd, 0700);
            return LMC_OK;
        }
        close(staging->fd);
        staging->fd = -1;
    }
    return st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "cannot lock the unfinished directory beside it");
}

/* The folder that the target is in. */
static lmc_status open_parent(os_staging *staging, lmc_st_diag *diag)
{
    char *const path = st_duplicate(staging->memory, staging->target);
    if (!path)
        return st_fail_nomem(diag);
    char *const slash = strrchr(path, '/');
    slash[slash == path] = '\0';
    staging->parent_fd = os_open_folder(path);
    const int os_errno = errno;
    st_release(staging->memory, path);
    return staging->parent_fd >= 0
               ? LMC_OK
               : st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot create a directory there");
}

lmc_status os_staging_open(os_staging *staging, const lmc_allocator *memory, const char *target,
                           const char *source, int force, lmc_st_diag *diag)
{
    memset(staging, 0, sizeof *staging);
    staging->fd = -1;
    staging->parent_fd = -1;
    staging->old_fd = -1;
    staging->memory = memory;
    st_diag_set_file(diag, target);
    staging->target = os_true_path(memory, target);
    if (!staging->target)
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a directory there");
    lmc_status status = open_parent(staging, diag);
    if (status == LMC_OK)
        status = check_target(staging, source, force, diag);
    if (status == LMC_OK) {
        staging->path = partial_path(memory, staging->target);
        if (!staging->path)
            status = st_fail_nomem(diag);
        else if (strlen(staging->path) >= PATH_MAX) /* it would not be found at the end */
            status = st_fail_os(diag, ENAMETOOLONG, LMC_ST_NO_OFFSET, "cannot create a directory beside it");
        else
            status = open_locked(staging, diag);
    }
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
    const char *const name = last_component(staging->path);
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
    const char *const name = last_component(staging->path);
    const size_t length = strlen(name) + sizeof("-old-") + 16;
    char *const aside = st_allocate(staging->memory, length);
    if (aside)
        snprintf(aside, length, "%s-old-%012llx", name, (unsigned long long)(os_unforeseen_u64() >> 16));
    return aside;
}

/* Puts the directory into the place of another, which gets its name. Returns 0 or an errno. */
static int exchange_directories(const os_staging *staging)
{
    const char *const name = last_component(staging->path);
    const char *const target = last_component(staging->target);
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

/* Opens and locks the directory that is to be replaced, so that no other run takes it for an unfinished one. Returns 0
 * or an errno; EEXIST: it is not the one that was there. */
static int open_old(os_staging *staging, struct stat *found)
{
    const char *const target = last_component(staging->target);
    staging->old_fd = os_open_own_folder(staging->parent_fd, target);
    if (staging->old_fd < 0 && errno == EACCES)
        staging->old_fd = os_open_writable_folder(staging->parent_fd, target);
    if (staging->old_fd < 0 || fstat(staging->old_fd, found) != 0)
        return errno;
    if (!staging->has_old || !os_is_identity(&staging->old, found))
        return EEXIST;
    if (flock(staging->old_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return EBUSY;
    (void)fchmod(staging->old_fd, found->st_mode & 0755); /* a later run may have to remove the rest of it */
    return 0;
}

/* Returns 0 or an errno. Somebody may have put another directory into the place of one of them just before: they are
 * exchanged back then, and nothing is removed. */
static int replace_old(os_staging *staging)
{
    struct stat found;
    int os_errno = open_old(staging, &found);
    if (os_errno != 0)
        return os_errno;
    os_errno = exchange_directories(staging);
    if (os_errno != 0) {
        (void)fchmod(staging->old_fd, found.st_mode & 07777);
        return os_errno;
    }
    if (is_taken(staging->fd, staging->parent_fd, last_component(staging->target)) ||
        is_taken(staging->old_fd, staging->parent_fd, last_component(staging->path))) {
        (void)exchange_directories(staging);
        return ENOENT;
    }
    return 0;
}

/* Returns 0 or an errno. */
static int take_name(os_staging *staging, int force)
{
    const char *const name = last_component(staging->path);
    const char *const target = last_component(staging->target);
    /* if it or its folder was moved away meanwhile, the target would be somewhere else */
    int os_errno = check_name(staging->fd, AT_FDCWD, staging->path);
    if (os_errno != 0)
        return os_errno;
    os_errno = rename_beside(staging, name, target); /* also over an empty one */
    if (os_errno == ENOTEMPTY || os_errno == EEXIST)
        return force ? replace_old(staging) : EEXIST;
    return os_errno == 0 && is_taken(staging->fd, staging->parent_fd, target) ? ENOENT : os_errno;
}

/* What cannot be removed of another user's directory must not stand in the way of later runs. */
static void remove_old(const os_staging *staging)
{
    struct stat found;
    if (remove_open(staging, staging->old_fd) == 0 || fstat(staging->old_fd, &found) != 0 ||
        found.st_uid == geteuid())
        return;
    char *const aside = old_name(staging);
    if (aside)
        (void)rename_beside(staging, last_component(staging->path), aside);
    st_release(staging->memory, aside);
}

lmc_status os_staging_commit(os_staging *staging, const os_attributes *attributes, int force, int no_fsync,
                             lmc_st_diag *diag)
{
    os_attributes private = *attributes;
    private.permissions &= ~022u; /* a later run does not go on with what others could write in */
    int os_errno = os_finish(staging->fd, &private, no_fsync);
    if (os_errno == 0)
        os_errno = take_name(staging, force);
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
    if (staging->old_fd >= 0)
        remove_old(staging);
    os_staging_leave(staging);
    return LMC_OK;
}
