/*
 * cli_bench.h - the work behind "lmc-st bench": a sample of tensors in memory, encoded, decoded and copied
 * under a clock. It prints nothing but faults.
 */
#ifndef LMC_ST_CLI_BENCH_H
#define LMC_ST_CLI_BENCH_H

#include "lmc_st.h"

/* What is measured of a file: whole tensors in the order of their data, as many as fit. */
typedef struct cli_sample {
    const lmc_st_file *file;
    uint64_t *indices; /* of the tensors */
    size_t count;
    uint64_t nbytes;
    uint64_t cut_nbytes; /* not 0: only so much of the only tensor is taken, because none fits whole */
} cli_sample;

/* One line of the result. */
typedef struct cli_bench_row {
    lmc_level level;
    uint64_t passes; /* over the sample */
    uint64_t content_nbytes, frame_nbytes;
    double encode_seconds, decode_seconds, memcpy_seconds;
} cli_bench_row;

/* Chooses the tensors. Error: NOMEM. Free with cli_sample_free() in every case. */
lmc_status cli_sample_choose(const lmc_st_file *file, uint64_t nbytes_max, cli_sample *sample);
void cli_sample_free(cli_sample *sample);

/* Reads the sample and measures all levels with the kernel set of this process; takes each row when it is
 * there (returns 0 to stop). Returns the exit status, after a message if it is not CLI_OK. */
int cli_bench_run(const cli_sample *sample, unsigned thread_count,
                  int (*take)(void *user, const cli_bench_row *row), void *user);

#endif
