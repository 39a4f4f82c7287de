/* sparse_decode.c - reads the places and high parts of the few elements that differ, copies the base, and changes
 * these. */
#include "codec/bitset/bitset.h"
#include "codec/delta/delta_exceptions.h"
#include "codec/delta/high_list.h"
#include "codec/delta/sparse.h"

/* For each class, the places of its changes with LMC_NO_PLACE behind them, and their high parts. The lists of all
 * classes lie one behind the other. */
typedef struct sparse_lists {
    const uint32_t *places[LMC_FMT_CLASS_COUNT_MAX];
    uint16_t *high[LMC_FMT_CLASS_COUNT_MAX];
    uint32_t *next_place;   /* where the places of the next class begin */
    size_t count, capacity; /* of all classes, without the ends */
} sparse_lists;

static void open_lists(const lmc_delta_job *job, size_t n, sparse_lists *lists)
{
    lists->count = 0;
    lists->capacity = lmc_sparse_count_max(job, n);
    lists->next_place = (uint32_t *)(void *)job->scratch->high_lists;
    lists->high[0] = job->scratch->wide_high;
}

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

/* Reads the sign changes of a class. */
static lmc_status read_sign_changes(const lmc_delta_job *job, lmc_source *source, class_bits *bits,
                                    lmc_diag *diag)
{
    lmc_scratch *const scratch = job->scratch;
    bits->sign_changes = NULL;
    if (job->delta->transform != LMC_FMT_DELTA_MAGNITUDE)
        return LMC_OK;
    LMC_TRY(lmc_bitset_decode(job->kernels, scratch, &source->reader, bits->n, scratch->sign_changes, diag));
    if (lmc_bitset_count(job->kernels, scratch->sign_changes, bits->n) > 0)
        bits->sign_changes = scratch->sign_changes;
    return LMC_OK;
}

/* Reads the symbols of a class that is too small for a bucket. Those that are not 0 stay in scratch->symbols. */
static lmc_status read_few_symbols(const lmc_delta_job *job, lmc_source *source, class_bits *bits,
                                   size_t *count, lmc_diag *diag)
{
    const uint8_t *const all = lmc_read_span(&source->reader, bits->n);
    if (!all)
        return lmc_corrupt(diag, 0, "bucket code: its last symbols end early");
    bits->nonzero[0] = 0;
    *count = 0;
    for (size_t i = 0; i < bits->n; i++) {
        bits->nonzero[0] |= (uint64_t)(all[i] != 0) << i;
        job->scratch->symbols[*count] = all[i];
        *count += all[i] != 0;
    }
    return LMC_OK;
}

/* Reads which symbols are not 0, and these to scratch->symbols. *is_sparse: 0 if they are too many; then they were not
 * read. */
