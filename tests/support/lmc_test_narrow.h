/*
 * lmc_test_narrow.h - contents that tools make of integers and short floats with a scale for each group, what a plan
 * finds in them, and their blocks by all kernel sets. Before any other header.
 */
#ifndef LMC_TEST_NARROW_H
#define LMC_TEST_NARROW_H

#include "lmc_test_frame.h"

#include <lmc_experimental.h>

#include "codec/frame/encode.h"
#include "codec/narrow/narrow_block.h"

#define CONTENT_MAX (1 << 21)

static const lmc_kernels *sets[KERNEL_SETS_MAX];
static size_t set_count;
static lmc_ctx *ctx;
static uint8_t *content;

static MAYBE_UNUSED void open_memory(void)
{
    set_count = kernel_sets(sets);
    ctx = must_create_ctx();
    content = must_malloc(CONTENT_MAX);
}

static MAYBE_UNUSED void close_memory(void)
{
    lmc_ctx_free(ctx);
    free(content);
}

/* ---- contents ---- */

typedef enum factor_kind { INT8, INT4, E4M3, E5M2, NF4 } factor_kind;

#define PER_ROW 0
#define PER_BLOCK UINT32_MAX         /* of 128 rows and columns */
#define PER_TENSOR (UINT32_MAX - 1u) /* one scale */

typedef struct recipe {
    lmc_dtype dtype;
    factor_kind factors;
    size_t row_count, column_count;
    uint32_t group;
    int has_signed_zeros;
    int scale_log2; /* about */
    double share;   /* of the content, at most */
} recipe;

/* Nearly normally distributed, with a standard deviation of 1. */
static MAYBE_UNUSED double normal(void)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (double)(random_u64() >> 11) * 0x1p-53;
    return sum;
}

static MAYBE_UNUSED float integer_factor(int most)
{
    const double x = normal() * most / 3.5;
    const int q = (int)(x < 0 ? x - 0.5 : x + 0.5);
    return (float)(q > most ? most : q < -most ? -most : q);
}

/* A float of one byte, from its fields. */
static MAYBE_UNUSED float byte_factor(unsigned mantissa_nbits, unsigned code)
{
    const int bias = mantissa_nbits == 3 ? 7 : 15;
    const int field = (int)((code & 0x7f) >> mantissa_nbits);
    const double mantissa = (double)(code & ((1u << mantissa_nbits) - 1));
    const double unit = data_power_of_2((field > 0 ? field : 1) - bias - (int)mantissa_nbits);
    const double size = (mantissa + (field > 0 ? (double)(1u << mantissa_nbits) : 0)) * unit;
    return (float)(code & 0x80 ? -size : size);
}

/* Of a weight with a standard deviation of 2^-3 times the largest number. */
static MAYBE_UNUSED float random_byte_factor(unsigned mantissa_nbits)
{
    const unsigned top = mantissa_nbits == 3 ? 0x7e : 0x7b;
    const unsigned less = (3u << mantissa_nbits) + (random_geometric() << mantissa_nbits) +
                          (unsigned)random_below(1u << mantissa_nbits);
    return byte_factor(mantissa_nbits, (random_u64() & 1 ? 0x80u : 0u) | (less > top ? 0 : top - less));
}

/* of the paper on QLoRA */
static MAYBE_UNUSED const float nf4[16] = {-1.0f,
                                           -0.6961928009986877f,
                                           -0.5250730514526367f,
                                           -0.39491748809814453f,
                                           -0.28444138169288635f,
                                           -0.18477343022823334f,
                                           -0.09105003625154495f,
                                           0.0f,
                                           0.07958029955625534f,
                                           0.16093020141124725f,
                                           0.24611230194568634f,
                                           0.33791524171829224f,
                                           0.44070982933044434f,
                                           0.5626170039176941f,
                                           0.7229568362236023f,
                                           1.0f};

static MAYBE_UNUSED float random_factor(factor_kind kind)
{
    switch (kind) {
    case INT8: return integer_factor(127);
    case INT4: return integer_factor(7);
    case E4M3: return random_byte_factor(3);
    case E5M2: return random_byte_factor(2);
    default: return nf4[random_below(16)];
    }
}

static MAYBE_UNUSED float largest_factor(factor_kind kind)
{
    static const float largest[] = {127, 7, 448, 57344, 1};
    return largest[kind];
}

static MAYBE_UNUSED size_t group_of(const recipe *r, size_t row, size_t column)
{
    switch (r->group) {
    case PER_ROW: return row;
    case PER_TENSOR: return 0;
    case PER_BLOCK: return row / 128 * ((r->column_count + 127) / 128) + column / 128;
    default: return row * ((r->column_count + r->group - 1) / r->group) + column / r->group;
    }
}

