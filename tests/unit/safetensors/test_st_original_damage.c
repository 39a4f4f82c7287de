/*
 * test_st_original_damage.c - originals of archives that are damaged, cut short, hostile, or without their base: what
 * needs the bad bytes fails and says why, and all else is read. Allocations that fail.
 */
#include "lmc_test_alloc.h"
#include "lmc_test_archive.h"
#include "lmc_test_original.h"
#include "lmc_test_sized_alloc.h"
#include "lmc_test_st_base.h"

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

static void make_archive(const char *plain, const char *archive)
{
    CU_ASSERT_EQUAL_FATAL(lmc_test_convert(lmc_test_path(plain), NULL, lmc_test_path(archive), 1, &diag),
                          LMC_OK);
}

static void drop(const char *const *names)
{
    for (; *names; names++)
        CU_ASSERT_EQUAL(unlink(lmc_test_path(*names)), 0);
}

/* Where the frame of a tensor stands in the archive. */
static uint64_t place_of(const lmc_test_original *of, const char *name, uint64_t *nbytes)
{
    uint64_t index = 0, place = 0;
    CU_ASSERT_TRUE_FATAL(lmc_st_find_tensor(of->file, name, &index));
    CU_ASSERT_EQUAL(lmc_st_tensor_place(of->file, index, &place, nbytes), LMC_OK);
    return place;
}

static void flip(uint64_t at)
{
    lmc_test_flip(lmc_test_path("archive"), (size_t)at, 4);
}

static int is_damage(lmc_status status)
{
    return status == LMC_ERR_CHECKSUM || status == LMC_ERR_CORRUPT;
}

/* Reads [begin, end) in parts; returns how many fail, each with damage of this tensor or, if it is NULL, of none. */
static unsigned count_faults(const lmc_test_original *of, uint64_t begin, uint64_t end, size_t part_nbytes,
                             const char *tensor)
{
    unsigned count = 0;
    for (uint64_t at = begin; at < end; at += part_nbytes) {
        const size_t nbytes = end - at < part_nbytes ? (size_t)(end - at) : part_nbytes;
        const lmc_status status = lmc_test_original_read(of, at, nbytes, &diag);
        count += status != LMC_OK;
        if (status == LMC_OK) {
            CU_ASSERT_EQUAL(diag.status, LMC_OK);
            continue;
        }
        CU_ASSERT_TRUE(is_damage(status));
        CU_ASSERT_EQUAL(diag.status, status);
        CU_ASSERT_STRING_EQUAL(diag.tensor, tensor ? tensor : "");
        CU_ASSERT_EQUAL(diag.has_tensor, tensor != NULL);
        CU_ASSERT_PTR_NOT_NULL(strstr(diag.file, "archive"));
    }
    return count;
}

/* All is right but this range, of which nothing may be: each byte beside it is read together with its neighbours. */
static void check_around(const lmc_test_original *of, uint64_t begin, uint64_t end, const char *tensor)
{
    CU_ASSERT_EQUAL(count_faults(of, 0, begin, 60000, NULL), 0);
    CU_ASSERT_EQUAL(count_faults(of, end, of->nbytes, 60000, NULL), 0);
    const size_t part_nbytes = 1 + (size_t)(end - begin) / 9;
    CU_ASSERT_EQUAL(count_faults(of, begin, end, part_nbytes, tensor),
                    (end - begin + part_nbytes - 1) / part_nbytes);
    CU_ASSERT_EQUAL(count_faults(of, begin, begin + 1, 1, tensor), 1);
    CU_ASSERT_EQUAL(count_faults(of, end - 1, end, 1, tensor), 1);
    if (begin > 0)
        CU_ASSERT_EQUAL(count_faults(of, begin - 1, begin + 1, 2, tensor), 1);
    if (end < of->nbytes)
        CU_ASSERT_EQUAL(count_faults(of, end - 1, end + 1, 2, tensor), 1);
    CU_ASSERT_EQUAL(count_faults(of, 0, of->nbytes, of->nbytes, tensor), 1);
}

/* ---- tensors ---- */

