/*
 * planes.cuh - the planes of a block (docs/format.md, section 5.1): where the bytes of each plane lie, in the frame or
 * decoded in scratch.
 */
#ifndef LMC_GPU_DEVICE_PLANES_CUH
#define LMC_GPU_DEVICE_PLANES_CUH

#include "gpu/device/bitsets.cuh"
#include "gpu/device/layers.cuh"

/* A stored plane of n values of nbits each. NULL if it is cut short or has spare bits set. */
LMC_DEVICE const uint8_t *read_stored(block_reader *reader, uint32_t n, uint32_t nbits)
{
    return nbits == 8 ? read_span(reader, n) : read_plane(reader, n * nbits);
}

/* Writes n bytes: the dominant value, or where a flag is set the next exception. All threads take part, and meet at the
 * end. */
LMC_DEVICE void spread_exceptions(thread_state *thread, const uint32_t *flags, const uint8_t *exceptions,
                                  uint32_t dominant, uint32_t n, uint8_t *dst)
{
    uint32_t used = 0;
    for (uint32_t first = 0; first * 32 < n; first += LMC_CUDA_THREADS) {
        const uint32_t word = first + cta_thread();
        const uint32_t mask = word * 32 < n ? flags[word] : 0;
        uint32_t total;
        const uint8_t *next = exceptions + used + cta_scan(thread, bit_count(mask), &total);
        for (uint32_t half = 0; half < 2 && word * 32 < n; half++) {
            words4 values;
            for (uint32_t i = 0; i < 4; i++) {
                const uint32_t mask4 = mask >> (16 * half + 4 * i) & 15;
                values.word[i] = dominant * 0x01010101u;
                if (mask4 != 0)
                    values.word[i] =
                        byte_permute(load_bits(next, 0), values.word[i], thread->shared->select[mask4]);
                next += bit_count(mask4);
            }
            store_words4(dst + word * 32 + 16 * half, &values);
        }
        used += total;
    }
    cta_barrier();
}

/* A plane of mode EXCEPTIONS. All threads take part. */
LMC_DEVICE_CALL uint32_t decode_exceptions(thread_state *thread, uint32_t plane, uint32_t n,
                                           block_reader *reader, uint8_t *dst)
{
    const lmc_cuda_scratch *const layout = &thread->job->layout;
    uint32_t *const flags = (uint32_t *)(thread->scratch + layout->bitset_at);
    uint8_t *const decoded = thread->scratch + layout->exceptions_at;
    uint32_t is_cut_short = 0;
    const uint32_t dominant = read_number(reader, 1, &is_cut_short);
    const uint32_t outcome = decode_bitset(thread, reader, n, flags);
    if (outcome != GOES_ON)
        return outcome;
    const uint32_t mode = read_number(reader, 1, &is_cut_short);
    const uint32_t m = count_flags(thread, flags, n);
    if (is_cut_short || m == 0)
        return LMC_CUDA_CORRUPT;
    const uint8_t *exceptions = 0;
    if (mode == LMC_FMT_PLANE_STORED)
        exceptions = read_stored(reader, m, 8);
    else if (mode == LMC_FMT_PLANE_CODED && decode_coded(thread, plane, m, reader, decoded) == GOES_ON)
        exceptions = decoded;
    if (!exceptions)
        return LMC_CUDA_CORRUPT;
    spread_exceptions(thread, flags, exceptions, dominant, n, dst);
    return GOES_ON;
}

/* Bits of a value in a plane. */
LMC_DEVICE uint32_t plane_nbits(const lmc_cuda_plan *plan, uint32_t plane)
{
    return plane == 1 && plan->low_nbits > 0 ? plan->low_nbits : 8;
}

/* Reads a plane of n >= 1 values and notes where its bytes lie. All threads take part. */
LMC_DEVICE uint32_t decode_plane(thread_state *thread, uint32_t plane, uint32_t mode, uint32_t n,
                                 block_reader *reader)
{
    shared_state *const shared = thread->shared;
    uint8_t *const decoded = thread->scratch + plane * thread->job->layout.plane_nbytes;
    const uint32_t nbits = plane_nbits(&shared->plan, plane);
    uint32_t outcome = GOES_ON, is_cut_short = 0;
    plane_view view = {0, 0};
    switch (mode) {
    case LMC_FMT_PLANE_STORED:
        view.bytes = read_stored(reader, n, nbits);
        outcome = view.bytes ? GOES_ON : LMC_CUDA_CORRUPT;
        break;
    case LMC_FMT_PLANE_CONSTANT:
        view.value = read_number(reader, 1, &is_cut_short);
        outcome = is_cut_short || view.value >> nbits != 0 ? LMC_CUDA_CORRUPT : GOES_ON;
        break;
    case LMC_FMT_PLANE_CODED:
    case LMC_FMT_PLANE_EXCEPTIONS:
        view.bytes = decoded;
        if (nbits < 8)
            outcome = LMC_CUDA_CORRUPT;
        else if (mode == LMC_FMT_PLANE_CODED)
            outcome = decode_coded(thread, plane, n, reader, decoded);
        else
            outcome = decode_exceptions(thread, plane, n, reader, decoded);
        break;
    default: outcome = LMC_CUDA_UNSUPPORTED;
    }
    if (cta_thread() == 0)
        shared->planes[plane] = view;
    return outcome;
}

/* Reads the planes of n >= 1 elements, the last one first. All threads take part, and meet at the end. */
LMC_DEVICE uint32_t decode_planes(thread_state *thread, uint32_t n, block_reader *reader)
{
    const uint32_t plane_count = thread->shared->plan.plane_count;
    const uint8_t *const modes = read_span(reader, plane_count);
    if (!modes)
        return LMC_CUDA_CORRUPT;
    for (uint32_t plane = plane_count; plane-- > 0;) {
        const uint32_t outcome = decode_plane(thread, plane, modes[plane], n, reader);
        if (outcome != GOES_ON)
            return outcome;
    }
    cta_barrier();
    return GOES_ON;
}

#endif
