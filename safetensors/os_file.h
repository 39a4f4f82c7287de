/*
 * os_file.h - the only calls to the operating system's files. Inputs are read by position (never
 * mapped: a file that shrinks while it is mapped kills the process); an output grows in a temporary
 * file and gets its name at the end.
 */
#ifndef LMC_ST_OS_FILE_H
#define LMC_ST_OS_FILE_H

#include "st_base.h"

typedef struct os_input {
    int fd; /* -1: not open */
    unsigned permissions;
    uint64_t nbytes;
    uint64_t device, inode;
    int64_t modified_s, modified_ns;
} os_input;

/* Opens a regular file for reading; links are followed. Errors: IO, ARG for anything but a file. */
lmc_status os_input_open(os_input *input, const char *path, lmc_st_diag *diag);
void os_input_close(os_input *input);

/* Reads exactly nbytes at `offset`. Error: IO, also when the file has become shorter. Threads may share
 * the input. */
lmc_status os_input_read(const os_input *input, uint64_t offset, void *dst, size_t nbytes, lmc_st_diag *diag);

/* IO if size or time stamp of the file are no longer those at its opening. */
lmc_status os_input_check_unchanged(const os_input *input, lmc_st_diag *diag);

typedef struct os_output {
    int fd;           /* -1: not open */
    const char *path; /* the caller's; must outlive the output */
    char *temp_path;
} os_output;

/* Creates the temporary file for an output at `path`. Errors: ARG if `path` exists and `force` is 0, is
 * the input itself, or is not a regular file; IO; NOMEM. Ends with os_output_commit() or _discard(). */
lmc_status os_output_create(os_output *output, const char *path, const os_input *input, int force,
                            lmc_st_diag *diag);

/* Asks for disk space for bytes [offset, offset + nbytes). A file system that cannot do so is no error.
 * Error: IO (no space). */
lmc_status os_output_reserve(const os_output *output, uint64_t offset, uint64_t nbytes, lmc_st_diag *diag);

/* Writes at `offset`. Error: IO. Threads may share the output. */
lmc_status os_output_write(const os_output *output, uint64_t offset, const void *src, size_t nbytes,
                           lmc_st_diag *diag);

/* Gives the finished file its permissions and its name and closes it. Without `force`, a file that has
 * appeared under the name meanwhile is kept (ARG). After a failure the temporary file is gone. */
lmc_status os_output_commit(os_output *output, const os_input *input, int force, int no_fsync,
                            lmc_st_diag *diag);

/* Closes and removes the temporary file, if there is one. */
void os_output_discard(os_output *output);

/* Cores that this process may use, at least 1. */
unsigned os_core_count(void);

/* A number that a file's author cannot foresee; not for secrets. */
uint64_t os_unforeseen_u64(void);

#endif
