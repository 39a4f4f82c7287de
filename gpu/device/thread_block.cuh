/*
 * thread_block.cuh - what a thread block shares while it decodes a block, and its scan.
 */
#ifndef LMC_GPU_DEVICE_THREAD_BLOCK_CUH
#define LMC_GPU_DEVICE_THREAD_BLOCK_CUH

/* Threads of a thread block: a multiple of 32, at most 1024. */
#ifndef LMC_CUDA_THREADS
#define LMC_CUDA_THREADS 512
#endif
#define WARP_COUNT (LMC_CUDA_THREADS / 32)

/* An outcome of a step: nothing has gone wrong so far. */
#define GOES_ON 0u

/* The stored bytes of a block that were not read yet. */
typedef struct block_reader {
    const uint8_t *next;
    uint32_t left;
} block_reader;

/* A plane of bytes or of packed values; without bytes, all values are equal. */
typedef struct plane_view {
    const uint8_t *bytes;
    uint32_t value;
} plane_view;

/* Where one layer of a coded plane has its bits. */
typedef struct layer_place {
    const uint8_t *plane[LMC_FMT_LAYER_NBITS_MAX];
    uint32_t nbits[LMC_FMT_LAYER_NBITS_MAX];
    uint32_t n;          /* symbols of the layer */
    uint32_t next_count; /* symbols of the next layer, or literals */
} layer_place;

/* Shared memory. */
typedef struct shared_state {
    uint64_t secret[24]; /* of the hash */
    uint64_t accumulator[8];
    lmc_cuda_plan plan;
    lmc_cuda_layer layer; /* the one that is decoded */
    layer_place layers[LMC_FMT_LAYER_COUNT_MAX];
    plane_view planes[LMC_FMT_PLANE_COUNT_MAX];
    block_reader reader;     /* as thread 0 has left it */
    const uint8_t *literals; /* of a coded plane; of gaps, the quotients behind the unary planes */
    const uint8_t *unary[LMC_FMT_GAP_UNARY_COUNT_MAX];
    uint32_t unary_ranks_at[LMC_FMT_GAP_UNARY_COUNT_MAX];
    uint32_t scan[2][32];
    uint32_t select[16]; /* see make_tables() */
    uint8_t deposit[256];
    uint32_t outcome;
} shared_state;

/* What each thread knows. */
typedef struct thread_state {
    shared_state *shared;
    const lmc_cuda_job *job;
    uint8_t *scratch; /* of the thread block */
    uint32_t scan_turn;
} thread_state;

/* The sum of the values of the threads before this one, and that of all. All threads take part. */
LMC_DEVICE uint32_t cta_scan(thread_state *thread, uint32_t value, uint32_t *total)
{
    const uint32_t lane = cta_thread() & 31, warp = cta_thread() >> 5;
    uint32_t *const sums = thread->shared->scan[thread->scan_turn++ & 1];
    uint32_t with_own = value;
    LMC_UNROLL
    for (uint32_t distance = 1; distance < 32; distance *= 2) {
        const uint32_t before = warp_up(with_own, distance);
        with_own += lane >= distance ? before : 0;
    }
    if (lane == 31)
        sums[warp] = with_own;
    cta_barrier();
    uint32_t warps = lane < WARP_COUNT ? sums[lane] : 0;
    LMC_UNROLL
    for (uint32_t distance = 1; distance < WARP_COUNT; distance *= 2) {
        const uint32_t before = warp_up(warps, distance);
        warps += lane >= distance ? before : 0;
    }
    *total = warp_at(warps, WARP_COUNT - 1);
    const uint32_t before = warp_at(warps, (warp - 1) & 31);
    return (warp > 0 ? before : 0) + with_own - value;
}

/* The outcome that thread 0, or any thread, has left in shared memory. All threads take part. */
LMC_DEVICE uint32_t shared_outcome(thread_state *thread)
{
    cta_barrier();
    return thread->shared->outcome;
}

/* ---- bytes and bits of a frame: by aligned words, up to LMC_CUDA_READ_AHEAD bytes too many ---- */

/* 32 bits from bit `bit` of the plane on. */
LMC_DEVICE uint32_t load_bits(const uint8_t *plane, uint32_t bit)
{
    const device_address address = (device_address)plane;
    const uint32_t at = (uint32_t)(address & 3) * 8 + bit;
    const device_address word = (address & ~(device_address)3) + at / 32 * 4;
    return funnel_right(load_aligned(word), load_aligned(word + 4), at & 31);
}

/* An integer of up to 4 bytes; 0 if fewer are left, and then nothing is. */
LMC_DEVICE uint32_t read_number(block_reader *reader, uint32_t nbytes, uint32_t *is_cut_short)
{
    uint32_t value = 0;
    if (reader->left < nbytes) {
        *is_cut_short = 1;
        reader->left = 0;
        return 0;
    }
    for (uint32_t i = 0; i < nbytes; i++)
        value |= (uint32_t)reader->next[i] << 8 * i;
    reader->next += nbytes;
    reader->left -= nbytes;
    return value;
}

/* The next nbytes, or NULL if fewer are left. */
LMC_DEVICE const uint8_t *read_span(block_reader *reader, uint32_t nbytes)
{
    const uint8_t *const span = reader->next;
    if (reader->left < nbytes)
        return 0;
    reader->next += nbytes;
    reader->left -= nbytes;
    return span;
}

/* The next plane of n bits, or NULL if it is cut short or has spare bits set. */
LMC_DEVICE const uint8_t *read_plane(block_reader *reader, uint32_t n)
{
    const uint8_t *const plane = read_span(reader, (n + 7) / 8);
    return plane && n % 8 != 0 && plane[n / 8] >> n % 8 != 0 ? 0 : plane;
}

/* Bytes of a count of n values (docs/format.md, section 6.3). */
LMC_DEVICE uint32_t count_nbytes(uint32_t n)
{
    return n < 256 ? 1 : n < 65536 ? 2 : 3;
}

/* The bits of word `word` that stand for one of n values. */
LMC_DEVICE uint32_t valid_bits(uint32_t n, uint32_t word)
{
    const uint32_t first = word * 32;
    return first >= n ? 0 : n - first >= 32 ? ~0u : (1u << (n - first)) - 1;
}

#endif
