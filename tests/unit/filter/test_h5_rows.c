/* test_h5_rows.c - level + 16: the values that go with it, and chunks whose rows are coded one against the other. They
 * come back, are much smaller where rows are alike, and never larger than without rows. */
#include "lmc_test_h5.h"

#include "filter/chunk/chunk.h"
#include "filter/chunk/wire.h"

#define MAGIC LMC_H5_MAGIC
#define ROWS LMC_H5_LEVEL_ROWS
#define CHUNK_MAX ((size_t)1 << 19)

static uint8_t *chunk;
static lmc_ctx *ctx;

static const lmc_h5_type f32_type = H5_FLOAT(4, 8, 0);
static const lmc_h5_pipeline no_pipeline = H5_NO_PIPELINE;

/* ---- values ---- */

static lmc_h5_params complete(unsigned level, const lmc_h5_type *type, const lmc_h5_pipeline *pipeline,
                              uint64_t nbytes, uint64_t row_count)
{
    lmc_h5_params params;
    CU_ASSERT_EQUAL_FATAL(lmc_h5_params_read_user(&level, 1, &params), LMC_OK);
    lmc_h5_params_complete(&params, type, pipeline, nbytes);
    lmc_h5_params_set_rows(&params, row_count);
    return params;
}

LMC_TEST(test_every_level)
{
    for (unsigned level = 0; level < 3; level++) {
        const unsigned user[3] = {level + ROWS, 2, 64};
        lmc_h5_params params;
        for (size_t count = 1; count <= 3; count++) {
            CU_ASSERT_EQUAL(lmc_h5_params_read_user(user, count, &params), LMC_OK);
            CU_ASSERT(params.level == level && params.wants_rows && params.row_count == 0);
            CU_ASSERT_EQUAL(lmc_h5_params_read(user, count, &params), LMC_OK);
            CU_ASSERT(params.level == level && params.wants_rows && !params.is_complete);
        }
        CU_ASSERT_EQUAL(lmc_h5_params_read_user(&level, 1, &params), LMC_OK);
        CU_ASSERT(!params.wants_rows);
    }
}

/* Nine values with rows at least, eight without; what the filter wrote may be given back in any length. */
LMC_TEST(test_every_count)
{
    unsigned values[11] = {ROWS + 1, 0, 0, MAGIC, 4, 1, 4096, 0, 4, 0, 0};
    lmc_h5_params params;
    for (size_t count = 0; count <= 11; count++) {
        const int is_complete = count == 9 || count == 10;
        CU_ASSERT_EQUAL(lmc_h5_params_read_user(values, count, &params), count > 10 ? LMC_ERR_ARG : LMC_OK);
        CU_ASSERT_EQUAL(lmc_h5_params_read(values, count, &params),
                        count <= 3 || is_complete ? LMC_OK : LMC_ERR_ARG);
        CU_ASSERT_EQUAL(params.is_complete, is_complete);
        CU_ASSERT_EQUAL(params.row_count, is_complete ? 4 : 0);
    }
    values[0] = 1;
    CU_ASSERT_EQUAL(lmc_h5_params_read_user(values, 9, &params), LMC_OK); /* computed again */
    CU_ASSERT_EQUAL(lmc_h5_params_read(values, 9, &params), LMC_ERR_ARG);
    CU_ASSERT(strstr(lmc_h5_last_error(), "[8]") != NULL);
}

LMC_TEST(test_row_counts_in_files)
{
    static const unsigned good[] = {0, 2, 3, 1000, 65535, 65536},
                          bad[] = {1, 65537, 0x80000002u, 0xffffffffu};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        const unsigned values[9] = {ROWS, 0, 0, MAGIC, 4, 1, 0, 0, good[i]};
        lmc_h5_params params;
        CU_ASSERT_EQUAL(lmc_h5_params_read(values, 9, &params), LMC_OK);
        CU_ASSERT(params.is_complete && params.row_count == good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const unsigned values[9] = {ROWS, 0, 0, MAGIC, 4, 1, 0, 0, bad[i]};
        lmc_h5_params params;
        CU_ASSERT_EQUAL(lmc_h5_params_read(values, 9, &params), LMC_ERR_ARG);
        CU_ASSERT(strstr(lmc_h5_last_error(), "[8]") != NULL);
        CU_ASSERT(!params.is_complete && params.row_count == 0);
        CU_ASSERT_EQUAL(lmc_h5_params_read_user(values, 9, &params), LMC_OK); /* computed again */
    }
    for (unsigned rows = 0; rows < 4;
         rows += 2) { /* neither records by byte offset nor resized chunks have rows */
        const unsigned flags[] = {LMC_H5_TYPE_COLUMNS, LMC_H5_TYPE_RESIZED};
        for (unsigned i = 0; i < 2; i++) {
            const unsigned values[9] = {ROWS, 0, 0, MAGIC, 4, flags[i], 0, 0, rows};
            lmc_h5_params params;
            CU_ASSERT_EQUAL(lmc_h5_params_read(values, 9, &params), rows ? LMC_ERR_ARG : LMC_OK);
        }
    }
}

