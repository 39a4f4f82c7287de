/* test_delta_values.c - values that floats have besides weights, in content and in base: every pattern of 8 and of 16
 * bits, NaN payloads, infinities, zeros of both signs, denormals; and BF16 against the F32 it was rounded from. */
#include "lmc_test_data.h"

#include "lmc_test_base.h"

#include <math.h>

#define CONTENT_MAX ((size_t)1 << 20)

static base_bed bed;

/* ---- patterns ---- */

LMC_TEST(test_all_pairs_of_bytes)
{
    for (int dtype = 0; dtype < LMC_DTYPE_COUNT; dtype++) {
        if (data_element_nbytes((lmc_dtype)dtype) != 1)
            continue;
        for (size_t i = 0; i < 65536; i++) {
            bed.base[i] = (uint8_t)(i >> 8);
            bed.content[i] = (uint8_t)i;
        }
        for (unsigned i = 0; i < 2; i++) { /* pairs alone, and among elements that have not changed */
            const lmc_params params = frame_params((lmc_dtype)dtype, LMC_LEVEL_DEFAULT, 0);
            const size_t nbytes = i ? 1 << 20 : 65536;
            lmc_frame_mode mode;
            for (size_t at = 65536; at < nbytes; at++)
                bed.base[at] = bed.content[at] = (uint8_t)data_weight((lmc_dtype)dtype);
            base_round_trip(&bed, &params, bed.content, nbytes, bed.base, &mode);
            CU_ASSERT(i == 0 || mode == LMC_FRAME_DELTA);
        }
    }
}

/* All 65536 patterns as base and this one, or a step from the base, as content. */
static void check_patterns(lmc_dtype dtype, unsigned which, uint16_t value)
{
    const lmc_params params = frame_params(dtype, LMC_LEVEL_DEFAULT, 0);
    for (size_t i = 0; i < 65536; i++) {
        const uint16_t b = (uint16_t)(i * 40503u); /* in disorder */
        const uint16_t steps[] = {value, (uint16_t)(b + value), b ^ value, i % 16 ? b : value};
        lmc_store16(bed.base + 2 * i, b);
        lmc_store16(bed.content + 2 * i, steps[which]);
    }
    base_round_trip(&bed, &params, bed.content, 131072, bed.base, NULL);
}

LMC_TEST(test_all_patterns_of_16_bits)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_BF16, LMC_DTYPE_F16, LMC_DTYPE_I16};
    static const uint16_t values[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x7fff, 0xffff, 0x7f80, 0xff80,
                                      0x7c00, 0xfc00, 0x7fc0, 0x7f81, 0x3f80, 0xbf80, 0x0080, 0x0100};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (size_t v = d % LMC_TEST_STEP; v < sizeof values / sizeof values[0]; v += LMC_TEST_STEP)
            for (unsigned which = 0; which < 4; which++)
                check_patterns(dtypes[d], which, values[v]);
}

/* ---- special values ---- */

/* Every special value as base of every other one and of weights, few or many of them. */
LMC_TEST(test_specials)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_F8_E4M3,     LMC_DTYPE_F8_E5M2, LMC_DTYPE_F8_E4M3FNUZ,
                                       LMC_DTYPE_F8_E5M2FNUZ, LMC_DTYPE_F16,     LMC_DTYPE_BF16,
                                       LMC_DTYPE_F32,         LMC_DTYPE_C64,     LMC_DTYPE_F64};
    static const size_t rarities[] = {1, 2, 30, 1000};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (size_t r = 0; r < sizeof rarities / sizeof rarities[0]; r++) {
            const lmc_params params = frame_params(dtypes[d], (lmc_level)(r % 3), r % 2 ? 0 : 12);
            const unsigned element_nbytes = data_element_nbytes(dtypes[d]);
            const size_t nbytes = 30000 * element_nbytes;
            data_fill(bed.base, nbytes, dtypes[d], DATA_WEIGHTS);
            base_change(bed.content, bed.base, nbytes, dtypes[d], 0.3, 1);
            for (size_t i = 0; i < nbytes; i += element_nbytes) {
                const uint64_t value = data_special(dtypes[d]), other = data_special(dtypes[d]);
                if (random_below(rarities[r]) == 0)
                    memcpy(bed.content + i, &value, element_nbytes);
                if (random_below(rarities[r]) == 0)
                    memcpy(bed.base + i, &other, element_nbytes);
            }
            base_round_trip(&bed, &params, bed.content, nbytes, bed.base, NULL);
        }
    }
}

