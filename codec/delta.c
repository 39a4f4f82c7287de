/* delta.c - a block as what has changed since its base. */
#include "delta.h"

#include "coding.h"
#include "escape.h"
#include "flags.h"
#include "plane.h"

/* Where the lists of heads of a block begin and how long they are. */
typedef struct class_lists {
    size_t count[LMC_FMT_CLASS_COUNT_MAX];
    uint16_t *begin[LMC_FMT_CLASS_COUNT_MAX];
    lmc_class_order order;
} class_lists;

/* What it takes, about, to bring the elements that are of no direct class to a list of their own first, in units of
 * going through all elements for one class; measured. */
#define INDIRECT_COST 2.0

/* Sorts the classes that occur by their counts, and finds how many of them are best taken directly. */
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
            i + INDIRECT_COST + (double)left / (double)n * (order->count - i); /* the others, in their list */
        if (cost < best) {
            best = cost;
            order->direct_count = (uint8_t)i;
        }
        left -= count[order->class[i]];
    }
}

/* Lays the lists out one behind the other. */
static void open_lists(const lmc_delta_job *job, size_t n, class_lists *lists)
{
    uint16_t *next = job->scratch->heads;
    for (unsigned c = 0; c < job->delta->class_count; c++) {
        lists->begin[c] = next;
        next += lists->count[c] + LMC_HEAD_SLACK;
    }
    order_classes(lists->count, job->delta->class_count, n, &lists->order);
}

/* ---- base: it is hashed, and made values of, strip by strip while it is in the first-level cache ---- */

static size_t strip_nbytes(const lmc_delta_job *job)
{
    return LMC_STRIP_VALUES * (size_t)job->unit_nbytes;
}

/* Hashes the next bytes of the base, which stand for nbytes of values. Returns these. */
static const uint8_t *take_base(const lmc_delta_job *job, const uint8_t *base, size_t at, size_t nbytes)
{
    const unsigned scale = lmc_base_scale(job->base_form);
    const uint8_t *const bytes = base + at * scale;
    job->kernels->hash_update(job->scratch->hash_state, bytes, nbytes * scale);
    if (job->base_form == LMC_BASE_PLAIN)
        return bytes;
    return lmc_base_values(job->base_form, bytes, nbytes, job->base_values + at);
}

/* All of the base: its hash is begun, and `from` bytes of values are done. Finds the class of each element. Returns
 * the values; the hash is left to be ended. */
static const uint8_t *classify_base(const lmc_delta_job *job, const uint8_t *base, size_t nbytes, size_t from,
                                    class_lists *lists)
{
    const unsigned unit_nbytes = job->unit_nbytes, unit_log2 = lmc_unit_log2(unit_nbytes);
    const uint8_t *const values = job->base_form == LMC_BASE_PLAIN ? base : job->base_values;
    memset(lists->count, 0, sizeof lists->count);
    for (size_t at = 0; at < nbytes; at += strip_nbytes(job)) {
        const size_t m = lmc_min_size(nbytes - at, strip_nbytes(job));
        if (at >= from)
            (void)take_base(job, base, at, m);
        job->kernels->classify[unit_log2](job->delta, values + at, m / unit_nbytes,
                                          job->scratch->classes + at / unit_nbytes, lists->count);
    }
    return values;
}

/* Heads of a class as elements of two bytes: low bits, and the rest as symbols. */
static lmc_coding head_coding(const lmc_delta *delta, unsigned class)
{
    return (lmc_coding){.unit_nbytes = sizeof(uint16_t),
                        .split = {.low_nbits = delta->class_low_nbits[class]}};
}

/* ---- encode ---- */

/* Appends the place and the value of an element whose difference fits no head; the head becomes 0. */
typedef struct exception_writer {
    uint32_t *places; /* in scratch->gaps */
    size_t count;
} exception_writer;

