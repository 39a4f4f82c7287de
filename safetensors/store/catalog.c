/*
 * catalog.c - store/catalog.h.
 */
#include "safetensors/store/catalog.h"

#include "safetensors/base/content.h"
#include "safetensors/engine/engine.h"
#include "safetensors/files/folder.h"
#include "safetensors/store/names.h"
#include "safetensors/tree/copied.h"

#include <stdlib.h>
#include <string.h>

/* ---- the files that there are ---- */

typedef struct listing {
    st_catalog *catalog;
    st_buffer room;
} listing;

/* A time of a file as one number, modulo 2^64: it is compared for equality only. */
static int64_t mtime_ns(const st_attributes *attributes)
{
    return (int64_t)((uint64_t)attributes->modified_s * 1000000000u + (uint64_t)attributes->modified_ns);
}

static lmc_status add_entry(listing *listing, size_t model, const char *folder, const st_dir_entry *entry,
                            int is_archive)
{
    st_catalog *const catalog = listing->catalog;
    const st_store_session *const store = catalog->store;
    const lmc_allocator *const memory = store->options->allocator;
    const size_t used = catalog->count * sizeof *catalog->files;
    char *const path = lmc_path_join(memory, lmc_path_inside(store->path, folder), entry->path, "");
    unsigned char *const place =
        path ? st_buffer_extend(memory, &listing->room, used, sizeof *catalog->files) : NULL;
    const st_catalog_file file = {.path = path,
                                  .model = model,
                                  .is_archive = is_archive,
                                  .nbytes = entry->nbytes,
                                  .mtime_ns = mtime_ns(&entry->attributes)};
    if (!place) {
        st_release(memory, path);
        return st_fail_nomem(store->diag);
    }
    memcpy(place, &file, sizeof file);
    catalog->files = (st_catalog_file *)(void *)listing->room.bytes;
    catalog->count++;
    return LMC_OK;
}

/* What cannot be listed has no files that could serve. */
static lmc_status list_model(listing *listing, size_t index)
{
    const st_store_session *const store = listing->catalog->store;
    const lmc_allocator *const memory = store->options->allocator;
    lmc_st_diag unused = {0};
    st_listing tree = {0};
    unsigned char *is_archive = NULL;
    char *const folder = st_store_model_path(store, store->models.list[index].name);
    lmc_status status = folder ? LMC_OK : st_fail_nomem(store->diag);
    lmc_status listed = status == LMC_OK ? st_listing_read(&tree, memory, folder, &unused) : status;
    if (listed == LMC_OK)
        listed = st_copied_find_archives(&tree, folder, &is_archive, &unused);
    for (size_t i = 0; i < tree.count && listed == LMC_OK && status == LMC_OK; i++)
        if (!tree.entries[i].is_directory && !st_copied_is_list(&tree.entries[i]))
            status = add_entry(listing, index, folder, &tree.entries[i], is_archive[i]);
    if (listed == LMC_ERR_NOMEM)
        status = st_fail_nomem(store->diag);
    st_release(memory, is_archive);
    st_listing_free(&tree);
    st_release(memory, folder);
    return status;
}

static int compare_paths(const void *left, const void *right)
{
    return strcmp(((const st_catalog_file *)left)->path, ((const st_catalog_file *)right)->path);
}

static st_catalog_file *find_path(const st_catalog *catalog, const char *path)
{
    const st_catalog_file wanted = {.path = (char *)path};
    return catalog->count == 0
               ? NULL
               : bsearch(&wanted, catalog->files, catalog->count, sizeof wanted, compare_paths);
}

static lmc_status list_files(st_catalog *catalog)
{
    listing listing = {.catalog = catalog};
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < catalog->store->models.count && status == LMC_OK; i++)
        status = list_model(&listing, i);
    if (catalog->count > 1)
        qsort(catalog->files, catalog->count, sizeof *catalog->files, compare_paths);
    catalog->by_id =
        st_allocate_array(catalog->store->options->allocator, catalog->count + 1, sizeof *catalog->by_id);
    return status != LMC_OK || catalog->by_id ? status : st_fail_nomem(catalog->store->diag);
}

