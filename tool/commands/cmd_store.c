/*
 * cmd_store.c - lmc-st store: its commands, what they share, and those that work on whole models: add, restore, verify,
 * drop, repair.
 */
#include "tool/commands/cmd_store.h"

#include "os/os.h"
#include "tool/commands/kept.h"
#include "tool/tool_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char about[] = "Stores models in a directory: STORE/NAME.lmc has the archives of the model\n"
                            "NAME, such as org/model@revision. Tensors that equal or resemble tensors in\n"
                            "the store are found by their values and stored as changes. All commands but\n"
                            "add and plan also work on training runs.\n"
                            "\n"
                            "  lmc-st store add      add models: files, or directories of files\n"
                            "  lmc-st store ls       list the models\n"
                            "  lmc-st store info     describe a model, or the store as a whole\n"
                            "  lmc-st store restore  write a model as it was\n"
                            "  lmc-st store get      write the bytes of a tensor of a model\n"
                            "  lmc-st store verify   check models, write nothing\n"
                            "  lmc-st store drop     remove models\n"
                            "  lmc-st store plan     find better bases for the models that are there\n"
                            "  lmc-st store repair   remove unfinished work, rebuild the index\n"
                            "\n"
                            "  lmc-st store COMMAND --help   what a command does, and its options\n";

static const char about_add[] =
    "Adds models to a store, which is created if needed. PATH is a file with tensors\n"
    "or a directory; its last part is the model's name. Adding an existing model with\n"
    "equal content succeeds; one that is damaged in the store is repaired with -f. If\n"
    "a model fails, the others are still added. A model counts as added when its line\n"
    "is on standard output.\n";

static const char about_restore[] =
    "Writes a model, byte for byte: a file if it was one, else a directory.\n"
    "Everything is verified before OUT gets its name. -f replaces a file by a file,\n"
    "a directory by a directory.\n";

static const char about_verify[] =
    "Checks every archive of the models, or of all models, and what they are based\n"
    "on. Nothing is written; files that were copied have no checksums. Damaged\n"
    "tensors are named; the exit status is then 1.\n";

static const char about_drop[] =
    "Removes models of a store. Models based on them are first re-encoded with other\n"
    "bases: restored, converted, and compared, which needs the space of one model\n"
    "in STORE. If a name is unknown, nothing is removed.\n";

static const char about_plan[] =
    "Finds which models should stand alone, and which base each other model should\n"
    "have, so that all together take the least space: the order in which they were\n"
    "added may not have been the best. Lists each model with the base that it should\n"
    "have. With --apply, models that change are re-encoded (restored, converted and\n"
    "compared), twice if needed, but only if that saves space; expected savings and\n"
    "cost are printed first. An interrupted plan leaves a valid store; run the\n"
    "command again to continue.\n";

static const char about_repair[] =
    "Removes unfinished work, and rebuilds what can be derived from the archives:\n"
    "the index of a store, or run.json of a run. Damaged archives stay as they are.\n"
    "The other commands that change a store remove unfinished work, too.\n";

const cli_command *const cli_store_commands[] = {
    &cli_store_add,    &cli_store_ls,   &cli_store_info, &cli_store_restore, &cli_store_get,
    &cli_store_verify, &cli_store_drop, &cli_store_plan, &cli_store_repair,  NULL};

const cli_command cli_store = {"store",          CLI_STORE, "store models as differences from one another",
                               "COMMAND STORE ", about,     NULL,
                               cli_need_command};

/* ---- names ---- */

#define NAME_SHOWN_NBYTES (6 * LMC_STORE_NAME_NBYTES_MAX + 4) /* a byte is shown as at most six */

void cli_store_print_name(const char *name)
{
    char shown[NAME_SHOWN_NBYTES];
    printf("%s", cli_shown(shown, sizeof shown, name));
}

size_t cli_store_print_bases(const lmc_store_model *model, const char *before)
{
    for (size_t i = 0; i < model->base_count; i++) {
        printf("%s", i == 0 ? before : ", ");
        cli_store_print_name(model->bases[i]);
    }
    if (model->has_unknown_base)
        printf("%s?", model->base_count == 0 ? before : ", ");
    return model->base_count + (model->has_unknown_base != 0);
}

