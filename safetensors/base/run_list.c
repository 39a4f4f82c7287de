/*
 * run_list.c - base/run_list.h: a reader that knows the keys of version 1 and skips others.
 */
#include "safetensors/base/run_list.h"

#include "safetensors/files/directories.h"
#include "safetensors/header/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A list of two million steps. */

/* Nested objects and arrays of keys that are skipped. */
#define DEPTH_MAX 16

/* ---- entries ---- */

void st_run_list_free(st_run_list *list)
{
    if (list->memory)
        st_release(list->memory, list->steps);
    *list = (st_run_list){0};
}

/* Adds a step behind the others. Returns 0 if memory ran out. */
static int append(st_run_list *list, const lmc_run_step *step)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        lmc_run_step *const larger = st_allocate_array(list->memory, capacity, sizeof *larger);
        if (!larger)
            return 0;
        if (list->count > 0)
            memcpy(larger, list->steps, list->count * sizeof *larger);
        st_release(list->memory, list->steps);
        list->steps = larger;
        list->capacity = capacity;
    }
    list->steps[list->count++] = *step;
    return 1;
}

/* ---- reading ---- */

typedef struct reader {
    st_json json;
    st_run_list *list;
    uint64_t version;
    int has_format, has_steps, is_out_of_memory;
} reader;

static int fail(reader *reader, const char *fault)
{
    reader->json.fault = fault;
    return 0;
}

/* An entry, and which of the keys were there that nothing can stand for. */
typedef struct entry {
    lmc_run_step step;
    int has_kind, has_base;
} entry;

/* A step; null: none; anything else: one that is not known. */
static int read_base(reader *reader, entry *entry)
{
    st_json *const json = &reader->json;
    lmc_run_step *const step = &entry->step;
    entry->has_base = 1;
    st_json_skip_space(json);
    const size_t begin = json->at;
    step->has_base = 1;
    if (st_json_u64(json, &step->base))
        return 1;
    json->at = begin;
    json->fault = NULL;
    if (!st_json_skip_value(json, DEPTH_MAX))
        return 0;
    step->has_base = json->at - begin != 4 || memcmp(json->text + begin, "null", 4) != 0;
    step->base = step->has_base ? LMC_RUN_UNKNOWN : 0;
    return 1;
}

/* The value of a key of an entry. */
static int read_step_member(reader *reader, st_span key, entry *entry)
{
    lmc_run_step *const step = &entry->step;
    st_json *const json = &reader->json;
    st_span value;
    if (st_json_string_is(json->text, key, "step"))
        return st_json_u64(json, &step->step);
    if (st_json_string_is(json->text, key, "snapshot")) {
        entry->has_kind = 1;
        if (!st_json_string(json, &value))
            return 0;
        step->is_directory = st_json_string_is(json->text, value, "directory");
        return step->is_directory || st_json_string_is(json->text, value, "file") ||
               fail(reader, "a snapshot is neither a file nor a directory");
    }
    if (st_json_string_is(json->text, key, "files"))
        return st_json_u64(json, &step->file_count);
    if (st_json_string_is(json->text, key, "nbytes"))
        return st_json_u64(json, &step->original_nbytes);
    if (st_json_string_is(json->text, key, "stored_nbytes"))
        return st_json_u64(json, &step->stored_nbytes);
    if (st_json_string_is(json->text, key, "base"))
        return read_base(reader, entry);
    if (!st_json_string_is(json->text, key, "time"))
        return st_json_skip_value(json, DEPTH_MAX);
    uint64_t seconds = 0;
    if (!st_json_u64(json, &seconds))
        return 0;
    if (seconds > INT64_MAX)
        return fail(reader, "a time is out of range");
    step->time_s = (int64_t)seconds;
    return 1;
}

static int read_entry(reader *reader, entry *entry)
{
    st_span key;
    *entry = (struct entry){.step = LMC_INIT(lmc_run_step)};
    entry->step.step = LMC_RUN_UNKNOWN;
    for (size_t count = 0; st_json_next(&reader->json, '{', &count, &key);)
        if (!read_step_member(reader, key, entry))
            return 0;
    return !reader->json.fault;
}

static int read_steps(reader *reader)
{
    st_run_list *const list = reader->list;
    entry entry;
    reader->has_steps = 1;
    for (size_t count = 0; st_json_next(&reader->json, '[', &count, NULL);) {
        if (!read_entry(reader, &entry))
            return 0;
        if (entry.step.step > LMC_RUN_STEP_MAX)
            return fail(reader, "an entry has no step");
        if (!entry.has_kind || !entry.has_base)
            return fail(reader, "an entry does not tell snapshot and base");
        if (list->count > 0 && list->steps[list->count - 1].step >= entry.step.step)
            return fail(reader, "the steps are not in order");
        if (!append(list, &entry.step)) {
            reader->is_out_of_memory = 1;
            return 0;
        }
    }
    return !reader->json.fault;
}

