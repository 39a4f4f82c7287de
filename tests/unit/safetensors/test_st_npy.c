/*
 * test_st_npy.c - .npy headers that numpy writes and others, and what is found in .npy files.
 */
#include "lmc_test.h"

#include "safetensors/container/npy.h"
#include "st_contents.h"

#define FILE_NBYTES 512

/* A header of version 1 around `text`, as numpy pads it; returns its size. */
static size_t make_header(unsigned char *dst, const char *text)
{
    const size_t nbytes = strlen(text), padded = (10 + nbytes + 1 + 63) / 64 * 64;
    CU_ASSERT_FATAL(padded <= FILE_NBYTES);
    memset(dst, ' ', padded);
    memcpy(dst, "\x93NUMPY\1\0", 8);
    dst[8] = (unsigned char)(padded - 10);
    dst[9] = (unsigned char)((padded - 10) >> 8);
    memcpy(dst + 10, text, nbytes);
    dst[padded - 1] = '\n';
    return padded;
}

/* Of a block of exactly that size: a sanitizer sees reads beyond it. */
static int read_exactly(const void *bytes, size_t nbytes, st_npy *npy)
{
    unsigned char *const copy = malloc(nbytes + (nbytes == 0));
    CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
    memcpy(copy, bytes, nbytes);
    const int is_read = st_npy_read_header(copy, nbytes, npy);
    free(copy);
    return is_read;
}

static int read_text(const char *text, st_npy *npy)
{
    unsigned char header[FILE_NBYTES];
    const size_t nbytes = make_header(header, text);
    return read_exactly(header, nbytes, npy);
}

/* An array of shape (2, 3) of this dtype. */
static int read_descr(const char *descr, st_npy *npy)
{
    char text[300];
    snprintf(text, sizeof text, "{'descr': %s, 'fortran_order': False, 'shape': (2, 3), }", descr);
    return read_text(text, npy);
}

