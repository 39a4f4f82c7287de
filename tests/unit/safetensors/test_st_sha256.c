/*
 * test_st_sha256.c - SHA-256: the vectors of FIPS 180-4 and NIST's examples, every length around its block in
 * pieces of every size, and the hash that lmc_st_verify() reports.
 */
#include "lmc_test_st.h"

#include "safetensors/restore/sha256.h"

static void to_hex(const unsigned char *digest, char *hex)
{
    for (size_t i = 0; i < ST_SHA256_NBYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

/* Hashes in pieces of `step` bytes. */
static void hash_hex(const void *bytes, size_t nbytes, size_t step, char *hex)
{
    unsigned char digest[ST_SHA256_NBYTES];
    st_sha256 sha256;
    st_sha256_init(&sha256);
    for (size_t at = 0; at < nbytes; at += step) {
        st_sha256_update(&sha256, (const char *)bytes + at, nbytes - at < step ? nbytes - at : step);
        st_sha256_update(&sha256, bytes, 0);
    }
    st_sha256_finish(&sha256, digest);
    to_hex(digest, hex);
}

LMC_TEST(test_vectors)
{
    static const struct {
        const char *text;
        const char *hex;
    } vectors[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmno"
         "pqrst"
         "nopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        char hex[65];
        for (size_t step = 1; step < 120; step++) {
            hash_hex(vectors[i].text, strlen(vectors[i].text), step, hex);
            CU_ASSERT_STRING_EQUAL(hex, vectors[i].hex);
        }
    }
}

LMC_TEST(test_a_million)
{
    static char text[1000000];
    static const size_t steps[] = {1000000, 64, 63, 65, 4097};
    char hex[65];
    memset(text, 'a', sizeof(text));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        hash_hex(text, sizeof(text), steps[i], hex);
        CU_ASSERT_STRING_EQUAL(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}

/* The hashes of 201 texts, one of each length, hashed; the result is that of Python's hashlib. */
LMC_TEST(test_lengths)
{
    static const size_t steps[] = {1, 3, 7, 13, 31, 55, 61, 63, 64, 65, 127, 200};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        st_sha256 all;
        unsigned char digest[ST_SHA256_NBYTES];
        char hex[65];
        st_sha256_init(&all);
        for (size_t nbytes = 0; nbytes <= 200; nbytes++) {
            unsigned char text[201];
            st_sha256 one;
            for (size_t j = 0; j < nbytes; j++)
                text[j] = (unsigned char)(7 * j + nbytes);
            st_sha256_init(&one);
            for (size_t at = 0; at < nbytes; at += steps[i])
                st_sha256_update(&one, text + at, nbytes - at < steps[i] ? nbytes - at : steps[i]);
            st_sha256_finish(&one, digest);
            st_sha256_update(&all, digest, sizeof digest);
        }
        st_sha256_finish(&all, digest);
        to_hex(digest, hex);
        CU_ASSERT_STRING_EQUAL(hex, "e673d33f6940a6d3856d0d305fd88363ae0ba3b96e2411d8ddd5e0dd443f4525");
    }
}

/* ---- verify ---- */

static void expect_hash_of_file(const char *path, const char *of, unsigned threads)
{
    lmc_test_settings options = lmc_test_options(threads);
    lmc_st_result result = LMC_INIT(lmc_st_result);
    size_t nbytes = 0;
    char expected[65];
    char hex[65];
    unsigned char *const bytes = lmc_test_read(of, &nbytes);
    hash_hex(bytes, nbytes, 4096, expected);
    free(bytes);
    options.sha256 = 1;
    CU_ASSERT_EQUAL(lmc_test_verify_as(path, &options, &result, NULL), LMC_OK);
    to_hex(result.sha256, hex);
    CU_ASSERT_STRING_EQUAL(hex, expected);
}

LMC_TEST(test_verify)
{
    static const unsigned char none[ST_SHA256_NBYTES];
    lmc_test_settings options = lmc_test_options(2);
    lmc_st_result result = LMC_INIT(lmc_st_result);
    const char *const plain = lmc_test_path("m.safetensors");
    const char *const archive = lmc_test_path("m.safetensors.lmc");
    lmc_test_write_model(plain, 1);
    CU_ASSERT_EQUAL(lmc_test_convert_as(plain, archive, &options, NULL, NULL), LMC_OK);
    for (unsigned threads = 1; threads <= 4; threads++) {
        expect_hash_of_file(plain, plain, threads);
        expect_hash_of_file(archive, plain, threads);
    }
    /* not asked for, or not verified: zeros */
    memset(&result, 0xff, sizeof result);
    result.struct_size = sizeof result;
    CU_ASSERT_EQUAL(lmc_test_verify_as(archive, &options, &result, NULL), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(result.sha256, none, sizeof none), 0);
    options.sha256 = 1;
    lmc_test_flip(archive, 50000, 1);
    CU_ASSERT_NOT_EQUAL(lmc_test_verify_as(archive, &options, &result, NULL), LMC_OK);
    CU_ASSERT_EQUAL(memcmp(result.sha256, none, sizeof none), 0);
    CU_ASSERT_EQUAL(lmc_test_verify_as(lmc_test_dir, &options, &result, NULL), LMC_ERR_ARG);
    unlink(plain);
    unlink(archive);
}

LMC_TEST_DIR_MAIN("st_sha256")
