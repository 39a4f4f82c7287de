/*
 * avx2_impl.h - the kernels for CPUs with AVX2, for the sets avx2 and avx2-nopext. The including file has pushed the
 * target and has included registers.h. It has defined what differs between the sets: bits under a mask, by
 * pext_bits_impl.h or by vector_bits_impl.h.
 */
#ifndef LMC_CODEC_KERNELS_AVX2_AVX2_IMPL_H
#define LMC_CODEC_KERNELS_AVX2_AVX2_IMPL_H

#define XXH_VECTOR 2 /* XXH_AVX2 */
#include "codec/kernels/shared/hash_impl.h"

#define IN_ORDER UINT64_C(0x0706050403020100)

/* ---- copy ---- */

/* Writes whole cache lines past the caches; dst is aligned to them. */
LMC_INLINE void stream_lines(uint8_t *dst, const uint8_t *src, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i += 32)
        _mm256_stream_si256((__m256i *)(void *)(dst + i), load256(src + i));
}

static void end_past_cache(void)
{
    _mm_sfence();
}

#include "codec/kernels/avx2/avx2_elements_impl.h"
#include "codec/kernels/avx2/avx2_layers_impl.h"
#include "codec/kernels/avx2/avx2_rans_impl.h"
#include "codec/kernels/shared/narrow_loops_impl.h"
#include "codec/kernels/shared/offset_loops_impl.h"
#include "codec/kernels/shared/strip_stream.h"

/* ---- bitsets ---- */

#include "codec/kernels/shared/hierarchy_loops_impl.h"

/* ---- gaps ---- */

#include "codec/kernels/shared/gap_loops_impl.h"

/* ---- deltas ---- */

/* The number of classes[i], i < n <= LMC_STRIP_VALUES, that are `class`. They are in the L1 cache. */
LMC_INLINE size_t count_class(const uint8_t *classes, size_t n, unsigned class)
{
    const __m256i wanted = _mm256_set1_epi8((char)class);
    __m256i sum = _mm256_setzero_si256(); /* at most 64 in a byte */
    size_t i = 0;
#pragma GCC unroll 4
    for (; i + 32 <= n; i += 32)
        sum = _mm256_sub_epi8(sum, _mm256_cmpeq_epi8(load256(classes + i), wanted));
    sum = _mm256_sad_epu8(sum, _mm256_setzero_si256());
    const __m128i half = _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    size_t count = (size_t)_mm_extract_epi64(half, 0) + (size_t)_mm_extract_epi64(half, 1);
    for (; i < n; i++)
        count += classes[i] == class;
    return count;
}

/* Finds classes by bisection: each step looks up a bound by the bits that are known, and compares. Steps past the
 * last class find the bound 255, which only keys of the last class reach. */
static void find_classes(const lmc_delta *delta, uint8_t *keys, size_t n, size_t *counts)
{
    uint8_t bound[LMC_FMT_CLASS_COUNT_MAX];
    for (unsigned c = 0; c < LMC_FMT_CLASS_COUNT_MAX; c++)
        bound[c] = c < delta->class_count ? delta->first_key[c] : 255;
    const __m256i bounds = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)bound));
    const __m256i last = _mm256_set1_epi8((char)(delta->class_count - 1));
    for (size_t first = 0; first < n; first += LMC_STRIP_VALUES) {
        const size_t m = lmc_min_size(n - first, LMC_STRIP_VALUES);
        size_t others = m;
        for (size_t i = first; i < first + m; i += 32) {
            const __m256i key = load256(keys + i);
            __m256i class = _mm256_setzero_si256();
            for (unsigned step = LMC_FMT_CLASS_COUNT_MAX / 2; step > 0; step /= 2) {
                const __m256i next = _mm256_add_epi8(class, _mm256_set1_epi8((char)step));
                const __m256i least = _mm256_shuffle_epi8(bounds, next);
                const __m256i reached = _mm256_cmpeq_epi8(_mm256_max_epu8(key, least), key);
                class = _mm256_blendv_epi8(class, next, reached);
            }
            store256(keys + i, _mm256_min_epu8(class, last));
        }
        for (unsigned c = 0; counts && c + 1 < delta->class_count; c++) {
            const size_t count = count_class(keys + first, m, c);
            counts[c] += count;
            others -= count;
        }
        if (counts)
            counts[delta->class_count - 1] += others;
    }
}

LMC_INLINE uint64_t class_mask(const uint8_t *classes, uint8_t class)
{
    const __m256i wanted = _mm256_set1_epi8((char)class);
    const int lower = _mm256_movemask_epi8(_mm256_cmpeq_epi8(load256(classes), wanted));
    const int upper = _mm256_movemask_epi8(_mm256_cmpeq_epi8(load256(classes + 32), wanted));
    return (uint32_t)lower | (uint64_t)(uint32_t)upper << 32;
}

#include "codec/kernels/avx2/avx2_lists_impl.h"
#include "codec/kernels/shared/delta_loops_impl.h"
#include "codec/kernels/shared/mask_loops_impl.h"

#include "codec/kernels/avx2/avx2_changes_impl.h"

static void take_sign_changes(uint16_t *high, size_t n, uint64_t *sign_changes)
{
    const __m256i magnitude = _mm256_set1_epi16(0x7fff);
    for (size_t g = 0; g < n; g += GROUP) {
        uint64_t word = 0;
        for (unsigned i = 0; i < GROUP; i += 32) {
            const __m256i h0 = load256(high + g + i), h1 = load256(high + g + i + 16);
            const __m256i top = _mm256_packs_epi16(_mm256_srai_epi16(h0, 15), _mm256_srai_epi16(h1, 15));
            const __m256i in_order = _mm256_permute4x64_epi64(top, 0xd8);
            word |= (uint64_t)(uint32_t)_mm256_movemask_epi8(in_order) << i;
            store256(high + g + i, _mm256_and_si256(h0, magnitude));
            store256(high + g + i + 16, _mm256_and_si256(h1, magnitude));
        }
        sign_changes[g / GROUP] = n - g < GROUP ? word & lmc_low_mask((unsigned)(n - g)) : word;
    }
}

#define SPARSE_STEP 16
#include "codec/kernels/shared/kernel_table.h"

#endif
