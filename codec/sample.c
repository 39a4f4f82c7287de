/* sample.c - reads a sample and counts. */
#include "sample.h"

/* Zeros are masked when there are at least this many in a hundred. Not in elements of one byte: there a zero
 * is a symbol like any other. */
#define MASK_PERCENT_MIN 5

/* Runs at even distances; the whole tensor when it is no larger than the sample. Returns the values read. */
static lmc_status read_runs(uint64_t value_count, unsigned unit_nbytes, lmc_read_fn read, void *user,
                            uint8_t *buffer, size_t *n)
{
    if (value_count <= LMC_SAMPLE_VALUES) {
        *n = (size_t)value_count;
        return read(user, 0, buffer, *n * unit_nbytes);
    }
    const size_t run_nbytes = LMC_SAMPLE_RUN_VALUES * unit_nbytes;
    const uint64_t span = value_count - LMC_SAMPLE_RUN_VALUES;
    *n = LMC_SAMPLE_VALUES;
    for (uint64_t i = 0; i < LMC_SAMPLE_RUN_COUNT; i++) {
        const uint64_t first = span / (LMC_SAMPLE_RUN_COUNT - 1) * i;
        const lmc_status status = read(user, first * unit_nbytes, buffer + i * run_nbytes, run_nbytes);
        if (status != LMC_OK)
            return status;
    }
    return LMC_OK;
}

/* ---- what all values together say ---- */

typedef struct survey {
    uint64_t any, all; /* bits set in some value, in all */
    uint64_t zeros;
} survey;

/* Words looked at in one go: a byte can count that many zeros. */
#define SURVEY_WORDS 128

/* In words of 64 bits, whose lanes are values; the last bytes are values of their own. */
LMC_INLINE survey survey_values(const uint8_t *values, size_t n, const unsigned unit_nbytes)
{
    const unsigned nbits = 8 * unit_nbytes;
    const uint64_t lane = lmc_low_mask(nbits);
    const uint64_t tops = ~UINT64_C(0) / lane << (nbits - 1); /* the top bit of each lane */
    const size_t word_count = n * unit_nbytes / 8;
    uint64_t any = 0, all = ~UINT64_C(0);
    survey s = {0, lane, 0};
    for (size_t first = 0; first < word_count; first += SURVEY_WORDS) {
        const size_t end = lmc_min_size(first + SURVEY_WORDS, word_count);
        uint64_t zeros = 0; /* of each lane */
        for (size_t i = first; i < end; i++) {
            const uint64_t x = lmc_load64(values + 8 * i);
            any |= x;
            all &= x;
            zeros += (~(((x & ~tops) + ~tops) | x) & tops) >> (nbits - 1);
        }
        for (unsigned k = 0; k < 64; k += nbits)
            s.zeros += zeros >> k & lane;
    }
    for (unsigned k = 0; k < 64; k += nbits) {
        s.any |= any >> k & lane;
        s.all &= all >> k & lane;
    }
    for (size_t i = 8 * word_count / unit_nbytes; i < n; i++) {
        const uint64_t x = lmc_load_n(values + i * unit_nbytes, unit_nbytes);
        s.any |= x;
        s.all &= x;
        s.zeros += x == 0;
    }
    return s;
}

/* ---- histograms ---- */

/* Where a value counts in the head's histogram; bits above it may be set. */
LMC_INLINE uint32_t *head_place(uint32_t *head, uint64_t x, const unsigned unit_nbytes, unsigned rotation)
{
    if (unit_nbytes == 1)
        return &head[(x << rotation | (x & 0xff) >> (8 - rotation)) & 0xff];
    return &head[x >> (8 * unit_nbytes - LMC_SAMPLE_HEAD_NBITS - rotation) &
                 lmc_low_mask(LMC_SAMPLE_HEAD_NBITS)];
}

LMC_INLINE void count_heads(lmc_sample *sample, const uint8_t *values, size_t n, const unsigned unit_nbytes)
{
    const unsigned rotation = sample->rotation;
    const size_t word_count = n * unit_nbytes / 8;
    for (size_t i = 0; i < word_count; i++) {
        const uint64_t word = lmc_load64(values + 8 * i);
        for (unsigned k = 0; k < 64; k += 8 * unit_nbytes)
            ++*head_place(sample->head, word >> k, unit_nbytes, rotation);
    }
    for (size_t i = 8 * word_count / unit_nbytes; i < n; i++)
        ++*head_place(sample->head, lmc_load_n(values + i * unit_nbytes, unit_nbytes), unit_nbytes, rotation);
}

