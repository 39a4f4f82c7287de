/*
 * avx512_rans_impl.h - rANS codes with AVX-512: sixteen lanes in a register, four registers.
 */
#ifndef LMC_CODEC_KERNELS_AVX512_AVX512_RANS_IMPL_H
#define LMC_CODEC_KERNELS_AVX512_AVX512_RANS_IMPL_H

#include "codec/kernels/shared/rans_loops_impl.h"

#define RANS_REGISTERS 4

/* One step of those of sixteen lanes that are in `live`. */
LMC_INLINE __m512i rans_advance(__m512i state, __m512i slot, __mmask16 live, const uint8_t **words)
{
    const __m512i quotient = _mm512_srli_epi32(state, LMC_FMT_RANS_TOTAL_LOG2);
    const __m512i frequency_less_1 = _mm512_and_si512(_mm512_srli_epi32(slot, 8), _mm512_set1_epi32(0xfff));
    const __m512i rest = _mm512_add_epi32(quotient, _mm512_srli_epi32(slot, 20));
    const __m512i x =
        _mm512_mask_add_epi32(state, live, _mm512_mullo_epi32(frequency_less_1, quotient), rest);
    const __mmask16 is_small =
        _mm512_cmplt_epu32_mask(x, _mm512_set1_epi32(1 << 16)); /* no other lane's is */
    const __m512i next = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)*words));
    const __m512i word = _mm512_maskz_expand_epi32(is_small, next);
    *words += 2 * lmc_popcount64(is_small);
    return _mm512_mask_or_epi32(x, is_small, _mm512_slli_epi32(x, 16), word);
}

LMC_INLINE void rans_decode_group(const lmc_rans_slot *slots, __m512i state[RANS_REGISTERS], uint64_t live,
                                  const uint8_t **words, uint8_t *symbols)
{
    const __m512i slot_mask = _mm512_set1_epi32(LMC_FMT_RANS_TOTAL - 1);
    __m512i slot[RANS_REGISTERS];
    for (unsigned k = 0; k < RANS_REGISTERS; k++)
        slot[k] = _mm512_i32gather_epi32(_mm512_and_si512(state[k], slot_mask), slots, 4);
    for (unsigned k = 0; k < RANS_REGISTERS; k++) {
        state[k] = rans_advance(state[k], slot[k], (__mmask16)(live >> 16 * k), words);
        _mm_storeu_si128((__m128i *)(void *)(symbols + 16 * k), _mm512_cvtepi32_epi8(slot[k]));
    }
}

static void rans_decode(const lmc_rans_slot *slots, lmc_rans_in *in, size_t n, uint8_t *symbols)
{
    const uint8_t *words = in->words;
    __m512i state[RANS_REGISTERS];
    for (unsigned k = 0; k < RANS_REGISTERS; k++)
        state[k] = _mm512_loadu_si512(in->state + 16 * k);
    size_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        rans_decode_group(slots, state, ALL, &words, symbols + i);
    if (i < n)
        rans_decode_group(slots, state, lmc_low_mask((unsigned)(n - i)), &words, symbols + i);
    for (unsigned k = 0; k < RANS_REGISTERS; k++)
        _mm512_storeu_si512(in->state + 16 * k, state[k]);
    in->words = words;
}

/* One step back of those of sixteen lanes that are in `live`. fields: frequency and start of their symbols. All
 * roundings are down, so that the estimate is the quotient or, since it has 20 bits and the error is less than
 * 3 / 2^23 of it, one less. */
LMC_INLINE __m512i rans_retreat(__m512i state, __m512i fields, __mmask16 live, uint8_t **words)
{
    enum { DOWN = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC };
    const __m512i frequency = _mm512_and_si512(fields, _mm512_set1_epi32(0xffff));
    const __m512i start = _mm512_srli_epi32(fields, 16);
    const __m512i last = _mm512_sub_epi32(_mm512_slli_epi32(frequency, 20), _mm512_set1_epi32(1));
    const __mmask16 is_large = _mm512_mask_cmpgt_epu32_mask(live, state, last);
    const unsigned count = lmc_popcount64(is_large);
    const __m512i large = _mm512_maskz_compress_epi32(is_large, state);
    *words -= 2 * count;
    _mm256_mask_storeu_epi16(*words, (__mmask16)((1u << count) - 1), _mm512_cvtepi32_epi16(large));
    const __m512i x = _mm512_mask_srli_epi32(state, is_large, state, 16);
    const __m512 reciprocal = _mm512_div_round_ps(_mm512_set1_ps(1), _mm512_cvtepi32_ps(frequency), DOWN);
    const __m512 estimate = _mm512_mul_round_ps(_mm512_cvt_roundepu32_ps(x, DOWN), reciprocal, DOWN);
    const __m512i quotient = _mm512_cvtt_roundps_epu32(estimate, _MM_FROUND_NO_EXC);
    const __m512i remainder = _mm512_sub_epi32(x, _mm512_mullo_epi32(quotient, frequency));
    const __mmask16 is_less = _mm512_cmpge_epu32_mask(remainder, frequency);
    const __m512i sum = _mm512_add_epi32(
        _mm512_add_epi32(_mm512_slli_epi32(quotient, LMC_FMT_RANS_TOTAL_LOG2), start), remainder);
    const __m512i step = _mm512_sub_epi32(_mm512_set1_epi32(LMC_FMT_RANS_TOTAL), frequency);
    return _mm512_mask_mov_epi32(state, live, _mm512_mask_add_epi32(sum, is_less, sum, step));
}

static unsigned rans_encode(const lmc_rans_symbol *table, lmc_rans_out *out, const uint8_t *symbols, size_t n)
{
    /* frequency and start are one number to a gather, which multiplies by 8 at most */
    const uint8_t *const fields_of_0 = (const uint8_t *)&table->frequency;
    _Static_assert(sizeof(lmc_rans_symbol) == 16 &&
                       offsetof(lmc_rans_symbol, start) == offsetof(lmc_rans_symbol, frequency) + 2,
                   "a gather finds frequency and start");
    uint8_t *words = out->words;
    __m512i state[RANS_REGISTERS];
    __mmask16 missing = 0;
    for (unsigned k = 0; k < RANS_REGISTERS; k++)
        state[k] = _mm512_loadu_si512(out->state + 16 * k);
    for (size_t left = n; left > 0;) {
        const size_t lane_count = (left - 1) % GROUP + 1;
        const uint64_t live = lmc_low_mask((unsigned)lane_count);
        left -= lane_count;
        __m512i fields[RANS_REGISTERS];
        for (unsigned k = 0; k < RANS_REGISTERS; k++) {
            const __m512i index = _mm512_cvtepu8_epi32(
                _mm_loadu_si128((const __m128i *)(const void *)(symbols + left + 16 * k)));
            fields[k] = _mm512_i32gather_epi32(_mm512_slli_epi32(index, 1), fields_of_0, 8);
            missing |= _mm512_mask_testn_epi32_mask((__mmask16)(live >> 16 * k), fields[k],
                                                    _mm512_set1_epi32(0xffff));
        }
        for (unsigned k = RANS_REGISTERS; k-- > 0;)
            state[k] = rans_retreat(state[k], fields[k], (__mmask16)(live >> 16 * k), &words);
    }
    for (unsigned k = 0; k < RANS_REGISTERS; k++)
        _mm512_storeu_si512(out->state + 16 * k, state[k]);
    out->words = words;
    return missing != 0;
}

#endif
