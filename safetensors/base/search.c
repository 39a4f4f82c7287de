/*
 * search.c - base/search.h: the places where a base may be, and the choice among candidates: a few of their tensors, or
 * all, are held against what the archive's frames want.
 */
#include "safetensors/base/search.h"

#include "common/text.h"
#include "safetensors/base/content.h"
#include "safetensors/base/folders.h"
#include "safetensors/files/directories.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Tensors of a candidate that are looked at, beside the one of the largest frame. */
#define LINKS_MAX 8

/* ---- a look at a candidate ---- */

typedef struct probe {
    const lmc_st_file *file, *base;
    size_t number; /* of the base */
    int is_trial, is_thorough;
    st_content_room room;
    st_buffer buffers[3], block;
    unsigned fit_count, differs_count, unknown_count; /* tensors */
} probe;

/* A missing base of a file that is looked at says nothing of the file itself: it only could not be read. */
static lmc_status unread(lmc_status status)
{
    return status == LMC_ERR_BASE ? LMC_ERR_IO : status;
}

/* Looks at one tensor: by the hash of all of it if the base has one for blocks of the same size, else by its first and
 * last block, or by all blocks. BASE: it is not what the frame was coded against. */
static lmc_status look_at_frame(probe *probe, const st_link *link, const st_frame *frame)
{
    lmc_st_diag unused = {0};
    const lmc_allocator *const memory = probe->room.memory;
    const lmc_info *const info = &frame->info;
    const lmc_st_file *const base = probe->base;
    st_content content;
    if (link->base >= base->header.tensor_count)
        return LMC_ERR_BASE;
    const int has_length = st_file_tensor_nbytes(base, link->base) == info->base_nbytes;
    if (!has_length && !probe->file->bases.has_lengths)
        return LMC_ERR_BASE;
    if (base->is_archive && has_length) {
        st_frame having;
        LMC_TRY(
            st_frame_open(&having, base, NULL, probe->room.ctx, st_file_owner(base, link->base), &unused));
        /* a frame's content hash is over its blocks' hashes: those of other blocks cannot be compared */
        const int is_known = having.info.block_nbytes == info->base_block_nbytes ||
                             (having.info.block_count == 1 && info->block_count == 1);
        const int is_same = lmc_frame_content_hash(having.coded) == lmc_frame_base_hash(frame->coded);
        st_frame_close(&having);
        if (is_known)
            return is_same ? LMC_OK : LMC_ERR_BASE;
    }
    if (probe->is_trial && st_bases_find(&base->bases, st_file_owner(base, link->base)))
        return LMC_ERR_IO; /* it needs a further file */
    lmc_status status = unread(st_content_open(&content, base, probe->room.ctx, link->base, memory, &unused));
    content.nbytes = info->base_nbytes; /* what a shorter base lacks is zeros */
    const uint64_t step = probe->is_thorough || info->block_count < 2 ? 1 : info->block_count - 1;
    for (uint64_t block = 0; block < info->block_count && status == LMC_OK; block += step) {
        const uint64_t left = info->content_nbytes - block * info->block_nbytes;
        st_blocks one = {.first = block, .count = 1};
        one.dst = st_buffer_grow(memory, &probe->block, info->block_nbytes);
        one.dst_nbytes = left < info->block_nbytes ? (size_t)left : info->block_nbytes;
        status =
            !one.dst
                ? LMC_ERR_NOMEM
                : unread(st_content_read_base(&content, &probe->room, frame, block, 1, &one.base, &unused));
        if (status == LMC_OK)
            status = st_frame_read(frame, probe->room.ctx, memory, probe->room.stored, &one, &unused);
    }
    st_content_free(&content);
    return status;
}

/* Counts the result of a look; NOMEM alone is passed on. */
static lmc_status look_at_link(probe *probe, const st_link *link)
{
    lmc_st_diag unused = {0};
    st_frame frame;
    lmc_status status =
        unread(st_frame_open(&frame, probe->file, NULL, probe->room.ctx, link->tensor, &unused));
    if (status == LMC_OK)
        status = look_at_frame(probe, link, &frame);
    st_frame_close(&frame);
    probe->fit_count += status == LMC_OK;
    probe->differs_count += status == LMC_ERR_BASE;
    probe->unknown_count += status != LMC_OK && status != LMC_ERR_BASE;
    return status == LMC_ERR_NOMEM ? status : LMC_OK;
}

