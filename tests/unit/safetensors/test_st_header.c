/*
 * test_st_header.c - reading headers into tables: order, names, sizes, places of faults. What is accepted
 * and what is refused is tested at length by test_st_header_corpus.c.
 */
#include "lmc_test.h"

#include "safetensors/archive/archive_header.h"
#include "safetensors/archive/table.h"
#include "safetensors/header/header.h"

#include <stdio.h>

static lmc_status parse(st_header *header, const char *text, size_t nbytes, uint64_t data_nbytes,
                        lmc_st_diag *diag)
{
    unsigned char *const copy = malloc(nbytes); /* exact size: a sanitizer sees reads beyond it */
    CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
    memcpy(copy, text, nbytes);
    st_diag_init(diag, "test");
    const st_header_text source = {copy, nbytes, 8, data_nbytes, 0, 0};
    return st_header_parse(header, &lmc_memory_default, &source, diag);
}

static const char two_tensors[] =
    "{\"b\\u0000\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
    "\"__metadata__\":{\"format\":\"pt\"},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}  ";

LMC_TEST(test_table)
{
    st_header header;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    CU_ASSERT_EQUAL_FATAL(parse(&header, two_tensors, sizeof two_tensors - 1, 16, &diag), LMC_OK);
    CU_ASSERT_EQUAL(header.tensor_count, 2);
    CU_ASSERT_EQUAL(header.tensors[0].dtype, LMC_DTYPE_F32);
    CU_ASSERT_EQUAL(header.tensors[0].rank, 0);
    CU_ASSERT_EQUAL(header.tensors[1].rank, 2);
    st_shape shape = st_header_shape(&header, &header.tensors[1]);
    CU_ASSERT_EQUAL(st_shape_next(&shape), 2);
    CU_ASSERT_EQUAL(st_shape_next(&shape), 3);
    CU_ASSERT_EQUAL(header.metadata.nbytes, strlen("{\"format\":\"pt\"}"));

    size_t index = 9;
    const st_string with_nul = {"b\0", 2};
    const st_string without = {"b", 1};
    CU_ASSERT_TRUE(st_header_find(&header, with_nul, &index));
    CU_ASSERT_EQUAL(index, 1);
    CU_ASSERT_FALSE(st_header_find(&header, without, &index));
    st_header_free(&header);
}

/* Truncated anywhere, the header is refused and the fault lies inside it. */
LMC_TEST(test_truncated)
{
    for (size_t nbytes = 0; nbytes < sizeof two_tensors - 3; nbytes++) {
        st_header header;
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        CU_ASSERT_EQUAL(parse(&header, two_tensors, nbytes, 16, &diag), LMC_ERR_HEADER);
        CU_ASSERT_TRUE(diag.offset >= 8 && diag.offset <= 8 + nbytes);
        st_header_free(&header);
    }
}

/* Any byte replaced by any other: no crash, and what is accepted keeps the rules. */
LMC_TEST(test_mutated)
{
    char text[sizeof two_tensors];
    for (size_t at = 0; at < sizeof(text) - 1; at++) {
        for (unsigned value = 0; value < 256; value++) {
            st_header header;
            lmc_st_diag diag = LMC_INIT(lmc_st_diag);
            memcpy(text, two_tensors, sizeof(text));
            text[at] = (char)value;
            if (parse(&header, text, sizeof(text) - 1, 16, &diag) == LMC_OK) {
                CU_ASSERT_EQUAL(header.tensor_count, 2);
                CU_ASSERT_EQUAL(header.tensors[0].end, header.tensors[1].begin);
                CU_ASSERT_EQUAL(header.tensors[1].end, 16);
            }
            st_header_free(&header);
        }
    }
}

LMC_TEST(test_fault_names_tensor)
{
    static const char text[] = "{\"a\\n\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,3]}}";
    st_header header;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    CU_ASSERT_EQUAL(parse(&header, text, sizeof(text) - 1, 3, &diag), LMC_ERR_HEADER);
    CU_ASSERT_TRUE(diag.has_tensor);
    CU_ASSERT_STRING_EQUAL(diag.tensor, "a\\n");
    CU_ASSERT_EQUAL(diag.offset, 8 + 1);
    st_header_free(&header);
}

