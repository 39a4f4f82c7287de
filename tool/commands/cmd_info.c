/*
 * cmd_info.c - lmc-st info: a file as a whole. It says what is in the file, not how its encoder was set.
 */
#include "lmc_st_experimental.h"
#include "tool/commands/form_sums.h"
#include "tool/inputs.h"

#include <stdio.h>

static const char about[] =
    "Describes an archive or a plain file as a whole: format, sizes, dtypes, forms of\n"
    "narrow contents, tensors with rANS codes, and the metadata of a safetensors\n"
    "file, cut where they are long; --json gives all of them.\n";

#define KEY_SHOWN_NBYTES 40
#define VALUE_SHOWN_NBYTES 120
#define METADATA_SHOWN_MAX 20

/* All tensors of one dtype. */
typedef struct sum {
    uint64_t count, nbytes, stored_nbytes;
} sum;

typedef struct facts {
    const lmc_st_file *file;
    const char *path;
    int is_archive;
    uint64_t nbytes, stored_nbytes;
    uint64_t parameters;
    sum by_dtype[LMC_DTYPE_COUNT];
    cli_form_sums forms;
} facts;

static void print_bases(const lmc_st_file *file, int depth);
static void print_json_bases(const lmc_st_file *file);

/* Describes base file `number` in lines, then its own base files. */
static void print_base(const lmc_st_file *file, uint64_t number, int depth)
{
    lmc_st_base base = LMC_INIT(lmc_st_base);
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    char shown[512];
    char label[48];
    const lmc_st_file *found = NULL;
    const char *const kind = depth == 0 ? "base" : "its base";
    const unsigned long long count = lmc_st_base_count(file);
    if (lmc_st_base_info(file, number, &base) != LMC_OK)
        return;
    if (count == 1)
        snprintf(label, sizeof label, "%s:", kind);
    else
        snprintf(label, sizeof label, "%s %llu/%llu:", kind, (unsigned long long)number + 1, count);
    if (lmc_st_open_base(file, number, &found, &diag) != LMC_OK)
        found = NULL;
    printf("%-13s  %s, %llu bytes, hash %016llx\n", label, cli_shown(shown, sizeof shown, base.path),
           (unsigned long long)base.original_nbytes, (unsigned long long)base.content_hash);
    printf("  needed by:   %llu of %llu tensors%s\n", (unsigned long long)base.tensor_count,
           (unsigned long long)lmc_st_tensor_count(file), base.is_equal ? ", which equal it" : "");
    printf("  %s   %s\n", found ? "found:    " : "not found:",
           found ? cli_shown(shown, sizeof shown, lmc_st_path(found)) : diag.text);
    print_bases(found, depth + 1);
}

static void print_bases(const lmc_st_file *file, int depth)
{
    for (uint64_t i = 0; file && i < lmc_st_base_count(file) && cli_output_works(); i++)
        print_base(file, i, depth);
}

/* The same as an object. `path` and `equal` are keys of archives that can record them. */
static void print_json_base(const lmc_st_file *file, uint64_t number)
{
    lmc_st_base base = LMC_INIT(lmc_st_base);
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    const lmc_st_file *found = NULL;
    if (lmc_st_base_info(file, number, &base) != LMC_OK || !base.name)
        return;
    if (lmc_st_open_base(file, number, &found, &diag) != LMC_OK)
        found = NULL;
    printf("{\"name\":");
    cli_json_text(base.name);
    if (lmc_st_base_count(file) > 1 || base.path != base.name || base.is_equal) {
        printf(",\"path\":");
        cli_json_text(base.path);
        printf(",\"equal\":%s", base.is_equal ? "true" : "false");
    }
    printf(",\"hash\":\"%016llx\",\"nbytes\":%llu,\"tensors\":%llu,\"file\":",
           (unsigned long long)base.content_hash, (unsigned long long)base.original_nbytes,
           (unsigned long long)base.tensor_count);
    cli_json_text(found ? lmc_st_path(found) : NULL);
    printf(",\"base\":");
    print_json_bases(found);
    putchar('}');
}

/* One base file is an object, several are a list of them. */
static void print_json_bases(const lmc_st_file *file)
{
    const uint64_t count = file ? lmc_st_base_count(file) : 0;
    if (count == 0)
        printf("null");
    if (count > 1)
        putchar('[');
    for (uint64_t i = 0; i < count && cli_output_works(); i++) {
        printf(i == 0 ? "" : ",");
        print_json_base(file, i);
    }
    if (count > 1)
        putchar(']');
}

/* ---- for programs ---- */

static void print_json_facts(const facts *facts)
{
    const char *const container = lmc_st_container_name(lmc_st_container_of(facts->file));
    printf("{\"format\":\"%s\",\"container\":\"%s\",\"version\":", facts->is_archive ? "lmc" : container,
           container);
    if (facts->is_archive)
        printf("%d", LMC_ST_ARCHIVE_VERSION);
    else
        printf("null");
    printf(",\"file\":");
    cli_json_text(facts->path);
    printf(",\"nbytes\":%llu,\"stored_nbytes\":%llu,\"ratio\":", (unsigned long long)facts->nbytes,
           (unsigned long long)facts->stored_nbytes);
    cli_json_ratio(facts->stored_nbytes, facts->nbytes);
    printf(",\"tensors\":%llu,\"parameters\":%llu,\"base\":",
           (unsigned long long)lmc_st_tensor_count(facts->file), (unsigned long long)facts->parameters);
    print_json_bases(facts->file);
    printf(",\"dtypes\":{");
    const char *separator = "";
    for (int i = 0; i < LMC_DTYPE_COUNT; i++) {
        const sum *const sum = &facts->by_dtype[i];
        if (sum->count > 0) {
            printf("%s\"%s\":{\"tensors\":%llu,\"nbytes\":%llu,\"stored_nbytes\":%llu}", separator,
                   lmc_dtype_name((lmc_dtype)i), (unsigned long long)sum->count,
                   (unsigned long long)sum->nbytes, (unsigned long long)sum->stored_nbytes);
            separator = ",";
        }
    }
    printf("},");
    cli_form_sums_print_json(&facts->forms);
    printf(",\"metadata\":{");
    for (size_t i = 0; i < lmc_st_metadata_count(facts->file) && cli_output_works(); i++) {
        const char *key = NULL;
        const char *value = NULL;
        size_t key_nbytes = 0;
        size_t value_nbytes = 0;
        if (lmc_st_metadata(facts->file, i, &key, &key_nbytes, &value, &value_nbytes) == LMC_OK) {
            printf(i == 0 ? "" : ",");
            cli_json_string(key, key_nbytes);
            printf(":");
            cli_json_string(value, value_nbytes);
        }
    }
    printf("}}\n");
}

