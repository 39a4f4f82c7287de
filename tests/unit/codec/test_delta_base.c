/* test_delta_base.c - the base that a frame asks for: any other one is refused, by one bit, before any output is
 * trusted; ranges ask only for what they touch; frames that need none say so. */
#include "lmc_test_data.h"

#include "lmc_test_base.h"

#define CONTENT_MAX ((size_t)1 << 20)
#define BLOCK_LOG2 10

static base_bed bed;

/* A delta frame of `nbytes` whose base is bed.base and whose content bed.content. */
static test_frame delta_frame(lmc_dtype dtype, size_t nbytes, double share, lmc_info *info)
{
    const lmc_params params = frame_params(dtype, LMC_LEVEL_DEFAULT, BLOCK_LOG2);
    data_fill(bed.base, nbytes, dtype, DATA_WEIGHTS);
    base_change(bed.content, bed.base, nbytes, dtype, share, 2);
    const test_frame frame = base_encode(&bed, &params, bed.content, nbytes, bed.base);
    *info = (lmc_info)LMC_INIT(lmc_info);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame.bytes, frame.nbytes, info, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(info->mode, LMC_FRAME_DELTA);
    return frame;
}

/* The same of a BF16 with its F32. */
static test_frame rounded_frame(size_t nbytes, lmc_info *info)
{
    lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, BLOCK_LOG2);
    params.base_form = LMC_BASE_BF16_OF_F32;
    data_fill(bed.base, 2 * nbytes, LMC_DTYPE_F32, DATA_WEIGHTS);
    for (size_t i = 0; i < nbytes / 2; i++)
        lmc_store16(bed.content + 2 * i, lmc_round_to_bf16(lmc_load32(bed.base + 4 * i)));
    const test_frame frame = base_encode(&bed, &params, bed.content, nbytes, bed.base);
    *info = (lmc_info)LMC_INIT(lmc_info);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame.bytes, frame.nbytes, info, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(info->mode, LMC_FRAME_DELTA);
    return frame;
}

static size_t base_nbytes_of(const test_frame *frame)
{
    lmc_info info = LMC_INIT(lmc_info);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame->bytes, frame->nbytes, &info, NULL), LMC_OK);
    return (size_t)info.base_nbytes;
}

static lmc_status decode_range(const test_frame *frame, const uint8_t *base, uint64_t first, size_t nbytes)
{
    uint8_t *const dst = guarded_end(&bed.deep->target, nbytes);
    const lmc_status status = lmc_decode_delta_range(bed.ctx, frame->bytes, frame->nbytes, base,
                                                     base_nbytes_of(frame), first, nbytes, dst);
    CU_ASSERT_EQUAL(lmc_ctx_diag(bed.ctx)->status, status);
    CU_ASSERT(status != LMC_OK || memcmp(dst, bed.content + first, nbytes) == 0);
    return status;
}

/* ---- wrong bases ---- */

/* One bit of the base of each block, at the block's first byte, its last, and elsewhere. */
static void check_every_block(const test_frame *frame, const lmc_info *info)
{
    const size_t content_nbytes = (size_t)info->content_nbytes;
    const size_t scale = info->base_block_nbytes / info->block_nbytes;
    const deep_base base = {bed.base, (size_t)info->base_nbytes};
    for (size_t i = 0; i < info->block_count; i++) {
        const size_t first = i * info->base_block_nbytes;
        const size_t n = lmc_block_content_nbytes(info, i), base_n = n * scale;
        const size_t places[] = {first, first + base_n - 1, first + random_below(base_n)};
        for (size_t p = 0; p < 3; p++) {
            const uint8_t bit = (uint8_t)(1u << random_below(8));
            bed.base[places[p]] ^= bit;
            CU_ASSERT_EQUAL(
                base_decode_all(&bed, frame->bytes, frame->nbytes, &base, bed.content, content_nbytes),
                LMC_ERR_BASE);
            CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(bed.ctx, 3), LMC_OK);
            CU_ASSERT_EQUAL(
                base_decode(&bed, frame->bytes, frame->nbytes, &base, bed.content, content_nbytes),
                LMC_ERR_BASE);
            CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(bed.ctx, 1), LMC_OK);
            const size_t begin = i * info->block_nbytes;
            CU_ASSERT_EQUAL(decode_range(frame, bed.base, begin + random_below(n), 1), LMC_ERR_BASE);
            CU_ASSERT_EQUAL(decode_range(frame, bed.base, 0, begin),
                            LMC_OK); /* what lies before and behind */
            CU_ASSERT_EQUAL(decode_range(frame, bed.base, begin + n, content_nbytes - begin - n), LMC_OK);
            if (begin > 0)
                CU_ASSERT_EQUAL(decode_range(frame, bed.base, begin - 1, 2), LMC_ERR_BASE);
            bed.base[places[p]] ^= bit;
        }
    }
    CU_ASSERT_EQUAL(base_decode_all(&bed, frame->bytes, frame->nbytes, &base, bed.content, content_nbytes),
                    LMC_OK);
}

