/*
 * diff_contents.c - comparing the contents of pairs of tensors. A content hash depends on the block size: different
 * hashes say that contents differ only if both belong to blocks of one size. Contents with equal hashes are equal.
 */
#include "tool/commands/diff.h"

#include "tool/cli.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define PIECE_NBYTES ((size_t)1 << 20)

/* All that the threads share. */
typedef struct comparison {
    const lmc_st_file *a, *b;
    cli_pair *pairs;
    size_t pair_count;
    const lmc_st_options *options;
    uint64_t total_nbytes;
    pthread_mutex_t lock; /* of what follows */
    size_t next;          /* pair that no thread has taken */
    size_t failed_at;     /* the first pair that failed; SIZE_MAX: none */
    uint64_t done_nbytes;
    lmc_st_diag *diag; /* of that pair */
} comparison;

/* One thread's work on one pair. */
typedef struct worker {
    comparison *shared;
    size_t index;
    cli_pair *pair;
    unsigned char *pieces[2]; /* PIECE_NBYTES each */
    lmc_st_diag diag;
} worker;

/* Counts what was compared. Returns 0 if the work on this pair is to end: its result cannot matter any more. */
static int goes_on(worker *worker, uint64_t nbytes)
{
    comparison *const shared = worker->shared;
    pthread_mutex_lock(&shared->lock);
    shared->done_nbytes += nbytes;
    if (shared->options->progress)
        shared->options->progress(shared->options->user, shared->done_nbytes, shared->total_nbytes);
    const int has_failed = shared->failed_at < worker->index;
    pthread_mutex_unlock(&shared->lock);
    return !has_failed && cli_cancel == 0;
}

static lmc_status fail_nomem(worker *worker)
{
    cli_set_diag(&worker->diag, lmc_st_path(worker->shared->a), LMC_ERR_NOMEM, "out of memory");
    return LMC_ERR_NOMEM;
}

/* Reads both and compares them piece by piece. */
static lmc_status compare_bytes(worker *worker)
{
    const comparison *const shared = worker->shared;
    cli_pair *const pair = worker->pair;
    lmc_st_reader *a = NULL;
    lmc_st_reader *b = NULL;
    lmc_status status = lmc_st_reader_create(shared->a, pair->a, &a, &worker->diag);
    if (status == LMC_OK)
        status = lmc_st_reader_create(shared->b, pair->b, &b, &worker->diag);
    for (uint64_t at = 0; at < pair->nbytes && status == LMC_OK && !pair->differs;) {
        const size_t nbytes = pair->nbytes - at < PIECE_NBYTES ? (size_t)(pair->nbytes - at) : PIECE_NBYTES;
        status = lmc_st_reader_read(a, at, nbytes, worker->pieces[0], &worker->diag);
        if (status == LMC_OK)
            status = lmc_st_reader_read(b, at, nbytes, worker->pieces[1], &worker->diag);
        if (status == LMC_OK)
            pair->differs = memcmp(worker->pieces[0], worker->pieces[1], nbytes) != 0;
        if (!goes_on(worker, nbytes))
            break;
        at += nbytes;
    }
    lmc_st_reader_free(a);
    lmc_st_reader_free(b);
    return status;
}

/* Hashes the content of a plain file in blocks, as an archive's content hash is made. */
static lmc_status compare_hashes(worker *worker, const lmc_st_file *plain, uint64_t index, uint64_t hash,
                                 size_t block_nbytes)
{
    cli_pair *const pair = worker->pair;
    const uint64_t count = (pair->nbytes + block_nbytes - 1) / block_nbytes;
    lmc_block_entry *const entries = calloc((size_t)count, sizeof *entries);
    unsigned char *const block = malloc(block_nbytes < pair->nbytes ? block_nbytes : (size_t)pair->nbytes);
    lmc_status status = entries && block ? LMC_OK : fail_nomem(worker);
    int is_complete = 1;
    for (uint64_t i = 0; i < count && status == LMC_OK && is_complete; i++) {
        const uint64_t left = pair->nbytes - i * block_nbytes;
        const size_t nbytes = left < block_nbytes ? (size_t)left : block_nbytes;
        status = lmc_st_read_range(plain, NULL, index, i * block_nbytes, nbytes, block, &worker->diag);
        if (status == LMC_OK)
            entries[i].content_hash = XXH3_64bits(block, nbytes);
        is_complete = goes_on(worker, nbytes);
    }
    if (status == LMC_OK && is_complete)
        pair->differs = lmc_content_hash(entries, count) != hash;
    free(entries);
    free(block);
    return status;
}

