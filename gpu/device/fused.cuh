/*
 * fused.cuh - the fast way of whole blocks of bf16 weights: the first layer's symbols are joined with the low bits
 * while they are in registers, and stripes of the content are summed up on its way out. Codes' lengths and the low bits
 * are constants of each kernel.
 *
 * Only literals can be escapes in such a block: no code stands for one (gpu/host/plan_descriptor.c).
 *
 * A block that is not of this kind, or in which anything is wrong, is left as it is: kernels of any blocks come after
 * these. So these kernels only ever say that a block is done.
 */
#ifndef LMC_GPU_DEVICE_FUSED_CUH
#define LMC_GPU_DEVICE_FUSED_CUH

#include "gpu/device/blocks.cuh"

/* Blocks of more content are not of this kind: the sums of a block are in shared memory. */
#define FUSED_KIB_MAX 128u

/* A warp's strip: each lane has 32 elements, a stripe of the hash. */
#define WARP_STRIP_NBYTES (32u * STRIPE_NBYTES)

/* The constants of a kernel. */
typedef struct fused_kind {
    uint32_t low_nbits;
    layer_lengths lengths;
} fused_kind;

/* Where the parts of a block lie. */
typedef struct fused_block {
    const uint8_t *low;          /* the low plane */
    const uint8_t *next_symbols; /* of the first layer */
    uint8_t *content;
    uint32_t key; /* in both halves: what is added to symbol and low bits to give the high part */
    const uint8_t *escapes;
    uint32_t escape_count;
} fused_block;

typedef struct fused_shared {
    shared_state state;
    fused_block block;
    uint64_t sums[8 * FUSED_KIB_MAX];
    words4 staged[WARP_COUNT][WARP_STRIP_NBYTES / 16];
} fused_shared;

/* The place of chunk `chunk` of lane `lane` in a warp's staged strip: no two lanes of a group of 8 meet in a bank,
 * neither when each lane writes its chunks nor when neighbouring lanes read neighbouring chunks. */
LMC_DEVICE uint32_t staged_place(uint32_t lane, uint32_t chunk)
{
    return 4 * lane + (chunk ^ (lane >> 1 & 3));
}

/* Two symbols in the lowest bytes of halves, and their low bits one behind the other from bit 0 on: two elements. */
LMC_DEVICE uint32_t join_two(uint32_t symbols, uint32_t low, uint32_t low_nbits, uint32_t key)
{
    const uint32_t mask = (1u << low_nbits) - 1;
    const uint32_t spread = (low & mask) | (low << (16 - low_nbits) & mask << 16);
    const uint32_t values = add_halves((symbols << low_nbits) + spread, key);
    return (values >> 1 & 0x7fff7fff) | (values << 15 & 0x80008000); /* rotated right */
}

#define NO_ESCAPE ~0u

/* Escapes among the symbols of the next layer that a thread takes. Codes of the first layer stand for none. */
LMC_DEVICE uint32_t count_listed_escapes(const symbol_codes *codes)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < bit_count(codes->listed); i++)
        count += codes->list[i] == LMC_FMT_SYMBOL_ESCAPE;
    return count;
}

/* Puts the next escape in the place of a symbol, less what the key adds. */
LMC_DEVICE uint32_t mend_symbol(shared_state *shared, fused_kind kind, const fused_block *block,
                                uint32_t symbol, uint32_t *escape)
{
    const uint32_t mask = 0xffffu >> kind.low_nbits;
    if (symbol != LMC_FMT_SYMBOL_ESCAPE)
        return symbol;
    const uint8_t *const bytes = block->escapes + 2 * *escape;
    const uint32_t wide = bytes[0] | (uint32_t)bytes[1] << 8;
    if (wide > mask)
        shared->outcome = LMC_CUDA_CORRUPT;
    ++*escape;
    return (wide - shared->plan.window_start) & mask;
}

/* Elements 8 g to 8 g + 7 of a thread's 32; `word` is its place among the block's. escape: the thread's next one, or
 * NO_ESCAPE. */
LMC_DEVICE words4 join_eight(shared_state *shared, fused_kind kind, const fused_block *block,
                             symbol_codes *codes, uint32_t *escape, uint32_t word, uint32_t g)
{
    const uint32_t first = next_symbols4(shared, kind.lengths, codes, 2 * g);
    const uint32_t second = next_symbols4(shared, kind.lengths, codes, 2 * g + 1);
    const uint32_t bit = (32 * word + 8 * g) * kind.low_nbits;
    const uint32_t low0 = load_bits(block->low, bit), low1 = load_bits(block->low, bit + 32);
    words4 elements;
    LMC_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t at = 2 * kind.low_nbits * i;
        const uint32_t low = at < 32 ? funnel_right(low0, low1, at) : low1 >> (at - 32);
        uint32_t symbols = byte_permute(i < 2 ? first : second, 0, i % 2 == 0 ? 0x4140 : 0x4342);
        if (*escape != NO_ESCAPE) {
            const uint32_t mended = mend_symbol(shared, kind, block, symbols & 0xffff, escape);
            symbols = mended | mend_symbol(shared, kind, block, symbols >> 16, escape) << 16;
        }
        elements.word[i] = join_two(symbols, low, kind.low_nbits, block->key);
    }
    return elements;
}