/* Looks for the elements of a strip that fit no head. */
static void find_exceptions(const lmc_delta_job *job, const uint8_t *src, const uint8_t *base, size_t first,
                            size_t n, uint16_t *head, exception_writer *exceptions)
{
    const unsigned nbits = 8 * job->unit_nbytes;
    const unsigned fitting = lmc_delta_head_nbits(job->delta) + 8 * job->delta->low_nbytes;
    for (size_t i = 0; i < n; i++) {
        const size_t at = (first + i) * job->unit_nbytes;
        const uint64_t x = lmc_load_n(src + at, job->unit_nbytes);
        const uint64_t b = lmc_load_n(base + at, job->unit_nbytes);
        if (fitting >= 64 || lmc_delta_of(job->delta->transform, x, b, nbits) >> fitting == 0)
            continue;
        head[i] = 0;
        exceptions->places[exceptions->count++] = (uint32_t)(first + i);
    }
}

/* Heads to their lists, low bytes to scratch->plane; the content is hashed. */
static void split_block(const lmc_delta_job *job, const uint8_t *src, const uint8_t *base, size_t n,
                        const class_lists *lists, exception_writer *exceptions)
{
    lmc_scratch *const scratch = job->scratch;
    const unsigned unit_log2 = lmc_unit_log2(job->unit_nbytes);
    uint16_t *list[LMC_FMT_CLASS_COUNT_MAX];
    memcpy(list, lists->begin, sizeof list);
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
        const size_t m = lmc_min_size(n - i, LMC_STRIP_VALUES);
        const size_t at = i * job->unit_nbytes;
        uint8_t *low[LMC_FMT_PLANE_COUNT_MAX];
        for (unsigned j = 0; j < job->delta->low_nbytes; j++)
            low[j] = scratch->plane[j] + i;
        job->kernels->hash_update(scratch->hash_state, src + at, m * job->unit_nbytes);
        if (job->kernels->delta_split[unit_log2](job->delta, src + at, base + at, m, scratch->strip_heads,
                                                 low))
            find_exceptions(job, src, base, i, m, scratch->strip_heads, exceptions);
        job->kernels->scatter(&lists->order, scratch->classes + i, scratch->strip_heads, m, list);
    }
}

/* Number, places, values. */
static int write_exceptions(const lmc_delta_job *job, const uint8_t *src, size_t n,
                            const exception_writer *exceptions, lmc_writer *writer)
{
    const unsigned count_nbytes = lmc_count_nbytes(n);
    if (count_nbytes + exceptions->count * (count_nbytes + job->unit_nbytes) > lmc_writer_left(writer))
        return 0;
    lmc_write_n(writer, exceptions->count, count_nbytes);
    for (size_t i = 0; i < exceptions->count; i++)
        lmc_write_n(writer, exceptions->places[i], count_nbytes);
    for (size_t i = 0; i < exceptions->count; i++)
        lmc_write_span(writer, src + (size_t)exceptions->places[i] * job->unit_nbytes, job->unit_nbytes);
    return 1;
}

static int write_low_planes(const lmc_delta_job *job, size_t n, lmc_writer *writer)
{
    for (unsigned j = 0; j < job->delta->low_nbytes; j++) {
        if (lmc_writer_left(writer) < 1)
            return 0;
        uint8_t *const mode = writer->next++;
        const size_t nbytes = lmc_plane_encode(job->kernels, NULL, job->scratch, job->scratch->plane[j], n,
                                               writer->next, lmc_writer_left(writer), mode);
        if (nbytes == 0)
            return 0;
        writer->next += nbytes;
    }
    return 1;
}

/* A class: flips, low bits, symbols, escapes. */
static int write_class(const lmc_delta_job *job, unsigned class, uint16_t *heads, size_t n,
                       lmc_writer *writer)
{
    lmc_scratch *const scratch = job->scratch;
    const lmc_coding coding = head_coding(job->delta, class);
    const uint8_t *const elements = (const uint8_t *)heads;
    uint16_t *escapes = scratch->escapes;
    if (job->delta->transform == LMC_FMT_DELTA_MAGNITUDE) {
        job->kernels->take_flips(heads, n, scratch->flags);
        const size_t nbytes =
            lmc_flags_encode(job->kernels, scratch, scratch->flags, n, writer->next, lmc_writer_left(writer));
        writer->next += nbytes;
        if (nbytes == 0)
            return 0;
    }
    const size_t low_nbytes = lmc_bits_nbytes(n * coding.split.low_nbits);
    if (low_nbytes > lmc_writer_left(writer))
        return 0;
    const lmc_plane_set set = {.symbols = scratch->symbols, .low = writer->next};
    writer->next += low_nbytes;
    if (job->kernels->split[1](&coding.split, elements, n, &set))
        escapes = lmc_escapes_collect(&coding, set.symbols, elements, n, escapes);
    const size_t nbytes = lmc_ladder_encode(job->ladder, job->kernels, scratch, set.symbols, n, writer->next,
                                            lmc_writer_left(writer));
    writer->next += nbytes;
    const size_t escapes_nbytes = (size_t)(escapes - scratch->escapes) * sizeof *escapes;
    if (nbytes == 0 || escapes_nbytes > lmc_writer_left(writer))
        return 0;
    lmc_write_span(writer, scratch->escapes, escapes_nbytes);
    return 1;
}

