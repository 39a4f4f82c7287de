/* test_h5_row_nbytes.c - how long a row of a matrix is: what the filter notes down for a chunk's dimensions, what it
 * refuses to read, which frames are told, and that matrices with rows of every scale come back. */
#include "lmc_test_h5.h"

#include "filter/chunk/chunk_head.h"

#define MAGIC LMC_H5_MAGIC
#define ROWS LMC_H5_LEVEL_ROWS
#define CHUNK_MAX ((size_t)1 << 19)
#define RANK_MAX 5

static uint8_t *chunk;
static lmc_ctx *ctx;

static const lmc_h5_type f32_type = H5_FLOAT(4, 8, 0);
static const lmc_h5_type bf16_type = H5_FLOAT(2, 8, 0);
static const lmc_h5_type f64_be_type = H5_FLOAT(8, 11, 1);
static const lmc_h5_type u8_type = H5_PLAIN_TYPE(H5_CLASS_INTEGER, 1, 0);
static const lmc_h5_pipeline no_pipeline = H5_NO_PIPELINE;

/* Dimensions that end at the first 0. */
typedef struct h5_shape {
    uint64_t dimensions[RANK_MAX];
} h5_shape;

static unsigned rank_of(const h5_shape *shape)
{
    unsigned rank = 0;
    while (rank < RANK_MAX && shape->dimensions[rank] != 0)
        rank++;
    return rank;
}

static uint64_t nbytes_of(const h5_shape *shape, uint64_t type_nbytes)
{
    uint64_t nbytes = type_nbytes;
    for (unsigned i = 0; i < rank_of(shape); i++)
        nbytes *= shape->dimensions[i];
    return nbytes;
}

/* As set_local does it. type_nbytes: of a value of the dataset's type, which may be several numbers. */
static lmc_h5_params complete(unsigned level, unsigned override_nbytes, const lmc_h5_type *type,
                              const lmc_h5_pipeline *pipeline, uint64_t type_nbytes, const h5_shape *shape)
{
    const unsigned user[2] = {level, override_nbytes};
    lmc_h5_params params;
    CU_ASSERT_EQUAL_FATAL(lmc_h5_params_read_user(user, 2, &params), LMC_OK);
    lmc_h5_params_complete(&params, type, pipeline, nbytes_of(shape, type_nbytes));
    lmc_h5_params_set_rows(&params, shape->dimensions[0]);
    lmc_h5_params_set_row_nbytes(&params, type_nbytes, shape->dimensions, rank_of(shape));
    return params;
}

/* ---- what is noted down ---- */

static void check_f32(h5_shape shape, unsigned expected)
{
    const lmc_h5_params params = complete(0, 0, &f32_type, &no_pipeline, 4, &shape);
    if (params.row_nbytes != expected)
        printf("\n%u x %u x %u x %u: rows of %u bytes, not %u\n", (unsigned)shape.dimensions[0],
               (unsigned)shape.dimensions[1], (unsigned)shape.dimensions[2], (unsigned)shape.dimensions[3],
               params.row_nbytes, expected);
    CU_ASSERT_EQUAL(params.row_nbytes, expected);
}

LMC_TEST(test_dimensions)
{
    check_f32((h5_shape){{1 << 20}}, 0);
    check_f32((h5_shape){{64, 4096}}, 4 * 4096);
    check_f32((h5_shape){{2, 32}}, 4 * 32);
    check_f32((h5_shape){{2, 31}}, 0); /* too few elements: what is left is one row */
    check_f32((h5_shape){{1, 4096}}, 0);
    check_f32((h5_shape){{4096, 1}}, 0);
    check_f32((h5_shape){{8, 64, 4096}}, 4 * 4096);
    check_f32((h5_shape){{1, 64, 4096}}, 4 * 4096);
    check_f32((h5_shape){{64, 1, 4096}}, 4 * 4096);
    check_f32((h5_shape){{64, 4096, 1}}, 4 * 4096);
    check_f32((h5_shape){{512, 256, 3, 3}}, 4 * 256 * 9);
    check_f32((h5_shape){{512, 4, 3, 3}}, 4 * 36);
    check_f32((h5_shape){{512, 3, 3, 3}}, 0);
    check_f32((h5_shape){{16, 32, 3, 3, 3}}, 4 * 32 * 27);
    check_f32((h5_shape){{64, 64, 7, 7}}, 4 * 49);
    check_f32((h5_shape){{64, 5, 31}}, 4 * 5 * 31);
    check_f32((h5_shape){{0}}, 0);
}