/* A pair of accumulators' sums. */
typedef struct sum_pair {
    uint64_t even, odd;
} sum_pair;

LMC_DEVICE void add_chunk(const shared_state *shared, const words4 *chunk, uint32_t stripe, uint32_t pair,
                          sum_pair *sum)
{
    const uint64_t even = chunk->word[0] | (uint64_t)chunk->word[1] << 32;
    const uint64_t odd = chunk->word[2] | (uint64_t)chunk->word[3] << 32;
    sum->even += odd + multiply_halves(even ^ shared->secret[stripe + 2 * pair]);
    sum->odd += even + multiply_halves(odd ^ shared->secret[stripe + 2 * pair + 1]);
}

/* Adds up what 8 lanes have of two KiB: each lane ends with one sum of one of them. */
LMC_DEVICE void write_sums(const sum_pair sums[2], uint32_t kib, uint64_t *dst)
{
    const uint32_t lane = cta_thread() & 31, is_second = lane >> 4, is_odd = lane >> 3 & 1;
    const sum_pair kept = is_second ? sums[1] : sums[0], given = is_second ? sums[0] : sums[1];
    const uint64_t even = kept.even + warp_xor_64(given.even, 16);
    const uint64_t odd = kept.odd + warp_xor_64(given.odd, 16);
    uint64_t sum = (is_odd ? odd : even) + warp_xor_64(is_odd ? even : odd, 8);
    sum += warp_xor_64(sum, 4);
    if ((lane & 4) == 0)
        dst[(kib + is_second) * 8 + 2 * (lane & 3) + is_odd] = sum;
}

/* Writes a warp's staged strip to the content, whole lines at a time, and sums up its stripes. */
LMC_DEVICE void write_strip(fused_shared *shared, uint8_t *content, uint32_t first_word)
{
    const uint32_t lane = cta_thread() & 31;
    const words4 *const staged = shared->staged[cta_thread() >> 5];
    sum_pair sums[2] = {{0, 0}, {0, 0}};
    LMC_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t stripe = 8 * i + lane / 4; /* of 32 */
        const words4 chunk = staged[staged_place(stripe, lane & 3)];
        store_words4(content + first_word * STRIPE_NBYTES + 16 * (32 * i + lane), &chunk);
        add_chunk(&shared->state, &chunk, stripe & 15, lane & 3, &sums[i / 2]);
    }
    write_sums(sums, first_word * STRIPE_NBYTES / KIB, shared->sums);
}

/* Finds where a thread has its escapes, if it has any. Returns 0 if there are too few. All threads take part. */
LMC_DEVICE uint32_t find_escapes(thread_state *thread, const fused_block *block, const symbol_codes *codes,
                                 uint32_t *used, uint32_t *escape)
{
    uint32_t total;
    const uint32_t count = count_listed_escapes(codes);
    const uint32_t before = *used + cta_scan(thread, count, &total);
    *escape = count != 0 ? before : NO_ESCAPE;
    *used += total;
    return *used <= block->escape_count;
}

/* Decodes the first layer of n symbols to the content. Returns 0 if it is corrupt. All threads take part, and meet at
 * the end. */
LMC_DEVICE uint32_t decode_first_layer(thread_state *thread, fused_shared *shared, fused_kind kind,
                                       uint32_t n)
{
    const fused_block *const block = &shared->block;
    const layer_place *const place = &shared->state.layers[0];
    const uint32_t lane = cta_thread() & 31;
    uint32_t escapes_used = 0;
    layer_cursor cursor = {{0}, 0};
    for (uint32_t first = 0; first * 32 < n; first += LMC_CUDA_THREADS) {
        const uint32_t word = first + cta_thread();
        uint32_t escape = NO_ESCAPE;
        symbol_codes codes;
        if (!read_codes(thread, place, kind.lengths, block->next_symbols, word, ~0u, &cursor, &codes))
            return 0;
        if (block->escape_count != 0 && !find_escapes(thread, block, &codes, &escapes_used, &escape))
            return 0;
        LMC_UNROLL
        for (uint32_t g = 0; g < 4; g++)
            shared->staged[cta_thread() >> 5][staged_place(lane, g)] =
                join_eight(&shared->state, kind, block, &codes, &escape, word, g);
        warp_barrier();
        write_strip(shared, block->content, word & ~31u);
        warp_barrier();
    }
    return shared_outcome(thread) == GOES_ON && escapes_used == block->escape_count &&
           is_used_up(place, kind.lengths, &cursor);
}

