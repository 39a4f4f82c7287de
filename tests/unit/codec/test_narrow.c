/* test_narrow.c - wide elements with narrow contents: each form is found where tools make it, and nowhere else; the
 * round trip is exact, whatever else stands among the elements; all kernel sets agree with plain arithmetic. */
#include "lmc_test_frame.h"

#include <lmc_experimental.h>

#include "codec/frame/encode.h"
#include "codec/narrow/narrow_block.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#define CONTENT_MAX (1 << 21)

static const lmc_kernels *sets[KERNEL_SETS_MAX];
static size_t set_count;
static lmc_ctx *ctx;
static uint8_t *content;

static void open_memory(void)
{
    set_count = kernel_sets(sets);
    ctx = must_create_ctx();
    content = must_malloc(CONTENT_MAX);
}

static void close_memory(void)
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
static double normal(void)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (double)(random_u64() >> 11) * 0x1p-53;
    return sum;
}

static float integer_factor(int most)
{
    const double x = normal() * most / 3.5;
    const int q = (int)(x < 0 ? x - 0.5 : x + 0.5);
    return (float)(q > most ? most : q < -most ? -most : q);
}

/* A float of one byte, from its fields. */
static float byte_factor(unsigned mantissa_nbits, unsigned code)
{
    const int bias = mantissa_nbits == 3 ? 7 : 15;
    const int field = (int)((code & 0x7f) >> mantissa_nbits);
    const double mantissa = (double)(code & ((1u << mantissa_nbits) - 1));
    const double unit = data_power_of_2((field > 0 ? field : 1) - bias - (int)mantissa_nbits);
    const double size = (mantissa + (field > 0 ? (double)(1u << mantissa_nbits) : 0)) * unit;
    return (float)(code & 0x80 ? -size : size);
}

/* Of a weight with a standard deviation of 2^-3 times the largest number. */
static float random_byte_factor(unsigned mantissa_nbits)
{
    const unsigned top = mantissa_nbits == 3 ? 0x7e : 0x7b;
    const unsigned less = (3u << mantissa_nbits) + (random_geometric() << mantissa_nbits) +
                          (unsigned)random_below(1u << mantissa_nbits);
    return byte_factor(mantissa_nbits, (random_u64() & 1 ? 0x80u : 0u) | (less > top ? 0 : top - less));
}

/* of the paper on QLoRA */
static const float nf4[16] = {-1.0f,
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

static float random_factor(factor_kind kind)
{
    switch (kind) {
    case INT8: return integer_factor(127);
    case INT4: return integer_factor(7);
    case E4M3: return random_byte_factor(3);
    case E5M2: return random_byte_factor(2);
    default: return nf4[random_below(16)];
    }
}

static float largest_factor(factor_kind kind)
{
    static const float largest[] = {127, 7, 448, 57344, 1};
    return largest[kind];
}

static size_t group_of(const recipe *r, size_t row, size_t column)
{
    switch (r->group) {
    case PER_ROW: return row;
    case PER_TENSOR: return 0;
    case PER_BLOCK: return row / 128 * ((r->column_count + 127) / 128) + column / 128;
    default: return row * ((r->column_count + r->group - 1) / r->group) + column / r->group;
    }
}

/* Every group has its largest factor at a place of its own. Returns bytes. */
static size_t fill_products(const recipe *r)
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

static lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    memcpy(dst, (const uint8_t *)user + offset, nbytes);
    return LMC_OK;
}

static lmc_params params_of(const recipe *r, unsigned block_log2)
{
    lmc_params params = frame_params(r->dtype, LMC_LEVEL_DEFAULT, block_log2);
    params.row_nbytes = (uint32_t)(r->column_count * data_element_nbytes(r->dtype));
    return params;
}

/* What a plan finds. */
static lmc_form_info form_of(const lmc_params *params, size_t nbytes)
{
    lmc_plan *plan = NULL;
    lmc_form_info form = LMC_INIT(lmc_form_info);
    CU_ASSERT_EQUAL_FATAL(lmc_plan_create(ctx, params, nbytes, read_content, content, &plan), LMC_OK);
    CU_ASSERT_EQUAL(lmc_plan_form(plan, &form), LMC_OK);
    lmc_plan_free(plan);
    return form;
}

/* Encodes with several numbers of threads, and decodes. Returns the frame's bytes. */
static size_t round_trip(const lmc_params *params, size_t nbytes)
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
static void check_blocks_of_all_sets(const lmc_params *params, size_t nbytes)
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
            const lmc_narrow_coder coder = {{sets[k], &plan->decision.coding, &scratch},
                                            narrow,
                                            &plan->choice.order,
                                            plan->choice.likely};
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

