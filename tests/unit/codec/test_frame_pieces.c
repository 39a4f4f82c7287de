/* test_frame_pieces.c - frames block by block: the same bytes as whole ones, blocks in any order, errors of
 * each call. */
#include "lmc_test_frame.h"

#include <lmc_experimental.h>

#define CONTENT_MAX 400000
#define BLOCKS_MAX 512

static lmc_ctx *ctx;
static uint8_t *content;

static lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    memcpy(dst, (const uint8_t *)user + offset, nbytes);
    return LMC_OK;
}

static lmc_plan *must_plan(const lmc_params *params, size_t nbytes)
{
    lmc_plan *plan = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_plan_create(ctx, params, nbytes, read_content, content, &plan), LMC_OK);
    return plan;
}

/* Encodes head, blocks from the last to the first, and tail; each piece before a guard page. */
static test_frame encode_in_pieces(const lmc_plan *plan)
{
    lmc_info info = LMC_INIT(lmc_info);
    lmc_block_entry entries[BLOCKS_MAX];
    static uint8_t *blocks[BLOCKS_MAX];
    CU_ASSERT_EQUAL(lmc_plan_info(plan, &info), LMC_OK);
    CU_ASSERT_FATAL(info.block_count <= BLOCKS_MAX);
    test_frame frame = {
        must_malloc(info.head_nbytes + info.content_nbytes + info.block_count + info.tail_nbytes), 0};
    guarded memory = guarded_open(lmc_plan_block_bound(plan) + info.head_nbytes + info.tail_nbytes);
    for (size_t i = info.block_count; i-- > 0;) {
        const size_t left = info.content_nbytes - i * info.block_nbytes;
        const size_t nbytes = left < info.block_nbytes ? left : info.block_nbytes;
        const size_t bound = lmc_plan_block_bound(plan);
        uint8_t *const dst = guarded_end(&memory, bound);
        CU_ASSERT_EQUAL_FATAL(
            lmc_encode_block(ctx, plan, i, content + i * info.block_nbytes, nbytes, dst, bound, &entries[i]),
            LMC_OK);
        CU_ASSERT_FATAL(entries[i].stored_nbytes >= 1 && entries[i].stored_nbytes <= nbytes + 1);
        CU_ASSERT_EQUAL(entries[i].content_hash,
                        lmc_kernels_get()->hash(content + i * info.block_nbytes, nbytes, 0));
        blocks[i] = must_malloc(entries[i].stored_nbytes);
        memcpy(blocks[i], dst, entries[i].stored_nbytes);
    }
    size_t nbytes;
    uint8_t *dst = guarded_end(&memory, info.head_nbytes);
    CU_ASSERT_EQUAL_FATAL(lmc_encode_head(plan, dst, info.head_nbytes, &nbytes), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(nbytes, info.head_nbytes);
    memcpy(frame.bytes, dst, nbytes);
    frame.nbytes = nbytes;
    for (size_t i = 0; i < info.block_count; i++) {
        memcpy(frame.bytes + frame.nbytes, blocks[i], entries[i].stored_nbytes);
        frame.nbytes += entries[i].stored_nbytes;
        free(blocks[i]);
    }
    dst = guarded_end(&memory, (size_t)info.tail_nbytes);
    CU_ASSERT_EQUAL_FATAL(
        lmc_encode_tail(plan, entries, info.block_count, dst, (size_t)info.tail_nbytes, &nbytes), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(nbytes, info.tail_nbytes);
    memcpy(frame.bytes + frame.nbytes, dst, nbytes);
    frame.nbytes += nbytes;
    guarded_close(&memory);
    return frame;
}

/* Decodes from head, tail and blocks, each by itself, and compares; *hash: of the content as a whole. */
static void decode_in_pieces(const test_frame *frame, size_t content_nbytes)
{
    lmc_info info = LMC_INIT(lmc_info), opened = LMC_INIT(lmc_info);
    lmc_frame *f = NULL;
    lmc_block_entry entries[BLOCKS_MAX];
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame->bytes, frame->nbytes, &info, NULL), LMC_OK);
    CU_ASSERT_EQUAL(info.content_nbytes, content_nbytes);
    uint8_t *const head = must_malloc(info.head_nbytes), *const tail = must_malloc((size_t)info.tail_nbytes);
    memcpy(head, frame->bytes, info.head_nbytes);
    memcpy(tail, frame->bytes + frame->nbytes - info.tail_nbytes, (size_t)info.tail_nbytes);
    CU_ASSERT_EQUAL_FATAL(
        lmc_frame_create(ctx, head, info.head_nbytes, tail, (size_t)info.tail_nbytes, frame->nbytes, &f),
        LMC_OK);
    free(head); /* what it needs of them it has copied */
    free(tail);
    CU_ASSERT_EQUAL(lmc_frame_info(f, &opened), LMC_OK);
    CU_ASSERT_EQUAL(opened.block_count, info.block_count);
    CU_ASSERT_EQUAL(opened.content_nbytes, info.content_nbytes);
    guarded source = guarded_open(info.block_nbytes + 1), target = guarded_open(info.block_nbytes);
    uint64_t next = info.head_nbytes;
    for (size_t i = 0; i < info.block_count; i++) {
        uint64_t offset;
        size_t stored_nbytes, nbytes;
        CU_ASSERT_EQUAL_FATAL(lmc_frame_block(f, i, &offset, &stored_nbytes, &nbytes), LMC_OK);
        CU_ASSERT_EQUAL_FATAL(offset, next);
        next += stored_nbytes;
        const uint8_t *const stored = guarded_copy(&source, frame->bytes + offset, stored_nbytes);
        uint8_t *const dst = guarded_end(&target, nbytes);
        CU_ASSERT_EQUAL_FATAL(lmc_decode_block(ctx, f, i, stored, stored_nbytes, dst, nbytes, &entries[i]),
                              LMC_OK);
        CU_ASSERT_EQUAL(memcmp(dst, content + i * info.block_nbytes, nbytes), 0);
        CU_ASSERT_EQUAL(entries[i].stored_nbytes, stored_nbytes);
    }
    CU_ASSERT_EQUAL(next, frame->nbytes - info.tail_nbytes);
    CU_ASSERT_EQUAL(lmc_content_hash(entries, info.block_count), lmc_frame_content_hash(f));
    guarded_close(&source);
    guarded_close(&target);
    lmc_frame_free(f);
}

