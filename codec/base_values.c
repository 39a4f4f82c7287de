/* base_values.c - what a base stands for. */
#include "base_values.h"

const uint8_t *lmc_base_values(lmc_base_form form, const uint8_t *base, size_t content_nbytes, uint8_t *room)
{
    if (form == LMC_BASE_PLAIN)
        return base;
    for (size_t i = 0; i < content_nbytes / 2; i++)
        lmc_store16(room + 2 * i, lmc_round_to_bf16(lmc_load32(base + 4 * i)));
    return room;
}
