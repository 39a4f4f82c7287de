/*
 * palette.h - finds the palette of a group: its values in order, and the number of each element. Encoder only.
 */
#ifndef LMC_CODEC_NARROW_PALETTE_H
#define LMC_CODEC_NARROW_PALETTE_H

#include "codec/narrow/narrow.h"

#define LMC_PALETTE_VALUES_MAX 256

/* Finds the palette of n elements of nbytes each at src: of the known_count different values that `palette` begins
 * with, all up to the last one that an element has, then other values in the order of their bits. At most
 * LMC_PALETTE_VALUES_MAX values are kept, those that come first; elements of other values get number 0. palette: room
 * for that many values. Returns how many there are; 0 if more than missed_max elements have other values: there is no
 * palette then. */
unsigned lmc_palette_find(const uint8_t *src, size_t n, unsigned nbytes, size_t missed_max,
                          unsigned known_count, uint8_t *palette, uint8_t *numbers);

/* How many values there are among n elements, at most most + 1: then there are more. most <= LMC_PALETTE_VALUES_MAX. */
unsigned lmc_palette_count(const uint8_t *src, size_t n, unsigned nbytes, unsigned most);

#endif
