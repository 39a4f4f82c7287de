/*
 * run_api.c - the public calls on runs (lmc_run.h): each gives the caller's structs the fields that they have, checks
 * the options, and hands the work to run/.
 */
#include "lmc_run.h"

#include "safetensors/common/options.h"
#include "safetensors/common/st_common.h"
#include "safetensors/run/run_steps.h"

/* ---- the caller's structs ---- */

const char *lmc_run_event_name(lmc_run_event event)
{
    static const char *const names[] = {"added", "already there", "re-based", "dropped", "verified"};
    return (size_t)event < sizeof names / sizeof names[0] ? names[event] : NULL;
}

void lmc_run_options_init_sized(lmc_run_options *options, size_t struct_size)
{
    const lmc_run_options defaults = {.struct_size = struct_size};
    options->struct_size = struct_size;
    if (lmc_struct_is_known(options, sizeof defaults))
        lmc_struct_copy(options, &defaults, struct_size);
}

/* What a call on a run was given. */
typedef struct run_call {
    st_call call;
    lmc_run_options options;
} run_call;

static lmc_status refuse(run_call *call, const char *text)
{
    return st_fail(call->call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "%s", text);
}

/* Ends with st_call_end(&call->call, status), in every case. */
static lmc_status begin(run_call *call, const char *run_dir, const lmc_run_options *run_options,
                        const lmc_st_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    LMC_TRY(st_call_begin(&call->call, run_dir, options, result, diag));
    call->options = (lmc_run_options)LMC_INIT(lmc_run_options);
    if (run_options && !lmc_struct_is_known(run_options, sizeof *run_options))
        return refuse(call, "the options of the run are not initialised, or of a newer version");
    if (run_options)
        lmc_struct_copy(&call->options, run_options, run_options->struct_size);
    const lmc_st_options *const own = &call->call.options;
    if (own->base || own->base_dir_count > 0 || own->raw || own->salvage || own->sha256 || own->in_fd >= 0 ||
        own->out_fd >= 0)
        return refuse(call, "an option is set that calls on runs do not have");
    return LMC_OK;
}

/* ---- the list of steps ---- */

struct lmc_run {
    lmc_allocator memory;
    st_run_list list;
};

static lmc_status read_run(lmc_run *run, const char *run_dir, run_call *call)
{
    st_run_session session;
    const lmc_status status =
        st_run_begin(&session, run_dir, ST_RUN_READ, &call->call.options, call->call.diag);
    if (status == LMC_OK) {
        run->list = session.list;
        run->list.memory = &run->memory;
        session.list = (st_run_list){0};
    }
    st_run_end(&session, status);
    return status;
}

lmc_status lmc_run_open(const char *run_dir, const lmc_allocator *allocator, lmc_run **run, lmc_st_diag *diag)
{
    run_call call;
    lmc_st_options options;
    lmc_st_options_init(&options);
    options.allocator = allocator;
    *run = NULL;
    lmc_status status = begin(&call, run_dir, NULL, &options, NULL, diag);
    if (status == LMC_OK) {
        const lmc_allocator *const memory = call.call.options.allocator;
        lmc_run *const opened = st_allocate_zeroed(memory, 1, sizeof *opened);
        if (opened)
            opened->memory = *memory;
        status = opened ? read_run(opened, run_dir, &call) : st_fail_nomem(call.call.diag);
        if (status == LMC_OK)
            *run = opened;
        else
            st_release(memory, opened);
    }
    return st_call_end(&call.call, status);
}

void lmc_run_close(lmc_run *run)
{
    if (!run)
        return;
    const lmc_allocator memory = run->memory;
    st_run_list_free(&run->list);
    st_release(&memory, run);
}

uint64_t lmc_run_step_count(const lmc_run *run)
{
    return run->list.count;
}

lmc_status lmc_run_step_info(const lmc_run *run, uint64_t index, lmc_run_step *step)
{
    if (!lmc_struct_is_known(step, sizeof *step) || index >= run->list.count)
        return LMC_ERR_ARG;
    lmc_struct_copy(step, &run->list.steps[index], lmc_struct_size(step));
    return LMC_OK;
}

int lmc_run_find(const lmc_run *run, uint64_t step, uint64_t *index)
{
    const lmc_run_step *const found = st_run_list_find(&run->list, step);
    if (found)
        *index = (uint64_t)(found - run->list.steps);
    return found != NULL;
}

