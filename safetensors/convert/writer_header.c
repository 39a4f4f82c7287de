/*
 * writer_header.c - the JSON header of a safetensors file that is written, in the form that the official
 * package gives it (serde_json: no white space, control characters escaped).
 */
#include "safetensors/convert/writer.h"
#include "safetensors/header/metadata.h"

#include <stdio.h>
#include <string.h>

/* A text that is written, or with dst NULL only measured. */
typedef struct text_out {
    unsigned char *dst;
    size_t nbytes;
} text_out;

static void put(text_out *out, const void *src, size_t nbytes)
{
    if (out->dst)
        memcpy(out->dst + out->nbytes, src, nbytes);
    out->nbytes += nbytes;
}

static void put_text(text_out *out, const char *text)
{
    put(out, text, strlen(text));
}

static void put_u64(text_out *out, uint64_t value)
{
    char digits[24];
    put(out, digits, (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value));
}

static void put_character(text_out *out, unsigned char byte)
{
    static const char letters[] = "btnvfr"; /* of 8 to 13; JSON has none for 11 */
    char escaped[8];
    if (byte == '"' || byte == '\\') {
        snprintf(escaped, sizeof escaped, "\\%c", byte);
    } else if (byte >= 8 && byte <= 13 && byte != 11) {
        snprintf(escaped, sizeof escaped, "\\%c", letters[byte - 8]);
    } else if (byte < 0x20) {
        snprintf(escaped, sizeof escaped, "\\u%04x", byte);
    } else {
        put(out, &byte, 1);
        return;
    }
    put_text(out, escaped);
}

static void put_string(text_out *out, const st_writer_text *text)
{
    put_text(out, "\"");
    for (size_t i = 0; i < text->nbytes; i++)
        put_character(out, (unsigned char)text->bytes[i]);
    put_text(out, "\"");
}

static void put_metadata(text_out *out, const lmc_st_writer *writer)
{
    put_text(out, "\"__metadata__\":{");
    for (size_t i = 0; i < writer->metadata_count; i++) {
        put_text(out, i == 0 ? "" : ",");
        put_string(out, &writer->metadata[i].key);
        put_text(out, ":");
        put_string(out, &writer->metadata[i].value);
    }
    put_text(out, "}");
}

static void put_tensor(text_out *out, const st_writer_tensor *tensor, uint64_t begin)
{
    put_string(out, &tensor->name);
    put_text(out, ":{\"dtype\":\"");
    put_text(out, lmc_dtype_name(tensor->dtype));
    put_text(out, "\",\"shape\":[");
    for (size_t i = 0; i < tensor->rank; i++) {
        put_text(out, i == 0 ? "" : ",");
        put_u64(out, tensor->shape[i]);
    }
    put_text(out, "],\"data_offsets\":[");
    put_u64(out, begin);
    put_text(out, ",");
    put_u64(out, begin + tensor->nbytes);
    put_text(out, "]}");
}

/* The whole text, padded so that the data begins at a multiple of 8. *data_nbytes: of all tensors. */
static void put_header(text_out *out, const lmc_st_writer *writer, const st_writer_tensor *const *order,
                       uint64_t *data_nbytes)
{
    uint64_t begin = 0;
    put_text(out, "{");
    if (writer->metadata_count > 0)
        put_metadata(out, writer);
    for (size_t i = 0; i < writer->tensor_count; i++) {
        put_text(out, i == 0 && writer->metadata_count == 0 ? "" : ",");
        put_tensor(out, order[i], begin);
        begin += order[i]->nbytes;
    }
    put_text(out, "}");
    while (out->nbytes % 8 != 0)
        put_text(out, " ");
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
    text_out out = {NULL, 0};
    uint64_t data_nbytes = 0;
    memset(header, 0, sizeof *header);
    if (!is_possible(writer))
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "the tensors do not fit a file");
    put_header(&out, writer, order, &data_nbytes);
    if (out.nbytes > LMC_ST_HEADER_NBYTES_MAX) {
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "the header would exceed %u bytes",
                       (unsigned)LMC_ST_HEADER_NBYTES_MAX);
    }
    out.dst = st_allocate(&writer->memory, out.nbytes);
    if (!out.dst)
        return st_fail_nomem(diag);
    out.nbytes = 0;
    put_header(&out, writer, order, &data_nbytes);
    const st_header_text source = {out.dst, out.nbytes, 8, data_nbytes, 0};
    const lmc_status status = st_header_parse(header, &writer->memory, &source, diag);
    /* names and keys are the caller's: a repeated one is the request's fault */
    if (status == LMC_ERR_HEADER)
        return diag->status = LMC_ERR_ARG;
    return status == LMC_OK ? check_metadata(header, diag) : status;
}
