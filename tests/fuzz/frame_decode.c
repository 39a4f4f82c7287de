/*
 * frame_decode.c - fuzz target: any bytes as a frame; if it asks for a base, it gets one (base.h).
 *
 * Whole, by ranges and in pieces, decoding ends in a status or in content; the three ways agree, and so
 * do two runs of one.
 */
#include "fuzz.h"

#include "base.h"
#include "frame_repair.h"
#include "lmc_experimental.h"

/* Larger claims of content are left alone: the target shall be quick. */
#define CONTENT_NBYTES_MAX ((uint64_t)4 << 20)
#define PIECES_MAX 4096

static int info_equal(const lmc_info *a, const lmc_info *b)
{
    return a->version == b->version && a->dtype == b->dtype && a->mode == b->mode &&
           a->element_nbytes == b->element_nbytes && a->block_log2 == b->block_log2 &&
           a->row_nbytes == b->row_nbytes && a->content_nbytes == b->content_nbytes &&
           a->block_count == b->block_count && a->block_nbytes == b->block_nbytes &&
           a->head_nbytes == b->head_nbytes && a->tail_nbytes == b->tail_nbytes &&
           a->base_form == b->base_form && a->base_nbytes == b->base_nbytes &&
           a->base_block_nbytes == b->base_block_nbytes;
}

/* Exactly the base that a frame asks for, from malloc; NULL if it asks for none. */
static uint8_t *make_base(const lmc_info *info)
{
    if (info->base_nbytes == 0)
        return NULL;
    uint8_t *const base = fuzz_malloc((size_t)info->base_nbytes);
    fuzz_fill_base(base, (size_t)info->base_nbytes);
    return base;
}

static size_t base_scale(const lmc_info *info)
{
    return info->base_block_nbytes / info->block_nbytes;
}

/* Lists what changes in a block, in room for as many elements as its number says; status and content: those of decoding
 * it. */
static void check_changes(lmc_ctx *ctx, const lmc_frame *frame, const lmc_info *info, uint64_t block,
                          const uint8_t *stored, size_t stored_nbytes, const uint8_t *base,
                          size_t base_nbytes, lmc_status status, const uint8_t *content)
{
    const unsigned element_nbytes = info->element_nbytes;
    const size_t n = base_nbytes / element_nbytes, capacity = block % 3 == 2 ? n / 8 : n;
    lmc_changes changes = {fuzz_malloc(capacity * sizeof(uint32_t)), fuzz_malloc(capacity * element_nbytes),
                           capacity, 1};
    size_t count = 0;
    const lmc_status found =
        lmc_decode_delta_changes(ctx, frame, block, stored, stored_nbytes, base, base_nbytes, &changes);
    FUZZ_CLAIM(found == status);
    for (size_t i = 0; i < n && status == LMC_OK; i++) {
        const uint8_t *const x = content + i * element_nbytes;
        if (memcmp(x, base + i * element_nbytes, element_nbytes) == 0)
            continue;
        FUZZ_CLAIM(
            changes.count > capacity ||
            (changes.places[count] == i &&
             memcmp((const uint8_t *)changes.values + count * element_nbytes, x, element_nbytes) == 0));
        count++;
    }
    FUZZ_CLAIM(changes.count == count);
    free(changes.places);
    free(changes.values);
}

/* Decodes block by block into dst. Returns LMC_OK only if every block and the content hash are right. */
static lmc_status decode_blocks(lmc_ctx *ctx, const lmc_frame *frame, const lmc_info *info,
                                const uint8_t *data, size_t nbytes, const uint8_t *base, uint8_t *dst)
{
    lmc_block_entry *const entries = fuzz_malloc((size_t)info->block_count * sizeof(lmc_block_entry));
    lmc_status status = LMC_OK;
    size_t done = 0;
    for (uint64_t i = 0; i < info->block_count && status == LMC_OK; i++) {
        uint64_t offset;
        size_t stored_nbytes, content_nbytes;
        FUZZ_CLAIM(lmc_frame_block(frame, i, &offset, &stored_nbytes, &content_nbytes) == LMC_OK);
        FUZZ_CLAIM(offset <= nbytes && stored_nbytes <= nbytes - offset);
        FUZZ_CLAIM(content_nbytes <= info->content_nbytes - done);
        const uint8_t *const block_base = base ? base + i * info->base_block_nbytes : NULL;
        const size_t block_base_nbytes = base ? content_nbytes * base_scale(info) : 0;
        status = lmc_decode_delta_block(ctx, frame, i, data + offset, stored_nbytes, block_base,
                                        block_base_nbytes, dst + done, content_nbytes, &entries[i]);
        if (base && info->base_form == LMC_BASE_PLAIN && info->content_nbytes % info->element_nbytes == 0)
            check_changes(ctx, frame, info, i, data + offset, stored_nbytes, block_base, block_base_nbytes,
                          status, dst + done);
        done += content_nbytes;
    }
    if (status == LMC_OK) {
        FUZZ_CLAIM(done == info->content_nbytes);
        if (lmc_content_hash(entries, info->block_count) != lmc_frame_content_hash(frame))
            status = LMC_ERR_CHECKSUM;
        FUZZ_CLAIM(base == NULL || lmc_base_hash(entries, info->block_count) == lmc_frame_base_hash(frame));
    }
    free(entries);
    return status;
}

