/*
 * make_h5_corpus.c - writes the seeds of the fuzz targets of the HDF5 filter: make_h5_corpus DIRECTORY.
 *
 * h5_decode gets stored chunks of every form, whole and damaged, and parts to build such chunks of; h5_round_trip gets
 * contents and the values to encode them with.
 */
#include "fuzz.h"

#include <lmc_h5.h>

#include "seed.h"

#define CHUNK_NBYTES 1500
#define ROWS_NBYTES 6400 /* of a chunk with rows: they are not tried below 1 KiB each */
#define ROW_COUNT 4
#define MATRIX_NBYTES 1440
#define MATRIX_ROW_COUNT 10

/* ---- contents ---- */

/* Elements whose high bytes are few and whose low ones are noise, in the order of bytes that is asked for. */
static void fill_elements(uint8_t *dst, size_t nbytes, unsigned element_nbytes, int is_big_endian)
{
    for (size_t i = 0; i < nbytes; i++) {
        const size_t place = i % element_nbytes;
        const size_t significance = is_big_endian ? element_nbytes - 1 - place : place;
        const uint32_t bits = next_random();
        dst[i] = significance + 1 == element_nbytes ? (uint8_t)((bits & 0x80) | 0x3d | (bits >> 8 & bits & 2))
                                                    : (uint8_t)bits;
    }
}

static void fill_records(uint8_t *dst, size_t nbytes, unsigned width, int is_unused)
{
    (void)is_unused;
    for (size_t i = 0; i < nbytes; i++)
        dst[i] = (uint8_t)(i % width + next_random() % 3);
}

static void fill_shuffled(uint8_t *dst, size_t nbytes, unsigned width, int is_big_endian)
{
    uint8_t elements[CHUNK_NBYTES];
    const size_t count = nbytes / width;
    fill_elements(elements, nbytes, width, is_big_endian);
    memcpy(dst, elements, nbytes);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < width; j++)
            dst[j * count + i] = elements[i * width + j];
}

typedef struct form {
    const char *name;
    void (*fill)(uint8_t *dst, size_t nbytes, unsigned element_nbytes, int is_big_endian);
    unsigned element_nbytes; /* value [4] */
    unsigned flags;          /* of value [5] */
    unsigned dtype;          /* + 1, or 0 */
    unsigned span;
} form;

static const form forms[] = {
    {"plain-bf16", fill_elements, 2, 0, LMC_DTYPE_BF16 + 1, 0},
    {"plain-f32", fill_elements, 4, 0, LMC_DTYPE_F32 + 1, 0},
    {"sampled-8", fill_elements, 8, 0, 0, 0},
    {"big-endian-2", fill_elements, 2, LMC_H5_TYPE_BIG_ENDIAN, 0, 0},
    {"big-endian-4", fill_elements, 4, LMC_H5_TYPE_BIG_ENDIAN, LMC_DTYPE_F32 + 1, 0},
    {"big-endian-8", fill_elements, 8, LMC_H5_TYPE_BIG_ENDIAN, LMC_DTYPE_F64 + 1, 0},
    {"shuffled-4", fill_shuffled, 4, LMC_H5_TYPE_SHUFFLED, LMC_DTYPE_F32 + 1, 1},
    {"shuffled-big-endian-4", fill_shuffled, 4, LMC_H5_TYPE_SHUFFLED | LMC_H5_TYPE_BIG_ENDIAN,
     LMC_DTYPE_F32 + 1, 1},
    {"shuffled-3-of-2", fill_shuffled, 2, LMC_H5_TYPE_SHUFFLED, 0, 3},
    {"columns-2", fill_records, 2, LMC_H5_TYPE_COLUMNS, 0, 0},
    {"columns-7", fill_records, 7, LMC_H5_TYPE_COLUMNS, 0, 0},
    {"columns-16", fill_records, 16, LMC_H5_TYPE_COLUMNS, 0, 0},
};

