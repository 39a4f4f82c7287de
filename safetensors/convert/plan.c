/*
 * plan.c - convert/conversion.h: opens the file that is coded against and says why it cannot be a base; looks at a
 * tensor, and at the one that it may be coded against, and chooses its coding.
 */
#include "os/path.h"
#include "safetensors/base/search.h"
#include "safetensors/convert/conversion.h"

#include <string.h>

/* ---- the bases of the file ---- */

/* The most header bytes that a chain which begins with this file, then `base`, has. What base/search.c will find when
 * the archive is read; the chains are open. */
static uint64_t chain_headers_nbytes(const st_header *source, const lmc_st_file *base)
{
    uint64_t most = 0;
    for (size_t i = 0; i < st_file_base_count(base); i++) {
        const lmc_st_file *const next = base->base->slots[i].file;
        const uint64_t nbytes = next ? chain_headers_nbytes(source, next) : 0;
        most = nbytes > most ? nbytes : most;
    }
    if (st_file_base_count(base) > 0)
        return most;
    uint64_t nbytes = st_file_headers_nbytes(base) + source->text_nbytes;
    for (const lmc_st_file *file = base; file; file = file->dependent)
        if (!file->header.is_shared && file->header.text_nbytes == source->text_nbytes &&
            memcmp(file->header.text, source->text, source->text_nbytes) == 0)
            nbytes -= source->text_nbytes;
    return nbytes;
}

/* Whether the file can be a base of the output. */
static lmc_status check_base(const st_conversion *conversion, const lmc_st_file *base, const char *out_path,
                             lmc_st_diag *diag)
{
    const int out_fd = conversion->options->out_fd;
    size_t count = 0;
    LMC_TRY(st_file_chain_count(base, &count, diag));
    if (count >= LMC_ST_CHAIN_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                       "cannot be a base: it ends a chain of %d files, the most that there may be",
                       LMC_ST_CHAIN_MAX);
    if (chain_headers_nbytes(conversion->source->header, base) > LMC_ST_CHAIN_HEADER_NBYTES_MAX)
        return st_fail(diag, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                       "cannot be a base: with this file's header, those of its chain, equal ones counted "
                       "once, would have more than %d bytes",
                       LMC_ST_CHAIN_HEADER_NBYTES_MAX);
    if (st_input_is(&base->input, out_path, out_fd)) {
        st_diag_set_file(diag, out_path);
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the output is the base");
    }
    return st_file_check_output(base, out_path, out_fd, diag);
}

/* Adds an open base under the name of what it is or restores to: its file's, without ".lmc" if it is an archive. */
static lmc_status add_base(st_conversion *conversion, lmc_st_file *base, lmc_st_diag *diag)
{
    const char *const name = lmc_last_component(base->path);
    const size_t suffix_nbytes =
        base->is_archive && lmc_is_archive_name(name) ? strlen(LMC_ARCHIVE_SUFFIX) : 0;
    const size_t name_nbytes = strlen(name) - suffix_nbytes;
    if (!st_base_name_is_valid(name, name_nbytes)) {
        lmc_st_close(base);
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "cannot be a base: its name must be UTF-8 of at most %d bytes",
                       LMC_ST_BASE_NAME_NBYTES_MAX);
    }
    return st_base_set_add(&conversion->bases, base, name, name_nbytes, conversion->options->allocator, diag);
}

lmc_status st_convert_open_base(st_conversion *conversion, const char *out_path, lmc_st_diag *diag)
{
    const st_options *const options = conversion->options;
    lmc_st_diag cause;
    lmc_st_file *base = NULL;
    if (options->opened_base)
        return add_base(conversion, options->opened_base, diag);
    if (!options->base)
        return LMC_OK;
    const st_open how = {
        .path = options->base, .fd = -1, .allocator = options->allocator, .is_raw_allowed = options->raw};
    lmc_status status = st_file_open(&how, &base, &cause);
    if (status == LMC_OK)
        status = st_file_set_base(base, NULL, options->base_dirs, options->base_dir_count, &cause);
    if (status == LMC_OK)
        status = add_base(conversion, base, &cause);
    else
        lmc_st_close(base);
    if (status == LMC_OK)
        status = check_base(conversion, base, out_path, &cause);
    if (status != LMC_OK)
        *diag = cause;
    return status;
}

