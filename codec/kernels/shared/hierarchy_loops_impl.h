/*
 * hierarchy_loops_impl.h - counts bitsets, and one step of hierarchical bitmaps, word by word, for every kernel set.
 * The including set has defined gather_bits(x, mask), which is pext, scatter_word(x, mask), which is pdep,
 * gather_even(x) and scatter_even(x) for the mask EVEN_BITS, and count_bits(x).
 */
#ifndef LMC_CODEC_KERNELS_SHARED_HIERARCHY_LOOPS_IMPL_H
#define LMC_CODEC_KERNELS_SHARED_HIERARCHY_LOOPS_IMPL_H

static size_t bitset_count(const uint64_t *bitset, size_t word_count)
{
    size_t count = 0;
    for (size_t i = 0; i < word_count; i++)
        count += count_bits(bitset[i]);
    return count;
}

/* The first bits of a word's pairs in the lower half, the second bits in the upper half. */
LMC_INLINE uint64_t part_pairs(uint64_t word)
{
    return gather_even(word) | gather_even(word >> 1) << 32;
}

static size_t hierarchy_split(const uint64_t *bitset, size_t n, int inverted, uint64_t *any, uint64_t *both,
                              uint64_t *second)
{
    const uint64_t inversion = inverted ? ~UINT64_C(0) : 0;
    const uint64_t half = UINT64_C(0xffffffff);
    lmc_bit_writer both_writer = {(uint8_t *)both, 0, 0};
    lmc_bit_writer second_writer = {(uint8_t *)second, 0, 0};
    for (size_t i = 0; i < n; i += 128) { /* 64 pairs */
        uint64_t word[2] = {bitset[i / 64] ^ inversion, n - i > 64 ? bitset[i / 64 + 1] ^ inversion : 0};
        if (n - i < 128)
            word[n - i > 64] &= lmc_low_mask((unsigned)(n - i > 64 ? n - i - 64 : n - i));
        const uint64_t lower = part_pairs(word[0]), upper = part_pairs(word[1]);
        const uint64_t one = (lower & half) | upper << 32, two = lower >> 32 | (upper & ~half);
        const uint64_t member = one | two, single = one ^ two;
        any[i / 128] = member;
        lmc_put_bits(&both_writer, gather_bits(one & two, member), count_bits(member));
        lmc_put_bits(&second_writer, gather_bits(two, single), count_bits(single));
    }
    lmc_store64(both_writer.next, both_writer.pending);
    lmc_store64(second_writer.next, second_writer.pending);
    return (size_t)lmc_bits_written(&both_writer, (const uint8_t *)both);
}

static void hierarchy_join(const uint64_t *any, const uint64_t *both, const uint64_t *second, size_t n,
                           uint64_t *bitset)
{
    uint64_t both_at = 0, second_at = 0;
    for (size_t i = 0; i < n; i += 128) { /* 64 pairs */
        const uint64_t member = any[i / 128];
        const uint64_t all = scatter_word(lmc_load_bits((const uint8_t *)both, both_at), member);
        const uint64_t single = member ^ all;
        const uint64_t twos = scatter_word(lmc_load_bits((const uint8_t *)second, second_at), single);
        const uint64_t one = member ^ twos, two = all | twos;
        both_at += count_bits(member);
        second_at += count_bits(single);
        bitset[i / 64] = scatter_even(one) | scatter_even(two) << 1;
        if (n - i > 64)
            bitset[i / 64 + 1] = scatter_even(one >> 32) | scatter_even(two >> 32) << 1;
    }
}

#endif
