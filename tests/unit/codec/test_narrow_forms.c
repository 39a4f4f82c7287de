/* test_narrow_forms.c - floats in wider floats, and palettes: they are found, and come back; all kernel sets agree with
 * plain arithmetic, in every mode of the processor; what calls say of a frame's form. */
#include "lmc_test_narrow.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

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
        const size_t nbytes = 70000 * unit + (i % 4 == 3 ? 1 : 0);
        fill_other(k, nbytes);
        lmc_params params = frame_params(others[k].dtype, LMC_LEVEL_DEFAULT, i % 2 ? 10 : 0);
        params.row_nbytes = i % 4 >= 2 ? (uint32_t)(600 * unit) : 0;
        const lmc_form_info form = form_of(&params, nbytes);
        const size_t frame_nbytes = round_trips(&params, nbytes);
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
        const size_t frame_nbytes = round_trips(&params, 100000 * unit);
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

LMC_TEST_MAIN_WITH("narrow_forms", open_memory(), close_memory())
