/*
 * add.c - a snapshot becomes a step: on the newest step, or as a key frame.
 */
#include "safetensors/run/run.h"

#include "safetensors/restore/damage.h"
#include "safetensors/run/describe.h"
#include "safetensors/run/place.h"
#include "safetensors/run/rebase.h"

#include <errno.h>
#include <string.h>

/* A delta whose ratio is above this share of its key frame's does not pay: the step after it is a key frame. */
#define PAYING_SHARE 0.9375

typedef struct addition {
    st_run *run;
    const char *snapshot;
    const lmc_st_run_options *run_options;
    lmc_st_options options; /* the caller's */
    lmc_st_run_step step;   /* as it will be */
    lmc_st_run_event event;
} addition;

/* ---- what is refused ---- */

static lmc_status refuse(const st_run *run, const char *path, const char *text)
{
    st_diag_set_file(run->diag, path);
    return st_fail(run->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "%s", text);
}

static lmc_status check_places(const addition *addition)
{
    const st_run *const run = addition->run;
    const char *const snapshot = addition->snapshot;
    const lmc_allocator *const memory = run->options->allocator;
    const int is_held = os_is_within(memory, snapshot, run->path);
    const int holds = os_is_within(memory, run->path, snapshot);
    if (is_held < 0 || holds < 0)
        return st_fail_nomem(run->diag);
    if (is_held)
        return refuse(run, snapshot, "is in the run already");
    return holds ? refuse(run, snapshot, "holds the run that it is to be added to") : LMC_OK;
}

/* Nothing is made for a snapshot that is not there, or is no snapshot. */
static lmc_status look_at_snapshot(const char *snapshot, lmc_st_diag *diag)
{
    os_input input;
    st_diag_set_file(diag, snapshot);
    if (os_is_directory(snapshot))
        return LMC_OK;
    ST_TRY(os_input_open(&input, snapshot, diag));
    os_input_close(&input);
    return LMC_OK;
}

static lmc_status find_step(const char *snapshot, const lmc_st_run_options *run_options, uint64_t *step,
                            lmc_st_diag *diag)
{
    st_diag_set_file(diag, snapshot);
    *step = run_options->step;
    if (run_options->has_step && *step > LMC_ST_RUN_STEP_MAX)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the step is above 2^63");
    if (run_options->has_step || lmc_st_run_step_of_name(snapshot, step))
        return LMC_OK;
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                   "its name tells no step, or one above 2^63: the step must be given");
}

/* ---- the base ---- */

static double ratio_of(const lmc_st_run_step *step)
{
    return step->file_nbytes == 0 ? 1 : (double)step->stored_nbytes / (double)step->file_nbytes;
}

static int is_paying(const st_run_list *list, const lmc_st_run_step *step)
{
    const lmc_st_run_step *key = step;
    while (key->has_base)
        key = st_run_list_find(list, key->base);
    return key == step || ratio_of(step) < PAYING_SHARE * ratio_of(key);
}

/* The newest step but this one, if it can be the base; else NULL. */
static const lmc_st_run_step *choose_base(const addition *addition)
{
    const st_run_list *const list = &addition->run->list;
    size_t count = list->count;
    if (count > 0 && list->steps[count - 1].step == addition->step.step)
        count--; /* it is replaced */
    const lmc_st_run_step *const newest = count == 0 ? NULL : &list->steps[count - 1];
    return newest && newest->step < addition->step.step && newest->chain != LMC_ST_RUN_UNKNOWN &&
                   newest->chain + 1 < list->key_every &&
                   newest->is_directory == addition->step.is_directory && is_paying(list, newest)
               ? newest
               : NULL;
}

/* *is_same: the staged step has the files, names, dtypes and shapes of the base. */
static lmc_status compare_schema(const addition *addition, const lmc_st_run_step *base, uint64_t schema,
                                 int *is_same)
{
    const st_run *const run = addition->run;
    lmc_st_run_step unused;
    uint64_t base_schema = 0;
    char *const path = st_run_step_path(run, base->step);
    if (!path)
        return st_fail_nomem(run->diag);
    const st_run_folder folder = {.run = run->true_path, .path = path, .step = base->step};
    const lmc_status status = st_run_describe(&folder, run->options, &unused, &base_schema, run->diag);
    st_release(run->options->allocator, path);
    *is_same = schema == base_schema;
    return status;
}

/* Writes the archives without a base, in the place of what is there. */
static lmc_status stage_key_frame(addition *addition)
{
    lmc_st_options quiet = addition->options;
    quiet.progress = NULL;
    quiet.file_done = NULL;
    quiet.warning = NULL;
    ST_TRY(st_run_clear(addition->run, ST_RUN_STAGED));
    return st_run_stage(addition->run, addition->snapshot, NULL, &quiet, &addition->step, NULL);
}

/* 1 if the base may be at fault: damaged, at the end of a full chain, of a name that cannot be recorded. */
static int is_fault_of_base(lmc_status status)
{
    return st_is_damage(status) || status == LMC_ERR_ARG;
}

