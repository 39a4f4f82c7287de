/* test_kernels.c - every kernel set against the reference: the same bytes, and not a byte touched beyond
 * what kernels.h grants. Buffers lie between pages that may not be touched. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "lmc_test.h"
#include "lmc_test_kernels.h"

#define XXH_STATIC_LINKING_ONLY
#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- layers ---- */

typedef struct test_layer {
    lmc_layer layer;
    uint8_t coded[64]; /* symbols with a code of their own */
    unsigned coded_count;
} test_layer;

static int ascending(const void *a, const void *b)
{
    return *(const uint8_t *)a - *(const uint8_t *)b;
}

/* Code lengths first..last, both present, of a complete code. */
static unsigned random_lengths(unsigned first, unsigned last, uint8_t *length)
{
    unsigned count = 1u << first;
    memset(length, (int)first, count);
    for (unsigned n = first; n < last; n++) {
        length[1]++;
        length[count++] = length[1];
    }
    for (unsigned tries = random_below(80); tries > 0; tries--) {
        const unsigned i = 1 + random_below(count - 1);
        if (length[i] < last) {
            length[i]++;
            length[count++] = length[i];
        }
    }
    qsort(length, count, 1, ascending);
    return count;
}

static test_layer random_layer(unsigned first, unsigned last, int has_continuation, int narrow)
{
    uint8_t length[64];
    uint8_t order[256];
    test_layer t;
    memset(&t, 0, sizeof t);
    lmc_layer *const layer = &t.layer;
    const unsigned count = random_lengths(first, last, length);
    /* the continuation comes last in half of all cases, as in the format */
    const unsigned continuation_at =
        has_continuation ? (random_below(2) ? count - 1 : random_below(count)) : 64;
    const unsigned symbol_count = narrow ? 127 : 256;
    for (unsigned i = 0; i < symbol_count; i++) {
        const unsigned j = random_below(i + 1);
        order[i] = order[j];
        order[j] = (uint8_t)i;
    }
    layer->first_nbits = (uint8_t)first;
    layer->last_nbits = (uint8_t)last;
    layer->has_continuation = (uint8_t)has_continuation;
    layer->narrow = (uint8_t)narrow;
    random_fill(layer->symbol, sizeof layer->symbol);
    uint8_t code_of[64];
    for (unsigned i = 0, code = 0; i < count; i++) {
        code_of[i] = (uint8_t)code;
        code += 64u >> length[i];
        for (unsigned j = length[i]; j < last; j++)
            layer->threshold[j] = (uint8_t)code;
    }
    layer->continuation = has_continuation ? code_of[continuation_at] : (uint8_t)random_u64();
    memset(layer->code, has_continuation ? layer->continuation : code_of[random_below(count)],
           sizeof layer->code);
    for (unsigned i = 0; i < count; i++)
        if (i != continuation_at) {
            const uint8_t s = order[t.coded_count];
            t.coded[t.coded_count++] = s;
            layer->code[s] = code_of[i];
            memset(layer->symbol + code_of[i], s, 64u >> length[i]);
        }
    return t;
}

/* Symbols that the layer can code: evenly spread, or mostly the first few. */
static void random_symbols(const test_layer *t, size_t n, uint8_t *symbols)
{
    const int skewed = (int)random_below(2);
    for (size_t i = 0; i < n; i++) {
        const unsigned k = skewed ? (unsigned)__builtin_ctzll(random_u64() | 1u << 20) : random_below(80);
        if (t->layer.has_continuation && (t->coded_count == 0 || k >= 10))
            symbols[i] = random_below(2) ? (uint8_t)random_u64() : t->coded[0];
        else
            symbols[i] = t->coded[k % t->coded_count];
    }
}

/* ---- planes of one layer ---- */

typedef struct planes {
    lmc_layer_out start;
    lmc_layer_out end;
} planes;

static size_t partial_nbits(const planes *p, unsigned j)
{
    return lmc_bits_written(&p->end.partial[j], p->start.partial[j].next);
}

