/*
 * test_st_sketch.c - sketches: places of tensors of all sizes, what is read there, distances, and predictions that put
 * near and far relatives in order.
 */
#include "lmc_test.h"

#include "lmc_experimental.h"
#include "safetensors/store/sketch.h"

/* ---- a tensor whose bytes are made when they are read ---- */

typedef struct tensor {
    uint64_t nbytes;
    uint64_t read_nbytes;
    int is_outside; /* something behind its end was read */
} tensor;

static unsigned char byte_at(uint64_t offset)
{
    return (unsigned char)((offset * 0x9e3779b97f4a7c15) >> 56);
}

static lmc_status read_made(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    tensor *const tensor = user;
    if (offset > tensor->nbytes || nbytes > tensor->nbytes - offset)
        tensor->is_outside = 1;
    for (size_t i = 0; i < nbytes; i++)
        ((unsigned char *)dst)[i] = byte_at(offset + i);
    tensor->read_nbytes += nbytes;
    return LMC_OK;
}

static lmc_status read_fails(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)user;
    (void)offset;
    memset(dst, 0, nbytes);
    return LMC_ERR_IO;
}

/* ---- places ---- */

static void check_places(unsigned dtype, uint64_t nbytes)
{
    uint64_t offsets[ST_SKETCH_PLACE_COUNT], again[ST_SKETCH_PLACE_COUNT];
    const unsigned element_nbytes = st_sketch_element_nbytes(dtype);
    const size_t count = st_sketch_places(dtype, nbytes, offsets);
    CU_ASSERT_EQUAL_FATAL(count, nbytes > 256 ? ST_SKETCH_PLACE_COUNT : 0);
    CU_ASSERT_EQUAL(st_sketch_places(dtype, nbytes, again), count);
    for (size_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(offsets[i], again[i]);
        CU_ASSERT_EQUAL(offsets[i] % element_nbytes, 0);
        CU_ASSERT(offsets[i] <= nbytes && nbytes - offsets[i] >= ST_SKETCH_RUN_NBYTES);
        CU_ASSERT(i == 0 || offsets[i] - offsets[i - 1] >= ST_SKETCH_RUN_NBYTES);
    }
}

LMC_TEST(test_places)
{
    static const uint64_t large[] = {1 << 20, 4097 * 4093 * 2, UINT32_MAX, (uint64_t)1 << 40, UINT64_MAX};
    for (unsigned dtype = 0; dtype < LMC_DTYPE_COUNT; dtype++) {
        for (uint64_t nbytes = 0; nbytes < 3000; nbytes++)
            check_places(dtype, nbytes);
        for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
            check_places(dtype, large[i]);
    }
}

/* A matrix of 4096 columns: the places are in many of them. */
LMC_TEST(test_columns)
{
    uint64_t offsets[ST_SKETCH_PLACE_COUNT];
    unsigned same = 0;
    CU_ASSERT_EQUAL(st_sketch_places(LMC_DTYPE_BF16, 4096 * 4096 * 2, offsets), ST_SKETCH_PLACE_COUNT);
    for (unsigned i = 0; i < ST_SKETCH_PLACE_COUNT; i++)
        for (unsigned j = 0; j < i; j++)
            same += offsets[i] / 2 % 4096 == offsets[j] / 2 % 4096;
    CU_ASSERT(same < 4);
}

