/*
 * read_many.c - tensors of an archive are restored to memory, those of a plain file are read.
 */
#include "safetensors/restore/read_many.h"

#include "safetensors/engine/engine.h"
#include "safetensors/restore/restore.h"

#include <string.h>

/* ---- plain files ---- */

typedef struct plain_read {
    const lmc_st_file *file;
    void *const *dsts; /* per tensor; NULL: not wanted */
} plain_read;

/* A block is a run. */
static lmc_status prepare_plain(void *user, st_worker *worker, st_slot *slot)
{
    const plain_read *const plain = user;
    (void)worker;
    slot->block_nbytes = ST_RUN_NBYTES;
    slot->content_nbytes = plain->dsts[slot->index] ? st_file_tensor_nbytes(plain->file, slot->index) : 0;
    slot->block_count = (slot->content_nbytes + ST_RUN_NBYTES - 1) / ST_RUN_NBYTES;
    return LMC_OK;
}

static lmc_status read_plain_run(void *user, st_worker *worker, st_slot *slot, const st_run *run)
{
    const plain_read *const plain = user;
    const uint64_t at = run->first_block * ST_RUN_NBYTES;
    if (run->content_nbytes == 0)
        return LMC_OK;
    const lmc_status status =
        os_input_read(&plain->file->input, plain->file->places[slot->index] + at,
                      (unsigned char *)plain->dsts[slot->index] + at, run->content_nbytes, &worker->diag);
    return st_file_blame(plain->file, slot->index, status, &worker->diag);
}

static lmc_status read_plain(const lmc_st_file *file, void *const *dsts, uint64_t total_nbytes,
                             const lmc_st_options *options, lmc_st_diag *diag)
{
    static const st_engine_ops ops = {.prepare = prepare_plain, .run = read_plain_run};
    plain_read plain = {file, dsts};
    return st_engine_run(&ops, &plain, file->header.tensor_count, total_nbytes, options, diag);
}

/* ---- what is wanted ---- */

/* Fills dsts, and refuses what is not there. *total_nbytes: of the tensors, each counted once. */
static lmc_status spread(const lmc_st_file *file, const st_wanted_tensors *wanted, void **dsts,
                         uint64_t *total_nbytes, lmc_st_diag *diag)
{
    *total_nbytes = 0;
    for (size_t i = 0; i < wanted->count; i++) {
        if (wanted->indices[i] >= file->header.tensor_count)
            return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this number");
        const size_t index = (size_t)wanted->indices[i];
        const uint64_t nbytes = st_file_tensor_nbytes(file, index);
        if (nbytes > SIZE_MAX)
            return st_file_blame(file, index, st_fail_nomem(diag), diag);
        if (nbytes == 0 || dsts[index])
            continue;
        dsts[index] = wanted->dsts[i];
        *total_nbytes += nbytes;
    }
    return LMC_OK;
}

/* A tensor that was asked for again is copied. */
static void copy_repeated(const lmc_st_file *file, const st_wanted_tensors *wanted, void *const *dsts)
{
    for (size_t i = 0; i < wanted->count; i++) {
        const size_t index = (size_t)wanted->indices[i];
        if (dsts[index] && dsts[index] != wanted->dsts[i])
            memcpy(wanted->dsts[i], dsts[index], (size_t)st_file_tensor_nbytes(file, index));
    }
}

lmc_status st_read_many(const lmc_st_file *file, const st_wanted_tensors *wanted,
                        const lmc_st_options *options, lmc_st_diag *diag)
{
    uint64_t total_nbytes = 0;
    void **const dsts = st_allocate_zeroed(&file->memory, file->header.tensor_count + 1, sizeof *dsts);
    if (!dsts)
        return st_fail_nomem(diag);
    lmc_status status = spread(file, wanted, dsts, &total_nbytes, diag);
    if (status == LMC_OK && !file->is_archive) {
        status = read_plain(file, dsts, total_nbytes, options, diag);
    } else if (status == LMC_OK) {
        const st_restoration restoration = {.source = file, .options = options, .dsts = dsts};
        status = st_restore_tensors(&restoration, diag);
    }
    if (status == LMC_OK)
        copy_repeated(file, wanted, dsts);
    st_release(&file->memory, dsts);
    return status;
}
