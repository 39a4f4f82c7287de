/*
 * analyze_counts.c - histograms of the values of a tensor, and the entropies that follow from them. Two histograms of
 * 16 bits serve all parts of an element that lie in its top 16 bits; each byte below has one of its own.
 */
#include "tool/commands/analyze_counts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"

#define HIGH_COUNT ((size_t)1 << 16)
#define LOWER_COUNT (CLI_PLANE_COUNT_MAX - 2)
#define KEY_COUNT 256
#define STEP_COUNT 128

/* The parts of a dtype. */
typedef struct parts {
    unsigned sign_nbits, exponent_nbits; /* both 0: no float */
    int is_signed;                       /* an integer in two's complement */
} parts;

struct cli_counts {
    unsigned element_nbytes, high_nbits;
    parts parts;
    lmc_cut cut;
    uint64_t value_count, pair_count, changed_count, changed_nbits;
    uint64_t high[HIGH_COUNT]; /* top 16 bits (8 of an element of one byte) */
    uint64_t lower[LOWER_COUNT][256];
    uint64_t rotated_high[HIGH_COUNT]; /* the same of rotated elements */
    uint64_t rotated_lower[LOWER_COUNT][256];
    uint64_t distances[CLI_DISTANCE_COUNT];
    uint64_t steps[KEY_COUNT][2 * STEP_COUNT]; /* by exponent before, direction and rounded distance */
    double step_nbits;                         /* what rounding leaves out */
    uint64_t fields[HIGH_COUNT];               /* of field_entropy() */
};

cli_counts *cli_counts_create(void)
{
    return malloc(sizeof(cli_counts));
}

void cli_counts_start(cli_counts *counts, lmc_dtype dtype, const lmc_cut *cut)
{
    const unsigned nbits = lmc_dtype_nbits(dtype);
    memset(counts, 0, sizeof *counts);
    /* a C64 number is two elements; narrower numbers than bytes are counted as the bytes that they fill */
    counts->element_nbytes = dtype == LMC_DTYPE_C64 ? 4 : nbits < 8 ? 1 : nbits / 8;
    counts->high_nbits = counts->element_nbytes == 1 ? 8 : 16;
    counts->cut = *cut;
    switch (dtype) {
    case LMC_DTYPE_F16:
    case LMC_DTYPE_F8_E5M2:
    case LMC_DTYPE_F8_E5M2FNUZ: counts->parts = (parts){1, 5, 0}; break;
    case LMC_DTYPE_BF16:
    case LMC_DTYPE_F32:
    case LMC_DTYPE_C64: counts->parts = (parts){1, 8, 0}; break;
    case LMC_DTYPE_F64: counts->parts = (parts){1, 11, 0}; break;
    case LMC_DTYPE_F8_E4M3:
    case LMC_DTYPE_F8_E4M3FNUZ: counts->parts = (parts){1, 4, 0}; break;
    case LMC_DTYPE_F8_E8M0: counts->parts = (parts){0, 8, 0}; break;
    case LMC_DTYPE_I8:
    case LMC_DTYPE_I16:
    case LMC_DTYPE_I32:
    case LMC_DTYPE_I64: counts->parts = (parts){0, 0, 1}; break;
    default: counts->parts = (parts){0, 0, 0};
    }
}

/* ---- counting ---- */

static inline uint64_t low_mask(unsigned nbits)
{
    return nbits == 0 ? 0 : UINT64_MAX >> (64 - nbits);
}

/* All the functions below with a parameter element_nbytes are made for each constant of it. */
static inline void count_parts(uint64_t value, unsigned element_nbytes, uint64_t *high,
                               uint64_t (*lower)[256])
{
    high[element_nbytes == 1 ? value : value >> (8 * element_nbytes - 16)]++;
    for (unsigned i = 2; i < element_nbytes; i++)
        lower[i - 2][value >> (8 * (element_nbytes - 1 - i)) & 255]++;
}

