/* offsets_plan.c - means of magnitudes over sampled rows give each column its offset and rows their level. Magnitudes
 * are clipped some octaves below the median: near zero they say little of the scale. A glance at a part of the tensor
 * comes first, and the entropy of the sample has the last word. */
#include "codec/plain/offsets_plan.h"

#include "codec/common/dtype.h"
#include "codec/common/entropy.h"

/* The glance: rows, and neighbouring elements of each; of stretches fewer, since columns do not count. */
#define GLANCE_ROWS 64
#define GLANCE_VALUES 256
#define GLANCE_STRETCH_VALUES 128

/* Rows that are sampled: a share of the tensor, but so many rows and values at least. */
#define SAMPLE_ROWS_MIN 64
#define SAMPLE_VALUES_MIN 32768

/* Costs refine columns that so many rows of a sample have values of. */
#define REFINED_ROWS_MIN 256

/* Without a shape, stretches of so many elements get offsets as rows do, and columns get none. */
#define STRETCH_VALUES 512
#define STRETCHES_MIN 32

/* Magnitudes are clipped so far below the median. Values without a sign, as second moments, have rows and columns that
 * lie many octaves apart. */
#define CLIP_OCTAVES 3
#define CLIP_OCTAVES_UNSIGNED 8

/* Steps of an offset: eighths of an octave. */
#define STEPS_LOG2 3

/* The standard deviation of one magnitude, in octaves: chance moves a mean over n of them by this / sqrt(n). */
#define MAGNITUDE_DEVIATION 1.6

/* Bits a value that offsets save for each squared octave of their variance: between those for a normal distribution and
 * for one with heavy tails. */
#define SAVED_NBITS 0.5

/* At a glance offsets must promise so many bits an element, and so many for each offset. */
#define GLANCE_NBITS_MIN 0.004
#define GLANCE_OFFSET_NBITS 2

/* Values of the histogram that codes are chosen by: a share of the tensor, but so many at least. */
#define COUNTED_VALUES_MIN 32768

/* How much is done for a decision. */
typedef struct effort {
    unsigned sample_share;     /* of the tensor's rows: one in so many */
    size_t tried_values;       /* of the sample, that entropies are estimated by */
    unsigned counted_share;    /* of the tensor's values, for the histogram: one in so many ... */
    size_t counted_values_max; /* ... and at most */
    double gain_min;           /* offsets must save this share of an element's bits */
    int has_costs;             /* offsets are refined */
} effort;

static const effort usual = {32, 4096, 16, LMC_SAMPLE_VALUES, 0.0005, 0};
static const effort thorough = {1, 32768, 4, 4 * LMC_SAMPLE_VALUES, 0.0001, 1}; /* level max */

/* Neighbouring elements of some rows, and what is known of them. */
typedef struct row_sample {
    const lmc_content *content;
    const effort *effort;
    const lmc_kernels *kernels;
    lmc_offsets_work *work;
    unsigned exponent_nbits;
    unsigned rotation;
    unsigned octave_log2; /* an octave in high parts */
    uint64_t row_length;  /* of the tensor ... */
    uint64_t all_rows;
    uint32_t column_count; /* ... and what the sample has of it: all columns, or some at a glance */
    size_t row_count;
    lmc_clip clip;
    uint64_t sum; /* of the rows' sums */
} row_sample;

static uint16_t *row_at(const row_sample *s, size_t row)
{
    return s->work->high + row * s->column_count;
}

/* Reads rows at even distances, from the middle of each. */
static lmc_status read_rows(const row_sample *s)
{
    const lmc_content *const content = s->content;
    const unsigned element_nbytes = content->element_nbytes;
    const uint64_t first_column = (s->row_length - s->column_count) / 2;
    for (size_t i = 0; i < s->row_count; i++) {
        const uint64_t row = s->row_count > 1 ? (s->all_rows - 1) * i / (s->row_count - 1) : 0;
        const uint64_t first = row * s->row_length + first_column;
        for (size_t j = 0; j < s->column_count; j += LMC_ROW_PIECE_VALUES) {
            const size_t n = lmc_min_size(LMC_ROW_PIECE_VALUES, s->column_count - j);
            LMC_TRY(content->read(content->user, (first + j) * element_nbytes, s->work->piece,
                                  n * element_nbytes));
            s->kernels->high_parts[lmc_element_log2(element_nbytes)](s->rotation, s->work->piece, n,
                                                                     row_at(s, i) + j);
        }
    }
    return LMC_OK;
}

