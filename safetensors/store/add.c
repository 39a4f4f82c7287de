/*
 * add.c - a file or a directory becomes a model: of a run, on the newest step or as a key frame; of a store, on models
 * that its values choose.
 */
#include "safetensors/store/request.h"

#include "common/text.h"
#include "safetensors/convert/convert_file.h"
#include "safetensors/restore/damage.h"
#include "safetensors/store/choose.h"
#include "safetensors/store/dependents.h"
#include "safetensors/store/describe.h"
#include "safetensors/store/drop.h"
#include "safetensors/store/place.h"
#include "safetensors/tree/check.h"

#include <errno.h>
#include <string.h>

/* A delta whose ratio is above this share of its key frame's does not pay: the step after it is a key frame. */
#define PAYING_SHARE 0.9375

typedef struct addition {
    st_store_session *store;
    const char *path;
    const st_store_request *request;
    st_options options; /* the caller's */
    st_model model;     /* as it will be */
    lmc_store_event event;
} addition;

/* ---- the base of a step ---- */

static double ratio_of(const st_model *step)
{
    return step->original_nbytes == 0 ? 1 : (double)step->stored_nbytes / (double)step->original_nbytes;
}

/* The newest step but this one, if it can be the base, and if deltas pay; else NULL. */
static const st_model *choose_step(const addition *addition)
{
    const st_models *const models = &addition->store->models;
    size_t count = models->count;
    if (count > 0 && models->list[count - 1].step == addition->model.step)
        count--; /* it is replaced */
    const st_model *const newest = count == 0 ? NULL : &models->list[count - 1];
    if (!newest || newest->step >= addition->model.step || newest->depth == ST_DEPTH_UNKNOWN ||
        newest->depth + 1 >= addition->store->key_every ||
        newest->is_directory != addition->model.is_directory)
        return NULL;
    const st_model *key = newest;
    while (key->base_count > 0)
        key = st_models_find(models, key->bases[0].name);
    return key == newest || ratio_of(newest) < PAYING_SHARE * ratio_of(key) ? newest : NULL;
}

/* ---- staging ---- */

/* Writes the archives on this step, or on what the options choose. schema: may be NULL. */
static lmc_status stage_on(addition *addition, const char *base, const st_options *options, uint64_t *schema)
{
    const int is_directory = addition->model.is_directory;
    st_model model;
    char *const name = st_duplicate(options->allocator, addition->model.name);
    if (!name)
        return st_fail_nomem(addition->store->diag);
    const lmc_status status =
        st_store_stage(addition->store, addition->path, name, base, options, &model, schema);
    st_release(options->allocator, name);
    if (status != LMC_OK) {
        st_model_free(&model, options->allocator);
        return status;
    }
    st_model_free(&addition->model, options->allocator);
    addition->model = model;
    addition->model.is_directory = is_directory;
    return LMC_OK;
}

/* Writes the archives without a base, and replaces what is there. */
static lmc_status stage_alone(addition *addition)
{
    st_options quiet = addition->options;
    quiet.progress = NULL;
    quiet.file_done = NULL;
    quiet.warning = NULL;
    LMC_TRY(st_store_clear(addition->store, ST_STORE_STAGED));
    return stage_on(addition, NULL, &quiet, NULL);
}

/* 1 if the base may be at fault: it is damaged, at the end of a full chain, or has a name that cannot be recorded. */
static int may_be_base_fault(lmc_status status)
{
    return st_is_damage(status) || status == LMC_ERR_ARG;
}

/* Writes the archives of a step; once more without the base if that may be at fault, or if files, names, dtypes and
 * shapes are others than its own. */
static lmc_status stage_step(addition *addition)
{
    const st_store_session *const store = addition->store;
    uint64_t schema = 0;
    uint64_t base_schema = 0;
    st_model base_model;
    st_options options = addition->options;
    const st_model *const base = choose_step(addition);
    if (base && base->step == addition->request->base_step)
        options.base = addition->request->base_snapshot;
    const lmc_status status = stage_on(addition, base ? base->name : NULL, &options, base ? &schema : NULL);
    if (base && may_be_base_fault(status))
        return stage_alone(addition);
    if (status != LMC_OK || !base || (addition->model.base_count == 0 && !addition->model.has_unknown_base))
        return status;
    char *const path = st_store_model_path(store, base->name);
    const st_model_folder folder = {.root = store->true_path, .is_run = 1, .path = path, .name = base->name};
    if (!path)
        return st_fail_nomem(store->diag);
    const lmc_status described =
        st_model_describe(&folder, store->options, &base_model, &base_schema, store->diag);
    st_release(store->options->allocator, path);
    st_model_free(&base_model, store->options->allocator);
    if (described != LMC_OK)
        return described;
    const int is_sound = schema == base_schema && !addition->model.has_unknown_base &&
                         strcmp(addition->model.bases[0].name, base->name) == 0;
    return is_sound ? LMC_OK : stage_alone(addition);
}

