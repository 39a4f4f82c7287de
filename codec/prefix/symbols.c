/* symbols.c - codes a plane of symbols: calls the layer kernels strip by strip and layer by layer. */
#include "codec/prefix/symbols.h"

/* Bytes of the counts that stand before the planes. Each layer has the bits of each partial plane, and how many symbols
 * it passes on. */
static size_t counts_nbytes(const lmc_table *table, size_t n)
{
    size_t count = 0;
    for (unsigned i = 0; i < table->layer_count; i++) {
        const lmc_layer *const layer = &table->layers[i];
        count += (size_t)(layer->last_nbits - layer->first_nbits) + layer->has_continuation;
    }
    return count * lmc_count_nbytes(n);
}

/* ---- encode ---- */

/* Points the kernel at the planes of a layer of n symbols: full planes at dst, partial planes and next symbols in
 * scratch. Returns the bytes of the full planes. */
static size_t open_planes(const lmc_layer *layer, const lmc_scratch *scratch, size_t n, uint8_t *dst,
                          uint8_t *next_symbols, lmc_layer_out *out)
{
    const size_t plane_nbytes = lmc_bits_nbytes(n);
    for (unsigned j = 0; j < layer->first_nbits; j++)
        out->full[j] = dst + j * plane_nbytes;
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++)
        out->partial[j] = (lmc_bit_writer){scratch->partial[j], 0, 0};
    out->next_symbols = next_symbols;
    return layer->first_nbits * plane_nbytes;
}

/* Appends the partial planes at dst. Their bit counts and next_count go to *counts. Returns the bytes appended, or
 * SIZE_MAX when they exceed `capacity`. */
static size_t close_planes(const lmc_layer *layer, const lmc_scratch *scratch, lmc_layer_out *out,
                           size_t next_count, unsigned count_nbytes, uint8_t *dst, size_t capacity,
                           uint8_t **counts)
{
    size_t used = 0;
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++) {
        const uint64_t nbits = lmc_bits_written(&out->partial[j], scratch->partial[j]);
        const size_t nbytes = lmc_bits_nbytes((size_t)nbits);
        lmc_store64(out->partial[j].next, out->partial[j].pending);
        if (nbytes > capacity - used)
            return SIZE_MAX;
        memcpy(dst + used, scratch->partial[j], nbytes);
        memcpy(*counts, &nbits, count_nbytes);
        *counts += count_nbytes;
        used += nbytes;
    }
    if (layer->has_continuation) {
        const uint64_t count = next_count;
        memcpy(*counts, &count, count_nbytes);
        *counts += count_nbytes;
    }
    return used;
}

void lmc_symbols_encode_begin(lmc_symbol_encoder *e, const lmc_kernels *kernels, const lmc_table *table,
                              lmc_scratch *scratch, size_t n, uint8_t *dst, size_t capacity)
{
    const lmc_layer *const layer = &table->layers[0];
    e->kernels = kernels;
    e->table = table;
    e->scratch = scratch;
    e->n = n;
    e->dst = dst;
    e->capacity = capacity;
    e->used = counts_nbytes(table, n) + layer->first_nbits * lmc_bits_nbytes(n);
    e->fits = e->used <= capacity;
    if (e->fits)
        open_planes(layer, scratch, n, dst + counts_nbytes(table, n), scratch->next_symbols[0], &e->out);
}

void lmc_symbols_encode_strip(lmc_symbol_encoder *e, const uint8_t *symbols, size_t n)
{
    if (e->fits)
        e->kernels->layer_encode(&e->table->layers[0], symbols, n, &e->out);
}

size_t lmc_symbols_encode_end(lmc_symbol_encoder *e)
{
    if (!e->fits)
        return 0;
    const unsigned count_nbytes = lmc_count_nbytes(e->n);
    uint8_t *counts = e->dst;
    size_t used = e->used;
    size_t next_count = 0;
    for (unsigned i = 0;; i++) {
        const lmc_layer *const layer = &e->table->layers[i];
        uint8_t *const next_symbols = e->scratch->next_symbols[i % 2];
        next_count = layer->has_continuation ? (size_t)(e->out.next_symbols - next_symbols) : 0;
        const size_t nbytes = close_planes(layer, e->scratch, &e->out, next_count, count_nbytes,
                                           e->dst + used, e->capacity - used, &counts);
        if (nbytes == SIZE_MAX)
            return 0;
        used += nbytes;
        if (i + 1 == e->table->layer_count)
            break;
        const lmc_layer *const next = &e->table->layers[i + 1];
        if (next->first_nbits * lmc_bits_nbytes(next_count) > e->capacity - used)
            return 0;
        used += open_planes(next, e->scratch, next_count, e->dst + used,
                            e->scratch->next_symbols[(i + 1) % 2], &e->out);
        e->kernels->layer_encode(next, next_symbols, next_count, &e->out);
    }
    if (next_count > e->capacity - used)
        return 0;
    memcpy(e->dst + used, e->scratch->next_symbols[(e->table->layer_count - 1) % 2], next_count);
    return used + next_count;
}

