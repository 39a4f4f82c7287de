/*
 * container.c - what kind of file a file is; and safetensors files, whose header says all (docs/archive.md, section
 * 2).
 */
#include "safetensors/container/container.h"

#include "os/path.h"
#include "safetensors/header/json.h"

#include <stdio.h>
#include <string.h>

/* ---- the first bytes of other formats ---- */

typedef struct signature {
    const char *bytes;
    size_t nbytes;
    const char *meaning;
} signature;

#define SIGNATURE(bytes, meaning)        \
    {                                    \
        bytes, sizeof bytes - 1, meaning \
    }

static const signature signatures[] = {
    SIGNATURE("version https://git-lfs", "a git-lfs pointer: fetch the file itself with \"git lfs pull\""),
    SIGNATURE("GGUF", "a GGUF model"),
    SIGNATURE("\x93NUMPY", "a numpy array (.npy)"),
    SIGNATURE("\x1f\x8b", "gzip data: decompress it first"),
    SIGNATURE("\x28\xb5\x2f\xfd", "zstd data: decompress it first"),
    SIGNATURE("\3757zXZ", "xz data: decompress it first"),
    SIGNATURE("BZh", "bzip2 data: decompress it first"),
    SIGNATURE("\x89HDF\r\n\x1a\n", "an HDF5 file"),
    SIGNATURE("\x8cLMC", "a bare LMC frame, not an archive"),
    SIGNATURE("PK\x05\x06", "an empty zip archive"),
    SIGNATURE("\177ELF", "a program"),
    SIGNATURE("%PDF", "a PDF document"),
};

static int starts_with(const unsigned char *src, size_t nbytes, const char *prefix, size_t length)
{
    return nbytes >= length && memcmp(src, prefix, length) == 0;
}

const char *st_sniff(const unsigned char *src, size_t nbytes)
{
    nbytes = nbytes < ST_SNIFF_NBYTES ? nbytes : ST_SNIFF_NBYTES;
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++)
        if (starts_with(src, nbytes, signatures[i].bytes, signatures[i].nbytes))
            return signatures[i].meaning;
    if (starts_with(src, nbytes, "PK\x03\x04", 4)) {
        /* the first local header of a ZIP holds a file name at byte 30, its length at 26 */
        const size_t length = nbytes >= 30 ? src[26] + (size_t)src[27] * 256 : 0;
        const int is_npz =
            length >= 4 && length <= nbytes - 30 && memcmp(src + 30 + length - 4, ".npy", 4) == 0;
        return is_npz ? "a numpy archive (.npz)" : "a zip archive (perhaps a PyTorch checkpoint)";
    }
    /* protocol 2 to 5; a safetensors header of 640 + n bytes also begins with 0x80 but goes on with
     * zeros in its upper length bytes, and is not sniffed unless it is malformed */
    if (nbytes >= 3 && src[0] == 0x80 && src[1] >= 2 && src[1] <= 5 && src[2] != 0)
        return "a Python pickle (perhaps a PyTorch checkpoint)";
    st_json json = {.text = src, .nbytes = nbytes, .at = starts_with(src, nbytes, "\xef\xbb\xbf", 3) ? 3 : 0};
    if (st_json_try(&json, '<'))
        return "an HTML or XML page: the download went wrong";
    if (st_json_try(&json, '{') || st_json_try(&json, '['))
        return "JSON text (perhaps an index of shards)";
    return NULL;
}

/* ---- safetensors files ---- */

/* The length of a header that fits the file, and its brace behind it, or white space. */
static int is_like(const st_reading *reading, const unsigned char *head, size_t nbytes, lmc_st_diag *diag)
{
    (void)diag;
    if (nbytes < 9)
        return 0;
    const uint64_t length = lmc_load64(head);
    return length > 0 && length <= LMC_ST_HEADER_NBYTES_MAX && length <= reading->input->nbytes - 8 &&
           (head[8] == '{' || head[8] == ' ' || head[8] == '\t' || head[8] == '\n' || head[8] == '\r');
}

/* A file without a usable header: says what it is if that can be told, else `fault`. */
static lmc_status refuse_start(const st_input *input, lmc_status status, const char *fault, lmc_st_diag *diag)
{
    unsigned char start[ST_SNIFF_NBYTES];
    const size_t nbytes = input->nbytes < sizeof start ? (size_t)input->nbytes : sizeof start;
    LMC_TRY(st_input_read(input, 0, start, nbytes, diag));
    const char *const meaning = st_sniff(start, nbytes);
    if (meaning)
        return st_fail(diag, LMC_ERR_HEADER, 0, "this is not a safetensors file but %s", meaning);
    return st_fail(diag, status, 0, "%s", fault);
}

