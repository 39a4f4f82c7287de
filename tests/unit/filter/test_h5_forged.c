/* test_h5_forged.c - chunks put together by somebody else, with checks that are right: what the document allows is
 * read, all else is refused, and memory is not asked for by claims. */
#include "lmc_test_h5_forged.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "filter/chunk/chunk.h"

#define CHUNK_NBYTES 3001

/* ---- frames ---- */

static lmc_status columns_status(const size_t *nbytes, unsigned width)
{
    uint8_t content[CHUNK_NBYTES];
    memset(content, 0x77, sizeof content);
    for (unsigned j = 0; j < width; j++)
        add_frame(content, nbytes[j], LMC_DTYPE_U8, LMC_BASE_PLAIN, NULL);
    finish(H5_WIRE_LAYOUT_COLUMNS, 0, width, 0);
    return h5_decode_status(ctx, &room, f.bytes, f.stored_nbytes);
}

LMC_TEST(test_columns_of_unequal_size)
{
    static const struct {
        size_t nbytes[3];
        lmc_status status;
    } cases[] = {
        {{9, 9, 9}, LMC_OK},
        {{9, 9, 10}, LMC_OK},
        {{9, 9, 11}, LMC_OK},
        {{9, 9, 12}, LMC_ERR_CORRUPT},
        {{9, 9, 8}, LMC_ERR_CORRUPT},
        {{9, 8, 9}, LMC_ERR_CORRUPT},
        {{9, 10, 9}, LMC_ERR_CORRUPT},
        {{8, 9, 9}, LMC_ERR_CORRUPT},
        {{10, 9, 9}, LMC_ERR_CORRUPT},
        {{0, 0, 0}, LMC_OK},
        {{0, 0, 2}, LMC_OK},
        {{0, 0, 3}, LMC_ERR_CORRUPT},
        {{0, 1, 0}, LMC_ERR_CORRUPT},
        {{1, 0, 0}, LMC_ERR_CORRUPT},
        {{900, 900, 902}, LMC_OK},
        {{0, 900, 0}, LMC_ERR_CORRUPT},
        {{900, 900, 0}, LMC_ERR_CORRUPT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CU_ASSERT_EQUAL(columns_status(cases[i].nbytes, 3), cases[i].status);
    for (unsigned width = 2; width <= 256; width += width < 20 ? 1 : 59) {
        size_t nbytes[256];
        for (unsigned j = 0; j < width; j++)
            nbytes[j] = 3;
        nbytes[width - 1] = 3 + width - 1;
        CU_ASSERT_EQUAL(columns_status(nbytes, width), LMC_OK);
        nbytes[width - 1] = 3 + width;
        CU_ASSERT_EQUAL(columns_status(nbytes, width), LMC_ERR_CORRUPT);
    }
}

/* Sizes in the head that do not fit the frames, with a check that is right. */
LMC_TEST(test_sizes_of_frames)
{
    static const uint8_t content[40] = {1, 2, 3};
    static const uint32_t wrong[] = {0, 1, 23, 63, 65, 128, 192, 193, 1000, 0x7fffffff, 0xffffffff};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        for (unsigned frame = 0; frame < 2; frame++) {
            for (unsigned j = 0; j < 3; j++)
                add_frame(content, sizeof content, LMC_DTYPE_U8, LMC_BASE_PLAIN, NULL);
            CU_ASSERT_EQUAL_FATAL(f.frame_nbytes[0], 64);
            f.frame_nbytes[frame] = wrong[i];
            finish(H5_WIRE_LAYOUT_COLUMNS, 0, 3, 0);
            const lmc_status status = h5_decode_status(ctx, &room, f.bytes, f.stored_nbytes);
            CU_ASSERT(status == LMC_ERR_TRUNCATED || status == LMC_ERR_CORRUPT);
            CU_ASSERT(wrong[i] < 193 || status == LMC_ERR_TRUNCATED);
        }
    }
}

LMC_TEST(test_frames_that_are_none)
{
    static const uint8_t content[40] = {1, 2, 3};
    add_frame(content, sizeof content, LMC_DTYPE_F32, LMC_BASE_PLAIN, NULL);
    finish(H5_WIRE_LAYOUT_PLAIN, 4, 0, 0);
    CU_ASSERT_EQUAL(h5_decode_status(ctx, &room, f.bytes, f.stored_nbytes), LMC_OK);
    CU_ASSERT_EQUAL(h5_decode_status(ctx, &room, f.bytes, 18), LMC_ERR_TRUNCATED); /* none at all */
    memcpy(f.frames, f.bytes, f.stored_nbytes); /* a regrouped chunk in a regrouped chunk */
    f.nbytes = f.stored_nbytes;
    finish(H5_WIRE_LAYOUT_PLAIN, 4, 0, 0);
    CU_ASSERT_EQUAL(h5_decode_status(ctx, &room, f.bytes, f.stored_nbytes), LMC_ERR_CORRUPT);
    add_frame(content, sizeof content, LMC_DTYPE_F32, LMC_BASE_PLAIN, NULL); /* two where one belongs */
    add_frame(content, sizeof content, LMC_DTYPE_F32, LMC_BASE_PLAIN, NULL);
    finish(H5_WIRE_LAYOUT_RECORDS, 0, 4, 0);
    CU_ASSERT_EQUAL(h5_decode_status(ctx, &room, f.bytes, f.stored_nbytes), LMC_ERR_CORRUPT);
}

/* Chunks of no bytes are legal in every layout; there may be no memory for them at all. */
LMC_TEST(test_empty_chunks)
{
    static const unsigned layouts[][3] = {{H5_WIRE_LAYOUT_PLAIN, 2, 0},
                                          {H5_WIRE_LAYOUT_PLAIN, 8, 0},
                                          {H5_WIRE_LAYOUT_RECORDS, 0, 5},
                                          {H5_WIRE_LAYOUT_RECORDS, 4, 8},
                                          {H5_WIRE_LAYOUT_COLUMNS, 0, 2}};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        size_t nbytes = 7;
        for (unsigned j = 0; j < (layouts[i][0] == H5_WIRE_LAYOUT_COLUMNS ? layouts[i][2] : 1); j++)
            add_frame(NULL, 0, LMC_DTYPE_U8, LMC_BASE_PLAIN, NULL);
        finish(layouts[i][0], layouts[i][1], layouts[i][2], 0);
        CU_ASSERT_EQUAL(h5_decode_status(ctx, &room, f.bytes, f.stored_nbytes), LMC_OK);
        CU_ASSERT_EQUAL(lmc_h5_decode_chunk(ctx, f.bytes, f.stored_nbytes, NULL, 0, &nbytes), LMC_OK);
        CU_ASSERT_EQUAL(nbytes, 0);
    }
}

