/*
 * session.c - store/session.h: opening, locking, tidying up, and the list of models.
 */
#include "safetensors/store/session.h"

#include "common/text.h"
#include "safetensors/base/run_list.h"
#include "safetensors/files/folder.h"
#include "safetensors/files/kept.h"
#include "safetensors/store/describe.h"
#include "safetensors/store/names.h"
#include "safetensors/store/run_json.h"
#include "safetensors/tree/copied.h"

#include <errno.h>
#include <string.h>

#define OPEN_TRIES 10

#define MARK_TEXT "{\"format\":\"" LMC_STORE_FORMAT "\",\"version\":" LMC_TEXT_OF(ST_STORE_VERSION) "}\n"

char *st_store_path(const st_store_session *store, const char *name)
{
    return lmc_path_join(store->options->allocator, store->path, name, "");
}

char *st_store_model_path(const st_store_session *store, const char *name)
{
    return lmc_path_join(store->options->allocator, store->path, name,
                         store->models.is_run ? "" : LMC_ARCHIVE_SUFFIX);
}

static lmc_status fail_os(const st_store_session *store, int os_errno, const char *what)
{
    st_diag_set_file(store->diag, store->path);
    return os_errno == ECANCELED ? st_fail_cancelled(store->diag)
                                 : st_fail_os(store->diag, os_errno, LMC_ST_NO_OFFSET, what);
}

static lmc_status fail_cannot_open(const st_store_session *store, int os_errno)
{
    return fail_os(store, os_errno, store->models.is_run ? "cannot open the run" : "cannot open the store");
}

lmc_status st_store_find(const st_store_session *store, const char *name, const st_model **found)
{
    char shown[160];
    *found = st_models_find(&store->models, name);
    if (*found)
        return LMC_OK;
    st_diag_set_file(store->diag, store->path);
    lmc_text_escape(shown, sizeof shown, name, strlen(name));
    return st_fail(store->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                   store->models.is_run ? "there is no step %s" : "there is no model \"%s\"", shown);
}

static const char *mark_of(const st_store_session *store)
{
    return store->models.is_run ? LMC_RUN_LIST : LMC_STORE_MARK;
}

lmc_status st_store_save(const st_store_session *store)
{
    return store->models.is_run
               ? st_run_json_write(&store->models, store->key_every, store->path, store->options, store->diag)
               : LMC_OK;
}

/* ---- what is in the directory ---- */

static int starts_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Removes what an earlier call left half done. An unfinished directory stands beside its place with a dot before its
 * name. A directory of archives has a list of copies, which no store has: it is left alone. A model that was to be
 * replaced, where the system cannot exchange two names, comes back. Returns 0 or an errno. */
static int tidy_name(int fd, const char *name)
{
    const char *const folder = name + strlen(ST_STORE_OLD);
    if ((!starts_with(name, ST_STORE_PREFIX) && !starts_with(name, "." ST_STORE_PREFIX)) ||
        strcmp(name, LMC_STORE_LOCK) == 0 || strcmp(name, LMC_COPIES_LIST) == 0)
        return 0;
    if (starts_with(name, ST_STORE_OLD)) {
        int has_model = 0;
        const int os_errno = st_folder_has(fd, folder, &has_model);
        if (os_errno != 0 || (!has_model && os_rename(fd, name, folder) == 0))
            return os_errno;
    }
    return st_remove_name(fd, name);
}

/* 1 if a store that never got its mark may have the name: nothing that the user could miss. An index is never there
 * without the mark. */
static int is_unborn_name(const char *name)
{
    static const char *const beginnings[] = {LMC_STORE_LOCK, ST_STORE_TEMPORARY, ST_STORE_STAGED,
                                             "." ST_STORE_STAGED};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (starts_with(name, beginnings[i]))
            return 1;
    return 0;
}

/* Names of models, and what else was seen. */
typedef struct contents {
    const st_store_session *store;
    st_models found; /* names alone */
    int is_tidying;
    int has_others; /* names that are none of a store */
    int os_errno;   /* of a removal */
    /* the folder that is visited */
    int fd;
    char *place;  /* its path in the store, or "" */
    size_t level; /* folders above it */
    int has_memory;
} contents;

static int add_found(contents *contents, const char *name)
{
    st_model model = {.name = st_duplicate(contents->found.memory, name)};
    contents->has_memory &= model.name && st_models_put(&contents->found, &model);
    return contents->has_memory ? 0 : ENOMEM;
}

