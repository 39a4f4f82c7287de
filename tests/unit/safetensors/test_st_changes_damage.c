/*
 * test_st_changes_damage.c - a small archive with each of its bytes damaged, or cut: what it changes is found as it
 * was, or not at all, and memory stays as it is then. And an archive that no writer makes.
 */
#include "lmc_test_data.h"

#include "lmc_test_archive.h"
#include "lmc_test_st.h"

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

enum { SPARSE, DENSE, WIDE, NOISE, TIED, SHORT, COUNT };

static const struct {
    const char *name;
    lmc_dtype dtype;
    size_t element_nbytes, count, step;
} kinds[COUNT] = {
    [SPARSE] = {"sparse", LMC_DTYPE_BF16, 2, 3000, 40}, [DENSE] = {"dense", LMC_DTYPE_BF16, 2, 500, 1},
    [WIDE] = {"wide", LMC_DTYPE_F64, 8, 200, 3},        [NOISE] = {"noise", LMC_DTYPE_U8, 1, 400, 1},
    [TIED] = {"tied", LMC_DTYPE_BF16, 2, 3000, 40},     [SHORT] = {"short", LMC_DTYPE_U8, 1, 9, 2}};

static unsigned char old[COUNT][6000], new[COUNT][6000], memory[COUNT][6000];
static void *dsts[COUNT];
static unsigned char *archive, *damaged;
static size_t archive_nbytes, damaged_nbytes;

static void fill(size_t kind)
{
    const size_t nbytes = kinds[kind].element_nbytes, count = kinds[kind].count;
    uint64_t state = kind;
    lmc_test_weights(old[kind], nbytes * count, kind == TIED ? SPARSE : (uint32_t)kind);
    memcpy(new[kind], old[kind], nbytes * count);
    for (size_t i = 0; i < count; i += kinds[kind].step) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        new[kind][i * nbytes] = kind == NOISE ? (unsigned char)(state >> 56) : new[kind][i * nbytes] + 1;
        if (kind == WIDE && i % 2 == 0)
            new[kind][i * nbytes + 7] ^= 0x55;
    }
}

static lmc_st_writer *make_writer(unsigned char content[COUNT][6000])
{
    lmc_st_writer *const writer = lmc_test_writer();
    for (size_t i = 0; i < COUNT; i++)
        CU_ASSERT_EQUAL(lmc_test_add(writer, kinds[i].name, kinds[i].dtype, kinds[i].count, content[i]),
                        LMC_OK);
    return writer;
}

LMC_TEST(test_begin)
{
    const char *const path = lmc_test_path("delta");
    lmc_test_settings options = lmc_test_options(1);
    for (size_t i = 0; i < COUNT; i++) {
        fill(i);
        dsts[i] = memory[i];
    }
    lmc_st_writer *const writer = make_writer(new), *const base = make_writer(old);
    options.base_writer = base;
    CU_ASSERT_EQUAL_FATAL(lmc_test_writer_write_as(writer, path, &options, NULL, &diag), LMC_OK);
    archive = lmc_test_read(path, &archive_nbytes);
    damaged = malloc(archive_nbytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(damaged);
    memcpy(damaged, archive, archive_nbytes);
    damaged_nbytes = archive_nbytes;
    lmc_st_writer_free(writer);
    lmc_st_writer_free(base);
    unlink(path);
}

static lmc_status read_damaged(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)user;
    if (offset > damaged_nbytes || nbytes > damaged_nbytes - offset)
        return LMC_ERR_TRUNCATED;
    memcpy(dst, damaged + offset, nbytes);
    return LMC_OK;
}

/* Opens what is damaged, and applies it to what it was made against. Returns the status. */
static lmc_status put_damaged(lmc_st_changes_use use, int *applying)
{
    lmc_st_open_options how = LMC_INIT(lmc_st_open_options);
    lmc_st_file *file = NULL;
    lmc_st_changes *changes = NULL;
    uint64_t indices[COUNT];
    how.read = read_damaged;
    how.read_nbytes = damaged_nbytes;
    memcpy(memory, old, sizeof old);
    *applying = 0;
    lmc_status status = lmc_st_open("delta", &how, &file, &diag);
    for (size_t i = 0; i < COUNT && status == LMC_OK; i++)
        if (!lmc_st_find_tensor_sized(file, kinds[i].name, strlen(kinds[i].name), &indices[i]))
            status = LMC_ERR_CORRUPT;
    if (status == LMC_OK)
        status =
            lmc_st_changes_find(file, indices, (const void *const *)dsts, COUNT, use, NULL, &changes, &diag);
    if (status == LMC_OK) {
        *applying = 1;
        status = lmc_st_changes_apply(changes, dsts, NULL, &diag);
    }
    lmc_st_changes_free(changes);
    lmc_st_close(file);
    return status;
}