/* The value of a key of the list. */
static int read_member(reader *reader, st_span key)
{
    st_json *const json = &reader->json;
    st_span value;
    uint64_t number = 0;
    if (st_json_string_is(json->text, key, "format")) {
        reader->has_format =
            st_json_string(json, &value) && st_json_string_is(json->text, value, LMC_RUN_FORMAT);
        return reader->has_format || fail(reader, "it is not the list of a run");
    }
    if (st_json_string_is(json->text, key, "version"))
        return st_json_u64(json, &reader->version);
    if (st_json_string_is(json->text, key, "key_every") && reader->version <= LMC_RUN_VERSION) {
        if (!st_json_u64(json, &number))
            return 0;
        reader->list->key_every = number <= LMC_RUN_KEY_EVERY_MAX ? (unsigned)number : 0;
        return number >= 1 && number <= LMC_RUN_KEY_EVERY_MAX
                   ? 1
                   : fail(reader, "key_every is not 1 to " LMC_TEXT_OF(LMC_RUN_KEY_EVERY_MAX));
    }
    if (st_json_string_is(json->text, key, "steps") && reader->version <= LMC_RUN_VERSION)
        return read_steps(reader);
    return st_json_skip_value(json, DEPTH_MAX);
}

lmc_status st_run_list_fail_missing(const char *run, lmc_st_diag *diag)
{
    st_diag_set_file(diag, run);
    st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is not a run: it has no " LMC_RUN_LIST);
    diag->os_errno = ENOENT;
    return LMC_ERR_ARG;
}

/* The text of run.json; to be released in every case. Errors: as st_run_list_read(). */
static lmc_status read_file(const lmc_allocator *memory, const char *run, unsigned char **text,
                            size_t *nbytes, lmc_st_diag *diag)
{
    st_input input;
    *text = NULL;
    char *const path = lmc_path_join(memory, run, LMC_RUN_LIST, "");
    if (!path)
        return st_fail_nomem(diag);
    st_diag_set_file(diag, path);
    lmc_status status = st_input_open(&input, path, diag);
    st_release(memory, path);
    if (status != LMC_OK && diag->os_errno == ENOENT && os_is_folder(run))
        return st_run_list_fail_missing(run, diag);
    if (status != LMC_OK)
        return status;
    *nbytes = (size_t)input.nbytes;
    if (input.nbytes > LMC_RUN_LIST_NBYTES_MAX)
        status = st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "a list of a run has at most %llu bytes",
                         (unsigned long long)LMC_RUN_LIST_NBYTES_MAX);
    else if ((*text = st_allocate(memory, *nbytes)) == NULL)
        status = st_fail_nomem(diag);
    else
        status = st_input_read(&input, 0, *text, *nbytes, diag);
    st_input_close(&input);
    return status;
}

lmc_status st_run_list_read(st_run_list *list, const lmc_allocator *memory, const char *run,
                            lmc_st_diag *diag)
{
    unsigned char *text = NULL;
    size_t nbytes = 0;
    *list = (st_run_list){.memory = memory};
    lmc_status status = read_file(memory, run, &text, &nbytes, diag);
    if (status == LMC_OK) {
        reader reader = {.json = {.text = text, .nbytes = nbytes}, .list = list};
        st_span key;
        for (size_t count = 0; st_json_next(&reader.json, '{', &count, &key) && read_member(&reader, key);)
            ;
        const int is_object = !reader.json.fault && !reader.is_out_of_memory;
        st_json_skip_space(&reader.json);
        if (is_object && reader.json.at != nbytes)
            fail(&reader, "something follows the object");
        else if (is_object &&
                 !(reader.has_format && reader.has_steps && reader.version > 0 && list->key_every > 0))
            fail(&reader, "a key is missing");
        if (is_object && reader.version > LMC_RUN_VERSION)
            status = st_fail(diag, LMC_ERR_UNSUPPORTED, LMC_ST_NO_OFFSET,
                             "this list of a run has version %llu; this program knows version %d",
                             (unsigned long long)reader.version, LMC_RUN_VERSION);
        else if (reader.is_out_of_memory)
            status = st_fail_nomem(diag);
        else if (reader.json.fault)
            status =
                st_fail(diag, LMC_ERR_CORRUPT, reader.json.at,
                        "malformed list of a run: %s; repairing the run writes it again", reader.json.fault);
    }
    st_release(memory, text);
    return status;
}

/* ---- one entry ---- */

int st_run_list_read_base(const lmc_allocator *memory, const char *run, uint64_t step, uint64_t *base)
{
    lmc_st_diag unused = {0};
    unsigned char *text = NULL;
    size_t nbytes = 0;
    entry entry = {.step = LMC_INIT(lmc_run_step)};
    if (read_file(memory, run, &text, &nbytes, &unused) == LMC_OK) {
        /* where an entry begins that looks as this library writes it */
        char begin[40];
        const size_t length =
            (size_t)snprintf(begin, sizeof begin, "{\"step\":%llu,", (unsigned long long)step);
        const unsigned char *at = memchr(text, '{', nbytes);
        while (at && (nbytes - (size_t)(at - text) < length || memcmp(at, begin, length) != 0))
            at = memchr(at + 1, '{', nbytes - (size_t)(at - text) - 1);
        reader reader = {.json = {.text = text, .nbytes = nbytes, .at = at ? (size_t)(at - text) : nbytes}};
        if (at && !read_entry(&reader, &entry))
            entry.step.has_base = 0;
    }
    st_release(memory, text);
    *base = entry.step.base;
    return entry.step.has_base && entry.step.base != LMC_RUN_UNKNOWN;
}
