/*
 * rans_table.h - rANS codes: frequencies for a histogram, what kernels look up, and the wire form (format.md "rANS
 * table"). It codes no symbol (rans_plane.h does).
 */
#ifndef LMC_CODEC_RANS_RANS_TABLE_H
#define LMC_CODEC_RANS_RANS_TABLE_H

#include "codec/common/diag.h"
#include "codec/kernels/kernels.h"
#include "common/bytes.h"

/* A rANS code. An encoder needs no slots, a decoder no symbols. */
typedef struct lmc_rans {
    uint16_t frequency[256];                 /* LMC_FMT_RANS_TOTAL together; 0: no code */
    lmc_rans_symbol symbols[256];            /* by lmc_rans_set_symbols() */
    lmc_rans_slot slots[LMC_FMT_RANS_TOTAL]; /* by lmc_rans_set_slots() */
} lmc_rans;

/* Finds the frequencies that code the histogram's symbols with the fewest bits. A symbol that does not occur gets 0.
 * Some symbol occurs. The result is the same on every machine. */
void lmc_rans_normalize(const uint32_t histogram[256], uint16_t frequency[256]);

/* What an encoder looks up, from rans->frequency. */
void lmc_rans_set_symbols(lmc_rans *rans);

/* What a decoder looks up, from rans->frequency, whose sum is LMC_FMT_RANS_TOTAL. */
void lmc_rans_set_slots(lmc_rans *rans);

/* Bits of the histogram's symbols but left_out (LMC_TABLE_ALL: of all), without the head of a plane; huge if one of
 * them has no code. */
double lmc_rans_cost_nbits(const uint16_t frequency[256], const uint32_t histogram[256], unsigned left_out);

/* Appends a table of at most LMC_RANS_TABLE_NBYTES_MAX bytes. */
#define LMC_RANS_TABLE_NBYTES_MAX (3 + 256 * (LMC_FMT_RANS_WIDTH_NBITS + LMC_FMT_RANS_TOTAL_LOG2) / 8)
void lmc_rans_table_write(const uint16_t frequency[256], lmc_writer *writer);

/* Reads a table that lmc_rans_table_write() wrote and refuses everything else. Offset 0 is the table's first byte.
 * Errors: CORRUPT, also for a table that ends early, since the size of the plan section was verified; UNSUPPORTED: it
 * has more classes than one. */
LMC_NODISCARD lmc_status lmc_rans_table_read(lmc_reader *reader, uint16_t frequency[256], lmc_diag *diag);

#endif
