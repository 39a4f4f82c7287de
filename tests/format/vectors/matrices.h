/*
 * matrices.h - matrices of floats by formula, whose rows and columns have scales of their own. Shared by make_vectors.c
 * and tests/format/reference/random_frames.c.
 */
#ifndef MATRICES_H
#define MATRICES_H

#include "contents.h"

typedef struct contents_matrix {
    unsigned column_count;
    unsigned row_octaves, column_octaves; /* scales of rows and columns lie within so many; 0: all are 1 */
    unsigned outliers;                    /* one value in so many has any bits; 0: none */
    size_t constant_first, constant_end;  /* these elements are the same number */
} contents_matrix;

/* 2^0 to 2^octaves, the same for the same number, in 8 steps an octave. */
static double contents_scale(uint64_t seed, size_t number, unsigned octaves)
{
    contents_rng rng = {seed + 1000003 * (uint64_t)number};
    const unsigned eighths = octaves > 0 ? contents_below(&rng, 8 * octaves) : 0;
    return (double)(1u << eighths / 8) * (1 + eighths % 8 / 8.0);
}

static uint64_t contents_scaled(double value, lmc_dtype dtype)
{
    switch (dtype) {
    case LMC_DTYPE_F8_E5M2:
    case LMC_DTYPE_F8_E5M2FNUZ: return contents_float(value * 0.5, 5, 2);
    case LMC_DTYPE_F8_E4M3:
    case LMC_DTYPE_F8_E4M3FNUZ: return contents_float(value * 0.25, 4, 3);
    case LMC_DTYPE_F16: return contents_float(value * 0.03125, 5, 10);
    case LMC_DTYPE_BF16: return contents_float(value * 0.0234375, 8, 7);
    case LMC_DTYPE_F64: return contents_float(value * 0.0234375, 11, 52);
    default: return contents_float(value * 0.0234375, 8, 23);
    }
}

/* Fills dst with the rows of a matrix; the last number may be cut. dtype: a float of 8 bits or more. */
static void contents_fill_matrix(contents_rng *rng, const contents_matrix *matrix, lmc_dtype dtype,
                                 unsigned char *dst, size_t nbytes)
{
    const unsigned unit_nbytes = contents_unit_nbytes(dtype);
    const uint64_t seed = contents_next(rng);
    for (size_t at = 0; at < nbytes; at += unit_nbytes) {
        const size_t i = at / unit_nbytes;
        const double scale = contents_scale(seed, i / matrix->column_count, matrix->row_octaves) *
                             contents_scale(~seed, i % matrix->column_count, matrix->column_octaves);
        uint64_t value = contents_scaled(contents_normal(rng) * scale, dtype);
        if (matrix->outliers > 0 && contents_below(rng, matrix->outliers) == 0)
            value = contents_next(rng);
        if (i >= matrix->constant_first && i < matrix->constant_end)
            value = 0x3c;
        for (size_t j = at; j < at + unit_nbytes && j < nbytes; j++, value >>= 8)
            dst[j] = (unsigned char)value;
    }
}

#endif
