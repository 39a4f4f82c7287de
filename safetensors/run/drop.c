/*
 * drop.c - steps are removed: those that the caller names, or all that a rule does not keep.
 */
#include "safetensors/run/place.h"
#include "safetensors/run/rebase.h"
#include "safetensors/run/run.h"

/* Which steps go, of the open run: sets plan->goes. */
typedef struct selection {
    const uint64_t *steps; /* NULL: by the rule */
    size_t step_count;
    uint64_t last, every;
} selection;

static lmc_status select_named(const selection *selection, const st_run *run, st_rebase_plan *plan)
{
    for (size_t i = 0; i < selection->step_count; i++) {
        const lmc_st_run_step *found = NULL;
        ST_TRY(st_run_find_step(run, selection->steps[i], &found));
        plan->goes[found - run->list.steps] = 1;
    }
    return LMC_OK;
}

static void select_by_rule(const selection *selection, const st_run *run, st_rebase_plan *plan)
{
    const uint64_t last = selection->last > 0 ? selection->last : 1; /* the newest stays */
    for (size_t i = 0; i < run->list.count; i++) {
        const int is_new = run->list.count - i <= last;
        const int is_divided = selection->every > 0 && run->list.steps[i].step % selection->every == 0;
        plan->goes[i] = !is_new && !is_divided;
    }
}

static void tell_dropped(const st_run *run, const lmc_st_run_options *run_options,
                         const lmc_st_run_step *steps, size_t count)
{
    for (size_t i = 0; i < count && run_options->step_done; i++)
        run_options->step_done(run->options->user, LMC_ST_RUN_DROPPED, &steps[i]);
}

/* Removes the steps that go; nothing is based on them any more. */
static lmc_status remove_steps(st_run *run, const st_rebase_plan *plan, const lmc_st_run_options *run_options)
{
    const lmc_allocator *const memory = run->options->allocator;
    lmc_st_run_step *const gone = st_allocate_array(memory, plan->count, sizeof *gone);
    uint64_t *const steps = st_allocate_array(memory, plan->count, sizeof *steps);
    lmc_status status = gone && steps ? LMC_OK : st_fail_nomem(run->diag);
    size_t count = 0;
    for (size_t i = 0; i < plan->count && status == LMC_OK; i++) {
        if (!plan->goes[i])
            continue;
        gone[count] = run->list.steps[i];
        steps[count++] = run->list.steps[i].step;
    }
    if (status == LMC_OK && count > 0 && !run_options->dry_run)
        status = st_run_remove(run, steps, count);
    if (status == LMC_OK)
        tell_dropped(run, run_options, gone, count);
    st_release(memory, steps);
    st_release(memory, gone);
    return status;
}

static lmc_status drop_selected(st_run *run, const selection *selection,
                                const lmc_st_run_options *run_options)
{
    st_rebase_plan plan;
    lmc_status status = st_rebase_plan_init(&plan, run);
    if (status == LMC_OK && selection->steps)
        status = select_named(selection, run, &plan);
    else if (status == LMC_OK)
        select_by_rule(selection, run, &plan);
    if (status == LMC_OK)
        status = st_rebase_plan_make(&plan, run);
    if (status == LMC_OK && run_options->dry_run)
        st_rebase_tell(&plan, run, run_options);
    else if (status == LMC_OK)
        status = st_rebase_do(&plan, run, run_options, run->options);
    if (status == LMC_OK)
        status = remove_steps(run, &plan, run_options);
    st_rebase_plan_free(&plan);
    return status;
}

static lmc_status drop(const char *path, const selection *selection, const lmc_st_run_options *run_options,
                       const lmc_st_options *options, lmc_st_diag *diag)
{
    st_run run;
    lmc_status status =
        st_run_begin(&run, path, run_options->dry_run ? ST_RUN_READ : ST_RUN_WRITE, options, diag);
    if (status == LMC_OK)
        status = drop_selected(&run, selection, run_options);
    st_run_end(&run, status);
    return status;
}

lmc_status st_run_drop(const char *path, const uint64_t *steps, size_t step_count,
                       const lmc_st_run_options *run_options, const lmc_st_options *options,
                       lmc_st_diag *diag)
{
    const selection selection = {.steps = steps, .step_count = step_count};
    if (step_count == 0)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "no step is named that is to be dropped");
    return drop(path, &selection, run_options, options, diag);
}

lmc_status st_run_keep(const char *path, uint64_t last, uint64_t every, const lmc_st_run_options *run_options,
                       const lmc_st_options *options, lmc_st_diag *diag)
{
    const selection selection = {.last = last, .every = every};
    if (last == 0 && every == 0)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "nothing says which steps are to be kept");
    return drop(path, &selection, run_options, options, diag);
}
