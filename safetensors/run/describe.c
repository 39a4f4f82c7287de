/*
 * describe.c - run/describe.h: every archive of a step is opened, and its base is looked for.
 */
#include "safetensors/run/describe.h"

#include "safetensors/archive/table.h"
#include "safetensors/base/folders.h"
#include "safetensors/base/open.h"
#include "safetensors/common/names.h"
#include "safetensors/restore/damage.h"
#include "safetensors/tree/base.h"
#include "safetensors/tree/copied.h"

#include <errno.h>
#include <string.h>

typedef struct description {
    const st_run_folder *folder;
    const lmc_st_options *options;
    lmc_st_run_step *step;
    st_hasher schema;
    lmc_st_diag *diag;
} description;

/* ---- names and shapes ---- */

static void add_number(description *description, uint64_t number)
{
    unsigned char bytes[8];
    st_store_u64(bytes, number);
    st_hasher_add(&description->schema, bytes, sizeof bytes);
}

/* Of another file than a safetensors file, dtype and shape of a tensor may be what a sample has told. */
static lmc_status add_tensors(description *description, const lmc_st_file *file)
{
    const int is_told = file->container == LMC_ST_CONTAINER_SAFETENSORS;
    add_number(description, file->header.tensor_count);
    for (uint64_t i = 0; i < file->header.tensor_count; i++) {
        lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
        if (st_file_tensor(file, i, &tensor) != LMC_OK)
            return st_fail_nomem(description->diag);
        add_number(description, tensor.name_nbytes);
        st_hasher_add(&description->schema, tensor.name, tensor.name_nbytes);
        add_number(description, tensor.nbytes);
        add_number(description, is_told ? (uint64_t)tensor.dtype : 0);
        for (size_t dim = 0; dim < tensor.rank && is_told; dim++)
            add_number(description, tensor.shape[dim]);
    }
    return LMC_OK;
}

/* Of a file in a directory. Numbers do not count: they may be the step. */
static void add_path(description *description, const char *path)
{
    static const char digits[] = "0123456789";
    while (*path != '\0') {
        const size_t text_nbytes = strcspn(path, digits);
        st_hasher_add(&description->schema, path, text_nbytes);
        path += text_nbytes;
        if (*path != '\0')
            st_hasher_add(&description->schema, "0", 1);
        path += strspn(path, digits);
    }
    st_hasher_add(&description->schema, "", 1);
}

/* ---- bases ---- */

/* The step that a file of the run belongs to. Returns 0 if it is none; -1 if memory ran out. */
static int step_of_path(const description *description, const char *path, uint64_t *step)
{
    const lmc_allocator *const memory = description->options->allocator;
    const size_t length = strlen(description->folder->run);
    char *const true_path = os_true_path(memory, path);
    const int is_within =
        true_path && os_true_is_within(true_path, description->folder->run) && true_path[length] == '/';
    const char *const name = is_within ? true_path + length + 1 : "";
    const int is_step = st_step_is_name(name, strcspn(name, "/"), step);
    if (!true_path && errno == ENOMEM)
        return -1;
    st_release(memory, true_path);
    return is_step;
}

static void set_base(lmc_st_run_step *step, uint64_t base)
{
    const int is_same = !step->has_base || step->base == base;
    step->has_base = 1;
    step->base = is_same && base < step->step ? base : LMC_ST_RUN_UNKNOWN;
}

/* Errors: those that say nothing of the archive. */
static lmc_status look_at_base(const description *description, const lmc_st_file *file)
{
    const lmc_st_file *base = NULL;
    uint64_t step = LMC_ST_RUN_UNKNOWN;
    const lmc_status status = st_file_open_base(file, &base, description->diag);
    if (status != LMC_OK && !st_is_damage(status))
        return status;
    const int is_step = base ? step_of_path(description, base->path, &step) : 0;
    if (is_step < 0)
        return st_fail_nomem(description->diag);
    if (file->base)
        set_base(description->step, is_step ? step : LMC_ST_RUN_UNKNOWN);
    return LMC_OK;
}

