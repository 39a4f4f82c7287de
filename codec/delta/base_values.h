/*
 * base_values.h - the base of a block: verified, and as values like those of the content (format.md "Base").
 */
#ifndef LMC_CODEC_DELTA_BASE_VALUES_H
#define LMC_CODEC_DELTA_BASE_VALUES_H

#include "codec/common/diag.h"
#include "codec/kernels/kernels.h"
#include "lmc.h"

/* Bytes of the base for each byte of content. */
LMC_INLINE unsigned lmc_base_scale(lmc_base_form form)
{
    return form == LMC_BASE_BF16_OF_F32 ? 2 : 1;
}

/* The caller's base must be as long as so much content wants it, which is found before a byte of it is read. Error:
 * BASE. */
LMC_NODISCARD lmc_status lmc_base_check_nbytes(lmc_base_form form, uint64_t content_nbytes,
                                               size_t base_nbytes, lmc_diag *diag);

/* The same for one that must not lie where dst_nbytes bytes may be written, either. Errors: BASE, ARG. */
LMC_NODISCARD lmc_status lmc_base_check(lmc_base_form form, uint64_t content_nbytes, const uint8_t *base,
                                        size_t base_nbytes, const uint8_t *dst, size_t dst_nbytes,
                                        lmc_diag *diag);

/* The values that the base's part of a block stands for: content_nbytes bytes. LMC_BASE_PLAIN: these are the
 * bytes themselves; LMC_BASE_BF16_OF_F32: `room` (content_nbytes bytes) is filled. */
const uint8_t *lmc_base_values(lmc_base_form form, const uint8_t *base, size_t content_nbytes, uint8_t *room);

/* An F32 rounded to BF16: to nearest, ties to even. NaN keeps its sign and becomes 7fc0. */
LMC_INLINE uint16_t lmc_round_to_bf16(uint32_t bits)
{
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16 & 0x8000u) | 0x7fc0u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

#endif
