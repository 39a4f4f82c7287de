/* escape.c - collects the values of escapes from elements, and mends elements by them. */
#include "codec/plain/escape.h"

/* An element with its bits rotated left, as the split does. */
static uint64_t load_rotated(const lmc_element_cut *cut, const uint8_t *src)
{
    const unsigned nbits = 8 * cut->element_nbytes;
    const uint64_t x = lmc_load_n(src, cut->element_nbytes);
    return cut->split.rotation ? (x << 1 | x >> (nbits - 1)) & lmc_low_mask(nbits) : x;
}

static void store_rotated(const lmc_element_cut *cut, uint64_t v, uint8_t *dst)
{
    const unsigned nbits = 8 * cut->element_nbytes;
    const uint64_t x = cut->split.rotation ? (v >> 1 | v << (nbits - 1)) & lmc_low_mask(nbits) : v;
    memcpy(dst, &x, cut->element_nbytes);
}

/* All that is added to the high part of element i. */
static uint16_t offset_of(const lmc_element_cut *cut, size_t i)
{
    return (uint16_t)(cut->split.offset + (cut->shift ? cut->shift[i] : 0));
}

uint16_t *lmc_escapes_collect(const lmc_element_cut *cut, const uint8_t *symbols, const uint8_t *src,
                              size_t n, uint16_t *escapes)
{
    const unsigned lower_nbits = 8 * cut->element_nbytes - LMC_FMT_HIGH_NBITS;
    for (size_t i = 0; i < n; i++) {
        if (symbols[i] != LMC_FMT_SYMBOL_ESCAPE)
            continue;
        const uint16_t high = (uint16_t)(load_rotated(cut, src + i * cut->element_nbytes) >> lower_nbits);
        *escapes++ = (uint16_t)(high + offset_of(cut, i)) >> cut->split.low_nbits;
    }
    return escapes;
}

lmc_status lmc_escapes_apply(const lmc_element_cut *cut, const uint8_t *symbols, size_t n, lmc_reader *reader,
                             uint8_t *dst, lmc_diag *diag)
{
    const unsigned lower_nbits = 8 * cut->element_nbytes - LMC_FMT_HIGH_NBITS;
    const unsigned low_nbits = cut->split.low_nbits;
    const uint64_t high_mask = (UINT64_C(0xffff)) << lower_nbits;
    const uint8_t *const end = symbols + n;
    for (const uint8_t *s = symbols; (s = memchr(s, LMC_FMT_SYMBOL_ESCAPE, (size_t)(end - s))) != NULL; s++) {
        const unsigned wide = (unsigned)lmc_read_n(reader, 2);
        if (reader->failed || wide >> (LMC_FMT_HIGH_NBITS - low_nbits) != 0)
            return lmc_corrupt(diag, 0, "block: an escape is missing or too wide");
        const size_t i = (size_t)(s - symbols);
        const uint16_t offset = offset_of(cut, i);
        uint8_t *const element = dst + i * cut->element_nbytes;
        const uint64_t v = load_rotated(cut, element);
        const unsigned low = ((unsigned)(v >> lower_nbits) + offset) & ((1u << low_nbits) - 1);
        const uint16_t high = (uint16_t)((wide << low_nbits | low) - offset);
        store_rotated(cut, (v & ~high_mask) | (uint64_t)high << lower_nbits, element);
    }
    return LMC_OK;
}
