/*
 * cta.h - what the kernels use of CUDA (gpu/device/cta_cuda.cuh), emulated: threads are fibers, accesses are checked
 * for their alignment.
 */
#ifndef LMC_GPU_EMULATE_CTA_H
#define LMC_GPU_EMULATE_CTA_H

#include "gpu/device/descriptors.h"
#include "gpu/emulate/fibers.h"

#include <assert.h>
#include <string.h>

typedef uintptr_t device_address;

#define LMC_DEVICE static inline
#define LMC_DEVICE_CALL static
#define LMC_DEVICE_CONSTANT static
#define LMC_KERNEL(resident) static
#define LMC_KERNEL_PARAMETER const
#define LMC_UNROLL

/* The thread block that runs, and how many there are. */
static uint32_t emulated_index, emulated_count;

LMC_DEVICE uint32_t cta_thread(void)
{
    return fiber_index();
}

LMC_DEVICE uint32_t cta_index(void)
{
    return emulated_index;
}

LMC_DEVICE uint32_t cta_count(void)
{
    return emulated_count;
}

LMC_DEVICE void cta_barrier(void)
{
    fiber_barrier();
}

LMC_DEVICE void warp_barrier(void)
{
    fiber_exchange(0);
}

LMC_DEVICE uint32_t warp_up(uint32_t value, uint32_t distance)
{
    const uint32_t lane = fiber_index() % FIBER_WARP;
    const uint32_t *const values = fiber_exchange(value);
    return lane >= distance ? values[lane - distance] : value;
}

LMC_DEVICE uint32_t warp_at(uint32_t value, uint32_t lane)
{
    return fiber_exchange(value)[lane % FIBER_WARP];
}

LMC_DEVICE uint32_t warp_xor(uint32_t value, uint32_t lanes)
{
    const uint32_t lane = fiber_index() % FIBER_WARP;
    return fiber_exchange(value)[lane ^ lanes];
}

LMC_DEVICE uint32_t warp_ballot(uint32_t condition)
{
    const uint32_t *const values = fiber_exchange(condition != 0);
    uint32_t ballot = 0;
    for (uint32_t i = 0; i < FIBER_WARP; i++)
        ballot |= values[i] << i;
    return ballot;
}

LMC_DEVICE uint32_t bit_count(uint32_t bits)
{
    return (uint32_t)__builtin_popcount(bits);
}

LMC_DEVICE uint32_t byte_permute(uint32_t a, uint32_t b, uint32_t selector)
{
    const uint64_t bytes = a | (uint64_t)b << 32;
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; i++)
        result |= (uint32_t)(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return result;
}

LMC_DEVICE uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t shift)
{
    return (uint32_t)((low | (uint64_t)high << 32) >> (shift & 31));
}

LMC_DEVICE uint32_t add_halves(uint32_t a, uint32_t b)
{
    return ((a + b) & 0xffff) | ((a >> 16) + (b >> 16)) << 16;
}

LMC_DEVICE void fetch_ahead(device_address address)
{
    (void)address;
}

LMC_DEVICE uint64_t multiply_high(uint64_t a, uint64_t b)
{
    const uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX);
    const uint64_t middle = (a >> 32) * (b & UINT32_MAX) + (low >> 32);
    const uint64_t other = (a & UINT32_MAX) * (b >> 32) + (middle & UINT32_MAX);
    return (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
}

LMC_DEVICE void atomic_or(uint32_t *word, uint32_t bits)
{
    *word |= bits;
}

LMC_DEVICE uint32_t load_aligned(device_address address)
{
    uint32_t word;
    assert(address % 4 == 0);
    memcpy(&word, (const void *)address, sizeof word);
    return word;
}

typedef struct words4 {
    uint32_t word[4];
} words4;

LMC_DEVICE void store_words4(void *dst, const words4 *words)
{
    assert((uintptr_t)dst % 16 == 0);
    memcpy(dst, words, sizeof *words);
}

#define LMC_SHARED(type, name)                                                    \
    _Static_assert(sizeof(type) <= EMULATED_SHARED_NBYTES, "more is not static"); \
    type *const name = fiber_shared()

/* What a kernel may have of shared memory that it declares. */
#define EMULATED_SHARED_NBYTES 49152

#endif
