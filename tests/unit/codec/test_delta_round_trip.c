/* test_delta_round_trip.c - contents come back against their bases: every dtype, distance and share of changes,
 * length, block size, level, thread count and kernel set. */
#include "lmc_test_data.h"

#include "lmc_test_base.h"

#define CONTENT_MAX ((size_t)9 << 20)

static base_bed bed;

/* ---- distances and shares ---- */

/* Round trip of content that has changed so from a base of this kind. Returns the frame's bytes. */
static size_t change_and_check(const lmc_params *params, size_t nbytes, data_kind kind, double share,
                               double ulps, lmc_frame_mode *mode)
{
    data_fill(bed.base, nbytes, params->dtype, kind);
    base_change(bed.content, bed.base, nbytes, params->dtype, share, ulps);
    return base_round_trip(&bed, params, bed.content, nbytes, bed.base, mode);
}

LMC_TEST(test_distances)
{
    static const double ulps[] = {0.01, 0.1, 1, 3, 17, 300, 1e4, 1e6, 1e9, -1};
    for (int dtype = 0; dtype < LMC_DTYPE_COUNT; dtype++) {
        for (size_t u = (size_t)dtype % LMC_TEST_STEP; u < sizeof ulps / sizeof ulps[0]; u += LMC_TEST_STEP) {
            const lmc_params params = frame_params((lmc_dtype)dtype, (lmc_level)(u % 3), 0);
            lmc_frame_mode mode;
            change_and_check(&params, 40000, DATA_WEIGHTS, 1, ulps[u], &mode);
            if (ulps[u] > 0 && ulps[u] <= 0.1)
                CU_ASSERT_EQUAL(mode, LMC_FRAME_DELTA);
        }
    }
}

LMC_TEST(test_shares)
{
    static const double shares[] = {0, 0.0001, 0.01, 0.1, 0.5, 1};
    static const double ulps[] = {2, 5000, -1};
    for (int dtype = 0; dtype < LMC_DTYPE_COUNT; dtype++) {
        for (size_t u = (size_t)dtype % LMC_TEST_STEP; u < sizeof ulps / sizeof ulps[0]; u += LMC_TEST_STEP) {
            const lmc_params params = frame_params((lmc_dtype)dtype, LMC_LEVEL_DEFAULT, 0);
            size_t before = 0;
            for (size_t s = 0; s < sizeof shares / sizeof shares[0]; s++) {
                lmc_frame_mode mode;
                const size_t nbytes =
                    change_and_check(&params, 60000, DATA_WEIGHTS, shares[s], ulps[u], &mode);
                CU_ASSERT(nbytes + nbytes / 8 + 64 > before); /* more changes, more bytes */
                if (shares[s] <= 0.01)
                    CU_ASSERT_EQUAL(mode, LMC_FRAME_DELTA);
                before = nbytes;
            }
        }
    }
}

LMC_TEST(test_kinds)
{
    for (int kind = 0; kind < DATA_KIND_COUNT; kind++) {
        for (int dtype = kind % LMC_TEST_STEP; dtype < LMC_DTYPE_COUNT; dtype += LMC_TEST_STEP) {
            const lmc_params params = frame_params((lmc_dtype)dtype, LMC_LEVEL_DEFAULT, 10);
            change_and_check(&params, 20000, (data_kind)kind, 0.3, 1.5, NULL);
            change_and_check(&params, 20000, (data_kind)kind, 0.02, 1e5, NULL);
        }
    }
}

/* One element changes at all, anywhere: it is not lost in a sample that misses it. */
LMC_TEST(test_one_change)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_F8_E4M3, LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_F64,
                                       LMC_DTYPE_I32,     LMC_DTYPE_U8,   LMC_DTYPE_I64};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        const lmc_params params = frame_params(dtypes[d], LMC_LEVEL_DEFAULT, 12);
        const size_t nbytes = 300000;
        data_fill(bed.base, nbytes, dtypes[d], DATA_WEIGHTS);
        memcpy(bed.content, bed.base, nbytes);
        for (unsigned i = 0; i < 12; i++) {
            lmc_frame_mode mode;
            const size_t at = i == 0 ? 0 : i == 1 ? nbytes - 1 : random_below(nbytes);
            bed.content[at] ^= (uint8_t)(1u << random_below(8));
            const size_t found = base_round_trip(&bed, &params, bed.content, nbytes, bed.base, &mode);
            bed.content[at] = bed.base[at];
            CU_ASSERT_EQUAL(mode, LMC_FRAME_DELTA);
            CU_ASSERT(found < 2600); /* 74 blocks at most: an entry and a few bytes each */
        }
    }
}

/* ---- identical content ---- */

LMC_TEST(test_identical)
{
    static const size_t sizes[] = {256, 257, 4096, 65537, 1000003, CONTENT_MAX};
    for (int dtype = 0; dtype < LMC_DTYPE_COUNT; dtype++) {
        for (size_t s = (size_t)dtype % LMC_TEST_STEP; s < sizeof sizes / sizeof sizes[0];
             s += LMC_TEST_STEP) {
            const lmc_params params = frame_params((lmc_dtype)dtype, (lmc_level)(s % 3), 0);
            lmc_frame_mode mode;
            if (sizes[s] == CONTENT_MAX && dtype % 7 != 0)
                continue;
            data_fill(bed.base, sizes[s], params.dtype, DATA_SPECIAL);
            const size_t found = base_round_trip(&bed, &params, bed.base, sizes[s], bed.base, &mode);
            CU_ASSERT_EQUAL(mode, LMC_FRAME_DELTA);
            CU_ASSERT(found <= 120 + 21 * (1 + sizes[s] / data_element_nbytes(params.dtype) / 65536));
        }
    }
}

