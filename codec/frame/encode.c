/* encode.c - makes plans and encodes single blocks: the encoding pieces of the public interface. */
#include "codec/frame/encode.h"

#include "codec/common/abi.h"
#include "codec/common/dtype.h"
#include "codec/delta/base_values.h"
#include "codec/delta/delta.h"
#include "codec/delta/delta_plan.h"
#include "codec/delta/delta_plan_section.h"
#include "codec/frame/index.h"
#include "codec/plain/block.h"

void lmc_params_init_sized(lmc_params *params, size_t struct_size)
{
    const lmc_params defaults = {.struct_size = struct_size, .thread_count = 1};
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
    if (params->thread_count > LMC_THREAD_COUNT_MAX)
        return lmc_fail(diag, LMC_ERR_ARG, 0, "params: %u threads", params->thread_count);
    if ((unsigned)params->base_form > LMC_BASE_BF16_OF_F32)
        return lmc_fail(diag, LMC_ERR_ARG, 0, "params: base form %u", (unsigned)params->base_form);
    return LMC_OK;
}

uint32_t lmc_params_column_count(const lmc_params *params, uint64_t content_nbytes)
{
    const unsigned element_nbytes = lmc_dtype_element_nbytes(params->dtype);
    const int is_matrix = params->row_nbytes != 0 && params->row_nbytes % element_nbytes == 0 &&
                          content_nbytes / params->row_nbytes >= LMC_ROW_COUNT_MIN;
    return is_matrix ? params->row_nbytes / element_nbytes : 0;
}

/* What a block takes beside its planes is felt most where elements are small. */
static unsigned default_block_log2(lmc_dtype dtype)
{
    return lmc_dtype_element_nbytes(dtype) == 1 ? LMC_BLOCK_LOG2_DEFAULT_BYTE : LMC_BLOCK_LOG2_DEFAULT;
}

void lmc_params_start_info(const lmc_params *params, uint64_t content_nbytes, lmc_frame_mode mode,
                           lmc_info *info)
{
    memset(info, 0, sizeof *info);
    info->dtype = params->dtype;
    info->mode = mode;
    info->block_log2 = params->block_log2 ? params->block_log2 : default_block_log2(params->dtype);
    info->row_nbytes = params->row_nbytes;
    info->content_nbytes = content_nbytes;
}

/* ---- plans ---- */

/* The content, and the base if there is one. */
typedef struct plan_input {
    lmc_read_fn read, read_base;
    void *user;
} plan_input;

static void use_delta(const lmc_params *params, const lmc_delta_decision *decision, lmc_plan *plan)
{
    plan->delta = decision->delta;
    plan->decision.section_nbytes = lmc_delta_write(&decision->delta, plan->head + LMC_FMT_HEAD_NBYTES);
    plan->decision.coding.offsets.column_count = 0;
    plan->info.mode = LMC_FRAME_DELTA;
    plan->info.base_form = params->base_form;
    if (params->block_log2 == 0)
        plan->info.block_log2 = decision->block_log2;
}

/* Plans with the base, without it, or both ways, and keeps the better plan. */
static lmc_status choose_plan(lmc_ctx *ctx, const lmc_params *params, const plan_input *input, lmc_plan *plan)
{
    const uint64_t content_nbytes = plan->info.content_nbytes;
    lmc_delta_decision delta;
    if (input->read_base) {
        const lmc_delta_input delta_input = {.dtype = params->dtype,
                                             .base_form = params->base_form,
                                             .content_nbytes = content_nbytes,
                                             .read = input->read,
                                             .read_base = input->read_base,
                                             .user = input->user};
        const lmc_delta_plan_work work = {&ctx->plan_work->delta_sample, ctx->plan_work->plain.buffer};
        LMC_TRY(lmc_delta_decide(&delta_input, &work, &delta));
        if (lmc_delta_is_surely_gain(&delta)) {
            use_delta(params, &delta, plan);
            return LMC_OK;
        }
    }
    const lmc_plan_input plain = {.dtype = params->dtype,
                                  .level = params->level,
                                  .content_nbytes = content_nbytes,
                                  .column_count = lmc_params_column_count(params, content_nbytes),
                                  .read = input->read,
                                  .user = input->user};
    const lmc_plan_room room = {plan->tables, plan->columns, plan->head + LMC_FMT_HEAD_NBYTES};
    LMC_TRY(lmc_decide(&plain, &ctx->plan_work->plain, &room, &plan->decision));
    if (input->read_base && lmc_delta_is_gain(&delta, plan->decision.nbits))
        use_delta(params, &delta, plan);
    return LMC_OK;
}

