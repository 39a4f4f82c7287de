/*
 * code_plan.c - cuts the symbols, sorted by weight, into layers. The cheapest way to code the symbols from
 * rank i on is a layer for ranks i..j-1, the rest of them in its list, and the cheapest way from j on: a
 * shortest path over a few places j for each i.
 */
#include "code_plan.h"

#include <math.h>

#define NBITS_MAX LMC_FMT_LAYER_NBITS_MAX
#define ENTRIES_MAX (1 << NBITS_MAX)

/* Prices in bits, beside those that are stored. A partial plane costs decoding time where a full one is
 * free, and a layer is another pass: values from the measurements behind format.md. */
#define PRICE_PARTIAL_PLANE 0.01
#define PRICE_FLAT_PASS 0.02
#define REST_NBITS 8.0
#define COUNT_NBITS 24.0 /* of a partial plane or list, in every block */
#define VALUES_PER_BLOCK 65536.0
#define UNSEEN_WEIGHT 0.3 /* of all symbols that the sample missed, in sampled values */
#define TABLE_NBITS_PER_SYMBOL 4.5

/* The symbols by falling weight. */
typedef struct ranking {
    unsigned count;
    uint8_t symbol[256];
    double weight[256];
    double tail[257]; /* weight of ranks i and up, and of what was not seen */
    double total;
    double scale; /* values per unit of weight */
} ranking;

/* A layer as planned: ranks [first, end), the list behind them. */
typedef struct layer_plan {
    uint8_t nbits[ENTRIES_MAX]; /* of ranks first.., then of the list if there is one */
    unsigned first_nbits;
    unsigned last_nbits;
} layer_plan;

double lmc_entropy(const double *weight, size_t count)
{
    double total = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (weight[i] > 0) {
            total += weight[i];
            sum += weight[i] * log2(weight[i]);
        }
    }
    return total > 0 ? log2(total) - sum / total : 0;
}

static void rank_symbols(const double weight[256], const lmc_code_options *options, ranking *r)
{
    r->count = 0;
    r->total = 0;
    for (unsigned s = 0; s < 256; s++) {
        if (weight[s] <= 0)
            continue;
        unsigned i = r->count++;
        for (; i > 0 && r->weight[i - 1] < weight[s]; i--) {
            r->weight[i] = r->weight[i - 1];
            r->symbol[i] = r->symbol[i - 1];
        }
        r->weight[i] = weight[s];
        r->symbol[i] = (uint8_t)s;
        r->total += weight[s];
    }
    r->tail[r->count] = options->may_omit_rest ? 0 : UNSEEN_WEIGHT;
    for (unsigned i = r->count; i-- > 0;)
        r->tail[i] = r->tail[i + 1] + r->weight[i];
    r->scale = options->value_count / r->total;
}

/* ---- lengths of one layer ---- */

/* Huffman's lengths of n >= 2 weights in rising order, by two queues: the leaves, and the sums, which come
 * out in order too. Returns the longest. */
static unsigned huffman_lengths(const double *weight, unsigned n, uint8_t *nbits)
{
    double sum[ENTRIES_MAX];
    uint8_t parent[2 * ENTRIES_MAX]; /* of leaf i, and at n + i of sum i: an index of a sum */
    uint8_t depth[ENTRIES_MAX];
    unsigned leaf = 0, inner = 0, longest = 0;
    for (unsigned k = 0; k + 1 < n; k++) {
        sum[k] = 0;
        for (unsigned i = 0; i < 2; i++) {
            const int take_leaf = leaf < n && (inner == k || weight[leaf] <= sum[inner]);
            sum[k] += take_leaf ? weight[leaf] : sum[inner];
            parent[take_leaf ? leaf++ : n + inner++] = (uint8_t)k;
        }
    }
    depth[n - 2] = 0;
    for (unsigned k = n - 2; k-- > 0;)
        depth[k] = (uint8_t)(depth[parent[n + k]] + 1);
    for (unsigned i = 0; i < n; i++) {
        nbits[i] = (uint8_t)(depth[parent[i]] + 1);
        longest = nbits[i] > longest ? nbits[i] : longest;
    }
    return longest;
}

/* Package-merge (Larmore and Hirschberg 1990): code lengths of n >= 2 weights in rising order, at most
 * NBITS_MAX, of least total. Level by level, leaves and pairs of the level below are merged in order; how
 * many leaves the chosen prefix of each level holds gives the lengths. */
