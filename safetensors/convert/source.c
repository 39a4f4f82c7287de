/*
 * source.c - reads the tensors of an open plain file as a source, and names a tensor in a diagnostic.
 */
#include "safetensors/convert/source.h"

static lmc_status read_file(const st_source *source, size_t index, uint64_t offset, void *dst, size_t nbytes,
                            lmc_st_diag *diag)
{
    const lmc_st_file *const file = source->owner;
    const lmc_status status = os_input_read(&file->input, file->places[index] + offset, dst, nbytes, diag);
    return status == LMC_OK ? LMC_OK : st_file_blame(file, index, status, diag);
}

st_source st_source_of_file(const lmc_st_file *file)
{
    const st_source source = {.container = file->container,
                              .header = &file->header,
                              .file_nbytes = file->file_nbytes,
                              .input = &file->input,
                              .places = file->places,
                              .owner = file,
                              .read = read_file};
    return source;
}

lmc_status st_source_blame(const st_source *source, size_t index, lmc_status status, lmc_st_diag *diag)
{
    const st_string name = st_header_name(source->header, index);
    st_diag_set_tensor(diag, name.bytes, name.nbytes);
    return status;
}
