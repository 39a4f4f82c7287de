/*
 * diff_contents.c - see commands/diff.h. A content hash depends on the block size, so hashes of two archives
 * say that contents differ only if their blocks have one size; equal hashes always say that they are equal.
 */
#include "tool/commands/diff.h"

#include "safetensors/archive/table.h"
#include "safetensors/engine/engine.h"
#include "safetensors/read/reader.h"
#include "tool/cli.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_NBYTES ((size_t)1 << 20)

typedef struct comparison {
    const lmc_st_file *a, *b;
    cli_pair *pairs;
} comparison;

typedef enum way {
    WAY_DECIDED, /* nothing is left to do */
    WAY_HASHES,  /* the plain file's blocks are hashed and compared with the archive's content hash */
    WAY_BYTES,   /* two plain files, in pieces */
    WAY_DECODE   /* two archives with other blocks: both are decoded, at once */
} way;

typedef struct diff_item {
    way way;
    const lmc_st_file *archive, *plain; /* for hashes */
    size_t archive_index, plain_index;
    lmc_block_entry *entries;
} diff_item;

static void mark(cli_pair *pair)
{
    __atomic_store_n(&pair->differs, 1, __ATOMIC_RELAXED);
}

static int is_marked(const cli_pair *pair)
{
    return __atomic_load_n(&pair->differs, __ATOMIC_RELAXED);
}

/* ---- prepare: which way ---- */

static void set_blocks(st_slot *slot, uint64_t content_nbytes, size_t block_nbytes)
{
    slot->block_nbytes = block_nbytes;
    slot->block_count = (content_nbytes + block_nbytes - 1) / block_nbytes;
    slot->content_nbytes = content_nbytes;
}

static lmc_status read_frame_info(const lmc_st_file *file, size_t index, st_worker *worker, lmc_info *info)
{
    lmc_frame *frame = NULL;
    st_diag_set_file(&worker->diag, file->path);
    const lmc_status status = st_frame_open(file, NULL, worker->ctx, index, &frame, &worker->diag);
    if (status == LMC_OK)
        lmc_frame_info(frame, info);
    lmc_frame_free(frame);
    return status;
}

static lmc_status prepare_archives(const comparison *both, cli_pair *pair, diff_item *item, st_worker *worker,
                                   st_slot *slot)
{
    lmc_info a = LMC_INIT(lmc_info);
    lmc_info b = LMC_INIT(lmc_info);
    if (both->a->hashes[pair->a] == both->b->hashes[pair->b])
        return LMC_OK;
    lmc_status status = read_frame_info(both->a, pair->a, worker, &a);
    if (status == LMC_OK)
        status = read_frame_info(both->b, pair->b, worker, &b);
    if (status != LMC_OK)
        return status;
    if (a.block_nbytes == b.block_nbytes || (a.block_count <= 1 && b.block_count <= 1)) {
        mark(pair);
        return LMC_OK;
    }
    item->way = WAY_DECODE;
    /* one run of all; where that does not fit a size_t, less of it is told as progress */
    slot->block_nbytes = a.content_nbytes < SIZE_MAX ? (size_t)a.content_nbytes : SIZE_MAX;
    slot->block_count = 1;
    slot->content_nbytes = a.content_nbytes;
    return LMC_OK;
}

static lmc_status prepare_hashes(diff_item *item, st_worker *worker, st_slot *slot)
{
    lmc_info info = LMC_INIT(lmc_info);
    const lmc_status status = read_frame_info(item->archive, item->archive_index, worker, &info);
    if (status != LMC_OK)
        return status;
    item->way = WAY_HASHES;
    set_blocks(slot, info.content_nbytes, info.block_nbytes);
    item->entries = st_allocate_zeroed(&st_memory_default, slot->block_count + 1, sizeof(*item->entries));
    return item->entries == NULL ? st_fail_nomem(&worker->diag) : LMC_OK;
}

static lmc_status prepare(void *user, st_worker *worker, st_slot *slot)
{
    const comparison *const both = user;
    cli_pair *const pair = &both->pairs[slot->index];
    diff_item *const item = calloc(1, sizeof(*item));
    if (item == NULL)
        return st_fail_nomem(&worker->diag);
    slot->item = item;
    if (st_file_tensor_nbytes(both->a, pair->a) == 0)
        return LMC_OK;
    if (both->a->is_archive && both->b->is_archive)
        return prepare_archives(both, pair, item, worker, slot);
    if (!both->a->is_archive && !both->b->is_archive) {
        item->way = WAY_BYTES;
        set_blocks(slot, st_file_tensor_nbytes(both->a, pair->a), PIECE_NBYTES);
        return LMC_OK;
    }
    item->archive = both->a->is_archive ? both->a : both->b;
    item->archive_index = both->a->is_archive ? pair->a : pair->b;
    item->plain = both->a->is_archive ? both->b : both->a;
    item->plain_index = both->a->is_archive ? pair->b : pair->a;
    return prepare_hashes(item, worker, slot);
}

static void release(void *user, st_slot *slot)
{
    diff_item *const item = slot->item;
    (void)user;
    if (item != NULL) {
        st_release(&st_memory_default, item->entries);
        free(item);
    }
    slot->item = NULL;
}

/* ---- run ---- */

static lmc_status read_plain(const lmc_st_file *file, size_t index, uint64_t offset, unsigned char *dst,
                             size_t nbytes, st_worker *worker)
{
    st_diag_set_file(&worker->diag, file->path);
    const lmc_status status =
        os_input_read(&file->input, file->places[index] + offset, dst, nbytes, &worker->diag);
    return status == LMC_OK ? LMC_OK : st_file_blame(file, index, status, &worker->diag);
}

