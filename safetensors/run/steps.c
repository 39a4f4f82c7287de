/*
 * steps.c - the steps of a run, as a program sees them.
 */
#include "safetensors/run/run_options.h"
#include "safetensors/store/session.h"

const char *lmc_run_event_name(lmc_run_event event)
{
    static const char *const names[] = {"added", "already there", "re-based", "dropped", "verified"};
    return (size_t)event < sizeof names / sizeof names[0] ? names[event] : NULL;
}

struct lmc_run {
    lmc_allocator memory;
    unsigned key_every;
    lmc_run_step *steps; /* by rising step */
    size_t count;
};

static lmc_status read_run(lmc_run *run, const char *run_dir, st_call *call)
{
    st_store_session session;
    lmc_status status =
        st_store_begin(&session, run_dir, ST_STORE_OF_STEPS, ST_STORE_READ, &call->options, call->diag);
    if (status == LMC_OK) {
        run->key_every = session.key_every;
        run->count = session.models.count;
        run->steps = st_allocate_array(&run->memory, run->count, sizeof *run->steps);
        status = run->steps ? LMC_OK : st_fail_nomem(call->diag);
    }
    for (size_t i = 0; i < run->count && status == LMC_OK; i++)
        run->steps[i] = st_run_step_of(&session.models.list[i]);
    st_store_end(&session, status);
    return status;
}

lmc_status lmc_run_open(const char *run_dir, const lmc_allocator *allocator, lmc_run **run, lmc_st_diag *diag)
{
    st_call call;
    *run = NULL;
    lmc_status status = st_call_begin(&call, run_dir, NULL, diag);
    if (status == LMC_OK)
        status = st_call_set_allocator(&call, allocator);
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
    st_release(&memory, run->steps);
    st_release(&memory, run);
}

uint64_t lmc_run_step_count(const lmc_run *run)
{
    return run->count;
}

lmc_status lmc_run_step_info(const lmc_run *run, uint64_t index, lmc_run_step *step)
{
    const lmc_run_step none = LMC_INIT(lmc_run_step);
    if (!lmc_struct_is_known(step, sizeof *step))
        return LMC_ERR_ARG;
    const int is_there = index < run->count;
    lmc_struct_copy(step, is_there ? &run->steps[index] : &none, lmc_struct_size(step));
    return is_there ? LMC_OK : LMC_ERR_ARG;
}

int lmc_run_find_step(const lmc_run *run, uint64_t step, uint64_t *index)
{
    size_t begin = 0;
    size_t end = run->count;
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        if (run->steps[middle].step < step)
            begin = middle + 1;
        else
            end = middle;
    }
    if (begin == run->count || run->steps[begin].step != step)
        return 0;
    *index = begin;
    return 1;
}

unsigned lmc_run_key_every(const lmc_run *run)
{
    return run->key_every;
}

lmc_status lmc_run_repair(const char *run_dir, const lmc_st_options *options, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin_plain(&call, run_dir, options, diag);
    if (status == LMC_OK) {
        st_store_session session;
        status =
            st_store_begin(&session, run_dir, ST_STORE_OF_STEPS, ST_STORE_REPAIR, &call.options, call.diag);
        st_store_end(&session, status);
    }
    return st_call_end(&call, status);
}
