/*
 * check.c - verifies the archives of a directory, compares them with the directory that they were made from, and visits
 * them.
 */
#include "safetensors/tree/check.h"

#include "safetensors/common/names.h"
#include "safetensors/common/parts.h"
#include "safetensors/header/index.h"
#include "safetensors/os/dir.h"
#include "safetensors/restore/restore.h"
#include "safetensors/tree/base.h"
#include "safetensors/tree/copied.h"

#include <string.h>

#define PIECE_NBYTES ((size_t)1 << 16)

/* ---- verify ---- */

/* What is looked at: archives, plain safetensors files, indexes. */
static int is_verified(const os_entry *entry, int is_archive)
{
    return !entry->is_directory &&
           (is_archive || st_is_plain_name(entry->path) || st_index_is_name(entry->path));
}

static int goes_on_after(lmc_status status)
{
    return st_is_damage(status) || status == LMC_ERR_HEADER;
}

static lmc_status verify_entry(const char *root, const os_entry *entry, int is_archive,
                               const lmc_st_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_result one = {0};
    char *const path = os_path_join(options->allocator, root, entry->path, "");
    if (!path)
        return st_fail_nomem(diag);
    st_tree_base base;
    lmc_st_options own = *options;
    const int is_index = !is_archive && st_index_is_name(entry->path);
    lmc_status status = st_tree_base_find(&base, options, entry->path, is_archive, &own, diag);
    if (status == LMC_OK)
        status = is_index ? st_index_check(options->allocator, path, ST_ARCHIVE_SUFFIX, diag)
                          : st_verify_file(path, &own, &one, diag);
    if (status == LMC_OK && is_archive && !one.is_archive)
        status = st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "is a plain file, not an LMC archive");
    st_tree_base_free(&base, options->allocator);
    st_release(options->allocator, path);
    result->file_count += !is_index;
    result->file_nbytes += one.file_nbytes;
    result->stored_nbytes += one.stored_nbytes;
    result->tensor_count += one.tensor_count;
    result->damaged_count += one.damaged_count;
    result->is_archive |= one.is_archive;
    if (status != LMC_OK && one.damaged_count == 0 && options->damage && goes_on_after(status))
        options->damage(options->user, diag);
    if (status == LMC_OK && !is_index && options->file_done)
        options->file_done(options->user, entry->path, LMC_ST_EVENT_VERIFIED, entry->nbytes, one.file_nbytes);
    return status;
}

/* A fault of one file does not keep the others from being verified; the first is the call's. */
static lmc_status verify_entries(const char *root, const os_tree *tree, const unsigned char *is_archive,
                                 const lmc_st_options *options, lmc_st_result *result, lmc_st_diag *diag)
{
    st_parts parts = {.options = options};
    const lmc_st_options inner = st_parts_options(&parts);
    lmc_st_diag first;
    lmc_status worst = LMC_OK;
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < tree->count; i++)
        parts.total_nbytes += is_verified(&tree->entries[i], is_archive[i]) ? tree->entries[i].nbytes : 0;
    for (size_t i = 0; i < tree->count && status == LMC_OK; i++) {
        const os_entry *const entry = &tree->entries[i];
        if (!is_verified(entry, is_archive[i]))
            continue;
        st_parts_begin(&parts, entry->nbytes);
        status = verify_entry(root, entry, is_archive[i], &inner, result, diag);
        st_parts_end(&parts);
        if (goes_on_after(status)) {
            first = worst == LMC_OK ? *diag : first;
            worst = worst == LMC_OK ? status : worst;
            status = LMC_OK;
        }
    }
    if (status != LMC_OK || worst == LMC_OK)
        return status;
    *diag = first;
    return worst;
}

lmc_status st_tree_verify(const char *in_path, const lmc_st_options *options, lmc_st_result *result,
                          lmc_st_diag *diag)
{
    os_tree tree = {0};
    unsigned char *is_archive = NULL;
    lmc_status status = st_tree_base_check(options, diag);
    if (status == LMC_OK && options->sha256)
        status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is a directory: it has no SHA-256");
    if (status == LMC_OK)
        status = os_tree_read(&tree, options->allocator, in_path, diag);
    if (status == LMC_OK)
        status = st_copied_find_archives(&tree, in_path, &is_archive, diag);
    if (status == LMC_OK)
        status = verify_entries(in_path, &tree, is_archive, options, result, diag);
    if (status == LMC_OK && result->file_count == 0)
        status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "holds neither archives nor safetensors files");
    st_release(options->allocator, is_archive);
    os_tree_free(&tree);
    return status;
}

