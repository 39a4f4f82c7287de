/*
 * table.c - the archive table: written, read, and its sizes and checksums verified.
 */
#include "safetensors/archive/table.h"

#include "safetensors/archive/layout.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* places in the head */
#define AT_VERSION 4
#define AT_METHOD 5
#define AT_RESERVED 6
#define AT_FEATURES 8
#define AT_TENSOR_COUNT 12
#define AT_FILE_NBYTES 16
#define AT_HEADER_NBYTES 24
#define AT_STORED_NBYTES 32

uint64_t st_hash(const void *src, size_t nbytes)
{
    return XXH3_64bits(src, nbytes);
}

_Static_assert(sizeof(XXH3_state_t) <= sizeof(st_hasher), "a hasher holds the state of XXH3");

void st_hasher_init(st_hasher *hasher)
{
    XXH3_64bits_reset((XXH3_state_t *)(void *)hasher->state);
}

void st_hasher_add(st_hasher *hasher, const void *src, size_t nbytes)
{
    XXH3_64bits_update((XXH3_state_t *)(void *)hasher->state, src, nbytes);
}

uint64_t st_hasher_finish(const st_hasher *hasher)
{
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)hasher->state);
}

lmc_status st_table_pack_header(const lmc_allocator *memory, const unsigned char *header,
                                size_t header_nbytes, unsigned char **stored, size_t *stored_nbytes,
                                unsigned *method)
{
    *stored = st_allocate(memory, st_pack_bound(header_nbytes));
    *stored_nbytes = !*stored ? 0 : st_pack(header, header_nbytes, *stored);
    *method = *stored_nbytes < header_nbytes ? ST_TABLE_METHOD_ZSTD : ST_TABLE_METHOD_STORED;
    if (*stored_nbytes > 0)
        return LMC_OK;
    st_release(memory, *stored);
    *stored = NULL;
    return LMC_ERR_NOMEM;
}

/* The list of aliases begins with their number; without any, it is not there. */
static uint64_t aliases_nbytes(size_t alias_count)
{
    return alias_count == 0 ? 0 : 4 + (uint64_t)alias_count * ST_TABLE_ALIAS_NBYTES;
}

uint64_t st_table_nbytes(size_t tensor_count, size_t alias_count, uint64_t bases_nbytes,
                         uint64_t layout_nbytes, size_t stored_header_nbytes)
{
    return ST_TABLE_HEAD_NBYTES + stored_header_nbytes + (uint64_t)tensor_count * ST_TABLE_HASH_NBYTES +
           aliases_nbytes(alias_count) + bases_nbytes + layout_nbytes + ST_TABLE_TAIL_NBYTES;
}

/* The hash of the whole file: over its size, its header's size and hash, all content hashes, and what the layout says.
 * `hashes` are the bytes of their list in the table. */
static uint64_t whole_hash(const st_table *table, const unsigned char *hashes, const unsigned char *layout,
                           size_t layout_nbytes)
{
    unsigned char sizes[24];
    st_hasher hasher;
    lmc_store64(sizes, table->original_nbytes);
    lmc_store64(sizes + 8, table->header_nbytes);
    lmc_store64(sizes + 16, st_hash(table->header, table->header_nbytes));
    st_hasher_init(&hasher);
    st_hasher_add(&hasher, sizes, sizeof sizes);
    st_hasher_add(&hasher, hashes, table->tensor_count * ST_TABLE_HASH_NBYTES);
    st_hasher_add(&hasher, layout, layout_nbytes);
    return st_hasher_finish(&hasher);
}

