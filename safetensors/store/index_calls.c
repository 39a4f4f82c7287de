/*
 * index_calls.c - lmc_store.h: the calls on an index alone.
 */
#include "safetensors/convert/convert_file.h"
#include "safetensors/store/arrange.h"
#include "safetensors/store/names.h"
#include "safetensors/store/predict.h"
#include "safetensors/tree/directory.h"

#include <stdlib.h>
#include <string.h>

/* Bases that are told of a model, beside those that it would have. */
#define BASES_MAX 32

/* A call on an index, without the store that it tells of. */
typedef struct index_call {
    st_call call;
    st_store_session store;
    lmc_store_index_options own;
} index_call;

/* end() follows in every case. */
static lmc_status begin(index_call *call, const char *index_path, const lmc_store_index_options *given,
                        lmc_st_diag *diag)
{
    *call = (index_call){.own = LMC_INIT(lmc_store_index_options)};
    LMC_TRY(st_call_begin(&call->call, index_path, NULL, diag));
    LMC_TRY(st_call_copy(&call->call, given, &call->own));
    LMC_TRY(st_call_set_common(&call->call, &call->own.common));
    call->call.options.excludes = call->own.excludes;
    call->call.options.exclude_count = call->own.exclude_count;
    call->store = (st_store_session){
        .path = index_path, .options = &call->call.options, .diag = call->call.diag, .fd = -1, .lock_fd = -1};
    return LMC_OK;
}

static lmc_status end(index_call *call, lmc_status status)
{
    st_models_free(&call->store.models);
    return st_call_end(&call->call, status);
}

/* Replaces what the index has of a model, or of all (NULL), by what `add` adds. Other processes wait for that. */
static lmc_status change(const index_call *call, const char *name,
                         lmc_status (*add)(void *user, st_index *index), void *user)
{
    st_index index;
    int is_new = 0;
    lmc_st_diag *const diag = call->store.diag;
    const st_options *const options = &call->call.options;
    const st_index_how how = {
        .memory = options->allocator, .cancel = options->cancel, .access = ST_DATABASE_MAKE};
    lmc_status status = st_index_open(&index, call->store.path, &how, &is_new, diag);
    if (status == LMC_OK)
        status = st_index_begin(&index, diag);
    if (status == LMC_OK && name)
        status = st_index_remove_model(&index, name, diag);
    if (status == LMC_OK)
        status = add(user, &index);
    if (status == LMC_OK)
        status = st_index_commit(&index, diag);
    st_index_close(&index);
    return status;
}

/* ---- adding ---- */

/* A model whose sketches are made. */
typedef struct sketching {
    const index_call *call;
    const char *name;
    const char *path;
    st_buffer room; /* st_sketched_file, with the paths that the archives would have in the store */
    size_t count;
} sketching;

/* An st_source_fn. */
static lmc_status sketch_source(void *user, const st_source *source, lmc_st_diag *diag)
{
    sketching *const sketching = user;
    const lmc_allocator *const memory = sketching->call->call.options.allocator;
    const char *const inner =
        st_catalog_inner_path(sketching->path, ((const lmc_st_file *)source->owner)->path);
    char *const folder = lmc_path_join(memory, "", sketching->name, LMC_ARCHIVE_SUFFIX);
    st_sketched_file file = {.path = folder ? lmc_path_join(memory, folder, inner, LMC_ARCHIVE_SUFFIX) : NULL,
                             .tensor_count = source->header->tensor_count};
    unsigned char *const place =
        st_buffer_extend(memory, &sketching->room, sketching->count * sizeof file, sizeof file);
    const lmc_status status =
        file.path && place ? st_catalog_sketch(source, memory, &file.tensors, diag) : st_fail_nomem(diag);
    st_release(memory, folder);
    if (place) {
        memcpy(place, &file, sizeof file);
        sketching->count++;
    } else {
        st_release(memory, file.path);
    }
    return status;
}

static lmc_status sketch_model(sketching *sketching)
{
    const st_options *const options = &sketching->call->call.options;
    lmc_st_diag *const diag = sketching->call->store.diag;
    st_diag_set_file(diag, sketching->path);
    return st_is_directory(sketching->path, options)
               ? st_tree_visit_sources(sketching->path, options, sketch_source, sketching, diag)
               : st_convert_visit_file(sketching->path, options, sketch_source, sketching, diag);
}

static lmc_status add_files(void *user, st_index *index)
{
    const sketching *const sketching = user;
    const st_sketched_file *const files = (const st_sketched_file *)(const void *)sketching->room.bytes;
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < sketching->count && status == LMC_OK; i++)
        status = st_index_add_file(index, sketching->name, files[i].path, 0, 0, files[i].tensors,
                                   files[i].tensor_count, NULL, sketching->call->store.diag);
    return status;
}

