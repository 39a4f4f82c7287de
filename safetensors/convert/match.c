/*
 * match.c - chooses the base of each tensor. Base candidates, and tensors without a match yet, are listed by the kind
 * of content that they give or are. Values are read only where both have one kind.
 */
#include "safetensors/convert/match.h"

#include "safetensors/convert/fingerprint.h"

#include <string.h>

/* Values that are looked at: at so many places, spread over the tensor, so many bytes. */
#define PLACE_COUNT 8
#define PLACE_NBYTES 128

/* Base candidates with equal values whose shapes are compared, for a file made to have many of them. */
#define TRIES_MAX 16

typedef struct search {
    const st_source *source;
    const st_aliases *aliases;
    const lmc_st_file *base;
    const lmc_st_options *options;
    st_matches *matches;
    st_candidate *candidates; /* for the base of one of the wanted */
    size_t candidate_count;
    st_candidate *wanted;
    size_t wanted_count;
    lmc_st_diag *diag;
} search;

/* ---- lists ---- */

/* The places of a small tensor stand one behind the other. Offsets are multiples of every element. */
static size_t list_places(uint64_t nbytes, uint64_t *places)
{
    const int is_small = nbytes <= PLACE_COUNT * PLACE_NBYTES;
    const uint64_t last = nbytes > PLACE_NBYTES ? nbytes - PLACE_NBYTES : 0;
    size_t count = 0;
    for (; count < PLACE_COUNT && (!is_small || count * PLACE_NBYTES < nbytes); count++)
        places[count] = is_small ? count * PLACE_NBYTES : last / (PLACE_COUNT - 1) * count / 8 * 8;
    return count;
}

static lmc_status take_fingerprints(const search *search, st_candidate *candidates, size_t count)
{
    static const st_sampling sampling = {PLACE_NBYTES, list_places};
    return st_fingerprints_take(&sampling, search->source, search->base, candidates, count, search->options,
                                search->diag);
}

static void add_candidate(search *search, const st_header *header, size_t index, lmc_st_base_place place,
                          lmc_base_form form)
{
    const st_tensor *const tensor = &header->tensors[index];
    const st_candidate one = {.nbytes = (tensor->end - tensor->begin) / (form == LMC_BASE_PLAIN ? 1 : 2),
                              .index = (uint32_t)index,
                              .dtype = form == LMC_BASE_PLAIN ? tensor->dtype : (uint16_t)LMC_DTYPE_BF16,
                              .place = (uint8_t)place,
                              .form = (uint8_t)form};
    if (one.nbytes >= ST_CANDIDATE_NBYTES_MIN)
        search->candidates[search->candidate_count++] = one;
}

static void list_wanted(search *search)
{
    const st_header *const header = search->source->header;
    search->wanted_count = 0;
    for (size_t i = 0; i < header->tensor_count; i++) {
        const st_candidate one = st_candidate_of(search->source, i);
        if (!search->matches->list[i].is_there && one.nbytes >= ST_CANDIDATE_NBYTES_MIN &&
            st_aliases_owner(search->aliases, i) == i)
            search->wanted[search->wanted_count++] = one;
    }
}

