/*
 * guess_sample.h - what a guess of the dtype looks at: runs spread over the content, at multiples of 8. In memory
 * lmc_dtype_guess() looks at them; liblmc_st reads those of a file for it.
 */
#ifndef LMC_COMMON_GUESS_SAMPLE_H
#define LMC_COMMON_GUESS_SAMPLE_H

#include "common/compiler.h"

#define LMC_GUESS_RUN_NBYTES 2048
#define LMC_GUESS_RUN_COUNT 8
#define LMC_GUESS_NBYTES (LMC_GUESS_RUN_NBYTES * LMC_GUESS_RUN_COUNT) /* less content is taken whole */

/* Where run i begins in LMC_GUESS_NBYTES of content or more. */
LMC_INLINE uint64_t lmc_guess_run_offset(uint64_t nbytes, unsigned i)
{
    return (nbytes - LMC_GUESS_RUN_NBYTES) / (LMC_GUESS_RUN_COUNT - 1) * i / 8 * 8;
}

#endif