/* ---- sketches ---- */

/* A tensor of a source, or of an archive whose content is decoded. */
typedef struct sketched {
    const st_source *source; /* NULL: of an archive */
    size_t index;
    const st_content *content;
    const st_content_room *room;
    st_content_window window;
    lmc_st_diag *diag;
} sketched;

static lmc_status read_sketched(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    sketched *const one = user;
    if (one->source)
        return one->source->read(one->source, one->index, offset, dst, nbytes, one->diag);
    return st_content_copy(one->content, one->room, &one->window, offset, dst, nbytes, one->diag);
}

static lmc_status sketch_tensor(const st_header *header, size_t index, sketched *one, st_index_tensor *tensor)
{
    const st_tensor *const described = &header->tensors[index];
    const uint64_t nbytes = described->end - described->begin;
    *tensor = (st_index_tensor){
        .nbytes = nbytes, .row_nbytes = st_header_row_nbytes(header, described), .dtype = described->dtype};
    tensor->has_head = described->rank >= 2 && st_sketch_head_nbytes(nbytes) > 0 && tensor->row_nbytes > 0;
    one->index = index;
    one->window = (st_content_window){0};
    LMC_TRY(st_sketch_make(described->dtype, nbytes, read_sketched, one, &tensor->sketch));
    return tensor->has_head ? st_sketch_make_head(described->dtype, nbytes, read_sketched, one, &tensor->head)
                            : LMC_OK;
}

lmc_status st_catalog_sketch(const st_source *source, const lmc_allocator *memory, st_index_tensor **tensors,
                             lmc_st_diag *diag)
{
    const size_t count = source->header->tensor_count;
    sketched one = {.source = source, .diag = diag};
    *tensors = st_allocate_array(memory, count + 1, sizeof **tensors);
    lmc_status status = *tensors ? LMC_OK : st_fail_nomem(diag);
    for (size_t i = 0; i < count && status == LMC_OK; i++)
        status = sketch_tensor(source->header, i, &one, &(*tensors)[i]);
    return status;
}

/* The sketches of an archive. */
static lmc_status sketch_archive(const lmc_st_file *file, const lmc_allocator *memory,
                                 st_index_tensor *tensors, lmc_st_diag *diag)
{
    st_buffer buffers[3] = {{0}};
    lmc_ctx *ctx = NULL;
    lmc_status status = lmc_ctx_create(memory, &ctx);
    const st_content_room room = {memory, ctx, &buffers[0], &buffers[1], &buffers[2]};
    for (size_t i = 0; i < file->header.tensor_count && status == LMC_OK; i++) {
        st_content content;
        sketched one = {.content = &content, .room = &room, .diag = diag};
        status = st_content_open(&content, file, ctx, i, memory, diag);
        if (status == LMC_OK)
            status = sketch_tensor(&file->header, i, &one, &tensors[i]);
        st_content_free(&content);
    }
    for (size_t i = 0; i < 3; i++)
        st_buffer_free(memory, &buffers[i]);
    lmc_ctx_free(ctx);
    return status;
}

/* Adds a file to the index, with the sketches of an archive. One that cannot be read has none. Errors: those of the
 * index, NOMEM. */
static lmc_status add_sketches(st_catalog *catalog, st_catalog_file *file, lmc_st_diag *diag)
{
    const st_store_session *const store = catalog->store;
    const lmc_allocator *const memory = store->options->allocator;
    const char *const model = store->models.list[file->model].name;
    lmc_st_diag unused = {0};
    lmc_st_file *opened = NULL;
    st_index_tensor *tensors = NULL;
    if (!file->is_archive) /* it is only to be missed if it gets lost */
        return st_index_add_file(&catalog->index, model, file->path, file->nbytes, file->mtime_ns, NULL, 0,
                                 &file->id, diag);
    char *const path = st_store_path(store, file->path);
    const st_open how = {.path = path, .fd = -1, .allocator = memory};
    lmc_status status = path ? st_file_open(&how, &opened, &unused) : LMC_ERR_NOMEM;
    const size_t count = status == LMC_OK ? opened->header.tensor_count : 0;
    if (status == LMC_OK) {
        tensors = st_allocate_array(memory, count + 1, sizeof *tensors);
        status = tensors ? sketch_archive(opened, memory, tensors, &unused) : LMC_ERR_NOMEM;
    }
    if (status == LMC_OK && count <= ST_INDEX_TENSOR_COUNT_MAX)
        status = st_index_add_file(&catalog->index, model, file->path, file->nbytes, file->mtime_ns, tensors,
                                   count, &file->id, diag);
    else if (status == LMC_ERR_NOMEM)
        status = st_fail_nomem(diag);
    else
        status = LMC_OK;
    st_release(memory, tensors);
    lmc_st_close(opened);
    st_release(memory, path);
    return status;
}

