/* test_h5_damage.c - stored chunks that are cut or damaged never give wrong bytes; nor does memory that runs out. */
#include "lmc_test_h5.h"

#define CHUNK_NBYTES 3001
#define STORED_MAX 100000

static uint8_t chunk[CHUNK_NBYTES];
static lmc_ctx *ctx;
static h5_room room;

static const unsigned no_user_values[3] = {0, 0, 0};

/* A damaged form of a stored chunk: refused, or so harmless that it gives the same bytes. */
static void check_damaged(const uint8_t *stored, size_t nbytes)
{
    uint8_t *dst;
    size_t dst_nbytes;
    if (h5_decode(ctx, &room, stored, nbytes, &dst, &dst_nbytes) == LMC_OK)
        CU_ASSERT(dst_nbytes == CHUNK_NBYTES && memcmp(dst, chunk, CHUNK_NBYTES) == 0);
}

static h5_stored encode_case(const h5_case *c)
{
    unsigned values[8];
    h5_case_fill(c, chunk, CHUNK_NBYTES);
    h5_case_values(c, no_user_values, CHUNK_NBYTES, values);
    return h5_encode(ctx, values, 8, chunk, CHUNK_NBYTES);
}

/* ---- damage ---- */

LMC_TEST(test_every_truncation)
{
    for (size_t c = 0; c < H5_CASE_COUNT; c++) {
        h5_stored stored = encode_case(&h5_cases[c]);
        for (size_t nbytes = 0; nbytes < stored.nbytes; nbytes++)
            CU_ASSERT_NOT_EQUAL(h5_decode_status(ctx, &room, stored.bytes, nbytes), LMC_OK);
        for (size_t more = 1; more < 20; more++) {
            uint8_t longer[2 * CHUNK_NBYTES] = {0};
            memcpy(longer, stored.bytes, stored.nbytes);
            CU_ASSERT_NOT_EQUAL(h5_decode_status(ctx, &room, longer, stored.nbytes + more), LMC_OK);
        }
        free(stored.bytes);
    }
}

/* Every bit of heads and tails, and one of each byte between them. */
LMC_TEST(test_flipped_bits)
{
    for (size_t c = 0; c < H5_CASE_COUNT; c++) {
        h5_stored stored = encode_case(&h5_cases[c]);
        for (size_t i = 0; i < stored.nbytes; i++) {
            const int is_edge = i < 80 || i + 80 > stored.nbytes;
            for (unsigned bit = is_edge ? 0 : (unsigned)random_below(8); bit < 8; bit += is_edge ? 1 : 8) {
                stored.bytes[i] ^= (uint8_t)(1u << bit);
                check_damaged(stored.bytes, stored.nbytes);
                stored.bytes[i] ^= (uint8_t)(1u << bit);
            }
        }
        free(stored.bytes);
    }
}

LMC_TEST(test_swapped_and_random_bytes)
{
    uint8_t bytes[600];
    for (size_t c = 0; c < H5_CASE_COUNT; c++) {
        h5_stored stored = encode_case(&h5_cases[c]);
        for (size_t i = 0; i < 300; i++) {
            const size_t at = random_below(stored.nbytes), n = random_below(stored.nbytes - at) % 64;
            uint8_t *const copy = must_malloc(stored.nbytes);
            memcpy(copy, stored.bytes, stored.nbytes);
            if (i % 2)
                random_fill(copy + at, n);
            else
                memmove(copy + at, copy + random_below(stored.nbytes - n), n);
            check_damaged(copy, stored.nbytes);
            free(copy);
        }
        free(stored.bytes);
    }
    for (size_t i = 0; i < 20000; i++) {
        const size_t nbytes = random_below(sizeof bytes);
        random_fill(bytes, nbytes);
        memcpy(bytes, i % 2 ? "\x8cLMH\x01" : "\x8cLMC\x01", 5);
        CU_ASSERT_NOT_EQUAL(h5_decode_status(ctx, &room, bytes, nbytes), LMC_OK);
    }
}

/* ---- memory that runs out ---- */

static void check_failing_allocations(const h5_case *c)
{
    static uint8_t dst[16384];
    unsigned values[8];
    size_t failing = 0;
    h5_stored stored = encode_case(c);
    h5_case_values(c, no_user_values, CHUNK_NBYTES, values);
    for (int is_met = 1; is_met; failing++) {
        is_met = 0;
        for (unsigned way = 0; way < 4; way++) {
            lmc_ctx *const counted = h5_create_counting();
            size_t nbytes = 7;
            pool_fail(failing, (int)(way & 1));
            const lmc_status status =
                way < 2
                    ? lmc_h5_encode_chunk(counted, values, 8, chunk, CHUNK_NBYTES, dst, sizeof dst, &nbytes)
                    : lmc_h5_decode_chunk(counted, stored.bytes, stored.nbytes, dst, sizeof dst, &nbytes);
            is_met |= pool_has_failed();
            CU_ASSERT(status == LMC_OK || (status == LMC_ERR_NOMEM && nbytes == 0));
            if (status == LMC_OK && way < 2)
                CU_ASSERT(nbytes == stored.nbytes && memcmp(dst, stored.bytes, nbytes) == 0);
            if (status == LMC_OK && way >= 2)
                CU_ASSERT(nbytes == CHUNK_NBYTES && memcmp(dst, chunk, nbytes) == 0);
            lmc_ctx_free(counted);
            CU_ASSERT(pool_is_whole());
        }
    }
    CU_ASSERT(failing > 1);
    free(stored.bytes);
}

LMC_TEST(test_failing_allocations)
{
    for (size_t c = 0; c < H5_CASE_COUNT; c++)
        check_failing_allocations(&h5_cases[c]);
}

LMC_TEST_MAIN_WITH("h5_damage", (room = h5_room_open(STORED_MAX, CHUNK_NBYTES), ctx = must_create_ctx()),
                   (lmc_ctx_free(ctx), h5_room_close(&room)))
