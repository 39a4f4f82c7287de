/* delta_plan.c - weighs ways to compare a tensor with its base by their cost on a sample; writes a delta's plan, reads
 * it and checks every field. */
#include "codec/delta/delta_plan.h"

#include "codec/bitset/buckets.h"
#include "codec/common/dtype.h"
#include "codec/common/entropy.h"

/* The sample: so many runs of so many neighbours. Where less than FEW_SHARE has changed, more and longer runs find more
 * changes: one pair of FEW_STEP, but no fewer than RUN_COUNT_FEW_MIN runs. */
#define RUN_VALUES 128
#define RUN_COUNT 32
#define RUN_VALUES_FEW 256
#define RUN_COUNT_FEW_MIN 32
#define RUN_COUNT_FEW_MAX (LMC_PAIRS_MAX / RUN_VALUES_FEW)
#define FEW_SHARE 0.06
#define FEW_STEP 32

/* Blocks of a delta are large, since every class has a fixed cost in each. They are larger still where classes hold
 * little: where less than SPARSE_SHARE has changed. */
#define BLOCK_LOG2 18
#define BLOCK_LOG2_SPARSE 20
#define SPARSE_SHARE 0.04
#define BLOCK_NBYTES_LOG2_MAX 21 /* a thread holds several blocks */

/* The base must save this share of the cost of coding without it, since decoding needs a second file. */
#define GAIN_MIN 0.01

/* A delta below this share of the least cost without a base is better for sure, even with changes that the sample
 * did not show. Then no plan without the base is made. */
#define SURE_SHARE 0.85

/* Costs of a class: in the plan, and in each block on top of its bucket code. */
#define CLASS_PLAN_NBITS 24

/* What a bitset takes beside its bits, measured: so many bits in blocks of BITSET_BLOCK_VALUES and more, and less in
 * smaller ones, down to BITSET_NBITS_LEAST. */
#define BITSET_NBITS 64
#define BITSET_NBITS_LEAST 8
#define BITSET_BLOCK_VALUES 65536
#define BITSET_LOSS 1.012 /* about the cost of a coded bitset over its entropy */
#define ESCAPE_NBITS 16

#define NO_LIMIT 1e300 /* bits */

typedef struct decider {
    const lmc_content *content;
    lmc_delta_sample *sample;
    unsigned element_nbytes;
    double scale;        /* elements of the tensor for each pair of the sample */
    double bitset_nbits; /* what a bitset takes beside its bits, in all blocks */
} decider;

/* Groups of neighbouring keys as one class, and its best shift. */
typedef struct class_plan {
    lmc_key_group *group; /* the pairs of all its groups */
    unsigned shift;       /* low bits of a difference that are stored uncoded */
    double nbits;         /* cost of all its elements */
} class_plan;

/* x log2 x */
static double xlog(double x)
{
    return x > 0 ? x * lmc_log2_near(x) : 0;
}

/* The cost of n bits with m set, given xlog() of both. */
static double bitset_nbits(double n, double xlog_n, double m, double xlog_m)
{
    if (m <= 0 || m >= n)
        return 0;
    const double coded = (xlog_n - xlog_m - xlog(n - m)) * BITSET_LOSS;
    return coded < n ? coded : n;
}

/* Pairs of the class with a difference of `bound` and more. */
static uint32_t pairs_from(const decider *d, const class_plan *class, uint64_t bound)
{
    const unsigned bin = lmc_bin_of(bound);
    return bin < d->sample->bin_count ? class->group->n - class->group->below[bin] : 0;
}

/* The cost of a class. A cost above the limit may come out smaller than it is, but not below the limit. */
static double class_nbits(const decider *d, const class_plan *class, unsigned shift, double limit)
{
    const double sign_changes = class->group->sign_changes;
    double n = class->group->n, xlog_n = xlog(n);
    double nbits = n * shift + bitset_nbits(n, xlog_n, sign_changes, xlog(sign_changes));
    const double pairs_limit = (limit - CLASS_PLAN_NBITS) / d->scale;
    const double overhead = d->bitset_nbits / d->scale;
    nbits += overhead;
    for (unsigned r = 0; r < LMC_FMT_BUCKET_COUNT && n > 0; r++) {
        const uint64_t end = lmc_bucket_first(r) + (1u << lmc_bucket_nbits(r));
        const double on = end << shift >> shift == end ? pairs_from(d, class, end << shift) : 0;
        const double xlog_on = on > 0 && on < n ? xlog(on) : xlog_n;
        nbits += overhead + bitset_nbits(n, xlog_n, on, xlog_on) + (n - on) * lmc_bucket_nbits(r);
        n = on;
        xlog_n = xlog_on;
        if (nbits >= pairs_limit)
            break;
    }
    nbits += n * 8;
    const uint64_t escape = LMC_FMT_SYMBOL_ESCAPE;
    if (n > 0 && escape << shift >> shift == escape)
        nbits += pairs_from(d, class, escape << shift) * (double)ESCAPE_NBITS;
    return CLASS_PLAN_NBITS + nbits * d->scale;
}

