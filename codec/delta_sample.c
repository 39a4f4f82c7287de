/* delta_sample.c - reads pairs of elements and counts their differences. */
#include "delta_sample.h"

#include "base_values.h"
#include "entropy.h"

/* ---- reading ---- */

/* Values of the base, element i of which belongs to element i of the content. */
static lmc_status read_base(const lmc_pair_source *source, uint64_t first, size_t n, uint8_t *dst)
{
    if (source->base_form == LMC_BASE_PLAIN)
        return source->read_base(source->user, first * source->unit_nbytes, dst, n * source->unit_nbytes);
    uint8_t wide[4 * 256];
    for (size_t i = 0; i < n; i += 256) {
        const size_t m = lmc_min_size(n - i, 256);
        const lmc_status status = source->read_base(source->user, (first + i) * 4, wide, m * 4);
        if (status != LMC_OK)
            return status;
        lmc_base_values(source->base_form, wide, 2 * m, dst + 2 * i);
    }
    return LMC_OK;
}

lmc_status lmc_pairs_read(const lmc_pair_source *source, size_t run_values, uint8_t *buffer, lmc_pairs *pairs)
{
    const unsigned unit_nbytes = source->unit_nbytes;
    uint8_t *const base = buffer + LMC_PAIRS_BUFFER_NBYTES / 2;
    const size_t run_count = LMC_PAIRS_MAX / 256;
    const uint64_t wanted = run_values * run_count;
    const size_t n = (size_t)(source->value_count <= wanted ? source->value_count : run_values);
    const size_t runs = source->value_count <= wanted ? 1 : run_count;
    const uint64_t step = runs > 1 ? (source->value_count - n) / (runs - 1) : 0;
    assert(run_values <= 256);
    *pairs = (lmc_pairs){.unit_nbytes = unit_nbytes, .content = buffer, .base = base};
    for (size_t i = 0; i < runs; i++) {
        const size_t at = pairs->count * unit_nbytes;
        lmc_status status = source->read(source->user, step * i * unit_nbytes, buffer + at, n * unit_nbytes);
        if (status == LMC_OK)
            status = read_base(source, step * i, n, base + at);
        if (status != LMC_OK)
            return status;
        pairs->count += n;
    }
    return LMC_OK;
}

LMC_INLINE size_t count_changed(const lmc_pairs *pairs, const unsigned unit_nbytes)
{
    size_t changed = 0;
    for (size_t i = 0; i < pairs->count; i++)
        changed += lmc_load_n(pairs->content + i * unit_nbytes, unit_nbytes) !=
                   lmc_load_n(pairs->base + i * unit_nbytes, unit_nbytes);
    return changed;
}

size_t lmc_pairs_changed(const lmc_pairs *pairs)
{
    switch (pairs->unit_nbytes) {
    case 1: return count_changed(pairs, 1);
    case 2: return count_changed(pairs, 2);
    case 4: return count_changed(pairs, 4);
    default: return count_changed(pairs, 8);
    }
}

/* Every so many elements, and the byte at the same place of each: enough for its entropy. */
#define FLOOR_STEP 4

double lmc_pairs_floor_nbits(const lmc_pairs *pairs)
{
    const unsigned unit_nbytes = pairs->unit_nbytes;
    double head = 0, rest = 0;
    for (unsigned j = 0; j < unit_nbytes; j++) {
        uint32_t count[256] = {0};
        double weight[256];
        for (size_t i = 0; i < pairs->count; i += FLOOR_STEP)
            count[pairs->content[i * unit_nbytes + j]]++;
        for (unsigned v = 0; v < 256; v++)
            weight[v] = count[v];
        const double nbits = lmc_entropy(weight, 256);
        if (j + 2 < unit_nbytes)
            rest += nbits;
        else
            head = nbits > head ? nbits : head;
    }
    return head + rest;
}

/* ---- counting ---- */

/* One pair as numbers. */
typedef struct difference {
    uint64_t z;
    unsigned key, is_flipped;
} difference;

