/*
 * choose.c - store/choose.h: relatives of each tensor are found in the index, the models that save most are selected,
 * and the conversion gets their files.
 */
#include "safetensors/store/choose.h"

#include "safetensors/base/content.h"
#include "safetensors/convert/match.h"
#include "safetensors/store/refine.h"

#include <string.h>

/* Models that a base may need one below the other: an archive cannot begin a chain of more than LMC_ST_CHAIN_MAX
 * files. */
#define REACH_MAX (LMC_ST_CHAIN_MAX - 2)

/* Content that is compared at once. */
#define PIECE_NBYTES ((size_t)1 << 20)

struct st_chooser {
    st_store_session *store;
    const st_options *given;
    const char *name;
    const char *path; /* that is converted */
    st_catalog catalog;
    unsigned char *is_reachable; /* per model: it may serve for equal tensors */
    unsigned char *is_allowed;   /* per model: it may be a base */
    unsigned *rank;              /* per model */
    st_buffer sketched;          /* st_sketched_file */
    size_t sketched_count;
    int has_deep_models; /* there are models that may serve for equal tensors alone */
    int has_chosen;
};

/* A source whose bases are chosen. */
typedef struct choice {
    st_chooser *chooser;
    const st_source *source;
    st_relatives relatives;
    lmc_st_diag *diag;
} choice;

/* ---- equal tensors ---- */

/* A file of the store that is open. */
typedef struct opened {
    uint32_t id;
    lmc_st_file *file;
} opened;

static lmc_status open_file(const choice *choice, uint32_t id, lmc_st_file **file)
{
    const st_store_session *const store = choice->chooser->store;
    const st_catalog_file *const found = st_catalog_find(&choice->chooser->catalog, id);
    char *const path = st_store_path(store, found->path);
    const st_open how = {.path = path, .fd = -1, .allocator = choice->chooser->given->allocator};
    const lmc_status status = path ? st_file_open(&how, file, choice->diag) : st_fail_nomem(choice->diag);
    st_release(store->options->allocator, path);
    return status;
}

/* What cannot be read is no base; every other failure ends the choice. */
static int is_unreadable(lmc_status status)
{
    return status != LMC_OK && status != LMC_ERR_NOMEM && status != LMC_ERR_CANCELLED;
}

/* *is_equal: the tensor of the source has the content of the relative. */
static lmc_status compare_content(const choice *choice, const st_relative *relative, const lmc_st_file *file,
                                  const st_content_room *room, unsigned char *piece, int *is_equal)
{
    const st_source *const source = choice->source;
    const size_t index = choice->relatives.wanted[relative->wanted];
    const uint64_t nbytes = st_source_tensor_nbytes(source, index);
    st_content content;
    *is_equal = 0;
    lmc_status status =
        st_content_open(&content, file, room->ctx, relative->tensor, room->memory, choice->diag);
    int is_so = status == LMC_OK && content.nbytes == nbytes;
    for (uint64_t at = 0; at < nbytes && status == LMC_OK && is_so; at += PIECE_NBYTES) {
        const size_t part = nbytes - at < PIECE_NBYTES ? (size_t)(nbytes - at) : PIECE_NBYTES;
        const unsigned char *bytes = NULL;
        if (st_is_cancelled(choice->chooser->given->cancel))
            status = st_fail_cancelled(choice->diag);
        if (status == LMC_OK)
            status = source->read(source, index, at, piece, part, choice->diag);
        if (status == LMC_OK)
            status = st_content_read(&content, room, at, at + part, &bytes, choice->diag);
        is_so = status == LMC_OK && memcmp(bytes, piece, part) == 0;
    }
    st_content_free(&content);
    *is_equal = is_so && status == LMC_OK;
    return status;
}

/* A model that is too deep to be a base can have equal tensors: those whose content is found to be equal count as such;
 * the others are left out. has_equal: zeros, one a tensor. */
