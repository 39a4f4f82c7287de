/* offsets_plan.c - means of magnitudes over sampled rows give each column its offset and rows their level. Magnitudes
 * are clipped some octaves below the median: near zero they say nothing of the scale. Entropy of the sample decides
 * whether offsets are worth their bytes. */
#include "codec/plain/offsets_plan.h"

#include "codec/common/entropy.h"

/* Rows that are sampled: a share of the tensor, within limits. */
#define ROW_SHARE 8
#define ROWS_MIN 64
#define ROWS_MAX 256
#define ROWS_LEAST 8 /* with fewer there is nothing to gain */

/* Without a shape, stretches of so many elements get offsets as rows do, and columns get none. */
#define STRETCH_VALUES 512
#define STRETCHES_MIN 32

/* Magnitudes are clipped so far below the median. */
#define CLIP_OCTAVES 3

/* Steps of an offset: eighths of an octave. */
#define STEPS_LOG2 3

/* The standard deviation of one magnitude, in octaves: chance moves a mean over n of them by this / sqrt(n). */
#define MAGNITUDE_DEVIATION 1.6

/* Bits a value that offsets of this variance, in squared octaves, save: between those for a normal distribution and for
 * one with heavy tails. */
#define SAVED_NBITS 0.5

/* Offsets must save this share of what symbols and low bits take. */
#define GAIN_MIN 0.0005

/* Values that entropies are estimated by, and values of the histogram that codes are chosen by. */
#define TRIED_VALUES 16384
#define COUNTED_VALUES LMC_SAMPLE_VALUES

typedef struct row_sample {
    const lmc_offsets_input *input;
    lmc_offsets_work *work;
    unsigned rotation;
    uint32_t column_count;
    uint64_t all_rows; /* of the tensor */
    size_t row_count;
    unsigned octave_log2; /* an octave in high parts */
    lmc_clip clip;
} row_sample;

static unsigned high_nbits(const row_sample *s)
{
    return s->input->element_nbytes == 1 ? 8 : LMC_FMT_HIGH_NBITS;
}

static uint16_t *row_at(const row_sample *s, size_t row)
{
    return s->work->high + row * s->column_count;
}

/* Reads rows at even distances. */
static lmc_status read_rows(const row_sample *s, uint8_t *buffer)
{
    const lmc_offsets_input *const input = s->input;
    const unsigned element_nbytes = input->element_nbytes;
    const size_t piece = LMC_SAMPLE_BUFFER_NBYTES / 8;
    for (size_t i = 0; i < s->row_count; i++) {
        const uint64_t row = s->row_count > 1 ? (s->all_rows - 1) * i / (s->row_count - 1) : 0;
        for (size_t j = 0; j < s->column_count; j += piece) {
            const size_t n = lmc_min_size(piece, s->column_count - j);
            LMC_TRY(input->read(input->user, (row * s->column_count + j) * element_nbytes, buffer,
                                n * element_nbytes));
            input->kernels->high_parts[lmc_element_log2(element_nbytes)](s->rotation, buffer, n,
                                                                         row_at(s, i) + j);
        }
    }
    return LMC_OK;
}

/* Where magnitudes are clipped: at the beginning of an octave below that of the median. */
static void find_clip(row_sample *s)
{
    uint32_t octaves[1 << 11] = {0};
    const size_t n = s->row_count * s->column_count;
    const size_t step = n / 1024 + 1;
    const size_t count = (n - 1) / step + 1;
    const unsigned sign_place = high_nbits(s) - 1;
    s->clip.mask = (uint16_t)(s->rotation ? (1u << high_nbits(s)) - 1 : (1u << sign_place) - 1);
    for (size_t i = 0; i < n; i += step)
        octaves[(s->work->high[i] & s->clip.mask) >> s->octave_log2]++;
    unsigned median = 0;
    for (size_t below = octaves[0]; 2 * below <= count; below += octaves[median])
        median++;
    s->clip.floor = (uint16_t)((median > CLIP_OCTAVES ? median - CLIP_OCTAVES : 0) << s->octave_log2);
}