/* Returns 0 after a message if no model can have the name. */
static int check_name(const cli_args *args, const char *name)
{
    char shown[160];
    if (lmc_store_name_is_valid(name))
        return 1;
    const char *const fault = os_components_fault(name);
    cli_shown(shown, sizeof shown, name);
    if (fault)
        (void)cli_usage_error(args->command, "no model can have the name \"%s\" here: it %s", shown, fault);
    else
        (void)cli_usage_error(
            args->command,
            "no model can have the name \"%s\": a name has up to 32 parts of 1 to %d bytes of "
            "UTF-8 with / between them; none begins with a dot, none but the last ends in .lmc, and the "
            "first of "
            "several is not the name of one of the store's own files",
            shown, LMC_STORE_SEGMENT_NBYTES_MAX);
    return 0;
}

int cli_store_are_names(const cli_args *args, int first, int end)
{
    for (int i = first; i < end; i++)
        if (!check_name(args, args->operands[i]))
            return 0;
    return 1;
}

/* ---- what was done ---- */

/* A job whose calls report models. */
typedef struct store_job {
    cli_job job; /* first: callbacks get it */
    int is_json;
    uint64_t object_count; /* that were printed */
} store_job;

void cli_store_json_model(const lmc_store_model *model)
{
    char depth[24];
    printf("\"name\":");
    cli_json_text(model->name);
    printf(",");
    cli_kept_json_sizes(model->file_count, model->original_nbytes, model->stored_nbytes);
    printf(",\"base\":%s", model->base_count == 0 ? "null" : model->base_count > 1 ? "[" : "");
    for (size_t i = 0; i < model->base_count; i++) {
        printf("%s", i == 0 ? "" : ",");
        cli_json_text(model->bases[i]);
    }
    printf("%s,\"unknown_base\":%s,\"depth\":%s,\"time\":%lld", model->base_count > 1 ? "]" : "",
           model->has_unknown_base ? "true" : "false", cli_kept_count(model->depth, "null", depth),
           (long long)model->time_s);
}

static void show_model(void *user, lmc_store_event event, const lmc_store_model *model)
{
    store_job *const own = user;
    if (own->is_json) {
        cli_progress_clear(&own->job.progress);
        printf("%s{\"event\":\"%s\",", own->object_count++ == 0 ? "[" : ",\n ", lmc_store_event_name(event));
        cli_store_json_model(model);
        printf("}");
        cli_flush_output();
        return;
    }
    if (!cli_kept_begin_line(&own->job, event == LMC_STORE_VERIFIED))
        return;
    cli_store_print_name(model->name);
    printf(": %s", lmc_store_event_name(event));
    if (event == LMC_STORE_ADDED || event == LMC_STORE_PLANNED)
        cli_kept_print_gain(model->original_nbytes, model->stored_nbytes);
    if ((event == LMC_STORE_ADDED || event == LMC_STORE_REBASED || event == LMC_STORE_PLANNED) &&
        cli_store_print_bases(model, ", based on ") == 0)
        printf(", on its own");
    cli_kept_end_line();
}

/* ---- add ---- */

/* The names of the models at the operands from number 1 on, NULL behind them; to be freed. Returns the exit status,
 * after a message if it is not CLI_OK. */
static int name_models(const cli_args *args, char **names)
{
    char shown[160];
    for (int i = 1; i < args->operand_count; i++) {
        char *const name = args->name ? strdup(args->name) : cli_own_name(args->operands[i]);
        names[i - 1] = name;
        if (!name)
            return cli_fail_nomem();
        if (!check_name(args, name))
            return CLI_USAGE;
        for (int j = 0; j < i - 1; j++)
            if (strcmp(names[j], name) == 0)
                return cli_usage_error(args->command,
                                       "two models have the name \"%s\": add one alone, with --as",
                                       cli_shown(shown, sizeof shown, name));
    }
    return CLI_OK;
}

