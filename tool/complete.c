/*
 * complete.c - what a shell may offer for the last word of a command line, from the tables of commands and options.
 */
#include "os/os.h"
#include "tool/cli.h"

#include "tool/tool_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A command line up to its last word. */
typedef struct line {
    const cli_command *command; /* NULL: none is given yet */
    const cli_command *group;   /* `run` or `store`, given without one of its commands; else NULL */
    int is_help;                /* `help` is given */
    char *operands[4];          /* of the command, the first ones */
    int operand_count;          /* all of them */
    const cli_option *option;   /* the last word is its value; NULL: it is not */
    int is_over;                /* "--" was given */
    const char *last;
} line;

static void take_operand(line *line, char *word)
{
    char name[32];
    if (!line->command && !line->group) {
        const cli_command *const found = cli_find_command(word);
        const int is_group = found && cli_commands_of(found);
        line->is_help |= strcmp(word, "help") == 0;
        line->group = is_group ? found : NULL;
        line->command = is_group ? NULL : found;
        return;
    }
    if (line->group) {
        snprintf(name, sizeof name, "%s %.20s", line->group->name, word);
        line->command = cli_find_command(name);
        line->group = NULL;
        return;
    }
    if ((size_t)line->operand_count < sizeof line->operands / sizeof line->operands[0])
        line->operands[line->operand_count] = word;
    line->operand_count++;
}

/* Prints a line if the candidate begins as the last word does. One with characters that do something to a terminal, or
 * that is no UTF-8, is left out; quotes and backslashes are the shell's to quote. */
static void offer(const line *line, const char *candidate, const char *description)
{
    char shown[4096];
    const int begins_so = strncmp(candidate, line->last, strlen(line->last)) == 0;
    lmc_text_escape_but(shown, sizeof shown, candidate, strlen(candidate), "\"\\");
    if (begins_so && strcmp(candidate, shown) == 0)
        printf("%s\t%s\n", candidate, description);
}

/* Options of the command, each with the first line of its help text. */
static void offer_options(const line *line)
{
    const uint64_t command = line->command ? line->command->bit : line->group ? line->group->bit : 0;
    for (const cli_option *option = cli_options; option->name; option++) {
        const int is_general = command == 0 && (option->bit & CLI_OPT_GENERAL) != 0;
        char word[40];
        char description[80];
        if (!is_general && (option->commands & command) == 0)
            continue;
        snprintf(description, sizeof description, "%.*s", (int)strcspn(option->help, "\n"), option->help);
        snprintf(word, sizeof word, "-%c", option->letter);
        if (option->letter != 0)
            offer(line, word, description);
        snprintf(word, sizeof word, "--%s", option->name);
        offer(line, word, description);
    }
}

static char *expand_home(const char *path)
{
    const char *const home = os_environment("HOME");
    return path[0] == '~' && path[1] == '/' && home ? lmc_path_join(&lmc_memory_default, home, path + 2, "")
                                                    : lmc_path_join(&lmc_memory_default, path, "", "");
}

static void offer_models(const line *line)
{
    char *const path = expand_home(line->operands[0]);
    lmc_store *store = NULL;
    const uint64_t count =
        path && lmc_store_open(path, NULL, &store, NULL) == LMC_OK ? lmc_store_model_count(store) : 0;
    for (uint64_t i = 0; i < count; i++) {
        lmc_store_model model = LMC_INIT(lmc_store_model);
        if (lmc_store_model_info(store, i, &model) == LMC_OK)
            offer(line, model.name, "model");
    }
    lmc_store_close(store);
    free(path);
}

static int offer_step(void *user, const char *name)
{
    if (strspn(name, "0123456789") == strlen(name))
        offer(user, name, "step");
    return 0;
}

