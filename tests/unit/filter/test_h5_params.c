/* test_h5_params.c - the values of the HDF5 filter: what is refused and in which words, how they are completed for a
 * type and a pipeline, and that what was written reads the same. */
#include "lmc_test_h5.h"

#define MAGIC LMC_H5_MAGIC

/* A refusal of the value with this index must name it and its number, and leave the defaults. */
static void check_refused(const unsigned *values, size_t count, unsigned index)
{
    lmc_h5_params params;
    char name[16], number[16];
    memset(&params, 0xaa, sizeof params);
    snprintf(name, sizeof name, "[%u]", index);
    snprintf(number, sizeof number, "%u", values[index]);
    CU_ASSERT_EQUAL(lmc_h5_params_read_user(values, count, &params), LMC_ERR_ARG);
    CU_ASSERT(strncmp(lmc_h5_last_error(), "lmc", 3) == 0);
    CU_ASSERT(strstr(lmc_h5_last_error(), name) != NULL);
    CU_ASSERT(strstr(lmc_h5_last_error(), number) != NULL);
    CU_ASSERT_EQUAL(params.level, LMC_LEVEL_DEFAULT);
    CU_ASSERT(params.override_nbytes == 0 && params.block_nbytes == 0 && !params.is_complete);
    CU_ASSERT_EQUAL(lmc_h5_params_read(values, count, &params), LMC_ERR_ARG);
    CU_ASSERT(strstr(lmc_h5_last_error(), name) != NULL);
    CU_ASSERT(!params.is_complete);
}

static lmc_h5_params must_read_user(const unsigned *values, size_t count)
{
    lmc_h5_params params, again;
    memset(&params, 0xaa, sizeof params);
    CU_ASSERT_EQUAL_FATAL(lmc_h5_params_read_user(values, count, &params), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_h5_params_read(values, count, &again), LMC_OK);
    CU_ASSERT(params.level == again.level && params.override_nbytes == again.override_nbytes &&
              params.block_nbytes == again.block_nbytes && !params.is_complete && !again.is_complete);
    return params;
}

/* ---- values of a user ---- */

LMC_TEST(test_no_values)
{
    const unsigned none[1] = {99};
    const lmc_h5_params a = must_read_user(NULL, 0), b = must_read_user(none, 0);
    CU_ASSERT(a.level == LMC_LEVEL_DEFAULT && a.override_nbytes == 0 && a.block_nbytes == 0);
    CU_ASSERT(b.level == LMC_LEVEL_DEFAULT && b.override_nbytes == 0 && b.block_nbytes == 0);
    CU_ASSERT_EQUAL(lmc_h5_params_filtered_nbytes(&a), 0);
}

LMC_TEST(test_every_level)
{
    static const unsigned bad[] = {3,  4,  9,   15,          19,          20,          31,         32,
                                   33, 48, 100, 0x7fffffffu, 0x80000000u, 0x80000010u, 0xffffffffu};
    for (unsigned level = 0; level < 3; level++)
        CU_ASSERT_EQUAL(must_read_user(&level, 1).level, level);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check_refused(&bad[i], 1, 0);
}

LMC_TEST(test_every_element_size)
{
    for (unsigned nbytes = 0; nbytes < 300; nbytes++) {
        const unsigned values[2] = {2, nbytes};
        if (nbytes != 0 && nbytes != 1 && nbytes != 2 && nbytes != 4 && nbytes != 8)
            check_refused(values, 2, 1);
        else
            CU_ASSERT_EQUAL(must_read_user(values, 2).override_nbytes, nbytes);
    }
    check_refused((const unsigned[]){0, 0xffffffffu}, 2, 1);
    check_refused((const unsigned[]){0, 0x80000004u}, 2, 1);
}