/* Writes the archives of a model on what its values choose; once more alone if that is at fault. Then it gets its name.
 */
static lmc_status store_model(addition *addition)
{
    st_store_session *const store = addition->store;
    const lmc_allocator *const memory = store->options->allocator;
    st_options options = addition->options;
    st_chooser *chooser = NULL;
    st_model model = {0};
    const st_choice_limits limits = {.depth = addition->request->depth};
    char *const name = st_duplicate(memory, addition->model.name); /* which is made again */
    lmc_status status = name ? st_chooser_begin(&chooser, store, name, addition->path, &limits, &options)
                             : st_fail_nomem(store->diag);
    if (status == LMC_OK)
        status = stage_on(addition, NULL, &options, NULL);
    if (st_chooser_has_chosen(chooser) && may_be_base_fault(status))
        status = stage_alone(addition);
    if (status == LMC_OK && !st_model_copy(&model, &addition->model, memory))
        status = st_fail_nomem(store->diag);
    if (status == LMC_OK)
        status = st_chooser_forget(chooser);
    if (status == LMC_OK)
        status = st_store_put(store, &model);
    st_model_free(&model, memory);
    status = st_chooser_end(chooser, status);
    st_release(memory, name);
    return status;
}

/* ---- a model that is there ---- */

/* What a model that is there is beside the path that is to be added under its name. */
typedef enum presence { PRESENT_EQUAL, PRESENT_OTHER, PRESENT_DAMAGED } presence;

static int is_bad(lmc_status status)
{
    return st_is_damage(status) || status == LMC_ERR_HEADER;
}

/* An st_source_fn. */
static lmc_status accept(void *user, const st_source *source, lmc_st_diag *diag)
{
    (void)user;
    (void)source;
    (void)diag;
    return LMC_OK;
}

static lmc_status compare_present(const addition *addition, const st_model *present, presence *found)
{
    const st_store_session *const store = addition->store;
    st_options quiet = addition->options;
    lmc_st_result unused = {0};
    char shown[160];
    quiet.progress = NULL;
    quiet.file_done = NULL;
    char *const folder = st_store_model_path(store, present->name);
    if (!folder)
        return st_fail_nomem(store->diag);
    lmc_status status = st_store_compare_model(store, present, folder, addition->path, &quiet);
    const lmc_st_diag first = *store->diag;
    const lmc_status compared = status;
    const int is_other = is_bad(status) || status == LMC_ERR_ARG;
    if (is_other) { /* other content, or damage */
        st_diag_init(store->diag, addition->path);
        status = st_tree_verify(folder, &quiet, &unused, store->diag);
        if (status == LMC_ERR_ARG) /* it has no archives, or something that no model has */
            store->diag->status = status = LMC_ERR_CORRUPT;
    }
    if (is_other && status == LMC_OK)
        status = st_store_check_whole(store, present);
    st_release(store->options->allocator, folder);
    if ((compared == LMC_ERR_HEADER || compared == LMC_ERR_ARG) &&
        status == LMC_OK) { /* it is the path that is no model */
        *store->diag = first;
        return compared;
    }
    if (status != LMC_OK && !is_bad(status))
        return status;
    *found = !is_other ? PRESENT_EQUAL : status == LMC_OK ? PRESENT_OTHER : PRESENT_DAMAGED;
    lmc_text_escape(shown, sizeof shown, present->name, strlen(present->name));
    if (*found == PRESENT_DAMAGED && !addition->options.force) {
        const lmc_st_diag damage = *store->diag; /* the file, the tensor and the cause */
        return st_fail(store->diag, status, damage.offset,
                       "%.300s; adding %s %s with force (-f) replaces the damaged one", damage.text,
                       store->models.is_run ? "step" : "model", shown);
    }
    st_diag_init(store->diag, addition->path);
    if (*found == PRESENT_EQUAL || addition->options.force)
        return LMC_OK;
    if (!os_is_folder(addition->path)) /* what can be added under no name, an archive, is told first */
        LMC_TRY(st_convert_visit_file(addition->path, &quiet, accept, NULL, store->diag));
    st_fail(store->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
            store->models.is_run ? "step %s is in the run with other content"
                                 : "model %s is in the store with other content",
            shown);
    store->diag->os_errno = EEXIST;
    return LMC_ERR_ARG;
}

/* What is based on the content that goes is stored again. */
static lmc_status rebase_dependents(const addition *addition, const st_model *present)
{
    st_store_session *const store = addition->store;
    st_rebase_plan plan;
    st_options quiet = addition->options;
    quiet.progress = NULL;
    lmc_status status = st_rebase_plan_init(&plan, store);
    if (status == LMC_OK) {
        plan.goes[present - store->models.list] = 1;
        status = st_rebase_plan_make(&plan, store);
    }
    if (status == LMC_OK)
        status = st_rebase_do(&plan, store, addition->request, &quiet);
    st_rebase_plan_free(&plan);
    return status;
}