/* Every group has its largest factor at a place of its own. Returns bytes. */
static MAYBE_UNUSED size_t fill_products(const recipe *r)
{
    const unsigned nbytes = data_element_nbytes(r->dtype);
    const size_t n = r->row_count * r->column_count;
    const uint64_t seed = random_u64();
    for (size_t i = 0; i < n; i++) {
        const size_t row = i / r->column_count, column = i % r->column_count;
        const size_t group = group_of(r, row, column);
        const uint64_t hash = data_hash(group ^ seed);
        const float scale =
            (float)((1 + (double)(hash >> 41) * 0x1p-23) * data_power_of_2(r->scale_log2 + (int)(hash & 1)));
        const size_t length = r->group == PER_ROW || r->group >= PER_TENSOR ? r->column_count : r->group;
        float factor = random_factor(r->factors);
        if (column % length == hash % 16)
            factor = largest_factor(r->factors);
        if (factor == 0 && r->has_signed_zeros && random_below(2))
            factor = -0.0f;
        const uint64_t value = data_product(r->dtype, scale, factor);
        memcpy(content + i * nbytes, &value, nbytes);
    }
    CU_ASSERT_FATAL(n * nbytes <= CONTENT_MAX);
    return n * nbytes;
}

static MAYBE_UNUSED lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    memcpy(dst, (const uint8_t *)user + offset, nbytes);
    return LMC_OK;
}

static MAYBE_UNUSED lmc_params params_of(const recipe *r, unsigned block_log2)
{
    lmc_params params = frame_params(r->dtype, LMC_LEVEL_DEFAULT, block_log2);
    params.row_nbytes = (uint32_t)(r->column_count * data_element_nbytes(r->dtype));
    return params;
}

/* What a plan finds. */
static MAYBE_UNUSED lmc_form_info form_of(const lmc_params *params, size_t nbytes)
{
    lmc_plan *plan = NULL;
    lmc_form_info form = LMC_INIT(lmc_form_info);
    CU_ASSERT_EQUAL_FATAL(lmc_plan_create(ctx, params, nbytes, read_content, content, &plan), LMC_OK);
    CU_ASSERT_EQUAL(lmc_plan_form(plan, &form), LMC_OK);
    lmc_plan_free(plan);
    return form;
}

/* Encodes with several numbers of threads, and decodes. Returns the frame's bytes. */
static MAYBE_UNUSED size_t round_trip(const lmc_params *params, size_t nbytes)
{
    test_frame frame = frame_encode(ctx, params, content, nbytes);
    frame_check(ctx, &frame, content, nbytes);
    CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, 3), LMC_OK);
    test_frame again = frame_encode(ctx, params, content, nbytes);
    CU_ASSERT(frames_are_equal(&frame, &again));
    frame_check(ctx, &again, content, nbytes);
    CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, 1), LMC_OK);
    frame_free(&again);
    frame_free(&frame);
    return frame.nbytes;
}

/* ---- all kernel sets ---- */

/* Each block by all sets, in a scratch for just its size: the same bytes. */
static MAYBE_UNUSED void check_blocks_of_all_sets(const lmc_params *params, size_t nbytes)
{
    lmc_plan *plan = NULL;
    lmc_scratch scratch;
    CU_ASSERT_EQUAL_FATAL(lmc_plan_create(ctx, params, nbytes, read_content, content, &plan), LMC_OK);
    const lmc_narrow *const narrow = &plan->choice.narrow;
    const lmc_info *const info = &plan->info;
    const size_t bound = lmc_plan_block_bound(plan);
    uint8_t *const first = must_malloc(bound), *const stored = must_malloc(bound);
    uint8_t *const found = must_malloc(info->block_nbytes);
    for (uint64_t i = 0; i < info->block_count && narrow->is_used; i += 1 + info->block_count / 8) {
        const size_t block_nbytes = (size_t)lmc_min_u64(info->block_nbytes, nbytes - i * info->block_nbytes);
        const lmc_content_block block = {
            .first = i << info->block_log2, .src = content + i * info->block_nbytes, .nbytes = block_nbytes};
        const size_t n = (block_nbytes + narrow->wide_nbytes - 1) / narrow->wide_nbytes;
        const lmc_scratch_size size = {n, narrow->wide_nbytes, 0, 1};
        guarded memory = guarded_open(lmc_scratch_nbytes(&size));
        lmc_scratch_place(&scratch, &size, guarded_end(&memory, lmc_scratch_nbytes(&size)));
        size_t first_nbytes = 0;
        for (size_t k = 0; k < set_count; k++) {
            uint64_t hash, found_hash;
            lmc_diag diag;
            const lmc_narrow_coder coder = {
                {sets[k], &plan->decision.coding, &scratch}, narrow, &plan->choice};
            const size_t stored_nbytes = lmc_narrow_block_encode(&coder, &block, stored, &hash);
            if (k == 0)
                memcpy(first, stored, first_nbytes = stored_nbytes);
            CU_ASSERT(stored_nbytes == first_nbytes && memcmp(first, stored, stored_nbytes) == 0);
            const lmc_stored source = {.bytes = stored, .nbytes = stored_nbytes, .first = block.first};
            CU_ASSERT_EQUAL(lmc_narrow_block_decode(&coder, &source, found, block_nbytes, &found_hash, &diag),
                            LMC_OK);
            CU_ASSERT(hash == found_hash && memcmp(found, block.src, block_nbytes) == 0);
        }
        guarded_close(&memory);
    }
    free(first);
    free(stored);
    free(found);
    lmc_plan_free(plan);
}

#endif