LMC_TEST(test_every_block_size)
{
    for (unsigned kib = 0; kib < 5000; kib++) {
        const unsigned values[3] = {1, 4, kib};
        const int is_good = kib == 0 || kib == 16 || kib == 32 || kib == 64 || kib == 128 || kib == 256 ||
                            kib == 512 || kib == 1024;
        if (!is_good)
            check_refused(values, 3, 2);
        else
            CU_ASSERT_EQUAL(must_read_user(values, 3).block_nbytes, kib * 1024);
    }
    check_refused((const unsigned[]){0, 0, 0x80000000u}, 3, 2);
    check_refused((const unsigned[]){0, 0, 0x80000010u}, 3, 2);
}

/* Without the magic, 3 is the most; with it, 10, and 8 are what is there at least. */
LMC_TEST(test_every_count)
{
    unsigned values[11] = {1, 2, 16, MAGIC, 2, 0, 0, 0, 0, 0, 0};
    lmc_h5_params params;
    for (size_t count = 0; count <= 11; count++) {
        const int is_complete = count >= 8 && count <= 10;
        values[3] = MAGIC;
        CU_ASSERT_EQUAL(lmc_h5_params_read_user(values, count, &params), count > 10 ? LMC_ERR_ARG : LMC_OK);
        CU_ASSERT_EQUAL(lmc_h5_params_read(values, count, &params),
                        count <= 3 || is_complete ? LMC_OK : LMC_ERR_ARG);
        CU_ASSERT_EQUAL(params.is_complete, is_complete);
        if (count > 3 && count <= 10) {
            for (unsigned i = 0; i < 4; i++) {
                values[3] = (const unsigned[]){0, 1, MAGIC + 1, 0xffffffffu}[i];
                check_refused(values, count, 3);
            }
        }
    }
    CU_ASSERT(strstr(lmc_h5_last_error(), "lmc") != NULL);
    CU_ASSERT_EQUAL(lmc_h5_params_read_user(values, 64, &params), LMC_ERR_ARG);
    CU_ASSERT(strstr(lmc_h5_last_error(), "64 values") != NULL);
}

/* The user's values are judged in complete values, too; what else there is, the user's reader does not look at. */
LMC_TEST(test_user_values_in_complete_ones)
{
    lmc_h5_params params;
    const unsigned junk[8] = {2, 8, 1024, MAGIC, 77, 0xffffffffu, 1, 1};
    CU_ASSERT_EQUAL(lmc_h5_params_read_user(junk, 8, &params), LMC_OK);
    CU_ASSERT(params.level == LMC_LEVEL_MAX && params.override_nbytes == 8 && params.block_nbytes == 1 << 20);
    CU_ASSERT(!params.is_complete && params.chunk_nbytes == 0);
    check_refused((const unsigned[]){3, 0, 0, MAGIC, 4, 0, 0, 0}, 8, 0);
    check_refused((const unsigned[]){0, 3, 0, MAGIC, 4, 0, 0, 0}, 8, 1);
    check_refused((const unsigned[]){0, 0, 3, MAGIC, 4, 0, 0, 0}, 8, 2);
}

/* ---- completed values ---- */

static lmc_status read_type(unsigned element_nbytes, unsigned type, lmc_h5_params *params)
{
    const unsigned values[8] = {0, 0, 0, MAGIC, element_nbytes, type, 0x89abcdefu, 0x01234567u};
    memset(params, 0xaa, sizeof *params);
    return lmc_h5_params_read(values, 8, params);
}

static void check_type(unsigned element_nbytes, unsigned type, int is_good)
{
    lmc_h5_params params;
    char number[16];
    const lmc_status status = read_type(element_nbytes, type, &params);
    snprintf(number, sizeof number, "0x%x", type);
    if (status != (is_good ? LMC_OK : LMC_ERR_ARG))
        printf("\nelements of %u bytes, type 0x%x: status %d\n", element_nbytes, type, status);
    CU_ASSERT_EQUAL(status, is_good ? LMC_OK : LMC_ERR_ARG);
    CU_ASSERT_EQUAL(params.is_complete, is_good);
    if (is_good) {
        CU_ASSERT(params.element_nbytes == element_nbytes && params.type == type);
        CU_ASSERT(params.chunk_nbytes == UINT64_C(0x0123456789abcdef));
    } else {
        CU_ASSERT(strstr(lmc_h5_last_error(), "[4]") != NULL && strstr(lmc_h5_last_error(), number) != NULL);
    }
}