/* The pieces make the same frame as lmc_encode() does, unless that one stored what did not shrink. */
static void check_pieces(const lmc_params *params, size_t nbytes)
{
    lmc_plan *const plan = must_plan(params, nbytes);
    test_frame whole = frame_encode(ctx, params, content, nbytes);
    test_frame pieces = encode_in_pieces(plan);
    if (whole.bytes[6] == pieces.bytes[6])
        CU_ASSERT(frames_are_equal(&whole, &pieces));
    CU_ASSERT(whole.bytes[6] == pieces.bytes[6] || whole.bytes[6] == LMC_FRAME_STORED);
    frame_check(ctx, &pieces, content, nbytes);
    decode_in_pieces(&pieces, nbytes);
    decode_in_pieces(&whole, nbytes);
    frame_free(&whole);
    frame_free(&pieces);
    lmc_plan_free(plan);
}

LMC_TEST(test_pieces_equal_whole)
{
    for (unsigned i = 0; i < 20 * LMC_DTYPE_COUNT; i++) {
        const lmc_params params = frame_params((lmc_dtype)(i % LMC_DTYPE_COUNT), (lmc_level)random_below(3),
                                               10 + (unsigned)random_below(4));
        const size_t nbytes = random_below(i % 10 ? 20000 : CONTENT_MAX);
        data_fill(content, nbytes, params.dtype, (data_kind)random_below(DATA_KIND_COUNT));
        check_pieces(&params, nbytes);
    }
}