/* Writes n elements, whose classes have been found and counted, and hashes src_nbytes bytes. */
static int write_values(const lmc_delta_job *job, const uint8_t *src, const uint8_t *values,
                        size_t src_nbytes, class_lists *lists, lmc_writer *writer, uint64_t *content_hash)
{
    const size_t n = src_nbytes / job->unit_nbytes;
    exception_writer exceptions = {.places = job->scratch->gaps};
    open_lists(job, n, lists);
    job->kernels->hash_begin(job->scratch->hash_state);
    split_block(job, src, values, n, lists, &exceptions);
    job->kernels->hash_update(job->scratch->hash_state, src + n * job->unit_nbytes,
                              src_nbytes % job->unit_nbytes);
    *content_hash = job->kernels->hash_end(job->scratch->hash_state);
    if (!write_exceptions(job, src, n, &exceptions, writer) || !write_low_planes(job, n, writer))
        return 0;
    for (unsigned c = 0; c < job->delta->class_count; c++)
        if (lists->count[c] > 0 && !write_class(job, c, lists->begin[c], lists->count[c], writer))
            return 0;
    return 1;
}

/* How many bytes are as in the base, in whole strips; the base is hashed so far. */
static size_t count_same(const lmc_delta_job *job, const uint8_t *src, const uint8_t *base, size_t nbytes)
{
    size_t at = 0;
    while (at < nbytes) {
        const size_t m = lmc_min_size(nbytes - at, strip_nbytes(job));
        const uint8_t *values = base + at;
        if (job->base_form != LMC_BASE_PLAIN)
            values = lmc_base_values(job->base_form, base + at * lmc_base_scale(job->base_form), m,
                                     job->base_values + at);
        if (memcmp(src + at, values, m) != 0)
            break;
        (void)take_base(job, base, at, m);
        at += m;
    }
    return at;
}

size_t lmc_delta_encode(const lmc_delta_job *job, const uint8_t *src, const uint8_t *base, size_t src_nbytes,
                        uint8_t *dst, uint64_t *content_hash, uint64_t *base_hash)
{
    const lmc_kernels *const kernels = job->kernels;
    const size_t tail_nbytes = src_nbytes % job->unit_nbytes;
    class_lists lists;
    kernels->hash_begin(job->scratch->hash_state);
    const size_t same_nbytes = count_same(job, src, base, src_nbytes);
    if (same_nbytes == src_nbytes) {
        *base_hash = kernels->hash_end(job->scratch->hash_state);
        *content_hash = job->base_form == LMC_BASE_PLAIN ? *base_hash : kernels->hash(src, src_nbytes, 0);
        dst[0] = LMC_FMT_BLOCK_SAME;
        return 1;
    }
    const uint8_t *const values = classify_base(job, base, src_nbytes, same_nbytes, &lists);
    *base_hash = kernels->hash_end(job->scratch->hash_state);
    lmc_writer writer = {dst, dst + src_nbytes}; /* a stored block takes one byte more */
    lmc_write_n(&writer, LMC_FMT_BLOCK_DELTA, 1);
    if (!write_values(job, src, values, src_nbytes, &lists, &writer, content_hash) ||
        src_nbytes < job->unit_nbytes || lmc_writer_left(&writer) < tail_nbytes) {
        dst[0] = LMC_FMT_BLOCK_STORED;
        memcpy(dst + 1, src, src_nbytes);
        return 1 + src_nbytes;
    }
    lmc_write_span(&writer, src + src_nbytes - tail_nbytes, tail_nbytes);
    return (size_t)(writer.next - dst);
}

