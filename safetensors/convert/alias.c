/*
 * alias.c - finds aliases. Only tensors of one kind with equal fingerprints are compared, byte by byte: a model without
 * equal tensors is not read twice.
 */
#include "safetensors/convert/alias.h"

#include "safetensors/convert/fingerprint.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#define PLACE_NBYTES 512

/* Content that is compared at once. */
#define PIECE_NBYTES ((size_t)256 << 10)

/* Different tensors with equal fingerprints that one is compared with: a file made to have many of them
 * must not cost quadratic time. */
#define OWNERS_MAX 4

typedef struct search {
    const st_source *source;
    const st_options *options;
    st_candidate *candidates;
    size_t candidate_count;
    unsigned char *pieces; /* two of PIECE_NBYTES */
    lmc_st_diag *diag;
} search;

/* ---- candidates ---- */

/* Begin, middle and end. */
static size_t list_places(uint64_t nbytes, uint64_t *places)
{
    const uint64_t last = nbytes > PLACE_NBYTES ? nbytes - PLACE_NBYTES : 0;
    places[0] = 0;
    places[1] = last / 2;
    places[2] = last;
    return 3;
}

/* Lists the tensors by kind and fingerprint. Only those that share their kind with another one need a fingerprint. */
static lmc_status list_candidates(search *search)
{
    static const st_sampling sampling = {PLACE_NBYTES, list_places};
    st_candidate *const list = search->candidates;
    size_t count = 0;
    for (size_t i = 0; i < search->source->header->tensor_count; i++) {
        const st_candidate one = st_candidate_of(search->source, i);
        if (one.nbytes >= ST_CANDIDATE_NBYTES_MIN)
            list[count++] = one;
    }
    st_candidates_sort(list, count);
    for (size_t i = 1; i < count; i++)
        if (st_candidate_compare_kinds(&list[i - 1], &list[i]) == 0)
            list[i - 1].is_needed = list[i].is_needed = 1;
    search->candidate_count = count;
    const lmc_status status =
        st_fingerprints_take(&sampling, search->source, NULL, list, count, search->options, search->diag);
    st_candidates_sort(list, count);
    return status;
}

/* ---- comparison ---- */

static lmc_status compare_content(const search *search, const st_candidate *a, const st_candidate *b,
                                  int *is_equal)
{
    const st_source *const source = search->source;
    unsigned char *const other = search->pieces + PIECE_NBYTES;
    *is_equal = 1;
    for (uint64_t at = 0; at < a->nbytes && *is_equal; at += PIECE_NBYTES) {
        const size_t nbytes = a->nbytes - at < PIECE_NBYTES ? (size_t)(a->nbytes - at) : PIECE_NBYTES;
        if (st_is_cancelled(search->options->cancel))
            return st_fail_cancelled(search->diag);
        LMC_TRY(source->read(source, a->index, at, search->pieces, nbytes, search->diag));
        LMC_TRY(source->read(source, b->index, at, other, nbytes, search->diag));
        *is_equal = memcmp(search->pieces, other, nbytes) == 0;
    }
    return LMC_OK;
}

/* Finds owners within each group of equal fingerprints; a group stands in the order of the file. */
static lmc_status match_groups(const search *search, st_aliases *aliases)
{
    const st_candidate *owners[OWNERS_MAX];
    size_t owner_count = 0;
    for (size_t i = 0; i < search->candidate_count; i++) {
        const st_candidate *const one = &search->candidates[i];
        int is_equal = 0;
        size_t tried = 0;
        if (i > 0 && st_candidate_compare(one - 1, one) != 0)
            owner_count = 0;
        for (; tried < owner_count && !is_equal; tried++)
            LMC_TRY(compare_content(search, owners[tried], one, &is_equal));
        if (is_equal) {
            aliases->list[aliases->count++] = (st_alias){one->index, owners[tried - 1]->index};
            aliases->nbytes += one->nbytes;
        } else if (owner_count < OWNERS_MAX) {
            owners[owner_count++] = one;
        }
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

lmc_status st_aliases_find(st_aliases *aliases, const st_source *source, const st_options *options,
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
    lmc_status status = LMC_OK;
    if (!search.candidates || !search.pieces || !aliases->list)
        status = st_fail_nomem(diag);
    else
        status = list_candidates(&search);
    if (status == LMC_OK)
        status = match_groups(&search, aliases);
    if (aliases->count > 0)
        qsort(aliases->list, aliases->count, sizeof *aliases->list, compare_aliases);
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