/* ---- means and their variance ---- */

/* The variance of n means, from their sum and that of their squares, less what chance makes of means over `count`
 * magnitudes; in squared octaves. */
static double variance(const row_sample *s, double sum, double squares, size_t n, size_t count)
{
    const double octave = 1 << s->octave_log2;
    const double mean = sum / (double)n;
    return (squares / (double)n - mean * mean) / (octave * octave) -
           MAGNITUDE_DEVIATION * MAGNITUDE_DEVIATION / (double)count;
}

/* Sums up the clipped magnitudes of each row, with the columns' offsets if there are any. Returns the variance of the
 * rows' means. */
static double sum_rows(row_sample *s, const lmc_clip *clip, const uint16_t *columns)
{
    double sum = 0, squares = 0;
    s->sum = 0;
    for (size_t i = 0; i < s->row_count; i++) {
        const uint32_t row_sum = s->kernels->sum_clipped(clip, row_at(s, i), columns, s->column_count);
        const double mean = (double)row_sum / s->column_count;
        s->work->row_sums[i] = row_sum;
        s->sum += row_sum;
        sum += mean;
        squares += mean * mean;
    }
    return variance(s, sum, squares, s->row_count, s->column_count);
}

/* Sums up the clipped magnitudes of each column, with the columns' offsets if there are any, after each row was brought
 * to the mean of all. sum_rows() came before. Returns the variance of the columns' means. */
static double sum_columns(const row_sample *s, const lmc_clip *clip, const uint16_t *columns)
{
    lmc_offsets_work *const work = s->work;
    const int64_t mean_of_all = (int64_t)(s->sum / s->row_count / s->column_count);
    const double each = 1 / (double)s->row_count;
    double sum = 0, squares = 0;
    memset(work->sums, 0, s->column_count * sizeof *work->sums);
    for (size_t i = 0; i < s->row_count; i++) {
        const int64_t floor = clip->floor + work->row_sums[i] / s->column_count - mean_of_all;
        const lmc_clip row_clip = {clip->mask, (uint16_t)(floor < 0 ? 0 : floor > 0xffff ? 0xffff : floor)};
        s->kernels->add_clipped(&row_clip, row_at(s, i), columns, s->column_count, work->sums);
    }
    for (size_t j = 0; j < s->column_count; j++) {
        const double mean = work->sums[j] * each - (columns ? columns[j] : 0);
        work->column_means[j] = (float)mean;
        sum += mean;
        squares += mean * mean;
    }
    return variance(s, sum, squares, s->column_count, s->row_count);
}

/* ---- columns ---- */

/* Rounds to an integer. */
static int32_t nearest(double x)
{
    return (int32_t)(x >= 0 ? x + 0.5 : x - 0.5);
}

/* Finds the columns' offsets, which bring their means together; less where chance is a large part of the means. Returns
 * what they save, in bits a value, less what they take; 0 if that is nothing. */
static double find_columns(row_sample *s, uint16_t *columns, lmc_offsets *offsets)
{
    sum_rows(s, &s->clip, NULL);
    const double column_variance = sum_columns(s, &s->clip, NULL);
    if (column_variance <= 0)
        return 0;
    const int32_t range = (1 << LMC_FMT_OFFSET_NBITS_MAX) - 1;
    const float *const means = s->work->column_means;
    const double chance = MAGNITUDE_DEVIATION * MAGNITUDE_DEVIATION / (double)s->row_count;
    const int is_all = s->row_count == s->all_rows; /* then chance is a property of the tensor */
    const double trust = is_all ? 1 : column_variance / (column_variance + chance);
    const double steps = trust / (1 << offsets->step_log2);
    float lowest = means[0], highest = means[0];
    uint64_t sum = 0;
    for (size_t j = 1; j < s->column_count; j++) {
        lowest = means[j] < lowest ? means[j] : lowest;
        highest = means[j] > highest ? means[j] : highest;
    }
    int32_t most = nearest((highest - lowest) * steps);
    most = most < range ? most : range;
    for (size_t j = 0; j < s->column_count; j++) {
        const int32_t value = nearest((highest - means[j]) * steps);
        columns[j] = (uint16_t)((value < most ? value : most) << offsets->step_log2);
        sum += columns[j];
    }
    offsets->columns = columns;
    offsets->column_nbits = (uint8_t)(most > 0 ? lmc_highest_bit((uint64_t)most) + 1 : 0);
    offsets->clip = (lmc_clip){s->clip.mask, (uint16_t)(s->clip.floor + sum / s->column_count)};
    const double saved = SAVED_NBITS * column_variance - offsets->column_nbits / (double)s->all_rows;
    return offsets->column_nbits > 0 && saved > 0 ? saved : 0;
}

