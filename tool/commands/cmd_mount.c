/*
 * cmd_mount.c - lmc-st mount and unmount.
 */
#include "os/mount.h"
#include "tool/inputs.h"
#include "tool/mount_tree.h"
#include "tool/tool_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_SYSTEM_TYPE "lmc"

static const char about_mount[] =
    "Shows the originals of archives as files at the directory MOUNTPOINT: read-only,\n"
    "byte for byte, with the names, sizes, times and permissions (without write) that\n"
    "\"lmc-st restore\" would give them. They are decoded when they are read, and\n"
    "nothing is written. SOURCE is an archive, a converted directory, a directory of\n"
    "both, a run or a store; a step is shown as the directory MOUNTPOINT/STEP, a\n"
    "model as MOUNTPOINT/NAME. Goes to the background when the files are available. A\n"
    "signal or \"lmc-st unmount\" ends it. Needs libfuse 3 (Debian: fuse3).\n";

static const char after_mount[] =
    "\nA read of damaged data fails with an input/output error, and the system's log\n"
    "(with -f, standard error) names file, tensor and cause; other reads succeed.\n";

static const char about_unmount[] = "Unmounts what \"lmc-st mount\" has mounted at MOUNTPOINT.\n"
                                    "fusermount3 -u does the same.\n";

/* ---- messages ---- */

static int is_in_background;

static void log_fault(const lmc_st_diag *diag)
{
    char line[CLI_LINE_NBYTES];
    if (is_in_background)
        os_log("lmc-st", cli_line(diag, line, sizeof line));
    else
        (void)cli_report(diag);
}

/* ---- paths ---- */

/* What the call names, as real paths: a process in the background has another working directory. */
typedef struct mount_paths {
    char *source, *mountpoint, *base;
    char *base_dirs[CLI_BASE_DIRS_MAX];
} mount_paths;

static int find_path(const char *given, char **real)
{
    *real = os_real_path(given);
    return *real ? CLI_OK : cli_fail_os(given, errno, "cannot find");
}

/* A file system that reads what it hides would wait for itself. */
static int check_apart(const mount_paths *paths, const char *read_from)
{
    char shown[200];
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    if (!read_from || !lmc_path_is_within(read_from, paths->mountpoint))
        return CLI_OK;
    cli_set_diag(&diag, paths->mountpoint, LMC_ERR_ARG, "would hide %s",
                 cli_shown(shown, sizeof shown, read_from));
    return cli_report(&diag);
}

static int find_paths(const cli_args *args, mount_paths *paths)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    int exit_status = find_path(args->operands[0], &paths->source);
    if (exit_status == CLI_OK)
        exit_status = find_path(args->operands[1], &paths->mountpoint);
    if (exit_status == CLI_OK && args->base)
        exit_status = find_path(args->base, &paths->base);
    for (size_t i = 0; i < args->base_dir_count && exit_status == CLI_OK; i++)
        exit_status = find_path(args->base_dirs[i], &paths->base_dirs[i]);
    if (exit_status != CLI_OK)
        return exit_status;
    if (!os_is_folder(paths->mountpoint) || lmc_path_is_within(paths->mountpoint, paths->source)) {
        cli_set_diag(&diag, paths->mountpoint, LMC_ERR_ARG,
                     os_is_folder(paths->mountpoint) ? "is in what is to be mounted" : "is not a directory");
        return cli_report(&diag);
    }
    exit_status = check_apart(paths, paths->source);
    if (exit_status == CLI_OK)
        exit_status = check_apart(paths, paths->base);
    for (size_t i = 0; i < args->base_dir_count && exit_status == CLI_OK; i++)
        exit_status = check_apart(paths, paths->base_dirs[i]);
    return exit_status;
}

/* ---- mount ---- */

