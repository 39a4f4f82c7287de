/*
 * test_st_header_corpus.c - a test for each line of headers.tsv: a header that st_header_parse() accepts, or refuses
 * with the cause that the line names. Fields, between tabs: name, "good" or "bad", why the safetensors package says
 * otherwise (tests/interop/official asks it), a part of the message, the header and the data, in which %XX is a byte.
 */
#include "lmc_test.h"

#include "safetensors/header/header.h"

#define TABLE LMC_TESTS_DIR "/unit/safetensors/headers.tsv"
#define CASES_MAX 2000

enum { NAME, VERDICT, CHOICE, CAUSE, HEADER, DATA, FIELD_COUNT };

static char *table;
static char *cases[CASES_MAX][FIELD_COUNT];
static lmc_test tests[CASES_MAX];

/* A field's bytes, in a block of exactly their size: a sanitizer sees reads beyond it. */
static unsigned char *field_bytes(const char *field, size_t *nbytes)
{
    unsigned char *const bytes = malloc(strlen(field) + 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    *nbytes = 0;
    for (; *field != '\0'; field++) {
        unsigned value = (unsigned char)*field;
        if (value == '%') {
            CU_ASSERT_EQUAL_FATAL(sscanf(field + 1, "%2X", &value), 1);
            field += 2;
        }
        bytes[(*nbytes)++] = (unsigned char)value;
    }
    unsigned char *const exact = realloc(bytes, *nbytes > 0 ? *nbytes : 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(exact);
    return exact;
}

/* The case that has the name of the running test. */
static void test_case(void)
{
    size_t i = 0, text_nbytes, data_nbytes;
    while (strcmp(tests[i].name, CU_get_current_test()->pName) != 0)
        i++;
    const int is_good = strcmp(cases[i][VERDICT], "good") == 0;
    unsigned char *const text = field_bytes(cases[i][HEADER], &text_nbytes);
    free(field_bytes(cases[i][DATA], &data_nbytes));
    st_header header;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    st_diag_init(&diag, "test");
    const st_header_text source = {
        .text = text, .nbytes = text_nbytes, .offset = 8, .data_nbytes = data_nbytes};
    const lmc_status status = st_header_parse(&header, &lmc_memory_default, &source, &diag);
    const int is_right =
        (status == LMC_OK) == is_good && (is_good || strstr(diag.text, cases[i][CAUSE]) != NULL);
    if (!is_right)
        printf("\n%s: status %d: %s\n", cases[i][NAME], (int)status, diag.text);
    CU_ASSERT_TRUE(is_right);
    const size_t last = header.tensor_count - 1; /* accepted: the tensors end where the data does */
    const int is_in_place = is_good ? header.tensor_count == 0 || header.tensors[last].end == data_nbytes
                                    : diag.offset >= 8 && diag.offset <= 8 + text_nbytes + data_nbytes;
    CU_ASSERT_TRUE(is_in_place);
    st_header_free(&header);
}

/* Cuts the table into cases. Returns how many there are; 0 if it is not as it should be. */
static size_t read_cases(void)
{
    FILE *const file = fopen(TABLE, "rb");
    size_t count = 0;
    if (!file || fseek(file, 0, SEEK_END) != 0)
        return 0;
    const size_t nbytes = (size_t)ftell(file);
    rewind(file);
    table = malloc(nbytes + 1);
    if (!table || fread(table, 1, nbytes, file) != nbytes)
        return 0;
    table[nbytes] = '\0';
    fclose(file);
    for (char *line = strtok(table, "\n"); line && count < CASES_MAX; line = strtok(NULL, "\n"), count++) {
        for (size_t i = 0; i < FIELD_COUNT; i++) {
            if (!line)
                return 0;
            cases[count][i] = line;
            line = strchr(line, '\t');
            if (line)
                *line++ = '\0';
        }
        tests[count] = (lmc_test){cases[count][NAME], test_case, (int)count, NULL};
        lmc_test_list(&tests[count]);
    }
    return count;
}

int main(int argc, char **argv)
{
    const size_t count = read_cases();
    if (count < 600) {
        fprintf(stderr, "%s: %zu cases, or a line that lacks fields\n", TABLE, count);
        return 1;
    }
    const int result = lmc_test_main("header_corpus", argc, argv);
    free(table);
    return result;
}
