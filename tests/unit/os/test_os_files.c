/*
 * test_os_files.c - os/os.h: files, what they are, their bytes, and folders.
 */
#include "lmc_test_os.h"

/* ---- opening and creating ---- */

LMC_TEST(test_create)
{
    size_t written = 0;
    const int fd = os_create(test_fd, "made", 0600);
    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(os_write_at(fd, 0, "content", 7, &written), 0);
    CU_ASSERT_EQUAL(written, 7);
    CU_ASSERT(fd_holds(fd, "content"));
    CU_ASSERT_EQUAL(os_create(test_fd, "made", 0600), -1);
    CU_ASSERT_EQUAL(errno, EEXIST);
    CU_ASSERT_EQUAL(os_create(test_fd, ".", 0600), -1);
    CU_ASSERT_EQUAL(os_create(test_fd, "not there/made", 0600), -1);
    CU_ASSERT_EQUAL(errno, ENOENT);
    CU_ASSERT_EQUAL(os_close(fd), 0);
    CU_ASSERT(file_holds("made", "content"));
    CU_ASSERT_EQUAL(os_open(test_fd, "not there"), -1);
    CU_ASSERT_EQUAL(errno, ENOENT);
    CU_ASSERT_EQUAL(os_close(1000), EBADF);
    CU_ASSERT_EQUAL(os_unlink(test_fd, "made"), 0);
}

LMC_TEST(test_open_or_create)
{
    CU_ASSERT(put_file("grown", "first"));
    CU_ASSERT(put_file("grown", "2nd"));
    CU_ASSERT(file_holds("grown", "2nd"));
    const int fd = os_open_own(test_fd, "grown");
    CU_ASSERT(fd >= 0 && fd_holds(fd, "2nd"));
    size_t written = 0;
    CU_ASSERT_NOT_EQUAL(os_write_at(fd, 0, "x", 1, &written), 0); /* it is for reading */
    CU_ASSERT_EQUAL(written, 0);
    os_close(fd);
    CU_ASSERT_EQUAL(os_unlink(test_fd, "grown"), 0);
}

LMC_TEST(test_unusual_names)
{
    static const char *const names[] = {"a b",
                                        " first",
                                        "caf\xC3\xA9",
                                        "\xE6\xA8\xA1\xE5\x9E\x8B.safetensors",
                                        "\xF0\x9F\xA7\xAE",
                                        "con_",
                                        ".hidden",
                                        "a'b&c%d$e;f",
                                        "x.tar.gz"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        CU_ASSERT(put_file(names[i], names[i]));
        CU_ASSERT(file_holds(names[i], names[i]));
        const int fd = os_open(OS_HERE, in_root(names[i]));
        CU_ASSERT(fd >= 0 && fd_holds(fd, names[i]));
        os_close(fd);
        CU_ASSERT_EQUAL(os_unlink(test_fd, names[i]), 0);
    }
}

LMC_TEST(test_temporary)
{
    const int fd = os_create_temporary(test_root);
    size_t written = 0;
    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(os_write_at(fd, 3, "abc", 3, &written), 0);
    const int copy = os_duplicate(fd);
    CU_ASSERT_FATAL(copy >= 0);
    CU_ASSERT_EQUAL(os_close(fd), 0);
    char found[8];
    CU_ASSERT_EQUAL(os_read_at(copy, 0, found, sizeof found), 6);
    CU_ASSERT(memcmp(found, "\0\0\0abc", 6) == 0);
    CU_ASSERT_EQUAL(os_close(copy), 0);
    CU_ASSERT_EQUAL(os_create_temporary(in_root("not there")), -1);
    CU_ASSERT_EQUAL(os_temporary_directory(100), NULL);
    for (unsigned i = 0; os_temporary_directory(i); i++)
        CU_ASSERT(os_root_nbytes(os_temporary_directory(i)) > 0);
}

