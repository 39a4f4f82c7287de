/*
 * torch_tensor.c - reads the calls of torch._utils that rebuild tensors; and the tables of the element types of
 * torch. Quantized ones stand as the integers that they are.
 */
#include "safetensors/container/torch_tensor.h"

/* ---- element types ---- */

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
    {"QUInt4x2Storage", {LMC_DTYPE_U8, ST_TORCH_DENSE}},
    {"QUInt2x4Storage", {LMC_DTYPE_U8, ST_TORCH_DENSE}},
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

/* ---- tensors ---- */

static int is_text(st_string text, const char *other)
{
    return st_string_equals(text, (st_string){other, strlen(other)});
}

int st_torch_storage_read(const st_pickle *pickle, st_value value, st_torch_tensor *tensor)
{
    st_value id_value = 0;
    st_string text, module, name;
    if (!st_value_persistent(pickle, value, &id_value))
        return 0;
    const st_tuple id = st_value_tuple(pickle, id_value);
    if (id.count < 3 || !st_value_text(pickle, id.items[0], &text) || !is_text(text, "storage") ||
        !st_value_global(pickle, id.items[1], &module, &name) ||
        !st_value_text(pickle, id.items[2], &tensor->key))
        return 0;
    tensor->has_dtype = tensor->is_typed = st_torch_storage_dtype(name, &tensor->type);
    tensor->is_alone = 1;
    tensor->is_changed = 0;
    tensor->offset = tensor->size = tensor->stride = 0;
    return 1;
}

void st_torch_unwrap(const st_pickle *pickle, st_object *object, st_value *state)
{
    st_string module, name;
    const st_tuple args = st_value_tuple(pickle, object->args);
    *state = 0;
    if (args.count != 4 || !st_value_global(pickle, object->callable, &module, &name) ||
        !is_text(module, "torch._tensor") ||
        !(is_text(name, "_rebuild_from_type_v2") || is_text(name, "_rebuild_from_type")))
        return;
    object->callable = args.items[0];
    object->args = args.items[2];
    *state = args.items[3];
}

int st_torch_tensor_read(const st_pickle *pickle, const st_object *object, st_torch_tensor *tensor)
{
    st_string module, name;
    const st_tuple args = st_value_tuple(pickle, object->args);
    /* functions that make a tensor of (storage, offset, size, stride, ...) */
    if (!st_value_global(pickle, object->callable, &module, &name) || !is_text(module, "torch._utils"))
        return 0;
    const size_t dtype_at = is_text(name, "_rebuild_tensor_v3") ? 6 : 0; /* 0: the storage tells it */
    if (dtype_at == 0 && !is_text(name, "_rebuild_tensor_v2") && !is_text(name, "_rebuild_tensor") &&
        !is_text(name, "_rebuild_qtensor"))
        return 0;
    if (args.count < 4 || args.count <= dtype_at || !st_torch_storage_read(pickle, args.items[0], tensor))
        return 0;
    tensor->offset = args.items[1];
    tensor->size = args.items[2];
    tensor->stride = args.items[3];
    tensor->is_alone = 0;
    if (dtype_at > 0) {
        tensor->is_typed = 0;
        tensor->has_dtype = st_value_global(pickle, args.items[dtype_at], &module, &name) &&
                            st_torch_find_dtype(name, &tensor->type);
    }
    /* a dict {"conj": True} or {"neg": True} is the last argument, if it is there */
    const size_t metadata_at = dtype_at > 0 ? 7 : 6;
    if (args.count > metadata_at) {
        st_items items = st_value_items(pickle, args.items[metadata_at]);
        st_value key = 0, item = 0;
        int has_key = 0;
        tensor->is_changed = st_value_kind_of(args.items[metadata_at]) == ST_VALUE_DICT &&
                             st_items_next(pickle, &items, &has_key, &key, &item);
    }
    return 1;
}

/* Calls around a tensor. */
#define WRAPPER_COUNT_MAX 8

int st_torch_tensor_find(const st_pickle *pickle, st_value value, st_torch_tensor *tensor)
{
    for (unsigned i = 0; i < WRAPPER_COUNT_MAX; i++) {
        st_object object;
        st_string module, name;
        st_value state = 0;
        if (!st_value_object(pickle, value, &object))
            return 0;
        st_torch_unwrap(pickle, &object, &state);
        if (st_torch_tensor_read(pickle, &object, tensor))
            return 1;
        const st_tuple args = st_value_tuple(pickle, object.args);
        if (args.count == 0 || !st_value_global(pickle, object.callable, &module, &name) ||
            !is_text(module, "torch._utils") ||
            !(is_text(name, "_rebuild_parameter") || is_text(name, "_rebuild_parameter_with_state")))
            return 0;
        value = args.items[0];
    }
    return 0;
}

