/* delta_decode.c - decodes a block from the base and the stored differences. */
#include "codec/delta/delta_exceptions.h"
#include "codec/delta/delta_lists.h"
#include "codec/delta/high_list.h"
#include "codec/delta/sparse.h"
#include "codec/plain/plane.h"

static lmc_status read_low_planes(const lmc_delta_job *job, lmc_source *source, size_t n,
                                  const uint8_t **planes, lmc_diag *diag)
{
    const lmc_plane_coder coder = {job->kernels, NULL, job->scratch};
    for (unsigned j = 0; j < job->delta->low_nbytes; j++) {
        const unsigned mode = (unsigned)lmc_read_n(&source->reader, 1);
        if (source->reader.failed)
            return lmc_corrupt(diag, 0, "block: a low plane has no mode");
        LMC_TRY(lmc_plane_decode(&coder, source, mode, n, 8, job->scratch->plane[j], &planes[j], diag));
    }
    return LMC_OK;
}

static lmc_status read_class(const lmc_delta_job *job, lmc_source *source, unsigned class,
                             lmc_class_lists *lists, lmc_diag *diag)
{
    lmc_high_list list = {.bytes = lists->begin[class], .n = lists->count[class]};
    LMC_TRY(lmc_high_list_read(job, source, class, lists->high.nbytes[class] == 1, &list, diag));
    lists->high.nbytes[class] = list.wide ? 2 : 1;
    return LMC_OK;
}

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
        uint8_t *const strip = job->past_cache ? scratch->strip_values : dst + at;
        const uint8_t *low[LMC_FMT_PLANE_COUNT_MAX];
        for (unsigned j = 0; j < job->delta->low_nbytes; j++)
            low[j] = planes[j] + i;
        job->kernels->gather(&lists->order, scratch->classes + i, m, &lists->high, scratch->strip_high, strip,
                             job->past_cache ? 0 : m * job->element_nbytes);
        job->kernels->delta_join[element_log2](job->delta, scratch->strip_high, low, values + at, m, strip);
        LMC_TRY(lmc_exceptions_apply(job, exceptions, i, i + m, strip, diag));
        job->kernels->hash_update(scratch->hash_state, strip, m * job->element_nbytes);
        if (job->past_cache)
            job->kernels->copy_past_cache(dst + at, strip, m * job->element_nbytes);
    }
    return lmc_exceptions_end(exceptions, diag);
}

static lmc_status decode_values(const lmc_delta_job *job, lmc_source *source, const uint8_t *values,
                                lmc_class_lists *lists, size_t n, uint8_t *dst, lmc_diag *diag)
{
    lmc_exception_reader exceptions = {0};
    const uint8_t *planes[LMC_FMT_PLANE_COUNT_MAX];
    LMC_TRY(lmc_exceptions_read(job, &source->reader, n, &exceptions, diag));
    LMC_TRY(read_low_planes(job, source, n, planes, diag));
    lmc_lists_open(job, n, lists);
    for (unsigned c = 0; c < job->delta->class_count; c++)
        if (lists->count[c] > 0)
            LMC_TRY(read_class(job, source, c, lists, diag));
    return join_block(job, lists, planes, values, n, &exceptions, dst, diag);
}

