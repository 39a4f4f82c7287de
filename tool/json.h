/*
 * json.h - strings and ratios in JSON output. All that comes from files or from the command line goes
 * through cli_json_string().
 */
#ifndef LMC_TOOL_JSON_H
#define LMC_TOOL_JSON_H

#include <stddef.h>
#include <stdint.h>

/* Prints a JSON string with its quotes. Characters that a terminal would act on are written as \u escapes;
 * bytes that are no UTF-8 (only paths have such) become U+FFFD. */
void cli_json_string(const char *text, size_t nbytes);

/* Prints stored / original, or null if nothing was there to be stored. */
void cli_json_ratio(uint64_t stored_nbytes, uint64_t nbytes);

#endif
