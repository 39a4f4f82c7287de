/* test_narrow.c - products of scales and factors: found wherever tools make them, and the round trip is exact, whatever
 * else stands among the elements. */
#include "lmc_test_narrow.h"

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
    if (number % LMC_TEST_STEP == 0) {
        round_trip(&small_blocks, nbytes);
        check_blocks_of_all_sets(number % 2 ? &params : &small_blocks, nbytes);
    }
}

LMC_TEST(test_products)
{
    static const recipe recipes[] = {
        {LMC_DTYPE_F32, INT8, 96, 1024, PER_ROW, 0, -12, 0.25},
        {LMC_DTYPE_F32, INT8, 96, 1024, PER_ROW, 1, -12, 0.25},
        {LMC_DTYPE_F32, INT8, 128, 1024, 128, 0, -14, 0.26},
        {LMC_DTYPE_F32, INT8, 128, 1024, 64, 1, -14, 0.27},
        {LMC_DTYPE_F32, INT8, 128, 1024, 32, 0, -14, 0.28},
        {LMC_DTYPE_F32, INT8, 256, 1000, PER_TENSOR, 0, -11, 0.25},
        {LMC_DTYPE_F32, INT8, 256, 1024, PER_BLOCK, 0, -11, 0.25},
        {LMC_DTYPE_F32, INT4, 96, 1024, PER_ROW, 0, -9, 0.13},
        {LMC_DTYPE_F32, INT4, 96, 1024, 128, 0, -9, 0.14},
        {LMC_DTYPE_F32, INT4, 96, 1024, 32, 0, -9, 0.17},
        {LMC_DTYPE_F32, E4M3, 96, 1024, PER_ROW, 0, -15, 0.25},
        {LMC_DTYPE_F32, E4M3, 256, 1024, PER_BLOCK, 1, -15, 0.25},
        {LMC_DTYPE_F32, E5M2, 96, 1024, PER_ROW, 0, -20, 0.25},
        {LMC_DTYPE_F32, NF4, 96, 1024, 64, 0, -5, 0.16},
        {LMC_DTYPE_BF16, INT8, 96, 1024, PER_ROW, 0, -12, 0.50},
        {LMC_DTYPE_BF16, INT8, 96, 1024, 128, 0, -12, 0.52},
        {LMC_DTYPE_BF16, INT8, 96, 1024, 64, 0, -12, 0.54},
        {LMC_DTYPE_BF16, INT8, 256, 1024, PER_TENSOR, 1, -12, 0.50},
        {LMC_DTYPE_BF16, INT4, 96, 1024, 32, 0, -9, 0.32},
        {LMC_DTYPE_BF16, INT4, 96, 1024, 128, 0, -9, 0.28},
        {LMC_DTYPE_BF16, E4M3, 256, 1024, PER_BLOCK, 0, -15, 0.50},
        {LMC_DTYPE_BF16, E5M2, 256, 1024, PER_TENSOR, 0, -20, 0.40},
        {LMC_DTYPE_BF16, NF4, 96, 1024, 64, 0, -5, 0.31},
        {LMC_DTYPE_F16, INT8, 96, 1024, PER_ROW, 0, -12, 0.50},
        {LMC_DTYPE_F16, INT8, 96, 1024, 128, 1, -12, 0.52},
        {LMC_DTYPE_F16, INT8, 96, 1024, 64, 0, -12, 0.54},
        {LMC_DTYPE_F16, INT4, 96, 1024, 32, 0, -9, 0.32},
        {LMC_DTYPE_F16, E4M3, 256, 1024, PER_BLOCK, 0, -12, 0.50},
        {LMC_DTYPE_F16, NF4, 96, 1024, 64, 0, -5, 0.31},
    };
    for (size_t i = 0; i < LMC_COUNT(recipes); i++)
        check_recipe(&recipes[i], i);
}

/* Rows that are no multiple of a group, and content that ends within a row or an element. */
LMC_TEST(test_ragged_rows)
{
    static const size_t column_counts[] = {16, 31, 64, 100, 129, 200, 333, 1000, 4097, 5000};
    for (size_t i = 0; i < 4 * LMC_COUNT(column_counts); i += LMC_TEST_STEP) {
        const size_t columns = column_counts[i / 4];
        const recipe r = {i % 2 ? LMC_DTYPE_F32 : LMC_DTYPE_BF16,
                          i % 3 || columns < 32 ? INT8 : NF4,
                          (columns > 2000 ? 60000 : 16000) / columns + 2,
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
        round_trip(&params, nbytes - 1 - i % 6);
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
        for (size_t nbytes = 0; nbytes <= most;
             nbytes += nbytes < 40 || nbytes > most - 9 ? 1 : 61 * LMC_TEST_STEP) {
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
    for (size_t i = 0; i < 3 * LMC_COUNT(logs); i += LMC_TEST_STEP) {
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
    for (size_t i = 0; i < 24; i += LMC_TEST_STEP) {
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

/* All factors but zeros are tried, each once. */
LMC_TEST(test_factors_tried)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        lmc_narrow narrow;
        lmc_factor_order order;
        unsigned seen[LMC_FACTOR_COUNT] = {0}, wrong_count = 0;
        lmc_narrow_set_form(&narrow, LMC_FMT_NARROW_PRODUCT, 4);
        lmc_narrow_set_factors(&narrow, kind);
        lmc_factor_order_init(&order, &narrow);
        CU_ASSERT_FATAL(order.largest_count <= LMC_FACTOR_COUNT);
        for (unsigned i = 0; i < order.largest_count; i++)
            seen[order.largest[i]]++;
        for (unsigned i = 0; i < LMC_FACTOR_COUNT; i++)
            wrong_count += narrow.factors[i] != 0 && seen[i] != 1;
        CU_ASSERT_EQUAL(wrong_count, 0);
    }
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
        CU_ASSERT_EQUAL(lmc_product_find(&group, &likely, &scale, numbers[i]), 64);
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

LMC_TEST_MAIN_WITH("narrow", open_memory(), close_memory())