static lmc_status check_is_apart(const addition *addition)
{
    const st_store_session *const store = addition->store;
    const int is_run = store->models.is_run;
    const int is_held = st_is_within(store->options->allocator, addition->path, store->path);
    const int holds = st_is_within(store->options->allocator, store->path, addition->path);
    if (is_held < 0 || holds < 0)
        return st_fail_nomem(store->diag);
    if (!is_held && !holds)
        return LMC_OK;
    st_diag_set_file(store->diag, addition->path);
    if (is_held)
        return st_fail(store->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is in the %s already",
                       is_run ? "run" : "store");
    return st_fail(store->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "holds the %s that it is to be added to",
                   is_run ? "run" : "store");
}

static lmc_status add_model(addition *addition)
{
    st_store_session *const store = addition->store;
    const st_store_request *const request = addition->request;
    const lmc_allocator *const memory = store->options->allocator;
    const unsigned old_key_every = store->key_every;
    presence found = PRESENT_OTHER;
    int is_same = 0;
    LMC_TRY(check_is_apart(addition));
    if (request->key_every > 0)
        store->key_every = request->key_every; /* saved with the step */
    const st_model *const present = st_models_find(&store->models, addition->model.name);
    if (present)
        LMC_TRY(compare_present(addition, present, &found));
    if (found == PRESENT_EQUAL) { /* nothing changes but what the caller says of key frames */
        st_model_free(&addition->model, memory);
        addition->event = LMC_STORE_PRESENT;
        if (!st_model_copy(&addition->model, present, memory))
            return st_fail_nomem(store->diag);
        return store->key_every == old_key_every || request->dry_run ? LMC_OK : st_store_save(store);
    }
    if (found == PRESENT_DAMAGED && !request->dry_run) {
        /* perhaps it is what the model was: archives without a base tell */
        LMC_TRY(stage_alone(addition));
        LMC_TRY(st_dependents_fit(store, present, &is_same));
        LMC_TRY(st_store_clear(store, ST_STORE_STAGED));
    }
    if (present && !is_same) /* what is based on it stays readable if the content does */
        LMC_TRY(rebase_dependents(addition, present));
    if (request->dry_run) {
        const st_model *const base = choose_step(addition);
        addition->model.depth = base ? base->depth + 1 : 0;
        return !base || st_model_add_base(&addition->model, base->name, 0, memory)
                   ? LMC_OK
                   : st_fail_nomem(store->diag);
    }
    if (!store->models.is_run) {
        LMC_TRY(store_model(addition));
    } else {
        st_model model = {0};
        LMC_TRY(stage_step(addition));
        if (!st_model_copy(&model, &addition->model, memory))
            return st_fail_nomem(store->diag);
        const lmc_status status = st_store_put(store, &model);
        st_model_free(&model, memory);
        LMC_TRY(status);
    }
    addition->model.depth = st_models_find(&store->models, addition->model.name)->depth;
    return LMC_OK;
}

lmc_status st_store_add(const char *path_of_store, const char *path, const char *name,
                        const st_store_request *request, const st_options *options, st_model *added,
                        lmc_st_diag *diag)
{
    st_store_session store = {.path = path_of_store, .fd = -1, .lock_fd = -1};
    addition addition = {.store = &store, .path = path, .request = request, .options = *options};
    st_model *const model = &addition.model;
    *added = (st_model){0};
    st_diag_set_file(diag, path);
    const int is_directory = os_is_folder(path);
    if (!is_directory) { /* nothing is made for what is not there, or is no model */
        st_input input;
        LMC_TRY(st_input_open(&input, path, diag));
        st_input_close(&input);
    }
    *model = (st_model){.name = st_duplicate(options->allocator, name), .is_directory = is_directory};
    if (!model->name)
        return st_fail_nomem(diag);
    if (request->kind == ST_STORE_OF_STEPS)
        (void)!st_step_is_name(name, strlen(name), &model->step);
    lmc_status status = LMC_OK;
    if (!request->dry_run ||
        os_is_folder(path_of_store)) { /* without a run, a dry run has nothing to look at */
        status =
            st_store_begin(&store, path_of_store, request->kind,
                           request->dry_run ? ST_STORE_PREVIEW : ST_STORE_CREATE, &addition.options, diag);
        if (status == LMC_OK)
            status = add_model(&addition);
        if (status != LMC_OK && store.lock_fd >= 0) {
            const lmc_st_diag first = *diag;
            (void)!st_store_clear(&store, ST_STORE_STAGED);
            *diag = first;
        }
        st_store_end(&store, status);
    }
    *added = *model;
    if (status == LMC_OK)
        st_store_tell(request, addition.event, model);
    return status;
}
