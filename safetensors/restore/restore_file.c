/*
 * restore_file.c - a whole archive becomes the file that it was made from; or, with damage, a safetensors file of the
 * tensors that are sound: a first pass finds those that verify, a second one writes them behind a header that names
 * only these.
 */
#include "safetensors/archive/archive_skeleton.h"
#include "safetensors/base/content.h"
#include "safetensors/common/parts.h"
#include "safetensors/header/header.h"
#include "safetensors/restore/restore.h"

/* The header that names the sound tensors. Fills in their places in the output. Returns the end of their data. */
static uint64_t put_header(st_json_out *out, const st_header *header, const st_damage_log *log,
                           uint64_t *places)
{
    static const char metadata[] = "__metadata__";
    uint64_t begin = 0;
    st_json_put_open(out, '{');
    if (header->metadata.nbytes > 0) {
        st_json_put_string(out, metadata, sizeof metadata - 1);
        st_json_put_colon(out);
        st_json_put_raw(out, header->text + header->metadata.offset, header->metadata.nbytes);
    }
    for (size_t i = 0; i < header->tensor_count; i++) {
        const st_tensor *const tensor = &header->tensors[i];
        places[i] = ST_NOWHERE;
        if (log->is_lost[i])
            continue;
        st_json_put_raw(out, header->text + tensor->raw_name.offset, tensor->raw_name.nbytes);
        st_json_put_colon(out);
        /* a storage that is no tensor as it lies there is bytes */
        const st_view *const view = st_header_listed(header, i).view;
        const uint64_t nbytes = tensor->end - tensor->begin;
        const int is_bytes = view && !st_view_is_whole(view, nbytes);
        const unsigned rank = view ? view->rank : tensor->rank;
        st_shape shape = st_header_shape(header, tensor);
        st_header_put_dtype(out, is_bytes ? LMC_DTYPE_U8 : (lmc_dtype)(view ? view->dtype : tensor->dtype));
        if (is_bytes)
            st_json_put_u64(out, nbytes);
        for (unsigned j = 0; j < rank && !is_bytes; j++)
            st_json_put_u64(out, view ? view->shape[j] : st_shape_next(&shape));
        places[i] = begin;
        begin += nbytes;
        st_header_put_place(out, places[i], begin);
        st_json_put_close(out, '}');
    }
    st_header_put_end(out);
    for (size_t i = 0; i < header->tensor_count; i++)
        places[i] += places[i] == ST_NOWHERE ? 0 : 8 + out->nbytes;
    return 8 + out->nbytes + begin;
}

/* The second pass. */
static lmc_status write_sound_tensors(const st_restoration *restoration, const st_damage_log *log,
                                      uint64_t *original_nbytes, lmc_st_diag *diag)
{
    const lmc_allocator *const memory = restoration->options->allocator;
    const st_header *const header = &restoration->source->header;
    st_restoration sound = *restoration;
    st_json_out out = {0};
    uint64_t *const places = st_allocate(memory, (header->tensor_count + 1) * sizeof *places);
    if (!places)
        return st_fail_nomem(diag);
    (void)put_header(&out, header, log, places);
    unsigned char *const text = st_allocate(memory, out.nbytes);
    lmc_status status = !text ? st_fail_nomem(diag) : LMC_OK;
    if (status == LMC_OK) {
        out = (st_json_out){.dst = text, .capacity = out.nbytes};
        *original_nbytes = put_header(&out, header, log, places);
        status = st_header_write(sound.output, text, out.nbytes, diag);
    }
    sound.places = places;
    sound.with_skeleton = 0;
    if (status == LMC_OK)
        status = st_restore_tensors(&sound, diag);
    st_release(memory, text);
    st_release(memory, places);
    return status;
}

