/*
 * code_build.c - cuts the symbols, sorted by weight, into layers. The cheapest way to code the symbols from rank i on
 * is a layer for ranks i..j-1 and the cheapest way for the ranks from j on. That makes a shortest path over a few
 * places j for each i. Entropy gives a lower bound of the cost of every way. In the end the places of the cheapest way
 * move by single ranks.
 */
#include "codec/prefix/code_build.h"

#include "codec/common/bits.h"
#include "codec/common/entropy.h"

#include <math.h>

#define NBITS_MAX LMC_FMT_LAYER_NBITS_MAX
#define ENTRIES_MAX (1 << NBITS_MAX)
#define RANKS_MAX 256

/* Prices in bits, on top of the stored bits. A partial plane costs decoding time where a full plane costs none, and
 * each layer is another pass. The values come from the measurements behind format.md. */
#define PRICE_PARTIAL_PLANE 0.01
#define PRICE_FLAT_PASS 0.02
#define LITERAL_NBITS 8.0
#define COUNT_NBITS 24.0 /* of the count of a partial plane or of next symbols, in every block */
#define VALUES_PER_BLOCK 65536.0
#define UNSEEN_WEIGHT 0.3 /* of all symbols that the sample missed, in sampled values */
#define TABLE_NBITS_PER_SYMBOL 4.5
#define TABLE_NBITS_PER_LAYER 8

/* Behind this share of the symbols, a coarse search tries every second place for a cut. */
#define SPARSE_SHARE 0.5

/* A coarse search expects layers behind a place to take this much more than entropy and prices. The values are typical
 * of weights of all kinds. They halve the work, and codes are 0.001 % larger. */
#define EXPECTED_LOSS 1.01
#define EXPECTED_PARTIAL_PLANES 1

/* More layers than this do not pay. */
#define HUFFMAN_LAYER_COUNT_MAX 6

/* The symbols by falling weight. */
typedef struct ranking {
    unsigned count;
    uint8_t symbol[RANKS_MAX];
    double weight[RANKS_MAX];
    double tail[RANKS_MAX + 1]; /* weight of ranks i and up, and of symbols that were not seen */
    double total;
} ranking;

/* A planned layer. Its entries are ranks [first, end) and, if ranks follow, a continuation, which stands where its
 * weight puts it. */
typedef struct layer_plan {
    uint8_t within[NBITS_MAX + 1]; /* entries whose code has at most so many bits */
    unsigned continuation_place;   /* entries before the continuation */
    unsigned first_nbits;
    unsigned last_nbits;
} layer_plan;

double lmc_code_floor(const uint32_t *weight, size_t count, double value_count)
{
    unsigned used;
    const double nbits = lmc_counts_entropy(weight, count, &used);
    return nbits + TABLE_NBITS_PER_SYMBOL * used / value_count;
}

/* Weights fall into classes by their four highest bits; heavier weights have lower classes. */
#define WEIGHT_CLASSES (32 * 8)

static unsigned weight_class(uint32_t weight)
{
    const unsigned nbits = lmc_highest_bit(weight);
    const unsigned next = nbits >= 3 ? weight >> (nbits - 3) & 7 : weight << (3 - nbits) & 7;
    return WEIGHT_CLASSES - 1 - (8 * nbits + next);
}

static void rank_symbols(const uint32_t weight[256], const lmc_code_options *options, ranking *r)
{
    uint8_t symbols[RANKS_MAX]; /* by class, and within a class in their own order */
    uint16_t first[WEIGHT_CLASSES + 1] = {0};
    for (unsigned s = 0; s < 256; s++)
        if (weight[s] > 0)
            first[weight_class(weight[s]) + 1]++;
    for (unsigned c = 0; c < WEIGHT_CLASSES; c++)
        first[c + 1] = (uint16_t)(first[c + 1] + first[c]);
    r->count = first[WEIGHT_CLASSES];
    for (unsigned s = 0; s < 256; s++)
        if (weight[s] > 0)
            symbols[first[weight_class(weight[s])]++] = (uint8_t)s;
    r->total = 0;
    for (unsigned k = 0; k < r->count; k++) {
        const double w = weight[symbols[k]];
        unsigned i = k;
        for (; i > 0 && r->weight[i - 1] < w; i--) {
            r->weight[i] = r->weight[i - 1];
            r->symbol[i] = r->symbol[i - 1];
        }
        r->weight[i] = w;
        r->symbol[i] = symbols[k];
        r->total += w;
    }
    r->tail[r->count] = options->may_omit_literals ? 0 : UNSEEN_WEIGHT;
    for (unsigned i = r->count; i-- > 0;)
        r->tail[i] = r->tail[i + 1] + r->weight[i];
}

