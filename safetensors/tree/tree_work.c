/*
 * tree_work.c - tree/tree_work.h: which files of a directory are converted or restored, and which are copied: by their
 * names, by the caller's patterns, and by their content; and what cannot be done. Nothing is written here.
 */
#include "safetensors/tree/tree_work.h"

#include "safetensors/base/content.h"
#include "safetensors/base/search.h"
#include "safetensors/header/shard_index.h"
#include "safetensors/restore/damage.h"
#include "safetensors/tree/copied.h"

#include <errno.h>
#include <string.h>

/* ---- what is asked of one entry ---- */

int st_tree_is_worked_on(const st_tree_work *work, const st_dir_entry *entry)
{
    return work->is_worked[entry - work->tree.entries];
}

char *st_tree_output_path(const st_tree_work *work, const st_dir_entry *entry, const char *root)
{
    const lmc_allocator *const memory = work->options->allocator;
    const int is_worked = st_tree_is_worked_on(work, entry);
    char *const path = lmc_path_join(
        memory, root, entry->path, is_worked && work->direction == ST_TO_ARCHIVES ? LMC_ARCHIVE_SUFFIX : "");
    if (path && is_worked && work->direction == ST_FROM_ARCHIVES)
        path[strlen(path) - strlen(LMC_ARCHIVE_SUFFIX)] = '\0';
    return path;
}

lmc_status st_tree_refuse(const st_tree_work *work, const char *path, lmc_status status, const char *text)
{
    st_diag_set_file(work->diag, path);
    return st_fail(work->diag, status, LMC_ST_NO_OFFSET, "%s", text);
}

lmc_status st_tree_choose_base(st_tree_work *work, const st_dir_entry *entry)
{
    const lmc_allocator *const memory = work->options->allocator;
    st_tree_base *const base = &work->base;
    st_tree_base_free(base, memory);
    LMC_TRY(st_tree_base_find(base, work->options, entry->path, work->direction == ST_FROM_ARCHIVES,
                              &work->inner, work->diag));
    if (work->direction == ST_FROM_ARCHIVES || base->path || !base->folder)
        return LMC_OK;
    char *const path = lmc_path_join(memory, work->in_path, entry->path, "");
    const lmc_status status = !path ? st_fail_nomem(work->diag)
                                    : st_renamed_find(&work->base_names, work->options, base->folder, path,
                                                      &base->path, work->diag);
    st_release(memory, path);
    work->inner.base = base->path;
    return status;
}

/* ---- by names ---- */

static int is_excluded(const st_options *options, const char *path)
{
    for (size_t i = 0; i < options->exclude_count; i++)
        if (os_matches(options->excludes[i], path) ||
            os_matches(options->excludes[i], lmc_last_component(path)))
            return 1;
    return 0;
}

/* ---- by content ---- */

/* *is_known: the content of the file is that of a container. */
static lmc_status look_at_content(const st_options *options, const char *path, int *is_known,
                                  lmc_st_diag *diag)
{
    st_input input;
    st_diag_init(diag, path);
    LMC_TRY(st_input_open(&input, path, diag));
    const st_reading reading = {
        .input = &input, .path = path, .memory = options->allocator, .cancel = options->cancel};
    const lmc_status status = st_contents_look(&reading, is_known, diag);
    st_input_close(&input);
    return status;
}

/* Decides for a file what its content tells, and opens it, and its base, if it is worked on: nothing may be found
 * missing, or be a file without tensors, when half of the output is written. Errors: what opening them gives. */
