/* sparse_encode.c - finds the few elements that differ from the base, and writes them class by class. */
#include "codec/bitset/bitset.h"
#include "codec/delta/delta_exceptions.h"
#include "codec/delta/high_list.h"
#include "codec/delta/sparse.h"

/* An element of the block that is coded: its place in its class and its high part. */
typedef struct sparse_item {
    uint32_t place;
    uint16_t high;
    uint8_t class;
} sparse_item;

/* The elements that are coded, in order. Room for as many again, by class, lies behind them. */
typedef struct sparse_items {
    sparse_item *item;
    size_t count, capacity;
    uint32_t class_count[LMC_FMT_CLASS_COUNT_MAX]; /* elements of each class, coded or not */
    uint32_t whole;
    lmc_exception_writer exceptions;
} sparse_items;

static void open_items(const lmc_delta_job *job, size_t n, sparse_items *items)
{
    memset(items, 0, sizeof *items);
    items->item = (sparse_item *)(void *)job->scratch->high_lists;
    items->capacity = lmc_sparse_count_max(job, n);
    items->whole = lmc_whole_classes(job->delta);
    items->exceptions.places = job->scratch->gaps;
}

/* Adds the elements of a strip that are listed in scratch->changes; src and values are the strip's, whose first element
 * is number `first` of the block. element_nbytes is a constant wherever this is used. */
LMC_INLINE void add_elements(const lmc_delta_job *job, const unsigned element_nbytes, const uint8_t *src,
                             const uint8_t *values, size_t first, size_t count, sparse_items *items)
{
    const unsigned transform = job->delta->transform, nbits = 8 * element_nbytes;
    const unsigned high_nbits = lmc_delta_high_nbits(job->delta);
    for (size_t i = 0; i < count; i++) {
        const lmc_change change = job->scratch->changes[i];
        const size_t at = (size_t)change.element * element_nbytes;
        const uint64_t x = lmc_load_n(src + at, element_nbytes);
        const uint64_t b = lmc_load_n(values + at, element_nbytes);
        const uint64_t z = lmc_delta_of(transform, x, b, nbits);
        const unsigned sign_change =
            transform == LMC_FMT_DELTA_MAGNITUDE ? (unsigned)((x ^ b) >> (nbits - 1)) : 0;
        const int is_exception = z >> high_nbits != 0;
        if (is_exception)
            items->exceptions.places[items->exceptions.count++] = (uint32_t)(first + change.element);
        if (!is_exception || items->whole >> change.class & 1)
            items->item[items->count++] = (sparse_item){
                change.place, (uint16_t)(is_exception ? 0 : z | sign_change << 15), change.class};
    }
}

static void add_changes(const lmc_delta_job *job, const uint8_t *src, const uint8_t *values, size_t first,
                        size_t count, sparse_items *items)
{
    switch (job->element_nbytes) {
    case 1: add_elements(job, 1, src, values, first, count, items); break;
    case 2: add_elements(job, 2, src, values, first, count, items); break;
    case 4: add_elements(job, 4, src, values, first, count, items); break;
    default: add_elements(job, 8, src, values, first, count, items); break;
    }
}

/* A block is given up as soon as its part so far lists so many elements more than it may. */
#define EXCESS_MAX 256

