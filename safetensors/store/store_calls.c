/*
 * store_calls.c - lmc_store.h: the calls, which complete what they were given for the engine (store/request.h).
 */
#include "os/path.h"
#include "safetensors/store/catalog.h"
#include "safetensors/store/names.h"
#include "safetensors/store/request.h"
#include "safetensors/store/store_plan.h"

#include <string.h>

const char *lmc_store_event_name(lmc_store_event event)
{
    static const char *const names[] = {"added",   "already there", "re-based",
                                        "dropped", "verified",      "planned"};
    return (size_t)event < sizeof names / sizeof names[0] ? names[event] : NULL;
}

/* ---- models as a program sees them ---- */

struct lmc_store {
    lmc_allocator memory;
    st_models models;
    const char **bases; /* of all models, one after another */
    size_t *first_base; /* of each model, and the end */
};

/* bases: room for the pointers, which is filled. */
static lmc_store_model model_of(const st_model *model, const char **bases)
{
    lmc_store_model described = LMC_INIT(lmc_store_model);
    for (size_t i = 0; i < model->base_count; i++)
        bases[i] = model->bases[i].name;
    described.name = model->name;
    described.is_directory = model->is_directory;
    described.bases = bases;
    described.base_count = model->base_count;
    described.has_unknown_base = model->has_unknown_base;
    described.depth = model->depth == ST_DEPTH_UNKNOWN ? LMC_STORE_UNKNOWN : model->depth + 1;
    described.file_count = model->file_count;
    described.original_nbytes = model->original_nbytes;
    described.stored_nbytes = model->stored_nbytes;
    described.time_s = model->time_s;
    return described;
}

static lmc_status list_models(lmc_store *store, const char *store_dir, st_call *call)
{
    st_store_session session;
    lmc_status status =
        st_store_begin(&session, store_dir, ST_STORE_OF_EITHER, ST_STORE_READ, &call->options, call->diag);
    if (status == LMC_OK) {
        store->models = session.models;
        store->models.memory = &store->memory;
        session.models = (st_models){0};
    }
    st_store_end(&session, status);
    size_t base_count = 0;
    for (size_t i = 0; i < store->models.count; i++)
        base_count += store->models.list[i].base_count;
    store->bases = st_allocate_array(&store->memory, base_count + 1, sizeof *store->bases);
    store->first_base = st_allocate_array(&store->memory, store->models.count + 1, sizeof *store->first_base);
    if (status == LMC_OK && !(store->bases && store->first_base))
        status = st_fail_nomem(call->diag);
    size_t at = 0;
    for (size_t i = 0; i < store->models.count && status == LMC_OK; i++) {
        store->first_base[i] = at;
        (void)model_of(&store->models.list[i], store->bases + at);
        at += store->models.list[i].base_count;
    }
    return status;
}

lmc_status lmc_store_open(const char *store_dir, const lmc_allocator *allocator, lmc_store **store,
                          lmc_st_diag *diag)
{
    st_call call;
    *store = NULL;
    lmc_status status = st_call_begin(&call, store_dir, NULL, diag);
    if (status == LMC_OK)
        status = st_call_set_allocator(&call, allocator);
    if (status == LMC_OK) {
        const lmc_allocator *const memory = call.options.allocator;
        lmc_store *const opened = st_allocate_zeroed(memory, 1, sizeof *opened);
        if (opened)
            opened->memory = *memory;
        status = opened ? list_models(opened, store_dir, &call) : st_fail_nomem(call.diag);
        if (status == LMC_OK)
            *store = opened;
        else
            lmc_store_close(opened);
    }
    return st_call_end(&call, status);
}

void lmc_store_close(lmc_store *store)
{
    if (!store)
        return;
    const lmc_allocator memory = store->memory;
    st_models_free(&store->models);
    st_release(&memory, store->bases);
    st_release(&memory, store->first_base);
    st_release(&memory, store);
}

uint64_t lmc_store_model_count(const lmc_store *store)
{
    return store->models.count;
}

int lmc_store_is_run(const lmc_store *store)
{
    return store->models.is_run;
}

lmc_status lmc_store_model_info(const lmc_store *store, uint64_t index, lmc_store_model *model)
{
    lmc_store_model found = LMC_INIT(lmc_store_model);
    if (!lmc_struct_is_known(model, sizeof *model))
        return LMC_ERR_ARG;
    const int is_there = index < store->models.count;
    if (is_there)
        found = model_of(&store->models.list[index], store->bases + store->first_base[index]);
    lmc_struct_copy(model, &found, lmc_struct_size(model));
    return is_there ? LMC_OK : LMC_ERR_ARG;
}

