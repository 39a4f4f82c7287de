/*
 * cmd_diff.c - lmc-st diff: which tensors of two files are equal, changed, added, removed. A content hash depends on
 * the block size: different hashes say that contents differ only if both belong to blocks of one size. Contents with
 * equal hashes are equal.
 */
#include "tool/commands/cmd_diff.h"
#include "lmc_st_experimental.h"

#include "lmc_experimental.h"
#include "tool/inputs.h"
#include "tool/progress.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char about[] = "Compares the tensors of two files, archives or plain ones, by name. Prints a\n"
                            "line for each that differs, and a summary:\n"
                            "\n"
                            "  ~ NAME: ...        changed: the content, or dtype or shape, which are named\n"
                            "  - NAME             only in A\n"
                            "  + NAME             only in B\n"
                            "\n"
                            "Contents are compared by the content hashes of archives if possible, otherwise\n"
                            "read; to find a damaged archive, use \"lmc-st verify\".\n";

static const char more[] = "\n"
                           "Exit status: 0 all tensors are equal (headers, pickles may differ; it says so),\n"
                           "1 they differ or the data is bad, 2 wrong usage, 3 input failed.\n";

/* ---- contents, in threads ---- */

#define PIECE_NBYTES ((size_t)1 << 20)

/* All that the threads share. */
typedef struct comparison {
    const lmc_st_file *a, *b;
    cli_pair *pairs;
    size_t pair_count;
    const lmc_st_common *common;
    uint64_t total_nbytes;
    pthread_mutex_t lock; /* of what follows */
    size_t next;          /* pair that no thread has taken */
    size_t failed_at;     /* the first pair that failed; SIZE_MAX: none */
    uint64_t done_nbytes;
    lmc_st_diag *diag; /* of that pair */
} comparison;

/* One thread's work on one pair. */
typedef struct worker {
    comparison *shared;
    size_t index;
    cli_pair *pair;
    unsigned char *pieces[2]; /* PIECE_NBYTES each */
    lmc_st_diag diag;
} worker;

/* Counts what was compared. Returns 0 if the work on this pair is to end: its result cannot matter any more. */
static int goes_on(worker *worker, uint64_t nbytes)
{
    comparison *const shared = worker->shared;
    pthread_mutex_lock(&shared->lock);
    shared->done_nbytes += nbytes;
    if (shared->common->progress)
        shared->common->progress(shared->common->user, shared->done_nbytes, shared->total_nbytes);
    const int has_failed = shared->failed_at < worker->index;
    pthread_mutex_unlock(&shared->lock);
    return !has_failed && cli_cancel == 0;
}

static lmc_status fail_nomem(worker *worker)
{
    cli_set_diag(&worker->diag, lmc_st_path(worker->shared->a), LMC_ERR_NOMEM, "out of memory");
    return LMC_ERR_NOMEM;
}

/* Reads both and compares them piece by piece. */
static lmc_status compare_bytes(worker *worker)
{
    const comparison *const shared = worker->shared;
    cli_pair *const pair = worker->pair;
    lmc_st_reader *a = NULL;
    lmc_st_reader *b = NULL;
    lmc_status status = lmc_st_reader_create(shared->a, pair->a, &a, &worker->diag);
    if (status == LMC_OK)
        status = lmc_st_reader_create(shared->b, pair->b, &b, &worker->diag);
    for (uint64_t at = 0; at < pair->nbytes && status == LMC_OK && !pair->differs;) {
        const size_t nbytes = pair->nbytes - at < PIECE_NBYTES ? (size_t)(pair->nbytes - at) : PIECE_NBYTES;
        status = lmc_st_reader_read(a, at, nbytes, worker->pieces[0], &worker->diag);
        if (status == LMC_OK)
            status = lmc_st_reader_read(b, at, nbytes, worker->pieces[1], &worker->diag);
        if (status == LMC_OK)
            pair->differs = memcmp(worker->pieces[0], worker->pieces[1], nbytes) != 0;
        if (!goes_on(worker, nbytes))
            break;
        at += nbytes;
    }
    lmc_st_reader_free(a);
    lmc_st_reader_free(b);
    return status;
}

