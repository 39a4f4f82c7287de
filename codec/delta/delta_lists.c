/* delta_lists.c - hashes and classifies the base of a block, and lays out the lists of its classes. */
#include "codec/delta/delta_lists.h"

#include "codec/delta/high_list.h"

/* About what it costs to bring the elements of all indirect classes to a list of their own. The unit is the cost of
 * going through all elements for one class; measured. */
#define INDIRECT_COST 2.0

/* Sorts the classes that occur by their counts, and finds how many of them are best taken from all elements. */
static void order_classes(const size_t *count, unsigned class_count, size_t n, lmc_class_order *order)
{
    order->count = 0;
    for (unsigned c = 0; c < class_count; c++) {
        unsigned i = order->count;
        if (count[c] == 0)
            continue;
        for (; i > 0 && count[order->class[i - 1]] < count[c]; i--)
            order->class[i] = order->class[i - 1];
        order->class[i] = (uint8_t)c;
        order->count++;
    }
    order->direct_count = order->count;
    double best = order->count;
    size_t left = n;
    for (unsigned i = 0; i + 1 < order->count; i++) {
        const double cost =
            i + INDIRECT_COST +
            (double)left / (double)n * (order->count - i); /* the others, from their own list */
        if (cost < best) {
            best = cost;
            order->direct_count = (uint8_t)i;
        }
        left -= count[order->class[i]];
    }
}

/* Each list has room for two bytes a high part. */
void lmc_lists_open(const lmc_delta_job *job, size_t n, lmc_class_lists *lists)
{
    uint8_t *next = job->scratch->high_lists;
    lists->high.wide = 0;
    for (unsigned c = 0; c < job->delta->class_count; c++) {
        const size_t room = lists->count[c] + LMC_HIGH_SLACK;
        lists->begin[c] = lists->high.next[c] = next;
        lists->high.nbytes[c] = lmc_high_fits_byte(job->delta, c) ? 1 : 2;
        lists->high.upper[c] = room;
        next += 2 * room;
    }
    order_classes(lists->count, job->delta->class_count, n, &lists->order);
}

/* ---- base ---- */

const uint8_t *lmc_base_take(const lmc_delta_job *job, const uint8_t *base, size_t at, size_t nbytes)
{
    const unsigned scale = lmc_base_scale(job->base_form);
    const uint8_t *const bytes = base + at * scale;
    job->kernels->hash_update(job->scratch->hash_state, bytes, nbytes * scale);
    if (job->base_form == LMC_BASE_PLAIN)
        return bytes;
    return lmc_base_values(job->base_form, bytes, nbytes, job->base_values + at);
}

const uint8_t *lmc_base_classify(const lmc_delta_job *job, const uint8_t *base, size_t nbytes, size_t from,
                                 lmc_class_lists *lists)
{
    const unsigned element_nbytes = job->element_nbytes, element_log2 = lmc_element_log2(element_nbytes);
    const uint8_t *const values = job->base_form == LMC_BASE_PLAIN ? base : job->base_values;
    memset(lists->count, 0, sizeof lists->count);
    for (size_t at = 0; at < nbytes; at += lmc_delta_strip_nbytes(job)) {
        const size_t m = lmc_min_size(nbytes - at, lmc_delta_strip_nbytes(job));
        if (at >= from)
            (void)lmc_base_take(job, base, at, m);
        job->kernels->classify[element_log2](job->delta, values + at, m / element_nbytes,
                                             job->scratch->classes + at / element_nbytes, lists->count);
    }
    return values;
}
