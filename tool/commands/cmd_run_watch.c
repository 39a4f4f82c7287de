/*
 * cmd_run_watch.c - lmc-st run watch: lists a directory again and again, and adds what is complete. Between two looks
 * it waits for a change of the directory, where the system tells of these, for a time, or for a signal.
 */
#include "tool/commands/cmd_run.h"
#include "tool/commands/watch_snapshot.h"
#include "tool/tool_path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char about[] =
    "Adds each snapshot to a run as soon as a trainer has completed it in DIR: files\n"
    "with tensors, and directories such as checkpoint-500. It is complete when its\n"
    "files are readable to their ends and nothing has changed for a while. Ends on a\n"
    "signal (exit status 0), or when DIR is removed (3). May be started again.\n";

/* Milliseconds of a clock that nobody sets. */
static uint64_t clock_ms(void)
{
    return os_clock_ns() / 1000000;
}

/* ---- the directory ---- */

#define SETTLE_MS_DEFAULT 5000

/* The longest time between two looks: events do not come from other machines on a network's file system, nor from
 * folders in folders. */
#define LOOK_MS_MAX 10000
#define LOOK_MS_MAX_WITHOUT_EVENTS 1000

/* The directory and what is known of it. */
typedef struct watch {
    const cli_args *args;
    const char *run_dir, *dir;
    uint64_t settle_ms;
    os_state dir_state, run_state;
    int has_run;           /* run_state is set */
    watch_entry **entries; /* by name, once the listing is complete */
    size_t count, capacity;
    int watch_fd;    /* of os_watch_open() */
    int exit_status; /* of what ends the watch */
} watch;

static int is_cancelled(void)
{
    return __atomic_load_n(&cli_cancel, __ATOMIC_RELAXED) != 0;
}

/* What is no fault, but to be known. */
static void tell_left(watch *watch, watch_entry *entry, const char *path, const char *text)
{
    lmc_st_diag diag;
    if (!entry->is_left && (watch->args->seen & CLI_OPT_QUIET) == 0) {
        cli_set_diag(&diag, path, LMC_ERR_ARG, "%s", text);
        (void)cli_report(&diag);
    }
    entry->is_left = 1;
}

/* ---- the listing ---- */

static int compare_names(const void *left, const void *right)
{
    return strcmp((*(watch_entry *const *)left)->name, (*(watch_entry *const *)right)->name);
}

static void free_entry(watch *watch, watch_entry *entry)
{
    os_watch_remove(watch->watch_fd, entry->watch_id);
    free(entry->name);
    free(entry);
}

static int append_entry(watch *watch, const char *name)
{
    if (watch->count == watch->capacity) {
        const size_t capacity = watch->capacity == 0 ? 64 : 2 * watch->capacity;
        watch_entry **const larger = realloc(watch->entries, capacity * sizeof(watch_entry *));
        if (!larger)
            return 0;
        watch->entries = larger;
        watch->capacity = capacity;
    }
    watch_entry *const entry = calloc(1, sizeof *entry);
    char *const copy = strdup(name);
    if (!entry || !copy) {
        free(entry);
        free(copy);
        return 0;
    }
    *entry = (watch_entry){.name = copy, .is_found = 1, .watch_id = -1};
    entry->has_step = lmc_run_step_of_name(copy, &entry->step);
    watch->entries[watch->count++] = entry;
    return 1;
}

/* A listing of the directory. */
typedef struct look {
    watch *watch;
    size_t sorted_count; /* entries that are known */
} look;

static int see_name(void *user, const char *name)
{
    const look *const look = user;
    watch *const watch = look->watch;
    watch_entry **known = NULL;
    const watch_entry key = {.name = (char *)(uintptr_t)name};
    const watch_entry *const at = &key;
    if (watch_is_temporary(name))
        return 0;
    if (look->sorted_count > 0)
        known = bsearch(&at, watch->entries, look->sorted_count, sizeof(watch_entry *), compare_names);
    if (known)
        (*known)->is_found = 1;
    return known || append_entry(watch, name) ? 0 : ENOMEM;
}

