/*
 * removal.h - the option --rm: an input is removed if it is still what was compared with the output.
 */
#ifndef LMC_TOOL_REMOVAL_H
#define LMC_TOOL_REMOVAL_H

#include "lmc_st_experimental.h"

typedef struct cli_removal cli_removal;

/* Records which file or directory the path is, and in which state, before the comparison: of a directory every name
 * in it. Returns the exit status, after a message if it is not CLI_OK. Free with cli_removal_free() in every case. */
int cli_removal_begin(cli_removal **removal, const char *path);

/* Removes the input if nothing of it has changed since, and if all of a directory may be removed. Otherwise all of it
 * stays; only what happens while a directory is removed can leave a part. If another file has taken the input's name
 * meanwhile, both files stay, and the message says where. Returns as cli_removal_begin(). */
int cli_removal_finish(cli_removal *removal);

/* NULL is allowed. */
void cli_removal_free(cli_removal *removal);

#endif
