/* test_delta_damage.c - damaged delta frames: cut, flipped, spliced, and damaged behind a right check. They end in a
 * status, the same for every kernel set, and never in other bytes with OK. */
#include "lmc_test_data.h"

#include "lmc_test_base.h"

#define CONTENT_MAX 20000
#define FRAME_MAX (2 * CONTENT_MAX)
#define FRAME_COUNT 40

static base_bed bed;
static uint8_t *damaged;

/* Delta frames of many forms, what they hold, and against what. */
static struct sample {
    test_frame frame;
    lmc_info info;
    uint8_t *content;
    size_t nbytes;
    deep_base base;
} samples[FRAME_COUNT];

static void make_sample(struct sample *s, size_t i)
{
    static const lmc_dtype dtypes[] = {LMC_DTYPE_F8_E4M3, LMC_DTYPE_BF16, LMC_DTYPE_F32,  LMC_DTYPE_I32,
                                       LMC_DTYPE_F64,     LMC_DTYPE_I64,  LMC_DTYPE_BF16, LMC_DTYPE_U8};
    static const struct {
        double share, ulps;
    } changes[] = {{0, 0}, {0.01, 3}, {0.2, 2}, {1, 1}, {0.3, 2000}};
    lmc_params params = frame_params(dtypes[i % 8], LMC_LEVEL_DEFAULT, 10);
    s->nbytes = 300 + random_below(i % 4 == 3 ? CONTENT_MAX - 300 : 2500);
    if (i % 8 == 6) {
        params.base_form = LMC_BASE_BF16_OF_F32;
        s->nbytes &= ~(size_t)1;
    }
    s->base.nbytes = s->nbytes * (i % 8 == 6 ? 2 : 1);
    uint8_t *const base = must_malloc(s->base.nbytes);
    s->base.bytes = base;
    s->content = must_malloc(s->nbytes);
    data_fill(base, s->base.nbytes, i % 8 == 6 ? LMC_DTYPE_F32 : params.dtype, DATA_WEIGHTS);
    lmc_base_values(params.base_form, base, s->nbytes, bed.content);
    base_change(s->content, i % 8 == 6 ? bed.content : base, s->nbytes, params.dtype, changes[i / 8].share,
                changes[i / 8].ulps);
    size_t bound;
    s->info = (lmc_info)LMC_INIT(lmc_info);
    if (lmc_encode_bound(&params, s->nbytes, &bound) != LMC_OK)
        abort();
    s->frame.bytes = must_malloc(bound);
    if (lmc_encode_delta(bed.ctx, &params, s->content, s->nbytes, base, s->base.nbytes, s->frame.bytes, bound,
                         &s->frame.nbytes) != LMC_OK ||
        lmc_frame_read_info(s->frame.bytes, s->frame.nbytes, &s->info, NULL) != LMC_OK)
        abort();
}

static void free_samples(void)
{
    for (size_t i = 0; i < FRAME_COUNT; i++) {
        free(samples[i].content);
        free((void *)(uintptr_t)samples[i].base.bytes);
        free(samples[i].frame.bytes);
    }
}

/* OK with the right content, or one status from all. */
static lmc_status decode_all(const struct sample *s, const uint8_t *bytes, size_t nbytes)
{
    return base_decode_all(&bed, bytes, nbytes, &s->base, s->content, s->nbytes);
}

static const struct sample *copy_any(void)
{
    const struct sample *const s = &samples[random_below(FRAME_COUNT)];
    memcpy(damaged, s->frame.bytes, s->frame.nbytes);
    return s;
}

/* ---- damage that the checks find ---- */

LMC_TEST(test_good_frames)
{
    unsigned deltas = 0;
    for (size_t i = 0; i < FRAME_COUNT; i++) {
        CU_ASSERT_EQUAL(decode_all(&samples[i], samples[i].frame.bytes, samples[i].frame.nbytes), LMC_OK);
        deltas += samples[i].info.mode == LMC_FRAME_DELTA;
    }
    CU_ASSERT(deltas >= FRAME_COUNT - 6);
}

