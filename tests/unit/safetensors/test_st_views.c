/*
 * test_st_views.c - tensors that are not the bytes of their storage as they lie there: by columns, big-endian, parts,
 * several on one storage. What is read of them is compared with elements that are picked one by one.
 */
#include "lmc_st_experimental.h"
#include "lmc_test_st.h"
#include "lmc_test_zip.h"

/* An array of big-endian numbers that is stored by columns, in several of the pieces that are read at once. */
#define DIM_0 101u
#define DIM_1 97u
#define DIM_2 103u
#define COUNT (DIM_0 * DIM_1 * DIM_2)

static const char npy_header[] =
    "{'descr': '>i2', 'fortran_order': True, 'shape': (101, 97, 103), }                                   \n";

static unsigned char array[2 * COUNT]; /* as it is to be read */

/* A storage of numbers, and tensors on it. */
#define STORAGE_COUNT 600u

typedef struct expected_view {
    const char *name;
    size_t rank;
    uint64_t shape[3], strides[3], offset;
} expected_view;

static const expected_view views[] = {
    {"whole", 2, {20, 30}, {30, 1}, 0},    {"row", 1, {30}, {1}, 60},
    {"column", 1, {20}, {30}, 7},          {"transposed", 2, {30, 20}, {1, 30}, 0},
    {"repeated", 2, {5, 30}, {0, 1}, 30},  {"overlapping", 2, {11, 9}, {3, 2}, 5},
    {"box", 3, {3, 4, 2}, {90, 2, 30}, 1}, {"number", 0, {0}, {0}, 599},
    {"none", 2, {0, 4}, {1, 1}, 9},        {"huge", 2, {1000000, 1000000}, {0, 0}, 0},
};
#define VIEW_COUNT (sizeof views / sizeof views[0])
#define HUGE_AT (VIEW_COUNT - 1)

static unsigned char storage[4 * STORAGE_COUNT];

/* ---- files ---- */

static void make_npy(void)
{
    enum { HEAD_NBYTES = 10 + sizeof npy_header - 1 };
    static unsigned char file[HEAD_NBYTES + 2 * COUNT];
    unsigned char *const stored = file + HEAD_NBYTES;
    for (size_t i = 0; i < COUNT; i++) {
        const size_t place = i / DIM_2 / DIM_1 + i / DIM_2 % DIM_1 * DIM_0 + i % DIM_2 * DIM_0 * DIM_1;
        const unsigned value = (unsigned)(i * 2654435761u >> 12) & 0x3fff;
        array[2 * i] = stored[2 * place + 1] = (unsigned char)value;
        array[2 * i + 1] = stored[2 * place] = (unsigned char)(value >> 8);
    }
    memcpy(file, "\x93NUMPY\1\0", 8);
    file[8] = sizeof npy_header - 1;
    memcpy(file + 10, npy_header, sizeof npy_header - 1);
    lmc_test_write(lmc_test_path("array.npy"), file, sizeof file);
}

static void put_text(lmc_test_bytes *pickle, const char *text)
{
    lmc_test_put_text(pickle, "X");
    lmc_test_put_number(pickle, strlen(text), 4);
    lmc_test_put_text(pickle, text);
}

static void put_int(lmc_test_bytes *pickle, uint64_t value)
{
    lmc_test_put_text(pickle, "J");
    lmc_test_put_number(pickle, value, 4);
}

static void put_tuple(lmc_test_bytes *pickle, const uint64_t *numbers, size_t count)
{
    lmc_test_put_text(pickle, "(");
    for (size_t i = 0; i < count; i++)
        put_int(pickle, numbers[i]);
    lmc_test_put_text(pickle, "t");
}

