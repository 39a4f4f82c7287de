/*
 * text.h - how names, paths and shapes are shown on a terminal and in JSON. Names come from files of strangers: all of
 * them are printed through the functions here.
 */
#ifndef LMC_TOOL_TEXT_H
#define LMC_TOOL_TEXT_H

#include "lmc_st.h"

/* Copies `src` for display. Control and direction characters, quotes, backslashes and bytes that are no UTF-8 are
 * escaped. What does not fit is replaced by "...". dst has `capacity` (at least 4) bytes and gets a NUL. */
void cli_escape(char *dst, size_t capacity, const char *src, size_t src_nbytes);

/* The same for a string with a NUL at its end. Returns dst. */
const char *cli_shown(char *dst, size_t capacity, const char *src);

/* Writes the shape as "[2,3]". What does not fit `capacity` (at least 8) ends in "...]", and so does a shape that is
 * NULL for want of memory. */
void cli_show_shape(const lmc_st_tensor *tensor, char *shown, size_t capacity);

/* Prints a JSON string with its quotes. Characters that cli_escape() escapes become \u escapes; a byte that is no UTF-8
 * (only paths have such) becomes U+FFFD. */
void cli_json_string(const char *text, size_t nbytes);

/* The same for a string with a NUL at its end; null for NULL. */
void cli_json_text(const char *text);

/* Prints stored / original, or null if the original is empty. */
void cli_json_ratio(uint64_t stored_nbytes, uint64_t nbytes);

#endif
