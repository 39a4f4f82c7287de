/*
 * avx512_gaps_impl.h - gaps between the members of a bitset, for kernels/avx512/avx512.c, 16 gaps to a register. Places
 * come from compression of their numbers, planes from bit tests, unary planes from compression and expansion.
 */
#ifndef LMC_CODEC_KERNELS_AVX512_AVX512_GAPS_IMPL_H
#define LMC_CODEC_KERNELS_AVX512_AVX512_GAPS_IMPL_H

#define GAP_LANES 16

/* The first nbytes <= 8 bytes of a word. */
LMC_INLINE void store_word(uint8_t *p, uint64_t word, size_t nbytes)
{
    _mm_mask_storeu_epi8(p, (__mmask16)_bzhi_u32(0xff, (unsigned)nbytes), _mm_cvtsi64_si128((long long)word));
}

LMC_INLINE uint64_t load_word(const uint8_t *p, size_t nbytes)
{
    return (uint64_t)_mm_cvtsi128_si64(_mm_maskz_loadu_epi8((__mmask16)_bzhi_u32(0xff, (unsigned)nbytes), p));
}

LMC_INLINE uint64_t load_plane_word(const uint8_t *plane, size_t n, size_t i)
{
    return load_word(plane + i / 8, lmc_bits_nbytes(lmc_min_size(n - i, GROUP)));
}

/* Writes the places of the members of a word. */
LMC_INLINE void list_places(uint64_t word, uint32_t first, uint32_t *places)
{
    const __m512i base = _mm512_set1_epi32((int)first);
    const __m512i found = _mm512_maskz_compress_epi8(word, _mm512_loadu_si512(bytes_in_order));
    const unsigned count = lmc_popcount64(word);
    _mm512_storeu_si512(places, _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_castsi512_si128(found)), base));
    if (LMC_LIKELY(count <= GAP_LANES))
        return;
    uint8_t rest[GROUP];
    _mm512_storeu_si512(rest, found);
    for (unsigned i = GAP_LANES; i < count; i += GAP_LANES) {
        const __m128i part = _mm_loadu_si128((const __m128i *)(const void *)(rest + i));
        _mm512_storeu_si512(places + i, _mm512_add_epi32(_mm512_cvtepu8_epi32(part), base));
    }
}

static size_t gaps_find(const uint64_t *bitset, size_t n, int inverted, uint32_t *gaps)
{
    const uint64_t inversion = inverted ? ALL : 0;
    size_t m = 0;
    for (size_t i = 0; i < n; i += GROUP) {
        uint64_t word = bitset[i / GROUP] ^ inversion;
        if (n - i < GROUP)
            word = _bzhi_u64(word, (unsigned)(n - i));
        if (word == 0)
            continue;
        list_places(word, (uint32_t)i, gaps + m);
        m += lmc_popcount64(word);
    }
    __m512i before = _mm512_set1_epi32(-1);
    for (size_t i = 0; i < m; i += GAP_LANES) {
        const __m512i place = _mm512_loadu_si512(gaps + i);
        const __m512i last = _mm512_alignr_epi32(place, before, GAP_LANES - 1);
        /* place - last - 1 */
        _mm512_storeu_si512(gaps + i, _mm512_add_epi32(place, _mm512_xor_si512(last, _mm512_set1_epi32(-1))));
        before = place;
    }
    return m;
}

static void gaps_cut(uint32_t *gaps, size_t n, unsigned low_nbits, uint8_t *planes)
{
    const size_t plane_nbytes = lmc_bits_nbytes(n);
    const __m128i low = _mm_cvtsi32_si128((int)low_nbits);
    for (size_t i = 0; i < n; i += GROUP) {
        const size_t m = lmc_min_size(n - i, GROUP);
        __m512i gap[GROUP / GAP_LANES];
        for (unsigned j = 0; j < GROUP / GAP_LANES; j++) {
            gap[j] = _mm512_loadu_si512(gaps + i + j * GAP_LANES);
            _mm512_storeu_si512(gaps + i + j * GAP_LANES, _mm512_srl_epi32(gap[j], low));
        }
        for (unsigned b = 0; b < low_nbits; b++) {
            const __m512i bit = _mm512_set1_epi32((int)(1u << b));
            uint64_t word = 0;
            for (unsigned j = 0; j < GROUP / GAP_LANES; j++)
                word |= (uint64_t)_mm512_test_epi32_mask(gap[j], bit) << (j * GAP_LANES);
            store_word(planes + b * plane_nbytes + i / 8, _bzhi_u64(word, (unsigned)m), lmc_bits_nbytes(m));
        }
    }
}

static size_t gaps_unary_split(uint32_t *quotients, size_t n, uint8_t *plane)
{
    const __m512i one = _mm512_set1_epi32(1);
    size_t left = 0;
    for (size_t i = 0; i < n; i += GROUP) {
        const size_t m = lmc_min_size(n - i, GROUP);
        uint64_t word = 0;
        for (unsigned j = 0; j < m; j += GAP_LANES) {
            const __m512i q = _mm512_loadu_si512(quotients + i + j);
            const __mmask16 on = (__mmask16)_bzhi_u32(_mm512_test_epi32_mask(q, q),
                                                      (unsigned)(m - j)); /* 8 bits of it count */
            word |= (uint64_t)on << j;
            _mm512_storeu_si512(quotients + left, _mm512_maskz_compress_epi32(on, _mm512_sub_epi32(q, one)));
            left += lmc_popcount64(on);
        }
        store_word(plane + i / 8, word, lmc_bits_nbytes(m));
    }
    return left;
}

/* Works from the back: the quotients left never outgrow those of the plane before. */
static void gaps_unary_join(const uint8_t *plane, size_t n, uint32_t *quotients, size_t left)
{
    const __m512i one = _mm512_set1_epi32(1);
    for (size_t i = (n - 1) / GROUP * GROUP; i < n; i -= GROUP) {
        const uint64_t word = load_plane_word(plane, n, i);
        for (unsigned j = GROUP; j > 0;) {
            j -= GAP_LANES;
            const __mmask16 on = (__mmask16)(word >> j);
            left -= lmc_popcount64(on);
            const __m512i q = _mm512_add_epi32(_mm512_loadu_si512(quotients + left), one);
            _mm512_storeu_si512(quotients + i + j, _mm512_maskz_expand_epi32(on, q));
        }
    }
}

static void gaps_join(const uint8_t *planes, size_t n, unsigned low_nbits, uint32_t *gaps)
{
    const size_t plane_nbytes = lmc_bits_nbytes(n);
    const __m128i low = _mm_cvtsi32_si128((int)low_nbits);
    for (size_t i = 0; i < n; i += GROUP) {
        __m512i gap[GROUP / GAP_LANES];
        for (unsigned j = 0; j < GROUP / GAP_LANES; j++)
            gap[j] = _mm512_sll_epi32(_mm512_loadu_si512(gaps + i + j * GAP_LANES), low);
        for (unsigned b = 0; b < low_nbits; b++) {
            const uint64_t word = load_plane_word(planes + b * plane_nbytes, n, i);
            const __m512i bit = _mm512_set1_epi32((int)(1u << b));
            for (unsigned j = 0; j < GROUP / GAP_LANES; j++)
                gap[j] = _mm512_mask_or_epi32(gap[j], (__mmask16)(word >> j * GAP_LANES), gap[j], bit);
        }
        for (unsigned j = 0; j < GROUP / GAP_LANES; j++)
            _mm512_storeu_si512(gaps + i + j * GAP_LANES, gap[j]);
    }
}

#endif
