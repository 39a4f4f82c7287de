/* bench_peers.c - what people use today: zstd and bzip2, plain and on byte groups, in memory, one thread. */
#include <bzlib.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "bench.h"

typedef struct peer {
    const char *name;
    int grouped; /* bytes of equal significance together first */
    int is_bzip2;
} peer;

static const peer peers[BENCH_PEER_COUNT] = {
    {"zstd -3", 0, 0},
    {"byte groups + zstd -3", 1, 0},
    {"bzip2 -9", 0, 1},
    {"byte groups + bzip2 -9", 1, 1},
};

static void group_bytes(const uint8_t *src, size_t nbytes, unsigned width, uint8_t *dst)
{
    const size_t n = nbytes / width;
    for (size_t i = 0; i < n; i++)
        for (unsigned k = 0; k < width; k++)
            dst[k * n + i] = src[i * width + k];
}

static void ungroup_bytes(const uint8_t *src, size_t nbytes, unsigned width, uint8_t *dst)
{
    const size_t n = nbytes / width;
    for (size_t i = 0; i < n; i++)
        for (unsigned k = 0; k < width; k++)
            dst[i * width + k] = src[k * n + i];
}

/* Compresses nbytes to dst; returns the size, or 0. */
static size_t compress_with(const peer *p, const uint8_t *src, size_t nbytes, uint8_t *dst, size_t capacity)
{
    if (p->is_bzip2) {
        unsigned size = (unsigned)capacity;
        const int ok =
            BZ2_bzBuffToBuffCompress((char *)dst, &size, (char *)(uintptr_t)src, (unsigned)nbytes, 9, 0, 0);
        return ok == BZ_OK ? size : 0;
    }
    const size_t size = ZSTD_compress(dst, capacity, src, nbytes, 3);
    return ZSTD_isError(size) ? 0 : size;
}

static size_t decompress_with(const peer *p, const uint8_t *src, size_t nbytes, uint8_t *dst, size_t capacity)
{
    if (p->is_bzip2) {
        unsigned size = (unsigned)capacity;
        const int ok =
            BZ2_bzBuffToBuffDecompress((char *)dst, &size, (char *)(uintptr_t)src, (unsigned)nbytes, 0, 0);
        return ok == BZ_OK ? size : 0;
    }
    const size_t size = ZSTD_decompress(dst, capacity, src, nbytes);
    return ZSTD_isError(size) ? 0 : size;
}

typedef struct peer_buffers {
    uint8_t *packed, *grouped, *back;
    size_t capacity;
} peer_buffers;

static int measure_once(const bench_data *data, const peer *p, const peer_buffers *b, bench_row *row)
{
    const size_t nbytes = row->tensor_nbytes;
    const double begin = bench_now();
    memcpy(b->back, data->bytes, nbytes);
    const double start = bench_now();
    if (p->grouped)
        group_bytes(data->bytes, nbytes, data->element_nbytes, b->grouped);
    const size_t packed =
        compress_with(p, p->grouped ? b->grouped : data->bytes, nbytes, b->packed, b->capacity);
    const double encoded = bench_now();
    const size_t size = decompress_with(p, b->packed, packed, p->grouped ? b->grouped : b->back, nbytes);
    if (p->grouped)
        ungroup_bytes(b->grouped, nbytes, data->element_nbytes, b->back);
    const double decoded = bench_now();
    row->ratio = (double)packed / (double)nbytes;
    row->copy = bench_faster(row->copy, (double)nbytes, start - begin);
    row->encode = bench_faster(row->encode, (double)nbytes, encoded - start);
    row->decode = bench_faster(row->decode, (double)nbytes, decoded - encoded);
    return packed != 0 && size == nbytes && memcmp(b->back, data->bytes, nbytes) == 0 ? 0 : -1;
}

int bench_peers(const bench_data *data, size_t limit, unsigned repeats, bench_row *rows)
{
    const size_t wanted = data->nbytes < limit ? data->nbytes : limit;
    const size_t nbytes = wanted / data->element_nbytes * data->element_nbytes;
    peer_buffers b = {.capacity = nbytes + nbytes / 64 + 4096};
    b.packed = malloc(b.capacity);
    b.grouped = malloc(nbytes);
    b.back = malloc(nbytes);
    int failed = !b.packed || !b.grouped || !b.back;
    for (unsigned i = 0; i < BENCH_PEER_COUNT && !failed; i++) {
        rows[i] = (bench_row){.codec = peers[i].name, .kernels = "-"};
        rows[i].tensor_nbytes = rows[i].pass_nbytes = nbytes;
        for (unsigned k = 0; k < (peers[i].is_bzip2 ? 1 : repeats) && !failed; k++)
            failed = measure_once(data, &peers[i], &b, &rows[i]) != 0;
    }
    free(b.packed);
    free(b.grouped);
    free(b.back);
    return failed ? -1 : 0;
}
