/*
 * base_file.c - the slot for a file's base, and the chain of files.
 */
#include "safetensors/base/base_file.h"

#include "common/text.h"
#include "safetensors/common/options.h"

#include <string.h>

/* ---- opening and closing ---- */

lmc_status st_file_open_with(const st_open *how, st_base_search_fn search, lmc_st_file **file,
                             lmc_st_diag *diag)
{
    LMC_TRY(st_handle_open(how, file, diag));
    lmc_st_file *const opened = *file;
    if (st_bases_file_count(&opened->bases) == 0)
        return LMC_OK;
    opened->base = st_allocate_zeroed(&opened->memory, 1, sizeof *opened->base);
    if (!opened->base) {
        lmc_st_close(opened);
        *file = NULL;
        return st_fail_nomem(diag);
    }
    opened->base->search = search;
    pthread_mutex_init(&opened->base->lock, NULL);
    return LMC_OK;
}

void st_file_forget_base(const lmc_st_file *file)
{
    st_base_slot *const slot = file->base;
    if (slot->is_callers)
        slot->file->dependent = NULL; /* it may serve another file */
    else
        lmc_st_close(slot->file);
    slot->file = NULL;
    slot->is_callers = 0;
    slot->has_failed = 0;
}

static void forget_places(const lmc_st_file *file)
{
    st_base_slot *const slot = file->base;
    for (size_t i = 0; i < slot->dir_count; i++)
        st_release(&file->memory, slot->dirs[i]);
    st_release(&file->memory, slot->dirs);
    st_release(&file->memory, slot->path);
    slot->path = NULL;
    slot->dirs = NULL;
    slot->dir_count = 0;
}

void lmc_st_close(lmc_st_file *file)
{
    if (!file)
        return;
    if (file->base) {
        st_file_forget_base(file);
        forget_places(file);
        pthread_mutex_destroy(&file->base->lock);
        st_release(&file->memory, file->base);
    }
    st_handle_close(file);
}

/* ---- the base ---- */

lmc_status lmc_st_base_info(const lmc_st_file *file, lmc_st_base *base)
{
    lmc_st_base found = LMC_INIT(lmc_st_base);
    if (!lmc_struct_is_known(base, sizeof *base))
        return LMC_ERR_ARG;
    if (file->base) {
        found.name = file->bases.name;
        found.original_nbytes = file->bases.original_nbytes;
        found.header_hash = file->bases.header_hash;
        found.content_hash = file->bases.content_hash;
        found.tensor_count = st_bases_file_count(&file->bases);
    }
    lmc_struct_copy(base, &found, lmc_struct_size(base));
    return LMC_OK;
}

lmc_status st_file_set_base(lmc_st_file *file, const char *base, const char *const *base_dirs,
                            size_t base_dir_count, lmc_st_diag *diag)
{
    if (!file->base)
        return LMC_OK; /* nothing will be looked for */
    file->base->has_failed = 0;
    forget_places(file);
    st_base_slot *const slot = file->base;
    slot->path = base ? st_duplicate(&file->memory, base) : NULL;
    slot->dirs = st_allocate_zeroed(&file->memory, base_dir_count + 1, sizeof *slot->dirs);
    int has_memory = slot->dirs && (slot->path || !base);
    for (; slot->dir_count < base_dir_count && has_memory; slot->dir_count++) {
        slot->dirs[slot->dir_count] = st_duplicate(&file->memory, base_dirs[slot->dir_count]);
        has_memory = slot->dirs[slot->dir_count] != NULL;
    }
    if (has_memory)
        return LMC_OK;
    forget_places(file);
    return st_fail_nomem(diag);
}

/* Whether `base` may follow `file` in a chain. Only bases that are open already are counted. */
static lmc_status check_chain(const lmc_st_file *file, const lmc_st_file *base, lmc_st_diag *diag)
{
    size_t file_count = 0;
    uint64_t headers_nbytes = st_file_headers_nbytes(file);
    for (const lmc_st_file *at = file; at; at = at->dependent, file_count++)
        if (at == base)
            return st_fail(diag, LMC_ERR_BASE, LMC_ST_NO_OFFSET, "the base needs this file itself");
    for (const lmc_st_file *at = base; at; at = !at->base ? NULL : at->base->file, file_count++)
        headers_nbytes += at->header.is_shared ? 0 : at->header.text_nbytes;
    if (file_count > LMC_ST_CHAIN_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "a chain of bases has more than %d files",
                       LMC_ST_CHAIN_MAX);
    if (headers_nbytes > LMC_ST_CHAIN_HEADER_NBYTES_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                       "the headers of a chain of bases, equal ones counted once, have more than %d bytes",
                       LMC_ST_CHAIN_HEADER_NBYTES_MAX);
    return LMC_OK;
}

