/*
 * run_read.c - lmc-st run restore, run get and run verify.
 */
#include "tool/commands/get.h"
#include "tool/commands/run.h"
#include "tool/slice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char about_restore[] =
    "Writes the snapshot of a step, byte for byte: a file if the snapshot was one,\n"
    "else a directory. Everything is verified before OUT gets its name.\n";

static const char about_get[] =
    "Writes the bytes of a tensor of a step to standard output. NAME may end in a\n"
    "part, 'NAME[3:7, :]', as \"lmc-st get\" has it. If several files of the step have\n"
    "the tensor, 'FILE:NAME' names the file by its path in the snapshot.\n";

static const char about_verify[] =
    "Checks every archive of the steps, of all steps if none is named. Each is read\n"
    "down to its key frame. Nothing is written; files that were copied have no\n"
    "checksums. Damaged tensors are named; the exit status is then 1.\n";

static int run_restore(const cli_args *args)
{
    cli_job job;
    uint64_t step = 0;
    if (args->operand_count != 2)
        return cli_usage_error(args->command, "run restore takes a run and a step");
    if (!args->output || strcmp(args->output, "-") == 0)
        return cli_usage_error(args->command, "run restore needs the name of its output: -o OUT");
    const int status = cli_run_read_step(args, 1, &step);
    if (status != CLI_OK)
        return status;
    cli_job_start(&job, args, args->output);
    return cli_job_end(&job, lmc_st_run_restore(args->operands[0], step, args->output, &job.options,
                                                &job.result, &job.diag));
}

/* ---- get ---- */

/* The tensor of the open file, and the slice, as "lmc-st get" takes them. */
static int get_tensor(const cli_args *args, const lmc_st_file *file, uint64_t index, const char *slice)
{
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    if (lmc_st_tensor_info(file, index, &tensor) != LMC_OK)
        return cli_fail_nomem();
    char *const operand = malloc(tensor.name_nbytes + strlen(slice) + 1);
    if (!operand)
        return cli_fail_nomem();
    memcpy(operand, tensor.name, tensor.name_nbytes);
    memcpy(operand + tensor.name_nbytes, slice, strlen(slice) + 1);
    const int status = cli_get_from_file(args, file, operand);
    free(operand);
    return status;
}

static int run_get(const cli_args *args)
{
    uint64_t step = 0;
    uint64_t index = 0;
    lmc_st_file *file = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    if (args->operand_count != 3)
        return cli_usage_error(args->command, "run get takes a run, a step and the name of a tensor");
    int exit_status = cli_run_read_step(args, 1, &step);
    if (exit_status != CLI_OK)
        return exit_status;
    char *const name = args->operands[2];
    const char *slice = "";
    lmc_status status = lmc_st_run_open_tensor(args->operands[0], step, name, NULL, &file, &index, &diag);
    const size_t length = cli_slice_name_length(name);
    if (status == LMC_ERR_ARG && length != SIZE_MAX) { /* no tensor has just this name */
        char *const whole = strndup(name, length);
        if (!whole)
            return cli_fail_nomem();
        slice = name + length;
        status = lmc_st_run_open_tensor(args->operands[0], step, whole, NULL, &file, &index, &diag);
        free(whole);
    }
    exit_status = status == LMC_OK ? get_tensor(args, file, index, slice) : cli_report(&diag);
    lmc_st_close(file);
    return exit_status;
}

/* ---- verify ---- */

static int run_verify(const cli_args *args)
{
    cli_job job;
    uint64_t *steps = NULL;
    size_t count = 0;
    lmc_st_run_options run_options;
    if (args->operand_count == 0)
        return cli_usage_error(args->command, "run verify takes a run, and steps of it");
    int exit_status = cli_run_read_steps(args, 1, &steps, &count);
    if (exit_status == CLI_OK) {
        cli_job_start(&job, args, args->operands[0]);
        cli_run_set_options(args, &run_options);
        exit_status = cli_job_end(&job, lmc_st_run_verify(args->operands[0], steps, count, &run_options,
                                                          &job.options, &job.result, &job.diag));
    }
    free(steps);
    const int output_status = cli_finish_output();
    return exit_status == CLI_OK ? output_status : exit_status;
}

const cli_command cli_run_restore = {
    "run restore", CLI_RUN_RESTORE, "write the snapshot of a step", "RUN_DIR STEP -o OUT ", about_restore,
    NULL,          run_restore};
const cli_command cli_run_get = {
    "run get", CLI_RUN_GET, "write the bytes of a tensor of a step", "RUN_DIR STEP NAME ", about_get,
    NULL,      run_get};
const cli_command cli_run_verify = {
    "run verify", CLI_RUN_VERIFY, "check steps, write nothing", "RUN_DIR [STEP...] ", about_verify,
    NULL,         run_verify};
