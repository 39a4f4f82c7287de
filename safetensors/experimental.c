/*
 * experimental.c - calls of lmc_st.h that lmc-st and the Python package need beside the stable ones. Each puts a few
 * inner calls together.
 */
#include "lmc_st_experimental.h"

#include "safetensors/common/options.h"
#include "safetensors/read/view.h"
#include "safetensors/restore/restore.h"

/* ---- tensors ---- */

struct lmc_st_reader {
    lmc_ctx *ctx;
    st_view_reader reader;
};

static lmc_status open_reader(lmc_st_reader *reader, const lmc_st_file *file, uint64_t index,
                              lmc_st_diag *diag)
{
    reader->reader.stored.frame.file = file;
    if (index >= st_header_listed_count(&file->header))
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this number");
    if (file->is_archive && lmc_ctx_create(&file->memory, &reader->ctx) != LMC_OK)
        return st_fail_nomem(diag);
    return st_view_reader_open(&reader->reader, file, reader->ctx, (size_t)index, diag);
}

lmc_status lmc_st_reader_create(const lmc_st_file *file, uint64_t index, lmc_st_reader **reader,
                                lmc_st_diag *diag)
{
    st_call call;
    lmc_st_reader *const created = st_allocate_zeroed(&file->memory, 1, sizeof *created);
    lmc_status status = st_call_begin(&call, file->path, NULL, NULL, diag);
    if (status == LMC_OK)
        status = created ? open_reader(created, file, index, call.diag) : st_fail_nomem(call.diag);
    if (status != LMC_OK && created) {
        created->reader.stored.frame.file = file;
        lmc_st_reader_free(created);
    }
    *reader = status == LMC_OK ? created : NULL;
    return st_call_end(&call, status);
}

