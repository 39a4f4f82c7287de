/*
 * zip_directory.h - the entries of a ZIP: names, and where the data of those lie that are neither compressed nor
 * encrypted.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_ZIP_DIRECTORY_H
#define LMC_SAFETENSORS_CONTAINER_ZIP_DIRECTORY_H

#include "safetensors/container/zip_end.h"

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
