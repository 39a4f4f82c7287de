/*
 * input.c - file.h: opens and reads inputs; a stream is copied to a file without a name first. Nobody may be at the
 * other end of a stream to read or write, so the calls wait for a short time only, and ask again and again whether they
 * are still wanted.
 */
#include "safetensors/files/file.h"

#include <errno.h>
#include <string.h>

/* Bytes that are taken at once of a stream, or of each of two files that are compared. */
#define PIECE_NBYTES ((size_t)1 << 16)

#define WAIT_MS 100

/* ---- streams ---- */

/* Returns 0 when the descriptor is ready (or broken: the next call on it will tell), or ECANCELED. */
static int wait_until_ready(int fd, int (*wait)(int fd, unsigned milliseconds), const volatile int *cancel)
{
    while (!st_is_cancelled(cancel))
        if (wait(fd, WAIT_MS))
            return 0;
    return ECANCELED;
}

int st_write_all(int fd, const void *src, size_t nbytes, const volatile int *cancel)
{
    const size_t most = os_write_nbytes_max(fd);
    size_t done = 0;
    while (done < nbytes) {
        if (wait_until_ready(fd, os_wait_to_write, cancel) != 0)
            return ECANCELED;
        const int64_t put =
            os_write(fd, (const char *)src + done, nbytes - done < most ? nbytes - done : most);
        if (put < 0 && errno != EAGAIN)
            return errno;
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

/* ---- opening and closing ---- */

static lmc_status refuse_kind(os_kind kind, lmc_st_diag *diag)
{
    if (kind == OS_FOLDER) {
        diag->os_errno = EISDIR;
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is a directory: name a file in it");
    }
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is not a regular file (a pipe, socket or device)");
}

static void take_state(st_input *input, const os_state *state)
{
    input->nbytes = state->nbytes;
    input->state = *state;
    input->attributes = st_attributes_of(state);
}

/* Files that the system makes up as they are read, as those in /proc, have content but no size. */
static int has_size(int fd, const os_state *state)
{
    char byte;
    return state->nbytes > 0 || os_read_at(fd, 0, &byte, 1) <= 0;
}

lmc_status st_input_open(st_input *input, const char *path, lmc_st_diag *diag)
{
    *input = (st_input){.fd = -1};
    input->fd = os_open(OS_HERE, path);
    if (input->fd < 0)
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot open");
    os_state state;
    const int os_errno = os_fstat(input->fd, &state);
    const int is_file = os_errno == 0 && state.kind == OS_FILE;
    if (is_file && has_size(input->fd, &state)) {
        take_state(input, &state);
        return LMC_OK;
    }
    st_input_close(input);
    if (is_file)
        return st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "has content, but the system gives its size as 0");
    return os_errno != 0 ? st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot get the file's size")
                         : refuse_kind(state.kind, diag);
}

lmc_status st_input_open_fd(st_input *input, int fd, const volatile int *cancel, lmc_st_diag *diag)
{
    os_state state;
    *input = (st_input){.fd = -1};
    const int failed = os_fstat(fd, &state);
    if (failed != 0)
        return st_fail_os(diag, failed, LMC_ST_NO_OFFSET, "cannot read");
    if (state.kind == OS_FOLDER)
        return refuse_kind(state.kind, diag);
    if (state.kind == OS_FILE && os_position(fd) == 0 && has_size(fd, &state)) {
        input->fd = os_duplicate(fd);
        take_state(input, &state);
        return input->fd >= 0 ? LMC_OK : st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot read");
    }
    input->fd = st_spool_create();
    if (input->fd < 0)
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a temporary file for the stream");
    unsigned char piece[PIECE_NBYTES];
    lmc_status result = LMC_OK;
    for (int64_t got = -1; got != 0 && result == LMC_OK;) {
        int os_errno = wait_until_ready(fd, os_wait_to_read, cancel);
        if (os_errno == 0) {
            got = os_read(fd, piece, sizeof piece);
            os_errno = got < 0 && errno != EAGAIN ? errno : 0;
        }
        if (os_errno != 0)
            result = st_fail_os(diag, os_errno, input->nbytes, "cannot read");
        os_errno = result == LMC_OK && got > 0 ? st_write_all(input->fd, piece, (size_t)got, cancel) : 0;
        if (os_errno != 0)
            result = st_fail_os(diag, os_errno, input->nbytes, "cannot copy the stream to a temporary file");
        input->nbytes += got > 0 ? (uint64_t)got : 0;
    }
    /* the descriptor may itself become another call's input: it stands at its start */
    int os_errno = result == LMC_OK ? os_fstat(input->fd, &state) : 0;
    if (result == LMC_OK && os_errno == 0)
        os_errno = os_rewind(input->fd);
    if (os_errno != 0)
        result = st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot read the temporary file");
    if (result == LMC_OK) {
        take_state(input, &state);
        input->attributes.is_known = 0;
    } else {
        st_input_close(input);
    }
    return result;
}

void st_input_open_from(st_input *input, lmc_read_fn read, void *user, uint64_t nbytes)
{
    *input = (st_input){.fd = -1, .read = read, .user = user, .nbytes = nbytes};
}

void st_input_close(st_input *input)
{
    if (input->fd >= 0)
        (void)os_close(input->fd);
    input->fd = -1;
}

lmc_status st_input_read(const st_input *input, uint64_t offset, void *dst, size_t nbytes, lmc_st_diag *diag)
{
    if (input->read) {
        const lmc_status status = input->read(input->user, offset, dst, nbytes);
        return status == LMC_OK ? LMC_OK
                                : st_fail(diag, status, offset, "the caller's read function has failed");
    }
    const int64_t got = os_read_at(input->fd, offset, dst, nbytes);
    if (got < 0)
        return st_fail_os(diag, errno, offset, "cannot read");
    if ((uint64_t)got < nbytes)
        return st_fail(diag, LMC_ERR_IO, offset + (uint64_t)got,
                       "the file has become shorter while it was read");
    return LMC_OK;
}

lmc_status st_input_compare(const st_input *a, const st_input *b, const st_options *options, int *is_equal,
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
            status = st_input_read(a, at, pieces, nbytes, diag);
        if (status == LMC_OK)
            status = st_input_read(b, at, pieces + PIECE_NBYTES, nbytes, diag);
        *is_equal = status == LMC_OK && memcmp(pieces, pieces + PIECE_NBYTES, nbytes) == 0;
    }
    st_release(options->allocator, pieces);
    return status;
}

