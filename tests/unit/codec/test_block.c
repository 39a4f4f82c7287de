/* test_block.c - one block in all its forms: every width, ragged ends, masks, escapes; by all kernel sets, in
 * exactly the room that is promised. */
#include "lmc_test_data.h"

#include "codec/common/dtype.h"
#include "codec/plain/block.h"
#include "codec/plain/plain_plan.h"
#include "lmc_test.h"

#define CONTENT_MAX 300000
#define COLUMNS_MAX 5000

static const lmc_kernels *sets[KERNEL_SETS_MAX];
static size_t set_count;
static lmc_scratch scratch;
static uint8_t *content, *first_stored;
static lmc_plan_work *plan_work;
static lmc_rans rans;
static lmc_table tables[LMC_FMT_PLANE_COUNT_MAX];
static lmc_decision decision;
static uint32_t column_count;  /* of what is decided next; 0: no matrix */
static uint64_t first_element; /* of the block, in its frame */
static uint16_t columns[COLUMNS_MAX];
static lmc_offset_costs costs;
static uint8_t section[LMC_FMT_PLAN_NBYTES_MAX + COLUMNS_MAX + 8];
static guarded content_memory, stored_memory, scratch_memory;

/* What was seen: a test claims that every form is met. */
static unsigned block_modes[3], plane_modes[4], escape_blocks;
static unsigned row_forms[LMC_FMT_ROWS_NONE + 1]; /* by row_nbits */

static void open_memory(void)
{
    set_count = kernel_sets(sets);
    scratch_memory = guarded_open(lmc_scratch_nbytes(&(lmc_scratch_size){CONTENT_MAX, 8, 0, 0}));
    content = must_malloc(CONTENT_MAX);
    first_stored = must_malloc(lmc_block_bound(CONTENT_MAX));
    plan_work = must_malloc(sizeof *plan_work);
    content_memory = guarded_open(CONTENT_MAX);
    stored_memory = guarded_open(lmc_block_bound(CONTENT_MAX));
}

static void close_memory(void)
{
    guarded_close(&scratch_memory);
    free(content);
    free(first_stored);
    free(plan_work);
    guarded_close(&content_memory);
    guarded_close(&stored_memory);
}

static lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)user;
    memcpy(dst, content + offset, nbytes);
    return LMC_OK;
}

/* Decides by the content how it is coded. */
static void decide(lmc_dtype dtype, lmc_level level, size_t nbytes)
{
    const unsigned element_nbytes = lmc_dtype_element_nbytes(dtype);
    const lmc_content input = {.dtype = dtype,
                               .level = level,
                               .element_nbytes = element_nbytes,
                               .nbytes = nbytes,
                               .value_count = nbytes / element_nbytes,
                               .column_count = column_count,
                               .read = read_content};
    const lmc_plan_room room = {tables, &rans, columns, &costs, section};
    CU_ASSERT_EQUAL_FATAL(lmc_decide(&input, plan_work, &room, &decision), LMC_OK);
    if (decision.coding.rans)
        lmc_rans_set_slots(&rans); /* what a decoder has */
}

/* The scratch is laid out again for each block: exactly for its size, at the end of its memory. */
static void place_scratch(size_t nbytes)
{
    const unsigned unit = decision.coding.element_nbytes;
    const size_t n = (nbytes + unit - 1) / unit;
    lmc_scratch_place(&scratch, &(lmc_scratch_size){n, unit, 0, 0},
                      guarded_end(&scratch_memory, lmc_scratch_nbytes(&(lmc_scratch_size){n, unit, 0, 0})));
}

static lmc_status decode(const lmc_kernels *kernels, const uint8_t *stored, size_t stored_nbytes,
                         int past_cache, uint8_t *dst, size_t nbytes, uint64_t *hash)
{
    lmc_diag diag;
    const lmc_block_coder coder = {kernels, &decision.coding, &scratch};
    const lmc_stored block = {
        .bytes = stored, .nbytes = stored_nbytes, .first = first_element, .past_cache = past_cache};
    return lmc_block_decode(&coder, &block, dst, nbytes, hash, &diag);
}

