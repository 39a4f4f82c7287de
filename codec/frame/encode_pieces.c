/* encode_pieces.c - makes plans and encodes single blocks: the encoding pieces of the public interface. */
#include "codec/frame/encode.h"

#include "codec/common/dtype.h"
#include "codec/delta/delta.h"
#include "codec/delta/delta_plan.h"
#include "codec/narrow/narrow_block.h"
#include "codec/plain/block.h"
#include "common/abi.h"
#include "lmc_experimental.h"

void lmc_params_init_sized(lmc_params *params, size_t struct_size)
{
    const lmc_params defaults = {.struct_size = struct_size};
    memcpy(params, &defaults, sizeof defaults.struct_size);
    if (lmc_struct_is_known(params, sizeof defaults))
        lmc_struct_copy(params, &defaults, struct_size);
}

lmc_status lmc_params_read(const lmc_params *given, lmc_params *params, lmc_diag *diag)
{
    lmc_params_init(params);
    if (!given || !lmc_struct_is_known(given, sizeof *params))
        return lmc_fail(diag, LMC_ERR_ARG, 0, "params are missing, not initialised, or of a newer version");
    lmc_struct_copy(params, given, lmc_struct_size(given));
    if ((unsigned)params->dtype >= LMC_DTYPE_COUNT)
        return lmc_fail(diag, LMC_ERR_ARG, 0, "params: dtype %u", (unsigned)params->dtype);
    if ((unsigned)params->level > LMC_LEVEL_MAX)
        return lmc_fail(diag, LMC_ERR_ARG, 0, "params: level %u", (unsigned)params->level);
    if (params->block_log2 != 0 &&
        (params->block_log2 < LMC_BLOCK_LOG2_MIN || params->block_log2 > LMC_BLOCK_LOG2_MAX))
        return lmc_fail(diag, LMC_ERR_ARG, 0, "params: blocks of 2^%u values", params->block_log2);
    if ((unsigned)params->base_form >= LMC_BASE_FORM_COUNT)
        return lmc_fail(diag, LMC_ERR_ARG, 0, "params: base form %u", (unsigned)params->base_form);
    return LMC_OK;
}

lmc_content lmc_params_content(const lmc_params *params, uint64_t nbytes)
{
    const unsigned element_nbytes = lmc_dtype_element_nbytes(params->dtype);
    const int is_matrix = params->row_nbytes != 0 && params->row_nbytes % element_nbytes == 0 &&
                          nbytes / params->row_nbytes >= LMC_ROW_COUNT_MIN;
    return (lmc_content){.dtype = params->dtype,
                         .level = params->level,
                         .element_nbytes = element_nbytes,
                         .nbytes = nbytes,
                         .value_count = nbytes / element_nbytes,
                         .block_log2 = params->block_log2,
                         .column_count = is_matrix ? params->row_nbytes / element_nbytes : 0,
                         .base_form = params->base_form};
}

void lmc_params_start_info(const lmc_params *params, uint64_t content_nbytes, lmc_frame_mode mode,
                           lmc_info *info)
{
    /* what a block takes beside its planes is felt most where elements are small */
    const unsigned block_log2 =
        lmc_dtype_element_nbytes(params->dtype) == 1 ? LMC_BLOCK_LOG2_DEFAULT_BYTE : LMC_BLOCK_LOG2_DEFAULT;
    memset(info, 0, sizeof *info);
    info->dtype = params->dtype;
    info->mode = mode;
    info->block_log2 = params->block_log2 ? params->block_log2 : block_log2;
    info->row_nbytes = params->row_nbytes;
    info->content_nbytes = content_nbytes;
}

/* ---- plans ---- */

/* Plans narrow elements, and writes the plan section. */
static lmc_status plan_narrow(lmc_ctx *ctx, const lmc_content *content, lmc_plan *plan)
{
    lmc_narrow_work *const work = &ctx->plan_work->narrow;
    const lmc_content elements = lmc_narrow_content(content, &plan->choice, work);
    uint8_t *const section = plan->head + LMC_FMT_HEAD_NBYTES;
    lmc_writer writer = {section, section + LMC_NARROW_FIELDS_NBYTES_MAX};
    lmc_narrow_write(&plan->choice.narrow, &writer);
    const lmc_plan_room room = {plan->tables, &plan->rans, plan->columns, &plan->costs, writer.next};
    LMC_TRY(lmc_decide(&elements, &ctx->plan_work->plain, &room, &plan->decision));
    plan->decision.section_nbytes += (size_t)(writer.next - section);
    plan->decision.is_raw = 0;
    if (elements.element_nbytes == 1)
        plan->decision.block_log2 = LMC_BLOCK_LOG2_DEFAULT_BYTE;
    plan->decision.nbits += plan->choice.side_nbits;
    return LMC_OK;
}