/* Buffers for n symbols, as tight as the contract allows once `like`, another run's planes, is known. */
static void take_planes(planes *p, const lmc_layer *layer, size_t n, const planes *like, placement place)
{
    memset(p, 0, sizeof *p);
    for (unsigned j = 0; j < layer->first_nbits; j++)
        p->start.full[j] = take(lmc_bits_nbytes(n), place);
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++)
        p->start.partial[j].next = take(lmc_bits_nbytes(like ? partial_nbits(like, j) : n) + 8, place);
    p->start.next_symbols =
        take((like ? (size_t)(like->end.next_symbols - like->start.next_symbols) : n) + 64, place);
    p->end = p->start;
}

/* Encodes in calls of whole groups, as stages do. */
static void encode(const lmc_kernels *k, const lmc_layer *layer, const uint8_t *symbols, size_t n, planes *p)
{
    for (size_t i = 0; i < n;) {
        const size_t step = lmc_min_size(64 * (1 + random_below(40)), n - i);
        k->layer_encode(layer, symbols + i, step, &p->end);
        i += step;
    }
}

/* The pending bits of each partial plane to memory. */
static void flush(planes *p, const lmc_layer *layer)
{
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++)
        memcpy(p->end.partial[j].next, &p->end.partial[j].pending, 8);
}

static int same_planes(const lmc_layer *layer, size_t n, const planes *a, const planes *b)
{
    int same = a->end.next_symbols - a->start.next_symbols == b->end.next_symbols - b->start.next_symbols;
    same = same && memcmp(a->start.next_symbols, b->start.next_symbols,
                          (size_t)(a->end.next_symbols - a->start.next_symbols)) == 0;
    for (unsigned j = 0; j < layer->first_nbits; j++)
        same = same && (size_t)(a->end.full[j] - a->start.full[j]) == lmc_bits_nbytes(n) &&
               (size_t)(b->end.full[j] - b->start.full[j]) == lmc_bits_nbytes(n) &&
               memcmp(a->start.full[j], b->start.full[j], lmc_bits_nbytes(n)) == 0;
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++)
        same = same && partial_nbits(a, j) == partial_nbits(b, j) &&
               memcmp(a->start.partial[j].next, b->start.partial[j].next,
                      lmc_bits_nbytes(partial_nbits(a, j))) == 0;
    return same;
}

static void take_input(lmc_layer_in *in, const lmc_layer *layer, size_t n, const planes *p, placement place)
{
    memset(in, 0, sizeof *in);
    for (unsigned j = 0; j < layer->first_nbits; j++)
        in->full[j] = take_copy(p->start.full[j], lmc_bits_nbytes(n), LMC_PLANE_SLACK, place);
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++)
        in->partial[j] =
            take_copy(p->start.partial[j].next, lmc_bits_nbytes(partial_nbits(p, j)), LMC_PLANE_SLACK, place);
    in->next_symbols = take_copy(p->start.next_symbols, (size_t)(p->end.next_symbols - p->start.next_symbols),
                                 LMC_STRIP_VALUES + 64, place);
}

/* Decodes in calls of whole groups. */
static void decode(const lmc_kernels *k, const lmc_layer *layer, size_t n, lmc_layer_in *in, uint8_t *symbols)
{
    for (size_t i = 0; i < n;) {
        const size_t step = lmc_min_size(64 * (1 + random_below(LMC_STRIP_VALUES / 64)), n - i);
        k->layer_decode(layer, in, step, symbols + i);
        i += step;
    }
}

