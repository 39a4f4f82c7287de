/* plain_plan.c - chooses the split and the codes of a tensor by their cost on a sample. */
#include "codec/plain/plain_plan.h"

#include "codec/common/dtype.h"
#include "codec/common/entropy.h"
#include "codec/plain/exact_counts.h"
#include "codec/plain/normal_law.h"
#include "codec/plain/plane.h"
#include "codec/plain/rans_plan.h"
#include "codec/plain/symbol_counts.h"
#include "codec/prefix/code_build.h"

/* Symbols that a fast look-up covers (lmc_layer.narrow). The window holds the likely symbols. */
#define WINDOW_SYMBOLS 127

/* From this share of values on, symbols outside the window get codes; rarer ones are literals. */
#define OUTSIDE_SHARE_MIN 0.005

/* A plane is coded if that saves at least this share of it, since decoding takes time. */
#define GAIN_MIN 0.015

/* The share of a code's cost that its search may miss. With a quarter of it the search takes twice as long, and codes
 * are 0.01 % smaller: less than small tensors repay. Elements of one byte need a search for each split. */
#define TOLERANCE 0.0004
#define TOLERANCE_SMALL 0.001
#define TOLERANCE_TINY 0.004
#define SMALL_VALUES 65536
#define TINY_VALUES 4096

/* From this share of one value on, a plane's mode is chosen in every block: it may be constant, or have few
 * exceptions. */
#define DOMINANT_SHARE_MIN 0.9

/* An escape costs a literal byte and a u16, on top of the codes that pass it on. */
#define ESCAPE_NBITS (8 + 16)
#define LITERAL_NBITS 8
#define PASS_ON_NBITS 8 /* about the codes that pass a literal on */

/* A split, and its cost in bits a value, low plane included. */
typedef struct trial {
    lmc_split split;
    double cost;
    double code_nbits; /* the part of `cost` that the symbols' code takes */
    double low_saved;  /* what a code of the low plane is thought to save; `cost` is lower by so much */
} trial;

typedef struct decider {
    const lmc_sample *sample;
    unsigned element_nbytes;
    lmc_level level;
    lmc_dtype_kind kind;
    unsigned exponent_nbits;
    lmc_high_sums sums;
    lmc_table *trial_table; /* any content */
} decider;

/* ---- symbols of a split ---- */

/* The weights of the symbols that get codes: begin..end - 1, both multiples of 4. Other weights are not filled in. */
typedef struct symbol_weights {
    uint32_t weight[256];
    uint32_t begin, end;
    uint32_t outside; /* values whose symbol gets no code */
} symbol_weights;

static void weigh_symbols(const lmc_symbol_counts *t, uint32_t window_start, symbol_weights *w)
{
    w->outside = t->total - lmc_values_in_window(t, window_start, WINDOW_SYMBOLS);
    w->begin = 0;
    w->end = WINDOW_SYMBOLS + 1;
    if (t->symbol_mask < 256 && w->outside >= OUTSIDE_SHARE_MIN * t->total) {
        w->outside = 0;
        w->end = t->symbol_mask + 1;
    }
    if (t->last <= t->symbol_mask && window_start + w->end <= t->symbol_mask + 1) { /* nothing comes round */
        w->begin = t->first > window_start ? (t->first - window_start) & ~3u : 0;
        w->end =
            t->last < window_start ? 4 : (uint32_t)lmc_min_size(w->end, ((t->last - window_start) & ~3u) + 4);
    }
    uint32_t before = lmc_values_before_symbol(t, window_start + w->begin);
    for (uint32_t i = w->begin; i < w->end; i++) {
        const uint32_t up_to = lmc_values_before_symbol(t, window_start + i + 1);
        w->weight[i] = up_to - before;
        before = up_to;
    }
    if (w->outside > 0 && w->end > WINDOW_SYMBOLS)
        w->weight[WINDOW_SYMBOLS] = 0;
}

