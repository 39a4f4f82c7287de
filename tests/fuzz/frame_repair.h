/*
 * frame_repair.h - gives a frame the check that its head and tail should have (docs/format.md, section 2.3), and the
 * hashes of a base, so that a changed input gets behind them.
 */
#ifndef LMC_FUZZ_FRAME_REPAIR_H
#define LMC_FUZZ_FRAME_REPAIR_H

#include <lmc.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define FUZZ_CHECK_NBYTES 8 /* at a frame's end, and at the end of a chunk's head */

static inline void fuzz_store_u64(uint8_t *dst, uint64_t value)
{
    for (size_t i = 0; i < 8; i++)
        dst[i] = (uint8_t)(value >> 8 * i);
}

#define FUZZ_DELTA_ENTRY_NBYTES 20 /* of the index: u32 stored bytes, u64 content hash, u64 base hash */

/* Writes the hashes of a base (base_nbytes bytes of the frame's head) to the index of a delta frame that is long enough
 * to be one. */
static inline void fuzz_repair_base_hashes(uint8_t *frame, size_t nbytes, const uint8_t *base)
{
    lmc_info info = LMC_INIT(lmc_info);
    if (lmc_frame_read_info(frame, nbytes, &info, NULL) != LMC_OK || info.mode != LMC_FRAME_DELTA ||
        info.head_nbytes > nbytes || info.tail_nbytes > nbytes - info.head_nbytes)
        return;
    uint8_t *entry = frame + nbytes - (size_t)info.tail_nbytes;
    uint64_t left = info.base_nbytes;
    for (uint64_t i = 0; i < info.block_count; i++, entry += FUZZ_DELTA_ENTRY_NBYTES) {
        const size_t part = left < info.base_block_nbytes ? (size_t)left : info.base_block_nbytes;
        fuzz_store_u64(entry + 12, XXH3_64bits(base + i * info.base_block_nbytes, part));
        left -= part;
    }
}

/* Leaves alone what is not long enough to be a frame. */
static inline void fuzz_repair_frame(uint8_t *frame, size_t nbytes)
{
    lmc_info info = LMC_INIT(lmc_info);
    if (lmc_frame_read_info(frame, nbytes, &info, NULL) != LMC_OK || info.head_nbytes > nbytes ||
        info.tail_nbytes > nbytes - info.head_nbytes || info.tail_nbytes < FUZZ_CHECK_NBYTES)
        return;
    const size_t tail_offset = nbytes - (size_t)info.tail_nbytes;
    const uint64_t seed = XXH3_64bits(frame, info.head_nbytes);
    const uint64_t check =
        XXH3_64bits_withSeed(frame + tail_offset, (size_t)info.tail_nbytes - FUZZ_CHECK_NBYTES, seed);
    fuzz_store_u64(frame + nbytes - FUZZ_CHECK_NBYTES, check);
}

#endif
