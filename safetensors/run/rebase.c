/*
 * rebase.c - run/rebase.h: the choice of new bases, and the way of a step from one base to another.
 */
#include "safetensors/run/rebase.h"

#include "safetensors/common/names.h"
#include "safetensors/os/folder.h"
#include "safetensors/restore/damage.h"
#include "safetensors/run/describe.h"
#include "safetensors/run/place.h"

#include <string.h>

/* A step that is stored anew is read and written this often. */
#define PASSES 3

lmc_status st_rebase_plan_init(st_rebase_plan *plan, const st_run *run)
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

static size_t number_of(const st_run_list *list, const lmc_st_run_step *step)
{
    return (size_t)(step - list->steps);
}

/* Chooses the base of a step that must be stored anew. */
static void choose_base(st_rebase_plan *plan, const st_run *run, const chains *chains, size_t index)
{
    const lmc_st_run_step *const step = &run->list.steps[index];
    const uint64_t allowed = run->list.key_every - 1;
    const uint64_t most = step->chain > allowed ? step->chain : allowed;
    plan->is_rebased[index] = 1;
    plan->base[index] = SIZE_MAX;
    chains->length[index] = 0;
    for (size_t i = index; i > chains->key[index]; i--) {
        const size_t other = i - 1;
        if (plan->goes[other] || chains->key[other] != chains->key[index] || chains->length[other] + 1 > most)
            continue;
        plan->base[index] = other;
        chains->length[index] = chains->length[other] + 1;
        return;
    }
}

static lmc_status plan_step(st_rebase_plan *plan, const st_run *run, const chains *chains, size_t index)
{
    const lmc_st_run_step *const step = &run->list.steps[index];
    chains->key[index] = index;
    chains->length[index] = 0;
    if (step->chain == LMC_ST_RUN_UNKNOWN && plan->goes[index])
        return LMC_OK;
    if (step->chain == LMC_ST_RUN_UNKNOWN) {
        st_diag_set_file(run->diag, run->path);
        return st_fail(run->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "step %llu needs a base that is not in the run: verify it, and drop it first",
                       (unsigned long long)step->step);
    }
    if (!step->has_base)
        return LMC_OK;
    const size_t base = number_of(&run->list, st_run_list_find(&run->list, step->base));
    chains->key[index] = chains->key[base];
    chains->length[index] = chains->length[base] + 1;
    if (!plan->goes[index] && plan->goes[base])
        choose_base(plan, run, chains, index);
    return LMC_OK;
}

/* Puts the base of a step right in the list. What its archives do not tell stays as the list has it. */
static lmc_status confirm_base(st_run *run, lmc_st_run_step *step)
{
    lmc_st_run_step found;
    char *const path = st_run_step_path(run, step->step);
    if (!path)
        return st_fail_nomem(run->diag);
    const st_run_folder folder = {.run = run->true_path, .path = path, .step = step->step};
    const lmc_status status = st_run_describe(&folder, run->options, &found, NULL, run->diag);
    st_release(run->options->allocator, path);
    if (status != LMC_OK && !st_is_damage(status))
        return status;
    if (status == LMC_OK && (!found.has_base || found.base != LMC_ST_RUN_UNKNOWN)) {
        step->has_base = found.has_base;
        step->base = found.base;
    }
    return LMC_OK;
}

/* A base is found by its content among so many steps before: only steps as near behind one that goes can need it
 * without the list's saying so. What the list cannot tell is looked up, too. */
static lmc_status confirm_bases(const st_rebase_plan *plan, st_run *run)
{
    size_t left = 0;
    for (size_t i = 0; i < plan->count; i++) {
        lmc_st_run_step *const step = &run->list.steps[i];
        if (step->chain == LMC_ST_RUN_UNKNOWN || (!plan->goes[i] && left > 0))
            ST_TRY(confirm_base(run, step));
        left = plan->goes[i] ? ST_NEIGHBOURS_MAX : left - (left > 0);
    }
    st_run_list_set_chains(&run->list);
    return LMC_OK;
}

lmc_status st_rebase_plan_make(st_rebase_plan *plan, st_run *run)
{
    ST_TRY(confirm_bases(plan, run));
    const chains chains = {st_allocate_zeroed(plan->memory, plan->count, sizeof *chains.key),
                           st_allocate_zeroed(plan->memory, plan->count, sizeof *chains.length)};
    lmc_status status = chains.key && chains.length ? LMC_OK : st_fail_nomem(run->diag);
    for (size_t i = 0; i < plan->count && status == LMC_OK; i++)
        status = plan_step(plan, run, &chains, i);
    st_release(plan->memory, chains.key);
    st_release(plan->memory, chains.length);
    return status;
}

/* The entry of a step as the plan will have it, without sizes. */
static lmc_st_run_step planned(const st_rebase_plan *plan, const st_run *run, size_t index)
{
    lmc_st_run_step step = run->list.steps[index];
    step.has_base = plan->base[index] != SIZE_MAX;
    step.base = step.has_base ? run->list.steps[plan->base[index]].step : 0;
    return step;
}