/* Rows of what a form puts into one, each as the one before with few low bytes that are 1 more. */
static void fill_rows(const form *f, uint8_t *dst)
{
    const size_t row_nbytes = ROWS_NBYTES / ROW_COUNT;
    const unsigned low = (f->flags & LMC_H5_TYPE_BIG_ENDIAN) != 0 ? f->element_nbytes - 1 : 0;
    fill_elements(dst, row_nbytes, f->element_nbytes, low != 0);
    for (size_t i = row_nbytes; i < ROWS_NBYTES; i++)
        dst[i] = (uint8_t)(dst[i - row_nbytes] + (i % f->element_nbytes == low && next_random() % 16 == 0));
}

/* ---- seeds ---- */

static size_t encode(const form *f, unsigned row_count, const uint8_t *chunk, size_t nbytes, uint8_t **stored)
{
    const unsigned values[LMC_H5_VALUE_COUNT_MAX] = {row_count > 0 ? LMC_H5_LEVEL_ROWS : 0,
                                                     0,
                                                     0,
                                                     LMC_H5_MAGIC,
                                                     f->element_nbytes,
                                                     255u | f->flags | f->dtype << 16 | f->span << 24,
                                                     0,
                                                     0,
                                                     row_count};
    const size_t value_count = row_count > 0 ? LMC_H5_VALUE_ROWS + 1 : LMC_H5_VALUE_COUNT_MIN;
    size_t bound;
    size_t stored_nbytes;
    FUZZ_CLAIM(lmc_h5_encode_bound(nbytes, &bound) == LMC_OK);
    *stored = fuzz_malloc(bound);
    FUZZ_CLAIM(lmc_h5_encode_chunk(NULL, values, value_count, chunk, nbytes, *stored, bound,
                                   &stored_nbytes) == LMC_OK);
    return stored_nbytes;
}

static void write_stored_seeds(const form *f, unsigned row_count, const uint8_t *chunk, size_t nbytes)
{
    char name[128];
    uint8_t *stored;
    const size_t stored_nbytes = encode(f, row_count, chunk, nbytes, &stored);
    snprintf(name, sizeof(name), "%s%s-%zu", row_count > 0 ? "rows-" : "", f->name, nbytes);
    write_seed("h5_decode", name, stored, stored_nbytes);
    strcat(name, "-flip");
    stored[next_random() % stored_nbytes] ^= (uint8_t)(1u << (next_random() & 7));
    write_seed("h5_decode", name, stored, stored_nbytes);
    strcat(name, "-cut");
    write_seed("h5_decode", name, stored, next_random() % stored_nbytes);
    free(stored);
}

/* Parts of a chunk (chunk/chunk_decode.c) with frames of these contents; the last one stands for all that are missing.
 */
static void write_parts_seed(const char *name, uint8_t layout, uint8_t swap, uint8_t width,
                             const size_t *contents, size_t count)
{
    static uint8_t parts[8192], frame[65536];
    uint8_t content[512];
    size_t used = 3;
    lmc_ctx *ctx = NULL;
    lmc_params params;
    lmc_params_init(&params);
    FUZZ_CLAIM(lmc_ctx_create(NULL, &ctx) == LMC_OK);
    parts[0] = layout;
    parts[1] = swap;
    parts[2] = width;
    for (size_t i = 0; i < count; i++) {
        size_t bound;
        size_t nbytes;
        FUZZ_CLAIM(contents[i] <= sizeof(content));
        fill_records(content, contents[i], 5, 0);
        FUZZ_CLAIM(lmc_encode_bound(&params, contents[i], &bound) == LMC_OK && bound <= sizeof(frame));
        FUZZ_CLAIM(lmc_encode(ctx, &params, content, contents[i], frame, sizeof(frame), &nbytes) == LMC_OK);
        FUZZ_CLAIM(nbytes <= sizeof(parts) - 2 - used);
        parts[used] = (uint8_t)nbytes;
        parts[used + 1] = (uint8_t)(nbytes >> 8);
        memcpy(parts + used + 2, frame, nbytes);
        used += 2 + nbytes;
    }
    write_seed("h5_decode", name, parts, used);
    lmc_ctx_free(ctx);
}

