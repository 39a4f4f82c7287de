/*
 * salvage.c - a safetensors file of those tensors of a damaged archive that verify: a first pass finds
 * them, a second one writes them behind a header that names them alone.
 */
#include "safetensors/common/parts.h"
#include "safetensors/engine/engine.h"
#include "safetensors/restore/restore.h"

#include <stdio.h>
#include <string.h>

typedef struct salvage {
    const lmc_st_file *source;
    const lmc_st_options *options; /* of a pass */
    st_parts *passes;
    st_damage_log log;
    uint64_t *places; /* in the output */
    char *text;       /* its header; NULL while that is only measured */
    size_t text_nbytes;
    uint64_t file_nbytes;
} salvage;

/* Longest number in decimal. */
#define DIGITS_MAX 20

static void put(salvage *salvage, const void *bytes, size_t nbytes)
{
    if (salvage->text)
        memcpy(salvage->text + salvage->text_nbytes, bytes, nbytes);
    salvage->text_nbytes += nbytes;
}

static void put_text(salvage *salvage, const char *text)
{
    put(salvage, text, strlen(text));
}

static void put_u64(salvage *salvage, uint64_t value)
{
    char digits[DIGITS_MAX + 1];
    put(salvage, digits, (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value));
}

static void put_tensor(salvage *salvage, const st_tensor *tensor, uint64_t begin)
{
    const st_header *const header = &salvage->source->header;
    put(salvage, header->text + tensor->raw_name.offset, tensor->raw_name.nbytes);
    put_text(salvage, ":{\"dtype\":\"");
    put_text(salvage, lmc_dtype_name((lmc_dtype)tensor->dtype));
    put_text(salvage, "\",\"shape\":[");
    st_shape shape = st_header_shape(header, tensor);
    for (unsigned i = 0; i < tensor->rank; i++) {
        put_text(salvage, i == 0 ? "" : ",");
        put_u64(salvage, st_shape_next(&shape));
    }
    put_text(salvage, "],\"data_offsets\":[");
    put_u64(salvage, begin);
    put_text(salvage, ",");
    put_u64(salvage, begin + (tensor->end - tensor->begin));
    put_text(salvage, "]}");
}

/* Writes or measures the header's text and fills in the places. */
static void lay_out(salvage *salvage)
{
    const st_header *const header = &salvage->source->header;
    uint64_t begin = 0;
    salvage->text_nbytes = 0;
    int is_first = header->metadata.nbytes == 0; /* member of the object */
    put_text(salvage, "{");
    if (header->metadata.nbytes > 0) {
        put_text(salvage, "\"__metadata__\":");
        put(salvage, header->text + header->metadata.offset, header->metadata.nbytes);
    }
    for (size_t i = 0; i < header->tensor_count; i++) {
        salvage->places[i] = ST_NOWHERE;
        if (!salvage->log.is_lost[i]) {
            put_text(salvage, is_first ? "" : ",");
            is_first = 0;
            put_tensor(salvage, &header->tensors[i], begin);
            salvage->places[i] = begin;
            begin += header->tensors[i].end - header->tensors[i].begin;
        }
    }
    put_text(salvage, "}");
    while (salvage->text_nbytes % 8 != 0)
        put_text(salvage, " ");
    for (size_t i = 0; i < header->tensor_count; i++)
        salvage->places[i] += salvage->places[i] == ST_NOWHERE ? 0 : 8 + salvage->text_nbytes;
    salvage->file_nbytes = 8 + salvage->text_nbytes + begin;
}

static lmc_status write_output(salvage *salvage, os_output *output, lmc_st_diag *diag)
{
    unsigned char length[8];
    const st_restoration restoration = {
        .source = salvage->source, .options = salvage->options, .output = output, .places = salvage->places};
    st_store_u64(length, salvage->text_nbytes);
    lmc_status status = os_output_write(output, 0, length, sizeof length, diag);
    if (status == LMC_OK)
        status = os_output_write(output, 8, salvage->text, salvage->text_nbytes, diag);
    return status == LMC_OK ? st_restore_tensors(&restoration, diag) : status;
}

/* Nothing is lost: the original itself. */
static lmc_status write_original(const salvage *salvage, os_output *output, lmc_st_diag *diag)
{
    const st_restoration restoration = {
        .source = salvage->source, .options = salvage->options, .output = output};
    const lmc_status status = st_restore_write_header(salvage->source, output, diag);
    return status == LMC_OK ? st_restore_tensors(&restoration, diag) : status;
}

static lmc_status run(salvage *salvage, os_output *output, lmc_st_diag *diag)
{
    const st_header *const header = &salvage->source->header;
    const lmc_allocator *const memory = salvage->options->allocator;
    const st_restoration check = {
        .source = salvage->source, .options = salvage->options, .log = &salvage->log};
    st_parts_begin(salvage->passes, header->data_nbytes);
    lmc_status status = st_restore_tensors(&check, diag);
    if (status != LMC_OK)
        return status;
    st_parts_end(salvage->passes);
    st_parts_begin(salvage->passes, header->data_nbytes);
    if (salvage->log.lost_count == 0) {
        salvage->file_nbytes = salvage->source->file_nbytes;
        return write_original(salvage, output, diag);
    }
    salvage->places = st_allocate(memory, (header->tensor_count + 1) * sizeof *salvage->places);
    if (!salvage->places)
        return st_fail_nomem(diag);
    lay_out(salvage);
    salvage->text = st_allocate(memory, salvage->text_nbytes);
    if (!salvage->text)
        return st_fail_nomem(diag);
    lay_out(salvage);
    return write_output(salvage, output, diag);
}

lmc_status st_salvage_open_file(const lmc_st_file *source, const os_place *out, const lmc_st_options *options,
                                lmc_st_result *result, lmc_st_diag *diag)
{
    os_output output;
    st_parts passes = {.options = options, .total_nbytes = 2 * source->header.data_nbytes};
    const lmc_st_options inner = st_parts_options(&passes);
    salvage salvage = {.source = source, .options = &inner, .passes = &passes};
    lmc_status status = st_restore_create_output(&output, source, out, options, diag);
    if (status != LMC_OK)
        return status;
    status = st_damage_log_init(&salvage.log, options->allocator, source->header.tensor_count, diag);
    if (status == LMC_OK)
        status = run(&salvage, &output, diag);
    if (status == LMC_OK)
        st_parts_end(&passes);
    if (status != LMC_OK)
        os_output_discard(&output);
    else
        status = os_output_commit(&output, options->force, options->no_fsync, diag);
    if (status == LMC_OK) {
        result->damaged_count = salvage.log.lost_count;
        result->tensor_count = source->header.tensor_count - salvage.log.lost_count;
        result->file_nbytes = salvage.file_nbytes;
    }
    if (status == LMC_OK && salvage.log.lost_count > 0) {
        *diag = salvage.log.first;
        status = diag->status;
    }
    st_release(options->allocator, salvage.places);
    st_release(options->allocator, salvage.text);
    st_damage_log_free(&salvage.log, options->allocator);
    return status;
}
