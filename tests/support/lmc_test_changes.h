/*
 * lmc_test_changes.h - two versions of a few tensors in memory, and the archive that leads from one to the other: for
 * tests of lmc_st_changes and of bases in memory.
 */
#ifndef LMC_TEST_CHANGES_H
#define LMC_TEST_CHANGES_H

#include "lmc_test_st.h"

/* What a tensor is, and how it changes. */
typedef struct lmc_test_kind {
    const char *name;
    lmc_dtype dtype;
    unsigned element_nbytes; /* of what counts as an element */
    size_t count;            /* elements */
    size_t step;             /* one in so many elements changes; 0: none */
    int is_new;              /* it has no base */
} lmc_test_kind;

enum { W, F, D, U, C, TIED, SAME, DENSE, NOISE, SHORT, NONE, NEW, KIND_COUNT };

/* Sparse and dense changes in elements of all sizes; wide ones in F64. */
static const lmc_test_kind lmc_test_kinds[KIND_COUNT] = {
    [W] = {"w", LMC_DTYPE_BF16, 2, 400000, 97, 0},     [F] = {"f", LMC_DTYPE_F32, 4, 30000, 400, 0},
    [D] = {"d", LMC_DTYPE_F64, 8, 9000, 60, 0},        [U] = {"u", LMC_DTYPE_U8, 1, 40000, 300, 0},
    [C] = {"c", LMC_DTYPE_C64, 4, 8000, 3, 0},         [TIED] = {"w tied", LMC_DTYPE_BF16, 2, 400000, 97, 0},
    [SAME] = {"same", LMC_DTYPE_BF16, 2, 50000, 0, 0}, [DENSE] = {"dense", LMC_DTYPE_BF16, 2, 300000, 1, 0},
    [NOISE] = {"noise", LMC_DTYPE_U8, 1, 70000, 1, 0}, [SHORT] = {"short", LMC_DTYPE_U8, 1, 9, 2, 0},
    [NONE] = {"none", LMC_DTYPE_F32, 4, 0, 0, 0},      [NEW] = {"x is new", LMC_DTYPE_BF16, 2, 20000, 1, 1}};

/* A version of the tensors, each in memory of exactly its size. */
typedef struct lmc_test_state {
    void *bytes[KIND_COUNT];
} lmc_test_state;

static inline size_t lmc_test_kind_nbytes(size_t kind)
{
    return lmc_test_kinds[kind].count * lmc_test_kinds[kind].element_nbytes;
}

/* Noise of one kind in every version: it is stored. */
static inline void lmc_test_fill_noise(unsigned char *dst, size_t nbytes, uint64_t state)
{
    for (size_t i = 0; i < nbytes; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        dst[i] = (unsigned char)(state >> 56);
    }
}

static inline void lmc_test_fill_kind(unsigned char *dst, size_t kind, unsigned version)
{
    const lmc_test_kind *const k = &lmc_test_kinds[kind];
    const size_t seed = kind == TIED ? W : kind;
    if (kind == NOISE) {
        lmc_test_fill_noise(dst, lmc_test_kind_nbytes(kind), version);
        return;
    }
    lmc_test_weights(dst, lmc_test_kind_nbytes(kind), 7 + (uint32_t)seed);
    for (size_t i = version; version > 0 && k->step > 0 && i < k->count; i += k->step) {
        dst[i * k->element_nbytes] += (unsigned char)version;
        if (kind == D && i % 7 == 0) /* too wide for most differences */
            dst[i * k->element_nbytes + 7] ^= 0x55;
    }
}

static inline lmc_test_state lmc_test_state_open(unsigned version)
{
    lmc_test_state state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        state.bytes[i] = malloc(lmc_test_kind_nbytes(i) + (lmc_test_kind_nbytes(i) == 0));
        CU_ASSERT_PTR_NOT_NULL_FATAL(state.bytes[i]);
        lmc_test_fill_kind(state.bytes[i], i, version);
    }
    return state;
}

static inline void lmc_test_state_close(lmc_test_state *state)
{
    for (size_t i = 0; i < KIND_COUNT; i++)
        free(state->bytes[i]);
}

/* The first tensor in which they differ; KIND_COUNT: none. */
static inline size_t lmc_test_states_differ(const lmc_test_state *a, const lmc_test_state *b)
{
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (memcmp(a->bytes[i], b->bytes[i], lmc_test_kind_nbytes(i)) != 0)
            return i;
    return KIND_COUNT;
}

static inline void lmc_test_state_copy(const lmc_test_state *to, const lmc_test_state *from)
{
    for (size_t i = 0; i < KIND_COUNT; i++)
        memcpy(to->bytes[i], from->bytes[i], lmc_test_kind_nbytes(i));
}

/* A writer of all tensors; is_base: without the new one. */
static inline lmc_st_writer *lmc_test_state_writer(const lmc_test_state *state, int is_base)
{
    lmc_st_writer *const writer = lmc_test_writer();
    for (size_t i = 0; i < KIND_COUNT; i++) {
        const lmc_test_kind *const k = &lmc_test_kinds[i];
        const uint64_t count = k->dtype == LMC_DTYPE_C64 ? k->count / 2 : k->count;
        if (!is_base || !k->is_new)
            CU_ASSERT_EQUAL(lmc_test_add(writer, k->name, k->dtype, count, state->bytes[i]), LMC_OK);
    }
    return writer;
}

/* Writes the archive of a version, coded against another one in memory. base: its name, may be NULL. */
static inline lmc_status lmc_test_write_delta(const lmc_test_state *state, const lmc_test_state *base,
                                              const char *base_name, const char *path, unsigned thread_count,
                                              lmc_st_diag *diag)
{
    lmc_st_writer *const writer = lmc_test_state_writer(state, 0);
    lmc_st_writer *const base_writer = lmc_test_state_writer(base, 1);
    lmc_test_settings options = lmc_test_options(thread_count);
    options.force = 1;
    options.base = base_name;
    options.base_writer = base_writer;
    const lmc_status status = lmc_test_writer_write_as(writer, path, &options, NULL, diag);
    lmc_st_writer_free(writer);
    lmc_st_writer_free(base_writer);
    return status;
}

/* Numbers in an open file of the tensors, in the order of the kinds. */
static inline void lmc_test_state_indices(const lmc_st_file *file, uint64_t indices[KIND_COUNT])
{
    for (size_t i = 0; i < KIND_COUNT; i++)
        CU_ASSERT_TRUE_FATAL(lmc_st_find_tensor_sized(file, lmc_test_kinds[i].name,
                                                      strlen(lmc_test_kinds[i].name), &indices[i]));
}

static inline lmc_st_file *lmc_test_must_open(const char *path)
{
    lmc_st_file *file = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(path, NULL, &file, NULL), LMC_OK);
    return file;
}

#endif
