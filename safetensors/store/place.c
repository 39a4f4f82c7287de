/*
 * place.c - store/place.h: conversion to the staged folder, renames, and removal.
 */
#include "safetensors/store/place.h"

#include "safetensors/convert/convert_file.h"
#include "safetensors/files/folder.h"
#include "safetensors/restore/restore.h"
#include "safetensors/store/describe.h"
#include "safetensors/tree/check.h"
#include "safetensors/tree/copied.h"
#include "safetensors/tree/directory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static lmc_status fail_os(const st_store_session *store, const char *name, int os_errno, const char *what)
{
    char *const path = st_store_path(store, name);
    st_diag_set_file(store->diag, path ? path : store->path);
    st_release(store->options->allocator, path);
    return os_errno == ECANCELED ? st_fail_cancelled(store->diag)
                                 : st_fail_os(store->diag, os_errno, LMC_ST_NO_OFFSET, what);
}

lmc_status st_store_clear(const st_store_session *store, const char *name)
{
    const int os_errno = st_remove_name(store->fd, name);
    return os_errno == 0 || os_errno == ENOENT ? LMC_OK : fail_os(store, name, os_errno, "cannot remove");
}

/* ---- staging ---- */

/* The list of copies marks the folder of a directory: one is made if the conversion has made none. The folder keeps the
 * attributes that it has. */
static lmc_status stage_directory(const st_store_session *store, const char *path, const char *staged,
                                  const st_options *options)
{
    st_listing tree;
    int os_errno = 0;
    lmc_st_result result = {0};
    LMC_TRY(st_tree_convert(path, staged, 0, options, &result, store->diag));
    lmc_status status = st_listing_read(&tree, store->options->allocator, staged, store->diag);
    if (status == LMC_OK && !st_listing_find(&tree, LMC_COPIES_LIST)) {
        const int fd = os_open_writable_folder(store->fd, ST_STORE_STAGED);
        os_errno = fd < 0 ? errno : st_folder_create_file(fd, LMC_COPIES_LIST);
        if (fd >= 0) {
            if (os_errno == 0)
                os_errno = st_finish(fd, &tree.root, store->options->no_fsync);
            os_close(fd);
        }
        status = os_errno == 0 ? LMC_OK : fail_os(store, ST_STORE_STAGED, os_errno, "cannot mark the folder");
    }
    st_listing_free(&tree);
    return status;
}

static lmc_status stage_file(const st_store_session *store, const char *path, const char *staged,
                             const st_options *options)
{
    const lmc_allocator *const memory = options->allocator;
    lmc_st_result result = {0};
    const int os_errno = os_make_folder(store->fd, ST_STORE_STAGED, 0777);
    if (os_errno != 0)
        return fail_os(store, ST_STORE_STAGED, os_errno, "cannot create the folder");
    char *const out_path = lmc_path_join(memory, staged, lmc_last_component(path), LMC_ARCHIVE_SUFFIX);
    if (!out_path)
        return st_fail_nomem(store->diag);
    const st_place out = st_place_of(out_path);
    st_diag_set_file(store->diag, path);
    const lmc_status status = st_convert_file(path, &out, options, &result, store->diag);
    st_release(memory, out_path);
    return status;
}

