/* test_h5_golden.c - the frozen chunks of tests/format/vectors/h5: the valid ones decode to their contents, the corrupt
 * ones are refused with the status that EXPECT.tsv names. */
#include "lmc_test_h5.h"

#include <dirent.h>

#include "lmc_test_table.h"

#define VECTORS LMC_TESTS_DIR "/format/vectors/h5"
#define FILE_MAX 100000

static uint8_t stored[FILE_MAX], chunk[FILE_MAX];

static size_t read_file(const char *path, uint8_t *dst)
{
    FILE *const file = fopen(path, "rb");
    if (file == NULL) {
        printf("\ncannot read %s\n", path);
        abort();
    }
    const size_t nbytes = fread(dst, 1, FILE_MAX, file);
    fclose(file);
    return nbytes;
}

static void check_vector(const char *name, int name_nbytes)
{
    char path[1024];
    snprintf(path, sizeof path, VECTORS "/%.*s.chunk", name_nbytes, name);
    const h5_stored s = {stored, read_file(path, stored)};
    snprintf(path, sizeof path, VECTORS "/%.*s.bin", name_nbytes, name);
    const size_t nbytes = read_file(path, chunk);
    const unsigned failures = CU_get_number_of_failures();
    h5_check(NULL, &s, chunk, nbytes);
    if (CU_get_number_of_failures() > failures)
        printf("\n%.*s\n", name_nbytes, name);
}

LMC_TEST(test_valid_chunks)
{
    DIR *const directory = opendir(VECTORS);
    unsigned count = 0;
    CU_ASSERT_PTR_NOT_NULL_FATAL(directory);
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        const char *const suffix = strstr(entry->d_name, ".chunk");
        if (suffix != NULL) {
            check_vector(entry->d_name, (int)(suffix - entry->d_name));
            count++;
        }
    }
    closedir(directory);
    CU_ASSERT(count > 40);
}

static lmc_status status_of(const char *name)
{
    static const struct {
        const char *name;
        lmc_status status;
    } names[] = {{"TRUNCATED", LMC_ERR_TRUNCATED},
                 {"CORRUPT", LMC_ERR_CORRUPT},
                 {"UNSUPPORTED", LMC_ERR_UNSUPPORTED},
                 {"CHECKSUM", LMC_ERR_CHECKSUM}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].name, name) == 0)
            return names[i].status;
    return LMC_OK;
}

/* A line of EXPECT.tsv. */
static void test_corrupt(void)
{
    const input_line *const line = lmc_test_line();
    size_t nbytes, found = 7;
    uint8_t *const bytes = input_bytes(line->input, &nbytes);
    guarded source = guarded_open(nbytes + 1);
    const lmc_status status =
        lmc_h5_decode_chunk(NULL, guarded_copy(&source, bytes, nbytes), nbytes, chunk, FILE_MAX, &found);
    if (status != status_of(line->status))
        printf("\n%s: status %d: %s\n", line->name, status, lmc_h5_last_error());
    CU_ASSERT(status != LMC_OK && status == status_of(line->status) && found == 0);
    guarded_close(&source);
    free(bytes);
}

int main(int argc, char **argv)
{
    return lmc_test_table_main("h5_golden", VECTORS "/corrupt/EXPECT.tsv", 100, test_corrupt, argc, argv);
}
