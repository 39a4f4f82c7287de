/*
 * alias.c - see convert/alias.h. Tensors of one dtype and size are candidates; of each, three short samples are
 * hashed; only tensors with equal samples are compared, byte by byte. So a model without equal tensors is
 * not read twice.
 */
#include "safetensors/convert/alias.h"

#include "safetensors/engine/engine.h"

#include <stdlib.h> /* qsort */
#include <string.h>

/* Smaller tensors gain nothing: their frames are about as small as an entry of the list. */
#define TENSOR_NBYTES_MIN 64

#define SAMPLE_NBYTES 512
#define SAMPLE_COUNT 3

/* Candidates that a thread samples in one go, and how much work that is in bytes coded. */
#define GROUP_COUNT 256
#define GROUP_NBYTES ((uint64_t)256 << 10)

/* Content that is compared at once. */
#define PIECE_NBYTES ((size_t)256 << 10)

/* Different tensors with equal samples that one is compared with: a file made to have many of them
 * must not cost quadratic time. */
#define OWNERS_MAX 4

typedef struct candidate {
    uint64_t nbytes;
    uint64_t sample; /* hash */
    uint32_t index;
    uint16_t dtype;
} candidate;

typedef struct search {
    const st_source *source;
    const lmc_st_options *options;
    candidate *candidates;
    size_t candidate_count;
    unsigned char *pieces; /* two of PIECE_NBYTES */
    lmc_st_diag *diag;
} search;

/* ---- candidates ---- */

static int compare_kinds(const void *left, const void *right)
{
    const candidate *const a = left;
    const candidate *const b = right;
    if (a->nbytes != b->nbytes)
        return a->nbytes < b->nbytes ? -1 : 1;
    if (a->dtype != b->dtype)
        return a->dtype < b->dtype ? -1 : 1;
    if (a->sample != b->sample)
        return a->sample < b->sample ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int is_same_kind(const candidate *a, const candidate *b)
{
    return a->nbytes == b->nbytes && a->dtype == b->dtype;
}

static void list_candidates(search *search)
{
    const st_header *const header = search->source->header;
    for (size_t i = 0; i < header->tensor_count; i++) {
        const uint64_t nbytes = st_source_tensor_nbytes(search->source, i);
        if (nbytes >= TENSOR_NBYTES_MIN) {
            const candidate one = {.nbytes = nbytes, .index = (uint32_t)i, .dtype = header->tensors[i].dtype};
            search->candidates[search->candidate_count++] = one;
        }
    }
    qsort(search->candidates, search->candidate_count, sizeof *search->candidates, compare_kinds);
}

/* Hashes begin, middle and end of a tensor. */
static lmc_status take_sample(const search *search, candidate *one, lmc_st_diag *diag)
{
    unsigned char samples[SAMPLE_COUNT * SAMPLE_NBYTES];
    const size_t nbytes = one->nbytes < SAMPLE_NBYTES ? (size_t)one->nbytes : SAMPLE_NBYTES;
    const uint64_t places[SAMPLE_COUNT] = {0, (one->nbytes - nbytes) / 2, one->nbytes - nbytes};
    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        const lmc_status status =
            search->source->read(search->source, one->index, places[i], samples + i * nbytes, nbytes, diag);
        if (status != LMC_OK)
            return status;
    }
    one->sample = st_hash(samples, SAMPLE_COUNT * nbytes);
    return LMC_OK;
}

static int has_peer(const search *search, size_t index)
{
    const candidate *const one = &search->candidates[index];
    return (index > 0 && is_same_kind(one, one - 1)) ||
           (index + 1 < search->candidate_count && is_same_kind(one, one + 1));
}

/* The engine's "tensor" is a group of candidates; it needs no preparation and is one run. */
static lmc_status prepare_group(void *user, st_worker *worker, st_slot *slot)
{
    (void)user;
    (void)worker;
    (void)slot;
    return LMC_OK;
}

static lmc_status sample_group(void *user, st_worker *worker, st_slot *slot, const st_run *run)
{
    const search *const search = user;
    const size_t begin = slot->index * GROUP_COUNT;
    const size_t left = search->candidate_count - begin;
    lmc_status status = LMC_OK;
    (void)run;
    for (size_t i = begin; i < begin + (left < GROUP_COUNT ? left : GROUP_COUNT) && status == LMC_OK; i++)
        if (has_peer(search, i))
            status = take_sample(search, &search->candidates[i], &worker->diag);
    return status;
}

static void release_group(void *user, st_slot *slot)
{
    (void)user;
    (void)slot;
}

