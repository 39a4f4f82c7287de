/*
 * place.c - run/place.h: conversion to the staged folder, renames, and removal.
 */
#include "safetensors/run/place.h"

#include "safetensors/convert/convert_file.h"
#include "safetensors/os/folder.h"
#include "safetensors/restore/restore.h"
#include "safetensors/run/describe.h"
#include "safetensors/tree/check.h"
#include "safetensors/tree/copied.h"
#include "safetensors/tree/directory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static lmc_status fail_os(const st_run_session *run, const char *name, int os_errno, const char *what)
{
    char *const path = st_run_path(run, name);
    st_diag_set_file(run->diag, path ? path : run->path);
    st_release(run->options->allocator, path);
    return os_errno == ECANCELED ? st_fail_cancelled(run->diag)
                                 : st_fail_os(run->diag, os_errno, LMC_ST_NO_OFFSET, what);
}

lmc_status st_run_clear(const st_run_session *run, const char *name)
{
    const int os_errno = os_remove_name(run->fd, name);
    return os_errno == 0 || os_errno == ENOENT ? LMC_OK : fail_os(run, name, os_errno, "cannot remove");
}

/* ---- staging ---- */

/* The list of copies marks the folder of a directory: one is made if the conversion has made none. The folder keeps the
 * attributes that it has. */
static lmc_status stage_directory(const st_run_session *run, const char *snapshot, const char *staged,
                                  const st_options *options)
{
    os_tree tree;
    int os_errno = 0;
    lmc_st_result result = {0};
    LMC_TRY(st_tree_convert(snapshot, staged, 0, options, &result, run->diag));
    lmc_status status = os_tree_read(&tree, run->options->allocator, staged, run->diag);
    if (status == LMC_OK && !os_tree_find(&tree, ST_COPIED_NAME)) {
        const int fd = os_open_writable_folder(run->fd, ST_RUN_STAGED);
        os_errno = fd < 0 ? errno : os_folder_create_file(fd, ST_COPIED_NAME);
        if (fd >= 0) {
            if (os_errno == 0)
                os_errno = os_finish(fd, &tree.root, run->options->no_fsync);
            os_close(fd);
        }
        status = os_errno == 0 ? LMC_OK : fail_os(run, ST_RUN_STAGED, os_errno, "cannot mark the folder");
    }
    os_tree_free(&tree);
    return status;
}

static lmc_status stage_file(const st_run_session *run, const char *snapshot, const char *staged,
                             const st_options *options)
{
    const lmc_allocator *const memory = options->allocator;
    lmc_st_result result = {0};
    const int os_errno = os_folder_create_in(run->fd, ST_RUN_STAGED);
    if (os_errno != 0)
        return fail_os(run, ST_RUN_STAGED, os_errno, "cannot create the folder");
    char *const out_path = lmc_path_join(memory, staged, lmc_last_component(snapshot), LMC_ARCHIVE_SUFFIX);
    if (!out_path)
        return st_fail_nomem(run->diag);
    const os_place out = os_place_of(out_path);
    st_diag_set_file(run->diag, snapshot);
    const lmc_status status = st_convert_file(snapshot, &out, options, &result, run->diag);
    st_release(memory, out_path);
    return status;
}

lmc_status st_run_stage(const st_run_session *run, const char *snapshot, const lmc_run_step *base,
                        const st_options *options, lmc_run_step *step, uint64_t *schema)
{
    const lmc_allocator *const memory = run->options->allocator;
    char *base_path = NULL;
    st_options own = *options;
    const int is_directory = lmc_is_directory(snapshot);
    char *const staged = st_run_path(run, ST_RUN_STAGED);
    char *const base_dir = base ? st_run_step_path(run, base->step) : NULL;
    lmc_status status = staged && (base_dir || !base) ? LMC_OK : st_fail_nomem(run->diag);
    /* the base of a directory is a directory, that of a file a file */
    if (status == LMC_OK && base && !base->is_directory)
        status = st_run_find_archive(memory, base_dir, &base_path, run->diag);
    own.base = base_path ? base_path : base_dir;
    own.force = 0;
    if (status == LMC_OK)
        status = is_directory ? stage_directory(run, snapshot, staged, &own)
                              : stage_file(run, snapshot, staged, &own);
    if (status == LMC_OK) {
        const st_run_folder folder = {
            .run = run->true_path, .path = staged, .base_dir = base_dir, .step = step->step};
        status = st_run_describe(&folder, run->options, step, schema, run->diag);
    }
    st_release(memory, staged);
    st_release(memory, base_dir);
    st_release(memory, base_path);
    return status;
}

/* ---- back ---- */

lmc_status st_run_restore_step(const st_run_session *run, const lmc_run_step *step, const char *out,
                               const st_options *options, lmc_st_result *result)
{
    const lmc_allocator *const memory = run->options->allocator;
    char *archive = NULL;
    char *const folder = st_run_step_path(run, step->step);
    lmc_status status = folder ? LMC_OK : st_fail_nomem(run->diag);
    if (status == LMC_OK && !step->is_directory)
        status = st_run_find_archive(memory, folder, &archive, run->diag);
    const os_place place = os_place_of(out);
    if (status == LMC_OK)
        st_diag_set_file(run->diag, archive ? archive : folder);
    if (status == LMC_OK)
        status = archive ? st_restore_file(archive, &place, options, result, run->diag)
                         : st_tree_restore(folder, out, options, result, run->diag);
    st_release(memory, archive);
    st_release(memory, folder);
    return status;
}

