/* plan.c - weighs splits and codes by their cost on a sample. */
#include "plan.h"

#include "code_plan.h"
#include "dtype.h"
#include "entropy.h"

/* Symbols that a fast look-up covers (lmc_layer.narrow): the window holds the likely ones. */
#define WINDOW_SYMBOLS 127

/* Likely symbols outside of the window keep their codes from this share on; rarer ones go to the rest. */
#define OUTSIDE_SHARE_MIN 0.005

/* A plane is coded when that saves at least this share of it: decoding costs time. */
#define GAIN_MIN 0.015

/* From this share of one value on, a plane is looked at in every block: it may be constant, or gaps. */
#define DOMINANT_SHARE_MIN 0.9

/* What an escape costs beyond its way through the lists: its byte and its u16. */
#define ESCAPE_NBITS (8 + 16)
#define REST_NBITS 8
#define WAY_NBITS 8 /* the way to the rest, about */

/* A split on trial: the weights of its symbols, and its cost in bits a value, low plane included. */
typedef struct trial {
    lmc_split split;
    double weight[256];
    double cost;
} trial;

typedef struct decider {
    const lmc_sample *sample;
    double *counts; /* lmc_plan_work */
    unsigned unit_nbytes;
    lmc_level level;
    lmc_dtype_kind kind;
    unsigned exponent_nbits;
    unsigned sample_nbits;         /* the head's histogram has 2^sample_nbits places ... */
    unsigned head_first, head_end; /* ... of which these may be in use ... */
    const double *sums;            /* ... with so many values before each, up to head_end */
} decider;

static unsigned head_nbits(const decider *d)
{
    return d->unit_nbytes == 1 ? 8 : LMC_FMT_HEAD_NBITS;
}

/* ---- symbols of a split ---- */

/* Symbols first..last of a split may be in use; their numbers are counted around the ring. */
typedef struct used_symbols {
    unsigned first, last, mask;
} used_symbols;

/* Counts the 2^symbol_nbits symbols under an offset less than theirs, from the sums of the head's histogram. */
static used_symbols count_symbols(const decider *d, unsigned symbol_nbits, unsigned offset, double *counts)
{
    const unsigned places_log2 = d->sample_nbits - symbol_nbits; /* of a symbol in the histogram */
    const unsigned shift = offset >> (head_nbits(d) - d->sample_nbits);
    used_symbols range = {.first = (d->head_first + shift) >> places_log2,
                          .last = (d->head_end - 1 + shift) >> places_log2,
                          .mask = (1u << symbol_nbits) - 1};
    memset(counts, 0, sizeof *counts << symbol_nbits);
    double before = 0;
    for (unsigned s = range.first; s <= range.last; s++) {
        const unsigned end = ((s + 1) << places_log2) - shift;
        const double up_to = d->sums[end < d->head_end ? end : d->head_end];
        counts[s & range.mask] += up_to - before;
        before = up_to;
    }
    if (range.last > range.mask) { /* the last one is symbol 0 */
        range.first = 0;
        range.last = range.mask;
    }
    return range;
}

/* Where the window of WINDOW_SYMBOLS that holds most begins, the first of equals; symbols are a ring. */
static unsigned best_window(const double *counts, used_symbols range)
{
    const unsigned earliest = range.last < WINDOW_SYMBOLS ? 0 : range.last - (WINDOW_SYMBOLS - 1);
    if (earliest <= range.first)
        return earliest; /* it holds all */
    const unsigned start = range.first < WINDOW_SYMBOLS ? 0 : range.first - (WINDOW_SYMBOLS - 1);
    double sum = 0, best_sum;
    unsigned best = start;
    for (unsigned i = 0; i < WINDOW_SYMBOLS; i++)
        sum += counts[(start + i) & range.mask];
    best_sum = sum;
    for (unsigned s = start + 1; s <= range.last; s++) {
        sum += counts[(s + WINDOW_SYMBOLS - 1) & range.mask] - counts[s - 1];
        if (sum > best_sum) {
            best_sum = sum;
            best = s;
        }
    }
    return best;
}

