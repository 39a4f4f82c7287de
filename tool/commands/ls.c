/*
 * ls.c - lmc-st ls: the tensors of an archive or a plain file, for people and for programs.
 */
#include "tool/base.h"
#include "tool/text.h"

#include <stdio.h>

static const char about[] = "Lists the tensors of an archive or a plain file in the order of their data,\n"
                            "with the names, dtypes and shapes that the file tells. Mode says how a tensor\n"
                            "is stored:\n"
                            "\n"
                            "  coded   compressed\n"
                            "  delta   compressed: what has changed since the base, see \"lmc-st info\"\n"
                            "  stored  as it is, with a checksum: it does not compress\n"
                            "  short   as it is: at most 255 bytes\n"
                            "  alias   equal to an earlier tensor, whose bytes stand for both\n"
                            "  plain   in a file that is no archive\n";

/* Longer names are cut in the table; --json gives them whole. */
#define NAME_SHOWN_MAX 64

/* ---- JSON ---- */

static void print_json_tensor(const lmc_st_tensor *tensor, const char *mode)
{
    printf("{\"name\":");
    cli_json_string(tensor->name, tensor->name_nbytes);
    printf(",\"dtype\":\"%s\",\"shape\":[", tensor->dtype_name);
    for (size_t i = 0; i < tensor->rank; i++)
        printf("%s%llu", i == 0 ? "" : ",", (unsigned long long)tensor->shape[i]);
    printf("],\"nbytes\":%llu,\"stored_nbytes\":%llu,\"ratio\":", (unsigned long long)tensor->nbytes,
           (unsigned long long)tensor->stored_nbytes);
    cli_json_ratio(tensor->stored_nbytes, tensor->nbytes);
    printf(",\"mode\":\"%s\"}", mode);
}

/* ---- table ---- */

/* Returns the columns of the shown name: bytes that are not continuations of a character. */
static int show_name(const lmc_st_tensor *tensor, char *shown, size_t capacity)
{
    int columns = 0;
    cli_escape(shown, capacity, tensor->name, tensor->name_nbytes);
    for (const char *at = shown; *at != '\0'; at++)
        columns += ((unsigned char)*at & 0xc0) != 0x80;
    return columns;
}

static void print_row(const lmc_st_tensor *tensor, const char *mode, int name_width)
{
    char name[NAME_SHOWN_MAX + 1];
    char shape[32];
    char ratio[24] = "-";
    const int columns = show_name(tensor, name, sizeof name);
    cli_show_shape(tensor, shape, sizeof shape);
    if (tensor->nbytes > 0)
        snprintf(ratio, sizeof ratio, "%.4f", (double)tensor->stored_nbytes / (double)tensor->nbytes);
    printf("%s%*s  %-11s  %-18s  %12llu  %12llu  %8s  %s\n", name, name_width - columns, "",
           tensor->dtype_name, shape, (unsigned long long)tensor->nbytes,
           (unsigned long long)tensor->stored_nbytes, ratio, mode);
}

static int widest_name(const lmc_st_file *file)
{
    int widest = 4;
    for (uint64_t i = 0; i < lmc_st_tensor_count(file); i++) {
        char name[NAME_SHOWN_MAX + 1];
        const lmc_st_tensor tensor = cli_tensor(file, i);
        const int columns = show_name(&tensor, name, sizeof name);
        widest = columns > widest ? columns : widest;
    }
    return widest;
}

/* ---- */

static int list_tensors(const cli_args *args, lmc_st_file *file)
{
    const int is_json = (args->seen & CLI_OPT_JSON) != 0;
    const uint64_t count = lmc_st_tensor_count(file);
    const int name_width = is_json ? 0 : widest_name(file);
    if (!is_json) {
        printf("%-*s  %-11s  %-18s  %12s  %12s  %8s  %s\n", name_width, "name", "dtype", "shape", "bytes",
               "stored", "ratio", "mode");
    }
    for (uint64_t i = 0; i < count && cli_output_works(); i++) {
        lmc_st_mode mode;
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        if (lmc_st_tensor_mode(file, i, &mode, &diag) != LMC_OK)
            return cli_report(&diag);
        const lmc_st_tensor tensor = cli_tensor(file, i);
        if (!cli_has_shape(&tensor))
            return cli_fail_nomem();
        if (is_json) {
            printf(i == 0 ? "[" : ",\n ");
            print_json_tensor(&tensor, lmc_st_mode_name(mode));
        } else {
            print_row(&tensor, lmc_st_mode_name(mode), name_width);
        }
    }
    if (is_json) {
        printf(count == 0 ? "[]\n" : "]\n");
    } else {
        printf("%llu tensors, %llu bytes, stored %llu, ratio %.4f\n", (unsigned long long)count,
               (unsigned long long)lmc_st_file_nbytes(file), (unsigned long long)lmc_st_stored_nbytes(file),
               (double)lmc_st_stored_nbytes(file) / (double)lmc_st_file_nbytes(file));
    }
    return cli_finish_output();
}

static int run_ls(const cli_args *args)
{
    return cli_run_on_file(args, 1, "ls takes one file", list_tensors);
}

const cli_command cli_ls = {"ls", CLI_LS, "list the tensors", "FILE ", about, NULL, run_ls};
