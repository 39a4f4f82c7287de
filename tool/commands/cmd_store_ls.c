/*
 * cmd_store_ls.c - lmc-st store ls and store info: the models of a store, one of them, and the store as a whole.
 */
#include "tool/commands/cmd_store.h"
#include "tool/commands/kept.h"

#include <stdio.h>
#include <string.h>

static const char about_ls[] =
    "Lists the models of a store, or the steps of a run. Depth is the length of the\n"
    "longest chain of models that a model needs, itself included; 1 is a model on its\n"
    "own. Models needed for equal tensors only do not count. Time is when the model\n"
    "was last modified, in UTC.\n";

static const char about_info[] =
    "Describes a model: what it is based on, what is based on it, and what it saves.\n"
    "Without MODEL, describes the store as a whole.\n";

static lmc_store_model model_at(const lmc_store *store, uint64_t index)
{
    lmc_store_model model = LMC_INIT(lmc_store_model);
    const lmc_status status = lmc_store_model_info(store, index, &model);
    (void)status; /* the index is right */
    return model;
}

typedef struct totals {
    uint64_t models, files, nbytes, stored_nbytes, depth;
} totals;

static totals add_up(const lmc_store *store)
{
    totals totals = {.models = lmc_store_model_count(store)};
    for (uint64_t i = 0; i < totals.models; i++) {
        const lmc_store_model model = model_at(store, i);
        totals.files += model.file_count;
        totals.nbytes += model.original_nbytes;
        totals.stored_nbytes += model.stored_nbytes;
        if (model.depth != LMC_STORE_UNKNOWN && model.depth > totals.depth)
            totals.depth = model.depth;
    }
    return totals;
}

static void print_totals(const totals *totals)
{
    printf("%llu models, ", (unsigned long long)totals->models);
    cli_kept_print_totals(totals->nbytes, totals->stored_nbytes);
}

/* ---- the list ---- */

static int store_ls(const cli_args *args)
{
    char depth[24];
    char when[32];
    lmc_store *store = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    const int is_json = (args->seen & CLI_OPT_JSON) != 0;
    if (args->operand_count != 1)
        return cli_usage_error(args->command, "store ls takes one store");
    if (lmc_store_open(args->operands[0], NULL, &store, &diag) != LMC_OK)
        return cli_report(&diag);
    const totals totals = add_up(store);
    if (!is_json) {
        cli_kept_print_titles();
        printf("  %5s  %-19s  %s\n", "depth", "time", "model");
    }
    for (uint64_t i = 0; i < totals.models && cli_output_works(); i++) {
        const lmc_store_model model = model_at(store, i);
        if (is_json) {
            printf(i == 0 ? "[{" : ",\n {");
            cli_store_json_model(&model);
            printf("}");
            continue;
        }
        cli_kept_print_columns(model.file_count, model.original_nbytes, model.stored_nbytes);
        printf("  %5s  %19s  ", cli_kept_count(model.depth, "?", depth), cli_kept_time(model.time_s, when));
        cli_store_print_name(model.name);
        (void)cli_store_print_bases(&model, "  based on ");
        printf("\n");
    }
    if (is_json)
        printf(totals.models == 0 ? "[]\n" : "]\n");
    else
        print_totals(&totals);
    lmc_store_close(store);
    return cli_finish_output();
}

/* ---- one model, or the whole ---- */

/* Prints the names of the models that are based on this one. Returns how many there are. */
static uint64_t print_dependents(const lmc_store *store, const char *name, int is_json)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < lmc_store_model_count(store); i++) {
        const lmc_store_model model = model_at(store, i);
        size_t at = 0;
        while (at < model.base_count && strcmp(model.bases[at], name) != 0)
            at++;
        if (at == model.base_count)
            continue;
        printf("%s", count++ == 0 ? "" : is_json ? "," : ", ");
        if (is_json)
            cli_json_text(model.name);
        else
            cli_store_print_name(model.name);
    }
    return count;
}

static void print_model(const lmc_store *store, const lmc_store_model *model, int is_json)
{
    char depth[24];
    char when[32];
    if (is_json) {
        printf("{");
        cli_store_json_model(model);
        printf(",\"dependents\":[");
        (void)print_dependents(store, model->name, is_json);
        printf("]}\n");
        return;
    }
    printf("model:         ");
    cli_store_print_name(model->name);
    printf("\nkind:          %s, files: %llu\n", model->is_directory ? "directory" : "file",
           (unsigned long long)model->file_count);
    printf("size:          ");
    cli_kept_print_totals(model->original_nbytes, model->stored_nbytes);
    printf("saves:         %lld bytes\n", (long long)(model->original_nbytes - model->stored_nbytes));
    printf("based on:      ");
    printf("%s\n", cli_store_print_bases(model, "") == 0 ? "no other model" : "");
    printf("depth:         %s\n", cli_kept_count(model->depth, "?", depth));
    printf("base of:       ");
    printf("%s\n", print_dependents(store, model->name, is_json) == 0 ? "no other model" : "");
    printf("last modified: %s\n", cli_kept_time(model->time_s, when));
}

static void print_whole(const lmc_store *store, int is_json)
{
    const totals totals = add_up(store);
    const char *const kind = lmc_store_is_run(store) ? "run" : "store";
    if (is_json) {
        printf("{\"kind\":\"%s\",\"models\":%llu,", kind, (unsigned long long)totals.models);
        cli_kept_json_sizes(totals.files, totals.nbytes, totals.stored_nbytes);
        printf(",\"depth\":%llu}\n", (unsigned long long)totals.depth);
        return;
    }
    print_totals(&totals);
    printf("kind:          %s\nfiles:         %llu\ndepth:         at most %llu\n", kind,
           (unsigned long long)totals.files, (unsigned long long)totals.depth);
}

static int store_info(const cli_args *args)
{
    lmc_store *store = NULL;
    uint64_t index = 0;
    char shown[160];
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    const int is_json = (args->seen & CLI_OPT_JSON) != 0;
    int exit_status = CLI_OK;
    if (args->operand_count < 1 || args->operand_count > 2)
        return cli_usage_error(args->command, "store info takes a store, and a model of it");
    if (!cli_store_are_names(args, 1, args->operand_count))
        return CLI_USAGE;
    if (lmc_store_open(args->operands[0], NULL, &store, &diag) != LMC_OK)
        return cli_report(&diag);
    if (args->operand_count == 1) {
        print_whole(store, is_json);
    } else if (lmc_store_find_model(store, args->operands[1], &index)) {
        const lmc_store_model model = model_at(store, index);
        print_model(store, &model, is_json);
    } else {
        cli_set_diag(&diag, args->operands[0], LMC_ERR_ARG, "there is no model \"%s\"",
                     cli_shown(shown, sizeof shown, args->operands[1]));
        exit_status = cli_report(&diag);
    }
    lmc_store_close(store);
    const int output_status = cli_finish_output();
    return exit_status == CLI_OK ? output_status : exit_status;
}

const cli_command cli_store_ls = {"store ls", CLI_STORE_LS, "list the models", "STORE ",
                                  about_ls,   NULL,         store_ls};
const cli_command cli_store_info = {
    "store info", CLI_STORE_INFO, "describe a model, or the store as a whole", "STORE [MODEL] ", about_info,
    NULL,         store_info};
