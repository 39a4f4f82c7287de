/*
 * kernels.c - lmc-bench-kernels [SET]: speed of single kernels of each set that this CPU has, on one thread.
 *
 * Data are normally distributed 2-byte floats. Two fixed codes resemble the levels: `fast` (codes of 1 and 2 bits) and
 * `default` (4 layers with codes of up to 6 bits). A kernel by itself works on one block in the cache. `encode` and
 * `decode` are all steps of a block but the hash; "mem" is a tensor that no cache holds. Figures are GiB/s of elements,
 * best of several runs, and time / the time of memcpy.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/codec/bench.h"
#include "codec/rans/rans_table.h"

#define BLOCK 65536
#define BLOCK_COUNT 1024
#define LAYER_MAX 12
#define SLACK 4096

/* A code: how the elements are cut, and per layer the number of codes of 1..6 bits, one of them the list's. */
typedef struct code {
    const char *name;
    lmc_split split;
    unsigned layer_count;
    lmc_layer layer[LAYER_MAX];
} code;

static const uint8_t fast_counts[][7] = {{0, 0, 4}, {0, 2}, {0, 2},    {0, 2}, {0, 2},
                                         {0, 2},    {0, 2}, {0, 0, 4}, {0, 2}, {0, 0, 4}};
static const uint8_t default_counts[][7] = {
    {0, 0, 0, 3, 6, 8}, {0, 0, 0, 3, 4, 8, 8}, {0, 0, 0, 3, 4, 8, 8}, {0, 0, 0, 3, 4, 8, 8}};

/* The planes of a coded block, and how many symbols each list has. */
typedef struct block {
    const uint8_t *low;
    lmc_layer_in in[LAYER_MAX];
    size_t list_count[LAYER_MAX];
} block;

static uint8_t symbols[BLOCK + SLACK], lists[2][BLOCK + SLACK], partials[6][BLOCK / 8 + SLACK];

/* Best time of a statement that repeats for a second. */
#define BEST(best, statement)                                        \
    do {                                                             \
        best = 1e9;                                                  \
        for (double until = bench_now() + 1; bench_now() < until;) { \
            const double start_time = bench_now();                   \
            statement;                                               \
            const double elapsed = bench_now() - start_time;         \
            best = elapsed < best ? elapsed : best;                  \
        }                                                            \
    } while (0)

static void *allocate(size_t nbytes)
{
    void *const p = malloc(nbytes);
    if (!p)
        abort();
    memset(p, 1, nbytes);
    return p;
}

static void fill_gaussian(uint8_t *dst, size_t n)
{
    uint64_t state = 1;
    for (size_t i = 0; i < n; i++) {
        double sum = 0; /* near enough to normal, and faster than Box and Muller */
        for (int k = 0; k < 4; k++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            sum += (double)(state >> 48) + (double)(state >> 32 & 0xffff) + (double)(state >> 16 & 0xffff);
        }
        const float value = (float)(((sum + 0.5) / 65536 - 6) * 0.02);
        memcpy(dst + 2 * i, (const uint8_t *)&value + 2, 2);
    }
}

/* ---- codes ---- */

static const uint32_t *sort_counts;

static int by_count(const void *a, const void *b)
{
    const uint32_t x = sort_counts[*(const uint8_t *)a], y = sort_counts[*(const uint8_t *)b];
    return (x < y) - (x > y);
}

/* Fills the layers with the symbols of a block, the frequent ones first. */
static code make_code(const char *name, unsigned low_nbits, const uint8_t (*counts)[7], unsigned layer_count,
                      const uint8_t *tensor)
{
    static uint32_t histogram[256];
    uint8_t order[256];
    code c;
    memset(&c, 0, sizeof c);
    memset(histogram, 0, sizeof histogram);
    c.name = name;
    c.split = (lmc_split){1, (uint8_t)low_nbits, 16, (uint16_t)(low_nbits == 8 ? 0 : 384)};
    c.layer_count = layer_count;
    lmc_kernels_scalar.split[1](&c.split, tensor, BLOCK,
                                &(lmc_plane_set){.symbols = symbols, .low = lists[0]});
    for (unsigned i = 0; i < BLOCK; i++)
        histogram[symbols[i]]++;
    for (unsigned i = 0; i < 256; i++)
        order[i] = (uint8_t)i;
    sort_counts = histogram;
    qsort(order, 256, 1, by_count);
    unsigned next = 0;
    for (unsigned k = 0; k < layer_count; k++) {
        lmc_layer *const layer = &c.layer[k];
        unsigned at = 0;
        uint8_t is_coded[256] = {0};
        for (unsigned nbits = 1; nbits <= 6; nbits++) {
            for (unsigned i = 0; i < counts[k][nbits]; i++, at += 64 >> nbits) {
                layer->first_nbits = layer->first_nbits ? layer->first_nbits : (uint8_t)nbits;
                layer->last_nbits = (uint8_t)nbits;
                if (at + (64 >> nbits) == 64 || next == 256)
                    continue;
                layer->code[order[next]] = (uint8_t)at;
                is_coded[order[next]] = 1;
                memset(layer->symbol + at, order[next++], 64 >> nbits);
            }
            if (nbits < 6)
                layer->threshold[nbits] = (uint8_t)at;
        }
        layer->has_continuation = 1;
        layer->continuation = (uint8_t)(64 - (64 >> layer->last_nbits));
        layer->narrow = 1;
        for (unsigned s = 0; s < 256; s++) {
            if (!is_coded[s])
                layer->code[s] = layer->continuation;
            layer->narrow &= s < 128 || layer->code[s] == layer->code[127];
        }
    }
    return c;
}

