/*
 * test_st_gguf.c - what is found in GGUF files, honest and hostile, and in files that are cut into pieces.
 */
#include "lmc_test.h"

#include "st_contents.h"

#include "safetensors/container/segments.h"

#define FILE_NBYTES 8192

/* ggml's numbers */
enum { TYPE_F32 = 0, TYPE_Q4_0 = 2, TYPE_Q8_0 = 8, TYPE_F64 = 28, TYPE_BF16 = 30, TYPE_GONE = 31 };
enum { VALUE_U8 = 0, VALUE_U32 = 4, VALUE_F64 = 12, VALUE_STRING = 8, VALUE_ARRAY = 9 };

typedef struct gguf_file {
    unsigned char bytes[FILE_NBYTES];
    size_t nbytes;
} gguf_file;

static void put(gguf_file *file, const void *bytes, size_t nbytes)
{
    CU_ASSERT_FATAL(nbytes <= sizeof file->bytes - file->nbytes);
    memcpy(file->bytes + file->nbytes, bytes, nbytes);
    file->nbytes += nbytes;
}

static void put_u32(gguf_file *file, uint32_t number)
{
    put(file, &number, sizeof number);
}

static void put_u64(gguf_file *file, uint64_t number)
{
    put(file, &number, sizeof number);
}

static void put_string(gguf_file *file, const char *text)
{
    put_u64(file, strlen(text));
    put(file, text, strlen(text));
}

static void begin(gguf_file *file, uint32_t version, uint64_t tensor_count, uint64_t value_count)
{
    memset(file, 0, sizeof *file);
    put(file, "GGUF", 4);
    put_u32(file, version);
    put_u64(file, tensor_count);
    put_u64(file, value_count);
}

static void put_tensor(gguf_file *file, const char *name, uint64_t d0, uint64_t d1, uint32_t type,
                       uint64_t offset)
{
    put_string(file, name);
    put_u32(file, 2);
    put_u64(file, d0);
    put_u64(file, d1);
    put_u32(file, type);
    put_u64(file, offset);
}

/* Pads, and goes on with so many bytes of data; returns where they begin. */
static size_t put_data(gguf_file *file, size_t alignment, size_t nbytes)
{
    file->nbytes = (file->nbytes + alignment - 1) / alignment * alignment;
    const size_t at = file->nbytes;
    CU_ASSERT_FATAL(nbytes <= sizeof file->bytes - at);
    file->nbytes += nbytes;
    return at;
}

static lmc_status read_file(contents_case *test, const gguf_file *file)
{
    return contents_begin(test, file->bytes, file->nbytes, 0);
}

/* Reads a file for its status only. */
static lmc_status status_of(const gguf_file *file)
{
    contents_case test;
    const lmc_status status = read_file(&test, file);
    CU_ASSERT(status != LMC_OK || test.contents.kind == LMC_ST_CONTAINER_GGUF);
    contents_end(&test);
    return status;
}

static void put_metadata(gguf_file *file)
{
    put_string(file, "general.name");
    put_u32(file, VALUE_STRING);
    put_string(file, "a model");
    put_string(file, "general.alignment");
    put_u32(file, VALUE_U32);
    put_u32(file, 64);
    put_string(file, "tokens");
    put_u32(file, VALUE_ARRAY);
    put_u32(file, VALUE_STRING);
    put_u64(file, 3);
    put_string(file, "a");
    put_string(file, "");
    put_string(file, "ccc");
    put_string(file, "nested");
    put_u32(file, VALUE_ARRAY);
    put_u32(file, VALUE_ARRAY);
    put_u64(file, 2);
    for (uint32_t i = 0; i < 2; i++) {
        put_u32(file, i == 0 ? VALUE_F64 : VALUE_U8);
        put_u64(file, i);
        put(file, "x", i);
    }
}

static void make_good(gguf_file *file, uint32_t version)
{
    begin(file, version, 5, 4);
    put_metadata(file);
    put_tensor(file, "w", 4, 3, TYPE_F32, 0);
    put_tensor(file, "q", 32, 4, TYPE_Q8_0, 64);
    put_tensor(file, "gone", 4, 4, TYPE_GONE, 256);
    put_string(file, "s"); /* a scalar */
    put_u32(file, 0);
    put_u32(file, TYPE_F64);
    put_u64(file, 320);
    put_tensor(file, "w", 2, 2, TYPE_BF16, 384);
}