lmc_status st_run_compare_step(const st_run_session *run, const lmc_run_step *step, const char *folder,
                               const char *snapshot, const st_options *options)
{
    char *archive = NULL;
    st_diag_set_file(run->diag, snapshot);
    if (step->is_directory != lmc_is_directory(snapshot))
        return st_fail(run->diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET,
                       "one of step and snapshot is a file, the other a directory");
    if (step->is_directory)
        return st_tree_compare(folder, snapshot, options, run->diag);
    lmc_status status = st_run_find_archive(options->allocator, folder, &archive, run->diag);
    if (status == LMC_OK)
        status = st_compare_files(archive, -1, snapshot, options, run->diag);
    st_release(options->allocator, archive);
    return status;
}

/* ---- names ---- */

/* Exchanges the staged folder and that of the step, or puts it into its place by two renames. Nobody reads the old
 * folder then. */
static lmc_status replace_step(st_run_session *run, const lmc_run_step *step, const char *name)
{
    char aside[ST_RUN_NAME_NBYTES] = ST_RUN_STAGED; /* the name that the old folder has then */
    const lmc_run_step old = *st_run_list_find(&run->list, step->step);
    st_run_list_remove(&run->list, step->step);
    lmc_status status =
        st_run_save(run); /* no entry may say of the new folder what was true of the old one */
    if (status == LMC_OK) {
        int os_errno = os_lock_folder(run->fd, 0, run->options->cancel);
        if (os_errno == 0)
            os_errno = os_folder_exchange(run->fd, ST_RUN_STAGED, name);
        if (os_errno == EINVAL || os_errno == ENOSYS) {
            snprintf(aside, sizeof aside, ST_RUN_OLD "%s", name);
            os_errno = os_folder_rename(run->fd, name, aside);
            if (os_errno == 0) {
                os_errno = os_folder_rename(run->fd, ST_RUN_STAGED, name);
                if (os_errno != 0)
                    (void)os_folder_rename(run->fd, aside, name);
            }
        }
        os_unlock_folder(run->fd);
        if (os_errno != 0)
            status = fail_os(run, name, os_errno, "cannot replace the folder of the step");
    }
    if (status != LMC_OK) {
        (void)st_run_list_put(&run->list, &old); /* there is room: it was taken out just now */
        return status;
    }
    return st_run_clear(run, aside);
}

lmc_status st_run_put(st_run_session *run, const lmc_run_step *step)
{
    char name[ST_STEP_NAME_NBYTES];
    st_step_name(name, step->step);
    lmc_status status = LMC_OK;
    if (!run->options->no_fsync) {
        const int fd = lmc_open_own_folder(run->fd, ST_RUN_STAGED);
        if (fd >= 0) {
            os_folder_sync(fd);
            os_close(fd);
        }
    }
    if (st_run_list_find(&run->list, step->step)) {
        status = replace_step(run, step, name);
    } else {
        const int os_errno = os_folder_rename(run->fd, ST_RUN_STAGED, name);
        if (os_errno != 0)
            status = fail_os(run, name, os_errno, "cannot give the folder of the step its name");
    }
    if (status != LMC_OK)
        return status;
    if (!run->options->no_fsync)
        os_folder_sync(run->fd);
    if (!st_run_list_put(&run->list, step))
        return st_fail_nomem(run->diag);
    st_run_list_set_chains(&run->list);
    return st_run_save(run);
}

lmc_status st_run_remove(st_run_session *run, const uint64_t *steps, size_t step_count)
{
    char name[ST_STEP_NAME_NBYTES];
    char aside[ST_RUN_NAME_NBYTES];
    lmc_status status = LMC_OK;
    int os_errno = os_lock_folder(run->fd, 0, run->options->cancel);
    if (os_errno != 0)
        return fail_os(run, ST_RUN_LOCK, os_errno, "cannot lock the run");
    for (size_t i = step_count; i > 0 && status == LMC_OK; i--) {
        st_step_name(name, steps[i - 1]);
        snprintf(aside, sizeof aside, ST_RUN_GONE "%s", name);
        os_errno = os_folder_rename(run->fd, name, aside);
        if (os_errno != 0)
            status = fail_os(run, name, os_errno, "cannot remove the folder of the step");
    }
    if (status == LMC_OK && !run->options->no_fsync)
        os_folder_sync(run->fd);
    os_unlock_folder(run->fd);
    /* run.json comes last: on a full disk it takes the room that the folders had */
    for (size_t i = 0; i < step_count && status == LMC_OK; i++) {
        st_step_name(name, steps[i]);
        snprintf(aside, sizeof aside, ST_RUN_GONE "%s", name);
        status = st_run_clear(run, aside);
        if (status == LMC_OK)
            st_run_list_remove(&run->list, steps[i]);
    }
    if (status != LMC_OK)
        return status;
    st_run_list_set_chains(&run->list);
    return st_run_save(run);
}
