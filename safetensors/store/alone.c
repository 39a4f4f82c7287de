/*
 * alone.c - store/catalog.h: the catalog of an index without its store.
 */
#include "safetensors/store/catalog.h"

#include <stdlib.h>
#include <string.h>

typedef struct indexed_files {
    st_catalog *catalog;
    st_buffer room;  /* st_catalog_file */
    st_buffer names; /* pointers: of the model of each */
} indexed_files;

/* An st_index_file_fn. */
static lmc_status add_indexed(void *user, const st_index_file *indexed)
{
    indexed_files *const files = user;
    st_catalog *const catalog = files->catalog;
    const lmc_allocator *const memory = catalog->store->options->allocator;
    const size_t count = catalog->count;
    const st_catalog_file file = {.path = st_duplicate(memory, indexed->path),
                                  .nbytes = indexed->nbytes,
                                  .mtime_ns = indexed->mtime_ns,
                                  .id = indexed->id};
    char *const name = st_duplicate(memory, indexed->model);
    unsigned char *const place = st_buffer_extend(memory, &files->room, count * sizeof file, sizeof file);
    unsigned char *const name_place =
        st_buffer_extend(memory, &files->names, count * sizeof name, sizeof name);
    if (!file.path || !name || !place || !name_place) {
        st_release(memory, file.path);
        st_release(memory, name);
        return LMC_ERR_NOMEM;
    }
    memcpy(place, &file, sizeof file);
    memcpy(name_place, &name, sizeof name);
    catalog->count++;
    return LMC_OK;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Makes the list of models of these names, and tells each file the number of its own. The names are freed. Error:
 * NOMEM. */
static lmc_status number_models(st_catalog *catalog, char **names)
{
    st_models *const models = &catalog->store->models;
    const size_t count = catalog->count;
    char **const sorted = st_allocate_array(models->memory, count + 1, sizeof *sorted);
    lmc_status status = sorted ? LMC_OK : LMC_ERR_NOMEM;
    if (sorted && count > 0) {
        memcpy(sorted, names, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, compare_names);
    }
    for (size_t i = 0; i < count && status == LMC_OK; i++) { /* in order: each goes to the end of the list */
        if (i > 0 && strcmp(sorted[i - 1], sorted[i]) == 0)
            continue;
        st_model model = {.name = st_duplicate(models->memory, sorted[i])};
        if (!model.name || !st_models_put(models, &model))
            status = LMC_ERR_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        if (status == LMC_OK)
            catalog->files[i].model = (size_t)(st_models_find(models, names[i]) - models->list);
        st_release(models->memory, names[i]);
    }
    st_release(models->memory, sorted);
    return status;
}

lmc_status st_catalog_open_alone(st_catalog *catalog, st_store_session *store, const char *index_path)
{
    indexed_files files = {.catalog = catalog};
    const lmc_allocator *const memory = store->options->allocator;
    int is_new = 0;
    *catalog = (st_catalog){.store = store, .is_alone = 1};
    store->models = (st_models){.memory = memory};
    const st_index_how how = {
        .memory = memory, .cancel = store->options->cancel, .access = ST_DATABASE_CHANGE};
    catalog->is_open = 1;
    lmc_status status = st_index_open(&catalog->index, index_path, &how, &is_new, store->diag);
    if (status == LMC_OK)
        status = st_index_list(&catalog->index, add_indexed, &files, store->diag);
    catalog->files = (st_catalog_file *)(void *)files.room.bytes;
    const lmc_status numbered = number_models(catalog, (char **)(void *)files.names.bytes);
    st_buffer_free(memory, &files.names);
    catalog->by_id = st_allocate_array(memory, catalog->count + 1, sizeof *catalog->by_id);
    if (status == LMC_ERR_NOMEM || numbered == LMC_ERR_NOMEM || !catalog->by_id)
        return st_fail_nomem(store->diag);
    for (size_t i = 0; i < catalog->count; i++) /* they came by rising ids */
        catalog->by_id[catalog->id_count++] = &catalog->files[i];
    return status;
}
