/*
 * table.h - the first tensor of an archive: original header, content hashes and checksums
 * (docs/archive.md, section 4). Bytes in memory only; no files.
 */
#ifndef LMC_SAFETENSORS_ARCHIVE_TABLE_H
#define LMC_SAFETENSORS_ARCHIVE_TABLE_H

#include "safetensors/archive/layout.h"
#include "safetensors/archive/links.h"
#include "safetensors/common/memory.h"
#include "safetensors/common/st_common.h"

#define ST_TABLE_MAGIC 0x414d4c8cu /* bytes 8c 4c 4d 41: never valid UTF-8, then "LMA" */
#define ST_TABLE_VERSION LMC_ST_ARCHIVE_VERSION

#define ST_TABLE_METHOD_STORED 0
#define ST_TABLE_METHOD_ZSTD 1

/* Required features, as bits. A reader refuses those it does not know. */
#define ST_TABLE_FEATURE_BASE 0    /* tensors that were coded against another one; archive/links.h */
#define ST_TABLE_FEATURE_ALIAS 1   /* tensors that use another one's frame; a list of them follows */
#define ST_TABLE_FEATURE_SETS 2    /* reserved: code tables that frames share */
#define ST_TABLE_FEATURE_LAYOUT 3  /* the original is no safetensors file; archive/layout.h */
#define ST_TABLE_FEATURE_FILES 4   /* instead of BASE: a list of bases in several files */
#define ST_TABLE_FEATURE_LENGTHS 5 /* with FILES: bases may be longer or shorter than frames want */
#define ST_TABLE_FEATURES_KNOWN                                                                   \
    (1u << ST_TABLE_FEATURE_BASE | 1u << ST_TABLE_FEATURE_ALIAS | 1u << ST_TABLE_FEATURE_LAYOUT | \
     1u << ST_TABLE_FEATURE_FILES | 1u << ST_TABLE_FEATURE_LENGTHS)

#define ST_TABLE_HEAD_NBYTES 40
#define ST_TABLE_TAIL_NBYTES 24 /* the three hashes at the end */
#define ST_TABLE_HASH_NBYTES 8
#define ST_TABLE_ALIAS_NBYTES 8 /* two u32 */

/* Tensor `alias` uses the frame of tensor `owner`, which comes before it and is no alias. */
typedef struct st_alias {
    uint32_t alias, owner;
} st_alias;

typedef struct st_table {
    uint64_t original_nbytes; /* the original file */
    unsigned char *header;    /* its header JSON */
    size_t header_nbytes;
    uint64_t archive_header_hash; /* XXH3-64 of the archive's own length and header */
    uint64_t *hashes;             /* content hash per tensor, in the order of their data */
    size_t tensor_count;
    st_alias *aliases; /* by rising `alias`; NULL if there are none */
    size_t alias_count;
    st_bases bases;
    st_layout layout;
    const lmc_allocator *memory; /* of what was read */
} st_table;

uint64_t st_hash(const void *src, size_t nbytes);

/* st_hash() of bytes that come in parts. */
typedef struct st_hasher {
    _Alignas(64) unsigned char state[640];
} st_hasher;

void st_hasher_init(st_hasher *hasher);
void st_hasher_add(st_hasher *hasher, const void *src, size_t nbytes);
uint64_t st_hasher_finish(const st_hasher *hasher);

/* Compresses a header for the table, or keeps it as it is if that is no larger. *stored is to be freed.
 * Error: NOMEM. */
lmc_status st_table_pack_header(const lmc_allocator *memory, const unsigned char *header,
                                size_t header_nbytes, unsigned char **stored, size_t *stored_nbytes,
                                unsigned *method);

/* Bytes of a table. */
uint64_t st_table_nbytes(size_t tensor_count, size_t alias_count, uint64_t bases_nbytes,
                         uint64_t layout_nbytes, size_t stored_header_nbytes);

/* Writes a table of st_table_nbytes() bytes. */
void st_table_write(const st_table *table, const unsigned char *stored_header, size_t stored_header_nbytes,
                    unsigned method, unsigned char *dst);

/* Looks at the first ST_TABLE_HEAD_NBYTES bytes of a table of `nbytes` bytes (at nothing if it has fewer), before there
 * is memory for all of it: whether this version knows such tables, and whether a header of the size it states and
 * `tensor_count` tensors can make it as long as it is. Errors: CORRUPT, UNSUPPORTED. */
lmc_status st_table_check_head(const unsigned char *head, uint64_t nbytes, size_t tensor_count,
                               uint64_t offset, lmc_st_diag *diag);

/* Reads a table and verifies its checksums. Allocates header and hashes: st_table_free() in every case.
 * Offsets of faults count from `offset`. Errors: TRUNCATED, CORRUPT, UNSUPPORTED, CHECKSUM, LIMIT, NOMEM. */
lmc_status st_table_read(st_table *table, const lmc_allocator *memory, const unsigned char *src,
                         size_t src_nbytes, uint64_t offset, lmc_st_diag *diag);
void st_table_free(st_table *table);

#endif
