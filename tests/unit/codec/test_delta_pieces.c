/* test_delta_pieces.c - frames with a base block by block: the same bytes as whole ones, blocks in any order, hashes
 * of base and content, errors of each call, and reads that fail. */
#include "lmc_test_data.h"

#include "lmc_test_base.h"

#define CONTENT_MAX 400000
#define BLOCKS_MAX 512

static base_bed bed;

/* Reads content and base; counts, and fails when told to. */
typedef struct reads {
    size_t content_nbytes, base_nbytes;
    unsigned count, failing; /* reads of both; the first one that fails, 0: none */
    unsigned base_count;
    int outside;
} reads;

static lmc_status read_any(reads *r, const uint8_t *src, size_t src_nbytes, uint64_t offset, void *dst,
                           size_t nbytes)
{
    if (++r->count == r->failing)
        return LMC_ERR_IO;
    if (offset > src_nbytes || nbytes > src_nbytes - offset) {
        r->outside = 1;
        return LMC_ERR_IO;
    }
    memcpy(dst, src + offset, nbytes);
    return LMC_OK;
}

static lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    reads *const r = user;
    return read_any(r, bed.content, r->content_nbytes, offset, dst, nbytes);
}

static lmc_status read_base(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    reads *const r = user;
    r->base_count++;
    return read_any(r, bed.base, r->base_nbytes, offset, dst, nbytes);
}

static lmc_status make_plan(const lmc_params *params, size_t nbytes, unsigned failing, reads *r,
                            lmc_plan **plan)
{
    const size_t base_nbytes = lmc_base_scale(params->base_form) * nbytes;
    *r = (reads){.content_nbytes = nbytes, .base_nbytes = base_nbytes, .failing = failing};
    const lmc_status status =
        lmc_plan_create_delta(bed.ctx, params, nbytes, read_content, read_base, r, plan);
    CU_ASSERT(!r->outside);
    CU_ASSERT_EQUAL(status == LMC_OK, *plan != NULL);
    return status;
}

static lmc_plan *must_plan(const lmc_params *params, size_t nbytes)
{
    reads r;
    lmc_plan *plan = NULL;
    CU_ASSERT_EQUAL_FATAL(make_plan(params, nbytes, 0, &r, &plan), LMC_OK);
    CU_ASSERT(r.base_count > 0);
    return plan;
}

/* ---- the same as whole frames ---- */

/* Encodes blocks from the last to the first; content and base of each end at a guard page. */
static test_frame encode_in_pieces(const lmc_plan *plan)
{
    lmc_info info = LMC_INIT(lmc_info);
    lmc_block_entry entries[BLOCKS_MAX];
    static uint8_t *blocks[BLOCKS_MAX];
    CU_ASSERT_EQUAL(lmc_plan_info(plan, &info), LMC_OK);
    CU_ASSERT_FATAL(info.block_count <= BLOCKS_MAX);
    const size_t bound = lmc_plan_block_bound(plan);
    const size_t scale = info.base_block_nbytes / info.block_nbytes;
    test_frame frame = {
        must_malloc(info.head_nbytes + info.content_nbytes + info.block_count + info.tail_nbytes), 0};
    for (size_t i = info.block_count; i-- > 0;) {
        const size_t n = lmc_block_content_nbytes(&info, i);
        uint8_t *const dst = guarded_end(&bed.deep->block, bound);
        const uint8_t *const src = guarded_copy(&bed.deep->source, bed.content + i * info.block_nbytes, n);
        const uint8_t *const base =
            guarded_copy(&bed.deep->base, bed.base + i * info.base_block_nbytes, n * scale);
        CU_ASSERT_EQUAL_FATAL(
            lmc_encode_delta_block(bed.ctx, plan, i, src, n, base, n * scale, dst, bound, &entries[i]),
            LMC_OK);
        CU_ASSERT_FATAL(entries[i].stored_nbytes >= 1 && entries[i].stored_nbytes <= n + 1);
        CU_ASSERT_EQUAL(entries[i].content_hash, lmc_kernels_get()->hash(src, n, 0));
        CU_ASSERT_EQUAL(entries[i].base_hash, lmc_kernels_get()->hash(base, n * scale, 0));
        blocks[i] = must_malloc(entries[i].stored_nbytes);
        memcpy(blocks[i], dst, entries[i].stored_nbytes);
    }
    size_t nbytes;
    CU_ASSERT_EQUAL_FATAL(lmc_encode_head(plan, frame.bytes, info.head_nbytes, &nbytes), LMC_OK);
    frame.nbytes = nbytes;
    for (size_t i = 0; i < info.block_count; i++) {
        memcpy(frame.bytes + frame.nbytes, blocks[i], entries[i].stored_nbytes);
        frame.nbytes += entries[i].stored_nbytes;
        free(blocks[i]);
    }
    uint8_t *const tail = frame.bytes + frame.nbytes;
    CU_ASSERT_EQUAL_FATAL(
        lmc_encode_tail(plan, entries, info.block_count, tail, (size_t)info.tail_nbytes, &nbytes), LMC_OK);
    CU_ASSERT_EQUAL(nbytes, info.tail_nbytes);
    frame.nbytes += nbytes;
    return frame;
}