LMC_TEST(test_unnamed)
{
    size_t written = 0;
    const int fd = os_create_unnamed(test_fd, ".", 0600);
    if (fd < 0)
        LMC_TEST_SKIP("no files without a name here");
    CU_ASSERT_EQUAL(os_write_at(fd, 0, "late", 4, &written), 0);
    CU_ASSERT(put_file("taken", ""));
    CU_ASSERT_EQUAL(os_link_unnamed(fd, test_fd, "taken"), EEXIST);
    CU_ASSERT_EQUAL(os_link_unnamed(fd, test_fd, "named"), 0);
    os_close(fd);
    CU_ASSERT(file_holds("named", "late"));
    CU_ASSERT_EQUAL(os_unlink(test_fd, "named"), 0);
    CU_ASSERT_EQUAL(os_unlink(test_fd, "taken"), 0);
}

/* ---- states ---- */

LMC_TEST(test_state)
{
    os_state state;
    os_state again;
    os_state root;
    CU_ASSERT(put_file("one", "12345"));
    CU_ASSERT_EQUAL(os_stat(test_fd, "one", &state), 0);
    CU_ASSERT_EQUAL(state.kind, OS_FILE);
    CU_ASSERT_EQUAL(state.nbytes, 5);
    CU_ASSERT_EQUAL(state.name_count, 1);
    CU_ASSERT(state.is_ours);
    CU_ASSERT_EQUAL(os_lstat(OS_HERE, in_root("one"), &again), 0);
    CU_ASSERT(os_is_same_file(&state, &again));
    CU_ASSERT_EQUAL(os_fstat(test_fd, &root), 0);
    CU_ASSERT_EQUAL(root.kind, OS_FOLDER);
    CU_ASSERT_EQUAL(root.device, state.device);
    CU_ASSERT(!os_is_same_file(&root, &state));
    CU_ASSERT_EQUAL(os_stat(test_fd, ".", &again), 0);
    CU_ASSERT(os_is_same_file(&root, &again));
    CU_ASSERT_EQUAL(os_stat(test_fd, "two", &again), ENOENT);
    CU_ASSERT(os_is_file(in_root("one")) && !os_is_folder(in_root("one")));
    CU_ASSERT(os_is_folder(test_root) && !os_is_file(test_root));
    CU_ASSERT_EQUAL(os_unlink(test_fd, "one"), 0);
}

LMC_TEST(test_times_and_permissions)
{
    os_state before;
    os_state state;
    CU_ASSERT(put_file("old", "x"));
    const int fd = os_open(test_fd, "old");
    CU_ASSERT_EQUAL(os_fstat(fd, &before), 0);
    os_sleep_ms(30);
    CU_ASSERT_EQUAL(os_set_modified(fd, 1000000000, 123456700), 0);
    CU_ASSERT_EQUAL(os_fstat(fd, &state), 0);
    CU_ASSERT_EQUAL(state.modified_s, 1000000000);
    CU_ASSERT_EQUAL(state.modified_ns, 123456700);
    CU_ASSERT(state.changed_s > before.changed_s ||
              (state.changed_s == before.changed_s && state.changed_ns > before.changed_ns));
    CU_ASSERT_EQUAL(os_set_permissions(fd, 0444), 0);
    CU_ASSERT_EQUAL(os_stat(test_fd, "old", &state), 0);
    CU_ASSERT_EQUAL(state.permissions & 0777, 0444);
    CU_ASSERT_EQUAL(os_set_permissions(fd, 0644), 0);
    CU_ASSERT_EQUAL(os_fstat(fd, &state), 0);
    CU_ASSERT_EQUAL(state.permissions & 0777, 0644);
    CU_ASSERT_EQUAL(state.modified_s, 1000000000);
    CU_ASSERT_EQUAL(os_set_permissions(fd, 0444), 0);
    os_close(fd);
    CU_ASSERT_EQUAL(os_unlink(test_fd, "old"), 0); /* one that is read-only, too */
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "aged", 0700), 0);
    const int folder_fd = os_open_own_folder(test_fd, "aged");
    CU_ASSERT_EQUAL(os_set_modified(folder_fd, 1234567890, 0), 0);
    CU_ASSERT_EQUAL(os_fstat(folder_fd, &state), 0);
    CU_ASSERT_EQUAL(state.modified_s, 1234567890);
    CU_ASSERT_EQUAL(os_set_permissions(folder_fd, 0755), 0);
    CU_ASSERT_EQUAL(os_sync(folder_fd), 0);
    os_close(folder_fd);
    CU_ASSERT_EQUAL(os_remove_folder(test_fd, "aged"), 0);
}

