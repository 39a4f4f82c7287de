/*
 * test_st_base_writer.c - archives coded against a base in memory (lmc_st_write_options.base_writer): they are those
 * that a base file gives, need that file when they are read, and leave nothing behind when the base cannot be read.
 */
#include "lmc_test_changes.h"

#include "lmc_test_alloc.h"

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);
static lmc_test_state old, new;
static const char *archive, *again, *plain;

LMC_TEST(test_begin)
{
    archive = lmc_test_path("new.safetensors.lmc");
    again = lmc_test_path("again.safetensors.lmc");
    plain = lmc_test_path("base.safetensors");
    old = lmc_test_state_open(0);
    new = lmc_test_state_open(1);
}

/* Writes the base as a file. */
static void write_base(const char *path)
{
    lmc_st_writer *const writer = lmc_test_state_writer(&old, 1);
    const lmc_test_settings options = lmc_test_options(1);
    CU_ASSERT_EQUAL_FATAL(lmc_test_writer_write_plain_as(writer, path, &options, NULL, NULL), LMC_OK);
    lmc_st_writer_free(writer);
}

/* All tensors are read right. */
static void check_reads(const lmc_st_file *file)
{
    unsigned char *const dst = malloc(lmc_test_kind_nbytes(W));
    uint64_t indices[KIND_COUNT];
    CU_ASSERT_PTR_NOT_NULL_FATAL(dst);
    lmc_test_state_indices(file, indices);
    for (size_t i = 0; i < KIND_COUNT; i++) {
        const size_t nbytes = lmc_test_kind_nbytes(i);
        CU_ASSERT_EQUAL(lmc_st_read(file, NULL, indices[i], dst, nbytes, &diag), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(dst, new.bytes[i], nbytes), 0);
    }
    free(dst);
}

/* The same bytes with any number of threads, and as a base file gives that the writer has found by the same names. */
LMC_TEST(test_same_as_a_file)
{
    lmc_st_writer *const writer = lmc_test_state_writer(&new, 0);
    lmc_test_settings options = lmc_test_options(1);
    write_base(plain);
    options.base = plain;
    CU_ASSERT_EQUAL(lmc_test_writer_write_as(writer, again, &options, NULL, &diag), LMC_OK);
    for (unsigned thread_count = 1; thread_count <= 4; thread_count++) {
        CU_ASSERT_EQUAL(lmc_test_write_delta(&new, &old, NULL, archive, thread_count, &diag), LMC_OK);
        CU_ASSERT(lmc_test_same_files(archive, again));
    }
    lmc_st_writer_free(writer);
    unlink(archive);
    unlink(again);
    unlink(plain);
}

/* The base file is the one that its writer writes, found by its name or given. */
LMC_TEST(test_read)
{
    static const char *const names[] = {NULL, "other.safetensors"};
    for (size_t i = 0; i < 2; i++) {
        const char *const path = lmc_test_path(i == 0 ? "base.safetensors" : names[i]);
        lmc_st_base base = LMC_INIT(lmc_st_base);
        CU_ASSERT_EQUAL(lmc_test_write_delta(&new, &old, names[i], archive, 2, &diag), LMC_OK);
        lmc_st_file *file = lmc_test_must_open(archive);
        CU_ASSERT_EQUAL(lmc_st_base_count(file), 1);
        CU_ASSERT_EQUAL(lmc_st_base_info(file, 0, &base), LMC_OK);
        CU_ASSERT_STRING_EQUAL(base.name, strrchr(path, '/') + 1);
        CU_ASSERT_EQUAL(base.tensor_count, 7);
        write_base(path);
        lmc_st_file *const written = lmc_test_must_open(path);
        CU_ASSERT_EQUAL(base.original_nbytes, lmc_st_original_nbytes(written));
        lmc_st_close(written);
        check_reads(file);
        lmc_st_close(file);
        CU_ASSERT_EQUAL(rename(path, lmc_test_path("moved")), 0);
        file = lmc_test_must_open(archive);
        lmc_st_file *const moved = lmc_test_must_open(lmc_test_path("moved"));
        CU_ASSERT_EQUAL(lmc_st_use_base(file, moved, &diag), LMC_OK);
        check_reads(file);
        lmc_st_close(file);
        lmc_st_close(moved);
        CU_ASSERT_EQUAL(unlink(lmc_test_path("moved")), 0);
        CU_ASSERT_EQUAL(unlink(archive), 0);
    }
}

/* ---- the base's tensors come from functions ---- */

typedef struct supply {
    const unsigned char *bytes;
    size_t nbytes;
    lmc_status status; /* of a read of its last byte */
} supply;

static lmc_status read_supply(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const supply *const from = user;
    CU_ASSERT_FATAL(nbytes > 0 && offset <= from->nbytes && nbytes <= from->nbytes - offset);
    memcpy(dst, from->bytes + offset, nbytes);
    return offset + nbytes == from->nbytes ? from->status : LMC_OK;
}