int lmc_store_find_model(const lmc_store *store, const char *name, uint64_t *index)
{
    const st_model *const found = st_models_find(&store->models, name);
    if (found)
        *index = (uint64_t)(found - store->models.list);
    return found != NULL;
}

/* ---- what a call was given ---- */

typedef struct store_call {
    st_call call;
    st_store_request request;
    lmc_store_model_fn model_done;
} store_call;

/* Passes the model on to the caller. Without memory for the names of its bases it has none. */
static void tell_model(void *user, lmc_store_event event, const st_model *model)
{
    const store_call *const call = user;
    const lmc_allocator *const memory = call->call.options.allocator;
    const char **const bases = st_allocate_array(memory, model->base_count + 1, sizeof *bases);
    st_model own = *model;
    own.base_count = bases ? model->base_count : 0;
    const lmc_store_model described = model_of(&own, bases);
    call->model_done(call->call.options.user, event, &described);
    st_release(memory, bases);
}

/* The callers' structs go no further than these calls. */
static lmc_status begin(store_call *call, const char *store_dir, const void *given, void *own,
                        const lmc_st_common *common, lmc_st_result *result, lmc_st_diag *diag)
{
    *call = (store_call){.request = {.kind = ST_STORE_OF_EITHER, .user = call}};
    LMC_TRY(st_call_begin(&call->call, store_dir, result, diag));
    LMC_TRY(st_call_copy(&call->call, given, own));
    return st_call_set_common(&call->call, common);
}

static void set_model_done(store_call *call, lmc_store_model_fn model_done)
{
    call->model_done = model_done;
    call->request.model_done = model_done ? tell_model : NULL;
}

static lmc_status set_depth(store_call *call, unsigned depth)
{
    call->request.depth = depth == 0 ? LMC_STORE_DEPTH_DEFAULT : depth;
    return depth <= LMC_STORE_DEPTH_MAX ? LMC_OK
                                        : st_fail(call->call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                                                  "depth is not 1 to " LMC_TEXT_OF(LMC_STORE_DEPTH_MAX));
}

/* ---- the calls ---- */

/* The last component of the path, without slashes behind it; to be released. NULL: out of memory. */
static char *name_of_path(const lmc_allocator *memory, const char *path)
{
    size_t nbytes = 0;
    const char *const last = lmc_path_name(path, &nbytes);
    char *const name = st_allocate(memory, nbytes + 1);
    if (name) {
        memcpy(name, last, nbytes);
        name[nbytes] = '\0';
    }
    return name;
}

lmc_status lmc_store_add(const char *store_dir, const char *path, const lmc_store_add_options *given,
                         lmc_st_diag *diag)
{
    store_call call;
    lmc_store_add_options own = LMC_INIT(lmc_store_add_options);
    st_options *const options = &call.call.options;
    st_model model = {0};
    lmc_status status = begin(&call, store_dir, given, &own, &own.common, NULL, diag);
    if (status == LMC_OK)
        status = st_call_set_level(&call.call, own.level);
    lmc_st_diag *const own_diag = call.call.diag;
    options->force = own.force;
    options->no_fsync = own.no_fsync;
    options->excludes = own.excludes;
    options->exclude_count = own.exclude_count;
    options->file_done = own.file_done;
    options->warning = own.warning;
    call.request.kind = ST_STORE_OF_MODELS;
    set_model_done(&call, own.model_done);
    if (status == LMC_OK)
        status = set_depth(&call, own.depth);
    char *const name =
        own.name ? st_duplicate(options->allocator, own.name) : name_of_path(options->allocator, path);
    if (status == LMC_OK && !name)
        status = st_fail_nomem(own_diag);
    const char *const fault = status == LMC_OK ? st_store_name_fault(name) : NULL;
    if (fault) {
        st_diag_set_file(own_diag, path);
        status = st_fail(own_diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                         "cannot be stored under this name, which %s", fault);
    }
    if (status == LMC_OK)
        status = st_store_add(store_dir, path, name, &call.request, options, &model, own_diag);
    st_release(options->allocator, name);
    st_model_free(&model, options->allocator);
    return st_call_end(&call.call, status);
}

lmc_status lmc_store_drop(const char *store_dir, const char *const *names, size_t name_count,
                          const lmc_store_drop_options *given, lmc_st_diag *diag)
{
    store_call call;
    const st_keep_rule no_rule = {0};
    lmc_store_drop_options own = LMC_INIT(lmc_store_drop_options);
    lmc_status status = begin(&call, store_dir, given, &own, &own.common, NULL, diag);
    call.call.options.no_fsync = own.no_fsync;
    set_model_done(&call, own.model_done);
    if (status == LMC_OK && name_count == 0)
        status =
            st_fail(call.call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "no model is named that is to be dropped");
    if (status == LMC_OK)
        status = st_store_drop(store_dir, names, name_count, &no_rule, &call.request, &call.call.options,
                               call.call.diag);
    return st_call_end(&call.call, status);
}

