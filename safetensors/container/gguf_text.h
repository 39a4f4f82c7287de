/*
 * gguf_text.h - the description at the begin of a GGUF file, read from front to back through a window: lists of tokens
 * are large, and of no interest.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_GGUF_TEXT_H
#define LMC_SAFETENSORS_CONTAINER_GGUF_TEXT_H

#include "safetensors/container/container.h"

#define ST_GGUF_WINDOW_NBYTES ((size_t)64 << 10)
#define ST_GGUF_NAME_NBYTES_MAX ((uint64_t)32 << 10) /* ggml has 64 */

/* Where the description ends at the latest: what stands before is read within a second. */
#define ST_GGUF_NBYTES_MAX ((uint64_t)128 << 20)

typedef struct st_gguf_text {
    const st_reading *reading;
    uint64_t at; /* in the file; may be set */
    unsigned char *bytes;
    uint64_t begin, end; /* of what the window has */
} st_gguf_text;

/* Errors: NOMEM. Free in every case. */
lmc_status st_gguf_text_init(st_gguf_text *text, const st_reading *reading, lmc_st_diag *diag);
void st_gguf_text_free(st_gguf_text *text);

/* The calls that follow go on behind what they read. Errors: TRUNCATED (the file ends before), LIMIT (the description
 * has no end), IO, CANCELLED. */

/* *bytes: of the window, until the next call; after st_gguf_hold() as long as what that one asked for. nbytes: at most
 * ST_GGUF_WINDOW_NBYTES. */
lmc_status st_gguf_read(st_gguf_text *text, size_t nbytes, const unsigned char **bytes, lmc_st_diag *diag);
lmc_status st_gguf_read_u32(st_gguf_text *text, uint32_t *number, lmc_st_diag *diag);
lmc_status st_gguf_read_u64(st_gguf_text *text, uint64_t *number, lmc_st_diag *diag);
lmc_status st_gguf_skip(st_gguf_text *text, uint64_t nbytes, lmc_st_diag *diag);

/* Gets the next nbytes bytes into the window, or those that there are. */
lmc_status st_gguf_hold(st_gguf_text *text, size_t nbytes, lmc_st_diag *diag);

/* TRUNCATED: the file ends before what it describes. */
lmc_status st_gguf_fail_cut_short(const st_gguf_text *text, lmc_st_diag *diag);

#endif