/* The cost of a split: codes, literals and escapes. */
static trial price_split(const decider *d, const lmc_symbol_counts *t, unsigned low_nbits, unsigned offset,
                         uint32_t window_start)
{
    symbol_weights w;
    weigh_symbols(t, window_start, &w);
    const double outside = w.outside;
    const double escaped =
        t->symbol_mask < 256 ? 0 : t->total - lmc_values_in_window(t, window_start, LMC_FMT_SYMBOL_ESCAPE);
    const double code_nbits =
        lmc_code_floor(w.weight + w.begin, w.end - w.begin, (double)d->sample->value_count);
    return (trial){.split = {.rotation = d->sample->rotation,
                             .low_nbits = (uint8_t)low_nbits,
                             .offset = (uint16_t)offset,
                             .window_start = (uint16_t)window_start},
                   .cost = low_nbits + code_nbits + outside / t->total * (PASS_ON_NBITS + LITERAL_NBITS) +
                           escaped / t->total * (ESCAPE_NBITS - LITERAL_NBITS),
                   .code_nbits = code_nbits};
}

/* A split without an offset, with the window of WINDOW_SYMBOLS that has most values; the first of equals. */
static trial try_split(const decider *d, unsigned low_nbits)
{
    const lmc_symbol_counts t = lmc_symbol_counts_of(&d->sums, low_nbits, 0);
    return price_split(d, &t, low_nbits, 0, lmc_symbol_counts_best_window(&t, WINDOW_SYMBOLS));
}

/* log2 of the offsets that are tried for a bin. A sample tells no more apart than LMC_SAMPLE_HIGH_NBITS_MAX. */
static unsigned offsets_wanted_log2(lmc_level level)
{
    return level == LMC_LEVEL_MAX ? 5 : 3;
}

/* The weights of the symbols under a split. */
static void weigh_split(const decider *d, const lmc_split *split, uint32_t weight[256])
{
    const lmc_symbol_counts t = lmc_symbol_counts_of(&d->sums, split->low_nbits, split->offset);
    symbol_weights w;
    weigh_symbols(&t, split->window_start, &w);
    memset(weight, 0, 256 * sizeof *weight);
    memcpy(weight + w.begin, w.weight + w.begin, (w.end - w.begin) * sizeof *weight);
}

/* ---- codes ---- */

static uint64_t sum_of(const uint32_t weight[256], uint32_t *largest)
{
    uint64_t sum = 0;
    *largest = 0;
    for (size_t i = 0; i < 256; i++) {
        sum += weight[i];
        *largest = weight[i] > *largest ? weight[i] : *largest;
    }
    return sum;
}

static double tolerance(const decider *d)
{
    const uint64_t value_count = d->sample->value_count;
    if (value_count < TINY_VALUES)
        return TOLERANCE_TINY;
    return value_count < SMALL_VALUES || d->element_nbytes == 1 ? TOLERANCE_SMALL : TOLERANCE;
}

/* Plans a code. Returns its cost in bits a value. */
static double plan_code(const decider *d, const uint32_t weight[256], int may_omit_literals, int is_flat,
                        lmc_code_shape *shape)
{
    const lmc_code_options options = {
        .flat_layers =
            is_flat && d->element_nbytes > 1, /* 1-byte elements have too many likely symbols for them */
        .tolerance = tolerance(d),
        .may_omit_literals = may_omit_literals,
        .value_count = (double)d->sample->value_count,
    };
    return lmc_code_plan(weight, &options, shape);
}