/* What an operand or a value is called in the help texts says what may stand there. */
static void offer_kind(const line *line, const char *kind)
{
    static const struct {
        const char *kind, *files; /* what the shell is to offer */
    } rows[] = {{"IN", "plain"},
                {"SNAPSHOT", "plain"},
                {"PATH", "plain"},
                {"FILE", "either"},
                {"OLD", "either"},
                {"BASE", "either"},
                {"DIR", "directories"},
                {"RUN_DIR", "directories"},
                {"STORE", "directories"},
                {"OUT", "files"},
                {"ARCHIVE", "archives"},
                {"SOURCE", "archives"},
                {"MOUNTPOINT", "directories"}};
    const int is_of_group = line->command && strchr(line->command->name, ' ');
    if (!line->option && (strcmp(kind, "A") == 0 || strcmp(kind, "B") == 0))
        kind = is_of_group ? "STEP" : "FILE";
    const char *files = "";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].kind, kind) == 0)
            files = rows[i].files;
    printf("%s\n", files);
    if (strcmp(kind, "LEVEL") == 0) {
        offer(line, "default", "");
        offer(line, "fast", "a little larger");
        offer(line, "max", "slower, smaller");
    } else if (strcmp(kind, "STEP") == 0 && line->operand_count > 0) {
        /* the folders of a run that are named by a number; the list of steps need not be sound for that */
        char *const path = expand_home(line->operands[0]);
        if (path)
            (void)os_visit_path(path, offer_step, (void *)line);
        free(path);
    } else if (strcmp(kind, "MODEL") == 0 && line->operand_count > 0) {
        offer_models(line);
    } else if (strcmp(kind, "NAME") == 0 && !is_of_group) {
        char *const path = expand_home(line->operands[0]);
        lmc_st_file *file = NULL;
        const uint64_t count =
            path && lmc_st_open(path, NULL, &file, NULL) == LMC_OK ? lmc_st_tensor_count(file) : 0;
        for (uint64_t i = 0; i < count; i++) {
            lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
            if (lmc_st_tensor_info(file, i, &tensor) == LMC_OK && strlen(tensor.name) == tensor.name_nbytes)
                offer(line, tensor.name, tensor.dtype_name);
        }
        lmc_st_close(file);
        free(path);
    }
}

int cli_complete(int count, char **words)
{
    line line = {.last = count > 0 ? words[count - 1] : ""};
    char kind[16];
    for (int i = 0; i + 1 < count; i++) {
        char *const word = words[i];
        const size_t length = strlen(word);
        if (line.option) {
            line.option = NULL;
        } else if (!line.is_over && strcmp(word, "--") == 0) {
            line.is_over = 1;
        } else if (!line.is_over && word[0] == '-' && length > 1) { /* "--name", or letters behind one dash */
            const cli_option *row = cli_options;
            while (row->name &&
                   (word[1] == '-' ? strcmp(word + 2, row->name) != 0 : row->letter != word[length - 1]))
                row++;
            line.option = row->value ? row : NULL;
        } else {
            take_operand(&line, word);
        }
    }
    if (line.option) {
        offer_kind(&line, line.option->value);
    } else if (line.last[0] == '-' && !line.is_over) {
        printf("\n");
        offer_options(&line);
    } else if (!line.command) {
        printf("\n");
        for (const cli_command *const *at = line.group ? cli_commands_of(line.group) : cli_commands; *at;
             at++) {
            const char *const space = strchr((*at)->name, ' ');
            offer(&line, space ? space + 1 : (*at)->name, (*at)->summary);
        }
        if (!line.group && !line.is_help)
            offer(&line, "help", "show the help text of a command");
    } else if (!line.is_help) {
        /* the operand of the help text, such as "RUN_DIR [STEP...] ", that the last word is; the last of them may be
         * repeated, and operands stand before options */
        const char *at = line.command->operands;
        for (int i = 0;; i++) {
            at += strspn(at, " [");
            const size_t length = strcspn(at, ". ]");
            const int is_repeated = at[length] == '.';
            snprintf(kind, sizeof kind, "%.*s", (int)length, at);
            if (i == line.operand_count || is_repeated || kind[0] == '\0')
                break;
            at += length;
        }
        if (kind[0] == '-')
            kind[0] = '\0';
        offer_kind(&line, kind);
    }
    return cli_finish_output();
}
