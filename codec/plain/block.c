/* block.c - chooses the form of a block, stored, planes or masked, and codes its planes in order. */
#include "codec/plain/block.h"

#include "codec/bitset/bitset.h"
#include "codec/plain/planes.h"

/* The share of so many bytes that belongs to half of a strip's work, in a block of n elements. */
static size_t share_of_half(size_t nbytes, size_t n)
{
    const size_t halves = 2 * (size_t)lmc_div_ceil(n, LMC_STRIP_VALUES);
    return halves > 0 ? nbytes / halves : 0;
}

/* ---- encode ---- */

/* Values that tell whether a block ends in zeros. */
#define PROBED_VALUES 64

static int is_flexible(const lmc_coding *coding, const uint8_t *src, size_t n)
{
    int flexible = 0;
    for (unsigned i = 0; i < coding->plane_count; i++)
        flexible |= coding->flexible[i];
    const lmc_table *const symbols = coding->table[LMC_PLANE_SYMBOLS];
    if (symbols && !symbols->has_literals) /* a block may have symbols that it cannot code */
        return 1;
    if (flexible && coding->is_low_mixed) { /* does the lowest byte of most values not say anything? */
        size_t zeros = 0;
        for (size_t i = 0; i < PROBED_VALUES; i++)
            zeros += src[n * i / PROBED_VALUES * coding->element_nbytes] == 0;
        flexible = zeros > PROBED_VALUES / 2;
    }
    return flexible || (!symbols && !coding->rans);
}

/* A block with fewer than one masked element in this many gets no mask. */
#define MASKED_SHARE_MIN 512

/* A block of equal elements, as fill values make it. The frame's code does not suit it. If the value is the mask value,
 * all elements but the first are masked, since one must be kept. Otherwise every plane is constant. */
static int encode_constant(const lmc_planes_job *job, const uint8_t *src, size_t n, lmc_writer *writer)
{
    const lmc_coding *const coding = job->coding;
    uint64_t *const mask = job->scratch->mask;
    if (lmc_writer_left(writer) < LMC_FMT_PLANE_COUNT_MAX)
        return 0;
    if (!coding->has_mask || lmc_load_n(src, coding->element_nbytes) != coding->mask_value) {
        lmc_write_n(writer, LMC_FMT_BLOCK_PLANES, 1);
        if (coding->offsets.column_count > 0)
            lmc_write_n(writer, LMC_FMT_ROWS_NONE, 1);
        return lmc_planes_encode_flexible(job, src, n, writer);
    }
    memset(mask, 0, lmc_bitset_words(n) * 8);
    mask[0] = 1;
    lmc_write_n(writer, LMC_FMT_BLOCK_MASKED, 1);
    const size_t nbytes =
        lmc_bitset_encode(job->kernels, job->scratch, mask, n, writer->next, lmc_writer_left(writer));
    writer->next += nbytes;
    return nbytes != 0 && lmc_writer_left(writer) >= LMC_FMT_PLANE_COUNT_MAX &&
           lmc_planes_encode_flexible(job, src, 1, writer);
}

/* Appends n elements, of which the first is element `first` of the frame. Returns 0 if they do not fit. */
static int encode_values(const lmc_planes_job *job, uint64_t first, const uint8_t *src, size_t n,
                         lmc_writer *writer)
{
    const lmc_coding *const coding = job->coding;
    if (coding->has_mask) {
        const size_t kept = job->kernels->mask_split[lmc_element_log2(coding->element_nbytes)](
            coding->mask_value, src, n, job->scratch->mask, job->scratch->values);
        if (kept > 0 && n - kept > n / MASKED_SHARE_MIN) {
            lmc_write_n(writer, LMC_FMT_BLOCK_MASKED, 1);
            const size_t nbytes = lmc_bitset_encode(job->kernels, job->scratch, job->scratch->mask, n,
                                                    writer->next, lmc_writer_left(writer));
            writer->next += nbytes;
            return nbytes != 0 && lmc_planes_encode(job, job->scratch->values, kept, writer);
        }
    }
    lmc_write_n(writer, LMC_FMT_BLOCK_PLANES, 1);
    if (coding->offsets.column_count == 0)
        return lmc_planes_encode(job, src, n, writer);
    lmc_planes_job with_rows = *job;
    const lmc_row_coder rows = {job->kernels, &coding->offsets, coding->element_nbytes,
                                coding->split.rotation};
    return lmc_rows_write(&rows, first, src, n, job->scratch, writer, &with_rows.offsets) &&
           lmc_planes_encode(&with_rows, src, n, writer);
}

size_t lmc_block_store(const lmc_kernels *kernels, const uint8_t *src, size_t src_nbytes, uint8_t *dst,
                       uint64_t *content_hash)
{
    *content_hash = kernels->hash(src, src_nbytes, 0);
    dst[0] = LMC_FMT_BLOCK_STORED;
    memcpy(dst + 1, src, src_nbytes);
    return 1 + src_nbytes;
}

