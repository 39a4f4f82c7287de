/*
 * cmd_get.c - lmc-st get, run get and store get: the bytes of a tensor, or of a part of it, piece by piece.
 */
#include "common/try.h"
#include "lmc_st_experimental.h"
#include "os/os.h"
#include "tool/commands/cmd_run.h"
#include "tool/commands/cmd_store.h"
#include "tool/inputs.h"
#include "tool/slice.h"
#include "tool/tool_path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char about[] =
    "Writes the bytes of a tensor of an archive or a plain file to standard output,\n"
    "little-endian and in C order, regardless of the order in the file. Content of\n"
    "archives is verified; only the blocks of coded tensors that are needed are read.\n"
    "NAME may end in a part, 'NAME[3:7, -1, :]', as numpy understands it: for each\n"
    "dimension an index or START:STOP, both optional and not negative, without step;\n"
    "omitted dimensions are taken whole. A tensor with exactly this name takes\n"
    "precedence. If elements are narrower than a byte, the part must start and end at\n"
    "whole bytes.\n";

static const char more[] =
    "\n"
    "A part that exceeds the tensor is an error. If a tensor turns out to be damaged,\n"
    "the exit status is 1, and what was written so far is correct.\n";

static const char about_run[] =
    "Writes the bytes of a tensor of a step to standard output. NAME may end in a\n"
    "part, 'NAME[3:7, :]', as for \"lmc-st get\". If several files of the step have\n"
    "the tensor, 'FILE:NAME' names the file by its path in the snapshot.\n";

static const char about_store[] =
    "Writes the bytes of a tensor of a model to standard output. NAME may end in a\n"
    "part, 'NAME[3:7, :]', as for \"lmc-st get\". If several files of the model have\n"
    "the tensor, 'FILE:NAME' names the file by its path in the model.\n";

#define NAME_SHOWN_NBYTES 160

/* The bytes that are asked for, and how far they have been read. */
typedef struct request {
    const lmc_st_file *file;
    uint64_t index;
    lmc_st_tensor tensor;
    cli_slice slice;
    lmc_st_reader *reader;
    uint64_t run_first_byte; /* of the run that is being read: what is left of it */
    uint64_t run_nbytes;
    lmc_st_diag diag;
} request;

static lmc_status fail_request(request *request, const char *fault)
{
    char shown[2 * CLI_SLICE_FAULT_NBYTES];
    cli_set_diag(&request->diag, lmc_st_path(request->file), LMC_ERR_ARG, "%s",
                 cli_shown(shown, sizeof shown, fault));
    request->diag.has_tensor = 1;
    lmc_text_escape(request->diag.tensor, sizeof request->diag.tensor, request->tensor.name,
                    request->tensor.name_nbytes);
    return LMC_ERR_ARG;
}

/* ---- which tensor, and which part ---- */

/* No tensor has this name. If only one name holds it, that is named. */
static lmc_status fail_name(request *request, const char *name, size_t name_nbytes)
{
    char shown[NAME_SHOWN_NBYTES];
    char other[NAME_SHOWN_NBYTES] = "";
    int count = 0;
    lmc_text_escape(shown, sizeof shown, name, name_nbytes);
    for (uint64_t i = 0; i < lmc_st_tensor_count(request->file) && name_nbytes > 0 && count < 2; i++) {
        const lmc_st_tensor tensor = cli_tensor(request->file, i);
        size_t at = 0;
        while (at + name_nbytes <= tensor.name_nbytes && memcmp(tensor.name + at, name, name_nbytes) != 0)
            at++;
        if (at + name_nbytes > tensor.name_nbytes)
            continue;
        lmc_text_escape(other, sizeof other, tensor.name, tensor.name_nbytes);
        count++;
    }
    cli_set_diag(&request->diag, lmc_st_path(request->file), LMC_ERR_ARG,
                 count == 1 ? "there is no tensor \"%s\"; there is \"%s\"" : "there is no tensor \"%s\"%s",
                 shown, count == 1 ? other : "");
    return LMC_ERR_ARG;
}