LMC_TEST(test_dtypes)
{
    static const struct {
        const char *descr;
        lmc_dtype dtype;
        unsigned element_nbytes;
        int is_guess, is_big_endian;
    } cases[] = {
        {"'<f2'", LMC_DTYPE_F16, 2, 0, 0},
        {"'<f4'", LMC_DTYPE_F32, 4, 0, 0},
        {"'<f8'", LMC_DTYPE_F64, 8, 0, 0},
        {"'|i1'", LMC_DTYPE_I8, 1, 0, 0},
        {"'<i2'", LMC_DTYPE_I16, 2, 0, 0},
        {"'<i4'", LMC_DTYPE_I32, 4, 0, 0},
        {"'<i8'", LMC_DTYPE_I64, 8, 0, 0},
        {"'|u1'", LMC_DTYPE_U8, 1, 0, 0},
        {"'<u2'", LMC_DTYPE_U16, 2, 0, 0},
        {"'<u4'", LMC_DTYPE_U32, 4, 0, 0},
        {"'<u8'", LMC_DTYPE_U64, 8, 0, 0},
        {"'|b1'", LMC_DTYPE_BOOL, 1, 0, 0},
        {"'<c8'", LMC_DTYPE_C64, 8, 0, 0},
        {"'<M8[ns]'", LMC_DTYPE_I64, 8, 0, 0},
        {"'<m8[25s]'", LMC_DTYPE_I64, 8, 0, 0},
        {"'<m8'", LMC_DTYPE_I64, 8, 0, 0},
        {"'<V2'", LMC_DTYPE_BF16, 2, 0, 0},
        {"'<f1'", LMC_DTYPE_F8_E5M2, 1, 0, 0},
        {"'<V1'", LMC_DTYPE_U8, 1, 1, 0},
        {"'|V2'", LMC_DTYPE_U8, 2, 1, 0},
        {"'>f4'", LMC_DTYPE_F32, 4, 0, 1},
        {"'>i2'", LMC_DTYPE_I16, 2, 0, 1},
        {"'>c16'", LMC_DTYPE_F64, 16, 0, 1},
        {"'<f16'", LMC_DTYPE_U8, 16, 1, 0},
        {"'<U5'", LMC_DTYPE_U8, 20, 1, 0},
        {"'|S5'", LMC_DTYPE_U8, 5, 1, 0},
        {"'|V0'", LMC_DTYPE_U8, 0, 1, 0},
        {"\"<f4\"", LMC_DTYPE_F32, 4, 0, 0},
        {"[]", LMC_DTYPE_U8, 0, 1, 0},
        {"[('a', '<f4'), ('b', '>i2', (3,)), ('c', [('x', '|u1'), ('', '|V3')], (2, 2))]", LMC_DTYPE_U8, 26,
         1, 0},
        {"[(('a\\'t', \"n\"), '<f4')]", LMC_DTYPE_U8, 4, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        st_npy npy;
        CU_ASSERT_TRUE_FATAL(read_descr(cases[i].descr, &npy));
        CU_ASSERT_EQUAL(npy.dtype, cases[i].dtype);
        CU_ASSERT_EQUAL(npy.is_guess, cases[i].is_guess);
        CU_ASSERT_EQUAL(npy.is_big_endian, cases[i].is_big_endian);
        CU_ASSERT_EQUAL(npy.data_nbytes, 6u * cases[i].element_nbytes);
        CU_ASSERT_EQUAL(npy.data_offset % 64, 0);
        CU_ASSERT(npy.rank == 2 && npy.shape[0] == 2 && npy.shape[1] == 3);
    }
}

LMC_TEST(test_pairs)
{
    st_npy npy;
    CU_ASSERT_TRUE_FATAL(read_descr("'<c16'", &npy));
    CU_ASSERT(npy.dtype == LMC_DTYPE_F64 && npy.rank == 2 && npy.is_pair && npy.data_nbytes == 96);
}

LMC_TEST(test_shapes)
{
    st_npy npy;
    CU_ASSERT_TRUE(read_text("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", &npy));
    CU_ASSERT(npy.rank == 0 && npy.data_nbytes == 4);
    CU_ASSERT_TRUE(read_text("{'descr': '<f4', 'fortran_order': True, 'shape': (5,), }", &npy));
    CU_ASSERT(!npy.is_fortran && npy.rank == 1 && npy.shape[0] == 5);
    CU_ASSERT_TRUE(read_text("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }", &npy));
    CU_ASSERT(npy.is_fortran && npy.rank == 2 && npy.data_nbytes == 48);
    CU_ASSERT_TRUE(read_text("{ \"shape\":( 3L ,4L ), 'fortran_order':False,'descr':'<f4'}", &npy));
    CU_ASSERT(!npy.is_fortran && npy.rank == 2 && npy.shape[1] == 4);
    CU_ASSERT_TRUE(read_text("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }", &npy));
    CU_ASSERT(npy.rank == 2 && npy.data_nbytes == 0);
}

/* numpy has at most 64 dimensions; one more is not kept. */
LMC_TEST(test_many_dimensions)
{
    for (int count = 63; count <= 66; count++) {
        st_npy npy;
        char text[300] = "{'descr': '<c16', 'fortran_order': False, 'shape': (";
        for (int i = 0; i < count; i++)
            strcat(text, "1,");
        strcat(text, ")}");
        CU_ASSERT_TRUE(read_text(text, &npy));
        CU_ASSERT(npy.data_nbytes == 16 && npy.rank == (size_t)count);
    }
}

LMC_TEST(test_refused)
{
    static const char *const texts[] = {
        "",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3.0,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0x3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [3]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} + {}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)",
        "__import__('os').system('true')",
        "{'descr': __import__('os'), 'fortran_order': False, 'shape': (3,)}"};
    static const char *const descrs[] = {"'='",
                                         "'=f4'",
                                         "'f4'",
                                         "'<f'",
                                         "'<x4'",
                                         "'|f4'",
                                         "'<f4'*2",
                                         "'<f4[s]'",
                                         "'<M8[s'",
                                         "'<M8s]'",
                                         "4",
                                         "'<f4",
                                         "<f4'",
                                         "None",
                                         "'<f4 '",
                                         "('<f4', 2)",
                                         "[('a',)]",
                                         "['<f4']",
                                         "[('a', '<f4', 3)]",
                                         "[('a', '<f4') ('b', '<f4')]",
                                         "'<U9223372036854775807'",
                                         "'<f99999999999999999999'",
                                         "[('a', '<V4294967296', (4294967296,))]",
                                         "'<f4\\'",
                                         "[[[[[[[[[[[[[[[[[[[[[[[[[[[["};
    st_npy npy;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        CU_ASSERT(!read_text(texts[i], &npy) && !npy.is_object);
    for (size_t i = 0; i < sizeof descrs / sizeof descrs[0]; i++)
        CU_ASSERT(!read_descr(descrs[i], &npy) && !npy.is_object);
    CU_ASSERT(!read_descr("'|O'", &npy) && npy.is_object);
    CU_ASSERT(!read_descr("[('a', '<f4'), ('b', '|O')]", &npy) && npy.is_object);
}

LMC_TEST(test_deep)
{
    for (int depth = 1; depth < 24; depth++) {
        st_npy npy;
        char descr[300] = "";
        for (int i = 0; i < depth; i++)
            strcat(descr, "[('',");
        strcat(descr, "'<f4'");
        for (int i = 0; i < depth; i++)
            strcat(descr, ")]");
        CU_ASSERT_EQUAL(read_descr(descr, &npy), depth <= 16);
    }
}

static const char good[] =
    "{'descr': [('a', '<f4'), (('t', 'b'), '|V2', (2,))], 'fortran_order': False, 'shape': (3, 4), }";

