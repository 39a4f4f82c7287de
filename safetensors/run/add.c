/*
 * add.c - a snapshot becomes a step: on the newest step, or as a key frame.
 */
#include "safetensors/run/run_options.h"

#include "safetensors/restore/damage.h"
#include "safetensors/run/describe.h"
#include "safetensors/run/drop.h"
#include "safetensors/run/place.h"

#include <errno.h>
#include <string.h>

/* A delta whose ratio is above this share of its key frame's does not pay: the step after it is a key frame. */
#define PAYING_SHARE 0.9375

typedef struct addition {
    st_run_session *run;
    const char *snapshot;
    const st_run_options *run_options;
    st_options options; /* the caller's */
    lmc_run_step step;  /* as it will be */
    lmc_run_event event;
} addition;

/* ---- the base ---- */

static double ratio_of(const lmc_run_step *step)
{
    return step->original_nbytes == 0 ? 1 : (double)step->stored_nbytes / (double)step->original_nbytes;
}

/* The newest step but this one, if it can be the base, and if deltas pay; else NULL. */
static const lmc_run_step *choose_base(const addition *addition)
{
    const st_run_list *const list = &addition->run->list;
    size_t count = list->count;
    if (count > 0 && list->steps[count - 1].step == addition->step.step)
        count--; /* it is replaced */
    const lmc_run_step *const newest = count == 0 ? NULL : &list->steps[count - 1];
    if (!newest || newest->step >= addition->step.step || newest->chain == LMC_RUN_UNKNOWN ||
        newest->chain + 1 >= list->key_every || newest->is_directory != addition->step.is_directory)
        return NULL;
    const lmc_run_step *key = newest;
    while (key->has_base)
        key = st_run_list_find(list, key->base);
    return key == newest || ratio_of(newest) < PAYING_SHARE * ratio_of(key) ? newest : NULL;
}

/* Writes the archives without a base, and replaces what is there. */
static lmc_status stage_key_frame(addition *addition)
{
    st_options quiet = addition->options;
    quiet.progress = NULL;
    quiet.file_done = NULL;
    quiet.warning = NULL;
    LMC_TRY(st_run_clear(addition->run, ST_RUN_STAGED));
    return st_run_stage(addition->run, addition->snapshot, NULL, &quiet, &addition->step, NULL);
}

/* Writes the archives; once more without the base if that may be at fault (damaged, at the end of a full chain, of a
 * name that cannot be recorded), or if files, names, dtypes and shapes are others than its own. */
static lmc_status stage(addition *addition)
{
    const st_run_session *const run = addition->run;
    lmc_run_step unused;
    uint64_t schema = 0;
    uint64_t base_schema = 0;
    const lmc_run_step *const base = choose_base(addition);
    lmc_status status =
        st_run_stage(run, addition->snapshot, base, &addition->options, &addition->step, &schema);
    if (base && (st_is_damage(status) || status == LMC_ERR_ARG))
        return stage_key_frame(addition);
    if (status != LMC_OK || !base || !addition->step.has_base)
        return status;
    char *const path = st_run_step_path(run, base->step);
    const st_run_folder folder = {.run = run->true_path, .path = path, .step = base->step};
    status = path ? st_run_describe(&folder, run->options, &unused, &base_schema, run->diag)
                  : st_fail_nomem(run->diag);
    st_release(run->options->allocator, path);
    if (status != LMC_OK)
        return status;
    return schema == base_schema && addition->step.base == base->step ? LMC_OK : stage_key_frame(addition);
}

/* ---- a step that is there ---- */

/* *is_equal: it has the content of the snapshot. */
static lmc_status compare_present(const addition *addition, const lmc_run_step *present, int *is_equal)
{
    const st_run_session *const run = addition->run;
    st_options quiet = addition->options;
    quiet.progress = NULL;
    char *const folder = st_run_step_path(run, present->step);
    if (!folder)
        return st_fail_nomem(run->diag);
    const lmc_status status = st_run_compare_step(run, present, folder, addition->snapshot, &quiet);
    st_release(run->options->allocator, folder);
    *is_equal = status == LMC_OK;
    if (addition->options.force && st_is_damage(status)) { /* other content, or damage: it goes */
        st_diag_init(run->diag, addition->snapshot);
        return LMC_OK;
    }
    if (status != LMC_ERR_CHECKSUM)
        return status;
    st_diag_init(run->diag, addition->snapshot);
    st_fail(run->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "step %llu is in the run with other content",
            (unsigned long long)present->step);
    run->diag->os_errno = EEXIST;
    return LMC_ERR_ARG;
}

