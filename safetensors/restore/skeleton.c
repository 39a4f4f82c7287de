/*
 * skeleton.c - the skeleton of an archive is delivered, or only verified.
 */
#include "safetensors/restore/skeleton.h"

#include <string.h>

/* Bytes that are delivered at once. */
#define PART_NBYTES ((size_t)256 << 10)

lmc_status st_skeleton_begin(st_skeleton_delivery *delivery, const st_restoration *restoration,
                             lmc_st_diag *diag)
{
    *delivery = (st_skeleton_delivery){.restoration = restoration};
    return restoration->with_skeleton ? st_skeleton_open(&delivery->skeleton, restoration->source, diag)
                                      : LMC_OK;
}

void st_skeleton_end(st_skeleton_delivery *delivery)
{
    st_buffer_free(&delivery->restoration->source->memory, &delivery->expected);
    st_skeleton_close(&delivery->skeleton);
}

static lmc_status compare_bytes(st_skeleton_delivery *delivery, uint64_t offset, const unsigned char *bytes,
                                size_t nbytes, lmc_st_diag *diag)
{
    const st_restoration *const restoration = delivery->restoration;
    const lmc_st_file *const source = restoration->source;
    unsigned char *const expected = st_buffer_grow(&source->memory, &delivery->expected, PART_NBYTES);
    if (!expected)
        return st_fail_nomem(diag);
    const lmc_status status = os_input_read(restoration->original, offset, expected, nbytes, diag);
    if (status != LMC_OK) {
        st_diag_set_file(diag, restoration->original_path);
        return status;
    }
    if (memcmp(expected, bytes, nbytes) == 0)
        return LMC_OK;
    return st_fail(diag, LMC_ERR_CHECKSUM, LMC_ST_NO_OFFSET, "the archive has %s than the file",
                   source->container == LMC_ST_CONTAINER_SAFETENSORS ? "another header"
                                                                     : "other bytes between the tensors");
}

static lmc_status deliver_part(st_skeleton_delivery *delivery, uint64_t offset, const unsigned char *bytes,
                               size_t nbytes, lmc_st_diag *diag)
{
    const st_restoration *const restoration = delivery->restoration;
    if (st_is_cancelled(restoration->options->cancel))
        return st_fail_cancelled(diag);
    if (restoration->sha256)
        st_sha256_update(restoration->sha256, bytes, nbytes);
    if (restoration->output)
        ST_TRY(os_output_write(restoration->output, offset, bytes, nbytes, diag));
    return restoration->original ? compare_bytes(delivery, offset, bytes, nbytes, diag) : LMC_OK;
}

lmc_status st_skeleton_deliver(st_skeleton_delivery *delivery, size_t index, lmc_st_diag *diag)
{
    const st_restoration *const restoration = delivery->restoration;
    if (!restoration->with_skeleton)
        return LMC_OK;
    const st_header *const header = &restoration->source->header;
    const uint64_t end = st_skeleton_before(restoration->source, index);
    /* bytes of tensors that stand before it */
    const uint64_t data_nbytes =
        index < header->tensor_count ? header->tensors[index].begin : header->data_nbytes;
    while (delivery->at < end) {
        const unsigned char *bytes = NULL;
        size_t nbytes = end - delivery->at < PART_NBYTES ? (size_t)(end - delivery->at) : PART_NBYTES;
        ST_TRY(st_skeleton_get(&delivery->skeleton, delivery->at, &bytes, &nbytes, diag));
        ST_TRY(deliver_part(delivery, delivery->at + data_nbytes, bytes, nbytes, diag));
        delivery->at += nbytes;
    }
    return LMC_OK;
}

lmc_status st_skeleton_check(const lmc_st_file *source, lmc_st_diag *diag)
{
    st_skeleton skeleton;
    lmc_status status = st_skeleton_open(&skeleton, source, diag);
    uint64_t at = 0;
    while (at < source->skeleton.nbytes && status == LMC_OK) {
        const unsigned char *bytes = NULL;
        size_t nbytes = ST_SKELETON_PIECE_NBYTES;
        status = st_skeleton_get(&skeleton, at, &bytes, &nbytes, diag);
        at += nbytes;
    }
    st_skeleton_close(&skeleton);
    return status;
}
