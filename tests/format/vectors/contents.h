/*
 * contents.h - contents of tensors by formula, the same on every machine: no libm, no random state but
 * the caller's. Shared by make_vectors.c, make_delta_vectors.c and tests/format/reference/random_frames.c.
 */
#ifndef CONTENTS_H
#define CONTENTS_H

#include <lmc.h>
#include <string.h>

typedef enum contents_kind {
    CONTENTS_NATURAL,   /* weights, small integers, truth values: what the dtype usually holds */
    CONTENTS_POSITIVE,  /* the same without signs */
    CONTENTS_OUTLIERS,  /* the same, but one value in 500 has any bits */
    CONTENTS_SPECIALS,  /* floats: NaN, infinities, zeros of both signs and denormals among the rest */
    CONTENTS_HALF_ZERO, /* every other value, by chance, is zero */
    CONTENTS_SOME_ZERO, /* one value in 14 is zero */
    CONTENTS_MOST_ZERO, /* 19 of 20 values are zero */
    CONTENTS_RARE,      /* one value, but for about one value in 200 */
    CONTENTS_COMMON,    /* a wide value that is nearly always another one's neighbour */
    CONTENTS_COARSE,    /* natural values with all but the top two bytes cleared */
    CONTENTS_FEW,       /* few byte values, a rare one in 500 that is none of them */
    CONTENTS_SPREAD,    /* byte values of very different frequency */
    CONTENTS_MIXED,     /* natural, but the second kilo-value has random bits */
    CONTENTS_RANDOM,    /* random bits */
    CONTENTS_CONSTANT,  /* one value */
    CONTENTS_KIND_COUNT
} contents_kind;

typedef struct contents_rng {
    uint64_t state;
} contents_rng;

static uint64_t contents_next(contents_rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static unsigned contents_below(contents_rng *rng, unsigned bound)
{
    return (unsigned)(contents_next(rng) >> 33) % bound;
}

/* Nearly normal, of deviation 1: a sum of twelve uniform 16-bit numbers, with fine bits below. */
static double contents_normal(contents_rng *rng)
{
    long sum = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t bits = contents_next(rng);
        for (int j = 0; j < 4; j++, bits >>= 16)
            sum += (long)(bits & 0xffff);
    }
    double fine = (double)(contents_next(rng) >> 11) / 9007199254740992.0;
    return ((double)(sum - 6 * 65535L) + fine) / 65536.0;
}

/* A float of `exponent_nbits` and `mantissa_nbits`, cut, not rounded; too small is 0, too large the top. */
static uint64_t contents_float(double value, unsigned exponent_nbits, unsigned mantissa_nbits)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t sign = (bits >> 63) << (exponent_nbits + mantissa_nbits);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023 + (1 << (exponent_nbits - 1)) - 1;
    int exponent_max = (1 << exponent_nbits) - 1;
    uint64_t mantissa = (bits & 0xfffffffffffffu) >> (52 - mantissa_nbits);
    if (exponent <= 0)
        return sign;
    if (exponent >= exponent_max)
        return sign | (((uint64_t)exponent_max << mantissa_nbits) - 1);
    return sign | (uint64_t)exponent << mantissa_nbits | mantissa;
}

static unsigned contents_unit_nbytes(lmc_dtype dtype)
{
    return dtype < LMC_DTYPE_I16 ? 1 : dtype < LMC_DTYPE_I32 ? 2 : dtype < LMC_DTYPE_I64 ? 4 : 8;
}

static int contents_is_float(lmc_dtype dtype)
{
    return dtype == LMC_DTYPE_F16 || dtype == LMC_DTYPE_BF16 || dtype == LMC_DTYPE_F32 ||
           dtype == LMC_DTYPE_C64 || dtype == LMC_DTYPE_F64;
}

/* Integers: mostly near 0, like token numbers or differences. */
static uint64_t contents_integer(contents_rng *rng, unsigned spread)
{
    double value = contents_normal(rng) * spread;
    return (uint64_t)(int64_t)value;
}

