/*
 * kernels.c - see kernels.h.
 */
#include "tool/kernels.h"

#include "tool/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define EXIT_NO_SUCH_SET 77

const char *const cli_kernel_sets[CLI_KERNEL_SETS] = {"avx512", "avx2", "neon", "scalar"};

typedef struct set_work {
    const char *set;
    const cli_child *child;
} set_work;

/* cli_child.work */
static int work_with_set(void *user, int pipe_fd)
{
    const set_work *const work = user;
    if (setenv("LMC_KERNELS", work->set, 1) != 0)
        return CLI_SYSTEM;
    if (strcmp(lmc_kernels_name(), work->set) != 0)
        return EXIT_NO_SUCH_SET;
    return work->child->work(work->child->user, pipe_fd);
}

/* cli_child.take */
static void pass_on(void *user, const void *record)
{
    const set_work *const work = user;
    work->child->take(work->child->user, record);
}

int cli_with_kernels(const char *set, const cli_child *child, int *is_there)
{
    set_work work = {set, child};
    const cli_child with_set = {
        .work = work_with_set, .take = pass_on, .record_nbytes = child->record_nbytes, .user = &work};
    int status = 0;
    *is_there = 0;
    const int failure = cli_run_child(&with_set, &status);
    if (failure == CLI_SYSTEM)
        return CLI_SYSTEM;
    *is_there = !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_NO_SUCH_SET;
    if (failure != CLI_OK)
        return failure;
    if (WIFEXITED(status))
        return *is_there ? WEXITSTATUS(status) : CLI_OK;
    fprintf(stderr, "lmc-st: the process with kernel set %s died of signal %d\n", set, WTERMSIG(status));
    return CLI_SYSTEM;
}