LMC_TEST(test_element_sizes)
{
    CU_ASSERT_EQUAL(st_sketch_element_nbytes(LMC_DTYPE_F4), 1);
    CU_ASSERT_EQUAL(st_sketch_element_nbytes(LMC_DTYPE_BF16), 2);
    CU_ASSERT_EQUAL(st_sketch_element_nbytes(LMC_DTYPE_C64), 4);
    CU_ASSERT_EQUAL(st_sketch_element_nbytes(LMC_DTYPE_F64), 8);
    CU_ASSERT_EQUAL(st_sketch_pair_count(LMC_DTYPE_BF16, 1000, LMC_BASE_PLAIN, 0), 128);
    CU_ASSERT_EQUAL(st_sketch_pair_count(LMC_DTYPE_BF16, 1000, LMC_BASE_BF16_OF_F32, 0), 64);
    CU_ASSERT_EQUAL(st_sketch_pair_count(LMC_DTYPE_BF16, 1000, LMC_BASE_PLAIN, 1), 32);
    CU_ASSERT_EQUAL(st_sketch_pair_count(LMC_DTYPE_BF16, 7, LMC_BASE_PLAIN, 0), 3);
    CU_ASSERT_EQUAL(st_sketch_head_nbytes(511), 0);
    CU_ASSERT_EQUAL(st_sketch_head_nbytes(512), 512);
    CU_ASSERT_EQUAL(st_sketch_head_nbytes(1023), 512);
    CU_ASSERT_EQUAL(st_sketch_head_nbytes(UINT64_MAX), ST_SKETCH_HEAD_NBYTES_MAX);
}

/* ---- what is read ---- */

LMC_TEST(test_contents)
{
    static const uint64_t sizes[] = {0, 1, 3, 255, 256, 257, 258, 1000, (uint64_t)1 << 41};
    for (unsigned dtype = 0; dtype < LMC_DTYPE_COUNT; dtype++) {
        const unsigned element_nbytes = st_sketch_element_nbytes(dtype);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            tensor tensor = {sizes[i], 0, 0};
            st_sketch sketch;
            uint64_t offsets[ST_SKETCH_PLACE_COUNT];
            const size_t count = st_sketch_places(dtype, sizes[i], offsets);
            CU_ASSERT_EQUAL(st_sketch_make(dtype, sizes[i], read_made, &tensor, &sketch), LMC_OK);
            CU_ASSERT_FALSE(tensor.is_outside);
            CU_ASSERT_EQUAL(tensor.read_nbytes, sizes[i] < 256 ? sizes[i] : 256);
            for (size_t at = 0; at < 256; at++) {
                const size_t element = at / element_nbytes;
                const uint64_t offset =
                    count == 0 ? at
                               : offsets[element % 32] + element / 32 * element_nbytes + at % element_nbytes;
                CU_ASSERT_EQUAL(sketch.bytes[at], offset < sizes[i] ? byte_at(offset) : 0);
            }
        }
    }
}

LMC_TEST(test_heads)
{
    tensor tensor = {2 * 4096 * 100, 0, 0};
    st_sketch first, second;
    CU_ASSERT_EQUAL(st_sketch_make_head(LMC_DTYPE_BF16, tensor.nbytes, read_made, &tensor, &first), LMC_OK);
    CU_ASSERT_EQUAL(tensor.read_nbytes, 64);
    tensor.nbytes = 2 * 4096 * 101;
    CU_ASSERT_EQUAL(st_sketch_make_head(LMC_DTYPE_BF16, tensor.nbytes, read_made, &tensor, &second), LMC_OK);
    CU_ASSERT_FALSE(tensor.is_outside);
    CU_ASSERT_EQUAL(memcmp(&first, &second, sizeof first), 0);
    tensor.nbytes = 512; /* the least that has one */
    CU_ASSERT_EQUAL(st_sketch_make_head(LMC_DTYPE_F64, tensor.nbytes, read_made, &tensor, &second), LMC_OK);
    CU_ASSERT_FALSE(tensor.is_outside);
}

LMC_TEST(test_failed_read)
{
    st_sketch sketch;
    CU_ASSERT_EQUAL(st_sketch_make(LMC_DTYPE_F32, 100, read_fails, NULL, &sketch), LMC_ERR_IO);
    CU_ASSERT_EQUAL(st_sketch_make(LMC_DTYPE_F32, 100000, read_fails, NULL, &sketch), LMC_ERR_IO);
    CU_ASSERT_EQUAL(st_sketch_make_head(LMC_DTYPE_F32, 100000, read_fails, NULL, &sketch), LMC_ERR_IO);
}

/* ---- values ---- */

typedef struct memory {
    const unsigned char *bytes;
} memory;

