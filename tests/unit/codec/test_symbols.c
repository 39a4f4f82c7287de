/* test_symbols.c - coded planes: the bytes are those of format.md, whatever the kernel set, and damaged ones
 * are refused by all sets alike. */
#include "lmc_test_data.h"

#include "codec/prefix/symbols.h"
#include "lmc_test.h"
#include "lmc_test_code.h"

#define N_MAX 70000

static const lmc_kernels *sets[KERNEL_SETS_MAX];
static size_t set_count;
static lmc_scratch scratch;
static guarded stored_memory, symbol_memory;
static uint8_t *symbols, *expected, *stored, *scratch_memory;

static void open_memory(void)
{
    set_count = kernel_sets(sets);
    scratch_memory = must_malloc_zeros(lmc_scratch_nbytes(&(lmc_scratch_size){N_MAX, 1, 0, 0}));
    lmc_scratch_place(&scratch, &(lmc_scratch_size){N_MAX, 1, 0, 0}, scratch_memory);
    stored_memory = guarded_open(4 * N_MAX);
    symbol_memory = guarded_open(2 * N_MAX);
    symbols = must_malloc(N_MAX + 64);
    expected = must_malloc(16 * N_MAX);
    stored = must_malloc(16 * N_MAX);
}

static void close_memory(void)
{
    free(scratch_memory);
    guarded_close(&stored_memory);
    guarded_close(&symbol_memory);
    free(symbols);
    free(expected);
    free(stored);
}

static size_t padded(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* ---- format.md "Coded planes", bit by bit ---- */

typedef struct bit_plane {
    uint8_t *bytes;
    size_t nbits;
} bit_plane;

static void append_bit(bit_plane *plane, unsigned bit)
{
    if (plane->nbits % 8 == 0)
        plane->bytes[plane->nbits / 8] = 0;
    plane->bytes[plane->nbits / 8] |= (uint8_t)(bit << plane->nbits % 8);
    plane->nbits++;
}

/* The length of the continuation, from the table. */
static unsigned continuation_nbits(const lmc_layer *layer)
{
    const unsigned size = layer->last_nbits > 0 ? 64u : 0u;
    unsigned end =
        size; /* of the codes that begin with the continuation: where the next longer code begins, or the end */
    for (unsigned j = layer->first_nbits; j < layer->last_nbits; j++)
        if (layer->threshold[j] > layer->continuation && layer->threshold[j] < end)
            end = layer->threshold[j];
    return 6 - (unsigned)__builtin_ctz(end - layer->continuation);
}

static size_t encode_by_the_book(const lmc_code_shape *shape, const lmc_table *table, const uint8_t *src,
                                 size_t n, uint8_t *dst)
{
    const unsigned q = n < 256 ? 1 : n < 65536 ? 2 : 3;
    static uint8_t plane_bytes[6][N_MAX / 8 + 1];
    uint8_t *const left = must_malloc(n);
    uint8_t *const bodies = must_malloc(16 * N_MAX);
    size_t count_nbytes = 0, body_nbytes = 0;
    memcpy(left, src, n);
    for (unsigned l = 0; l < table->layer_count; l++) {
        const lmc_layer *const layer = &table->layers[l];
        bit_plane planes[6];
        size_t going_on = 0;
        for (unsigned j = 0; j < 6; j++)
            planes[j] = (bit_plane){plane_bytes[j], 0};
        for (size_t i = 0; i < n; i++) {
            const uint8_t s = left[i];
            const int here = shape->nbits[s] != 0 && shape->layer[s] == l;
            const unsigned nbits = here ? shape->nbits[s] : continuation_nbits(layer);
            for (unsigned j = 0; j < nbits; j++)
                append_bit(&planes[j], layer->code[s] >> (5 - j) & 1);
            if (!here)
                left[going_on++] = s;
        }
        for (unsigned j = 0; j < layer->last_nbits; j++) {
            if (j >= layer->first_nbits) {
                memcpy(dst + count_nbytes, &planes[j].nbits, q);
                count_nbytes += q;
            }
            memcpy(bodies + body_nbytes, plane_bytes[j], (planes[j].nbits + 7) / 8);
            body_nbytes += (planes[j].nbits + 7) / 8;
        }
        if (layer->has_continuation) {
            memcpy(dst + count_nbytes, &going_on, q);
            count_nbytes += q;
        }
        n = going_on;
    }
    memcpy(dst + count_nbytes, bodies, body_nbytes);
    memcpy(dst + count_nbytes + body_nbytes, left, n);
    free(bodies);
    free(left);
    return count_nbytes + body_nbytes + n;
}

/* ---- the codec ---- */

static size_t encode(const lmc_kernels *kernels, const lmc_table *table, const uint8_t *src, size_t n,
                     uint8_t *dst, size_t capacity)
{
    lmc_symbol_encoder encoder;
    lmc_symbols_encode_begin(&encoder, kernels, table, &scratch, n, dst, capacity);
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES)
        lmc_symbols_encode_strip(&encoder, src + i, lmc_min_size(n - i, LMC_STRIP_VALUES));
    return lmc_symbols_encode_end(&encoder);
}