LMC_TEST(test_completing)
{
    for (size_t c = 0; c < H5_CASE_COUNT; c++) {
        const lmc_h5_params params = complete(ROWS, &h5_cases[c].type, &h5_cases[c].pipeline, 4096, 8);
        const int has_rows = (params.type & (LMC_H5_TYPE_COLUMNS | LMC_H5_TYPE_RESIZED)) == 0;
        CU_ASSERT_EQUAL(params.row_count, has_rows ? 8 : 0);
        CU_ASSERT_EQUAL(complete(0, &h5_cases[c].type, &h5_cases[c].pipeline, 4096, 8).row_count, 0);
    }
    CU_ASSERT_EQUAL(complete(ROWS, &f32_type, &no_pipeline, 4096, 1).row_count, 0);
    CU_ASSERT_EQUAL(complete(ROWS, &f32_type, &no_pipeline, 4096, 0).row_count, 0);
    CU_ASSERT_EQUAL(complete(ROWS, &f32_type, &no_pipeline, 0, 8).row_count, 0);
    CU_ASSERT_EQUAL(complete(ROWS, &f32_type, &no_pipeline, 1 << 20, 65536).row_count, 65536);
    CU_ASSERT_EQUAL(complete(ROWS, &f32_type, &no_pipeline, 1 << 20, 65537).row_count, 0);
    CU_ASSERT_EQUAL(complete(ROWS, &f32_type, &no_pipeline, 1 << 20, UINT64_C(1) << 32 | 2).row_count, 0);
}

/* What is written reads the same, and completing it again changes nothing: h5repack, and properties used twice. */
LMC_TEST(test_values_are_stable)
{
    for (size_t c = 0; c < H5_CASE_COUNT; c++) {
        for (unsigned level = ROWS; level < ROWS + 3; level++) {
            unsigned first[LMC_H5_VALUE_COUNT_MAX], second[LMC_H5_VALUE_COUNT_MAX];
            lmc_h5_params params = complete(level, &h5_cases[c].type, &h5_cases[c].pipeline, 4096, 8), read;
            CU_ASSERT_EQUAL(lmc_h5_params_write(&params, first), 9);
            CU_ASSERT_EQUAL(first[0], level);
            CU_ASSERT_EQUAL_FATAL(lmc_h5_params_read(first, 9, &read), LMC_OK);
            CU_ASSERT(read.is_complete && read.wants_rows && read.level == level - ROWS);
            CU_ASSERT(read.row_count == params.row_count && read.type == params.type);
            CU_ASSERT_EQUAL_FATAL(lmc_h5_params_read_user(first, 9, &params), LMC_OK);
            lmc_h5_params_complete(&params, &h5_cases[c].type, &h5_cases[c].pipeline, 4096);
            lmc_h5_params_set_rows(&params, 8);
            CU_ASSERT_EQUAL(lmc_h5_params_write(&params, second), 9);
            CU_ASSERT_EQUAL(memcmp(first, second, 9 * sizeof *first), 0);
        }
    }
}

/* ---- chunks ---- */

typedef struct rows_values {
    unsigned values[LMC_H5_VALUE_COUNT_MAX];
    size_t count;
} rows_values;

static rows_values values_of(const h5_case *c, unsigned level, size_t nbytes, unsigned row_count)
{
    rows_values v = {{0}, 0};
    const lmc_h5_params params = complete(level, &c->type, &c->pipeline, nbytes, row_count);
    v.count = lmc_h5_params_write(&params, v.values);
    return v;
}

static size_t round_trip(const h5_case *c, unsigned level, size_t nbytes, unsigned row_count)
{
    const rows_values v = values_of(c, level, nbytes, row_count);
    return h5_round_trip(ctx, v.values, v.count, chunk, nbytes);
}

