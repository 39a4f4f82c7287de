/*
 * fingerprint.c - reads a few values of each candidate and hashes them, with several threads.
 */
#include "safetensors/convert/fingerprint.h"

#include "lmc_experimental.h"
#include "safetensors/archive/table.h"
#include "safetensors/base/content.h"
#include "safetensors/engine/engine.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#define PLACE_NBYTES_MAX 512
#define SAMPLE_NBYTES_MAX (3 * PLACE_NBYTES_MAX)

/* Candidates that a thread takes in one go, and how much work that is in bytes coded. */
#define GROUP_COUNT 256
#define GROUP_NBYTES ((uint64_t)256 << 10)

int st_candidate_compare_kinds(const st_candidate *a, const st_candidate *b)
{
    if (a->nbytes != b->nbytes)
        return a->nbytes < b->nbytes ? -1 : 1;
    return (a->dtype > b->dtype) - (a->dtype < b->dtype);
}

int st_candidate_compare(const st_candidate *a, const st_candidate *b)
{
    const int order = st_candidate_compare_kinds(a, b);
    return order != 0 ? order : (a->fingerprint > b->fingerprint) - (a->fingerprint < b->fingerprint);
}

static int compare_places(const void *left, const void *right)
{
    const st_candidate *const a = left;
    const st_candidate *const b = right;
    const int order = st_candidate_compare(a, b);
    if (order != 0)
        return order;
    return a->form != b->form ? (a->form < b->form ? -1 : 1) : (a->index > b->index) - (a->index < b->index);
}

void st_candidates_sort(st_candidate *candidates, size_t count)
{
    qsort(candidates, count, sizeof *candidates, compare_places);
}

/* ---- values ---- */

typedef struct sampler {
    const st_sampling *sampling;
    const st_source *source;
    const lmc_st_file *base;
    st_candidate *candidates;
    size_t count;
    const st_options *options;
} sampler;

/* content, window: of the tensor, if it is of the base. */
static lmc_status read_own(const sampler *sampler, st_worker *worker, const st_candidate *one,
                           const st_content *content, st_content_window *window, uint64_t offset,
                           unsigned char *dst, size_t nbytes)
{
    const st_content_room room = {worker->memory, worker->ctx, &worker->base, &worker->content,
                                  &worker->stored};
    return one->place == LMC_ST_BASE_SELF
               ? sampler->source->read(sampler->source, one->index, offset, dst, nbytes, &worker->diag)
               : st_content_copy(content, &room, window, offset, dst, nbytes, &worker->diag);
}

static lmc_status take_fingerprint(const sampler *sampler, st_worker *worker, st_candidate *one)
{
    const st_sampling *const sampling = sampler->sampling;
    uint64_t places[ST_FINGERPRINT_PLACE_COUNT_MAX];
    unsigned char sample[SAMPLE_NBYTES_MAX];
    unsigned char wide[2 * PLACE_NBYTES_MAX];
    size_t filled = 0;
    st_content content = {0};
    st_content_window window = {0};
    lmc_status status = LMC_OK;
    if (one->place == LMC_ST_BASE_FILE)
        status =
            st_content_open(&content, sampler->base, worker->ctx, one->index, worker->memory, &worker->diag);
    const size_t place_count = sampling->list_places(one->nbytes, places);
    for (size_t i = 0; i < place_count && status == LMC_OK; i++) {
        const uint64_t left = one->nbytes - places[i];
        const size_t nbytes = left < sampling->place_nbytes ? (size_t)left : sampling->place_nbytes;
        if (one->form == LMC_BASE_PLAIN) {
            status = read_own(sampler, worker, one, &content, &window, places[i], sample + filled, nbytes);
        } else {
            const unsigned scale = st_base_scale((lmc_base_form)one->form);
            status =
                read_own(sampler, worker, one, &content, &window, scale * places[i], wide, scale * nbytes);
            if (status == LMC_OK)
                lmc_base_round((lmc_base_form)one->form, wide, nbytes / 2, sample + filled);
        }
        if (status == LMC_OK && one->excerpt)
            memcpy(one->excerpt + i * ST_EXCERPT_PLACE_NBYTES, sample + filled, ST_EXCERPT_PLACE_NBYTES);
        filled += nbytes;
    }
    st_content_free(&content);
    if (status == LMC_OK)
        one->fingerprint = st_hash(sample, filled);
    return status;
}

/* ---- threads ---- */

/* What the engine takes for a tensor is a group of candidates. */
static lmc_status sample_group(void *user, st_worker *worker, st_slot *slot, const st_part *part)
{
    const sampler *const sampler = user;
    const size_t begin = slot->index * GROUP_COUNT;
    const size_t left = sampler->count - begin;
    (void)part;
    for (size_t i = begin; i < begin + (left < GROUP_COUNT ? left : GROUP_COUNT); i++) {
        if (!sampler->candidates[i].is_needed)
            continue;
        LMC_TRY(st_is_cancelled(sampler->options->cancel)
                    ? st_fail_cancelled(&worker->diag)
                    : take_fingerprint(sampler, worker, &sampler->candidates[i]));
    }
    return LMC_OK;
}

lmc_status st_fingerprints_take(const st_sampling *sampling, const st_source *source, const lmc_st_file *base,
                                st_candidate *candidates, size_t count, const st_options *options,
                                lmc_st_diag *diag)
{
    static const st_engine_ops ops = {.do_part = sample_group};
    const size_t group_count = (count + GROUP_COUNT - 1) / GROUP_COUNT;
    sampler sampler = {sampling, source, base, candidates, count, options};
    st_options quiet = *options;
    quiet.progress = NULL;
    return st_engine_run(&ops, &sampler, group_count, group_count * GROUP_NBYTES, &quiet, diag);
}
