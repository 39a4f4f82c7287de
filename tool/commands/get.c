/*
 * get.c - lmc-st get: the bytes of a tensor, or of a part of it, piece by piece.
 */
#include "safetensors/common/text.h"
#include "safetensors/read/reader.h"
#include "tool/base.h"
#include "tool/slice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE_NBYTES ((size_t)2 << 20)
#define NAME_SHOWN_NBYTES 160

static const char help[] = "Writes the bytes of a tensor of an archive or a safetensors file to standard\n"
                           "output: little-endian, in C order. What an archive gives is verified; of coded\n"
                           "tensors only the blocks that are needed are read. NAME may end in a part,\n"
                           "'NAME[3:7, -1, :]', as numpy understands it: for each dimension an index or\n"
                           "START:STOP, both optional and not negative, without step; dimensions that are\n"
                           "left out are taken whole. A tensor that has just this name comes first. If\n"
                           "elements are narrower than a byte, the part must fall on whole bytes.\n"
                           "\n"
                           "      --range A:B    bytes A to B - 1 of the tensor; A and B are optional\n"
                           "      --base BASE    the snapshot that FILE is based on, or its archive\n"
                           "      --base-dir DIR where bases are looked for, before an archive's directory\n"
                           "  -o, --output OUT   name of the output, \"-\" for standard output\n"
                           "  -f, --force        replace an existing output; write even to a terminal\n"
                           "  -h, --help         show this text\n"
                           "\n"
                           "A part that leaves the tensor is an error. If a tensor turns out to be damaged,\n"
                           "the exit status is 1, and what was written until then is right.\n";

/* What is asked for. */
typedef struct request {
    const lmc_st_file *file;
    uint64_t index;
    lmc_st_tensor tensor;
    cli_slice *slice;
} request;

/* Where the bytes go. */
typedef struct sink {
    os_output *output; /* NULL: standard output */
    uint64_t nbytes;   /* written */
    unsigned char *piece;
    size_t piece_nbytes; /* collected, not yet written */
} sink;

static lmc_status fail_request(const request *request, lmc_st_diag *diag, const char *fault)
{
    char shown[2 * CLI_SLICE_FAULT_NBYTES];
    st_text_escape(shown, sizeof(shown), fault, strlen(fault));
    st_diag_set_tensor(diag, request->tensor.name, request->tensor.name_nbytes);
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "%s", shown);
}

/* ---- which tensor ---- */

static int holds(const lmc_st_tensor *tensor, const char *part, size_t part_nbytes)
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
        lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
        st_file_describe(file, (size_t)i, &tensor);
        if (holds(&tensor, name, name_nbytes)) {
            *similar = tensor;
            count++;
        }
    }
    return count == 1;
}

static lmc_status fail_name(const lmc_st_file *file, const char *name, size_t name_nbytes, lmc_st_diag *diag)
{
    char shown[NAME_SHOWN_NBYTES];
    char other[NAME_SHOWN_NBYTES];
    lmc_st_tensor similar = LMC_INIT(lmc_st_tensor);
    st_text_escape(shown, sizeof(shown), name, name_nbytes);
    if (name_nbytes == 0 || !find_similar(file, name, name_nbytes, &similar))
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor \"%s\"", shown);
    st_text_escape(other, sizeof(other), similar.name, similar.name_nbytes);
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor \"%s\"; there is \"%s\"", shown,
                   other);
}

/* ---- which part ---- */

static void take_bytes(request *request, uint64_t first_byte, uint64_t nbytes)
{
    memset(request->slice, 0, sizeof(*request->slice));
    request->slice->first_byte = first_byte;
    request->slice->run_nbytes = nbytes;
    request->slice->run_count = nbytes == 0 ? 0 : 1;
    request->slice->nbytes = nbytes;
}