/* Sizes are a tuple of integers, or an object that was made of one: torch.Size. */
static int read_numbers(const st_pickle *pickle, st_value value, uint64_t *numbers, size_t *count)
{
    int64_t number = 0;
    st_object object;
    if (st_value_object(pickle, value, &object)) {
        const st_tuple args = st_value_tuple(pickle, object.args);
        value = args.count == 1 ? args.items[0] : 0;
    }
    const st_tuple tuple = st_value_tuple(pickle, value);
    if (st_value_kind_of(value) != ST_VALUE_TUPLE || tuple.count > ST_TORCH_RANK_MAX)
        return 0;
    for (size_t i = 0; i < tuple.count; i++) {
        if (!st_value_int(pickle, tuple.items[i], &number) || number < 0)
            return 0;
        numbers[i] = (uint64_t)number;
    }
    *count = tuple.count;
    return 1;
}

const char *st_torch_tensor_shape(const st_pickle *pickle, const st_torch_tensor *tensor, uint64_t nbytes,
                                  st_torch_shape *shape)
{
    size_t stride_count = 0;
    int64_t offset = 0;
    int overflows = 0;
    *shape = (st_torch_shape){.rank = 0};
    if (!tensor->has_dtype)
        return "its dtype is not known";
    const int is_of_two = tensor->type.form == ST_TORCH_PAIR || tensor->type.form == ST_TORCH_PACKED;
    const uint64_t element_nbytes = lmc_dtype_nbits(tensor->type.dtype) * (is_of_two ? 2 : 1) / 8;
    if (tensor->is_alone) {
        shape->dims[0] = nbytes / element_nbytes;
        shape->strides[0] = shape->rank = 1;
    } else if (tensor->type.form == ST_TORCH_DENSE) {
        return "several of its elements share a byte";
    } else if (!st_value_int(pickle, tensor->offset, &offset) || offset < 0 ||
               !read_numbers(pickle, tensor->size, shape->dims, &shape->rank) ||
               !read_numbers(pickle, tensor->stride, shape->strides, &stride_count) ||
               stride_count != shape->rank) {
        return "its shape is not understood";
    }
    shape->offset = (uint64_t)offset;
    if (tensor->type.form == ST_TORCH_ONE || tensor->type.form == ST_TORCH_DENSE)
        return NULL;
    /* two of the dtype are one element: all steps are twice as long */
    overflows |= lmc_multiply_overflows(shape->offset, 2, &shape->offset);
    for (size_t i = 0; i < shape->rank; i++)
        overflows |= lmc_multiply_overflows(shape->strides[i], 2, &shape->strides[i]);
    const size_t last = tensor->type.form == ST_TORCH_PAIR ? shape->rank++ : shape->rank - 1;
    if (tensor->type.form == ST_TORCH_PAIR)
        shape->dims[last] = 2;
    else if (shape->rank == 0 || (shape->strides[last] != 2 && shape->dims[last] > 1))
        return "two of its elements share a byte and do not lie one behind the other";
    else
        overflows |= lmc_multiply_overflows(shape->dims[last], 2, &shape->dims[last]);
    shape->strides[last] = 1;
    return overflows ? "its shape is not understood" : NULL;
}

/* Dimensions of 1 are never stepped along: their strides say nothing. */
int st_torch_shape_covers(const st_torch_shape *shape, st_torch_dtype type, uint64_t nbytes)
{
    uint64_t count = 1, nbits = 0;
    int is_empty = 0;
    for (size_t i = 0; i < shape->rank; i++)
        is_empty |= shape->dims[i] == 0;
    if (shape->offset != 0 || nbytes == 0)
        return shape->offset == 0 && is_empty; /* strides of nothing say nothing */
    for (size_t i = shape->rank; i > 0; i--)
        if ((shape->dims[i - 1] > 1 && shape->strides[i - 1] != count) ||
            lmc_multiply_overflows(count, shape->dims[i - 1], &count))
            return 0;
    return !lmc_multiply_overflows(count, lmc_dtype_nbits(type.dtype), &nbits) && nbits % 8 == 0 &&
           nbits / 8 == nbytes;
}
