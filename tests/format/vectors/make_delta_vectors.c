/*
 * make_delta_vectors.c - writes the frozen delta frames of this folder: NAME.lmc, its content NAME.bin and its base
 * NAME.base.
 *
 *     make_delta_vectors DIR
 *
 * As make_vectors.c: run this again only to add frames under new names. See README.md.
 */
#include "changes.h"

#include <lmc_experimental.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct vector {
    const char *name;
    lmc_dtype dtype;
    lmc_level level;
    unsigned block_log2;
    size_t content_nbytes;
    contents_kind content;
    changes_kind changes;
    lmc_base_form base_form;
} vector;

#define DELTA(name, dtype, nbytes, content, changes)                                         \
    {                                                                                        \
        "delta_" name, LMC_DTYPE_##dtype, LMC_LEVEL_DEFAULT, 10, nbytes, CONTENTS_##content, \
            CHANGES_##changes, LMC_BASE_PLAIN                                                \
    }
#define DELTA_LEVEL(name, dtype, level, block_log2, nbytes, content, changes)                        \
    {                                                                                                \
        "delta_" name, LMC_DTYPE_##dtype, LMC_LEVEL_##level, block_log2, nbytes, CONTENTS_##content, \
            CHANGES_##changes, LMC_BASE_PLAIN                                                        \
    }
#define DELTA_OF(name, dtype, nbytes, content, changes, form)                                \
    {                                                                                        \
        "delta_" name, LMC_DTYPE_##dtype, LMC_LEVEL_DEFAULT, 10, nbytes, CONTENTS_##content, \
            CHANGES_##changes, LMC_BASE_##form                                               \
    }

static const vector vectors[] = {
    DELTA("bf16_sparse", BF16, 2 * 1050 + 1, NATURAL, SPARSE),
    DELTA("bf16_dense", BF16, 2 * 800, NATURAL, DENSE),
    DELTA("bf16_fixed", BF16, 2 * 1024, NATURAL, FIXED),
    DELTA("bf16_blocks", BF16, 2 * 2300, NATURAL, FIRST),
    DELTA("bf16_jumps", BF16, 2 * 900 + 1, SPECIALS, JUMPS),
    DELTA("bf16_same", BF16, 2 * 1030 + 1, NATURAL, NONE),
    DELTA_LEVEL("bf16_fast", BF16, FAST, 10, 2 * 700, NATURAL, STEPS),
    DELTA_LEVEL("bf16_classes", BF16, MAX, 13, 2 * 2000, NATURAL, FIXED),
    DELTA_OF("bf16_of_f32", BF16, 2 * 1100, NATURAL, RUNS, BF16_OF_F32),
    DELTA_OF("bf16_of_f32_specials", BF16, 2 * 600, SPECIALS, RARE, BF16_OF_F32),
    DELTA("f16_fixed", F16, 2 * 900 + 1, NATURAL, FIXED),
    DELTA("f32_far", F32, 4 * 350 + 3, NATURAL, FAR),
    DELTA("f32_fixed", F32, 4 * 420, NATURAL, FIXED),
    DELTA("c64_flips", C64, 4 * 300 + 2, NATURAL, FLIPS),
    DELTA("f64_far", F64, 8 * 170 + 5, NATURAL, FAR),
    DELTA("f8_e4m3_steps", F8_E4M3, 1500, NATURAL, STEPS),
    DELTA("f8_e5m2_flips", F8_E5M2, 1000, NATURAL, FLIPS),
    DELTA("u8_sparse", U8, 1500, SPREAD, SPARSE),
    DELTA("u8_bits", U8, 1000, RANDOM, BITS),
    DELTA_LEVEL("u8_pairs", U8, DEFAULT, 14, 8300, SPREAD, STEPS),
    DELTA("bool_rare", BOOL, 1800, NATURAL, RARE),
    DELTA("i16_dense", I16, 2 * 800 + 1, NATURAL, DENSE),
    DELTA("u16_bits", U16, 2 * 900, RANDOM, BITS),
    DELTA("i32_far", I32, 4 * 300 + 1, RANDOM, FAR),
    DELTA("u32_jumps", U32, 4 * 300, RANDOM, JUMPS),
    DELTA("i64_steps", I64, 8 * 150 + 3, RANDOM, STEPS),
    DELTA("u64_bits", U64, 8 * 150, RANDOM, BITS),
    DELTA_OF("f16_of_f32", F16, 2 * 1100, NATURAL, RUNS, F16_OF_F32),
    DELTA_OF("f16_of_f32_specials", F16, 2 * 600, SPECIALS, RARE, F16_OF_F32),
    DELTA_OF("f16_of_bf16", F16, 2 * 1100, NATURAL, SPARSE, F16_OF_BF16),
};