static lmc_status keep_equal(choice *choice, unsigned char *has_equal, unsigned char *piece, lmc_ctx *ctx)
{
    st_chooser *const chooser = choice->chooser;
    const lmc_allocator *const memory = chooser->given->allocator;
    st_relatives *const relatives = &choice->relatives;
    st_buffer buffers[3] = {{0}};
    opened opened = {0};
    size_t kept = 0;
    lmc_status status = LMC_OK;
    const st_content_room room = {memory, ctx, &buffers[0], &buffers[1], &buffers[2]};
    for (size_t i = 0; i < relatives->count; i++)
        has_equal[relatives->list[i].wanted] |=
            relatives->list[i].is_equal && chooser->is_allowed[relatives->list[i].model];
    for (size_t i = 0; i < relatives->count && status == LMC_OK; i++) {
        const st_relative relative = relatives->list[i];
        int is_kept = chooser->is_allowed[relative.model];
        /* one of a model that is too deep is worth a comparison if no other one of the tensor seems to be equal */
        if (!is_kept && relative.is_equal && !has_equal[relative.wanted] && relative.form == LMC_BASE_PLAIN &&
            !relative.has_other_length) {
            if (opened.id != relative.file) {
                lmc_st_close(opened.file);
                opened = (struct opened){.id = relative.file};
                status = open_file(choice, relative.file, &opened.file);
            }
            if (status == LMC_OK && opened.file) /* it was not opened for an earlier tensor either */
                status = compare_content(choice, &relative, opened.file, &room, piece, &is_kept);
            if (is_unreadable(status))
                status = LMC_OK;
            has_equal[relative.wanted] |= is_kept;
        }
        if (is_kept)
            relatives->list[kept++] = relative;
    }
    relatives->count = kept;
    lmc_st_close(opened.file);
    for (size_t i = 0; i < 3; i++)
        st_buffer_free(memory, &buffers[i]);
    return status;
}

/* ---- the choice ---- */

/* Gives the conversion the files of what was chosen, and each tensor its match. */
static lmc_status give_matches(const choice *choice, const size_t *chosen, st_base_set *bases,
                               st_matches *matches)
{
    const lmc_allocator *const memory = choice->chooser->given->allocator;
    uint32_t *const ids = st_allocate_array(memory, LMC_ST_ARCHIVE_BASES_MAX, sizeof *ids);
    size_t id_count = 0;
    lmc_status status = ids ? LMC_OK : st_fail_nomem(choice->diag);
    for (size_t i = 0; i < choice->relatives.wanted_count && status == LMC_OK; i++) {
        if (chosen[i] == SIZE_MAX)
            continue;
        const st_relative *const relative = &choice->relatives.list[chosen[i]];
        size_t number = 0;
        while (number < id_count && ids[number] != relative->file)
            number++;
        if (number == id_count) {
            lmc_st_file *file = NULL;
            const st_catalog_file *const found = st_catalog_find(&choice->chooser->catalog, relative->file);
            const size_t path_nbytes = strlen(found->path) - strlen(LMC_ARCHIVE_SUFFIX);
            if (id_count == LMC_ST_ARCHIVE_BASES_MAX || !st_base_path_is_valid(found->path, path_nbytes))
                continue; /* it is stored without a base */
            status = open_file(choice, relative->file, &file);
            if (is_unreadable(status)) {
                status = LMC_OK;
                continue; /* likewise */
            }
            if (status == LMC_OK)
                status = st_base_set_add(bases, file, found->path, path_nbytes, memory, choice->diag);
            ids[id_count++] = relative->file;
        }
        if (status == LMC_OK)
            st_matches_set(matches, &(st_match){.is_there = 1,
                                                .link = {choice->relatives.wanted[i], relative->tensor,
                                                         LMC_ST_BASE_FILE, (uint32_t)number},
                                                .form = relative->form});
    }
    st_release(memory, ids);
    return status;
}