LMC_TEST(test_long_rows)
{
    const uint64_t gib = UINT64_C(1) << 30;
    const h5_shape large = {{UINT64_C(1) << 40, UINT64_C(1) << 40}};
    lmc_h5_params params;
    check_f32((h5_shape){{3, gib - 1}}, 4 * ((unsigned)gib - 1));
    check_f32((h5_shape){{3, gib}}, 0);
    check_f32((h5_shape){{3, 16 * gib}}, 0);
    check_f32((h5_shape){{3, (UINT64_C(1) << 34) + 64}}, 0);
    CU_ASSERT_EQUAL_FATAL(lmc_h5_params_read_user(NULL, 0, &params), LMC_OK);
    lmc_h5_params_complete(&params, &f32_type, &no_pipeline, 0); /* the product does not fit */
    lmc_h5_params_set_row_nbytes(&params, 4, large.dimensions, 2);
    CU_ASSERT_EQUAL(params.row_nbytes, 0);
}

/* The bytes of a row for elements that come in values of type_nbytes, in chunks of 6 x 320 values; expected: whether
 * there is a row at all. */
static void check_type(unsigned override_nbytes, lmc_h5_type type, lmc_h5_pipeline pipeline,
                       unsigned type_nbytes, int expected)
{
    static const h5_shape shape = {{6, 320}};
    const lmc_h5_params params = complete(0, override_nbytes, &type, &pipeline, type_nbytes, &shape);
    CU_ASSERT_EQUAL(params.row_nbytes, expected ? 320 * type_nbytes : 0);
}

#define TYPE(...) ((lmc_h5_type){__VA_ARGS__})
#define BEFORE(...) ((lmc_h5_pipeline){__VA_ARGS__})

LMC_TEST(test_types)
{
    check_type(0, bf16_type, no_pipeline, 2, 1);
    check_type(0, f64_be_type, no_pipeline, 8, 1);
    check_type(0, u8_type, no_pipeline, 1, 1); /* numbers, as of a quantized tensor */
    check_type(0, TYPE(H5_CLASS_OPAQUE, 2, 0, 0, 1), no_pipeline, 2, 1);
    check_type(0, f32_type, no_pipeline, 12, 1); /* an array, or a compound of equal numbers */
    check_type(0, f32_type, BEFORE(4, 0, 0), 4, 1);
    check_type(0, f32_type, BEFORE(12, 0, 0), 12, 1);
    check_type(0, f64_be_type, BEFORE(16, 0, 0), 16, 1);
    check_type(0, TYPE(H5_CLASS_COMPOUND, 8, 0, 0, 1), no_pipeline, 8, 1);
    check_type(0, TYPE(H5_CLASS_COMPOUND, 12, 0, 0, 1), no_pipeline, 12, 0);
    check_type(0, TYPE(H5_CLASS_COMPOUND, 300, 0, 0, 1), no_pipeline, 300, 0);
    check_type(0, TYPE(H5_CLASS_STRING, 8, 0, 0, 1), no_pipeline, 8, 0);
    check_type(0, TYPE(H5_CLASS_ENUM, 1, 0, 0, 1), no_pipeline, 1, 0);
    check_type(0, TYPE(H5_CLASS_REFERENCE, 8, 0, 0, 0), no_pipeline, 8, 0);
    check_type(0, f32_type, BEFORE(0, 1, 0), 4, 0);
    check_type(0, f32_type, BEFORE(0, 0, 1), 4, 0);
    check_type(0, f32_type, BEFORE(6, 0, 0), 4, 0); /* no whole elements: bytes */
}

/* The user's elements count, if they stand in the row as a whole. */
LMC_TEST(test_override)
{
    static const h5_shape odd = {{6, 321}};
    static const lmc_h5_type records = {H5_CLASS_COMPOUND, 13, 0, 0, 1};
    check_type(2, f32_type, no_pipeline, 4, 1);
    check_type(8, bf16_type, no_pipeline, 2, 1);
    check_type(1, f32_type, no_pipeline, 4, 0);
    check_type(4, records, no_pipeline, 300, 1);
    CU_ASSERT_EQUAL(complete(0, 2, &records, &no_pipeline, 13, &odd).row_nbytes, 0);
    CU_ASSERT_EQUAL(complete(0, 8, &bf16_type, &no_pipeline, 2, &odd).row_nbytes, 0);
}

