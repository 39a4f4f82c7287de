/*
 * zip_end.h - end records of ZIPs: where each ZIP of a file begins and ends, and where its directory is. A file may
 * have several of them behind each other, and other bytes before the first one.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_ZIP_END_H
#define LMC_SAFETENSORS_CONTAINER_ZIP_END_H

#include "safetensors/container/container.h"

#define ST_ZIP_ENTRY_NBYTES_MIN 46

/* More ZIPs before the last ones stay unread. */
#define ST_ZIP_COUNT_MAX ((size_t)1 << 17)

/* A ZIP, as its end record has it. Places are offsets in the file. */
typedef struct st_zip_end {
    uint64_t begin; /* offsets of entries count from here */
    uint64_t directory_offset, directory_nbytes;
    uint64_t entry_count;
    uint64_t end; /* behind the comment */
} st_zip_end;

/* *is_there: the file ends with an end record (and a comment), before which there is a directory as it says. *end: that
 * ZIP. *fault: a static text that says what is wrong, at *fault_offset, where there is a record that does not hold up;
 * else NULL. Error: IO. */
lmc_status st_zip_find_last(const st_reading *reading, st_zip_end *end, int *is_there, const char **fault,
                            uint64_t *fault_offset, lmc_st_diag *diag);

/* Looks at a file from its end toward its begin. All zero at first. */
typedef struct st_zip_search {
    os_window window;
    unsigned char room[4096];
} st_zip_search;

/* *is_there: a ZIP that has entries, and no comment, ends where `next` begins. Error: IO. */
lmc_status st_zip_find_before(const st_reading *reading, st_zip_search *search, const st_zip_end *next,
                              st_zip_end *end, int *is_there, lmc_st_diag *diag);

#endif
