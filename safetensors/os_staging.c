/*
 * os_staging.c - os_dir.h: a directory that grows beside its place. Its folder and itself are held open; names are
 * only looked up in them. flock, renameat2 and realpath are beyond POSIX 2008 as far as the C library is concerned.
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
    const char *fault = true_source == NULL && errno == ENOMEM ? no_memory : NULL;
    char *const working = realpath(".", NULL);
    if (working == NULL && errno == ENOMEM) {
        fault = no_memory;
    } else if (true_source != NULL && strcmp(target, true_source) == 0) {
        fault = "input and output are the same directory";
    } else if (true_source != NULL && os_true_is_within(target, true_source)) {
        fault = "the output would be inside the input";
    } else if (true_source != NULL && os_true_is_within(true_source, target)) {
        fault = "the input is inside the output";
    } else if (working != NULL && os_true_is_within(working, target)) {
        fault = "the output is the working directory or holds it";
    }
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
    if (stream == NULL) {
        return errno != ENOMEM;
    }
    while (count < 3 && readdir(stream) != NULL) {
        count++;
    }
    closedir(stream);
    *is_empty = count <= 2; /* "." and ".." */
    return 1;
}

static lmc_status fail_exists(lmc_st_diag *diag)
{
    diag->os_errno = EEXIST;
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output exists already");
}

static lmc_status check_target(const char *target, const char *source, int force, lmc_st_diag *diag)
{
    struct stat found;
    const char *const fault = place_fault(target, source);
    if (fault != NULL) {
        return fault == no_memory ? st_fail_nomem(diag)
                                  : st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "%s", fault);
    }
    if (lstat(target, &found) != 0) {
        return LMC_OK;
    }
    if (!S_ISDIR(found.st_mode)) {
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output exists and is not a directory");
    }
    if (force) {
        return LMC_OK;
    }
    int is_empty = 0;
    if (!look_whether_empty(target, &is_empty)) {
        return st_fail_nomem(diag);
    }
    return is_empty ? LMC_OK : fail_exists(diag);
}

/* ".NAME.lmc-st-partial" in the same directory. */
static char *partial_path(const lmc_allocator *memory, const char *target)
{
    const char *const slash = strrchr(target, '/'); /* a true path has one */
    const size_t length = strlen(target) + sizeof(PARTIAL_SUFFIX) + 2;
    char *const path = st_allocate(memory, length);
    if (path != NULL) {
        snprintf(path, length, "%.*s.%s" PARTIAL_SUFFIX, (int)(slash - target) + 1, target, slash + 1);
    }
    return path;
}