/* Is a literal an escape? All threads take part. */
LMC_DEVICE uint32_t has_escaped_literals(thread_state *thread)
{
    const shared_state *const shared = thread->shared;
    const uint32_t count = shared->layers[shared->plan.layer_count[0] - 1].next_count;
    uint32_t found = 0, total;
    for (uint32_t i = cta_thread(); i < count; i += LMC_CUDA_THREADS)
        found += shared->literals[i] == LMC_FMT_SYMBOL_ESCAPE;
    cta_scan(thread, found, &total);
    return total != 0;
}

/* Decodes a block if it is of the kernel's kind. Returns 0, or 1 if the content was written. All threads take part. */
LMC_DEVICE uint32_t decode_fused(thread_state *thread, fused_shared *shared, fused_kind kind,
                                 const lmc_cuda_block *stored)
{
    const lmc_cuda_plan *const plan = &shared->state.plan;
    const uint32_t n = stored->content_nbytes / 2, low_nbytes = n / 8 * kind.low_nbits;
    const uint8_t *const src = (const uint8_t *)stored->src;
    const uint8_t *next_symbols;
    block_reader reader = {src + 3 + low_nbytes, stored->stored_nbytes - 3 - low_nbytes};
    if (stored->content_nbytes % (LMC_CUDA_THREADS * STRIPE_NBYTES) != 0 ||
        stored->content_nbytes > FUSED_KIB_MAX * KIB || stored->stored_nbytes < 3 + low_nbytes ||
        src[0] != LMC_FMT_BLOCK_PLANES || src[1] != LMC_FMT_PLANE_CODED || src[2] != LMC_FMT_PLANE_STORED)
        return 0;
    if (decode_later_layers(thread, 0, n, &reader, &next_symbols) != GOES_ON || reader.left % 2 != 0)
        return 0;
    if (reader.left == 0 && kind.low_nbits < 8 && has_escaped_literals(thread))
        return 0;
    if (reader.left != 0 && kind.low_nbits == 8)
        return 0;
    if (cta_thread() == 0) {
        const uint32_t key = ((uint32_t)plan->window_start << kind.low_nbits) - plan->offset;
        const fused_block block = {
            src + 3,     next_symbols,   (uint8_t *)stored->dst, (key & 0xffff) * 0x10001u,
            reader.next, reader.left / 2};
        shared->block = block;
    }
    cta_barrier();
    return decode_first_layer(thread, shared, kind, n);
}

/* Brings a block's stored bytes to the L2 cache. */
LMC_DEVICE void fetch_block(const lmc_cuda_block *block)
{
    for (uint32_t i = cta_thread() * 128; i < block->stored_nbytes; i += LMC_CUDA_THREADS * 128)
        fetch_ahead((device_address)block->src + i);
}

/* Decodes the blocks of one kind; `kernel` is its number in plans. The next block's bytes are fetched meanwhile. */
LMC_DEVICE void decode_fused_blocks(const lmc_cuda_job *job, fused_shared *shared, uint32_t kernel,
                                    fused_kind kind)
{
    thread_state thread = {&shared->state, job, job->scratch + cta_index() * job->layout.nbytes, 0};
    make_tables(&shared->state);
    load_secret(&shared->state);
    for (uint32_t i = cta_index(); i < job->block_count; i += cta_count()) {
        const lmc_cuda_block *const block = &job->blocks[i];
        if (((const lmc_cuda_plan *)(job->data + block->plan_at))->kernel != kernel)
            continue;
        if (i + cta_count() < job->block_count)
            fetch_block(block + cta_count());
        load_plan(&shared->state, job, block);
        if (decode_fused(&thread, shared, kind, block)) {
            const uint64_t hash = cta_thread() < 32 ? finish_hash(&shared->state, (const uint8_t *)block->dst,
                                                                  block->content_nbytes, shared->sums)
                                                    : 0;
            if (cta_thread() == 0 && hash == block->hash) {
                job->results[i].hash = hash;
                job->results[i].outcome = LMC_CUDA_DONE;
            }
        }
        cta_barrier();
    }
}

/* ---- kernels: two thread blocks are resident on a multiprocessor ---- */

LMC_KERNEL(2) void lmc_cuda_decode_6_3_5(LMC_KERNEL_PARAMETER lmc_cuda_job job)
{
    LMC_SHARED(fused_shared, shared);
    const fused_kind kind = {6, {3, 5}};
    decode_fused_blocks(&job, shared, LMC_CUDA_KERNEL_6_3_5, kind);
}

LMC_KERNEL(2) void lmc_cuda_decode_8_2_2(LMC_KERNEL_PARAMETER lmc_cuda_job job)
{
    LMC_SHARED(fused_shared, shared);
    const fused_kind kind = {8, {2, 2}};
    decode_fused_blocks(&job, shared, LMC_CUDA_KERNEL_8_2_2, kind);
}

#endif
