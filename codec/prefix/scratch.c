/* scratch.c - lays the members of a scratch out one behind the other. The same function measures the memory they take,
 * so that sizes and places cannot differ. */
#include "codec/prefix/scratch.h"

/* The next nbytes of `memory`; NULL when it is only measured. */
static uint8_t *place_member(uint8_t *memory, size_t *used, size_t nbytes)
{
    uint8_t *const p = memory ? memory + *used : NULL;
    *used += (nbytes + LMC_SCRATCH_ALIGNMENT - 1) / LMC_SCRATCH_ALIGNMENT * LMC_SCRATCH_ALIGNMENT;
    return p;
}

static size_t lay_out_deltas(lmc_scratch *s, size_t n, uint8_t *memory, size_t used)
{
    s->classes = place_member(memory, &used, n + 64);
    s->class_ends = (uint32_t *)(void *)place_member(
        memory, &used, lmc_div_ceil(n, LMC_STRIP_VALUES) * LMC_FMT_CLASS_COUNT_MAX * sizeof(uint32_t));
    s->high_lists = place_member(memory, &used, LMC_HIGH_LISTS_NBYTES(n));
    s->wide_high = (uint16_t *)(void *)place_member(memory, &used, (n + LMC_HIGH_SLACK) * sizeof(uint16_t));
    s->symbols = place_member(memory, &used, n + LMC_SYMBOLS_SLACK);
    s->stored =
        place_member(memory, &used, 1 + n * s->element_nbytes + s->element_nbytes + LMC_SYMBOLS_SLACK);
    s->sign_changes = (uint64_t *)(void *)place_member(memory, &used, lmc_bits_nbytes(n) + 16);
    s->content_hash_state = place_member(memory, &used, LMC_HASH_STATE_NBYTES);
    s->changes = (lmc_change *)(void *)place_member(memory, &used, LMC_STRIP_VALUES * sizeof(lmc_change));
    s->bucket_bitsets = (uint64_t *)(void *)place_member(
        memory, &used, LMC_FMT_BUCKET_COUNT * (lmc_bits_nbytes(n) + sizeof(uint64_t) + LMC_PLANE_SLACK));
    return used;
}

/* Places the members; memory NULL: only measures. Returns the bytes used. */
static size_t lay_out(lmc_scratch *s, const lmc_scratch_size *size, uint8_t *memory)
{
    const size_t n = size->value_capacity;
    const size_t element_nbytes = size->element_nbytes;
    size_t used = 0;
    memset(s, 0, sizeof *s);
    s->value_capacity = n;
    s->element_nbytes = element_nbytes;
    s->hash_state = place_member(memory, &used, LMC_HASH_STATE_NBYTES);
    s->strip = place_member(memory, &used, LMC_STRIP_VALUES + 64);
    s->strip_values = place_member(memory, &used, LMC_STRIP_VALUES * element_nbytes);
    for (unsigned i = 0; i < 2; i++)
        s->next_symbols[i] = place_member(memory, &used, n + LMC_SYMBOLS_SLACK);
    for (unsigned i = 0; i < LMC_FMT_LAYER_NBITS_MAX; i++)
        s->partial[i] = place_member(memory, &used, lmc_bits_nbytes(n) + 16);
    for (unsigned i = 0; i < LMC_FMT_PLANE_COUNT_MAX; i++)
        s->plane[i] = place_member(memory, &used, n + LMC_SYMBOLS_SLACK);
    s->copies_capacity = n + LMC_COPIES_FIXED_NBYTES;
    s->copies = place_member(memory, &used, s->copies_capacity);
    s->bitset = (uint64_t *)(void *)place_member(memory, &used, lmc_bits_nbytes(n) + 16);
    s->mask = (uint64_t *)(void *)place_member(memory, &used, lmc_bits_nbytes(n) + 16);
    s->values = place_member(memory, &used, n * element_nbytes + 64);
    s->exceptions = place_member(memory, &used, n + LMC_SYMBOLS_SLACK);
    s->escapes = (uint16_t *)(void *)place_member(memory, &used, n * sizeof(uint16_t));
    s->gaps = (uint32_t *)(void *)place_member(memory, &used, (n + LMC_GAP_SLACK) * sizeof(uint32_t));
    const size_t row_capacity = n / LMC_FMT_COLUMN_COUNT_MIN + 2;
    s->strip_high =
        (uint16_t *)(void *)place_member(memory, &used, (LMC_STRIP_VALUES + 64) * sizeof(uint16_t));
    s->shifts = (uint16_t *)(void *)place_member(memory, &used, (LMC_STRIP_VALUES + 64) * sizeof(uint16_t));
    s->row_values = (int32_t *)(void *)place_member(memory, &used, row_capacity * sizeof(int32_t));
    s->rows = (uint16_t *)(void *)place_member(memory, &used, row_capacity * sizeof(uint16_t));
    size_t words =
        3 * (1 + LMC_BITSET_SLACK_WORDS); /* of a hierarchy's last step, whose three bitsets have one bit */
    for (size_t m = n; m > 1; m -= m / 2) /* the others have half as many bits as the one before */
        words += 3 * (lmc_bits_nbytes(m / 2 + 1) / sizeof(uint64_t) + 1 + LMC_BITSET_SLACK_WORDS);
    s->hierarchy = (uint64_t *)(void *)place_member(memory, &used, words * sizeof(uint64_t));
    if (size->has_narrow) {
        s->narrow = place_member(memory, &used, n * (element_nbytes / 2 + 1) + 64);
        s->palettes = place_member(memory, &used, n * element_nbytes);
        s->exception_bits = (uint64_t *)(void *)place_member(memory, &used, lmc_bits_nbytes(n) + 16);
        s->groups =
            (lmc_group *)(void *)place_member(memory, &used, LMC_GROUP_COUNT_MAX(n) * sizeof(lmc_group));
    }
    if (size->has_deltas)
        used = lay_out_deltas(s, n, memory, used);
    return used;
}

size_t lmc_scratch_nbytes(const lmc_scratch_size *size)
{
    lmc_scratch unused;
    return lay_out(&unused, size, NULL);
}

void lmc_scratch_place(lmc_scratch *scratch, const lmc_scratch_size *size, uint8_t *memory)
{
    lay_out(scratch, size, memory);
}
