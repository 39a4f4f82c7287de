/*
 * make_vectors.c - writes the frozen frames of this folder: NAME.lmc and its content NAME.bin.
 *
 *     make_vectors DIR
 *
 * They were written once and stay: what any version 1 library ever wrote must decode for ever. Run this
 * again only to add frames under new names. See README.md.
 */
#include "matrices.h"
#include <stdio.h>
#include <stdlib.h>

/* docs/format.md, section 2.1 */
enum { FEATURES_OFFSET = 8, FEATURE_OFFSETS = 0x10 };

typedef struct vector {
    const char *name; /* NULL: by the dtype */
    lmc_dtype dtype;
    lmc_level level;
    unsigned block_log2;
    size_t content_nbytes;
    contents_kind kind;
    lmc_frame_mode mode; /* what the frame must be */
} vector;

/* Frames whose plan has columns. */
typedef struct matrix_vector {
    const char *name;
    lmc_dtype dtype;
    lmc_level level;
    unsigned block_log2;
    size_t content_nbytes;
    int has_row_nbytes;
    contents_matrix matrix;
} matrix_vector;

#define SHORT_FRAME(name, dtype, nbytes, kind)                                                   \
    {                                                                                            \
        name, LMC_DTYPE_##dtype, LMC_LEVEL_DEFAULT, 10, nbytes, CONTENTS_##kind, LMC_FRAME_SHORT \
    }
#define STORED_FRAME(name, dtype, nbytes)                                                         \
    {                                                                                             \
        name, LMC_DTYPE_##dtype, LMC_LEVEL_DEFAULT, 10, nbytes, CONTENTS_RANDOM, LMC_FRAME_STORED \
    }
#define DTYPE_FRAME(dtype, nbytes)                                                                \
    {                                                                                             \
        NULL, LMC_DTYPE_##dtype, LMC_LEVEL_DEFAULT, 10, nbytes, CONTENTS_NATURAL, LMC_FRAME_CODED \
    }
#define CODED_FRAME(name, dtype, level, block_log2, nbytes, kind)                                        \
    {                                                                                                    \
        name, LMC_DTYPE_##dtype, LMC_LEVEL_##level, block_log2, nbytes, CONTENTS_##kind, LMC_FRAME_CODED \
    }

static const vector vectors[] = {
    SHORT_FRAME("short_0", F32, 0, RANDOM),
    SHORT_FRAME("short_1", U8, 1, RANDOM),
    SHORT_FRAME("short_3", BF16, 3, RANDOM),
    SHORT_FRAME("short_255", F64, 255, RANDOM),
    STORED_FRAME("stored_256", U8, 256),
    STORED_FRAME("stored_blocks", I16, 3001),

    DTYPE_FRAME(U8, 2700),
    DTYPE_FRAME(BOOL, 2700),
    DTYPE_FRAME(I8, 2700),
    DTYPE_FRAME(F4, 2700),
    DTYPE_FRAME(F6_E2M3, 2700),
    DTYPE_FRAME(F6_E3M2, 2700),
    DTYPE_FRAME(F8_E5M2, 2700),
    DTYPE_FRAME(F8_E4M3, 2700),
    DTYPE_FRAME(F8_E8M0, 2700),
    DTYPE_FRAME(F8_E4M3FNUZ, 2700),
    DTYPE_FRAME(F8_E5M2FNUZ, 2700),
    DTYPE_FRAME(I16, 2 * 1500 + 1),
    DTYPE_FRAME(U16, 2 * 1500),
    DTYPE_FRAME(F16, 2 * 1500),
    DTYPE_FRAME(BF16, 2 * 1500),
    DTYPE_FRAME(I32, 4 * 1500 + 2),
    DTYPE_FRAME(U32, 4 * 1500),
    DTYPE_FRAME(F32, 4 * 1500 + 3),
    DTYPE_FRAME(C64, 4 * 1500),
    DTYPE_FRAME(I64, 8 * 1200 + 5),
    DTYPE_FRAME(U64, 8 * 1200),
    DTYPE_FRAME(F64, 8 * 1200 + 7),

    CODED_FRAME("fast_u8", U8, FAST, 10, 3000, NATURAL),
    CODED_FRAME("fast_bf16", BF16, FAST, 10, 3000, NATURAL),
    CODED_FRAME("fast_f32", F32, FAST, 10, 4400, NATURAL),
    CODED_FRAME("max_u8", U8, MAX, 10, 3000, NATURAL),
    CODED_FRAME("max_bf16", BF16, MAX, 10, 3000, NATURAL),
    CODED_FRAME("max_f32", F32, MAX, 10, 4400, NATURAL),
    CODED_FRAME("one_block", BF16, DEFAULT, 12, 2 * 2345, NATURAL),
    CODED_FRAME("small_bf16", BF16, DEFAULT, 10, 2 * 200, NATURAL),
    CODED_FRAME("small_u8", U8, DEFAULT, 10, 255 + 1024, FEW),
    CODED_FRAME("large_block", U8, DEFAULT, 17, 66001, FEW),

    CODED_FRAME("positive_bf16", BF16, DEFAULT, 10, 3000, POSITIVE),
    CODED_FRAME("positive_f32", F32, DEFAULT, 10, 4401, POSITIVE),
    CODED_FRAME("outliers_bf16", BF16, DEFAULT, 10, 6000, OUTLIERS),
    CODED_FRAME("outliers_f32_max", F32, MAX, 10, 4400, OUTLIERS),
    CODED_FRAME("specials_bf16", BF16, DEFAULT, 10, 3000, SPECIALS),
    CODED_FRAME("specials_f16", F16, DEFAULT, 10, 3000, SPECIALS),
    CODED_FRAME("specials_f64", F64, DEFAULT, 10, 8200, SPECIALS),
    CODED_FRAME("half_zero_bf16", BF16, DEFAULT, 10, 4401, HALF_ZERO),
    CODED_FRAME("half_zero_i32", I32, DEFAULT, 10, 4 * 1100, HALF_ZERO),
    CODED_FRAME("some_zero_bf16", BF16, DEFAULT, 11, 5001, SOME_ZERO),
    CODED_FRAME("most_zero_bf16", BF16, DEFAULT, 10, 4401, MOST_ZERO),
    CODED_FRAME("most_zero_f32", F32, DEFAULT, 11, 8403, MOST_ZERO),
    CODED_FRAME("most_zero_f8", F8_E4M3, DEFAULT, 10, 3000, MOST_ZERO),
    CODED_FRAME("rare_i64", I64, DEFAULT, 10, 8 * 1100 + 3, RARE),
    CODED_FRAME("rare_u8", U8, DEFAULT, 12, 6000, RARE),
    CODED_FRAME("common_i64", I64, DEFAULT, 10, 8 * 1100, COMMON),
    CODED_FRAME("common_u32_max", U32, MAX, 10, 4 * 1100, COMMON),
    CODED_FRAME("coarse_f32", F32, DEFAULT, 10, 4400, COARSE),
    CODED_FRAME("coarse_f64", F64, DEFAULT, 10, 8 * 1050, COARSE),
    CODED_FRAME("spread_u8", U8, DEFAULT, 10, 2500, SPREAD),
    CODED_FRAME("spread_u8_max", U8, MAX, 12, 2500, SPREAD),
    CODED_FRAME("mixed_bf16", BF16, DEFAULT, 10, 2 * 2500, MIXED),
    CODED_FRAME("mixed_u8", U8, DEFAULT, 10, 2500, MIXED),
    CODED_FRAME("constant_f32", F32, DEFAULT, 10, 4 * 1100 + 1, CONSTANT),
};

