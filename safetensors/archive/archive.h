/*
 * archive.h - opening a file, plain or archive: what makes a file an archive are its marks, its table, the original
 * header in that, and whether the archive header describes the tensors of the original one (docs/archive.md, sections
 * 3, 4 and 6). Bases are not looked for.
 */
#ifndef LMC_SAFETENSORS_ARCHIVE_ARCHIVE_H
#define LMC_SAFETENSORS_ARCHIVE_ARCHIVE_H

#include "safetensors/archive/handle.h"

/* How a file is opened: from a path, or a descriptor that is read instead of it. */
typedef struct st_open {
    const char *path;
    int fd;           /* -1: the path is opened */
    lmc_read_fn read; /* reads `nbytes` bytes instead of either; NULL: none */
    void *user;
    uint64_t nbytes;
    const volatile int *cancel;     /* while a stream is read; may be NULL */
    const lmc_allocator *allocator; /* NULL: calloc and free */
    const lmc_st_file *dependent;   /* the open file whose base this may be; else NULL */
    int may_be_short;               /* 1: accept an archive that ends early or goes on (salvage) */
    int is_raw_allowed;             /* 1: a file of no known kind is cut into pieces */
} st_open;

/* lmc_st_open() says what can fail. Ends with st_handle_close(). */
lmc_status st_handle_open(const st_open *how, lmc_st_file **file, lmc_st_diag *diag);

#endif
