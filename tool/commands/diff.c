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
                           "Exit status: 0 all tensors are equal (headers may differ: order, metadata),\n"
                           "1 they differ or the data is bad, 2 wrong usage, 3 input failed.\n";

/* What was found. */
typedef struct diff {
    const lmc_st_file *a, *b;
    cli_pair *pairs; /* same name, dtype and shape; in the order of A */
    size_t pair_count;
    uint64_t *retyped; /* tensors of A that have another dtype or shape in B */
    size_t retyped_count;
    uint64_t *removed; /* of A */
    size_t removed_count;
    uint64_t *added; /* of B */
    size_t added_count;
} diff;

/* ---- pairing ---- */

static int find_in(const lmc_st_file *file, const lmc_st_tensor *tensor, uint64_t *index)
{
    return lmc_st_find(file, tensor->name, tensor->name_nbytes, index);
}

/* Error: NOMEM. */
static lmc_status pair_tensors(diff *diff)
{
    for (uint64_t i = 0; i < lmc_st_tensor_count(diff->a); i++) {
        lmc_st_tensor a = LMC_INIT(lmc_st_tensor);
        lmc_st_tensor b = LMC_INIT(lmc_st_tensor);
        uint64_t j = 0;
        if (cli_describe(diff->a, i, &a) != LMC_OK)
            return LMC_ERR_NOMEM;
        if (!find_in(diff->b, &a, &j)) {
            diff->removed[diff->removed_count++] = i;
            continue;
        }
        if (cli_describe(diff->b, j, &b) != LMC_OK)
            return LMC_ERR_NOMEM;
        if (a.dtype == b.dtype && cli_is_same_shape(&a, &b))
            diff->pairs[diff->pair_count++] = (cli_pair){.a = i, .b = j, .nbytes = a.nbytes};
        else
            diff->retyped[diff->retyped_count++] = i;
    }
    for (uint64_t j = 0; j < lmc_st_tensor_count(diff->b); j++) {
        lmc_st_tensor b = LMC_INIT(lmc_st_tensor);
        uint64_t i = 0;
        (void)cli_describe(diff->b, j, &b);
        if (!find_in(diff->a, &b, &i))
            diff->added[diff->added_count++] = j;
    }
    return LMC_OK;
}

static size_t count_changed(const diff *diff)
{
    size_t count = 0;
    for (size_t i = 0; i < diff->pair_count; i++)
        count += diff->pairs[i].differs != 0;
    return count;
}

