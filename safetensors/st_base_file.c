/*
 * st_base_file.c - the base of an open archive: what is recorded of it, where it is looked for, opening it. What
 * is read from it is in st_content.c.
 */
#include "os_dir.h"
#include "st_content.h"
#include "st_model_dir.h"
#include "st_table.h"
#include "st_text.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct st_base_state {
    char *path; /* what the caller named; may be NULL */
    char **dirs;
    size_t dir_count;
    pthread_mutex_t lock; /* of what follows */
    lmc_st_file *file;    /* NULL: not open yet */
    int has_failed;       /* the search has, with this result */
    lmc_st_diag failure;
};

/* A search for the base of `file`. Text collects what is said if nothing is found. */
typedef struct base_search {
    const lmc_st_file *file;
    lmc_st_file *found; /* has the right size and header */
    char places[256];   /* where it was looked for */
    char other[256];    /* what was there instead: the last one */
} base_search;

/* ---- what is recorded ---- */

int lmc_st_base_info(const lmc_st_file *file, lmc_st_base *base)
{
    memset(base, 0, sizeof(*base));
    if (file->base == NULL) {
        return 0;
    }
    base->name = file->bases.name;
    base->file_nbytes = file->bases.file_nbytes;
    base->header_hash = file->bases.header_hash;
    base->content_hash = file->bases.content_hash;
    base->tensor_count = st_bases_file_count(&file->bases);
    return 1;
}

int lmc_st_tensor_base(const lmc_st_file *file, uint64_t index, lmc_st_base_place *place,
                       uint64_t *base_index)
{
    const st_link *const link =
        index < file->header.tensor_count ? st_bases_find(&file->bases, (size_t)index) : NULL;
    if (link == NULL) {
        return 0;
    }
    *place = link->place;
    *base_index = link->base;
    return 1;
}

/* ---- candidates ---- */

static void append(char *text, size_t capacity, const char *more)
{
    const size_t length = strlen(text);
    snprintf(text + length, capacity - length, "%s%s", length == 0 ? "" : ", ", more);
}

static void note_place(base_search *search, const char *path)
{
    char shown[120];
    st_text_escape(shown, sizeof(shown), path, strlen(path));
    append(search->places, sizeof(search->places), shown);
}

static void note_other(base_search *search, const char *path, const char *what)
{
    char shown[120];
    st_text_escape(shown, sizeof(shown), path, strlen(path));
    snprintf(search->other, sizeof(search->other), "; %s %.100s", shown, what);
}

static int is_own_dependent(const lmc_st_file *file, const lmc_st_file *candidate)
{
    for (; file != NULL; file = file->dependent) {
        if (file->input.device == candidate->input.device && file->input.inode == candidate->input.inode) {
            return 1;
        }
    }
    return 0;
}

/* Why it cannot be the base; NULL if it can. */
static const char *candidate_fault(const lmc_st_file *file, const lmc_st_file *candidate)
{
    const st_header *const header = &candidate->header;
    if (is_own_dependent(file, candidate)) {
        return "needs that base itself";
    }
    if (candidate->file_nbytes != file->bases.file_nbytes ||
        st_hash(header->text, header->text_nbytes) != file->bases.header_hash) {
        return "is another file";
    }
    return NULL;
}

