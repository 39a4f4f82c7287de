/*
 * round_trip.c - fuzz target: any bytes as content.
 *
 * The first four bytes choose dtype, level, block size and threads; the rest is encoded, must stay within
 * the bound, and must come back.
 */
#include "fuzz.h"

#include <lmc.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes < 4) {
        return 0;
    }
    lmc_params params;
    lmc_params_init(&params);
    params.dtype = (lmc_dtype)(data[0] % LMC_DTYPE_COUNT);
    params.level = (lmc_level)(data[1] % 3);
    params.block_log2 = data[2] % 12 == 0 ? 0 : LMC_BLOCK_LOG2_MIN + data[2] % 11;
    params.thread_count = 1 + data[3] % 3;
    const size_t content_nbytes = nbytes - 4;
    const uint8_t *const content = data + 4;

    lmc_ctx *ctx = NULL;
    FUZZ_CLAIM(lmc_ctx_create(NULL, &ctx) == LMC_OK);
    size_t bound, frame_nbytes, got;
    FUZZ_CLAIM(lmc_encode_bound(&params, content_nbytes, &bound) == LMC_OK);
    uint8_t *const frame = fuzz_malloc(bound);
    FUZZ_CLAIM(lmc_encode(ctx, &params, content, content_nbytes, NULL, frame, bound, &frame_nbytes) ==
               LMC_OK);
    FUZZ_CLAIM(frame_nbytes <= content_nbytes + LMC_FRAME_OVERHEAD_MAX);

    /* an exact copy: a read past the frame's end is seen */
    uint8_t *const exact = fuzz_malloc(frame_nbytes);
    memcpy(exact, frame, frame_nbytes);
    uint8_t *const back = fuzz_malloc(content_nbytes);
    FUZZ_CLAIM(lmc_decode(ctx, exact, frame_nbytes, NULL, back, content_nbytes, &got) == LMC_OK);
    FUZZ_CLAIM(got == content_nbytes && memcmp(back, content, content_nbytes) == 0);

    free(back);
    free(exact);
    free(frame);
    lmc_ctx_free(ctx);
    return 0;
}
