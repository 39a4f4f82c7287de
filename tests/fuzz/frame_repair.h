/*
 * frame_repair.h - gives a frame the check that its head and tail should have (docs/format.md, section 2.3), so that a
 * changed input gets behind it.
 */
#ifndef LMC_FUZZ_FRAME_REPAIR_H
#define LMC_FUZZ_FRAME_REPAIR_H

#include <lmc.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define FUZZ_CHECK_NBYTES 8 /* at a frame's end, and at the end of a chunk's head */

static inline void fuzz_store_u64(uint8_t *dst, uint64_t value)
{
    for (size_t i = 0; i < 8; i++) {
        dst[i] = (uint8_t)(value >> 8 * i);
    }
}

/* Leaves alone what is not long enough to be a frame. */
static inline void fuzz_repair_frame(uint8_t *frame, size_t nbytes)
{
    lmc_info info;
    if (lmc_read_info(frame, nbytes, &info, NULL) != LMC_OK || info.head_nbytes > nbytes ||
        info.tail_nbytes > nbytes - info.head_nbytes || info.tail_nbytes < FUZZ_CHECK_NBYTES) {
        return;
    }
    const size_t tail_offset = nbytes - (size_t)info.tail_nbytes;
    const uint64_t seed = XXH3_64bits(frame, info.head_nbytes);
    const uint64_t check =
        XXH3_64bits_withSeed(frame + tail_offset, (size_t)info.tail_nbytes - FUZZ_CHECK_NBYTES, seed);
    fuzz_store_u64(frame + nbytes - FUZZ_CHECK_NBYTES, check);
}

#endif
