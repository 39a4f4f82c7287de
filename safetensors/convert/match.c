/*
 * match.c - see convert/match.h. Tensors that may serve ("providers") and tensors without a match yet ("wanted")
 * are listed by the kind of content that they give or are; only where both have one kind are values read.
 */
#include "safetensors/convert/match.h"

#include "safetensors/base/content.h"

#include <stdlib.h> /* qsort */
#include <string.h>

/* Smaller tensors gain nothing: a link and an index take about as much. */
#define TENSOR_NBYTES_MIN 64

/* Values that are looked at: at so many places, spread over the tensor, so many bytes of the wanted one. */
#define PLACE_COUNT 8
#define PLACE_NBYTES 128
#define SAMPLE_NBYTES (PLACE_COUNT * PLACE_NBYTES)

/* Providers with equal values whose shapes are compared, for a file made to have many of them. */
#define TRIES_MAX 16

typedef struct candidate {
    uint64_t nbytes; /* of the wanted content */
    uint64_t sample; /* hash of values of it */
    uint32_t index;
    uint16_t dtype; /* of the wanted content */
    uint8_t place;  /* provider: lmc_st_base_place */
    uint8_t form;   /* provider: lmc_base_form */
    uint8_t is_needed, is_sampled;
} candidate;

typedef struct search {
    const st_source *source;
    const lmc_st_file *base;
    const lmc_st_options *options;
    st_matches *matches;
    candidate *providers;
    size_t provider_count;
    lmc_ctx *ctx;
    st_buffer room[3];
    lmc_st_diag *diag;
} search;

/* ---- values ---- */

/* Where values are read from. */
typedef struct values {
    search *search;
    const candidate *one;
    int is_provider;
    st_content content; /* of a tensor of the base that is an archive */
} values;

static lmc_status read_values(values *values, uint64_t offset, unsigned char *dst, size_t nbytes)
{
    search *const search = values->search;
    const candidate *const one = values->one;
    if (!values->is_provider || one->place == LMC_ST_BASE_SELF)
        return search->source->read(search->source, one->index, offset, dst, nbytes, search->diag);
    const st_content_room room = {search->options->allocator, search->ctx, &search->room[0], &search->room[1],
                                  &search->room[2]};
    const unsigned char *bytes = NULL;
    const lmc_status status =
        st_content_read(&values->content, &room, offset, offset + nbytes, &bytes, search->diag);
    if (status == LMC_OK)
        memcpy(dst, bytes, nbytes);
    return status;
}

/* nbytes bytes of wanted content at `offset`, or what it would be by the provider. */
static lmc_status read_as_wanted(values *values, uint64_t offset, unsigned char *dst, size_t nbytes)
{
    unsigned char wide[2 * PLACE_NBYTES];
    if (!values->is_provider || values->one->form == LMC_BASE_PLAIN)
        return read_values(values, offset, dst, nbytes);
    const lmc_status status = read_values(values, 2 * offset, wide, 2 * nbytes);
    if (status == LMC_OK)
        lmc_bf16_of_f32(wide, nbytes / 2, dst);
    return status;
}

static lmc_status take_places(values *values, uint64_t *sample)
{
    unsigned char bytes[SAMPLE_NBYTES] = {0};
    const uint64_t nbytes = values->one->nbytes;
    size_t filled = 0;
    for (uint64_t i = 0; i < PLACE_COUNT && filled < nbytes; i++) {
        /* the places of a small tensor stand one behind the other; offsets are multiples of every element */
        const uint64_t last = nbytes > PLACE_NBYTES ? nbytes - PLACE_NBYTES : 0;
        const uint64_t offset =
            nbytes <= SAMPLE_NBYTES ? i * PLACE_NBYTES : last / (PLACE_COUNT - 1) * i / 8 * 8;
        const uint64_t left = nbytes - offset;
        const size_t length = left < PLACE_NBYTES ? (size_t)left : PLACE_NBYTES;
        const lmc_status status = read_as_wanted(values, offset, bytes + filled, length);
        if (status != LMC_OK)
            return status;
        filled += length;
    }
    *sample = st_hash(bytes, filled);
    return LMC_OK;
}