/* Bytes of the rows of a block of n elements. */
static size_t rows_nbytes(const uint8_t *rows, size_t n)
{
    const lmc_offsets *const offsets = &decision.coding.offsets;
    if (offsets->column_count == 0)
        return 0;
    row_forms[rows[0]]++;
    if (rows[0] == LMC_FMT_ROWS_NONE)
        return 1;
    return 3 + lmc_bits_nbytes(lmc_offsets_row_count(offsets, first_element, n) * rows[0]);
}

static void note_modes(const uint8_t *stored, size_t nbytes)
{
    block_modes[stored[0]]++;
    if (stored[0] != LMC_FMT_BLOCK_PLANES)
        return;
    const uint8_t *const modes =
        stored + 1 + rows_nbytes(stored + 1, nbytes / decision.coding.element_nbytes);
    for (unsigned i = 0; i < decision.coding.plane_count; i++)
        plane_modes[modes[i]]++;
}

/* One block of the first nbytes of content through every set: the same bytes, at most one more than the
 * content, nothing read beyond the stored bytes and nothing written beyond the content. */
static size_t round_trip(size_t nbytes)
{
    size_t first_nbytes = 0;
    place_scratch(nbytes);
    for (size_t k = 0; k < set_count; k++) {
        uint64_t hash = 0;
        const lmc_content_block block = {
            .first = first_element, .src = guarded_copy(&content_memory, content, nbytes), .nbytes = nbytes};
        const lmc_block_coder coder = {sets[k], &decision.coding, &scratch};
        uint8_t *const dst = guarded_end(&stored_memory, lmc_block_bound(nbytes));
        const size_t stored_nbytes = lmc_block_encode(&coder, &block, dst, &hash);
        CU_ASSERT_FATAL(stored_nbytes >= 1 && stored_nbytes <= nbytes + 1);
        CU_ASSERT_EQUAL(hash, lmc_kernels_scalar.hash(content, nbytes, 0));
        if (k == 0) {
            first_nbytes = stored_nbytes;
            memcpy(first_stored, dst, stored_nbytes);
            note_modes(dst, nbytes);
        }
        CU_ASSERT_EQUAL_FATAL(stored_nbytes, first_nbytes);
        CU_ASSERT_EQUAL(memcmp(dst, first_stored, stored_nbytes), 0);
        const uint8_t *const stored = guarded_copy(&stored_memory, first_stored, stored_nbytes);
        uint8_t *const found = guarded_end(&content_memory, nbytes);
        for (int past_cache = 0; past_cache < 2; past_cache++) {
            memset(found, 0x77, nbytes);
            hash = 0;
            CU_ASSERT_EQUAL_FATAL(decode(sets[k], stored, stored_nbytes, past_cache, found, nbytes, &hash),
                                  LMC_OK);
            CU_ASSERT_EQUAL(memcmp(found, content, nbytes), 0);
            CU_ASSERT_EQUAL(hash, lmc_kernels_scalar.hash(content, nbytes, 0));
        }
    }
    return first_nbytes;
}

/* ---- round trips ---- */

static const lmc_dtype dtypes[] = {LMC_DTYPE_U8,  LMC_DTYPE_F8_E4M3, LMC_DTYPE_F8_E5M2, LMC_DTYPE_I8,
                                   LMC_DTYPE_I16, LMC_DTYPE_F16,     LMC_DTYPE_BF16,    LMC_DTYPE_I32,
                                   LMC_DTYPE_F32, LMC_DTYPE_C64,     LMC_DTYPE_I64,     LMC_DTYPE_F64};
#define DTYPE_COUNT (sizeof dtypes / sizeof dtypes[0])

static void each_kind(size_t nbytes, lmc_level level)
{
    for (size_t d = 0; d < DTYPE_COUNT; d++) {
        for (int kind = 0; kind < DATA_KIND_COUNT; kind++) {
            data_fill(content, nbytes, dtypes[d], (data_kind)kind);
            if (nbytes < data_element_nbytes(dtypes[d]))
                continue; /* nothing to decide by; see test_less_than_an_element */
            decide(dtypes[d], level, nbytes);
            round_trip(nbytes);
        }
    }
}

LMC_TEST(test_small_blocks)
{
    for (size_t nbytes = 1; nbytes < 200; nbytes += 1 + nbytes / 20)
        each_kind(nbytes, (lmc_level)(nbytes % 3));
}