static inline void count_values(cli_counts *counts, const unsigned char *content, size_t count,
                                unsigned element_nbytes)
{
    const unsigned nbits = 8 * element_nbytes;
    const int is_rotated = counts->cut.is_rotated && element_nbytes > 2;
    for (size_t i = 0; i < count; i++) {
        const uint64_t value = lmc_load_n(content + i * element_nbytes, element_nbytes);
        count_parts(value, element_nbytes, counts->high, counts->lower);
        if (is_rotated) {
            const uint64_t rotated = (value << 1 | value >> (nbits - 1)) & low_mask(nbits);
            count_parts(rotated, element_nbytes, counts->rotated_high, counts->rotated_lower);
        }
    }
}

/* Bit patterns as ordered integers: floats by sign and magnitude, in which both zeros are 0. *is_up: away from 0 for
 * floats, else upwards. */
static inline uint64_t distance_of(parts parts, unsigned nbits, uint64_t value, uint64_t before, int *is_up)
{
    const uint64_t top = (uint64_t)1 << (nbits - 1);
    if (parts.is_signed) {
        value ^= top;
        before ^= top;
    } else if (parts.sign_nbits == 1) {
        const int has_crossed = ((value ^ before) & top) != 0;
        value &= ~top;
        before &= ~top;
        if (has_crossed) {
            *is_up = value > before;
            return value + before;
        }
    }
    *is_up = value > before;
    return value > before ? value - before : before - value;
}

static inline void count_pairs(cli_counts *counts, const unsigned char *content, const unsigned char *before,
                               size_t count, unsigned element_nbytes)
{
    const unsigned nbits = 8 * element_nbytes;
    const parts parts = counts->parts;
    const unsigned key_nbits = parts.exponent_nbits < 8 ? parts.exponent_nbits : 8;
    const unsigned key_shift = nbits - parts.sign_nbits - key_nbits;
    uint64_t changed_nbits = 0;
    uint64_t step_nbits = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t value = lmc_load_n(content + i * element_nbytes, element_nbytes);
        const uint64_t old = lmc_load_n(before + i * element_nbytes, element_nbytes);
        int is_up = 0;
        const uint64_t distance = distance_of(parts, nbits, value, old, &is_up);
        const unsigned length = distance == 0 ? 0 : 64 - (unsigned)__builtin_clzll(distance);
        /* distances that share a number differ by less than a half: 0, 1, 2, 3, 4 to 5, 6 to 7, 8 to 11, ... */
        const unsigned rounded =
            length < 2 ? (unsigned)distance : 2 * (length - 1) + (unsigned)(distance >> (length - 2) & 1);
        const uint64_t key = key_nbits == 0 ? 0 : old >> key_shift & low_mask(key_nbits);
        counts->changed_count += value != old;
        changed_nbits += (unsigned)__builtin_popcountll(value ^ old);
        counts->distances[length]++;
        counts->steps[key][(is_up ? STEP_COUNT : 0) + rounded]++;
        step_nbits += length > 2 ? length - 2 : 0;
    }
    counts->pair_count += count;
    counts->changed_nbits += changed_nbits;
    counts->step_nbits += (double)step_nbits;
}

void cli_counts_take(cli_counts *counts, const unsigned char *content, const unsigned char *before,
                     size_t nbytes)
{
    const size_t count = nbytes / counts->element_nbytes;
    counts->value_count += count;
    switch (counts->element_nbytes) {
    case 1: count_values(counts, content, count, 1); break;
    case 2: count_values(counts, content, count, 2); break;
    case 4: count_values(counts, content, count, 4); break;
    default: count_values(counts, content, count, 8); break;
    }
    if (!before)
        return;
    switch (counts->element_nbytes) {
    case 1: count_pairs(counts, content, before, count, 1); break;
    case 2: count_pairs(counts, content, before, count, 2); break;
    case 4: count_pairs(counts, content, before, count, 4); break;
    default: count_pairs(counts, content, before, count, 8); break;
    }
}

/* ---- entropies, in bits of all values together ---- */

static double entropy_of(const uint64_t *counts, size_t count)
{
    uint64_t total = 0;
    double nbits = 0;
    for (size_t i = 0; i < count; i++)
        total += counts[i];
    for (size_t i = 0; i < count; i++)
        nbits += counts[i] == 0 ? 0 : (double)counts[i] * log2((double)total / (double)counts[i]);
    return nbits;
}

