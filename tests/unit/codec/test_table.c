/* test_table.c - code tables: the codes are canonical, what is written is read back, everything else is
 * refused. */
#include "lmc_test_data.h"

#include "lmc_test.h"
#include "lmc_test_code.h"

#define UNIT 64u /* the unit interval in steps of the longest code */

/* ---- what a code must be ---- */

/* Steps of the unit interval that belong to a length. */
static unsigned steps(unsigned nbits)
{
    return UNIT >> nbits;
}

/* The length of the continuation, from the part that the symbols leave; 0 without it. */
static unsigned continuation_nbits(const lmc_code_shape *shape, unsigned layer)
{
    unsigned left = UNIT;
    for (unsigned s = 0; s < 256; s++)
        if (shape->nbits[s] != 0 && shape->layer[s] == layer)
            left -= steps(shape->nbits[s]);
    for (unsigned nbits = 1; nbits <= 6; nbits++)
        if (left == steps(nbits))
            return nbits;
    CU_ASSERT_EQUAL(left, 0);
    return 0;
}

/* Walks the codes in canonical order: each begins where the one before it ends. */
static void check_layer(const lmc_code_shape *shape, const lmc_table *table, unsigned index)
{
    const lmc_layer *const layer = &table->layers[index];
    const unsigned code_nbits = continuation_nbits(shape, index);
    unsigned next = 0;
    CU_ASSERT_EQUAL(layer->has_continuation, code_nbits != 0);
    for (unsigned nbits = 1; nbits <= 6; nbits++) {
        for (unsigned s = 0; s < 256; s++) {
            if (shape->nbits[s] != nbits || shape->layer[s] != index)
                continue;
            CU_ASSERT_EQUAL(layer->code[s], next);
            for (unsigned k = 0; k < steps(nbits); k++)
                CU_ASSERT_EQUAL(layer->symbol[next + k], s);
            next += steps(nbits);
        }
        if (code_nbits == nbits) {
            CU_ASSERT_EQUAL(layer->continuation, next);
            next += steps(nbits);
        }
        if (nbits >= layer->first_nbits && nbits < layer->last_nbits)
            CU_ASSERT_EQUAL(layer->threshold[nbits], next); /* what is longer lies behind what is not */
    }
    CU_ASSERT_EQUAL(next, UNIT);
}

static void check_table(const lmc_code_shape *shape, const lmc_table *table)
{
    unsigned way_nbits = 0;
    CU_ASSERT_EQUAL(table->layer_count, shape->layer_count);
    for (unsigned i = 0; i < shape->layer_count; i++) {
        check_layer(shape, table, i);
        for (unsigned s = 0; s < 256; s++) {
            const int is_later = shape->nbits[s] == 0 || shape->layer[s] > i;
            if (shape->nbits[s] != 0 && shape->layer[s] == i)
                CU_ASSERT_EQUAL(table->code_nbits[s], way_nbits + shape->nbits[s]);
            if (is_later && table->layers[i].has_continuation)
                CU_ASSERT_EQUAL(table->layers[i].code[s], table->layers[i].continuation);
        }
        way_nbits += continuation_nbits(shape, i);
        CU_ASSERT(i + 1 == shape->layer_count || table->layers[i].has_continuation);
    }
    CU_ASSERT_EQUAL(table->has_literals, table->layers[table->layer_count - 1].has_continuation);
    for (unsigned s = 0; s < 256; s++) {
        CU_ASSERT_EQUAL(table->is_coded[s], shape->nbits[s] != 0);
        CU_ASSERT(shape->nbits[s] != 0 || table->code_nbits[s] == way_nbits);
    }
    for (unsigned i = 0; i < table->layer_count; i++) {
        const lmc_layer *const layer = &table->layers[i];
        int narrow = 1;
        for (unsigned s = 128; s < 256; s++)
            narrow &= layer->code[s] == layer->code[127];
        CU_ASSERT_EQUAL(layer->narrow, narrow);
    }
}

LMC_TEST(test_codes_are_canonical_and_complete)
{
    lmc_table table;
    lmc_code_shape shape;
    for (unsigned i = 0; i < 2000; i++) {
        random_shape(16, i % 2 ? 256 : 2 + (unsigned)random_below(255), -1, &shape);
        CU_ASSERT_EQUAL_FATAL(lmc_table_build(&shape, &table, NULL), LMC_OK);
        check_table(&shape, &table);
    }
}

/* ---- round trip ---- */

static size_t write_table(const lmc_code_shape *shape, uint8_t bytes[LMC_TABLE_NBYTES_MAX])
{
    lmc_writer writer = {bytes, bytes + LMC_TABLE_NBYTES_MAX};
    lmc_table_write(shape, &writer);
    return (size_t)(writer.next - bytes);
}

static int tables_are_equal(const lmc_table *a, const lmc_table *b)
{
    return a->layer_count == b->layer_count && a->has_literals == b->has_literals &&
           memcmp(a->is_coded, b->is_coded, sizeof a->is_coded) == 0 &&
           memcmp(a->code_nbits, b->code_nbits, sizeof a->code_nbits) == 0 &&
           memcmp(a->layers, b->layers, a->layer_count * sizeof a->layers[0]) == 0;
}