/* Decodes a block that is equal to the base. */
static lmc_status decode_same(const lmc_delta_job *job, const lmc_delta_stored *block, uint8_t *dst,
                              size_t dst_nbytes, uint64_t *content_hash)
{
    for (size_t at = 0; at < dst_nbytes; at += lmc_delta_strip_nbytes(job)) {
        const size_t m = lmc_min_size(dst_nbytes - at, lmc_delta_strip_nbytes(job));
        const uint8_t *const values = lmc_base_take(job, block->base, at, m);
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

/* Is the base right? For blocks that read no more of it than its hash. */
static int is_right_base(const lmc_delta_job *job, const lmc_delta_stored *block, size_t dst_nbytes)
{
    const size_t base_nbytes = dst_nbytes * lmc_base_scale(job->base_form);
    return job->kernels->hash(block->base, base_nbytes, 0) == block->base_hash;
}

/* Decodes a block that is stored. */
static lmc_status decode_stored(const lmc_delta_job *job, const lmc_delta_stored *block, uint8_t *dst,
                                size_t dst_nbytes, uint64_t *content_hash)
{
    if (!is_right_base(job, block, dst_nbytes))
        return LMC_ERR_BASE;
    memcpy(dst, block->stored + 1, dst_nbytes);
    *content_hash = job->kernels->hash(dst, dst_nbytes, 0);
    return LMC_OK;
}

/* A stored block behind its mode, with slack. */
static void open_body(lmc_source *source, const uint8_t *stored, size_t stored_nbytes)
{
    lmc_source_open_padded(source, stored, stored_nbytes);
    (void)lmc_read_n(&source->reader, 1);
}

/* Decodes a block of differences. */
static lmc_status decode_compared(const lmc_delta_job *job, const lmc_delta_stored *block, uint8_t *dst,
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
    memcpy(stored, block->stored, block->stored_nbytes);
    memset(stored + block->stored_nbytes, 0, LMC_SYMBOLS_SLACK);
    kernels->hash_begin(hash_state);
    int is_sparse = block->stored_nbytes <= lmc_sparse_count_max(job, n) && job->delta->low_nbytes == 0;
    if (is_sparse) {
        open_body(&source, stored, block->stored_nbytes);
        LMC_TRY(lmc_sparse_decode(job, &source, values, &lists, n, dst, &is_sparse, diag));
    }
    if (!is_sparse) {
        open_body(&source, stored, block->stored_nbytes);
        LMC_TRY(decode_values(job, &source, values, &lists, n, dst, diag));
    }
    if (lmc_reader_left(&source.reader) != trailing_nbytes)
        return lmc_corrupt(diag, 0, "block: bytes after its end");
    memcpy(dst + n * job->element_nbytes, source.reader.next, trailing_nbytes);
    kernels->hash_update(hash_state, source.reader.next, trailing_nbytes);
    *content_hash = kernels->hash_end(hash_state);
    return LMC_OK;
}

/* Checks the mode, and the stored length where the mode fixes it. */
static lmc_status check_mode(const lmc_delta_stored *block, size_t dst_nbytes, lmc_diag *diag)
{
    const unsigned mode = block->stored[0];
    const size_t wanted_nbytes = 1 + (mode == LMC_FMT_BLOCK_STORED ? dst_nbytes : 0);
    if (mode != LMC_FMT_BLOCK_SAME && mode != LMC_FMT_BLOCK_STORED && mode != LMC_FMT_BLOCK_DELTA)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 0, "block: mode %u in a delta frame", mode);
    if (mode != LMC_FMT_BLOCK_DELTA && block->stored_nbytes != wanted_nbytes)
        return lmc_corrupt(diag, 0, "block: it is not as long as its mode says");
    return LMC_OK;
}

lmc_status lmc_delta_decode(const lmc_delta_job *job, const lmc_delta_stored *block, uint8_t *dst,
                            size_t dst_nbytes, uint64_t *content_hash, lmc_diag *diag)
{
    const lmc_status status = check_mode(block, dst_nbytes, diag);
    if (status != LMC_OK) /* a wrong base is reported before any fault of the block */
        return is_right_base(job, block, dst_nbytes) ? status : LMC_ERR_BASE;
    job->kernels->hash_begin(job->scratch->hash_state);
    switch (block->stored[0]) {
    case LMC_FMT_BLOCK_SAME: return decode_same(job, block, dst, dst_nbytes, content_hash);
    case LMC_FMT_BLOCK_STORED: return decode_stored(job, block, dst, dst_nbytes, content_hash);
    default: return decode_compared(job, block, dst, dst_nbytes, content_hash, diag);
    }
}
