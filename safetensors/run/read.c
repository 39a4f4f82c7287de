/*
 * read.c - steps are restored, verified, compared; a tensor of a step is found.
 */
#include "common/text.h"
#include "safetensors/base/content.h"
#include "safetensors/base/search.h"
#include "safetensors/common/parts.h"
#include "safetensors/restore/damage.h"
#include "safetensors/run/place.h"
#include "safetensors/run/run_options.h"
#include "safetensors/tree/check.h"
#include "safetensors/tree/copied.h"

#include <string.h>

/* ---- restore and compare ---- */

static lmc_status restore(const char *path, uint64_t step, const char *out_path, const st_options *options,
                          lmc_st_result *result, lmc_st_diag *diag)
{
    st_run_session run;
    const lmc_run_step *found = NULL;
    lmc_status status = st_run_begin(&run, path, ST_RUN_READ, options, diag);
    if (status == LMC_OK)
        status = st_run_find_step(&run, step, &found);
    /* what is not of the run has no place in it: the name could be that of a step, or of a base */
    const int is_within = status == LMC_OK ? os_is_within(options->allocator, out_path, run.path) : 0;
    if (is_within < 0) {
        status = st_fail_nomem(diag);
    } else if (is_within) {
        st_diag_set_file(diag, out_path);
        status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output would be in the run");
    }
    if (status == LMC_OK)
        status = st_run_restore_step(&run, found, out_path, options, result);
    st_run_end(&run, status);
    return status;
}

lmc_status lmc_run_restore(const char *run_dir, uint64_t step, const char *out_path,
                           const lmc_run_restore_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    st_run_call call;
    lmc_status status = st_run_call_begin_restore(&call, run_dir, options, result, diag);
    if (status == LMC_OK)
        status = restore(run_dir, step, out_path, &call.call.options, call.call.result, call.call.diag);
    return st_call_end(&call.call, status);
}

static lmc_status compare(const char *path, uint64_t step, const char *snapshot, const st_options *options,
                          lmc_st_diag *diag)
{
    st_run_session run;
    const lmc_run_step *found = NULL;
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

lmc_status lmc_run_compare(const char *run_dir, uint64_t step, const char *snapshot,
                           const lmc_st_options *options, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin_plain(&call, run_dir, options, diag);
    if (status == LMC_OK)
        status = compare(run_dir, step, snapshot, &call.options, call.diag);
    return st_call_end(&call, status);
}

/* ---- verify ---- */

static lmc_status verify_step(const st_run_session *run, const lmc_run_step *step, const st_options *options,
                              lmc_st_result *result)
{
    lmc_st_result one = {0};
    char *const folder = st_run_step_path(run, step->step);
    if (!folder)
        return st_fail_nomem(run->diag);
    st_diag_init(run->diag, folder);
    lmc_status status = st_tree_verify(folder, options, &one, run->diag);
    const int is_refused = status == LMC_ERR_ARG; /* it has no archives, or something that no snapshot has */
    const int is_sound = status == LMC_OK;
    if (is_refused)
        run->diag->status = status = LMC_ERR_CORRUPT;
    /* it has as many files and bytes as the list tells: a file that is missing needs no other to be missed */
    os_tree tree = {0};
    uint64_t file_count = 0;
    uint64_t stored_nbytes = 0;
    if (is_sound)
        status = os_tree_read(&tree, run->options->allocator, folder, run->diag);
    for (size_t i = 0; i < tree.count && status == LMC_OK; i++) {
        const os_entry *const entry = &tree.entries[i];
        const int is_counted = !entry->is_directory && !st_copied_is_list(entry);
        file_count += (uint64_t)is_counted;
        stored_nbytes += is_counted ? entry->nbytes : 0;
    }
    os_tree_free(&tree);
    if (status == LMC_OK && (file_count != step->file_count || stored_nbytes != step->stored_nbytes))
        status = st_fail(run->diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                         "has %llu files of %llu bytes, but had %llu of %llu as " ST_RUN_LIST_NAME " tells",
                         (unsigned long long)file_count, (unsigned long long)stored_nbytes,
                         (unsigned long long)step->file_count, (unsigned long long)step->stored_nbytes);
    if ((is_refused || (is_sound && status == LMC_ERR_CORRUPT)) && options->damage)
        options->damage(options->user, run->diag);
    st_release(run->options->allocator, folder);
    result->file_count += one.file_count;
    result->original_nbytes += one.original_nbytes;
    result->stored_nbytes += one.stored_nbytes;
    result->tensor_count += one.tensor_count;
    result->damaged_count += one.damaged_count;
    result->is_archive |= one.is_archive;
    return status;
}

/* A fault of one step does not keep the others from being verified; the first is the call's. */
static lmc_status verify_steps(const st_run_session *run, const lmc_run_step *steps, size_t count,
                               const st_run_options *run_options, lmc_st_result *result)
{
    st_parts parts = {.options = run->options};
    const st_options inner = st_parts_options(&parts);
    lmc_st_diag first = *run->diag;
    lmc_status worst = LMC_OK;
    for (size_t i = 0; i < count; i++)
        parts.total_nbytes += steps[i].original_nbytes;
    for (size_t i = 0; i < count; i++) {
        st_parts_begin(&parts, steps[i].original_nbytes);
        const lmc_status status = verify_step(run, &steps[i], &inner, result);
        st_parts_end(&parts);
        if (status != LMC_OK && !st_is_damage(status) && status != LMC_ERR_HEADER)
            return status;
        if (status != LMC_OK && worst == LMC_OK)
            first = *run->diag;
        worst = worst == LMC_OK ? status : worst;
        if (status == LMC_OK && run_options->step_done)
            run_options->step_done(run->options->user, LMC_RUN_VERIFIED, &steps[i]);
    }
    if (worst != LMC_OK)
        *run->diag = first;
    return worst;
}

static lmc_status verify(const char *path, const uint64_t *steps, size_t step_count,
                         const st_run_options *run_options, const st_options *options, lmc_st_result *result,
                         lmc_st_diag *diag)
{
    st_run_session run;
    lmc_status status = st_run_begin(&run, path, ST_RUN_READ, options, diag);
    lmc_run_step *const named = st_allocate_array(options->allocator, step_count, sizeof *named);
    if (status == LMC_OK && !named)
        status = st_fail_nomem(diag);
    for (size_t i = 0; i < step_count && status == LMC_OK; i++) {
        const lmc_run_step *found = NULL;
        status = st_run_find_step(&run, steps[i], &found);
        if (status == LMC_OK)
            named[i] = *found;
    }
    if (status == LMC_OK)
        status = step_count > 0 ? verify_steps(&run, named, step_count, run_options, result)
                                : verify_steps(&run, run.list.steps, run.list.count, run_options, result);
    st_release(options->allocator, named);
    st_run_end(&run, status);
    return status;
}

lmc_status lmc_run_verify(const char *run_dir, const uint64_t *steps, size_t step_count,
                          const lmc_run_verify_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    st_run_call call;
    lmc_status status = st_run_call_begin_verify(&call, run_dir, options, result, diag);
    if (status == LMC_OK)
        status = verify(run_dir, steps, step_count, &call.options, &call.call.options, call.call.result,
                        call.call.diag);
    return st_call_end(&call.call, status);
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
    const size_t nbytes = strlen(path) - strlen(LMC_ARCHIVE_SUFFIX);
    const char *name = search->name;
    if (lmc_st_find_tensor_sized(file, name, strlen(name), index))
        return 1;
    if (strncmp(name, path, nbytes) != 0 || name[nbytes] != ':')
        return 0;
    name += nbytes + 1;
    return lmc_st_find_tensor_sized(file, name, strlen(name), index);
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
    lmc_text_escape(shown, sizeof shown, search->name, strlen(search->name));
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                   search->found_count == 0 ? "there is no tensor \"%s\""
                                            : "several files have a tensor \"%s\": FILE:NAME names one",
                   shown);
}