/* Returns the exit status. */
static int list_directory(watch *watch)
{
    os_state found;
    look look = {watch, watch->count};
    int os_errno = os_stat(OS_HERE, watch->dir, &found);
    if (os_errno == 0 && !os_is_same_file(&found, &watch->dir_state))
        return cli_fail_os(watch->dir, ENOENT, "another directory has this name now");
    watch->has_run = os_stat(OS_HERE, watch->run_dir, &watch->run_state) == 0;
    for (size_t i = 0; i < watch->count; i++)
        watch->entries[i]->is_found = 0;
    if (os_errno == 0)
        os_errno = os_visit_path(watch->dir, see_name, &look);
    if (os_errno == ENOMEM)
        return cli_fail_nomem();
    if (os_errno != 0)
        return cli_fail_os(watch->dir, os_errno, "cannot watch");
    size_t kept = 0;
    for (size_t i = 0; i < watch->count; i++)
        if (watch->entries[i]->is_found)
            watch->entries[kept++] = watch->entries[i];
        else
            free_entry(watch, watch->entries[i]);
    watch->count = kept;
    if (kept > 1)
        qsort(watch->entries, kept, sizeof(watch_entry *), compare_names);
    return CLI_OK;
}

/* ---- looking at an entry ---- */

/* Looks whether the entry has changed. Returns 1 and sets *own_print, or 0: it is no snapshot, or gone. */
static int look_at_snapshot(watch *watch, watch_entry *entry, const char *path, uint64_t *own_print)
{
    os_state found;
    uint64_t print = 0;
    /* a link has another name for what is there already */
    if (os_lstat(OS_HERE, path, &found) != 0 || (found.kind != OS_FILE && found.kind != OS_FOLDER) ||
        (watch->has_run && os_is_same_file(&found, &watch->run_state)))
        return 0;
    if (!entry->has_step) {
        tell_left(watch, entry, path, "its name has no step: it is skipped");
        return 0;
    }
    *own_print = watch_own_print(&found);
    if (entry->state == WATCH_DONE && entry->own_print == *own_print)
        return 1;
    const int os_errno = watch_print(path, watch->has_run ? &watch->run_state : NULL, &print);
    if (os_errno == ENOENT)
        return 0;
    if (os_errno == 0)
        watch_see(entry, print, clock_ms());
    else
        watch_finish(entry, *own_print); /* it holds the run */
    /* a directory that is still being written is watched, too */
    const int is_wanted =
        found.kind == OS_FOLDER && (entry->state == WATCH_CHANGING || entry->state == WATCH_FAILED);
    if (is_wanted && entry->watch_id < 0)
        entry->watch_id = os_watch_add(watch->watch_fd, path);
    if (!is_wanted && entry->watch_id >= 0) {
        os_watch_remove(watch->watch_fd, entry->watch_id);
        entry->watch_id = -1;
    }
    return 1;
}

/* ---- adding ---- */

/* Notes a failure; reports it unless that was done. */
static void fail_entry(watch *watch, watch_entry *entry, cli_job *job, lmc_status status)
{
    const int is_system = cli_exit_status(status) == CLI_SYSTEM;
    if (is_cancelled())
        return;
    if (watch_fail(entry, status, job->diag.os_errno, is_system, watch->settle_ms, clock_ms()))
        (void)cli_job_end(job, status);
}