static lmc_status decode_in_pieces(lmc_ctx *ctx, const lmc_info *info, const uint8_t *data, size_t nbytes,
                                   const uint8_t *base, uint8_t *dst)
{
    if (info->head_nbytes > nbytes || info->tail_nbytes > nbytes - info->head_nbytes)
        return LMC_ERR_TRUNCATED;
    const size_t tail_nbytes = (size_t)info->tail_nbytes;
    lmc_frame *frame = NULL;
    lmc_status status = lmc_frame_create(ctx, data, info->head_nbytes, data + nbytes - tail_nbytes,
                                         tail_nbytes, nbytes, &frame);
    if (status != LMC_OK)
        return status;
    lmc_info opened = LMC_INIT(lmc_info);
    FUZZ_CLAIM(lmc_frame_info(frame, &opened) == LMC_OK);
    FUZZ_CLAIM(info_equal(info, &opened));
    status = decode_blocks(ctx, frame, info, data, nbytes, base, dst);
    lmc_frame_free(frame);
    return status;
}

/* Every range of a content that decodes must be that part of it. */
static void check_ranges(lmc_ctx *ctx, const uint8_t *data, size_t nbytes, const uint8_t *base,
                         size_t base_nbytes, const uint8_t *content, size_t content_nbytes)
{
    const size_t firsts[] = {0, content_nbytes / 3, content_nbytes - content_nbytes / 5, content_nbytes};
    for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
        const size_t first = firsts[i];
        const size_t count = (content_nbytes - first + i) / (i + 1);
        const size_t range_nbytes = count <= content_nbytes - first ? count : content_nbytes - first;
        uint8_t *const range = fuzz_malloc(range_nbytes);
        FUZZ_CLAIM(lmc_decode_delta_range(ctx, data, nbytes, base, base_nbytes, first, range_nbytes, range) ==
                   LMC_OK);
        FUZZ_CLAIM(memcmp(range, content + first, range_nbytes) == 0);
        free(range);
    }
    uint8_t byte;
    FUZZ_CLAIM(lmc_decode_delta_range(ctx, data, nbytes, base, base_nbytes, content_nbytes, 1, &byte) ==
               LMC_ERR_ARG);
}

/* A length that the input chooses, about as often too short as too long. */
static size_t choose_base_nbytes(const uint8_t *data, size_t nbytes, size_t right_nbytes)
{
    const size_t number = data[nbytes - 1] | (size_t)data[nbytes - 2] << 8 | (size_t)data[nbytes - 3] << 16;
    return number % (2 * right_nbytes + 2);
}

/* Decodes the first block with a base of which only base_nbytes bytes are there. */
static void check_block_base_of_any_length(lmc_ctx *ctx, const lmc_info *info, const uint8_t *data,
                                           size_t nbytes, const uint8_t *base, size_t base_nbytes,
                                           uint8_t *dst)
{
    const size_t tail_nbytes = (size_t)info->tail_nbytes;
    lmc_frame *frame = NULL;
    uint64_t offset;
    size_t stored_nbytes, content_nbytes;
    FUZZ_CLAIM(lmc_frame_create(ctx, data, info->head_nbytes, data + nbytes - tail_nbytes, tail_nbytes,
                                nbytes, &frame) == LMC_OK);
    FUZZ_CLAIM(lmc_frame_block(frame, 0, &offset, &stored_nbytes, &content_nbytes) == LMC_OK);
    const lmc_status status = lmc_decode_delta_block(ctx, frame, 0, data + offset, stored_nbytes, base,
                                                     base_nbytes, dst, content_nbytes, NULL);
    FUZZ_CLAIM((status == LMC_OK) == (base_nbytes == content_nbytes * base_scale(info)));
    FUZZ_CLAIM(status == LMC_OK || status == LMC_ERR_BASE);
    lmc_frame_free(frame);
}