/* ---- a block, as the stages do it ---- */

static lmc_layer_out start_layer(const lmc_layer *layer, unsigned l, size_t n, uint8_t **next, block *b)
{
    lmc_layer_out out = {.next_symbols = lists[l % 2]};
    for (unsigned j = 0; j < layer->first_nbits; j++, *next += lmc_bits_nbytes(n))
        b->in[l].full[j] = out.full[j] = *next;
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++)
        out.partial[j].next = partials[j];
    return out;
}

static void finish_layer(const lmc_layer *layer, unsigned l, const lmc_layer_out *out, uint8_t **next,
                         block *b)
{
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++) {
        const size_t nbytes = lmc_bits_nbytes(lmc_bits_written(&out->partial[j], partials[j]));
        lmc_store64(out->partial[j].next, out->partial[j].pending);
        b->in[l].partial[j] = memcpy(*next, partials[j], nbytes);
        *next += nbytes;
    }
    b->list_count[l] = (size_t)(out->next_symbols - lists[l % 2]);
}

static uint8_t *encode_block(const lmc_kernels *k, const code *c, const uint8_t *src, uint8_t *dst, block *b)
{
    uint8_t strip[LMC_STRIP_VALUES];
    uint8_t *next = dst + BLOCK / 8 * c->split.low_nbits;
    b->low = dst;
    for (unsigned l = 0; l < c->layer_count; l++) {
        const size_t n = l == 0 ? BLOCK : b->list_count[l - 1];
        lmc_layer_out out = start_layer(&c->layer[l], l, n, &next, b);
        for (size_t i = 0; l == 0 && i < BLOCK; i += LMC_STRIP_VALUES) {
            const lmc_plane_set planes = {.symbols = strip, .low = dst + i / 8 * c->split.low_nbits};
            k->split[1](&c->split, src + 2 * i, LMC_STRIP_VALUES, &planes);
            k->layer_encode(&c->layer[l], strip, LMC_STRIP_VALUES, &out);
        }
        if (l > 0)
            k->layer_encode(&c->layer[l], lists[(l - 1) % 2], n, &out);
        finish_layer(&c->layer[l], l, &out, &next, b);
    }
    const unsigned last = c->layer_count - 1;
    b->in[last].next_symbols = memcpy(next, lists[last % 2], b->list_count[last]);
    return next + b->list_count[last];
}

static void decode_block(const lmc_kernels *k, const code *c, const block *b, int in_memory, uint8_t *dst)
{
    uint8_t strip[LMC_STRIP_VALUES], elements[2 * LMC_STRIP_VALUES];
    lmc_line_stream stream = {.place = dst};
    for (unsigned l = c->layer_count; l-- > 0;) {
        const size_t n = l == 0 ? BLOCK : b->list_count[l - 1];
        lmc_layer_in in = b->in[l];
        in.next_symbols = l + 1 < c->layer_count ? lists[(l + 1) % 2] : in.next_symbols;
        for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
            const size_t step = lmc_min_size(LMC_STRIP_VALUES, n - i);
            k->layer_decode(&c->layer[l], &in, step, l == 0 ? strip : lists[l % 2] + i);
            if (l > 0)
                continue;
            const lmc_plane_set planes = {.symbols = strip,
                                          .low = (uint8_t *)b->low + i / 8 * c->split.low_nbits};
            k->join[1](&c->split, &planes, step, in_memory ? elements : dst + 2 * i,
                       in_memory ? &stream : NULL);
        }
    }
    lmc_stream_flush(&stream);
}

/* ---- lines ---- */

static double memcpy_rate[2]; /* in the cache, in memory */

static void print_rate(const char *set, const char *what, int in_memory, double nbytes, double seconds)
{
    const double rate = nbytes / seconds / 1073741824.0;
    printf("%-11s %-17s %7.2f GiB/s  %6.2f x memcpy\n", set, what, rate, memcpy_rate[in_memory] / rate);
    fflush(stdout);
}

