/*
 * peers.c - what people use today, in memory, on one thread: zstd and bzip2, plain and on byte groups, and a Huffman
 * code of byte groups.
 */
#include <bzlib.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "bench/codec/bench.h"

typedef struct peer {
    const char *name;
    int is_grouped; /* bytes of equal significance stand together first */
    int is_slow;    /* one pass is enough */
    /* Each returns the bytes it wrote, or 0. */
    size_t (*compress)(const uint8_t *src, size_t nbytes, uint8_t *dst, size_t capacity);
    size_t (*decompress)(const uint8_t *src, size_t nbytes, uint8_t *dst, size_t dst_nbytes);
} peer;

static size_t zstd_compress(const uint8_t *src, size_t nbytes, uint8_t *dst, size_t capacity)
{
    const size_t size = ZSTD_compress(dst, capacity, src, nbytes, 3);
    return ZSTD_isError(size) ? 0 : size;
}

static size_t zstd_decompress(const uint8_t *src, size_t nbytes, uint8_t *dst, size_t dst_nbytes)
{
    const size_t size = ZSTD_decompress(dst, dst_nbytes, src, nbytes);
    return ZSTD_isError(size) ? 0 : size;
}

static size_t bzip2_compress(const uint8_t *src, size_t nbytes, uint8_t *dst, size_t capacity)
{
    unsigned size = (unsigned)capacity;
    char *const input = (char *)(uintptr_t)src;
    const int status = BZ2_bzBuffToBuffCompress((char *)dst, &size, input, (unsigned)nbytes, 9, 0, 0);
    return status == BZ_OK ? size : 0;
}

static size_t bzip2_decompress(const uint8_t *src, size_t nbytes, uint8_t *dst, size_t dst_nbytes)
{
    unsigned size = (unsigned)dst_nbytes;
    char *const input = (char *)(uintptr_t)src;
    const int status = BZ2_bzBuffToBuffDecompress((char *)dst, &size, input, (unsigned)nbytes, 0, 0);
    return status == BZ_OK ? size : 0;
}

static size_t huffman_compress(const uint8_t *src, size_t nbytes, uint8_t *dst, size_t capacity)
{
    (void)capacity;
    return bench_huffman_encode(src, nbytes, dst);
}

static size_t huffman_decompress(const uint8_t *src, size_t nbytes, uint8_t *dst, size_t dst_nbytes)
{
    (void)nbytes;
    bench_huffman_decode(src, dst, dst_nbytes);
    return dst_nbytes;
}

static const peer peers[BENCH_PEER_COUNT] = {
    {"zstd -3", 0, 0, zstd_compress, zstd_decompress},
    {"byte groups + zstd -3", 1, 0, zstd_compress, zstd_decompress},
    {"bzip2 -9", 0, 1, bzip2_compress, bzip2_decompress},
    {"byte groups + bzip2 -9", 1, 1, bzip2_compress, bzip2_decompress},
    {"byte groups + Huffman", 1, 0, huffman_compress, huffman_decompress},
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

typedef struct peer_buffers {
    uint8_t *packed, *grouped, *back;
    size_t capacity;
} peer_buffers;

static int measure_pass(const bench_data *data, const peer *p, const peer_buffers *b, bench_row *row)
{
    const size_t nbytes = row->tensor_nbytes;
    const double begin = bench_now();
    memcpy(b->back, data->bytes, nbytes);
    const double start = bench_now();
    if (p->is_grouped)
        group_bytes(data->bytes, nbytes, data->element_nbytes, b->grouped);
    const size_t packed_nbytes =
        p->compress(p->is_grouped ? b->grouped : data->bytes, nbytes, b->packed, b->capacity);
    const double encoded = bench_now();
    const size_t size = p->decompress(b->packed, packed_nbytes, p->is_grouped ? b->grouped : b->back, nbytes);
    if (p->is_grouped)
        ungroup_bytes(b->grouped, nbytes, data->element_nbytes, b->back);
    const double decoded = bench_now();
    row->ratio = (double)packed_nbytes / (double)nbytes;
    row->copy = bench_faster(row->copy, (double)nbytes, start - begin);
    row->encode = bench_faster(row->encode, (double)nbytes, encoded - start);
    row->decode = bench_faster(row->decode, (double)nbytes, decoded - encoded);
    return packed_nbytes != 0 && size == nbytes && memcmp(b->back, data->bytes, nbytes) == 0 ? 0 : -1;
}

int bench_peers(const bench_data *data, size_t limit, unsigned repeats, bench_row *rows)
{
    const size_t wanted = data->nbytes < limit ? data->nbytes : limit;
    const size_t nbytes = wanted / data->element_nbytes * data->element_nbytes;
    peer_buffers b = {.capacity = nbytes + nbytes / 64 + 4096}; /* enough for every peer */
    b.packed = malloc(b.capacity);
    b.grouped = malloc(nbytes);
    b.back = malloc(nbytes);
    int failed = !b.packed || !b.grouped || !b.back;
    for (unsigned i = 0; i < BENCH_PEER_COUNT && !failed; i++) {
        rows[i] = (bench_row){.codec = peers[i].name, .kernels = "-"};
        rows[i].tensor_nbytes = rows[i].pass_nbytes = nbytes;
        for (unsigned k = 0; k < (peers[i].is_slow ? 1 : repeats) && !failed; k++)
            failed = measure_pass(data, &peers[i], &b, &rows[i]) != 0;
    }
    free(b.packed);
    free(b.grouped);
    free(b.back);
    return failed ? -1 : 0;
}