static lmc_status read_memory(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    memcpy(dst, ((const memory *)user)->bytes + offset, nbytes);
    return LMC_OK;
}

#define VALUE_COUNT 6000

static float f32_values[VALUE_COUNT];
static unsigned char bf16_values[2 * VALUE_COUNT];

static void fill_values(unsigned seed)
{
    srand(seed);
    for (size_t i = 0; i < VALUE_COUNT; i++)
        f32_values[i] = ((float)(rand() % 2001) - 1000) / (float)(1 + rand() % 2000) * 0.01f;
}

static st_sketch sketch_of(unsigned dtype, const void *values, size_t nbytes)
{
    memory memory = {values};
    st_sketch sketch;
    CU_ASSERT_EQUAL(st_sketch_make(dtype, nbytes, read_memory, &memory, &sketch), LMC_OK);
    return sketch;
}

LMC_TEST(test_rounding)
{
    fill_values(1);
    lmc_base_round(LMC_BASE_BF16_OF_F32, f32_values, VALUE_COUNT, bf16_values);
    for (size_t count = 0; count < VALUE_COUNT; count += count < 200 ? 1 : 97) {
        const st_sketch f32 = sketch_of(LMC_DTYPE_F32, f32_values, 4 * count);
        const st_sketch bf16 = sketch_of(LMC_DTYPE_BF16, bf16_values, 2 * count);
        const size_t pair_count = st_sketch_pair_count(LMC_DTYPE_BF16, 2 * count, LMC_BASE_BF16_OF_F32, 0);
        st_sketch rounded;
        if (!st_sketch_can_round(LMC_BASE_BF16_OF_F32, 4 * count)) {
            CU_ASSERT(count > 64 && count <= 128);
            continue;
        }
        st_sketch_round(LMC_BASE_BF16_OF_F32, &f32, &rounded);
        CU_ASSERT_EQUAL(memcmp(rounded.bytes, bf16.bytes, 2 * pair_count), 0);
    }
}

static uint32_t distance_of(unsigned dtype, const st_sketch *a, const st_sketch *b)
{
    uint32_t distance = 0;
    st_sketch_distances(dtype, a, b->bytes, sizeof *b, 1, &distance);
    return distance;
}

LMC_TEST(test_distance)
{
    static const unsigned dtypes[] = {LMC_DTYPE_U8,  LMC_DTYPE_F8_E4M3, LMC_DTYPE_BF16, LMC_DTYPE_I16,
                                      LMC_DTYPE_F32, LMC_DTYPE_I32,     LMC_DTYPE_F64,  LMC_DTYPE_U64};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        const unsigned element_nbytes = st_sketch_element_nbytes(dtypes[i]);
        st_sketch a, b;
        memset(&a, 0x11, sizeof a);
        b = a;
        CU_ASSERT_EQUAL(distance_of(dtypes[i], &a, &b), 0);
        CU_ASSERT_EQUAL(st_sketch_spread(dtypes[i], &a), 0);
        b.bytes[7 * element_nbytes] += 4; /* three bits */
        CU_ASSERT_EQUAL(distance_of(dtypes[i], &a, &b), 3);
        CU_ASSERT_EQUAL(distance_of(dtypes[i], &b, &a), 3);
        b.bytes[9 * element_nbytes] -= 1;
        CU_ASSERT_EQUAL(distance_of(dtypes[i], &a, &b), 4);
        CU_ASSERT(st_sketch_spread(dtypes[i], &b) > 0);
    }
}

/* The sign of a float costs little; an integer goes round. */
LMC_TEST(test_distance_ends)
{
    st_sketch a = {{0}}, b = {{0}};
    b.bytes[1] = 0x80;
    CU_ASSERT_EQUAL(distance_of(LMC_DTYPE_BF16, &a, &b), 2);
    CU_ASSERT_EQUAL(distance_of(LMC_DTYPE_U16, &a, &b), 16);
    b.bytes[0] = b.bytes[1] = 0xff;
    CU_ASSERT_EQUAL(distance_of(LMC_DTYPE_U16, &a, &b), 1);
    memset(&b, 0x80, sizeof b);
    memset(&a, 0, sizeof a);
    CU_ASSERT_EQUAL(distance_of(LMC_DTYPE_U8, &a, &b), 32 * 8);
    CU_ASSERT(distance_of(LMC_DTYPE_U32, &a, &b) >= 32 * 30);
    CU_ASSERT(distance_of(LMC_DTYPE_U64, &a, &b) >= 32 * 62);
}

