/*
 * cmd_run_diff.c - lmc-st run diff: which tensors differ between two steps of a run, archive by archive.
 */
#include "lmc_st_experimental.h"
#include "tool/commands/cmd_diff.h"
#include "tool/commands/cmd_run.h"
#include "tool/inputs.h"
#include "tool/tool_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char about[] = "Compares the tensors of two steps, as \"lmc-st diff\" does two files, for each\n"
                            "archive of the steps. Files are paired by their paths in the snapshots. Files\n"
                            "that were copied are not compared.\n";

static const char more[] = "\n"
                           "Exit status: 0 all tensors are equal, 1 they differ or the data is bad,\n"
                           "2 wrong usage, 3 input failed.\n";

/* An archive of a step, and the one of the other step that it is compared with; NULL: there is none. */
typedef struct archive {
    char *name; /* relative, with .lmc */
    struct archive *partner;
} archive;

/* Those of a step, in the order of their paths. */
typedef struct archives {
    char *folder;
    archive *list;
    size_t count;
    int has_memory;
} archives;

static int take_archive(void *user, const lmc_st_file *file)
{
    archives *const archives = user;
    archive *const larger = realloc(archives->list, (archives->count + 1) * sizeof *larger);
    archives->list = larger ? larger : archives->list;
    char *const name = larger ? strdup(lmc_st_path(file) + strlen(archives->folder) + 1) : NULL;
    if (name)
        archives->list[archives->count++] = (archive){.name = name};
    archives->has_memory = name != NULL;
    return !name;
}

static void free_archives(archives *archives)
{
    for (size_t i = 0; i < archives->count; i++)
        free(archives->list[i].name);
    free(archives->list);
    free(archives->folder);
}

/* ---- pairs ---- */

/* The only archive without a partner that has this name, or, if digits may differ, such a name: global_step10,
 * global_step20. NULL if there is none, or several. */
static archive *find_partner(const archives *archives, const char *name, int may_differ)
{
    archive *found = NULL;
    for (size_t i = 0; i < archives->count; i++) {
        archive *const candidate = &archives->list[i];
        const int is_meant =
            may_differ ? cli_is_similar(candidate->name, name) : strcmp(candidate->name, name) == 0;
        if (candidate->partner || !is_meant)
            continue;
        if (found)
            return NULL;
        found = candidate;
    }
    return found;
}

/* Pairs archives of one name; then, of those that are left, the ones whose names are similar to no others. */
static void pair_archives(const archives *a, const archives *b)
{
    for (int may_differ = 0; may_differ < 2; may_differ++) {
        for (size_t i = 0; i < a->count; i++) {
            archive *const own = &a->list[i];
            archive *const other = own->partner ? NULL : find_partner(b, own->name, may_differ);
            if (!other || !find_partner(a, own->name, may_differ))
                continue;
            own->partner = other;
            other->partner = own;
        }
    }
}

static int open_archive(const cli_args *args, const archives *list, const char *name, lmc_st_file **file)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    char *const path = lmc_path_join(&lmc_memory_default, list->folder, name, "");
    if (!path)
        return cli_fail_nomem();
    const int exit_status = cli_open(args, path, file, &diag) == LMC_OK ? CLI_OK : cli_report(&diag);
    free(path);
    return exit_status;
}

/* Prints the files that the other step lacks. Returns how many there are. */
static size_t print_lacking(const cli_args *args, const archives *archives, const char *sign)
{
    size_t count = 0;
    for (size_t i = 0; i < archives->count && cli_output_works(); i++) {
        const char *const name = archives->list[i].name;
        const size_t nbytes = strlen(name) - strlen(LMC_ARCHIVE_SUFFIX);
        char shown[256];
        if (archives->list[i].partner)
            continue;
        count++;
        if ((args->seen & CLI_OPT_QUIET) != 0)
            continue;
        if ((args->seen & CLI_OPT_JSON) != 0) {
            printf(count == 1 ? "" : ",");
            cli_json_string(name, nbytes);
        } else {
            lmc_text_escape(shown, sizeof shown, name, nbytes);
            printf("%s %s\n", sign, shown);
        }
    }
    return count;
}