/* Adds a step, and removes those that are not to be kept. */
static void add_entry(watch *watch, watch_entry *entry, const char *path, uint64_t own_print)
{
    cli_job job;
    const cli_args *const args = watch->args;
    lmc_run_step step = LMC_INIT(lmc_run_step);
    uint64_t print = 0;
    cli_job_start(&job, args, path);
    lmc_run_add_options options = cli_run_add_options(&job);
    if (entry->is_told)
        options.warning = NULL;
    lmc_status status = lmc_run_add(watch->run_dir, path, &options, &step, &job.diag);
    cli_progress_clear(&job.progress);
    if (status != LMC_OK) {
        fail_entry(watch, entry, &job, status);
        return;
    }
    watch->exit_status = cli_finish_output();
    if (watch->exit_status != CLI_OK)
        return;
    watch_finish(entry, own_print);
    /* what was written meanwhile may be missing in the step */
    if (watch_print(path, watch->has_run ? &watch->run_state : NULL, &print) == 0 && !is_cancelled()) {
        watch_see(entry, print, clock_ms());
        if (entry->state == WATCH_DONE && (args->seen & CLI_OPT_RM) != 0)
            (void)cli_run_remove_snapshot(args, &job, &step);
    }
    if ((args->last == 0 && args->every == 0) || is_cancelled())
        return;
    cli_job_start(&job, args, watch->run_dir);
    const lmc_run_drop_options drop_options = cli_run_drop_options(&job);
    status = lmc_run_keep(watch->run_dir, args->last, args->every, &drop_options, &job.diag);
    if (!is_cancelled() || status == LMC_OK)
        (void)cli_job_end(&job, status);
}

/* A snapshot that has not changed for long enough. */
static void try_entry(watch *watch, watch_entry *entry, const char *path, uint64_t own_print)
{
    cli_job job;
    const cli_args *const args = watch->args;
    uint64_t container_count = 0;
    lmc_run *run = NULL;
    const int keeps_all = args->last == 0 && args->every == 0;
    if (!keeps_all && lmc_run_open(watch->run_dir, NULL, &run, NULL) == LMC_OK) {
        uint64_t newer_count = 0;
        lmc_run_step present = LMC_INIT(lmc_run_step);
        for (uint64_t i = lmc_run_step_count(run); i > 0; i--, newer_count++)
            if (lmc_run_step_info(run, i - 1, &present) != LMC_OK || present.step <= entry->step)
                break;
        lmc_run_close(run);
        if (!watch_is_kept(entry->step, newer_count, args->last, args->every)) {
            watch_finish(entry,
                         own_print); /* it would be removed at once, as others were in an earlier watch */
            return;
        }
    }
    cli_job_start(&job, args, path);
    const lmc_status status = watch_check(path, args, &container_count, &job.diag);
    if (status != LMC_OK) {
        fail_entry(watch, entry, &job, status);
    } else if (container_count == 0) {
        (void)watch_fail(entry, LMC_ERR_ARG, 0, 0, watch->settle_ms, clock_ms());
        tell_left(watch, entry, path, "has no tensors, or only archives: it is skipped until it changes");
    } else {
        add_entry(watch, entry, path, own_print);
    }
}

/* ---- all entries ---- */

static int is_due(const watch *watch, const watch_entry *entry, uint64_t now_ms)
{
    return watch_due_ms(entry, watch->settle_ms) <= now_ms;
}

/* Looks at one entry, and tries it if it is due and `may_try`. */
static void look_and_try(watch *watch, watch_entry *entry, int may_try)
{
    uint64_t own_print = 0;
    char *const path = lmc_path_join(&lmc_memory_default, watch->dir, entry->name, "");
    if (!path) {
        watch->exit_status = cli_fail_nomem();
        return;
    }
    if (!look_at_snapshot(watch, entry, path, &own_print))
        entry->state = WATCH_NEW; /* nothing of it is due */
    else if (may_try && is_due(watch, entry, clock_ms()))
        try_entry(watch, entry, path, own_print);
    free(path);
}

/* Looks at all entries, then tries those that are due by rising step. While one is added, others may change: each is
 * looked at again. */
