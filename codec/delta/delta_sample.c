/* delta_sample.c - reads pairs of elements, compares them and counts their differences. */
#include "codec/delta/delta_sample.h"

#include "codec/common/entropy.h"
#include "codec/delta/delta_block.h"

/* ---- reading ---- */

/* A base may have to be decoded to be read, block by block, each of PLACE_VALUES or a multiple of it. So the runs of a
 * large tensor stand in a few places of that size. */
#define PLACE_VALUES ((uint64_t)1 << 16)

/* Where run i of `count`, each of n values, begins in a range of value_count. */
static uint64_t spread_run(uint64_t value_count, size_t n, size_t i, size_t count)
{
    return count > 1 ? (value_count - n) / (count - 1) * i : 0;
}

static uint64_t find_run(uint64_t value_count, size_t n, size_t i, size_t count)
{
    const size_t place_runs = count / LMC_PAIRS_PLACE_COUNT;
    if (value_count <= LMC_PAIRS_PLACE_COUNT * PLACE_VALUES || place_runs == 0)
        return spread_run(value_count, n, i, count);
    const uint64_t place = (value_count / PLACE_VALUES - 1) * (i / place_runs) / (LMC_PAIRS_PLACE_COUNT - 1);
    return place * PLACE_VALUES + spread_run(PLACE_VALUES, n, i % place_runs, place_runs);
}

/* Reads n values of the base; element i belongs to element i of the content. */
static lmc_status read_base(const lmc_content *content, uint64_t first, size_t n, uint8_t *dst)
{
    if (content->base_form == LMC_BASE_PLAIN)
        return content->read_base(content->user, first * content->element_nbytes, dst,
                                  n * content->element_nbytes);
    uint8_t wide[4 * 256];
    for (size_t i = 0; i < n; i += 256) {
        const size_t m = lmc_min_size(n - i, 256);
        const size_t base_nbytes =
            2 * lmc_base_scale(content->base_form); /* of an element; all are rounded to 2 */
        LMC_TRY(content->read_base(content->user, (first + i) * base_nbytes, wide, m * base_nbytes));
        lmc_base_values(content->base_form, wide, 2 * m, dst + 2 * i);
    }
    return LMC_OK;
}

lmc_status lmc_pairs_read(const lmc_content *content, size_t run_values, size_t run_count, uint8_t *buffer,
                          lmc_pairs *pairs)
{
    const unsigned element_nbytes = content->element_nbytes;
    const uint64_t value_count = content->value_count;
    uint8_t *const base = buffer + LMC_PAIRS_BUFFER_NBYTES / 2;
    const uint64_t wanted = run_values * run_count;
    const size_t n = (size_t)(value_count <= wanted ? value_count : run_values);
    const size_t runs = value_count <= wanted ? 1 : run_count;
    assert(wanted <= LMC_PAIRS_MAX && run_count % LMC_PAIRS_PLACE_COUNT == 0);
    *pairs = (lmc_pairs){.element_nbytes = element_nbytes, .content = buffer, .base = base};
    for (size_t i = 0; i < runs; i++) {
        const size_t at = pairs->count * element_nbytes;
        const uint64_t first = find_run(value_count, n, i, runs);
        LMC_TRY(content->read(content->user, first * element_nbytes, buffer + at, n * element_nbytes));
        LMC_TRY(read_base(content, first, n, base + at));
        pairs->count += n;
    }
    return LMC_OK;
}

/* The loop counts a few elements at a time in their own type: compilers turn it into vector code. */
#define CHUNK_VALUES 128

