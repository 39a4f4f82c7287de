/*
 * methods.c - the methods that lmc-bench-delta compares: LMC's levels; the XOR of both snapshots in byte groups through
 * a coder; and lists of changed values (lists.c).
 */
#include <bzlib.h>
#include <string.h>
#include <zstd.h>

#include "bench/codec/bench.h"
#include "bench/delta/delta.h"

/* ---- LMC ---- */

#define RANGE_NBYTES ((size_t)256 << 10)

static size_t lmc_encode_unit(const delta_method *method, delta_work *work, const delta_unit *unit,
                              const uint8_t *content, const uint8_t *base, uint8_t *dst, size_t capacity)
{
    lmc_params params;
    size_t size;
    lmc_params_init(&params);
    params.dtype = unit->dtype;
    params.level = (lmc_level)method->option;
    if (!unit->has_base)
        base = NULL;
    if (lmc_ctx_set_thread_count(work->lmc, method->thread_count) != LMC_OK)
        return 0;
    return lmc_encode_delta(work->lmc, &params, content, unit->nbytes, base, unit->nbytes, dst, capacity,
                            &size) == LMC_OK
               ? size
               : 0;
}

static size_t lmc_encode_alone(const delta_method *method, delta_work *work, const delta_unit *unit,
                               const uint8_t *content, const uint8_t *base, uint8_t *dst, size_t capacity)
{
    (void)base;
    return lmc_encode_unit(method, work, unit, content, NULL, dst, capacity);
}

static int lmc_decode_unit(const delta_method *method, delta_work *work, const delta_unit *unit,
                           const uint8_t *src, size_t src_nbytes, const uint8_t *base, uint8_t *dst)
{
    size_t size;
    if (lmc_ctx_set_thread_count(work->lmc, method->thread_count) != LMC_OK)
        return -1;
    const lmc_status status =
        lmc_decode_delta(work->lmc, src, src_nbytes, base, unit->nbytes, dst, unit->nbytes, &size);
    return status == LMC_OK && size == unit->nbytes ? 0 : -1;
}

/* All of the content in ranges: each decodes the blocks that it touches, and copies a part. */
static int lmc_decode_ranges(const delta_method *method, delta_work *work, const delta_unit *unit,
                             const uint8_t *src, size_t src_nbytes, const uint8_t *base, uint8_t *dst)
{
    if (lmc_ctx_set_thread_count(work->lmc, method->thread_count) != LMC_OK)
        return -1;
    for (size_t at = 0; at < unit->nbytes; at += RANGE_NBYTES) {
        const size_t left = unit->nbytes - at, nbytes = left < RANGE_NBYTES ? left : RANGE_NBYTES;
        if (lmc_decode_delta_range(work->lmc, src, src_nbytes, base, unit->nbytes, at, nbytes, dst + at) !=
            LMC_OK)
            return -1;
    }
    return 0;
}

/* ---- XOR and byte groups ---- */

static inline void split(const uint8_t *content, const uint8_t *base, size_t n, unsigned width, uint8_t *dst)
{
    for (size_t i = 0; i < n; i++)
        for (unsigned k = 0; k < width; k++)
            dst[k * n + i] = content[i * width + k] ^ base[i * width + k];
}

static inline void join(const uint8_t *src, const uint8_t *base, size_t n, unsigned width, uint8_t *dst)
{
    for (size_t i = 0; i < n; i++)
        for (unsigned k = 0; k < width; k++)
            dst[i * width + k] = src[k * n + i] ^ base[i * width + k];
}

/* The number of groups is a constant in each call, for the compiler to vectorise. */
static void split_unit(const delta_unit *unit, const uint8_t *content, const uint8_t *base, uint8_t *dst)
{
    switch (unit->width) {
    case 1: split(content, base, unit->nbytes, 1, dst); break;
    case 2: split(content, base, unit->nbytes / 2, 2, dst); break;
    case 4: split(content, base, unit->nbytes / 4, 4, dst); break;
    default: split(content, base, unit->nbytes / 8, 8, dst); break;
    }
}

static void join_unit(const delta_unit *unit, const uint8_t *src, const uint8_t *base, uint8_t *dst)
{
    switch (unit->width) {
    case 1: join(src, base, unit->nbytes, 1, dst); break;
    case 2: join(src, base, unit->nbytes / 2, 2, dst); break;
    case 4: join(src, base, unit->nbytes / 4, 4, dst); break;
    default: join(src, base, unit->nbytes / 8, 8, dst); break;
    }
}

static size_t bzip2_encode(const delta_method *method, delta_work *work, const delta_unit *unit,
                           const uint8_t *content, const uint8_t *base, uint8_t *dst, size_t capacity)
{
    unsigned size = capacity < INT32_MAX ? (unsigned)capacity : INT32_MAX;
    split_unit(unit, content, base, work->scratch);
    const int status = BZ2_bzBuffToBuffCompress((char *)dst, &size, (char *)work->scratch,
                                                (unsigned)unit->nbytes, method->option, 0, 0);
    return status == BZ_OK ? size : 0;
}