static int layers_case(const lmc_kernels *k, const test_layer *t, size_t n, placement place)
{
    const lmc_layer *const layer = &t->layer;
    planes expected, got;
    uint8_t *const symbols = take(padded(n), place);
    random_symbols(t, n, symbols);
    random_fill(symbols + n, padded(n) - n);
    take_planes(&expected, layer, n, NULL, AT_START);
    encode(&lmc_kernels_scalar, layer, symbols, n, &expected);
    take_planes(&got, layer, n, &expected, place);
    encode(k, layer, symbols, n, &got);
    flush(&expected, layer);
    flush(&got, layer);
    int good = same_planes(layer, n, &expected, &got);

    lmc_layer_in start;
    take_input(&start, layer, n, &expected, place);
    lmc_layer_in in = start;
    uint8_t *const decoded = take(padded(n), place);
    decode(k, layer, n, &in, decoded);
    good &= memcmp(decoded, symbols, n) == 0;
    good &= in.next_symbols - start.next_symbols == expected.end.next_symbols - expected.start.next_symbols;
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++)
        good &= in.partial[j] == start.partial[j] && in.position[j] == partial_nbits(&expected, j);
    return good & release_all();
}

LMC_SETS_TEST(test_layers_match_scalar)
{
    for (unsigned c = 0; c < 21 * 4; c++) {
        unsigned first = 1 + c / 4, last = 1; /* the (c/4)-th pair first <= last */
        while (first > last)
            first -= last++;
        for (size_t n = 0; n <= SIZE_MAX_TRIED; n = next_size(n)) {
            const test_layer t = random_layer(first, last, c & 1, c >> 1 & 1);
            if (t.coded_count > 0)
                CU_ASSERT(layers_case(k, &t, n, (placement)random_below(3)));
        }
    }
}

/* Codes that two symbols share: symbols that never occur may have any. */
LMC_SETS_TEST(test_short_layers_with_dead_symbols)
{
    for (unsigned nbits = 1; nbits <= 2; nbits++) {
        test_layer t = random_layer(nbits, nbits, 0, 0);
        lmc_layer *const layer = &t.layer;
        t.coded_count--;
        layer->has_continuation = 1;
        layer->continuation = nbits == 1 ? 32 : 48;
        layer->code[(uint8_t)(t.coded[0] + 1)] = layer->code[t.coded[0]];
        uint8_t *const symbols = take(padded(500), AT_END);
        for (unsigned i = 0; i < 500; i++)
            do
                symbols[i] = (uint8_t)random_u64();
            while (layer->code[symbols[i]] != layer->continuation);
        for (unsigned i = 0; i < 500; i += 1 + random_below(4))
            symbols[i] = t.coded[random_below(t.coded_count)];
        planes expected, got;
        take_planes(&expected, layer, 500, NULL, AT_START);
        take_planes(&got, layer, 500, NULL, AT_START);
        encode(&lmc_kernels_scalar, layer, symbols, 500, &expected);
        encode(k, layer, symbols, 500, &got);
        CU_ASSERT(same_planes(layer, 500, &expected, &got));
        CU_ASSERT(release_all());
    }
}

/* Planes of noise, with every cursor at its plane's end: nothing beyond the slack is read, cursors move by
 * n bits at most, and all sets agree. */
static int hostile_case(const lmc_kernels *k, const test_layer *t, size_t n, placement place)
{
    const lmc_layer *const layer = &t->layer;
    const unsigned plane_nbytes = random_below(40);
    lmc_layer_in start[2];
    memset(start, 0, sizeof start);
    for (unsigned j = 0; j < layer->last_nbits; j++) {
        const size_t nbytes = j < layer->first_nbits ? n / 8 : plane_nbytes;
        const uint8_t *const p = take_copy(NULL, 0, nbytes + LMC_PLANE_SLACK, place);
        (j < layer->first_nbits ? start[0].full : start[0].partial)[j] = p;
        start[0].position[j] = 8 * (uint64_t)plane_nbytes;
    }
    start[0].next_symbols = take_copy(NULL, 0, LMC_STRIP_VALUES + 64, place);
    start[1] = start[0];
    uint8_t *const symbols[2] = {take(padded(n), place), take(padded(n), place)};
    lmc_layer_in in[2] = {start[0], start[1]};
    k->layer_decode(layer, &in[0], n, symbols[0]);
    lmc_kernels_scalar.layer_decode(layer, &in[1], n, symbols[1]);
    int good = memcmp(symbols[0], symbols[1], n) == 0 && in[0].next_symbols == in[1].next_symbols &&
               (size_t)(in[0].next_symbols - start[0].next_symbols) <= n;
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++)
        good &= in[0].position[j] == in[1].position[j] && in[0].position[j] - start[0].position[j] <= n;
    return good & release_all();
}