/* Hashes the content of a plain file in blocks, as an archive's content hash is made. */
static lmc_status compare_hashes(worker *worker, const lmc_st_file *plain, uint64_t index, uint64_t hash,
                                 size_t block_nbytes)
{
    cli_pair *const pair = worker->pair;
    const uint64_t count = (pair->nbytes + block_nbytes - 1) / block_nbytes;
    lmc_block_entry *const entries = calloc((size_t)count, sizeof *entries);
    unsigned char *const block = malloc(block_nbytes < pair->nbytes ? block_nbytes : (size_t)pair->nbytes);
    lmc_status status = entries && block ? LMC_OK : fail_nomem(worker);
    int is_complete = 1;
    for (uint64_t i = 0; i < count && status == LMC_OK && is_complete; i++) {
        const uint64_t left = pair->nbytes - i * block_nbytes;
        const size_t nbytes = left < block_nbytes ? (size_t)left : block_nbytes;
        status = lmc_st_read_range(plain, NULL, index, i * block_nbytes, nbytes, block, &worker->diag);
        if (status == LMC_OK)
            entries[i].content_hash = XXH3_64bits(block, nbytes);
        is_complete = goes_on(worker, nbytes);
    }
    if (status == LMC_OK && is_complete)
        pair->differs = lmc_content_hash(entries, count) != hash;
    free(entries);
    free(block);
    return status;
}

/* Its content hash, if there is one, is that of its storage. */
static int is_view(const lmc_st_file *file, uint64_t index)
{
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    return lmc_st_tensor_info(file, index, &tensor) == LMC_OK && tensor.is_view;
}

static lmc_status compare_pair(worker *worker)
{
    const comparison *const shared = worker->shared;
    cli_pair *const pair = worker->pair;
    const int is_archive[2] = {lmc_st_is_archive(shared->a), lmc_st_is_archive(shared->b)};
    uint64_t hashes[2] = {0, 0};
    size_t block_nbytes[2] = {0, 0};
    lmc_status status = LMC_OK;
    if (pair->nbytes == 0)
        return LMC_OK;
    if (is_view(shared->a, pair->a) || is_view(shared->b, pair->b))
        return compare_bytes(worker);
    if (is_archive[0])
        status = lmc_st_content_hash(shared->a, pair->a, &hashes[0], &block_nbytes[0], &worker->diag);
    if (is_archive[1] && status == LMC_OK)
        status = lmc_st_content_hash(shared->b, pair->b, &hashes[1], &block_nbytes[1], &worker->diag);
    if (status != LMC_OK)
        return status;
    if (is_archive[0] != is_archive[1]) {
        return is_archive[0] ? compare_hashes(worker, shared->b, pair->b, hashes[0], block_nbytes[0])
                             : compare_hashes(worker, shared->a, pair->a, hashes[1], block_nbytes[1]);
    }
    const int is_one_block = pair->nbytes <= block_nbytes[0] && pair->nbytes <= block_nbytes[1];
    if (!is_archive[0] || (hashes[0] != hashes[1] && block_nbytes[0] != block_nbytes[1] && !is_one_block))
        return compare_bytes(worker);
    pair->differs = hashes[0] != hashes[1];
    (void)goes_on(worker, pair->nbytes);
    return LMC_OK;
}

/* A thread: takes one pair after the other, until one has failed. */
static void *compare_pairs(void *argument)
{
    comparison *const shared = argument;
    worker worker = {.shared = shared,
                     .diag = LMC_INIT(lmc_st_diag),
                     .pieces = {malloc(PIECE_NBYTES), malloc(PIECE_NBYTES)}};
    const int has_memory = worker.pieces[0] && worker.pieces[1];
    pthread_mutex_lock(&shared->lock);
    while (shared->next < shared->pair_count && shared->failed_at == SIZE_MAX && cli_cancel == 0) {
        worker.index = shared->next++;
        worker.pair = &shared->pairs[worker.index];
        pthread_mutex_unlock(&shared->lock);
        const lmc_status status = has_memory ? compare_pair(&worker) : fail_nomem(&worker);
        pthread_mutex_lock(&shared->lock);
        if (status != LMC_OK && worker.index < shared->failed_at) {
            shared->failed_at = worker.index;
            *shared->diag = worker.diag;
        }
    }
    pthread_mutex_unlock(&shared->lock);
    free(worker.pieces[0]);
    free(worker.pieces[1]);
    return NULL;
}

