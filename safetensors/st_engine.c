/*
 * st_engine.c - see st_engine.h.
 */
#include "st_engine.h"

#include "os_file.h"

#include <pthread.h>
#include <string.h>

/* Content of a run: long enough that locks and system calls do not show, short enough that a thread's
 * buffers stay far below 24 MiB and files of a few MiB keep several threads busy. */
#define RUN_NBYTES ((size_t)1 << 20)

/* Tensors between prepare and release, per thread and beyond that. */
#define SLOTS_PER_THREAD 2
#define SLOTS_EXTRA 2

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
    st_slot *slots;
    size_t slot_count;
    size_t next_prepare; /* tensor */
    size_t current;      /* tensor whose runs are being handed out */
    size_t released;     /* tensors before this one are done with */
    uint64_t next_run;
    uint64_t turn;
    uint64_t done_nbytes;
    uint64_t failed_run; /* the earliest run that failed; UINT64_MAX: none */
    lmc_st_diag *diag;   /* of that run */
};

typedef struct job {
    enum { JOB_NONE, JOB_PREPARE, JOB_RUN } kind;
    st_slot *slot;
    st_run run;
} job;

static unsigned char *grow(st_worker *worker, st_buffer *buffer, size_t nbytes)
{
    unsigned char *const bytes = st_buffer_grow(worker->memory, buffer, nbytes);
    if (bytes == NULL) {
        st_fail_nomem(&worker->diag);
    }
    return bytes;
}

unsigned char *st_worker_content(st_worker *worker, size_t nbytes)
{
    return grow(worker, &worker->content, nbytes);
}

