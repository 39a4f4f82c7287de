/*
 * store_plan.c - store/store_plan.h.
 */
#include "safetensors/store/store_plan.h"

#include "safetensors/store/arrange.h"
#include "safetensors/store/drop.h"
#include "safetensors/store/predict.h"

#include <stdlib.h>
#include <string.h>

/* Models that are considered as the base of one. */
#define BASES_MAX 32

/* A base must save this share of what the model takes alone, and a plan this share of what it stores again. */
#define GAIN_SHARE_MIN 0.005

/* What a model takes now puts its other predictions right where it is no further from its own. What lies further off
 * is no error of the sampler: equal tensors that come from a second base, for example. */
#define FACTOR_MAX 2.0

typedef struct planning {
    st_store_session *store;
    st_catalog catalog;
    uint64_t depth_most;
    double *alone_nbytes; /* per model: predicted, and put right by what it takes now */
    st_buffer room;       /* st_base_cost */
    size_t cost_count;
    size_t *now;     /* the base of each model; ST_ARRANGE_NONE */
    size_t *planned; /* likewise */
    uint64_t *depth; /* of each model, as planned */
    unsigned char *is_changed;
    unsigned char *is_allowed; /* room for one model's mask: what it may be based on */
    unsigned char *has_equals; /* likewise: where its equal tensors may be */
    unsigned char *needs;      /* likewise: models that need it */
    unsigned char *is_done;    /* it has been stored again, or would have been */
    double *totals;            /* per model: what it takes as planned */
} planning;

static const lmc_allocator *memory_of(const planning *planning)
{
    return planning->store->options->allocator;
}

/* ---- what models take on each other ---- */

static int compare_costs(const void *left, const void *right)
{
    const double a = ((const st_base_cost *)left)->nbytes;
    const double b = ((const st_base_cost *)right)->nbytes;
    return a < b ? -1 : a > b;
}

/* The base that a model has now: of several, the first that is more than a place for equal tensors. */
static size_t base_of(const st_models *models, const st_model *model)
{
    for (size_t i = 0; i < model->base_count; i++) {
        const st_model *const base = st_models_find(models, model->bases[i].name);
        if (base && !model->bases[i].is_equal_only)
            return (size_t)(base - models->list);
    }
    return ST_ARRANGE_NONE;
}

/* Keeps the best bases of a model. What it takes now puts the prediction right. */
static lmc_status add_costs(planning *planning, size_t model, const double *sums)
{
    const lmc_allocator *const memory = memory_of(planning);
    const st_model *const described = &planning->store->models.list[model];
    const size_t count = planning->store->models.count;
    const size_t now = planning->now[model];
    const double stored = (double)described->stored_nbytes;
    double *const alone = &planning->alone_nbytes[model];
    const double predicted = now == ST_ARRANGE_NONE ? *alone : sums[now];
    const double measured = predicted > 0 ? stored / predicted : 1;
    const double factor = measured < 1 / FACTOR_MAX || measured > FACTOR_MAX ? 1 : measured;
    st_base_cost *const costs = st_allocate_array(memory, count + 1, sizeof *costs);
    size_t cost_count = 0;
    if (!costs)
        return st_fail_nomem(planning->store->diag);
    st_models_mark_dependents(&planning->store->models, model, planning->needs);
    const double alone_then = now == ST_ARRANGE_NONE ? stored : *alone;
    for (size_t i = 0; i < count; i++) {
        /* a model that shares equal tensors with this one, and has no base but for these, goes on needing it */
        if (i == model || sums[i] >= *alone * (1 - GAIN_SHARE_MIN) ||
            (planning->needs[i] &&
             base_of(&planning->store->models, &planning->store->models.list[i]) == ST_ARRANGE_NONE))
            continue;
        const double nbytes = i == now ? stored : now == ST_ARRANGE_NONE ? sums[i] : sums[i] * factor;
        if (nbytes < alone_then)
            costs[cost_count++] = (st_base_cost){(uint32_t)model, (uint32_t)i, nbytes};
    }
    *alone = alone_then;
    qsort(costs, cost_count, sizeof *costs, compare_costs);
    cost_count = cost_count < BASES_MAX ? cost_count : BASES_MAX;
    unsigned char *const place = st_buffer_extend(
        memory, &planning->room, planning->cost_count * sizeof *costs, cost_count * sizeof *costs + 1);
    if (place && cost_count > 0)
        memcpy(place, costs, cost_count * sizeof *costs);
    planning->cost_count += place ? cost_count : 0;
    st_release(memory, costs);
    return place ? LMC_OK : st_fail_nomem(planning->store->diag);
}