/* Hashes and compares the block strip by strip. Returns 0 if it is not sparse. */
static int find_items(const lmc_delta_job *job, const lmc_sparse_block *block, sparse_items *items)
{
    const lmc_kernels *const kernels = job->kernels;
    lmc_scratch *const scratch = job->scratch;
    const unsigned element_nbytes = job->element_nbytes, element_log2 = lmc_element_log2(element_nbytes);
    const uint8_t *const values = job->base_form == LMC_BASE_PLAIN ? block->base : job->base_values;
    uint64_t changed[LMC_STRIP_VALUES / 64] = {0};
    for (size_t at = 0; at < block->nbytes; at += lmc_delta_strip_nbytes(job)) {
        const size_t nbytes = lmc_min_size(block->nbytes - at, lmc_delta_strip_nbytes(job));
        const size_t n = nbytes / element_nbytes, first = at / element_nbytes;
        if (at >= block->same_nbytes) {
            (void)lmc_base_take(job, block->base, at, nbytes);
            kernels->hash_update(scratch->content_hash_state, block->src + at, nbytes);
            kernels->find_changed[element_log2](block->src + at, values + at, n, changed);
        }
        kernels->classify[element_log2](job->delta, values + at, n, scratch->strip, NULL);
        const size_t count = kernels->number_changes(scratch->strip, changed, items->whole, n,
                                                     items->class_count, scratch->changes);
        const size_t found = items->count + items->exceptions.count + count;
        if (found > items->capacity || found > lmc_sparse_count_max(job, first + n) + EXCESS_MAX)
            return 0;
        add_changes(job, block->src + at, values + at, first, count, items);
    }
    return 1;
}

/* The items of one class, in order. */
typedef struct class_items {
    const sparse_item *item;
    size_t count;
    size_t n; /* elements of the class */
} class_items;

/* Brings the items of each class together, behind all items. */
static void sort_items(const sparse_items *items, unsigned class_count, class_items *classes)
{
    sparse_item *const sorted = items->item + items->count;
    uint32_t next[LMC_FMT_CLASS_COUNT_MAX] = {0};
    for (size_t i = 0; i < items->count; i++)
        next[items->item[i].class]++;
    for (unsigned c = 0, first = 0; c < class_count; c++) {
        classes[c] = (class_items){sorted + first, next[c], items->class_count[c]};
        next[c] = first;
        first += (unsigned)classes[c].count;
    }
    for (size_t i = 0; i < items->count; i++)
        sorted[next[items->item[i].class]++] = items->item[i];
}

/* Writes a bitset of the items whose high part has a bit of `bits`. */
static int write_places(const lmc_delta_job *job, const class_items *class, uint16_t bits, lmc_writer *writer)
{
    uint64_t *const bitset = job->scratch->bitset;
    memset(bitset, 0, lmc_bitset_words(class->n) * sizeof *bitset);
    for (size_t i = 0; i < class->count; i++)
        if (class->item[i].high & bits)
            bitset[class->item[i].place / 64] |= UINT64_C(1) << class->item[i].place % 64;
    const size_t nbytes = lmc_bitset_encode(job->kernels, job->scratch, bitset, class->n, writer->next,
                                            lmc_writer_left(writer));
    writer->next += nbytes;
    return nbytes != 0;
}

static uint8_t symbol_of(uint16_t high)
{
    return (uint8_t)(high < LMC_FMT_SYMBOL_ESCAPE ? high : LMC_FMT_SYMBOL_ESCAPE);
}

/* Writes all symbols of a class that is too small for a bucket. */
static int write_few_symbols(const class_items *class, uint16_t used, lmc_writer *writer)
{
    if (class->n > lmc_writer_left(writer))
        return 0;
    memset(writer->next, 0, class->n);
    for (size_t i = 0; i < class->count; i++)
        writer->next[class->item[i].place] = symbol_of(class->item[i].high & used);
    writer->next += class->n;
    return 1;
}

/* Writes the symbols of a class: the first bucket tells which are 0, the others code the rest. */
static int write_symbols(const lmc_delta_job *job, const class_items *class, uint16_t used,
                         lmc_writer *writer)
{
    uint8_t *const symbols = job->scratch->symbols;
    size_t m = 0;
    if (class->n < LMC_FMT_BUCKET_VALUES_MIN)
        return write_few_symbols(class, used, writer);
    if (!write_places(job, class, used, writer))
        return 0;
    for (size_t i = 0; i < class->count; i++) {
        symbols[m] = symbol_of(class->item[i].high & used);
        m += symbols[m] != 0;
    }
    if (m == 0)
        return 1;
    const size_t nbytes = lmc_buckets_encode(job->bucket_code, job->kernels, job->scratch, 1, symbols, m,
                                             writer->next, lmc_writer_left(writer));
    writer->next += nbytes;
    return nbytes != 0;
}

