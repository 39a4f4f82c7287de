/*
 * drop.c - models are removed: those that the caller names, or all that a rule does not keep. Models whose base goes
 * are stored again with others first.
 */
#include "safetensors/store/drop.h"

#include "safetensors/files/folder.h"
#include "safetensors/restore/damage.h"
#include "safetensors/store/choose.h"
#include "safetensors/store/describe.h"
#include "safetensors/store/place.h"

#include <stdlib.h>
#include <string.h>

lmc_status st_rebase_plan_init(st_rebase_plan *plan, const st_store_session *store)
{
    const lmc_allocator *const memory = store->options->allocator;
    const size_t count = store->models.count;
    *plan = (st_rebase_plan){.memory = memory, .count = count};
    plan->goes = st_allocate_zeroed(memory, count, 1);
    plan->is_rebased = st_allocate_zeroed(memory, count, 1);
    plan->base = st_allocate_zeroed(memory, count, sizeof *plan->base);
    return plan->goes && plan->is_rebased && plan->base ? LMC_OK : st_fail_nomem(store->diag);
}

void st_rebase_plan_free(st_rebase_plan *plan)
{
    if (!plan->memory)
        return;
    st_release(plan->memory, plan->goes);
    st_release(plan->memory, plan->is_rebased);
    st_release(plan->memory, plan->base);
    *plan = (st_rebase_plan){0};
}

/* ---- the choice ---- */

static lmc_status fail_unknown(const st_store_session *store, const st_model *model)
{
    const int is_run = store->models.is_run;
    st_diag_set_file(store->diag, store->path);
    return st_fail(
        store->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
        is_run
            ? "the base of step %.200s was not found in the run, and no step is removed until it "
              "is, or until this step is dropped: run verify says what is missing"
            : "%.200s cannot be read, or a base of it was not found in the store: before that is mended, no "
              "model is removed but with this one; store verify says what is missing",
        model->name);
}

/* The chains of a run before and after, of each step. */
typedef struct chains {
    size_t *key;      /* the key frame at the end of its chain */
    uint64_t *length; /* as it will be */
} chains;

static void plan_step(st_rebase_plan *plan, const st_store_session *store, const chains *chains, size_t index)
{
    const st_model *const step = &store->models.list[index];
    chains->key[index] = index;
    chains->length[index] = 0;
    if (step->base_count == 0 || step->depth == ST_DEPTH_UNKNOWN)
        return;
    const size_t base = (size_t)(st_models_find(&store->models, step->bases[0].name) - store->models.list);
    const size_t key = chains->key[base];
    chains->key[index] = key;
    chains->length[index] = chains->length[base] + 1;
    if (!plan->is_rebased[index])
        return;
    /* it must be stored again: on the nearest earlier step that stays, if there is one */
    const uint64_t allowed = store->key_every - 1;
    const uint64_t most = step->depth > allowed ? step->depth : allowed;
    plan->base[index] = SIZE_MAX;
    chains->length[index] = 0;
    for (size_t i = index; i > key && plan->base[index] == SIZE_MAX; i--) {
        const size_t other = i - 1;
        if (plan->goes[other] || chains->key[other] != key || chains->length[other] + 1 > most)
            continue;
        plan->base[index] = other;
        chains->length[index] = chains->length[other] + 1;
    }
}

/* Asks the archives of a model what they are based on. What they do not tell, because they are damaged or their base is
 * nowhere in the store, is not known. A model that could not be read before is known now. */
static lmc_status look_again(st_store_session *store, size_t index)
{
    st_model *const model = &store->models.list[index];
    st_model found;
    const int has_known = model->base_count == 1 && !model->has_unknown_base;
    const lmc_status status =
        st_store_describe(store, model->name, has_known ? model->bases[0].name : NULL, &found);
    if (status != LMC_OK && !st_is_damage(status)) {
        st_model_free(&found, store->models.memory);
        return status;
    }
    if (status == LMC_OK && model->has_unknown_base) {
        st_model_free(model, store->models.memory);
        *model = found;
        return LMC_OK;
    }
    /* what the list has of sizes stays: verify compares it with the folder */
    st_model_base *const bases = model->bases;
    const size_t base_count = model->base_count;
    model->bases = found.bases;
    model->base_count = found.base_count;
    model->has_unknown_base = found.has_unknown_base || status != LMC_OK;
    found.bases = bases;
    found.base_count = base_count;
    st_model_free(&found, store->models.memory);
    return LMC_OK;
}