/* ---- compare ---- */

static lmc_status compare_inputs(const os_input *a, const os_input *b, unsigned char *pieces,
                                 const volatile int *cancel, lmc_st_diag *diag)
{
    lmc_status status = LMC_OK;
    int is_equal = a->nbytes == b->nbytes;
    for (uint64_t at = 0; at < a->nbytes && is_equal && status == LMC_OK; at += PIECE_NBYTES) {
        const size_t nbytes = a->nbytes - at < PIECE_NBYTES ? (size_t)(a->nbytes - at) : PIECE_NBYTES;
        if (st_is_cancelled(cancel))
            return st_fail_cancelled(diag);
        status = os_input_read(a, at, pieces, nbytes, diag);
        if (status == LMC_OK)
            status = os_input_read(b, at, pieces + PIECE_NBYTES, nbytes, diag);
        is_equal = memcmp(pieces, pieces + PIECE_NBYTES, nbytes) == 0;
    }
    if (status != LMC_OK || is_equal)
        return status;
    return st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET, "the copy has other content than the file");
}

static lmc_status compare_copies(const char *a_path, const char *b_path, const lmc_st_options *options,
                                 lmc_st_diag *diag)
{
    const lmc_allocator *const memory = options->allocator;
    os_input a = {.fd = -1};
    os_input b = {.fd = -1};
    unsigned char *const pieces = st_allocate(memory, 2 * PIECE_NBYTES);
    lmc_status status = !pieces ? st_fail_nomem(diag) : LMC_OK;
    st_diag_set_file(diag, b_path);
    if (status == LMC_OK)
        status = os_input_open(&b, b_path, diag);
    st_diag_set_file(diag, a_path);
    if (status == LMC_OK)
        status = os_input_open(&a, a_path, diag);
    if (status == LMC_OK)
        status = compare_inputs(&a, &b, pieces, options->cancel, diag);
    if (status == LMC_OK)
        status = os_input_check_unchanged(&a, diag);
    if (status == LMC_OK) {
        st_diag_set_file(diag, b_path);
        status = os_input_check_unchanged(&b, diag);
    }
    os_input_close(&a);
    os_input_close(&b);
    st_release(memory, pieces);
    return status;
}

/* A converted directory, and the one that it was made from. */
typedef struct comparison {
    const char *stored_root, *plain_root;
    os_tree stored, plain;
    unsigned char *is_archive; /* of each entry of `stored` */
    const lmc_st_options *options;
} comparison;

/* Fails with CHECKSUM at an entry of the directory `root`. */
static lmc_status fail_at_entry(const comparison *both, const char *root, const os_entry *entry,
                                const char *text, lmc_st_diag *diag)
{
    char *const path = os_path_join(both->options->allocator, root, entry->path, "");
    if (!path)
        return st_fail_nomem(diag);
    st_diag_set_file(diag, path);
    st_release(both->options->allocator, path);
    return st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET, "%s", text);
}

/* Something that has come since to the archives' directory has no match, and would be lost with it. */
static lmc_status check_has_original(const comparison *both, size_t index, lmc_st_diag *diag)
{
    const os_entry *const entry = &both->stored.entries[index];
    const size_t suffix_nbytes = both->is_archive[index] ? strlen(ST_ARCHIVE_SUFFIX) : 0;
    if (st_copied_is_list(entry) || os_tree_find_original(&both->plain, entry->path, suffix_nbytes))
        return LMC_OK;
    return fail_at_entry(both, both->stored_root, entry, "is not in the directory it is compared with", diag);
}

/* What stands for an entry that is no archive: a copy, or a directory. */
static lmc_status check_is_stored(const comparison *both, const os_entry *entry, lmc_st_diag *diag)
{
    const os_entry *const found = os_tree_find(&both->stored, entry->path);
    if (found && found->is_directory == entry->is_directory)
        return LMC_OK;
    return fail_at_entry(both, both->plain_root, entry, "is not in the directory of archives", diag);
}

/* 1 if the archive of the file is there; archive: its name. */
static int is_archived(const comparison *both, const os_entry *entry, const char *archive)
{
    const os_entry *const found = entry->is_directory ? NULL : os_tree_find(&both->stored, archive);
    return found && both->is_archive[found - both->stored.entries];
}

