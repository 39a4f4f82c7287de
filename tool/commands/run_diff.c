/*
 * run_diff.c - lmc-st run diff: which tensors differ between two steps of a run, archive by archive.
 */
#include "tool/base.h"
#include "tool/commands/diff.h"
#include "tool/commands/run.h"
#include "tool/path.h"
#include "tool/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char about[] = "Compares the tensors of two steps, as \"lmc-st diff\" does two files, for each\n"
                            "archive of the steps. Files are paired by their paths in the snapshots. Files\n"
                            "that were copied are not compared.\n";

static const char more[] = "\n"
                           "Exit status: 0 all tensors are equal, 1 they differ or the data is bad,\n"
                           "2 wrong usage, 3 input failed.\n";

/* The archives of a step, in the order of their paths. */
typedef struct archives {
    char *folder;
    char **names; /* relative, with .lmc */
    size_t count;
    int has_memory;
} archives;

static int take_archive(void *user, const lmc_st_file *file)
{
    archives *const list = user;
    char **const larger = realloc(list->names, (list->count + 1) * sizeof *larger);
    list->names = larger ? larger : list->names;
    char *const name = larger ? strdup(lmc_st_path(file) + strlen(list->folder) + 1) : NULL;
    if (name)
        list->names[list->count++] = name;
    list->has_memory = name != NULL;
    return !name;
}

static void free_archives(archives *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
    free(list->folder);
}

/* Returns the exit status. */
static int list_archives(const cli_args *args, uint64_t step, archives *list)
{
    lmc_st_options options;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    *list = (archives){.folder = cli_run_step_path(args->operands[0], step, ""), .has_memory = 1};
    if (!list->folder)
        return cli_fail_nomem();
    cli_set_options(args, &options);
    if (lmc_st_visit_archives(list->folder, &options, take_archive, list, &diag) != LMC_OK)
        return cli_report(&diag);
    return list->has_memory ? CLI_OK : cli_fail_nomem();
}

/* ---- pairs ---- */

/* 1 if the names are equal, digits aside: global_step10, global_step20. */
static int is_similar(const char *a, const char *b)
{
    static const char digits[] = "0123456789";
    for (;; a++, b++) {
        a += strspn(a, digits);
        b += strspn(b, digits);
        if (*a != *b || *a == '\0')
            return *a == *b;
    }
}

/* The name in the other list; else the only one that differs from it in digits alone: it may hold the step. NULL if
 * there is none. */
static const char *find_partner(const archives *other, const char *name)
{
    const char *similar = NULL;
    size_t count = 0;
    for (size_t i = 0; i < other->count; i++) {
        if (strcmp(other->names[i], name) == 0)
            return other->names[i];
        if (is_similar(other->names[i], name)) {
            similar = other->names[i];
            count++;
        }
    }
    return count == 1 ? similar : NULL;
}

static int open_archive(const cli_args *args, const archives *list, const char *name, lmc_st_file **file)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    char *const path = cli_path_join(list->folder, name, "");
    if (!path)
        return cli_fail_nomem();
    const int exit_status = cli_open(args, path, file, &diag) == LMC_OK ? CLI_OK : cli_report(&diag);
    free(path);
    return exit_status;
}

static int diff_pair(const cli_args *args, const archives *a, const char *a_name, const archives *b,
                     const char *b_name)
{
    lmc_st_file *files[2] = {NULL, NULL};
    char *const label = strndup(b_name, strlen(b_name) - strlen(CLI_ARCHIVE_SUFFIX));
    int exit_status = label ? open_archive(args, a, a_name, &files[0]) : cli_fail_nomem();
    if (exit_status == CLI_OK)
        exit_status = open_archive(args, b, b_name, &files[1]);
    if (exit_status == CLI_OK)
        exit_status = cli_diff_files(args, files[0], files[1], label);
    lmc_st_close(files[0]);
    lmc_st_close(files[1]);
    free(label);
    return exit_status;
}