lmc_status cli_diff_contents(const lmc_st_file *a, const lmc_st_file *b, cli_pair *pairs, size_t pair_count,
                             const lmc_st_common *common, lmc_st_diag *diag)
{
    pthread_t threads[LMC_THREAD_COUNT_MAX];
    size_t started_count = 0;
    comparison shared = {.a = a,
                         .b = b,
                         .pairs = pairs,
                         .pair_count = pair_count,
                         .common = common,
                         .failed_at = SIZE_MAX,
                         .diag = diag};
    const size_t wanted_count = common->thread_count != 0 ? common->thread_count : lmc_core_count();
    for (size_t i = 0; i < pair_count; i++)
        shared.total_nbytes += pairs[i].nbytes;
    pthread_mutex_init(&shared.lock, NULL);
    while (started_count + 1 < wanted_count && started_count + 1 < pair_count &&
           pthread_create(&threads[started_count], NULL, compare_pairs, &shared) == 0)
        started_count++;
    compare_pairs(&shared);
    while (started_count > 0)
        pthread_join(threads[--started_count], NULL);
    pthread_mutex_destroy(&shared.lock);
    if (cli_cancel != 0) {
        cli_set_diag(diag, lmc_st_path(a), LMC_ERR_CANCELLED, "cancelled");
        return LMC_ERR_CANCELLED;
    }
    if (shared.failed_at != SIZE_MAX)
        return diag->status;
    const lmc_status status = lmc_st_check_unchanged(a, diag);
    return status == LMC_OK ? lmc_st_check_unchanged(b, diag) : status;
}

/* ---- files ---- */

#define NAME_SHOWN_NBYTES 256

/* Tensors of a file, by their numbers. */
typedef struct list {
    const lmc_st_file *file;
    uint64_t *indices;
    size_t count;
} list;

/* What was found. `changed` and `retyped` (in dtype or shape) are tensors of A, `removed` too; `added` are of B. */
typedef struct diff {
    const lmc_st_file *a, *b;
    const char *label;      /* may be NULL */
    const char **separator; /* as of cli_diff_files() */
    cli_pair *pairs;        /* same name, dtype and shape; in the order of A */
    size_t pair_count;
    list changed, retyped, removed, added;
    int is_rest_equal; /* headers, and what else is no tensor */
} diff;

/* ---- pairing ---- */

static void take_index(list *list, uint64_t index)
{
    list->indices[list->count++] = index;
}

static int find_in(const lmc_st_file *file, const lmc_st_tensor *tensor, uint64_t *index)
{
    return lmc_st_find_tensor_sized(file, tensor->name, tensor->name_nbytes, index);
}

/* Error: NOMEM. */
static lmc_status pair_tensors(diff *diff)
{
    for (uint64_t i = 0; i < lmc_st_tensor_count(diff->a); i++) {
        const lmc_st_tensor a = cli_tensor(diff->a, i);
        uint64_t j = 0;
        if (!find_in(diff->b, &a, &j)) {
            take_index(&diff->removed, i);
            continue;
        }
        const lmc_st_tensor b = cli_tensor(diff->b, j);
        if (!cli_has_shape(&a) || !cli_has_shape(&b))
            return LMC_ERR_NOMEM;
        if (a.dtype == b.dtype && cli_is_same_shape(&a, &b))
            diff->pairs[diff->pair_count++] = (cli_pair){.a = i, .b = j, .nbytes = a.nbytes};
        else
            take_index(&diff->retyped, i);
    }
    for (uint64_t j = 0; j < lmc_st_tensor_count(diff->b); j++) {
        const lmc_st_tensor b = cli_tensor(diff->b, j);
        uint64_t i = 0;
        if (!find_in(diff->a, &b, &i))
            take_index(&diff->added, j);
    }
    return LMC_OK;
}

static int is_header_equal(const diff *diff)
{
    size_t a_nbytes = 0;
    size_t b_nbytes = 0;
    const char *const a = lmc_st_header(diff->a, &a_nbytes);
    const char *const b = lmc_st_header(diff->b, &b_nbytes);
    return a_nbytes == b_nbytes && memcmp(a, b, a_nbytes) == 0;
}

/* The difference of two headers that name the same tensors. */
static const char *header_difference(const diff *diff)
{
    const size_t count = lmc_st_metadata_count(diff->a);
    if (lmc_st_container_of(diff->a) != lmc_st_container_of(diff->b))
        return "kind of file";
    if (is_header_equal(diff))
        return "bytes between the tensors";
    int is_equal = count == lmc_st_metadata_count(diff->b);
    for (size_t i = 0; i < count && is_equal; i++) {
        const char *texts[4];
        size_t nbytes[4];
        is_equal = lmc_st_metadata(diff->a, i, &texts[0], &nbytes[0], &texts[1], &nbytes[1]) == LMC_OK &&
                   lmc_st_metadata(diff->b, i, &texts[2], &nbytes[2], &texts[3], &nbytes[3]) == LMC_OK &&
                   nbytes[0] == nbytes[2] && memcmp(texts[0], texts[2], nbytes[0]) == 0 &&
                   nbytes[1] == nbytes[3] && memcmp(texts[1], texts[3], nbytes[1]) == 0;
    }
    if (!is_equal)
        return "metadata";
    for (size_t i = 0; i < diff->pair_count; i++)
        if (diff->pairs[i].a != diff->pairs[i].b)
            return "order";
    return "text or padding";
}

