/*
 * read.c - steps are restored, verified, compared; a tensor of a step is found.
 */
#include "safetensors/base/content.h"
#include "safetensors/base/open.h"
#include "safetensors/common/names.h"
#include "safetensors/common/parts.h"
#include "safetensors/common/text.h"
#include "safetensors/restore/damage.h"
#include "safetensors/run/place.h"
#include "safetensors/run/run.h"
#include "safetensors/tree/check.h"

#include <string.h>

/* ---- restore and compare ---- */

lmc_status st_run_restore(const char *path, uint64_t step, const char *out_path,
                          const lmc_st_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    st_run run;
    const lmc_st_run_step *found = NULL;
    lmc_status status = st_run_begin(&run, path, ST_RUN_READ, options, diag);
    if (status == LMC_OK)
        status = st_run_find_step(&run, step, &found);
    if (status == LMC_OK)
        status = st_run_restore_step(&run, found, out_path, options, result);
    st_run_end(&run, status);
    return status;
}

lmc_status st_run_compare(const char *path, uint64_t step, const char *snapshot,
                          const lmc_st_options *options, lmc_st_diag *diag)
{
    st_run run;
    const lmc_st_run_step *found = NULL;
    char *folder = NULL;
    lmc_status status = st_run_begin(&run, path, ST_RUN_READ, options, diag);
    if (status == LMC_OK)
        status = st_run_find_step(&run, step, &found);
    if (status == LMC_OK) {
        folder = st_run_step_path(&run, step);
        status = folder ? st_run_compare_step(&run, found, folder, snapshot, options) : st_fail_nomem(diag);
    }
    st_release(options->allocator, folder);
    st_run_end(&run, status);
    return status;
}

/* ---- verify ---- */

static lmc_status verify_step(const st_run *run, const lmc_st_run_step *step, const lmc_st_options *options,
                              lmc_st_result *result)
{
    lmc_st_result one = {0};
    char *const folder = st_run_step_path(run, step->step);
    if (!folder)
        return st_fail_nomem(run->diag);
    st_diag_init(run->diag, folder);
    const lmc_status status = st_tree_verify(folder, options, &one, run->diag);
    st_release(run->options->allocator, folder);
    result->file_count += one.file_count;
    result->file_nbytes += one.file_nbytes;
    result->stored_nbytes += one.stored_nbytes;
    result->tensor_count += one.tensor_count;
    result->damaged_count += one.damaged_count;
    result->is_archive |= one.is_archive;
    return status;
}

/* A fault of one step does not keep the others from being verified; the first is the call's. */
static lmc_status verify_steps(const st_run *run, const lmc_st_run_step *steps, size_t count,
                               const lmc_st_run_options *run_options, lmc_st_result *result)
{
    st_parts parts = {.options = run->options};
    const lmc_st_options inner = st_parts_options(&parts);
    lmc_st_diag first = *run->diag;
    lmc_status worst = LMC_OK;
    for (size_t i = 0; i < count; i++)
        parts.total_nbytes += steps[i].file_nbytes;
    for (size_t i = 0; i < count; i++) {
        st_parts_begin(&parts, steps[i].file_nbytes);
        const lmc_status status = verify_step(run, &steps[i], &inner, result);
        st_parts_end(&parts);
        /* ARG: a folder that is named as a step has no archives */
        if (status != LMC_OK && !st_is_damage(status) && status != LMC_ERR_HEADER && status != LMC_ERR_ARG)
            return status;
        if (status != LMC_OK && worst == LMC_OK)
            first = *run->diag;
        worst = worst == LMC_OK ? status : worst;
        if (status == LMC_OK && run_options->step_done)
            run_options->step_done(run->options->user, LMC_ST_RUN_VERIFIED, &steps[i]);
    }
    if (worst != LMC_OK)
        *run->diag = first;
    return worst;
}

static lmc_status verify_named(const st_run *run, const uint64_t *steps, size_t step_count,
                               const lmc_st_run_options *run_options, lmc_st_result *result)
{
    const lmc_allocator *const memory = run->options->allocator;
    lmc_st_run_step *const list = st_allocate_array(memory, step_count, sizeof *list);
    lmc_status status = list ? LMC_OK : st_fail_nomem(run->diag);
    for (size_t i = 0; i < step_count && status == LMC_OK; i++) {
        const lmc_st_run_step *found = NULL;
        status = st_run_find_step(run, steps[i], &found);
        if (status == LMC_OK)
            list[i] = *found;
    }
    if (status == LMC_OK)
        status = verify_steps(run, list, step_count, run_options, result);
    st_release(memory, list);
    return status;
}