/* {name: tensor, ...} */
static void make_torch(void)
{
    static lmc_test_bytes pickle, file;
    lmc_test_zip zip;
    lmc_test_weights(storage, sizeof storage, 3);
    lmc_test_put_text(&pickle, "\x80\2}(");
    for (size_t i = 0; i < VIEW_COUNT; i++) {
        put_text(&pickle, views[i].name);
        lmc_test_put_text(&pickle, "ctorch._utils\n_rebuild_tensor_v2\n((");
        put_text(&pickle, "storage");
        lmc_test_put_text(&pickle, "ctorch\nFloatStorage\n");
        put_text(&pickle, "0");
        put_text(&pickle, "cpu");
        put_int(&pickle, STORAGE_COUNT);
        lmc_test_put_text(&pickle, "tQ");
        put_int(&pickle, views[i].offset);
        put_tuple(&pickle, views[i].shape, views[i].rank);
        put_tuple(&pickle, views[i].strides, views[i].rank);
        lmc_test_put_text(&pickle, "\x89NtR");
    }
    lmc_test_put_text(&pickle, "u.");
    lmc_test_zip_begin(&zip, &file);
    lmc_test_zip_add(&zip, "m/data.pkl", pickle.at, pickle.nbytes);
    lmc_test_zip_add(&zip, "m/data/0", storage, sizeof storage);
    lmc_test_zip_end(&zip);
    lmc_test_write(lmc_test_path("views.pt"), file.at, file.nbytes);
}

LMC_TEST(make_files)
{
    static const char *const names[][2] = {{"array.npy", "array.npy.lmc"}, {"views.pt", "views.pt.lmc"}};
    make_npy();
    make_torch();
    for (size_t i = 0; i < 2; i++)
        CU_ASSERT_EQUAL(
            lmc_st_convert(lmc_test_path(names[i][0]), lmc_test_path(names[i][1]), NULL, NULL, NULL), LMC_OK);
}

static lmc_st_file *open_test_file(const char *name)
{
    lmc_st_file *file = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path(name), NULL, &file, NULL), LMC_OK);
    return file;
}

static unsigned next_random(unsigned *state)
{
    return *state = *state * 1103515245u + 12345u;
}

/* ---- tests ---- */

/* Parts anywhere, which may begin and end within an element. */
static void check_parts(const lmc_st_file *file, uint64_t index, const unsigned char *content, size_t nbytes)
{
    static unsigned char got[2 * COUNT];
    lmc_st_reader *reader = NULL;
    unsigned state = 1;
    CU_ASSERT_EQUAL(lmc_st_read(file, NULL, index, got, nbytes, NULL), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(got, content, nbytes), 0);
    CU_ASSERT_EQUAL_FATAL(lmc_st_reader_create(file, index, &reader, NULL), LMC_OK);
    for (unsigned i = 0; i < 24 && nbytes > 0; i++) {
        const size_t first = next_random(&state) % nbytes;
        const size_t most = i % 3 == 0 ? 9 : i % 3 == 1 ? 5000 : nbytes;
        const size_t wanted = 1 + next_random(&state) / 7 % (most < nbytes - first ? most : nbytes - first);
        CU_ASSERT_EQUAL(lmc_st_read_range(file, NULL, index, first, wanted, got, NULL), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(got, content + first, wanted), 0);
        CU_ASSERT_EQUAL(lmc_st_reader_read(reader, first, wanted, got, NULL), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(got, content + first, wanted), 0);
    }
    /* in order, with leaps: what was gathered ahead is used and left */
    for (size_t at = 0, i = 0; at < nbytes; i++) {
        const size_t wanted = nbytes - at < 30001 ? nbytes - at : 30001;
        CU_ASSERT_EQUAL(lmc_st_reader_read(reader, at, wanted, got, NULL), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(got, content + at, wanted), 0);
        at += i % 16 == 15 ? 90000 : wanted;
    }
    CU_ASSERT_EQUAL(lmc_st_reader_read(reader, nbytes, 1, got, NULL), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_read_range(file, NULL, index, nbytes, 1, got, NULL), LMC_ERR_ARG);
    lmc_st_reader_free(reader);
}