void st_table_write(const st_table *table, const unsigned char *stored_header, size_t stored_header_nbytes,
                    unsigned method, unsigned char *dst)
{
    const st_bases *const bases = &table->bases;
    const unsigned list_feature = bases->is_several ? ST_TABLE_FEATURE_FILES : ST_TABLE_FEATURE_BASE;
    uint32_t features =
        (table->alias_count == 0 ? 0 : 1u << ST_TABLE_FEATURE_ALIAS) |
        (table->layout.kind == LMC_ST_CONTAINER_SAFETENSORS ? 0 : 1u << ST_TABLE_FEATURE_LAYOUT);
    if (bases->link_count > 0)
        features |= 1u << list_feature | (uint32_t)bases->has_lengths << ST_TABLE_FEATURE_LENGTHS;
    memset(dst, 0, ST_TABLE_HEAD_NBYTES);
    lmc_store32(dst, ST_TABLE_MAGIC);
    dst[AT_VERSION] = ST_TABLE_VERSION;
    dst[AT_METHOD] = (unsigned char)method;
    lmc_store32(dst + AT_FEATURES, features);
    lmc_store32(dst + AT_TENSOR_COUNT, (uint32_t)table->tensor_count);
    lmc_store64(dst + AT_FILE_NBYTES, table->original_nbytes);
    lmc_store64(dst + AT_HEADER_NBYTES, table->header_nbytes);
    lmc_store64(dst + AT_STORED_NBYTES, stored_header_nbytes);
    memcpy(dst + ST_TABLE_HEAD_NBYTES, stored_header, stored_header_nbytes);

    unsigned char *const hashes = dst + ST_TABLE_HEAD_NBYTES + stored_header_nbytes;
    for (size_t i = 0; i < table->tensor_count; i++)
        lmc_store64(hashes + i * ST_TABLE_HASH_NBYTES, table->hashes[i]);
    unsigned char *const lists = hashes + table->tensor_count * ST_TABLE_HASH_NBYTES;
    if (table->alias_count > 0)
        lmc_store32(lists, (uint32_t)table->alias_count);
    for (size_t i = 0; i < table->alias_count; i++) {
        lmc_store32(lists + 4 + i * ST_TABLE_ALIAS_NBYTES, table->aliases[i].alias);
        lmc_store32(lists + 8 + i * ST_TABLE_ALIAS_NBYTES, table->aliases[i].owner);
    }
    unsigned char *const layout = st_bases_write(bases, lists + aliases_nbytes(table->alias_count));
    unsigned char *const tail = st_layout_write(&table->layout, layout);
    lmc_store64(tail, whole_hash(table, hashes, layout, (size_t)(tail - layout)));
    lmc_store64(tail + 8, table->archive_header_hash);
    lmc_store64(tail + 16, st_hash(dst, (size_t)(tail + 16 - dst)));
}

/* ---- reading ---- */

/* Magic, version, features: what decides whether this is a table that we can read at all. */
static lmc_status check_kind(const unsigned char *src, uint64_t nbytes, uint64_t offset, lmc_st_diag *diag)
{
    if (nbytes < ST_TABLE_HEAD_NBYTES + ST_TABLE_TAIL_NBYTES)
        return st_fail(diag, LMC_ERR_CORRUPT, offset, "the archive table is too short");
    if (lmc_load32(src) != ST_TABLE_MAGIC)
        return st_fail(diag, LMC_ERR_CORRUPT, offset, "the archive table does not begin with its magic");
    if (src[AT_VERSION] != ST_TABLE_VERSION)
        return st_fail(diag, LMC_ERR_UNSUPPORTED, offset + AT_VERSION,
                       "the archive needs a newer version: archive version %u", src[AT_VERSION]);
    const uint32_t unknown = lmc_load32(src + AT_FEATURES) & ~ST_TABLE_FEATURES_KNOWN;
    if (unknown == 0)
        return LMC_OK;
    const unsigned number = (unsigned)__builtin_ctz(unknown);
    return st_fail(diag, LMC_ERR_UNSUPPORTED, offset + AT_FEATURES,
                   "the archive needs a newer version: required feature %u (%s)", number,
                   number == ST_TABLE_FEATURE_SETS ? "shared code tables" : "unknown to this version");
}

lmc_status st_table_check_head(const unsigned char *head, uint64_t nbytes, size_t tensor_count,
                               uint64_t offset, lmc_st_diag *diag)
{
    LMC_TRY(check_kind(head, nbytes, offset, diag));
    /* one above the limit is refused later, and by that name */
    const uint64_t stated = lmc_load64(head + AT_HEADER_NBYTES);
    const uint64_t header_nbytes = stated < LMC_ST_HEADER_NBYTES_MAX ? stated : LMC_ST_HEADER_NBYTES_MAX;
    /* No writer stores a header in more bytes than it has, but for zstd's frame around one that cannot be packed. Then
     * come hash, alias, link and gap of each tensor, and base files with their paths. */
    const uint64_t most = header_nbytes + header_nbytes / 64 + 4096 +
                          st_table_nbytes(tensor_count, tensor_count, st_bases_nbytes_max(tensor_count),
                                          st_layout_nbytes_max(tensor_count), 0);
    return nbytes <= most ? LMC_OK
                          : st_fail(diag, LMC_ERR_CORRUPT, offset,
                                    "the archive table is longer than its header and tensors can make it");
}

