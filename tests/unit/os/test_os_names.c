/*
 * test_os_names.c - os/os.h: names that move and go, links, paths and patterns.
 */
#include "lmc_test_os.h"

#include "common/compiler.h"
#include "os/path.h"

#include <pthread.h>

/* ---- renaming and removing ---- */

LMC_TEST(test_rename)
{
    CU_ASSERT(put_file("old", "old"));
    CU_ASSERT(put_file("new", "new"));
    const int held = os_open(test_fd, "old");
    const int result = os_rename(test_fd, "new", "old"); /* while it is open */
    CU_ASSERT(result == 0 || (is_wine() && result == EBUSY));
    CU_ASSERT(fd_holds(held, "old"));
    os_close(held);
    CU_ASSERT_EQUAL(result == 0 ? 0 : os_rename(test_fd, "new", "old"), 0);
    CU_ASSERT(file_holds("old", "new"));
    CU_ASSERT(!is_there("new"));
    const int moved = os_open(test_fd, "old");
    CU_ASSERT_EQUAL(os_rename(test_fd, "old", "moved"), 0); /* while it is open itself */
    CU_ASSERT(fd_holds(moved, "new") && file_holds("moved", "new"));
    CU_ASSERT_EQUAL(os_set_permissions(moved, 0444), 0);
    os_close(moved);
    CU_ASSERT(put_file("next", "next"));
    CU_ASSERT_EQUAL(os_rename(test_fd, "next", "moved"), 0); /* one that is read-only */
    CU_ASSERT(file_holds("moved", "next"));
    CU_ASSERT_EQUAL(os_rename(test_fd, "not there", "moved"), ENOENT);
    CU_ASSERT_EQUAL(os_rename(OS_HERE, in_root("moved"), in_root("Moved")), 0);
    CU_ASSERT(file_holds("Moved", "next"));
    CU_ASSERT_EQUAL(os_rename(test_fd, "Moved", "Moved"), 0);
    CU_ASSERT_EQUAL(os_unlink(test_fd, "Moved"), 0);
}

#define RACES 150

/* Renames the file to "wanted". Returns NULL, or the name if that fails. */
static void *rename_to_wanted(void *name)
{
    return os_rename(test_fd, name, "wanted") == 0 ? NULL : name;
}

/* Two rename to the same name, which something has or not: each replaces what it finds. */
LMC_TEST(test_rename_races)
{
    static char names[2][4] = {"one", "two"};
    for (int i = 0; i < RACES; i++) {
        pthread_t other;
        void *failed = NULL;
        CU_ASSERT(put_file("one", "1") && put_file("two", "2"));
        CU_ASSERT_EQUAL_FATAL(pthread_create(&other, NULL, rename_to_wanted, names[1]), 0);
        CU_ASSERT_PTR_NULL(rename_to_wanted(names[0]));
        CU_ASSERT_EQUAL(pthread_join(other, &failed), 0);
        CU_ASSERT_PTR_NULL(failed);
        CU_ASSERT(file_holds("wanted", "1") || file_holds("wanted", "2"));
        if (i % 2 == 0)
            CU_ASSERT_EQUAL(os_unlink(test_fd, "wanted"), 0);
    }
    CU_ASSERT_EQUAL(os_unlink(test_fd, "wanted"), 0);
}

