/*
 * watch_wait.h - how `run watch` waits: until something happens in a directory, until a time, or until a signal.
 */
#ifndef LMC_TOOL_COMMANDS_WATCH_WAIT_H
#define LMC_TOOL_COMMANDS_WATCH_WAIT_H

#include <stdint.h>

/* Milliseconds of a clock that nobody sets. */
uint64_t watch_now_ms(void);

/* Begins to be told of changes in directories. Returns a descriptor, or -1: the system cannot tell, so directories must
 * be looked at from time to time. */
int watch_notify_open(void);

/* Adds a directory, without those in it. Returns an id, or -1. */
int watch_notify_add(int fd, const char *path);

void watch_notify_remove(int fd, int id);

/* A second signal of one kind ends the process: the first one sets cli_cancel, and the work ends in order. */
void watch_end_at_second_signal(void);

/* Returns once something has happened in the directories of fd, after the time, or after a signal. fd may be -1. */
void watch_wait(int fd, uint64_t most_ms);

#endif
