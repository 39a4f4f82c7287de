/*
 * cmd_analyze.c - lmc-st analyze: entropies of the values of tensors, what has changed since the file before, and what
 * LMC makes of it. Tensors are read in pieces: values are counted, and those of a plain file are encoded as lmc-st
 * convert would do it. Only sums are kept.
 */
#include "lmc_st_experimental.h"
#include "tool/commands/analyze_counts.h"

#include "lmc_experimental.h"
#include "tool/commands/form_sums.h"
#include "tool/inputs.h"

#include <stdio.h>
#include <stdlib.h>

static const char about[] =
    "Analyzes the tensors of each file, and what has changed since the file before.\n"
    "Entropies are in bits per value: of byte planes, of sign, exponent, mantissa,\n"
    "and of the symbols that LMC codes. \"predicted\" is stored / original by these;\n"
    "\"ratio\" is that in the archive or, for a plain file, what \"convert\" would reach\n"
    "with the file before as base. \"mode\" is followed by the form of narrow contents\n"
    "in wide elements, if any. Nothing is written.\n";

/* ---- one tensor: reading, counting, encoding ---- */

/* Memory for one tensor after the other, and where they are. */
typedef struct analyzer {
    lmc_ctx *ctx;
    cli_counts *counts;
    unsigned char *content, *before, *block; /* pieces of at least piece_nbytes, block_nbytes bytes */
    size_t piece_nbytes, block_nbytes;
} analyzer;

/* For an archive: its tensors are not re-encoded. */
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

/* ---- plans ---- */

/* Sets *cut, and of a tensor that is to be encoded, *coding. Errors: as lmc_plan_create(). */
static lmc_status make_plans(const analyzer *analyzer, input *input, const lmc_params *params, int is_encoded,
                             lmc_cut *cut, coding *coding)
{
    lmc_plan *alone = NULL;
    lmc_status status = lmc_plan_create(analyzer->ctx, params, input->nbytes, read_content, input, &alone);
    if (status != LMC_OK)
        return status;
    /* where the plan does not say how elements are cut: 8 upper bits, the sign of a float not among them */
    const unsigned nbits = lmc_dtype_nbits(params->dtype);
    const int is_float = (params->dtype >= LMC_DTYPE_F8_E5M2 && params->dtype <= LMC_DTYPE_F8_E5M2FNUZ) ||
                         params->dtype == LMC_DTYPE_F16 || params->dtype == LMC_DTYPE_BF16 ||
                         params->dtype == LMC_DTYPE_F32 || params->dtype == LMC_DTYPE_C64 ||
                         params->dtype == LMC_DTYPE_F64;
    *cut = (lmc_cut)LMC_INIT(lmc_cut);
    status = lmc_plan_cut(alone, cut);
    if (cut->high_nbits == 0) { /* the plan cuts no element: as most plans for the dtype would */
        cut->is_rotated = is_float;
        cut->high_nbits = nbits <= 8 ? 8 : 16;
        cut->low_nbits = nbits <= 8 ? 0 : 8;
    }
    if (status != LMC_OK || !is_encoded) {
        lmc_plan_free(alone);
        return status;
    }
    coding->plan = alone;
    if (input->previous) {
        status = lmc_plan_create_delta(analyzer->ctx, params, input->nbytes, read_content, read_previous,
                                       input, &coding->plan);
        lmc_plan_free(alone);
    }
    if (status != LMC_OK)
        return status;
    coding->block_bound = lmc_plan_block_bound(coding->plan);
    return lmc_plan_info(coding->plan, &coding->info);
}

/* ---- the pass ---- */

/* Reads, counts and encodes piece after piece. *stored_nbytes: bytes of the blocks. */
static lmc_status pass_over(analyzer *analyzer, input *input, const coding *coding, size_t piece_nbytes,
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
            status = lmc_encode_delta_block(analyzer->ctx, coding->plan, i, analyzer->content, nbytes,
                                            is_delta ? before : NULL, is_delta ? nbytes : 0, analyzer->block,
                                            coding->block_bound, &entry);
        }
        *stored_nbytes += entry.stored_nbytes;
    }
    return status;
}