static lmc_status take_range(request *request, const char *range, lmc_st_diag *diag)
{
    char fault[CLI_SLICE_FAULT_NBYTES];
    uint64_t first_byte = 0;
    uint64_t nbytes = request->tensor.nbytes;
    if (range != NULL && !cli_slice_range(range, request->tensor.nbytes, &first_byte, &nbytes, fault))
        return fail_request(request, diag, fault);
    take_bytes(request, first_byte, nbytes);
    return LMC_OK;
}

static lmc_status take_slice(request *request, const char *slice, const char *range, lmc_st_diag *diag)
{
    char fault[CLI_SLICE_FAULT_NBYTES];
    if (range != NULL)
        return fail_request(request, diag, "a slice and --range exclude each other");
    return cli_slice_parse(slice, &request->tensor, request->slice, fault)
               ? LMC_OK
               : fail_request(request, diag, fault);
}

/* Finds tensor and part that the operand names: a tensor of just this name, or NAME[...]. */
static lmc_status resolve(request *request, const char *operand, const char *range, lmc_st_diag *diag)
{
    size_t name_nbytes = strlen(operand);
    const char *slice = NULL;
    if (!lmc_st_find(request->file, operand, name_nbytes, &request->index)) {
        const size_t before_slice = cli_slice_name_length(operand);
        if (before_slice != SIZE_MAX) {
            slice = operand + before_slice;
            name_nbytes = before_slice;
        }
        if (slice == NULL || !lmc_st_find(request->file, operand, name_nbytes, &request->index))
            return fail_name(request->file, operand, name_nbytes, diag);
    }
    const lmc_status status = lmc_st_tensor_info(request->file, request->index, &request->tensor);
    if (status == LMC_ERR_NOMEM)
        return st_fail_nomem(diag);
    if (status != LMC_OK)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this number");
    return slice != NULL ? take_slice(request, slice, range, diag) : take_range(request, range, diag);
}

/* ---- writing ---- */

static lmc_status flush_piece(sink *sink, lmc_st_diag *diag)
{
    lmc_status status = LMC_OK;
    if (cli_cancel != 0)
        return st_fail(diag, LMC_ERR_CANCELLED, LMC_ST_NO_OFFSET, "cancelled");
    if (sink->output != NULL) {
        status = os_output_write(sink->output, sink->nbytes, sink->piece, sink->piece_nbytes, diag);
    } else {
        const int os_errno = os_write_all(STDOUT_FILENO, sink->piece, sink->piece_nbytes, &cli_cancel);
        if (os_errno != 0) {
            st_diag_set_file(diag, "standard output");
            status = st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot write");
        }
    }
    sink->nbytes += sink->piece_nbytes;
    sink->piece_nbytes = 0;
    return status;
}

static lmc_status copy_run(st_reader *reader, uint64_t first_byte, uint64_t nbytes, sink *sink,
                           lmc_st_diag *diag)
{
    while (nbytes > 0) {
        const size_t room = PIECE_NBYTES - sink->piece_nbytes;
        const size_t count = nbytes < room ? (size_t)nbytes : room;
        lmc_status status = st_reader_read(reader, first_byte, count, sink->piece + sink->piece_nbytes, diag);
        if (status != LMC_OK)
            return status;
        sink->piece_nbytes += count;
        first_byte += count;
        nbytes -= count;
        status = sink->piece_nbytes == PIECE_NBYTES ? flush_piece(sink, diag) : LMC_OK;
        if (status != LMC_OK)
            return status;
    }
    return LMC_OK;
}

static lmc_status copy_runs(const request *request, st_reader *reader, sink *sink, lmc_st_diag *diag)
{
    lmc_status status = LMC_OK;
    for (uint64_t run = 0; run < request->slice->run_count && status == LMC_OK; run++) {
        const uint64_t first_byte = cli_slice_next(request->slice);
        status = copy_run(reader, first_byte, request->slice->run_nbytes, sink, diag);
    }
    if (status == LMC_OK)
        status = flush_piece(sink, diag);
    return status == LMC_OK ? os_input_check_unchanged(&request->file->input, diag) : status;
}