/* A base of another length than the frame asks for is refused, and none of it is read. status: with the right one. */
static void check_base_of_any_length(lmc_ctx *ctx, const lmc_info *info, const uint8_t *data, size_t nbytes,
                                     lmc_status status, uint8_t *dst)
{
    const size_t content_nbytes = (size_t)info->content_nbytes;
    const size_t base_nbytes = choose_base_nbytes(data, nbytes, (size_t)info->base_nbytes);
    const int is_right = base_nbytes == info->base_nbytes;
    uint8_t *const base = fuzz_malloc(base_nbytes);
    size_t got;
    fuzz_fill_base(base, base_nbytes);
    const lmc_status found =
        lmc_decode_delta(ctx, data, nbytes, base, base_nbytes, dst, content_nbytes, &got);
    FUZZ_CLAIM((found == LMC_OK) == (status == LMC_OK && is_right));
    FUZZ_CLAIM(status != LMC_OK || is_right || found == LMC_ERR_BASE);
    const size_t half = content_nbytes / 2;
    const lmc_status range_status =
        lmc_decode_delta_range(ctx, data, nbytes, base, base_nbytes, half, content_nbytes - half, dst);
    FUZZ_CLAIM(status != LMC_OK || range_status == found);
    if (status == LMC_OK)
        check_block_base_of_any_length(ctx, info, data, nbytes, base, base_nbytes, dst);
    free(base);
}

/* Whole, twice, then in pieces, then by ranges. */
static void decode_known_size(lmc_ctx *ctx, const lmc_info *info, const uint8_t *data, size_t nbytes)
{
    const size_t content_nbytes = (size_t)info->content_nbytes;
    const size_t base_nbytes = (size_t)info->base_nbytes;
    uint8_t *const base = make_base(info);
    uint8_t *const first = fuzz_malloc(content_nbytes);
    uint8_t *const second = fuzz_malloc(content_nbytes);
    size_t got = 0;
    const lmc_status status =
        lmc_decode_delta(ctx, data, nbytes, base, base_nbytes, first, content_nbytes, &got);
    FUZZ_CLAIM(got == (status == LMC_OK ? content_nbytes : 0));
    FUZZ_CLAIM(lmc_decode_delta(ctx, data, nbytes, base, base_nbytes, second, content_nbytes, &got) ==
               status);
    FUZZ_CLAIM(status != LMC_OK || memcmp(first, second, content_nbytes) == 0);
    memset(second, 0xa5, content_nbytes);
    const lmc_status pieces_status = decode_in_pieces(ctx, info, data, nbytes, base, second);
    FUZZ_CLAIM((pieces_status == LMC_OK) == (status == LMC_OK));
    if (status == LMC_OK) {
        FUZZ_CLAIM(memcmp(first, second, content_nbytes) == 0);
        check_ranges(ctx, data, nbytes, base, base_nbytes, first, content_nbytes);
        FUZZ_CLAIM(base == NULL ||
                   lmc_decode(ctx, data, nbytes, second, content_nbytes, &got) == LMC_ERR_BASE);
    }
    if (info->mode == LMC_FRAME_DELTA)
        check_base_of_any_length(ctx, info, data, nbytes, status, second);
    free(base);
    free(first);
    free(second);
}

static void decode_all_ways(const uint8_t *data, size_t nbytes)
{
    lmc_info info = LMC_INIT(lmc_info);
    lmc_diag diag = LMC_INIT(lmc_diag);
    lmc_ctx *ctx = NULL;
    FUZZ_CLAIM(lmc_ctx_create(NULL, &ctx) == LMC_OK);

    const lmc_status info_status = lmc_frame_read_info(data, nbytes, &info, &diag);
    if (info_status != LMC_OK) {
        size_t got = 1;
        uint8_t dst[16];
        FUZZ_CLAIM(diag.status == info_status && memchr(diag.text, 0, sizeof(diag.text)) != NULL);
        FUZZ_CLAIM(lmc_decode(ctx, data, nbytes, dst, sizeof(dst), &got) != LMC_OK && got == 0);
        FUZZ_CLAIM(lmc_ctx_diag(ctx)->status != LMC_OK);
    } else if (info.content_nbytes <= CONTENT_NBYTES_MAX && info.block_count <= PIECES_MAX) {
        decode_known_size(ctx, &info, data, nbytes);
    }
    lmc_ctx_free(ctx);
}

/* Decodes the input once more with the check that its head and tail should have, and the base's hashes: what stands
 * behind these is reached so. */
static void decode_repaired(const uint8_t *data, size_t nbytes)
{
    uint8_t *const repaired = fuzz_malloc(nbytes);
    if (nbytes > 0)
        memcpy(repaired, data, nbytes);
    lmc_info info = LMC_INIT(lmc_info);
    if (lmc_frame_read_info(repaired, nbytes, &info, NULL) == LMC_OK &&
        info.content_nbytes <= CONTENT_NBYTES_MAX) {
        uint8_t *const base = make_base(&info);
        fuzz_repair_base_hashes(repaired, nbytes, base);
        free(base);
    }
    fuzz_repair_frame(repaired, nbytes);
    if (nbytes > 0 && memcmp(repaired, data, nbytes) != 0)
        decode_all_ways(repaired, nbytes);
    free(repaired);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    decode_all_ways(data, nbytes);
    decode_repaired(data, nbytes);
    return 0;
}