static int is_worth_a_look(const probe *probe, const st_link *link)
{
    return link->place == LMC_ST_BASE_FILE && link->file == probe->number &&
           st_file_tensor_nbytes(probe->file, link->tensor) > 0;
}

/* Looks at the link with the most stored bytes (of a tensor that has changed much, where others are as they were), and
 * at links that are spread evenly over those worth it, the first and the last among them; or at all. */
static lmc_status look_at_links(probe *probe)
{
    const st_bases *const bases = &probe->file->bases;
    const st_link *largest = NULL;
    uint64_t most = 0;
    size_t count = 0;
    for (size_t i = 0; i < bases->link_count; i++) {
        const st_link *const link = &bases->links[i];
        const int is_worth_it = is_worth_a_look(probe, link);
        const uint64_t nbytes = is_worth_it ? st_file_frame_nbytes(probe->file, link->tensor) : 0;
        count += (size_t)is_worth_it;
        largest = nbytes > most ? link : largest;
        most = nbytes > most ? nbytes : most;
    }
    const size_t wanted = count < LINKS_MAX || probe->is_thorough ? count : LINKS_MAX;
    size_t taken = 0;
    size_t seen = 0;
    if (count > LINKS_MAX)
        LMC_TRY(look_at_link(probe, largest));
    for (size_t i = 0; i < bases->link_count && taken < wanted && probe->differs_count == 0; i++) {
        if (!is_worth_a_look(probe, &bases->links[i]))
            continue;
        const size_t next = wanted == 1 ? 0 : (size_t)((uint64_t)taken * (count - 1) / (wanted - 1));
        if (seen++ == next) {
            taken++;
            LMC_TRY(look_at_link(probe, &bases->links[i]));
        }
    }
    return LMC_OK;
}

lmc_status st_base_probe(const lmc_st_file *file, size_t number, const lmc_st_file *base, int is_trial,
                         int is_thorough, st_base_fit *fit)
{
    const lmc_allocator *const memory = &file->memory;
    probe probe = {
        .file = file, .base = base, .number = number, .is_trial = is_trial, .is_thorough = is_thorough};
    st_buffer *const buffers = probe.buffers;
    lmc_ctx *ctx = NULL;
    lmc_status status = lmc_ctx_create(memory, &ctx);
    if (status == LMC_OK) {
        probe.room = (st_content_room){memory, ctx, &buffers[0], &buffers[1], &buffers[2]};
        status = look_at_links(&probe);
    }
    for (size_t i = 0; i < 3; i++)
        st_buffer_free(memory, &buffers[i]);
    st_buffer_free(memory, &probe.block);
    lmc_ctx_free(ctx);
    if (probe.differs_count > 0)
        *fit = ST_BASE_DIFFERS;
    else if (probe.unknown_count == 0)
        *fit = ST_BASE_FITS;
    else
        *fit = probe.fit_count > 0 ? ST_BASE_PARTLY : ST_BASE_UNKNOWN;
    return status;
}

/* ---- candidates ---- */

/* A search for the base of `file`. The texts are for the case that nothing is found. */
typedef struct search {
    const lmc_st_file *file;
    size_t number; /* of the base */
    const st_base_entry *entry;
    lmc_st_file *found; /* has the right size and header */
    int is_found_known; /* its content was looked at, with this result */
    int is_settled;     /* its content is known to be the wanted one */
    int is_thorough;    /* candidates are compared whole, not by a sample */
    st_base_fit found_fit;
    char places[256];     /* where it was looked for */
    char neighbours[160]; /* likewise */
    char other[256];      /* what was there instead: the last one */
} search;

/* link: " " before a verb whose subject is the path, ": " before a sentence. */
static void tell_of_other(search *search, const char *path, const char *link, const char *what)
{
    char shown[120];
    lmc_text_escape(shown, sizeof shown, path, strlen(path));
    snprintf(search->other, sizeof search->other, "; %s%s%.100s", shown, link, what);
}