/* The header that stands in this file: a plain file's, or an archive header. */
static lmc_status read_header(const st_reading *reading, st_header *header, lmc_st_diag *diag)
{
    const st_input *const input = reading->input;
    unsigned char length_bytes[8];
    if (input->nbytes == 0)
        return st_fail(diag, LMC_ERR_TRUNCATED, 0, "the file is empty");
    if (input->nbytes < sizeof length_bytes)
        return refuse_start(input, LMC_ERR_TRUNCATED,
                            "the file has fewer than 8 bytes: this is not a safetensors file", diag);
    LMC_TRY(st_input_read(input, 0, length_bytes, sizeof length_bytes, diag));
    const uint64_t length = lmc_load64(length_bytes);
    const uint64_t left = input->nbytes - 8;
    if (length > LMC_ST_HEADER_NBYTES_MAX) /* of a text, say; a header of this size could be there */
        return refuse_start(input, length > left ? LMC_ERR_HEADER : LMC_ERR_LIMIT,
                            "the header's length exceeds 100,000,000 bytes: this is not a safetensors file",
                            diag);
    lmc_status status = LMC_OK;
    if (length > left) {
        status = refuse_start(input, LMC_ERR_TRUNCATED, "the header's length exceeds the file", diag);
        return status != LMC_ERR_TRUNCATED
                   ? status
                   : st_fail(diag, status, input->nbytes,
                             "the file is cut short within its header: %llu bytes of it are missing",
                             (unsigned long long)(length - left));
    }
    if (length == 0)
        return st_fail(diag, LMC_ERR_HEADER, 0, "the header's length is 0");
    unsigned char *const text = st_allocate(reading->memory, (size_t)length);
    if (!text)
        return st_fail_nomem(diag);
    status = st_input_read(input, 8, text, (size_t)length, diag);
    st_json json = {.text = text, .nbytes = (size_t)length};
    if (status == LMC_OK && !st_json_try(&json, '{'))
        status = refuse_start(input, LMC_ERR_HEADER, "malformed header: it does not begin with '{'", diag);
    if (status != LMC_OK) {
        st_release(reading->memory, text);
        return status;
    }
    const st_header_text source = {.text = text,
                                   .nbytes = (size_t)length,
                                   .offset = 8,
                                   .data_nbytes = left - length,
                                   .may_be_short = reading->may_be_short};
    return reading->parse(reading->user, header, &source, diag);
}

static lmc_status read_file(const st_reading *reading, st_contents *contents, lmc_st_diag *diag)
{
    st_header *const header = &contents->header;
    LMC_TRY(read_header(reading, header, diag));
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

/* ---- all kinds ---- */

/* The first that a file looks like is its kind. */
static const st_container_reader *const readers[] = {&st_safetensors_reader, &st_npy_reader, &st_gguf_reader,
                                                     &st_zip_reader};

/* *reader: NULL for a file of no known kind. */
static lmc_status choose_reader(const st_reading *reading, const st_container_reader **reader,
                                lmc_st_diag *diag)
{
    unsigned char head[ST_SNIFF_NBYTES];
    const uint64_t file_nbytes = reading->input->nbytes;
    const size_t nbytes = file_nbytes < sizeof head ? (size_t)file_nbytes : sizeof head;
    *reader = &st_safetensors_reader;
    if (lmc_is_plain_name(reading->path))
        return LMC_OK;
    LMC_TRY(st_input_read(reading->input, 0, head, nbytes, diag));
    *reader = NULL;
    for (size_t i = 0; i < sizeof readers / sizeof readers[0] && !*reader; i++) {
        const int answer = readers[i]->is_like(reading, head, nbytes, diag);
        if (answer < 0)
            return diag->status;
        if (answer)
            *reader = readers[i];
    }
    return LMC_OK;
}

/* A failure leaves nothing. */
static lmc_status read_as(const st_container_reader *reader, const st_reading *reading, st_contents *contents,
                          lmc_st_diag *diag)
{
    *contents = (st_contents){.kind = reader->kind};
    const lmc_status status = reader->read(reading, contents, diag);
    if (status != LMC_OK)
        st_contents_free(contents, reading->memory);
    return status;
}

lmc_status st_contents_read(const st_reading *reading, st_contents *contents, lmc_st_diag *diag)
{
    const st_container_reader *reader = NULL;
    *contents = (st_contents){0};
    LMC_TRY(choose_reader(reading, &reader, diag));
    const int is_raw_allowed = reading->is_raw_allowed && !lmc_is_plain_name(reading->path);
    if (!reader && is_raw_allowed)
        return read_as(&st_raw_reader, reading, contents, diag);
    /* a file of no known kind is refused as a safetensors file, which says what it is */
    const lmc_status status = read_as(reader ? reader : &st_safetensors_reader, reading, contents, diag);
    const int is_refused = status == LMC_ERR_HEADER || status == LMC_ERR_TRUNCATED ||
                           status == LMC_ERR_UNSUPPORTED || status == LMC_ERR_LIMIT ||
                           status == LMC_ERR_CORRUPT;
    if (!is_raw_allowed || !is_refused) /* what is left are successes and faults of the system */
        return status;
    st_diag_init(diag, reading->path);
    return read_as(&st_raw_reader, reading, contents, diag);
}

void st_contents_free(st_contents *contents, const lmc_allocator *memory)
{
    st_header_free(&contents->header);
    st_release(memory, contents->places);
    *contents = (st_contents){0};
}

lmc_status st_contents_look(const st_reading *reading, int *is_known, lmc_st_diag *diag)
{
    const st_container_reader *reader = NULL;
    *is_known = 0;
    LMC_TRY(choose_reader(reading, &reader, diag));
    *is_known = reader != NULL;
    return LMC_OK;
}

const char *lmc_st_container_name(lmc_st_container container)
{
    switch (container) {
    case LMC_ST_CONTAINER_SAFETENSORS: return "safetensors";
    case LMC_ST_CONTAINER_ZIP: return "zip";
    case LMC_ST_CONTAINER_NPY: return "npy";
    case LMC_ST_CONTAINER_GGUF: return "gguf";
    case LMC_ST_CONTAINER_RAW: return "raw";
    }
    return NULL;
}