/* Decodes n symbols to the end of symbol_memory. *used: bytes taken from the input. */
static lmc_status decode(const lmc_kernels *kernels, const lmc_table *table, const uint8_t *src,
                         size_t src_nbytes, size_t n, size_t *used)
{
    uint8_t *const dst = guarded_end(&symbol_memory, padded(n));
    lmc_symbol_decoder decoder;
    lmc_source source;
    lmc_diag diag;
    lmc_source_open(&source, &scratch, src, src_nbytes);
    lmc_status status = lmc_symbols_decode_begin(&decoder, kernels, table, &scratch, &source, n, &diag);
    for (size_t i = 0; i < n && status == LMC_OK; i += LMC_STRIP_VALUES)
        status = lmc_symbols_decode_strip(&decoder, lmc_min_size(n - i, LMC_STRIP_VALUES), dst + i, &diag);
    if (status == LMC_OK)
        status = lmc_symbols_decode_end(&decoder, &diag);
    *used = src_nbytes - lmc_reader_left(&source.reader);
    return status;
}

static void make_case(unsigned layers_max, size_t n, lmc_code_shape *shape, lmc_table *table)
{
    random_shape(layers_max, random_below(3) ? 256 : 2 + (unsigned)random_below(100), -1, shape);
    CU_ASSERT_EQUAL_FATAL(lmc_table_build(shape, table, NULL), LMC_OK);
    random_symbols(table, symbols, n);
    memset(symbols + n, 0x5a, 64);
}

/* Every set writes what the book says, into exactly that room, and reads it back. */
static void check_round_trip(unsigned layers_max, size_t n)
{
    lmc_code_shape shape;
    lmc_table table;
    make_case(layers_max, n, &shape, &table);
    const size_t nbytes = encode_by_the_book(&shape, &table, symbols, n, expected);
    for (size_t k = 0; k < set_count; k++) {
        uint8_t *const dst = guarded_end(&stored_memory, nbytes);
        size_t used;
        CU_ASSERT_EQUAL_FATAL(encode(sets[k], &table, symbols, n, dst, nbytes), nbytes);
        CU_ASSERT_EQUAL(memcmp(dst, expected, nbytes), 0);
        CU_ASSERT_EQUAL_FATAL(decode(sets[k], &table, dst, nbytes, n, &used), LMC_OK);
        CU_ASSERT_EQUAL(used, nbytes);
        CU_ASSERT_EQUAL(memcmp(guarded_end(&symbol_memory, padded(n)), symbols, n), 0);
    }
}

/* ---- tests ---- */

LMC_TEST(test_small_planes)
{
    for (size_t n = 1; n <= 600; n += LMC_TEST_STEP)
        for (unsigned layers_max = 1; layers_max <= 16; layers_max += 5)
            check_round_trip(layers_max, n);
}

LMC_TEST(test_planes_about_a_strip)
{
    for (size_t n = 1; n <= 3; n++) {
        for (size_t d = 0; d < 5; d++)
            check_round_trip(4, n * LMC_STRIP_VALUES - 2 + d);
        check_round_trip(4, n * LMC_STRIP_VALUES + random_below(LMC_STRIP_VALUES));
    }
    for (unsigned i = 0; i < 60; i += LMC_TEST_STEP)
        check_round_trip(1 + i % 8, 1 + random_below(5000));
}

