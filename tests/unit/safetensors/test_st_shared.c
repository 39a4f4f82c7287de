/*
 * test_st_shared.c - common/ at the root: numbers in text, overlapping buffers, paths, open folders.
 */
#include "lmc_test_st.h"

#include "common/allocator.h"
#include "common/bytes.h"
#include "common/number.h"
#include "os/os.h"
#include "os/path.h"

#include <errno.h>

static void expect_number(const char *text, size_t length, int is_there, uint64_t expected, size_t taken)
{
    const char *at = text;
    uint64_t number = 1;
    CU_ASSERT_EQUAL(lmc_read_number(&at, length == SIZE_MAX ? NULL : text + length, &number), is_there);
    CU_ASSERT_EQUAL(number, expected);
    CU_ASSERT_EQUAL((size_t)(at - text), taken);
}

LMC_TEST(test_numbers)
{
    expect_number("", SIZE_MAX, 0, 0, 0);
    expect_number("-1", SIZE_MAX, 0, 0, 0);
    expect_number("007 ", SIZE_MAX, 1, 7, 3);
    expect_number("1234", 2, 1, 12, 2);
    expect_number("1234", 0, 0, 0, 0);
    expect_number("18446744073709551614", SIZE_MAX, 1, UINT64_MAX - 1, 20);
    expect_number("18446744073709551616", SIZE_MAX, 1, UINT64_MAX, 20);
    expect_number("184467440737095516170000", SIZE_MAX, 1, UINT64_MAX, 24);
}

LMC_TEST(test_overlaps)
{
    const char bytes[8] = {0};
    CU_ASSERT_EQUAL(lmc_bytes_overlap(bytes, 4, bytes + 4, 4), 0);
    CU_ASSERT_EQUAL(lmc_bytes_overlap(bytes, 5, bytes + 4, 4), 1);
    CU_ASSERT_EQUAL(lmc_bytes_overlap(bytes + 4, 4, bytes, 5), 1);
    CU_ASSERT_EQUAL(lmc_bytes_overlap(bytes + 4, 0, bytes, 8), 0);
    CU_ASSERT_EQUAL(lmc_bytes_overlap(bytes, 8, bytes, 8), 1);
}

static void expect_text(char *text, const char *expected)
{
    CU_ASSERT_STRING_EQUAL(text, expected);
    free(text);
}

LMC_TEST(test_paths)
{
    const lmc_allocator *const memory = &lmc_memory_default;
    expect_text(lmc_path_join(memory, "a", "b", ".c"), "a/b.c");
    expect_text(lmc_path_join(memory, "/", "b", ""), "/b");
    expect_text(lmc_path_join(memory, "", "b", ""), "b");
    expect_text(lmc_path_join(memory, "a", "", ".c"), "a.c");
    expect_text(lmc_directory_of(memory, "a"), ".");
    expect_text(lmc_directory_of(memory, "/a"), "/");
    expect_text(lmc_directory_of(memory, "a/b/c"), "a/b");
    CU_ASSERT_STRING_EQUAL(lmc_last_component("a/b"), "b");
    CU_ASSERT_STRING_EQUAL(lmc_last_component("a/"), "");
    CU_ASSERT_EQUAL(lmc_path_length("a//"), 1);
    CU_ASSERT_EQUAL(lmc_path_length("//"), os_root_nbytes("//"));
    CU_ASSERT_EQUAL(lmc_is_archive_name("a/b.lmc"), 1);
    CU_ASSERT_EQUAL(lmc_is_archive_name("a/.lmc"), 0);
    CU_ASSERT_EQUAL(lmc_is_plain_name("a.safetensors"), 1);
    CU_ASSERT_EQUAL(lmc_is_plain_name("a.safetensors/b"), 0);
}

static int count_name(void *user, const char *name)
{
    ++*(int *)user;
    return strcmp(name, "stop") == 0 ? -7 : 0;
}

LMC_TEST(test_open_folders)
{
    if (!lmc_test_has_links())
        LMC_TEST_SKIP("links cannot be made here");
    char path[] = "a/b/c";
    const char *name = NULL;
    int count = 0;
    const int root_fd = os_open_folder(lmc_test_path(""));
    CU_ASSERT_EQUAL(os_make_folder(root_fd, "a", 0755), 0);
    CU_ASSERT_EQUAL(os_make_folder(root_fd, "a/b", 0755), 0);
    const int fd = os_open_folder_of(root_fd, path, &name);
    CU_ASSERT(fd >= 0);
    CU_ASSERT_STRING_EQUAL(path, "a/b/c");
    CU_ASSERT_STRING_EQUAL(name, "c");
    CU_ASSERT_EQUAL(os_visit_folder(fd, count_name, &count), 0);
    CU_ASSERT_EQUAL(count, 0);
    CU_ASSERT_EQUAL(os_make_folder(fd, "stop", 0755), 0);
    CU_ASSERT_EQUAL(os_visit_folder(fd, count_name, &count), -7);
    CU_ASSERT_EQUAL(count, 1);
    /* no link is followed on the way */
    CU_ASSERT_EQUAL(symlink("a", lmc_test_path("link")), 0);
    char by_link[] = "link/b/c";
    CU_ASSERT_EQUAL(os_open_folder_of(root_fd, by_link, &name), -1);
    CU_ASSERT(errno == ELOOP || errno == ENOTDIR);
    CU_ASSERT_STRING_EQUAL(by_link, "link/b/c");
    CU_ASSERT_EQUAL(os_unlink(root_fd, "link"), 0);
    CU_ASSERT_EQUAL(os_remove_folder(fd, "stop"), 0);
    CU_ASSERT_EQUAL(os_remove_folder(root_fd, "a/b"), 0);
    CU_ASSERT_EQUAL(os_remove_folder(root_fd, "a"), 0);
    os_close(fd);
    os_close(root_fd);
}

LMC_TEST_DIR_MAIN("st_shared")
