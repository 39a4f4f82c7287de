/* test_delta_changes.c - the changed elements of a block: those that a comparison of base and content finds, by the
 * public call and by every kernel set; too little room for them; wrong bases, damage, and what the call refuses. */
#include "lmc_test_data.h"

#include "lmc_test_base.h"

#include "codec/delta/sparse.h"
#include "lmc_experimental.h"
#include "lmc_test_alloc.h"

#define CONTENT_MAX 600000
#define FILLER 0x99

static base_bed bed;
static guarded places_room, values_room; /* what is listed ends at a guard page */
static struct {
    size_t same, stored, sparse, dense, with_exceptions; /* blocks that were looked at */
} seen;

/* ---- what a comparison finds ---- */

typedef struct expected {
    uint32_t *places;
    uint8_t *values;
    size_t count;
} expected;

/* Compares n elements. To be freed with free_expected(). */
static expected compare(const uint8_t *content, const uint8_t *base, size_t n, unsigned element_nbytes)
{
    expected e = {must_malloc(n * sizeof(uint32_t)), must_malloc(n * element_nbytes), 0};
    for (size_t i = 0; i < n; i++) {
        const uint8_t *const x = content + i * element_nbytes;
        if (memcmp(x, base + i * element_nbytes, element_nbytes) == 0)
            continue;
        e.places[e.count] = (uint32_t)i;
        memcpy(e.values + e.count++ * element_nbytes, x, element_nbytes);
    }
    return e;
}

static void free_expected(expected *e)
{
    free(e->places);
    free(e->values);
}

/* ---- room ---- */

/* Bytes before the room that are looked at; behind it are guard pages. */
#define MARGIN 64

/* Room for so many elements; they and what stands before them are filled. */
static lmc_changes make_room(size_t capacity, unsigned element_nbytes)
{
    memset(places_room.map, FILLER, places_room.capacity);
    memset(values_room.map, FILLER, values_room.capacity);
    return (lmc_changes){.places = (uint32_t *)(void *)guarded_end(&places_room, capacity * sizeof(uint32_t)),
                         .values = guarded_end(&values_room, capacity * element_nbytes),
                         .capacity = capacity,
                         .count = 77};
}

static int is_filler(const uint8_t *begin, const uint8_t *end)
{
    while (begin < end && *begin == FILLER)
        begin++;
    return begin == end;
}

/* What is listed is `e`, if there is room for it. Nothing before or behind it was written. */
static void check_listed(const lmc_changes *changes, const expected *e, unsigned element_nbytes)
{
    const size_t listed = e->count <= changes->capacity ? e->count : changes->capacity;
    CU_ASSERT_EQUAL(changes->count, e->count);
    CU_ASSERT(is_filler((const uint8_t *)changes->places - MARGIN, (const uint8_t *)changes->places));
    CU_ASSERT(is_filler((const uint8_t *)changes->values - MARGIN, changes->values));
    CU_ASSERT(is_filler((const uint8_t *)(changes->places + listed), places_room.map + places_room.capacity));
    CU_ASSERT(is_filler((const uint8_t *)changes->values + listed * element_nbytes,
                        values_room.map + values_room.capacity));
    if (e->count > changes->capacity || e->count == 0)
        return;
    CU_ASSERT_EQUAL(memcmp(changes->places, e->places, e->count * sizeof *e->places), 0);
    CU_ASSERT_EQUAL(memcmp(changes->values, e->values, e->count * element_nbytes), 0);
}

/* ---- frames ---- */

/* A frame that is open, and what it was made from. */
typedef struct opened {
    test_frame bytes;
    lmc_frame *frame;
    lmc_info info;
    const uint8_t *content, *base;
} opened;

