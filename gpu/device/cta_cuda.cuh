/*
 * cta_cuda.cuh - what the kernels use of CUDA, by names of their own: a host emulates a thread block under the same
 * names (gpu/emulate/cta.h).
 */
#ifndef LMC_GPU_DEVICE_CTA_CUDA_CUH
#define LMC_GPU_DEVICE_CTA_CUDA_CUH

#include "gpu/device/descriptors.h"

typedef uint64_t device_address;

#define LMC_DEVICE static __device__ __forceinline__
#define LMC_DEVICE_CALL \
    static __device__ __noinline__ /* a function that stays one, to keep its registers to itself */
#define LMC_DEVICE_CONSTANT static __device__ __constant__
#define LMC_KERNEL(resident) extern "C" __global__ __launch_bounds__(LMC_CUDA_THREADS, resident)
#define LMC_KERNEL_PARAMETER const __grid_constant__ /* no thread has a copy */
#define LMC_UNROLL _Pragma("unroll")

#define ALL_LANES 0xffffffffu

LMC_DEVICE uint32_t cta_thread(void)
{
    return threadIdx.x;
}

LMC_DEVICE uint32_t cta_index(void)
{
    return blockIdx.x;
}

LMC_DEVICE uint32_t cta_count(void)
{
    return gridDim.x;
}

/* All threads of the block meet. What they wrote before is seen by all after it. */
LMC_DEVICE void cta_barrier(void)
{
    __syncthreads();
}

LMC_DEVICE void warp_barrier(void)
{
    __syncwarp();
}

/* The value of the lane `distance` below; its own value in the lanes that have none. */
LMC_DEVICE uint32_t warp_up(uint32_t value, uint32_t distance)
{
    return __shfl_up_sync(ALL_LANES, value, distance);
}

LMC_DEVICE uint32_t warp_at(uint32_t value, uint32_t lane)
{
    return __shfl_sync(ALL_LANES, value, lane);
}

LMC_DEVICE uint32_t warp_xor(uint32_t value, uint32_t lanes)
{
    return __shfl_xor_sync(ALL_LANES, value, lanes);
}

/* A bit for each lane: is its condition true? */
LMC_DEVICE uint32_t warp_ballot(uint32_t condition)
{
    return __ballot_sync(ALL_LANES, condition != 0);
}

LMC_DEVICE uint32_t bit_count(uint32_t bits)
{
    return (uint32_t)__popc(bits);
}

/* Byte i of the result is byte (selector >> 4 i) % 8 of the 8 bytes b, a. */
LMC_DEVICE uint32_t byte_permute(uint32_t a, uint32_t b, uint32_t selector)
{
    return __byte_perm(a, b, selector);
}

/* The lower 32 bits of (high, low) >> shift % 32. */
LMC_DEVICE uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t shift)
{
    return __funnelshift_r(low, high, shift);
}

/* Adds the lower halves and the upper halves, each mod 2^16. */
LMC_DEVICE uint32_t add_halves(uint32_t a, uint32_t b)
{
    return __vadd2(a, b);
}

LMC_DEVICE uint64_t multiply_high(uint64_t a, uint64_t b)
{
    return __umul64hi(a, b);
}

LMC_DEVICE void atomic_or(uint32_t *word, uint32_t bits)
{
    atomicOr(word, bits);
}

/* The word at an address that is a multiple of 4. */
LMC_DEVICE uint32_t load_aligned(device_address address)
{
    return *(const uint32_t *)address;
}

/* Asks for the line of 128 bytes at the address to be brought to the L2 cache. */
LMC_DEVICE void fetch_ahead(device_address address)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

/* Four words that are read and written at once, at a multiple of 16. */
typedef struct __align__(16) words4
{
    uint32_t word[4];
}
words4;

LMC_DEVICE void store_words4(void *dst, const words4 *words)
{
    *(uint4 *)dst = make_uint4(words->word[0], words->word[1], words->word[2], words->word[3]);
}

/* The thread block's shared memory: declares a pointer to it. */
#define LMC_SHARED(type, name)                                          \
    __shared__ __align__(16) unsigned char name##_memory[sizeof(type)]; \
    type *const name = (type *)name##_memory

#endif
