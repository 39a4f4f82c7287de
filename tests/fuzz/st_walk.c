/*
 * st_walk.c - see st_walk.h.
 */
#include "st_walk.h"
#include "lmc_st_experimental.h"

#include "fuzz.h"
#include "safetensors/archive/handle.h"

#define SMALL_READ_NBYTES 64

/* ---- diagnostics ----------------------------------------------------------------------------------- */

/* One line that ends within `capacity` bytes and has no control characters. */
static void claim_text(const char *text, size_t capacity)
{
    const char *const end = memchr(text, 0, capacity);
    FUZZ_CLAIM(end != NULL);
    for (; text < end; text++)
        FUZZ_CLAIM((unsigned char)*text >= 0x20 && *text != 0x7f);
}

void fuzz_claim_diag(const lmc_st_diag *diag, lmc_status status)
{
    FUZZ_CLAIM(diag->status == status);
    claim_text(diag->file, sizeof(diag->file));
    claim_text(diag->tensor, sizeof(diag->tensor));
    claim_text(diag->text, sizeof(diag->text));
    FUZZ_CLAIM((diag->text[0] != '\0') == (status != LMC_OK));
    FUZZ_CLAIM(diag->has_tensor || diag->tensor[0] == '\0');
}

/* ---- what a file says of its tensors --------------------------------------------------------------- */

/* Shape and dtype must give the tensor's size without overflow. */
static void claim_shape(const lmc_st_tensor *tensor)
{
    uint64_t nbits = 1;
    FUZZ_CLAIM(tensor->rank <= LMC_ST_RANK_MAX && (tensor->shape == NULL) == (tensor->rank == 0));
    for (size_t i = 0; i < tensor->rank; i++)
        FUZZ_CLAIM(!__builtin_mul_overflow(nbits, tensor->shape[i], &nbits));
    FUZZ_CLAIM(!__builtin_mul_overflow(nbits, (uint64_t)lmc_dtype_nbits(tensor->dtype), &nbits));
    FUZZ_CLAIM(nbits % 8 == 0 && nbits / 8 == tensor->nbytes);
}

static void claim_name(const lmc_st_file *file, const lmc_st_tensor *tensor, uint64_t index)
{
    uint64_t found = UINT64_MAX;
    FUZZ_CLAIM(tensor->name[tensor->name_nbytes] == '\0');
    FUZZ_CLAIM(lmc_st_find_tensor_sized(file, tensor->name, tensor->name_nbytes, &found) == 1 &&
               found == index);
    /* a longer name, by the NUL that stands there, is another one */
    if (lmc_st_find_tensor_sized(file, tensor->name, tensor->name_nbytes + 1, &found))
        FUZZ_CLAIM(found != index);
}

static void claim_info(const lmc_st_file *file, uint64_t index, uint64_t data_offset, lmc_st_tensor *tensor)
{
    FUZZ_CLAIM(lmc_st_tensor_info(file, index, tensor) == LMC_OK);
    FUZZ_CLAIM(tensor->data_offset == data_offset || tensor->view_of != index);
    FUZZ_CLAIM(strcmp(tensor->dtype_name, lmc_dtype_name(tensor->dtype)) == 0);
    FUZZ_CLAIM(lmc_st_is_archive(file) || tensor->view_of != index ||
               tensor->stored_nbytes == tensor->storage_nbytes);
    FUZZ_CLAIM(tensor->is_view || (tensor->storage_nbytes == tensor->nbytes && tensor->view_of == index));
    FUZZ_CLAIM(tensor->is_view == (tensor->strides != NULL) || tensor->rank == 0);
    FUZZ_CLAIM(tensor->stored_nbytes <= lmc_st_stored_nbytes(file));
    claim_shape(tensor);
    claim_name(file, tensor, index);
}

static void claim_metadata(const lmc_st_file *file)
{
    const char *key, *value;
    size_t key_nbytes, value_nbytes;
    const size_t count = lmc_st_metadata_count(file);
    for (size_t i = 0; i < count; i++) {
        FUZZ_CLAIM(lmc_st_metadata(file, i, &key, &key_nbytes, &value, &value_nbytes) == LMC_OK);
        FUZZ_CLAIM(key[key_nbytes] == '\0' && value[value_nbytes] == '\0');
    }
    FUZZ_CLAIM(lmc_st_metadata(file, count, &key, &key_nbytes, &value, &value_nbytes) == LMC_ERR_ARG);
}

/* ---- reading --------------------------------------------------------------------------------------- */