lmc_status st_run_verify(const char *path, const uint64_t *steps, size_t step_count,
                         const lmc_st_run_options *run_options, const lmc_st_options *options,
                         lmc_st_result *result, lmc_st_diag *diag)
{
    st_run run;
    lmc_status status = st_run_begin(&run, path, ST_RUN_READ, options, diag);
    if (status == LMC_OK)
        status = step_count > 0 ? verify_named(&run, steps, step_count, run_options, result)
                                : verify_steps(&run, run.list.steps, run.list.count, run_options, result);
    st_run_end(&run, status);
    return status;
}

/* ---- a tensor ---- */

typedef struct tensor_search {
    const char *folder; /* of the step */
    const char *name;
    const lmc_allocator *memory;
    char *path; /* of the archive that has it; NULL: none yet */
    size_t found_count;
    int has_memory;
} tensor_search;

/* The part of the operand that is the name of a tensor of this file: all of it, or what follows "FILE:". Returns 1 if
 * the file has it. */
static int find_in_file(const tensor_search *search, const lmc_st_file *file, uint64_t *index)
{
    const char *const path = file->path + strlen(search->folder) + 1;
    const size_t nbytes = strlen(path) - strlen(ST_ARCHIVE_SUFFIX);
    const char *name = search->name;
    if (lmc_st_find(file, name, strlen(name), index))
        return 1;
    if (strncmp(name, path, nbytes) != 0 || name[nbytes] != ':')
        return 0;
    name += nbytes + 1;
    return lmc_st_find(file, name, strlen(name), index);
}

static int look_at_file(void *user, const lmc_st_file *file)
{
    tensor_search *const search = user;
    uint64_t index = 0;
    if (!find_in_file(search, file, &index))
        return 0;
    search->found_count++;
    if (search->found_count == 1)
        search->path = st_duplicate(search->memory, file->path);
    search->has_memory = search->path != NULL;
    return !search->has_memory;
}

static lmc_status fail_search(const tensor_search *search, lmc_st_diag *diag)
{
    char shown[160];
    st_diag_set_file(diag, search->folder);
    if (!search->has_memory)
        return st_fail_nomem(diag);
    st_text_escape(shown, sizeof shown, search->name, strlen(search->name));
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                   search->found_count == 0 ? "there is no tensor \"%s\""
                                            : "several files have a tensor \"%s\": FILE:NAME names one",
                   shown);
}

static lmc_status open_found(const tensor_search *search, const lmc_st_options *options, lmc_st_file **file,
                             uint64_t *index, lmc_st_diag *diag)
{
    st_diag_set_file(diag, search->path);
    ST_TRY(st_file_open_input(search->path, options, file, diag));
    lmc_status status = st_content_open_files(*file, diag);
    if (status == LMC_OK && !find_in_file(search, *file, index))
        status = st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "has changed while it was read");
    if (status == LMC_OK)
        return LMC_OK;
    lmc_st_close(*file);
    *file = NULL;
    return status;
}

static lmc_status find_tensor(tensor_search *search, const lmc_st_options *options, lmc_st_file **file,
                              uint64_t *index, lmc_st_diag *diag)
{
    lmc_status status = st_tree_visit(search->folder, options, look_at_file, search, diag);
    if (status == LMC_OK)
        status = search->found_count == 1 && search->has_memory
                     ? open_found(search, options, file, index, diag)
                     : fail_search(search, diag);
    st_release(search->memory, search->path);
    return status;
}

lmc_status st_run_open_tensor(const char *path, uint64_t step, const char *name,
                              const lmc_st_options *options, lmc_st_file **file, uint64_t *index,
                              lmc_st_diag *diag)
{
    st_run run;
    const lmc_st_run_step *found = NULL;
    lmc_status status = st_run_begin(&run, path, ST_RUN_READ, options, diag);
    if (status == LMC_OK)
        status = st_run_find_step(&run, step, &found);
    if (status == LMC_OK) {
        char *const folder = st_run_step_path(&run, step);
        tensor_search search = {
            .folder = folder, .name = name, .memory = options->allocator, .has_memory = 1};
        status = folder ? find_tensor(&search, options, file, index, diag) : st_fail_nomem(diag);
        st_release(options->allocator, folder);
    }
    st_run_end(&run, status);
    return status;
}
