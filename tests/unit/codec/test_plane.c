/* test_plane.c - one plane in the mode that suits it, with and without a table, in any room; and planes that
 * break a rule. */
#include "lmc_test_data.h"

#include "codec/plain/plane.h"
#include "lmc_test.h"
#include "lmc_test_code.h"

#define N_MAX 20000

static const lmc_kernels *sets[KERNEL_SETS_MAX];
static size_t set_count;
static lmc_scratch scratch;
static uint8_t *scratch_memory, *plane, *buffer;
static guarded stored_memory;

static void open_memory(void)
{
    set_count = kernel_sets(sets);
    scratch_memory = must_malloc_zeros(lmc_scratch_nbytes(&(lmc_scratch_size){N_MAX, 1, 0, 0}));
    lmc_scratch_place(&scratch, &(lmc_scratch_size){N_MAX, 1, 0, 0}, scratch_memory);
    plane = must_malloc(N_MAX + 64);
    buffer = must_malloc(N_MAX + 64);
    stored_memory = guarded_open(2 * N_MAX);
}

static void close_memory(void)
{
    free(scratch_memory);
    free(plane);
    free(buffer);
    guarded_close(&stored_memory);
}

static lmc_status decode(const lmc_kernels *kernels, const lmc_table *table, const uint8_t *stored,
                         size_t nbytes, unsigned mode, size_t n, unsigned nbits, const uint8_t **found,
                         size_t *used)
{
    lmc_source source;
    lmc_diag diag;
    lmc_source_open(&source, &scratch, stored, nbytes);
    const lmc_status status =
        lmc_plane_decode(&(lmc_plane_coder){.kernels = kernels, .table = table, .scratch = &scratch}, &source,
                         mode, n, nbits, buffer, found, &diag);
    *used = nbytes - lmc_reader_left(&source.reader);
    return status;
}

/* Encodes with every set: the same bytes in the same mode, no more than the plane itself, and again the same in
 * exactly that room. Returns the mode. */
static unsigned round_trip(const lmc_table *table, size_t n)
{
    uint8_t mode = 0, first_mode = 0;
    size_t first_nbytes = 0;
    uint8_t *const first = must_malloc(n);
    memset(plane + n, 0xee, 64);
    for (size_t k = 0; k < set_count; k++) {
        uint8_t *const whole = guarded_end(&stored_memory, n);
        const lmc_plane_coder coder = {.kernels = sets[k], .table = table, .scratch = &scratch};
        const size_t nbytes = lmc_plane_encode(&coder, plane, n, whole, n, &mode);
        CU_ASSERT_FATAL(nbytes >= 1 && nbytes <= n);
        if (k == 0) {
            first_nbytes = nbytes;
            first_mode = mode;
            memcpy(first, whole, nbytes);
        }
        uint8_t *const dst = guarded_end(&stored_memory, nbytes);
        const uint8_t *found;
        size_t used;
        CU_ASSERT_EQUAL_FATAL(lmc_plane_encode(&coder, plane, n, dst, nbytes, &mode), nbytes);
        CU_ASSERT_EQUAL(nbytes, first_nbytes);
        CU_ASSERT_EQUAL(mode, first_mode);
        CU_ASSERT_EQUAL(memcmp(dst, first, nbytes), 0);
        CU_ASSERT_EQUAL_FATAL(decode(sets[k], table, dst, nbytes, mode, n, 8, &found, &used), LMC_OK);
        CU_ASSERT_EQUAL(used, nbytes);
        CU_ASSERT_EQUAL(memcmp(found, plane, n), 0);
    }
    free(first);
    return first_mode;
}

/* A plane of one value with one in `every` another symbol of the table (of all, without one). */
static void fill_dominated(const lmc_table *table, size_t n, size_t every)
{
    const uint8_t dominant = (uint8_t)random_u64();
    if (table)
        random_symbols(table, plane, n);
    else
        random_fill(plane, n);
    for (size_t i = 0; i < n; i++)
        if (random_below(every) != 0)
            plane[i] = dominant;
}

/* ---- byte planes ---- */

LMC_TEST(test_constant)
{
    lmc_code_shape shape;
    lmc_table table;
    random_shape(3, 256, -1, &shape);
    CU_ASSERT_EQUAL_FATAL(lmc_table_build(&shape, &table, NULL), LMC_OK);
    for (size_t n = 1; n < 300; n++) {
        memset(plane, (int)(n & 255), n);
        CU_ASSERT_EQUAL(round_trip(NULL, n), LMC_FMT_PLANE_CONSTANT);
        CU_ASSERT_EQUAL(round_trip(&table, n), LMC_FMT_PLANE_CONSTANT);
    }
}

LMC_TEST(test_noise_is_stored)
{
    for (size_t n = 2; n < 5000; n = n * 3 / 2 + 1) {
        random_fill(plane, n);
        plane[0] = (uint8_t)(plane[1] + 1);
        CU_ASSERT_EQUAL(round_trip(NULL, n), LMC_FMT_PLANE_STORED);
    }
}

