/*
 * make_h5_vectors.c - writes the frozen chunks of tests/format/vectors/h5 that the HDF5 filter's encoder made:
 * NAME.chunk and the chunk itself, NAME.bin.
 *
 *     make_h5_vectors DIR
 *
 * They were written once and stay, as those of make_vectors.c. Run this again only to add chunks under new names.
 */
#include "contents.h"
#include <lmc_h5.h>
#include <stdio.h>
#include <stdlib.h>

#define CHUNK_NBYTES 4803
#define ROWS_NBYTES 4800 /* of a chunk with rows */

typedef struct vector {
    const char *name;
    lmc_dtype dtype; /* of the contents */
    contents_kind kind;
    unsigned values[2];    /* [4] and [5] */
    size_t shuffle_nbytes; /* bytes of an element of the shuffle filter; 0: not there */
    size_t record_nbytes;  /* a byte of its own is set at the end of each record; 0: none */
    unsigned row_count;    /* each row is the one before with a few changes; 0: no rows */
} vector;

#define TYPE(flags, dtype, span) (255u | (flags) | (dtype) << 16 | (unsigned)(span) << 24)
#define NONE 0u
#define LAYOUT_ROWS 3 /* docs/hdf5-filter.md, section 3 */
#define D(name) (LMC_DTYPE_##name + 1u)
#define BIG LMC_H5_TYPE_BIG_ENDIAN
#define SHUFFLED LMC_H5_TYPE_SHUFFLED
#define COLUMNS LMC_H5_TYPE_COLUMNS

static const vector vectors[] = {
    {"bf16", LMC_DTYPE_BF16, CONTENTS_NATURAL, {2, TYPE(0, D(BF16), 0)}, 0, 0, 0},
    {"f32_sampled", LMC_DTYPE_F32, CONTENTS_NATURAL, {4, TYPE(0, NONE, 0)}, 0, 0, 0},
    {"f16_big_endian", LMC_DTYPE_F16, CONTENTS_NATURAL, {2, TYPE(BIG, D(F16), 0)}, 0, 0, 0},
    {"f32_big_endian", LMC_DTYPE_F32, CONTENTS_HALF_ZERO, {4, TYPE(BIG, D(F32), 0)}, 0, 0, 0},
    {"f64_big_endian", LMC_DTYPE_F64, CONTENTS_HALF_ZERO, {8, TYPE(BIG, D(F64), 0)}, 0, 0, 0},
    {"bf16_shuffled", LMC_DTYPE_BF16, CONTENTS_NATURAL, {2, TYPE(SHUFFLED, D(BF16), 1)}, 2, 0, 0},
    {"f32_shuffled", LMC_DTYPE_F32, CONTENTS_NATURAL, {4, TYPE(SHUFFLED, D(F32), 1)}, 4, 0, 0},
    {"f32_shuffled_in_threes", LMC_DTYPE_F32, CONTENTS_NATURAL, {4, TYPE(SHUFFLED, D(F32), 3)}, 12, 0, 0},
    {"i64_big_endian_shuffled", LMC_DTYPE_I64, CONTENTS_NATURAL, {8, TYPE(SHUFFLED | BIG, NONE, 1)}, 8, 0, 0},
    {"columns_3", LMC_DTYPE_I8, CONTENTS_FEW, {3, TYPE(COLUMNS, NONE, 0)}, 0, 3, 0},
    {"columns_12", LMC_DTYPE_F32, CONTENTS_MOST_ZERO, {12, TYPE(COLUMNS, NONE, 0)}, 0, 12, 0},
    {"columns_16", LMC_DTYPE_F64, CONTENTS_CONSTANT, {16, TYPE(COLUMNS, NONE, 0)}, 0, 16, 0},
    {"noise_in_columns", LMC_DTYPE_U8, CONTENTS_RANDOM, {12, TYPE(COLUMNS, NONE, 0)}, 0, 0, 0},
    {"noise_big_endian", LMC_DTYPE_U8, CONTENTS_RANDOM, {4, TYPE(BIG, D(F32), 0)}, 0, 0, 0},
    {"rows_bf16", LMC_DTYPE_BF16, CONTENTS_NATURAL, {2, TYPE(0, D(BF16), 0)}, 0, 0, 4},
    {"rows_f32", LMC_DTYPE_F32, CONTENTS_NATURAL, {4, TYPE(0, D(F32), 0)}, 0, 0, 3},
    {"rows_f64_big_endian", LMC_DTYPE_F64, CONTENTS_NATURAL, {8, TYPE(BIG, D(F64), 0)}, 0, 0, 2},
    {"rows_u8", LMC_DTYPE_U8, CONTENTS_NATURAL, {1, TYPE(0, D(U8), 0)}, 0, 0, 3},
    {"rows_f32_shuffled", LMC_DTYPE_F32, CONTENTS_NATURAL, {4, TYPE(SHUFFLED, D(F32), 1)}, 4, 0, 3},
};