/* Numbers of an array type count one by one. They make no dimension. */
LMC_TEST(test_few_elements_of_many_numbers)
{
    CU_ASSERT_EQUAL(complete(0, 0, &f32_type, &no_pipeline, 64, &(h5_shape){{90, 2}}).row_nbytes, 128);
    CU_ASSERT_EQUAL(complete(0, 0, &f32_type, &no_pipeline, 60, &(h5_shape){{90, 2}}).row_nbytes, 0);
    CU_ASSERT_EQUAL(complete(0, 0, &f32_type, &no_pipeline, 256, &(h5_shape){{90, 1}}).row_nbytes, 256);
    CU_ASSERT_EQUAL(complete(0, 0, &f32_type, &no_pipeline, 256, &(h5_shape){{90}}).row_nbytes, 0);
}

/* What is written reads the same, is as short as it can be, and may be completed again for another chunk. */
LMC_TEST(test_values_are_stable)
{
    static const h5_shape shapes[] = {{{3000}}, {{1, 3000}}, {{40, 75}}, {{2, 20, 75}}, {{70, 70, 3, 3}}};
    for (size_t c = 0; c < H5_CASE_COUNT; c++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            for (unsigned level = 0; level < ROWS + 3; level += level == 2 ? ROWS - 2 : 1) {
                const h5_case *const form = &h5_cases[c];
                const size_t type_nbytes =
                    form->pipeline.shuffle_nbytes > 1 ? form->pipeline.shuffle_nbytes : form->type.nbytes;
                unsigned values[LMC_H5_VALUE_COUNT_MAX], again[LMC_H5_VALUE_COUNT_MAX];
                lmc_h5_params params =
                    complete(level, 0, &form->type, &form->pipeline, type_nbytes, &shapes[s]);
                lmc_h5_params read;
                const size_t count = lmc_h5_params_write(&params, values);
                CU_ASSERT_EQUAL(count, params.row_nbytes != 0 ? 10 : level >= ROWS ? 9 : 8);
                if (count == 10)
                    CU_ASSERT(values[8] == params.row_count && values[9] == params.row_nbytes);
                CU_ASSERT_EQUAL_FATAL(lmc_h5_params_read(values, count, &read), LMC_OK);
                CU_ASSERT(read.row_nbytes == params.row_nbytes && read.row_count == params.row_count);
                CU_ASSERT_EQUAL_FATAL(lmc_h5_params_read_user(values, count, &params), LMC_OK);
                CU_ASSERT_EQUAL(params.row_nbytes, 0);
                lmc_h5_params_complete(&params, &form->type, &form->pipeline,
                                       nbytes_of(&shapes[s], type_nbytes));
                lmc_h5_params_set_rows(&params, shapes[s].dimensions[0]);
                lmc_h5_params_set_row_nbytes(&params, type_nbytes, shapes[s].dimensions, rank_of(&shapes[s]));
                CU_ASSERT_EQUAL(lmc_h5_params_write(&params, again), count);
                CU_ASSERT_EQUAL(memcmp(values, again, count * sizeof *values), 0);
            }
}

/* ---- what is read ---- */

/* Values of the released version have 8 or 9; longer ones may end in 0. */
LMC_TEST(test_every_count)
{
    unsigned values[11] = {1, 0, 0, MAGIC, 4, 1, 4096, 0, 0, 0, 0};
    lmc_h5_params params;
    for (size_t count = 8; count <= 11; count++) {
        values[0] = 1;
        CU_ASSERT_EQUAL(lmc_h5_params_read(values, count, &params), count > 10 ? LMC_ERR_ARG : LMC_OK);
        CU_ASSERT(params.is_complete == (count <= 10) && params.row_nbytes == 0 && params.row_count == 0);
        values[0] = ROWS + 1;
        CU_ASSERT_EQUAL(lmc_h5_params_read(values, count, &params),
                        count < 9 || count > 10 ? LMC_ERR_ARG : LMC_OK);
    }
    CU_ASSERT_EQUAL(lmc_h5_params_read_user(values, 11, &params), LMC_ERR_ARG);
    CU_ASSERT(strstr(lmc_h5_last_error(), "11 values") != NULL);
    values[9] = 512;
    for (values[8] = 0; values[8] <= 2; values[8] += 2) {
        CU_ASSERT_EQUAL(lmc_h5_params_read(values, 10, &params), LMC_OK);
        CU_ASSERT(params.row_nbytes == 512 && params.row_count == values[8]);
    }
    values[0] = 1; /* rows without their level */
    CU_ASSERT_EQUAL(lmc_h5_params_read(values, 10, &params), LMC_ERR_ARG);
    CU_ASSERT(strstr(lmc_h5_last_error(), "[8]") != NULL && !params.is_complete);
    CU_ASSERT_EQUAL(lmc_h5_params_read_user(values, 10, &params), LMC_OK); /* computed again */
}

static void check_row_nbytes(unsigned element_nbytes, unsigned type, unsigned chunk_nbytes,
                             unsigned row_nbytes, int is_good)
{
    const unsigned values[10] = {2, 0, 0, MAGIC, element_nbytes, type, chunk_nbytes, 0, 0, row_nbytes};
    lmc_h5_params params;
    CU_ASSERT_EQUAL(lmc_h5_params_read(values, 10, &params), is_good ? LMC_OK : LMC_ERR_ARG);
    CU_ASSERT(params.is_complete == is_good && params.row_nbytes == (is_good ? row_nbytes : 0));
    CU_ASSERT(is_good || strstr(lmc_h5_last_error(), "[9]") != NULL);
    CU_ASSERT_EQUAL(params.level, LMC_LEVEL_MAX); /* the user's values stay */
}

LMC_TEST(test_nonsense_in_files)
{
    const unsigned bytes = (LMC_DTYPE_U8 + 1u) << 16;
    for (unsigned row_nbytes = 0; row_nbytes < 200; row_nbytes++) {
        check_row_nbytes(4, 1, 96, row_nbytes,
                         row_nbytes % 4 == 0 && row_nbytes < 96 && (!row_nbytes || 96 % row_nbytes == 0));
        check_row_nbytes(1, 0, 96, row_nbytes, row_nbytes < 96 && (!row_nbytes || 96 % row_nbytes == 0));
        check_row_nbytes(4, 1, 0, row_nbytes, row_nbytes == 0);
        check_row_nbytes(1, bytes, 96, row_nbytes, row_nbytes == 0);
        check_row_nbytes(12, LMC_H5_TYPE_COLUMNS | 6, 96, row_nbytes, row_nbytes == 0);
        check_row_nbytes(4, LMC_H5_TYPE_RESIZED | 1, 96, row_nbytes, row_nbytes == 0);
    }
    check_row_nbytes(4, 1, 0xfffffff0u, 0xfffffff0u, 0);
    check_row_nbytes(4, 1, 0xfffffff0u, 0xfffffff0u / 2, 1);
    check_row_nbytes(4, 1, 96, 0xffffffffu, 0);
    check_row_nbytes(4, 1, 96, 0x80000004u, 0);
}

/* ---- frames ---- */

/* A matrix of floats: each row has a scale of its own, and so has each column. Written as the type and the pipeline of
 * the case leave it in a chunk. */
static void fill_matrix(const h5_case *c, size_t row_count, size_t column_count)
{
    const size_t element = c->type.nbytes, n = row_count * column_count, nbytes = n * element;
    const size_t width = c->pipeline.shuffle_nbytes;
    uint8_t *const plain = must_malloc(nbytes);
    for (size_t i = 0; i < n; i++) {
        const double bell =
            (double)random_below(65536) + (double)random_below(65536) + (double)random_below(65536) - 98302.5;
        const double number = bell / (double)(UINT64_C(1) << 20) /
                              (double)(UINT64_C(1) << i / column_count * 7 % 11) *
                              (double)(UINT64_C(1) << i % column_count * 5 % 7);
        const float single = (float)number;
        uint8_t little[8];
        memcpy(little, element == 8 ? (const void *)&number : (const void *)&single, element == 8 ? 8 : 4);
        for (size_t j = 0; j < element; j++)
            plain[i * element + (c->type.is_big_endian ? element - 1 - j : j)] =
                little[element < 4 ? j + 4 - element : j];
    }
    memcpy(chunk, plain, nbytes);
    for (size_t i = 0; width > 1 && i < nbytes / width; i++)
        for (size_t j = 0; j < width; j++)
            chunk[j * (nbytes / width) + i] = plain[i * width + j];
    free(plain);
}

/* What frame i of a stored chunk says of its rows; and its content. */
static unsigned row_nbytes_in(const h5_stored *stored, unsigned frame, uint64_t *content_nbytes)
{
    lmc_h5_head head = {.frame_count = 1};
    lmc_info info = LMC_INIT(lmc_info);
    size_t offset = 0, nbytes = stored->nbytes;
    if (lmc_h5_head_is_there(stored->bytes, stored->nbytes)) {
        CU_ASSERT_EQUAL_FATAL(lmc_h5_head_read(stored->bytes, stored->nbytes, &head), LMC_OK);
        offset = head.nbytes;
        for (unsigned i = 0; i <= frame; i++) {
            offset += i > 0 ? nbytes : 0;
            nbytes = lmc_h5_head_frame_nbytes(&head, stored->bytes, stored->nbytes, i, offset);
        }
    }
    CU_ASSERT_FATAL(frame < head.frame_count);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(stored->bytes + offset, nbytes, &info, NULL), LMC_OK);
    CU_ASSERT_NOT_EQUAL(info.mode, LMC_FRAME_SHORT);
    *content_nbytes = info.content_nbytes;
    return info.row_nbytes;
}