lmc_status st_store_stage(const st_store_session *store, const char *path, const char *name, const char *base,
                          const st_options *options, st_model *model, uint64_t *schema)
{
    const lmc_allocator *const memory = store->options->allocator;
    char *base_path = NULL;
    st_options own = *options;
    const int is_directory = os_is_folder(path);
    char *const staged = st_store_path(store, ST_STORE_STAGED);
    char *const base_dir = base ? st_store_model_path(store, base) : NULL;
    *model = (st_model){0};
    lmc_status status = staged && (base_dir || !base) ? LMC_OK : st_fail_nomem(store->diag);
    /* the base of a directory is a directory, that of a file a file */
    if (status == LMC_OK && base && !is_directory)
        status = st_model_find_archive(memory, base_dir, &base_path, store->diag);
    if (!base || !options->base)
        own.base = base_path ? base_path : base_dir;
    own.force = 0;
    if (status == LMC_OK)
        status =
            is_directory ? stage_directory(store, path, staged, &own) : stage_file(store, path, staged, &own);
    if (status == LMC_OK) {
        const st_model_folder folder = {.root = store->true_path,
                                        .is_run = store->models.is_run,
                                        .path = staged,
                                        .base_dir = base_dir,
                                        .name = name};
        status = st_model_describe(&folder, store->options, model, schema, store->diag);
    }
    st_release(memory, staged);
    st_release(memory, base_dir);
    st_release(memory, base_path);
    return status;
}

/* ---- back ---- */

lmc_status st_store_restore_model(const st_store_session *store, const st_model *model, const char *out,
                                  const st_options *options, lmc_st_result *result)
{
    const lmc_allocator *const memory = store->options->allocator;
    char *archive = NULL;
    char *const folder = st_store_model_path(store, model->name);
    lmc_status status = folder ? LMC_OK : st_fail_nomem(store->diag);
    if (status == LMC_OK && !model->is_directory)
        status = st_model_find_archive(memory, folder, &archive, store->diag);
    const st_place place = st_place_of(out);
    if (status == LMC_OK)
        st_diag_set_file(store->diag, archive ? archive : folder);
    if (status == LMC_OK)
        status = archive ? st_restore_file(archive, &place, options, result, store->diag)
                         : st_tree_restore(folder, out, options, result, store->diag);
    st_release(memory, archive);
    st_release(memory, folder);
    return status;
}

lmc_status st_store_compare_model(const st_store_session *store, const st_model *model, const char *folder,
                                  const char *path, const st_options *options)
{
    char *archive = NULL;
    st_diag_set_file(store->diag, path);
    if (model->is_directory != os_is_folder(path))
        return st_fail(store->diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET,
                       "one of %s and snapshot is a file, the other a directory",
                       store->models.is_run ? "step" : "model");
    if (model->is_directory)
        return st_tree_compare(folder, path, options, store->diag);
    lmc_status status = st_model_find_archive(options->allocator, folder, &archive, store->diag);
    if (status == LMC_OK)
        status = st_compare_files(archive, -1, path, options, store->diag);
    st_release(options->allocator, archive);
    return status;
}

/* ---- names ---- */

/* The name of a model's folder in the store, with so much before its last component; to be released. */
static char *folder_name(const st_store_session *store, const char *prefix, const char *name)
{
    const lmc_allocator *const memory = store->options->allocator;
    const char *const last = lmc_last_component(name);
    const char *const suffix = store->models.is_run ? "" : LMC_ARCHIVE_SUFFIX;
    const size_t capacity = strlen(name) + strlen(prefix) + strlen(suffix) + 1;
    char *const folder = st_allocate(memory, capacity);
    if (folder)
        snprintf(folder, capacity, "%.*s%s%s%s", (int)(last - name), name, prefix, last, suffix);
    return folder;
}

/* Makes the folders that a model's folder stands in. Links are refused. */
static lmc_status make_parents(const st_store_session *store, const char *folder)
{
    char *const path = st_duplicate(store->options->allocator, folder);
    lmc_status status = path ? LMC_OK : st_fail_nomem(store->diag);
    for (char *at = path ? strchr(path, '/') : NULL; at && status == LMC_OK; at = strchr(at + 1, '/')) {
        *at = '\0';
        int is_folder = 0;
        int os_errno = os_make_folder(store->fd, path, 0777);
        if (os_errno == 0 || os_errno == EEXIST)
            os_errno = st_folder_has_folder(store->fd, path, &is_folder);
        if (os_errno != 0)
            status = fail_os(store, path, os_errno, "cannot create the folder");
        else if (!is_folder)
            status = fail_os(store, path, ENOTDIR, "cannot use this as a folder");
        *at = '/';
    }
    st_release(store->options->allocator, path);
    return status;
}

