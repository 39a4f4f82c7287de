/*
 * scalar.c - the reference kernels in portable C, without intrinsics or CPU macros. They define the bytes that the
 * other sets must write. Layers and elements have headers of their own.
 */
#include "codec/kernels/kernels.h"

#include "codec/kernels/shared/hash_impl.h"

#include "codec/kernels/scalar/scalar_bits_impl.h"
#include "codec/kernels/scalar/scalar_elements_impl.h"
#include "codec/kernels/scalar/scalar_layers_impl.h"
#include "codec/kernels/shared/even_bits.h"
#include "codec/kernels/shared/narrow_loops_impl.h"
#include "codec/kernels/shared/offset_loops_impl.h"
#include "codec/kernels/shared/rans_by_symbol_impl.h"

/* ---- bitsets ---- */

LMC_INLINE uint64_t gather_bits(uint64_t x, uint64_t mask)
{
    const uint64_t counts = count_lanes(mask);
    gather_words(&mask, &counts, 1, &x);
    return x;
}

/* Spreads the lowest bits of x to the places of mask, four places at a time. For a single word that is quicker than
 * moves. */
LMC_INLINE uint32_t scatter_half(uint32_t x, uint32_t mask)
{
    static const uint8_t deposit[16][16] = {
        {0},
        {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1},
        {0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2},
        {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3},
        {0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4},
        {0, 1, 4, 5, 0, 1, 4, 5, 0, 1, 4, 5, 0, 1, 4, 5},
        {0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6},
        {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7},
        {0, 8, 0, 8, 0, 8, 0, 8, 0, 8, 0, 8, 0, 8, 0, 8},
        {0, 1, 8, 9, 0, 1, 8, 9, 0, 1, 8, 9, 0, 1, 8, 9},
        {0, 2, 8, 10, 0, 2, 8, 10, 0, 2, 8, 10, 0, 2, 8, 10},
        {0, 1, 2, 3, 8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11},
        {0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12},
        {0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13},
        {0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12, 14},
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    };
    static const uint8_t places[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
    uint32_t spread = 0;
    for (unsigned i = 0; i < 32; i += 4) {
        const unsigned m = mask >> i & 15;
        spread |= (uint32_t)deposit[m][x & 15] << i;
        x >>= places[m];
    }
    return spread;
}

LMC_INLINE uint64_t scatter_word(uint64_t x, uint64_t mask)
{
    const uint32_t lower = (uint32_t)mask;
    return scatter_half((uint32_t)x, lower) |
           (uint64_t)scatter_half((uint32_t)(x >> count_bits(lower)), (uint32_t)(mask >> 32)) << 32;
}

#include "codec/kernels/shared/hierarchy_loops_impl.h"

/* ---- gaps ---- */

#include "codec/kernels/shared/gap_loops_impl.h"

/* ---- deltas ---- */

static void find_classes(const lmc_delta *delta, uint8_t *keys, size_t n, size_t *counts)
{
    uint8_t class_of[256];
    uint32_t count[4][LMC_FMT_CLASS_COUNT_MAX] = {
        {0}}; /* four, so that neighbours of one class do not wait for each other */
    for (unsigned c = 0; c < delta->class_count; c++) {
        const unsigned end = c + 1 < delta->class_count ? delta->first_key[c + 1] : 256;
        memset(class_of + delta->first_key[c], (int)c, end - delta->first_key[c]);
    }
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (unsigned k = 0; k < 4; k++)
            count[k][keys[i + k] = class_of[keys[i + k]]]++;
    for (; i < n; i++)
        count[0][keys[i] = class_of[keys[i]]]++;
    for (unsigned c = 0; counts && c < LMC_FMT_CLASS_COUNT_MAX; c++)
        counts[c] += (size_t)count[0][c] + count[1][c] + count[2][c] + count[3][c];
}

LMC_INLINE size_t count_class(const uint8_t *classes, size_t n, unsigned class)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += classes[i] == class;
    return count;
}

/* Counts with a byte for each class. */
LMC_INLINE void count_group(const uint8_t *classes, uint32_t *counts)
{
    uint64_t sums[2] = {0, 0};
    for (unsigned i = 0; i < GROUP; i++) {
        const uint64_t one = UINT64_C(1) << 8 * (classes[i] & 7);
        const uint64_t is_upper = UINT64_C(0) - (classes[i] >> 3);
        sums[0] += one & ~is_upper;
        sums[1] += one & is_upper;
    }
    for (unsigned c = 0; c < LMC_FMT_CLASS_COUNT_MAX; c++)
        counts[c] += sums[c >> 3] >> 8 * (c & 7) & 0xff;
}

/* Eight classes at a time: a byte is 0 iff adding 127 leaves its top bit clear. A multiplication gathers the bits. */
LMC_INLINE uint64_t class_mask(const uint8_t *classes, uint8_t class)
{
    const uint64_t each_byte = UINT64_C(0x0101010101010101);
    uint64_t mask = 0;
    for (unsigned i = 0; i < GROUP; i += 8) {
        const uint64_t differs = (lmc_load64(classes + i) ^ class * each_byte) + 127 * each_byte;
        const uint64_t is_equal = ~differs >> 7 & each_byte;
        mask |= (is_equal * UINT64_C(0x0102040810204080) >> 56) << i;
    }
    return mask;
}

#include "codec/kernels/shared/delta_loops_impl.h"
#include "codec/kernels/shared/list_loops_impl.h"
#include "codec/kernels/shared/mask_loops_impl.h"

#include "codec/kernels/shared/change_loops_impl.h"

/* The top bits of 64 high parts: as bytes of 0 and 1, of which a multiplication gathers eight at a time. */
LMC_INLINE uint64_t high_tops(const uint16_t *high)
{
    uint8_t top[GROUP];
    uint64_t word = 0;
    for (size_t i = 0; i < GROUP; i++)
        top[i] = (uint8_t)(high[i] >> 15);
    for (size_t i = 0; i < GROUP; i += 8)
        word |= (lmc_load64(top + i) * UINT64_C(0x0102040810204080) >> 56) << i;
    return word;
}

static void take_sign_changes(uint16_t *high, size_t n, uint64_t *sign_changes)
{
    for (size_t g = 0; g < n; g += GROUP) {
        const uint64_t word = high_tops(high + g);
        for (size_t i = 0; i < GROUP; i++)
            high[g + i] &= 0x7fff;
        sign_changes[g / GROUP] = n - g < GROUP ? word & lmc_low_mask((unsigned)(n - g)) : word;
    }
}

static void copy_past_cache(uint8_t *dst, const uint8_t *src, size_t nbytes)
{
    memcpy(dst, src, nbytes);
}

static void end_past_cache(void)
{
}

#define SPARSE_STEP 16
#include "codec/kernels/shared/kernel_table.h"

DEFINE_KERNELS(scalar, "scalar");
