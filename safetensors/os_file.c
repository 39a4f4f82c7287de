/*
 * os_file.c - see os_file.h. fallocate and sched_getaffinity are Linux calls beyond POSIX.
 */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include "os_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h> /* rename */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* One system call moves at most this much: some systems refuse or cut larger counts. */
#define IO_NBYTES_MAX ((size_t)1 << 30)

/* ---- input ---- */

static lmc_status refuse_kind(mode_t mode, lmc_st_diag *diag)
{
    if (S_ISDIR(mode)) {
        diag->os_errno = EISDIR;
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "is a directory; this version works on single files");
    }
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is not a regular file (a pipe, socket or device)");
}

lmc_status os_input_open(os_input *input, const char *path, lmc_st_diag *diag)
{
    /* Without O_NONBLOCK, opening a pipe would wait for a writer. It does nothing to regular files. */
    input->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (input->fd < 0) {
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot open");
    }
    struct stat status;
    if (fstat(input->fd, &status) != 0) {
        const int os_errno = errno;
        os_input_close(input);
        return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot get the file's size");
    }
    if (!S_ISREG(status.st_mode)) {
        os_input_close(input);
        return refuse_kind(status.st_mode, diag);
    }
    input->permissions = status.st_mode & 0777;
    input->nbytes = (uint64_t)status.st_size;
    input->device = (uint64_t)status.st_dev;
    input->inode = (uint64_t)status.st_ino;
    input->modified_s = (int64_t)status.st_mtim.tv_sec;
    input->modified_ns = (int64_t)status.st_mtim.tv_nsec;
    return LMC_OK;
}

void os_input_close(os_input *input)
{
    if (input->fd >= 0) {
        close(input->fd);
    }
    input->fd = -1;
}

lmc_status os_input_read(const os_input *input, uint64_t offset, void *dst, size_t nbytes, lmc_st_diag *diag)
{
    size_t done = 0;
    while (done < nbytes) {
        const size_t wanted = nbytes - done < IO_NBYTES_MAX ? nbytes - done : IO_NBYTES_MAX;
        const ssize_t got = pread(input->fd, (char *)dst + done, wanted, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return st_fail_os(diag, errno, offset + done, "cannot read");
        }
        if (got == 0) {
            return st_fail(diag, LMC_ERR_IO, offset + done, "the file has become shorter while it was read");
        }
        done += (size_t)got;
    }
    return LMC_OK;
}

lmc_status os_input_check_unchanged(const os_input *input, lmc_st_diag *diag)
{
    struct stat status;
    if (fstat(input->fd, &status) != 0) {
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot get the file's size");
    }
    if ((uint64_t)status.st_size != input->nbytes || (int64_t)status.st_mtim.tv_sec != input->modified_s ||
        (int64_t)status.st_mtim.tv_nsec != input->modified_ns) {
        return st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "the file has changed while it was read");
    }
    return LMC_OK;
}

/* ---- output ---- */

static lmc_status fail_exists(lmc_st_diag *diag)
{
    diag->os_errno = EEXIST;
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output exists already");
}

static lmc_status check_target(const char *path, const os_input *input, int force, lmc_st_diag *diag)
{
    struct stat status;
    if (lstat(path, &status) != 0) {
        /* What is wrong with the directory shows when the temporary file is made. */
        return LMC_OK;
    }
    const int is_dangling_link = S_ISLNK(status.st_mode) && stat(path, &status) != 0;
    if (!is_dangling_link && (uint64_t)status.st_dev == input->device &&
        (uint64_t)status.st_ino == input->inode) {
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "input and output are the same file");
    }
    if (!is_dangling_link && !S_ISREG(status.st_mode)) {
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output exists and is %s",
                       S_ISDIR(status.st_mode) ? "a directory" : "not a regular file");
    }
    return force ? LMC_OK : fail_exists(diag);
}

