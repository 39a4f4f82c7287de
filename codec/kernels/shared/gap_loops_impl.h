/*
 * gap_loops_impl.h - gaps between the members of a bitset as plain loops, for kernel sets that have nothing better.
 * Planes may begin at any byte, and are touched exactly.
 */
#ifndef LMC_CODEC_KERNELS_SHARED_GAP_LOOPS_IMPL_H
#define LMC_CODEC_KERNELS_SHARED_GAP_LOOPS_IMPL_H

static size_t gaps_find(const uint64_t *bitset, size_t n, int inverted, uint32_t *gaps)
{
    size_t m = 0;
    size_t next = 0; /* the least place of the next member */
    for (size_t i = 0; i < n; i += 64) {
        uint64_t word = inverted ? ~bitset[i / 64] : bitset[i / 64];
        if (n - i < 64)
            word &= lmc_low_mask((unsigned)(n - i));
        for (; word != 0; word &= word - 1) {
            const size_t place = i + lmc_lowest_bit(word);
            gaps[m++] = (uint32_t)(place - next);
            next = place + 1;
        }
    }
    return m;
}

static void gaps_cut(uint32_t *gaps, size_t n, unsigned low_nbits, uint8_t *planes)
{
    const size_t plane_nbytes = lmc_bits_nbytes(n);
    for (size_t i = 0; i < n; i += 64) {
        const size_t m = lmc_min_size(n - i, 64);
        for (unsigned b = 0; b < low_nbits; b++) {
            uint64_t word = 0;
            for (size_t j = 0; j < m; j++)
                word |= (uint64_t)(gaps[i + j] >> b & 1) << j;
            memcpy(planes + b * plane_nbytes + i / 8, &word, lmc_bits_nbytes(m));
        }
        for (size_t j = 0; j < m; j++)
            gaps[i + j] >>= low_nbits;
    }
}

/* Without a branch, since about half of the quotients go on. */
static size_t gaps_unary_split(uint32_t *quotients, size_t n, uint8_t *plane)
{
    size_t left = 0;
    for (size_t i = 0; i < n; i += 64) {
        const size_t m = lmc_min_size(n - i, 64);
        uint64_t word = 0;
        for (size_t j = 0; j < m; j++) {
            const uint32_t q = quotients[i + j];
            const uint64_t on = q > 0;
            word |= on << j;
            quotients[left] = q - 1;
            left += on;
        }
        memcpy(plane + i / 8, &word, lmc_bits_nbytes(m));
    }
    return left;
}

/* From the back: the quotients left never outgrow those of the plane before. Without a branch, since about half of
 * them go on. */
static void gaps_unary_join(const uint8_t *plane, size_t n, uint32_t *quotients, size_t left)
{
    for (size_t i = n; i-- > 0;) {
        const uint32_t on = plane[i / 8] >> i % 8 & 1;
        left -= on;
        quotients[i] = (quotients[left] + 1) & (0u - on);
    }
}

static void gaps_join(const uint8_t *planes, size_t n, unsigned low_nbits, uint32_t *gaps)
{
    const size_t plane_nbytes = lmc_bits_nbytes(n);
    for (size_t i = 0; i < n; i++)
        gaps[i] <<= low_nbits;
    for (unsigned b = 0; b < low_nbits; b++)
        for (size_t i = 0; i < n; i++)
            gaps[i] |= (uint32_t)(planes[b * plane_nbytes + i / 8] >> i % 8 & 1) << b;
}

#endif