LMC_TEST(test_rename_new)
{
    CU_ASSERT(put_file("one", "1"));
    CU_ASSERT(put_file("two", "2"));
    CU_ASSERT_EQUAL(os_rename_new(test_fd, "one", "two"), EEXIST);
    CU_ASSERT(file_holds("one", "1") && file_holds("two", "2"));
    CU_ASSERT_EQUAL(os_rename_new(test_fd, "one", "three"), 0);
    CU_ASSERT(!is_there("one") && file_holds("three", "1"));
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "folder", 0700), 0);
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "empty", 0700), 0);
    CU_ASSERT_EQUAL(os_rename_new(test_fd, "folder", "empty"), EEXIST);
    CU_ASSERT_EQUAL(os_rename_new(test_fd, "two", "empty"), EEXIST);
    CU_ASSERT_EQUAL(os_rename_new(test_fd, "folder", "full"), 0);
    CU_ASSERT_EQUAL(os_rename_new(test_fd, "two", "full/two"), 0);
    CU_ASSERT(file_holds("full/two", "2"));
    const int result = os_exchange(test_fd, "full", "three");
    CU_ASSERT(result == 0 || result == ENOSYS || result == EINVAL);
    if (result == 0)
        CU_ASSERT_EQUAL(os_exchange(test_fd, "full", "three"), 0);
    CU_ASSERT(file_holds("three", "1") && file_holds("full/two", "2"));
    CU_ASSERT_EQUAL(remove_name("full"), 0);
    CU_ASSERT_EQUAL(remove_name("empty"), 0);
    CU_ASSERT_EQUAL(remove_name("three"), 0);
}

LMC_TEST(test_rename_folders)
{
    os_state by_fd;
    os_state by_name;
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "empty", 0700), 0);
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "full", 0700), 0);
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "third", 0700), 0);
    CU_ASSERT(put_file("full/file", "in it") && put_file("file", "out"));
    const int held = os_open_own_folder(test_fd, "full");
    CU_ASSERT_EQUAL(os_rename(test_fd, "file", "empty"), EISDIR);
    CU_ASSERT_EQUAL(os_rename(test_fd, "empty", "file"), ENOTDIR);
    CU_ASSERT_EQUAL(os_rename(test_fd, "third", "full"), ENOTEMPTY);
    CU_ASSERT(is_there("third") && file_holds("full/file", "in it"));
    CU_ASSERT_EQUAL(os_rename(test_fd, "full", "empty"), 0); /* while it is open itself */
    CU_ASSERT(!is_there("full") && file_holds("empty/file", "in it"));
    CU_ASSERT_EQUAL(os_fstat(held, &by_fd), 0);
    CU_ASSERT_EQUAL(os_lstat(test_fd, "empty", &by_name), 0);
    CU_ASSERT(os_is_same_file(&by_fd, &by_name));
    const int inner = os_open(held, "file");
    CU_ASSERT(inner >= 0 && fd_holds(inner, "in it"));
    os_close(inner);
    CU_ASSERT_EQUAL(os_rename(test_fd, "empty", "fresh"), 0);
    CU_ASSERT(file_holds("fresh/file", "in it"));
    os_close(held);
    CU_ASSERT_EQUAL(remove_name("fresh"), 0);
    CU_ASSERT_EQUAL(remove_name("third"), 0);
    CU_ASSERT_EQUAL(remove_name("file"), 0);
}

LMC_TEST(test_unlink)
{
    CU_ASSERT(put_file("gone", "still read"));
    const int held = os_open(test_fd, "gone");
    CU_ASSERT_EQUAL(os_unlink(test_fd, "gone"), 0);
    CU_ASSERT(fd_holds(held, "still read"));
    if (!is_wine()) { /* the name is free at once */
        CU_ASSERT(!is_there("gone"));
        CU_ASSERT(put_file("gone", "another"));
        CU_ASSERT(fd_holds(held, "still read"));
        CU_ASSERT(file_holds("gone", "another"));
        CU_ASSERT_EQUAL(os_unlink(test_fd, "gone"), 0);
    }
    os_close(held);
    CU_ASSERT(!is_there("gone"));
    CU_ASSERT_EQUAL(os_unlink(test_fd, "gone"), ENOENT);
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "folder", 0700), 0);
    const int result = os_unlink(test_fd, "folder");
    CU_ASSERT(result == EISDIR || result == EPERM);
    CU_ASSERT_EQUAL(os_remove_folder(test_fd, "folder"), 0);
    CU_ASSERT_EQUAL(os_remove_folder(test_fd, "folder"), ENOENT);
}