static lmc_status decide_by_content(st_tree_work *work, const st_dir_entry *entry)
{
    lmc_st_file *file = NULL;
    lmc_st_file *base = NULL;
    const st_options *const options = work->options;
    lmc_st_diag *const diag = work->diag;
    const int is_forward = work->direction == ST_TO_ARCHIVES;
    unsigned char *const is_worked = &work->is_worked[entry - work->tree.entries];
    const int is_named = *is_worked;
    int is_known = is_named;
    char *const path = lmc_path_join(options->allocator, work->in_path, entry->path, "");
    lmc_status status = path ? LMC_OK : st_fail_nomem(diag);
    if (status == LMC_OK && !is_named && is_forward && !is_excluded(options, entry->path))
        status = look_at_content(options, path, &is_known, diag);
    if (status == LMC_OK && is_known)
        status = st_tree_choose_base(work, entry);
    if (status == LMC_OK && is_known) {
        status = st_file_open_input(path, &work->inner, &file, diag);
        if (status == LMC_OK && file->is_archive == is_forward)
            status = st_tree_refuse(work, path, LMC_ERR_CORRUPT,
                                    is_forward ? "is an LMC archive already"
                                               : "is a plain file, not an LMC archive");
        *is_worked = status == LMC_OK;
        if (status == LMC_OK && !is_forward) {
            status = st_content_open_files(file, diag);
        } else if (status == LMC_OK && work->base.path) {
            const st_open how = {.path = work->base.path, .fd = -1, .allocator = options->allocator};
            status = st_file_open(&how, &base, diag);
        } else if (!is_named && (st_is_damage(status) || status == LMC_ERR_HEADER)) {
            /* a file that looks like one to be converted is copied: the diagnostic has the reason */
            static const char tail[] = ": it is copied as it is";
            const size_t used = strlen(diag->text);
            const size_t most = sizeof diag->text - sizeof tail;
            memcpy(diag->text + (used < most ? used : most), tail, sizeof tail);
            if (options->warning)
                options->warning(options->user, diag);
            st_diag_init(diag, work->in_path);
            status = LMC_OK;
        }
    }
    lmc_st_close(base);
    lmc_st_close(file);
    st_release(options->allocator, path);
    return status;
}

/* ---- what cannot be done ---- */

/* The output's names are longer than those of the input by a suffix, or its file system takes shorter ones, or the
 * system does not have such names. Files are read by paths, which have a limit too. */
static lmc_status check_name(const st_tree_work *work, const st_dir_entry *entry)
{
    const lmc_allocator *const memory = work->options->allocator;
    char *const path = lmc_path_join(memory, work->in_path, entry->path, "");
    char *const out_path = st_tree_output_path(work, entry, work->out_path);
    int os_errno = ENAMETOOLONG;
    lmc_status status = LMC_OK;
    if (!path || !out_path) {
        status = st_fail_nomem(work->diag);
    } else {
        const size_t nbytes = strlen(lmc_last_component(out_path));
        const size_t path_nbytes = strlen(strlen(path) > strlen(out_path) ? path : out_path);
        const char *const fault = os_name_fault(out_path);
        st_diag_set_file(work->diag, path);
        if (fault) {
            os_errno = EINVAL;
            status = st_fail(work->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "its name %s", fault);
        } else if (nbytes > work->name_nbytes_max) {
            status = st_fail(work->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                             "its name in the output would have %zu bytes, %zu are the most there", nbytes,
                             work->name_nbytes_max);
        } else if (path_nbytes > os_path_nbytes_max()) {
            status = st_fail(work->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                             "its path here or in the output has %zu bytes, %zu are the most", path_nbytes,
                             os_path_nbytes_max());
        }
    }
    if (status == LMC_ERR_ARG)
        work->diag->os_errno = os_errno;
    st_release(memory, path);
    st_release(memory, out_path);
    return status;
}

/* Decides for all entries what their names tell, then what their content does. Names first: a path that is too long
 * cannot be opened. */
static lmc_status decide(st_tree_work *work)
{
    const st_listing *const tree = &work->tree;
    if (work->direction == ST_FROM_ARCHIVES) {
        LMC_TRY(st_copied_find_archives(tree, work->in_path, &work->is_worked, work->diag));
    } else {
        work->is_worked = st_allocate_zeroed(work->options->allocator, tree->count, 1);
        if (!work->is_worked)
            return st_fail_nomem(work->diag);
        for (size_t i = 0; i < tree->count; i++)
            work->is_worked[i] = !tree->entries[i].is_directory && lmc_is_plain_name(tree->entries[i].path) &&
                                 !is_excluded(work->options, tree->entries[i].path);
        if (st_listing_find(tree, LMC_COPIES_LIST))
            return st_tree_refuse(work, work->in_path, LMC_ERR_ARG,
                                  "holds a file " LMC_COPIES_LIST
                                  ", a name that converted directories use themselves");
    }
    for (size_t i = 0; i < tree->count; i++) {
        const st_dir_entry *const entry = &tree->entries[i];
        const int is_worked = work->is_worked[i];
        if (st_is_cancelled(work->options->cancel))
            return st_fail_cancelled(work->diag);
        LMC_TRY(check_name(work, entry));
        if (!entry->is_directory)
            LMC_TRY(decide_by_content(work, entry));
        if (work->is_worked[i] != is_worked)
            LMC_TRY(check_name(work, entry));
    }
    return LMC_OK;
}