/* Only signs have changed: of zeros too. */
LMC_TEST(test_signs)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_F8_E4M3, LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_F64};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (size_t rarity = 1; rarity < 100000; rarity = rarity * 5 + 1) {
            const lmc_params params = frame_params(dtypes[d], LMC_LEVEL_DEFAULT, 0);
            const unsigned element_nbytes = data_element_nbytes(dtypes[d]);
            const size_t nbytes = 50000 * element_nbytes;
            lmc_frame_mode mode;
            data_fill(bed.base, nbytes, dtypes[d], DATA_HALF_ZEROS);
            memcpy(bed.content, bed.base, nbytes);
            for (size_t i = element_nbytes - 1; i < nbytes; i += element_nbytes)
                bed.content[i] ^= random_below(rarity) == 0 ? 0x80 : 0;
            base_round_trip(&bed, &params, bed.content, nbytes, bed.base, &mode);
            CU_ASSERT_EQUAL(mode, LMC_FRAME_DELTA);
        }
    }
}

/* ---- BF16 of F32 ---- */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* By the definition: the nearest BF16 that there is, of two as near the one with an even last bit. */
static uint16_t nearest_bf16(uint32_t bits)
{
    const float value = float_of(bits);
    if (isnan(value))
        return (uint16_t)((bits >> 16 & 0x8000) | 0x7fc0);
    if (isinf(value))
        return (uint16_t)(bits >> 16);
    const uint16_t down = (uint16_t)(bits >> 16), up = (uint16_t)(down + 1);
    const double below = fabs((double)value - (double)float_of((uint32_t)down << 16));
    const double limit = (up & 0x7fff) == 0x7f80 ? ldexp(1, 128) : fabs((double)float_of((uint32_t)up << 16));
    const double above = limit - fabs((double)value);
    if (below != above)
        return below < above ? down : up;
    return down & 1 ? up : down;
}

/* Likewise, of F16: a multiple of the unit that numbers of that size have. */
static uint16_t nearest_f16(uint32_t bits)
{
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    const double value = fabs((double)float_of(bits));
    int exponent = 0;
    if (isnan(value))
        return sign | 0x7e00;
    (void)frexp(value, &exponent); /* value < 2^exponent */
    const int unit = exponent > -13 && value > 0 && isfinite(value) ? exponent - 11 : -24;
    const double count = isfinite(value) ? nearbyint(ldexp(value, -unit)) : 0;
    if (!isfinite(value) || ldexp(count, unit) >= 65536)
        return sign | 0x7c00;
    /* 1024 units and more have an exponent; 2048 of them are one more */
    return (uint16_t)(sign + ((unit + 24) << 10) + (int)count);
}

/* F32 with everything that rounding tells apart. */
static uint32_t any_f32(size_t i)
{
    const uint32_t top = (uint32_t)random_u64() << 16;
    switch (i % 11) {
    case 9: /* near what F16 can hold */
        return (top & 0x80000000u) | (0x32000000u + (uint32_t)random_below(0x16000000) / 0x400 * 0x400);
    case 10: /* the least and the largest of F16 */
        return (top & 0x80000000u) |
               ((i & 1 ? 0x477fe000u : 0x33000000u) - 0x4000u + (uint32_t)random_below(0x8000));
    case 0: return top;          /* exact */
    case 1: return top | 0x8000; /* a tie */
    case 2: return top | 0x7fff; /* just below one */
    case 3: return top | 0x8001; /* just above one */
    case 4:
        return (top & 0x80000000u) | 0x7f7f0000u |
               (uint32_t)random_below(65536); /* overflows, half of them */
    case 5: return (top & 0x80000000u) | 0x7f800000u | (uint32_t)random_below(4); /* infinity, small NaNs */
    case 6: return (top & 0x80ff0000u) | (uint32_t)random_below(65536);           /* denormals */
    case 7: return (uint32_t)data_weight(LMC_DTYPE_F32);
    default: return (uint32_t)random_u64();
    }
}