LMC_TEST(test_elements)
{
    for (unsigned nbytes = 0; nbytes < 300; nbytes++) {
        const int is_element = nbytes == 1 || nbytes == 2 || nbytes == 4 || nbytes == 8;
        check_type(nbytes, 255, is_element);
        check_type(nbytes, LMC_H5_TYPE_RESIZED | 9, is_element);
        check_type(nbytes, LMC_H5_TYPE_COLUMNS | 6, nbytes >= 2 && nbytes <= 256);
        check_type(nbytes, LMC_H5_TYPE_BIG_ENDIAN | 1, is_element && nbytes > 1);
    }
    check_type(0xffffffffu, LMC_H5_TYPE_COLUMNS, 0);
    check_type(0x80000001u, 0, 0);
}

/* The dtype must be of the element's size; small ones of less than a byte are none. */
LMC_TEST(test_dtypes)
{
    for (unsigned number = 0; number < 256; number++) {
        for (unsigned nbytes = 1; nbytes <= 8; nbytes *= 2) {
            const unsigned nbits =
                number > 0 && number <= LMC_DTYPE_COUNT ? lmc_dtype_nbits((lmc_dtype)(number - 1)) : 0;
            check_type(nbytes, number << 16 | 1, number == 0 || nbits == 8 * nbytes);
        }
    }
}

/* A shuffle filter's element is 2 to 256 bytes, in whole elements; there is no span without SHUFFLED. */
LMC_TEST(test_shuffle_spans)
{
    for (unsigned span = 0; span < 256; span++) {
        for (unsigned nbytes = 1; nbytes <= 8; nbytes *= 2) {
            const unsigned width = span * nbytes;
            check_type(nbytes, span << 24 | LMC_H5_TYPE_SHUFFLED, width >= 2 && width <= 256);
            check_type(nbytes, span << 24, span == 0);
        }
    }
}

/* Columns are neither turned around nor shuffled, and have no dtype. */
LMC_TEST(test_flags_that_exclude_each_other)
{
    check_type(4, LMC_H5_TYPE_COLUMNS, 1);
    check_type(4, LMC_H5_TYPE_COLUMNS | LMC_H5_TYPE_RESIZED, 1);
    check_type(4, LMC_H5_TYPE_COLUMNS | LMC_H5_TYPE_BIG_ENDIAN, 0);
    check_type(4, LMC_H5_TYPE_COLUMNS | LMC_H5_TYPE_SHUFFLED | 1u << 24, 0);
    check_type(4, LMC_H5_TYPE_COLUMNS | 1u << 24, 0);
    check_type(4, LMC_H5_TYPE_COLUMNS | (LMC_DTYPE_F32 + 1u) << 16, 0);
    for (unsigned bit = 12; bit < 16; bit++)
        check_type(4, 1u << bit, 0);
}

/* ---- guessing ---- */

static lmc_h5_params guess(const unsigned *values, size_t count)
{
    char before[256];
    lmc_h5_params params;
    memset(&params, 0xaa, sizeof params);
    strcpy(before, lmc_h5_last_error());
    lmc_h5_params_guess(values, count, &params);
    CU_ASSERT_STRING_EQUAL(lmc_h5_last_error(), before); /* nothing has failed */
    return params;
}