/* ---- the index ---- */

/* 1 if other sessions are kept from writing. */
static int may_write(const st_store_session *store)
{
    return store->lock_fd >= 0;
}

/* A file that the index has and the store has not, or has another one in its place. */
typedef struct stale_file {
    char *path;
    size_t model; /* SIZE_MAX, or the one that lacks the file */
    uint64_t nbytes;
    int64_t mtime_ns;
} stale_file;

typedef struct stale {
    st_catalog *catalog;
    st_buffer room; /* stale_file */
    size_t count;
} stale;

/* The model of the store that an indexed file is of. NULL: none. A path that leads elsewhere is of none: anyone may
 * have written the index. */
static const st_model *model_of_indexed(const st_store_session *store, const st_index_file *indexed)
{
    const st_model *const model = st_models_find(&store->models, indexed->model);
    const size_t nbytes = st_store_model_of_path(0, indexed->path);
    const int is_in_it = model && nbytes == strlen(model->name) &&
                         strncmp(indexed->path, model->name, nbytes) == 0 && !strstr(indexed->path, "/../");
    return is_in_it ? model : NULL;
}

static lmc_status look_at_indexed(void *user, const st_index_file *indexed)
{
    stale *const stale = user;
    const st_store_session *const store = stale->catalog->store;
    const lmc_allocator *const memory = store->options->allocator;
    st_catalog_file *const file = find_path(stale->catalog, indexed->path);
    if (file && file->nbytes == indexed->nbytes && file->mtime_ns == indexed->mtime_ns &&
        strcmp(store->models.list[file->model].name, indexed->model) == 0) {
        file->id = indexed->id;
        return LMC_OK;
    }
    const st_model *const model = file ? NULL : model_of_indexed(store, indexed);
    const stale_file one = {.path = st_duplicate(memory, indexed->path),
                            .model = model ? (size_t)(model - store->models.list) : SIZE_MAX,
                            .nbytes = indexed->nbytes,
                            .mtime_ns = indexed->mtime_ns};
    unsigned char *const place =
        one.path ? st_buffer_extend(memory, &stale->room, stale->count * sizeof one, sizeof one) : NULL;
    if (!place) {
        st_release(memory, one.path);
        return LMC_ERR_NOMEM;
    }
    memcpy(place, &one, sizeof one);
    stale->count++;
    return LMC_OK;
}

/* 1 if the index has all files of the model as they are: one that it lacks was lost, not replaced. */
static int is_as_indexed(const st_catalog *catalog, size_t model)
{
    for (size_t i = 0; i < catalog->count; i++)
        if (catalog->files[i].model == model && catalog->files[i].id == 0)
            return 0;
    return 1;
}

/* Finds the files that the index has, and if is_changed removes from it what the store does not have any more. A file
 * that was lost stays, without its tensors, until its model is added again or removed, or the store is repaired. */
