/*
 * inputs.c - the files that a command reads, and the bases of archives.
 */
#include "tool/inputs.h"
#include "lmc_st_experimental.h"
#include "lmc_store.h"

#include "os/os.h"
#include "tool/tool_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

lmc_st_common cli_common(const cli_args *args)
{
    return (lmc_st_common){.thread_count = args->thread_count, .cancel = &cli_cancel};
}

lmc_st_compare_options cli_compare_options(const cli_args *args)
{
    lmc_st_compare_options options = LMC_INIT(lmc_st_compare_options);
    options.common = cli_common(args);
    options.base = args->base;
    options.base_dirs = args->base_dirs;
    options.base_dir_count = args->base_dir_count;
    return options;
}

/* ---- what --base names ---- */

static int check_base_file(const char *path)
{
    lmc_st_diag diag;
    os_state found;
    const int fd = os_open(OS_HERE, path);
    if (fd < 0)
        return cli_fail_os(path, errno, "cannot open");
    const int failed = os_fstat(fd, &found);
    (void)os_close(fd);
    if (failed)
        return cli_fail_os(path, failed, "cannot read");
    if (found.kind == OS_FILE)
        return CLI_OK;
    cli_set_diag(&diag, path, LMC_ERR_ARG, "is not a regular file (a pipe, socket or device)");
    return cli_report(&diag);
}

int cli_base_check(const cli_args *args, const char *in_path)
{
    char shown[160];
    if (!args->base)
        return CLI_OK;
    const int needs_directory = strcmp(in_path, "-") != 0 && os_is_folder(in_path);
    const int is_directory = os_is_folder(args->base);
    if (is_directory == needs_directory)
        return is_directory ? CLI_OK : check_base_file(args->base);
    if (!is_directory && !os_is_file(args->base))
        return check_base_file(args->base); /* says that it is not there, or its kind */
    return cli_usage_error(args->command, "the base %s is a %s, the input a %s",
                           cli_shown(shown, sizeof shown, args->base), is_directory ? "directory" : "file",
                           needs_directory ? "directory" : "file");
}

/* ---- files and tensors ---- */

lmc_status cli_open(const cli_args *args, const char *path, lmc_st_file **file, lmc_st_diag *diag)
{
    char *const inner = cli_archive_of_step(path);
    const char *const opened = inner ? inner : path;
    lmc_st_open_options options = LMC_INIT(lmc_st_open_options);
    options.raw = (args->seen & CLI_OPT_RAW) != 0;
    options.base = args->base;
    options.base_dirs = args->base_dirs;
    options.base_dir_count = args->base_dir_count;
    lmc_status status = lmc_st_open(opened, &options, file, diag);
    free(inner);
    if (status == LMC_ERR_IO && strcmp(path, "-") == 0) {
        status = LMC_ERR_ARG;
        cli_set_diag(diag, "standard input", status, "is not read by this command: name a file");
    }
    return status;
}

int cli_open_operand(const cli_args *args, int operand_count, const char *usage, lmc_st_file **file)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    *file = NULL;
    if (args->operand_count != operand_count)
        return cli_usage_error(args->command, "%s", usage);
    const int exit_status = cli_base_check(args, args->operands[0]);
    if (exit_status != CLI_OK)
        return exit_status;
    return cli_open(args, args->operands[0], file, &diag) == LMC_OK ? CLI_OK : cli_report(&diag);
}

lmc_st_tensor cli_tensor(const lmc_st_file *file, uint64_t index)
{
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    const lmc_status status = lmc_st_tensor_info(file, index, &tensor);
    (void)status; /* tensor.shape says it */
    return tensor;
}

int cli_has_shape(const lmc_st_tensor *tensor)
{
    return tensor->shape || tensor->rank == 0;
}

int cli_is_same_shape(const lmc_st_tensor *a, const lmc_st_tensor *b)
{
    return a->rank == b->rank && cli_has_shape(a) && cli_has_shape(b) &&
           (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

/* ---- what removing an input would break ---- */

int cli_refuse_kept(const char *path, const char *fault)
{
    lmc_st_diag diag;
    lmc_store_kind kind = LMC_STORE_NONE;
    unsigned depth = 0;
    if (lmc_store_locate(path, &kind, &depth) != LMC_OK)
        return cli_fail_nomem();
    if (kind == LMC_STORE_NONE)
        return CLI_OK;
    cli_set_diag(&diag, path, LMC_ERR_ARG, "%s", fault);
    return cli_report(&diag);
}

/* The removal of an input that was converted with --base. */
typedef struct removal_check {
    const char *in_path;
    char *true_in; /* without links */
    int exit_status;
} removal_check;

/* Goes down the chains of bases of one archive, from `at`, which is the archive or one of its bases: is one of them
 * what would be removed, or in it? */
static void check_bases(removal_check *check, const lmc_st_file *archive, const lmc_st_file *at)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    char shown[200];
    for (uint64_t i = 0; i < lmc_st_base_count(at) && check->exit_status == CLI_OK; i++) {
        const lmc_st_file *base = NULL;
        if (lmc_st_open_base(at, i, &base, &diag) != LMC_OK) {
            check->exit_status = cli_report(&diag);
            return;
        }
        char *const found = os_real_path(lmc_st_path(base));
        if (!found) {
            check->exit_status = cli_fail_os(lmc_st_path(base), errno, "cannot find");
        } else if (lmc_path_is_within(found, check->true_in)) {
            cli_set_diag(&diag, check->in_path, LMC_ERR_ARG,
                         "is kept: %s was written, but needs it as a base",
                         cli_shown(shown, sizeof shown, lmc_st_path(archive)));
            check->exit_status = cli_report(&diag);
        } else {
            check_bases(check, archive, base);
        }
        free(found);
    }
}

/* Returns the exit status. */
static int check_archive(void *user, const lmc_st_file *file)
{
    removal_check *const check = user;
    check_bases(check, file, file);
    return check->exit_status;
}

int cli_base_allows_removal(const cli_args *args, const char *archive_path, const char *in_path)
{
    removal_check check = {in_path, NULL, CLI_OK};
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    const lmc_st_compare_options options = cli_compare_options(args);
    lmc_st_file *file = NULL;
    lmc_status status = LMC_OK;
    if (!args->base)
        return CLI_OK;
    check.true_in = os_real_path(in_path);
    if (!check.true_in)
        return cli_fail_os(in_path, errno, "cannot find");
    if (os_is_folder(archive_path))
        status = lmc_st_visit_archives(archive_path, &options, check_archive, &check, &diag);
    else if ((status = cli_open(args, archive_path, &file, &diag)) == LMC_OK)
        (void)check_archive(&check, file);
    lmc_st_close(file);
    free(check.true_in);
    return status == LMC_OK ? check.exit_status : cli_report(&diag);
}
