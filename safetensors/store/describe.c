/*
 * describe.c - store/describe.h: every archive of a model is opened, and its base is looked for.
 */
#include "safetensors/store/describe.h"

#include "safetensors/archive/table.h"
#include "safetensors/base/folders.h"
#include "safetensors/base/search.h"
#include "safetensors/header/name_key.h"
#include "safetensors/restore/damage.h"
#include "safetensors/store/names.h"
#include "safetensors/tree/copied.h"
#include "safetensors/tree/tree_base.h"

#include <errno.h>
#include <string.h>

typedef struct description {
    const st_model_folder *folder;
    const st_options *options;
    st_model *model;
    st_hasher schema;
    lmc_st_diag *diag;
} description;

static void add_number(st_hasher *hasher, uint64_t number)
{
    unsigned char bytes[8];
    lmc_store64(bytes, number);
    st_hasher_add(hasher, bytes, sizeof bytes);
}

/* ---- bases ---- */

/* Notes the model whose folder a path leads through as a base. Returns 0 if the path leads through none; -1 if memory
 * ran out. */
static int note_model(const description *description, const char *path, int is_equal_only)
{
    const st_model_folder *const folder = description->folder;
    const lmc_allocator *const memory = description->options->allocator;
    st_model *const model = description->model;
    const size_t root_nbytes = strlen(folder->root);
    if (!lmc_path_is_within(path, folder->root) || path[root_nbytes] != '/')
        return 0;
    const char *const relative = path + root_nbytes + 1;
    const size_t nbytes = st_store_model_of_path(folder->is_run, relative);
    if (nbytes == 0)
        return 0;
    char *const name = st_duplicate(memory, relative);
    if (!name)
        return -1;
    name[nbytes] = '\0';
    int is_known = strcmp(name, folder->name) != 0;
    if (folder->is_run) { /* one base, which is an earlier step */
        uint64_t step = 0;
        const int is_same = model->base_count == 0 || strcmp(model->bases[0].name, name) == 0;
        is_known = is_same && st_step_is_name(name, nbytes, &step) && step < model->step;
    }
    const int has_memory = !is_known || st_model_add_base(model, name, is_equal_only, memory);
    st_release(memory, name);
    return !has_memory ? -1 : is_known;
}

/* Notes which model base file `number` of an archive is in. What was found where it was looked for first may hold other
 * content: files of a run have the same names, sizes and headers. Then the other steps are searched. Errors: those that
 * say nothing of the archive. */
static lmc_status look_at_base(const description *description, lmc_st_file *file, size_t number)
{
    const st_model_folder *const folder = description->folder;
    const lmc_allocator *const memory = description->options->allocator;
    const int is_equal = file->bases.files[number].is_equal;
    const lmc_st_file *base = NULL;
    st_base_fit fit = ST_BASE_FITS;
    lmc_status status = st_file_open_base(file, number, &base, description->diag);
    if (status == LMC_OK && folder->base_dir &&
        st_base_probe(file, number, base, 0, folder->is_thorough, &fit) != LMC_OK)
        return st_fail_nomem(description->diag);
    if (status == LMC_OK && (fit == ST_BASE_DIFFERS || (folder->is_thorough && fit != ST_BASE_FITS))) {
        base = NULL;
        st_file_forget_base(file, number);
        status = st_file_set_base(file, NULL, NULL, 0, description->diag);
        if (status == LMC_OK)
            status = st_file_open_base(file, number, &base, description->diag);
    }
    if (status != LMC_OK && !st_is_damage(status))
        return status;
    int is_noted = base ? note_model(description, base->path, is_equal) : 0;
    if (base && is_noted == 0) { /* its folder may be a link, which leads out of the store */
        char *const true_path = st_true_path(memory, base->path);
        is_noted = true_path ? note_model(description, true_path, is_equal) : errno == ENOMEM ? -1 : 0;
        st_release(memory, true_path);
    }
    if (is_noted < 0)
        return st_fail_nomem(description->diag);
    if (!is_noted)
        description->model->has_unknown_base = 1;
    return LMC_OK;
}

/* An archive that cannot be read counts with its own size. What wrappers add to names does not count for the schema,
 * and neither does the order of the tensors, which may follow from it. In files other than safetensors files, dtype and
 * shape of a tensor may be guessed from a sample: they do not count there. */
