/* test_base_nbytes.c - a base comes with its length: one of another length than is needed is refused by every call that
 * takes one, and not a byte behind its end is read. Bases end at a page that may not be touched. */
#include "lmc_test_frame.h"

#include <lmc_experimental.h>

#define CONTENT_NBYTES 7001 /* BF16: three blocks of 2 KiB and a part of one */
#define BLOCK_NBYTES 2048
#define ROOM_NBYTES 20000

static lmc_ctx *ctx;
static uint8_t content[CONTENT_NBYTES + 1], whole_base[2 * sizeof content], found[sizeof content];
static uint8_t room[ROOM_NBYTES];
static guarded memory; /* of the base that a call is given */

/* What a base of some form is for. */
typedef struct sample {
    lmc_params params;
    size_t nbytes, base_nbytes;
    size_t scale; /* bytes of the base for each of the content */
    test_frame frame;
    lmc_info info;
} sample;

static sample open_sample(lmc_base_form form)
{
    const lmc_rounding *const rounding = lmc_base_rounding(form);
    sample s = {.params = frame_params(rounding ? rounding->dtype : LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10)};
    s.params.base_form = form;
    s.scale = rounding ? rounding->scale : 1;
    s.nbytes = form == LMC_BASE_PLAIN ? CONTENT_NBYTES : CONTENT_NBYTES + 1;
    s.base_nbytes = s.scale * s.nbytes;
    data_fill(whole_base, s.base_nbytes, rounding ? rounding->base_dtype : LMC_DTYPE_BF16, DATA_WEIGHTS);
    if (form == LMC_BASE_PLAIN)
        memcpy(content, whole_base, s.nbytes);
    else
        lmc_base_round(form, whole_base, s.nbytes / 2, content);
    for (size_t i = 0; i < s.nbytes; i += 20)
        content[i] ^= 1;
    s.frame = frame_encode_against(ctx, &s.params, content, s.nbytes, whole_base);
    s.info = (lmc_info)LMC_INIT(lmc_info);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(s.frame.bytes, s.frame.nbytes, &s.info, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(s.info.mode, LMC_FRAME_DELTA);
    CU_ASSERT_EQUAL_FATAL(s.info.base_nbytes, s.base_nbytes);
    return s;
}

/* Calls what is tested with the first base_nbytes bytes of the base, from `first` on, and no more. */
typedef lmc_status (*call)(const sample *s, const uint8_t *base, size_t base_nbytes);

static lmc_status call_with(call function, const sample *s, size_t first, size_t base_nbytes)
{
    const size_t there = base_nbytes < sizeof whole_base - first ? base_nbytes : sizeof whole_base - first;
    return function(s, guarded_copy(&memory, whole_base + first, there), base_nbytes);
}

/* Every length but `right` is refused, in words that have both numbers. */
static void check_lengths(call function, const sample *s, size_t first, size_t right)
{
    const size_t wrong[] = {0, 1, right / 2, right - 1, right + 1, right + BLOCK_NBYTES, SIZE_MAX};
    char wanted[32], given[32];
    snprintf(wanted, sizeof wanted, "%zu", right);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(given, sizeof given, "%zu", wrong[i]);
        CU_ASSERT_EQUAL(call_with(function, s, first, wrong[i]), LMC_ERR_BASE);
        CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, LMC_ERR_BASE);
        CU_ASSERT_PTR_NOT_NULL(strstr(lmc_ctx_diag(ctx)->text, wanted));
        CU_ASSERT_PTR_NOT_NULL(strstr(lmc_ctx_diag(ctx)->text, given));
    }
    CU_ASSERT_EQUAL(call_with(function, s, first, right), LMC_OK);
    CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, LMC_OK);
}

/* ---- whole frames ---- */

static lmc_status call_encode(const sample *s, const uint8_t *base, size_t base_nbytes)
{
    size_t n = 9;
    const lmc_status status =
        lmc_encode_delta(ctx, &s->params, content, s->nbytes, base, base_nbytes, room, ROOM_NBYTES, &n);
    CU_ASSERT_EQUAL(n, status == LMC_OK ? s->frame.nbytes : 0);
    return status;
}

static lmc_status call_decode(const sample *s, const uint8_t *base, size_t base_nbytes)
{
    size_t n = 9;
    const lmc_status status =
        lmc_decode_delta(ctx, s->frame.bytes, s->frame.nbytes, base, base_nbytes, found, sizeof found, &n);
    CU_ASSERT_EQUAL(n, status == LMC_OK ? s->nbytes : 0);
    CU_ASSERT(status != LMC_OK || memcmp(found, content, n) == 0);
    return status;
}

/* A range of the last block, for which the beginning of a base too short is not enough. */
static lmc_status call_range(const sample *s, const uint8_t *base, size_t base_nbytes)
{
    const lmc_status status = lmc_decode_delta_range(ctx, s->frame.bytes, s->frame.nbytes, base, base_nbytes,
                                                     s->nbytes - 100, 100, found);
    CU_ASSERT(status != LMC_OK || memcmp(found, content + s->nbytes - 100, 100) == 0);
    return status;
}

/* ---- blocks ---- */

static lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)user;
    memcpy(dst, content + offset, nbytes);
    return LMC_OK;
}

static lmc_status read_base(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)user;
    memcpy(dst, whole_base + offset, nbytes);
    return LMC_OK;
}

static uint64_t block; /* the one that is coded */

static lmc_status call_encode_block(const sample *s, const uint8_t *base, size_t base_nbytes)
{
    lmc_plan *plan = NULL;
    lmc_block_entry entry;
    const size_t first = (size_t)block * BLOCK_NBYTES;
    const size_t left = s->nbytes - first;
    CU_ASSERT_EQUAL_FATAL(
        lmc_plan_create_delta(ctx, &s->params, s->nbytes, read_content, read_base, NULL, &plan), LMC_OK);
    const lmc_status status =
        lmc_encode_delta_block(ctx, plan, block, content + first, left < BLOCK_NBYTES ? left : BLOCK_NBYTES,
                               base, base_nbytes, room, ROOM_NBYTES, &entry);
    CU_ASSERT_EQUAL(status == LMC_OK, entry.stored_nbytes != 0);
    lmc_plan_free(plan);
    return status;
}

static lmc_status call_decode_block(const sample *s, const uint8_t *base, size_t base_nbytes)
{
    lmc_frame *frame = NULL;
    uint64_t offset;
    size_t stored_nbytes, n;
    const size_t tail_nbytes = (size_t)s->info.tail_nbytes;
    CU_ASSERT_EQUAL_FATAL(lmc_frame_create(ctx, s->frame.bytes, s->info.head_nbytes,
                                           s->frame.bytes + s->frame.nbytes - tail_nbytes, tail_nbytes,
                                           s->frame.nbytes, &frame),
                          LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_block(frame, block, &offset, &stored_nbytes, &n), LMC_OK);
    const lmc_status status =
        lmc_decode_delta_block(ctx, frame, block, s->frame.bytes + offset, stored_nbytes, base, base_nbytes,
                               found, sizeof found, NULL);
    CU_ASSERT(status != LMC_OK || memcmp(found, content + block * BLOCK_NBYTES, n) == 0);
    lmc_frame_free(frame);
    return status;
}

/* ---- */

static void check_form(lmc_base_form form)
{
    sample s = open_sample(form);
    const size_t last_nbytes = s.nbytes % BLOCK_NBYTES;
    check_lengths(call_encode, &s, 0, s.base_nbytes);
    check_lengths(call_decode, &s, 0, s.base_nbytes);
    check_lengths(call_range, &s, 0, s.base_nbytes);
    block = 1;
    check_lengths(call_encode_block, &s, s.scale * BLOCK_NBYTES, s.scale * BLOCK_NBYTES);
    check_lengths(call_decode_block, &s, s.scale * BLOCK_NBYTES, s.scale * BLOCK_NBYTES);
    block = 3;
    check_lengths(call_encode_block, &s, s.scale * 3 * BLOCK_NBYTES, s.scale * last_nbytes);
    check_lengths(call_decode_block, &s, s.scale * 3 * BLOCK_NBYTES, s.scale * last_nbytes);
    frame_free(&s.frame);
}

LMC_TEST(test_plain_base)
{
    check_form(LMC_BASE_PLAIN);
}

LMC_TEST(test_rounded_base)
{
    check_form(LMC_BASE_BF16_OF_F32);
    check_form(LMC_BASE_F16_OF_F32);
    check_form(LMC_BASE_F16_OF_BF16);
}

/* The frame decides how much of a base is read: one that says of its content that it is BF16 of an F32 must not make
 * the reader go through twice what the caller has. */
LMC_TEST(test_form_of_the_frame)
{
    sample s = open_sample(LMC_BASE_BF16_OF_F32);
    CU_ASSERT_EQUAL(call_with(call_decode, &s, 0, s.nbytes), LMC_ERR_BASE);
    frame_free(&s.frame);
}

/* Without a base its length says nothing, and a frame that has none looks at neither. */
LMC_TEST(test_length_without_base)
{
    sample s = open_sample(LMC_BASE_PLAIN);
    size_t n;
    CU_ASSERT_EQUAL(call_decode(&s, NULL, s.base_nbytes), LMC_ERR_BASE);
    CU_ASSERT_EQUAL(call_range(&s, NULL, s.base_nbytes), LMC_ERR_BASE);
    s.params.base_form = LMC_BASE_PLAIN;
    CU_ASSERT_EQUAL(lmc_encode_delta(ctx, &s.params, content, s.nbytes, NULL, 77, room, ROOM_NBYTES, &n),
                    LMC_OK);
    for (size_t base_nbytes = 0; base_nbytes < 3; base_nbytes++)
        CU_ASSERT_EQUAL(lmc_decode_delta(ctx, room, n, guarded_end(&memory, 0), base_nbytes, found,
                                         sizeof found, &(size_t){0}),
                        LMC_OK);
    frame_free(&s.frame);
}

LMC_TEST_MAIN_WITH("base_nbytes", (ctx = must_create_ctx(), memory = guarded_open(sizeof whole_base)),
                   (guarded_close(&memory), lmc_ctx_free(ctx)))
