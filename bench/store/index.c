/*
 * index.c - lmc-bench-store: time and quality of the index of a store, with sketches of models that were never there:
 *
 *     lmc-bench-store PATH MODEL_COUNT [QUERY_COUNT]
 *
 * Each model has 300 BF16 tensors of one architecture. Twenty models have a common ancestor: in each, between 0.1
 * and 30 % of the values differ from it by a little. PATH is the index, which is made and stays. Of the
 * queries, one in four is a model that has nothing to do with the others. All times are of one thread.
 */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "common/allocator.h"
#include "safetensors/store/index.h"

#define LAYER_COUNT 33
#define TENSOR_COUNT (9 * LAYER_COUNT + 3)
#define FAMILY_COUNT 20
#define EXHAUSTIVE_COUNT 3

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

/* ---- models ---- */

static void set_shape(st_index_tensor *tensor, unsigned number)
{
    static const unsigned shapes[9][2] = {{4096, 4096},  {1024, 4096},  {1024, 4096},
                                          {4096, 4096},  {14336, 4096}, {14336, 4096},
                                          {4096, 14336}, {1, 4096},     {1, 4096}};
    static const unsigned others[3][2] = {{128256, 4096}, {128256, 4096}, {1, 4096}};
    const unsigned *const shape =
        number < 9 * LAYER_COUNT ? shapes[number % 9] : others[number - 9 * LAYER_COUNT];
    tensor->dtype = LMC_DTYPE_BF16;
    tensor->nbytes = (uint64_t)shape[0] * shape[1] * 2;
    tensor->row_nbytes = (uint64_t)shape[1] * 2;
    tensor->has_head = shape[0] > 1;
}

/* Values of an ancestor, some of which are changed: sign, a few exponents, seven bits of mantissa. */
static void draw(unsigned char *bytes, size_t count, uint64_t seed, uint64_t own_seed, unsigned changed)
{
    uint64_t state = seed, own = own_seed;
    for (size_t i = 0; i < count; i++) {
        const uint64_t bits = random_next(&state);
        const unsigned exponent = 122 - (unsigned)__builtin_ctzll(bits >> 16 | 1 << 20);
        unsigned value = (unsigned)(bits & 0x807f) | exponent << 7;
        const uint64_t change = random_next(&own);
        if (change % 10000 < changed)
            value += (change >> 32 & 1 ? 1 : 0xffff) *
                     (1 + (unsigned)(change >> 40 & 7) % (1 + (unsigned)(change >> 48 & 7)));
        lmc_store16(bytes + 2 * i, (uint16_t)value);
    }
}

static uint64_t seed_of(uint64_t family, unsigned number, unsigned part)
{
    uint64_t state = family * 1000003 + number * 8 + part;
    return random_next(&state);
}

/* coarse_only: what distances look at. */
static void make_model(st_index_tensor *tensors, uint64_t model, uint64_t family, int coarse_only)
{
    uint64_t state = model * 77 + 5;
    const uint64_t share = random_next(&state) % 1000;
    const unsigned changed = (unsigned)(10 + 2990 * share * share / 1000000);
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        const uint64_t own = (model + 1) << 32 | (uint64_t)i << 8;
        set_shape(&tensors[i], i);
        tensors[i].content_hash = own;
        draw(tensors[i].sketch.bytes, 32, seed_of(family, i, 0), own, changed);
        if (coarse_only)
            continue;
        draw(tensors[i].sketch.bytes + 64, 96, seed_of(family, i, 1), own + 1, changed);
        memset(&tensors[i].head, 0, sizeof tensors[i].head);
        draw(tensors[i].head.bytes, 32, seed_of(family, i, 2), own + 2, changed);
    }
}

static uint64_t family_of(uint64_t model)
{
    return model / FAMILY_COUNT;
}

/* ---- measurements ---- */

static void check(lmc_status status, const lmc_st_diag *diag)
{
    if (status == LMC_OK)
        return;
    fprintf(stderr, "lmc-bench-store: %s\n", diag->text);
    exit(1);
}