/* ---- for people ---- */

static void show_name(const lmc_st_tensor *tensor, const char *sign, const char *end)
{
    char name[NAME_SHOWN_NBYTES];
    lmc_text_escape(name, sizeof name, tensor->name, tensor->name_nbytes);
    printf("%s %s%s", sign, name, end);
}

static void show_list(const list *list, const char *sign, const char *end)
{
    for (size_t i = 0; i < list->count && cli_output_works(); i++) {
        const lmc_st_tensor tensor = cli_tensor(list->file, list->indices[i]);
        show_name(&tensor, sign, end);
    }
}

static size_t count_differing(const diff *diff)
{
    return diff->changed.count + diff->retyped.count + diff->added.count + diff->removed.count;
}

static void show_diff(const diff *diff)
{
    char label[NAME_SHOWN_NBYTES];
    if (diff->label)
        printf("%s:\n", cli_shown(label, sizeof label, diff->label));
    show_list(&diff->changed, "~", ": content\n");
    for (size_t i = 0; i < diff->retyped.count && cli_output_works(); i++) {
        char old_shape[64];
        char new_shape[64];
        uint64_t j = 0;
        const lmc_st_tensor a = cli_tensor(diff->a, diff->retyped.indices[i]);
        (void)find_in(diff->b, &a, &j);
        const lmc_st_tensor b = cli_tensor(diff->b, j);
        cli_show_shape(&a, old_shape, sizeof old_shape);
        cli_show_shape(&b, new_shape, sizeof new_shape);
        show_name(&a, "~", ": ");
        printf("%s %s -> %s %s\n", a.dtype_name, old_shape, b.dtype_name, new_shape);
    }
    show_list(&diff->removed, "-", "\n");
    show_list(&diff->added, "+", "\n");
    printf("%zu equal, %zu changed, %zu added, %zu removed", diff->pair_count - diff->changed.count,
           diff->changed.count + diff->retyped.count, diff->added.count, diff->removed.count);
    if (count_differing(diff) == 0 && !diff->is_rest_equal)
        printf("; the headers differ: %s", header_difference(diff));
    printf("\n");
}

/* ---- for programs ---- */

static void print_names(const list *list, int is_first)
{
    for (size_t i = 0; i < list->count && cli_output_works(); i++, is_first = 0) {
        const lmc_st_tensor tensor = cli_tensor(list->file, list->indices[i]);
        printf(is_first ? "" : ",");
        cli_json_string(tensor.name, tensor.name_nbytes);
    }
}

static void print_json(const diff *diff)
{
    printf("%s{", diff->separator ? *diff->separator : "");
    if (diff->separator)
        *diff->separator = ",\n ";
    if (diff->label) {
        printf("\"file\":");
        cli_json_text(diff->label);
        printf(",");
    }
    printf("\"equal\":%zu,\"changed\":[", diff->pair_count - diff->changed.count);
    print_names(&diff->changed, 1);
    print_names(&diff->retyped, diff->changed.count == 0);
    printf("],\"added\":[");
    print_names(&diff->added, 1);
    printf("],\"removed\":[");
    print_names(&diff->removed, 1);
    printf("],\"retyped\":[");
    print_names(&diff->retyped, 1);
    printf("],\"header_equal\":%s}%s", diff->is_rest_equal ? "true" : "false", diff->label ? "" : "\n");
}

/* ---- */