/* Each byte is that of one of the versions. */
static int is_old_or_new(void)
{
    const unsigned char *const x = memory[0], *const a = old[0], *const b = new[0];
    for (size_t i = 0; i < sizeof memory; i++)
        if (x[i] != a[i] && x[i] != b[i])
            return 0;
    return 1;
}

/* Success comes with the right content. What was checked before leaves memory as it is otherwise; what is checked block
 * by block writes no block that is damaged. */
static void expect_right_or_untouched(void)
{
    int applying = 0;
    const lmc_status status = put_damaged(LMC_ST_CHANGES_TO_APPLY, &applying);
    CU_ASSERT_EQUAL(status, applying ? LMC_OK : status);
    CU_ASSERT_EQUAL(memcmp(memory, status == LMC_OK ? new : old, sizeof memory), 0);
    CU_ASSERT(put_damaged(LMC_ST_CHANGES_UNCHECKED, &applying) != LMC_OK ||
              memcmp(memory, new, sizeof new) == 0);
    CU_ASSERT(applying || memcmp(memory, old, sizeof old) == 0);
    CU_ASSERT(is_old_or_new());
}

LMC_TEST(test_undamaged)
{
    int applying = 0;
    CU_ASSERT_EQUAL(put_damaged(LMC_ST_CHANGES_TO_APPLY, &applying), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(memory, new, sizeof new), 0);
    CU_ASSERT_EQUAL(put_damaged(LMC_ST_CHANGES_UNCHECKED, &applying), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(memory, new, sizeof new), 0);
    CU_ASSERT_EQUAL(put_damaged(LMC_ST_CHANGES_TO_LIST, &applying), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(memory, new, sizeof new), 0);
}

LMC_TEST(test_every_byte)
{
    for (size_t at = 0; at < archive_nbytes; at++) {
        damaged[at] ^= (unsigned char)(1u << at % 8);
        expect_right_or_untouched();
        damaged[at] = (unsigned char)~archive[at];
        expect_right_or_untouched();
        damaged[at] = archive[at];
    }
}

LMC_TEST(test_every_end)
{
    int applying = 0;
    for (damaged_nbytes = 0; damaged_nbytes < archive_nbytes; damaged_nbytes += 1 + damaged_nbytes / 500) {
        CU_ASSERT_NOT_EQUAL(put_damaged(LMC_ST_CHANGES_TO_APPLY, &applying), LMC_OK);
        CU_ASSERT_EQUAL(memcmp(memory, old, sizeof old), 0);
    }
    damaged_nbytes = archive_nbytes;
}

/* The owner of an alias without bytes may be left out: nothing is read behind the list of places. */
LMC_TEST(test_empty_alias)
{
    static const char text[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                               "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}";
    const char *const path = lmc_test_path("empty");
    const uint64_t index = 1;
    uint64_t hash = 0;
    size_t frame_nbytes = 0;
    st_alias alias = {1, 0};
    unsigned char *const frame = lmc_test_make_frame(memory[0], 0, 0, LMC_FRAME_SHORT, &frame_nbytes, &hash);
    guarded room = guarded_open(sizeof(void *));
    void **const places = (void **)(void *)guarded_end(&room, sizeof *places);
    lmc_st_file *file = NULL;
    lmc_st_changes *changes = NULL;
    lmc_test_write_frame(path, text, 0, &alias, frame, frame_nbytes, hash);
    free(frame);
    CU_ASSERT_EQUAL_FATAL(lmc_st_open(path, NULL, &file, &diag), LMC_OK);
    *places = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_st_changes_find(file, &index, (const void *const *)places, 1,
                                              LMC_ST_CHANGES_TO_APPLY, NULL, &changes, &diag),
                          LMC_OK);
    CU_ASSERT_EQUAL(lmc_st_changes_apply(changes, places, NULL, &diag), LMC_OK);
    lmc_st_changes_free(changes);
    lmc_st_close(file);
    guarded_close(&room);
    unlink(path);
}

LMC_TEST(test_end)
{
    free(archive);
    free(damaged);
}

LMC_TEST_DIR_MAIN("st_changes_damage")