/* A form of narrow elements must save this share of an element's bits. */
#define NARROW_GAIN_MIN 0.002

/* Plans without a base: narrow elements if there are any and they gain enough, else elements as they are. */
static lmc_status plan_alone(lmc_ctx *ctx, const lmc_content *content, lmc_plan *plan)
{
    lmc_plan_work *const work = &ctx->plan_work->plain;
    const lmc_plan_room room = {plan->tables, &plan->rans, plan->columns, &plan->costs,
                                plan->head + LMC_FMT_HEAD_NBYTES};
    LMC_TRY(lmc_narrow_decide(content, &ctx->plan_work->narrow, work->buffer, &plan->choice));
    if (plan->choice.narrow.is_used)
        LMC_TRY(plan_narrow(ctx, content, plan));
    const double narrow_nbits = plan->decision.nbits;
    LMC_TRY(lmc_decide(content, work, &room, &plan->decision));
    if (!plan->choice.narrow.is_used)
        return LMC_OK;
    plan->choice.narrow.is_used = narrow_nbits < (1 - NARROW_GAIN_MIN) * plan->decision.nbits;
    return plan->choice.narrow.is_used ? plan_narrow(ctx, content, plan) : LMC_OK;
}

/* Plans with the base, without it, or both ways, and keeps the better plan. */
static lmc_status choose_plan(lmc_ctx *ctx, const lmc_params *params, const lmc_content *content,
                              lmc_plan *plan)
{
    lmc_delta_decision delta;
    int is_delta = 0;
    if (content->read_base) {
        const lmc_delta_plan_work work = {&ctx->plan_work->delta_sample, ctx->plan_work->plain.buffer};
        LMC_TRY(lmc_delta_decide(content, &work, &delta));
        is_delta = lmc_delta_is_surely_gain(&delta);
    }
    if (!is_delta) {
        LMC_TRY(plan_alone(ctx, content, plan));
        is_delta = content->read_base && lmc_delta_is_gain(&delta, plan->decision.nbits);
    }
    plan->blocks_nbits = (is_delta ? delta.nbits : plan->decision.nbits) * (double)content->value_count;
    if (!is_delta) {
        if (params->block_log2 == 0 && plan->decision.block_log2 != 0)
            plan->info.block_log2 = plan->decision.block_log2;
        return LMC_OK;
    }
    plan->delta = delta.delta;
    plan->choice.narrow.is_used = 0;
    plan->decision.section_nbytes = lmc_delta_write(&delta.delta, plan->head + LMC_FMT_HEAD_NBYTES);
    plan->decision.coding.offsets.column_count = 0;
    plan->info.mode = LMC_FRAME_DELTA;
    plan->info.base_form = params->base_form;
    if (params->block_log2 == 0)
        plan->info.block_log2 = delta.block_log2;
    return LMC_OK;
}

/* Short content of so many bytes that is equal to its base takes less as a delta. */
#define SHORT_SAME_NBYTES_MIN 40