LMC_TEST(test_second_names)
{
    os_state one;
    os_state two;
    CU_ASSERT(put_file("one", "shared"));
    const int result = os_link(test_fd, "one", test_fd, "two");
    CU_ASSERT_EQUAL(result, 0);
    CU_ASSERT_EQUAL(os_lstat(test_fd, "one", &one), 0);
    CU_ASSERT_EQUAL(os_lstat(test_fd, "two", &two), 0);
    CU_ASSERT(os_is_same_file(&one, &two));
    CU_ASSERT_EQUAL(one.name_count, 2);
    CU_ASSERT_EQUAL(os_link(test_fd, "one", test_fd, "two"), EEXIST);
    CU_ASSERT_EQUAL(os_link(OS_HERE, in_root("one"), test_fd, "three"), 0);
    CU_ASSERT_EQUAL(os_link(test_fd, ".", test_fd, "four"), EPERM);
    CU_ASSERT_EQUAL(os_unlink(test_fd, "one"), 0);
    CU_ASSERT(file_holds("two", "shared") && file_holds("three", "shared"));
    CU_ASSERT_EQUAL(os_unlink(test_fd, "two"), 0);
    CU_ASSERT_EQUAL(os_unlink(test_fd, "three"), 0);
}

/* ---- links ---- */

/* The name is a link to the folder "real", which has a file. */
static void check_folder_link(const char *name)
{
    char path[64];
    const char *last = NULL;
    os_state state;
    CU_ASSERT_EQUAL(os_lstat(test_fd, name, &state), 0);
    CU_ASSERT_EQUAL(state.kind, OS_LINK);
    CU_ASSERT_EQUAL(os_stat(test_fd, name, &state), 0);
    CU_ASSERT_EQUAL(state.kind, OS_FOLDER);
    CU_ASSERT_EQUAL(os_open_own_folder(test_fd, name), -1);
    CU_ASSERT(errno == ENOTDIR || errno == ELOOP);
    snprintf(path, sizeof path, "%s/file", name);
    CU_ASSERT_EQUAL(os_open_folder_of(test_fd, path, &last), -1);
    CU_ASSERT(file_holds(path, "meant"));
    const int fd = os_open_folder(in_root(name));
    CU_ASSERT(fd >= 0);
    os_close(fd);
    char *const real = os_real_path(in_root(name));
    CU_ASSERT(real && strcmp(real + strlen(real) - 5, "/real") == 0);
    free(real);
    CU_ASSERT_NOT_EQUAL(os_remove_folder(test_fd, name), 0);
    CU_ASSERT_EQUAL(os_unlink(test_fd, name), 0);
    CU_ASSERT(file_holds("real/file", "meant"));
}

LMC_TEST(test_links)
{
    os_state state;
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "real", 0700), 0);
    CU_ASSERT(put_file("real/file", "meant"));
    const int has_links = make_link("real/file", in_root("link"), 0);
    if (has_links) {
        CU_ASSERT_EQUAL(os_lstat(test_fd, "link", &state), 0);
        CU_ASSERT_EQUAL(state.kind, OS_LINK);
        CU_ASSERT(file_holds("link", "meant"));
        CU_ASSERT_EQUAL(os_open_own(test_fd, "link"), -1);
        CU_ASSERT_EQUAL(errno, ELOOP);
        CU_ASSERT_EQUAL(os_open_or_create(test_fd, "link"), -1);
        CU_ASSERT_EQUAL(os_create(test_fd, "link", 0600), -1);
        CU_ASSERT_EQUAL(errno, EEXIST);
        CU_ASSERT_EQUAL(os_rename(test_fd, "link", "moved"), 0);
        CU_ASSERT_EQUAL(os_unlink(test_fd, "moved"), 0);
        CU_ASSERT(make_link("nowhere", in_root("link"), 0));
        CU_ASSERT_EQUAL(os_stat(test_fd, "link", &state), ENOENT);
        CU_ASSERT_EQUAL(os_lstat(test_fd, "link", &state), 0);
        CU_ASSERT_EQUAL(os_unlink(test_fd, "link"), 0);
        CU_ASSERT(make_link("real", in_root("way"), 1));
        check_folder_link("way");
    }
#ifdef _WIN32
    const int has_junctions = make_junction(in_root("real"), in_root("joined"));
    CU_ASSERT(has_junctions || is_wine());
    if (has_junctions)
        check_folder_link("joined");