/* ---- products ---- */

static void check_recipe(const recipe *r, size_t number)
{
    const size_t nbytes = fill_products(r);
    const lmc_params params = params_of(r, 0), small_blocks = params_of(r, 10);
    const lmc_form_info form = form_of(&params, nbytes);
    const size_t frame_nbytes = round_trip(&params, nbytes);
    const uint32_t length = r->group == PER_BLOCK                           ? 128
                            : r->group == PER_ROW || r->group == PER_TENSOR ? (uint32_t)r->column_count
                                                                            : r->group;
    const int is_right = form.form == LMC_FORM_PRODUCT && length % form.group_length == 0 &&
                         (r->group == PER_BLOCK || length == form.group_length) &&
                         (double)frame_nbytes <= r->share * (double)nbytes;
    if (!is_right)
        printf("\nrecipe %zu: form %d (%s), groups of %u, %.4f of %zu bytes\n", number, form.form, form.text,
               form.group_length, (double)frame_nbytes / (double)nbytes, nbytes);
    CU_ASSERT(is_right);
    round_trip(&small_blocks, nbytes);
    check_blocks_of_all_sets(&params, nbytes);
    check_blocks_of_all_sets(&small_blocks, nbytes);
}

LMC_TEST(test_products)
{
    static const recipe recipes[] = {
        {LMC_DTYPE_F32, INT8, 200, 1024, PER_ROW, 0, -12, 0.25},
        {LMC_DTYPE_F32, INT8, 200, 1024, PER_ROW, 1, -12, 0.25},
        {LMC_DTYPE_F32, INT8, 128, 1024, 128, 0, -14, 0.26},
        {LMC_DTYPE_F32, INT8, 128, 1024, 64, 1, -14, 0.27},
        {LMC_DTYPE_F32, INT8, 128, 1024, 32, 0, -14, 0.28},
        {LMC_DTYPE_F32, INT8, 256, 1000, PER_TENSOR, 0, -11, 0.25},
        {LMC_DTYPE_F32, INT8, 256, 1024, PER_BLOCK, 0, -11, 0.25},
        {LMC_DTYPE_F32, INT4, 200, 1024, PER_ROW, 0, -9, 0.13},
        {LMC_DTYPE_F32, INT4, 200, 1024, 128, 0, -9, 0.14},
        {LMC_DTYPE_F32, INT4, 200, 1024, 32, 0, -9, 0.17},
        {LMC_DTYPE_F32, E4M3, 200, 1024, PER_ROW, 0, -15, 0.25},
        {LMC_DTYPE_F32, E4M3, 256, 1024, PER_BLOCK, 1, -15, 0.25},
        {LMC_DTYPE_F32, E5M2, 200, 1024, PER_ROW, 0, -20, 0.25},
        {LMC_DTYPE_F32, NF4, 200, 1024, 64, 0, -5, 0.16},
        {LMC_DTYPE_BF16, INT8, 200, 1024, PER_ROW, 0, -12, 0.50},
        {LMC_DTYPE_BF16, INT8, 200, 1024, 128, 0, -12, 0.52},
        {LMC_DTYPE_BF16, INT8, 200, 1024, 64, 0, -12, 0.54},
        {LMC_DTYPE_BF16, INT8, 256, 1024, PER_TENSOR, 1, -12, 0.50},
        {LMC_DTYPE_BF16, INT4, 200, 1024, 32, 0, -9, 0.32},
        {LMC_DTYPE_BF16, INT4, 200, 1024, 128, 0, -9, 0.28},
        {LMC_DTYPE_BF16, E4M3, 256, 1024, PER_BLOCK, 0, -15, 0.50},
        {LMC_DTYPE_BF16, E5M2, 256, 1024, PER_TENSOR, 0, -20, 0.40},
        {LMC_DTYPE_BF16, NF4, 200, 1024, 64, 0, -5, 0.31},
        {LMC_DTYPE_F16, INT8, 200, 1024, PER_ROW, 0, -12, 0.50},
        {LMC_DTYPE_F16, INT8, 200, 1024, 128, 1, -12, 0.52},
        {LMC_DTYPE_F16, INT8, 200, 1024, 64, 0, -12, 0.54},
        {LMC_DTYPE_F16, INT4, 200, 1024, 32, 0, -9, 0.32},
        {LMC_DTYPE_F16, E4M3, 256, 1024, PER_BLOCK, 0, -12, 0.50},
        {LMC_DTYPE_F16, NF4, 200, 1024, 64, 0, -5, 0.31},
    };
    for (size_t i = 0; i < LMC_COUNT(recipes); i++)
        check_recipe(&recipes[i], i);
}