/* ---- lengths and settings ---- */

LMC_TEST(test_lengths)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_U8,  LMC_DTYPE_F8_E5M2, LMC_DTYPE_F16, LMC_DTYPE_BF16,
                                       LMC_DTYPE_F32, LMC_DTYPE_I32,     LMC_DTYPE_F64, LMC_DTYPE_I64};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (size_t nbytes = 0; nbytes < 20000; nbytes += nbytes < 250   ? 50
                                                          : nbytes < 290 ? 1
                                                                         : random_below(nbytes / 2)) {
            const lmc_params params =
                frame_params(dtypes[d], (lmc_level)(nbytes % 3), nbytes % 2 ? 0 : 10 + (unsigned)nbytes % 11);
            lmc_frame_mode mode;
            change_and_check(&params, nbytes, DATA_WEIGHTS, 0.2, 2, &mode);
            /* few bytes are stored as they are, unless all are those of the base */
            CU_ASSERT(nbytes > 255 || mode == LMC_FRAME_SHORT || memcmp(bed.content, bed.base, nbytes) == 0);
        }
    }
}

/* Few bytes that are those of the base: a delta where it is smaller than they are. */
LMC_TEST(test_short_and_equal)
{
    for (size_t nbytes = 1; nbytes <= 256; nbytes++) {
        const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 0);
        lmc_frame_mode mode;
        const size_t frame_nbytes = change_and_check(&params, nbytes, DATA_WEIGHTS, 0, 1, &mode);
        CU_ASSERT_EQUAL(mode == LMC_FRAME_DELTA, nbytes >= 40);
        CU_ASSERT(frame_nbytes <= 40 + 28);
    }
}

/* Every odd tail, changed or not, at the end of one block and of several. */
LMC_TEST(test_tails)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_F64, LMC_DTYPE_I64};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        const unsigned element_nbytes = data_element_nbytes(dtypes[d]);
        const size_t block_nbytes = (size_t)element_nbytes << 10;
        const lmc_params params = frame_params(dtypes[d], LMC_LEVEL_DEFAULT, 10);
        for (size_t more = 0; more <= 2 * element_nbytes; more++) {
            for (unsigned blocks = 1; blocks < 4; blocks++) {
                const size_t nbytes = blocks * block_nbytes + more;
                lmc_frame_mode mode;
                change_and_check(&params, nbytes, DATA_WEIGHTS, 0.3, 1, &mode);
                CU_ASSERT_EQUAL(mode, LMC_FRAME_DELTA);
                memcpy(bed.content, bed.base, nbytes);
                bed.content[nbytes - 1] ^= 0x55; /* only the tail has changed */
                base_round_trip(&bed, &params, bed.content, nbytes, bed.base, &mode);
                CU_ASSERT_EQUAL(mode, LMC_FRAME_DELTA);
            }
        }
    }
}

LMC_TEST(test_block_sizes)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_F8_E4M3, LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_I16};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (unsigned log2 = LMC_BLOCK_LOG2_MIN + (unsigned)d % LMC_TEST_STEP; log2 <= LMC_BLOCK_LOG2_MAX;
             log2 += LMC_TEST_STEP) {
            const lmc_params params = frame_params(dtypes[d], LMC_LEVEL_DEFAULT, log2);
            const size_t block_nbytes = (size_t)data_element_nbytes(dtypes[d]) << log2;
            const size_t nbytes = block_nbytes < 100000 ? 250001 : block_nbytes + 3001;
            lmc_frame_mode mode;
            change_and_check(&params, nbytes, DATA_WEIGHTS, 0.1, 2, &mode);
            CU_ASSERT_EQUAL(mode, LMC_FRAME_DELTA);
        }
    }
}

/* More than the largest block, of every width, with the library's own block size. */
LMC_TEST(test_large)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_F8_E4M3, LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_F64,
                                       LMC_DTYPE_I8,      LMC_DTYPE_I16,  LMC_DTYPE_I32, LMC_DTYPE_I64};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        const size_t nbytes = 1100001 * data_element_nbytes(dtypes[d]) + 1;
        const lmc_params params = frame_params(dtypes[d], LMC_LEVEL_DEFAULT, 0);
        lmc_frame_mode mode;
        change_and_check(&params, nbytes, DATA_WEIGHTS, d % 2 ? 0.01 : 0.4, 2, &mode);
        CU_ASSERT_EQUAL(mode, LMC_FRAME_DELTA);
    }
}

LMC_TEST(test_threads)
{
    static const unsigned counts[] = {2, 3, 7, 0};
    for (unsigned i = 0; i < 8; i++) {
        lmc_params params =
            frame_params(i % 2 ? LMC_DTYPE_BF16 : LMC_DTYPE_F32, LMC_LEVEL_DEFAULT, 10 + i / 2);
        const size_t nbytes = 200001;
        const deep_base base = {bed.base, nbytes};
        data_fill(bed.base, nbytes, params.dtype, DATA_WILD);
        base_change(bed.content, bed.base, nbytes, params.dtype, 0.3, 3);
        test_frame first = base_encode(&bed, &params, bed.content, nbytes, bed.base);
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(bed.ctx, counts[c]), LMC_OK);
            test_frame frame = base_encode(&bed, &params, bed.content, nbytes, bed.base);
            CU_ASSERT(frames_are_equal(&frame, &first));
            CU_ASSERT_EQUAL(base_decode(&bed, frame.bytes, frame.nbytes, &base, bed.content, nbytes), LMC_OK);
            frame_free(&frame);
        }
        CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(bed.ctx, 1), LMC_OK);
        frame_free(&first);
    }
}

LMC_TEST_MAIN_WITH("delta_round_trip", bed = base_bed_open(CONTENT_MAX), base_bed_close(&bed))
