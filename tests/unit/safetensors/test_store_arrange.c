/*
 * test_store_arrange.c - the choice of bases from predicted sizes: for the tensors of a file, and for
 * all models of a store (store/arrange.h), which is compared with the best arrangement of small stores.
 */
#include "lmc_test_st.h"

#include "safetensors/store/arrange.h"
#include "safetensors/store/selection.h"

/* ---- the tensors of a file ---- */

static const unsigned rank[] = {0, 1, 2, 3};

static void choose(const st_relative *relatives, size_t count, const unsigned char *is_allowed,
                   size_t *chosen)
{
    static const double alone[] = {10000, 10000, 10000};
    const st_selection selection = {.memory = &lmc_memory_default,
                                    .alone_nbytes = alone,
                                    .wanted_count = 3,
                                    .relatives = relatives,
                                    .relative_count = count,
                                    .model_count = 4,
                                    .is_allowed = is_allowed,
                                    .rank = rank};
    CU_ASSERT_EQUAL_FATAL(st_selection_choose(&selection, chosen), LMC_OK);
}

LMC_TEST(test_one_model_for_all)
{
    /* model 0 is best for two tensors, model 1 a little better for one of them */
    const st_relative relatives[] = {{.wanted = 0, .model = 0, .nbytes = 2000},
                                     {.wanted = 1, .model = 0, .nbytes = 3000},
                                     {.wanted = 1, .model = 1, .nbytes = 2990},
                                     {.wanted = 2, .model = 2, .nbytes = 500},
                                     {.wanted = 0, .model = 3, .nbytes = 9999}};
    const unsigned char all[] = {1, 1, 1, 1};
    const unsigned char others[] = {0, 1, 1, 1};
    size_t chosen[3];
    choose(relatives, 5, all, chosen);
    CU_ASSERT_EQUAL(chosen[0], 0);
    CU_ASSERT_EQUAL(chosen[1], 1);
    CU_ASSERT_EQUAL(chosen[2], 3);
    choose(relatives, 5, others, chosen);
    CU_ASSERT_EQUAL(chosen[0], SIZE_MAX); /* one byte is no reason */
    CU_ASSERT_EQUAL(chosen[1], 2);
    CU_ASSERT_EQUAL(chosen[2], 3);
    choose(relatives, 0, all, chosen);
    CU_ASSERT_EQUAL(chosen[0], SIZE_MAX);
}

LMC_TEST(test_rank_decides_a_tie)
{
    const st_relative relatives[] = {{.wanted = 0, .model = 1, .nbytes = 2000},
                                     {.wanted = 0, .model = 2, .nbytes = 1999.5}};
    const unsigned char all[] = {1, 1, 1, 1};
    size_t chosen[3];
    choose(relatives, 2, all, chosen);
    CU_ASSERT_EQUAL(chosen[0], 0);
}

/* ---- all models ---- */

#define COUNT_MAX 7

static uint64_t state;

static double random_below(double most)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 40) / (double)(1 << 24) * most;
}

typedef struct store {
    double alone[COUNT_MAX];
    st_base_cost costs[COUNT_MAX * COUNT_MAX];
    st_arrangement arrangement;
} store;

/* Models that are points on a line: the nearer, the smaller the delta. */
static void make_store(store *store, size_t count, uint64_t depth)
{
    double place[COUNT_MAX];
    size_t cost_count = 0;
    for (size_t i = 0; i < count; i++) {
        place[i] = random_below(1000);
        store->alone[i] = 600 + random_below(50);
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            const double away = place[i] > place[j] ? place[i] - place[j] : place[j] - place[i];
            const double nbytes = 20 + 2 * away + random_below(40);
            if (i != j && nbytes < store->alone[i])
                store->costs[cost_count++] = (st_base_cost){(uint32_t)i, (uint32_t)j, nbytes};
        }
    }
    store->arrangement = (st_arrangement){.memory = &lmc_memory_default,
                                          .model_count = count,
                                          .alone_nbytes = store->alone,
                                          .costs = store->costs,
                                          .cost_count = cost_count,
                                          .depth = depth};
}

/* 1 if no model needs itself, or more than depth others. */
static int is_legal(const st_arrangement *arrangement, const size_t *base)
{
    for (size_t i = 0; i < arrangement->model_count; i++) {
        uint64_t links = 0;
        for (size_t at = i; base[at] != ST_ARRANGE_NONE && links <= arrangement->depth; at = base[at])
            links++;
        if (links > arrangement->depth)
            return 0;
    }
    return 1;
}

/* Tries all arrangements. */
static double least(const st_arrangement *arrangement, size_t *base, size_t model)
{
    const size_t count = arrangement->model_count;
    double best = 1e300;
    if (model == count)
        return is_legal(arrangement, base) ? st_arrangement_nbytes(arrangement, base) : best;
    for (size_t i = 0; i <= count; i++) {
        if (i == model)
            continue;
        base[model] = i == count ? ST_ARRANGE_NONE : i;
        const double found = least(arrangement, base, model + 1);
        best = found < best ? found : best;
    }
    return best;
}

static void compare_with_best(uint64_t depth, double share_max)
{
    double sum = 0;
    double best_sum = 0;
    state = depth;
    for (unsigned round = 0; round < 40; round++) {
        store store;
        size_t base[COUNT_MAX];
        size_t tried[COUNT_MAX];
        const size_t count = 2 + round % (COUNT_MAX - 2);
        make_store(&store, count, depth);
        for (size_t i = 0; i < count; i++)
            base[i] = ST_ARRANGE_NONE;
        const double before = st_arrangement_nbytes(&store.arrangement, base);
        CU_ASSERT_EQUAL_FATAL(st_arrange(&store.arrangement, base), LMC_OK);
        const double after = st_arrangement_nbytes(&store.arrangement, base);
        CU_ASSERT(is_legal(&store.arrangement, base));
        CU_ASSERT(after <= before);
        /* what is good already stays */
        size_t again[COUNT_MAX];
        memcpy(again, base, sizeof again);
        CU_ASSERT_EQUAL_FATAL(st_arrange(&store.arrangement, again), LMC_OK);
        CU_ASSERT(st_arrangement_nbytes(&store.arrangement, again) <= after);
        sum += after;
        best_sum += least(&store.arrangement, tried, 0);
    }
    if (sum > best_sum * share_max)
        printf("depth %llu: %.4f of the best\n", (unsigned long long)depth, sum / best_sum);
    CU_ASSERT(sum >= best_sum * 0.999999 && sum <= best_sum * share_max);
}

LMC_TEST(test_depth_1)
{
    compare_with_best(1, 1.001);
}

LMC_TEST(test_depth_2)
{
    compare_with_best(2, 1.03);
}

LMC_TEST(test_memory)
{
    store store;
    size_t base[COUNT_MAX] = {ST_ARRANGE_NONE, ST_ARRANGE_NONE};
    make_store(&store, 2, 1);
    store.arrangement.model_count = 0;
    store.arrangement.cost_count = 0;
    CU_ASSERT_EQUAL(st_arrange(&store.arrangement, base), LMC_OK);
}

LMC_TEST_DIR_MAIN("store_arrange")