/* The longest shift that a plan can express. */
static unsigned last_shift(const decider *d)
{
    const unsigned low_nbits =
        8 * (d->element_nbytes > 2 ? d->element_nbytes - 1 : 0) + LMC_FMT_CLASS_LOW_NBITS_MAX;
    return low_nbits < 63 ? low_nbits : 63;
}

/* Costs fall towards the best shift and rise behind it: climbs down from `shift`. */
static void choose_shift(const decider *d, class_plan *class, unsigned shift)
{
    const unsigned last = last_shift(d);
    class->shift = shift;
    class->nbits = class_nbits(d, class, shift, NO_LIMIT);
    for (int step = -1; step <= 1; step += 2) {
        while (step < 0 ? class->shift > 0 : class->shift < last) {
            const double nbits = class_nbits(d, class, class->shift + (unsigned)step, class->nbits);
            if (nbits >= class->nbits)
                break;
            class->shift += (unsigned)step;
            class->nbits = nbits;
        }
    }
}

/* The nearest shift that a plan with low_nbytes can express: 8 bits for each, and up to 8 more. */
static unsigned clamp_shift(unsigned shift, unsigned low_nbytes)
{
    const unsigned least = 8 * low_nbytes;
    if (shift < least)
        return least;
    return shift > least + LMC_FMT_CLASS_LOW_NBITS_MAX ? least + LMC_FMT_CLASS_LOW_NBITS_MAX : shift;
}

/* ---- classes ---- */

/* Makes `sum` the pairs of two groups, of which it may be one. */
static void add_groups(const decider *d, const lmc_key_group *a, const lmc_key_group *b, lmc_key_group *sum)
{
    sum->n = a->n + b->n;
    sum->sign_changes = a->sign_changes + b->sign_changes;
    for (unsigned i = 0; i <= d->sample->bin_count; i++)
        sum->below[i] = a->below[i] + b->below[i];
}

/* The joined classes i and i + 1: the best shift, and the loss from joining them. */
typedef struct class_join {
    unsigned shift;
    double nbits, loss;
} class_join;

/* Where the shifts are equal or neighbours, one of them is the best of the joined class, or nearly so. */
static void weigh_join(const decider *d, const class_plan *classes, unsigned i, class_join *join)
{
    const class_plan *const a = &classes[i], *const b = &classes[i + 1];
    const unsigned least = a->shift < b->shift ? a->shift : b->shift;
    class_plan joined = {.group = &d->sample->joined, .shift = least};
    add_groups(d, a->group, b->group, joined.group);
    if (a->shift + b->shift > 2 * least + 1) {
        choose_shift(d, &joined, (a->shift + b->shift) / 2);
    } else {
        joined.nbits = class_nbits(d, &joined, least, NO_LIMIT);
        const double nbits =
            a->shift == b->shift ? NO_LIMIT : class_nbits(d, &joined, least + 1, joined.nbits);
        joined.shift += nbits < joined.nbits;
        joined.nbits = nbits < joined.nbits ? nbits : joined.nbits;
    }
    *join = (class_join){joined.shift, joined.nbits, joined.nbits - a->nbits - b->nbits};
}

/* Joins neighbours while there are too many classes, or while that is a gain. Returns how many are left. */
static unsigned join_classes(const decider *d, class_plan *classes, unsigned count)
{
    class_join joins[LMC_KEY_GROUPS_MAX];
    for (unsigned i = 0; i + 1 < count; i++)
        weigh_join(d, classes, i, &joins[i]);
    while (count > 1) {
        unsigned best = 0;
        for (unsigned i = 1; i + 1 < count; i++)
            if (joins[i].loss < joins[best].loss)
                best = i;
        if (count <= LMC_FMT_CLASS_COUNT_MAX && joins[best].loss > 0)
            break;
        add_groups(d, classes[best].group, classes[best + 1].group, classes[best].group);
        classes[best].shift = joins[best].shift;
        classes[best].nbits = joins[best].nbits;
        count--;
        for (unsigned i = best + 1; i < count; i++) {
            classes[i] = classes[i + 1];
            joins[i] = joins[i + 1];
        }
        if (best > 0)
            weigh_join(d, classes, best - 1, &joins[best - 1]);
        if (best + 1 < count)
            weigh_join(d, classes, best, &joins[best]);
    }
    return count;
}

