/*
 * run_watch.c - lmc-st run watch: lists a directory again and again, and adds what is complete.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#define _FILE_OFFSET_BITS 64

#include "tool/commands/run.h"
#include "tool/commands/watch_look.h"
#include "tool/commands/watch_state.h"
#include "tool/commands/watch_wait.h"
#include "tool/path.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char about[] =
    "Adds each snapshot to a run as soon as a trainer has completed it in DIR: files\n"
    "with tensors, and directories such as checkpoint-500. It is complete when its\n"
    "files read to their ends and nothing has changed for a while. Ends with a\n"
    "signal (exit status 0), or when DIR goes away (3). May be started again.\n";

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
    struct stat dir_state, run_state;
    int has_run;           /* run_state is set */
    watch_entry **entries; /* by name, once the listing is complete */
    size_t count, capacity;
    int notify_fd;
    int exit_status; /* of what ends the watch */
} watch;

static int is_cancelled(void)
{
    return __atomic_load_n(&cli_cancel, __ATOMIC_RELAXED) != 0;
}

static int is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
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
    watch_notify_remove(watch->notify_fd, entry->watch_id);
    free(entry->name);
    free(entry);
}

static watch_entry *find_entry(const watch *watch, size_t sorted_count, const char *name)
{
    const watch_entry key = {.name = (char *)(uintptr_t)name};
    const watch_entry *const at = &key;
    watch_entry **const found =
        sorted_count == 0 ? NULL
                          : bsearch(&at, watch->entries, sorted_count, sizeof(watch_entry *), compare_names);
    return found ? *found : NULL;
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
    entry->has_step = lmc_st_run_step_of_name(copy, &entry->step);
    watch->entries[watch->count++] = entry;
    return 1;
}

static void forget_missing(watch *watch)
{
    size_t kept = 0;
    for (size_t i = 0; i < watch->count; i++)
        if (watch->entries[i]->is_found)
            watch->entries[kept++] = watch->entries[i];
        else
            free_entry(watch, watch->entries[i]);
    watch->count = kept;
    if (kept > 1)
        qsort(watch->entries, kept, sizeof(watch_entry *), compare_names);
}

/* Returns the exit status. */
static int list_directory(watch *watch)
{
    struct stat found;
    const size_t sorted_count = watch->count;
    int is_stored = 1;
    int os_errno = 0;
    DIR *const stream = stat(watch->dir, &found) == 0 ? opendir(watch->dir) : NULL;
    if (!stream)
        return cli_fail_os(watch->dir, errno, "cannot watch");
    if (!is_same_file(&found, &watch->dir_state)) {
        closedir(stream);
        return cli_fail_os(watch->dir, ENOENT, "another directory has this name now");
    }
    watch->has_run = stat(watch->run_dir, &watch->run_state) == 0;
    for (size_t i = 0; i < watch->count; i++)
        watch->entries[i]->is_found = 0;
    while (is_stored) {
        errno = 0;
        const struct dirent *const next = readdir(stream);
        os_errno = errno;
        if (!next)
            break;
        if (watch_is_temporary(next->d_name))
            continue;
        watch_entry *const known = find_entry(watch, sorted_count, next->d_name);
        if (known)
            known->is_found = 1;
        else
            is_stored = append_entry(watch, next->d_name);
    }
    closedir(stream);
    if (os_errno != 0)
        return cli_fail_os(watch->dir, os_errno, "cannot watch");
    forget_missing(watch);
    return is_stored ? CLI_OK : cli_fail_nomem();
}

/* ---- looking at an entry ---- */

/* A directory that is still being written is watched, too. */
static void match_events(watch *watch, watch_entry *entry, const char *path, int is_directory)
{
    const int is_wanted = is_directory && (entry->state == WATCH_CHANGING || entry->state == WATCH_FAILED);
    if (is_wanted && entry->watch_id < 0)
        entry->watch_id = watch_notify_add(watch->notify_fd, path);
    if (is_wanted || entry->watch_id < 0)
        return;
    watch_notify_remove(watch->notify_fd, entry->watch_id);
    entry->watch_id = -1;
}

