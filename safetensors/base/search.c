/*
 * search.c - see base/search.h.
 */
#include "safetensors/base/search.h"

#include "safetensors/archive/table.h"
#include "safetensors/base/probe.h"
#include "safetensors/common/names.h"
#include "safetensors/common/text.h"
#include "safetensors/os/dir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A search for the base of `file`. Text collects what is said if nothing is found. */
typedef struct base_search {
    const lmc_st_file *file;
    lmc_st_file *found; /* has the right size and header */
    int is_found_known; /* its content was looked at, with this result */
    st_base_fit found_fit;
    char places[256]; /* where it was looked for */
    char other[256];  /* what was there instead: the last one */
} base_search;

/* ---- candidates ---- */

static void append(char *text, size_t capacity, const char *more)
{
    const size_t length = strlen(text);
    snprintf(text + length, capacity - length, "%s%s", length == 0 ? "" : ", ", more);
}

static void note_place(base_search *search, const char *path)
{
    char shown[120];
    st_text_escape(shown, sizeof shown, path, strlen(path));
    append(search->places, sizeof search->places, shown);
}

static void note_other(base_search *search, const char *path, const char *what)
{
    char shown[120];
    st_text_escape(shown, sizeof shown, path, strlen(path));
    snprintf(search->other, sizeof search->other, "; %s %.100s", shown, what);
}

static int is_own_dependent(const lmc_st_file *file, const lmc_st_file *candidate)
{
    for (; file; file = file->dependent)
        if (file->input.identity.device == candidate->input.identity.device &&
            file->input.identity.inode == candidate->input.identity.inode)
            return 1;
    return 0;
}

/* Why it cannot be the base; NULL if it can. */
static const char *candidate_fault(const lmc_st_file *file, const lmc_st_file *candidate)
{
    const st_header *const header = &candidate->header;
    if (is_own_dependent(file, candidate))
        return "needs that base itself";
    if (candidate->file_nbytes != file->bases.file_nbytes ||
        st_hash(header->text, header->text_nbytes) != file->bases.header_hash)
        return "is another file";
    return NULL;
}

static void set_trial(const lmc_st_file *candidate, int is_trial)
{
    if (candidate->base)
        candidate->base->is_trial = is_trial;
}

/* Whether the file that is found is the base; looked at once. */
static lmc_status look_at_found(base_search *search)
{
    if (search->is_found_known)
        return LMC_OK;
    search->is_found_known = 1;
    return st_base_probe(search->file, search->found, search->file->base->is_trial, &search->found_fit);
}

/* Keeps the new candidate or the one that was found before, whichever fits better. A single one is not looked at:
 * whatever is read of it is checked anyway. */
static lmc_status choose(base_search *search, lmc_st_file *candidate)
{
    st_base_fit fit = ST_BASE_DIFFERS;
    lmc_st_file *loser = candidate;
    if (!search->found) {
        search->found = candidate;
        return LMC_OK;
    }
    lmc_status status = look_at_found(search);
    if (status == LMC_OK && search->found_fit != ST_BASE_FITS)
        status = st_base_probe(search->file, candidate, search->file->base->is_trial, &fit);
    if (status == LMC_OK && fit > search->found_fit) {
        loser = search->found;
        search->found = candidate;
        search->found_fit = fit;
    }
    lmc_st_close(loser);
    return status;
}

/* is_named: the caller has named this file, so that it should be there. */
static lmc_status try_path(base_search *search, const char *path, int is_named)
{
    lmc_st_diag cause;
    lmc_st_file *candidate = NULL;
    const lmc_st_file *const file = search->file;
    const st_base_state *const state = file->base;
    const st_open how = {.path = path, .fd = -1, .allocator = &file->memory, .dependent = file};
    lmc_status status = st_file_open(&how, &candidate, &cause);
    if (status == LMC_OK) {
        const char *const fault = candidate_fault(file, candidate);
        if (!fault) {
            status =
                st_file_set_base(candidate, NULL, (const char *const *)state->dirs, state->dir_count, &cause);
            if (status == LMC_OK) {
                set_trial(candidate, 1);
                return choose(search, candidate);
            }
        } else {
            note_other(search, path, fault);
        }
        lmc_st_close(candidate);
    } else if (is_named || (cause.os_errno != ENOENT && cause.os_errno != ENOTDIR)) {
        note_other(search, path, cause.text);
    }
    return status == LMC_ERR_NOMEM ? status : LMC_OK;
}