static lmc_status decide_plan(lmc_ctx *ctx, const lmc_params *params, const plan_input *input, lmc_plan *plan)
{
    const uint64_t content_nbytes = plan->info.content_nbytes;
    if (content_nbytes <= LMC_FMT_SHORT_CONTENT_MAX) {
        plan->info.mode = LMC_FRAME_SHORT;
        lmc_info_complete(&plan->info, 0);
        return LMC_OK;
    }
    LMC_TRY(lmc_ctx_reserve_plan_work(ctx));
    const lmc_status status = choose_plan(ctx, params, input, plan);
    if (status != LMC_OK)
        return lmc_fail(&ctx->diag, status, 0, "the content could not be read");
    lmc_info_complete(&plan->info, plan->decision.section_nbytes);
    if (plan->info.mode == LMC_FRAME_DELTA)
        return LMC_OK;
    if (plan->decision.is_raw &&
        plan->info.block_count == 1) { /* with several blocks the index serves ranges */
        plan->info.mode = LMC_FRAME_STORED;
        lmc_info_complete(&plan->info, 0);
    }
    return LMC_OK;
}

/* With room for the columns' offsets and for the head. */
static lmc_plan *allocate_plan(lmc_ctx *ctx, uint32_t column_count)
{
    const size_t columns = column_count <= LMC_COLUMN_COUNT_MAX ? column_count : 0;
    const size_t head_nbytes = LMC_FMT_HEAD_NBYTES + lmc_section_nbytes_max(column_count) + sizeof(uint64_t);
    lmc_plan *const plan =
        lmc_ctx_allocate(ctx, sizeof *plan + columns * sizeof plan->columns[0] + head_nbytes);
    if (!plan)
        return NULL;
    memset(&plan->decision, 0, sizeof plan->decision);
    plan->allocator = ctx->allocator;
    plan->head = (uint8_t *)&plan->columns[columns];
    return plan;
}

static lmc_status check_base(const lmc_params *params, uint64_t content_nbytes, lmc_diag *diag)
{
    if (params->base_form != LMC_BASE_BF16_OF_F32)
        return LMC_OK;
    if (params->dtype != LMC_DTYPE_BF16 || content_nbytes % 2 != 0)
        return lmc_fail(diag, LMC_ERR_ARG, 0,
                        "params: the base is to be rounded to BF16, the content is not");
    if (content_nbytes > LMC_FMT_CONTENT_NBYTES_MAX / 2)
        return lmc_fail(diag, LMC_ERR_ARG, 0, "a base of 2^63 bytes or more");
    return LMC_OK;
}

lmc_status lmc_plan_make(lmc_ctx *ctx, const lmc_params *params, uint64_t content_nbytes, lmc_read_fn read,
                         lmc_read_fn read_base, void *user, lmc_plan **plan)
{
    const plan_input input = {read, read_base, user};
    *plan = NULL;
    if (content_nbytes > LMC_FMT_CONTENT_NBYTES_MAX)
        return lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "content of 2^63 bytes or more");
    if (read_base)
        LMC_TRY(check_base(params, content_nbytes, &ctx->diag));
    lmc_plan *const made = allocate_plan(ctx, lmc_params_column_count(params, content_nbytes));
    if (!made)
        return lmc_fail(&ctx->diag, LMC_ERR_NOMEM, 0, "no memory for a plan");
    lmc_params_start_info(params, content_nbytes, LMC_FRAME_CODED, &made->info);
    const lmc_status status = decide_plan(ctx, params, &input, made);
    if (status != LMC_OK) {
        lmc_plan_free(made);
        return status;
    }
    const int has_offsets =
        made->info.mode == LMC_FRAME_CODED && made->decision.coding.offsets.column_count > 0;
    lmc_head_write(&made->info, has_offsets ? LMC_FMT_FEATURE_OFFSETS : 0, made->head);
    *plan = made;
    return LMC_OK;
}

lmc_status lmc_plan_create(lmc_ctx *ctx, const lmc_params *params, uint64_t content_nbytes, lmc_read_fn read,
                           lmc_read_fn read_base, void *user, lmc_plan **plan)
{
    if (plan)
        *plan = NULL;
    if (!lmc_ctx_begin(ctx))
        return LMC_ERR_ARG;
    lmc_params known;
    lmc_status status = plan && read ? lmc_params_read(params, &known, &ctx->diag)
                                     : lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    if (status == LMC_OK)
        status = lmc_plan_make(ctx, &known, content_nbytes, read, read_base, user, plan);
    return lmc_ctx_end(ctx, status);
}

void lmc_plan_free(lmc_plan *plan)
{
    if (!plan)
        return;
    const lmc_allocator allocator = plan->allocator;
    lmc_release(&allocator, plan);
}

void lmc_plan_info(const lmc_plan *plan, lmc_info *info)
{
    lmc_info_give(info, &plan->info);
}

int lmc_plan_cut(const lmc_plan *plan, lmc_cut *cut)
{
    const lmc_coding *const coding = &plan->decision.coding;
    if (plan->info.mode != LMC_FRAME_CODED || plan->decision.is_raw || !lmc_struct_is_known(cut, sizeof *cut))
        return 0;
    const lmc_cut found = {.is_rotated = coding->split.rotation,
                           .high_nbits = lmc_coding_high_nbits(coding),
                           .low_nbits = coding->split.low_nbits,
                           .offset = coding->split.offset};
    lmc_struct_copy(cut, &found, lmc_struct_size(cut));
    return 1;
}