/* ---- rows ---- */

/* Bits of the row values, for each value of the tensor. */
static double rows_take(const row_sample *s)
{
    int32_t least = INT32_MAX, most = INT32_MIN;
    for (size_t i = 0; i < s->row_count; i++) {
        least = s->work->row_values[i] < least ? s->work->row_values[i] : least;
        most = s->work->row_values[i] > most ? s->work->row_values[i] : most;
    }
    return most > least ? (lmc_highest_bit((uint64_t)(most - least)) + 1) / (double)s->column_count : 0;
}

/* Decides columns, then rows. */
static void choose_offsets(row_sample *s, uint16_t *columns, lmc_offsets *offsets)
{
    if (s->row_length != s->content->column_count || find_columns(s, columns, offsets) <= 0) {
        offsets->columns = NULL;
        offsets->column_nbits = 0;
        offsets->clip = s->clip;
    }
    const double row_variance = sum_rows(s, &offsets->clip, offsets->columns);
    offsets->level = (uint16_t)(s->sum / s->row_count / s->column_count);
    for (size_t i = 0; i < s->row_count; i++)
        s->work->row_values[i] =
            lmc_offsets_row_value(offsets, (double)s->work->row_sums[i] / s->column_count);
    offsets->has_rows = SAVED_NBITS * row_variance > rows_take(s);
    if (!offsets->has_rows)
        memset(s->work->row_values, 0, s->row_count * sizeof *s->work->row_values);
}

/* Refines columns and sampled rows by costs. Moves the level to where rows are then. */
static void refine_offsets(row_sample *s, uint16_t *columns, lmc_offsets *offsets, lmc_offset_costs *costs)
{
    const int columns_move =
        offsets->columns && (s->row_count == s->all_rows || s->row_count >= REFINED_ROWS_MIN);
    const lmc_offset_rows rows = {.high = s->work->high,
                                  .row_count = s->row_count,
                                  .column_count = s->column_count,
                                  .has_row_values = offsets->has_rows,
                                  .row_values = s->work->row_values,
                                  .columns = offsets->columns ? columns : NULL,
                                  .columns_move = columns_move};
    lmc_offset_costs_place(costs, offsets->clip.mask, offsets->step_log2, offsets->level);
    const unsigned column_nbits = lmc_offset_costs_refine(costs, &rows);
    if (columns_move) {
        offsets->column_nbits = (uint8_t)column_nbits;
        offsets->columns = column_nbits > 0 ? columns : NULL;
    }
    if (!offsets->has_rows) {
        memset(s->work->row_values, 0, s->row_count * sizeof *s->work->row_values);
        return;
    }
    uint64_t column_sum = 0;
    int64_t row_sum = 0;
    for (size_t j = 0; j < s->column_count && offsets->columns; j++)
        column_sum += columns[j];
    offsets->clip.floor = (uint16_t)(s->clip.floor + column_sum / s->column_count);
    sum_rows(s, &offsets->clip, offsets->columns);
    for (size_t i = 0; i < s->row_count; i++)
        row_sum += s->work->row_values[i];
    const int64_t mean = (int64_t)(s->sum / s->row_count / s->column_count);
    offsets->level = (uint16_t)(mean + row_sum * (1 << offsets->step_log2) / (int64_t)s->row_count);
    offsets->costs = costs;
}

/* ---- what offsets gain ---- */

