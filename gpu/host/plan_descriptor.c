/* plan_descriptor.c - brings codes, columns and the cut of elements from liblmc's form to that of the kernels. */
#include "gpu/host/plan_descriptor.h"

#include "codec/frame/decode.h"

_Static_assert(sizeof(lmc_cuda_layer) == 80 && sizeof(lmc_cuda_plan) == 72, "one layout on host and device");
_Static_assert(sizeof(lmc_cuda_block) == 40 && sizeof(lmc_cuda_result) == 16,
               "one layout on host and device");

/* Appends nbytes to the data at a multiple of LMC_CUDA_ALIGNMENT; *at is never 0. */
static lmc_status append_data(lmc_cuda_batch *batch, size_t nbytes, uint32_t *at, void **room)
{
    const size_t used = batch->data.nbytes;
    const size_t gap = used == 0 ? LMC_CUDA_ALIGNMENT
                                 : (LMC_CUDA_ALIGNMENT - used % LMC_CUDA_ALIGNMENT) % LMC_CUDA_ALIGNMENT;
    *room = NULL;
    if (used + gap + nbytes > UINT32_MAX)
        return lmc_cuda_fail(&batch->diag, LMC_ERR_LIMIT, 0,
                             "the descriptors of a batch take less than 4 GiB");
    uint8_t *const appended = lmc_cuda_append(batch, &batch->data, gap + nbytes);
    if (!appended)
        return lmc_cuda_fail(&batch->diag, LMC_ERR_NOMEM, 0, "no memory for descriptors");
    *at = (uint32_t)(used + gap);
    *room = appended + gap;
    return LMC_OK;
}

/* A code has n bits if it is not longer than n bits, and no shorter n will do. */
static unsigned continuation_nbits(const lmc_layer *layer)
{
    unsigned nbits = layer->first_nbits;
    while (nbits < layer->last_nbits && layer->continuation >= layer->threshold[nbits])
        nbits++;
    return nbits;
}

static void describe_layer(const lmc_layer *src, lmc_cuda_layer *dst)
{
    memcpy(dst->symbol, src->symbol, sizeof dst->symbol);
    memcpy(dst->threshold, src->threshold, sizeof dst->threshold);
    dst->first_nbits = src->first_nbits;
    dst->last_nbits = src->last_nbits;
    dst->has_continuation = src->has_continuation;
    dst->continuation = src->continuation;
    dst->continuation_nbits = (uint8_t)continuation_nbits(src);
}

static lmc_status describe_table(lmc_cuda_batch *batch, const lmc_table *table, uint32_t *layers_at)
{
    void *room;
    LMC_TRY(append_data(batch, table->layer_count * sizeof(lmc_cuda_layer), layers_at, &room));
    for (unsigned i = 0; i < table->layer_count; i++)
        describe_layer(&table->layers[i], (lmc_cuda_layer *)room + i);
    return LMC_OK;
}

/* Elements of two bytes whose symbols alone are coded, with the lengths that a kernel has as constants. No code may
 * stand for an escape: the kernel looks for them among literals alone. */
static uint8_t choose_kernel(const lmc_coding *coding)
{
    static const struct {
        uint8_t kernel, low_nbits, first_nbits, last_nbits;
    } kinds[] = {{LMC_CUDA_KERNEL_6_3_5, 6, 3, 5}, {LMC_CUDA_KERNEL_8_2_2, 8, 2, 2}};
    const lmc_table *const table = coding->table[LMC_PLANE_SYMBOLS];
    if (coding->element_nbytes != 2 || !coding->split.rotation || !table || coding->offsets.column_count != 0)
        return LMC_CUDA_KERNEL_ANY;
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (coding->split.low_nbits == kinds[i].low_nbits &&
            table->layers[0].first_nbits == kinds[i].first_nbits &&
            table->layers[0].last_nbits == kinds[i].last_nbits &&
            (kinds[i].low_nbits == 8 || !table->is_coded[LMC_FMT_SYMBOL_ESCAPE]))
            return kinds[i].kernel;
    return LMC_CUDA_KERNEL_ANY;
}

static lmc_status describe_coding(lmc_cuda_batch *batch, const lmc_coding *coding, lmc_cuda_plan *plan)
{
    plan->element_nbytes = (uint8_t)coding->element_nbytes;
    plan->rotation = coding->split.rotation;
    plan->low_nbits = coding->split.low_nbits;
    plan->plane_count = (uint8_t)coding->plane_count;
    plan->offset = coding->split.offset;
    plan->window_start = coding->split.window_start;
    plan->has_mask = coding->has_mask;
    plan->mask_value = coding->mask_value;
    plan->column_count = coding->offsets.column_count;
    plan->step_log2 = coding->offsets.step_log2;
    plan->kernel = choose_kernel(coding);
    for (unsigned i = 0; i < coding->plane_count; i++)
        if (coding->table[i]) {
            plan->layer_count[i] = (uint8_t)coding->table[i]->layer_count;
            LMC_TRY(describe_table(batch, coding->table[i], &plan->layers_at[i]));
        }
    if (coding->offsets.columns) {
        const size_t nbytes = coding->offsets.column_count * sizeof coding->offsets.columns[0];
        void *room;
        LMC_TRY(append_data(batch, nbytes, &plan->columns_at, &room));
        memcpy(room, coding->offsets.columns, nbytes);
    }
    return LMC_OK;
}

lmc_status lmc_cuda_describe_plan(lmc_cuda_batch *batch, const lmc_frame *frame, uint32_t *plan_at)
{
    lmc_cuda_plan plan = {
        .mode = (uint8_t)frame->info.mode, .element_nbytes = 1, .kernel = LMC_CUDA_KERNEL_ANY};
    void *room;
    if (frame->info.mode == LMC_FRAME_CODED)
        LMC_TRY(describe_coding(batch, &frame->coding, &plan));
    LMC_TRY(append_data(batch, sizeof plan, plan_at, &room));
    memcpy(room, &plan, sizeof plan);
    return LMC_OK;
}