static int is_same_file(const lmc_st_file *a, const lmc_st_file *b)
{
    return a->input.state.device == b->input.state.device && a->input.state.inode == b->input.state.inode;
}

/* Looks at the content of what was found so far, once. Error: NOMEM. */
static lmc_status look_at_found(search *search)
{
    if (search->is_found_known)
        return LMC_OK;
    search->is_found_known = 1;
    return st_base_probe(search->file, search->number, search->found, search->file->base->is_trial,
                         search->is_thorough, &search->found_fit);
}

/* is_named: the caller has named this file, so that it should be there. Of several candidates the one that fits better
 * is kept. A single one is not looked at: whatever is read of it is checked anyway. Error: NOMEM. */
static lmc_status try_path(search *search, const char *path, int is_named)
{
    lmc_st_diag cause;
    lmc_st_file *candidate = NULL;
    const lmc_st_file *const file = search->file;
    const st_base_slots *const slots = file->base;
    const st_open how = {
        .path = path, .fd = -1, .allocator = &file->memory, .dependent = file, .is_raw_allowed = 1};
    st_base_fit fit = ST_BASE_DIFFERS;
    lmc_status status = st_file_open_with(&how, slots->search, &candidate, &cause);
    const char *fault = status == LMC_OK ? NULL : cause.text;
    if (status == LMC_OK && (candidate->original_nbytes != search->entry->original_nbytes ||
                             st_file_identity(candidate) != search->entry->header_hash))
        fault = "is another file";
    for (const lmc_st_file *other = file; other && status == LMC_OK; other = other->dependent)
        if (is_same_file(other, candidate))
            fault = "needs that base itself";
    if (!fault)
        status =
            st_file_set_base(candidate, NULL, (const char *const *)slots->dirs, slots->dir_count, &cause);
    if (fault || status != LMC_OK) {
        /* a file that has the name of its base stands in its own folder: nothing is to be told of that */
        const int is_self = candidate && !is_named && is_same_file(file, candidate);
        if (fault && !is_self &&
            (candidate || is_named || (cause.os_errno != ENOENT && cause.os_errno != ENOTDIR)))
            tell_of_other(search, path, candidate ? " " : ": ", fault);
        lmc_st_close(candidate);
        return status == LMC_ERR_NOMEM ? status : LMC_OK;
    }
    if (candidate->base)
        candidate->base->is_trial = 1;
    if (!search->found) {
        search->found = candidate;
        return LMC_OK;
    }
    status = look_at_found(search);
    if (status == LMC_OK && search->found_fit != ST_BASE_FITS)
        status = st_base_probe(file, search->number, candidate, slots->is_trial, search->is_thorough, &fit);
    if (status == LMC_OK && fit > search->found_fit) {
        lmc_st_close(search->found);
        search->found = candidate;
        search->found_fit = fit;
    } else {
        lmc_st_close(candidate);
    }
    return status;
}

/* Tries both names that the base may have there; name: its own, or its path below the directory. */
static lmc_status try_directory(search *search, const char *directory, const char *name)
{
    static const char *const suffixes[] = {"", LMC_ARCHIVE_SUFFIX};
    const lmc_allocator *const memory = &search->file->memory;
    const char *const fault = os_components_fault(name);
    lmc_status status = LMC_OK;
    if (fault) {
        tell_of_other(search, name, " ", fault);
        return LMC_OK;
    }
    for (size_t i = 0; i < 2 && status == LMC_OK; i++) {
        char *const path = lmc_path_join(memory, directory, name, suffixes[i]);
        status = !path ? LMC_ERR_NOMEM : try_path(search, path, 0);
        st_release(memory, path);
    }
    return status;
}

static lmc_status try_place(search *search, const char *directory)
{
    const size_t length = strlen(search->places);
    char shown[120];
    lmc_text_escape(shown, sizeof shown, directory, strlen(directory));
    snprintf(search->places + length, sizeof search->places - length, "%s%s",
             length == 0 ? ": looked in " : ", ", shown);
    return try_directory(search, directory, st_base_entry_name(search->entry));
}

