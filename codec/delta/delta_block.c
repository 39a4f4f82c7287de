/* delta_block.c - checks, rounds, hashes and classifies the base of a block; lays out, writes and reads the lists of
 * its classes; finds, writes, reads and applies its exceptions. */
#include "codec/delta/delta_block.h"

#include "codec/bitset/bitset.h"
#include "lmc_experimental.h"

/* ---- the base ---- */

lmc_status lmc_base_check_nbytes(lmc_base_form form, uint64_t content_nbytes, size_t base_nbytes,
                                 lmc_diag *diag)
{
    const uint64_t wanted_nbytes = content_nbytes * lmc_base_scale(form);
    if (base_nbytes == wanted_nbytes)
        return LMC_OK;
    return lmc_fail(diag, LMC_ERR_BASE, 0, "a base of %llu bytes is needed, this one has %zu",
                    (unsigned long long)wanted_nbytes, base_nbytes);
}

lmc_status lmc_base_check(lmc_base_form form, uint64_t content_nbytes, const uint8_t *base,
                          size_t base_nbytes, const uint8_t *dst, size_t dst_nbytes, lmc_diag *diag)
{
    LMC_TRY(lmc_base_check_nbytes(form, content_nbytes, base_nbytes, diag));
    return lmc_check_apart("the base", base, base_nbytes, dst, dst_nbytes, diag);
}

const uint8_t *lmc_base_values(lmc_base_form form, const uint8_t *base, size_t content_nbytes, uint8_t *room)
{
    if (form == LMC_BASE_PLAIN)
        return base;
    lmc_base_round(form, base, content_nbytes / 2, room);
    return room;
}

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
    uint32_t *ends = job->scratch->class_ends;
    memset(lists->count, 0, sizeof lists->count);
    for (size_t at = 0; at < nbytes; at += lmc_delta_strip_nbytes(job)) {
        const size_t m = lmc_min_size(nbytes - at, lmc_delta_strip_nbytes(job));
        if (at >= from)
            (void)lmc_base_take(job, base, at, m);
        job->kernels->classify[element_log2](job->delta, values + at, m / element_nbytes,
                                             job->scratch->classes + at / element_nbytes, lists->count);
        for (unsigned c = 0; c < LMC_FMT_CLASS_COUNT_MAX; c++)
            *ends++ = (uint32_t)lists->count[c];
    }
    return values;
}

/* ---- what becomes of the content when it is decoded ---- */

/* Lists the elements of a strip whose bit is set while there is room. element_nbytes is a constant wherever this is
 * used. */
LMC_INLINE void list_changes(lmc_changes *changes, const unsigned element_nbytes, const uint8_t *strip,
                             size_t first, size_t n, const uint64_t *changed)
{
    uint8_t *const listed = changes->values;
    for (size_t w = 0; w < lmc_div_ceil(n, 64); w++) {
        for (uint64_t word = changed[w]; word != 0; word &= word - 1) {
            const size_t i = 64 * w + lmc_lowest_bit(word), at = changes->count++;
            if (at >= changes->capacity)
                continue;
            changes->places[at] = (uint32_t)(first + i);
            memcpy(listed + at * element_nbytes, strip + i * element_nbytes, element_nbytes);
        }
    }
}

void lmc_strip_deliver(const lmc_delta_job *job, const uint8_t *strip, const uint8_t *values, size_t first,
                       size_t n, const uint64_t *changed, uint8_t *dst)
{
    const unsigned element_nbytes = job->element_nbytes;
    uint64_t found[LMC_STRIP_VALUES / 64];
    if (!job->changes) {
        if (job->past_cache)
            job->kernels->copy_past_cache(dst + first * element_nbytes, strip, n * element_nbytes);
        return;
    }
    if (!changed)
        (void)job->kernels->find_changed[lmc_element_log2(element_nbytes)](strip, values, n, found);
    if (!changed)
        changed = found;
    switch (element_nbytes) {
    case 1: list_changes(job->changes, 1, strip, first, n, changed); break;
    case 2: list_changes(job->changes, 2, strip, first, n, changed); break;
    case 4: list_changes(job->changes, 4, strip, first, n, changed); break;
    default: list_changes(job->changes, 8, strip, first, n, changed); break;
    }
}

/* ---- the lists of a block ---- */

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

/* Each list has room for two bytes a high part. High parts that are not wide can be cut as elements of one byte, but
 * with more low bits many are wide. */
void lmc_lists_open(const lmc_delta_job *job, size_t n, lmc_class_lists *lists)
{
    uint8_t *next = job->scratch->high_lists;
    lists->high.wide = 0;
    for (unsigned c = 0; c < job->delta->class_count; c++) {
        const size_t room = lists->count[c] + LMC_HIGH_SLACK;
        lists->begin[c] = lists->high.next[c] = next;
        lists->high.nbytes[c] = job->delta->class_low_nbits[c] <= LMC_FMT_LOW_NBITS_MAX_BYTE ? 1 : 2;
        lists->high.upper[c] = room;
        next += 2 * room;
    }
    order_classes(lists->count, job->delta->class_count, n, &lists->order);
}

