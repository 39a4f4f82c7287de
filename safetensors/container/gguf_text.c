/*
 * gguf_text.c - the window over the description at the begin of a GGUF file.
 */
#include "safetensors/container/gguf_text.h"

lmc_status st_gguf_text_init(st_gguf_text *text, const st_reading *reading, lmc_st_diag *diag)
{
    *text = (st_gguf_text){.reading = reading, .bytes = st_allocate(reading->memory, ST_GGUF_WINDOW_NBYTES)};
    return text->bytes ? LMC_OK : st_fail_nomem(diag);
}

void st_gguf_text_free(st_gguf_text *text)
{
    st_release(text->reading->memory, text->bytes);
    text->bytes = NULL;
}

lmc_status st_gguf_fail_cut_short(const st_gguf_text *text, lmc_st_diag *diag)
{
    return st_fail(diag, LMC_ERR_TRUNCATED, text->at,
                   "this GGUF file is cut short: it describes more than is there");
}

lmc_status st_gguf_hold(st_gguf_text *text, size_t nbytes, lmc_st_diag *diag)
{
    const os_input *const input = text->reading->input;
    const uint64_t left = input->nbytes - text->at;
    nbytes = nbytes < left ? nbytes : (size_t)left;
    if (text->at >= text->begin && text->at <= text->end && nbytes <= text->end - text->at)
        return LMC_OK;
    if (st_is_cancelled(text->reading->cancel))
        return st_fail_cancelled(diag);
    if (text->at > ST_GGUF_NBYTES_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, text->at,
                       "the description in this GGUF file has more than %llu bytes",
                       (unsigned long long)ST_GGUF_NBYTES_MAX);
    const size_t got = left < ST_GGUF_WINDOW_NBYTES ? (size_t)left : ST_GGUF_WINDOW_NBYTES;
    text->begin = text->end = 0;
    ST_TRY(os_input_read(input, text->at, text->bytes, got, diag));
    text->begin = text->at;
    text->end = text->at + got;
    return LMC_OK;
}

lmc_status st_gguf_read(st_gguf_text *text, size_t nbytes, const unsigned char **bytes, lmc_st_diag *diag)
{
    if (text->at < text->begin || text->at > text->end || nbytes > text->end - text->at) {
        if (nbytes > text->reading->input->nbytes - text->at)
            return st_gguf_fail_cut_short(text, diag);
        ST_TRY(st_gguf_hold(text, nbytes, diag));
    }
    *bytes = text->bytes + (text->at - text->begin);
    text->at += nbytes;
    return LMC_OK;
}

lmc_status st_gguf_read_u32(st_gguf_text *text, uint32_t *number, lmc_st_diag *diag)
{
    const unsigned char *bytes = NULL;
    ST_TRY(st_gguf_read(text, 4, &bytes, diag));
    *number = st_load_u32(bytes);
    return LMC_OK;
}

lmc_status st_gguf_read_u64(st_gguf_text *text, uint64_t *number, lmc_st_diag *diag)
{
    const unsigned char *bytes = NULL;
    ST_TRY(st_gguf_read(text, 8, &bytes, diag));
    *number = st_load_u64(bytes);
    return LMC_OK;
}

lmc_status st_gguf_skip(st_gguf_text *text, uint64_t nbytes, lmc_st_diag *diag)
{
    if (nbytes > text->reading->input->nbytes - text->at)
        return st_gguf_fail_cut_short(text, diag);
    text->at += nbytes;
    return LMC_OK;
}