/* The cost of all classes with low_nbytes lower bytes. */
static double low_bytes_nbits(const decider *d, const lmc_delta *delta, const class_plan *classes,
                              unsigned count, unsigned low_nbytes)
{
    const unsigned fitting = lmc_delta_high_nbits(delta) + 8 * low_nbytes;
    double nbits = 0, exceptions = 0;
    for (unsigned c = 0; c < count; c++) {
        nbits += class_nbits(d, &classes[c], clamp_shift(classes[c].shift, low_nbytes), NO_LIMIT);
        if (fitting < 8 * d->element_nbytes)
            exceptions += d->scale * pairs_from(d, &classes[c], UINT64_C(1) << fitting);
    }
    return nbits + exceptions * 8 * (3 + d->element_nbytes);
}

/* Completes a delta whose transform and key are given. Returns its cost in bits. */
static double plan_classes(const decider *d, lmc_delta *delta)
{
    class_plan classes[LMC_KEY_GROUPS_MAX];
    unsigned count = d->sample->group_count;
    for (unsigned g = 0; g < count; g++) {
        classes[g] = (class_plan){.group = &d->sample->group[g]};
        const double n = classes[g].group->n;
        unsigned shift = 0; /* to begin with: about a third of the symbols are 0 */
        while (shift < last_shift(d) && pairs_from(d, &classes[g], UINT64_C(1) << shift) > n * (2 / 3.))
            shift++;
        choose_shift(d, &classes[g], shift);
    }
    count = join_classes(d, classes, count);
    double best = low_bytes_nbits(d, delta, classes, count, 0);
    delta->low_nbytes = 0;
    for (unsigned low = 1; d->element_nbytes > 2 && low < d->element_nbytes; low++) {
        const double nbits = low_bytes_nbits(d, delta, classes, count, low);
        if (nbits < best) {
            best = nbits;
            delta->low_nbytes = (uint8_t)low;
        }
    }
    delta->class_count = (uint8_t)count;
    for (unsigned c = 0; c < count; c++) {
        delta->first_key[c] = classes[c].group->first_key;
        delta->class_low_nbits[c] =
            (uint8_t)(clamp_shift(classes[c].shift, delta->low_nbytes) - 8u * delta->low_nbytes);
    }
    return best;
}

/* ---- the whole ---- */

/* Tries a transform, and keeps it if it is cheaper than *best. */
static void try_transform(decider *d, lmc_delta_sample *sample, const lmc_pairs *pairs, unsigned transform,
                          double *best, lmc_delta *delta)
{
    const unsigned exponent_nbits = lmc_dtype_exponent_nbits(d->content->dtype);
    lmc_delta tried;
    memset(&tried, 0, sizeof tried);
    tried.transform = (uint8_t)transform;
    if (transform ==
        LMC_FMT_DELTA_MAGNITUDE) /* the key is the exponent; of a long exponent, its lower bits */
        tried.key_shift = (uint8_t)(8 * d->element_nbytes - 1 - exponent_nbits);
    lmc_delta_sample_count(sample, lmc_kernels_get(), &tried, pairs);
    const double nbits = plan_classes(d, &tried);
    if (*best < 0 || nbits < *best) {
        *best = nbits;
        *delta = tried;
    }
}

lmc_status lmc_delta_decide(const lmc_content *content, const lmc_delta_plan_work *work,
                            lmc_delta_decision *decision)
{
    decider d = {.content = content, .sample = work->sample, .element_nbytes = content->element_nbytes};
    const double value_count = (double)content->value_count;
    double best = -1;
    lmc_pairs pairs;
    memset(decision, 0, sizeof *decision);
    LMC_TRY(lmc_pairs_read(content, RUN_VALUES, RUN_COUNT, work->buffer, &pairs));
    const double changed = (double)lmc_pairs_changed(&pairs) / (double)pairs.count;
    if (changed < FEW_SHARE && pairs.count != content->value_count) {
        const uint64_t wanted = content->value_count / (FEW_STEP * RUN_VALUES_FEW);
        size_t run_count = (size_t)lmc_min_u64(wanted, RUN_COUNT_FEW_MAX);
        run_count -= run_count % LMC_PAIRS_PLACE_COUNT;
        if (run_count < RUN_COUNT_FEW_MIN)
            run_count = RUN_COUNT_FEW_MIN;
        LMC_TRY(lmc_pairs_read(content, RUN_VALUES_FEW, run_count, work->buffer, &pairs));
    }
    const unsigned most = BLOCK_NBYTES_LOG2_MAX - lmc_lowest_bit(d.element_nbytes);
    const unsigned wanted = changed < SPARSE_SHARE ? BLOCK_LOG2_SPARSE : BLOCK_LOG2;
    decision->block_log2 = wanted < most ? wanted : most;
    d.scale = value_count / (double)pairs.count;
    const double block_values = (double)(1u << decision->block_log2);
    const double values = value_count < block_values ? value_count : block_values;
    const double share = values < BITSET_BLOCK_VALUES ? values / BITSET_BLOCK_VALUES : 1;
    d.bitset_nbits =
        (1 + value_count / block_values) * (BITSET_NBITS_LEAST + share * (BITSET_NBITS - BITSET_NBITS_LEAST));
    if (lmc_dtype_get_kind(content->dtype) == LMC_KIND_FLOAT) {
        try_transform(&d, work->sample, &pairs, LMC_FMT_DELTA_MAGNITUDE, &best, &decision->delta);
    } else {
        try_transform(&d, work->sample, &pairs, LMC_FMT_DELTA_DIFFERENCE, &best, &decision->delta);
        try_transform(&d, work->sample, &pairs, LMC_FMT_DELTA_XOR, &best, &decision->delta);
    }
    decision->nbits = best / value_count;
    decision->static_floor_nbits = lmc_pairs_floor_nbits(&pairs);
    return LMC_OK;
}