LMC_TEST(test_begin)
{
    lmc_test_write_mixed(lmc_test_path("plain"));
    make_archive("plain", "archive");
}

/* Of a large tensor, one block is missing. */
LMC_TEST(test_block)
{
    lmc_test_original of;
    uint64_t nbytes = 0, stored_nbytes = 0;
    lmc_st_cache *const cache = lmc_test_cache(0, 2);
    lmc_test_original_open(&of, cache, "archive", "plain");
    const uint64_t begin = lmc_test_origin(&of, "large", &nbytes);
    const uint64_t place = place_of(&of, "large", &stored_nbytes);
    flip(place + stored_nbytes / 2);
    CU_ASSERT_EQUAL(count_faults(&of, begin, begin + nbytes, 65536, "large"), 2); /* of 128 KiB */
    CU_ASSERT_TRUE(diag.status == LMC_OK);
    CU_ASSERT_TRUE(is_damage(lmc_test_original_read(&of, begin, (size_t)nbytes, &diag)));
    CU_ASSERT_TRUE(diag.offset > place && diag.offset < place + stored_nbytes);
    CU_ASSERT_EQUAL(count_faults(&of, 0, begin, 65536, NULL), 0);
    const uint64_t alias = lmc_test_origin(&of, "large tied", &nbytes);
    CU_ASSERT_EQUAL(alias, begin + nbytes);
    CU_ASSERT_EQUAL(count_faults(&of, alias, alias + nbytes, 65536, "large tied"), 2);
    CU_ASSERT_EQUAL(count_faults(&of, alias + nbytes, of.nbytes, 65536, NULL), 0);
    flip(place + stored_nbytes / 2);
    CU_ASSERT_EQUAL(lmc_test_original_read(&of, 0, of.nbytes, NULL), LMC_OK);
    lmc_test_original_close(&of);
    lmc_st_cache_free(cache);
}

/* The head, before it is opened and after: a tensor that could not be opened is read once its head is right. */
LMC_TEST(test_head)
{
    static const char *const names[] = {"large", "noise", "noise of one block", "zeros", "edge1"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        lmc_test_original of;
        uint64_t nbytes = 0, stored_nbytes = 0;
        lmc_st_cache *const cache = lmc_test_cache(1, 2);
        lmc_test_original_open(&of, cache, "archive", "plain");
        const uint64_t place = place_of(&of, names[i], &stored_nbytes);
        lmc_st_original_close(of.original);
        flip(place + 1);
        CU_ASSERT_EQUAL_FATAL(lmc_st_original_open(of.file, cache, &of.original, &diag), LMC_OK);
        CU_ASSERT_EQUAL(diag.status, LMC_OK);
        const uint64_t begin = lmc_test_origin(&of, names[i], &nbytes);
        if (i == 0) {
            (void)lmc_test_origin(&of, "large tied", &nbytes);
            CU_ASSERT_EQUAL(count_faults(&of, 0, begin, 65536, NULL), 0);
            CU_ASSERT_EQUAL(count_faults(&of, begin, begin + nbytes, 100000, "large"), 8);
            CU_ASSERT_EQUAL(count_faults(&of, begin + nbytes, begin + 2 * nbytes, 100000, "large tied"), 8);
        } else {
            check_around(&of, begin, begin + nbytes, names[i]);
            CU_ASSERT_TRUE(diag.offset >= place && diag.offset < place + 16);
        }
        flip(place + 1);
        CU_ASSERT_EQUAL(count_faults(&of, 0, of.nbytes, of.nbytes, NULL), 0);
        CU_ASSERT_EQUAL(count_faults(&of, begin, begin + nbytes, 777, NULL), 0);
        lmc_test_original_close(&of);
        lmc_st_cache_free(cache);
    }
}

