/*
 * h5_round_trip.c - fuzz target: any bytes as a chunk, under any values of the HDF5 filter.
 *
 * The first eight bytes choose the values; the rest is encoded, must be at most LMC_H5_OVERHEAD_MAX larger, and must
 * come back. Only values that the filter never sets may be refused.
 */
#include "fuzz.h"

#include <lmc_h5.h>

#define CHOICE_NBYTES 8
#define OTHER_CONTEXT 0x80 /* in byte 0: encode in a new context, too (takes long) */

/* 0: none, 1 to 3: so many of a user's, else complete ones. Returns their count. */
static size_t choose_values(const uint8_t *choice, unsigned values[LMC_H5_VALUE_COUNT_MAX],
                            size_t chunk_nbytes)
{
    static const unsigned elements[] = {0, 1, 2, 4, 8};
    static const unsigned kib[] = {0, 16, 32, 64, 1024};
    const unsigned flags = choice[5];
    const unsigned row_count = choice[1] / 3;        /* the level takes what is left */
    const unsigned matrix_rows = choice[2] / 5 % 16; /* 0: the length of a row is not known */
    const int has_whole_rows = matrix_rows > 0 && chunk_nbytes % matrix_rows == 0;
    values[LMC_H5_VALUE_LEVEL] = choice[1] % 3 + (row_count > 0 ? LMC_H5_LEVEL_ROWS : 0);
    values[LMC_H5_VALUE_USER_ELEMENT_NBYTES] = elements[choice[2] % 5];
    values[LMC_H5_VALUE_BLOCK_KIB] = kib[choice[3] % 5];
    values[LMC_H5_VALUE_MAGIC] = LMC_H5_MAGIC;
    values[LMC_H5_VALUE_FILTER_ELEMENT_NBYTES] = 1u + choice[4];
    values[LMC_H5_VALUE_TYPE] = 255u | flags << 8 | (unsigned)choice[6] << 16 | (unsigned)choice[7] << 24;
    values[LMC_H5_VALUE_CHUNK_LOW] = (unsigned)chunk_nbytes;
    values[LMC_H5_VALUE_CHUNK_HIGH] = 0;
    values[LMC_H5_VALUE_ROWS] = row_count;
    values[LMC_H5_VALUE_ROW_NBYTES] = has_whole_rows ? (unsigned)(chunk_nbytes / matrix_rows) : 0;
    if (choice[0] % 8 < 4)
        return choice[0] % 8;
    if (matrix_rows > 0)
        return LMC_H5_VALUE_COUNT_MAX;
    return row_count > 0 ? LMC_H5_VALUE_ROWS + 1 : LMC_H5_VALUE_COUNT_MIN;
}

static void check_round_trip(const uint8_t *chunk, size_t chunk_nbytes, const uint8_t *stored,
                             size_t stored_nbytes)
{
    /* an exact copy: a read past its end is seen */
    uint8_t *const exact = fuzz_malloc(stored_nbytes);
    uint8_t *const back = fuzz_malloc(chunk_nbytes);
    size_t told;
    size_t got;
    memcpy(exact, stored, stored_nbytes);
    FUZZ_CLAIM(lmc_h5_chunk_nbytes(exact, stored_nbytes, &told) == LMC_OK && told == chunk_nbytes);
    FUZZ_CLAIM(lmc_h5_decode_chunk(NULL, exact, stored_nbytes, back, chunk_nbytes, &got) == LMC_OK);
    FUZZ_CLAIM(got == chunk_nbytes && memcmp(back, chunk, chunk_nbytes) == 0);
    free(back);
    free(exact);
}

/* The bytes are the same whatever a context has done before. */
static void check_other_context(const unsigned *values, size_t value_count, const uint8_t *chunk,
                                size_t chunk_nbytes, const uint8_t *stored, size_t stored_nbytes)
{
    lmc_ctx *ctx = NULL;
    size_t bound;
    size_t got = 1;
    FUZZ_CLAIM(lmc_ctx_create(NULL, &ctx) == LMC_OK);
    FUZZ_CLAIM(lmc_h5_encode_bound(chunk_nbytes, &bound) == LMC_OK);
    uint8_t *const again = fuzz_malloc(bound);
    FUZZ_CLAIM(lmc_h5_encode_chunk(ctx, values, value_count, chunk, chunk_nbytes, again, bound, &got) ==
               LMC_OK);
    FUZZ_CLAIM(got == stored_nbytes && memcmp(again, stored, got) == 0);
    free(again);
    lmc_ctx_free(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes < CHOICE_NBYTES)
        return 0;
    unsigned values[LMC_H5_VALUE_COUNT_MAX];
    const size_t chunk_nbytes = nbytes - CHOICE_NBYTES;
    const uint8_t *const chunk = data + CHOICE_NBYTES;
    const size_t value_count = choose_values(data, values, chunk_nbytes);

    size_t bound;
    size_t stored_nbytes = 1;
    FUZZ_CLAIM(lmc_h5_encode_bound(chunk_nbytes, &bound) == LMC_OK);
    uint8_t *const stored = fuzz_malloc(bound);
    const lmc_status status =
        lmc_h5_encode_chunk(NULL, values, value_count, chunk, chunk_nbytes, stored, bound, &stored_nbytes);
    if (status == LMC_OK) {
        FUZZ_CLAIM(stored_nbytes <= chunk_nbytes + LMC_H5_OVERHEAD_MAX);
        check_round_trip(chunk, chunk_nbytes, stored, stored_nbytes);
    } else {
        FUZZ_CLAIM(status == LMC_ERR_ARG && value_count >= LMC_H5_VALUE_COUNT_MIN && stored_nbytes == 0);
    }
    if (status == LMC_OK && (data[0] & OTHER_CONTEXT) != 0)
        check_other_context(values, value_count, chunk, chunk_nbytes, stored, stored_nbytes);
    free(stored);
    return 0;
}
