/* test_corrupt.c - damaged frames: cut, flipped, spliced, and damaged behind a right check. They end in a
 * status, the same for every kernel set, and never in other bytes with OK. */
#include "lmc_test_frame.h"

#include "lmc_test_deep.h"

#define CONTENT_MAX 20000
#define FRAME_MAX (2 * CONTENT_MAX)
#define FRAME_COUNT 82
#define MATRIX_FIRST 72 /* this frame and the next are of matrices */

static const lmc_kernels *sets[KERNEL_SETS_MAX];
static size_t set_count;
static lmc_ctx *ctx;
static deep *deep_memory;

/* Frames of all modes and many forms, and what they hold. */
static struct {
    test_frame frame;
    uint8_t *content;
    size_t nbytes;
} frames[FRAME_COUNT];

static void make_frames(void)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_U8,  LMC_DTYPE_F8_E4M3, LMC_DTYPE_BF16, LMC_DTYPE_F16,
                                       LMC_DTYPE_F32, LMC_DTYPE_I32,     LMC_DTYPE_F64,  LMC_DTYPE_I64};
    static const lmc_dtype matrices[] = {LMC_DTYPE_F8_E4M3, LMC_DTYPE_BF16, LMC_DTYPE_F16, LMC_DTYPE_F32,
                                         LMC_DTYPE_BF16};
    static const data_kind kinds[] = {DATA_WEIGHTS, DATA_HALF_ZEROS, DATA_RARE,   DATA_SHORT,  DATA_WILD,
                                      DATA_RANDOM,  DATA_PRODUCTS,   DATA_HALVES, DATA_PALETTE};
    for (size_t i = 0; i < FRAME_COUNT; i++) {
        lmc_params params = frame_params(dtypes[i % 8], (lmc_level)(i % 3), 10);
        frames[i].nbytes = i < 4 ? 60 * i
                                 : 300 + random_below(i % 6 == 5 ? CONTENT_MAX - 300
                                                      : i < 48   ? 2500
                                                                 : 6000);
        if (i >= MATRIX_FIRST)
            frames[i].nbytes = CONTENT_MAX - random_below(5000);
        frames[i].content = must_malloc(frames[i].nbytes);
        if (i < MATRIX_FIRST)
            data_fill(frames[i].content, frames[i].nbytes, dtypes[i % 8], kinds[i / 8]);
        else
            params = frame_matrix(matrices[i % 5], 10, 32 + i * 7 % 80, frames[i].content, frames[i].nbytes);
        size_t bound;
        if (lmc_encode_bound(&params, frames[i].nbytes, &bound) != LMC_OK)
            abort();
        frames[i].frame.bytes = must_malloc(bound);
        if (lmc_encode(ctx, &params, frames[i].content, frames[i].nbytes, frames[i].frame.bytes, bound,
                       &frames[i].frame.nbytes) != LMC_OK ||
            frames[i].frame.nbytes > FRAME_MAX)
            abort();
        if (i >= MATRIX_FIRST && !frame_has_offsets(&frames[i].frame))
            abort();
    }
}

static void free_frames(void)
{
    for (size_t i = 0; i < FRAME_COUNT; i++) {
        free(frames[i].content);
        free(frames[i].frame.bytes);
    }
}

/* Decodes by all sets from the stages up, and by the public call, from before a guard page. All agree; OK comes
 * with `content` (NULL: any) or not at all. Returns the status. */
