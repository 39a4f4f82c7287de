/*
 * analyze_tensor.c - one pass over a tensor in pieces: its values are counted, and those of a plain file are encoded as
 * lmc-st convert would do it. What is encoded is counted and not kept.
 */
#include "tool/commands/analyze.h"

#include "tool/base.h"
#include "tool/cli.h"
#include "tool/text.h"

#include <stdlib.h>

/* Of an archive, whose tensors are not encoded again. */
#define PIECE_NBYTES ((size_t)1 << 20)

/* The tensor, and the one of the file before. */
typedef struct input {
    lmc_st_reader *reader, *previous; /* previous may be NULL */
    uint64_t nbytes;
    lmc_st_diag *diag;
} input;

/* How it is coded. */
typedef struct coding {
    lmc_plan *plan; /* NULL: an archive holds it */
    lmc_info info;
    size_t block_bound;
} coding;

static lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const input *const input = user;
    return lmc_st_reader_read(input->reader, offset, nbytes, dst, input->diag);
}

static lmc_status read_previous(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const input *const input = user;
    return lmc_st_reader_read(input->previous, offset, nbytes, dst, input->diag);
}

/* A failure of the codec that no read has told of. */
static lmc_status fail(const lmc_st_file *file, const lmc_st_tensor *tensor, lmc_status status,
                       lmc_st_diag *diag)
{
    if (diag->status != LMC_OK)
        return status;
    cli_set_diag(diag, lmc_st_path(file), status, "%s", lmc_status_text(status));
    diag->has_tensor = 1;
    cli_escape(diag->tensor, sizeof diag->tensor, tensor->name, tensor->name_nbytes);
    return status;
}

/* ---- plans ---- */

/* How elements are cut where the plan does not say it: 8 upper bits, the sign of a float not among them. */
static lmc_cut usual_cut(lmc_dtype dtype)
{
    const unsigned nbits = lmc_dtype_nbits(dtype);
    const int is_float = (dtype >= LMC_DTYPE_F8_E5M2 && dtype <= LMC_DTYPE_F8_E5M2FNUZ) ||
                         dtype == LMC_DTYPE_F16 || dtype == LMC_DTYPE_BF16 || dtype == LMC_DTYPE_F32 ||
                         dtype == LMC_DTYPE_C64 || dtype == LMC_DTYPE_F64;
    return (lmc_cut){.struct_size = sizeof(lmc_cut),
                     .is_rotated = is_float,
                     .high_nbits = nbits <= 8 ? 8 : 16,
                     .low_nbits = nbits <= 8 ? 0 : 8};
}

/* Sets *cut, and of a tensor that is to be encoded, *coding. Errors: as lmc_plan_create(). */
static lmc_status make_plans(const cli_analyzer *analyzer, input *input, const lmc_params *params,
                             int is_encoded, lmc_cut *cut, coding *coding)
{
    lmc_plan *alone = NULL;
    lmc_status status =
        lmc_plan_create(analyzer->ctx, params, input->nbytes, read_content, NULL, input, &alone);
    if (status != LMC_OK)
        return status;
    *cut = usual_cut(params->dtype);
    (void)lmc_plan_cut(alone, cut);
    if (!is_encoded) {
        lmc_plan_free(alone);
        return LMC_OK;
    }
    coding->plan = alone;
    if (input->previous) {
        status = lmc_plan_create(analyzer->ctx, params, input->nbytes, read_content, read_previous, input,
                                 &coding->plan);
        lmc_plan_free(alone);
    }
    if (status != LMC_OK)
        return status;
    lmc_plan_info(coding->plan, &coding->info);
    coding->block_bound = lmc_plan_block_bound(coding->plan);
    return LMC_OK;
}

/* ---- the pass ---- */

/* Makes buffers large enough. Error: NOMEM. */
static lmc_status reserve(cli_analyzer *analyzer, size_t piece_nbytes, size_t block_nbytes)
{
    if (analyzer->piece_nbytes < piece_nbytes || analyzer->block_nbytes < block_nbytes) {
        free(analyzer->content);
        free(analyzer->before);
        free(analyzer->block);
        analyzer->content = malloc(piece_nbytes);
        analyzer->before = malloc(piece_nbytes);
        analyzer->block = malloc(block_nbytes);
        analyzer->piece_nbytes = piece_nbytes;
        analyzer->block_nbytes = block_nbytes;
    }
    return analyzer->content && analyzer->before && analyzer->block ? LMC_OK : LMC_ERR_NOMEM;
}

