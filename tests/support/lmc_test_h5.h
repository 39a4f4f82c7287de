/*
 * lmc_test_h5.h - values and stored chunks for the tests of filter/. After lmc_test_data.h and lmc_test.h.
 */
#ifndef LMC_TEST_H5_H
#define LMC_TEST_H5_H

#include "lmc_test_data.h"

#include "lmc_test.h"
#include "lmc_test_alloc.h"
#include <lmc_h5.h>

#include "filter/chunk/params.h"

/* ---- values ---- */

/* A name for values that the filter sets, and what they are set for. */
typedef struct h5_case {
    const char *name;
    lmc_h5_type type;
    lmc_h5_pipeline pipeline;
} h5_case;

#define H5_FLOAT(nbytes, exponent_nbits, is_big)          \
    {                                                     \
        H5_CLASS_FLOAT, nbytes, is_big, exponent_nbits, 1 \
    }
#define H5_PLAIN_TYPE(class_number, nbytes, is_big) \
    {                                               \
        class_number, nbytes, is_big, 0, 1          \
    }
#define H5_SHUFFLED(nbytes) \
    {                       \
        nbytes, 0, 0        \
    }
#define H5_NO_PIPELINE \
    {                  \
        0, 0, 0        \
    }

/* Every form of a stored chunk, and every way to choose the elements in it. */
static MAYBE_UNUSED const h5_case h5_cases[] = {
    {"f32", H5_FLOAT(4, 8, 0), H5_NO_PIPELINE},
    {"bf16", H5_FLOAT(2, 8, 0), H5_NO_PIPELINE},
    {"f64", H5_FLOAT(8, 11, 0), H5_NO_PIPELINE},
    {"fp8", H5_FLOAT(1, 4, 0), H5_NO_PIPELINE},
    {"f16 big-endian", H5_FLOAT(2, 5, 1), H5_NO_PIPELINE},
    {"f32 big-endian", H5_FLOAT(4, 8, 1), H5_NO_PIPELINE},
    {"f64 big-endian", H5_FLOAT(8, 11, 1), H5_NO_PIPELINE},
    {"u8", H5_PLAIN_TYPE(H5_CLASS_INTEGER, 1, 0), H5_NO_PIPELINE},
    {"u16", H5_PLAIN_TYPE(H5_CLASS_INTEGER, 2, 0), H5_NO_PIPELINE},
    {"u32 big-endian", H5_PLAIN_TYPE(H5_CLASS_INTEGER, 4, 1), H5_NO_PIPELINE},
    {"opaque of 2", H5_PLAIN_TYPE(H5_CLASS_OPAQUE, 2, 0), H5_NO_PIPELINE},
    {"text", H5_PLAIN_TYPE(H5_CLASS_STRING, 20, 0), H5_NO_PIPELINE},
    {"f32 shuffled", H5_FLOAT(4, 8, 0), H5_SHUFFLED(4)},
    {"bf16 shuffled", H5_FLOAT(2, 8, 0), H5_SHUFFLED(2)},
    {"f64 big-endian shuffled", H5_FLOAT(8, 11, 1), H5_SHUFFLED(8)},
    {"f32 in threes shuffled", H5_FLOAT(4, 8, 0), H5_SHUFFLED(12)},
    {"u8 in tens shuffled", H5_PLAIN_TYPE(H5_CLASS_INTEGER, 1, 0), H5_SHUFFLED(10)},
    {"f32 big-endian in 64 shuffled", H5_FLOAT(4, 8, 1), H5_SHUFFLED(256)},
    {"records of 3", H5_PLAIN_TYPE(H5_CLASS_COMPOUND, 3, 0), H5_NO_PIPELINE},
    {"records of 7", H5_PLAIN_TYPE(H5_CLASS_COMPOUND, 7, 0), H5_NO_PIPELINE},
    {"records of 12", H5_PLAIN_TYPE(H5_CLASS_COMPOUND, 12, 0), H5_NO_PIPELINE},
    {"records of 256", H5_PLAIN_TYPE(H5_CLASS_COMPOUND, 256, 0), H5_NO_PIPELINE},
    {"records of 257", H5_PLAIN_TYPE(H5_CLASS_COMPOUND, 257, 0), H5_NO_PIPELINE},
    {"variable length", {H5_CLASS_VLEN, 16, 0, 0, 0}, H5_NO_PIPELINE},
    {"f32 after another filter", H5_FLOAT(4, 8, 0), {0, 1, 0}},
    {"f32 with fletcher32", H5_FLOAT(4, 8, 0), {0, 0, 1}},
};

