/*
 * match.c - chooses the base of each tensor. Base candidates, and tensors without a match yet, are listed by the kind
 * of content that they give or are. Values are read only where both have one kind.
 *
 * A rule gives each tensor a number, its fingerprint, and pairs those of one kind whose numbers are equal. The values
 * of a sample make one number, a name without some of its parts another, the order in the file the third. Pairs of
 * equal values are matches. Pairs of the other rules are proposals: an excerpt of the values chooses among them.
 */
#include "safetensors/convert/match.h"

#include "safetensors/convert/fingerprint.h"
#include "safetensors/header/name_key.h"

#include <string.h>

/* Values that are looked at: at so many places, spread over the tensor, so many bytes. */
#define PLACE_COUNT 8
#define PLACE_NBYTES 128

/* Base candidates with equal values whose shapes are compared, for a file made to have many of them. */
#define TRIES_MAX 16

/* Tensors with fewer bytes have no excerpt: it would take more than a sixteenth of their memory. */
#define EXCERPTED_NBYTES_MIN (16 * ST_EXCERPT_NBYTES)

/* Base candidates whose excerpts are compared with that of a tensor for its place in the order of the file: one for so
 * many bytes of the tensor, so that the comparisons take no time beside its encoding. */
#define ORDER_TRY_NBYTES ((uint64_t)128 << 10)
#define ORDER_TRIES_MAX 64

/* What has been proposed for a tensor. */
typedef struct proposal {
    int is_there;
    uint32_t base;
    unsigned distance; /* of the excerpts; 0 without them */
} proposal;

typedef struct search {
    const st_source *source;
    const st_aliases *aliases;
    const lmc_st_file *base;
    const st_options *options;
    st_matches *matches;
    st_candidate *candidates; /* for the base of one of the wanted */
    size_t candidate_count;
    st_candidate *wanted;
    size_t wanted_count;
    proposal *proposals;     /* one for each of the wanted, once values have been compared */
    unsigned char *excerpts; /* of candidates, then of the wanted */
    unsigned char *is_taken; /* per tensor of the base: it has a match */
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
    const lmc_rounding *const rounding = lmc_base_rounding(form);
    const st_candidate one = {.nbytes = (tensor->end - tensor->begin) / st_base_scale(form),
                              .index = (uint32_t)index,
                              .dtype = rounding ? (uint16_t)rounding->dtype : tensor->dtype,
                              .place = (uint8_t)place,
                              .form = (uint8_t)form};
    if (one.nbytes >= ST_CANDIDATE_NBYTES_MIN)
        search->candidates[search->candidate_count++] = one;
}

/* Adds a tensor that others may be roundings of. */
static void add_rounded(search *search, const st_header *header, size_t index, lmc_st_base_place place)
{
    for (int form = LMC_BASE_PLAIN + 1; form < LMC_BASE_FORM_COUNT; form++)
        if (header->tensors[index].dtype == lmc_base_rounding((lmc_base_form)form)->base_dtype)
            add_candidate(search, header, index, place, (lmc_base_form)form);
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

/* Hands out room for the excerpts of those that other rules may propose, or for which they may; NULL: only counts
 * them. */
static size_t place_excerpts(st_candidate *list, size_t count, unsigned char *room)
{
    size_t excerpt_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (list[i].is_needed && list[i].form == LMC_BASE_PLAIN && list[i].nbytes >= EXCERPTED_NBYTES_MIN) {
            list[i].excerpt = !room ? NULL : room + ST_EXCERPT_NBYTES * excerpt_count;
            excerpt_count++;
        }
    }
    return excerpt_count;
}

/* ---- matches ---- */

