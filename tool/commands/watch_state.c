/*
 * watch_state.c - watch_state.h: when an entry is still, when it is tried, and what is told of it.
 */
#include "tool/commands/watch_state.h"

#include <string.h>

/* A pause that doubles must not be 0. */
#define PAUSE_MS_MIN 100

int watch_is_temporary(const char *name)
{
    static const char suffix[] = ".tmp";
    const size_t length = strlen(name);
    return name[0] == '.' || strncmp(name, "tmp", 3) == 0 ||
           (length >= sizeof suffix - 1 && strcmp(name + length - (sizeof suffix - 1), suffix) == 0);
}

void watch_see(watch_entry *entry, uint64_t print, uint64_t now_ms)
{
    if (entry->state != WATCH_NEW && entry->print == print)
        return;
    entry->state = WATCH_CHANGING;
    entry->print = print;
    entry->changed_ms = now_ms;
    entry->pause_ms = 0;
    entry->is_told = 0;
}

static uint64_t add_ms(uint64_t begin_ms, uint64_t length_ms)
{
    return length_ms < WATCH_NEVER - begin_ms ? begin_ms + length_ms : WATCH_NEVER;
}

uint64_t watch_due_ms(const watch_entry *entry, uint64_t settle_ms)
{
    if (entry->state == WATCH_CHANGING)
        return add_ms(entry->changed_ms, settle_ms);
    return entry->state == WATCH_FAILED ? entry->retry_ms : WATCH_NEVER;
}

void watch_finish(watch_entry *entry, uint64_t own_print)
{
    entry->state = WATCH_DONE;
    entry->own_print = own_print;
    entry->pause_ms = 0;
    entry->is_told = 0;
}

int watch_fail(watch_entry *entry, lmc_status status, int os_errno, int is_system, uint64_t settle_ms,
               uint64_t now_ms)
{
    const int is_news = !entry->is_told || entry->told_status != status || entry->told_errno != os_errno;
    uint64_t pause_ms = entry->pause_ms > 0 ? 2 * entry->pause_ms : settle_ms;
    pause_ms = pause_ms < PAUSE_MS_MIN ? PAUSE_MS_MIN : pause_ms;
    pause_ms = pause_ms > WATCH_PAUSE_MS_MAX ? WATCH_PAUSE_MS_MAX : pause_ms;
    entry->state = WATCH_FAILED;
    entry->pause_ms = pause_ms;
    entry->retry_ms = is_system ? add_ms(now_ms, pause_ms) : WATCH_NEVER;
    entry->is_told = 1;
    entry->told_status = status;
    entry->told_errno = os_errno;
    return is_news;
}

int watch_compare_steps(const void *left, const void *right)
{
    const watch_entry *const a = *(watch_entry *const *)left;
    const watch_entry *const b = *(watch_entry *const *)right;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return strcmp(a->name, b->name);
}

int watch_is_kept(uint64_t step, uint64_t newer_count, uint64_t last, uint64_t every)
{
    if ((last == 0 && every == 0) || newer_count == 0)
        return 1;
    return newer_count < last || (every > 0 && step % every == 0);
}