static int bzip2_decode(const delta_method *method, delta_work *work, const delta_unit *unit,
                        const uint8_t *src, size_t src_nbytes, const uint8_t *base, uint8_t *dst)
{
    (void)method;
    unsigned size = (unsigned)unit->nbytes;
    const int status = BZ2_bzBuffToBuffDecompress((char *)work->scratch, &size, (char *)(uintptr_t)src,
                                                  (unsigned)src_nbytes, 0, 0);
    join_unit(unit, work->scratch, base, dst);
    return status == BZ_OK && size == unit->nbytes ? 0 : -1;
}

static size_t zstd_encode(const delta_method *method, delta_work *work, const delta_unit *unit,
                          const uint8_t *content, const uint8_t *base, uint8_t *dst, size_t capacity)
{
    split_unit(unit, content, base, work->scratch);
    const size_t size =
        ZSTD_compressCCtx(work->zstd_out, dst, capacity, work->scratch, unit->nbytes, method->option);
    return ZSTD_isError(size) ? 0 : size;
}

static int zstd_decode(const delta_method *method, delta_work *work, const delta_unit *unit,
                       const uint8_t *src, size_t src_nbytes, const uint8_t *base, uint8_t *dst)
{
    (void)method;
    const size_t size =
        ZSTD_decompressDCtx(work->zstd_in, work->scratch, work->scratch_nbytes, src, src_nbytes);
    join_unit(unit, work->scratch, base, dst);
    return size == unit->nbytes ? 0 : -1;
}

/* Blocks do not reach from one byte group into the next. */
static size_t huffman_encode(const delta_method *method, delta_work *work, const delta_unit *unit,
                             const uint8_t *content, const uint8_t *base, uint8_t *dst, size_t capacity)
{
    (void)method, (void)capacity;
    const size_t n = unit->nbytes / unit->width;
    size_t size = 0;
    split_unit(unit, content, base, work->scratch);
    for (unsigned k = 0; k < unit->width; k++) {
        const size_t group_nbytes = bench_huffman_encode(work->scratch + k * n, n, dst + size + 4);
        memcpy(dst + size, &(uint32_t){(uint32_t)group_nbytes}, 4);
        size += 4 + group_nbytes;
    }
    return size;
}

static int huffman_decode(const delta_method *method, delta_work *work, const delta_unit *unit,
                          const uint8_t *src, size_t src_nbytes, const uint8_t *base, uint8_t *dst)
{
    (void)method, (void)src_nbytes;
    const size_t n = unit->nbytes / unit->width;
    for (unsigned k = 0; k < unit->width; k++) {
        uint32_t group_nbytes;
        memcpy(&group_nbytes, src, 4);
        bench_huffman_decode(src + 4, work->scratch + k * n, n);
        src += 4 + group_nbytes;
    }
    join_unit(unit, work->scratch, base, dst);
    return 0;
}

/* ---- all of them ---- */

const delta_method delta_methods[] = {
    {"lmc fast", 1, 0, LMC_LEVEL_FAST, 0, 1, lmc_encode_unit, lmc_decode_unit},
    {"lmc default", 1, 0, LMC_LEVEL_DEFAULT, 0, 1, lmc_encode_unit, lmc_decode_unit},
    {"lmc max", 1, 0, LMC_LEVEL_MAX, 0, 1, lmc_encode_unit, lmc_decode_unit},
    {"lmc default, 2 threads", 1, 0, LMC_LEVEL_DEFAULT, 0, 2, lmc_encode_unit, lmc_decode_unit},
    {"lmc default, ranges", 1, 1, LMC_LEVEL_DEFAULT, 0, 1, lmc_encode_unit, lmc_decode_ranges},
    {"lmc default, no base", 1, 0, LMC_LEVEL_DEFAULT, 0, 1, lmc_encode_alone, lmc_decode_unit},
    {"XOR groups, bzip2 -9", 0, 1, 9, 0, 1, bzip2_encode, bzip2_decode},
    {"XOR groups, zstd -1", 0, 0, 1, 0, 1, zstd_encode, zstd_decode},
    {"XOR groups, zstd -19", 0, 1, 19, 0, 1, zstd_encode, zstd_decode},
    {"XOR groups, RLE + Huffman", 0, 0, 0, 0, 1, huffman_encode, huffman_decode},
    {"int32 index + value", 0, 0, 0, 0, 1, delta_index_encode, delta_index_decode},
    {"u16 gap + value, zstd -1", 0, 0, 1, 0, 1, delta_gaps_encode, delta_gaps_decode},
    {"u16 gap + XOR, zstd -1", 0, 0, 1, 1, 1, delta_gaps_encode, delta_gaps_decode},
};
const size_t delta_method_count = sizeof delta_methods / sizeof delta_methods[0];

size_t delta_capacity(const delta_unit *unit)
{
    return unit->nbytes + unit->nbytes / unit->width * 4 + unit->nbytes / 32 + 65536;
}

size_t delta_scratch_nbytes(const delta_unit *unit)
{
    return unit->nbytes + unit->nbytes / unit->width * 4 + 64;
}