/* Sets is_rest_equal. Errors: as lmc_st_skeleton_read(), NOMEM. */
static lmc_status compare_rest(diff *diff, lmc_st_diag *diag)
{
    const lmc_st_container container = lmc_st_container_of(diff->a);
    const uint64_t rest_nbytes = lmc_st_skeleton_nbytes(diff->a);
    lmc_status status = LMC_OK;
    diff->is_rest_equal = container == lmc_st_container_of(diff->b) &&
                          rest_nbytes == lmc_st_skeleton_nbytes(diff->b) && is_header_equal(diff);
    if (!diff->is_rest_equal ||
        container == LMC_ST_CONTAINER_SAFETENSORS) /* which has nothing but a header */
        return LMC_OK;
    unsigned char *const pieces = malloc(2 * PIECE_NBYTES);
    if (!pieces) {
        cli_set_os_diag(diag, lmc_st_path(diff->a), ENOMEM, "cannot compare");
        return LMC_ERR_NOMEM;
    }
    for (uint64_t at = 0; at < rest_nbytes && diff->is_rest_equal; at += PIECE_NBYTES) {
        const size_t nbytes = rest_nbytes - at < PIECE_NBYTES ? (size_t)(rest_nbytes - at) : PIECE_NBYTES;
        status = lmc_st_skeleton_read(diff->a, at, nbytes, pieces, diag);
        if (status == LMC_OK)
            status = lmc_st_skeleton_read(diff->b, at, nbytes, pieces + PIECE_NBYTES, diag);
        diff->is_rest_equal = status == LMC_OK && memcmp(pieces, pieces + PIECE_NBYTES, nbytes) == 0;
    }
    free(pieces);
    return status;
}

static int compare(const cli_args *args, diff *diff)
{
    lmc_st_common common = cli_common(args);
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    cli_progress progress;
    if (pair_tensors(diff) != LMC_OK)
        return cli_fail_nomem();
    cli_progress_start(&progress, args, args->operands[0]);
    common.progress = cli_progress_update;
    common.user = &progress;
    lmc_status status = cli_diff_contents(diff->a, diff->b, diff->pairs, diff->pair_count, &common, &diag);
    if (status == LMC_OK)
        status = compare_rest(diff, &diag);
    cli_progress_clear(&progress);
    if (status != LMC_OK)
        return cli_report(&diag);
    for (size_t i = 0; i < diff->pair_count; i++)
        if (diff->pairs[i].differs)
            take_index(&diff->changed, diff->pairs[i].a);
    if ((args->seen & CLI_OPT_QUIET) != 0) {
        /* the exit status says it */
    } else if ((args->seen & CLI_OPT_JSON) != 0) {
        print_json(diff);
    } else {
        show_diff(diff);
    }
    const int exit_status = cli_finish_output();
    return exit_status != CLI_OK ? exit_status : count_differing(diff) > 0 ? CLI_BAD_DATA : CLI_OK;
}

int cli_diff_files(const cli_args *args, const lmc_st_file *a, const lmc_st_file *b, const char *label,
                   const char **separator)
{
    const size_t count_a = (size_t)lmc_st_tensor_count(a);
    const size_t count_b = (size_t)lmc_st_tensor_count(b);
    cli_pair *const pairs = calloc(count_a + 1, sizeof(cli_pair));
    uint64_t *const indices = malloc((3 * count_a + count_b + 1) * sizeof(uint64_t));
    diff diff = {.a = a, .b = b, .label = label, .separator = separator, .pairs = pairs};
    int exit_status = CLI_SYSTEM;
    if (pairs && indices) {
        diff.changed = (list){.file = a, .indices = indices};
        diff.retyped = (list){.file = a, .indices = indices + count_a};
        diff.removed = (list){.file = a, .indices = indices + 2 * count_a};
        diff.added = (list){.file = b, .indices = indices + 3 * count_a};
        exit_status = compare(args, &diff);
    } else {
        (void)cli_fail_nomem();
    }
    free(pairs);
    free(indices);
    return exit_status;
}

static int run_diff(const cli_args *args)
{
    lmc_st_file *files[2] = {NULL, NULL};
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    int exit_status = CLI_OK;
    if (args->operand_count != 2)
        return cli_usage_error("diff", "diff takes two files");
    for (int i = 0; i < 2 && exit_status == CLI_OK; i++) {
        exit_status = cli_base_check(args, args->operands[i]);
        if (exit_status == CLI_OK && cli_open(args, args->operands[i], &files[i], &diag) != LMC_OK)
            exit_status = cli_report(&diag);
    }
    if (exit_status == CLI_OK)
        exit_status = cli_diff_files(args, files[0], files[1], NULL, NULL);
    lmc_st_close(files[0]);
    lmc_st_close(files[1]);
    return exit_status;
}

const cli_command cli_diff = {"diff", CLI_DIFF, "compare the tensors of two files", "A B ", about,
                              more,   run_diff};