static lmc_status match_index(st_catalog *catalog, int is_changed, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = catalog->store->options->allocator;
    stale stale = {.catalog = catalog};
    for (size_t i = 0; i < catalog->count; i++)
        catalog->files[i].id = 0;
    lmc_status status = st_index_list(&catalog->index, look_at_indexed, &stale, diag);
    const stale_file *const files = (const stale_file *)(const void *)stale.room.bytes;
    for (size_t i = 0; i < stale.count; i++) {
        const stale_file *const file = &files[i];
        if (status == LMC_OK && is_changed && file->model < SIZE_MAX && is_as_indexed(catalog, file->model))
            status = st_index_add_file(&catalog->index, catalog->store->models.list[file->model].name,
                                       file->path, file->nbytes, file->mtime_ns, NULL, 0, NULL, diag);
        else if (status == LMC_OK && is_changed)
            status = st_index_remove_file(&catalog->index, file->path, diag);
        st_release(memory, file->path);
    }
    st_buffer_free(memory, &stale.room);
    return status;
}

/* Makes the index that of the archives. */
static lmc_status update(st_catalog *catalog, lmc_st_diag *diag)
{
    const st_options *const options = catalog->store->options;
    LMC_TRY(st_index_begin(&catalog->index, diag));
    lmc_status status = match_index(catalog, 1, diag);
    for (size_t i = 0; i < catalog->count && status == LMC_OK; i++)
        if (st_is_cancelled(options->cancel))
            status = st_fail_cancelled(diag);
        else if (catalog->files[i].id == 0)
            status = add_sketches(catalog, &catalog->files[i], diag);
    if (status == LMC_OK)
        status = st_index_commit(&catalog->index, diag);
    if (status != LMC_OK)
        st_index_rollback(&catalog->index);
    return status;
}

static lmc_status open_as(st_catalog *catalog, const char *path, st_database_access access, lmc_st_diag *diag)
{
    const st_options *const options = catalog->store->options;
    const st_index_how how = {.memory = options->allocator, .cancel = options->cancel, .access = access};
    int is_new = 0;
    lmc_status status = st_index_open(&catalog->index, path, &how, &is_new, diag);
    if (status == LMC_OK)
        status = access == ST_DATABASE_READ ? match_index(catalog, 0, diag) : update(catalog, diag);
    if (status != LMC_OK)
        st_index_close(&catalog->index);
    catalog->is_open = status == LMC_OK;
    return status;
}

/* Opens a new index: an empty file; where that cannot be, or another session may be writing one, in memory. */
static lmc_status remake_index(st_catalog *catalog, const char *path)
{
    const st_store_session *const store = catalog->store;
    lmc_st_diag unused = {0};
    if (catalog->is_open)
        st_index_close(&catalog->index);
    catalog->is_open = 0;
    if (!may_write(store))
        return open_as(catalog, NULL, ST_DATABASE_MAKE, store->diag);
    st_store_remove_index(store);
    const lmc_status status = open_as(catalog, path, ST_DATABASE_MAKE, &unused);
    if (status == LMC_ERR_NOMEM)
        return st_fail_nomem(store->diag);
    if (status == LMC_ERR_CANCELLED)
        return st_fail_cancelled(store->diag);
    return status == LMC_OK ? LMC_OK : open_as(catalog, NULL, ST_DATABASE_MAKE, store->diag);
}

/* Opens the index and leaves it as it is. In the place of one that lacks a file, or does not serve, one is made in
 * memory. */
static lmc_status open_to_read(st_catalog *catalog, const char *path)
{
    lmc_st_diag unused = {0};
    const lmc_status status = open_as(catalog, path, ST_DATABASE_READ, &unused);
    if (status == LMC_ERR_NOMEM)
        return st_fail_nomem(catalog->store->diag);
    if (status == LMC_ERR_CANCELLED)
        return st_fail_cancelled(catalog->store->diag);
    int is_complete = status == LMC_OK;
    for (size_t i = 0; i < catalog->count && is_complete; i++)
        is_complete = catalog->files[i].id > 0;
    return is_complete ? LMC_OK : remake_index(catalog, path);
}

/* Opens the index. One that is damaged is replaced; one that is busy, or cannot be read or written, is left alone. */
static lmc_status open_index(st_catalog *catalog)
{
    const st_store_session *const store = catalog->store;
    const lmc_st_diag before = *store->diag;
    char *const path = st_store_path(store, LMC_STORE_INDEX);
    if (!path)
        return st_fail_nomem(store->diag);
    st_diag_set_file(store->diag, path);
    lmc_status status = may_write(store) ? open_as(catalog, path, ST_DATABASE_MAKE, store->diag)
                                         : open_to_read(catalog, path);
    if (status == LMC_OK || status == LMC_ERR_CORRUPT)
        *store->diag = before;
    if (status == LMC_ERR_CORRUPT)
        status = remake_index(catalog, path);
    st_release(store->options->allocator, path);
    return status;
}

