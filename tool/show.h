/*
 * show.h - parts of tables for people.
 */
#ifndef LMC_TOOL_SHOW_H
#define LMC_TOOL_SHOW_H

#include "lmc_st.h"

/* Writes "[2,3]" to `shown`; what does not fit `capacity` (at least 8) ends in "...]", as does a shape that is NULL for
 * want of memory. */
void cli_show_shape(const lmc_st_tensor *tensor, char *shown, size_t capacity);

#endif
