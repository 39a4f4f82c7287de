/*
 * safetensors.c - container/container.h: a safetensors file, whose header says all (docs/archive.md, section 2).
 */
#include "safetensors/container/container.h"
#include "safetensors/header/sniff.h"

/* The length of a header that fits the file, and its brace behind it, or white space. */
static int is_like(const st_reading *reading, const unsigned char *head, size_t nbytes, lmc_st_diag *diag)
{
    (void)diag;
    if (nbytes < 9)
        return 0;
    const uint64_t length = st_load_u64(head);
    return length > 0 && length <= LMC_ST_HEADER_NBYTES_MAX && length <= reading->input->nbytes - 8 &&
           (head[8] == '{' || head[8] == ' ' || head[8] == '\t' || head[8] == '\n' || head[8] == '\r');
}

/* A file without a usable header: says what it is if that can be told, else `fault`. */
static lmc_status refuse_start(const os_input *input, lmc_status status, const char *fault, lmc_st_diag *diag)
{
    unsigned char start[ST_SNIFF_NBYTES];
    const size_t nbytes = input->nbytes < sizeof start ? (size_t)input->nbytes : sizeof start;
    ST_TRY(os_input_read(input, 0, start, nbytes, diag));
    const char *const meaning = st_sniff(start, nbytes);
    if (meaning)
        return st_fail(diag, LMC_ERR_HEADER, 0, "this is no safetensors file but %s", meaning);
    return st_fail(diag, status, 0, "%s", fault);
}

static lmc_status check_header_length(const os_input *input, uint64_t length, lmc_st_diag *diag)
{
    const uint64_t left = input->nbytes - 8;
    if (length > LMC_ST_HEADER_NBYTES_MAX)
        return refuse_start(input, LMC_ERR_LIMIT,
                            "the header's length exceeds 100,000,000 bytes: this is no safetensors file",
                            diag);
    if (length > left) {
        const lmc_status status =
            refuse_start(input, LMC_ERR_TRUNCATED, "the header's length exceeds the file", diag);
        return status != LMC_ERR_TRUNCATED
                   ? status
                   : st_fail(diag, status, input->nbytes,
                             "the file is cut short within its header: %llu bytes of it are missing",
                             (unsigned long long)(length - left));
    }
    return length == 0 ? st_fail(diag, LMC_ERR_HEADER, 0, "the header's length is 0") : LMC_OK;
}

/* The header that stands in this file: a plain file's, or an archive header. */
static lmc_status read_header(const st_reading *reading, st_header *header, lmc_st_diag *diag)
{
    const os_input *const input = reading->input;
    unsigned char length_bytes[8];
    if (input->nbytes == 0)
        return st_fail(diag, LMC_ERR_TRUNCATED, 0, "the file is empty");
    if (input->nbytes < sizeof length_bytes)
        return refuse_start(input, LMC_ERR_TRUNCATED, "the file has fewer than 8 bytes", diag);
    ST_TRY(os_input_read(input, 0, length_bytes, sizeof length_bytes, diag));
    const uint64_t length = st_load_u64(length_bytes);
    ST_TRY(check_header_length(input, length, diag));
    unsigned char *const text = st_allocate(reading->memory, (size_t)length);
    if (!text)
        return st_fail_nomem(diag);
    lmc_status status = os_input_read(input, 8, text, (size_t)length, diag);
    st_json json = {.text = text, .nbytes = (size_t)length};
    if (status == LMC_OK && !st_json_try(&json, '{'))
        status = refuse_start(input, LMC_ERR_HEADER, "malformed header: it does not begin with '{'", diag);
    if (status != LMC_OK) {
        st_release(reading->memory, text);
        return status;
    }
    const st_header_text source = {text, (size_t)length, 8, input->nbytes - 8 - length,
                                   reading->may_be_short};
    return reading->parse(reading->user, header, &source, diag);
}

static lmc_status read_file(const st_reading *reading, st_contents *contents, lmc_st_diag *diag)
{
    st_header *const header = &contents->header;
    ST_TRY(read_header(reading, header, diag));
    contents->places = st_allocate(reading->memory, (header->tensor_count + 1) * sizeof *contents->places);
    if (!contents->places)
        return st_fail_nomem(diag);
    const uint64_t data_offset = 8 + header->text_nbytes;
    for (size_t i = 0; i < header->tensor_count; i++)
        contents->places[i] = data_offset + header->tensors[i].begin;
    contents->places[header->tensor_count] =
        data_offset + (header->tensor_count == 0 ? 0 : header->tensors[header->tensor_count - 1].end);
    return LMC_OK;
}

const st_container_reader st_safetensors_reader = {LMC_ST_CONTAINER_SAFETENSORS, is_like, read_file};