static int is_header_equal(const diff *diff)
{
    size_t a_nbytes = 0;
    size_t b_nbytes = 0;
    const char *const a = lmc_st_header(diff->a, &a_nbytes);
    const char *const b = lmc_st_header(diff->b, &b_nbytes);
    return a_nbytes == b_nbytes && memcmp(a, b, a_nbytes) == 0;
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

static void show_list(const lmc_st_file *file, const uint64_t *list, size_t count, const char *sign)
{
    for (size_t i = 0; i < count && cli_output_works(); i++) {
        lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
        (void)cli_describe(file, list[i], &tensor);
        show_name(&tensor, sign, "\n");
    }
}

static void show_retyped(const diff *diff, uint64_t index)
{
    char old_shape[64];
    char new_shape[64];
    lmc_st_tensor a = LMC_INIT(lmc_st_tensor);
    lmc_st_tensor b = LMC_INIT(lmc_st_tensor);
    uint64_t j = 0;
    (void)cli_describe(diff->a, index, &a);
    (void)find_in(diff->b, &a, &j);
    (void)cli_describe(diff->b, j, &b);
    cli_show_shape(&a, old_shape, sizeof old_shape);
    cli_show_shape(&b, new_shape, sizeof new_shape);
    show_name(&a, "~", ": ");
    printf("%s %s -> %s %s\n", a.dtype_name, old_shape, b.dtype_name, new_shape);
}

static void show_diff(const diff *diff)
{
    const size_t changed = count_changed(diff);
    for (size_t i = 0; i < diff->pair_count && cli_output_works(); i++) {
        if (diff->pairs[i].differs) {
            lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
            (void)cli_describe(diff->a, diff->pairs[i].a, &tensor);
            show_name(&tensor, "~", ": content\n");
        }
    }
    for (size_t i = 0; i < diff->retyped_count && cli_output_works(); i++)
        show_retyped(diff, diff->retyped[i]);
    show_list(diff->a, diff->removed, diff->removed_count, "-");
    show_list(diff->b, diff->added, diff->added_count, "+");
    printf("%zu equal, %zu changed, %zu added, %zu removed", diff->pair_count - changed,
           changed + diff->retyped_count, diff->added_count, diff->removed_count);
    if (changed + diff->retyped_count + diff->added_count + diff->removed_count == 0 &&
        !is_header_equal(diff))
        printf("; the headers differ: %s", header_difference(diff));
    printf("\n");
}

/* ---- for programs ---- */

static void print_name(const lmc_st_file *file, uint64_t index, int is_first)
{
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    (void)cli_describe(file, index, &tensor);
    printf(is_first ? "" : ",");
    cli_json_string(tensor.name, tensor.name_nbytes);
}

static void print_list(const char *key, const lmc_st_file *file, const uint64_t *list, size_t count)
{
    printf("],\"%s\":[", key);
    for (size_t i = 0; i < count && cli_output_works(); i++)
        print_name(file, list[i], i == 0);
}

static void print_json(const diff *diff)
{
    size_t printed = 0;
    printf("{\"equal\":%zu,\"changed\":[", diff->pair_count - count_changed(diff));
    for (size_t i = 0; i < diff->pair_count && cli_output_works(); i++)
        if (diff->pairs[i].differs)
            print_name(diff->a, diff->pairs[i].a, printed++ == 0);
    for (size_t i = 0; i < diff->retyped_count && cli_output_works(); i++)
        print_name(diff->a, diff->retyped[i], printed++ == 0);
    print_list("added", diff->b, diff->added, diff->added_count);
    print_list("removed", diff->a, diff->removed, diff->removed_count);
    print_list("retyped", diff->a, diff->retyped, diff->retyped_count);
    printf("],\"header_equal\":%s}\n", is_header_equal(diff) ? "true" : "false");
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
    const lmc_status status =
        cli_diff_contents(diff->a, diff->b, diff->pairs, diff->pair_count, &options, &diag);
    cli_progress_clear(&progress);
    if (status != LMC_OK)
        return cli_report(&diag);
    if ((args->seen & CLI_OPT_QUIET) != 0) {
        /* the exit status says it */
    } else if ((args->seen & CLI_OPT_JSON) != 0) {
        print_json(diff);
    } else {
        show_diff(diff);
    }
    const int exit_status = cli_finish_output();
    const size_t differing =
        count_changed(diff) + diff->retyped_count + diff->added_count + diff->removed_count;
    return exit_status != CLI_OK ? exit_status : differing > 0 ? CLI_BAD_DATA : CLI_OK;
}

static int compare_files(const cli_args *args, const lmc_st_file *a, const lmc_st_file *b)
{
    const size_t count_a = (size_t)lmc_st_tensor_count(a);
    const size_t count_b = (size_t)lmc_st_tensor_count(b);
    diff diff = {.a = a,
                 .b = b,
                 .pairs = calloc(count_a + 1, sizeof(cli_pair)),
                 .retyped = malloc((count_a + 1) * sizeof(uint64_t)),
                 .removed = malloc((count_a + 1) * sizeof(uint64_t)),
                 .added = malloc((count_b + 1) * sizeof(uint64_t))};
    int exit_status = CLI_SYSTEM;
    if (!diff.pairs || !diff.retyped || !diff.removed || !diff.added)
        (void)cli_fail_nomem();
    else
        exit_status = compare(args, &diff);
    free(diff.pairs);
    free(diff.retyped);
    free(diff.removed);
    free(diff.added);
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
        exit_status = compare_files(args, files[0], files[1]);
    lmc_st_close(files[0]);
    lmc_st_close(files[1]);
    return exit_status;
}

const cli_command cli_diff = {
    .name = "diff",
    .bit = CLI_DIFF,
    .summary = "compare the tensors of two files",
    .operands = "A B ",
    .before = about,
    .after = more,
    .run = run_diff,
};
