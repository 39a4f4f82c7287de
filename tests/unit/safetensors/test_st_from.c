/*
 * test_st_from.c - what reading from afar needs: where the bytes of a part stand, and bases that the caller opens.
 */
#include "lmc_st_experimental.h"
#include "lmc_test_st_base.h"

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

#define HEAD_NBYTES 8192 /* of a frame that are read at once */

/* A file in memory, of which some bytes may be read. */
typedef struct memory_file {
    unsigned char *bytes;
    size_t nbytes;
    int is_limited;
    uint64_t begin, end; /* of what may be read then, beside the ends of the frame */
    uint64_t frame_begin, frame_end;
    uint64_t head_nbytes, tail_nbytes;
} memory_file;

static int is_in(uint64_t begin, uint64_t end, uint64_t offset, uint64_t nbytes)
{
    return offset >= begin && offset + nbytes <= end;
}

static lmc_status read_memory(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const memory_file *const file = user;
    CU_ASSERT_TRUE_FATAL(is_in(0, file->nbytes, offset, nbytes));
    if (file->is_limited && !is_in(file->begin, file->end, offset, nbytes) &&
        !is_in(file->frame_begin, file->frame_begin + file->head_nbytes, offset, nbytes) &&
        !is_in(file->frame_end - file->tail_nbytes, file->frame_end, offset, nbytes))
        return LMC_ERR_IO;
    memcpy(dst, file->bytes + offset, nbytes);
    return LMC_OK;
}

static lmc_st_file *open_memory(memory_file *memory, const char *name)
{
    lmc_st_file *file = NULL;
    *memory = (memory_file){0};
    memory->bytes = lmc_test_read(lmc_test_path(name), &memory->nbytes);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open("memory://x",
                                      &(lmc_st_open_options){.struct_size = sizeof(lmc_st_open_options),
                                                             .read = read_memory,
                                                             .read_user = memory,
                                                             .read_nbytes = memory->nbytes},
                                      &file, NULL),
                          LMC_OK);
    return file;
}

/* ---- parts ---- */

static unsigned char weights[3000000];

LMC_TEST(make_files)
{
    lmc_st_writer *const writer = lmc_test_writer();
    lmc_test_weights(weights, sizeof weights, 7);
    CU_ASSERT_EQUAL(lmc_test_add(writer, "w", LMC_DTYPE_BF16, sizeof weights / 2, weights), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_write_plain(writer, lmc_test_path("plain"), NULL, NULL, NULL), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_writer_write(writer, lmc_test_path("archive"), NULL, NULL, NULL), LMC_OK);
    lmc_st_writer_free(writer);
}

/* A read of a part needs no other bytes than the call says. */
static void check_part(lmc_st_file *file, memory_file *memory, uint64_t first, uint64_t nbytes)
{
    static unsigned char got[sizeof weights];
    uint64_t stored_nbytes = 0, begin = 0, end = 0;
    memory->is_limited = 0;
    CU_ASSERT_EQUAL(
        lmc_st_range_place(file, 0, 0, first, nbytes, &memory->begin, &stored_nbytes, &begin, &end, &diag),
        LMC_OK);
    CU_ASSERT_TRUE(begin <= first && first + nbytes <= end && end <= sizeof weights);
    CU_ASSERT_TRUE(nbytes > sizeof weights / 2 || stored_nbytes < memory->nbytes / 2);
    memory->end = memory->begin + stored_nbytes;
    memory->is_limited = 1;
    CU_ASSERT_EQUAL(lmc_st_read_range(file, NULL, 0, first, (size_t)nbytes, got, &diag), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(got, weights + first, (size_t)nbytes), 0);
    CU_ASSERT_EQUAL(lmc_st_read_range(file, NULL, 0, begin, (size_t)(end - begin), got, &diag), LMC_OK);
    if (end < sizeof weights) {
        CU_ASSERT_EQUAL(lmc_st_read_range(file, NULL, 0, begin, (size_t)(end - begin) + 1, got, &diag),
                        LMC_ERR_IO);
    }
    memory->is_limited = 0;
}