lmc_status st_convert_choose_bases(st_conversion *conversion, const char *out_path, lmc_st_diag *diag)
{
    const st_options *const options = conversion->options;
    LMC_TRY(options->choose_bases(options->choose_user, conversion->source, &conversion->aliases,
                                  &conversion->bases, &conversion->matches, diag));
    size_t file_count = 0;
    uint64_t headers_nbytes = 0;
    for (size_t i = 0; i < conversion->bases.count; i++) {
        lmc_st_diag cause;
        const lmc_st_file *const base = conversion->bases.list[i].file;
        st_diag_init(&cause, base->path);
        lmc_status status = check_base(conversion, base, out_path, &cause);
        file_count += 1 + (base->base ? base->base->open_count : 0);
        headers_nbytes += base->header.text_nbytes + (base->base ? base->base->open_headers_nbytes : 0);
        if (status == LMC_OK && file_count > LMC_ST_BASE_FILES_MAX)
            status = st_fail(&cause, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                             "cannot be a base: with the others, more than %d files would be needed",
                             LMC_ST_BASE_FILES_MAX);
        if (status == LMC_OK && headers_nbytes > LMC_ST_CHAIN_HEADER_NBYTES_MAX)
            status = st_fail(&cause, LMC_ERR_LIMIT, LMC_ST_NO_OFFSET,
                             "cannot be a base: with the others, headers would have more than %d bytes",
                             LMC_ST_CHAIN_HEADER_NBYTES_MAX);
        if (status != LMC_OK) {
            *diag = cause;
            return status;
        }
    }
    return LMC_OK;
}

/* An st_base_visit_fn. */
static lmc_status check_unchanged(void *user, const lmc_st_file *base)
{
    lmc_st_diag *const diag = user;
    const lmc_status status = st_input_check_unchanged(&base->input, diag);
    if (status != LMC_OK)
        st_diag_set_file(diag, base->path);
    return status;
}

lmc_status st_convert_check_bases(const st_conversion *conversion, lmc_st_diag *diag)
{
    for (size_t i = 0; i < conversion->bases.count; i++) {
        const lmc_st_file *const base = conversion->bases.list[i].file;
        LMC_TRY(check_unchanged(diag, base));
        LMC_TRY(st_file_visit_bases(base, check_unchanged, diag, diag));
    }
    return LMC_OK;
}

/* ---- the plan of a tensor ---- */

/* What a plan is made from. */
typedef struct plan_input {
    const st_conversion *conversion;
    st_worker *worker;
    size_t index;
    const st_match *match; /* NULL: none */
    const st_content *base;
} plan_input;

const unsigned char *st_convert_find(const st_conversion *conversion, const st_worker *worker, size_t index,
                                     uint64_t offset, size_t nbytes)
{
    const st_source *const source = conversion->source;
    const uint64_t *const places = source->places;
    if (source->find)
        return source->find(source, index, offset, nbytes);
    return !places ? NULL : st_window_find(&worker->ahead, places[index] + offset, nbytes);
}

static lmc_status read_content(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const plan_input *const input = user;
    const st_source *const source = input->conversion->source;
    const unsigned char *const ahead =
        st_convert_find(input->conversion, input->worker, input->index, offset, nbytes);
    if (ahead) {
        memcpy(dst, ahead, nbytes);
        return LMC_OK;
    }
    return source->read(source, input->index, offset, dst, nbytes, &input->worker->diag);
}

lmc_status st_convert_read_base(const st_conversion *conversion, st_worker *worker, const st_match *match,
                                const st_content *base, uint64_t begin, uint64_t end,
                                const unsigned char **bytes)
{
    const st_source *const source = conversion->source;
    st_base_window *const held = &worker->held;
    if (held->owner == match && begin >= held->begin && end <= held->end) {
        *bytes = held->bytes + (begin - held->begin);
        return LMC_OK;
    }
    held->owner = NULL;
    if (match->link.place == LMC_ST_BASE_FILE) {
        const st_content_room room = {worker->memory, worker->ctx, &worker->base, &worker->content,
                                      &worker->stored};
        LMC_TRY(st_content_read(base, &room, begin, end, bytes, &worker->diag));
        *held = (st_base_window){match, begin, end, *bytes};
        return LMC_OK;
    }
    const size_t nbytes = (size_t)(end - begin);
    unsigned char *const room = st_buffer_grow(worker->memory, &worker->base, nbytes);
    *bytes = room;
    return !room ? st_fail_nomem(&worker->diag)
                 : source->read(source, match->link.base, begin, room, nbytes, &worker->diag);
}

/* A plan asks for many small pieces: what had to be decoded for one serves the next. That is all of a base that one
 * part codes, else what can be decoded alone. */