static int has_feature(const unsigned char *src, unsigned number)
{
    return (lmc_load32(src + AT_FEATURES) >> number & 1) != 0;
}

/* The lists that may stand behind the hashes must fill `left` bytes. */
static int is_filled(const unsigned char *src, const unsigned char *lists, uint64_t left)
{
    if (has_feature(src, ST_TABLE_FEATURE_ALIAS)) {
        const uint64_t alias_count = left < 4 ? 0 : lmc_load32(lists);
        if (alias_count == 0 || alias_count > (left - 4) / ST_TABLE_ALIAS_NBYTES)
            return 0;
        lists += aliases_nbytes((size_t)alias_count);
        left -= aliases_nbytes((size_t)alias_count);
    }
    const int is_several = has_feature(src, ST_TABLE_FEATURE_FILES);
    const int has_list = has_feature(src, ST_TABLE_FEATURE_BASE) || is_several;
    if ((has_feature(src, ST_TABLE_FEATURE_BASE) && is_several) ||
        (has_feature(src, ST_TABLE_FEATURE_LENGTHS) && !is_several))
        return 0;
    if (has_list) {
        const uint64_t nbytes = st_bases_stated_nbytes(lists, left, is_several);
        if (nbytes == 0)
            return 0;
        lists += nbytes;
        left -= nbytes;
    }
    const int has_layout = has_feature(src, ST_TABLE_FEATURE_LAYOUT);
    return left == (has_layout ? st_layout_stated_nbytes(lists, left) : 0) && has_layout == (left > 0);
}

static lmc_status check_sizes(const unsigned char *src, size_t nbytes, uint64_t offset, lmc_st_diag *diag)
{
    const uint64_t tensor_count = lmc_load32(src + AT_TENSOR_COUNT);
    const uint64_t header_nbytes = lmc_load64(src + AT_HEADER_NBYTES);
    const uint64_t stored_nbytes = lmc_load64(src + AT_STORED_NBYTES);
    const uint64_t fixed = ST_TABLE_HEAD_NBYTES + ST_TABLE_TAIL_NBYTES;
    if (header_nbytes > LMC_ST_HEADER_NBYTES_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, offset + AT_HEADER_NBYTES,
                       "the original header of %llu bytes exceeds the limit of %u",
                       (unsigned long long)header_nbytes, (unsigned)LMC_ST_HEADER_NBYTES_MAX);
    const uint64_t lists_at = stored_nbytes + tensor_count * ST_TABLE_HASH_NBYTES;
    if (stored_nbytes <= nbytes - fixed && lists_at <= nbytes - fixed &&
        is_filled(src, src + ST_TABLE_HEAD_NBYTES + lists_at, nbytes - fixed - lists_at))
        return LMC_OK;
    return st_fail(diag, LMC_ERR_CORRUPT, offset, "the archive table's sizes contradict each other");
}

static lmc_status unpack_header(st_table *table, const unsigned char *src, uint64_t offset, lmc_st_diag *diag)
{
    const unsigned method = src[AT_METHOD];
    const size_t stored_nbytes = (size_t)lmc_load64(src + AT_STORED_NBYTES);
    const unsigned char *const stored = src + ST_TABLE_HEAD_NBYTES;
    if (method > ST_TABLE_METHOD_ZSTD)
        return st_fail(diag, LMC_ERR_UNSUPPORTED, offset + AT_METHOD,
                       "the archive needs a newer version: header method %u", method);
    const int is_stored = method == ST_TABLE_METHOD_STORED;
    if (is_stored ? stored_nbytes != table->header_nbytes
                  : !st_frame_states(stored, stored_nbytes, table->header_nbytes))
        return st_fail(diag, LMC_ERR_CORRUPT, offset + AT_HEADER_NBYTES,
                       "the stored header does not have its stated size");
    table->header = st_allocate(table->memory, table->header_nbytes + 1);
    if (!table->header)
        return st_fail_nomem(diag);
    if (is_stored) {
        memcpy(table->header, stored, stored_nbytes);
        return LMC_OK;
    }
    const lmc_status status = st_unpack_frame(stored, stored_nbytes, table->header, table->header_nbytes);
    if (status == LMC_ERR_NOMEM)
        return st_fail_nomem(diag);
    return status == LMC_OK ? LMC_OK
                            : st_fail(diag, status, offset + ST_TABLE_HEAD_NBYTES,
                                      "the stored header cannot be decompressed");
}

