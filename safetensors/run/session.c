/*
 * session.c - run/session.h: opening, locking, tidying up, and run.json.
 */
#include "safetensors/run/session.h"

#include "safetensors/os/folder.h"
#include "safetensors/run/describe.h"
#include "safetensors/tree/copied.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h> /* qsort */
#include <string.h>

/* The longest entry of run.json, and what stands around the entries. */
#define ENTRY_NBYTES 256
#define FRAME_NBYTES 128

#define OPEN_TRIES 10

char *st_run_path(const st_run_session *run, const char *name)
{
    return lmc_path_join(run->options->allocator, run->path, name, "");
}

char *st_run_step_path(const st_run_session *run, uint64_t step)
{
    char name[ST_STEP_NAME_NBYTES];
    st_step_name(name, step);
    return st_run_path(run, name);
}

static lmc_status fail_os(const st_run_session *run, int os_errno, const char *what)
{
    st_diag_set_file(run->diag, run->path);
    return os_errno == ECANCELED ? st_fail_cancelled(run->diag)
                                 : st_fail_os(run->diag, os_errno, LMC_ST_NO_OFFSET, what);
}

lmc_status st_run_find_step(const st_run_session *run, uint64_t step, const lmc_run_step **found)
{
    *found = st_run_list_find(&run->list, step);
    if (*found)
        return LMC_OK;
    st_diag_set_file(run->diag, run->path);
    return st_fail(run->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no step %llu",
                   (unsigned long long)step);
}

/* ---- run.json ---- */

lmc_status st_run_save(const st_run_session *run)
{
    const lmc_allocator *const memory = run->options->allocator;
    const st_run_list *const list = &run->list;
    st_options options = *run->options;
    os_output output;
    char *const path = st_run_path(run, ST_RUN_LIST_NAME);
    char *const text = st_allocate(memory, FRAME_NBYTES + list->count * ENTRY_NBYTES);
    const os_place place = os_place_of(path);
    lmc_status status = path && text ? LMC_OK : st_fail_nomem(run->diag);
    options.force = 1;
    if (status == LMC_OK)
        status = os_output_open(&output, &options, &place, NULL, 0, run->diag);
    if (status == LMC_OK) {
        size_t at = (size_t)snprintf(text, FRAME_NBYTES,
                                     "{\"format\":\"" ST_RUN_LIST_FORMAT
                                     "\",\"version\":%d,\"key_every\":%u,\"steps\":[",
                                     LMC_RUN_VERSION, list->key_every);
        for (size_t i = 0; i < list->count; i++) {
            const lmc_run_step *const step = &list->steps[i];
            char base[32] = "null";
            if (step->has_base && step->base == LMC_RUN_UNKNOWN)
                memcpy(base, "\"unknown\"", sizeof "\"unknown\"");
            else if (step->has_base)
                snprintf(base, sizeof base, "%llu", (unsigned long long)step->base);
            at += (size_t)snprintf(
                text + at, ENTRY_NBYTES,
                "%s\n{\"step\":%llu,\"snapshot\":\"%s\",\"files\":%llu,\"nbytes\":%llu,\"stored_nbytes\":%"
                "llu,"
                "\"base\":%s,\"time\":%lld}",
                i == 0 ? "" : ",", (unsigned long long)step->step, step->is_directory ? "directory" : "file",
                (unsigned long long)step->file_count, (unsigned long long)step->original_nbytes,
                (unsigned long long)step->stored_nbytes, base,
                step->time_s > 0 ? (long long)step->time_s : 0);
        }
        at += (size_t)snprintf(text + at, 8, "\n]}\n");
        status = os_output_write(&output, 0, text, at, run->diag);
        status = os_output_close(&output, &options, status, run->diag);
    }
    st_release(memory, text);
    st_release(memory, path);
    return status;
}

/* ---- folders and entries ---- */

/* What the directory has. */
typedef struct contents {
    const st_run_session *run;
    st_buffer room; /* steps */
    size_t count;
    int has_others; /* names that are none of a run */
    int os_errno;   /* of a removal */
} contents;

static int starts_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static int take_name(void *user, const char *name)
{
    /* what a run that never got its list may have: nothing that the user could miss */
    static const char *const beginnings[] = {ST_RUN_LOCK, ST_RUN_TEMPORARY, ST_RUN_STAGED, "." ST_RUN_STAGED};
    contents *const contents = user;
    const lmc_allocator *const memory = contents->run->options->allocator;
    uint64_t step = 0;
    if (!st_step_is_name(name, strlen(name), &step)) {
        int is_other = strcmp(name, ST_RUN_LIST_NAME) != 0;
        for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
            is_other &= !starts_with(name, beginnings[i]);
        contents->has_others |= is_other;
        return 0;
    }
    unsigned char *const place =
        st_buffer_extend(memory, &contents->room, contents->count * sizeof step, sizeof step);
    if (!place)
        return ENOMEM;
    memcpy(place, &step, sizeof step);
    contents->count++;
    return 0;
}