LMC_TEST(test_blocks)
{
    each_kind(1024, LMC_LEVEL_DEFAULT);
    each_kind(8 * LMC_STRIP_VALUES, LMC_LEVEL_FAST);
    each_kind(8 * LMC_STRIP_VALUES + 7, LMC_LEVEL_MAX);
    for (size_t i = 0; i < 6; i++)
        each_kind(1 + random_below(40000), (lmc_level)(i % 3));
}

/* Counts of 3 bytes: 65536 values and more in a block. */
LMC_TEST(test_large_blocks)
{
    for (size_t d = 0; d < DTYPE_COUNT; d++) {
        const size_t unit = data_element_nbytes(dtypes[d]);
        const size_t nbytes = unit < 8 ? 66000 * unit + unit - 1 : CONTENT_MAX - 1;
        for (int kind = DATA_WEIGHTS; kind <= DATA_RARE; kind++) {
            data_fill(content, nbytes, dtypes[d], (data_kind)kind);
            decide(dtypes[d], LMC_LEVEL_DEFAULT, nbytes);
            round_trip(nbytes);
        }
    }
}

/* The plan knows one part of a tensor, the block is another: symbols without codes, other constants. */
LMC_TEST(test_blocks_unlike_the_sample)
{
    for (unsigned i = 0; i < 1500; i += LMC_TEST_STEP) {
        const lmc_dtype dtype = dtypes[random_below(DTYPE_COUNT)];
        const size_t nbytes = 8 + random_below(6000);
        const data_kind seen = (data_kind)random_below(DATA_KIND_COUNT);
        const data_kind met = (data_kind)random_below(DATA_KIND_COUNT);
        data_fill(content, nbytes, dtype, seen);
        decide(dtype, (lmc_level)random_below(3), nbytes);
        data_fill(content, nbytes / 2, dtype, met);
        round_trip(nbytes);
        data_fill(content, nbytes, dtype, met);
        round_trip(nbytes);
    }
}

/* Zeros by the mask of the plan, from none to all but one, where the plan has not seen the zero's bytes. */
LMC_TEST(test_zeros_in_a_masked_plan)
{
    static const size_t every[] = {1, 2, 10, 63, 64, 65, 300};
    for (size_t d = 0; d < DTYPE_COUNT; d++) {
        const size_t unit = data_element_nbytes(dtypes[d]);
        const size_t nbytes = 2000 * unit;
        for (size_t e = d % LMC_TEST_STEP; e < sizeof every / sizeof every[0]; e += LMC_TEST_STEP) {
            for (size_t i = 0; i < 2000;
                 i++) { /* few values, so that planes are dominated and tables lack literals */
                const uint64_t value = UINT64_C(0x4142434445464748) +
                                       (i % 40 == 0) * (1 + i / 40 % 3) * UINT64_C(0x0101010101010101);
                memcpy(content + i * unit, &value, unit);
                if (i < 150)
                    memset(content + i * unit, 0, unit);
            }
            decide(dtypes[d], LMC_LEVEL_DEFAULT, nbytes);
            for (size_t i = 0; i < 2000; i++)
                if (i % every[e] == 0 && i > 0)
                    memset(content + i * unit, 0, unit);
            round_trip(nbytes);
            round_trip(nbytes - 150 * unit);
        }
    }
}

static void fill(size_t first, size_t n, unsigned unit, uint64_t value)
{
    for (size_t i = first; i < n; i++)
        memcpy(content + i * unit, &value, unit);
}

/* Blocks of nothing but zeros, or another value, behind others, as the edges of arrays are filled: they take next to
 * nothing. */
LMC_TEST(test_blocks_of_fill)
{
    static const uint64_t values[] = {0, UINT64_C(0x7c2b7cf07c2b7cf0), ~UINT64_C(0)};
    const size_t n = 20000;
    for (size_t d = 0; d < DTYPE_COUNT; d++) {
        const unsigned unit = data_element_nbytes(dtypes[d]);
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            data_fill(content, n * unit, dtypes[d], DATA_WEIGHTS);
            fill(n / 2, n, unit, values[v]);
            decide(dtypes[d], LMC_LEVEL_DEFAULT, n * unit);
            CU_ASSERT(round_trip(n * unit) < n * unit * 13 / 20);
            fill(0, n, unit, values[v]);
            CU_ASSERT(round_trip(n * unit) <= 48);
            CU_ASSERT(round_trip(2 * unit) <= 48);
        }
    }
}