static lmc_status predict(planning *planning)
{
    const st_models *const models = &planning->store->models;
    st_prediction prediction = {
        .nbytes = st_allocate_array(memory_of(planning), models->count + 1, sizeof(double))};
    lmc_status status = prediction.nbytes ? LMC_OK : st_fail_nomem(planning->store->diag);
    memset(planning->is_allowed, 1, models->count);
    for (size_t i = 0; i < models->count && status == LMC_OK; i++) {
        planning->now[i] = planning->planned[i] = base_of(models, &models->list[i]);
        status = st_predict_model(&planning->catalog, i, planning->is_allowed, &prediction);
        planning->alone_nbytes[i] = prediction.alone_nbytes;
        if (status == LMC_OK)
            status = add_costs(planning, i, prediction.nbytes);
    }
    st_release(memory_of(planning), prediction.nbytes);
    return status;
}

/* ---- the plan ---- */

static st_arrangement arrangement_of(const planning *planning)
{
    return (st_arrangement){.memory = memory_of(planning),
                            .model_count = planning->store->models.count,
                            .alone_nbytes = planning->alone_nbytes,
                            .costs = (const st_base_cost *)(const void *)planning->room.bytes,
                            .cost_count = planning->cost_count,
                            .depth = planning->depth_most};
}

/* Finds what changes: models that get another base, and those that would need too many others then. */
static void mark_changes(planning *planning)
{
    const st_models *const models = &planning->store->models;
    for (size_t i = 0; i < models->count; i++) {
        planning->depth[i] = 0;
        for (size_t at = i; planning->planned[at] != ST_ARRANGE_NONE; at = planning->planned[at])
            planning->depth[i]++;
    }
    for (size_t i = 0; i < models->count; i++) {
        const st_model *const model = &models->list[i];
        planning->is_changed[i] = planning->planned[i] != planning->now[i];
        for (size_t j = 0; j < model->base_count; j++) {
            const size_t base = (size_t)(st_models_find(models, model->bases[j].name) - models->list);
            if (!model->bases[j].is_equal_only)
                planning->is_changed[i] |= planning->depth[base] >= planning->depth_most;
        }
    }
}

/* Leaves all as it is if what changes would hardly save anything. */
static void weigh_changes(planning *planning)
{
    const st_models *const models = &planning->store->models;
    const st_base_cost *const costs = (const st_base_cost *)(const void *)planning->room.bytes;
    size_t at = 0;
    double now = 0;
    double then = 0;
    for (size_t i = 0; i < models->count; i++) {
        planning->totals[i] = planning->alone_nbytes[i];
        for (; at < planning->cost_count && costs[at].model == i; at++)
            if (costs[at].base == planning->planned[i])
                planning->totals[i] = costs[at].nbytes;
        now += planning->is_changed[i] ? (double)models->list[i].stored_nbytes : 0;
        then += planning->is_changed[i] ? planning->totals[i] : 0;
    }
    if (then > now * (1 - GAIN_SHARE_MIN))
        memset(planning->is_changed, 0, models->count);
}

static lmc_status check_bases(const planning *planning)
{
    const st_models *const models = &planning->store->models;
    for (size_t i = 0; i < models->count; i++) {
        if (models->list[i].depth != ST_DEPTH_UNKNOWN)
            continue;
        st_diag_set_file(planning->store->diag, planning->store->path);
        return st_fail(planning->store->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "%.200s cannot be read, or a base of it was not found in the store: store verify says "
                       "what is missing",
                       models->list[i].name);
    }
    return LMC_OK;
}

static lmc_status make_plan(planning *planning)
{
    LMC_TRY(check_bases(planning));
    LMC_TRY(st_catalog_open(&planning->catalog, planning->store));
    LMC_TRY(predict(planning));
    const st_arrangement arrangement = arrangement_of(planning);
    if (st_arrange(&arrangement, planning->planned) != LMC_OK)
        return st_fail_nomem(planning->store->diag);
    mark_changes(planning);
    weigh_changes(planning);
    return LMC_OK;
}

