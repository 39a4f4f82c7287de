/*
 * stream.c - os/file.h: pipes, sockets and terminals. Nobody may be at their other end to read or write, so
 * the calls wait in poll() and ask there, again and again, whether they are still wanted.
 */
#define _FILE_OFFSET_BITS 64

#include "safetensors/os/file.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAIT_MS 100

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

/* What a single write may hold so that it does not block once poll() has said that there is room. */
static size_t piece_nbytes(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? OS_IO_NBYTES_MAX : PIPE_BUF;
}

int os_write_all(int fd, const void *src, size_t nbytes, const volatile int *cancel)
{
    const size_t most = piece_nbytes(fd);
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

int os_read_some(int fd, void *dst, size_t nbytes, const volatile int *cancel, size_t *got_nbytes)
{
    for (;;) {
        if (wait_until_ready(fd, POLLIN, cancel) != 0)
            return ECANCELED;
        const ssize_t got = read(fd, dst, nbytes);
        *got_nbytes = got > 0 ? (size_t)got : 0;
        if (got >= 0)
            return 0;
        if (errno != EINTR && errno != EAGAIN)
            return errno;
    }
}