LMC_TEST(test_rounding)
{
    for (size_t i = 0; i < 300000; i++) {
        const uint32_t bits = any_f32(i);
        CU_ASSERT_EQUAL(lmc_round_to_bf16(bits), nearest_bf16(bits));
        CU_ASSERT_EQUAL(lmc_round_to_f16(bits), nearest_f16(bits));
    }
    for (uint32_t top = 0; top < 0x10000; top++) /* all BF16 */
        CU_ASSERT_EQUAL(lmc_round_to_f16(top << 16), nearest_f16(top << 16));
    CU_ASSERT_EQUAL(lmc_round_to_f16(bits_of(1.0f)), 0x3c00);
    CU_ASSERT_EQUAL(lmc_round_to_f16(bits_of(-65504.0f)), 0xfbff);
    CU_ASSERT_EQUAL(lmc_round_to_f16(bits_of(65519.0f)), 0x7bff);
    CU_ASSERT_EQUAL(lmc_round_to_f16(bits_of(65520.0f)), 0x7c00); /* to infinity */
    CU_ASSERT_EQUAL(lmc_round_to_f16(0x33000000), 0);             /* half of the least: a tie */
    CU_ASSERT_EQUAL(lmc_round_to_f16(0x33000001), 1);
    CU_ASSERT_EQUAL(lmc_round_to_f16(0xffffffff), 0xfe00);
    CU_ASSERT_EQUAL(lmc_round_to_bf16(bits_of(1.0f)), 0x3f80);
    CU_ASSERT_EQUAL(lmc_round_to_bf16(0x3f808000), 0x3f80); /* ties go to even */
    CU_ASSERT_EQUAL(lmc_round_to_bf16(0x3f818000), 0x3f82);
    CU_ASSERT_EQUAL(lmc_round_to_bf16(0x7f7f7fff), 0x7f7f);
    CU_ASSERT_EQUAL(lmc_round_to_bf16(0x7f7f8000), 0x7f80); /* to infinity */
    CU_ASSERT_EQUAL(lmc_round_to_bf16(0xff7fffff), 0xff80);
    CU_ASSERT_EQUAL(lmc_round_to_bf16(0x7f800001), 0x7fc0); /* a NaN remains one */
    CU_ASSERT_EQUAL(lmc_round_to_bf16(0xffffffff), 0xffc0);
    CU_ASSERT_EQUAL(lmc_round_to_bf16(0x80000000), 0x8000);
    CU_ASSERT_EQUAL(lmc_round_to_bf16(0x00008000), 0x0000);
    CU_ASSERT_EQUAL(lmc_round_to_bf16(0x80018000), 0x8002);
}

/* Content that is the rounding but for one element in `rarity` (0: none). Returns the frame's bytes. */
static size_t check_rounded(lmc_base_form form, size_t n, size_t rarity, int all_kinds, unsigned block_log2)
{
    const lmc_rounding *const rounding = lmc_base_rounding(form);
    lmc_params params = frame_params(rounding->dtype, LMC_LEVEL_DEFAULT, block_log2);
    lmc_frame_mode mode;
    params.base_form = form;
    for (size_t i = 0; i < n; i++) {
        const uint32_t any = all_kinds ? any_f32(i) : (uint32_t)data_weight(LMC_DTYPE_F32);
        const uint32_t bits = rounding->scale == 1 ? any & 0xffff0000u : any;
        const uint16_t rounded = rounding->dtype == LMC_DTYPE_BF16 ? nearest_bf16(bits) : nearest_f16(bits);
        const int is_other = rarity > 0 && random_below(rarity) == 0;
        if (rounding->scale == 1)
            lmc_store16(bed.base + 2 * i, (uint16_t)(bits >> 16));
        else
            lmc_store32(bed.base + 4 * i, bits);
        lmc_store16(bed.content + 2 * i, is_other ? (uint16_t)(rounded + 1 + random_below(3)) : rounded);
    }
    const size_t nbytes = base_round_trip(&bed, &params, bed.content, 2 * n, bed.base, &mode);
    CU_ASSERT(mode == LMC_FRAME_DELTA || 2 * n < 256);
    return nbytes;
}

