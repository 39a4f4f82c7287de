/*
 * random_frames.c - writes frames of random contents and settings, for the reference decoder to read.
 *
 *     random_frames SEED COUNT DIR     writes DIR/0.lmc, DIR/0.bin, DIR/1.lmc, ...; DIR/0.base if it needs one
 */
#include "../vectors/changes.h"
#include "../vectors/matrices.h"
#include <lmc_experimental.h>
#include <stdio.h>
#include <stdlib.h>

enum { CONTENT_NBYTES_MAX = 1 << 15 };

static unsigned char content[CONTENT_NBYTES_MAX];
static unsigned char base[2 * CONTENT_NBYTES_MAX];
static unsigned char decoded[CONTENT_NBYTES_MAX];

static void fail(const char *what)
{
    fprintf(stderr, "random_frames: %s\n", what);
    exit(1);
}

static void write_file(const char *directory, unsigned number, const char *suffix, const void *data,
                       size_t nbytes)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%u%s", directory, number, suffix);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, nbytes, file) != nbytes || fclose(file) != 0)
        fail("cannot write a file");
}

/* Each size of a size class is as likely as any: short frames, few values, several blocks. */
static size_t random_nbytes(contents_rng *rng)
{
    return 1 + contents_below(rng, 1u << (6 + contents_below(rng, 10)));
}

/* Rows and columns of different scale, in most cases by the rows that the encoder is told. */
static size_t random_matrix(contents_rng *rng, lmc_params *params)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_F8_E4M3, LMC_DTYPE_F8_E5M2, LMC_DTYPE_F16,
                                       LMC_DTYPE_BF16,    LMC_DTYPE_F32,     LMC_DTYPE_F64};
    contents_matrix matrix = {.column_count = 30 + contents_below(rng, 1u << contents_below(rng, 11)),
                              .row_octaves = contents_below(rng, 9),
                              .column_octaves = contents_below(rng, 9),
                              .outliers = contents_below(rng, 2) * 100,
                              .constant_first = contents_below(rng, CONTENT_NBYTES_MAX)};
    const size_t nbytes = CONTENT_NBYTES_MAX - contents_below(rng, CONTENT_NBYTES_MAX / 2);
    matrix.constant_end = matrix.constant_first + contents_below(rng, 4000);
    params->dtype = dtypes[contents_below(rng, sizeof dtypes / sizeof dtypes[0])];
    if (contents_below(rng, 8) > 0)
        params->row_nbytes = matrix.column_count * contents_unit_nbytes(params->dtype);
    contents_fill_matrix(rng, &matrix, params->dtype, content, nbytes);
    return nbytes;
}

/* Pieces of different kinds, one after another. */
static size_t random_content(contents_rng *rng, lmc_dtype dtype)
{
    size_t nbytes = random_nbytes(rng);
    unsigned piece_count = contents_below(rng, 3) ? 1 : 1 + contents_below(rng, 4);
    for (unsigned i = 0; i < piece_count; i++) {
        size_t first = nbytes * i / piece_count / 8 * 8;
        contents_kind kind = (contents_kind)contents_below(rng, CONTENTS_KIND_COUNT);
        contents_fill(rng, kind, dtype, content + first, nbytes - first);
    }
    return nbytes;
}

/* Says so in params, if the base is of another dtype. */
static void make_base(contents_rng *rng, lmc_params *params, size_t nbytes)
{
    changes_kind kind = (changes_kind)contents_below(rng, CHANGES_KIND_COUNT);
    if (params->dtype == LMC_DTYPE_BF16 && nbytes % 2 == 0 && contents_below(rng, 2)) {
        params->base_form = LMC_BASE_BF16_OF_F32;
        changes_fill_f32(rng, kind, content, base, nbytes);
    } else if (params->dtype == LMC_DTYPE_F16 && nbytes % 2 == 0 && contents_below(rng, 4)) {
        params->base_form = contents_below(rng, 2) ? LMC_BASE_F16_OF_F32 : LMC_BASE_F16_OF_BF16;
        changes_fill_f16(rng, kind, params->base_form == LMC_BASE_F16_OF_F32 ? 4 : 2, content, base, nbytes);
    } else {
        changes_fill(rng, kind, params->dtype, content, base, nbytes);
    }
}

