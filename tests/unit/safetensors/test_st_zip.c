/*
 * test_st_zip.c - the container ZIP: which entries become tensors, and what lies about itself.
 */
#include "lmc_test_st.h"
#include "lmc_test_zip.h"

#include "safetensors/container/container.h"

#define ARRAY_HEADER "\x93NUMPY\1\0\x3a\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\n"

/* {"w": a tensor of 2 x 3 floats on storage "0"} */
static const char pickle[] =
    "\x80\2}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\n"
    "X\1\0\0\0"
    "0X\3\0\0\0cpuK\6tQK\0K\2K\3\x86K\3K\1\x86\x89NtRs.";
static const unsigned char values[24] = {1, 2, 3};

static lmc_test_bytes file;
static lmc_test_zip zip;

static lmc_status parse(const void *user, st_header *header, const st_header_text *text, lmc_st_diag *diag)
{
    (void)user;
    return st_header_parse(header, &lmc_memory_default, text, diag);
}

static lmc_status read_with(int *is_like, st_contents *contents, const volatile int *cancel)
{
    st_input input;
    lmc_st_diag diag;
    char path[] = "/tmp/lmc-st-test-zip-XXXXXX";
    const int fd = mkstemp(path);
    CU_ASSERT_TRUE_FATAL(fd >= 0);
    close(fd);
    lmc_test_write(path, file.at, file.nbytes);
    st_diag_init(&diag, path);
    CU_ASSERT_EQUAL_FATAL(st_input_open(&input, path, &diag), LMC_OK);
    const st_reading reading = {
        .input = &input, .path = path, .memory = &lmc_memory_default, .cancel = cancel, .parse = parse};
    *contents = (st_contents){0};
    *is_like = st_zip_reader.is_like(&reading, file.at, file.nbytes < 64 ? file.nbytes : 64, &diag);
    const lmc_status status = st_zip_reader.read(&reading, contents, &diag);
    if (status != LMC_OK) {
        CU_ASSERT_TRUE(diag.text[0] != '\0');
        st_contents_free(contents, &lmc_memory_default);
    }
    st_input_close(&input);
    (void)unlink(path);
    return status;
}

static st_contents read_good(void)
{
    st_contents contents;
    int is_like = 0;
    CU_ASSERT_EQUAL(read_with(&is_like, &contents, NULL), LMC_OK);
    CU_ASSERT_TRUE(is_like);
    return contents;
}

static void check_refused(lmc_status expected)
{
    st_contents contents;
    int is_like = 0;
    CU_ASSERT_EQUAL(read_with(&is_like, &contents, NULL), expected);
}

/* 1 if tensor `index` has this name, and these bytes. */
static int is_tensor(const st_contents *contents, size_t index, const char *name, const void *bytes,
                     size_t nbytes)
{
    if (index >= contents->header.tensor_count)
        return 0;
    const st_tensor *const tensor = &contents->header.tensors[index];
    return st_string_equals(st_header_name(&contents->header, index), (st_string){name, strlen(name)}) &&
           tensor->end - tensor->begin == nbytes &&
           memcmp(file.at + contents->places[index], bytes, nbytes) == 0;
}

static void end_contents(st_contents *contents)
{
    st_contents_free(contents, &lmc_memory_default);
}

static void begin_file(void)
{
    file.nbytes = 0;
    lmc_test_zip_begin(&zip, &file);
}

static void put_torch(void)
{
    lmc_test_zip_add(&zip, "x/data.pkl", pickle, sizeof pickle - 1);
    lmc_test_zip_add(&zip, "x/data/0", values, sizeof values);
    lmc_test_zip_add(&zip, "x/data/1", values, 8);
}

/* ---- good ones ---- */