/* Writes the archives; once more without the base if that is no good, or if names or shapes are others than its own. */
static lmc_status stage(addition *addition)
{
    uint64_t schema = 0;
    int is_same = 0;
    const lmc_st_run_step *const base = choose_base(addition);
    const lmc_status status =
        st_run_stage(addition->run, addition->snapshot, base, &addition->options, &addition->step, &schema);
    if (base && is_fault_of_base(status))
        return stage_key_frame(addition);
    if (status != LMC_OK || !base || !addition->step.has_base)
        return status;
    ST_TRY(compare_schema(addition, base, schema, &is_same));
    return is_same && addition->step.base == base->step ? LMC_OK : stage_key_frame(addition);
}

/* ---- a step that is there ---- */

/* *is_equal: it has the content of the snapshot. */
static lmc_status compare_present(const addition *addition, const lmc_st_run_step *present, int *is_equal)
{
    const st_run *const run = addition->run;
    lmc_st_options quiet = addition->options;
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

/* What is based on the content that goes is stored anew. */
static lmc_status make_room(addition *addition, const lmc_st_run_step *present)
{
    st_rebase_plan plan;
    st_run *const run = addition->run;
    lmc_st_options quiet = addition->options;
    quiet.progress = NULL;
    lmc_status status = st_rebase_plan_init(&plan, run);
    if (status == LMC_OK) {
        plan.goes[present - run->list.steps] = 1;
        status = st_rebase_plan_make(&plan, run);
    }
    if (status == LMC_OK && addition->run_options->dry_run)
        st_rebase_tell(&plan, run, addition->run_options);
    else if (status == LMC_OK)
        status = st_rebase_do(&plan, run, addition->run_options, &quiet);
    st_rebase_plan_free(&plan);
    return status;
}

/* ---- all of it ---- */

static void describe_plan(addition *addition)
{
    const lmc_st_run_step *const base = choose_base(addition);
    addition->step.has_base = base != NULL;
    addition->step.base = base ? base->step : 0;
    addition->step.chain = base ? base->chain + 1 : 0;
}

/* A snapshot that is there already changes nothing but what the caller says of key frames. */
static lmc_status finish_present(addition *addition, const lmc_st_run_step *present, unsigned old_key_every)
{
    addition->step = *present;
    addition->event = LMC_ST_RUN_PRESENT;
    return addition->run->list.key_every == old_key_every || addition->run_options->dry_run
               ? LMC_OK
               : st_run_save(addition->run);
}

static lmc_status add_snapshot(addition *addition)
{
    st_run *const run = addition->run;
    int is_equal = 0;
    const unsigned old_key_every = run->list.key_every;
    ST_TRY(check_places(addition));
    if (addition->run_options->key_every > 0)
        run->list.key_every = addition->run_options->key_every; /* saved with the step */
    const lmc_st_run_step *const present = st_run_list_find(&run->list, addition->step.step);
    if (present)
        ST_TRY(compare_present(addition, present, &is_equal));
    if (is_equal)
        return finish_present(addition, present, old_key_every);
    if (present)
        ST_TRY(make_room(addition, present));
    if (addition->run_options->dry_run) {
        describe_plan(addition);
        return LMC_OK;
    }
    ST_TRY(stage(addition));
    ST_TRY(st_run_put(run, &addition->step));
    addition->step = *st_run_list_find(&run->list, addition->step.step);
    return LMC_OK;
}

/* Without a run, a dry run has nothing to look at. */
static int is_missing_run(const lmc_st_run_options *run_options, const char *path)
{
    return run_options->dry_run && !os_is_directory(path);
}

static lmc_status add_to_run(addition *addition, const char *path, lmc_st_diag *diag)
{
    st_run run = {.path = path, .fd = -1, .lock_fd = -1};
    lmc_status status = LMC_OK;
    addition->run = &run;
    if (is_missing_run(addition->run_options, path))
        return LMC_OK;
    status = st_run_begin(&run, path, addition->run_options->dry_run ? ST_RUN_PLAN : ST_RUN_CREATE,
                          &addition->options, diag);
    if (status == LMC_OK)
        status = add_snapshot(addition);
    if (status != LMC_OK && run.lock_fd >= 0) {
        const lmc_st_diag first = *diag;
        (void)!st_run_clear(&run, ST_RUN_STAGED);
        *diag = first;
    }
    st_run_end(&run, status);
    return status;
}

lmc_status st_run_add(const char *path, const char *snapshot, const lmc_st_run_options *run_options,
                      const lmc_st_options *options, lmc_st_run_step *added, lmc_st_diag *diag)
{
    addition addition = {.snapshot = snapshot,
                         .run_options = run_options,
                         .options = *options,
                         .step = LMC_INIT(lmc_st_run_step),
                         .event = LMC_ST_RUN_ADDED};
    if (run_options->key_every > LMC_ST_RUN_KEY_EVERY_MAX)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "key_every is not 1 to %d",
                       LMC_ST_RUN_KEY_EVERY_MAX);
    ST_TRY(look_at_snapshot(snapshot, diag));
    ST_TRY(find_step(snapshot, run_options, &addition.step.step, diag));
    addition.step.is_directory = os_is_directory(snapshot);
    ST_TRY(add_to_run(&addition, path, diag));
    *added = addition.step;
    if (run_options->step_done)
        run_options->step_done(options->user, addition.event, &addition.step);
    return LMC_OK;
}