/* Compares each archive of A that has a partner in B, then names the others. Returns the exit status. */
static int diff_steps(const cli_args *args, const archives *a, const archives *b)
{
    static const char begin[] = "{\"files\":[";
    const int is_json = (args->seen & (CLI_OPT_JSON | CLI_OPT_QUIET)) == CLI_OPT_JSON;
    const char *separator = begin;
    int worst = CLI_OK;
    for (size_t i = 0; i < a->count && worst <= CLI_BAD_DATA && cli_output_works(); i++) {
        lmc_st_file *files[2] = {NULL, NULL};
        const archive *const partner = a->list[i].partner;
        if (!partner)
            continue;
        char *const label = cli_copy(partner->name, strlen(partner->name) - strlen(LMC_ARCHIVE_SUFFIX));
        int exit_status = label ? open_archive(args, a, a->list[i].name, &files[0]) : cli_fail_nomem();
        if (exit_status == CLI_OK)
            exit_status = open_archive(args, b, partner->name, &files[1]);
        if (exit_status == CLI_OK)
            exit_status = cli_diff_files(args, files[0], files[1], label, &separator);
        lmc_st_close(files[0]);
        lmc_st_close(files[1]);
        free(label);
        worst = exit_status > worst ? exit_status : worst;
    }
    /* an object that was begun is ended, whatever the pair that failed */
    if (worst > CLI_BAD_DATA && (separator == begin || !cli_output_works()))
        return worst;
    printf("%s%s", is_json && separator == begin ? begin : "", is_json ? "],\"added\":[" : "");
    const size_t added = print_lacking(args, b, "+");
    printf("%s", is_json ? "],\"removed\":[" : "");
    const size_t removed = print_lacking(args, a, "-");
    printf("%s", is_json ? "]}\n" : "");
    const int output_status = cli_finish_output();
    if (output_status != CLI_OK)
        return output_status;
    return worst == CLI_OK && added + removed > 0 ? CLI_BAD_DATA : worst;
}

static int run_diff(const cli_args *args)
{
    archives lists[2] = {{0}, {0}};
    uint64_t steps[2] = {0, 0};
    uint64_t index = 0;
    lmc_run *run = NULL;
    const lmc_st_compare_options options = cli_compare_options(args);
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    int exit_status = CLI_OK;
    if (args->operand_count != 3)
        return cli_usage_error(args->command, "run diff takes a run and two steps");
    for (int i = 0; i < 2 && exit_status == CLI_OK; i++)
        exit_status = cli_run_read_step(args, 1 + i, &steps[i]);
    if (exit_status == CLI_OK && lmc_run_open(args->operands[0], NULL, &run, &diag) != LMC_OK)
        exit_status = cli_report(&diag);
    for (int i = 0; i < 2 && exit_status == CLI_OK; i++) {
        if (!lmc_run_find_step(run, steps[i], &index)) {
            cli_set_diag(&diag, args->operands[0], LMC_ERR_ARG, "there is no step %llu",
                         (unsigned long long)steps[i]);
            exit_status = cli_report(&diag);
        }
    }
    lmc_run_close(run);
    for (int i = 0; i < 2 && exit_status == CLI_OK; i++) {
        lists[i] = (archives){.folder = cli_run_step_path(args->operands[0], steps[i], ""), .has_memory = 1};
        if (lists[i].folder &&
            lmc_st_visit_archives(lists[i].folder, &options, take_archive, &lists[i], &diag) != LMC_OK)
            exit_status = cli_report(&diag);
        else if (!lists[i].folder || !lists[i].has_memory)
            exit_status = cli_fail_nomem();
    }
    if (exit_status == CLI_OK) {
        pair_archives(&lists[0], &lists[1]);
        exit_status = diff_steps(args, &lists[0], &lists[1]);
    }
    free_archives(&lists[0]);
    free_archives(&lists[1]);
    return exit_status;
}

const cli_command cli_run_diff = {
    "run diff", CLI_RUN_DIFF, "compare the tensors of two steps", "RUN_DIR A B ", about, more, run_diff};
