/* test_h5_chunk.c - the public calls on chunks: every form comes back, is never much larger, and does not depend on
 * threads or contexts; and what the calls say when they are used wrongly. */
#include "lmc_test_h5.h"

#include <pthread.h>

#include "filter/chunk/chunk.h"
#include "filter/chunk/wire.h"

#define CHUNK_MAX ((size_t)1 << 19)

static uint8_t *chunk;
static lmc_ctx *ctx;

static const unsigned no_user_values[3] = {0, 0, 0};

/* ---- round trips ---- */

LMC_TEST(test_every_form_and_small_size)
{
    for (size_t c = 0; c < H5_CASE_COUNT; c++) {
        unsigned values[8];
        h5_case_fill(&h5_cases[c], chunk, 2000);
        for (size_t nbytes = 0; nbytes <= 2000; nbytes += nbytes < 40 ? 1 : 31 * LMC_TEST_STEP) {
            h5_case_values(&h5_cases[c], no_user_values, nbytes, values);
            h5_round_trip(nbytes % 2 ? ctx : NULL, values, 8, chunk, nbytes);
        }
    }
}

/* The forms are what the document says: a head where bytes were moved, and the layout that belongs there. */
LMC_TEST(test_every_form_is_used)
{
    for (size_t c = 0; c < H5_CASE_COUNT; c++) {
        unsigned values[8];
        const size_t nbytes = 200001;
        h5_case_fill(&h5_cases[c], chunk, nbytes);
        h5_case_values(&h5_cases[c], no_user_values, nbytes, values);
        h5_stored stored = h5_encode(ctx, values, 8, chunk, nbytes);
        h5_check(ctx, &stored, chunk, nbytes);
        const int layout = (values[5] & LMC_H5_TYPE_COLUMNS)    ? H5_WIRE_LAYOUT_COLUMNS
                           : (values[5] & LMC_H5_TYPE_SHUFFLED) ? H5_WIRE_LAYOUT_RECORDS
                                                                : H5_WIRE_LAYOUT_PLAIN;
        const int swap = values[5] & LMC_H5_TYPE_BIG_ENDIAN ? (int)values[4] : 0;
        const int is_regrouped = layout != H5_WIRE_LAYOUT_PLAIN || swap != 0;
        if (memcmp(stored.bytes, is_regrouped ? "\x8cLMH" : "\x8cLMC", 4) != 0)
            printf("\n%s: magic %02x\n", h5_cases[c].name, stored.bytes[3]);
        CU_ASSERT_EQUAL(memcmp(stored.bytes, is_regrouped ? "\x8cLMH" : "\x8cLMC", 4), 0);
        if (is_regrouped)
            CU_ASSERT(stored.bytes[5] == layout && stored.bytes[6] == swap);
        CU_ASSERT(stored.nbytes < nbytes);
        free(stored.bytes);
    }
}

/* Regrouping is worth it: the same numbers big-endian or shuffled take about what they take as they are. */
LMC_TEST(test_regrouped_is_as_good_as_plain)
{
    static const h5_case plain = {"", H5_FLOAT(4, 8, 0), H5_NO_PIPELINE};
    static const h5_case others[] = {{"", H5_FLOAT(4, 8, 1), H5_NO_PIPELINE},
                                     {"", H5_FLOAT(4, 8, 0), H5_SHUFFLED(4)},
                                     {"", H5_FLOAT(4, 8, 1), H5_SHUFFLED(4)},
                                     {"", H5_FLOAT(4, 8, 1), H5_SHUFFLED(12)}};
    unsigned values[8];
    const size_t nbytes = 240000;
    random_state = 5;
    h5_case_fill(&plain, chunk, nbytes);
    h5_case_values(&plain, no_user_values, nbytes, values);
    const size_t plain_nbytes = h5_round_trip(ctx, values, 8, chunk, nbytes);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        random_state = 5;
        h5_case_fill(&others[i], chunk, nbytes);
        h5_case_values(&others[i], no_user_values, nbytes, values);
        CU_ASSERT_EQUAL(h5_round_trip(ctx, values, 8, chunk, nbytes), plain_nbytes + 18);
    }
}