/* Sums of the rows' clipped magnitudes, with the columns' offsets if there are any. Returns the sum over all. */
static uint64_t sum_rows(const row_sample *s, const lmc_clip *clip, const uint16_t *columns)
{
    uint64_t all = 0;
    for (size_t i = 0; i < s->row_count; i++) {
        s->work->row_sums[i] = s->input->kernels->sum_clipped(clip, row_at(s, i), columns, s->column_count);
        all += s->work->row_sums[i];
    }
    return all;
}

/* The variance of n means, less what chance makes of means over `count` magnitudes; in squared octaves. */
static double variance(double squares, double sum, size_t n, size_t count, const row_sample *s)
{
    const double octave = 1 << s->octave_log2;
    const double mean = sum / (double)n;
    return (squares / (double)n - mean * mean) / (octave * octave) -
           MAGNITUDE_DEVIATION * MAGNITUDE_DEVIATION / (double)count;
}

/* The variance of the rows' means. */
static double row_variance(const row_sample *s)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < s->row_count; i++) {
        const double mean = (double)s->work->row_sums[i] / s->column_count;
        sum += mean;
        squares += mean * mean;
    }
    return variance(squares, sum, s->row_count, s->column_count, s);
}

/* Sums of the columns' clipped magnitudes, after each row was brought to the mean of all, by sums of rows that were
 * taken with the same columns. */
static void sum_columns(const row_sample *s, const lmc_clip *clip, const uint16_t *columns, uint64_t all)
{
    const int64_t mean = (int64_t)(all / s->row_count / s->column_count);
    memset(s->work->sums, 0, s->column_count * sizeof *s->work->sums);
    for (size_t i = 0; i < s->row_count; i++) {
        const int64_t row_mean = (int64_t)(s->work->row_sums[i] / s->column_count);
        const int64_t floor = clip->floor + row_mean - mean;
        const lmc_clip row_clip = {clip->mask, (uint16_t)(floor < 0 ? 0 : floor > 0xffff ? 0xffff : floor)};
        s->input->kernels->add_clipped(&row_clip, row_at(s, i), columns, s->column_count, s->work->sums);
    }
}

/* Turns means of columns into values in steps, in work->column_values: less than what they say where chance is a large
 * part of it. Returns the variance that is not chance. */
static double value_columns(const row_sample *s, const uint16_t *columns, unsigned step_log2)
{
    lmc_offsets_work *const work = s->work;
    double sum = 0, squares = 0;
    for (size_t j = 0; j < s->column_count; j++) {
        const double mean = (double)work->sums[j] / (double)s->row_count - (columns ? columns[j] : 0);
        sum += mean;
        squares += mean * mean;
    }
    const double column_variance = variance(squares, sum, s->column_count, s->row_count, s);
    const double chance = MAGNITUDE_DEVIATION * MAGNITUDE_DEVIATION / (double)s->row_count;
    const int is_all = s->row_count == s->all_rows; /* then chance is a property of the tensor */
    const double trust = is_all ? 1 : column_variance > 0 ? column_variance / (column_variance + chance) : 0;
    const double all_mean = sum / s->column_count;
    for (size_t j = 0; j < s->column_count; j++) {
        const double mean = (double)work->sums[j] / (double)s->row_count - (columns ? columns[j] : 0);
        const double steps = (all_mean - mean) * trust / (1 << step_log2);
        work->column_values[j] = (int32_t)(steps >= 0 ? steps + 0.5 : steps - 0.5);
    }
    return column_variance;
}

/* Sets the columns' offsets by their values, in as few bits as they take. Returns their mean. */
static unsigned set_columns(const row_sample *s, unsigned step_log2, uint16_t *columns, uint8_t *nbits)
{
    const int32_t range = (1 << LMC_FMT_OFFSET_NBITS_MAX) - 1;
    const int32_t *const values = s->work->column_values;
    int32_t least = values[0], most = values[0];
    uint64_t sum = 0;
    for (size_t j = 1; j < s->column_count; j++) {
        least = values[j] < least ? values[j] : least;
        most = values[j] > most ? values[j] : most;
    }
    least = most - least > range ? most - range : least;
    *nbits = (uint8_t)(most > least ? lmc_highest_bit((uint64_t)(most - least)) + 1 : 0);
    for (size_t j = 0; j < s->column_count; j++) {
        columns[j] = (uint16_t)((values[j] > least ? values[j] - least : 0) << step_log2);
        sum += columns[j];
    }
    return (unsigned)(sum / s->column_count);
}

