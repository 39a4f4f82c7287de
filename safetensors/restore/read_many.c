/*
 * read_many.c - whole tensors, read to memory by several threads: those of an archive are restored, those of a plain
 * file are read.
 */
#include "safetensors/common/memory.h"
#include "safetensors/common/options.h"
#include "safetensors/common/parts.h"
#include "safetensors/engine/engine.h"
#include "safetensors/read/view.h"
#include "safetensors/restore/restore.h"

#include <string.h>

/* Tensor indices[i] is to go to dsts[i], which has room for it. */
typedef struct wanted_tensors {
    const uint64_t *indices;
    void *const *dsts;
    size_t count;
} wanted_tensors;

/* ---- plain files ---- */

typedef struct plain_read {
    const lmc_st_file *file;
    void *const *dsts; /* per tensor; NULL: not wanted */
} plain_read;

/* A block is a part. */
static lmc_status prepare_plain(void *user, st_worker *worker, st_slot *slot)
{
    const plain_read *const plain = user;
    (void)worker;
    slot->block_nbytes = ST_PART_NBYTES;
    slot->content_nbytes = plain->dsts[slot->index] ? st_file_tensor_nbytes(plain->file, slot->index) : 0;
    slot->block_count = (slot->content_nbytes + ST_PART_NBYTES - 1) / ST_PART_NBYTES;
    return LMC_OK;
}

static lmc_status read_plain_part(void *user, st_worker *worker, st_slot *slot, const st_part *part)
{
    const plain_read *const plain = user;
    const uint64_t at = part->first_block * ST_PART_NBYTES;
    if (part->content_nbytes == 0)
        return LMC_OK;
    unsigned char *const dst = (unsigned char *)plain->dsts[slot->index] + at;
    os_take_pages(dst, part->content_nbytes);
    const lmc_status status = st_input_read(&plain->file->input, plain->file->places[slot->index] + at, dst,
                                            part->content_nbytes, &worker->diag);
    return st_file_blame(plain->file, slot->index, status, &worker->diag);
}

static const st_engine_ops plain_ops = {.prepare = prepare_plain, .do_part = read_plain_part};

/* ---- views ---- */

/* What lies in order in its storage is read in blocks of this size, which threads share. */
#define VIEW_BLOCK_NBYTES ((size_t)4 << 20)

typedef struct view_read {
    const lmc_st_file *file;
    const wanted_tensors *wanted;
    const size_t *numbers; /* those of `wanted` that are views */
} view_read;

static lmc_status prepare_view(void *user, st_worker *worker, st_slot *slot)
{
    const view_read *const views = user;
    const size_t index = (size_t)views->wanted->indices[views->numbers[slot->index]];
    const st_view *const view = st_header_listed(&views->file->header, index).view;
    (void)worker;
    slot->content_nbytes = view->nbytes;
    slot->block_nbytes = st_view_is_in_order(view) ? VIEW_BLOCK_NBYTES : (size_t)view->nbytes;
    slot->block_count = (view->nbytes + slot->block_nbytes - 1) / slot->block_nbytes;
    return LMC_OK;
}

static lmc_status read_view_part(void *user, st_worker *worker, st_slot *slot, const st_part *part)
{
    const view_read *const views = user;
    const size_t number = views->numbers[slot->index];
    const uint64_t at = part->first_block * slot->block_nbytes;
    return st_read_range(views->file, worker->ctx, views->wanted->indices[number], at, part->content_nbytes,
                         (unsigned char *)views->wanted->dsts[number] + at, &worker->diag);
}

static const st_engine_ops view_ops = {.prepare = prepare_view, .do_part = read_view_part};

/* ---- what is wanted ---- */

/* The wanted tensors: those that are as their storages lie there, and views that must be gathered or swapped. */
typedef struct sorted {
    void **dsts;     /* per stored tensor; NULL: not wanted */
    size_t *numbers; /* of the views among the wanted */
    size_t view_count;
    uint64_t stored_nbytes, view_nbytes; /* a storage counts once */
} sorted;

static int is_as_stored(const lmc_st_file *file, const st_listed *listed)
{
    return !listed->view || st_view_is_whole(listed->view, st_file_tensor_nbytes(file, listed->tensor));
}

