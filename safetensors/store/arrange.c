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
    double *now;    /* what each model takes with these keys */
    size_t *base;   /* and on which */
    double *second; /* what it takes if it loses that base; of a key, if it were none */
} search;

/* NULL: the model cannot be based on that one. */
static const st_base_cost *find_cost(const search *search, size_t model, size_t base)
{
    for (size_t i = search->first_cost[model]; i < search->first_cost[model + 1]; i++)
        if (search->given->costs[i].base == base)
            return &search->given->costs[i];
    return NULL;
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

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* What a model that stays no key takes without the key `removed`. */
static double without(const search *search, size_t model, size_t removed)
{
    return removed != ST_ARRANGE_NONE && search->base[model] == removed ? search->second[model]
                                                                        : search->now[model];
}

/* What changes if `added` becomes a key and `removed` is none any more: less than 0 is a gain. Either may be none. */
static double change_of(const search *search, size_t added, size_t removed)
{
    const st_base_cost *const costs = search->given->costs;
    double change = 0;
    if (added != ST_ARRANGE_NONE) {
        change += search->given->alone_nbytes[added] - search->now[added];
        for (size_t i = search->first_user[added]; i < search->first_user[added + 1]; i++) {
            const st_base_cost *const cost = &costs[search->users[i]];
            if (cost->model != removed && !search->is_key[cost->model])
                change +=
                    smaller(cost->nbytes, without(search, cost->model, removed)) - search->now[cost->model];
        }
    }
    if (removed == ST_ARRANGE_NONE)
        return change;
    const st_base_cost *const on_added = added == ST_ARRANGE_NONE ? NULL : find_cost(search, removed, added);
    change += on_added ? smaller(search->second[removed], on_added->nbytes) : search->second[removed];
    change -= search->now[removed];
    for (size_t i = search->first_user[removed]; i < search->first_user[removed + 1]; i++) {
        const size_t user = costs[search->users[i]].model;
        /* a model that could use both was counted above */
        if (user != added && search->base[user] == removed &&
            (added == ST_ARRANGE_NONE || !find_cost(search, user, added)))
            change += search->second[user] - search->now[user];
    }
    return change;
}

/* Finds what each model takes with the keys that there are. */
static void set_keys(search *search, size_t added, size_t removed)
{
    if (added != ST_ARRANGE_NONE)
        search->is_key[added] = 1;
    if (removed != ST_ARRANGE_NONE)
        search->is_key[removed] = 0;
    for (size_t i = 0; i < search->given->model_count; i++) {
        double best = search->given->alone_nbytes[i];
        double second = best;
        size_t base = ST_ARRANGE_NONE;
        for (size_t j = search->first_cost[i]; j < search->first_cost[i + 1]; j++) {
            const st_base_cost *const cost = &search->given->costs[j];
            if (!search->is_key[cost->base] || cost->nbytes >= second)
                continue;
            second = cost->nbytes < best ? best : cost->nbytes;
            base = cost->nbytes < best ? cost->base : base;
            best = smaller(best, cost->nbytes);
        }
        search->now[i] = search->is_key[i] ? search->given->alone_nbytes[i] : best;
        search->base[i] = search->is_key[i] ? ST_ARRANGE_NONE : base;
        search->second[i] = search->is_key[i] ? best : second;
    }
}

static double total_of(const search *search)
{
    double total = 0;
    for (size_t i = 0; i < search->given->model_count; i++)
        total += search->now[i];
    return total;
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
    const double before = total_of(search);
    set_keys(search, added, removed);
    if (total_of(search) < before)
        return 1;
    set_keys(search, removed, added); /* of numbers this large, what it seemed to save is rounding */
    return 0;
}

/* ---- greater depths ---- */

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
                size_t depth = 0; /* links from the new base to its key */
                size_t at = cost->base;
                for (; at != i && search->base[at] != ST_ARRANGE_NONE; at = search->base[at])
                    depth++;
                if (search->now[i] - cost->nbytes < GAIN_NBYTES_MIN || at == i ||
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
    search->second = st_allocate_zeroed(memory, count + 1, sizeof *search->second);
    if (!search->first_cost || !search->first_user || !search->users || !search->is_key || !search->now ||
        !search->base || !search->second)
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

/* Arranges models of which each may be based on any other one, in some way. */
static lmc_status arrange_family(const st_arrangement *arrangement, size_t *base)
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
    st_release(memory, search.second);
    return status;
}

/* ---- families: models without a cost between them do not meet ---- */

/* What the whole is split into. The arrays with `room` are those of the family that is arranged. */
typedef struct families {
    const st_arrangement *given;
    uint32_t *parent;   /* of each model: the family is the root; union and find */
    uint32_t *order;    /* the models by their family */
    uint32_t *number;   /* of each model in its family */
    size_t *first_cost; /* of each model, and the end */
    double *room_alone;
    st_base_cost *room_costs;
    size_t *room_base;
} families;

static uint32_t family_of(uint32_t *parent, uint32_t model)
{
    while (parent[model] != model) {
        parent[model] = parent[parent[model]];
        model = parent[model];
    }
    return model;
}

/* Sorts the models by their families, each family by rising model. next: room, zeros, one per model and one. */
static void sort_models(const families *families, uint32_t *next)
{
    const size_t count = families->given->model_count;
    for (size_t i = 0; i < families->given->cost_count; i++) {
        const uint32_t a = family_of(families->parent, families->given->costs[i].model);
        const uint32_t b = family_of(families->parent, families->given->costs[i].base);
        families->parent[a > b ? a : b] = a > b ? b : a;
    }
    for (size_t i = 0; i < count; i++)
        next[family_of(families->parent, (uint32_t)i) + 1]++;
    for (size_t i = 0; i < count; i++)
        next[i + 1] += next[i];
    for (size_t i = 0; i < count; i++)
        families->order[next[family_of(families->parent, (uint32_t)i)]++] = (uint32_t)i;
}

/* The number in its family of the base that a model has now. One of another family, which has no cost, is none. */
static size_t base_in_family(const families *families, size_t model, const size_t *base)
{
    const size_t now = base[model];
    return now != ST_ARRANGE_NONE &&
                   family_of(families->parent, (uint32_t)now) == family_of(families->parent, (uint32_t)model)
               ? families->number[now]
               : ST_ARRANGE_NONE;
}

/* Arranges the models order[begin, end), a family. */
static lmc_status arrange_part(const families *families, size_t begin, size_t end, size_t *base)
{
    const st_arrangement *const given = families->given;
    size_t cost_count = 0;
    for (size_t i = begin; i < end; i++)
        families->number[families->order[i]] = (uint32_t)(i - begin);
    for (size_t i = begin; i < end; i++) {
        const uint32_t model = families->order[i];
        families->room_alone[i - begin] = given->alone_nbytes[model];
        families->room_base[i - begin] = base_in_family(families, model, base);
        for (size_t j = families->first_cost[model]; j < families->first_cost[model + 1]; j++)
            families->room_costs[cost_count++] = (st_base_cost){
                (uint32_t)(i - begin), families->number[given->costs[j].base], given->costs[j].nbytes};
    }
    const st_arrangement part = {given->memory,        end - begin, families->room_alone,
                                 families->room_costs, cost_count,  given->depth};
    LMC_TRY(arrange_family(&part, families->room_base));
    for (size_t i = begin; i < end; i++) {
        const size_t found = families->room_base[i - begin];
        if (found != base_in_family(families, families->order[i], base))
            base[families->order[i]] =
                found == ST_ARRANGE_NONE ? ST_ARRANGE_NONE : families->order[begin + found];
    }
    return LMC_OK;
}

lmc_status st_arrange(const st_arrangement *arrangement, size_t *base)
{
    const lmc_allocator *const memory = arrangement->memory;
    const size_t count = arrangement->model_count;
    families families = {.given = arrangement,
                         .parent = st_allocate_array(memory, count + 1, sizeof(uint32_t)),
                         .order = st_allocate_array(memory, count + 1, sizeof(uint32_t)),
                         .number = st_allocate_array(memory, count + 1, sizeof(uint32_t)),
                         .first_cost = st_allocate_zeroed(memory, count + 1, sizeof(size_t)),
                         .room_alone = st_allocate_array(memory, count + 1, sizeof(double)),
                         .room_costs =
                             st_allocate_array(memory, arrangement->cost_count + 1, sizeof(st_base_cost)),
                         .room_base = st_allocate_array(memory, count + 1, sizeof(size_t))};
    uint32_t *const next = st_allocate_zeroed(memory, count + 2, sizeof *next);
    lmc_status status = families.parent && families.order && families.number && families.first_cost &&
                                families.room_alone && families.room_costs && families.room_base && next
                            ? LMC_OK
                            : LMC_ERR_NOMEM;
    if (status == LMC_OK) {
        for (size_t i = 0; i < count; i++)
            families.parent[i] = (uint32_t)i;
        for (size_t i = 0; i < arrangement->cost_count; i++)
            families.first_cost[arrangement->costs[i].model + 1]++;
        for (size_t i = 0; i < count; i++)
            families.first_cost[i + 1] += families.first_cost[i];
        sort_models(&families, next);
    }
    for (size_t begin = 0; begin < count && status == LMC_OK;) {
        const uint32_t family = family_of(families.parent, families.order[begin]);
        size_t end = begin + 1;
        while (end < count && family_of(families.parent, families.order[end]) == family)
            end++;
        if (end - begin > 1)
            status = arrange_part(&families, begin, end, base);
        begin = end;
    }
    st_release(memory, families.parent);
    st_release(memory, families.order);
    st_release(memory, families.number);
    st_release(memory, families.first_cost);
    st_release(memory, families.room_alone);
    st_release(memory, families.room_costs);
    st_release(memory, families.room_base);
    st_release(memory, next);
    return status;
}
