/*
 * arrange.c - store/arrange.h.
 */
#include "safetensors/store/arrange.h"

#include <string.h>

/* A change must save so much; smaller sums are rounding. */
#define GAIN_NBYTES_MIN 1.0

typedef struct search {
    const st_arrangement *given;
    size_t *first_cost; /* of each model, and the end */
    size_t *first_user; /* likewise in `users`: costs by their base */
    uint32_t *users;    /* numbers of costs */
    unsigned char *is_key;
    double *now;  /* what each model takes with these keys */
    size_t *base; /* and on which */
} search;

static double cost_on(const search *search, size_t model, size_t base)
{
    for (size_t i = search->first_cost[model]; i < search->first_cost[model + 1]; i++)
        if (search->given->costs[i].base == base)
            return search->given->costs[i].nbytes;
    return search->given->alone_nbytes[model];
}

double st_arrangement_nbytes(const st_arrangement *arrangement, const size_t *base)
{
    double total = 0;
    size_t at = 0;
    for (size_t i = 0; i < arrangement->model_count; i++) {
        double nbytes = arrangement->alone_nbytes[i];
        for (; at < arrangement->cost_count && arrangement->costs[at].model == i; at++)
            if (arrangement->costs[at].base == base[i])
                nbytes = arrangement->costs[at].nbytes;
        total += nbytes;
    }
    return total;
}

/* ---- depth 1: a set of keys ---- */

/* What the model takes if `added` is a key and `removed` is none, and on which. */
static double best_with(const search *search, size_t model, size_t added, size_t removed, size_t *base)
{
    double best = search->given->alone_nbytes[model];
    *base = ST_ARRANGE_NONE;
    if (model == added || (search->is_key[model] && model != removed))
        return best;
    for (size_t i = search->first_cost[model]; i < search->first_cost[model + 1]; i++) {
        const st_base_cost *const cost = &search->given->costs[i];
        const int is_key = cost->base == added || (search->is_key[cost->base] && cost->base != removed);
        if (is_key && cost->nbytes < best) {
            best = cost->nbytes;
            *base = cost->base;
        }
    }
    return best;
}

/* What changes if `added` becomes a key and `removed` is none any more: less than 0 is a gain. Either may be none. */
static double change_of(const search *search, size_t added, size_t removed)
{
    const size_t models[2] = {added, removed};
    double change = 0;
    size_t base;
    for (unsigned side = 0; side < 2; side++) {
        const size_t model = models[side];
        if (model == ST_ARRANGE_NONE)
            continue;
        change += best_with(search, model, added, removed, &base) - search->now[model];
        for (size_t i = search->first_user[model]; i < search->first_user[model + 1]; i++) {
            const size_t user = search->given->costs[search->users[i]].model;
            /* a model that uses both counts once */
            const int is_counted = side == 1 && added != ST_ARRANGE_NONE &&
                                   cost_on(search, user, added) < search->given->alone_nbytes[user];
            if (user != added && user != removed && !is_counted)
                change += best_with(search, user, added, removed, &base) - search->now[user];
        }
    }
    return change;
}

static void set_keys(search *search, size_t added, size_t removed)
{
    if (added != ST_ARRANGE_NONE)
        search->is_key[added] = 1;
    if (removed != ST_ARRANGE_NONE)
        search->is_key[removed] = 0;
    for (size_t i = 0; i < search->given->model_count; i++)
        search->now[i] = best_with(search, i, ST_ARRANGE_NONE, ST_ARRANGE_NONE, &search->base[i]);
}

/* Makes the change that saves most. Returns 0 if none saves anything. */
static int improve(search *search)
{
    const st_arrangement *const given = search->given;
    double best = -GAIN_NBYTES_MIN;
    size_t added = ST_ARRANGE_NONE;
    size_t removed = ST_ARRANGE_NONE;
    for (size_t i = 0; i < given->model_count; i++) {
        const double alone =
            search->is_key[i] ? change_of(search, ST_ARRANGE_NONE, i) : change_of(search, i, ST_ARRANGE_NONE);
        if (alone < best) {
            best = alone;
            added = search->is_key[i] ? ST_ARRANGE_NONE : i;
            removed = search->is_key[i] ? i : ST_ARRANGE_NONE;
        }
        /* it takes the place of a key that it could be based on */
        for (size_t j = search->first_cost[i]; j < search->first_cost[i + 1] && !search->is_key[i]; j++) {
            const size_t key = given->costs[j].base;
            const double change = search->is_key[key] ? change_of(search, i, key) : 0;
            if (change < best) {
                best = change;
                added = i;
                removed = key;
            }
        }
    }
    if (added == ST_ARRANGE_NONE && removed == ST_ARRANGE_NONE)
        return 0;
    set_keys(search, added, removed);
    return 1;
}