/* Gives a byte plane a table if that pays, and marks the plane if blocks choose its mode. */
static void decide_plane(const decider *d, const uint32_t weight[256], unsigned plane, lmc_code_shape *shapes,
                         lmc_table *tables, lmc_decision *decision)
{
    lmc_coding *const coding = &decision->coding;
    uint32_t largest;
    const uint64_t total = sum_of(weight, &largest);
    const int dominated = largest >= DOMINANT_SHARE_MIN * (double)total;
    coding->flexible[plane] = (uint8_t)dominated;
    if (largest == total ||
        lmc_code_floor(weight, 256, (double)d->sample->value_count) > 8 * (1 - GAIN_MIN / 2))
        return;
    const int may_omit_literals =
        plane == LMC_PLANE_SYMBOLS ? dominated && d->sample->is_exact : d->sample->is_low_exact;
    const unsigned plane_nbits =
        plane == LMC_PLANE_SYMBOLS ? lmc_high_nbits(d->element_nbytes) - coding->split.low_nbits : 8;
    const double most = plane_nbits * (1 - GAIN_MIN);
    const int is_fast = d->level == LMC_LEVEL_FAST;
    /* the search may fail on a mixture of two kinds of content; flat layers do not */
    if (plan_code(d, weight, may_omit_literals, is_fast, &shapes[plane]) > most &&
        (is_fast || plan_code(d, weight, may_omit_literals, 1, &shapes[plane]) > most))
        return;
    const lmc_status status = lmc_table_build(&shapes[plane], &tables[plane], NULL);
    assert(status == LMC_OK);
    (void)status;
    coding->table[plane] = &tables[plane];
    coding->flexible[plane] |= plane != LMC_PLANE_SYMBOLS || !tables[plane].has_literals;
}

/* ---- the split ---- */

/* Low bits of a split whose symbol joins the exponent with the top of the mantissa: 2 bits, for an f16 3, for an f64
 * as many as fit. A sign that was not rotated away is part of the symbol. */
static unsigned joint_low_nbits(unsigned exponent_nbits, int is_rotated)
{
    const unsigned mantissa_nbits = exponent_nbits == 5 ? 3 : exponent_nbits == 11 ? 1 : 2;
    const unsigned symbol_nbits = exponent_nbits + mantissa_nbits + !is_rotated;
    const unsigned low_nbits = LMC_FMT_HIGH_NBITS - symbol_nbits;
    return low_nbits < LMC_FMT_LOW_NBITS_MIN_WIDE ? LMC_FMT_LOW_NBITS_MIN_WIDE : low_nbits;
}

/* The resolution of the histogram of high parts that all tried offsets need, if the sign is rotated away. */
static unsigned high_nbits_wanted(unsigned element_nbytes, lmc_dtype dtype, lmc_level level)
{
    if (element_nbytes == 1 || lmc_dtype_get_kind(dtype) != LMC_KIND_FLOAT)
        return 8;
    const unsigned joint = joint_low_nbits(lmc_dtype_exponent_nbits(dtype), 1);
    const unsigned low_nbits = level == LMC_LEVEL_FAST || joint > 8 ? 8 : joint;
    const unsigned nbits = LMC_FMT_HIGH_NBITS - low_nbits + offsets_wanted_log2(level);
    return nbits < LMC_SAMPLE_HIGH_NBITS_MAX ? nbits : LMC_SAMPLE_HIGH_NBITS_MAX;
}

/* The cost of a split under the code that will be built. A flat histogram of more symbols than a layer has codes for
 * costs clearly more than its entropy. */
static trial price_code(const decider *d, trial t)
{
    uint32_t weight[256], largest;
    lmc_code_shape shape = {0};
    weigh_split(d, &t.split, weight);
    plan_code(d, weight, 0, d->level == LMC_LEVEL_FAST, &shape);
    if (lmc_table_build(&shape, d->trial_table, NULL) != LMC_OK)
        return t;
    t.code_nbits =
        lmc_table_cost_nbits(d->trial_table, weight, LMC_TABLE_ALL) / (double)sum_of(weight, &largest);
    t.cost = t.split.low_nbits + t.code_nbits;
    return t;
}

static trial price_if(const decider *d, trial t, int by_code)
{
    return by_code ? price_code(d, t) : t;
}

