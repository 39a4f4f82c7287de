/*
 * links.c - the part of the table for bases: written, read, searched.
 */
#include "safetensors/archive/links.h"

#include "common/text.h"

#include <string.h>

/* places in the part */
#define AT_LINK_COUNT 0
#define AT_NAME_NBYTES 4
#define AT_FILE_NBYTES 8
#define AT_HEADER_HASH 16
#define AT_CONTENT_HASH 24
#define HEAD_NBYTES 32

#define LINK_NBYTES 8
#define PLACE_BIT 31 /* of the base's number; a header has room for far fewer tensors */

uint64_t st_bases_nbytes(size_t link_count, size_t name_nbytes)
{
    return link_count == 0 ? 0 : HEAD_NBYTES + st_padded(name_nbytes) + (uint64_t)link_count * LINK_NBYTES;
}

uint64_t st_bases_stated_nbytes(const unsigned char *src, uint64_t left)
{
    if (left < HEAD_NBYTES)
        return 0;
    const size_t name_nbytes = lmc_load32(src + AT_NAME_NBYTES);
    const uint64_t nbytes = st_bases_nbytes(lmc_load32(src + AT_LINK_COUNT), name_nbytes);
    return name_nbytes > LMC_ST_BASE_NAME_NBYTES_MAX || nbytes > left ? 0 : nbytes;
}

unsigned char *st_bases_write(const st_bases *bases, unsigned char *dst)
{
    const size_t name_nbytes = strlen(bases->name);
    if (bases->link_count == 0)
        return dst;
    lmc_store32(dst + AT_LINK_COUNT, (uint32_t)bases->link_count);
    lmc_store32(dst + AT_NAME_NBYTES, (uint32_t)name_nbytes);
    lmc_store64(dst + AT_FILE_NBYTES, bases->original_nbytes);
    lmc_store64(dst + AT_HEADER_HASH, bases->header_hash);
    lmc_store64(dst + AT_CONTENT_HASH, bases->content_hash);
    dst += HEAD_NBYTES;
    memset(dst, 0, st_padded(name_nbytes));
    memcpy(dst, bases->name, name_nbytes);
    dst += st_padded(name_nbytes);
    for (size_t i = 0; i < bases->link_count; i++) {
        const st_link link = bases->links[i];
        lmc_store32(dst, link.tensor);
        lmc_store32(dst + 4, link.base | (uint32_t)link.place << PLACE_BIT);
        dst += LINK_NBYTES;
    }
    return dst;
}

/* ---- reading ---- */

int st_base_name_is_valid(const char *name, size_t nbytes)
{
    return nbytes > 0 && nbytes <= LMC_ST_BASE_NAME_NBYTES_MAX && !memchr(name, '/', nbytes) &&
           !memchr(name, '\0', nbytes) && !(nbytes == 1 && name[0] == '.') &&
           !(nbytes == 2 && name[0] == '.' && name[1] == '.') && lmc_utf8_is_valid(name, nbytes);
}

static lmc_status read_file(st_bases *bases, const unsigned char *src, uint64_t offset, lmc_st_diag *diag)
{
    const size_t name_nbytes = lmc_load32(src + AT_NAME_NBYTES);
    const unsigned char *const name = src + HEAD_NBYTES;
    bases->original_nbytes = lmc_load64(src + AT_FILE_NBYTES);
    bases->header_hash = lmc_load64(src + AT_HEADER_HASH);
    bases->content_hash = lmc_load64(src + AT_CONTENT_HASH);
    for (size_t i = name_nbytes; i < st_padded(name_nbytes); i++) {
        if (name[i] != 0)
            return st_fail(diag, LMC_ERR_CORRUPT, offset + HEAD_NBYTES + i,
                           "the archive table: the bytes behind the base's name are not zero");
    }
    if (st_bases_file_count(bases) == 0) {
        const int is_blank = name_nbytes == 0 && bases->original_nbytes == 0 && bases->header_hash == 0 &&
                             bases->content_hash == 0;
        return is_blank ? LMC_OK
                        : st_fail(diag, LMC_ERR_CORRUPT, offset,
                                  "the archive table names a base that no tensor was coded against");
    }
    if (!st_base_name_is_valid((const char *)name, name_nbytes))
        return st_fail(diag, LMC_ERR_CORRUPT, offset + HEAD_NBYTES,
                       "the archive table's name of the base is not a plain file name");
    memcpy(bases->name, name, name_nbytes);
    return LMC_OK;
}

/* A base in the same file must be had without going through this file's tensors again. */
static lmc_status check_own(const st_bases *bases, size_t tensor_count, uint64_t offset, lmc_st_diag *diag)
{
    for (size_t i = 0; i < bases->link_count; i++) {
        const st_link link = bases->links[i];
        if (link.place != LMC_ST_BASE_SELF)
            continue;
        const st_link *const next = st_bases_find(bases, link.base);
        if (link.base >= tensor_count || link.base == link.tensor ||
            (next && next->place == LMC_ST_BASE_SELF)) {
            return st_fail(diag, LMC_ERR_CORRUPT, offset,
                           "the archive table: tensor %u cannot have tensor %u of its file as its base",
                           (unsigned)link.tensor, (unsigned)link.base);
        }
    }
    return LMC_OK;
}

lmc_status st_bases_read(st_bases *bases, const lmc_allocator *memory, const unsigned char *src,
                         size_t tensor_count, uint64_t offset, lmc_st_diag *diag)
{
    const size_t link_count = lmc_load32(src + AT_LINK_COUNT);
    const uint64_t links_at = HEAD_NBYTES + st_padded(lmc_load32(src + AT_NAME_NBYTES));
    bases->links = st_allocate_array(memory, link_count, sizeof *bases->links);
    if (!bases->links)
        return st_fail_nomem(diag);
    bases->link_count = link_count;
    for (size_t i = 0; i < link_count; i++) {
        const uint64_t at = links_at + (uint64_t)i * LINK_NBYTES;
        const uint32_t base = lmc_load32(src + at + 4);
        const st_link link = {lmc_load32(src + at), base & ~(1u << PLACE_BIT),
                              base >> PLACE_BIT == 0 ? LMC_ST_BASE_FILE : LMC_ST_BASE_SELF};
        bases->links[i] = link;
        if (link.tensor >= tensor_count || (i > 0 && link.tensor <= bases->links[i - 1].tensor)) {
            bases->link_count = i;
            return st_fail(diag, LMC_ERR_CORRUPT, offset + at,
                           "the archive table's list of bases is out of order");
        }
    }
    LMC_TRY(check_own(bases, tensor_count, offset, diag));
    return read_file(bases, src, offset, diag);
}

void st_bases_free(st_bases *bases, const lmc_allocator *memory)
{
    st_release(memory, bases->links);
    memset(bases, 0, sizeof *bases);
}

const st_link *st_bases_find(const st_bases *bases, size_t tensor)
{
    size_t begin = 0;
    size_t end = bases->link_count;
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        const size_t found = bases->links[middle].tensor;
        if (found == tensor)
            return &bases->links[middle];
        if (found < tensor)
            begin = middle + 1;
        else
            end = middle;
    }
    return NULL;
}

size_t st_bases_file_count(const st_bases *bases)
{
    size_t count = 0;
    for (size_t i = 0; i < bases->link_count; i++)
        count += bases->links[i].place == LMC_ST_BASE_FILE;
    return count;
}
