/* scratch.c - one walk over the members, used to measure and to place. */
#include "codec/prefix/scratch.h"

static uint8_t *take(uint8_t *memory, size_t *used, size_t nbytes)
{
    uint8_t *const p = memory ? memory + *used : NULL;
    *used += (nbytes + LMC_SCRATCH_ALIGNMENT - 1) / LMC_SCRATCH_ALIGNMENT * LMC_SCRATCH_ALIGNMENT;
    return p;
}

static size_t walk_deltas(lmc_scratch *s, size_t n, uint8_t *memory, size_t used)
{
    s->classes = take(memory, &used, n + 64);
    s->heads = take(memory, &used, LMC_HEADS_NBYTES(n));
    s->wide_heads = (uint16_t *)(void *)take(memory, &used, (n + LMC_HEAD_SLACK) * sizeof(uint16_t));
    s->strip_heads = (uint16_t *)(void *)take(memory, &used, (LMC_STRIP_VALUES + 64) * sizeof(uint16_t));
    s->symbols = take(memory, &used, n + LMC_LIST_SLACK);
    s->stored = take(memory, &used, 1 + n * s->unit_nbytes + s->unit_nbytes + LMC_LIST_SLACK);
    s->flips = (uint64_t *)(void *)take(memory, &used, lmc_bits_nbytes(n) + 16);
    s->rung_flags = (uint64_t *)(void *)take(
        memory, &used, LMC_FMT_BUCKET_COUNT * (lmc_bits_nbytes(n) + sizeof(uint64_t) + LMC_PLANE_SLACK));
    return used;
}

/* Three sets of half as many flags on each level, and levels until there is one flag. */
static size_t pairs_words(size_t n)
{
    size_t words = 0;
    for (; n > 1; n -= n / 2)
        words += 3 * (lmc_bits_nbytes(n / 2 + 1) / sizeof(uint64_t) + 1 + LMC_FLAG_SLACK_WORDS);
    return words + 3 * (1 + LMC_FLAG_SLACK_WORDS);
}

/* Places the members (memory NULL: only measures). Returns the bytes used. */
static size_t walk(lmc_scratch *s, const lmc_scratch_size *size, uint8_t *memory)
{
    const size_t n = size->value_capacity;
    const size_t unit_nbytes = size->unit_nbytes;
    size_t used = 0;
    memset(s, 0, sizeof *s);
    s->value_capacity = n;
    s->unit_nbytes = unit_nbytes;
    s->hash_state = take(memory, &used, LMC_HASH_STATE_NBYTES);
    s->strip = take(memory, &used, LMC_STRIP_VALUES + 64);
    s->strip_values = take(memory, &used, LMC_STRIP_VALUES * unit_nbytes);
    for (unsigned i = 0; i < 2; i++)
        s->list[i] = take(memory, &used, n + LMC_LIST_SLACK);
    for (unsigned i = 0; i < LMC_FMT_LAYER_NBITS_MAX; i++)
        s->partial[i] = take(memory, &used, lmc_bits_nbytes(n) + 16);
    for (unsigned i = 0; i < LMC_FMT_PLANE_COUNT_MAX; i++)
        s->plane[i] = take(memory, &used, n + LMC_LIST_SLACK);
    s->copies_capacity = n + LMC_COPIES_FIXED_NBYTES;
    s->copies = take(memory, &used, s->copies_capacity);
    s->flags = (uint64_t *)(void *)take(memory, &used, lmc_bits_nbytes(n) + 16);
    s->mask = (uint64_t *)(void *)take(memory, &used, lmc_bits_nbytes(n) + 16);
    s->values = take(memory, &used, n * unit_nbytes + 64);
    s->exceptions = take(memory, &used, n + LMC_LIST_SLACK);
    s->escapes = (uint16_t *)(void *)take(memory, &used, n * sizeof(uint16_t));
    s->gaps = (uint32_t *)(void *)take(memory, &used, (n + LMC_GAP_SLACK) * sizeof(uint32_t));
    s->pairs = (uint64_t *)(void *)take(memory, &used, pairs_words(n) * sizeof(uint64_t));
    if (size->has_deltas)
        used = walk_deltas(s, n, memory, used);
    return used;
}

size_t lmc_scratch_nbytes(const lmc_scratch_size *size)
{
    lmc_scratch unused;
    return walk(&unused, size, NULL);
}

void lmc_scratch_place(lmc_scratch *scratch, const lmc_scratch_size *size, uint8_t *memory)
{
    walk(scratch, size, memory);
}
