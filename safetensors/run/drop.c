/*
 * drop.c - steps are removed: those that the caller names, or all that a rule does not keep. Steps whose base goes are
 * stored again on another one first.
 */
#include "safetensors/run/drop.h"

#include "safetensors/os/folder.h"
#include "safetensors/restore/damage.h"
#include "safetensors/run/describe.h"
#include "safetensors/run/place.h"
#include "safetensors/run/run_options.h"

#include <string.h>

/* A step that is stored again is read and written this often. */
#define PASSES 3

lmc_status st_rebase_plan_init(st_rebase_plan *plan, const st_run_session *run)
{
    const lmc_allocator *const memory = run->options->allocator;
    const size_t count = run->list.count;
    *plan = (st_rebase_plan){.memory = memory, .count = count};
    plan->goes = st_allocate_zeroed(memory, count, 1);
    plan->is_rebased = st_allocate_zeroed(memory, count, 1);
    plan->base = st_allocate_zeroed(memory, count, sizeof *plan->base);
    return plan->goes && plan->is_rebased && plan->base ? LMC_OK : st_fail_nomem(run->diag);
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

/* The chains before and after, of each step. */
typedef struct chains {
    size_t *key;      /* the key frame at the end of its chain */
    uint64_t *length; /* as it will be */
} chains;

static lmc_status plan_step(st_rebase_plan *plan, const st_run_session *run, const chains *chains,
                            size_t index)
{
    const lmc_run_step *const step = &run->list.steps[index];
    chains->key[index] = index;
    chains->length[index] = 0;
    if (step->chain == LMC_RUN_UNKNOWN && plan->goes[index])
        return LMC_OK;
    if (step->chain == LMC_RUN_UNKNOWN) {
        st_diag_set_file(run->diag, run->path);
        return st_fail(
            run->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
            "the base of step %llu was not found in the run, and no step is removed until it is, or until "
            "this step is dropped: run verify says what is missing",
            (unsigned long long)step->step);
    }
    if (!step->has_base)
        return LMC_OK;
    const size_t base = (size_t)(st_run_list_find(&run->list, step->base) - run->list.steps);
    const size_t key = chains->key[base];
    chains->key[index] = key;
    chains->length[index] = chains->length[base] + 1;
    if (plan->goes[index] || !plan->goes[base])
        return LMC_OK;
    /* it must be stored again: on the nearest earlier step that stays, if there is one */
    const uint64_t allowed = run->list.key_every - 1;
    const uint64_t most = step->chain > allowed ? step->chain : allowed;
    plan->is_rebased[index] = 1;
    plan->base[index] = SIZE_MAX;
    chains->length[index] = 0;
    for (size_t i = index; i > key && plan->base[index] == SIZE_MAX; i--) {
        const size_t other = i - 1;
        if (plan->goes[other] || chains->key[other] != key || chains->length[other] + 1 > most)
            continue;
        plan->base[index] = other;
        chains->length[index] = chains->length[other] + 1;
    }
    return LMC_OK;
}

lmc_status st_rebase_plan_make(st_rebase_plan *plan, st_run_session *run)
{
    /* Bases are earlier steps: any step behind one that goes may need it, whatever the list says, and so its archives
     * are asked. What they do not tell, because they are damaged or their base is nowhere in the run, is not known.
     * What the list cannot tell is looked up, too. The first step that stays and has no base in the run settles it:
     * none may go (plan_step()). */
    int is_behind = 0;
    int is_settled = 0;
    for (size_t i = 0; i < plan->count && !is_settled; i++) {
        lmc_run_step *const step = &run->list.steps[i];
        if (step->chain == LMC_RUN_UNKNOWN || (!plan->goes[i] && is_behind)) {
            lmc_run_step found;
            const int has_known = step->has_base && step->base < step->step;
            const lmc_status described =
                st_run_describe_step(run, step->step, has_known ? step->base : LMC_RUN_UNKNOWN, &found);
            if (described != LMC_OK && !st_is_damage(described))
                return described;
            step->has_base = described != LMC_OK || found.has_base;
            step->base = described != LMC_OK ? LMC_RUN_UNKNOWN : found.base;
        }
        is_settled = !plan->goes[i] && step->has_base && step->base == LMC_RUN_UNKNOWN;
        is_behind |= plan->goes[i];
    }
    st_run_list_set_chains(&run->list);
    const chains chains = {st_allocate_zeroed(plan->memory, plan->count, sizeof *chains.key),
                           st_allocate_zeroed(plan->memory, plan->count, sizeof *chains.length)};
    lmc_status status = chains.key && chains.length ? LMC_OK : st_fail_nomem(run->diag);
    for (size_t i = 0; i < plan->count && status == LMC_OK; i++)
        status = plan_step(plan, run, &chains, i);
    st_release(plan->memory, chains.key);
    st_release(plan->memory, chains.length);
    return status;
}

/* ---- the work ---- */

/* The old folder goes for what was written last: that is read back and compared before. */
static lmc_status store_again(st_run_session *run, const lmc_run_step *old, const lmc_run_step *base,
                              const char *plain, st_parts *parts, const st_options *options)
{
    lmc_st_result result = {0};
    lmc_run_step step = *old;
    st_parts_begin(parts, old->original_nbytes);
    LMC_TRY(st_run_restore_step(run, old, plain, options, &result));
    st_parts_end(parts);
    st_parts_begin(parts, old->original_nbytes);
    LMC_TRY(st_run_stage(run, plain, base, options, &step, NULL));
    st_parts_end(parts);
    st_parts_begin(parts, old->original_nbytes);
    char *const staged = st_run_path(run, ST_RUN_STAGED);
    char *const base_dir = base ? st_run_step_path(run, base->step) : NULL;
    lmc_status status = staged && (base_dir || !base) ? LMC_OK : st_fail_nomem(run->diag);
    st_options own = *options;
    own.base_dirs = (const char *const *)&base_dir;
    own.base_dir_count = base ? 1 : 0;
    if (status == LMC_OK)
        status = st_run_compare_step(run, &step, staged, plain, &own);
    st_release(run->options->allocator, base_dir);
    st_release(run->options->allocator, staged);
    if (status == LMC_OK)
        status = st_run_put(run, &step);
    if (status == LMC_OK)
        st_parts_end(parts);
    return status;
}

static lmc_status rebase_step(st_run_session *run, uint64_t number, const lmc_run_step *base,
                              const st_run_options *run_options, st_parts *parts, const st_options *options)
{
    const lmc_allocator *const memory = run->options->allocator;
    const lmc_run_step old = *st_run_list_find(&run->list, number);
    char *const folder = st_run_step_path(run, number);
    char *const room = st_run_path(run, ST_RUN_PLAIN);
    char *archive = NULL;
    char *plain = NULL;
    lmc_status status = folder && room ? LMC_OK : st_fail_nomem(run->diag);
    if (status == LMC_OK && !old.is_directory)
        status = st_run_find_archive(memory, folder, &archive, run->diag);
    if (status == LMC_OK) {
        plain = archive ? lmc_path_join(memory, room, lmc_last_component(archive), "")
                        : st_duplicate(memory, room);
        status = plain ? LMC_OK : st_fail_nomem(run->diag);
    }
    if (status == LMC_OK &&
        archive) { /* a file keeps its name, for which the plain one has a folder of its own */
        plain[strlen(plain) - strlen(LMC_ARCHIVE_SUFFIX)] = '\0';
        if (os_folder_create_in(run->fd, ST_RUN_PLAIN) != 0)
            status = st_fail(run->diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "cannot create a folder in the run");
    }
    if (status == LMC_OK)
        status = store_again(run, &old, base, plain, parts, options);
    st_release(memory, plain);
    st_release(memory, archive);
    st_release(memory, room);
    st_release(memory, folder);
    if (status == LMC_OK) {
        status = st_run_clear(run, ST_RUN_PLAIN);
    } else {
        lmc_st_diag first = *run->diag;
        (void)!st_run_clear(run, ST_RUN_PLAIN);
        (void)!st_run_clear(run, ST_RUN_STAGED);
        *run->diag = first;
    }
    if (status == LMC_OK && run_options->step_done)
        run_options->step_done(run->options->user, LMC_RUN_REBASED, st_run_list_find(&run->list, number));
    return status;
}

lmc_status st_rebase_do(const st_rebase_plan *plan, st_run_session *run, const st_run_options *run_options,
                        const st_options *options)
{
    st_parts parts = {.options = options};
    st_options inner = st_parts_options(&parts);
    lmc_status status = LMC_OK;
    inner.file_done = NULL;
    inner.warning = NULL;
    for (size_t i = 0; i < plan->count; i++)
        parts.total_nbytes += plan->is_rebased[i] ? PASSES * run->list.steps[i].original_nbytes : 0;
    for (size_t i = 0; i < plan->count && status == LMC_OK; i++) {
        if (!plan->is_rebased[i])
            continue;
        lmc_run_step step = run->list.steps[i]; /* as it will be */
        step.has_base = plan->base[i] != SIZE_MAX;
        const lmc_run_step base = step.has_base ? run->list.steps[plan->base[i]] : step;
        step.base = step.has_base ? base.step : 0;
        if (!run_options->dry_run)
            status = rebase_step(run, step.step, step.has_base ? &base : NULL, run_options, &parts, &inner);
        else if (run_options->step_done)
            run_options->step_done(run->options->user, LMC_RUN_REBASED, &step);
    }
    return status;
}

/* ---- the calls ---- */

/* Which steps go, of the open run: sets plan->goes. */
typedef struct selection {
    const uint64_t *steps; /* NULL: by the rule */
    size_t step_count;
    uint64_t last, every;
} selection;

/* Removes the steps that go; nothing is based on them any more. */
static lmc_status remove_steps(st_run_session *run, const st_rebase_plan *plan,
                               const st_run_options *run_options)
{
    const lmc_allocator *const memory = run->options->allocator;
    lmc_run_step *const gone = st_allocate_array(memory, plan->count, sizeof *gone);
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
    for (size_t i = 0; i < count && status == LMC_OK && run_options->step_done; i++)
        run_options->step_done(run->options->user, LMC_RUN_DROPPED, &gone[i]);
    st_release(memory, steps);
    st_release(memory, gone);
    return status;
}

static lmc_status drop(const char *path, const selection *selection, const st_run_options *run_options,
                       const st_options *options, lmc_st_diag *diag)
{
    st_run_session run;
    st_rebase_plan plan = {0};
    const uint64_t last = selection->last > 0 ? selection->last : 1; /* the newest stays */
    lmc_status status =
        st_run_begin(&run, path, run_options->dry_run ? ST_RUN_READ : ST_RUN_WRITE, options, diag);
    if (status == LMC_OK)
        status = st_rebase_plan_init(&plan, &run);
    for (size_t i = 0; i < selection->step_count && status == LMC_OK; i++) {
        const lmc_run_step *found = NULL;
        status = st_run_find_step(&run, selection->steps[i], &found);
        if (status == LMC_OK)
            plan.goes[found - run.list.steps] = 1;
    }
    for (size_t i = 0; i < plan.count && status == LMC_OK && !selection->steps; i++) {
        const int is_new = plan.count - i <= last;
        const int is_divided = selection->every > 0 && run.list.steps[i].step % selection->every == 0;
        plan.goes[i] = !is_new && !is_divided;
    }
    if (status == LMC_OK)
        status = st_rebase_plan_make(&plan, &run);
    if (status == LMC_OK)
        status = st_rebase_do(&plan, &run, run_options, options);
    if (status == LMC_OK)
        status = remove_steps(&run, &plan, run_options);
    st_rebase_plan_free(&plan);
    st_run_end(&run, status);
    return status;
}

lmc_status lmc_run_drop(const char *run_dir, const uint64_t *steps, size_t step_count,
                        const lmc_run_drop_options *options, lmc_st_diag *diag)
{
    st_run_call call;
    const selection selection = {.steps = steps, .step_count = step_count};
    lmc_status status = st_run_call_begin_drop(&call, run_dir, options, diag);
    if (status == LMC_OK && step_count == 0)
        status =
            st_fail(call.call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "no step is named that is to be dropped");
    if (status == LMC_OK)
        status = drop(run_dir, &selection, &call.options, &call.call.options, call.call.diag);
    return st_call_end(&call.call, status);
}

lmc_status lmc_run_keep(const char *run_dir, uint64_t last, uint64_t every,
                        const lmc_run_drop_options *options, lmc_st_diag *diag)
{
    st_run_call call;
    const selection selection = {.last = last, .every = every};
    lmc_status status = st_run_call_begin_drop(&call, run_dir, options, diag);
    if (status == LMC_OK && last == 0 && every == 0)
        status =
            st_fail(call.call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "nothing says which steps are to be kept");
    if (status == LMC_OK)
        status = drop(run_dir, &selection, &call.options, &call.call.options, call.call.diag);
    return st_call_end(&call.call, status);
}
