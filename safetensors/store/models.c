/*
 * models.c - store/models.h: an ordered list, and the graph of bases.
 */
#include "safetensors/store/models.h"

#include "safetensors/common/st_common.h"

#include <stdlib.h>
#include <string.h>

void st_model_free(st_model *model, const lmc_allocator *memory)
{
    for (size_t i = 0; i < model->base_count; i++)
        st_release(memory, model->bases[i].name);
    st_release(memory, model->bases);
    st_release(memory, model->name);
    *model = (st_model){0};
}

int st_model_copy(st_model *copy, const st_model *model, const lmc_allocator *memory)
{
    *copy = *model;
    copy->bases = NULL;
    copy->base_count = 0;
    copy->name = st_duplicate(memory, model->name);
    int has_memory = copy->name != NULL;
    for (size_t i = 0; i < model->base_count && has_memory; i++)
        has_memory = st_model_add_base(copy, model->bases[i].name, model->bases[i].is_equal_only, memory);
    if (!has_memory)
        st_model_free(copy, memory);
    return has_memory;
}

/* Where a base with this name stands, or would stand. */
static size_t place_of_base(const st_model *model, const char *name)
{
    size_t at = 0; /* few bases */
    while (at < model->base_count && strcmp(model->bases[at].name, name) < 0)
        at++;
    return at;
}

const st_model_base *st_model_find_base(const st_model *model, const char *name)
{
    const size_t at = place_of_base(model, name);
    return at < model->base_count && strcmp(model->bases[at].name, name) == 0 ? &model->bases[at] : NULL;
}

int st_model_add_base(st_model *model, const char *name, int is_equal_only, const lmc_allocator *memory)
{
    const size_t at = place_of_base(model, name);
    if (at < model->base_count && strcmp(model->bases[at].name, name) == 0) {
        model->bases[at].is_equal_only &= is_equal_only;
        return 1;
    }
    st_model_base *const larger = st_allocate_array(memory, model->base_count + 1, sizeof *larger);
    const st_model_base base = {st_duplicate(memory, name), is_equal_only};
    if (!larger || !base.name) {
        st_release(memory, larger);
        st_release(memory, base.name);
        return 0;
    }
    if (at > 0)
        memcpy(larger, model->bases, at * sizeof *larger);
    larger[at] = base;
    if (model->base_count > at)
        memcpy(larger + at + 1, model->bases + at, (model->base_count - at) * sizeof *larger);
    st_release(memory, model->bases);
    model->bases = larger;
    model->base_count++;
    return 1;
}

/* ---- the list ---- */

void st_models_free(st_models *models)
{
    for (size_t i = 0; i < models->count; i++)
        st_model_free(&models->list[i], models->memory);
    if (models->memory)
        st_release(models->memory, models->list);
    *models = (st_models){.memory = models->memory, .is_run = models->is_run};
}

/* By number or by bytes. Numbers have no leading zeros. */
static int compare_names(const st_models *models, const char *a, const char *b)
{
    if (models->is_run) {
        const size_t a_nbytes = strlen(a);
        const size_t b_nbytes = strlen(b);
        if (a_nbytes != b_nbytes)
            return a_nbytes < b_nbytes ? -1 : 1;
    }
    return strcmp(a, b);
}

/* Where a model with this name stands, or would stand. */
static size_t place_of(const st_models *models, const char *name)
{
    size_t begin = 0;
    size_t end = models->count;
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        if (compare_names(models, models->list[middle].name, name) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

st_model *st_models_find(const st_models *models, const char *name)
{
    const size_t at = place_of(models, name);
    return at < models->count && strcmp(models->list[at].name, name) == 0 ? &models->list[at] : NULL;
}

int st_models_put(st_models *models, st_model *model)
{
    st_model *const present = st_models_find(models, model->name);
    if (present) {
        st_model_free(present, models->memory);
        *present = *model;
        *model = (st_model){0};
        return 1;
    }
    if (models->count == models->capacity) {
        const size_t capacity = models->capacity == 0 ? 64 : 2 * models->capacity;
        st_model *const larger = st_allocate_array(models->memory, capacity, sizeof *larger);
        if (!larger) {
            st_model_free(model, models->memory);
            return 0;
        }
        if (models->count > 0)
            memcpy(larger, models->list, models->count * sizeof *larger);
        st_release(models->memory, models->list);
        models->list = larger;
        models->capacity = capacity;
    }
    const size_t at = place_of(models, model->name);
    memmove(&models->list[at + 1], &models->list[at], (models->count - at) * sizeof *models->list);
    models->list[at] = *model;
    models->count++;
    *model = (st_model){0};
    return 1;
}

void st_models_remove(st_models *models, const char *name)
{
    st_model *const present = st_models_find(models, name);
    if (!present)
        return;
    st_model_free(present, models->memory);
    const size_t behind = models->count - (size_t)(present - models->list) - 1;
    memmove(present, present + 1, behind * sizeof *present);
    models->count--;
}

/* ---- the graph ---- */

/* Sets depth and reach of a model whose bases have theirs. Returns 0 if one of them has none yet. */
static int set_depth(const st_models *models, st_model *model)
{
    uint64_t depth = 0;
    uint64_t reach = 0;
    if (model->has_unknown_base)
        return 0;
    for (size_t i = 0; i < model->base_count; i++) {
        const st_model *const base = st_models_find(models, model->bases[i].name);
        if (!base || base->depth == ST_DEPTH_UNKNOWN)
            return 0;
        if (!model->bases[i].is_equal_only && base->depth + 1 > depth)
            depth = base->depth + 1;
        reach = base->reach + 1 > reach ? base->reach + 1 : reach;
    }
    model->depth = depth;
    model->reach = reach;
    return 1;
}

void st_models_set_depths(st_models *models)
{
    int has_changed = 1;
    for (size_t i = 0; i < models->count; i++)
        models->list[i].depth = models->list[i].reach = ST_DEPTH_UNKNOWN;
    /* a pass settles at least the next link of every chain, and chains have at most LMC_ST_CHAIN_MAX files; in a run,
     * whose bases are earlier steps, one pass settles all */
    for (size_t pass = 0; pass < LMC_ST_CHAIN_MAX && has_changed; pass++) {
        has_changed = 0;
        for (size_t i = 0; i < models->count; i++)
            if (models->list[i].depth == ST_DEPTH_UNKNOWN)
                has_changed |= set_depth(models, &models->list[i]);
    }
}

void st_models_mark_dependents(const st_models *models, size_t index, unsigned char *needs)
{
    int has_changed = 1;
    memset(needs, 0, models->count);
    needs[index] = 1;
    while (has_changed) {
        has_changed = 0;
        for (size_t i = 0; i < models->count; i++) {
            const st_model *const model = &models->list[i];
            for (size_t j = 0; j < model->base_count && !needs[i]; j++) {
                const st_model *const base = st_models_find(models, model->bases[j].name);
                needs[i] = base && needs[base - models->list];
                has_changed |= needs[i];
            }
        }
    }
}
