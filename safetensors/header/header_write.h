/*
 * header_write.h - writing the JSON header of a safetensors file, in the form of the official package: no white space,
 * control characters escaped. The caller measures a header first and then writes it into room of that size.
 */
#ifndef LMC_SAFETENSORS_HEADER_HEADER_WRITE_H
#define LMC_SAFETENSORS_HEADER_HEADER_WRITE_H

#include "safetensors/os/file.h"

/* JSON text that grows. All zero: empty, and only measured. */
typedef struct st_json_out {
    unsigned char *dst; /* NULL: the text is measured */
    uint64_t capacity;
    uint64_t nbytes; /* may exceed the capacity: then what is beyond it was dropped */
    int needs_comma; /* before the next value or key */
} st_json_out;

/* A bracket: '{', '[', '}' or ']'. */
void st_json_put_open(st_json_out *out, char bracket);
void st_json_put_close(st_json_out *out, char bracket);

/* Values, and keys, which a colon follows. Raw text stands as it is: a scanned string, an object. */
void st_json_put_raw(st_json_out *out, const void *text, size_t nbytes);
void st_json_put_string(st_json_out *out, const char *bytes, size_t nbytes);
void st_json_put_u64(st_json_out *out, uint64_t value);
void st_json_put_colon(st_json_out *out);

/* The entry of a tensor stands behind its name and a colon: between the two calls, the caller puts the dimensions. */
void st_header_put_dtype(st_json_out *out, lmc_dtype dtype);
void st_header_put_place(st_json_out *out, uint64_t begin, uint64_t end);

/* Ends the header, with spaces so that its length is a multiple of 8. */
void st_header_put_end(st_json_out *out);

/* Writes the length of a header and its text to the begin of an output. Error: as os_output_write(). */
lmc_status st_header_write(const os_output *output, const void *text, size_t nbytes, lmc_st_diag *diag);

#endif