static const matrix_vector matrix_vectors[] = {
    {"offsets_bf16", LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 11, 2 * 64 * 80, 1, {64, 5, 5, 0, 0, 0}},
    {"offsets_bf16_long_rows",
     LMC_DTYPE_BF16,
     LMC_LEVEL_DEFAULT,
     10,
     2 * 640 * 16 + 1,
     1,
     {640, 6, 3, 0, 0, 0}},
    {"offsets_bf16_columns_100", LMC_DTYPE_BF16, LMC_LEVEL_MAX, 10, 2 * 100 * 60, 1, {100, 5, 5, 0, 0, 0}},
    {"offsets_bf16_columns_only", LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 11, 2 * 96 * 70, 1, {96, 0, 8, 0, 0, 0}},
    {"offsets_bf16_constant",
     LMC_DTYPE_BF16,
     LMC_LEVEL_DEFAULT,
     10,
     2 * 96 * 160,
     1,
     {96, 5, 5, 0, 2048, 3072}},
    {"offsets_bf16_escapes", LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10, 2 * 64 * 80, 1, {64, 5, 5, 300, 0, 0}},
    {"offsets_bf16_no_shape", LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 12, 2 * 512 * 34, 0, {512, 8, 0, 0, 0, 0}},
    {"offsets_f32_escapes",
     LMC_DTYPE_F32,
     LMC_LEVEL_DEFAULT,
     10,
     4 * 128 * 40 + 3,
     1,
     {128, 5, 5, 300, 0, 0}},
    {"offsets_f16", LMC_DTYPE_F16, LMC_LEVEL_DEFAULT, 10, 2 * 80 * 60 + 1, 1, {80, 4, 4, 0, 0, 0}},
    {"offsets_f8_e4m3", LMC_DTYPE_F8_E4M3, LMC_LEVEL_DEFAULT, 11, 128 * 100, 1, {128, 4, 4, 0, 0, 0}},
    {"offsets_f8_e5m2", LMC_DTYPE_F8_E5M2, LMC_LEVEL_DEFAULT, 11, 72 * 150, 1, {72, 6, 6, 0, 0, 0}},
    {"offsets_f64", LMC_DTYPE_F64, LMC_LEVEL_DEFAULT, 10, 8 * 64 * 40 + 7, 1, {64, 6, 6, 0, 0, 0}},
    {"offsets_c64", LMC_DTYPE_C64, LMC_LEVEL_DEFAULT, 10, 4 * 70 * 50, 1, {70, 8, 8, 0, 0, 0}},
};