/* Prices a split: what gets codes, and the way out for the rest. */
static void try_split(const decider *d, unsigned low_nbits, unsigned offset, trial *t)
{
    double *const counts = d->counts;
    const unsigned symbol_nbits = head_nbits(d) - low_nbits;
    double outside = 0, escaped = 0;
    memset(t, 0, sizeof *t);
    const used_symbols range = count_symbols(d, symbol_nbits, offset, counts);
    t->split.rotation = d->sample->rotation;
    t->split.low_nbits = (uint8_t)low_nbits;
    t->split.offset = (uint16_t)offset;
    t->split.base = (uint16_t)best_window(counts, range);
    for (unsigned s = range.first; s <= range.last; s++) {
        const unsigned symbol = (s - t->split.base) & range.mask;
        if (symbol < WINDOW_SYMBOLS || symbol_nbits <= 8)
            t->weight[symbol] = counts[s];
        if (symbol >= WINDOW_SYMBOLS)
            outside += counts[s];
        if (symbol >= LMC_FMT_SYMBOL_ESCAPE && symbol_nbits > 8)
            escaped += counts[s];
    }
    const double total = d->sums[d->head_end];
    if (symbol_nbits <= 8 && outside >= OUTSIDE_SHARE_MIN * total)
        outside = 0;
    else
        memset(t->weight + WINDOW_SYMBOLS, 0, (256 - WINDOW_SYMBOLS) * sizeof t->weight[0]);
    t->cost = low_nbits + lmc_code_floor(t->weight, (double)d->sample->value_count) +
              outside / total * (WAY_NBITS + REST_NBITS) + escaped / total * (ESCAPE_NBITS - REST_NBITS);
}

/* The best of several offsets: steps of a bin that move its edges off the powers of two. */
static void try_offsets(const decider *d, unsigned low_nbits, trial *best)
{
    const unsigned bin = 1u << low_nbits;
    const unsigned finest = 1u << LMC_SAMPLE_HEAD_SHIFT;
    const unsigned wanted = d->level == LMC_LEVEL_MAX ? 32 : 8;
    const unsigned step = bin / wanted > finest ? bin / wanted : finest;
    try_split(d, low_nbits, 0, best);
    for (unsigned offset = step; offset < bin; offset += step) {
        trial t;
        try_split(d, low_nbits, offset, &t);
        if (t.cost < best->cost)
            *best = t;
    }
}

/* ---- codes ---- */

static double sum_of(const double *weight, size_t count, double *largest)
{
    double sum = 0;
    *largest = 0;
    for (size_t i = 0; i < count; i++) {
        sum += weight[i];
        *largest = weight[i] > *largest ? weight[i] : *largest;
    }
    return sum;
}

/* Plans a code; returns its cost in bits a value. */
static double plan_code(const decider *d, const double *weight, int may_omit_rest, int is_flat,
                        lmc_code_shape *shape)
{
    const lmc_code_options options = {
        .flat_layers = is_flat && d->unit_nbytes > 1, /* bytes spread too wide for them */
        .fine_search = d->level == LMC_LEVEL_MAX,
        .may_omit_rest = may_omit_rest,
        .value_count = (double)d->sample->value_count,
    };
    return lmc_code_plan(weight, &options, shape);
}

/* Gives a byte plane a table if that pays, and marks it if blocks should look at it. */
static void decide_plane(const decider *d, const double *weight, unsigned plane, lmc_code_shape *shapes,
                         lmc_table *tables, lmc_decision *decision)
{
    lmc_coding *const coding = &decision->coding;
    double largest;
    const double total = sum_of(weight, 256, &largest);
    const int dominated = largest >= DOMINANT_SHARE_MIN * total;
    coding->flexible[plane] = (uint8_t)dominated;
    if (largest == total || lmc_code_floor(weight, (double)d->sample->value_count) > 8 * (1 - GAIN_MIN / 2))
        return;
    const int may_omit_rest =
        plane == LMC_PLANE_SYMBOLS ? dominated && d->sample->is_exact : d->sample->is_low_exact;
    const unsigned plane_nbits = plane == LMC_PLANE_SYMBOLS ? head_nbits(d) - coding->split.low_nbits : 8;
    const double most = plane_nbits * (1 - GAIN_MIN);
    const int is_fast = d->level == LMC_LEVEL_FAST;
    /* a mixture of two kinds of content may be too much for the search, but not for flat layers */
    if (plan_code(d, weight, may_omit_rest, is_fast, &shapes[plane]) > most &&
        (is_fast || plan_code(d, weight, may_omit_rest, 1, &shapes[plane]) > most))
        return;
    const lmc_status status = lmc_table_build(&shapes[plane], &tables[plane], NULL);
    assert(status == LMC_OK);
    (void)status;
    coding->table[plane] = &tables[plane];
    coding->flexible[plane] |= plane != LMC_PLANE_SYMBOLS || !tables[plane].has_rest;
}

