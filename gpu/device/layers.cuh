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

/* The lengths of a layer's codes. A kernel for certain codes has them as constants. */
typedef struct layer_lengths {
    uint32_t first, last;
} layer_lengths;

/* How far a layer's partial planes and the symbols of the next layer were read. */
typedef struct layer_cursor {
    uint32_t position[LMC_FMT_LAYER_NBITS_MAX];
    uint32_t next;
} layer_cursor;

/* The codes of 32 symbols: plane by plane, and which are the next ones of `list`. */
typedef struct symbol_codes {
    uint32_t bits[LMC_FMT_LAYER_NBITS_MAX];
    uint32_t listed;
    const uint8_t *list;
} symbol_codes;

/* Reads the bits of the codes of 32 symbols. Returns 0 if a partial plane has too few. All threads take part. */
LMC_DEVICE uint32_t read_bits(thread_state *thread, const layer_place *place, layer_lengths lengths,
                              uint32_t word, uint32_t valid, layer_cursor *cursor,
                              uint32_t bits[LMC_FMT_LAYER_NBITS_MAX])
{
    LMC_UNROLL
    for (uint32_t j = 0; j < LMC_FMT_LAYER_NBITS_MAX; j++) {
        bits[j] = 0;
        if (j < lengths.first) {
            bits[j] = valid != 0 ? load_bits(place->plane[j], word * 32) : 0;
        } else if (j < lengths.last) {
            uint32_t total;
            const uint32_t longer = longer_codes(bits, j, thread->shared->layer.threshold[j]) & valid;
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

/* Reads the codes of 32 symbols. Returns 0 if there are too few bits or symbols of the next layer. All threads take
   part.
 */
LMC_DEVICE uint32_t read_codes(thread_state *thread, const layer_place *place, layer_lengths lengths,
                               const uint8_t *next_symbols, uint32_t word, uint32_t valid,
                               layer_cursor *cursor, symbol_codes *codes)
{
    const lmc_cuda_layer *const layer = &thread->shared->layer;
    uint32_t total;
    codes->listed = 0;
    codes->list = next_symbols;
    if (!read_bits(thread, place, lengths, word, valid, cursor, codes->bits))
        return 0;
    if (!layer->has_continuation)
        return 1;
    codes->listed = continuation_codes(layer, codes->bits) & valid;
    codes->list += cursor->next + cta_scan(thread, bit_count(codes->listed), &total);
    if (total > place->next_count - cursor->next)
        return 0;
    cursor->next += total;
    return 1;
}

/* Were the partial planes and the symbols of the next layer used to their ends? */
LMC_DEVICE uint32_t is_used_up(const layer_place *place, layer_lengths lengths, const layer_cursor *cursor)
{
    uint32_t is_used = cursor->next == place->next_count;
    LMC_UNROLL
    for (uint32_t j = 0; j < LMC_FMT_LAYER_NBITS_MAX; j++)
        if (j >= lengths.first && j < lengths.last)
            is_used &= cursor->position[j] == place->nbits[j];
    return is_used;
}

/* Symbols 4 g to 4 g + 3 of 32, as bytes of a word; g rises from call to call. */
LMC_DEVICE uint32_t next_symbols4(const shared_state *shared, layer_lengths lengths, symbol_codes *codes,
                                  uint32_t g)
{
    const uint8_t *const table = shared->layer.symbol;
    const uint32_t mask = codes->listed >> 4 * g & 15;
    uint32_t places = 0; /* in the table, a byte for each symbol */
    LMC_UNROLL
    for (uint32_t j = 0; j < LMC_FMT_LAYER_NBITS_MAX; j++)
        if (j < lengths.last) {
            /* the factor brings 4 bits to the lowest bits of 4 bytes, and up to the place of plane j */
            const uint32_t up = LMC_FMT_LAYER_NBITS_MAX - 1 - j;
            places |= (codes->bits[j] >> 4 * g & 15) * (0x00204081u << up) & (0x01010101u << up);
        }
    const uint32_t low = table[places & 63] | (uint32_t)table[places >> 8 & 63] << 8;
    const uint32_t high = table[places >> 16 & 63] | (uint32_t)table[places >> 24 & 63] << 8;
    uint32_t symbols = low | high << 16;
    if (mask != 0) {
        symbols = byte_permute(load_bits(codes->list, 0), symbols, shared->select[mask]);
        codes->list += bit_count(mask);
    }
    return symbols;
}

/* Decodes the layer in shared memory to dst, where LMC_CUDA_SLACK bytes more are touched. All threads take part, and
 * meet at the end. */
LMC_DEVICE uint32_t decode_layer(thread_state *thread, const layer_place *place, const uint8_t *next_symbols,
                                 uint8_t *dst)
{
    const shared_state *const shared = thread->shared;
    const layer_lengths lengths = {shared->layer.first_nbits, shared->layer.last_nbits};
    layer_cursor cursor = {{0}, 0};
    for (uint32_t first = 0; first * 32 < place->n; first += LMC_CUDA_THREADS) {
        const uint32_t word = first + cta_thread(), valid = valid_bits(place->n, word);
        symbol_codes codes;
        if (!read_codes(thread, place, lengths, next_symbols, word, valid, &cursor, &codes))
            return LMC_CUDA_CORRUPT;
        LMC_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            words4 symbols;
            LMC_UNROLL
            for (uint32_t i = 0; i < 4 && valid != 0; i++)
                symbols.word[i] = next_symbols4(shared, lengths, &codes, 4 * half + i);
            if (valid != 0)
                store_words4(dst + word * 32 + 16 * half, &symbols);
        }
    }
    cta_barrier();
    return is_used_up(place, lengths, &cursor) ? GOES_ON : LMC_CUDA_CORRUPT;
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

/* Reads a coded plane of n >= 1 symbols and decodes its layers but the first, which is brought to shared memory.
 * *next_symbols: its symbols of the next layer. All threads take part. */
LMC_DEVICE uint32_t decode_later_layers(thread_state *thread, uint32_t plane, uint32_t n,
                                        block_reader *reader, const uint8_t **next_symbols)
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
    *next_symbols = shared->literals;
    for (uint32_t l = layer_count - 1; outcome == GOES_ON && l > 0; l--) {
        uint8_t *const symbols = thread->scratch + thread->job->layout.list_at[l & 1];
        load_layer(shared, &layers[l]);
        outcome = decode_layer(thread, &shared->layers[l], *next_symbols, symbols);
        *next_symbols = symbols;
    }
    if (outcome == GOES_ON)
        load_layer(shared, &layers[0]);
    return outcome;
}

/* Decodes a coded plane of n >= 1 symbols to dst. All threads take part. */
LMC_DEVICE_CALL uint32_t decode_coded(thread_state *thread, uint32_t plane, uint32_t n, block_reader *reader,
                                      uint8_t *dst)
{
    const uint8_t *next_symbols;
    const uint32_t outcome = decode_later_layers(thread, plane, n, reader, &next_symbols);
    if (outcome != GOES_ON)
        return outcome;
    return decode_layer(thread, &thread->shared->layers[0], next_symbols, dst);
}

#endif
