/*
 * lists.c - lists of changed values, as some tools send them from the trainer of a model to its users: a u32 count,
 * and then
 *   index: an int32 for each value that changed, the values;
 *   gaps: a u16 for each, the number of values since the one before (65535: as many, and no value), the values
 *   or their XOR with the base; all of it through zstd.
 */
#include <string.h>
#include <zstd.h>

#include "bench/delta/delta.h"

/* The loops below are compiled for each width. */
#define FOR_WIDTH(width, call) \
    switch (width) {           \
    case 1: call(1); break;    \
    case 2: call(2); break;    \
    case 4: call(4); break;    \
    default: call(8); break;   \
    }

static inline uint64_t load(const uint8_t *src, unsigned width)
{
    uint64_t value = 0;
    memcpy(&value, src, width);
    return value;
}

/* ---- int32 index ---- */

static inline size_t list_changed(const uint8_t *content, const uint8_t *base, size_t n, unsigned width,
                                  uint32_t *indices)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        indices[count] = (uint32_t)i;
        count += load(content + i * width, width) != load(base + i * width, width);
    }
    return count;
}

static inline void gather(const uint8_t *content, const uint32_t *indices, size_t count, unsigned width,
                          uint8_t *dst)
{
    for (size_t k = 0; k < count; k++)
        memcpy(dst + k * width, content + (size_t)indices[k] * width, width);
}

static inline void scatter(const uint8_t *indices, const uint8_t *values, size_t count, unsigned width,
                           uint8_t *dst)
{
    for (size_t k = 0; k < count; k++)
        memcpy(dst + load(indices + 4 * k, 4) * width, values + k * width, width);
}

size_t delta_index_encode(const delta_method *method, delta_work *work, const delta_unit *unit,
                          const uint8_t *content, const uint8_t *base, uint8_t *dst, size_t capacity)
{
    (void)method, (void)capacity;
    const size_t n = unit->nbytes / unit->width;
    uint32_t *const indices = (uint32_t *)(void *)work->scratch;
    size_t count = 0;
#define LIST(w) count = list_changed(content, base, n, w, indices)
    FOR_WIDTH(unit->width, LIST)
    memcpy(dst, &(uint32_t){(uint32_t)count}, 4);
    memcpy(dst + 4, indices, 4 * count);
#define GATHER(w) gather(content, indices, count, w, dst + 4 + 4 * count)
    FOR_WIDTH(unit->width, GATHER)
    return 4 + count * (4 + unit->width);
}

int delta_index_decode(const delta_method *method, delta_work *work, const delta_unit *unit,
                       const uint8_t *src, size_t src_nbytes, const uint8_t *base, uint8_t *dst)
{
    (void)method, (void)work;
    const size_t count = load(src, 4);
    if (src_nbytes != 4 + count * (4 + unit->width))
        return -1;
    memcpy(dst, base, unit->nbytes);
#define SCATTER(w) scatter(src + 4, src + 4 + 4 * count, count, w, dst)
    FOR_WIDTH(unit->width, SCATTER)
    return 0;
}

/* ---- u16 gaps ---- */

#define GAP_MAX 65535

/* Returns the number of gaps; *value_count of them have a value. */
static inline size_t list_gaps(const uint8_t *content, const uint8_t *base, size_t n, unsigned width,
                               int is_xor, uint8_t *gaps, uint8_t *values, size_t *value_count)
{
    size_t count = 0, value = 0, gap = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t before = load(base + i * width, width), now = load(content + i * width, width);
        if (before == now) {
            if (++gap < GAP_MAX)
                continue;
            memcpy(gaps + 2 * count++, &(uint16_t){GAP_MAX}, 2);
            gap = 0;
            continue;
        }
        memcpy(gaps + 2 * count++, &(uint16_t){(uint16_t)gap}, 2);
        memcpy(values + width * value++, &(uint64_t){is_xor ? before ^ now : now}, width);
        gap = 0;
    }
    *value_count = value;
    return count;
}

static inline void apply_gaps(const uint8_t *gaps, size_t count, const uint8_t *values, unsigned width,
                              int is_xor, uint8_t *dst)
{
    for (size_t k = 0; k < count; k++) {
        const size_t gap = load(gaps + 2 * k, 2);
        dst += gap * width;
        if (gap == GAP_MAX)
            continue;
        memcpy(dst, &(uint64_t){load(values, width) ^ (is_xor ? load(dst, width) : 0)}, width);
        dst += width;
        values += width;
    }
}

/* In the scratch: u32 count of gaps, the gaps, room for as many as there can be; the values from `second` on. */
size_t delta_gaps_encode(const delta_method *method, delta_work *work, const delta_unit *unit,
                         const uint8_t *content, const uint8_t *base, uint8_t *dst, size_t capacity)
{
    const size_t n = unit->nbytes / unit->width;
    uint8_t *const first = work->scratch, *const second = first + 4 + 2 * n;
    size_t count = 0, value_count = 0;
#define GAPS(w) count = list_gaps(content, base, n, w, method->is_xor, first + 4, second, &value_count)
    FOR_WIDTH(unit->width, GAPS)
    memcpy(first, &(uint32_t){(uint32_t)count}, 4);
    memmove(first + 4 + 2 * count, second, value_count * unit->width);
    const size_t size = ZSTD_compressCCtx(work->zstd_out, dst, capacity, first,
                                          4 + 2 * count + value_count * unit->width, method->option);
    return ZSTD_isError(size) ? 0 : size;
}

int delta_gaps_decode(const delta_method *method, delta_work *work, const delta_unit *unit,
                      const uint8_t *src, size_t src_nbytes, const uint8_t *base, uint8_t *dst)
{
    const size_t size =
        ZSTD_decompressDCtx(work->zstd_in, work->scratch, work->scratch_nbytes, src, src_nbytes);
    if (ZSTD_isError(size))
        return -1;
    const size_t count = load(work->scratch, 4);
    memcpy(dst, base, unit->nbytes);
#define APPLY(w) apply_gaps(work->scratch + 4, count, work->scratch + 4 + 2 * count, w, method->is_xor, dst)
    FOR_WIDTH(unit->width, APPLY)
    return 0;
}
