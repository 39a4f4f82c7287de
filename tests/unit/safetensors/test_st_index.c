/*
 * test_st_index.c - indexes of models in several files: which names are ones, which values are accepted, and where a
 * fault is said to be.
 */
#include "lmc_test_st.h"

#include "safetensors/header/json.h"
#include "safetensors/header/shard_index.h"

#include <errno.h>

static const char *path;

static lmc_status check(const char *text, size_t nbytes, lmc_st_diag *diag)
{
    lmc_test_write(path, text, nbytes);
    st_diag_init(diag, "test");
    return st_index_check(&lmc_memory_default, path, "", diag);
}

LMC_TEST(test_begin)
{
    path = lmc_test_path("model.safetensors.index.json");
    lmc_test_write(lmc_test_path("a.safetensors"), "", 0);
    lmc_test_write(lmc_test_path("a 'b'"), "", 0);
    CU_ASSERT_EQUAL(mkdir(lmc_test_path("folder"), 0755), 0);
    lmc_test_write(lmc_test_path("folder/inner"), "", 0);
}

LMC_TEST(test_names)
{
    static const struct {
        const char *name;
        int is_index;
    } names[] = {{"model.safetensors.index.json", 1},
                 {"a/b/model.safetensors.index.fp16.json", 1},
                 {".safetensors.index.json", 1},
                 {"pytorch_model.bin.index.json", 1},
                 {"a/pytorch_model.bin.index.fp16.json", 1},
                 {"model.bin.index", 0},
                 {"model.index.json", 0},
                 {"model.safetensors.index", 0},
                 {"model.safetensors.json", 0},
                 {"x.safetensors.index/config.json", 0},
                 {"index.json", 0},
                 {".json", 0},
                 {"", 0}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CU_ASSERT_EQUAL(st_index_is_name(names[i].name), names[i].is_index);
}

LMC_TEST(test_accepted)
{
    static const char *const texts[] = {
        "{\"weight_map\":{}}",
        "{\"weight_map\":{\"x\":\"a.safetensors\"}}",
        " { \"weight_map\" : { \"x\" : \"a.safetensors\" , \"y\" : \"a.safetensors\" } } \n",
        "{\"metadata\":{\"n\":[[[{}]]]},\"weight_map\":{\"x\":\"a.safetensors\"},\"z\":null}",
        "{\"weight\\u005fmap\":{\"x\":\"a.s\\u0061fetensors\"}}",
        "{\"weight_map\":{\"x\":\"\\u0061 'b'\"}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        CU_ASSERT_EQUAL(check(texts[i], strlen(texts[i]), &diag), LMC_OK);
        CU_ASSERT_EQUAL(diag.status, LMC_OK);
    }
}

LMC_TEST(test_refused)
{
    static const char *const texts[] = {
        "",
        "[]",
        "null",
        "{",
        "{}",
        "{\"metadata\":{}}",
        "{\"weight_map\":{}",
        "{\"weight_map\":{}} x",
        "{\"weight_map\":[]}",
        "{\"weight_map\":\"a.safetensors\"}",
        "{\"weight_map\":{\"x\":1}}",
        "{\"weight_map\":{\"x\":\"a.safetensors\",}}",
        "{\"weight_map\":{\"x\":\"a.safetensors\"}",
        "{\"weight_map\":{\"x\" \"a.safetensors\"}}",
        "{\"weight_map\":{\"x\":\"\"}}",
        "{\"weight_map\":{\"x\":\".\"}}",
        "{\"weight_map\":{\"x\":\"..\"}}",
        "{\"weight_map\":{\"x\":\"../a.safetensors\"}}",
        "{\"weight_map\":{\"x\":\"/a.safetensors\"}}",
        "{\"weight_map\":{\"x\":\"folder/inner\"}}",
        "{\"weight_map\":{\"x\":\"folder\\\\inner\"}}",
        "{\"weight_map\":{\"x\":\"folder\"}}",
        "{\"weight_map\":{\"x\":\"missing\"}}",
        "{\"weight_map\":{\"x\":\"a.safetensors\\u0000\"}}",
        "{\"weight_map\":{\"x\":\"a.safetensors\",\"y\":\"missing\"}}",
        "{\"weight_map\":{\"x\":\"\xff\"}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        const lmc_status status = check(texts[i], strlen(texts[i]), &diag);
        CU_ASSERT_EQUAL(status, LMC_ERR_HEADER);
        CU_ASSERT_EQUAL(diag.status, LMC_ERR_HEADER);
        CU_ASSERT_STRING_EQUAL(diag.file, path);
        CU_ASSERT_TRUE(diag.text[0] != '\0');
        CU_ASSERT_TRUE(diag.offset == LMC_ST_NO_OFFSET || diag.offset <= strlen(texts[i]));
    }
}

/* Cut anywhere it is refused; with a byte changed it is refused or accepted, and nothing is read beyond it. */
LMC_TEST(test_cut_and_changed)
{
    static const char text[] = "{\"metadata\":{\"n\":[1.5e3,true]},\"weight_map\":{\"x\":\"a.safetensors\"}}";
    const size_t nbytes = sizeof(text) - 1;
    char changed[sizeof(text)];
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    for (size_t i = 0; i < nbytes; i++) {
        CU_ASSERT_EQUAL(check(text, i, &diag), LMC_ERR_HEADER);
        memcpy(changed, text, sizeof(text));
        for (unsigned bit = 0; bit < 8; bit++) {
            changed[i] = (char)(text[i] ^ (1 << bit));
            const lmc_status status = check(changed, nbytes, &diag);
            CU_ASSERT_TRUE(status == LMC_OK || status == LMC_ERR_HEADER);
        }
    }
}

LMC_TEST(test_depth)
{
    static char text[4096];
    static const char end[] = ",\"weight_map\":{}}";
    for (size_t depth = 1; depth < 200; depth += 9) {
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        size_t length = (size_t)snprintf(text, sizeof(text), "{\"x\":");
        memset(text + length, '[', depth);
        memset(text + length + depth, ']', depth);
        length += 2 * depth;
        memcpy(text + length, end, sizeof end);
        CU_ASSERT_EQUAL(check(text, length + sizeof end - 1, &diag), depth <= 64 ? LMC_OK : LMC_ERR_HEADER);
    }
}

LMC_TEST(test_no_file)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    st_diag_init(&diag, "test");
    CU_ASSERT_EQUAL(st_index_check(&lmc_memory_default, lmc_test_path("none"), "", &diag), LMC_ERR_IO);
    CU_ASSERT_EQUAL(diag.os_errno, ENOENT);
    CU_ASSERT_EQUAL(st_index_check(&lmc_memory_default, lmc_test_dir, "", &diag), LMC_ERR_ARG);
}

LMC_TEST(test_end)
{
    unlink(path);
    unlink(lmc_test_path("a.safetensors"));
    unlink(lmc_test_path("a 'b'"));
    lmc_test_remove(lmc_test_path("folder"));
}

LMC_TEST_DIR_MAIN("st_index")