/* ---- opening ---- */

static int compare_ids(const void *left, const void *right)
{
    const uint32_t a = (*(const st_catalog_file *const *)left)->id;
    const uint32_t b = (*(const st_catalog_file *const *)right)->id;
    return a < b ? -1 : a > b;
}

/* Lists the files by the ids that they have in the index. */
static void list_ids(st_catalog *catalog)
{
    catalog->id_count = 0;
    for (size_t i = 0; i < catalog->count; i++)
        if (catalog->files[i].id > 0)
            catalog->by_id[catalog->id_count++] = &catalog->files[i];
    if (catalog->id_count > 1)
        qsort(catalog->by_id, catalog->id_count, sizeof *catalog->by_id, compare_ids);
}

lmc_status st_catalog_open(st_catalog *catalog, st_store_session *store)
{
    *catalog = (st_catalog){.store = store};
    LMC_TRY(list_files(catalog));
    LMC_TRY(open_index(catalog));
    list_ids(catalog);
    return LMC_OK;
}

lmc_status st_catalog_remake(st_store_session *store)
{
    st_catalog catalog = {.store = store};
    lmc_status status = list_files(&catalog);
    if (status == LMC_OK)
        status = st_catalog_rebuild(&catalog);
    st_catalog_close(&catalog);
    return status;
}

lmc_status st_catalog_rebuild(st_catalog *catalog)
{
    const st_store_session *const store = catalog->store;
    if (catalog->is_alone)
        return st_fail(store->diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "the index is damaged");
    char *const path = st_store_path(store, LMC_STORE_INDEX);
    const lmc_status status = path ? remake_index(catalog, path) : st_fail_nomem(store->diag);
    st_release(store->options->allocator, path);
    list_ids(catalog);
    return status;
}

void st_catalog_close(st_catalog *catalog)
{
    if (!catalog->store)
        return;
    const lmc_allocator *const memory = catalog->store->options->allocator;
    if (catalog->is_open)
        st_index_close(&catalog->index);
    for (size_t i = 0; i < catalog->count; i++)
        st_release(memory, catalog->files[i].path);
    st_release(memory, catalog->files);
    st_release(memory, catalog->by_id);
    *catalog = (st_catalog){0};
}

const st_catalog_file *st_catalog_find(const st_catalog *catalog, uint32_t id)
{
    size_t begin = 0;
    size_t end = catalog->id_count;
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        if (catalog->by_id[middle]->id < id)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin < catalog->id_count && catalog->by_id[begin]->id == id ? catalog->by_id[begin] : NULL;
}

/* ---- what was stored ---- */

const char *st_catalog_inner_path(const char *model_path, const char *file_path)
{
    const size_t nbytes = strlen(model_path);
    const int is_inside = strncmp(file_path, model_path, nbytes) == 0 && file_path[nbytes] != '\0';
    return is_inside ? lmc_path_inside(model_path, file_path) : lmc_last_component(file_path);
}

lmc_status st_catalog_forget(st_catalog *catalog, const char *name)
{
    lmc_st_diag *const diag = catalog->store->diag;
    const lmc_st_diag before = *diag;
    lmc_status status = st_index_begin(&catalog->index, diag);
    if (status == LMC_OK)
        status = st_index_remove_model(&catalog->index, name, diag);
    if (status == LMC_OK)
        status = st_index_commit(&catalog->index, diag);
    if (status == LMC_OK)
        return status;
    st_index_rollback(&catalog->index);
    if (status != LMC_ERR_CORRUPT)
        return status;
    *diag = before;
    st_index_close(&catalog->index);
    catalog->is_open = 0;
    st_store_remove_index(catalog->store);
    return LMC_OK;
}