/* Rows in which one element of `distance` differs a little from the row before; in the order of a shuffled chunk, too,
 * where changes are made before the bytes are moved. */
static void fill_rows(const h5_case *c, size_t row_nbytes, unsigned row_count, size_t distance)
{
    const size_t nbytes = row_nbytes * row_count, width = c->pipeline.shuffle_nbytes;
    const size_t element = c->type.nbytes <= 8 ? c->type.nbytes : 1,
                 low = c->type.is_big_endian ? element - 1 : 0;
    uint8_t *const rows = must_malloc(nbytes);
    const h5_case plain = {c->name, c->type, no_pipeline};
    h5_case_fill(&plain, rows, row_nbytes);
    for (unsigned r = 1; r < row_count; r++) {
        uint8_t *const row = rows + r * row_nbytes;
        memcpy(row, row - row_nbytes, row_nbytes);
        for (size_t i = random_below(distance) * element; i + element <= row_nbytes;
             i += (1 + random_below(2 * distance)) * element)
            row[i + low] = (uint8_t)(row[i + low] + 1);
    }
    memcpy(chunk, rows, nbytes);
    for (size_t i = 0; width > 1 && i < nbytes / width; i++)
        for (size_t j = 0; j < width; j++)
            chunk[j * (nbytes / width) + i] = rows[i * width + j];
    free(rows);
}

static int has_rows(const h5_case *c)
{
    return values_of(c, ROWS, 4096, 8).values[LMC_H5_VALUE_ROWS] != 0;
}

/* Where few elements change, every form but that of records by byte offset has rows, and they pay. */
LMC_TEST(test_every_form_gains)
{
    for (size_t c = 0; c < H5_CASE_COUNT; c++) {
        const h5_case *const form = &h5_cases[c];
        const size_t row_nbytes = 12 * 1024, nbytes = 8 * row_nbytes;
        fill_rows(form, row_nbytes, 8, 50);
        const size_t alone = round_trip(form, 0, nbytes, 8);
        const rows_values v = values_of(form, ROWS, nbytes, 8);
        h5_stored stored = h5_encode(ctx, v.values, v.count, chunk, nbytes);
        h5_check(ctx, &stored, chunk, nbytes);
        const int is_rows = memcmp(stored.bytes, "\x8cLMH\x01\x03", 6) == 0;
        if (is_rows != has_rows(form) || (is_rows && stored.nbytes > alone / 2))
            printf("\n%s: %zu bytes, %zu without rows\n", form->name, stored.nbytes, alone);
        CU_ASSERT_EQUAL(is_rows, has_rows(form));
        if (is_rows) {
            CU_ASSERT(stored.nbytes < alone / 2);
            CU_ASSERT_EQUAL(stored.bytes[6], v.values[5] & LMC_H5_TYPE_BIG_ENDIAN ? v.values[4] : 0);
            CU_ASSERT_EQUAL(stored.bytes[8] + 256u * stored.bytes[9], form->pipeline.shuffle_nbytes);
            CU_ASSERT_EQUAL(stored.bytes[10], 8);
        } else {
            CU_ASSERT_EQUAL(stored.nbytes, alone);
        }
        free(stored.bytes);
    }
}

LMC_TEST(test_every_row_count_and_distance)
{
    static const unsigned counts[] = {2, 3, 5, 16, 100};
    for (size_t c = 0; c < H5_CASE_COUNT; c++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            const size_t element = h5_cases[c].type.nbytes < 300 ? h5_cases[c].type.nbytes : 1;
            const size_t row_nbytes = (1000 + random_below(2000)) / element * element;
            fill_rows(&h5_cases[c], row_nbytes, counts[i], (size_t)1 << 3 * (c + i) % 13);
            const size_t nbytes = row_nbytes * counts[i];
            const size_t alone = round_trip(&h5_cases[c], (unsigned)(i % 3), nbytes, counts[i]);
            CU_ASSERT(round_trip(&h5_cases[c], ROWS + (unsigned)(i % 3), nbytes, counts[i]) <=
                      alone + alone / 8);
        }
}