/* Looks whether the entry has changed. Returns 1 and sets *own_print, or 0: it is no snapshot, or gone. */
static int look_at_snapshot(watch *watch, watch_entry *entry, const char *path, uint64_t *own_print)
{
    struct stat found;
    uint64_t print = 0;
    /* a link has another name for what is there already */
    if (lstat(path, &found) != 0 || !(S_ISREG(found.st_mode) || S_ISDIR(found.st_mode)) ||
        (watch->has_run && is_same_file(&found, &watch->run_state)))
        return 0;
    if (!entry->has_step) {
        tell_left(watch, entry, path, "its name tells no step: it is left alone");
        return 0;
    }
    *own_print = watch_own_print(&found);
    if (entry->state == WATCH_DONE && entry->own_print == *own_print)
        return 1;
    const int os_errno = watch_print(path, watch->has_run ? &watch->run_state : NULL, &print);
    if (os_errno == ENOENT)
        return 0;
    if (os_errno == 0 || os_errno == ENOMEM)
        watch_see(entry, print, watch_now_ms());
    else
        watch_finish(entry, *own_print); /* it holds the run */
    match_events(watch, entry, path, S_ISDIR(found.st_mode));
    return 1;
}

static int look_at(watch *watch, watch_entry *entry, const char *path, uint64_t *own_print)
{
    const int is_there = look_at_snapshot(watch, entry, path, own_print);
    if (!is_there)
        entry->state = WATCH_NEW; /* nothing of it is due */
    return is_there;
}

/* ---- adding ---- */

/* 1 if the step would be removed at once, as others were in an earlier watch. */
static int is_unwanted(const watch *watch, uint64_t step)
{
    const cli_args *const args = watch->args;
    uint64_t newer_count = 0;
    lmc_st_run *run = NULL;
    if ((args->last == 0 && args->every == 0) || lmc_st_run_open(watch->run_dir, NULL, &run, NULL) != LMC_OK)
        return 0;
    for (uint64_t i = lmc_st_run_step_count(run); i > 0; i--) {
        lmc_st_run_step present = LMC_INIT(lmc_st_run_step);
        if (lmc_st_run_step_info(run, i - 1, &present) != LMC_OK || present.step <= step)
            break;
        newer_count++;
    }
    lmc_st_run_close(run);
    return !watch_is_kept(step, newer_count, args->last, args->every);
}

/* Notes a failure; reports it unless that was done. */
static void fail_entry(watch *watch, watch_entry *entry, cli_job *job, lmc_status status)
{
    const int is_system = cli_exit_status(status) == CLI_SYSTEM;
    if (is_cancelled())
        return;
    if (watch_fail(entry, status, job->diag.os_errno, is_system, watch->settle_ms, watch_now_ms()))
        (void)cli_job_end(job, status);
}

static void keep_steps(watch *watch)
{
    cli_job job;
    lmc_st_run_options run_options;
    const cli_args *const args = watch->args;
    if ((args->last == 0 && args->every == 0) || is_cancelled())
        return;
    cli_job_start(&job, args, watch->run_dir);
    cli_run_set_options(args, &run_options);
    const lmc_status status =
        lmc_st_run_keep(watch->run_dir, args->last, args->every, &run_options, &job.options, &job.diag);
    if (!is_cancelled() || status == LMC_OK)
        (void)cli_job_end(&job, status);
}

static void add_entry(watch *watch, watch_entry *entry, const char *path, uint64_t own_print)
{
    cli_job job;
    lmc_st_run_options run_options;
    lmc_st_run_step step = LMC_INIT(lmc_st_run_step);
    uint64_t print = 0;
    cli_job_start(&job, watch->args, path);
    cli_run_set_options(watch->args, &run_options);
    if (entry->is_told) {
        job.options.damage = NULL;
        job.options.warning = NULL;
    }
    const lmc_status status =
        lmc_st_run_add(watch->run_dir, path, &run_options, &job.options, &step, &job.diag);
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
        watch_see(entry, print, watch_now_ms());
        if (entry->state == WATCH_DONE && (watch->args->seen & CLI_OPT_RM) != 0)
            (void)cli_run_remove_snapshot(watch->args, &job, &step);
    }
    keep_steps(watch);
}

