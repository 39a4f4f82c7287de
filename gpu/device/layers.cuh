/*
 * layers.cuh - coded planes (docs/format.md, section 6): a thread decodes 32 symbols at a time. Counts stand before all
 * planes, so the places of all planes are known first. Where a thread has its bits in a partial plane, and its symbols
 * of the next layer, follows from a scan over the threads' popcounts.
 */
#ifndef LMC_GPU_DEVICE_LAYERS_CUH
#define LMC_GPU_DEVICE_LAYERS_CUH

#include "gpu/device/tables.cuh"

/* Reads the counts of a coded plane of n symbols and finds its planes. One thread does. */
LMC_DEVICE uint32_t place_layers(shared_state *shared, const lmc_cuda_layer *layers, uint32_t layer_count,
                                 uint32_t n, block_reader *reader)
{
    const uint32_t count_size = count_nbytes(n);
    uint32_t is_cut_short = 0;
    for (uint32_t l = 0; l < layer_count; l++) {
        layer_place *const place = &shared->layers[l];
        place->n = n;
        for (uint32_t j = 0; j < layers[l].last_nbits; j++) {
            place->nbits[j] = j < layers[l].first_nbits ? n : read_number(reader, count_size, &is_cut_short);
            if (place->nbits[j] > n)
                return LMC_CUDA_CORRUPT;
        }
        place->next_count = layers[l].has_continuation ? read_number(reader, count_size, &is_cut_short) : 0;
        if (place->next_count > n || is_cut_short)
            return LMC_CUDA_CORRUPT;
        n = place->next_count;
    }
    for (uint32_t l = 0; l < layer_count; l++)
        for (uint32_t j = 0; j < layers[l].last_nbits; j++) {
            shared->layers[l].plane[j] = read_plane(reader, shared->layers[l].nbits[j]);
            if (!shared->layers[l].plane[j])
                return LMC_CUDA_CORRUPT;
        }
    shared->literals = read_span(reader, n);
    return shared->literals ? GOES_ON : LMC_CUDA_CORRUPT;
}

/* Which of 32 codes, whose first j bits are bits[0..j-1], are longer than j bits: those that reach the threshold. */
LMC_DEVICE uint32_t longer_codes(const uint32_t bits[LMC_FMT_LAYER_NBITS_MAX], uint32_t j, uint32_t threshold)
{
    uint32_t longer = ~0u;
    LMC_UNROLL
    for (uint32_t k = LMC_FMT_LAYER_NBITS_MAX; k-- > 0;) {
        const uint32_t unwanted = (threshold >> (LMC_FMT_LAYER_NBITS_MAX - 1 - k) & 1) - 1;
        if (k < j)
            longer = (bits[k] & longer) | ((bits[k] | longer) & unwanted);
    }
    return longer;
}

/* Which of 32 codes are the layer's continuation. */
LMC_DEVICE uint32_t continuation_codes(const lmc_cuda_layer *layer,
                                       const uint32_t bits[LMC_FMT_LAYER_NBITS_MAX])
{
    uint32_t found = ~0u;
    LMC_UNROLL
    for (uint32_t k = 0; k < LMC_FMT_LAYER_NBITS_MAX; k++)
        if (k < layer->continuation_nbits)
            found &= bits[k] ^ ((layer->continuation >> (LMC_FMT_LAYER_NBITS_MAX - 1 - k) & 1u) - 1);
    return found;
}

/* The symbols of codes 4 g to 4 g + 3 of 32, as bytes of a word. */
LMC_DEVICE uint32_t look_up4(const lmc_cuda_layer *layer, const uint32_t bits[LMC_FMT_LAYER_NBITS_MAX],
                             uint32_t g)
{
    uint32_t codes = 0;
    LMC_UNROLL
    for (uint32_t j = 0; j < LMC_FMT_LAYER_NBITS_MAX; j++)
        if (j <
            layer
                ->last_nbits) { /* 4 bits to the lowest bits of 4 bytes, then up to the place of the plane's bit */
            const uint32_t up = LMC_FMT_LAYER_NBITS_MAX - 1 - j;
            codes |= (bits[j] >> 4 * g & 15) * (0x00204081u << up) & (0x01010101u << up);
        }
    const uint32_t a = layer->symbol[codes & 63], b = layer->symbol[codes >> 8 & 63];
    const uint32_t c = layer->symbol[codes >> 16 & 63], d = layer->symbol[codes >> 24 & 63];
    return a | b << 8 | c << 16 | d << 24;
}

/* Writes 32 symbols. listed: those that are the next ones of `list`. */
LMC_DEVICE void write_symbols(const shared_state *shared, const uint32_t bits[LMC_FMT_LAYER_NBITS_MAX],
                              uint32_t listed, const uint8_t *list, uint8_t *dst)
{
    LMC_UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        words4 symbols;
        LMC_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t g = 4 * half + i, mask = listed >> 4 * g & 15;
            symbols.word[i] = look_up4(&shared->layer, bits, g);
            if (mask != 0) {
                symbols.word[i] = byte_permute(load_bits(list, 0), symbols.word[i], shared->select[mask]);
                list += bit_count(mask);
            }
        }
        store_words4(dst + 16 * half, &symbols);
    }
}

