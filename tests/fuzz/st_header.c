/*
 * st_header.c - fuzz target: any bytes as a safetensors file, as they are and with a length and data that fit.
 *
 * What opens has tensors that lie in it without holes, reads back as the bytes that it is, and of a share
 * of the inputs also converts and restores to them. What does not open, does not convert either.
 */
#include "fuzz.h"
#include "lmc_test_settings.h"
#include "st_craft.h"
#include "st_input.h"
#include "st_walk.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Whole conversions cost a hundred times as much as opening a file: in a search, one input in so many has
 * them. */
#ifdef FUZZ_REPLAY
#define OPENED_SHARE 1
#define REFUSED_SHARE 1
#else
#define OPENED_SHARE 4
#define REFUSED_SHARE 256
#endif

#define CONTENT_NBYTES_MAX ((uint64_t)1 << 20)

/* Converts the input; what comes of it must be an archive that gives the input back. */
static void convert_and_back(const char *path, const uint8_t *data, size_t nbytes, uint64_t hash)
{
    fuzz_directory directory;
    lmc_test_settings options = {0};
    lmc_st_result result = LMC_INIT(lmc_st_result);
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    options.level = (lmc_level)(hash >> 16 & 3) % 3;
    options.common.thread_count = 1 + (hash >> 24) % 2;
    options.no_fsync = 1;
    fuzz_directory_make(&directory);
    FUZZ_CLAIM(lmc_test_convert_as(path, directory.file, &options, &result, &diag) == LMC_OK);
    fuzz_claim_diag(&diag, LMC_OK);
    FUZZ_CLAIM(result.original_nbytes == nbytes);
    FUZZ_CLAIM(lmc_test_verify_as(directory.file, &options, &result, NULL) == LMC_OK &&
               result.is_archive == 1);
    FUZZ_CLAIM(lmc_st_convert(directory.file, directory.other_file, NULL, NULL, NULL) == LMC_ERR_CORRUPT);
    FUZZ_CLAIM(lmc_test_restore_as(directory.file, directory.other_file, &options, &result, &diag) == LMC_OK);
    FUZZ_CLAIM(result.original_nbytes == nbytes);
    fuzz_claim_file(directory.other_file, data, nbytes);
    fuzz_directory_remove(&directory);
}

/* Nothing can be made of an input that is refused, and nothing is left behind. */
static void refuse(const char *path, lmc_status status)
{
    fuzz_directory directory;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    fuzz_directory_make(&directory);
    FUZZ_CLAIM(lmc_st_convert(path, directory.file, NULL, NULL, &diag) == status);
    fuzz_claim_diag(&diag, status);
    FUZZ_CLAIM(!fuzz_file_exists(directory.file));
    FUZZ_CLAIM(lmc_st_verify(path, NULL, NULL, &diag) == status);
    fuzz_directory_remove(&directory);
}

static void try_file(const uint8_t *data, size_t nbytes)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    lmc_st_file *file = NULL;
    fuzz_walk walk;
    const uint64_t hash = XXH3_64bits(data, nbytes);
    const char *const path = fuzz_input_path(data, nbytes);
    const lmc_status status = lmc_st_open(path, NULL, &file, &diag);
    fuzz_claim_diag(&diag, status);
    FUZZ_CLAIM((file == NULL) == (status != LMC_OK));
    if (file == NULL) {
        if (hash % REFUSED_SHARE == 0)
            refuse(path, status);
        return;
    }
    const int is_archive = lmc_st_is_archive(file);
    FUZZ_CLAIM(lmc_st_stored_nbytes(file) == nbytes);
    fuzz_walk_file(file, CONTENT_NBYTES_MAX, &walk);
    lmc_st_close(file);
    if (!is_archive && nbytes <= CONTENT_NBYTES_MAX) {
        FUZZ_CLAIM(walk.status == LMC_OK &&
                   (walk.has_views || (walk.nbytes == nbytes && memcmp(walk.bytes, data, nbytes) == 0)));
        if (hash % OPENED_SHARE == 0)
            convert_and_back(path, data, nbytes, hash);
    }
    free(walk.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    size_t fitted_nbytes = 0;
    try_file(data, nbytes);
    uint8_t *const fitted = fuzz_fit_header(data, nbytes, &fitted_nbytes);
    if (fitted != NULL && (fitted_nbytes != nbytes || memcmp(fitted, data, nbytes) != 0))
        try_file(fitted, fitted_nbytes);
    free(fitted);
    return 0;
}