/* Counts about `wanted` values, some of each sampled row, by the nbits top bits of their high parts, with these offsets
 * (NULL: none). Returns how many. */
static size_t count_high(const row_sample *s, const lmc_offsets *offsets, size_t wanted, unsigned nbits,
                         uint32_t *counts)
{
    const size_t row_values = lmc_min_size(lmc_min_size(s->column_count, LMC_ROW_PIECE_VALUES),
                                           (size_t)lmc_div_ceil(wanted, s->row_count));
    const uint16_t mask = (uint16_t)((1u << lmc_high_nbits(s->content->element_nbytes)) - 1);
    const unsigned shift = lmc_high_nbits(s->content->element_nbytes) - nbits;
    memset(counts, 0, sizeof *counts << nbits);
    for (size_t i = 0; i < s->row_count; i++) {
        const size_t first = (s->column_count - row_values) * i / s->row_count;
        const uint16_t *const columns = offsets && offsets->columns ? offsets->columns + first : NULL;
        const uint32_t row = offsets ? (uint32_t)s->work->row_values[i] << offsets->step_log2 : 0;
        s->kernels->add_shifts(row_at(s, i) + first, columns, (uint16_t)row, row_values, s->work->shifted);
        const uint16_t *const high = s->work->shifted;
        size_t j = 0;
        for (; j + 4 <= row_values; j += 4) {
            const uint64_t four = lmc_load64(high + j);
            for (unsigned k = 0; k < 64; k += 16)
                counts[((four >> k) & mask) >> shift]++;
        }
        for (; j < row_values; j++)
            counts[(high[j] & mask) >> shift]++;
    }
    return s->row_count * row_values;
}

/* The entropy of high parts at the resolution of a split which joins the exponent with two bits or more of the
 * mantissa. */
static double entropy_of(const row_sample *s, const lmc_offsets *offsets)
{
    unsigned used, nbits = 8 - s->rotation;
    if (s->content->element_nbytes > 1) {
        nbits = s->exponent_nbits + 2 + (s->exponent_nbits == 5) + !s->rotation;
        nbits = (1u << nbits) <= LMC_ROW_SAMPLE_BINS ? nbits : lmc_highest_bit(LMC_ROW_SAMPLE_BINS);
    }
    count_high(s, offsets, s->effort->tried_values, nbits, s->work->bins);
    return lmc_counts_entropy(s->work->bins, (size_t)1 << nbits, &used) +
           lmc_high_nbits(s->content->element_nbytes) - nbits;
}

/* ---- the whole ---- */

/* May offsets gain enough if the means of rows or columns have this variance? Each of them has so many values, which
 * share the bits of its offset. */
static int promises_gain(double variance, uint64_t value_count)
{
    return SAVED_NBITS * variance > GLANCE_NBITS_MIN + GLANCE_OFFSET_NBITS / (double)value_count;
}

/* Looks at a part of the tensor. *is_promising: offsets may gain enough. Leaves where magnitudes are clipped. */
static lmc_status glance(row_sample *s, int *is_promising)
{
    const int has_columns = s->row_length == s->content->column_count;
    s->column_count =
        (uint32_t)lmc_min_u64(s->row_length, has_columns ? GLANCE_VALUES : GLANCE_STRETCH_VALUES);
    s->row_count = (size_t)lmc_min_u64(s->all_rows, GLANCE_ROWS);
    LMC_TRY(read_rows(s));
    /* magnitudes are clipped at the beginning of an octave below that of the median */
    uint32_t octaves[1 << 11];
    const size_t n = s->row_count * s->column_count;
    const size_t step = n / 1024 + 1;
    const size_t count = (n - 1) / step + 1;
    const unsigned magnitude_nbits = lmc_high_nbits(s->content->element_nbytes) - !s->rotation;
    s->clip.mask = (uint16_t)((1u << magnitude_nbits) - 1);
    memset(octaves, 0, sizeof *octaves << (magnitude_nbits - s->octave_log2));
    for (size_t i = 0; i < n; i += step)
        octaves[(s->work->high[i] & s->clip.mask) >> s->octave_log2]++;
    unsigned median = 0;
    for (size_t below = octaves[0]; 2 * below <= count; below += octaves[median])
        median++;
    const unsigned below_median = s->rotation ? CLIP_OCTAVES : CLIP_OCTAVES_UNSIGNED;
    s->clip.floor = (uint16_t)((median > below_median ? median - below_median : 0) << s->octave_log2);
    *is_promising = promises_gain(sum_rows(s, &s->clip, NULL), s->row_length);
    if (!*is_promising && has_columns)
        *is_promising = promises_gain(sum_columns(s, &s->clip, NULL), s->all_rows);
    return LMC_OK;
}

