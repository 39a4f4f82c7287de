/*
 * search.c - the places where a base may be, and the choice among candidates.
 */
#include "safetensors/base/search.h"

#include "safetensors/base/folders.h"
#include "safetensors/base/probe.h"
#include "safetensors/common/names.h"
#include "safetensors/common/text.h"
#include "safetensors/os/dir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A search for the base of `file`. The texts are for the case that nothing is found. */
typedef struct search {
    const lmc_st_file *file;
    lmc_st_file *found; /* has the right size and header */
    int is_found_known; /* its content was looked at, with this result */
    int is_settled;     /* its content is known to be the wanted one */
    st_base_fit found_fit;
    char places[256]; /* where it was looked for */
    char other[256];  /* what was there instead: the last one */
} search;

/* ---- candidates ---- */

static void tell_of_other(search *search, const char *path, const char *what)
{
    char shown[120];
    st_text_escape(shown, sizeof shown, path, strlen(path));
    snprintf(search->other, sizeof search->other, "; %s %.100s", shown, what);
}

static int is_same_file(const lmc_st_file *a, const lmc_st_file *b)
{
    return a->input.identity.device == b->input.identity.device &&
           a->input.identity.inode == b->input.identity.inode;
}

/* Why it cannot be the base; NULL if it can. */
static const char *candidate_fault(const lmc_st_file *file, const lmc_st_file *candidate)
{
    for (const lmc_st_file *other = file; other; other = other->dependent)
        if (is_same_file(other, candidate))
            return "needs that base itself";
    if (candidate->file_nbytes != file->bases.file_nbytes ||
        st_file_identity(candidate) != file->bases.header_hash)
        return "is another file";
    return NULL;
}

/* Keeps the new candidate or the one that was found before, whichever fits better. A single one is not looked at:
 * whatever is read of it is checked anyway. */
static lmc_status choose(search *search, lmc_st_file *candidate)
{
    const int is_trial = search->file->base->is_trial;
    st_base_fit fit = ST_BASE_DIFFERS;
    lmc_st_file *loser = candidate;
    lmc_status status = LMC_OK;
    if (!search->found) {
        search->found = candidate;
        return LMC_OK;
    }
    if (!search->is_found_known)
        status = st_base_probe(search->file, search->found, is_trial, &search->found_fit);
    search->is_found_known = 1;
    if (status == LMC_OK && search->found_fit != ST_BASE_FITS)
        status = st_base_probe(search->file, candidate, is_trial, &fit);
    if (status == LMC_OK && fit > search->found_fit) {
        loser = search->found;
        search->found = candidate;
        search->found_fit = fit;
    }
    lmc_st_close(loser);
    return status;
}

/* is_named: the caller has named this file, so that it should be there. Error: NOMEM. */
static lmc_status try_path(search *search, const char *path, int is_named)
{
    lmc_st_diag cause;
    lmc_st_file *candidate = NULL;
    const lmc_st_file *const file = search->file;
    const st_base_slot *const slot = file->base;
    const st_open how = {
        .path = path, .fd = -1, .allocator = &file->memory, .dependent = file, .is_raw_allowed = 1};
    lmc_status status = st_file_open_with(&how, slot->search, &candidate, &cause);
    const char *const fault = status == LMC_OK ? candidate_fault(file, candidate) : cause.text;
    if (status == LMC_OK && !fault)
        status = st_file_set_base(candidate, NULL, (const char *const *)slot->dirs, slot->dir_count, &cause);
    if (status == LMC_OK && !fault) {
        if (candidate->base)
            candidate->base->is_trial = 1;
        return choose(search, candidate);
    }
    /* a file that has the name of its base stands in its own folder: nothing is to be told of that */
    const int is_self = candidate && !is_named && is_same_file(file, candidate);
    if (fault && !is_self &&
        (candidate || is_named || (cause.os_errno != ENOENT && cause.os_errno != ENOTDIR)))
        tell_of_other(search, path, fault);
    lmc_st_close(candidate);
    return status == LMC_ERR_NOMEM ? status : LMC_OK;
}

/* Tries both names that the base may have there. */
static lmc_status try_directory(search *search, const char *directory)
{
    static const char *const suffixes[] = {"", ST_ARCHIVE_SUFFIX};
    const lmc_allocator *const memory = &search->file->memory;
    const size_t length = strlen(search->places);
    char shown[120];
    st_text_escape(shown, sizeof shown, directory, strlen(directory));
    snprintf(search->places + length, sizeof search->places - length, "%s%s", length == 0 ? "" : ", ", shown);
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < 2 && status == LMC_OK; i++) {
        char *const path = os_path_join(memory, directory, search->file->bases.name, suffixes[i]);
        status = !path ? LMC_ERR_NOMEM : try_path(search, path, 0);
        st_release(memory, path);
    }
    return status;
}

/* Sets is_settled if no other neighbour need be looked at: the content of this one fits, or run.json has named it and
 * it cannot be read. One with another content is no candidate: run.json may be older than the steps. Error: NOMEM. */