static lmc_status choose(choice *choice, st_base_set *bases, st_matches *matches)
{
    st_chooser *const chooser = choice->chooser;
    const lmc_allocator *const memory = chooser->given->allocator;
    const st_relatives *const relatives = &choice->relatives;
    lmc_ctx *ctx = NULL;
    unsigned char *const piece = st_allocate(memory, PIECE_NBYTES);
    unsigned char *const has_equal = st_allocate_zeroed(memory, relatives->wanted_count + 1, 1);
    size_t *const chosen = st_allocate_array(memory, relatives->wanted_count + 1, sizeof *chosen);
    lmc_status status = piece && has_equal && chosen ? lmc_ctx_create(memory, &ctx) : LMC_ERR_NOMEM;
    if (status != LMC_OK)
        status = st_fail_nomem(choice->diag);
    if (status == LMC_OK)
        status = keep_equal(choice, has_equal, piece, ctx);
    const st_selection selection = {.memory = memory,
                                    .alone_nbytes = relatives->alone_nbytes,
                                    .wanted_count = relatives->wanted_count,
                                    .relatives = relatives->list,
                                    .relative_count = relatives->count,
                                    .model_count = chooser->store->models.count,
                                    .is_allowed = chooser->is_reachable,
                                    .rank = chooser->rank};
    if (status == LMC_OK)
        status = st_relatives_refine(&choice->relatives, &selection, choice->source, ctx);
    if (status == LMC_OK && st_selection_choose(&selection, chosen) != LMC_OK)
        status = st_fail_nomem(choice->diag);
    if (status == LMC_OK)
        status = give_matches(choice, chosen, bases, matches);
    chooser->has_chosen |= bases->count > 0;
    lmc_ctx_free(ctx);
    st_release(memory, piece);
    st_release(memory, has_equal);
    st_release(memory, chosen);
    return status;
}

/* Keeps the sketches of a source for the index. They are freed with the chooser. */
static lmc_status keep_sketches(st_chooser *chooser, const st_source *source, st_index_tensor *tensors,
                                lmc_st_diag *diag)
{
    const lmc_allocator *const memory = chooser->given->allocator;
    const char *const path = ((const lmc_st_file *)source->owner)->path;
    const st_sketched_file file = {st_duplicate(memory, st_catalog_inner_path(chooser->path, path)), tensors,
                                   source->header->tensor_count};
    unsigned char *const place =
        file.path
            ? st_buffer_extend(memory, &chooser->sketched, chooser->sketched_count * sizeof file, sizeof file)
            : NULL;
    if (!place) {
        st_release(memory, file.path);
        st_release(memory, tensors);
        return st_fail_nomem(diag);
    }
    memcpy(place, &file, sizeof file);
    chooser->sketched_count++;
    return LMC_OK;
}

/* The options' choose_bases. */
static lmc_status choose_bases(void *user, const st_source *source, const st_aliases *aliases,
                               st_base_set *bases, st_matches *matches, lmc_st_diag *diag)
{
    st_chooser *const chooser = user;
    const lmc_allocator *const memory = chooser->given->allocator;
    const size_t count = source->header->tensor_count;
    choice choice = {.chooser = chooser, .source = source, .diag = diag};
    st_index_tensor *tensors = NULL;
    unsigned char *const is_wanted = st_allocate_zeroed(memory, count + 1, 1);
    choice.relatives = (st_relatives){.catalog = &chooser->catalog,
                                      .is_allowed = chooser->is_allowed,
                                      .is_reachable = chooser->has_deep_models ? chooser->is_reachable : NULL,
                                      .diag = diag};
    lmc_status status = is_wanted ? st_catalog_sketch(source, memory, &tensors, diag) : st_fail_nomem(diag);
    if (status == LMC_OK)
        status = keep_sketches(chooser, source, tensors, diag);
    else
        st_release(memory, tensors);
    choice.relatives.tensors = tensors;
    for (size_t i = 0; i < count && status == LMC_OK; i++)
        is_wanted[i] = !matches->list[i].is_there && st_aliases_owner(aliases, i) == i;
    if (status == LMC_OK)
        status = st_relatives_find(&choice.relatives, count, is_wanted);
    if (status == LMC_OK && choice.relatives.count > 0)
        status = choose(&choice, bases, matches);
    st_relatives_free(&choice.relatives);
    st_release(memory, is_wanted);
    return status;
}