/* A symbol of more than 8 bits has escapes: none, some, all. */
LMC_TEST(test_escapes)
{
    for (unsigned share = 0; share <= 16; share++) {
        for (size_t d = share % LMC_TEST_STEP; d < DTYPE_COUNT; d += LMC_TEST_STEP) {
            const unsigned unit = data_element_nbytes(dtypes[d]);
            const size_t n = 3000, nbytes = n * unit + share % unit;
            data_fill(content, nbytes, dtypes[d], DATA_WEIGHTS);
            decide(dtypes[d], LMC_LEVEL_DEFAULT, nbytes);
            for (size_t i = 0; i < n; i++) {
                const uint64_t value = random_u64();
                if (random_below(16) < share)
                    memcpy(content + i * unit, &value, unit);
            }
            escape_blocks += unit > 1 && decision.coding.split.low_nbits < 8;
            round_trip(nbytes);
        }
    }
    CU_ASSERT(escape_blocks > 0);
}

LMC_TEST(test_less_than_an_element)
{
    data_fill(content, 4096, LMC_DTYPE_F64, DATA_WEIGHTS);
    decide(LMC_DTYPE_F64, LMC_LEVEL_DEFAULT, 4096);
    for (size_t nbytes = 1; nbytes < 8; nbytes++)
        CU_ASSERT_EQUAL(round_trip(nbytes), nbytes + 1);
}

/* ---- rows and columns ---- */

static const lmc_dtype matrix_dtypes[] = {LMC_DTYPE_F8_E4M3, LMC_DTYPE_F8_E5M2, LMC_DTYPE_F16, LMC_DTYPE_BF16,
                                          LMC_DTYPE_F32,     LMC_DTYPE_C64,     LMC_DTYPE_F64};
#define MATRIX_DTYPE_COUNT (sizeof matrix_dtypes / sizeof matrix_dtypes[0])

static const unsigned column_counts[] = {32, 33, 64, 100, 256, 384, 1000, 4096};
#define COLUMN_COUNTS (sizeof column_counts / sizeof column_counts[0])

/* A matrix of so many elements, or a few more. Returns its elements. */
static size_t fill_matrix(lmc_dtype dtype, unsigned columns_wanted, size_t n)
{
    const size_t unit = data_element_nbytes(dtype), most = CONTENT_MAX / unit;
    const size_t enough = n < (size_t)20 * columns_wanted ? (size_t)20 * columns_wanted : n;
    const size_t count = enough < most ? enough : most;
    data_fill(content, count * unit, dtype, DATA_WEIGHTS);
    data_scale_matrix(content, count * unit, dtype, columns_wanted);
    return count;
}

/* The same block as one that begins within a row. */
static void round_trip_from(size_t first, size_t n, unsigned unit)
{
    if (first >= n)
        return;
    memmove(content, content + first * unit, (n - first) * unit);
    first_element = first;
    round_trip((n - first) * unit);
    round_trip(lmc_min_size(1 + random_below(n - first), 3000) * unit);
    first_element = first + 1024 * random_below(1u << 20);
    round_trip(lmc_min_size(n - first, 5000) * unit);
    first_element = 0;
}

LMC_TEST(test_matrices)
{
    unsigned decided = 0, has_columns = 0, tried = 0;
    memset(row_forms, 0, sizeof row_forms);
    for (size_t c = 0; c < COLUMN_COUNTS; c++)
        for (size_t d = 0; d < MATRIX_DTYPE_COUNT; d++) {
            const unsigned unit = data_element_nbytes(matrix_dtypes[d]);
            const size_t n = fill_matrix(matrix_dtypes[d], column_counts[c], 12000);
            column_count = column_counts[c];
            decide(matrix_dtypes[d], c % 2 ? LMC_LEVEL_DEFAULT : LMC_LEVEL_MAX, n * unit);
            tried++;
            decided += decision.coding.offsets.column_count == column_count;
            has_columns += decision.coding.offsets.columns != NULL;
            CU_ASSERT(round_trip(n * unit) < n * unit);
            round_trip_from(1024 * (1 + random_below(4)), n, unit);
        }
    column_count = 0;
    CU_ASSERT(decided >= tried * 9 / 10);
    CU_ASSERT(has_columns >= tried * 6 / 10);
    CU_ASSERT(row_forms[4] + row_forms[5] + row_forms[6] + row_forms[7] > tried);
}