/* Rows that are no multiple of a group, and content that ends within a row or an element. */
LMC_TEST(test_ragged_rows)
{
    static const size_t column_counts[] = {16, 31, 64, 100, 129, 200, 333, 1000, 4097, 5000};
    for (size_t i = 0; i < 4 * LMC_COUNT(column_counts); i++) {
        const size_t columns = column_counts[i / 4];
        const recipe r = {i % 2 ? LMC_DTYPE_F32 : LMC_DTYPE_BF16,
                          i % 3 || columns < 32 ? INT8 : NF4,
                          60000 / columns + 2,
                          columns,
                          i % 4 < 2 ? 64 : PER_ROW,
                          0,
                          -12,
                          1};
        const size_t nbytes = fill_products(&r);
        const lmc_params params = params_of(&r, i % 2 ? 10 : 11);
        const lmc_form_info form = form_of(&params, nbytes);
        if (form.form != LMC_FORM_PRODUCT)
            printf("\nrows of %zu, content %zu: form %d (%s)\n", columns, i, form.form, form.text);
        CU_ASSERT_EQUAL(form.form, LMC_FORM_PRODUCT);
        for (size_t less = 0; less < 7; less++)
            round_trip(&params, nbytes - less);
        round_trip(&params, nbytes - 4 * (columns / 2));
        check_blocks_of_all_sets(&params, nbytes - 3);
    }
}

LMC_TEST(test_small_tensors)
{
    for (size_t i = 0; i < 5; i++) {
        const recipe r = {i % 2 ? LMC_DTYPE_F32 : LMC_DTYPE_F16, (factor_kind)i, 8, 128, 64, 1, -10, 1};
        const size_t most = fill_products(&r);
        const lmc_params params = params_of(&r, 10), none = frame_params(r.dtype, LMC_LEVEL_DEFAULT, 10);
        for (size_t nbytes = 0; nbytes <= most; nbytes += nbytes < 40 || nbytes > most - 9 ? 1 : 61) {
            round_trip(&params, nbytes);
            round_trip(&none, nbytes);
        }
    }
}

/* Scales that make F16 products denormal, or infinite; and F32 at the ends of the scales' range. */
LMC_TEST(test_extreme_products)
{
    static const int logs[] = {-40, -33, -30, -27,  -24,  -21,  5,  8,   9,  10,
                               12,  60,  -90, -101, -115, -130, 98, 105, 119};
    for (size_t i = 0; i < 3 * LMC_COUNT(logs); i++) {
        static const lmc_dtype dtypes[] = {LMC_DTYPE_F16, LMC_DTYPE_BF16, LMC_DTYPE_F32};
        const recipe r = {
            dtypes[i % 3], i % 2 ? INT8 : INT4, 100, 256, i % 5 ? PER_ROW : 64, 1, logs[i / 3], 1};
        const size_t nbytes = fill_products(&r);
        const lmc_params params = params_of(&r, 10);
        round_trip(&params, nbytes);
        check_blocks_of_all_sets(&params, nbytes);
    }
}

/* ---- other values among them ---- */

/* Puts value to one element in `rarity`. */
static void put_exceptions(const recipe *r, size_t rarity, uint64_t (*value)(lmc_dtype dtype))
{
    const unsigned nbytes = data_element_nbytes(r->dtype);
    const size_t n = r->row_count * r->column_count, probed = r->row_count / 2 * r->column_count;
    for (size_t i = random_below(rarity); i < n; i += 1 + random_below(2 * rarity)) {
        const uint64_t x = value(r->dtype);
        if (i < probed || i >= probed + r->column_count) /* the row by which a form is looked for */
            memcpy(content + i * nbytes, &x, nbytes);
    }
}

static uint64_t small_value(lmc_dtype dtype)
{
    return data_float_bits(dtype, normal() * 0x1p-9);
}

static uint64_t large_value(lmc_dtype dtype)
{
    return data_float_bits(dtype, normal() * 4);
}

static uint64_t any_value(lmc_dtype dtype)
{
    (void)dtype;
    return random_u64();
}

