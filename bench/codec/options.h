/* options.h - what the command line asks of lmc-bench. */
#ifndef LMC_BENCH_CODEC_OPTIONS_H
#define LMC_BENCH_CODEC_OPTIONS_H

#include <stddef.h>

typedef enum bench_matrix { BENCH_ONE_SIZE, BENCH_QUICK, BENCH_ALL } bench_matrix;

typedef struct bench_options {
    bench_matrix matrix;
    const char *matrix_name; /* NULL: one size */
    size_t tensor_nbytes;    /* of BENCH_ONE_SIZE */
    size_t largest_nbytes;   /* of the sizes of a matrix */
    size_t pass_nbytes;      /* content of a cold pass: more than the caches hold */
    size_t peer_nbytes;      /* of content that peers get; 0: no peers */
    size_t repeats;
    const char *set, *level, *kind, *regime, *only; /* names; NULL: all */
    const char *profile;                            /* NULL: none */
    const char *json;                               /* NULL: none */
    int first_file;                                 /* in argv; argc: none */
} bench_options;

extern const char bench_usage[];
extern const char *const bench_set_names[]; /* NULL after the last */

/* Returns 0, or -1 for wrong usage. */
int bench_parse_options(int argc, char **argv, bench_options *options);

/* wanted is NULL, or the name. */
int bench_is_wanted(const char *wanted, const char *name);

#endif
