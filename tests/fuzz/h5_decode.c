/*
 * h5_decode.c - fuzz target: any bytes as a stored chunk of the HDF5 filter.
 *
 * As they are; with checks that are right; and as parts of a regrouped chunk, so that a changed input gets as far as
 * the frames and the order of the bytes.
 */
#include "fuzz.h"

#include <lmc_h5.h>

#include "frame_repair.h"

/* Larger claims are left alone: the target shall be quick. */
#define CHUNK_NBYTES_MAX ((size_t)4 << 20)
#define BUILT_NBYTES_MAX ((size_t)1 << 18)

#define BLOCK_NBYTES_MAX ((size_t)8 << 20) /* and what the least of them takes: */
#define BLOCK_STORED_MIN 13

/* docs/hdf5-filter.md, section 3 */
enum {
    HEAD_NBYTES = 10,
    LAYOUT_OFFSET = 5,
    SWAP_OFFSET = 6,
    WIDTH_OFFSET = 8,
    ROW_COUNT_NBYTES = 4,
    FRAME_SIZE_NBYTES = 4,
    LAYOUT_COLUMNS = 1,
    LAYOUT_ROWS = 3,
    LAYOUT_COUNT = 4,
    WIDTH_MIN = 2,
    WIDTH_MAX = 256,
    ROW_COUNT_MIN = 2,
    ROW_COUNT_MAX = 65536
};

static const uint8_t magic[4] = {0x8c, 0x4c, 0x4d, 0x48};

/* ---- decoding ---- */

static lmc_status decode(lmc_ctx *ctx, const uint8_t *data, size_t nbytes, uint8_t *dst, size_t capacity,
                         size_t *got)
{
    *got = 1;
    const lmc_status status = lmc_h5_decode_chunk(ctx, data, nbytes, dst, capacity, got);
    FUZZ_CLAIM(status == LMC_OK || *got == 0);
    FUZZ_CLAIM(status == LMC_OK || strncmp(lmc_h5_last_error(), "lmc", 3) == 0);
    FUZZ_CLAIM(status != LMC_ERR_ARG && status != LMC_ERR_NOMEM);
    return status;
}

/* A status or a chunk of the size that was told; the same in every context. */
static void check(const uint8_t *data, size_t nbytes)
{
    size_t chunk_nbytes = 1;
    size_t got;
    lmc_ctx *ctx = NULL;
    FUZZ_CLAIM(lmc_ctx_create(NULL, &ctx) == LMC_OK);
    const lmc_status size_status = lmc_h5_chunk_nbytes(data, nbytes, &chunk_nbytes);
    if (size_status != LMC_OK) {
        uint8_t dst[16];
        FUZZ_CLAIM(chunk_nbytes == 0);
        FUZZ_CLAIM(decode(ctx, data, nbytes, dst, sizeof(dst), &got) == size_status);
    } else {
        FUZZ_CLAIM(chunk_nbytes / BLOCK_NBYTES_MAX <= nbytes / BLOCK_STORED_MIN);
    }
    if (size_status == LMC_OK && chunk_nbytes <= CHUNK_NBYTES_MAX) {
        uint8_t *const first = fuzz_malloc(chunk_nbytes);
        uint8_t *const second = fuzz_malloc(chunk_nbytes);
        const lmc_status status = decode(ctx, data, nbytes, first, chunk_nbytes, &got);
        FUZZ_CLAIM(status != LMC_OK || got == chunk_nbytes);
        FUZZ_CLAIM(decode(NULL, data, nbytes, second, chunk_nbytes, &got) == status);
        FUZZ_CLAIM(status != LMC_OK || memcmp(first, second, chunk_nbytes) == 0);
        if (chunk_nbytes > 0)
            FUZZ_CLAIM(decode(ctx, data, nbytes, second, chunk_nbytes - 1, &got) == LMC_ERR_DST_SMALL);
        free(first);
        free(second);
    }
    lmc_ctx_free(ctx);
}

/* ---- repairing ---- */

static size_t load(const uint8_t *src, size_t nbytes)
{
    size_t value = 0;
    for (size_t i = nbytes; i-- > 0;)
        value = value << 8 | src[i];
    return value;
}

/* Where the sizes of frames begin. */
static size_t sizes_offset_of(const uint8_t *head)
{
    return HEAD_NBYTES + (head[LAYOUT_OFFSET] == LAYOUT_ROWS ? (size_t)ROW_COUNT_NBYTES : 0);
}

