/*
 * restore_file.c - restore/restore.h: a whole archive becomes the file that it was made from.
 */
#include "safetensors/restore/restore.h"

#include "safetensors/base/content.h"
#include "safetensors/tree/model_dir.h"

#include <string.h>

lmc_status st_restore_write_header(const lmc_st_file *source, const os_output *output, lmc_st_diag *diag)
{
    unsigned char length[8];
    st_store_u64(length, source->header.text_nbytes);
    const lmc_status status = os_output_write(output, 0, length, sizeof length, diag);
    return status != LMC_OK ? status
                            : os_output_write(output, sizeof length, source->header.text,
                                              source->header.text_nbytes, diag);
}

lmc_status st_restore_create_output(os_output *output, const lmc_st_file *source, const os_place *out,
                                    const lmc_st_options *options, lmc_st_diag *diag)
{
    const lmc_status status = st_file_check_output(source, out->path, options->out_fd, diag);
    if (status != LMC_OK)
        return status;
    return options->out_fd >= 0
               ? os_output_create_stream(output, options->allocator, options->out_fd, out->path,
                                         &source->input, 1, options->cancel, diag)
               : os_output_create(output, options->allocator, out, &source->input, options->force, diag);
}

static lmc_status restore_open_file(const lmc_st_file *source, const os_place *out,
                                    const lmc_st_options *options, lmc_st_diag *diag)
{
    os_output output;
    lmc_status status = st_content_open_files(source, diag);
    if (status == LMC_OK)
        status = st_restore_create_output(&output, source, out, options, diag);
    if (status != LMC_OK)
        return status;
    const st_restoration restoration = {.source = source, .options = options, .output = &output};
    status = st_restore_write_header(source, &output, diag);
    if (status == LMC_OK)
        status = st_restore_tensors(&restoration, diag);
    if (status != LMC_OK) {
        os_output_discard(&output);
        return status;
    }
    return os_output_commit(&output, options->force, options->no_fsync, diag);
}

lmc_status st_restore_file(const char *in_path, const os_place *out, const lmc_st_options *options,
                           lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_file *source = NULL;
    lmc_status status = st_file_open_input(in_path, options, &source, diag);
    if (status == LMC_OK && !source->is_archive) {
        status = st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                         "is a plain safetensors file, not an LMC archive");
    }
    if (status == LMC_OK) {
        result->file_nbytes = source->file_nbytes;
        result->stored_nbytes = source->input.nbytes;
        result->tensor_count = source->header.tensor_count;
        result->is_archive = 1;
        status = options->salvage ? st_salvage_open_file(source, out, options, result, diag)
                                  : restore_open_file(source, out, options, diag);
    }
    if (status != LMC_OK && result->damaged_count == 0)
        memset(result, 0, sizeof *result);
    lmc_st_close(source);
    return status;
}
