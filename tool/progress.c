/*
 * progress.c - the progress bar on stderr.
 */
#include "tool/progress.h"

#include "os/os.h"
#include "os/path.h"
#include "tool/cli.h"

#include <stdio.h>
#include <string.h>

#define DRAW_SECONDS 0.1
#define BAR_CELLS 20

static double now_seconds(void)
{
    return (double)os_clock_ns() * 1e-9;
}

void cli_progress_start(cli_progress *progress, const cli_args *args, const char *path)
{
    size_t nbytes = 0;
    const char *const name = lmc_path_name(path, &nbytes);
    const int is_quiet = (args->seen & CLI_OPT_QUIET) != 0;
    memset(progress, 0, sizeof *progress);
    progress->is_shown = !is_quiet && os_is_terminal(OS_STDERR);
    progress->has_summary = progress->is_shown || (args->seen & CLI_OPT_VERBOSE) != 0;
    progress->started = now_seconds();
    lmc_text_escape(progress->label, 25, name, nbytes);
}

double cli_progress_seconds(const cli_progress *progress)
{
    return now_seconds() - progress->started;
}

void cli_progress_update(void *user, uint64_t done_nbytes, uint64_t total_nbytes)
{
    cli_progress *const progress = user;
    char bar[BAR_CELLS + 1];
    if (!progress->is_shown)
        return;
    const double now = now_seconds();
    const double seconds = now - progress->started;
    if (seconds < DRAW_SECONDS || now - progress->drawn < DRAW_SECONDS)
        return;
    progress->drawn = now;
    progress->is_drawn = 1;
    const double share = total_nbytes == 0 ? 1 : (double)done_nbytes / (double)total_nbytes;
    const int filled = (int)(share * BAR_CELLS);
    const double speed = seconds > 0 ? (double)done_nbytes / seconds : 0;
    const double left = speed > 0 ? (double)(total_nbytes - done_nbytes) / speed : 0;
    memset(bar, '.', BAR_CELLS);
    memset(bar, '#', (size_t)filled);
    bar[BAR_CELLS] = '\0';
    fprintf(stderr, "\r%s [%s] %3d %% %.1f MiB %.2f GiB/s ETA %ld:%02ld\033[K", progress->label, bar,
            (int)(share * 100), (double)done_nbytes / (1 << 20), speed / (1 << 30), (long)left / 60,
            (long)left % 60);
    fflush(stderr);
}

void cli_progress_clear(cli_progress *progress)
{
    if (progress->is_drawn) {
        fprintf(stderr, "\r\033[K");
        progress->is_drawn = 0;
    }
}