static lmc_status compare_entry(const comparison *both, const os_entry *entry, const lmc_st_options *options,
                                lmc_st_diag *diag)
{
    const lmc_allocator *const memory = options->allocator;
    char *const archive = os_path_join(memory, "", entry->path, ST_ARCHIVE_SUFFIX);
    const int has_archive = archive && is_archived(both, entry, archive);
    char *const plain = os_path_join(memory, both->plain_root, entry->path, "");
    char *const stored =
        os_path_join(memory, both->stored_root, entry->path, has_archive ? ST_ARCHIVE_SUFFIX : "");
    st_tree_base base = {0};
    lmc_st_options own = *options;
    lmc_status status = LMC_OK;
    if (!archive || !plain || !stored) {
        status = st_fail_nomem(diag);
    } else if (has_archive) {
        status = st_tree_base_find(&base, options, entry->path, 0, &own, diag);
        status = status == LMC_OK ? st_compare_files(stored, -1, plain, &own, diag) : status;
    } else {
        status = check_is_stored(both, entry, diag);
        if (status == LMC_OK && !entry->is_directory)
            status = compare_copies(stored, plain, options, diag);
    }
    st_tree_base_free(&base, memory);
    st_release(memory, archive);
    st_release(memory, plain);
    st_release(memory, stored);
    return status;
}

static lmc_status compare_trees(const comparison *both, lmc_st_diag *diag)
{
    st_parts parts = {.options = both->options};
    const lmc_st_options inner = st_parts_options(&parts);
    if (os_tree_find(&both->plain, ST_COPIED_NAME))
        return st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET,
                       "holds a file " ST_COPIED_NAME ": it is a converted directory itself");
    for (size_t i = 0; i < both->plain.count; i++)
        parts.total_nbytes += both->plain.entries[i].is_directory ? 0 : both->plain.entries[i].nbytes;
    for (size_t i = 0; i < both->stored.count; i++)
        ST_TRY(check_has_original(both, i, diag));
    for (size_t i = 0; i < both->plain.count; i++) {
        const os_entry *const entry = &both->plain.entries[i];
        st_parts_begin(&parts, entry->is_directory ? 0 : entry->nbytes);
        ST_TRY(compare_entry(both, entry, &inner, diag));
        st_parts_end(&parts);
    }
    return LMC_OK;
}

lmc_status st_tree_compare(const char *archive_path, const char *plain_path, const lmc_st_options *options,
                           lmc_st_diag *diag)
{
    comparison both = {.stored_root = archive_path, .plain_root = plain_path, .options = options};
    lmc_status status = st_tree_base_check(options, diag);
    if (status == LMC_OK)
        status = os_tree_read(&both.stored, options->allocator, archive_path, diag);
    if (status == LMC_OK)
        status = st_copied_find_archives(&both.stored, archive_path, &both.is_archive, diag);
    if (status == LMC_OK)
        status = os_tree_read(&both.plain, options->allocator, plain_path, diag);
    if (status == LMC_OK)
        status = compare_trees(&both, diag);
    st_release(options->allocator, both.is_archive);
    os_tree_free(&both.plain);
    os_tree_free(&both.stored);
    return status;
}

/* ---- visit ---- */

static lmc_status visit_entry(const char *root, const os_entry *entry, const lmc_st_options *options,
                              int (*visit)(void *user, const lmc_st_file *file), void *user, int *is_over,
                              lmc_st_diag *diag)
{
    st_tree_base base;
    lmc_st_file *file = NULL;
    lmc_st_options own = *options;
    char *const path = os_path_join(options->allocator, root, entry->path, "");
    lmc_status status = st_tree_base_find(&base, options, entry->path, 1, &own, diag);
    if (status == LMC_OK)
        status = path ? st_file_open_input(path, &own, &file, diag) : st_fail_nomem(diag);
    if (status == LMC_OK)
        *is_over = visit(user, file);
    lmc_st_close(file);
    st_release(options->allocator, path);
    st_tree_base_free(&base, options->allocator);
    return status;
}

lmc_status st_tree_visit(const char *in_path, const lmc_st_options *options,
                         int (*visit)(void *user, const lmc_st_file *file), void *user, lmc_st_diag *diag)
{
    os_tree tree = {0};
    unsigned char *is_archive = NULL;
    int is_over = 0;
    lmc_status status = st_tree_base_check(options, diag);
    if (status == LMC_OK)
        status = os_tree_read(&tree, options->allocator, in_path, diag);
    if (status == LMC_OK)
        status = st_copied_find_archives(&tree, in_path, &is_archive, diag);
    for (size_t i = 0; i < tree.count && status == LMC_OK && !is_over; i++)
        if (is_archive[i])
            status = visit_entry(in_path, &tree.entries[i], options, visit, user, &is_over, diag);
    st_release(options->allocator, is_archive);
    os_tree_free(&tree);
    return status;
}