/* ---- lengths of one layer ---- */

static unsigned min_unsigned(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Finds lengths of at most NBITS_MAX bits for n >= 2 entries, the heaviest first, with the least total cost. behind[a]
 * is the weight of all entries but the first a.
 *
 * An entry that is no leaf down to depth l of the code's tree pays one more bit. Leaves come in order of weight, so the
 * number of leaves gives the cost of a depth. With p inner nodes at depths 0..l-1 there are 2p + 1 nodes at depths
 * 0..l. If `inner` of these are inner nodes, 2p + 1 - inner are leaves. A code of n entries has n - 1 inner nodes in
 * all. So the lengths are a shortest path through the depths: the cost up to depth l depends on `inner` alone. Of equal
 * costs the one with more inner nodes is taken: its tree is less deep. */
static double find_lengths(const double *behind, unsigned n, layer_plan *layer)
{
    double cost[NBITS_MAX][ENTRIES_MAX];
    uint8_t before[NBITS_MAX][ENTRIES_MAX]; /* the p that was cheapest */
    unsigned low[NBITS_MAX];                /* fewer inner nodes cannot become n - 1 */
    low[NBITS_MAX - 1] = n - 1;
    for (unsigned l = NBITS_MAX - 1; l > 0; l--)
        low[l - 1] = low[l] > 1 ? low[l] / 2 : 1;
    cost[0][1] = behind[0];
    for (unsigned l = 1; l < NBITS_MAX; l++) {
        const unsigned high_before = min_unsigned((1u << l) - 1, n - 1);
        const unsigned high = min_unsigned((2u << l) - 1, n - 1);
        unsigned cheapest = low[l - 1]; /* grows with `inner`, since `behind` is convex */
        for (unsigned inner = low[l]; inner <= high; inner++) {
            const unsigned last = min_unsigned(inner, high_before);
            double best = INFINITY;
            for (unsigned p = inner / 2 > cheapest ? inner / 2 : cheapest; p <= last; p++) {
                const double c = cost[l - 1][p] + behind[2 * p + 1 - inner];
                if (c <= best) {
                    best = c;
                    cheapest = p;
                }
            }
            cost[l][inner] = best;
            before[l][inner] = (uint8_t)cheapest;
        }
    }
    layer->within[NBITS_MAX] = (uint8_t)n;
    for (unsigned l = NBITS_MAX - 1, inner = n - 1; l > 0; l--) {
        const unsigned p = before[l][inner];
        layer->within[l] = (uint8_t)(2 * p + 1 - inner);
        inner = p;
    }
    return cost[NBITS_MAX - 1][n - 1];
}

/* Plans ranks [first, end) as one layer; ranks behind them belong to the next layer. Returns the layer's cost in bits
 * times weight, or INFINITY when it has too many or too few entries. */
static double plan_huffman_layer(const ranking *r, unsigned first, unsigned end, layer_plan *layer)
{
    const double next = r->tail[end];
    const unsigned n = end - first + (next > 0);
    double behind[ENTRIES_MAX + 1];
    if (n < 2 || n > ENTRIES_MAX)
        return INFINITY;
    unsigned a = 0;
    for (; first + a < end && r->weight[first + a] >= next; a++)
        behind[a] = r->tail[first + a];
    layer->continuation_place = a;
    behind[a] = r->tail[first + a];
    for (; a < n; a++)
        behind[a + 1] = r->tail[first + a] - next;
    const double cost = find_lengths(behind, n, layer);
    layer->first_nbits = 1;
    while (layer->within[layer->first_nbits] == 0)
        layer->first_nbits++;
    layer->last_nbits = layer->first_nbits;
    while (layer->within[layer->last_nbits] < n)
        layer->last_nbits++;
    return cost + PRICE_PARTIAL_PLANE * (layer->last_nbits - layer->first_nbits) * r->tail[first];
}

/* ---- cuts ---- */

/* A rank at which a layer may begin. */
typedef struct place {
    double cost;          /* of the ranks before it, the cheapest way known; in bits times weight */
    double ahead;         /* least cost to expect behind it, when at least one layer follows */
    unsigned layer_count; /* of the cheapest way to it ... */
    unsigned before;      /* ... and the place where the last layer of that way begins */
    int is_done;          /* no cheaper way will be found */
} place;

typedef struct search {
    const ranking *ranks;
    int flat_layers;
    unsigned layers_max;
    double tolerance;    /* a saving of this share is not looked for */
    double price_length; /* price of a code length, a symbol and a layer, in blocks and table */
    double price_symbol;
    double price_layer;
    double finish_cost;               /* cost of the cheapest complete way known */
    unsigned finish;                  /* where the literals of that way begin */
    double own_nbits[RANKS_MAX + 1];  /* sum of weight * log2(weight) of the ranks before it */
    double tail_nbits[RANKS_MAX + 1]; /* tail * log2(tail) */
    place places[RANKS_MAX + 1];
} search;

/* Fills in `ahead`, from the last place to the first. Consider a way that gives codes to ranks i..j-1 and makes the
 * others literals of 8 bits. It takes at least the entropy of that, whatever its layers are, and the entropy is a sum
 * over the ranks. The best j counts. A coarse search expects a little more. */
static void look_ahead(search *s)
{
    const ranking *const r = s->ranks;
    double least = INFINITY; /* without tail_nbits of place i */
    s->own_nbits[0] = 0;
    for (unsigned i = 0; i < r->count; i++)
        s->own_nbits[i + 1] = s->own_nbits[i] + r->weight[i] * lmc_log2(r->weight[i]);
    for (unsigned i = r->count + 1; i-- > 0;) {
        const double tail = r->tail[i];
        const double tail_nbits = tail > 0 ? tail * lmc_log2(tail) : 0;
        const double coded =
            i < r->count ? least + s->price_symbol - (s->own_nbits[i + 1] - s->own_nbits[i]) : INFINITY;
        const double as_literals = LITERAL_NBITS * tail - tail_nbits;
        s->tail_nbits[i] = tail_nbits;
        s->places[i].ahead = coded + tail_nbits + s->price_layer;
        if (!s->flat_layers)
            s->places[i].ahead = s->places[i].ahead * EXPECTED_LOSS +
                                 EXPECTED_PARTIAL_PLANES * (PRICE_PARTIAL_PLANE * tail + s->price_length);
        least = as_literals < coded ? as_literals : coded;
    }
}

/* Plans ranks [first, end) as one layer: a flat one, or one of Huffman's. Costs as plan_huffman_layer(). */
static double plan_layer(const search *s, unsigned first, unsigned end, layer_plan *layer)
{
    const ranking *const r = s->ranks;
    if (!s->flat_layers)
        return plan_huffman_layer(r, first, end, layer);
    const unsigned n = end - first + (r->tail[end] > 0);
    unsigned nbits = 1;
    while (1u << nbits < n)
        nbits++;
    if (n != 1u << nbits || nbits > NBITS_MAX)
        return INFINITY;
    memset(layer->within, 0, nbits);
    layer->within[nbits] = (uint8_t)n;
    layer->continuation_place = end - first;
    layer->first_nbits = layer->last_nbits = nbits;
    return (nbits + PRICE_FLAT_PASS) * r->tail[first];
}

/* The least cost of a layer for ranks [first, end), in bits times weight. */
static double least_layer_cost(const search *s, unsigned first, unsigned end)
{
    const ranking *const r = s->ranks;
    const double all = r->tail[first], next = r->tail[end];
    const unsigned n = end - first + (next > 0);
    const double entropy =
        s->tail_nbits[first] - s->tail_nbits[end] - (s->own_nbits[end] - s->own_nbits[first]);
    const double heaviest = r->weight[first] > next ? r->weight[first] : next;
    const double lengths = n > 2 ? 2 * all - heaviest : all; /* only one code has 1 bit */
    const unsigned partial_planes = (n & (n - 1)) != 0;      /* at least one */
    return (entropy > lengths ? entropy : lengths) + partial_planes * PRICE_PARTIAL_PLANE * all +
           s->price_length * (1 + partial_planes) + s->price_symbol * (end - first) + s->price_layer;
}

/* The cost of a layer for ranks [first, end), in bits times weight; INFINITY when there is none. */
static double layer_cost(const search *s, unsigned first, unsigned end)
{
    layer_plan layer = {0};
    const double cost = plan_layer(s, first, end, &layer);
    return cost + s->price_length * (layer.last_nbits - layer.first_nbits + 1) +
           s->price_symbol * (end - first) + s->price_layer;
}

/* Tries a layer for ranks [first, end), and keeps it if it is the cheapest way to `end`. */
static void try_cut(search *s, unsigned first, unsigned end)
{
    const place *const from = &s->places[first];
    place *const to = &s->places[end];
    /* can it be cheaper than the known way to its end, and part of a cheaper complete way? */
    const double least = from->cost + least_layer_cost(s, first, end);
    if (to->is_done || least >= to->cost ||
        (least + LITERAL_NBITS * s->ranks->tail[end] >= s->finish_cost &&
         least + to->ahead >= s->finish_cost * (1 - s->tolerance)))
        return;
    double cost = from->cost + layer_cost(s, first, end);
    if (cost >= to->cost)
        return;
    to->cost = cost;
    to->before = first;
    to->layer_count = from->layer_count + 1;
    cost += LITERAL_NBITS * s->ranks->tail[end];
    if (cost < s->finish_cost) {
        s->finish_cost = cost;
        s->finish = end;
    }
}

/* Tries layers that begin at `first`. Flat layers end at every power of two, others where the tail has fallen to
 * certain shares of the layer's weight. */
static void try_cuts(search *s, unsigned first)
{
    static const double shares[] = {1 / 2., 1 / 3., 1 / 6., 1 / 7., 1 / 9., 1 / 13., 1 / 20., 1 / 40.};
    const ranking *const r = s->ranks;
    if (s->flat_layers) {
        for (unsigned nbits = 1; nbits <= NBITS_MAX; nbits++)
            for (unsigned has_continuation = 0; has_continuation < 2; has_continuation++)
                if (first + (1u << nbits) - has_continuation <= r->count)
                    try_cut(s, first, first + (1u << nbits) - has_continuation);
        return;
    }
    unsigned end = first;
    const size_t step = r->tail[first] < SPARSE_SHARE * r->tail[0] ? 2 : 1;
    for (size_t i = 0; i < LMC_COUNT(shares); i += step) {
        const unsigned before = end;
        while (end < r->count && end - first < ENTRIES_MAX - 1 && r->tail[end] > shares[i] * r->tail[first])
            end++;
        if (end > before)
            try_cut(s, first, end);
    }
    const unsigned last = min_unsigned(first + ENTRIES_MAX - 1, r->count);
    if (last > end)
        try_cut(s, first, last);
}

/* Finds the layers. Ways go on from the open place with the least cost to expect, until none can beat the cheapest
 * complete way by enough. A place is done once it was chosen: every other way to it costs more. (A way of fewer layers
 * could matter at the limit of layers, which the cheapest way hardly ever meets.) */
static void find_layers(search *s)
{
    place *chosen;
    for (unsigned i = 0; i <= s->ranks->count; i++) {
        s->places[i].cost = INFINITY;
        s->places[i].is_done = 0;
        s->places[i].layer_count = 0;
    }
    s->places[0].cost = 0;
    s->finish = 0;
    s->finish_cost = LITERAL_NBITS * s->ranks->tail[0];
    look_ahead(s);
    do {
        double least = s->finish_cost * (1 - s->tolerance);
        chosen = NULL;
        for (unsigned i = 0; i < s->ranks->count; i++) {
            place *const p = &s->places[i];
            if (!p->is_done && p->layer_count < s->layers_max && p->cost + p->ahead < least) {
                least = p->cost + p->ahead;
                chosen = p;
            }
        }
        if (chosen) {
            chosen->is_done = 1;
            try_cuts(s, (unsigned)(chosen - s->places));
        }
    } while (chosen);
}

/* ---- moved cuts ---- */

/* The layers of a complete way: layer i has ranks [cut[i], cut[i + 1]). */
typedef struct way {
    unsigned layer_count;
    unsigned cut[LMC_FMT_LAYER_COUNT_MAX + 1];
    double cost[LMC_FMT_LAYER_COUNT_MAX]; /* of each layer */
    double total;                         /* with the literals behind them */
} way;

/* Moves the cuts between layers by single ranks, as long as both layers together get cheaper. */
static void move_cuts(const search *s, way *w)
{
    for (unsigned i = 1; i < w->layer_count; i++)
        for (int step = -1; step <= 1; step += 2)
            for (;;) {
                const unsigned cut = w->cut[i] + (unsigned)step;
                const double known = w->cost[i - 1] + w->cost[i];
                if (cut <= w->cut[i - 1] || cut >= w->cut[i + 1])
                    break;
                const double before = layer_cost(s, w->cut[i - 1], cut);
                if (before >= known)
                    break;
                const double behind = layer_cost(s, cut, w->cut[i + 1]);
                if (before + behind >= known)
                    break;
                w->total -= known - before - behind;
                w->cut[i] = cut;
                w->cost[i - 1] = before;
                w->cost[i] = behind;
            }
}

/* Finds the cheapest way. Leaves no layers if literals alone are cheaper. */
static void find_way(search *s, way *w)
{
    w->layer_count = 0;
    find_layers(s);
    if (s->finish == 0)
        return;
    w->layer_count = s->places[s->finish].layer_count;
    for (unsigned end = s->finish, i = w->layer_count; i > 0; end = s->places[end].before, i--)
        w->cut[i] = end;
    w->cut[0] = 0;
    for (unsigned i = 0; i < w->layer_count; i++)
        w->cost[i] = s->places[w->cut[i + 1]].cost - s->places[w->cut[i]].cost;
    w->total = s->finish_cost;
    if (!s->flat_layers)
        move_cuts(s, w);
}

/* ---- the code ---- */

/* For a single symbol, or a histogram that no layer fits: one symbol of 1 bit, all others are literals. */
static double shape_single(const ranking *r, lmc_code_shape *shape)
{
    shape->layer_count = 1;
    shape->first_nbits[0] = shape->last_nbits[0] = 1;
    shape->nbits[r->symbol[0]] = 1;
    return 1 + LITERAL_NBITS * (r->total - r->weight[0]) / r->total;
}

/* Gives ranks [first, end) their lengths in layer `index`. */
static void shape_layer(const search *s, unsigned first, unsigned end, unsigned index, lmc_code_shape *shape)
{
    const ranking *const r = s->ranks;
    layer_plan layer = {0};
    plan_layer(s, first, end, &layer);
    shape->first_nbits[index] = (uint8_t)layer.first_nbits;
    shape->last_nbits[index] = (uint8_t)layer.last_nbits;
    unsigned nbits = layer.first_nbits;
    for (unsigned i = 0; i < end - first; i++) {
        const unsigned entry = i + (i >= layer.continuation_place);
        while (layer.within[nbits] <= entry)
            nbits++;
        shape->layer[r->symbol[first + i]] = (uint8_t)index;
        shape->nbits[r->symbol[first + i]] = (uint8_t)nbits;
    }
}

double lmc_code_plan(const uint32_t weight[256], const lmc_code_options *options, lmc_code_shape *shape)
{
    ranking r;
    rank_symbols(weight, options, &r);
    memset(shape, 0, sizeof *shape);
    if (r.count == 1)
        return shape_single(&r, shape);
    const double scale = options->value_count / r.total; /* values per unit of weight */
    search s;
    s.ranks = &r;
    s.flat_layers = options->flat_layers;
    s.layers_max = s.flat_layers ? LMC_FMT_LAYER_COUNT_MAX : HUFFMAN_LAYER_COUNT_MAX;
    s.tolerance = options->tolerance;
    s.price_length = COUNT_NBITS * ceil(options->value_count / VALUES_PER_BLOCK) / scale;
    s.price_symbol = TABLE_NBITS_PER_SYMBOL / scale;
    s.price_layer = TABLE_NBITS_PER_LAYER / scale;
    way w;
    find_way(&s, &w);
    if (w.layer_count == 0)
        return shape_single(&r, shape);
    for (unsigned i = 0; i < w.layer_count; i++)
        shape_layer(&s, w.cut[i], w.cut[i + 1], i, shape);
    shape->layer_count = w.layer_count;
    return w.total / r.total;
}