static h5_stored encode(const lmc_h5_params *params, size_t nbytes)
{
    unsigned values[LMC_H5_VALUE_COUNT_MAX];
    const size_t count = lmc_h5_params_write(params, values);
    h5_stored stored = h5_encode(ctx, values, count, chunk, nbytes);
    h5_check(ctx, &stored, chunk, nbytes);
    return stored;
}

static int is_matrix_of_floats(const h5_case *c)
{
    return c->type.class_number == H5_CLASS_FLOAT && c->type.nbytes > 1 && !c->pipeline.is_opaque &&
           !c->pipeline.is_extended;
}

/* Every form whose frame holds elements in order tells it the length of a row. */
LMC_TEST(test_frames_of_elements)
{
    static const h5_shape shape = {{48, 192}};
    for (size_t c = 0; c < H5_CASE_COUNT; c++) {
        const h5_case *const form = &h5_cases[c];
        uint64_t content_nbytes;
        if (!is_matrix_of_floats(form))
            continue;
        const size_t element = form->type.nbytes, nbytes = 48 * 192 * element;
        const size_t span = form->pipeline.shuffle_nbytes > 1 ? form->pipeline.shuffle_nbytes / element : 1;
        const h5_shape records = {{48, 192 / span}};
        fill_matrix(form, 48, 192);
        lmc_h5_params params =
            complete(0, 0, &form->type, &form->pipeline, span * element, span > 1 ? &records : &shape);
        CU_ASSERT_EQUAL(params.row_nbytes, 192 * element);
        h5_stored stored = encode(&params, nbytes);
        CU_ASSERT_EQUAL(row_nbytes_in(&stored, 0, &content_nbytes), 192 * element);
        CU_ASSERT(content_nbytes == nbytes && stored.nbytes < nbytes);
        free(stored.bytes);
        params.row_nbytes = 0; /* the values of the released version */
        stored = encode(&params, nbytes);
        CU_ASSERT_EQUAL(row_nbytes_in(&stored, 0, &content_nbytes), 0);
        free(stored.bytes);
    }
}