#define DEFINE_COUNT_CHANGED(nbits)                                              \
    static size_t count_changed_##nbits(const lmc_pairs *pairs)                  \
    {                                                                            \
        size_t changed = 0;                                                      \
        for (size_t first = 0; first < pairs->count; first += CHUNK_VALUES) {    \
            const size_t n = lmc_min_size(pairs->count - first, CHUNK_VALUES);   \
            const uint8_t *const content = pairs->content + first * (nbits / 8); \
            const uint8_t *const base = pairs->base + first * (nbits / 8);       \
            uint##nbits##_t count = 0;                                           \
            for (size_t i = 0; i < n; i++) {                                     \
                uint##nbits##_t x, b;                                            \
                memcpy(&x, content + i * sizeof x, sizeof x);                    \
                memcpy(&b, base + i * sizeof b, sizeof b);                       \
                count = (uint##nbits##_t)(count + (x != b));                     \
            }                                                                    \
            changed += (size_t)count;                                            \
        }                                                                        \
        return changed;                                                          \
    }

DEFINE_COUNT_CHANGED(8)
DEFINE_COUNT_CHANGED(16)
DEFINE_COUNT_CHANGED(32)
DEFINE_COUNT_CHANGED(64)

size_t lmc_pairs_changed(const lmc_pairs *pairs)
{
    switch (pairs->element_nbytes) {
    case 1: return count_changed_8(pairs);
    case 2: return count_changed_16(pairs);
    case 4: return count_changed_32(pairs);
    default: return count_changed_64(pairs);
    }
}

/* Only every so many elements count. That is enough for entropies of bytes. */
#define FLOOR_STEP 4

double lmc_pairs_floor_nbits(const lmc_pairs *pairs)
{
    const unsigned element_nbytes = pairs->element_nbytes;
    double high = 0, lower = 0;
    for (unsigned j = 0; j < element_nbytes; j++) {
        uint32_t count[256] = {0};
        unsigned used;
        for (size_t i = 0; i < pairs->count; i += FLOOR_STEP)
            count[pairs->content[i * element_nbytes + j]]++;
        const double nbits = lmc_counts_entropy(count, 256, &used);
        if (j + 2 < element_nbytes)
            lower += nbits;
        else
            high = nbits > high ? nbits : high;
    }
    return high + lower;
}

/* ---- counting ---- */

/* A comparison of pairs. */
typedef struct comparison {
    const lmc_pairs *pairs;
    const lmc_delta *delta;
    const lmc_kernels *kernels;
} comparison;

/* A few pairs: keys, bins of differences, sign changes. */
typedef struct chunk {
    size_t n;
    int has_sign_changes;
    uint8_t key[CHUNK_VALUES];
    uint8_t sign_change[CHUNK_VALUES];
    uint16_t bin[CHUNK_VALUES];
} chunk;

LMC_INLINE void find_keys(const comparison *c, size_t first, const unsigned element_nbytes, chunk *chunk)
{
    const int magnitudes = c->delta->transform == LMC_FMT_DELTA_MAGNITUDE;
    const uint64_t used = lmc_low_mask(8 * element_nbytes - (magnitudes ? 1 : 0));
    const uint16_t used_half = (uint16_t)used;
    const unsigned shift = c->delta->key_shift;
    const uint8_t *const base = c->pairs->base + first * element_nbytes;
    chunk->n = lmc_min_size(c->pairs->count - first, CHUNK_VALUES);
    if (element_nbytes == 2) /* apart from the others: this loop becomes vector code */
        for (size_t i = 0; i < chunk->n; i++)
            chunk->key[i] = (uint8_t)((lmc_load16(base + 2 * i) & used_half) >> shift);
    else
        for (size_t i = 0; i < chunk->n; i++)
            chunk->key[i] =
                (uint8_t)((lmc_load_n(base + i * element_nbytes, element_nbytes) & used) >> shift);
}

/* The same bin as lmc_bin_of() gives. A number of 16 bits is exact as a float, whose exponent and upper bits are its
 * bin. */
LMC_INLINE uint16_t bin_of_half(uint16_t z)
{
    const float x = z;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t bin = (bits >> (24 - LMC_BIN_NBITS)) - ((127u + LMC_BIN_NBITS - 2) << (LMC_BIN_NBITS - 1));
    return (uint16_t)(z < 1u << (LMC_BIN_NBITS - 1) ? z : bin);
}

/* For elements of 1 and 2 bytes, whose differences are high parts: a kernel finds them. */
static void compare_narrow(const comparison *c, size_t first, unsigned element_nbytes, chunk *chunk)
{
    uint16_t high[CHUNK_VALUES];
    const size_t at = first * element_nbytes;
    const unsigned high_nbits = lmc_delta_high_nbits(c->delta);
    const uint16_t used = (uint16_t)lmc_low_mask(high_nbits);
    uint16_t all = 0;
    (void)c->kernels->delta_split[lmc_lowest_bit(element_nbytes)](c->delta, c->pairs->content + at,
                                                                  c->pairs->base + at, chunk->n, high, NULL);
    for (size_t i = 0; i < chunk->n; i++) {
        all |= high[i];
        chunk->sign_change[i] = (uint8_t)(high[i] >> high_nbits);
        chunk->bin[i] = bin_of_half(high[i] & used);
    }
    chunk->has_sign_changes = all > used;
}

LMC_INLINE void compare_wide(const comparison *c, size_t first, const unsigned transform,
                             const unsigned element_nbytes, chunk *chunk)
{
    const unsigned nbits = 8 * element_nbytes;
    const size_t at = first * element_nbytes;
    chunk->has_sign_changes = transform == LMC_FMT_DELTA_MAGNITUDE;
    for (size_t i = 0; i < chunk->n; i++) {
        const uint64_t x = lmc_load_n(c->pairs->content + at + i * element_nbytes, element_nbytes);
        const uint64_t b = lmc_load_n(c->pairs->base + at + i * element_nbytes, element_nbytes);
        chunk->sign_change[i] = (x ^ b) >> (nbits - 1) != 0;
        chunk->bin[i] = (uint16_t)lmc_bin_of(lmc_delta_of(transform, x, b, nbits));
    }
}

LMC_INLINE void compare_chunk(const comparison *c, size_t first, const unsigned element_nbytes, chunk *chunk)
{
    find_keys(c, first, element_nbytes, chunk);
    if (element_nbytes <= 2)
        compare_narrow(c, first, element_nbytes, chunk);
    else if (c->delta->transform == LMC_FMT_DELTA_MAGNITUDE)
        compare_wide(c, first, LMC_FMT_DELTA_MAGNITUDE, element_nbytes, chunk);
    else if (c->delta->transform == LMC_FMT_DELTA_DIFFERENCE)
        compare_wide(c, first, LMC_FMT_DELTA_DIFFERENCE, element_nbytes, chunk);
    else
        compare_wide(c, first, LMC_FMT_DELTA_XOR, element_nbytes, chunk);
}

/* Joins neighbouring keys until few enough groups are left; those with the fewest pairs come first. */
static void group_keys(lmc_delta_sample *sample, const uint32_t *count)
{
    sample->group_count = 0;
    uint8_t first[256];
    uint32_t n[256];
    unsigned groups = 0;
    for (unsigned key = 0; key < 256; key++) {
        if (count[key] == 0)
            continue;
        first[groups] = (uint8_t)key;
        n[groups++] = count[key];
    }
    while (groups > LMC_KEY_GROUPS_MAX) {
        unsigned least = 0;
        for (unsigned i = 1; i + 1 < groups; i++)
            if (n[i] + n[i + 1] < n[least] + n[least + 1])
                least = i;
        n[least] += n[least + 1];
        groups--;
        memmove(first + least + 1, first + least + 2, groups - least - 1);
        memmove(n + least + 1, n + least + 2, (groups - least - 1) * sizeof n[0]);
    }
    for (unsigned i = 0; i < groups; i++)
        sample->group[i].first_key = i == 0 ? 0 : first[i];
    sample->group_count = groups;
}

LMC_INLINE void count_pairs(lmc_delta_sample *sample, const comparison *c, const unsigned element_nbytes)
{
    uint32_t keys[2][256] = {{0}}; /* two, so that neighbours with equal keys do not wait for each other */
    lmc_key_group *group_of[256];
    chunk chunk;
    for (size_t first = 0; first < c->pairs->count; first += CHUNK_VALUES) {
        find_keys(c, first, element_nbytes, &chunk);
        for (size_t i = 0; i < chunk.n; i++)
            keys[i % 2][chunk.key[i]]++;
    }
    for (unsigned key = 0; key < 256; key++)
        keys[0][key] += keys[1][key];
    group_keys(sample, keys[0]);
    for (unsigned g = 0; g < sample->group_count; g++) {
        memset(sample->group[g].below, 0, (sample->bin_count + 1) * sizeof sample->group[g].below[0]);
        sample->group[g].sign_changes = 0;
    }
    for (unsigned key = 0, g = 0; key < 256; key++) {
        while (g + 1 < sample->group_count && key >= sample->group[g + 1].first_key)
            g++;
        group_of[key] = &sample->group[g];
    }
    for (size_t first = 0; first < c->pairs->count; first += CHUNK_VALUES) {
        compare_chunk(c, first, element_nbytes, &chunk);
        for (size_t i = 0; i < chunk.n; i++)
            group_of[chunk.key[i]]->below[chunk.bin[i]]++;
        for (size_t i = 0; chunk.has_sign_changes && i < chunk.n; i++)
            group_of[chunk.key[i]]->sign_changes += chunk.sign_change[i];
    }
    for (unsigned g = 0; g < sample->group_count;
         g++) { /* counts of bins become numbers of pairs in lower bins */
        lmc_key_group *const group = &sample->group[g];
        uint32_t n = 0;
        for (unsigned i = 0; i <= sample->bin_count; i++) {
            const uint32_t here = group->below[i];
            group->below[i] = n;
            n += here;
        }
        group->n = n;
    }
}

void lmc_delta_sample_count(lmc_delta_sample *sample, const lmc_kernels *kernels, const lmc_delta *delta,
                            const lmc_pairs *pairs)
{
    const comparison c = {pairs, delta, kernels};
    sample->pair_count = pairs->count;
    sample->bin_count = lmc_bin_of(lmc_low_mask(8 * pairs->element_nbytes)) + 1;
    switch (pairs->element_nbytes) {
    case 1: count_pairs(sample, &c, 1); break;
    case 2: count_pairs(sample, &c, 2); break;
    case 4: count_pairs(sample, &c, 4); break;
    default: count_pairs(sample, &c, 8); break;
    }
}