/* ---- decode ---- */

static lmc_status corrupt(lmc_diag *diag, const char *what)
{
    return lmc_fail(diag, LMC_ERR_CORRUPT, 0, "block: %s", what);
}

/* Where the exceptions stand in the block that have not been applied yet. */
typedef struct exception_reader {
    const uint8_t *places, *values;
    size_t count;
    uint64_t least; /* place that the next one may have */
    unsigned place_nbytes;
} exception_reader;

static lmc_status read_exceptions(const lmc_delta_job *job, lmc_reader *reader, size_t n,
                                  exception_reader *exceptions, lmc_diag *diag)
{
    const unsigned count_nbytes = lmc_count_nbytes(n);
    exceptions->least = 0;
    exceptions->place_nbytes = count_nbytes;
    exceptions->count = (size_t)lmc_read_n(reader, count_nbytes);
    if (reader->failed || exceptions->count > n)
        return corrupt(diag, "more exceptions than elements");
    exceptions->places = lmc_read_span(reader, exceptions->count * count_nbytes);
    exceptions->values = lmc_read_span(reader, exceptions->count * job->unit_nbytes);
    return reader->failed ? corrupt(diag, "its exceptions are cut short") : LMC_OK;
}

/* Puts the exceptions below element `end` where they belong; strip holds the elements from `first` on. */
static lmc_status apply_exceptions(const lmc_delta_job *job, exception_reader *exceptions, size_t first,
                                   size_t end, uint8_t *strip, lmc_diag *diag)
{
    const unsigned count_nbytes = exceptions->place_nbytes;
    for (; exceptions->count > 0; exceptions->count--) {
        const uint64_t place = lmc_load_n(exceptions->places, count_nbytes);
        if (place >= end)
            break;
        if (place < exceptions->least)
            return corrupt(diag, "exceptions are out of order");
        memcpy(strip + (place - first) * job->unit_nbytes, exceptions->values, job->unit_nbytes);
        exceptions->places += count_nbytes;
        exceptions->values += job->unit_nbytes;
        exceptions->least = place + 1;
    }
    return LMC_OK;
}

static lmc_status read_low_planes(const lmc_delta_job *job, lmc_source *source, size_t n,
                                  const uint8_t **planes, lmc_diag *diag)
{
    for (unsigned j = 0; j < job->delta->low_nbytes; j++) {
        const unsigned mode = (unsigned)lmc_read_n(&source->reader, 1);
        if (source->reader.failed)
            return corrupt(diag, "a low plane has no mode");
        const lmc_status status = lmc_plane_decode(job->kernels, NULL, job->scratch, source, mode, n, 8,
                                                   job->scratch->plane[j], &planes[j], diag);
        if (status != LMC_OK)
            return status;
    }
    return LMC_OK;
}

/* Reads the n >= 1 heads of a class. */
static lmc_status read_class(const lmc_delta_job *job, lmc_source *source, unsigned class, uint16_t *heads,
                             size_t n, lmc_diag *diag)
{
    lmc_scratch *const scratch = job->scratch;
    const lmc_coding coding = head_coding(job->delta, class);
    const unsigned low_nbits = coding.split.low_nbits;
    const int has_flips = job->delta->transform == LMC_FMT_DELTA_MAGNITUDE;
    lmc_status status;
    if (has_flips) {
        status = lmc_flags_decode(job->kernels, scratch, &source->reader, n, scratch->flips, diag);
        if (status != LMC_OK)
            return status;
    }
    const uint8_t *const low = lmc_source_bits(source, n * low_nbits);
    if (!low)
        return corrupt(diag, "low bits end early or have spare bits set");
    uint8_t *const symbols = scratch->symbols;
    status = lmc_ladder_decode(job->ladder, job->kernels, scratch, source, n, symbols, diag);
    if (status != LMC_OK)
        return status;
    const lmc_plane_set set = {.symbols = symbols, .low = (uint8_t *)(uintptr_t)low}; /* join only reads */
    job->kernels->join[1](&coding.split, &set, n, (uint8_t *)heads);
    if (lmc_coding_has_escapes(&coding) &&
        lmc_escapes_apply(&coding, symbols, n, &source->reader, (uint8_t *)heads, diag) != LMC_OK)
        return LMC_ERR_CORRUPT;
    if (has_flips)
        job->kernels->put_flips(heads, n, scratch->flips);
    return LMC_OK;
}

