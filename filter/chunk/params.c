/* params.c - checks the filter's values, completes them for a dataset, and writes them. */
#include "filter/chunk/params.h"

#include <string.h>

#include "filter/chunk/error.h"
#include "filter/chunk/wire.h"

/* Bits of LMC_H5_VALUE_TYPE that mean nothing yet. */
#define H5_TYPE_RESERVED 0xf000u

/* What LMC_H5_TYPE_DTYPE() and LMC_H5_TYPE_SHUFFLE_SPAN() read. */
#define TYPE_OF_DTYPE(number) ((number) << 16)
#define TYPE_OF_SHUFFLE_SPAN(span) ((unsigned)(span) << 24)

/* ---- reading ---- */

static int is_element_size(size_t nbytes)
{
    return nbytes == 1 || nbytes == 2 || nbytes == 4 || nbytes == 8;
}

/* What is wrong with values, by where it is seen. */
typedef enum h5_fault {
    FAULT_NONE,
    FAULT_TOO_MANY,
    FAULT_NO_MAGIC,
    FAULT_LEVEL,
    FAULT_ELEMENT,
    FAULT_BLOCK,
    FAULT_TOO_FEW,
    FAULT_TYPE,
    FAULT_ROWS,
    FAULT_ROW_NBYTES
} h5_fault;

/* The least number of values that the filter sets: rows ask for one more. */
static size_t least_count(unsigned level)
{
    return (level & LMC_H5_LEVEL_ROWS) != 0 ? LMC_H5_VALUE_ROWS + 1 : LMC_H5_VALUE_COUNT_MIN;
}

/* Takes what users give; a fault leaves the defaults. */
static h5_fault read_user_values(const unsigned *values, size_t value_count, lmc_h5_params *params)
{
    unsigned value[LMC_H5_USER_VALUE_COUNT] = {0, 0, 0};
    memset(params, 0, sizeof *params);
    if (value_count > LMC_H5_VALUE_COUNT_MAX)
        return FAULT_TOO_MANY;
    if (value_count > LMC_H5_USER_VALUE_COUNT && values[LMC_H5_VALUE_MAGIC] != LMC_H5_MAGIC)
        return FAULT_NO_MAGIC;
    for (size_t i = 0; i < value_count && i < LMC_H5_USER_VALUE_COUNT; i++)
        value[i] = values[i];
    const unsigned level = value[LMC_H5_VALUE_LEVEL] & ~(unsigned)LMC_H5_LEVEL_ROWS;
    if (level > LMC_LEVEL_MAX)
        return FAULT_LEVEL;
    if (value[LMC_H5_VALUE_USER_ELEMENT_NBYTES] != 0 &&
        !is_element_size(value[LMC_H5_VALUE_USER_ELEMENT_NBYTES]))
        return FAULT_ELEMENT;
    const unsigned kib = value[LMC_H5_VALUE_BLOCK_KIB];
    if (kib != 0 && (kib < LMC_H5_BLOCK_KIB_MIN || kib > LMC_H5_BLOCK_KIB_MAX || (kib & (kib - 1)) != 0))
        return FAULT_BLOCK;
    params->level = (lmc_level)level;
    params->wants_rows = value[LMC_H5_VALUE_LEVEL] != level;
    params->override_nbytes = value[LMC_H5_VALUE_USER_ELEMENT_NBYTES];
    params->block_nbytes = kib * 1024;
    return FAULT_NONE;
}

/* Values come from files: what does not pass here must not reach the encoder. */
static int is_sensible(unsigned element_nbytes, unsigned type)
{
    const unsigned shuffle_nbytes = element_nbytes * LMC_H5_TYPE_SHUFFLE_SPAN(type);
    const unsigned number = LMC_H5_TYPE_DTYPE(type); /* of the dtype, plus 1; 0: none is known */
    if ((type & H5_TYPE_RESERVED) != 0)
        return 0;
    if ((type & LMC_H5_TYPE_COLUMNS) != 0) {
        return element_nbytes >= H5_WIRE_WIDTH_MIN && element_nbytes <= H5_WIRE_WIDTH_MAX &&
               (type & (LMC_H5_TYPE_BIG_ENDIAN | LMC_H5_TYPE_SHUFFLED)) == 0 && number == 0 &&
               LMC_H5_TYPE_SHUFFLE_SPAN(type) == 0;
    }
    if (!is_element_size(element_nbytes) ||
        (number != 0 && lmc_dtype_nbits((lmc_dtype)(number - 1)) / 8 != element_nbytes) ||
        ((type & LMC_H5_TYPE_BIG_ENDIAN) != 0 && element_nbytes == 1))
        return 0;
    return (type & LMC_H5_TYPE_SHUFFLED) != 0
               ? shuffle_nbytes >= H5_WIRE_WIDTH_MIN && shuffle_nbytes <= H5_WIRE_WIDTH_MAX
               : shuffle_nbytes == 0;
}

