/*
 * round_trip.c - fuzz target: any bytes as content, and as base.
 *
 * The first four bytes choose dtype, level, block size, threads, where the base comes from and the length of a row;
 * the rest is content and base. The content is encoded, must stay within the bound, and must come back; with another
 * base it must not.
 */
#include "fuzz.h"

#include <lmc.h>
#include <lmc_experimental.h>

#define SETTINGS_NBYTES 4

typedef struct fuzz_input {
    lmc_params params;
    unsigned thread_count;
    size_t content_nbytes, base_nbytes;
    uint8_t *content, *base; /* from malloc; base: NULL for none */
} fuzz_input;

static uint8_t *copy_of(const uint8_t *src, size_t nbytes)
{
    uint8_t *const copy = fuzz_malloc(nbytes);
    if (nbytes > 0)
        memcpy(copy, src, nbytes);
    return copy;
}

/* Few or many bits flip, by numbers that the base gives. */
static void change(uint8_t *content, size_t nbytes, unsigned rarity)
{
    uint32_t state = 2463534242u;
    for (size_t i = 0; i < nbytes; i++) {
        state ^= state << 13 ^ content[i];
        state ^= state >> 17;
        state ^= state << 5;
        if (state % (1 + rarity * rarity) == 0)
            content[i] ^= (uint8_t)(1u << (state >> 24) % 8 >> (state >> 28) % 4);
    }
}

/* 0: the length of a row is not known. */
static uint32_t choose_row_nbytes(unsigned choice, lmc_dtype dtype)
{
    static const uint16_t column_counts[] = {0,   32,  33,  40,  63,  64,  65,   96,   100,  128,  192,
                                             200, 255, 256, 257, 384, 999, 1024, 4096, 4097, 65535};
    const unsigned count = sizeof column_counts / sizeof column_counts[0];
    const uint32_t row_nbytes = column_counts[choice % count] * (lmc_dtype_nbits(dtype) + 7) / 8;
    return choice >= count ? row_nbytes + 1 : row_nbytes;
}

/* No base; the second half of the rest; the rest, of which the content is a changed copy; or the F32 of a BF16. */
static void read_input(const uint8_t *data, size_t nbytes, fuzz_input *input)
{
    const uint8_t *const rest = data + SETTINGS_NBYTES;
    const size_t rest_nbytes = nbytes - SETTINGS_NBYTES;
    const unsigned source = data[3] / 3 % 4;
    memset(input, 0, sizeof(*input));
    lmc_params_init(&input->params);
    input->params.dtype = (lmc_dtype)(data[0] % LMC_DTYPE_COUNT);
    input->params.level = (lmc_level)(data[1] % 3);
    input->params.block_log2 = data[2] % 12 == 0 ? 0 : LMC_BLOCK_LOG2_MIN + data[2] % 11;
    input->thread_count = 1 + data[3] % 3;
    input->content_nbytes = source == 1 ? rest_nbytes / 2 : rest_nbytes;
    input->base_nbytes = input->content_nbytes;
    if (source == 3) {
        const int form = 1 + data[3] / 3 % (LMC_BASE_FORM_COUNT - 1);
        const lmc_rounding *const rounding = lmc_base_rounding((lmc_base_form)form);
        input->params.dtype = rounding->dtype;
        input->params.base_form = (lmc_base_form)form;
        input->content_nbytes = rest_nbytes / 6 * 2;
        input->base_nbytes = rounding->scale * input->content_nbytes;
    }
    input->params.row_nbytes = choose_row_nbytes(data[3] / 12, input->params.dtype);
    input->content = copy_of(rest, input->content_nbytes);
    if (source != 0)
        input->base = copy_of(source == 2 ? rest : rest + input->content_nbytes, input->base_nbytes);
    if (source == 2)
        change(input->content, input->content_nbytes, data[1] / 3u);
}

/* A base that differs in one bit is another one. */
static void check_wrong_base(lmc_ctx *ctx, const fuzz_input *input, const uint8_t *frame, size_t frame_nbytes,
                             uint8_t *back)
{
    size_t got;
    lmc_info info = LMC_INIT(lmc_info);
    FUZZ_CLAIM(lmc_frame_read_info(frame, frame_nbytes, &info, NULL) == LMC_OK);
    if (info.mode != LMC_FRAME_DELTA) {
        FUZZ_CLAIM(lmc_decode(ctx, frame, frame_nbytes, back, input->content_nbytes, &got) == LMC_OK);
        return;
    }
    FUZZ_CLAIM(info.base_nbytes == input->base_nbytes);
    uint8_t *const wrong = copy_of(input->base, input->base_nbytes);
    wrong[frame[frame_nbytes - 1] * (input->base_nbytes - 1) / 255] ^=
        (uint8_t)(1u << frame[frame_nbytes - 2] % 8);
    FUZZ_CLAIM(lmc_decode_delta(ctx, frame, frame_nbytes, wrong, input->base_nbytes, back,
                                input->content_nbytes, &got) == LMC_ERR_BASE);
    free(wrong);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes < SETTINGS_NBYTES)
        return 0;
    fuzz_input input;
    read_input(data, nbytes, &input);
    const size_t content_nbytes = input.content_nbytes;

    lmc_ctx *ctx = NULL;
    FUZZ_CLAIM(lmc_ctx_create(NULL, &ctx) == LMC_OK);
    FUZZ_CLAIM(lmc_ctx_set_thread_count(ctx, input.thread_count) == LMC_OK);
    size_t bound, frame_nbytes, got;
    FUZZ_CLAIM(lmc_encode_bound(&input.params, content_nbytes, &bound) == LMC_OK);
    uint8_t *const frame = fuzz_malloc(bound);
    FUZZ_CLAIM(lmc_encode_delta(ctx, &input.params, input.content, content_nbytes, input.base,
                                input.base_nbytes, frame, bound, &frame_nbytes) == LMC_OK);
    FUZZ_CLAIM(frame_nbytes <= content_nbytes + LMC_FRAME_OVERHEAD_MAX);

    /* an exact copy: a read past the frame's end is seen */
    uint8_t *const exact = copy_of(frame, frame_nbytes);
    uint8_t *const back = fuzz_malloc(content_nbytes);
    FUZZ_CLAIM(lmc_decode_delta(ctx, exact, frame_nbytes, input.base, input.base_nbytes, back, content_nbytes,
                                &got) == LMC_OK);
    FUZZ_CLAIM(got == content_nbytes && memcmp(back, input.content, content_nbytes) == 0);
    check_wrong_base(ctx, &input, exact, frame_nbytes, back);

    free(back);
    free(exact);
    free(frame);
    free(input.content);
    free(input.base);
    lmc_ctx_free(ctx);
    return 0;
}