size_t lmc_block_encode(const lmc_block_coder *coder, const lmc_content_block *block, uint8_t *dst,
                        uint64_t *content_hash)
{
    const lmc_kernels *const kernels = coder->kernels;
    const lmc_coding *const coding = coder->coding;
    lmc_scratch *const scratch = coder->scratch;
    const unsigned element_nbytes = coding->element_nbytes;
    const uint8_t *const src = block->src;
    const size_t n = block->nbytes / element_nbytes;
    const size_t trailing_nbytes = block->nbytes % element_nbytes;
    if (n == 0)
        return lmc_block_store(kernels, src, block->nbytes, dst, content_hash);
    const int flexible = is_flexible(coding, src, n);
    const int constant = n > 1 && memcmp(src, src + element_nbytes, (n - 1) * element_nbytes) == 0;
    const lmc_planes_job job = {.kernels = kernels,
                                .coding = coding,
                                .scratch = scratch,
                                .ahead = src + block->nbytes,
                                .ahead_nbytes =
                                    coding->offsets.has_rows ? share_of_half(block->ahead_nbytes, n) : 0,
                                .is_flexible = flexible,
                                .hashes_strips = !constant && !coding->has_mask && !flexible};
    kernels->hash_begin(scratch->hash_state);
    lmc_writer writer = {dst, dst + block->nbytes}; /* a stored block takes one byte more */
    const int fits = constant ? encode_constant(&job, src, n, &writer)
                              : encode_values(&job, block->first, src, n, &writer);
    if (!fits || lmc_writer_left(&writer) < trailing_nbytes)
        return lmc_block_store(kernels, src, block->nbytes, dst, content_hash);
    const uint8_t *const trailing = src + n * element_nbytes;
    lmc_write_span(&writer, trailing, trailing_nbytes);
    if (job.hashes_strips) {
        kernels->hash_update(scratch->hash_state, trailing, trailing_nbytes);
        *content_hash = kernels->hash_end(scratch->hash_state);
    } else {
        *content_hash = kernels->hash(src, block->nbytes, 0);
    }
    return (size_t)(writer.next - dst);
}

/* ---- decode ---- */

static lmc_status decode_masked(const lmc_planes_job *job, lmc_source *source, size_t n, uint8_t *dst,
                                lmc_diag *diag)
{
    if (!job->coding->has_mask)
        return lmc_corrupt(diag, 0, "block: it is masked, but the plan has no mask value");
    LMC_TRY(lmc_bitset_decode(job->kernels, job->scratch, &source->reader, n, job->scratch->mask, diag));
    const size_t kept = lmc_bitset_count(job->kernels, job->scratch->mask, n);
    if (kept == 0)
        return lmc_corrupt(diag, 0, "block: its mask leaves nothing");
    lmc_planes_job kept_job = *job; /* kept elements are no content yet */
    kept_job.hashes_strips = 0;
    kept_job.past_cache = 0;
    LMC_TRY(lmc_planes_decode(&kept_job, source, kept, job->scratch->values, diag));
    const unsigned element_nbytes = job->coding->element_nbytes;
    /* kept elements go to the places of the mask, its value elsewhere */
    const uint8_t *next = job->scratch->values;
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
        const size_t m = lmc_min_size(n - i, LMC_STRIP_VALUES);
        uint8_t *const place = dst + i * element_nbytes;
        uint8_t *const values = lmc_strip_at(job, place);
        next += element_nbytes * job->kernels->mask_join[lmc_element_log2(element_nbytes)](
                                     job->coding->mask_value, job->scratch->mask + i / 64, next, m, values);
        if (values != place)
            job->kernels->copy_past_cache(place, values, m * element_nbytes);
        lmc_strip_hash(job, values, m * element_nbytes);
    }
    return LMC_OK;
}

lmc_status lmc_block_decode(const lmc_block_coder *coder, const lmc_stored *block, uint8_t *dst,
                            size_t dst_nbytes, uint64_t *content_hash, lmc_diag *diag)
{
    const lmc_kernels *const kernels = coder->kernels;
    const lmc_offsets *const offsets = &coder->coding->offsets;
    void *const hash_state = coder->scratch->hash_state;
    const size_t n = dst_nbytes / coder->coding->element_nbytes;
    const size_t trailing_nbytes = dst_nbytes % coder->coding->element_nbytes;
    lmc_source source;
    lmc_source_open(&source, coder->scratch, block->bytes, block->nbytes);
    const unsigned mode = (unsigned)lmc_read_n(&source.reader, 1);
    if (source.reader.failed)
        return lmc_corrupt(diag, 0, "block: it is empty");
    if (mode == LMC_FMT_BLOCK_STORED) {
        if (lmc_reader_left(&source.reader) != dst_nbytes)
            return lmc_corrupt(diag, 0, "block: it is stored, but not as long as its content");
        memcpy(dst, source.reader.next, dst_nbytes);
        *content_hash = kernels->hash(dst, dst_nbytes, 0);
        return LMC_OK;
    }
    if (mode > LMC_FMT_BLOCK_MASKED)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 0, "block: mode %u", mode);
    if (n == 0)
        return lmc_corrupt(diag, 0, "block: it has no elements, but is not stored");
    lmc_planes_job job = {.kernels = kernels,
                          .coding = coder->coding,
                          .scratch = coder->scratch,
                          .ahead = block->bytes + block->nbytes,
                          .ahead_nbytes = share_of_half(block->ahead_nbytes, n),
                          .hashes_strips = 1,
                          .past_cache = block->past_cache};
    kernels->hash_begin(hash_state);
    if (mode == LMC_FMT_BLOCK_MASKED) {
        LMC_TRY(decode_masked(&job, &source, n, dst, diag));
    } else {
        if (offsets->column_count > 0)
            LMC_TRY(
                lmc_rows_read(offsets, block->first, n, coder->scratch, &source.reader, &job.offsets, diag));
        LMC_TRY(lmc_planes_decode(&job, &source, n, dst, diag));
    }
    if (lmc_reader_left(&source.reader) != trailing_nbytes)
        return lmc_corrupt(diag, 0, "block: bytes after its end");
    uint8_t *const trailing = dst + dst_nbytes - trailing_nbytes;
    memcpy(trailing, source.reader.next, trailing_nbytes);
    kernels->hash_update(hash_state, trailing, trailing_nbytes);
    *content_hash = kernels->hash_end(hash_state);
    return LMC_OK;
}
