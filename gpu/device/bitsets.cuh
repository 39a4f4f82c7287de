/*
 * bitsets.cuh - bitsets (docs/format.md, section 7) as words of 32 flags, in any mode.
 */
#ifndef LMC_GPU_DEVICE_BITSETS_CUH
#define LMC_GPU_DEVICE_BITSETS_CUH

#include "gpu/device/hierarchies.cuh"

/* Flags between two entries of the ranks of a unary plane. */
#define RANK_BITS 128u

LMC_DEVICE void fill_flags(uint32_t *flags, uint32_t n, uint32_t is_set)
{
    for (uint32_t word = cta_thread(); word * 32 < n; word += LMC_CUDA_THREADS)
        flags[word] = is_set ? valid_bits(n, word) : 0;
}

LMC_DEVICE void invert_flags(uint32_t *flags, uint32_t n)
{
    for (uint32_t word = cta_thread(); word * 32 < n; word += LMC_CUDA_THREADS)
        flags[word] ^= valid_bits(n, word);
}

/* Bits set among bits `first` to first + RANK_BITS - 1 of a plane of n, but none from bit `end` on. */
LMC_DEVICE uint32_t count_bits(const uint8_t *plane, uint32_t first, uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = first; i < end && i < first + RANK_BITS; i += 32)
        count += bit_count(load_bits(plane, i) & valid_bits(end - i, 0));
    return count;
}

/* Fills in how many bits of a plane are set before each group of RANK_BITS. Returns how many are set. All threads take
 * part. */
LMC_DEVICE uint32_t rank_plane(thread_state *thread, const uint8_t *plane, uint32_t n, uint32_t *ranks)
{
    uint32_t all = 0;
    for (uint32_t first = 0; first * RANK_BITS < n; first += LMC_CUDA_THREADS) {
        const uint32_t group = first + cta_thread();
        const uint32_t count = group * RANK_BITS < n ? count_bits(plane, group * RANK_BITS, n) : 0;
        uint32_t total;
        const uint32_t before = cta_scan(thread, count, &total);
        if (group * RANK_BITS < n)
            ranks[group] = all + before;
        all += total;
    }
    return all;
}

/* Reads the unary planes of m quotients and ranks them. Returns how many planes there are, and in *outcome whether they
 * are right. All threads take part. */
LMC_DEVICE uint32_t read_unary(thread_state *thread, block_reader *reader, uint32_t m, uint32_t *outcome)
{
    shared_state *const shared = thread->shared;
    const lmc_cuda_scratch *const layout = &thread->job->layout;
    uint32_t *const ranks = (uint32_t *)(thread->scratch + layout->ranks_at);
    uint32_t count = 0, at = 0;
    while (count < LMC_FMT_GAP_UNARY_COUNT_MAX && m >= LMC_FMT_GAP_UNARY_VALUES_MIN) {
        const uint8_t *const plane = read_plane(reader, m);
        const uint32_t groups = (m + RANK_BITS - 1) / RANK_BITS;
        if (!plane || groups > layout->rank_count - at) {
            *outcome = LMC_CUDA_CORRUPT;
            return count;
        }
        if (cta_thread() == 0) {
            shared->unary[count] = plane;
            shared->unary_ranks_at[count] = at;
        }
        m = rank_plane(thread, plane, m, ranks + at);
        at += groups;
        count++;
    }
    const uint8_t *const remaining = read_span(reader, m);
    if (cta_thread() == 0)
        shared->literals = remaining;
    *outcome = remaining ? GOES_ON : LMC_CUDA_CORRUPT;
    cta_barrier();
    return count;
}

/* Quotient i: each unary plane says whether there is more of it, and the rank in the plane where. */
LMC_DEVICE uint32_t find_quotient(const thread_state *thread, uint32_t unary_count, uint32_t i)
{
    const shared_state *const shared = thread->shared;
    const uint32_t *const ranks = (const uint32_t *)(thread->scratch + thread->job->layout.ranks_at);
    for (uint32_t t = 0; t < unary_count; t++) {
        const uint8_t *const plane = shared->unary[t];
        if ((plane[i / 8] >> i % 8 & 1) == 0)
            return t;
        const uint32_t group = i / RANK_BITS;
        i = ranks[shared->unary_ranks_at[t] + group] + count_bits(plane, group * RANK_BITS, i);
    }
    return unary_count + shared->literals[i];
}

LMC_DEVICE uint32_t find_gap(const thread_state *thread, const uint8_t *low, uint32_t low_nbits,
                             uint32_t unary_count, uint32_t m, uint32_t i)
{
    uint32_t gap = find_quotient(thread, unary_count, i) << low_nbits;
    for (uint32_t bit = 0; bit < low_nbits; bit++)
        gap |= (uint32_t)(low[bit * ((m + 7) / 8) + i / 8] >> i % 8 & 1) << bit;
    return gap;
}