/* Makes buffers large enough. Error: NOMEM. */
static lmc_status reserve(analyzer *analyzer, size_t piece_nbytes, size_t block_nbytes)
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

/* Analyzes tensor `index` of `file`. previous: the file before, whose tensor `previous_index` has the same dtype and
 * shape, or NULL. Errors: as lmc_st_reader_read(), NOMEM, CANCELLED; all are in *diag. */
static lmc_status analyze_tensor(analyzer *analyzer, const lmc_st_file *file, uint64_t index,
                                 const lmc_st_file *previous, uint64_t previous_index, cli_analysis *analysis,
                                 lmc_st_diag *diag)
{
    const lmc_st_tensor tensor = cli_tensor(file, index);
    input input = {.nbytes = tensor.nbytes, .diag = diag};
    coding coding = {.info = LMC_INIT(lmc_info)};
    uint64_t stored_nbytes = 0;
    lmc_cut cut;
    lmc_params params;
    lmc_params_init(&params);
    params.dtype = tensor.dtype;
    params.row_nbytes = lmc_st_row_nbytes(file, index);
    lmc_form_info form = LMC_INIT(lmc_form_info);
    lmc_st_mode mode = LMC_ST_MODE_PLAIN;
    lmc_status status = lmc_st_tensor_form(file, index, &mode, &form, diag);
    if (status == LMC_OK)
        status = lmc_st_reader_create(file, index, &input.reader, diag);
    if (status == LMC_OK && previous)
        status = lmc_st_reader_create(previous, previous_index, &input.previous, diag);
    if (status == LMC_OK)
        status = make_plans(analyzer, &input, &params, !lmc_st_is_archive(file), &cut, &coding);
    if (status == LMC_OK && coding.plan)
        status = lmc_plan_form(coding.plan, &form);
    const size_t piece_nbytes = coding.plan ? coding.info.block_nbytes : PIECE_NBYTES;
    if (status == LMC_OK)
        status = reserve(analyzer, piece_nbytes, coding.block_bound + 1);
    if (status == LMC_OK) {
        cli_counts_start(analyzer->counts, tensor.dtype, &cut);
        status = pass_over(analyzer, &input, &coding, piece_nbytes, &stored_nbytes);
    }
    if (status == LMC_OK) {
        if (coding.plan)
            mode = (lmc_st_mode)coding.info.mode;
        cli_counts_finish(analyzer->counts, mode == LMC_ST_MODE_DELTA && previous, analysis);
        analysis->mode = mode;
        analysis->form = form;
        analysis->nbytes = tensor.nbytes;
        if (analysis->predicted_nbytes > (double)tensor.nbytes)
            analysis->predicted_nbytes = (double)tensor.nbytes; /* it would be stored */
        analysis->stored_nbytes = coding.plan
                                      ? coding.info.head_nbytes + stored_nbytes + coding.info.tail_nbytes
                                      : tensor.stored_nbytes;
    } else if (diag->status == LMC_OK) { /* a failure of the codec, of which no read has told */
        cli_set_diag(diag, lmc_st_path(file), status, "%s", lmc_status_text(status));
        diag->has_tensor = 1;
        lmc_text_escape(diag->tensor, sizeof diag->tensor, tensor.name, tensor.name_nbytes);
    }
    lmc_plan_free(coding.plan);
    lmc_st_reader_free(input.reader);
    lmc_st_reader_free(input.previous);
    return status;
}

/* ---- files ---- */

/* Longer names are cut in the table; --json gives them whole. */
#define NAME_SHOWN_MAX 40
#define DTYPE_COUNT LMC_DTYPE_COUNT
#define DISTANCES_PER_LINE 10

/* Files in their order, and the sums over the tensors of the one at work, by dtype. */
typedef struct session {
    const cli_args *args;
    analyzer analyzer;
    int is_json;
    cli_analysis sums[DTYPE_COUNT];
    uint64_t tensor_counts[DTYPE_COUNT];
    cli_form_sums forms;
    uint64_t file_count; /* that were told */
} session;