/* ---- bytes ---- */

LMC_TEST(test_bytes)
{
    char found[16] = "";
    size_t written = 0;
    const int fd = os_create(test_fd, "bytes", 0600);
    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(os_write(fd, "abcdef", 6), 6);
    CU_ASSERT_EQUAL(os_position(fd), 6);
    CU_ASSERT_EQUAL(os_read_at(fd, 1, found, 3), 3);
    CU_ASSERT(memcmp(found, "bcd", 3) == 0);
    CU_ASSERT_EQUAL(os_position(fd), 6);
    CU_ASSERT_EQUAL(os_write_at(fd, 4, "EFGH", 4, &written), 0);
    CU_ASSERT_EQUAL(os_position(fd), 6);
    CU_ASSERT_EQUAL(os_read_at(fd, 8, found, 3), 0);
    CU_ASSERT_EQUAL(os_read_at(fd, 800, found, 3), 0);
    CU_ASSERT_EQUAL(os_rewind(fd), 0);
    CU_ASSERT_EQUAL(os_read(fd, found, sizeof found), 8);
    CU_ASSERT(memcmp(found, "abcdEFGH", 8) == 0);
    CU_ASSERT_EQUAL(os_read(fd, found, sizeof found), 0);
    CU_ASSERT(os_wait_to_read(fd, 0) && os_wait_to_write(fd, 0));
    CU_ASSERT_EQUAL(os_rewind(fd), 0);
    const int copy = os_duplicate(fd);
    CU_ASSERT_EQUAL(os_position(copy), 0);
    CU_ASSERT_EQUAL(os_read_at(copy, 2, found, 2), 2);
    CU_ASSERT_EQUAL(os_position(fd), 0);
    os_close(copy);
    CU_ASSERT_EQUAL(os_truncate(fd, 3), 0);
    CU_ASSERT(fd_holds(fd, "abc"));
    CU_ASSERT_EQUAL(os_sync(fd), 0);
    os_close(fd);
    CU_ASSERT_EQUAL(os_unlink(test_fd, "bytes"), 0);
}

LMC_TEST(test_streams)
{
    int ends[2];
    char found[16];
    CU_ASSERT_FATAL(make_pipe(ends));
    os_state state;
    CU_ASSERT_EQUAL(os_fstat(ends[0], &state), 0);
    CU_ASSERT_EQUAL(state.kind, OS_OTHER);
    CU_ASSERT_EQUAL(os_position(ends[0]), -1);
    CU_ASSERT_EQUAL(os_wait_to_read(ends[0], 20), 0);
    CU_ASSERT_EQUAL(os_wait_to_write(ends[1], 20), 1);
    CU_ASSERT(os_write_nbytes_max(ends[1]) >= 512);
    CU_ASSERT_EQUAL(os_write(ends[1], "pipe", 4), 4);
    CU_ASSERT_EQUAL(os_wait_to_read(ends[0], 1000), 1);
    CU_ASSERT_EQUAL(os_read(ends[0], found, sizeof found), 4);
    os_close(ends[1]);
    CU_ASSERT_EQUAL(os_wait_to_read(ends[0], 1000), 1);
    CU_ASSERT_EQUAL(os_read(ends[0], found, sizeof found), 0);
    os_close(ends[0]);
    CU_ASSERT_FATAL(make_pipe(ends));
    os_close(ends[0]);
    CU_ASSERT_EQUAL(os_write(ends[1], "lost", 4), -1);
    CU_ASSERT_EQUAL(errno, EPIPE);
    os_close(ends[1]);
}

