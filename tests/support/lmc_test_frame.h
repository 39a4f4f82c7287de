/*
 * lmc_test_frame.h - whole frames for tests: encoded into exactly the room that is asked for, decoded from and
 * into memory that ends at a guard page. After lmc_test_data.h and lmc_test.h.
 */
#ifndef LMC_TEST_FRAME_H
#define LMC_TEST_FRAME_H

#include "lmc_test_data.h"

#include "codec/delta/rounding.h"
#include "lmc_test.h"

typedef struct test_frame {
    uint8_t *bytes;
    size_t nbytes;
} test_frame;

static MAYBE_UNUSED lmc_params frame_params(lmc_dtype dtype, lmc_level level, unsigned block_log2)
{
    lmc_params params;
    lmc_params_init(&params);
    params.dtype = dtype;
    params.level = level;
    params.block_log2 = block_log2;
    return params;
}

/* Fills content with a matrix of floats whose rows and columns have scales of their own. Returns params that say so. */
static MAYBE_UNUSED lmc_params frame_matrix(lmc_dtype dtype, unsigned block_log2, size_t column_count,
                                            uint8_t *content, size_t nbytes)
{
    lmc_params params = frame_params(dtype, LMC_LEVEL_DEFAULT, block_log2);
    params.row_nbytes = (uint32_t)(column_count * data_element_nbytes(dtype));
    data_fill(content, nbytes, dtype, DATA_WEIGHTS);
    data_scale_matrix(content, nbytes, dtype, column_count);
    return params;
}

/* Has the frame row and column offsets? */
static MAYBE_UNUSED int frame_has_offsets(const test_frame *frame)
{
    return frame->nbytes > LMC_FMT_HEAD_NBYTES && frame->bytes[6] == LMC_FRAME_CODED &&
           (frame->bytes[8] & LMC_FMT_FEATURE_OFFSETS) != 0;
}

/* Has it narrow elements or a rANS code, which no kernel for a GPU decodes? */
static MAYBE_UNUSED int frame_is_for_host(const test_frame *frame)
{
    return frame->bytes[6] == LMC_FRAME_CODED &&
           (frame->bytes[8] & (LMC_FMT_FEATURE_NARROW | LMC_FMT_FEATURE_RANS)) != 0;
}

static MAYBE_UNUSED void frame_free(test_frame *frame)
{
    free(frame->bytes);
    frame->bytes = NULL;
}

/* Encodes into exactly lmc_encode_bound() bytes before a guard page. base: may be NULL. The bytes are the caller's
 * to free. */
static MAYBE_UNUSED test_frame frame_encode_against(lmc_ctx *ctx, const lmc_params *params,
                                                    const uint8_t *content, size_t nbytes,
                                                    const uint8_t *base)
{
    const size_t base_nbytes = lmc_base_scale(params->base_form) * nbytes;
    test_frame frame = {NULL, 0};
    size_t bound = 0;
    CU_ASSERT_EQUAL_FATAL(lmc_encode_bound(params, nbytes, &bound), LMC_OK);
    guarded memory = guarded_open(bound);
    uint8_t *const dst = guarded_end(&memory, bound);
    const lmc_status status =
        lmc_encode_delta(ctx, params, content, nbytes, base, base_nbytes, dst, bound, &frame.nbytes);
    CU_ASSERT_EQUAL_FATAL(status, LMC_OK);
    CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, LMC_OK);
    CU_ASSERT_FATAL(frame.nbytes > 0 && frame.nbytes <= nbytes + LMC_FRAME_OVERHEAD_MAX);
    frame.bytes = must_malloc(frame.nbytes);
    memcpy(frame.bytes, dst, frame.nbytes);
    guarded_close(&memory);
    return frame;
}

static MAYBE_UNUSED test_frame frame_encode(lmc_ctx *ctx, const lmc_params *params, const uint8_t *content,
                                            size_t nbytes)
{
    return frame_encode_against(ctx, params, content, nbytes, NULL);
}

/* Decodes between guard pages into exactly nbytes, and compares. */
static MAYBE_UNUSED void frame_check(lmc_ctx *ctx, const test_frame *frame, const uint8_t *content,
                                     size_t nbytes)
{
    guarded source = guarded_open(frame->nbytes), target = guarded_open(nbytes + 1);
    const uint8_t *const src = guarded_copy(&source, frame->bytes, frame->nbytes);
    uint8_t *const dst = guarded_end(&target, nbytes);
    size_t found_nbytes = SIZE_MAX;
    memset(dst, 0x99, nbytes);
    CU_ASSERT_EQUAL_FATAL(lmc_decode(ctx, src, frame->nbytes, dst, nbytes, &found_nbytes), LMC_OK);
    CU_ASSERT_EQUAL(found_nbytes, nbytes);
    CU_ASSERT(nbytes == 0 || memcmp(dst, content, nbytes) == 0);
    guarded_close(&source);
    guarded_close(&target);
}

static MAYBE_UNUSED int frames_are_equal(const test_frame *a, const test_frame *b)
{
    return a->nbytes == b->nbytes && memcmp(a->bytes, b->bytes, a->nbytes) == 0;
}

/* Encodes, decodes, compares. Returns the frame's bytes. */
static MAYBE_UNUSED size_t frame_round_trip(lmc_ctx *ctx, const lmc_params *params, const uint8_t *content,
                                            size_t nbytes)
{
    test_frame frame = frame_encode(ctx, params, content, nbytes);
    frame_check(ctx, &frame, content, nbytes);
    frame_free(&frame);
    return frame.nbytes;
}

#endif