/* Without a shape, stretches take the part of rows. */
LMC_TEST(test_stretches)
{
    unsigned decided = 0;
    for (size_t d = 0; d < MATRIX_DTYPE_COUNT; d++) {
        const unsigned unit = data_element_nbytes(matrix_dtypes[d]);
        const size_t n = 40 * 512 + 100;
        data_fill(content, n * unit, matrix_dtypes[d], DATA_WEIGHTS);
        for (size_t i = 0; i < n; i += 512)
            data_scale_matrix(content + i * unit, lmc_min_size(512, n - i) * unit, matrix_dtypes[d],
                              SIZE_MAX);
        decide(matrix_dtypes[d], LMC_LEVEL_DEFAULT, n * unit);
        decided += decision.coding.offsets.column_count == 512 && !decision.coding.offsets.columns;
        round_trip(n * unit);
        round_trip_from(1024 * (1 + random_below(4)), n, unit);
    }
    CU_ASSERT(decided >= MATRIX_DTYPE_COUNT - 2);
}

/* Values of any size in a matrix: escapes, and rows that are far apart. */
LMC_TEST(test_matrices_with_escapes)
{
    for (size_t d = 0; d < MATRIX_DTYPE_COUNT; d++)
        for (unsigned share = 1; share <= 256; share *= 4) {
            const unsigned unit = data_element_nbytes(matrix_dtypes[d]);
            const size_t n = fill_matrix(matrix_dtypes[d], 96, 96 * 80);
            column_count = 96;
            decide(matrix_dtypes[d], LMC_LEVEL_DEFAULT, n * unit);
            for (size_t i = 0; i < n; i++) {
                const uint64_t value = random_below(4) ? random_u64() : random_u64() & 1 ? ~UINT64_C(0) : 0;
                if (random_below(256) < share || i / 96 % 40 == 7)
                    memcpy(content + i * unit, &value, unit);
            }
            round_trip(n * unit);
            round_trip_from(1024 * (1 + random_below(4)), n, unit);
        }
    column_count = 0;
}

/* Blocks of one value have no rows, and take next to nothing. */
LMC_TEST(test_fill_in_matrices)
{
    memset(row_forms, 0, sizeof row_forms);
    for (size_t d = 0; d < MATRIX_DTYPE_COUNT; d++) {
        const unsigned unit = data_element_nbytes(matrix_dtypes[d]);
        const size_t n = fill_matrix(matrix_dtypes[d], 200, 200 * 80);
        column_count = 200;
        decide(matrix_dtypes[d], LMC_LEVEL_DEFAULT, n * unit);
        fill(n / 2, n, unit, UINT64_C(0x3c3c3c3c3c3c3c3c));
        round_trip(n * unit);
        fill(0, n, unit, UINT64_C(0x3c3c3c3c3c3c3c3c));
        CU_ASSERT(round_trip(n * unit) <= 48);
        CU_ASSERT(round_trip(unit) <= unit + 1);
        round_trip_from(1024, n, unit);
    }
    column_count = 0;
    CU_ASSERT(row_forms[LMC_FMT_ROWS_NONE] >= MATRIX_DTYPE_COUNT);
}

/* ---- blocks that break a rule ---- */

/* A byte more, a byte less, and all shorter ones are refused alike. */
static void check_lengths(size_t nbytes, size_t stored_nbytes)
{
    uint8_t *const dst = guarded_end(&content_memory, nbytes);
    uint64_t hash;
    first_stored[stored_nbytes] = 0;
    for (size_t k = 0; k < set_count; k++) {
        const uint8_t *copy = guarded_copy(&stored_memory, first_stored, stored_nbytes + 1);
        CU_ASSERT_EQUAL(decode(sets[k], copy, stored_nbytes + 1, 0, dst, nbytes, &hash), LMC_ERR_CORRUPT);
        for (size_t cut = 0; cut < stored_nbytes;
             cut += stored_nbytes < 300 || cut < 50 ? 1 : 1 + random_below(50)) {
            copy = guarded_copy(&stored_memory, first_stored, cut);
            CU_ASSERT_EQUAL(decode(sets[k], copy, cut, 0, dst, nbytes, &hash), LMC_ERR_CORRUPT);
        }
    }
}