/* Blocks begin within rows, and need nothing of the blocks before them. */
LMC_TEST(test_pieces_of_matrices)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_F8_E4M3, LMC_DTYPE_F8_E5M2, LMC_DTYPE_F16, LMC_DTYPE_BF16,
                                       LMC_DTYPE_F32,     LMC_DTYPE_C64,     LMC_DTYPE_F64};
    static const unsigned column_counts[] = {32, 33, 64, 100, 256, 384, 1000};
    const size_t dtype_count = sizeof dtypes / sizeof dtypes[0];
    const size_t column_counts_count = sizeof column_counts / sizeof column_counts[0];
    unsigned with_offsets = 0, tried = 0;
    for (size_t d = 0; d < dtype_count; d++)
        for (size_t c = 0; c < column_counts_count; c++) {
            const unsigned unit = data_element_nbytes(dtypes[d]);
            const size_t nbytes = 25 * 1000 * unit + random_below(5000);
            const lmc_params params =
                frame_matrix(dtypes[d], 10 + (c & 1), column_counts[c], content, nbytes);
            test_frame whole = frame_encode(ctx, &params, content, nbytes);
            with_offsets += (unsigned)frame_has_offsets(&whole);
            tried++;
            frame_free(&whole);
            check_pieces(&params, nbytes);
        }
    CU_ASSERT(with_offsets >= tried * 8 / 10);
}

LMC_TEST(test_small_pieces)
{
    for (size_t nbytes = 0; nbytes < 300; nbytes++) {
        const lmc_params params = frame_params((lmc_dtype)(nbytes % LMC_DTYPE_COUNT), LMC_LEVEL_DEFAULT, 0);
        data_fill(content, nbytes, params.dtype, DATA_ZERO);
        check_pieces(&params, nbytes);
    }
}

static lmc_status fail_to_read(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)offset, (void)dst, (void)nbytes;
    return *(lmc_status *)user;
}

/* What the caller's function returns is what the call returns. */
LMC_TEST(test_read_fails)
{
    static const lmc_status failures[] = {LMC_ERR_IO, LMC_ERR_CANCELLED, LMC_ERR_NOMEM};
    const lmc_params params = frame_params(LMC_DTYPE_F32, LMC_LEVEL_MAX, 0);
    for (size_t i = 0; i < 3; i++) {
        lmc_status failure = failures[i];
        lmc_plan *plan = (lmc_plan *)(void *)content;
        CU_ASSERT_EQUAL(lmc_plan_create(ctx, &params, 100000, fail_to_read, &failure, &plan), failure);
        CU_ASSERT_PTR_NULL(plan);
        CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, failure);
    }
}

/* The plan reads within the content only; at the level max, all of it. */
typedef struct reads {
    uint64_t content_nbytes, end;
    int outside;
} reads;

static lmc_status watch_reads(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    reads *const r = user;
    r->outside |= offset > r->content_nbytes || nbytes > r->content_nbytes - offset;
    r->end = offset + nbytes > r->end ? offset + nbytes : r->end;
    memset(dst, 1, nbytes);
    return LMC_OK;
}