LMC_TEST(test_columns)
{
    static const char *const names[] = {"array.npy", "array.npy.lmc"};
    for (size_t i = 0; i < 2; i++) {
        lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
        lmc_st_file *const file = open_test_file(names[i]);
        CU_ASSERT_EQUAL(lmc_st_tensor_count(file), 1);
        CU_ASSERT_EQUAL(lmc_st_tensor_info(file, 0, &tensor), LMC_OK);
        CU_ASSERT(tensor.is_view && tensor.is_big_endian && tensor.rank == 3 &&
                  tensor.dtype == LMC_DTYPE_I16);
        CU_ASSERT(tensor.strides[0] == 1 && tensor.strides[1] == DIM_0 && tensor.strides[2] == DIM_0 * DIM_1);
        CU_ASSERT(tensor.view_of == 0 && tensor.offset == 0 && !tensor.note);
        CU_ASSERT(tensor.nbytes == sizeof array && tensor.storage_nbytes == sizeof array);
        check_parts(file, 0, array, sizeof array);
        lmc_st_close(file);
    }
}

/* The content of a view, element by element. Returns its size. */
static size_t pick(const expected_view *view, unsigned char *dst)
{
    size_t count = 1;
    for (size_t i = 0; i < view->rank; i++)
        count *= view->shape[i];
    for (size_t i = 0; i < count; i++) {
        uint64_t place = view->offset;
        size_t rest = i;
        for (size_t dim = view->rank; dim > 0; dim--) {
            place += rest % view->shape[dim - 1] * view->strides[dim - 1];
            rest /= view->shape[dim - 1];
        }
        memcpy(dst + 4 * i, storage + 4 * place, 4);
    }
    return 4 * count;
}

LMC_TEST(test_several_on_one_storage)
{
    static const char *const names[] = {"views.pt", "views.pt.lmc"};
    static unsigned char content[4 * STORAGE_COUNT];
    for (size_t i = 0; i < 2; i++) {
        lmc_st_file *const file = open_test_file(names[i]);
        CU_ASSERT_EQUAL_FATAL(lmc_st_tensor_count(file), VIEW_COUNT);
        for (size_t j = 0; j < HUGE_AT; j++) {
            lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
            uint64_t index = VIEW_COUNT;
            CU_ASSERT_TRUE(lmc_st_find_tensor_sized(file, views[j].name, strlen(views[j].name), &index));
            CU_ASSERT_EQUAL(index, j);
            CU_ASSERT_EQUAL(lmc_st_tensor_info(file, j, &tensor), LMC_OK);
            CU_ASSERT_STRING_EQUAL(tensor.name, views[j].name);
            /* the first is all of the storage */
            CU_ASSERT(tensor.is_view == (j > 0) && !tensor.is_big_endian && tensor.view_of == 0 &&
                      !tensor.note);
            CU_ASSERT(tensor.offset == views[j].offset && tensor.rank == views[j].rank);
            CU_ASSERT((tensor.stored_nbytes > 0) == (j == 0) && tensor.storage_nbytes == sizeof storage);
            for (size_t dim = 0; dim < tensor.rank; dim++)
                CU_ASSERT(tensor.shape[dim] == views[j].shape[dim] &&
                          (j == 0 ? !tensor.strides : tensor.strides[dim] == views[j].strides[dim]));
            CU_ASSERT_EQUAL(tensor.nbytes, pick(&views[j], content));
            check_parts(file, j, content, (size_t)tensor.nbytes);
        }
        lmc_st_close(file);
    }
}