/* ---- high parts of one class ---- */

/* The high parts of a class as elements of 2 bytes, or of 1 byte in a list of bytes: low bits, and symbols above
 * them. */
static lmc_element_cut high_cut(const lmc_delta *delta, unsigned class, unsigned high_nbytes)
{
    return (lmc_element_cut){.element_nbytes = high_nbytes,
                             .split = {.low_nbits = delta->class_low_nbits[class]}};
}

int lmc_high_list_write(const lmc_delta_job *job, unsigned class, const lmc_high_list *list,
                        lmc_writer *writer)
{
    lmc_scratch *const scratch = job->scratch;
    const size_t n = list->n;
    const lmc_element_cut cut = high_cut(job->delta, class, list->wide ? 2 : 1);
    const uint8_t *const elements = list->wide ? (const uint8_t *)list->wide : list->bytes;
    const uint8_t *symbols = scratch->symbols;
    uint16_t *escapes = scratch->escapes;
    if (job->delta->transform == LMC_FMT_DELTA_MAGNITUDE) {
        size_t nbytes = 0;
        if (list->wide) {
            job->kernels->take_sign_changes(list->wide, n, scratch->bitset);
            nbytes = lmc_bitset_encode(job->kernels, scratch, scratch->bitset, n, writer->next,
                                       lmc_writer_left(writer));
        } else if (lmc_writer_left(writer) > 0) { /* no high part is wide: there are none */
            writer->next[0] = LMC_FMT_BITSET_NONE;
            nbytes = 1;
        }
        if (nbytes == 0)
            return 0;
        writer->next += nbytes;
    }
    const size_t low_nbytes = lmc_bits_nbytes(n * cut.split.low_nbits);
    if (low_nbytes > lmc_writer_left(writer))
        return 0;
    const lmc_plane_set set = {.symbols = scratch->symbols, .low = writer->next};
    writer->next += low_nbytes;
    if (!list->wide && cut.split.low_nbits == 0)
        symbols = elements;
    else if (job->kernels->split[list->wide ? 1 : 0](&cut.split, elements, n, &set))
        escapes = lmc_escapes_collect(&cut, symbols, elements, n, escapes);
    const size_t nbytes = lmc_buckets_encode(job->bucket_code, job->kernels, scratch, 0, symbols, n,
                                             writer->next, lmc_writer_left(writer));
    writer->next += nbytes;
    const size_t escapes_nbytes = (size_t)(escapes - scratch->escapes) * sizeof *escapes;
    if (nbytes == 0 || escapes_nbytes > lmc_writer_left(writer))
        return 0;
    lmc_write_span(writer, scratch->escapes, escapes_nbytes);
    return 1;
}

/* Are all high parts with these symbols narrow? Then they are below LMC_HIGH_WIDE, or with low bits below 256. */
static int are_narrow(const uint8_t *symbols, size_t n, unsigned low_nbits)
{
    uint8_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = symbols[i] > most ? symbols[i] : most;
    return most <= (low_nbits > 0 ? 255u >> low_nbits : LMC_HIGH_WIDE - 1u);
}

lmc_status lmc_high_list_read(const lmc_delta_job *job, lmc_source *source, unsigned class,
                              int may_have_bytes, lmc_high_list *list, lmc_diag *diag)
{
    lmc_scratch *const scratch = job->scratch;
    const lmc_element_cut cut = high_cut(job->delta, class, 2);
    const unsigned low_nbits = cut.split.low_nbits;
    const size_t n = list->n;
    uint8_t *const symbols = scratch->symbols;
    int has_sign_changes = 0;
    list->wide = NULL;
    if (job->delta->transform == LMC_FMT_DELTA_MAGNITUDE) {
        LMC_TRY(lmc_bitset_decode(job->kernels, scratch, &source->reader, n, scratch->sign_changes, diag));
        has_sign_changes = lmc_bitset_count(job->kernels, scratch->sign_changes, n) > 0;
    }
    const uint8_t *const low = lmc_source_bits(source, n * low_nbits);
    if (!low)
        return lmc_corrupt(diag, 0, "block: low bits end early or have spare bits set");
    /* without low bits, the symbols are a list of bytes */
    uint8_t *const decoded = low_nbits == 0 && !has_sign_changes ? list->bytes : symbols;
    LMC_TRY(lmc_buckets_decode(job->bucket_code, job->kernels, scratch, 0, source, n, decoded, diag));
    const lmc_plane_set set = {.symbols = symbols, .low = (uint8_t *)(uintptr_t)low}; /* join only reads */
    if (may_have_bytes && !has_sign_changes && are_narrow(decoded, n, low_nbits)) {
        if (low_nbits > 0)
            job->kernels->join[0](&cut.split, &set, n, list->bytes, NULL);
        return LMC_OK;
    }
    if (decoded != symbols)
        memcpy(symbols, decoded, n);
    list->wide = (uint16_t *)(void *)list->bytes;
    job->kernels->join[1](&cut.split, &set, n, list->bytes, NULL);
    if (lmc_cut_has_escapes(&cut))
        LMC_TRY(lmc_escapes_apply(&cut, symbols, n, &source->reader, list->bytes, diag));
    if (has_sign_changes)
        job->kernels->put_sign_changes(list->wide, n, scratch->sign_changes);
    return LMC_OK;
}