static lmc_frame *must_open(const test_frame *bytes, lmc_info *info)
{
    lmc_frame *frame = NULL;
    *info = (lmc_info)LMC_INIT(lmc_info);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(bytes->bytes, bytes->nbytes, info, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_create(bed.ctx, bytes->bytes, info->head_nbytes,
                                           bytes->bytes + bytes->nbytes - info->tail_nbytes,
                                           (size_t)info->tail_nbytes, bytes->nbytes, &frame),
                          LMC_OK);
    return frame;
}

/* Encodes bed.content against bed.base. */
static opened encode_and_open(const lmc_params *params, size_t nbytes)
{
    opened o = {.content = bed.content, .base = bed.base};
    o.bytes = base_encode(&bed, params, bed.content, nbytes, bed.base);
    o.frame = must_open(&o.bytes, &o.info);
    return o;
}

static void drop(opened *o)
{
    lmc_frame_free(o->frame);
    frame_free(&o->bytes);
}

/* Block i: its stored bytes, content and base. */
typedef struct block {
    const uint8_t *stored, *content, *base;
    size_t stored_nbytes, nbytes;
} block;

static block block_of(const opened *o, uint64_t i)
{
    uint64_t offset = 0;
    block b = {.content = o->content + i * o->info.block_nbytes, .base = o->base + i * o->info.block_nbytes};
    CU_ASSERT_EQUAL_FATAL(lmc_frame_block(o->frame, i, &offset, &b.stored_nbytes, &b.nbytes), LMC_OK);
    b.stored = o->bytes.bytes + offset;
    return b;
}

/* The public call: stored bytes and base end at guard pages, too. */
static lmc_status changes_of(const opened *o, uint64_t i, const block *b, lmc_changes *changes)
{
    const uint8_t *const stored = guarded_copy(&bed.deep->block, b->stored, b->stored_nbytes);
    const uint8_t *const base = guarded_copy(&bed.deep->base, b->base, b->nbytes);
    const lmc_status status =
        lmc_decode_delta_changes(bed.ctx, o->frame, i, stored, b->stored_nbytes, base, b->nbytes, changes);
    CU_ASSERT_EQUAL(lmc_ctx_diag(bed.ctx)->status, status);
    CU_ASSERT_EQUAL(memcmp(base, b->base, b->nbytes), 0);
    CU_ASSERT(status == LMC_OK || changes->count == 0);
    return status;
}

/* The stage behind it, with a kernel set of the test's choice; scratch ends at a guard page. */
static lmc_status changes_by_set(const opened *o, const lmc_kernels *kernels, uint64_t i, const block *b,
                                 lmc_changes *changes)
{
    deep *const d = bed.deep;
    const lmc_info *const info = &o->info;
    const lmc_scratch_size size = {b->nbytes / info->element_nbytes, info->element_nbytes, 1, 0};
    const uint8_t *const entry =
        o->bytes.bytes + o->bytes.nbytes - info->tail_nbytes + i * LMC_FMT_DELTA_INDEX_ENTRY_NBYTES;
    lmc_delta delta;
    lmc_diag diag;
    uint64_t hash = 0;
    CU_ASSERT_EQUAL_FATAL(lmc_delta_read(o->bytes.bytes + LMC_FMT_HEAD_NBYTES, lmc_section_nbytes(info),
                                         info->element_nbytes, &delta, &diag),
                          LMC_OK);
    const lmc_delta_job job = {.kernels = kernels,
                               .delta = &delta,
                               .bucket_code = &d->bucket_code,
                               .scratch = &d->scratch,
                               .element_nbytes = info->element_nbytes,
                               .changes = changes};
    const lmc_stored stored = {.bytes = guarded_copy(&d->block, b->stored, b->stored_nbytes),
                               .nbytes = b->stored_nbytes,
                               .base = guarded_copy(&d->base, b->base, b->nbytes),
                               .base_nbytes = b->nbytes,
                               .base_hash = lmc_load64(entry + LMC_FMT_INDEX_ENTRY_NBYTES)};
    lmc_scratch_place(&d->scratch, &size, guarded_end(&d->scratch_memory, lmc_scratch_nbytes(&size)));
    changes->count = 0;
    const lmc_status status = lmc_delta_decode(&job, &stored, NULL, b->nbytes, &hash, &diag);
    return status == LMC_OK && hash != lmc_load64(entry + 4) ? LMC_ERR_CHECKSUM : status;
}