static void fail(const char *name, const char *what)
{
    fprintf(stderr, "make_vectors: %s: %s\n", name, what);
    exit(1);
}

static void write_file(const char *directory, const char *name, const char *suffix, const void *data,
                       size_t nbytes)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s%s", directory, name, suffix);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, nbytes, file) != nbytes || fclose(file) != 0)
        fail(name, "cannot write the file");
}

/* dtype_bf16 and the like. */
static void name_of_dtype(lmc_dtype dtype, char name[64])
{
    snprintf(name, 64, "dtype_%s", lmc_dtype_name(dtype));
    for (char *c = name; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
}

static uint64_t seed_of_name(const char *name)
{
    uint64_t seed = 1;
    for (; *name; name++)
        seed = seed * 1000003 + (unsigned char)*name;
    return seed;
}

static void verify(lmc_ctx *ctx, lmc_frame_mode mode, const char *name, const unsigned char *content,
                   size_t content_nbytes, const unsigned char *frame, size_t frame_nbytes)
{
    lmc_info info = LMC_INIT(lmc_info);
    if (lmc_frame_read_info(frame, frame_nbytes, &info, NULL) != LMC_OK)
        fail(name, "lmc_frame_read_info failed");
    if (info.mode != mode)
        fail(name, "the frame has another mode");
    unsigned char *decoded = malloc(content_nbytes + 1);
    size_t decoded_nbytes = 0;
    if (!decoded || lmc_decode(ctx, frame, frame_nbytes, decoded, content_nbytes, &decoded_nbytes))
        fail(name, "lmc_decode failed");
    if (decoded_nbytes != content_nbytes || memcmp(decoded, content, decoded_nbytes) != 0)
        fail(name, "decodes to other bytes");
    free(decoded);
}

/* Encodes the content and writes both. Returns the frame, to be freed. */
static unsigned char *encode(lmc_ctx *ctx, const lmc_params *params, lmc_frame_mode mode, const char *name,
                             const unsigned char *content, size_t content_nbytes, const char *directory)
{
    size_t capacity = 0, frame_nbytes = 0;
    if (lmc_encode_bound(params, content_nbytes, &capacity) != LMC_OK)
        fail(name, "lmc_encode_bound failed");
    unsigned char *frame = malloc(capacity);
    if (!frame || lmc_encode(ctx, params, content, content_nbytes, frame, capacity, &frame_nbytes))
        fail(name, "lmc_encode failed");
    verify(ctx, mode, name, content, content_nbytes, frame, frame_nbytes);
    write_file(directory, name, ".lmc", frame, frame_nbytes);
    write_file(directory, name, ".bin", content, content_nbytes);
    printf("%-20s %6zu -> %6zu\n", name, content_nbytes, frame_nbytes);
    return frame;
}

static void make(lmc_ctx *ctx, const vector *v, const char *directory)
{
    char name[64];
    if (v->name)
        snprintf(name, sizeof name, "%s", v->name);
    else
        name_of_dtype(v->dtype, name);
    contents_rng rng = {seed_of_name(name)};
    unsigned char *content = malloc(v->content_nbytes + 1);
    if (!content)
        fail(name, "no memory");
    contents_fill(&rng, v->kind, v->dtype, content, v->content_nbytes);

    lmc_params params;
    lmc_params_init(&params);
    params.dtype = v->dtype;
    params.level = v->level;
    params.block_log2 = v->block_log2;
    params.row_nbytes = contents_below(&rng, 2) ? 64 : 0;
    free(encode(ctx, &params, v->mode, name, content, v->content_nbytes, directory));
    free(content);
}

static void make_matrix(lmc_ctx *ctx, const matrix_vector *v, const char *directory)
{
    contents_rng rng = {seed_of_name(v->name)};
    unsigned char *content = malloc(v->content_nbytes);
    if (!content)
        fail(v->name, "no memory");
    contents_fill_matrix(&rng, &v->matrix, v->dtype, content, v->content_nbytes);
    lmc_params params;
    lmc_params_init(&params);
    params.dtype = v->dtype;
    params.level = v->level;
    params.block_log2 = v->block_log2;
    params.row_nbytes = v->has_row_nbytes ? v->matrix.column_count * contents_unit_nbytes(v->dtype) : 0;
    unsigned char *frame =
        encode(ctx, &params, LMC_FRAME_CODED, v->name, content, v->content_nbytes, directory);
    if ((frame[FEATURES_OFFSET] & FEATURE_OFFSETS) == 0)
        fail(v->name, "the frame has no offsets");
    free(frame);
    free(content);
}

int main(int argc, char **argv)
{
    lmc_ctx *ctx;
    if (argc != 2) {
        fprintf(stderr, "usage: make_vectors DIR\n");
        return 2;
    }
    if (lmc_ctx_create(NULL, &ctx) != LMC_OK)
        fail("lmc_ctx_create", "failed");
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        make(ctx, &vectors[i], argv[1]);
    for (size_t i = 0; i < sizeof matrix_vectors / sizeof matrix_vectors[0]; i++)
        make_matrix(ctx, &matrix_vectors[i], argv[1]);
    lmc_ctx_free(ctx);
    return 0;
}