static int compare_rising(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Free contents->room in every case. */
static lmc_status read_contents(const st_run_session *run, contents *contents)
{
    *contents = (struct contents){.run = run};
    const int os_errno = lmc_visit_folder(run->fd, take_name, contents);
    if (os_errno != 0)
        return fail_os(run, os_errno, "cannot list the run");
    if (contents->count > 1)
        qsort(contents->room.bytes, contents->count, sizeof(uint64_t), compare_rising);
    return LMC_OK;
}

lmc_status st_run_describe_step(const st_run_session *run, uint64_t step, uint64_t expected,
                                lmc_run_step *found)
{
    char name[ST_STEP_NAME_NBYTES];
    st_step_name(name, expected);
    const lmc_allocator *const memory = run->options->allocator;
    const int has_expected = expected != LMC_RUN_UNKNOWN;
    char *const path = st_run_step_path(run, step);
    char *const base_dir = has_expected ? lmc_path_join(memory, run->true_path, name, "") : NULL;
    const st_run_folder folder = {.run = run->true_path, .path = path, .base_dir = base_dir, .step = step};
    const lmc_status status = path && (base_dir || !has_expected)
                                  ? st_run_describe(&folder, run->options, found, NULL, run->diag)
                                  : st_fail_nomem(run->diag);
    st_release(memory, base_dir);
    st_release(memory, path);
    return status;
}

/* Makes the list that of the folders. *has_changed: it was another one. */
static lmc_status match_folders(st_run_session *run, const contents *contents, int *has_changed)
{
    const uint64_t *const steps = (const uint64_t *)(const void *)contents->room.bytes;
    st_run_list *const list = &run->list;
    size_t at = 0;
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        while (at < contents->count && steps[at] < list->steps[i].step)
            at++;
        if (at < contents->count && steps[at] == list->steps[i].step)
            list->steps[kept++] = list->steps[i];
    }
    *has_changed = kept != list->count;
    list->count = kept;
    for (size_t i = 0; i < contents->count; i++) {
        char name[ST_STEP_NAME_NBYTES];
        st_step_name(name, steps[i]);
        if (st_run_list_find(list, steps[i]) || !os_folder_is_folder(run->fd, name))
            continue;
        lmc_run_step found; /* its base is expected in the step before it */
        LMC_TRY(st_run_describe_step(run, steps[i], i == 0 ? LMC_RUN_UNKNOWN : steps[i - 1], &found));
        if (!st_run_list_put(list, &found))
            return st_fail_nomem(run->diag);
        *has_changed = 1;
    }
    st_run_list_set_chains(list);
    return LMC_OK;
}

/* ---- what is half done ---- */

/* Removes what an earlier call left half done. An unfinished directory stands beside its place with a dot before its
 * name. A directory of archives has a list of copies, which no run has: it is left alone. A step that was to be
 * replaced, where the system cannot exchange two names, comes back. */
static int tidy_name(void *user, const char *name)
{
    contents *const contents = user;
    const int fd = contents->run->fd;
    const char *const step_name = name + strlen(ST_RUN_OLD);
    if ((!starts_with(name, ST_RUN_PREFIX) && !starts_with(name, "." ST_RUN_PREFIX)) ||
        strcmp(name, ST_RUN_LOCK) == 0 || strcmp(name, ST_COPIED_NAME) == 0)
        return 0;
    if (starts_with(name, ST_RUN_OLD) && !os_folder_has(fd, step_name) &&
        os_folder_rename(fd, name, step_name) == 0)
        return 0;
    const int os_errno = os_remove_name(fd, name);
    contents->os_errno = contents->os_errno != 0 ? contents->os_errno : os_errno;
    return 0;
}

/* ---- beginning and end ---- */

static int is_writing(st_run_access access)
{
    return access != ST_RUN_READ && access != ST_RUN_PLAN;
}

/* Refuses a directory that is no run and may not become one, before anything in it is touched. Nothing but the rest of
 * a run that never began may be in a directory that becomes one. */