/* ---- files ---- */

/* An archive that cannot be read counts with its own size. */
static lmc_status look_at_archive(description *description, const char *path, const os_entry *entry,
                                  const lmc_st_options *own)
{
    lmc_st_file *file = NULL;
    lmc_status status = st_file_open_input(path, own, &file, description->diag);
    if (status == LMC_OK && file->is_archive) {
        description->step->file_nbytes += file->file_nbytes;
        status = look_at_base(description, file);
        if (status == LMC_OK)
            status = add_tensors(description, file);
    } else if (status == LMC_OK || st_is_damage(status) || status == LMC_ERR_HEADER) {
        description->step->file_nbytes += entry->nbytes;
        set_base(description->step, LMC_ST_RUN_UNKNOWN);
        status = LMC_OK;
    }
    lmc_st_close(file);
    return status;
}

static lmc_status look_at_entry(description *description, const os_entry *entry, int is_archive)
{
    const lmc_allocator *const memory = description->options->allocator;
    lmc_st_run_step *const step = description->step;
    if (entry->is_directory || st_copied_is_list(entry))
        return LMC_OK;
    step->file_count++;
    step->stored_nbytes += entry->nbytes;
    if (!is_archive) {
        step->file_nbytes += entry->nbytes;
        return LMC_OK;
    }
    if (step->is_directory)
        add_path(description, entry->path);
    else
        step->time_s = entry->attributes.modified_s;
    st_tree_base base = {0};
    lmc_st_options own = *description->options;
    char *const path = os_path_join(memory, description->folder->path, entry->path, "");
    lmc_status status = path ? LMC_OK : st_fail_nomem(description->diag);
    own.base = NULL;
    own.base_dirs = &description->folder->base_dir;
    own.base_dir_count = description->folder->base_dir ? 1 : 0;
    const lmc_st_options dirs = own;
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

static lmc_status describe_tree(description *description, const os_tree *tree, uint64_t *schema)
{
    unsigned char *is_archive = NULL;
    lmc_st_run_step *const step = description->step;
    step->is_directory = os_tree_find(tree, ST_COPIED_NAME) != NULL;
    step->time_s = tree->root.modified_s;
    st_hasher_init(&description->schema);
    lmc_status status =
        st_copied_find_archives(tree, description->folder->path, &is_archive, description->diag);
    for (size_t i = 0; i < tree->count && status == LMC_OK; i++)
        status = st_is_cancelled(description->options->cancel)
                     ? st_fail_cancelled(description->diag)
                     : look_at_entry(description, &tree->entries[i], is_archive[i]);
    st_release(description->options->allocator, is_archive);
    if (schema)
        *schema = st_hasher_finish(&description->schema);
    return status;
}

lmc_status st_run_describe(const st_run_folder *folder, const lmc_st_options *options, lmc_st_run_step *step,
                           uint64_t *schema, lmc_st_diag *diag)
{
    os_tree tree;
    description description = {.folder = folder, .options = options, .step = step, .diag = diag};
    *step = (lmc_st_run_step)LMC_INIT(lmc_st_run_step);
    step->step = folder->step;
    lmc_status status = os_tree_read(&tree, options->allocator, folder->path, diag);
    if (status == LMC_OK)
        status = describe_tree(&description, &tree, schema);
    os_tree_free(&tree);
    return status;
}

lmc_status st_run_find_archive(const lmc_allocator *memory, const char *folder, char **path,
                               lmc_st_diag *diag)
{
    os_tree tree;
    *path = NULL;
    lmc_status status = os_tree_read(&tree, memory, folder, diag);
    if (status == LMC_OK && (tree.count != 1 || !st_copied_is_to_be_listed(&tree.entries[0])))
        status = st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                         "holds something else than the one archive of a file");
    if (status == LMC_OK) {
        *path = os_path_join(memory, folder, tree.entries[0].path, "");
        status = *path ? LMC_OK : st_fail_nomem(diag);
    }
    os_tree_free(&tree);
    return status;
}
