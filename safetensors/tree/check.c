/*
 * check.c - verifies the archives of a directory, and compares it with the directory that it was made from.
 */
#include "safetensors/tree/check.h"

#include "safetensors/common/names.h"
#include "safetensors/common/parts.h"
#include "safetensors/header/index.h"
#include "safetensors/os/dir.h"
#include "safetensors/restore/restore.h"
#include "safetensors/tree/base.h"

#include <string.h>

#define PIECE_NBYTES ((size_t)1 << 16)

/* ---- verify ---- */

static int is_verified(const os_entry *entry)
{
    return !entry->is_directory && (st_is_archive_name(entry->path) || st_is_plain_name(entry->path) ||
                                    st_index_is_name(entry->path));
}

static int goes_on_after(lmc_status status)
{
    return st_is_damage(status) || status == LMC_ERR_HEADER;
}

static lmc_status verify_entry(const char *root, const os_entry *entry, const lmc_st_options *options,
                               lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_result one = {0};
    char *const path = os_path_join(options->allocator, root, entry->path, "");
    if (!path)
        return st_fail_nomem(diag);
    st_tree_base base;
    lmc_st_options own = *options;
    const int is_index = st_index_is_name(entry->path);
    lmc_status status = st_tree_base_find(&base, options, entry->path, &own, diag);
    if (status == LMC_OK)
        status = is_index ? st_index_check(options->allocator, path, ST_ARCHIVE_SUFFIX, diag)
                          : st_verify_file(path, &own, &one, diag);
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

lmc_status st_tree_verify(const char *in_path, const lmc_st_options *options, lmc_st_result *result,
                          lmc_st_diag *diag)
{
    os_tree tree = {0};
    st_parts parts = {.options = options};
    const lmc_st_options inner = st_parts_options(&parts);
    lmc_st_diag first;
    lmc_status worst = LMC_OK;
    lmc_status status = st_tree_base_check(options, diag);
    if (status == LMC_OK)
        status = os_tree_read(&tree, options->allocator, in_path, diag);
    if (status == LMC_OK && options->sha256)
        status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is a directory: it has no SHA-256");
    for (size_t i = 0; i < tree.count; i++)
        parts.total_nbytes += is_verified(&tree.entries[i]) ? tree.entries[i].nbytes : 0;
    for (size_t i = 0; i < tree.count && status == LMC_OK; i++) {
        const os_entry *const entry = &tree.entries[i];
        if (!is_verified(entry))
            continue;
        st_parts_begin(&parts, entry->nbytes);
        status = verify_entry(in_path, entry, &inner, result, diag);
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
        status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "holds neither archives nor safetensors files");
    }
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

/* Something that has come since to the archives' directory has no match, and would be lost with it. */
static lmc_status check_has_original(const os_tree *plain, const char *archive_root, const os_entry *entry,
                                     const lmc_st_options *options, lmc_st_diag *diag)
{
    if (os_tree_find(plain, entry->path) ||
        (st_is_archive_name(entry->path) &&
         os_tree_find_original(plain, entry->path, strlen(ST_ARCHIVE_SUFFIX))))
        return LMC_OK;
    char *const path = os_path_join(options->allocator, archive_root, entry->path, "");
    if (!path)
        return st_fail_nomem(diag);
    st_diag_set_file(diag, path);
    st_release(options->allocator, path);
    return st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET, "is not in the directory it is compared with");
}

static lmc_status compare_entry(const char *archive_root, const char *plain_root, const os_entry *entry,
                                const os_tree *stored_tree, const lmc_st_options *options, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = options->allocator;
    char *const archive = os_path_join(memory, "", entry->path, ST_ARCHIVE_SUFFIX);
    const int is_archived = archive && !entry->is_directory && st_is_plain_name(entry->path) &&
                            os_tree_find(stored_tree, archive) != NULL;
    char *const plain = os_path_join(memory, plain_root, entry->path, "");
    char *const stored =
        os_path_join(memory, archive_root, entry->path, is_archived ? ST_ARCHIVE_SUFFIX : "");
    st_tree_base base = {0};
    lmc_st_options own = *options;
    lmc_status status = LMC_OK;
    if (!archive || !plain || !stored) {
        status = st_fail_nomem(diag);
    } else if (is_archived) {
        status = st_tree_base_find(&base, options, entry->path, &own, diag);
        status = status == LMC_OK ? st_compare_files(stored, -1, plain, &own, diag) : status;
    } else if (!entry->is_directory) {
        status = compare_copies(stored, plain, options, diag);
    } else if (!os_is_directory(stored)) {
        st_diag_set_file(diag, stored);
        status = st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET, "the directory is missing");
    }
    st_tree_base_free(&base, memory);
    st_release(memory, archive);
    st_release(memory, plain);
    st_release(memory, stored);
    return status;
}

lmc_status st_tree_compare(const char *archive_path, const char *plain_path, const lmc_st_options *options,
                           lmc_st_diag *diag)
{
    os_tree plain = {0};
    os_tree stored = {0};
    st_parts parts = {.options = options};
    const lmc_st_options inner = st_parts_options(&parts);
    lmc_status status = st_tree_base_check(options, diag);
    if (status == LMC_OK)
        status = os_tree_read(&plain, options->allocator, plain_path, diag);
    if (status == LMC_OK)
        status = os_tree_read(&stored, options->allocator, archive_path, diag);
    for (size_t i = 0; i < plain.count; i++)
        parts.total_nbytes += plain.entries[i].is_directory ? 0 : plain.entries[i].nbytes;
    for (size_t i = 0; i < stored.count && status == LMC_OK; i++)
        status = check_has_original(&plain, archive_path, &stored.entries[i], options, diag);
    for (size_t i = 0; i < plain.count && status == LMC_OK; i++) {
        const os_entry *const entry = &plain.entries[i];
        st_parts_begin(&parts, entry->is_directory ? 0 : entry->nbytes);
        status = compare_entry(archive_path, plain_path, entry, &stored, &inner, diag);
        st_parts_end(&parts);
    }
    os_tree_free(&plain);
    os_tree_free(&stored);
    return status;
}