static lmc_status check_directory(const st_run_session *run, st_run_access access)
{
    contents contents;
    if (access == ST_RUN_READ || os_folder_has(run->fd, ST_RUN_LIST_NAME))
        return LMC_OK;
    const lmc_status status = read_contents(run, &contents);
    st_buffer_free(run->options->allocator, &contents.room);
    /* another session may have made the run meanwhile */
    if (status != LMC_OK || os_folder_has(run->fd, ST_RUN_LIST_NAME))
        return status;
    if (access == ST_RUN_WRITE)
        return st_run_list_fail_missing(run->path, run->diag);
    st_diag_set_file(run->diag, run->path);
    if (access == ST_RUN_REPAIR && contents.count == 0)
        return st_fail(run->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "has no folder that is named as a step");
    if (access == ST_RUN_REPAIR)
        return LMC_OK;
    if (contents.count > 0)
        return st_fail(run->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "has no " ST_RUN_LIST_NAME ", but folders that are named as steps: if it is a run, "
                       "repair it");
    if (contents.has_others)
        return st_fail(run->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "is no run: it has no " ST_RUN_LIST_NAME ", and is not empty");
    return LMC_OK;
}

/* The directory and its lock. ENOENT of the lock: the directory was removed just now. */
static lmc_status open_locked(st_run_session *run, st_run_access access)
{
    int os_errno = 0;
    for (int i = 0; i < OPEN_TRIES; i++) {
        if (access == ST_RUN_CREATE && os_folder_create(run->path) == 0)
            run->is_own_folder = 1;
        run->fd = lmc_open_folder(run->path);
        if (run->fd < 0)
            return fail_os(run, errno, "cannot open the run");
        LMC_TRY(check_directory(run, access));
        os_errno = !is_writing(access)
                       ? os_lock_folder(run->fd, 1, run->options->cancel)
                       : os_lock_file(run->fd, ST_RUN_LOCK, run->options->cancel, &run->lock_fd);
        if (os_errno != ENOENT || access != ST_RUN_CREATE)
            break;
        os_close(run->fd);
        run->fd = -1;
    }
    return os_errno == 0 ? LMC_OK : fail_os(run, os_errno, "cannot open the run");
}

/* Without a list, one is made if it may be. REPAIR: the list is without steps, so that bases are looked for by their
 * content; a sound one keeps key_every. */
static lmc_status read_list(st_run_session *run, st_run_access access)
{
    const lmc_allocator *const memory = run->options->allocator;
    const int is_repair = access == ST_RUN_REPAIR;
    lmc_st_diag unused = {0};
    const lmc_status status =
        st_run_list_read(&run->list, memory, run->path, is_repair ? &unused : run->diag);
    const int may_make = access == ST_RUN_CREATE || access == ST_RUN_PLAN;
    if (is_repair && status == LMC_ERR_NOMEM)
        return st_fail_nomem(run->diag);
    if (!is_repair && !(status == LMC_ERR_ARG && may_make))
        return status;
    const unsigned key_every = status == LMC_OK ? run->list.key_every : LMC_RUN_KEY_EVERY_DEFAULT;
    st_run_list_free(&run->list);
    run->list = (st_run_list){.memory = memory, .key_every = key_every};
    run->is_new = !is_repair;
    return is_writing(access) ? st_run_save(run) : LMC_OK;
}

lmc_status st_run_begin(st_run_session *run, const char *path, st_run_access access,
                        const st_options *options, lmc_st_diag *diag)
{
    contents contents = {.run = run};
    int has_changed = 0;
    *run = (st_run_session){.path = path, .options = options, .diag = diag, .fd = -1, .lock_fd = -1};
    LMC_TRY(open_locked(run, access));
    run->true_path = os_true_path(options->allocator, path);
    if (!run->true_path)
        return fail_os(run, errno, "cannot find the run");
    if (is_writing(access)) {
        const int os_errno = lmc_visit_folder(run->fd, tidy_name, &contents);
        if (os_errno != 0 || contents.os_errno != 0)
            return fail_os(run, os_errno != 0 ? os_errno : contents.os_errno,
                           "cannot remove what an earlier run left half done");
    }
    lmc_status status = read_contents(run, &contents);
    if (status == LMC_OK)
        status = read_list(run, access);
    if (status == LMC_OK)
        status = match_folders(run, &contents, &has_changed);
    st_buffer_free(options->allocator, &contents.room);
    if (status == LMC_OK && is_writing(access) && (has_changed || access == ST_RUN_REPAIR))
        status = st_run_save(run);
    return status;
}

void st_run_end(st_run_session *run, lmc_status status)
{
    if (status != LMC_OK && run->is_new && run->list.count == 0 && run->lock_fd >= 0) {
        (void)os_folder_remove_file(run->fd, ST_RUN_LIST_NAME);
        (void)os_folder_remove_file(run->fd, ST_RUN_LOCK);
        if (run->is_own_folder)
            (void)os_folder_remove_empty(run->path);
    }
    if (run->lock_fd >= 0)
        os_close(run->lock_fd);
    if (run->fd >= 0)
        os_close(run->fd);
    st_run_list_free(&run->list);
    if (run->options)
        st_release(run->options->allocator, run->true_path);
    *run = (st_run_session){.fd = -1, .lock_fd = -1};
}
