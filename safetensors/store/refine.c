/*
 * refine.c - store/refine.h.
 */
#include "safetensors/store/refine.h"

#include "safetensors/base/content.h"

#include <string.h>

/* Models whose totals are within this share of the best are looked at, so many at most. */
#define NEAR_SHARE 0.1
#define NEAR_MODELS_MAX 4

/* Content that is planned for a model, about. Small tensors tell little. */
#define PLANNED_NBYTES ((uint64_t)2 << 20)
#define TENSOR_NBYTES_MIN ((uint64_t)16 << 10)

/* A tensor of the source, and the content that it is planned against. */
typedef struct planned {
    const st_source *source;
    size_t index;
    const st_content *base;
    const st_content_room *room;
    lmc_st_diag *diag;
} planned;

static lmc_status read_source(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const planned *const one = user;
    return one->source->read(one->source, one->index, offset, dst, nbytes, one->diag);
}

static lmc_status read_base(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const planned *const one = user;
    const unsigned char *bytes = NULL;
    const lmc_status status =
        st_content_read(one->base, one->room, offset, offset + nbytes, &bytes, one->diag);
    if (status == LMC_OK)
        memcpy(dst, bytes, nbytes);
    return status;
}

/* *nbytes: what the codec expects the tensor to take on the relative. A base that cannot be read gives UINT64_MAX. */
static lmc_status plan_on(const st_relatives *relatives, const st_relative *relative, const st_source *source,
                          lmc_ctx *ctx, const lmc_st_file *file, uint64_t *nbytes)
{
    const lmc_allocator *const memory = relatives->catalog->store->options->allocator;
    const size_t index = relatives->wanted[relative->wanted];
    const uint64_t content_nbytes = st_source_tensor_nbytes(source, index);
    st_buffer buffers[3] = {{0}};
    lmc_st_diag unused = {0};
    st_content content;
    lmc_ctx *base_ctx = NULL;
    lmc_plan *plan = NULL;
    lmc_params params;
    lmc_params_init(&params);
    params.dtype = (lmc_dtype)source->header->tensors[index].dtype;
    params.level = relatives->catalog->store->options->level;
    params.row_nbytes = st_header_row_nbytes(source->header, &source->header->tensors[index]);
    params.base_form = relative->form;
    lmc_status status = lmc_ctx_create(memory, &base_ctx);
    const st_content_room room = {memory, base_ctx, &buffers[0], &buffers[1], &buffers[2]};
    const planned one = {source, index, &content, &room, &unused};
    memset(&content, 0, sizeof content);
    if (status == LMC_OK)
        status = st_content_open(&content, file, base_ctx, relative->tensor, memory, &unused);
    content.nbytes = content_nbytes * st_base_scale(relative->form);
    if (status == LMC_OK)
        status =
            lmc_plan_create_delta(ctx, &params, content_nbytes, read_source, read_base, (void *)&one, &plan);
    *nbytes = status == LMC_OK ? lmc_plan_estimate(plan) : UINT64_MAX;
    lmc_plan_free(plan);
    st_content_free(&content);
    for (size_t i = 0; i < 3; i++)
        st_buffer_free(memory, &buffers[i]);
    lmc_ctx_free(base_ctx);
    return status == LMC_ERR_NOMEM ? st_fail_nomem(relatives->diag) : LMC_OK;
}

/* Corrects what is predicted for a model, whose relatives are list[begin .. end - 1]. */
static lmc_status refine_model(st_relatives *relatives, size_t begin, size_t end, const st_source *source,
                               lmc_ctx *ctx)
{
    const st_store_session *const store = relatives->catalog->store;
    double expected = 0;
    double predicted = 0;
    uint64_t looked_at = 0;
    for (size_t i = begin; i < end && looked_at < PLANNED_NBYTES; i++) {
        const st_relative *const relative = &relatives->list[i];
        const uint64_t nbytes = st_source_tensor_nbytes(source, relatives->wanted[relative->wanted]);
        lmc_st_diag unused = {0};
        lmc_st_file *file = NULL;
        uint64_t planned_nbytes = 0;
        if (nbytes < TENSOR_NBYTES_MIN || relative->is_equal)
            continue;
        if (st_is_cancelled(store->options->cancel))
            return st_fail_cancelled(relatives->diag);
        const st_catalog_file *const found = st_catalog_find(relatives->catalog, relative->file);
        char *const path = st_store_path(store, found->path);
        const st_open how = {.path = path, .fd = -1, .allocator = store->options->allocator};
        lmc_status status = path ? st_file_open(&how, &file, &unused) : st_fail_nomem(relatives->diag);
        st_release(store->options->allocator, path);
        if (status == LMC_OK)
            status = plan_on(relatives, relative, source, ctx, file, &planned_nbytes);
        lmc_st_close(file);
        if (status == LMC_ERR_NOMEM)
            return status;
        if (status != LMC_OK || planned_nbytes == UINT64_MAX)
            continue;
        looked_at += nbytes;
        expected += (double)planned_nbytes;
        predicted += relative->nbytes;
    }
    const double factor = predicted > 0 ? expected / predicted : 1;
    for (size_t i = begin; i < end; i++)
        if (!relatives->list[i].is_equal)
            relatives->list[i].nbytes *= factor;
    return LMC_OK;
}

lmc_status st_relatives_refine(st_relatives *relatives, const st_selection *selection,
                               const st_source *source, lmc_ctx *ctx)
{
    const lmc_allocator *const memory = relatives->catalog->store->options->allocator;
    double *const totals = st_allocate_array(memory, selection->model_count + 1, sizeof *totals);
    double best = 0;
    size_t near_count = 0;
    if (!totals)
        return st_fail_nomem(relatives->diag);
    st_selection_totals(selection, totals);
    for (size_t i = 0; i < selection->model_count; i++)
        best = i == 0 || totals[i] < best ? totals[i] : best;
    for (size_t i = 0; i < selection->model_count; i++)
        near_count += totals[i] <= best * (1 + NEAR_SHARE);
    lmc_status status = LMC_OK;
    size_t refined = 0;
    for (size_t begin = 0; begin < relatives->count && near_count > 1 && status == LMC_OK;) {
        const size_t model = relatives->list[begin].model;
        size_t end = begin;
        while (end < relatives->count && relatives->list[end].model == model)
            end++;
        if (totals[model] <= best * (1 + NEAR_SHARE) && refined++ < NEAR_MODELS_MAX)
            status = refine_model(relatives, begin, end, source, ctx);
        begin = end;
    }
    st_release(memory, totals);
    return status;
}