LMC_SETS_TEST(test_layers_decode_hostile_planes)
{
    for (unsigned i = 0; i < 3000; i++) {
        const unsigned last = 1 + random_below(6);
        test_layer t = random_layer(1 + random_below(last), last, (int)random_below(2), 0);
        if (random_below(2))
            random_fill(t.layer.symbol, sizeof t.layer.symbol);
        const size_t n = random_below(3) ? LMC_STRIP_VALUES : random_below(LMC_STRIP_VALUES);
        CU_ASSERT(hostile_case(k, &t, n, random_below(2) ? AT_END : AT_START));
    }
}

/* ---- split and join ---- */

static void take_plane_set(lmc_plane_set *p, unsigned nbytes, unsigned low_nbits, size_t n, size_t slack,
                           placement place)
{
    memset(p, 0, sizeof *p);
    p->symbols = take(padded(n), place);
    if (low_nbits > 0)
        p->low = take(lmc_bits_nbytes(n * low_nbits) + slack, place);
    for (unsigned j = 0; j + 2 < nbytes; j++)
        p->lower[j] = take(n + slack, place);
}

/* Elements, some of them close together so that few symbols, or none, are escapes. */
static void random_elements(unsigned nbytes, const lmc_split *split, size_t n, uint8_t *src)
{
    random_fill(src, n * nbytes);
    const unsigned span = random_below(4);
    const unsigned from = ((unsigned)split->window_start << split->low_nbits) - split->offset;
    for (size_t i = 0; nbytes > 1 && i < n; i++)
        if (span < 2 || (span == 2 && random_below(100) != 0)) {
            const uint16_t high =
                (uint16_t)(from + random_below((span == 1 ? 256u : 255u) << split->low_nbits));
            uint64_t x = lmc_load_n(src + i * nbytes, nbytes);
            x = (x & ((UINT64_C(1) << (8 * nbytes - 16)) - 1)) | (uint64_t)high << (8 * nbytes - 16);
            if (split->rotation)
                x = x >> 1 | (x & 1) << (8 * nbytes - 1);
            memcpy(src + i * nbytes, &x, nbytes);
        }
}

