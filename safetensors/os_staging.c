/*
 * os_staging.c - os_dir.h: a directory that grows beside its place. flock, renameat2 and realpath are beyond
 * POSIX 2008 as far as the C library is concerned.
 */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include "os_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARTIAL_SUFFIX ".lmc-st-partial"
#define OPEN_TRIES 10

/* ---- where ---- */

/* Allocators need not set errno. */
static char *or_no_memory(char *text)
{
    if (text == NULL) {
        errno = ENOMEM;
    }
    return text;
}

/* The same for a path whose last component is not there. */
static char *true_path_of_new(const lmc_allocator *memory, const char *path)
{
    char *const text = or_no_memory(st_duplicate(memory, path));
    if (text == NULL) {
        return NULL;
    }
    size_t length = strlen(text);
    while (length > 1 && text[length - 1] == '/') {
        text[--length] = '\0';
    }
    char *const slash = strrchr(text, '/');
    const char *const name = slash == NULL ? text : slash + 1;
    if (slash != NULL) {
        *slash = '\0';
    }
    char *joined = NULL;
    char *const parent = realpath(slash == NULL ? "." : slash == text ? "/" : text, NULL);
    const int os_errno = errno;
    if (parent != NULL) {
        joined = os_path_join(memory, parent, name, "");
    }
    free(parent);
    st_release(memory, text);
    errno = os_errno;
    return parent == NULL ? NULL : or_no_memory(joined);
}

char *os_true_path(const lmc_allocator *memory, const char *path)
{
    char *const found = realpath(path, NULL);
    if (found == NULL) {
        return errno == ENOENT ? true_path_of_new(memory, path) : NULL;
    }
    char *const copy = st_duplicate(memory, found);
    free(found);
    return or_no_memory(copy);
}

/* 1 if `inner` is `outer` or below it; both are true paths. */
static int is_within(const char *inner, const char *outer)
{
    const size_t length = strlen(outer);
    return strncmp(inner, outer, length) == 0 &&
           (inner[length] == '\0' || inner[length] == '/' || (length > 0 && outer[length - 1] == '/'));
}

int os_is_within(const lmc_allocator *memory, const char *path, const char *outer)
{
    char *const inner_path = os_true_path(memory, path);
    const int is_short = inner_path == NULL && errno == ENOMEM;
    char *const outer_path = is_short ? NULL : os_true_path(memory, outer);
    int answer = is_short || (outer_path == NULL && errno == ENOMEM) ? -1 : 0;
    if (inner_path != NULL && outer_path != NULL) {
        answer = is_within(inner_path, outer_path);
    }
    st_release(memory, inner_path);
    st_release(memory, outer_path);
    return answer;
}

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
    } else if (true_source != NULL && is_within(target, true_source)) {
        fault = "the output would be inside the input";
    } else if (true_source != NULL && is_within(true_source, target)) {
        fault = "the input is inside the output";
    } else if (working != NULL && is_within(working, target)) {
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

/* ---- opening ---- */

/* 1 if the path still leads to the open directory: a run that ended may have renamed or removed it. */
static int is_still_there(int fd, const char *path)
{
    struct stat by_fd;
    struct stat by_path;
    return fstat(fd, &by_fd) == 0 && lstat(path, &by_path) == 0 && by_fd.st_dev == by_path.st_dev &&
           by_fd.st_ino == by_path.st_ino;
}

static lmc_status open_locked(os_staging *staging, lmc_st_diag *diag)
{
    for (int i = 0; i < OPEN_TRIES; i++) {
        const int is_new = mkdir(staging->path, 0700) == 0;
        if (!is_new && errno != EEXIST) {
            return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a directory beside it");
        }
        staging->lock_fd = open(staging->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (staging->lock_fd < 0) {
            if (errno == ENOENT) {
                continue;
            }
            const int os_errno = errno;
            if (is_new) {
                (void)rmdir(staging->path);
            }
            return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET,
                              "cannot open the unfinished directory beside it");
        }
        if (flock(staging->lock_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            diag->os_errno = EEXIST;
            return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "another process is writing it");
        }
        if (is_still_there(staging->lock_fd, staging->path)) {
            (void)chmod(staging->path, 0700);
            return LMC_OK;
        }
        close(staging->lock_fd);
        staging->lock_fd = -1;
    }
    return st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "cannot lock the unfinished directory beside it");
}

