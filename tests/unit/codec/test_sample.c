/* test_sample.c - the histograms of a sample against counts made one value at a time; what is called noise. */
#include "lmc_test_data.h"

#include "codec/plain/sample.h"
#include "lmc_test.h"

#define N_MAX 250000

static lmc_sample *sample;
static uint8_t *values, *buffer;
static unsigned high_nbits = LMC_SAMPLE_HIGH_NBITS_MAX; /* that a sample is asked for */

static lmc_status read_values(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    memcpy(dst, (const uint8_t *)user + offset, nbytes);
    return LMC_OK;
}

static void take(size_t n, unsigned element_nbytes, int is_signed, int exact)
{
    const lmc_sample_options options = {.is_signed = is_signed,
                                        .exact = exact,
                                        .high_nbits = element_nbytes == 1 ? 8 : high_nbits,
                                        .mask_per_mille_min = 50};
    const lmc_content content = {
        .element_nbytes = element_nbytes, .value_count = n, .read = read_values, .user = values};
    CU_ASSERT_EQUAL_FATAL(lmc_sample_take(sample, &options, &content, buffer), LMC_OK);
    lmc_sample_count_high(sample, element_nbytes, buffer);
    CU_ASSERT_EQUAL(sample->value_count, n);
}

/* Zeros with this chance in 100; else random, with signs or without. */
static void fill_values(size_t n, unsigned element_nbytes, unsigned zero_percent, int has_signs)
{
    random_fill(values, n * element_nbytes);
    for (size_t i = 0; i < n; i++)
        if (random_below(100) < zero_percent)
            memset(values + i * element_nbytes, 0, element_nbytes);
        else if (!has_signs)
            values[(i + 1) * element_nbytes - 1] &= 0x7f;
}

/* Every value is in the histograms; of noise some bytes are left out. */
static void check_counts(size_t n, unsigned element_nbytes)
{
    static uint32_t high[1 << LMC_SAMPLE_HIGH_NBITS_MAX], low[LMC_FMT_PLANE_COUNT_MAX - 1][256];
    const unsigned nbits = 8 * element_nbytes;
    memset(high, 0, sizeof high);
    memset(low, 0, sizeof low);
    for (size_t i = 0; i < n; i++) {
        uint64_t x = lmc_load_n(values + i * element_nbytes, element_nbytes);
        if (sample->has_mask && x == sample->mask_value)
            continue;
        if (sample->rotation)
            x = (x << 1 | x >> (nbits - 1)) & lmc_low_mask(nbits);
        high[element_nbytes == 1 ? x : x >> (nbits - sample->high_nbits)]++;
        for (unsigned j = 0; j + 1 < element_nbytes; j++)
            low[j][x >> (nbits - 16 - 8 * j) & 0xff]++;
    }
    CU_ASSERT_EQUAL(memcmp(sample->high, high, sizeof high[0] << sample->high_nbits), 0);
    if (element_nbytes == 1 || sample->is_low_noise || !sample->is_low_exact)
        return;
    CU_ASSERT_EQUAL(memcmp(sample->high_low_byte, low[0], sizeof low[0]), 0);
    for (unsigned j = 0; j + 2 < element_nbytes; j++)
        CU_ASSERT_EQUAL(memcmp(sample->lower[j], low[j + 1], sizeof low[0]), 0);
}

LMC_TEST(test_counts)
{
    static const size_t sizes[] = {1, 2, 3, 7, 8, 9, 511, 512, 513, 1500, 2047, 5000, 16384, 65535, 65536};
    for (unsigned element_nbytes = 1; element_nbytes <= 8; element_nbytes *= 2)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (unsigned kind = 0; kind < 8; kind++) {
                const size_t n = sizes[i];
                fill_values(n, element_nbytes, kind & 1 ? 40 : 1, kind >> 1 & 1);
                take(n, element_nbytes, kind >> 2, 0);
                if (element_nbytes > 1 && n > LMC_SAMPLE_VALUES_MIN) {
                    CU_ASSERT(!sample->is_exact && !sample->is_low_exact);
                    CU_ASSERT_EQUAL(sample->seen_count, LMC_SAMPLE_VALUES_MIN);
                    continue;
                }
                CU_ASSERT(sample->is_exact);
                if (n > 100)
                    CU_ASSERT_EQUAL(sample->rotation, (kind >> 1 & 1) && kind >> 2);
                CU_ASSERT(element_nbytes > 1 || !sample->has_mask);
                if (n > 1000 && element_nbytes > 1)
                    CU_ASSERT_EQUAL(sample->has_mask, (int)(kind & 1));
                check_counts(n, element_nbytes);
            }
}

/* Signs stay where they are if the lowest byte of wide elements never changes, as in bf16 values kept as f32. */
LMC_TEST(test_signs_and_calm_bytes)
{
    const size_t n = 5000;
    for (unsigned element_nbytes = 2; element_nbytes <= 8; element_nbytes *= 2) {
        for (unsigned is_calm = 0; is_calm < 2; is_calm++) {
            fill_values(n, element_nbytes, 0, 1);
            for (size_t i = 0; i < n && is_calm; i++)
                values[i * element_nbytes] = 0x11;
            take(n, element_nbytes, 1, 0);
            CU_ASSERT_EQUAL(sample->rotation, element_nbytes == 2 || !is_calm);
            check_counts(n, element_nbytes);
        }
    }
}