static void fail(const char *name, const char *what)
{
    fprintf(stderr, "make_delta_vectors: %s: %s\n", name, what);
    exit(1);
}

static void *must_allocate(const char *name, size_t nbytes)
{
    void *memory = malloc(nbytes);
    if (!memory)
        fail(name, "no memory");
    return memory;
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

static uint64_t seed_of_name(const char *name)
{
    uint64_t seed = 1;
    for (; *name; name++)
        seed = seed * 1000003 + (unsigned char)*name;
    return seed;
}

static void verify(lmc_ctx *ctx, const vector *v, const unsigned char *content, const unsigned char *base,
                   const unsigned char *frame, size_t frame_nbytes)
{
    lmc_info info = LMC_INIT(lmc_info);
    if (lmc_frame_read_info(frame, frame_nbytes, &info, NULL) != LMC_OK)
        fail(v->name, "lmc_frame_read_info failed");
    if (info.mode != LMC_FRAME_DELTA)
        fail(v->name, "is no delta frame");
    unsigned char *decoded = must_allocate(v->name, v->content_nbytes);
    size_t decoded_nbytes = 0;
    if (lmc_decode_delta(ctx, frame, frame_nbytes, base, (size_t)info.base_nbytes, decoded, v->content_nbytes,
                         &decoded_nbytes) != LMC_OK)
        fail(v->name, "lmc_decode failed");
    if (decoded_nbytes != v->content_nbytes || memcmp(decoded, content, decoded_nbytes) != 0)
        fail(v->name, "decodes to other bytes");
    free(decoded);
}

static void make(lmc_ctx *ctx, const vector *v, const char *directory)
{
    contents_rng rng = {seed_of_name(v->name)};
    unsigned char *content = must_allocate(v->name, v->content_nbytes);
    unsigned char *base = must_allocate(v->name, 2 * v->content_nbytes);
    contents_fill(&rng, v->content, v->dtype, content, v->content_nbytes);
    const lmc_rounding *const rounding = lmc_base_rounding(v->base_form);
    if (v->base_form == LMC_BASE_BF16_OF_F32)
        changes_fill_f32(&rng, v->changes, content, base, v->content_nbytes);
    else if (rounding)
        changes_fill_f16(&rng, v->changes, 2 * rounding->scale, content, base, v->content_nbytes);
    else
        changes_fill(&rng, v->changes, v->dtype, content, base, v->content_nbytes);

    lmc_params params;
    lmc_params_init(&params);
    params.dtype = v->dtype;
    params.level = v->level;
    params.block_log2 = v->block_log2;
    params.base_form = v->base_form;
    size_t capacity = 0, frame_nbytes = 0;
    if (lmc_encode_bound(&params, v->content_nbytes, &capacity) != LMC_OK)
        fail(v->name, "lmc_encode_bound failed");
    unsigned char *frame = must_allocate(v->name, capacity);
    const size_t base_nbytes = v->content_nbytes * (rounding ? rounding->scale : 1);
    if (lmc_encode_delta(ctx, &params, content, v->content_nbytes, base, base_nbytes, frame, capacity,
                         &frame_nbytes) != LMC_OK)
        fail(v->name, "lmc_encode failed");
    verify(ctx, v, content, base, frame, frame_nbytes);
    write_file(directory, v->name, ".lmc", frame, frame_nbytes);
    write_file(directory, v->name, ".bin", content, v->content_nbytes);
    write_file(directory, v->name, ".base", base, base_nbytes);
    printf("%-28s %6zu -> %6zu\n", v->name, v->content_nbytes, frame_nbytes);
    free(frame);
    free(base);
    free(content);
}

int main(int argc, char **argv)
{
    lmc_ctx *ctx;
    if (argc != 2) {
        fprintf(stderr, "usage: make_delta_vectors DIR\n");
        return 2;
    }
    if (lmc_ctx_create(NULL, &ctx) != LMC_OK)
        fail("lmc_ctx_create", "failed");
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        make(ctx, &vectors[i], argv[1]);
    lmc_ctx_free(ctx);
    return 0;
}
