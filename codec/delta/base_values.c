/* base_values.c - checks a base's length and place; rounds F32 values to BF16. */
#include "codec/delta/base_values.h"

void lmc_bf16_of_f32(const void *f32, size_t count, void *bf16)
{
    const uint8_t *const src = f32;
    uint8_t *const dst = bf16;
    for (size_t i = 0; i < count; i++)
        lmc_store16(dst + 2 * i, lmc_round_to_bf16(lmc_load32(src + 4 * i)));
}

lmc_status lmc_base_check_nbytes(lmc_base_form form, uint64_t content_nbytes, size_t base_nbytes,
                                 lmc_diag *diag)
{
    const uint64_t wanted_nbytes = content_nbytes * lmc_base_scale(form);
    if (base_nbytes == wanted_nbytes)
        return LMC_OK;
    return lmc_fail(diag, LMC_ERR_BASE, 0, "a base of %llu bytes is needed, this one has %zu",
                    (unsigned long long)wanted_nbytes, base_nbytes);
}

lmc_status lmc_base_check(lmc_base_form form, uint64_t content_nbytes, const uint8_t *base,
                          size_t base_nbytes, const uint8_t *dst, size_t dst_nbytes, lmc_diag *diag)
{
    LMC_TRY(lmc_base_check_nbytes(form, content_nbytes, base_nbytes, diag));
    return lmc_check_apart("the base", base, base_nbytes, dst, dst_nbytes, diag);
}

const uint8_t *lmc_base_values(lmc_base_form form, const uint8_t *base, size_t content_nbytes, uint8_t *room)
{
    if (form == LMC_BASE_PLAIN)
        return base;
    lmc_bf16_of_f32(base, content_nbytes / 2, room);
    return room;
}