static double per_value(const cli_analysis *analysis, double nbits)
{
    return analysis->value_count == 0 ? 0 : nbits / (double)analysis->value_count;
}

static double share(double part, double whole)
{
    return whole == 0 ? 0 : part / whole;
}

/* The share of the values compared with those of the file before that has changed, and the share of their bits. */
static double changed_share(const cli_analysis *analysis)
{
    return share((double)analysis->changed_count, (double)analysis->pair_count);
}

static double changed_nbits_share(const cli_analysis *analysis)
{
    return share((double)analysis->changed_nbits,
                 (double)analysis->pair_count * 8 * analysis->element_nbytes);
}

/* ---- JSON ---- */

static void print_number(const char *key, int is_there, double number)
{
    if (is_there)
        printf(",\"%s\":%.6f", key, number);
    else
        printf(",\"%s\":null", key);
}

/* From "nbytes" on. mode: NULL for a sum. */
static void print_json_analysis(const cli_analysis *analysis, const char *mode)
{
    const int has_values = analysis->value_count > 0;
    const int has_pairs = analysis->pair_count > 0;
    unsigned count = CLI_DISTANCE_COUNT;
    printf("\"nbytes\":%llu,\"planes\":[", (unsigned long long)analysis->nbytes);
    for (unsigned i = 0; i < analysis->element_nbytes && has_values; i++)
        printf("%s%.6f", i == 0 ? "" : ",", per_value(analysis, analysis->planes[i]));
    printf("]");
    print_number("sign", has_values && analysis->has_parts, per_value(analysis, analysis->sign));
    print_number("exponent", has_values && analysis->has_parts, per_value(analysis, analysis->exponent));
    print_number("mantissa", has_values && analysis->has_parts, per_value(analysis, analysis->mantissa));
    print_number("symbols", has_values, per_value(analysis, analysis->symbols));
    print_number("changed", has_pairs, changed_share(analysis));
    print_number("changed_bits", has_pairs, changed_nbits_share(analysis));
    printf(",\"ulp\":%s", has_pairs ? "[" : "null");
    while (count > 1 && analysis->distances[count - 1] == 0)
        count--;
    for (unsigned i = 0; i < count && has_pairs; i++)
        printf("%s%llu", i == 0 ? "" : ",", (unsigned long long)analysis->distances[i]);
    printf("%s", has_pairs ? "]" : "");
    print_number("predicted_ratio", analysis->nbytes > 0,
                 share(analysis->predicted_nbytes, (double)analysis->nbytes));
    print_number("ratio", analysis->nbytes > 0,
                 share((double)analysis->stored_nbytes, (double)analysis->nbytes));
    printf(",\"mode\":");
    cli_json_text(mode);
    if (mode)
        cli_form_print_json(&analysis->form);
    else
        printf(",\"form\":null,\"rans\":null");
    printf("}");
}

/* ---- table ---- */

/* Bits a value, or "-". */
static void print_bits(int width, int is_there, double nbits)
{
    if (is_there)
        printf(" %*.3f", width, nbits);
    else
        printf(" %*s", width, "-");
}

static void print_share(int width, int is_there, double part)
{
    if (is_there)
        printf(" %*.2f%%", width - 1, 100 * part);
    else
        printf(" %*s", width, "-");
}