/* Counts the forms that blocks have. */
static void count_form(const opened *o, const block *b, size_t changed)
{
    const unsigned element_nbytes = o->info.element_nbytes;
    const size_t n = b->nbytes / element_nbytes;
    uint64_t exceptions = 0;
    seen.same += b->stored[0] == LMC_FMT_BLOCK_SAME;
    seen.stored += b->stored[0] == LMC_FMT_BLOCK_STORED;
    if (b->stored[0] != LMC_FMT_BLOCK_DELTA)
        return;
    seen.sparse += changed * LMC_SPARSE_STEP_MIN <= n;
    seen.dense += changed * 4 > n;
    memcpy(&exceptions, b->stored + 1, lmc_count_nbytes(n));
    seen.with_exceptions += exceptions > 0;
}

/* Every block, with room for all elements, just enough, one too few, none. */
static void check_frame(const opened *o)
{
    const unsigned element_nbytes = o->info.element_nbytes;
    CU_ASSERT_EQUAL_FATAL(o->info.mode, LMC_FRAME_DELTA);
    for (uint64_t i = 0; i < o->info.block_count; i++) {
        const block b = block_of(o, i);
        const size_t n = b.nbytes / element_nbytes;
        expected e = compare(b.content, b.base, n, element_nbytes);
        const size_t capacities[] = {n, e.count, e.count > 0 ? e.count - 1 : 3, 0};
        count_form(o, &b, e.count);
        for (size_t c = 0; c < sizeof capacities / sizeof capacities[0]; c++) {
            lmc_changes changes = make_room(capacities[c], element_nbytes);
            CU_ASSERT_EQUAL(changes_of(o, i, &b, &changes), LMC_OK);
            check_listed(&changes, &e, element_nbytes);
            for (size_t k = 0; k < bed.set_count; k++) {
                changes = make_room(capacities[c], element_nbytes);
                CU_ASSERT_EQUAL(changes_by_set(o, bed.sets[k], i, &b, &changes), LMC_OK);
                check_listed(&changes, &e, element_nbytes);
            }
        }
        free_expected(&e);
    }
}

/* ---- blocks of all kinds ---- */

static const lmc_dtype dtypes[] = {LMC_DTYPE_F8_E4M3, LMC_DTYPE_U8,  LMC_DTYPE_BF16,
                                   LMC_DTYPE_F16,     LMC_DTYPE_F32, LMC_DTYPE_I32,
                                   LMC_DTYPE_F64,     LMC_DTYPE_I64, LMC_DTYPE_C64};
#define DTYPE_COUNT (sizeof dtypes / sizeof dtypes[0])

/* Some elements become any: their differences are as wide as they are. */
static void make_wild(uint8_t *content, size_t nbytes, unsigned element_nbytes, size_t count)
{
    for (; count > 0; count--)
        random_fill(content + random_below(nbytes / element_nbytes) * element_nbytes, element_nbytes);
}

/* Base and content, of which each block changes in its own way. most: of so many bytes in a block. */
static void fill_mixed(lmc_dtype dtype, size_t nbytes, size_t block_nbytes)
{
    static const struct {
        double share, ulps;
        size_t wild;
    } ways[] = {{0, 0, 0}, {0.004, 2, 0}, {0.02, 1, 3}, {0, 0, 1}, {0.5, 1, 0}, {0.01, 3, 0}, {0.4, 2, 2}};
    const unsigned element_nbytes = data_element_nbytes(dtype);
    data_fill(bed.base, nbytes, dtype, DATA_WEIGHTS);
    for (size_t at = 0, i = random_below(8); at < nbytes; at += block_nbytes, i++) {
        const size_t n = nbytes - at < block_nbytes ? nbytes - at : block_nbytes;
        const size_t way = i % 8;
        if (way == 7) {
            random_fill(bed.content + at, n);
            continue;
        }
        base_change(bed.content + at, bed.base + at, n, dtype, ways[way].share, ways[way].ulps);
        make_wild(bed.content + at, n, element_nbytes, ways[way].wild);
    }
}