static void set_match(search *search, size_t index, size_t base, lmc_st_base_place place, lmc_base_form form)
{
    const st_match match = {1, {(uint32_t)index, (uint32_t)base, place, 0}, form};
    st_matches_set(search->matches, &match);
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

/* Only tensors and base candidates of one kind need fingerprints. has_excerpts: excerpts are taken too. */
static lmc_status match_values(search *search, int has_excerpts)
{
    list_wanted(search);
    st_candidates_sort(search->candidates, search->candidate_count);
    for (size_t i = 0; i < search->wanted_count; i++) {
        st_candidate *const one = &search->wanted[i];
        for (size_t j = lower_bound(search, one, st_candidate_compare_kinds);
             j < search->candidate_count && st_candidate_compare_kinds(&search->candidates[j], one) == 0;
             j++) {
            one->is_needed = 1;
            if (search->candidates[j].is_needed) /* then all of its kind are */
                break;
            search->candidates[j].is_needed = 1;
        }
    }
    if (has_excerpts) {
        const size_t base_count = place_excerpts(search->candidates, search->candidate_count, NULL);
        const size_t own_count = place_excerpts(search->wanted, search->wanted_count, NULL);
        search->excerpts =
            st_allocate(search->options->allocator, (base_count + own_count + 1) * ST_EXCERPT_NBYTES);
        if (!search->excerpts)
            return st_fail_nomem(search->diag);
        place_excerpts(search->candidates, search->candidate_count, search->excerpts);
        place_excerpts(search->wanted, search->wanted_count,
                       search->excerpts + base_count * ST_EXCERPT_NBYTES);
    }
    LMC_TRY(take_fingerprints(search, search->candidates, search->candidate_count));
    LMC_TRY(take_fingerprints(search, search->wanted, search->wanted_count));
    st_candidates_sort(search->candidates, search->candidate_count);
    for (size_t i = 0; i < search->wanted_count; i++)
        if (search->wanted[i].is_needed)
            choose_base(search, &search->wanted[i]);
    return LMC_OK;
}

/* ---- proposals ---- */

/* Only a safetensors file always tells shapes: those of other files need not agree. */
static int has_shapes(const search *search)
{
    return search->source->container == LMC_ST_CONTAINER_SAFETENSORS &&
           search->base->container == LMC_ST_CONTAINER_SAFETENSORS;
}

/* Bits that it takes to say how the elements of two excerpts differ. */
static unsigned excerpt_distance(const unsigned char *a, const unsigned char *b, size_t nbytes,
                                 unsigned dtype)
{
    const unsigned element_nbits = dtype == LMC_DTYPE_C64 ? 32 : lmc_dtype_nbits((lmc_dtype)dtype);
    const unsigned element_nbytes = element_nbits < 8 ? 1 : element_nbits / 8;
    const uint64_t mask = UINT64_MAX >> (64 - 8 * element_nbytes);
    unsigned nbits = 0;
    for (size_t i = 0; i < nbytes; i += 8) {
        for (unsigned at = 0; at < 64; at += 8 * element_nbytes) {
            const uint64_t left = lmc_load64(a + i) >> at & mask;
            const uint64_t right = lmc_load64(b + i) >> at & mask;
            nbits += left == right
                         ? 0
                         : 64 - (unsigned)__builtin_clzll(left > right ? left - right : right - left);
        }
    }
    return nbits;
}

/* Keeps the candidate if it is nearer than what was proposed before. Values that are not nearer to those at their own
 * place than to those at another one have nothing to do with them. */
static void propose(search *search, size_t number, const st_candidate *candidate)
{
    const st_candidate *const one = &search->wanted[number];
    proposal *const proposal = &search->proposals[number];
    unsigned distance = 0;
    if (proposal->is_there && proposal->base == candidate->index)
        return;
    if (has_shapes(search) &&
        !st_header_same_shape(search->source->header, one->index, &search->base->header, candidate->index))
        return;
    if (one->excerpt && candidate->excerpt) {
        const size_t rest = ST_EXCERPT_NBYTES - ST_EXCERPT_PLACE_NBYTES;
        distance = excerpt_distance(one->excerpt, candidate->excerpt, ST_EXCERPT_NBYTES, one->dtype);
        const unsigned elsewhere =
            excerpt_distance(one->excerpt, candidate->excerpt + ST_EXCERPT_PLACE_NBYTES, rest, one->dtype) +
            excerpt_distance(one->excerpt + rest, candidate->excerpt, ST_EXCERPT_PLACE_NBYTES, one->dtype);
        if (distance >= elsewhere - elsewhere / 16)
            return;
    }
    if (!proposal->is_there || distance < proposal->distance) {
        proposal->is_there = 1;
        proposal->base = candidate->index;
        proposal->distance = distance;
    }
}

/* Proposes what has the tensor's name after so many bytes of both; is_bare: without the parts of wrappers. A name that
 * several candidates have then tells nothing. */
static void propose_named(search *search, size_t own_nbytes, size_t base_nbytes, int is_bare)
{
    for (size_t i = 0; i < search->candidate_count; i++) {
        st_candidate *const one = &search->candidates[i];
        one->fingerprint =
            st_name_key(st_header_name(&search->base->header, one->index), base_nbytes, is_bare);
    }
    st_candidates_sort(search->candidates, search->candidate_count);
    for (size_t i = 0; i < search->wanted_count; i++) {
        st_candidate one = search->wanted[i];
        one.fingerprint = st_name_key(st_header_name(search->source->header, one.index), own_nbytes, is_bare);
        const size_t found = lower_bound(search, &one, st_candidate_compare);
        const st_candidate *const candidate = &search->candidates[found];
        if (found < search->candidate_count && st_candidate_compare(candidate, &one) == 0 &&
            (found + 1 == search->candidate_count || st_candidate_compare(candidate + 1, &one) != 0))
            propose(search, i, candidate);
    }
}

/* Proposes the candidate that stands, among those of its kind, where the tensor does among those of its own, then the
 * ones around it. Only an excerpt can tell whether the order is the same. */
static void propose_in_order(search *search)
{
    size_t place = 0;
    for (size_t i = 0; i < search->candidate_count; i++)
        search->candidates[i].fingerprint = search->candidates[i].index;
    st_candidates_sort(search->candidates, search->candidate_count);
    for (size_t i = 0; i < search->wanted_count; i++) {
        st_candidate one = search->wanted[i];
        place = i > 0 && st_candidate_compare_kinds(&one, &search->wanted[i - 1]) == 0 ? place + 1 : 0;
        one.fingerprint = UINT64_MAX;
        const size_t begin = lower_bound(search, &one, st_candidate_compare_kinds);
        const size_t count = lower_bound(search, &one, st_candidate_compare) - begin;
        const uint64_t most = one.nbytes / ORDER_TRY_NBYTES;
        const size_t tries = most > ORDER_TRIES_MAX ? ORDER_TRIES_MAX : most > 1 ? (size_t)most : 1;
        if (!one.excerpt)
            continue;
        for (size_t tried = 0; tried < tries; tried++) {
            const size_t away = (tried + 1) / 2;
            const size_t at =
                tried % 2 == 1 ? place + away : place - away; /* may wrap: then it is no place */
            if (at < count)
                propose(search, i, &search->candidates[begin + at]);
        }
    }
}

/* ---- the rounds ---- */

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

/* What is still without a match, by its name and its place. Left are the candidates that no match has yet, and the
 * tensors for which there are any, by kind, then in the order of the file. */
static void match_proposals(search *search)
{
    size_t kept = 0;
    for (size_t i = 0; i < search->source->header->tensor_count; i++) {
        const st_match *const match = &search->matches->list[i];
        if (match->is_there && match->link.place == LMC_ST_BASE_FILE)
            search->is_taken[match->link.base] = 1;
    }
    for (size_t i = 0; i < search->candidate_count; i++) {
        const st_candidate *const one = &search->candidates[i];
        if (one->is_needed && one->form == LMC_BASE_PLAIN && !search->is_taken[one->index])
            search->candidates[kept++] = *one;
    }
    search->candidate_count = kept;
    kept = 0;
    for (size_t i = 0; i < search->wanted_count; i++) {
        const st_candidate one = search->wanted[i];
        if (!one.is_needed || search->matches->list[one.index].is_there)
            continue;
        search->wanted[kept] = one;
        search->wanted[kept++].fingerprint = one.index;
    }
    search->wanted_count = kept;
    st_candidates_sort(search->wanted, kept);
    if (kept == 0)
        return;
    const size_t own_nbytes = st_names_shared_nbytes(search->source->header);
    const size_t base_nbytes = st_names_shared_nbytes(&search->base->header);
    propose_named(search, own_nbytes, base_nbytes, 0);
    propose_named(search, 0, 0, 1);
    propose_named(search, own_nbytes, base_nbytes, 1);
    propose_in_order(search);
    for (size_t i = 0; i < search->wanted_count; i++)
        if (search->proposals[i].is_there)
            set_match(search, search->wanted[i].index, search->proposals[i].base, LMC_ST_BASE_FILE,
                      LMC_BASE_PLAIN);
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
        const uint64_t place = source->places[one->index];
        size_t begin = 0; /* the tensor there that is no empty one */
        size_t end = base->header.tensor_count;
        while (begin < end) {
            const size_t middle = begin + (end - begin) / 2;
            if (st_file_origin(base, middle) < place ||
                (st_file_origin(base, middle) == place && st_file_tensor_nbytes(base, middle) == 0))
                begin = middle + 1;
            else
                end = middle;
        }
        if (begin < base->header.tensor_count && st_file_origin(base, begin) == place &&
            st_file_tensor_nbytes(base, begin) == one->nbytes)
            set_match(search, one->index, begin, LMC_ST_BASE_FILE, LMC_BASE_PLAIN);
    }
}