/* Makes the names in a folder of the store durable. Some file systems refuse: then it is theirs. */
static void sync_folder(const st_store_session *store, const char *path)
{
    const int fd = os_open_own_folder(store->fd, path);
    if (fd >= 0) {
        (void)os_sync(fd);
        os_close(fd);
    }
}

/* Removes the folders that a model's folder stood in, as far as they are empty. */
static void remove_parents(const st_store_session *store, const char *folder)
{
    char *const path = st_store_path(store, folder);
    char *const inner = path ? path + strlen(path) - strlen(folder) : NULL;
    for (char *at = inner ? strrchr(inner, '/') : NULL; at; at = strrchr(inner, '/')) {
        *at = '\0';
        const int os_errno = os_remove_folder(OS_HERE, path);
        if (os_errno != 0 && os_errno != ENOENT) /* one that could not be made stands in others */
            break;
    }
    st_release(store->options->allocator, path);
}

/* Makes the names of a model's folder, and of those that it stands in, durable. */
static void sync_parents(const st_store_session *store, const char *folder)
{
    char *const path = st_duplicate(store->options->allocator, folder);
    for (char *slash = path ? strrchr(path, '/') : NULL; slash; slash = strrchr(path, '/')) {
        *slash = '\0';
        sync_folder(store, path);
    }
    (void)os_sync(store->fd);
    st_release(store->options->allocator, path);
}

/* Exchanges the staged folder and that of the model, or puts it into its place by two renames. No session reads the old
 * folder then; whoever reads its archives by themselves keeps the old files open. */
static lmc_status replace_model(st_store_session *store, const st_model *model, const char *folder)
{
    const lmc_allocator *const memory = store->options->allocator;
    st_model old;
    char *const aside = folder_name(store, ST_STORE_OLD, model->name);
    const char *left = ST_STORE_STAGED; /* the name that the old folder has then */
    if (!aside || !st_model_copy(&old, st_models_find(&store->models, model->name), memory)) {
        st_release(memory, aside);
        return st_fail_nomem(store->diag);
    }
    st_models_remove(&store->models, model->name);
    /* no entry may say of the new folder what was true of the old one */
    lmc_status status = st_store_save(store);
    if (status == LMC_OK) {
        int os_errno = st_lock_folder(store->fd, OS_LOCK_ALONE, store->options->cancel);
        if (os_errno == 0)
            os_errno = os_exchange(store->fd, ST_STORE_STAGED, folder);
        if (os_errno == EINVAL || os_errno == ENOSYS) {
            left = aside;
            os_errno = os_rename(store->fd, folder, aside);
            if (os_errno == 0) {
                os_errno = os_rename(store->fd, ST_STORE_STAGED, folder);
                if (os_errno != 0)
                    (void)os_rename(store->fd, aside, folder);
            }
        }
        os_unlock(store->fd);
        if (os_errno != 0)
            status = fail_os(store, folder, os_errno, "cannot replace the folder");
    }
    if (status != LMC_OK)
        (void)!st_models_put(&store->models, &old); /* there is room: it was taken out just now */
    else
        st_model_free(&old, memory);
    if (status == LMC_OK)
        status = st_store_clear(store, left);
    st_release(memory, aside);
    return status;
}

/* A model that replaces one may not be based on models that need it: none of them could be read any more. */
static lmc_status check_bases(const st_store_session *store, const st_model *model)
{
    const st_models *const models = &store->models;
    const st_model *const old = st_models_find(models, model->name);
    if (!old || model->base_count == 0)
        return LMC_OK;
    unsigned char *const needs = st_allocate_zeroed(models->memory, models->count, 1);
    if (!needs)
        return st_fail_nomem(store->diag);
    st_models_mark_dependents(models, (size_t)(old - models->list), needs);
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < model->base_count && status == LMC_OK; i++) {
        const st_model *const base = st_models_find(models, model->bases[i].name);
        if (base && needs[base - models->list])
            status = st_fail(store->diag, LMC_ERR_BASE, LMC_ST_NO_OFFSET,
                             "%.200s would be based on %.200s, which needs it", model->name, base->name);
    }
    st_release(models->memory, needs);
    return status;
}