lmc_status lmc_store_plan(const char *store_dir, const lmc_store_plan_options *given,
                          lmc_store_plan_result *result, lmc_st_diag *diag)
{
    store_call call;
    const lmc_store_plan_result none = LMC_INIT(lmc_store_plan_result);
    lmc_store_plan_result found = none;
    lmc_store_plan_options own = LMC_INIT(lmc_store_plan_options);
    lmc_status status = begin(&call, store_dir, given, &own, &own.common, NULL, diag);
    lmc_st_diag *const own_diag = call.call.diag;
    call.call.options.no_fsync = own.no_fsync;
    call.request.kind = ST_STORE_OF_MODELS;
    set_model_done(&call, own.model_done);
    if (status == LMC_OK && result && !lmc_struct_is_known(result, sizeof *result))
        status = st_fail(own_diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                         "the result is not initialised, or of a newer version");
    if (status == LMC_OK)
        status = set_depth(&call, own.depth);
    if (status == LMC_OK)
        status =
            st_store_plan(store_dir, own.apply != 0, &call.request, &call.call.options, &found, own_diag);
    if (result && lmc_struct_is_known(result, sizeof *result))
        lmc_struct_copy(result, status == LMC_OK ? &found : &none, lmc_struct_size(result));
    return st_call_end(&call.call, status);
}

lmc_status lmc_store_repair(const char *store_dir, const lmc_store_drop_options *given, lmc_st_diag *diag)
{
    store_call call;
    st_store_session session;
    lmc_store_drop_options own = LMC_INIT(lmc_store_drop_options);
    lmc_status status = begin(&call, store_dir, given, &own, &own.common, NULL, diag);
    call.call.options.no_fsync = own.no_fsync;
    if (status == LMC_OK) {
        status = st_store_begin(&session, store_dir, ST_STORE_OF_EITHER, ST_STORE_REPAIR, &call.call.options,
                                call.call.diag);
        if (status == LMC_OK && !session.models.is_run)
            status = st_catalog_remake(&session);
        st_store_end(&session, status);
    }
    return st_call_end(&call.call, status);
}

lmc_status lmc_store_restore(const char *store_dir, const char *name, const char *out_path,
                             const lmc_store_restore_options *given, lmc_st_result *result, lmc_st_diag *diag)
{
    store_call call;
    lmc_store_restore_options own = LMC_INIT(lmc_store_restore_options);
    lmc_status status = begin(&call, store_dir, given, &own, &own.common, result, diag);
    call.call.options.force = own.force;
    call.call.options.no_fsync = own.no_fsync;
    call.call.options.file_done = own.file_done;
    if (status == LMC_OK)
        status = st_store_restore(store_dir, name, out_path, &call.request, &call.call.options,
                                  call.call.result, call.call.diag);
    return st_call_end(&call.call, status);
}

lmc_status lmc_store_verify(const char *store_dir, const char *const *names, size_t name_count,
                            const lmc_store_verify_options *given, lmc_st_result *result, lmc_st_diag *diag)
{
    store_call call;
    lmc_store_verify_options own = LMC_INIT(lmc_store_verify_options);
    lmc_status status = begin(&call, store_dir, given, &own, &own.common, result, diag);
    call.call.options.damage = own.damage;
    call.call.options.file_done = own.file_done;
    set_model_done(&call, own.model_done);
    if (status == LMC_OK)
        status = st_store_verify(store_dir, names, name_count, &call.request, &call.call.options,
                                 call.call.result, call.call.diag);
    return st_call_end(&call.call, status);
}

lmc_status lmc_store_open_tensor(const char *store_dir, const char *name, const char *tensor,
                                 const lmc_allocator *allocator, lmc_st_file **file, uint64_t *index,
                                 lmc_st_diag *diag)
{
    st_call call;
    const st_store_request request = {.kind = ST_STORE_OF_EITHER};
    *file = NULL;
    lmc_status status = st_call_begin(&call, store_dir, NULL, diag);
    if (status == LMC_OK)
        status = st_call_set_allocator(&call, allocator);
    if (status == LMC_OK)
        status =
            st_store_open_tensor(store_dir, name, tensor, &request, &call.options, file, index, call.diag);
    return st_call_end(&call, status);
}
