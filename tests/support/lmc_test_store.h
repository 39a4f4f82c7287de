/*
 * lmc_test_store.h - what tests of the index of a store share: small models, and an index with some.
 */
#ifndef LMC_TEST_STORE_H
#define LMC_TEST_STORE_H

#include "lmc_test_st.h"

#include "safetensors/store/index.h"

#define TENSOR_COUNT 6

static lmc_st_diag diag = {.struct_size = sizeof(lmc_st_diag)};

/* The largest block that was asked for. */
static size_t largest_nbytes;

static inline void *allocate(void *user, size_t nbytes)
{
    (void)user;
    largest_nbytes = nbytes > largest_nbytes ? nbytes : largest_nbytes;
    return calloc(1, nbytes);
}

static inline void release(void *user, void *block)
{
    (void)user;
    free(block);
}

static const lmc_allocator memory = {allocate, release, NULL};
static const st_index_how how = {.memory = &memory};

/* ---- models ---- */

static inline uint32_t random_next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static inline void fill_sketch(st_sketch *sketch, uint32_t seed, uint32_t own_seed, unsigned changed)
{
    uint32_t state = seed * 2654435761u + 1, own = own_seed * 2246822519u + 1;
    for (size_t i = 0; i < 128; i++) {
        uint16_t value = (uint16_t)(0x3c00 + (random_next(&state) & 0x83ff));
        if (random_next(&own) % 100 < changed)
            value = (uint16_t)(value + 1 + random_next(&own) % 3);
        memcpy(sketch->bytes + 2 * i, &value, 2);
    }
}

/* A model of six BF16 tensors. Of each, `changed` percent of the values differ from those of the family. */
static inline void fill_model(st_index_tensor *tensors, uint32_t family, uint32_t own_seed, unsigned changed)
{
    static const unsigned shapes[TENSOR_COUNT][2] = {{1000, 512}, {512, 512}, {512, 512},
                                                     {2048, 512}, {1, 512},   {1, 100}};
    memset(tensors, 0, TENSOR_COUNT * sizeof *tensors);
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        tensors[i].dtype = LMC_DTYPE_BF16;
        tensors[i].nbytes = 2 * (uint64_t)shapes[i][0] * shapes[i][1];
        tensors[i].row_nbytes = 2 * (uint64_t)shapes[i][1];
        tensors[i].has_head = shapes[i][0] > 1;
        tensors[i].content_hash = (uint64_t)family << 32 | own_seed << 8 | i;
        fill_sketch(&tensors[i].sketch, 100 * family + i, 100 * own_seed + i, changed);
        if (tensors[i].has_head) {
            fill_sketch(&tensors[i].head, 100 * family + i + 50, 100 * own_seed + i + 50, changed);
            memset(tensors[i].head.bytes + 64, 0, sizeof tensors[i].head - 64);
        }
    }
}

static inline void open_index(st_index *index, const char *path)
{
    int is_new = 0;
    CU_ASSERT_EQUAL_FATAL(st_index_open(index, path, &how, &is_new, &diag), LMC_OK);
}

static inline void begin(st_index *index)
{
    CU_ASSERT_EQUAL_FATAL(st_index_begin(index, &diag), LMC_OK);
}

static inline void commit(st_index *index)
{
    CU_ASSERT_EQUAL_FATAL(st_index_commit(index, &diag), LMC_OK);
}

/* Adds "mN/x.lmc" of the model "mN". */
static inline uint32_t add_model(st_index *index, unsigned number, const st_index_tensor *tensors)
{
    char model[20], path[30];
    uint32_t id = 0;
    snprintf(model, sizeof model, "m%u", number);
    snprintf(path, sizeof path, "m%u/x.lmc", number);
    begin(index);
    CU_ASSERT_EQUAL(
        st_index_add_file(index, model, path, 1000 + number, -5, tensors, TENSOR_COUNT, &id, &diag), LMC_OK);
    CU_ASSERT(id > 0);
    commit(index);
    return id;
}

/* Models of three families, where model N is of family N % 3 and N percent of it are changed. */
static inline void add_models(st_index *index, unsigned count)
{
    st_index_tensor tensors[TENSOR_COUNT];
    for (unsigned i = 0; i < count; i++) {
        fill_model(tensors, i % 3, i + 1, i);
        add_model(index, i, tensors);
    }
}

typedef struct listed {
    unsigned count;
    char text[500];
} listed;

static inline lmc_status list_file(void *user, const st_index_file *file)
{
    listed *const listed = user;
    const size_t used = strlen(listed->text);
    listed->count++;
    snprintf(listed->text + used, sizeof listed->text - used, "%s %s %u %d %u;", file->model, file->path,
             (unsigned)file->nbytes, (int)file->mtime_ns, file->tensor_count);
    return listed->count > 100 ? LMC_ERR_CANCELLED : LMC_OK;
}

#endif
