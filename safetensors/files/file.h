/*
 * file.h - inputs and outputs. Inputs are read by position (never mapped: a file that shrinks while it is mapped kills
 * the process); an output grows in a file without a name, or with a temporary one, and gets its own at the end.
 */
#ifndef LMC_SAFETENSORS_FILES_FILE_H
#define LMC_SAFETENSORS_FILES_FILE_H

#include "os/os.h"
#include "safetensors/common/memory.h"
#include "safetensors/common/options.h"

/* What an output takes over from its input, or from the file that it replaces. */
typedef struct st_attributes {
    int is_known;         /* 0: the output gets what new files get */
    int has_time;         /* 0: the output gets the time at which it is written */
    unsigned permissions; /* without those of set-user-ID and the like */
    int64_t modified_s, modified_ns;
} st_attributes;

static inline st_attributes st_attributes_of(const os_state *state)
{
    const st_attributes attributes = {1, 1, state->permissions & 0777, state->modified_s, state->modified_ns};
    return attributes;
}

/* ---- input (input.c) ---- */

typedef struct st_input {
    int fd;           /* -1: not open, or read by a function */
    lmc_read_fn read; /* NULL: by the descriptor */
    /* Where these bytes lie in memory, or NULL: read() brings them. May itself be NULL. */
    const void *(*find)(const void *user, uint64_t offset, size_t nbytes);
    void *user; /* of both functions */
    uint64_t nbytes;
    os_state state; /* at its opening */
    st_attributes attributes;
} st_input;

/* Opens a regular file for reading; links are followed. Errors: IO, also for a file that has content but no size, as
 * those in /proc; ARG for anything but a file. */
lmc_status st_input_open(st_input *input, const char *path, lmc_st_diag *diag);

/* Reads from a descriptor, which stays the caller's: a regular file that has a size is read where it is if it stands at
 * its start, anything else is copied to a temporary file first (st_spool_create). Errors: IO, CANCELLED. */
lmc_status st_input_open_fd(st_input *input, int fd, const volatile int *cancel, lmc_st_diag *diag);

/* `nbytes` bytes that a function gives; several threads may call it at once. It is no file: it never changes and is
 * none of the files that a path may lead to. */
void st_input_open_from(st_input *input, lmc_read_fn read, void *user, uint64_t nbytes);
void st_input_close(st_input *input);

/* Reads exactly nbytes at `offset`. Error: IO, also when the file has become shorter. Threads may share
 * the input. */
lmc_status st_input_read(const st_input *input, uint64_t offset, void *dst, size_t nbytes, lmc_st_diag *diag);

/* *is_equal: the two have the same bytes. Errors: IO, NOMEM, CANCELLED. */
lmc_status st_input_compare(const st_input *a, const st_input *b, const st_options *options, int *is_equal,
                            lmc_st_diag *diag);

/* The next bytes [*begin, *end) at `offset` or behind it that are not in a hole; both are the size of the input if
 * there are none. Where the system does not tell holes, and in what a function gives, all is data. */
void st_input_find_data(const st_input *input, uint64_t offset, uint64_t *begin, uint64_t *end);

/* Part of an input that was read at once. All zero: nothing. */
typedef struct st_window {
    const unsigned char *bytes;
    uint64_t begin, end;
} st_window;

/* These bytes of the input if the window has them all, else NULL. window: may be NULL. */
static inline const unsigned char *st_window_find(const st_window *window, uint64_t offset, uint64_t nbytes)
{
    return window && offset >= window->begin && offset <= window->end && nbytes <= window->end - offset
               ? window->bytes + (offset - window->begin)
               : NULL;
}

/* 1 if the path, or the descriptor if it is not -1, leads to the same file. */
int st_input_is(const st_input *input, const char *path, int fd);

/* IO if size or time stamps of the file are no longer those at its opening. */
lmc_status st_input_check_unchanged(const st_input *input, lmc_st_diag *diag);

/* ---- output (output.c) ---- */

/* Where an output is to be: a name in a folder that is held open (st_staged_place), or any path. */
typedef struct st_place {
    int folder_fd;    /* OS_HERE: none, `name` is the path itself */
    const char *name; /* in the folder; no link is followed */
    const char *path; /* for messages */
} st_place;

static inline st_place st_place_of(const char *path)
{
    const st_place place = {OS_HERE, path, path};
    return place;
}

typedef struct st_output {
    int fd;          /* -1: not open */
    st_place place;  /* the caller's; what it points to must outlive the output */
    char *temp_path; /* NULL: the file has no name yet; else one beside that of `place` */
    int stream_fd;   /* -1, or the descriptor that gets the bytes */
    int is_sequential;
    const volatile int *cancel; /* of the stream; may be NULL */
    st_attributes attributes;
    const lmc_allocator *memory;
} st_output;

/* ARG with EEXIST. */
lmc_status st_fail_exists(lmc_st_diag *diag);

/* Opens the output of a call with these options, made from `input` (NULL: from nothing).
 *   - A file at `place`: it grows without its name. Errors: ARG if something is there and options->force is 0, is the
 *     input itself, or is not a regular file; IO; NOMEM.
 *   - The options' descriptor, if there is one, which stays the caller's; `place` serves messages only. is_sequential:
 *     writes come in order and go there at once; else they are collected in a temporary file and copied at the end.
 *     Errors: IO; ARG if it is the input itself; the calls that follow: CANCELLED too.
 * A success ends with st_output_close(). What the options and the place point to must outlive the output. */
lmc_status st_output_open(st_output *output, const st_options *options, const st_place *place,
                          const st_input *input, int is_sequential, lmc_st_diag *diag);

/* Asks for disk space for bytes [offset, offset + nbytes). A file system that cannot do so is no error.
 * Error: IO (no space). */
lmc_status st_output_reserve(const st_output *output, uint64_t offset, uint64_t nbytes, lmc_st_diag *diag);

/* Writes at `offset`. Error: IO. Threads may share the output. */
lmc_status st_output_write(const st_output *output, uint64_t offset, const void *src, size_t nbytes,
                           lmc_st_diag *diag);

/* Copies an input, and reports progress. Holes stay holes, except in a stream. Errors: IO, NOMEM, CANCELLED. */
lmc_status st_output_copy(const st_output *output, const st_input *input, const st_options *options,
                          lmc_st_diag *diag);

/* Closes the output. If everything was `written`, the file gets its attributes and its name first. Without
 * options->force, a file that has appeared under the name meanwhile is kept (ARG). After a failure nothing is left.
 * Returns `written` if that is a fault, else what happened here. */
lmc_status st_output_close(st_output *output, const st_options *options, lmc_status written,
                           lmc_st_diag *diag);

/* Makes a new name durable. Some file systems refuse to sync a folder: then it is theirs. */
void st_sync_name(const lmc_allocator *memory, const st_place *place);

/* Sets permissions and time of an open file or directory; returns 0 or an errno. */
int st_set_attributes(int fd, const st_attributes *attributes);

/* An empty file without a name for bytes on their way, in $TMPDIR, /var/tmp or /tmp. Returns its
 * descriptor, or -1 with errno set. */
int st_spool_create(void);

/* ---- streams (input.c) ---- */

/* Writes all bytes to a descriptor; returns 0 or an errno: ECANCELED soon after *cancel (may be NULL) becomes
 * non-zero, even if nobody takes the bytes. */
int st_write_all(int fd, const void *src, size_t nbytes, const volatile int *cancel);

#endif
