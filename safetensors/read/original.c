/*
 * original.c - the bytes of the file that an archive was made from, from anywhere in it. They are cut into runs: a
 * large tensor is one, and so are up to RUN_NBYTES_MAX bytes of small tensors and of the skeleton around them. A run is
 * decoded in blocks, through the cache.
 */
#include "safetensors/archive/archive_skeleton.h"
#include "safetensors/common/options.h"
#include "safetensors/read/block_cache.h"
#include "safetensors/read/reader.h"

#include <pthread.h>
#include <string.h>

#define RUN_NBYTES_MAX ((uint64_t)256 << 10) /* of small tensors and skeleton: one block */
#define LARGE_NBYTES ((uint64_t)64 << 10)    /* a tensor from this size on is a run of its own */

typedef struct run {
    uint64_t begin, end; /* in the original */
    uint64_t first_block;
    uint64_t block_nbytes;
    size_t first_tensor; /* behind `begin` */
    int is_tensor;       /* all of that one */
    st_decoder decoder;  /* of it; not open: a fault, which is met again when it is read */
} run;

struct lmc_st_original {
    st_block_maker maker; /* the first member: one stands for the other */
    const lmc_st_file *file;
    lmc_st_cache *cache;
    st_buffer runs;
    size_t run_count;
    pthread_mutex_t lock; /* of the skeleton, and of decoders that are not verified yet */
    st_skeleton skeleton;
};

static run *run_at(const lmc_st_original *original, size_t number)
{
    return (run *)(void *)original->runs.bytes + number;
}

/* ---- runs ---- */

static uint64_t block_count(const run *run)
{
    return (run->end - run->begin + run->block_nbytes - 1) / run->block_nbytes;
}

/* Adds a run, unless it is empty, and opens its tensor. */
static lmc_status add_run(lmc_st_original *original, lmc_ctx *ctx, const run *given, lmc_st_diag *diag)
{
    if (given->begin == given->end)
        return LMC_OK;
    run *const added = (run *)(void *)st_buffer_extend(&original->file->memory, &original->runs,
                                                       original->run_count * sizeof *added, sizeof *added);
    if (!added)
        return st_fail_nomem(diag);
    *added = *given;
    added->first_block = original->maker.block_count;
    added->block_nbytes = RUN_NBYTES_MAX;
    if (given->is_tensor) {
        lmc_st_diag unused = LMC_INIT(lmc_st_diag);
        if (st_decoder_open(&added->decoder, original->file, ctx, given->first_tensor, &unused) == LMC_OK)
            added->block_nbytes = added->decoder.part_nbytes;
        else
            st_decoder_close(&added->decoder);
    }
    original->run_count++;
    original->maker.block_count += block_count(added);
    return LMC_OK;
}

/* Adds the runs of [*begin, end), which hold small tensors from *first on and parts of the skeleton: a tensor is never
 * cut. */
static lmc_status add_small(lmc_st_original *original, lmc_ctx *ctx, uint64_t *begin, uint64_t end,
                            size_t *first, size_t end_tensor, lmc_st_diag *diag)
{
    const lmc_st_file *const file = original->file;
    while (*begin < end) {
        run added = {.begin = *begin, .end = *begin, .first_tensor = *first};
        while (added.end < end) {
            const int is_skeleton = *first == end_tensor || added.end < st_file_origin(file, *first);
            const uint64_t next = !is_skeleton           ? added.end + st_file_tensor_nbytes(file, *first)
                                  : *first == end_tensor ? end
                                                         : st_file_origin(file, *first);
            const uint64_t most = added.begin + RUN_NBYTES_MAX;
            if (next > most && !is_skeleton)
                break;
            added.end = next < most ? next : most;
            *first += (size_t)!is_skeleton;
            if (added.end == most)
                break;
        }
        LMC_TRY(add_run(original, ctx, &added, diag));
        *begin = added.end;
    }
    return LMC_OK;
}

/* Cuts the original into runs. */
static lmc_status cut(lmc_st_original *original, lmc_ctx *ctx, lmc_st_diag *diag)
{
    const lmc_st_file *const file = original->file;
    const size_t tensor_count = file->header.tensor_count;
    uint64_t begin = 0;
    size_t first = 0;
    for (size_t i = 0; i < tensor_count; i++) {
        const uint64_t nbytes = st_file_tensor_nbytes(file, i);
        if (nbytes < LARGE_NBYTES)
            continue;
        const uint64_t origin = st_file_origin(file, i);
        const run tensor = {.begin = origin, .end = origin + nbytes, .first_tensor = i, .is_tensor = 1};
        LMC_TRY(add_small(original, ctx, &begin, origin, &first, i, diag));
        LMC_TRY(add_run(original, ctx, &tensor, diag));
        begin = tensor.end;
        first = i + 1;
    }
    return add_small(original, ctx, &begin, file->original_nbytes, &first, tensor_count, diag);
}

