/* h5_regroup.c - transposition of bytes, and byte order. */
#include "h5_regroup.h"

#include <stdint.h>
#include <string.h>

/* Records that are moved column by column while they are in the first-level cache: 256 of 64 bytes are 16 KiB. */
#define TILE_RECORDS 256

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void h5_records_to_columns(const unsigned char *src, size_t nbytes, size_t width, unsigned char *dst)
{
    const size_t count = nbytes / width;
    for (size_t first = 0; first < count; first += TILE_RECORDS) {
        const size_t n = smaller(TILE_RECORDS, count - first);
        for (size_t j = 0; j < width; j++) {
            const unsigned char *const from = src + first * width + j;
            unsigned char *const to = dst + j * count + first;
            for (size_t i = 0; i < n; i++) {
                to[i] = from[i * width];
            }
        }
    }
    memcpy(dst + count * width, src + count * width, nbytes - count * width);
}

void h5_columns_to_records(const unsigned char *src, size_t nbytes, size_t width, unsigned char *dst)
{
    const size_t count = nbytes / width;
    for (size_t first = 0; first < count; first += TILE_RECORDS) {
        const size_t n = smaller(TILE_RECORDS, count - first);
        for (size_t j = 0; j < width; j++) {
            const unsigned char *const from = src + j * count + first;
            unsigned char *const to = dst + first * width + j;
            for (size_t i = 0; i < n; i++) {
                to[i * width] = from[i];
            }
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

void h5_swap_elements(const unsigned char *src, size_t nbytes, size_t element_nbytes, unsigned char *dst)
{
    const size_t count = nbytes / element_nbytes;
    const size_t done = count * element_nbytes;
    switch (element_nbytes) {
    case 2: swap_2(src, count, dst); break;
    case 4: swap_4(src, count, dst); break;
    default: swap_8(src, count, dst); break;
    }
    if (dst != src) {
        memcpy(dst + done, src + done, nbytes - done);
    }
}