/* Of a true path. */
static const char *last_component(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* ---- opening ---- */

/* Returns 0 if the name is that of the open directory, else an errno: a run that ended may have renamed or removed
 * it. */
static int check_name(const os_staging *staging, int folder_fd, const char *name)
{
    struct stat by_fd;
    struct stat by_name;
    if (fstat(staging->fd, &by_fd) != 0 || fstatat(folder_fd, name, &by_name, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno;
    }
    return by_fd.st_dev == by_name.st_dev && by_fd.st_ino == by_name.st_ino ? 0 : ENOENT;
}

/* What another user has put there, or may have changed, is not gone on with. */
static lmc_status check_is_ours(const os_staging *staging, lmc_st_diag *diag)
{
    struct stat found;
    const char *fault = NULL;
    if (fstat(staging->fd, &found) != 0) {
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot open the unfinished directory beside it");
    }
    if (found.st_uid != geteuid()) {
        fault = "belongs to another user";
    } else if ((found.st_mode & 022) != 0) {
        fault = "may be written in by other users";
    }
    return fault == NULL ? LMC_OK
                         : st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                                   "the unfinished directory beside it, %s, %s: it is not used",
                                   last_component(staging->path), fault);
}

/* Sets staging->fd; it stays -1 if what was there has gone meanwhile. */
static lmc_status open_or_create(os_staging *staging, int *is_new, lmc_st_diag *diag)
{
    const char *const name = last_component(staging->path);
    *is_new = mkdirat(staging->parent_fd, name, 0700) == 0;
    if (!*is_new && errno != EEXIST) {
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a directory beside it");
    }
    staging->fd = openat(staging->parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (staging->fd >= 0 || errno == ENOENT) {
        return LMC_OK;
    }
    const int os_errno = errno;
    if (*is_new) {
        (void)unlinkat(staging->parent_fd, name, AT_REMOVEDIR);
    }
    return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot open the unfinished directory beside it");
}

static lmc_status open_locked(os_staging *staging, lmc_st_diag *diag)
{
    for (int i = 0; i < OPEN_TRIES; i++) {
        int is_new = 0;
        lmc_status status = open_or_create(staging, &is_new, diag);
        if (status == LMC_OK && staging->fd >= 0 && !is_new) {
            status = check_is_ours(staging, diag);
        }
        if (status != LMC_OK) {
            return status;
        }
        if (staging->fd < 0) {
            continue;
        }
        if (flock(staging->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            diag->os_errno = EEXIST;
            return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "another process is writing it");
        }
        if (check_name(staging, staging->parent_fd, last_component(staging->path)) == 0) {
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
    if (path == NULL) {
        return st_fail_nomem(diag);
    }
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
    memset(staging, 0, sizeof(*staging));
    staging->fd = -1;
    staging->parent_fd = -1;
    staging->memory = memory;
    st_diag_set_file(diag, target);
    staging->target = os_true_path(memory, target);
    if (staging->target == NULL) {
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a directory there");
    }
    lmc_status status = check_target(staging->target, source, force, diag);
    if (status == LMC_OK) {
        status = open_parent(staging, diag);
    }
    if (status == LMC_OK) {
        staging->path = partial_path(memory, staging->target);
        status = staging->path == NULL ? st_fail_nomem(diag) : open_locked(staging, diag);
    }
    if (status != LMC_OK) {
        os_staging_leave(staging);
    } else {
        st_diag_set_file(diag, source);
    }
    return status;
}

/* ---- the end ---- */

void os_staging_leave(os_staging *staging)
{
    if (staging->fd >= 0) {
        close(staging->fd);
    }
    if (staging->parent_fd >= 0) {
        close(staging->parent_fd);
    }
    st_release(staging->memory, staging->target);
    st_release(staging->memory, staging->path);
    staging->fd = -1;
    staging->parent_fd = -1;
    staging->target = NULL;
    staging->path = NULL;
}

void os_staging_discard(os_staging *staging)
{
    (void)fchmod(staging->fd, 0700);
    const char *const name = last_component(staging->path);
    if (os_remove_contents(staging->fd) == 0 && check_name(staging, staging->parent_fd, name) == 0) {
        (void)unlinkat(staging->parent_fd, name, AT_REMOVEDIR);
    }
    os_staging_leave(staging);
}

static int rename_beside(const os_staging *staging, const char *from, const char *to)
{
    return renameat(staging->parent_fd, from, staging->parent_fd, to) == 0 ? 0 : errno;
}

/* Puts the directory into the place of another, which gets its name. Returns 0 or an errno. */
static int exchange(const os_staging *staging)
{
    const char *const name = last_component(staging->path);
    const char *const target = last_component(staging->target);
#ifdef RENAME_EXCHANGE
    if (renameat2(staging->parent_fd, name, staging->parent_fd, target, RENAME_EXCHANGE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return errno;
    }
#endif
    char *const aside = os_path_join(staging->memory, "", name, "-old");
    int os_errno = aside == NULL ? ENOMEM : rename_beside(staging, target, aside);
    if (os_errno == 0) {
        os_errno = rename_beside(staging, name, target);
        (void)rename_beside(staging, aside, os_errno == 0 ? name : target);
    }
    st_release(staging->memory, aside);
    return os_errno;
}

/* Returns 0 or an errno; *is_exchanged: the old directory now has the unfinished one's name. */
static int take_name(const os_staging *staging, int force, int *is_exchanged)
{
    const char *const name = last_component(staging->path);
    *is_exchanged = 0;
    /* if it or its folder was moved away meanwhile, the target would be somewhere else */
    int os_errno = check_name(staging, AT_FDCWD, staging->path);
    if (os_errno != 0) {
        return os_errno;
    }
    os_errno = rename_beside(staging, name, last_component(staging->target)); /* also over an empty one */
    if (os_errno != ENOTEMPTY && os_errno != EEXIST) {
        return os_errno;
    }
    if (!force) {
        return EEXIST;
    }
    *is_exchanged = 1;
    return exchange(staging);
}

lmc_status os_staging_commit(os_staging *staging, const os_attributes *attributes, int force, int no_fsync,
                             lmc_st_diag *diag)
{
    int is_exchanged = 0;
    os_attributes private = *attributes;
    private.permissions &= ~022u; /* a later run does not go on with what others could write in */
    int os_errno = os_finish(staging->fd, &private, no_fsync);
    if (os_errno == 0) {
        os_errno = take_name(staging, force, &is_exchanged);
    }
    if (os_errno != 0) {
        st_diag_set_file(diag, staging->target);
        return os_errno == EEXIST ? fail_exists(diag)
                                  : st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET,
                                               "cannot give the finished directory its name");
    }
    if (private.permissions != attributes->permissions) {
        (void)fchmod(staging->fd, (mode_t)attributes->permissions);
    }
    if (!no_fsync) {
        (void)fsync(staging->parent_fd); /* some file systems refuse: then it is theirs */
    }
    if (is_exchanged) {
        (void)os_remove_folder(staging->parent_fd, last_component(staging->path));
    }
    os_staging_leave(staging);
    return LMC_OK;
}