static void limited_lengths(const double *weight, unsigned n, uint8_t *nbits)
{
    double value[NBITS_MAX][2 * ENTRIES_MAX];
    uint8_t is_leaf[NBITS_MAX][2 * ENTRIES_MAX];
    unsigned count[NBITS_MAX];
    for (unsigned level = 0; level < NBITS_MAX; level++) {
        const unsigned pairs = level ? count[level - 1] / 2 : 0;
        unsigned leaf = 0, pair = 0, k = 0;
        while (leaf < n || pair < pairs) {
            const double pair_value =
                pair < pairs ? value[level - 1][2 * pair] + value[level - 1][2 * pair + 1] : INFINITY;
            const int take_leaf = leaf < n && weight[leaf] <= pair_value;
            value[level][k] = take_leaf ? weight[leaf] : pair_value;
            is_leaf[level][k++] = (uint8_t)take_leaf;
            leaf += (unsigned)take_leaf;
            pair += (unsigned)!take_leaf;
        }
        count[level] = k;
    }
    memset(nbits, 0, n);
    unsigned take = 2 * n - 2;
    for (unsigned level = NBITS_MAX; level-- > 0 && take > 0;) {
        unsigned leaves = 0;
        for (unsigned i = 0; i < take; i++)
            leaves += is_leaf[level][i];
        for (unsigned i = 0; i < leaves; i++)
            nbits[i]++;
        take = 2 * (take - leaves);
    }
}

/* Plans ranks [first, end) as one layer, with a list if anything is behind them. Returns its cost in bits
 * times weight, or INFINITY when it has too many entries or too few. */
static double plan_huffman_layer(const ranking *r, unsigned first, unsigned end, layer_plan *layer)
{
    const int has_list = r->tail[end] > 0;
    const unsigned n = end - first + (unsigned)has_list;
    double weight[ENTRIES_MAX];
    uint8_t nbits[ENTRIES_MAX];
    uint8_t entry[ENTRIES_MAX]; /* index in layer->nbits of the i-th lightest */
    if (n < 2 || n > ENTRIES_MAX)
        return INFINITY;
    unsigned k = 0;
    int list_done = !has_list;
    for (unsigned i = end; i-- > first;) {
        if (!list_done && r->tail[end] <= r->weight[i]) {
            weight[k] = r->tail[end];
            entry[k++] = (uint8_t)(end - first);
            list_done = 1;
        }
        weight[k] = r->weight[i];
        entry[k++] = (uint8_t)(i - first);
    }
    if (!list_done) {
        weight[k] = r->tail[end];
        entry[k++] = (uint8_t)(end - first);
    }
    if (huffman_lengths(weight, n, nbits) > NBITS_MAX)
        limited_lengths(weight, n, nbits);
    double cost = 0;
    layer->first_nbits = NBITS_MAX;
    layer->last_nbits = 1;
    for (unsigned i = 0; i < n; i++) {
        layer->nbits[entry[i]] = nbits[i];
        cost += weight[i] * nbits[i];
        layer->first_nbits = nbits[i] < layer->first_nbits ? nbits[i] : layer->first_nbits;
        layer->last_nbits = nbits[i] > layer->last_nbits ? nbits[i] : layer->last_nbits;
    }
    return cost + PRICE_PARTIAL_PLANE * (layer->last_nbits - layer->first_nbits) * r->tail[first];
}

static double plan_flat_layer(const ranking *r, unsigned first, unsigned end, layer_plan *layer)
{
    const unsigned n = end - first + (r->tail[end] > 0);
    unsigned nbits = 1;
    while (1u << nbits < n)
        nbits++;
    if (n != 1u << nbits || nbits > NBITS_MAX)
        return INFINITY;
    memset(layer->nbits, (int)nbits, n);
    layer->first_nbits = layer->last_nbits = nbits;
    return (nbits + PRICE_FLAT_PASS) * r->tail[first];
}

/* ---- cuts ---- */

typedef struct step {
    double cost;  /* of ranks i and up, in bits times weight; negative: not known yet */
    unsigned end; /* where the layer that starts here ends */
} step;

typedef struct search {
    const ranking *ranks;
    const lmc_code_options *options;
    step steps[257][LMC_FMT_LAYER_COUNT_MAX];
} search;

static double cost_from(search *s, unsigned first, unsigned layers_left);

/* Cost of a layer [first, end) and of everything behind it. */
static double cost_of_cut(search *s, unsigned first, unsigned end, unsigned layers_left)
{
    const ranking *const r = s->ranks;
    layer_plan layer;
    double cost = s->options->flat_layers ? plan_flat_layer(r, first, end, &layer)
                                          : plan_huffman_layer(r, first, end, &layer);
    if (cost == INFINITY)
        return cost;
    const unsigned counts = layer.last_nbits - layer.first_nbits + 1;
    cost += COUNT_NBITS * counts * ceil(s->options->value_count / VALUES_PER_BLOCK) / r->scale;
    cost += (TABLE_NBITS_PER_SYMBOL * (end - first) + 8) / r->scale;
    const double as_rest = REST_NBITS * r->tail[end];
    if (layers_left == 1 || end == r->count)
        return cost + as_rest;
    const double further = cost_from(s, end, layers_left - 1);
    return cost + (further < as_rest ? further : as_rest);
}

