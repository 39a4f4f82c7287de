/*
 * kernels.h - running something once per kernel set. The library chooses its set once per process, so
 * each set gets a process of its own; this one must not have called the codec before.
 */
#ifndef LMC_TOOL_KERNELS_H
#define LMC_TOOL_KERNELS_H

#include "tool/child.h"

#define CLI_KERNEL_SETS 4

/* Names of all sets there may be, best first. */
extern const char *const cli_kernel_sets[CLI_KERNEL_SETS];

/* Runs child->work in a process that uses `set`. *is_there: 0 if this machine lacks the set; nothing was
 * done then. Returns the exit status of the work, or CLI_SYSTEM after a message. If this process is told to
 * end (cli_cancel), so is the child. */
int cli_with_kernels(const char *set, const cli_child *child, int *is_there);

#endif