/* The head has its first sizes_offset_of() bytes. */
static unsigned frame_count_of(const uint8_t *head)
{
    if (head[LAYOUT_OFFSET] == LAYOUT_ROWS) {
        const size_t row_count = load(head + HEAD_NBYTES, ROW_COUNT_NBYTES);
        return row_count >= ROW_COUNT_MIN && row_count <= ROW_COUNT_MAX ? (unsigned)row_count : 1;
    }
    const size_t width = load(head + WIDTH_OFFSET, 2);
    const int is_columns = head[LAYOUT_OFFSET] == LAYOUT_COLUMNS && width >= WIDTH_MIN && width <= WIDTH_MAX;
    return is_columns ? (unsigned)width : 1;
}

/* Sets the checks of all frames that can be made out, then that of the head. */
static void repair(uint8_t *stored, size_t nbytes)
{
    if (nbytes < sizeof(magic) || memcmp(stored, magic, sizeof(magic)) != 0) {
        fuzz_repair_frame(stored, nbytes);
        return;
    }
    if (nbytes < HEAD_NBYTES || nbytes < sizes_offset_of(stored))
        return;
    const unsigned frame_count = frame_count_of(stored);
    const size_t check_offset = sizes_offset_of(stored) + FRAME_SIZE_NBYTES * (size_t)(frame_count - 1);
    if (nbytes < check_offset + FUZZ_CHECK_NBYTES)
        return;
    size_t offset = check_offset + FUZZ_CHECK_NBYTES;
    for (unsigned i = 0; i < frame_count; i++) {
        const size_t size_offset = sizes_offset_of(stored) + FRAME_SIZE_NBYTES * (size_t)i;
        const size_t left = nbytes - offset;
        const size_t frame_nbytes =
            i + 1 < frame_count ? load(stored + size_offset, FRAME_SIZE_NBYTES) : left;
        if (frame_nbytes > left)
            break;
        fuzz_repair_frame(stored + offset, frame_nbytes);
        offset += frame_nbytes;
    }
    fuzz_store_u64(stored + check_offset, XXH3_64bits(stored, check_offset));
}

static void check_repaired(const uint8_t *data, size_t nbytes)
{
    uint8_t *const repaired = fuzz_malloc(nbytes);
    if (nbytes > 0)
        memcpy(repaired, data, nbytes);
    repair(repaired, nbytes);
    check(repaired, nbytes);
    free(repaired);
}

/* ---- building ---- */

/* Parts: a byte each for layout, swap and width, then u16 n and n bytes for each frame. Where frames are missing the
 * last one stands again, so that a few bytes make many columns. Of rows the width says the count, too. */
static void check_built(const uint8_t *data, size_t nbytes)
{
    static const uint8_t swaps[] = {0, 2, 4, 8, 3};
    if (nbytes < 6)
        return;
    uint8_t *const built = fuzz_malloc(BUILT_NBYTES_MAX);
    const unsigned layout = data[0] % LAYOUT_COUNT;
    const int has_width = layout == LAYOUT_ROWS ? data[2] % 2 : layout != 0;
    const unsigned width = has_width ? WIDTH_MIN + data[2] : 0;
    memcpy(built, magic, sizeof(magic));
    built[4] = 1;
    built[LAYOUT_OFFSET] = (uint8_t)layout;
    built[SWAP_OFFSET] = layout == LAYOUT_COLUMNS ? 0 : swaps[data[1] % sizeof(swaps)];
    built[SWAP_OFFSET + 1] = 0;
    built[WIDTH_OFFSET] = (uint8_t)width;
    built[WIDTH_OFFSET + 1] = (uint8_t)(width >> 8);
    memset(built + HEAD_NBYTES, 0, ROW_COUNT_NBYTES);
    built[HEAD_NBYTES] = (uint8_t)(ROW_COUNT_MIN + data[2] / 2); /* read in rows only */
    const unsigned frame_count = frame_count_of(built);
    size_t used = sizes_offset_of(built) + FRAME_SIZE_NBYTES * (size_t)(frame_count - 1) + FUZZ_CHECK_NBYTES;
    size_t at = 3;
    size_t frame_at = 3;
    size_t frame_nbytes = 0;
    for (unsigned i = 0; i < frame_count; i++) {
        if (nbytes - at >= 2) {
            const size_t wanted = load(data + at, 2);
            frame_at = at + 2;
            frame_nbytes = wanted < nbytes - frame_at ? wanted : nbytes - frame_at;
            at = frame_at + frame_nbytes;
        }
        if (frame_nbytes > BUILT_NBYTES_MAX - used)
            break;
        memcpy(built + used, data + frame_at, frame_nbytes);
        used += frame_nbytes;
        for (unsigned j = 0; i + 1 < frame_count && j < FRAME_SIZE_NBYTES; j++) {
            built[sizes_offset_of(built) + FRAME_SIZE_NBYTES * (size_t)i + j] =
                (uint8_t)(frame_nbytes >> 8 * j);
        }
    }
    check_repaired(built, used);
    free(built);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    check(data, nbytes);
    check_repaired(data, nbytes);
    check_built(data, nbytes);
    return 0;
}
