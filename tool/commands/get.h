/*
 * get.h - the bytes of a tensor or a part of it: get.c writes them for get and for run get.
 */
#ifndef LMC_TOOL_COMMANDS_GET_H
#define LMC_TOOL_COMMANDS_GET_H

#include "tool/args.h"

/* Writes what the operand, a name or NAME[SLICE], picks of an open file to the output that the arguments name. Returns
 * the exit status. */
int cli_get_from_file(const cli_args *args, const lmc_st_file *file, const char *operand);

#endif
