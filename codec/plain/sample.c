/* sample.c - reads a sample of a tensor, and counts high parts and lower bytes. The loops work on words of 64 bits,
 * whose lanes are values. */
#include "codec/plain/sample.h"

/* Runs of neighbouring values, spread over a tensor that is larger than the sample. */
#define RUN_VALUES 128
#define RUN_COUNT_MAX (LMC_SAMPLE_VALUES / RUN_VALUES)

/* Bytes below the symbols are noise or far from it. LOW_RUNS runs of a large sample are enough to count them, and
 * NOISE_RUNS of those to find out if they are noise. Two bytes of noise are equal one time in 256. Chance may make it a
 * little more often, by no more than NOISE_EXCESS. */
#define LOW_RUNS 128
#define NOISE_RUNS 16
#define NOISE_VALUES_MIN 2048
#define NOISE_EXCESS 0.08

/* Reads runs at even distances, or the whole tensor when it is no larger than the sample. *n: the values read. */
static lmc_status read_runs(const lmc_content *content, uint8_t *buffer, size_t *n)
{
    const unsigned element_nbytes = content->element_nbytes;
    const uint64_t share = content->value_count / LMC_SAMPLE_SHARE;
    const uint64_t least = share > LMC_SAMPLE_VALUES_MIN ? share : LMC_SAMPLE_VALUES_MIN;
    const size_t wanted =
        element_nbytes == 1 ? LMC_SAMPLE_VALUES : (size_t)lmc_min_u64(least, LMC_SAMPLE_VALUES);
    *n = wanted / RUN_VALUES * RUN_VALUES;
    if (content->value_count <= *n) {
        *n = (size_t)content->value_count;
        return content->read(content->user, 0, buffer, *n * element_nbytes);
    }
    const size_t run_nbytes = RUN_VALUES * element_nbytes;
    const size_t run_count = *n / RUN_VALUES;
    const uint64_t span = content->value_count - RUN_VALUES;
    const uint64_t step = span / (run_count - 1), rest = span % (run_count - 1);
    for (uint64_t i = 0; i < run_count; i++) {
        const uint64_t first = step * i + rest * i / (run_count - 1);
        LMC_TRY(content->read(content->user, first * element_nbytes, buffer + i * run_nbytes, run_nbytes));
    }
    return LMC_OK;
}

/* ---- all values together ---- */

/* Bits that are set in some value, and bits that are set in all values. */
typedef struct survey {
    uint64_t any, all;
} survey;

/* The last bytes, less than a word, are values of their own. */
LMC_INLINE survey survey_values(const uint8_t *values, size_t n, const unsigned element_nbytes)
{
    const unsigned nbits = 8 * element_nbytes;
    const uint64_t lane = lmc_low_mask(nbits);
    const size_t word_count = n * element_nbytes / 8;
    uint64_t any = 0, all = ~UINT64_C(0);
    survey s = {0, lane};
    for (size_t i = 0; i < word_count; i++) {
        const uint64_t x = lmc_load64(values + 8 * i);
        any |= x;
        all &= x;
    }
    for (unsigned k = 0; k < 64 && word_count > 0; k += nbits) {
        s.any |= any >> k & lane;
        s.all &= all >> k & lane;
    }
    for (size_t i = 8 * word_count / element_nbytes; i < n; i++) {
        const uint64_t x = lmc_load_n(values + i * element_nbytes, element_nbytes);
        s.any |= x;
        s.all &= x;
    }
    return s;
}

/* Words that are counted together. A byte can count so many. */
#define COUNT_WORDS 128

/* The number of values that are equal to `value`. */
LMC_INLINE uint64_t count_equal(const uint8_t *values, size_t n, uint64_t value,
                                const unsigned element_nbytes)
{
    const unsigned nbits = 8 * element_nbytes;
    const uint64_t lane = lmc_low_mask(nbits);
    const uint64_t tops = ~UINT64_C(0) / lane << (nbits - 1); /* the top bit of each lane */
    const uint64_t wanted = ~UINT64_C(0) / lane * value;
    const size_t word_count = n * element_nbytes / 8;
    uint64_t count = 0;
    for (size_t first = 0; first < word_count; first += COUNT_WORDS) {
        const size_t end = lmc_min_size(first + COUNT_WORDS, word_count);
        uint64_t equal = 0; /* of each lane */
        for (size_t i = first; i < end; i++) {
            const uint64_t x = lmc_load64(values + 8 * i) ^ wanted;
            equal += (~(((x & ~tops) + ~tops) | x) & tops) >> (nbits - 1);
        }
        for (unsigned k = 0; k < 64; k += nbits)
            count += equal >> k & lane;
    }
    for (size_t i = 8 * word_count / element_nbytes; i < n; i++)
        count += lmc_load_n(values + i * element_nbytes, element_nbytes) == value;
    return count;
}

