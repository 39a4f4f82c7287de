/*
 * elements.cuh - joins planes to elements (docs/format.md, section 4), with offsets of rows and columns, escapes and
 * masks, and writes them to the content.
 */
#ifndef LMC_GPU_DEVICE_ELEMENTS_CUH
#define LMC_GPU_DEVICE_ELEMENTS_CUH

#include "gpu/device/planes.cuh"

/* The offsets of a block's rows. */
typedef struct row_offsets {
    const uint8_t *differences; /* packed; NULL: none */
    uint32_t nbits;
    uint32_t row_base;
    uint32_t is_present;
} row_offsets;

/* What joining a block takes; the same in all threads. */
typedef struct element_job {
    const lmc_cuda_block *block;
    const uint32_t *mask; /* flags of the elements that are in the planes; NULL: all */
    row_offsets rows;
    block_reader escapes; /* and what follows them */
    uint32_t n;           /* elements of the block */
} element_job;

/* A value of a packed plane. It may lie in two bytes; one more is read if it does not. */
LMC_DEVICE uint32_t packed_value(const uint8_t *plane, uint32_t nbits, uint32_t i)
{
    const uint32_t bit = i * nbits;
    const uint8_t *const bytes = plane + bit / 8;
    return (bytes[0] | (uint32_t)bytes[1] << 8) >> bit % 8 & ((1u << nbits) - 1);
}

LMC_DEVICE uint32_t plane_byte(const shared_state *shared, uint32_t plane, uint32_t i)
{
    const plane_view view = shared->planes[plane];
    return view.bytes ? view.bytes[i] : view.value;
}

LMC_DEVICE uint32_t low_value(const shared_state *shared, uint32_t i)
{
    const uint32_t nbits = shared->plan.low_nbits;
    const plane_view view = shared->planes[1];
    if (nbits == 0 || !view.bytes)
        return nbits == 0 ? 0 : view.value;
    return nbits == 8 ? view.bytes[i] : packed_value(view.bytes, nbits, i);
}

/* Symbols of more than 8 bits have escapes. */
LMC_DEVICE uint32_t has_escapes(const lmc_cuda_plan *plan)
{
    return plan->element_nbytes > 1 && LMC_FMT_HIGH_NBITS - plan->low_nbits > 8;
}

/* What the offsets of row and column add to the high part of element i of the block. */
LMC_DEVICE uint32_t element_offset(const thread_state *thread, const element_job *job, uint32_t i)
{
    const lmc_cuda_plan *const plan = &thread->shared->plan;
    const uint32_t left = plan->column_count - job->block->first_column; /* elements of the first row */
    const uint32_t is_first = i < left;
    const uint32_t row = is_first ? 0 : 1 + (i - left) / plan->column_count;
    const uint32_t column = is_first ? job->block->first_column + i : (i - left) % plan->column_count;
    uint32_t value = job->rows.row_base;
    if (job->rows.differences)
        value += packed_value(job->rows.differences, job->rows.nbits, row);
    value <<= plan->step_log2;
    return plan->columns_at ? value + ((const uint16_t *)(thread->job->data + plan->columns_at))[column]
                            : value;
}

/* Element i of the block, whose values stand at place j of the planes. wide: the symbol, or the escape. */
LMC_DEVICE uint64_t join_element(const thread_state *thread, const element_job *job, uint32_t element_nbytes,
                                 uint32_t i, uint32_t j, uint32_t wide, uint32_t is_escape)
{
    const shared_state *const shared = thread->shared;
    const lmc_cuda_plan *const plan = &shared->plan;
    const uint32_t high_mask = element_nbytes == 1 ? 0xff : 0xffff;
    if (!is_escape)
        wide += plan->window_start;
    uint32_t high = (wide << plan->low_nbits | low_value(shared, j)) - plan->offset;
    if (job->rows.is_present)
        high -= element_offset(thread, job, i);
    uint64_t value = high & high_mask;
    const uint32_t first_lower = plan->low_nbits > 0 ? 2 : 1;
    for (uint32_t k = 0; k + 2 < element_nbytes; k++)
        value = value << 8 | plane_byte(shared, first_lower + k, j);
    if (!plan->rotation)
        return value;
    const uint64_t lowest = value & 1;
    return value >> 1 | lowest << (8 * element_nbytes - 1);
}

LMC_DEVICE void store_element(uint8_t *content, uint32_t element_nbytes, uint32_t i, uint64_t value)
{
    switch (element_nbytes) {
    case 1: content[i] = (uint8_t)value; break;
    case 2: ((uint16_t *)content)[i] = (uint16_t)value; break;
    case 4: ((uint32_t *)content)[i] = (uint32_t)value; break;
    default: ((uint64_t *)content)[i] = value; break;
    }
}

