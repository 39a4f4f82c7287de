/* delta.c - encodes a block as its differences from the base, and decodes it from these and the base. */
#include "codec/delta/delta.h"

#include "codec/delta/delta_block.h"
#include "codec/delta/sparse.h"

/* ---- encode ---- */

/* Splits the block: high parts go to their lists, lower bytes to scratch->plane. Hashes the content. Most lists have no
 * wide high part. When the first one comes, upper bytes are cleared, and the strip is appended once more. */
static void split_block(const lmc_delta_job *job, const uint8_t *src, const uint8_t *base, size_t n,
                        lmc_class_lists *lists, lmc_exception_writer *exceptions)
{
    lmc_scratch *const scratch = job->scratch;
    const unsigned element_log2 = lmc_element_log2(job->element_nbytes);
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
        const lmc_high_lists before = lists->high;
        job->kernels->scatter(&lists->order, scratch->classes + i, scratch->strip_high, m, &lists->high,
                              src + at + m * job->element_nbytes, ahead_nbytes);
        const uint32_t first_wide = lists->high.wide ^ before.wide;
        if (LMC_LIKELY(first_wide == 0))
            continue;
        for (unsigned c = 0; c < job->delta->class_count; c++)
            if (first_wide >> c & 1)
                memset(lists->begin[c] + lists->high.upper[c], 0, lists->count[c]);
        lists->high = before;
        job->kernels->scatter(&lists->order, scratch->classes + i, scratch->strip_high, m, &lists->high,
                              scratch->classes, 0);
    }
}

