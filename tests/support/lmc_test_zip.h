/*
 * lmc_test_zip.h - ZIPs made by hand, field by field, so that each field can lie.
 */
#ifndef LMC_TEST_ZIP_H
#define LMC_TEST_ZIP_H

#include "lmc_test.h"

#include <stdint.h>

/* Bytes that grow; too many fail the test. */
typedef struct lmc_test_bytes {
    unsigned char at[1 << 20];
    size_t nbytes;
} lmc_test_bytes;

static inline void lmc_test_put(lmc_test_bytes *bytes, const void *src, size_t nbytes)
{
    CU_ASSERT_TRUE_FATAL(nbytes <= sizeof bytes->at - bytes->nbytes);
    memcpy(bytes->at + bytes->nbytes, src, nbytes);
    bytes->nbytes += nbytes;
}

static inline void lmc_test_put_text(lmc_test_bytes *bytes, const char *text)
{
    lmc_test_put(bytes, text, strlen(text));
}

/* Little-endian. */
static inline void lmc_test_put_number(lmc_test_bytes *bytes, uint64_t number, unsigned nbytes)
{
    for (unsigned i = 0; i < nbytes; i++) {
        const unsigned char byte = (unsigned char)(number >> 8 * i);
        lmc_test_put(bytes, &byte, 1);
    }
}

typedef struct lmc_test_entry {
    const char *name;
    size_t name_nbytes;
    const void *data;
    size_t nbytes;
    uint64_t stated_nbytes, stated_offset;
    unsigned method, flags;
    unsigned wide_nbytes; /* of the extra field of zip64 */
    uint64_t wide[3];
} lmc_test_entry;

/* A ZIP on its way: entries, then the directory. */
typedef struct lmc_test_zip {
    lmc_test_bytes *bytes;
    size_t begin;
    lmc_test_bytes directory;
    unsigned count;
} lmc_test_zip;

static inline void lmc_test_zip_begin(lmc_test_zip *zip, lmc_test_bytes *bytes)
{
    zip->bytes = bytes;
    zip->begin = bytes->nbytes;
    zip->directory.nbytes = 0;
    zip->count = 0;
}

/* An entry as it should be, to be changed. */
static inline lmc_test_entry lmc_test_entry_of(const lmc_test_zip *zip, const char *name, const void *data,
                                               size_t nbytes)
{
    const lmc_test_entry entry = {.name = name,
                                  .name_nbytes = strlen(name),
                                  .data = data,
                                  .nbytes = nbytes,
                                  .stated_nbytes = nbytes,
                                  .stated_offset = zip->bytes->nbytes - zip->begin};
    return entry;
}

static inline void lmc_test_zip_put(lmc_test_zip *zip, const lmc_test_entry *entry)
{
    lmc_test_bytes *const local = zip->bytes;
    lmc_test_bytes *const directory = &zip->directory;
    lmc_test_put_text(local, "PK\3\4");
    lmc_test_put_number(local, 20, 2);
    lmc_test_put_number(local, entry->flags, 2);
    lmc_test_put_number(local, entry->method, 2);
    lmc_test_put_number(local, 0, 8);
    lmc_test_put_number(local, entry->nbytes, 4);
    lmc_test_put_number(local, entry->nbytes, 4);
    lmc_test_put_number(local, entry->name_nbytes, 2);
    lmc_test_put_number(local, 0, 2);
    lmc_test_put(local, entry->name, entry->name_nbytes);
    lmc_test_put(local, entry->data, entry->nbytes);
    lmc_test_put_text(directory, "PK\1\2");
    lmc_test_put_number(directory, 20, 2);
    lmc_test_put_number(directory, 20, 2);
    lmc_test_put_number(directory, entry->flags, 2);
    lmc_test_put_number(directory, entry->method, 2);
    lmc_test_put_number(directory, 0, 8);
    lmc_test_put_number(directory, entry->stated_nbytes, 4);
    lmc_test_put_number(directory, entry->stated_nbytes, 4);
    lmc_test_put_number(directory, entry->name_nbytes, 2);
    lmc_test_put_number(directory, entry->wide_nbytes > 0 ? entry->wide_nbytes + 4 : 0, 2);
    lmc_test_put_number(directory, 0, 8);
    lmc_test_put_number(directory, 0, 2);
    lmc_test_put_number(directory, entry->stated_offset, 4);
    lmc_test_put(directory, entry->name, entry->name_nbytes);
    if (entry->wide_nbytes > 0) {
        lmc_test_put_number(directory, 1, 2);
        lmc_test_put_number(directory, entry->wide_nbytes, 2);
        for (unsigned i = 0; i < entry->wide_nbytes / 8; i++)
            lmc_test_put_number(directory, entry->wide[i], 8);
    }
    zip->count++;
}

static inline void lmc_test_zip_add(lmc_test_zip *zip, const char *name, const void *data, size_t nbytes)
{
    const lmc_test_entry entry = lmc_test_entry_of(zip, name, data, nbytes);
    lmc_test_zip_put(zip, &entry);
}

/* What end records say. */
typedef struct lmc_test_end {
    uint64_t count, nbytes, offset;
    uint64_t wide_count, wide_nbytes, wide_offset;
    int is_wide;
} lmc_test_end;

static inline lmc_test_end lmc_test_end_of(const lmc_test_zip *zip)
{
    const uint64_t offset = zip->bytes->nbytes - zip->begin;
    const lmc_test_end end = {.count = zip->count,
                              .nbytes = zip->directory.nbytes,
                              .offset = offset,
                              .wide_count = zip->count,
                              .wide_nbytes = zip->directory.nbytes,
                              .wide_offset = offset};
    return end;
}

static inline void lmc_test_zip_end_as(lmc_test_zip *zip, const lmc_test_end *end)
{
    lmc_test_bytes *const bytes = zip->bytes;
    lmc_test_put(bytes, zip->directory.at, zip->directory.nbytes);
    if (end->is_wide) {
        lmc_test_put_text(bytes, "PK\6\6");
        lmc_test_put_number(bytes, 44, 8);
        lmc_test_put_number(bytes, 0, 4);
        lmc_test_put_number(bytes, 0, 8);
        lmc_test_put_number(bytes, end->wide_count, 8);
        lmc_test_put_number(bytes, end->wide_count, 8);
        lmc_test_put_number(bytes, end->wide_nbytes, 8);
        lmc_test_put_number(bytes, end->wide_offset, 8);
        lmc_test_put_text(bytes, "PK\6\7");
        lmc_test_put_number(bytes, 0, 8);
        lmc_test_put_number(bytes, 0, 8);
    }
    lmc_test_put_text(bytes, "PK\5\6");
    lmc_test_put_number(bytes, 0, 4);
    lmc_test_put_number(bytes, end->count, 2);
    lmc_test_put_number(bytes, end->count, 2);
    lmc_test_put_number(bytes, end->nbytes, 4);
    lmc_test_put_number(bytes, end->offset, 4);
    lmc_test_put_number(bytes, 0, 2);
}

static inline void lmc_test_zip_end(lmc_test_zip *zip)
{
    const lmc_test_end end = lmc_test_end_of(zip);
    lmc_test_zip_end_as(zip, &end);
}

#endif
