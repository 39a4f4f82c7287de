/*
 * relatives.c - store/relatives.h: a search in the index gives files; all tensors of the files that save most are
 * compared.
 */
#include "safetensors/store/relatives.h"

#include "safetensors/convert/fingerprint.h"

#include <stdlib.h>
#include <string.h>

/* Tensors that are searched for at once: their hits take memory. */
#define BATCH_COUNT 4096

/* Files of the store whose tensors are all compared with those of a file. */
#define FILES_MAX 48

/* Comparisons of pairs of tensors for one such file, unless fewer do. */
#define COMPARISONS_MAX ((uint64_t)1 << 20)

/* What a frame takes beside its blocks, about. */
#define FRAME_NBYTES 66

static const lmc_allocator *memory_of(const st_relatives *relatives)
{
    return relatives->catalog->store->options->allocator;
}

static double element_count(const st_index_tensor *tensor)
{
    return (double)tensor->nbytes / st_sketch_element_nbytes(tensor->dtype);
}

/* A file of the store with relatives, and what they save. */
typedef struct candidate_file {
    uint32_t id;
    double gain;
} candidate_file;

/* What a tensor takes on a hit. Rows that the base lacks take what they take alone. */
static double predict(const st_relatives *relatives, size_t number, const st_index_hit *hit)
{
    const st_index_tensor *const tensor = &relatives->tensors[relatives->wanted[number]];
    const double shared =
        hit->is_head && hit->nbytes < tensor->nbytes ? (double)hit->nbytes / (double)tensor->nbytes : 1;
    const double nbytes = st_index_predict(tensor, hit) * element_count(tensor) / 8;
    return FRAME_NBYTES + nbytes * shared + relatives->alone_nbytes[number] * (1 - shared);
}

static lmc_status add_relative(st_relatives *relatives, size_t number, const st_index_hit *hit)
{
    const lmc_allocator *const memory = memory_of(relatives);
    const st_catalog_file *const file = st_catalog_find(relatives->catalog, hit->file);
    const double nbytes = predict(relatives, number, hit);
    if (!file || nbytes >= relatives->alone_nbytes[number])
        return LMC_OK;
    const st_relative relative = {.wanted = (uint32_t)number,
                                  .model = (uint32_t)file->model,
                                  .file = hit->file,
                                  .tensor = hit->tensor,
                                  .form = (lmc_base_form)hit->form,
                                  .has_other_length =
                                      hit->is_head &&
                                      hit->nbytes != relatives->tensors[relatives->wanted[number]].nbytes,
                                  .is_equal = hit->is_equal,
                                  .nbytes = nbytes};
    unsigned char *const place =
        st_buffer_extend(memory, &relatives->room, relatives->count * sizeof relative, sizeof relative);
    if (!place)
        return st_fail_nomem(relatives->diag);
    memcpy(place, &relative, sizeof relative);
    relatives->count++;
    return LMC_OK;
}

/* Adds what a file saves on a tensor to what it saves on others. */
static lmc_status add_gain(st_relatives *relatives, uint32_t id, double gain)
{
    candidate_file *files = (candidate_file *)(void *)relatives->files.bytes;
    for (size_t i = 0; i < relatives->file_count; i++) {
        if (files[i].id != id)
            continue;
        files[i].gain += gain;
        return LMC_OK;
    }
    const candidate_file file = {id, gain};
    unsigned char *const place = st_buffer_extend(memory_of(relatives), &relatives->files,
                                                  relatives->file_count * sizeof file, sizeof file);
    if (!place)
        return st_fail_nomem(relatives->diag);
    memcpy(place, &file, sizeof file);
    relatives->file_count++;
    return LMC_OK;
}

/* The models that a search is for. */
typedef struct models_mask {
    const st_relatives *relatives;
    const unsigned char *is_allowed;
    int is_for_equal; /* only tensors that seem to be equal count */
} models_mask;