lmc_status st_rebase_plan_make(st_rebase_plan *plan, st_store_session *store)
{
    /* In a run bases are earlier steps: any step behind one that goes may need it, whatever the list says. In a store,
     * any model. The first model that stays and has a base that is not there settles it: none may go. */
    const st_models *const models = &store->models;
    int is_behind = !models->is_run;
    for (size_t i = 0; i < plan->count; i++) {
        const st_model *const model = &models->list[i];
        lmc_status status = LMC_OK;
        if (model->depth == ST_DEPTH_UNKNOWN || (!plan->goes[i] && is_behind))
            status = look_again(store, i);
        if (status != LMC_OK && (!plan->goes[i] || status != LMC_ERR_IO)) /* what cannot be read may go */
            return status;
        if (!plan->goes[i] && model->has_unknown_base)
            return fail_unknown(store, model);
        is_behind |= plan->goes[i];
    }
    st_models_set_depths(&store->models);
    for (size_t i = 0; i < plan->count; i++) {
        const st_model *const model = &models->list[i];
        if (!plan->goes[i] && model->depth == ST_DEPTH_UNKNOWN)
            return fail_unknown(store, model);
        for (size_t j = 0; j < model->base_count && !plan->goes[i]; j++) {
            const st_model *const base = st_models_find(models, model->bases[j].name);
            plan->is_rebased[i] |= base && plan->goes[base - models->list];
        }
    }
    if (!models->is_run)
        return LMC_OK;
    const chains chains = {st_allocate_zeroed(plan->memory, plan->count, sizeof *chains.key),
                           st_allocate_zeroed(plan->memory, plan->count, sizeof *chains.length)};
    const int has_memory = chains.key && chains.length;
    for (size_t i = 0; i < plan->count && has_memory; i++)
        plan_step(plan, store, &chains, i);
    st_release(plan->memory, chains.key);
    st_release(plan->memory, chains.length);
    return has_memory ? LMC_OK : st_fail_nomem(store->diag);
}

/* ---- the work ---- */

/* What is stored again. */
typedef struct rebase {
    st_store_session *store;
    const st_rebase *how;
    const st_options *options;
    st_parts *parts;
    st_model old; /* a copy */
} rebase;

/* Writes the model in other archives to the staged folder. */
static lmc_status stage_again(const rebase *rebase, const char *plain, const st_options *options,
                              st_model *model)
{
    const st_store_session *const store = rebase->store;
    char *const staged = st_store_path(store, ST_STORE_STAGED);
    char *const base_dir = rebase->how->base ? st_store_model_path(store, rebase->how->base) : NULL;
    lmc_status status = staged && (base_dir || !rebase->how->base) ? LMC_OK : st_fail_nomem(store->diag);
    st_parts_begin(rebase->parts, rebase->old.original_nbytes);
    if (status == LMC_OK)
        status = st_store_stage(store, plain, rebase->old.name, rebase->how->base, options, model, NULL);
    st_parts_end(rebase->parts);
    st_options own = *rebase->options;
    own.base_dirs = (const char *const *)&base_dir;
    own.base_dir_count = base_dir ? 1 : 0;
    if (status == LMC_OK && !rebase->how->new_nbytes) { /* the old folder goes for this one */
        st_parts_begin(rebase->parts, rebase->old.original_nbytes);
        status = st_store_compare_model(store, model, staged, plain, &own);
        st_parts_end(rebase->parts);
    }
    st_release(store->options->allocator, base_dir);
    st_release(store->options->allocator, staged);
    return status;
}

/* How many changes there are on the way to a tensor of the model, at most. A tensor that equals its base is as deep as
 * that is. */
static uint64_t deepest_tensor(const st_models *models, const st_model *model)
{
    uint64_t depth = model->depth;
    for (size_t i = 0; i < model->base_count; i++) {
        const st_model *const base = st_models_find(models, model->bases[i].name);
        if (base && base->depth != ST_DEPTH_UNKNOWN && base->depth > depth)
            depth = base->depth;
    }
    return depth;
}