/* Whether it can be read or not: the sizes that are asked for must not matter. */
static lmc_status read_range(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, uint64_t first,
                             size_t nbytes, const uint8_t *expected)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    uint8_t *const range = fuzz_malloc(nbytes);
    const lmc_status status = lmc_st_read_range(file, ctx, index, first, nbytes, range, &diag);
    fuzz_claim_diag(&diag, status);
    if (expected != NULL)
        FUZZ_CLAIM(status == LMC_OK && memcmp(range, expected + first, nbytes) == 0);
    free(range);
    return status;
}

static void read_parts(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, uint64_t nbytes,
                       const uint8_t *expected)
{
    const size_t half = (size_t)(nbytes / 2);
    read_range(file, ctx, index, 0, half, expected);
    read_range(file, ctx, index, half, (size_t)nbytes - half, expected);
    read_range(file, ctx, index, nbytes / 3, half / 2, expected);
}

static void refuse_reads(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, uint64_t nbytes)
{
    uint8_t byte;
    FUZZ_CLAIM(lmc_st_read_range(file, ctx, index, nbytes, 1, &byte, NULL) == LMC_ERR_ARG);
    FUZZ_CLAIM(lmc_st_read_range(file, ctx, index, nbytes + 1, 0, &byte, NULL) == LMC_ERR_ARG);
    FUZZ_CLAIM(lmc_st_read_range(file, ctx, index, 1, (size_t)nbytes, &byte, NULL) == LMC_ERR_ARG ||
               nbytes == 0);
    FUZZ_CLAIM(nbytes == 0 ||
               lmc_st_read(file, ctx, index, &byte, (size_t)nbytes - 1, NULL) == LMC_ERR_DST_SMALL);
}

/* Reads a tensor whole and in parts. dst: room for its content, or NULL if that is too large. */
static void read_tensor(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, const lmc_st_tensor *tensor,
                        uint8_t *dst, fuzz_walk *walk)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    lmc_st_mode mode;
    const lmc_status mode_status = lmc_st_tensor_mode(file, index, &mode, &diag);
    fuzz_claim_diag(&diag, mode_status);
    FUZZ_CLAIM(mode_status != LMC_OK || lmc_st_mode_name(mode) != NULL);
    lmc_st_mode again;
    lmc_form_info form = LMC_INIT(lmc_form_info);
    const lmc_status form_status = lmc_st_tensor_form(file, index, &again, &form, &diag);
    fuzz_claim_diag(&diag, form_status);
    FUZZ_CLAIM(form_status != LMC_OK || (mode_status == LMC_OK && again == mode));
    FUZZ_CLAIM((form.form == LMC_FORM_PLAIN) == (form.text[0] == '\0'));
    FUZZ_CLAIM(lmc_st_is_archive(file) || mode == LMC_ST_MODE_PLAIN);
    FUZZ_CLAIM(mode_status != LMC_OK || mode != LMC_ST_MODE_ALIAS || tensor->stored_nbytes == 0);
    walk->sensible_nbytes += mode_status == LMC_OK && tensor->view_of == index ? tensor->storage_nbytes : 0;
    refuse_reads(file, ctx, index, tensor->nbytes);
    if (dst == NULL) {
        const uint64_t few = tensor->nbytes < SMALL_READ_NBYTES ? tensor->nbytes : SMALL_READ_NBYTES;
        read_range(file, ctx, index, tensor->nbytes - few, (size_t)few, NULL);
        return;
    }
    uint8_t *const whole = fuzz_malloc((size_t)tensor->nbytes);
    const lmc_status status = lmc_st_read(file, ctx, index, whole, (size_t)tensor->nbytes, &diag);
    fuzz_claim_diag(&diag, status);
    FUZZ_CLAIM(status != LMC_OK || tensor->nbytes == 0 || mode_status == LMC_OK);
    read_parts(file, ctx, index, tensor->nbytes, status == LMC_OK ? whole : NULL);
    if (status == LMC_OK)
        memcpy(dst, whole, (size_t)tensor->nbytes);
    walk->status = walk->status == LMC_OK ? status : walk->status;
    free(whole);
}

