/*
 * container.h - the kinds of files whose tensors are known, and what is found in one: where each tensor stands, and
 * what it is. All other bytes of a file are its skeleton (headers, pickles, padding, directories), which nobody but
 * the reader of its kind understands. Nothing behind this folder knows which kind a file was.
 *
 * A kind is a reader in this folder and a line in the table of container.c.
 */
#ifndef LMC_SAFETENSORS_CONTAINER_CONTAINER_H
#define LMC_SAFETENSORS_CONTAINER_CONTAINER_H

#include "safetensors/files/file.h"
#include "safetensors/header/header.h"

#include <stddef.h>

#define ST_SNIFF_NBYTES 64

/* What a file looks like from its first bytes (at most ST_SNIFF_NBYTES are looked at); NULL: unknown.
 * Static storage. */
const char *st_sniff(const unsigned char *src, size_t nbytes);

/* A file that is read. */
typedef struct st_reading {
    const st_input *input;
    const char *path; /* tells files that are named *.safetensors; or a label */
    const lmc_allocator *memory;
    const volatile int *cancel; /* may be NULL */
    int may_be_short; /* 1: the tensors of a safetensors file may end behind it, or before its end (salvage) */
    int is_raw_allowed; /* 1: a file of no known kind is cut into pieces */
    /* st_header_parse(), or something that gives the same result for less; the text's ownership passes to it. */
    lmc_status (*parse)(const void *user, st_header *header, const st_header_text *text, lmc_st_diag *diag);
    const void *user;
} st_reading;

/* What a file holds. All zero: nothing is there to be freed. */
typedef struct st_contents {
    lmc_st_container kind;
    /* its tensors, in the order of their data: the header of a safetensors file, and for any other one that says the
     * same of its tensors as if they stood one behind the other */
    st_header header;
    /* where each tensor begins in the file, rising; then where the last one ends, or the file */
    uint64_t *places;
} st_contents;

/* A kind of files. */
typedef struct st_container_reader {
    lmc_st_container kind;
    /* 1 if the file looks like one; -1: the system failed, as diag says. head: its first nbytes bytes, at most
     * ST_SNIFF_NBYTES. */
    int (*is_like)(const st_reading *reading, const unsigned char *head, size_t nbytes, lmc_st_diag *diag);
    /* Finds the tensors. Errors: IO, NOMEM, CANCELLED; HEADER, TRUNCATED, UNSUPPORTED, LIMIT: it looks like one and
     * cannot be followed. Time and memory are bounded by the size of what describes the tensors, whatever it says. */
    lmc_status (*read)(const st_reading *reading, st_contents *contents, lmc_st_diag *diag);
} st_container_reader;

extern const st_container_reader st_safetensors_reader; /* container.c */
extern const st_container_reader st_zip_reader;         /* zip.c */
extern const st_container_reader st_npy_reader;         /* npy.c */
extern const st_container_reader st_gguf_reader;        /* gguf.c */
extern const st_container_reader st_raw_reader;         /* segments.c: any file, in pieces */

/* Tells the file's kind and reads it. A file that looks like one kind is never read as another: if it cannot be
 * followed, the call fails, unless raw files are allowed and the file is not named *.safetensors. Free with
 * st_contents_free() after a success; a failure leaves nothing. */
lmc_status st_contents_read(const st_reading *reading, st_contents *contents, lmc_st_diag *diag);
void st_contents_free(st_contents *contents, const lmc_allocator *memory);

/* *is_known: the file is named *.safetensors, or looks like one of the other kinds. Errors: IO, NOMEM. */
lmc_status st_contents_look(const st_reading *reading, int *is_known, lmc_st_diag *diag);

#endif