/* The store of chunks that a file of this name is the head of, or NULL. Chunks are compressed by their writer. */
static const char *chunk_store_of(const st_dir_entry *entry)
{
    const char *const name = lmc_last_component(entry->path);
    if (strcmp(name, "manifest.ocdbt") == 0)
        return "OCDBT (Orbax, TensorStore)";
    return strcmp(name, ".zarray") == 0 || strcmp(name, "zarr.json") == 0 ? "Zarr" : NULL;
}

/* Says once why the tensors of an Orbax checkpoint, or of a Zarr array, are not converted: as an error if nothing else
 * is. */
static lmc_status explain_store(const st_tree_work *work, const st_dir_entry *entry, int is_error)
{
    const lmc_allocator *const memory = work->options->allocator;
    lmc_st_diag *const diag = work->diag;
    char *const path = lmc_path_join(memory, work->in_path, entry->path, "");
    if (!path)
        return st_fail_nomem(diag);
    st_diag_set_file(diag, path);
    st_release(memory, path);
    const lmc_status status =
        st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "its store of chunks, %s, is compressed already%s",
                chunk_store_of(entry),
                is_error ? "; the directory holds no file that can be converted" : ": it is copied as it is");
    if (is_error)
        return status;
    if (work->options->warning)
        work->options->warning(work->options->user, diag);
    st_diag_init(diag, work->in_path);
    return LMC_OK;
}

lmc_status st_tree_check(st_tree_work *work)
{
    const st_dir_entry *store = NULL;
    const lmc_allocator *const memory = work->options->allocator;
    const int is_forward = work->direction == ST_TO_ARCHIVES;
    size_t worked_count = 0;
    LMC_TRY(decide(work));
    for (size_t i = 0; i < work->tree.count; i++) {
        const st_dir_entry *const entry = &work->tree.entries[i];
        if (entry->is_directory || st_copied_is_list(entry))
            continue;
        char *const path = lmc_path_join(memory, work->in_path, entry->path, "");
        char *const place = st_tree_output_path(work, entry, "");
        const st_dir_entry *const other = path && place ? st_listing_find(&work->tree, place) : NULL;
        lmc_status status = path && place ? LMC_OK : st_fail_nomem(work->diag);
        /* nothing that is copied, a directory included, may stand where the output of a file will */
        if (status == LMC_OK && work->is_worked[i] && other && !st_tree_is_worked_on(work, other))
            status = st_tree_refuse(work, path, LMC_ERR_ARG,
                                    is_forward ? "something stands where its archive would"
                                               : "something stands where it would be restored");
        else if (status == LMC_OK && !work->is_worked[i] && st_index_is_name(entry->path))
            status = st_index_check(memory, path, is_forward ? "" : LMC_ARCHIVE_SUFFIX, work->diag);
        st_release(memory, place);
        st_release(memory, path);
        if (status != LMC_OK)
            return status;
        store = store || !chunk_store_of(entry) ? store : entry;
        worked_count += work->is_worked[i];
        work->parts.total_nbytes += entry->nbytes;
    }
    if (is_forward && store)
        LMC_TRY(explain_store(work, store, worked_count == 0));
    if (worked_count == 0)
        return st_tree_refuse(work, work->in_path, LMC_ERR_ARG,
                              is_forward ? "holds no file that can be converted" : "holds no LMC archive");
    return !is_forward ? LMC_OK
                       : st_copied_list(&work->tree, work->is_worked, work->in_path, &work->copied,
                                        &work->copied_nbytes, work->diag);
}