#endif
    CU_ASSERT_EQUAL(remove_name("real"), 0);
    if (!has_links)
        LMC_TEST_SKIP("symbolic links cannot be made here");
}

/* ---- what can be a name ---- */

LMC_TEST(test_names_of_windows)
{
    static const char *const bad[] = {
        "CON",  "con.txt", "Prn",       "aux.tar.gz", "NUL",    "nul ",     "COM1",           "com9.x",
        "LPT3", "ab:c",    "ends.",     "ends ",      "a<b",    "a>b",      "a\"b",           "a|b",
        "a?b",  "a*b",     "tab\there", "a:b:c",      "CONIN$", "conout$.", "com\xC2\xB9.txt"};
    static const char *const good[] = {"con1", "xcon", "com",   "com10",  "lpt",         "nul_",
                                       ".x",   "..x",  "a.b.c", " space", "com\xC2\xB4", "c"};
    char path[64];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CU_ASSERT_EQUAL(os_name_fault(bad[i]) != NULL, IS_WINDOWS);
        snprintf(path, sizeof path, "x/%s/", bad[i]);
        CU_ASSERT_EQUAL(os_name_fault(path) != NULL, IS_WINDOWS);
        snprintf(path, sizeof path, "%s/below", bad[i]);
        CU_ASSERT_PTR_NULL(os_name_fault(path));
        CU_ASSERT_EQUAL(os_components_fault(path) != NULL, IS_WINDOWS);
        if (!IS_WINDOWS)
            continue;
        CU_ASSERT_EQUAL(os_create(test_fd, bad[i], 0600), -1);
        CU_ASSERT_EQUAL(errno, EINVAL);
        CU_ASSERT_EQUAL(os_create(OS_HERE, in_root(bad[i]), 0600), -1);
        CU_ASSERT_EQUAL(errno, EINVAL);
        CU_ASSERT_EQUAL(os_make_folder(test_fd, bad[i], 0700), EINVAL);
        CU_ASSERT_EQUAL(os_open(test_fd, bad[i]), -1);
        CU_ASSERT_EQUAL(errno, ENOENT);
        CU_ASSERT(put_file("fine", ""));
        CU_ASSERT_EQUAL(os_rename(test_fd, "fine", bad[i]), EINVAL);
        CU_ASSERT_EQUAL(os_link(test_fd, "fine", test_fd, bad[i]), EINVAL);
        CU_ASSERT_EQUAL(os_unlink(test_fd, "fine"), 0);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        CU_ASSERT_PTR_NULL(os_name_fault(good[i]));
        CU_ASSERT_PTR_NULL(os_components_fault(good[i]));
        CU_ASSERT(put_file(good[i], "x") && file_holds(good[i], "x"));
        CU_ASSERT_EQUAL(os_unlink(test_fd, good[i]), 0);
    }
    CU_ASSERT_PTR_NULL(os_name_fault(in_root("x")));
    CU_ASSERT_PTR_NULL(os_components_fault("a/b c/d.e"));
    CU_ASSERT_EQUAL(os_components_fault("a\\b") != NULL, IS_WINDOWS);
    CU_ASSERT_EQUAL(os_components_fault("a/C:/b") != NULL, IS_WINDOWS);
}

LMC_TEST(test_no_utf8)
{
    if (!IS_WINDOWS)
        LMC_TEST_SKIP("names need not be UTF-8 here");
    CU_ASSERT_EQUAL(os_create(test_fd, "a\xFF", 0600), -1);
    CU_ASSERT_EQUAL(errno, EILSEQ);
    CU_ASSERT_EQUAL(os_open(test_fd, "\xC3"), -1);
    CU_ASSERT_EQUAL(errno, EILSEQ);
}

/* ---- paths ---- */