/* Brings a strip to its place and hashes it. */
static void put_strip(const lmc_delta_job *job, const uint8_t *strip, size_t nbytes, uint8_t *dst)
{
    job->kernels->hash_update(job->scratch->hash_state, strip, nbytes);
    if (strip != dst)
        job->kernels->copy_past_cache(dst, strip, nbytes);
}

static lmc_status join_block(const lmc_delta_job *job, const class_lists *lists, const uint8_t *const *planes,
                             const uint8_t *values, size_t n, exception_reader *exceptions, uint8_t *dst,
                             lmc_diag *diag)
{
    lmc_scratch *const scratch = job->scratch;
    const unsigned unit_log2 = lmc_unit_log2(job->unit_nbytes);
    const uint16_t *list[LMC_FMT_CLASS_COUNT_MAX];
    for (unsigned c = 0; c < LMC_FMT_CLASS_COUNT_MAX; c++)
        list[c] = lists->begin[c];
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
        const size_t m = lmc_min_size(n - i, LMC_STRIP_VALUES);
        const size_t at = i * job->unit_nbytes;
        uint8_t *const strip = job->past_cache ? scratch->strip_values : dst + at;
        const uint8_t *low[LMC_FMT_PLANE_COUNT_MAX];
        for (unsigned j = 0; j < job->delta->low_nbytes; j++)
            low[j] = planes[j] + i;
        job->kernels->gather(&lists->order, scratch->classes + i, m, list, scratch->strip_heads);
        job->kernels->delta_join[unit_log2](job->delta, scratch->strip_heads, low, values + at, m, strip);
        const lmc_status status = apply_exceptions(job, exceptions, i, i + m, strip, diag);
        if (status != LMC_OK)
            return status;
        put_strip(job, strip, m * job->unit_nbytes, dst + at);
    }
    return exceptions->count > 0 ? corrupt(diag, "exceptions are out of order or beyond its end") : LMC_OK;
}

static lmc_status decode_values(const lmc_delta_job *job, lmc_source *source, const uint8_t *values,
                                class_lists *lists, size_t n, uint8_t *dst, lmc_diag *diag)
{
    exception_reader exceptions = {0};
    const uint8_t *planes[LMC_FMT_PLANE_COUNT_MAX];
    lmc_status status = read_exceptions(job, &source->reader, n, &exceptions, diag);
    if (status == LMC_OK)
        status = read_low_planes(job, source, n, planes, diag);
    if (status != LMC_OK)
        return status;
    open_lists(job, n, lists);
    for (unsigned c = 0; c < job->delta->class_count && status == LMC_OK; c++)
        if (lists->count[c] > 0)
            status = read_class(job, source, c, lists->begin[c], lists->count[c], diag);
    if (status != LMC_OK)
        return status;
    return join_block(job, lists, planes, values, n, &exceptions, dst, diag);
}

/* The stored bytes with slack behind them, so that no plane need be copied on its own. */
static void open_source(const lmc_delta_job *job, const uint8_t *stored, size_t stored_nbytes,
                        lmc_source *source)
{
    uint8_t *const copy = job->scratch->stored;
    memcpy(copy, stored, stored_nbytes);
    memset(copy + stored_nbytes, 0, LMC_LIST_SLACK);
    lmc_source_open_padded(source, copy, stored_nbytes);
}

/* A block that is as its base. */
static lmc_status decode_same(const lmc_delta_job *job, const lmc_delta_stored *block, uint8_t *dst,
                              size_t dst_nbytes, uint64_t *content_hash)
{
    for (size_t at = 0; at < dst_nbytes; at += strip_nbytes(job)) {
        const size_t m = lmc_min_size(dst_nbytes - at, strip_nbytes(job));
        const uint8_t *const values = take_base(job, block->base, at, m);
        if (job->past_cache)
            job->kernels->copy_past_cache(dst + at, values, m);
        else
            memcpy(dst + at, values, m);
    }
    if (job->kernels->hash_end(job->scratch->hash_state) != block->base_hash)
        return LMC_ERR_BASE;
    *content_hash =
        job->base_form == LMC_BASE_PLAIN ? block->base_hash : job->kernels->hash(dst, dst_nbytes, 0);
    return LMC_OK;
}

