/*
 * links.h - the part of an archive's table that says which tensors were coded against which others,
 * and in which files those are (docs/archive.md, section 5). Bytes in memory only; no files.
 */
#ifndef LMC_SAFETENSORS_ARCHIVE_LINKS_H
#define LMC_SAFETENSORS_ARCHIVE_LINKS_H

#include "safetensors/common/memory.h"
#include "safetensors/common/st_common.h"

/* Bytes of a base for each byte of content that it is the base of in this form. */
static inline unsigned st_base_scale(lmc_base_form form)
{
    const lmc_rounding *const rounding = lmc_base_rounding(form);
    return rounding ? rounding->scale : 1;
}

/* The frame of `tensor` needs the content of `base`: of base file `file` (LMC_ST_BASE_FILE) or of this one. */
typedef struct st_link {
    uint32_t tensor, base;
    lmc_st_base_place place;
    uint32_t file; /* its number; 0 for LMC_ST_BASE_SELF */
} st_link;

/* A base file. */
typedef struct st_base_entry {
    char *path; /* its name; before it, in a list of several files, the folder below the root of the store */
    uint64_t original_nbytes;
    uint64_t header_hash;
    uint64_t content_hash;
    int is_equal; /* all tensors that are linked to it are equal to theirs; told by a list of several files alone */
} st_base_entry;

typedef struct st_bases {
    st_link *links; /* by rising `tensor`; NULL if there are none */
    size_t link_count;
    st_base_entry *files; /* NULL without a link of place LMC_ST_BASE_FILE */
    size_t file_count;
    int is_several;  /* the list is of the form for several files */
    int has_lengths; /* a base may be longer or shorter than what is coded against it */
} st_bases;

/* Bytes of the part, a multiple of 8; 0 without links. */
uint64_t st_bases_nbytes(const st_bases *bases);

/* The most that it can have for so many tensors. */
uint64_t st_bases_nbytes_max(size_t tensor_count);

/* Bytes that the part at src states to have; 0 if that is more than `left`, or it is malformed. */
uint64_t st_bases_stated_nbytes(const unsigned char *src, uint64_t left, int is_several);

/* Writes the part; returns its end. */
unsigned char *st_bases_write(const st_bases *bases, unsigned char *dst);

/* Reads a part whose size was found right by st_bases_stated_nbytes(). Free with st_bases_free() in every
 * case. Offsets of faults count from `offset`. Errors: CORRUPT, UNSUPPORTED, NOMEM. */
lmc_status st_bases_read(st_bases *bases, const lmc_allocator *memory, const unsigned char *src,
                         int is_several, size_t tensor_count, uint64_t offset, lmc_st_diag *diag);
void st_bases_free(st_bases *bases, const lmc_allocator *memory);

/* The link of a tensor, or NULL. */
const st_link *st_bases_find(const st_bases *bases, size_t tensor);

/* Links to a base file. */
size_t st_bases_count_links(const st_bases *bases, size_t file);

/* The name of a base file: the last component of its path. */
const char *st_base_entry_name(const st_base_entry *entry);

/* 1 if the bytes may be recorded as the name of a base: UTF-8, 1 to LMC_ST_BASE_NAME_NBYTES_MAX bytes, without
 * '/' and NUL, neither "." nor "..". So it never leads out of the directory it is looked for in. */
int st_base_name_is_valid(const char *name, size_t nbytes);

/* 1 if the bytes may be recorded as the path of a base: at most LMC_ST_BASE_PATH_NBYTES_MAX, such names with '/'
 * between them. */
int st_base_path_is_valid(const char *path, size_t nbytes);

#endif