LMC_TEST(test_good)
{
    for (uint32_t version = 2; version <= 3; version++) {
        gguf_file file;
        contents_case test;
        make_good(&file, version);
        const size_t data = put_data(&file, 64, 392);
        CU_ASSERT_EQUAL_FATAL(read_file(&test, &file), LMC_OK);
        CU_ASSERT_EQUAL(test.contents.kind, LMC_ST_CONTAINER_GGUF);
        CU_ASSERT_EQUAL(test.contents.header.tensor_count, 5);
        contents_claim(&test, 0, data, "w", "F32", "3,4");
        contents_claim(&test, 1, data + 64, "q", "U8", "136");
        contents_claim(&test, 2, data + 256, "gone", "U8", "64");
        contents_claim(&test, 3, data + 320, "s", "F64", "");
        contents_claim(&test, 4, data + 384, "w#2", "BF16", "2,2");
        contents_end(&test);
    }
}

LMC_TEST(test_cut)
{
    gguf_file file;
    make_good(&file, 3);
    put_data(&file, 64, 392);
    while (--file.nbytes >= 4)
        CU_ASSERT_EQUAL(status_of(&file), LMC_ERR_TRUNCATED);
}

/* Whatever byte is replaced: contents that hold, or a clear refusal. */
LMC_TEST(test_mutated)
{
    static const unsigned char values[] = {0, 1, 2, 9, 0x20, 0x7f, 0x80, 0xff};
    gguf_file file;
    make_good(&file, 3);
    const size_t data = put_data(&file, 64, 392);
    for (size_t at = 4; at < data; at++) {
        const unsigned char kept = file.bytes[at];
        for (size_t i = 0; i < sizeof values; i++) {
            file.bytes[at] = values[i];
            const lmc_status status = status_of(&file);
            CU_ASSERT(status == LMC_OK || status == LMC_ERR_TRUNCATED || status == LMC_ERR_HEADER ||
                      status == LMC_ERR_UNSUPPORTED || status == LMC_ERR_LIMIT);
        }
        file.bytes[at] = kept;
    }
}

LMC_TEST(test_versions)
{
    static const struct {
        uint32_t version;
        lmc_status status;
    } cases[] = {{0, LMC_ERR_UNSUPPORTED},
                 {1, LMC_ERR_UNSUPPORTED},
                 {2, LMC_OK},
                 {3, LMC_OK},
                 {4, LMC_ERR_UNSUPPORTED},
                 {0x03000000, LMC_ERR_UNSUPPORTED},
                 {0x02000000, LMC_ERR_UNSUPPORTED},
                 {0xffffffff, LMC_ERR_UNSUPPORTED}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gguf_file file;
        begin(&file, cases[i].version, 0, 0);
        CU_ASSERT_EQUAL(status_of(&file), cases[i].status);
    }
}

LMC_TEST(test_counts)
{
    const uint64_t counts[] = {1, 1000, (uint64_t)1 << 32, (uint64_t)1 << 60, UINT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        gguf_file file;
        begin(&file, 3, counts[i], 0);
        CU_ASSERT_EQUAL(status_of(&file), counts[i] <= 1000 ? LMC_ERR_TRUNCATED : LMC_ERR_LIMIT);
        begin(&file, 3, 0, counts[i]);
        CU_ASSERT_EQUAL(status_of(&file), LMC_ERR_TRUNCATED);
        for (uint32_t type = 0; type <= VALUE_F64; type++) { /* in an array of each type */
            begin(&file, 3, 0, 1);
            put_string(&file, "key");
            put_u32(&file, VALUE_ARRAY);
            put_u32(&file, type);
            put_u64(&file, counts[i]);
            CU_ASSERT_EQUAL(status_of(&file), LMC_ERR_TRUNCATED);
        }
        begin(&file, 3, 0, 1);
        put_u64(&file, counts[i]); /* the size of a key */
        CU_ASSERT_EQUAL(status_of(&file), LMC_ERR_TRUNCATED);
        begin(&file, 3, 1, 0);
        put_u64(&file, counts[i]); /* the size of a name */
        CU_ASSERT_EQUAL(status_of(&file), counts[i] <= 1000 ? LMC_ERR_TRUNCATED : LMC_ERR_LIMIT);
    }
}

LMC_TEST(test_deep_arrays)
{
    for (int depth = 1; depth < 100; depth++) {
        gguf_file file;
        begin(&file, 3, 0, 1);
        put_string(&file, "key");
        put_u32(&file, VALUE_ARRAY);
        for (int i = 1; i < depth; i++) {
            put_u32(&file, VALUE_ARRAY);
            put_u64(&file, 1);
        }
        put_u32(&file, VALUE_U8);
        put_u64(&file, 0);
        CU_ASSERT_EQUAL(status_of(&file), depth <= 8 ? LMC_OK : LMC_ERR_HEADER);
    }
}