LMC_TEST(test_wrong_by_one_bit)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_F8_E4M3, LMC_DTYPE_BF16, LMC_DTYPE_F32,
                                       LMC_DTYPE_F64,     LMC_DTYPE_I32,  LMC_DTYPE_U8};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (int is_same = 0; is_same < 2;
             is_same++) { /* blocks that are equal to their base ask for it too */
            const size_t nbytes = 12 * ((size_t)data_element_nbytes(dtypes[d]) << BLOCK_LOG2) + 1001;
            lmc_info info = LMC_INIT(lmc_info);
            test_frame frame = delta_frame(dtypes[d], nbytes, is_same ? 0 : 0.2, &info);
            check_every_block(&frame, &info);
            frame_free(&frame);
        }
    }
}

/* A bit of the F32 that rounding drops is a bit of the base all the same. */
LMC_TEST(test_wrong_rounded_base)
{
    lmc_info info = LMC_INIT(lmc_info);
    test_frame frame = rounded_frame(20002, &info);
    CU_ASSERT_EQUAL(info.base_form, LMC_BASE_BF16_OF_F32);
    CU_ASSERT_EQUAL(info.base_nbytes, 40004);
    CU_ASSERT_EQUAL(info.base_block_nbytes, 2 * info.block_nbytes);
    check_every_block(&frame, &info);
    frame_free(&frame);
}

