/*
 * restore_file.c - restore/restore.h: a whole archive becomes the file that it was made from, or with damage the part
 * of it that is sound.
 */
#include "safetensors/restore/restore.h"

#include "safetensors/base/content.h"
#include "safetensors/restore/salvage.h"

/* The result stays as it is if there is no output. After a salvage with damage there is one, and the status is that of
 * the first damage. */
static lmc_status restore_open_file(const lmc_st_file *source, const os_place *out,
                                    const lmc_st_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    os_output output;
    lmc_st_diag damage;
    lmc_st_result found = *result;
    found.file_nbytes = source->file_nbytes;
    found.stored_nbytes = source->input.nbytes;
    found.tensor_count = source->header.tensor_count;
    found.is_archive = 1;
    found.container = source->container;
    ST_TRY(options->salvage ? LMC_OK : st_content_open_files(source, diag));
    ST_TRY(st_file_check_output(source, out->path, options->out_fd, diag));
    ST_TRY(os_output_open(&output, options, out, &source->input, 1, diag));
    const st_restoration whole = {
        .source = source, .options = options, .output = &output, .with_skeleton = 1};
    const lmc_status written = options->salvage
                                   ? st_salvage_tensors(source, &output, options, &found, &damage, diag)
                                   : st_restore_tensors(&whole, diag);
    ST_TRY(os_output_close(&output, options, written, diag));
    *result = found;
    if (found.damaged_count > 0)
        *diag = damage;
    return found.damaged_count > 0 ? damage.status : LMC_OK;
}

lmc_status st_restore_file(const char *in_path, const os_place *out, const lmc_st_options *options,
                           lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_file *source = NULL;
    lmc_status status = st_file_open_input(in_path, options, &source, diag);
    if (status == LMC_OK && !source->is_archive)
        status = st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "is a plain %s file, not an LMC archive",
                         lmc_st_container_name(source->container));
    if (status == LMC_OK)
        status = restore_open_file(source, out, options, result, diag);
    lmc_st_close(source);
    return status;
}