static void fail(const char *name, const char *what)
{
    fprintf(stderr, "make_h5_vectors: %s: %s\n", name, what);
    exit(1);
}

static void write_file(const char *directory, const char *name, const char *suffix, const void *data,
                       size_t nbytes)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s%s", directory, name, suffix);
    FILE *const file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, nbytes, file) != nbytes || fclose(file) != 0)
        fail(path, "cannot be written");
}

static void reverse_elements(unsigned char *data, size_t nbytes, size_t element_nbytes)
{
    for (size_t i = 0; i + element_nbytes <= nbytes; i += element_nbytes) {
        for (size_t j = 0; j < element_nbytes / 2; j++) {
            const unsigned char byte = data[i + j];
            data[i + j] = data[i + element_nbytes - 1 - j];
            data[i + element_nbytes - 1 - j] = byte;
        }
    }
}

static size_t chunk_nbytes_of(const vector *v)
{
    return v->row_count > 0 ? ROWS_NBYTES : CHUNK_NBYTES;
}

/* One element in 16, about, is 1 more than in the row before. */
static void make_rows(contents_rng *rng, const vector *v, unsigned char *rows)
{
    const size_t element_nbytes = v->values[0], row_nbytes = ROWS_NBYTES / v->row_count;
    for (size_t i = row_nbytes; i < ROWS_NBYTES; i++) {
        const int is_low = i % element_nbytes == 0;
        rows[i] = (unsigned char)(rows[i - row_nbytes] + (is_low && contents_below(rng, 16) == 0));
    }
}

static void make_chunk(const vector *v, unsigned char *chunk)
{
    unsigned char plain[CHUNK_NBYTES];
    contents_rng rng = {(uint64_t)(v - vectors) + 1};
    const size_t width = v->shuffle_nbytes > 0 ? v->shuffle_nbytes : 1;
    const size_t count = chunk_nbytes_of(v) / width;
    contents_fill(&rng, v->kind, v->dtype, plain, CHUNK_NBYTES);
    if (v->row_count > 0)
        make_rows(&rng, v, plain);
    for (size_t i = v->record_nbytes; v->record_nbytes > 0 && i <= CHUNK_NBYTES; i += v->record_nbytes)
        plain[i - 1] = (unsigned char)contents_below(&rng, 4);
    if ((v->values[1] & BIG) != 0)
        reverse_elements(plain, CHUNK_NBYTES, v->values[0]);
    memcpy(chunk, plain, CHUNK_NBYTES);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < width; j++)
            chunk[j * count + i] = plain[i * width + j];
}

static void write_vector(const char *directory, const vector *v)
{
    const int has_rows = v->row_count > 0;
    const unsigned values[LMC_H5_VALUE_COUNT_MAX] = {
        has_rows ? LMC_H5_LEVEL_ROWS : 0, 0, 0, LMC_H5_MAGIC, v->values[0], v->values[1], 0, 0, v->row_count};
    const size_t value_count = has_rows ? LMC_H5_VALUE_COUNT_MAX : LMC_H5_VALUE_COUNT_MIN;
    const size_t chunk_nbytes = chunk_nbytes_of(v);
    unsigned char chunk[CHUNK_NBYTES];
    size_t bound = 0, nbytes = 0;
    make_chunk(v, chunk);
    unsigned char *const stored = lmc_h5_encode_bound(chunk_nbytes, &bound) == LMC_OK ? malloc(bound) : NULL;
    if (stored == NULL ||
        lmc_h5_encode_chunk(NULL, values, value_count, chunk, chunk_nbytes, stored, bound, &nbytes) != LMC_OK)
        fail(v->name, lmc_h5_last_error());
    const int is_regrouped =
        has_rows || ((v->values[1] & (BIG | SHUFFLED | COLUMNS)) != 0 && v->kind != CONTENTS_RANDOM);
    if ((stored[3] == 'H') != is_regrouped || (has_rows && stored[5] != LAYOUT_ROWS))
        fail(v->name, "is not in the form that it stands for");
    write_file(directory, v->name, ".chunk", stored, nbytes);
    write_file(directory, v->name, ".bin", chunk, chunk_nbytes);
    free(stored);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_h5_vectors DIR\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        write_vector(argv[1], &vectors[i]);
    return 0;
}