/* Reads whole rows. */
static lmc_status take_sample(row_sample *s)
{
    const lmc_content *const content = s->content;
    const uint64_t values = content->value_count / s->effort->sample_share;
    const uint64_t wanted = (values > SAMPLE_VALUES_MIN ? values : SAMPLE_VALUES_MIN) / s->row_length;
    const uint64_t most = lmc_min_u64(LMC_ROW_SAMPLE_ROWS, LMC_ROW_SAMPLE_VALUES / s->row_length);
    const uint64_t rows = wanted > SAMPLE_ROWS_MIN ? wanted : SAMPLE_ROWS_MIN;
    s->column_count = (uint32_t)s->row_length;
    s->row_count = (size_t)lmc_min_u64(lmc_min_u64(rows, most), s->all_rows);
    return read_rows(s);
}

lmc_status lmc_offsets_decide(const lmc_content *content, lmc_sample *sample, lmc_offsets_work *work,
                              uint16_t *columns, lmc_offset_costs *costs, lmc_offsets *offsets, double *nbits)
{
    row_sample s = {.content = content,
                    .effort = content->level == LMC_LEVEL_MAX ? &thorough : &usual,
                    .kernels = lmc_kernels_get(),
                    .work = work,
                    .exponent_nbits = lmc_dtype_exponent_nbits(content->dtype),
                    .rotation = sample->rotation};
    int is_promising;
    memset(offsets, 0, sizeof *offsets);
    *nbits = 0;
    s.octave_log2 = lmc_high_nbits(s.content->element_nbytes) - s.exponent_nbits - !s.rotation;
    const uint32_t columns_given = content->column_count;
    const int is_matrix = columns_given >= LMC_FMT_COLUMN_COUNT_MIN &&
                          columns_given <= LMC_COLUMN_COUNT_MAX &&
                          content->value_count / columns_given >= LMC_ROW_COUNT_MIN;
    s.row_length = is_matrix ? columns_given : STRETCH_VALUES;
    s.all_rows = content->value_count / s.row_length;
    if (!is_matrix && s.all_rows < STRETCHES_MIN)
        return LMC_OK;
    LMC_TRY(glance(&s, &is_promising));
    if (!is_promising)
        return LMC_OK;
    const unsigned sign_place = s.rotation && content->element_nbytes <= 2;
    const unsigned step_log2 = s.octave_log2 > STEPS_LOG2 ? s.octave_log2 - STEPS_LOG2 : 0;
    offsets->step_log2 = (uint8_t)(step_log2 < sign_place ? sign_place : step_log2);
    LMC_TRY(take_sample(&s));
    choose_offsets(&s, columns, offsets);
    if (!offsets->columns && !offsets->has_rows)
        return LMC_OK;
    if (s.effort->has_costs)
        refine_offsets(&s, columns, offsets, costs);
    *nbits = offsets->column_nbits / (double)s.all_rows + rows_take(&s);
    const unsigned lower_nbits = content->element_nbytes > 2 ? 8 * (content->element_nbytes - 2) : 0;
    const double without = entropy_of(&s, NULL);
    if (entropy_of(&s, offsets) + *nbits >= without - s.effort->gain_min * (without + lower_nbits))
        return LMC_OK;
    const uint64_t share = content->value_count / s.effort->counted_share;
    const uint64_t counted = share > COUNTED_VALUES_MIN ? share : COUNTED_VALUES_MIN;
    offsets->column_count = (uint32_t)s.row_length;
    sample->seen_count = count_high(&s, offsets, (size_t)lmc_min_u64(counted, s.effort->counted_values_max),
                                    sample->high_nbits, sample->high);
    sample->is_exact = 0;
    sample->is_high_counted = 1;
    sample->is_high_shifted = 1;
    return LMC_OK;
}
