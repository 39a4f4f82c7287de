/* test_overlap.c - a destination that overlaps what a call reads is a fault of the caller, and found before anything is
 * written; one that only touches it is none. */
#include "lmc_test_frame.h"

#include "lmc_experimental.h"

#define CONTENT_NBYTES 6144 /* BF16: three blocks of 2 KiB */
#define BLOCK_NBYTES 2048
#define ROOM_NBYTES (8 * CONTENT_NBYTES)

static lmc_ctx *ctx;
static _Alignas(8) uint8_t room[ROOM_NBYTES], apart[2 * CONTENT_NBYTES];
static uint8_t content[CONTENT_NBYTES], base[CONTENT_NBYTES];
static test_frame frame;
static lmc_info info = LMC_INIT(lmc_info);
static lmc_params params;

/* Where something is put in `room`, somewhere in its middle. */
#define PLACE (ROOM_NBYTES / 2)

static void open_all(void)
{
    params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    ctx = must_create_ctx();
    data_fill(base, CONTENT_NBYTES, LMC_DTYPE_BF16, DATA_WEIGHTS);
    memcpy(content, base, CONTENT_NBYTES);
    for (size_t i = 0; i < CONTENT_NBYTES; i += 40)
        content[i] ^= 1;
    frame.bytes = must_malloc(sizeof apart);
    if (lmc_encode_delta(ctx, &params, content, CONTENT_NBYTES, base, CONTENT_NBYTES, frame.bytes,
                         sizeof apart, &frame.nbytes) != LMC_OK ||
        lmc_frame_read_info(frame.bytes, frame.nbytes, &info, NULL) != LMC_OK || info.mode != LMC_FRAME_DELTA)
        abort();
}

/* ---- calls: what is read lies in `room` at PLACE, dst somewhere in room ---- */

typedef lmc_status (*call)(uint8_t *dst);

static lmc_status encode_src(uint8_t *dst)
{
    size_t n, bound;
    memcpy(room + PLACE, content, CONTENT_NBYTES);
    CU_ASSERT_EQUAL_FATAL(lmc_encode_bound(&params, CONTENT_NBYTES, &bound), LMC_OK);
    return lmc_encode(ctx, &params, room + PLACE, CONTENT_NBYTES, dst, (size_t)(room + ROOM_NBYTES - dst),
                      &n);
}

static lmc_status encode_base(uint8_t *dst)
{
    size_t n;
    memcpy(room + PLACE, base, CONTENT_NBYTES);
    return lmc_encode_delta(ctx, &params, content, CONTENT_NBYTES, room + PLACE, CONTENT_NBYTES, dst,
                            (size_t)(room + ROOM_NBYTES - dst), &n);
}

static lmc_status decode_src(uint8_t *dst)
{
    size_t n;
    memcpy(room + PLACE, frame.bytes, frame.nbytes);
    return lmc_decode_delta(ctx, room + PLACE, frame.nbytes, base, CONTENT_NBYTES, dst,
                            (size_t)(room + ROOM_NBYTES - dst), &n);
}

static lmc_status decode_base(uint8_t *dst)
{
    size_t n;
    memcpy(room + PLACE, base, CONTENT_NBYTES);
    return lmc_decode_delta(ctx, frame.bytes, frame.nbytes, room + PLACE, CONTENT_NBYTES, dst,
                            (size_t)(room + ROOM_NBYTES - dst), &n);
}

static lmc_status range_src(uint8_t *dst)
{
    memcpy(room + PLACE, frame.bytes, frame.nbytes);
    return lmc_decode_delta_range(ctx, room + PLACE, frame.nbytes, base, CONTENT_NBYTES, 100, 1000, dst);
}

static lmc_status range_base(uint8_t *dst)
{
    memcpy(room + PLACE, base, CONTENT_NBYTES);
    return lmc_decode_delta_range(ctx, frame.bytes, frame.nbytes, room + PLACE, CONTENT_NBYTES, 100, 1000,
                                  dst);
}

static lmc_status read_buffer(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)user;
    memcpy(dst, content + offset, nbytes);
    return LMC_OK;
}

static lmc_status read_base(void *user, uint64_t offset, void *dst, size_t nbytes)
{
    (void)user;
    memcpy(dst, base + offset, nbytes);
    return LMC_OK;
}

