/*
 * output.c - os/file.h: files that are written. Where the system can, an output has no name at all
 * until it is finished (O_TMPFILE), so that even a killed process leaves nothing behind; elsewhere it has a
 * temporary one beside its own. fallocate and O_TMPFILE are Linux's, beyond POSIX.
 */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include "common/path.h"
#include "safetensors/os/stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* rename */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes that are copied at once. */
#define COPY_NBYTES ((size_t)1 << 20)

#define TEMP_PREFIX ".lmc-st-"
#define TEMP_TRIES 100

/* ---- files without a name ---- */

/* The name under which a process reaches its own open file. */
#define FD_PATH "/proc/self/fd/%d"
#define FD_PATH_NBYTES 32

/* A file without a name in `directory` (in the folder, if it is relative), that can be given one. -1: not here. */
static int open_unnamed(int folder_fd, const char *directory, mode_t mode)
{
#ifdef O_TMPFILE
    const int fd = openat(folder_fd, directory, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    char fd_path[FD_PATH_NBYTES];
    struct stat status;
    if (fd < 0)
        return -1;
    snprintf(fd_path, sizeof fd_path, FD_PATH, fd);
    if (stat(fd_path, &status) == 0)
        return fd;
    close(fd); /* without /proc it would stay without a name */
#else
    (void)folder_fd;
    (void)directory;
    (void)mode;
#endif
    return -1;
}

/* ---- temporary names ---- */

static int folder_of(const os_place *place)
{
    return place->folder_fd < 0 ? AT_FDCWD : place->folder_fd;
}

/* Length of the path up to and with the last slash: 0 if it has none. */
static size_t directory_length(const char *path)
{
    return (size_t)(lmc_last_component(path) - path);
}

/* Space for a temporary name beside `path`, with the directory filled in. */
static char *allocate_temp_path(const lmc_allocator *memory, const char *path)
{
    const size_t prefix = directory_length(path);
    char *const temp_path = st_allocate(memory, prefix + sizeof TEMP_PREFIX + 16);
    if (temp_path) {
        memcpy(temp_path, path, prefix);
        temp_path[prefix] = '\0';
    }
    return temp_path;
}

static void set_temp_name(char *temp_path)
{
    snprintf(temp_path + directory_length(temp_path), sizeof TEMP_PREFIX + 16, "%s%012llx", TEMP_PREFIX,
             (unsigned long long)(lmc_unforeseen_u64() >> 16));
}

/* ---- creating ---- */

static lmc_status fail_exists(lmc_st_diag *diag)
{
    diag->os_errno = EEXIST;
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output exists already");
}

/* Opens the file, unnamed if possible; on return temp_path holds the directory or a temporary name. */
static lmc_status create_temp(os_output *output, lmc_st_diag *diag)
{
    char *const temp_path = allocate_temp_path(output->memory, output->place.name);
    const int folder_fd = folder_of(&output->place);
    /* group and others get their permissions with the name */
    const mode_t mode = output->attributes.is_known ? output->attributes.permissions & 0700 : 0666;
    if (!temp_path)
        return st_fail_nomem(diag);
    output->fd = open_unnamed(folder_fd, temp_path[0] == '\0' ? "." : temp_path, mode | 0600);
    if (output->fd >= 0) {
        st_release(output->memory, temp_path);
        return LMC_OK;
    }
    errno = EEXIST;
    for (int i = 0; i < TEMP_TRIES && output->fd < 0 && errno == EEXIST; i++) {
        set_temp_name(temp_path);
        output->fd = openat(folder_fd, temp_path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode | 0600);
    }
    if (output->fd < 0) {
        const int os_errno = errno;
        st_release(output->memory, temp_path);
        return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot create a file in its directory");
    }
    output->temp_path = temp_path;
    return LMC_OK;
}

lmc_status os_output_open(os_output *output, const st_options *options, const os_place *place,
                          const os_input *input, int is_sequential, lmc_st_diag *diag)
{
    struct stat found;
    const int is_stream = options->out_fd >= 0;
    const int folder_fd = folder_of(place);
    lmc_status status = LMC_OK;
    *output = (os_output){.fd = -1,
                          .place = *place,
                          .stream_fd = options->out_fd,
                          .is_sequential = is_stream && is_sequential,
                          .cancel = options->cancel,
                          .memory = options->allocator};
    if (input)
        output->attributes = input->attributes;
    const int has_name = !is_stream && fstatat(folder_fd, place->name, &found, AT_SYMLINK_NOFOLLOW) == 0;
    if (!is_stream && !has_name && errno != ENOENT)
        status = st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create");
    /* a link is what it leads to; one that leads nowhere is a name that is taken */
    const int is_dangling =
        has_name && S_ISLNK(found.st_mode) && fstatat(folder_fd, place->name, &found, 0) != 0;
    const int is_file = is_stream ? fstat(output->stream_fd, &found) == 0 : has_name && !is_dangling;
    if (is_file && input && os_is_identity(&input->identity, &found))
        status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "input and output are the same file");
    else if (is_file && !is_stream && !S_ISREG(found.st_mode))
        status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output exists and is %s",
                         S_ISDIR(found.st_mode) ? "a directory" : "not a regular file");
    else if (has_name && !options->force)
        status = fail_exists(diag);
    if (status == LMC_OK && !is_stream) {
        status = create_temp(output, diag);
    } else if (status == LMC_OK && !is_sequential) {
        output->fd = os_spool_create();
        if (output->fd < 0)
            status =
                st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a temporary file for the stream");
    }
    if (status != LMC_OK)
        st_diag_set_file(diag, place->path);
    return status;
}