static int store_add(const cli_args *args)
{
    if (args->operand_count < 2)
        return cli_usage_error(args->command, "store add takes a store and one model or more");
    if (args->name && args->operand_count > 2)
        return cli_usage_error(args->command, "--as is for one model");
    if (!cli_kept_are_paths(args, 1))
        return CLI_USAGE;
    char **const names = calloc((size_t)args->operand_count, sizeof *names);
    if (!names)
        return cli_fail_nomem();
    const int name_status = name_models(args, names);
    store_job own = {.is_json = (args->seen & CLI_OPT_JSON) != 0 && name_status == CLI_OK};
    int worst = name_status;
    for (int i = 1; i < args->operand_count && name_status == CLI_OK && worst < 128; i++) {
        lmc_store_add_options options = LMC_INIT(lmc_store_add_options);
        cli_job *const job = &own.job;
        cli_job_start(job, args, args->operands[i]);
        options.common = job->common;
        options.name = names[i - 1];
        options.depth = args->depth;
        options.level = args->level;
        options.force = (args->seen & CLI_OPT_FORCE) != 0;
        options.no_fsync = (args->seen & CLI_OPT_NO_FSYNC) != 0;
        options.excludes = args->excludes;
        options.exclude_count = args->exclude_count;
        options.model_done = show_model;
        options.file_done = cli_job_show_file;
        options.warning = (args->seen & CLI_OPT_QUIET) != 0 ? NULL : cli_job_show_warning;
        const int exit_status =
            cli_kept_end(job, lmc_store_add(args->operands[0], args->operands[i], &options, &job->diag));
        worst = exit_status > worst ? exit_status : worst;
    }
    if (own.is_json)
        printf(own.object_count == 0 ? "[]\n" : "]\n");
    for (int i = 0; i < args->operand_count; i++)
        free(names[i]);
    free(names);
    const int output_status = cli_finish_output();
    return worst == CLI_OK ? output_status : worst;
}

const cli_command cli_store_add = {
    "store add", CLI_STORE_ADD, "add models: files, or directories of files", "STORE PATH... ", about_add,
    NULL,        store_add};

/* ---- restore, verify, drop and repair ---- */

static int store_restore(const cli_args *args)
{
    cli_job job;
    lmc_store_restore_options options = LMC_INIT(lmc_store_restore_options);
    if (args->operand_count != 2)
        return cli_usage_error(args->command, "store restore takes a store and a model");
    if (!cli_kept_has_output(args) || !cli_store_are_names(args, 1, 2))
        return CLI_USAGE;
    cli_job_start(&job, args, args->output);
    options.common = job.common;
    options.force = (args->seen & CLI_OPT_FORCE) != 0;
    options.no_fsync = (args->seen & CLI_OPT_NO_FSYNC) != 0;
    options.file_done = cli_job_show_file;
    return cli_job_end(&job, lmc_store_restore(args->operands[0], args->operands[1], args->output, &options,
                                               &job.result, &job.diag));
}

/* Of store verify and store drop, which take names. */
static int store_on_models(const cli_args *args)
{
    store_job own = {.is_json = 0};
    const int is_drop = strcmp(args->command, cli_store_drop.name) == 0;
    if (args->operand_count < (is_drop ? 2 : 1))
        return cli_usage_error(args->command, is_drop ? "store drop takes a store and one model or more"
                                                      : "store verify takes a store, and models of it");
    if (!cli_store_are_names(args, 1, args->operand_count))
        return CLI_USAGE;
    const char *const *const names = (const char *const *)(args->operands + 1);
    const size_t count = (size_t)args->operand_count - 1;
    cli_job *const job = &own.job;
    lmc_store_drop_options drop = LMC_INIT(lmc_store_drop_options);
    lmc_store_verify_options verify = LMC_INIT(lmc_store_verify_options);
    cli_job_start(job, args, args->operands[0]);
    drop.common = verify.common = job->common;
    drop.model_done = verify.model_done = show_model;
    verify.damage = cli_job_show_damage;
    verify.file_done = cli_job_show_file;
    return cli_kept_end(
        job, is_drop ? lmc_store_drop(args->operands[0], names, count, &drop, &job->diag)
                     : lmc_store_verify(args->operands[0], names, count, &verify, &job->result, &job->diag));
}

static int store_repair(const cli_args *args)
{
    cli_job job;
    lmc_store *store = NULL;
    lmc_store_drop_options options = LMC_INIT(lmc_store_drop_options);
    if (args->operand_count != 1)
        return cli_usage_error(args->command, "store repair takes one store");
    cli_job_start(&job, args, args->operands[0]);
    options.common = job.common;
    lmc_status status = lmc_store_repair(args->operands[0], &options, &job.diag);
    if (status == LMC_OK)
        status = lmc_store_open(args->operands[0], NULL, &store, &job.diag);
    if (status == LMC_OK)
        printf("%llu models\n", (unsigned long long)lmc_store_model_count(store));
    lmc_store_close(store);
    return cli_kept_end(&job, status);
}

