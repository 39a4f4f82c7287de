/* test_narrow_forms.c - contents that have no form stay as they are, floats in wider floats and palettes are found, and
 * no mode of the processor changes a frame. */
#include "lmc_test_narrow.h"

#include "codec/common/entropy.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

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

/* Each row has 4 to 64 values of its own: a sample of a few rows has no more than a palette holds, a block has. */
LMC_TEST(test_rows_with_values_of_their_own)
{
    enum { COLUMNS = 4096 };
    for (size_t i = 0; i < 10; i++) {
        const lmc_dtype dtype = i % 2 ? LMC_DTYPE_F32 : LMC_DTYPE_BF16;
        const unsigned unit = data_element_nbytes(dtype);
        const size_t nbytes = CONTENT_MAX / (COLUMNS * unit) * COLUMNS * unit;
        uint64_t values[64];
        for (size_t e = 0; e < nbytes / unit; e++) {
            for (size_t k = 0; k < 64 && e % COLUMNS == 0; k++)
                values[k] = data_float_bits(dtype, normal() * 0.02);
            memcpy(content + e * unit, &values[random_below((size_t)4 << i / 2)], unit);
        }
        lmc_params params = frame_params(dtype, LMC_LEVEL_DEFAULT, 0);
        params.row_nbytes = i % 4 < 2 ? COLUMNS * unit : 0;
        const size_t frame_nbytes = round_trip(&params, nbytes);
        params.level = LMC_LEVEL_FAST;
        const size_t fast_nbytes = round_trip(&params, nbytes);
        if ((double)frame_nbytes > 1.01 * (double)fast_nbytes)
            printf("\ncontent %zu: %zu bytes, without forms %zu\n", i, frame_nbytes, fast_nbytes);
        CU_ASSERT((double)frame_nbytes <= 1.01 * (double)fast_nbytes);
    }
}

/* Numbers of FP4 times a power of two for each 32: a scale is as good as twice it, with other factors. Scales are those
 * of the groups above then, and the numbers as many as the elements. */
LMC_TEST(test_powers_of_two_for_scales)
{
    static const float sizes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (size_t i = 0; i < 6; i++) {
        static const lmc_dtype dtypes[] = {LMC_DTYPE_F32, LMC_DTYPE_BF16, LMC_DTYPE_F16};
        const lmc_dtype dtype = dtypes[i % 3];
        const unsigned unit = data_element_nbytes(dtype);
        const size_t n = 256 * 1024;
        float scale = 1;
        for (size_t k = 0; k < n; k++) {
            if (k % 32 == 0)
                scale = (float)data_power_of_2(-8 - (int)random_geometric() % 8 -
                                               (int)(k / 1024 % (i < 3 ? 1 : 5)));
            const double x = normal() * 2.2, size = x < 0 ? -x : x;
            unsigned q = 0;
            while (q < 7 && size > (double)(sizes[q] + sizes[q + 1]) / 2)
                q++;
            const uint64_t value = data_product(dtype, scale, x < 0 ? -sizes[q] : sizes[q]);
            memcpy(content + k * unit, &value, unit);
        }
        lmc_params params = frame_params(dtype, LMC_LEVEL_DEFAULT, 0);
        params.row_nbytes = 1024 * unit;
        const size_t frame_nbytes = round_trip(&params, n * unit);
        params.level = LMC_LEVEL_FAST;
        CU_ASSERT((double)frame_nbytes <= 1.01 * (double)round_trip(&params, n * unit));
    }
}

/* x rounded to E4M3. */
static double rounded_to_e4m3(double x)
{
    const double magnitude = x < 0 ? -x : x;
    int log = -6; /* the exponent, at least that of denormals; the last place is 3 below */
    while (magnitude >= data_power_of_2(log + 1))
        log++;
    const double step = data_power_of_2(log - 3), rounded = (double)(int)(magnitude / step + 0.5) * step;
    return x < 0 ? -rounded : rounded;
}

/* What n elements of 2 bytes take by the entropy of their values, in bytes. */
static double entropy_nbytes(size_t n)
{
    static uint32_t counts[65536];
    unsigned used;
    memset(counts, 0, sizeof counts);
    for (size_t k = 0; k < n; k++)
        counts[content[2 * k] | content[2 * k + 1] << 8]++;
    return lmc_counts_entropy(counts, LMC_COUNT(counts), &used) * (double)n / 8;
}

/* Numbers of E4M3 without a scale, in rows of several sizes: almost all are products of integers, too, and a row may be
 * products of several scales. They take little more than the entropy of their values. */
LMC_TEST(test_small_floats_without_a_scale)
{
    enum { COUNT = 64 * 4096 };
    for (uint64_t seed = 0; seed < 16; seed++) {
        const lmc_dtype dtype = seed % 2 ? LMC_DTYPE_F16 : LMC_DTYPE_BF16;
        const size_t column_count = seed & 2 ? 4096 : 384, n = COUNT / column_count * column_count;
        const double size = seed & 4 ? 0.02 : 0.05;
        double row_size = 0;
        random_state = 4 + seed;
        for (size_t k = 0; k < n; k++) {
            if (k % column_count == 0) {
                const double root = 1 + normal() / 10;
                row_size = size * root * root * root * root;
            }
            const uint64_t value = data_float_bits(dtype, rounded_to_e4m3(normal() * row_size));
            memcpy(content + k * 2, &value, 2);
        }
        lmc_params params = frame_params(dtype, LMC_LEVEL_DEFAULT, 0);
        params.row_nbytes = (uint32_t)column_count * 2;
        CU_ASSERT((double)round_trip(&params, n * 2) <= 1.015 * entropy_nbytes(n));
    }
}

/* Values of which a block has almost all, as often in each: their numbers are the same in all blocks, although those of
 * rare values between them are missing. */
LMC_TEST(test_rare_values_of_a_palette)
{
    enum { COUNT = 128 * 1024 };
    for (unsigned block_log2 = 13; block_log2 <= 16; block_log2++) {
        random_state = block_log2;
        for (size_t k = 0; k < COUNT; k++) {
            const uint64_t value = data_hash((uint64_t)(int64_t)(normal() * 20));
            memcpy(content + k * 2, &value, 2);
        }
        const lmc_params params = frame_params(LMC_DTYPE_U16, LMC_LEVEL_DEFAULT, block_log2);
        const size_t palettes_nbytes = (COUNT >> block_log2) * 2 * 140;
        CU_ASSERT_EQUAL(form_of(&params, COUNT * 2).form, LMC_FORM_PALETTE);
        CU_ASSERT((double)round_trip(&params, COUNT * 2) <=
                  1.015 * entropy_nbytes(COUNT) + (double)palettes_nbytes);
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

LMC_TEST_MAIN_WITH("narrow forms", open_memory(), close_memory())