/* The path of the base in the store that the file is in. Error: NOMEM. */
static lmc_status try_store(search *search)
{
    const lmc_allocator *const memory = &search->file->memory;
    char *root = NULL;
    if (!strchr(search->entry->path, '/'))
        return LMC_OK;
    if (!st_find_store(memory, search->file->path, &root))
        return LMC_ERR_NOMEM;
    const lmc_status status = root ? try_directory(search, root, search->entry->path) : LMC_OK;
    st_release(memory, root);
    return status;
}

/* Looks at what was found so far, if anything: it is settled if its content fits, or if it is named and cannot be read.
 * Of other content, nothing is found yet. Error: NOMEM. */
static lmc_status judge_found(search *search, int is_named)
{
    if (!search->found)
        return LMC_OK;
    LMC_TRY(look_at_found(search));
    search->is_settled =
        search->found_fit == ST_BASE_FITS || (is_named && search->found_fit != ST_BASE_DIFFERS);
    if (search->found_fit == ST_BASE_DIFFERS) {
        tell_of_other(search, search->found->path, " ", "holds other content");
        lmc_st_close(search->found);
        search->found = NULL;
        search->is_found_known = 0;
    }
    return LMC_OK;
}

/* Folders that belong to the one that the file is in. What was found in its own is one of the other files there, which
 * may be as large and have the same tensors as the base: a model beside its moving average. Error: NOMEM. */
static lmc_status try_neighbours(search *search)
{
    st_neighbours neighbours;
    char *folder = NULL;
    lmc_status status = LMC_OK;
    const int is_thorough = search->is_thorough;
    st_neighbours_find(&neighbours, &search->file->memory, search->file->path);
    search->is_thorough |= neighbours.is_run;
    if (neighbours.own)
        status = judge_found(search, 0);
    search->is_thorough = is_thorough;
    for (size_t i = 0;
         status == LMC_OK && !search->is_settled && st_neighbours_folder(&neighbours, i, &folder); i++) {
        const int is_known = i == 0 && neighbours.is_first_known;
        /* a step that is not named may differ from the base in one tensor of many: a sample does not tell */
        search->is_thorough |= neighbours.is_run && !is_known;
        status = folder ? try_directory(search, folder, st_base_entry_name(search->entry)) : LMC_OK;
        st_release(neighbours.memory, folder);
        if (status == LMC_OK) /* run.json may be older than the steps */
            status = judge_found(search, is_known);
    }
    status = neighbours.lacks_memory ? LMC_ERR_NOMEM : status;
    if (neighbours.count > 0) {
        char shown[100];
        lmc_text_escape(shown, sizeof shown, neighbours.root, strlen(neighbours.root));
        snprintf(search->neighbours, sizeof search->neighbours, " and %zu %s%s in %s", neighbours.count,
                 neighbours.is_run ? "earlier step" : "similar folder", neighbours.count == 1 ? "" : "s",
                 shown);
    }
    st_neighbours_free(&neighbours);
    return status;
}

/* The named file, the caller's directories, the file's own, and those that belong to it. Error: NOMEM. */
static lmc_status try_all(search *search)
{
    const lmc_st_file *const file = search->file;
    if (file->base->path) {
        LMC_TRY(try_path(search, file->base->path, 1));
        if (search->found)
            return LMC_OK; /* the caller has said that it is this one */
    }
    for (size_t i = 0; i < file->base->dir_count; i++)
        LMC_TRY(try_place(search, file->base->dirs[i]));
    if (!file->is_from_path)
        return LMC_OK;
    LMC_TRY(try_store(search));
    const int is_found = search->found != NULL;
    char *const directory = lmc_directory_of(&file->memory, file->path);
    lmc_status status = !directory ? LMC_ERR_NOMEM : try_place(search, directory);
    st_release(&file->memory, directory);
    return status != LMC_OK || is_found ? status : try_neighbours(search);
}

/* ---- the search ---- */