/* A writer of a version's tensors, which come from functions. */
static lmc_st_writer *supplied_writer(const lmc_test_state *state, int is_base, supply supplies[KIND_COUNT])
{
    lmc_st_writer *const writer = lmc_test_writer();
    for (size_t i = 0; i < KIND_COUNT; i++) {
        const lmc_test_kind *const k = &lmc_test_kinds[i];
        const uint64_t count = k->dtype == LMC_DTYPE_C64 ? k->count / 2 : k->count;
        supplies[i] = (supply){state->bytes[i], lmc_test_kind_nbytes(i), LMC_OK};
        if (!is_base || !k->is_new)
            CU_ASSERT_EQUAL(lmc_st_writer_add_from(writer, k->name, strlen(k->name), k->dtype, &count, 1,
                                                   read_supply, &supplies[i]),
                            LMC_OK);
    }
    return writer;
}

LMC_TEST(test_supplied)
{
    supply of_new[KIND_COUNT], of_old[KIND_COUNT];
    lmc_test_settings options = lmc_test_options(3);
    CU_ASSERT_EQUAL(lmc_test_write_delta(&new, &old, NULL, archive, 1, &diag), LMC_OK);
    for (unsigned i = 1; i < 4; i++) {
        lmc_st_writer *const writer =
            i & 1 ? supplied_writer(&new, 0, of_new) : lmc_test_state_writer(&new, 0);
        lmc_st_writer *const base = i & 2 ? supplied_writer(&old, 1, of_old) : lmc_test_state_writer(&old, 1);
        options.base_writer = base;
        options.force = 1;
        CU_ASSERT_EQUAL(lmc_test_writer_write_as(writer, again, &options, NULL, &diag), LMC_OK);
        CU_ASSERT(lmc_test_same_files(archive, again));
        lmc_st_writer_free(writer);
        lmc_st_writer_free(base);
    }
    unlink(again);
    unlink(archive);
}

/* A base that cannot be read ends the call with its status, and nothing is left. */
LMC_TEST(test_failing_supply)
{
    static const lmc_status statuses[] = {LMC_ERR_IO, LMC_ERR_CHECKSUM, (lmc_status)99};
    for (size_t i = 0; i < 3; i++) {
        for (unsigned thread_count = 1; thread_count < 4; thread_count += 2) {
            supply supplies[KIND_COUNT];
            lmc_test_settings options = lmc_test_options(thread_count);
            lmc_st_writer *const writer = lmc_test_state_writer(&new, 0);
            lmc_st_writer *const base = supplied_writer(&old, 1, supplies);
            supplies[i == 0 ? W : i == 1 ? C : DENSE].status = statuses[i];
            options.base_writer = base;
            CU_ASSERT_EQUAL(lmc_test_writer_write_as(writer, archive, &options, NULL, &diag), statuses[i]);
            CU_ASSERT_EQUAL(diag.status, statuses[i]);
            CU_ASSERT_STRING_EQUAL(diag.tensor, i == 0 ? "w" : i == 1 ? "c" : "dense");
            CU_ASSERT_EQUAL(lmc_test_entry_count(lmc_test_dir), 0);
            lmc_st_writer_free(writer);
            lmc_st_writer_free(base);
        }
    }
}

/* ---- which tensors are compared ---- */

/* Only those that have name, dtype and shape of a tensor of the base. */
LMC_TEST(test_matches)
{
    static unsigned char content[8000];
    static const uint64_t shape[2] = {40, 100};
    static const struct {
        const char *name;
        lmc_dtype dtype;
        size_t rank; /* 1: 4000 elements; 2: `shape` */
        lmc_st_mode mode;
    } cases[] = {{"w", LMC_DTYPE_BF16, 1, LMC_ST_MODE_DELTA},
                 {"v", LMC_DTYPE_BF16, 1, LMC_ST_MODE_CODED},
                 {"w", LMC_DTYPE_F16, 1, LMC_ST_MODE_CODED},
                 {"w", LMC_DTYPE_BF16, 2, LMC_ST_MODE_CODED}};
    const uint64_t count = 4000;
    lmc_test_weights(content, sizeof content, 5);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lmc_test_settings options = lmc_test_options(1);
        lmc_st_mode mode = LMC_ST_MODE_PLAIN;
        lmc_st_writer *const writer = lmc_test_writer(), *const base = lmc_test_writer();
        CU_ASSERT_EQUAL(lmc_test_add(base, "w", LMC_DTYPE_BF16, count, content), LMC_OK);
        CU_ASSERT_EQUAL(lmc_st_writer_add(writer, cases[i].name, 1, cases[i].dtype,
                                          cases[i].rank == 1 ? &count : shape, cases[i].rank, content),
                        LMC_OK);
        options.base_writer = base;
        CU_ASSERT_EQUAL(lmc_test_writer_write_as(writer, archive, &options, NULL, &diag), LMC_OK);
        lmc_st_file *const file = lmc_test_must_open(archive);
        CU_ASSERT_EQUAL(lmc_st_tensor_mode(file, 0, &mode, &diag), LMC_OK);
        CU_ASSERT_EQUAL(mode, cases[i].mode);
        CU_ASSERT_EQUAL(lmc_st_base_count(file), mode == LMC_ST_MODE_DELTA);
        lmc_st_close(file);
        lmc_st_writer_free(writer);
        lmc_st_writer_free(base);
        unlink(archive);
    }
}