static lmc_status add_snapshot(addition *addition)
{
    st_run_session *const run = addition->run;
    const st_run_options *const run_options = addition->run_options;
    const unsigned old_key_every = run->list.key_every;
    const int is_held = os_is_within(run->options->allocator, addition->snapshot, run->path);
    const int holds = os_is_within(run->options->allocator, run->path, addition->snapshot);
    int is_equal = 0;
    if (is_held < 0 || holds < 0)
        return st_fail_nomem(run->diag);
    if (is_held || holds) {
        st_diag_set_file(run->diag, addition->snapshot);
        return st_fail(run->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "%s",
                       is_held ? "is in the run already" : "holds the run that it is to be added to");
    }
    if (run_options->key_every > 0)
        run->list.key_every = run_options->key_every; /* saved with the step */
    const lmc_run_step *const present = st_run_list_find(&run->list, addition->step.step);
    if (present)
        LMC_TRY(compare_present(addition, present, &is_equal));
    if (is_equal) { /* nothing changes but what the caller says of key frames */
        addition->step = *present;
        addition->event = LMC_RUN_PRESENT;
        return run->list.key_every == old_key_every || run_options->dry_run ? LMC_OK : st_run_save(run);
    }
    if (present) { /* what is based on the content that goes is stored again */
        st_rebase_plan plan;
        st_options quiet = addition->options;
        quiet.progress = NULL;
        lmc_status status = st_rebase_plan_init(&plan, run);
        if (status == LMC_OK) {
            plan.goes[present - run->list.steps] = 1;
            status = st_rebase_plan_make(&plan, run);
        }
        if (status == LMC_OK)
            status = st_rebase_do(&plan, run, run_options, &quiet);
        st_rebase_plan_free(&plan);
        LMC_TRY(status);
    }
    if (run_options->dry_run) {
        const lmc_run_step *const base = choose_base(addition);
        addition->step.has_base = base != NULL;
        addition->step.base = base ? base->step : 0;
        addition->step.chain = base ? base->chain + 1 : 0;
        return LMC_OK;
    }
    LMC_TRY(stage(addition));
    LMC_TRY(st_run_put(run, &addition->step));
    addition->step = *st_run_list_find(&run->list, addition->step.step);
    return LMC_OK;
}

static lmc_status add(const char *path, const char *snapshot, const st_run_options *run_options,
                      const st_options *options, lmc_run_step *added, lmc_st_diag *diag)
{
    st_run_session run = {.path = path, .fd = -1, .lock_fd = -1};
    addition addition = {.run = &run,
                         .snapshot = snapshot,
                         .run_options = run_options,
                         .options = *options,
                         .step = LMC_INIT(lmc_run_step),
                         .event = LMC_RUN_ADDED};
    lmc_run_step *const step = &addition.step;
    if (run_options->key_every > LMC_RUN_KEY_EVERY_MAX)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "key_every is not 1 to %d",
                       LMC_RUN_KEY_EVERY_MAX);
    st_diag_set_file(diag, snapshot);
    step->is_directory = lmc_is_directory(snapshot);
    if (!step->is_directory) { /* nothing is made for a snapshot that is not there, or is none */
        os_input input;
        LMC_TRY(os_input_open(&input, snapshot, diag));
        os_input_close(&input);
    }
    step->step = run_options->step;
    if (run_options->has_step && step->step > LMC_RUN_STEP_MAX)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the step is above 2^63");
    if (!run_options->has_step && !lmc_run_step_of_name(snapshot, &step->step))
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "its name tells no step, or one above 2^63: the step must be given");
    if (!run_options->dry_run ||
        lmc_is_directory(path)) { /* without a run, a dry run has nothing to look at */
        lmc_status status = st_run_begin(&run, path, run_options->dry_run ? ST_RUN_PLAN : ST_RUN_CREATE,
                                         &addition.options, diag);
        if (status == LMC_OK)
            status = add_snapshot(&addition);
        if (status != LMC_OK && run.lock_fd >= 0) {
            const lmc_st_diag first = *diag;
            (void)!st_run_clear(&run, ST_RUN_STAGED);
            *diag = first;
        }
        st_run_end(&run, status);
        LMC_TRY(status);
    }
    *added = *step;
    if (run_options->step_done)
        run_options->step_done(options->user, addition.event, step);
    return LMC_OK;
}

lmc_status lmc_run_add(const char *run_dir, const char *snapshot, const lmc_run_add_options *options,
                       lmc_run_step *added, lmc_st_diag *diag)
{
    st_run_call call;
    lmc_run_step own;
    lmc_status status = st_run_call_begin_add(&call, run_dir, options, diag);
    if (status == LMC_OK && added && !lmc_struct_is_known(added, sizeof *added))
        status = st_fail(call.call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                         "the step is not initialised, or of a newer version");
    if (status == LMC_OK)
        status = add(run_dir, snapshot, &call.options, &call.call.options, &own, call.call.diag);
    if (status == LMC_OK && added)
        lmc_struct_copy(added, &own, lmc_struct_size(added));
    return st_call_end(&call.call, status);
}