LMC_TEST(test_range_place)
{
    static const char *const names[] = {"plain", "archive"};
    for (size_t i = 0; i < 2; i++) {
        memory_file memory;
        lmc_st_file *const file = open_memory(&memory, names[i]);
        uint64_t nbytes = 0;
        CU_ASSERT_EQUAL(lmc_st_tensor_place(file, 0, &memory.frame_begin, &nbytes), LMC_OK);
        memory.frame_end = memory.frame_begin + nbytes;
        memory.head_nbytes = i == 0 ? 0 : HEAD_NBYTES;
        memory.tail_nbytes = i == 0 ? 0 : 2000;
        check_part(file, &memory, 0, 1);
        check_part(file, &memory, 1234567, 100000);
        check_part(file, &memory, sizeof weights - 1, 1);
        check_part(file, &memory, 0, sizeof weights);
        lmc_st_close(file);
        free(memory.bytes);
    }
}

LMC_TEST(test_range_place_faults)
{
    memory_file memory;
    lmc_st_file *const file = open_memory(&memory, "archive");
    uint64_t at = 1, nbytes = 1, begin = 1, end = 1;
    CU_ASSERT_EQUAL(lmc_st_range_place(file, 1, 0, 0, 1, &at, &nbytes, &begin, &end, &diag), LMC_ERR_ARG);
    CU_ASSERT_EQUAL(at + nbytes + begin + end, 0);
    CU_ASSERT_EQUAL(lmc_st_range_place(file, 0, 0, sizeof weights, 1, &at, &nbytes, &begin, &end, &diag),
                    LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_st_range_place(file, 0, 0, 5, UINT64_MAX, &at, &nbytes, &begin, &end, &diag),
                    LMC_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(diag.tensor, "w");
    CU_ASSERT_EQUAL(lmc_st_range_place(file, 0, 0, 5, 0, &at, &nbytes, &begin, &end, &diag), LMC_OK);
    CU_ASSERT_TRUE(nbytes == 0 && begin == 5 && end == 5);
    memory.is_limited = 1;
    CU_ASSERT_EQUAL(lmc_st_range_place(file, 0, 0, 0, 1, &at, &nbytes, &begin, &end, NULL), LMC_ERR_IO);
    CU_ASSERT_EQUAL(at + nbytes + begin + end, 0);
    lmc_st_close(file);
    free(memory.bytes);
}

/* ---- bases ---- */

enum { STEP_COUNT = 3 };

static const char *step_name(unsigned step, const char *suffix)
{
    static char name[32];
    snprintf(name, sizeof name, "s%u.safetensors%s", step, suffix);
    return name;
}

static void make_steps(void)
{
    for (unsigned step = 0; step < STEP_COUNT; step++) {
        const char *const plain = lmc_test_path(step_name(step, ""));
        const char *const archive = lmc_test_path(step_name(step, ".lmc"));
        const char *const base = lmc_test_path(step_name(step - 1, ".lmc"));
        lmc_test_write_snapshot(plain, step);
        CU_ASSERT_EQUAL(lmc_test_convert(plain, step == 0 ? NULL : base, archive, 1, &diag), LMC_OK);
    }
}

/* All tensors of `file` are those of the plain file of this step. */
static void expect_step(const lmc_st_file *file, unsigned step)
{
    static unsigned char got[4 * LMC_TEST_VALUE_COUNT], expected[sizeof got];
    lmc_st_file *plain = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(lmc_test_path(step_name(step, "")), NULL, &plain, NULL), LMC_OK);
    for (uint64_t i = 0; i < lmc_st_tensor_count(plain); i++) {
        lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
        CU_ASSERT_EQUAL(lmc_st_tensor_info(plain, i, &tensor), LMC_OK);
        CU_ASSERT_EQUAL(lmc_st_read(file, NULL, i, got, sizeof got, &diag), LMC_OK);
        CU_ASSERT_EQUAL(lmc_st_read(plain, NULL, i, expected, sizeof expected, NULL), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(got, expected, (size_t)tensor.nbytes), 0);
    }
    lmc_st_close(plain);
}