/* What is right is read as ever; of what is wrong no more than the user's values are believed. */
LMC_TEST(test_guesses)
{
    const unsigned good[8] = {2, 4, 16, MAGIC, 4, LMC_H5_TYPE_BIG_ENDIAN | 1, 77, 0};
    lmc_h5_params params = guess(good, 8);
    CU_ASSERT(params.is_complete && params.type == good[5] && params.chunk_nbytes == 77);
    CU_ASSERT(params.level == LMC_LEVEL_MAX && params.override_nbytes == 4 && params.block_nbytes == 16384);
    for (size_t count = 0; count <= 11; count++) {
        const unsigned values[11] = {2, 4, 16, MAGIC, 4, LMC_H5_TYPE_SHUFFLED, 77};
        const unsigned no_magic[11] = {2, 4, 16, 5, 4, 0, 77};
        params = guess(values, count);
        CU_ASSERT(!params.is_complete && params.chunk_nbytes == 0);
        CU_ASSERT_EQUAL(params.level, count > 0 && count < 11 ? LMC_LEVEL_MAX : LMC_LEVEL_DEFAULT);
        params = guess(no_magic, count);
        CU_ASSERT(!params.is_complete && params.chunk_nbytes == 0);
    }
    params = guess((const unsigned[]){3, 4, 16, MAGIC, 4, 0, 77, 0}, 8);
    CU_ASSERT(!params.is_complete && params.level == LMC_LEVEL_DEFAULT && params.override_nbytes == 0);
    params = guess(NULL, 0);
    CU_ASSERT(!params.is_complete && params.level == LMC_LEVEL_DEFAULT && params.block_nbytes == 0);
}

/* ---- completing ---- */

static lmc_h5_params complete(const unsigned *user, size_t count, const lmc_h5_type *type,
                              const lmc_h5_pipeline *pipeline, uint64_t chunk_nbytes)
{
    lmc_h5_params params;
    CU_ASSERT_EQUAL_FATAL(lmc_h5_params_read_user(user, count, &params), LMC_OK);
    lmc_h5_params_complete(&params, type, pipeline, chunk_nbytes);
    CU_ASSERT(params.is_complete && params.chunk_nbytes == chunk_nbytes);
    return params;
}

/* What is written reads the same, and completing it again changes nothing, on the same dataset or after another. */
static void check_stable(const unsigned *user, size_t count, const lmc_h5_type *type,
                         const lmc_h5_pipeline *pipeline)
{
    static const lmc_h5_type other_type = {H5_CLASS_COMPOUND, 9, 0, 0, 0};
    static const lmc_h5_pipeline other_pipeline = {0, 1, 0};
    const uint64_t chunk_nbytes = UINT64_C(0x3cafe1234);
    unsigned first[8], second[8], between[8];
    lmc_h5_params params = complete(user, count, type, pipeline, chunk_nbytes), read;
    lmc_h5_params_write(&params, first);
    CU_ASSERT_EQUAL_FATAL(lmc_h5_params_read(first, 8, &read), LMC_OK);
    CU_ASSERT(read.is_complete && read.level == params.level && read.type == params.type &&
              read.override_nbytes == params.override_nbytes && read.block_nbytes == params.block_nbytes &&
              read.element_nbytes == params.element_nbytes && read.chunk_nbytes == chunk_nbytes);
    for (size_t i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(first[i], i < count ? user[i] : 0);
    CU_ASSERT(first[3] == MAGIC && first[6] == 0xcafe1234u && first[7] == 3);
    params = complete(first, 8, type, pipeline, chunk_nbytes);
    lmc_h5_params_write(&params, second);
    CU_ASSERT_EQUAL(memcmp(first, second, sizeof first), 0);
    params = complete(first, 8, &other_type, &other_pipeline, 5);
    lmc_h5_params_write(&params, between);
    params = complete(between, 8, type, pipeline, chunk_nbytes);
    lmc_h5_params_write(&params, second);
    CU_ASSERT_EQUAL(memcmp(first, second, sizeof first), 0);
}

LMC_TEST(test_everything_is_stable)
{
    static const unsigned sizes[] = {0, 1, 2, 3, 4, 5, 8, 12, 16, 255, 256, 257, 70000};
    static const unsigned classes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255};
    static const unsigned overrides[] = {0, 1, 2, 4, 8};
    static const lmc_h5_pipeline pipelines[] = {{0, 0, 0},   {1, 0, 0},     {2, 0, 0},  {4, 0, 0},
                                                {7, 0, 0},   {8, 0, 1},     {16, 0, 0}, {256, 0, 0},
                                                {257, 0, 0}, {65536, 0, 0}, {0, 1, 0},  {4, 1, 1}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t c = 0; c < sizeof classes / sizeof classes[0]; c++)
            for (size_t o = 0; o < sizeof overrides / sizeof overrides[0]; o++)
                for (size_t p = 0; p < sizeof pipelines / sizeof pipelines[0]; p++)
                    for (unsigned bits = 0; bits < 8; bits++) {
                        const unsigned user[3] = {bits % 3, overrides[o], bits & 1 ? 64 : 0};
                        const lmc_h5_type type = {classes[c], sizes[s], (int)(bits & 1), bits & 2 ? 8 : 5,
                                                  (int)(bits >> 2)};
                        check_stable(user, 3, &type, &pipelines[p]);
                    }
    check_stable(NULL, 0, &h5_cases[0].type, &h5_cases[0].pipeline);
    check_stable((const unsigned[]){2}, 1, &h5_cases[0].type, &h5_cases[0].pipeline);
}