LMC_TEST(test_exceptions)
{
    static uint64_t (*const values[])(lmc_dtype) = {small_value, large_value, data_special, any_value};
    for (size_t i = 0; i < 24; i++) {
        const recipe r = {i % 3 == 0   ? LMC_DTYPE_F32
                          : i % 3 == 1 ? LMC_DTYPE_BF16
                                       : LMC_DTYPE_F16,
                          i % 2 ? INT8 : E4M3,
                          200,
                          512,
                          i % 5 ? PER_ROW : 64,
                          0,
                          -13,
                          1};
        const size_t nbytes = fill_products(&r);
        put_exceptions(&r, i < 12 ? 250 : 5000, values[i % 4]);
        const lmc_params params = params_of(&r, i % 2 ? 10 : 0);
        const size_t frame_nbytes = round_trip(&params, nbytes);
        const lmc_form_info form = form_of(&params, nbytes);
        const double share = r.dtype == LMC_DTYPE_F32 ? 0.34 : 0.60;
        const int is_found = form.form == LMC_FORM_PRODUCT && (double)frame_nbytes < share * (double)nbytes;
        if (i % 4 == 0 && !is_found)
            printf("\nexceptions %zu: form %d (%s), %.4f\n", i, form.form, form.text,
                   (double)frame_nbytes / (double)nbytes);
        CU_ASSERT(i % 4 != 0 || is_found);
        check_blocks_of_all_sets(&params, nbytes);
    }
}

/* A NaN is the largest element of its group, which then has no scale of its own: the one of the row above is tried. */
LMC_TEST(test_nan_in_every_group)
{
    const recipe r = {LMC_DTYPE_F32, INT8, 64, 1024, 64, 0, -12, 1};
    const size_t nbytes = fill_products(&r);
    const lmc_params params = params_of(&r, 10);
    const uint32_t nan_bits = 0x7fc00001, infinity_bits = 0xff800000;
    for (size_t i = 5; i < nbytes / 4; i += i < nbytes / 3 ? 64 : 3000)
        memcpy(content + 4 * i, i % 2 ? &nan_bits : &infinity_bits, 4);
    round_trip(&params, nbytes);
    check_blocks_of_all_sets(&params, nbytes);
}

/* Numbers do not depend on what stood in their place. */
LMC_TEST(test_numbers_without_a_scale)
{
    const recipe r = {LMC_DTYPE_F32, INT8, 1, 64, 64, 0, -12, 1};
    lmc_narrow narrow;
    lmc_factor_order order;
    uint8_t numbers[2][64];
    fill_products(&r);
    memcpy(content + 36, &(uint32_t){0x7f800000}, 4);
    lmc_narrow_set_form(&narrow, LMC_FMT_NARROW_PRODUCT, 4);
    lmc_narrow_set_factors(&narrow, LMC_FMT_FACTORS_I8);
    lmc_factor_order_init(&order, &narrow);
    for (unsigned i = 0; i < 2; i++) {
        const lmc_product_group group = {&narrow, &order, lmc_kernels_get(), content, 64};
        float likely = 127, scale = 3;
        memset(numbers[i], (int)(0x11 + 0x22 * i), sizeof numbers[i]);
        CU_ASSERT_EQUAL(lmc_product_find(&group, LMC_FACTOR_COUNT, &likely, &scale, numbers[i]), 64);
        CU_ASSERT_EQUAL(scale, 0);
    }
    CU_ASSERT_EQUAL(memcmp(numbers[0], numbers[1], sizeof numbers[0]), 0);
}

/* Frames do not depend on what the context has planned before, also where groups have no scale. */
LMC_TEST(test_history_does_not_matter)
{
    enum { COUNT = 6 };
    test_frame fresh[COUNT];
    for (unsigned pass = 0; pass < 3; pass++) {
        for (unsigned k = 0; k < COUNT; k++) {
            const unsigned i = pass == 1 ? COUNT - 1 - k : k;
            const recipe r = {i % 2 ? LMC_DTYPE_F32 : LMC_DTYPE_BF16,
                              i % 3 ? INT8 : INT4,
                              100,
                              512,
                              i < 3 ? 64 : 128,
                              0,
                              -12,
                              1};
            random_state = i;
            const size_t nbytes = fill_products(&r), unit = data_element_nbytes(r.dtype);
            const uint64_t infinity = r.dtype == LMC_DTYPE_F32 ? 0x7f800000 : 0x7f80;
            for (size_t e = 15009; e < nbytes / unit; e += 70 * r.group)
                memcpy(content + e * unit, &infinity, unit); /* the group has no scale */
            const lmc_params params = params_of(&r, 10);
            lmc_ctx *const other = must_create_ctx();
            test_frame frame = frame_encode(pass == 0 ? other : ctx, &params, content, nbytes);
            CU_ASSERT(pass > 0 || frame_is_for_host(&frame));
            CU_ASSERT(pass == 0 || frames_are_equal(&frame, &fresh[i]));
            lmc_ctx_free(other);
            if (pass == 0)
                fresh[i] = frame;
            else
                frame_free(&frame);
        }
    }
    for (unsigned i = 0; i < COUNT; i++)
        frame_free(&fresh[i]);
}

