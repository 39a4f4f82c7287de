/*
 * analyze.c - lmc-st analyze: entropies of the values of tensors, what has changed since the file before, and what LMC
 * makes of it. One tensor after the other is read in pieces; only sums are kept.
 */
#include "tool/commands/analyze.h"

#include "tool/base.h"
#include "tool/text.h"

#include <stdio.h>
#include <stdlib.h>

static const char about[] =
    "Analyzes the tensors of each file, and what has changed since the file before.\n"
    "Entropies are in bits a value: of the byte planes, of sign, exponent, mantissa,\n"
    "and of the symbols that LMC codes. \"predicted\" is stored / original by these;\n"
    "\"ratio\" is that of the archive, or of a plain file what \"convert\" would make of\n"
    "it, with the file before as base. Nothing is written.\n";

/* Longer names are cut in the table; --json gives them whole. */
#define NAME_SHOWN_MAX 40
#define DTYPE_COUNT LMC_DTYPE_COUNT
#define DISTANCES_PER_LINE 10

/* Files in their order, and the sums over the tensors of the one at work, by dtype. */
typedef struct session {
    const cli_args *args;
    cli_analyzer analyzer;
    int is_json;
    cli_analysis sums[DTYPE_COUNT];
    uint64_t tensor_counts[DTYPE_COUNT];
} session;

static double per_value(const cli_analysis *analysis, double nbits)
{
    return analysis->value_count == 0 ? 0 : nbits / (double)analysis->value_count;
}

static double share(double part, double whole)
{
    return whole == 0 ? 0 : part / whole;
}

/* ---- JSON ---- */

static void print_number(const char *key, int is_there, double number)
{
    if (is_there)
        printf(",\"%s\":%.6f", key, number);
    else
        printf(",\"%s\":null", key);
}

static void print_changes(const cli_analysis *analysis)
{
    const double pair_nbits = (double)analysis->pair_count * 8 * analysis->element_nbytes;
    const int has_pairs = analysis->pair_count > 0;
    unsigned count = CLI_DISTANCE_COUNT;
    print_number("changed", has_pairs, share((double)analysis->changed_count, (double)analysis->pair_count));
    print_number("changed_bits", has_pairs, share((double)analysis->changed_nbits, pair_nbits));
    printf(",\"ulp\":%s", has_pairs ? "[" : "null");
    while (count > 1 && analysis->distances[count - 1] == 0)
        count--;
    for (unsigned i = 0; i < count && has_pairs; i++)
        printf("%s%llu", i == 0 ? "" : ",", (unsigned long long)analysis->distances[i]);
    printf("%s", has_pairs ? "]" : "");
}

/* From "nbytes" on. mode: NULL for a sum. */
static void print_json_analysis(const cli_analysis *analysis, const char *mode)
{
    const int has_values = analysis->value_count > 0;
    printf("\"nbytes\":%llu,\"planes\":[", (unsigned long long)analysis->nbytes);
    for (unsigned i = 0; i < analysis->element_nbytes && has_values; i++)
        printf("%s%.6f", i == 0 ? "" : ",", per_value(analysis, analysis->planes[i]));
    printf("]");
    print_number("sign", has_values && analysis->has_parts, per_value(analysis, analysis->sign));
    print_number("exponent", has_values && analysis->has_parts, per_value(analysis, analysis->exponent));
    print_number("mantissa", has_values && analysis->has_parts, per_value(analysis, analysis->mantissa));
    print_number("symbols", has_values, per_value(analysis, analysis->symbols));
    print_changes(analysis);
    print_number("predicted_ratio", analysis->nbytes > 0,
                 share(analysis->predicted_nbytes, (double)analysis->nbytes));
    print_number("ratio", analysis->nbytes > 0,
                 share((double)analysis->stored_nbytes, (double)analysis->nbytes));
    printf(",\"mode\":");
    cli_json_text(mode);
    printf("}");
}

static void print_json_tensor(const lmc_st_tensor *tensor, const cli_analysis *analysis)
{
    printf("{\"name\":");
    cli_json_string(tensor->name, tensor->name_nbytes);
    printf(",\"dtype\":\"%s\",\"shape\":[", tensor->dtype_name);
    for (size_t i = 0; i < tensor->rank; i++)
        printf("%s%llu", i == 0 ? "" : ",", (unsigned long long)tensor->shape[i]);
    printf("],");
    print_json_analysis(analysis, lmc_st_mode_name(analysis->mode));
}

static void print_json_sums(const session *session)
{
    const char *separator = "";
    printf("],\n  \"all\":[");
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        if (session->tensor_counts[i] == 0)
            continue;
        printf("%s{\"name\":null,\"dtype\":\"%s\",\"shape\":null,", separator, lmc_dtype_name((lmc_dtype)i));
        print_json_analysis(&session->sums[i], NULL);
        separator = ",\n    ";
    }
    printf("]}");
}

/* ---- table ---- */

static void print_table_head(void)
{
    printf("%-*s  %-8s %12s  %5s %8s %8s  %-23s %7s  %7s %7s  %9s %7s  %s\n", NAME_SHOWN_MAX, "name", "dtype",
           "bytes", "sign", "exponent", "mantissa", "planes", "symbols", "changed", "bits", "predicted",
           "ratio", "mode");
}

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
    print_share(7, has_pairs, share((double)analysis->changed_count, (double)analysis->pair_count));
    print_share(
        7, has_pairs,
        share((double)analysis->changed_nbits, (double)analysis->pair_count * 8 * analysis->element_nbytes));
    printf(" ");
    print_bits(9, analysis->nbytes > 0, share(analysis->predicted_nbytes, (double)analysis->nbytes));
    print_bits(7, analysis->nbytes > 0, share((double)analysis->stored_nbytes, (double)analysis->nbytes));
    printf("  %s\n", mode);
}

