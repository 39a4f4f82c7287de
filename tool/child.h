/*
 * child.h - work in a process of its own, which sends one answer: for work that a process can do only once, and for
 * libraries of others, which may crash.
 */
#ifndef LMC_TOOL_CHILD_H
#define LMC_TOOL_CHILD_H

#include <stddef.h>

#define CLI_CHILD_SECONDS 10

/* Calls work(user, answer) in a child and copies the answer, of `nbytes` bytes (fewer than a pipe takes at once), back
 * if work() returns 1. A crash leaves no core file, nothing is printed, and SIGALRM ends the child after
 * CLI_CHILD_SECONDS. Returns CLI_OK, CLI_SYSTEM after a message, or 128 + N when signal N told this process to end.
 * *has_answer: 1 if there is an answer; *signal: the number of the signal that ended the child, or 0. */
int cli_ask_child(int (*work)(void *user, void *answer), void *user, void *answer, size_t nbytes,
                  int *has_answer, int *signal);

#endif