/* Counts become 3 bytes wide at 65536. */
LMC_TEST(test_large_planes)
{
    static const size_t sizes[] = {65535, 65536, 65537, 69999, N_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (unsigned layers_max = 1; layers_max < 7; layers_max += 2)
            check_round_trip(layers_max, sizes[i]);
}

/* All symbols are literals, which all layers pass on. */
LMC_TEST(test_all_literals)
{
    for (size_t n = 1; n < 5000; n = n * 2 + 1) {
        lmc_code_shape shape;
        lmc_table table;
        random_shape(16, 100, 1, &shape);
        CU_ASSERT_EQUAL_FATAL(lmc_table_build(&shape, &table, NULL), LMC_OK);
        memset(symbols, 200, n + 64);
        const size_t nbytes = encode_by_the_book(&shape, &table, symbols, n, expected);
        for (size_t k = 0; k < set_count; k++) {
            size_t used;
            CU_ASSERT_EQUAL_FATAL(encode(sets[k], &table, symbols, n, stored, nbytes), nbytes);
            CU_ASSERT_EQUAL(memcmp(stored, expected, nbytes), 0);
            CU_ASSERT_EQUAL(decode(sets[k], &table, stored, nbytes, n, &used), LMC_OK);
            CU_ASSERT_EQUAL(memcmp(guarded_end(&symbol_memory, padded(n)), symbols, n), 0);
        }
    }
}

/* Less room than the plane takes: none is written beyond it, and the answer is 0. */
LMC_TEST(test_capacity)
{
    for (unsigned i = 0; i < 60; i += LMC_TEST_STEP) {
        const size_t n = 1 + random_below(i % 2 ? 100 : 3000);
        lmc_code_shape shape;
        lmc_table table;
        make_case(6, n, &shape, &table);
        const size_t nbytes = encode_by_the_book(&shape, &table, symbols, n, expected);
        for (size_t k = 0; k < set_count; k++) {
            for (size_t capacity = 0; capacity < nbytes;
                 capacity += nbytes < 200 ? 1 : 1 + random_below(40)) {
                uint8_t *const dst = guarded_end(&stored_memory, capacity);
                CU_ASSERT_EQUAL(encode(sets[k], &table, symbols, n, dst, capacity), 0);
            }
            CU_ASSERT_EQUAL(
                encode(sets[k], &table, symbols, n, guarded_end(&stored_memory, nbytes - 1), nbytes - 1), 0);
        }
    }
}

LMC_TEST(test_truncation)
{
    for (unsigned i = 0; i < 60; i += LMC_TEST_STEP) {
        const size_t n = 1 + random_below(i % 3 ? 100 : 3000);
        lmc_code_shape shape;
        lmc_table table;
        make_case(6, n, &shape, &table);
        const size_t nbytes = encode_by_the_book(&shape, &table, symbols, n, expected);
        for (size_t k = 0; k < set_count; k++) {
            for (size_t cut = 0; cut < nbytes; cut += nbytes < 300 ? 1 : 1 + random_below(20)) {
                size_t used;
                const uint8_t *const copy = guarded_copy(&stored_memory, expected, cut);
                CU_ASSERT_EQUAL(decode(sets[k], &table, copy, cut, n, &used), LMC_ERR_CORRUPT);
            }
        }
    }
}

/* Bytes of the counts in front. */
static size_t counts_nbytes_of(const lmc_table *table, size_t n)
{
    size_t count = 0;
    for (unsigned l = 0; l < table->layer_count; l++) {
        const lmc_layer *const layer = &table->layers[l];
        count += (size_t)(layer->last_nbits - layer->first_nbits) + layer->has_continuation;
    }
    return count * lmc_count_nbytes(n);
}

/* A literal has a code: no encoder does that, and decoders need not care. */
static int literals_have_coded(const lmc_table *table, size_t n, size_t used)
{
    const size_t q = lmc_count_nbytes(n);
    const size_t literal_count =
        table->has_literals ? (size_t)lmc_load_n(stored + counts_nbytes_of(table, n) - q, q) : 0;
    for (size_t i = used - literal_count; i < used; i++)
        if (table->is_coded[stored[i]])
            return 1;
    return 0;
}

/* A damaged plane ends in one status for all sets; one that is accepted stands for other symbols, of which it
 * is the only coded form: encoding them gives the damaged bytes back. */
static void check_damaged(const lmc_code_shape *shape, const lmc_table *table, size_t n, size_t nbytes)
{
    lmc_status first = LMC_OK;
    for (size_t k = 0; k < set_count; k++) {
        size_t used;
        const uint8_t *const copy = guarded_copy(&stored_memory, stored, nbytes);
        const lmc_status status = decode(sets[k], table, copy, nbytes, n, &used);
        if (k == 0)
            first = status;
        CU_ASSERT_EQUAL(status, first);
        CU_ASSERT(status == LMC_OK || status == LMC_ERR_CORRUPT);
        if (status != LMC_OK || literals_have_coded(table, n, used))
            continue;
        const uint8_t *const found = guarded_end(&symbol_memory, padded(n));
        CU_ASSERT_EQUAL(encode_by_the_book(shape, table, found, n, expected), used);
        CU_ASSERT_EQUAL(memcmp(expected, stored, used), 0);
    }
}

LMC_TEST(test_damage)
{
    for (unsigned i = 0; i < 6000; i += LMC_TEST_STEP) {
        const size_t n = 1 + random_below(i % 8 ? 200 : 3000);
        lmc_code_shape shape;
        lmc_table table;
        make_case(6, n, &shape, &table);
        const size_t nbytes = encode_by_the_book(&shape, &table, symbols, n, stored);
        for (size_t sign_changes = 1 + random_below(2); sign_changes > 0; sign_changes--)
            stored[random_below(nbytes)] ^= (uint8_t)(1u << random_below(8));
        check_damaged(&shape, &table, n, nbytes);
    }
}

/* Counts up and down by one, to their largest value, and to 0. */
LMC_TEST(test_damaged_counts)
{
    for (unsigned i = 0; i < 300; i += LMC_TEST_STEP) {
        const size_t n = 1 + random_below(i % 8 ? 255 : 3000);
        lmc_code_shape shape;
        lmc_table table;
        make_case(4, n, &shape, &table);
        const size_t nbytes = encode_by_the_book(&shape, &table, symbols, n, stored);
        const size_t q = lmc_count_nbytes(n);
        for (size_t c = 0; c < counts_nbytes_of(&table, n); c += q) {
            const uint64_t count = lmc_load_n(stored + c, q);
            const uint64_t wrong[] = {count + 1, count - 1, 0, n, n + 1, UINT64_MAX};
            for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
                memcpy(stored + c, &wrong[w], q);
                check_damaged(&shape, &table, n, nbytes);
            }
            memcpy(stored + c, &count, q);
        }
    }
}

LMC_TEST_MAIN_WITH("symbols", open_memory(), close_memory())