LMC_TEST(test_truncation)
{
    for (size_t i = 0; i < FRAME_COUNT; i++) {
        const test_frame *const f = &samples[i].frame;
        const size_t step = (f->nbytes > 3000 ? 7 : 1) * LMC_TEST_STEP;
        for (size_t cut = i % LMC_TEST_STEP; cut < f->nbytes; cut += step) {
            const lmc_status status = decode_all(&samples[i], f->bytes, cut);
            CU_ASSERT(status == LMC_ERR_TRUNCATED || (status == LMC_ERR_CHECKSUM && cut > 40));
        }
    }
}

/* Every bit of head, plan and tail, and all other bits of small frames; random ones of the others. */
LMC_TEST(test_every_bit)
{
    for (size_t i = 0; i < FRAME_COUNT; i++) {
        const struct sample *const s = &samples[i];
        memcpy(damaged, s->frame.bytes, s->frame.nbytes);
        for (size_t at = i % LMC_TEST_STEP; at < s->frame.nbytes; at += LMC_TEST_STEP) {
            const int is_content = at >= s->info.head_nbytes && at < s->frame.nbytes - s->info.tail_nbytes;
            if (is_content && s->frame.nbytes > 400 && random_below(s->frame.nbytes) >= 100)
                continue;
            for (unsigned bit = 0; bit < 8; bit++) {
                damaged[at] ^= (uint8_t)(1u << bit);
                CU_ASSERT(decode_all(s, damaged, s->frame.nbytes) != LMC_OK || is_content);
                damaged[at] ^= (uint8_t)(1u << bit);
            }
        }
    }
}

/* The beginning of one frame with the end of another one, as it is and with a right check. */
LMC_TEST(test_splices)
{
    for (unsigned i = 0; i < 3000; i += LMC_TEST_STEP) {
        const struct sample *const a = copy_any(), *const b = &samples[random_below(FRAME_COUNT)];
        const size_t head = random_below(a->frame.nbytes + 1), tail = random_below(b->frame.nbytes + 1);
        if (head + tail > FRAME_MAX)
            continue;
        memcpy(damaged + head, b->frame.bytes + b->frame.nbytes - tail, tail);
        decode_all(b, damaged, head + tail);
        deep_reseal(damaged, head + tail);
        decode_all(a, damaged, head + tail);
    }
}

/* ---- damage behind a right check ---- */

/* Anywhere; OK means that it does not matter to the content. */
LMC_TEST(test_damage_anywhere)
{
    for (unsigned i = 0; i < 6000; i += LMC_TEST_STEP) {
        const struct sample *const s = copy_any();
        for (size_t sign_changes = 1 + random_below(3); sign_changes > 0; sign_changes--)
            damaged[random_below(s->frame.nbytes)] ^=
                random_below(3) ? (uint8_t)(1u << random_below(8)) : (uint8_t)random_u64();
        deep_reseal(damaged, s->frame.nbytes);
        decode_all(s, damaged, s->frame.nbytes);
    }
}

/* Every bit of head and plan. */
LMC_TEST(test_damage_of_heads)
{
    for (size_t i = 0; i < FRAME_COUNT; i++) {
        const struct sample *const s = &samples[i];
        for (size_t bit = i % LMC_TEST_STEP; bit < 8 * s->info.head_nbytes; bit += LMC_TEST_STEP) {
            memcpy(damaged, s->frame.bytes, s->frame.nbytes);
            damaged[bit / 8] ^= (uint8_t)(1u << bit % 8);
            deep_reseal(damaged, s->frame.nbytes);
            decode_all(s, damaged, s->frame.nbytes);
        }
    }
}

/* The first bytes of blocks: mode, exceptions, modes of planes and bitsets. */
LMC_TEST(test_damage_of_block_starts)
{
    for (unsigned i = 0; i < 12000; i += LMC_TEST_STEP) {
        const struct sample *const s = copy_any();
        const size_t left = s->frame.nbytes - s->info.head_nbytes - (size_t)s->info.tail_nbytes;
        for (unsigned bytes = 1 + (unsigned)random_below(3); bytes > 0; bytes--)
            damaged[s->info.head_nbytes + random_below(left < 24 ? left : 24)] =
                (uint8_t)(random_below(2) ? random_u64() : random_below(8));
        decode_all(s, damaged, s->frame.nbytes); /* no check covers blocks but their hash */
    }
}

