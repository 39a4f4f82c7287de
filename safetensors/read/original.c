/*
 * original.c - the bytes of the file that an archive was made from, from anywhere in it. They are cut into runs: a
 * large tensor is one, a large part of the skeleton is one, and so are small tensors and small parts of the skeleton
 * that stand one behind the other. A run is decoded in blocks, through the cache. A frame takes much memory while it is
 * open, whatever its size: few stay so.
 */
#include "safetensors/archive/archive_skeleton.h"
#include "safetensors/common/options.h"
#include "safetensors/read/block_cache.h"
#include "safetensors/read/reader.h"

#include <pthread.h>
#include <string.h>

#define RUN_NBYTES_MAX ((uint64_t)256 << 10) /* of small tensors and skeleton: one block */
#define LARGE_NBYTES ((uint64_t)64 << 10)    /* what has so many bytes is a run of its own */
#define OPEN_MAX 16                          /* large tensors that nobody reads, and that stay open */

typedef enum run_kind { SMALL, TENSOR, SKELETON } run_kind;

typedef struct run {
    uint64_t begin, end; /* in the original */
    uint64_t first_block;
    uint64_t block_nbytes; /* of a TENSOR: decoded at once, unless it could not be opened */
    size_t tensor;         /* it, or the first one behind `begin` */
    run_kind kind;
} run;

/* A large tensor. */
typedef struct open_tensor {
    st_decoder decoder;
    unsigned user_count;
    struct open_tensor *next;
} open_tensor;

struct lmc_st_original {
    st_block_maker maker; /* the first member: one stands for the other */
    const lmc_st_file *file;
    lmc_st_cache *cache;
    st_buffer runs;
    size_t run_count;
    pthread_mutex_t open_lock;
    open_tensor *open;    /* the last one that was used comes first */
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

/* How many bytes of a tensor are decoded at once. Leaves *nbytes alone if it cannot be opened: this is tried again when
 * it is read. Error: NOMEM. */
static lmc_status find_part_nbytes(const lmc_st_file *file, lmc_ctx *ctx, size_t index, uint64_t *nbytes)
{
    st_decoder decoder;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    const lmc_status status = st_decoder_open(&decoder, file, ctx, index, &diag);
    if (status == LMC_OK)
        *nbytes = decoder.part_nbytes;
    st_decoder_close(&decoder);
    return status == LMC_ERR_NOMEM ? status : LMC_OK;
}

/* Adds a run, unless it is empty. */
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
    if (given->kind == TENSOR &&
        find_part_nbytes(original->file, ctx, given->tensor, &added->block_nbytes) != LMC_OK)
        return st_fail_nomem(diag);
    original->run_count++;
    original->maker.block_count += block_count(added);
    return LMC_OK;
}

/* Adds a tensor or a part of the skeleton: to the run of small ones, or as a run of its own. */
static lmc_status add_piece(lmc_st_original *original, lmc_ctx *ctx, run *small, const run *piece,
                            lmc_st_diag *diag)
{
    const uint64_t nbytes = piece->end - piece->begin;
    const int is_large = nbytes >= LARGE_NBYTES;
    if (is_large || nbytes > RUN_NBYTES_MAX - (small->end - small->begin)) {
        LMC_TRY(add_run(original, ctx, small, diag));
        *small = (run){.begin = piece->begin, .end = piece->begin, .tensor = piece->tensor};
    }
    small->end = piece->end;
    if (!is_large)
        return LMC_OK;
    small->begin = piece->end;
    small->tensor += piece->kind == TENSOR;
    return add_run(original, ctx, piece, diag);
}

