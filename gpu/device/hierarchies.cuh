/*
 * hierarchies.cuh - hierarchical bitmaps (docs/format.md, section 7.2): which pairs of flags have a member, which of
 * these have both, and which member the others have.
 */
#ifndef LMC_GPU_DEVICE_HIERARCHIES_CUH
#define LMC_GPU_DEVICE_HIERARCHIES_CUH

#include "gpu/device/tables.cuh"

/* Each step halves the flags, of which a block has 2^20 at most. */
#define HIERARCHY_DEPTH_MAX LMC_FMT_BLOCK_LOG2_MAX

/* A bitset that is to be read. */
typedef struct flag_room {
    uint32_t n;
    uint32_t *flags;
} flag_room;

/* A hierarchical bitmap of which some parts were read. */
typedef struct hierarchy {
    uint32_t n;
    uint32_t is_of_zeros;
    uint32_t any_count; /* pairs with a member; 0 until the first part was read */
    uint32_t *flags, *any, *both;
    uint32_t *room; /* behind both: for what the parts contain */
} hierarchy;

/* Counts the flags that are set. All threads take part. */
LMC_DEVICE uint32_t count_flags(thread_state *thread, const uint32_t *flags, uint32_t n)
{
    uint32_t count = 0, total;
    for (uint32_t word = cta_thread(); word * 32 < n; word += LMC_CUDA_THREADS)
        count += bit_count(flags[word]);
    cta_scan(thread, count, &total);
    return total;
}

/* Puts a hierarchical bitmap of next->n >= 2 flags on the stack; its first part is to be read next. */
LMC_DEVICE void begin_hierarchy(const thread_state *thread, hierarchy *steps, uint32_t depth, flag_room *next,
                                uint32_t is_of_zeros)
{
    const uint32_t pair_count = (next->n + 1) / 2;
    const uint32_t words = pair_count / 32 + LMC_CUDA_FLAGS_SLACK_WORDS;
    hierarchy *const step = &steps[depth];
    step->n = next->n;
    step->is_of_zeros = is_of_zeros;
    step->any_count = 0;
    step->flags = next->flags;
    step->any =
        depth == 0 ? (uint32_t *)(thread->scratch + thread->job->layout.hierarchy_at) : steps[depth - 1].room;
    step->both = step->any + words;
    step->room = step->both + words;
    next->n = pair_count;
    next->flags = step->any;
}

/* 16 bits to the even bits of a word. */
LMC_DEVICE uint32_t spread_bits(uint32_t bits)
{
    bits = (bits | bits << 8) & 0x00ff00ff;
    bits = (bits | bits << 4) & 0x0f0f0f0f;
    bits = (bits | bits << 2) & 0x33333333;
    return (bits | bits << 1) & 0x55555555;
}

/* Reads the last part and makes the flags. A thread has 32 pairs at a time. All threads take part, and meet at the end.
   */
LMC_DEVICE uint32_t join_hierarchy(thread_state *thread, const hierarchy *step, block_reader *reader)
{
    const uint8_t *const deposit = thread->shared->deposit;
    const uint32_t pair_count = (step->n + 1) / 2;
    const uint32_t both_count = count_flags(thread, step->both, step->any_count);
    const uint8_t *const second = read_plane(reader, step->any_count - both_count);
    uint32_t any_before = 0, single_before = 0;
    if (!second)
        return LMC_CUDA_CORRUPT;
    for (uint32_t first = 0; first * 32 < pair_count; first += LMC_CUDA_THREADS) {
        const uint32_t word = first + cta_thread();
        const uint32_t any = word * 32 < pair_count ? step->any[word] : 0;
        uint32_t any_total, single_total;
        const uint32_t any_at = any_before + cta_scan(thread, bit_count(any), &any_total);
        const uint32_t both =
            deposit_bits(deposit, any != 0 ? load_bits((const uint8_t *)step->both, any_at) : 0, any);
        const uint32_t single = any & ~both;
        const uint32_t single_at = single_before + cta_scan(thread, bit_count(single), &single_total);
        const uint32_t seconds =
            deposit_bits(deposit, single != 0 ? load_bits(second, single_at) : 0, single);
        const uint32_t even = both | (single & ~seconds), odd = both | seconds;
        if (word * 32 < pair_count) {
            step->flags[2 * word] = spread_bits(even & 0xffff) | spread_bits(odd & 0xffff) << 1;
            step->flags[2 * word + 1] = spread_bits(even >> 16) | spread_bits(odd >> 16) << 1;
        }
        any_before += any_total;
        single_before += single_total;
    }
    cta_barrier();
    const uint32_t is_beyond = step->n % 2 != 0 && (step->flags[step->n / 32] >> step->n % 32 & 1) != 0;
    cta_barrier(); /* the flags may change from here on */
    return is_beyond ? LMC_CUDA_CORRUPT : GOES_ON;
}

#endif