LMC_TEST(test_reads_stay_inside)
{
    for (unsigned i = 0; i < 60; i++) {
        const lmc_params params = frame_params((lmc_dtype)(i % LMC_DTYPE_COUNT), (lmc_level)(i % 3), 0);
        reads r = {256 + random_below((size_t)1 << (10 + i % 12)), 0, 0};
        lmc_plan *plan = NULL;
        CU_ASSERT_EQUAL(lmc_plan_create(ctx, &params, r.content_nbytes, watch_reads, &r, &plan), LMC_OK);
        CU_ASSERT(!r.outside);
        if (params.level == LMC_LEVEL_MAX)
            CU_ASSERT_EQUAL(r.end, r.content_nbytes - r.content_nbytes % data_element_nbytes(params.dtype));
        lmc_plan_free(plan);
    }
    lmc_params params = frame_params(LMC_DTYPE_F32, LMC_LEVEL_DEFAULT, 0);
    reads r = {UINT64_MAX / 2, 0, 0}; /* as large as content may be */
    lmc_plan *plan = NULL;
    CU_ASSERT_EQUAL(lmc_plan_create(ctx, &params, r.content_nbytes, watch_reads, &r, &plan), LMC_OK);
    CU_ASSERT(!r.outside);
    lmc_plan_free(plan);
    CU_ASSERT_EQUAL(lmc_plan_create(ctx, &params, UINT64_MAX / 2 + 1, watch_reads, &r, &plan), LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(plan);
}

/* ---- the cut ---- */

/* What lmc_plan_cut() says is what stands in the plan section (docs/format.md, section 3). */
LMC_TEST(test_cut_of_a_plan)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_F64, LMC_DTYPE_F8_E4M3};
    enum { NBYTES = 40000 };
    uint8_t head[LMC_FMT_HEAD_NBYTES + LMC_FMT_OFFSETS_PLAN_NBYTES_MAX];
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        const lmc_params params = frame_params(dtypes[i], LMC_LEVEL_DEFAULT, 10);
        const uint8_t *const section = head + LMC_FMT_HEAD_NBYTES;
        lmc_cut cut = LMC_INIT(lmc_cut);
        size_t nbytes = 0;
        data_fill(content, NBYTES, dtypes[i], DATA_WEIGHTS);
        lmc_plan *const plan = must_plan(&params, NBYTES);
        CU_ASSERT_EQUAL_FATAL(lmc_plan_cut(plan, &cut), LMC_OK);
        CU_ASSERT_EQUAL_FATAL(lmc_encode_head(plan, head, sizeof head, &nbytes), LMC_OK);
        CU_ASSERT_EQUAL(cut.is_rotated, section[0] & LMC_FMT_TRANSFORM_ROTATE);
        CU_ASSERT_EQUAL(cut.low_nbits, section[1]);
        CU_ASSERT_EQUAL(cut.offset, section[2] | (unsigned)section[3] << 8);
        CU_ASSERT_EQUAL(cut.high_nbits, lmc_dtype_nbits(dtypes[i]) == 8 ? 8 : LMC_FMT_HIGH_NBITS);
        cut = (lmc_cut){.struct_size = sizeof cut + 1, .low_nbits = 77};
        CU_ASSERT_EQUAL(lmc_plan_cut(plan, &cut), LMC_ERR_ARG);
        CU_ASSERT_EQUAL(cut.low_nbits, 77);
        cut = (lmc_cut){.struct_size = offsetof(lmc_cut, low_nbits), .low_nbits = 77};
        CU_ASSERT_EQUAL(lmc_plan_cut(plan, &cut), LMC_OK);
        CU_ASSERT(cut.high_nbits != 0 && cut.low_nbits == 77);
        lmc_plan_free(plan);
    }
}

/* Noise, a few bytes, and a delta have no symbols. */
LMC_TEST(test_plans_without_a_cut)
{
    static const size_t sizes[] = {40000, 200, 40000};
    for (size_t i = 0; i < 3; i++) {
        const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
        lmc_cut cut = LMC_INIT(lmc_cut);
        lmc_plan *plan = NULL;
        data_fill(content, sizes[i], LMC_DTYPE_BF16, i == 0 ? DATA_RANDOM : DATA_WEIGHTS);
        CU_ASSERT_EQUAL_FATAL(lmc_plan_create_delta(ctx, &params, sizes[i], read_content,
                                                    i == 2 ? read_content : NULL, content, &plan),
                              LMC_OK);
        CU_ASSERT_EQUAL(lmc_plan_cut(plan, &cut), LMC_OK);
        CU_ASSERT_EQUAL(cut.high_nbits, 0);
        lmc_plan_free(plan);
    }
}

/* ---- the estimate ---- */

/* What a plan expects is about what the frame takes, with a base and without. */
LMC_TEST(test_estimate)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_F8_E4M3, LMC_DTYPE_U8};
    enum { NBYTES = 40000 };
    for (size_t i = 0; i < 2 * sizeof dtypes / sizeof dtypes[0]; i++) {
        const lmc_dtype dtype = dtypes[i / 2];
        const int has_base = i % 2 == 1;
        const lmc_params params = frame_params(dtype, LMC_LEVEL_DEFAULT, 0);
        static uint8_t frame[4 * NBYTES];
        size_t nbytes = 0;
        lmc_plan *plan = NULL;
        data_fill(content, NBYTES, dtype, dtype == LMC_DTYPE_U8 ? DATA_RANDOM : DATA_WEIGHTS);
        CU_ASSERT_EQUAL_FATAL(lmc_plan_create_delta(ctx, &params, NBYTES, read_content,
                                                    has_base ? read_content : NULL, content, &plan),
                              LMC_OK);
        CU_ASSERT_EQUAL_FATAL(lmc_encode_delta(ctx, &params, content, NBYTES, has_base ? content : NULL,
                                               has_base ? NBYTES : 0, frame, sizeof frame, &nbytes),
                              LMC_OK);
        const double share = (double)lmc_plan_estimate(plan) / (double)nbytes;
        CU_ASSERT(has_base ? lmc_plan_estimate(plan) < 1000 /* all is equal */
                           : share > 0.97 && share < 1.03);
        lmc_plan_free(plan);
    }
}