static double total_of(const search *search)
{
    double total = 0;
    for (size_t i = 0; i < search->given->model_count; i++)
        total += search->now[i];
    return total;
}

/* ---- greater depths ---- */

/* Links from the model to its key; ST_ARRANGE_NONE if `without` is among them. */
static size_t depth_of(const size_t *base, size_t model, size_t without)
{
    size_t depth = 0;
    for (; model != without && base[model] != ST_ARRANGE_NONE; model = base[model])
        depth++;
    return model == without ? ST_ARRANGE_NONE : depth;
}

/* Links from the deepest model that needs this one. */
static size_t height_of(const size_t *base, size_t count, size_t model)
{
    size_t height = 0;
    for (size_t i = 0; i < count; i++) {
        size_t links = 0;
        size_t at = i;
        for (; at != model && base[at] != ST_ARRANGE_NONE; at = base[at])
            links++;
        if (at == model && links > height)
            height = links;
    }
    return height;
}

/* Moves models below others wherever that saves and the depth allows it. */
static void move_down(search *search)
{
    const st_arrangement *const given = search->given;
    int has_changed = given->depth > 1;
    while (has_changed) {
        has_changed = 0;
        for (size_t i = 0; i < given->model_count; i++) {
            const size_t height = height_of(search->base, given->model_count, i);
            for (size_t j = search->first_cost[i]; j < search->first_cost[i + 1]; j++) {
                const st_base_cost *const cost = &given->costs[j];
                const size_t depth = depth_of(search->base, cost->base, i);
                if (cost->nbytes > search->now[i] - GAIN_NBYTES_MIN || depth == ST_ARRANGE_NONE ||
                    depth + 1 + height > given->depth)
                    continue;
                search->now[i] = cost->nbytes;
                search->base[i] = cost->base;
                has_changed = 1;
            }
        }
    }
}

/* ---- all of it ---- */

static lmc_status allocate(search *search)
{
    const st_arrangement *const given = search->given;
    const lmc_allocator *const memory = given->memory;
    const size_t count = given->model_count;
    search->first_cost = st_allocate_zeroed(memory, count + 2, sizeof *search->first_cost);
    search->first_user = st_allocate_zeroed(memory, count + 2, sizeof *search->first_user);
    search->users = st_allocate_zeroed(memory, given->cost_count + 1, sizeof *search->users);
    search->is_key = st_allocate_zeroed(memory, count + 1, 1);
    search->now = st_allocate_zeroed(memory, count + 1, sizeof *search->now);
    search->base = st_allocate_zeroed(memory, count + 1, sizeof *search->base);
    if (!search->first_cost || !search->first_user || !search->users || !search->is_key || !search->now ||
        !search->base)
        return LMC_ERR_NOMEM;
    for (size_t i = 0; i < given->cost_count; i++) {
        search->first_cost[given->costs[i].model + 1]++;
        search->first_user[given->costs[i].base + 2]++;
    }
    for (size_t i = 0; i < count; i++) {
        search->first_cost[i + 1] += search->first_cost[i];
        search->first_user[i + 2] += search->first_user[i + 1];
    }
    for (size_t i = 0; i < given->cost_count; i++)
        search->users[search->first_user[given->costs[i].base + 1]++] = (uint32_t)i;
    return LMC_OK;
}

static void search_from_here(search *search)
{
    set_keys(search, ST_ARRANGE_NONE, ST_ARRANGE_NONE);
    while (improve(search))
        ;
    move_down(search);
}

lmc_status st_arrange(const st_arrangement *arrangement, size_t *base)
{
    const lmc_allocator *const memory = arrangement->memory;
    const size_t count = arrangement->model_count;
    search search = {.given = arrangement};
    double best = st_arrangement_nbytes(arrangement, base);
    const lmc_status status = allocate(&search);
    for (unsigned start = 0; start < 2 && status == LMC_OK; start++) {
        for (size_t i = 0; i < count; i++)
            search.is_key[i] = start == 0 && base[i] == ST_ARRANGE_NONE;
        search_from_here(&search);
        if (total_of(&search) >= best - GAIN_NBYTES_MIN)
            continue;
        best = total_of(&search);
        memcpy(base, search.base, count * sizeof *base);
    }
    st_release(memory, search.first_cost);
    st_release(memory, search.first_user);
    st_release(memory, search.users);
    st_release(memory, search.is_key);
    st_release(memory, search.now);
    st_release(memory, search.base);
    return status;
}
