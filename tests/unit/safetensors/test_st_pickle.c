/*
 * test_st_pickle.c - pickles, read as graphs, and what the objects in them say of a torch archive's storages.
 */
#include "lmc_test.h"
#include "lmc_test_zip.h"

#include "safetensors/container/torch_object.h"

#define PROTO "\x80\2"
#define TEXT(nbytes, text) "X" nbytes "\0\0\0" text
#define STORAGE_BEGIN "(" TEXT("\7", "storage") "ctorch\n"
#define STORAGE_END TEXT("\3", "cpu") "K\1tQ"
#define V2 "ctorch._utils\n_rebuild_tensor_v2\n"

/* 1 understood, 0 not; the call itself never fails. */
static int is_understood(const void *bytes, size_t nbytes)
{
    st_pickle pickle;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    int understood = 0;
    /* of the exact size, for the sanitizers */
    unsigned char *const copy = malloc(nbytes + 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
    memcpy(copy, bytes, nbytes);
    unsigned char *const exact = realloc(copy, nbytes > 0 ? nbytes : 1);
    CU_ASSERT_EQUAL(st_pickle_read(&pickle, &lmc_memory_default, NULL, exact, nbytes, &understood, &diag),
                    LMC_OK);
    st_pickle_free(&pickle);
    free(exact);
    return understood;
}

#define IS_UNDERSTOOD(literal) is_understood(literal, sizeof(literal) - 1)

/* ---- storages of an object ---- */

#define STORAGE_COUNT 4

/* Finds storages "0" to "3", of 24 bytes each. Free with st_storages_free(). */
static int find(const void *bytes, size_t nbytes, const char *root, st_storages *storages)
{
    static const char keys[] = "0123";
    st_pickle pickle;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    int understood = 0;
    int is_unlike = 0;
    *storages = (st_storages){.memory = &lmc_memory_default, .count = STORAGE_COUNT};
    storages->list = st_allocate_zeroed(storages->memory, STORAGE_COUNT, sizeof *storages->list);
    for (size_t i = 0; i < STORAGE_COUNT; i++) {
        storages->list[i].key = (st_string){keys + i, 1};
        storages->list[i].nbytes = 24;
    }
    CU_ASSERT_EQUAL(st_storages_build_index(storages, &is_unlike, &diag), LMC_OK);
    CU_ASSERT_TRUE(is_unlike);
    CU_ASSERT_EQUAL(st_pickle_read(&pickle, &lmc_memory_default, NULL, bytes, nbytes, &understood, &diag),
                    LMC_OK);
    if (understood)
        CU_ASSERT_EQUAL(st_storages_find(storages, &pickle, (st_string){root, strlen(root)}, &diag), LMC_OK);
    st_pickle_free(&pickle);
    return understood;
}

#define FIND(literal, storages) CU_ASSERT_TRUE(find(literal, sizeof(literal) - 1, "", storages))

static void check_path(const st_storages *storages, size_t index, const char *path)
{
    const st_storage *const storage = &storages->list[index];
    const st_string found = st_storages_path(storages, storage->path_at, storage->path_nbytes);
    CU_ASSERT_TRUE(st_string_equals(found, (st_string){path, strlen(path)}));
}

static void check_tensor(const st_storages *storages, size_t index, const char *path, lmc_dtype dtype)
{
    CU_ASSERT_TRUE(storages->list[index].is_found);
    CU_ASSERT_TRUE(storages->list[index].has_dtype);
    CU_ASSERT_EQUAL(storages->list[index].type.dtype, dtype);
    check_path(storages, index, path);
}

static int has_dims(const st_storages *storages, size_t index, size_t rank, const uint64_t *dims)
{
    const st_storage *const storage = &storages->list[index];
    if (storage->covering == 0)
        return 0;
    const st_storage_view *const view = st_storages_view(storages, storage->covering - 1);
    return view->rank == rank && memcmp(st_storages_dims(storages, view), dims, rank * sizeof *dims) == 0;
}

/* The view number `at` of a storage has this path and offset, and `numbers` are its dimensions and strides. */
static void check_view(const st_storages *storages, size_t index, unsigned at, const char *path,
                       uint64_t offset, size_t rank, const uint64_t *numbers)
{
    uint32_t next = storages->list[index].first;
    for (; at > 0 && next > 0; at--)
        next = st_storages_view(storages, next - 1)->next;
    CU_ASSERT_TRUE_FATAL(next > 0);
    const st_storage_view *const view = st_storages_view(storages, next - 1);
    const st_string found = st_storages_path(storages, view->path_at, view->path_nbytes);
    CU_ASSERT_TRUE(st_string_equals(found, (st_string){path, strlen(path)}));
    CU_ASSERT(!view->note && view->offset == offset && view->rank == rank);
    CU_ASSERT_EQUAL(memcmp(st_storages_dims(storages, view), numbers, 2 * rank * sizeof *numbers), 0);
}

/* A tensor of 2 x 3 floats on storage `key`, in C order. */
#define TENSOR(key) \
    V2 "(" STORAGE_BEGIN "FloatStorage\n" TEXT("\1", key) STORAGE_END "K\0K\2K\3\x86K\3K\1\x86\x89NtR"

LMC_TEST(test_state_dict)
{
    st_storages storages;
    FIND(PROTO "}(" TEXT("\1", "w") TENSOR("0") "K\7" TENSOR("1") "N" TENSOR("2") "u.", &storages);
    check_tensor(&storages, 0, "w", LMC_DTYPE_F32);
    CU_ASSERT_TRUE(has_dims(&storages, 0, 2, (const uint64_t[]){2, 3}));
    check_tensor(&storages, 1, "7", LMC_DTYPE_F32);
    check_tensor(&storages, 2, "2", LMC_DTYPE_F32); /* the key None: the position */
    CU_ASSERT_FALSE(storages.list[3].is_found);
    st_storages_free(&storages);
}

LMC_TEST(test_paths)
{
    st_storages storages;
    /* a list in a dict, a module's parameters, the root of constants */
    CU_ASSERT_TRUE(find(PROTO "}" TEXT("\1", "a") "](K\1" TENSOR("0") "es.",
                        sizeof(PROTO "}" TEXT("\1", "a") "](K\1" TENSOR("0") "es.") - 1, "constants",
                        &storages));
    check_path(&storages, 0, "constants.a.1");
    st_storages_free(&storages);
    FIND(PROTO "cm\nM\n)\x81}" TEXT("\13", "_parameters") "}" TEXT("\1", "w") TENSOR("1") "ssb.", &storages);
    check_path(&storages, 1, "w");
    st_storages_free(&storages);
    FIND(PROTO TENSOR("2") ".", &storages);
    CU_ASSERT_TRUE(storages.list[2].is_found);
    check_path(&storages, 2, "");
    st_storages_free(&storages);
}

LMC_TEST(test_views)
{
    st_storages storages;
    /* the transpose, then the whole: name and shape of that; an offset; what a name shares */
    FIND(PROTO "(" V2 "(" STORAGE_BEGIN "FloatStorage\n" TEXT("\1", "0") STORAGE_END
         "K\0K\3K\2\x86K\1K\3\x86\x89NtR" TENSOR("0") V2 "(" STORAGE_BEGIN "FloatStorage\n" TEXT("\1", "1")
             STORAGE_END "K\1K\2K\2\x86K\2K\1\x86\x89NtRt.",
         &storages);
    check_tensor(&storages, 0, "1", LMC_DTYPE_F32);
    CU_ASSERT_TRUE(has_dims(&storages, 0, 2, (const uint64_t[]){2, 3}));
    check_tensor(&storages, 1, "2", LMC_DTYPE_F32);
    CU_ASSERT_EQUAL(storages.list[1].covering, 0);
    check_view(&storages, 0, 0, "0", 0, 2, (const uint64_t[]){3, 2, 1, 3});
    check_view(&storages, 0, 1, "1", 0, 2, (const uint64_t[]){2, 3, 3, 1});
    check_view(&storages, 1, 0, "2", 1, 2, (const uint64_t[]){2, 2, 2, 1});
    st_storages_free(&storages);
}

/* One tensor under several names, also as a parameter, and in a list that has two. */
LMC_TEST(test_names)
{
    st_storages storages;
    FIND(PROTO "}(" TEXT("\1", "a")
             TENSOR("0") "q\0" TEXT("\1", "b") "h\0" TEXT("\1", "c") "]h\0aq\1" TEXT("\1", "d") "h\1" TEXT(
                 "\1", "e") "ctorch._utils\n_rebuild_parameter\n(h\0\x88NtRq\2" TEXT("\1", "f") "h\2u.",
         &storages);
    const char *const paths[] = {"a", "b", "c.0", "d.0", "e", "f"};
    for (unsigned i = 0; i < 6; i++)
        check_view(&storages, 0, i, paths[i], 0, 2, (const uint64_t[]){2, 3, 3, 1});
    CU_ASSERT_EQUAL(storages.view_count, 6);
    st_storages_free(&storages);
}

#define V3(key, dtype, size, stride)                                                                       \
    "ctorch._utils\n_rebuild_tensor_v3\n((" TEXT("\7", "storage") "ctorch.storage\nUntypedStorage\n" TEXT( \
        "\1", key) STORAGE_END "K\0" size stride "\x89Nctorch\n" dtype "\ntR"

LMC_TEST(test_dtypes)
{
    st_storages storages;
    FIND(PROTO "(" V3("0", "float8_e5m2", "K\6K\4\x86", "K\4K\1\x86")
             V3("1", "float4_e2m1fn_x2", "K\6K\4\x86", "K\4K\1\x86")
                 V3("2", "complex32", "K\6\x85", "K\1\x85") V3("3", "float1000", "K\6\x85", "K\1\x85") "t.",
         &storages);
    check_tensor(&storages, 0, "0", LMC_DTYPE_F8_E5M2);
    CU_ASSERT_TRUE(has_dims(&storages, 0, 2, (const uint64_t[]){6, 4}));
    check_tensor(&storages, 1, "1", LMC_DTYPE_F4);
    CU_ASSERT_TRUE(has_dims(&storages, 1, 2, (const uint64_t[]){6, 8}));
    check_tensor(&storages, 2, "2", LMC_DTYPE_F16);
    CU_ASSERT_TRUE(has_dims(&storages, 2, 2, (const uint64_t[]){6, 2}));
    CU_ASSERT_TRUE(storages.list[3].is_found);
    CU_ASSERT_FALSE(storages.list[3].has_dtype);
    st_storages_free(&storages);
}

LMC_TEST(test_wrapped_tensors)
{
    st_storages storages;
    FIND(PROTO "}(" TEXT("\1", "p") "ctorch._utils\n_rebuild_parameter\n" TENSOR("0") "\x88N\x87R" TEXT(
             "\1", "t") "ctorch._tensor\n_rebuild_from_type_v2\n(" V2 "ctorch\nTensor\n(" STORAGE_BEGIN
                        "FloatStorage\n" TEXT("\1", "1") STORAGE_END
         "K\0K\6\x85K\1\x85\x89Nt}" TEXT("\1", "x") TENSOR("2") "stRu.",
         &storages);
    check_tensor(&storages, 0, "p", LMC_DTYPE_F32);
    check_tensor(&storages, 1, "t", LMC_DTYPE_F32);
    CU_ASSERT_TRUE(has_dims(&storages, 1, 1, (const uint64_t[]){6}));
    check_tensor(&storages, 2, "t.x", LMC_DTYPE_F32);
    st_storages_free(&storages);
}

/* ---- hostile ---- */

LMC_TEST(test_refused)
{
    CU_ASSERT_TRUE(IS_UNDERSTOOD(PROTO "N."));
    CU_ASSERT_TRUE(IS_UNDERSTOOD("\x80\5\x95\1\0\0\0\0\0\0\0N."));
    CU_ASSERT_TRUE(IS_UNDERSTOOD(PROTO "cos\nsystem\nX\2\0\0\0ls\x85R.")); /* a graph like any other */
    CU_ASSERT_FALSE(IS_UNDERSTOOD(""));
    CU_ASSERT_FALSE(IS_UNDERSTOOD("N.")); /* no protocol */
    CU_ASSERT_FALSE(IS_UNDERSTOOD("\x80\1N."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD("\x80\6N."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO ".")); /* nothing is there */
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "N")); /* no end */
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "(."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "(0."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "t."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "N(R."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "NNR.")); /* arguments are no tuple */
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "Nb."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "}(Nu.")); /* half a pair */
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "](NNu."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "NNa."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "h\0.")); /* nothing in the memo */
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "Nr\xff\xff\xff\xff."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "Nq\1."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "(q\0."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "\x82\1.")); /* EXT1 */
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "\x97."));   /* NEXT_BUFFER */
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "X\xff\xff\xff\xffn."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "\x8d\xff\xff\xff\xff\xff\xff\xff\xffn."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "\x8b\xff\xff\xff\xffn."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "cos\nsystem."));
    CU_ASSERT_FALSE(IS_UNDERSTOOD(PROTO "KX\x93.")); /* no texts */
}