static lmc_status store_again(const rebase *rebase, const char *plain)
{
    st_store_session *const store = rebase->store;
    const st_rebase *const how = rebase->how;
    lmc_st_result result = {0};
    st_model model = {0};
    st_options own = *rebase->options;
    st_chooser *chooser = NULL;
    st_parts_begin(rebase->parts, rebase->old.original_nbytes);
    LMC_TRY(st_store_check_whole(store, &rebase->old)); /* what is lost would not be missed afterwards */
    LMC_TRY(st_store_restore_model(store, &rebase->old, plain, rebase->options, &result));
    st_parts_end(rebase->parts);
    const st_choice_limits limits = {.depth = deepest_tensor(&store->models, &rebase->old),
                                     .goes = how->goes,
                                     .allowed = how->allowed,
                                     .has_equals = how->has_equals};
    lmc_status status = store->models.is_run
                            ? LMC_OK
                            : st_chooser_begin(&chooser, store, rebase->old.name, plain, &limits, &own);
    if (status == LMC_OK)
        status = stage_again(rebase, plain, &own, &model);
    if (status == LMC_OK && how->new_nbytes) {
        *how->new_nbytes = model.stored_nbytes;
        status = st_store_clear(store, ST_STORE_STAGED);
        st_chooser_abandon(chooser);
        if (status == LMC_OK && !st_models_put(&store->models, &model))
            status = st_fail_nomem(store->diag);
        st_models_set_depths(&store->models);
    } else {
        if (status == LMC_OK && chooser)
            status = st_chooser_forget(chooser);
        if (status == LMC_OK)
            status = st_store_put(store, &model);
        status = st_chooser_end(chooser, status);
    }
    st_model_free(&model, store->models.memory);
    return status;
}

lmc_status st_rebase_model(st_store_session *store, const char *name, const st_rebase *how,
                           const st_store_request *request, st_parts *parts, const st_options *options)
{
    const lmc_allocator *const memory = store->options->allocator;
    rebase rebase = {.store = store, .how = how, .options = options, .parts = parts};
    char *archive = NULL;
    char *plain = NULL;
    if (!st_model_copy(&rebase.old, st_models_find(&store->models, name), memory))
        return st_fail_nomem(store->diag);
    char *const folder = st_store_model_path(store, rebase.old.name);
    char *const room = st_store_path(store, ST_STORE_PLAIN);
    lmc_status status = folder && room ? LMC_OK : st_fail_nomem(store->diag);
    if (status == LMC_OK && !rebase.old.is_directory)
        status = st_model_find_archive(memory, folder, &archive, store->diag);
    if (status == LMC_OK) {
        plain = archive ? lmc_path_join(memory, room, lmc_last_component(archive), "")
                        : st_duplicate(memory, room);
        status = plain ? LMC_OK : st_fail_nomem(store->diag);
    }
    if (status == LMC_OK &&
        archive) { /* a file keeps its name, for which the plain one has a folder of its own */
        plain[strlen(plain) - strlen(LMC_ARCHIVE_SUFFIX)] = '\0';
        const int os_errno = os_make_folder(store->fd, ST_STORE_PLAIN, 0777);
        if (os_errno != 0) {
            st_diag_set_file(store->diag, room);
            status = st_fail_os(store->diag, os_errno, LMC_ST_NO_OFFSET, "cannot create this folder");
        }
    }
    if (status == LMC_OK)
        status = store_again(&rebase, plain);
    st_release(memory, plain);
    st_release(memory, archive);
    st_release(memory, room);
    st_release(memory, folder);
    const lmc_st_diag first = *store->diag;
    const lmc_status cleared = st_store_clear(store, ST_STORE_PLAIN);
    if (status != LMC_OK) {
        (void)!st_store_clear(store, ST_STORE_STAGED);
        *store->diag = first;
    }
    status = status == LMC_OK ? cleared : status;
    if (status == LMC_OK && !how->new_nbytes)
        st_store_tell(request, LMC_STORE_REBASED, st_models_find(&store->models, rebase.old.name));
    st_model_free(&rebase.old, memory);
    return status;
}

/* Tells what would become of a step. */
static lmc_status tell_dry(const st_store_session *store, const char *name, const char *base,
                           const st_store_request *request)
{
    const lmc_allocator *const memory = store->models.memory;
    st_model model = *st_models_find(&store->models, name); /* as it will be */
    model.bases = NULL;
    model.base_count = 0;
    if (base && !st_model_add_base(&model, base, 0, memory))
        return st_fail_nomem(store->diag);
    st_store_tell(request, LMC_STORE_REBASED, &model);
    model.name = NULL;
    st_model_free(&model, memory);
    return LMC_OK;
}

