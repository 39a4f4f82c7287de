/*
 * torch_object.c - walks through the pickled object of a torch archive.
 *
 * Paths are those of torch's state_dict(): the containers of a module's parameters and submodules are no parts of them.
 */
#include "safetensors/container/torch_object.h"
#include "os/os.h"
#include "safetensors/container/torch_tensor.h"
#include "safetensors/files/file.h"

#include <inttypes.h>
#include <stdio.h>

/* Deeper parts of an object are not visited. */
#define DEPTH_MAX 200u

/* Keys of storages are looked up for each tensor, which must not take long. */
#define STORAGE_KEY_NBYTES_MAX 4096

/* For the paths of a short pickle. */
#define PATHS_NBYTES_MIN ((size_t)1 << 20)

typedef struct object_walk {
    st_storages *storages;
    st_pickle *pickle;
    st_value open[DEPTH_MAX]; /* what is being visited: `depth` of them */
    unsigned depth;
    int is_again;       /* what is being visited was visited before, under another path */
    size_t again_count; /* of items */
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

static int out_of_memory(object_walk *walk)
{
    walk->is_out_of_memory = 1;
    return 0;
}

/* *path_nbytes 0: the path is not kept. */
static void keep_path(object_walk *walk, uint64_t *path_at, uint32_t *path_nbytes)
{
    st_storages *const storages = walk->storages;
    /* shared keys may make paths that are longer than all that the pickle says */
    const size_t limit = 2 * walk->pickle->nbytes + PATHS_NBYTES_MIN;
    *path_nbytes = 0;
    if (walk->is_lost || walk->path_nbytes == 0 || walk->path_nbytes > limit - storages->paths_nbytes)
        return;
    unsigned char *const room =
        st_buffer_extend(storages->memory, &storages->paths, storages->paths_nbytes, walk->path_nbytes);
    if (!room) {
        out_of_memory(walk);
        return;
    }
    memcpy(room, walk->path, walk->path_nbytes);
    *path_at = storages->paths_nbytes;
    *path_nbytes = (uint32_t)walk->path_nbytes;
    storages->paths_nbytes += walk->path_nbytes;
}

/* ---- tensors and storages ---- */

static st_string key_at(const void *owner, size_t index)
{
    return ((const st_storages *)owner)->list[index].key;
}

/* Adds a view to a storage; dimensions and strides go behind those of the other views. Returns 0 if there is no room
 * for it. */
static int keep_view(object_walk *walk, st_storage *storage, const st_torch_shape *shape,
                     st_storage_view *view)
{
    st_storages *const storages = walk->storages;
    const size_t row_nbytes = shape->rank * sizeof *shape->dims;
    const size_t limit = 4 * walk->pickle->nbytes + PATHS_NBYTES_MIN;
    const size_t dims_nbytes = storages->dim_count * sizeof *shape->dims + 2 * row_nbytes;
    if (storages->view_count * sizeof *view + dims_nbytes > limit)
        storages->has_too_many_views = 1;
    if (storages->has_too_many_views)
        return 0;
    unsigned char *const dims =
        st_buffer_extend(storages->memory, &storages->dims, storages->dim_count * sizeof *shape->dims,
                         2 * row_nbytes + sizeof *shape->dims);
    if (!dims)
        return out_of_memory(walk);
    memcpy(dims, shape->dims, row_nbytes);
    memcpy(dims + row_nbytes, shape->strides, row_nbytes);
    view->dims_at = storages->dim_count;
    view->rank = (uint8_t)shape->rank;
    view->offset = shape->offset;
    storages->dim_count += 2 * shape->rank;
    unsigned char *const room = st_buffer_extend(storages->memory, &storages->views,
                                                 storages->view_count * sizeof *view, sizeof *view);
    if (!room)
        return out_of_memory(walk);
    memcpy(room, view, sizeof *view);
    storages->view_count++;
    st_storage_view *const list = (st_storage_view *)(void *)storages->views.bytes;
    *(storage->last == 0 ? &storage->first : &list[storage->last - 1].next) = (uint32_t)storages->view_count;
    storage->last = (uint32_t)storages->view_count;
    return 1;
}

static void see_tensor(object_walk *walk, const st_torch_tensor *tensor)
{
    st_storages *const storages = walk->storages;
    st_torch_shape shape;
    size_t index = 0;
    if (tensor->key.nbytes > STORAGE_KEY_NBYTES_MAX ||
        !st_names_find(&storages->index, key_at, storages, tensor->key, &index))
        return;
    st_storage *const storage = &storages->list[index];
    st_storage_view view = {
        .type = tensor->type, .is_typed = (uint8_t)tensor->is_typed, .is_alone = (uint8_t)tensor->is_alone};
    const int is_first = !storage->is_found;
    view.note = st_torch_tensor_shape(walk->pickle, tensor, storage->nbytes, &shape);
    if (is_first) {
        storage->is_found = 1;
        storage->has_dtype = (uint8_t)tensor->has_dtype;
        storage->type = tensor->type;
    }
    const int covers = !view.note && !tensor->is_alone && storage->covering == 0 && storage->has_dtype &&
                       storage->type.dtype == tensor->type.dtype && storage->type.form == tensor->type.form &&
                       st_torch_shape_covers(&shape, tensor->type, storage->nbytes);
    if (tensor->is_changed)
        view.note = "its values are conjugated or negated when they are loaded";
    keep_path(walk, &view.path_at, &view.path_nbytes);
    if (is_first || covers) { /* name and shape are those of one tensor */
        storage->path_at = view.path_at;
        storage->path_nbytes = view.path_nbytes;
    }
    if (!keep_view(walk, storage, &shape, &view))
        return;
    if (is_first || covers)
        storage->named = (uint32_t)storages->view_count - 1;
    if (covers)
        storage->covering = storage->last;
}

/* ---- the object ---- */

/* Visits what stands below `key`, or at this position. */
static void visit_below(object_walk *walk, int has_key, st_value key, uint64_t position, st_value value)
{
    const size_t path_nbytes = walk->path_nbytes;
    const int was_lost = walk->is_lost;
    char digits[24];
    if (st_value_kind_of(value) < ST_VALUE_PERSISTENT)
        return;
    st_string text = {NULL, 0};
    int64_t number = (int64_t)position;
    if (has_key && st_value_text(walk->pickle, key, &text) && text.nbytes <= ST_TORCH_KEY_NBYTES_MAX) {
        append_to_path(walk, text.bytes, text.nbytes);
    } else {
        if (has_key && !st_value_int(walk->pickle, key, &number))
            number = (int64_t)position;
        const int nbytes = snprintf(digits, sizeof digits, "%" PRId64, number);
        append_to_path(walk, digits, (size_t)nbytes);
    }
    visit(walk, value);
    walk->path_nbytes = path_nbytes;
    walk->is_lost = was_lost;
}

/* Containers within each other may have more paths than anybody can list: then views are not listed at all. Returns 1
 * if the next item may be visited. */
static int has_patience(object_walk *walk)
{
    walk->again_count += (size_t)walk->is_again;
    if (walk->again_count > walk->pickle->nbytes)
        walk->storages->has_too_many_views = 1;
    return !walk->is_again || !walk->storages->has_too_many_views;
}

static void visit_items(object_walk *walk, st_value value)
{
    st_items items = st_value_items(walk->pickle, value);
    st_value key = 0;
    st_value item = 0;
    int has_key = 0;
    for (uint64_t i = 0; st_items_next(walk->pickle, &items, &has_key, &key, &item) && has_patience(walk);
         i++)
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
        for (size_t i = 0; i < args.count && has_patience(walk); i++)
            visit(walk, args.items[i]);
    visit_items(walk, value);
    visit_state(walk, state);
    visit_state(walk, object.state);
}

/* A tensor has a name for each path that leads to it through lists and dicts. Other objects are visited once: some know
 * all others. */
static int may_visit_again(const object_walk *walk, st_value value)
{
    static const char *const ordered[] = {"OrderedDict"};
    st_string module, name;
    st_object object;
    if (st_value_object(walk->pickle, value, &object) &&
        !(st_value_global(walk->pickle, object.callable, &module, &name) && is_one_of(name, ordered, 1)))
        return 0;
    for (unsigned i = 0; i < walk->depth; i++)
        if (walk->open[i] == value)
            return 0;
    return st_value_kind_of(value) >= ST_VALUE_TUPLE;
}

static void visit(object_walk *walk, st_value value)
{
    st_torch_tensor tensor = {0};
    if (walk->depth == DEPTH_MAX || walk->is_out_of_memory)
        return;
    if (st_value_kind_of(value) == ST_VALUE_PERSISTENT && st_torch_storage_read(walk->pickle, value, &tensor))
        see_tensor(walk, &tensor);
    const int is_first = st_value_visit(walk->pickle, value);
    const int was_again = walk->is_again;
    if (!is_first && st_torch_tensor_find(walk->pickle, value, &tensor))
        see_tensor(walk, &tensor);
    if (!is_first && !may_visit_again(walk, value))
        return;
    walk->is_again |= !is_first;
    walk->open[walk->depth++] = value;
    if (st_value_kind_of(value) == ST_VALUE_OBJECT) {
        visit_object(walk, value);
    } else if (st_value_kind_of(value) == ST_VALUE_TUPLE) {
        const st_tuple tuple = st_value_tuple(walk->pickle, value);
        for (size_t i = 0; i < tuple.count && has_patience(walk); i++)
            visit_below(walk, 0, 0, i, tuple.items[i]);
    } else {
        visit_items(walk, value);
    }
    walk->depth--;
    walk->is_again = was_again;
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
    st_buffer_free(storages->memory, &storages->views);
    st_release(storages->memory, storages->list);
}
