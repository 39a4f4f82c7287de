/*
 * open.c - the first bytes of a file, its header, and the places of its tensors.
 */
#include "safetensors/archive/open.h"

#include "safetensors/archive/archive.h"
#include "safetensors/header/sniff.h"

#include <string.h>

/* A file without a usable header: says what it is if that can be told, else `fault`. */
static lmc_status refuse_start(const lmc_st_file *file, lmc_status status, const char *fault,
                               lmc_st_diag *diag)
{
    unsigned char start[ST_SNIFF_NBYTES];
    const size_t nbytes = file->input.nbytes < sizeof start ? (size_t)file->input.nbytes : sizeof start;
    ST_TRY(os_input_read(&file->input, 0, start, nbytes, diag));
    const char *const meaning = st_sniff(start, nbytes);
    if (meaning)
        return st_fail(diag, LMC_ERR_HEADER, 0, "this is no safetensors file but %s", meaning);
    return st_fail(diag, status, 0, "%s", fault);
}

static lmc_status check_header_length(const lmc_st_file *file, uint64_t length, lmc_st_diag *diag)
{
    const uint64_t left = file->input.nbytes - 8;
    if (length > LMC_ST_HEADER_NBYTES_MAX)
        return refuse_start(file, LMC_ERR_LIMIT,
                            "the header's length exceeds 100,000,000 bytes: this is no safetensors file",
                            diag);
    if (length > left) {
        const lmc_status status =
            refuse_start(file, LMC_ERR_TRUNCATED, "the header's length exceeds the file", diag);
        return status != LMC_ERR_TRUNCATED
                   ? status
                   : st_fail(diag, status, file->input.nbytes,
                             "the file is cut short within its header: %llu bytes of it are missing",
                             (unsigned long long)(length - left));
    }
    return length == 0 ? st_fail(diag, LMC_ERR_HEADER, 0, "the header's length is 0") : LMC_OK;
}

/* Reads and parses the header that stands in this file: a plain file's, or an archive header. */
static lmc_status read_header(lmc_st_file *file, int may_be_short, lmc_st_diag *diag)
{
    unsigned char length_bytes[8];
    if (file->input.nbytes == 0)
        return st_fail(diag, LMC_ERR_TRUNCATED, 0, "the file is empty");
    if (file->input.nbytes < sizeof length_bytes)
        return refuse_start(file, LMC_ERR_TRUNCATED, "the file has fewer than 8 bytes", diag);
    ST_TRY(os_input_read(&file->input, 0, length_bytes, sizeof length_bytes, diag));
    const uint64_t length = st_load_u64(length_bytes);
    ST_TRY(check_header_length(file, length, diag));
    unsigned char *const text = st_allocate(&file->memory, (size_t)length);
    if (!text)
        return st_fail_nomem(diag);
    lmc_status status = os_input_read(&file->input, 8, text, (size_t)length, diag);
    st_json json = {.text = text, .nbytes = (size_t)length};
    if (status == LMC_OK && !st_json_try(&json, '{'))
        status = refuse_start(file, LMC_ERR_HEADER, "malformed header: it does not begin with '{'", diag);
    if (status != LMC_OK) {
        st_release(&file->memory, text);
        return status;
    }
    const st_header_text source = {text, (size_t)length, 8, file->input.nbytes - 8 - length, may_be_short};
    return st_file_parse_header(file, &file->header, &source, diag);
}

static lmc_status set_plain_places(lmc_st_file *file, lmc_st_diag *diag)
{
    const st_header *const header = &file->header;
    file->file_nbytes = file->input.nbytes;
    file->places = st_allocate(&file->memory, (header->tensor_count + 1) * sizeof *file->places);
    if (!file->places)
        return st_fail_nomem(diag);
    const uint64_t data_offset = 8 + header->text_nbytes;
    for (size_t i = 0; i < header->tensor_count; i++)
        file->places[i] = data_offset + header->tensors[i].begin;
    file->places[header->tensor_count] = file->input.nbytes;
    return LMC_OK;
}

static lmc_status read_contents(lmc_st_file *file, const st_open *how, lmc_st_diag *diag)
{
    ST_TRY(how->fd < 0 ? os_input_open(&file->input, how->path, diag)
                       : os_input_open_fd(&file->input, how->fd, how->cancel, diag));
    ST_TRY(read_header(file, how->may_be_short, diag));
    ST_TRY(st_archive_detect(file, &file->is_archive, diag));
    return file->is_archive ? st_archive_read(file, diag) : set_plain_places(file, diag);
}

lmc_status st_container_open(const st_open *how, lmc_st_file **file, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = !how->allocator ? &st_memory_default : how->allocator;
    *file = NULL;
    st_diag_init(diag, how->path);
    lmc_st_file *const opened = st_allocate_zeroed(memory, 1, sizeof *opened);
    if (!opened)
        return st_fail_nomem(diag);
    opened->memory = *memory;
    opened->input.fd = -1;
    pthread_mutex_init(&opened->shapes_lock, NULL);
    opened->is_from_path = how->fd < 0;
    opened->dependent = how->dependent;
    opened->path = st_duplicate(memory, how->path);
    const lmc_status status = !opened->path ? st_fail_nomem(diag) : read_contents(opened, how, diag);
    if (status == LMC_OK)
        *file = opened;
    else
        st_container_close(opened);
    return status;
}
