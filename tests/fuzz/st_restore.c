/*
 * st_restore.c - fuzz target: an archive through the calls on whole files, with several threads, stopped in
 * the middle, onto an output that exists.
 *
 * The first byte says how many threads, the second when to stop; the rest are parts of an archive
 * (st_craft.h). It has larger contents than st_archive, because small ones never see a second thread.
 */
#include "fuzz.h"
#include "st_craft.h"
#include "st_input.h"
#include "st_walk.h"

#define CONTENT_NBYTES_MAX ((uint64_t)4 << 20)
#define NEVER 255

typedef struct progress_log {
    uint64_t done_nbytes;
    uint64_t total_nbytes;
    unsigned calls_until_stop; /* NEVER: not at all */
    volatile int is_stopped;
} progress_log;

static void log_progress(void *user, uint64_t done_nbytes, uint64_t total_nbytes)
{
    progress_log *const log = user;
    FUZZ_CLAIM(done_nbytes >= log->done_nbytes && done_nbytes <= total_nbytes);
    FUZZ_CLAIM(log->total_nbytes == 0 || log->total_nbytes == total_nbytes);
    log->done_nbytes = done_nbytes;
    log->total_nbytes = total_nbytes;
    if (log->calls_until_stop != NEVER && log->calls_until_stop-- == 0) {
        log->is_stopped = 1;
        log->calls_until_stop = NEVER;
    }
}

/* Everything that is said of a fault but the file that is at fault. */
static void claim_same_fault(const lmc_st_diag *a, const lmc_st_diag *b)
{
    FUZZ_CLAIM(a->status == b->status && a->offset == b->offset && a->has_tensor == b->has_tensor);
    FUZZ_CLAIM(strcmp(a->tensor, b->tensor) == 0 && strcmp(a->text, b->text) == 0);
}

/* With one thread, for comparison. */
static lmc_status restore_plainly(const char *path, const fuzz_directory *directory, const fuzz_walk *walk,
                                  lmc_st_diag *diag)
{
    lmc_st_options options;
    lmc_st_result result;
    lmc_st_options_init(&options);
    options.thread_count = 1;
    options.no_fsync = 1;
    const lmc_status status = lmc_st_restore(path, directory->file, &options, &result, diag);
    fuzz_claim_diag(diag, status);
    FUZZ_CLAIM(fuzz_file_exists(directory->file) == (status == LMC_OK));
    if (status == LMC_OK) {
        FUZZ_CLAIM(walk->status == LMC_OK && result.file_nbytes == walk->nbytes);
        fuzz_claim_file(directory->file, walk->bytes, walk->nbytes);
        FUZZ_CLAIM(lmc_st_restore(path, directory->file, &options, NULL, NULL) == LMC_ERR_ARG);
    }
    return status;
}

/* Over the output of the call before, if there is one. A call that is stopped in time leaves it alone. */
static void restore_in_threads(const char *path, const fuzz_directory *directory, const fuzz_walk *walk,
                               const lmc_st_diag *expected, unsigned thread_count, unsigned stop)
{
    lmc_st_diag diag;
    lmc_st_options options;
    progress_log log = {.calls_until_stop = stop};
    lmc_st_options_init(&options);
    options.thread_count = thread_count;
    options.no_fsync = 1;
    options.force = 1;
    options.progress = log_progress;
    options.user = &log;
    options.cancel = &log.is_stopped;
    const lmc_status status = lmc_st_restore(path, directory->file, &options, NULL, &diag);
    fuzz_claim_diag(&diag, status);
    if (!log.is_stopped) {
        claim_same_fault(&diag, expected);
        FUZZ_CLAIM(status != LMC_OK || log.done_nbytes == log.total_nbytes);
    } else {
        FUZZ_CLAIM(status == LMC_ERR_CANCELLED || status == expected->status);
    }
    if (expected->status == LMC_OK) {
        fuzz_claim_file(directory->file, walk->bytes, walk->nbytes);
    } else {
        FUZZ_CLAIM(!fuzz_file_exists(directory->file));
    }
}

static void verify_in_threads(const char *path, const lmc_st_diag *expected, unsigned thread_count)
{
    lmc_st_diag diag;
    lmc_st_options options;
    lmc_st_options_init(&options);
    options.thread_count = thread_count;
    const lmc_status status = lmc_st_verify(path, &options, NULL, &diag);
    fuzz_claim_diag(&diag, status);
    claim_same_fault(&diag, expected);
}

static void restore_all_ways(const char *path, const fuzz_walk *walk, unsigned thread_count, unsigned stop)
{
    fuzz_directory directory;
    lmc_st_diag diag;
    fuzz_directory_make(&directory);
    const lmc_status status = restore_plainly(path, &directory, walk, &diag);
    FUZZ_CLAIM(status == diag.status);
    restore_in_threads(path, &directory, walk, &diag, thread_count, stop);
    verify_in_threads(path, &diag, thread_count);
    fuzz_directory_remove(&directory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    size_t archive_nbytes;
    lmc_st_file *file = NULL;
    fuzz_walk walk;
    if (nbytes < 2) {
        return 0;
    }
    uint8_t *const archive = fuzz_build_archive(data + 2, nbytes - 2, &archive_nbytes);
    const char *const path = fuzz_input_path(archive, archive_nbytes);
    if (lmc_st_open(path, &file, NULL) == LMC_OK) {
        fuzz_walk_file(file, CONTENT_NBYTES_MAX, &walk);
        lmc_st_close(file);
        if (walk.bytes != NULL) {
            restore_all_ways(path, &walk, 1 + data[0] % 4, data[1]);
        }
        free(walk.bytes);
    }
    free(archive);
    return 0;
}