LMC_TEST(test_use_base)
{
    memory_file memory[STEP_COUNT];
    lmc_st_file *files[STEP_COUNT];
    const lmc_st_file *base = NULL;
    make_steps();
    for (unsigned step = 0; step < STEP_COUNT; step++)
        files[step] = open_memory(&memory[step], step_name(step, ".lmc"));
    /* without its base, a file says so; afterwards it can still be given */
    CU_ASSERT_EQUAL(lmc_st_open_base(files[2], 0, &base, &diag), LMC_ERR_BASE);
    for (unsigned step = STEP_COUNT - 1; step > 0; step--)
        CU_ASSERT_EQUAL(lmc_st_use_base(files[step], files[step - 1], &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_open_base(files[2], 0, &base, &diag), LMC_OK);
    CU_ASSERT_PTR_EQUAL(base, files[1]);
    for (unsigned step = 0; step < STEP_COUNT; step++)
        expect_step(files[step], step);
    lmc_st_close(files[2]);
    expect_step(files[1], 1); /* it was not closed with the file that it served */
    free(memory[2].bytes);
    files[2] = open_memory(&memory[2], step_name(2, ".lmc"));
    CU_ASSERT_EQUAL(lmc_st_use_base(files[2], files[1], &diag), LMC_OK);
    expect_step(files[2], 2);
    for (unsigned step = STEP_COUNT; step-- > 0;) {
        lmc_st_close(files[step]);
        free(memory[step].bytes);
    }
}

LMC_TEST(test_use_base_refused)
{
    memory_file memory[STEP_COUNT], other, same;
    lmc_st_file *files[STEP_COUNT];
    for (unsigned step = 0; step < STEP_COUNT; step++)
        files[step] = open_memory(&memory[step], step_name(step, ".lmc"));
    lmc_st_file *const alien = open_memory(&other, "plain");
    CU_ASSERT_EQUAL(lmc_st_use_base(files[0], alien, &diag), LMC_ERR_ARG); /* needs none */
    CU_ASSERT_EQUAL(lmc_st_use_base(files[2], alien, &diag), LMC_ERR_BASE);
    CU_ASSERT_EQUAL(lmc_st_use_base(files[2], files[2], &diag), LMC_ERR_BASE);
    CU_ASSERT_PTR_NOT_NULL(strstr(diag.text, "itself"));
    CU_ASSERT_EQUAL(lmc_st_use_base(files[2], files[1], &diag), LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_use_base(files[2], files[0], &diag), LMC_ERR_ARG);  /* has one */
    CU_ASSERT_EQUAL(lmc_st_use_base(files[1], files[2], &diag), LMC_ERR_BASE); /* a circle */
    lmc_st_file *const again = open_memory(&same, step_name(2, ".lmc"));
    CU_ASSERT_EQUAL(lmc_st_use_base(again, files[1], &diag), LMC_ERR_ARG); /* serves another */
    /* of equal size and header, but with other content: found when it is read */
    CU_ASSERT_EQUAL(lmc_st_use_base(again, files[0], &diag), LMC_OK);
    static unsigned char got[4 * LMC_TEST_VALUE_COUNT];
    uint64_t index = 0;
    CU_ASSERT_TRUE(lmc_st_find_tensor_sized(again, "w", 1, &index));
    CU_ASSERT_EQUAL(lmc_st_read(again, NULL, index, got, sizeof got, &diag), LMC_ERR_BASE);
    lmc_st_close(again);
    free(same.bytes);
    for (unsigned step = STEP_COUNT; step-- > 0;) {
        lmc_st_close(files[step]);
        free(memory[step].bytes);
    }
    lmc_st_close(alien);
    free(other.bytes);
}

/* Of files that are all their own base, as far as size and header tell. */
LMC_TEST(test_use_base_limit)
{
    enum { COUNT = LMC_ST_CHAIN_MAX + 1 };
    static memory_file memory[COUNT];
    lmc_st_file *files[COUNT];
    for (unsigned i = 0; i < COUNT; i++)
        files[i] = open_memory(&memory[i], step_name(1, ".lmc"));
    for (unsigned i = 0; i + 1 < COUNT; i++)
        CU_ASSERT_EQUAL(lmc_st_use_base(files[i], files[i + 1], &diag),
                        i + 2 < COUNT ? LMC_OK : LMC_ERR_LIMIT);
    for (unsigned i = 0; i < COUNT; i++) {
        lmc_st_close(files[i]);
        free(memory[i].bytes);
    }
}

LMC_TEST(test_end)
{
    for (unsigned step = 0; step < STEP_COUNT; step++) {
        unlink(lmc_test_path(step_name(step, "")));
        unlink(lmc_test_path(step_name(step, ".lmc")));
    }
    unlink(lmc_test_path("plain"));
    unlink(lmc_test_path("archive"));
}

LMC_TEST_DIR_MAIN("st_from")