/* Reads the gaps between members to flags. All threads take part. */
LMC_DEVICE uint32_t read_gaps(thread_state *thread, block_reader *reader, uint32_t n, uint32_t *flags)
{
    uint32_t is_cut_short = 0, outcome = GOES_ON, end = 0;
    const uint32_t m = read_number(reader, count_nbytes(n), &is_cut_short);
    const uint32_t low_nbits = read_number(reader, 1, &is_cut_short);
    const uint8_t *const low = reader->next;
    if (is_cut_short || m == 0 || m > n || low_nbits > LMC_FMT_GAP_LOW_NBITS_MAX)
        return LMC_CUDA_CORRUPT;
    for (uint32_t bit = 0; bit < low_nbits; bit++)
        if (!read_plane(reader, m))
            return LMC_CUDA_CORRUPT;
    const uint32_t unary_count = read_unary(thread, reader, m, &outcome);
    if (outcome != GOES_ON)
        return outcome;
    fill_flags(flags, n, 0);
    cta_barrier();
    for (uint32_t first = 0; first < m; first += LMC_CUDA_THREADS) {
        const uint32_t i = first + cta_thread();
        uint32_t taken = 0, total; /* places of the gap and the member; more than n do not fit anyway */
        if (i < m) {
            const uint32_t gap = find_gap(thread, low, low_nbits, unary_count, m, i);
            taken = (gap < n ? gap : n) + 1;
        }
        const uint32_t place = end + cta_scan(thread, taken, &total) + taken - 1;
        if (total > n - end)
            return LMC_CUDA_CORRUPT;
        if (taken != 0)
            atomic_or(&flags[place / 32], 1u << place % 32);
        end += total;
    }
    return GOES_ON;
}

LMC_DEVICE uint32_t read_bitmap(block_reader *reader, uint32_t n, uint32_t *flags)
{
    const uint8_t *const plane = read_plane(reader, n);
    if (!plane)
        return LMC_CUDA_CORRUPT;
    for (uint32_t word = cta_thread(); word * 32 < n; word += LMC_CUDA_THREADS)
        flags[word] = load_bits(plane, word * 32) & valid_bits(n, word);
    return GOES_ON;
}

/* Reads a bitset of n flags in any mode but hierarchical ones. All threads take part, and meet at the end. */
LMC_DEVICE uint32_t read_flags(thread_state *thread, block_reader *reader, uint32_t mode, uint32_t n,
                               uint32_t *flags)
{
    uint32_t outcome = GOES_ON;
    switch (mode) {
    case LMC_FMT_BITSET_BITMAP: outcome = read_bitmap(reader, n, flags); break;
    case LMC_FMT_BITSET_GAPS_OF_ONES:
    case LMC_FMT_BITSET_GAPS_OF_ZEROS: outcome = read_gaps(thread, reader, n, flags); break;
    case LMC_FMT_BITSET_NONE: fill_flags(flags, n, 0); break;
    case LMC_FMT_BITSET_ALL: fill_flags(flags, n, 1); break;
    default: return LMC_CUDA_UNSUPPORTED;
    }
    cta_barrier();
    if (mode == LMC_FMT_BITSET_GAPS_OF_ZEROS && outcome == GOES_ON) {
        invert_flags(flags, n);
        cta_barrier();
    }
    return outcome;
}

/* Completes hierarchical bitmaps as far as what was read allows. Returns how many are left; *next is the bitset that is
 * to be read for the last of them. All threads take part. */
LMC_DEVICE uint32_t complete_hierarchies(thread_state *thread, block_reader *reader, hierarchy *steps,
                                         uint32_t depth, flag_room *next, uint32_t *outcome)
{
    while (depth > 0) {
        hierarchy *const step = &steps[depth - 1];
        if (step->any_count == 0) { /* what was read is its first part */
            step->any_count = count_flags(thread, step->any, (step->n + 1) / 2);
            *outcome = step->any_count != 0 ? GOES_ON : LMC_CUDA_CORRUPT;
            next->n = step->any_count;
            next->flags = step->both;
            return depth;
        }
        *outcome = join_hierarchy(thread, step, reader);
        if (*outcome != GOES_ON)
            return depth;
        if (step->is_of_zeros) {
            invert_flags(step->flags, step->n);
            cta_barrier();
        }
        depth--;
    }
    return 0;
}

/* Reads a bitset of n flags. Hierarchical bitmaps contain bitsets: those that are not complete are on a stack. All
 * threads take part, and meet at the end. */
LMC_DEVICE_CALL uint32_t decode_bitset(thread_state *thread, block_reader *reader, uint32_t n,
                                       uint32_t *flags)
{
    hierarchy steps[HIERARCHY_DEPTH_MAX];
    uint32_t depth = 0, is_cut_short = 0, outcome = GOES_ON;
    flag_room next = {n, flags};
    do {
        const uint32_t mode = read_number(reader, 1, &is_cut_short);
        if (is_cut_short)
            return LMC_CUDA_CORRUPT;
        if (mode == LMC_FMT_BITSET_HIERARCHY_OF_ONES || mode == LMC_FMT_BITSET_HIERARCHY_OF_ZEROS) {
            if (next.n < 2 || depth == HIERARCHY_DEPTH_MAX)
                return LMC_CUDA_CORRUPT;
            begin_hierarchy(thread, steps, depth++, &next, mode == LMC_FMT_BITSET_HIERARCHY_OF_ZEROS);
            continue;
        }
        outcome = read_flags(thread, reader, mode, next.n, next.flags);
        if (outcome == GOES_ON)
            depth = complete_hierarchies(thread, reader, steps, depth, &next, &outcome);
    } while (outcome == GOES_ON && depth > 0);
    return outcome;
}

#endif