/* ---- histograms ---- */

/* Is the value in a word's lowest lane masked? */
LMC_INLINE int is_masked(const lmc_sample *sample, uint64_t word, const unsigned element_nbytes)
{
    return (word & lmc_low_mask(8 * element_nbytes)) == sample->mask_value;
}

/* Counts the top bits of high parts. A rotation by one moves them down by one; bits above them may be set. Masked
 * values follow no pattern that a branch could learn, so they are counted too, in places of their own. These places
 * take turns: a count that was just stored is slow to load again. */
LMC_INLINE void count_high(lmc_sample *sample, const uint8_t *values, size_t n, const unsigned element_nbytes,
                           const int has_mask)
{
    const unsigned nbits = 8 * element_nbytes;
    const unsigned shift = nbits - sample->high_nbits - sample->rotation;
    const uint64_t mask = lmc_low_mask(sample->high_nbits);
    const size_t word_count = n * element_nbytes / 8;
    for (size_t i = 0; i < word_count; i++) {
        const uint64_t word = lmc_load64(values + 8 * i);
        for (unsigned k = 0; k < 64; k += nbits) {
            const uint64_t place = word >> shift >> k & mask;
            const uint64_t aside = LMC_SAMPLE_ASIDE + (i % 2 * 4 | k / 16);
            const uint64_t masked = has_mask && is_masked(sample, word >> k, element_nbytes);
            sample->high[place ^ ((place ^ aside) & (0 - masked))]++;
        }
    }
    for (size_t i = 8 * word_count / element_nbytes; i < n; i++) {
        const uint64_t x = lmc_load_n(values + i * element_nbytes, element_nbytes);
        if (!has_mask || !is_masked(sample, x, element_nbytes))
            sample->high[x >> shift & mask]++;
    }
}

/* As count_high() for elements of one byte. Few places get all of them, often twice in a row, and a count that was
 * just stored is slow to load again. So each lane of a word has its own histogram. */
static void count_high_bytes(lmc_sample *sample, const uint8_t *values, size_t n)
{
    uint32_t part[8][256] = {{0}};
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const uint64_t word = lmc_load64(values + i);
        for (unsigned k = 0; k < 8; k++)
            part[k][word >> 8 * k & 0xff]++;
    }
    for (; i < n; i++)
        part[0][values[i]]++;
    for (unsigned b = 0; b < 256; b++) {
        const unsigned rotated = (b << sample->rotation | b >> (8 - sample->rotation)) & 0xff;
        for (unsigned k = 0; k < 8; k++)
            sample->high[rotated] += part[k][b];
    }
}

/* Rotates each lane of a word left by 0 or 1. */
LMC_INLINE uint64_t rotate_lanes(uint64_t word, unsigned rotation, const unsigned element_nbytes)
{
    const unsigned nbits = 8 * element_nbytes;
    const uint64_t bottoms = ~UINT64_C(0) / lmc_low_mask(nbits);
    if (rotation == 0)
        return word;
    return (word & ~(bottoms << (nbits - 1))) << 1 | (word >> (nbits - 1) & bottoms);
}

/* Counts the bytes below the first byte of the rotated value in a word's lowest lane: `once`, which is 0 if it is
 * masked. */
LMC_INLINE void count_value_bytes(lmc_sample *sample, uint64_t rotated, uint32_t once,
                                  const unsigned element_nbytes)
{
    const unsigned high_shift = 8 * element_nbytes - LMC_FMT_HIGH_NBITS;
    sample->high_low_byte[rotated >> high_shift & 0xff] += once;
    for (unsigned j = 0; j + 2 < element_nbytes; j++)
        sample->lower[j][rotated >> (high_shift - 8 * (j + 1)) & 0xff] += once;
}

