/*
 * avx512.c - kernels for CPUs with AVX-512 VBMI2, VPOPCNTDQ and BMI2 (Ice Lake, Zen 4 and later). This file, with the
 * headers that hold its parts, is compiled for these CPUs by the target that is pushed here. Nothing in it may be
 * called before select.c has asked the CPU.
 */
#include "codec/kernels/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <limits.h>

#include "codec/kernels/shared/instances.h"
#include "codec/kernels/shared/vectors.h"

#if defined(__clang__)
#pragma clang attribute push(                                                                           \
    __attribute__((target(                                                                              \
        "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512vpopcntdq,bmi,bmi2,popcnt"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target( \
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512vpopcntdq,bmi,bmi2,popcnt")
#endif

#define XXH_VECTOR 3 /* XXH_AVX512: 2.9 cycles for 64 bytes in the cache, where XXH_AVX2 takes 4.1 */
#include "codec/kernels/shared/hash_impl.h"

#define EACH_BYTE UINT64_C(0x0101010101010101)
#define ALL (~UINT64_C(0))

/* Stores the first `nbytes` bytes of a register; all of them if nbytes >= 64. */
LMC_INLINE void store_first(uint8_t *dst, __m512i v, size_t nbytes)
{
    if (LMC_LIKELY(nbytes >= 64))
        _mm512_storeu_si512(dst, v);
    else
        _mm512_mask_storeu_epi8(dst, _bzhi_u64(ALL, (unsigned)nbytes), v);
}

LMC_INLINE __m512i load_first(const uint8_t *src, size_t nbytes)
{
    if (LMC_LIKELY(nbytes >= 64))
        return _mm512_loadu_si512(src);
    return _mm512_maskz_loadu_epi8(_bzhi_u64(ALL, (unsigned)nbytes), src);
}

/* Bytes left of `nbytes` after `used`. */
LMC_INLINE size_t bytes_left(size_t nbytes, size_t used)
{
    return nbytes > used ? nbytes - used : 0;
}

/* ---- copy ---- */

/* Writes whole cache lines past the caches; dst is aligned to them. */
LMC_INLINE void stream_lines(uint8_t *dst, const uint8_t *src, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i += 64)
        _mm512_stream_si512((__m512i *)(void *)(dst + i), _mm512_loadu_si512(src + i));
}

/* Bytes before the first whole line and behind the last one are written as usual. */
static void copy_past_cache(uint8_t *dst, const uint8_t *src, size_t nbytes)
{
    const size_t first = lmc_min_size(nbytes, -(uintptr_t)dst & 63);
    const size_t last = first + ((nbytes - first) & ~(size_t)63);
    store_first(dst, load_first(src, first), first);
    stream_lines(dst + first, src + first, last - first);
    store_first(dst + last, load_first(src + last, nbytes - last), nbytes - last);
}

static void end_past_cache(void)
{
    _mm_sfence();
}

/* Appends to a stream, after the line that waits was written. */
static void append_copy(lmc_line_stream *stream, const uint8_t *src, size_t nbytes)
{
    lmc_stream_flush(stream);
    copy_past_cache(stream->place, src, nbytes);
    stream->place += nbytes;
}

#include "codec/kernels/avx512/avx512_elements_impl.h"
#include "codec/kernels/shared/narrow_loops_impl.h"
#include "codec/kernels/shared/offset_loops_impl.h"

#include "codec/kernels/avx512/avx512_deltas_impl.h"
#include "codec/kernels/avx512/avx512_layers_impl.h"
#include "codec/kernels/avx512/avx512_lists_impl.h"
#include "codec/kernels/avx512/avx512_masks_impl.h"
#include "codec/kernels/avx512/avx512_rans_impl.h"

#include "codec/kernels/avx512/avx512_changes_impl.h"

/* ---- bitsets ---- */

#include "codec/kernels/shared/x86_bits.h"

#include "codec/kernels/shared/hierarchy_loops_impl.h"

/* ---- gaps ---- */

#include "codec/kernels/avx512/avx512_gaps_impl.h"

#define SPARSE_STEP 64
#include "codec/kernels/shared/kernel_table.h"

DEFINE_KERNELS(avx512, "avx512");

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int lmc_avx512_is_empty; /* ISO C wants a declaration in every file */
#endif