LMC_INLINE difference compare(const lmc_pairs *pairs, size_t i, const unsigned transform,
                              const unsigned key_shift, const unsigned unit_nbytes)
{
    const unsigned nbits = 8 * unit_nbytes;
    const uint64_t x = lmc_load_n(pairs->content + i * unit_nbytes, unit_nbytes);
    const uint64_t b = lmc_load_n(pairs->base + i * unit_nbytes, unit_nbytes);
    const int magnitudes = transform == LMC_FMT_DELTA_MAGNITUDE;
    return (difference){.z = lmc_delta_of(transform, x, b, nbits),
                        .key = (magnitudes ? b & lmc_low_mask(nbits - 1) : b) >> key_shift & 0xff,
                        .is_flipped = magnitudes && (x ^ b) >> (nbits - 1) != 0};
}

/* Joins neighbouring keys until few enough groups are left, those with the fewest pairs first. */
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

static void accumulate(lmc_key_group *group, unsigned bin_count)
{
    uint32_t sum = 0;
    for (unsigned i = 0; i <= bin_count; i++) {
        const uint32_t here = group->below[i];
        group->below[i] = sum;
        sum += here;
    }
    group->n = sum;
}

LMC_INLINE void count_pairs(lmc_delta_sample *sample, const lmc_pairs *pairs, const unsigned transform,
                            const unsigned key_shift, const unsigned unit_nbytes)
{
    uint32_t keys[2][256] = {{0}}; /* neighbours are often of one key, and would wait for each other */
    uint8_t group_of[256];
    for (size_t i = 0; i < pairs->count; i++)
        keys[i % 2][compare(pairs, i, transform, key_shift, unit_nbytes).key]++;
    for (unsigned key = 0; key < 256; key++)
        keys[0][key] += keys[1][key];
    group_keys(sample, keys[0]);
    for (unsigned key = 0, g = 0; key < 256; key++) {
        while (g + 1 < sample->group_count && key >= sample->group[g + 1].first_key)
            g++;
        group_of[key] = (uint8_t)g;
    }
    for (unsigned g = 0; g < sample->group_count; g++) {
        memset(sample->group[g].below, 0, (sample->bin_count + 1) * sizeof sample->group[g].below[0]);
        sample->group[g].flips = 0;
    }
    for (size_t i = 0; i < pairs->count; i++) {
        const difference d = compare(pairs, i, transform, key_shift, unit_nbytes);
        lmc_key_group *const group = &sample->group[group_of[d.key]];
        group->below[lmc_bin_of(d.z)]++;
        group->flips += d.is_flipped;
    }
    for (unsigned g = 0; g < sample->group_count; g++)
        accumulate(&sample->group[g], sample->bin_count);
}

LMC_INLINE void count_units(lmc_delta_sample *sample, const lmc_delta *delta, const lmc_pairs *pairs,
                            const unsigned unit_nbytes)
{
    switch (delta->transform) {
    case LMC_FMT_DELTA_MAGNITUDE:
        count_pairs(sample, pairs, LMC_FMT_DELTA_MAGNITUDE, delta->key_shift, unit_nbytes);
        break;
    case LMC_FMT_DELTA_DIFFERENCE:
        count_pairs(sample, pairs, LMC_FMT_DELTA_DIFFERENCE, delta->key_shift, unit_nbytes);
        break;
    default: count_pairs(sample, pairs, LMC_FMT_DELTA_XOR, delta->key_shift, unit_nbytes); break;
    }
}

void lmc_delta_sample_count(lmc_delta_sample *sample, const lmc_delta *delta, const lmc_pairs *pairs)
{
    sample->pair_count = pairs->count;
    sample->bin_count = lmc_bin_of(lmc_low_mask(8 * pairs->unit_nbytes)) + 1;
    switch (pairs->unit_nbytes) {
    case 1: count_units(sample, delta, pairs, 1); break;
    case 2: count_units(sample, delta, pairs, 2); break;
    case 4: count_units(sample, delta, pairs, 4); break;
    default: count_units(sample, delta, pairs, 8); break;
    }
}
