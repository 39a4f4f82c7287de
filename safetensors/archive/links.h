/*
 * links.h - the part of an archive's table that says which tensors were coded against which others,
 * and in which file those are (docs/archive.md, section 5). Bytes in memory only; no files.
 */
#ifndef LMC_SAFETENSORS_ARCHIVE_LINKS_H
#define LMC_SAFETENSORS_ARCHIVE_LINKS_H

#include "safetensors/common/memory.h"
#include "safetensors/common/st_common.h"

/* The frame of `tensor` needs the content of `base`: of the base file (LMC_ST_BASE_FILE) or of this one. */
typedef struct st_link {
    uint32_t tensor, base;
    lmc_st_base_place place;
} st_link;

typedef struct st_bases {
    st_link *links; /* by rising `tensor`; NULL if there are none */
    size_t link_count;
    /* the base file; without a link of place LMC_ST_BASE_FILE: "", 0, 0, 0 */
    char name[LMC_ST_BASE_NAME_NBYTES_MAX + 1]; /* NUL-terminated */
    uint64_t original_nbytes;
    uint64_t header_hash;
    uint64_t content_hash;
} st_bases;

/* Bytes of the part, a multiple of 8; 0 without links. */
uint64_t st_bases_nbytes(size_t link_count, size_t name_nbytes);

/* Bytes that the part at src states to have; 0 if that is more than `left`, or it is malformed. */
uint64_t st_bases_stated_nbytes(const unsigned char *src, uint64_t left);

/* Writes the part; returns its end. */
unsigned char *st_bases_write(const st_bases *bases, unsigned char *dst);

/* Reads a part whose size was found right by st_bases_stated_nbytes(). Free with st_bases_free() in every
 * case. Offsets of faults count from `offset`. Errors: CORRUPT, NOMEM. */
lmc_status st_bases_read(st_bases *bases, const lmc_allocator *memory, const unsigned char *src,
                         size_t tensor_count, uint64_t offset, lmc_st_diag *diag);
void st_bases_free(st_bases *bases, const lmc_allocator *memory);

/* The link of a tensor, or NULL. */
const st_link *st_bases_find(const st_bases *bases, size_t tensor);

/* Links of place LMC_ST_BASE_FILE. */
size_t st_bases_file_count(const st_bases *bases);

/* 1 if the bytes may be recorded as the name of a base: UTF-8, 1 to LMC_ST_BASE_NAME_NBYTES_MAX bytes, without
 * '/' and NUL, neither "." nor "..". So it never leads out of the directory it is looked for in. */
int st_base_name_is_valid(const char *name, size_t nbytes);

#endif
