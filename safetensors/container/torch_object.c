/*
 * torch_object.c - walks through the pickled object of a torch archive.
 *
 * Paths are those of torch's state_dict(): the containers of a module's parameters and submodules are no parts of them.
 */
#include "safetensors/container/torch_object.h"
#include "safetensors/container/torch_tensor.h"
#include "safetensors/os/file.h"

#include <inttypes.h>
#include <stdio.h>

/* Deeper parts of an object are not visited. */
#define DEPTH_MAX 200u

/* For the paths of a short pickle. */
#define PATHS_NBYTES_MIN ((size_t)1 << 20)

typedef struct object_walk {
    st_storages *storages;
    st_pickle *pickle;
    unsigned depth;
    size_t path_nbytes;
    int is_lost; /* the path is too long */
    int is_out_of_memory;
    char path[ST_TORCH_PATH_NBYTES_MAX];
} object_walk;

static void visit(object_walk *walk, st_value value);

/* ---- paths ---- */

static void append_to_path(object_walk *walk, const char *bytes, size_t nbytes)
{
    const size_t dot_nbytes = walk->path_nbytes > 0;
    if (dot_nbytes + nbytes > sizeof walk->path - walk->path_nbytes) {
        walk->is_lost = 1;
        return;
    }
    if (dot_nbytes > 0)
        walk->path[walk->path_nbytes++] = '.';
    if (nbytes > 0)
        memcpy(walk->path + walk->path_nbytes, bytes, nbytes);
    walk->path_nbytes += nbytes;
}

static void append_number(object_walk *walk, int64_t number)
{
    char digits[24];
    const int nbytes = snprintf(digits, sizeof digits, "%" PRId64, number);
    append_to_path(walk, digits, (size_t)nbytes);
}

static void append_key(object_walk *walk, int has_key, st_value key, uint64_t position)
{
    st_string text = {NULL, 0};
    int64_t number = 0;
    if (has_key && st_value_text(walk->pickle, key, &text) && text.nbytes <= ST_TORCH_KEY_NBYTES_MAX)
        append_to_path(walk, text.bytes, text.nbytes);
    else if (has_key && st_value_int(walk->pickle, key, &number))
        append_number(walk, number);
    else
        append_number(walk, (int64_t)position);
}

static int out_of_memory(object_walk *walk)
{
    walk->is_out_of_memory = 1;
    return 0;
}

static void keep_path(object_walk *walk, st_storage *storage)
{
    st_storages *const storages = walk->storages;
    /* shared keys may make paths that are longer than all that the pickle says */
    const size_t limit = 2 * walk->pickle->nbytes + PATHS_NBYTES_MIN;
    storage->path_nbytes = 0;
    if (walk->is_lost || walk->path_nbytes == 0 || walk->path_nbytes > limit - storages->paths_nbytes)
        return;
    unsigned char *const room =
        st_buffer_extend(storages->memory, &storages->paths, storages->paths_nbytes, walk->path_nbytes);
    if (!room) {
        out_of_memory(walk);
        return;
    }
    memcpy(room, walk->path, walk->path_nbytes);
    storage->path_at = storages->paths_nbytes;
    storage->path_nbytes = (uint32_t)walk->path_nbytes;
    storages->paths_nbytes += walk->path_nbytes;
}

/* ---- tensors and storages ---- */

static st_string key_at(const void *owner, size_t index)
{
    return ((const st_storages *)owner)->list[index].key;
}

static st_storage *find_storage(object_walk *walk, st_string key)
{
    st_storages *const storages = walk->storages;
    size_t index = 0;
    return st_names_find(&storages->index, key_at, storages, key, &index) ? &storages->list[index] : NULL;
}

static void keep_dims(object_walk *walk, st_storage *storage, const uint64_t *dims, size_t rank)
{
    st_storages *const storages = walk->storages;
    unsigned char *const room = st_buffer_extend(storages->memory, &storages->dims,
                                                 storages->dim_count * sizeof *dims, rank * sizeof *dims);
    if (!room) {
        out_of_memory(walk);
        return;
    }
    if (rank > 0)
        memcpy(room, dims, rank * sizeof *dims);
    storage->dims_at = storages->dim_count;
    storage->rank = (uint8_t)rank;
    storage->has_shape = 1;
    storages->dim_count += rank;
}

static void see_tensor(object_walk *walk, const st_torch_tensor *tensor)
{
    uint64_t dims[ST_TORCH_RANK_MAX + 1];
    size_t rank = 0;
    st_storage *const storage = find_storage(walk, tensor->key);
    if (!storage)
        return;
    const int is_first = !storage->is_found;
    if (is_first) {
        storage->is_found = 1;
        storage->has_dtype = (uint8_t)tensor->has_dtype;
        storage->type = tensor->type;
        keep_path(walk, storage);
    }
    if (!storage->has_shape && storage->has_dtype && tensor->has_dtype &&
        storage->type.dtype == tensor->type.dtype && storage->type.form == tensor->type.form &&
        st_torch_tensor_covers(walk->pickle, tensor, storage->nbytes, dims, &rank)) {
        keep_dims(walk, storage, dims, rank);
        if (!is_first) /* name and shape are those of one tensor */
            keep_path(walk, storage);
    }
}

/* ---- the object ---- */

/* Visits what stands below `key`, or at this position. */
static void visit_below(object_walk *walk, int has_key, st_value key, uint64_t position, st_value value)
{
    const size_t path_nbytes = walk->path_nbytes;
    const int was_lost = walk->is_lost;
    if (st_value_kind_of(value) < ST_VALUE_PERSISTENT)
        return;
    append_key(walk, has_key, key, position);
    visit(walk, value);
    walk->path_nbytes = path_nbytes;
    walk->is_lost = was_lost;
}

