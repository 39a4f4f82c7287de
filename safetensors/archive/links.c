/*
 * links.c - the part of the table for bases, in its two forms: written, read, searched.
 */
#include "safetensors/archive/links.h"

#include "common/text.h"

#include <string.h>

/* places in the list of one file */
#define AT_LINK_COUNT 0
#define AT_NAME_NBYTES 4
#define AT_FILE_NBYTES 8
#define AT_HEADER_HASH 16
#define AT_CONTENT_HASH 24
#define HEAD_NBYTES 32

#define LINK_NBYTES 8
#define PLACE_BIT 31 /* of the base's number; a header has room for far fewer tensors */

/* The list of several files: counts, the files, the links. */
#define AT_FILE_COUNT 4
#define SEVERAL_HEAD_NBYTES 8

#define AT_ENTRY_FILE_NBYTES 0
#define AT_ENTRY_HEADER_HASH 8
#define AT_ENTRY_CONTENT_HASH 16
#define AT_ENTRY_PATH_NBYTES 24
#define AT_ENTRY_FLAGS 28
#define ENTRY_NBYTES 32
#define ENTRY_FLAG_EQUAL 1u

#define FILE_SHIFT \
    24 /* of a base's number, which has the bits below; the header of a file has room for fewer tensors */

/* ---- sizes ---- */

const char *st_base_entry_name(const st_base_entry *entry)
{
    const char *const slash = strrchr(entry->path, '/');
    return slash ? slash + 1 : entry->path;
}

static uint64_t entry_nbytes(size_t path_nbytes)
{
    return ENTRY_NBYTES + st_padded(path_nbytes);
}

uint64_t st_bases_nbytes(const st_bases *bases)
{
    uint64_t nbytes = 0;
    if (bases->link_count == 0)
        return 0;
    if (!bases->is_several) {
        const size_t name_nbytes = bases->file_count == 0 ? 0 : strlen(bases->files[0].path);
        return HEAD_NBYTES + st_padded(name_nbytes) + (uint64_t)bases->link_count * LINK_NBYTES;
    }
    for (size_t i = 0; i < bases->file_count; i++)
        nbytes += entry_nbytes(strlen(bases->files[i].path));
    return SEVERAL_HEAD_NBYTES + nbytes + (uint64_t)bases->link_count * LINK_NBYTES;
}

uint64_t st_bases_nbytes_max(size_t tensor_count)
{
    return SEVERAL_HEAD_NBYTES + LMC_ST_ARCHIVE_BASES_MAX * entry_nbytes(LMC_ST_BASE_PATH_NBYTES_MAX) +
           (uint64_t)tensor_count * LINK_NBYTES;
}

static uint64_t stated_nbytes_of_several(const unsigned char *src, uint64_t left)
{
    const uint64_t links_nbytes = left < SEVERAL_HEAD_NBYTES ? 0 : (uint64_t)lmc_load32(src) * LINK_NBYTES;
    const size_t file_count = links_nbytes == 0 ? 0 : lmc_load32(src + AT_FILE_COUNT);
    uint64_t at = SEVERAL_HEAD_NBYTES;
    if (links_nbytes == 0 || file_count > LMC_ST_ARCHIVE_BASES_MAX)
        return 0;
    for (size_t i = 0; i < file_count; i++) {
        if (left - at < ENTRY_NBYTES)
            return 0;
        const size_t path_nbytes = lmc_load32(src + at + AT_ENTRY_PATH_NBYTES);
        if (path_nbytes > LMC_ST_BASE_PATH_NBYTES_MAX || entry_nbytes(path_nbytes) > left - at)
            return 0;
        at += entry_nbytes(path_nbytes);
    }
    return links_nbytes > left - at ? 0 : at + links_nbytes;
}