LMC_TEST(test_exact_consumption)
{
    for (unsigned i = 0; i < 300; i++) {
        const lmc_dtype dtype = dtypes[random_below(DTYPE_COUNT)];
        const size_t nbytes = 8 + random_below(i % 10 ? 200 : 5000);
        data_fill(content, nbytes, dtype, (data_kind)random_below(DATA_KIND_COUNT));
        decide(dtype, LMC_LEVEL_DEFAULT, nbytes);
        check_lengths(nbytes, round_trip(nbytes));
    }
}

/* Bits flipped in the modes and anywhere: one status for all sets, and the same content if it is OK. */
static void check_damage(size_t nbytes, size_t stored_nbytes, uint8_t *first_found)
{
    for (unsigned turn = 0; turn < 4; turn++) {
        const size_t at = random_below(turn == 0 ? lmc_min_size(stored_nbytes, 12) : stored_nbytes);
        const uint8_t bit = (uint8_t)(1u << random_below(8));
        lmc_status first = LMC_OK;
        first_stored[at] ^= bit;
        for (size_t k = 0; k < set_count; k++) {
            uint8_t *const found = guarded_end(&content_memory, nbytes);
            uint64_t hash;
            const uint8_t *const copy = guarded_copy(&stored_memory, first_stored, stored_nbytes);
            const lmc_status status = decode(sets[k], copy, stored_nbytes, turn & 1, found, nbytes, &hash);
            if (k == 0) {
                first = status;
                memcpy(first_found, found, nbytes);
            }
            CU_ASSERT_EQUAL(status, first);
            CU_ASSERT(status == LMC_OK || status == LMC_ERR_CORRUPT || status == LMC_ERR_UNSUPPORTED);
            CU_ASSERT(status != LMC_OK || memcmp(found, first_found, nbytes) == 0);
            CU_ASSERT(status != LMC_OK || hash == lmc_kernels_scalar.hash(found, nbytes, 0));
        }
        first_stored[at] ^= bit;
    }
}

LMC_TEST(test_damage)
{
    uint8_t *const first_found = must_malloc(CONTENT_MAX);
    for (unsigned i = 0; i < 2000; i++) {
        const lmc_dtype dtype = dtypes[random_below(DTYPE_COUNT)];
        const size_t nbytes = 8 + random_below(i % 20 ? 400 : 9000);
        data_fill(content, nbytes, dtype, (data_kind)random_below(DATA_KIND_COUNT));
        decide(dtype, (lmc_level)random_below(3), nbytes);
        check_damage(nbytes, round_trip(nbytes), first_found);
    }
    free(first_found);
}

/* Both for blocks with rows. */
LMC_TEST(test_damage_of_matrices)
{
    uint8_t *const first_found = must_malloc(CONTENT_MAX);
    for (unsigned i = 0; i < 150; i++) {
        const lmc_dtype dtype = matrix_dtypes[i % MATRIX_DTYPE_COUNT];
        const unsigned unit = data_element_nbytes(dtype);
        column_count = 32 + (uint32_t)random_below(80);
        const size_t n = fill_matrix(dtype, column_count, 7000);
        decide(dtype, LMC_LEVEL_DEFAULT, n * unit);
        first_element = 1024 * random_below(5);
        const size_t nbytes = (1 + random_below(i % 10 ? 600 : 4000)) * unit + random_below(unit);
        const size_t stored_nbytes = round_trip(nbytes);
        check_lengths(nbytes, stored_nbytes);
        for (unsigned turn = 0; turn < 10; turn++)
            check_damage(nbytes, stored_nbytes, first_found);
    }
    column_count = 0;
    first_element = 0;
    free(first_found);
}

LMC_TEST(test_every_form_is_met)
{
    memset(block_modes, 0, sizeof block_modes);
    memset(plane_modes, 0, sizeof plane_modes);
    each_kind(8 * LMC_STRIP_VALUES + 3, LMC_LEVEL_DEFAULT);
    for (size_t i = 0; i < 3; i++)
        CU_ASSERT(block_modes[i] > 0);
    for (size_t i = 0; i < 4; i++)
        CU_ASSERT(plane_modes[i] > 0);
}

LMC_TEST_MAIN_WITH("block", open_memory(), close_memory())