int os_spool_create(void)
{
    const char *const named = getenv("TMPDIR");
    const char *const directories[] = {named && named[0] != '\0' ? named : "/var/tmp", "/var/tmp", "/tmp"};
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
        char path[4096];
        const int length = snprintf(path, sizeof path, "%s/%sXXXXXX", directories[i], TEMP_PREFIX);
        int fd = open_unnamed(AT_FDCWD, directories[i], 0600);
        if (fd < 0 && length < (int)sizeof path && (fd = mkstemp(path)) >= 0) {
            (void)unlink(path);
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        }
        if (fd >= 0)
            return fd;
    }
    return -1;
}

/* ---- writing ---- */

lmc_status os_output_reserve(const os_output *output, uint64_t offset, uint64_t nbytes, lmc_st_diag *diag)
{
#ifdef __linux__
    while (nbytes > 0 && !output->is_sequential &&
           fallocate(output->fd, 0, (off_t)offset, (off_t)nbytes) != 0) {
        if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) {
            st_diag_set_file(diag, output->place.path);
            return st_fail_os(diag, errno, offset, "cannot write");
        }
        if (errno != EINTR)
            break;
    }
#else
    (void)output;
    (void)offset;
    (void)nbytes;
    (void)diag;
#endif
    return LMC_OK;
}

lmc_status os_output_write(const os_output *output, uint64_t offset, const void *src, size_t nbytes,
                           lmc_st_diag *diag)
{
    size_t done = 0;
    int os_errno = 0;
    if (output->is_sequential)
        os_errno = os_write_all(output->stream_fd, src, nbytes, output->cancel);
    while (!output->is_sequential && done < nbytes && os_errno == 0) {
        const size_t wanted = nbytes - done < OS_IO_NBYTES_MAX ? nbytes - done : OS_IO_NBYTES_MAX;
        const ssize_t put = pwrite(output->fd, (const char *)src + done, wanted, (off_t)(offset + done));
        if (put == 0 || (put < 0 && errno != EINTR))
            os_errno = put == 0 ? EIO : errno;
        done += put > 0 ? (size_t)put : 0;
    }
    if (os_errno == 0)
        return LMC_OK;
    st_diag_set_file(diag, output->place.path);
    return st_fail_os(diag, os_errno, offset + done, "cannot write");
}

lmc_status os_output_copy(const os_output *output, const os_input *input, const st_options *options,
                          lmc_st_diag *diag)
{
    unsigned char *const piece = st_allocate(options->allocator, COPY_NBYTES);
    lmc_status status = !piece ? st_fail_nomem(diag) : LMC_OK;
    uint64_t end = 0; /* of the data that `at` is in */
    for (uint64_t at = 0; status == LMC_OK; at += COPY_NBYTES) {
        if (output->is_sequential)
            end = input->nbytes;
        else if (at >= end)
            os_input_find_data(input, end, &at, &end);
        if (at >= input->nbytes)
            break;
        const size_t nbytes = end - at < COPY_NBYTES ? (size_t)(end - at) : COPY_NBYTES;
        if (st_is_cancelled(options->cancel))
            status = st_fail_cancelled(diag);
        else
            status = os_input_read(input, at, piece, nbytes, diag);
        if (status == LMC_OK)
            status = os_output_write(output, at, piece, nbytes, diag);
    }
    st_release(options->allocator, piece);
    int os_errno = output->is_sequential ? 0 : EINTR; /* a file may end with a hole */
    while (status == LMC_OK && os_errno == EINTR)
        os_errno = ftruncate(output->fd, (off_t)input->nbytes) != 0 ? errno : 0;
    if (status == LMC_OK && os_errno != 0) {
        st_diag_set_file(diag, output->place.path);
        status = st_fail_os(diag, os_errno, input->nbytes, "cannot write");
    }
    return status;
}

/* ---- the end ---- */

