/*
 * diff.c - lmc-st diff: which tensors of two files are equal, changed, added, removed.
 */
#include "tool/commands/diff.h"

#include "tool/base.h"
#include "tool/progress.h"
#include "tool/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SHOWN_NBYTES 256

/* Of what is no tensor, as archives keep it. */
#define PIECE_NBYTES ((size_t)1 << 20)

static const char about[] =
    "Compares the tensors of two files, archives or plain ones, by name. Prints a\n"
    "line for each that differs, and a summary:\n"
    "\n"
    "  ~ NAME: ...        changed: the content, or dtype or shape, which are named\n"
    "  - NAME             only in A\n"
    "  + NAME             only in B\n"
    "\n"
    "Contents are compared by the content hashes of archives where that is possible,\n"
    "else read; to find a damaged archive, use \"lmc-st verify\".\n";

static const char more[] = "\n"
                           "Exit status: 0 all tensors are equal (headers, pickles may differ; it says so),\n"
                           "1 they differ or the data is bad, 2 wrong usage, 3 input failed.\n";

/* Tensors of a file, by their numbers. */
typedef struct list {
    const lmc_st_file *file;
    uint64_t *indices;
    size_t count;
} list;

/* What was found. `changed` and `retyped` (in dtype or shape) are tensors of A, `removed` too; `added` are of B. */
typedef struct diff {
    const lmc_st_file *a, *b;
    const char *label; /* may be NULL */
    cli_pair *pairs;   /* same name, dtype and shape; in the order of A */
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
    return lmc_st_find(file, tensor->name, tensor->name_nbytes, index);
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

/* Sets is_rest_equal. Errors: as lmc_st_skeleton_read(). */
static lmc_status compare_rest(diff *diff, lmc_st_diag *diag)
{
    const uint64_t nbytes = lmc_st_skeleton_nbytes(diff->a);
    diff->is_rest_equal = lmc_st_container_of(diff->a) == lmc_st_container_of(diff->b) &&
                          nbytes == lmc_st_skeleton_nbytes(diff->b) && is_header_equal(diff);
    if (!diff->is_rest_equal || lmc_st_container_of(diff->a) == LMC_ST_CONTAINER_SAFETENSORS)
        return LMC_OK;
    unsigned char *const pieces = malloc(2 * PIECE_NBYTES);
    lmc_status status = LMC_OK;
    for (uint64_t at = 0; pieces && at < nbytes && status == LMC_OK && diff->is_rest_equal;
         at += PIECE_NBYTES) {
        const size_t piece = nbytes - at < PIECE_NBYTES ? (size_t)(nbytes - at) : PIECE_NBYTES;
        status = lmc_st_skeleton_read(diff->a, at, piece, pieces, diag);
        if (status == LMC_OK)
            status = lmc_st_skeleton_read(diff->b, at, piece, pieces + PIECE_NBYTES, diag);
        diff->is_rest_equal = status == LMC_OK && memcmp(pieces, pieces + PIECE_NBYTES, piece) == 0;
    }
    free(pieces);
    diag->status = pieces ? diag->status : LMC_ERR_NOMEM;
    return pieces ? status : LMC_ERR_NOMEM;
}

static int is_metadata_equal(const diff *diff)
{
    const size_t count = lmc_st_metadata_count(diff->a);
    int is_equal = count == lmc_st_metadata_count(diff->b);
    for (size_t i = 0; i < count && is_equal; i++) {
        const char *texts[4];
        size_t nbytes[4];
        is_equal = lmc_st_metadata(diff->a, i, &texts[0], &nbytes[0], &texts[1], &nbytes[1]) == LMC_OK &&
                   lmc_st_metadata(diff->b, i, &texts[2], &nbytes[2], &texts[3], &nbytes[3]) == LMC_OK &&
                   nbytes[0] == nbytes[2] && memcmp(texts[0], texts[2], nbytes[0]) == 0 &&
                   nbytes[1] == nbytes[3] && memcmp(texts[1], texts[3], nbytes[1]) == 0;
    }
    return is_equal;
}

/* The difference of two headers that name the same tensors. */
static const char *header_difference(const diff *diff)
{
    if (lmc_st_container_of(diff->a) != lmc_st_container_of(diff->b))
        return "kind of file";
    if (is_header_equal(diff))
        return "bytes between the tensors";
    if (!is_metadata_equal(diff))
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
    cli_escape(name, sizeof name, tensor->name, tensor->name_nbytes);
    printf("%s %s%s", sign, name, end);
}

static void show_list(const list *list, const char *sign, const char *end)
{
    for (size_t i = 0; i < list->count && cli_output_works(); i++) {
        const lmc_st_tensor tensor = cli_tensor(list->file, list->indices[i]);
        show_name(&tensor, sign, end);
    }
}

static void show_retyped(const diff *diff, uint64_t index)
{
    char old_shape[64];
    char new_shape[64];
    uint64_t j = 0;
    const lmc_st_tensor a = cli_tensor(diff->a, index);
    (void)find_in(diff->b, &a, &j);
    const lmc_st_tensor b = cli_tensor(diff->b, j);
    cli_show_shape(&a, old_shape, sizeof old_shape);
    cli_show_shape(&b, new_shape, sizeof new_shape);
    show_name(&a, "~", ": ");
    printf("%s %s -> %s %s\n", a.dtype_name, old_shape, b.dtype_name, new_shape);
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
    for (size_t i = 0; i < diff->retyped.count && cli_output_works(); i++)
        show_retyped(diff, diff->retyped.indices[i]);
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
    printf("{");
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

static int compare(const cli_args *args, diff *diff)
{
    lmc_st_options options;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    cli_progress progress;
    if (pair_tensors(diff) != LMC_OK)
        return cli_fail_nomem();
    cli_set_options(args, &options);
    cli_progress_start(&progress, args, args->operands[0]);
    options.progress = cli_progress_update;
    options.user = &progress;
    lmc_status status = cli_diff_contents(diff->a, diff->b, diff->pairs, diff->pair_count, &options, &diag);
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

int cli_diff_files(const cli_args *args, const lmc_st_file *a, const lmc_st_file *b, const char *label)
{
    const size_t count_a = (size_t)lmc_st_tensor_count(a);
    const size_t count_b = (size_t)lmc_st_tensor_count(b);
    cli_pair *const pairs = calloc(count_a + 1, sizeof(cli_pair));
    uint64_t *const indices = malloc((3 * count_a + count_b + 1) * sizeof(uint64_t));
    diff diff = {.a = a, .b = b, .label = label, .pairs = pairs};
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
        exit_status = cli_diff_files(args, files[0], files[1], NULL);
    lmc_st_close(files[0]);
    lmc_st_close(files[1]);
    return exit_status;
}

const cli_command cli_diff = {"diff", CLI_DIFF, "compare the tensors of two files", "A B ", about,
                              more,   run_diff};
