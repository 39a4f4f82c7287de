/*
 * options.c - completes what a public call was given, and gives back results and diagnostics.
 */
#include "safetensors/common/options.h"

#include "safetensors/common/memory.h"

#include <string.h>

void st_options_init(st_options *options)
{
    *options = (st_options){.allocator = &lmc_memory_default, .in_fd = -1, .out_fd = -1};
}

static lmc_status refuse(st_call *call, const char *text)
{
    return st_fail(call->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "%s", text);
}

lmc_status st_call_begin(st_call *call, const char *path, lmc_st_result *result, lmc_st_diag *diag)
{
    const int is_diag_known = !diag || lmc_struct_is_known(diag, sizeof *diag);
    const int is_result_known = !result || lmc_struct_is_known(result, sizeof *result);
    call->given_diag = is_diag_known ? diag : NULL;
    call->given_result = is_result_known ? result : NULL;
    call->diag = &call->own_diag;
    call->result = &call->own_result;
    call->own_result = (lmc_st_result)LMC_INIT(lmc_st_result);
    st_diag_init(call->diag, path);
    st_options_init(&call->options);
    call->has_allocator = 0;
    return is_diag_known && is_result_known
               ? LMC_OK
               : refuse(call, "result or diagnostic are not initialised, or of a newer version");
}

lmc_status st_call_end(st_call *call, lmc_status status)
{
    if (status == LMC_OK && call->diag->status != LMC_OK) { /* of a failure that the call got over */
        lmc_st_diag cleared = LMC_INIT(lmc_st_diag);
        cleared.offset = LMC_ST_NO_OFFSET;
        memcpy(cleared.file, call->diag->file, sizeof cleared.file);
        *call->diag = cleared;
    }
    if (call->given_diag)
        lmc_struct_copy(call->given_diag, call->diag, call->given_diag->struct_size);
    if (call->given_result)
        lmc_struct_copy(call->given_result, call->result, call->given_result->struct_size);
    return status;
}

/* ---- options ---- */

lmc_status st_call_copy(st_call *call, const void *given, void *own)
{
    if (given && !lmc_struct_is_known(given, lmc_struct_size(own)))
        return refuse(call, "the options are not initialised, or of a newer version");
    if (given)
        lmc_struct_copy(own, given, lmc_struct_size(given));
    return LMC_OK;
}

lmc_status st_call_set_allocator(st_call *call, const lmc_allocator *allocator)
{
    if (!lmc_allocator_is_whole(allocator))
        return refuse(call, "the allocator lacks a function");
    call->has_allocator = allocator != NULL;
    if (allocator)
        call->options.allocator = allocator;
    return LMC_OK;
}

lmc_status st_call_set_common(st_call *call, const lmc_st_common *common)
{
    st_options *const options = &call->options;
    options->thread_count = common->thread_count;
    options->progress = common->progress;
    options->user = common->user;
    options->cancel = common->cancel;
    LMC_TRY(st_call_set_allocator(call, common->allocator));
    return common->thread_count <= LMC_THREAD_COUNT_MAX ? LMC_OK
                                                        : refuse(call, "thread_count is out of its range");
}

lmc_status st_call_set_level(st_call *call, lmc_level level)
{
    call->options.level = level;
    return level >= LMC_LEVEL_DEFAULT && level <= LMC_LEVEL_MAX
               ? LMC_OK
               : refuse(call, "the level is out of its range");
}

/* fd is 0 if it was not set, and so is standard input: has_fd tells which. */
static lmc_status set_fd(st_call *call, int has_fd, int fd, int *own_fd)
{
    if (has_fd ? fd < 0 : fd != 0)
        return refuse(call, "a descriptor is set without has_in_fd or has_out_fd, or is negative");
    *own_fd = has_fd ? fd : -1;
    return LMC_OK;
}

static void set_base(st_call *call, const char *base, const char *const *dirs, size_t dir_count)
{
    call->options.base = base;
    call->options.base_dirs = dirs;
    call->options.base_dir_count = dir_count;
}

lmc_status st_call_begin_plain(st_call *call, const char *path, const lmc_st_options *given,
                               lmc_st_diag *diag)
{
    lmc_st_options own = LMC_INIT(lmc_st_options);
    LMC_TRY(st_call_begin(call, path, NULL, diag));
    LMC_TRY(st_call_copy(call, given, &own));
    return st_call_set_common(call, &own.common);
}

