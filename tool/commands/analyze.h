/*
 * analyze.h - what the files of "lmc-st analyze" share: the numbers of a tensor, how they are counted, and what LMC
 * makes of the tensor.
 */
#ifndef LMC_TOOL_COMMANDS_ANALYZE_H
#define LMC_TOOL_COMMANDS_ANALYZE_H

#include "lmc_st.h"

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
} cli_analysis;

void cli_analysis_add(cli_analysis *sum, const cli_analysis *one);

/* ---- counting (analyze_counts.c) ---- */

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

/* ---- reading and coding (analyze_tensor.c) ---- */

/* Memory for one tensor after the other, and where they are. */
typedef struct cli_analyzer {
    lmc_ctx *ctx;
    cli_counts *counts;
    unsigned char *content, *before, *block; /* pieces of at least piece_nbytes, block_nbytes bytes */
    size_t piece_nbytes, block_nbytes;
} cli_analyzer;

/* Analyzes tensor `index` of `file`. previous: the file before, whose tensor `previous_index` has the same dtype and
 * shape, or NULL. Errors: as lmc_st_reader_read(), NOMEM, CANCELLED; all are in *diag. */
lmc_status cli_analyze_tensor(cli_analyzer *analyzer, const lmc_st_file *file, uint64_t index,
                              const lmc_st_file *previous, uint64_t previous_index, cli_analysis *analysis,
                              lmc_st_diag *diag);

#endif
