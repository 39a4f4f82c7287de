/*
 * analyze_counts.h - the numbers that "lmc-st analyze" gives of a tensor, and how they are counted.
 */
#ifndef LMC_TOOL_COMMANDS_ANALYZE_COUNTS_H
#define LMC_TOOL_COMMANDS_ANALYZE_COUNTS_H

#include "lmc_experimental.h"
#include "lmc_st_experimental.h"

#define CLI_PLANE_COUNT_MAX 8

/* Distances of 0, 1, 2 to 3, 4 to 7, ... 2^63 to 2^64 - 1. */
#define CLI_DISTANCE_COUNT 65

/* Of one tensor, or the sum over tensors of one dtype. Entropies are in bits of all values together, so that sums
 * have a meaning. */
typedef struct cli_analysis {
    uint64_t nbytes;
    uint64_t value_count; /* whole elements */
    unsigned element_nbytes;
    int has_parts; /* a float: sign, exponent and mantissa are set */
    double planes[CLI_PLANE_COUNT_MAX], sign, exponent, mantissa, symbols;
    uint64_t pair_count; /* values that were compared with the file before; 0: no tensor was */
    uint64_t changed_count, changed_nbits;
    uint64_t distances[CLI_DISTANCE_COUNT];
    double predicted_nbytes;
    uint64_t stored_nbytes;
    lmc_st_mode mode; /* of one tensor */
    lmc_form_info form;
} cli_analysis;

void cli_analysis_add(cli_analysis *sum, const cli_analysis *one);

/* Counts of the values of one tensor: about 2 MiB, whatever its size. */
typedef struct cli_counts cli_counts;

/* NULL: no memory. Free with free(). */
cli_counts *cli_counts_create(void);

/* Begins with a tensor. cut: how LMC cuts its elements. */
void cli_counts_start(cli_counts *counts, lmc_dtype dtype, const lmc_cut *cut);

/* Counts whole elements. before: as many bytes of the file before, or NULL; the same in all calls for a tensor. */
void cli_counts_take(cli_counts *counts, const unsigned char *content, const unsigned char *before,
                     size_t nbytes);

/* Sets all that values tell; nbytes, stored_nbytes and mode become 0. is_delta: predict what a delta takes. */
void cli_counts_finish(cli_counts *counts, int is_delta, cli_analysis *analysis);

#endif
