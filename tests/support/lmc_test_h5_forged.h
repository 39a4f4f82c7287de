/*
 * lmc_test_h5_forged.h - a chunk of the HDF5 filter that is put together frame by frame. Its head has the right check.
 */
#ifndef LMC_TEST_H5_FORGED_H
#define LMC_TEST_H5_FORGED_H

#include "lmc_test_h5.h"

#include "filter/chunk/chunk_head.h"

#define FORGED_MAX 100000

static lmc_ctx *ctx;
static h5_room room;

/* Frames go in, the head is written last. */
static struct {
    uint8_t frames[FORGED_MAX];
    size_t nbytes;
    uint32_t frame_nbytes[H5_WIRE_WIDTH_MAX];
    unsigned frame_count;
    uint8_t bytes[FORGED_MAX]; /* the result */
    size_t stored_nbytes;
} f;

/* base: NULL for none. Returns the frame's mode. */
static unsigned add_frame(const uint8_t *content, size_t nbytes, lmc_dtype dtype, lmc_base_form form,
                          const uint8_t *base)
{
    lmc_params params;
    size_t made = 0;
    lmc_params_init(&params);
    params.dtype = dtype;
    params.base_form = form;
    CU_ASSERT_EQUAL_FATAL(lmc_encode_delta(ctx, &params, content, nbytes, base,
                                           base ? nbytes * (form == LMC_BASE_PLAIN ? 1 : 2) : 0,
                                           f.frames + f.nbytes, sizeof f.frames - f.nbytes, &made),
                          LMC_OK);
    const unsigned mode = f.frames[f.nbytes + 6];
    f.frame_nbytes[f.frame_count++] = (uint32_t)made;
    f.nbytes += made;
    return mode;
}

static void finish(unsigned layout, unsigned swap, unsigned width, unsigned row_count)
{
    lmc_h5_head head = {.layout = layout, .swap_nbytes = swap, .width = width, .row_count = row_count};
    lmc_h5_head_complete(&head);
    lmc_h5_head_write(&head, f.frame_nbytes, f.bytes);
    memcpy(f.bytes + head.nbytes, f.frames, f.nbytes);
    f.stored_nbytes = head.nbytes + f.nbytes;
    f.nbytes = f.frame_count = 0;
}

/* Little-endian. */
static void store(uint8_t *p, uint64_t value, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

/* Reverses every `swap` bytes; 0: none. */
static void swap_bytes(uint8_t *p, size_t nbytes, size_t swap)
{
    for (size_t i = 0; swap && i + swap <= nbytes; i += swap)
        for (size_t j = 0; j < swap / 2; j++) {
            const uint8_t byte = p[i + j];
            p[i + j] = p[i + swap - 1 - j];
            p[i + swap - 1 - j] = byte;
        }
}

#endif
