/*
 * plan.c - convert/conversion.h: looks at a tensor, and at the one that it may be coded against, and
 * chooses its coding.
 */
#include "safetensors/convert/conversion.h"

#include <string.h>

/* What a plan is made from. */
typedef struct plan_input {
    const st_conversion *conversion;
    st_worker *worker;
    size_t index;
    const st_match *match; /* NULL: none */
    const st_content *base;
} plan_input;

const unsigned char *st_convert_find_ahead(const st_conversion *conversion, const st_worker *worker,
                                           size_t index, uint64_t offset, size_t nbytes)
{
    const uint64_t *const places = conversion->source->places;
    return !places ? NULL : os_window_find(&worker->ahead, places[index] + offset, nbytes);
}

static lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const plan_input *const input = user;
    const st_source *const source = input->conversion->source;
    const unsigned char *const ahead =
        st_convert_find_ahead(input->conversion, input->worker, input->index, offset, nbytes);
    if (ahead) {
        memcpy(dst, ahead, nbytes);
        return LMC_OK;
    }
    return source->read(source, input->index, offset, dst, nbytes, &input->worker->diag);
}

lmc_status st_convert_read_base(const st_conversion *conversion, st_worker *worker, const st_match *match,
                                const st_content *base, uint64_t begin, uint64_t end,
                                const unsigned char **bytes)
{
    const st_source *const source = conversion->source;
    st_base_window *const held = &worker->held;
    if (held->owner == match && begin >= held->begin && end <= held->end) {
        *bytes = held->bytes + (begin - held->begin);
        return LMC_OK;
    }
    held->owner = NULL;
    if (match->link.place == LMC_ST_BASE_FILE) {
        const st_content_room room = {worker->memory, worker->ctx, &worker->base, &worker->content,
                                      &worker->stored};
        ST_TRY(st_content_read(base, &room, begin, end, bytes, &worker->diag));
        *held = (st_base_window){match, begin, end, *bytes};
        return LMC_OK;
    }
    const size_t nbytes = (size_t)(end - begin);
    unsigned char *const room = st_buffer_grow(worker->memory, &worker->base, nbytes);
    *bytes = room;
    return !room ? st_fail_nomem(&worker->diag)
                 : source->read(source, match->link.base, begin, room, nbytes, &worker->diag);
}

/* What is decoded at once for a plan: all of a base that one run codes, else a part that can be decoded alone. */
static uint64_t base_unit(const st_content *base)
{
    const int is_one_run = base->nbytes <= ST_RUN_NBYTES;
    return base->step_count == 0 ? 1 : is_one_run ? base->nbytes : base->unit_nbytes;
}

/* A plan asks for many small pieces: what had to be decoded for one serves the next. */
static lmc_status read_base(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const plan_input *const input = user;
    const uint64_t unit = base_unit(input->base);
    while (nbytes > 0) {
        const unsigned char *bytes;
        const uint64_t begin = offset / unit * unit;
        const uint64_t left = input->base->nbytes - begin;
        const uint64_t end = unit == 1 ? offset + nbytes : begin + (unit < left ? unit : left);
        const size_t length = end - offset < nbytes ? (size_t)(end - offset) : nbytes;
        ST_TRY(st_convert_read_base(input->conversion, input->worker, input->match, input->base, begin, end,
                                    &bytes));
        memcpy(dst, bytes + (offset - begin), length);
        dst = (unsigned char *)dst + length;
        offset += length;
        nbytes -= length;
    }
    return LMC_OK;
}

/* A row has at least so many values: the last dimension, and dimensions before it as long as it has fewer. */
#define ROW_VALUES_MIN 32

static uint32_t row_nbytes(const st_header *header, const st_tensor *tensor)
{
    const unsigned value_nbits = lmc_dtype_nbits((lmc_dtype)tensor->dtype);
    uint64_t values = 1, nbits = 0;
    for (unsigned last = tensor->rank; last > 1 && values < ROW_VALUES_MIN; last--) {
        st_shape shape = st_header_shape(header, tensor);
        uint64_t dimension = 1;
        for (unsigned i = 0; i < last; i++)
            dimension = st_shape_next(&shape);
        if (st_multiply_overflows(values, dimension, &values))
            return 0;
    }
    const int is_small =
        !st_multiply_overflows(values, value_nbits, &nbits) && nbits % 8 == 0 && nbits / 8 <= UINT32_MAX;
    return is_small && tensor->rank > 1 ? (uint32_t)(nbits / 8) : 0;
}

