/*
 * st_restore.c - fuzz target: an archive through the calls on whole files: with several threads, stopped in the
 * middle, onto an output that exists, into a pipe, salvaged, compared.
 *
 * The first byte says how many threads, the second when to stop; the rest are parts of an archive
 * (st_craft.h). It has larger contents than st_archive, because small ones never see a second thread.
 */
#include "fuzz.h"
#include "lmc_test_settings.h"
#include "st_craft.h"
#include "st_input.h"
#include "st_memory.h"
#include "st_salvage.h"
#include "st_walk.h"

#include <unistd.h>

#define CONTENT_NBYTES_MAX ((uint64_t)4 << 20)
#define NEVER 255

/* What a pipe holds at least. */
#define PIPE_NBYTES 65536

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

/* With one thread, for comparison. */
static lmc_status restore_plainly(const char *path, const fuzz_directory *directory, const fuzz_walk *walk,
                                  lmc_st_diag *diag)
{
    lmc_test_settings options = {0};
    lmc_st_result result = LMC_INIT(lmc_st_result);
    options.common.thread_count = 1;
    options.no_fsync = 1;
    const lmc_status status = lmc_test_restore_as(path, directory->file, &options, &result, diag);
    fuzz_claim_diag(diag, status);
    FUZZ_CLAIM(fuzz_file_exists(directory->file) == (status == LMC_OK));
    if (status == LMC_OK) {
        FUZZ_CLAIM(walk->status == LMC_OK && result.original_nbytes == walk->nbytes);
        fuzz_claim_file(directory->file, walk->bytes, walk->nbytes);
        FUZZ_CLAIM(lmc_test_restore_as(path, directory->file, &options, NULL, NULL) == LMC_ERR_ARG);
    }
    return status;
}

/* Over the output of the call before, if there is one. A call that is stopped in time leaves it alone. */
static void restore_in_threads(const char *path, const fuzz_directory *directory, const fuzz_walk *walk,
                               const lmc_st_diag *expected, unsigned thread_count, unsigned stop)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    lmc_test_settings options = {0};
    progress_log log = {.calls_until_stop = stop};
    options.common.thread_count = thread_count;
    options.no_fsync = 1;
    options.force = 1;
    options.common.progress = log_progress;
    options.common.user = &log;
    options.common.cancel = &log.is_stopped;
    const lmc_status status = lmc_test_restore_as(path, directory->file, &options, NULL, &diag);
    fuzz_claim_diag(&diag, status);
    if (!log.is_stopped) {
        fuzz_claim_same_fault(expected, &diag);
        FUZZ_CLAIM(strcmp(diag.text, expected->text) == 0);
        FUZZ_CLAIM(status != LMC_OK || log.done_nbytes == log.total_nbytes);
    } else {
        FUZZ_CLAIM(status == LMC_ERR_CANCELLED || status == expected->status);
    }
    if (expected->status == LMC_OK)
        fuzz_claim_file(directory->file, walk->bytes, walk->nbytes);
    else
        FUZZ_CLAIM(!fuzz_file_exists(directory->file));
}

static void verify_in_threads(const char *path, const lmc_st_diag *expected, unsigned thread_count,
                              lmc_st_result *result)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    lmc_test_settings options = {0};
    options.common.thread_count = thread_count;
    options.sha256 = 1;
    const lmc_status status = lmc_test_verify_as(path, &options, result, &diag);
    fuzz_claim_diag(&diag, status);
    fuzz_claim_same_fault(expected, &diag);
}

/* An archive and what was restored from it are the same file, until a byte of that changes. */
static void compare(const char *path, const fuzz_directory *directory, const fuzz_walk *walk,
                    unsigned thread_count, const lmc_st_result *verified)
{
    lmc_test_settings options = {0};
    lmc_st_result result = LMC_INIT(lmc_st_result);
    lmc_st_file *restored = NULL;
    options.common.thread_count = thread_count;
    options.sha256 = 1;
    const lmc_status status = lmc_st_open(directory->file, NULL, &restored, NULL);
    if (status != LMC_OK || lmc_st_is_archive(restored)) {
        lmc_st_close(restored); /* it claims to be an archive, and that is all that it can claim */
        FUZZ_CLAIM(lmc_test_compare_as(path, directory->file, &options, NULL) != LMC_OK);
        return;
    }
    lmc_st_close(restored);
    FUZZ_CLAIM(lmc_test_verify_as(directory->file, &options, &result, NULL) == LMC_OK);
    FUZZ_CLAIM(memcmp(result.sha256, verified->sha256, sizeof(result.sha256)) == 0);
    FUZZ_CLAIM(lmc_test_compare_as(path, directory->file, &options, NULL) == LMC_OK);
    fuzz_change_file(directory->file, walk->nbytes - 1);
    FUZZ_CLAIM(lmc_test_compare_as(path, directory->file, &options, NULL) != LMC_OK);
}