static void try_cut(search *s, unsigned first, unsigned end, unsigned layers_left, step *best)
{
    const double cost = cost_of_cut(s, first, end, layers_left);
    if (best->cost < 0 || cost < best->cost) {
        best->cost = cost;
        best->end = end;
    }
}

/* Flat layers: all powers of two. Others: where the tail falls to certain shares of the layer's weight. */
static double cost_from(search *s, unsigned first, unsigned layers_left)
{
    static const double coarse[] = {1 / 3., 1 / 6., 1 / 9., 1 / 13., 1 / 20., 1 / 40.};
    static const double fine[] = {1 / 2.,  1 / 3.,  1 / 4.,  1 / 5.,  1 / 6.,  1 / 7.,
                                  1 / 8.,  1 / 9.,  1 / 10., 1 / 11., 1 / 12., 1 / 13.,
                                  1 / 14., 1 / 16., 1 / 20., 1 / 25., 1 / 32., 1 / 64.};
    const ranking *const r = s->ranks;
    step *const best = &s->steps[first][layers_left - 1];
    if (best->cost >= 0)
        return best->cost;
    best->cost = INFINITY;
    best->end = r->count;
    if (s->options->flat_layers) {
        for (unsigned nbits = 1; nbits <= NBITS_MAX; nbits++)
            for (unsigned list = 0; list < 2; list++)
                if (first + (1u << nbits) - list <= r->count)
                    try_cut(s, first, first + (1u << nbits) - list, layers_left, best);
        return best->cost;
    }
    const double *const shares = s->options->fine_search ? fine : coarse;
    const size_t share_count = s->options->fine_search ? LMC_COUNT(fine) : LMC_COUNT(coarse);
    unsigned end = first;
    for (size_t i = 0; i < share_count; i++) {
        const unsigned before = end;
        while (end < r->count && end - first < ENTRIES_MAX - 1 && r->tail[end] > shares[i] * r->tail[first])
            end++;
        if (end > before)
            try_cut(s, first, end, layers_left, best);
    }
    const unsigned last = first + ENTRIES_MAX - 1 < r->count ? first + ENTRIES_MAX - 1 : r->count;
    if (last > end)
        try_cut(s, first, last, layers_left, best);
    return best->cost;
}

/* Layers that pay: after this many, codes would be longer than any symbol deserves. */
#define HUFFMAN_LAYER_COUNT_MAX 6

/* A single symbol, or a histogram that no layer fits: one symbol of 1 bit, the rest in the list. */
static void shape_single(const ranking *r, lmc_code_shape *shape)
{
    shape->layer_count = 1;
    shape->first_nbits[0] = shape->last_nbits[0] = 1;
    shape->nbits[r->symbol[0]] = 1;
}

double lmc_code_plan(const double weight[256], const lmc_code_options *options, lmc_code_shape *shape)
{
    ranking r;
    search s = {.ranks = &r, .options = options};
    const unsigned layers_max = options->flat_layers ? LMC_FMT_LAYER_COUNT_MAX : HUFFMAN_LAYER_COUNT_MAX;
    rank_symbols(weight, options, &r);
    memset(shape, 0, sizeof *shape);
    for (unsigned i = 0; i <= r.count; i++)
        for (unsigned l = 0; l < LMC_FMT_LAYER_COUNT_MAX; l++)
            s.steps[i][l].cost = -1;
    const double cost = cost_from(&s, 0, layers_max);
    if (cost == INFINITY || r.count == 1) {
        shape_single(&r, shape);
        return 1 + REST_NBITS * (r.total - r.weight[0]) / r.total;
    }
    unsigned first = 0;
    for (unsigned left = layers_max; left > 0 && first < r.count; left--) {
        const unsigned end = s.steps[first][left - 1].end;
        const unsigned index = shape->layer_count++;
        layer_plan layer;
        if (options->flat_layers)
            plan_flat_layer(&r, first, end, &layer);
        else
            plan_huffman_layer(&r, first, end, &layer);
        shape->first_nbits[index] = (uint8_t)layer.first_nbits;
        shape->last_nbits[index] = (uint8_t)layer.last_nbits;
        for (unsigned i = first; i < end; i++) {
            shape->layer[r.symbol[i]] = (uint8_t)index;
            shape->nbits[r.symbol[i]] = layer.nbits[i - first];
        }
        first = end;
        if (left == 1 || first == r.count || cost_from(&s, first, left - 1) >= REST_NBITS * r.tail[first])
            break;
    }
    return cost / r.total;
}
