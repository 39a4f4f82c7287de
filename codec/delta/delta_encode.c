/* delta_encode.c - encodes a block as its differences from the base. */
#include "codec/delta/delta_exceptions.h"
#include "codec/delta/delta_lists.h"
#include "codec/delta/high_list.h"
#include "codec/delta/sparse.h"
#include "codec/plain/plane.h"

/* Splits the block: high parts go to their lists, lower bytes to scratch->plane. Hashes the content. */
static void split_block(const lmc_delta_job *job, const uint8_t *src, const uint8_t *base, size_t n,
                        lmc_class_lists *lists, lmc_exception_writer *exceptions)
{
    lmc_scratch *const scratch = job->scratch;
    const unsigned element_log2 = lmc_element_log2(job->element_nbytes);
    for (unsigned c = 0; c < job->delta->class_count; c++)
        if (lists->high.nbytes[c] == 1)
            memset(lists->begin[c] + lists->high.upper[c], 0, lists->count[c]);
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
        const size_t m = lmc_min_size(n - i, LMC_STRIP_VALUES);
        const size_t at = i * job->element_nbytes;
        uint8_t *low[LMC_FMT_PLANE_COUNT_MAX];
        for (unsigned j = 0; j < job->delta->low_nbytes; j++)
            low[j] = scratch->plane[j] + i;
        job->kernels->hash_update(scratch->hash_state, src + at, m * job->element_nbytes);
        if (job->kernels->delta_split[element_log2](job->delta, src + at, base + at, m, scratch->strip_high,
                                                    low))
            lmc_exceptions_find(job, src, base, i, m, scratch->strip_high, exceptions);
        const size_t ahead_nbytes = lmc_min_size(n - i - m, LMC_STRIP_VALUES) * job->element_nbytes;
        job->kernels->scatter(&lists->order, scratch->classes + i, scratch->strip_high, m, &lists->high,
                              src + at + m * job->element_nbytes, ahead_nbytes);
    }
}

static int write_low_planes(const lmc_delta_job *job, size_t n, lmc_writer *writer)
{
    for (unsigned j = 0; j < job->delta->low_nbytes; j++) {
        if (lmc_writer_left(writer) < 1)
            return 0;
        uint8_t *const mode = writer->next++;
        const size_t nbytes =
            lmc_plane_encode(&(lmc_plane_coder){job->kernels, NULL, job->scratch}, job->scratch->plane[j], n,
                             writer->next, lmc_writer_left(writer), mode);
        if (nbytes == 0)
            return 0;
        writer->next += nbytes;
    }
    return 1;
}

/* The high parts of a class with two bytes each, or NULL if none is wide. */
static uint16_t *find_wide_high(const lmc_delta_job *job, const lmc_class_lists *lists, unsigned class)
{
    uint8_t *const list = lists->begin[class];
    uint16_t *const high = job->scratch->wide_high;
    if (lists->high.nbytes[class] == 2)
        return (uint16_t *)(void *)list;
    if (!(lists->high.wide >> class & 1))
        return NULL;
    for (size_t i = 0; i < lists->count[class]; i++)
        high[i] = (uint16_t)(list[i] | list[i + lists->high.upper[class]] << 8);
    return high;
}

static int write_class(const lmc_delta_job *job, const lmc_class_lists *lists, unsigned class,
                       lmc_writer *writer)
{
    const lmc_high_list list = {lists->begin[class], find_wide_high(job, lists, class), lists->count[class]};
    return lmc_high_list_write(job, class, &list, writer);
}

/* Writes the elements, whose classes were found and counted, and hashes src_nbytes bytes. */
static int write_values(const lmc_delta_job *job, const uint8_t *src, const uint8_t *values,
                        size_t src_nbytes, lmc_class_lists *lists, lmc_writer *writer, uint64_t *content_hash)
{
    const size_t n = src_nbytes / job->element_nbytes;
    lmc_exception_writer exceptions = {.places = job->scratch->gaps};
    lmc_lists_open(job, n, lists);
    job->kernels->hash_begin(job->scratch->hash_state);
    split_block(job, src, values, n, lists, &exceptions);
    job->kernels->hash_update(job->scratch->hash_state, src + n * job->element_nbytes,
                              src_nbytes % job->element_nbytes);
    *content_hash = job->kernels->hash_end(job->scratch->hash_state);
    if (!lmc_exceptions_write(job, src, n, &exceptions, writer) || !write_low_planes(job, n, writer))
        return 0;
    for (unsigned c = 0; c < job->delta->class_count; c++)
        if (lists->count[c] > 0 && !write_class(job, lists, c, writer))
            return 0;
    return 1;
}

/* The number of bytes that are equal to the base, in whole strips. The base is hashed so far. */
static size_t count_same(const lmc_delta_job *job, const uint8_t *src, const uint8_t *base, size_t nbytes)
{
    size_t at = 0;
    while (at < nbytes) {
        const size_t m = lmc_min_size(nbytes - at, lmc_delta_strip_nbytes(job));
        const uint8_t *values = base + at;
        if (job->base_form != LMC_BASE_PLAIN)
            values = lmc_base_values(job->base_form, base + at * lmc_base_scale(job->base_form), m,
                                     job->base_values + at);
        if (memcmp(src + at, values, m) != 0)
            break;
        (void)lmc_base_take(job, base, at, m);
        at += m;
    }
    return at;
}

size_t lmc_delta_encode(const lmc_delta_job *job, const uint8_t *src, const uint8_t *base, size_t src_nbytes,
                        uint8_t *dst, uint64_t *content_hash, uint64_t *base_hash)
{
    const lmc_kernels *const kernels = job->kernels;
    const size_t trailing_nbytes = src_nbytes % job->element_nbytes;
    lmc_class_lists lists;
    kernels->hash_begin(job->scratch->hash_state);
    size_t same_nbytes = count_same(job, src, base, src_nbytes);
    if (same_nbytes == src_nbytes) {
        *base_hash = kernels->hash_end(job->scratch->hash_state);
        *content_hash = job->base_form == LMC_BASE_PLAIN ? *base_hash : kernels->hash(src, src_nbytes, 0);
        dst[0] = LMC_FMT_BLOCK_SAME;
        return 1;
    }
    if (src_nbytes >= job->element_nbytes && job->delta->low_nbytes == 0) {
        const lmc_sparse_block block = {src, base, src_nbytes, same_nbytes};
        const size_t nbytes = lmc_sparse_encode(job, &block, dst, content_hash, base_hash);
        if (nbytes != 0)
            return nbytes;
        kernels->hash_begin(job->scratch->hash_state);
        same_nbytes = 0;
    }
    const uint8_t *const values = lmc_base_classify(job, base, src_nbytes, same_nbytes, &lists);
    *base_hash = kernels->hash_end(job->scratch->hash_state);
    lmc_writer writer = {dst, dst + src_nbytes}; /* a stored block takes one byte more */
    lmc_write_n(&writer, LMC_FMT_BLOCK_DELTA, 1);
    if (!write_values(job, src, values, src_nbytes, &lists, &writer, content_hash) ||
        src_nbytes < job->element_nbytes || lmc_writer_left(&writer) < trailing_nbytes) {
        dst[0] = LMC_FMT_BLOCK_STORED;
        memcpy(dst + 1, src, src_nbytes);
        return 1 + src_nbytes;
    }
    lmc_write_span(&writer, src + src_nbytes - trailing_nbytes, trailing_nbytes);
    return (size_t)(writer.next - dst);
}
