/*
 * steps.c - the steps of a run, as a program sees them.
 */
#include "safetensors/run/run_options.h"
#include "safetensors/run/session.h"

const char *lmc_run_event_name(lmc_run_event event)
{
    static const char *const names[] = {"added", "already there", "re-based", "dropped", "verified"};
    return (size_t)event < sizeof names / sizeof names[0] ? names[event] : NULL;
}

struct lmc_run {
    lmc_allocator memory;
    st_run_list list;
};

static lmc_status read_run(lmc_run *run, const char *run_dir, st_call *call)
{
    st_run_session session;
    const lmc_status status = st_run_begin(&session, run_dir, ST_RUN_READ, &call->options, call->diag);
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
    st_call call;
    *run = NULL;
    lmc_status status = st_call_begin(&call, run_dir, NULL, diag);
    if (allocator)
        call.options.allocator = allocator;
    if (status == LMC_OK) {
        const lmc_allocator *const memory = call.options.allocator;
        lmc_run *const opened = st_allocate_zeroed(memory, 1, sizeof *opened);
        if (opened)
            opened->memory = *memory;
        status = opened ? read_run(opened, run_dir, &call) : st_fail_nomem(call.diag);
        if (status == LMC_OK)
            *run = opened;
        else
            st_release(memory, opened);
    }
    return st_call_end(&call, status);
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

int lmc_run_find_step(const lmc_run *run, uint64_t step, uint64_t *index)
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

lmc_status lmc_run_repair(const char *run_dir, const lmc_st_options *options, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin_plain(&call, run_dir, options, diag);
    if (status == LMC_OK) {
        st_run_session session;
        status = st_run_begin(&session, run_dir, ST_RUN_REPAIR, &call.options, call.diag);
        st_run_end(&session, status);
    }
    return st_call_end(&call, status);
}
