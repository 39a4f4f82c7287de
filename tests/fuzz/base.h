/*
 * base.h - the base that the fuzz targets have for every frame that asks for one: the same bytes each time, and the
 * beginning of a longer one is the shorter one, so that a changed length asks for the same base.
 */
#ifndef LMC_FUZZ_BASE_H
#define LMC_FUZZ_BASE_H

#include <stddef.h>
#include <stdint.h>

/* Every second byte is the top of a small BF16 of either sign, the others are noise. */
static inline void fuzz_fill_base(uint8_t *dst, size_t nbytes)
{
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < nbytes; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        const uint8_t noise = (uint8_t)(state >> 24);
        dst[i] = i % 2 ? (uint8_t)((noise & 0x83) | 0x3c) : noise;
    }
}

#endif