/* Rows that have nothing in common, and rows too small for frames of their own: as without rows. */
LMC_TEST(test_rows_that_do_not_pay)
{
    static const h5_case f32 = {"", H5_FLOAT(4, 8, 0), H5_NO_PIPELINE};
    const size_t nbytes = 65536;
    data_fill(chunk, nbytes, LMC_DTYPE_F32, DATA_HALF_ZEROS);
    for (unsigned row_count = 2; row_count <= 16384; row_count *= 2) {
        const size_t alone = round_trip(&f32, 0, nbytes, row_count);
        const size_t with_rows = round_trip(&f32, ROWS, nbytes, row_count);
        CU_ASSERT(with_rows <= alone);
        CU_ASSERT(nbytes / row_count >= 1024 || with_rows == alone);
    }
    random_fill(chunk, nbytes);
    for (unsigned row_count = 2; row_count <= 64; row_count *= 2)
        CU_ASSERT_EQUAL(round_trip(&f32, ROWS, nbytes, row_count), round_trip(&f32, 0, nbytes, row_count));
}

/* A chunk of another size than the values say, values of a user, and blocks of every size. */
LMC_TEST(test_other_values)
{
    static const h5_case f32 = {"", H5_FLOAT(4, 8, 0), H5_NO_PIPELINE};
    const unsigned user[1] = {ROWS};
    fill_rows(&f32, 16384, 8, 100);
    const size_t nbytes = 8 * 16384;
    const rows_values v = values_of(&f32, ROWS, nbytes, 8);
    for (size_t less = 0; less < 8; less++) {
        h5_stored stored = h5_encode(ctx, v.values, v.count, chunk, nbytes - less);
        h5_check(ctx, &stored, chunk, nbytes - less);
        CU_ASSERT_EQUAL(stored.bytes[3] == 'H', less == 0);
        free(stored.bytes);
    }
    h5_stored stored = h5_encode(ctx, user, 1, chunk, nbytes);
    h5_check(ctx, &stored, chunk, nbytes);
    CU_ASSERT_EQUAL(stored.bytes[3], 'C');
    free(stored.bytes);
    for (unsigned kib = 16; kib <= 1024; kib *= 4) {
        unsigned values[LMC_H5_VALUE_COUNT_MAX];
        memcpy(values, v.values, sizeof values);
        values[LMC_H5_VALUE_BLOCK_KIB] = kib;
        CU_ASSERT(h5_round_trip(ctx, values, v.count, chunk, nbytes) < nbytes / 2);
    }
}

/* What a chunk that is not yet full holds: zeros in the rows to come, which take next to nothing. */
LMC_TEST(test_rows_to_come)
{
    static const h5_case bf16 = {"", H5_FLOAT(2, 8, 0), H5_NO_PIPELINE};
    const size_t row_nbytes = 65536, nbytes = 8 * row_nbytes;
    fill_rows(&bf16, row_nbytes, 8, 20);
    memset(chunk + row_nbytes, 0, nbytes - row_nbytes);
    const size_t one = round_trip(&bf16, ROWS, nbytes, 8);
    CU_ASSERT(one < round_trip(&bf16, 0, row_nbytes, 1) + 7 * 250);
    memset(chunk, 0, nbytes);
    CU_ASSERT(round_trip(&bf16, ROWS, nbytes, 8) < 2000);
}

LMC_TEST(test_bytes_do_not_depend_on_threads)
{
    for (size_t c = 0; c < H5_CASE_COUNT; c += 4) {
        const size_t row_nbytes = 60000, nbytes = 8 * row_nbytes;
        lmc_h5_params params;
        size_t bound, made;
        fill_rows(&h5_cases[c], row_nbytes, 8, 20);
        const rows_values v = values_of(&h5_cases[c], ROWS, nbytes, 8);
        h5_stored one = h5_encode(NULL, v.values, v.count, chunk, nbytes);
        CU_ASSERT_EQUAL_FATAL(lmc_h5_params_read(v.values, v.count, &params), LMC_OK);
        CU_ASSERT_EQUAL_FATAL(lmc_h5_encode_bound(nbytes, &bound), LMC_OK);
        uint8_t *const dst = must_malloc(bound);
        CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, 3), LMC_OK);
        CU_ASSERT_EQUAL(lmc_h5_chunk_encode(ctx, &params, chunk, nbytes, dst, bound, &made), LMC_OK);
        CU_ASSERT(made == one.nbytes && memcmp(dst, one.bytes, made) == 0);
        h5_check(ctx, &one, chunk, nbytes);
        CU_ASSERT_EQUAL(lmc_ctx_set_thread_count(ctx, 1), LMC_OK);
        free(dst);
        free(one.bytes);
    }
}

LMC_TEST_MAIN_WITH("h5_rows", (chunk = must_malloc(CHUNK_MAX), ctx = must_create_ctx()),
                   (lmc_ctx_free(ctx), free(chunk)))