/* The frame, to be freed. `base_or_null`: what it is encoded against, and must decode with. */
static unsigned char *encode(lmc_ctx *ctx, const lmc_params *params, size_t nbytes, const void *base_or_null,
                             size_t *frame_nbytes)
{
    const lmc_rounding *const rounding = lmc_base_rounding(params->base_form);
    const size_t base_nbytes = (rounding ? rounding->scale : 1) * nbytes;
    size_t capacity = 0, decoded_nbytes = 0;
    if (lmc_encode_bound(params, nbytes, &capacity) != LMC_OK)
        fail("lmc_encode_bound failed");
    unsigned char *frame = malloc(capacity);
    if (!frame || lmc_encode_delta(ctx, params, content, nbytes, base_or_null, base_nbytes, frame, capacity,
                                   frame_nbytes) != LMC_OK)
        fail("lmc_encode failed");
    if (lmc_decode_delta(ctx, frame, *frame_nbytes, base_or_null, base_nbytes, decoded, sizeof decoded,
                         &decoded_nbytes) != LMC_OK ||
        decoded_nbytes != nbytes || memcmp(decoded, content, nbytes) != 0)
        fail("lmc_decode does not give back what was encoded");
    return frame;
}

/* With any byte of its base changed, a frame is refused for that alone. */
static void refuses_another_base(lmc_ctx *ctx, contents_rng *rng, const unsigned char *frame,
                                 size_t frame_nbytes, size_t base_nbytes)
{
    size_t decoded_nbytes = 0;
    unsigned char *changed = base + contents_next(rng) % base_nbytes;
    *changed ^= 0x40;
    if (lmc_decode_delta(ctx, frame, frame_nbytes, base, base_nbytes, decoded, sizeof decoded,
                         &decoded_nbytes) != LMC_ERR_BASE)
        fail("another base is not refused as such");
    *changed ^= 0x40;
}

static void make(lmc_ctx *ctx, contents_rng *rng, unsigned number, const char *directory)
{
    lmc_params params;
    lmc_params_init(&params);
    params.dtype = (lmc_dtype)contents_below(rng, LMC_DTYPE_COUNT);
    params.level = (lmc_level)contents_below(rng, 3);
    params.block_log2 = contents_below(rng, 4) ? LMC_BLOCK_LOG2_MIN + contents_below(rng, 4) : 0;
    params.row_nbytes = (uint32_t)contents_next(rng);
    const int is_matrix = contents_below(rng, 3) == 0;
    size_t nbytes = is_matrix ? random_matrix(rng, &params) : random_content(rng, params.dtype);

    int has_base = !is_matrix && contents_below(rng, 3) != 0;
    if (has_base)
        make_base(rng, &params, nbytes);

    size_t frame_nbytes = 0;
    unsigned char *frame = encode(ctx, &params, nbytes, has_base ? base : NULL, &frame_nbytes);
    lmc_info info = LMC_INIT(lmc_info);
    if (lmc_frame_read_info(frame, frame_nbytes, &info, NULL) != LMC_OK)
        fail("lmc_frame_read_info failed");
    write_file(directory, number, ".lmc", frame, frame_nbytes);
    write_file(directory, number, ".bin", content, nbytes);
    if (info.base_nbytes > 0) {
        refuses_another_base(ctx, rng, frame, frame_nbytes, (size_t)info.base_nbytes);
        write_file(directory, number, ".base", base, (size_t)info.base_nbytes);
    }
    free(frame);
}

int main(int argc, char **argv)
{
    lmc_ctx *ctx;
    if (argc != 4) {
        fprintf(stderr, "usage: random_frames SEED COUNT DIR\n");
        return 2;
    }
    if (lmc_ctx_create(NULL, &ctx) != LMC_OK)
        fail("lmc_ctx_create failed");
    contents_rng rng = {strtoull(argv[1], NULL, 10)};
    unsigned count = (unsigned)strtoul(argv[2], NULL, 10);
    for (unsigned i = 0; i < count; i++)
        make(ctx, &rng, i, argv[3]);
    lmc_ctx_free(ctx);
    return 0;
}
