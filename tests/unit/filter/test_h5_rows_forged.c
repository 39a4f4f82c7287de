/* test_h5_rows_forged.c - chunks of rows that are cut, damaged or put together by somebody else, with checks that are
 * right: what the document allows is read, all else is refused, and memory is not asked for by claims. */
#include "lmc_test_h5_forged.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "filter/chunk/chunk.h"

#define ROW_NBYTES 1600
#define ROW_COUNT 4
#define CHUNK_NBYTES (ROW_NBYTES * ROW_COUNT)
#define ROWS H5_WIRE_LAYOUT_ROWS

static uint8_t chunk[CHUNK_NBYTES];

/* ---- forged chunks ---- */

static void add_plain(const uint8_t *content, size_t nbytes)
{
    CU_ASSERT_NOT_EQUAL(add_frame(content, nbytes, LMC_DTYPE_F32, LMC_BASE_PLAIN, NULL), LMC_FRAME_DELTA);
}

static void add_delta(const uint8_t *content, const uint8_t *base)
{
    CU_ASSERT_EQUAL(add_frame(content, ROW_NBYTES, LMC_DTYPE_F32, LMC_BASE_PLAIN, base), LMC_FRAME_DELTA);
}

static const uint8_t *row(unsigned i)
{
    return chunk + (size_t)i * ROW_NBYTES;
}

static lmc_status status_of(unsigned layout, unsigned swap, unsigned width, unsigned row_count)
{
    finish(layout, swap, width, row_count);
    return h5_decode_status(ctx, &room, f.bytes, f.stored_nbytes);
}

static void make_good(void)
{
    add_plain(row(0), ROW_NBYTES);
    for (unsigned i = 1; i < ROW_COUNT; i++)
        add_delta(row(i), row(i - 1));
    finish(ROWS, 0, 0, ROW_COUNT);
}

static void fill_chunk(void)
{
    data_fill(chunk, ROW_NBYTES, LMC_DTYPE_F32, DATA_HALF_ZEROS);
    for (size_t i = ROW_NBYTES; i < CHUNK_NBYTES; i++)
        chunk[i] = (uint8_t)(chunk[i - ROW_NBYTES] + (i % 4 == 0 && random_below(20) == 0));
}

/* ---- heads ---- */

/* As the document has it: 10 bytes as in every layout, u32 count of rows, u32 for each frame but the last, check. */
LMC_TEST(test_head_by_the_document)
{
    uint8_t expected[10 + 4 + 4 * 2 + 8] = {0x8c, 0x4c, 0x4d, 0x48, 1, 3, 8, 0, 16, 0, 3, 0, 0, 0};
    const uint32_t sizes[3] = {0x01020304, 0xfffffff0, 77};
    uint8_t bytes[sizeof expected];
    lmc_h5_head head = {.layout = ROWS, .swap_nbytes = 8, .width = 16, .row_count = 3}, read;
    lmc_h5_head_complete(&head);
    CU_ASSERT(head.nbytes == sizeof expected && head.frame_count == 3);
    lmc_h5_head_write(&head, sizes, bytes);
    store(expected + 14, sizes[0], 4);
    store(expected + 18, sizes[1], 4);
    store(expected + 22, XXH3_64bits(expected, 22), 8);
    CU_ASSERT_EQUAL(memcmp(bytes, expected, sizeof expected), 0);
    CU_ASSERT_EQUAL_FATAL(lmc_h5_head_read(bytes, sizeof bytes, &read), LMC_OK);
    CU_ASSERT(read.layout == ROWS && read.swap_nbytes == 8 && read.width == 16 && read.row_count == 3 &&
              read.frame_count == 3 && read.nbytes == sizeof bytes);
    CU_ASSERT_EQUAL(lmc_h5_head_frame_nbytes(&read, bytes, sizeof bytes, 1, 0), sizes[1]);
    CU_ASSERT_EQUAL(lmc_h5_head_frame_nbytes(&read, bytes, sizeof bytes, 2, sizeof bytes - 5), 5);
}

/* A head alone, with the check that it asks for. */
static lmc_status head_status(unsigned swap, unsigned width, uint32_t row_count)
{
    const int is_count = row_count >= 2 && row_count <= 65536;
    const size_t nbytes = 22 + (is_count ? 4 * ((size_t)row_count - 1) : 0);
    uint8_t *const bytes = calloc(1, nbytes);
    lmc_h5_head head;
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    memcpy(bytes, "\x8cLMH\x01\x03", 6);
    bytes[6] = (uint8_t)swap;
    store(bytes + 8, width, 2);
    store(bytes + 10, row_count, 4);
    store(bytes + nbytes - 8, XXH3_64bits(bytes, nbytes - 8), 8);
    const lmc_status status = lmc_h5_head_read(bytes, nbytes, &head);
    free(bytes);
    return status;
}