/* The archive header never outgrows what was reserved for it. */
LMC_TEST(test_archive_header)
{
    st_header header;
    st_header parsed;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    CU_ASSERT_EQUAL_FATAL(parse(&header, two_tensors, sizeof two_tensors - 1, 16, &diag), LMC_OK);
    char *const name = st_archive_free_name(ST_ARCHIVE_TABLE_NAME, &header, &lmc_memory_default);
    CU_ASSERT_PTR_NOT_NULL_FATAL(name);
    CU_ASSERT_STRING_EQUAL(name, "lmc.archive");
    const st_archive_parts parts = {.original = &header, .table_name = name, .table_nbytes = 100};
    uint64_t nbytes = 0;
    CU_ASSERT_EQUAL(st_archive_header_reserve(&parts, 0, &nbytes, &diag), LMC_OK);
    CU_ASSERT_EQUAL(nbytes % 8, 0);
    const uint64_t sizes[][2] = {
        {1, 1}, {4 + 48, 12 + 48}, {st_archive_frame_bound(4), st_archive_frame_bound(12)}};
    for (size_t i = 0; i < 3; i++) {
        unsigned char *const bytes = malloc(nbytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
        CU_ASSERT_EQUAL(st_archive_header_write(&parts, sizes[i], bytes, nbytes, &diag), LMC_OK);
        CU_ASSERT_EQUAL(lmc_load64(bytes), nbytes - 8);
        memmove(bytes, bytes + 8, nbytes - 8);
        const st_header_text source = {bytes, nbytes - 8, 8, 100 + sizes[i][0] + sizes[i][1], 0, 0};
        CU_ASSERT_EQUAL(st_header_parse(&parsed, &lmc_memory_default, &source, &diag), LMC_OK);
        CU_ASSERT_EQUAL(parsed.tensor_count, 3);
        st_header_free(&parsed);
    }
    free(name);
    st_header_free(&header);
}

/* No frame is larger than the bound, however unlike its sample a tensor is. */
LMC_TEST(test_frame_bound)
{
    const uint32_t columns[] = {0, 31, 32, 1000, 32768, LMC_COLUMN_COUNT_MAX, LMC_COLUMN_COUNT_MAX + 1};
    const size_t rows[] = {1, LMC_ROW_COUNT_MIN, 9, 64, 1000};
    for (int dtype = 0; dtype < LMC_DTYPE_COUNT; dtype++)
        for (size_t i = 0; i < sizeof columns / sizeof columns[0] * (sizeof rows / sizeof rows[0]); i++) {
            lmc_params params;
            size_t most = 0;
            lmc_params_init(&params);
            params.dtype = (lmc_dtype)dtype;
            params.row_nbytes = columns[i / 5] * lmc_dtype_nbits(params.dtype) / 8;
            const size_t nbytes = params.row_nbytes > 0 ? params.row_nbytes * rows[i % 5] : rows[i % 5];
            CU_ASSERT_EQUAL(lmc_encode_bound(&params, nbytes, &most), LMC_OK);
            CU_ASSERT(most <= st_archive_frame_bound(nbytes));
        }
}

/* An archive's own header keeps to the limit of all headers, and the text says how much of a file would. */
LMC_TEST(test_archive_header_limit)
{
    static const uint32_t third = LMC_ST_HEADER_NBYTES_MAX / 3;
    unsigned char text[8] = "\"\"";
    st_tensor tensors[3] = {{.begin = 0}};
    const st_header header = {
        .text = text, .text_nbytes = sizeof(text), .tensors = tensors, .tensor_count = 3};
    const st_archive_parts parts = {.original = &header, .table_name = "t", .table_nbytes = 100};
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    uint64_t nbytes = 0;
    for (size_t i = 0; i < 3; i++)
        tensors[i].raw_name.nbytes = third;
    st_diag_init(&diag, "test");
    CU_ASSERT_EQUAL(st_archive_header_reserve(&parts, 0, &nbytes, &diag), LMC_ERR_LIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "may have 100000000"));
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "the first 2 of 3 tensors"));
    tensors[2].raw_name.nbytes = third - 1000;
    CU_ASSERT_EQUAL(st_archive_header_reserve(&parts, 0, &nbytes, &diag), LMC_OK);
    CU_ASSERT_TRUE(nbytes - 8 <= LMC_ST_HEADER_NBYTES_MAX && nbytes - 8 > LMC_ST_HEADER_NBYTES_MAX - 1000);
    /* spaces that may come to it count too */
    CU_ASSERT_EQUAL(st_archive_header_reserve(&parts, 1000, &nbytes, &diag), LMC_ERR_LIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "the first 2 of 3 tensors"));
}

/* ---- the table tensor ---- */

