/*
 * blocks.cuh - blocks of coded and stored frames (docs/format.md, sections 2.2 and 5): decoded, verified, and their
 * outcome noted.
 */
#ifndef LMC_GPU_DEVICE_BLOCKS_CUH
#define LMC_GPU_DEVICE_BLOCKS_CUH

#include "gpu/device/elements.cuh"
#include "gpu/device/hash.cuh"

/* Copies nbytes from any address to a multiple of 16. */
LMC_DEVICE void copy_stored(const uint8_t *src, uint32_t nbytes, uint8_t *dst)
{
    for (uint32_t i = cta_thread() * 16; i < nbytes; i += LMC_CUDA_THREADS * 16) {
        if (nbytes - i >= 16) {
            words4 words;
            LMC_UNROLL
            for (uint32_t k = 0; k < 4; k++)
                words.word[k] = load_bits(src + i + 4 * k, 0);
            store_words4(dst + i, &words);
        } else
            for (uint32_t k = i; k < nbytes; k++)
                dst[k] = src[k];
    }
}

/* Reads the offsets of the rows that n elements belong to. */
LMC_DEVICE uint32_t read_rows(const lmc_cuda_plan *plan, const lmc_cuda_block *block, uint32_t n,
                              block_reader *reader, row_offsets *rows)
{
    uint32_t is_cut_short = 0;
    const uint32_t nbits = read_number(reader, 1, &is_cut_short);
    if (is_cut_short)
        return LMC_CUDA_CORRUPT;
    if (nbits == LMC_FMT_ROWS_NONE)
        return GOES_ON;
    const uint32_t left = plan->column_count - block->first_column;
    const uint32_t row_count = n <= left ? 1 : 2 + (n - left - 1) / plan->column_count;
    rows->is_present = 1;
    rows->nbits = nbits;
    rows->row_base = read_number(reader, 2, &is_cut_short);
    if (is_cut_short || nbits > LMC_FMT_OFFSET_NBITS_MAX)
        return LMC_CUDA_CORRUPT;
    if (nbits == 0)
        return GOES_ON;
    rows->differences = read_plane(reader, row_count * nbits);
    return rows->differences ? GOES_ON : LMC_CUDA_CORRUPT;
}

LMC_DEVICE uint32_t join_all(thread_state *thread, element_job *job)
{
    switch (thread->shared->plan.element_nbytes) {
    case 1: return join_elements_1(thread, job);
    case 2: return join_elements_2(thread, job);
    case 4: return join_elements_4(thread, job);
    default: return join_elements_8(thread, job);
    }
}

/* Decodes a block of mode PLANES or MASKED behind its mode. All threads take part, and meet at the end. */
LMC_DEVICE uint32_t decode_elements(thread_state *thread, const lmc_cuda_block *block, uint32_t mode,
                                    uint32_t n, block_reader *reader)
{
    shared_state *const shared = thread->shared;
    const lmc_cuda_plan *const plan = &shared->plan;
    element_job job = {block, 0, {0, 0, 0, 0}, {0, 0}, n};
    uint32_t kept = n, outcome = GOES_ON;
    if (mode == LMC_FMT_BLOCK_MASKED) {
        uint32_t *const mask = (uint32_t *)(thread->scratch + thread->job->layout.mask_at);
        if (!plan->has_mask)
            return LMC_CUDA_CORRUPT;
        outcome = decode_bitset(thread, reader, n, mask);
        if (outcome != GOES_ON)
            return outcome;
        kept = count_flags(thread, mask, n);
        if (kept == 0)
            return LMC_CUDA_CORRUPT;
        job.mask = mask;
    } else if (plan->column_count != 0) {
        outcome = read_rows(plan, block, n, reader, &job.rows);
    }
    if (outcome == GOES_ON)
        outcome = decode_planes(thread, kept, reader);
    if (outcome != GOES_ON)
        return outcome;
    if (cta_thread() == 0)
        shared->outcome = GOES_ON;
    cta_barrier();
    job.escapes = *reader;
    outcome = join_all(thread, &job);
    *reader = job.escapes;
    return outcome;
}