LMC_TEST(test_every_field_of_heads)
{
    static const uint32_t bad_counts[] = {0, 1, 65537, 0x10000002, 0x80000000, 0xffffffff};
    for (uint32_t count = 2; count <= 65536; count += count < 40 || count > 65500 ? 1 : 3517)
        CU_ASSERT_EQUAL(head_status(0, 0, count), LMC_OK);
    for (size_t i = 0; i < sizeof bad_counts / sizeof bad_counts[0]; i++)
        CU_ASSERT_EQUAL(head_status(0, 0, bad_counts[i]), LMC_ERR_CORRUPT);
    for (unsigned swap = 0; swap < 256; swap++)
        CU_ASSERT_EQUAL(head_status(swap, 0, 2),
                        swap == 0 || swap == 2 || swap == 4 || swap == 8 ? LMC_OK : LMC_ERR_CORRUPT);
    for (unsigned width = 0; width < 65536; width++)
        CU_ASSERT_EQUAL(head_status(4, width, 5), width != 1 && width <= 256 ? LMC_OK : LMC_ERR_CORRUPT);
}

/* ---- what the document allows ---- */

/* Rows of any dtype and mode, no delta among them or some; with the loops of section 3 behind them. */
static void check_allowed(unsigned swap, unsigned width, unsigned row_count, size_t row_nbytes)
{
    uint8_t inner[CHUNK_NBYTES], expected[CHUNK_NBYTES], *dst;
    const size_t nbytes = row_count * row_nbytes, n = width ? nbytes / width : 0;
    size_t dst_nbytes;
    data_fill(inner, nbytes, LMC_DTYPE_F32, DATA_HALF_ZEROS);
    for (unsigned i = 0; i < row_count; i++) {
        uint8_t *const start = inner + i * row_nbytes;
        if (i > 0 && row_nbytes > 0 && random_below(2)) {
            memcpy(start, start - row_nbytes, row_nbytes);
            start[random_below(row_nbytes)] ^= 1;
        }
        add_frame(start, row_nbytes, (lmc_dtype)random_below(LMC_DTYPE_COUNT), LMC_BASE_PLAIN,
                  i > 0 && random_below(4) ? start - row_nbytes : NULL);
    }
    finish(ROWS, swap, width, row_count);
    swap_bytes(inner, nbytes, swap);
    memcpy(expected, inner, nbytes);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++)
            expected[j * n + i] = inner[i * width + j];
    CU_ASSERT_EQUAL_FATAL(h5_decode(ctx, &room, f.bytes, f.stored_nbytes, &dst, &dst_nbytes), LMC_OK);
    CU_ASSERT(dst_nbytes == nbytes && memcmp(dst, expected, nbytes) == 0);
}

LMC_TEST(test_every_form_of_others)
{
    for (unsigned i = 0; i < 300; i++) {
        const unsigned row_count = 2 + (unsigned)random_below(9);
        const unsigned width = i % 2 ? 2 + (unsigned)random_below(255) : 0;
        check_allowed((unsigned[]){0, 2, 4, 8}[random_below(4)], width, row_count, random_below(640));
    }
    check_allowed(0, 0, 5, 0);
    check_allowed(8, 3, 3, 1);
}

/* ---- what it does not ---- */

