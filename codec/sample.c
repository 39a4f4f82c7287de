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

/* What all values together say. */
typedef struct survey {
    uint64_t any, all; /* bits set in some value, in all */
    uint64_t zeros;
} survey;

LMC_INLINE survey survey_values(const uint8_t *values, size_t n, const unsigned unit_nbytes)
{
    survey s = {0, ~UINT64_C(0), 0};
    for (size_t i = 0; i < n; i++) {
        const uint64_t x = lmc_load_n(values + i * unit_nbytes, unit_nbytes);
        s.any |= x;
        s.all &= x;
        s.zeros += x == 0;
    }
    return s;
}

LMC_INLINE void count_heads(lmc_sample *sample, const uint8_t *values, size_t n, const unsigned unit_nbytes)
{
    const unsigned nbits = 8 * unit_nbytes;
    for (size_t i = 0; i < n; i++) {
        uint64_t x = lmc_load_n(values + i * unit_nbytes, unit_nbytes);
        if (sample->skips_zeros && x == 0)
            continue;
        if (sample->rotation)
            x = (x << 1 | x >> (nbits - 1)) & lmc_low_mask(nbits);
        sample->counted++;
        sample->head[unit_nbytes == 1 ? x : x >> (nbits - LMC_SAMPLE_HEAD_NBITS)]++;
    }
}

LMC_INLINE void count_bytes(lmc_sample *sample, const uint8_t *values, size_t n, const unsigned unit_nbytes)
{
    const unsigned nbits = 8 * unit_nbytes;
    for (size_t i = 0; i < n; i++) {
        uint64_t x = lmc_load_n(values + i * unit_nbytes, unit_nbytes);
        if (sample->skips_zeros && x == 0)
            continue;
        if (sample->rotation)
            x = (x << 1 | x >> (nbits - 1)) & lmc_low_mask(nbits);
        sample->head_low[x >> (nbits - LMC_FMT_HEAD_NBITS) & 0xff]++;
        for (unsigned j = 0; j + 2 < unit_nbytes; j++)
            sample->rest[j][x >> (nbits - LMC_FMT_HEAD_NBITS - 8 * (j + 1)) & 0xff]++;
    }
}

LMC_INLINE void count_values(lmc_sample *sample, const uint8_t *values, size_t n, const unsigned unit_nbytes)
{
    const size_t run_nbytes = LMC_SAMPLE_RUN_VALUES * unit_nbytes;
    const size_t step = sample->is_low_exact ? 1 : LMC_SAMPLE_LOW_RUN_STEP;
    count_heads(sample, values, n, unit_nbytes);
    if (unit_nbytes == 1)
        return;
    for (size_t i = 0; i * LMC_SAMPLE_RUN_VALUES < n; i += step)
        count_bytes(sample, values + i * run_nbytes,
                    lmc_min_size(LMC_SAMPLE_RUN_VALUES, n - i * LMC_SAMPLE_RUN_VALUES), unit_nbytes);
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

static void count_any(lmc_sample *sample, const uint8_t *values, size_t n, unsigned unit_nbytes)
{
    switch (unit_nbytes) {
    case 1: count_values(sample, values, n, 1); break;
    case 2: count_values(sample, values, n, 2); break;
    case 4: count_values(sample, values, n, 4); break;
    default: count_values(sample, values, n, 8); break;
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
        count_any(sample, buffer, n, unit_nbytes);
        return LMC_OK;
    }
    for (uint64_t first = 0; first < sample->value_count; first += n) {
        n = (size_t)lmc_min_u64(LMC_SAMPLE_VALUES, sample->value_count - first);
        status = read(user, first * unit_nbytes, buffer, n * unit_nbytes);
        if (status != LMC_OK)
            return status;
        count_any(sample, buffer, n, unit_nbytes);
    }
    return LMC_OK;
}