/* Moves the file from its temporary name to its own; returns 0 or an errno. */
static int rename_temp(const os_place *place, const char *temp_path, int force)
{
    const int folder_fd = folder_of(place);
    if (force)
        return renameat(folder_fd, temp_path, folder_fd, place->name) == 0 ? 0 : errno;
    /* linkat() refuses an existing name, renameat() would replace it. */
    if (linkat(folder_fd, temp_path, folder_fd, place->name, 0) == 0) {
        (void)unlinkat(folder_fd, temp_path, 0); /* the output is whole whether or not this can be done */
        return 0;
    }
    struct stat status;
    if (errno == EEXIST || fstatat(folder_fd, place->name, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return EEXIST;
    /* a file system without hard links */
    return renameat(folder_fd, temp_path, folder_fd, place->name) == 0 ? 0 : errno;
}

int os_set_attributes(int fd, const os_attributes *attributes)
{
    const struct timespec times[2] = {{0, UTIME_OMIT},
                                      {(time_t)attributes->modified_s, (long)attributes->modified_ns}};
    if (!attributes->is_known)
        return 0;
    if (fchmod(fd, (mode_t)attributes->permissions) != 0 && errno != EPERM)
        return errno;
    /* a time that a file system cannot hold is no reason to lose the output */
    (void)futimens(fd, times);
    return 0;
}

/* Gives the unnamed file its name; returns 0 or an errno. */
static int link_unnamed(os_output *output, int force)
{
    char fd_path[FD_PATH_NBYTES];
    const int folder_fd = folder_of(&output->place);
    snprintf(fd_path, sizeof fd_path, FD_PATH, output->fd);
    if (linkat(AT_FDCWD, fd_path, folder_fd, output->place.name, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    if (errno != EEXIST || !force)
        return errno;
    /* only rename() replaces, and it needs a name to begin with */
    output->temp_path = allocate_temp_path(output->memory, output->place.name);
    if (!output->temp_path)
        return ENOMEM;
    int os_errno = EEXIST;
    for (int i = 0; i < TEMP_TRIES && os_errno == EEXIST; i++) {
        set_temp_name(output->temp_path);
        os_errno =
            linkat(AT_FDCWD, fd_path, folder_fd, output->temp_path, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
    }
    if (os_errno != 0) { /* the last name that was tried is somebody else's */
        st_release(output->memory, output->temp_path);
        output->temp_path = NULL;
        return os_errno;
    }
    return rename_temp(&output->place, output->temp_path, 1);
}

/* Gives the file its attributes and its name. Returns 0, or an errno with *what that could not be done. */
static int commit_file(os_output *output, const st_options *options, const char **what)
{
    const int is_named = output->temp_path != NULL;
    const int fd = output->fd;
    *what = "cannot set its permissions";
    int os_errno = os_set_attributes(fd, &output->attributes);
    if (os_errno != 0)
        return os_errno;
    *what = "cannot write";
    if (!options->no_fsync && fsync(fd) != 0)
        return errno;
    *what = "cannot give the finished file its name";
    if (!is_named)
        os_errno = link_unnamed(output, options->force);
    output->fd = -1;
    /* a network file system may report only now that it could not write */
    if (close(fd) != 0 && is_named)
        return errno;
    if (is_named)
        os_errno = rename_temp(&output->place, output->temp_path, options->force);
    if (os_errno != 0)
        return os_errno;
    /* makes the new name itself durable; some file systems refuse to sync a directory: then it is theirs */
    char directory[4096] = ".";
    const size_t length = directory_length(output->place.name);
    if (!options->no_fsync && length < sizeof directory) {
        if (length > 0) {
            memcpy(directory, output->place.name, length);
            directory[length] = '\0';
        }
        const int directory_fd =
            openat(folder_of(&output->place), directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (directory_fd >= 0) {
            (void)fsync(directory_fd);
            close(directory_fd);
        }
    }
    st_release(output->memory, output->temp_path);
    output->temp_path = NULL;
    return 0;
}

lmc_status os_output_close(os_output *output, const st_options *options, lmc_status written,
                           lmc_st_diag *diag)
{
    lmc_status status = written;
    const char *what = "cannot write";
    int os_errno = 0;
    if (written == LMC_OK && output->stream_fd < 0) {
        os_errno = commit_file(output, options, &what);
    } else if (written == LMC_OK && !output->is_sequential) { /* what was collected is copied to the stream */
        const off_t end = lseek(output->fd, 0, SEEK_END);
        const os_input collected = {.fd = output->fd, .nbytes = (uint64_t)end};
        os_output stream = *output;
        stream.is_sequential = 1;
        status = end < 0 ? st_fail_os(diag, errno, LMC_ST_NO_OFFSET, what)
                         : os_output_copy(&stream, &collected, options, diag);
    }
    if (os_errno != 0)
        status = os_errno == EEXIST ? fail_exists(diag) : st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, what);
    if (written == LMC_OK && status != LMC_OK)
        st_diag_set_file(diag, output->place.path);
    if (output->fd >= 0)
        close(output->fd);
    if (output->temp_path) {
        (void)unlinkat(folder_of(&output->place), output->temp_path, 0);
        st_release(output->memory, output->temp_path);
    }
    output->fd = -1;
    output->temp_path = NULL;
    return status;
}