static lmc_status compare_pair(worker *worker)
{
    const comparison *const shared = worker->shared;
    cli_pair *const pair = worker->pair;
    const int is_archive[2] = {lmc_st_is_archive(shared->a), lmc_st_is_archive(shared->b)};
    uint64_t hashes[2] = {0, 0};
    size_t block_nbytes[2] = {0, 0};
    lmc_status status = LMC_OK;
    if (pair->nbytes == 0)
        return LMC_OK;
    if (is_archive[0])
        status = lmc_st_content_hash(shared->a, pair->a, &hashes[0], &block_nbytes[0], &worker->diag);
    if (is_archive[1] && status == LMC_OK)
        status = lmc_st_content_hash(shared->b, pair->b, &hashes[1], &block_nbytes[1], &worker->diag);
    if (status != LMC_OK)
        return status;
    if (is_archive[0] != is_archive[1]) {
        return is_archive[0] ? compare_hashes(worker, shared->b, pair->b, hashes[0], block_nbytes[0])
                             : compare_hashes(worker, shared->a, pair->a, hashes[1], block_nbytes[1]);
    }
    const int is_one_block = pair->nbytes <= block_nbytes[0] && pair->nbytes <= block_nbytes[1];
    if (!is_archive[0] || (hashes[0] != hashes[1] && block_nbytes[0] != block_nbytes[1] && !is_one_block))
        return compare_bytes(worker);
    pair->differs = hashes[0] != hashes[1];
    (void)goes_on(worker, pair->nbytes);
    return LMC_OK;
}

/* Takes the next pair, unless one has failed. */
static int take_pair(worker *worker)
{
    comparison *const shared = worker->shared;
    pthread_mutex_lock(&shared->lock);
    const int is_taken =
        shared->next < shared->pair_count && shared->failed_at == SIZE_MAX && cli_cancel == 0;
    worker->index = shared->next;
    shared->next += is_taken != 0;
    pthread_mutex_unlock(&shared->lock);
    worker->pair = is_taken ? &shared->pairs[worker->index] : NULL;
    return is_taken;
}

static void *compare_pairs(void *argument)
{
    comparison *const shared = argument;
    worker worker = {.shared = shared,
                     .diag = LMC_INIT(lmc_st_diag),
                     .pieces = {malloc(PIECE_NBYTES), malloc(PIECE_NBYTES)}};
    while (take_pair(&worker)) {
        const int has_memory = worker.pieces[0] && worker.pieces[1];
        const lmc_status status = has_memory ? compare_pair(&worker) : fail_nomem(&worker);
        pthread_mutex_lock(&shared->lock);
        if (status != LMC_OK && worker.index < shared->failed_at) {
            shared->failed_at = worker.index;
            *shared->diag = worker.diag;
        }
        pthread_mutex_unlock(&shared->lock);
    }
    free(worker.pieces[0]);
    free(worker.pieces[1]);
    return NULL;
}

lmc_status cli_diff_contents(const lmc_st_file *a, const lmc_st_file *b, cli_pair *pairs, size_t pair_count,
                             const lmc_st_options *options, lmc_st_diag *diag)
{
    pthread_t threads[LMC_THREAD_COUNT_MAX];
    size_t started_count = 0;
    comparison shared = {.a = a,
                         .b = b,
                         .pairs = pairs,
                         .pair_count = pair_count,
                         .options = options,
                         .failed_at = SIZE_MAX,
                         .diag = diag};
    const size_t wanted_count = options->thread_count != 0 ? options->thread_count : lmc_core_count();
    for (size_t i = 0; i < pair_count; i++)
        shared.total_nbytes += pairs[i].nbytes;
    pthread_mutex_init(&shared.lock, NULL);
    while (started_count + 1 < wanted_count && started_count + 1 < pair_count &&
           pthread_create(&threads[started_count], NULL, compare_pairs, &shared) == 0)
        started_count++;
    compare_pairs(&shared);
    while (started_count > 0)
        pthread_join(threads[--started_count], NULL);
    pthread_mutex_destroy(&shared.lock);
    if (cli_cancel != 0) {
        cli_set_diag(diag, lmc_st_path(a), LMC_ERR_CANCELLED, "cancelled");
        return LMC_ERR_CANCELLED;
    }
    if (shared.failed_at != SIZE_MAX)
        return diag->status;
    const lmc_status status = lmc_st_check_unchanged(a, diag);
    return status == LMC_OK ? lmc_st_check_unchanged(b, diag) : status;
}
