/*
 * check.c - verifies the archives of a directory, compares them with the directory that they were made from, and visits
 * them.
 */
#include "safetensors/tree/check.h"

#include "safetensors/common/parts.h"
#include "safetensors/files/directories.h"
#include "safetensors/header/shard_index.h"
#include "safetensors/restore/restore.h"
#include "safetensors/tree/copied.h"
#include "safetensors/tree/tree_base.h"

#include <string.h>

/* ---- verify ---- */

/* What is looked at: archives, plain safetensors files, indexes. */
static int is_verified(const st_dir_entry *entry, int is_archive)
{
    return !entry->is_directory &&
           (is_archive || lmc_is_plain_name(entry->path) || st_index_is_name(entry->path));
}

static int goes_on_after(lmc_status status)
{
    return st_is_damage(status) || status == LMC_ERR_HEADER || status == LMC_ERR_IO;
}

static lmc_status verify_entry(const char *root, const st_dir_entry *entry, int is_archive,
                               const st_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_result one = {0};
    char *const path = lmc_path_join(options->allocator, root, entry->path, "");
    if (!path)
        return st_fail_nomem(diag);
    st_tree_base base;
    st_options own = *options;
    const int is_index = !is_archive && st_index_is_name(entry->path);
    lmc_status status = st_tree_base_find(&base, options, entry->path, is_archive, &own, diag);
    if (status == LMC_OK)
        status = is_index ? st_index_check(options->allocator, path, LMC_ARCHIVE_SUFFIX, diag)
                          : st_verify_file(path, &own, &one, diag);
    if (status == LMC_OK && is_archive && !one.is_archive)
        status = st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "is a plain file, not an LMC archive");
    st_tree_base_free(&base, options->allocator);
    st_release(options->allocator, path);
    result->file_count += !is_index;
    result->original_nbytes += one.original_nbytes;
    result->stored_nbytes += one.stored_nbytes;
    result->tensor_count += one.tensor_count;
    result->damaged_count += one.damaged_count;
    result->is_archive |= one.is_archive;
    if (status != LMC_OK && one.damaged_count == 0 && options->damage && goes_on_after(status))
        options->damage(options->user, diag);
    if (status == LMC_OK && !is_index && options->file_done)
        options->file_done(options->user, entry->path, LMC_ST_EVENT_VERIFIED, entry->nbytes,
                           one.original_nbytes);
    return status;
}

/* A fault of one file does not keep the others from being verified; the first is the call's. */
lmc_status st_tree_verify(const char *in_path, const st_options *options, lmc_st_result *result,
                          lmc_st_diag *diag)
{
    st_listing tree = {0};
    unsigned char *is_archive = NULL;
    st_parts parts = {.options = options};
    const st_options inner = st_parts_options(&parts);
    lmc_st_diag first;
    lmc_status worst = LMC_OK;
    lmc_status status = st_tree_base_check(options, diag);
    if (status == LMC_OK && options->sha256)
        status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is a directory: it has no SHA-256");
    if (status == LMC_OK)
        status = st_listing_read(&tree, options->allocator, in_path, diag);
    if (status == LMC_OK)
        status = st_copied_find_archives(&tree, in_path, &is_archive, diag);
    for (size_t i = 0; i < tree.count && status == LMC_OK; i++)
        parts.total_nbytes += is_verified(&tree.entries[i], is_archive[i]) ? tree.entries[i].nbytes : 0;
    for (size_t i = 0; i < tree.count && status == LMC_OK; i++) {
        const st_dir_entry *const entry = &tree.entries[i];
        if (!is_verified(entry, is_archive[i]))
            continue;
        st_parts_begin(&parts, entry->nbytes);
        status = verify_entry(in_path, entry, is_archive[i], &inner, result, diag);
        st_parts_end(&parts);
        if (goes_on_after(status)) {
            first = worst == LMC_OK ? *diag : first;
            worst = worst == LMC_OK ? status : worst;
            status = LMC_OK;
        }
    }
    if (status == LMC_OK && worst != LMC_OK) {
        *diag = first;
        status = worst;
    } else if (status == LMC_OK && result->file_count == 0) {
        st_diag_set_file(diag, in_path);
        status = st_fail(
            diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
            "holds neither archives nor *.safetensors files: nothing else is verified in a directory");
    }
    st_release(options->allocator, is_archive);
    st_listing_free(&tree);
    return status;
}

/* ---- compare ---- */

/* A converted directory, and the one that it was made from. */
typedef struct comparison {
    const char *stored_root, *plain_root;
    st_listing stored, plain;
    unsigned char *is_archive; /* of each entry of `stored` */
    const st_options *options;
} comparison;