/* Writes a class of which all elements are items. */
static int write_whole_class(const lmc_delta_job *job, unsigned number, const class_items *class,
                             lmc_writer *writer)
{
    const lmc_high_list list = {.wide = job->scratch->wide_high, .n = class->n};
    for (size_t i = 0; i < class->n; i++)
        list.wide[i] = class->item[i].high;
    return lmc_high_list_write(job, number, &list, writer);
}

/* Writes a class of at least one element, without low bits: sign changes, symbols, escapes. */
static int write_class(const lmc_delta_job *job, const class_items *class, lmc_writer *writer)
{
    const uint16_t used = (uint16_t)lmc_low_mask(lmc_delta_high_nbits(job->delta));
    if (job->delta->transform == LMC_FMT_DELTA_MAGNITUDE && !write_places(job, class, 0x8000, writer))
        return 0;
    if (!write_symbols(job, class, used, writer))
        return 0;
    for (size_t i = 0; i < class->count; i++) {
        const uint16_t symbol = class->item[i].high & used;
        if (symbol < LMC_FMT_SYMBOL_ESCAPE)
            continue;
        if (lmc_writer_left(writer) < sizeof symbol)
            return 0;
        lmc_write_n(writer, symbol, sizeof symbol);
    }
    return 1;
}

static int write_items(const lmc_delta_job *job, const lmc_sparse_block *block, const sparse_items *items,
                       lmc_writer *writer)
{
    const size_t n = block->nbytes / job->element_nbytes,
                 trailing_nbytes = block->nbytes % job->element_nbytes;
    class_items classes[LMC_FMT_CLASS_COUNT_MAX];
    if (!lmc_exceptions_write(job, block->src, n, &items->exceptions, writer))
        return 0;
    sort_items(items, job->delta->class_count, classes);
    for (unsigned c = 0; c < job->delta->class_count; c++) {
        const int is_whole = items->whole >> c & 1;
        if (classes[c].n > 0 && !(is_whole ? write_whole_class(job, c, &classes[c], writer)
                                           : write_class(job, &classes[c], writer)))
            return 0;
    }
    if (lmc_writer_left(writer) < trailing_nbytes)
        return 0;
    lmc_write_span(writer, block->src + block->nbytes - trailing_nbytes, trailing_nbytes);
    return 1;
}

/* Where content and base are equal, so are their hashes so far. */
static void begin_content_hash(const lmc_delta_job *job, const lmc_sparse_block *block)
{
    void *const state = job->scratch->content_hash_state;
    if (job->base_form == LMC_BASE_PLAIN) {
        memcpy(state, job->scratch->hash_state, LMC_HASH_STATE_NBYTES);
    } else {
        job->kernels->hash_begin(state);
        job->kernels->hash_update(state, block->src, block->same_nbytes);
    }
}

size_t lmc_sparse_encode(const lmc_delta_job *job, const lmc_sparse_block *block, uint8_t *dst,
                         uint64_t *content_hash, uint64_t *base_hash)
{
    sparse_items items;
    lmc_writer writer = {dst, dst + block->nbytes};
    open_items(job, block->nbytes / job->element_nbytes, &items);
    begin_content_hash(job, block);
    if (!find_items(job, block, &items))
        return 0;
    lmc_write_n(&writer, LMC_FMT_BLOCK_DELTA, 1);
    if (!write_items(job, block, &items, &writer))
        return 0;
    *base_hash = job->kernels->hash_end(job->scratch->hash_state);
    *content_hash = job->kernels->hash_end(job->scratch->content_hash_state);
    return (size_t)(writer.next - dst);
}