/* Mounts the tree, and answers until it is unmounted. Returns the exit status. */
static int serve(const cli_args *args, const mount_paths *paths, mount_tree *tree, unsigned thread_count)
{
    os_mount *mount = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    char cause[256];
    int os_errno = os_mount_open(&mount, paths->mountpoint, paths->source, FILE_SYSTEM_TYPE,
                                 (args->seen & CLI_OPT_ALLOW_OTHER) != 0, &mount_tree_answers, tree, cause,
                                 sizeof cause);
    if (os_errno == 0) {
        if ((args->seen & CLI_OPT_FOREGROUND) == 0) {
            is_in_background = 1;
            os_end_start(CLI_OK);
        }
        os_errno = os_mount_serve(mount, thread_count + 1, args->idle_s, &cli_cancel);
        os_error_text(os_errno, cause, sizeof cause);
    }
    os_mount_close(mount);
    if (os_errno == 0)
        return CLI_OK;
    cli_set_diag(&diag, paths->mountpoint, LMC_ERR_IO, "cannot mount: %s", cause);
    log_fault(&diag);
    return CLI_SYSTEM;
}

static int run_mount(const cli_args *args)
{
    mount_paths paths = {0};
    mount_tree *tree = NULL;
    lmc_st_cache *cache = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    lmc_st_options cache_options = LMC_INIT(lmc_st_options);
    lmc_st_compare_options options = cli_compare_options(args);
    const unsigned thread_count = args->thread_count ? args->thread_count : lmc_core_count();
    if (args->operand_count != 2)
        return cli_usage_error("mount", "mount takes SOURCE and MOUNTPOINT");
    int exit_status = cli_base_check(args, args->operands[0]);
    if (exit_status == CLI_OK)
        exit_status = find_paths(args, &paths);
    if (exit_status == CLI_OK && (args->seen & CLI_OPT_FOREGROUND) == 0) {
        const int os_errno = os_begin_background();
        if (os_errno != 0)
            exit_status = cli_fail_os(paths.mountpoint, os_errno, "cannot go to the background");
    }
    options.common.cancel = NULL; /* a signal ends the mount, but no read */
    options.base = paths.base;
    options.base_dirs = (const char *const *)paths.base_dirs;
    cache_options.common.thread_count = thread_count;
    if (exit_status == CLI_OK &&
        (mount_tree_create(paths.source, paths.mountpoint, &options, log_fault, &tree, &diag) != LMC_OK ||
         lmc_st_cache_create(args->cache_mib << 20, &cache_options, &cache, &diag) != LMC_OK))
        exit_status = cli_report(&diag);
    if (exit_status == CLI_OK) {
        mount_tree_use(tree, cache);
        exit_status = serve(args, &paths, tree, thread_count);
    }
    mount_tree_free(tree); /* its files, which use the cache */
    lmc_st_cache_free(cache);
    free(paths.source);
    free(paths.mountpoint);
    free(paths.base);
    for (size_t i = 0; i < CLI_BASE_DIRS_MAX; i++)
        free(paths.base_dirs[i]);
    return exit_status;
}

/* ---- unmount ---- */

static int run_unmount(const cli_args *args)
{
    if (args->operand_count != 1)
        return cli_usage_error("unmount", "unmount takes MOUNTPOINT");
    const char *const path = args->operands[0];
    const int os_errno = os_unmount(path, FILE_SYSTEM_TYPE);
    if (os_errno == EINVAL || os_errno == ENOSYS) {
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        if (os_errno == EINVAL)
            cli_set_diag(&diag, path, LMC_ERR_ARG, "nothing is mounted there by lmc-st");
        else
            cli_set_diag(&diag, path, LMC_ERR_IO, "cannot unmount: " OS_MOUNT_MISSING);
        return cli_report(&diag);
    }
    return os_errno == 0 ? CLI_OK : cli_fail_os(path, os_errno, "cannot unmount");
}

const cli_command cli_mount = {
    "mount",     CLI_MOUNT, "show originals without restoring them", "SOURCE MOUNTPOINT ", about_mount,
    after_mount, run_mount};
const cli_command cli_unmount = {
    "unmount", CLI_UNMOUNT, "unmount a mounted archive", "MOUNTPOINT ", about_unmount, NULL, run_unmount};