static lmc_status take_sample(search *search, candidate *one, int is_provider)
{
    values values = {.search = search, .one = one, .is_provider = is_provider};
    lmc_status status = LMC_OK;
    if (st_is_cancelled(search->options->cancel))
        return st_fail_cancelled(search->diag);
    if (is_provider && one->place == LMC_ST_BASE_FILE) {
        status = st_content_open(&values.content, search->base, search->ctx, one->index,
                                 search->options->allocator, search->diag);
    }
    if (status == LMC_OK)
        status = take_places(&values, &one->sample);
    one->is_sampled = 1;
    st_content_free(&values.content);
    return status;
}

/* ---- providers ---- */

static int compare_kinds(const candidate *a, const candidate *b)
{
    if (a->nbytes != b->nbytes)
        return a->nbytes < b->nbytes ? -1 : 1;
    return (a->dtype > b->dtype) - (a->dtype < b->dtype);
}

static int compare_samples(const candidate *a, const candidate *b)
{
    const int order = compare_kinds(a, b);
    return order != 0 ? order : (a->sample > b->sample) - (a->sample < b->sample);
}

/* Of equal ones, the plain come first, then by their order in the file. */
static int compare_providers(const void *left, const void *right)
{
    const candidate *const a = left;
    const candidate *const b = right;
    const int order = compare_samples(a, b);
    if (order != 0)
        return order;
    return a->form != b->form ? (a->form < b->form ? -1 : 1) : (a->index > b->index) - (a->index < b->index);
}

static void add_provider(search *search, const st_header *header, size_t index, lmc_st_base_place place,
                         lmc_base_form form)
{
    const st_tensor *const tensor = &header->tensors[index];
    const candidate one = {.nbytes = (tensor->end - tensor->begin) / (form == LMC_BASE_PLAIN ? 1 : 2),
                           .index = (uint32_t)index,
                           .dtype = form == LMC_BASE_PLAIN ? tensor->dtype : (uint16_t)LMC_DTYPE_BF16,
                           .place = (uint8_t)place,
                           .form = (uint8_t)form};
    if (one.nbytes >= TENSOR_NBYTES_MIN)
        search->providers[search->provider_count++] = one;
}

static void sort_providers(search *search)
{
    qsort(search->providers, search->provider_count, sizeof *search->providers, compare_providers);
}

/* The first provider that is not before `one` in this order. */
static size_t lower_bound(const search *search, const candidate *one,
                          int (*compare)(const candidate *a, const candidate *b))
{
    size_t begin = 0;
    size_t end = search->provider_count;
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        if (compare(&search->providers[middle], one) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

/* ---- wanted ---- */

static int is_wanted(const search *search, const st_aliases *aliases, size_t index, candidate *one)
{
    const st_tensor *const tensor = &search->source->header->tensors[index];
    const candidate wanted = {
        .nbytes = tensor->end - tensor->begin, .index = (uint32_t)index, .dtype = tensor->dtype};
    *one = wanted;
    return !search->matches->list[index].is_there && wanted.nbytes >= TENSOR_NBYTES_MIN &&
           st_aliases_owner(aliases, index) == index;
}

/* Marks the providers of one kind that someone wants. */
static void mark_needed(search *search, const candidate *one)
{
    for (size_t i = lower_bound(search, one, compare_kinds);
         i < search->provider_count && compare_kinds(&search->providers[i], one) == 0 &&
         !search->providers[i].is_needed;
         i++)
        search->providers[i].is_needed = 1;
}

static void set_match(search *search, size_t index, size_t base, lmc_st_base_place place, lmc_base_form form)
{
    const st_match match = {1, {(uint32_t)index, (uint32_t)base, place}, form};
    search->matches->list[index] = match;
    search->matches->count++;
}

/* Takes the first provider with the wanted values; a rounded one must have the shape too. */
static void choose_provider(search *search, const candidate *one)
{
    const size_t first = lower_bound(search, one, compare_samples);
    for (size_t i = first; i < search->provider_count && i < first + TRIES_MAX; i++) {
        const candidate *const provider = &search->providers[i];
        const st_header *const header =
            provider->place == LMC_ST_BASE_SELF ? search->source->header : &search->base->header;
        if (compare_samples(provider, one) != 0)
            return;
        if (provider->form == LMC_BASE_PLAIN ||
            st_header_same_shape(search->source->header, one->index, header, provider->index)) {
            set_match(search, one->index, provider->index, (lmc_st_base_place)provider->place,
                      (lmc_base_form)provider->form);
            return;
        }
    }
}

/* Matches by values. */
static lmc_status match_values(search *search, const st_aliases *aliases)
{
    const size_t count = search->source->header->tensor_count;
    candidate one;
    sort_providers(search);
    for (size_t i = 0; i < count; i++)
        if (is_wanted(search, aliases, i, &one))
            mark_needed(search, &one);
    for (size_t i = 0; i < search->provider_count; i++) {
        const lmc_status status =
            search->providers[i].is_needed ? take_sample(search, &search->providers[i], 1) : LMC_OK;
        if (status != LMC_OK)
            return status;
    }
    sort_providers(search);
    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(search, aliases, i, &one))
            continue;
        const size_t at = lower_bound(search, &one, compare_kinds);
        if (at == search->provider_count || compare_kinds(&search->providers[at], &one) != 0)
            continue;
        const lmc_status status = take_sample(search, &one, 0);
        if (status != LMC_OK)
            return status;
        choose_provider(search, &one);
    }
    return LMC_OK;
}