/* Writes the elements, whose classes were found and counted, and hashes src_nbytes bytes. */
static int write_values(const lmc_delta_job *job, const uint8_t *src, const uint8_t *values,
                        size_t src_nbytes, lmc_class_lists *lists, lmc_writer *writer, uint64_t *content_hash)
{
    lmc_scratch *const scratch = job->scratch;
    const size_t n = src_nbytes / job->element_nbytes;
    lmc_exception_writer exceptions = {.places = scratch->gaps};
    lmc_lists_open(job, n, lists);
    job->kernels->hash_begin(job->scratch->hash_state);
    split_block(job, src, values, n, lists, &exceptions);
    job->kernels->hash_update(job->scratch->hash_state, src + n * job->element_nbytes,
                              src_nbytes % job->element_nbytes);
    *content_hash = job->kernels->hash_end(job->scratch->hash_state);
    if (!lmc_exceptions_write(job, src, n, &exceptions, writer))
        return 0;
    for (unsigned j = 0; j < job->delta->low_nbytes; j++) {
        if (lmc_writer_left(writer) < 1)
            return 0;
        uint8_t *const mode = writer->next++;
        const size_t nbytes =
            lmc_plane_encode(&(lmc_plane_coder){.kernels = job->kernels, .scratch = scratch},
                             scratch->plane[j], n, writer->next, lmc_writer_left(writer), mode);
        if (nbytes == 0)
            return 0;
        writer->next += nbytes;
    }
    for (unsigned c = 0; c < job->delta->class_count; c++) {
        lmc_high_list list = {lists->begin[c], NULL, lists->count[c]};
        if (lists->high.nbytes[c] == 2) {
            list.wide = (uint16_t *)(void *)list.bytes;
        } else if (lists->high.wide >> c & 1) {
            list.wide = scratch->wide_high;
            for (size_t i = 0; i < list.n; i++)
                list.wide[i] = (uint16_t)(list.bytes[i] | list.bytes[i + lists->high.upper[c]] << 8);
        }
        if (list.n > 0 && !lmc_high_list_write(job, c, &list, writer))
            return 0;
    }
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

size_t lmc_delta_encode(const lmc_delta_job *job, const lmc_content_block *block, uint8_t *dst,
                        uint64_t *content_hash, uint64_t *base_hash)
{
    const uint8_t *const src = block->src, *const base = block->base;
    const size_t src_nbytes = block->nbytes;
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
        const size_t nbytes = lmc_sparse_encode(job, block, same_nbytes, dst, content_hash, base_hash);
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

/* ---- decode ---- */

/* Joins high parts, lower bytes and the base to the content, strip by strip, and hashes it. */
static lmc_status join_block(const lmc_delta_job *job, lmc_class_lists *lists, const uint8_t *const *planes,
                             const uint8_t *values, size_t n, lmc_exception_reader *exceptions, uint8_t *dst,
                             lmc_diag *diag)
{
    lmc_scratch *const scratch = job->scratch;
    const unsigned element_log2 = lmc_element_log2(job->element_nbytes);
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
        const size_t m = lmc_min_size(n - i, LMC_STRIP_VALUES);
        const size_t at = i * job->element_nbytes;
        uint8_t *const strip = lmc_strip_place(job, dst, i);
        const uint8_t *low[LMC_FMT_PLANE_COUNT_MAX];
        for (unsigned j = 0; j < job->delta->low_nbytes; j++)
            low[j] = planes[j] + i;
        job->kernels->gather(&lists->order, scratch->classes + i, m, &lists->high, scratch->strip_high, strip,
                             strip == scratch->strip_values ? 0 : m * job->element_nbytes);
        job->kernels->delta_join[element_log2](job->delta, scratch->strip_high, low, values + at, m, strip);
        LMC_TRY(lmc_exceptions_apply(job, exceptions, i, i + m, strip, diag));
        job->kernels->hash_update(scratch->hash_state, strip, m * job->element_nbytes);
        lmc_strip_deliver(job, strip, values + at, i, m, NULL, dst);
    }
    return lmc_exceptions_end(exceptions, diag);
}

static lmc_status decode_values(const lmc_delta_job *job, lmc_source *source, const uint8_t *values,
                                lmc_class_lists *lists, size_t n, uint8_t *dst, lmc_diag *diag)
{
    lmc_exception_reader exceptions = {0};
    const uint8_t *planes[LMC_FMT_PLANE_COUNT_MAX];
    LMC_TRY(lmc_exceptions_read(job, &source->reader, n, &exceptions, diag));
    for (unsigned j = 0; j < job->delta->low_nbytes; j++) {
        const lmc_plane_coder coder = {.kernels = job->kernels, .scratch = job->scratch};
        const unsigned mode = (unsigned)lmc_read_n(&source->reader, 1);
        if (source->reader.failed)
            return lmc_corrupt(diag, 0, "block: a low plane has no mode");
        LMC_TRY(lmc_plane_decode(&coder, source, mode, n, 8, job->scratch->plane[j], &planes[j], diag));
    }
    lmc_lists_open(job, n, lists);
    for (unsigned c = 0; c < job->delta->class_count; c++) {
        lmc_high_list list = {.bytes = lists->begin[c], .n = lists->count[c]};
        if (list.n == 0)
            continue;
        LMC_TRY(lmc_high_list_read(job, source, c, lists->high.nbytes[c] == 1, &list, diag));
        lists->high.nbytes[c] = list.wide ? 2 : 1;
    }
    return join_block(job, lists, planes, values, n, &exceptions, dst, diag);
}

/* Decodes a block that is equal to the base. */
static lmc_status decode_same(const lmc_delta_job *job, const lmc_stored *block, uint8_t *dst,
                              size_t dst_nbytes, uint64_t *content_hash)
{
    for (size_t at = 0; at < dst_nbytes; at += lmc_delta_strip_nbytes(job)) {
        const size_t m = lmc_min_size(dst_nbytes - at, lmc_delta_strip_nbytes(job));
        const uint8_t *const values = lmc_base_take(job, block->base, at, m);
        if (job->changes)
            continue;
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

/* Decodes a block that is stored, whose base was verified. */
static lmc_status decode_stored(const lmc_delta_job *job, const lmc_stored *block, uint8_t *dst,
                                size_t dst_nbytes, uint64_t *content_hash)
{
    const uint8_t *const content = block->bytes + 1;
    if (!job->changes)
        memcpy(dst, content, dst_nbytes);
    for (size_t at = 0; at < dst_nbytes && job->changes; at += lmc_delta_strip_nbytes(job))
        lmc_strip_deliver(job, content + at, block->base + at, at / job->element_nbytes,
                          lmc_min_size(dst_nbytes - at, lmc_delta_strip_nbytes(job)) / job->element_nbytes,
                          NULL, dst);
    *content_hash = job->kernels->hash(content, dst_nbytes, 0);
    return LMC_OK;
}

/* A stored block behind its mode, with slack. */
static void open_body(lmc_source *source, const uint8_t *stored, size_t stored_nbytes)
{
    lmc_source_open_padded(source, stored, stored_nbytes);
    (void)lmc_read_n(&source->reader, 1);
}

/* Decodes a block of differences. */
static lmc_status decode_compared(const lmc_delta_job *job, const lmc_stored *block, uint8_t *dst,
                                  size_t dst_nbytes, uint64_t *content_hash, lmc_diag *diag)
{
    const lmc_kernels *const kernels = job->kernels;
    void *const hash_state = job->scratch->hash_state;
    const size_t n = dst_nbytes / job->element_nbytes;
    const size_t trailing_nbytes = dst_nbytes % job->element_nbytes;
    lmc_class_lists lists;
    lmc_source source;
    const uint8_t *const values = lmc_base_classify(job, block->base, dst_nbytes, 0, &lists);
    if (kernels->hash_end(hash_state) != block->base_hash)
        return LMC_ERR_BASE;
    if (n == 0)
        return lmc_corrupt(diag, 0, "block: it has no elements, but is a delta");
    uint8_t *const stored = job->scratch->stored; /* a copy with slack: then no plane is copied on its own */
    memcpy(stored, block->bytes, block->nbytes);
    memset(stored + block->nbytes, 0, LMC_SYMBOLS_SLACK);
    kernels->hash_begin(hash_state);
    int is_sparse = block->nbytes <= lmc_sparse_count_max(job, n) && job->delta->low_nbytes == 0;
    if (is_sparse) {
        open_body(&source, stored, block->nbytes);
        LMC_TRY(lmc_sparse_decode(job, &source, values, &lists, n, dst, &is_sparse, diag));
    }
    if (!is_sparse) {
        open_body(&source, stored, block->nbytes);
        LMC_TRY(decode_values(job, &source, values, &lists, n, dst, diag));
    }
    if (lmc_reader_left(&source.reader) != trailing_nbytes)
        return lmc_corrupt(diag, 0, "block: bytes after its end");
    if (trailing_nbytes > 0)
        memcpy(dst + n * job->element_nbytes, source.reader.next, trailing_nbytes);
    kernels->hash_update(hash_state, source.reader.next, trailing_nbytes);
    *content_hash = kernels->hash_end(hash_state);
    return LMC_OK;
}

lmc_status lmc_delta_decode(const lmc_delta_job *job, const lmc_stored *block, uint8_t *dst,
                            size_t dst_nbytes, uint64_t *content_hash, lmc_diag *diag)
{
    const unsigned mode = block->bytes[0];
    const size_t wanted_nbytes = 1 + (mode == LMC_FMT_BLOCK_STORED ? dst_nbytes : 0);
    lmc_status status = LMC_OK;
    if (mode != LMC_FMT_BLOCK_SAME && mode != LMC_FMT_BLOCK_STORED && mode != LMC_FMT_BLOCK_DELTA)
        status = lmc_fail(diag, LMC_ERR_UNSUPPORTED, 0, "block: mode %u in a delta frame", mode);
    else if (mode != LMC_FMT_BLOCK_DELTA && block->nbytes != wanted_nbytes)
        status = lmc_corrupt(diag, 0, "block: it is not as long as its mode says");
    if (status == LMC_OK)
        job->kernels->hash_begin(job->scratch->hash_state);
    if (status == LMC_OK && mode == LMC_FMT_BLOCK_SAME)
        return decode_same(job, block, dst, dst_nbytes, content_hash);
    if (status == LMC_OK && mode == LMC_FMT_BLOCK_DELTA)
        return decode_compared(job, block, dst, dst_nbytes, content_hash, diag);
    /* a wrong base is reported before any fault of the block */
    const size_t base_nbytes = dst_nbytes * lmc_base_scale(job->base_form);
    if (job->kernels->hash(block->base, base_nbytes, 0) != block->base_hash)
        return LMC_ERR_BASE;
    return status == LMC_OK ? decode_stored(job, block, dst, dst_nbytes, content_hash) : status;
}