LMC_INLINE void count_bytes(lmc_sample *sample, const uint8_t *values, size_t n,
                            const unsigned element_nbytes, const int has_mask)
{
    const unsigned nbits = 8 * element_nbytes;
    const unsigned rotation = sample->rotation;
    const size_t word_count = n * element_nbytes / 8;
    for (size_t i = 0; i < word_count; i++) {
        const uint64_t word = lmc_load64(values + 8 * i);
        const uint64_t rotated = rotate_lanes(word, rotation, element_nbytes);
        for (unsigned k = 0; k < 64; k += nbits)
            count_value_bytes(sample, rotated >> k,
                              !has_mask || !is_masked(sample, word >> k, element_nbytes), element_nbytes);
    }
    for (size_t i = 8 * word_count / element_nbytes; i < n; i++) {
        const uint64_t x = lmc_load_n(values + i * element_nbytes, element_nbytes);
        count_value_bytes(sample, rotate_lanes(x, rotation, element_nbytes),
                          !has_mask || !is_masked(sample, x, element_nbytes), element_nbytes);
    }
}

static void count_high_any(lmc_sample *sample, const uint8_t *values, size_t n, unsigned element_nbytes)
{
    switch (2 * element_nbytes + (unsigned)sample->has_mask) {
    case 2: count_high_bytes(sample, values, n); break;
    case 4: count_high(sample, values, n, 2, 0); break;
    case 5: count_high(sample, values, n, 2, 1); break;
    case 8: count_high(sample, values, n, 4, 0); break;
    case 9: count_high(sample, values, n, 4, 1); break;
    case 16: count_high(sample, values, n, 8, 0); break;
    default: count_high(sample, values, n, 8, 1); break;
    }
}

static void count_bytes_any(lmc_sample *sample, const uint8_t *values, size_t n, unsigned element_nbytes)
{
    switch (2 * element_nbytes + (unsigned)sample->has_mask) {
    case 4: count_bytes(sample, values, n, 2, 0); break;
    case 5: count_bytes(sample, values, n, 2, 1); break;
    case 8: count_bytes(sample, values, n, 4, 0); break;
    case 9: count_bytes(sample, values, n, 4, 1); break;
    case 16: count_bytes(sample, values, n, 8, 0); break;
    default: count_bytes(sample, values, n, 8, 1); break;
    }
}

/* Counts the bytes of runs whose number is a multiple of `step` but not of `but` (0: of all such runs). */
static void count_runs(lmc_sample *sample, const uint8_t *values, size_t n, unsigned element_nbytes,
                       size_t step, size_t but)
{
    for (size_t i = 0; i * RUN_VALUES < n; i += step) {
        const size_t first = i * RUN_VALUES;
        if (but == 0 || i % but != 0)
            count_bytes_any(sample, values + first * element_nbytes, lmc_min_size(RUN_VALUES, n - first),
                            element_nbytes);
    }
}

static int is_noise(const uint32_t counts[256])
{
    double n = 0, equal_pairs = 0;
    for (unsigned b = 0; b < 256; b++) {
        n += counts[b];
        equal_pairs += counts[b] * (counts[b] - 1.0);
    }
    return n >= NOISE_VALUES_MIN && 256 * equal_pairs <= (1 + NOISE_EXCESS) * n * n;
}

/* Some rows of a tensor may hold narrower floats: their lower bytes end in zeros, all others are noise. Then lower
 * bytes are counted in the runs that end in zeros alone, and the blocks of such rows get their codes. */
static void count_calm_runs(lmc_sample *sample, const uint8_t *values, size_t n, unsigned element_nbytes)
{
    size_t calm_count = 0;
    uint8_t is_calm[RUN_COUNT_MAX];
    const size_t run_count = n / RUN_VALUES;
    for (size_t i = 0; i < run_count; i++) {
        const uint8_t *const run = values + i * RUN_VALUES * element_nbytes;
        size_t zeros = 0;
        while (zeros < RUN_VALUES && run[zeros * element_nbytes] == 0)
            zeros++;
        is_calm[i] = zeros == RUN_VALUES;
        calm_count += is_calm[i];
    }
    if (calm_count == 0 || calm_count == run_count)
        return;
    for (size_t i = 0; i < run_count; i++)
        if (is_calm[i])
            count_bytes_any(sample, values + i * RUN_VALUES * element_nbytes, RUN_VALUES, element_nbytes);
    sample->is_low_exact = 0;
    sample->is_low_mixed = 1;
}

/* Counts lower bytes: first enough to find noise, then, unless they are noise, all that the sample wants. */
static void count_low_bytes(lmc_sample *sample, const uint8_t *values, size_t n, unsigned element_nbytes)
{
    const size_t run_count = n / RUN_VALUES;
    const size_t step = run_count > LOW_RUNS ? run_count / LOW_RUNS : 1;
    const size_t noise_step = run_count > NOISE_RUNS * step ? run_count / NOISE_RUNS / step * step : step;
    count_runs(sample, values, n, element_nbytes, noise_step, 0);
    sample->is_low_noise = is_noise(sample->high_low_byte);
    for (unsigned j = 0; j + 2 < element_nbytes; j++)
        sample->is_low_noise = sample->is_low_noise && is_noise(sample->lower[j]);
    if (!sample->is_low_noise)
        count_runs(sample, values, n, element_nbytes, step, noise_step);
}