/* Cuts the original into runs. */
static lmc_status cut(lmc_st_original *original, lmc_ctx *ctx, lmc_st_diag *diag)
{
    const lmc_st_file *const file = original->file;
    const size_t count = file->header.tensor_count;
    run small = {.kind = SMALL};
    run piece = {.kind = SKELETON};
    for (size_t i = 0; i < count; i++) {
        const uint64_t origin = st_file_origin(file, i);
        piece = (run){.begin = piece.end, .end = origin, .tensor = i, .kind = SKELETON};
        LMC_TRY(add_piece(original, ctx, &small, &piece, diag));
        piece = (run){
            .begin = origin, .end = origin + st_file_tensor_nbytes(file, i), .tensor = i, .kind = TENSOR};
        LMC_TRY(add_piece(original, ctx, &small, &piece, diag));
    }
    piece = (run){.begin = piece.end, .end = file->original_nbytes, .tensor = count, .kind = SKELETON};
    LMC_TRY(add_piece(original, ctx, &small, &piece, diag));
    return add_run(original, ctx, &small, diag);
}

/* The run with this byte of the original, or if `of_block` with this block. */
static const run *find_run(const lmc_st_original *original, uint64_t position, int of_block)
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

/* ---- tensors ---- */

/* Decodes all parts of a tensor: to dst, or, if it is NULL, only to verify them. */
static lmc_status decode_all(st_decoder *decoder, st_scratch *scratch, unsigned char *dst, lmc_st_diag *diag)
{
    const uint64_t nbytes = decoder->frame.info.content_nbytes;
    unsigned char *const room =
        dst ? dst : st_buffer_grow(scratch->memory, &scratch->content, decoder->part_nbytes);
    if (!room)
        return st_fail_nomem(diag);
    for (uint64_t at = 0; at < nbytes; at += decoder->part_nbytes)
        LMC_TRY(st_decoder_decode(decoder, scratch, at / decoder->part_nbytes, room + (dst ? at : 0), diag));
    return decoder->entries && !decoder->is_verified ? st_decoder_verify(decoder, diag) : LMC_OK;
}

/* Takes a tensor out of the list. NULL: it is not open. */
static open_tensor *find_open(lmc_st_original *original, size_t index)
{
    open_tensor **at = &original->open;
    while (*at && (*at)->decoder.frame.index != index)
        at = &(*at)->next;
    open_tensor *const found = *at;
    if (found)
        *at = found->next;
    return found;
}

static void close_tensor(open_tensor *tensor)
{
    const lmc_allocator *const memory = &tensor->decoder.frame.file->memory;
    st_decoder_close(&tensor->decoder);
    st_release(memory, tensor);
}

/* Opens a large tensor, unless it is open; it ends with give_tensor(). Errors: as st_decoder_open(), NOMEM. */
static lmc_status take_tensor(lmc_st_original *original, size_t index, lmc_ctx *ctx, open_tensor **taken,
                              lmc_st_diag *diag)
{
    open_tensor *opened = NULL;
    pthread_mutex_lock(&original->open_lock);
    open_tensor *found = find_open(original, index);
    if (!found) {
        pthread_mutex_unlock(&original->open_lock);
        opened = st_allocate_zeroed(&original->file->memory, 1, sizeof *opened);
        if (!opened)
            return st_fail_nomem(diag);
        const lmc_status status = st_decoder_open(&opened->decoder, original->file, ctx, index, diag);
        if (status != LMC_OK) {
            close_tensor(opened);
            return status;
        }
        pthread_mutex_lock(&original->open_lock);
        found = find_open(original, index); /* another thread may have been faster */
    }
    *taken = found ? found : opened;
    (*taken)->user_count++;
    (*taken)->next = original->open;
    original->open = *taken;
    pthread_mutex_unlock(&original->open_lock);
    if (found && opened)
        close_tensor(opened);
    return LMC_OK;
}

static void give_tensor(lmc_st_original *original, open_tensor *tensor)
{
    unsigned count = 0; /* that nobody uses */
    pthread_mutex_lock(&original->open_lock);
    tensor->user_count--;
    for (open_tensor **at = &original->open; *at;) {
        open_tensor *const one = *at;
        count += one->user_count == 0;
        if (one->user_count == 0 && count > OPEN_MAX) {
            *at = one->next;
            close_tensor(one);
        } else {
            at = &one->next;
        }
    }
    pthread_mutex_unlock(&original->open_lock);
}