static void check_complete(unsigned override_nbytes, lmc_h5_type type, lmc_h5_pipeline pipeline,
                           unsigned element_nbytes, unsigned expected_type)
{
    const unsigned user[2] = {0, override_nbytes};
    const lmc_h5_params params = complete(user, 2, &type, &pipeline, 1000);
    if (params.element_nbytes != element_nbytes || params.type != expected_type)
        printf("\nclass %u of %zu bytes, override %u, shuffle %zu: elements of %u, type 0x%x instead of %u, "
               "0x%x\n",
               type.class_number, type.nbytes, override_nbytes, pipeline.shuffle_nbytes,
               params.element_nbytes, params.type, element_nbytes, expected_type);
    CU_ASSERT_EQUAL(params.element_nbytes, element_nbytes);
    CU_ASSERT_EQUAL(params.type, expected_type);
    CU_ASSERT_EQUAL(lmc_h5_params_filtered_nbytes(&params), expected_type & LMC_H5_TYPE_RESIZED ? 0 : 1000);
}

#define DTYPE(name) ((LMC_DTYPE_##name + 1u) << 16)
#define TYPE(...) ((lmc_h5_type){__VA_ARGS__})
#define BEFORE(...) ((lmc_h5_pipeline){__VA_ARGS__})
#define NOTHING ((lmc_h5_pipeline){0, 0, 0})

/* Every exponent from 0 to 20 in floats of every size: only those of a dtype become one. */
LMC_TEST(test_floats)
{
    for (unsigned nbytes = 1; nbytes <= 8; nbytes *= 2) {
        for (unsigned exponent = 0; exponent <= 20; exponent++) {
            unsigned dtype = 0;
            switch (nbytes * 100 + exponent) {
            case 104: dtype = DTYPE(F8_E4M3); break;
            case 105: dtype = DTYPE(F8_E5M2); break;
            case 205: dtype = DTYPE(F16); break;
            case 208: dtype = DTYPE(BF16); break;
            case 408: dtype = DTYPE(F32); break;
            case 811: dtype = DTYPE(F64); break;
            default: break;
            }
            check_complete(0, TYPE(H5_CLASS_FLOAT, nbytes, 0, exponent, 1), NOTHING, nbytes,
                           dtype | H5_CLASS_FLOAT);
            check_complete(0, TYPE(H5_CLASS_FLOAT, nbytes, 1, exponent, 1), NOTHING, nbytes,
                           dtype | H5_CLASS_FLOAT | (nbytes > 1 ? LMC_H5_TYPE_BIG_ENDIAN : 0));
        }
    }
    check_complete(0, TYPE(H5_CLASS_FLOAT, 16, 1, 15, 1), NOTHING, 16, H5_CLASS_FLOAT | LMC_H5_TYPE_COLUMNS);
}