/* ---- beginning and end ---- */

/* Which models can serve. */
static lmc_status set_models(st_chooser *chooser, const st_choice_limits *limits)
{
    const st_models *const models = &chooser->store->models;
    const lmc_allocator *const memory = chooser->given->allocator;
    const size_t count = models->count;
    const st_model *const own = st_models_find(models, chooser->name);
    unsigned char *const needs = st_allocate_zeroed(memory, count + 1, 1);
    chooser->is_reachable = st_allocate_zeroed(memory, count + 1, 1);
    chooser->is_allowed = st_allocate_zeroed(memory, count + 1, 1);
    chooser->rank = st_allocate_zeroed(memory, count + 1, sizeof *chooser->rank);
    const int has_memory = needs && chooser->is_reachable && chooser->is_allowed && chooser->rank;
    if (has_memory && own)
        st_models_mark_dependents(models, (size_t)(own - models->list), needs);
    for (size_t i = 0; i < count && has_memory; i++) {
        const st_model *const model = &models->list[i];
        const int is_kept = !needs[i] && !(limits->goes && limits->goes[i]);
        chooser->is_reachable[i] = model->depth != ST_DEPTH_UNKNOWN && model->reach < REACH_MAX &&
                                   (limits->allowed ? limits->has_equals[i] : is_kept);
        chooser->is_allowed[i] =
            chooser->is_reachable[i] && (limits->allowed ? limits->allowed[i] : model->depth < limits->depth);
        chooser->has_deep_models |= chooser->is_reachable[i] && !chooser->is_allowed[i];
        chooser->rank[i] = (unsigned)(model->depth % 64 * 1024 + model->base_count % 1024);
    }
    st_release(memory, needs);
    return has_memory ? LMC_OK : st_fail_nomem(chooser->store->diag);
}

lmc_status st_chooser_begin(st_chooser **chooser, st_store_session *store, const char *name, const char *path,
                            const st_choice_limits *limits, st_options *options)
{
    st_chooser *const made = st_allocate_zeroed(store->options->allocator, 1, sizeof *made);
    *chooser = made;
    if (!made)
        return st_fail_nomem(store->diag);
    *made = (st_chooser){.store = store, .given = store->options, .name = name, .path = path};
    LMC_TRY(set_models(made, limits));
    LMC_TRY(st_catalog_open(&made->catalog, store));
    options->choose_bases = choose_bases;
    options->choose_user = made;
    return LMC_OK;
}

lmc_status st_chooser_forget(st_chooser *chooser)
{
    return st_catalog_forget(&chooser->catalog, chooser->name);
}

int st_chooser_has_chosen(const st_chooser *chooser)
{
    return chooser && chooser->has_chosen;
}

void st_chooser_abandon(st_chooser *chooser)
{
    if (!chooser)
        return;
    const lmc_allocator *const memory = chooser->given->allocator;
    st_sketched_file *const files = (st_sketched_file *)(void *)chooser->sketched.bytes;
    for (size_t i = 0; i < chooser->sketched_count; i++) {
        st_release(memory, files[i].path);
        st_release(memory, files[i].tensors);
    }
    st_buffer_free(memory, &chooser->sketched);
    st_catalog_close(&chooser->catalog);
    st_release(memory, chooser->is_reachable);
    st_release(memory, chooser->is_allowed);
    st_release(memory, chooser->rank);
    st_release(memory, chooser);
}

lmc_status st_chooser_end(st_chooser *chooser, lmc_status status)
{
    if (chooser && status == LMC_OK) {
        const lmc_st_diag diag = *chooser->store->diag;
        const st_sketched_file *const files = (const st_sketched_file *)(const void *)chooser->sketched.bytes;
        (void)!st_catalog_note(&chooser->catalog, chooser->name, files, chooser->sketched_count);
        *chooser->store->diag = diag;
    }
    st_chooser_abandon(chooser);
    return status;
}