static unsigned char *make_table(size_t *nbytes)
{
    uint64_t hashes[3] = {1, 2, 1};
    st_alias alias = {2, 0};
    unsigned char *stored = NULL;
    size_t stored_nbytes = 0;
    unsigned method = 9;
    unsigned char text[1000];
    memset(text, 'x', sizeof(text));
    CU_ASSERT_EQUAL_FATAL(
        st_table_pack_header(&lmc_memory_default, text, sizeof(text), &stored, &stored_nbytes, &method),
        LMC_OK);
    CU_ASSERT_EQUAL(method, ST_TABLE_METHOD_ZSTD);
    const st_table table = {.original_nbytes = 2000,
                            .header = text,
                            .header_nbytes = sizeof(text),
                            .archive_header_hash = 77,
                            .hashes = hashes,
                            .tensor_count = 3,
                            .aliases = &alias,
                            .alias_count = 1};
    *nbytes = (size_t)st_table_nbytes(3, 1, 0, 0, stored_nbytes);
    unsigned char *const bytes = malloc(*nbytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    st_table_write(&table, stored, stored_nbytes, method, bytes);
    free(stored);
    return bytes;
}

LMC_TEST(test_table_tensor)
{
    size_t nbytes = 0;
    st_table table;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    unsigned char *const bytes = make_table(&nbytes);
    CU_ASSERT_EQUAL(st_table_read(&table, &lmc_memory_default, bytes, nbytes, 0, &diag), LMC_OK);
    CU_ASSERT_EQUAL(table.original_nbytes, 2000);
    CU_ASSERT_EQUAL(table.header_nbytes, 1000);
    CU_ASSERT_EQUAL(table.tensor_count, 3);
    CU_ASSERT_EQUAL(table.alias_count, 1);
    CU_ASSERT_EQUAL(table.aliases[0].alias, 2);
    CU_ASSERT_EQUAL(table.aliases[0].owner, 0);
    CU_ASSERT_EQUAL(table.hashes[1], 2);
    CU_ASSERT_EQUAL(table.archive_header_hash, 77);
    CU_ASSERT_EQUAL(table.header[999], 'x');
    st_table_free(&table);
    free(bytes);
}

/* 1 if what was read is what make_table() wrote. */
static int is_original_table(const st_table *table)
{
    int is_same = table->original_nbytes == 2000 && table->header_nbytes == 1000 &&
                  table->tensor_count == 3 && table->hashes[0] == 1 && table->hashes[1] == 2 &&
                  table->alias_count == 1;
    for (size_t i = 0; is_same && i < table->header_nbytes; i++)
        is_same = table->header[i] == 'x';
    return is_same;
}

/* Every bit flipped and every length short of the whole: refused. */
LMC_TEST(test_damaged_table)
{
    size_t nbytes = 0;
    st_table table;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    unsigned char *const bytes = make_table(&nbytes);
    for (size_t bit = 0; bit < nbytes * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        CU_ASSERT_NOT_EQUAL(st_table_read(&table, &lmc_memory_default, bytes, nbytes, 0, &diag), LMC_OK);
        st_table_free(&table);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t cut = 0; cut < nbytes; cut++) {
        CU_ASSERT_NOT_EQUAL(st_table_read(&table, &lmc_memory_default, bytes, cut, 0, &diag), LMC_OK);
        st_table_free(&table);
    }
    free(bytes);
}

/* Every bit flipped by someone who makes the checksum right again: refused or without effect. (Some bits
 * of a zstd frame have none, and the hash of the archive header is compared elsewhere.) */
LMC_TEST(test_forged_table)
{
    size_t nbytes = 0;
    st_table table;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    unsigned char *const bytes = make_table(&nbytes);
    for (size_t bit = 0; bit < (nbytes - 8) * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        lmc_store64(bytes + nbytes - 8, st_hash(bytes, nbytes - 8));
        /* an alias may name another owner: whether they are equal is not the table's to say */
        if (st_table_read(&table, &lmc_memory_default, bytes, nbytes, 0, &diag) == LMC_OK)
            CU_ASSERT_TRUE(is_original_table(&table));
        st_table_free(&table);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    free(bytes);
}

LMC_TEST(test_table_says_what_it_needs)
{
    size_t nbytes = 0;
    st_table table;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    unsigned char *const bytes = make_table(&nbytes);
    bytes[8] = 4;
    CU_ASSERT_EQUAL(st_table_read(&table, &lmc_memory_default, bytes, nbytes, 0, &diag), LMC_ERR_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "feature 2"));
    st_table_free(&table);
    free(bytes);
}

LMC_TEST_MAIN("st_header")