/* The run with this byte of the original, or if `of_block` with this block. */
static run *find_run(const lmc_st_original *original, uint64_t position, int of_block)
{
    size_t first = 0, last = original->run_count;
    while (last - first > 1) {
        const size_t middle = first + (last - first) / 2;
        const run *const at = run_at(original, middle);
        if ((of_block ? at->first_block : at->begin) <= position)
            first = middle;
        else
            last = middle;
    }
    return run_at(original, first);
}

/* ---- blocks ---- */

static size_t nbytes_of_block(const st_block_maker *maker, uint64_t number)
{
    const run *const run = find_run((const lmc_st_original *)(const void *)maker, number, 1);
    const uint64_t left = run->end - run->begin - (number - run->first_block) * run->block_nbytes;
    return (size_t)(left < run->block_nbytes ? left : run->block_nbytes);
}

/* Decodes all parts of a tensor, to dst one behind the other; dst NULL: only to verify them. */
static lmc_status decode_whole(st_decoder *decoder, st_scratch *scratch, unsigned char *dst,
                               lmc_st_diag *diag)
{
    const uint64_t nbytes = decoder->frame.info.content_nbytes;
    unsigned char *const room =
        dst ? dst : st_buffer_grow(scratch->memory, &scratch->spare, decoder->part_nbytes);
    if (!room)
        return st_fail_nomem(diag);
    for (uint64_t at = 0; at < nbytes; at += decoder->part_nbytes)
        LMC_TRY(st_decoder_decode(decoder, scratch, at / decoder->part_nbytes, dst ? dst + at : room, diag));
    return decoder->entries && !decoder->is_verified ? st_decoder_verify(decoder, diag) : LMC_OK;
}

/* A tensor that was not opened: its fault, or its bytes if that is mended meanwhile. */
static lmc_status read_unopened(const lmc_st_file *file, const run *run, uint64_t first_byte, size_t nbytes,
                                lmc_ctx *ctx, unsigned char *dst, lmc_st_diag *diag)
{
    st_reader reader;
    lmc_status status = st_reader_open(&reader, file, ctx, run->first_tensor, diag);
    if (status == LMC_OK)
        status = st_reader_read(&reader, first_byte, nbytes, dst, diag);
    st_reader_close(&reader);
    return status;
}

static lmc_status make_part(lmc_st_original *original, run *run, uint64_t part, st_scratch *scratch,
                            unsigned char *dst, size_t nbytes, lmc_st_diag *diag)
{
    st_decoder *const decoder = &run->decoder;
    lmc_status status = LMC_OK;
    if (!decoder->frame.coded)
        return read_unopened(original->file, run, part * run->block_nbytes, nbytes, scratch->ctx, dst, diag);
    if (decoder
            ->entries) { /* nothing of it counts before all was verified; it has no base, whose room is used */
        pthread_mutex_lock(&original->lock);
        if (!decoder->is_verified)
            status = decode_whole(decoder, scratch, NULL, diag);
        pthread_mutex_unlock(&original->lock);
    }
    return status == LMC_OK ? st_decoder_decode(decoder, scratch, part, dst, diag) : status;
}

static lmc_status read_skeleton(lmc_st_original *original, uint64_t offset, size_t nbytes, unsigned char *dst,
                                lmc_st_diag *diag)
{
    st_skeleton *const skeleton = &original->skeleton;
    lmc_status status = LMC_OK;
    pthread_mutex_lock(&original->lock);
    if (!skeleton->file)
        status = st_skeleton_open(skeleton, original->file, diag);
    while (nbytes > 0 && status == LMC_OK) {
        const unsigned char *bytes = NULL;
        size_t there = nbytes;
        status = st_skeleton_get(skeleton, offset, &bytes, &there, diag);
        if (status != LMC_OK)
            break;
        memcpy(dst, bytes, there);
        offset += there;
        dst += there;
        nbytes -= there;
    }
    if (status != LMC_OK)
        st_skeleton_close(skeleton);
    pthread_mutex_unlock(&original->lock);
    return status;
}