LMC_TEST(test_every_column_width)
{
    for (unsigned width = 2; width <= 256; width += LMC_TEST_STEP) {
        const unsigned values[8] = {0, 0, 0, LMC_H5_MAGIC, width, LMC_H5_TYPE_COLUMNS | 6, 0, 0};
        const size_t sizes[] = {width - 1,   width, width * 3 + 1, width * 100 - 1,
                                width * 100, 30000, 30000 + width};
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            for (size_t j = 0; j < sizes[i]; j++)
                chunk[j] = (uint8_t)(j % width + (j / width) % 3);
            h5_round_trip(ctx, values, 8, chunk, sizes[i]);
        }
    }
}

LMC_TEST(test_every_level_block_and_override)
{
    static const unsigned kib[] = {0, 16, 64, 1024};
    static const unsigned overrides[] = {0, 1, 2, 4, 8};
    for (size_t c = 0; c < H5_CASE_COUNT; c++) {
        h5_case_fill(&h5_cases[c], chunk, 70001);
        for (unsigned i = 0; i < 3 * 4 * 5; i += 1 + (unsigned)random_below(17)) {
            const unsigned user[3] = {i % 3, overrides[i / 3 % 5], kib[i / 15]};
            unsigned values[8];
            h5_case_values(&h5_cases[c], user, 70001, values);
            h5_round_trip(ctx, values, 8, chunk, 70001);
            h5_round_trip(ctx, user, i % 4, chunk, 70001);
        }
    }
}

/* What is no content of the type that the values speak of. */
LMC_TEST(test_any_content_under_any_values)
{
    for (size_t i = 0; i < 400; i += LMC_TEST_STEP) {
        const h5_case *const c = &h5_cases[random_below(H5_CASE_COUNT)];
        const size_t nbytes = random_below(i % 20 ? 20000 : CHUNK_MAX);
        const unsigned user[3] = {(unsigned)random_below(3), 0, i % 3 ? 0 : 16};
        unsigned values[8];
        data_fill(chunk, nbytes, (lmc_dtype)random_below(LMC_DTYPE_COUNT),
                  (data_kind)random_below(DATA_KIND_COUNT));
        h5_case_values(c, user, random_below(2) ? nbytes : random_u64(), values);
        h5_round_trip(ctx, values, 8, chunk, nbytes);
    }
}

/* Noise of every size under every form: at most LMC_H5_OVERHEAD_MAX more (h5_encode checks). */
LMC_TEST(test_overhead)
{
    random_fill(chunk, CHUNK_MAX);
    for (size_t c = 0; c < H5_CASE_COUNT; c++) {
        unsigned values[8];
        for (size_t nbytes = c % 7; nbytes <= 1500; nbytes += 1 + random_below(60)) {
            h5_case_values(&h5_cases[c], no_user_values, nbytes, values);
            h5_round_trip(ctx, values, 8, chunk, nbytes);
        }
        const unsigned user[3] = {0, 0, c % 2 ? 16 : 0};
        h5_case_values(&h5_cases[c], user, CHUNK_MAX, values);
        h5_round_trip(ctx, values, 8, chunk, (c % 8 ? 100000 : CHUNK_MAX) - random_below(100));
    }
}

/* ---- what the bytes do not depend on ---- */

static int are_equal(const h5_stored *a, const h5_stored *b)
{
    return a->nbytes == b->nbytes && memcmp(a->bytes, b->bytes, a->nbytes) == 0;
}

