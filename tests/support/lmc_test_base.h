/*
 * lmc_test_base.h - contents with a base: made, encoded, and decoded in every way that must agree.
 * After lmc_test_data.h and lmc_test.h.
 */
#ifndef LMC_TEST_BASE_H
#define LMC_TEST_BASE_H

#include "lmc_test_frame.h"

#include "lmc_test_deep.h"

/* What a test program works with. */
typedef struct base_bed {
    lmc_ctx *ctx;
    deep *deep;
    const lmc_kernels *sets[KERNEL_SETS_MAX];
    size_t set_count;
    size_t content_max;
    uint8_t *content, *base; /* content_max and twice as many bytes */
} base_bed;

static MAYBE_UNUSED base_bed base_bed_open(size_t content_max)
{
    base_bed bed = {.ctx = must_create_ctx(), .content_max = content_max};
    bed.deep = deep_open(content_max, 2 * content_max + 4096);
    bed.set_count = kernel_sets(bed.sets);
    bed.content = must_malloc(content_max);
    bed.base = must_malloc(2 * content_max);
    return bed;
}

static MAYBE_UNUSED void base_bed_close(base_bed *bed)
{
    deep_close(bed->deep);
    lmc_ctx_free(bed->ctx);
    free(bed->content);
    free(bed->base);
}

/* ---- contents ---- */

/* About normally distributed, of variance 1. */
static MAYBE_UNUSED double random_normal(void)
{
    double sum = -6;
    for (unsigned i = 0; i < 12; i++)
        sum += (double)(random_u64() >> 11) / 9007199254740992.0;
    return sum;
}

/* An element some ulps away: its place within the ulp is anywhere, so that 0.01 ulps change one in a hundred. */
static MAYBE_UNUSED uint64_t base_step(uint64_t value, double ulps)
{
    const double moved = (double)(random_u64() >> 11) / 9007199254740992.0 + ulps * random_normal();
    const double whole = moved < 0 ? -1 - (double)(uint64_t)-moved : (double)(uint64_t)moved;
    return value + (uint64_t)(int64_t)whole;
}

/* Content from the base: elements are touched with probability `share` and moved by about so many ulps; ulps < 0:
 * replaced by weights. Bytes behind the last element change with it. */
static MAYBE_UNUSED void base_change(uint8_t *content, const uint8_t *base, size_t nbytes, lmc_dtype dtype,
                                     double share, double ulps)
{
    const unsigned element_nbytes = data_element_nbytes(dtype);
    const uint64_t bound = (uint64_t)(share * 4294967296.0);
    for (size_t i = 0; i < nbytes; i += element_nbytes) {
        const size_t m = nbytes - i < element_nbytes ? nbytes - i : element_nbytes;
        uint64_t value = 0;
        memcpy(&value, base + i, m);
        if (random_u64() >> 32 < bound)
            value = ulps < 0 ? data_weight(dtype) : base_step(value, ulps);
        memcpy(content + i, &value, m);
    }
}

/* ---- frames ---- */

/* As frame_encode(), with a base of which no byte behind its end may be read. */
static MAYBE_UNUSED test_frame base_encode(base_bed *bed, const lmc_params *params, const uint8_t *content,
                                           size_t nbytes, const uint8_t *base)
{
    const size_t base_nbytes = lmc_base_scale(params->base_form) * nbytes;
    const uint8_t *const copy = guarded_copy(&bed->deep->base, base, base_nbytes);
    const test_frame frame = frame_encode_against(bed->ctx, params, content, nbytes, copy);
    CU_ASSERT(memcmp(copy, base, base_nbytes) == 0);
    return frame;
}

/* By the public call, between guard pages and with a base that ends at one. OK comes with all sizes right and
 * `content`, another status with size 0 and a diagnostic. */
static MAYBE_UNUSED lmc_status base_decode(base_bed *bed, const uint8_t *bytes, size_t nbytes,
                                           const deep_base *base, const uint8_t *content,
                                           size_t content_nbytes)
{
    deep *const d = bed->deep;
    const uint8_t *base_bytes = deep_base_for(base, bytes, nbytes);
    const size_t base_nbytes = deep_base_nbytes_for(base, bytes, nbytes);
    size_t found_nbytes = SIZE_MAX;
    if (base_bytes)
        base_bytes = guarded_copy(&d->base, base_bytes, base_nbytes);
    uint8_t *const dst = guarded_end(&d->target, content_nbytes);
    const lmc_status status = lmc_decode_delta(bed->ctx, guarded_copy(&d->source, bytes, nbytes), nbytes,
                                               base_bytes, base_nbytes, dst, content_nbytes, &found_nbytes);
    CU_ASSERT_EQUAL(lmc_ctx_diag(bed->ctx)->status, status);
    if (status == LMC_OK) {
        CU_ASSERT_EQUAL(found_nbytes, content_nbytes);
        CU_ASSERT(content_nbytes == 0 || memcmp(dst, content, content_nbytes) == 0);
    } else {
        CU_ASSERT_EQUAL(found_nbytes, 0);
        CU_ASSERT(lmc_ctx_diag(bed->ctx)->text[0] != '\0');
    }
    return status;
}