/* Every bit of a small base. */
LMC_TEST(test_every_bit)
{
    lmc_info info = LMC_INIT(lmc_info);
    const deep_base base = {bed.base, 3003};
    test_frame frame = delta_frame(LMC_DTYPE_BF16, 3003, 0.2, &info);
    for (size_t bit = 0; bit < 8 * base.nbytes; bit++) {
        bed.base[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CU_ASSERT_EQUAL(base_decode(&bed, frame.bytes, frame.nbytes, &base, bed.content, 3003), LMC_ERR_BASE);
        bed.base[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    frame_free(&frame);
}

/* The right bytes, but moved: by an element, by a block. */
LMC_TEST(test_moved_base)
{
    lmc_info info = LMC_INIT(lmc_info);
    test_frame frame = delta_frame(LMC_DTYPE_F32, 40000, 0.1, &info);
    const deep_base by_one = {bed.base + 4, 40000}, by_block = {bed.base + 4096, 40000};
    memcpy(bed.base + 40000, bed.base, 8192);
    CU_ASSERT_EQUAL(base_decode_all(&bed, frame.bytes, frame.nbytes, &by_one, bed.content, 40000),
                    LMC_ERR_BASE);
    CU_ASSERT_EQUAL(base_decode_all(&bed, frame.bytes, frame.nbytes, &by_block, bed.content, 40000),
                    LMC_ERR_BASE);
    frame_free(&frame);
}

LMC_TEST(test_no_base)
{
    lmc_info info = LMC_INIT(lmc_info);
    test_frame frame = delta_frame(LMC_DTYPE_BF16, 30001, 0.1, &info);
    CU_ASSERT_EQUAL(base_decode_all(&bed, frame.bytes, frame.nbytes, NULL, bed.content, 30001), LMC_ERR_BASE);
    CU_ASSERT_EQUAL(decode_range(&frame, NULL, 0, 30001), LMC_ERR_BASE);
    CU_ASSERT_EQUAL(decode_range(&frame, NULL, 20000, 1), LMC_ERR_BASE);
    CU_ASSERT_EQUAL(base_decode_all(&bed, frame.bytes, frame.nbytes, NULL, bed.content, 30000),
                    LMC_ERR_DST_SMALL);
    CU_ASSERT_EQUAL(decode_range(&frame, bed.base, 30001, 1), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(decode_range(&frame, bed.base, 30001, 0), LMC_OK);
    frame_free(&frame);
}

/* ---- ranges ---- */

/* Calls without a base refuse a delta frame. Calls with one do without it where they can. */
LMC_TEST(test_calls_without_a_base)
{
    enum { NBYTES = 40000 };
    static uint8_t found[NBYTES];
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, BLOCK_LOG2);
    lmc_info info = LMC_INIT(lmc_info);
    size_t n = 9;
    test_frame frame = delta_frame(LMC_DTYPE_BF16, NBYTES, 0.2, &info);
    CU_ASSERT_EQUAL(lmc_decode(bed.ctx, frame.bytes, frame.nbytes, found, NBYTES, &n), LMC_ERR_BASE);
    CU_ASSERT_EQUAL(n, 0);
    CU_ASSERT_EQUAL(lmc_decode_range(bed.ctx, frame.bytes, frame.nbytes, 5000, 1, found), LMC_ERR_BASE);
    CU_ASSERT_EQUAL(lmc_ctx_diag(bed.ctx)->status, LMC_ERR_BASE);
    frame_free(&frame);

    size_t bound, with_nbytes;
    CU_ASSERT_EQUAL_FATAL(lmc_encode_bound(&params, NBYTES, &bound), LMC_OK);
    uint8_t *const plain = must_malloc(bound), *const with = must_malloc(bound);
    CU_ASSERT_EQUAL(lmc_encode(bed.ctx, &params, bed.content, NBYTES, plain, bound, &n), LMC_OK);
    CU_ASSERT_EQUAL(
        lmc_encode_delta(bed.ctx, &params, bed.content, NBYTES, NULL, 77, with, bound, &with_nbytes), LMC_OK);
    CU_ASSERT(n == with_nbytes && memcmp(plain, with, n) == 0);
    CU_ASSERT_EQUAL(lmc_decode(bed.ctx, plain, with_nbytes, found, NBYTES, &n), LMC_OK);
    CU_ASSERT(n == NBYTES && memcmp(found, bed.content, n) == 0);
    memset(found, 0, NBYTES);
    CU_ASSERT_EQUAL(lmc_decode_range(bed.ctx, plain, with_nbytes, 5000, 9000, found), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(found, bed.content + 5000, 9000), 0);
    CU_ASSERT_EQUAL(lmc_decode_delta(bed.ctx, plain, with_nbytes, NULL, 0, found, NBYTES, &n), LMC_OK);
    CU_ASSERT(n == NBYTES && memcmp(found, bed.content, n) == 0);
    free(with);
    free(plain);
}

/* Only the base of the touched blocks is read: the others may not be touched. */
LMC_TEST(test_ranges_read_no_more)
{
    const size_t nbytes = 64 * GUARD_NBYTES / 8; /* 256 blocks of 2 KiB */
    lmc_info info = LMC_INIT(lmc_info);
    test_frame frame = delta_frame(LMC_DTYPE_BF16, nbytes, 0.1, &info);
    guarded memory = guarded_open(nbytes);
    uint8_t *const base = guarded_copy(&memory, bed.base, nbytes);
    const size_t half = nbytes / 2 / GUARD_NBYTES * GUARD_NBYTES;
    CU_ASSERT_EQUAL_FATAL(mprotect(memory.map + memory.capacity - nbytes + half, nbytes - half, PROT_NONE),
                          0);
    CU_ASSERT_EQUAL(decode_range(&frame, base, 0, half), LMC_OK);
    CU_ASSERT_EQUAL(decode_range(&frame, base, half - 1, 1), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(
        mprotect(memory.map + memory.capacity - nbytes + half, nbytes - half, PROT_READ | PROT_WRITE), 0);
    CU_ASSERT_EQUAL_FATAL(mprotect(memory.map + memory.capacity - nbytes, half, PROT_NONE), 0);
    CU_ASSERT_EQUAL(decode_range(&frame, base, half, nbytes - half), LMC_OK);
    CU_ASSERT_EQUAL(decode_range(&frame, base, nbytes - 1, 1), LMC_OK);
    guarded_close(&memory);
    frame_free(&frame);
}

LMC_TEST(test_ranges)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_F8_E5M2, LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_I64};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        const size_t nbytes = 60001;
        lmc_info info = LMC_INIT(lmc_info);
        test_frame frame = delta_frame(dtypes[d], nbytes, 0.3, &info);
        for (unsigned i = 0; i < 600; i++) {
            const size_t first = random_below(nbytes + 1);
            const size_t n = random_below(i % 3 ? 100 : nbytes);
            CU_ASSERT_EQUAL(decode_range(&frame, bed.base, first, n < nbytes - first ? n : nbytes - first),
                            LMC_OK);
        }
        frame_free(&frame);
    }
    lmc_info info = LMC_INIT(lmc_info);
    test_frame frame = rounded_frame(60002, &info);
    for (unsigned i = 0; i < 600; i++) {
        const size_t first = random_below(60002);
        CU_ASSERT_EQUAL(decode_range(&frame, bed.base, first, random_below(60003 - first)), LMC_OK);
    }
    frame_free(&frame);
}

/* ---- frames without a base ---- */

/* Static frames never look at a base: here it is an address that may not be read. */
LMC_TEST(test_ignored_by_static_frames)
{
    static const data_kind kinds[] = {DATA_WEIGHTS, DATA_RANDOM, DATA_ZERO, DATA_HALF_ZEROS};
    guarded nothing = guarded_open(1);
    const uint8_t *const base = guarded_end(&nothing, 0);
    for (size_t k = 0; k < 4; k++) {
        static const size_t sizes[] = {0, 100, 300, 50001};
        for (size_t s = 0; s < 4; s++) {
            const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
            data_fill(bed.content, sizes[s], LMC_DTYPE_BF16, kinds[k]);
            test_frame frame = frame_encode(bed.ctx, &params, bed.content, sizes[s]);
            uint8_t *const dst = guarded_end(&bed.deep->target, sizes[s]);
            size_t n = 9;
            CU_ASSERT_EQUAL(
                lmc_decode_delta(bed.ctx, frame.bytes, frame.nbytes, base, sizes[s], dst, sizes[s], &n),
                LMC_OK);
            CU_ASSERT(n == sizes[s] && (n == 0 || memcmp(dst, bed.content, n) == 0));
            CU_ASSERT_EQUAL(decode_range(&frame, base, sizes[s] / 2, sizes[s] / 3), LMC_OK);
            frame_free(&frame);
        }
    }
    guarded_close(&nothing);
}

/* A base that does not help: the frame needs none, and is as large as without. */
LMC_TEST(test_base_without_help)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_U8, LMC_DTYPE_BF16, LMC_DTYPE_F16, LMC_DTYPE_F32,
                                       LMC_DTYPE_F64};
    static const data_kind kinds[] = {DATA_RANDOM, DATA_WEIGHTS, DATA_ZERO, DATA_STEPS};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (size_t k = 0; k < 4; k++) {
            for (size_t nbytes = 200; nbytes < CONTENT_MAX / 2; nbytes = nbytes * 7 + 1) {
                const lmc_params params = frame_params(dtypes[d], (lmc_level)(nbytes % 3), 0);
                data_fill(bed.content, nbytes, dtypes[d], kinds[k]);
                random_fill(bed.base, nbytes);
                test_frame alone = frame_encode(bed.ctx, &params, bed.content, nbytes);
                test_frame frame = base_encode(&bed, &params, bed.content, nbytes, bed.base);
                lmc_info info = LMC_INIT(lmc_info);
                CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame.bytes, frame.nbytes, &info, NULL), LMC_OK);
                CU_ASSERT_NOT_EQUAL(info.mode, LMC_FRAME_DELTA);
                CU_ASSERT_EQUAL(info.base_nbytes, 0);
                CU_ASSERT_EQUAL(frame.nbytes, alone.nbytes);
                frame_free(&alone);
                frame_free(&frame);
            }
        }
    }
}