static lmc_frame *must_open(const test_frame *frame)
{
    lmc_info info = LMC_INIT(lmc_info);
    lmc_frame *opened = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame->bytes, frame->nbytes, &info, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_create(bed.ctx, frame->bytes, info.head_nbytes,
                                           frame->bytes + frame->nbytes - info.tail_nbytes,
                                           (size_t)info.tail_nbytes, frame->nbytes, &opened),
                          LMC_OK);
    return opened;
}

/* Decodes blocks, not in order, each with its part of the base. */
static void decode_in_pieces(const test_frame *frame)
{
    lmc_info info = LMC_INIT(lmc_info);
    lmc_block_entry entries[BLOCKS_MAX];
    lmc_frame *const opened = must_open(frame);
    CU_ASSERT_EQUAL(lmc_frame_info(opened, &info), LMC_OK);
    const size_t scale = info.base_block_nbytes / info.block_nbytes;
    for (size_t k = 0; k < info.block_count; k++) {
        const size_t i = (k + info.block_count / 2) % info.block_count;
        uint64_t offset;
        size_t stored_nbytes, n;
        lmc_block_entry *const entry = &entries[i];
        CU_ASSERT_EQUAL_FATAL(lmc_frame_block(opened, i, &offset, &stored_nbytes, &n), LMC_OK);
        const uint8_t *const stored = guarded_copy(&bed.deep->block, frame->bytes + offset, stored_nbytes);
        const uint8_t *const base =
            guarded_copy(&bed.deep->base, bed.base + i * info.base_block_nbytes, n * scale);
        uint8_t *const dst = guarded_end(&bed.deep->target, n);
        CU_ASSERT_EQUAL(
            lmc_decode_delta_block(bed.ctx, opened, i, stored, stored_nbytes, base, n * scale, dst, n, entry),
            LMC_OK);
        CU_ASSERT_EQUAL(memcmp(dst, bed.content + i * info.block_nbytes, n), 0);
        CU_ASSERT_EQUAL(entry->stored_nbytes, stored_nbytes);
        CU_ASSERT_EQUAL(entry->base_hash, lmc_kernels_get()->hash(base, n * scale, 0));
    }
    CU_ASSERT_EQUAL(lmc_content_hash(entries, info.block_count), lmc_frame_content_hash(opened));
    CU_ASSERT_EQUAL(lmc_base_hash(entries, info.block_count), lmc_frame_base_hash(opened));
    lmc_frame_free(opened);
}

LMC_TEST(test_pieces_equal_whole)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_F8_E4M3, LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_I64,
                                       LMC_DTYPE_F64};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (unsigned i = 0; i < 8; i++) {
            const lmc_params params = frame_params(dtypes[d], LMC_LEVEL_DEFAULT, i % 4 ? 9 + i : 0);
            const size_t nbytes = 20000 + random_below(i == 1 ? 100000 : CONTENT_MAX - 20000);
            data_fill(bed.base, nbytes, dtypes[d], DATA_WEIGHTS);
            base_change(bed.content, bed.base, nbytes, dtypes[d], i % 2 ? 0.2 : 0.003, 2);
            lmc_plan *const plan = must_plan(&params, nbytes);
            test_frame whole = base_encode(&bed, &params, bed.content, nbytes, bed.base);
            test_frame pieces = encode_in_pieces(plan);
            CU_ASSERT(frames_are_equal(&whole, &pieces));
            decode_in_pieces(&pieces);
            lmc_plan_free(plan);
            frame_free(&whole);
            frame_free(&pieces);
        }
    }
}