/* A tensor that is decoded in other parts than when the original was opened: it could not be opened then. */
static lmc_status read_mended(const lmc_st_file *file, const run *run, uint64_t first_byte, size_t nbytes,
                              lmc_ctx *ctx, unsigned char *dst, lmc_st_diag *diag)
{
    st_reader reader;
    lmc_status status = st_reader_open(&reader, file, ctx, run->tensor, diag);
    if (status == LMC_OK)
        status = st_reader_read(&reader, first_byte, nbytes, dst, diag);
    st_reader_close(&reader);
    return status;
}

static lmc_status make_part(lmc_st_original *original, const run *run, uint64_t part, size_t nbytes,
                            st_scratch *scratch, unsigned char *dst, lmc_st_diag *diag)
{
    open_tensor *tensor = NULL;
    LMC_TRY(take_tensor(original, run->tensor, scratch->ctx, &tensor, diag));
    st_decoder *const decoder = &tensor->decoder;
    lmc_status status = LMC_OK;
    if (decoder->part_nbytes != run->block_nbytes) {
        status = read_mended(original->file, run, part * run->block_nbytes, nbytes, scratch->ctx, dst, diag);
    } else {
        if (decoder->entries) { /* nothing of it counts before all was verified */
            pthread_mutex_lock(&original->lock);
            if (!decoder->is_verified)
                status = decode_all(decoder, scratch, NULL, diag);
            pthread_mutex_unlock(&original->lock);
        }
        if (status == LMC_OK)
            status = st_decoder_decode(decoder, scratch, part, dst, diag);
    }
    give_tensor(original, tensor);
    return status;
}

/* A range of a small tensor. */
static lmc_status read_small_tensor(const lmc_st_file *file, size_t index, uint64_t first_byte, size_t nbytes,
                                    st_scratch *scratch, unsigned char *dst, lmc_st_diag *diag)
{
    const size_t tensor_nbytes = (size_t)st_file_tensor_nbytes(file, index);
    unsigned char *const whole =
        nbytes == tensor_nbytes ? dst : st_buffer_grow(scratch->memory, &scratch->content, tensor_nbytes);
    st_decoder decoder;
    if (!whole)
        return st_fail_nomem(diag);
    lmc_status status = st_decoder_open(&decoder, file, scratch->ctx, index, diag);
    if (status == LMC_OK)
        status = decode_all(&decoder, scratch, whole, diag);
    if (status == LMC_OK && whole != dst)
        memcpy(dst, whole + first_byte, nbytes);
    st_decoder_close(&decoder);
    return status;
}

/* ---- the skeleton, and what is small ---- */