LMC_TEST(test_blocks_of_all_kinds)
{
    memset(&seen, 0, sizeof seen);
    for (size_t d = 0; d < DTYPE_COUNT; d++) {
        for (unsigned i = 0; i < 6; i++) {
            const lmc_params params = frame_params(dtypes[d], LMC_LEVEL_DEFAULT, 10 + i % 3);
            const unsigned element_nbytes = data_element_nbytes(dtypes[d]);
            const size_t block_nbytes = (size_t)element_nbytes << params.block_log2;
            const size_t nbytes =
                (15 * block_nbytes + random_below(block_nbytes)) / element_nbytes * element_nbytes;
            fill_mixed(dtypes[d], nbytes, block_nbytes);
            opened o = encode_and_open(&params, nbytes);
            check_frame(&o);
            drop(&o);
        }
    }
    CU_ASSERT(seen.same > 50);
    CU_ASSERT(seen.stored > 50);
    CU_ASSERT(seen.sparse > 100);
    CU_ASSERT(seen.dense > 50);
    CU_ASSERT(seen.with_exceptions > 50);
}

/* All blocks of a frame alike, of several strips each, with the last block cut at any place. */
LMC_TEST(test_shares)
{
    static const double shares[] = {0, 0.0001, 0.003, 0.03, 0.07, 0.3, 1};
    for (size_t d = 0; d < DTYPE_COUNT; d++) {
        for (size_t s = 0; s < sizeof shares / sizeof shares[0]; s++) {
            const unsigned element_nbytes = data_element_nbytes(dtypes[d]);
            const lmc_params params = frame_params(dtypes[d], LMC_LEVEL_DEFAULT, 13);
            const size_t nbytes = (8192 + 1 + random_below(8192)) * element_nbytes;
            data_fill(bed.base, nbytes, dtypes[d], s % 2 ? DATA_WEIGHTS : DATA_SPECIAL);
            base_change(bed.content, bed.base, nbytes, dtypes[d], shares[s], 1);
            opened o = encode_and_open(&params, nbytes);
            if (o.info.mode == LMC_FRAME_DELTA)
                check_frame(&o);
            CU_ASSERT(o.info.mode == LMC_FRAME_DELTA || shares[s] > 0.05);
            drop(&o);
        }
    }
}

/* Blocks of one element, and of a few. */
LMC_TEST(test_short_contents)
{
    unsigned deltas = 0;
    for (size_t n = 1; n < 300; n += 1 + n / 20) {
        for (size_t d = 0; d < DTYPE_COUNT; d++) {
            const unsigned element_nbytes = data_element_nbytes(dtypes[d]);
            const lmc_params params = frame_params(dtypes[d], LMC_LEVEL_DEFAULT, 10);
            const size_t nbytes = (1024 + n) * element_nbytes;
            data_fill(bed.base, nbytes, dtypes[d], DATA_WEIGHTS);
            memcpy(bed.content, bed.base, nbytes);
            make_wild(bed.content + 1024 * element_nbytes, n * element_nbytes, element_nbytes, n % 3);
            opened o = encode_and_open(&params, nbytes);
            if (o.info.mode == LMC_FRAME_DELTA)
                check_frame(&o);
            deltas += o.info.mode == LMC_FRAME_DELTA;
            drop(&o);
        }
    }
    CU_ASSERT(deltas > 200);
}