/* Small tensors are decoded together with their neighbours, and with parts of the header. */
LMC_TEST(test_small)
{
    static const char *const names[] = {"edge0", "edge5", "a051", "m001", "z149"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        lmc_test_original of;
        uint64_t nbytes = 0, stored_nbytes = 0;
        lmc_st_cache *const cache = lmc_test_cache(0, 1);
        lmc_test_original_open(&of, cache, "archive", "plain");
        const uint64_t begin = lmc_test_origin(&of, names[i], &nbytes);
        const uint64_t place = place_of(&of, names[i], &stored_nbytes);
        flip(place + stored_nbytes - stored_nbytes / 3 - 1);
        check_around(&of, begin, begin + nbytes, names[i]);
        flip(place + stored_nbytes - stored_nbytes / 3 - 1);
        CU_ASSERT_EQUAL(count_faults(&of, 0, of.nbytes, of.nbytes, NULL), 0);
        lmc_test_original_close(&of);
        lmc_st_cache_free(cache);
    }
}

/* The file becomes shorter while it is open; and was before. */
LMC_TEST(test_cut)
{
    lmc_test_original of;
    lmc_st_file *file = NULL;
    size_t archive_nbytes = 0;
    uint64_t nbytes = 0, stored_nbytes = 0;
    unsigned char *const archive = lmc_test_read(lmc_test_path("archive"), &archive_nbytes);
    lmc_st_cache *const cache = lmc_test_cache(0, 2);
    lmc_test_original_open(&of, cache, "archive", "plain");
    const uint64_t begin = lmc_test_origin(&of, "noise", &nbytes);
    const uint64_t cut = place_of(&of, "noise", &stored_nbytes) + stored_nbytes / 2;
    CU_ASSERT_EQUAL(lmc_test_original_read(&of, begin, 1, NULL), LMC_OK); /* it stays open */
    CU_ASSERT_EQUAL_FATAL(truncate(lmc_test_path("archive"), (off_t)cut), 0);
    CU_ASSERT_EQUAL(count_faults(&of, 0, begin, 65536, NULL), 0);
    CU_ASSERT_EQUAL(lmc_test_original_read(&of, begin, 10, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_original_read(&of, begin + nbytes - 10, 10, &diag), LMC_ERR_IO);
    CU_ASSERT_STRING_EQUAL(diag.tensor, "noise");
    CU_ASSERT_TRUE(diag.offset >= cut && diag.offset < archive_nbytes);
    lmc_test_write(lmc_test_path("archive"), archive, archive_nbytes);
    CU_ASSERT_EQUAL(lmc_test_original_read(&of, 0, of.nbytes, NULL), LMC_OK);
    lmc_test_original_close(&of);
    CU_ASSERT_EQUAL_FATAL(truncate(lmc_test_path("archive"), (off_t)cut), 0);
    const lmc_status status = lmc_st_open(lmc_test_path("archive"), NULL, &file, &diag);
    CU_ASSERT_TRUE(status == LMC_OK || status == LMC_ERR_TRUNCATED);
    lmc_st_close(file);
    lmc_test_write(lmc_test_path("archive"), archive, archive_nbytes);
    free(archive);
    lmc_st_cache_free(cache);
}

LMC_TEST(test_end_of_mixed)
{
    drop((const char *const[]){"archive", "plain", NULL});
}

/* One bit of a frame without an index: nothing of its tensor can be trusted, in whatever order it is read. */
LMC_TEST(test_without_an_index)
{
    enum { NBYTES = 30000 };
    static unsigned char content[NBYTES];
    char text[128];
    lmc_test_noise(content, sizeof content, 1);
    lmc_test_noise(content, sizeof content, 2);
    (void)snprintf(text, sizeof text, "{\"a\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
                   NBYTES, NBYTES);
    for (unsigned is_large = 0; is_large < 2; is_large++) {
        static unsigned char larger[4 * NBYTES];
        const size_t nbytes = is_large ? sizeof larger : sizeof content;
        lmc_test_original of = {.file = NULL};
        lmc_test_noise(larger, sizeof larger, 3);
        const uint64_t place = lmc_test_write_archive(lmc_test_path("archive"), is_large ? larger : content,
                                                      nbytes, 10, LMC_FRAME_STORED);
        CU_ASSERT_EQUAL_FATAL(
            lmc_test_restore(lmc_test_path("archive"), NULL, NULL, lmc_test_path("plain"), &diag), LMC_OK);
        for (unsigned i = 0; i < 20; i++) {
            lmc_st_cache *const cache = lmc_test_cache(0, 1);
            lmc_test_original_open(&of, cache, "archive", "plain");
            const uint64_t begin = of.nbytes - nbytes;
            const size_t at = (size_t)place + 40 + i * (nbytes - 50) / 20;
            if (i % 2)
                CU_ASSERT_EQUAL(lmc_test_original_read(&of, begin + nbytes / 2, 1, NULL), LMC_OK);
            lmc_test_flip(lmc_test_path("archive"), at, (unsigned char)(1u << i % 8));
            if (i % 2) { /* verified already: only the block with the bit fails */
                const unsigned count = count_faults(&of, begin, of.nbytes, 1024, "a");
                CU_ASSERT_TRUE(is_large ? count <= 1 : count == 0);
            } else {
                CU_ASSERT_EQUAL(count_faults(&of, of.nbytes - 1, of.nbytes, 1, "a"), 1);
                CU_ASSERT_EQUAL(diag.status, LMC_ERR_CHECKSUM);
                CU_ASSERT_EQUAL(diag.offset, place);
                check_around(&of, begin, of.nbytes, "a");
            }
            lmc_test_flip(lmc_test_path("archive"), at, (unsigned char)(1u << i % 8));
            CU_ASSERT_EQUAL(lmc_test_original_read(&of, 0, of.nbytes, NULL), LMC_OK);
            lmc_test_original_close(&of);
            lmc_st_cache_free(cache);
        }
    }
    drop((const char *const[]){"archive", "plain", NULL});
}

/* ---- the skeleton ---- */

/* A GGUF file with a text of 2.5 MB and a tensor "w". */
static void write_skeleton(const char *name)
{
    enum { TEXT = 2500000, DATA = 200000 };
    static unsigned char bytes[200 + TEXT + DATA];
    static const char head[] = "GGUF\3\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0k\10\0\0";
    static const char tensor[] = "\1\0\0\0\0\0\0\0w\1\0\0\0\120\303\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    const uint64_t length = TEXT;
    size_t at = sizeof head; /* with its NUL, the last byte of the type of the value */
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, head, sizeof head);
    memcpy(bytes + at, &length, 8);
    at += 8;
    lmc_test_noise(bytes + at, TEXT, 3);
    at += TEXT;
    memcpy(bytes + at, tensor, sizeof tensor);
    at = (at + sizeof tensor + 31) / 32 * 32;
    lmc_test_weights(bytes + at, DATA, 9);
    lmc_test_write(lmc_test_path(name), bytes, at + DATA);
}

