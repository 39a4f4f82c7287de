/*
 * container.c - the table of kinds, and which of them a file is.
 */
#include "safetensors/container/container.h"

#include "safetensors/common/names.h"
#include "safetensors/header/sniff.h"

#include <string.h>

/* The first that a file looks like is its kind. The last takes every file. */
static const st_container_reader *const readers[] = {&st_safetensors_reader, &st_npy_reader, &st_gguf_reader,
                                                     &st_zip_reader};

/* *reader: NULL for a file of no known kind. */
static lmc_status find_reader(const st_reading *reading, const unsigned char *head, size_t nbytes,
                              const st_container_reader **reader, lmc_st_diag *diag)
{
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

static lmc_status choose_reader(const st_reading *reading, const st_container_reader **reader,
                                lmc_st_diag *diag)
{
    unsigned char head[ST_SNIFF_NBYTES];
    const uint64_t file_nbytes = reading->input->nbytes;
    const size_t nbytes = file_nbytes < sizeof head ? (size_t)file_nbytes : sizeof head;
    *reader = &st_safetensors_reader;
    if (st_is_plain_name(reading->path))
        return LMC_OK;
    ST_TRY(os_input_read(reading->input, 0, head, nbytes, diag));
    return find_reader(reading, head, nbytes, reader, diag);
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

/* 1 if the file is not what it looks like, or too much of it; 0 for faults of the system. */
static int is_refused(lmc_status status)
{
    return status == LMC_ERR_HEADER || status == LMC_ERR_TRUNCATED || status == LMC_ERR_UNSUPPORTED ||
           status == LMC_ERR_LIMIT || status == LMC_ERR_CORRUPT;
}

lmc_status st_contents_read(const st_reading *reading, st_contents *contents, lmc_st_diag *diag)
{
    const st_container_reader *reader = NULL;
    *contents = (st_contents){0};
    ST_TRY(choose_reader(reading, &reader, diag));
    const int is_raw_allowed = reading->is_raw_allowed && !st_is_plain_name(reading->path);
    if (!reader && is_raw_allowed)
        return read_as(&st_raw_reader, reading, contents, diag);
    /* a file of no known kind is refused as a safetensors file, which says what it is */
    const lmc_status status = read_as(reader ? reader : &st_safetensors_reader, reading, contents, diag);
    if (!is_raw_allowed || !is_refused(status))
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
    ST_TRY(choose_reader(reading, &reader, diag));
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