/* ---- contents that have no such form ---- */

LMC_TEST(test_weights_are_plain)
{
    static const lmc_dtype floats[] = {LMC_DTYPE_F16, LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_F64};
    for (size_t i = 0; i < 32; i++) {
        const lmc_dtype dtype = floats[i % 4];
        const unsigned nbytes = data_element_nbytes(dtype);
        const size_t columns = 512, n = 100000;
        for (size_t k = 0; k < n; k++) {
            const double x = normal() * (i < 16 ? 0.02 : 0.001 * (double)(1 + k / columns % 40));
            uint64_t bits;
            memcpy(&bits, &x, sizeof bits);
            if (dtype != LMC_DTYPE_F64)
                bits = data_float_bits(dtype, x);
            memcpy(content + k * nbytes, &bits, nbytes);
        }
        lmc_params params = frame_params(dtype, i % 3 ? LMC_LEVEL_DEFAULT : LMC_LEVEL_MAX, 0);
        params.row_nbytes = i % 2 ? (uint32_t)columns * nbytes : 0;
        CU_ASSERT_EQUAL(form_of(&params, n * nbytes).form, LMC_FORM_PLAIN);
        round_trip(&params, n * nbytes);
    }
}

/* Products at the beginning, or in the probed row only, and weights elsewhere: at most as large as without a look. */
LMC_TEST(test_only_some_rows_are_products)
{
    for (size_t i = 0; i < 12; i++) {
        const lmc_dtype dtype = i % 2 ? LMC_DTYPE_F32 : LMC_DTYPE_BF16;
        const unsigned unit = data_element_nbytes(dtype);
        const recipe r = {dtype, INT8, 200, 1024, i % 3 ? PER_ROW : 64, 0, -12, 1};
        const size_t nbytes = fill_products(&r), row_nbytes = r.column_count * unit;
        const size_t from = i < 6 ? row_nbytes * (20 * i + 2) : 0, to = i < 6 ? nbytes : 100 * row_nbytes;
        data_fill(content + from, to - from, dtype, DATA_WEIGHTS);
        if (i >= 6)
            data_fill(content + 101 * row_nbytes, nbytes - 101 * row_nbytes, dtype, DATA_WEIGHTS);
        lmc_params params = params_of(&r, 0);
        const size_t frame_nbytes = round_trip(&params, nbytes);
        params.level = LMC_LEVEL_FAST;
        CU_ASSERT((double)frame_nbytes <= 1.01 * (double)round_trip(&params, nbytes));
    }
}

/* ---- floats in wider floats, palettes ---- */

static const struct {
    lmc_dtype dtype, narrow;
    data_kind kind;
    lmc_form form;
    double share;
} others[] = {
    {LMC_DTYPE_F32, LMC_DTYPE_F16, DATA_WEIGHTS, LMC_FORM_F16_IN_F32, 0.45},
    {LMC_DTYPE_F32, LMC_DTYPE_BF16, DATA_WEIGHTS, LMC_FORM_BF16_IN_F32, 0.35},
    {LMC_DTYPE_F64, LMC_DTYPE_F32, DATA_WEIGHTS, LMC_FORM_F32_IN_F64, 0.44},
    {LMC_DTYPE_F32, LMC_DTYPE_F16, DATA_HALF_ZEROS, LMC_FORM_F16_IN_F32, 0.26},
    {LMC_DTYPE_F32, LMC_DTYPE_F16, DATA_HALVES, LMC_FORM_F16_IN_F32, 0.46},
    {LMC_DTYPE_F64, LMC_DTYPE_F32, DATA_HALVES, LMC_FORM_F32_IN_F64, 0.45},
    {LMC_DTYPE_F16, 0, DATA_PALETTE, LMC_FORM_PALETTE, 0.54},
    {LMC_DTYPE_BF16, 0, DATA_PALETTE, LMC_FORM_PALETTE, 0.54},
    {LMC_DTYPE_F32, 0, DATA_PALETTE, LMC_FORM_PALETTE, 0.28},
    {LMC_DTYPE_F64, 0, DATA_PALETTE, LMC_FORM_PALETTE, 0.15},
};

