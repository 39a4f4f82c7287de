/*
 * input.c - opens and reads inputs (os/file.h); a stream is copied to a file without a name first.
 */
#define _FILE_OFFSET_BITS 64

#include "safetensors/os/stat.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Bytes of a stream that are taken at once. */
#define STREAM_NBYTES ((size_t)1 << 16)

static lmc_status refuse_kind(mode_t mode, lmc_st_diag *diag)
{
    if (S_ISDIR(mode)) {
        diag->os_errno = EISDIR;
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is a directory");
    }
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is not a regular file (a pipe, socket or device)");
}

static void take_status(os_input *input, const struct stat *status)
{
    input->nbytes = (uint64_t)status->st_size;
    os_take_identity(&input->identity, status);
    os_take_attributes(&input->attributes, status);
}

lmc_status os_input_open(os_input *input, const char *path, lmc_st_diag *diag)
{
    *input = (os_input){.fd = -1};
    /* Without O_NONBLOCK, opening a pipe would wait for a writer. It does nothing to regular files. */
    input->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (input->fd < 0)
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot open");
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
    take_status(input, &status);
    return LMC_OK;
}

/* Copies what `fd` still has to the temporary file. */
static lmc_status copy_to_spool(os_input *input, int fd, const volatile int *cancel, lmc_st_diag *diag)
{
    unsigned char piece[STREAM_NBYTES];
    for (;;) {
        size_t got = 0;
        int os_errno = os_read_some(fd, piece, sizeof piece, cancel, &got);
        if (os_errno != 0)
            return st_fail_os(diag, os_errno, input->nbytes, "cannot read");
        if (got == 0)
            return LMC_OK;
        os_errno = os_write_all(input->fd, piece, got, cancel);
        if (os_errno != 0)
            return st_fail_os(diag, os_errno, input->nbytes, "cannot copy the stream to a temporary file");
        input->nbytes += got;
    }
}

lmc_status os_input_open_fd(os_input *input, int fd, const volatile int *cancel, lmc_st_diag *diag)
{
    struct stat status;
    *input = (os_input){.fd = -1};
    if (fstat(fd, &status) != 0)
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot read");
    if (S_ISDIR(status.st_mode))
        return refuse_kind(status.st_mode, diag);
    if (S_ISREG(status.st_mode) && lseek(fd, 0, SEEK_CUR) == 0) {
        input->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        take_status(input, &status);
        return input->fd >= 0 ? LMC_OK : st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot read");
    }
    input->fd = os_spool_create();
    if (input->fd < 0)
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a temporary file for the stream");
    lmc_status result = copy_to_spool(input, fd, cancel, diag);
    /* the descriptor may itself become another call's input: it stands at its begin */
    if (result == LMC_OK && (fstat(input->fd, &status) != 0 || lseek(input->fd, 0, SEEK_SET) != 0))
        result = st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot read the temporary file");
    if (result == LMC_OK) {
        take_status(input, &status);
        input->attributes.is_known = 0;
    } else {
        os_input_close(input);
    }
    return result;
}

void os_input_open_from(os_input *input, lmc_read_fn read, void *user, uint64_t nbytes)
{
    *input = (os_input){.fd = -1, .read = read, .user = user, .nbytes = nbytes};
}

void os_close(int fd)
{
    (void)close(fd);
}

void os_input_close(os_input *input)
{
    if (input->fd >= 0)
        os_close(input->fd);
    input->fd = -1;
}

static lmc_status read_from_function(const os_input *input, uint64_t offset, void *dst, size_t nbytes,
                                     lmc_st_diag *diag)
{
    const lmc_status status = input->read(input->user, offset, dst, nbytes);
    return status == LMC_OK ? LMC_OK : st_fail(diag, status, offset, "the caller's read function has failed");
}

lmc_status os_input_read(const os_input *input, uint64_t offset, void *dst, size_t nbytes, lmc_st_diag *diag)
{
    size_t done = 0;
    if (input->read)
        return read_from_function(input, offset, dst, nbytes, diag);
    while (done < nbytes) {
        const size_t wanted = nbytes - done < OS_IO_NBYTES_MAX ? nbytes - done : OS_IO_NBYTES_MAX;
        const ssize_t got = pread(input->fd, (char *)dst + done, wanted, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return st_fail_os(diag, errno, offset + done, "cannot read");
        if (got == 0)
            return st_fail(diag, LMC_ERR_IO, offset + done, "the file has become shorter while it was read");
        done += (size_t)got;
    }
    return LMC_OK;
}

int os_input_is(const os_input *input, const char *path, int fd)
{
    struct stat status;
    return !input->read && (fd >= 0 ? fstat(fd, &status) : stat(path, &status)) == 0 &&
           os_is_identity(&input->identity, &status);
}

lmc_status os_input_check_unchanged(const os_input *input, lmc_st_diag *diag)
{
    struct stat status;
    if (input->read)
        return LMC_OK;
    if (fstat(input->fd, &status) != 0)
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot get the file's size");
    const os_identity *const old = &input->identity;
    if (!os_has_same_content_time(old, &status))
        return st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "the file has changed while it was read");
    if (!os_has_same_change_time(old, &status))
        return st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET,
                       "the file, or its name or permissions, has changed while it was read");
    return LMC_OK;
}
