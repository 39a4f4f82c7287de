/*
 * exact_counts.h - counts the symbols of a whole tensor as blocks will have them, with the offsets of rows and columns.
 */
#ifndef LMC_CODEC_PLAIN_EXACT_COUNTS_H
#define LMC_CODEC_PLAIN_EXACT_COUNTS_H

#include "codec/common/input.h"
#include "codec/plain/offsets.h"
#include "codec/plain/offsets_plan.h"

typedef struct lmc_exact_request {
    const lmc_content *content;
    const lmc_offsets *offsets; /* of at least LMC_FMT_COLUMN_COUNT_MIN columns */
    const lmc_split *split;
    uint64_t block_values;
    lmc_offsets_work *work; /* any content */
} lmc_exact_request;

/* Counts symbols; escapes are LMC_FMT_SYMBOL_ESCAPE. Counts of a tensor of 2^32 elements or more stop at the first
 * 2^32 - 1. Errors: what the content's read returns. */
LMC_NODISCARD lmc_status lmc_exact_counts(const lmc_exact_request *request, uint32_t counts[256]);

#endif