unsigned char *st_worker_stored(st_worker *worker, size_t nbytes)
{
    return grow(worker, &worker->stored, nbytes);
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

static st_slot *slot_of(st_engine *engine, size_t tensor)
{
    return &engine->slots[tensor % engine->slot_count];
}

static void take_prepare(st_engine *engine, job *next)
{
    st_slot *const slot = slot_of(engine, engine->next_prepare);
    memset(slot, 0, sizeof(*slot));
    slot->index = engine->next_prepare++;
    next->kind = JOB_PREPARE;
    next->slot = slot;
}

static void take_run(st_engine *engine, st_slot *slot, job *next)
{
    uint64_t count = slot->block_count - slot->next_block;
    const uint64_t most =
        slot->block_nbytes >= RUN_NBYTES || slot->block_nbytes == 0 ? 1 : RUN_NBYTES / slot->block_nbytes;
    count = count < most ? count : most;
    const uint64_t begin = slot->next_block * slot->block_nbytes;
    const uint64_t end = (slot->next_block + count) * slot->block_nbytes;
    next->kind = JOB_RUN;
    next->slot = slot;
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
    if (engine->failed_run != UINT64_MAX) {
        return 1;
    }
    if (engine->next_prepare < engine->tensor_count &&
        engine->next_prepare < engine->released + engine->slot_count) {
        take_prepare(engine, next);
        return 1;
    }
    if (engine->current == engine->tensor_count) {
        return 1;
    }
    st_slot *const slot = slot_of(engine, engine->current);
    if (engine->current == engine->next_prepare || !slot->is_ready) {
        return 0;
    }
    if (slot->status != LMC_OK) {
        record_failure(engine, engine->next_run, &slot->diag);
        return 1;
    }
    take_run(engine, slot, next);
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
    while (!try_take(engine, next)) {
        pthread_cond_wait(&engine->changed, &engine->lock);
    }
    pthread_mutex_unlock(&engine->lock);
}

/* ---- turns ---- */

int st_engine_take_turn(st_worker *worker, const st_run *run)
{
    st_engine *const engine = worker->engine;
    pthread_mutex_lock(&engine->lock);
    while (engine->turn != run->number && engine->failed_run > run->number) {
        pthread_cond_wait(&engine->turned, &engine->lock);
    }
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
    const lmc_status status = engine->ops->prepare(engine->user, worker, slot);
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

/* Frees the slots of tensors that are complete, in order. Under the lock. */
static void release_complete(st_engine *engine)
{
    while (engine->released < engine->current && slot_of(engine, engine->released)->is_complete) {
        engine->ops->release(engine->user, slot_of(engine, engine->released));
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
    if (engine->options->progress != NULL) {
        engine->options->progress(engine->options->user, engine->done_nbytes, engine->total_nbytes);
    }
    pthread_mutex_unlock(&engine->lock);
    return is_complete;
}

static void do_run(st_worker *worker, st_slot *slot, const st_run *run)
{
    st_engine *const engine = worker->engine;
    lmc_status status = engine->ops->run(engine->user, worker, slot, run);
    const int is_complete = status == LMC_OK && count_run(engine, slot, run);
    if (is_complete && engine->ops->finish != NULL) {
        status = engine->ops->finish(engine->user, worker, slot);
    }
    if (status == LMC_OK && !is_complete) {
        return;
    }
    pthread_mutex_lock(&engine->lock);
    if (status != LMC_OK) {
        record_failure(engine, run->number, &worker->diag);
    } else {
        slot->is_complete = 1;
        release_complete(engine);
    }
    pthread_mutex_unlock(&engine->lock);
}

static void *work(void *argument)
{
    st_worker *const worker = argument;
    for (;;) {
        job next;
        take_job(worker->engine, &next);
        switch (next.kind) {
        case JOB_PREPARE: do_prepare(worker, next.slot); break;
        case JOB_RUN: do_run(worker, next.slot, &next.run); break;
        default: return NULL;
        }
    }
}

/* ---- threads ---- */

static int worker_init(st_worker *worker, st_engine *engine)
{
    memset(worker, 0, sizeof(*worker));
    worker->engine = engine;
    worker->memory = engine->options->allocator;
    worker->diag = *engine->blank;
    return lmc_ctx_create(worker->memory, &worker->ctx) == LMC_OK;
}

static void worker_free(st_worker *worker)
{
    lmc_ctx_free(worker->ctx);
    st_buffer_free(worker->memory, &worker->content);
    st_buffer_free(worker->memory, &worker->stored);
    st_buffer_free(worker->memory, &worker->base);
}

/* The calling thread is worker 0. If the system gives fewer threads, those that there are do the work. */
static void run_threads(st_worker *workers, pthread_t *threads, unsigned worker_count)
{
    unsigned started = 1;
    while (started < worker_count && pthread_create(&threads[started], NULL, work, &workers[started]) == 0) {
        started++;
    }
    work(&workers[0]);
    for (unsigned i = 1; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
}

static lmc_status run_workers(st_engine *engine, unsigned worker_count)
{
    const lmc_allocator *const memory = engine->options->allocator;
    st_worker *const workers = st_allocate_zeroed(memory, worker_count, sizeof(*workers));
    pthread_t *const threads = st_allocate_zeroed(memory, worker_count, sizeof(*threads));
    unsigned made = 0;
    while (workers != NULL && made < worker_count && worker_init(&workers[made], engine)) {
        made++;
    }
    const int is_possible = threads != NULL && made > 0;
    if (is_possible) {
        run_threads(workers, threads, made);
    }
    for (unsigned i = 0; i < made; i++) {
        worker_free(&workers[i]);
    }
    st_release(memory, workers);
    st_release(memory, threads);
    return is_possible ? LMC_OK : st_fail_nomem(engine->diag);
}

/* What prepared tensors hold after a failure. All threads have ended. */
static void release_rest(st_engine *engine)
{
    for (size_t i = engine->released; i < engine->next_prepare; i++) {
        engine->ops->release(engine->user, slot_of(engine, i));
    }
}

/* No more threads than the options allow and the work is worth. */
static unsigned worker_count_for(const lmc_st_options *options, uint64_t total_nbytes)
{
    const uint64_t useful = 1 + total_nbytes / (RUN_NBYTES / 4);
    unsigned wanted = options->thread_count == 0 ? os_core_count() : options->thread_count;
    wanted = wanted < LMC_THREAD_COUNT_MAX ? wanted : LMC_THREAD_COUNT_MAX;
    return useful < wanted ? (unsigned)useful : wanted;
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
                        .slot_count = (size_t)SLOTS_PER_THREAD * worker_count + SLOTS_EXTRA,
                        .failed_run = UINT64_MAX,
                        .diag = diag};
    engine.slots = st_allocate_zeroed(options->allocator, engine.slot_count, sizeof(*engine.slots));
    if (engine.slots == NULL) {
        return st_fail_nomem(diag);
    }
    pthread_mutex_init(&engine.lock, NULL);
    pthread_cond_init(&engine.changed, NULL);
    pthread_cond_init(&engine.turned, NULL);
    lmc_status status = run_workers(&engine, worker_count);
    if (status == LMC_OK && engine.failed_run != UINT64_MAX) {
        status = diag->status;
    }
    release_rest(&engine);
    pthread_cond_destroy(&engine.turned);
    pthread_cond_destroy(&engine.changed);
    pthread_mutex_destroy(&engine.lock);
    st_release(options->allocator, engine.slots);
    return status;
}