/* F32 in F64, and BF16 in F32, take about as much room without a form. */
static int is_form_of_other(size_t k, lmc_form form)
{
    const int may_be_plain = others[k].narrow == LMC_DTYPE_F32 || others[k].narrow == LMC_DTYPE_BF16;
    return form == others[k].form || (form == LMC_FORM_PLAIN && may_be_plain);
}

static void fill_other(size_t k, size_t nbytes)
{
    const unsigned unit = data_element_nbytes(others[k].dtype);
    if (others[k].kind == DATA_HALVES || others[k].kind == DATA_PALETTE) {
        data_fill(content, nbytes, others[k].dtype, others[k].kind);
        return;
    }
    for (size_t i = 0; i + unit <= nbytes; i += unit) {
        const uint64_t bits = data_value(others[k].narrow, others[k].kind, i);
        const uint64_t mask = (UINT64_C(2) << (8 * data_element_nbytes(others[k].narrow) - 1)) - 1;
        const uint64_t wide = data_widened(others[k].narrow, bits & mask);
        memcpy(content + i, &wide, unit);
    }
}

LMC_TEST(test_floats_and_palettes)
{
    for (size_t i = 0; i < 4 * LMC_COUNT(others); i++) {
        const size_t k = i / 4, unit = data_element_nbytes(others[k].dtype);
        const size_t nbytes = 120000 * unit + (i % 4 == 3 ? 1 : 0);
        fill_other(k, nbytes);
        lmc_params params = frame_params(others[k].dtype, LMC_LEVEL_DEFAULT, i % 2 ? 10 : 0);
        params.row_nbytes = i % 4 >= 2 ? (uint32_t)(600 * unit) : 0;
        const lmc_form_info form = form_of(&params, nbytes);
        const size_t frame_nbytes = round_trip(&params, nbytes);
        const double share =
            others[k].share + (i % 2 ? 0.13 : 0); /* small blocks have palettes of their own */
        const int is_right = is_form_of_other(k, form.form) && (double)frame_nbytes <= share * (double)nbytes;
        if (!is_right)
            printf("\ncontent %zu: form %d (%s), %.4f\n", i, form.form, form.text,
                   (double)frame_nbytes / (double)nbytes);
        CU_ASSERT(is_right);
        check_blocks_of_all_sets(&params, nbytes);
    }
}

/* One number in a hundred is no F16. */
LMC_TEST(test_floats_with_exceptions)
{
    for (size_t k = 0; k < 6; k++) {
        const unsigned unit = data_element_nbytes(others[k].dtype);
        fill_other(k, 100000 * unit);
        for (size_t i = 5; i < 100000; i += 1 + random_below(200)) {
            const uint64_t bits = random_u64();
            if (i < 40000 || i > 60000)
                memcpy(content + i * unit, &bits, unit);
        }
        const lmc_params params = frame_params(others[k].dtype, LMC_LEVEL_DEFAULT, 0);
        const lmc_form_info form = form_of(&params, 100000 * unit);
        if (!is_form_of_other(k, form.form))
            printf("\ncontent %zu: form %d (%s)\n", k, form.form, form.text);
        CU_ASSERT(is_form_of_other(k, form.form));
        const size_t frame_nbytes = round_trip(&params, 100000 * unit);
        CU_ASSERT((double)frame_nbytes <= (others[k].share + 0.04) * 100000 * unit);
        check_blocks_of_all_sets(&params, 100000 * unit);
    }
}

/* ---- kernels ---- */

/* Numbers that are near everything: all exponents, few bits at the top and at the bottom of the mantissa. */
static uint64_t odd_number(unsigned exponent_nbits, unsigned mantissa_nbits)
{
    const uint64_t sign = (random_u64() & 1) << (exponent_nbits + mantissa_nbits);
    const uint64_t exponent = random_below((size_t)1 << exponent_nbits);
    uint64_t mantissa = random_u64() & ((UINT64_C(1) << mantissa_nbits) - 1);
    if (random_below(2))
        mantissa = mantissa >> (mantissa_nbits - 12) << (mantissa_nbits - 12);
    if (random_below(3) == 0)
        mantissa = (mantissa + random_below(3) - 1) & ((UINT64_C(1) << mantissa_nbits) - 1);
    return sign | exponent << mantissa_nbits | mantissa;
}