/* The best of several offsets, by entropy or by the codes. They move the edges of a bin off the powers of two, by parts
 * of a bin. By less than a bin the best window moves by one symbol at most. */
static trial try_offsets(const decider *d, unsigned low_nbits, int by_code)
{
    const unsigned bin = 1u << low_nbits;
    const unsigned sign_place =
        d->element_nbytes == 1 && d->sample->rotation; /* an offset leaves the sign alone */
    const unsigned finest = 1u << (lmc_high_nbits(d->element_nbytes) - d->sample->high_nbits) << sign_place;
    const unsigned wanted = bin >> offsets_wanted_log2(d->level);
    const unsigned step = wanted > finest ? wanted : finest;
    trial best = price_if(d, try_split(d, low_nbits), by_code);
    const uint32_t window_start = best.split.window_start;
    for (unsigned offset = step; offset < bin; offset += step) {
        const lmc_symbol_counts t = lmc_symbol_counts_of(&d->sums, low_nbits, offset);
        const uint32_t next = (window_start + 1) & t.symbol_mask;
        const int moves = lmc_values_in_window(&t, next, WINDOW_SYMBOLS) >
                          lmc_values_in_window(&t, window_start, WINDOW_SYMBOLS);
        const trial tried =
            price_if(d, price_split(d, &t, low_nbits, offset, moves ? next : window_start), by_code);
        if (tried.cost < best.cost)
            best = tried;
    }
    return best;
}

/* A split with other low bits must save this share of the cost of the code. */
#define SPLIT_GAIN_MIN 0.0005

/* The better of a split and one with so many low bits, by their codes. */
static trial cheaper_code(const decider *d, const trial *t, unsigned low_nbits)
{
    const trial known = price_code(d, *t);
    const trial other = price_code(d, try_offsets(d, low_nbits, 0));
    return other.cost < known.cost * (1 - SPLIT_GAIN_MIN) ? other : known;
}

/* The joint split has a quarter of the bin of the exponent's split. Offsets of the exponent's split are tried only
 * if the joint split gains nothing even over offset 0. The flat layers of level fast are far from entropy: there the
 * codes are compared, if the tensor is large enough to repay it. */
static trial choose_wide_split(const decider *d)
{
    const int is_fast = d->level == LMC_LEVEL_FAST;
    const int by_code =
        is_fast && d->kind == LMC_KIND_FLOAT && d->sample->value_count >= LMC_SAMPLE_VALUES_MIN;
    trial best = price_if(d, try_split(d, 8), by_code);
    if (!d->sample->is_low_noise &&
        !d->sample->is_high_shifted) { /* a code may save bits in the lower byte, too */
        const double cost = lmc_code_floor(d->sample->high_low_byte, 256, (double)d->sample->value_count);
        best.low_saved = cost < 8 * (1 - GAIN_MIN) ? 8 - cost : 0;
        best.cost -= best.low_saved;
    }
    if (d->kind != LMC_KIND_FLOAT)
        return best;
    const unsigned low_nbits = joint_low_nbits(d->exponent_nbits, d->sample->rotation);
    if (!is_fast && low_nbits < 8) {
        const trial joint = try_offsets(d, low_nbits, 0);
        if (joint.cost < best.cost)
            return d->exponent_nbits == 5 ? cheaper_code(d, &joint, low_nbits + 1) : joint;
    }
    const trial moved = try_offsets(d, 8, by_code);
    return moved.cost < best.cost ? moved : best;
}

/* A sign that was rotated to the bottom is noise: up to this share of more cost it stays out of the symbols. */
#define SIGN_PRICE 0.002