static double add_models(st_index *index, uint64_t count, st_index_tensor *tensors, lmc_st_diag *diag)
{
    double seconds = 0;
    for (uint64_t model = 0; model < count; model++) {
        char name[32], path[64];
        make_model(tensors, model, family_of(model), 0);
        snprintf(name, sizeof name, "models/%llu", (unsigned long long)model);
        snprintf(path, sizeof path, "%s/model.lmc", name);
        const double begin = now_s();
        check(st_index_begin(index, diag), diag);
        check(st_index_add_file(index, name, path, 16000000000, (int64_t)model, tensors, TENSOR_COUNT, NULL,
                                diag),
              diag);
        check(st_index_commit(index, diag), diag);
        seconds += now_s() - begin;
    }
    return seconds;
}

typedef struct searched {
    st_index_tensor wanted[TENSOR_COUNT];
    st_index_hits hits[TENSOR_COUNT];
    uint32_t nearest[TENSOR_COUNT];
} searched;

/* Compares a model with all others, and prints for how many tensors the search found one as near as any. */
static void print_recall(searched *one, uint64_t model_count, st_index_tensor *tensors)
{
    unsigned related_count = 0, found_count = 0;
    memset(one->nearest, 0xff, sizeof one->nearest);
    for (uint64_t model = 0; model < model_count; model++) {
        make_model(tensors, model, family_of(model), 1);
        for (unsigned i = 0; i < TENSOR_COUNT; i++) {
            uint32_t distances[TENSOR_COUNT];
            st_sketch_distances(LMC_DTYPE_BF16, &one->wanted[i].sketch, tensors[0].sketch.bytes,
                                sizeof *tensors, TENSOR_COUNT, distances);
            for (unsigned j = 0; j < TENSOR_COUNT; j++)
                if (tensors[j].nbytes == one->wanted[i].nbytes && distances[j] < one->nearest[i])
                    one->nearest[i] = distances[j];
        }
    }
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        if (one->nearest[i] >= one->hits[i].spread / 2)
            continue;
        related_count++;
        found_count += one->hits[i].count > 0 && one->hits[i].list[0].distance <= one->nearest[i];
    }
    printf("recall %u of %u tensors that have a relative\n", found_count, related_count);
}

int main(int argc, char **argv)
{
    static searched one;
    static st_index_tensor tensors[TENSOR_COUNT];
    lmc_st_diag diag = {.struct_size = sizeof diag};
    st_index index;
    struct stat status;
    struct rusage usage;
    int is_new = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: lmc-bench-store PATH MODEL_COUNT [QUERY_COUNT]\n");
        return 1;
    }
    const uint64_t model_count = strtoull(argv[2], NULL, 10);
    const unsigned query_count = argc > 3 ? (unsigned)atoi(argv[3]) : 20;
    check(st_index_open(&index, argv[1], &(st_index_how){.memory = &lmc_memory_default}, &is_new, &diag),
          &diag);
    if (is_new) {
        const double seconds = add_models(&index, model_count, tensors, &diag);
        printf("added %llu models: %.1f s, %.2f ms each\n", (unsigned long long)model_count, seconds,
               1000 * seconds / (double)model_count);
    }
    for (unsigned query = 0; query < query_count; query++) {
        uint64_t state = query;
        const int is_related = query % 4 != 3;
        const uint64_t family =
            is_related ? random_next(&state) % (family_of(model_count - 1) + 1) : 1000000 + query;
        make_model(one.wanted, 5000000 + query, family, 0);
        const double begin = now_s();
        check(st_index_search(&index, one.wanted, TENSOR_COUNT, NULL, NULL, one.hits, &diag), &diag);
        const double seconds = now_s() - begin;
        unsigned hit_count = 0;
        for (unsigned i = 0; i < TENSOR_COUNT; i++)
            hit_count += one.hits[i].count > 0;
        printf("search %2u, %s: %.1f ms, hits for %u tensors\n", query, is_related ? "related" : "alone",
               1000 * seconds, hit_count);
        if (query == query_count - 1 || query >= EXHAUSTIVE_COUNT)
            continue;
        getrusage(RUSAGE_SELF, &usage);
        if (model_count <= 4000)
            print_recall(&one, model_count, tensors);
    }
    getrusage(RUSAGE_SELF, &usage);
    st_index_close(&index);
    if (stat(argv[1], &status) == 0)
        printf("file %.1f MB, peak memory %.1f MB\n", (double)status.st_size / 1e6,
               (double)usage.ru_maxrss / 1e3);
    return 0;
}