lmc_status st_rebase_do(const st_rebase_plan *plan, st_store_session *store, const st_store_request *request,
                        const st_options *options)
{
    st_parts parts = {.options = options};
    st_options inner = st_parts_options(&parts);
    const st_models *const models = &store->models;
    lmc_status status = LMC_OK;
    inner.file_done = NULL;
    inner.warning = NULL;
    for (size_t i = 0; i < plan->count; i++)
        parts.total_nbytes += plan->is_rebased[i] ? ST_REBASE_PASSES * models->list[i].original_nbytes : 0;
    /* what is to be stored again itself is no base: a chain could come of that */
    unsigned char *const goes = st_allocate_zeroed(models->memory, plan->count, 1);
    status = goes ? LMC_OK : st_fail_nomem(store->diag);
    for (size_t i = 0; i < plan->count && goes; i++)
        goes[i] = plan->goes[i] || plan->is_rebased[i];
    for (size_t i = 0; i < plan->count && status == LMC_OK; i++) {
        if (!plan->is_rebased[i])
            continue;
        const int has_base = models->is_run && plan->base[i] != SIZE_MAX;
        char *const name = st_duplicate(models->memory, models->list[i].name);
        char *const base = has_base ? st_duplicate(models->memory, models->list[plan->base[i]].name) : NULL;
        const st_rebase how = {.base = base, .goes = goes};
        if (!name || (has_base && !base))
            status = st_fail_nomem(store->diag);
        else
            status = request->dry_run ? tell_dry(store, name, base, request)
                                      : st_rebase_model(store, name, &how, request, &parts, &inner);
        goes[i] = 0;
        st_release(models->memory, base);
        st_release(models->memory, name);
    }
    st_release(models->memory, goes);
    return status;
}

/* ---- the call ---- */

/* Models that need fewer others first. */
static int compare_reach(const void *left, const void *right)
{
    const st_model *const a = *(const st_model *const *)left;
    const st_model *const b = *(const st_model *const *)right;
    return a->reach < b->reach ? -1 : a->reach > b->reach;
}

/* Removes the models that go; nothing else is based on them any more. Those that are based on others that go lose their
 * names first: whenever this ends, what is there has its bases. */
static lmc_status remove_models(st_store_session *store, const st_rebase_plan *plan,
                                const st_store_request *request)
{
    const lmc_allocator *const memory = store->options->allocator;
    st_model *const gone = st_allocate_zeroed(memory, plan->count, sizeof *gone);
    const st_model **const order = st_allocate_zeroed(memory, plan->count, sizeof *order);
    const char **const names = st_allocate_zeroed(memory, plan->count, sizeof *names);
    lmc_status status = gone && order && names ? LMC_OK : st_fail_nomem(store->diag);
    size_t count = 0;
    for (size_t i = 0; i < plan->count && status == LMC_OK; i++) {
        if (!plan->goes[i])
            continue;
        if (!st_model_copy(&gone[count], &store->models.list[i], memory))
            status = st_fail_nomem(store->diag);
        else
            order[count] = &gone[count];
        count += status == LMC_OK;
    }
    if (status == LMC_OK && count > 1)
        qsort(order, count, sizeof *order, compare_reach);
    for (size_t i = 0; i < count && status == LMC_OK; i++)
        names[i] = order[i]->name;
    if (status == LMC_OK && count > 0 && !request->dry_run)
        status = st_store_remove(store, names, count);
    for (size_t i = 0; i < count; i++) {
        if (status == LMC_OK)
            st_store_tell(request, LMC_STORE_DROPPED, &gone[i]);
        st_model_free(&gone[i], memory);
    }
    st_release(memory, names);
    st_release(memory, order);
    st_release(memory, gone);
    return status;
}

lmc_status st_store_drop(const char *path, const char *const *names, size_t name_count,
                         const st_keep_rule *rule, const st_store_request *request, const st_options *options,
                         lmc_st_diag *diag)
{
    st_store_session store;
    st_rebase_plan plan = {0};
    const uint64_t last = rule->last > 0 ? rule->last : 1; /* the newest stays */
    lmc_status status = st_store_begin(&store, path, request->kind,
                                       request->dry_run ? ST_STORE_READ : ST_STORE_WRITE, options, diag);
    if (status == LMC_OK)
        status = st_rebase_plan_init(&plan, &store);
    for (size_t i = 0; i < name_count && status == LMC_OK; i++) {
        const st_model *found = NULL;
        status = st_store_find(&store, names[i], &found);
        if (status == LMC_OK)
            plan.goes[found - store.models.list] = 1;
    }
    for (size_t i = 0; i < plan.count && status == LMC_OK && !names; i++) {
        const int is_new = plan.count - i <= last;
        const int is_divided = rule->every > 0 && store.models.list[i].step % rule->every == 0;
        plan.goes[i] = !is_new && !is_divided;
    }
    if (status == LMC_OK)
        status = st_rebase_plan_make(&plan, &store);
    if (status == LMC_OK)
        status = st_rebase_do(&plan, &store, request, options);
    if (status == LMC_OK)
        status = remove_models(&store, &plan, request);
    st_rebase_plan_free(&plan);
    st_store_end(&store, status);
    return status;
}