static void free_sketches(sketching *sketching)
{
    const lmc_allocator *const memory = sketching->call->call.options.allocator;
    const st_sketched_file *const files = (const st_sketched_file *)(const void *)sketching->room.bytes;
    for (size_t i = 0; i < sketching->count; i++) {
        st_release(memory, files[i].path);
        st_release(memory, files[i].tensors);
    }
    st_buffer_free(memory, &sketching->room);
}

lmc_status lmc_store_index_add(const char *index_path, const char *name, const char *path,
                               const lmc_store_index_options *options, lmc_st_diag *diag)
{
    index_call call;
    sketching sketching = {.call = &call, .name = name, .path = path};
    lmc_status status = begin(&call, index_path, options, diag);
    const char *const fault = status == LMC_OK ? st_store_name_fault(name) : NULL;
    if (fault) {
        st_diag_set_file(call.store.diag, path);
        status = st_fail(call.store.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                         "cannot be stored under this name, which %s", fault);
    }
    if (status == LMC_OK) /* others need not wait for this */
        status = sketch_model(&sketching);
    if (status == LMC_OK) {
        st_diag_set_file(call.store.diag, index_path);
        status = change(&call, name, add_files, &sketching);
    }
    free_sketches(&sketching);
    return end(&call, status);
}

/* ---- merging ---- */

typedef struct merging {
    st_catalog from;
    const char *name;
} merging;

static lmc_status copy_files(void *user, st_index *index)
{
    merging *const merging = user;
    const st_store_session *const store = merging->from.store;
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < merging->from.count && status == LMC_OK; i++) {
        const st_catalog_file *const file = &merging->from.files[i];
        const char *const model = store->models.list[file->model].name;
        st_index_tensor *tensors = NULL;
        size_t count = 0;
        if (merging->name && strcmp(model, merging->name) != 0)
            continue;
        status = st_is_cancelled(store->options->cancel)
                     ? st_fail_cancelled(store->diag)
                     : st_index_load_file(&merging->from.index, file->id, &tensors, &count, store->diag);
        if (status == LMC_OK)
            status = st_index_add_file(index, model, file->path, file->nbytes, file->mtime_ns, tensors, count,
                                       NULL, store->diag);
        st_release(store->options->allocator, tensors);
    }
    return status;
}

lmc_status lmc_store_index_merge(const char *index_path, const char *other_path, const char *name,
                                 const lmc_store_index_options *options, lmc_st_diag *diag)
{
    index_call call;
    merging merging = {.name = name};
    lmc_status status = begin(&call, index_path, options, diag);
    if (status == LMC_OK) {
        st_diag_set_file(call.store.diag, other_path);
        status = st_catalog_open_alone(&merging.from, &call.store, other_path);
        if (status == LMC_OK)
            status = change(&call, name, copy_files, &merging);
        st_catalog_close(&merging.from);
    }
    return end(&call, status);
}

/* ---- predicting ---- */

/* A model that may be a base. */
typedef struct prospect {
    const char *name;
    double nbytes;
    int is_chosen;
} prospect;

/* What the model would have first, then by size. */
static int compare_prospects(const void *left, const void *right)
{
    const prospect *const a = left;
    const prospect *const b = right;
    if (a->is_chosen != b->is_chosen)
        return b->is_chosen - a->is_chosen;
    return a->nbytes < b->nbytes ? -1 : a->nbytes > b->nbytes;
}

/* What models are predicted, and whom it is told. */
typedef struct predicting {
    index_call *call;
    st_catalog catalog;
    unsigned char *is_allowed; /* per model */
    st_prediction prediction;
    prospect *prospects; /* room for all */
    lmc_store_prediction_fn predicted;
} predicting;

static void tell_prospects(const predicting *predicting, const char *name)
{
    const st_models *const models = &predicting->call->store.models;
    const st_prediction *const prediction = &predicting->prediction;
    void *const user = predicting->call->call.options.user;
    prospect *const prospects = predicting->prospects;
    size_t count = 0;
    size_t others = 0;
    predicting->predicted(user, name, NULL, (uint64_t)prediction->alone_nbytes, 0);
    for (size_t i = 0; i < models->count; i++)
        if (prediction->is_chosen[i] || prediction->nbytes[i] < prediction->alone_nbytes)
            prospects[count++] =
                (prospect){models->list[i].name, prediction->nbytes[i], prediction->is_chosen[i]};
    if (count > 1)
        qsort(prospects, count, sizeof *prospects, compare_prospects);
    for (size_t i = 0; i < count; i++) {
        others += !prospects[i].is_chosen;
        if (others <= BASES_MAX)
            predicting->predicted(user, name, prospects[i].name, (uint64_t)prospects[i].nbytes,
                                  prospects[i].is_chosen);
    }
}