/* A view, whose content is no part of the original file as it lies there: that is not put together then. */
static void read_view(const lmc_st_file *file, lmc_ctx *ctx, uint64_t index, const lmc_st_tensor *tensor,
                      uint64_t nbytes_max, fuzz_walk *walk)
{
    uint64_t offset, nbytes;
    uint8_t *const room = tensor->nbytes > nbytes_max ? NULL : fuzz_malloc((size_t)tensor->nbytes);
    FUZZ_CLAIM(tensor->view_of <= index);
    FUZZ_CLAIM(lmc_st_tensor_place(file, index, &offset, &nbytes) == LMC_OK);
    FUZZ_CLAIM(lmc_st_tensor_origin(file, index, &offset, &nbytes) == LMC_OK &&
               nbytes == tensor->storage_nbytes);
    FUZZ_CLAIM(nbytes <= lmc_st_original_nbytes(file) && offset <= lmc_st_original_nbytes(file) - nbytes);
    read_tensor(file, ctx, index, tensor, room, walk);
    walk->has_unread = 1;
    walk->has_views = 1;
    free(room);
}

/* ---- all of it ------------------------------------------------------------------------------------- */

/* Room for the original file; NULL if it is too large. */
static uint8_t *begin_image(const lmc_st_file *file, uint64_t nbytes_max)
{
    size_t header_nbytes;
    const char *const header = lmc_st_header(file, &header_nbytes);
    const uint64_t nbytes = lmc_st_original_nbytes(file);
    FUZZ_CLAIM(header != NULL && lmc_st_skeleton_nbytes(file) <= nbytes);
    if (lmc_st_container_of(file) == LMC_ST_CONTAINER_SAFETENSORS)
        FUZZ_CLAIM(lmc_st_skeleton_nbytes(file) == 8 + header_nbytes);
    return nbytes > nbytes_max ? NULL : fuzz_malloc((size_t)nbytes);
}

/* Reads the skeleton up to `end` to its place behind data_nbytes bytes of tensors. *at: what was read of it. */
static void read_gap(const lmc_st_file *file, uint64_t *at, uint64_t end, uint64_t data_nbytes,
                     fuzz_walk *walk)
{
    FUZZ_CLAIM(*at <= end && end <= lmc_st_skeleton_nbytes(file));
    if (walk->bytes != NULL && *at < end) {
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        const lmc_status status =
            lmc_st_skeleton_read(file, *at, (size_t)(end - *at), walk->bytes + *at + data_nbytes, &diag);
        fuzz_claim_diag(&diag, status);
        walk->status = walk->status == LMC_OK ? status : walk->status;
    }
    *at = end;
}

void fuzz_walk_file(const lmc_st_file *file, uint64_t nbytes_max, fuzz_walk *walk)
{
    uint64_t data_offset = 0, skeleton_at = 0;
    st_listed listed;
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    lmc_st_mode mode;
    lmc_ctx *ctx = NULL;
    FUZZ_CLAIM(lmc_ctx_create(NULL, &ctx) == LMC_OK);
    memset(walk, 0, sizeof(*walk));
    walk->nbytes = (size_t)lmc_st_original_nbytes(file);
    walk->bytes = begin_image(file, nbytes_max);
    claim_metadata(file);

    const uint64_t count = lmc_st_tensor_count(file);
    for (uint64_t i = 0; i < count; i++) {
        claim_info(file, i, data_offset, &tensor);
        if (tensor.view_of != i) { /* they come behind the others */
            read_view(file, ctx, i, &tensor, nbytes_max, walk);
            continue;
        }
        FUZZ_CLAIM(st_file_find_listed(file, i, &listed));
        const uint64_t origin = st_file_origin(file, listed.tensor);
        FUZZ_CLAIM(origin >= data_offset);
        read_gap(file, &skeleton_at, origin - data_offset, data_offset, walk);
        FUZZ_CLAIM(tensor.storage_nbytes <= lmc_st_original_nbytes(file) - origin);
        uint8_t *const place = walk->bytes == NULL ? NULL : walk->bytes + origin;
        if (tensor.is_view)
            read_view(file, ctx, i, &tensor, nbytes_max, walk);
        else
            read_tensor(file, ctx, i, &tensor, place, walk);
        walk->has_unread |= place == NULL || tensor.nbytes == 0;
        data_offset += tensor.storage_nbytes;
    }
    read_gap(file, &skeleton_at, lmc_st_skeleton_nbytes(file), data_offset, walk);
    FUZZ_CLAIM(lmc_st_original_nbytes(file) == lmc_st_skeleton_nbytes(file) + data_offset);
    FUZZ_CLAIM(lmc_st_tensor_info(file, count, &tensor) == LMC_ERR_ARG);
    FUZZ_CLAIM(lmc_st_tensor_mode(file, count, &mode, NULL) == LMC_ERR_ARG);
    lmc_ctx_free(ctx);
    if (walk->has_views) {
        free(walk->bytes);
        walk->bytes = NULL;
    }
}