uint64_t st_bases_stated_nbytes(const unsigned char *src, uint64_t left, int is_several)
{
    if (is_several)
        return stated_nbytes_of_several(src, left);
    if (left < HEAD_NBYTES)
        return 0;
    const size_t name_nbytes = lmc_load32(src + AT_NAME_NBYTES);
    const uint64_t nbytes =
        HEAD_NBYTES + st_padded(name_nbytes) + (uint64_t)lmc_load32(src + AT_LINK_COUNT) * LINK_NBYTES;
    return name_nbytes > LMC_ST_BASE_NAME_NBYTES_MAX || nbytes > left || lmc_load32(src) == 0 ? 0 : nbytes;
}

/* ---- writing ---- */

static unsigned char *write_text(const char *text, unsigned char *dst)
{
    const size_t nbytes = strlen(text);
    memset(dst, 0, st_padded(nbytes));
    memcpy(dst, text, nbytes);
    return dst + st_padded(nbytes);
}

static unsigned char *write_several(const st_bases *bases, unsigned char *dst)
{
    lmc_store32(dst + AT_LINK_COUNT, (uint32_t)bases->link_count);
    lmc_store32(dst + AT_FILE_COUNT, (uint32_t)bases->file_count);
    dst += SEVERAL_HEAD_NBYTES;
    for (size_t i = 0; i < bases->file_count; i++) {
        const st_base_entry *const file = &bases->files[i];
        lmc_store64(dst + AT_ENTRY_FILE_NBYTES, file->original_nbytes);
        lmc_store64(dst + AT_ENTRY_HEADER_HASH, file->header_hash);
        lmc_store64(dst + AT_ENTRY_CONTENT_HASH, file->content_hash);
        lmc_store32(dst + AT_ENTRY_PATH_NBYTES, (uint32_t)strlen(file->path));
        lmc_store32(dst + AT_ENTRY_FLAGS, file->is_equal ? ENTRY_FLAG_EQUAL : 0);
        dst = write_text(file->path, dst + ENTRY_NBYTES);
    }
    for (size_t i = 0; i < bases->link_count; i++) {
        const st_link link = bases->links[i];
        const size_t file = link.place == LMC_ST_BASE_SELF ? bases->file_count : link.file;
        lmc_store32(dst, link.tensor);
        lmc_store32(dst + 4, link.base | (uint32_t)file << FILE_SHIFT);
        dst += LINK_NBYTES;
    }
    return dst;
}

