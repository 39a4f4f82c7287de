/*
 * bench.h - the work behind "lmc-st bench": a sample of tensors in memory, encoded, decoded and copied
 * under a clock. It prints nothing but faults.
 */
#ifndef LMC_TOOL_COMMANDS_BENCH_H
#define LMC_TOOL_COMMANDS_BENCH_H

#include "lmc_st.h"

/* What is measured of a file: whole tensors in the order of their data, as many as fit. */
typedef struct cli_sample {
    const lmc_st_file *file;
    const lmc_st_file *base; /* an earlier snapshot of it, or NULL */
    uint64_t *indices;       /* of the tensors */
    size_t count;
    uint64_t nbytes;
    uint64_t cut_nbytes; /* not 0: only so much of the only tensor is taken, because none fits whole */
} cli_sample;

/* One tensor of it in memory. */
typedef struct cli_part {
    unsigned char *content;
    size_t nbytes;
    size_t frame_nbytes;
    lmc_dtype dtype;
    int has_base; /* the base has a tensor that belongs to it */
    uint64_t base_index;
    unsigned char *base; /* NULL without */
    size_t base_nbytes;
    lmc_base_form base_form;
} cli_part;

/* One line of the result. */
typedef struct cli_bench_row {
    lmc_level level;
    int has_base;    /* coded against the base */
    uint64_t passes; /* over the sample */
    uint64_t content_nbytes, frame_nbytes;
    double encode_seconds, decode_seconds, memcpy_seconds;
} cli_bench_row;

/* Chooses the tensors, without a base. Error: NOMEM. Free with cli_sample_free() in every case. */
lmc_status cli_sample_choose(const lmc_st_file *file, uint64_t nbytes_max, cli_sample *sample);
void cli_sample_free(cli_sample *sample);

/* Reads the contents, one behind the other, to `content` (sample->nbytes bytes), and finds the tensors of the
 * base that belong to them; fills parts, one per tensor, but for base. Then the base can be read likewise to
 * `dst` of cli_sample_base_nbytes() bytes. Return the exit status, after a message if it is not CLI_OK. */
int cli_sample_read(const cli_sample *sample, lmc_ctx *ctx, unsigned char *content, cli_part *parts);
uint64_t cli_sample_base_nbytes(const cli_sample *sample, const cli_part *parts);
int cli_sample_read_base(const cli_sample *sample, lmc_ctx *ctx, unsigned char *dst, cli_part *parts);

/* Reads the sample and measures all levels, and if there is a base all levels against it, with the kernel set
 * of this process; takes each row when it is there (returns 0 to stop). Returns the exit status, after a
 * message if it is not CLI_OK. */
int cli_bench_run(const cli_sample *sample, unsigned thread_count,
                  int (*take)(void *user, const cli_bench_row *row), void *user);

#endif