static lmc_status encode_block(const uint8_t *src, const uint8_t *block_base, uint8_t *dst)
{
    lmc_plan *plan = NULL;
    lmc_block_entry entry;
    CU_ASSERT_EQUAL_FATAL(
        lmc_plan_create_delta(ctx, &params, CONTENT_NBYTES, read_buffer, read_base, NULL, &plan), LMC_OK);
    const lmc_status status =
        lmc_encode_delta_block(ctx, plan, 0, src, BLOCK_NBYTES, block_base, BLOCK_NBYTES, dst,
                               (size_t)(room + ROOM_NBYTES - dst), &entry);
    lmc_plan_free(plan);
    return status;
}

static lmc_status encode_block_src(uint8_t *dst)
{
    memcpy(room + PLACE, content, BLOCK_NBYTES);
    return encode_block(room + PLACE, base, dst);
}

static lmc_status encode_block_base(uint8_t *dst)
{
    memcpy(room + PLACE, base, BLOCK_NBYTES);
    return encode_block(content, room + PLACE, dst);
}

static lmc_frame *open_frame(void)
{
    const size_t tail_nbytes = (size_t)info.tail_nbytes;
    lmc_frame *opened = NULL;
    CU_ASSERT_EQUAL_FATAL(lmc_frame_create(ctx, frame.bytes, info.head_nbytes,
                                           frame.bytes + frame.nbytes - tail_nbytes, tail_nbytes,
                                           frame.nbytes, &opened),
                          LMC_OK);
    return opened;
}

/* is_base: the base lies in room, else the stored block. */
static lmc_status decode_block(int is_base, uint8_t *dst)
{
    lmc_frame *const opened = open_frame();
    uint64_t offset;
    size_t stored_nbytes, n;
    CU_ASSERT_EQUAL_FATAL(lmc_frame_block(opened, 0, &offset, &stored_nbytes, &n), LMC_OK);
    memcpy(room + PLACE, is_base ? base : frame.bytes + offset, is_base ? n : stored_nbytes);
    const lmc_status status = lmc_decode_delta_block(
        ctx, opened, 0, is_base ? frame.bytes + offset : room + PLACE, stored_nbytes,
        is_base ? room + PLACE : base, BLOCK_NBYTES, dst, (size_t)(room + ROOM_NBYTES - dst), NULL);
    lmc_frame_free(opened);
    return status;
}

static lmc_status decode_block_src(uint8_t *dst)
{
    return decode_block(0, dst);
}

static lmc_status decode_block_base(uint8_t *dst)
{
    return decode_block(1, dst);
}

/* Room for places or values lies in room, and so does the base, the stored block, or the other room: `read`. */
static lmc_status list_changes(int is_values, int read, uint8_t *dst)
{
    lmc_frame *const opened = open_frame();
    uint64_t offset;
    size_t stored_nbytes, n;
    lmc_changes changes = {(uint32_t *)(void *)apart, apart + sizeof apart / 2, BLOCK_NBYTES / 2, 0};
    CU_ASSERT_EQUAL_FATAL(lmc_frame_block(opened, 0, &offset, &stored_nbytes, &n), LMC_OK);
    memcpy(room + PLACE, read == 0 ? base : frame.bytes + offset, read == 0 ? n : stored_nbytes);
    if (read == 2)
        changes.places = (uint32_t *)(void *)(room + PLACE);
    if (is_values)
        changes.values = dst;
    else
        changes.places = (uint32_t *)(void *)dst;
    const lmc_status status =
        lmc_decode_delta_changes(ctx, opened, 0, read == 1 ? room + PLACE : frame.bytes + offset,
                                 stored_nbytes, read == 0 ? room + PLACE : base, BLOCK_NBYTES, &changes);
    lmc_frame_free(opened);
    return status;
}

static lmc_status values_base(uint8_t *dst)
{
    return list_changes(1, 0, dst);
}

static lmc_status values_src(uint8_t *dst)
{
    return list_changes(1, 1, dst);
}

static lmc_status values_places(uint8_t *dst)
{
    return list_changes(1, 2, dst);
}

/* Places are aligned: as many words from PLACE on as dst lies bytes from it. */
static uint8_t *aligned(uint8_t *dst)
{
    return room + PLACE + 4 * ((dst - (room + PLACE)) / 4);
}

static lmc_status places_base(uint8_t *dst)
{
    return list_changes(0, 0, aligned(dst));
}

