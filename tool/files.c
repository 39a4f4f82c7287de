/*
 * files.c - the inputs of convert, restore and cat, one after another.
 */
#include "tool/files.h"

#include "os/os.h"
#include "tool/inputs.h"
#include "tool/removal.h"
#include "tool/tool_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_stream(const char *path)
{
    return strcmp(path, "-") == 0;
}

/* ---- one job ---- */

static void report_base_more(cli_job *job)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    if (job->base_more > 0) {
        cli_set_diag(&diag, "", LMC_ERR_BASE, "%llu more tensors need that base",
                     (unsigned long long)job->base_more);
        memcpy(diag.file, job->base_file, sizeof diag.file);
        (void)cli_report(&diag);
    }
    job->base_more = 0;
}

/* A base that is another file is so for nearly every tensor: one is named, the others are counted, unless they
 * are what was asked for. */
void cli_job_show_damage(void *user, const lmc_st_diag *diag)
{
    cli_job *const job = user;
    const int is_base =
        diag->status == LMC_ERR_BASE && diag->has_tensor && (job->args->seen & CLI_OPT_SALVAGE) == 0;
    cli_progress_clear(&job->progress);
    if (is_base && strcmp(job->base_file, diag->file) == 0) {
        job->base_more++;
        return;
    }
    if (is_base) {
        report_base_more(job);
        memcpy(job->base_file, diag->file, sizeof job->base_file);
    }
    (void)cli_report(diag);
    job->damaged_shown++;
}

void cli_job_show_warning(void *user, const lmc_st_diag *diag)
{
    cli_job *const job = user;
    cli_progress_clear(&job->progress);
    (void)cli_report(diag);
}

static void show_progress(void *user, uint64_t done_nbytes, uint64_t total_nbytes)
{
    cli_job *const job = user;
    cli_progress_update(&job->progress, done_nbytes, total_nbytes);
}

void cli_job_show_file(void *user, const char *path, lmc_st_event event, uint64_t in_nbytes,
                       uint64_t out_nbytes)
{
    static const char *const events[] = {"converted", "restored", "verified", "copied", "kept"};
    cli_job *const job = user;
    char shown[160];
    job->plain_count += !lmc_is_archive_name(path);
    if ((job->args->seen & CLI_OPT_VERBOSE) == 0)
        return;
    cli_progress_clear(&job->progress);
    const int is_plain = event == LMC_ST_EVENT_VERIFIED && !lmc_is_archive_name(path);
    fprintf(stderr, "%s: %s, %llu -> %llu bytes\n", cli_shown(shown, sizeof shown, path),
            is_plain ? "only its header verified" : events[event], (unsigned long long)in_nbytes,
            (unsigned long long)out_nbytes);
}

void cli_job_start(cli_job *job, const cli_args *args, const char *in_path)
{
    memset(job, 0, sizeof *job);
    job->args = args;
    job->in_path = in_path;
    job->result.struct_size = sizeof job->result;
    job->diag.struct_size = sizeof job->diag;
    job->common = cli_common(args);
    job->common.progress = show_progress;
    job->common.user = job;
    cli_progress_start(&job->progress, args, is_stream(in_path) ? "standard input" : in_path);
}

lmc_st_convert_options cli_job_convert_options(const cli_job *job)
{
    lmc_st_convert_options options = LMC_INIT(lmc_st_convert_options);
    const cli_args *const args = job->args;
    options.common = job->common;
    options.level = args->level;
    options.force = (args->seen & CLI_OPT_FORCE) != 0;
    options.no_fsync = (args->seen & CLI_OPT_NO_FSYNC) != 0;
    options.has_in_fd = is_stream(job->in_path);
    options.in_fd = options.has_in_fd ? OS_STDIN : 0;
    options.has_out_fd = !job->out_path;
    options.out_fd = options.has_out_fd ? OS_STDOUT : 0;
    options.base = args->base;
    options.base_dirs = args->base_dirs;
    options.base_dir_count = args->base_dir_count;
    options.raw = (args->seen & CLI_OPT_RAW) != 0;
    options.excludes = args->excludes;
    options.exclude_count = args->exclude_count;
    options.file_done = cli_job_show_file;
    options.warning = (args->seen & CLI_OPT_QUIET) != 0 ? NULL : cli_job_show_warning;
    return options;
}