lmc_status st_store_put(st_store_session *store, st_model *model)
{
    LMC_TRY(check_bases(store, model));
    char *const folder = folder_name(store, "", model->name);
    lmc_status status = folder ? make_parents(store, folder) : st_fail_nomem(store->diag);
    if (status == LMC_OK && !store->options->no_fsync)
        sync_folder(store, ST_STORE_STAGED);
    if (status == LMC_OK && st_models_find(&store->models, model->name)) {
        status = replace_model(store, model, folder);
    } else if (status == LMC_OK) {
        const int os_errno = os_rename(store->fd, ST_STORE_STAGED, folder);
        if (os_errno != 0)
            status = fail_os(store, folder, os_errno, "cannot give the folder its name");
    }
    if (status == LMC_OK && !store->options->no_fsync)
        sync_parents(store, folder);
    if (status != LMC_OK && folder)
        remove_parents(store, folder);
    st_release(store->options->allocator, folder);
    if (status != LMC_OK)
        return status;
    if (!st_models_put(&store->models, model))
        return st_fail_nomem(store->diag);
    st_models_set_depths(&store->models);
    return st_store_save(store);
}

/* Their folders get the names GONE and a number. */
static lmc_status take_names(const st_store_session *store, char *const *folders, size_t count)
{
    char aside[sizeof ST_STORE_GONE + 24];
    lmc_status status = LMC_OK;
    int os_errno = st_lock_folder(store->fd, OS_LOCK_ALONE, store->options->cancel);
    if (os_errno != 0)
        return fail_os(store, LMC_STORE_LOCK, os_errno, "cannot lock the store");
    for (size_t i = count; i > 0 && status == LMC_OK; i--) {
        snprintf(aside, sizeof aside, ST_STORE_GONE "%zu", i - 1);
        os_errno = os_rename(store->fd, folders[i - 1], aside);
        if (os_errno != 0)
            status = fail_os(store, folders[i - 1], os_errno, "cannot remove the folder");
        else if (!store->options->no_fsync)
            sync_parents(store, folders[i - 1]);
    }
    os_unlock(store->fd);
    return status;
}

lmc_status st_store_remove(st_store_session *store, const char *const *names, size_t name_count)
{
    const lmc_allocator *const memory = store->options->allocator;
    char aside[sizeof ST_STORE_GONE + 24];
    char **const folders = st_allocate_zeroed(memory, name_count + 1, sizeof *folders);
    lmc_status status = folders ? LMC_OK : st_fail_nomem(store->diag);
    for (size_t i = 0; i < name_count && status == LMC_OK; i++) {
        folders[i] = folder_name(store, "", names[i]);
        status = folders[i] ? LMC_OK : st_fail_nomem(store->diag);
    }
    if (status == LMC_OK)
        status = take_names(store, folders, name_count);
    /* the list comes last: on a full disk it takes the room that the folders had */
    for (size_t i = 0; i < name_count && status == LMC_OK; i++) {
        snprintf(aside, sizeof aside, ST_STORE_GONE "%zu", i);
        status = st_store_clear(store, aside);
        if (status != LMC_OK)
            break;
        remove_parents(store, folders[i]);
        st_models_remove(&store->models, names[i]);
    }
    for (size_t i = 0; i < name_count && folders; i++)
        st_release(memory, folders[i]);
    st_release(memory, folders);
    if (status != LMC_OK)
        return status;
    st_models_set_depths(&store->models);
    return st_store_save(store);
}
