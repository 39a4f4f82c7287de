/*
 * slice.h - parts of a tensor on the command line: byte ranges "A:B" and slices "NAME[3:7, :]", which
 * are turned into runs of bytes. Pure: no files, no memory of its own, no output.
 */
#ifndef LMC_TOOL_SLICE_H
#define LMC_TOOL_SLICE_H

#include "lmc_st_experimental.h"

#define CLI_SLICE_FAULT_NBYTES 160

/* What a slice picks of a tensor: `run_count` runs of `run_nbytes` bytes each, in the order of the content.
 * The number of a run stands for its indices in the outer dimensions: the last one turns fastest. */
typedef struct cli_slice {
    uint64_t nbytes; /* run_count * run_nbytes */
    uint64_t run_count;
    uint64_t run_nbytes;
    uint64_t first_byte; /* of the first run */
    uint64_t next_run;   /* number of the run that cli_slice_next() gives */
    size_t outer_count;  /* dimensions outside a run */
    struct cli_slice_dim {
        uint64_t count;        /* indices picked */
        uint64_t stride_nbits; /* content bits from one index to the next */
    } outer[LMC_ST_RANK_MAX];
} cli_slice;

/* Length of the tensor's name in "NAME[...]": what stands before the last '['. SIZE_MAX: it has no such
 * form. */
size_t cli_slice_name_length(const char *operand);

/* Reads "[I, A:B, :]" against a shape. Returns 1, or 0 with the reason in `fault`. */
int cli_slice_parse(const char *text, const lmc_st_tensor *tensor, cli_slice *slice,
                    char fault[CLI_SLICE_FAULT_NBYTES]);

/* First byte of the next run. To be called at most run_count times. */
uint64_t cli_slice_next(cli_slice *slice);

/* Reads "A:B", "A:", ":B" or ":" against a size. Returns 1 and sets first byte and length, or 0. */
int cli_slice_range(const char *text, uint64_t nbytes, uint64_t *first_byte, uint64_t *range_nbytes,
                    char fault[CLI_SLICE_FAULT_NBYTES]);

#endif
