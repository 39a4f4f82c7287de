/*
 * staged.c - os/dir.h: what is in a directory that is being written. Every path is gone along from the open
 * directory, folder by folder, and none of them may be a link.
 */
#define _FILE_OFFSET_BITS 64

#include "safetensors/os/dir.h"
#include "safetensors/os/stat.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

lmc_status os_staged_place(const os_staging *staging, const char *path, os_place *place, lmc_st_diag *diag)
{
    char *const shown = os_path_join(staging->memory, staging->path, path, "");
    *place = (os_place){-1, NULL, shown};
    if (!shown)
        return st_fail_nomem(diag);
    char *const own = shown + strlen(shown) - strlen(path);
    place->folder_fd = os_open_folder_of(staging->fd, own, &place->name);
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

/* ---- files ---- */

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

/* ---- directories ---- */

static lmc_status fail_place(const os_place *place, int os_errno, const char *what, lmc_st_diag *diag)
{
    st_diag_set_file(diag, place->path);
    return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, what);
}

/* Returns 0 or an errno. */
static int make_directory(const os_place *place)
{
    struct stat found;
    if (mkdirat(place->folder_fd, place->name, 0700) == 0)
        return 0;
    if (errno != EEXIST)
        return errno;
    if (fstatat(place->folder_fd, place->name, &found, AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid())
        return EEXIST;
    const int fd = os_open_writable_folder(place->folder_fd, place->name);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

lmc_status os_staged_make_directory(const os_staging *staging, const char *path, lmc_st_diag *diag)
{
    os_place place;
    lmc_status status = os_staged_place(staging, path, &place, diag);
    if (status == LMC_OK) {
        const int os_errno = make_directory(&place);
        status = os_errno == 0 ? LMC_OK : fail_place(&place, os_errno, "cannot create the directory", diag);
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
        const int fd = os_open_own_folder(place.folder_fd, place.name);
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