static int split_case(const lmc_kernels *k, unsigned width, const lmc_split *split, size_t n, placement place)
{
    const unsigned nbytes = 1u << width;
    const unsigned p = split->low_nbits;
    uint8_t *const src = take(n * nbytes, place);
    lmc_plane_set expected, got, readable;
    random_elements(nbytes, split, n, src);
    take_plane_set(&expected, nbytes, p, n, 0, AT_START);
    take_plane_set(&got, nbytes, p, n, 0, place);
    take_plane_set(&readable, nbytes, p, n, 64, place);
    if (random_below(2)) {
        uint8_t *const shift = take(2 * padded(n), place == AT_ODD_PLACE ? AT_START : place); /* aligned */
        random_fill(shift, 2 * padded(n));
        expected.shift = got.shift = readable.shift = (uint16_t *)(void *)shift;
    }
    const unsigned expected_escapes = lmc_kernels_scalar.split[width](split, src, n, &expected);
    const unsigned got_escapes = k->split[width](split, src, n, &got);
    const int may_escape = nbytes > 1 && p < 8;
    int good = !expected_escapes == !got_escapes;
    good &= !expected_escapes == !(may_escape && n > 0 && memchr(expected.symbols, LMC_FMT_SYMBOL_ESCAPE, n));
    good &= memcmp(expected.symbols, got.symbols, n) == 0;
    memcpy(readable.symbols, got.symbols, padded(n));
    if (p > 0) {
        good &= memcmp(expected.low, got.low, lmc_bits_nbytes(n * p)) == 0;
        memcpy(readable.low, got.low, lmc_bits_nbytes(n * p));
    }
    for (unsigned j = 0; j + 2 < nbytes; j++) {
        good &= memcmp(expected.lower[j], got.lower[j], n) == 0;
        memcpy(readable.lower[j], got.lower[j], n);
    }
    uint8_t *const expected_join = take(n * nbytes, AT_START);
    uint8_t *const got_join = take(n * nbytes, place);
    /* in two strips past the caches, of which the second is whole groups like the first, or not */
    const size_t strip = n / 2 & ~(size_t)63;
    uint8_t *const elsewhere = take(n * nbytes, place);
    lmc_line_stream stream = {.place = elsewhere};
    lmc_kernels_scalar.join[width](split, &readable, n, expected_join, NULL);
    k->join[width](split, &readable, n, got_join, NULL);
    good &= memcmp(expected_join, got_join, n * nbytes) == 0;
    memset(got_join, 0, n * nbytes);
    k->join[width](split, &readable, strip, got_join, &stream);
    readable.symbols += strip;
    readable.low += strip / 8 * p;
    for (unsigned j = 0; j + 2 < nbytes; j++)
        readable.lower[j] += strip;
    if (readable.shift)
        readable.shift += strip;
    k->join[width](split, &readable, n - strip, got_join + strip * nbytes, &stream);
    lmc_stream_flush(&stream);
    k->end_past_cache();
    good &= stream.place == elsewhere + n * nbytes && memcmp(expected_join, elsewhere, n * nbytes) == 0;
    good &= memcmp(expected_join, got_join, n * nbytes) == 0;
    good &= expected_escapes || memcmp(src, got_join, n * nbytes) == 0;
    return good & release_all();
}

LMC_SETS_TEST(test_split_and_join_match_scalar)
{
    for (unsigned c = 0; c < 4 * 5 * 2; c++) {
        const unsigned width = c & 3;
        for (size_t n = 0; n <= SIZE_MAX_TRIED; n = next_size(n)) {
            lmc_split split;
            split.rotation = (uint8_t)(c >> 2 & 1);
            split.low_nbits = (uint8_t)(c / 8 + (width == 0 ? 0 : LMC_FMT_LOW_NBITS_MIN_WIDE));
            split.offset = (uint16_t)(random_u64() & (width == 0 ? 0xff : 0xffff));
            split.window_start =
                (uint16_t)(random_u64() & ((1u << ((width == 0 ? 8 : 16) - split.low_nbits)) - 1));
            CU_ASSERT(split_case(k, width, &split, n, (placement)random_below(3)));
        }
    }
}

/* ---- masks ---- */

/* Elements of which a share in 8 is not `value`, which they may differ from in one byte only. */
static size_t fill_masked(unsigned nbytes, uint64_t value, unsigned kept_in_8, size_t n, uint8_t *src,
                          uint8_t *is_kept)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t x = value;
        is_kept[i] = random_below(8) < kept_in_8;
        if (is_kept[i])
            x ^= (uint64_t)(1 + random_below(255)) << 8 * random_below(nbytes);
        memcpy(src + i * nbytes, &x, nbytes);
        kept += is_kept[i];
    }
    return kept;
}