LMC_TEST(test_rows_of_unequal_size)
{
    static const size_t sizes[][3] = {{900, 900, 901}, {900, 900, 899}, {900, 901, 900}, {900, 899, 900},
                                      {901, 900, 900}, {0, 900, 900},   {900, 0, 900},   {900, 900, 0},
                                      {0, 0, 1},       {1, 0, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (unsigned j = 0; j < 3; j++)
            add_plain(chunk, sizes[i][j]);
        CU_ASSERT_EQUAL(status_of(ROWS, 0, 0, 3), LMC_ERR_CORRUPT);
        CU_ASSERT(strstr(lmc_h5_last_error(), "row 0 has") != NULL);
    }
}

/* A frame that asks for a base where there is none: before all others, in every other layout, and alone. */
LMC_TEST(test_no_base)
{
    add_delta(row(1), row(0));
    add_plain(row(1), ROW_NBYTES);
    CU_ASSERT_EQUAL(status_of(ROWS, 0, 0, 2), LMC_ERR_CORRUPT);
    CU_ASSERT(strstr(lmc_h5_last_error(), "asks for a base") != NULL);
    add_delta(row(1), row(0));
    CU_ASSERT_EQUAL(status_of(H5_WIRE_LAYOUT_PLAIN, 4, 0, 0), LMC_ERR_CORRUPT);
    add_delta(row(1), row(0));
    CU_ASSERT_EQUAL(status_of(H5_WIRE_LAYOUT_RECORDS, 0, 4, 0), LMC_ERR_CORRUPT);
    for (unsigned place = 0; place < 2; place++) {
        for (unsigned i = 0; i < 2; i++)
            if (i == place)
                add_delta(row(1), row(0));
            else
                add_plain(row(1), ROW_NBYTES);
        CU_ASSERT_EQUAL(status_of(H5_WIRE_LAYOUT_COLUMNS, 0, 2, 0), LMC_ERR_CORRUPT);
    }
    add_delta(row(1), row(0));
    CU_ASSERT_EQUAL(h5_decode_status(ctx, &room, f.frames, f.nbytes), LMC_ERR_CORRUPT);
    f.nbytes = f.frame_count = 0;
}

/* BF16 against F32 asks for twice as many bytes as a row has. */
LMC_TEST(test_base_of_another_size)
{
    uint8_t halves[ROW_NBYTES / 2];
    for (size_t i = 0; i < sizeof halves; i++)
        halves[i] = chunk[2 * (i / 2 * 2) + 2 + i % 2];
    add_plain(halves, sizeof halves);
    CU_ASSERT_EQUAL(add_frame(halves, sizeof halves, LMC_DTYPE_BF16, LMC_BASE_BF16_OF_F32, chunk),
                    LMC_FRAME_DELTA);
    CU_ASSERT_EQUAL(status_of(ROWS, 0, 0, 2), LMC_ERR_CORRUPT);
    CU_ASSERT(strstr(lmc_h5_last_error(), "base of 1600 bytes, there are 800") != NULL);
}

/* Whole rows that do not belong together: a checksum says so, and nobody is sent to look for a base. */
LMC_TEST(test_rows_of_other_chunks)
{
    static const unsigned bases[][ROW_COUNT] = {{0, 1, 1, 2}, {0, 0, 2, 2}, {0, 2, 1, 2}, {0, 0, 1, 0}};
    make_good();
    CU_ASSERT_EQUAL(h5_decode_status(ctx, &room, f.bytes, f.stored_nbytes), LMC_OK);
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        add_plain(row(0), ROW_NBYTES);
        for (unsigned j = 1; j < ROW_COUNT; j++)
            add_delta(row(j), row(bases[i][j]));
        CU_ASSERT_EQUAL(status_of(ROWS, 0, 0, ROW_COUNT), LMC_ERR_CHECKSUM);
        CU_ASSERT(strstr(lmc_h5_last_error(), "coded against another") != NULL);
    }
    uint8_t other[ROW_NBYTES];
    memcpy(other, row(0), ROW_NBYTES);
    other[ROW_NBYTES - 1] ^= 0x80; /* one bit */
    add_plain(other, ROW_NBYTES);
    for (unsigned j = 1; j < ROW_COUNT; j++)
        add_delta(row(j), row(j - 1));
    CU_ASSERT_EQUAL(status_of(ROWS, 0, 0, ROW_COUNT), LMC_ERR_CHECKSUM);
}

LMC_TEST(test_sizes_of_frames)
{
    static const uint32_t wrong[] = {0, 1, 23, 5000, 0x7fffffff, 0xffffffff};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        for (unsigned frame = 0; frame + 1 < ROW_COUNT; frame++) {
            for (unsigned j = 0; j < ROW_COUNT; j++)
                add_plain(row(j), ROW_NBYTES);
            f.frame_nbytes[frame] = wrong[i];
            const lmc_status status = status_of(ROWS, 0, 0, ROW_COUNT);
            CU_ASSERT(status == LMC_ERR_TRUNCATED || status == LMC_ERR_CORRUPT);
        }
    for (unsigned j = 0; j < ROW_COUNT; j++) /* more rows, or fewer, than the head says */
        add_plain(row(j), ROW_NBYTES);
    CU_ASSERT_NOT_EQUAL(status_of(ROWS, 0, 0, ROW_COUNT - 1), LMC_OK);
    for (unsigned j = 0; j < ROW_COUNT; j++)
        add_plain(row(j), ROW_NBYTES);
    CU_ASSERT_EQUAL(status_of(ROWS, 0, 0, ROW_COUNT + 1), LMC_ERR_TRUNCATED);
}