/* All narrow numbers, or many of them: widened as plain arithmetic has it, and narrowed back. */
LMC_TEST(test_kernels_widen)
{
    static const lmc_dtype narrows[] = {LMC_DTYPE_F16, LMC_DTYPE_BF16, LMC_DTYPE_F32};
    enum { COUNT = 65536 + 37 };
    static uint8_t narrow[COUNT * 4], wide[COUNT * 8], back[COUNT * 4];
    for (size_t k = 0; k < set_count; k++) {
        for (unsigned form = 0; form < 3; form++) {
            const unsigned nbytes = data_element_nbytes(narrows[form]);
            size_t wrong_count = 0;
            for (size_t i = 0; i < COUNT; i++) {
                const uint64_t x = form == 2 ? odd_number(8, 23) : i;
                memcpy(narrow + i * nbytes, &x, nbytes);
            }
            sets[k]->widen[form](narrow, COUNT, wide);
            sets[k]->narrow[form](wide, COUNT, back);
            for (size_t i = 0; i < COUNT; i++) {
                uint64_t x = 0, found = 0, narrowed = 0;
                memcpy(&x, narrow + i * nbytes, nbytes);
                memcpy(&found, wide + i * 2 * nbytes, 2 * nbytes);
                memcpy(&narrowed, back + i * nbytes, nbytes);
                wrong_count += found != data_widened(narrows[form], x);
                const uint64_t again = data_widened(narrows[form], narrowed);
                wrong_count += again != found; /* but for signalling NaN and what is a zero, the same bits */
            }
            CU_ASSERT_EQUAL(wrong_count, 0);
        }
    }
}

/* What is no narrow number becomes some narrow element, the same one by all sets. */
LMC_TEST(test_kernels_narrow_anything)
{
    enum { COUNT = 5003 };
    static uint8_t wide[COUNT * 8], first[COUNT * 4], found[COUNT * 4];
    for (unsigned form = 0; form < 3; form++) {
        const unsigned nbytes = form == 2 ? 4 : 2;
        for (size_t i = 0; i < COUNT; i++) {
            const uint64_t x = form == 2 ? odd_number(11, 52) : odd_number(8, 23);
            memcpy(wide + i * 2 * nbytes, &x, 2 * nbytes);
        }
        for (size_t k = 0; k < set_count; k++) {
            sets[k]->narrow[form](wide, COUNT, k == 0 ? first : found);
            CU_ASSERT(k == 0 || memcmp(first, found, COUNT * nbytes) == 0);
        }
    }
}

/* A scale within the limits of the format. */
static float random_scale(void)
{
    const uint32_t bits =
        (uint32_t)(LMC_FMT_SCALE_EXPONENT_MIN +
                   random_below(LMC_FMT_SCALE_EXPONENT_MAX - LMC_FMT_SCALE_EXPONENT_MIN + 1))
            << 23 |
        (uint32_t)(random_u64() & 0x7fffff);
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

static size_t count_wrong_products(const lmc_kernels *kernels, unsigned type, const float *factors,
                                   float scale)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_F32, LMC_DTYPE_F16, LMC_DTYPE_BF16};
    const unsigned nbytes = data_element_nbytes(dtypes[type]);
    uint8_t numbers[300], products[300 * 4];
    size_t wrong_count = 0;
    const size_t n = random_below(301);
    random_fill(numbers, n);
    kernels->multiply[type](factors, scale, numbers, n, products);
    for (size_t i = 0; i < n; i++) {
        uint64_t found = 0;
        memcpy(&found, products + i * nbytes, nbytes);
        wrong_count += found != data_product(dtypes[type], scale, factors[numbers[i]]);
    }
    return wrong_count;
}

LMC_TEST(test_kernels_multiply)
{
    for (unsigned kind = 0; kind < 5; kind++) {
        lmc_narrow narrow;
        lmc_narrow_set_form(&narrow, LMC_FMT_NARROW_PRODUCT, 4);
        lmc_narrow_set_factors(&narrow, kind);
        for (size_t i = 0; i < LMC_FACTOR_COUNT && kind == LMC_FMT_FACTORS_LIST; i++)
            narrow.factors[i] = random_below(9) ? random_scale() : 0;
        for (size_t i = 0; i < LMC_FACTOR_COUNT && kind == LMC_FMT_FACTORS_LIST; i++) {
            uint32_t bits;
            memcpy(&bits, &narrow.factors[i], sizeof bits);
            const uint32_t exponent = LMC_FMT_FACTOR_EXPONENT_MIN + (bits >> 23) % 41;
            bits = bits ? (bits & 0x7fffff) | exponent << 23 | (bits & 1) << 31 : (uint32_t)i << 31;
            memcpy(&narrow.factors[i], &bits, sizeof bits);
        }
        for (size_t i = 0; i < LMC_FACTOR_COUNT; i++) {
            const float factor = kind <= 1  ? (float)(int8_t)i
                                 : kind < 4 ? byte_factor(5 - kind, (unsigned)i)
                                            : 0;
            CU_ASSERT(kind == 4 || (kind == 1 && i == 128) || memcmp(&factor, &narrow.factors[i], 4) == 0);
        }
        for (size_t k = 0; k < set_count; k++)
            for (unsigned type = 0; type < 3; type++)
                for (size_t i = 0; i < 400; i++)
                    CU_ASSERT_EQUAL(count_wrong_products(sets[k], type, narrow.factors,
                                                         i % 2 ? random_scale()
                                                               : 0x1p-20f * (float)(1 + random_below(4000))),
                                    0);
    }
}

