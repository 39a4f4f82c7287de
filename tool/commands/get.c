/*
 * get.c - lmc-st get: the bytes of a tensor, or of a part of it, piece by piece.
 */
#include "tool/commands/get.h"

#include "tool/base.h"
#include "tool/slice.h"
#include "tool/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_SHOWN_NBYTES 160

static const char about[] =
    "Writes the bytes of a tensor of an archive or a plain file to standard output,\n"
    "as they lie in the file: of safetensors little-endian, in C order. What an\n"
    "archive gives is verified; of coded tensors only the blocks that are needed are\n"
    "read. NAME may end in a part, 'NAME[3:7, -1, :]', as numpy understands it: for\n"
    "each dimension an index or START:STOP, both optional and not negative, without\n"
    "step; dimensions that are left out are taken whole. A tensor that has just this\n"
    "name comes first. If elements are narrower than a byte, the part must fall on\n"
    "whole bytes.\n";

static const char more[] = "\n"
                           "A part that leaves the tensor is an error. If a tensor turns out to be damaged,\n"
                           "the exit status is 1, and what was written until then is right.\n";

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
    cli_escape(request->diag.tensor, sizeof request->diag.tensor, request->tensor.name,
               request->tensor.name_nbytes);
    return LMC_ERR_ARG;
}

/* ---- which tensor ---- */

static int holds_text(const lmc_st_tensor *tensor, const char *part, size_t part_nbytes)
{
    for (size_t at = 0; at + part_nbytes <= tensor->name_nbytes; at++)
        if (memcmp(tensor->name + at, part, part_nbytes) == 0)
            return 1;
    return 0;
}

/* The only tensor whose name holds `name`. Returns 1, or 0 if there is none or more than one. */
static int find_similar(const lmc_st_file *file, const char *name, size_t name_nbytes, lmc_st_tensor *similar)
{
    int count = 0;
    for (uint64_t i = 0; i < lmc_st_tensor_count(file) && count < 2; i++) {
        const lmc_st_tensor tensor = cli_tensor(file, i);
        if (holds_text(&tensor, name, name_nbytes)) {
            *similar = tensor;
            count++;
        }
    }
    return count == 1;
}

static lmc_status fail_name(request *request, const char *name, size_t name_nbytes)
{
    char shown[NAME_SHOWN_NBYTES];
    char other[NAME_SHOWN_NBYTES] = "";
    lmc_st_tensor similar = LMC_INIT(lmc_st_tensor);
    const int has_similar = name_nbytes > 0 && find_similar(request->file, name, name_nbytes, &similar);
    cli_escape(shown, sizeof shown, name, name_nbytes);
    if (has_similar)
        cli_escape(other, sizeof other, similar.name, similar.name_nbytes);
    cli_set_diag(&request->diag, lmc_st_path(request->file), LMC_ERR_ARG,
                 has_similar ? "there is no tensor \"%s\"; there is \"%s\"" : "there is no tensor \"%s\"%s",
                 shown, other);
    return LMC_ERR_ARG;
}

/* ---- which part ---- */

static lmc_status take_range(request *request, const char *range)
{
    char fault[CLI_SLICE_FAULT_NBYTES];
    cli_slice *const slice = &request->slice;
    memset(slice, 0, sizeof *slice);
    slice->run_nbytes = request->tensor.nbytes;
    if (range &&
        !cli_slice_range(range, request->tensor.nbytes, &slice->first_byte, &slice->run_nbytes, fault))
        return fail_request(request, fault);
    slice->run_count = slice->run_nbytes == 0 ? 0 : 1;
    slice->nbytes = slice->run_nbytes;
    return LMC_OK;
}

/* Finds tensor and part that the operand names: a tensor of just this name, or NAME[...]. */
static lmc_status resolve(request *request, const char *operand, const char *range)
{
    char fault[CLI_SLICE_FAULT_NBYTES];
    size_t name_nbytes = strlen(operand);
    const char *slice = NULL;
    if (!lmc_st_find(request->file, operand, name_nbytes, &request->index)) {
        const size_t before_slice = cli_slice_name_length(operand);
        if (before_slice != SIZE_MAX) {
            slice = operand + before_slice;
            name_nbytes = before_slice;
        }
        if (!slice || !lmc_st_find(request->file, operand, name_nbytes, &request->index))
            return fail_name(request, operand, name_nbytes);
    }
    request->tensor = cli_tensor(request->file, request->index);
    if (!cli_has_shape(&request->tensor)) {
        cli_set_os_diag(&request->diag, lmc_st_path(request->file), ENOMEM, "cannot describe the tensor");
        return LMC_ERR_NOMEM;
    }
    if (!slice)
        return take_range(request, range);
    if (range)
        return fail_request(request, "a slice and --range exclude each other");
    return cli_slice_parse(slice, &request->tensor, &request->slice, fault) ? LMC_OK
                                                                            : fail_request(request, fault);
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
        const lmc_status status =
            lmc_st_reader_read(request->reader, request->run_first_byte, count, at, &request->diag);
        if (status != LMC_OK)
            return status;
        request->run_first_byte += count;
        request->run_nbytes -= count;
        at += count;
        nbytes -= count;
    }
    return LMC_OK;
}

static int get_part(const cli_args *args, const char *operand, request *request)
{
    lmc_st_options options;
    const int is_stream = !args->output || strcmp(args->output, "-") == 0;
    lmc_status status = resolve(request, operand, args->range);
    if (status == LMC_OK && is_stream && (args->seen & CLI_OPT_FORCE) == 0 && isatty(STDOUT_FILENO))
        return cli_usage_error(args->command, "standard output is a terminal: redirect it, or add -f");
    cli_set_options(args, &options);
    options.out_fd = is_stream ? STDOUT_FILENO : -1;
    if (status == LMC_OK)
        status = lmc_st_reader_create(request->file, request->index, &request->reader, &request->diag);
    if (status == LMC_OK) {
        status = lmc_st_write_content(request->file, is_stream ? "standard output" : args->output,
                                      request->slice.nbytes, read_next, request, &options, &request->diag);
    }
    lmc_st_reader_free(request->reader);
    return status == LMC_OK ? CLI_OK : cli_report(&request->diag);
}

int cli_get_from_file(const cli_args *args, const lmc_st_file *file, const char *operand)
{
    request *const request = calloc(1, sizeof *request); /* a slice may have very many dimensions */
    if (!request)
        return cli_fail_nomem();
    request->file = file;
    request->diag.struct_size = sizeof request->diag;
    const int exit_status = get_part(args, operand, request);
    free(request);
    return exit_status;
}

static int get_from_file(const cli_args *args, lmc_st_file *file)
{
    return cli_get_from_file(args, file, args->operands[1]);
}

static int run_get(const cli_args *args)
{
    return cli_run_on_file(args, 2, "get takes a file and the name of a tensor", get_from_file);
}

const cli_command cli_get = {
    "get", CLI_GET, "write the bytes of a tensor or a part of it", "FILE NAME ", about, more, run_get};