/* Tells what each model should be, and adds up. */
static lmc_status tell_plan(const planning *planning, const st_store_request *request,
                            lmc_store_plan_result *result)
{
    const st_models *const models = &planning->store->models;
    for (size_t i = 0; i < models->count; i++) {
        const size_t base = planning->planned[i];
        st_model model;
        if (!st_model_copy(&model, &models->list[i], models->memory))
            return st_fail_nomem(planning->store->diag);
        result->stored_nbytes += model.stored_nbytes;
        if (planning->is_changed[i]) {
            const int is_directory = model.is_directory;
            st_model_free(&model, models->memory);
            model = (st_model){.name = st_duplicate(models->memory, models->list[i].name),
                               .is_directory = is_directory,
                               .depth = planning->depth[i],
                               .file_count = models->list[i].file_count,
                               .original_nbytes = models->list[i].original_nbytes,
                               .stored_nbytes = (uint64_t)planning->totals[i],
                               .time_s = models->list[i].time_s};
            if (!model.name || (base != ST_ARRANGE_NONE &&
                                !st_model_add_base(&model, models->list[base].name, 0, models->memory))) {
                st_model_free(&model, models->memory);
                return st_fail_nomem(planning->store->diag);
            }
            result->changed_count++;
            result->changed_nbytes += model.original_nbytes;
        }
        result->planned_nbytes += model.stored_nbytes;
        st_store_tell(request, LMC_STORE_PLANNED, &model);
        st_model_free(&model, models->memory);
    }
    return LMC_OK;
}

/* ---- applying it ---- */

/* Stores one model again, or finds out what it would take (new_nbytes). It may be based on models that are above it in
 * the plan. Those that change are stored from the top down, so they are what they should be by then. */
static lmc_status store_model(planning *planning, size_t model, uint64_t *new_nbytes,
                              const st_store_request *request, st_parts *parts, const st_options *options)
{
    st_store_session *const store = planning->store;
    const lmc_allocator *const memory = memory_of(planning);
    /* What needs the model is no base for it. */
    st_models_mark_dependents(&store->models, model, planning->needs);
    for (size_t i = 0; i < store->models.count; i++) {
        const int is_later = planning->is_changed[i] && !planning->is_done[i];
        planning->has_equals[i] = !is_later && !planning->needs[i];
        planning->is_allowed[i] = planning->has_equals[i] && planning->depth[i] < planning->depth[model];
    }
    const st_rebase how = {
        .allowed = planning->is_allowed, .has_equals = planning->has_equals, .new_nbytes = new_nbytes};
    char *const name = st_duplicate(memory, store->models.list[model].name);
    const lmc_status status =
        name ? st_rebase_model(store, name, &how, request, parts, options) : st_fail_nomem(store->diag);
    st_release(memory, name);
    return status;
}

/* All models that change, those that need fewest others first. is_trial: only *nbytes, what they would take. */
static lmc_status store_all(planning *planning, int is_trial, uint64_t *nbytes,
                            const st_store_request *request, st_parts *parts, const st_options *options)
{
    const st_models *const models = &planning->store->models;
    uint64_t depth_max = 0; /* chains that were there before may be deeper than the plan's */
    memset(planning->is_done, 0, models->count);
    for (size_t i = 0; i < models->count; i++)
        depth_max =
            planning->is_changed[i] && planning->depth[i] > depth_max ? planning->depth[i] : depth_max;
    for (uint64_t depth = 0; depth <= depth_max; depth++) {
        for (size_t i = 0; i < models->count; i++) {
            uint64_t one = 0;
            if (!planning->is_changed[i] || planning->depth[i] != depth)
                continue;
            LMC_TRY(store_model(planning, i, is_trial ? &one : NULL, request, parts, options));
            planning->is_done[i] = 1;
            *nbytes += is_trial ? one : models->list[i].stored_nbytes;
        }
    }
    return LMC_OK;
}