/* An st_base_search_fn. */
static lmc_status search_base(const lmc_st_file *file, size_t number, lmc_st_file **found, lmc_st_diag *diag)
{
    const st_base_entry *const entry = &file->bases.files[number];
    search search = {.file = file, .number = number, .entry = entry, .is_thorough = file->base->is_thorough};
    lmc_st_diag cause;
    size_t file_count = 0;
    for (const lmc_st_file *at = file; at; at = at->dependent)
        file_count++;
    if (file_count >= LMC_ST_CHAIN_MAX) {
        st_diag_init(diag, file->path);
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET, "a chain of bases has more than %d files",
                       LMC_ST_CHAIN_MAX);
    }
    lmc_status status = try_all(&search);
    if (status != LMC_OK) {
        lmc_st_close(search.found);
        return st_fail_nomem(diag);
    }
    st_diag_init(&cause, file->path);
    if (!search.found) {
        char name[128];
        lmc_text_escape(name, sizeof name, entry->path, strlen(entry->path));
        status =
            st_fail(&cause, LMC_ERR_BASE, LMC_ST_NO_OFFSET,
                    "needs the base %s (hash %016llx), which was not found%s%s%s", name,
                    (unsigned long long)entry->content_hash, search.places, search.neighbours, search.other);
    } else if (st_file_headers_nbytes(search.found) > LMC_ST_CHAIN_HEADER_NBYTES_MAX) {
        status = st_fail(&cause, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                         "the headers of a chain of bases, equal ones counted once, have more than %d bytes",
                         LMC_ST_CHAIN_HEADER_NBYTES_MAX);
    }
    if (status != LMC_OK) {
        *diag = cause;
        lmc_st_close(search.found);
        return status;
    }
    /* Accepted: what its own searches have found on trial is discarded. The base of a file on trial stays on trial. */
    if (search.found->base && !file->base->is_trial) {
        for (size_t i = 0; i < search.found->base->count; i++)
            st_file_forget_base(search.found, i);
        search.found->base->is_trial = 0;
    }
    *found = search.found;
    return LMC_OK;
}

/* ---- opening ---- */

lmc_status st_file_open(const st_open *how, lmc_st_file **file, lmc_st_diag *diag)
{
    return st_file_open_with(how, search_base, file, diag);
}

static lmc_status open_with_bases(const st_open *how, const char *base, const char *const *base_dirs,
                                  size_t base_dir_count, lmc_st_file **file, lmc_st_diag *diag)
{
    lmc_status status = st_file_open(how, file, diag);
    if (status == LMC_OK)
        status = st_file_set_base(*file, base, base_dirs, base_dir_count, diag);
    if (status != LMC_OK) {
        lmc_st_close(*file);
        *file = NULL;
    }
    return status;
}

lmc_status st_file_open_input(const char *path, const st_options *options, lmc_st_file **file,
                              lmc_st_diag *diag)
{
    const st_open how = {.path = path,
                         .fd = options->in_fd,
                         .cancel = options->cancel,
                         .allocator = options->allocator,
                         .may_be_short = options->salvage,
                         .is_raw_allowed = options->raw};
    return open_with_bases(&how, options->base, options->base_dirs, options->base_dir_count, file, diag);
}

lmc_status lmc_st_open(const char *path, const lmc_st_open_options *options, lmc_st_file **file,
                       lmc_st_diag *diag)
{
    st_call call;
    lmc_st_open_options own = LMC_INIT(lmc_st_open_options);
    *file = NULL;
    lmc_status status = st_call_begin(&call, path, NULL, diag);
    if (status == LMC_OK)
        status = st_call_copy(&call, options, &own);
    if (status == LMC_OK)
        status = st_call_set_allocator(&call, own.allocator);
    const st_open how = {.path = path,
                         .fd = -1,
                         .read = own.read,
                         .user = own.read_user,
                         .nbytes = own.read_nbytes,
                         .allocator = own.allocator,
                         .is_raw_allowed = own.raw != 0};
    if (status == LMC_OK)
        status = open_with_bases(&how, own.base, own.base_dirs, own.base_dir_count, file, call.diag);
    return st_call_end(&call, status);
}
