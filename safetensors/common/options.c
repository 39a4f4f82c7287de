/*
 * options.c - see common/options.h.
 */
#include "safetensors/common/options.h"

#include "safetensors/common/memory.h"

#include <string.h>

void lmc_st_options_init(lmc_st_options *options)
{
    memset(options, 0, sizeof(*options));
    options->struct_size = sizeof(*options);
    options->level = LMC_LEVEL_DEFAULT;
    options->in_fd = -1;
    options->out_fd = -1;
}

lmc_status st_options_copy(lmc_st_options *options, const lmc_st_options *from, lmc_st_diag *diag)
{
    lmc_st_options_init(options);
    options->allocator = &st_memory_default;
    if (from == NULL)
        return LMC_OK;
    if (from->struct_size < sizeof(from->struct_size) || from->struct_size > sizeof(*options))
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the options have an unknown size");
    memcpy(options, from, from->struct_size);
    options->struct_size = sizeof(*options);
    if (options->allocator == NULL)
        options->allocator = &st_memory_default;
    if (options->thread_count > LMC_THREAD_COUNT_MAX || options->level < LMC_LEVEL_DEFAULT ||
        options->level > LMC_LEVEL_MAX)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "an option is out of its range");
    return LMC_OK;
}

lmc_status st_call_begin(st_call *call, const char *path, const lmc_st_options *options,
                         lmc_st_result *result, lmc_st_diag *diag)
{
    call->result = result != NULL ? result : &call->unused_result;
    call->diag = diag != NULL ? diag : &call->unused_diag;
    memset(call->result, 0, sizeof(*call->result));
    st_diag_init(call->diag, path);
    return st_options_copy(&call->options, options, call->diag);
}
