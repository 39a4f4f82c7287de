/*
 * cmd_store.h - what the commands of `store` share: names of models.
 */
#ifndef LMC_TOOL_COMMANDS_CMD_STORE_H
#define LMC_TOOL_COMMANDS_CMD_STORE_H

#include "tool/files.h"

extern const cli_command cli_store_add, cli_store_ls, cli_store_info, cli_store_get, cli_store_restore,
    cli_store_verify, cli_store_drop, cli_store_repair, cli_store_plan;

/* 1 if the operands from number `first` to `end` - 1 are names that models can have. Else 0, after a message. */
int cli_store_are_names(const cli_args *args, int first, int end);

/* Prints a name as a terminal may show it. */
void cli_store_print_name(const char *name);

/* Prints the names of the models that it is based on, and "?" for a file that is not in the store: "a, b, ?". Returns
 * how many that are. */
size_t cli_store_print_bases(const lmc_store_model *model, const char *before);

/* Prints the keys of a model; no comma stands before or behind them. */
void cli_store_json_model(const lmc_store_model *model);

#endif
