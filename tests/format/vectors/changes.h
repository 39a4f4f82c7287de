/*
 * changes.h - bases by formula for the contents of contents.h: what a tensor may have been at an earlier snapshot.
 * Shared by make_delta_vectors.c and tests/format/reference/random_frames.c.
 */
#ifndef CHANGES_H
#define CHANGES_H

#include "contents.h"

typedef enum changes_kind {
    CHANGES_NONE,   /* the base is the content */
    CHANGES_RARE,   /* one value in 700 is a step away */
    CHANGES_SPARSE, /* one value in 40 */
    CHANGES_RUNS,   /* values next to each other, then long nothing: the second quarter of every 2,048 */
    CHANGES_STEPS,  /* a third is one or two away */
    CHANGES_DENSE,  /* all are some steps away */
    CHANGES_FAR,    /* all are some hundreds of steps away: low bits of heads, low bytes */
    CHANGES_FIXED,  /* floats move by the same amount everywhere: the smaller they are, the more steps */
    CHANGES_FLIPS,  /* one value in 30 has another sign, others are a step away */
    CHANGES_JUMPS,  /* one value in 60 was anything, others are a step away */
    CHANGES_BITS,   /* one bit of every fourth value has changed */
    CHANGES_FIRST, /* 1,024 values are some steps away, the next 1,024 had random bits, the others are the same */
    CHANGES_ALL, /* nothing is left of it */
    CHANGES_KIND_COUNT
} changes_kind;

/* -1 to -most or 1 to most. */
static uint64_t changes_step(contents_rng *rng, unsigned most)
{
    uint64_t step = 1 + contents_below(rng, most);
    return contents_below(rng, 2) ? step : 0 - step;
}

/* Mostly small, either sign, 0 too. */
static uint64_t changes_normal(contents_rng *rng, unsigned spread)
{
    return (uint64_t)(int64_t)(contents_normal(rng) * spread);
}

/* As many steps as a fixed amount is at the exponent of `value`. */
static uint64_t changes_fixed(contents_rng *rng, lmc_dtype dtype, uint64_t value)
{
    unsigned nbits = 8 * contents_unit_nbytes(dtype);
    unsigned mantissa_nbits = dtype == LMC_DTYPE_F64   ? 52
                              : dtype == LMC_DTYPE_F16 ? 10
                              : nbits == 32            ? 23
                                                       : 7;
    unsigned top = dtype == LMC_DTYPE_F16 ? 12 : dtype == LMC_DTYPE_F64 ? 1020 : 124;
    unsigned exponent = (unsigned)((value & ~((uint64_t)1 << (nbits - 1))) >> mantissa_nbits);
    unsigned below = exponent >= top ? 0 : top - exponent > 14 ? 14 : top - exponent;
    return changes_normal(rng, 2u << below);
}

static uint64_t changes_value(contents_rng *rng, changes_kind kind, lmc_dtype dtype, size_t i, uint64_t value)
{
    uint64_t sign = (uint64_t)1 << (8 * contents_unit_nbytes(dtype) - 1);
    switch (kind) {
    case CHANGES_RARE: return contents_below(rng, 700) ? value : value + changes_step(rng, 3);
    case CHANGES_SPARSE: return contents_below(rng, 40) ? value : value + changes_step(rng, 3);
    case CHANGES_RUNS: return i % 2048 / 512 == 1 ? value + changes_step(rng, 4) : value;
    case CHANGES_STEPS: return contents_below(rng, 3) ? value : value + changes_step(rng, 2);
    case CHANGES_DENSE: return value + changes_normal(rng, 9);
    case CHANGES_FAR: return value + changes_normal(rng, 700);
    case CHANGES_FIXED: return value + changes_fixed(rng, dtype, value);
    case CHANGES_FLIPS: return (value + changes_normal(rng, 2)) ^ (contents_below(rng, 30) ? 0 : sign);
    case CHANGES_JUMPS: return contents_below(rng, 60) ? value + changes_normal(rng, 2) : contents_next(rng);
    case CHANGES_BITS:
        return contents_below(rng, 4)
                   ? value
                   : value ^ (uint64_t)1 << contents_below(rng, contents_unit_nbytes(dtype) * 8);
    case CHANGES_FIRST:
        return i < 1024 ? value + changes_normal(rng, 5) : i < 2048 ? contents_next(rng) : value;
    case CHANGES_ALL: return contents_next(rng);
    default: return value;
    }
}

/* Fills base with nbytes bytes. */
static void changes_fill(contents_rng *rng, changes_kind kind, lmc_dtype dtype, const unsigned char *content,
                         unsigned char *base, size_t nbytes)
{
    unsigned unit_nbytes = contents_unit_nbytes(dtype);
    for (size_t at = 0; at < nbytes; at += unit_nbytes) {
        uint64_t value = 0;
        for (size_t j = 0; j < unit_nbytes && at + j < nbytes; j++)
            value |= (uint64_t)content[at + j] << 8 * j;
        value = changes_value(rng, kind, dtype, at / unit_nbytes, value);
        for (size_t j = at; j < at + unit_nbytes && j < nbytes; j++, value >>= 8)
            base[j] = (unsigned char)value;
    }
}

/* The same for content of whole BF16: the base is F32, 2 nbytes bytes, which may round to its neighbour. */
static void changes_fill_f32(contents_rng *rng, changes_kind kind, const unsigned char *content,
                             unsigned char *base, size_t nbytes)
{
    for (size_t at = 0; at < nbytes; at += 2) {
        uint64_t value = content[at] | (uint64_t)content[at + 1] << 8;
        value = changes_value(rng, kind, LMC_DTYPE_BF16, at / 2, value) << 16;
        unsigned rounding = contents_below(rng, 8);
        value += rounding == 0 ? 0x8000 : rounding == 1 ? 0 : contents_below(rng, 0x10000) - 0x8000u;
        for (size_t j = 0; j < 4; j++, value >>= 8)
            base[2 * at + j] = (unsigned char)value;
    }
}

/* The same for content of whole F16: the base is F32 (width 4) or BF16 (width 2), which may round to its neighbour. */
static void changes_fill_f16(contents_rng *rng, changes_kind kind, size_t width, const unsigned char *content,
                             unsigned char *base, size_t nbytes)
{
    for (size_t at = 0; at < nbytes; at += 2) {
        uint64_t value = content[at] | (uint64_t)content[at + 1] << 8;
        value = changes_value(rng, kind, LMC_DTYPE_F16, at / 2, value);
        const uint32_t sign = (uint32_t)(value & 0x8000) << 16;
        const uint32_t size = (uint32_t)(value & 0x7fff) << 13;
        /* normal numbers and infinities as F32; subnormal ones become small numbers */
        uint32_t bits = sign | (size >= 0xf800000 ? size + 0x70000000 : size + 0x38000000);
        unsigned rounding = contents_below(rng, 8);
        if (width == 4)
            bits += rounding == 0 ? 0x1000 : rounding == 1 ? 0 : contents_below(rng, 0x2000) - 0x1000u;
        bits >>= 8 * (4 - width);
        for (size_t j = 0; j < width; j++, bits >>= 8)
            base[at / 2 * width + j] = (unsigned char)bits;
    }
}

#endif