static lmc_status make_plan(const st_conversion *conversion, st_worker *worker, size_t index,
                            const st_match *match, st_convert_item *item)
{
    const st_header *const header = conversion->source->header;
    const st_tensor *const tensor = &header->tensors[index];
    plan_input input = {
        .conversion = conversion, .worker = worker, .index = index, .match = match, .base = &item->base};
    lmc_params params;
    lmc_params_init(&params);
    params.dtype = (lmc_dtype)tensor->dtype;
    params.level = conversion->options->level;
    params.row_nbytes = row_nbytes(header, tensor);
    params.base_form = !match ? LMC_BASE_PLAIN : match->form;
    lmc_ctx *const ctx = st_worker_plan_ctx(worker);
    if (!ctx)
        return LMC_ERR_NOMEM;
    worker->diag.status = LMC_OK;
    const lmc_status status = lmc_plan_create(ctx, &params, tensor->end - tensor->begin, read_content,
                                              !match ? NULL : read_base, &input, &item->plan);
    if (status == LMC_OK || worker->diag.status != LMC_OK)
        return status; /* a failed read has said what happened */
    st_fail_codec(&worker->diag, ctx, status, LMC_ST_NO_OFFSET);
    return st_source_blame(conversion->source, index, status, &worker->diag);
}

/* Opens what the tensor may be coded against. *match: NULL if there is nothing. */
static lmc_status open_match(const st_conversion *conversion, st_worker *worker, size_t index,
                             const st_match **match, st_content *base)
{
    *match = &conversion->matches.list[index];
    worker->held.owner = NULL;
    if (!(*match)->is_there) {
        *match = NULL;
        return LMC_OK;
    }
    if ((*match)->link.place == LMC_ST_BASE_SELF)
        return LMC_OK;
    const st_content_room room = {worker->memory, worker->ctx, &worker->base, &worker->content,
                                  &worker->stored};
    ST_TRY(st_content_open(base, conversion->base, worker->ctx, (*match)->link.base, worker->memory,
                           &worker->diag));
    return st_content_verify(base, &room, &worker->diag);
}

static lmc_status plan_tensor(const st_conversion *conversion, st_worker *worker, size_t index,
                              st_convert_item *item)
{
    ST_TRY(open_match(conversion, worker, index, &item->match, &item->base));
    ST_TRY(make_plan(conversion, worker, index, item->match, item));
    item->info = (lmc_info)LMC_INIT(lmc_info);
    lmc_plan_info(item->plan, &item->info);
    if (item->info.mode != LMC_FRAME_DELTA) {
        st_content_free(&item->base);
        item->match = NULL;
    }
    conversion->is_delta[index] = item->match != NULL;
    return LMC_OK;
}

lmc_status st_convert_prepare(void *user, st_worker *worker, st_slot *slot)
{
    const st_conversion *const conversion = user;
    st_convert_item *const item = st_allocate_zeroed(worker->memory, 1, sizeof *item);
    if (!item)
        return st_fail_nomem(&worker->diag);
    slot->item = item;
    if (st_aliases_owner(&conversion->aliases, slot->index) != slot->index)
        return LMC_OK;
    ST_TRY(plan_tensor(conversion, worker, slot->index, item));
    item->block_bound = lmc_plan_block_bound(item->plan);
    item->entries = st_allocate_zeroed(worker->memory, item->info.block_count + 1, sizeof *item->entries);
    if (!item->entries)
        return st_fail_nomem(&worker->diag);
    slot->block_nbytes = st_content_part_nbytes(&item->base, &item->info);
    slot->block_count = (item->info.content_nbytes + slot->block_nbytes - 1) / slot->block_nbytes;
    slot->content_nbytes = item->info.content_nbytes;
    return LMC_OK;
}

void st_convert_release(void *user, st_slot *slot)
{
    const st_conversion *const conversion = user;
    const lmc_allocator *const memory = conversion->options->allocator;
    st_convert_item *const item = slot->item;
    if (item) {
        lmc_plan_free(item->plan);
        st_content_free(&item->base);
        st_release(memory, item->entries);
        st_release(memory, item);
    }
    slot->item = NULL;
}