/* Low bits of elements of one byte: up to three, where that leaves a code that is closer to its entropy. */
static trial choose_byte_split(const decider *d)
{
    const int has_sign = d->kind == LMC_KIND_FLOAT && d->sample->rotation;
    const trial whole = price_code(d, try_split(d, 0));
    trial best = whole;
    if (has_sign) {
        best = price_code(d, try_offsets(d, 1, 0));
        if (whole.cost < best.cost * (1 - SIGN_PRICE))
            best = whole;
    }
    for (unsigned low_nbits = 1 + (unsigned)has_sign; low_nbits <= 3; low_nbits++)
        best = cheaper_code(d, &best, low_nbits);
    return best;
}

/* Has the packed low plane one value throughout the sample? */
static int is_low_constant(const lmc_sample *sample, const lmc_split *split)
{
    const unsigned mask = (1u << split->low_nbits) - 1;
    unsigned seen = 0, value = 0;
    for (unsigned b = 0; b < 256; b++) {
        if (sample->high_low_byte[b] == 0)
            continue;
        const unsigned low = (b + split->offset) & mask;
        if (seen++ > 0 && low != value)
            return 0;
        value = low;
    }
    return 1;
}

/* ---- the whole ---- */

/* What a byte of a plane takes as the plane was decided, in bits. */
static double plane_nbits(const lmc_coding *coding, unsigned plane, const uint32_t weight[256])
{
    const lmc_table *const table = coding->table[plane];
    uint32_t largest;
    const uint64_t count = sum_of(weight, &largest);
    if (count == 0)
        return 8;
    const double stored =
        coding->flexible[plane] ? lmc_plane_uncoded_nbits(weight, (size_t)count) / (double)count : 8;
    const double coded = table ? lmc_table_cost_nbits(table, weight, LMC_TABLE_ALL) / (double)count : stored;
    return coded < stored ? coded : stored;
}

/* What symbols, low bits and escapes take with the table that was built for the symbols, and with none for the low
 * plane, in bits an element. */
static double coded_nbits(const decider *d, const trial *t, const lmc_table *table)
{
    uint32_t weight[256], largest;
    weigh_split(d, &t->split, weight);
    return t->cost + t->low_saved - t->code_nbits +
           lmc_table_cost_nbits(table, weight, LMC_TABLE_ALL) / (double)sum_of(weight, &largest);
}

/* Bits an element, of its planes and of its mask bit if elements may be masked. */
static double estimate_nbits(const decider *d, const trial *t, const lmc_coding *coding)
{
    const lmc_table *const table = coding->table[LMC_PLANE_SYMBOLS];
    const double seen = (double)d->sample->seen_count;
    const double kept = d->sums.total;
    const double mask_weights[2] = {kept, seen - kept};
    const unsigned lower_first = lmc_coding_lower_first(coding);
    double nbits = table ? coded_nbits(d, t, table) : t->cost + t->low_saved;
    if (coding->split.low_nbits == 8 && (coding->table[LMC_PLANE_LOW] || coding->flexible[LMC_PLANE_LOW]))
        nbits -= 8 - plane_nbits(coding, LMC_PLANE_LOW, d->sample->high_low_byte);
    for (unsigned i = lower_first; i < coding->plane_count; i++)
        nbits += plane_nbits(coding, i, d->sample->lower[i - lower_first]);
    return nbits * kept / seen + lmc_entropy(mask_weights, 2);
}

