/*
 * lmc_test_archive.h - archives with frames that the converter would not choose: stored ones of several
 * blocks, other block sizes.
 */
#ifndef LMC_TEST_ARCHIVE_H
#define LMC_TEST_ARCHIVE_H

#include "lmc_test.h"

#include "safetensors/archive/archive_header.h"
#include "safetensors/archive/table.h"
#include "safetensors/header/header.h"

/* The frame of U8 content; to be freed. mode: what it must become. */
static unsigned char *lmc_test_make_frame(const unsigned char *content, size_t nbytes, unsigned block_log2,
                                          lmc_frame_mode mode, size_t *frame_nbytes, uint64_t *content_hash)
{
    lmc_ctx *ctx = NULL;
    lmc_frame *opened = NULL;
    lmc_params params;
    lmc_info info = LMC_INIT(lmc_info);
    size_t bound = 0;
    lmc_params_init(&params);
    params.block_log2 = block_log2;
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_create(NULL, &ctx), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_encode_bound(&params, nbytes, &bound), LMC_OK);
    unsigned char *const frame = malloc(bound);
    CU_ASSERT_PTR_NOT_NULL_FATAL(frame);
    CU_ASSERT_EQUAL_FATAL(lmc_encode(ctx, &params, content, nbytes, frame, bound, frame_nbytes), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame, *frame_nbytes, &info, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(info.mode, mode);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_create(ctx, frame, info.head_nbytes,
                                           frame + *frame_nbytes - (size_t)info.tail_nbytes,
                                           (size_t)info.tail_nbytes, *frame_nbytes, &opened),
                          LMC_OK);
    *content_hash = lmc_frame_content_hash(opened);
    lmc_frame_free(opened);
    lmc_ctx_free(ctx);
    return frame;
}

static void lmc_test_write_parts(const char *path, const unsigned char *region, size_t region_nbytes,
                                 const unsigned char *frame, size_t frame_nbytes)
{
    FILE *const file = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fwrite(region, 1, region_nbytes, file), region_nbytes);
    CU_ASSERT_EQUAL(fwrite(frame, 1, frame_nbytes, file), frame_nbytes);
    CU_ASSERT_EQUAL(fclose(file), 0);
}

/* Writes the archive of a file with this header, of one tensor, or of two, of which the second is an alias. Returns the
 * offset of the frame. */
static inline size_t lmc_test_write_frame(const char *path, const char *header, size_t content_nbytes,
                                          st_alias *alias, const unsigned char *frame, size_t frame_nbytes,
                                          uint64_t hash)
{
    const size_t length = strlen(header), tensor_count = alias ? 2 : 1;
    unsigned char *const text = malloc(length); /* becomes that of `original` */
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    st_header original;
    unsigned char *stored = NULL;
    size_t stored_nbytes = 0;
    unsigned method = 0;
    uint64_t header_nbytes = 0, hashes[2] = {hash, hash};
    const uint64_t frame_sizes[2] = {frame_nbytes, 0};
    const st_header_text source = {text, length, 8, content_nbytes, 0, 0};
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    memcpy(text, header, length);
    CU_ASSERT_EQUAL_FATAL(st_header_parse(&original, &lmc_memory_default, &source, &diag), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(
        st_table_pack_header(&lmc_memory_default, text, length, &stored, &stored_nbytes, &method), LMC_OK);
    const uint64_t table_nbytes = st_table_nbytes(tensor_count, alias ? 1 : 0, 0, 0, stored_nbytes);
    const st_archive_parts parts = {
        .original = &original, .table_name = ST_ARCHIVE_TABLE_NAME, .table_nbytes = table_nbytes};
    CU_ASSERT_EQUAL(st_archive_header_reserve(&parts, 0, &header_nbytes, &diag), LMC_OK);
    unsigned char *const region = malloc(header_nbytes + table_nbytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(region);
    CU_ASSERT_EQUAL(st_archive_header_write(&parts, frame_sizes, region, header_nbytes, &diag), LMC_OK);
    const st_table table = {.original_nbytes = 8 + (uint64_t)length + content_nbytes,
                            .header = text,
                            .header_nbytes = length,
                            .archive_header_hash = st_hash(region + 8, header_nbytes - 8),
                            .hashes = hashes,
                            .tensor_count = tensor_count,
                            .aliases = alias,
                            .alias_count = alias ? 1 : 0};
    st_table_write(&table, stored, stored_nbytes, method, region + header_nbytes);
    lmc_test_write_parts(path, region, header_nbytes + table_nbytes, frame, frame_nbytes);
    free(region);
    free(stored);
    st_header_free(&original);
    return header_nbytes + table_nbytes;
}

/* Writes the archive of a file with one U8 tensor "a". block_log2 0: the library chooses. Returns the
 * offset of the frame. */
static inline size_t lmc_test_write_archive(const char *path, const unsigned char *content, size_t nbytes,
                                            unsigned block_log2, lmc_frame_mode mode)
{
    char text[128];
    uint64_t hash = 0;
    size_t frame_nbytes = 0;
    unsigned char *const frame = lmc_test_make_frame(content, nbytes, block_log2, mode, &frame_nbytes, &hash);
    snprintf(text, sizeof text, "{\"a\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}", nbytes,
             nbytes);
    const size_t offset = lmc_test_write_frame(path, text, nbytes, NULL, frame, frame_nbytes, hash);
    free(frame);
    return offset;
}

#endif
