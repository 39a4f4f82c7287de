/*
 * avx2.c - kernels for CPUs with AVX2 and BMI2 (Haswell, Zen and later; fast from Zen 3). All of it, with the
 * headers that hold its parts, is compiled for these CPUs by the target that is pushed here: call nothing
 * in it before select.c has asked the CPU.
 */
#include "kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <limits.h>
#include <stdlib.h>

#include "instances.h"
#include "x86.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,popcnt")
#endif

#define XXH_VECTOR 2 /* XXH_AVX2 */
#include "hash.h"

#define ALL (~UINT64_C(0))
#define IN_ORDER UINT64_C(0x0706050403020100)

LMC_INLINE __m256i load256(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

LMC_INLINE void store256(void *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

#include "avx2_elements.h"
#include "avx2_levels.h"
#include "delta_loops.h"

/* ---- pairs ---- */

LMC_INLINE uint64_t gather_bits(uint64_t x, uint64_t mask)
{
    return _pext_u64(x, mask);
}

LMC_INLINE uint64_t scatter_bits(uint64_t x, uint64_t mask)
{
    return _pdep_u64(x, mask);
}

LMC_INLINE uint64_t gather_even(uint64_t x)
{
    return _pext_u64(x, EVEN_BITS);
}

LMC_INLINE uint64_t scatter_even(uint64_t x)
{
    return _pdep_u64(x, EVEN_BITS);
}

#include "pairs_loops.h"

/* ---- deltas ---- */

static void scatter(const lmc_class_order *order, const uint8_t *classes, const uint16_t *head, size_t n,
                    uint16_t **list)
{
    (void)order;
    scatter_loop(classes, head, n, list);
}

static void gather(const lmc_class_order *order, const uint8_t *classes, size_t n, const uint16_t **list,
                   uint16_t *head)
{
    (void)order;
    gather_loop(classes, n, list, head);
}

static void take_flips(uint16_t *head, size_t n, uint64_t *flips)
{
    take_flips_loop(head, n, flips);
}

static void put_flips(uint16_t *head, size_t n, const uint64_t *flips)
{
    put_flips_loop(head, n, flips);
}

/* ---- copy ---- */

/* Whole lines past the caches; what is left at both ends is written as usual. */
static void copy_past_cache(uint8_t *dst, const uint8_t *src, size_t nbytes)
{
    size_t i = lmc_min_size(nbytes, -(uintptr_t)dst & 63);
    memcpy(dst, src, i);
    for (; i + 64 <= nbytes; i += 64)
        for (unsigned h = 0; h < 64; h += 32)
            _mm256_stream_si256((__m256i *)(void *)(dst + i + h), load256(src + i + h));
    memcpy(dst + i, src + i, nbytes - i);
    _mm_sfence();
}

const lmc_kernels lmc_kernels_avx2 = {
    .name = "avx2",
    .levels_encode = levels_encode,
    .levels_decode = levels_decode,
    .split = {split_1, split_2, split_4, split_8},
    .join = {join_1, join_2, join_4, join_8},
    .pairs_split = pairs_split,
    .pairs_join = pairs_join,
    .classify = {classify_8, classify_16, classify_32, classify_64},
    .delta_split = {delta_split_8, delta_split_16, delta_split_32, delta_split_64},
    .delta_join = {delta_join_8, delta_join_16, delta_join_32, delta_join_64},
    .scatter = scatter,
    .gather = gather,
    .take_flips = take_flips,
    .put_flips = put_flips,
    .hash = hash_xxh3,
    .hash_begin = hash_xxh3_begin,
    .hash_update = hash_xxh3_update,
    .hash_end = hash_xxh3_end,
    .copy_past_cache = copy_past_cache,
};

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int lmc_avx2_is_empty; /* ISO C wants a declaration */
#endif
