/*
 * dependents.c - store/dependents.h.
 */
#include "safetensors/store/dependents.h"

#include "safetensors/base/content.h"
#include "safetensors/base/search.h"
#include "safetensors/store/names.h"
#include "safetensors/tree/check.h"

#include <string.h>

/* Content that is read at once. */
#define PIECE_NBYTES ((uint64_t)1 << 20)

typedef struct dependents {
    const st_store_session *store;
    const char *name; /* of the model that goes */
    lmc_status status;
    int fit;
} dependents;

/* Reads all tensors of the archive that link to its base file `number`. */
static lmc_status read_linked(const lmc_st_file *file, size_t number, const st_options *options)
{
    const lmc_allocator *const memory = options->allocator;
    const st_bases *const bases = &file->bases;
    lmc_st_diag unused = {0};
    st_buffer buffers[3] = {{0}};
    lmc_ctx *ctx = NULL;
    lmc_status status = lmc_ctx_create(memory, &ctx);
    const st_content_room room = {memory, ctx, &buffers[0], &buffers[1], &buffers[2]};
    for (size_t i = 0; i < bases->link_count && status == LMC_OK; i++) {
        st_content content;
        if (bases->links[i].place != LMC_ST_BASE_FILE || bases->links[i].file != number)
            continue;
        status = st_content_open(&content, file, ctx, bases->links[i].tensor, memory, &unused);
        for (uint64_t at = 0; status == LMC_OK && at < content.nbytes; at += PIECE_NBYTES) {
            const unsigned char *bytes = NULL;
            const uint64_t left = content.nbytes - at;
            status = st_is_cancelled(options->cancel)
                         ? LMC_ERR_CANCELLED
                         : st_content_read(&content, &room, at,
                                           at + (left < PIECE_NBYTES ? left : PIECE_NBYTES), &bytes, &unused);
        }
        st_content_free(&content);
    }
    for (size_t i = 0; i < 3; i++)
        st_buffer_free(memory, &buffers[i]);
    lmc_ctx_free(ctx);
    return status;
}

/* Gives the archive this one as its base file `number`, and reads what needs it. */
static lmc_status try_base(const dependents *dependents, const lmc_st_file *file, size_t number,
                           const char *path)
{
    const st_open how = {.path = path, .fd = -1, .allocator = dependents->store->options->allocator};
    lmc_st_diag unused = {0};
    lmc_st_file *staged = NULL;
    lmc_status status = st_file_open(&how, &staged, &unused);
    if (status == LMC_OK)
        status = st_file_use_base(file, number, staged, &unused);
    if (status == LMC_OK) {
        status = read_linked(file, number, dependents->store->options);
        st_file_forget_base(file, number);
    }
    lmc_st_close(staged);
    return status;
}

/* The same with what is staged. */
static lmc_status try_staged(const dependents *dependents, const lmc_st_file *file, size_t number)
{
    const lmc_allocator *const memory = dependents->store->options->allocator;
    char *const folder = st_store_path(dependents->store, ST_STORE_STAGED);
    const char *const inner =
        file->bases.files[number].path + strlen(dependents->name) + strlen(LMC_ARCHIVE_SUFFIX) + 1;
    char *const path = folder ? lmc_path_join(memory, folder, inner, LMC_ARCHIVE_SUFFIX) : NULL;
    const lmc_status status = path ? try_base(dependents, file, number, path) : LMC_ERR_NOMEM;
    st_release(memory, path);
    st_release(memory, folder);
    return status;
}

/* Returns 1, which ends the visit, if the archive cannot be based on what is staged. */
static int note(dependents *dependents, lmc_status status)
{
    dependents->fit = status == LMC_OK;
    if (status == LMC_ERR_NOMEM || status == LMC_ERR_CANCELLED)
        dependents->status = status;
    return !dependents->fit;
}

static int look_at_archive(void *user, const lmc_st_file *file)
{
    dependents *const dependents = user;
    for (size_t i = 0; i < file->bases.file_count && dependents->fit; i++) {
        const char *const path = file->bases.files[i].path;
        const size_t nbytes = st_store_model_of_path(0, path);
        if (nbytes == strlen(dependents->name) && strncmp(path, dependents->name, nbytes) == 0)
            (void)note(dependents, try_staged(dependents, file, i));
    }
    return !dependents->fit;
}