/* ---- wrong bases and damage ---- */

static opened mixed_frame(lmc_dtype dtype)
{
    const lmc_params params = frame_params(dtype, LMC_LEVEL_DEFAULT, 10);
    const size_t block_nbytes = (size_t)data_element_nbytes(dtype) << 10;
    fill_mixed(dtype, 8 * block_nbytes + 40, block_nbytes);
    return encode_and_open(&params, 8 * block_nbytes + 40);
}

LMC_TEST(test_wrong_base)
{
    for (size_t d = 0; d < DTYPE_COUNT; d++) {
        opened o = mixed_frame(dtypes[d]);
        uint8_t *const wrong = must_malloc(o.info.block_nbytes);
        for (uint64_t i = 0; i < o.info.block_count; i++) {
            block b = block_of(&o, i);
            const size_t places[] = {0, b.nbytes / 2, b.nbytes - 1};
            for (size_t p = 0; p < 3; p++) {
                memcpy(wrong, b.base, b.nbytes);
                wrong[places[p]] ^= 1;
                block with_wrong = b;
                with_wrong.base = wrong;
                lmc_changes changes = make_room(p == 1 ? 0 : 1024, o.info.element_nbytes);
                CU_ASSERT_EQUAL(changes_of(&o, i, &with_wrong, &changes), LMC_ERR_BASE);
                for (size_t k = 0; k < bed.set_count; k++)
                    CU_ASSERT_EQUAL(changes_by_set(&o, bed.sets[k], i, &with_wrong, &changes), LMC_ERR_BASE);
            }
        }
        free(wrong);
        drop(&o);
    }
}

/* Bytes of blocks are changed at all places: the status is that of decoding the block, and a success lists what there
 * is to list. Room for none of the changes does not keep the content from being verified. */
LMC_TEST(test_damaged_blocks)
{
    unsigned failed = 0;
    for (size_t d = 0; d < DTYPE_COUNT; d++) {
        opened o = mixed_frame(dtypes[d]);
        uint8_t *const damaged = must_malloc(o.info.block_nbytes + 1);
        uint8_t *const dst = must_malloc(o.info.block_nbytes);
        for (uint64_t i = 0; i < o.info.block_count; i++) {
            block b = block_of(&o, i);
            expected e = compare(b.content, b.base, b.nbytes / o.info.element_nbytes, o.info.element_nbytes);
            memcpy(damaged, b.stored, b.stored_nbytes);
            b.stored = damaged;
            for (size_t at = 0; at < b.stored_nbytes; at += 1 + random_below(b.stored_nbytes / 40 + 1)) {
                damaged[at] ^= (uint8_t)(1 + random_below(255));
                const lmc_status wanted = lmc_decode_delta_block(
                    bed.ctx, o.frame, i, damaged, b.stored_nbytes, b.base, b.nbytes, dst, b.nbytes, NULL);
                lmc_changes changes = make_room(random_below(2) * 1024, o.info.element_nbytes);
                CU_ASSERT_EQUAL(changes_of(&o, i, &b, &changes), wanted);
                if (wanted == LMC_OK)
                    check_listed(&changes, &e, o.info.element_nbytes);
                for (size_t k = 0; k < bed.set_count; k++)
                    CU_ASSERT_EQUAL(changes_by_set(&o, bed.sets[k], i, &b, &changes), wanted);
                failed += wanted != LMC_OK;
                damaged[at] = o.bytes.bytes[(size_t)(block_of(&o, i).stored - o.bytes.bytes) + at];
            }
            free_expected(&e);
        }
        free(damaged);
        free(dst);
        drop(&o);
    }
    CU_ASSERT(failed > 500);
}

/* ---- what is refused ---- */

