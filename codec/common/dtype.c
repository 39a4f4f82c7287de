/* dtype.c - the one table of element types. */
#include "codec/common/dtype.h"

#include <string.h>

#include "codec/common/common.h"

typedef struct dtype_row {
    const char *name;
    uint8_t nbits;          /* of one value of the dtype */
    uint8_t element_nbytes; /* of the element that is split */
    uint8_t kind;           /* lmc_dtype_kind */
    uint8_t exponent_nbits; /* floats of 16 bits and more, and fp8 */
} dtype_row;

static const dtype_row rows[LMC_DTYPE_COUNT] = {
    [LMC_DTYPE_U8] = {"U8", 8, 1, LMC_KIND_BYTES, 0},
    [LMC_DTYPE_BOOL] = {"BOOL", 8, 1, LMC_KIND_BYTES, 0},
    [LMC_DTYPE_I8] = {"I8", 8, 1, LMC_KIND_INT, 0},
    [LMC_DTYPE_F4] = {"F4", 4, 1, LMC_KIND_BYTES, 0},
    [LMC_DTYPE_F6_E2M3] = {"F6_E2M3", 6, 1, LMC_KIND_BYTES, 0},
    [LMC_DTYPE_F6_E3M2] = {"F6_E3M2", 6, 1, LMC_KIND_BYTES, 0},
    [LMC_DTYPE_F8_E5M2] = {"F8_E5M2", 8, 1, LMC_KIND_FLOAT, 5},
    [LMC_DTYPE_F8_E4M3] = {"F8_E4M3", 8, 1, LMC_KIND_FLOAT, 4},
    [LMC_DTYPE_F8_E8M0] = {"F8_E8M0", 8, 1, LMC_KIND_BYTES, 0},
    [LMC_DTYPE_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8, 1, LMC_KIND_FLOAT, 4},
    [LMC_DTYPE_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8, 1, LMC_KIND_FLOAT, 5},
    [LMC_DTYPE_I16] = {"I16", 16, 2, LMC_KIND_INT, 0},
    [LMC_DTYPE_U16] = {"U16", 16, 2, LMC_KIND_INT, 0},
    [LMC_DTYPE_F16] = {"F16", 16, 2, LMC_KIND_FLOAT, 5},
    [LMC_DTYPE_BF16] = {"BF16", 16, 2, LMC_KIND_FLOAT, 8},
    [LMC_DTYPE_I32] = {"I32", 32, 4, LMC_KIND_INT, 0},
    [LMC_DTYPE_U32] = {"U32", 32, 4, LMC_KIND_INT, 0},
    [LMC_DTYPE_F32] = {"F32", 32, 4, LMC_KIND_FLOAT, 8},
    [LMC_DTYPE_C64] = {"C64", 64, 4, LMC_KIND_FLOAT, 8},
    [LMC_DTYPE_I64] = {"I64", 64, 8, LMC_KIND_INT, 0},
    [LMC_DTYPE_U64] = {"U64", 64, 8, LMC_KIND_INT, 0},
    [LMC_DTYPE_F64] = {"F64", 64, 8, LMC_KIND_FLOAT, 11},
};

static int is_dtype(lmc_dtype dtype)
{
    return (unsigned)dtype < LMC_DTYPE_COUNT;
}

const char *lmc_dtype_name(lmc_dtype dtype)
{
    return is_dtype(dtype) ? rows[dtype].name : NULL;
}

int lmc_dtype_find(const char *name, size_t name_nbytes, lmc_dtype *dtype)
{
    for (unsigned i = 0; i < LMC_DTYPE_COUNT; i++) {
        if (strlen(rows[i].name) == name_nbytes && memcmp(rows[i].name, name, name_nbytes) == 0) {
            *dtype = (lmc_dtype)i;
            return 1;
        }
    }
    return 0;
}

unsigned lmc_dtype_nbits(lmc_dtype dtype)
{
    return is_dtype(dtype) ? rows[dtype].nbits : 0;
}

lmc_dtype_kind lmc_dtype_get_kind(lmc_dtype dtype)
{
    assert(is_dtype(dtype));
    return (lmc_dtype_kind)rows[dtype].kind;
}

unsigned lmc_dtype_element_nbytes(lmc_dtype dtype)
{
    assert(is_dtype(dtype));
    return rows[dtype].element_nbytes;
}

unsigned lmc_dtype_exponent_nbits(lmc_dtype dtype)
{
    assert(is_dtype(dtype));
    return rows[dtype].exponent_nbits;
}