static void work_on_entries(watch *watch)
{
    size_t due_count = 0;
    watch_entry **const due = calloc(watch->count + 1, sizeof(watch_entry *));
    if (!due) {
        watch->exit_status = cli_fail_nomem();
        return;
    }
    /* what has changed is said to have done so when the last was looked at: entries that were complete together become
     * due together */
    const uint64_t begin_ms = clock_ms();
    for (size_t i = 0; i < watch->count && !is_cancelled(); i++)
        look_and_try(watch, watch->entries[i], 0);
    const uint64_t now_ms = clock_ms();
    for (size_t i = 0; i < watch->count; i++)
        if (watch->entries[i]->changed_ms >= begin_ms)
            watch->entries[i]->changed_ms = now_ms;
    for (size_t i = 0; i < watch->count; i++)
        if (is_due(watch, watch->entries[i], now_ms))
            due[due_count++] = watch->entries[i];
    if (due_count > 1)
        qsort(due, due_count, sizeof(watch_entry *), watch_compare_steps);
    for (size_t i = 0; i < due_count && !is_cancelled() && watch->exit_status == CLI_OK; i++)
        look_and_try(watch, due[i], 1);
    free(due);
}

/* Waits until something has happened in the directories, an entry is due, or a signal came. */
static void wait_for_change(const watch *watch)
{
    uint64_t pause_ms = watch->watch_fd >= 0 ? LOOK_MS_MAX : LOOK_MS_MAX_WITHOUT_EVENTS;
    const uint64_t now_ms = clock_ms();
    for (size_t i = 0; i < watch->count; i++) {
        const uint64_t due_ms = watch_due_ms(watch->entries[i], watch->settle_ms);
        const uint64_t left_ms = due_ms > now_ms ? due_ms - now_ms : 1;
        pause_ms = left_ms < pause_ms ? left_ms : pause_ms;
    }
    (void)os_watch_wait(watch->watch_fd, pause_ms, &cli_cancel); /* the directories are listed anyway */
}

/* ---- the command ---- */

static int run_watch(const cli_args *args)
{
    if (args->operand_count != 2)
        return cli_usage_error(args->command, "run watch takes a run and the directory to watch");
    watch watch = {.args = args,
                   .run_dir = args->operands[0],
                   .dir = args->operands[1],
                   .settle_ms = (args->seen & CLI_OPT_SETTLE) != 0 ? args->settle_ms : SETTLE_MS_DEFAULT,
                   .watch_fd = -1};
    const int os_errno = os_stat(OS_HERE, watch.dir, &watch.dir_state);
    if (os_errno != 0)
        return cli_fail_os(watch.dir, os_errno, "cannot watch");
    if (watch.dir_state.kind != OS_FOLDER)
        return cli_usage_error(args->command, "the second operand must be a directory");
    char *const run = os_real_path(watch.run_dir); /* NULL: there is no run yet */
    char *const dir = os_real_path(watch.dir);
    const int is_in_run = run && dir && lmc_path_is_within(dir, run);
    free(run);
    free(dir);
    if (is_in_run)
        return cli_usage_error(args->command, "the directory to watch must not be the run or inside it");
    /* a second signal of one kind ends the process: the first one sets cli_cancel, and the work ends in order */
    os_catch_signals(&cli_cancel, 1);
    watch.watch_fd = os_watch_open();
    (void)os_watch_add(watch.watch_fd, watch.dir);
    while (!is_cancelled() && watch.exit_status == CLI_OK) {
        watch.exit_status = list_directory(&watch);
        if (watch.exit_status == CLI_OK)
            work_on_entries(&watch);
        if (watch.exit_status == CLI_OK)
            wait_for_change(&watch);
    }
    for (size_t i = 0; i < watch.count; i++)
        free_entry(&watch, watch.entries[i]);
    free(watch.entries);
    if (watch.watch_fd >= 0)
        (void)os_close(watch.watch_fd);
    return watch.exit_status;
}

const cli_command cli_run_watch = {
    "run watch", CLI_RUN_WATCH, "add what a trainer completes", "RUN_DIR DIR ", about, NULL, run_watch};