/* ---- the split ---- */

static void to_weights(const uint32_t *counts, double *weight)
{
    for (unsigned i = 0; i < 256; i++)
        weight[i] = counts[i];
}

/* Low bits of a split that joins the exponent with the top of the mantissa: 2 bits of it, 3 of an f16, as
 * many as fit of an f64. A sign that was not rotated away is part of the symbol. */
static unsigned joint_low_nbits(const decider *d)
{
    const unsigned mantissa_nbits = d->exponent_nbits == 5 ? 3 : d->exponent_nbits == 11 ? 1 : 2;
    const unsigned symbol_nbits = d->exponent_nbits + mantissa_nbits + !d->sample->rotation;
    const unsigned low_nbits = LMC_FMT_HEAD_NBITS - symbol_nbits;
    return low_nbits < LMC_FMT_LOW_NBITS_MIN_WIDE ? LMC_FMT_LOW_NBITS_MIN_WIDE : low_nbits;
}

/* Bits a value that a code saves of the head's low byte. */
static double low_plane_gain(const decider *d)
{
    double weight[256];
    if (d->sample->is_low_noise)
        return 0;
    to_weights(d->sample->head_low, weight);
    const double cost = lmc_code_floor(weight, (double)d->sample->value_count);
    return cost < 8 * (1 - GAIN_MIN) ? 8 - cost : 0;
}

/* Bins of an exponent each are moved only where the joint split, whose bins are a fourth of that, is no gain
 * even over unmoved ones. */
static void choose_wide_split(const decider *d, trial *best)
{
    trial other;
    try_split(d, 8, 0, best);
    best->cost -= low_plane_gain(d);
    if (d->kind != LMC_KIND_FLOAT)
        return;
    const unsigned low_nbits = joint_low_nbits(d);
    if (d->level != LMC_LEVEL_FAST && low_nbits < 8) {
        try_offsets(d, low_nbits, &other);
        if (other.cost < best->cost) {
            *best = other;
            return;
        }
    }
    try_offsets(d, 8, &other);
    if (other.cost < best->cost)
        *best = other;
}

static void choose_byte_split(const decider *d, trial *best)
{
    try_split(d, 0, 0, best);
    if (d->kind == LMC_KIND_FLOAT &&
        d->sample->rotation) { /* the sign is noise: keep it out of the symbols */
        trial other;
        try_split(d, 1, 0, &other);
        if (other.cost < best->cost * 1.002)
            *best = other;
    }
}

/* Whether the packed low plane has one value throughout the sample. */
static int is_low_constant(const lmc_sample *sample, const lmc_split *split)
{
    const unsigned mask = (1u << split->low_nbits) - 1;
    unsigned seen = 0, value = 0;
    for (unsigned b = 0; b < 256; b++) {
        if (sample->head_low[b] == 0)
            continue;
        const unsigned low = (b + split->offset) & mask;
        if (seen++ > 0 && low != value)
            return 0;
        value = low;
    }
    return 1;
}

/* ---- the whole ---- */

/* Which places of the head's histogram are in use, and how many values lie before each: with that, any split
 * is counted in as many steps as it has symbols. */
static void sum_heads(decider *d, double *sums)
{
    const uint32_t *const head = d->sample->head;
    d->head_end = 1u << d->sample_nbits;
    while (d->head_end > 1 && head[d->head_end - 1] == 0)
        d->head_end--;
    while (d->head_first + 1 < d->head_end && head[d->head_first] == 0)
        d->head_first++;
    double sum = 0;
    for (unsigned i = d->head_first; i < d->head_end; i++) {
        sums[i] = sum;
        sum += head[i];
    }
    sums[d->head_end] = sum;
    d->sums = sums;
}