/* Whether a chunk with this type comes to the filter row by row, and each row is coded as elements. */
static int may_have_rows(unsigned type)
{
    return (type & (LMC_H5_TYPE_COLUMNS | LMC_H5_TYPE_RESIZED)) == 0;
}

static int is_row_count(uint64_t count, unsigned type)
{
    return count == 0 ||
           (count >= H5_WIRE_ROW_COUNT_MIN && count <= H5_WIRE_ROW_COUNT_MAX && may_have_rows(type));
}

/* Whether a chunk consists of several rows of so many bytes, each of whole elements. Text and bytes of which no element
 * is known have the dtype U8; numbers of a byte have none. */
static int is_row_nbytes(uint64_t nbytes, unsigned element_nbytes, unsigned type, uint64_t chunk_nbytes)
{
    const int has_elements = may_have_rows(type) && LMC_H5_TYPE_DTYPE(type) != LMC_DTYPE_U8 + 1u;
    return nbytes == 0 || (has_elements && nbytes <= UINT32_MAX && nbytes % element_nbytes == 0 &&
                           nbytes < chunk_nbytes && chunk_nbytes % nbytes == 0);
}

static h5_fault read_values(const unsigned *values, size_t value_count, lmc_h5_params *params)
{
    unsigned value[LMC_H5_VALUE_COUNT_MAX] = {0};
    const h5_fault fault = read_user_values(values, value_count, params);
    if (fault != FAULT_NONE || value_count <= LMC_H5_USER_VALUE_COUNT)
        return fault;
    if (value_count < least_count(values[LMC_H5_VALUE_LEVEL]))
        return FAULT_TOO_FEW;
    memcpy(value, values, value_count * sizeof *values);
    const unsigned element_nbytes = value[LMC_H5_VALUE_FILTER_ELEMENT_NBYTES];
    const unsigned type = value[LMC_H5_VALUE_TYPE];
    const uint64_t chunk_nbytes =
        (uint64_t)value[LMC_H5_VALUE_CHUNK_HIGH] << 32 | value[LMC_H5_VALUE_CHUNK_LOW];
    if (!is_sensible(element_nbytes, type))
        return FAULT_TYPE;
    if (!is_row_count(value[LMC_H5_VALUE_ROWS], type) ||
        (value[LMC_H5_VALUE_ROWS] != 0 && !params->wants_rows))
        return FAULT_ROWS;
    if (!is_row_nbytes(value[LMC_H5_VALUE_ROW_NBYTES], element_nbytes, type, chunk_nbytes))
        return FAULT_ROW_NBYTES;
    params->is_complete = 1;
    params->element_nbytes = element_nbytes;
    params->type = type;
    params->chunk_nbytes = chunk_nbytes;
    params->row_count = value[LMC_H5_VALUE_ROWS];
    params->row_nbytes = value[LMC_H5_VALUE_ROW_NBYTES];
    return FAULT_NONE;
}