#define H5_CASE_COUNT (sizeof h5_cases / sizeof h5_cases[0])

/* What stands in a file after these user values. */
static MAYBE_UNUSED void h5_case_values(const h5_case *c, const unsigned user[LMC_H5_USER_VALUE_COUNT],
                                        uint64_t chunk_nbytes, unsigned values[LMC_H5_VALUE_COUNT_MIN])
{
    lmc_h5_params params;
    CU_ASSERT_EQUAL_FATAL(lmc_h5_params_read_user(user, LMC_H5_USER_VALUE_COUNT, &params), LMC_OK);
    lmc_h5_params_complete(&params, &c->type, &c->pipeline, chunk_nbytes);
    lmc_h5_params_write(&params, values);
}

/* ---- chunks ---- */

/* A stored chunk, of the size it has. */
typedef struct h5_stored {
    uint8_t *bytes;
    size_t nbytes;
} h5_stored;

/* Encodes into exactly lmc_h5_encode_bound() bytes before a guard page. Values of chunks of another size get this one.
 * The bytes are the caller's to free. */
static MAYBE_UNUSED h5_stored h5_encode(lmc_ctx *ctx, const unsigned *values, size_t value_count,
                                        const uint8_t *chunk, size_t nbytes)
{
    h5_stored stored = {NULL, 1};
    size_t bound = 0;
    unsigned own_values[LMC_H5_VALUE_COUNT_MAX];
    CU_ASSERT_EQUAL_FATAL(lmc_h5_encode_bound(nbytes, &bound), LMC_OK);
    CU_ASSERT_FATAL(value_count <= LMC_H5_VALUE_COUNT_MAX);
    if (value_count > 0)
        memcpy(own_values, values, value_count * sizeof *values);
    if (value_count >= LMC_H5_VALUE_COUNT_MIN && own_values[LMC_H5_VALUE_CHUNK_LOW] != 0) {
        own_values[LMC_H5_VALUE_CHUNK_LOW] = (unsigned)nbytes;
        own_values[LMC_H5_VALUE_CHUNK_HIGH] = 0;
    }
    guarded source = guarded_open(nbytes + 1), target = guarded_open(bound);
    const uint8_t *const src = guarded_copy(&source, chunk, nbytes);
    uint8_t *const dst = guarded_end(&target, bound);
    CU_ASSERT_EQUAL_FATAL(
        lmc_h5_encode_chunk(ctx, own_values, value_count, src, nbytes, dst, bound, &stored.nbytes), LMC_OK);
    CU_ASSERT_FATAL(stored.nbytes > 0 && stored.nbytes <= nbytes + LMC_H5_OVERHEAD_MAX);
    stored.bytes = must_malloc(stored.nbytes);
    memcpy(stored.bytes, dst, stored.nbytes);
    guarded_close(&source);
    guarded_close(&target);
    return stored;
}

