/*
 * engine.c - see engine/engine.h.
 */
#include "safetensors/engine/engine.h"

#include "safetensors/os/file.h"

#include <pthread.h>
#include <string.h>

/* Content of a run or a batch: long enough that locks and system calls do not show, short enough that what is
 * read, coded and written stays in a core's own cache, and that files of a few MiB keep several threads busy. */
#define RUN_NBYTES ((size_t)512 << 10)

/* What is read ahead for a batch: frames can be a little larger than their content. */
#define AHEAD_NBYTES_MAX (RUN_NBYTES + RUN_NBYTES / 4)

/* Tensors of a batch, for files made of tiny ones. */
#define BATCH_COUNT_MAX 128

/* Address space for each thread, where that is limited: its stack, what the C library takes for its allocations, and
 * buffers and scratch for large blocks. A thread that is started takes its part before it has asked for any memory: too
 * many of them would leave none for their work. */
#define THREAD_NBYTES ((uint64_t)128 << 20)

/* Units between prepare and release, per thread and beyond that. */
#define UNITS_PER_THREAD 2
#define UNITS_EXTRA 2

/* What is handed out as a whole or in runs: a large tensor or a batch. */
typedef struct unit {
    st_slot slot; /* of a batch: the engine's fields, and the first tensor */
    size_t tensor_count;
    uint64_t content_nbytes; /* of a batch */
    void **items;            /* of a batch: what slots of its tensors held; BATCH_COUNT_MAX */
    int is_batch;
} unit;

struct st_engine {
    const st_engine_ops *ops;
    void *user;
    const lmc_st_options *options;
    const lmc_st_diag *blank; /* no fault, the input's name */
    size_t tensor_count;
    uint64_t total_nbytes;

    /* everything below is guarded by the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a slot became ready or free, or a run failed */
    pthread_cond_t turned;  /* the turn went on, or a run failed */
    unit *units;
    void **items; /* of all units */
    size_t unit_count;
    size_t next_tensor; /* the first that is in no unit yet */
    size_t next_unit;
    size_t current;  /* unit whose runs are being handed out */
    size_t released; /* units before this one are done with */
    uint64_t next_run;
    uint64_t turn;
    uint64_t done_nbytes;
    uint64_t failed_run; /* the earliest run that failed; UINT64_MAX: none */
    lmc_st_diag *diag;   /* of that run */
};

typedef struct job {
    enum { JOB_NONE, JOB_PREPARE, JOB_RUN, JOB_BATCH } kind;
    unit *unit;
    st_run run;
} job;

static unsigned char *grow(st_worker *worker, st_buffer *buffer, size_t nbytes)
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
    return grow(worker, &worker->content, nbytes);
}