static lmc_status read_sorted(const lmc_st_file *file, const wanted_tensors *wanted, const sorted *sorted,
                              const st_options *options, lmc_st_diag *diag)
{
    plain_read plain = {file, sorted->dsts};
    view_read views = {file, wanted, sorted->numbers};
    st_parts parts = {.options = options, .total_nbytes = sorted->stored_nbytes + sorted->view_nbytes};
    const st_options inner = st_parts_options(&parts);
    const st_restoration restoration = {.source = file, .options = &inner, .dsts = sorted->dsts};
    st_parts_begin(&parts, sorted->stored_nbytes);
    LMC_TRY(file->is_archive ? st_restore_tensors(&restoration, diag)
                             : st_engine_run(&plain_ops, &plain, file->header.tensor_count,
                                             sorted->stored_nbytes, &inner, diag));
    st_parts_end(&parts);
    for (size_t i = 0; i < wanted->count; i++) { /* a storage that was asked for again is copied */
        const st_listed listed = st_header_listed(&file->header, (size_t)wanted->indices[i]);
        const void *const dst = sorted->dsts[listed.tensor];
        if (dst && dst != wanted->dsts[i] && is_as_stored(file, &listed))
            memcpy(wanted->dsts[i], dst, (size_t)st_file_tensor_nbytes(file, listed.tensor));
    }
    if (sorted->view_count == 0)
        return LMC_OK;
    st_parts_begin(&parts, sorted->view_nbytes);
    LMC_TRY(st_engine_run(&view_ops, &views, sorted->view_count, sorted->view_nbytes, &inner, diag));
    st_parts_end(&parts);
    return LMC_OK;
}

static lmc_status read_wanted(const lmc_st_file *file, const wanted_tensors *wanted,
                              const st_options *options, lmc_st_diag *diag)
{
    sorted sorted = {
        .dsts = st_allocate_zeroed(&file->memory, file->header.tensor_count + 1, sizeof *sorted.dsts),
        .numbers = st_allocate_array(&file->memory, wanted->count + (uint64_t)1, sizeof *sorted.numbers)};
    lmc_status status = !sorted.dsts || !sorted.numbers ? st_fail_nomem(diag) : LMC_OK;
    for (size_t i = 0; i < wanted->count && status == LMC_OK; i++) {
        st_listed listed;
        const int is_known = st_file_find_listed(file, wanted->indices[i], &listed);
        const uint64_t nbytes = is_known ? st_listed_nbytes(file, &listed) : 0;
        if (!is_known) {
            status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this number");
        } else if (nbytes > SIZE_MAX) {
            status = st_file_blame(file, listed.tensor, st_fail_nomem(diag), diag);
        } else if (nbytes > 0 && !is_as_stored(file, &listed)) {
            sorted.numbers[sorted.view_count++] = i;
            sorted.view_nbytes += nbytes;
        } else if (nbytes > 0 && !sorted.dsts[listed.tensor]) {
            sorted.dsts[listed.tensor] = wanted->dsts[i];
            sorted.stored_nbytes += nbytes;
        }
    }
    if (status == LMC_OK)
        status = read_sorted(file, wanted, &sorted, options, diag);
    st_release(&file->memory, sorted.dsts);
    st_release(&file->memory, sorted.numbers);
    return status;
}

lmc_status lmc_st_read_many(const lmc_st_file *file, const uint64_t *indices, void *const *dsts, size_t count,
                            const lmc_st_options *options, lmc_st_diag *diag)
{
    st_call call;
    const wanted_tensors wanted = {indices, dsts, count};
    lmc_status status = st_call_begin_plain(&call, file->path, options, diag);
    if (!call.has_allocator)
        call.options.allocator = &file->memory;
    if (status == LMC_OK)
        status = read_wanted(file, &wanted, &call.options, call.diag);
    return st_call_end(&call, status);
}

/* ---- one tensor of a closed file ---- */

lmc_status lmc_st_load_tensor(const char *path, const char *name, const lmc_st_open_options *options,
                              void **content, size_t *nbytes, lmc_st_diag *diag)
{
    st_call call;
    st_listed listed = {0};
    lmc_st_file *file = NULL;
    uint64_t index = 0, content_nbytes = 0;
    *content = NULL;
    *nbytes = 0;
    lmc_status status = st_call_begin(&call, path, NULL, diag);
    if (status == LMC_OK)
        status = lmc_st_open(path, options, &file, call.diag);
    if (status == LMC_OK &&
        (!lmc_st_find_tensor(file, name, &index) || !st_file_find_listed(file, index, &listed))) {
        st_diag_set_tensor(call.diag, name, strlen(name));
        status = st_fail(call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this name");
    }
    if (status == LMC_OK) {
        call.options.allocator = &file->memory;
        content_nbytes = st_listed_nbytes(file, &listed);
        *content = content_nbytes <= SIZE_MAX ? st_allocate(&file->memory, (size_t)content_nbytes) : NULL;
        const wanted_tensors wanted = {&index, content, 1};
        status = *content ? read_wanted(file, &wanted, &call.options, call.diag)
                          : st_file_blame(file, listed.tensor, st_fail_nomem(call.diag), call.diag);
    }
    if (status == LMC_OK) {
        *nbytes = (size_t)content_nbytes;
    } else if (*content) {
        st_release(&file->memory, *content);
        *content = NULL;
    }
    lmc_st_close(file);
    return st_call_end(&call, status);
}
