/*
 * bytes.h - little-endian loads and stores at any address, and cursors that never leave their buffer. A cursor
 * remembers a failed read, so that a parser may check once after several reads.
 */
#ifndef LMC_COMMON_BYTES_H
#define LMC_COMMON_BYTES_H

#include "common/compiler.h"

LMC_INLINE uint16_t lmc_load16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

LMC_INLINE uint32_t lmc_load32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

LMC_INLINE uint64_t lmc_load64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

LMC_INLINE void lmc_store16(void *p, uint16_t v)
{
    memcpy(p, &v, sizeof v);
}

LMC_INLINE void lmc_store32(void *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

LMC_INLINE void lmc_store64(void *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

/* Loads an integer of nbytes <= 8 bytes. */
LMC_INLINE uint64_t lmc_load_n(const void *p, size_t nbytes)
{
    uint64_t v = 0;
    memcpy(&v, p, nbytes);
    return v;
}

/* Stores the low nbytes <= 8 bytes of an integer. */
LMC_INLINE void lmc_store_n(void *p, uint64_t v, size_t nbytes)
{
    memcpy(p, &v, nbytes);
}

/* 1 if the two have a byte in common: a call must not write where it reads. */
LMC_INLINE int lmc_bytes_overlap(const void *a, size_t a_nbytes, const void *b, size_t b_nbytes)
{
    const uintptr_t first = (uintptr_t)a, other = (uintptr_t)b;
    return a_nbytes > 0 && b_nbytes > 0 &&
           (first < other ? other - first < a_nbytes : first - other < b_nbytes);
}

/* ---- reading ---- */

typedef struct lmc_reader {
    const uint8_t *next;
    const uint8_t *end;
    int failed; /* a read wanted more than there was */
} lmc_reader;

LMC_INLINE size_t lmc_reader_left(const lmc_reader *r)
{
    return (size_t)(r->end - r->next);
}

/* Skips nbytes and returns their start. Returns NULL and sets failed when fewer are left. */
LMC_INLINE const uint8_t *lmc_read_span(lmc_reader *r, size_t nbytes)
{
    if (LMC_UNLIKELY(r->failed || nbytes > lmc_reader_left(r))) {
        r->failed = 1;
        return NULL;
    }
    const uint8_t *const p = r->next;
    r->next += nbytes;
    return p;
}

/* An integer of nbytes <= 8 bytes; 0 when fewer are left. */
LMC_INLINE uint64_t lmc_read_n(lmc_reader *r, size_t nbytes)
{
    const uint8_t *const p = lmc_read_span(r, nbytes);
    return p ? lmc_load_n(p, nbytes) : 0;
}

/* Bytes of a count that is at most n, n < 2^24: the fewest that hold n. */
LMC_INLINE unsigned lmc_count_nbytes(size_t n)
{
    return n < 0x100 ? 1 : n < 0x10000 ? 2 : 3;
}

/* ---- writing ---- */

typedef struct lmc_writer {
    uint8_t *next;
    uint8_t *end;
} lmc_writer;

LMC_INLINE size_t lmc_writer_left(const lmc_writer *w)
{
    return (size_t)(w->end - w->next);
}

/* Appends an integer of nbytes <= 8 bytes. Precondition: there is room. */
LMC_INLINE void lmc_write_n(lmc_writer *w, uint64_t v, size_t nbytes)
{
    assert(nbytes <= lmc_writer_left(w));
    memcpy(w->next, &v, nbytes);
    w->next += nbytes;
}

/* Appends bytes. Precondition: there is room. */
LMC_INLINE void lmc_write_span(lmc_writer *w, const void *p, size_t nbytes)
{
    assert(nbytes <= lmc_writer_left(w));
    if (nbytes > 0)
        memcpy(w->next, p, nbytes);
    w->next += nbytes;
}

#endif
