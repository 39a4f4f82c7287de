/*
 * st_archive.c - fuzz target: any bytes as an archive.
 *
 * The first byte says what the others are: an archive as it is, one whose checksums are repaired, or parts
 * of which one is made (st_craft.h). Opening, reading, verifying and restoring must tell the same of it.
 */
#include "fuzz.h"
#include "lmc_test_settings.h"
#include "st_craft.h"
#include "st_input.h"
#include "st_memory.h"
#include "st_salvage.h"
#include "st_walk.h"

/* Files that would become larger are not restored: the target shall be quick. */
#define CONTENT_NBYTES_MAX ((uint64_t)64 << 10)

#define FAILURE_PLACES 32

static void watch_size(void *user, uint64_t done_nbytes, uint64_t total_nbytes)
{
    volatile int *const is_too_large = user;
    FUZZ_CLAIM(done_nbytes <= total_nbytes);
    *is_too_large = done_nbytes > CONTENT_NBYTES_MAX;
}

/* Of an archive that was cut short, what is left is verified too; CANCELLED if that is much. */
static lmc_status verify_refused(const char *path, lmc_test_settings *options, lmc_st_diag *diag)
{
    volatile int is_too_large = 0;
    options->common.progress = watch_size;
    options->common.user = (void *)&is_too_large;
    options->common.cancel = &is_too_large;
    return lmc_test_verify_as(path, options, NULL, diag);
}

/* What cannot be opened cannot be verified or restored, and nothing is left behind. */
static void refuse(const char *path, const lmc_st_diag *expected)
{
    fuzz_directory directory;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    fuzz_directory_make(&directory);
    lmc_test_settings options = {0};
    const lmc_status status = verify_refused(path, &options, &diag);
    FUZZ_CLAIM(status == expected->status ? strcmp(diag.text, expected->text) == 0
                                          : status == LMC_ERR_CANCELLED);
    FUZZ_CLAIM(lmc_st_restore(path, directory.file, NULL, NULL, &diag) == expected->status);
    FUZZ_CLAIM(strcmp(diag.text, expected->text) == 0);
    fuzz_claim_diag(&diag, expected->status);
    FUZZ_CLAIM(!fuzz_file_exists(directory.file));
    fuzz_directory_remove(&directory);
}

static void claim_result(const lmc_st_result *result, int is_told, size_t stored_nbytes,
                         const fuzz_walk *walk)
{
    FUZZ_CLAIM(result->stored_nbytes == (is_told ? stored_nbytes : 0));
    FUZZ_CLAIM(result->original_nbytes == (is_told ? walk->nbytes : 0));
}

static void verify_and_restore(const char *path, size_t nbytes, const fuzz_walk *walk)
{
    fuzz_directory directory;
    lmc_st_result result = LMC_INIT(lmc_st_result);
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    lmc_st_diag verify_diag = LMC_INIT(lmc_st_diag);
    lmc_test_settings options = {0};
    options.no_fsync = 1;
    fuzz_directory_make(&directory);
    const lmc_status status = lmc_test_verify_as(path, &options, &result, &verify_diag);
    fuzz_claim_diag(&verify_diag, status);
    /* of a damaged archive, too */
    FUZZ_CLAIM(result.is_archive == 1 || (status != LMC_OK && result.damaged_count == 0));
    claim_result(&result, result.is_archive, nbytes, walk);
    FUZZ_CLAIM(status == LMC_OK ? walk->status == LMC_OK : walk->status != LMC_OK || walk->has_unread);

    /* without the base verify goes on and may find something worse; restore does not begin */
    const lmc_status restore_status = lmc_test_restore_as(path, directory.file, &options, &result, &diag);
    const int lacks_base = restore_status == LMC_ERR_BASE && status != LMC_OK;
    FUZZ_CLAIM(restore_status == status || lacks_base);
    fuzz_claim_diag(&diag, restore_status);
    claim_result(&result, restore_status == LMC_OK, nbytes, walk);
    if (!lacks_base)
        fuzz_claim_same_fault(&diag, &verify_diag);
    FUZZ_CLAIM(fuzz_file_exists(directory.file) == (status == LMC_OK));
    if (status == LMC_OK && walk->bytes != NULL)
        fuzz_claim_file(directory.file, walk->bytes, walk->nbytes);
    fuzz_directory_remove(&directory);
}

/* The same with an allocation that fails: at another place for each size of input. */
static void lack_memory(const char *path, lmc_status expected, unsigned allowed_count)
{
    lmc_st_file *file = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    lmc_test_settings options;
    fuzz_memory memory;
    fuzz_memory_init(&memory, allowed_count);
    const lmc_status status = lmc_st_open(
        path,
        &(lmc_st_open_options){.struct_size = sizeof(lmc_st_open_options), .allocator = &memory.allocator},
        &file, &diag);
    fuzz_claim_diag(&diag, status);
    FUZZ_CLAIM(status == (memory.has_failed ? LMC_ERR_NOMEM : expected));
    lmc_st_close(file);
    fuzz_memory_claim_free(&memory);

    fuzz_memory_init(&memory, allowed_count);
    options = (lmc_test_settings){0};
    options.common.allocator = &memory.allocator;
    if (expected != LMC_OK) {
        const lmc_status verify_status = verify_refused(path, &options, NULL);
        FUZZ_CLAIM(verify_status == expected || verify_status == LMC_ERR_CANCELLED ||
                   (memory.has_failed && verify_status == LMC_ERR_NOMEM));
    }
    fuzz_memory_claim_free(&memory);
}

static void try_archive(const uint8_t *data, size_t nbytes)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    lmc_st_file *file = NULL;
    fuzz_walk walk;
    const char *const path = fuzz_input_path(data, nbytes);
    const lmc_status status = lmc_st_open(path, NULL, &file, &diag);
    fuzz_claim_diag(&diag, status);
    FUZZ_CLAIM((file == NULL) == (status != LMC_OK));
    lack_memory(path, status, nbytes % FAILURE_PLACES);
    if (file == NULL) {
        refuse(path, &diag);
        fuzz_salvage(path, 1, NULL);
        return;
    }
    FUZZ_CLAIM(lmc_st_stored_nbytes(file) == nbytes);
    const int is_archive = lmc_st_is_archive(file);
    fuzz_walk_file(file, CONTENT_NBYTES_MAX, &walk);
    if (is_archive && walk.sensible_nbytes <= CONTENT_NBYTES_MAX) {
        verify_and_restore(path, nbytes, &walk);
        fuzz_salvage(path, 1, file);
    }
    lmc_st_close(file);
    free(walk.bytes);
}

/* Free the result. */
static uint8_t *make_archive(unsigned flavour, const uint8_t *data, size_t data_nbytes, size_t *nbytes)
{
    if (flavour % 4 >= 2)
        return fuzz_build_archive(data, data_nbytes, nbytes);
    uint8_t *const archive = fuzz_malloc(data_nbytes);
    memcpy(archive, data, data_nbytes);
    if (flavour % 4 == 1)
        fuzz_repair_archive(archive, data_nbytes);
    *nbytes = data_nbytes;
    return archive;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes > 0) {
        size_t archive_nbytes;
        uint8_t *const archive = make_archive(data[0], data + 1, nbytes - 1, &archive_nbytes);
        try_archive(archive, archive_nbytes);
        free(archive);
    }
    return 0;
}
