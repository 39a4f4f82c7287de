/*
 * api.c - the calls on whole files, each of which has one module for files and one for directories.
 */
#include "safetensors/common/options.h"
#include "safetensors/convert/convert_file.h"
#include "safetensors/files/kept.h"
#include "safetensors/restore/restore.h"
#include "safetensors/tree/check.h"
#include "safetensors/tree/directory.h"

lmc_status lmc_st_convert(const char *in_path, const char *out_path, const lmc_st_convert_options *options,
                          lmc_st_result *result, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin_convert(&call, in_path, options, result, diag);
    const st_place out = st_place_of(out_path);
    if (status == LMC_OK)
        status = st_kept_check_output(&call.options, out_path, call.diag);
    if (status == LMC_OK)
        status = st_is_directory(in_path, &call.options)
                     ? st_tree_convert(in_path, out_path, 1, &call.options, call.result, call.diag)
                     : st_convert_file(in_path, &out, &call.options, call.result, call.diag);
    return st_call_end(&call, status);
}

lmc_status lmc_st_restore(const char *in_path, const char *out_path, const lmc_st_restore_options *options,
                          lmc_st_result *result, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin_restore(&call, in_path, options, result, diag);
    const st_place out = st_place_of(out_path);
    if (status == LMC_OK)
        status = st_kept_check_output(&call.options, out_path, call.diag);
    if (status == LMC_OK)
        status = st_is_directory(in_path, &call.options)
                     ? st_tree_restore(in_path, out_path, &call.options, call.result, call.diag)
                     : st_restore_file(in_path, &out, &call.options, call.result, call.diag);
    return st_call_end(&call, status);
}

lmc_status lmc_st_verify(const char *in_path, const lmc_st_verify_options *options, lmc_st_result *result,
                         lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin_verify(&call, in_path, options, result, diag);
    if (status == LMC_OK)
        status = st_is_directory(in_path, &call.options)
                     ? st_tree_verify(in_path, &call.options, call.result, call.diag)
                     : st_verify_file(in_path, &call.options, call.result, call.diag);
    return st_call_end(&call, status);
}

lmc_status lmc_st_compare(const char *archive_path, const char *plain_path,
                          const lmc_st_compare_options *options, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin_compare(&call, archive_path, options, diag);
    if (status == LMC_OK)
        status = st_is_directory(archive_path, &call.options)
                     ? st_tree_compare(archive_path, plain_path, &call.options, call.diag)
                     : st_compare_files(archive_path, -1, plain_path, &call.options, call.diag);
    return st_call_end(&call, status);
}