/* Where the processor takes denormals for zeros, or makes zeros of them, frames are the same, and come back. */
LMC_TEST(test_flushed_denormals)
{
#if defined(__SSE__)
    const unsigned mode = _mm_getcsr();
    for (size_t i = 0; i < LMC_COUNT(others) + 9; i++) {
        lmc_params params = frame_params(LMC_DTYPE_F32, LMC_LEVEL_DEFAULT, 10);
        size_t nbytes = 200000;
        if (i < LMC_COUNT(others)) {
            params.dtype = others[i].dtype;
            fill_other(i, nbytes);
        } else {
            static const lmc_dtype dtypes[] = {LMC_DTYPE_F16, LMC_DTYPE_BF16, LMC_DTYPE_F32};
            static const int logs[] = {-24, -14, -110};
            const recipe r = {dtypes[i % 3], i % 2 ? INT8 : E4M3, 100, 256, 64, 1, logs[i / 3 % 3], 1};
            nbytes = fill_products(&r);
            params = params_of(&r, 10);
        }
        test_frame frame = frame_encode(ctx, &params, content, nbytes);
        _mm_setcsr(mode | 0x8040);
        test_frame flushed = frame_encode(ctx, &params, content, nbytes);
        frame_check(ctx, &frame, content, nbytes);
        check_blocks_of_all_sets(&params, nbytes);
        _mm_setcsr(mode);
        CU_ASSERT(frames_are_equal(&frame, &flushed));
        frame_free(&frame);
        frame_free(&flushed);
    }
#else
    LMC_TEST_SKIP("this processor has no such modes, or others");
#endif
}

/* ---- the interface ---- */

LMC_TEST(test_forms_of_frames)
{
    for (size_t i = 0; i < LMC_COUNT(others) + 3; i++) {
        const int is_other = i < LMC_COUNT(others);
        const lmc_params params =
            frame_params(is_other ? others[i].dtype : LMC_DTYPE_F32, LMC_LEVEL_DEFAULT, 0);
        if (is_other)
            fill_other(i, 300000);
        else
            data_fill(content, 300000, params.dtype, i % 2 ? DATA_RANDOM : DATA_WEIGHTS);
        const lmc_form_info planned = form_of(&params, 300000);
        test_frame frame = frame_encode(ctx, &params, content, 300000);
        lmc_frame *opened = NULL;
        lmc_form_info form = LMC_INIT(lmc_form_info);
        lmc_info info = LMC_INIT(lmc_info);
        CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame.bytes, frame.nbytes, &info, NULL), LMC_OK);
        const uint8_t *const tail = frame.bytes + frame.nbytes - info.tail_nbytes;
        CU_ASSERT_EQUAL_FATAL(lmc_frame_create(ctx, frame.bytes, info.head_nbytes, tail,
                                               (size_t)info.tail_nbytes, frame.nbytes, &opened),
                              LMC_OK);
        CU_ASSERT_EQUAL(lmc_frame_form(opened, &form), LMC_OK);
        CU_ASSERT(is_other ? is_form_of_other(i, form.form) : form.form == LMC_FORM_PLAIN);
        CU_ASSERT(form.form == planned.form && form.group_length == planned.group_length &&
                  strcmp(form.text, planned.text) == 0);
        CU_ASSERT((form.text[0] == 0) == (form.form == LMC_FORM_PLAIN));
        form.struct_size = 3;
        CU_ASSERT_EQUAL(lmc_frame_form(opened, &form), LMC_ERR_ARG);
        lmc_frame_free(opened);
        frame_free(&frame);
    }
}

LMC_TEST_MAIN_WITH("narrow", open_memory(), close_memory())
