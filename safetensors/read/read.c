/*
 * read.c - reads the content of single tensors, from plain files and from archives.
 */
#include "safetensors/read/read.h"

#include "safetensors/read/reader.h"

/* One range of a tensor of an archive, with a context of its own if the caller gave none. */
static lmc_status read_once(const lmc_st_file *file, lmc_ctx *ctx, size_t index, uint64_t first_byte,
                            size_t nbytes, void *dst, lmc_st_diag *diag)
{
    lmc_ctx *own = NULL;
    st_reader reader;
    if (!ctx && lmc_ctx_create(&file->memory, &own) != LMC_OK)
        return st_fail_nomem(diag);
    lmc_status status = st_reader_open(&reader, file, ctx ? ctx : own, index, diag);
    if (status == LMC_OK)
        status = st_reader_read(&reader, first_byte, nbytes, dst, diag);
    st_reader_close(&reader);
    lmc_ctx_free(own);
    return status;
}

lmc_status st_read_range(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, uint64_t first_byte,
                         size_t nbytes, void *dst, lmc_st_diag *diag)
{
    if (index >= file->header.tensor_count)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this number");
    const uint64_t content_nbytes = st_file_tensor_nbytes(file, (size_t)index);
    if (first_byte > content_nbytes || nbytes > content_nbytes - first_byte) {
        st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the range leaves the tensor's %llu bytes",
                (unsigned long long)content_nbytes);
        return st_file_blame(file, (size_t)index, LMC_ERR_ARG, diag);
    }
    if (nbytes == 0)
        return LMC_OK;
    if (!file->is_archive) {
        const lmc_status status =
            os_input_read(&file->input, file->places[index] + first_byte, dst, nbytes, diag);
        return status == LMC_OK ? LMC_OK : st_file_blame(file, (size_t)index, status, diag);
    }
    return read_once(file, ctx, (size_t)index, first_byte, nbytes, dst, diag);
}

lmc_status st_read(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, void *dst, size_t dst_capacity,
                   lmc_st_diag *diag)
{
    const int is_known = index < file->header.tensor_count;
    const uint64_t nbytes = is_known ? st_file_tensor_nbytes(file, (size_t)index) : 0;
    if (nbytes > dst_capacity) {
        st_fail(diag, LMC_ERR_DST_SMALL, LMC_ST_NO_OFFSET, "the destination is smaller than the tensor");
        return st_file_blame(file, (size_t)index, LMC_ERR_DST_SMALL, diag);
    }
    return st_read_range(file, ctx, index, 0, (size_t)nbytes, dst, diag);
}