static void write_chunk_seed(const form *f, unsigned row_count, unsigned matrix_rows, const uint8_t *chunk,
                             size_t nbytes)
{
    char name[128];
    uint8_t seed[8 + ROWS_NBYTES];
    const int is_complete = nbytes % 2 || row_count > 0 || matrix_rows > 0;
    const uint8_t choice[8] = {(uint8_t)((is_complete ? 4 : nbytes % 4) | (nbytes > 700 ? 0x80 : 0)),
                               (uint8_t)(3 * row_count + nbytes % 3),
                               (uint8_t)(5 * matrix_rows + nbytes % 5),
                               (uint8_t)(nbytes % 7),
                               (uint8_t)(f->element_nbytes - 1),
                               (uint8_t)(f->flags >> 8),
                               (uint8_t)f->dtype,
                               (uint8_t)f->span};
    memcpy(seed, choice, 8);
    memcpy(seed + 8, chunk, nbytes);
    snprintf(name, sizeof(name), "%s%s-%zu",
             row_count > 0     ? "rows-"
             : matrix_rows > 0 ? "matrix-"
                               : "",
             f->name, nbytes);
    write_seed("h5_round_trip", name, seed, 8 + nbytes);
}

static void write_row_seeds(const form *f)
{
    static uint8_t rows[ROWS_NBYTES];
    fill_rows(f, rows);
    write_stored_seeds(f, ROW_COUNT, rows, ROWS_NBYTES);
    write_chunk_seed(f, ROW_COUNT, 0, rows, ROWS_NBYTES);
}

/* Elements of which the filter knows the length of a row. */
static void write_matrix_seed(const form *f)
{
    static uint8_t matrix[MATRIX_NBYTES];
    fill_elements(matrix, MATRIX_NBYTES, f->element_nbytes, (f->flags & LMC_H5_TYPE_BIG_ENDIAN) != 0);
    write_chunk_seed(f, 0, MATRIX_ROW_COUNT, matrix, MATRIX_NBYTES);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {0, 31, 700, CHUNK_NBYTES - 1};
    static uint8_t chunk[CHUNK_NBYTES];
    take_directory(argc, argv);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const form *const f = &forms[i];
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            const unsigned width = f->span > 1 ? f->element_nbytes * f->span : f->element_nbytes;
            f->fill(chunk, sizes[s], width, (f->flags & LMC_H5_TYPE_BIG_ENDIAN) != 0);
            if (sizes[s] >= 700)
                write_stored_seeds(f, 0, chunk, sizes[s]);
            write_chunk_seed(f, 0, 0, chunk, sizes[s]);
        }
    }
    write_parts_seed("parts-plain", 0, 2, 0, (const size_t[]){300}, 1);
    write_parts_seed("parts-columns", 1, 0, 1, (const size_t[]){5, 5, 7}, 3);
    write_parts_seed("parts-columns-unequal", 1, 0, 1, (const size_t[]){5, 6, 5}, 3);
    write_parts_seed("parts-columns-256", 1, 0, 254, (const size_t[]){3}, 1);
    write_parts_seed("parts-columns-empty", 1, 0, 3, (const size_t[]){0}, 1);
    write_parts_seed("parts-records", 2, 1, 4, (const size_t[]){311}, 1);
    write_parts_seed("parts-rows", 3, 0, 2, (const size_t[]){300, 300, 300}, 3);
    write_parts_seed("parts-rows-unequal", 3, 1, 2, (const size_t[]){5, 6, 5}, 3);
    write_parts_seed("parts-rows-128-of-records", 3, 2, 253, (const size_t[]){3}, 1);
    write_parts_seed("parts-rows-empty", 3, 0, 4, (const size_t[]){0}, 1);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        if (forms[i].fill == fill_elements)
            write_row_seeds(&forms[i]);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        if (forms[i].fill == fill_elements)
            write_matrix_seed(&forms[i]);
    return 0;
}