static lmc_status decode_all(const uint8_t *bytes, size_t nbytes, const uint8_t *content,
                             size_t content_nbytes)
{
    static uint8_t found[CONTENT_MAX];
    size_t found_nbytes = 77;
    const uint8_t *const copy = guarded_copy(&deep_memory->source, bytes, nbytes);
    const lmc_status status = lmc_decode(ctx, copy, nbytes, found, CONTENT_MAX, &found_nbytes);
    if (status == LMC_OK) {
        if (!content) {
            content = found;
            content_nbytes = found_nbytes;
        }
        CU_ASSERT_EQUAL(found_nbytes, content_nbytes);
        CU_ASSERT(found_nbytes != content_nbytes || memcmp(found, content, content_nbytes) == 0);
    } else {
        CU_ASSERT_EQUAL(found_nbytes, 0);
        CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, status);
        CU_ASSERT(lmc_ctx_diag(ctx)->text[0] != '\0');
    }
    for (size_t k = 0; k < set_count; k++) {
        const uint8_t *deep_content = NULL;
        size_t n = 0;
        lmc_status deep_status = deep_decode(deep_memory, sets[k], bytes, nbytes, NULL, &deep_content, &n);
        if (deep_status == LMC_ERR_LIMIT)
            deep_status = LMC_ERR_DST_SMALL;
        CU_ASSERT_EQUAL(deep_status, status);
        CU_ASSERT(deep_status != LMC_OK || (n == content_nbytes && memcmp(deep_content, content, n) == 0));
    }
    return status;
}

/* ---- damage that the checks find ---- */

LMC_TEST(test_good_frames)
{
    for (size_t i = 0; i < FRAME_COUNT; i++)
        CU_ASSERT_EQUAL(
            decode_all(frames[i].frame.bytes, frames[i].frame.nbytes, frames[i].content, frames[i].nbytes),
            LMC_OK);
}

LMC_TEST(test_truncation)
{
    for (size_t i = 0; i < FRAME_COUNT; i++) {
        const test_frame *const f = &frames[i].frame;
        const size_t step = (f->nbytes > 4000 ? 7 : 1) * LMC_TEST_STEP;
        for (size_t cut = i % LMC_TEST_STEP; cut < f->nbytes; cut += step) {
            const lmc_status status = decode_all(f->bytes, cut, frames[i].content, frames[i].nbytes);
            CU_ASSERT(status == LMC_ERR_TRUNCATED || status == LMC_ERR_CHECKSUM);
            CU_ASSERT(status == LMC_ERR_TRUNCATED ||
                      cut > 40); /* without its head it cannot be anything else */
        }
    }
}

LMC_TEST(test_bytes_behind)
{
    uint8_t *const longer = must_malloc(FRAME_MAX + 100);
    for (size_t i = 0; i < FRAME_COUNT; i++) {
        const test_frame *const f = &frames[i].frame;
        for (size_t more = 1; more < 100; more += more < 16 ? 1 : 20) {
            memcpy(longer, f->bytes, f->nbytes);
            random_fill(longer + f->nbytes, more);
            CU_ASSERT_NOT_EQUAL(decode_all(longer, f->nbytes + more, frames[i].content, frames[i].nbytes),
                                LMC_OK);
        }
    }
    free(longer);
}

/* Every bit of head, plan and tail, and all other bits of small frames; random ones of the others. */
LMC_TEST(test_every_bit)
{
    for (size_t i = 0; i < FRAME_COUNT; i++) {
        test_frame *const f = &frames[i].frame;
        lmc_info info = LMC_INIT(lmc_info);
        CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(f->bytes, f->nbytes, &info, NULL), LMC_OK);
        for (size_t at = i % LMC_TEST_STEP; at < f->nbytes; at += LMC_TEST_STEP) {
            const int is_content = at >= info.head_nbytes && at < f->nbytes - info.tail_nbytes;
            if (is_content && f->nbytes > 400 && random_below(f->nbytes) >= 100)
                continue;
            for (unsigned bit = 0; bit < 8; bit++) {
                f->bytes[at] ^= (uint8_t)(1u << bit);
                const lmc_status status =
                    decode_all(f->bytes, f->nbytes, frames[i].content, frames[i].nbytes);
                CU_ASSERT(is_content ||
                          status != LMC_OK); /* planes of 1 value: constant and stored are one */
                f->bytes[at] ^= (uint8_t)(1u << bit);
            }
        }
    }
}

