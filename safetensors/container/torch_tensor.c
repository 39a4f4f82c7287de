/*
 * torch_tensor.c - reads the calls of torch._utils that rebuild tensors.
 */
#include "safetensors/container/torch_tensor.h"

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
    tensor->has_dtype = st_torch_storage_dtype(name, &tensor->type);
    tensor->offset = tensor->size = tensor->stride = 0;
    return 1;
}

/* Where the dtype stands among the arguments of a function that makes a tensor of (storage, offset, size, stride, ...).
 * Returns 0: the function is none of them; *dtype_at 0: the storage tells it. */
static int is_rebuilding(const st_pickle *pickle, st_value function, size_t *dtype_at)
{
    st_string module, name;
    if (!st_value_global(pickle, function, &module, &name) || !is_text(module, "torch._utils"))
        return 0;
    *dtype_at = is_text(name, "_rebuild_tensor_v3") ? 6 : 0;
    return *dtype_at > 0 || is_text(name, "_rebuild_tensor_v2") || is_text(name, "_rebuild_tensor") ||
           is_text(name, "_rebuild_qtensor");
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
    size_t dtype_at = 0;
    const st_tuple args = st_value_tuple(pickle, object->args);
    if (!is_rebuilding(pickle, object->callable, &dtype_at) || args.count < 4 || args.count <= dtype_at ||
        !st_torch_storage_read(pickle, args.items[0], tensor))
        return 0;
    tensor->offset = args.items[1];
    tensor->size = args.items[2];
    tensor->stride = args.items[3];
    if (dtype_at > 0)
        tensor->has_dtype = st_value_global(pickle, args.items[dtype_at], &module, &name) &&
                            st_torch_find_dtype(name, &tensor->type);
    return 1;
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

/* Dimensions of 1 are never stepped along: their strides say nothing. */
static int is_in_order(const uint64_t *dims, const uint64_t *strides, size_t rank, uint64_t *count)
{
    *count = 1;
    for (size_t i = rank; i > 0; i--) {
        if (dims[i - 1] > 1 && strides[i - 1] != *count)
            return 0;
        if (st_multiply_overflows(*count, dims[i - 1], count))
            return 0;
    }
    return 1;
}

int st_torch_tensor_covers(const st_pickle *pickle, const st_torch_tensor *tensor, uint64_t nbytes,
                           uint64_t *dims, size_t *rank)
{
    uint64_t strides[ST_TORCH_RANK_MAX];
    size_t stride_count = 0;
    int64_t offset = 0;
    uint64_t count = 0;
    if (!st_value_int(pickle, tensor->offset, &offset) || offset != 0 ||
        !read_numbers(pickle, tensor->size, dims, rank) ||
        !read_numbers(pickle, tensor->stride, strides, &stride_count) || stride_count != *rank)
        return 0;
    if (nbytes == 0) { /* strides of nothing say nothing */
        for (size_t i = 0; i < *rank; i++)
            if (dims[i] == 0)
                return 1;
        return 0;
    }
    if (!is_in_order(dims, strides, *rank, &count) ||
        st_multiply_overflows(count, st_torch_dtype_nbytes(tensor->type), &count) || count != nbytes)
        return 0;
    if (tensor->type.form == ST_TORCH_PAIR)
        dims[(*rank)++] = 2;
    if (tensor->type.form == ST_TORCH_PACKED) {
        if (*rank == 0)
            return 0;
        dims[*rank - 1] *= 2;
    }
    return 1;
}
