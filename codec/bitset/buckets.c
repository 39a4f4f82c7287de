/*
 * buckets.c - a bucket is a layer of a canonical code. The first bit of its codes tells if a symbol lies beyond the
 * bucket: that plane is coded as a bitset. The other bits tell the symbols of the bucket apart.
 */
#include "codec/bitset/buckets.h"

#include "codec/bitset/bitset.h"
#include "codec/prefix/code_table.h"

/* Bucket b holds 2^bucket_nbits[b] symbols, from the end of the bucket before it on. */
static const uint8_t bucket_nbits[LMC_FMT_BUCKET_COUNT] = {LMC_FMT_BUCKET_NBITS};

unsigned lmc_bucket_nbits(unsigned bucket)
{
    return bucket_nbits[bucket];
}

unsigned lmc_bucket_first(unsigned bucket)
{
    unsigned first = 0;
    for (unsigned b = 0; b < bucket; b++)
        first += 1u << bucket_nbits[b];
    return first;
}

void lmc_bucket_code_init(lmc_bucket_code *code)
{
    for (unsigned b = 0; b < LMC_FMT_BUCKET_COUNT; b++) {
        const unsigned nbits = bucket_nbits[b];
        const unsigned first = lmc_bucket_first(b);
        lmc_code_shape shape = {.layer_count = 1, .first_nbits = {1}, .last_nbits = {(uint8_t)(1 + nbits)}};
        lmc_table table;
        for (unsigned i = 0; i < 1u << nbits; i++)
            shape.nbits[first + i] = (uint8_t)(1 + nbits);
        const lmc_status status = lmc_table_build(&shape, &table, NULL);
        assert(status == LMC_OK);
        (void)status;
        code->buckets[b] = table.layers[0];
    }
}

/* ---- encode ---- */

size_t lmc_buckets_encode(const lmc_bucket_code *code, const lmc_kernels *kernels, lmc_scratch *scratch,
                          unsigned first, const uint8_t *symbols, size_t n, uint8_t *dst, size_t capacity)
{
    uint64_t *const bitset = scratch->bitset;
    lmc_writer writer = {dst, dst + capacity};
    for (unsigned b = first; b < LMC_FMT_BUCKET_COUNT && n >= LMC_FMT_BUCKET_VALUES_MIN; b++) {
        const lmc_layer *const layer = &code->buckets[b];
        uint8_t *const next_symbols = scratch->next_symbols[b % 2]; /* those beyond the bucket */
        lmc_layer_out out = {.full = {(uint8_t *)bitset}, .next_symbols = next_symbols};
        for (unsigned j = 1; j < layer->last_nbits; j++)
            out.partial[j] = (lmc_bit_writer){scratch->partial[j], 0, 0};
        bitset[n / 64] = 0;
        kernels->layer_encode(layer, symbols, n, &out);
        if (layer->last_nbits > 1) /* then the continuation is the code that begins with 0 */
            lmc_bitset_invert(bitset, n);
        const size_t next_count = (size_t)(out.next_symbols - next_symbols);
        const size_t nbytes =
            lmc_bitset_encode(kernels, scratch, bitset, n, writer.next, lmc_writer_left(&writer));
        writer.next += nbytes;
        const size_t plane_nbytes = lmc_bits_nbytes(n - next_count);
        if (nbytes == 0 || plane_nbytes * (layer->last_nbits - 1u) > lmc_writer_left(&writer))
            return 0;
        for (unsigned j = 1; j < layer->last_nbits; j++) {
            lmc_store64(out.partial[j].next, out.partial[j].pending);
            lmc_write_span(&writer, scratch->partial[j], plane_nbytes);
        }
        symbols = next_symbols;
        n = next_count;
    }
    if (n > lmc_writer_left(&writer))
        return 0;
    lmc_write_span(&writer, symbols, n);
    return (size_t)(writer.next - dst);
}

/* ---- decode ---- */

/* One bucket while it is decoded. */
typedef struct bucket_reader {
    const lmc_layer *layer;
    lmc_layer_in in;
    size_t n; /* symbols that no bucket before it holds */
} bucket_reader;

lmc_status lmc_buckets_decode(const lmc_bucket_code *code, const lmc_kernels *kernels, lmc_scratch *scratch,
                              unsigned first, lmc_source *source, size_t n, uint8_t *symbols, lmc_diag *diag)
{
    bucket_reader buckets[LMC_FMT_BUCKET_COUNT];
    uint64_t *bitset = scratch->bucket_bitsets;
    unsigned count = 0;
    const size_t symbol_count = n;
    while (first + count < LMC_FMT_BUCKET_COUNT && n >= LMC_FMT_BUCKET_VALUES_MIN) {
        bucket_reader *const bucket = &buckets[count];
        bucket->layer = &code->buckets[first + count];
        bucket->n = n;
        LMC_TRY(lmc_bitset_decode(kernels, scratch, &source->reader, n, bitset, diag));
        const size_t next_count = lmc_bitset_count(kernels, bitset, n);
        if (bucket->layer->last_nbits > 1)
            lmc_bitset_invert(bitset, n);
        bucket->in.full[0] = (const uint8_t *)bitset;
        bitset += lmc_bitset_words(n) + LMC_PLANE_SLACK / sizeof *bitset;
        for (unsigned j = 1; j < bucket->layer->last_nbits; j++) {
            bucket->in.partial[j] = lmc_source_bits(source, n - next_count);
            bucket->in.position[j] = 0;
            if (!bucket->in.partial[j])
                return lmc_corrupt(diag, 0, "bucket code: a plane ends early or has spare bits set");
        }
        n = next_count;
        count++;
    }
    const uint8_t *next_symbols = lmc_source_plane(source, n, LMC_SYMBOLS_SLACK);
    if (!next_symbols)
        return lmc_corrupt(diag, 0, "bucket code: its last symbols end early");
    if (count == 0)
        memcpy(symbols, next_symbols, symbol_count);
    while (count-- > 0) {
        bucket_reader *const bucket = &buckets[count];
        uint8_t *const out = count == 0 ? symbols : scratch->next_symbols[count % 2];
        bucket->in.next_symbols = next_symbols;
        for (size_t i = 0; i < bucket->n; i += LMC_STRIP_VALUES)
            kernels->layer_decode(bucket->layer, &bucket->in, lmc_min_size(bucket->n - i, LMC_STRIP_VALUES),
                                  out + i);
        next_symbols = out;
    }
    return LMC_OK;
}