/* How far a layer's partial planes and its list were read. */
typedef struct layer_cursor {
    uint32_t position[LMC_FMT_LAYER_NBITS_MAX];
    uint32_t next;
} layer_cursor;

/* Reads the codes of 32 symbols. Returns 0 if a partial plane has too few bits. All threads take part. */
LMC_DEVICE uint32_t read_codes(thread_state *thread, const layer_place *place, uint32_t word, uint32_t valid,
                               layer_cursor *cursor, uint32_t bits[LMC_FMT_LAYER_NBITS_MAX])
{
    const lmc_cuda_layer *const layer = &thread->shared->layer;
    LMC_UNROLL
    for (uint32_t j = 0; j < LMC_FMT_LAYER_NBITS_MAX; j++) {
        bits[j] = 0;
        if (j < layer->first_nbits) {
            bits[j] = valid != 0 ? load_bits(place->plane[j], word * 32) : 0;
        } else if (j < layer->last_nbits) {
            uint32_t total;
            const uint32_t longer = longer_codes(bits, j, layer->threshold[j]) & valid;
            const uint32_t before = cta_scan(thread, bit_count(longer), &total);
            if (total > place->nbits[j] - cursor->position[j])
                return 0;
            const uint32_t found = longer != 0 ? load_bits(place->plane[j], cursor->position[j] + before) : 0;
            bits[j] = deposit_bits(thread->shared->deposit, found, longer);
            cursor->position[j] += total;
        }
    }
    return 1;
}

/* Decodes the layer in shared memory to dst, where LMC_CUDA_SLACK bytes more are touched. All threads take part, and
 * meet at the end. */
LMC_DEVICE uint32_t decode_layer(thread_state *thread, const layer_place *place, const uint8_t *next_symbols,
                                 uint8_t *dst)
{
    const shared_state *const shared = thread->shared;
    const uint32_t n = place->n;
    layer_cursor cursor = {{0}, 0};
    for (uint32_t first = 0; first * 32 < n; first += LMC_CUDA_THREADS) {
        const uint32_t word = first + cta_thread(), valid = valid_bits(n, word);
        uint32_t bits[LMC_FMT_LAYER_NBITS_MAX], listed = 0, before = 0, total = 0;
        if (!read_codes(thread, place, word, valid, &cursor, bits))
            return LMC_CUDA_CORRUPT;
        if (shared->layer.has_continuation) {
            listed = continuation_codes(&shared->layer, bits) & valid;
            before = cta_scan(thread, bit_count(listed), &total);
            if (total > place->next_count - cursor.next)
                return LMC_CUDA_CORRUPT;
        }
        if (valid != 0)
            write_symbols(shared, bits, listed, next_symbols + cursor.next + before, dst + word * 32);
        cursor.next += total;
    }
    LMC_UNROLL
    for (uint32_t j = 0; j < LMC_FMT_LAYER_NBITS_MAX; j++)
        if (j >= shared->layer.first_nbits && j < shared->layer.last_nbits &&
            cursor.position[j] != place->nbits[j])
            return LMC_CUDA_CORRUPT;
    cta_barrier();
    return cursor.next == place->next_count ? GOES_ON : LMC_CUDA_CORRUPT;
}

/* Brings a layer to shared memory. All threads take part. */
LMC_DEVICE void load_layer(shared_state *shared, const lmc_cuda_layer *layer)
{
    const uint32_t *const src = (const uint32_t *)layer;
    uint32_t *const dst = (uint32_t *)&shared->layer;
    for (uint32_t i = cta_thread(); i < sizeof *layer / 4; i += LMC_CUDA_THREADS)
        dst[i] = src[i];
    cta_barrier();
}

/* Decodes a coded plane of n >= 1 symbols to dst. All threads take part. */
LMC_DEVICE_CALL uint32_t decode_coded(thread_state *thread, uint32_t plane, uint32_t n, block_reader *reader,
                                      uint8_t *dst)
{
    shared_state *const shared = thread->shared;
    const lmc_cuda_layer *const layers =
        (const lmc_cuda_layer *)(thread->job->data + shared->plan.layers_at[plane]);
    const uint32_t layer_count = shared->plan.layer_count[plane];
    if (layer_count == 0)
        return LMC_CUDA_CORRUPT;
    cta_barrier();
    if (cta_thread() == 0) {
        shared->reader = *reader;
        shared->outcome = place_layers(shared, layers, layer_count, n, &shared->reader);
    }
    uint32_t outcome = shared_outcome(thread);
    *reader = shared->reader;
    const uint8_t *next_symbols = shared->literals;
    for (uint32_t l = layer_count; outcome == GOES_ON && l-- > 0;) {
        uint8_t *const symbols = l == 0 ? dst : thread->scratch + thread->job->layout.list_at[l & 1];
        load_layer(shared, &layers[l]);
        outcome = decode_layer(thread, &shared->layers[l], next_symbols, symbols);
        next_symbols = symbols;
    }
    return outcome;
}

#endif