/* Heads of frames that claim more than they have; rows that add up to more than a size_t. */
LMC_TEST(test_claimed_sizes)
{
    lmc_ctx *const counted = h5_create_counting();
    uint8_t dst[100];
    for (unsigned shift = 13; shift < 64; shift++)
        for (unsigned from = 0; from < 2; from++) {
            size_t nbytes = 7;
            add_plain(row(0), ROW_NBYTES);
            for (unsigned i = 1; i < ROW_COUNT; i++)
                add_delta(row(i), row(i - 1));
            for (size_t at = 0, j = 0; at < f.nbytes; at += f.frame_nbytes[j++])
                if (j >= from)
                    store(f.frames + at + 16, UINT64_C(1) << shift, 8);
            finish(ROWS, 0, 0, ROW_COUNT);
            const lmc_status status = lmc_h5_chunk_size(counted, f.bytes, f.stored_nbytes, &nbytes);
            CU_ASSERT(status == LMC_OK ? from == 0 && nbytes / 64 <= f.stored_nbytes : nbytes == 0);
            CU_ASSERT_NOT_EQUAL(
                lmc_h5_decode_chunk(counted, f.bytes, f.stored_nbytes, dst, sizeof dst, &nbytes), LMC_OK);
        }
    CU_ASSERT(atomic_load(&pool.largest) < 100000);
    lmc_ctx_free(counted);
}

/* ---- damage ---- */

LMC_TEST(test_truncations_and_flipped_bits)
{
    uint8_t *dst;
    size_t dst_nbytes;
    make_good();
    for (size_t nbytes = 0; nbytes < f.stored_nbytes; nbytes++)
        CU_ASSERT_NOT_EQUAL(h5_decode_status(ctx, &room, f.bytes, nbytes), LMC_OK);
    for (size_t bit = 0; bit < 8 * f.stored_nbytes; bit++) {
        f.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (h5_decode(ctx, &room, f.bytes, f.stored_nbytes, &dst, &dst_nbytes) == LMC_OK)
            CU_ASSERT(dst_nbytes == CHUNK_NBYTES && memcmp(dst, chunk, CHUNK_NBYTES) == 0);
        f.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

LMC_TEST(test_failing_allocations)
{
    const unsigned values[9] = {16, 0, 0, LMC_H5_MAGIC, 4, (LMC_DTYPE_F32 + 1u) << 16, 0, 0, ROW_COUNT};
    static uint8_t dst[32768];
    h5_stored stored = h5_encode(ctx, values, 9, chunk, CHUNK_NBYTES);
    CU_ASSERT_EQUAL_FATAL(stored.bytes[3], 'H');
    for (unsigned way = 0; way < 4; way++) {
        int is_met = 1;
        for (size_t failing = 0; is_met; failing++) {
            lmc_ctx *const counted = h5_create_counting();
            size_t nbytes = 7;
            pool_fail(failing, (int)(way & 1));
            const lmc_status status =
                way < 2
                    ? lmc_h5_encode_chunk(counted, values, 9, chunk, CHUNK_NBYTES, dst, sizeof dst, &nbytes)
                    : lmc_h5_decode_chunk(counted, stored.bytes, stored.nbytes, dst, sizeof dst, &nbytes);
            is_met = pool_has_failed();
            CU_ASSERT(status == LMC_OK || (status == LMC_ERR_NOMEM && nbytes == 0));
            if (status == LMC_OK && way < 2)
                CU_ASSERT(nbytes == stored.nbytes && memcmp(dst, stored.bytes, nbytes) == 0);
            if (status == LMC_OK && way >= 2)
                CU_ASSERT(nbytes == CHUNK_NBYTES && memcmp(dst, chunk, nbytes) == 0);
            lmc_ctx_free(counted);
            CU_ASSERT(pool_is_whole());
        }
    }
    free(stored.bytes);
}

LMC_TEST_MAIN_WITH("h5_rows_forged",
                   (room = h5_room_open(FORGED_MAX, CHUNK_NBYTES + 2000), ctx = must_create_ctx(),
                    fill_chunk()),
                   (lmc_ctx_free(ctx), h5_room_close(&room)))
