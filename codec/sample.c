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

/* Whether the top bit differs among the values. */
static int sign_changes(const uint8_t *values, size_t n, unsigned unit_nbytes)
{
    unsigned all = 0x80, any = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t top = values[(i + 1) * unit_nbytes - 1] & 0x80;
        all &= top;
        any |= top;
    }
    return all != any;
}

LMC_INLINE void count_values(lmc_sample *sample, const uint8_t *values, size_t n, const unsigned unit_nbytes)
{
    const unsigned nbits = 8 * unit_nbytes;
    for (size_t i = 0; i < n; i++) {
        uint64_t x = lmc_load_n(values + i * unit_nbytes, unit_nbytes);
        if (sample->skips_zeros && x == 0)
            continue;
        if (sample->rotation)
            x = (x << 1 | x >> (nbits - 1)) & lmc_low_mask(nbits);
        sample->counted++;
        if (unit_nbytes == 1) {
            sample->head[x]++;
            continue;
        }
        const unsigned head = (unsigned)(x >> (nbits - LMC_FMT_HEAD_NBITS));
        sample->head[head >> LMC_SAMPLE_HEAD_SHIFT]++;
        sample->head_low[head & 0xff]++;
        for (unsigned j = 0; j + 2 < unit_nbytes; j++)
            sample->rest[j][x >> (nbits - LMC_FMT_HEAD_NBITS - 8 * (j + 1)) & 0xff]++;
    }
}

static void count(lmc_sample *sample, const uint8_t *values, size_t n, unsigned unit_nbytes)
{
    switch (unit_nbytes) {
    case 1: count_values(sample, values, n, 1); break;
    case 2: count_values(sample, values, n, 2); break;
    case 4: count_values(sample, values, n, 4); break;
    default: count_values(sample, values, n, 8); break;
    }
}

static uint64_t count_zeros(const uint8_t *values, size_t n, unsigned unit_nbytes)
{
    uint64_t zeros = 0;
    for (size_t i = 0; i < n; i++)
        zeros += lmc_load_n(values + i * unit_nbytes, unit_nbytes) == 0;
    return zeros;
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
    sample->rotation = is_signed && sign_changes(buffer, n, unit_nbytes);
    sample->zeros = count_zeros(buffer, n, unit_nbytes);
    sample->is_exact = n == sample->value_count;
    sample->skips_zeros =
        unit_nbytes > 1 && sample->zeros * 100 >= n * (uint64_t)MASK_PERCENT_MIN && sample->zeros < n;
    if (sample->is_exact || !exact) {
        count(sample, buffer, n, unit_nbytes);
        return LMC_OK;
    }
    sample->is_exact = 1;
    for (uint64_t first = 0; first < sample->value_count; first += n) {
        n = (size_t)lmc_min_u64(LMC_SAMPLE_VALUES, sample->value_count - first);
        status = read(user, first * unit_nbytes, buffer, n * unit_nbytes);
        if (status != LMC_OK)
            return status;
        count(sample, buffer, n, unit_nbytes);
    }
    return LMC_OK;
}