static lmc_status settle(search *search, int is_known)
{
    lmc_status status = LMC_OK;
    if (!search->found)
        return LMC_OK;
    if (!search->is_found_known)
        status = st_base_probe(search->file, search->found, search->file->base->is_trial, &search->found_fit);
    search->is_found_known = 1;
    if (status != LMC_OK)
        return status;
    search->is_settled =
        search->found_fit == ST_BASE_FITS || (is_known && search->found_fit != ST_BASE_DIFFERS);
    if (search->found_fit == ST_BASE_DIFFERS) {
        tell_of_other(search, search->found->path, "holds other content");
        lmc_st_close(search->found);
        search->found = NULL;
        search->is_found_known = 0;
    }
    return LMC_OK;
}

/* Folders that belong to the one that the file is in. *is_first_known: run.json has told the first, which was the only
 * one if that is to be enough; else it was left out. Error: NOMEM. */
static lmc_status try_some_neighbours(search *search, int is_known_enough, int *is_first_known)
{
    st_neighbours neighbours;
    const lmc_allocator *const memory = &search->file->memory;
    lmc_status status =
        st_neighbours_find(memory, search->file->path, is_known_enough, &neighbours) ? LMC_OK : LMC_ERR_NOMEM;
    *is_first_known = neighbours.is_first_known;
    const size_t first = is_known_enough ? 0 : (size_t)neighbours.is_first_known;
    for (size_t i = first; i < neighbours.count && status == LMC_OK && !search->is_settled; i++) {
        char *folder = NULL;
        status = st_neighbours_folder(memory, &neighbours, i, &folder) ? LMC_OK : LMC_ERR_NOMEM;
        if (status == LMC_OK && folder)
            status = try_directory(search, folder);
        if (status == LMC_OK)
            status = settle(search, i == 0 && neighbours.is_first_known);
        st_release(memory, folder);
    }
    st_neighbours_free(memory, &neighbours);
    return status;
}

/* A run may have many steps: it is listed only if run.json does not tell the base, or another one. Error: NOMEM. */
static lmc_status try_neighbours(search *search)
{
    int is_first_known = 0;
    ST_TRY(try_some_neighbours(search, 1, &is_first_known));
    return search->is_settled || !is_first_known ? LMC_OK : try_some_neighbours(search, 0, &is_first_known);
}

/* The named file, the caller's directories, the file's own, and those that belong to it. Error: NOMEM. */
static lmc_status try_all(search *search)
{
    const lmc_st_file *const file = search->file;
    if (file->base->path) {
        ST_TRY(try_path(search, file->base->path, 1));
        if (search->found)
            return LMC_OK; /* the caller has said that it is this one */
    }
    for (size_t i = 0; i < file->base->dir_count; i++)
        ST_TRY(try_directory(search, file->base->dirs[i]));
    if (!file->is_from_path)
        return LMC_OK;
    char *const directory = st_directory_of(&file->memory, file->path);
    const lmc_status status = !directory ? LMC_ERR_NOMEM : try_directory(search, directory);
    st_release(&file->memory, directory);
    return status == LMC_OK && !search->found ? try_neighbours(search) : status;
}

/* ---- the search ---- */

/* The file that was found, or why there is none. */
static lmc_status check_found(const search *search, lmc_st_diag *diag)
{
    char name[128];
    const st_bases *const bases = &search->file->bases;
    st_diag_init(diag, search->file->path);
    if (!search->found) {
        st_text_escape(name, sizeof name, bases->name, strlen(bases->name));
        return st_fail(diag, LMC_ERR_BASE, LMC_ST_NO_OFFSET,
                       "wants the base %s (hash %016llx), which was not found%s%s%s", name,
                       (unsigned long long)bases->content_hash,
                       search->places[0] != '\0' ? ": looked in " : "", search->places, search->other);
    }
    if (st_file_headers_nbytes(search->found) > LMC_ST_CHAIN_HEADER_NBYTES_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                       "the headers of a chain of bases, equal ones counted once, have more than %d bytes",
                       LMC_ST_CHAIN_HEADER_NBYTES_MAX);
    return LMC_OK;
}

lmc_status st_search_base(const lmc_st_file *file, lmc_st_file **found, lmc_st_diag *diag)
{
    search search = {.file = file};
    lmc_st_diag cause;
    size_t file_count = 0;
    for (const lmc_st_file *at = file; at; at = at->dependent)
        file_count++;
    if (file_count >= LMC_ST_CHAIN_MAX) {
        st_diag_init(diag, file->path);
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "a chain of bases has more than %d files",
                       LMC_ST_CHAIN_MAX);
    }
    lmc_status status = try_all(&search);
    if (status != LMC_OK) {
        lmc_st_close(search.found);
        return st_fail_nomem(diag);
    }
    status = check_found(&search, &cause);
    if (status != LMC_OK) {
        *diag = cause;
        lmc_st_close(search.found);
        return status;
    }
    /* Accepted: what its own search has found on trial is discarded. The base of a file on trial stays on trial. */
    if (search.found->base && !file->base->is_trial) {
        st_file_forget_base(search.found);
        search.found->base->is_trial = 0;
    }
    *found = search.found;
    return LMC_OK;
}