/* ---- the mask ---- */

/* Chooses the value to mask, if it is frequent enough: zero, as in pruned weights, or the value at the end, since
 * arrays have fill values at their edges. In elements of one byte it is a symbol like any other. */
static void choose_mask(lmc_sample *sample, unsigned per_mille_min, const uint8_t *values, size_t n,
                        unsigned element_nbytes)
{
    if (element_nbytes == 1)
        return;
    const uint64_t last = lmc_load_n(values + (n - 1) * element_nbytes, element_nbytes);
    const int is_run = n >= 2 && lmc_load_n(values + (n - 2) * element_nbytes, element_nbytes) == last;
    for (int k = 0; k < 1 + is_run && !sample->has_mask; k++) {
        const uint64_t value = k == 0 ? 0 : last;
        const uint64_t count = element_nbytes == 2   ? count_equal(values, n, value, 2)
                               : element_nbytes == 4 ? count_equal(values, n, value, 4)
                                                     : count_equal(values, n, value, 8);
        sample->has_mask = count * 1000 >= n * (uint64_t)per_mille_min && count < n;
        sample->mask_value = sample->has_mask ? value : 0;
    }
}

lmc_status lmc_sample_take(lmc_sample *sample, const lmc_sample_options *options, const lmc_content *content,
                           uint8_t *buffer)
{
    const unsigned element_nbytes = content->element_nbytes;
    const uint64_t value_count = content->value_count;
    const int exact = options->exact && value_count <= UINT32_MAX; /* counts have 32 bits */
    size_t n;
    LMC_TRY(read_runs(content, buffer, &n));
    memset(sample, 0, offsetof(lmc_sample, high));
    sample->value_count = value_count;
    sample->seen_count = exact ? value_count : n;
    sample->is_exact = exact || n == value_count;
    sample->is_low_exact = exact || (n == value_count && n <= LOW_RUNS * RUN_VALUES);
    if (options->is_signed) {
        /* A sign that is noise belongs at the bottom of an element. It stays if it never changes. It also stays if the
         * bottom never changes, as in bf16 values kept as f32. */
        const survey s = element_nbytes == 1   ? survey_values(buffer, n, 1)
                         : element_nbytes == 2 ? survey_values(buffer, n, 2)
                         : element_nbytes == 4 ? survey_values(buffer, n, 4)
                                               : survey_values(buffer, n, 8);
        const uint64_t varying = s.any ^ s.all; /* bits that are set in some values only */
        const int changes = varying >> (8 * element_nbytes - 1) & 1;
        sample->rotation = changes && (element_nbytes <= 2 || (varying & 0xff) != 0);
    }
    sample->high_nbits = options->high_nbits;
    if (options->is_signed && !sample->rotation && element_nbytes > 1)
        sample->high_nbits = (unsigned)lmc_min_size(options->high_nbits + 1, LMC_SAMPLE_HIGH_NBITS_MAX);
    sample->is_high_counted = exact;
    memset(sample->high, 0, sizeof sample->high[0] << sample->high_nbits);
    choose_mask(sample, options->mask_per_mille_min, buffer, n, element_nbytes);
    if (element_nbytes >= 4 && !sample->has_mask)
        count_calm_runs(sample, buffer, n, element_nbytes);
    if (!exact) {
        if (element_nbytes > 1 && !sample->is_low_mixed)
            count_low_bytes(sample, buffer, n, element_nbytes);
        return LMC_OK;
    }
    for (uint64_t first = 0; first < value_count; first += n) {
        n = (size_t)lmc_min_u64(LMC_SAMPLE_VALUES, value_count - first);
        LMC_TRY(content->read(content->user, first * element_nbytes, buffer, n * element_nbytes));
        count_high_any(sample, buffer, n, element_nbytes);
        if (element_nbytes > 1 && !sample->is_low_mixed)
            count_runs(sample, buffer, n, element_nbytes, 1, 0);
    }
    return LMC_OK;
}

void lmc_sample_count_high(lmc_sample *sample, unsigned element_nbytes, const uint8_t *buffer)
{
    if (!sample->is_high_counted)
        count_high_any(sample, buffer, (size_t)sample->seen_count, element_nbytes);
    sample->is_high_counted = 1;
}