/* Decodes the stored bytes of a block of a coded frame. All threads take part, and meet at the end. */
LMC_DEVICE uint32_t decode_coded_block(thread_state *thread, const lmc_cuda_block *block)
{
    const uint32_t element_nbytes = thread->shared->plan.element_nbytes;
    const uint32_t n = block->content_nbytes / element_nbytes;
    const uint32_t trailing_nbytes = block->content_nbytes - n * element_nbytes;
    uint8_t *const dst = (uint8_t *)block->dst;
    uint32_t is_cut_short = 0;
    block_reader reader = {(const uint8_t *)block->src, block->stored_nbytes};
    const uint32_t mode = read_number(&reader, 1, &is_cut_short);
    if (mode == LMC_FMT_BLOCK_STORED) {
        if (reader.left != block->content_nbytes)
            return LMC_CUDA_CORRUPT;
        copy_stored(reader.next, reader.left, dst);
        return GOES_ON;
    }
    if (mode > LMC_FMT_BLOCK_MASKED)
        return LMC_CUDA_UNSUPPORTED;
    if (n == 0)
        return LMC_CUDA_CORRUPT;
    const uint32_t outcome = decode_elements(thread, block, mode, n, &reader);
    if (outcome != GOES_ON)
        return outcome;
    if (reader.left != trailing_nbytes)
        return LMC_CUDA_CORRUPT;
    if (cta_thread() < trailing_nbytes)
        dst[n * element_nbytes + cta_thread()] = reader.next[cta_thread()];
    return GOES_ON;
}

/* Brings a block's plan to shared memory. All threads take part. */
LMC_DEVICE void load_plan(shared_state *shared, const lmc_cuda_job *job, const lmc_cuda_block *block)
{
    const uint32_t *const plan = (const uint32_t *)(job->data + block->plan_at);
    for (uint32_t i = cta_thread(); i < sizeof shared->plan / 4; i += LMC_CUDA_THREADS)
        ((uint32_t *)&shared->plan)[i] = plan[i];
    cta_barrier();
}

/* Decodes a block, verifies its hash and notes its outcome. All threads take part, and meet at the end. */
LMC_DEVICE void decode_block(thread_state *thread, uint32_t index)
{
    shared_state *const shared = thread->shared;
    const lmc_cuda_block block = thread->job->blocks[index];
    lmc_cuda_result *const result = &thread->job->results[index];
    load_plan(shared, thread->job, &block);
    const uint32_t is_coded = shared->plan.mode == LMC_FMT_MODE_CODED;
    uint32_t outcome = GOES_ON;
    if (is_coded)
        outcome = decode_coded_block(thread, &block);
    else
        copy_stored((const uint8_t *)block.src, block.content_nbytes, (uint8_t *)block.dst);
    cta_barrier();
    if (outcome == GOES_ON) {
        uint64_t *const sums = (uint64_t *)(thread->scratch + thread->job->layout.sums_at);
        const uint64_t hash = hash_content(shared, (const uint8_t *)block.dst, block.content_nbytes, sums);
        outcome = is_coded && hash != block.hash ? LMC_CUDA_CHECKSUM : LMC_CUDA_DONE;
        if (cta_thread() == 0)
            result->hash = hash;
    }
    if (cta_thread() == 0) /* the first warp knows whether the hash is right */
        result->outcome = outcome;
    cta_barrier();
}

/* Decodes blocks of any kind that other kernels have left, each thread block one after another. One thread block is
 * resident on a multiprocessor. */
LMC_KERNEL(1) void lmc_cuda_decode_any(LMC_KERNEL_PARAMETER lmc_cuda_job job)
{
    LMC_SHARED(shared_state, shared);
    thread_state thread = {shared, &job, job.scratch + cta_index() * job.layout.nbytes, 0};
    make_tables(shared);
    load_secret(shared);
    cta_barrier();
    for (uint32_t i = cta_index(); i < job.block_count; i += cta_count())
        if (job.results[i].outcome == LMC_CUDA_PENDING)
            decode_block(&thread, i);
}

#endif