static lmc_status make_small(lmc_st_original *original, const run *run, st_scratch *scratch,
                             unsigned char *dst, lmc_st_diag *diag)
{
    const lmc_st_file *const file = original->file;
    size_t tensor = run->first_tensor;
    uint64_t at = run->begin;
    while (at < run->end) {
        const int is_last = tensor == file->header.tensor_count;
        const uint64_t origin = is_last ? file->original_nbytes : st_file_origin(file, tensor);
        uint64_t next = origin < run->end ? origin : run->end;
        if (at < origin) {
            LMC_TRY(read_skeleton(original, st_skeleton_before(file, tensor) - (origin - at),
                                  (size_t)(next - at), dst, diag));
        } else {
            st_decoder decoder;
            next = at + st_file_tensor_nbytes(file, tensor);
            lmc_status status = st_decoder_open(&decoder, file, scratch->ctx, tensor, diag);
            if (status == LMC_OK)
                status = decode_whole(&decoder, scratch, dst, diag);
            st_decoder_close(&decoder);
            LMC_TRY(status);
            tensor++;
        }
        dst += next - at;
        at = next;
    }
    return LMC_OK;
}

static lmc_status make_block(st_block_maker *maker, uint64_t number, st_scratch *scratch, unsigned char *dst,
                             lmc_st_diag *diag)
{
    lmc_st_original *const original = (lmc_st_original *)(void *)maker;
    run *const run = find_run(original, number, 1);
    st_diag_init(diag, original->file->path);
    return run->is_tensor ? make_part(original, run, number - run->first_block, scratch, dst,
                                      nbytes_of_block(maker, number), diag)
                          : make_small(original, run, scratch, dst, diag);
}

/* ---- calls ---- */

lmc_status lmc_st_original_open(const lmc_st_file *file, lmc_st_cache *cache, lmc_st_original **opened,
                                lmc_st_diag *diag)
{
    st_call call;
    lmc_ctx *ctx = NULL;
    lmc_st_original *const original = st_allocate_zeroed(&file->memory, 1, sizeof *original);
    *opened = NULL;
    lmc_status status = st_call_begin(&call, file->path, NULL, diag);
    if (status == LMC_OK && (!original || lmc_ctx_create(&file->memory, &ctx) != LMC_OK))
        status = st_fail_nomem(call.diag);
    if (original) {
        original->maker = (st_block_maker){.nbytes = nbytes_of_block, .make = make_block};
        original->file = file;
        original->cache = cache;
        pthread_mutex_init(&original->lock, NULL);
    }
    if (status == LMC_OK && file->is_archive)
        status = cut(original, ctx, call.diag);
    if (status == LMC_OK)
        *opened = original;
    else
        lmc_st_original_close(original);
    lmc_ctx_free(ctx);
    return st_call_end(&call, status);
}

void lmc_st_original_close(lmc_st_original *original)
{
    if (!original)
        return;
    const lmc_allocator *const memory = &original->file->memory;
    st_cache_forget(original->cache, &original->maker);
    for (size_t i = 0; i < original->run_count; i++)
        if (run_at(original, i)->decoder.frame.coded)
            st_decoder_close(&run_at(original, i)->decoder);
    st_skeleton_close(&original->skeleton);
    pthread_mutex_destroy(&original->lock);
    st_buffer_free(memory, &original->runs);
    st_release(memory, original);
}

/* Copies what one block has of the range. Returns how many bytes through *nbytes. */
static lmc_status read_some(lmc_st_original *original, uint64_t offset, size_t *nbytes, unsigned char *dst,
                            lmc_st_diag *diag)
{
    const run *const run = find_run(original, offset, 0);
    const uint64_t in_run = (offset - run->begin) / run->block_nbytes;
    const size_t at = (size_t)((offset - run->begin) % run->block_nbytes);
    const uint64_t number = run->first_block + in_run;
    const size_t there = nbytes_of_block(&original->maker, number) - at;
    st_block *block = NULL;
    LMC_TRY(st_cache_get(original->cache, &original->maker, number, &block, diag));
    *nbytes = there < *nbytes ? there : *nbytes;
    memcpy(dst, st_block_bytes(block) + at, *nbytes);
    st_cache_put(original->cache, block);
    return LMC_OK;
}

lmc_status lmc_st_original_read(lmc_st_original *original, uint64_t offset, size_t nbytes, void *dst,
                                lmc_st_diag *diag)
{
    st_call call;
    const lmc_st_file *const file = original->file;
    unsigned char *at = dst;
    lmc_status status = st_call_begin(&call, file->path, NULL, diag);
    if (status == LMC_OK && (offset > file->original_nbytes || nbytes > file->original_nbytes - offset))
        status = st_fail(call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the original has fewer bytes");
    else if (status == LMC_OK && !file->is_archive && nbytes > 0)
        return st_call_end(&call, st_input_read(&file->input, offset, dst, nbytes, call.diag));
    while (nbytes > 0 && status == LMC_OK) {
        size_t some = nbytes;
        status = read_some(original, offset, &some, at, call.diag);
        offset += some;
        at += some;
        nbytes -= some;
    }
    return st_call_end(&call, status);
}
