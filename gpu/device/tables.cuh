/*
 * tables.cuh - small tables in shared memory: bits and bytes are brought to the places of a mask by them.
 */
#ifndef LMC_GPU_DEVICE_TABLES_CUH
#define LMC_GPU_DEVICE_TABLES_CUH

#include "gpu/device/thread_block.cuh"

/* Fills in the tables of shared memory, once for all blocks. */
LMC_DEVICE void make_tables(shared_state *shared)
{
    for (uint32_t i = cta_thread(); i < 256; i += LMC_CUDA_THREADS) {
        /* i: a mask of 4 bits above 4 bits that go to its places. The result has their number above it. */
        uint32_t deposited = 0, used = 0;
        for (uint32_t bit = 0; bit < 4; bit++)
            if (i >> (4 + bit) & 1)
                deposited |= (i >> used++ & 1) << bit;
        shared->deposit[i] = (uint8_t)(deposited | used << 4);
    }
    if (cta_thread() < 16) {
        /* Selectors for byte_permute(list, symbols): the next byte of the list where the mask has a bit. */
        uint32_t selector = 0, used = 0;
        for (uint32_t i = 0; i < 4; i++)
            selector |= (cta_thread() >> i & 1 ? used++ : 4 + i) << 4 * i;
        shared->select[cta_thread()] = selector;
    }
}

/* The lowest bits of `bits`, at the places of the mask's bits. */
LMC_DEVICE uint32_t deposit_bits(const uint8_t *deposit, uint32_t bits, uint32_t mask)
{
    uint32_t result = 0;
    LMC_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t entry = deposit[(mask >> 4 * i & 15) << 4 | (bits & 15)];
        bits >>= entry >> 4;
        result = funnel_right(result, entry, 4);
    }
    return result;
}

#endif
