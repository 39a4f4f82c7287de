/* test_delta_stage.c - blocks against their bases by any valid plan, whether an encoder would choose it or not: all
 * kernel sets write the same bytes, and each reads them, between guard pages. Plans survive their section. */
#include "lmc_test_data.h"

#include "lmc_test_base.h"

#define CONTENT_MAX 400000

static base_bed bed;

/* ---- plans ---- */

static int by_size(const void *a, const void *b)
{
    return *(const uint8_t *)a - *(const uint8_t *)b;
}

/* Any plan that a decoder must take. */
static lmc_delta random_delta(unsigned element_nbytes)
{
    lmc_delta delta;
    memset(&delta, 0, sizeof delta);
    delta.transform = (uint8_t)random_below(3);
    delta.low_nbytes = (uint8_t)(random_below(2) ? random_below(element_nbytes) : 0);
    delta.key_shift = (uint8_t)random_below(8 * element_nbytes);
    delta.class_count = 1;
    const size_t wanted = 1 + random_below(LMC_FMT_CLASS_COUNT_MAX);
    uint8_t keys[LMC_FMT_CLASS_COUNT_MAX];
    random_fill(keys, wanted);
    qsort(keys, wanted, 1, by_size);
    for (size_t i = 0; i < wanted; i++)
        if (keys[i] > delta.first_key[delta.class_count - 1] && delta.class_count < LMC_FMT_CLASS_COUNT_MAX)
            delta.first_key[delta.class_count++] = keys[i];
    for (unsigned c = 0; c < delta.class_count; c++)
        delta.class_low_nbits[c] = (uint8_t)random_below(LMC_FMT_CLASS_LOW_NBITS_MAX + 1);
    return delta;
}

LMC_TEST(test_sections)
{
    for (unsigned i = 0; i < 2000; i++) {
        const unsigned element_nbytes = 1u << i % 4;
        const lmc_delta delta = random_delta(element_nbytes);
        uint8_t section[LMC_DELTA_SECTION_NBYTES_MAX + 1];
        lmc_delta found;
        lmc_diag diag;
        const size_t nbytes = lmc_delta_write(&delta, section);
        CU_ASSERT_FATAL(nbytes <= LMC_DELTA_SECTION_NBYTES_MAX);
        CU_ASSERT_EQUAL_FATAL(lmc_delta_read(section, nbytes, element_nbytes, &found, &diag), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(&found, &delta, sizeof delta), 0);
        for (size_t cut = 0; cut < nbytes; cut++)
            CU_ASSERT_EQUAL(lmc_delta_read(section, cut, element_nbytes, &found, &diag), LMC_ERR_CORRUPT);
        section[nbytes] = 0;
        CU_ASSERT_EQUAL(lmc_delta_read(section, nbytes + 1, element_nbytes, &found, &diag), LMC_ERR_CORRUPT);
    }
}

/* ---- blocks ---- */

/* Encodes by each set, decodes by each. Returns the bytes. */
static size_t check_block(const lmc_delta *delta, unsigned element_nbytes, const uint8_t *content,
                          const uint8_t *base, size_t nbytes)
{
    uint8_t *const first = must_malloc(nbytes + 1);
    size_t first_nbytes = 0;
    for (size_t k = 0; k < bed.set_count; k++) {
        const uint8_t *stored;
        const size_t stored_nbytes =
            deep_delta_encode(bed.deep, bed.sets[k], delta, element_nbytes, content, base, nbytes, &stored);
        CU_ASSERT_FATAL(stored_nbytes >= 1 && stored_nbytes <= nbytes + 1);
        if (k == 0) {
            first_nbytes = stored_nbytes;
            memcpy(first, stored, stored_nbytes);
        }
        CU_ASSERT(stored_nbytes == first_nbytes && memcmp(stored, first, stored_nbytes) == 0);
    }
    for (size_t k = 0; k < bed.set_count; k++) {
        const uint8_t *found;
        const lmc_status status = deep_delta_decode(bed.deep, bed.sets[k], delta, element_nbytes, first,
                                                    first_nbytes, base, nbytes, &found);
        CU_ASSERT_EQUAL(status, LMC_OK);
        CU_ASSERT(status != LMC_OK || memcmp(found, content, nbytes) == 0);
    }
    free(first);
    return first_nbytes;
}