LMC_TEST(test_paths)
{
    char *const root = os_real_path(test_root);
    CU_ASSERT_PTR_NOT_NULL_FATAL(root);
    CU_ASSERT(os_root_nbytes(root) > 0);
    CU_ASSERT_PTR_NULL(strchr(root, '\\'));
    CU_ASSERT(put_file("file", ""));
    char *const file = os_real_path(in_root("./x/..//file"));
    char *const same = os_real_path(in_root("file"));
    CU_ASSERT_PTR_NOT_NULL_FATAL(same);
    CU_ASSERT(strncmp(same, root, strlen(root)) == 0 && strcmp(same + strlen(root), "/file") == 0);
    CU_ASSERT(IS_WINDOWS ? file && strcmp(file, same) == 0 : !file); /* there is no x */
    free(file);
    free(same);
    free(root);
    CU_ASSERT_PTR_NULL(os_real_path(in_root("not there")));
    CU_ASSERT_EQUAL(errno, ENOENT);
    char *const here = os_real_path(".");
    CU_ASSERT(here && os_root_nbytes(here) > 0);
    free(here);
    CU_ASSERT_EQUAL(os_root_nbytes("a/b"), 0);
    CU_ASSERT_EQUAL(os_root_nbytes(""), 0);
    CU_ASSERT_EQUAL(os_root_nbytes("."), 0);
    CU_ASSERT_EQUAL(os_root_nbytes("/a"), 1);
    CU_ASSERT_EQUAL(os_root_nbytes("C:/a"), IS_WINDOWS ? 3 : 0);
    CU_ASSERT_EQUAL(os_root_nbytes("c:\\a"), IS_WINDOWS ? 3 : 0);
    CU_ASSERT_EQUAL(os_root_nbytes("C:a"), 0);
    CU_ASSERT_EQUAL(os_root_nbytes("\\\\server\\share\\a"), IS_WINDOWS ? 15 : 0);
    CU_ASSERT_EQUAL(os_root_nbytes("//server/share"), IS_WINDOWS ? 14 : 1);
    CU_ASSERT_EQUAL(os_root_nbytes("\\\\?\\C:\\a"), IS_WINDOWS ? 7 : 0);
    CU_ASSERT_PTR_NOT_NULL(strchr(os_separators, '/'));
    CU_ASSERT_EQUAL(strchr(os_separators, '\\') != NULL, IS_WINDOWS);
    CU_ASSERT(os_name_nbytes_max(test_root) >= 255);
    CU_ASSERT(os_path_nbytes_max() >= 255);
    CU_ASSERT_EQUAL(os_unlink(test_fd, "file"), 0);
}

LMC_TEST(test_paths_within)
{
    static const struct {
        const char *inner, *outer;
        int is_within;
    } cases[] = {{"/usr", "/usr", 1},     {"/usr/lib", "/usr", 1},    {"/usrs", "/usr", 0},
                 {"/usr", "/usr/lib", 0}, {"/usr", "/", 1},           {"/", "/", 1},
                 {"C:/a", "C:/", 1},      {"C:/", "C:/", 1},          {"D:/a", "C:/", 0},
                 {"C:/ab", "C:/a", 0},    {"C:/usr/lib", "C:/usr", 1}};
    for (size_t i = 0; i < LMC_COUNT(cases); i++)
        CU_ASSERT_EQUAL(lmc_path_is_within(cases[i].inner, cases[i].outer), cases[i].is_within);
}

LMC_TEST(test_paths_of_windows)
{
    if (!IS_WINDOWS)
        LMC_TEST_SKIP("paths of Windows");
    char *const root = os_real_path(test_root);
    char path[2048];
    CU_ASSERT_PTR_NOT_NULL_FATAL(root);
    CU_ASSERT(put_file("file", "text"));
    os_state state;
    snprintf(path, sizeof path, "//?/%s/file", root);
    CU_ASSERT_EQUAL(os_stat(OS_HERE, path, &state), 0);
    for (char *at = path; *at != '\0'; at++)
        *at = *at == '/' ? '\\' : *at;
    CU_ASSERT_EQUAL(os_stat(OS_HERE, path, &state), 0);
    CU_ASSERT_EQUAL(os_stat(OS_HERE, path + 4, &state), 0);
    char *const here = os_real_path(".");
    const int is_same_drive = here && here[0] == root[0];
    CU_ASSERT_EQUAL(os_stat(OS_HERE, path + 6, &state), is_same_drive ? 0 : ENOENT);
    free(here);
    snprintf(path, sizeof path, "%.2s", root);
    CU_ASSERT(os_is_folder(path)); /* the root of the drive */
    CU_ASSERT_EQUAL(os_stat(test_fd, "../x", &state), EINVAL);
    CU_ASSERT_EQUAL(os_stat(OS_HERE, "//?/Q:/none", &state), ENOENT);
    CU_ASSERT_EQUAL(os_unlink(test_fd, "file"), 0);
    free(root);
}