LMC_TEST(test_alignment)
{
    static const struct {
        uint32_t type, alignment;
        lmc_status status;
    } cases[] = {{VALUE_U32, 8, LMC_OK},
                 {VALUE_U32, 1, LMC_OK},
                 {VALUE_U32, 0, LMC_ERR_HEADER},
                 {VALUE_U32, 24, LMC_ERR_HEADER},
                 {VALUE_U32, 0x80000000, LMC_ERR_TRUNCATED},
                 {VALUE_F64, 8, LMC_ERR_HEADER}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gguf_file file;
        begin(&file, 3, 1, 1);
        put_string(&file, "general.alignment");
        put_u32(&file, cases[i].type);
        put_u32(&file, cases[i].alignment);
        put_tensor(&file, "t", 4, 1, TYPE_F32, 0);
        put_data(&file, cases[i].status == LMC_OK ? cases[i].alignment : 8, 16);
        CU_ASSERT_EQUAL(status_of(&file), cases[i].status);
    }
}

/* Reads a file of two tensors that together have 128 bytes of data. */
static lmc_status read_two(contents_case *test, uint64_t d0, uint32_t type, uint64_t offset,
                           uint64_t other_offset)
{
    gguf_file file;
    begin(&file, 3, 2, 0);
    put_tensor(&file, "a", d0, 1, type, offset);
    put_tensor(&file, "b", 8, 1, TYPE_F32, other_offset);
    put_data(&file, 32, 128);
    return read_file(test, &file);
}

