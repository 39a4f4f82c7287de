/*
 * worker.c - opens and closes what a thread owns (engine/worker.h), grows its buffers, and reads ahead for a batch.
 */
#include "safetensors/engine/worker.h"

#include <string.h>

/* What is read ahead for a batch: frames can be a little larger than their content. */
#define AHEAD_NBYTES_MAX (ST_RUN_NBYTES + ST_RUN_NBYTES / 4)

lmc_status st_worker_open(st_worker *worker, st_engine *engine, const lmc_allocator *memory,
                          const lmc_st_diag *blank)
{
    memset(worker, 0, sizeof *worker);
    worker->engine = engine;
    worker->memory = memory;
    worker->diag = *blank;
    return lmc_ctx_create(memory, &worker->ctx);
}

void st_worker_close(st_worker *worker)
{
    lmc_ctx_free(worker->ctx);
    lmc_ctx_free(worker->plan_ctx);
    st_buffer_free(worker->memory, &worker->content);
    st_buffer_free(worker->memory, &worker->stored);
    st_buffer_free(worker->memory, &worker->base);
    st_buffer_free(worker->memory, &worker->gathered);
    st_buffer_free(worker->memory, &worker->window);
}

static unsigned char *grow_or_fail(st_worker *worker, st_buffer *buffer, size_t nbytes)
{
    unsigned char *const bytes = st_buffer_grow(worker->memory, buffer, nbytes);
    if (!bytes)
        st_fail_nomem(&worker->diag);
    return bytes;
}

lmc_ctx *st_worker_plan_ctx(st_worker *worker)
{
    if (!worker->plan_ctx && lmc_ctx_create(worker->memory, &worker->plan_ctx) != LMC_OK)
        st_fail_nomem(&worker->diag);
    return worker->plan_ctx;
}

unsigned char *st_worker_content(st_worker *worker, size_t nbytes)
{
    return grow_or_fail(worker, &worker->content, nbytes);
}

unsigned char *st_worker_stored(st_worker *worker, size_t nbytes)
{
    return grow_or_fail(worker, &worker->stored, nbytes);
}

unsigned char *st_worker_gather(st_worker *worker, size_t nbytes)
{
    unsigned char *const bytes =
        st_buffer_extend(worker->memory, &worker->gathered, worker->gathered_nbytes, nbytes);
    if (!bytes)
        st_fail_nomem(&worker->diag);
    return bytes;
}

lmc_status st_worker_read_ahead(st_worker *worker, const os_input *input, const uint64_t *places,
                                size_t first, size_t count, size_t *index)
{
    const uint64_t begin = places[first];
    const uint64_t end = places[first + count];
    *index = first;
    if (begin >= end || end > input->nbytes || end - begin > AHEAD_NBYTES_MAX)
        return LMC_OK;
    unsigned char *const bytes = grow_or_fail(worker, &worker->window, (size_t)(end - begin));
    if (!bytes)
        return LMC_ERR_NOMEM;
    const lmc_status status = os_input_read(input, begin, bytes, (size_t)(end - begin), &worker->diag);
    if (status == LMC_OK) {
        const os_window ahead = {bytes, begin, end};
        worker->ahead = ahead;
    }
    while (status != LMC_OK && *index + 1 < first + count && places[*index + 1] <= worker->diag.offset)
        (*index)++;
    return status;
}