/* ---- for people ---- */

static void show_facts(const facts *facts)
{
    char path[512];
    char ratio[24];
    const char *const container = lmc_st_container_name(lmc_st_container_of(facts->file));
    printf("file:          %s\n", cli_shown(path, sizeof path, facts->path));
    if (facts->is_archive) {
        printf("format:        LMC archive, version %d\n", LMC_ST_ARCHIVE_VERSION);
        printf("container:     %s\n", container);
        printf("original:      %llu bytes\n", (unsigned long long)facts->nbytes);
        printf("stored:        %llu bytes, ratio %s\n", (unsigned long long)facts->stored_nbytes,
               cli_show_ratio(facts->stored_nbytes, facts->nbytes, ratio));
    } else {
        printf("format:        %s\n", container);
        printf("size:          %llu bytes\n", (unsigned long long)facts->nbytes);
    }
    printf("tensors:       %llu\n", (unsigned long long)lmc_st_tensor_count(facts->file));
    printf("parameters:    %llu\n", (unsigned long long)facts->parameters);
    print_bases(facts->file, 0);
    for (int i = 0; i < LMC_DTYPE_COUNT; i++) {
        const sum *const sum = &facts->by_dtype[i];
        if (sum->count == 0)
            continue;
        printf("  %-11s  %8llu tensors  %14llu bytes  %14llu stored  %8s\n", lmc_dtype_name((lmc_dtype)i),
               (unsigned long long)sum->count, (unsigned long long)sum->nbytes,
               (unsigned long long)sum->stored_nbytes,
               cli_show_ratio(sum->stored_nbytes, sum->nbytes, ratio));
    }
    cli_form_sums_show(&facts->forms);
    const size_t count = lmc_st_metadata_count(facts->file);
    printf("metadata:      %zu entr%s\n", count, count == 1 ? "y" : "ies");
    for (size_t i = 0; i < count && i < METADATA_SHOWN_MAX; i++) {
        char shown_key[KEY_SHOWN_NBYTES];
        char shown_value[VALUE_SHOWN_NBYTES];
        const char *key = NULL;
        const char *value = NULL;
        size_t key_nbytes = 0;
        size_t value_nbytes = 0;
        if (lmc_st_metadata(facts->file, i, &key, &key_nbytes, &value, &value_nbytes) == LMC_OK) {
            lmc_text_escape(shown_key, sizeof shown_key, key, key_nbytes);
            lmc_text_escape(shown_value, sizeof shown_value, value, value_nbytes);
            printf("  %s = %s\n", shown_key, shown_value);
        }
    }
    if (count > METADATA_SHOWN_MAX)
        printf("  and %zu more\n", count - METADATA_SHOWN_MAX);
}

static int run_info(const cli_args *args)
{
    lmc_st_file *file = NULL;
    int exit_status = cli_open_operand(args, 1, "info takes one file", &file);
    if (exit_status != CLI_OK)
        return exit_status;
    facts facts = {.file = file,
                   .path = args->operands[0],
                   .is_archive = lmc_st_is_archive(file),
                   .nbytes = lmc_st_original_nbytes(file),
                   .stored_nbytes = lmc_st_stored_nbytes(file)};
    for (uint64_t i = 0; i < lmc_st_tensor_count(file); i++) {
        const lmc_st_tensor tensor = cli_tensor(file, i);
        const unsigned nbits = lmc_dtype_nbits(tensor.dtype);
        lmc_form_info form = LMC_INIT(lmc_form_info);
        lmc_st_mode mode;
        sum *const sum = &facts.by_dtype[tensor.dtype];
        sum->count++;
        if (tensor.view_of != i) /* stored once, and counted once */
            continue;
        sum->nbytes += tensor.storage_nbytes;
        sum->stored_nbytes += tensor.stored_nbytes;
        /* in two steps, since a size in bits may not fit; groups of 8 elements are whole bytes */
        facts.parameters += tensor.storage_nbytes / nbits * 8 + tensor.storage_nbytes % nbits * 8 / nbits;
        /* a frame that cannot be read says nothing: "verify" tells of that */
        if (facts.is_archive && lmc_st_tensor_form(file, i, &mode, &form, NULL) == LMC_OK)
            cli_form_sums_add(&facts.forms, &form, tensor.storage_nbytes, tensor.stored_nbytes);
    }
    if ((args->seen & CLI_OPT_JSON) != 0)
        print_json_facts(&facts);
    else
        show_facts(&facts);
    exit_status = cli_finish_output();
    lmc_st_close(file);
    return exit_status;
}

const cli_command cli_info = {"info", CLI_INFO, "describe a file as a whole", "FILE ", about, NULL, run_info};