lmc_status st_matches_find(st_matches *matches, const st_source *source, const st_aliases *aliases,
                           const lmc_st_file *base, const st_options *options, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = options->allocator;
    const size_t count = source->header->tensor_count;
    const size_t base_count = !base ? 0 : base->header.tensor_count;
    const size_t own_most = count * (LMC_BASE_FORM_COUNT - 1);
    const size_t base_most = base_count * LMC_BASE_FORM_COUNT;
    const size_t most = own_most > base_most ? own_most : base_most;
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
    search.proposals = st_allocate_zeroed(memory, base ? count + 1 : 1, sizeof *search.proposals);
    search.is_taken = st_allocate_zeroed(memory, base_count + 1, sizeof *search.is_taken);
    lmc_status status = LMC_OK;
    if (!matches->list || !search.candidates || !search.wanted || !search.proposals || !search.is_taken)
        status = st_fail_nomem(diag);
    if (status == LMC_OK && !options->opened_base) { /* tensors that are others of the source, rounded */
        for (size_t i = 0; i < count; i++)
            if (st_aliases_owner(aliases, i) == i)
                add_rounded(&search, source->header, i, LMC_ST_BASE_SELF);
        status = match_values(&search, 0);
    }
    if (status == LMC_OK && base)
        match_names(&search);
    if (status == LMC_OK && base && !options->opened_base) {
        search.candidate_count = 0;
        for (size_t i = 0; i < base_count; i++) {
            if (st_file_owner(base, i) != i)
                continue;
            add_candidate(&search, &base->header, i, LMC_ST_BASE_FILE, LMC_BASE_PLAIN);
            add_rounded(&search, &base->header, i, LMC_ST_BASE_FILE);
        }
        status = match_values(&search, 1);
    }
    if (status == LMC_OK && base && !options->opened_base) {
        match_proposals(&search);
        match_places(&search);
    }
    st_release(memory, search.candidates);
    st_release(memory, search.wanted);
    st_release(memory, search.proposals);
    st_release(memory, search.is_taken);
    st_release(memory, search.excerpts);
    return status;
}