/* Finds tensor and part that the operand names: a tensor of just this name, or NAME[...]. */
static lmc_status resolve(request *request, const char *operand, const char *range)
{
    char fault[CLI_SLICE_FAULT_NBYTES];
    size_t name_nbytes = strlen(operand);
    const char *slice = NULL;
    if (!lmc_st_find_tensor_sized(request->file, operand, name_nbytes, &request->index)) {
        const size_t before_slice = cli_slice_name_length(operand);
        if (before_slice != SIZE_MAX) {
            slice = operand + before_slice;
            name_nbytes = before_slice;
        }
        if (!slice || !lmc_st_find_tensor_sized(request->file, operand, name_nbytes, &request->index))
            return fail_name(request, operand, name_nbytes);
    }
    request->tensor = cli_tensor(request->file, request->index);
    if (!cli_has_shape(&request->tensor)) {
        cli_set_os_diag(&request->diag, lmc_st_path(request->file), ENOMEM, "cannot describe the tensor");
        return LMC_ERR_NOMEM;
    }
    if (slice && range)
        return fail_request(request, "a part and --range exclude each other");
    cli_slice *const picked = &request->slice;
    if (slice)
        return cli_slice_parse(slice, &request->tensor, picked, fault) ? LMC_OK
                                                                       : fail_request(request, fault);
    memset(picked, 0, sizeof *picked);
    picked->run_nbytes = request->tensor.nbytes;
    if (range &&
        !cli_slice_range(range, request->tensor.nbytes, &picked->first_byte, &picked->run_nbytes, fault))
        return fail_request(request, fault);
    picked->run_count = picked->run_nbytes == 0 ? 0 : 1;
    picked->nbytes = picked->run_nbytes;
    return LMC_OK;
}

/* ---- writing ---- */

/* lmc_read_fn: the next bytes, from one run after the other. */
static lmc_status read_next(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    request *const request = user;
    unsigned char *at = dst;
    (void)offset; /* the calls come in order */
    while (nbytes > 0) {
        if (request->run_nbytes == 0) {
            request->run_first_byte = cli_slice_next(&request->slice);
            request->run_nbytes = request->slice.run_nbytes;
        }
        const size_t count = nbytes < request->run_nbytes ? nbytes : (size_t)request->run_nbytes;
        LMC_TRY(lmc_st_reader_read(request->reader, request->run_first_byte, count, at, &request->diag));
        request->run_first_byte += count;
        request->run_nbytes -= count;
        at += count;
        nbytes -= count;
    }
    return LMC_OK;
}

/* Writes what the operand, a name or NAME[SLICE], picks of an open file to the output that the arguments name. Returns
 * the exit status. */
static int get_operand(const cli_args *args, const lmc_st_file *file, const char *operand)
{
    lmc_st_output_options options = LMC_INIT(lmc_st_output_options);
    const int is_stream = !args->output || strcmp(args->output, "-") == 0;
    request *const request = calloc(1, sizeof *request); /* a slice may have very many dimensions */
    if (!request)
        return cli_fail_nomem();
    request->file = file;
    request->diag.struct_size = sizeof request->diag;
    lmc_status status = resolve(request, operand, args->range);
    if (status == LMC_OK && is_stream && (args->seen & CLI_OPT_FORCE) == 0 && os_is_terminal(OS_STDOUT)) {
        free(request);
        return cli_usage_error(args->command, "standard output is a terminal: redirect it, or add -f");
    }
    options.common = cli_common(args);
    options.force = (args->seen & CLI_OPT_FORCE) != 0;
    options.has_out_fd = is_stream;
    options.out_fd = is_stream ? OS_STDOUT : 0;
    if (status == LMC_OK)
        status = lmc_st_reader_create(request->file, request->index, &request->reader, &request->diag);
    if (status == LMC_OK) {
        status = lmc_st_write_content(request->file, is_stream ? "standard output" : args->output,
                                      request->slice.nbytes, read_next, request, &options, &request->diag);
    }
    lmc_st_reader_free(request->reader);
    const int exit_status = status == LMC_OK ? CLI_OK : cli_report(&request->diag);
    free(request);
    return exit_status;
}