/* As many folders in each other as a path has room for. */
LMC_TEST(test_long_paths)
{
    enum { STEP = 200 };
    /* Wine has the paths of the system below */
    const size_t most = os_path_nbytes_max() < 32000 || is_wine() ? 3800 : 30000;
    char *const path = calloc(1, most + STEP + 16);
    CU_ASSERT_PTR_NOT_NULL_FATAL(path);
    snprintf(path, most, "%s/deep", test_root);
    size_t length = strlen(path);
    int result = os_make_folder(OS_HERE, path, 0700);
    while (result == 0 && length + STEP + 8 < most) {
        path[length] = '/';
        memset(path + length + 1, 'd', STEP);
        result = os_make_folder(OS_HERE, path, 0700);
        length += result == 0 ? STEP + 1 : 0;
    }
    path[length] = '\0';
    printf("(%u bytes) ", (unsigned)length);
    CU_ASSERT_EQUAL(result, 0);
    CU_ASSERT(length > most - 2 * STEP);
    strcpy(path + length, "/f");
    const int fd = os_create(OS_HERE, path, 0600);
    os_state state;
    CU_ASSERT(fd >= 0);
    os_close(fd);
    CU_ASSERT_EQUAL(os_stat(OS_HERE, path, &state), 0);
    char *const real = os_real_path(path);
    CU_ASSERT(real ? strcmp(real + strlen(real) - STEP, path + length + 2 - STEP) == 0 : is_wine());
    free(real);
    CU_ASSERT_EQUAL(os_unlink(OS_HERE, path), 0);
    free(path);
    CU_ASSERT_EQUAL(remove_name("deep"), 0);
}

/* ---- patterns ---- */

LMC_TEST(test_patterns)
{
    static const struct {
        const char *pattern, *path;
        int matches;
    } cases[] = {
        {"", "", 1},
        {"", "a", 0},
        {"*", "", 1},
        {"*", "a/b", 0},
        {"*/*", "a/b", 1},
        {"a*c", "abc", 1},
        {"a*c", "ab", 0},
        {"*.safetensors", "model.safetensors", 1},
        {"*a*b*", "xxaxxbxx", 1},
        {"*a*b*c", "aabbcbc", 1},
        {"?", "/", 0},
        {"?b", "ab", 1},
        {"?", "", 0},
        {"[abc]", "b", 1},
        {"[a-c]x", "bx", 1},
        {"[!a-c]", "b", 0},
        {"[^a-c]", "d", 1},
        {"[]a]", "]", 1},
        {"[a-]", "-", 1},
        {"[!]]", "]", 0},
        {"[/]", "/", 0},
        {"[a", "[a", 1},
        {"[\\]]", "]", 1},
        {"\\*", "*", 1},
        {"\\*", "a", 0},
        {"a\\b", "ab", 1},
        {"a/*/c", "a/b/c", 1},
        {"a/*/c", "a/b/d/c", 0},
        {"*b/c", "ab/b/c", 0},
        {"*.[ch]", "x.h", 1},
        {"layers.*.w?", "layers.10.wq", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int found = os_matches(cases[i].pattern, cases[i].path);
        if (found != cases[i].matches)
            printf("'%s' '%s': %d\n", cases[i].pattern, cases[i].path, found);
        CU_ASSERT_EQUAL(found, cases[i].matches);
    }
}

LMC_TEST_MAIN_WITH("os names", make_root(&argc, &argv), remove_root())
