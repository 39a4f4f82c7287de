/*
 * random_frames.c - writes frames of random contents and settings, for the reference decoder to read.
 *
 *     random_frames SEED COUNT DIR     writes DIR/0.lmc, DIR/0.bin, DIR/1.lmc, ...
 */
#include "../vectors/contents.h"
#include <stdio.h>
#include <stdlib.h>

enum { CONTENT_NBYTES_MAX = 1 << 15 };

static unsigned char content[CONTENT_NBYTES_MAX];
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
    if (!file || fwrite(data, 1, nbytes, file) != nbytes || fclose(file) != 0) {
        fail("cannot write a file");
    }
}

/* Each size of a size class is as likely as any: short frames, few values, several blocks. */
static size_t random_nbytes(contents_rng *rng)
{
    return 1 + contents_below(rng, 1u << (6 + contents_below(rng, 10)));
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

static void make(lmc_ctx *ctx, contents_rng *rng, unsigned number, const char *directory)
{
    lmc_params params;
    lmc_params_init(&params);
    params.dtype = (lmc_dtype)contents_below(rng, LMC_DTYPE_COUNT);
    params.level = (lmc_level)contents_below(rng, 3);
    params.block_log2 = contents_below(rng, 4) ? LMC_BLOCK_LOG2_MIN + contents_below(rng, 4) : 0;
    params.row_nbytes = (uint32_t)contents_next(rng);
    size_t nbytes = random_content(rng, params.dtype);

    size_t capacity = 0, frame_nbytes = 0, decoded_nbytes = 0;
    if (lmc_encode_bound(&params, nbytes, &capacity) != LMC_OK) {
        fail("lmc_encode_bound failed");
    }
    unsigned char *frame = malloc(capacity);
    if (!frame || lmc_encode(ctx, &params, content, nbytes, NULL, frame, capacity, &frame_nbytes) != LMC_OK) {
        fail("lmc_encode failed");
    }
    if (lmc_decode(ctx, frame, frame_nbytes, NULL, decoded, sizeof decoded, &decoded_nbytes) != LMC_OK ||
        decoded_nbytes != nbytes || memcmp(decoded, content, nbytes) != 0) {
        fail("lmc_decode does not give back what was encoded");
    }
    write_file(directory, number, ".lmc", frame, frame_nbytes);
    write_file(directory, number, ".bin", content, nbytes);
    free(frame);
}

int main(int argc, char **argv)
{
    lmc_ctx *ctx;
    if (argc != 4) {
        fprintf(stderr, "usage: random_frames SEED COUNT DIR\n");
        return 2;
    }
    if (lmc_ctx_create(NULL, &ctx) != LMC_OK) {
        fail("lmc_ctx_create failed");
    }
    contents_rng rng = {strtoull(argv[1], NULL, 10)};
    unsigned count = (unsigned)strtoul(argv[2], NULL, 10);
    for (unsigned i = 0; i < count; i++) {
        make(ctx, &rng, i, argv[3]);
    }
    lmc_ctx_free(ctx);
    return 0;
}
