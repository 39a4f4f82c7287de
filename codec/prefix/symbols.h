/*
 * symbols.h - a plane of symbols, coded with a table strip by strip (format.md "Coded planes"). Layer 0 is coded while
 * a strip is in the cache, the rarer symbols of later layers after that. It chooses no plane modes (plane.h does).
 */
#ifndef LMC_CODEC_PREFIX_SYMBOLS_H
#define LMC_CODEC_PREFIX_SYMBOLS_H

#include "codec/prefix/code_table.h"
#include "codec/prefix/scratch.h"

typedef struct lmc_symbol_encoder {
    const lmc_kernels *kernels;
    const lmc_table *table;
    lmc_scratch *scratch;
    lmc_layer_out out; /* of layer 0 */
    size_t n;
    uint8_t *dst;    /* counts, then planes */
    size_t capacity; /* most bytes that the coded plane may take */
    size_t used;     /* counts and the full planes of layer 0 */
    int fits;
} lmc_symbol_encoder;

/* Starts a plane of n >= 1 symbols at dst, which may take `capacity` bytes. */
void lmc_symbols_encode_begin(lmc_symbol_encoder *encoder, const lmc_kernels *kernels, const lmc_table *table,
                              lmc_scratch *scratch, size_t n, uint8_t *dst, size_t capacity);

/* Adds the next symbols: a multiple of 64, or the last ones. symbols is readable padded. Every symbol has a code if the
 * table has no literals. */
void lmc_symbols_encode_strip(lmc_symbol_encoder *encoder, const uint8_t *symbols, size_t n);

/* Codes the later layers. Returns the plane's bytes, or 0 when they would exceed the capacity. */
size_t lmc_symbols_encode_end(lmc_symbol_encoder *encoder);

/* One layer while it is decoded. */
typedef struct lmc_layer_reader {
    const lmc_layer *layer;
    lmc_layer_in in;
    uint64_t plane_nbits[LMC_FMT_LAYER_NBITS_MAX]; /* of the partial planes */
    const uint8_t *next_end;                       /* of in.next_symbols */
    size_t n;                                      /* symbols of the layer */
} lmc_layer_reader;

typedef struct lmc_symbol_decoder {
    const lmc_kernels *kernels;
    lmc_layer_reader layers[LMC_FMT_LAYER_COUNT_MAX];
} lmc_symbol_decoder;

/* Reads a plane of n >= 1 symbols from source and decodes everything but layer 0.
 * Error: CORRUPT, also for a plane that ends early, since block sizes come from a verified index. */
LMC_NODISCARD lmc_status lmc_symbols_decode_begin(lmc_symbol_decoder *decoder, const lmc_kernels *kernels,
                                                  const lmc_table *table, lmc_scratch *scratch,
                                                  lmc_source *source, size_t n, lmc_diag *diag);

/* Decodes the next n <= LMC_STRIP_VALUES symbols (a multiple of 64, or the last ones), written padded.
 * Error: CORRUPT. */
LMC_NODISCARD lmc_status lmc_symbols_decode_strip(lmc_symbol_decoder *decoder, size_t n, uint8_t *symbols,
                                                  lmc_diag *diag);

/* Checks after the last strip that all planes were used to their ends. Error: CORRUPT. */
LMC_NODISCARD lmc_status lmc_symbols_decode_end(const lmc_symbol_decoder *decoder, lmc_diag *diag);

#endif
