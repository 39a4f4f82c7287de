/*
 * archive_header.h - the header that an archive itself has as a safetensors file (docs/archive.md, section 3).
 * Its size must be known before the frames are, so room for the longest numbers is reserved and what is
 * left is filled with spaces.
 */
#ifndef LMC_SAFETENSORS_ARCHIVE_ARCHIVE_HEADER_H
#define LMC_SAFETENSORS_ARCHIVE_ARCHIVE_HEADER_H

#include "safetensors/header/header.h"

/* Names of what is no tensor of the original; `~` is appended until no tensor has them. */
#define ST_ARCHIVE_TABLE_NAME "lmc.archive"
#define ST_ARCHIVE_SKELETON_NAME "lmc.skeleton"

/* What an archive header names: the table, a frame for each original tensor, and the skeleton if the original is no
 * safetensors file. */
typedef struct st_archive_parts {
    const st_header *original;
    const char *table_name;
    uint64_t table_nbytes;
    const char *skeleton_name; /* NULL: there is none */
    uint64_t skeleton_nbytes;  /* stored */
} st_archive_parts;

/* Upper bound of a frame's bytes that holds before anything is known of its coding. */
uint64_t st_archive_frame_bound(uint64_t content_nbytes);

/* Such a name for a file with these tensors, NUL-terminated, to be released. NULL: out of memory. */
char *st_archive_free_name(const char *name, const st_header *original, const lmc_allocator *memory);

/* Bytes of length and header together (a multiple of 8), enough for frames that keep to their bounds.
 * spare_nbytes: of the table, that may come to the header as spaces. Error: LIMIT when the header could be longer
 * than a safetensors header may be. */
lmc_status st_archive_header_reserve(const st_archive_parts *parts, uint64_t spare_nbytes, uint64_t *nbytes,
                                     lmc_st_diag *diag);

/* Writes length and header with the frames' true sizes, exactly `nbytes` bytes. Error: LIMIT when they
 * need more: a frame broke its bound. */
lmc_status st_archive_header_write(const st_archive_parts *parts, const uint64_t *frame_nbytes,
                                   unsigned char *dst, uint64_t nbytes, lmc_st_diag *diag);

#endif