static uint64_t contents_natural(contents_rng *rng, lmc_dtype dtype)
{
    double value = contents_normal(rng);
    switch (dtype) {
    case LMC_DTYPE_BOOL: return contents_below(rng, 5) == 0;
    case LMC_DTYPE_U8: return (contents_integer(rng, 6) + 128) & 0xff;
    case LMC_DTYPE_I8: return contents_integer(rng, 5);
    case LMC_DTYPE_F4: return contents_float(value, 2, 1) | contents_float(contents_normal(rng), 2, 1) << 4;
    case LMC_DTYPE_F6_E2M3: return contents_float(value, 2, 3); /* as if not packed */
    case LMC_DTYPE_F6_E3M2: return contents_float(value, 3, 2);
    case LMC_DTYPE_F8_E5M2:
    case LMC_DTYPE_F8_E5M2FNUZ: return contents_float(value, 5, 2);
    case LMC_DTYPE_F8_E4M3:
    case LMC_DTYPE_F8_E4M3FNUZ: return contents_float(value, 4, 3);
    case LMC_DTYPE_F8_E8M0: return 120 + contents_below(rng, 4);
    case LMC_DTYPE_I16:
    case LMC_DTYPE_U16: return contents_integer(rng, 40) + (dtype == LMC_DTYPE_U16 ? 1000 : 0);
    case LMC_DTYPE_F16: return contents_float(value * 0.03125, 5, 10);
    case LMC_DTYPE_BF16: return contents_float(value * 0.0234375, 8, 7);
    case LMC_DTYPE_I32:
    case LMC_DTYPE_U32: return contents_integer(rng, 3000) + (dtype == LMC_DTYPE_U32 ? 50000 : 0);
    case LMC_DTYPE_F32:
    case LMC_DTYPE_C64: return contents_float(value * 0.0234375, 8, 23);
    case LMC_DTYPE_F64: return contents_float(value * 0.0234375, 11, 52);
    default: return contents_integer(rng, 3000) + (dtype == LMC_DTYPE_U64 ? 50000 : 0);
    }
}

/* One of the special values of a float whose exponent lies under the sign. */
static uint64_t contents_special(contents_rng *rng, lmc_dtype dtype)
{
    unsigned nbits = 8 * contents_unit_nbytes(dtype);
    unsigned exponent_nbits = dtype == LMC_DTYPE_F16 ? 5 : dtype == LMC_DTYPE_F64 ? 11 : 8;
    unsigned mantissa_nbits = nbits - 1 - exponent_nbits;
    uint64_t sign = (uint64_t)contents_below(rng, 2) << (nbits - 1);
    uint64_t infinity = (((uint64_t)1 << exponent_nbits) - 1) << mantissa_nbits;
    switch (contents_below(rng, 5)) {
    case 0: return sign;                                                  /* +0, -0 */
    case 1: return sign | infinity;                                       /* infinities */
    case 2: return sign | infinity | (uint64_t)1 << (mantissa_nbits - 1); /* quiet NaN */
    case 3: return sign | infinity | 1;                                   /* signalling NaN */
    default: return sign | 1u << contents_below(rng, mantissa_nbits < 20 ? mantissa_nbits : 20);
    }
}

static uint64_t contents_value(contents_rng *rng, contents_kind kind, lmc_dtype dtype, size_t i)
{
    unsigned unit_nbytes = contents_unit_nbytes(dtype);
    uint64_t natural = contents_natural(rng, dtype);
    switch (kind) {
    case CONTENTS_POSITIVE: return natural & ~((uint64_t)1 << (8 * unit_nbytes - 1));
    case CONTENTS_OUTLIERS: return contents_below(rng, 500) == 0 ? contents_next(rng) : natural;
    case CONTENTS_SPECIALS:
        return contents_is_float(dtype) && contents_below(rng, 8) == 0 ? contents_special(rng, dtype)
                                                                       : natural;
    case CONTENTS_HALF_ZERO: return contents_below(rng, 2) ? natural : 0;
    case CONTENTS_SOME_ZERO: return contents_below(rng, 14) ? natural : 0;
    case CONTENTS_MOST_ZERO: return contents_below(rng, 20) == 0 ? natural : 0;
    case CONTENTS_RARE: return contents_below(rng, 200) == 0 ? contents_next(rng) : 50257;
    case CONTENTS_COMMON:
        return 0x0123456789abcdefu + (contents_below(rng, 4) == 0) * contents_below(rng, 3000);
    case CONTENTS_COARSE:
        return unit_nbytes < 4 ? natural : natural & ((uint64_t)0xffff << (8 * unit_nbytes - 16));
    case CONTENTS_FEW:
        if (contents_below(rng, 500) == 0)
            return contents_next(rng);
        return contents_below(rng, 8) ? 3 : contents_below(rng, 4) ? 5 : 6 + contents_below(rng, 3);
    case CONTENTS_SPREAD: {
        unsigned nbits = contents_below(rng, 9);
        return (0xa5u + contents_below(rng, 1u << nbits)) & 0xff;
    }
    case CONTENTS_MIXED: return i >= 1024 && i < 2048 ? contents_next(rng) : natural;
    case CONTENTS_RANDOM: return contents_next(rng);
    case CONTENTS_CONSTANT: return 0x3f80;
    default: return natural;
    }
}

/* Fills dst; a length that is no multiple of the unit is cut within the last value. */
static void contents_fill(contents_rng *rng, contents_kind kind, lmc_dtype dtype, unsigned char *dst,
                          size_t nbytes)
{
    unsigned unit_nbytes = contents_unit_nbytes(dtype);
    for (size_t at = 0; at < nbytes; at += unit_nbytes) {
        uint64_t value = contents_value(rng, kind, dtype, at / unit_nbytes);
        for (size_t j = at; j < at + unit_nbytes && j < nbytes; j++, value >>= 8)
            dst[j] = (unsigned char)value;
    }
}

#endif