LMC_TEST(test_any_plan)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_F8_E4M3, LMC_DTYPE_BF16, LMC_DTYPE_F32, LMC_DTYPE_F64};
    static const double ulps[] = {0.1, 2, 60, 4000, 1e5, 1e8, 1e12, -1};
    for (unsigned i = 0; i < 4000; i += LMC_TEST_STEP) {
        const unsigned element_nbytes = 1u << i % 4;
        const size_t nbytes = 1 + random_below(i % 100 ? 6000 : CONTENT_MAX);
        const lmc_delta delta = random_delta(element_nbytes);
        data_fill(bed.base, nbytes, dtypes[i % 4], (data_kind)random_below(DATA_KIND_COUNT));
        base_change(bed.content, bed.base, nbytes, dtypes[i % 4], random_below(2) ? 1 : 0.05,
                    ulps[random_below(sizeof ulps / sizeof ulps[0])]);
        check_block(&delta, element_nbytes, bed.content, bed.base, nbytes);
    }
}

/* Blocks of a few elements, where lists are shorter than a bucket takes and classes hold one or none. */
LMC_TEST(test_few_elements)
{
    for (unsigned i = 0; i < 20000; i += LMC_TEST_STEP) {
        const unsigned element_nbytes = 1u << i % 4;
        const size_t nbytes = 1 + random_below(40 * element_nbytes);
        const lmc_delta delta = random_delta(element_nbytes);
        random_fill(bed.base, nbytes);
        memcpy(bed.content, bed.base, nbytes);
        for (size_t changes = random_below(6); changes > 0; changes--)
            bed.content[random_below(nbytes)] ^= (uint8_t)(random_u64() >> random_below(8));
        check_block(&delta, element_nbytes, bed.content, bed.base, nbytes);
    }
}

/* One difference in all elements, every bit of it, and all of them in the last element alone. */
LMC_TEST(test_single_bits)
{
    for (unsigned element_nbytes = 1; element_nbytes <= 8; element_nbytes *= 2) {
        for (unsigned bit = 0; bit < 8 * element_nbytes; bit++) {
            for (unsigned i = 0; i < 12; i++) {
                const lmc_delta delta = random_delta(element_nbytes);
                const size_t n = 1 + random_below(300), nbytes = n * element_nbytes;
                random_fill(bed.base, nbytes);
                memcpy(bed.content, bed.base, nbytes);
                for (size_t at = i % 2 ? 0 : n - 1; at < n; at++)
                    bed.content[at * element_nbytes + bit / 8] ^= (uint8_t)(1u << bit % 8);
                check_block(&delta, element_nbytes, bed.content, bed.base, nbytes);
            }
        }
    }
}

/* Differences about every bound of a bucket, for every number of low bits. */
LMC_TEST(test_bucket_bounds)
{
    for (unsigned low_nbits = 0; low_nbits <= LMC_FMT_CLASS_LOW_NBITS_MAX; low_nbits++) {
        for (unsigned r = 0; r < LMC_FMT_BUCKET_COUNT; r++) {
            const uint32_t bound = lmc_bucket_first(r) + (1u << lmc_bucket_nbits(r));
            for (uint32_t shown = bound - 2; shown <= bound + 2; shown++) {
                const lmc_delta delta = {.transform = LMC_FMT_DELTA_XOR,
                                         .key_shift = 8,
                                         .class_count = 1,
                                         .class_low_nbits = {(uint8_t)low_nbits}};
                const size_t n = 1 + random_below(200);
                random_fill(bed.base, 2 * n);
                for (size_t i = 0; i < n; i++)
                    lmc_store16(bed.content + 2 * i,
                                (uint16_t)(lmc_load16(bed.base + 2 * i) ^
                                           (random_below(4) ? shown << low_nbits | random_below(2) : 0)));
                check_block(&delta, 2, bed.content, bed.base, 2 * n);
            }
        }
    }
}