static lmc_status places_src(uint8_t *dst)
{
    return list_changes(0, 1, aligned(dst));
}

/* ---- */

/* read_nbytes are read from PLACE on, and up to written_nbytes written: every distance at which they meet is refused,
 * and none at which they do not. */
static void check(call function, size_t read_nbytes, size_t written_nbytes)
{
    const size_t meeting[] = {PLACE,
                              PLACE + 1,
                              PLACE + read_nbytes / 2,
                              PLACE + read_nbytes - 1,
                              PLACE - 1,
                              PLACE - written_nbytes / 2,
                              PLACE - written_nbytes + 1};
    const size_t not_meeting[] = {PLACE + read_nbytes, PLACE + read_nbytes + 1, PLACE - written_nbytes};
    for (size_t i = 0; i < sizeof meeting / sizeof meeting[0]; i++) {
        CU_ASSERT_EQUAL(function(room + meeting[i]), LMC_ERR_ARG);
        CU_ASSERT_EQUAL(lmc_ctx_diag(ctx)->status, LMC_ERR_ARG);
        CU_ASSERT_PTR_NOT_NULL(strstr(lmc_ctx_diag(ctx)->text, "overlaps"));
    }
    for (size_t i = 0; i < sizeof not_meeting / sizeof not_meeting[0]; i++)
        CU_ASSERT_EQUAL(function(room + not_meeting[i]), LMC_OK);
}

LMC_TEST(test_whole_frames)
{
    size_t bound;
    CU_ASSERT_EQUAL_FATAL(lmc_encode_bound(&params, CONTENT_NBYTES, &bound), LMC_OK);
    check(encode_src, CONTENT_NBYTES, bound);
    check(encode_base, CONTENT_NBYTES, bound);
    check(decode_src, frame.nbytes, CONTENT_NBYTES);
    check(decode_base, CONTENT_NBYTES, CONTENT_NBYTES);
    check(range_src, frame.nbytes, 1000);
    check(range_base, CONTENT_NBYTES, 1000);
}

LMC_TEST(test_blocks)
{
    lmc_block_entry entry;
    memcpy(&entry.stored_nbytes, frame.bytes + frame.nbytes - info.tail_nbytes, 4);
    check(encode_block_src, BLOCK_NBYTES, BLOCK_NBYTES + 64);
    check(encode_block_base, BLOCK_NBYTES, BLOCK_NBYTES + 64);
    check(decode_block_src, entry.stored_nbytes, BLOCK_NBYTES);
    check(decode_block_base, BLOCK_NBYTES, BLOCK_NBYTES);
    check(values_base, BLOCK_NBYTES, BLOCK_NBYTES);
    check(values_src, entry.stored_nbytes, BLOCK_NBYTES);
    check(values_places, 2 * BLOCK_NBYTES, BLOCK_NBYTES);
    check(places_base, BLOCK_NBYTES, 2 * BLOCK_NBYTES);
    check(places_src, (entry.stored_nbytes + 3) / 4 * 4, 2 * BLOCK_NBYTES);
}

/* The base may be the content; no bytes are nowhere; and a frame without a base looks at none. */
LMC_TEST(test_no_overlap)
{
    size_t n = 0;
    CU_ASSERT_EQUAL(lmc_encode_delta(ctx, &params, content, CONTENT_NBYTES, content, CONTENT_NBYTES, apart,
                                     sizeof apart, &n),
                    LMC_OK);
    CU_ASSERT_EQUAL(lmc_encode_delta(ctx, &params, room, 0, room, 0, room, ROOM_NBYTES, &n), LMC_OK);
    CU_ASSERT_EQUAL(lmc_decode(ctx, room, n, room, 0, &n), LMC_OK);
    CU_ASSERT_EQUAL(lmc_encode(ctx, &params, content, CONTENT_NBYTES, apart, sizeof apart, &n), LMC_OK);
    CU_ASSERT_EQUAL(lmc_decode_delta(ctx, apart, n, room, 5, room, ROOM_NBYTES, &n), LMC_OK);
    CU_ASSERT_EQUAL(lmc_decode_delta_range(ctx, frame.bytes, frame.nbytes, base, CONTENT_NBYTES, 5, 0, base),
                    LMC_OK);
}

LMC_TEST_MAIN_WITH("overlap", open_all(), (frame_free(&frame), lmc_ctx_free(ctx)))