/* The beginning of one frame with the end of another one. */
LMC_TEST(test_splices)
{
    uint8_t *const spliced = must_malloc(2 * FRAME_MAX);
    for (unsigned i = 0; i < 4000; i += LMC_TEST_STEP) {
        const size_t a = random_below(FRAME_COUNT), b = random_below(FRAME_COUNT);
        const test_frame *const first = &frames[a].frame, *const second = &frames[b].frame;
        const size_t head = random_below(first->nbytes + 1);
        const size_t tail = i % 2 ? random_below(second->nbytes + 1)
                                  : second->nbytes - (head < second->nbytes ? head : second->nbytes);
        if (head + tail > FRAME_MAX)
            continue;
        memcpy(spliced, first->bytes, head);
        memcpy(spliced + head, second->bytes + second->nbytes - tail, tail);
        const int is_first = head + tail == first->nbytes && memcmp(spliced, first->bytes, head + tail) == 0;
        const int is_second =
            head + tail == second->nbytes && memcmp(spliced, second->bytes, head + tail) == 0;
        const size_t whole = is_second ? b : a;
        const lmc_status status =
            decode_all(spliced, head + tail, frames[whole].content, frames[whole].nbytes);
        CU_ASSERT_EQUAL(status == LMC_OK, is_first || is_second);
        deep_reseal(spliced, head + tail);
        decode_all(spliced, head + tail, NULL,
                   0); /* a frame of one kind with the content of another, perhaps */
    }
    free(spliced);
}

/* ---- damage behind a right check ---- */

/* Sign changes in head, plan, blocks or index, resealed. The hashes of the blocks are still those of the content: OK
 * means that the damage does not matter to it. */
static void deep_damage(size_t rounds, size_t first, size_t nbytes_from_end)
{
    uint8_t *const damaged = must_malloc(FRAME_MAX);
    for (size_t i = 0; i < rounds; i += LMC_TEST_STEP) {
        const size_t k = 4 + random_below(FRAME_COUNT - 4);
        const test_frame *const f = &frames[k].frame;
        const size_t end = f->nbytes - (nbytes_from_end < f->nbytes ? nbytes_from_end : f->nbytes);
        memcpy(damaged, f->bytes, f->nbytes);
        for (size_t sign_changes = 1 + random_below(3); sign_changes > 0; sign_changes--) {
            const size_t at = first < end ? first + random_below(end - first) : random_below(f->nbytes);
            damaged[at] ^= random_below(3) ? (uint8_t)(1u << random_below(8)) : (uint8_t)random_u64();
        }
        deep_reseal(damaged, f->nbytes);
        decode_all(damaged, f->nbytes, frames[k].content, frames[k].nbytes);
    }
    free(damaged);
}

LMC_TEST(test_deep_damage_anywhere)
{
    deep_damage(6000, 0, 0);
}

LMC_TEST(test_deep_damage_of_heads)
{
    uint8_t *const damaged = must_malloc(FRAME_MAX);
    for (size_t k = 0; k < FRAME_COUNT; k++) {
        const test_frame *const f = &frames[k].frame;
        lmc_info info = LMC_INIT(lmc_info);
        CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(f->bytes, f->nbytes, &info, NULL), LMC_OK);
        for (size_t at = k % LMC_TEST_STEP; at < info.head_nbytes; at += LMC_TEST_STEP) {
            for (unsigned bit = 0; bit < 8; bit++) {
                memcpy(damaged, f->bytes, f->nbytes);
                damaged[at] ^= (uint8_t)(1u << bit);
                deep_reseal(damaged, f->nbytes);
                decode_all(damaged, f->nbytes, frames[k].content, frames[k].nbytes);
            }
        }
    }
    free(damaged);
}