/* Cut anywhere, the header is refused; with any byte replaced, nothing is read that is not there. */
LMC_TEST(test_cut_and_mutated)
{
    unsigned char header[FILE_NBYTES];
    st_npy npy;
    const size_t nbytes = make_header(header, good);
    CU_ASSERT(read_exactly(header, nbytes, &npy) && npy.data_nbytes == 96 && npy.data_offset == nbytes);
    for (size_t cut = 0; cut < nbytes; cut++)
        CU_ASSERT_FALSE(read_exactly(header, cut, &npy));
    for (size_t at = 0; at < sizeof good + 10; at++) {
        const unsigned char kept = header[at];
        for (unsigned value = 0; value < 256; value++) {
            header[at] = (unsigned char)value;
            if (read_exactly(header, nbytes, &npy))
                CU_ASSERT(npy.data_offset <= nbytes && npy.rank <= ST_NPY_RANK_MAX);
        }
        header[at] = kept;
    }
}

LMC_TEST(test_versions)
{
    unsigned char header[FILE_NBYTES], longer[FILE_NBYTES + 2];
    st_npy npy;
    const size_t nbytes = make_header(header, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }");
    for (unsigned char version = 0; version < 6; version++) {
        memcpy(longer, header, 8);
        memcpy(longer + 12, header + 10, nbytes - 10);
        longer[6] = version;
        lmc_store32(longer + 8, (uint32_t)nbytes - 10);
        const int is_known = version == 2 || version == 3;
        CU_ASSERT_EQUAL(read_exactly(longer, nbytes + 2, &npy), is_known);
        CU_ASSERT(!is_known || npy.data_offset == nbytes + 2);
        CU_ASSERT_EQUAL(st_npy_header_nbytes(longer, 12) != 0, is_known || version == 1);
    }
    longer[6] = 2;
    longer[7] = 1;
    CU_ASSERT_FALSE(read_exactly(longer, nbytes + 2, &npy));
}

LMC_TEST(test_files)
{
    unsigned char file[FILE_NBYTES + 64] = {0};
    contents_case test;
    const size_t nbytes = make_header(file, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }");
    memset(file + nbytes, 1, 60);
    for (size_t more = 48; more <= 60; more += 12) { /* what stands behind is no part of the array */
        CU_ASSERT_EQUAL_FATAL(contents_begin(&test, file, nbytes + more, 0), LMC_OK);
        CU_ASSERT_EQUAL(test.contents.kind, LMC_ST_CONTAINER_NPY);
        CU_ASSERT_EQUAL(test.contents.header.tensor_count, 1);
        contents_claim(&test, 0, nbytes, "array", "F32", "3,4");
        contents_end(&test);
    }
    for (size_t cut = 6; cut < nbytes + 48; cut++) {
        CU_ASSERT_EQUAL(contents_begin(&test, file, cut, 0), LMC_ERR_TRUNCATED);
        contents_end(&test);
    }
}

LMC_TEST(test_files_of_objects_and_guesses)
{
    unsigned char file[FILE_NBYTES + 64] = {0};
    contents_case test;
    size_t nbytes = make_header(file, "{'descr': '|O', 'fortran_order': False, 'shape': (3, 4), }");
    CU_ASSERT_EQUAL(contents_begin(&test, file, nbytes + 40, 0), LMC_OK);
    CU_ASSERT_EQUAL(test.contents.header.tensor_count, 0);
    contents_end(&test);
    nbytes = make_header(file, "{'descr': '<V1', 'fortran_order': False, 'shape': (3, 4), }");
    CU_ASSERT_EQUAL(contents_begin(&test, file, nbytes + 12, 0), LMC_OK);
    CU_ASSERT_EQUAL(test.contents.header.tensor_count, 1);
    CU_ASSERT_EQUAL(test.contents.places[0], nbytes);
    contents_end(&test);
}

LMC_TEST(test_refused_files)
{
    unsigned char file[FILE_NBYTES + 64] = {0};
    contents_case test;
    const size_t nbytes =
        make_header(file, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'x': 1}");
    CU_ASSERT_EQUAL(contents_begin(&test, file, nbytes + 48, 0), LMC_ERR_HEADER);
    contents_end(&test);
    CU_ASSERT_EQUAL(contents_begin(&test, file, nbytes + 48, 1), LMC_OK);
    CU_ASSERT_EQUAL(test.contents.kind, LMC_ST_CONTAINER_RAW);
    contents_end(&test);
    file[6] = 4;
    CU_ASSERT_EQUAL(contents_begin(&test, file, nbytes + 48, 0), LMC_ERR_UNSUPPORTED);
    contents_end(&test);
    file[6] = 2;
    memset(file + 8, 0xff, 4);
    CU_ASSERT_EQUAL(contents_begin(&test, file, nbytes + 48, 0), LMC_ERR_TRUNCATED);
    contents_end(&test);
}

LMC_TEST_MAIN("npy")