/* Length of the path up to and with the last slash: 0 if it has none. */
static size_t directory_length(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

static lmc_status create_temp(os_output *output, lmc_st_diag *diag)
{
    static const char pattern[] = ".lmc-st-XXXXXX";
    const char *const path = output->path;
    const size_t prefix = directory_length(path);
    char *const temp_path = malloc(prefix + sizeof(pattern));
    if (temp_path == NULL) {
        return st_fail_nomem(diag);
    }
    memcpy(temp_path, path, prefix);
    memcpy(temp_path + prefix, pattern, sizeof(pattern));
    output->fd = mkstemp(temp_path);
    if (output->fd < 0) {
        const int os_errno = errno;
        free(temp_path);
        return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot create a file in its directory");
    }
    (void)fcntl(output->fd, F_SETFD, FD_CLOEXEC);
    output->temp_path = temp_path;
    return LMC_OK;
}

lmc_status os_output_create(os_output *output, const char *path, const os_input *input, int force,
                            lmc_st_diag *diag)
{
    output->fd = -1;
    output->path = path;
    output->temp_path = NULL;
    lmc_status status = check_target(path, input, force, diag);
    if (status == LMC_OK) {
        status = create_temp(output, diag);
    }
    if (status != LMC_OK) {
        st_diag_set_file(diag, path);
    }
    return status;
}

lmc_status os_output_reserve(const os_output *output, uint64_t offset, uint64_t nbytes, lmc_st_diag *diag)
{
#ifdef __linux__
    while (nbytes > 0 && fallocate(output->fd, 0, (off_t)offset, (off_t)nbytes) != 0) {
        if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) {
            st_diag_set_file(diag, output->path);
            return st_fail_os(diag, errno, offset, "cannot write");
        }
        if (errno != EINTR) {
            break;
        }
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
    while (done < nbytes) {
        const size_t wanted = nbytes - done < IO_NBYTES_MAX ? nbytes - done : IO_NBYTES_MAX;
        const ssize_t put = pwrite(output->fd, (const char *)src + done, wanted, (off_t)(offset + done));
        if (put < 0 && errno != EINTR) {
            st_diag_set_file(diag, output->path);
            return st_fail_os(diag, errno, offset + done, "cannot write");
        }
        if (put > 0) {
            done += (size_t)put;
        }
    }
    return LMC_OK;
}

/* Moves the temporary file to its name; returns 0 or an errno. */
static int take_name(const os_output *output, int force)
{
    if (force) {
        return rename(output->temp_path, output->path) == 0 ? 0 : errno;
    }
    /* link() refuses an existing name, rename() would replace it. */
    if (link(output->temp_path, output->path) == 0) {
        return unlink(output->temp_path) == 0 ? 0 : errno;
    }
    if (errno == EEXIST) {
        return EEXIST;
    }
    struct stat status; /* a file system without hard links */
    if (lstat(output->path, &status) == 0) {
        return EEXIST;
    }
    return rename(output->temp_path, output->path) == 0 ? 0 : errno;
}

/* Makes the new name itself durable. Some file systems refuse to sync a directory: then it is theirs. */
static void sync_directory(const os_output *output)
{
    const size_t length = directory_length(output->temp_path);
    const char *directory = ".";
    if (length > 0) {
        output->temp_path[length] = '\0';
        directory = output->temp_path;
    }
    const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

static lmc_status fail_commit(os_output *output, int os_errno, const char *what, lmc_st_diag *diag)
{
    st_diag_set_file(diag, output->path);
    os_output_discard(output);
    return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, what);
}

lmc_status os_output_commit(os_output *output, const os_input *input, int force, int no_fsync,
                            lmc_st_diag *diag)
{
    if (fchmod(output->fd, (mode_t)input->permissions) != 0 && errno != EPERM) {
        return fail_commit(output, errno, "cannot set its permissions", diag);
    }
    if (!no_fsync && fsync(output->fd) != 0) {
        return fail_commit(output, errno, "cannot write", diag);
    }
    const int fd = output->fd;
    output->fd = -1;
    if (close(fd) != 0) {
        return fail_commit(output, errno, "cannot write", diag);
    }
    const int os_errno = take_name(output, force);
    if (os_errno == EEXIST) {
        os_output_discard(output);
        st_diag_set_file(diag, output->path);
        return fail_exists(diag);
    }
    if (os_errno != 0) {
        return fail_commit(output, os_errno, "cannot rename the finished file", diag);
    }
    if (!no_fsync) {
        sync_directory(output);
    }
    free(output->temp_path);
    output->temp_path = NULL;
    return LMC_OK;
}

void os_output_discard(os_output *output)
{
    if (output->fd >= 0) {
        close(output->fd);
    }
    if (output->temp_path != NULL) {
        (void)unlink(output->temp_path);
        free(output->temp_path);
    }
    output->fd = -1;
    output->temp_path = NULL;
}

/* ---- the machine ---- */

unsigned os_core_count(void)
{
#ifdef __linux__
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) > 0) {
        return (unsigned)CPU_COUNT(&cores);
    }
#endif
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (unsigned)count : 1;
}

uint64_t os_unforeseen_u64(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t place = (uint64_t)(uintptr_t)&now; /* moved by address space randomisation */
    return ((uint64_t)now.tv_nsec << 32) ^ (uint64_t)now.tv_sec ^ place * 0x9e3779b97f4a7c15u;
}