static int visit_name(void *user, const char *name);

/* A folder of a store is that of a model, or holds such. Links are not followed. */
static int visit_store_folder(contents *contents, const char *name)
{
    const lmc_allocator *const memory = contents->found.memory;
    char *const place =
        contents->level == 0 ? st_duplicate(memory, name) : lmc_path_join(memory, contents->place, name, "");
    int result = place ? 0 : ENOMEM;
    contents->has_others = 1;
    if (result == 0 && lmc_is_archive_name(name)) {
        place[strlen(place) - strlen(LMC_ARCHIVE_SUFFIX)] = '\0';
        if (!st_store_name_fault(place))
            result = add_found(contents, place);
    } else if (result == 0 && contents->level < ST_STORE_SEGMENT_COUNT_MAX) {
        const int fd = os_open_own_folder(contents->fd, name);
        struct contents inner = *contents;
        inner.fd = fd;
        inner.place = place;
        inner.level++;
        if (fd < 0) { /* nobody's models are in a folder that may not be read: lost+found, say */
            result = errno == EACCES || errno == ENOENT ? 0 : errno;
        } else {
            result = os_visit_folder(fd, visit_name, &inner);
            os_close(fd);
            contents->found = inner.found;
            contents->os_errno = inner.os_errno;
            contents->has_memory = inner.has_memory;
        }
    }
    st_release(memory, place);
    return result;
}

static int visit_name(void *user, const char *name)
{
    contents *const contents = user;
    uint64_t step = 0;
    int is_folder = 0;
    if (contents->is_tidying) {
        const int os_errno = tidy_name(contents->fd, name);
        contents->os_errno = contents->os_errno != 0 ? contents->os_errno : os_errno;
    }
    if (contents->found.is_run) {
        if (st_step_is_name(name, strlen(name), &step))
            return add_found(contents, name);
    } else if (name[0] != '.') {
        const int os_errno = st_folder_has_folder(contents->fd, name, &is_folder);
        if (os_errno != 0 || is_folder)
            return os_errno != 0 ? os_errno : visit_store_folder(contents, name);
    }
    if (contents->level == 0)
        contents->has_others |= strcmp(name, mark_of(contents->store)) != 0 && !is_unborn_name(name);
    return 0;
}

/* Free contents->found in every case. */
static lmc_status read_contents(const st_store_session *store, int is_tidying, contents *contents)
{
    static char nowhere[] = "";
    *contents =
        (struct contents){.store = store,
                          .found = {.memory = store->options->allocator, .is_run = store->models.is_run},
                          .is_tidying = is_tidying,
                          .fd = store->fd,
                          .place = nowhere,
                          .has_memory = 1};
    const int os_errno = os_visit_folder(store->fd, visit_name, contents);
    if (!contents->has_memory)
        return st_fail_nomem(store->diag);
    if (os_errno != 0)
        return fail_os(store, os_errno, "cannot list the directory");
    return contents->os_errno == 0
               ? LMC_OK
               : fail_os(store, contents->os_errno, "cannot remove what an earlier call left half done");
}

lmc_status st_store_describe(const st_store_session *store, const char *name, const char *expected,
                             st_model *found)
{
    const lmc_allocator *const memory = store->options->allocator;
    char *const path = st_store_model_path(store, name);
    char *const base_dir = expected ? lmc_path_join(memory, store->true_path, expected,
                                                    store->models.is_run ? "" : LMC_ARCHIVE_SUFFIX)
                                    : NULL;
    const st_model_folder folder = {.root = store->true_path,
                                    .is_run = store->models.is_run,
                                    .path = path,
                                    .base_dir = base_dir,
                                    .name = name,
                                    .is_thorough = store->models.is_run};
    *found = (st_model){0};
    const lmc_status status = path && (base_dir || !expected)
                                  ? st_model_describe(&folder, store->options, found, NULL, store->diag)
                                  : st_fail_nomem(store->diag);
    st_release(memory, base_dir);
    st_release(memory, path);
    return status;
}

static lmc_status has_step_folder(const st_store_session *store, const char *name, int *is_folder)
{
    const int os_errno = st_folder_has_folder(store->fd, name, is_folder);
    return os_errno == 0 ? LMC_OK : fail_os(store, os_errno, "cannot list the directory");
}