LMC_TEST(test_round_trip)
{
    lmc_table built, found;
    lmc_code_shape shape;
    uint8_t bytes[LMC_TABLE_NBYTES_MAX];
    guarded g = guarded_open(sizeof bytes);
    for (unsigned i = 0; i < 3000; i++) {
        random_shape(16, i % 2 ? 256 : 2 + (unsigned)random_below(255), -1, &shape);
        CU_ASSERT_EQUAL_FATAL(lmc_table_build(&shape, &built, NULL), LMC_OK);
        const size_t nbytes = write_table(&shape, bytes);
        const uint8_t *const copy = guarded_copy(&g, bytes, nbytes);
        lmc_reader reader = {copy, copy + nbytes, 0};
        memset(&found, 0xa5, sizeof found);
        CU_ASSERT_EQUAL_FATAL(lmc_table_read(&reader, &found, NULL), LMC_OK);
        CU_ASSERT_EQUAL(lmc_reader_left(&reader), 0);
        CU_ASSERT(tables_are_equal(&built, &found));
    }
    guarded_close(&g);
}

/* 16 layers of the lengths 1 to 6 are 96 classes, over all 256 symbols. */
LMC_TEST(test_largest_table)
{
    lmc_code_shape shape = {.layer_count = LMC_FMT_LAYER_COUNT_MAX};
    lmc_table built, found;
    uint8_t bytes[LMC_TABLE_NBYTES_MAX];
    memset(shape.first_nbits, 1, sizeof shape.first_nbits);
    memset(shape.last_nbits, 6, sizeof shape.last_nbits);
    for (unsigned i = 0; i < 96; i++) {
        shape.layer[i * 255 / 95] = (uint8_t)(i / 6);
        shape.nbits[i * 255 / 95] = (uint8_t)(1 + i % 6);
    }
    CU_ASSERT_EQUAL(write_table(&shape, bytes), LMC_TABLE_NBYTES_MAX);
    lmc_reader reader = {bytes, bytes + sizeof bytes, 0};
    CU_ASSERT_EQUAL(lmc_table_build(&shape, &built, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_table_read(&reader, &found, NULL), LMC_OK);
    CU_ASSERT(tables_are_equal(&built, &found));
    check_table(&shape, &found);
}

/* ---- damage ---- */

static lmc_status read_bytes(const guarded *g, const uint8_t *bytes, size_t nbytes)
{
    lmc_table table;
    lmc_diag diag;
    const uint8_t *const copy = guarded_copy(g, bytes, nbytes);
    lmc_reader reader = {copy, copy + nbytes, 0};
    const lmc_status status = lmc_table_read(&reader, &table, &diag);
    if (status != LMC_OK) {
        CU_ASSERT_EQUAL(diag.status, status);
        CU_ASSERT(diag.offset <= nbytes);
    }
    return status;
}

LMC_TEST(test_truncation)
{
    uint8_t bytes[LMC_TABLE_NBYTES_MAX];
    guarded g = guarded_open(sizeof bytes);
    for (unsigned i = 0; i < 100; i++) {
        lmc_code_shape shape;
        random_shape(16, 256, -1, &shape);
        const size_t nbytes = write_table(&shape, bytes);
        for (size_t n = 0; n < nbytes; n++)
            CU_ASSERT_EQUAL(read_bytes(&g, bytes, n), LMC_ERR_CORRUPT);
        CU_ASSERT_EQUAL(read_bytes(&g, bytes, nbytes), LMC_OK);
    }
    guarded_close(&g);
}

/* One case for each rule of format.md "Table". A class takes `width` bits; there are `count` of them. */
static const struct rule {
    const char *text;
    lmc_status status;
    uint8_t layer_count;
    uint8_t lengths[2]; /* of the layers: first, and last << 4 */
    char low, high;
    uint8_t width, count;
    uint8_t classes[6];
} rules[] = {
    {"a symbol and continuation", LMC_OK, 1, {0x11}, 'a', 'a', 1, 1, {1}},
    {"two symbols", LMC_OK, 1, {0x11}, 'a', 'b', 1, 2, {1, 1}},
    {"two layers", LMC_OK, 2, {0x11, 0x11}, 'a', 'c', 2, 3, {1, 2, 2}},
    {"a symbol without a code between", LMC_OK, 1, {0x11}, 'a', 'c', 1, 3, {1, 0, 1}},
    {"lengths 1 and 2", LMC_OK, 1, {0x21}, 'a', 'b', 2, 2, {1, 2}},
    {"no layer", LMC_ERR_CORRUPT, 0, {0x11}, 'a', 'a', 1, 1, {1}},
    {"17 layers", LMC_ERR_CORRUPT, 17, {0x11, 0x11}, 'a', 'a', 1, 1, {1}},
    {"a length of 0", LMC_ERR_CORRUPT, 1, {0x10}, 'a', 'a', 1, 1, {1}},
    {"lengths backwards", LMC_ERR_CORRUPT, 1, {0x12}, 'a', 'a', 1, 1, {1}},
    {"a length of 7", LMC_ERR_CORRUPT, 1, {0x71}, 'a', 'a', 3, 1, {1}},
    {"a length of 15", LMC_ERR_CORRUPT, 1, {0xff}, 'a', 'a', 1, 1, {1}},
    {"symbols backwards", LMC_ERR_CORRUPT, 1, {0x11}, 'b', 'a', 1, 2, {1, 1}},
    {"a class above C", LMC_ERR_CORRUPT, 1, {0x21}, 'a', 'c', 2, 3, {1, 3, 2}},
    {"no code for the first symbol", LMC_ERR_CORRUPT, 1, {0x11}, 'a', 'b', 1, 2, {0, 1}},
    {"no code for the last symbol", LMC_ERR_CORRUPT, 1, {0x11}, 'a', 'b', 1, 2, {1, 0}},
    {"no code for any symbol", LMC_ERR_CORRUPT, 1, {0x11}, 'a', 'b', 1, 2, {0, 0}},
    {"spare bits", LMC_ERR_CORRUPT, 1, {0x11}, 'a', 'a', 1, 5, {1, 0, 0, 0, 1}},
    {"spare bits, less than a class", LMC_ERR_CORRUPT, 2, {0x21, 0x21}, 'a', 'b', 3, 3, {1, 2, 1}},
    {"too many codes", LMC_ERR_CORRUPT, 1, {0x11}, 'a', 'c', 1, 3, {1, 1, 1}},
    {"what is left is no power of two", LMC_ERR_CORRUPT, 1, {0x22}, 'a', 'a', 1, 1, {1}},
    {"continuation shorter than first", LMC_ERR_CORRUPT, 1, {0x22}, 'a', 'b', 1, 2, {1, 1}},
    {"no code for the next layer", LMC_ERR_CORRUPT, 2, {0x11, 0x11}, 'a', 'd', 2, 4, {1, 1, 2, 2}},
    {"an unused first length", LMC_ERR_CORRUPT, 1, {0x21}, 'a', 'd', 2, 4, {2, 2, 2, 2}},
    {"an unused last length", LMC_ERR_CORRUPT, 1, {0x21}, 'a', 'b', 2, 2, {1, 1}},
    {"an empty layer", LMC_ERR_CORRUPT, 2, {0x11, 0x11}, 'a', 'a', 2, 1, {1}},
};

static size_t write_rule(const struct rule *rule, uint8_t bytes[64])
{
    size_t n = 0, nbits = 0;
    memset(bytes, 0, 64);
    bytes[n++] = rule->layer_count;
    for (unsigned i = 0; i < rule->layer_count; i++)
        bytes[n++] = rule->lengths[i < 2 ? i : 1];
    bytes[n++] = (uint8_t)rule->low;
    bytes[n++] = (uint8_t)rule->high;
    for (unsigned i = 0; i < rule->count; i++)
        for (unsigned b = 0; b < rule->width; b++, nbits++)
            bytes[n + nbits / 8] |= (uint8_t)((rule->classes[i] >> b & 1) << nbits % 8);
    return n + (nbits + 7) / 8;
}

LMC_TEST(test_rules)
{
    guarded g = guarded_open(64);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        uint8_t bytes[64];
        const size_t nbytes = write_rule(&rules[i], bytes);
        const lmc_status status = read_bytes(&g, bytes, nbytes);
        if (status != rules[i].status)
            printf("\n%s: %s\n", rules[i].text, lmc_status_text(status));
        CU_ASSERT_EQUAL(status, rules[i].status);
    }
    guarded_close(&g);
}

