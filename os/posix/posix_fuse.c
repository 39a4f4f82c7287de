/*
 * posix_fuse.c - libfuse 3, which is loaded when it is needed and stays so, and what it says.
 */
#include "os/posix/posix_fuse.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

posix_fuse fuse;

/* Debian 12, Ubuntu 24.04: 3; Debian 13: 4, since libfuse 3.17. What is used of them has the same layout in both. */
static const char *const libraries[] = {"libfuse3.so.4", "libfuse3.so.3"};

static const struct {
    const char *name;
    size_t place; /* in the struct */
} symbols[] = {
    {"fuse_session_new", offsetof(posix_fuse, session_new)},
    {"fuse_session_mount", offsetof(posix_fuse, session_mount)},
    {"fuse_session_unmount", offsetof(posix_fuse, session_unmount)},
    {"fuse_session_destroy", offsetof(posix_fuse, session_destroy)},
    {"fuse_session_exit", offsetof(posix_fuse, session_exit)},
    {"fuse_session_fd", offsetof(posix_fuse, session_fd)},
    {"fuse_session_receive_buf", offsetof(posix_fuse, session_receive_buf)},
    {"fuse_session_process_buf", offsetof(posix_fuse, session_process_buf)},
    {"fuse_set_log_func", offsetof(posix_fuse, set_log_func)},
    {"fuse_opt_free_args", offsetof(posix_fuse, opt_free_args)},
    {"fuse_opt_add_opt", offsetof(posix_fuse, opt_add_opt)},
    {"fuse_opt_add_opt_escaped", offsetof(posix_fuse, opt_add_opt_escaped)},
    {"fuse_req_userdata", offsetof(posix_fuse, req_userdata)},
    {"fuse_reply_none", offsetof(posix_fuse, reply_none)},
    {"fuse_reply_err", offsetof(posix_fuse, reply_err)},
    {"fuse_reply_entry", offsetof(posix_fuse, reply_entry)},
    {"fuse_reply_attr", offsetof(posix_fuse, reply_attr)},
    {"fuse_reply_open", offsetof(posix_fuse, reply_open)},
    {"fuse_reply_buf", offsetof(posix_fuse, reply_buf)},
    {"fuse_add_direntry", offsetof(posix_fuse, add_direntry)},
};

int posix_fuse_load(char *text, size_t capacity)
{
    void *handle = NULL;
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0] && !handle; i++)
        handle = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        (void)snprintf(text, capacity, "libfuse 3 cannot be loaded (Debian: fuse3)");
        return ENOENT;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *const symbol = dlsym(handle, symbols[i].name);
        if (!symbol) {
            (void)snprintf(text, capacity, "libfuse 3 has no %s()", symbols[i].name);
            return ENOENT;
        }
        memcpy((char *)&fuse + symbols[i].place, &symbol, sizeof symbol);
    }
    return 0;
}

static void say_nothing(enum fuse_log_level level, const char *format, va_list arguments)
{
    (void)level;
    (void)format;
    (void)arguments;
}

void posix_fuse_keep_messages(posix_fuse_messages *messages)
{
    int ends[2];
    *messages = (posix_fuse_messages){.fd = -1, .standard_error = -1};
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) /* what does not fit is lost */
        return;
    messages->fd = ends[0];
    messages->standard_error = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (messages->standard_error >= 0)
        (void)dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
}

void posix_fuse_end_messages(const posix_fuse_messages *messages, char *text, size_t capacity)
{
    char line[256] = "";
    fuse.set_log_func(say_nothing);
    if (messages->standard_error >= 0) {
        (void)dup2(messages->standard_error, STDERR_FILENO);
        close(messages->standard_error);
        if (os_read(messages->fd, line, sizeof line - 1) < 0)
            line[0] = '\0'; /* nothing was said */
        line[strcspn(line, "\n")] = '\0';
    }
    if (messages->fd >= 0)
        close(messages->fd);
    if (line[0] != '\0')
        (void)snprintf(text, capacity, "%s", line);
}