/* Block 0 of the frame is refused so, and the diagnostic says why. */
static void expect_refused(const opened *o, lmc_status status, const char *text)
{
    const block b = block_of(o, 0);
    lmc_changes changes = make_room(1024, o->info.element_nbytes);
    CU_ASSERT_EQUAL(changes_of(o, 0, &b, &changes), status);
    CU_ASSERT_PTR_NOT_NULL(strstr(lmc_ctx_diag(bed.ctx)->text, text));
}

LMC_TEST(test_arguments)
{
    opened o = mixed_frame(LMC_DTYPE_BF16);
    const block b = block_of(&o, 1);
    lmc_changes room = make_room(1024, 2), changes = room;
    CU_ASSERT_EQUAL(
        lmc_decode_delta_changes(NULL, o.frame, 1, b.stored, b.stored_nbytes, b.base, b.nbytes, &changes),
        LMC_ERR_ARG);
    CU_ASSERT_EQUAL(changes.count, 0);
    CU_ASSERT_EQUAL(
        lmc_decode_delta_changes(bed.ctx, o.frame, 1, b.stored, b.stored_nbytes, b.base, b.nbytes, NULL),
        LMC_ERR_ARG);
    CU_ASSERT_EQUAL(lmc_ctx_diag(bed.ctx)->status, LMC_ERR_ARG);
    const struct {
        const lmc_frame *frame;
        uint64_t block;
        const uint8_t *stored;
        size_t stored_nbytes;
        const uint8_t *base;
        size_t base_nbytes;
        uint32_t *places;
        void *values;
        lmc_status status;
    } calls[] = {
        {NULL, 1, b.stored, b.stored_nbytes, b.base, b.nbytes, room.places, room.values, LMC_ERR_ARG},
        {o.frame, 1, NULL, b.stored_nbytes, b.base, b.nbytes, room.places, room.values, LMC_ERR_ARG},
        {o.frame, 9, b.stored, b.stored_nbytes, b.base, b.nbytes, room.places, room.values, LMC_ERR_ARG},
        {o.frame, UINT64_MAX, b.stored, b.stored_nbytes, b.base, b.nbytes, room.places, room.values,
         LMC_ERR_ARG},
        {o.frame, 1, b.stored, b.stored_nbytes + 1, b.base, b.nbytes, room.places, room.values, LMC_ERR_ARG},
        {o.frame, 1, b.stored, b.stored_nbytes, b.base, b.nbytes, NULL, room.values, LMC_ERR_ARG},
        {o.frame, 1, b.stored, b.stored_nbytes, b.base, b.nbytes, room.places, NULL, LMC_ERR_ARG},
        {o.frame, 1, b.stored, b.stored_nbytes, NULL, b.nbytes, room.places, room.values, LMC_ERR_BASE},
        {o.frame, 1, b.stored, b.stored_nbytes, b.base, b.nbytes - 2, room.places, room.values, LMC_ERR_BASE},
        {o.frame, 1, b.stored, b.stored_nbytes, b.base, b.nbytes + 1, room.places, room.values, LMC_ERR_BASE},
        {o.frame, 1, b.stored, b.stored_nbytes, b.base, b.nbytes, room.places, room.values, LMC_OK}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        changes = (lmc_changes){calls[i].places, calls[i].values, 1024, 77};
        CU_ASSERT_EQUAL(lmc_decode_delta_changes(bed.ctx, calls[i].frame, calls[i].block, calls[i].stored,
                                                 calls[i].stored_nbytes, calls[i].base, calls[i].base_nbytes,
                                                 &changes),
                        calls[i].status);
        CU_ASSERT(calls[i].status == LMC_OK || changes.count == 0);
        CU_ASSERT(calls[i].status == LMC_OK || lmc_ctx_diag(bed.ctx)->text[0] != '\0');
    }
    const size_t count = changes.count; /* of the last, which is sound */
    changes = (lmc_changes){.count = 77};
    CU_ASSERT_EQUAL(
        lmc_decode_delta_changes(bed.ctx, o.frame, 1, b.stored, b.stored_nbytes, b.base, b.nbytes, &changes),
        LMC_OK);
    CU_ASSERT(count > 0 && changes.count == count);
    drop(&o);
}