static void print_row(const char *name, const char *dtype, const cli_analysis *analysis, const char *mode)
{
    char planes[64] = "-";
    int length = 0;
    int columns = 0;
    const int has_values = analysis->value_count > 0;
    const int has_parts = has_values && analysis->has_parts;
    const int has_pairs = analysis->pair_count > 0;
    for (const char *at = name; *at != '\0'; at++)
        columns += ((unsigned char)*at & 0xc0) != 0x80;
    for (unsigned i = 0; i < analysis->element_nbytes && has_values; i++)
        length += snprintf(planes + length, sizeof planes - (size_t)length, "%s%.2f", i == 0 ? "" : " ",
                           per_value(analysis, analysis->planes[i]));
    printf("%s%*s  %-8s %12llu ", name, NAME_SHOWN_MAX - columns, "", dtype,
           (unsigned long long)analysis->nbytes);
    print_bits(5, has_parts, per_value(analysis, analysis->sign));
    print_bits(8, has_parts, per_value(analysis, analysis->exponent));
    print_bits(8, has_parts, per_value(analysis, analysis->mantissa));
    printf("  %-23s", planes);
    print_bits(7, has_values, per_value(analysis, analysis->symbols));
    printf(" ");
    print_share(7, has_pairs, changed_share(analysis));
    print_share(7, has_pairs, changed_nbits_share(analysis));
    printf(" ");
    print_bits(9, analysis->nbytes > 0, share(analysis->predicted_nbytes, (double)analysis->nbytes));
    print_bits(7, analysis->nbytes > 0, share((double)analysis->stored_nbytes, (double)analysis->nbytes));
    printf("  %s", mode);
    cli_form_show(&analysis->form);
    printf("\n");
}

/* ---- */

static int analyze_tensors(session *session, const lmc_st_file *file, const lmc_st_file *previous)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    for (uint64_t i = 0; i < lmc_st_tensor_count(file) && cli_output_works(); i++) {
        const lmc_st_tensor tensor = cli_tensor(file, i);
        cli_analysis analysis = {.nbytes = 0};
        const lmc_st_file *pair = NULL; /* has a tensor of this name, dtype and shape */
        uint64_t previous_index = 0;
        if (tensor.view_of != i) /* its storage is that of an earlier tensor */
            continue;
        if (!cli_has_shape(&tensor))
            return cli_fail_nomem();
        if (previous &&
            lmc_st_find_tensor_sized(previous, tensor.name, tensor.name_nbytes, &previous_index)) {
            const lmc_st_tensor old = cli_tensor(previous, previous_index);
            pair = old.dtype == tensor.dtype && cli_is_same_shape(&tensor, &old) ? previous : NULL;
        }
        if (analyze_tensor(&session->analyzer, file, i, pair, previous_index, &analysis, &diag) != LMC_OK)
            return cli_report(&diag);
        cli_analysis_add(&session->sums[tensor.dtype], &analysis);
        session->tensor_counts[tensor.dtype]++;
        cli_form_sums_add(&session->forms, &analysis.form, analysis.nbytes, analysis.stored_nbytes);
        if (session->is_json) {
            printf(i == 0 ? "" : ",\n    ");
            printf("{\"name\":");
            cli_json_string(tensor.name, tensor.name_nbytes);
            printf(",\"dtype\":\"%s\",\"shape\":[", tensor.dtype_name);
            for (size_t k = 0; k < tensor.rank; k++)
                printf("%s%llu", k == 0 ? "" : ",", (unsigned long long)tensor.shape[k]);
            printf("],");
            print_json_analysis(&analysis, lmc_st_mode_name(analysis.mode));
        } else {
            char name[NAME_SHOWN_MAX + 1];
            lmc_text_escape(name, sizeof name, tensor.name, tensor.name_nbytes);
            print_row(name, tensor.dtype_name, &analysis, lmc_st_mode_name(analysis.mode));
        }
    }
    return CLI_OK;
}

/* The sums over all tensors of the file, by dtype, then those by form; ends its object. */
static void print_sums(const session *session)
{
    const char *separator = "";
    printf("%s", session->is_json ? "],\n  \"all\":[" : "");
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        const char *const dtype = lmc_dtype_name((lmc_dtype)i);
        char name[NAME_SHOWN_MAX];
        if (session->tensor_counts[i] == 0)
            continue;
        if (session->is_json) {
            printf("%s{\"name\":null,\"dtype\":\"%s\",\"shape\":null,", separator, dtype);
            print_json_analysis(&session->sums[i], NULL);
            separator = ",\n    ";
        } else {
            snprintf(name, sizeof name, "all %llu tensors", (unsigned long long)session->tensor_counts[i]);
            print_row(name, dtype, &session->sums[i], "");
        }
    }
    if (session->is_json) {
        printf("],\n  ");
        cli_form_sums_print_json(&session->forms);
        printf("}");
    } else {
        cli_form_sums_show(&session->forms);
    }
}