LMC_TEST(test_skeleton)
{
    const uint64_t mib = (uint64_t)1 << 20;
    lmc_test_original of;
    uint64_t nbytes = 0;
    lmc_st_cache *const cache = lmc_test_cache(0, 2);
    write_skeleton("plain");
    make_archive("plain", "archive");
    lmc_test_original_open(&of, cache, "archive", "plain");
    CU_ASSERT_EQUAL_FATAL(lmc_st_container_of(of.file), LMC_ST_CONTAINER_GGUF);
    const uint64_t begin = lmc_test_origin(&of, "w", &nbytes);
    CU_ASSERT_EQUAL(nbytes, 200000);
    CU_ASSERT_EQUAL(begin + nbytes, of.nbytes);
    const st_skeleton_place *const place = &of.file->skeleton;
    CU_ASSERT_TRUE_FATAL(place->nbytes == begin && place->stored_nbytes > 2 * mib);
    flip(place->offset + place->stored_nbytes / 2); /* in the second of three pieces */
    check_around(&of, mib, 2 * mib, NULL);
    CU_ASSERT_TRUE(diag.offset > place->offset && diag.offset < place->offset + 3 * mib);
    flip(place->offset + place->stored_nbytes / 2);
    CU_ASSERT_EQUAL(count_faults(&of, 0, of.nbytes, of.nbytes, NULL), 0);
    lmc_test_original_close(&of);
    flip(lmc_test_nbytes(lmc_test_path("archive")) - 1); /* in the index */
    lmc_test_original_open(&of, cache, "archive", "plain");
    check_around(&of, 0, begin, NULL);
    flip(lmc_test_nbytes(lmc_test_path("archive")) - 1);
    CU_ASSERT_EQUAL(count_faults(&of, 0, of.nbytes, of.nbytes, NULL), 0);
    lmc_test_original_close(&of);
    lmc_st_cache_free(cache);
    drop((const char *const[]){"archive", "plain", NULL});
}