/* Fails with CHECKSUM at an entry of the directory `root`. */
static lmc_status fail_at_entry(const comparison *both, const char *root, const st_dir_entry *entry,
                                const char *text, lmc_st_diag *diag)
{
    char *const path = lmc_path_join(both->options->allocator, root, entry->path, "");
    if (!path)
        return st_fail_nomem(diag);
    st_diag_set_file(diag, path);
    st_release(both->options->allocator, path);
    return st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET, "%s", text);
}

/* Compares a file with its copy in the directory of archives. */
static lmc_status compare_copy(const char *plain, const char *stored, const st_options *options,
                               lmc_st_diag *diag)
{
    st_input copy = {.fd = -1};
    st_input file = {.fd = -1};
    int is_equal = 0;
    st_diag_set_file(diag, plain);
    lmc_status status = st_input_open(&file, plain, diag);
    st_diag_set_file(diag, status == LMC_OK ? stored : plain);
    if (status == LMC_OK)
        status = st_input_open(&copy, stored, diag);
    if (status == LMC_OK)
        status = st_input_compare(&copy, &file, options, &is_equal, diag);
    if (status == LMC_OK && !is_equal)
        status =
            st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET, "the copy has other content than the file");
    if (status == LMC_OK)
        status = st_input_check_unchanged(&copy, diag);
    if (status == LMC_OK) {
        st_diag_set_file(diag, plain);
        status = st_input_check_unchanged(&file, diag);
    }
    st_input_close(&copy);
    st_input_close(&file);
    return status;
}

static lmc_status compare_entry(const comparison *both, const st_dir_entry *entry, const st_options *options,
                                lmc_st_diag *diag)
{
    const lmc_allocator *const memory = options->allocator;
    char *const archive = lmc_path_join(memory, "", entry->path, LMC_ARCHIVE_SUFFIX);
    const st_dir_entry *const found =
        archive && !entry->is_directory ? st_listing_find(&both->stored, archive) : NULL;
    const int has_archive = found && both->is_archive[found - both->stored.entries];
    char *const plain = lmc_path_join(memory, both->plain_root, entry->path, "");
    char *const stored =
        lmc_path_join(memory, both->stored_root, entry->path, has_archive ? LMC_ARCHIVE_SUFFIX : "");
    const st_dir_entry *const copy = st_listing_find(&both->stored, entry->path);
    st_tree_base base = {0};
    st_options own = *options;
    lmc_status status = LMC_OK;
    if (!archive || !plain || !stored) {
        status = st_fail_nomem(diag);
    } else if (has_archive) {
        status = st_tree_base_find(&base, options, entry->path, 0, &own, diag);
        status = status == LMC_OK ? st_compare_files(stored, -1, plain, &own, diag) : status;
    } else if (!copy || copy->is_directory != entry->is_directory) {
        status = fail_at_entry(both, both->plain_root, entry, "is not in the directory of archives", diag);
    } else if (!entry->is_directory) {
        status = compare_copy(plain, stored, options, diag);
    }
    st_tree_base_free(&base, memory);
    st_release(memory, archive);
    st_release(memory, plain);
    st_release(memory, stored);
    return status;
}

lmc_status st_tree_compare(const char *archive_path, const char *plain_path, const st_options *options,
                           lmc_st_diag *diag)
{
    comparison both = {.stored_root = archive_path, .plain_root = plain_path, .options = options};
    st_parts parts = {.options = options};
    const st_options inner = st_parts_options(&parts);
    lmc_status status = st_tree_base_check(options, diag);
    if (status == LMC_OK)
        status = st_listing_read(&both.stored, options->allocator, archive_path, diag);
    if (status == LMC_OK)
        status = st_copied_find_archives(&both.stored, archive_path, &both.is_archive, diag);
    if (status == LMC_OK)
        status = st_listing_read(&both.plain, options->allocator, plain_path, diag);
    if (status == LMC_OK && st_listing_find(&both.plain, LMC_COPIES_LIST))
        status = st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET,
                         "holds a file " LMC_COPIES_LIST ": it is a converted directory itself");
    for (size_t i = 0; i < both.plain.count; i++)
        parts.total_nbytes += both.plain.entries[i].is_directory ? 0 : both.plain.entries[i].nbytes;
    /* something that has come since to the archives' directory has no match, and would be lost with it */
    for (size_t i = 0; i < both.stored.count && status == LMC_OK; i++) {
        const st_dir_entry *const entry = &both.stored.entries[i];
        const size_t suffix_nbytes = both.is_archive[i] ? strlen(LMC_ARCHIVE_SUFFIX) : 0;
        if (!st_copied_is_list(entry) && !st_listing_find_original(&both.plain, entry->path, suffix_nbytes))
            status = fail_at_entry(&both, archive_path, entry, "is not in the directory it is compared with",
                                   diag);
    }
    for (size_t i = 0; i < both.plain.count && status == LMC_OK; i++) {
        const st_dir_entry *const entry = &both.plain.entries[i];
        st_parts_begin(&parts, entry->is_directory ? 0 : entry->nbytes);
        status = compare_entry(&both, entry, &inner, diag);
        if (status == LMC_OK)
            st_parts_end(&parts);
    }
    st_release(options->allocator, both.is_archive);
    st_listing_free(&both.plain);
    st_listing_free(&both.stored);
    return status;
}