static int run_get(const cli_args *args)
{
    lmc_st_file *file = NULL;
    int exit_status = cli_open_operand(args, 2, "get takes a file and the name of a tensor", &file);
    if (exit_status == CLI_OK)
        exit_status = get_operand(args, file, args->operands[1]);
    lmc_st_close(file);
    return exit_status;
}

const cli_command cli_get = {
    "get", CLI_GET, "write the bytes of a tensor or a part of it", "FILE NAME ", about, more, run_get};

/* ---- of a step of a run, or a model of a store ---- */

/* Opens the file of the step or model operands[1] that has the tensor. */
static lmc_status open_tensor(const cli_args *args, const char *tensor, lmc_st_file **file, uint64_t *index,
                              lmc_st_diag *diag)
{
    uint64_t step = 0;
    if (strcmp(args->command, cli_store_get.name) == 0)
        return lmc_store_open_tensor(args->operands[0], args->operands[1], tensor, NULL, file, index, diag);
    (void)cli_read_step(args->operands[1], &step); /* it is one */
    return lmc_run_open_tensor(args->operands[0], step, tensor, NULL, file, index, diag);
}

/* Of run get and store get. */
static int run_get_of_kept(const cli_args *args)
{
    uint64_t number = 0; /* of a step, or of the tensor */
    lmc_st_file *file = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    const int is_run = strcmp(args->command, cli_run_get.name) == 0;
    if (args->operand_count != 3)
        return cli_usage_error(args->command,
                               is_run ? "run get takes a run, a step and the name of a tensor"
                                      : "store get takes a store, a model and the name of a tensor");
    int exit_status = is_run                            ? cli_run_read_step(args, 1, &number)
                      : cli_store_are_names(args, 1, 2) ? CLI_OK
                                                        : CLI_USAGE;
    if (exit_status == CLI_OK && args->output && strcmp(args->output, "-") != 0)
        exit_status = cli_refuse_kept(args->output, "the output would be in a run or store");
    if (exit_status != CLI_OK)
        return exit_status;
    char *const name = args->operands[2];
    const char *slice = "";
    lmc_status status = open_tensor(args, name, &file, &number, &diag);
    const size_t length = cli_slice_name_length(name);
    if (status == LMC_ERR_ARG && length != SIZE_MAX) { /* no tensor has just this name */
        char *const whole = cli_copy(name, length);
        if (!whole)
            return cli_fail_nomem();
        slice = name + length;
        status = open_tensor(args, whole, &file, &number, &diag);
        free(whole);
    }
    exit_status = status == LMC_OK ? CLI_OK : cli_report(&diag);
    if (exit_status ==
        CLI_OK) { /* the operand that "lmc-st get" would have: the tensor's own name, and the slice */
        const lmc_st_tensor tensor = cli_tensor(file, number);
        char *const operand = malloc(tensor.name_nbytes + strlen(slice) + 1);
        if (operand) {
            memcpy(operand, tensor.name, tensor.name_nbytes);
            memcpy(operand + tensor.name_nbytes, slice, strlen(slice) + 1);
        }
        exit_status = operand ? get_operand(args, file, operand) : cli_fail_nomem();
        free(operand);
    }
    lmc_st_close(file);
    return exit_status;
}

const cli_command cli_run_get = {
    "run get", CLI_RUN_GET,    "write the bytes of a tensor of a step", "RUN_DIR STEP NAME ", about_run,
    NULL,      run_get_of_kept};
const cli_command cli_store_get = {
    "store get", CLI_STORE_GET,  "write the bytes of a tensor of a model", "STORE MODEL NAME ", about_store,
    NULL,        run_get_of_kept};