/* Where tensor and skeleton of one block are both damaged, each is told of itself. */
LMC_TEST(test_two_faults)
{
    static const char header[] =
        "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (5000, 3), }";
    static unsigned char bytes[128 + 60000];
    lmc_test_original of;
    uint64_t nbytes = 0;
    lmc_st_cache *const cache = lmc_test_cache(0, 1);
    memset(bytes, ' ', 128);
    memcpy(bytes, header, sizeof header - 1);
    bytes[127] = '\n';
    lmc_test_weights(bytes + 128, 60000, 4);
    lmc_test_write(lmc_test_path("plain"), bytes, sizeof bytes);
    make_archive("plain", "archive");
    lmc_test_original_open(&of, cache, "archive", "plain");
    const char *const name = "array";
    flip(place_of(&of, name, &nbytes) + nbytes / 2);
    flip(of.file->skeleton.offset + 5);
    CU_ASSERT_EQUAL(count_faults(&of, 0, 128, 50, NULL), 3);
    CU_ASSERT_EQUAL(count_faults(&of, 128, of.nbytes, 10000, name), 6);
    flip(of.file->skeleton.offset + 5);
    CU_ASSERT_EQUAL(count_faults(&of, 0, 128, 50, NULL), 0);
    CU_ASSERT_EQUAL(count_faults(&of, 128, of.nbytes, 10000, name), 6);
    lmc_test_original_close(&of);
    lmc_st_cache_free(cache);
    drop((const char *const[]){"archive", "plain", NULL});
}

/* Has the archive state that its original has so many more bytes behind its tensors. */
static void lengthen(const char *name, uint64_t nbytes)
{
    st_table table;
    size_t archive_nbytes = 0;
    unsigned long long table_nbytes = 0;
    unsigned char *const archive = lmc_test_read(lmc_test_path(name), &archive_nbytes);
    const size_t at = 8 + (size_t)lmc_load64(archive);
    archive[at - 1] = '\0'; /* ends the header as a text; this copy is not written */
    const char *const offsets = strstr((const char *)archive + 8, "\"data_offsets\":[0,");
    CU_ASSERT_PTR_NOT_NULL_FATAL(offsets);
    CU_ASSERT_EQUAL_FATAL(sscanf(offsets, "\"data_offsets\":[0,%llu", &table_nbytes), 1);
    free(archive);
    unsigned char *const bytes = lmc_test_read(lmc_test_path(name), &archive_nbytes);
    unsigned char *const src = bytes + at;
    CU_ASSERT_EQUAL_FATAL(st_table_read(&table, &lmc_memory_default, src, (size_t)table_nbytes, at, &diag),
                          LMC_OK);
    const size_t stored_nbytes = (size_t)lmc_load64(src + 32);
    unsigned char *const stored = malloc(stored_nbytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(stored);
    memcpy(stored, src + ST_TABLE_HEAD_NBYTES, stored_nbytes);
    unsigned char *const last = table.layout.gaps + table.layout.gaps_nbytes - 8;
    table.original_nbytes += nbytes;
    table.layout.skeleton_nbytes += nbytes;
    lmc_store64(last, lmc_load64(last) + nbytes);
    st_table_write(&table, stored, stored_nbytes, src[5], src);
    lmc_test_write(lmc_test_path(name), bytes, archive_nbytes);
    st_table_free(&table);
    free(stored);
    free(bytes);
}

/* A skeleton of an exabyte: opening it takes no time and no memory, and what is there is read. */
LMC_TEST(test_hostile_skeleton)
{
    static const char header[] =
        "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (50000, 3), }";
    static unsigned char bytes[128 + 600000];
    unsigned char got[1000];
    sized_memory memory = {.large_nbytes = 1 << 20};
    const lmc_allocator allocator = sized_allocator(&memory);
    lmc_st_file *file = NULL;
    lmc_st_original *original = NULL;
    lmc_st_open_options options = LMC_INIT(lmc_st_open_options);
    lmc_st_cache *const cache = lmc_test_cache(0, 2);
    memset(bytes, ' ', 128);
    memcpy(bytes, header, sizeof header - 1);
    bytes[127] = '\n';
    lmc_test_weights(bytes + 128, 600000, 4);
    lmc_test_write(lmc_test_path("plain"), bytes, sizeof bytes);
    make_archive("plain", "archive");
    lengthen("archive", (uint64_t)1 << 60);
    options.allocator = &allocator;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path("archive"), &options, &file, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_original_nbytes(file), ((uint64_t)1 << 60) + sizeof bytes);
    CU_ASSERT_EQUAL_FATAL(lmc_st_original_open(file, cache, &original, &diag), LMC_OK);
    CU_ASSERT_TRUE(atomic_load(&memory.peak_nbytes) < 1 << 20);
    CU_ASSERT_EQUAL(lmc_st_original_read(original, 3000, sizeof got, got, &diag), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(got, bytes + 3000, sizeof got), 0);
    CU_ASSERT_EQUAL(lmc_st_original_read(original, (uint64_t)1 << 59, sizeof got, got, &diag),
                    LMC_ERR_CORRUPT);
    CU_ASSERT_EQUAL(lmc_st_original_read(original, (uint64_t)1 << 61, 1, got, &diag), LMC_ERR_ARG);
    lmc_st_original_close(original);
    lmc_st_close(file);
    lmc_st_cache_free(cache);
    CU_ASSERT_TRUE(sized_is_whole(&memory));
    drop((const char *const[]){"archive", "plain", NULL});
}