/* Whatever the sample says, no frame is larger than the bound: here content differs from its base outside of what
 * is sampled, and is noise there. */
LMC_TEST(test_overhead)
{
    for (unsigned i = 0; i < 300; i++) {
        const lmc_dtype dtype = (lmc_dtype)(i % LMC_DTYPE_COUNT);
        const size_t nbytes = 256 + random_below(i % 10 ? 3000 : CONTENT_MAX - 256);
        const lmc_params params = frame_params(dtype, LMC_LEVEL_DEFAULT, i % 3 ? 10 : 0);
        random_fill(bed.base, nbytes);
        memcpy(bed.content, bed.base, nbytes);
        const size_t first = random_below(nbytes);
        random_fill(bed.content + first, nbytes - first);
        base_round_trip(&bed, &params, bed.content, nbytes, bed.base,
                        NULL); /* base_encode() looks at the size */
    }
}

/* Noise everywhere but where the sample looks: the plan says delta, and the frame must not grow. */
static lmc_status read_mostly(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    memset((uint8_t *)user + offset, 1, nbytes); /* remembers what was looked at */
    memset(dst, 0, nbytes);
    return LMC_OK;
}

LMC_TEST(test_overhead_of_wrong_samples)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_U8, LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_F64};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        const size_t nbytes = CONTENT_MAX;
        const lmc_params params = frame_params(dtypes[d], LMC_LEVEL_DEFAULT, 0);
        uint8_t *const seen = must_malloc(nbytes);
        lmc_plan *plan = NULL;
        memset(seen, 0, nbytes);
        CU_ASSERT_EQUAL_FATAL(
            lmc_plan_create_delta(bed.ctx, &params, nbytes, read_mostly, read_mostly, seen, &plan), LMC_OK);
        lmc_plan_free(plan);
        random_fill(bed.base, nbytes);
        random_fill(bed.content, nbytes);
        for (size_t i = 0; i < nbytes; i++)
            if (seen[i])
                bed.content[i] = bed.base[i];
        base_round_trip(&bed, &params, bed.content, nbytes, bed.base, NULL);
        free(seen);
    }
}