/* Decides all planes of a split. rans: the code of the symbols, or NULL: they get a prefix code if that pays. */
static void decide_planes(const decider *d, const trial *t, const lmc_rans *rans, lmc_code_shape *shapes,
                          lmc_table *tables, lmc_decision *decision)
{
    lmc_coding *const coding = &decision->coding;
    const lmc_sample *const sample = d->sample;
    const lmc_split *const split = &t->split;
    coding->element_nbytes = d->element_nbytes;
    coding->split = *split;
    coding->plane_count = lmc_coding_plane_count(d->element_nbytes, split);
    coding->has_mask = (uint8_t)sample->has_mask;
    coding->mask_value = sample->mask_value;
    coding->is_low_mixed =
        (uint8_t)(sample->is_low_mixed && d->level != LMC_LEVEL_MAX); /* max looks at each plane */
    coding->rans = rans;
    if (!rans) {
        uint32_t weight[256];
        weigh_split(d, split, weight);
        /* A sample of few values is corrected by the law that weights follow. Offsets of rows blur the octaves, on
         * which the law depends. */
        const lmc_symbol_places places = {
            .first = (int32_t)((uint32_t)split->window_start << split->low_nbits) - split->offset,
            .low_nbits = split->low_nbits,
            .octave_log2 = lmc_high_nbits(d->element_nbytes) - d->exponent_nbits - !sample->rotation};
        if (d->kind == LMC_KIND_FLOAT && !sample->is_exact && !sample->is_high_shifted &&
            d->element_nbytes > 1 && places.low_nbits < places.octave_log2)
            lmc_normal_law_apply(&places, weight);
        decide_plane(d, weight, LMC_PLANE_SYMBOLS, shapes, tables, decision);
    }
    if (d->element_nbytes > 1 && !sample->is_low_noise) {
        const unsigned lower_first = lmc_coding_lower_first(coding);
        if (split->low_nbits < 8 && !sample->is_high_shifted)
            coding->flexible[LMC_PLANE_LOW] = (uint8_t)is_low_constant(sample, split);
        /* offsets mix the bits of other low planes: no code suits them */
        if (split->low_nbits == 8 && split->offset == 0 && !sample->is_high_shifted)
            decide_plane(d, sample->high_low_byte, LMC_PLANE_LOW, shapes, tables, decision);
        for (unsigned i = lower_first; i < coding->plane_count; i++)
            decide_plane(d, sample->lower[i - lower_first], i, shapes, tables, decision);
    }
    decision->nbits = estimate_nbits(d, t, coding);
    decision->is_raw = !coding->has_mask && !rans;
    for (unsigned i = 0; i < coding->plane_count; i++)
        decision->is_raw &= !coding->table[i] && !coding->flexible[i];
}

/* A rANS code must save this share of the bits of symbols and low bits: it is slower. */
#define RANS_GAIN_MIN 0.0002

/* Gives the symbols a rANS code with a split of its own if that takes less than what was decided. */
static lmc_status try_rans(const decider *d, const lmc_content *content, const trial *best,
                           lmc_plan_work *work, const lmc_plan_room *room, lmc_decision *decision)
{
    lmc_coding *const coding = &decision->coding;
    const unsigned element_nbytes = d->element_nbytes;
    const int has_low_code = best->split.low_nbits == 8 && coding->table[LMC_PLANE_LOW];
    const int is_wide_float = d->kind == LMC_KIND_FLOAT && element_nbytes > 1 && !has_low_code;
    const unsigned joint = is_wide_float ? joint_low_nbits(d->exponent_nbits, d->sample->rotation) : 9;
    const unsigned block_log2 = content->block_log2       ? content->block_log2
                                : d->sample->is_low_mixed ? LMC_BLOCK_LOG2_DEFAULT
                                                          : LMC_RANS_BLOCK_LOG2;
    const lmc_rans_request request = {
        .sums = &d->sums,
        .sample = d->sample,
        .element_nbytes = element_nbytes,
        .low_first = element_nbytes == 1                  ? d->kind == LMC_KIND_FLOAT && d->sample->rotation
                     : joint > LMC_FMT_LOW_NBITS_MIN_WIDE ? joint - 1
                                                          : joint,
        .low_last = element_nbytes == 1 ? 3 : 8,
        .may_move = is_wide_float || (d->kind == LMC_KIND_FLOAT && element_nbytes == 1),
        .is_low_coded = has_low_code,
        .block_values = UINT64_C(1) << block_log2};
    const lmc_table *const table = coding->table[LMC_PLANE_SYMBOLS];
    const double stored_nbits = lmc_high_nbits(element_nbytes);
    lmc_rans_choice choice;
    if (d->sums.total < d->sample->seen_count / 2 || coding->flexible[LMC_PLANE_SYMBOLS])
        return LMC_OK;
    const double prefix_nbits = table ? coded_nbits(d, best, table) : stored_nbits;
    lmc_rans_choose(&request, &choice);
    if (choice.nbits >= (prefix_nbits < stored_nbits ? prefix_nbits : stored_nbits) * (1 - RANS_GAIN_MIN))
        return LMC_OK;
    if (coding->offsets.column_count > 0) {
        const lmc_exact_request exact = {content, &coding->offsets, &choice.split, request.block_values,
                                         &work->offsets};
        LMC_TRY(lmc_exact_counts(&exact, choice.weight));
    }
    const trial chosen = {.split = choice.split, .cost = choice.nbits};
    const lmc_offsets offsets = coding->offsets;
    memset(decision, 0, sizeof *decision);
    coding->offsets = offsets;
    lmc_rans_finish(&request, &choice.split, choice.weight, room->rans->frequency);
    lmc_rans_set_symbols(room->rans);
    decision->block_log2 = block_log2;
    decide_planes(d, &chosen, room->rans, work->shapes, room->tables, decision);
    return LMC_OK;
}

