/* regroup.c - transposes bytes of records, and reverses the bytes of elements. */
#include "filter/chunk/regroup.h"

#include <string.h>

#include "common/compiler.h"

/* Records that are moved at a time, so that they are in the first-level cache: 256 of 64 bytes are 16 KiB. */
#define TILE_RECORDS 256

/* ---- tiles ----
 * Of n <= TILE_RECORDS records; columns begin `stride` bytes apart. The usual widths go by whole elements and shifts,
 * which compilers turn into vector instructions: the byte order is that of the machine, little-endian. */

static void split_2(const unsigned char *restrict src, size_t n, size_t stride, unsigned char *restrict dst)
{
    unsigned char *restrict const high = dst + stride;
    for (size_t i = 0; i < n; i++) {
        uint16_t x;
        memcpy(&x, src + 2 * i, 2);
        dst[i] = (unsigned char)x;
        high[i] = (unsigned char)(x >> 8);
    }
}

static void split_4(const unsigned char *restrict src, size_t n, size_t stride, unsigned char *restrict dst)
{
    unsigned char *restrict const dst_1 = dst + stride;
    unsigned char *restrict const dst_2 = dst + 2 * stride;
    unsigned char *restrict const dst_3 = dst + 3 * stride;
    for (size_t i = 0; i < n; i++) {
        uint32_t x;
        memcpy(&x, src + 4 * i, 4);
        dst[i] = (unsigned char)x;
        dst_1[i] = (unsigned char)(x >> 8);
        dst_2[i] = (unsigned char)(x >> 16);
        dst_3[i] = (unsigned char)(x >> 24);
    }
}

/* By columns 0, 2, 4, 6 and 1, 3, 5, 7. */
static void split_8(const unsigned char *src, size_t n, size_t stride, unsigned char *dst)
{
    unsigned char halves[8 * TILE_RECORDS];
    const size_t half_nbytes = sizeof halves / 2;
    split_2(src, 4 * n, half_nbytes, halves);
    split_4(halves, n, 2 * stride, dst);
    split_4(halves + half_nbytes, n, 2 * stride, dst + stride);
}

static void split_any(const unsigned char *src, size_t n, size_t width, size_t stride, unsigned char *dst)
{
    for (size_t j = 0; j < width; j++) {
        unsigned char *const column = dst + j * stride;
        for (size_t i = 0; i < n; i++)
            column[i] = src[i * width + j];
    }
}

static void join_2(const unsigned char *restrict src, size_t n, size_t stride, unsigned char *restrict dst)
{
    const unsigned char *restrict const high = src + stride;
    for (size_t i = 0; i < n; i++) {
        const uint16_t x = (uint16_t)(src[i] | high[i] << 8);
        memcpy(dst + 2 * i, &x, 2);
    }
}

static void join_4(const unsigned char *restrict src, size_t n, size_t stride, unsigned char *restrict dst)
{
    const unsigned char *restrict const src_1 = src + stride;
    const unsigned char *restrict const src_2 = src + 2 * stride;
    const unsigned char *restrict const src_3 = src + 3 * stride;
    for (size_t i = 0; i < n; i++) {
        const uint32_t x =
            src[i] | (uint32_t)src_1[i] << 8 | (uint32_t)src_2[i] << 16 | (uint32_t)src_3[i] << 24;
        memcpy(dst + 4 * i, &x, 4);
    }
}

static void join_8(const unsigned char *src, size_t n, size_t stride, unsigned char *dst)
{
    unsigned char halves[8 * TILE_RECORDS];
    const size_t half_nbytes = sizeof halves / 2;
    join_4(src, n, 2 * stride, halves);
    join_4(src + stride, n, 2 * stride, halves + half_nbytes);
    join_2(halves, 4 * n, half_nbytes, dst);
}

static void join_any(const unsigned char *src, size_t n, size_t width, size_t stride, unsigned char *dst)
{
    for (size_t j = 0; j < width; j++) {
        const unsigned char *const column = src + j * stride;
        for (size_t i = 0; i < n; i++)
            dst[i * width + j] = column[i];
    }
}

/* ---- chunks ---- */

void lmc_h5_records_to_columns(const unsigned char *src, size_t nbytes, size_t width, unsigned char *dst)
{
    const size_t count = nbytes / width;
    for (size_t first = 0; first < count; first += TILE_RECORDS) {
        const size_t n = lmc_min_size(TILE_RECORDS, count - first);
        const unsigned char *const from = src + first * width;
        switch (width) {
        case 2: split_2(from, n, count, dst + first); break;
        case 4: split_4(from, n, count, dst + first); break;
        case 8: split_8(from, n, count, dst + first); break;
        default: split_any(from, n, width, count, dst + first); break;
        }
    }
    memcpy(dst + count * width, src + count * width, nbytes - count * width);
}

void lmc_h5_columns_to_records(const unsigned char *src, size_t nbytes, size_t width, unsigned char *dst)
{
    const size_t count = nbytes / width;
    for (size_t first = 0; first < count; first += TILE_RECORDS) {
        const size_t n = lmc_min_size(TILE_RECORDS, count - first);
        unsigned char *const to = dst + first * width;
        switch (width) {
        case 2: join_2(src + first, n, count, to); break;
        case 4: join_4(src + first, n, count, to); break;
        case 8: join_8(src + first, n, count, to); break;
        default: join_any(src + first, n, width, count, to); break;
        }
    }
    memcpy(dst + count * width, src + count * width, nbytes - count * width);
}

/* ---- byte order ---- */

static void swap_2(const unsigned char *src, size_t count, unsigned char *dst)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t x;
        memcpy(&x, src + 2 * i, 2);
        x = __builtin_bswap16(x);
        memcpy(dst + 2 * i, &x, 2);
    }
}

static void swap_4(const unsigned char *src, size_t count, unsigned char *dst)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t x;
        memcpy(&x, src + 4 * i, 4);
        x = __builtin_bswap32(x);
        memcpy(dst + 4 * i, &x, 4);
    }
}

static void swap_8(const unsigned char *src, size_t count, unsigned char *dst)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t x;
        memcpy(&x, src + 8 * i, 8);
        x = __builtin_bswap64(x);
        memcpy(dst + 8 * i, &x, 8);
    }
}

void lmc_h5_swap_elements(const unsigned char *src, size_t nbytes, size_t element_nbytes, unsigned char *dst)
{
    const size_t count = nbytes / element_nbytes;
    const size_t done = count * element_nbytes;
    switch (element_nbytes) {
    case 2: swap_2(src, count, dst); break;
    case 4: swap_4(src, count, dst); break;
    default: swap_8(src, count, dst); break;
    }
    if (dst != src)
        memcpy(dst + done, src + done, nbytes - done);
}