void st_rebase_tell(const st_rebase_plan *plan, const st_run *run, const lmc_st_run_options *run_options)
{
    for (size_t i = 0; i < plan->count && run_options->step_done; i++) {
        const lmc_st_run_step step = planned(plan, run, i);
        if (plan->is_rebased[i])
            run_options->step_done(run->options->user, LMC_ST_RUN_REBASED, &step);
    }
}

/* ---- the work ---- */

/* A file keeps its name, for which the plain one has a folder of its own. */
static lmc_status plain_path(const st_run *run, const lmc_st_run_step *step, char **path)
{
    const lmc_allocator *const memory = run->options->allocator;
    char *const folder = st_run_step_path(run, step->step);
    char *const plain = st_run_path(run, ST_RUN_PLAIN);
    char *archive = NULL;
    lmc_status status = folder && plain ? LMC_OK : st_fail_nomem(run->diag);
    if (status == LMC_OK && !step->is_directory)
        status = st_run_find_archive(memory, folder, &archive, run->diag);
    if (status == LMC_OK) {
        *path = archive ? os_path_join(memory, plain, strrchr(archive, '/') + 1, "")
                        : st_duplicate(memory, plain);
        status = *path ? LMC_OK : st_fail_nomem(run->diag);
    }
    if (status == LMC_OK && archive) {
        (*path)[strlen(*path) - strlen(ST_ARCHIVE_SUFFIX)] = '\0';
        if (os_folder_create_in(run->fd, ST_RUN_PLAIN) != 0)
            status = st_fail(run->diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "cannot create a folder in the run");
    }
    st_release(memory, archive);
    st_release(memory, plain);
    st_release(memory, folder);
    return status;
}

/* The old folder goes for what was written last: that is read back and compared before. */
static lmc_status store_anew(st_run *run, const lmc_st_run_step *old, const lmc_st_run_step *base,
                             const char *plain, st_parts *parts, const lmc_st_options *options)
{
    lmc_st_result result = {0};
    lmc_st_run_step step = *old;
    st_parts_begin(parts, old->file_nbytes);
    ST_TRY(st_run_restore_step(run, old, plain, options, &result));
    st_parts_end(parts);
    st_parts_begin(parts, old->file_nbytes);
    ST_TRY(st_run_stage(run, plain, base, options, &step, NULL));
    st_parts_end(parts);
    st_parts_begin(parts, old->file_nbytes);
    char *const staged = st_run_path(run, ST_RUN_STAGED);
    char *const base_dir = base ? st_run_step_path(run, base->step) : NULL;
    lmc_status status = staged && (base_dir || !base) ? LMC_OK : st_fail_nomem(run->diag);
    lmc_st_options own = *options;
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

static lmc_status rebase_step(st_run *run, uint64_t number, const lmc_st_run_step *base,
                              const lmc_st_run_options *run_options, st_parts *parts,
                              const lmc_st_options *options)
{
    char *plain = NULL;
    const lmc_st_run_step old = *st_run_list_find(&run->list, number);
    lmc_status status = plain_path(run, &old, &plain);
    if (status == LMC_OK)
        status = store_anew(run, &old, base, plain, parts, options);
    st_release(run->options->allocator, plain);
    if (status == LMC_OK) {
        status = st_run_clear(run, ST_RUN_PLAIN);
    } else {
        lmc_st_diag first = *run->diag;
        (void)!st_run_clear(run, ST_RUN_PLAIN);
        (void)!st_run_clear(run, ST_RUN_STAGED);
        *run->diag = first;
    }
    if (status == LMC_OK && run_options->step_done)
        run_options->step_done(run->options->user, LMC_ST_RUN_REBASED, st_run_list_find(&run->list, number));
    return status;
}

lmc_status st_rebase_do(const st_rebase_plan *plan, st_run *run, const lmc_st_run_options *run_options,
                        const lmc_st_options *options)
{
    st_parts parts = {.options = options};
    lmc_st_options inner = st_parts_options(&parts);
    lmc_status status = LMC_OK;
    inner.file_done = NULL;
    inner.warning = NULL;
    for (size_t i = 0; i < plan->count; i++)
        parts.total_nbytes += plan->is_rebased[i] ? PASSES * run->list.steps[i].file_nbytes : 0;
    for (size_t i = 0; i < plan->count && status == LMC_OK; i++) {
        if (!plan->is_rebased[i])
            continue;
        const lmc_st_run_step step = planned(plan, run, i);
        const lmc_st_run_step base = plan->base[i] == SIZE_MAX ? step : run->list.steps[plan->base[i]];
        status = rebase_step(run, step.step, step.has_base ? &base : NULL, run_options, &parts, &inner);
    }
    return status;
}