/* Makes the list that of the folders. What a run's list says of a folder counts. *has_changed: it was another list. */
static lmc_status match_folders(st_store_session *store, const contents *contents, int *has_changed)
{
    st_models *const models = &store->models;
    const st_models *const found = &contents->found;
    for (size_t i = models->count; i > 0; i--) {
        if (st_models_find(found, models->list[i - 1].name))
            continue;
        st_models_remove(models, models->list[i - 1].name);
        *has_changed = 1;
    }
    for (size_t i = 0; i < found->count; i++) {
        const char *const name = found->list[i].name;
        int is_folder = 1;
        if (st_models_find(models, name))
            continue;
        if (models->is_run)
            LMC_TRY(has_step_folder(store, name, &is_folder));
        if (!is_folder)
            continue;
        st_model model; /* a step's base is expected in the step before it */
        const lmc_status status =
            st_store_describe(store, name, models->is_run && i > 0 ? found->list[i - 1].name : NULL, &model);
        /* one bad folder does not keep the other models of a store from being used */
        const int is_passed = !models->is_run && status != LMC_ERR_NOMEM && status != LMC_ERR_CANCELLED;
        model.has_unknown_base |= status != LMC_OK;
        if (!model.name || (status != LMC_OK && !is_passed)) {
            st_model_free(&model, models->memory);
            return status == LMC_OK ? st_fail_nomem(store->diag) : status;
        }
        if (!st_models_put(models, &model))
            return st_fail_nomem(store->diag);
        *has_changed = 1;
    }
    st_models_set_depths(models);
    return LMC_OK;
}

/* ---- beginning and end ---- */

static int is_writing(st_store_access access)
{
    return access != ST_STORE_READ && access != ST_STORE_PREVIEW;
}

static lmc_status look_for_mark(const st_store_session *store, int *has_mark)
{
    const int os_errno = st_folder_has(store->fd, mark_of(store), has_mark);
    return os_errno == 0 ? LMC_OK : fail_cannot_open(store, os_errno);
}

/* Refuses a directory that is no store and may not become one, before anything in it is touched. Nothing but the rest
 * of a store that never began may be in a directory that becomes one. */
static lmc_status check_directory(const st_store_session *store, st_store_access access)
{
    contents contents;
    const int is_run = store->models.is_run;
    int has_mark = access == ST_STORE_READ;
    if (!has_mark)
        LMC_TRY(look_for_mark(store, &has_mark));
    if (has_mark)
        return LMC_OK;
    const lmc_status status = read_contents(store, 0, &contents);
    const size_t count = contents.found.count;
    st_models_free(&contents.found);
    LMC_TRY(status);
    LMC_TRY(look_for_mark(store, &has_mark)); /* another session may have made the store meanwhile */
    if (has_mark)
        return LMC_OK;
    if (access == ST_STORE_WRITE)
        return st_store_fail_missing(store->path, is_run, store->diag);
    st_diag_set_file(store->diag, store->path);
    if (access == ST_STORE_REPAIR && count == 0)
        return st_fail(store->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       is_run ? "has no folder that is named like a step" : "has no folder of a model");
    if (access == ST_STORE_REPAIR)
        return LMC_OK;
    if (count > 0)
        return st_fail(store->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "has no %s, but folders that are named like %s: if it is a %s, repair it",
                       mark_of(store), is_run ? "steps" : "models", is_run ? "run" : "store");
    if (contents.has_others)
        return st_fail(store->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "is not a %s: it has no %s, and is not empty", is_run ? "run" : "store",
                       mark_of(store));
    return LMC_OK;
}

/* Refuses to make a store below another one, whose models would be those of both. The mark is looked for last: a store
 * that another session makes meanwhile is around its own directory. */
static lmc_status check_is_not_inside(const st_store_session *store)
{
    const lmc_allocator *const memory = store->options->allocator;
    st_kept around;
    char shown[400];
    int is_made = 0;
    if (!st_kept_find(memory, store->path, &around))
        return st_fail_nomem(store->diag);
    if (!around.root)
        return LMC_OK;
    lmc_status status = look_for_mark(store, &is_made);
    if (status == LMC_OK && !is_made) {
        st_diag_set_file(store->diag, store->path);
        lmc_text_escape(shown, sizeof shown, around.root, strlen(around.root));
        status = st_fail(store->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                         "is in the store or run %s: choose another place", shown);
    }
    st_release(memory, around.root);
    return status;
}

static int find_step(void *user, const char *name)
{
    uint64_t step = 0;
    *(int *)user |= st_step_is_name(name, strlen(name), &step);
    return 0;
}