static lmc_status look_at_archive(description *description, const char *path, const st_dir_entry *entry,
                                  const st_options *own)
{
    lmc_st_file *file = NULL;
    uint64_t sum = 0;
    lmc_status status = st_file_open_input(path, own, &file, description->diag);
    if ((status == LMC_OK && !file->is_archive) || st_is_damage(status) || status == LMC_ERR_HEADER) {
        description->model->original_nbytes += entry->nbytes;
        description->model->has_unknown_base = 1;
        lmc_st_close(file);
        return LMC_OK;
    }
    if (status == LMC_OK) {
        description->model->original_nbytes += file->original_nbytes;
        if (file->base)
            file->base->is_thorough = description->folder->is_thorough;
        for (size_t i = 0; i < st_file_base_count(file) && status == LMC_OK; i++)
            status = look_at_base(description, file, i);
    }
    const int is_told = file && file->container == LMC_ST_CONTAINER_SAFETENSORS;
    const size_t shared_nbytes = file ? st_names_shared_nbytes(&file->header) : 0;
    for (uint64_t i = 0; status == LMC_OK && i < file->header.tensor_count; i++) {
        lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
        st_hasher hasher;
        if (st_file_tensor(file, i, &tensor) != LMC_OK) {
            status = st_fail_nomem(description->diag);
            break;
        }
        st_hasher_init(&hasher);
        add_number(&hasher, st_name_key(st_header_name(&file->header, i), shared_nbytes, 1));
        add_number(&hasher, tensor.nbytes);
        add_number(&hasher, is_told ? (uint64_t)tensor.dtype : 0);
        for (size_t dim = 0; dim < tensor.rank && is_told; dim++)
            add_number(&hasher, tensor.shape[dim]);
        sum += st_hasher_finish(&hasher);
    }
    if (status == LMC_OK) {
        add_number(&description->schema, file->header.tensor_count);
        add_number(&description->schema, sum);
    }
    lmc_st_close(file);
    return status;
}

static lmc_status look_at_entry(description *description, const st_dir_entry *entry, int is_archive)
{
    static const char digits[] = "0123456789";
    const lmc_allocator *const memory = description->options->allocator;
    st_model *const model = description->model;
    if (entry->is_directory || st_copied_is_list(entry))
        return LMC_OK;
    model->file_count++;
    model->stored_nbytes += entry->nbytes;
    if (!is_archive) {
        model->original_nbytes += entry->nbytes;
        return LMC_OK;
    }
    if (model->is_directory) { /* numbers in a path do not count: they may be the step of a run */
        for (const char *at = entry->path; *at != '\0'; at += strspn(at, digits)) {
            const size_t text_nbytes = strcspn(at, digits);
            st_hasher_add(&description->schema, at, text_nbytes);
            at += text_nbytes;
            if (*at != '\0')
                st_hasher_add(&description->schema, "0", 1);
        }
        st_hasher_add(&description->schema, "", 1);
    } else {
        model->time_s = entry->attributes.modified_s;
    }
    st_tree_base base = {0};
    st_options own = *description->options;
    char *const path = lmc_path_join(memory, description->folder->path, entry->path, "");
    lmc_status status = path ? LMC_OK : st_fail_nomem(description->diag);
    own.base = NULL;
    own.base_dirs = &description->folder->base_dir;
    own.base_dir_count = description->folder->base_dir ? 1 : 0;
    const st_options dirs = own;
    if (status == LMC_OK)
        status = st_tree_base_find(&base, &dirs, entry->path, 1, &own, description->diag);
    if (status == LMC_OK) {
        st_diag_set_file(description->diag, path);
        status = look_at_archive(description, path, entry, &own);
    }
    st_tree_base_free(&base, memory);
    st_release(memory, path);
    return status;
}

lmc_status st_model_describe(const st_model_folder *folder, const st_options *options, st_model *model,
                             uint64_t *schema, lmc_st_diag *diag)
{
    st_listing tree;
    unsigned char *is_archive = NULL;
    description description = {.folder = folder, .options = options, .model = model, .diag = diag};
    *model = (st_model){.name = st_duplicate(options->allocator, folder->name)};
    if (!model->name)
        return st_fail_nomem(diag);
    if (folder->is_run)
        (void)!st_step_is_name(folder->name, strlen(folder->name), &model->step);
    lmc_status status = st_listing_read(&tree, options->allocator, folder->path, diag);
    if (status == LMC_OK) {
        model->is_directory = st_listing_find(&tree, LMC_COPIES_LIST) != NULL;
        model->time_s = tree.root.modified_s;
        status = st_copied_find_archives(&tree, folder->path, &is_archive, diag);
    }
    st_hasher_init(&description.schema);
    for (size_t i = 0; i < tree.count && status == LMC_OK; i++)
        status = st_is_cancelled(options->cancel)
                     ? st_fail_cancelled(diag)
                     : look_at_entry(&description, &tree.entries[i], is_archive[i]);
    if (schema)
        *schema = st_hasher_finish(&description.schema);
    st_release(options->allocator, is_archive);
    st_listing_free(&tree);
    return status;
}

lmc_status st_model_find_archive(const lmc_allocator *memory, const char *folder, char **path,
                                 lmc_st_diag *diag)
{
    st_listing tree;
    *path = NULL;
    lmc_status status = st_listing_read(&tree, memory, folder, diag);
    if (status == LMC_OK && (tree.count != 1 || !st_copied_is_to_be_listed(&tree.entries[0])))
        status = st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                         "holds something else than the one archive of a file");
    if (status == LMC_OK) {
        *path = lmc_path_join(memory, folder, tree.entries[0].path, "");
        status = *path ? LMC_OK : st_fail_nomem(diag);
    }
    st_listing_free(&tree);
    return status;
}