lmc_st_restore_options cli_job_restore_options(const cli_job *job)
{
    lmc_st_restore_options options = LMC_INIT(lmc_st_restore_options);
    const cli_args *const args = job->args;
    options.common = job->common;
    options.force = (args->seen & CLI_OPT_FORCE) != 0;
    options.no_fsync = (args->seen & CLI_OPT_NO_FSYNC) != 0;
    options.has_in_fd = is_stream(job->in_path);
    options.in_fd = options.has_in_fd ? OS_STDIN : 0;
    options.has_out_fd = !job->out_path;
    options.out_fd = options.has_out_fd ? OS_STDOUT : 0;
    options.base = args->base;
    options.base_dirs = args->base_dirs;
    options.base_dir_count = args->base_dir_count;
    options.salvage = (args->seen & CLI_OPT_SALVAGE) != 0;
    options.damage = cli_job_show_damage;
    options.file_done = cli_job_show_file;
    return options;
}

lmc_st_verify_options cli_job_verify_options(const cli_job *job)
{
    lmc_st_verify_options options = LMC_INIT(lmc_st_verify_options);
    options.common = job->common;
    options.has_in_fd = is_stream(job->in_path);
    options.in_fd = options.has_in_fd ? OS_STDIN : 0;
    options.base = job->args->base;
    options.base_dirs = job->args->base_dirs;
    options.base_dir_count = job->args->base_dir_count;
    options.sha256 = (job->args->seen & CLI_OPT_SHA256) != 0;
    options.damage = cli_job_show_damage;
    options.file_done = cli_job_show_file;
    return options;
}

int cli_job_end(cli_job *job, lmc_status status)
{
    cli_progress_clear(&job->progress);
    report_base_more(job);
    if (status == LMC_OK)
        return CLI_OK;
    /* bad data has been reported already, fault by fault; so has what a salvage could not read */
    const int is_salvage = (job->args->seen & CLI_OPT_SALVAGE) != 0 && job->result.damaged_count > 0;
    const int is_reported = job->damaged_shown > 0 && (is_salvage || cli_exit_status(status) == CLI_BAD_DATA);
    return is_reported ? cli_exit_status(status) : cli_report(&job->diag);
}

double cli_job_speed(const cli_job *job)
{
    const double seconds = cli_progress_seconds(&job->progress);
    return (double)job->result.original_nbytes / (1 << 30) / (seconds > 0 ? seconds : 1);
}

/* ---- all operands ---- */

#define SAME_NAME "%s: an earlier input's output has the same name"

static int run_job(const cli_work *work, const cli_args *args, const char *in_path, const char *out_path)
{
    cli_job job;
    cli_job_start(&job, args, in_path);
    job.out_path = out_path;
    const lmc_status status = work->do_one(&job, is_stream(in_path) ? "standard input" : in_path,
                                           !out_path ? "standard output" : out_path);
    int exit_status = cli_job_end(&job, status);
    if (exit_status == CLI_OK && (args->seen & CLI_OPT_RM) != 0) {
        /* the output is read back and compared with the input as that is now */
        const char *const archive = work->is_convert ? out_path : in_path;
        const char *const plain = work->is_convert ? in_path : out_path;
        const lmc_st_compare_options options = cli_compare_options(args);
        cli_removal *removal = NULL;
        if (work->is_convert)
            exit_status = cli_base_allows_removal(args, archive, in_path);
        if (exit_status == CLI_OK)
            exit_status = cli_removal_begin(&removal, in_path);
        if (exit_status == CLI_OK && lmc_st_compare(archive, plain, &options, &job.diag) != LMC_OK)
            exit_status = cli_report(&job.diag);
        if (exit_status == CLI_OK)
            exit_status = cli_removal_finish(removal);
        cli_removal_free(removal);
    }
    const int has_output =
        exit_status == CLI_OK || ((args->seen & CLI_OPT_SALVAGE) != 0 && job.result.damaged_count > 0);
    if (has_output && job.progress.has_summary)
        work->print_summary(&job);
    return exit_status;
}

/* The outputs of the inputs before; states NULL: each has a name of its own. */
typedef struct outputs {
    os_state *states;
    size_t count;
} outputs;