static lmc_status read_base(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    const plan_input *const input = user;
    const st_content *const base = input->base;
    const uint64_t whole = base->nbytes <= ST_PART_NBYTES ? base->nbytes : base->unit_nbytes;
    const uint64_t unit = base->step_count == 0 ? 1 : whole;
    while (nbytes > 0) {
        const unsigned char *bytes;
        const uint64_t begin = offset / unit * unit;
        const uint64_t left = base->nbytes - begin;
        const uint64_t end = unit == 1 ? offset + nbytes : begin + (unit < left ? unit : left);
        const size_t length = end - offset < nbytes ? (size_t)(end - offset) : nbytes;
        LMC_TRY(
            st_convert_read_base(input->conversion, input->worker, input->match, base, begin, end, &bytes));
        memcpy(dst, bytes + (offset - begin), length);
        dst = (unsigned char *)dst + length;
        offset += length;
        nbytes -= length;
    }
    return LMC_OK;
}

/* Opens what the tensor may be coded against, and makes the plan. */
static lmc_status plan_tensor(const st_conversion *conversion, st_worker *worker, size_t index,
                              st_convert_item *item)
{
    const st_header *const header = conversion->source->header;
    const st_tensor *const tensor = &header->tensors[index];
    const st_match *const match =
        conversion->matches.list[index].is_there ? &conversion->matches.list[index] : NULL;
    lmc_params params;
    worker->held.owner = NULL;
    if (match && match->link.place == LMC_ST_BASE_FILE) {
        const st_content_room room = {worker->memory, worker->ctx, &worker->base, &worker->content,
                                      &worker->stored};
        const lmc_st_file *const base = conversion->bases.list[match->link.file].file;
        LMC_TRY(
            st_content_open(&item->base, base, worker->ctx, match->link.base, worker->memory, &worker->diag));
        LMC_TRY(st_content_verify(&item->base, &room, &worker->diag));
        /* the base of another length is cut, or goes on with zeros */
        item->base.nbytes = (tensor->end - tensor->begin) * st_base_scale(match->form);
    }
    lmc_params_init(&params);
    params.dtype = (lmc_dtype)tensor->dtype;
    params.level = conversion->options->level;
    params.row_nbytes = st_header_row_nbytes(header, tensor);
    params.base_form = !match ? LMC_BASE_PLAIN : match->form;
    plan_input input = {
        .conversion = conversion, .worker = worker, .index = index, .match = match, .base = &item->base};
    lmc_ctx *const ctx = st_worker_plan_ctx(worker);
    if (!ctx)
        return LMC_ERR_NOMEM;
    worker->diag.status = LMC_OK;
    const lmc_status status = lmc_plan_create_delta(ctx, &params, tensor->end - tensor->begin, read_content,
                                                    !match ? NULL : read_base, &input, &item->plan);
    if (status != LMC_OK && worker->diag.status != LMC_OK)
        return status; /* a failed read has said what happened */
    if (status != LMC_OK) {
        st_fail_codec(&worker->diag, ctx, status, LMC_ST_NO_OFFSET);
        return st_source_blame(conversion->source, index, status, &worker->diag);
    }
    item->info = (lmc_info)LMC_INIT(lmc_info);
    LMC_TRY(lmc_plan_info(item->plan, &item->info));
    item->match = item->info.mode == LMC_FRAME_DELTA ? match : NULL;
    if (!item->match)
        st_content_free(&item->base);
    conversion->is_delta[index] = item->match != NULL;
    return LMC_OK;
}

lmc_status st_convert_prepare(void *user, st_worker *worker, st_slot *slot)
{
    const st_conversion *const conversion = user;
    st_convert_item *const item = st_allocate_zeroed(worker->memory, 1, sizeof *item);
    if (!item)
        return st_fail_nomem(&worker->diag);
    slot->item = item;
    if (st_aliases_owner(&conversion->aliases, slot->index) != slot->index)
        return LMC_OK;
    LMC_TRY(plan_tensor(conversion, worker, slot->index, item));
    item->block_bound = lmc_plan_block_bound(item->plan);
    item->entries = st_allocate_zeroed(worker->memory, item->info.block_count + 1, sizeof *item->entries);
    if (!item->entries)
        return st_fail_nomem(&worker->diag);
    slot->block_nbytes = st_content_part_nbytes(&item->base, &item->info);
    slot->block_count = (item->info.content_nbytes + slot->block_nbytes - 1) / slot->block_nbytes;
    slot->content_nbytes = item->info.content_nbytes;
    return LMC_OK;
}

void st_convert_release(void *user, st_slot *slot)
{
    const st_conversion *const conversion = user;
    const lmc_allocator *const memory = conversion->options->allocator;
    st_convert_item *const item = slot->item;
    if (item) {
        lmc_plan_free(item->plan);
        st_content_free(&item->base);
        st_release(memory, item->entries);
        st_release(memory, item);
    }
    slot->item = NULL;
}