/* ---- exceptions ---- */

/* Finds the exceptions of a strip and makes their high parts 0. element_nbytes is a constant wherever this is used. */
LMC_INLINE void find_wide_exceptions(const lmc_delta *delta, const unsigned element_nbytes,
                                     const uint8_t *src, const uint8_t *base, size_t first, size_t n,
                                     uint16_t *high, lmc_exception_writer *exceptions)
{
    const unsigned fitting = lmc_delta_high_nbits(delta) + 8 * delta->low_nbytes;
    for (size_t i = 0; i < n; i++) {
        const size_t at = (first + i) * element_nbytes;
        const uint64_t x = lmc_load_n(src + at, element_nbytes);
        const uint64_t b = lmc_load_n(base + at, element_nbytes);
        const uint64_t z = lmc_delta_of(delta->transform, x, b, 8 * element_nbytes);
        if (LMC_LIKELY(fitting >= 64 || z >> fitting == 0))
            continue;
        high[i] = 0;
        exceptions->places[exceptions->count++] = (uint32_t)(first + i);
    }
}

void lmc_exceptions_find(const lmc_delta_job *job, const uint8_t *src, const uint8_t *base, size_t first,
                         size_t n, uint16_t *high, lmc_exception_writer *exceptions)
{
    if (job->element_nbytes == 4)
        find_wide_exceptions(job->delta, 4, src, base, first, n, high, exceptions);
    else if (job->element_nbytes == 8)
        find_wide_exceptions(job->delta, 8, src, base, first, n, high, exceptions);
}

int lmc_exceptions_write(const lmc_delta_job *job, const uint8_t *src, size_t n,
                         const lmc_exception_writer *exceptions, lmc_writer *writer)
{
    const unsigned count_nbytes = lmc_count_nbytes(n);
    if (count_nbytes + exceptions->count * (count_nbytes + job->element_nbytes) > lmc_writer_left(writer))
        return 0;
    lmc_write_n(writer, exceptions->count, count_nbytes);
    for (size_t i = 0; i < exceptions->count; i++)
        lmc_write_n(writer, exceptions->places[i], count_nbytes);
    for (size_t i = 0; i < exceptions->count; i++)
        lmc_write_span(writer, src + (size_t)exceptions->places[i] * job->element_nbytes,
                       job->element_nbytes);
    return 1;
}

lmc_status lmc_exceptions_read(const lmc_delta_job *job, lmc_reader *reader, size_t n,
                               lmc_exception_reader *exceptions, lmc_diag *diag)
{
    const unsigned count_nbytes = lmc_count_nbytes(n);
    exceptions->least = 0;
    exceptions->place_nbytes = count_nbytes;
    exceptions->count = (size_t)lmc_read_n(reader, count_nbytes);
    if (reader->failed || exceptions->count > n)
        return lmc_corrupt(diag, 0, "block: more exceptions than elements");
    exceptions->places = lmc_read_span(reader, exceptions->count * count_nbytes);
    exceptions->values = lmc_read_span(reader, exceptions->count * job->element_nbytes);
    return reader->failed ? lmc_corrupt(diag, 0, "block: its exceptions are cut short") : LMC_OK;
}

lmc_status lmc_exceptions_apply(const lmc_delta_job *job, lmc_exception_reader *exceptions, size_t first,
                                size_t end, uint8_t *strip, lmc_diag *diag)
{
    const unsigned count_nbytes = exceptions->place_nbytes;
    for (; exceptions->count > 0; exceptions->count--) {
        const uint64_t place = lmc_load_n(exceptions->places, count_nbytes);
        if (place >= end)
            break;
        if (place < exceptions->least)
            return lmc_corrupt(diag, 0, "block: exceptions are out of order");
        memcpy(strip + (place - first) * job->element_nbytes, exceptions->values, job->element_nbytes);
        exceptions->places += count_nbytes;
        exceptions->values += job->element_nbytes;
        exceptions->least = place + 1;
    }
    return LMC_OK;
}

lmc_status lmc_exceptions_end(const lmc_exception_reader *exceptions, lmc_diag *diag)
{
    return exceptions->count > 0
               ? lmc_corrupt(diag, 0, "block: exceptions are out of order or beyond its end")
               : LMC_OK;
}
