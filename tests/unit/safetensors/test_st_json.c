/*
 * test_st_json.c - the JSON scanner and the text functions of liblmc_st, below the level of files.
 */
#include "common/text.h"
#include "lmc_test.h"

#include "safetensors/header/json.h"

static st_json json_of(const char *text)
{
    const st_json json = {.text = (const unsigned char *)text, .nbytes = strlen(text)};
    return json;
}

/* 1 if the text is one value and nothing but white space follows. */
static int is_value(const char *text, unsigned depth)
{
    st_json json = json_of(text);
    if (!st_json_skip_value(&json, depth))
        return 0;
    st_json_skip_space(&json);
    return json.at == json.nbytes;
}

LMC_TEST(test_values)
{
    static const char *const good[] = {"0",       "-0",    "12",           "-1.5",        "1e5",    "1E-5",
                                       "0.25e+7", "true",  "false",        "null",        "\"\"",   "[]",
                                       "{}",      "[1,2]", "{\"a\":[{}]}", " [ 1 , 2 ] ", "\t\r\n1"};
    static const char *const bad[] = {"",
                                      " ",
                                      "01",
                                      "-",
                                      "+1",
                                      "1.",
                                      ".5",
                                      "1e",
                                      "1e+",
                                      "0x1",
                                      "nan",
                                      "tru",
                                      "True",
                                      "[",
                                      "]",
                                      "[1",
                                      "[1,",
                                      "[1,]",
                                      "[,1]",
                                      "{",
                                      "{1:2}",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{,}",
                                      "\"",
                                      "'a'",
                                      "[1 2]",
                                      "1 2",
                                      "\v1",
                                      "\xef\xbb\xbf\x31"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        CU_ASSERT_TRUE(is_value(good[i], 9));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CU_ASSERT_FALSE(is_value(bad[i], 9));
}

LMC_TEST(test_depth)
{
    CU_ASSERT_TRUE(is_value("1", 0));
    CU_ASSERT_FALSE(is_value("[]", 0));
    CU_ASSERT_TRUE(is_value("[[{\"a\":1}]]", 3));
    CU_ASSERT_FALSE(is_value("[[{\"a\":1}]]", 2));
}

/* Every proper prefix of a value is refused (numbers would not be). */
LMC_TEST(test_prefixes)
{
    static const char text[] = "{\"a\\u00e4\\ud83d\\ude00\":[true,null,\"\xe2\x82\xac\",{}],\"b\":[[]]}";
    for (size_t nbytes = 0; nbytes < sizeof(text) - 1; nbytes++) {
        char *const copy = malloc(nbytes + 1); /* exact size: a sanitizer sees reads beyond it */
        CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
        memcpy(copy, text, nbytes);
        st_json json = {.text = (const unsigned char *)copy, .nbytes = nbytes};
        CU_ASSERT_FALSE(st_json_skip_value(&json, 9));
        CU_ASSERT_PTR_NOT_NULL(json.fault);
        CU_ASSERT_TRUE(json.at <= nbytes);
        free(copy);
    }
    CU_ASSERT_TRUE(is_value(text, 9));
}

LMC_TEST(test_integers)
{
    static const struct {
        const char *text;
        int is_good;
        uint64_t value;
    } cases[] = {{"0", 1, 0},
                 {" 7,", 1, 7},
                 {"18446744073709551615", 1, UINT64_MAX},
                 {"18446744073709551616", 0, 0},
                 {"99999999999999999999", 0, 0},
                 {"184467440737095516150", 0, 0},
                 {"-0", 0, 0},
                 {"-1", 0, 0},
                 {"+1", 0, 0},
                 {"00", 0, 0},
                 {"08", 0, 0},
                 {"1.0", 0, 0},
                 {"1e3", 0, 0},
                 {"1E3", 0, 0},
                 {"", 0, 0},
                 {"\"1\"", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        st_json json = json_of(cases[i].text);
        uint64_t value = 0;
        CU_ASSERT_EQUAL(st_json_u64(&json, &value), cases[i].is_good);
        CU_ASSERT_EQUAL(value, cases[i].value);
    }
}

/* Scans and unescapes a string; -1 if it is refused. */
static int unescape(const char *text, char *dst)
{
    st_json json = json_of(text);
    st_span raw;
    if (!st_json_string(&json, &raw))
        return -1;
    const size_t nbytes = st_json_unescape(json.text, raw, NULL);
    CU_ASSERT_TRUE(nbytes + 2 <= raw.nbytes);
    CU_ASSERT_EQUAL(st_json_unescape(json.text, raw, dst), nbytes);
    return (int)nbytes;
}

LMC_TEST(test_strings)
{
    char dst[64];
    CU_ASSERT_EQUAL(unescape("\"\"", dst), 0);
    CU_ASSERT_EQUAL(unescape("\"a\\u0000b\"", dst), 3);
    CU_ASSERT_EQUAL(memcmp(dst, "a\0b", 3), 0);
    CU_ASSERT_EQUAL(unescape("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", dst), 8);
    CU_ASSERT_EQUAL(memcmp(dst, "\"\\/\b\f\n\r\t", 8), 0);
    CU_ASSERT_EQUAL(unescape("\"\\u00E4\\u20ac\\ud83d\\uDE00\"", dst), 9);
    CU_ASSERT_EQUAL(memcmp(dst, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9), 0);
    CU_ASSERT_EQUAL(unescape("\"\\ud83d\"", dst), -1);
    CU_ASSERT_EQUAL(unescape("\"\\ud83d\\n\"", dst), -1);
    CU_ASSERT_EQUAL(unescape("\"\\ude00\"", dst), -1);
    CU_ASSERT_EQUAL(unescape("\"\\u12\"", dst), -1);
    CU_ASSERT_EQUAL(unescape("\"\\", dst), -1);
    CU_ASSERT_EQUAL(unescape("\"\\a\"", dst), -1);
    CU_ASSERT_EQUAL(unescape("\"\x1f\"", dst), -1);
}

LMC_TEST(test_string_is)
{
    st_json json = json_of("\"\\u0061bc\"");
    st_span raw;
    CU_ASSERT_TRUE_FATAL(st_json_string(&json, &raw));
    CU_ASSERT_TRUE(st_json_string_is(json.text, raw, "abc"));
    CU_ASSERT_FALSE(st_json_string_is(json.text, raw, "ABC"));
    CU_ASSERT_FALSE(st_json_string_is(json.text, raw, "ab"));
    CU_ASSERT_FALSE(st_json_string_is(json.text, raw, "abcd"));
}

/* Every code point survives writing and reading; every sequence that is not the shortest is refused. */
LMC_TEST(test_utf8)
{
    for (uint32_t code_point = 0; code_point <= 0x10ffff; code_point++) {
        unsigned char bytes[4] = {0};
        uint32_t back = 0;
        if (code_point >= 0xd800 && code_point <= 0xdfff)
            continue;
        const size_t length = lmc_utf8_write(bytes, code_point);
        if (lmc_utf8_next(bytes, length, &back) != length || back != code_point ||
            (length > 1 && lmc_utf8_next(bytes, length - 1, &back) != 0))
            CU_FAIL("a code point does not survive");
    }
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xc3\x28"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint32_t code_point = 0;
        CU_ASSERT_EQUAL(lmc_utf8_next((const unsigned char *)bad[i], strlen(bad[i]), &code_point), 0);
    }
}

LMC_TEST(test_shown_text)
{
    char dst[32];
    lmc_text_escape(dst, sizeof dst, "a\n\x1b[0m\"\\", 8);
    CU_ASSERT_STRING_EQUAL(dst, "a\\n\\u001b[0m\\\"\\\\");
    lmc_text_escape(dst, sizeof dst, "\xe2\x80\xae\xff\0", 5);
    CU_ASSERT_STRING_EQUAL(dst, "\\u202e\\xff\\u0000");
    lmc_text_escape_but(dst, sizeof dst, "C:\\a\"\n/b", 8, "/\\");
    CU_ASSERT_STRING_EQUAL(dst, "C:\\a\\\"\\n/b");
    lmc_text_escape_but(dst, sizeof dst, "\0\x1b", 2, "/\\");
    CU_ASSERT_STRING_EQUAL(dst, "\\u0000\\u001b");
    lmc_text_escape(dst, sizeof dst, "", 0);
    CU_ASSERT_STRING_EQUAL(dst, "");
    /* whatever is cut, the result fits, is whole and ends in dots */
    const char text[] = "abc\xe2\x82\xac\ndef";
    for (size_t capacity = 4; capacity < 20; capacity++) {
        const size_t length = lmc_text_escape(dst, capacity, text, sizeof(text) - 1);
        CU_ASSERT_EQUAL(length, strlen(dst));
        CU_ASSERT_TRUE(length < capacity);
        CU_ASSERT_TRUE(length == 11 || strcmp(dst + length - 3, "...") == 0);
    }
}

LMC_TEST_MAIN("st_json")