/* A chunk that does not shrink is stored as it came, big-endian or shuffled: its bytes are in no rows of elements. */
LMC_TEST(test_frames_of_bytes)
{
    static const h5_case noise[] = {{"big-endian", H5_FLOAT(4, 8, 1), H5_NO_PIPELINE},
                                    {"shuffled", H5_FLOAT(4, 8, 0), H5_SHUFFLED(4)}};
    static const h5_case records = {"records of 12", H5_PLAIN_TYPE(H5_CLASS_COMPOUND, 12, 0), H5_NO_PIPELINE};
    static const h5_case text = {"text", H5_PLAIN_TYPE(H5_CLASS_STRING, 20, 0), H5_NO_PIPELINE};
    static const h5_shape shape = {{64, 64}};
    uint64_t content_nbytes;
    random_fill(chunk, 64 * 64 * 4);
    for (size_t i = 0; i < 2; i++) {
        const lmc_h5_params params = complete(0, 0, &noise[i].type, &noise[i].pipeline, 4, &shape);
        CU_ASSERT_EQUAL(params.row_nbytes, 256);
        h5_stored stored = encode(&params, 64 * 64 * 4);
        CU_ASSERT_EQUAL(row_nbytes_in(&stored, 0, &content_nbytes), 0);
        CU_ASSERT_EQUAL(stored.bytes[3], 'C');
        free(stored.bytes);
    }
    for (size_t i = 0; i < 2; i++) {
        const h5_case *const form = i == 0 ? &records : &text;
        h5_case_fill(form, chunk, 64 * 64 * form->type.nbytes);
        const lmc_h5_params params = complete(0, 0, &form->type, &form->pipeline, form->type.nbytes, &shape);
        h5_stored stored = encode(&params, 64 * 64 * form->type.nbytes);
        CU_ASSERT_EQUAL(row_nbytes_in(&stored, 0, &content_nbytes), 0);
        free(stored.bytes);
    }
}

