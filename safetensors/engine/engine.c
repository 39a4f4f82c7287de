/*
 * engine.c - hands out the jobs of an engine (engine/engine.h). One lock guards which tensors are prepared, which job
 * comes next, and whose part may write.
 */
#include "safetensors/engine/engine.h"
#include "lmc_experimental.h"
#include "os/thread.h"

#include <string.h>

/* What is read ahead for a batch: frames can be a little larger than their content. */
#define AHEAD_NBYTES_MAX (ST_PART_NBYTES + ST_PART_NBYTES / 4)

/* Tensors of a batch, for files made of tiny ones. */
#define BATCH_COUNT_MAX 128

/* Address space for each thread, where that is limited: its stack, what the C library takes for its allocations, and
 * buffers and scratch for large blocks. A thread that is started takes its part before it has asked for any memory: too
 * many of them would leave none for their work. */
#define THREAD_NBYTES ((uint64_t)128 << 20)

/* Work items between prepare and release, per thread and beyond that. */
#define ITEMS_PER_THREAD 2
#define ITEMS_EXTRA 2

/* What is handed out as a whole or in parts: a large tensor or a batch. */
typedef struct work_item {
    st_slot slot; /* of a batch: the engine's fields, and the first tensor */
    size_t tensor_count;
    uint64_t content_nbytes; /* of a batch */
    void **items;            /* of a batch: what slots of its tensors held; BATCH_COUNT_MAX */
    int is_batch;
} work_item;

struct st_engine {
    const st_engine_ops *ops;
    void *user;
    const st_options *options;
    const lmc_st_diag *blank; /* no fault, the input's name */
    size_t tensor_count;
    uint64_t total_nbytes;

    /* everything below is guarded by the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;       /* a slot became ready or free, or a part failed */
    pthread_cond_t order_changed; /* the next part is in order, or a part failed */
    work_item *work_items;
    void **tensor_items; /* of all work items */
    size_t item_count;
    size_t next_tensor; /* the first that is in no work item yet */
    size_t next_item;
    size_t current;  /* work item whose parts are being handed out */
    size_t released; /* work_items before this one are done with */
    uint64_t next_part;
    uint64_t part_in_order; /* all before it have written */
    uint64_t done_nbytes;
    uint64_t failed_part; /* the earliest part that failed; UINT64_MAX: none */
    lmc_st_diag *diag;    /* of that part */
};

typedef struct job {
    enum { JOB_NONE, JOB_PREPARE, JOB_PART, JOB_BATCH } kind;
    work_item *item;
    st_part part;
} job;

/* ---- failure (under the lock) ---- */

static void record_failure(st_engine *engine, uint64_t part, const lmc_st_diag *diag)
{
    if (part < engine->failed_part) {
        engine->failed_part = part;
        *engine->diag = *diag;
    }
    pthread_cond_broadcast(&engine->changed);
    pthread_cond_broadcast(&engine->order_changed);
}

/* ---- handing out jobs (under the lock) ---- */

static work_item *item_of(st_engine *engine, size_t number)
{
    return &engine->work_items[number % engine->item_count];
}

/* Puts the next tensors into a work item: small ones as far as they make a batch. */
static work_item *make_item(st_engine *engine)
{
    const st_engine_ops *const ops = engine->ops;
    work_item *const next = item_of(engine, engine->next_item++);
    void **const items = next->items;
    memset(next, 0, sizeof *next);
    next->items = items;
    next->slot.index = engine->next_tensor;
    while (ops->nbytes && engine->next_tensor < engine->tensor_count &&
           next->tensor_count < BATCH_COUNT_MAX) {
        const uint64_t nbytes = ops->nbytes(engine->user, engine->next_tensor);
        if (nbytes > ST_PART_NBYTES - next->content_nbytes)
            break;
        next->content_nbytes += nbytes;
        next->items[next->tensor_count++] = NULL;
        engine->next_tensor++;
    }
    next->is_batch = next->tensor_count > 0;
    if (!next->is_batch) {
        next->tensor_count = 1;
        engine->next_tensor++;
    }
    next->slot.is_ready = next->is_batch;
    return next;
}