/* From this share on (per mille) a frequent value is masked. Where symbols are more than the exponent, a value far
 * from all others costs 16 bits and a long code. 1 % of zeros among bf16 cost 0.009 of the ratio then, and 0.004
 * with a mask. For exponents alone a mask saves little, and it takes time. */
#define MASK_PER_MILLE_MIN 8
#define MASK_PER_MILLE_MIN_FAST 50

lmc_status lmc_decide(const lmc_content *content, lmc_plan_work *work, const lmc_plan_room *room,
                      lmc_decision *decision)
{
    const lmc_level level = content->level;
    const unsigned element_nbytes = content->element_nbytes;
    const lmc_dtype_kind kind = lmc_dtype_get_kind(content->dtype);
    double offset_nbits = 0;
    const lmc_code_shape *shapes[LMC_FMT_PLANE_COUNT_MAX];
    const lmc_sample_options options = {
        .is_signed = kind == LMC_KIND_FLOAT,
        .exact = level == LMC_LEVEL_MAX,
        .high_nbits = high_nbits_wanted(element_nbytes, content->dtype, level),
        .mask_per_mille_min = level == LMC_LEVEL_FAST ? MASK_PER_MILLE_MIN_FAST : MASK_PER_MILLE_MIN};
    memset(decision, 0, sizeof *decision);
    LMC_TRY(lmc_sample_take(&work->sample, &options, content, work->buffer));
    if (kind == LMC_KIND_FLOAT && level != LMC_LEVEL_FAST && !work->sample.has_mask)
        LMC_TRY(lmc_offsets_decide(content, &work->sample, &work->offsets, room->columns, room->costs,
                                   &decision->coding.offsets, &offset_nbits));
    lmc_sample_count_high(&work->sample, element_nbytes, work->buffer);
    decider d = {.sample = &work->sample,
                 .element_nbytes = element_nbytes,
                 .level = level,
                 .kind = kind,
                 .exponent_nbits = lmc_dtype_exponent_nbits(content->dtype),
                 .trial_table = &room->tables[0]};
    d.sums = lmc_high_sums_make(&work->sample, element_nbytes);
    const trial best = element_nbytes == 1 ? choose_byte_split(&d) : choose_wide_split(&d);
    decide_planes(&d, &best, NULL, work->shapes, room->tables, decision);
    if (level == LMC_LEVEL_MAX)
        LMC_TRY(try_rans(&d, content, &best, work, room, decision));
    decision->nbits += offset_nbits;
    for (unsigned i = 0; i < LMC_FMT_PLANE_COUNT_MAX; i++)
        shapes[i] = &work->shapes[i];
    decision->section_nbytes = lmc_coding_write(&decision->coding, shapes, room->section);
    return LMC_OK;
}
