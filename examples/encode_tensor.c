/*
 * encode_tensor.c - the C interface in one small program: encodes a bf16 tensor, decodes it whole and in
 * part, and compares.
 *
 *     cc encode_tensor.c $(pkg-config --cflags --libs lmc) && ./a.out
 */
#include <lmc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_COUNT 300000
#define RANGE_FIRST 123456
#define RANGE_NBYTES 1000

/* Values like those of a trained layer: small, of both signs, dense around zero. */
static void fill_weights(uint16_t *values)
{
    uint32_t state = 1;
    for (size_t i = 0; i < VALUE_COUNT; i++) {
        float weight = 0;
        for (int k = 0; k < 6; k++) {
            state = state * 1664525u + 1013904223u;
            weight += ((float)(state >> 16) / 65536.0f - 0.5f) * 0.05f;
        }
        uint32_t bits;
        memcpy(&bits, &weight, sizeof bits);
        values[i] = (uint16_t)(bits >> 16);
    }
}

/* Encodes and decodes; returns the status of the first call that fails. *frame_nbytes is the frame's size,
 * *same is 1 if what came back is what went in. */
static lmc_status round_trip(lmc_ctx *ctx, const uint16_t *values, size_t nbytes, size_t *frame_nbytes,
                             int *same)
{
    lmc_params params;
    lmc_params_init(&params);
    params.dtype = LMC_DTYPE_BF16;

    size_t bound, decoded_nbytes = 0;
    lmc_status status = lmc_encode_bound(&params, nbytes, &bound);
    if (status != LMC_OK)
        return status;
    unsigned char *const frame = malloc(bound);
    unsigned char *const decoded = malloc(nbytes);
    unsigned char range[RANGE_NBYTES];
    status = frame && decoded ? LMC_OK : LMC_ERR_NOMEM;
    if (status == LMC_OK)
        status = lmc_encode(ctx, &params, values, nbytes, frame, bound, frame_nbytes);
    if (status == LMC_OK)
        status = lmc_decode(ctx, frame, *frame_nbytes, decoded, nbytes, &decoded_nbytes);
    if (status == LMC_OK)
        status = lmc_decode_range(ctx, frame, *frame_nbytes, RANGE_FIRST, RANGE_NBYTES, range);
    *same = status == LMC_OK && decoded_nbytes == nbytes && memcmp(decoded, values, nbytes) == 0 &&
            memcmp(range, decoded + RANGE_FIRST, RANGE_NBYTES) == 0;
    free(decoded);
    free(frame);
    return status;
}

int main(void)
{
    static uint16_t values[VALUE_COUNT];
    size_t frame_nbytes = 0;
    int same = 0;
    lmc_ctx *ctx;
    fill_weights(values);

    lmc_status status = lmc_ctx_create(NULL, &ctx);
    if (status != LMC_OK) {
        fprintf(stderr, "lmc_ctx_create: %s\n", lmc_status_text(status));
        return 1;
    }
    status = round_trip(ctx, values, sizeof(values), &frame_nbytes, &same);
    if (status != LMC_OK) {
        fprintf(stderr, "%s: %s\n", lmc_status_text(status), lmc_ctx_diag(ctx)->text);
    } else {
        printf("LMC %s (%s): %zu bytes became %zu (%.4f), %s\n", lmc_version_text(), lmc_kernels_name(),
               sizeof(values), frame_nbytes, (double)frame_nbytes / (double)sizeof(values),
               same ? "and came back unchanged" : "and CAME BACK CHANGED");
    }
    lmc_ctx_free(ctx);
    return status == LMC_OK && same ? 0 : 1;
}
