/*
 * decide.c - tree/work.h: which files of a directory are converted or restored, and which are copied: by their names,
 * by the caller's patterns, and by their content.
 */
#include "safetensors/tree/work.h"

#include "safetensors/base/content.h"
#include "safetensors/base/open.h"
#include "safetensors/restore/damage.h"
#include "safetensors/tree/copied.h"

#include <string.h>

static size_t index_of(const st_tree_work *work, const os_entry *entry)
{
    return (size_t)(entry - work->tree.entries);
}

/* ---- by names ---- */

static int is_excluded(const lmc_st_options *options, const char *path)
{
    const char *const slash = strrchr(path, '/');
    for (size_t i = 0; i < options->exclude_count; i++)
        if (os_path_matches(options->excludes[i], path) ||
            (slash && os_path_matches(options->excludes[i], slash + 1)))
            return 1;
    return 0;
}

lmc_status st_tree_decide_by_names(st_tree_work *work)
{
    const os_tree *const tree = &work->tree;
    if (work->direction == ST_FROM_ARCHIVES)
        return st_copied_find_archives(tree, work->in_path, &work->is_worked, work->diag);
    work->is_worked = st_allocate_zeroed(work->options->allocator, tree->count, 1);
    if (!work->is_worked)
        return st_fail_nomem(work->diag);
    for (size_t i = 0; i < tree->count; i++) {
        const os_entry *const entry = &tree->entries[i];
        work->is_worked[i] =
            !entry->is_directory && st_is_plain_name(entry->path) && !is_excluded(work->options, entry->path);
    }
    if (!os_tree_find(tree, ST_COPIED_NAME))
        return LMC_OK;
    return st_tree_refuse(work, work->in_path, LMC_ERR_ARG,
                          "holds a file " ST_COPIED_NAME
                          ", a name that converted directories use themselves");
}

/* ---- by content ---- */

/* *is_known: the file looks like one that can be converted. */
static lmc_status look_at(const st_tree_work *work, const char *path, int *is_known)
{
    os_input input;
    st_diag_init(work->diag, path);
    ST_TRY(os_input_open(&input, path, work->diag));
    const st_reading reading = {
        .input = &input, .path = path, .memory = work->options->allocator, .cancel = work->options->cancel};
    const lmc_status status = st_contents_look(&reading, is_known, work->diag);
    os_input_close(&input);
    return status;
}

/* Nothing may be found missing, or be a file without tensors, when half of the output is written. */
static lmc_status check_file_base(const st_tree_work *work, const lmc_st_file *file)
{
    lmc_st_file *base = NULL;
    if (work->direction == ST_FROM_ARCHIVES)
        return st_content_open_files(file, work->diag);
    if (!work->base.path)
        return LMC_OK;
    const st_open how = {.path = work->base.path, .fd = -1, .allocator = work->options->allocator};
    const lmc_status status = st_file_open(&how, &base, work->diag);
    lmc_st_close(base);
    return status;
}

/* Opens a file that is to be worked on, which must be what that needs. */
static lmc_status open_file(const st_tree_work *work, const char *path, lmc_st_file **file)
{
    lmc_status status = st_file_open_input(path, &work->inner, file, work->diag);
    if (status == LMC_OK && work->direction == ST_TO_ARCHIVES && (*file)->is_archive)
        status = st_tree_refuse(work, path, LMC_ERR_CORRUPT, "is an LMC archive already");
    if (status == LMC_OK && work->direction == ST_FROM_ARCHIVES && !(*file)->is_archive)
        status = st_tree_refuse(work, path, LMC_ERR_CORRUPT, "is a plain file, not an LMC archive");
    return status;
}

/* 1 if the file is at fault, and not the system or the caller. */
static int is_refused(lmc_status status)
{
    return st_is_damage(status) || status == LMC_ERR_HEADER;
}

/* Tells the caller that a file which looks like one to be converted is copied, and why: the diagnostic has that. */
static void warn_of_copy(st_tree_work *work)
{
    lmc_st_diag *const diag = work->diag;
    const char tail[] = ": it is copied as it is";
    const size_t used = strlen(diag->text);
    const size_t most = sizeof diag->text - sizeof tail;
    memcpy(diag->text + (used < most ? used : most), tail, sizeof tail);
    if (work->options->warning)
        work->options->warning(work->options->user, diag);
    st_diag_init(diag, work->in_path);
}

lmc_status st_tree_decide_by_content(st_tree_work *work, const os_entry *entry)
{
    lmc_st_file *file = NULL;
    unsigned char *const is_worked = &work->is_worked[index_of(work, entry)];
    const int is_named = *is_worked;
    int is_known = is_named;
    char *const path = os_path_join(work->options->allocator, work->in_path, entry->path, "");
    lmc_status status = path ? LMC_OK : st_fail_nomem(work->diag);
    if (status == LMC_OK && !is_named && work->direction == ST_TO_ARCHIVES &&
        !is_excluded(work->options, entry->path))
        status = look_at(work, path, &is_known);
    if (status == LMC_OK && is_known)
        status = st_tree_choose_base(work, entry);
    if (status == LMC_OK && is_known) {
        status = open_file(work, path, &file);
        *is_worked = status == LMC_OK;
        if (status == LMC_OK) {
            status = check_file_base(work, file);
        } else if (!is_named && is_refused(status)) {
            warn_of_copy(work);
            status = LMC_OK;
        }
    }
    lmc_st_close(file);
    st_release(work->options->allocator, path);
    return status;
}