static int diff_pairs(const cli_args *args, const archives *a, const archives *b)
{
    int worst = CLI_OK;
    const int is_json = (args->seen & (CLI_OPT_JSON | CLI_OPT_QUIET)) == CLI_OPT_JSON;
    int is_first = 1;
    for (size_t i = 0; i < a->count && worst <= CLI_BAD_DATA && cli_output_works(); i++) {
        const char *const partner = find_partner(b, a->names[i]);
        if (!partner)
            continue;
        if (is_json)
            printf(is_first ? "" : ",\n ");
        is_first = 0;
        const int exit_status = diff_pair(args, a, a->names[i], b, partner);
        worst = exit_status > worst ? exit_status : worst;
    }
    return worst;
}

/* Prints the files of `list` that the other one lacks. Returns how many there are. */
static size_t print_lacking(const cli_args *args, const archives *list, const archives *other,
                            const char *sign)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count && cli_output_works(); i++) {
        const char *const name = list->names[i];
        const size_t nbytes = strlen(name) - strlen(CLI_ARCHIVE_SUFFIX);
        char shown[256];
        if (find_partner(other, name))
            continue;
        count++;
        if ((args->seen & CLI_OPT_QUIET) != 0)
            continue;
        if ((args->seen & CLI_OPT_JSON) != 0) {
            printf(count == 1 ? "" : ",");
            cli_json_string(name, nbytes);
        } else {
            cli_escape(shown, sizeof shown, name, nbytes);
            printf("%s %s\n", sign, shown);
        }
    }
    return count;
}

static int diff_steps(const cli_args *args, const archives *a, const archives *b)
{
    const int is_json = (args->seen & (CLI_OPT_JSON | CLI_OPT_QUIET)) == CLI_OPT_JSON;
    if (is_json)
        printf("{\"files\":[");
    int exit_status = diff_pairs(args, a, b);
    if (exit_status > CLI_BAD_DATA)
        return exit_status;
    if (is_json)
        printf("],\"added\":[");
    const size_t added = print_lacking(args, b, a, "+");
    if (is_json)
        printf("],\"removed\":[");
    const size_t removed = print_lacking(args, a, b, "-");
    if (is_json)
        printf("]}\n");
    const int output_status = cli_finish_output();
    if (output_status != CLI_OK)
        return output_status;
    return exit_status == CLI_OK && added + removed > 0 ? CLI_BAD_DATA : exit_status;
}

/* Returns the exit status. */
static int check_steps(const cli_args *args, const uint64_t steps[2])
{
    uint64_t index = 0;
    lmc_st_run *run = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    int exit_status =
        lmc_st_run_open(args->operands[0], NULL, &run, &diag) == LMC_OK ? CLI_OK : cli_report(&diag);
    for (int i = 0; i < 2 && exit_status == CLI_OK; i++) {
        if (lmc_st_run_find(run, steps[i], &index))
            continue;
        cli_set_diag(&diag, args->operands[0], LMC_ERR_ARG, "there is no step %llu",
                     (unsigned long long)steps[i]);
        exit_status = cli_report(&diag);
    }
    lmc_st_run_close(run);
    return exit_status;
}

static int run_diff(const cli_args *args)
{
    archives lists[2] = {{0}, {0}};
    uint64_t steps[2] = {0, 0};
    int exit_status = CLI_OK;
    if (args->operand_count != 3)
        return cli_usage_error(args->command, "run diff takes a run and two steps");
    for (int i = 0; i < 2 && exit_status == CLI_OK; i++)
        exit_status = cli_run_read_step(args, 1 + i, &steps[i]);
    if (exit_status == CLI_OK)
        exit_status = check_steps(args, steps);
    for (int i = 0; i < 2 && exit_status == CLI_OK; i++)
        exit_status = list_archives(args, steps[i], &lists[i]);
    if (exit_status == CLI_OK)
        exit_status = diff_steps(args, &lists[0], &lists[1]);
    free_archives(&lists[0]);
    free_archives(&lists[1]);
    return exit_status;
}

const cli_command cli_run_diff = {
    "run diff", CLI_RUN_DIFF, "compare the tensors of two steps", "RUN_DIR A B ", about, more, run_diff};