LMC_TEST(test_coded)
{
    for (unsigned i = 0; i < 200; i++) {
        const size_t n = i < 20 ? i + 1 : 1 + random_below(i % 10 ? 1000 : N_MAX);
        lmc_code_shape shape;
        lmc_table table;
        random_shape(5, 200, -1, &shape);
        CU_ASSERT_EQUAL_FATAL(lmc_table_build(&shape, &table, NULL), LMC_OK);
        random_symbols(&table, plane, n);
        round_trip(&table, n);
    }
}

/* Few exceptions to one value, with all tables, also such as cannot code an exception at all. */
LMC_TEST(test_gaps)
{
    unsigned gaps = 0;
    for (unsigned i = 0; i < 600; i++) {
        const size_t n = 1 + random_below(i % 10 ? 2000 : N_MAX);
        lmc_code_shape shape;
        lmc_table table;
        random_shape(3, 2 + (unsigned)random_below(200), -1, &shape);
        CU_ASSERT_EQUAL_FATAL(lmc_table_build(&shape, &table, NULL), LMC_OK);
        fill_dominated(i % 3 == 0 ? NULL : &table, n, 2 + random_below(200));
        gaps += round_trip(i % 3 == 1 ? NULL : &table, n) == LMC_FMT_PLANE_EXCEPTIONS;
    }
    CU_ASSERT(gaps > 200);
}

/* A table without literals cannot code symbols that the sample did not show: the plane must take another mode. */
LMC_TEST(test_symbol_without_a_code)
{
    lmc_code_shape shape = {.layer_count = 2, .first_nbits = {1, 2}, .last_nbits = {1, 2}};
    lmc_table table;
    shape.nbits[5] = 1;
    for (unsigned s = 6; s < 10; s++) {
        shape.nbits[s] = 2;
        shape.layer[s] = 1;
    }
    CU_ASSERT_EQUAL_FATAL(lmc_table_build(&shape, &table, NULL), LMC_OK);
    CU_ASSERT(!table.has_literals);
    for (size_t every = 2; every < 200; every += 3) {
        for (size_t i = 0; i < N_MAX; i++)
            plane[i] = i % every ? 5 : (uint8_t)(6 + i / every % 4);
        round_trip(&table, N_MAX);
        plane[random_below(N_MAX)] = 99;
        round_trip(&table, N_MAX);
    }
}

/* Too little room: the answer is 0, and nothing is written beyond it. */
LMC_TEST(test_capacity)
{
    for (unsigned i = 0; i < 200; i++) {
        const size_t n = 1 + random_below(400);
        lmc_code_shape shape;
        lmc_table table;
        uint8_t mode;
        random_shape(3, 200, -1, &shape);
        CU_ASSERT_EQUAL_FATAL(lmc_table_build(&shape, &table, NULL), LMC_OK);
        fill_dominated(i % 4 == 0 ? NULL : &table, n, i % 2 ? 2 : 30);
        for (size_t capacity = 0; capacity <= n; capacity++) {
            uint8_t *const dst = guarded_end(&stored_memory, capacity);
            const uint8_t *found;
            size_t used;
            const lmc_plane_coder coder = {
                .kernels = sets[i % set_count], .table = i % 4 == 1 ? NULL : &table, .scratch = &scratch};
            const size_t nbytes = lmc_plane_encode(&coder, plane, n, dst, capacity, &mode);
            CU_ASSERT(nbytes <= capacity);
            CU_ASSERT(nbytes > 0 || capacity < n);
            if (nbytes == 0)
                continue;
            CU_ASSERT_EQUAL(decode(sets[0], &table, dst, nbytes, mode, n, 8, &found, &used), LMC_OK);
            CU_ASSERT_EQUAL(memcmp(found, plane, n), 0);
        }
    }
}

/* ---- packed planes ---- */

static void set_packed(uint8_t *p, size_t i, unsigned nbits, unsigned value)
{
    for (unsigned b = 0; b < nbits; b++) {
        const size_t at = i * nbits + b;
        p[at / 8] = (uint8_t)((p[at / 8] & ~(1u << at % 8)) | (value >> b & 1) << at % 8);
    }
}

static void check_packed(size_t n, unsigned nbits, unsigned wanted_mode)
{
    const size_t plane_nbytes = lmc_plane_nbytes(n, nbits);
    uint8_t mode;
    const uint8_t *const src = guarded_copy(&stored_memory, plane, plane_nbytes);
    uint8_t *const stored = must_malloc(plane_nbytes);
    const size_t nbytes = lmc_plane_encode_packed(src, n, nbits, stored, &mode);
    CU_ASSERT_EQUAL(mode, wanted_mode);
    CU_ASSERT_EQUAL_FATAL(nbytes, mode == LMC_FMT_PLANE_CONSTANT ? 1 : plane_nbytes);
    const uint8_t *const copy = guarded_copy(&stored_memory, stored, nbytes);
    const uint8_t *found;
    size_t used;
    CU_ASSERT_EQUAL_FATAL(decode(sets[0], NULL, copy, nbytes, mode, n, nbits, &found, &used), LMC_OK);
    CU_ASSERT_EQUAL(used, nbytes);
    CU_ASSERT_EQUAL(memcmp(found, plane, plane_nbytes), 0);
    free(stored);
}