static lmc_status hash_blocks(const diff_item *item, st_worker *worker, const st_slot *slot,
                              const st_run *run)
{
    unsigned char *const content = st_worker_content(worker, run->content_nbytes);
    if (content == NULL)
        return LMC_ERR_NOMEM;
    const lmc_status status =
        read_plain(item->plain, item->plain_index, run->first_block * slot->block_nbytes, content,
                   run->content_nbytes, worker);
    if (status != LMC_OK)
        return status;
    for (uint64_t i = 0; i < run->block_count; i++) {
        const size_t at = (size_t)i * slot->block_nbytes;
        const size_t left = run->content_nbytes - at;
        item->entries[run->first_block + i].content_hash =
            st_hash(content + at, left < slot->block_nbytes ? left : slot->block_nbytes);
    }
    return LMC_OK;
}

static lmc_status compare_bytes(const comparison *both, st_worker *worker, const st_slot *slot,
                                const st_run *run)
{
    cli_pair *const pair = &both->pairs[slot->index];
    const uint64_t offset = run->first_block * slot->block_nbytes;
    if (is_marked(pair))
        return LMC_OK;
    unsigned char *const a = st_worker_content(worker, run->content_nbytes);
    unsigned char *const b = st_worker_stored(worker, run->content_nbytes);
    if (a == NULL || b == NULL)
        return LMC_ERR_NOMEM;
    lmc_status status = read_plain(both->a, pair->a, offset, a, run->content_nbytes, worker);
    if (status == LMC_OK)
        status = read_plain(both->b, pair->b, offset, b, run->content_nbytes, worker);
    if (status == LMC_OK && memcmp(a, b, run->content_nbytes) != 0)
        mark(pair);
    return status;
}

/* Compares what two readers give, piece by piece. */
static lmc_status compare_readers(st_reader *a, st_reader *b, uint64_t content_nbytes, cli_pair *pair,
                                  st_worker *worker)
{
    unsigned char *const from_a = st_worker_content(worker, PIECE_NBYTES);
    unsigned char *const from_b = st_worker_stored(worker, PIECE_NBYTES);
    if (from_a == NULL || from_b == NULL)
        return LMC_ERR_NOMEM;
    for (uint64_t at = 0; at < content_nbytes && !is_marked(pair) && cli_cancel == 0; at += PIECE_NBYTES) {
        const size_t nbytes =
            content_nbytes - at < PIECE_NBYTES ? (size_t)(content_nbytes - at) : PIECE_NBYTES;
        st_diag_set_file(&worker->diag, a->file->path);
        lmc_status status = st_reader_read(a, at, nbytes, from_a, &worker->diag);
        if (status == LMC_OK) {
            st_diag_set_file(&worker->diag, b->file->path);
            status = st_reader_read(b, at, nbytes, from_b, &worker->diag);
        }
        if (status != LMC_OK)
            return status;
        if (memcmp(from_a, from_b, nbytes) != 0)
            mark(pair);
    }
    return LMC_OK;
}

static lmc_status decode_both(const comparison *both, st_worker *worker, const st_slot *slot)
{
    cli_pair *const pair = &both->pairs[slot->index];
    st_reader a;
    st_reader b;
    st_diag_set_file(&worker->diag, both->a->path);
    lmc_status status = st_reader_open(&a, both->a, worker->ctx, pair->a, &worker->diag);
    if (status == LMC_OK) {
        st_diag_set_file(&worker->diag, both->b->path);
        status = st_reader_open(&b, both->b, worker->ctx, pair->b, &worker->diag);
        if (status == LMC_OK)
            status = compare_readers(&a, &b, slot->content_nbytes, pair, worker);
        st_reader_close(&b);
    }
    st_reader_close(&a);
    return status;
}

static lmc_status run_blocks(void *user, st_worker *worker, st_slot *slot, const st_run *run)
{
    const comparison *const both = user;
    const diff_item *const item = slot->item;
    switch (item->way) {
    case WAY_HASHES: return hash_blocks(item, worker, slot, run);
    case WAY_BYTES: return compare_bytes(both, worker, slot, run);
    case WAY_DECODE: return decode_both(both, worker, slot);
    default: return LMC_OK;
    }
}

static lmc_status finish(void *user, st_worker *worker, st_slot *slot)
{
    const comparison *const both = user;
    const diff_item *const item = slot->item;
    (void)worker;
    if (item->way == WAY_HASHES &&
        lmc_content_hash(item->entries, slot->block_count) != item->archive->hashes[item->archive_index])
        mark(&both->pairs[slot->index]);
    return LMC_OK;
}

/* ---- */

static const st_engine_ops diff_ops = {
    .prepare = prepare, .run = run_blocks, .finish = finish, .release = release};

lmc_status cli_diff_contents(const lmc_st_file *a, const lmc_st_file *b, cli_pair *pairs, size_t pair_count,
                             const lmc_st_options *options, lmc_st_diag *diag)
{
    comparison both = {a, b, pairs};
    uint64_t nbytes = 0;
    for (size_t i = 0; i < pair_count; i++)
        nbytes += st_file_tensor_nbytes(a, pairs[i].a);
    st_diag_init(diag, a->path);
    lmc_status status = st_engine_run(&diff_ops, &both, pair_count, nbytes, options, diag);
    if (status == LMC_OK)
        status = os_input_check_unchanged(&a->input, diag);
    if (status == LMC_OK) {
        st_diag_init(diag, b->path);
        status = os_input_check_unchanged(&b->input, diag);
    }
    return status;
}
