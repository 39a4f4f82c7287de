/*
 * input.c - os/file.h: opens and reads inputs; a stream is copied to a file without a name first. Nobody may be at the
 * other end of a stream to read or write, so the calls wait in poll() and ask there, again and again, whether they are
 * still wanted. Linux has SEEK_DATA beyond POSIX.
 */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include "safetensors/os/stat.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Bytes that are taken at once of a stream, or of each of two files that are compared. */
#define PIECE_NBYTES ((size_t)1 << 16)

#define WAIT_MS 100

/* ---- streams ---- */

/* Returns 0 when the descriptor is ready (or broken: the next call on it will tell), or ECANCELED. */
static int wait_until_ready(int fd, short events, const volatile int *cancel)
{
    struct pollfd wanted = {fd, events, 0};
    for (;;) {
        if (st_is_cancelled(cancel))
            return ECANCELED;
        const int count = poll(&wanted, 1, WAIT_MS);
        if (count > 0 || (count < 0 && errno != EINTR))
            return 0;
    }
}

int os_write_all(int fd, const void *src, size_t nbytes, const volatile int *cancel)
{
    struct stat status;
    /* a single write of so much does not block once poll() has said that there is room */
    const int is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    const size_t most = is_file ? OS_IO_NBYTES_MAX : PIPE_BUF;
    size_t done = 0;
    while (done < nbytes) {
        if (wait_until_ready(fd, POLLOUT, cancel) != 0)
            return ECANCELED;
        const size_t wanted = nbytes - done < most ? nbytes - done : most;
        const ssize_t put = write(fd, (const char *)src + done, wanted);
        if (put < 0 && errno != EINTR && errno != EAGAIN)
            return errno;
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

/* ---- opening and closing ---- */

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
    unsigned char piece[PIECE_NBYTES];
    lmc_status result = LMC_OK;
    for (ssize_t got = -1; got != 0 && result == LMC_OK;) {
        int os_errno = wait_until_ready(fd, POLLIN, cancel);
        if (os_errno == 0) {
            got = read(fd, piece, sizeof piece);
            os_errno = got < 0 && errno != EINTR && errno != EAGAIN ? errno : 0;
        }
        if (os_errno != 0)
            result = st_fail_os(diag, os_errno, input->nbytes, "cannot read");
        os_errno = result == LMC_OK && got > 0 ? os_write_all(input->fd, piece, (size_t)got, cancel) : 0;
        if (os_errno != 0)
            result = st_fail_os(diag, os_errno, input->nbytes, "cannot copy the stream to a temporary file");
        input->nbytes += got > 0 ? (uint64_t)got : 0;
    }
    /* the descriptor may itself become another call's input: it stands at its start */
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

lmc_status os_input_read(const os_input *input, uint64_t offset, void *dst, size_t nbytes, lmc_st_diag *diag)
{
    size_t done = 0;
    if (input->read) {
        const lmc_status status = input->read(input->user, offset, dst, nbytes);
        return status == LMC_OK ? LMC_OK
                                : st_fail(diag, status, offset, "the caller's read function has failed");
    }
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

lmc_status os_input_compare(const os_input *a, const os_input *b, const st_options *options, int *is_equal,
                            lmc_st_diag *diag)
{
    unsigned char *const pieces = st_allocate(options->allocator, 2 * PIECE_NBYTES);
    lmc_status status = !pieces ? st_fail_nomem(diag) : LMC_OK;
    *is_equal = a->nbytes == b->nbytes;
    for (uint64_t at = 0; at < a->nbytes && *is_equal && status == LMC_OK; at += PIECE_NBYTES) {
        const size_t nbytes = a->nbytes - at < PIECE_NBYTES ? (size_t)(a->nbytes - at) : PIECE_NBYTES;
        if (st_is_cancelled(options->cancel))
            status = st_fail_cancelled(diag);
        if (status == LMC_OK)
            status = os_input_read(a, at, pieces, nbytes, diag);
        if (status == LMC_OK)
            status = os_input_read(b, at, pieces + PIECE_NBYTES, nbytes, diag);
        *is_equal = status == LMC_OK && memcmp(pieces, pieces + PIECE_NBYTES, nbytes) == 0;
    }
    st_release(options->allocator, pieces);
    return status;
}

void os_input_find_data(const os_input *input, uint64_t offset, uint64_t *begin, uint64_t *end)
{
    *begin = offset;
    *end = input->nbytes;
#ifdef SEEK_DATA
    const off_t data = lseek(input->fd, (off_t)offset, SEEK_DATA);
    const off_t hole = data < 0 ? -1 : lseek(input->fd, data, SEEK_HOLE);
    if (data < 0 && errno == ENXIO)
        *begin = input->nbytes;
    if (hole >= 0) { /* the file may have grown since it was opened */
        *begin = (uint64_t)data < input->nbytes ? (uint64_t)data : input->nbytes;
        *end = (uint64_t)hole < input->nbytes ? (uint64_t)hole : input->nbytes;
    }
#endif
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
    if ((uint64_t)status.st_size != old->nbytes || (int64_t)status.st_mtim.tv_sec != old->modified_s ||
        (int64_t)status.st_mtim.tv_nsec != old->modified_ns)
        return st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "the file has changed while it was read");
    /* whoever sets the time of the content back moves this one; so does who takes away one of its names, as a trainer
     * does that removes an old checkpoint: a file that has lost a name passes */
    if ((uint64_t)status.st_nlink >= old->name_count && ((int64_t)status.st_ctim.tv_sec != old->changed_s ||
                                                         (int64_t)status.st_ctim.tv_nsec != old->changed_ns))
        return st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET,
                       "the file, or its name or permissions, has changed while it was read");
    return LMC_OK;
}