static lmc_status read_aliases(st_table *table, const unsigned char *src, uint64_t offset, lmc_st_diag *diag)
{
    table->alias_count = lmc_load32(src);
    table->aliases = st_allocate_array(table->memory, table->alias_count, sizeof *table->aliases);
    if (!table->aliases)
        return st_fail_nomem(diag);
    for (size_t i = 0; i < table->alias_count; i++) {
        const unsigned char *const entry = src + 4 + i * ST_TABLE_ALIAS_NBYTES;
        const st_alias alias = {lmc_load32(entry), lmc_load32(entry + 4)};
        if (alias.alias >= table->tensor_count || alias.owner >= alias.alias ||
            (i > 0 && alias.alias <= table->aliases[i - 1].alias)) {
            return st_fail(diag, LMC_ERR_CORRUPT, offset + 4 + i * ST_TABLE_ALIAS_NBYTES,
                           "the archive table's list of aliases is out of order");
        }
        table->aliases[i] = alias;
    }
    return LMC_OK;
}

lmc_status st_table_read(st_table *table, const lmc_allocator *memory, const unsigned char *src,
                         size_t src_nbytes, uint64_t offset, lmc_st_diag *diag)
{
    memset(table, 0, sizeof *table);
    table->memory = memory;
    LMC_TRY(check_kind(src, src_nbytes, offset, diag));
    if (st_hash(src, src_nbytes - 8) != lmc_load64(src + src_nbytes - 8))
        return st_fail(diag, LMC_ERR_CHECKSUM, offset, "the archive table's checksum is wrong");
    if (src[AT_RESERVED] != 0 || src[AT_RESERVED + 1] != 0)
        return st_fail(diag, LMC_ERR_UNSUPPORTED, offset + AT_RESERVED,
                       "the archive needs a newer version: a reserved field is set");
    LMC_TRY(check_sizes(src, src_nbytes, offset, diag));
    table->tensor_count = lmc_load32(src + AT_TENSOR_COUNT);
    table->original_nbytes = lmc_load64(src + AT_FILE_NBYTES);
    table->header_nbytes = (size_t)lmc_load64(src + AT_HEADER_NBYTES);
    LMC_TRY(unpack_header(table, src, offset, diag));
    const size_t hashes_at = ST_TABLE_HEAD_NBYTES + (size_t)lmc_load64(src + AT_STORED_NBYTES);
    size_t at = hashes_at + table->tensor_count * ST_TABLE_HASH_NBYTES;
    if (has_feature(src, ST_TABLE_FEATURE_ALIAS)) {
        LMC_TRY(read_aliases(table, src + at, offset + at, diag));
        at += aliases_nbytes(table->alias_count);
    }
    const int is_several = has_feature(src, ST_TABLE_FEATURE_FILES);
    if (has_feature(src, ST_TABLE_FEATURE_BASE) || is_several) {
        LMC_TRY(st_bases_read(&table->bases, memory, src + at, is_several, table->tensor_count, offset + at,
                              diag));
        table->bases.has_lengths = has_feature(src, ST_TABLE_FEATURE_LENGTHS);
        at += (size_t)st_bases_stated_nbytes(src + at, src_nbytes - at, is_several);
    }
    if (has_feature(src, ST_TABLE_FEATURE_LAYOUT))
        LMC_TRY(st_layout_read(&table->layout, memory, src + at, table->tensor_count, offset + at, diag));
    table->hashes = st_allocate_array(memory, (uint64_t)table->tensor_count + 1, sizeof *table->hashes);
    if (!table->hashes)
        return st_fail_nomem(diag);
    for (size_t i = 0; i < table->tensor_count; i++)
        table->hashes[i] = lmc_load64(src + hashes_at + i * ST_TABLE_HASH_NBYTES);
    const unsigned char *const tail = src + src_nbytes - ST_TABLE_TAIL_NBYTES; /* behind the lists */
    table->archive_header_hash = lmc_load64(tail + 8);
    return lmc_load64(tail) == whole_hash(table, src + hashes_at, src + at, (size_t)(tail - (src + at)))
               ? LMC_OK
               : st_fail(diag, LMC_ERR_CHECKSUM, offset + hashes_at,
                         "the archive table's hash of the file is wrong");
}

void st_table_free(st_table *table)
{
    if (table->memory) {
        st_release(table->memory, table->header);
        st_release(table->memory, table->hashes);
        st_release(table->memory, table->aliases);
        st_bases_free(&table->bases, table->memory);
        st_layout_free(&table->layout, table->memory);
    }
    memset(table, 0, sizeof *table);
}
