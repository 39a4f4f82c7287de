/*
 * st_contents.h - what tests of container readers share: bytes as a file, and what was found in it.
 */
#ifndef LMC_TEST_ST_CONTENTS_H
#define LMC_TEST_ST_CONTENTS_H

#include "lmc_test.h"

#include "safetensors/container/container.h"

#include <unistd.h>

typedef struct contents_case {
    st_input input;
    st_reading reading;
    st_contents contents;
    lmc_st_diag diag;
    lmc_status status;
} contents_case;

static lmc_status parse_contents(const void *memory, st_header *header, const st_header_text *text,
                                 lmc_st_diag *diag)
{
    return st_header_parse(header, memory, text, diag);
}

/* Reads the file, which has no telling name, and closes it. Ends with contents_end(). */
static lmc_status contents_begin_file(contents_case *test, int fd, int is_raw_allowed)
{
    memset(test, 0, sizeof *test);
    test->diag = (lmc_st_diag)LMC_INIT(lmc_st_diag);
    st_diag_init(&test->diag, "test");
    CU_ASSERT_FATAL(lseek(fd, 0, SEEK_SET) == 0);
    CU_ASSERT_EQUAL_FATAL(st_input_open_fd(&test->input, fd, NULL, &test->diag), LMC_OK);
    os_close(fd);
    test->reading = (st_reading){.input = &test->input,
                                 .path = "test",
                                 .memory = &lmc_memory_default,
                                 .is_raw_allowed = is_raw_allowed,
                                 .parse = parse_contents,
                                 .user = &lmc_memory_default};
    test->status = st_contents_read(&test->reading, &test->contents, &test->diag);
    return test->status;
}

/* The same with a file of these bytes. */
static lmc_status contents_begin(contents_case *test, const void *bytes, size_t nbytes, int is_raw_allowed)
{
    const int fd = st_spool_create();
    CU_ASSERT_FATAL(fd >= 0 && st_write_all(fd, bytes, nbytes, NULL) == 0);
    return contents_begin_file(test, fd, is_raw_allowed);
}

/* What must hold of all contents; then frees them. */
static void contents_end(contents_case *test)
{
    const st_header *const header = &test->contents.header;
    for (size_t i = 0; test->status == LMC_OK && i < header->tensor_count; i++) {
        const uint64_t nbytes = header->tensors[i].end - header->tensors[i].begin;
        CU_ASSERT(nbytes <= test->input.nbytes && test->contents.places[i] <= test->input.nbytes - nbytes);
        CU_ASSERT(test->contents.places[i] + nbytes <= test->contents.places[i + 1]);
    }
    if (test->status == LMC_OK)
        CU_ASSERT(test->contents.places[header->tensor_count] <= test->input.nbytes);
    st_contents_free(&test->contents, &lmc_memory_default);
    st_input_close(&test->input);
}

/* Tensor `index` stands at `place`, has this name and dtype, and these dimensions ("2,3"). */
static void contents_claim(const contents_case *test, size_t index, uint64_t place, const char *name,
                           const char *dtype, const char *shape)
{
    char text[1400] = "";
    const st_header *const header = &test->contents.header;
    CU_ASSERT_FATAL(test->status == LMC_OK && index < header->tensor_count);
    const st_string found = st_header_name(header, index);
    st_shape dims = st_header_shape(header, &header->tensors[index]);
    for (size_t i = 0; i < header->tensors[index].rank; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%llu", i > 0 ? "," : "",
                 (unsigned long long)st_shape_next(&dims));
    CU_ASSERT_EQUAL(test->contents.places[index], place);
    CU_ASSERT(found.nbytes == strlen(name) && memcmp(found.bytes, name, found.nbytes) == 0);
    CU_ASSERT_STRING_EQUAL(lmc_dtype_name(header->tensors[index].dtype), dtype);
    CU_ASSERT_STRING_EQUAL(text, shape);
}

#endif