/* Keeps the new candidate or the one that was found before, whichever holds the right first block. */
static lmc_status choose(base_search *search, lmc_st_file *candidate)
{
    lmc_st_diag unused = {0};
    lmc_st_file *loser = candidate;
    if (search->found == NULL) {
        search->found = candidate;
        return LMC_OK;
    }
    const lmc_status status = st_content_probe(search->file, search->found, &unused);
    if (status == LMC_ERR_BASE) {
        loser = search->found;
        search->found = candidate;
    }
    note_other(search, loser->path, "is another file");
    lmc_st_close(loser);
    return status == LMC_ERR_NOMEM ? status : LMC_OK;
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
        if (fault == NULL) {
            status =
                lmc_st_set_base(candidate, NULL, (const char *const *)state->dirs, state->dir_count, &cause);
            if (status == LMC_OK) {
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
        status = path == NULL ? LMC_ERR_NOMEM : try_path(search, path, 0);
        st_release(&search->file->memory, path);
    }
    return status;
}

static lmc_status try_own_directory(base_search *search)
{
    const lmc_st_file *const file = search->file;
    char *const directory = st_duplicate(&file->memory, file->path);
    if (directory == NULL) {
        return LMC_ERR_NOMEM;
    }
    char *const slash = strrchr(directory, '/');
    if (slash != NULL) {
        slash[slash == directory ? 1 : 0] = '\0';
    }
    const lmc_status status = try_directory(search, slash == NULL ? "." : directory);
    st_release(&file->memory, directory);
    return status;
}

static lmc_status search_all(base_search *search)
{
    const st_base_state *const state = search->file->base;
    lmc_status status = LMC_OK;
    if (state->path != NULL) {
        status = try_path(search, state->path, 1);
        if (search->found != NULL) {
            return status; /* the caller has said that it is this one */
        }
    }
    for (size_t i = 0; i < state->dir_count && status == LMC_OK; i++) {
        status = try_directory(search, state->dirs[i]);
    }
    return status == LMC_OK && search->file->is_from_path ? try_own_directory(search) : status;
}

/* ---- opening ---- */

static size_t depth_of(const lmc_st_file *file)
{
    size_t count = 0;
    for (; file != NULL; file = file->dependent) {
        count++;
    }
    return count;
}

static lmc_status fail_missing(const base_search *search, lmc_st_diag *diag)
{
    char name[128];
    const st_bases *const bases = &search->file->bases;
    st_text_escape(name, sizeof(name), bases->name, strlen(bases->name));
    st_diag_init(diag, search->file->path);
    return st_fail(diag, LMC_ERR_BASE, LMC_ST_NO_OFFSET,
                   "wants the base %s (hash %016llx), which was not found%s%s%s", name,
                   (unsigned long long)bases->content_hash, search->places[0] != '\0' ? ": looked in " : "",
                   search->places, search->other);
}

static lmc_status search_and_open(const lmc_st_file *file, lmc_st_diag *diag)
{
    base_search search = {.file = file};
    if (depth_of(file) >= LMC_ST_CHAIN_MAX) {
        st_diag_init(diag, file->path);
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "a chain of bases has more than %d files",
                       LMC_ST_CHAIN_MAX);
    }
    const lmc_status status = search_all(&search);
    if (status != LMC_OK) {
        lmc_st_close(search.found);
        return st_fail_nomem(diag);
    }
    file->base->file = search.found;
    return search.found != NULL ? LMC_OK : fail_missing(&search, diag);
}

lmc_status st_file_open_base(const lmc_st_file *file, const lmc_st_file **base, lmc_st_diag *diag)
{
    st_base_state *const state = file->base;
    lmc_status status = LMC_OK;
    *base = NULL;
    if (state == NULL) {
        return LMC_OK;
    }
    pthread_mutex_lock(&state->lock);
    if (state->file == NULL && state->has_failed) {
        *diag = state->failure;
        status = diag->status;
    } else if (state->file == NULL) {
        status = search_and_open(file, diag);
        if (status != LMC_OK) {
            state->has_failed = status != LMC_ERR_NOMEM;
            state->failure = *diag;
        }
    }
    *base = state->file;
    pthread_mutex_unlock(&state->lock);
    return status;
}

lmc_status lmc_st_open_base(const lmc_st_file *file, const lmc_st_file **base, lmc_st_diag *diag)
{
    lmc_st_diag unused;
    diag = st_file_begin(file, diag, &unused);
    if (file->base != NULL) {
        pthread_mutex_lock(&file->base->lock);
        file->base->has_failed = 0; /* it may have come since */
        pthread_mutex_unlock(&file->base->lock);
    }
    return st_file_open_base(file, base, diag);
}