/* Decodes between guard pages into exactly nbytes, and compares. */
static MAYBE_UNUSED void h5_check(lmc_ctx *ctx, const h5_stored *stored, const uint8_t *chunk, size_t nbytes)
{
    guarded source = guarded_open(stored->nbytes), target = guarded_open(nbytes + 1);
    const uint8_t *const src = guarded_copy(&source, stored->bytes, stored->nbytes);
    uint8_t *const dst = guarded_end(&target, nbytes);
    size_t found_nbytes = SIZE_MAX;
    CU_ASSERT_EQUAL_FATAL(lmc_h5_chunk_nbytes(src, stored->nbytes, &found_nbytes), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(found_nbytes, nbytes);
    found_nbytes = SIZE_MAX;
    memset(dst, 0x99, nbytes);
    CU_ASSERT_EQUAL_FATAL(lmc_h5_decode_chunk(ctx, src, stored->nbytes, dst, nbytes, &found_nbytes), LMC_OK);
    CU_ASSERT_EQUAL(found_nbytes, nbytes);
    CU_ASSERT(nbytes == 0 || memcmp(dst, chunk, nbytes) == 0);
    guarded_close(&source);
    guarded_close(&target);
}

/* Encodes, decodes, compares. Returns the stored bytes. */
static MAYBE_UNUSED size_t h5_round_trip(lmc_ctx *ctx, const unsigned *values, size_t value_count,
                                         const uint8_t *chunk, size_t nbytes)
{
    h5_stored stored = h5_encode(ctx, values, value_count, chunk, nbytes);
    h5_check(ctx, &stored, chunk, nbytes);
    free(stored.bytes);
    return stored.nbytes;
}

/* Chunk that the form of a case codes well: numbers of its type in the order that the pipeline leaves them in. */
static MAYBE_UNUSED void h5_case_fill(const h5_case *c, uint8_t *chunk, size_t nbytes)
{
    const size_t element = c->type.nbytes <= 8 && c->type.nbytes > 0 ? c->type.nbytes : 4;
    const size_t record = c->pipeline.shuffle_nbytes > 1 ? c->pipeline.shuffle_nbytes : 1;
    const size_t count = nbytes / record;
    const lmc_dtype dtype = element == 8 ? LMC_DTYPE_F64 : element >= 3 ? LMC_DTYPE_F32 : LMC_DTYPE_BF16;
    uint8_t *const plain = must_malloc(nbytes);
    data_fill(plain, nbytes, dtype, DATA_HALF_ZEROS);
    for (size_t i = 0; c->type.is_big_endian && i + element <= nbytes; i += element)
        for (size_t j = 0; j < element / 2; j++) {
            const uint8_t byte = plain[i + j];
            plain[i + j] = plain[i + element - 1 - j];
            plain[i + element - 1 - j] = byte;
        }
    if (nbytes > 0)
        memcpy(chunk, plain, nbytes);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < record; j++)
            chunk[j * count + i] = plain[i * record + j];
    free(plain);
}

/* ---- what may fail ---- */

/* Memory before guard pages for a stored chunk and for a chunk of this size. */
typedef struct h5_room {
    guarded source, target;
    size_t chunk_nbytes;
} h5_room;

static MAYBE_UNUSED h5_room h5_room_open(size_t stored_nbytes, size_t chunk_nbytes)
{
    return (h5_room){guarded_open(stored_nbytes), guarded_open(chunk_nbytes), chunk_nbytes};
}

static MAYBE_UNUSED void h5_room_close(h5_room *room)
{
    guarded_close(&room->source);
    guarded_close(&room->target);
}

/* Decodes whatever it is; what fails gives no size and a text. */
static MAYBE_UNUSED lmc_status h5_decode(lmc_ctx *ctx, const h5_room *room, const uint8_t *stored,
                                         size_t nbytes, uint8_t **dst, size_t *dst_nbytes)
{
    size_t claimed = 7;
    const uint8_t *const src = guarded_copy(&room->source, stored, nbytes);
    *dst = guarded_end(&room->target, room->chunk_nbytes);
    *dst_nbytes = 7;
    const lmc_status size_status = lmc_h5_chunk_nbytes(src, nbytes, &claimed);
    CU_ASSERT(size_status == LMC_OK || claimed == 0);
    const lmc_status status = lmc_h5_decode_chunk(ctx, src, nbytes, *dst, room->chunk_nbytes, dst_nbytes);
    CU_ASSERT_EQUAL(*dst_nbytes, status == LMC_OK ? claimed : 0);
    CU_ASSERT(status == LMC_OK || strncmp(lmc_h5_last_error(), "lmc", 3) == 0);
    CU_ASSERT(status != LMC_ERR_ARG && status != LMC_ERR_NOMEM);
    return status;
}

static MAYBE_UNUSED lmc_status h5_decode_status(lmc_ctx *ctx, const h5_room *room, const uint8_t *stored,
                                                size_t nbytes)
{
    uint8_t *dst;
    size_t dst_nbytes;
    return h5_decode(ctx, room, stored, nbytes, &dst, &dst_nbytes);
}

static MAYBE_UNUSED lmc_ctx *h5_create_counting(void)
{
    lmc_ctx *made = NULL;
    pool_fail(SIZE_MAX, 0);
    CU_ASSERT_EQUAL_FATAL(lmc_ctx_create(&pool_allocator, &made), LMC_OK);
    pool_fail(SIZE_MAX, 0);
    return made;
}

#endif