/* ---- the three rounds ---- */

static lmc_status match_own(search *search, const st_aliases *aliases)
{
    const st_header *const header = search->source->header;
    for (size_t i = 0; i < header->tensor_count; i++)
        if (header->tensors[i].dtype == LMC_DTYPE_F32 && st_aliases_owner(aliases, i) == i)
            add_provider(search, header, i, LMC_ST_BASE_SELF, LMC_BASE_BF16_OF_F32);
    return match_values(search, aliases);
}

static void match_names(search *search, const st_aliases *aliases)
{
    const st_header *const header = search->source->header;
    const st_header *const base = &search->base->header;
    candidate one;
    for (size_t i = 0; i < header->tensor_count; i++) {
        size_t found = 0;
        if (is_wanted(search, aliases, i, &one) && st_header_find(base, st_header_name(header, i), &found) &&
            base->tensors[found].dtype == header->tensors[i].dtype &&
            st_header_same_shape(header, i, base, found))
            set_match(search, i, found, LMC_ST_BASE_FILE, LMC_BASE_PLAIN);
    }
}

static lmc_status match_renamed(search *search, const st_aliases *aliases)
{
    const st_header *const base = &search->base->header;
    search->provider_count = 0;
    for (size_t i = 0; i < base->tensor_count; i++) {
        if (st_file_owner(search->base, i) != i)
            continue;
        add_provider(search, base, i, LMC_ST_BASE_FILE, LMC_BASE_PLAIN);
        if (base->tensors[i].dtype == LMC_DTYPE_F32)
            add_provider(search, base, i, LMC_ST_BASE_FILE, LMC_BASE_BF16_OF_F32);
    }
    return match_values(search, aliases);
}

static lmc_status find(search *search, const st_aliases *aliases)
{
    lmc_status status = match_own(search, aliases);
    if (status == LMC_OK && search->base) {
        match_names(search, aliases);
        status = match_renamed(search, aliases);
    }
    return status;
}

lmc_status st_matches_find(st_matches *matches, const st_source *source, const st_aliases *aliases,
                           const lmc_st_file *base, const lmc_st_options *options, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = options->allocator;
    const size_t count = source->header->tensor_count;
    const size_t base_count = !base ? 0 : base->header.tensor_count;
    const size_t most = count > 2 * base_count ? count : 2 * base_count;
    search search = {.source = source, .base = base, .options = options, .matches = matches, .diag = diag};
    memset(matches, 0, sizeof *matches);
    matches->memory = memory;
    matches->list = st_allocate_zeroed(memory, count + 1, sizeof *matches->list);
    search.providers = st_allocate(memory, (most + 1) * sizeof *search.providers);
    lmc_status status = LMC_OK;
    if (!matches->list || !search.providers || lmc_ctx_create(memory, &search.ctx) != LMC_OK)
        status = st_fail_nomem(diag);
    else
        status = find(&search, aliases);
    for (size_t i = 0; i < 3; i++)
        st_buffer_free(memory, &search.room[i]);
    lmc_ctx_free(search.ctx);
    st_release(memory, search.providers);
    return status;
}

void st_matches_free(st_matches *matches)
{
    if (matches->memory)
        st_release(matches->memory, matches->list);
    memset(matches, 0, sizeof *matches);
}
