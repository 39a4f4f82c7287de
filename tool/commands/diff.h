/*
 * diff.h - the work behind "lmc-st diff": which tensors of two files hold the same content. It prints
 * nothing.
 */
#ifndef LMC_TOOL_COMMANDS_DIFF_H
#define LMC_TOOL_COMMANDS_DIFF_H

#include "lmc_st.h"

/* Two tensors of one name, dtype and shape. */
typedef struct cli_pair {
    size_t a, b; /* their numbers */
    int differs; /* set by cli_diff_contents() */
} cli_pair;

/* Decides for each pair whether the contents are equal, by the content hashes of archives where they can be
 * compared, by hashing the plain file, or byte by byte; reads no more than that needs. In bounded memory.
 * Errors: IO, NOMEM, CANCELLED, and of frames CORRUPT, CHECKSUM, UNSUPPORTED, TRUNCATED. */
lmc_status cli_diff_contents(const lmc_st_file *a, const lmc_st_file *b, cli_pair *pairs, size_t pair_count,
                             const lmc_st_options *options, lmc_st_diag *diag);

#endif