/* The same by all kernel sets from the stages up: one status. */
static MAYBE_UNUSED lmc_status base_decode_all(base_bed *bed, const uint8_t *bytes, size_t nbytes,
                                               const deep_base *base, const uint8_t *content,
                                               size_t content_nbytes)
{
    const lmc_status status = base_decode(bed, bytes, nbytes, base, content, content_nbytes);
    for (size_t k = 0; k < bed->set_count; k++) {
        const uint8_t *found = NULL;
        size_t n = 0;
        const lmc_status deep_status = deep_decode(bed->deep, bed->sets[k], bytes, nbytes, base, &found, &n);
        if (status == LMC_ERR_DST_SMALL) /* is found before the blocks are looked at */
            continue;
        CU_ASSERT_EQUAL(deep_status, status);
        CU_ASSERT(deep_status != LMC_OK ||
                  (n == content_nbytes && (n == 0 || memcmp(found, content, n) == 0)));
    }
    return status;
}

/* Every kernel set writes the blocks of a delta frame as they stand in it. */
static MAYBE_UNUSED void base_check_sets(base_bed *bed, const test_frame *frame, const uint8_t *content,
                                         const uint8_t *base)
{
    lmc_info info = LMC_INIT(lmc_info);
    lmc_delta delta;
    CU_ASSERT_EQUAL_FATAL(lmc_head_read(frame->bytes, frame->nbytes, &info, NULL), LMC_OK);
    if (info.mode != LMC_FRAME_DELTA)
        return;
    CU_ASSERT_EQUAL_FATAL(lmc_delta_read(frame->bytes + LMC_FMT_HEAD_NBYTES, lmc_section_nbytes(&info),
                                         info.element_nbytes, &delta, NULL),
                          LMC_OK);
    const uint8_t *const tail = frame->bytes + frame->nbytes - info.tail_nbytes;
    const uint8_t *block = frame->bytes + info.head_nbytes;
    uint8_t *const values = must_malloc(info.block_nbytes);
    for (uint64_t i = 0; i < info.block_count; i++) {
        const size_t n = lmc_block_content_nbytes(&info, i);
        const size_t stored_nbytes = lmc_load32(tail + i * LMC_FMT_DELTA_INDEX_ENTRY_NBYTES);
        const uint8_t *const block_base =
            lmc_base_values(info.base_form, base + i * info.base_block_nbytes, n, values);
        for (size_t k = 0; k < bed->set_count; k++) {
            const uint8_t *stored;
            const size_t found = deep_delta_encode(bed->deep, bed->sets[k], &delta, info.element_nbytes,
                                                   content + i * info.block_nbytes, block_base, n, &stored);
            CU_ASSERT(found == stored_nbytes && memcmp(stored, block, found) == 0);
        }
        block += stored_nbytes;
    }
    free(values);
}

/* Encodes, decodes by every way, compares. Returns the frame's bytes; *mode: its mode. */
static MAYBE_UNUSED size_t base_round_trip(base_bed *bed, const lmc_params *params, const uint8_t *content,
                                           size_t nbytes, const uint8_t *base, lmc_frame_mode *mode)
{
    lmc_info info = LMC_INIT(lmc_info);
    test_frame frame = base_encode(bed, params, content, nbytes, base);
    const deep_base whole = {base, lmc_base_scale(params->base_form) * nbytes};
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame.bytes, frame.nbytes, &info, NULL), LMC_OK);
    CU_ASSERT_EQUAL(info.base_nbytes, info.mode == LMC_FRAME_DELTA ? whole.nbytes : 0);
    CU_ASSERT_EQUAL(info.content_nbytes, nbytes);
    CU_ASSERT_EQUAL(base_decode_all(bed, frame.bytes, frame.nbytes, &whole, content, nbytes), LMC_OK);
    base_check_sets(bed, &frame, content, base);
    if (mode)
        *mode = info.mode;
    frame_free(&frame);
    return frame.nbytes;
}

#endif