static void visit_items(object_walk *walk, st_value value)
{
    st_items items = st_value_items(walk->pickle, value);
    st_value key = 0;
    st_value item = 0;
    int has_key = 0;
    for (uint64_t i = 0; st_items_next(walk->pickle, &items, &has_key, &key, &item); i++)
        visit_below(walk, has_key, key, i, item);
}

static int is_one_of(st_string name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (st_string_equals(name, (st_string){list[i], strlen(list[i])}))
            return 1;
    return 0;
}

static void visit_attributes(object_walk *walk, st_value state)
{
    static const char *const transparent[] = {"_parameters", "_buffers", "_modules", "_local_tensor"};
    st_items items = st_value_items(walk->pickle, state);
    st_value key = 0;
    st_value item = 0;
    st_string name = {NULL, 0};
    int has_key = 0;
    for (uint64_t i = 0; st_items_next(walk->pickle, &items, &has_key, &key, &item); i++)
        if (has_key && st_value_text(walk->pickle, key, &name) &&
            is_one_of(name, transparent, sizeof transparent / sizeof *transparent))
            visit(walk, item);
        else
            visit_below(walk, has_key, key, i, item);
}

/* Attributes are a dict, or two: those of __slots__ are the second one. */
static void visit_state(object_walk *walk, st_value state)
{
    const st_tuple pair = st_value_tuple(walk->pickle, state);
    if (st_value_kind_of(state) == ST_VALUE_DICT) {
        if (st_value_visit(walk->pickle, state))
            visit_attributes(walk, state);
    } else if (pair.count == 2 && st_value_kind_of(pair.items[1]) == ST_VALUE_DICT &&
               st_value_kind_of(pair.items[0]) != ST_VALUE_TUPLE) {
        for (size_t i = 0; i < pair.count; i++)
            if (st_value_kind_of(pair.items[i]) == ST_VALUE_DICT &&
                st_value_visit(walk->pickle, pair.items[i]))
                visit_attributes(walk, pair.items[i]);
    } else {
        visit(walk, state);
    }
}

static void visit_object(object_walk *walk, st_value value)
{
    st_torch_tensor tensor = {0};
    st_object object;
    st_value state = 0;
    if (!st_value_object(walk->pickle, value, &object))
        return;
    st_torch_unwrap(walk->pickle, &object, &state);
    const st_tuple args = st_value_tuple(walk->pickle, object.args);
    if (st_torch_tensor_read(walk->pickle, &object, &tensor))
        see_tensor(walk, &tensor);
    else
        for (size_t i = 0; i < args.count; i++)
            visit(walk, args.items[i]);
    visit_items(walk, value);
    visit_state(walk, state);
    visit_state(walk, object.state);
}

static void visit_tuple(object_walk *walk, st_value value)
{
    const st_tuple tuple = st_value_tuple(walk->pickle, value);
    for (size_t i = 0; i < tuple.count; i++)
        visit_below(walk, 0, 0, i, tuple.items[i]);
}

static void visit(object_walk *walk, st_value value)
{
    st_torch_tensor tensor = {0};
    if (walk->depth == DEPTH_MAX || walk->is_out_of_memory)
        return;
    if (st_value_kind_of(value) == ST_VALUE_PERSISTENT && st_torch_storage_read(walk->pickle, value, &tensor))
        see_tensor(walk, &tensor);
    if (!st_value_visit(walk->pickle, value))
        return;
    walk->depth++;
    if (st_value_kind_of(value) == ST_VALUE_OBJECT)
        visit_object(walk, value);
    else if (st_value_kind_of(value) == ST_VALUE_TUPLE)
        visit_tuple(walk, value);
    else
        visit_items(walk, value);
    walk->depth--;
}

/* ---- calls ---- */

lmc_status st_storages_find(st_storages *storages, st_pickle *pickle, st_string root, lmc_st_diag *diag)
{
    object_walk walk = {.storages = storages, .pickle = pickle};
    if (root.nbytes > 0)
        append_to_path(&walk, root.bytes, root.nbytes);
    visit(&walk, pickle->root);
    return walk.is_out_of_memory ? st_fail_nomem(diag) : LMC_OK;
}

const uint64_t *st_storage_dims(const st_storages *storages, const st_storage *storage)
{
    return (const uint64_t *)(const void *)storages->dims.bytes + storage->dims_at;
}

st_string st_storage_path(const st_storages *storages, const st_storage *storage)
{
    if (storage->path_nbytes == 0)
        return (st_string){"", 0};
    return (st_string){(const char *)storages->paths.bytes + storage->path_at, storage->path_nbytes};
}

lmc_status st_storages_build_index(st_storages *storages, int *is_unlike, lmc_st_diag *diag)
{
    size_t duplicate = 0;
    *is_unlike = 0;
    if (st_names_build(&storages->index, storages->memory, key_at, storages, storages->count,
                       os_unforeseen_u64(), &duplicate) != LMC_OK)
        return st_fail_nomem(diag);
    *is_unlike = duplicate == ST_NO_DUPLICATE;
    return LMC_OK;
}

void st_storages_free(st_storages *storages)
{
    if (storages->index.slots)
        st_names_free(&storages->index);
    st_buffer_free(storages->memory, &storages->paths);
    st_buffer_free(storages->memory, &storages->dims);
    st_release(storages->memory, storages->list);
}
