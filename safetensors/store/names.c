/*
 * names.c - store/names.h: which names models may have, and the mark of a store.
 */
#include "safetensors/store/names.h"

#include "common/text.h"
#include "os/path.h"
#include "safetensors/base/folders.h"
#include "safetensors/base/run_list.h"
#include "safetensors/files/directories.h"
#include "safetensors/header/json.h"

#include <errno.h>
#include <string.h>

#define MARK_NBYTES_MAX 4096
#define MARK_DEPTH_MAX 16

/* 1 if a store, or a run, has a file of this name. */
static int is_own_file(const char *name, size_t length)
{
    static const char *const files[] = {LMC_STORE_MARK, LMC_STORE_INDEX, LMC_RUN_LIST};
    for (size_t i = 0; i < LMC_COUNT(files); i++)
        if (strlen(files[i]) == length && memcmp(files[i], name, length) == 0)
            return 1;
    return 0;
}

const char *st_store_name_fault(const char *name)
{
    const size_t nbytes = strlen(name);
    const char *at = name;
    if (nbytes > LMC_STORE_NAME_NBYTES_MAX)
        return "has more than " LMC_TEXT_OF(LMC_STORE_NAME_NBYTES_MAX) " bytes";
    if (!lmc_utf8_is_valid(name, nbytes))
        return "is not valid UTF-8";
    for (size_t count = 1;; count++) {
        const size_t length = strcspn(at, "/");
        const size_t suffix_nbytes = strlen(LMC_ARCHIVE_SUFFIX);
        if (length == 0)
            return "has an empty segment";
        if (length > LMC_STORE_SEGMENT_NBYTES_MAX)
            return "has a segment of more than " LMC_TEXT_OF(LMC_STORE_SEGMENT_NBYTES_MAX) " bytes";
        if (at[0] == '.')
            return "has a segment that begins with a dot";
        if (count > ST_STORE_SEGMENT_COUNT_MAX)
            return "has more than " LMC_TEXT_OF(ST_STORE_SEGMENT_COUNT_MAX) " segments";
        if (at[length] == '\0')
            return os_components_fault(name);
        if (count == 1 && is_own_file(at, length))
            return "has a first segment that is the name of one of the store's own files";
        if (length >= suffix_nbytes &&
            memcmp(at + length - suffix_nbytes, LMC_ARCHIVE_SUFFIX, suffix_nbytes) == 0)
            return "has a segment that is not the last and ends in .lmc";
        at += length + 1;
    }
}

int lmc_store_name_is_valid(const char *name)
{
    return !st_store_name_fault(name);
}

size_t st_store_model_of_path(int is_run, const char *path)
{
    const size_t suffix_nbytes = strlen(LMC_ARCHIVE_SUFFIX);
    uint64_t step = 0;
    size_t end = strcspn(path, "/");
    if (is_run)
        return path[end] == '/' && st_step_is_name(path, end, &step) ? end : 0;
    for (size_t begin = 0; path[end] == '/'; begin = end + 1, end = begin + strcspn(path + begin, "/"))
        if (end - begin > suffix_nbytes &&
            memcmp(path + end - suffix_nbytes, LMC_ARCHIVE_SUFFIX, suffix_nbytes) == 0)
            return end - suffix_nbytes;
    return 0;
}

lmc_status st_store_fail_missing(const char *path, int is_run, lmc_st_diag *diag)
{
    if (is_run)
        return st_run_list_fail_missing(path, diag);
    st_diag_set_file(diag, path);
    st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is not a store: it has no " LMC_STORE_MARK);
    diag->os_errno = ENOENT;
    return LMC_ERR_ARG;
}

/* Reads the mark, {"format":"lmc-store","version":1}. */
static int read_members(st_json *json, int *has_format, uint64_t *version)
{
    st_span key, value;
    for (size_t count = 0; st_json_next(json, '{', &count, &key);) {
        if (st_json_string_is(json->text, key, "format"))
            *has_format =
                st_json_string(json, &value) && st_json_string_is(json->text, value, LMC_STORE_FORMAT);
        else if (st_json_string_is(json->text, key, "version"))
            st_json_u64(json, version);
        else
            st_json_skip_value(json, MARK_DEPTH_MAX);
        if (json->fault)
            return 0;
    }
    return !json->fault;
}

lmc_status st_store_read_mark(const lmc_allocator *memory, const char *store, lmc_st_diag *diag)
{
    st_input input;
    unsigned char text[MARK_NBYTES_MAX];
    int has_format = 0;
    uint64_t version = 0;
    char *const path = lmc_path_join(memory, store, LMC_STORE_MARK, "");
    if (!path)
        return st_fail_nomem(diag);
    st_diag_set_file(diag, path);
    lmc_status status = st_input_open(&input, path, diag);
    st_release(memory, path);
    if (status != LMC_OK && diag->os_errno == ENOENT && os_is_folder(store))
        return st_store_fail_missing(store, 0, diag);
    if (status != LMC_OK)
        return status;
    const size_t nbytes = input.nbytes > sizeof text ? 0 : (size_t)input.nbytes;
    status = st_input_read(&input, 0, text, nbytes, diag);
    st_input_close(&input);
    if (status != LMC_OK)
        return status;
    st_json json = {.text = text, .nbytes = nbytes};
    if (!read_members(&json, &has_format, &version) || !has_format || version == 0)
        return st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET,
                       "is not what marks a store: repair rebuilds it");
    return version == ST_STORE_VERSION ? LMC_OK
                                       : st_fail(diag, LMC_ERR_UNSUPPORTED, LMC_ST_NO_OFFSET,
                                                 "this store has version %llu; this program knows version %d",
                                                 (unsigned long long)version, ST_STORE_VERSION);
}