lmc_status lmc_st_reader_read(lmc_st_reader *reader, uint64_t first_byte, size_t nbytes, void *dst,
                              lmc_st_diag *diag)
{
    st_call call;
    const st_frame *const frame = &reader->reader.stored.frame;
    const uint64_t content_nbytes = reader->reader.nbytes;
    lmc_status status = st_call_begin(&call, frame->file->path, NULL, NULL, diag);
    if (status == LMC_OK && (first_byte > content_nbytes || nbytes > content_nbytes - first_byte))
        status = st_fail(call.diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the range leaves the tensor");
    if (status == LMC_OK && nbytes > 0)
        status = st_view_reader_read(&reader->reader, first_byte, nbytes, dst, call.diag);
    return st_call_end(&call, status);
}

void lmc_st_reader_free(lmc_st_reader *reader)
{
    if (!reader)
        return;
    const lmc_allocator memory = reader->reader.stored.frame.file->memory;
    st_view_reader_close(&reader->reader);
    lmc_ctx_free(reader->ctx);
    st_release(&memory, reader);
}

static lmc_status read_block_nbytes(const lmc_st_file *file, uint64_t index, size_t *block_nbytes,
                                    lmc_st_diag *diag)
{
    lmc_ctx *ctx = NULL;
    st_frame frame;
    st_listed listed;
    if (!file->is_archive || !st_file_find_listed(file, index, &listed) || listed.view)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no content hash of this number");
    if (st_file_tensor_nbytes(file, (size_t)index) == 0)
        return LMC_OK;
    if (lmc_ctx_create(&file->memory, &ctx) != LMC_OK)
        return st_fail_nomem(diag);
    const lmc_status status = st_frame_open(&frame, file, NULL, ctx, (size_t)index, diag);
    *block_nbytes = status == LMC_OK ? frame.info.block_nbytes : 0;
    st_frame_close(&frame);
    lmc_ctx_free(ctx);
    return status;
}

lmc_status lmc_st_content_hash(const lmc_st_file *file, uint64_t index, uint64_t *hash, size_t *block_nbytes,
                               lmc_st_diag *diag)
{
    st_call call;
    *block_nbytes = 0;
    lmc_status status = st_call_begin(&call, file->path, NULL, NULL, diag);
    if (status == LMC_OK)
        status = read_block_nbytes(file, index, block_nbytes, call.diag);
    *hash = status == LMC_OK ? file->hashes[index] : 0;
    return st_call_end(&call, status);
}

/* A part of a tensor's content, and where its stored bytes stand. */
typedef struct range_place {
    uint64_t begin, end;
    uint64_t offset, stored_nbytes;
} range_place;

/* The blocks of a frame that hold a part, which is not empty. */
static lmc_status find_blocks(const lmc_st_file *file, size_t index, range_place *place, lmc_st_diag *diag)
{
    lmc_ctx *ctx = NULL;
    st_frame frame;
    if (lmc_ctx_create(&file->memory, &ctx) != LMC_OK)
        return st_fail_nomem(diag);
    lmc_status status = st_frame_open(&frame, file, NULL, ctx, index, diag);
    if (status == LMC_OK && st_frame_has_index(&frame.info)) {
        const uint64_t block_nbytes = frame.info.block_nbytes;
        const uint64_t first = place->begin / block_nbytes;
        const uint64_t last = (place->end - 1) / block_nbytes;
        size_t stored_nbytes = 0;
        status = st_frame_extent(&frame, first, last - first + 1, &place->offset, &stored_nbytes, diag);
        place->stored_nbytes = stored_nbytes;
        place->begin = first * block_nbytes;
        place->end =
            last + 1 < frame.info.block_count ? (last + 1) * block_nbytes : frame.info.content_nbytes;
    } else if (status == LMC_OK) {
        *place = (range_place){.end = frame.info.content_nbytes,
                               .offset = st_file_frame_offset(file, index),
                               .stored_nbytes = st_file_frame_nbytes(file, index)};
    }
    st_frame_close(&frame);
    lmc_ctx_free(ctx);
    return status;
}

static lmc_status find_range(const lmc_st_file *file, uint64_t index, int of_storage, uint64_t nbytes,
                             range_place *place, lmc_st_diag *diag)
{
    st_listed listed;
    if (!st_file_find_listed(file, index, &listed))
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this number");
    if (of_storage)
        listed.view = NULL;
    const uint64_t content_nbytes = st_listed_nbytes(file, &listed);
    if (place->begin > content_nbytes || nbytes > content_nbytes - place->begin) {
        st_diag_set_tensor(diag, listed.name.bytes, listed.name.nbytes);
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the range leaves the tensor");
    }
    place->end = place->begin + nbytes;
    if (listed.view)
        st_view_extent(listed.view, place->begin, nbytes, &place->begin, &place->end);
    place->offset = st_file_frame_offset(file, listed.tensor);
    if (nbytes > 0 && file->is_archive)
        return find_blocks(file, listed.tensor, place, diag);
    place->offset += file->is_archive ? 0 : place->begin;
    place->stored_nbytes = place->end - place->begin;
    return LMC_OK;
}

lmc_status lmc_st_range_place(const lmc_st_file *file, uint64_t index, int of_storage, uint64_t first_byte,
                              uint64_t nbytes, uint64_t *offset, uint64_t *stored_nbytes, uint64_t *begin,
                              uint64_t *end, lmc_st_diag *diag)
{
    st_call call;
    range_place place = {.begin = first_byte};
    lmc_status status = st_call_begin(&call, file->path, NULL, NULL, diag);
    if (status == LMC_OK)
        status = find_range(file, index, of_storage, nbytes, &place, call.diag);
    if (status != LMC_OK)
        place = (range_place){0};
    *offset = place.offset;
    *stored_nbytes = place.stored_nbytes;
    *begin = place.begin;
    *end = place.end;
    return st_call_end(&call, status);
}

lmc_status lmc_st_use_base(lmc_st_file *file, lmc_st_file *base, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, file->path, NULL, NULL, diag);
    if (status == LMC_OK)
        status = st_file_use_base(file, base, call.diag);
    return st_call_end(&call, status);
}

uint32_t lmc_st_row_nbytes(const lmc_st_file *file, uint64_t index)
{
    st_listed listed;
    const int is_stored = st_file_find_listed(file, index, &listed) && !listed.view;
    return is_stored ? st_header_row_nbytes(&file->header, &file->header.tensors[listed.tensor]) : 0;
}