LMC_TEST(test_rounded_pieces)
{
    lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 11);
    const size_t nbytes = 100002;
    params.base_form = LMC_BASE_BF16_OF_F32;
    data_fill(bed.base, 2 * nbytes, LMC_DTYPE_F32, DATA_WEIGHTS);
    for (size_t i = 0; i < nbytes / 2; i++)
        lmc_store16(bed.content + 2 * i,
                    (uint16_t)(lmc_round_to_bf16(lmc_load32(bed.base + 4 * i)) + !random_below(99)));
    lmc_plan *const plan = must_plan(&params, nbytes);
    test_frame whole = base_encode(&bed, &params, bed.content, nbytes, bed.base);
    test_frame pieces = encode_in_pieces(plan);
    CU_ASSERT(frames_are_equal(&whole, &pieces));
    decode_in_pieces(&pieces);
    lmc_plan_free(plan);
    frame_free(&whole);
    frame_free(&pieces);
}

/* In pieces a frame cannot be taken back: every block takes a byte more than its content at most. */
LMC_TEST(test_noise_in_pieces)
{
    const lmc_params params = frame_params(LMC_DTYPE_F32, LMC_LEVEL_DEFAULT, 10);
    const size_t nbytes = 200001;
    data_fill(bed.base, nbytes, LMC_DTYPE_F32, DATA_WEIGHTS);
    base_change(bed.content, bed.base, nbytes, LMC_DTYPE_F32, 0.1, 2);
    lmc_plan *const plan = must_plan(&params, nbytes);
    random_fill(bed.content, nbytes);
    test_frame pieces = encode_in_pieces(plan);
    lmc_info info = LMC_INIT(lmc_info);
    CU_ASSERT_EQUAL(lmc_plan_info(plan, &info), LMC_OK);
    CU_ASSERT(pieces.nbytes <= nbytes + info.head_nbytes + info.tail_nbytes + info.block_count);
    decode_in_pieces(&pieces);
    lmc_plan_free(plan);
    frame_free(&pieces);
}

/* ---- reads that fail ---- */

LMC_TEST(test_read_fails)
{
    static const size_t sizes[] = {100, 256, 3000, CONTENT_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int form = 0; form < 2; form++) {
            lmc_params params = frame_params(LMC_DTYPE_BF16, (lmc_level)(s % 3), 0);
            reads r;
            lmc_plan *plan = NULL;
            params.base_form = (lmc_base_form)form;
            data_fill(bed.base, 2 * sizes[s], LMC_DTYPE_BF16, DATA_WEIGHTS);
            base_change(bed.content, bed.base, sizes[s], LMC_DTYPE_BF16, 0.01, 2);
            CU_ASSERT_EQUAL_FATAL(make_plan(&params, sizes[s], 0, &r, &plan), LMC_OK);
            lmc_plan_free(plan);
            const unsigned count = r.count;
            for (unsigned failing = 1; failing <= count; failing += count > 200 && failing > 5 ? 17 : 1) {
                CU_ASSERT_EQUAL(make_plan(&params, sizes[s], failing, &r, &plan), LMC_ERR_IO);
                CU_ASSERT_EQUAL(lmc_ctx_diag(bed.ctx)->status, LMC_ERR_IO);
                CU_ASSERT_EQUAL(r.count, failing); /* nothing more is asked for */
            }
        }
    }
}

/* ---- arguments ---- */