LMC_TEST(test_other_classes)
{
    static const unsigned sampled[] = {H5_CLASS_INTEGER, H5_CLASS_TIME, H5_CLASS_BITFIELD, H5_CLASS_OPAQUE,
                                       H5_CLASS_UNKNOWN};
    for (size_t i = 0; i < sizeof sampled / sizeof sampled[0]; i++) {
        for (unsigned nbytes = 1; nbytes <= 8; nbytes *= 2) {
            check_complete(0, TYPE(sampled[i], nbytes, 0, 0, 1), NOTHING, nbytes, sampled[i]);
            check_complete(0, TYPE(sampled[i], nbytes, 1, 0, 1), NOTHING, nbytes,
                           sampled[i] | (nbytes > 1 ? LMC_H5_TYPE_BIG_ENDIAN : 0));
        }
    }
    check_complete(0, TYPE(H5_CLASS_ENUM, 1, 0, 0, 1), NOTHING, 1, DTYPE(U8) | H5_CLASS_ENUM);
    check_complete(0, TYPE(H5_CLASS_ENUM, 2, 1, 0, 1), NOTHING, 2, LMC_H5_TYPE_BIG_ENDIAN | H5_CLASS_ENUM);
    check_complete(0, TYPE(H5_CLASS_STRING, 4, 0, 0, 1), NOTHING, 1, DTYPE(U8) | H5_CLASS_STRING);
    check_complete(0, TYPE(H5_CLASS_STRING, 900, 0, 0, 1), NOTHING, 1, DTYPE(U8) | H5_CLASS_STRING);
}

/* Other sizes are records, and what is larger still is bytes. */
LMC_TEST(test_record_sizes)
{
    for (unsigned nbytes = 3; nbytes < 300; nbytes++) {
        if (nbytes == 4 || nbytes == 8)
            continue;
        const unsigned expected = nbytes <= 256 ? LMC_H5_TYPE_COLUMNS : DTYPE(U8);
        check_complete(0, TYPE(H5_CLASS_COMPOUND, nbytes, 1, 0, 1), NOTHING, nbytes <= 256 ? nbytes : 1,
                       expected | H5_CLASS_COMPOUND);
    }
    check_complete(0, TYPE(H5_CLASS_OPAQUE, 0, 0, 0, 1), NOTHING, 1, DTYPE(U8) | H5_CLASS_OPAQUE);
    check_complete(0, TYPE(H5_CLASS_COMPOUND, (size_t)-1, 0, 0, 1), NOTHING, 1,
                   DTYPE(U8) | H5_CLASS_COMPOUND);
}

LMC_TEST(test_variable_length)
{
    check_complete(0, TYPE(H5_CLASS_VLEN, 16, 0, 0, 0), NOTHING, 16,
                   H5_CLASS_VLEN | LMC_H5_TYPE_COLUMNS | LMC_H5_TYPE_RESIZED);
    check_complete(0, TYPE(H5_CLASS_STRING, 8, 0, 0, 0), NOTHING, 8, H5_CLASS_STRING | LMC_H5_TYPE_RESIZED);
    check_complete(0, TYPE(H5_CLASS_REFERENCE, 8, 0, 0, 0), NOTHING, 8,
                   H5_CLASS_REFERENCE | LMC_H5_TYPE_RESIZED);
}

/* The user's word on the element's size is taken: the type counts no longer, unless it says the same. */
LMC_TEST(test_override)
{
    check_complete(2, TYPE(H5_CLASS_FLOAT, 2, 1, 8, 1), NOTHING, 2,
                   DTYPE(BF16) | LMC_H5_TYPE_BIG_ENDIAN | H5_CLASS_FLOAT);
    check_complete(4, TYPE(H5_CLASS_FLOAT, 8, 1, 11, 1), NOTHING, 4, H5_CLASS_FLOAT);
    check_complete(8, TYPE(H5_CLASS_INTEGER, 2, 0, 0, 1), NOTHING, 8, H5_CLASS_INTEGER);
    check_complete(1, TYPE(H5_CLASS_FLOAT, 4, 0, 8, 1), NOTHING, 1, DTYPE(U8) | H5_CLASS_FLOAT);
    check_complete(2, TYPE(H5_CLASS_COMPOUND, 100, 0, 0, 1), NOTHING, 2, H5_CLASS_COMPOUND);
    check_complete(2, TYPE(H5_CLASS_INTEGER, 1, 0, 0, 1), NOTHING, 2, H5_CLASS_INTEGER);
    check_complete(2, TYPE(H5_CLASS_VLEN, 16, 0, 0, 0), NOTHING, 2, H5_CLASS_VLEN | LMC_H5_TYPE_RESIZED);
}

