/*
 * text.h - UTF-8, and text that may be shown. Names come from untrusted files: nothing of them reaches a terminal or a
 * JSON output but through the functions here.
 */
#ifndef LMC_COMMON_TEXT_H
#define LMC_COMMON_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Length of the UTF-8 sequence at src (1 to 4) and its code point; 0 if it is malformed: overlong, a
 * surrogate, above U+10FFFF, or cut by the end at `nbytes`. */
size_t lmc_utf8_next(const unsigned char *src, size_t nbytes, uint32_t *code_point);

/* 1 if these bytes are UTF-8. */
int lmc_utf8_is_valid(const char *bytes, size_t nbytes);

/* Writes a code point (no surrogate, at most U+10FFFF) as 1 to 4 bytes; returns how many. */
size_t lmc_utf8_write(unsigned char *dst, uint32_t code_point);

/* 1 for characters that move the cursor, change colours or reorder text on a terminal, and for quotes and
 * backslashes. */
int lmc_text_is_unsafe(uint32_t code_point);

/* Copies src for display: control and direction characters, quotes, backslashes and bytes that are no
 * UTF-8 are escaped; what does not fit is cut and replaced by "...". dst is NUL-terminated and holds
 * `capacity` (at least 4) bytes. Returns the length. */
size_t lmc_text_escape(char *dst, size_t capacity, const char *src, size_t src_nbytes);

/* The same, but the ASCII characters of the string `kept` stay as they are. Of a path, those are os_separators. */
size_t lmc_text_escape_but(char *dst, size_t capacity, const char *src, size_t src_nbytes, const char *kept);

#endif