/* The status of a fault, with a text that names the value. */
static lmc_status fault_status(h5_fault fault, const unsigned *values, size_t value_count)
{
    switch (fault) {
    case FAULT_NONE: return LMC_OK;
    case FAULT_TOO_MANY:
        return lmc_h5_fail(LMC_ERR_ARG, "lmc: %zu values: at most %d are for the user to give, and %d in all",
                           value_count, LMC_H5_USER_VALUE_COUNT, LMC_H5_VALUE_COUNT_MAX);
    case FAULT_NO_MAGIC:
        return lmc_h5_fail(
            LMC_ERR_ARG, "lmc: value [3] is %u: the values from [3] on are set by the filter, give 3 at most",
            values[LMC_H5_VALUE_MAGIC]);
    case FAULT_LEVEL:
        return lmc_h5_fail(
            LMC_ERR_ARG,
            "lmc: value [0], the level, is %u: must be 0 (default), 1 (fast) or 2 (max), or 16 more",
            values[LMC_H5_VALUE_LEVEL]);
    case FAULT_ELEMENT:
        return lmc_h5_fail(LMC_ERR_ARG,
                           "lmc: value [1], the bytes of an element, is %u: must be 0 (auto), 1, 2, 4 or 8",
                           values[LMC_H5_VALUE_USER_ELEMENT_NBYTES]);
    case FAULT_BLOCK:
        return lmc_h5_fail(
            LMC_ERR_ARG,
            "lmc: value [2], the KiB of a block, is %u: must be 0 (auto) or a power of two from %d to %d",
            values[LMC_H5_VALUE_BLOCK_KIB], LMC_H5_BLOCK_KIB_MIN, LMC_H5_BLOCK_KIB_MAX);
    case FAULT_TOO_FEW:
        return lmc_h5_fail(LMC_ERR_ARG, "lmc: %zu values where the filter sets at least %zu", value_count,
                           least_count(values[LMC_H5_VALUE_LEVEL]));
    case FAULT_ROWS:
        return lmc_h5_fail(LMC_ERR_ARG,
                           "lmc: value [8], the rows of a chunk, is %u: the filter does not set that",
                           values[LMC_H5_VALUE_ROWS]);
    case FAULT_ROW_NBYTES:
        return lmc_h5_fail(
            LMC_ERR_ARG,
            "lmc: value [9], the bytes of a row, is %u: the filter does not set that for this chunk",
            values[LMC_H5_VALUE_ROW_NBYTES]);
    case FAULT_TYPE: break;
    }
    return lmc_h5_fail(LMC_ERR_ARG, "lmc: values [4] and [5], %u and 0x%x, are not what the filter sets",
                       values[LMC_H5_VALUE_FILTER_ELEMENT_NBYTES], values[LMC_H5_VALUE_TYPE]);
}

lmc_status lmc_h5_params_read_user(const unsigned *values, size_t value_count, lmc_h5_params *params)
{
    return fault_status(read_user_values(values, value_count, params), values, value_count);
}

lmc_status lmc_h5_params_read(const unsigned *values, size_t value_count, lmc_h5_params *params)
{
    return fault_status(read_values(values, value_count, params), values, value_count);
}

void lmc_h5_params_guess(const unsigned *values, size_t value_count, lmc_h5_params *params)
{
    (void)read_values(values, value_count, params);
}

/* ---- completing ---- */

/* dtype + 1 of a float, by the bits of its exponent; 0 if LMC has none. */
static unsigned float_dtype(const lmc_h5_type *type)
{
    static const struct {
        unsigned nbytes, exponent_nbits;
        lmc_dtype dtype;
    } rows[] = {
        {1, 5, LMC_DTYPE_F8_E5M2}, {1, 4, LMC_DTYPE_F8_E4M3}, {2, 5, LMC_DTYPE_F16},
        {2, 8, LMC_DTYPE_BF16},    {4, 8, LMC_DTYPE_F32},     {8, 11, LMC_DTYPE_F64},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].nbytes == type->nbytes && rows[i].exponent_nbits == type->exponent_nbits)
            return rows[i].dtype + 1u;
    return 0;
}

/* The chunk is coded as a string of bytes, without elements. */
static void code_as_bytes(lmc_h5_params *params)
{
    params->element_nbytes = 1;
    params->type = LMC_H5_TYPE_CLASS(params->type) | TYPE_OF_DTYPE(LMC_DTYPE_U8 + 1u);
}

/* Elements are coded as the dataset's type says. Integers and opaque bytes are often floats that the writer's HDF5 had
 * no type for, such as bf16: lmc_dtype_guess() looks at each chunk. */
static void code_as_type(lmc_h5_params *params, const lmc_h5_type *type)
{
    const int is_float = type->class_number == H5_CLASS_FLOAT;
    const int is_text = type->class_number == H5_CLASS_STRING && type->has_fixed_size;
    const int is_flag = type->class_number == H5_CLASS_ENUM && type->nbytes == 1;
    if (is_text || is_flag) {
        code_as_bytes(params);
    } else if (is_element_size(type->nbytes)) {
        params->element_nbytes = (unsigned)type->nbytes;
        params->type |= TYPE_OF_DTYPE(is_float ? float_dtype(type) : 0);
    } else if (type->nbytes >= H5_WIRE_WIDTH_MIN && type->nbytes <= H5_WIRE_WIDTH_MAX) {
        params->element_nbytes = (unsigned)type->nbytes;
        params->type |= LMC_H5_TYPE_COLUMNS;
    } else {
        code_as_bytes(params);
    }
}