static lmc_status try_directory(base_search *search, const char *directory)
{
    static const char *const suffixes[] = {"", ST_ARCHIVE_SUFFIX};
    lmc_status status = LMC_OK;
    note_place(search, directory);
    for (size_t i = 0; i < 2 && status == LMC_OK; i++) {
        char *const path =
            os_path_join(&search->file->memory, directory, search->file->bases.name, suffixes[i]);
        status = !path ? LMC_ERR_NOMEM : try_path(search, path, 0);
        st_release(&search->file->memory, path);
    }
    return status;
}

static lmc_status try_own_directory(base_search *search)
{
    const lmc_st_file *const file = search->file;
    char *const directory = st_duplicate(&file->memory, file->path);
    if (!directory)
        return LMC_ERR_NOMEM;
    char *const slash = strrchr(directory, '/');
    if (slash)
        slash[slash == directory ? 1 : 0] = '\0';
    const lmc_status status = try_directory(search, !slash ? "." : directory);
    st_release(&file->memory, directory);
    return status;
}

static lmc_status search_all(base_search *search)
{
    const st_base_state *const state = search->file->base;
    lmc_status status = LMC_OK;
    if (state->path) {
        status = try_path(search, state->path, 1);
        if (search->found)
            return status; /* the caller has said that it is this one */
    }
    for (size_t i = 0; i < state->dir_count && status == LMC_OK; i++)
        status = try_directory(search, state->dirs[i]);
    return status == LMC_OK && search->file->is_from_path ? try_own_directory(search) : status;
}

/* ---- the search ---- */

static size_t depth_of(const lmc_st_file *file)
{
    size_t count = 0;
    for (; file; file = file->dependent)
        count++;
    return count;
}

static lmc_status fail_missing(const base_search *search, lmc_st_diag *diag)
{
    char name[128];
    const st_bases *const bases = &search->file->bases;
    st_text_escape(name, sizeof name, bases->name, strlen(bases->name));
    st_diag_init(diag, search->file->path);
    return st_fail(diag, LMC_ERR_BASE, LMC_ST_NO_OFFSET,
                   "wants the base %s (hash %016llx), which was not found%s%s%s", name,
                   (unsigned long long)bases->content_hash, search->places[0] != '\0' ? ": looked in " : "",
                   search->places, search->other);
}

static lmc_status check_headers(const lmc_st_file *file, const lmc_st_file *found, lmc_st_diag *diag)
{
    if (st_file_headers_nbytes(found) <= LMC_ST_CHAIN_HEADER_NBYTES_MAX)
        return LMC_OK;
    st_diag_init(diag, file->path);
    return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                   "the headers of a chain of bases, equal ones counted once, have more than %d bytes",
                   LMC_ST_CHAIN_HEADER_NBYTES_MAX);
}

/* The base is found: it may now look for its own base in earnest. That of a file on trial is on trial, too. */
static void settle(const lmc_st_file *file, const lmc_st_file *found)
{
    if (found->base && !file->base->is_trial) {
        st_base_forget(found);
        set_trial(found, 0);
    }
}

lmc_status st_base_search(const lmc_st_file *file, lmc_st_file **found, lmc_st_diag *diag)
{
    base_search search = {.file = file};
    if (depth_of(file) >= LMC_ST_CHAIN_MAX) {
        st_diag_init(diag, file->path);
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "a chain of bases has more than %d files",
                       LMC_ST_CHAIN_MAX);
    }
    lmc_status status = search_all(&search);
    if (status != LMC_OK) {
        lmc_st_close(search.found);
        return st_fail_nomem(diag);
    }
    if (!search.found)
        return fail_missing(&search, diag);
    status = check_headers(file, search.found, diag);
    if (status != LMC_OK) {
        lmc_st_close(search.found);
        return status;
    }
    settle(file, search.found);
    *found = search.found;
    return LMC_OK;
}