LMC_TEST(test_holes)
{
    enum { HOLE = 4 << 20 };
    size_t written = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    const int fd = os_create(test_fd, "holes", 0600);
    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(os_write_at(fd, HOLE, "x", 1, &written), 0);
    CU_ASSERT_EQUAL(os_truncate(fd, 2 * HOLE), 0);
    const int result = os_find_data(fd, 0, &begin, &end);
    CU_ASSERT(result == 0 || result == ENOTSUP);
    if (result == 0) {
        CU_ASSERT(begin <= HOLE && HOLE < end && end <= 2 * HOLE);
        CU_ASSERT_EQUAL(os_find_data(fd, HOLE, &begin, &end), 0);
        CU_ASSERT_EQUAL(begin, HOLE);
        CU_ASSERT_EQUAL(os_find_data(fd, 2 * HOLE, &begin, &end), ENXIO);
    }
    CU_ASSERT_EQUAL(os_reserve(fd, 0, HOLE), 0);
    CU_ASSERT_EQUAL(os_reserve(fd, 2 * HOLE, HOLE), 0);
    char byte = 1;
    CU_ASSERT_EQUAL(os_read_at(fd, 0, &byte, 1), 1);
    CU_ASSERT_EQUAL(byte, 0);
    os_close(fd);
    CU_ASSERT_EQUAL(os_unlink(test_fd, "holes"), 0);
}

/* ---- folders ---- */

typedef struct names {
    unsigned count, length_sum, most;
} names;

static int count_name(void *user, const char *name)
{
    names *const names = user;
    names->count++;
    names->length_sum += (unsigned)strlen(name);
    return names->count == names->most ? 77 : 0;
}

static int unlink_name(void *user, const char *name)
{
    return os_unlink(*(const int *)user, name);
}

LMC_TEST(test_folders)
{
    enum { COUNT = 300 };
    char name[64];
    names found = {.count = 0};
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "many", 0700), 0);
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "many", 0700), EEXIST);
    int fd = os_open_own_folder(test_fd, "many");
    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(os_visit_folder(fd, count_name, &found), 0);
    CU_ASSERT_EQUAL(found.count, 0);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "a name that is somewhat longer %03d", i);
        os_close(os_create(fd, name, 0600));
    }
    CU_ASSERT_EQUAL(os_visit_folder(fd, count_name, &found), 0);
    CU_ASSERT_EQUAL(found.count, COUNT);
    CU_ASSERT_EQUAL(found.length_sum, COUNT * strlen(name));
    found = (names){.most = 7};
    CU_ASSERT_EQUAL(os_visit_folder(fd, count_name, &found), 77);
    CU_ASSERT_EQUAL(found.count, 7);
    CU_ASSERT_EQUAL(os_may_remove_from(test_fd, "many"), 0);
    CU_ASSERT_EQUAL(os_may_remove_from(test_fd, "."), 0);
    CU_ASSERT_EQUAL(os_remove_folder(test_fd, "many"), ENOTEMPTY);
    CU_ASSERT_EQUAL(os_visit_folder(fd, unlink_name, &fd), 0);
    os_close(fd);
    CU_ASSERT_EQUAL(os_remove_folder(test_fd, "many"), 0);
    CU_ASSERT(put_file("file", ""));
    CU_ASSERT_EQUAL(os_remove_folder(test_fd, "file"), ENOTDIR);
    CU_ASSERT_EQUAL(os_open_own_folder(test_fd, "file"), -1);
    CU_ASSERT_EQUAL(errno, ENOTDIR);
    CU_ASSERT_EQUAL(os_open_folder(in_root("file")), -1);
    CU_ASSERT_EQUAL(os_unlink(test_fd, "file"), 0);
}

LMC_TEST(test_folder_of)
{
    char path[] = "outer/inner/name";
    const char *name = NULL;
    os_state state;
    os_state meant;
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "outer", 0700), 0);
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "outer/inner", 0700), 0);
    const int fd = os_open_folder_of(test_fd, path, &name);
    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_STRING_EQUAL(name, "name");
    CU_ASSERT_STRING_EQUAL(path, "outer/inner/name");
    CU_ASSERT_EQUAL(os_fstat(fd, &state), 0);
    CU_ASSERT_EQUAL(os_stat(test_fd, "outer/inner", &meant), 0);
    CU_ASSERT(os_is_same_file(&state, &meant));
    os_close(fd);
    char missing[] = "outer/other/name";
    CU_ASSERT_EQUAL(os_open_folder_of(test_fd, missing, &name), -1);
    CU_ASSERT_EQUAL(errno, ENOENT);
    CU_ASSERT_EQUAL(remove_name("outer"), 0);
    CU_ASSERT(!is_there("outer"));
}

LMC_TEST_MAIN_WITH("os files", make_root(&argc, &argv), remove_root())