/* To a pipe, as far as its buffer goes without a reader: what has arrived after a success is the file. */
static void restore_to_pipe(const char *path, const fuzz_walk *walk, lmc_status expected,
                            unsigned thread_count)
{
    int ends[2];
    lmc_test_settings options = {0};
    FUZZ_CLAIM(pipe(ends) == 0);
    options.common.thread_count = thread_count;
    options.has_out_fd = 1;
    options.out_fd = ends[1];
    FUZZ_CLAIM(lmc_test_restore_as(path, "pipe", &options, NULL, NULL) == expected);
    close(ends[1]);
    uint8_t *const bytes = fuzz_malloc(walk->nbytes + 1);
    size_t nbytes = 0;
    ssize_t got;
    while ((got = read(ends[0], bytes + nbytes, walk->nbytes + 1 - nbytes)) > 0)
        nbytes += (size_t)got;
    FUZZ_CLAIM(expected != LMC_OK ||
               (nbytes == walk->nbytes && memcmp(bytes, walk->bytes, walk->nbytes) == 0));
    FUZZ_CLAIM(nbytes <= walk->nbytes);
    free(bytes);
    close(ends[0]);
}

/* With an allocation that fails, which may or may not matter. */
static void lack_memory(const char *path, const fuzz_directory *directory, lmc_status expected,
                        unsigned thread_count, unsigned allowed_count)
{
    lmc_test_settings options = {0};
    fuzz_memory memory;
    fuzz_memory_init(&memory, allowed_count);
    options.common.thread_count = thread_count;
    options.no_fsync = 1;
    options.common.allocator = &memory.allocator;
    const lmc_status status = lmc_test_restore_as(path, directory->other_file, &options, NULL, NULL);
    FUZZ_CLAIM(status == expected || (memory.has_failed && status == LMC_ERR_NOMEM));
    FUZZ_CLAIM(fuzz_file_exists(directory->other_file) == (status == LMC_OK));
    fuzz_memory_claim_free(&memory);
}

static void restore_all_ways(const char *path, const lmc_st_file *file, const fuzz_walk *walk,
                             unsigned thread_count, unsigned stop)
{
    fuzz_directory directory;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    lmc_st_result verified = LMC_INIT(lmc_st_result);
    fuzz_directory_make(&directory);
    const lmc_status status = restore_plainly(path, &directory, walk, &diag);
    FUZZ_CLAIM(status == diag.status);
    restore_in_threads(path, &directory, walk, &diag, thread_count, stop);
    verify_in_threads(path, &diag, thread_count, &verified);
    if (status == LMC_OK)
        compare(path, &directory, walk, thread_count, &verified);
    lack_memory(path, &directory, status, thread_count, stop);
    if (walk->nbytes <= PIPE_NBYTES)
        restore_to_pipe(path, walk, status, thread_count);
    fuzz_directory_remove(&directory);
    fuzz_salvage(path, thread_count, file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    size_t archive_nbytes;
    lmc_st_file *file = NULL;
    fuzz_walk walk;
    if (nbytes < 2)
        return 0;
    uint8_t *const archive = fuzz_build_archive(data + 2, nbytes - 2, &archive_nbytes);
    const char *const path = fuzz_input_path(archive, archive_nbytes);
    if (lmc_st_open(path, NULL, &file, NULL) == LMC_OK) {
        fuzz_walk_file(file, CONTENT_NBYTES_MAX, &walk);
        if (walk.bytes != NULL && lmc_st_is_archive(file))
            restore_all_ways(path, file, &walk, 1 + data[0] % 4, data[1]);
        lmc_st_close(file);
        free(walk.bytes);
    }
    free(archive);
    return 0;
}