/* ---- visit ---- */

lmc_status st_tree_visit(const char *in_path, const st_options *options, int is_strict,
                         int (*visit)(void *user, const lmc_st_file *file), void *user, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = options->allocator;
    st_listing tree = {0};
    unsigned char *is_archive = NULL;
    int is_over = 0;
    lmc_status status = st_tree_base_check(options, diag);
    if (status == LMC_OK)
        status = st_listing_read(&tree, memory, in_path, diag);
    if (status == LMC_OK)
        status = st_copied_find_archives(&tree, in_path, &is_archive, diag);
    for (size_t i = 0; i < tree.count && status == LMC_OK && !is_over; i++) {
        if (!is_archive[i])
            continue;
        st_tree_base base;
        lmc_st_file *file = NULL;
        st_options own = *options;
        char *const path = lmc_path_join(memory, in_path, tree.entries[i].path, "");
        status = st_tree_base_find(&base, options, tree.entries[i].path, 1, &own, diag);
        if (status == LMC_OK)
            status = path ? st_file_open_input(path, &own, &file, diag) : st_fail_nomem(diag);
        if (status == LMC_OK)
            is_over = visit(user, file);
        else if (!is_strict && goes_on_after(status))
            status = LMC_OK;
        lmc_st_close(file);
        st_release(memory, path);
        st_tree_base_free(&base, memory);
    }
    st_release(memory, is_archive);
    st_listing_free(&tree);
    return status;
}

/* ---- entries ---- */

lmc_status lmc_st_visit_entries(const char *in_path, const lmc_st_options *options, lmc_st_entry_fn visit,
                                void *user, lmc_st_diag *diag)
{
    st_call call;
    st_listing tree = {0};
    unsigned char *is_archive = NULL;
    lmc_status status = st_call_begin_plain(&call, in_path, options, diag);
    if (status == LMC_OK)
        status = st_listing_read(&tree, call.options.allocator, in_path, call.diag);
    if (status == LMC_OK)
        status = st_copied_find_archives(&tree, in_path, &is_archive, call.diag);
    int is_over = 0;
    for (size_t i = 0; i < tree.count && status == LMC_OK && !is_over; i++) {
        const st_dir_entry *const entry = &tree.entries[i];
        if (!st_copied_is_list(entry))
            is_over = visit(user, entry->path,
                            entry->is_directory ? LMC_ST_ENTRY_FOLDER
                            : is_archive[i]     ? LMC_ST_ENTRY_ARCHIVE
                                                : LMC_ST_ENTRY_COPY);
    }
    st_release(call.options.allocator, is_archive);
    st_listing_free(&tree);
    return st_call_end(&call, status);
}

lmc_status lmc_st_open_entry(const char *in_path, const char *entry_path,
                             const lmc_st_compare_options *options, lmc_st_file **file, lmc_st_diag *diag)
{
    st_call call;
    st_tree_base base = {0};
    *file = NULL;
    lmc_status status = st_call_begin_compare(&call, in_path, options, diag);
    st_options own = call.options;
    char *const path = lmc_path_join(own.allocator, in_path, entry_path, "");
    if (status == LMC_OK)
        status = !path ? st_fail_nomem(call.diag) : st_tree_base_check(&call.options, call.diag);
    if (status == LMC_OK)
        status = st_tree_base_find(&base, &call.options, entry_path, lmc_is_archive_name(entry_path), &own,
                                   call.diag);
    if (status == LMC_OK)
        status = st_file_open_input(path, &own, file, call.diag);
    st_tree_base_free(&base, own.allocator);
    st_release(own.allocator, path);
    return st_call_end(&call, status);
}

lmc_status lmc_st_visit_archives(const char *in_path, const lmc_st_compare_options *options,
                                 int (*visit)(void *user, const lmc_st_file *file), void *user,
                                 lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin_compare(&call, in_path, options, diag);
    if (status == LMC_OK)
        status = st_tree_visit(in_path, &call.options, 1, visit, user, call.diag);
    return st_call_end(&call, status);
}
