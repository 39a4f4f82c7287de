/*
 * code_table.h - canonical codes in layers: from code lengths to the tables of kernels, and the wire form of a code
 * (format.md "Symbol code" and "Table"). It chooses no code (code_build.h does) and codes no symbol (symbols.h does).
 */
#ifndef LMC_CODEC_PREFIX_CODE_TABLE_H
#define LMC_CODEC_PREFIX_CODE_TABLE_H

#include "codec/common/diag.h"
#include "codec/kernels/kernels.h"
#include "common/bytes.h"

/* A code as lengths: which layer codes a symbol, and with how many bits. */
typedef struct lmc_code_shape {
    unsigned layer_count;                         /* 1..LMC_FMT_LAYER_COUNT_MAX */
    uint8_t first_nbits[LMC_FMT_LAYER_COUNT_MAX]; /* shortest code of a layer, its continuation included */
    uint8_t last_nbits[LMC_FMT_LAYER_COUNT_MAX];  /* longest */
    uint8_t layer[256];                           /* of each coded symbol */
    uint8_t nbits[256];                           /* 0: the symbol has no code, it is a literal */
} lmc_code_shape;

/* A code ready for use. */
typedef struct lmc_table {
    unsigned layer_count;
    uint8_t has_literals; /* symbols without a code follow as bytes; else only coded symbols can occur */
    uint8_t is_coded[256];
    uint8_t code_nbits[256]; /* total length over the layers; for a literal, of the codes that pass it on */
    lmc_layer layers[LMC_FMT_LAYER_COUNT_MAX];
} lmc_table;

/* Builds the code. The symbols of a layer leave a part of the unit interval to its continuation: nothing, or a power of
 * two between 2^-first_nbits and 2^-last_nbits. Error: CORRUPT, with the rule that is broken. */
LMC_NODISCARD lmc_status lmc_table_build(const lmc_code_shape *shape, lmc_table *table, lmc_diag *diag);

/* Bits of the histogram's symbols but left_out, coded with the table; huge if the table cannot code them. It counts
 * their codes and literals, and no counts of planes. */
#define LMC_TABLE_ALL 256 /* no symbol is left out */
double lmc_table_cost_nbits(const lmc_table *table, const uint32_t histogram[256], unsigned left_out);

/* Appends a table of at most LMC_TABLE_NBYTES_MAX bytes, of which length numbers take LMC_LENGTH_NUMBERS_NBYTES_MAX. */
#define LMC_LENGTH_NUMBERS_NBYTES_MAX (256 * 7 / 8)
#define LMC_TABLE_NBYTES_MAX (1 + LMC_FMT_LAYER_COUNT_MAX + 2 + LMC_LENGTH_NUMBERS_NBYTES_MAX)
void lmc_table_write(const lmc_code_shape *shape, lmc_writer *writer);

/* Reads a table that lmc_table_write() wrote and refuses everything else. Offset 0 is the table's first byte. Error:
 * CORRUPT, also for a table that ends early, since the size of the plan section was verified. */
LMC_NODISCARD lmc_status lmc_table_read(lmc_reader *reader, lmc_table *table, lmc_diag *diag);

#endif