/* Constant planes, and such as differ from that in one value. */
LMC_TEST(test_packed)
{
    for (unsigned nbits = 1; nbits < 8; nbits++) {
        for (size_t n = 1; n < 100; n++) {
            const unsigned value = (unsigned)random_below(1u << nbits);
            memset(plane, 0, n + 1);
            for (size_t i = 0; i < n; i++)
                set_packed(plane, i, nbits, value);
            check_packed(n, nbits, LMC_FMT_PLANE_CONSTANT);
            for (size_t i = 0; i < n && n > 1; i++) {
                set_packed(plane, i, nbits, value ^ 1u << random_below(nbits));
                check_packed(n, nbits, LMC_FMT_PLANE_STORED);
                set_packed(plane, i, nbits, value);
            }
        }
    }
}

/* ---- planes that break a rule ---- */

static const struct rule {
    const char *what;
    lmc_status status;
    uint8_t mode, nbits, n;
    uint8_t nbytes, body[12];
} rules[] = {
    {"stored", LMC_OK, 0, 8, 3, 3, {1, 2, 3}},
    {"stored: cut short", LMC_ERR_CORRUPT, 0, 8, 3, 2, {1, 2}},
    {"packed", LMC_OK, 0, 4, 3, 2, {0x21, 0x03}},
    {"packed: spare bits", LMC_ERR_CORRUPT, 0, 4, 3, 2, {0x21, 0x13}},
    {"packed: cut short", LMC_ERR_CORRUPT, 0, 4, 3, 1, {0x21}},
    {"constant", LMC_OK, 1, 8, 3, 1, {255}},
    {"constant: cut short", LMC_ERR_CORRUPT, 1, 8, 3, 0, {0}},
    {"packed constant", LMC_OK, 1, 4, 3, 1, {15}},
    {"packed constant: too wide", LMC_ERR_CORRUPT, 1, 4, 3, 1, {16}},
    {"coded without a table", LMC_ERR_CORRUPT, 2, 8, 3, 3, {0, 0, 0}},
    {"packed coded", LMC_ERR_CORRUPT, 2, 4, 3, 3, {0, 0, 0}},
    {"packed gaps", LMC_ERR_CORRUPT, 3, 4, 3, 5, {7, 0, 2, 0, 9}},
    {"gaps", LMC_OK, 3, 8, 3, 5, {7, 0, 2, 0, 9}},
    {"gaps: without exceptions", LMC_ERR_CORRUPT, 3, 8, 3, 4, {7, 0, 0, 0}},
    {"gaps: no dominant value", LMC_ERR_CORRUPT, 3, 8, 3, 0, {0}},
    {"exceptions: no bitset", LMC_ERR_CORRUPT, 3, 8, 3, 1, {7}},
    {"gaps: no mode", LMC_ERR_CORRUPT, 3, 8, 3, 3, {7, 0, 2}},
    {"gaps: no exceptions stored", LMC_ERR_CORRUPT, 3, 8, 3, 4, {7, 0, 2, 0}},
    {"gaps: exceptions constant", LMC_ERR_CORRUPT, 3, 8, 3, 5, {7, 0, 2, 1, 9}},
    {"gaps: exceptions coded without a table", LMC_ERR_CORRUPT, 3, 8, 3, 6, {7, 0, 2, 2, 0, 0}},
    {"gaps: gaps of exceptions", LMC_ERR_CORRUPT, 3, 8, 3, 8, {7, 0, 2, 3, 7, 0, 1, 0}},
    {"mode 4", LMC_ERR_UNSUPPORTED, 4, 8, 3, 3, {1, 2, 3}},
    {"mode 7, packed", LMC_ERR_UNSUPPORTED, 7, 4, 3, 3, {1, 2, 3}},
    {"mode 255", LMC_ERR_UNSUPPORTED, 255, 8, 3, 3, {1, 2, 3}},
};

LMC_TEST(test_rules)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const struct rule *const r = &rules[i];
        const uint8_t *found;
        size_t used;
        const uint8_t *const copy = guarded_copy(&stored_memory, r->body, r->nbytes);
        const lmc_status status =
            decode(sets[0], NULL, copy, r->nbytes, r->mode, r->n, r->nbits, &found, &used);
        if (status != r->status)
            printf("\n%s: %s\n", r->what, lmc_status_text(status));
        CU_ASSERT_EQUAL(status, r->status);
    }
}

LMC_TEST_MAIN_WITH("plane", open_memory(), close_memory())
