/*
 * base.c - see base.h.
 */
#include "tool/base.h"

#include "safetensors/common/text.h"
#include "safetensors/os/dir.h"
#include "safetensors/tree/model_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what --base names ---- */

static int check_file(const cli_args *args)
{
    os_input input;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    st_diag_init(&diag, args->base);
    if (os_input_open(&input, args->base, &diag) != LMC_OK)
        return cli_report(&diag);
    os_input_close(&input);
    return CLI_OK;
}

int cli_base_check(const cli_args *args, const char *in_path)
{
    char shown[160];
    if (args->base == NULL)
        return CLI_OK;
    const int needs_directory = strcmp(in_path, "-") != 0 && os_is_directory(in_path);
    const int is_directory = os_is_directory(args->base);
    if (is_directory == needs_directory)
        return is_directory ? CLI_OK : check_file(args);
    if (!is_directory && !os_is_file(args->base))
        return check_file(args); /* says that it is not there, or what it is */
    st_text_escape(shown, sizeof(shown), args->base, strlen(args->base));
    return cli_usage_error(args->command, "the base %s is a %s, the input a %s", shown,
                           is_directory ? "directory" : "file", needs_directory ? "directory" : "file");
}

/* ---- opening ---- */

lmc_status cli_open(const cli_args *args, const char *path, lmc_st_file **file, lmc_st_diag *diag)
{
    lmc_status status = lmc_st_open(path, file, diag);
    if (status == LMC_OK)
        status = lmc_st_set_base(*file, args->base, args->base_dirs, args->base_dir_count, diag);
    if (status != LMC_OK) {
        lmc_st_close(*file);
        *file = NULL;
    }
    return status;
}

/* ---- removal ---- */

/* Both without links; `directory` may be the file itself. */
static int is_below(const char *path, const char *directory)
{
    const size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0 &&
           (path[length] == '\0' || path[length] == '/' || strcmp(directory, "/") == 0);
}

static int refuse_removal(const char *archive_path, const char *in_path)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    char shown[200];
    st_diag_init(&diag, in_path);
    st_text_escape(shown, sizeof(shown), archive_path, strlen(archive_path));
    st_fail(&diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "is kept: %s was written, but needs it as a base", shown);
    return cli_report(&diag);
}

/* Goes down the chain of bases of one archive. true_in: in_path without links. */
static int check_chain(const lmc_st_file *file, const char *in_path, const char *true_in)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    int is_needed = 0;
    for (const lmc_st_file *at = file; at != NULL && !is_needed;) {
        if (lmc_st_open_base(at, &at, &diag) != LMC_OK)
            return cli_report(&diag);
        char *const found = at == NULL ? NULL : os_true_path(&st_memory_default, lmc_st_path(at));
        if (at != NULL && found == NULL) {
            fprintf(stderr, "lmc-st: out of memory\n");
            return CLI_SYSTEM;
        }
        is_needed = at != NULL && is_below(found, true_in);
        free(found);
    }
    return is_needed ? refuse_removal(lmc_st_path(file), in_path) : CLI_OK;
}

static int check_archive(const cli_args *args, const char *archive_path, const char *in_path,
                         const char *true_in)
{
    lmc_st_file *file = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    if (cli_open(args, archive_path, &file, &diag) != LMC_OK)
        return cli_report(&diag);
    const int exit_status = check_chain(file, in_path, true_in);
    lmc_st_close(file);
    return exit_status;
}

/* The file of a directory of bases for the archive NAME.lmc in another one: NAME or NAME.lmc. To be freed. */
static char *base_of_archive(const char *directory, const char *name)
{
    char *const archive = os_path_join(&st_memory_default, directory, name, "");
    char *const plain = archive == NULL ? NULL : st_duplicate(&st_memory_default, archive);
    if (plain == NULL) {
        free(archive);
        return NULL;
    }
    plain[strlen(plain) - strlen(ST_ARCHIVE_SUFFIX)] = '\0';
    const int is_plain = os_is_file(plain);
    free(is_plain ? archive : plain);
    return is_plain ? plain : archive;
}

static int check_entry(const cli_args *args, const char *directory, const char *name, const char *in_path,
                       const char *true_in)
{
    cli_args one = *args;
    char *const archive = os_path_join(&st_memory_default, directory, name, "");
    char *const base = base_of_archive(args->base, name);
    int exit_status = CLI_SYSTEM;
    if (archive == NULL || base == NULL) {
        fprintf(stderr, "lmc-st: out of memory\n");
    } else {
        one.base = base;
        exit_status = check_archive(&one, archive, in_path, true_in);
    }
    free(archive);
    free(base);
    return exit_status;
}

static int check_directory(const cli_args *args, const char *directory, const char *in_path,
                           const char *true_in)
{
    os_tree tree;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    int exit_status = CLI_OK;
    st_diag_init(&diag, directory);
    if (os_tree_read(&tree, &st_memory_default, directory, &diag) != LMC_OK)
        exit_status = cli_report(&diag);
    for (size_t i = 0; exit_status == CLI_OK && i < tree.count; i++)
        if (!tree.entries[i].is_directory && st_is_archive_name(tree.entries[i].path))
            exit_status = check_entry(args, directory, tree.entries[i].path, in_path, true_in);
    os_tree_free(&tree);
    return exit_status;
}

int cli_base_allows_removal(const cli_args *args, const char *archive_path, const char *in_path)
{
    if (args->base == NULL)
        return CLI_OK;
    char *const true_in = os_true_path(&st_memory_default, in_path);
    if (true_in == NULL) {
        fprintf(stderr, "lmc-st: out of memory\n");
        return CLI_SYSTEM;
    }
    const int exit_status = os_is_directory(archive_path)
                                ? check_directory(args, archive_path, in_path, true_in)
                                : check_archive(args, archive_path, in_path, true_in);
    free(true_in);
    return exit_status;
}