LMC_TEST(test_cut_anywhere)
{
    static const char bytes[] = PROTO "}(" TEXT("\1", "w") TENSOR("0") "K\7" TENSOR("1") "u.";
    for (size_t nbytes = 0; nbytes < sizeof bytes - 1; nbytes++)
        CU_ASSERT_FALSE(is_understood(bytes, nbytes));
}

LMC_TEST(test_changed_anywhere)
{
    static const char bytes[] = PROTO "}(" TEXT("\1", "w") TENSOR("0") "K\7" TENSOR("1") "u.";
    char changed[sizeof bytes];
    for (size_t i = 0; i < 256 * (sizeof bytes - 1); i++) {
        st_storages storages;
        memcpy(changed, bytes, sizeof bytes);
        changed[i / 256] = (char)i;
        find(changed, sizeof bytes - 1, "", &storages);
        st_storages_free(&storages);
    }
}

LMC_TEST(test_bombs)
{
    static lmc_test_bytes bytes;
    static const char again[] =
        "q\0"
        "0ccollections\nOrderedDict\nh\0h\0\x86R"; /* of what is on the stack, twice */
    st_storages storages;
    /* a list in a list in a list ... */
    bytes.nbytes = 0;
    lmc_test_put(&bytes, PROTO, 2);
    for (int i = 0; i < 50000; i++)
        lmc_test_put_text(&bytes, "]");
    for (int i = 1; i < 50000; i++)
        lmc_test_put_text(&bytes, "a");
    lmc_test_put_text(&bytes, ".");
    CU_ASSERT_TRUE(find(bytes.at, bytes.nbytes, "", &storages));
    st_storages_free(&storages);
    /* 2^200,000 tuples that are one */
    bytes.nbytes = 0;
    lmc_test_put(&bytes, PROTO TENSOR("0"), sizeof(PROTO TENSOR("0")) - 1);
    for (int i = 0; i < 200000; i++)
        lmc_test_put_text(&bytes, "2\x86");
    lmc_test_put_text(&bytes, ".");
    CU_ASSERT_TRUE(find(bytes.at, bytes.nbytes, "", &storages));
    st_storages_free(&storages);
    /* 2^190 OrderedDicts that are one, by way of their arguments */
    bytes.nbytes = 0;
    lmc_test_put(&bytes, PROTO TENSOR("0"), sizeof(PROTO TENSOR("0")) - 1);
    for (int i = 0; i < 190; i++)
        lmc_test_put(&bytes, again, sizeof again - 1);
    lmc_test_put_text(&bytes, ".");
    CU_ASSERT_TRUE(find(bytes.at, bytes.nbytes, "", &storages));
    CU_ASSERT_TRUE(storages.list[0].is_found);
    st_storages_free(&storages);
    /* a list and an object in themselves */
    FIND(PROTO "]q\0h\0ah\0(h\0h\0e" TENSOR("0") "a.", &storages);
    check_path(&storages, 0, "3");
    st_storages_free(&storages);
    FIND(PROTO "cm\nM\n)\x81q\0}" TEXT("\1", "a") "h\0sb.", &storages);
    st_storages_free(&storages);
    /* more graph than the pickle may have: 20 bytes for each call */
    bytes.nbytes = 0;
    lmc_test_put(&bytes, PROTO "(", 3);
    for (int i = 0; i < 300000; i++)
        lmc_test_put_text(&bytes, "N)R");
    lmc_test_put_text(&bytes, "t.");
    CU_ASSERT_TRUE(is_understood(bytes.at, bytes.nbytes));
    bytes.nbytes = 0;
    lmc_test_put(&bytes, PROTO "N", 3);
    for (int i = 0; i < 300000; i++)
        lmc_test_put_text(&bytes, ")R");
    lmc_test_put_text(&bytes, ".");
    CU_ASSERT_FALSE(is_understood(bytes.at, bytes.nbytes));
}

