/*
 * run_calls.c - lmc_run.h: the calls that work on whole steps. The engine is that of stores (store/request.h), which
 * knows a step by its name.
 */
#include "safetensors/run/run_options.h"

typedef struct step_name {
    char text[ST_STEP_NAME_NBYTES];
} step_name;

/* The names of steps, and pointers to them; to be released. NULL: out of memory. */
static const char **name_steps(const lmc_allocator *memory, const uint64_t *steps, size_t count)
{
    const size_t pointers_nbytes = count * sizeof(char *);
    unsigned char *const room = st_allocate(memory, pointers_nbytes + count * sizeof(step_name) + 1);
    const char **const names = (const char **)(void *)room;
    step_name *const texts = (step_name *)(void *)(room ? room + pointers_nbytes : NULL);
    for (size_t i = 0; i < count && room; i++) {
        st_step_name(texts[i].text, steps[i]);
        names[i] = texts[i].text;
    }
    return names;
}

lmc_status lmc_run_add(const char *run_dir, const char *snapshot, const lmc_run_add_options *options,
                       lmc_run_step *added, lmc_st_diag *diag)
{
    st_run_call call;
    st_model model = {0};
    step_name name = {{0}};
    lmc_status status = st_run_call_begin_add(&call, run_dir, options, diag);
    lmc_st_diag *const own = call.call.diag;
    if (status == LMC_OK && added && !lmc_struct_is_known(added, sizeof *added))
        status =
            st_fail(own, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the step is not initialised, or of a newer version");
    if (status == LMC_OK && call.request.key_every > LMC_RUN_KEY_EVERY_MAX)
        status =
            st_fail(own, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "key_every is not 1 to %d", LMC_RUN_KEY_EVERY_MAX);
    if (status == LMC_OK)
        st_diag_set_file(own, snapshot);
    if (status == LMC_OK && call.has_step && call.step > LMC_RUN_STEP_MAX)
        status = st_fail(own, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the step is above 2^63");
    if (status == LMC_OK && !call.has_step && !lmc_run_step_of_name(snapshot, &call.step))
        status = st_fail(own, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                         "its name has no step number, or one above 2^63: give the step");
    if (status == LMC_OK) {
        st_step_name(name.text, call.step);
        status = st_store_add(run_dir, snapshot, name.text, &call.request, &call.call.options, &model, own);
    }
    if (added && lmc_struct_is_known(added, sizeof *added)) {
        const lmc_run_step none = LMC_INIT(lmc_run_step);
        const lmc_run_step step = status == LMC_OK ? st_run_step_of(&model) : none;
        lmc_struct_copy(added, &step, lmc_struct_size(added));
    }
    st_model_free(&model, call.call.options.allocator);
    return st_call_end(&call.call, status);
}

lmc_status lmc_run_drop(const char *run_dir, const uint64_t *steps, size_t step_count,
                        const lmc_run_drop_options *options, lmc_st_diag *diag)
{
    st_run_call call;
    const st_keep_rule no_rule = {0};
    const char **names = NULL;
    lmc_status status = st_run_call_begin_drop(&call, run_dir, options, diag);
    if (status == LMC_OK && step_count == 0)
        status =
            st_fail(call.call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "no step is named that is to be dropped");
    if (status == LMC_OK) {
        names = name_steps(call.call.options.allocator, steps, step_count);
        status = names ? LMC_OK : st_fail_nomem(call.call.diag);
    }
    if (status == LMC_OK)
        status = st_store_drop(run_dir, names, step_count, &no_rule, &call.request, &call.call.options,
                               call.call.diag);
    st_release(call.call.options.allocator, names);
    return st_call_end(&call.call, status);
}

lmc_status lmc_run_keep(const char *run_dir, uint64_t last, uint64_t every,
                        const lmc_run_drop_options *options, lmc_st_diag *diag)
{
    st_run_call call;
    const st_keep_rule rule = {.last = last, .every = every};
    lmc_status status = st_run_call_begin_drop(&call, run_dir, options, diag);
    if (status == LMC_OK && last == 0 && every == 0)
        status = st_fail(call.call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "neither last nor every is set");
    if (status == LMC_OK)
        status = st_store_drop(run_dir, NULL, 0, &rule, &call.request, &call.call.options, call.call.diag);
    return st_call_end(&call.call, status);
}

lmc_status lmc_run_restore(const char *run_dir, uint64_t step, const char *out_path,
                           const lmc_run_restore_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    st_run_call call;
    step_name name;
    lmc_status status = st_run_call_begin_restore(&call, run_dir, options, result, diag);
    st_step_name(name.text, step);
    if (status == LMC_OK)
        status = st_store_restore(run_dir, name.text, out_path, &call.request, &call.call.options,
                                  call.call.result, call.call.diag);
    return st_call_end(&call.call, status);
}

lmc_status lmc_run_compare(const char *run_dir, uint64_t step, const char *snapshot,
                           const lmc_st_options *options, lmc_st_diag *diag)
{
    st_call call;
    step_name name;
    const st_store_request request = st_run_request();
    lmc_status status = st_call_begin_plain(&call, run_dir, options, diag);
    st_step_name(name.text, step);
    if (status == LMC_OK)
        status = st_store_compare(run_dir, name.text, snapshot, &request, &call.options, call.diag);
    return st_call_end(&call, status);
}

lmc_status lmc_run_verify(const char *run_dir, const uint64_t *steps, size_t step_count,
                          const lmc_run_verify_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    st_run_call call;
    const char **names = NULL;
    lmc_status status = st_run_call_begin_verify(&call, run_dir, options, result, diag);
    if (status == LMC_OK) {
        names = name_steps(call.call.options.allocator, steps, step_count);
        status = names ? LMC_OK : st_fail_nomem(call.call.diag);
    }
    if (status == LMC_OK)
        status = st_store_verify(run_dir, names, step_count, &call.request, &call.call.options,
                                 call.call.result, call.call.diag);
    st_release(call.call.options.allocator, names);
    return st_call_end(&call.call, status);
}

lmc_status lmc_run_open_tensor(const char *run_dir, uint64_t step, const char *tensor,
                               const lmc_allocator *allocator, lmc_st_file **file, uint64_t *index,
                               lmc_st_diag *diag)
{
    st_call call;
    step_name name;
    const st_store_request request = st_run_request();
    *file = NULL;
    lmc_status status = st_call_begin(&call, run_dir, NULL, diag);
    if (status == LMC_OK)
        status = st_call_set_allocator(&call, allocator);
    st_step_name(name.text, step);
    if (status == LMC_OK)
        status =
            st_store_open_tensor(run_dir, name.text, tensor, &request, &call.options, file, index, call.diag);
    return st_call_end(&call, status);
}