/* What the open directory is. A run that has lost its list has folders of steps. */
static int find_kind(int fd, int *is_run)
{
    int has_list = 0;
    int has_mark = 0;
    int has_step = 0;
    int os_errno = st_folder_has(fd, LMC_RUN_LIST, &has_list);
    if (os_errno == 0)
        os_errno = st_folder_has(fd, LMC_STORE_MARK, &has_mark);
    if (os_errno == 0 && !has_list && !has_mark)
        os_errno = os_visit_folder(fd, find_step, &has_step);
    *is_run = has_step || (has_list && !has_mark);
    return os_errno;
}

static void close_folder(st_store_session *store)
{
    if (store->lock_fd >= 0)
        os_close(store->lock_fd);
    if (store->fd >= 0)
        os_close(store->fd);
    store->lock_fd = store->fd = -1;
}

/* Refuses a run where a store is wanted. */
static lmc_status check_kind(st_store_session *store, st_store_kind kind)
{
    int has_list = 0;
    const int os_errno = kind == ST_STORE_OF_EITHER   ? find_kind(store->fd, &store->models.is_run)
                         : kind == ST_STORE_OF_MODELS ? st_folder_has(store->fd, LMC_RUN_LIST, &has_list)
                                                      : 0;
    if (os_errno != 0)
        return fail_cannot_open(store, os_errno);
    if (!has_list)
        return LMC_OK;
    st_diag_set_file(store->diag, store->path);
    return st_fail(store->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                   "is a run, not a store of models: \"run add\" adds steps to it");
}

/* Whether the open directory may be used so. */
static lmc_status check_use(st_store_session *store, st_store_kind kind, st_store_access access)
{
    LMC_TRY(check_kind(store, kind));
    LMC_TRY(check_directory(store, access));
    return access == ST_STORE_CREATE ? check_is_not_inside(store) : LMC_OK;
}

/* Returns 0 or an errno. ENOENT: the directory was removed just now, or another one has its name. */
static int lock_directory(st_store_session *store, st_store_access access)
{
    os_state by_fd;
    os_state by_name;
    if (!is_writing(access))
        return st_lock_folder(store->fd, OS_LOCK_SHARED, store->options->cancel);
    const int os_errno = st_lock_file(store->fd, LMC_STORE_LOCK, store->options->cancel, &store->lock_fd);
    if (os_errno != 0)
        return os_errno;
    const int has_name = os_fstat(store->fd, &by_fd) == 0 && os_stat(OS_HERE, store->path, &by_name) == 0 &&
                         os_is_same_file(&by_fd, &by_name);
    return has_name ? 0 : ENOENT;
}

/* The directory and its lock. What is found before the lock may have changed until it is had. */
static lmc_status open_locked(st_store_session *store, st_store_kind kind, st_store_access access)
{
    int os_errno = 0;
    for (int i = 0; i < OPEN_TRIES; i++) {
        const int made = access == ST_STORE_CREATE ? os_make_folder(OS_HERE, store->path, 0777) : EEXIST;
        store->is_own_folder |= made == 0;
        store->fd = os_open_folder(store->path);
        if (store->fd < 0 && errno == ENOENT && made != 0 && made != EEXIST)
            return fail_os(store, made,
                           store->models.is_run ? "cannot create the run" : "cannot create the store");
        if (store->fd < 0)
            return fail_cannot_open(store, errno);
        LMC_TRY(check_use(store, kind, access));
        os_errno = lock_directory(store, access);
        if (os_errno == 0)
            return is_writing(access) ? check_use(store, kind, access) : LMC_OK;
        if (os_errno != ENOENT || access != ST_STORE_CREATE)
            break;
        close_folder(store);
    }
    return fail_cannot_open(store, os_errno);
}

/* Writes the mark that makes a directory a store. */
static lmc_status write_mark(const st_store_session *store)
{
    st_options options = *store->options;
    st_output output;
    char *const path = st_store_path(store, LMC_STORE_MARK);
    const st_place place = st_place_of(path);
    options.force = 1;
    lmc_status status =
        path ? st_output_open(&output, &options, &place, NULL, 0, store->diag) : st_fail_nomem(store->diag);
    if (status == LMC_OK) {
        status = st_output_write(&output, 0, MARK_TEXT, strlen(MARK_TEXT), store->diag);
        status = st_output_close(&output, &options, status, store->diag);
    }
    st_release(store->options->allocator, path);
    return status;
}