/* An st_index_allowed_fn. */
static int is_file_allowed(void *user, uint32_t id, const char *model)
{
    const models_mask *const mask = user;
    const st_catalog_file *const file = st_catalog_find(mask->relatives->catalog, id);
    (void)model;
    return file && mask->is_allowed[file->model];
}

/* Searches the index for one batch of tensors. */
static lmc_status search_batch(st_relatives *relatives, models_mask *mask, size_t begin, size_t count,
                               st_index_tensor *room, st_index_hits *hits)
{
    st_index *const index = &relatives->catalog->index;
    for (size_t i = 0; i < count; i++)
        room[i] = relatives->tensors[relatives->wanted[begin + i]];
    LMC_TRY(st_index_search(index, room, count, is_file_allowed, mask, hits, relatives->diag));
    for (size_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < hits[i].count; j++) {
            const st_index_hit *const hit = &hits[i].list[j];
            const double gain = relatives->alone_nbytes[begin + i] - predict(relatives, begin + i, hit);
            if (gain <= 0 || (mask->is_for_equal && !hit->is_equal))
                continue;
            LMC_TRY(add_relative(relatives, begin + i, hit));
            LMC_TRY(add_gain(relatives, hit->file, gain));
        }
    }
    return LMC_OK;
}

static lmc_status search_all(st_relatives *relatives, models_mask *mask)
{
    const lmc_allocator *const memory = memory_of(relatives);
    const size_t most = relatives->wanted_count < BATCH_COUNT ? relatives->wanted_count : BATCH_COUNT;
    st_index_tensor *const room = st_allocate_array(memory, most + 1, sizeof *room);
    st_index_hits *const hits = st_allocate_array(memory, most + 1, sizeof *hits);
    lmc_status status = room && hits ? LMC_OK : st_fail_nomem(relatives->diag);
    for (size_t i = 0; i < relatives->wanted_count && status == LMC_OK; i += most) {
        const size_t left = relatives->wanted_count - i;
        status = search_batch(relatives, mask, i, left < most ? left : most, room, hits);
    }
    st_release(memory, room);
    st_release(memory, hits);
    return status;
}

static int compare_gains(const void *left, const void *right)
{
    const double a = ((const candidate_file *)left)->gain;
    const double b = ((const candidate_file *)right)->gain;
    return a > b ? -1 : a < b;
}

/* Compares all tensors of a file of the store with those of the source: a search gives only the nearest few of each.
 * Where that would be very many comparisons, the tensor behind the last one's relative is tried first, for most files
 * that have the same tensors have them in the same order. */
static lmc_status compare_file(st_relatives *relatives, uint32_t id)
{
    const lmc_allocator *const memory = memory_of(relatives);
    st_index_tensor *tensors = NULL;
    size_t count = 0;
    LMC_TRY(st_index_load_file(&relatives->catalog->index, id, &tensors, &count, relatives->diag));
    lmc_status status = LMC_OK;
    const int is_large = (uint64_t)relatives->wanted_count * count > COMPARISONS_MAX;
    size_t next = 0;
    for (size_t i = 0; i < relatives->wanted_count && status == LMC_OK; i++) {
        const st_index_tensor *const wanted = &relatives->tensors[relatives->wanted[i]];
        st_index_hit best = {.distance = UINT32_MAX};
        size_t at = next;
        /* a hit that is so near that the file can hardly have a nearer one */
        const int is_settled =
            is_large && next < count && st_index_compare(wanted, &tensors[next], UINT32_MAX, &best) &&
            (best.distance == 0 ||
             (!best.is_head && best.distance < st_sketch_spread(wanted->dtype, &wanted->sketch) / 2));
        if (!is_settled) {
            best.distance = UINT32_MAX;
            for (size_t j = 0; j < count && best.distance > 0; j++)
                if (st_index_compare(wanted, &tensors[j], best.distance, &best))
                    at = j;
        }
        if (best.distance == UINT32_MAX)
            continue;
        best.file = id;
        best.tensor = (uint32_t)at;
        next = at + 1;
        status = add_relative(relatives, i, &best);
    }
    st_release(memory, tensors);
    return status;
}