/* How far values have moved since the file before, by dtype. */
static void print_distances(const session *session)
{
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        const cli_analysis *const sum = &session->sums[i];
        unsigned column = 0;
        if (sum->pair_count == 0)
            continue;
        printf("%s, distances in last places:", lmc_dtype_name((lmc_dtype)i));
        for (unsigned k = 0; k < CLI_DISTANCE_COUNT; k++) {
            const double part = share((double)sum->distances[k], (double)sum->pair_count);
            if (sum->distances[k] > 0)
                printf("%s  %s%2u: %5.2f%%", column++ % DISTANCES_PER_LINE == 0 ? "\n " : "",
                       k < 2 ? "  " : "2^", k < 2 ? k : k - 1, 100 * part);
        }
        printf("\n");
    }
}

static int analyze_file(session *session, int number, const lmc_st_file *file, const lmc_st_file *previous)
{
    char shown[200];
    const char *const path = session->args->operands[number];
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        session->sums[i] = (cli_analysis){.nbytes = 0};
        session->tensor_counts[i] = 0;
    }
    session->forms = (cli_form_sums){.form_count = 0};
    if (session->is_json) {
        printf("%s{\"file\":", session->file_count++ == 0 ? "[" : ",\n ");
        cli_json_text(path);
        printf(",\"tensors\":[");
    } else {
        printf("%s%s\n", session->file_count++ == 0 ? "" : "\n", cli_shown(shown, sizeof shown, path));
        printf("%-*s  %-8s %12s  %5s %8s %8s  %-23s %7s  %7s %7s  %9s %7s  %s\n", NAME_SHOWN_MAX, "name",
               "dtype", "bytes", "sign", "exponent", "mantissa", "planes", "symbols", "changed", "bits",
               "predicted", "ratio", "mode");
    }
    const int exit_status = analyze_tensors(session, file, previous);
    if (exit_status == CLI_OK)
        print_sums(session);
    else if (session->is_json)
        printf("],\n  \"all\":null,\"forms\":null,\"rans\":null}");
    if (exit_status == CLI_OK && !session->is_json)
        print_distances(session);
    return exit_status;
}

/* At most two files are open at a time, with their bases. What comes behind a file with a fault is compared with none.
 */
static int run_analyze(const cli_args *args)
{
    session session = {.args = args, .is_json = (args->seen & CLI_OPT_JSON) != 0};
    analyzer *const analyzer = &session.analyzer;
    lmc_st_file *previous = NULL;
    if (args->operand_count == 0)
        return cli_usage_error("analyze", "analyze takes one file or more");
    analyzer->counts = cli_counts_create();
    const int has_memory = analyzer->counts && lmc_ctx_create(NULL, &analyzer->ctx) == LMC_OK;
    int worst = has_memory ? CLI_OK : cli_fail_nomem();
    for (int i = 0; i < args->operand_count && has_memory && worst < 128; i++) {
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        lmc_st_file *file = NULL;
        int exit_status = cli_open(args, args->operands[i], &file, &diag) == LMC_OK
                              ? analyze_file(&session, i, file, previous)
                              : cli_report(&diag);
        if (exit_status == CLI_OK && lmc_st_check_unchanged(file, &diag) != LMC_OK)
            exit_status = cli_report(&diag);
        lmc_st_close(previous);
        previous = exit_status == CLI_OK ? file : NULL;
        if (exit_status != CLI_OK)
            lmc_st_close(file);
        worst = exit_status > worst ? exit_status : worst;
    }
    lmc_st_close(previous);
    if (session.is_json)
        printf(session.file_count > 0 ? "]\n" : "[]\n");
    lmc_ctx_free(analyzer->ctx);
    free(analyzer->counts);
    free(analyzer->content);
    free(analyzer->before);
    free(analyzer->block);
    const int output_status = cli_finish_output();
    return worst != CLI_OK ? worst : output_status;
}

const cli_command cli_analyze = {
    "analyze", CLI_ANALYZE, "entropies, changes, what compresses", "FILE... ", about, NULL, run_analyze};