/* The same for a step. Its archives do not name the folders of their bases: the visit has found what is staged under
 * their own name. The base of a single file has another one. */
static int look_at_step(void *user, const lmc_st_file *file)
{
    dependents *const dependents = user;
    const lmc_allocator *const memory = dependents->store->options->allocator;
    if (file->bases.file_count == 0)
        return 0;
    if (file->bases.file_count > 1)
        return note(dependents, LMC_ERR_BASE);
    if (file->base->path)
        return note(dependents, try_base(dependents, file, 0, file->base->path));
    char *const folder = st_store_path(dependents->store, ST_STORE_STAGED);
    char *const path =
        folder ? lmc_path_join(memory, folder, file->bases.files[0].path, LMC_ARCHIVE_SUFFIX) : NULL;
    const lmc_status status = path ? try_base(dependents, file, 0, path) : LMC_ERR_NOMEM;
    st_release(memory, path);
    st_release(memory, folder);
    return note(dependents, status);
}

/* The same for a step that has another base, as the list says: that must be found, and not in the step that goes. */
static int look_elsewhere(void *user, const lmc_st_file *file)
{
    dependents *const dependents = user;
    const st_store_session *const store = dependents->store;
    char *const folder = st_store_model_path(store, dependents->name);
    lmc_status status = folder ? LMC_OK : LMC_ERR_NOMEM;
    for (size_t i = 0; i < file->bases.file_count && status == LMC_OK; i++) {
        lmc_st_diag unused = {0};
        const lmc_st_file *base = NULL;
        status = st_file_open_base(file, i, &base, &unused);
        const int is_held =
            status == LMC_OK ? st_is_within(store->options->allocator, base->path, folder) : 0;
        if (is_held != 0)
            status = is_held < 0 ? LMC_ERR_NOMEM : LMC_ERR_BASE;
    }
    st_release(store->options->allocator, folder);
    return note(dependents, status);
}

static int is_based_on(const st_model *step, const st_model *base)
{
    return step->has_unknown_base || (step->base_count > 0 && strcmp(step->bases[0].name, base->name) == 0);
}

/* Looks at the archives of a model, or of a step. staged: the base to find them with, or NULL. Returns 0 if memory ran
 * out. */
static int look_at(dependents *dependents, const st_model *other, const char *staged,
                   int (*visit)(void *user, const lmc_st_file *file))
{
    const st_store_session *const store = dependents->store;
    lmc_st_diag unused = {0};
    st_options quiet = *store->options;
    char *const folder = st_store_model_path(store, other->name);
    quiet.progress = NULL;
    quiet.base = staged;
    /* files behind one that cannot be read were not visited */
    if (folder && st_tree_visit(folder, &quiet, 1, visit, dependents, &unused) != LMC_OK)
        dependents->fit = !store->models.is_run && !other->is_directory;
    st_release(store->options->allocator, folder);
    return folder != NULL;
}

lmc_status st_dependents_fit(const st_store_session *store, const st_model *model, int *fit)
{
    dependents dependents = {.store = store, .name = model->name, .fit = 1};
    char *const staged = st_store_path(store, ST_STORE_STAGED);
    int has_memory = staged != NULL;
    for (size_t i = 0; i < store->models.count && dependents.fit && has_memory; i++) {
        const st_model *const other = &store->models.list[i];
        if (other == model || (store->models.is_run && other->step < model->step))
            continue;
        if (!store->models.is_run)
            has_memory = look_at(&dependents, other, NULL, look_at_archive);
        else if (is_based_on(other, model))
            has_memory = look_at(&dependents, other, staged, look_at_step);
        else
            has_memory = look_at(&dependents, other, NULL, look_elsewhere);
    }
    st_release(store->options->allocator, staged);
    *fit = dependents.fit;
    if (dependents.status == LMC_ERR_CANCELLED)
        return st_fail_cancelled(store->diag);
    return has_memory && dependents.status == LMC_OK ? LMC_OK : st_fail_nomem(store->diag);
}
