/*
 * posix_background.c - a process that goes on in the background, and its log.
 */
#include "os/posix/posix.h"

#include "os/mount.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

static int report_fd = -1; /* the parent reads its exit status from it */

int os_begin_background(void)
{
    int ends[2];
    if (pipe(ends) != 0)
        return errno;
    const pid_t child = fork();
    if (child < 0) {
        const int os_errno = errno;
        close(ends[0]);
        close(ends[1]);
        return os_errno;
    }
    if (child > 0) {
        unsigned char reported = 0;
        int status = 0;
        close(ends[1]);
        if (os_read(ends[0], &reported, 1) == 1)
            _exit(reported);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            continue;
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    close(ends[0]);
    report_fd = ends[1];
    (void)fcntl(report_fd, F_SETFD, FD_CLOEXEC);
    return 0;
}

void os_end_start(int exit_status)
{
    const unsigned char reported = (unsigned char)exit_status;
    const int nothing = open("/dev/null", O_RDWR);
    (void)setsid();
    if (chdir("/") != 0) /* it always is there; a folder that is in use could not be unmounted */
        return;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && nothing >= 0; fd++)
        (void)dup2(nothing, fd);
    if (nothing > STDERR_FILENO)
        close(nothing);
    (void)os_write(report_fd, &reported, 1);
    close(report_fd);
    report_fd = -1;
}

void os_log(const char *program, const char *text)
{
    openlog(program, LOG_PID, LOG_DAEMON);
    syslog(LOG_ERR, "%s", text);
    closelog();
}
