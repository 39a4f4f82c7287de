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

/* Gives the archive what is staged as its base file `number`, and reads what needs it. */
static lmc_status try_staged(const dependents *dependents, const lmc_st_file *file, size_t number)
{
    const lmc_allocator *const memory = dependents->store->options->allocator;
    lmc_st_diag unused = {0};
    lmc_st_file *staged = NULL;
    char *const folder = st_store_path(dependents->store, ST_STORE_STAGED);
    const char *const inner =
        file->bases.files[number].path + strlen(dependents->name) + strlen(LMC_ARCHIVE_SUFFIX) + 1;
    char *const path = folder ? lmc_path_join(memory, folder, inner, LMC_ARCHIVE_SUFFIX) : NULL;
    const st_open how = {.path = path, .fd = -1, .allocator = memory};
    lmc_status status = path ? st_file_open(&how, &staged, &unused) : LMC_ERR_NOMEM;
    if (status == LMC_OK)
        status = st_file_use_base(file, number, staged, &unused);
    if (status == LMC_OK) {
        status = read_linked(file, number, dependents->store->options);
        st_file_forget_base(file, number);
    }
    lmc_st_close(staged);
    st_release(memory, path);
    st_release(memory, folder);
    return status;
}

/* Ends the visit at an archive that cannot be based on what is staged. */
static int look_at_archive(void *user, const lmc_st_file *file)
{
    dependents *const dependents = user;
    for (size_t i = 0; i < file->bases.file_count && dependents->fit; i++) {
        const char *const path = file->bases.files[i].path;
        const size_t nbytes = st_store_model_of_path(0, path);
        if (nbytes != strlen(dependents->name) || strncmp(path, dependents->name, nbytes) != 0)
            continue;
        const lmc_status status = try_staged(dependents, file, i);
        dependents->fit = status == LMC_OK;
        if (status == LMC_ERR_NOMEM || status == LMC_ERR_CANCELLED)
            dependents->status = status;
    }
    return !dependents->fit;
}

lmc_status st_dependents_fit(const st_store_session *store, const st_model *model, int *fit)
{
    dependents dependents = {.store = store, .name = model->name, .fit = 1};
    st_options quiet = *store->options;
    quiet.progress = NULL;
    for (size_t i = 0; i < store->models.count && dependents.fit; i++) {
        lmc_st_diag unused = {0};
        const st_model *const other = &store->models.list[i];
        char *const folder = st_store_model_path(store, other->name);
        if (!folder)
            return st_fail_nomem(store->diag);
        if (other != model && st_tree_visit(folder, &quiet, look_at_archive, &dependents, &unused) != LMC_OK)
            dependents.fit = !other->is_directory; /* files behind one that cannot be read were not visited */
        st_release(store->options->allocator, folder);
    }
    *fit = dependents.fit;
    if (dependents.status == LMC_ERR_CANCELLED)
        return st_fail_cancelled(store->diag);
    return dependents.status == LMC_OK ? LMC_OK : st_fail_nomem(store->diag);
}