LMC_TEST(test_torch)
{
    begin_file();
    put_torch();
    lmc_test_zip_end(&zip);
    st_contents contents = read_good();
    CU_ASSERT_EQUAL(contents.kind, LMC_ST_CONTAINER_ZIP);
    CU_ASSERT_EQUAL(contents.header.tensor_count, 2);
    CU_ASSERT_TRUE(is_tensor(&contents, 0, "w", values, sizeof values));
    CU_ASSERT_EQUAL(contents.header.tensors[0].dtype, LMC_DTYPE_F32);
    CU_ASSERT_EQUAL(contents.header.tensors[0].rank, 2);
    CU_ASSERT_TRUE(is_tensor(&contents, 1, "data/1", values, 8));
    end_contents(&contents);
}

LMC_TEST(test_big_endian)
{
    begin_file();
    put_torch();
    lmc_test_zip_add(&zip, "x/byteorder", "big", 3);
    lmc_test_zip_end(&zip);
    st_contents contents = read_good();
    CU_ASSERT_TRUE(is_tensor(&contents, 0, "w", values, sizeof values));
    CU_ASSERT_EQUAL(contents.header.tensors[0].dtype, LMC_DTYPE_F32);
    CU_ASSERT_EQUAL(contents.header.tensors[0].rank, 1);
    end_contents(&contents);
}

LMC_TEST(test_pickle_not_understood)
{
    begin_file();
    lmc_test_zip_add(&zip, "x/data.pkl", pickle, sizeof pickle - 2);
    lmc_test_zip_add(&zip, "x/data/0", values, sizeof values);
    lmc_test_zip_add(&zip, "x/data/", values, sizeof values);
    lmc_test_zip_add(&zip, "y/data/0", values, sizeof values);
    lmc_test_zip_add(&zip, "x/data/1", values, 0);
    lmc_test_zip_end(&zip);
    st_contents contents = read_good();
    CU_ASSERT_EQUAL(contents.header.tensor_count, 2);
    CU_ASSERT_TRUE(is_tensor(&contents, 1, "data/1", values, 0));
    CU_ASSERT_TRUE(is_tensor(&contents, 0, "data/0", values, sizeof values));
    end_contents(&contents);
}

LMC_TEST(test_arrays_and_others)
{
    static unsigned char array[sizeof ARRAY_HEADER - 1 + 24];
    static unsigned char large[70001];
    memcpy(array, ARRAY_HEADER, sizeof ARRAY_HEADER - 1);
    memcpy(array + sizeof ARRAY_HEADER - 1, values, sizeof values);
    begin_file();
    lmc_test_zip_add(&zip, "a.npy", array, sizeof array);
    lmc_test_zip_add(&zip, "cut.npy", array, sizeof array - 1);
    lmc_test_zip_add(&zip, "small", values, sizeof values);
    lmc_test_zip_add(&zip, "large", large, sizeof large);
    lmc_test_zip_add(&zip, "large", large, sizeof large);
    lmc_test_zip_add(&zip, "large.pkl", large, sizeof large);
    lmc_test_zip_end(&zip);
    st_contents contents = read_good();
    CU_ASSERT_EQUAL(contents.header.tensor_count, 3);
    CU_ASSERT_TRUE(is_tensor(&contents, 0, "a", values, sizeof values));
    CU_ASSERT_EQUAL(contents.header.tensors[0].rank, 2);
    CU_ASSERT_TRUE(is_tensor(&contents, 1, "large", large, 70000));
    CU_ASSERT_TRUE(is_tensor(&contents, 2, "large#2", large, 70000));
    end_contents(&contents);
}

LMC_TEST(test_several_zips)
{
    begin_file();
    lmc_test_put_text(&file, "other bytes");
    for (int i = 0; i < 3; i++) {
        lmc_test_zip_begin(&zip, &file);
        put_torch();
        lmc_test_zip_end(&zip);
    }
    st_contents contents = read_good();
    CU_ASSERT_EQUAL(contents.header.tensor_count, 6);
    CU_ASSERT_TRUE(is_tensor(&contents, 0, "0/w", values, sizeof values));
    CU_ASSERT_TRUE(is_tensor(&contents, 5, "2/data/1", values, 8));
    end_contents(&contents);
}