/* allowed: NULL: all models. */
static lmc_status begin_predicting(predicting *predicting, const char *const *allowed, size_t allowed_count)
{
    const st_store_session *const store = &predicting->call->store;
    const lmc_allocator *const memory = store->options->allocator;
    LMC_TRY(st_catalog_open_alone(&predicting->catalog, &predicting->call->store, store->path));
    const size_t count = store->models.count;
    predicting->is_allowed = st_allocate_zeroed(memory, count + 1, 1);
    predicting->prospects = st_allocate_array(memory, count + 1, sizeof *predicting->prospects);
    predicting->prediction.nbytes = st_allocate_array(memory, count + 1, sizeof(double));
    predicting->prediction.is_chosen = st_allocate_zeroed(memory, count + 1, 1);
    if (!predicting->is_allowed || !predicting->prospects || !predicting->prediction.nbytes ||
        !predicting->prediction.is_chosen)
        return st_fail_nomem(store->diag);
    for (size_t i = 0; i < allowed_count; i++) {
        const st_model *const base = st_models_find(&store->models, allowed[i]);
        if (base)
            predicting->is_allowed[base - store->models.list] = 1;
    }
    if (!allowed)
        memset(predicting->is_allowed, 1, count);
    return LMC_OK;
}

lmc_status lmc_store_index_predict(const char *index_path, const char *const *names, size_t name_count,
                                   const char *const *allowed, size_t allowed_count,
                                   const lmc_store_index_options *options, lmc_store_prediction_fn predicted,
                                   lmc_st_diag *diag)
{
    index_call call;
    predicting predicting = {.call = &call, .predicted = predicted};
    lmc_status status = begin(&call, index_path, options, diag);
    const lmc_allocator *const memory = call.call.options.allocator;
    if (status == LMC_OK)
        status = begin_predicting(&predicting, allowed, allowed_count);
    for (size_t i = 0; i < name_count && status == LMC_OK; i++) {
        const st_model *model = NULL;
        status = st_store_find(&call.store, names[i], &model);
        if (status == LMC_OK)
            status = st_predict_model(&predicting.catalog, (size_t)(model - call.store.models.list),
                                      predicting.is_allowed, &predicting.prediction);
        if (status == LMC_OK)
            tell_prospects(&predicting, names[i]);
    }
    st_catalog_close(&predicting.catalog);
    st_release(memory, predicting.is_allowed);
    st_release(memory, predicting.prospects);
    st_release(memory, predicting.prediction.nbytes);
    st_release(memory, predicting.prediction.is_chosen);
    return end(&call, status);
}

/* ---- arranging ---- */

lmc_status lmc_store_arrange(size_t model_count, const uint64_t *alone_nbytes, const lmc_store_cost *costs,
                             size_t cost_count, unsigned depth, size_t *bases)
{
    const lmc_allocator *const memory = &lmc_memory_default;
    int is_sound = model_count <= UINT32_MAX && depth >= 1 && depth <= LMC_STORE_DEPTH_MAX;
    for (size_t i = 0; i < cost_count && is_sound; i++)
        is_sound = costs[i].model < model_count && costs[i].base < model_count &&
                   costs[i].model != costs[i].base && (i == 0 || costs[i - 1].model <= costs[i].model);
    for (size_t i = 0; i < model_count && is_sound; i++)
        is_sound = bases[i] == LMC_STORE_NO_BASE || (bases[i] < model_count && bases[i] != i);
    if (!is_sound)
        return LMC_ERR_ARG;
    double *const alone = st_allocate_array(memory, model_count + 1, sizeof *alone);
    st_base_cost *const own = st_allocate_array(memory, cost_count + 1, sizeof *own);
    for (size_t i = 0; i < model_count && alone; i++)
        alone[i] = (double)alone_nbytes[i];
    for (size_t i = 0; i < cost_count && own; i++)
        own[i] = (st_base_cost){costs[i].model, costs[i].base, (double)costs[i].nbytes};
    const st_arrangement arrangement = {memory, model_count, alone, own, cost_count, depth};
    const lmc_status status = alone && own ? st_arrange(&arrangement, bases) : LMC_ERR_NOMEM;
    st_release(memory, alone);
    st_release(memory, own);
    return status;
}
