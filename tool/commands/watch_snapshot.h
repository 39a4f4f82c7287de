/*
 * watch_snapshot.h - what `run watch` knows of each name in the directory, what it decides by that, and what it sees of
 * the file or directory: whether it changes, and whether it is complete.
 */
#ifndef LMC_TOOL_COMMANDS_WATCH_SNAPSHOT_H
#define LMC_TOOL_COMMANDS_WATCH_SNAPSHOT_H

#include "os/os.h"
#include "tool/cli.h"

/* ---- what is decided, by what was seen and when; neither files nor a clock are looked at ---- */

/* A time that never comes. Times are in milliseconds, since any moment. */
#define WATCH_NEVER UINT64_MAX

/* The longest pause before another try. */
#define WATCH_PAUSE_MS_MAX 600000

typedef enum watch_state {
    WATCH_NEW = 0,
    WATCH_CHANGING, /* not yet still for long enough */
    WATCH_DONE,     /* it is in the run, or is not wanted there */
    WATCH_FAILED    /* tried again when it changes, or at retry_ms */
} watch_state;

typedef struct watch_entry {
    char *name;
    int has_step; /* 0: it is left alone */
    uint64_t step;
    watch_state state;
    uint64_t print;      /* of its files: their names, sizes and times */
    uint64_t own_print;  /* of the file or directory itself, when it was done */
    uint64_t changed_ms; /* when this print was seen first */
    uint64_t retry_ms;   /* of a failure */
    uint64_t pause_ms;   /* the pause before that */
    int is_told;         /* told_status and told_errno were told of this print */
    lmc_status told_status;
    int told_errno;
    int is_left;  /* it was told that it is no snapshot */
    int is_found; /* in the listing that was made last */
    int watch_id; /* of os_watch_add(); -1: none */
} watch_entry;

/* 1 if trainers give such names to what is not complete: "tmp-checkpoint-10", "x.tmp", and ".x". */
int watch_is_temporary(const char *name);

/* Notes that the files of the entry have this print at this time. A change restarts the wait. */
void watch_see(watch_entry *entry, uint64_t print, uint64_t now_ms);

/* When the entry is to be tried, if it stays as it is; WATCH_NEVER if it need not be. */
uint64_t watch_due_ms(const watch_entry *entry, uint64_t settle_ms);

/* The entry is in the run, or need not be. own_print: if it differs some time, its files are looked at again. */
void watch_finish(watch_entry *entry, uint64_t own_print);

/* The entry failed. is_system: it may go well without a change of the entry, so it is tried again. The pause before
 * that begins with settle_ms and doubles. Returns 1 if this status and errno were not yet told of this print. */
int watch_fail(watch_entry *entry, lmc_status status, int os_errno, int is_system, uint64_t settle_ms,
               uint64_t now_ms);

/* qsort(): by step, then by name. Arguments: watch_entry *const *. */
int watch_compare_steps(const void *left, const void *right);

/* 1 if lmc_run_keep() with `last` and `every` would keep a step that `newer_count` newer steps are in the run of.
 * Both 0: all steps are kept. */
int watch_is_kept(uint64_t step, uint64_t newer_count, uint64_t last, uint64_t every);

/* ---- what is seen ---- */

/* A number that changes if a file or directory itself is another one, or has another size or time. */
uint64_t watch_own_print(const os_state *found);

/* The same for a path and all that is below it. `run`: of the directory of the run, NULL if there is none yet.
 * Returns 0, or an errno: ENOENT (it is gone), EXDEV (it holds the run). What cannot be read is part of the print. */
int watch_print(const char *path, const os_state *run, uint64_t *print);

/* Success if the file, or each file of the directory that is a container, reads to its end. *container_count: how many
 * there are; archives are none. Files that args->excludes names are passed over. */
lmc_status watch_check(const char *path, const cli_args *args, uint64_t *container_count, lmc_st_diag *diag);

#endif