static lmc_status copy_content(const request *request, os_output *output, lmc_st_diag *diag)
{
    lmc_ctx *ctx = NULL;
    st_reader reader;
    sink sink = {.output = output, .piece = malloc(PIECE_NBYTES)};
    if (sink.piece == NULL || lmc_ctx_create(NULL, &ctx) != LMC_OK) {
        free(sink.piece);
        return st_fail_nomem(diag);
    }
    lmc_status status = st_reader_open(&reader, request->file, ctx, (size_t)request->index, diag);
    if (status == LMC_OK)
        status = copy_runs(request, &reader, &sink, diag);
    st_reader_close(&reader);
    lmc_ctx_free(ctx);
    free(sink.piece);
    return status;
}

static lmc_status write_file(const request *request, const char *path, int force, lmc_st_diag *diag)
{
    os_output output;
    const os_place place = os_place_of(path);
    lmc_status status = st_file_check_output(request->file, path, -1, diag);
    if (status != LMC_OK)
        return status;
    status = os_output_create(&output, &st_memory_default, &place, &request->file->input, force, diag);
    if (status != LMC_OK)
        return status;
    status = copy_content(request, &output, diag);
    if (status != LMC_OK) {
        os_output_discard(&output);
        return status;
    }
    return os_output_commit(&output, force, 0, diag);
}

static lmc_status write_stdout(const request *request, lmc_st_diag *diag)
{
    static const char name[] = "standard output";
    if (os_input_is(&request->file->input, name, STDOUT_FILENO)) {
        st_diag_set_file(diag, name);
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "input and output are the same file");
    }
    const lmc_status status = st_file_check_output(request->file, name, STDOUT_FILENO, diag);
    return status == LMC_OK ? copy_content(request, NULL, diag) : status;
}

/* ---- */

static int get(const cli_args *args, const lmc_st_file *file, cli_slice *slice)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    request request = {.file = file, .tensor = LMC_INIT(lmc_st_tensor), .slice = slice};
    const int force = (args->seen & CLI_OPT_FORCE) != 0;
    const char *const out_path = args->output != NULL && strcmp(args->output, "-") != 0 ? args->output : NULL;
    st_diag_init(&diag, args->operands[0]);
    lmc_status status = resolve(&request, args->operands[1], args->range, &diag);
    if (status == LMC_OK && out_path == NULL && !force && isatty(STDOUT_FILENO))
        return cli_usage_error("get", "standard output is a terminal: redirect it, or add -f");
    if (status == LMC_OK) {
        status =
            out_path != NULL ? write_file(&request, out_path, force, &diag) : write_stdout(&request, &diag);
    }
    return status == LMC_OK ? CLI_OK : cli_report(&diag);
}

static int run(const cli_args *args)
{
    lmc_st_file *file = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    int exit_status = CLI_OK;
    if (args->operand_count != 2)
        return cli_usage_error("get", "get takes a file and the name of a tensor");
    exit_status = cli_base_check(args, args->operands[0]);
    if (exit_status != CLI_OK)
        return exit_status;
    if (cli_open(args, args->operands[0], &file, &diag) != LMC_OK)
        return cli_report(&diag);
    cli_slice *const slice = malloc(sizeof(*slice));
    if (slice == NULL) {
        fprintf(stderr, "lmc-st: out of memory\n");
        exit_status = CLI_SYSTEM;
    } else {
        exit_status = get(args, file, slice);
    }
    free(slice);
    lmc_st_close(file);
    return exit_status;
}

const cli_command cli_get = {"get",
                             CLI_OPT_OUTPUT | CLI_OPT_RANGE | CLI_OPT_FORCE | CLI_OPT_BASE | CLI_OPT_BASE_DIR,
                             "get FILE NAME [OPTION...]", help, run};
