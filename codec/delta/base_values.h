/*
 * base_values.h - the base (format.md "Base"): its length is checked, and its bytes become values like the content's.
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

/* The base must be as long as the content asks for. This is checked before a byte of the base is read. Error: BASE. */
LMC_NODISCARD lmc_status lmc_base_check_nbytes(lmc_base_form form, uint64_t content_nbytes,
                                               size_t base_nbytes, lmc_diag *diag);

/* As lmc_base_check_nbytes(); also, the base must not lie where dst_nbytes bytes may be written. Errors: BASE, ARG. */
LMC_NODISCARD lmc_status lmc_base_check(lmc_base_form form, uint64_t content_nbytes, const uint8_t *base,
                                        size_t base_nbytes, const uint8_t *dst, size_t dst_nbytes,
                                        lmc_diag *diag);

/* The values of the part of the base that belongs to a block: content_nbytes bytes. With LMC_BASE_PLAIN they are the
 * bytes themselves. With LMC_BASE_BF16_OF_F32 they are written to `room`, of content_nbytes bytes. */
const uint8_t *lmc_base_values(lmc_base_form form, const uint8_t *base, size_t content_nbytes, uint8_t *room);

/* An F32 rounded to BF16: to nearest, ties to even. NaN keeps its sign and becomes 7fc0. */
LMC_INLINE uint16_t lmc_round_to_bf16(uint32_t bits)
{
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16 & 0x8000u) | 0x7fc0u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

#endif
