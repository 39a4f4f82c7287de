/*
 * st_salvage.c - see st_salvage.h.
 */
#include "st_salvage.h"

#include "fuzz.h"
#include "lmc_test_settings.h"
#include "st_input.h"
#include "st_walk.h"

/* More than this is not written: the target shall be quick. */
#define CONTENT_NBYTES_MAX ((uint64_t)8 << 20)

typedef struct salvage_log {
    uint64_t damaged_count;
    volatile int is_too_large;
    lmc_st_diag first;
} salvage_log;

static void count_damage(void *user, const lmc_st_diag *diag)
{
    salvage_log *const log = user;
    FUZZ_CLAIM(diag->status != LMC_OK && diag->has_tensor);
    fuzz_claim_diag(diag, diag->status);
    if (log->damaged_count == 0)
        log->first = *diag;
    log->damaged_count++;
}

static void watch_size(void *user, uint64_t done_nbytes, uint64_t total_nbytes)
{
    salvage_log *const log = user;
    FUZZ_CLAIM(done_nbytes <= total_nbytes);
    log->is_too_large |= done_nbytes > CONTENT_NBYTES_MAX;
}

void fuzz_claim_same_fault(const lmc_st_diag *restored, const lmc_st_diag *verified)
{
    FUZZ_CLAIM(restored->status == verified->status && restored->has_tensor == verified->has_tensor);
    FUZZ_CLAIM(strcmp(restored->tensor, verified->tensor) == 0);
    FUZZ_CLAIM(restored->offset == verified->offset);
    FUZZ_CLAIM(strncmp(restored->text, verified->text, strlen(restored->text)) == 0);
}

/* A tensor that was saved is one of the archive, content and all. */
static void claim_tensor(const lmc_st_file *saved, const lmc_st_file *archive, uint64_t index)
{
    lmc_st_tensor a = LMC_INIT(lmc_st_tensor), b = LMC_INIT(lmc_st_tensor);
    uint64_t found = 0;
    FUZZ_CLAIM(lmc_st_tensor_info(saved, index, &a) == LMC_OK);
    FUZZ_CLAIM(lmc_st_find_tensor_sized(archive, a.name, a.name_nbytes, &found) == 1);
    FUZZ_CLAIM(lmc_st_tensor_info(archive, found, &b) == LMC_OK);
    if (b.is_view) /* it may have become bytes */
        return;
    FUZZ_CLAIM(a.dtype == b.dtype && a.nbytes == b.nbytes && a.rank == b.rank);
    FUZZ_CLAIM(a.rank == 0 || memcmp(a.shape, b.shape, a.rank * sizeof(*a.shape)) == 0);
    uint8_t *const first = fuzz_malloc((size_t)a.nbytes);
    uint8_t *const second = fuzz_malloc((size_t)a.nbytes);
    FUZZ_CLAIM(lmc_st_read(saved, NULL, index, first, (size_t)a.nbytes, NULL) == LMC_OK);
    FUZZ_CLAIM(lmc_st_read(archive, NULL, found, second, (size_t)a.nbytes, NULL) == LMC_OK);
    FUZZ_CLAIM(memcmp(first, second, (size_t)a.nbytes) == 0);
    free(first);
    free(second);
}

static void claim_saved_file(const char *saved_path, const lmc_st_file *archive, const lmc_st_result *result)
{
    lmc_st_file *saved = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    const lmc_status status = lmc_st_open(saved_path, NULL, &saved, &diag);
    if (status != LMC_OK || lmc_st_is_archive(saved)) {
        /* an archive may hold a file that itself claims to be one: nothing but that can be wrong with it */
        FUZZ_CLAIM(status == LMC_OK || strstr(diag.text, "archive") != NULL);
        lmc_st_close(saved);
        return;
    }
    FUZZ_CLAIM(lmc_st_original_nbytes(saved) == result->original_nbytes);
    FUZZ_CLAIM(lmc_st_tensor_count(saved) == result->tensor_count);
    if (archive != NULL) {
        FUZZ_CLAIM(lmc_st_metadata_count(saved) == lmc_st_metadata_count(archive));
        FUZZ_CLAIM(lmc_st_tensor_count(archive) >= result->tensor_count + result->damaged_count);
        for (uint64_t i = 0; i < result->tensor_count; i++)
            claim_tensor(saved, archive, i);
    }
    lmc_st_close(saved);
}

void fuzz_salvage(const char *path, unsigned thread_count, const lmc_st_file *archive)
{
    fuzz_directory directory;
    lmc_test_settings options = {0};
    lmc_st_result result = LMC_INIT(lmc_st_result);
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    salvage_log log = {.damaged_count = 0};
    options.common.thread_count = thread_count;
    options.no_fsync = 1;
    options.salvage = 1;
    options.damage = count_damage;
    options.common.progress = watch_size;
    options.common.cancel = &log.is_too_large;
    options.common.user = &log;
    fuzz_directory_make(&directory);
    const lmc_status status = lmc_test_restore_as(path, directory.file, &options, &result, &diag);
    fuzz_claim_diag(&diag, status);
    if (log.is_too_large) {
        FUZZ_CLAIM(status != LMC_OK || archive != NULL);
    } else if (fuzz_file_exists(directory.file)) {
        FUZZ_CLAIM(result.damaged_count == log.damaged_count &&
                   (status == LMC_OK) == (log.damaged_count == 0));
        FUZZ_CLAIM(status == LMC_OK || strcmp(diag.text, log.first.text) == 0);
        claim_saved_file(directory.file, archive, &result);
    } else {
        FUZZ_CLAIM(status != LMC_OK && archive == NULL);
    }
    fuzz_directory_remove(&directory);
}
