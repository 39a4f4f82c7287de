/*
 * neon.c - kernels for AArch64. Every such CPU has NEON, so nothing here needs a target of its own, and select.c need
 * not ask the CPU.
 */
#include "codec/kernels/kernels.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#include "codec/kernels/shared/instances.h"
#include "codec/kernels/shared/vectors.h"

#define XXH_VECTOR 4 /* XXH_NEON */
#include "codec/kernels/shared/hash_impl.h"

#include "codec/kernels/neon/neon_bits_impl.h"
/* ---- copy ---- */

/* Writes whole cache lines past the caches. */
LMC_INLINE void stream_lines(uint8_t *dst, const uint8_t *src, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i += 64) {
        const uint8x16_t a = vld1q_u8(src + i), b = vld1q_u8(src + i + 16);
        const uint8x16_t c = vld1q_u8(src + i + 32), d = vld1q_u8(src + i + 48);
        __asm__ volatile("stnp %q[a], %q[b], [%[to]]\n\tstnp %q[c], %q[d], [%[to], #32]"
                         :
                         : [a] "w"(a), [b] "w"(b), [c] "w"(c), [d] "w"(d), [to] "r"(dst + i)
                         : "memory");
    }
}

/* No fence: unlike on x86, the usual barriers order these stores, too. */
static void end_past_cache(void)
{
}

#include "codec/kernels/neon/neon_elements_impl.h"
#include "codec/kernels/neon/neon_layers_impl.h"
#include "codec/kernels/shared/narrow_loops_impl.h"
#include "codec/kernels/shared/offset_loops_impl.h"
#include "codec/kernels/shared/rans_by_symbol_impl.h"
#include "codec/kernels/shared/strip_stream.h"

#include "codec/kernels/shared/hierarchy_loops_impl.h"

/* ---- deltas ---- */

/* The number of classes[i], i < n <= LMC_STRIP_VALUES, that are `class`. They are in the L1 cache. */
LMC_INLINE size_t count_class(const uint8_t *classes, size_t n, unsigned class)
{
    const uint8x16_t wanted = vdupq_n_u8((uint8_t) class);
    uint8x16_t sum = vdupq_n_u8(0); /* at most 128 in a byte */
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        sum = vsubq_u8(sum, vceqq_u8(vld1q_u8(classes + i), wanted));
    size_t count = vaddlvq_u8(sum);
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
    const uint8x16_t bounds = vld1q_u8(bound);
    const uint8x16_t last = vdupq_n_u8((uint8_t)(delta->class_count - 1));
    for (size_t first = 0; first < n; first += LMC_STRIP_VALUES) {
        const size_t m = lmc_min_size(n - first, LMC_STRIP_VALUES);
        size_t others = m;
        for (size_t i = first; i < first + m; i += 16) {
            const uint8x16_t key = vld1q_u8(keys + i);
            uint8x16_t class = vdupq_n_u8(0);
            for (unsigned step = LMC_FMT_CLASS_COUNT_MAX / 2; step > 0; step /= 2) {
                const uint8x16_t next = vaddq_u8(class, vdupq_n_u8((uint8_t)step));
                class = vbslq_u8(vcgeq_u8(key, vqtbl1q_u8(bounds, next)), next, class);
            }
            vst1q_u8(keys + i, vminq_u8(class, last));
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

LMC_INLINE void count_group(const uint8_t *classes, uint32_t *counts)
{
    for (unsigned c = 0; c < LMC_FMT_CLASS_COUNT_MAX; c++)
        counts[c] += (uint32_t)count_class(classes, GROUP, c);
}

/* The places of a class in 16 classes, each a bit of 8. */
LMC_INLINE uint8x16_t class_places(const uint8_t *classes, uint8_t class)
{
    const uint8x16_t place = vreinterpretq_u8_u64(vdupq_n_u64(UINT64_C(0x8040201008040201)));
    return vandq_u8(vceqq_u8(vld1q_u8(classes), vdupq_n_u8(class)), place);
}

LMC_INLINE uint64_t class_mask(const uint8_t *classes, uint8_t class)
{
    const uint8x16_t lower = vpaddq_u8(class_places(classes, class), class_places(classes + 16, class));
    const uint8x16_t upper = vpaddq_u8(class_places(classes + 32, class), class_places(classes + 48, class));
    const uint8x16_t quads = vpaddq_u8(lower, upper);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(quads, quads)), 0);
}

#include "codec/kernels/shared/delta_loops_impl.h"
#include "codec/kernels/shared/gap_loops_impl.h"
#include "codec/kernels/shared/list_loops_impl.h"
#include "codec/kernels/shared/mask_loops_impl.h"

#include "codec/kernels/shared/change_loops_impl.h"

/* The top bits of 16 high parts, each at the place of its byte in 8 bytes. */
LMC_INLINE uint8x16_t top_places(const uint16_t *high)
{
    const uint8x16_t place = vreinterpretq_u8_u64(vdupq_n_u64(UINT64_C(0x8040201008040201)));
    const uint8x16_t upper =
        vuzp2q_u8(vreinterpretq_u8_u16(vld1q_u16(high)), vreinterpretq_u8_u16(vld1q_u16(high + 8)));
    return vandq_u8(vreinterpretq_u8_s8(vshrq_n_s8(vreinterpretq_s8_u8(upper), 7)), place);
}

static void take_sign_changes(uint16_t *high, size_t n, uint64_t *sign_changes)
{
    for (size_t g = 0; g < n; g += GROUP) {
        uint16_t *const h = high + g;
        const uint8x16_t lower = vpaddq_u8(top_places(h), top_places(h + 16));
        const uint8x16_t upper = vpaddq_u8(top_places(h + 32), top_places(h + 48));
        const uint8x16_t quads = vpaddq_u8(lower, upper);
        const uint64_t word = vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(quads, quads)), 0);
        for (unsigned i = 0; i < GROUP; i += 8)
            vst1q_u16(h + i, vandq_u16(vld1q_u16(h + i), vdupq_n_u16(0x7fff)));
        sign_changes[g / GROUP] = n - g < GROUP ? word & lmc_low_mask((unsigned)(n - g)) : word;
    }
}

#define SPARSE_STEP 16
#include "codec/kernels/shared/kernel_table.h"

DEFINE_KERNELS(neon, "neon");

#else
typedef int lmc_neon_is_empty; /* ISO C wants a declaration in every file */
#endif