/* ---- arguments ---- */

LMC_TEST(test_encode_arguments)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    static uint8_t room[8192];
    lmc_info info = LMC_INIT(lmc_info);
    lmc_block_entry entries[3] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, entry = {1, 1, 1};
    size_t n = 9;
    data_fill(content, 5000, LMC_DTYPE_BF16, DATA_WEIGHTS);
    lmc_plan *const plan = must_plan(&params, 5000);
    lmc_plan *other = plan;
    CU_ASSERT_EQUAL(lmc_plan_info(plan, &info), LMC_OK);
    CU_ASSERT_EQUAL(lmc_plan_create(NULL, &params, 5000, read_content, content, &other), LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(other);
    CU_ASSERT_EQUAL(lmc_plan_create(ctx, &params, 5000, NULL, content, &other), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_plan_create(ctx, &params, 5000, read_content, content, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_head(NULL, room, sizeof room, &n), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(n, 0);
    CU_ASSERT_EQUAL(lmc_encode_head(plan, NULL, sizeof room, &n), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_head(plan, room, sizeof room, NULL), LMC_ERR_ARG);
    n = 9;
    CU_ASSERT_EQUAL(lmc_encode_head(plan, room, info.head_nbytes - 1, &n), LMC_ERR_DST_SMALL);
    CU_ASSERT_EQUAL(n, 0);
    CU_ASSERT_EQUAL(lmc_encode_tail(NULL, entries, 3, room, sizeof room, &n), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_tail(plan, NULL, 3, room, sizeof room, &n), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_tail(plan, entries, 2, room, sizeof room, &n), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_tail(plan, entries, 4, room, sizeof room, &n), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_tail(plan, entries, 3, NULL, sizeof room, &n), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_tail(plan, entries, 3, room, sizeof room, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_tail(plan, entries, 3, room, (size_t)info.tail_nbytes - 1, &n),
                    LMC_ERR_DST_SMALL);
    CU_ASSERT_EQUAL(lmc_encode_block(NULL, plan, 0, content, 2048, room, sizeof room, &entry), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(entry.stored_nbytes, 0);
    CU_ASSERT_EQUAL(lmc_encode_block(ctx, NULL, 0, content, 2048, room, sizeof room, &entry), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_block(ctx, plan, 0, NULL, 2048, room, sizeof room, &entry), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_block(ctx, plan, 0, content, 2048, NULL, sizeof room, &entry), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_block(ctx, plan, 0, content, 2048, room, sizeof room, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_block(ctx, plan, 0, content, 2047, room, sizeof room, &entry), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_block(ctx, plan, 0, content, 2049, room, sizeof room, &entry), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_block(ctx, plan, 2, content, 2048, room, sizeof room, &entry), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_block(ctx, plan, 3, content, 904, room, sizeof room, &entry), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_encode_block(ctx, plan, UINT64_MAX, content, 904, room, sizeof room, &entry),
                    LMC_ERR_ARG);
    entry.stored_nbytes = 9;
    CU_ASSERT_EQUAL(lmc_encode_block(ctx, plan, 0, content, 2048, room, 2048, &entry), LMC_ERR_DST_SMALL);
    CU_ASSERT_EQUAL(entry.stored_nbytes, 0);
    CU_ASSERT_EQUAL(
        lmc_encode_block(ctx, plan, 2, content + 4096, 904, room, lmc_plan_block_bound(plan), &entry),
        LMC_OK);
    lmc_plan_free(plan);
}

LMC_TEST(test_decode_arguments)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    static uint8_t room[8192];
    lmc_info info = LMC_INIT(lmc_info);
    lmc_frame *f = NULL, *none = NULL;
    uint64_t offset;
    size_t stored, nbytes;
    data_fill(content, 5000, LMC_DTYPE_BF16, DATA_WEIGHTS);
    test_frame frame = frame_encode(ctx, &params, content, 5000);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame.bytes, frame.nbytes, &info, NULL), LMC_OK);
    const size_t head_nbytes = info.head_nbytes, tail_nbytes = (size_t)info.tail_nbytes;
    const uint8_t *const tail = frame.bytes + frame.nbytes - tail_nbytes;
    CU_ASSERT_EQUAL_FATAL(
        lmc_frame_create(ctx, frame.bytes, head_nbytes, tail, tail_nbytes, frame.nbytes, &f), LMC_OK);
    none = f;
    CU_ASSERT_EQUAL(lmc_frame_create(NULL, frame.bytes, head_nbytes, tail, tail_nbytes, frame.nbytes, &none),
                    LMC_ERR_ARG);
    CU_ASSERT_PTR_NULL(none);
    CU_ASSERT_EQUAL(lmc_frame_create(ctx, NULL, head_nbytes, tail, tail_nbytes, frame.nbytes, &none),
                    LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_frame_create(ctx, frame.bytes, head_nbytes, NULL, tail_nbytes, frame.nbytes, &none),
                    LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_frame_create(ctx, frame.bytes, head_nbytes, tail, tail_nbytes, frame.nbytes, NULL),
                    LMC_ERR_ARG);
    CU_ASSERT_EQUAL(
        lmc_frame_create(ctx, frame.bytes, head_nbytes + 1, tail, tail_nbytes, frame.nbytes, &none),
        LMC_ERR_ARG);
    CU_ASSERT_EQUAL(
        lmc_frame_create(ctx, frame.bytes, head_nbytes - 1, tail, tail_nbytes, frame.nbytes, &none),
        LMC_ERR_ARG);
    CU_ASSERT_EQUAL(
        lmc_frame_create(ctx, frame.bytes, head_nbytes, tail + 1, tail_nbytes - 1, frame.nbytes, &none),
        LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_frame_create(ctx, frame.bytes, 31, tail, tail_nbytes, frame.nbytes, &none),
                    LMC_ERR_TRUNCATED);
    CU_ASSERT_EQUAL(lmc_frame_create(ctx, frame.bytes, head_nbytes, tail, tail_nbytes, 10, &none),
                    LMC_ERR_TRUNCATED);
    CU_ASSERT_EQUAL(
        lmc_frame_create(ctx, frame.bytes, head_nbytes, tail, tail_nbytes, frame.nbytes + 1, &none),
        LMC_ERR_CORRUPT);
    CU_ASSERT_EQUAL(lmc_frame_block(NULL, 0, &offset, &stored, &nbytes), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_frame_block(f, 3, &offset, &stored, &nbytes), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_frame_block(f, 0, NULL, &stored, &nbytes), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_frame_block(f, 0, &offset, NULL, &nbytes), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_frame_block(f, 0, &offset, &stored, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_block(f, 0, &offset, &stored, &nbytes), LMC_OK);
    const uint8_t *const block = frame.bytes + offset;
    CU_ASSERT_EQUAL(lmc_decode_block(NULL, f, 0, block, stored, room, sizeof room, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_decode_block(ctx, NULL, 0, block, stored, room, sizeof room, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_decode_block(ctx, f, 0, NULL, stored, room, sizeof room, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_decode_block(ctx, f, 0, block, stored, NULL, sizeof room, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_decode_block(ctx, f, 0, block, stored - 1, room, sizeof room, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_decode_block(ctx, f, 3, block, stored, room, sizeof room, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_decode_block(ctx, f, 0, block, stored, room, nbytes - 1, NULL), LMC_ERR_DST_SMALL);
    CU_ASSERT_EQUAL(lmc_decode_block(ctx, f, 0, block, stored, room, nbytes, NULL), LMC_OK);
    lmc_frame_free(f);
    frame_free(&frame);
}

LMC_TEST_MAIN_WITH("frame_pieces", (ctx = must_create_ctx(), content = must_malloc(CONTENT_MAX)),
                   (free(content), lmc_ctx_free(ctx)))