/* Reads, counts and encodes piece after piece. *stored_nbytes: bytes of the blocks. */
static lmc_status pass_over(cli_analyzer *analyzer, input *input, const coding *coding, size_t piece_nbytes,
                            uint64_t *stored_nbytes)
{
    const int is_delta = coding->plan && coding->info.mode == LMC_FRAME_DELTA;
    lmc_status status = LMC_OK;
    for (uint64_t at = 0, i = 0; at < input->nbytes && status == LMC_OK; at += piece_nbytes, i++) {
        const size_t nbytes = input->nbytes - at < piece_nbytes ? (size_t)(input->nbytes - at) : piece_nbytes;
        const unsigned char *const before = input->previous ? analyzer->before : NULL;
        lmc_block_entry entry = {.stored_nbytes = 0};
        if (cli_cancel != 0)
            return LMC_ERR_CANCELLED;
        status = read_content(input, at, analyzer->content, nbytes);
        if (status == LMC_OK && before)
            status = read_previous(input, at, analyzer->before, nbytes);
        if (status != LMC_OK)
            break;
        cli_counts_take(analyzer->counts, analyzer->content, before, nbytes);
        if (coding->plan) {
            status = lmc_encode_block(analyzer->ctx, coding->plan, i, analyzer->content, nbytes,
                                      is_delta ? before : NULL, is_delta ? nbytes : 0, analyzer->block,
                                      coding->block_bound, &entry);
        }
        *stored_nbytes += entry.stored_nbytes;
    }
    return status;
}

static lmc_status analyze(cli_analyzer *analyzer, input *input, const lmc_st_tensor *tensor,
                          const lmc_params *params, int is_encoded, cli_analysis *analysis)
{
    coding coding = {.info = LMC_INIT(lmc_info)};
    lmc_cut cut;
    uint64_t stored_nbytes = 0;
    lmc_status status = make_plans(analyzer, input, params, is_encoded, &cut, &coding);
    const size_t piece_nbytes = coding.plan ? coding.info.block_nbytes : PIECE_NBYTES;
    if (status == LMC_OK)
        status = reserve(analyzer, piece_nbytes, coding.block_bound + 1);
    if (status == LMC_OK) {
        cli_counts_start(analyzer->counts, tensor->dtype, &cut);
        status = pass_over(analyzer, input, &coding, piece_nbytes, &stored_nbytes);
    }
    if (status == LMC_OK) {
        const lmc_st_mode mode = coding.plan ? (lmc_st_mode)coding.info.mode : analysis->mode;
        cli_counts_finish(analyzer->counts, mode == LMC_ST_MODE_DELTA && input->previous, analysis);
        analysis->mode = mode;
        analysis->nbytes = tensor->nbytes;
        if (analysis->predicted_nbytes > (double)tensor->nbytes)
            analysis->predicted_nbytes = (double)tensor->nbytes; /* it would be stored */
        analysis->stored_nbytes = coding.plan
                                      ? coding.info.head_nbytes + stored_nbytes + coding.info.tail_nbytes
                                      : tensor->stored_nbytes;
    }
    lmc_plan_free(coding.plan);
    return status;
}

lmc_status cli_analyze_tensor(cli_analyzer *analyzer, const lmc_st_file *file, uint64_t index,
                              const lmc_st_file *previous, uint64_t previous_index, cli_analysis *analysis,
                              lmc_st_diag *diag)
{
    const lmc_st_tensor tensor = cli_tensor(file, index);
    input input = {.nbytes = tensor.nbytes, .diag = diag};
    lmc_params params;
    lmc_params_init(&params);
    params.dtype = tensor.dtype;
    params.row_nbytes = lmc_st_row_nbytes(file, index);
    lmc_status status = lmc_st_tensor_mode(file, index, &analysis->mode, diag);
    if (status == LMC_OK)
        status = lmc_st_reader_create(file, index, &input.reader, diag);
    if (status == LMC_OK && previous)
        status = lmc_st_reader_create(previous, previous_index, &input.previous, diag);
    if (status == LMC_OK)
        status = analyze(analyzer, &input, &tensor, &params, !lmc_st_is_archive(file), analysis);
    lmc_st_reader_free(input.reader);
    lmc_st_reader_free(input.previous);
    return status == LMC_OK ? LMC_OK : fail(file, &tensor, status, diag);
}