/* Without a list or a mark, one is made if it may be. REPAIR: the list is without steps, so that bases are looked for
 * by their content; a sound one keeps key_every. */
static lmc_status read_list(st_store_session *store, st_store_access access)
{
    const int is_repair = access == ST_STORE_REPAIR;
    const int may_make = access == ST_STORE_CREATE || access == ST_STORE_PREVIEW;
    const lmc_st_diag before = *store->diag;
    const lmc_status status =
        store->models.is_run ? st_run_json_read(&store->models, &store->key_every, store->path, store->diag)
                             : st_store_read_mark(store->options->allocator, store->path, store->diag);
    if (!is_repair && !(status == LMC_ERR_ARG && may_make))
        return status;
    /* the list of a later version is not rewritten: it may say what is not known here */
    if (status == LMC_ERR_NOMEM || status == LMC_ERR_UNSUPPORTED)
        return status;
    *store->diag = before;
    if (status != LMC_OK)
        store->key_every = LMC_RUN_KEY_EVERY_DEFAULT;
    st_models_free(&store->models);
    store->is_new = !is_repair;
    if (!is_writing(access))
        return LMC_OK;
    return store->models.is_run ? st_store_save(store) : write_mark(store);
}

lmc_status st_store_begin(st_store_session *store, const char *path, st_store_kind kind,
                          st_store_access access, const st_options *options, lmc_st_diag *diag)
{
    contents contents = {.found = {.memory = options->allocator}};
    int has_changed = 0;
    *store =
        (st_store_session){.path = path,
                           .options = options,
                           .diag = diag,
                           .fd = -1,
                           .lock_fd = -1,
                           .models = {.memory = options->allocator, .is_run = kind == ST_STORE_OF_STEPS}};
    LMC_TRY(open_locked(store, kind, access));
    store->true_path = st_true_path(options->allocator, path);
    if (!store->true_path)
        return fail_os(store, errno, "cannot find the directory");
    const st_place place = st_place_of(store->true_path);
    if (store->is_own_folder && !options->no_fsync)
        st_sync_name(options->allocator, &place);
    lmc_status status = read_list(store, access); /* nothing is removed from a store of a newer version */
    if (status == LMC_OK && is_writing(access)) { /* what comes back is listed afterwards */
        status = read_contents(store, 1, &contents);
        st_models_free(&contents.found);
    }
    if (status == LMC_OK)
        status = read_contents(store, 0, &contents);
    if (status == LMC_OK)
        status = match_folders(store, &contents, &has_changed);
    st_models_free(&contents.found);
    if (status == LMC_OK && is_writing(access) && (has_changed || access == ST_STORE_REPAIR)) {
        const lmc_st_diag before = *store->diag;
        status = st_store_save(store);
        /* on a full disk models can still be removed: the list is saved after that, too */
        if (status == LMC_ERR_IO && access == ST_STORE_WRITE &&
            (store->diag->os_errno == ENOSPC || store->diag->os_errno == EDQUOT)) {
            *store->diag = before;
            status = LMC_OK;
        }
    }
    return status;
}

void st_store_remove_index(const st_store_session *store)
{
    static const char *const names[] = {LMC_STORE_INDEX, LMC_STORE_INDEX "-journal", LMC_STORE_INDEX "-wal",
                                        LMC_STORE_INDEX "-shm"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)os_unlink(store->fd, names[i]);
}

/* After a failure: removes a directory that this session has made, and what it has made of one, while nothing else is
 * there. */
static void take_back(st_store_session *store)
{
    int has_mark = 1;
    if (store->is_new && store->models.count == 0 && store->lock_fd >= 0) {
        if (!store->models.is_run)
            st_store_remove_index(store);
        (void)os_unlink(store->fd, mark_of(store));
    }
    if (store->fd < 0 || st_folder_has(store->fd, mark_of(store), &has_mark) != 0 || has_mark)
        return;
    if (store->lock_fd >= 0)
        (void)os_unlink(store->fd, LMC_STORE_LOCK);
    close_folder(store); /* Windows keeps a folder as long as it is open */
    if (store->is_own_folder)
        (void)os_remove_folder(OS_HERE, store->path);
}

void st_store_end(st_store_session *store, lmc_status status)
{
    if (status != LMC_OK && (store->is_new || store->is_own_folder))
        take_back(store);
    close_folder(store);
    st_models_free(&store->models);
    if (store->options)
        st_release(store->options->allocator, store->true_path);
    *store = (st_store_session){.fd = -1, .lock_fd = -1};
}
