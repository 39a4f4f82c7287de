/*
 * child.h - work in a process of its own, which sends one answer: for work that a process can do only once, and for
 * libraries of others, which may crash.
 */
#ifndef LMC_TOOL_CHILD_H
#define LMC_TOOL_CHILD_H

#include <stddef.h>

#define CLI_CHILD_SECONDS 10

/* The outcome of a child beside the number of the signal that ended it. */
#define CLI_CHILD_ANSWERED 0
#define CLI_CHILD_SILENT (-1)

/* Calls work(user, answer) in a child and copies the answer, of `nbytes` bytes, back if work() returns 1. A crash
 * leaves no core file, nothing is printed, and SIGALRM ends the child after CLI_CHILD_SECONDS. Sets *outcome. Returns
 * CLI_OK, CLI_SYSTEM after a message, or 128 + N when signal N told this process to end. */
int cli_ask_child(int (*work)(void *user, void *answer), void *user, void *answer, size_t nbytes,
                  int *outcome);

#endif
