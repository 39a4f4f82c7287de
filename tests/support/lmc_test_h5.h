/*
 * lmc_test_h5.h - values and stored chunks for the tests of filter/. After lmc_test_data.h and lmc_test.h.
 */
#ifndef LMC_TEST_H5_H
#define LMC_TEST_H5_H

#include "lmc_test_data.h"

#include "lmc_test.h"
#include <lmc_h5.h>

#include "h5_params.h"

/* ---- values ---- */

/* A name for values that the filter sets, and what they are set for. */
typedef struct h5_case {
    const char *name;
    h5_type type;
    h5_pipeline pipeline;
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
                                        uint64_t chunk_nbytes, unsigned values[LMC_H5_VALUE_COUNT])
{
    h5_params params;
    CU_ASSERT_EQUAL_FATAL(h5_params_read_user(user, LMC_H5_USER_VALUE_COUNT, &params), LMC_OK);
    h5_params_complete(&params, &c->type, &c->pipeline, chunk_nbytes);
    h5_params_write(&params, values);
}

#endif