/* Every combination that the document allows, with frames that no encoder would choose: the loops of section 3. */
static void check_forged(unsigned layout, unsigned swap, unsigned width, size_t nbytes)
{
    uint8_t inner[CHUNK_NBYTES], expected[CHUNK_NBYTES], *dst;
    size_t dst_nbytes;
    const size_t n = width ? nbytes / width : 0;
    const unsigned frame_count = layout == H5_WIRE_LAYOUT_COLUMNS ? width : 1;
    random_fill(inner, nbytes);
    for (unsigned j = 0; j < frame_count; j++) {
        const size_t frame_nbytes = j + 1 < frame_count ? n : nbytes - j * n;
        add_frame(inner + j * n, frame_nbytes, (lmc_dtype)random_below(LMC_DTYPE_COUNT), LMC_BASE_PLAIN,
                  NULL);
    }
    finish(layout, swap, width, 0);
    swap_bytes(inner, nbytes, swap);
    memcpy(expected, inner, nbytes);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++)
            if (layout == H5_WIRE_LAYOUT_COLUMNS)
                expected[i * width + j] = inner[j * n + i];
            else
                expected[j * n + i] = inner[i * width + j];
    CU_ASSERT_EQUAL_FATAL(h5_decode(ctx, &room, f.bytes, f.stored_nbytes, &dst, &dst_nbytes), LMC_OK);
    CU_ASSERT(dst_nbytes == nbytes && memcmp(dst, expected, nbytes) == 0);
}

LMC_TEST(test_every_layout_of_others)
{
    for (size_t i = 0; i < 800; i++) {
        const unsigned swap = (unsigned[]){0, 2, 4, 8}[random_below(4)];
        const unsigned width = 2 + (unsigned)random_below(i % 2 ? 255 : 8);
        const size_t nbytes = random_below(i % 3 ? 300 : CHUNK_NBYTES + 1);
        check_forged(H5_WIRE_LAYOUT_RECORDS, swap, width, nbytes);
        check_forged(H5_WIRE_LAYOUT_COLUMNS, 0, width, nbytes);
        if (swap)
            check_forged(H5_WIRE_LAYOUT_PLAIN, swap, 0, nbytes);
    }
}