static lmc_status use_base(lmc_st_file *file, lmc_st_file *base, lmc_st_diag *diag)
{
    st_base_slot *const slot = file->base;
    lmc_status status = LMC_OK;
    if (!slot)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "it needs no base");
    pthread_mutex_lock(&slot->lock);
    if (slot->file)
        status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "its base is open already");
    else if (base->dependent)
        status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the base serves another file");
    else if (base->original_nbytes != file->bases.original_nbytes ||
             st_file_identity(base) != file->bases.header_hash)
        status = st_file_fail_base(file, base, diag);
    else
        status = check_chain(file, base, diag);
    if (status == LMC_OK) {
        base->dependent = file;
        slot->file = base;
        slot->is_callers = 1;
        slot->has_failed = 0;
    }
    pthread_mutex_unlock(&slot->lock);
    return status;
}

lmc_status lmc_st_use_base(lmc_st_file *file, lmc_st_file *base, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, file->path, NULL, diag);
    if (status == LMC_OK)
        status = use_base(file, base, call.diag);
    return st_call_end(&call, status);
}

lmc_status st_file_open_base(const lmc_st_file *file, const lmc_st_file **base, lmc_st_diag *diag)
{
    st_base_slot *const slot = file->base;
    lmc_status status = LMC_OK;
    *base = NULL;
    if (!slot)
        return LMC_OK;
    pthread_mutex_lock(&slot->lock);
    if (!slot->file && slot->has_failed) {
        *diag = slot->failure;
        status = diag->status;
    } else if (!slot->file) {
        status = slot->search(file, &slot->file, diag);
        if (status != LMC_OK) {
            slot->has_failed = status != LMC_ERR_NOMEM;
            slot->failure = *diag;
        }
    }
    *base = slot->file;
    pthread_mutex_unlock(&slot->lock);
    return status;
}

lmc_status lmc_st_open_base(const lmc_st_file *file, const lmc_st_file **base, lmc_st_diag *diag)
{
    st_call call;
    *base = NULL;
    lmc_status status = st_call_begin(&call, file->path, NULL, diag);
    if (file->base) { /* what an earlier search did not find may have come since */
        pthread_mutex_lock(&file->base->lock);
        file->base->has_failed = 0;
        pthread_mutex_unlock(&file->base->lock);
    }
    if (status == LMC_OK)
        status = st_file_open_base(file, base, call.diag);
    return st_call_end(&call, status);
}

lmc_status st_file_fail_base(const lmc_st_file *file, const lmc_st_file *used, lmc_st_diag *diag)
{
    char name[128];
    char path[160];
    if (used == file)
        return st_fail(diag, LMC_ERR_BASE, LMC_ST_NO_OFFSET,
                       "its base, a tensor of this file, holds other content than it was coded against");
    lmc_text_escape(path, sizeof path, used->path, strlen(used->path));
    lmc_text_escape(name, sizeof name, file->bases.name, strlen(file->bases.name));
    return st_fail(diag, LMC_ERR_BASE, LMC_ST_NO_OFFSET,
                   "%s is not the base that is wanted: %s (hash %016llx); it holds other content", path, name,
                   (unsigned long long)file->bases.content_hash);
}

/* ---- the chain ---- */

uint64_t st_file_headers_nbytes(const lmc_st_file *file)
{
    uint64_t nbytes = 0;
    for (; file; file = file->dependent)
        nbytes += file->header.is_shared ? 0 : file->header.text_nbytes;
    return nbytes;
}

lmc_status st_file_chain_count(const lmc_st_file *file, size_t *count, lmc_st_diag *diag)
{
    for (*count = 0; file; ++*count)
        LMC_TRY(st_file_open_base(file, &file, diag));
    return LMC_OK;
}

lmc_status st_file_check_output(const lmc_st_file *file, const char *path, int fd, lmc_st_diag *diag)
{
    lmc_st_diag unused = {0};
    size_t count = 0;
    /* what cannot be found cannot be the output; who needs it, says so */
    if (st_file_chain_count(file, &count, &unused) == LMC_ERR_NOMEM)
        return st_fail_nomem(diag);
    while (file->base && file->base->file) {
        file = file->base->file;
        if (os_input_is(&file->input, path, fd)) {
            st_diag_set_file(diag, path);
            return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output is a base of the archive");
        }
    }
    return LMC_OK;
}