LMC_TEST(test_encode_arguments)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    lmc_params rounded = params;
    static uint8_t room[8192];
    lmc_info info = LMC_INIT(lmc_info);
    lmc_block_entry entry = {1, 1, 1};
    reads r = {.content_nbytes = 5001, .base_nbytes = 10002};
    size_t n = 9;
    data_fill(bed.base, 20000, LMC_DTYPE_BF16, DATA_WEIGHTS);
    base_change(bed.content, bed.base, 5000, LMC_DTYPE_BF16, 0.1, 2);
    lmc_plan *const plan = must_plan(&params, 5000);
    lmc_plan *other = plan;
    CU_ASSERT_EQUAL(lmc_plan_info(plan, &info), LMC_OK);
    CU_ASSERT_EQUAL(info.mode, LMC_FRAME_DELTA);
    CU_ASSERT_EQUAL(info.base_nbytes, 5000);
    CU_ASSERT_EQUAL(info.base_block_nbytes, 2048);
    CU_ASSERT_EQUAL(info.tail_nbytes, 3 * 20 + 8);
    CU_ASSERT_EQUAL(lmc_encode_block(bed.ctx, plan, 0, bed.content, 2048, room, sizeof room, &entry),
                    LMC_ERR_BASE);
    CU_ASSERT_EQUAL(entry.stored_nbytes, 0);
    CU_ASSERT_EQUAL(lmc_ctx_diag(bed.ctx)->status, LMC_ERR_BASE);
    CU_ASSERT_EQUAL(lmc_encode_delta_block(bed.ctx, plan, 0, bed.content, 2047, bed.base, 2048, room,
                                           sizeof room, &entry),
                    LMC_ERR_ARG);
    CU_ASSERT_EQUAL(
        lmc_encode_delta_block(bed.ctx, plan, 3, bed.content, 904, bed.base, 2048, room, sizeof room, &entry),
        LMC_ERR_ARG);
    CU_ASSERT_EQUAL(
        lmc_encode_delta_block(bed.ctx, plan, 0, bed.content, 2048, bed.base, 2048, room, 2048, &entry),
        LMC_ERR_DST_SMALL);
    CU_ASSERT_EQUAL(lmc_encode_delta_block(bed.ctx, plan, 2, bed.content + 4096, 904, bed.base + 4096, 904,
                                           room, lmc_plan_block_bound(plan), &entry),
                    LMC_OK);
    CU_ASSERT_EQUAL(lmc_encode_tail(plan, &entry, 1, room, sizeof room, &n), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(n, 0);
    lmc_plan_free(plan);
    rounded.base_form = LMC_BASE_BF16_OF_F32;
    CU_ASSERT_EQUAL(lmc_plan_create_delta(bed.ctx, &rounded, 5001, read_content, read_base, &r, &other),
                    LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(other);
    CU_ASSERT_EQUAL(
        lmc_plan_create_delta(bed.ctx, &rounded, UINT64_MAX / 2 - 1, read_content, read_base, &r, &other),
        LMC_ERR_ARG);
    rounded.dtype = LMC_DTYPE_F16;
    CU_ASSERT_EQUAL(lmc_plan_create_delta(bed.ctx, &rounded, 5000, read_content, read_base, &r, &other),
                    LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_plan_create(bed.ctx, &rounded, 5000, read_content, &r, &other), LMC_OK);
    CU_ASSERT_EQUAL(r.base_count, 0);
    lmc_plan_free(other);
}

LMC_TEST(test_decode_arguments)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    lmc_block_entry entry = {1, 1, 1};
    uint8_t dst[2048];
    uint64_t offset;
    size_t stored, n;
    data_fill(bed.base, 5000, LMC_DTYPE_BF16, DATA_WEIGHTS);
    base_change(bed.content, bed.base, 5000, LMC_DTYPE_BF16, 0.1, 2);
    test_frame frame = base_encode(&bed, &params, bed.content, 5000, bed.base);
    lmc_frame *const f = must_open(&frame);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_block(f, 1, &offset, &stored, &n), LMC_OK);
    const uint8_t *const block = frame.bytes + offset;
    CU_ASSERT_NOT_EQUAL(lmc_frame_base_hash(f), 0);
    CU_ASSERT_EQUAL(lmc_decode_block(bed.ctx, f, 1, block, stored, dst, 2048, &entry), LMC_ERR_BASE);
    CU_ASSERT_EQUAL(entry.stored_nbytes, 0);
    CU_ASSERT_EQUAL(lmc_ctx_diag(bed.ctx)->status, LMC_ERR_BASE);
    CU_ASSERT_EQUAL(lmc_decode_delta_block(bed.ctx, f, 1, block, stored, bed.base, 2048, dst, 2048, &entry),
                    LMC_ERR_BASE);
    CU_ASSERT_EQUAL(entry.base_hash, 0);
    CU_ASSERT_EQUAL(
        lmc_decode_delta_block(bed.ctx, f, 1, block, stored, bed.base + 2048, 2048, dst, 2047, &entry),
        LMC_ERR_DST_SMALL);
    CU_ASSERT_EQUAL(
        lmc_decode_delta_block(bed.ctx, f, 1, block, stored + 1, bed.base + 2048, 2048, dst, 2048, &entry),
        LMC_ERR_ARG);
    CU_ASSERT_EQUAL(
        lmc_decode_delta_block(bed.ctx, f, 1, block, stored, bed.base + 2048, 2048, dst, 2048, NULL), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(dst, bed.content + 2048, 2048), 0);
    lmc_frame_free(f);
    frame_free(&frame);
}

LMC_TEST_MAIN_WITH("delta_pieces", bed = base_bed_open(CONTENT_MAX), base_bed_close(&bed))
