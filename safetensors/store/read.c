/*
 * read.c - models are restored, verified, compared; a tensor of a model is found.
 */
#include "common/text.h"
#include "safetensors/base/content.h"
#include "safetensors/base/search.h"
#include "safetensors/common/parts.h"
#include "safetensors/files/kept.h"
#include "safetensors/restore/damage.h"
#include "safetensors/store/catalog.h"
#include "safetensors/store/place.h"
#include "safetensors/store/request.h"
#include "safetensors/tree/check.h"
#include "safetensors/tree/copied.h"

#include <string.h>

/* ---- what is missing ---- */

/* A run's list says how many files and bytes a step has: a file that is missing needs no other to be missed. */
static lmc_status check_sizes(const st_store_session *store, const st_model *model, const char *folder,
                              int may_have_more)
{
    st_listing tree;
    uint64_t file_count = 0;
    uint64_t stored_nbytes = 0;
    lmc_status status = st_listing_read(&tree, store->options->allocator, folder, store->diag);
    for (size_t i = 0; i < tree.count && status == LMC_OK; i++) {
        const st_dir_entry *const entry = &tree.entries[i];
        const int is_counted = !entry->is_directory && !st_copied_is_list(entry);
        file_count += (uint64_t)is_counted;
        stored_nbytes += is_counted ? entry->nbytes : 0;
    }
    st_listing_free(&tree);
    const int has_all = file_count >= model->file_count && stored_nbytes >= model->stored_nbytes;
    const int has_more = file_count > model->file_count || stored_nbytes > model->stored_nbytes;
    if (status != LMC_OK || (has_all && (may_have_more || !has_more)))
        return status;
    return st_fail(store->diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                   "has %llu files of %llu bytes, but had %llu of %llu as its list tells",
                   (unsigned long long)file_count, (unsigned long long)stored_nbytes,
                   (unsigned long long)model->file_count, (unsigned long long)model->stored_nbytes);
}

/* Fails with CORRUPT if the index has a file of the model that its folder lacks. */
static lmc_status check_missing(const st_store_session *store, const st_model *model, char *const *missing)
{
    const char *const path = missing[model - store->models.list];
    char shown[200];
    if (!path)
        return LMC_OK;
    lmc_text_escape(shown, sizeof shown, path, strlen(path));
    return st_fail(store->diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                   "the file %s is missing: the index of the store has it (if it is wrong, repair the store)",
                   shown);
}

static void free_missing(const st_store_session *store, char **missing)
{
    for (size_t i = 0; i < store->models.count && missing; i++)
        st_release(store->models.memory, missing[i]);
    st_release(store->models.memory, missing);
}

lmc_status st_store_check_whole(const st_store_session *store, const st_model *model)
{
    const lmc_allocator *const memory = store->options->allocator;
    char **const missing = st_allocate_zeroed(memory, store->models.count + 1, sizeof *missing);
    char *const folder = st_store_model_path(store, model->name);
    const st_model *const listed = st_models_find(&store->models, model->name);
    lmc_status status = missing && folder ? LMC_OK : st_fail_nomem(store->diag);
    if (status == LMC_OK)
        status = st_catalog_find_missing(store, missing);
    if (status == LMC_OK) {
        st_diag_init(store->diag, folder);
        status = check_sizes(store, model, folder, 1);
    }
    if (status == LMC_OK && listed)
        status = check_missing(store, listed, missing);
    if (missing)
        free_missing(store, missing);
    st_release(memory, folder);
    return status;
}

/* ---- restore and compare ---- */

lmc_status st_store_restore(const char *path, const char *name, const char *out_path,
                            const st_store_request *request, const st_options *options, lmc_st_result *result,
                            lmc_st_diag *diag)
{
    st_store_session store;
    const st_model *found = NULL;
    lmc_status status = st_store_begin(&store, path, request->kind, ST_STORE_READ, options, diag);
    if (status == LMC_OK)
        status = st_store_find(&store, name, &found);
    /* what is not of the store has no place in it: the name could be that of a model, or of a base */
    const int is_within = status == LMC_OK ? st_is_within(options->allocator, out_path, store.path) : 0;
    if (is_within < 0) {
        status = st_fail_nomem(diag);
    } else if (is_within) {
        st_diag_set_file(diag, out_path);
        status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output would be in the %s",
                         store.models.is_run ? "run" : "store");
    }
    if (status == LMC_OK)
        status = st_kept_check_output(options, out_path, diag);
    if (status == LMC_OK)
        status = st_store_check_whole(&store, found);
    if (status == LMC_OK)
        status = st_store_restore_model(&store, found, out_path, options, result);
    st_store_end(&store, status);
    return status;
}

lmc_status st_store_compare(const char *path, const char *name, const char *content,
                            const st_store_request *request, const st_options *options, lmc_st_diag *diag)
{
    st_store_session store;
    const st_model *found = NULL;
    char *folder = NULL;
    lmc_status status = st_store_begin(&store, path, request->kind, ST_STORE_READ, options, diag);
    if (status == LMC_OK)
        status = st_store_find(&store, name, &found);
    if (status == LMC_OK) {
        folder = st_store_model_path(&store, name);
        status =
            folder ? st_store_compare_model(&store, found, folder, content, options) : st_fail_nomem(diag);
    }
    st_release(options->allocator, folder);
    st_store_end(&store, status);
    return status;
}