/* The planes of bytes below the symbols. */
static void decide_low_planes(const decider *d, lmc_code_shape *shapes, lmc_table *tables,
                              lmc_decision *decision)
{
    const lmc_coding *const coding = &decision->coding;
    const unsigned rest_first = lmc_coding_rest_first(coding);
    double weight[256];
    if (coding->split.low_nbits == 8 &&
        coding->split.offset == 0) { /* others are stirred: not worth a look */
        to_weights(d->sample->head_low, weight);
        decide_plane(d, weight, LMC_PLANE_LOW, shapes, tables, decision);
    }
    for (unsigned i = rest_first; i < coding->plane_count; i++) {
        to_weights(d->sample->rest[i - rest_first], weight);
        decide_plane(d, weight, i, shapes, tables, decision);
    }
}

/* Bits an element that its planes take, and its flag if elements may be masked. */
static double estimate_nbits(const decider *d, const trial *t, const lmc_coding *coding)
{
    const double seen = (double)d->sample->seen_count;
    const double kept = d->sums[d->head_end];
    const double flag_weights[2] = {kept, seen - kept};
    const unsigned rest_first = lmc_coding_rest_first(coding);
    double nbits = t->cost, weight[256];
    for (unsigned i = rest_first; i < coding->plane_count; i++) {
        to_weights(d->sample->rest[i - rest_first], weight);
        const double cost =
            d->sample->is_low_noise ? 8 : lmc_code_floor(weight, (double)d->sample->value_count);
        nbits += cost < 8 ? cost : 8;
    }
    return nbits * kept / seen + lmc_entropy(flag_weights, 2);
}

static void decide_planes(const decider *d, const trial *t, lmc_code_shape *shapes, lmc_table *tables,
                          lmc_decision *decision)
{
    lmc_coding *const coding = &decision->coding;
    coding->unit_nbytes = d->unit_nbytes;
    coding->split = t->split;
    coding->plane_count = lmc_coding_plane_count(d->unit_nbytes, &t->split);
    coding->has_mask = (uint8_t)d->sample->has_mask;
    coding->mask_value = d->sample->mask_value;
    decide_plane(d, t->weight, LMC_PLANE_SYMBOLS, shapes, tables, decision);
    if (d->unit_nbytes > 1 && !d->sample->is_low_noise) {
        if (t->split.low_nbits < 8)
            coding->flexible[LMC_PLANE_LOW] = (uint8_t)is_low_constant(d->sample, &t->split);
        decide_low_planes(d, shapes, tables, decision);
    }
    decision->nbits = estimate_nbits(d, t, coding);
    decision->is_raw = !coding->has_mask;
    for (unsigned i = 0; i < coding->plane_count; i++)
        decision->is_raw &= !coding->table[i] && !coding->flexible[i];
}

lmc_status lmc_decide(lmc_dtype dtype, lmc_level level, uint64_t content_nbytes, lmc_read_fn read, void *user,
                      lmc_plan_work *work, lmc_table *tables, lmc_decision *decision)
{
    const unsigned unit_nbytes = lmc_dtype_unit_nbytes(dtype);
    const lmc_dtype_kind kind = lmc_dtype_get_kind(dtype);
    const lmc_code_shape *shapes[LMC_FMT_PLANE_COUNT_MAX];
    trial best;
    memset(decision, 0, offsetof(lmc_decision, section));
    const lmc_status status =
        lmc_sample_take(&work->sample, content_nbytes, unit_nbytes, kind == LMC_KIND_FLOAT,
                        level == LMC_LEVEL_MAX, read, user, work->buffer);
    if (status != LMC_OK)
        return status;
    decider d = {.sample = &work->sample,
                 .counts = work->counts,
                 .unit_nbytes = unit_nbytes,
                 .level = level,
                 .kind = kind,
                 .exponent_nbits = lmc_dtype_exponent_nbits(dtype),
                 .sample_nbits = unit_nbytes == 1 ? 8 : LMC_SAMPLE_HEAD_NBITS};
    sum_heads(&d, work->sums);
    if (d.unit_nbytes == 1)
        choose_byte_split(&d, &best);
    else
        choose_wide_split(&d, &best);
    decide_planes(&d, &best, work->shapes, tables, decision);
    for (unsigned i = 0; i < LMC_FMT_PLANE_COUNT_MAX; i++)
        shapes[i] = &work->shapes[i];
    decision->section_nbytes = lmc_coding_write(&decision->coding, shapes, decision->section);
    return LMC_OK;
}
