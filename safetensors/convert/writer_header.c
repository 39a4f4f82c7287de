/*
 * writer_header.c - the JSON header of a safetensors file that is written, in the form that the official
 * package gives it (serde_json: no white space, control characters escaped).
 */
#include "safetensors/convert/writer.h"
#include "safetensors/header/header_write.h"
#include "safetensors/header/metadata.h"

#include <string.h>

/* The whole text, padded so that the data begins at a multiple of 8. *data_nbytes: of all tensors. */
static void put_header(st_json_out *out, const lmc_st_writer *writer, const st_writer_tensor *const *order,
                       uint64_t *data_nbytes)
{
    static const char metadata[] = "__metadata__";
    uint64_t begin = 0;
    st_json_put_open(out, '{');
    if (writer->metadata_count > 0) {
        st_json_put_string(out, metadata, sizeof metadata - 1);
        st_json_put_colon(out);
        st_json_put_open(out, '{');
        for (size_t i = 0; i < writer->metadata_count; i++) {
            const st_writer_entry *const entry = &writer->metadata[i];
            st_json_put_string(out, entry->key.bytes, entry->key.nbytes);
            st_json_put_colon(out);
            st_json_put_string(out, entry->value.bytes, entry->value.nbytes);
        }
        st_json_put_close(out, '}');
    }
    for (size_t i = 0; i < writer->tensor_count; i++) {
        const st_writer_tensor *const tensor = order[i];
        st_json_put_string(out, tensor->name.bytes, tensor->name.nbytes);
        st_json_put_colon(out);
        st_header_put_dtype(out, tensor->dtype);
        for (size_t j = 0; j < tensor->rank; j++)
            st_json_put_u64(out, tensor->shape[j]);
        st_header_put_place(out, begin, begin + tensor->nbytes);
        begin += tensor->nbytes;
    }
    st_header_put_end(out);
    *data_nbytes = begin;
}

/* The sizes of all tensors together fit 63 bits. */
static int is_possible(const lmc_st_writer *writer)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < writer->tensor_count; i++)
        if (st_add_overflows(sum, writer->tensors[i].nbytes, &sum) ||
            sum > INT64_MAX - LMC_ST_HEADER_NBYTES_MAX - 8)
            return 0;
    return 1;
}

/* Metadata that says "archive" would make the plain file one that no reader opens. */
static lmc_status check_metadata(const st_header *header, lmc_st_diag *diag)
{
    char version[ST_METADATA_VERSION_NBYTES];
    lmc_status status = LMC_OK;
    const int is_marked = st_metadata_is_marked(header, version, &status);
    if (status != LMC_OK)
        return st_fail_nomem(diag);
    return is_marked ? st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                               "the metadata (format, lmc_archive) are those of an LMC archive")
                     : LMC_OK;
}

lmc_status st_writer_make_header(const lmc_st_writer *writer, const st_writer_tensor *const *order,
                                 st_header *header, lmc_st_diag *diag)
{
    st_json_out out = {0};
    uint64_t data_nbytes = 0;
    memset(header, 0, sizeof *header);
    if (!is_possible(writer))
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "the tensors do not fit a file");
    put_header(&out, writer, order, &data_nbytes);
    if (out.nbytes > LMC_ST_HEADER_NBYTES_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "the header would exceed %u bytes",
                       (unsigned)LMC_ST_HEADER_NBYTES_MAX);
    unsigned char *const text = st_allocate(&writer->memory, out.nbytes);
    if (!text)
        return st_fail_nomem(diag);
    out = (st_json_out){.dst = text, .capacity = out.nbytes};
    put_header(&out, writer, order, &data_nbytes);
    const st_header_text source = {text, out.nbytes, 8, data_nbytes, 0};
    const lmc_status status = st_header_parse(header, &writer->memory, &source, diag);
    /* names and keys are the caller's: a repeated one is the request's fault */
    if (status == LMC_ERR_HEADER)
        return diag->status = LMC_ERR_ARG;
    return status == LMC_OK ? check_metadata(header, diag) : status;
}