lmc_status os_staging_open(os_staging *staging, const lmc_allocator *memory, const char *target,
                           const char *source, int force, lmc_st_diag *diag)
{
    memset(staging, 0, sizeof(*staging));
    staging->lock_fd = -1;
    staging->memory = memory;
    st_diag_set_file(diag, target);
    staging->target = os_true_path(memory, target);
    if (staging->target == NULL) {
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a directory there");
    }
    lmc_status status = check_target(staging->target, source, force, diag);
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
    if (staging->lock_fd >= 0) {
        close(staging->lock_fd);
    }
    st_release(staging->memory, staging->target);
    st_release(staging->memory, staging->path);
    staging->lock_fd = -1;
    staging->target = NULL;
    staging->path = NULL;
}

void os_staging_discard(os_staging *staging)
{
    (void)os_tree_remove(staging->memory, staging->path);
    os_staging_leave(staging);
}

/* Puts the directory into the place of another, which gets its name. Returns 0 or an errno. */
static int exchange(const os_staging *staging)
{
#ifdef RENAME_EXCHANGE
    if (renameat2(AT_FDCWD, staging->path, AT_FDCWD, staging->target, RENAME_EXCHANGE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return errno;
    }
#endif
    char *const aside = os_path_join(staging->memory, "", staging->path, "-old");
    int os_errno = aside == NULL ? ENOMEM : 0;
    if (os_errno == 0 && rename(staging->target, aside) != 0) {
        os_errno = errno;
    }
    if (os_errno == 0 && rename(staging->path, staging->target) != 0) {
        os_errno = errno;
        (void)rename(aside, staging->target);
    }
    if (os_errno == 0) {
        (void)rename(aside, staging->path);
    }
    st_release(staging->memory, aside);
    return os_errno;
}

/* Returns 0 or an errno; *is_exchanged: the old directory now has the unfinished one's name. */
static int take_name(const os_staging *staging, int force, int *is_exchanged)
{
    *is_exchanged = 0;
    if (rename(staging->path, staging->target) == 0) { /* also over an empty directory */
        return 0;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) {
        return errno;
    }
    if (!force) {
        return EEXIST;
    }
    *is_exchanged = 1;
    return exchange(staging);
}

static void sync_parent(const char *target)
{
    const char *const slash = strrchr(target, '/');
    char parent[4096] = "/";
    const size_t length = (size_t)(slash - target);
    if (length > 0 && length < sizeof(parent)) {
        memcpy(parent, target, length);
        parent[length] = '\0';
    }
    const int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

lmc_status os_staging_commit(os_staging *staging, int force, int no_fsync, lmc_st_diag *diag)
{
    int is_exchanged = 0;
    const int os_errno = take_name(staging, force, &is_exchanged);
    if (os_errno != 0) {
        st_diag_set_file(diag, staging->target);
        os_staging_discard(staging);
        return os_errno == EEXIST ? fail_exists(diag)
                                  : st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET,
                                               "cannot give the finished directory its name");
    }
    if (!no_fsync) {
        sync_parent(staging->target);
    }
    if (is_exchanged) {
        (void)os_tree_remove(staging->memory, staging->path);
    }
    os_staging_leave(staging);
    return LMC_OK;
}

lmc_status os_make_directory(const char *path, lmc_st_diag *diag)
{
    if (mkdir(path, 0700) == 0) {
        return LMC_OK;
    }
    const int os_errno = errno;
    if (os_errno == EEXIST && os_is_directory(path) && chmod(path, 0700) == 0) {
        return LMC_OK;
    }
    st_diag_set_file(diag, path);
    return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot create the directory");
}

static lmc_status finish(const char *path, int flags, const os_attributes *attributes, int no_fsync,
                         lmc_st_diag *diag)
{
    const struct timespec times[2] = {{0, UTIME_OMIT},
                                      {(time_t)attributes->modified_s, (long)attributes->modified_ns}};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    int os_errno = fd < 0 ? errno : 0;
    if (os_errno == 0 && fchmod(fd, (mode_t)attributes->permissions) != 0 && errno != EPERM) {
        os_errno = errno;
    }
    if (os_errno == 0) {
        (void)futimens(fd, times);
    }
    if (os_errno == 0 && !no_fsync && fsync(fd) != 0 && errno != EINVAL) {
        os_errno = errno;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (os_errno != 0) {
        st_diag_set_file(diag, path);
        return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET,
                          flags == O_DIRECTORY ? "cannot finish the directory" : "cannot finish the file");
    }
    return LMC_OK;
}

lmc_status os_finish_directory(const char *path, const os_attributes *attributes, int no_fsync,
                               lmc_st_diag *diag)
{
    return finish(path, O_DIRECTORY, attributes, no_fsync, diag);
}

lmc_status os_finish_file(const char *path, const os_attributes *attributes, int no_fsync, lmc_st_diag *diag)
{
    return finish(path, O_NOFOLLOW, attributes, no_fsync, diag);
}
