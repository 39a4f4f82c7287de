/*
 * parts.c - callbacks that count a part's bytes as a share of the whole call's.
 */
#include "safetensors/common/parts.h"

static void report_progress(const st_parts *parts, uint64_t nbytes_of_part)
{
    const st_options *const options = parts->options;
    if (options->progress)
        options->progress(options->user, parts->done_nbytes + nbytes_of_part, parts->total_nbytes);
}

/* A part counts in bytes of its own: what it says is taken as a fraction. */
static void pass_progress(void *user, uint64_t done_nbytes, uint64_t total_nbytes)
{
    const st_parts *const parts = user;
    const double fraction = total_nbytes == 0 ? 0 : (double)done_nbytes / (double)total_nbytes;
    const uint64_t nbytes = (uint64_t)(fraction * (double)parts->part_nbytes);
    report_progress(parts, nbytes < parts->part_nbytes ? nbytes : parts->part_nbytes);
}

static void pass_damage(void *user, const lmc_st_diag *diag)
{
    const st_parts *const parts = user;
    parts->options->damage(parts->options->user, diag);
}

static void pass_file_done(void *user, const char *path, lmc_st_event event, uint64_t in_nbytes,
                           uint64_t out_nbytes)
{
    const st_parts *const parts = user;
    parts->options->file_done(parts->options->user, path, event, in_nbytes, out_nbytes);
}

st_options st_parts_options(st_parts *parts)
{
    st_options inner = *parts->options;
    inner.user = parts;
    inner.progress = !inner.progress ? NULL : pass_progress;
    inner.damage = !inner.damage ? NULL : pass_damage;
    inner.file_done = !inner.file_done ? NULL : pass_file_done;
    return inner;
}

void st_parts_begin(st_parts *parts, uint64_t nbytes)
{
    parts->part_nbytes = nbytes;
}

void st_parts_end(st_parts *parts)
{
    parts->done_nbytes += parts->part_nbytes;
    parts->part_nbytes = 0;
    report_progress(parts, 0);
}