static lmc_status take_samples(search *search)
{
    static const st_engine_ops ops = {
        .prepare = prepare_group, .run = sample_group, .release = release_group};
    lmc_st_options quiet = *search->options;
    const size_t group_count = (search->candidate_count + GROUP_COUNT - 1) / GROUP_COUNT;
    quiet.progress = NULL;
    const lmc_status status =
        st_engine_run(&ops, search, group_count, group_count * GROUP_NBYTES, &quiet, search->diag);
    if (status == LMC_OK)
        qsort(search->candidates, search->candidate_count, sizeof *search->candidates, compare_kinds);
    return status;
}

/* ---- comparison ---- */

static lmc_status compare_content(const search *search, const candidate *a, const candidate *b, int *is_equal)
{
    const st_source *const source = search->source;
    unsigned char *const other = search->pieces + PIECE_NBYTES;
    *is_equal = 1;
    for (uint64_t at = 0; at < a->nbytes && *is_equal; at += PIECE_NBYTES) {
        const size_t nbytes = a->nbytes - at < PIECE_NBYTES ? (size_t)(a->nbytes - at) : PIECE_NBYTES;
        if (st_is_cancelled(search->options->cancel))
            return st_fail_cancelled(search->diag);
        lmc_status status = source->read(source, a->index, at, search->pieces, nbytes, search->diag);
        if (status == LMC_OK)
            status = source->read(source, b->index, at, other, nbytes, search->diag);
        if (status != LMC_OK)
            return status;
        *is_equal = memcmp(search->pieces, other, nbytes) == 0;
    }
    return LMC_OK;
}

/* Finds owners within one group of equal samples; the group stands in the order of the file. */
static lmc_status match_group(const search *search, const candidate *group, size_t count, st_aliases *aliases)
{
    const candidate *owners[OWNERS_MAX];
    size_t owner_count = 0;
    for (size_t i = 0; i < count; i++) {
        int is_equal = 0;
        size_t tried = 0;
        for (; tried < owner_count && !is_equal; tried++) {
            const lmc_status status = compare_content(search, owners[tried], &group[i], &is_equal);
            if (status != LMC_OK)
                return status;
        }
        if (is_equal) {
            const st_alias pair = {group[i].index, owners[tried - 1]->index};
            aliases->list[aliases->count++] = pair;
            aliases->nbytes += group[i].nbytes;
        } else if (owner_count < OWNERS_MAX) {
            owners[owner_count++] = &group[i];
        }
    }
    return LMC_OK;
}

static lmc_status match_groups(const search *search, st_aliases *aliases)
{
    size_t begin = 0;
    while (begin < search->candidate_count) {
        const candidate *const group = &search->candidates[begin];
        size_t count = 1;
        while (begin + count < search->candidate_count && is_same_kind(group, group + count) &&
               group[count].sample == group->sample)
            count++;
        const lmc_status status = match_group(search, group, count, aliases);
        if (status != LMC_OK)
            return status;
        begin += count;
    }
    return LMC_OK;
}

/* ---- all of it ---- */

static int compare_aliases(const void *left, const void *right)
{
    const st_alias *const a = left;
    const st_alias *const b = right;
    return a->alias < b->alias ? -1 : a->alias > b->alias;
}

static lmc_status find(search *search, st_aliases *aliases)
{
    list_candidates(search);
    lmc_status status = take_samples(search);
    if (status == LMC_OK)
        status = match_groups(search, aliases);
    qsort(aliases->list, aliases->count, sizeof *aliases->list, compare_aliases);
    return status;
}

lmc_status st_aliases_find(st_aliases *aliases, const st_source *source, const lmc_st_options *options,
                           lmc_st_diag *diag)
{
    const lmc_allocator *const memory = options->allocator;
    const size_t count = source->header->tensor_count;
    search search = {.source = source, .options = options, .diag = diag};
    memset(aliases, 0, sizeof *aliases);
    aliases->memory = memory;
    if (count < 2)
        return LMC_OK;
    search.candidates = st_allocate(memory, count * sizeof *search.candidates);
    search.pieces = st_allocate(memory, 2 * PIECE_NBYTES);
    aliases->list = st_allocate(memory, count * sizeof *aliases->list);
    const int is_possible = search.candidates && search.pieces && aliases->list;
    const lmc_status status = is_possible ? find(&search, aliases) : st_fail_nomem(diag);
    st_release(memory, search.candidates);
    st_release(memory, search.pieces);
    return status;
}

void st_aliases_free(st_aliases *aliases)
{
    if (aliases->memory)
        st_release(aliases->memory, aliases->list);
    memset(aliases, 0, sizeof *aliases);
}

size_t st_aliases_owner(const st_aliases *aliases, size_t index)
{
    size_t begin = 0;
    size_t end = aliases->count;
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        if (aliases->list[middle].alias == index)
            return aliases->list[middle].owner;
        if (aliases->list[middle].alias < index)
            begin = middle + 1;
        else
            end = middle;
    }
    return index;
}