unsigned char *st_worker_stored(st_worker *worker, size_t nbytes)
{
    return grow(worker, &worker->stored, nbytes);
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
    unsigned char *const bytes = grow(worker, &worker->window, (size_t)(end - begin));
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

/* ---- failure (under the lock) ---- */

static void record_failure(st_engine *engine, uint64_t run, const lmc_st_diag *diag)
{
    if (run < engine->failed_run) {
        engine->failed_run = run;
        *engine->diag = *diag;
    }
    pthread_cond_broadcast(&engine->changed);
    pthread_cond_broadcast(&engine->turned);
}

/* ---- handing out jobs (under the lock) ---- */

static unit *unit_of(st_engine *engine, size_t number)
{
    return &engine->units[number % engine->unit_count];
}

/* Puts the next tensors into a unit: small ones as far as they make a batch. */
static unit *make_unit(st_engine *engine)
{
    const st_engine_ops *const ops = engine->ops;
    unit *const next = unit_of(engine, engine->next_unit++);
    void **const items = next->items;
    memset(next, 0, sizeof *next);
    next->items = items;
    next->slot.index = engine->next_tensor;
    while (ops->nbytes && engine->next_tensor < engine->tensor_count &&
           next->tensor_count < BATCH_COUNT_MAX) {
        const uint64_t nbytes = ops->nbytes(engine->user, engine->next_tensor);
        if (nbytes > RUN_NBYTES - next->content_nbytes)
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

/* Takes the batch as a whole. */
static void take_batch(st_engine *engine, unit *unit, job *next)
{
    const st_run run = {
        .number = engine->next_run++, .is_last = 1, .content_nbytes = (size_t)unit->content_nbytes};
    next->kind = JOB_BATCH;
    next->unit = unit;
    next->run = run;
    unit->slot.runs_taken = 1;
    unit->slot.is_all_taken = 1;
    engine->current++;
}

static void take_run(st_engine *engine, unit *unit, job *next)
{
    st_slot *const slot = &unit->slot;
    uint64_t count = slot->block_count - slot->next_block;
    const uint64_t most =
        slot->block_nbytes >= RUN_NBYTES || slot->block_nbytes == 0 ? 1 : RUN_NBYTES / slot->block_nbytes;
    count = count < most ? count : most;
    const uint64_t begin = slot->next_block * slot->block_nbytes;
    const uint64_t end = (slot->next_block + count) * slot->block_nbytes;
    next->kind = JOB_RUN;
    next->unit = unit;
    next->run.number = engine->next_run++;
    next->run.first_block = slot->next_block;
    next->run.block_count = count;
    next->run.content_nbytes = (size_t)((end < slot->content_nbytes ? end : slot->content_nbytes) - begin);
    slot->next_block += count;
    slot->runs_taken++;
    slot->is_all_taken = slot->next_block == slot->block_count;
    next->run.is_last = slot->is_all_taken;
    engine->current += slot->is_all_taken ? 1 : 0;
}

/* Takes the next job if there is one now. Returns 0 if the caller has to wait. */
static int try_take(st_engine *engine, job *next)
{
    next->kind = JOB_NONE;
    if (engine->failed_run != UINT64_MAX)
        return 1;
    while (engine->next_tensor < engine->tensor_count &&
           engine->next_unit < engine->released + engine->unit_count) {
        unit *const made = make_unit(engine);
        if (!made->is_batch) {
            next->kind = JOB_PREPARE;
            next->unit = made;
            return 1;
        }
    }
    if (engine->current == engine->next_unit)
        return engine->next_tensor == engine->tensor_count;
    unit *const unit = unit_of(engine, engine->current);
    if (!unit->slot.is_ready)
        return 0;
    if (unit->slot.status != LMC_OK)
        record_failure(engine, engine->next_run, &unit->slot.diag);
    else if (unit->is_batch)
        take_batch(engine, unit, next);
    else
        take_run(engine, unit, next);
    return 1;
}

static void take_job(st_engine *engine, job *next)
{
    pthread_mutex_lock(&engine->lock);
    if (st_is_cancelled(engine->options->cancel)) {
        lmc_st_diag diag = *engine->blank;
        st_fail_cancelled(&diag);
        record_failure(engine, 0, &diag);
    }
    while (!try_take(engine, next))
        pthread_cond_wait(&engine->changed, &engine->lock);
    pthread_mutex_unlock(&engine->lock);
}

/* ---- turns ---- */

int st_engine_take_turn(st_worker *worker, const st_run *run)
{
    st_engine *const engine = worker->engine;
    pthread_mutex_lock(&engine->lock);
    while (engine->turn != run->number && engine->failed_run > run->number)
        pthread_cond_wait(&engine->turned, &engine->lock);
    const int is_ours = engine->turn == run->number;
    pthread_mutex_unlock(&engine->lock);
    return is_ours;
}

void st_engine_pass_turn(st_worker *worker)
{
    st_engine *const engine = worker->engine;
    pthread_mutex_lock(&engine->lock);
    engine->turn++;
    pthread_cond_broadcast(&engine->turned);
    pthread_mutex_unlock(&engine->lock);
}

/* ---- doing jobs ---- */

static void do_prepare(st_worker *worker, st_slot *slot)
{
    st_engine *const engine = worker->engine;
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
}

static void release_unit(st_engine *engine, unit *unit)
{
    if (!engine->ops->release)
        return;
    for (size_t i = 0; i < unit->tensor_count; i++) {
        if (unit->is_batch)
            unit->slot.item = unit->items[i];
        engine->ops->release(engine->user, &unit->slot);
        unit->slot.index++;
    }
}

/* Frees the units that are complete, in order. Under the lock. */
static void release_complete(st_engine *engine)
{
    while (engine->released < engine->current && unit_of(engine, engine->released)->slot.is_complete) {
        release_unit(engine, unit_of(engine, engine->released));
        engine->released++;
    }
    pthread_cond_broadcast(&engine->changed);
}

/* Counts a run that succeeded; returns 1 if it completed its tensor. */
static int count_run(st_engine *engine, st_slot *slot, const st_run *run)
{
    pthread_mutex_lock(&engine->lock);
    slot->runs_done++;
    const int is_complete = slot->is_all_taken && slot->runs_done == slot->runs_taken;
    engine->done_nbytes += run->content_nbytes;
    if (engine->options->progress)
        engine->options->progress(engine->options->user, engine->done_nbytes, engine->total_nbytes);
    pthread_mutex_unlock(&engine->lock);
    return is_complete;
}

/* A run is the last of its unit, or has failed. */
static void end_unit(st_engine *engine, st_slot *slot, const st_run *run, lmc_status status,
                     const lmc_st_diag *diag)
{
    pthread_mutex_lock(&engine->lock);
    if (status != LMC_OK) {
        record_failure(engine, run->number, diag);
    } else {
        slot->is_complete = 1;
        release_complete(engine);
    }
    pthread_mutex_unlock(&engine->lock);
}

static void do_run(st_worker *worker, st_slot *slot, const st_run *run)
{
    st_engine *const engine = worker->engine;
    lmc_status status = engine->ops->run(engine->user, worker, slot, run);
    const int is_complete = status == LMC_OK && count_run(engine, slot, run);
    if (is_complete && engine->ops->finish)
        status = engine->ops->finish(engine->user, worker, slot);
    if (status != LMC_OK || is_complete)
        end_unit(engine, slot, run, status, &worker->diag);
}

/* All of a tensor that is so small that it is one run. */
static lmc_status do_tensor(st_worker *worker, size_t index, void **item)
{
    const st_engine *const engine = worker->engine;
    st_slot slot = {.index = index};
    lmc_status status = engine->ops->prepare(engine->user, worker, &slot);
    if (status == LMC_OK) {
        const st_run run = {
            .block_count = slot.block_count, .is_last = 1, .content_nbytes = (size_t)slot.content_nbytes};
        status = engine->ops->run(engine->user, worker, &slot, &run);
    }
    if (status == LMC_OK && engine->ops->finish)
        status = engine->ops->finish(engine->user, worker, &slot);
    *item = slot.item;
    return status;
}

static void do_batch(st_worker *worker, unit *unit, const st_run *run)
{
    st_engine *const engine = worker->engine;
    const st_engine_ops *const ops = engine->ops;
    const size_t first = unit->slot.index;
    const os_window nothing = {NULL, 0, 0};
    worker->is_batch = 1;
    worker->gathered_nbytes = 0;
    lmc_status status = ops->begin_batch(engine->user, worker, first, unit->tensor_count);
    for (size_t i = 0; i < unit->tensor_count && status == LMC_OK; i++)
        status = do_tensor(worker, first + i, &unit->items[i]);
    if (status == LMC_OK)
        status = ops->end_batch(engine->user, worker, run);
    worker->is_batch = 0;
    worker->ahead = nothing;
    if (status == LMC_OK)
        (void)count_run(engine, &unit->slot, run);
    end_unit(engine, &unit->slot, run, status, &worker->diag);
}

static void *work(void *argument)
{
    st_worker *const worker = argument;
    for (;;) {
        job next;
        take_job(worker->engine, &next);
        switch (next.kind) {
        case JOB_PREPARE: do_prepare(worker, &next.unit->slot); break;
        case JOB_RUN: do_run(worker, &next.unit->slot, &next.run); break;
        case JOB_BATCH: do_batch(worker, next.unit, &next.run); break;
        default: return NULL;
        }
    }
}

/* ---- threads ---- */

static int worker_init(st_worker *worker, st_engine *engine)
{
    memset(worker, 0, sizeof *worker);
    worker->engine = engine;
    worker->memory = engine->options->allocator;
    worker->diag = *engine->blank;
    return lmc_ctx_create(worker->memory, &worker->ctx) == LMC_OK;
}

static void worker_free(st_worker *worker)
{
    lmc_ctx_free(worker->ctx);
    lmc_ctx_free(worker->plan_ctx);
    st_buffer_free(worker->memory, &worker->content);
    st_buffer_free(worker->memory, &worker->stored);
    st_buffer_free(worker->memory, &worker->base);
    st_buffer_free(worker->memory, &worker->gathered);
    st_buffer_free(worker->memory, &worker->window);
}

/* The calling thread is worker 0. If the system gives fewer threads, those that there are do the work. */
static void run_threads(st_worker *workers, pthread_t *threads, unsigned worker_count)
{
    unsigned started = 1;
    while (started < worker_count && pthread_create(&threads[started], NULL, work, &workers[started]) == 0)
        started++;
    work(&workers[0]);
    for (unsigned i = 1; i < started; i++)
        pthread_join(threads[i], NULL);
}

static lmc_status run_workers(st_engine *engine, unsigned worker_count)
{
    const lmc_allocator *const memory = engine->options->allocator;
    st_worker *const workers = st_allocate_zeroed(memory, worker_count, sizeof *workers);
    pthread_t *const threads = st_allocate_zeroed(memory, worker_count, sizeof *threads);
    unsigned made = 0;
    while (workers && made < worker_count && worker_init(&workers[made], engine))
        made++;
    const int is_possible = threads && made > 0;
    if (is_possible)
        run_threads(workers, threads, made);
    for (unsigned i = 0; i < made; i++)
        worker_free(&workers[i]);
    st_release(memory, workers);
    st_release(memory, threads);
    return is_possible ? LMC_OK : st_fail_nomem(engine->diag);
}

static void free_units(st_engine *engine, const lmc_allocator *memory)
{
    st_release(memory, engine->items);
    st_release(memory, engine->units);
}

static int make_units(st_engine *engine, const lmc_allocator *memory)
{
    engine->units = st_allocate_zeroed(memory, engine->unit_count, sizeof *engine->units);
    engine->items = st_allocate_zeroed(memory, engine->unit_count, BATCH_COUNT_MAX * sizeof *engine->items);
    if (!engine->units || !engine->items) {
        free_units(engine, memory);
        return 0;
    }
    for (size_t i = 0; i < engine->unit_count; i++)
        engine->units[i].items = engine->items + i * BATCH_COUNT_MAX;
    return 1;
}

/* What prepared tensors hold after a failure. All threads have ended. */
static void release_rest(st_engine *engine)
{
    for (size_t i = engine->released; i < engine->next_unit; i++)
        release_unit(engine, unit_of(engine, i));
}

/* No more threads than the options allow, the work is worth and address space is there for. */
static unsigned worker_count_for(const lmc_st_options *options, uint64_t total_nbytes)
{
    const uint64_t useful = 1 + total_nbytes / (RUN_NBYTES / 4);
    unsigned wanted = options->thread_count == 0 ? lmc_core_count() : options->thread_count;
    wanted = wanted < LMC_THREAD_COUNT_MAX ? wanted : LMC_THREAD_COUNT_MAX;
    wanted = useful < wanted ? (unsigned)useful : wanted;
    const uint64_t room = wanted > 1 ? os_room_for(THREAD_NBYTES) : 1;
    return room >= wanted ? wanted : room > 1 ? (unsigned)room : 1;
}

lmc_status st_engine_run(const st_engine_ops *ops, void *user, size_t tensor_count, uint64_t total_nbytes,
                         const lmc_st_options *options, lmc_st_diag *diag)
{
    const unsigned worker_count = worker_count_for(options, total_nbytes);
    const lmc_st_diag blank = *diag;
    st_engine engine = {.ops = ops,
                        .user = user,
                        .options = options,
                        .blank = &blank,
                        .tensor_count = tensor_count,
                        .total_nbytes = total_nbytes,
                        .unit_count = (size_t)UNITS_PER_THREAD * worker_count + UNITS_EXTRA,
                        .failed_run = UINT64_MAX,
                        .diag = diag};
    if (!make_units(&engine, options->allocator))
        return st_fail_nomem(diag);
    pthread_mutex_init(&engine.lock, NULL);
    pthread_cond_init(&engine.changed, NULL);
    pthread_cond_init(&engine.turned, NULL);
    lmc_status status = run_workers(&engine, worker_count);
    if (status == LMC_OK && engine.failed_run != UINT64_MAX)
        status = diag->status;
    release_rest(&engine);
    pthread_cond_destroy(&engine.turned);
    pthread_cond_destroy(&engine.changed);
    pthread_mutex_destroy(&engine.lock);
    free_units(&engine, options->allocator);
    return status;
}
