/* test_narrow_kernels.c - widening, narrowing and multiplying by all kernel sets, against plain arithmetic. */
#include "lmc_test_narrow.h"

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

LMC_TEST_MAIN_WITH("narrow kernels", open_memory(), close_memory())
