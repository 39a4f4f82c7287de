/*
 * options.c - completes what a call on whole files was given, and gives back results and diagnostics.
 */
#include "safetensors/common/options.h"

#include "safetensors/common/memory.h"
#include "safetensors/common/st_common.h"

#include <string.h>

void lmc_st_options_init_sized(lmc_st_options *options, size_t struct_size)
{
    const lmc_st_options defaults = {
        .struct_size = struct_size, .level = LMC_LEVEL_DEFAULT, .in_fd = -1, .out_fd = -1};
    memcpy(options, &defaults, sizeof defaults.struct_size);
    if (lmc_struct_is_known(options, sizeof defaults))
        lmc_struct_copy(options, &defaults, struct_size);
}

/* Copies the caller's options, or the defaults for NULL. Fields that a caller built against an older
 * header does not have keep their defaults. Error: ARG. */
static lmc_status copy_options(lmc_st_options *options, const lmc_st_options *from, lmc_st_diag *diag)
{
    lmc_st_options_init(options);
    options->allocator = &lmc_memory_default;
    if (!from)
        return LMC_OK;
    if (!lmc_struct_is_known(from, sizeof *options))
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "the options are not initialised, or of a newer version");
    lmc_struct_copy(options, from, from->struct_size);
    if (!options->allocator)
        options->allocator = &lmc_memory_default;
    if (options->thread_count > LMC_THREAD_COUNT_MAX || options->level < LMC_LEVEL_DEFAULT ||
        options->level > LMC_LEVEL_MAX)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "an option is out of its range");
    return LMC_OK;
}

lmc_status st_call_begin(st_call *call, const char *path, const lmc_st_options *options,
                         lmc_st_result *result, lmc_st_diag *diag)
{
    const int is_diag_known = !diag || lmc_struct_is_known(diag, sizeof *diag);
    const int is_result_known = !result || lmc_struct_is_known(result, sizeof *result);
    call->given_diag = is_diag_known ? diag : NULL;
    call->given_result = is_result_known ? result : NULL;
    call->diag = &call->own_diag;
    call->result = &call->own_result;
    call->own_result = (lmc_st_result)LMC_INIT(lmc_st_result);
    st_diag_init(call->diag, path);
    const lmc_status status = copy_options(&call->options, options, call->diag);
    if (is_diag_known && is_result_known)
        return status;
    return st_fail(call->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                   "result or diagnostic are not initialised, or of a newer version");
}

/* Takes out what a failure has left that the call got over. The file stays. */
static void clear_failure(lmc_st_diag *diag)
{
    lmc_st_diag cleared = LMC_INIT(lmc_st_diag);
    cleared.offset = LMC_ST_NO_OFFSET;
    memcpy(cleared.file, diag->file, sizeof cleared.file);
    *diag = cleared;
}

lmc_status st_call_end(st_call *call, lmc_status status)
{
    if (status == LMC_OK && call->diag->status != LMC_OK)
        clear_failure(call->diag);
    if (call->given_diag)
        lmc_struct_copy(call->given_diag, call->diag, call->given_diag->struct_size);
    if (call->given_result)
        lmc_struct_copy(call->given_result, call->result, call->given_result->struct_size);
    return status;
}