/* Estimates the columns in two rounds: the first one knows the rows without columns only. */
static double estimate_columns(const row_sample *s, uint64_t all, uint16_t *columns, lmc_offsets *offsets)
{
    sum_columns(s, &s->clip, NULL, all);
    double column_variance = value_columns(s, NULL, offsets->step_log2);
    if (column_variance <= 0)
        return 0;
    for (unsigned round = 0; round < 2; round++) {
        const unsigned mean = set_columns(s, offsets->step_log2, columns, &offsets->column_nbits);
        offsets->clip = (lmc_clip){s->clip.mask, (uint16_t)(s->clip.floor + mean)};
        all = sum_rows(s, &offsets->clip, columns);
        if (round == 1)
            break;
        sum_columns(s, &offsets->clip, columns, all);
        column_variance = value_columns(s, columns, offsets->step_log2);
    }
    offsets->columns = columns;
    return column_variance;
}

/* Sets the level that rows are brought to, and the offsets of the sampled rows. *row_nbits: the bits of a row's value.
 */
static void set_rows(const row_sample *s, lmc_offsets *offsets, unsigned *row_nbits)
{
    uint64_t all = 0;
    int32_t least = INT32_MAX, most = INT32_MIN;
    for (size_t i = 0; i < s->row_count; i++)
        all += s->work->row_sums[i];
    offsets->level = (uint16_t)(all / s->row_count / s->column_count);
    for (size_t i = 0; i < s->row_count; i++) {
        const int32_t value = lmc_offsets_row_value(offsets, s->work->row_sums[i], s->column_count);
        s->work->row_offsets[i] = (uint16_t)((uint32_t)value << offsets->step_log2);
        least = value < least ? value : least;
        most = value > most ? value : most;
    }
    *row_nbits = most > least ? lmc_highest_bit((uint64_t)(most - least)) + 1 : 0;
}

/* ---- what offsets gain ---- */

/* Counts up to `wanted` values, from all over the sample, by the top bits of their high parts. */
static size_t count_high(const row_sample *s, const lmc_offsets *offsets, size_t wanted, unsigned nbits,
                         uint32_t *counts)
{
    const size_t all = s->row_count * s->column_count;
    const size_t row_step = all > wanted ? lmc_min_size(all / wanted, s->row_count) : 1;
    const unsigned shift = high_nbits(s) - nbits;
    const uint16_t mask = (uint16_t)((1u << high_nbits(s)) - 1);
    size_t n = 0;
    for (size_t i = 0; i < s->row_count && n < wanted; i += row_step) {
        const uint16_t *const high = row_at(s, i);
        const uint16_t row = offsets && offsets->has_rows ? s->work->row_offsets[i] : 0;
        const uint16_t *const columns = offsets ? offsets->columns : NULL;
        const size_t count = lmc_min_size(s->column_count, wanted - n);
        for (size_t j = 0; j < count; j++)
            counts[((high[j] + row + (columns ? columns[j] : 0)) & mask) >> shift]++;
        n += count;
    }
    return n;
}

/* Bits of a value under a code for high parts of this resolution. */
static double entropy_of(const row_sample *s, const lmc_offsets *offsets, unsigned nbits, uint32_t *counts)
{
    unsigned used;
    memset(counts, 0, sizeof *counts << nbits);
    count_high(s, offsets, TRIED_VALUES, nbits, counts);
    return lmc_counts_entropy(counts, (size_t)1 << nbits, &used) + high_nbits(s) - nbits;
}

/* The resolution that entropies are compared at: that of a split which joins the exponent with two bits or more of the
 * mantissa. */
static unsigned compared_nbits(const row_sample *s)
{
    const unsigned nbits = s->input->element_nbytes == 1 ? 8u - s->rotation
                                                         : s->input->exponent_nbits + 2 +
                                                               (s->input->exponent_nbits == 5) + !s->rotation;
    return (1u << nbits) <= LMC_ROW_SAMPLE_BINS ? nbits : lmc_highest_bit(LMC_ROW_SAMPLE_BINS);
}

