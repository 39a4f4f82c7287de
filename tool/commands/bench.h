/*
 * bench.h - what the two files of "lmc-st bench" share: the sample in memory, and a row of the result. bench.c chooses
 * and reads the sample and prints, bench_run.c measures.
 */
#ifndef LMC_TOOL_COMMANDS_BENCH_H
#define LMC_TOOL_COMMANDS_BENCH_H

#include "lmc_st.h"

/* One tensor of the sample. */
typedef struct cli_part {
    uint64_t index; /* in the file */
    lmc_dtype dtype;
    unsigned char *content;
    size_t nbytes, frame_nbytes;
    unsigned char *base; /* NULL: the base has no tensor that belongs to this one */
    size_t base_nbytes;
    lmc_base_form base_form;
} cli_part;

/* The tensors that are measured, in the order of their data, and their contents one behind the other. */
typedef struct cli_sample {
    cli_part *parts;
    size_t count;
    uint64_t nbytes;
    int is_cut; /* the only tensor is larger than a sample: its beginning is taken */
    int has_base;
    unsigned char *content, *base; /* of all parts */
} cli_sample;

/* One line of the result. */
typedef struct cli_bench_row {
    lmc_level level;
    int has_base;    /* coded against the base */
    uint64_t passes; /* over the sample */
    uint64_t content_nbytes, frame_nbytes;
    double encode_seconds, decode_seconds, memcpy_seconds;
} cli_bench_row;

/* Measures all levels, and if there is a base all levels against it. take() gets each row when it is there. Returns the
 * exit status, after a message if it is not CLI_OK. */
int cli_bench_run(const cli_sample *sample, unsigned thread_count,
                  void (*take)(void *user, const cli_bench_row *row), void *user);

#endif
