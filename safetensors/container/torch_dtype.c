/*
 * torch_dtype.c - tables of the element types of torch. Quantized ones stand as the integers that they are.
 */
#include "safetensors/container/torch_dtype.h"

typedef struct named_dtype {
    const char *name;
    st_torch_dtype dtype;
} named_dtype;

/* torch.storage._dtype_to_storage_type_map(), which gets no more of them */
static const named_dtype storages[] = {
    {"FloatStorage", {LMC_DTYPE_F32, ST_TORCH_ONE}},
    {"BFloat16Storage", {LMC_DTYPE_BF16, ST_TORCH_ONE}},
    {"HalfStorage", {LMC_DTYPE_F16, ST_TORCH_ONE}},
    {"DoubleStorage", {LMC_DTYPE_F64, ST_TORCH_ONE}},
    {"LongStorage", {LMC_DTYPE_I64, ST_TORCH_ONE}},
    {"IntStorage", {LMC_DTYPE_I32, ST_TORCH_ONE}},
    {"ShortStorage", {LMC_DTYPE_I16, ST_TORCH_ONE}},
    {"CharStorage", {LMC_DTYPE_I8, ST_TORCH_ONE}},
    {"ByteStorage", {LMC_DTYPE_U8, ST_TORCH_ONE}},
    {"BoolStorage", {LMC_DTYPE_BOOL, ST_TORCH_ONE}},
    {"ComplexFloatStorage", {LMC_DTYPE_C64, ST_TORCH_ONE}},
    {"ComplexDoubleStorage", {LMC_DTYPE_F64, ST_TORCH_PAIR}},
    {"QInt8Storage", {LMC_DTYPE_I8, ST_TORCH_ONE}},
    {"QUInt8Storage", {LMC_DTYPE_U8, ST_TORCH_ONE}},
    {"QInt32Storage", {LMC_DTYPE_I32, ST_TORCH_ONE}},
    {"QUInt4x2Storage", {LMC_DTYPE_U8, ST_TORCH_ONE}},
    {"QUInt2x4Storage", {LMC_DTYPE_U8, ST_TORCH_ONE}},
};

/* torch.storage._new_dtypes(), and what else a third version of a tensor could name */
static const named_dtype dtypes[] = {
    {"float8_e4m3fn", {LMC_DTYPE_F8_E4M3, ST_TORCH_ONE}},
    {"float8_e5m2", {LMC_DTYPE_F8_E5M2, ST_TORCH_ONE}},
    {"float8_e4m3fnuz", {LMC_DTYPE_F8_E4M3FNUZ, ST_TORCH_ONE}},
    {"float8_e5m2fnuz", {LMC_DTYPE_F8_E5M2FNUZ, ST_TORCH_ONE}},
    {"float8_e8m0fnu", {LMC_DTYPE_F8_E8M0, ST_TORCH_ONE}},
    {"float4_e2m1fn_x2", {LMC_DTYPE_F4, ST_TORCH_PACKED}},
    {"uint16", {LMC_DTYPE_U16, ST_TORCH_ONE}},
    {"uint32", {LMC_DTYPE_U32, ST_TORCH_ONE}},
    {"uint64", {LMC_DTYPE_U64, ST_TORCH_ONE}},
    {"complex32", {LMC_DTYPE_F16, ST_TORCH_PAIR}},
    {"bits8", {LMC_DTYPE_U8, ST_TORCH_ONE}},
    {"bits16", {LMC_DTYPE_U16, ST_TORCH_ONE}},
    {"bits1x8", {LMC_DTYPE_U8, ST_TORCH_ONE}},
    {"bits2x4", {LMC_DTYPE_U8, ST_TORCH_ONE}},
    {"bits4x2", {LMC_DTYPE_U8, ST_TORCH_ONE}},
    {"float32", {LMC_DTYPE_F32, ST_TORCH_ONE}},
    {"float64", {LMC_DTYPE_F64, ST_TORCH_ONE}},
    {"float16", {LMC_DTYPE_F16, ST_TORCH_ONE}},
    {"bfloat16", {LMC_DTYPE_BF16, ST_TORCH_ONE}},
    {"int64", {LMC_DTYPE_I64, ST_TORCH_ONE}},
    {"int32", {LMC_DTYPE_I32, ST_TORCH_ONE}},
    {"int16", {LMC_DTYPE_I16, ST_TORCH_ONE}},
    {"int8", {LMC_DTYPE_I8, ST_TORCH_ONE}},
    {"uint8", {LMC_DTYPE_U8, ST_TORCH_ONE}},
    {"bool", {LMC_DTYPE_BOOL, ST_TORCH_ONE}},
    {"complex64", {LMC_DTYPE_C64, ST_TORCH_ONE}},
    {"complex128", {LMC_DTYPE_F64, ST_TORCH_PAIR}},
};

static int find(const named_dtype *table, size_t count, st_string name, st_torch_dtype *dtype)
{
    for (size_t i = 0; i < count; i++) {
        const st_string known = {table[i].name, strlen(table[i].name)};
        if (st_string_equals(known, name)) {
            *dtype = table[i].dtype;
            return 1;
        }
    }
    return 0;
}

int st_torch_storage_dtype(st_string name, st_torch_dtype *dtype)
{
    return find(storages, sizeof storages / sizeof *storages, name, dtype);
}

int st_torch_find_dtype(st_string name, st_torch_dtype *dtype)
{
    return find(dtypes, sizeof dtypes / sizeof *dtypes, name, dtype);
}