/* Of `width` bits above the lowest `shift` ones of the numbers of a histogram, once `offset` was added to these. */
static double field_entropy(cli_counts *counts, const uint64_t *high, unsigned offset, unsigned shift,
                            unsigned width)
{
    const size_t field_count = (size_t)1 << width;
    memset(counts->fields, 0, field_count * sizeof counts->fields[0]);
    for (size_t i = 0; i >> counts->high_nbits == 0; i++)
        counts->fields[(i + offset) >> shift & low_mask(width)] += high[i];
    return entropy_of(counts->fields, field_count);
}

static double lower_entropy(const cli_counts *counts, uint64_t (*lower)[256])
{
    double nbits = 0;
    for (unsigned i = 2; i < counts->element_nbytes; i++)
        nbits += entropy_of(lower[i - 2], 256);
    return nbits;
}

void cli_counts_finish(cli_counts *counts, int is_delta, cli_analysis *analysis)
{
    const parts parts = counts->parts;
    const lmc_cut *const cut = &counts->cut;
    const unsigned nbits = counts->high_nbits;
    const unsigned mantissa_nbits = nbits - parts.sign_nbits - parts.exponent_nbits;
    memset(analysis, 0, sizeof *analysis);
    analysis->value_count = counts->value_count;
    analysis->element_nbytes = counts->element_nbytes;
    analysis->planes[0] = field_entropy(counts, counts->high, 0, nbits - 8, 8);
    if (counts->element_nbytes > 1)
        analysis->planes[1] = field_entropy(counts, counts->high, 0, 0, 8);
    for (unsigned i = 2; i < counts->element_nbytes; i++)
        analysis->planes[i] = entropy_of(counts->lower[i - 2], 256);
    analysis->has_parts = parts.exponent_nbits > 0;
    if (analysis->has_parts) {
        analysis->sign = field_entropy(counts, counts->high, 0, nbits - 1, parts.sign_nbits);
        analysis->exponent = field_entropy(counts, counts->high, 0, mantissa_nbits, parts.exponent_nbits);
        analysis->mantissa =
            field_entropy(counts, counts->high, 0, 0, mantissa_nbits) + lower_entropy(counts, counts->lower);
    }
    if (cut->is_rotated && counts->element_nbytes <= 2) /* the high part is all of an element */
        for (size_t i = 0; i >> nbits == 0; i++)
            counts->rotated_high[(i << 1 | i >> (nbits - 1)) & low_mask(nbits)] = counts->high[i];
    const uint64_t *const high = cut->is_rotated ? counts->rotated_high : counts->high;
    analysis->symbols = field_entropy(counts, high, cut->offset, cut->low_nbits, nbits - cut->low_nbits);

    /* all that LMC codes or stores; of a delta, what has changed, given the exponent that a value had */
    double coded_nbits =
        is_delta ? counts->step_nbits
                 : analysis->symbols + field_entropy(counts, high, cut->offset, 0, cut->low_nbits) +
                       lower_entropy(counts, cut->is_rotated ? counts->rotated_lower : counts->lower);
    for (size_t key = 0; key < KEY_COUNT && is_delta; key++)
        coded_nbits += entropy_of(counts->steps[key], 2 * STEP_COUNT);
    analysis->predicted_nbytes = coded_nbits / 8;
    analysis->pair_count = counts->pair_count;
    analysis->changed_count = counts->changed_count;
    analysis->changed_nbits = counts->changed_nbits;
    memcpy(analysis->distances, counts->distances, sizeof analysis->distances);
}

void cli_analysis_add(cli_analysis *sum, const cli_analysis *one)
{
    sum->nbytes += one->nbytes;
    sum->value_count += one->value_count;
    sum->element_nbytes = one->element_nbytes;
    sum->has_parts = one->has_parts;
    for (unsigned i = 0; i < CLI_PLANE_COUNT_MAX; i++)
        sum->planes[i] += one->planes[i];
    sum->sign += one->sign;
    sum->exponent += one->exponent;
    sum->mantissa += one->mantissa;
    sum->symbols += one->symbols;
    sum->pair_count += one->pair_count;
    sum->changed_count += one->changed_count;
    sum->changed_nbits += one->changed_nbits;
    for (unsigned i = 0; i < CLI_DISTANCE_COUNT; i++)
        sum->distances[i] += one->distances[i];
    sum->predicted_nbytes += one->predicted_nbytes;
    sum->stored_nbytes += one->stored_nbytes;
}