/* What all models that change would take. The list of models is as before then. */
static lmc_status try_all(planning *planning, uint64_t *nbytes, const st_store_request *request,
                          st_parts *parts, const st_options *options)
{
    st_models *const models = &planning->store->models;
    st_models before = {.memory = models->memory, .is_run = models->is_run};
    int has_memory = 1;
    for (size_t i = 0; i < models->count && has_memory; i++) {
        st_model copy;
        has_memory = st_model_copy(&copy, &models->list[i], models->memory) && st_models_put(&before, &copy);
    }
    const lmc_status status = has_memory ? store_all(planning, 1, nbytes, request, parts, options)
                                         : st_fail_nomem(planning->store->diag);
    if (has_memory) {
        const st_models after = *models;
        *models = before;
        before = after;
    }
    st_models_free(&before);
    return status;
}

static lmc_status apply_plan(planning *planning, const st_store_request *request, const st_options *options,
                             lmc_store_plan_result *result)
{
    const st_models *const models = &planning->store->models;
    st_parts parts = {.options = options};
    st_options inner = st_parts_options(&parts);
    uint64_t before = 0;
    uint64_t after = 0;
    for (size_t i = 0; i < models->count; i++) {
        before += planning->is_changed[i] ? models->list[i].stored_nbytes : 0;
        parts.total_nbytes +=
            planning->is_changed[i] ? 2 * ST_REBASE_PASSES * models->list[i].original_nbytes : 0;
    }
    LMC_TRY(try_all(planning, &after, request, &parts, &inner));
    if ((double)after >
        (double)before * (1 - GAIN_SHARE_MIN)) { /* the prediction was wrong: all stays as it is */
        result->planned_nbytes = result->stored_nbytes;
        result->changed_count = 0;
        result->changed_nbytes = 0;
        st_parts_begin(&parts, parts.total_nbytes - parts.done_nbytes); /* nothing is left to be done */
        st_parts_end(&parts);
        return LMC_OK;
    }
    after = 0;
    LMC_TRY(store_all(planning, 0, &after, request, &parts, &inner));
    result->planned_nbytes = result->stored_nbytes - before + after;
    return LMC_OK;
}

lmc_status st_store_plan(const char *path, int apply, const st_store_request *request,
                         const st_options *options, lmc_store_plan_result *result, lmc_st_diag *diag)
{
    st_store_session store;
    planning planning = {.store = &store, .depth_most = request->depth};
    const lmc_allocator *const memory = options->allocator;
    lmc_status status =
        st_store_begin(&store, path, request->kind, apply ? ST_STORE_WRITE : ST_STORE_READ, options, diag);
    const size_t count = store.models.count + 1;
    planning.alone_nbytes = st_allocate_zeroed(memory, count, sizeof *planning.alone_nbytes);
    planning.now = st_allocate_zeroed(memory, count, sizeof *planning.now);
    planning.planned = st_allocate_zeroed(memory, count, sizeof *planning.planned);
    planning.depth = st_allocate_zeroed(memory, count, sizeof *planning.depth);
    planning.is_changed = st_allocate_zeroed(memory, count, 1);
    planning.is_allowed = st_allocate_zeroed(memory, count, 1);
    planning.has_equals = st_allocate_zeroed(memory, count, 1);
    planning.needs = st_allocate_zeroed(memory, count, 1);
    planning.is_done = st_allocate_zeroed(memory, count, 1);
    planning.totals = st_allocate_zeroed(memory, count, sizeof *planning.totals);
    if (status == LMC_OK && !(planning.alone_nbytes && planning.now && planning.planned && planning.depth &&
                              planning.is_changed && planning.is_allowed && planning.has_equals &&
                              planning.needs && planning.is_done && planning.totals))
        status = st_fail_nomem(diag);
    if (status == LMC_OK)
        status = make_plan(&planning);
    st_catalog_close(&planning.catalog);
    if (status == LMC_OK)
        status = tell_plan(&planning, request, result);
    if (status == LMC_OK && apply && result->changed_count > 0)
        status = apply_plan(&planning, request, options, result);
    st_buffer_free(memory, &planning.room);
    st_release(memory, planning.alone_nbytes);
    st_release(memory, planning.now);
    st_release(memory, planning.planned);
    st_release(memory, planning.depth);
    st_release(memory, planning.is_changed);
    st_release(memory, planning.is_allowed);
    st_release(memory, planning.has_equals);
    st_release(memory, planning.needs);
    st_release(memory, planning.is_done);
    st_release(memory, planning.totals);
    st_store_end(&store, status);
    return status;
}
