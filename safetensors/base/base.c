/*
 * base.c - the base of an open archive: what is recorded of it, where it is to be looked for, opening it.
 * The search is in base/search.c; what is read from a base in base/content.c.
 */
#include "safetensors/base/search.h"
#include "safetensors/common/text.h"

#include <string.h>

/* ---- what is recorded ---- */

int st_base_info(const lmc_st_file *file, lmc_st_base *base)
{
    if (!file->base)
        return 0;
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
    if (!link)
        return 0;
    *place = link->place;
    *base_index = link->base;
    return 1;
}

/* ---- opening ---- */

lmc_status st_file_open_base(const lmc_st_file *file, const lmc_st_file **base, lmc_st_diag *diag)
{
    st_base_state *const state = file->base;
    lmc_status status = LMC_OK;
    *base = NULL;
    if (!state)
        return LMC_OK;
    pthread_mutex_lock(&state->lock);
    if (!state->file && state->has_failed) {
        *diag = state->failure;
        status = diag->status;
    } else if (!state->file) {
        status = st_base_search(file, &state->file, diag);
        if (status != LMC_OK) {
            state->has_failed = status != LMC_ERR_NOMEM;
            state->failure = *diag;
        }
    }
    *base = state->file;
    pthread_mutex_unlock(&state->lock);
    return status;
}

void st_file_retry_base(const lmc_st_file *file)
{
    if (!file->base)
        return;
    pthread_mutex_lock(&file->base->lock);
    file->base->has_failed = 0; /* it may have come since */
    pthread_mutex_unlock(&file->base->lock);
}

uint64_t st_file_headers_nbytes(const lmc_st_file *file)
{
    uint64_t nbytes = 0;
    for (; file; file = file->dependent)
        nbytes += file->header.is_shared ? 0 : file->header.text_nbytes;
    return nbytes;
}

lmc_status st_file_chain_count(const lmc_st_file *file, size_t *count, lmc_st_diag *diag)
{
    *count = 0;
    while (file) {
        const lmc_st_file *base = NULL;
        const lmc_status status = st_file_open_base(file, &base, diag);
        if (status != LMC_OK)
            return status;
        file = base;
        ++*count;
    }
    return LMC_OK;
}

static int is_base(const lmc_st_file *file, const char *path, int fd)
{
    while (file->base && file->base->file) {
        file = file->base->file;
        if (os_input_is(&file->input, path, fd))
            return 1;
    }
    return 0;
}

lmc_status st_file_check_output(const lmc_st_file *file, const char *path, int fd, lmc_st_diag *diag)
{
    lmc_st_diag unused = {0};
    size_t count = 0;
    /* what cannot be found cannot be the output; who needs it, says so */
    if (st_file_chain_count(file, &count, &unused) == LMC_ERR_NOMEM)
        return st_fail_nomem(diag);
    if (is_base(file, path, fd)) {
        st_diag_set_file(diag, path);
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output is a base of the archive");
    }
    return LMC_OK;
}

lmc_status st_file_fail_base(const lmc_st_file *file, const lmc_st_file *used, lmc_st_diag *diag)
{
    char name[128];
    char path[160];
    st_text_escape(path, sizeof path, used->path, strlen(used->path));
    if (used == file) {
        return st_fail(diag, LMC_ERR_BASE, LMC_ST_NO_OFFSET,
                       "its base, a tensor of this file, holds other content than it was coded against");
    }
    st_text_escape(name, sizeof name, file->bases.name, strlen(file->bases.name));
    return st_fail(diag, LMC_ERR_BASE, LMC_ST_NO_OFFSET,
                   "%s is not the base that is wanted: %s (hash %016llx); it holds other content", path, name,
                   (unsigned long long)file->bases.content_hash);
}

/* ---- where to look ---- */

lmc_status st_file_begin_base(lmc_st_file *file, lmc_st_diag *diag)
{
    if (st_bases_file_count(&file->bases) == 0)
        return LMC_OK;
    file->base = st_allocate_zeroed(&file->memory, 1, sizeof *file->base);
    if (!file->base)
        return st_fail_nomem(diag);
    pthread_mutex_init(&file->base->lock, NULL);
    return LMC_OK;
}

static void forget_places(const lmc_st_file *file)
{
    st_base_state *const state = file->base;
    for (size_t i = 0; i < state->dir_count; i++)
        st_release(&file->memory, state->dirs[i]);
    st_release(&file->memory, state->dirs);
    st_release(&file->memory, state->path);
    state->path = NULL;
    state->dirs = NULL;
    state->dir_count = 0;
}

void st_base_forget(const lmc_st_file *file)
{
    st_base_state *const state = file->base;
    lmc_st_close(state->file);
    state->file = NULL;
    state->has_failed = 0;
}

void st_file_close_base(lmc_st_file *file)
{
    if (file->base) {
        st_base_forget(file);
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
    if (base && (state->path = st_duplicate(&file->memory, base)) == NULL)
        return 0;
    state->dirs = st_allocate_zeroed(&file->memory, base_dir_count + 1, sizeof *state->dirs);
    if (!state->dirs)
        return 0;
    for (size_t i = 0; i < base_dir_count; i++) {
        state->dirs[i] = st_duplicate(&file->memory, base_dirs[i]);
        if (!state->dirs[i])
            return 0;
        state->dir_count++;
    }
    return 1;
}

lmc_status st_file_set_base(lmc_st_file *file, const char *base, const char *const *base_dirs,
                            size_t base_dir_count, lmc_st_diag *diag)
{
    if (!file->base)
        return LMC_OK; /* nothing will be looked for */
    if (file->base->file)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "its base is open already");
    file->base->has_failed = 0;
    forget_places(file);
    if (!copy_places(file, base, base_dirs, base_dir_count)) {
        forget_places(file);
        return st_fail_nomem(diag);
    }
    return LMC_OK;
}