/* Bytes of the original from `begin` on, which stand before tensor `index`. */
static lmc_status read_skeleton(lmc_st_original *original, size_t index, uint64_t begin, size_t nbytes,
                                unsigned char *dst, lmc_st_diag *diag)
{
    const lmc_st_file *const file = original->file;
    const uint64_t origin =
        index < file->header.tensor_count ? st_file_origin(file, index) : file->original_nbytes;
    uint64_t offset = st_skeleton_before(file, index) - (origin - begin);
    st_skeleton *const skeleton = &original->skeleton;
    lmc_status status = LMC_OK;
    pthread_mutex_lock(&original->lock);
    if (!skeleton->file)
        status = st_skeleton_open(skeleton, file, diag);
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

/* Reads bytes [begin, end) of a SMALL run: of each tensor, the part of the skeleton before it, and itself. */
static lmc_status read_small(lmc_st_original *original, const run *run, uint64_t begin, uint64_t end,
                             st_scratch *scratch, unsigned char *dst, lmc_st_diag *diag)
{
    const lmc_st_file *const file = original->file;
    uint64_t at = begin;
    for (size_t i = run->tensor; at < end; i++) {
        const int is_last = i == file->header.tensor_count;
        const uint64_t origin = is_last ? end : st_file_origin(file, i);
        const uint64_t tensor_end = is_last ? end : origin + st_file_tensor_nbytes(file, i);
        const uint64_t before_end = origin < end ? origin : end;
        if (at < before_end) {
            LMC_TRY(read_skeleton(original, i, at, (size_t)(before_end - at), dst + (at - begin), diag));
            at = before_end;
        }
        const uint64_t part_end = tensor_end < end ? tensor_end : end;
        if (at < part_end) {
            LMC_TRY(read_small_tensor(file, i, at - origin, (size_t)(part_end - at), scratch,
                                      dst + (at - begin), diag));
            at = part_end;
        }
    }
    return LMC_OK;
}

/* ---- blocks ---- */

static size_t nbytes_of_block(const st_block_maker *maker, uint64_t number)
{
    const run *const run = find_run((const lmc_st_original *)(const void *)maker, number, 1);
    const uint64_t left = run->end - run->begin - (number - run->first_block) * run->block_nbytes;
    return (size_t)(left < run->block_nbytes ? left : run->block_nbytes);
}

static lmc_status make_block(st_block_maker *maker, uint64_t number, st_scratch *scratch, unsigned char *dst,
                             lmc_st_diag *diag)
{
    lmc_st_original *const original = (lmc_st_original *)(void *)maker;
    const run *const run = find_run(original, number, 1);
    const uint64_t part = number - run->first_block;
    const size_t nbytes = nbytes_of_block(maker, number);
    st_diag_init(diag, original->file->path);
    switch (run->kind) {
    case TENSOR: return make_part(original, run, part, nbytes, scratch, dst, diag);
    case SKELETON:
        return read_skeleton(original, run->tensor, run->begin + part * run->block_nbytes, nbytes, dst, diag);
    case SMALL: break;
    }
    return read_small(original, run, run->begin, run->end, scratch, dst, diag);
}

/* Reads a range of a SMALL run whose block could not be made: what is at fault may be elsewhere in it. */
static lmc_status read_around_fault(lmc_st_original *original, const run *run, uint64_t begin, uint64_t end,
                                    unsigned char *dst, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = &original->file->memory;
    st_scratch scratch = {.memory = memory};
    st_diag_init(diag, original->file->path);
    lmc_status status = lmc_ctx_create(memory, &scratch.ctx) == LMC_OK ? LMC_OK : st_fail_nomem(diag);
    if (status == LMC_OK)
        status = read_small(original, run, begin, end, &scratch, dst, diag);
    st_scratch_free(&scratch);
    lmc_ctx_free(scratch.ctx);
    return status;
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
        pthread_mutex_init(&original->open_lock, NULL);
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
    while (original->open) {
        open_tensor *const tensor = original->open;
        original->open = tensor->next;
        close_tensor(tensor);
    }
    st_skeleton_close(&original->skeleton);
    pthread_mutex_destroy(&original->open_lock);
    pthread_mutex_destroy(&original->lock);
    st_buffer_free(memory, &original->runs);
    st_release(memory, original);
}

/* Reads what one block has of the range. Returns how many bytes through *nbytes. */
static lmc_status read_some(lmc_st_original *original, uint64_t offset, size_t *nbytes, unsigned char *dst,
                            lmc_st_diag *diag)
{
    const run *const run = find_run(original, offset, 0);
    const uint64_t in_run = (offset - run->begin) / run->block_nbytes;
    const size_t at = (size_t)((offset - run->begin) % run->block_nbytes);
    const uint64_t number = run->first_block + in_run;
    const size_t there = nbytes_of_block(&original->maker, number) - at;
    st_block *block = NULL;
    const lmc_status status = st_cache_get(original->cache, &original->maker, number, &block, diag);
    *nbytes = there < *nbytes ? there : *nbytes;
    if (status == LMC_OK) {
        memcpy(dst, st_block_bytes(block) + at, *nbytes);
        st_cache_put(original->cache, block);
    } else if (run->kind == SMALL && status != LMC_ERR_NOMEM) {
        return read_around_fault(original, run, offset, offset + *nbytes, dst, diag);
    }
    return status;
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