LMC_TEST(test_places)
{
    static const struct {
        uint64_t d0;
        uint32_t type;
        uint64_t offset, other_offset;
        lmc_status status;
        size_t tensor_count;
    } cases[] = {
        {8, TYPE_F32, 0, 32, LMC_OK, 2},
        {8, TYPE_F32, 0, 96, LMC_OK, 2},
        {8, TYPE_F32, 3, 35, LMC_OK, 2},
        {0, TYPE_F32, 0, 0, LMC_OK, 2},
        {8, TYPE_F32, 0, 97, LMC_ERR_TRUNCATED, 0},
        {8, TYPE_F32, 0, UINT64_MAX, LMC_ERR_TRUNCATED, 0},
        {8, TYPE_F32, 0, UINT64_MAX - 31, LMC_ERR_TRUNCATED, 0},
        {8, TYPE_F32, 0, 31, LMC_OK, 1}, /* they overlap */
        {8, TYPE_F32, 32, 0, LMC_OK, 1}, /* in no order that a writer has */
        {33, TYPE_F32, 0, 0, LMC_ERR_TRUNCATED, 0},
        {32, TYPE_Q4_0, 0, 32, LMC_OK, 2},
        {48, TYPE_Q4_0, 0, 32, LMC_OK, 2}, /* no whole blocks */
        {1, TYPE_GONE, 0, 0, LMC_OK, 2},   /* of no size */
        {1, 0xffffffff, 0, 32, LMC_OK, 2},
        {1, TYPE_GONE, 0, 97, LMC_ERR_TRUNCATED, 0},
        {UINT64_MAX, TYPE_F32, 0, 32, LMC_OK, 2}, /* the product has no 64 bits */
        {(uint64_t)1 << 60, TYPE_F32, 0, 32, LMC_ERR_TRUNCATED, 0},
        {(uint64_t)1 << 62, TYPE_F32, 0, 32, LMC_OK, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        contents_case test;
        CU_ASSERT_EQUAL(read_two(&test, cases[i].d0, cases[i].type, cases[i].offset, cases[i].other_offset),
                        cases[i].status);
        CU_ASSERT_EQUAL(test.contents.header.tensor_count, cases[i].tensor_count);
        contents_end(&test);
    }
}

LMC_TEST(test_ranks)
{
    for (uint32_t rank = 0; rank < 12; rank++) {
        gguf_file file;
        contents_case test;
        begin(&file, 3, 1, 0);
        put_string(&file, "");
        put_u32(&file, rank);
        for (uint32_t i = 0; i < rank; i++)
            put_u64(&file, i == 0 ? 5 : 1);
        put_u32(&file, TYPE_F32);
        put_u64(&file, 0);
        const size_t data = put_data(&file, 32, 20);
        CU_ASSERT_EQUAL(read_file(&test, &file), rank <= 8 ? LMC_OK : LMC_ERR_HEADER);
        if (rank == 3)
            contents_claim(&test, 0, data, "", "F32", "1,1,5");
        contents_end(&test);
    }
}

/* Longer than the window through which the file is read. */
LMC_TEST(test_long_metadata)
{
    const size_t token_count = 40000;
    unsigned char *const bytes = calloc(1, 10 * token_count + 200);
    gguf_file file;
    contents_case test;
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    begin(&file, 3, 1, 1);
    put_string(&file, "tokens");
    put_u32(&file, VALUE_ARRAY);
    put_u32(&file, VALUE_STRING);
    put_u64(&file, token_count);
    memcpy(bytes, file.bytes, file.nbytes);
    size_t nbytes = file.nbytes;
    for (size_t i = 0; i < token_count; i++, nbytes += 10)
        bytes[nbytes] = 2;
    begin(&file, 3, 0, 0);
    file.nbytes = 0;
    put_tensor(&file, "t", 4, 1, TYPE_F32, 0);
    memcpy(bytes + nbytes, file.bytes, file.nbytes);
    const size_t data = (nbytes + file.nbytes + 31) / 32 * 32;
    CU_ASSERT_EQUAL(contents_begin(&test, bytes, data + 16, 0), LMC_OK);
    contents_claim(&test, 0, data, "t", "F32", "1,4");
    contents_end(&test);
    free(bytes);
}

#define DESCRIPTION_NBYTES_MAX ((uint64_t)128 << 20)

/* Reads a file whose metadata is one long string, of holes, and that describes a tensor if has_tensor. The description
 * ends at `end`. */
static lmc_status read_described(contents_case *test, uint64_t end, int has_tensor)
{
    gguf_file head, rest = {.nbytes = 0};
    const int fd = st_spool_create();
    CU_ASSERT_FATAL(fd >= 0);
    if (has_tensor)
        put_tensor(&rest, "t", 4, 1, TYPE_F32, 0);
    begin(&head, 3, (uint64_t)has_tensor, 1);
    put_string(&head, "key");
    put_u32(&head, VALUE_STRING);
    put_u64(&head, end - rest.nbytes - head.nbytes - 8);
    CU_ASSERT_FATAL(st_write_all(fd, head.bytes, head.nbytes, NULL) == 0);
    CU_ASSERT_FATAL(lseek(fd, (off_t)(end - rest.nbytes), SEEK_SET) >= 0);
    CU_ASSERT_FATAL(st_write_all(fd, rest.bytes, rest.nbytes, NULL) == 0);
    CU_ASSERT_FATAL(ftruncate(fd, (off_t)((end + 31) / 32 * 32 + 16)) == 0);
    return contents_begin_file(test, fd, 0);
}

LMC_TEST(test_longest_description)
{
    for (int i = 0; i < 8; i++) {
        contents_case test;
        const int has_tensor = i % 2;
        const uint64_t end = DESCRIPTION_NBYTES_MAX - 2 + (uint64_t)i / 2;
        const int is_short = end <= DESCRIPTION_NBYTES_MAX;
        CU_ASSERT_EQUAL(read_described(&test, end, has_tensor), is_short ? LMC_OK : LMC_ERR_LIMIT);
        if (is_short && has_tensor)
            contents_claim(&test, 0, DESCRIPTION_NBYTES_MAX, "t", "F32", "1,4");
        contents_end(&test);
    }
}

/* More tensors than a header could hold. */
LMC_TEST(test_most_tensors)
{
    gguf_file file;
    begin(&file, 3, 2500000, 0);
    CU_ASSERT_EQUAL(status_of(&file), LMC_ERR_TRUNCATED);
    begin(&file, 3, 2500001, 0);
    CU_ASSERT_EQUAL(status_of(&file), LMC_ERR_LIMIT);
}

/* ---- files of no known kind ---- */

LMC_TEST(test_pieces)
{
    static const size_t piece_nbytes = ST_PIECE_NBYTES;
    const size_t sizes[] = {
        0, 7, 8, 4001, piece_nbytes, piece_nbytes + 7, piece_nbytes + 8, 2 * piece_nbytes + 99};
    unsigned char *const bytes = malloc(2 * piece_nbytes + 100);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    memset(bytes, 'x', 2 * piece_nbytes + 100);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        contents_case test;
        CU_ASSERT_EQUAL(contents_begin(&test, bytes, sizes[i], 1), LMC_OK);
        CU_ASSERT_EQUAL(test.contents.kind, LMC_ST_CONTAINER_RAW);
        CU_ASSERT_EQUAL(test.contents.header.tensor_count,
                        (sizes[i] / 8 * 8 + piece_nbytes - 1) / piece_nbytes);
        CU_ASSERT_EQUAL(test.contents.header.data_nbytes, sizes[i] / 8 * 8);
        for (size_t piece = 0; piece < test.contents.header.tensor_count; piece++) {
            const st_string name = st_header_name(&test.contents.header, piece);
            CU_ASSERT(name.nbytes == 7 && memcmp(name.bytes, "piece/", 6) == 0 &&
                      name.bytes[6] == '0' + (char)piece);
            CU_ASSERT_EQUAL(test.contents.places[piece], piece * piece_nbytes);
        }
        contents_end(&test);
        CU_ASSERT_EQUAL(contents_begin(&test, bytes, sizes[i], 0) == LMC_OK, 0);
        contents_end(&test);
    }
    free(bytes);
}

LMC_TEST_MAIN("gguf")