int lmc_delta_is_surely_gain(const lmc_delta_decision *decision)
{
    return decision->nbits < decision->static_floor_nbits * SURE_SHARE;
}

int lmc_delta_is_gain(const lmc_delta_decision *decision, double static_nbits)
{
    return decision->nbits < static_nbits * (1 - GAIN_MIN);
}

/* ---- the plan section ---- */

size_t lmc_delta_write(const lmc_delta *delta, uint8_t *dst)
{
    lmc_writer w = {dst, dst + LMC_DELTA_SECTION_NBYTES_MAX};
    lmc_write_n(&w, delta->transform, 1);
    lmc_write_n(&w, delta->low_nbytes, 1);
    lmc_write_n(&w, delta->key_shift, 1);
    lmc_write_n(&w, delta->class_count, 1);
    lmc_write_span(&w, delta->first_key + 1, delta->class_count - 1u);
    lmc_write_span(&w, delta->class_low_nbits, delta->class_count);
    return (size_t)(w.next - dst);
}

lmc_status lmc_delta_read(const uint8_t *section, size_t nbytes, unsigned element_nbytes, lmc_delta *delta,
                          lmc_diag *diag)
{
    lmc_reader r = {section, section + nbytes, 0};
    memset(delta, 0, sizeof *delta);
    delta->transform = (uint8_t)lmc_read_n(&r, 1);
    delta->low_nbytes = (uint8_t)lmc_read_n(&r, 1);
    delta->key_shift = (uint8_t)lmc_read_n(&r, 1);
    delta->class_count = (uint8_t)lmc_read_n(&r, 1);
    if (r.failed)
        return lmc_corrupt(diag, 0, "plan: the section is cut short");
    if (delta->transform > LMC_FMT_DELTA_XOR)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 0, "plan: delta transform %u", delta->transform);
    if (delta->low_nbytes >= element_nbytes)
        return lmc_corrupt(diag, 1, "plan: %u low bytes", delta->low_nbytes);
    if (delta->key_shift >= 8 * element_nbytes)
        return lmc_corrupt(diag, 2, "plan: keys from bit %u", delta->key_shift);
    if (delta->class_count == 0 || delta->class_count > LMC_FMT_CLASS_COUNT_MAX)
        return lmc_corrupt(diag, 3, "plan: %u classes", delta->class_count);
    const uint8_t *const keys = lmc_read_span(&r, delta->class_count - 1u);
    const uint8_t *const low_nbits = lmc_read_span(&r, delta->class_count);
    if (r.failed || lmc_reader_left(&r) != 0)
        return lmc_corrupt(diag, 3, "plan: the section is not as long as its classes take");
    memcpy(delta->first_key + 1, keys, delta->class_count - 1u);
    memcpy(delta->class_low_nbits, low_nbits, delta->class_count);
    for (unsigned c = 1; c < delta->class_count; c++)
        if (delta->first_key[c] <= delta->first_key[c - 1])
            return lmc_corrupt(diag, 3u + c, "plan: class %u is out of order", c);
    for (unsigned c = 0; c < delta->class_count; c++)
        if (delta->class_low_nbits[c] > LMC_FMT_CLASS_LOW_NBITS_MAX)
            return lmc_corrupt(diag, 3u + delta->class_count + c, "plan: class %u has %u low bits", c,
                               delta->class_low_nbits[c]);
    return LMC_OK;
}