/* A snapshot that has not changed for long enough. */
static void try_entry(watch *watch, watch_entry *entry, const char *path, uint64_t own_print)
{
    cli_job job;
    uint64_t container_count = 0;
    cli_job_start(&job, watch->args, path);
    if (is_unwanted(watch, entry->step)) {
        watch_finish(entry, own_print);
        return;
    }
    const lmc_status status = watch_check(path, &job.options, &container_count, &job.diag);
    if (status != LMC_OK) {
        fail_entry(watch, entry, &job, status);
    } else if (container_count == 0) {
        (void)watch_fail(entry, LMC_ERR_ARG, 0, 0, watch->settle_ms, watch_now_ms());
        tell_left(watch, entry, path, "has no tensors, or only archives: it is left alone until it changes");
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
    char *const path = cli_path_join(watch->dir, entry->name, "");
    if (!path) {
        watch->exit_status = cli_fail_nomem();
        return;
    }
    if (look_at(watch, entry, path, &own_print) && may_try && is_due(watch, entry, watch_now_ms()))
        try_entry(watch, entry, path, own_print);
    free(path);
}

/* Looks at all entries. What has changed is said to have done so when the last was looked at: entries that were
 * complete together become due together. Returns that time. */
static uint64_t look_at_entries(watch *watch)
{
    const uint64_t begin_ms = watch_now_ms();
    for (size_t i = 0; i < watch->count && !is_cancelled(); i++)
        look_and_try(watch, watch->entries[i], 0);
    const uint64_t end_ms = watch_now_ms();
    for (size_t i = 0; i < watch->count; i++)
        if (watch->entries[i]->changed_ms >= begin_ms)
            watch->entries[i]->changed_ms = end_ms;
    return end_ms;
}

/* Tries all that are due by rising step. While one is added, others may change: each is looked at again. */
static void work_on_entries(watch *watch)
{
    size_t due_count = 0;
    watch_entry **const due = calloc(watch->count + 1, sizeof(watch_entry *));
    if (!due) {
        watch->exit_status = cli_fail_nomem();
        return;
    }
    const uint64_t now_ms = look_at_entries(watch);
    for (size_t i = 0; i < watch->count; i++)
        if (is_due(watch, watch->entries[i], now_ms))
            due[due_count++] = watch->entries[i];
    if (due_count > 1)
        qsort(due, due_count, sizeof(watch_entry *), watch_compare_steps);
    for (size_t i = 0; i < due_count && !is_cancelled() && watch->exit_status == CLI_OK; i++)
        look_and_try(watch, due[i], 1);
    free(due);
}

static uint64_t find_pause_ms(const watch *watch)
{
    const uint64_t most_ms = watch->notify_fd >= 0 ? LOOK_MS_MAX : LOOK_MS_MAX_WITHOUT_EVENTS;
    const uint64_t now_ms = watch_now_ms();
    uint64_t pause_ms = most_ms;
    for (size_t i = 0; i < watch->count; i++) {
        const uint64_t due_ms = watch_due_ms(watch->entries[i], watch->settle_ms);
        const uint64_t left_ms = due_ms > now_ms ? due_ms - now_ms : 1;
        pause_ms = left_ms < pause_ms ? left_ms : pause_ms;
    }
    return pause_ms;
}

/* ---- the command ---- */

static int work_until_signal(watch *watch)
{
    watch_end_at_second_signal();
    watch->notify_fd = watch_notify_open();
    (void)watch_notify_add(watch->notify_fd, watch->dir);
    while (!is_cancelled() && watch->exit_status == CLI_OK) {
        watch->exit_status = list_directory(watch);
        if (watch->exit_status == CLI_OK)
            work_on_entries(watch);
        if (watch->exit_status == CLI_OK)
            watch_wait(watch->notify_fd, find_pause_ms(watch));
    }
    for (size_t i = 0; i < watch->count; i++)
        free_entry(watch, watch->entries[i]);
    free(watch->entries);
    if (watch->notify_fd >= 0)
        close(watch->notify_fd);
    return watch->exit_status;
}

/* 1 if the path is the run or lies in it; 0 if not, or if there is no run yet. */
static int is_in_run(const char *run_dir, const char *path)
{
    char *const run = realpath(run_dir, NULL);
    char *const inner = realpath(path, NULL);
    const size_t length = run ? strlen(run) : 0;
    const int is_in =
        run && inner && strncmp(inner, run, length) == 0 && (inner[length] == '\0' || inner[length] == '/');
    free(run);
    free(inner);
    return is_in;
}

static int run_watch(const cli_args *args)
{
    if (args->operand_count != 2)
        return cli_usage_error(args->command, "run watch takes a run and the directory to watch");
    watch watch = {.args = args,
                   .run_dir = args->operands[0],
                   .dir = args->operands[1],
                   .settle_ms = (args->seen & CLI_OPT_SETTLE) != 0 ? args->settle_ms : SETTLE_MS_DEFAULT,
                   .notify_fd = -1};
    if (stat(watch.dir, &watch.dir_state) != 0)
        return cli_fail_os(watch.dir, errno, "cannot watch");
    if (!S_ISDIR(watch.dir_state.st_mode))
        return cli_usage_error(args->command, "the second operand must be a directory");
    if (is_in_run(watch.run_dir, watch.dir))
        return cli_usage_error(args->command, "the directory to watch must not be the run, nor lie in it");
    return work_until_signal(&watch);
}

const cli_command cli_run_watch = {
    "run watch", CLI_RUN_WATCH, "add what a trainer completes", "RUN_DIR DIR ", about, NULL, run_watch};