/* A tensor of 64 dimensions, again and again: 2 bytes of the pickle each, of which a KiB would be kept. */
LMC_TEST(test_memory_of_views)
{
    static lmc_test_bytes bytes;
    st_storages storages;
    static const char tensor[] =
        PROTO "](" V2 "(" STORAGE_BEGIN "FloatStorage\n" TEXT("\1", "0") STORAGE_END "K\0";
    lmc_test_put(&bytes, tensor, sizeof tensor - 1);
    for (int i = 0; i < 2; i++) { /* shape and strides */
        lmc_test_put_text(&bytes, "(");
        for (int k = 0; k < 64; k++)
            lmc_test_put_text(&bytes, "K\1");
        lmc_test_put_text(&bytes, "t");
    }
    lmc_test_put(&bytes, "\x89NtRq\0", 6);
    for (int i = 0; i < 100000; i++)
        lmc_test_put(&bytes, "h\0", 2);
    lmc_test_put_text(&bytes, "e.");
    CU_ASSERT_TRUE(find(bytes.at, bytes.nbytes, "", &storages));
    CU_ASSERT_TRUE(storages.has_too_many_views);
    CU_ASSERT_TRUE(storages.dims.capacity < 8 * bytes.nbytes + (4u << 20));
    st_storages_free(&storages);
}

LMC_TEST(test_long_paths)
{
    static lmc_test_bytes bytes;
    static const char key[300] = {0};
    st_storages storages;
    for (size_t key_nbytes = 100; key_nbytes <= 300; key_nbytes += 200) {
        bytes.nbytes = 0;
        lmc_test_put(&bytes, PROTO, 2);
        for (int i = 0; i < 20; i++) {
            lmc_test_put_text(&bytes, "}X");
            lmc_test_put_number(&bytes, key_nbytes, 4);
            lmc_test_put(&bytes, key, key_nbytes);
        }
        lmc_test_put(&bytes, TENSOR("0"), sizeof TENSOR("0") - 1);
        for (int i = 0; i < 20; i++)
            lmc_test_put_text(&bytes, "s");
        lmc_test_put_text(&bytes, ".");
        CU_ASSERT_TRUE(find(bytes.at, bytes.nbytes, "", &storages));
        CU_ASSERT_TRUE(storages.list[0].is_found);
        /* 20 keys of 100 bytes are too long; keys of 300 bytes are positions */
        check_path(&storages, 0, key_nbytes == 100 ? "" : "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0");
        st_storages_free(&storages);
    }
}

LMC_TEST_MAIN("st_pickle")
