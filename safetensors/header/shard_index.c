/*
 * shard_index.c - the index of a model in shards: its names, and whether their files are there.
 */
#include "safetensors/header/shard_index.h"

#include "common/text.h"
#include "safetensors/files/directories.h"
#include "safetensors/header/json.h"

#include <string.h>

#define INDEX_MIDDLE ".safetensors.index"
#define INDEX_MIDDLE_OF_PICKLES ".bin.index"
#define INDEX_END ".json"

/* Nested objects and arrays beside the weight_map. */
#define DEPTH_MAX 64

typedef struct index_check {
    st_json json;
    const lmc_allocator *memory;
    const char *path;
    const char *suffix;
    char *name;         /* the value that is being looked at, unescaped */
    st_span last_value; /* entries come in runs of one file */
    int has_weight_map;
    int may_lack_all; /* the files may be absent, if all of them are */
    int has_found;
    int has_missing;
    st_span first_missing;
    lmc_st_diag *diag;
} index_check;

/* Models are often fetched without their older copy in .bin files, but with the index of that. */
static int is_of_pickles(const char *path)
{
    const char *const name = lmc_last_component(path);
    return strstr(name, INDEX_MIDDLE_OF_PICKLES) != NULL && strstr(name, INDEX_MIDDLE) == NULL;
}

int st_index_is_name(const char *path)
{
    const char *const name = lmc_last_component(path);
    const size_t length = strlen(name);
    const size_t end = sizeof INDEX_END - 1;
    return length > end && strcmp(name + length - end, INDEX_END) == 0 &&
           (strstr(name, INDEX_MIDDLE) != NULL || is_of_pickles(path));
}

static lmc_status fail_json(const index_check *check)
{
    return st_fail(check->diag, LMC_ERR_HEADER, check->json.at, "malformed index: %s",
                   check->json.fault ? check->json.fault : "something follows the object");
}

static lmc_status refuse_name(const index_check *check, st_span value, size_t nbytes, const char *fault)
{
    char shown[160];
    lmc_text_escape(shown, sizeof shown, check->name, nbytes);
    return st_fail(check->diag, LMC_ERR_HEADER, value.offset, "the index names \"%s\", %s", shown, fault);
}

/* No file has that name, rather than that the system could not tell. */
static int is_absence(int os_errno)
{
    return os_errno == ENOENT || os_errno == ENOTDIR || os_errno == ENAMETOOLONG || os_errno == ELOOP ||
           os_errno == EINVAL;
}

static lmc_status check_value(index_check *check, st_span value)
{
    int is_there = 0;
    const size_t nbytes = st_json_unescape(check->json.text, value, check->name);
    check->name[nbytes] = '\0';
    if (strlen(check->name) != nbytes || nbytes == 0 || strchr(check->name, '/') != NULL ||
        strchr(check->name, '\\') != NULL || strcmp(check->name, ".") == 0 || strcmp(check->name, "..") == 0)
        return refuse_name(check, value, nbytes, "which is not the plain name of a file");
    /* a file of that name, with the suffix or without, beside the index */
    for (int i = 0; i < 2 && !is_there; i++) {
        char *const directory = lmc_directory_of(check->memory, check->path);
        char *const path =
            !directory ? NULL
                       : lmc_path_join(check->memory, directory, check->name, i == 0 ? "" : check->suffix);
        const int has_memory = path != NULL;
        os_state found;
        const int os_errno = path ? os_stat(OS_HERE, path, &found) : 0;
        is_there = has_memory && os_errno == 0 && found.kind == OS_FILE;
        st_release(check->memory, directory);
        st_release(check->memory, path);
        if (!has_memory)
            return st_fail_nomem(check->diag);
        if (os_errno != 0 && !is_absence(os_errno))
            return st_fail_os(check->diag, os_errno, value.offset,
                              "cannot look for a file that the index names");
    }
    if (!is_there && !check->may_lack_all)
        return refuse_name(check, value, nbytes, "a file that is missing");
    if (!is_there && !check->has_missing)
        check->first_missing = value;
    check->has_missing |= !is_there;
    check->has_found |= is_there;
    return LMC_OK;
}

/* The text of the index, in check->json. */
static lmc_status check_text(index_check *check)
{
    st_json *const json = &check->json;
    const unsigned char *const text = json->text;
    st_span key, value;
    for (size_t count = 0; st_json_next(json, '{', &count, &key);) {
        const int is_weight_map = st_json_string_is(text, key, "weight_map");
        check->has_weight_map |= is_weight_map;
        if (!is_weight_map && !st_json_skip_value(json, DEPTH_MAX))
            return fail_json(check);
        for (size_t i = 0;
             is_weight_map && st_json_next(json, '{', &i, &key) && st_json_string(json, &value);) {
            if (value.nbytes != check->last_value.nbytes ||
                memcmp(text + value.offset, text + check->last_value.offset, value.nbytes) != 0)
                LMC_TRY(check_value(check, value));
            check->last_value = value;
        }
        if (json->fault)
            return fail_json(check);
    }
    st_json_skip_space(json);
    if (json->fault || json->at != json->nbytes)
        return fail_json(check);
    if (check->has_missing && check->has_found)
        return refuse_name(check, check->first_missing,
                           st_json_unescape(json->text, check->first_missing, check->name),
                           "a file that is missing");
    return check->has_weight_map
               ? LMC_OK
               : st_fail(check->diag, LMC_ERR_HEADER, LMC_ST_NO_OFFSET, "the index has no weight_map");
}

lmc_status st_index_check(const lmc_allocator *memory, const char *path, const char *suffix,
                          lmc_st_diag *diag)
{
    st_input input;
    index_check check = {
        .memory = memory, .path = path, .suffix = suffix, .may_lack_all = is_of_pickles(path), .diag = diag};
    lmc_status status = LMC_OK;
    st_diag_set_file(diag, path);
    LMC_TRY(st_input_open(&input, path, diag));
    if (input.nbytes > LMC_ST_HEADER_NBYTES_MAX) {
        status = st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "the index exceeds %u bytes",
                         (unsigned)LMC_ST_HEADER_NBYTES_MAX);
    } else {
        const size_t nbytes = (size_t)input.nbytes;
        unsigned char *const text = st_allocate(memory, nbytes);
        check.name = st_allocate(memory, nbytes + 1);
        check.json = (st_json){.text = text, .nbytes = nbytes};
        status = text && check.name ? st_input_read(&input, 0, text, nbytes, diag) : st_fail_nomem(diag);
        if (status == LMC_OK)
            status = check_text(&check);
        st_release(memory, check.name);
        st_release(memory, text);
    }
    st_input_close(&input);
    return status;
}