/* The next part of the tensor, or the batch as a whole. */
static void hand_out_part(st_engine *engine, work_item *item, job *next)
{
    st_slot *const slot = &item->slot;
    uint64_t count = slot->block_count - slot->next_block;
    const uint64_t most = slot->block_nbytes >= ST_PART_NBYTES || slot->block_nbytes == 0
                              ? 1
                              : ST_PART_NBYTES / slot->block_nbytes;
    count = count < most ? count : most;
    const uint64_t begin = slot->next_block * slot->block_nbytes;
    const uint64_t end = (slot->next_block + count) * slot->block_nbytes;
    const uint64_t left = (end < slot->content_nbytes ? end : slot->content_nbytes) - begin;
    next->kind = item->is_batch ? JOB_BATCH : JOB_PART;
    next->item = item;
    next->part = (st_part){.number = engine->next_part++};
    next->part.content_nbytes = (size_t)(item->is_batch ? item->content_nbytes : left);
    if (!item->is_batch) {
        next->part.first_block = slot->next_block;
        next->part.block_count = count;
        slot->next_block += count;
    }
    slot->parts_taken++;
    slot->is_all_taken = item->is_batch || slot->next_block == slot->block_count;
    next->part.is_last = slot->is_all_taken;
    engine->current += slot->is_all_taken ? 1 : 0;
}

/* Hands out the next job if there is one now. Returns 0 if the caller has to wait. */
static int hand_out_job(st_engine *engine, job *next)
{
    next->kind = JOB_NONE;
    if (engine->failed_part != UINT64_MAX)
        return 1;
    while (engine->next_tensor < engine->tensor_count &&
           engine->next_item < engine->released + engine->item_count) {
        work_item *const made = make_item(engine);
        if (!made->is_batch) {
            next->kind = JOB_PREPARE;
            next->item = made;
            return 1;
        }
    }
    if (engine->current == engine->next_item)
        return engine->next_tensor == engine->tensor_count;
    work_item *const item = item_of(engine, engine->current);
    if (!item->slot.is_ready)
        return 0;
    if (item->slot.status != LMC_OK)
        record_failure(engine, engine->next_part, &item->slot.diag);
    else
        hand_out_part(engine, item, next);
    return 1;
}

/* ---- order ---- */

int st_engine_wait_for_order(st_worker *worker, const st_part *part)
{
    st_engine *const engine = worker->engine;
    pthread_mutex_lock(&engine->lock);
    while (engine->part_in_order != part->number && engine->failed_part > part->number)
        pthread_cond_wait(&engine->order_changed, &engine->lock);
    const int is_ours = engine->part_in_order == part->number;
    pthread_mutex_unlock(&engine->lock);
    return is_ours;
}

void st_engine_let_next_part_go_on(st_worker *worker)
{
    st_engine *const engine = worker->engine;
    pthread_mutex_lock(&engine->lock);
    engine->part_in_order++;
    pthread_cond_broadcast(&engine->order_changed);
    pthread_mutex_unlock(&engine->lock);
}

/* ---- doing jobs ---- */

static void release_item(st_engine *engine, work_item *item)
{
    if (!engine->ops->release)
        return;
    for (size_t i = 0; i < item->tensor_count; i++) {
        if (item->is_batch)
            item->slot.item = item->items[i];
        engine->ops->release(engine->user, &item->slot);
        item->slot.index++;
    }
}

/* Counts a part that succeeded; returns 1 if it completed its tensor. */
static int count_part(st_engine *engine, st_slot *slot, const st_part *part)
{
    pthread_mutex_lock(&engine->lock);
    slot->parts_done++;
    const int is_complete = slot->is_all_taken && slot->parts_done == slot->parts_taken;
    engine->done_nbytes += part->content_nbytes;
    if (engine->options->progress)
        engine->options->progress(engine->options->user, engine->done_nbytes, engine->total_nbytes);
    pthread_mutex_unlock(&engine->lock);
    return is_complete;
}