/* How many of the symbols first to first + count - 1 are escapes. */
LMC_DEVICE uint32_t count_escapes(const shared_state *shared, uint32_t first, uint32_t count)
{
    const plane_view view = shared->planes[0];
    uint32_t escapes = 0;
    if (!view.bytes)
        return view.value == LMC_FMT_SYMBOL_ESCAPE ? count : 0;
    for (uint32_t i = 0; i < count; i += 4) { /* bytes of which all bits are set */
        uint32_t all = load_bits(view.bytes + first, i * 8);
        all &= all >> 4 & 0x0f0f0f0f;
        all &= all >> 2;
        all &= all >> 1 & 0x01010101;
        escapes += bit_count(all & valid_bits((count - i) * 8, 0));
    }
    return escapes;
}

/* Joins the 32 elements of each thread's word where some are masked or escaped. Lanes work on one word after another,
 * so that they write to neighbouring places. flags, kept, escapes: of the thread's own word; kept and escapes count
 * what is before it. All lanes take part. */
LMC_DEVICE void join_ranked(thread_state *thread, const element_job *job, uint32_t element_nbytes,
                            uint32_t first_word, uint32_t flags, uint32_t kept, uint32_t escapes)
{
    const shared_state *const shared = thread->shared;
    const uint32_t lane = cta_thread() & 31;
    for (uint32_t k = 0; k < 32; k++) {
        const uint32_t i = (first_word + k) * 32 + lane;
        const uint32_t word_flags = warp_at(flags, k), is_kept = word_flags >> lane & 1;
        const uint32_t j = warp_at(kept, k) + bit_count(word_flags & ((1u << lane) - 1));
        uint32_t wide = is_kept ? plane_byte(shared, 0, j) : 0;
        const uint32_t is_escape = is_kept && has_escapes(&shared->plan) && wide == LMC_FMT_SYMBOL_ESCAPE;
        const uint32_t rank = warp_at(escapes, k) + bit_count(warp_ballot(is_escape) & ((1u << lane) - 1));
        if (is_escape) {
            wide = job->escapes.next[2 * rank] | (uint32_t)job->escapes.next[2 * rank + 1] << 8;
            if (wide >> (LMC_FMT_HIGH_NBITS - shared->plan.low_nbits) != 0)
                thread->shared->outcome = LMC_CUDA_CORRUPT;
        }
        if (i < job->n)
            store_element((uint8_t *)job->block->dst, element_nbytes, i,
                          is_kept ? join_element(thread, job, element_nbytes, i, j, wide, is_escape)
                                  : shared->plan.mask_value);
    }
}

/* Joins all elements. Returns an outcome, and in job->escapes what follows the escapes. shared->outcome is GOES_ON
 * before. All threads take part, and meet at the end. */
LMC_DEVICE uint32_t join_elements(thread_state *thread, element_job *job, uint32_t element_nbytes)
{
    const shared_state *const shared = thread->shared;
    uint32_t kept = 0, escaped = 0;
    for (uint32_t first = 0; first * 32 < job->n; first += LMC_CUDA_THREADS) {
        const uint32_t word = first + cta_thread(), valid = valid_bits(job->n, word);
        const uint32_t flags = job->mask && valid != 0 ? job->mask[word] : valid;
        uint32_t kept_before = word * 32, kept_total = 0, before = 0, total = 0;
        if (job->mask)
            kept_before = kept + cta_scan(thread, bit_count(flags), &kept_total);
        if (has_escapes(&shared->plan))
            before = cta_scan(thread, count_escapes(shared, kept_before, bit_count(flags)), &total);
        if (total > job->escapes.left / 2 - escaped)
            return LMC_CUDA_CORRUPT;
        if (job->mask || total != 0)
            join_ranked(thread, job, element_nbytes, word & ~31u, flags, kept_before, escaped + before);
        else
            for (uint32_t i = first * 32 + cta_thread(); i < job->n && i < (first + LMC_CUDA_THREADS) * 32;
                 i += LMC_CUDA_THREADS)
                store_element((uint8_t *)job->block->dst, element_nbytes, i,
                              join_element(thread, job, element_nbytes, i, i, plane_byte(shared, 0, i), 0));
        kept += kept_total;
        escaped += total;
    }
    read_span(&job->escapes, 2 * escaped);
    return shared_outcome(thread);
}

LMC_DEVICE_CALL uint32_t join_elements_1(thread_state *thread, element_job *job)
{
    return join_elements(thread, job, 1);
}

LMC_DEVICE_CALL uint32_t join_elements_2(thread_state *thread, element_job *job)
{
    return join_elements(thread, job, 2);
}

LMC_DEVICE_CALL uint32_t join_elements_4(thread_state *thread, element_job *job)
{
    return join_elements(thread, job, 4);
}

LMC_DEVICE_CALL uint32_t join_elements_8(thread_state *thread, element_job *job)
{
    return join_elements(thread, job, 8);
}

#endif
