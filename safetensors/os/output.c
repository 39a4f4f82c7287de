/*
 * output.c - os/file.h: files that are written. Where the system can, an output has no name at all
 * until it is finished (O_TMPFILE), so that even a killed process leaves nothing behind; elsewhere it has a
 * temporary one beside its own. fallocate and O_TMPFILE are Linux's, beyond POSIX.
 */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include "safetensors/os/stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* rename */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of a collected stream that are copied at once. */
#define COPY_NBYTES ((size_t)1 << 18)

#define TEMP_PREFIX ".lmc-st-"
#define TEMP_TRIES 100

/* ---- files without a name ---- */

/* The name under which a process reaches its own open file. */
#define FD_PATH_NBYTES 32

static void show_fd_path(char *path, int fd)
{
    snprintf(path, FD_PATH_NBYTES, "/proc/self/fd/%d", fd);
}

/* A file without a name in `directory` (in the folder, if it is relative), that can be given one. -1: not here. */
static int open_unnamed(int folder_fd, const char *directory, mode_t mode)
{
#ifdef O_TMPFILE
    const int fd = openat(folder_fd, directory, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    char fd_path[FD_PATH_NBYTES];
    struct stat status;
    if (fd < 0)
        return -1;
    show_fd_path(fd_path, fd);
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
    const char *const slash = strrchr(path, '/');
    return !slash ? 0 : (size_t)(slash - path) + 1;
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
             (unsigned long long)(os_unforeseen_u64() >> 16));
}

static int open_named(int folder_fd, char *temp_path, mode_t mode)
{
    int fd = -1;
    for (int i = 0; i < TEMP_TRIES && fd < 0; i++) {
        set_temp_name(temp_path);
        fd = openat(folder_fd, temp_path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode);
        if (fd < 0 && errno != EEXIST)
            return -1;
    }
    return fd;
}

/* ---- creating ---- */

static lmc_status fail_exists(lmc_st_diag *diag)
{
    diag->os_errno = EEXIST;
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output exists already");
}

static lmc_status fail_same(lmc_st_diag *diag)
{
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "input and output are the same file");
}