static lmc_status read_symbols(const lmc_delta_job *job, lmc_source *source, size_t most, class_bits *bits,
                               size_t *count, int *is_sparse, lmc_diag *diag)
{
    lmc_scratch *const scratch = job->scratch;
    *is_sparse = 1;
    bits->nonzero = scratch->bitset;
    if (bits->n < LMC_FMT_BUCKET_VALUES_MIN) {
        LMC_TRY(read_few_symbols(job, source, bits, count, diag));
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

/* Reads the escapes among the symbols; `high` becomes their high parts. */
static lmc_status read_escapes(const uint8_t *symbols, size_t count, lmc_reader *reader, uint16_t *high,
                               lmc_diag *diag)
{
    for (size_t i = 0; i < count; i++)
        high[i] = symbols[i] == LMC_FMT_SYMBOL_ESCAPE ? (uint16_t)lmc_read_n(reader, 2) : symbols[i];
    return reader->failed ? lmc_corrupt(diag, 0, "block: an escape is missing or too wide") : LMC_OK;
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

/* Brings sign changes among the changes of a class, whose high parts are in scratch->escapes. */
static size_t list_with_sign_changes(const lmc_delta_job *job, const class_bits *bits, uint32_t *places,
                                     uint16_t *high)
{
    const uint16_t *next = job->scratch->escapes;
    uint64_t *const either = job->scratch->mask;
    for (size_t w = 0; w < lmc_bitset_words(bits->n); w++)
        either[w] = bits->nonzero[w] | bits->sign_changes[w];
    const size_t count = list_places(job, either, bits->n, places);
    for (size_t i = 0; i < count; i++) {
        high[i] = has_bit(bits->nonzero, places[i]) ? *next++ : 0;
        if (has_bit(bits->sign_changes, places[i]))
            high[i] |= 0x8000;
    }
    return count;
}

/* Reads the changes of a class without low bits, at most so many; *count of them. *is_sparse: 0 if there are more. */
static lmc_status read_changes(const lmc_delta_job *job, lmc_source *source, class_bits *bits, size_t most,
                               uint32_t *places, uint16_t *high, size_t *count, int *is_sparse,
                               lmc_diag *diag)
{
    lmc_scratch *const scratch = job->scratch;
    LMC_TRY(read_sign_changes(job, source, bits, diag));
    const size_t sign_count =
        bits->sign_changes ? lmc_bitset_count(job->kernels, bits->sign_changes, bits->n) : 0;
    *is_sparse = sign_count <= most;
    if (*is_sparse)
        LMC_TRY(read_symbols(job, source, most - sign_count, bits, count, is_sparse, diag));
    if (!*is_sparse)
        return LMC_OK;
    LMC_TRY(read_escapes(scratch->symbols, *count, &source->reader,
                         bits->sign_changes ? scratch->escapes : high, diag));
    *count = bits->sign_changes ? list_with_sign_changes(job, bits, places, high)
                                : list_places(job, bits->nonzero, bits->n, places);
    return LMC_OK;
}

/* Reads a class that is coded as a whole list: all its elements are changes. */
static lmc_status read_whole_class(const lmc_delta_job *job, lmc_source *source, unsigned class, size_t n,
                                   uint32_t *places, uint16_t *high, lmc_diag *diag)
{
    lmc_high_list list = {.bytes = (uint8_t *)high, .n = n};
    LMC_TRY(lmc_high_list_read(job, source, class, 0, &list, diag));
    for (size_t i = 0; i < n; i++)
        places[i] = (uint32_t)i;
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
    if (n > 0 && job->delta->class_low_nbits[class] > 0) {
        *is_sparse = n <= most;
        count = n;
        if (*is_sparse)
            LMC_TRY(read_whole_class(job, source, class, n, places, high, diag));
    } else if (n > 0) {
        LMC_TRY(
            read_changes(job, source, &(class_bits){.n = n}, most, places, high, &count, is_sparse, diag));
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

/* Restores the elements of a strip that are changed; it holds the base's. element_nbytes is a constant wherever this is
 * used. */
LMC_INLINE void change_elements(const lmc_delta_job *job, const unsigned element_nbytes, size_t count,
                                uint16_t **high, uint8_t *strip)
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
    }
}

static void change_strip(const lmc_delta_job *job, size_t count, uint16_t **high, uint8_t *strip)
{
    switch (job->element_nbytes) {
    case 1: change_elements(job, 1, count, high, strip); break;
    case 2: change_elements(job, 2, count, high, strip); break;
    case 4: change_elements(job, 4, count, high, strip); break;
    default: change_elements(job, 8, count, high, strip); break;
    }
}

/* Copies the base strip by strip, changes it, and hashes the result. */
static lmc_status restore_strips(const lmc_delta_job *job, const uint8_t *values, size_t n,
                                 sparse_lists *lists, lmc_exception_reader *exceptions, uint8_t *dst,
                                 lmc_diag *diag)
{
    const lmc_kernels *const kernels = job->kernels;
    lmc_scratch *const scratch = job->scratch;
    lmc_change_search search;
    lmc_change_search_open(&search, lists->places, job->delta->class_count);
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
        const size_t m = lmc_min_size(n - i, LMC_STRIP_VALUES);
        const size_t at = i * job->element_nbytes, nbytes = m * job->element_nbytes;
        uint8_t *const strip = job->past_cache ? scratch->strip_values : dst + at;
        memcpy(strip, values + at, nbytes);
        const size_t ahead_nbytes = lmc_min_size(n - i - m, LMC_STRIP_VALUES) * job->element_nbytes;
        const size_t count = kernels->locate_changes(scratch->classes + i, m, &search, scratch->changes,
                                                     values + at + nbytes, ahead_nbytes);
        change_strip(job, count, lists->high, strip);
        LMC_TRY(lmc_exceptions_apply(job, exceptions, i, i + m, strip, diag));
        kernels->hash_update(scratch->hash_state, strip, nbytes);
        if (job->past_cache)
            kernels->copy_past_cache(dst + at, strip, nbytes);
    }
    return lmc_exceptions_end(exceptions, diag);
}

lmc_status lmc_sparse_decode(const lmc_delta_job *job, lmc_source *source, const uint8_t *values,
                             const lmc_class_lists *class_lists, size_t n, uint8_t *dst, int *is_sparse,
                             lmc_diag *diag)
{
    lmc_exception_reader exceptions = {0};
    sparse_lists lists;
    *is_sparse = 1;
    LMC_TRY(lmc_exceptions_read(job, &source->reader, n, &exceptions, diag));
    open_lists(job, n, &lists);
    for (unsigned c = 0; c < job->delta->class_count && *is_sparse; c++)
        LMC_TRY(read_class(job, source, c, class_lists->count[c], &lists, is_sparse, diag));
    return *is_sparse ? restore_strips(job, values, n, &lists, &exceptions, dst, diag) : LMC_OK;
}
