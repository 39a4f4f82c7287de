/*
 * cmd_run_watch.c - lmc-st run watch: lists a directory again and again, and adds what is complete. Between two looks
 * it waits for events in the directory (inotify, where it is), for a time, or for a signal.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#define _FILE_OFFSET_BITS 64

#include "tool/commands/cmd_run.h"
#include "tool/commands/watch_snapshot.h"
#include "tool/tool_path.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/inotify.h>
#endif

static const char about[] =
    "Adds each snapshot to a run as soon as a trainer has completed it in DIR: files\n"
    "with tensors, and directories such as checkpoint-500. It is complete when its\n"
    "files are readable to their ends and nothing has changed for a while. Ends on a\n"
    "signal (exit status 0), or when DIR is removed (3). May be started again.\n";

/* Programs change several names one after another: what follows an event within this time is seen with it. */
#define GATHER_MS 20

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
#define ENDING_COUNT (sizeof ending / sizeof ending[0])

/* Milliseconds of a clock that nobody sets. */
static uint64_t clock_ms(void)
{
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- events ---- */

/* Adds a directory, without those in it. Returns an id, or -1. Not each write is an event: a file that grows is looked
 * at when it was closed, and after --settle seconds. */
static int notify_add(int fd, const char *path)
{
#ifdef __linux__
    const uint32_t events = IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE |
                            IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
    return fd < 0 ? -1 : inotify_add_watch(fd, path, events);
#else
    (void)fd;
    (void)path;
    return -1;
#endif
}

static void notify_remove(int fd, int id)
{
#ifdef __linux__
    if (fd >= 0 && id >= 0)
        (void)inotify_rm_watch(fd, id); /* fails if the directory is gone, and its watch with it */
#else
    (void)fd;
    (void)id;
#endif
}

/* ---- waiting ---- */

/* A signal between the look at cli_cancel and the wait must end the wait: signals come in within pselect() alone. */
static int wait_for_event(int fd, uint64_t most_ms)
{
    fd_set set;
    sigset_t blocked, before;
    const struct timespec time = {.tv_sec = (time_t)(most_ms / 1000),
                                  .tv_nsec = (long)(most_ms % 1000) * 1000000};
    int count = 0;
    const int has_fd = fd >= 0 && fd < FD_SETSIZE;
    FD_ZERO(&set);
    if (has_fd)
        FD_SET(fd, &set);
    sigemptyset(&blocked);
    for (size_t i = 0; i < ENDING_COUNT; i++)
        sigaddset(&blocked, ending[i]);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    if (__atomic_load_n(&cli_cancel, __ATOMIC_RELAXED) == 0)
        count = pselect(has_fd ? fd + 1 : 0, has_fd ? &set : NULL, NULL, NULL, &time, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return count > 0;
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
    notify_remove(watch->notify_fd, entry->watch_id);
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
        watch_entry **known = NULL;
        errno = 0;
        const struct dirent *const next = readdir(stream);
        os_errno = errno;
        if (!next)
            break;
        if (watch_is_temporary(next->d_name))
            continue;
        const watch_entry key = {.name = (char *)(uintptr_t)next->d_name};
        const watch_entry *const at = &key;
        if (sorted_count > 0)
            known = bsearch(&at, watch->entries, sorted_count, sizeof(watch_entry *), compare_names);
        if (known)
            (*known)->is_found = 1;
        else
            is_stored = append_entry(watch, next->d_name);
    }
    closedir(stream);
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
    return is_stored ? CLI_OK : cli_fail_nomem();
}

/* ---- looking at an entry ---- */

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
        tell_left(watch, entry, path, "its name has no step: it is skipped");
        return 0;
    }
    *own_print = watch_own_print(&found);
    if (entry->state == WATCH_DONE && entry->own_print == *own_print)
        return 1;
    const int os_errno = watch_print(path, watch->has_run ? &watch->run_state : NULL, &print);
    if (os_errno == ENOENT)
        return 0;
    if (os_errno == 0 || os_errno == ENOMEM)
        watch_see(entry, print, clock_ms());
    else
        watch_finish(entry, *own_print); /* it holds the run */
    /* a directory that is still being written is watched, too */
    const int is_wanted =
        S_ISDIR(found.st_mode) && (entry->state == WATCH_CHANGING || entry->state == WATCH_FAILED);
    if (is_wanted && entry->watch_id < 0)
        entry->watch_id = notify_add(watch->notify_fd, path);
    if (!is_wanted && entry->watch_id >= 0) {
        notify_remove(watch->notify_fd, entry->watch_id);
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
    char events[4096];
    uint64_t pause_ms = watch->notify_fd >= 0 ? LOOK_MS_MAX : LOOK_MS_MAX_WITHOUT_EVENTS;
    const uint64_t now_ms = clock_ms();
    for (size_t i = 0; i < watch->count; i++) {
        const uint64_t due_ms = watch_due_ms(watch->entries[i], watch->settle_ms);
        const uint64_t left_ms = due_ms > now_ms ? due_ms - now_ms : 1;
        pause_ms = left_ms < pause_ms ? left_ms : pause_ms;
    }
    if (!wait_for_event(watch->notify_fd, pause_ms))
        return;
    (void)wait_for_event(-1, GATHER_MS);
    while (read(watch->notify_fd, events, sizeof events) > 0)
        continue; /* the directories are listed anyway */
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
                   .notify_fd = -1};
    if (stat(watch.dir, &watch.dir_state) != 0)
        return cli_fail_os(watch.dir, errno, "cannot watch");
    if (!S_ISDIR(watch.dir_state.st_mode))
        return cli_usage_error(args->command, "the second operand must be a directory");
    char *const run = realpath(watch.run_dir, NULL); /* NULL: there is no run yet */
    char *const dir = realpath(watch.dir, NULL);
    const size_t length = run ? strlen(run) : 0;
    const int is_in_run =
        run && dir && strncmp(dir, run, length) == 0 && (dir[length] == '\0' || dir[length] == '/');
    free(run);
    free(dir);
    if (is_in_run)
        return cli_usage_error(args->command, "the directory to watch must not be the run or inside it");
    /* a second signal of one kind ends the process: the first one sets cli_cancel, and the work ends in order */
    for (size_t i = 0; i < ENDING_COUNT; i++) {
        struct sigaction action;
        if (sigaction(ending[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            action.sa_flags |= (int)SA_RESETHAND;
            sigaction(ending[i], &action, NULL);
        }
    }
    watch.notify_fd = -1; /* the system cannot tell of changes: directories are looked at from time to time */
#ifdef __linux__
    watch.notify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
#endif
    (void)notify_add(watch.notify_fd, watch.dir);
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
    if (watch.notify_fd >= 0)
        close(watch.notify_fd);
    return watch.exit_status;
}

const cli_command cli_run_watch = {
    "run watch", CLI_RUN_WATCH, "add what a trainer completes", "RUN_DIR DIR ", about, NULL, run_watch};