/* The models as objects, and then what the plan says of all. Only the plan of a model counts for programs. */
static void show_planned(void *user, lmc_store_event event, const lmc_store_model *model)
{
    store_job *const own = user;
    if (!own->is_json) {
        show_model(user, event, model);
        return;
    }
    if (event != LMC_STORE_PLANNED)
        return;
    cli_progress_clear(&own->job.progress);
    printf("%s{", own->object_count++ == 0 ? "{\"models\":[" : ",\n ");
    cli_store_json_model(model);
    printf("}");
}

/* What a plan would save and cost, or, if it was applied, has; for programs, the end of the object. */
static void show_totals(store_job *own, const lmc_store_plan_result *result, int is_applied)
{
    cli_progress_clear(&own->job.progress);
    if (own->is_json) {
        printf("%s],\"stored_nbytes\":%llu,\"planned_nbytes\":%llu,\"changed\":%llu,"
               "\"changed_nbytes\":%llu}\n",
               own->object_count == 0 ? "{\"models\":[" : "", (unsigned long long)result->stored_nbytes,
               (unsigned long long)result->planned_nbytes, (unsigned long long)result->changed_count,
               (unsigned long long)result->changed_nbytes);
        return;
    }
    printf("%llu bytes%s, %llu %s: %llu models %s (%llu bytes)\n", (unsigned long long)result->stored_nbytes,
           is_applied ? " before" : "", (unsigned long long)result->planned_nbytes,
           is_applied ? "now" : "as planned", (unsigned long long)result->changed_count,
           is_applied ? "were stored again" : "would be stored again",
           (unsigned long long)result->changed_nbytes);
    cli_flush_output();
}

static int store_plan(const cli_args *args)
{
    store_job own = {.is_json = (args->seen & CLI_OPT_JSON) != 0};
    cli_job *const job = &own.job;
    lmc_store_plan_options options = LMC_INIT(lmc_store_plan_options);
    lmc_store_plan_result result = LMC_INIT(lmc_store_plan_result);
    const int is_applied = (args->seen & CLI_OPT_APPLY) != 0;
    if (args->operand_count != 1)
        return cli_usage_error(args->command, "store plan takes one store");
    cli_job_start(job, args, args->operands[0]);
    options.common = job->common;
    options.depth = args->depth;
    options.no_fsync = (args->seen & CLI_OPT_NO_FSYNC) != 0;
    lmc_status status = LMC_OK;
    uint64_t announced_count = 0;
    if (is_applied && !own.is_json) { /* said before anything is done */
        options.common.progress = NULL;
        status = lmc_store_plan(args->operands[0], &options, &result, &job->diag);
        if (status == LMC_OK)
            show_totals(&own, &result, 0);
        announced_count = result.changed_count;
        options.common.progress = job->common.progress;
    }
    options.apply = is_applied;
    options.model_done = show_planned;
    if (status == LMC_OK)
        status = lmc_store_plan(args->operands[0], &options, &result, &job->diag);
    if (status == LMC_OK) {
        show_totals(&own, &result, is_applied);
        if (announced_count > 0 && result.changed_count == 0)
            printf("measured, the plan saves less than 0.5 %%: all stays as it was\n");
    } else if (own.object_count > 0) { /* after a fault nothing is known of all */
        cli_progress_clear(&job->progress);
        printf(
            "],\"stored_nbytes\":null,\"planned_nbytes\":null,\"changed\":null,\"changed_nbytes\":null}\n");
    }
    return cli_kept_end(job, status);
}

const cli_command cli_store_plan = {
    "store plan", CLI_STORE_PLAN, "find better bases for the models that are there", "STORE ", about_plan,
    NULL,         store_plan};
const cli_command cli_store_restore = {"store restore",       CLI_STORE_RESTORE, "write a model as it was",
                                       "STORE MODEL -o OUT ", about_restore,     NULL,
                                       store_restore};
const cli_command cli_store_verify = {"store verify",      CLI_STORE_VERIFY, "check models, write nothing",
                                      "STORE [MODEL...] ", about_verify,     NULL,
                                      store_on_models};
const cli_command cli_store_drop = {"store drop", CLI_STORE_DROP, "remove models", "STORE MODEL... ",
                                    about_drop,   NULL,           store_on_models};
const cli_command cli_store_repair = {
    "store repair", CLI_STORE_REPAIR, "remove unfinished work, rebuild the index", "STORE ", about_repair,
    NULL,           store_repair};
