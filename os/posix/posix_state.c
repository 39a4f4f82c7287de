/*
 * posix_state.c - what a name or a descriptor is.
 */
#include "os/posix/posix.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __APPLE__
#define MODIFIED(found) ((found)->st_mtimespec)
#define CHANGED(found) ((found)->st_ctimespec)
#else
#define MODIFIED(found) ((found)->st_mtim)
#define CHANGED(found) ((found)->st_ctim)
#endif

static os_kind kind_of(mode_t mode)
{
    return S_ISREG(mode) ? OS_FILE : S_ISDIR(mode) ? OS_FOLDER : S_ISLNK(mode) ? OS_LINK : OS_OTHER;
}

static int take(const struct stat *found, os_state *state)
{
    *state = (os_state){.kind = kind_of(found->st_mode),
                        .device = (uint64_t)found->st_dev,
                        .inode = (uint64_t)found->st_ino,
                        .nbytes = (uint64_t)found->st_size,
                        .name_count = (uint64_t)found->st_nlink,
                        .modified_s = (int64_t)MODIFIED(found).tv_sec,
                        .modified_ns = (int64_t)MODIFIED(found).tv_nsec,
                        .changed_s = (int64_t)CHANGED(found).tv_sec,
                        .changed_ns = (int64_t)CHANGED(found).tv_nsec,
                        .permissions = found->st_mode & 07777,
                        .is_ours = found->st_uid == geteuid()};
    return 0;
}

int os_stat(int folder_fd, const char *name, os_state *state)
{
    struct stat found;
    return fstatat(posix_folder(folder_fd), name, &found, 0) == 0 ? take(&found, state) : errno;
}

int os_lstat(int folder_fd, const char *name, os_state *state)
{
    struct stat found;
    return fstatat(posix_folder(folder_fd), name, &found, AT_SYMLINK_NOFOLLOW) == 0 ? take(&found, state)
                                                                                    : errno;
}

int os_fstat(int fd, os_state *state)
{
    struct stat found;
    return fstat(fd, &found) == 0 ? take(&found, state) : errno;
}

int os_set_permissions(int fd, unsigned permissions)
{
    return fchmod(fd, (mode_t)permissions) == 0 ? 0 : errno;
}

int os_set_modified(int fd, int64_t seconds, int64_t nanoseconds)
{
    const struct timespec times[2] = {{0, UTIME_OMIT}, {(time_t)seconds, (long)nanoseconds}};
    return futimens(fd, times) == 0 ? 0 : errno;
}