/* ---- bases ---- */

/* Reads that need the base fail with BASE, the others do not. */
static void check_base(lmc_status expected, const char *text)
{
    lmc_test_original of;
    uint64_t nbytes = 0;
    lmc_st_cache *const cache = lmc_test_cache(0, 2);
    lmc_test_original_open(&of, cache, "archive", "plain");
    const uint64_t begin = lmc_test_origin(&of, "w", &nbytes);
    for (unsigned i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(lmc_test_original_read(&of, begin + i * (nbytes - 1), 1, &diag), expected);
        CU_ASSERT_STRING_EQUAL(diag.tensor, "w");
        CU_ASSERT_PTR_NOT_NULL(strstr(diag.file, "archive"));
        CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, text));
        CU_ASSERT_EQUAL(lmc_test_original_read(&of, 0, of.nbytes, &diag), expected);
    }
    CU_ASSERT_EQUAL(lmc_test_original_read(&of, 0, (size_t)begin, &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_original_read(&of, of.nbytes - 9, 9, &diag), LMC_OK); /* "short" */
    lmc_test_original_close(&of);
    lmc_st_cache_free(cache);
}

LMC_TEST(test_bases)
{
    const char *const base = lmc_test_path("base"), *const stored = lmc_test_path("base.lmc");
    lmc_test_write_snapshot(base, 0);
    lmc_test_write_snapshot(lmc_test_path("plain"), 1);
    CU_ASSERT_EQUAL(lmc_test_convert(lmc_test_path("plain"), base, lmc_test_path("archive"), 1, &diag),
                    LMC_OK);
    lmc_test_original_check("archive", "plain", 50);
    lmc_test_flip(base, lmc_test_nbytes(base) - 100000, 1);
    check_base(LMC_ERR_BASE, "is not the base that is wanted");
    lmc_test_flip(base, lmc_test_nbytes(base) - 100000, 1);
    CU_ASSERT_EQUAL(lmc_test_convert(base, NULL, stored, 1, &diag), LMC_OK);
    CU_ASSERT_EQUAL(unlink(base), 0);
    lmc_test_original_check("archive", "plain", 50); /* with the base's archive */
    lmc_test_flip(stored, lmc_test_nbytes(stored) / 2, 1);
    check_base(LMC_ERR_CHECKSUM, "in what it was coded against");
    CU_ASSERT_EQUAL(unlink(stored), 0);
    check_base(LMC_ERR_BASE, "not found");
    drop((const char *const[]){"archive", "plain", NULL});
}