/* A part is the last of its work item, or has failed. Work items that are complete are freed in their order. */
static void end_item(st_engine *engine, st_slot *slot, const st_part *part, lmc_status status,
                     const lmc_st_diag *diag)
{
    pthread_mutex_lock(&engine->lock);
    if (status != LMC_OK) {
        record_failure(engine, part->number, diag);
    } else {
        slot->is_complete = 1;
        while (engine->released < engine->current && item_of(engine, engine->released)->slot.is_complete) {
            release_item(engine, item_of(engine, engine->released));
            engine->released++;
        }
        pthread_cond_broadcast(&engine->changed);
    }
    pthread_mutex_unlock(&engine->lock);
}

/* A tensor of a batch is so small that it is one part. */
static void do_batch(st_worker *worker, work_item *item, const st_part *part)
{
    st_engine *const engine = worker->engine;
    const st_engine_ops *const ops = engine->ops;
    const size_t first = item->slot.index;
    worker->is_batch = 1;
    worker->gathered_nbytes = 0;
    lmc_status status = ops->begin_batch(engine->user, worker, first, item->tensor_count);
    for (size_t i = 0; i < item->tensor_count && status == LMC_OK; i++) {
        st_slot slot = {.index = first + i};
        status = ops->prepare(engine->user, worker, &slot);
        if (status == LMC_OK) {
            const st_part whole = {
                .block_count = slot.block_count, .is_last = 1, .content_nbytes = (size_t)slot.content_nbytes};
            status = ops->do_part(engine->user, worker, &slot, &whole);
        }
        if (status == LMC_OK && ops->finish)
            status = ops->finish(engine->user, worker, &slot);
        item->items[i] = slot.item;
    }
    if (status == LMC_OK)
        status = ops->end_batch(engine->user, worker, part);
    worker->is_batch = 0;
    worker->ahead = (st_window){0};
    if (status == LMC_OK)
        (void)count_part(engine, &item->slot, part);
    end_item(engine, &item->slot, part, status, &worker->diag);
}

static void *do_jobs(void *argument)
{
    st_worker *const worker = argument;
    st_engine *const engine = worker->engine;
    for (;;) {
        job next;
        pthread_mutex_lock(&engine->lock);
        if (st_is_cancelled(engine->options->cancel)) {
            lmc_st_diag diag = *engine->blank;
            st_fail_cancelled(&diag);
            record_failure(engine, 0, &diag);
        }
        while (!hand_out_job(engine, &next))
            pthread_cond_wait(&engine->changed, &engine->lock);
        pthread_mutex_unlock(&engine->lock);
        if (next.kind == JOB_NONE)
            return NULL;
        st_slot *const slot = &next.item->slot;
        if (next.kind == JOB_PREPARE) {
            const lmc_status status =
                engine->ops->prepare ? engine->ops->prepare(engine->user, worker, slot) : LMC_OK;
            pthread_mutex_lock(&engine->lock);
            slot->status = status;
            if (status != LMC_OK) {
                slot->diag = worker->diag;
                worker->diag = *engine->blank; /* this worker goes on: the fault is not its last word */
            }
            slot->is_ready = 1;
            pthread_cond_broadcast(&engine->changed);
            pthread_mutex_unlock(&engine->lock);
        } else if (next.kind == JOB_BATCH) {
            do_batch(worker, next.item, &next.part);
        } else {
            lmc_status status = engine->ops->do_part(engine->user, worker, slot, &next.part);
            const int is_complete = status == LMC_OK && count_part(engine, slot, &next.part);
            if (is_complete && engine->ops->finish)
                status = engine->ops->finish(engine->user, worker, slot);
            if (status != LMC_OK || is_complete)
                end_item(engine, slot, &next.part, status, &worker->diag);
        }
    }
}

/* ---- threads ---- */