unsigned char *st_bases_write(const st_bases *bases, unsigned char *dst)
{
    const st_base_entry none = {.path = ""};
    const st_base_entry *const file = bases->file_count == 0 ? &none : &bases->files[0];
    if (bases->link_count == 0)
        return dst;
    if (bases->is_several)
        return write_several(bases, dst);
    lmc_store32(dst + AT_LINK_COUNT, (uint32_t)bases->link_count);
    lmc_store32(dst + AT_NAME_NBYTES, (uint32_t)strlen(file->path));
    lmc_store64(dst + AT_FILE_NBYTES, file->original_nbytes);
    lmc_store64(dst + AT_HEADER_HASH, file->header_hash);
    lmc_store64(dst + AT_CONTENT_HASH, file->content_hash);
    dst = write_text(file->path, dst + HEAD_NBYTES);
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

int st_base_path_is_valid(const char *path, size_t nbytes)
{
    const char *const end = path + nbytes;
    if (nbytes > LMC_ST_BASE_PATH_NBYTES_MAX)
        return 0;
    for (;;) {
        const char *const slash = memchr(path, '/', (size_t)(end - path));
        if (!st_base_name_is_valid(path, (size_t)((slash ? slash : end) - path)))
            return 0;
        if (!slash)
            return 1;
        path = slash + 1;
    }
}

/* Copies the path of a base file, which has `nbytes` bytes and zeros behind it. */
static lmc_status read_path(st_base_entry *file, const lmc_allocator *memory, const unsigned char *path,
                            size_t nbytes, uint64_t offset, lmc_st_diag *diag)
{
    for (size_t i = nbytes; i < st_padded(nbytes); i++)
        if (path[i] != 0)
            return st_fail(diag, LMC_ERR_CORRUPT, offset + i,
                           "the archive table: the bytes behind the base's name are not zero");
    file->path = st_allocate(memory, nbytes + 1);
    if (!file->path)
        return st_fail_nomem(diag);
    memcpy(file->path, path, nbytes);
    file->path[nbytes] = '\0';
    return LMC_OK;
}

static lmc_status read_file(st_bases *bases, const lmc_allocator *memory, const unsigned char *src,
                            uint64_t offset, lmc_st_diag *diag)
{
    const size_t name_nbytes = lmc_load32(src + AT_NAME_NBYTES);
    st_base_entry *const file = &bases->files[0];
    file->original_nbytes = lmc_load64(src + AT_FILE_NBYTES);
    file->header_hash = lmc_load64(src + AT_HEADER_HASH);
    file->content_hash = lmc_load64(src + AT_CONTENT_HASH);
    bases->file_count = 1;
    LMC_TRY(read_path(file, memory, src + HEAD_NBYTES, name_nbytes, offset + HEAD_NBYTES, diag));
    if (st_bases_count_links(bases, 0) == 0) {
        const int is_blank = name_nbytes == 0 && file->original_nbytes == 0 && file->header_hash == 0 &&
                             file->content_hash == 0;
        st_release(memory, file->path);
        bases->file_count = 0;
        return is_blank ? LMC_OK
                        : st_fail(diag, LMC_ERR_CORRUPT, offset,
                                  "the archive table names a base that no tensor was coded against");
    }
    return st_base_name_is_valid(file->path, name_nbytes)
               ? LMC_OK
               : st_fail(diag, LMC_ERR_CORRUPT, offset + HEAD_NBYTES,
                         "the archive table's name of the base is not a plain file name");
}

/* Reads the base files of a list of several; *at: where they end. */
static lmc_status read_files(st_bases *bases, const lmc_allocator *memory, const unsigned char *src,
                             uint64_t offset, size_t *at, lmc_st_diag *diag)
{
    const size_t file_count = lmc_load32(src + AT_FILE_COUNT);
    *at = SEVERAL_HEAD_NBYTES;
    for (size_t i = 0; i < file_count; i++) {
        st_base_entry *const file = &bases->files[i];
        const unsigned char *const entry = src + *at;
        const uint64_t here = offset + *at;
        const size_t path_nbytes = lmc_load32(entry + AT_ENTRY_PATH_NBYTES);
        const uint32_t flags = lmc_load32(entry + AT_ENTRY_FLAGS);
        *file = (st_base_entry){.original_nbytes = lmc_load64(entry + AT_ENTRY_FILE_NBYTES),
                                .header_hash = lmc_load64(entry + AT_ENTRY_HEADER_HASH),
                                .content_hash = lmc_load64(entry + AT_ENTRY_CONTENT_HASH),
                                .is_equal = (flags & ENTRY_FLAG_EQUAL) != 0};
        bases->file_count = i + 1;
        if ((flags & ~ENTRY_FLAG_EQUAL) != 0)
            return st_fail(diag, LMC_ERR_UNSUPPORTED, here + AT_ENTRY_FLAGS,
                           "the archive needs a newer version: flags of a base file");
        LMC_TRY(read_path(file, memory, entry + ENTRY_NBYTES, path_nbytes, here + ENTRY_NBYTES, diag));
        int is_sound = st_base_path_is_valid(file->path, path_nbytes);
        for (size_t j = 0; j < i && is_sound; j++)
            is_sound = strcmp(bases->files[j].path, file->path) != 0;
        if (!is_sound)
            return st_fail(diag, LMC_ERR_CORRUPT, here + ENTRY_NBYTES,
                           "the path of a base in the archive table is not relative, or stands there twice");
        *at += (size_t)entry_nbytes(path_nbytes);
    }
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

static st_link read_link(const unsigned char *src, int is_several, size_t file_count)
{
    const uint32_t base = lmc_load32(src + 4);
    if (!is_several)
        return (st_link){lmc_load32(src), base & ~(1u << PLACE_BIT),
                         base >> PLACE_BIT == 0 ? LMC_ST_BASE_FILE : LMC_ST_BASE_SELF, 0};
    const uint32_t file = base >> FILE_SHIFT;
    const uint32_t number = base & ((1u << FILE_SHIFT) - 1);
    return file == file_count ? (st_link){lmc_load32(src), number, LMC_ST_BASE_SELF, 0}
                              : (st_link){lmc_load32(src), number, LMC_ST_BASE_FILE, file};
}

/* Reads the links, which begin at `at`. */
static lmc_status read_links(st_bases *bases, const unsigned char *src, size_t at, size_t tensor_count,
                             uint64_t offset, lmc_st_diag *diag)
{
    const size_t link_count = bases->link_count;
    for (size_t i = 0; i < link_count; i++) {
        const st_link link = read_link(src + at + i * LINK_NBYTES, bases->is_several, bases->file_count);
        bases->links[i] = link;
        bases->link_count = i + 1;
        if (link.tensor >= tensor_count || (i > 0 && link.tensor <= bases->links[i - 1].tensor) ||
            (bases->is_several && link.place == LMC_ST_BASE_FILE && link.file >= bases->file_count)) {
            bases->link_count = i;
            return st_fail(diag, LMC_ERR_CORRUPT, offset + at + i * LINK_NBYTES,
                           "the archive table's list of bases is out of order");
        }
    }
    return check_own(bases, tensor_count, offset, diag);
}

/* Each file of a list of several is needed. */
static lmc_status check_several(const st_bases *bases, uint64_t offset, lmc_st_diag *diag)
{
    for (size_t i = 0; i < bases->file_count; i++)
        if (st_bases_count_links(bases, i) == 0)
            return st_fail(diag, LMC_ERR_CORRUPT, offset,
                           "the archive table names a base that no tensor was coded against");
    return LMC_OK;
}

lmc_status st_bases_read(st_bases *bases, const lmc_allocator *memory, const unsigned char *src,
                         int is_several, size_t tensor_count, uint64_t offset, lmc_st_diag *diag)
{
    const size_t link_count = lmc_load32(src + AT_LINK_COUNT);
    const size_t file_count = is_several ? lmc_load32(src + AT_FILE_COUNT) : 1;
    size_t at = HEAD_NBYTES + (size_t)st_padded(lmc_load32(src + AT_NAME_NBYTES));
    *bases = (st_bases){.is_several = is_several};
    bases->links = st_allocate_array(memory, link_count, sizeof *bases->links);
    bases->files = st_allocate_zeroed(memory, file_count + 1, sizeof *bases->files);
    if (!bases->links || !bases->files)
        return st_fail_nomem(diag);
    if (is_several)
        LMC_TRY(read_files(bases, memory, src, offset, &at, diag));
    bases->link_count = link_count;
    LMC_TRY(read_links(bases, src, at, tensor_count, offset, diag));
    return is_several ? check_several(bases, offset, diag) : read_file(bases, memory, src, offset, diag);
}

void st_bases_free(st_bases *bases, const lmc_allocator *memory)
{
    for (size_t i = 0; i < bases->file_count && bases->files; i++)
        st_release(memory, bases->files[i].path);
    st_release(memory, bases->files);
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

size_t st_bases_count_links(const st_bases *bases, size_t file)
{
    size_t count = 0;
    for (size_t i = 0; i < bases->link_count; i++)
        count += bases->links[i].place == LMC_ST_BASE_FILE && bases->links[i].file == file;
    return count;
}