LMC_TEST(test_bytes_do_not_depend_on_threads)
{
    static const unsigned thread_counts[] = {1, 2, 3, 0};
    size_t bound;
    CU_ASSERT_EQUAL_FATAL(lmc_h5_encode_bound(CHUNK_MAX, &bound), LMC_OK);
    uint8_t *const dst = must_malloc(bound);
    for (size_t c = 0; c < H5_CASE_COUNT; c += 3) {
        lmc_h5_params params;
        const unsigned user[3] = {0, 0, 64};
        unsigned values[8];
        h5_case_fill(&h5_cases[c], chunk, CHUNK_MAX);
        h5_case_values(&h5_cases[c], user, CHUNK_MAX, values);
        h5_stored one = h5_encode(ctx, values, 8, chunk, CHUNK_MAX),
                  two = h5_encode(NULL, values, 8, chunk, CHUNK_MAX);
        CU_ASSERT(are_equal(&one, &two));
        CU_ASSERT_EQUAL_FATAL(lmc_h5_params_read(values, 8, &params), LMC_OK);
        for (size_t i = 0; i < sizeof thread_counts / sizeof thread_counts[0]; i++) {
            h5_stored found = {dst, 0};
            CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, thread_counts[i]), LMC_OK);
            CU_ASSERT_EQUAL(lmc_h5_chunk_encode(ctx, &params, chunk, CHUNK_MAX, dst, bound, &found.nbytes),
                            LMC_OK);
            CU_ASSERT(are_equal(&one, &found));
            h5_check(ctx, &one, chunk, CHUNK_MAX);
        }
        CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, 1), LMC_OK);
        free(one.bytes);
        free(two.bytes);
    }
    free(dst);
}

/* ---- wrong use ---- */