/* An element of the shuffle filter is one element of LMC or several. Chunks of any other shuffle are coded as bytes. */
static void note_shuffle(lmc_h5_params *params, size_t shuffle_nbytes)
{
    const size_t span = shuffle_nbytes / params->element_nbytes;
    if (shuffle_nbytes < H5_WIRE_WIDTH_MIN)
        return;
    if ((params->type & LMC_H5_TYPE_COLUMNS) != 0 || shuffle_nbytes > H5_WIRE_WIDTH_MAX || span > 0xff ||
        span * params->element_nbytes != shuffle_nbytes) {
        code_as_bytes(params);
        return;
    }
    params->type |= LMC_H5_TYPE_SHUFFLED | TYPE_OF_SHUFFLE_SPAN(span);
}

void lmc_h5_params_complete(lmc_h5_params *params, const lmc_h5_type *type, const lmc_h5_pipeline *pipeline,
                            uint64_t chunk_nbytes)
{
    params->is_complete = 1;
    params->chunk_nbytes = chunk_nbytes;
    params->type = type->class_number;
    if (params->override_nbytes != 0 && params->override_nbytes != type->nbytes) {
        params->element_nbytes = params->override_nbytes;
        params->type |= params->override_nbytes == 1 ? TYPE_OF_DTYPE(LMC_DTYPE_U8 + 1u) : 0;
    } else {
        code_as_type(params, type);
        if (type->is_big_endian && params->element_nbytes > 1 && (params->type & LMC_H5_TYPE_COLUMNS) == 0)
            params->type |= LMC_H5_TYPE_BIG_ENDIAN;
    }
    if (pipeline->is_opaque)
        code_as_bytes(params);
    else
        note_shuffle(params, pipeline->shuffle_nbytes);
    if (pipeline->is_opaque || pipeline->is_extended || !type->has_fixed_size)
        params->type |= LMC_H5_TYPE_RESIZED;
}

void lmc_h5_params_set_rows(lmc_h5_params *params, uint64_t row_count)
{
    const int is_one =
        params->wants_rows && params->chunk_nbytes != 0 && is_row_count(row_count, params->type);
    params->row_count = is_one ? (unsigned)row_count : 0;
}

void lmc_h5_params_set_row_nbytes(lmc_h5_params *params, uint64_t type_nbytes, const uint64_t *dimensions,
                                  unsigned rank)
{
    uint64_t nbytes = type_nbytes;
    params->row_nbytes = 0;
    if (params->chunk_nbytes == 0) /* unknown, or too many to multiply */
        return;
    for (unsigned i = rank; i > 0; i--) {
        nbytes *= dimensions[i - 1];
        if (nbytes / params->element_nbytes >= H5_ROW_ELEMENT_COUNT_MIN)
            break;
    }
    if (is_row_nbytes(nbytes, params->element_nbytes, params->type, params->chunk_nbytes))
        params->row_nbytes = (unsigned)nbytes;
}

size_t lmc_h5_params_write(const lmc_h5_params *params, unsigned *values)
{
    values[LMC_H5_VALUE_LEVEL] = (unsigned)params->level + (params->wants_rows ? LMC_H5_LEVEL_ROWS : 0);
    values[LMC_H5_VALUE_USER_ELEMENT_NBYTES] = params->override_nbytes;
    values[LMC_H5_VALUE_BLOCK_KIB] = params->block_nbytes / 1024;
    values[LMC_H5_VALUE_MAGIC] = LMC_H5_MAGIC;
    values[LMC_H5_VALUE_FILTER_ELEMENT_NBYTES] = params->element_nbytes;
    values[LMC_H5_VALUE_TYPE] = params->type;
    values[LMC_H5_VALUE_CHUNK_LOW] = (unsigned)(params->chunk_nbytes & 0xffffffffu);
    values[LMC_H5_VALUE_CHUNK_HIGH] = (unsigned)(params->chunk_nbytes >> 32);
    if (!params->wants_rows && params->row_nbytes == 0)
        return LMC_H5_VALUE_COUNT_MIN;
    values[LMC_H5_VALUE_ROWS] = params->row_count;
    if (params->row_nbytes == 0)
        return LMC_H5_VALUE_ROWS + 1;
    values[LMC_H5_VALUE_ROW_NBYTES] = params->row_nbytes;
    return LMC_H5_VALUE_COUNT_MAX;
}

uint64_t lmc_h5_params_filtered_nbytes(const lmc_h5_params *params)
{
    const int is_known = params->is_complete && (params->type & LMC_H5_TYPE_RESIZED) == 0;
    return is_known ? params->chunk_nbytes : 0;
}