/* A writer is its own base; an empty one is that of nothing. */
LMC_TEST(test_own_and_empty_base)
{
    lmc_st_writer *const writer = lmc_test_state_writer(&new, 0), *const empty = lmc_test_writer();
    for (size_t i = 0; i < 3; i++) {
        lmc_test_settings options = lmc_test_options(2);
        lmc_st_result result = LMC_INIT(lmc_st_result);
        options.base_writer = i == 0 ? writer : empty;
        CU_ASSERT_EQUAL(lmc_test_writer_write_as(i == 2 ? empty : writer, archive, &options, &result, &diag),
                        LMC_OK);
        CU_ASSERT(i != 0 || result.stored_nbytes < 200000); /* of the noise, and little else */
        lmc_st_file *const file = lmc_test_must_open(archive);
        CU_ASSERT_EQUAL(lmc_st_base_count(file), i == 0);
        if (i == 1)
            check_reads(file);
        lmc_st_close(file);
        unlink(archive);
    }
    lmc_st_writer_free(writer);
    lmc_st_writer_free(empty);
}

/* ---- what is refused ---- */

LMC_TEST(test_refused)
{
    static unsigned char content[100];
    char long_name[LMC_ST_BASE_NAME_NBYTES_MAX + 40];
    lmc_st_writer *const writer = lmc_test_state_writer(&new, 0), *const twice = lmc_test_writer();
    lmc_st_writer *const base = lmc_test_state_writer(&old, 1);
    CU_ASSERT_EQUAL(lmc_test_add(twice, "a", LMC_DTYPE_U8, 100, content), LMC_OK);
    CU_ASSERT_EQUAL(lmc_test_add(twice, "a", LMC_DTYPE_U8, 100, content), LMC_OK);
    memset(long_name, 'a', sizeof long_name);
    strcpy(long_name + sizeof long_name - 16, ".safetensors");
    const struct {
        const char *name;
        const lmc_st_writer *base;
    } cases[] = {{NULL, twice}, {long_name, base}, {"bad\xff.safetensors", base}, {"", base}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lmc_test_settings options = lmc_test_options(1);
        options.base = cases[i].name;
        options.base_writer = cases[i].base;
        CU_ASSERT_EQUAL(lmc_test_writer_write_as(writer, archive, &options, NULL, &diag), LMC_ERR_ARG);
        CU_ASSERT_EQUAL(diag.status, LMC_ERR_ARG);
        CU_ASSERT_EQUAL(lmc_test_entry_count(lmc_test_dir), 0);
    }
    lmc_st_writer_free(writer);
    lmc_st_writer_free(twice);
    lmc_st_writer_free(base);
}

/* ---- memory ---- */

/* Each allocation fails in turn: of the writers, of the call, or of both. */
LMC_TEST(test_allocator)
{
    static unsigned char content[2][6000];
    lmc_test_weights(content[0], sizeof content[0], 1);
    memcpy(content[1], content[0], sizeof content[1]);
    for (size_t i = 0; i < 3000; i += 50)
        content[1][2 * i]++;
    int has_failed = 1;
    for (size_t number = 0; has_failed; number++) {
        const uint64_t count = 3000;
        lmc_test_settings options = lmc_test_options(1 + number % 2);
        lmc_st_writer *writers[2] = {NULL, NULL};
        lmc_status status = LMC_OK;
        pool_fail(number, 1);
        for (size_t i = 0; i < 2 && status == LMC_OK; i++)
            status = lmc_st_writer_create(&pool_allocator, &writers[i]);
        for (size_t i = 0; i < 2 && status == LMC_OK; i++)
            status = lmc_st_writer_add(writers[i], "w", 1, LMC_DTYPE_BF16, &count, 1, content[i]);
        options.base_writer = writers[0];
        if (status == LMC_OK)
            status = lmc_test_writer_write_as(writers[1], archive, &options, NULL, &diag);
        has_failed = pool_has_failed();
        pool_fail(SIZE_MAX, 0);
        for (size_t i = 0; i < 2; i++)
            lmc_st_writer_free(writers[i]);
        CU_ASSERT(status == LMC_OK || (has_failed && status == LMC_ERR_NOMEM));
        CU_ASSERT_EQUAL(lmc_test_entry_count(lmc_test_dir), status == LMC_OK);
        CU_ASSERT(pool_is_whole());
        unlink(archive);
    }
}

LMC_TEST(test_end)
{
    lmc_test_state_close(&old);
    lmc_test_state_close(&new);
}

LMC_TEST_DIR_MAIN("st_base_writer")