/* A tensor of 4 TB on a storage of a few bytes: only what is asked for takes memory. */
LMC_TEST(test_more_than_is_stored)
{
    static const char *const names[] = {"views.pt", "views.pt.lmc"};
    for (size_t i = 0; i < 2; i++) {
        lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        unsigned char got[4000];
        lmc_st_file *const file = open_test_file(names[i]);
        CU_ASSERT_EQUAL(lmc_st_tensor_info(file, HUGE_AT, &tensor), LMC_OK);
        CU_ASSERT_EQUAL(tensor.nbytes, UINT64_C(4000000000000));
        CU_ASSERT_EQUAL(lmc_st_read(file, NULL, HUGE_AT, got, sizeof got, &diag), LMC_ERR_DST_SMALL);
        CU_ASSERT_STRING_EQUAL(diag.tensor, "huge");
        for (unsigned last = 0; last < 2; last++) {
            const uint64_t first = last ? tensor.nbytes - sizeof got : 3;
            CU_ASSERT_EQUAL(lmc_st_read_range(file, NULL, HUGE_AT, first, sizeof got, got, NULL), LMC_OK);
            for (size_t j = 0; j < sizeof got; j++)
                CU_ASSERT_EQUAL_FATAL(got[j], storage[(first + j) % 4]);
        }
        lmc_st_close(file);
    }
}

LMC_TEST(test_read_many)
{
    static const char *const names[] = {"views.pt", "views.pt.lmc"};
    static unsigned char got[VIEW_COUNT + 1][4 * STORAGE_COUNT], content[4 * STORAGE_COUNT];
    uint64_t indices[VIEW_COUNT];
    void *dsts[VIEW_COUNT];
    for (size_t i = 0; i < 2; i++) {
        lmc_st_file *const file = open_test_file(names[i]);
        for (unsigned threads = 1; threads <= 3; threads++) {
            lmc_st_options options = LMC_INIT(lmc_st_options);
            options.common.thread_count = threads;
            for (size_t j = 0; j < VIEW_COUNT; j++) {
                indices[j] = (VIEW_COUNT - 1 - j) % HUGE_AT; /* the whole comes twice, and last */
                dsts[j] = got[j];
            }
            memset(got, 0, sizeof got);
            CU_ASSERT_EQUAL(lmc_st_read_many(file, indices, dsts, VIEW_COUNT, &options, NULL), LMC_OK);
            for (size_t j = 0; j < VIEW_COUNT; j++) {
                const size_t nbytes = pick(&views[indices[j]], content);
                CU_ASSERT_EQUAL(memcmp(got[j], content, nbytes), 0);
            }
        }
        lmc_st_close(file);
    }
}

/* What belongs to frames is that of the storage. */
LMC_TEST(test_places)
{
    lmc_st_mode mode;
    uint64_t offset[2], nbytes[2], begin = 0, end = 0, hash = 0;
    size_t block_nbytes = 0;
    lmc_st_file *const file = open_test_file("views.pt.lmc");
    for (uint64_t i = 0; i < VIEW_COUNT; i++) {
        CU_ASSERT_EQUAL(lmc_st_tensor_place(file, i, &offset[i > 0], &nbytes[i > 0]), LMC_OK);
        CU_ASSERT(offset[i > 0] == offset[0] && nbytes[i > 0] == nbytes[0]);
        CU_ASSERT_EQUAL(lmc_st_tensor_mode(file, i, &mode, NULL), LMC_OK);
        CU_ASSERT_EQUAL(lmc_st_content_hash(file, i, &hash, &block_nbytes, NULL),
                        i == 0 ? LMC_OK : LMC_ERR_ARG);
        CU_ASSERT(i == 0 || lmc_st_row_nbytes(file, i) == 0);
    }
    lmc_st_close(file);
    lmc_st_file *const plain = open_test_file("views.pt");
    CU_ASSERT_EQUAL(lmc_st_range_place(plain, 2, 0, 4, 8, &offset[0], &nbytes[0], &begin, &end, NULL),
                    LMC_OK);
    CU_ASSERT(begin == 4 * 37 && end == 4 * 68 && nbytes[0] == end - begin);
    CU_ASSERT_EQUAL(lmc_st_range_place(plain, 1, 0, 3, 2, &offset[0], &nbytes[0], &begin, &end, NULL),
                    LMC_OK);
    CU_ASSERT(begin == 4 * 60 && end == 4 * 62);
    lmc_st_close(plain);
}