/* ---- predictions ---- */

/* BF16 values of which `share` percent are moved by up to `most` last places. */
static st_sketch relative_of(unsigned share, unsigned most)
{
    static unsigned char moved[2 * VALUE_COUNT];
    memcpy(moved, bf16_values, sizeof moved);
    srand(share * 1000 + most);
    for (size_t i = 0; i < VALUE_COUNT; i++) {
        uint16_t value;
        memcpy(&value, moved + 2 * i, 2);
        if ((unsigned)rand() % 100 < share)
            value = (uint16_t)(value + (rand() % 2 ? 1 : -1) * (1 + rand() % (int)most));
        memcpy(moved + 2 * i, &value, 2);
    }
    return sketch_of(LMC_DTYPE_BF16, moved, sizeof moved);
}

LMC_TEST(test_prediction_order)
{
    static const unsigned relatives[][2] = {{0, 1}, {5, 1}, {25, 1}, {70, 4}, {92, 20}, {99, 200}};
    const size_t count = sizeof relatives / sizeof relatives[0];
    double last = 0;
    fill_values(2);
    lmc_base_round(LMC_BASE_BF16_OF_F32, f32_values, VALUE_COUNT, bf16_values);
    const st_sketch base = sketch_of(LMC_DTYPE_BF16, bf16_values, sizeof bf16_values);
    const double plain = st_sketch_plain_nbits(LMC_DTYPE_BF16, &base, 128);
    CU_ASSERT(plain > 9 && plain < 13);
    for (size_t i = 0; i < count; i++) {
        const st_sketch one = relative_of(relatives[i][0], relatives[i][1]);
        const double nbits = st_sketch_delta_nbits(LMC_DTYPE_BF16, &base, &one, 128);
        CU_ASSERT(nbits > last);
        CU_ASSERT(nbits < plain);
        last = nbits;
    }
    fill_values(3);
    const st_sketch equal = base;
    CU_ASSERT_DOUBLE_EQUAL(st_sketch_delta_nbits(LMC_DTYPE_BF16, &base, &equal, 128), 0.01, 1e-9);
    lmc_base_round(LMC_BASE_BF16_OF_F32, f32_values, VALUE_COUNT, bf16_values);
    const st_sketch stranger = sketch_of(LMC_DTYPE_BF16, bf16_values, sizeof bf16_values);
    CU_ASSERT(st_sketch_delta_nbits(LMC_DTYPE_BF16, &base, &stranger, 128) > 0.9 * plain);
}

/* Any bytes of any dtype give a number between the limits. */
LMC_TEST(test_prediction_limits)
{
    srand(4);
    for (unsigned dtype = 0; dtype < LMC_DTYPE_COUNT; dtype++) {
        const unsigned element_nbytes = st_sketch_element_nbytes(dtype);
        const unsigned most = 256 / element_nbytes;
        for (unsigned i = 0; i < 50; i++) {
            const unsigned count = i == 0 ? 0 : 1 + (unsigned)rand() % most;
            st_sketch a, b;
            for (size_t at = 0; at < sizeof a; at++) {
                a.bytes[at] = (unsigned char)rand();
                b.bytes[at] = (unsigned char)(rand() % 3 == 0 ? rand() : a.bytes[at]);
            }
            const double delta = st_sketch_delta_nbits(dtype, &a, &b, count);
            const double plain = st_sketch_plain_nbits(dtype, &a, count);
            CU_ASSERT(delta >= 0.01 && delta <= 8.0 * element_nbytes + 8);
            CU_ASSERT(plain >= 0.01 && plain <= 8.0 * element_nbytes + 8);
        }
    }
}

LMC_TEST_MAIN("sketch")