/* Do offsets save enough, besides the nbits a value that they take? */
static int is_gain(const row_sample *s, const lmc_offsets *offsets, double nbits)
{
    const unsigned lower_nbits = s->input->element_nbytes > 2 ? 8 * (s->input->element_nbytes - 2) : 0;
    const unsigned resolution = compared_nbits(s);
    const double without = entropy_of(s, NULL, resolution, s->work->bins);
    const double with = entropy_of(s, offsets, resolution, s->work->bins);
    return with + nbits < without - GAIN_MIN * (without + lower_nbits);
}

/* ---- the whole ---- */

/* The rows of the tensor, or stretches of it. Returns 0 if it is too small. */
static int choose_shape(row_sample *s)
{
    const lmc_offsets_input *const input = s->input;
    const uint32_t columns = input->column_count;
    const int is_matrix = columns >= LMC_FMT_COLUMN_COUNT_MIN && columns <= LMC_OFFSETS_COLUMNS_MAX &&
                          input->value_count / columns >= ROWS_LEAST;
    s->column_count = is_matrix ? columns : STRETCH_VALUES;
    s->all_rows = input->value_count / s->column_count;
    if (s->all_rows < (is_matrix ? ROWS_LEAST : STRETCHES_MIN))
        return 0;
    const unsigned more = input->is_thorough ? 4 : 1;
    uint64_t wanted = s->all_rows / ROW_SHARE * more;
    wanted = wanted < ROWS_MIN ? ROWS_MIN : wanted > ROWS_MAX * more ? ROWS_MAX * more : wanted;
    wanted = lmc_min_u64(wanted, s->all_rows);
    s->row_count = (size_t)lmc_min_u64(wanted, LMC_ROW_SAMPLE_VALUES / s->column_count);
    return 1;
}

/* Decides columns, then rows. Returns the bits a value that they take; *offsets has neither if they save less. */
static double choose_offsets(const row_sample *s, uint16_t *columns, lmc_offsets *offsets)
{
    const int is_matrix = s->column_count == s->input->column_count;
    const uint64_t all = sum_rows(s, &s->clip, NULL);
    double nbits = 0;
    unsigned row_nbits;
    offsets->clip = s->clip;
    if (is_matrix) {
        const double saved = SAVED_NBITS * estimate_columns(s, all, columns, offsets);
        nbits = offsets->column_nbits / (double)s->all_rows;
        if (saved <= nbits) {
            nbits = 0;
            offsets->columns = NULL;
            offsets->column_nbits = 0;
            offsets->clip = s->clip;
            sum_rows(s, &s->clip, NULL);
        }
    }
    set_rows(s, offsets, &row_nbits);
    const double rows_take = row_nbits / (double)s->column_count;
    offsets->has_rows = SAVED_NBITS * row_variance(s) > rows_take;
    return offsets->has_rows ? nbits + rows_take : nbits;
}

lmc_status lmc_offsets_decide(const lmc_offsets_input *input, lmc_sample *sample, lmc_offsets_work *work,
                              uint8_t *buffer, uint16_t *columns, lmc_offsets *offsets, double *nbits)
{
    row_sample s = {.input = input, .work = work, .rotation = sample->rotation};
    memset(offsets, 0, sizeof *offsets);
    *nbits = 0;
    s.octave_log2 = high_nbits(&s) - input->exponent_nbits - !s.rotation;
    if (!choose_shape(&s))
        return LMC_OK;
    const unsigned sign_place = s.rotation && input->element_nbytes <= 2;
    const unsigned step_log2 = s.octave_log2 > STEPS_LOG2 ? s.octave_log2 - STEPS_LOG2 : 0;
    offsets->step_log2 = (uint8_t)(step_log2 < sign_place ? sign_place : step_log2);
    LMC_TRY(read_rows(&s, buffer));
    find_clip(&s);
    *nbits = choose_offsets(&s, columns, offsets);
    if ((!offsets->columns && !offsets->has_rows) || !is_gain(&s, offsets, *nbits))
        return LMC_OK;
    offsets->column_count = s.column_count;
    memset(sample->high, 0, sizeof sample->high[0] << sample->high_nbits);
    sample->seen_count = count_high(&s, offsets, COUNTED_VALUES, sample->high_nbits, sample->high);
    sample->is_exact = 0;
    sample->is_high_shifted = 1;
    return LMC_OK;
}
