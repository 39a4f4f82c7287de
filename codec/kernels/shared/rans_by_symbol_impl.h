/* rans_by_symbol_impl.h - rANS codes in portable C, for sets that cannot look up by lanes: scalar and NEON. */
#ifndef LMC_CODEC_KERNELS_SHARED_RANS_BY_SYMBOL_IMPL_H
#define LMC_CODEC_KERNELS_SHARED_RANS_BY_SYMBOL_IMPL_H

#include "codec/kernels/shared/rans_loops_impl.h"

static void rans_decode(const lmc_rans_slot *slots, lmc_rans_in *in, size_t n, uint8_t *symbols)
{
    rans_decode_loop(slots, in, n, symbols);
}

static unsigned rans_encode(const lmc_rans_symbol *table, lmc_rans_out *out, const uint8_t *symbols, size_t n)
{
    return rans_encode_loop(table, out, symbols, n);
}

#endif