lmc_status lmc_st_check_unchanged(const lmc_st_file *file, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, file->path, NULL, NULL, diag);
    if (status == LMC_OK)
        status = os_input_check_unchanged(&file->input, call.diag);
    return st_call_end(&call, status);
}

/* ---- stored bytes ---- */

static lmc_status read_stored(const lmc_st_file *file, uint64_t index, uint64_t first_byte, size_t nbytes,
                              void *dst, lmc_st_diag *diag)
{
    uint64_t offset, stored_nbytes;
    st_listed listed;
    (void)st_file_find_listed(file, index, &listed);
    if (lmc_st_tensor_place(file, index, &offset, &stored_nbytes) != LMC_OK)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no tensor of this number");
    if (first_byte > stored_nbytes || nbytes > stored_nbytes - first_byte)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "the range leaves the stored tensor");
    const lmc_status status =
        nbytes > 0 ? os_input_read(&file->input, offset + first_byte, dst, nbytes, diag) : LMC_OK;
    return st_file_blame(file, listed.tensor, status, diag);
}

lmc_status lmc_st_read_stored(const lmc_st_file *file, uint64_t index, uint64_t first_byte, size_t nbytes,
                              void *dst, lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, file->path, NULL, NULL, diag);
    if (status == LMC_OK)
        status = read_stored(file, index, first_byte, nbytes, dst, call.diag);
    return st_call_end(&call, status);
}

/* ---- outputs ---- */

/* What a program gives to be written. */
typedef struct given_content {
    lmc_read_fn read;
    void *user;
    int read_has_failed; /* it has said why */
} given_content;

static lmc_status read_given(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    given_content *const given = user;
    const lmc_status status = given->read(given->user, offset, dst, nbytes);
    given->read_has_failed |= status != LMC_OK;
    return status;
}

/* Writes `content`, which is the source's own or made from it. */
static lmc_status write_copy(const lmc_st_file *source, const os_input *content, const char *out_path,
                             const st_call *call)
{
    os_output output;
    const os_place place = os_place_of(out_path);
    const lmc_st_options *const options = &call->options;
    LMC_TRY(st_file_check_output(source, out_path, options->out_fd, call->diag));
    LMC_TRY(os_output_open(&output, options, &place, &source->input, 1, call->diag));
    lmc_status status = os_output_copy(&output, content, options, call->diag);
    if (status == LMC_OK)
        status = os_input_check_unchanged(&source->input, call->diag);
    return os_output_close(&output, options, status, call->diag);
}

lmc_status lmc_st_write_content(const lmc_st_file *source, const char *out_path, uint64_t nbytes,
                                lmc_read_fn read, void *user, const lmc_st_options *options,
                                lmc_st_diag *diag)
{
    st_call call;
    given_content given = {.read = read, .user = user};
    os_input content;
    os_input_open_from(&content, read_given, &given, nbytes);
    lmc_status status = st_call_begin(&call, source->path, options, NULL, diag);
    if (status == LMC_OK)
        status = write_copy(source, &content, out_path, &call);
    if (given.read_has_failed)
        call.given_diag = NULL;
    return st_call_end(&call, status);
}

static lmc_status cat_file(const char *in_path, st_call *call)
{
    static const char out_path[] = "standard output";
    lmc_st_file *source = NULL;
    if (call->options.out_fd < 0)
        return st_fail(call->diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "there is no descriptor to write to");
    lmc_status status = st_file_open_input(in_path, &call->options, &source, call->diag);
    if (status == LMC_OK && source->is_archive) {
        const os_place place = os_place_of(out_path);
        /* a stream was collected in a temporary file, which is read again */
        call->options.in_fd = call->options.in_fd < 0 ? -1 : source->input.fd;
        status = st_restore_file(in_path, &place, &call->options, call->result, call->diag);
    } else if (status == LMC_OK) {
        status = write_copy(source, &source->input, out_path, call);
    }
    lmc_st_close(source);
    return status;
}

lmc_status lmc_st_cat(const char *in_path, const lmc_st_options *options, lmc_st_result *result,
                      lmc_st_diag *diag)
{
    st_call call;
    lmc_status status = st_call_begin(&call, in_path, options, result, diag);
    if (status == LMC_OK)
        status = cat_file(in_path, &call);
    return st_call_end(&call, status);
}