#define SHUFFLED(span) (LMC_H5_TYPE_SHUFFLED | (span##u) << 24)

LMC_TEST(test_shuffle)
{
    const lmc_h5_type f32 = {H5_CLASS_FLOAT, 4, 0, 8, 1};
    const lmc_h5_type records = {H5_CLASS_COMPOUND, 12, 0, 0, 1};
    const unsigned bytes = DTYPE(U8) | H5_CLASS_FLOAT;
    check_complete(0, f32, BEFORE(4, 0, 0), 4, DTYPE(F32) | SHUFFLED(1) | H5_CLASS_FLOAT);
    check_complete(0, f32, BEFORE(12, 0, 0), 4, DTYPE(F32) | SHUFFLED(3) | H5_CLASS_FLOAT);
    check_complete(0, f32, BEFORE(256, 0, 0), 4, DTYPE(F32) | SHUFFLED(64) | H5_CLASS_FLOAT);
    check_complete(0, f32, BEFORE(1, 0, 0), 4, DTYPE(F32) | H5_CLASS_FLOAT); /* does nothing */
    check_complete(0, f32, BEFORE(260, 0, 0), 1, bytes);                     /* too wide */
    check_complete(0, f32, BEFORE((size_t)1 << 40, 0, 0), 1, bytes);
    check_complete(0, f32, BEFORE(6, 0, 0), 1, bytes); /* no whole elements */
    check_complete(0, f32, BEFORE(2, 0, 0), 1, bytes);
    check_complete(8, f32, BEFORE(4, 0, 0), 1, bytes);
    check_complete(2, f32, BEFORE(4, 0, 0), 2, SHUFFLED(2) | H5_CLASS_FLOAT);
    check_complete(1, f32, BEFORE(4, 0, 0), 1, bytes | SHUFFLED(4));
    check_complete(1, f32, BEFORE(255, 0, 0), 1, bytes | SHUFFLED(255));
    check_complete(1, f32, BEFORE(256, 0, 0), 1, bytes); /* more than a span can say */
    check_complete(0, records, BEFORE(12, 0, 0), 1, DTYPE(U8) | H5_CLASS_COMPOUND);
}

/* After a filter with bytes of its own nothing is left of the elements; one that appends some leaves them. */
LMC_TEST(test_other_filters)
{
    const lmc_h5_type f32 = {H5_CLASS_FLOAT, 4, 1, 8, 1};
    const unsigned bytes = DTYPE(U8) | H5_CLASS_FLOAT | LMC_H5_TYPE_RESIZED;
    check_complete(0, f32, BEFORE(0, 1, 0), 1, bytes);
    check_complete(0, f32, BEFORE(4, 1, 0), 1, bytes);
    check_complete(0, f32, BEFORE(4, 1, 1), 1, bytes);
    check_complete(8, f32, BEFORE(0, 1, 0), 1, bytes);
    check_complete(0, f32, BEFORE(0, 0, 1), 4,
                   DTYPE(F32) | LMC_H5_TYPE_BIG_ENDIAN | LMC_H5_TYPE_RESIZED | H5_CLASS_FLOAT);
}

LMC_TEST(test_filtered_size)
{
    lmc_h5_params params = {.is_complete = 1, .chunk_nbytes = UINT64_C(5) << 32};
    CU_ASSERT_EQUAL(lmc_h5_params_filtered_nbytes(&params), UINT64_C(5) << 32);
    params.type = LMC_H5_TYPE_RESIZED;
    CU_ASSERT_EQUAL(lmc_h5_params_filtered_nbytes(&params), 0);
    params.type = 0;
    params.is_complete = 0;
    CU_ASSERT_EQUAL(lmc_h5_params_filtered_nbytes(&params), 0);
}

LMC_TEST_MAIN("lmc_h5_params")