void st_matches_set(st_matches *matches, const st_match *match)
{
    matches->list[match->link.tensor] = *match;
    matches->count++;
}

lmc_status st_base_set_add(st_base_set *set, lmc_st_file *file, const char *path, size_t path_nbytes,
                           const lmc_allocator *memory, lmc_st_diag *diag)
{
    int is_sound = st_base_path_is_valid(path, path_nbytes) && set->count < LMC_ST_ARCHIVE_BASES_MAX;
    for (size_t i = 0; i < set->count && is_sound; i++)
        is_sound =
            strlen(set->list[i].path) != path_nbytes || memcmp(set->list[i].path, path, path_nbytes) != 0;
    if (!is_sound) {
        lmc_st_close(file);
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "the path of a base cannot be recorded, or stands for another base already");
    }
    st_base_file *const larger = st_allocate_array(memory, set->count + 1, sizeof *larger);
    char *const copy = st_allocate(memory, path_nbytes + 1);
    set->memory = memory;
    if (!larger || !copy) {
        st_release(memory, larger);
        st_release(memory, copy);
        lmc_st_close(file);
        return st_fail_nomem(diag);
    }
    memcpy(copy, path, path_nbytes);
    copy[path_nbytes] = '\0';
    if (set->count > 0)
        memcpy(larger, set->list, set->count * sizeof *larger);
    st_release(memory, set->list);
    larger[set->count] = (st_base_file){file, copy};
    set->list = larger;
    set->count++;
    return LMC_OK;
}

void st_base_set_free(st_base_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        lmc_st_close(set->list[i].file);
        st_release(set->memory, set->list[i].path);
    }
    if (set->memory)
        st_release(set->memory, set->list);
    *set = (st_base_set){0};
}

void st_matches_free(st_matches *matches)
{
    if (matches->memory)
        st_release(matches->memory, matches->list);
    memset(matches, 0, sizeof *matches);
}