/* Damage between the tensors, and what cannot be read there, is reported and counts as one. Errors: all else. */
static lmc_status look_at_skeleton(const lmc_st_file *source, const st_options *options, st_damage_log *log,
                                   uint64_t *damaged_count, lmc_st_diag *diag)
{
    lmc_st_diag fault = *diag;
    const lmc_status status = st_skeleton_check(source, &fault);
    *damaged_count = st_is_damage(status) || status == LMC_ERR_IO;
    if (status == LMC_OK)
        return LMC_OK;
    if (*damaged_count == 0) {
        *diag = fault;
        return status;
    }
    if (options->damage)
        options->damage(options->user, &fault);
    if (log->lost_count == 0)
        log->first = fault;
    return LMC_OK;
}

static lmc_status salvage_tensors(const lmc_st_file *source, st_output *output, const st_options *options,
                                  lmc_st_result *result, lmc_st_diag *damage, lmc_st_diag *diag)
{
    const st_header *const header = &source->header;
    st_parts passes = {.options = options, .total_nbytes = 2 * header->data_nbytes};
    const st_options inner = st_parts_options(&passes);
    st_damage_log log;
    LMC_TRY(st_damage_log_init(&log, options->allocator, header->tensor_count, diag));
    const st_restoration check = {.source = source, .options = &inner, .log = &log};
    const st_restoration whole = {.source = source, .options = &inner, .output = output, .with_skeleton = 1};
    /* of another file, no part can be left out: its tensors become a safetensors file */
    const int is_safetensors = source->container == LMC_ST_CONTAINER_SAFETENSORS;
    st_parts_begin(&passes, header->data_nbytes);
    lmc_status status = st_restore_tensors(&check, diag);
    if (status == LMC_OK) {
        st_parts_end(&passes);
        st_parts_begin(&passes, header->data_nbytes);
        status = log.lost_count > 0 || !is_safetensors
                     ? write_sound_tensors(&whole, &log, &result->original_nbytes, diag)
                     : st_restore_tensors(&whole, diag);
    }
    if (status == LMC_OK && !is_safetensors)
        status = look_at_skeleton(source, options, &log, &result->damaged_count, diag);
    if (status == LMC_OK) {
        st_parts_end(&passes);
        result->damaged_count += log.lost_count;
        result->tensor_count = header->tensor_count - log.lost_count;
        *damage = log.first;
    }
    st_damage_log_free(&log, options->allocator);
    return status;
}

/* ---- the file ---- */

/* The result stays as it is if there is no output. After a salvage with damage there is one, and the status is that of
 * the first damage. */
static lmc_status restore_open_file(const lmc_st_file *source, const st_place *out, const st_options *options,
                                    lmc_st_result *result, lmc_st_diag *diag)
{
    st_output output;
    lmc_st_diag damage;
    lmc_st_result found = *result;
    found.original_nbytes = source->original_nbytes;
    found.stored_nbytes = source->input.nbytes;
    found.tensor_count = source->header.tensor_count;
    found.is_archive = 1;
    found.container = source->container;
    LMC_TRY(options->salvage ? LMC_OK : st_content_open_files(source, diag));
    LMC_TRY(st_file_check_output(source, out->path, options->out_fd, diag));
    LMC_TRY(st_output_open(&output, options, out, &source->input, 1, diag));
    const st_restoration whole = {
        .source = source, .options = options, .output = &output, .with_skeleton = 1};
    const lmc_status written = options->salvage
                                   ? salvage_tensors(source, &output, options, &found, &damage, diag)
                                   : st_restore_tensors(&whole, diag);
    LMC_TRY(st_output_close(&output, options, written, diag));
    *result = found;
    if (found.damaged_count > 0)
        *diag = damage;
    return found.damaged_count > 0 ? damage.status : LMC_OK;
}

lmc_status st_restore_file(const char *in_path, const st_place *out, const st_options *options,
                           lmc_st_result *result, lmc_st_diag *diag)
{
    lmc_st_file *source = NULL;
    lmc_status status = st_file_open_input(in_path, options, &source, diag);
    if (status == LMC_OK && !source->is_archive)
        status = st_fail(diag, LMC_ERR_CORRUPT, LMC_ST_NO_OFFSET, "is a plain %s file, not an LMC archive",
                         lmc_st_container_name(source->container));
    if (status == LMC_OK)
        status = restore_open_file(source, out, options, result, diag);
    lmc_st_close(source);
    return status;
}