/* By model, then tensor of the source, then size. */
static int compare_relatives(const void *left, const void *right)
{
    const st_relative *const a = left;
    const st_relative *const b = right;
    if (a->model != b->model)
        return a->model < b->model ? -1 : 1;
    if (a->wanted != b->wanted)
        return a->wanted < b->wanted ? -1 : 1;
    return a->nbytes < b->nbytes ? -1 : a->nbytes > b->nbytes;
}

/* The best relative of each tensor in each model. */
static lmc_status find_best(st_relatives *relatives)
{
    models_mask mask = {relatives, relatives->is_allowed, 0};
    LMC_TRY(search_all(relatives, &mask));
    candidate_file *const files = (candidate_file *)(void *)relatives->files.bytes;
    if (relatives->file_count > 1)
        qsort(files, relatives->file_count, sizeof *files, compare_gains);
    for (size_t i = 0; i < relatives->file_count && i < FILES_MAX; i++)
        LMC_TRY(compare_file(relatives, files[i].id));
    if (relatives->is_reachable) {
        mask = (models_mask){relatives, relatives->is_reachable, 1};
        LMC_TRY(search_all(relatives, &mask));
    }
    st_relative *const list = (st_relative *)(void *)relatives->room.bytes;
    if (relatives->count > 1)
        qsort(list, relatives->count, sizeof *list, compare_relatives);
    size_t kept = 0;
    for (size_t i = 0; i < relatives->count; i++)
        if (kept == 0 || list[kept - 1].model != list[i].model || list[kept - 1].wanted != list[i].wanted)
            list[kept++] = list[i];
    relatives->count = kept;
    relatives->list = list;
    return LMC_OK;
}

lmc_status st_relatives_find(st_relatives *relatives, size_t count, const unsigned char *is_wanted)
{
    const lmc_allocator *const memory = memory_of(relatives);
    relatives->wanted = st_allocate_array(memory, count + 1, sizeof *relatives->wanted);
    relatives->alone_nbytes = st_allocate_array(memory, count + 1, sizeof *relatives->alone_nbytes);
    if (!relatives->wanted || !relatives->alone_nbytes)
        return st_fail_nomem(relatives->diag);
    for (size_t i = 0; i < count; i++) {
        const st_index_tensor *const tensor = &relatives->tensors[i];
        if (tensor->nbytes < ST_CANDIDATE_NBYTES_MIN || (is_wanted && !is_wanted[i]))
            continue;
        const unsigned pairs = st_sketch_pair_count(tensor->dtype, tensor->nbytes, LMC_BASE_PLAIN, 0);
        const double nbits = st_sketch_plain_nbits(tensor->dtype, &tensor->sketch, pairs);
        relatives->alone_nbytes[relatives->wanted_count] = FRAME_NBYTES + nbits * element_count(tensor) / 8;
        relatives->wanted[relatives->wanted_count++] = (uint32_t)i;
    }
    if (relatives->wanted_count == 0 || relatives->catalog->id_count == 0)
        return LMC_OK;
    const lmc_st_diag diag = *relatives->diag;
    lmc_status status = find_best(relatives);
    if (status != LMC_ERR_CORRUPT)
        return status;
    *relatives->diag = diag;
    LMC_TRY(st_catalog_rebuild(relatives->catalog));
    relatives->count = 0;
    relatives->file_count = 0;
    return find_best(relatives);
}

void st_relatives_free(st_relatives *relatives)
{
    const lmc_allocator *const memory = memory_of(relatives);
    st_buffer_free(memory, &relatives->room);
    st_buffer_free(memory, &relatives->files);
    st_release(memory, relatives->wanted);
    st_release(memory, relatives->alone_nbytes);
    relatives->list = NULL;
    relatives->count = 0;
}
