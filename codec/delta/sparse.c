/* sparse.c - finds the few elements that differ from the base and writes them class by class; reads their places and
 * high parts, copies the base, and changes these. */
#include "codec/delta/sparse.h"

#include "codec/bitset/bitset.h"

/* ---- encode ---- */

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

/* A block is given up as soon as its part so far lists so many elements more than it may. */
#define EXCESS_MAX 256

/* Hashes and compares the block strip by strip, but for its first same_nbytes bytes. Returns 0 if it is not sparse. */
static int find_items(const lmc_delta_job *job, const lmc_content_block *block, size_t same_nbytes,
                      sparse_items *items)
{
    const lmc_kernels *const kernels = job->kernels;
    lmc_scratch *const scratch = job->scratch;
    const unsigned element_nbytes = job->element_nbytes, element_log2 = lmc_element_log2(element_nbytes);
    const uint8_t *const values = job->base_form == LMC_BASE_PLAIN ? block->base : job->base_values;
    uint64_t changed[LMC_STRIP_VALUES / 64] = {0};
    for (size_t at = 0; at < block->nbytes; at += lmc_delta_strip_nbytes(job)) {
        const size_t nbytes = lmc_min_size(block->nbytes - at, lmc_delta_strip_nbytes(job));
        const size_t n = nbytes / element_nbytes, first = at / element_nbytes;
        if (at >= same_nbytes) {
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
        const uint8_t *const src = block->src + at;
        switch (element_nbytes) {
        case 1: add_elements(job, 1, src, values + at, first, count, items); break;
        case 2: add_elements(job, 2, src, values + at, first, count, items); break;
        case 4: add_elements(job, 4, src, values + at, first, count, items); break;
        default: add_elements(job, 8, src, values + at, first, count, items); break;
        }
    }
    return 1;
}

/* The items of one class, in order. */
typedef struct class_items {
    const sparse_item *item;
    size_t count;
    size_t n; /* elements of the class */
} class_items;

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

/* Writes the symbols of a class: the first bucket tells which are 0, the others code the rest. A class that is too
 * small for a bucket has all of them as bytes. */
static int write_symbols(const lmc_delta_job *job, const class_items *class, uint16_t used,
                         lmc_writer *writer)
{
    uint8_t *const symbols = job->scratch->symbols;
    size_t m = 0;
    if (class->n < LMC_FMT_BUCKET_VALUES_MIN) {
        if (class->n > lmc_writer_left(writer))
            return 0;
        memset(writer->next, 0, class->n);
        for (size_t i = 0; i < class->count; i++)
            writer->next[class->item[i].place] = symbol_of(class->item[i].high & used);
        writer->next += class->n;
        return 1;
    }
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

/* Brings the items of each class together, behind all items, and writes the block. */
static int write_items(const lmc_delta_job *job, const lmc_content_block *block, const sparse_items *items,
                       lmc_writer *writer)
{
    const size_t n = block->nbytes / job->element_nbytes;
    const size_t trailing_nbytes = block->nbytes % job->element_nbytes;
    sparse_item *const sorted = items->item + items->count;
    uint32_t next[LMC_FMT_CLASS_COUNT_MAX] = {0};
    class_items classes[LMC_FMT_CLASS_COUNT_MAX];
    if (!lmc_exceptions_write(job, block->src, n, &items->exceptions, writer))
        return 0;
    for (size_t i = 0; i < items->count; i++)
        next[items->item[i].class]++;
    for (unsigned c = 0, first = 0; c < job->delta->class_count; c++) {
        classes[c] = (class_items){sorted + first, next[c], items->class_count[c]};
        next[c] = first;
        first += (unsigned)classes[c].count;
    }
    for (size_t i = 0; i < items->count; i++)
        sorted[next[items->item[i].class]++] = items->item[i];
    for (unsigned c = 0; c < job->delta->class_count; c++) {
        const class_items *const class = &classes[c];
        if (class->n > 0 && items->whole >> c & 1) { /* all elements are items */
            const lmc_high_list list = {.wide = job->scratch->wide_high, .n = class->n};
            for (size_t i = 0; i < class->n; i++)
                list.wide[i] = class->item[i].high;
            if (!lmc_high_list_write(job, c, &list, writer))
                return 0;
        } else if (class->n > 0 && !write_class(job, class, writer)) {
            return 0;
        }
    }
    if (lmc_writer_left(writer) < trailing_nbytes)
        return 0;
    lmc_write_span(writer, block->src + block->nbytes - trailing_nbytes, trailing_nbytes);
    return 1;
}

size_t lmc_sparse_encode(const lmc_delta_job *job, const lmc_content_block *block, size_t same_nbytes,
                         uint8_t *dst, uint64_t *content_hash, uint64_t *base_hash)
{
    lmc_scratch *const scratch = job->scratch;
    sparse_items items = {.item = (sparse_item *)(void *)scratch->high_lists,
                          .capacity = lmc_sparse_count_max(job, block->nbytes / job->element_nbytes),
                          .whole = lmc_whole_classes(job->delta),
                          .exceptions = {.places = scratch->gaps}};
    lmc_writer writer = {dst, dst + block->nbytes};
    if (job->base_form == LMC_BASE_PLAIN) { /* where content and base are equal, so are their hashes so far */
        memcpy(scratch->content_hash_state, scratch->hash_state, LMC_HASH_STATE_NBYTES);
    } else {
        job->kernels->hash_begin(scratch->content_hash_state);
        job->kernels->hash_update(scratch->content_hash_state, block->src, same_nbytes);
    }
    if (!find_items(job, block, same_nbytes, &items))
        return 0;
    lmc_write_n(&writer, LMC_FMT_BLOCK_DELTA, 1);
    if (!write_items(job, block, &items, &writer))
        return 0;
    *base_hash = job->kernels->hash_end(scratch->hash_state);
    *content_hash = job->kernels->hash_end(scratch->content_hash_state);
    return (size_t)(writer.next - dst);
}

/* ---- decode ---- */

/* For each class, the places of its changes with LMC_NO_PLACE behind them, and their high parts. The lists of all
 * classes lie one behind the other. */
typedef struct sparse_lists {
    const uint32_t *places[LMC_FMT_CLASS_COUNT_MAX];
    uint16_t *high[LMC_FMT_CLASS_COUNT_MAX];
    uint32_t *next_place;   /* where the places of the next class begin */
    size_t count, capacity; /* of all classes, without the ends */
} sparse_lists;

/* The bitsets of a class while it is read. */
typedef struct class_bits {
    size_t n;
    uint64_t *nonzero;      /* symbols that are not 0, in scratch->bitset */
    uint64_t *sign_changes; /* NULL: none */
} class_bits;

static int has_bit(const uint64_t *bitset, size_t i)
{
    return bitset[i / 64] >> i % 64 & 1;
}

/* Reads which symbols are not 0, and these to scratch->symbols. *is_sparse: 0 if they are too many; then they were not
 * read. A class that is too small for a bucket has all of its symbols as bytes. */
static lmc_status read_symbols(const lmc_delta_job *job, lmc_source *source, size_t most, class_bits *bits,
                               size_t *count, int *is_sparse, lmc_diag *diag)
{
    lmc_scratch *const scratch = job->scratch;
    bits->nonzero = scratch->bitset;
    if (bits->n < LMC_FMT_BUCKET_VALUES_MIN) {
        const uint8_t *const all = lmc_read_span(&source->reader, bits->n);
        if (!all)
            return lmc_corrupt(diag, 0, "bucket code: its last symbols end early");
        bits->nonzero[0] = 0;
        *count = 0;
        for (size_t i = 0; i < bits->n; i++) {
            bits->nonzero[0] |= (uint64_t)(all[i] != 0) << i;
            scratch->symbols[*count] = all[i];
            *count += all[i] != 0;
        }
        *is_sparse = *count <= most;
        return LMC_OK;
    }
    LMC_TRY(lmc_bitset_decode(job->kernels, scratch, &source->reader, bits->n, bits->nonzero, diag));
    *count = lmc_bitset_count(job->kernels, bits->nonzero, bits->n);
    *is_sparse = *count <= most;
    if (*count == 0 || !*is_sparse)
        return LMC_OK;
    return lmc_buckets_decode(job->bucket_code, job->kernels, scratch, 1, source, *count, scratch->symbols,
                              diag);
}

/* Makes the members of a bitset places. Returns their number. */
static size_t list_places(const lmc_delta_job *job, const uint64_t *bitset, size_t n, uint32_t *places)
{
    uint32_t *const gaps = job->scratch->gaps;
    const size_t count = job->kernels->gaps_find(bitset, n, 0, gaps);
    uint32_t place = 0;
    for (size_t i = 0; i < count; i++) {
        place += gaps[i];
        places[i] = place++;
    }
    return count;
}

/* Reads the changes of a class without low bits, at most so many; *count of them. *is_sparse: 0 if there are more. */
static lmc_status read_changes(const lmc_delta_job *job, lmc_source *source, size_t n, size_t most,
                               uint32_t *places, uint16_t *high, size_t *count, int *is_sparse,
                               lmc_diag *diag)
{
    lmc_scratch *const scratch = job->scratch;
    class_bits bits = {.n = n};
    size_t sign_count = 0;
    if (job->delta->transform == LMC_FMT_DELTA_MAGNITUDE) {
        LMC_TRY(lmc_bitset_decode(job->kernels, scratch, &source->reader, n, scratch->sign_changes, diag));
        sign_count = lmc_bitset_count(job->kernels, scratch->sign_changes, n);
        bits.sign_changes = sign_count > 0 ? scratch->sign_changes : NULL;
    }
    *is_sparse = sign_count <= most;
    if (*is_sparse)
        LMC_TRY(read_symbols(job, source, most - sign_count, &bits, count, is_sparse, diag));
    if (!*is_sparse)
        return LMC_OK;
    uint16_t *const listed = bits.sign_changes ? scratch->escapes : high; /* high parts of the symbols */
    for (size_t i = 0; i < *count; i++)
        listed[i] = scratch->symbols[i] == LMC_FMT_SYMBOL_ESCAPE ? (uint16_t)lmc_read_n(&source->reader, 2)
                                                                 : scratch->symbols[i];
    if (source->reader.failed)
        return lmc_corrupt(diag, 0, "block: an escape is missing");
    if (!bits.sign_changes) {
        *count = list_places(job, bits.nonzero, n, places);
        return LMC_OK;
    }
    uint64_t *const either = scratch->mask; /* sign changes come among the other changes */
    const uint16_t *next = listed;
    for (size_t w = 0; w < lmc_bitset_words(n); w++)
        either[w] = bits.nonzero[w] | bits.sign_changes[w];
    *count = list_places(job, either, n, places);
    for (size_t i = 0; i < *count; i++) {
        high[i] = has_bit(bits.nonzero, places[i]) ? *next++ : 0;
        if (has_bit(bits.sign_changes, places[i]))
            high[i] |= 0x8000;
    }
    return LMC_OK;
}

/* Reads a class, and ends its lists; those of the next class begin there. */
static lmc_status read_class(const lmc_delta_job *job, lmc_source *source, unsigned class, size_t n,
                             sparse_lists *lists, int *is_sparse, lmc_diag *diag)
{
    uint32_t *const places = lists->next_place;
    uint16_t *const high = lists->high[class];
    const size_t most = lists->capacity - lists->count;
    size_t count = 0;
    *is_sparse = 1;
    if (n > 0 && job->delta->class_low_nbits[class] > 0) { /* a whole list: all elements are changes */
        lmc_high_list list = {.bytes = (uint8_t *)high, .n = n};
        *is_sparse = n <= most;
        if (!*is_sparse)
            return LMC_OK;
        LMC_TRY(lmc_high_list_read(job, source, class, 0, &list, diag));
        for (; count < n; count++)
            places[count] = (uint32_t)count;
    } else if (n > 0) {
        LMC_TRY(read_changes(job, source, n, most, places, high, &count, is_sparse, diag));
    }
    if (!*is_sparse)
        return LMC_OK;
    places[count] = LMC_NO_PLACE;
    lists->places[class] = places;
    lists->next_place += count + 1;
    lists->count += count;
    if (class + 1 < LMC_FMT_CLASS_COUNT_MAX)
        lists->high[class + 1] = high + count;
    return LMC_OK;
}

/* Restores the elements of a strip that are changed; it holds the base's. Sets the bits of those that differ then: a
 * list of a whole class has others, too. element_nbytes is a constant wherever this is used. */
LMC_INLINE void change_elements(const lmc_delta_job *job, const unsigned element_nbytes, size_t count,
                                uint16_t **high, uint8_t *strip, uint64_t *changed)
{
    const unsigned transform = job->delta->transform, nbits = 8 * element_nbytes;
    const uint16_t used = (uint16_t)lmc_low_mask(lmc_delta_high_nbits(job->delta));
    for (size_t i = 0; i < count; i++) {
        const lmc_change change = job->scratch->changes[i];
        uint8_t *const element = strip + (size_t)change.element * element_nbytes;
        const uint16_t h = *high[change.class]++;
        const uint64_t b = lmc_load_n(element, element_nbytes);
        const uint64_t x = lmc_delta_apply(transform, h & used, h >> 15, b, nbits);
        memcpy(element, &x, element_nbytes);
        changed[change.element / 64] |= (uint64_t)(x != b) << change.element % 64;
    }
}

/* Copies the base strip by strip, changes it, and hashes the result. */
static lmc_status restore_strips(const lmc_delta_job *job, const uint8_t *values, size_t n,
                                 sparse_lists *lists, lmc_exception_reader *exceptions, uint8_t *dst,
                                 lmc_diag *diag)
{
    const lmc_kernels *const kernels = job->kernels;
    lmc_scratch *const scratch = job->scratch;
    uint64_t changed[LMC_STRIP_VALUES / 64];
    lmc_change_search search;
    lmc_change_search_open(&search, lists->places, job->delta->class_count);
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
        const size_t m = lmc_min_size(n - i, LMC_STRIP_VALUES);
        const size_t at = i * job->element_nbytes, nbytes = m * job->element_nbytes;
        uint8_t *const strip = lmc_strip_place(job, dst, i);
        memcpy(strip, values + at, nbytes);
        const size_t ahead_nbytes = lmc_min_size(n - i - m, LMC_STRIP_VALUES) * job->element_nbytes;
        search.ends = scratch->class_ends + i / LMC_STRIP_VALUES * LMC_FMT_CLASS_COUNT_MAX;
        const size_t count = kernels->locate_changes(scratch->classes + i, m, &search, scratch->changes,
                                                     values + at + nbytes, ahead_nbytes);
        memset(changed, 0, sizeof changed);
        switch (job->element_nbytes) {
        case 1: change_elements(job, 1, count, lists->high, strip, changed); break;
        case 2: change_elements(job, 2, count, lists->high, strip, changed); break;
        case 4: change_elements(job, 4, count, lists->high, strip, changed); break;
        default: change_elements(job, 8, count, lists->high, strip, changed); break;
        }
        const size_t exceptions_left = exceptions->count;
        LMC_TRY(lmc_exceptions_apply(job, exceptions, i, i + m, strip, diag));
        kernels->hash_update(scratch->hash_state, strip, nbytes);
        lmc_strip_deliver(job, strip, values + at, i, m,
                          exceptions->count == exceptions_left ? changed : NULL, dst);
    }
    return lmc_exceptions_end(exceptions, diag);
}

lmc_status lmc_sparse_decode(const lmc_delta_job *job, lmc_source *source, const uint8_t *values,
                             const lmc_class_lists *class_lists, size_t n, uint8_t *dst, int *is_sparse,
                             lmc_diag *diag)
{
    lmc_exception_reader exceptions = {0};
    sparse_lists lists = {.capacity = lmc_sparse_count_max(job, n),
                          .next_place = (uint32_t *)(void *)job->scratch->high_lists,
                          .high = {job->scratch->wide_high}};
    *is_sparse = 1;
    LMC_TRY(lmc_exceptions_read(job, &source->reader, n, &exceptions, diag));
    for (unsigned c = 0; c < job->delta->class_count && *is_sparse; c++)
        LMC_TRY(read_class(job, source, c, class_lists->count[c], &lists, is_sparse, diag));
    return *is_sparse ? restore_strips(job, values, n, &lists, &exceptions, dst, diag) : LMC_OK;
}