static int mask_case(const lmc_kernels *k, unsigned width, unsigned kept_in_8, size_t n, placement place)
{
    const unsigned nbytes = 1u << width;
    const size_t words = lmc_div_ceil(n, 64);
    const uint64_t value = random_u64() >> (64 - 8 * nbytes);
    uint8_t *const src = take(n * nbytes, place), *const is_kept = take(n, AT_START);
    uint64_t *const mask = (uint64_t *)(void *)take(words * 8, AT_START);
    const size_t count = fill_masked(nbytes, value, kept_in_8, n, src, is_kept);
    uint8_t *const kept = take(count * nbytes + 64, place);
    uint8_t *const back = take(n * nbytes, place);
    int good = k->mask_split[width](value, src, n, mask, kept) == count;
    for (size_t i = 0, at = 0; i < 64 * words; i++) {
        const int bit = mask[i / 64] >> i % 64 & 1;
        good &= bit == (i < n && is_kept[i]);
        if (bit && i < n)
            good &= memcmp(src + i * nbytes, kept + nbytes * at++, nbytes) == 0;
    }
    if (n % 64 != 0)
        mask[n / 64] |= random_u64() << n % 64; /* which nobody asked for */
    good &= k->mask_join[width](value, mask, kept, n, back) == count;
    good &= memcmp(src, back, n * nbytes) == 0;
    return good & release_all();
}

LMC_SETS_TEST(test_masks)
{
    for (unsigned c = 0; c < 4 * 5; c++)
        for (size_t n = 0; n <= SIZE_MAX_TRIED; n = next_size(n))
            CU_ASSERT(mask_case(k, c & 3, c / 4 * 2, n, (placement)random_below(3)));
}

/* ---- copy, hash, choice ---- */

LMC_SETS_TEST(test_copy_past_cache_is_a_copy)
{
    for (size_t n = 0; n <= SIZE_MAX_TRIED; n = next_size(n))
        for (unsigned place = AT_END; place <= AT_ODD_PLACE; place++) {
            uint8_t *const src = take(n, (placement)place);
            uint8_t *const dst = take(n, (placement)random_below(3));
            random_fill(src, n);
            k->copy_past_cache(dst, src, n);
            k->end_past_cache();
            CU_ASSERT_EQUAL(memcmp(src, dst, n), 0);
            CU_ASSERT(release_all());
        }
}

static uint64_t hash_in_pieces(const lmc_kernels *k, const uint8_t *p, size_t nbytes)
{
    _Alignas(64) uint8_t state[LMC_HASH_STATE_NBYTES];
    k->hash_begin(state);
    for (size_t i = 0; i < nbytes;) {
        const size_t step = lmc_min_size(random_below(5000), nbytes - i);
        k->hash_update(state, p + i, step);
        i += step;
    }
    return k->hash_end(state);
}

LMC_SETS_TEST(test_hash_is_xxh3)
{
    static uint8_t data[131072 + 7];
    random_fill(data, sizeof data);
    for (size_t i = 0; i <= 2 * 1001; i++) {
        const size_t nbytes = i < 2 * 1001 ? i / 2 : 131072;
        const uint64_t seed = i % 2 ? random_u64() : 0;
        const uint8_t *const p = data + random_below(8);
        CU_ASSERT_EQUAL(k->hash(p, nbytes, seed), XXH3_64bits_withSeed(p, nbytes, seed));
        CU_ASSERT(seed != 0 || k->hash(p, nbytes, 0) == XXH3_64bits(p, nbytes));
        CU_ASSERT_EQUAL(hash_in_pieces(k, p, nbytes), XXH3_64bits(p, nbytes));
    }
}

LMC_TEST(test_sets_are_found_by_name)
{
    CU_ASSERT_PTR_EQUAL(lmc_kernels_find("scalar"), &lmc_kernels_scalar);
    CU_ASSERT_PTR_NULL(lmc_kernels_find(""));
    CU_ASSERT_PTR_NULL(lmc_kernels_find("avx"));
    const lmc_kernels *const in_use = lmc_kernels_get();
    CU_ASSERT_PTR_EQUAL(lmc_kernels_find(in_use->name), in_use);
    CU_ASSERT_PTR_EQUAL(lmc_kernels_get(), in_use);
    const char *const wanted = getenv("LMC_KERNELS");
    if (wanted && lmc_kernels_find(wanted))
        CU_ASSERT_STRING_EQUAL(in_use->name, wanted);
}

LMC_TEST_MAIN("kernels")