LMC_TEST(test_comment_and_rest)
{
    begin_file();
    put_torch();
    lmc_test_zip_end(&zip);
    file.at[file.nbytes - 2] = 9;
    lmc_test_put(&file, "PK\5\6 Note", 9); /* no end record: too short */
    st_contents contents = read_good();
    CU_ASSERT_EQUAL(contents.header.tensor_count, 2);
    end_contents(&contents);
}

LMC_TEST(test_zip64)
{
    begin_file();
    lmc_test_put_text(&file, "before"); /* places count from the begin of the ZIP */
    lmc_test_zip_begin(&zip, &file);
    lmc_test_entry entry = lmc_test_entry_of(&zip, "x/data/0", values, sizeof values);
    entry.wide_nbytes = 24;
    entry.wide[0] = entry.wide[1] = sizeof values;
    entry.wide[2] = entry.stated_offset;
    entry.stated_nbytes = entry.stated_offset = 0xffffffff;
    lmc_test_zip_put(&zip, &entry);
    lmc_test_zip_add(&zip, "x/data.pkl", pickle, sizeof pickle - 1);
    lmc_test_end end = lmc_test_end_of(&zip);
    end.is_wide = 1;
    end.count = 0xffff;
    end.nbytes = end.offset = 0xffffffff;
    lmc_test_zip_end_as(&zip, &end);
    st_contents contents = read_good();
    CU_ASSERT_EQUAL(contents.header.tensor_count, 1);
    CU_ASSERT_TRUE(is_tensor(&contents, 0, "w", values, sizeof values));
    end_contents(&contents);
}

LMC_TEST(test_empty)
{
    begin_file();
    lmc_test_zip_end(&zip);
    st_contents contents = read_good();
    CU_ASSERT_EQUAL(contents.header.tensor_count, 0);
    end_contents(&contents);
}

/* ---- lies ---- */

LMC_TEST(test_entries_that_lie)
{
    static const struct {
        uint64_t nbytes, offset;
        unsigned method, flags;
    } lies[] = {{24, 100000, 0, 0},     {100000, 0, 0, 0}, {0xfffffff0, 0, 0, 0}, {24, 0xfffffff0, 0, 0},
                {24, 0xffffffff, 0, 0}, {24, 7, 0, 0},     {24, 0, 8, 0},         {24, 0, 0, 1},
                {24, 0, 0, 0x2000},     {24, 0, 99, 0}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        begin_file();
        lmc_test_entry entry = lmc_test_entry_of(&zip, "x/data/1", values, sizeof values);
        entry.stated_nbytes = lies[i].nbytes;
        entry.stated_offset = lies[i].offset;
        entry.method = lies[i].method;
        entry.flags = lies[i].flags;
        lmc_test_zip_put(&zip, &entry);
        lmc_test_zip_add(&zip, "x/data.pkl", pickle, sizeof pickle - 1);
        lmc_test_zip_add(&zip, "x/data/0", values, sizeof values);
        lmc_test_zip_end(&zip);
        st_contents contents = read_good();
        /* where the lie covers the others, they may be missing; it is not there itself */
        for (size_t j = 0; j < contents.header.tensor_count; j++)
            CU_ASSERT_TRUE(is_tensor(&contents, j, "w", values, sizeof values));
        end_contents(&contents);
    }
}