static void bench_elements(const lmc_kernels *k, const uint8_t *src, uint8_t *dst)
{
    static uint8_t planes[8][2 * BLOCK + SLACK];
    const lmc_plane_set set = {.symbols = planes[0],
                               .low = planes[1],
                               .lower = {planes[2], planes[3], planes[4], planes[5], planes[6], planes[7]}};
    double seconds;
    BEST(seconds, lists[0][0] ^= (uint8_t)k->hash(src, 2 * BLOCK, 0));
    print_rate(k->name, "hash", 0, 2 * BLOCK, seconds);
    for (unsigned width = 0; width < 4; width++) {
        const lmc_split split = {1, (uint8_t)(width == 0 ? 1 : 6), 16, (uint16_t)(width == 0 ? 0 : 384)};
        char what[32];
        BEST(seconds, k->split[width](&split, src, 2 * BLOCK >> width, &set));
        snprintf(what, sizeof what, "split, %u bytes", 1u << width);
        print_rate(k->name, what, 0, 2 * BLOCK, seconds);
        BEST(seconds, k->join[width](&split, &set, 2 * BLOCK >> width, dst, NULL));
        snprintf(what, sizeof what, "join, %u bytes", 1u << width);
        print_rate(k->name, what, 0, 2 * BLOCK, seconds);
    }
}

static void bench_code(const lmc_kernels *k, const code *c, const uint8_t *src, uint8_t *coded, uint8_t *dst)
{
    static block blocks[BLOCK_COUNT];
    double seconds;
    char what[32];
    uint8_t *next;
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        const size_t count = in_memory ? BLOCK_COUNT : 1;
        BEST(seconds, next = coded; for (size_t i = 0; i < count; i++) next =
                                        encode_block(k, c, src + 2 * BLOCK * i, next, &blocks[i]));
        snprintf(what, sizeof what, "%s encode%s", c->name, in_memory ? ", mem" : "");
        print_rate(k->name, what, in_memory, 2.0 * BLOCK * (double)count, seconds);
        BEST(seconds, for (size_t i = 0; i < count; i++)
                          decode_block(k, c, &blocks[i], in_memory, dst + 2 * BLOCK * i));
        snprintf(what, sizeof what, "%s decode%s", c->name, in_memory ? ", mem" : "");
        print_rate(k->name, what, in_memory, 2.0 * BLOCK * (double)count, seconds);
        if (memcmp(src, dst, 2 * BLOCK * count) != 0)
            printf("%s: decoded elements differ\n", k->name);
    }
}

/* The symbols of a block in a rANS code; `coded` has room for their words. */
static void bench_rans(const lmc_kernels *k, const lmc_split *split, const uint8_t *src, uint8_t *coded)
{
    static lmc_rans rans;
    static uint8_t decoded[BLOCK + SLACK];
    uint32_t histogram[256] = {0};
    lmc_rans_out out, out_start = {.words = coded + 2 * BLOCK};
    lmc_rans_in in, in_start;
    double seconds;
    k->split[1](split, src, BLOCK, &(lmc_plane_set){.symbols = symbols, .low = lists[0]});
    for (unsigned i = 0; i < BLOCK; i++)
        histogram[symbols[i]]++;
    lmc_rans_normalize(histogram, rans.frequency);
    lmc_rans_set_symbols(&rans);
    lmc_rans_set_slots(&rans);
    for (unsigned lane = 0; lane < LMC_FMT_RANS_LANE_COUNT; lane++)
        out_start.state[lane] = 0x10000;
    BEST(seconds, out = out_start; for (size_t i = BLOCK; i > 0; i -= LMC_STRIP_VALUES) k->rans_encode(
        rans.symbols, &out, symbols + i - LMC_STRIP_VALUES, LMC_STRIP_VALUES));
    print_rate(k->name, "rANS encode", 0, 2 * BLOCK, seconds);
    memcpy(in_start.state, out.state, sizeof out.state);
    in_start.words = out.words;
    BEST(seconds, in = in_start; for (size_t i = 0; i < BLOCK; i += LMC_STRIP_VALUES)
                                     k->rans_decode(rans.slots, &in, LMC_STRIP_VALUES, decoded + i));
    print_rate(k->name, "rANS decode", 0, 2 * BLOCK, seconds);
    if (memcmp(symbols, decoded, BLOCK) != 0)
        printf("%s: decoded symbols differ\n", k->name);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"avx512", "avx2", "avx2-nopext", "neon", "scalar"};
    const size_t nbytes = 2 * BLOCK * (size_t)BLOCK_COUNT;
    uint8_t *const src = allocate(nbytes), *const dst = allocate(nbytes), *const coded = allocate(2 * nbytes);
    fill_gaussian(src, nbytes / 2);
    const code fast = make_code("fast", 8, fast_counts, LMC_COUNT(fast_counts), src);
    const code standard = make_code("default", 6, default_counts, LMC_COUNT(default_counts), src);
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        const size_t size = in_memory ? nbytes : 2 * BLOCK;
        double seconds;
        BEST(seconds, memcpy(dst, src, size));
        memcpy_rate[in_memory] = (double)size / seconds / 1073741824.0;
        printf("memcpy      %-17s %7.2f GiB/s\n", in_memory ? "memory" : "cache", memcpy_rate[in_memory]);
    }
    for (size_t i = 0; i < LMC_COUNT(names); i++) {
        const lmc_kernels *const k = lmc_kernels_find(names[i]);
        if (!k || (argc > 1 && strcmp(argv[1], names[i]) != 0))
            continue;
        bench_elements(k, src, dst);
        bench_rans(k, &standard.split, src, coded);
        bench_code(k, &fast, src, coded, dst);
        bench_code(k, &standard, src, coded, dst);
    }
    return 0;
}