/* Takes the file that "FILE:NAME" names, whatever is in the others. Returns 0 if there is none. */
static int find_named_file(tensor_search *search)
{
    st_release(search->memory, search->path);
    search->path = NULL;
    search->found_count = 0;
    for (const char *at = strchr(search->name, ':'); at && search->found_count == 0;
         at = strchr(at + 1, ':')) {
        char *const path = lmc_path_join(search->memory, search->folder, search->name, LMC_ARCHIVE_SUFFIX);
        if (!path)
            return 0;
        memcpy(path + strlen(search->folder) + 1 + (at - search->name), LMC_ARCHIVE_SUFFIX,
               sizeof LMC_ARCHIVE_SUFFIX);
        search->found_count = (size_t)lmc_is_file(path);
        if (search->found_count == 1)
            search->path = path;
        else
            st_release(search->memory, path);
    }
    return search->found_count == 1;
}

static lmc_status open_tensor(const char *path, uint64_t step, const char *name, const st_options *options,
                              lmc_st_file **file, uint64_t *index, lmc_st_diag *diag)
{
    st_run_session run;
    const lmc_run_step *found = NULL;
    *file = NULL;
    lmc_status status = st_run_begin(&run, path, ST_RUN_READ, options, diag);
    if (status == LMC_OK)
        status = st_run_find_step(&run, step, &found);
    char *const folder = status == LMC_OK ? st_run_step_path(&run, step) : NULL;
    tensor_search search = {.folder = folder, .name = name, .memory = options->allocator, .has_memory = 1};
    if (status == LMC_OK)
        status = folder ? st_tree_visit(folder, options, look_at_file, &search, diag) : st_fail_nomem(diag);
    /* a file that is damaged does not keep what was named of another one from being read */
    if (folder && (st_is_damage(status) || status == LMC_ERR_HEADER) && find_named_file(&search))
        status = LMC_OK;
    if (status == LMC_OK && (search.found_count != 1 || !search.has_memory))
        status = fail_search(&search, diag);
    if (status == LMC_OK) {
        st_diag_set_file(diag, search.path);
        status = st_file_open_input(search.path, options, file, diag);
    }
    if (status == LMC_OK)
        status = st_content_open_files(*file, diag);
    /* the file may lack the tensor: it was only named, or has changed since it was found */
    if (status == LMC_OK && !find_in_file(&search, *file, index)) {
        search.found_count = 0;
        status = fail_search(&search, diag);
    }
    if (status != LMC_OK) {
        lmc_st_close(*file);
        *file = NULL;
    }
    st_release(options->allocator, search.path);
    st_release(options->allocator, folder);
    st_run_end(&run, status);
    return status;
}

lmc_status lmc_run_open_tensor(const char *run_dir, uint64_t step, const char *name,
                               const lmc_allocator *allocator, lmc_st_file **file, uint64_t *index,
                               lmc_st_diag *diag)
{
    st_call call;
    *file = NULL;
    lmc_status status = st_call_begin(&call, run_dir, NULL, diag);
    if (allocator)
        call.options.allocator = allocator;
    if (status == LMC_OK)
        status = open_tensor(run_dir, step, name, &call.options, file, index, call.diag);
    return st_call_end(&call, status);
}
