/*
 * encode_file.c - encodes a file as one tensor, and decodes it: test_frames.py compares what machines make of a file.
 *
 *     encode_file LEVEL DTYPE FILE FRAME [BASE]
 *
 * LEVEL is a number of lmc_level, DTYPE a name of safetensors.
 */
#include <lmc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "encode_file: %s: %s\n", what, why);
    exit(1);
}

static void demand(lmc_status status, const char *what)
{
    if (status != LMC_OK)
        fail(what, lmc_status_text(status));
}

static unsigned char *allocate(size_t nbytes)
{
    unsigned char *const p = malloc(nbytes + 1);
    if (!p)
        fail("memory", "none left");
    return p;
}

static unsigned char *read_file(const char *path, size_t *nbytes)
{
    FILE *const file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        fail(path, "cannot read it");
    *nbytes = (size_t)ftell(file);
    rewind(file);
    unsigned char *const data = allocate(*nbytes);
    if (fread(data, 1, *nbytes, file) != *nbytes || fclose(file) != 0)
        fail(path, "cannot read it");
    return data;
}

static void write_file(const char *path, const unsigned char *data, size_t nbytes)
{
    FILE *const file = fopen(path, "wb");
    if (!file || fwrite(data, 1, nbytes, file) != nbytes || fclose(file) != 0)
        fail(path, "cannot write it");
}

int main(int argc, char **argv)
{
    lmc_params params;
    lmc_ctx *ctx;
    lmc_params_init(&params);
    if (argc < 5 || argc > 6 || !lmc_dtype_find(argv[2], strlen(argv[2]), &params.dtype))
        fail("usage", "encode_file LEVEL DTYPE FILE FRAME [BASE]");
    params.level = (lmc_level)atoi(argv[1]);

    size_t nbytes, base_nbytes = 0, bound, frame_nbytes, decoded_nbytes;
    unsigned char *const data = read_file(argv[3], &nbytes);
    unsigned char *const base = argc == 6 ? read_file(argv[5], &base_nbytes) : NULL;
    if (base && base_nbytes != nbytes)
        fail(argv[5], "not as long as the other file");
    demand(lmc_ctx_create(NULL, &ctx), "lmc_ctx_create");
    demand(lmc_encode_bound(&params, nbytes, &bound), "lmc_encode_bound");
    unsigned char *const frame = allocate(bound);
    unsigned char *const decoded = allocate(nbytes);
    demand(lmc_encode_delta(ctx, &params, data, nbytes, base, base_nbytes, frame, bound, &frame_nbytes),
           "lmc_encode");
    demand(lmc_decode_delta(ctx, frame, frame_nbytes, base, base_nbytes, decoded, nbytes, &decoded_nbytes),
           "lmc_decode");
    if (decoded_nbytes != nbytes || memcmp(data, decoded, nbytes) != 0)
        fail(argv[3], "came back otherwise");
    write_file(argv[4], frame, frame_nbytes);
    lmc_ctx_free(ctx);
    free(decoded);
    free(frame);
    free(base);
    free(data);
    return 0;
}