/* Another plan over the same blocks: other classes, low bits and low bytes are promised than there are. */
LMC_TEST(test_other_plans)
{
    for (unsigned i = 0; i < 6000; i += LMC_TEST_STEP) {
        const struct sample *const s = copy_any();
        uint8_t *const section = damaged + LMC_FMT_HEAD_NBYTES;
        const unsigned class_count = section[3];
        if (s->info.mode != LMC_FRAME_DELTA)
            continue;
        if (random_below(2))
            section[1] = (uint8_t)random_below(s->info.element_nbytes);
        if (random_below(2))
            section[2] = (uint8_t)random_below(8 * s->info.element_nbytes);
        if (random_below(4) == 0)
            section[0] = (uint8_t)random_below(3);
        for (unsigned c = 0; c < class_count; c++)
            if (random_below(2))
                section[3 + class_count + c] = (uint8_t)random_below(LMC_FMT_CLASS_LOW_NBITS_MAX + 1);
        deep_reseal(damaged, s->frame.nbytes);
        const lmc_status status = decode_all(s, damaged, s->frame.nbytes);
        CU_ASSERT(status == LMC_OK || status == LMC_ERR_CORRUPT || status == LMC_ERR_UNSUPPORTED ||
                  status == LMC_ERR_CHECKSUM);
    }
}

/* Bytes move from one block to the next, and the index says so. */
LMC_TEST(test_moved_block_borders)
{
    unsigned tried = 0;
    for (size_t i = 0; i < FRAME_COUNT; i++) {
        const struct sample *const s = &samples[i];
        for (uint64_t b = 0; s->info.mode == LMC_FRAME_DELTA && b + 1 < s->info.block_count; b++) {
            for (int move = -20 + (int)((i + b) % LMC_TEST_STEP); move <= 20; move += LMC_TEST_STEP) {
                if (move == 0)
                    continue;
                memcpy(damaged, s->frame.bytes, s->frame.nbytes);
                uint8_t *const entry =
                    damaged + s->frame.nbytes - s->info.tail_nbytes + b * LMC_FMT_DELTA_INDEX_ENTRY_NBYTES;
                uint8_t *const next = entry + LMC_FMT_DELTA_INDEX_ENTRY_NBYTES;
                lmc_store32(entry, lmc_load32(entry) + (uint32_t)move);
                lmc_store32(next, lmc_load32(next) - (uint32_t)move);
                deep_reseal(damaged, s->frame.nbytes);
                CU_ASSERT_NOT_EQUAL(decode_all(s, damaged, s->frame.nbytes), LMC_OK);
                tried++;
            }
        }
    }
    CU_ASSERT(tried > 100);
}

/* Entries of the index damaged one by one: sizes, content hashes, base hashes. */
LMC_TEST(test_damage_of_the_index)
{
    for (unsigned i = 0; i < 3000; i += LMC_TEST_STEP) {
        const struct sample *const s = copy_any();
        const size_t tail_nbytes = (size_t)s->info.tail_nbytes - LMC_FMT_HASH_NBYTES;
        const size_t at = random_below(tail_nbytes);
        damaged[s->frame.nbytes - s->info.tail_nbytes + at] ^= (uint8_t)(1u << random_below(8));
        deep_reseal(damaged, s->frame.nbytes);
        const lmc_status status = decode_all(s, damaged, s->frame.nbytes);
        CU_ASSERT_NOT_EQUAL(status, LMC_OK);
        if (s->info.mode == LMC_FRAME_DELTA &&
            at % LMC_FMT_DELTA_INDEX_ENTRY_NBYTES >= LMC_FMT_INDEX_ENTRY_NBYTES)
            CU_ASSERT_EQUAL(status, LMC_ERR_BASE);
    }
}

int main(int argc, char **argv)
{
    bed = base_bed_open(CONTENT_MAX);
    damaged = must_malloc(2 * FRAME_MAX);
    for (size_t i = 0; i < FRAME_COUNT; i++)
        make_sample(&samples[i], i);
    const int result = lmc_test_main("delta_damage", argc, argv);
    free_samples();
    free(damaged);
    base_bed_close(&bed);
    return result;
}