/* The first base candidate that is not before `one` in this order. */
static size_t lower_bound(const search *search, const st_candidate *one,
                          int (*compare)(const st_candidate *a, const st_candidate *b))
{
    size_t begin = 0;
    size_t end = search->candidate_count;
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        if (compare(&search->candidates[middle], one) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

/* Marks a wanted tensor and the base candidates of its kind, if there are any. */
static void mark_needed(search *search, st_candidate *one)
{
    for (size_t i = lower_bound(search, one, st_candidate_compare_kinds);
         i < search->candidate_count && st_candidate_compare_kinds(&search->candidates[i], one) == 0; i++) {
        one->is_needed = 1;
        if (search->candidates[i].is_needed) /* then all of them are */
            return;
        search->candidates[i].is_needed = 1;
    }
}

/* ---- matches ---- */

static void set_match(search *search, size_t index, size_t base, lmc_st_base_place place, lmc_base_form form)
{
    const st_match match = {1, {(uint32_t)index, (uint32_t)base, place}, form};
    search->matches->list[index] = match;
    search->matches->count++;
}

/* Takes the first base candidate with the wanted values; a rounded one must have the shape too. */
static void choose_base(search *search, const st_candidate *one)
{
    const st_header *const header = search->source->header;
    const size_t first = lower_bound(search, one, st_candidate_compare);
    for (size_t i = first; i < search->candidate_count && i < first + TRIES_MAX; i++) {
        const st_candidate *const candidate = &search->candidates[i];
        const st_header *const own = candidate->place == LMC_ST_BASE_SELF ? header : &search->base->header;
        if (st_candidate_compare(candidate, one) != 0)
            return;
        if (candidate->form == LMC_BASE_PLAIN ||
            st_header_same_shape(header, one->index, own, candidate->index)) {
            set_match(search, one->index, candidate->index, (lmc_st_base_place)candidate->place,
                      (lmc_base_form)candidate->form);
            return;
        }
    }
}

static lmc_status match_values(search *search)
{
    list_wanted(search);
    st_candidates_sort(search->candidates, search->candidate_count);
    for (size_t i = 0; i < search->wanted_count; i++)
        mark_needed(search, &search->wanted[i]);
    ST_TRY(take_fingerprints(search, search->candidates, search->candidate_count));
    ST_TRY(take_fingerprints(search, search->wanted, search->wanted_count));
    st_candidates_sort(search->candidates, search->candidate_count);
    for (size_t i = 0; i < search->wanted_count; i++)
        if (search->wanted[i].is_needed)
            choose_base(search, &search->wanted[i]);
    return LMC_OK;
}

/* ---- the rounds ---- */

static lmc_status match_own(search *search)
{
    const st_header *const header = search->source->header;
    for (size_t i = 0; i < header->tensor_count; i++)
        if (header->tensors[i].dtype == LMC_DTYPE_F32 && st_aliases_owner(search->aliases, i) == i)
            add_candidate(search, header, i, LMC_ST_BASE_SELF, LMC_BASE_BF16_OF_F32);
    return match_values(search);
}

/* Only a safetensors file always tells shapes: those of other files need not agree. */
static int has_shapes(const search *search)
{
    return search->source->container == LMC_ST_CONTAINER_SAFETENSORS &&
           search->base->container == LMC_ST_CONTAINER_SAFETENSORS;
}

static void match_names(search *search)
{
    const st_header *const header = search->source->header;
    const st_header *const base = &search->base->header;
    list_wanted(search);
    for (size_t i = 0; i < search->wanted_count; i++) {
        const size_t index = search->wanted[i].index;
        size_t found = 0;
        if (st_header_find(base, st_header_name(header, index), &found) &&
            base->tensors[found].dtype == header->tensors[index].dtype &&
            (has_shapes(search) ? st_header_same_shape(header, index, base, found)
                                : st_file_tensor_nbytes(search->base, found) == search->wanted[i].nbytes))
            set_match(search, index, found, LMC_ST_BASE_FILE, LMC_BASE_PLAIN);
    }
}

static lmc_status match_renamed(search *search)
{
    const st_header *const base = &search->base->header;
    search->candidate_count = 0;
    for (size_t i = 0; i < base->tensor_count; i++) {
        if (st_file_owner(search->base, i) != i)
            continue;
        add_candidate(search, base, i, LMC_ST_BASE_FILE, LMC_BASE_PLAIN);
        if (base->tensors[i].dtype == LMC_DTYPE_F32)
            add_candidate(search, base, i, LMC_ST_BASE_FILE, LMC_BASE_BF16_OF_F32);
    }
    return match_values(search);
}

/* The tensor of the base that begins at this place and is no empty one; the number of its tensors if there is none. */
static size_t find_at_place(const lmc_st_file *base, uint64_t place)
{
    const size_t count = base->header.tensor_count;
    size_t begin = 0;
    size_t end = count;
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        if (st_file_origin(base, middle) < place ||
            (st_file_origin(base, middle) == place && st_file_tensor_nbytes(base, middle) == 0))
            begin = middle + 1;
        else
            end = middle;
    }
    return begin < count && st_file_origin(base, begin) == place ? begin : count;
}

/* Files of one kind whose tensors got other names, or have none: what has the place and the size. */
static void match_places(search *search)
{
    const st_source *const source = search->source;
    const lmc_st_file *const base = search->base;
    if (has_shapes(search) || source->container != base->container)
        return;
    list_wanted(search);
    for (size_t i = 0; i < search->wanted_count; i++) {
        const st_candidate *const one = &search->wanted[i];
        const size_t found = find_at_place(base, source->places[one->index]);
        if (found < base->header.tensor_count && st_file_tensor_nbytes(base, found) == one->nbytes)
            set_match(search, one->index, found, LMC_ST_BASE_FILE, LMC_BASE_PLAIN);
    }
}

lmc_status st_matches_find(st_matches *matches, const st_source *source, const st_aliases *aliases,
                           const lmc_st_file *base, const lmc_st_options *options, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = options->allocator;
    const size_t count = source->header->tensor_count;
    const size_t base_count = !base ? 0 : base->header.tensor_count;
    const size_t most = count > 2 * base_count ? count : 2 * base_count;
    search search = {.source = source,
                     .aliases = aliases,
                     .base = base,
                     .options = options,
                     .matches = matches,
                     .diag = diag};
    memset(matches, 0, sizeof *matches);
    matches->memory = memory;
    matches->list = st_allocate_zeroed(memory, count + 1, sizeof *matches->list);
    search.candidates = st_allocate(memory, (most + 1) * sizeof *search.candidates);
    search.wanted = st_allocate(memory, (count + 1) * sizeof *search.wanted);
    lmc_status status = LMC_OK;
    if (!matches->list || !search.candidates || !search.wanted)
        status = st_fail_nomem(diag);
    else
        status = match_own(&search);
    if (status == LMC_OK && base) {
        match_names(&search);
        status = match_renamed(&search);
    }
    if (status == LMC_OK && base)
        match_places(&search);
    st_release(memory, search.candidates);
    st_release(memory, search.wanted);
    return status;
}

void st_matches_free(st_matches *matches)
{
    if (matches->memory)
        st_release(matches->memory, matches->list);
    memset(matches, 0, sizeof *matches);
}
