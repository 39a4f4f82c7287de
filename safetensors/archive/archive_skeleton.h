/*
 * archive_skeleton.h - what of a file is no tensor: kept in pieces behind the frames of an archive (docs/archive.md,
 * section 6). The skeleton of a safetensors file is the header with its length, which the table has.
 */
#ifndef LMC_SAFETENSORS_ARCHIVE_ARCHIVE_SKELETON_H
#define LMC_SAFETENSORS_ARCHIVE_ARCHIVE_SKELETON_H

#include "safetensors/archive/handle.h"

#define ST_SKELETON_PIECE_NBYTES ((size_t)1 << 20) /* of the skeleton; the last one may be shorter */
#define ST_SKELETON_ENTRY_NBYTES 12                /* of the index: u32 stored size, u64 hash of the piece */

static inline uint64_t st_skeleton_piece_count(uint64_t skeleton_nbytes)
{
    return skeleton_nbytes / ST_SKELETON_PIECE_NBYTES + (skeleton_nbytes % ST_SKELETON_PIECE_NBYTES != 0);
}

/* The most bytes that pieces and index may take. */
static inline uint64_t st_skeleton_bound(uint64_t skeleton_nbytes)
{
    return skeleton_nbytes + st_skeleton_piece_count(skeleton_nbytes) * ST_SKELETON_ENTRY_NBYTES;
}

/* Bytes of the skeleton before tensor `index` of the original file, or all of them: index is the number of tensors. */
uint64_t st_skeleton_before(const lmc_st_file *file, size_t index);

/* The skeleton of an open archive, which is read from its start to its end or anywhere. One thread at a time. All
 * zero: not open. */
typedef struct st_skeleton {
    const lmc_st_file *file;
    uint64_t *ends;   /* of the pieces, in the archive */
    uint64_t *hashes; /* of their content */
    st_buffer piece, stored;
    uint64_t loaded; /* the piece that is there, or UINT64_MAX */
} st_skeleton;

/* Reads the index, and compares it with the table. Free with st_skeleton_close() in every case. Errors: IO, NOMEM,
 * TRUNCATED, CORRUPT, CHECKSUM. */
lmc_status st_skeleton_open(st_skeleton *skeleton, const lmc_st_file *file, lmc_st_diag *diag);
void st_skeleton_close(st_skeleton *skeleton);

/* Makes some bytes of the skeleton from `offset` on available at *bytes, until the next call: *nbytes of them, at least
 * one and at most what *nbytes was. offset is less than the skeleton's size. Errors: as st_skeleton_open(). */
lmc_status st_skeleton_get(st_skeleton *skeleton, uint64_t offset, const unsigned char **bytes,
                           size_t *nbytes, lmc_st_diag *diag);

/* Reads and verifies all of the skeleton. Errors: IO, NOMEM, damage. */
lmc_status st_skeleton_check(const lmc_st_file *source, lmc_st_diag *diag);

#endif