/* The first bytes of blocks: their modes, counts, bitsets. */
LMC_TEST(test_deep_damage_of_block_starts)
{
    uint8_t *const damaged = must_malloc(FRAME_MAX);
    for (unsigned i = 0; i < 12000; i += LMC_TEST_STEP) {
        const size_t k = 4 + random_below(FRAME_COUNT - 4);
        const test_frame *const f = &frames[k].frame;
        lmc_info info = LMC_INIT(lmc_info);
        CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(f->bytes, f->nbytes, &info, NULL), LMC_OK);
        memcpy(damaged, f->bytes, f->nbytes);
        const size_t left = f->nbytes - info.head_nbytes - (size_t)info.tail_nbytes;
        const size_t at = info.head_nbytes + random_below(left < 24 ? left : 24);
        damaged[at] = (uint8_t)(random_below(2) ? random_u64() : random_below(8));
        decode_all(damaged, f->nbytes, frames[k].content,
                   frames[k].nbytes); /* no check covers blocks but their hash */
    }
    free(damaged);
}

/* A damaged index entry whose blocks still add up: bytes move from one block to the next. */
LMC_TEST(test_moved_block_borders)
{
    uint8_t *const damaged = must_malloc(FRAME_MAX);
    unsigned tried = 0;
    for (size_t k = 0; k < FRAME_COUNT; k++) {
        const test_frame *const f = &frames[k].frame;
        lmc_info info = LMC_INIT(lmc_info);
        CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(f->bytes, f->nbytes, &info, NULL), LMC_OK);
        for (uint64_t i = 0; info.mode == LMC_FRAME_CODED && i + 1 < info.block_count; i++) {
            for (int move = -40 + (int)((k + i) % LMC_TEST_STEP); move <= 40; move += LMC_TEST_STEP) {
                if (move == 0)
                    continue;
                memcpy(damaged, f->bytes, f->nbytes);
                uint8_t *const entry =
                    damaged + f->nbytes - info.tail_nbytes + i * LMC_FMT_INDEX_ENTRY_NBYTES;
                lmc_store32(entry, lmc_load32(entry) + (uint32_t)move);
                lmc_store32(entry + 12, lmc_load32(entry + 12) - (uint32_t)move);
                deep_reseal(damaged, f->nbytes);
                CU_ASSERT_NOT_EQUAL(decode_all(damaged, f->nbytes, frames[k].content, frames[k].nbytes),
                                    LMC_OK);
                tried++;
            }
        }
    }
    CU_ASSERT(tried > 100);
    free(damaged);
}

/* Heads that claim sizes far beyond the frame: refused before anything is allocated by them. */
LMC_TEST(test_claimed_sizes)
{
    static const uint64_t sizes[] = {0,         1, 1 << 20, UINT64_C(1) << 40, INT64_MAX, UINT64_C(1) << 63,
                                     UINT64_MAX};
    uint8_t *const damaged = must_malloc(FRAME_MAX);
    for (size_t k = 4; k < FRAME_COUNT; k++) {
        const test_frame *const f = &frames[k].frame;
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            for (unsigned log2 = 9 + (unsigned)(k + s) % LMC_TEST_STEP; log2 <= 21; log2 += LMC_TEST_STEP) {
                memcpy(damaged, f->bytes, f->nbytes);
                lmc_store64(damaged + 16, sizes[s]);
                damaged[7] = (uint8_t)log2;
                deep_reseal(damaged, f->nbytes);
                CU_ASSERT_NOT_EQUAL(decode_all(damaged, f->nbytes, frames[k].content, frames[k].nbytes),
                                    LMC_OK);
            }
        }
    }
    free(damaged);
}

LMC_TEST_MAIN_WITH("corrupt",
                   (ctx = must_create_ctx(), set_count = kernel_sets(sets),
                    deep_memory = deep_open(CONTENT_MAX, 2 * FRAME_MAX), make_frames()),
                   (free_frames(), deep_close(deep_memory), lmc_ctx_free(ctx)))
