/*
 * avx2_rans_impl.h - rANS codes with AVX2: eight lanes in a register, eight registers. Encoding is done symbol by
 * symbol.
 */
#ifndef LMC_CODEC_KERNELS_AVX2_AVX2_RANS_IMPL_H
#define LMC_CODEC_KERNELS_AVX2_AVX2_RANS_IMPL_H

#include "codec/kernels/shared/byte_orders.h"
#include "codec/kernels/shared/rans_loops_impl.h"

#define RANS_REGISTERS 8

/* One step of eight lanes whose slots are known. */
LMC_INLINE __m256i rans_advance(__m256i state, __m256i slot, const uint8_t **words)
{
    const __m256i quotient = _mm256_srli_epi32(state, LMC_FMT_RANS_TOTAL_LOG2);
    const __m256i frequency_less_1 = _mm256_and_si256(_mm256_srli_epi32(slot, 8), _mm256_set1_epi32(0xfff));
    const __m256i rest = _mm256_add_epi32(quotient, _mm256_srli_epi32(slot, 20));
    const __m256i x = _mm256_add_epi32(_mm256_mullo_epi32(frequency_less_1, quotient), rest);
    const __m256i is_small = _mm256_cmpeq_epi32(_mm256_srli_epi32(x, 16), _mm256_setzero_si256());
    const unsigned small = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(is_small));
    const __m256i next =
        _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)*words)); /* in order */
    const __m256i order =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)&fill_order[small]));
    const __m256i word = _mm256_permutevar8x32_epi32(next, order);
    *words += 2 * lmc_popcount64(small);
    return _mm256_blendv_epi8(x, _mm256_or_si256(_mm256_slli_epi32(x, 16), word), is_small);
}

/* The symbols of 32 lanes from their slots. */
LMC_INLINE __m256i rans_symbols(const __m256i slot[4])
{
    const __m256i low = _mm256_set1_epi32(0xff);
    const __m256i a = _mm256_packus_epi32(_mm256_and_si256(slot[0], low), _mm256_and_si256(slot[1], low));
    const __m256i b = _mm256_packus_epi32(_mm256_and_si256(slot[2], low), _mm256_and_si256(slot[3], low));
    return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static void rans_decode(const lmc_rans_slot *slots, lmc_rans_in *in, size_t n, uint8_t *symbols)
{
    const __m256i slot_mask = _mm256_set1_epi32(LMC_FMT_RANS_TOTAL - 1);
    const uint8_t *words = in->words;
    __m256i state[RANS_REGISTERS], slot[RANS_REGISTERS];
    for (unsigned k = 0; k < RANS_REGISTERS; k++)
        state[k] = load256(in->state + 8 * k);
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP) {
        for (unsigned k = 0; k < RANS_REGISTERS; k++)
            slot[k] = _mm256_i32gather_epi32((const int *)slots, _mm256_and_si256(state[k], slot_mask), 4);
        for (unsigned k = 0; k < RANS_REGISTERS; k++)
            state[k] = rans_advance(state[k], slot[k], &words);
        store256(symbols + i, rans_symbols(slot));
        store256(symbols + i + 32, rans_symbols(slot + 4));
    }
    for (unsigned k = 0; k < RANS_REGISTERS; k++)
        store256(in->state + 8 * k, state[k]);
    in->words = words;
    rans_decode_loop(slots, in, n - i, symbols + i);
}

static unsigned rans_encode(const lmc_rans_symbol *table, lmc_rans_out *out, const uint8_t *symbols, size_t n)
{
    return rans_encode_loop(table, out, symbols, n);
}

#endif