static void check_form(lmc_base_form form)
{
    CU_ASSERT(check_rounded(form, 500000, 0, 0, 0) < 200);
    CU_ASSERT(check_rounded(form, 100001, 0, 1, 0) < 200);
    CU_ASSERT(check_rounded(form, 100001, 0, 1, 10) < 98 * 21 + 100);
    for (size_t rarity = 1; rarity < 100000; rarity *= 10) {
        check_rounded(form, 30000, rarity, 0, 0);
        check_rounded(form, 30000, rarity, 1, 11);
    }
    for (size_t n = 1; n < 5000; n += 1 + random_below(n < 260 && n > 120 ? 3 : 300))
        check_rounded(form, n, 20, (int)(n % 2), 10);
}

LMC_TEST(test_bf16_of_f32)
{
    check_form(LMC_BASE_BF16_OF_F32);
}

LMC_TEST(test_f16_of_f32)
{
    check_form(LMC_BASE_F16_OF_F32);
}

LMC_TEST(test_f16_of_bf16)
{
    check_form(LMC_BASE_F16_OF_BF16);
}

/* The base is for whole elements of one dtype alone. */
LMC_TEST(test_rounded_arguments)
{
    lmc_params params = frame_params(LMC_DTYPE_F16, LMC_LEVEL_DEFAULT, 0);
    uint8_t *const room = must_malloc(10000);
    size_t n = 9;
    memset(bed.base, 0, 4000);
    memset(bed.content, 0, 2000);
    params.base_form = LMC_BASE_BF16_OF_F32;
    CU_ASSERT_EQUAL(lmc_encode_delta(bed.ctx, &params, bed.content, 1000, bed.base, 2000, room, 10000, &n),
                    LMC_ERR_ARG);
    CU_ASSERT_EQUAL(n, 0);
    params.dtype = LMC_DTYPE_F32;
    CU_ASSERT_EQUAL(lmc_encode_delta(bed.ctx, &params, bed.content, 1000, bed.base, 2000, room, 10000, &n),
                    LMC_ERR_ARG);
    params.dtype = LMC_DTYPE_BF16;
    CU_ASSERT_EQUAL(lmc_encode_delta(bed.ctx, &params, bed.content, 999, bed.base, 1998, room, 10000, &n),
                    LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode(bed.ctx, &params, bed.content, 999, room, 10000, &n), LMC_OK);
    params.base_form = LMC_BASE_F16_OF_BF16;
    CU_ASSERT_EQUAL(lmc_encode_delta(bed.ctx, &params, bed.content, 1000, bed.base, 1000, room, 10000, &n),
                    LMC_ERR_ARG);
    params.base_form = LMC_BASE_FORM_COUNT;
    CU_ASSERT_EQUAL(lmc_encode_delta(bed.ctx, &params, bed.content, 1000, bed.base, 1000, room, 10000, &n),
                    LMC_ERR_ARG);
    params.base_form = LMC_BASE_BF16_OF_F32;
    CU_ASSERT_EQUAL(lmc_encode_delta(bed.ctx, &params, bed.content, 1000, bed.base, 2000, room, 10000, &n),
                    LMC_OK);
    free(room);
}

LMC_TEST_MAIN_WITH("delta_values", bed = base_bed_open(CONTENT_MAX), base_bed_close(&bed))
