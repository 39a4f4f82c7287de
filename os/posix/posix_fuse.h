/*
 * posix_fuse.h - libfuse 3, which is loaded when it is needed and stays so, and what it says.
 */
#ifndef LMC_OS_POSIX_POSIX_FUSE_H
#define LMC_OS_POSIX_POSIX_FUSE_H

#include "os/posix/posix.h"

#define FUSE_USE_VERSION 31
#include <fuse3/fuse_lowlevel.h>

/* What is called of the library. From 3.17 on its header has an inline function in the place of fuse_session_new(),
 * which the library still exports. */
typedef struct posix_fuse {
    struct fuse_session *(*session_new)(struct fuse_args *arguments, const struct fuse_lowlevel_ops *operations,
                                        size_t operations_nbytes, void *user);
    __typeof__(&fuse_session_mount) session_mount;
    __typeof__(&fuse_session_unmount) session_unmount;
    __typeof__(&fuse_session_destroy) session_destroy;
    __typeof__(&fuse_session_exit) session_exit;
    __typeof__(&fuse_session_fd) session_fd;
    __typeof__(&fuse_session_receive_buf) session_receive_buf;
    __typeof__(&fuse_session_process_buf) session_process_buf;
    __typeof__(&fuse_set_log_func) set_log_func;
    __typeof__(&fuse_opt_free_args) opt_free_args;
    __typeof__(&fuse_opt_add_opt) opt_add_opt;
    __typeof__(&fuse_opt_add_opt_escaped) opt_add_opt_escaped;
    __typeof__(&fuse_req_userdata) req_userdata;
    __typeof__(&fuse_reply_none) reply_none;
    __typeof__(&fuse_reply_err) reply_err;
    __typeof__(&fuse_reply_entry) reply_entry;
    __typeof__(&fuse_reply_attr) reply_attr;
    __typeof__(&fuse_reply_open) reply_open;
    __typeof__(&fuse_reply_buf) reply_buf;
    __typeof__(&fuse_add_direntry) add_direntry;
} posix_fuse;

extern posix_fuse fuse;

/* A buffer of the library. It has one more member from 3.17 on, and the header may be older than the library. */
typedef union posix_fuse_buffer {
    struct fuse_buf buffer;
    char room[128];
} posix_fuse_buffer;

/* Returns 0, or ENOENT with the text. */
int posix_fuse_load(char *text, size_t capacity);

/* What the library and its helper write to standard error in between is kept instead; the text is the first line of
 * it. If there is none, the text stays as it is. No other thread may write there. Later the library says nothing. */
typedef struct posix_fuse_messages {
    int fd;             /* the end of a pipe whose other one is standard error */
    int standard_error; /* -1: it could not be replaced */
} posix_fuse_messages;

void posix_fuse_keep_messages(posix_fuse_messages *messages);
void posix_fuse_end_messages(const posix_fuse_messages *messages, char *text, size_t capacity);

#endif