/* Any resolution; a sign that stays is a bit more where there is room for it. */
LMC_TEST(test_resolutions)
{
    for (unsigned element_nbytes = 2; element_nbytes <= 8; element_nbytes *= 2) {
        for (high_nbits = 8; high_nbits <= LMC_SAMPLE_HIGH_NBITS_MAX; high_nbits++) {
            for (unsigned kind = 0; kind < 8; kind++) {
                const int has_signs = kind & 1, is_signed = kind >> 1 & 1, exact = kind >> 2;
                const int stays = is_signed && !has_signs && high_nbits < LMC_SAMPLE_HIGH_NBITS_MAX;
                fill_values(3001, element_nbytes, 20, has_signs);
                take(3001, element_nbytes, is_signed, exact);
                CU_ASSERT_EQUAL(sample->high_nbits, high_nbits + (unsigned)stays);
                check_counts(3001, element_nbytes);
            }
        }
    }
    high_nbits = LMC_SAMPLE_HIGH_NBITS_MAX;
}

/* What fills the end is the mask, if it is frequent enough and there are not zeros enough. */
LMC_TEST(test_fill_at_the_end)
{
    const size_t n = 16000;
    for (unsigned element_nbytes = 2; element_nbytes <= 8; element_nbytes *= 2) {
        for (size_t end = 1; end <= n / 2; end *= 10) {
            fill_values(n, element_nbytes, 0, 1);
            memset(values + (n - end) * element_nbytes, 0x7c, end * element_nbytes);
            take(n, element_nbytes, 1, 0);
            CU_ASSERT_EQUAL(sample->has_mask, end >= n / 20);
            CU_ASSERT_EQUAL(sample->mask_value,
                            sample->has_mask ? UINT64_C(0x7c7c7c7c7c7c7c7c) >> (64 - 8 * element_nbytes) : 0);
            check_counts(n, element_nbytes);
        }
        fill_values(n, element_nbytes, 40, 1);
        memset(values + n / 2 * element_nbytes, 0x7c, n / 2 * element_nbytes);
        take(n, element_nbytes, 1, 0);
        CU_ASSERT(sample->has_mask && sample->mask_value == 0);
        memset(values, 0x7c, n * element_nbytes);
        take(n, element_nbytes, 1, 0);
        CU_ASSERT(!sample->has_mask);
    }
}

/* More values than the buffer holds: all of them when asked for. */
LMC_TEST(test_all_values)
{
    for (unsigned element_nbytes = 1; element_nbytes <= 8; element_nbytes *= 2) {
        fill_values(N_MAX, element_nbytes, 10, 1);
        take(N_MAX, element_nbytes, 1, 1);
        CU_ASSERT(sample->is_exact && sample->is_low_exact && !sample->is_low_noise);
        check_counts(N_MAX, element_nbytes);
        take(N_MAX, element_nbytes, 1, 0);
        CU_ASSERT(!sample->is_exact && !sample->is_low_exact);
    }
}

static uint64_t counted_high(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < (size_t)1 << sample->high_nbits; i++)
        sum += sample->high[i];
    return sum;
}

/* A sample is a share of a large tensor, within bounds, from one end to the other. */
LMC_TEST(test_sample_size)
{
    static const size_t sizes[] = {LMC_SAMPLE_VALUES_MIN + 1, 20001, 65537,
                                   LMC_SAMPLE_SHARE * LMC_SAMPLE_VALUES_MIN, N_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (unsigned element_nbytes = 2; element_nbytes <= 8; element_nbytes *= 2) {
            const size_t n = sizes[i], share = n / LMC_SAMPLE_SHARE;
            fill_values(n, element_nbytes, 0, 0);
            memset(values, 0x7f, element_nbytes);
            memset(values + (n - 1) * element_nbytes, 0x7e, element_nbytes);
            for (size_t k = 1; k + 1 < n; k++)
                values[(k + 1) * element_nbytes - 1] &= 0x3f;
            take(n, element_nbytes, 0, 0);
            CU_ASSERT(sample->seen_count >= LMC_SAMPLE_VALUES_MIN);
            CU_ASSERT(sample->seen_count <= (share > LMC_SAMPLE_VALUES_MIN ? share : LMC_SAMPLE_VALUES_MIN));
            CU_ASSERT_EQUAL(counted_high(), sample->seen_count);
            CU_ASSERT_EQUAL(sample->high[0x7f7f >> (16 - sample->high_nbits)], 1);
            CU_ASSERT_EQUAL(sample->high[0x7e7e >> (16 - sample->high_nbits)], 1);
        }
    }
}

/* Random bytes are noise; not so if one value makes up a fifth of a plane, or if only half the values occur. */
LMC_TEST(test_noise)
{
    static const size_t sizes[] = {8192, 16384, 40000, 65536, N_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_t n = sizes[i];
        for (unsigned kind = 0; kind < 3; kind++) {
            fill_values(n, 4, 0, 1);
            for (size_t k = 0; k < n; k++) {
                if (kind == 1 && k % 5 == 0)
                    values[4 * k] = 0x55;
                if (kind == 2)
                    values[4 * k + 1] &= 0xfe;
            }
            take(n, 4, 0, 0);
            CU_ASSERT_EQUAL(sample->is_low_noise, kind == 0);
        }
    }
    fill_values(1000, 4, 0, 1); /* too few to tell */
    take(1000, 4, 0, 0);
    CU_ASSERT(!sample->is_low_noise);
}

LMC_TEST_MAIN_WITH("sample",
                   (sample = must_malloc(sizeof *sample), values = must_malloc(N_MAX * 8),
                    buffer = must_malloc(LMC_SAMPLE_BUFFER_NBYTES)),
                   (free(sample), free(values), free(buffer)))