unsigned lmc_run_key_every(const lmc_run *run)
{
    return run->list.key_every;
}

/* ---- changing a run ---- */

lmc_status lmc_run_add(const char *run_dir, const char *snapshot, const lmc_run_options *run_options,
                       const lmc_st_options *options, lmc_run_step *added, lmc_st_diag *diag)
{
    run_call call;
    lmc_run_step own;
    lmc_status status = begin(&call, run_dir, run_options, options, NULL, diag);
    if (status == LMC_OK && added && !lmc_struct_is_known(added, sizeof *added))
        status = refuse(&call, "the step is not initialised, or of a newer version");
    if (status == LMC_OK)
        status = st_run_add(run_dir, snapshot, &call.options, &call.call.options, &own, call.call.diag);
    if (status == LMC_OK && added)
        lmc_struct_copy(added, &own, lmc_struct_size(added));
    return st_call_end(&call.call, status);
}

lmc_status lmc_run_drop(const char *run_dir, const uint64_t *steps, size_t step_count,
                        const lmc_run_options *run_options, const lmc_st_options *options, lmc_st_diag *diag)
{
    run_call call;
    lmc_status status = begin(&call, run_dir, run_options, options, NULL, diag);
    if (status == LMC_OK)
        status = st_run_drop(run_dir, steps, step_count, &call.options, &call.call.options, call.call.diag);
    return st_call_end(&call.call, status);
}

lmc_status lmc_run_keep(const char *run_dir, uint64_t last, uint64_t every,
                        const lmc_run_options *run_options, const lmc_st_options *options, lmc_st_diag *diag)
{
    run_call call;
    lmc_status status = begin(&call, run_dir, run_options, options, NULL, diag);
    if (status == LMC_OK)
        status = st_run_keep(run_dir, last, every, &call.options, &call.call.options, call.call.diag);
    return st_call_end(&call.call, status);
}

lmc_status lmc_run_repair(const char *run_dir, const lmc_st_options *options, lmc_st_diag *diag)
{
    run_call call;
    lmc_status status = begin(&call, run_dir, NULL, options, NULL, diag);
    if (status == LMC_OK) {
        st_run_session session;
        status = st_run_begin(&session, run_dir, ST_RUN_REPAIR, &call.call.options, call.call.diag);
        st_run_end(&session, status);
    }
    return st_call_end(&call.call, status);
}

/* ---- reading a run ---- */

lmc_status lmc_run_restore(const char *run_dir, uint64_t step, const char *out_path,
                           const lmc_st_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    run_call call;
    lmc_status status = begin(&call, run_dir, NULL, options, result, diag);
    if (status == LMC_OK)
        status =
            st_run_restore(run_dir, step, out_path, &call.call.options, call.call.result, call.call.diag);
    return st_call_end(&call.call, status);
}

lmc_status lmc_run_verify(const char *run_dir, const uint64_t *steps, size_t step_count,
                          const lmc_run_options *run_options, const lmc_st_options *options,
                          lmc_st_result *result, lmc_st_diag *diag)
{
    run_call call;
    lmc_status status = begin(&call, run_dir, run_options, options, result, diag);
    if (status == LMC_OK)
        status = st_run_verify(run_dir, steps, step_count, &call.options, &call.call.options,
                               call.call.result, call.call.diag);
    return st_call_end(&call.call, status);
}

lmc_status lmc_run_compare(const char *run_dir, uint64_t step, const char *snapshot,
                           const lmc_st_options *options, lmc_st_diag *diag)
{
    run_call call;
    lmc_status status = begin(&call, run_dir, NULL, options, NULL, diag);
    if (status == LMC_OK)
        status = st_run_compare(run_dir, step, snapshot, &call.call.options, call.call.diag);
    return st_call_end(&call.call, status);
}

lmc_status lmc_run_open_tensor(const char *run_dir, uint64_t step, const char *name,
                               const lmc_allocator *allocator, lmc_st_file **file, uint64_t *index,
                               lmc_st_diag *diag)
{
    run_call call;
    lmc_st_options options;
    lmc_st_options_init(&options);
    options.allocator = allocator;
    *file = NULL;
    lmc_status status = begin(&call, run_dir, NULL, &options, NULL, diag);
    if (status == LMC_OK)
        status = st_run_open_tensor(run_dir, step, name, &call.call.options, file, index, call.call.diag);
    return st_call_end(&call.call, status);
}