/* ---- claims ---- */

/* Frames whose head claims more than it has, plain and below a head with the right check. */
LMC_TEST(test_claimed_sizes)
{
    lmc_ctx *const counted = h5_create_counting();
    uint8_t chunk[CHUNK_NBYTES], dst[100];
    data_fill(chunk, CHUNK_NBYTES, LMC_DTYPE_F32, DATA_ZERO);
    for (unsigned layout = 0; layout < 4; layout++) {
        for (unsigned shift = 13; shift < 64; shift++) {
            size_t nbytes = 7;
            for (unsigned j = 0; j < (layout == 1 ? 2 : 1); j++)
                add_frame(chunk, CHUNK_NBYTES, LMC_DTYPE_F32, LMC_BASE_PLAIN, NULL);
            for (size_t at = 0, j = 0; at < f.nbytes; at += f.frame_nbytes[j++])
                store(f.frames + at + 16, UINT64_C(1) << shift, 8);
            if (layout < 3) {
                finish(layout, layout == 1 ? 0 : 4, layout == 0 ? 0 : 2, 0);
            } else {
                memcpy(f.bytes, f.frames, f.nbytes);
                f.stored_nbytes = f.nbytes;
                f.nbytes = f.frame_count = 0;
            }
            CU_ASSERT_NOT_EQUAL(lmc_h5_chunk_size(counted, f.bytes, f.stored_nbytes, &nbytes), LMC_OK);
            CU_ASSERT_EQUAL(nbytes, 0);
            CU_ASSERT_NOT_EQUAL(
                lmc_h5_decode_chunk(counted, f.bytes, f.stored_nbytes, dst, sizeof dst, &nbytes), LMC_OK);
        }
    }
    CU_ASSERT(atomic_load(&pool.largest) < 100000);
    lmc_ctx_free(counted);
}

/* The most that a few bytes can claim: blocks of 8 MiB with 13 bytes each. Without its checksum it is not believed;
 * with it, it is, as far as the size goes. */
LMC_TEST(test_claims_need_their_checksum)
{
    const unsigned blocks = 1000;
    const size_t nbytes = 32 + 13 + 13 * blocks + 8;
    uint8_t *const frame = calloc(1, nbytes);
    lmc_ctx *const counted = h5_create_counting();
    size_t found = 7;
    CU_ASSERT_PTR_NOT_NULL_FATAL(frame);
    memcpy(frame, "\x8cLMC\x01", 5);
    frame[5] = LMC_DTYPE_F64;
    frame[6] = 1;
    frame[7] = 20;
    store(frame + 12, 13, 4);
    store(frame + 16, (uint64_t)blocks << 23, 8);
    frame[28] = 8;
    uint8_t *const tail = frame + nbytes - 8 - 12 * blocks;
    for (unsigned i = 0; i < blocks; i++)
        store(tail + 12 * i, 1, 4);
    CU_ASSERT_EQUAL(lmc_h5_chunk_nbytes(frame, nbytes, &found), LMC_OK);
    CU_ASSERT_EQUAL(found, (size_t)blocks << 23);
    CU_ASSERT_EQUAL(lmc_h5_chunk_size(counted, frame, nbytes, &found), LMC_ERR_CHECKSUM);
    CU_ASSERT_EQUAL(found, 0);
    const uint64_t seed = XXH3_64bits(frame, 32 + 13);
    store(frame + nbytes - 8, XXH3_64bits_withSeed(tail, 12 * blocks, seed), 8);
    CU_ASSERT_NOT_EQUAL(lmc_h5_chunk_size(counted, frame, nbytes, &found), LMC_ERR_CHECKSUM);
    store(frame + 16, ((uint64_t)blocks << 23) + 1, 8); /* one block more than there is room for */
    CU_ASSERT_EQUAL(lmc_h5_chunk_nbytes(frame, nbytes, &found), LMC_ERR_TRUNCATED);
    CU_ASSERT_EQUAL(found, 0);
    CU_ASSERT(atomic_load(&pool.largest) < 1000000);
    lmc_ctx_free(counted);
    free(frame);
}

LMC_TEST_MAIN_WITH("h5_forged", (room = h5_room_open(FORGED_MAX, CHUNK_NBYTES), ctx = must_create_ctx()),
                   (lmc_ctx_free(ctx), h5_room_close(&room)))