/* Whatever is accepted is a complete code. */
LMC_TEST(test_random_damage)
{
    uint8_t bytes[LMC_TABLE_NBYTES_MAX];
    unsigned accepted = 0;
    for (unsigned i = 0; i < 30000; i++) {
        lmc_code_shape shape;
        lmc_table table;
        random_shape(1 + i % 4, 2 + (unsigned)random_below(30), -1, &shape);
        const size_t nbytes = write_table(&shape, bytes);
        bytes[random_below(nbytes)] ^= (uint8_t)(1u << random_below(8));
        lmc_reader reader = {bytes, bytes + nbytes, 0};
        const lmc_status status = lmc_table_read(&reader, &table, NULL);
        CU_ASSERT(status == LMC_OK || status == LMC_ERR_CORRUPT || status == LMC_ERR_TRUNCATED);
        if (status != LMC_OK)
            continue;
        accepted++;
        for (unsigned k = 0; k < table.layer_count; k++) {
            unsigned used = 0;
            for (unsigned code = 0; code < UNIT; code++) /* each code is some symbol's, or continuation */
                used += table.layers[k].code[table.layers[k].symbol[code]] <= code ||
                        (table.layers[k].has_continuation && code >= table.layers[k].continuation);
            CU_ASSERT_EQUAL(used, UNIT);
        }
    }
    CU_ASSERT(accepted > 100);
}

LMC_TEST_MAIN("table")