/* ---- allocations that fail ---- */

/* Reads an original with all memory from the pool. Returns the first status that is not LMC_OK; each must be NOMEM. */
static lmc_status run_scenario(const char *archive, const unsigned char *bytes, size_t nbytes)
{
    static unsigned char got[400000];
    lmc_st_file *file = NULL;
    lmc_st_cache *cache = NULL;
    lmc_st_original *original = NULL;
    lmc_st_options options = LMC_INIT(lmc_st_options);
    lmc_st_open_options open_options = LMC_INIT(lmc_st_open_options);
    options.common.allocator = open_options.allocator = &pool_allocator;
    options.common.thread_count = 1;
    lmc_status first = lmc_st_cache_create(1, &options, &cache, NULL);
    if (first == LMC_OK)
        first = lmc_st_open(lmc_test_path(archive), &open_options, &file, NULL);
    if (first == LMC_OK)
        first = lmc_st_original_open(file, cache, &original, NULL);
    CU_ASSERT_TRUE(first == LMC_ERR_NOMEM || !pool_has_failed());
    for (size_t i = 0; i < 12 && original; i++) {
        const size_t at = i * (nbytes / 12), left = i % 4 == 3 ? 500 : nbytes / 12;
        lmc_status status = lmc_st_original_read(original, at, left, got, &diag);
        if (status == LMC_OK && memcmp(got, bytes + at, left) != 0)
            status = LMC_TEST_WRONG_BYTES;
        if (status != LMC_OK && status != LMC_ERR_NOMEM)
            CU_FAIL("a status that no lack of memory has");
        first = first == LMC_OK ? status : first;
    }
    lmc_st_original_close(original);
    lmc_st_close(file);
    lmc_st_cache_free(cache);
    return first;
}

static void check_without_memory(const char *archive, const char *plain)
{
    size_t nbytes = 0;
    unsigned char *const bytes = lmc_test_read(lmc_test_path(plain), &nbytes);
    for (int once = 0; once < 2; once++) {
        int is_reached = 1;
        for (size_t number = 0; is_reached; number += LMC_TEST_STEP) {
            pool_fail(number, once);
            const lmc_status status = run_scenario(archive, bytes, nbytes);
            is_reached = pool_has_failed();
            CU_ASSERT_TRUE(status == LMC_OK || (is_reached && status == LMC_ERR_NOMEM));
            CU_ASSERT_TRUE_FATAL(pool_is_whole());
            CU_ASSERT_TRUE(is_reached || number > 30);
        }
    }
    pool_fail(SIZE_MAX, 1);
    free(bytes);
}

LMC_TEST(test_without_memory)
{
    static unsigned char noise[150000];
    lmc_test_write_snapshot(lmc_test_path("base"), 0);
    lmc_test_write_snapshot(lmc_test_path("plain"), 1);
    CU_ASSERT_EQUAL(
        lmc_test_convert(lmc_test_path("plain"), lmc_test_path("base"), lmc_test_path("archive"), 1, &diag),
        LMC_OK);
    check_without_memory("archive", "plain");
    make_archive("plain", "other");
    check_without_memory("other", "plain");
    lmc_test_noise(noise, sizeof noise, 3);
    (void)lmc_test_write_archive(lmc_test_path("archive"), noise, sizeof noise, 14, LMC_FRAME_STORED);
    CU_ASSERT_EQUAL(lmc_test_restore(lmc_test_path("archive"), NULL, NULL, lmc_test_path("plain"), &diag),
                    LMC_OK);
    check_without_memory("archive", "plain");
    drop((const char *const[]){"archive", "plain", "base", "other", NULL});
}

LMC_TEST_DIR_MAIN("st_original_damage")