static void print_distances(const char *dtype, const cli_analysis *sum)
{
    unsigned column = 0;
    printf("%s, distances in last places:", dtype);
    for (unsigned i = 0; i < CLI_DISTANCE_COUNT; i++) {
        const double part = share((double)sum->distances[i], (double)sum->pair_count);
        if (sum->distances[i] == 0)
            continue;
        if (column++ % DISTANCES_PER_LINE == 0)
            printf("\n ");
        if (i < 2)
            printf("    %2u: %5.2f%%", i, 100 * part);
        else
            printf("  2^%2u: %5.2f%%", i - 1, 100 * part);
    }
    printf("\n");
}

static void print_sums(const session *session)
{
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        char name[NAME_SHOWN_MAX];
        if (session->tensor_counts[i] == 0)
            continue;
        snprintf(name, sizeof name, "all %llu tensors", (unsigned long long)session->tensor_counts[i]);
        print_row(name, lmc_dtype_name((lmc_dtype)i), &session->sums[i], "");
    }
    for (unsigned i = 0; i < DTYPE_COUNT; i++)
        if (session->sums[i].pair_count > 0)
            print_distances(lmc_dtype_name((lmc_dtype)i), &session->sums[i]);
}

/* ---- */

/* The tensor of the file before of the same name, dtype and shape. */
static int find_previous(const lmc_st_file *previous, const lmc_st_tensor *tensor, uint64_t *index)
{
    if (!previous || !lmc_st_find(previous, tensor->name, tensor->name_nbytes, index))
        return 0;
    const lmc_st_tensor old = cli_tensor(previous, *index);
    return old.dtype == tensor->dtype && cli_is_same_shape(tensor, &old);
}

static int analyze_tensors(session *session, const lmc_st_file *file, const lmc_st_file *previous)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    for (uint64_t i = 0; i < lmc_st_tensor_count(file) && cli_output_works(); i++) {
        const lmc_st_tensor tensor = cli_tensor(file, i);
        cli_analysis analysis = {.nbytes = 0};
        uint64_t previous_index = 0;
        if (!cli_has_shape(&tensor))
            return cli_fail_nomem();
        const lmc_st_file *const pair = find_previous(previous, &tensor, &previous_index) ? previous : NULL;
        if (cli_analyze_tensor(&session->analyzer, file, i, pair, previous_index, &analysis, &diag) != LMC_OK)
            return cli_report(&diag);
        cli_analysis_add(&session->sums[tensor.dtype], &analysis);
        session->tensor_counts[tensor.dtype]++;
        if (session->is_json) {
            printf(i == 0 ? "" : ",\n    ");
            print_json_tensor(&tensor, &analysis);
        } else {
            char name[NAME_SHOWN_MAX + 1];
            cli_escape(name, sizeof name, tensor.name, tensor.name_nbytes);
            print_row(name, tensor.dtype_name, &analysis, lmc_st_mode_name(analysis.mode));
        }
    }
    return CLI_OK;
}

static int analyze_file(session *session, int number, const lmc_st_file *file, const lmc_st_file *previous)
{
    char shown[200];
    const char *const path = session->args->operands[number];
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        session->sums[i] = (cli_analysis){.nbytes = 0};
        session->tensor_counts[i] = 0;
    }
    if (session->is_json) {
        printf("%s{\"file\":", number == 0 ? "[" : ",\n ");
        cli_json_text(path);
        printf(",\"tensors\":[");
    } else {
        printf("%s%s\n", number == 0 ? "" : "\n", cli_shown(shown, sizeof shown, path));
        print_table_head();
    }
    const int exit_status = analyze_tensors(session, file, previous);
    if (exit_status != CLI_OK)
        return exit_status;
    if (session->is_json)
        print_json_sums(session);
    else
        print_sums(session);
    return CLI_OK;
}

/* At most two files are open at a time, with their bases. */
static int analyze_files(session *session)
{
    const cli_args *const args = session->args;
    lmc_st_file *previous = NULL;
    int exit_status = CLI_OK;
    for (int i = 0; i < args->operand_count && exit_status == CLI_OK; i++) {
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        lmc_st_file *file = NULL;
        exit_status = cli_open(args, args->operands[i], &file, &diag) == LMC_OK
                          ? analyze_file(session, i, file, previous)
                          : cli_report(&diag);
        if (exit_status == CLI_OK && lmc_st_check_unchanged(file, &diag) != LMC_OK)
            exit_status = cli_report(&diag);
        lmc_st_close(previous);
        previous = file;
    }
    lmc_st_close(previous);
    if (session->is_json && exit_status == CLI_OK)
        printf("]\n");
    const int output_status = cli_finish_output();
    return exit_status != CLI_OK ? exit_status : output_status;
}

static int run_analyze(const cli_args *args)
{
    session session = {.args = args, .is_json = (args->seen & CLI_OPT_JSON) != 0};
    cli_analyzer *const analyzer = &session.analyzer;
    if (args->operand_count == 0)
        return cli_usage_error("analyze", "analyze takes one file or more");
    analyzer->counts = cli_counts_create();
    const int has_memory = analyzer->counts && lmc_ctx_create(NULL, &analyzer->ctx) == LMC_OK;
    const int exit_status = has_memory ? analyze_files(&session) : cli_fail_nomem();
    lmc_ctx_free(analyzer->ctx);
    free(analyzer->counts);
    free(analyzer->content);
    free(analyzer->before);
    free(analyzer->block);
    return exit_status;
}

const cli_command cli_analyze = {
    "analyze", CLI_ANALYZE, "entropies, changes, what compresses", "FILE... ", about, NULL, run_analyze};