LMC_INLINE void count_bytes(lmc_sample *sample, const uint8_t *values, size_t n, const unsigned unit_nbytes)
{
    const unsigned nbits = 8 * unit_nbytes;
    const unsigned rotation = sample->rotation;
    for (size_t i = 0; i < n; i++) {
        uint64_t x = lmc_load_n(values + i * unit_nbytes, unit_nbytes);
        x = x << rotation | x >> 1 >> (nbits - 1 - rotation);
        sample->head_low[x >> (nbits - LMC_FMT_HEAD_NBITS) & 0xff]++;
        for (unsigned j = 0; j + 2 < unit_nbytes; j++)
            sample->rest[j][x >> (nbits - LMC_FMT_HEAD_NBITS - 8 * (j + 1)) & 0xff]++;
    }
}

/* The loops above, once for each width. */
static survey survey_any(const uint8_t *values, size_t n, unsigned unit_nbytes)
{
    switch (unit_nbytes) {
    case 1: return survey_values(values, n, 1);
    case 2: return survey_values(values, n, 2);
    case 4: return survey_values(values, n, 4);
    default: return survey_values(values, n, 8);
    }
}

static void count_heads_any(lmc_sample *sample, const uint8_t *values, size_t n, unsigned unit_nbytes)
{
    switch (unit_nbytes) {
    case 1: count_heads(sample, values, n, 1); break;
    case 2: count_heads(sample, values, n, 2); break;
    case 4: count_heads(sample, values, n, 4); break;
    default: count_heads(sample, values, n, 8); break;
    }
}

static void count_bytes_any(lmc_sample *sample, const uint8_t *values, size_t n, unsigned unit_nbytes)
{
    switch (unit_nbytes) {
    case 2: count_bytes(sample, values, n, 2); break;
    case 4: count_bytes(sample, values, n, 4); break;
    default: count_bytes(sample, values, n, 8); break;
    }
}

/* Counts n values more. Masked zeros are taken out again: cheaper than a look at each value. */
static void count_values(lmc_sample *sample, const uint8_t *values, size_t n, unsigned unit_nbytes)
{
    const size_t step = sample->is_low_exact ? 1 : LMC_SAMPLE_LOW_RUN_STEP;
    count_heads_any(sample, values, n, unit_nbytes);
    sample->counted += n;
    if (sample->skips_zeros) {
        const uint64_t zeros = survey_any(values, n, unit_nbytes).zeros;
        sample->head[0] -= (uint32_t)zeros;
        sample->counted -= zeros;
    }
    for (size_t i = 0; i < n && unit_nbytes > 1; i += step * LMC_SAMPLE_RUN_VALUES) {
        const uint8_t *const run = values + i * unit_nbytes;
        const size_t run_values = lmc_min_size(LMC_SAMPLE_RUN_VALUES, n - i);
        count_bytes_any(sample, run, run_values, unit_nbytes);
        if (sample->skips_zeros) {
            const uint32_t zeros = (uint32_t)survey_any(run, run_values, unit_nbytes).zeros;
            sample->head_low[0] -= zeros;
            for (unsigned j = 0; j + 2 < unit_nbytes; j++)
                sample->rest[j][0] -= zeros;
        }
    }
}

lmc_status lmc_sample_take(lmc_sample *sample, uint64_t content_nbytes, unsigned unit_nbytes, int is_signed,
                           int exact, lmc_read_fn read, void *user, uint8_t *buffer)
{
    size_t n;
    memset(sample, 0, sizeof *sample);
    sample->value_count = content_nbytes / unit_nbytes;
    lmc_status status = read_runs(sample->value_count, unit_nbytes, read, user, buffer, &n);
    if (status != LMC_OK)
        return status;
    const survey s = survey_any(buffer, n, unit_nbytes);
    sample->rotation = is_signed && (s.any ^ s.all) >> (8 * unit_nbytes - 1) & 1;
    sample->zeros = s.zeros;
    sample->skips_zeros = unit_nbytes > 1 && s.zeros * 100 >= n * (uint64_t)MASK_PERCENT_MIN && s.zeros < n;
    sample->is_exact = exact || n == sample->value_count;
    sample->is_low_exact = exact || n <= LMC_SAMPLE_VALUES / LMC_SAMPLE_LOW_RUN_STEP;
    if (!exact || n == sample->value_count) {
        count_values(sample, buffer, n, unit_nbytes);
        return LMC_OK;
    }
    for (uint64_t first = 0; first < sample->value_count; first += n) {
        n = (size_t)lmc_min_u64(LMC_SAMPLE_VALUES, sample->value_count - first);
        status = read(user, first * unit_nbytes, buffer, n * unit_nbytes);
        if (status != LMC_OK)
            return status;
        count_values(sample, buffer, n, unit_nbytes);
    }
    return LMC_OK;
}