LMC_TEST(test_wide_entries_that_lie)
{
    static const uint64_t numbers[][3] = {{UINT64_MAX, UINT64_MAX, 0},
                                          {24, 24, UINT64_MAX},
                                          {24, 24, UINT64_MAX - 60},
                                          {1ull << 63, 1ull << 63, 0},
                                          {24, 25, 0}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (unsigned wide_nbytes = 0; wide_nbytes <= 24; wide_nbytes += 8) {
            begin_file();
            lmc_test_entry entry = lmc_test_entry_of(&zip, "x/data/1", values, sizeof values);
            entry.stated_nbytes = entry.stated_offset = 0xffffffff;
            entry.wide_nbytes = wide_nbytes;
            memcpy(entry.wide, numbers[i], sizeof entry.wide);
            lmc_test_zip_put(&zip, &entry);
            put_torch();
            lmc_test_zip_end(&zip);
            st_contents contents = read_good();
            CU_ASSERT_EQUAL(contents.header.tensor_count, 2);
            end_contents(&contents);
        }
}

LMC_TEST(test_overlaps)
{
    begin_file();
    put_torch();
    for (int i = 0; i < 1000; i++) { /* all of them are the first one */
        lmc_test_entry entry = lmc_test_entry_of(&zip, "x/data/9", values, 0);
        entry.stated_nbytes = 24;
        entry.stated_offset = 0;
        const size_t nbytes = file.nbytes;
        lmc_test_zip_put(&zip, &entry);
        file.nbytes = nbytes;
    }
    lmc_test_zip_end(&zip);
    st_contents contents = read_good();
    CU_ASSERT_TRUE(contents.header.tensor_count <= 3);
    end_contents(&contents);
}

LMC_TEST(test_names)
{
    static char long_name[60000];
    memset(long_name, 'n', sizeof long_name);
    begin_file();
    put_torch();
    lmc_test_entry entry = lmc_test_entry_of(&zip, "x/data/a\0b", values, sizeof values);
    entry.name_nbytes = 10;
    lmc_test_zip_put(&zip, &entry);
    lmc_test_zip_add(&zip, "x/data/../../etc/passwd", values, sizeof values);
    memcpy(long_name, "x/data/", 7);
    entry = lmc_test_entry_of(&zip, "x/data/", values, sizeof values);
    entry.name = long_name;
    entry.name_nbytes = sizeof long_name;
    lmc_test_zip_put(&zip, &entry);
    lmc_test_zip_add(&zip, "", values, sizeof values);
    lmc_test_zip_end(&zip);
    st_contents contents = read_good();
    CU_ASSERT_EQUAL(contents.header.tensor_count, 5);
    CU_ASSERT_TRUE(is_tensor(&contents, 3, "data/../../etc/passwd", values, sizeof values));
    end_contents(&contents);
}

LMC_TEST(test_twice_the_same_key)
{
    begin_file();
    put_torch();
    lmc_test_zip_add(&zip, "x/data/0", values, sizeof values);
    lmc_test_zip_end(&zip);
    st_contents contents = read_good(); /* which of them the pickle means is not told */
    CU_ASSERT_EQUAL(contents.header.tensor_count, 3);
    CU_ASSERT_TRUE(is_tensor(&contents, 0, "data/0", values, sizeof values));
    CU_ASSERT_TRUE(is_tensor(&contents, 2, "data/0#2", values, sizeof values));
    end_contents(&contents);
}

LMC_TEST(test_ends_that_lie)
{
    static const lmc_test_end lies[] = {
        {.count = 4, .nbytes = 0, .offset = 0},
        {.count = 2},
        {.count = 60000},
        {.nbytes = 1},
        {.nbytes = (uint64_t)-1},
        {.nbytes = 0xffffff00},
        {.offset = 1000},
        {.offset = 0x7fffff00},
        {.wide_count = 1, .is_wide = 1},
        {.wide_count = UINT64_MAX - 9, .is_wide = 1},
        {.wide_nbytes = 5, .is_wide = 1},
        {.wide_offset = 5, .is_wide = 1},
        {.wide_nbytes = 1ull << 63, .is_wide = 1},
        {.wide_offset = 1ull << 63, .is_wide = 1},
        {.wide_offset = 1ull << 32, .is_wide = 1},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        for (int is_told = 0; is_told < 2; is_told++) {
            begin_file();
            put_torch();
            lmc_test_end end = lmc_test_end_of(&zip);
            end.is_wide = lies[i].is_wide;
            end.count += lies[i].count;
            end.nbytes += lies[i].nbytes;
            end.offset += lies[i].offset;
            end.wide_count += lies[i].wide_count;
            end.wide_nbytes += lies[i].wide_nbytes;
            end.wide_offset += lies[i].wide_offset;
            if (end.is_wide && is_told) { /* no contradiction */
                end.count = 0xffff;
                end.nbytes = end.offset = 0xffffffff;
            }
            lmc_test_zip_end_as(&zip, &end);
            check_refused(LMC_ERR_HEADER);
        }
}

LMC_TEST(test_cut)
{
    begin_file();
    put_torch();
    lmc_test_zip_end(&zip);
    const size_t nbytes = file.nbytes;
    for (file.nbytes = 0; file.nbytes < nbytes; file.nbytes++)
        check_refused(LMC_ERR_TRUNCATED);
}

LMC_TEST(test_changed)
{
    static lmc_test_bytes good;
    begin_file();
    put_torch();
    lmc_test_zip_end(&zip);
    good = file;
    for (size_t i = 0; i < 3 * good.nbytes; i++) {
        static const unsigned char masks[] = {0x01, 0x80, 0xff};
        st_contents contents;
        int is_like = 0;
        memcpy(file.at, good.at, good.nbytes);
        file.at[i / 3] ^= masks[i % 3];
        const lmc_status status = read_with(&is_like, &contents, NULL);
        CU_ASSERT_TRUE(status == LMC_OK || status == LMC_ERR_HEADER || status == LMC_ERR_TRUNCATED);
        if (status == LMC_OK)
            end_contents(&contents);
    }
}

LMC_TEST(test_zips_before_that_lie)
{
    /* the first of three has a directory that breaks off; ends without anything */
    begin_file();
    put_torch();
    zip.directory.at[zip.directory.nbytes / 3 * 2] ^= 0xff;
    zip.directory.at[46 + 10] ^= 0xff; /* the second entry's magic */
    lmc_test_zip_end(&zip);
    for (int i = 0; i < 2; i++) {
        lmc_test_zip_begin(&zip, &file);
        put_torch();
        lmc_test_zip_end(&zip);
    }
    st_contents contents = read_good();
    CU_ASSERT_EQUAL(contents.header.tensor_count, 4);
    CU_ASSERT_TRUE(is_tensor(&contents, 0, "1/w", values, sizeof values));
    end_contents(&contents);
    file.nbytes = 0;
    for (int i = 0; i < 40000; i++) {
        lmc_test_zip_begin(&zip, &file);
        lmc_test_zip_end(&zip);
    }
    contents = read_good();
    CU_ASSERT_EQUAL(contents.header.tensor_count, 0);
    end_contents(&contents);
}

LMC_TEST(test_not_a_zip)
{
    static const char *const others[] = {"", "PK", "GGUF and more",
                                         "PK\5\6 but not at its end and not at its begin"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        st_contents contents;
        int is_like = 0;
        file.nbytes = 0;
        lmc_test_put_text(&file, i == 3 ? "x" : "");
        lmc_test_put_text(&file, others[i]);
        CU_ASSERT_NOT_EQUAL(read_with(&is_like, &contents, NULL), LMC_OK);
        CU_ASSERT_FALSE(is_like);
    }
}

LMC_TEST(test_cancelled)
{
    const volatile int cancel = 1;
    st_contents contents;
    int is_like = 0;
    begin_file();
    put_torch();
    lmc_test_zip_end(&zip);
    CU_ASSERT_EQUAL(read_with(&is_like, &contents, &cancel), LMC_ERR_CANCELLED);
}

LMC_TEST_MAIN("st_zip")