LMC_TEST(test_null_pointers)
{
    static uint8_t dst[16384];
    uint8_t back[16];
    size_t nbytes = 7, stored_nbytes = 0;
    CU_ASSERT_EQUAL(lmc_h5_encode_bound(1, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_h5_encode_chunk(ctx, NULL, 1, chunk, 1, dst, sizeof dst, &nbytes), LMC_ERR_ARG);
    CU_ASSERT(nbytes == 0 && strstr(lmc_h5_last_error(), "lmc") != NULL);
    CU_ASSERT_EQUAL(lmc_h5_encode_chunk(ctx, NULL, 0, NULL, 1, dst, sizeof dst, &nbytes), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_h5_encode_chunk(ctx, NULL, 0, chunk, 1, NULL, sizeof dst, &nbytes), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_h5_encode_chunk(ctx, NULL, 0, chunk, 1, dst, sizeof dst, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL_FATAL(lmc_h5_encode_chunk(ctx, NULL, 0, NULL, 0, dst, sizeof dst, &stored_nbytes),
                          LMC_OK);
    nbytes = 7;
    CU_ASSERT_EQUAL(lmc_h5_chunk_nbytes(dst, stored_nbytes, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_h5_chunk_nbytes(NULL, stored_nbytes, &nbytes), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(nbytes, 0);
    CU_ASSERT_EQUAL(lmc_h5_chunk_nbytes(NULL, 0, &nbytes), LMC_ERR_TRUNCATED);
    nbytes = 7;
    CU_ASSERT_EQUAL(lmc_h5_decode_chunk(ctx, NULL, 1, back, sizeof back, &nbytes), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(nbytes, 0);
    CU_ASSERT_EQUAL(lmc_h5_decode_chunk(ctx, dst, stored_nbytes, NULL, 1, &nbytes), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_h5_decode_chunk(ctx, dst, stored_nbytes, back, sizeof back, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_h5_decode_chunk(ctx, NULL, 0, back, sizeof back, &nbytes), LMC_ERR_TRUNCATED);
    CU_ASSERT_EQUAL(lmc_h5_decode_chunk(ctx, dst, stored_nbytes, NULL, 0, &nbytes), LMC_OK);
    CU_ASSERT_EQUAL(nbytes, 0);
}

/* Where the chunk lies within the room that may be written, or the stored one within the chunk to be made. */
LMC_TEST(test_overlapping_buffers)
{
    static uint8_t room[16384];
    size_t bound, nbytes = 7, stored_nbytes = 0;
    CU_ASSERT_EQUAL_FATAL(lmc_h5_encode_bound(2000, &bound), LMC_OK);
    CU_ASSERT_FATAL(bound + 2000 <= sizeof room);
    CU_ASSERT_EQUAL(lmc_h5_encode_chunk(ctx, NULL, 0, room + 500, 2000, room, sizeof room, &nbytes),
                    LMC_ERR_ARG);
    CU_ASSERT_EQUAL(nbytes, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(lmc_h5_last_error(), "overlaps"));
    CU_ASSERT_EQUAL(lmc_h5_encode_chunk(ctx, NULL, 0, room + bound, 2000, room, sizeof room, &stored_nbytes),
                    LMC_OK);
    CU_ASSERT_EQUAL(lmc_h5_decode_chunk(ctx, room, stored_nbytes, room + 1, 2000, &nbytes), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(nbytes, 0);
    CU_ASSERT_EQUAL(lmc_h5_decode_chunk(ctx, room, stored_nbytes, room + stored_nbytes, 2000, &nbytes),
                    LMC_OK);
    CU_ASSERT_EQUAL(nbytes, 2000);
}

/* What the codec calls back finds its context in use: that is no success. */
static lmc_status code_chunks(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    static uint8_t room[16384];
    size_t made = 7;
    CU_ASSERT_EQUAL(lmc_h5_encode_chunk(user, NULL, 0, chunk, 2000, room, sizeof room, &made), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(made, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(lmc_h5_last_error(), "in use"));
    memset(dst, (int)offset, nbytes);
    return LMC_OK;
}

LMC_TEST(test_context_in_use)
{
    lmc_params params;
    lmc_plan *plan = NULL;
    lmc_params_init(&params);
    CU_ASSERT_EQUAL(lmc_plan_create(ctx, &params, 1000, code_chunks, ctx, &plan), LMC_OK);
    lmc_plan_free(plan);
}

LMC_TEST(test_small_destinations)
{
    for (size_t c = 0; c < H5_CASE_COUNT; c++) {
        const size_t nbytes = 5001;
        unsigned values[8];
        size_t bound, found = 7;
        h5_case_fill(&h5_cases[c], chunk, nbytes);
        h5_case_values(&h5_cases[c], no_user_values, nbytes, values);
        CU_ASSERT_EQUAL_FATAL(lmc_h5_encode_bound(nbytes, &bound), LMC_OK);
        guarded memory = guarded_open(bound);
        CU_ASSERT_EQUAL(lmc_h5_encode_chunk(ctx, values, 8, chunk, nbytes, guarded_end(&memory, bound - 1),
                                            bound - 1, &found),
                        LMC_ERR_DST_SMALL);
        CU_ASSERT(found == 0 && strstr(lmc_h5_last_error(), "5001") != NULL);
        h5_stored stored = h5_encode(ctx, values, 8, chunk, nbytes);
        for (size_t capacity = 0; capacity < nbytes; capacity += 1 + random_below(300)) {
            found = 7;
            CU_ASSERT_EQUAL(lmc_h5_decode_chunk(ctx, stored.bytes, stored.nbytes,
                                                guarded_end(&memory, capacity), capacity, &found),
                            LMC_ERR_DST_SMALL);
            CU_ASSERT_EQUAL(found, 0);
        }
        free(stored.bytes);
        guarded_close(&memory);
    }
}

/* HDF5 would refuse the stored chunk: every chunk of a dataset has one size, edges padded. */
LMC_TEST(test_chunks_of_another_size)
{
    const size_t nbytes = 4000;
    unsigned values[8];
    uint8_t dst[32768];
    for (size_t c = 0; c < H5_CASE_COUNT; c++) {
        h5_case_fill(&h5_cases[c], chunk, nbytes + 1);
        h5_case_values(&h5_cases[c], no_user_values, nbytes, values);
        const int has_size = (values[5] & LMC_H5_TYPE_RESIZED) == 0;
        const size_t others[] = {0, 1, nbytes / 2, nbytes - 1, nbytes + 1};
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
            size_t found = 7;
            CU_ASSERT_EQUAL(lmc_h5_encode_chunk(ctx, values, 8, chunk, others[i], dst, sizeof dst, &found),
                            has_size ? LMC_ERR_ARG : LMC_OK);
            CU_ASSERT(!has_size || (found == 0 && strstr(lmc_h5_last_error(), "say 4000") != NULL));
        }
    }
}

/* Values of a file that the filter never sets, and of users who err. */
LMC_TEST(test_wrong_values)
{
    static const unsigned wrong[][8] = {
        {3, 0, 0, LMC_H5_MAGIC, 4, 0, 0, 0},
        {0, 0, 0, 0, 4, 0, 0, 0},
        {0, 0, 0, LMC_H5_MAGIC, 3, 0, 0, 0},
        {0, 0, 0, LMC_H5_MAGIC, 4, LMC_H5_TYPE_SHUFFLED, 0, 0},
        {0, 0, 0, LMC_H5_MAGIC, 1, LMC_H5_TYPE_BIG_ENDIAN, 0, 0},
        {0, 0, 0, LMC_H5_MAGIC, 12, LMC_H5_TYPE_COLUMNS | LMC_H5_TYPE_BIG_ENDIAN, 0, 0},
        {0, 0, 0, LMC_H5_MAGIC, 8, LMC_H5_TYPE_SHUFFLED | 255u << 24, 0, 0},
        {0, 0, 0, LMC_H5_MAGIC, 257, LMC_H5_TYPE_COLUMNS, 0, 0},
    };
    uint8_t dst[8192];
    memset(chunk, 1, 1000);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        size_t found = 7;
        CU_ASSERT_EQUAL(lmc_h5_encode_chunk(ctx, wrong[i], 8, chunk, 1000, dst, sizeof dst, &found),
                        LMC_ERR_ARG);
        CU_ASSERT(found == 0 && strstr(lmc_h5_last_error(), "value") != NULL);
    }
    for (size_t i = 0; i < 200000; i += LMC_TEST_STEP) {
        const unsigned any[8] = {0,
                                 0,
                                 0,
                                 LMC_H5_MAGIC,
                                 (unsigned)(i % 2 ? random_below(260) : UINT64_C(1) << random_below(4)),
                                 (unsigned)(random_u64() & random_u64()),
                                 0,
                                 0};
        size_t found, back_nbytes;
        uint8_t back[1000];
        const lmc_status status = lmc_h5_encode_chunk(ctx, any, 8, chunk, 1000, dst, sizeof dst, &found);
        CU_ASSERT_FATAL(status == LMC_OK || status == LMC_ERR_ARG);
        if (status == LMC_OK) {
            CU_ASSERT_EQUAL_FATAL(lmc_h5_decode_chunk(ctx, dst, found, back, sizeof back, &back_nbytes),
                                  LMC_OK);
            CU_ASSERT(back_nbytes == 1000 && memcmp(back, chunk, 1000) == 0);
        }
    }
}

LMC_TEST(test_bounds)
{
    size_t before = 0;
    for (unsigned shift = 0; shift < 48; shift++) {
        size_t bound;
        CU_ASSERT_EQUAL_FATAL(lmc_h5_encode_bound((size_t)1 << shift, &bound), LMC_OK);
        CU_ASSERT(bound > (size_t)1 << shift && bound > before);
        before = bound;
    }
    for (size_t less = 0; less < 2000; less++) {
        size_t bound = 7;
        const lmc_status status = lmc_h5_encode_bound(SIZE_MAX - less, &bound);
        CU_ASSERT(bound == 0 && (status == LMC_ERR_LIMIT || status == LMC_ERR_ARG));
        size_t found = 7;
        uint8_t byte = 0;
        CU_ASSERT_EQUAL(lmc_h5_encode_chunk(ctx, NULL, 0, &byte, SIZE_MAX - less, &byte, SIZE_MAX, &found),
                        status);
        CU_ASSERT_EQUAL(found, 0);
    }
}

/* ---- the latest error ---- */

/* Returns what stands in this thread before and after a failure, or NULL if that is wrong. */
static void *fail_in_a_thread(void *unused)
{
    size_t nbytes;
    (void)unused;
    if (strcmp(lmc_h5_last_error(), "") != 0 ||
        lmc_h5_chunk_nbytes("garbage that is no chunk", 24, &nbytes) != LMC_ERR_CORRUPT)
        return NULL;
    return strdup(lmc_h5_last_error());
}

LMC_TEST(test_last_error_is_of_the_thread)
{
    const unsigned values[1] = {1234567};
    size_t nbytes;
    uint8_t dst[8192];
    pthread_t thread;
    void *text;
    CU_ASSERT_EQUAL(lmc_h5_encode_chunk(ctx, values, 1, chunk, 10, dst, sizeof dst, &nbytes), LMC_ERR_ARG);
    CU_ASSERT_FATAL(pthread_create(&thread, NULL, fail_in_a_thread, NULL) == 0);
    CU_ASSERT_FATAL(pthread_join(thread, &text) == 0);
    CU_ASSERT_FATAL(text != NULL);
    CU_ASSERT(strstr(text, "lmc") != NULL && strcmp(text, lmc_h5_last_error()) != 0);
    CU_ASSERT(strstr(lmc_h5_last_error(), "1234567") != NULL);
    free(text);
}

/* Returns NULL if each chunk came back. */
static void *code_in_a_thread(void *user)
{
    const h5_case *const c = &h5_cases[*(const size_t *)user];
    uint8_t bytes[6000], back[6000], stored[16384];
    unsigned values[8];
    lmc_h5_params params;
    size_t stored_nbytes, nbytes;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * c->type.nbytes % 251 % (i % 4 + 2));
    for (size_t i = 0; i < 20; i++) {
        if (lmc_h5_params_read_user(NULL, 0, &params) != LMC_OK)
            return user;
        lmc_h5_params_complete(&params, &c->type, &c->pipeline, sizeof bytes - i);
        lmc_h5_params_write(&params, values);
        if (lmc_h5_encode_chunk(NULL, values, 8, bytes, sizeof bytes - i, stored, sizeof stored,
                                &stored_nbytes) != LMC_OK ||
            lmc_h5_decode_chunk(NULL, stored, stored_nbytes, back, sizeof back, &nbytes) != LMC_OK ||
            nbytes != sizeof bytes - i || memcmp(back, bytes, nbytes) != 0)
            return user;
    }
    return NULL;
}

LMC_TEST(test_many_threads)
{
    pthread_t threads[H5_CASE_COUNT];
    size_t numbers[H5_CASE_COUNT];
    void *failed;
    for (size_t i = 0; i < H5_CASE_COUNT; i++) {
        numbers[i] = i;
        CU_ASSERT_FATAL(pthread_create(&threads[i], NULL, code_in_a_thread, &numbers[i]) == 0);
    }
    for (size_t i = 0; i < H5_CASE_COUNT; i++) {
        CU_ASSERT_FATAL(pthread_join(threads[i], &failed) == 0);
        CU_ASSERT(failed == NULL);
    }
}

LMC_TEST_MAIN_WITH("h5_chunk", (chunk = must_malloc(CHUNK_MAX), ctx = must_create_ctx()),
                   (lmc_ctx_free(ctx), free(chunk)))