/* For blocks of whose base only the hash is looked at. */
static int is_right_base(const lmc_delta_job *job, const lmc_delta_stored *block, size_t dst_nbytes)
{
    const size_t base_nbytes = dst_nbytes * lmc_base_scale(job->base_form);
    return job->kernels->hash(block->base, base_nbytes, 0) == block->base_hash;
}

/* A block that is stored as it is. */
static lmc_status decode_stored(const lmc_delta_job *job, const lmc_delta_stored *block, uint8_t *dst,
                                size_t dst_nbytes, uint64_t *content_hash)
{
    if (!is_right_base(job, block, dst_nbytes))
        return LMC_ERR_BASE;
    memcpy(dst, block->stored + 1, dst_nbytes);
    *content_hash = job->kernels->hash(dst, dst_nbytes, 0);
    return LMC_OK;
}

static lmc_status decode_compared(const lmc_delta_job *job, const lmc_delta_stored *block, uint8_t *dst,
                                  size_t dst_nbytes, uint64_t *content_hash, lmc_diag *diag)
{
    const lmc_kernels *const kernels = job->kernels;
    void *const hash_state = job->scratch->hash_state;
    const size_t n = dst_nbytes / job->unit_nbytes;
    const size_t tail_nbytes = dst_nbytes % job->unit_nbytes;
    class_lists lists;
    lmc_source source;
    const uint8_t *const values = classify_base(job, block->base, dst_nbytes, 0, &lists);
    if (kernels->hash_end(hash_state) != block->base_hash)
        return LMC_ERR_BASE;
    if (n == 0)
        return corrupt(diag, "it has no elements, but is a delta");
    open_source(job, block->stored, block->stored_nbytes, &source);
    (void)lmc_read_n(&source.reader, 1);
    kernels->hash_begin(hash_state);
    const lmc_status status = decode_values(job, &source, values, &lists, n, dst, diag);
    if (status != LMC_OK)
        return status;
    if (lmc_reader_left(&source.reader) != tail_nbytes)
        return corrupt(diag, "bytes after its end");
    memcpy(dst + n * job->unit_nbytes, source.reader.next, tail_nbytes);
    kernels->hash_update(hash_state, source.reader.next, tail_nbytes);
    *content_hash = kernels->hash_end(hash_state);
    return LMC_OK;
}

/* The mode, and the length where the mode tells it. */
static lmc_status check_mode(const lmc_delta_stored *block, size_t dst_nbytes, lmc_diag *diag)
{
    const unsigned mode = block->stored[0];
    const size_t wanted_nbytes = 1 + (mode == LMC_FMT_BLOCK_STORED ? dst_nbytes : 0);
    if (mode != LMC_FMT_BLOCK_SAME && mode != LMC_FMT_BLOCK_STORED && mode != LMC_FMT_BLOCK_DELTA)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 0, "block: mode %u in a delta frame", mode);
    if (mode != LMC_FMT_BLOCK_DELTA && block->stored_nbytes != wanted_nbytes)
        return corrupt(diag, "it is not as long as its mode says");
    return LMC_OK;
}

lmc_status lmc_delta_decode(const lmc_delta_job *job, const lmc_delta_stored *block, uint8_t *dst,
                            size_t dst_nbytes, uint64_t *content_hash, lmc_diag *diag)
{
    const lmc_status status = check_mode(block, dst_nbytes, diag);
    if (status != LMC_OK) /* a wrong base is told before all faults of the block */
        return is_right_base(job, block, dst_nbytes) ? status : LMC_ERR_BASE;
    job->kernels->hash_begin(job->scratch->hash_state);
    switch (block->stored[0]) {
    case LMC_FMT_BLOCK_SAME: return decode_same(job, block, dst, dst_nbytes, content_hash);
    case LMC_FMT_BLOCK_STORED: return decode_stored(job, block, dst, dst_nbytes, content_hash);
    default: return decode_compared(job, block, dst, dst_nbytes, content_hash, diag);
    }
}
