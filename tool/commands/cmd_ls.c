/*
 * cmd_ls.c - lmc-st ls: the tensors of an archive or a plain file, for people and for programs.
 */
#include "lmc_st_experimental.h"
#include "tool/commands/form_sums.h"
#include "tool/inputs.h"

#include <stdio.h>
#include <string.h>

static const char about[] = "Lists the tensors of an archive or a plain file in the order of their data,\n"
                            "with the names, dtypes and shapes recorded in the file. Mode says how a tensor\n"
                            "is stored:\n"
                            "\n"
                            "  coded   compressed\n"
                            "  delta   compressed: what has changed since the base, see \"lmc-st info\"\n"
                            "  stored  uncompressed, with a checksum: it does not compress\n"
                            "  short   uncompressed: at most 255 bytes\n"
                            "  alias   equal to an earlier tensor, stored once\n"
                            "  plain   in a file that is not an archive\n"
                            "\n"
                            "It is followed by the form of narrow contents in wide elements, such as\n"
                            "\"F16 in F32\", and by \"rANS\" for codes of that kind.\n"
                            "\n"
                            "Several tensors may share one storage, which is stored once: \"view of NAME\"\n"
                            "marks all but the first.\n";

/* Longer names are cut in the table; --json gives them whole. */
#define NAME_SHOWN_MAX 64

/* ---- JSON ---- */

static void print_json_numbers(const char *key, const uint64_t *numbers, size_t count)
{
    printf(",\"%s\":[", key);
    for (size_t i = 0; i < count; i++)
        printf("%s%llu", i == 0 ? "" : ",", (unsigned long long)numbers[i]);
    printf("]");
}

static void print_json_tensor(const lmc_st_file *file, const lmc_st_tensor *tensor, const char *mode,
                              const lmc_form_info *form)
{
    printf("{\"name\":");
    cli_json_string(tensor->name, tensor->name_nbytes);
    printf(",\"dtype\":\"%s\"", tensor->dtype_name);
    print_json_numbers("shape", tensor->shape, tensor->rank);
    printf(",\"nbytes\":%llu,\"stored_nbytes\":%llu,\"ratio\":", (unsigned long long)tensor->nbytes,
           (unsigned long long)tensor->stored_nbytes);
    cli_json_ratio(tensor->stored_nbytes, tensor->nbytes);
    printf(",\"mode\":\"%s\"", mode);
    cli_form_print_json(form);
    if (tensor->is_view) { /* where it stands in its storage */
        const lmc_st_tensor first = cli_tensor(file, tensor->view_of);
        printf(",\"view_of\":");
        if (tensor->name != first.name)
            cli_json_string(first.name, first.name_nbytes);
        else
            printf("null");
        print_json_numbers("strides", tensor->strides, tensor->rank);
        printf(",\"offset\":%llu,\"byte_order\":\"%s\"", (unsigned long long)tensor->offset,
               tensor->is_big_endian ? "big" : "little");
        if (tensor->note) {
            printf(",\"note\":");
            cli_json_string(tensor->note, strlen(tensor->note));
        }
    }
    printf("}");
}

/* ---- table ---- */

/* Returns the columns of the shown name: bytes that are not continuations of a character. */
static int show_name(const lmc_st_tensor *tensor, char *shown, size_t capacity)
{
    int columns = 0;
    lmc_text_escape(shown, capacity, tensor->name, tensor->name_nbytes);
    for (const char *at = shown; *at != '\0'; at++)
        columns += ((unsigned char)*at & 0xc0) != 0x80;
    return columns;
}

static void print_row(const lmc_st_file *file, const lmc_st_tensor *tensor, const char *mode,
                      const lmc_form_info *form, int name_width)
{
    char name[NAME_SHOWN_MAX + 1];
    char shape[32];
    char ratio[24];
    const int columns = show_name(tensor, name, sizeof name);
    cli_show_shape(tensor, shape, sizeof shape);
    printf("%s%*s  %-11s  %-18s  %12llu  %12llu  %8s  %s", name, name_width - columns, "", tensor->dtype_name,
           shape, (unsigned long long)tensor->nbytes, (unsigned long long)tensor->stored_nbytes,
           cli_show_ratio(tensor->stored_nbytes, tensor->is_view ? 0 : tensor->nbytes, ratio), mode);
    cli_form_show(form);
    if (tensor->is_view) {
        char shown[NAME_SHOWN_MAX + 1];
        const lmc_st_tensor first = cli_tensor(file, tensor->view_of);
        if (tensor->name != first.name) {
            (void)show_name(&first, shown, sizeof shown);
            printf(", view of %s", shown);
        }
        if (tensor->is_big_endian)
            printf(", big-endian");
        if (tensor->note) {
            lmc_text_escape(shown, sizeof shown, tensor->note, strlen(tensor->note));
            printf(", %s", shown);
        }
    }
    printf("\n");
}

/* ---- */

static int run_ls(const cli_args *args)
{
    lmc_st_file *file = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    const int is_json = (args->seen & CLI_OPT_JSON) != 0;
    int exit_status = cli_open_operand(args, 1, "ls takes one file", &file);
    if (exit_status != CLI_OK)
        return exit_status;
    const uint64_t count = lmc_st_tensor_count(file);
    const uint64_t original = lmc_st_original_nbytes(file);
    const uint64_t stored = lmc_st_stored_nbytes(file);
    uint64_t object_count = 0;
    char ratio[24];
    int name_width = 4;
    for (uint64_t i = 0; i < count && !is_json; i++) {
        char name[NAME_SHOWN_MAX + 1];
        const lmc_st_tensor tensor = cli_tensor(file, i);
        const int columns = show_name(&tensor, name, sizeof name);
        name_width = columns > name_width ? columns : name_width;
    }
    if (!is_json) {
        printf("%-*s  %-11s  %-18s  %12s  %12s  %8s  %s\n", name_width, "name", "dtype", "shape", "bytes",
               "stored", "ratio", "mode");
    }
    for (uint64_t i = 0; i < count && cli_output_works() && exit_status == CLI_OK; i++) {
        lmc_st_mode mode;
        lmc_form_info form = LMC_INIT(lmc_form_info);
        const lmc_st_tensor tensor = cli_tensor(file, i);
        if (lmc_st_tensor_form(file, i, &mode, &form, &diag) != LMC_OK) {
            exit_status = cli_report(&diag);
        } else if (!cli_has_shape(&tensor)) {
            exit_status = cli_fail_nomem();
        } else if (is_json) {
            printf(object_count++ == 0 ? "[" : ",\n ");
            print_json_tensor(file, &tensor, lmc_st_mode_name(mode), &form);
        } else {
            print_row(file, &tensor, lmc_st_mode_name(mode), &form, name_width);
        }
    }
    if (is_json && (exit_status == CLI_OK || object_count > 0))
        printf(object_count == 0 ? "[]\n" : "]\n");
    else if (exit_status == CLI_OK)
        printf("%llu tensors, %llu bytes, stored %llu, ratio %s\n", (unsigned long long)count,
               (unsigned long long)original, (unsigned long long)stored,
               cli_show_ratio(stored, original, ratio));
    lmc_st_close(file);
    const int output_status = cli_finish_output();
    return exit_status == CLI_OK ? output_status : exit_status;
}

const cli_command cli_ls = {"ls", CLI_LS, "list the tensors", "FILE ", about, NULL, run_ls};