lmc_status st_file_chain_count(const lmc_st_file *file, size_t *count, lmc_st_diag *diag)
{
    *count = 0;
    while (file != NULL) {
        const lmc_st_file *base = NULL;
        const lmc_status status = st_file_open_base(file, &base, diag);
        if (status != LMC_OK) {
            return status;
        }
        file = base;
        ++*count;
    }
    return LMC_OK;
}

int st_file_is_base(const lmc_st_file *file, const char *path, int fd)
{
    while (file->base != NULL && file->base->file != NULL) {
        file = file->base->file;
        if (os_input_is(&file->input, path, fd)) {
            return 1;
        }
    }
    return 0;
}

lmc_status st_file_fail_base(const lmc_st_file *file, const lmc_st_file *used, lmc_st_diag *diag)
{
    char name[128];
    char path[160];
    st_text_escape(path, sizeof(path), used->path, strlen(used->path));
    if (used == file) {
        return st_fail(diag, LMC_ERR_BASE, LMC_ST_NO_OFFSET,
                       "its base, a tensor of this file, holds other content than it was coded against");
    }
    st_text_escape(name, sizeof(name), file->bases.name, strlen(file->bases.name));
    return st_fail(diag, LMC_ERR_BASE, LMC_ST_NO_OFFSET,
                   "%s is not the base that is wanted: %s (hash %016llx); it holds other content", path, name,
                   (unsigned long long)file->bases.content_hash);
}

/* ---- where to look ---- */

lmc_status st_file_begin_base(lmc_st_file *file, lmc_st_diag *diag)
{
    if (st_bases_file_count(&file->bases) == 0) {
        return LMC_OK;
    }
    file->base = st_allocate_zeroed(&file->memory, 1, sizeof(*file->base));
    if (file->base == NULL) {
        return st_fail_nomem(diag);
    }
    pthread_mutex_init(&file->base->lock, NULL);
    return LMC_OK;
}

static void forget_places(const lmc_st_file *file)
{
    st_base_state *const state = file->base;
    for (size_t i = 0; i < state->dir_count; i++) {
        st_release(&file->memory, state->dirs[i]);
    }
    st_release(&file->memory, state->dirs);
    st_release(&file->memory, state->path);
    state->path = NULL;
    state->dirs = NULL;
    state->dir_count = 0;
}

void st_file_close_base(lmc_st_file *file)
{
    if (file->base != NULL) {
        lmc_st_close(file->base->file);
        forget_places(file);
        pthread_mutex_destroy(&file->base->lock);
        st_release(&file->memory, file->base);
    }
    file->base = NULL;
}

static int copy_places(const lmc_st_file *file, const char *base, const char *const *base_dirs,
                       size_t base_dir_count)
{
    st_base_state *const state = file->base;
    if (base != NULL && (state->path = st_duplicate(&file->memory, base)) == NULL) {
        return 0;
    }
    state->dirs = st_allocate_zeroed(&file->memory, base_dir_count + 1, sizeof(*state->dirs));
    if (state->dirs == NULL) {
        return 0;
    }
    for (size_t i = 0; i < base_dir_count; i++) {
        state->dirs[i] = st_duplicate(&file->memory, base_dirs[i]);
        if (state->dirs[i] == NULL) {
            return 0;
        }
        state->dir_count++;
    }
    return 1;
}

lmc_status lmc_st_set_base(lmc_st_file *file, const char *base, const char *const *base_dirs,
                           size_t base_dir_count, lmc_st_diag *diag)
{
    lmc_st_diag unused;
    diag = st_file_begin(file, diag, &unused);
    if (file->base == NULL) {
        return LMC_OK; /* nothing will be looked for */
    }
    if (file->base->file != NULL) {
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "its base is open already");
    }
    file->base->has_failed = 0;
    forget_places(file);
    if (!copy_places(file, base, base_dirs, base_dir_count)) {
        forget_places(file);
        return st_fail_nomem(diag);
    }
    return LMC_OK;
}