/* Exceptions: differences beyond what high parts and low bytes hold; few, in a row, and all. */
LMC_TEST(test_exceptions)
{
    for (unsigned element_nbytes = 4; element_nbytes <= 8; element_nbytes *= 2) {
        for (unsigned i = 0; i < 300; i++) {
            lmc_delta delta = random_delta(element_nbytes);
            const size_t n = 1 + random_below(i % 30 ? 900 : 40000),
                         every = 1 + random_below(i % 3 ? 200 : 2);
            delta.low_nbytes = (uint8_t)random_below(element_nbytes - 2);
            random_fill(bed.base, n * element_nbytes);
            memcpy(bed.content, bed.base, n * element_nbytes);
            for (size_t at = random_below(every); at < n; at += every)
                random_fill(bed.content + at * element_nbytes, element_nbytes);
            check_block(&delta, element_nbytes, bed.content, bed.base, n * element_nbytes);
        }
    }
}

/* A difference as sparse blocks have it: mostly small, sometimes an escape, too wide, or of the sign alone. */
static void change_element(uint8_t *element, unsigned element_nbytes)
{
    const unsigned nbits = 8 * element_nbytes;
    uint64_t x = lmc_load_n(element, element_nbytes);
    switch (random_below(8)) {
    case 0: x ^= UINT64_C(1) << (nbits - 1); break;
    case 1: x += random_below(0x10000) - 0x8000; break;
    case 2: x = random_u64(); break;
    default: x += random_below(7) - 3; break;
    }
    memcpy(element, &x, element_nbytes);
}

/* Few elements change, about as many as a sparse block may have, where only they are coded; classes of any size. A
 * sparse block and one that is not have the same bytes: each must be read the other way, too. */
LMC_TEST(test_sparse)
{
    for (unsigned i = 0; i < 3000; i++) {
        const unsigned element_nbytes = 1u << i % 4;
        const size_t n = 1 + random_below(i % 50 ? 5000 : CONTENT_MAX / 8), nbytes = n * element_nbytes;
        const size_t trailing_nbytes = random_below(element_nbytes);
        lmc_delta delta = random_delta(element_nbytes);
        delta.low_nbytes = 0;
        for (unsigned c = 0; c < delta.class_count; c++)
            if (i % 5 != 0 || random_below(4) != 0)
                delta.class_low_nbits[c] = 0;
        if (i % 3 == 0)
            random_fill(bed.base, nbytes + trailing_nbytes);
        else
            data_fill(bed.base, nbytes + trailing_nbytes, LMC_DTYPE_U8, DATA_WEIGHTS);
        memcpy(bed.content, bed.base, nbytes + trailing_nbytes);
        const size_t first = random_below(2) ? random_below(n) : 0;
        for (size_t changes = random_below(n / (4 + random_below(100)) + 2); changes > 0; changes--)
            change_element(bed.content + (first + random_below(n - first)) * element_nbytes, element_nbytes);
        for (size_t k = 0; k < trailing_nbytes; k++)
            bed.content[nbytes + k] ^= (uint8_t)random_below(2);
        check_block(&delta, element_nbytes, bed.content, bed.base, nbytes + trailing_nbytes);
    }
}

/* A block that is its base is one byte, whatever the plan; no block takes more than its content and a byte. */
LMC_TEST(test_same_and_stored)
{
    for (unsigned i = 0; i < 400; i++) {
        const unsigned element_nbytes = 1u << i % 4;
        const size_t nbytes = 1 + random_below(i % 40 ? 3000 : CONTENT_MAX);
        const lmc_delta delta = random_delta(element_nbytes);
        random_fill(bed.base, nbytes);
        CU_ASSERT_EQUAL(check_block(&delta, element_nbytes, bed.base, bed.base, nbytes), 1);
        random_fill(bed.content, nbytes);
        check_block(&delta, element_nbytes, bed.content, bed.base, nbytes);
    }
}

LMC_TEST_MAIN_WITH("delta_stage", bed = base_bed_open(CONTENT_MAX), base_bed_close(&bed))