static lmc_status note_file(st_catalog *catalog, const char *name, const char *folder,
                            const st_dir_entry *entry, const st_sketched_file *sketched)
{
    const st_store_session *const store = catalog->store;
    const lmc_allocator *const memory = store->options->allocator;
    char *const path = lmc_path_join(memory, lmc_path_inside(store->path, folder), entry->path, "");
    const lmc_status status =
        path ? st_index_add_file(&catalog->index, name, path, entry->nbytes, mtime_ns(&entry->attributes),
                                 sketched->tensors, sketched->tensor_count, NULL, store->diag)
             : st_fail_nomem(store->diag);
    st_release(memory, path);
    return status;
}

lmc_status st_catalog_note(st_catalog *catalog, const char *name, const st_sketched_file *files, size_t count)
{
    static const st_sketched_file copy = {0};
    const st_store_session *const store = catalog->store;
    const lmc_allocator *const memory = store->options->allocator;
    st_listing tree = {0};
    char *const folder = st_store_model_path(store, name);
    lmc_status status =
        folder ? st_listing_read(&tree, memory, folder, store->diag) : st_fail_nomem(store->diag);
    if (status == LMC_OK)
        status = st_index_begin(&catalog->index, store->diag);
    if (status == LMC_OK)
        status = st_index_remove_model(&catalog->index, name, store->diag);
    for (size_t i = 0; i < tree.count && status == LMC_OK; i++) {
        const char *const path = tree.entries[i].path;
        const st_sketched_file *sketched = &copy;
        if (tree.entries[i].is_directory || st_copied_is_list(&tree.entries[i]))
            continue;
        for (size_t j = 0; j < count; j++) {
            const size_t nbytes = strlen(files[j].path);
            if (strncmp(path, files[j].path, nbytes) == 0 && strcmp(path + nbytes, LMC_ARCHIVE_SUFFIX) == 0)
                sketched = &files[j];
        }
        status = note_file(catalog, name, folder, &tree.entries[i], sketched);
    }
    if (status == LMC_OK)
        status = st_index_commit(&catalog->index, store->diag);
    if (status != LMC_OK)
        st_index_rollback(&catalog->index);
    st_listing_free(&tree);
    st_release(memory, folder);
    return status;
}

/* ---- what is missing ---- */

typedef struct missing {
    const st_store_session *store;
    char **paths;
} missing;

/* An st_index_file_fn. */
static lmc_status look_for_file(void *user, const st_index_file *indexed)
{
    const missing *const missing = user;
    const st_store_session *const store = missing->store;
    const st_model *const model = model_of_indexed(store, indexed);
    uint64_t file_nbytes = 0; /* not compared with what the index tells, which may be wrong */
    if (!model || missing->paths[model - store->models.list])
        return LMC_OK;
    if (st_folder_file_nbytes(store->fd, indexed->path, &file_nbytes))
        return LMC_OK;
    char *const path = st_duplicate(store->options->allocator, indexed->path);
    missing->paths[model - store->models.list] = path;
    return path ? LMC_OK : LMC_ERR_NOMEM;
}

lmc_status st_catalog_find_missing(const st_store_session *store, char **paths)
{
    missing missing = {store, paths};
    lmc_st_diag unused = {0};
    st_index index;
    const st_options *const options = store->options;
    const st_index_how how = {
        .memory = options->allocator, .cancel = options->cancel, .access = ST_DATABASE_READ};
    int is_new = 0;
    if (store->models.is_run)
        return LMC_OK;
    char *const path = st_store_path(store, LMC_STORE_INDEX);
    if (!path)
        return st_fail_nomem(store->diag);
    lmc_status status = st_index_open(&index, path, &how, &is_new, &unused);
    if (status == LMC_OK)
        status = st_index_list(&index, look_for_file, &missing, &unused);
    st_index_close(&index);
    st_release(options->allocator, path);
    return status == LMC_ERR_NOMEM       ? st_fail_nomem(store->diag)
           : status == LMC_ERR_CANCELLED ? st_fail_cancelled(store->diag)
                                         : LMC_OK;
}
