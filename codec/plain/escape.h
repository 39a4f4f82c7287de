/*
 * escape.h - symbols wider than 8 bits: the few that do not fit are LMC_FMT_SYMBOL_ESCAPE in their plane, and
 * their value follows as a u16 at the block's end (format.md "Escapes"). Element by element: they are rare.
 */
#ifndef LMC_CODEC_PLAIN_ESCAPE_H
#define LMC_CODEC_PLAIN_ESCAPE_H

#include "codec/plain/plan_section.h"

/* Appends the values of the escapes among n symbols of the elements at src; returns the new end. */
uint16_t *lmc_escapes_collect(const lmc_coding *coding, const uint8_t *symbols, const uint8_t *src, size_t n,
                              uint16_t *escapes);

/* Mends the elements at dst whose symbols are escapes, reading their values. Error: CORRUPT. */
LMC_NODISCARD lmc_status lmc_escapes_apply(const lmc_coding *coding, const uint8_t *symbols, size_t n,
                                           lmc_reader *reader, uint8_t *dst, lmc_diag *diag);

#endif