/* A storage as it stands in the original file, whatever its tensors are. */
LMC_TEST(test_storages)
{
    static const char *const names[] = {"array.npy", "array.npy.lmc", "views.pt", "views.pt.lmc"};
    static unsigned char got[2 * COUNT], original[2 * COUNT];
    for (size_t i = 0; i < 4; i++) {
        uint64_t offset = 0, nbytes = 0, unknown = 7;
        lmc_st_reader *reader = NULL;
        lmc_st_file *const file = open_test_file(names[i]);
        const uint64_t last = lmc_st_tensor_count(file) - 1;
        CU_ASSERT_EQUAL(lmc_st_tensor_origin(file, last, &offset, &nbytes), LMC_OK);
        CU_ASSERT_EQUAL(nbytes, i < 2 ? sizeof array : sizeof storage);
        FILE *const plain = fopen(lmc_test_path(names[i / 2 * 2]), "rb");
        CU_ASSERT_PTR_NOT_NULL_FATAL(plain);
        CU_ASSERT_EQUAL(fseek(plain, (long)offset, SEEK_SET), 0);
        CU_ASSERT_EQUAL(fread(original, 1, (size_t)nbytes, plain), nbytes);
        fclose(plain);
        CU_ASSERT_EQUAL_FATAL(lmc_st_reader_create_storage(file, last, &reader, NULL), LMC_OK);
        CU_ASSERT_EQUAL(lmc_st_reader_read(reader, 0, (size_t)nbytes, got, NULL), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(got, original, (size_t)nbytes), 0);
        CU_ASSERT_EQUAL(lmc_st_reader_read(reader, nbytes - 3, 3, got, NULL), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(got, original + nbytes - 3, 3), 0);
        CU_ASSERT_EQUAL(lmc_st_reader_read(reader, nbytes - 3, 4, got, NULL), LMC_ERR_ARG);
        lmc_st_reader_free(reader);
        CU_ASSERT_EQUAL(lmc_st_reader_create_storage(file, last + 1, &reader, NULL), LMC_ERR_ARG);
        CU_ASSERT_EQUAL(lmc_st_tensor_origin(file, last + 1, &unknown, &nbytes), LMC_ERR_ARG);
        CU_ASSERT(unknown == 0 && nbytes == 0);
        lmc_st_close(file);
    }
}

LMC_TEST(test_damaged)
{
    unsigned char got[4];
    uint64_t place = 0, nbytes = 0;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    lmc_st_file *const file = open_test_file("views.pt.lmc");
    CU_ASSERT_EQUAL(lmc_st_tensor_place(file, 1, &place, &nbytes), LMC_OK);
    lmc_test_flip(lmc_test_path("views.pt.lmc"), (size_t)(place + nbytes / 2), 1);
    for (uint64_t i = 1; i < VIEW_COUNT - 2; i++) {
        CU_ASSERT_NOT_EQUAL(lmc_st_read_range(file, NULL, i, 0, sizeof got, got, &diag), LMC_OK);
        CU_ASSERT_STRING_EQUAL(diag.tensor, "whole");
    }
    lmc_st_close(file);
}

LMC_TEST(test_salvage)
{
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    lmc_test_settings options = lmc_test_options(1);
    options.salvage = 1;
    CU_ASSERT_EQUAL(
        lmc_test_restore_as(lmc_test_path("array.npy.lmc"), lmc_test_path("saved"), &options, NULL, NULL),
        LMC_OK);
    lmc_st_file *const file = open_test_file("saved");
    CU_ASSERT_EQUAL(lmc_st_tensor_info(file, 0, &tensor), LMC_OK);
    CU_ASSERT(tensor.dtype == LMC_DTYPE_U8 && tensor.rank == 1 && tensor.nbytes == sizeof array);
    lmc_st_close(file);
}

LMC_TEST(test_end)
{
    static const char *const names[] = {"array.npy", "array.npy.lmc", "views.pt", "views.pt.lmc", "saved"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(lmc_test_path(names[i]));
}

LMC_TEST_DIR_MAIN("st_views")
