/*
 * zip_directory.h - the ZIPs of a file: where each begins and ends, as its end record says, and their entries: names,
 * and where the data of those lie that are neither compressed nor encrypted. A file may have several ZIPs behind each
 * other, and other bytes before the first one.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_ZIP_DIRECTORY_H
#define LMC_SAFETENSORS_CONTAINER_ZIP_DIRECTORY_H

#include "safetensors/container/container.h"

/* ---- end records ---- */

/* The first bytes of an entry's local header, and of an end record. */
#define ST_ZIP_LOCAL_MAGIC 0x04034b50u
#define ST_ZIP_END_MAGIC 0x06054b50u

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

/* Looks at a file from its end toward its start. All zero at first. */
typedef struct st_zip_search {
    st_window window;
    unsigned char room[4096];
} st_zip_search;

/* *is_there: a ZIP that has entries, and no comment, ends where `next` begins. Error: IO. */
lmc_status st_zip_find_before(const st_reading *reading, st_zip_search *search, const st_zip_end *next,
                              st_zip_end *end, int *is_there, lmc_st_diag *diag);

/* ---- entries ---- */

/* A directory with more entries is refused: no header would have room for so many tensors. */
#define ST_ZIP_ENTRY_COUNT_MAX ((uint64_t)1 << 22)

typedef struct st_zip_entry {
    uint64_t local_offset; /* of its local header, in the file */
    uint64_t data_offset;  /* in the file, if is_plain */
    uint64_t nbytes;       /* in the file */
    uint64_t name_at;      /* in the names */
    uint16_t name_nbytes;
    uint8_t is_plain; /* 1: the data lie in the file as they are, and in no other plain entry */
    uint8_t is_done;  /* for the caller */
} st_zip_entry;

typedef struct st_zip {
    const lmc_allocator *memory;
    st_buffer list, names; /* of st_zip_entry, bytes */
    size_t entry_count, names_nbytes;
} st_zip;

/* Reads the directory, and the local headers of plain entries. Entries come in the order of their places. Takes memory
 * for those that are there, whatever the end record says. Errors: HEADER, LIMIT, IO, NOMEM, CANCELLED. Free with
 * st_zip_free() in every case. */
lmc_status st_zip_read(const st_reading *reading, const st_zip_end *end, st_zip *zip, lmc_st_diag *diag);
void st_zip_free(st_zip *zip);

st_zip_entry *st_zip_entry_at(const st_zip *zip, size_t index);
st_string st_zip_name(const st_zip *zip, const st_zip_entry *entry);

#endif