/* Decides everything of a plan but the head. */
static lmc_status fill_plan(lmc_ctx *ctx, const lmc_params *params, const lmc_content *content,
                            lmc_plan *plan)
{
    lmc_params_start_info(params, content->nbytes, LMC_FRAME_CODED, &plan->info);
    int is_short = content->nbytes <= LMC_FMT_SHORT_CONTENT_MAX;
    plan->blocks_nbits = 0;
    if (is_short && content->nbytes >= SHORT_SAME_NBYTES_MIN && content->read_base &&
        content->base_form == LMC_BASE_PLAIN) {
        uint8_t own[LMC_FMT_SHORT_CONTENT_MAX];
        uint8_t base[LMC_FMT_SHORT_CONTENT_MAX];
        lmc_status read = content->read(content->user, 0, own, (size_t)content->nbytes);
        if (read == LMC_OK)
            read = content->read_base(content->user, 0, base, (size_t)content->nbytes);
        if (read != LMC_OK)
            return lmc_fail(&ctx->diag, read, 0, "the content could not be read");
        is_short = memcmp(own, base, (size_t)content->nbytes) != 0;
    }
    if (is_short) {
        plan->info.mode = LMC_FRAME_SHORT;
        lmc_info_complete(&plan->info, 0);
        return LMC_OK;
    }
    LMC_TRY(lmc_ctx_reserve_plan_work(ctx));
    const lmc_status status = choose_plan(ctx, params, content, plan);
    if (status != LMC_OK)
        return lmc_fail(&ctx->diag, status, 0, "the content could not be read");
    lmc_info_complete(&plan->info, plan->decision.section_nbytes);
    if (plan->info.mode == LMC_FRAME_CODED && plan->decision.is_raw &&
        plan->info.block_count == 1) { /* with several blocks the index serves ranges */
        plan->info.mode = LMC_FRAME_STORED;
        lmc_info_complete(&plan->info, 0);
    }
    return LMC_OK;
}

lmc_status lmc_plan_make(lmc_ctx *ctx, const lmc_params *params, const lmc_content *content, lmc_plan **plan)
{
    lmc_diag *const diag = &ctx->diag;
    *plan = NULL;
    if (content->nbytes > LMC_FMT_CONTENT_NBYTES_MAX)
        return lmc_fail(diag, LMC_ERR_ARG, 0, "content of 2^63 bytes or more");
    const lmc_rounding *const rounding = content->read_base ? lmc_base_rounding(content->base_form) : NULL;
    if (rounding) {
        if (content->dtype != rounding->dtype || content->nbytes % 2 != 0)
            return lmc_fail(diag, LMC_ERR_ARG, 0,
                            "params: the base is to be rounded to %s, the content is not",
                            lmc_dtype_name(rounding->dtype));
        if (content->nbytes > LMC_FMT_CONTENT_NBYTES_MAX / rounding->scale)
            return lmc_fail(diag, LMC_ERR_ARG, 0, "a base of 2^63 bytes or more");
    }
    const size_t columns = content->column_count <= LMC_COLUMN_COUNT_MAX ? content->column_count : 0;
    const size_t head_nbytes =
        LMC_FMT_HEAD_NBYTES + lmc_section_nbytes_max(content->column_count) + sizeof(uint64_t);
    lmc_plan *const made =
        lmc_ctx_allocate(ctx, sizeof *made + columns * sizeof made->columns[0] + head_nbytes);
    if (!made)
        return lmc_fail(diag, LMC_ERR_NOMEM, 0, "no memory for a plan");
    memset(&made->decision, 0, sizeof made->decision);
    made->choice.narrow.is_used = 0;
    made->allocator = ctx->allocator;
    made->head = (uint8_t *)&made->columns[columns];
    const lmc_status status = fill_plan(ctx, params, content, made);
    if (status != LMC_OK) {
        lmc_plan_free(made);
        return status;
    }
    const uint32_t features = (made->decision.coding.offsets.column_count > 0 ? LMC_FMT_FEATURE_OFFSETS : 0) |
                              (made->choice.narrow.is_used ? LMC_FMT_FEATURE_NARROW : 0) |
                              (made->decision.coding.rans ? LMC_FMT_FEATURE_RANS : 0);
    lmc_head_write(&made->info, made->info.mode == LMC_FRAME_CODED ? features : 0, made->head);
    *plan = made;
    return LMC_OK;
}

lmc_status lmc_plan_create(lmc_ctx *ctx, const lmc_params *params, uint64_t content_nbytes, lmc_read_fn read,
                           void *user, lmc_plan **plan)
{
    return lmc_plan_create_delta(ctx, params, content_nbytes, read, NULL, user, plan);
}

lmc_status lmc_plan_create_delta(lmc_ctx *ctx, const lmc_params *params, uint64_t content_nbytes,
                                 lmc_read_fn read, lmc_read_fn read_base, void *user, lmc_plan **plan)
{
    if (plan)
        *plan = NULL;
    if (!lmc_ctx_begin(ctx))
        return LMC_ERR_ARG;
    lmc_params known;
    lmc_status status = plan && read ? lmc_params_read(params, &known, &ctx->diag)
                                     : lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    if (status == LMC_OK) {
        lmc_content content = lmc_params_content(&known, content_nbytes);
        content.read = read;
        content.read_base = read_base;
        content.user = user;
        status = lmc_plan_make(ctx, &known, &content, plan);
    }
    return lmc_ctx_end(ctx, status);
}

