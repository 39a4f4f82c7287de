/*
 * run_json.c - store/run_json.h.
 */
#include "safetensors/store/run_json.h"

#include "safetensors/base/folders.h"
#include "safetensors/base/run_list.h"
#include "safetensors/files/directories.h"

#include <stdio.h>
#include <string.h>

/* The longest entry of run.json, and what stands around the entries. */
#define ENTRY_NBYTES 256
#define FRAME_NBYTES 128

/* Moves an entry into the list. Returns 0 if memory ran out. */
static int put_step(st_models *models, const lmc_run_step *step)
{
    char name[ST_STEP_NAME_NBYTES];
    const int is_known = step->has_base && step->base < step->step;
    st_step_name(name, step->step);
    st_model model = {.name = st_duplicate(models->memory, name),
                      .step = step->step,
                      .is_directory = step->is_directory,
                      .has_unknown_base = step->has_base && !is_known,
                      .file_count = step->file_count,
                      .original_nbytes = step->original_nbytes,
                      .stored_nbytes = step->stored_nbytes,
                      .time_s = step->time_s};
    st_step_name(name, step->base);
    if (model.name && (!is_known || st_model_add_base(&model, name, 0, models->memory)))
        return st_models_put(models, &model);
    st_model_free(&model, models->memory);
    return 0;
}

lmc_status st_run_json_read(st_models *models, unsigned *key_every, const char *run, lmc_st_diag *diag)
{
    st_run_list list;
    lmc_status status = st_run_list_read(&list, models->memory, run, diag);
    for (size_t i = 0; i < list.count && status == LMC_OK; i++)
        if (!put_step(models, &list.steps[i]))
            status = st_fail_nomem(diag);
    *key_every = list.key_every;
    st_run_list_free(&list);
    if (status == LMC_OK)
        st_models_set_depths(models);
    return status;
}

lmc_status st_run_json_write(const st_models *models, unsigned key_every, const char *run,
                             const st_options *given, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = given->allocator;
    st_options options = *given;
    st_output output;
    char *const path = lmc_path_join(memory, run, LMC_RUN_LIST, "");
    char *const text = st_allocate(memory, FRAME_NBYTES + models->count * ENTRY_NBYTES);
    const st_place place = st_place_of(path);
    lmc_status status = path && text ? LMC_OK : st_fail_nomem(diag);
    options.force = 1;
    if (status == LMC_OK)
        status = st_output_open(&output, &options, &place, NULL, 0, diag);
    if (status == LMC_OK) {
        size_t at =
            (size_t)snprintf(text, FRAME_NBYTES,
                             "{\"format\":\"" LMC_RUN_FORMAT "\",\"version\":%d,\"key_every\":%u,\"steps\":[",
                             LMC_RUN_VERSION, key_every);
        for (size_t i = 0; i < models->count; i++) {
            const st_model *const step = &models->list[i];
            const char *const base = step->has_unknown_base ? "\"unknown\""
                                     : step->base_count > 0 ? step->bases[0].name
                                                            : "null";
            at += (size_t)snprintf(
                text + at, ENTRY_NBYTES,
                "%s\n{\"step\":%s,\"snapshot\":\"%s\",\"files\":%llu,\"nbytes\":%llu,\"stored_nbytes\":%"
                "llu,"
                "\"base\":%s,\"time\":%lld}",
                i == 0 ? "" : ",", step->name, step->is_directory ? "directory" : "file",
                (unsigned long long)step->file_count, (unsigned long long)step->original_nbytes,
                (unsigned long long)step->stored_nbytes, base,
                step->time_s > 0 ? (long long)step->time_s : 0);
        }
        at += (size_t)snprintf(text + at, 8, "\n]}\n");
        status = st_output_write(&output, 0, text, at, diag);
        status = st_output_close(&output, &options, status, diag);
    }
    st_release(memory, text);
    st_release(memory, path);
    return status;
}