/* With level + 16: each row of the first axis is a frame, a matrix by itself or one row of it. */
LMC_TEST(test_frames_of_rows)
{
    static const h5_case f32 = {"", H5_FLOAT(4, 8, 0), H5_NO_PIPELINE};
    static const h5_shape shapes[] = {{{8, 32, 128}}, {{8, 4096}}, {{8, 64, 64}}, {{8, 128, 8, 4}}};
    static const unsigned wanted[] = {512, 0, 256, 128};
    const size_t row_nbytes = 4 * 4096, nbytes = 8 * row_nbytes;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        uint64_t content_nbytes;
        fill_matrix(&f32, 32, 128);
        for (size_t r = 1; r < 8; r++) {
            uint8_t *const row = chunk + r * row_nbytes;
            memcpy(row, row - row_nbytes, row_nbytes);
            for (size_t j = random_below(50) * 4; j < row_nbytes; j += 4 * (1 + random_below(100)))
                row[j]++;
        }
        const lmc_h5_params params = complete(ROWS, 0, &f32_type, &no_pipeline, 4, &shapes[i]);
        h5_stored stored = encode(&params, nbytes);
        CU_ASSERT_EQUAL_FATAL(memcmp(stored.bytes, "\x8cLMH\x01\x03", 6), 0);
        for (unsigned frame = 0; frame < 8; frame++) {
            CU_ASSERT_EQUAL(row_nbytes_in(&stored, frame, &content_nbytes), wanted[i]);
            CU_ASSERT_EQUAL(content_nbytes, row_nbytes);
        }
        free(stored.bytes);
    }
}

/* ---- round trips ---- */

/* Every form of elements, many shapes: whole chunks, and chunks at the edge of a dataset that fill values end. */
LMC_TEST(test_matrices_come_back)
{
    static const unsigned sizes[][2] = {{2, 32},   {3, 33},    {100, 40}, {64, 512},
                                        {9, 1000}, {1000, 32}, {5, 4099}};
    for (size_t c = 0; c < H5_CASE_COUNT; c++) {
        const h5_case *const form = &h5_cases[c];
        if (!is_matrix_of_floats(form))
            continue;
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (unsigned level = 0; level < ROWS + 3; level += level == 2 ? ROWS - 2 : 1) {
                const size_t element = form->type.nbytes, width = form->pipeline.shuffle_nbytes;
                const unsigned span = width > element ? (unsigned)(width / element) : 1;
                const size_t rows = sizes[s][0], columns = sizes[s][1] * span, row_nbytes = columns * element;
                const h5_shape shape = {{rows, sizes[s][1]}};
                const size_t nbytes = rows * row_nbytes;
                if (nbytes > CHUNK_MAX)
                    continue;
                fill_matrix(form, rows, columns);
                const lmc_h5_params params =
                    complete(level, 0, &form->type, &form->pipeline, span * element, &shape);
                CU_ASSERT_EQUAL(params.row_nbytes, row_nbytes);
                free(encode(&params, nbytes).bytes);
                if (width <= 1)
                    memset(chunk + rows / 2 * row_nbytes, 0, nbytes - rows / 2 * row_nbytes);
                for (size_t r = 0; width <= 1 && r < rows; r++)
                    memset(chunk + (r + 1) * row_nbytes - row_nbytes / 3, 0, row_nbytes / 3);
                free(encode(&params, nbytes).bytes);
            }
    }
}

LMC_TEST_MAIN_WITH("h5_row_nbytes", (chunk = must_malloc(CHUNK_MAX), ctx = must_create_ctx()),
                   (lmc_ctx_free(ctx), free(chunk)))
