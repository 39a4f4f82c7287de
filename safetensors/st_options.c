/*
 * st_options.c - see st_options.h.
 */
#include "st_options.h"

#include <string.h>

void lmc_st_options_init(lmc_st_options *options)
{
    memset(options, 0, sizeof(*options));
    options->struct_size = sizeof(*options);
    options->level = LMC_LEVEL_DEFAULT;
}

lmc_status st_options_copy(lmc_st_options *options, const lmc_st_options *from, lmc_st_diag *diag)
{
    lmc_st_options_init(options);
    if (from == NULL) {
        return LMC_OK;
    }
    if (from->struct_size < sizeof(from->struct_size) || from->struct_size > sizeof(*options)) {
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the options have an unknown size");
    }
    memcpy(options, from, from->struct_size);
    options->struct_size = sizeof(*options);
    if (options->thread_count > LMC_THREAD_COUNT_MAX || options->level < LMC_LEVEL_DEFAULT ||
        options->level > LMC_LEVEL_MAX) {
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "an option is out of its range");
    }
    return LMC_OK;
}