/* ---- decode ---- */

/* Reads the counts of all layers into their readers; *literal_count: symbols without a code. */
static lmc_status read_counts(lmc_symbol_decoder *d, const lmc_table *table, size_t n, lmc_reader *reader,
                              size_t *literal_count, lmc_diag *diag)
{
    const unsigned count_nbytes = lmc_count_nbytes(n);
    for (unsigned i = 0; i < table->layer_count; i++) {
        lmc_layer_reader *const r = &d->layers[i];
        const lmc_layer *const layer = &table->layers[i];
        r->layer = layer;
        r->n = n;
        for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++) {
            r->plane_nbits[j] = lmc_read_n(reader, count_nbytes);
            if (r->plane_nbits[j] > n)
                return lmc_corrupt(diag, 0,
                                   "coded plane: a partial plane has more bits than its layer has symbols");
        }
        const uint64_t next_count = layer->has_continuation ? lmc_read_n(reader, count_nbytes) : 0;
        if (reader->failed)
            return lmc_corrupt(diag, 0, "coded plane: its counts are cut short");
        if (next_count > n)
            return lmc_corrupt(diag, 0, "coded plane: a layer passes on more symbols than it has");
        n = (size_t)next_count;
    }
    *literal_count = n;
    return LMC_OK;
}

/* No cursor has left its plane. at_end: each cursor stands at its plane's end. */
static lmc_status check_cursors(const lmc_layer_reader *r, int at_end, lmc_diag *diag)
{
    const lmc_layer *const layer = r->layer;
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++)
        if (r->in.position[j] > r->plane_nbits[j] || (at_end && r->in.position[j] != r->plane_nbits[j]))
            return lmc_corrupt(diag, 0, "coded plane: a partial plane does not fit its codes");
    if (layer->has_continuation &&
        (r->in.next_symbols > r->next_end || (at_end && r->in.next_symbols != r->next_end)))
        return lmc_corrupt(diag, 0, "coded plane: the symbols of the next layer do not fit its codes");
    return LMC_OK;
}

static lmc_status decode_strip(const lmc_kernels *kernels, lmc_layer_reader *r, size_t n, uint8_t *symbols,
                               lmc_diag *diag)
{
    kernels->layer_decode(r->layer, &r->in, n, symbols);
    return check_cursors(r, 0, diag);
}

lmc_status lmc_symbols_decode_begin(lmc_symbol_decoder *d, const lmc_kernels *kernels, const lmc_table *table,
                                    lmc_scratch *scratch, lmc_source *source, size_t n, lmc_diag *diag)
{
    size_t next_count = 0;
    d->kernels = kernels;
    LMC_TRY(read_counts(d, table, n, &source->reader, &next_count, diag));
    for (unsigned i = 0; i < table->layer_count; i++) {
        lmc_layer_reader *const r = &d->layers[i];
        for (unsigned j = 0; j < r->layer->last_nbits; j++) {
            const int full = j < r->layer->first_nbits;
            const uint8_t *const plane = lmc_source_bits(source, full ? r->n : (size_t)r->plane_nbits[j]);
            if (!plane)
                return lmc_corrupt(diag, 0, "coded plane: a plane ends early or has spare bits set");
            if (full)
                r->in.full[j] = plane;
            else
                r->in.partial[j] = plane;
            r->in.position[j] = 0;
        }
    }
    const uint8_t *next_symbols = lmc_source_plane(source, next_count, LMC_SYMBOLS_SLACK);
    if (!next_symbols)
        return lmc_corrupt(diag, 0, "coded plane: its literals end early");
    for (unsigned i = table->layer_count; i-- > 0;) {
        lmc_layer_reader *const r = &d->layers[i];
        r->in.next_symbols = next_symbols;
        r->next_end = next_symbols + next_count;
        if (i == 0)
            break;
        uint8_t *const symbols = scratch->next_symbols[i % 2];
        for (size_t k = 0; k < r->n; k += LMC_STRIP_VALUES)
            LMC_TRY(decode_strip(kernels, r, lmc_min_size(r->n - k, LMC_STRIP_VALUES), symbols + k, diag));
        LMC_TRY(check_cursors(r, 1, diag));
        next_symbols = symbols;
        next_count = r->n;
    }
    return LMC_OK;
}

lmc_status lmc_symbols_decode_strip(lmc_symbol_decoder *d, size_t n, uint8_t *symbols, lmc_diag *diag)
{
    return decode_strip(d->kernels, &d->layers[0], n, symbols, diag);
}

lmc_status lmc_symbols_decode_end(const lmc_symbol_decoder *d, lmc_diag *diag)
{
    return check_cursors(&d->layers[0], 1, diag);
}