lmc_status st_call_begin_convert(st_call *call, const char *path, const lmc_st_convert_options *given,
                                 lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_convert_options own = LMC_INIT(lmc_st_convert_options);
    LMC_TRY(st_call_begin(call, path, result, diag));
    LMC_TRY(st_call_copy(call, given, &own));
    LMC_TRY(st_call_set_common(call, &own.common));
    LMC_TRY(st_call_set_level(call, own.level));
    LMC_TRY(set_fd(call, own.has_in_fd, own.in_fd, &call->options.in_fd));
    LMC_TRY(set_fd(call, own.has_out_fd, own.out_fd, &call->options.out_fd));
    set_base(call, own.base, own.base_dirs, own.base_dir_count);
    call->options.force = own.force;
    call->options.no_fsync = own.no_fsync;
    call->options.raw = own.raw;
    call->options.excludes = own.excludes;
    call->options.exclude_count = own.exclude_count;
    call->options.file_done = own.file_done;
    call->options.warning = own.warning;
    return LMC_OK;
}

lmc_status st_call_begin_restore(st_call *call, const char *path, const lmc_st_restore_options *given,
                                 lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_restore_options own = LMC_INIT(lmc_st_restore_options);
    LMC_TRY(st_call_begin(call, path, result, diag));
    LMC_TRY(st_call_copy(call, given, &own));
    LMC_TRY(st_call_set_common(call, &own.common));
    LMC_TRY(set_fd(call, own.has_in_fd, own.in_fd, &call->options.in_fd));
    LMC_TRY(set_fd(call, own.has_out_fd, own.out_fd, &call->options.out_fd));
    set_base(call, own.base, own.base_dirs, own.base_dir_count);
    call->options.force = own.force;
    call->options.no_fsync = own.no_fsync;
    call->options.salvage = own.salvage;
    call->options.damage = own.damage;
    call->options.file_done = own.file_done;
    return LMC_OK;
}

lmc_status st_call_begin_verify(st_call *call, const char *path, const lmc_st_verify_options *given,
                                lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_verify_options own = LMC_INIT(lmc_st_verify_options);
    LMC_TRY(st_call_begin(call, path, result, diag));
    LMC_TRY(st_call_copy(call, given, &own));
    LMC_TRY(st_call_set_common(call, &own.common));
    LMC_TRY(set_fd(call, own.has_in_fd, own.in_fd, &call->options.in_fd));
    set_base(call, own.base, own.base_dirs, own.base_dir_count);
    call->options.sha256 = own.sha256;
    call->options.damage = own.damage;
    call->options.file_done = own.file_done;
    return LMC_OK;
}

lmc_status st_call_begin_compare(st_call *call, const char *path, const lmc_st_compare_options *given,
                                 lmc_st_diag *diag)
{
    lmc_st_compare_options own = LMC_INIT(lmc_st_compare_options);
    LMC_TRY(st_call_begin(call, path, NULL, diag));
    LMC_TRY(st_call_copy(call, given, &own));
    set_base(call, own.base, own.base_dirs, own.base_dir_count);
    return st_call_set_common(call, &own.common);
}

lmc_status st_call_begin_write(st_call *call, const char *path, const lmc_st_write_options *given,
                               lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_write_options own = LMC_INIT(lmc_st_write_options);
    LMC_TRY(st_call_begin(call, path, result, diag));
    LMC_TRY(st_call_copy(call, given, &own));
    LMC_TRY(st_call_set_common(call, &own.common));
    LMC_TRY(st_call_set_level(call, own.level));
    LMC_TRY(set_fd(call, own.has_out_fd, own.out_fd, &call->options.out_fd));
    set_base(call, own.base, own.base_dirs, own.base_dir_count);
    call->options.force = own.force;
    call->options.no_fsync = own.no_fsync;
    call->options.base_writer = own.base_writer;
    return LMC_OK;
}

lmc_status st_call_begin_output(st_call *call, const char *path, const lmc_st_output_options *given,
                                lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_output_options own = LMC_INIT(lmc_st_output_options);
    LMC_TRY(st_call_begin(call, path, result, diag));
    LMC_TRY(st_call_copy(call, given, &own));
    LMC_TRY(st_call_set_common(call, &own.common));
    call->options.force = own.force;
    call->options.no_fsync = own.no_fsync;
    return set_fd(call, own.has_out_fd, own.out_fd, &call->options.out_fd);
}