/* ---- verify ---- */

static lmc_status verify_model(const st_store_session *store, const st_model *model, char *const *missing,
                               const st_options *options, lmc_st_result *result)
{
    lmc_st_result one = {0};
    char *const folder = st_store_model_path(store, model->name);
    if (!folder)
        return st_fail_nomem(store->diag);
    st_diag_init(store->diag, folder);
    lmc_status status = st_tree_verify(folder, options, &one, store->diag);
    const int is_refused = status == LMC_ERR_ARG; /* it has no archives, or something that no model has */
    const int is_sound = status == LMC_OK;
    if (is_refused)
        store->diag->status = status = LMC_ERR_CORRUPT;
    if (is_sound)
        status = check_sizes(store, model, folder, 0);
    if (status == LMC_OK)
        status = check_missing(store, model, missing);
    if ((is_refused || (is_sound && status == LMC_ERR_CORRUPT)) && options->damage)
        options->damage(options->user, store->diag);
    st_release(store->options->allocator, folder);
    result->file_count += one.file_count;
    result->original_nbytes += one.original_nbytes;
    result->stored_nbytes += one.stored_nbytes;
    result->tensor_count += one.tensor_count;
    result->damaged_count += one.damaged_count;
    result->is_archive |= one.is_archive;
    return status;
}

/* A fault of one model does not keep the others from being verified; the first is the call's. */
static lmc_status verify_models(const st_store_session *store, const st_model *const *models, size_t count,
                                char *const *missing, const st_store_request *request, lmc_st_result *result)
{
    st_parts parts = {.options = store->options};
    const st_options inner = st_parts_options(&parts);
    lmc_st_diag first = *store->diag;
    lmc_status worst = LMC_OK;
    for (size_t i = 0; i < count; i++)
        parts.total_nbytes += models[i]->original_nbytes;
    for (size_t i = 0; i < count; i++) {
        st_parts_begin(&parts, models[i]->original_nbytes);
        const lmc_status status = verify_model(store, models[i], missing, &inner, result);
        st_parts_end(&parts);
        if (status != LMC_OK && !st_is_damage(status) && status != LMC_ERR_HEADER && status != LMC_ERR_IO)
            return status;
        if (status != LMC_OK && worst == LMC_OK)
            first = *store->diag;
        worst = worst == LMC_OK ? status : worst;
        if (status == LMC_OK)
            st_store_tell(request, LMC_STORE_VERIFIED, models[i]);
    }
    if (worst != LMC_OK)
        *store->diag = first;
    return worst;
}

lmc_status st_store_verify(const char *path, const char *const *names, size_t name_count,
                           const st_store_request *request, const st_options *options, lmc_st_result *result,
                           lmc_st_diag *diag)
{
    st_store_session store;
    lmc_status status = st_store_begin(&store, path, request->kind, ST_STORE_READ, options, diag);
    const size_t count = name_count > 0 ? name_count : store.models.count;
    const st_model **const models = st_allocate_zeroed(options->allocator, count + 1, sizeof *models);
    char **const missing = st_allocate_zeroed(options->allocator, store.models.count + 1, sizeof *missing);
    if (status == LMC_OK && !(models && missing))
        status = st_fail_nomem(diag);
    for (size_t i = 0; i < count && status == LMC_OK; i++)
        if (name_count > 0)
            status = st_store_find(&store, names[i], &models[i]);
        else
            models[i] = &store.models.list[i];
    if (status == LMC_OK)
        status = st_catalog_find_missing(&store, missing);
    if (status == LMC_OK)
        status = verify_models(&store, models, count, missing, request, result);
    if (missing)
        free_missing(&store, missing);
    st_release(options->allocator, models);
    st_store_end(&store, status);
    return status;
}

/* ---- a tensor ---- */

typedef struct tensor_search {
    const char *folder; /* of the model */
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
        search->found_count = (size_t)os_is_file(path);
        if (search->found_count == 1)
            search->path = path;
        else
            st_release(search->memory, path);
    }
    return search->found_count == 1;
}

lmc_status st_store_open_tensor(const char *path, const char *name, const char *tensor,
                                const st_store_request *request, const st_options *options,
                                lmc_st_file **file, uint64_t *index, lmc_st_diag *diag)
{
    st_store_session store;
    const st_model *found = NULL;
    *file = NULL;
    lmc_status status = st_store_begin(&store, path, request->kind, ST_STORE_READ, options, diag);
    if (status == LMC_OK)
        status = st_store_find(&store, name, &found);
    char *const folder = status == LMC_OK ? st_store_model_path(&store, name) : NULL;
    tensor_search search = {.folder = folder, .name = tensor, .memory = options->allocator, .has_memory = 1};
    if (status == LMC_OK)
        status =
            folder ? st_tree_visit(folder, options, 1, look_at_file, &search, diag) : st_fail_nomem(diag);
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
    st_store_end(&store, status);
    return status;
}
