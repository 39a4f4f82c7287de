/*
 * json.h - JSON text. A strict scanner: it accepts RFC 8259 and nothing else, reads integers as integers and never
 * allocates. And a writer of compact text. Neither knows anything of safetensors.
 */
#ifndef LMC_SAFETENSORS_HEADER_JSON_H
#define LMC_SAFETENSORS_HEADER_JSON_H

#include <stddef.h>
#include <stdint.h>

/* Where a scan stands. After a failure `fault` says why (static storage) and `at` where. */
typedef struct st_json {
    const unsigned char *text;
    size_t nbytes;
    size_t at;
    const char *fault;
} st_json;

/* A piece of the text; of a string with its quotes. Texts are below 4 GiB. */
typedef struct st_span {
    uint32_t offset;
    uint32_t nbytes;
} st_span;

void st_json_skip_space(st_json *json);

/* Each function below returns 1 and moves on, or returns 0 and sets `fault`. */

/* Skips white space, then takes `byte`. `fault` is the text for the case that it is not there. */
int st_json_take(st_json *json, unsigned char byte, const char *fault);

/* Skips white space; 1 if `byte` is next, which is then taken. Never a fault. */
int st_json_try(st_json *json, unsigned char byte);

/* Walks through the members of an object, whose `open` is '{', or the elements of an array, whose `open` is '[' and
 * which has no keys (key NULL). *count is 0 before the first call. Moves to the next value and returns 1. Returns 0
 * after the last one, and after a fault. */
int st_json_next(st_json *json, char open, size_t *count, st_span *key);

/* A string, checked for UTF-8, escapes and lone surrogates. */
int st_json_string(st_json *json, st_span *raw);

/* A number written as plain digits, below 2^64: no sign, fraction, exponent or leading zero. */
int st_json_u64(st_json *json, uint64_t *value);

/* Any value, with at most `depth` nested objects and arrays. */
int st_json_skip_value(st_json *json, unsigned depth);

/* Bytes that a scanned string stands for, without quotes and escapes: never more than raw.nbytes - 2.
 * dst NULL: only counts. */
size_t st_json_unescape(const unsigned char *text, st_span raw, char *dst);

/* 1 if a scanned string stands for the NUL-terminated `expected` (at most 63 bytes). */
int st_json_string_is(const unsigned char *text, st_span raw, const char *expected);

/* ---- writing ---- */

/* JSON text that grows, in the form of the official package: no white space, control characters escaped. The caller
 * measures a text first and then writes it into room of that size. All zero: empty, and only measured. */
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

/* A NUL-terminated key and its colon. */
void st_json_put_key(st_json_out *out, const char *key);

/* Spaces, until the length of the text is a multiple of `unit`. */
void st_json_put_spaces(st_json_out *out, unsigned unit);

#endif