void st_input_find_data(const st_input *input, uint64_t offset, uint64_t *begin, uint64_t *end)
{
    const int os_errno = os_find_data(input->fd, offset, begin, end);
    if (os_errno == 0) { /* the file may have grown since it was opened */
        *begin = *begin < input->nbytes ? *begin : input->nbytes;
        *end = *end < input->nbytes ? *end : input->nbytes;
    } else {
        *begin = os_errno == ENXIO ? input->nbytes : offset;
        *end = input->nbytes;
    }
}

int st_input_is(const st_input *input, const char *path, int fd)
{
    os_state state;
    return !input->read && (fd >= 0 ? os_fstat(fd, &state) : os_stat(OS_HERE, path, &state)) == 0 &&
           os_is_same_file(&input->state, &state);
}

lmc_status st_input_check_unchanged(const st_input *input, lmc_st_diag *diag)
{
    os_state now;
    if (input->read)
        return LMC_OK;
    const int os_errno = os_fstat(input->fd, &now);
    if (os_errno != 0)
        return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot get the file's size");
    const os_state *const old = &input->state;
    if (now.nbytes != old->nbytes || now.modified_s != old->modified_s || now.modified_ns != old->modified_ns)
        return st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "the file has changed while it was read");
    /* The change time moves, too, when the time of the content is set back. It also moves when one of the file's names
     * is removed, as by a trainer that removes an old checkpoint: a file that has lost a name passes. */
    if (now.name_count >= old->name_count &&
        (now.changed_s != old->changed_s || now.changed_ns != old->changed_ns))
        return st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET,
                       "the file, or its name or permissions, has changed while it was read");
    return LMC_OK;
}