void lmc_plan_free(lmc_plan *plan)
{
    if (!plan)
        return;
    const lmc_allocator allocator = plan->allocator;
    lmc_release(&allocator, plan);
}

lmc_status lmc_plan_info(const lmc_plan *plan, lmc_info *info)
{
    return lmc_info_give(info, &plan->info);
}

lmc_status lmc_plan_cut(const lmc_plan *plan, lmc_cut *cut)
{
    const lmc_coding *const coding = &plan->decision.coding;
    lmc_cut found = {.is_rotated = 0};
    if (!lmc_struct_is_known(cut, sizeof *cut))
        return LMC_ERR_ARG;
    if (plan->info.mode == LMC_FRAME_CODED && !plan->decision.is_raw && !plan->choice.narrow.is_used)
        found = (lmc_cut){.is_rotated = coding->split.rotation,
                          .high_nbits = lmc_high_nbits(coding->element_nbytes),
                          .low_nbits = coding->split.low_nbits,
                          .offset = coding->split.offset};
    lmc_struct_copy(cut, &found, lmc_struct_size(cut));
    return LMC_OK;
}

uint64_t lmc_plan_estimate(const lmc_plan *plan)
{
    const lmc_info *const info = &plan->info;
    const double blocks_nbytes = plan->blocks_nbits / 8;
    const int is_coded = info->mode == LMC_FRAME_CODED || info->mode == LMC_FRAME_DELTA;
    const int is_smaller = is_coded && blocks_nbytes < (double)info->content_nbytes;
    return info->head_nbytes + info->tail_nbytes +
           (is_smaller ? (uint64_t)blocks_nbytes : info->content_nbytes);
}

size_t lmc_plan_block_bound(const lmc_plan *plan)
{
    return lmc_block_bound(lmc_largest_block_nbytes(&plan->info));
}

/* ---- pieces ---- */

lmc_status lmc_encode_head(const lmc_plan *plan, void *dst, size_t dst_capacity, size_t *dst_nbytes)
{
    if (dst_nbytes)
        *dst_nbytes = 0;
    if (!plan || !dst || !dst_nbytes)
        return LMC_ERR_ARG;
    if (dst_capacity < plan->info.head_nbytes)
        return LMC_ERR_DST_SMALL;
    memcpy(dst, plan->head, plan->info.head_nbytes);
    *dst_nbytes = plan->info.head_nbytes;
    return LMC_OK;
}

lmc_status lmc_plan_reserve(lmc_ctx *ctx, const lmc_plan *plan, size_t src_nbytes)
{
    const unsigned element_nbytes = plan->info.element_nbytes;
    const size_t value_count = (size_t)lmc_div_ceil(src_nbytes, element_nbytes);
    const int has_deltas = plan->info.mode == LMC_FRAME_DELTA;
    if (!has_deltas && (plan->info.mode != LMC_FRAME_CODED || plan->decision.is_raw))
        return LMC_OK;
    if (has_deltas && plan->info.base_form != LMC_BASE_PLAIN)
        LMC_TRY(lmc_ctx_reserve_base_values(ctx, src_nbytes));
    return lmc_ctx_reserve_scratch(
        ctx, &(lmc_scratch_size){value_count, element_nbytes, has_deltas, plan->choice.narrow.is_used});
}