static int run_operand(const cli_work *work, const cli_args *args, const char *in_path, outputs *outputs)
{
    const char *fault = NULL;
    char *out_path = NULL;
    os_state found;
    int is_taken = 0;
    char shown[160];
    if ((args->seen & CLI_OPT_RM) != 0 && os_is_folder(in_path) && !cli_is_own_directory(in_path))
        return cli_usage_error(work->name, "--rm needs a directory's own name: no link, \".\" or \"..\"");
    int checked = cli_base_check(args, in_path);
    if (checked == CLI_OK && (args->seen & CLI_OPT_RM) != 0 && !work->is_convert)
        checked = cli_refuse_kept(in_path,
                                  "is kept in a run or store, where others may need it: use \"run drop\" or "
                                  "\"store drop\"");
    if (checked != CLI_OK)
        return checked;
    if ((args->seen & CLI_OPT_STDOUT) != 0 || (is_stream(in_path) && !args->output))
        return run_job(work, args, in_path, NULL);
    /* a directory with a slash at its end is one that the output goes into */
    const int is_into = args->output && args->output[lmc_path_length(args->output)] != '\0' &&
                        os_is_folder(args->output) && !is_stream(in_path);
    if (args->output && args->operand_count == 1 && !is_into) {
        out_path = strdup(args->output);
    } else {
        out_path = work->output_name(args, in_path, &fault);
        if (fault)
            return cli_usage_error(work->name, "%s: %s", cli_shown(shown, sizeof shown, in_path), fault);
        if (out_path && args->output) { /* the default name, in the directory of -o */
            char *const name = out_path;
            out_path = lmc_path_join(&lmc_memory_default, args->output, lmc_last_component(name), "");
            free(name);
        }
    }
    if (!out_path)
        return cli_fail_nomem();
    /* where names that differ in case are the same, find_same_output() does not see it */
    if (outputs->count > 0 && os_lstat(OS_HERE, out_path, &found) == 0)
        for (size_t i = 0; i < outputs->count; i++)
            is_taken |= os_is_same_file(&outputs->states[i], &found);
    const int exit_status =
        is_taken ? cli_usage_error(work->name, SAME_NAME, cli_shown(shown, sizeof shown, in_path))
                 : run_job(work, args, in_path, is_stream(out_path) ? NULL : out_path);
    if (!is_taken && outputs->states)
        outputs->count += os_lstat(OS_HERE, out_path, &outputs->states[outputs->count]) == 0;
    free(out_path);
    return exit_status;
}

/* With -o DIRECTORY, two inputs whose outputs have one name: the second would replace the first with -f, and --rm
 * would then have removed its input. Sets *same to the second such input, or to NULL. Returns an exit status. */
static int find_same_output(const cli_work *work, const cli_args *args, const char **same)
{
    int exit_status = CLI_OK;
    *same = NULL;
    if (args->operand_count < 2 || !args->output)
        return CLI_OK;
    const int count = args->operand_count;
    char **const names = calloc((size_t)count, sizeof *names);
    if (!names)
        return cli_fail_nomem();
    for (int i = 0; i < count && !*same && exit_status == CLI_OK; i++) {
        const char *fault = NULL; /* told when it is this input's turn */
        names[i] = work->output_name(args, args->operands[i], &fault);
        if (!names[i] && !fault)
            exit_status = cli_fail_nomem();
        for (int j = 0; j < i && names[i]; j++)
            if (names[j] && strcmp(lmc_last_component(names[i]), lmc_last_component(names[j])) == 0)
                *same = args->operands[i];
    }
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    return exit_status;
}

int cli_run_files(const cli_work *work, const cli_args *args)
{
    char shown[160];
    const char *fault = NULL;
    const char *same = NULL;
    int has_stdin = 0;
    for (int i = 0; i < args->operand_count; i++)
        has_stdin |= is_stream(args->operands[i]);
    const int has_c = (args->seen & CLI_OPT_STDOUT) != 0;
    const int uses_stdout = has_c || (args->output ? is_stream(args->output) : has_stdin);
    if (args->operand_count == 0)
        fault = "the name of the input is missing";
    else if (has_c && args->output && !is_stream(args->output))
        fault = "-c and -o exclude each other";
    else if ((args->seen & CLI_OPT_RM) != 0 && (uses_stdout || has_stdin))
        fault = "--rm needs files for input and output";
    else if (args->operand_count > 1 && (uses_stdout || has_stdin))
        fault = "standard input and output take one file at a time";
    else if (args->operand_count > 1 && args->output && !os_is_folder(args->output))
        fault = "with several inputs, -o must name an existing directory";
    else if (uses_stdout && (args->seen & CLI_OPT_FORCE) == 0 && os_is_terminal(OS_STDOUT))
        fault = "standard output is a terminal: redirect it, or add -f";
    if (fault)
        return cli_usage_error(work->name, "%s", fault);
    int worst = find_same_output(work, args, &same);
    if (worst != CLI_OK)
        return worst;
    if (same)
        return cli_usage_error(work->name, SAME_NAME, cli_shown(shown, sizeof shown, same));
    outputs outputs = {.count = 0};
    if (args->operand_count > 1 && args->output) {
        outputs.states = calloc((size_t)args->operand_count, sizeof *outputs.states);
        if (!outputs.states)
            return cli_fail_nomem();
    }
    for (int i = 0; i < args->operand_count && worst < 128; i++) {
        const int exit_status = run_operand(work, args, args->operands[i], &outputs);
        worst = exit_status > worst ? exit_status : worst;
    }
    free(outputs.states);
    return worst;
}