size_t lmc_plan_block_bound(const lmc_plan *plan)
{
    return lmc_block_bound((size_t)lmc_min_u64(plan->info.block_nbytes, plan->info.content_nbytes));
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
    return lmc_ctx_reserve_scratch(ctx, &(lmc_scratch_size){value_count, element_nbytes, has_deltas});
}

static void encode_delta(lmc_ctx *ctx, const lmc_plan *plan, const lmc_content_block *block, uint8_t *dst,
                         lmc_block_entry *entry)
{
    const lmc_delta_job job = {.kernels = lmc_kernels_get(),
                               .delta = &plan->delta,
                               .bucket_code = ctx->bucket_code,
                               .scratch = &ctx->scratch,
                               .element_nbytes = plan->info.element_nbytes,
                               .base_form = plan->info.base_form,
                               .base_values = ctx->base_values};
    entry->stored_nbytes = (uint32_t)lmc_delta_encode(&job, block->src, block->base, block->src_nbytes, dst,
                                                      &entry->content_hash, &entry->base_hash);
}

/* Encodes a block of a frame without a base. Returns its bytes. */
static size_t encode_plain(lmc_ctx *ctx, const lmc_plan *plan, const lmc_content_block *block, uint8_t *dst,
                           uint64_t *content_hash)
{
    const lmc_kernels *const kernels = lmc_kernels_get();
    const lmc_block_coder coder = {kernels, &plan->decision.coding, &ctx->scratch,
                                   block->index << plan->info.block_log2, block->ahead_nbytes};
    if (plan->info.mode != LMC_FRAME_CODED) {
        *content_hash = kernels->hash(block->src, block->src_nbytes, 0);
        memcpy(dst, block->src, block->src_nbytes);
        return block->src_nbytes;
    }
    if (plan->decision.is_raw)
        return lmc_block_store(kernels, block->src, block->src_nbytes, dst, content_hash);
    return lmc_block_encode(&coder, block->src, block->src_nbytes, dst, content_hash);
}

lmc_status lmc_plan_encode_block(lmc_ctx *ctx, const lmc_plan *plan, const lmc_content_block *block,
                                 uint8_t *dst, lmc_block_entry *entry)
{
    LMC_TRY(lmc_plan_reserve(ctx, plan, block->src_nbytes));
    if (plan->info.mode == LMC_FRAME_DELTA) {
        encode_delta(ctx, plan, block, dst, entry);
        return LMC_OK;
    }
    entry->stored_nbytes = (uint32_t)encode_plain(ctx, plan, block, dst, &entry->content_hash);
    entry->base_hash = 0;
    return LMC_OK;
}

/* The input of lmc_encode_block(). */
typedef struct block_input {
    const uint8_t *src;
    size_t src_nbytes;
    const uint8_t *base;
    size_t base_nbytes;
} block_input;

static lmc_status check_block(const lmc_plan *plan, uint64_t block_index, const block_input *input,
                              const uint8_t *dst, size_t dst_capacity, lmc_diag *diag)
{
    const size_t bound = lmc_block_bound(input->src_nbytes);
    if (!plan || !input->src || !dst || (!input->base && plan->info.mode == LMC_FRAME_DELTA))
        return lmc_fail(diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    if (block_index >= plan->info.block_count ||
        input->src_nbytes != lmc_block_content_nbytes(&plan->info, block_index))
        return lmc_fail(diag, LMC_ERR_ARG, 0, "no block %llu of %zu bytes", (unsigned long long)block_index,
                        input->src_nbytes);
    if (dst_capacity < bound)
        return lmc_fail(diag, LMC_ERR_DST_SMALL, 0, "a block asks for %zu bytes of room", bound);
    LMC_TRY(lmc_check_apart("the content", input->src, input->src_nbytes, dst, bound, diag));
    if (plan->info.mode != LMC_FRAME_DELTA)
        return LMC_OK;
    return lmc_base_check(plan->info.base_form, input->src_nbytes, input->base, input->base_nbytes, dst,
                          bound, diag);
}

lmc_status lmc_encode_block(lmc_ctx *ctx, const lmc_plan *plan, uint64_t block_index, const void *src,
                            size_t src_nbytes, const void *base, size_t base_nbytes, void *dst,
                            size_t dst_capacity, lmc_block_entry *entry)
{
    const block_input input = {src, src_nbytes, base, base_nbytes};
    if (entry)
        memset(entry, 0, sizeof *entry);
    if (!lmc_ctx_begin(ctx))
        return LMC_ERR_ARG;
    lmc_status status = entry ? check_block(plan, block_index, &input, dst, dst_capacity, &ctx->diag)
                              : lmc_fail(&ctx->diag, LMC_ERR_ARG, 0, "a required pointer is NULL");
    if (status == LMC_OK)
        status = lmc_plan_encode_block(
            ctx, plan,
            &(lmc_content_block){.index = block_index, .src = src, .src_nbytes = src_nbytes, .base = base},
            dst, entry);
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