lmc_status lmc_plan_encode_block(lmc_ctx *ctx, const lmc_plan *plan, const lmc_content_block *block,
                                 uint8_t *dst, lmc_block_entry *entry)
{
    const lmc_kernels *const kernels = lmc_kernels_get();
    const lmc_info *const info = &plan->info;
    size_t nbytes;
    LMC_TRY(lmc_plan_reserve(ctx, plan, block->nbytes));
    entry->base_hash = 0;
    if (info->mode == LMC_FRAME_DELTA) {
        const lmc_delta_job job = {.kernels = kernels,
                                   .delta = &plan->delta,
                                   .bucket_code = ctx->bucket_code,
                                   .scratch = &ctx->scratch,
                                   .element_nbytes = info->element_nbytes,
                                   .base_form = info->base_form,
                                   .base_values = ctx->base_values};
        nbytes = lmc_delta_encode(&job, block, dst, &entry->content_hash, &entry->base_hash);
    } else if (info->mode == LMC_FRAME_CODED && !plan->decision.is_raw) {
        const lmc_narrow_coder coder = {
            {kernels, &plan->decision.coding, &ctx->scratch}, &plan->choice.narrow, &plan->choice};
        nbytes = lmc_narrow_block_encode(&coder, block, dst, &entry->content_hash);
    } else if (info->mode == LMC_FRAME_CODED) {
        nbytes = lmc_block_store(kernels, block->src, block->nbytes, dst, &entry->content_hash);
    } else {
        entry->content_hash = kernels->hash(block->src, block->nbytes, 0);
        memcpy(dst, block->src, block->nbytes);
        nbytes = block->nbytes;
    }
    entry->stored_nbytes = (uint32_t)nbytes;
    return LMC_OK;
}

static lmc_status check_block(const lmc_plan *plan, uint64_t block_index, const lmc_content_block *block,
                              size_t base_nbytes, const uint8_t *dst, size_t dst_capacity, lmc_diag *diag)
{
    const size_t bound = lmc_block_bound(block->nbytes);
    if (!plan || !block->src || !dst)
        return lmc_fail(diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    if (block_index >= plan->info.block_count ||
        block->nbytes != lmc_block_content_nbytes(&plan->info, block_index))
        return lmc_fail(diag, LMC_ERR_ARG, 0, "no block %llu of %zu bytes", (unsigned long long)block_index,
                        block->nbytes);
    if (dst_capacity < bound)
        return lmc_fail(diag, LMC_ERR_DST_SMALL, 0, "a block asks for %zu bytes of room", bound);
    LMC_TRY(lmc_check_apart("the content", block->src, block->nbytes, dst, bound, diag));
    if (plan->info.mode != LMC_FRAME_DELTA)
        return LMC_OK;
    if (!block->base)
        return lmc_fail(diag, LMC_ERR_BASE, 0, "the plan was made with a base");
    return lmc_base_check(plan->info.base_form, block->nbytes, block->base, base_nbytes, dst, bound, diag);
}

lmc_status lmc_encode_block(lmc_ctx *ctx, const lmc_plan *plan, uint64_t block_index, const void *src,
                            size_t src_nbytes, void *dst, size_t dst_capacity, lmc_block_entry *entry)
{
    return lmc_encode_delta_block(ctx, plan, block_index, src, src_nbytes, NULL, 0, dst, dst_capacity, entry);
}

lmc_status lmc_encode_delta_block(lmc_ctx *ctx, const lmc_plan *plan, uint64_t block_index, const void *src,
                                  size_t src_nbytes, const void *base, size_t base_nbytes, void *dst,
                                  size_t dst_capacity, lmc_block_entry *entry)
{
    lmc_content_block block = {.src = src, .nbytes = src_nbytes, .base = base};
    if (entry)
        memset(entry, 0, sizeof *entry);
    if (!lmc_ctx_begin(ctx))
        return LMC_ERR_ARG;
    lmc_status status =
        entry ? check_block(plan, block_index, &block, base_nbytes, dst, dst_capacity, &ctx->diag)
              : lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    if (status == LMC_OK) {
        block.first = block_index << plan->info.block_log2;
        status = lmc_plan_encode_block(ctx, plan, &block, dst, entry);
    }
    return lmc_ctx_end(ctx, status);
}

lmc_status lmc_encode_tail(const lmc_plan *plan, const lmc_block_entry *entries, uint64_t entry_count,
                           void *dst, size_t dst_capacity, size_t *dst_nbytes)
{
    if (dst_nbytes)
        *dst_nbytes = 0;
    if (!plan || (!entries && entry_count > 0) || !dst || !dst_nbytes ||
        entry_count != plan->info.block_count)
        return LMC_ERR_ARG;
    if (dst_capacity < plan->info.tail_nbytes)
        return LMC_ERR_DST_SMALL;
    lmc_tail_write(&plan->info, plan->head, entries, entry_count, dst);
    *dst_nbytes = (size_t)plan->info.tail_nbytes;
    return LMC_OK;
}