/* The calling thread is worker 0. If the system gives fewer threads, those that there are do the work. */
static lmc_status run_threads(st_engine *engine, unsigned worker_count)
{
    const lmc_allocator *const memory = engine->options->allocator;
    st_worker *const workers = st_allocate_zeroed(memory, worker_count, sizeof *workers);
    pthread_t *const threads = st_allocate_zeroed(memory, worker_count, sizeof *threads);
    unsigned opened = 0;
    while (workers && threads && opened < worker_count) {
        st_worker *const worker = &workers[opened];
        *worker = (st_worker){.engine = engine, .memory = memory, .diag = *engine->blank};
        if (lmc_ctx_create(memory, &worker->ctx) != LMC_OK)
            break;
        opened++;
    }
    if (opened > 0) {
        unsigned started = 1;
        while (started < opened && lmc_thread_start(&threads[started], do_jobs, &workers[started]) == 0)
            started++;
        do_jobs(&workers[0]);
        for (unsigned i = 1; i < started; i++)
            pthread_join(threads[i], NULL);
    }
    for (unsigned i = 0; i < opened; i++) {
        st_worker *const worker = &workers[i];
        lmc_ctx_free(worker->ctx);
        lmc_ctx_free(worker->plan_ctx);
        st_buffer_free(memory, &worker->content);
        st_buffer_free(memory, &worker->stored);
        st_buffer_free(memory, &worker->base);
        st_buffer_free(memory, &worker->gathered);
        st_buffer_free(memory, &worker->window);
    }
    st_release(memory, workers);
    st_release(memory, threads);
    return opened > 0 ? LMC_OK : st_fail_nomem(engine->diag);
}

lmc_status st_engine_run(const st_engine_ops *ops, void *user, size_t tensor_count, uint64_t total_nbytes,
                         const st_options *options, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = options->allocator;
    /* no more threads than the options allow, the work is worth and address space is there for */
    const uint64_t useful = 1 + total_nbytes / (ST_PART_NBYTES / 4);
    unsigned worker_count = options->thread_count == 0 ? lmc_core_count() : options->thread_count;
    worker_count = worker_count < LMC_THREAD_COUNT_MAX ? worker_count : LMC_THREAD_COUNT_MAX;
    worker_count = useful < worker_count ? (unsigned)useful : worker_count;
    const uint64_t room = worker_count > 1 ? os_room_for(THREAD_NBYTES) : 1;
    worker_count = room >= worker_count ? worker_count : room > 1 ? (unsigned)room : 1;
    const lmc_st_diag blank = *diag;
    st_engine engine = {.ops = ops,
                        .user = user,
                        .options = options,
                        .blank = &blank,
                        .tensor_count = tensor_count,
                        .total_nbytes = total_nbytes,
                        .item_count = (size_t)ITEMS_PER_THREAD * worker_count + ITEMS_EXTRA,
                        .failed_part = UINT64_MAX,
                        .diag = diag};
    engine.work_items = st_allocate_zeroed(memory, engine.item_count, sizeof *engine.work_items);
    engine.tensor_items =
        st_allocate_zeroed(memory, engine.item_count, BATCH_COUNT_MAX * sizeof *engine.tensor_items);
    if (!engine.work_items || !engine.tensor_items) {
        st_release(memory, engine.tensor_items);
        st_release(memory, engine.work_items);
        return st_fail_nomem(diag);
    }
    for (size_t i = 0; i < engine.item_count; i++)
        engine.work_items[i].items = engine.tensor_items + i * BATCH_COUNT_MAX;
    pthread_mutex_init(&engine.lock, NULL);
    pthread_cond_init(&engine.changed, NULL);
    pthread_cond_init(&engine.order_changed, NULL);
    lmc_status status = run_threads(&engine, worker_count);
    if (status == LMC_OK && engine.failed_part != UINT64_MAX)
        status = diag->status;
    for (size_t i = engine.released; i < engine.next_item; i++) /* after a failure */
        release_item(&engine, item_of(&engine, i));
    pthread_cond_destroy(&engine.order_changed);
    pthread_cond_destroy(&engine.changed);
    pthread_mutex_destroy(&engine.lock);
    st_release(memory, engine.tensor_items);
    st_release(memory, engine.work_items);
    return status;
}

/* ---- what a thread owns ---- */

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

lmc_status st_worker_read_ahead(st_worker *worker, const st_input *input, const uint64_t *places,
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
    const lmc_status status = st_input_read(input, begin, bytes, (size_t)(end - begin), &worker->diag);
    if (status == LMC_OK) {
        const st_window ahead = {bytes, begin, end};
        worker->ahead = ahead;
    }
    while (status != LMC_OK && *index + 1 < first + count && places[*index + 1] <= worker->diag.offset)
        (*index)++;
    return status;
}