static lmc_status check_target(const os_place *place, const os_input *input, int force, lmc_st_diag *diag)
{
    struct stat status;
    const int folder_fd = folder_of(place);
    if (fstatat(folder_fd, place->name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? LMC_OK : st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create");
    const int is_dangling_link = S_ISLNK(status.st_mode) && fstatat(folder_fd, place->name, &status, 0) != 0;
    if (!is_dangling_link && input && os_is_identity(&input->identity, &status))
        return fail_same(diag);
    if (!is_dangling_link && !S_ISREG(status.st_mode))
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output exists and is %s",
                       S_ISDIR(status.st_mode) ? "a directory" : "not a regular file");
    return force ? LMC_OK : fail_exists(diag);
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
    output->fd = open_named(folder_fd, temp_path, mode | 0600);
    if (output->fd < 0) {
        const int os_errno = errno;
        st_release(output->memory, temp_path);
        return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot create a file in its directory");
    }
    output->temp_path = temp_path;
    return LMC_OK;
}

static lmc_status open_stream(os_output *output, const os_input *input, int is_sequential, lmc_st_diag *diag)
{
    struct stat status;
    if (input && fstat(output->stream_fd, &status) == 0 && os_is_identity(&input->identity, &status))
        return fail_same(diag);
    output->is_sequential = is_sequential;
    if (is_sequential)
        return LMC_OK;
    output->fd = os_spool_create();
    return output->fd >= 0
               ? LMC_OK
               : st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a temporary file for the stream");
}

lmc_status os_output_open(os_output *output, const lmc_st_options *options, const os_place *place,
                          const os_input *input, int is_sequential, lmc_st_diag *diag)
{
    lmc_status status = LMC_OK;
    *output = (os_output){.fd = -1,
                          .place = *place,
                          .stream_fd = options->out_fd,
                          .cancel = options->cancel,
                          .memory = options->allocator};
    if (input)
        output->attributes = input->attributes;
    if (output->stream_fd >= 0)
        status = open_stream(output, input, is_sequential, diag);
    else
        status = check_target(place, input, options->force, diag);
    if (status == LMC_OK && output->stream_fd < 0)
        status = create_temp(output, diag);
    if (status != LMC_OK)
        st_diag_set_file(diag, place->path);
    return status;
}

/* The directory that os_spool_create() tries first. Static storage or the environment's. */
static const char *spool_directory(void)
{
    const char *const named = getenv("TMPDIR");
    return named && named[0] != '\0' ? named : "/var/tmp";
}

int os_spool_create(void)
{
    const char *const directories[] = {spool_directory(), "/var/tmp", "/tmp"};
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

static int write_at(int fd, uint64_t offset, const void *src, size_t nbytes, size_t *done)
{
    while (*done < nbytes) {
        const size_t wanted = nbytes - *done < OS_IO_NBYTES_MAX ? nbytes - *done : OS_IO_NBYTES_MAX;
        const ssize_t put = pwrite(fd, (const char *)src + *done, wanted, (off_t)(offset + *done));
        if (put == 0 || (put < 0 && errno != EINTR))
            return put == 0 ? EIO : errno;
        *done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

lmc_status os_output_write(const os_output *output, uint64_t offset, const void *src, size_t nbytes,
                           lmc_st_diag *diag)
{
    size_t done = 0;
    const int os_errno = output->is_sequential ? os_write_all(output->stream_fd, src, nbytes, output->cancel)
                                               : write_at(output->fd, offset, src, nbytes, &done);
    if (os_errno == 0)
        return LMC_OK;
    st_diag_set_file(diag, output->place.path);
    return st_fail_os(diag, os_errno, offset + done, "cannot write");
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

/* Gives the unnamed file its name; returns 0 or an errno. */
static int link_unnamed(os_output *output, int force)
{
    char fd_path[FD_PATH_NBYTES];
    const int folder_fd = folder_of(&output->place);
    show_fd_path(fd_path, output->fd);
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

/* Gives the file its name and closes it; returns 0 or an errno. */
static int take_name(os_output *output, int force)
{
    const int is_named = output->temp_path != NULL;
    const int os_errno = is_named ? 0 : link_unnamed(output, force);
    const int fd = output->fd;
    output->fd = -1;
    /* a network file system may report only now that it could not write */
    if (close(fd) != 0 && is_named)
        return errno;
    return is_named ? rename_temp(&output->place, output->temp_path, force) : os_errno;
}

/* Makes the new name itself durable. Some file systems refuse to sync a directory: then it is theirs. */
static void sync_directory(const os_output *output)
{
    char directory[4096] = ".";
    const size_t length = directory_length(output->place.name);
    if (length >= sizeof directory)
        return;
    if (length > 0) {
        memcpy(directory, output->place.name, length);
        directory[length] = '\0';
    }
    const int fd = openat(folder_of(&output->place), directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
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

/* Copies what was collected to the stream; returns 0 or an errno. */
static int copy_to_stream(const os_output *output, unsigned char *piece)
{
    off_t at = 0;
    int os_errno = 0;
    while (os_errno == 0) {
        const ssize_t got = pread(output->fd, piece, COPY_NBYTES, at);
        if (got == 0)
            return 0;
        if (got > 0) {
            os_errno = os_write_all(output->stream_fd, piece, (size_t)got, output->cancel);
            at += got;
        } else if (errno != EINTR) {
            os_errno = errno;
        }
    }
    return os_errno;
}

static lmc_status fail_end(int os_errno, const char *what, lmc_st_diag *diag)
{
    return os_errno == EEXIST ? fail_exists(diag) : st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, what);
}

static lmc_status commit_stream(const os_output *output, lmc_st_diag *diag)
{
    if (output->is_sequential)
        return LMC_OK;
    unsigned char *const piece = st_allocate(output->memory, COPY_NBYTES);
    const int os_errno = !piece ? ENOMEM : copy_to_stream(output, piece);
    st_release(output->memory, piece);
    return os_errno == 0 ? LMC_OK : fail_end(os_errno, "cannot write", diag);
}

static lmc_status commit_file(os_output *output, const lmc_st_options *options, lmc_st_diag *diag)
{
    int os_errno = os_set_attributes(output->fd, &output->attributes);
    if (os_errno != 0)
        return fail_end(os_errno, "cannot set its permissions", diag);
    if (!options->no_fsync && fsync(output->fd) != 0)
        return fail_end(errno, "cannot write", diag);
    os_errno = take_name(output, options->force);
    if (os_errno != 0)
        return fail_end(os_errno, "cannot give the finished file its name", diag);
    if (!options->no_fsync)
        sync_directory(output);
    st_release(output->memory, output->temp_path);
    output->temp_path = NULL;
    return LMC_OK;
}

lmc_status os_output_close(os_output *output, const lmc_st_options *options, lmc_status written,
                           lmc_st_diag *diag)
{
    lmc_status status = written;
    if (written == LMC_OK)
        status = output->stream_fd >= 0 ? commit_stream(output, diag) : commit_file(output, options, diag);
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