/* A base that is decoded to be read is decoded block by block: a plan of a large tensor asks for few of them. */
#define PLACE_NBYTES 65536
#define PLACES 100

static lmc_status read_zeros(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)user, (void)offset;
    memset(dst, 0, nbytes);
    return LMC_OK;
}

static lmc_status read_and_note(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    uint8_t *const seen = user;
    CU_ASSERT_FATAL(nbytes > 0 && offset + nbytes <= (uint64_t)PLACES * PLACE_NBYTES);
    for (uint64_t place = offset / PLACE_NBYTES; place <= (offset + nbytes - 1) / PLACE_NBYTES; place++)
        seen[place] = 1;
    memset(dst, 0, nbytes);
    return LMC_OK;
}

LMC_TEST(test_plan_looks_at_few_places)
{
    const lmc_params params = frame_params(LMC_DTYPE_U8, LMC_LEVEL_DEFAULT, 0);
    uint8_t seen[PLACES] = {0};
    size_t count = 0;
    lmc_plan *plan = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_plan_create_delta(bed.ctx, &params, (uint64_t)PLACES * PLACE_NBYTES, read_zeros,
                                                read_and_note, seen, &plan),
                          LMC_OK);
    lmc_plan_free(plan);
    for (size_t i = 0; i < PLACES; i++)
        count += seen[i];
    CU_ASSERT(count >= 4 && count <= 8);
    CU_ASSERT(seen[0] && seen[PLACES - 1]);
}

LMC_TEST_MAIN_WITH("delta_base", bed = base_bed_open(CONTENT_MAX), base_bed_close(&bed))