/* Frames without a base, stored or coded; of a base of another dtype; of content that ends within an element. */
LMC_TEST(test_other_frames)
{
    lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    opened o = {.content = bed.content, .base = bed.base};
    data_fill(bed.base, 8000, LMC_DTYPE_F32, DATA_WEIGHTS);
    data_fill(bed.content, 4000, LMC_DTYPE_BF16, DATA_WEIGHTS);
    o.bytes = frame_encode(bed.ctx, &params, bed.content, 4000);
    o.frame = must_open(&o.bytes, &o.info);
    CU_ASSERT_EQUAL(o.info.mode, LMC_FRAME_CODED);
    expect_refused(&o, LMC_ERR_ARG, "not encoded against a base of its dtype");
    drop(&o);
    random_fill(bed.content, 4000);
    o.bytes = frame_encode(bed.ctx, &params, bed.content, 4000);
    o.frame = must_open(&o.bytes, &o.info);
    CU_ASSERT_EQUAL(o.info.mode, LMC_FRAME_STORED);
    expect_refused(&o, LMC_ERR_ARG, "not encoded against a base of its dtype");
    drop(&o);
    params.base_form = LMC_BASE_BF16_OF_F32;
    lmc_base_values(params.base_form, bed.base, 4000, bed.content);
    o = encode_and_open(&params, 4000);
    CU_ASSERT_EQUAL(o.info.mode, LMC_FRAME_DELTA);
    expect_refused(&o, LMC_ERR_ARG, "not encoded against a base of its dtype");
    drop(&o);
    params.base_form = LMC_BASE_PLAIN;
    memcpy(bed.content, bed.base, 4001);
    o = encode_and_open(&params, 4001);
    CU_ASSERT_EQUAL(o.info.mode, LMC_FRAME_DELTA);
    expect_refused(&o, LMC_ERR_ARG, "not whole elements");
    drop(&o);
}

/* Each allocation fails in turn. */
LMC_TEST(test_no_memory)
{
    opened o = mixed_frame(LMC_DTYPE_F32);
    const block b = block_of(&o, 1);
    expected e = compare(b.content, b.base, b.nbytes / 4, 4);
    lmc_status status = LMC_ERR_NOMEM;
    for (size_t failing = 0; status != LMC_OK; failing++) {
        lmc_ctx *ctx = NULL;
        pool_fail(SIZE_MAX, 0);
        CU_ASSERT_EQUAL_FATAL(lmc_ctx_create(&pool_allocator, &ctx), LMC_OK);
        pool_fail(failing, 1);
        lmc_changes changes = make_room(1024, 4);
        status =
            lmc_decode_delta_changes(ctx, o.frame, 1, b.stored, b.stored_nbytes, b.base, b.nbytes, &changes);
        CU_ASSERT_EQUAL_FATAL(status, pool_has_failed() ? LMC_ERR_NOMEM : LMC_OK);
        if (status == LMC_OK)
            check_listed(&changes, &e, 4);
        CU_ASSERT(status == LMC_OK || changes.count == 0);
        lmc_ctx_free(ctx);
        CU_ASSERT(pool_is_whole());
        CU_ASSERT(failing > 0 || status == LMC_ERR_NOMEM);
    }
    pool_fail(SIZE_MAX, 0);
    free_expected(&e);
    drop(&o);
}

int main(int argc, char **argv)
{
    bed = base_bed_open(CONTENT_MAX);
    places_room = guarded_open(8192 * sizeof(uint32_t));
    values_room = guarded_open(8192 * sizeof(uint64_t));
    const int result = lmc_test_main("delta_changes", argc, argv);
    guarded_close(&places_room);
    guarded_close(&values_room);
    base_bed_close(&bed);
    return result;
}
