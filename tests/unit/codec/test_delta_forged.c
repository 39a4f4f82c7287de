/* test_delta_forged.c - delta frames made by hand, with right checks and hashes, each of which breaks one rule: all
 * kernel sets and the public call end in the same status, and touch nothing beyond guard pages. */
#include "lmc_test_data.h"

#include "lmc_test_base.h"

#define CONTENT_MAX 65536
#define FORGED_MAX (3 * CONTENT_MAX)

static base_bed bed;
static uint8_t *forged;

/* A frame of one block: what it is made of. */
typedef struct forged_frame {
    lmc_dtype dtype;
    lmc_frame_mode mode;
    lmc_base_form base_form;
    size_t content_nbytes;
    const uint8_t *section;
    size_t section_nbytes;
    const uint8_t *block;
    size_t block_nbytes;
} forged_frame;

/* Puts it together, with the hashes of bed.content and bed.base and a right check. Returns its bytes. */
static size_t assemble(const forged_frame *f)
{
    lmc_info info = {
        .dtype = f->dtype, .mode = f->mode, .block_log2 = 16, .content_nbytes = f->content_nbytes};
    info.base_form = f->base_form;
    lmc_info_complete(&info, f->section_nbytes);
    info.base_form = f->base_form; /* of a frame that may not have it, too */
    lmc_head_write(&info, 0, forged);
    memcpy(forged + LMC_FMT_HEAD_NBYTES, f->section, f->section_nbytes);
    uint8_t *const tail = forged + info.head_nbytes + f->block_nbytes;
    if (f->block_nbytes > 0)
        memcpy(forged + info.head_nbytes, f->block, f->block_nbytes);
    lmc_store32(tail, (uint32_t)f->block_nbytes);
    lmc_store64(tail + 4, lmc_kernels_get()->hash(bed.content, f->content_nbytes, 0));
    if (f->mode == LMC_FRAME_DELTA)
        lmc_store64(tail + LMC_FMT_INDEX_ENTRY_NBYTES,
                    lmc_kernels_get()->hash(bed.base, f->content_nbytes * lmc_base_scale(f->base_form), 0));
    const size_t nbytes = info.head_nbytes + f->block_nbytes + (size_t)info.tail_nbytes;
    deep_reseal(forged, nbytes);
    return nbytes;
}

/* The status of a frame, the same from everyone. */
static lmc_status status_of(const forged_frame *f)
{
    const deep_base base = {bed.base, 2 * f->content_nbytes};
    return base_decode_all(&bed, forged, assemble(f), &base, bed.content, f->content_nbytes);
}

static void check(const char *what, const forged_frame *f, lmc_status wanted)
{
    const lmc_status status = status_of(f);
    if (status != wanted)
        printf("\n%s: %s\n", what, lmc_status_text(status));
    CU_ASSERT_EQUAL(status, wanted);
}

/* A frame of u8 whose block says that all is as the base, by any plan. */
static forged_frame same_frame(const uint8_t *section, size_t section_nbytes, lmc_dtype dtype)
{
    static const uint8_t same[] = {LMC_FMT_BLOCK_SAME};
    random_fill(bed.base, 2 * CONTENT_MAX);
    memcpy(bed.content, bed.base, CONTENT_MAX);
    return (forged_frame){.dtype = dtype,
                          .mode = LMC_FRAME_DELTA,
                          .content_nbytes = 4000,
                          .section = section,
                          .section_nbytes = section_nbytes,
                          .block = same,
                          .block_nbytes = 1};
}

/* ---- plans ---- */

LMC_TEST(test_plans)
{
    static const struct {
        const char *what;
        lmc_dtype dtype;
        lmc_status status;
        uint8_t nbytes, section[40];
    } cases[] = {
        {"one class", LMC_DTYPE_U8, LMC_OK, 5, {1, 0, 0, 1, 0}},
        {"transform 2", LMC_DTYPE_U8, LMC_OK, 5, {2, 0, 0, 1, 0}},
        {"transform 3", LMC_DTYPE_U8, LMC_ERR_UNSUPPORTED, 5, {3, 0, 0, 1, 0}},
        {"transform 255", LMC_DTYPE_U8, LMC_ERR_UNSUPPORTED, 5, {255, 0, 0, 1, 0}},
        {"magnitudes of integers", LMC_DTYPE_U8, LMC_OK, 5, {0, 0, 0, 1, 0}},
        {"a low byte of bytes", LMC_DTYPE_U8, LMC_ERR_CORRUPT, 5, {1, 1, 0, 1, 0}},
        {"a low byte of two", LMC_DTYPE_BF16, LMC_OK, 5, {0, 1, 0, 1, 0}},
        {"two low bytes of two", LMC_DTYPE_BF16, LMC_ERR_CORRUPT, 5, {0, 2, 0, 1, 0}},
        {"three low bytes of four", LMC_DTYPE_F32, LMC_OK, 5, {0, 3, 0, 1, 0}},
        {"four low bytes of four", LMC_DTYPE_F32, LMC_ERR_CORRUPT, 5, {0, 4, 0, 1, 0}},
        {"seven low bytes of eight", LMC_DTYPE_F64, LMC_OK, 5, {0, 7, 0, 1, 0}},
        {"eight low bytes of eight", LMC_DTYPE_F64, LMC_ERR_CORRUPT, 5, {0, 8, 0, 1, 0}},
        {"255 low bytes", LMC_DTYPE_F64, LMC_ERR_CORRUPT, 5, {0, 255, 0, 1, 0}},
        {"keys from the top bit", LMC_DTYPE_U8, LMC_OK, 5, {1, 0, 7, 1, 0}},
        {"keys from beyond", LMC_DTYPE_U8, LMC_ERR_CORRUPT, 5, {1, 0, 8, 1, 0}},
        {"keys from bit 63", LMC_DTYPE_F64, LMC_OK, 5, {0, 0, 63, 1, 0}},
        {"keys from bit 64", LMC_DTYPE_F64, LMC_ERR_CORRUPT, 5, {0, 0, 64, 1, 0}},
        {"keys from bit 255", LMC_DTYPE_F64, LMC_ERR_CORRUPT, 5, {0, 0, 255, 1, 0}},
        {"no classes", LMC_DTYPE_U8, LMC_ERR_CORRUPT, 4, {1, 0, 0, 0}},
        {"no classes, and a byte", LMC_DTYPE_U8, LMC_ERR_CORRUPT, 5, {1, 0, 0, 0, 0}},
        {"16 classes",
         LMC_DTYPE_U8,
         LMC_OK,
         35,
         {1, 0, 0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255}},
        {"17 classes", LMC_DTYPE_U8, LMC_ERR_CORRUPT, 37, {1, 0, 0, 17, 1,  2,  3,  4,  5,  6,
                                                           7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {"255 classes", LMC_DTYPE_U8, LMC_ERR_CORRUPT, 37, {1, 0, 0, 255, 1, 2, 3}},
        {"a class that begins at 0", LMC_DTYPE_U8, LMC_ERR_CORRUPT, 7, {1, 0, 0, 2, 0, 0, 0}},
        {"a class that begins at 255", LMC_DTYPE_U8, LMC_OK, 7, {1, 0, 0, 2, 255, 0, 0}},
        {"classes out of order", LMC_DTYPE_U8, LMC_ERR_CORRUPT, 9, {1, 0, 0, 3, 9, 8, 0, 0, 0}},
        {"a class twice", LMC_DTYPE_U8, LMC_ERR_CORRUPT, 9, {1, 0, 0, 3, 9, 9, 0, 0, 0}},
        {"8 low bits", LMC_DTYPE_U8, LMC_OK, 7, {1, 0, 0, 2, 9, 8, 8}},
        {"9 low bits", LMC_DTYPE_U8, LMC_ERR_CORRUPT, 7, {1, 0, 0, 2, 9, 8, 9}},
        {"255 low bits", LMC_DTYPE_U8, LMC_ERR_CORRUPT, 7, {1, 0, 0, 2, 9, 255, 0}},
        {"cut before the classes", LMC_DTYPE_U8, LMC_ERR_CORRUPT, 3, {1, 0, 0}},
        {"cut within the classes", LMC_DTYPE_U8, LMC_ERR_CORRUPT, 6, {1, 0, 0, 2, 9, 0}},
        {"a byte more", LMC_DTYPE_U8, LMC_ERR_CORRUPT, 6, {1, 0, 0, 1, 0, 0}},
        {"one byte", LMC_DTYPE_U8, LMC_ERR_CORRUPT, 1, {1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const forged_frame f = same_frame(cases[i].section, cases[i].nbytes, cases[i].dtype);
        check(cases[i].what, &f, cases[i].status);
    }
}

/* ---- heads ---- */

LMC_TEST(test_base_forms)
{
    static const uint8_t section[] = {0, 0, 7, 1, 0};
    forged_frame f = same_frame(section, sizeof section, LMC_DTYPE_BF16);
    check("plain", &f, LMC_OK);
    for (size_t i = 0; i < f.content_nbytes / 2; i++)
        lmc_store16(bed.content + 2 * i, lmc_round_to_bf16(lmc_load32(bed.base + 4 * i)));
    f.base_form = LMC_BASE_BF16_OF_F32;
    check("rounded", &f, LMC_OK);
    f.content_nbytes = 4001;
    check("rounded, half an element", &f, LMC_ERR_CORRUPT);
    f.content_nbytes = 4000;
    f.dtype = LMC_DTYPE_F16;
    check("rounded, but F16", &f, LMC_ERR_CORRUPT);
    f.dtype = LMC_DTYPE_F32;
    check("rounded, but F32", &f, LMC_ERR_CORRUPT);
    f.dtype = LMC_DTYPE_BF16;
    for (unsigned form = 2; form < 256; form++) {
        const size_t nbytes = assemble(&f);
        forged[30] = (uint8_t)form;
        deep_reseal(forged, nbytes);
        const deep_base base = {bed.base, 8000};
        CU_ASSERT_EQUAL(base_decode_all(&bed, forged, nbytes, &base, bed.content, 4000),
                        form < LMC_BASE_FORM_COUNT ? LMC_ERR_CORRUPT : LMC_ERR_UNSUPPORTED);
    }
    f.dtype = LMC_DTYPE_F16;
    for (unsigned form = LMC_BASE_F16_OF_F32; form <= LMC_BASE_F16_OF_BF16; form++) {
        f.base_form = (lmc_base_form)form;
        lmc_base_round(f.base_form, bed.base, f.content_nbytes / 2, bed.content);
        check("rounded to F16", &f, LMC_OK);
        f.content_nbytes = 4001;
        check("rounded to F16, half an element", &f, LMC_ERR_CORRUPT);
        f.content_nbytes = 4000;
    }
}

/* A base form in a frame without a base. */
LMC_TEST(test_base_form_of_static_frames)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    static const data_kind kinds[] = {DATA_WEIGHTS, DATA_RANDOM};
    for (size_t k = 0; k < 2; k++) {
        data_fill(bed.content, 1500, LMC_DTYPE_BF16, kinds[k]);
        test_frame frame = frame_encode(bed.ctx, &params, bed.content, 1500);
        frame.bytes[30] = 1;
        deep_reseal(frame.bytes, frame.nbytes);
        CU_ASSERT_EQUAL(base_decode_all(&bed, frame.bytes, frame.nbytes, NULL, bed.content, 1500),
                        LMC_ERR_UNSUPPORTED);
        frame_free(&frame);
    }
}

/* Claims of content for which there is no base, up to bases of 2^63 bytes. */
LMC_TEST(test_claimed_sizes)
{
    static const uint8_t section[] = {0, 0, 7, 1, 0};
    for (int form = 0; form < LMC_BASE_FORM_COUNT; form++) {
        const lmc_rounding *const rounding = lmc_base_rounding((lmc_base_form)form);
        forged_frame f = same_frame(section, sizeof section, rounding ? rounding->dtype : LMC_DTYPE_BF16);
        f.base_form = (lmc_base_form)form;
        const size_t nbytes = assemble(&f);
        const deep_base base = {bed.base, 4000 * (size_t)lmc_base_scale(f.base_form)};
        for (unsigned shift = 0; shift < 64; shift++) {
            lmc_store64(forged + 16, UINT64_C(1) << shift);
            deep_reseal(forged, nbytes);
            CU_ASSERT_NOT_EQUAL(base_decode_all(&bed, forged, nbytes, &base, bed.content, 4000), LMC_OK);
        }
        lmc_store64(forged + 16, 0);
        CU_ASSERT_EQUAL(base_decode_all(&bed, forged, nbytes, &base, bed.content, 4000), LMC_ERR_CORRUPT);
    }
}

/* ---- blocks ---- */

typedef struct block_case {
    const char *what;
    size_t content_nbytes;
    uint8_t place, value; /* of what is not 0 in the content */
    lmc_status status;
    uint8_t nbytes, block[24];
} block_case;

/* Against a base of zeros. */
static void check_blocks(lmc_dtype dtype, const uint8_t *section, size_t section_nbytes,
                         const block_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const forged_frame f = {.dtype = dtype,
                                .mode = LMC_FRAME_DELTA,
                                .content_nbytes = cases[i].content_nbytes,
                                .section = section,
                                .section_nbytes = section_nbytes,
                                .block = cases[i].block,
                                .block_nbytes = cases[i].nbytes};
        memset(bed.base, 0, 1000);
        memset(bed.content, 0, 1000);
        bed.content[cases[i].place] = cases[i].value;
        check(cases[i].what, &f, cases[i].status);
    }
}

#define CHECK_BLOCKS(dtype, section, cases) \
    check_blocks(dtype, section, sizeof(section), cases, sizeof(cases) / sizeof((cases)[0]))

/* Bytes: 4, exceptions (count, places, values), the bucket code: a bitset of the symbols that go on, planes, a list
 * at the end. */
LMC_TEST(test_blocks)
{
    static const uint8_t section[] = {2, 0, 0, 1, 0};
    static const block_case cases[] = {
        {"same", 100, 0, 0, LMC_OK, 1, {3}},
        {"same, and a byte", 100, 0, 0, LMC_ERR_CORRUPT, 2, {3, 0}},
        {"stored", 5, 0, 0, LMC_OK, 6, {0}},
        {"stored, one less", 5, 0, 0, LMC_ERR_CORRUPT, 5, {0}},
        {"stored, its mode alone", 5, 0, 0, LMC_ERR_CORRUPT, 1, {0}},
        {"planes", 20, 0, 0, LMC_ERR_UNSUPPORTED, 3, {1, 1, 0}},
        {"masked", 20, 0, 0, LMC_ERR_UNSUPPORTED, 3, {2, 1, 0}},
        {"mode 5", 20, 0, 0, LMC_ERR_UNSUPPORTED, 3, {5, 1, 0}},
        {"mode 255", 20, 0, 0, LMC_ERR_UNSUPPORTED, 1, {255}},
        {"nothing goes on", 20, 0, 0, LMC_OK, 3, {4, 0, 3}},
        {"the mode alone", 20, 0, 0, LMC_ERR_CORRUPT, 1, {4}},
        {"no bucket code", 20, 0, 0, LMC_ERR_CORRUPT, 2, {4, 0}},
        {"a byte after the end", 20, 0, 0, LMC_ERR_CORRUPT, 4, {4, 0, 3, 0}},
        {"a bitmap of none", 20, 0, 0, LMC_OK, 6, {4, 0, 0, 0, 0, 0}},
        {"a bitmap with spare bits", 20, 0, 0, LMC_ERR_CORRUPT, 6, {4, 0, 0, 0, 0, 0x10}},
        {"a bitmap cut short", 20, 0, 0, LMC_ERR_CORRUPT, 5, {4, 0, 0, 0, 0}},
        {"bitset mode 200", 20, 0, 0, LMC_ERR_UNSUPPORTED, 3, {4, 0, 200}},
        {"one goes on", 20, 19, 7, LMC_OK, 7, {4, 0, 1, 1, 0, 19, 7}},
        {"one goes on to nowhere", 20, 0, 0, LMC_ERR_CORRUPT, 6, {4, 0, 1, 1, 0, 19}},
        {"one goes on from beyond", 20, 0, 0, LMC_ERR_CORRUPT, 7, {4, 0, 1, 1, 0, 20, 7}},
        {"one goes on, two follow", 20, 19, 7, LMC_ERR_CORRUPT, 8, {4, 0, 1, 1, 0, 19, 7, 7}},
        {"gaps of no members", 20, 0, 0, LMC_ERR_CORRUPT, 5, {4, 0, 1, 0, 0}},
        {"more members than elements", 20, 0, 0, LMC_ERR_CORRUPT, 24, {4, 0, 1, 21}},
        {"the widest symbol", 20, 19, 255, LMC_OK, 9, {4, 0, 1, 1, 0, 19, 255, 255, 0}},
        {"an escape is missing", 20, 19, 255, LMC_ERR_CORRUPT, 7, {4, 0, 1, 1, 0, 19, 255}},
        {"half an escape", 20, 19, 255, LMC_ERR_CORRUPT, 8, {4, 0, 1, 1, 0, 19, 255, 255}},
        {"eight of bucket 1, another content", 8, 0, 2, LMC_ERR_CHECKSUM, 5, {4, 0, 4, 3, 1}},
        {"eight of bucket 1, no plane", 8, 0, 0, LMC_ERR_CORRUPT, 4, {4, 0, 4, 3}},
        {"all go on for ever", 20, 0, 0, LMC_ERR_CORRUPT, 11, {4, 0, 4, 4, 4, 4, 4, 4, 4, 4, 4}},
        {"bucket 1 of 9, spare bits", 9, 0, 0, LMC_ERR_CORRUPT, 6, {4, 0, 4, 3, 0, 2}},
        {"an exception", 20, 19, 5, LMC_OK, 5, {4, 1, 19, 5, 3}},
        {"an exception beyond", 20, 0, 0, LMC_ERR_CORRUPT, 5, {4, 1, 20, 0, 3}},
        {"an exception far beyond", 20, 0, 0, LMC_ERR_CORRUPT, 5, {4, 1, 255, 0, 3}},
        {"two exceptions", 20, 19, 5, LMC_OK, 7, {4, 2, 18, 19, 0, 5, 3}},
        {"exceptions out of order", 20, 0, 0, LMC_ERR_CORRUPT, 7, {4, 2, 19, 18, 0, 0, 3}},
        {"an exception twice", 20, 0, 0, LMC_ERR_CORRUPT, 7, {4, 2, 18, 18, 0, 0, 3}},
        {"exceptions cut short", 20, 0, 0, LMC_ERR_CORRUPT, 6, {4, 3, 0, 1, 2, 0}},
        {"21 exceptions of 20", 20, 0, 0, LMC_ERR_CORRUPT, 21, {4, 21}},
        {"255 exceptions", 20, 0, 0, LMC_ERR_CORRUPT, 3, {4, 255, 3}},
        {"counts of two bytes", 300, 0, 0, LMC_OK, 4, {4, 0, 0, 3}},
        {"counts of two bytes, one there", 300, 0, 0, LMC_ERR_CORRUPT, 2, {4, 0}},
        {"301 exceptions of 300", 300, 0, 0, LMC_ERR_CORRUPT, 4, {4, 0x2d, 1, 3}},
    };
    CHECK_BLOCKS(LMC_DTYPE_U8, section, cases);
}

/* Four low bits of each element stand before the bucket code. */
LMC_TEST(test_low_bits)
{
    static const uint8_t section[] = {2, 0, 0, 1, 4};
    static const block_case cases[] = {
        {"low bits", 8, 7, 15, LMC_OK, 7, {4, 0, 0, 0, 0, 0xf0, 3}},
        {"low bits of 9", 9, 8, 15, LMC_OK, 8, {4, 0, 0, 0, 0, 0, 0x0f, 3}},
        {"spare bits", 9, 0, 0, LMC_ERR_CORRUPT, 8, {4, 0, 0, 0, 0, 0, 0x10, 3}},
        {"cut short", 9, 0, 0, LMC_ERR_CORRUPT, 6, {4, 0, 0, 0, 0, 0}},
        {"the mode of the bucket code is missing", 9, 0, 0, LMC_ERR_CORRUPT, 7, {4, 0, 0, 0, 0, 0, 0}},
        {"an escape", 20, 3, 0xf0, LMC_OK, 19, {4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 3, 255, 15}},
        {"an escape too wide",
         20,
         3,
         0xf0,
         LMC_ERR_CORRUPT,
         19,
         {4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 3, 255, 15, 0x10}},
    };
    CHECK_BLOCKS(LMC_DTYPE_U8, section, cases);
}

/* Sign sign changes stand before the heads of a class. */
LMC_TEST(test_sign_changes)
{
    static const uint8_t section[] = {0, 0, 3, 1, 0};
    static const block_case cases[] = {
        {"none", 20, 0, 0, LMC_OK, 4, {4, 0, 3, 3}},
        {"one", 20, 19, 0x80, LMC_OK, 7, {4, 0, 1, 1, 0, 19, 3}},
        {"one beyond", 20, 0, 0, LMC_ERR_CORRUPT, 7, {4, 0, 1, 1, 0, 20, 3}},
        {"a bitmap", 20, 19, 0x80, LMC_OK, 7, {4, 0, 0, 0, 0, 8, 3}},
        {"a bitmap with spare bits", 20, 19, 0x80, LMC_ERR_CORRUPT, 7, {4, 0, 0, 0, 0, 0x18, 3}},
        {"mode 100", 20, 0, 0, LMC_ERR_UNSUPPORTED, 4, {4, 0, 100, 3}},
        {"no sign changes", 20, 0, 0, LMC_ERR_CORRUPT, 3, {4, 0, 3}},
    };
    CHECK_BLOCKS(LMC_DTYPE_F8_E4M3, section, cases);
    /* with 8 low bits, a symbol of 80 makes a high part of 8000: that is a sign change too, and twice is once */
    static const uint8_t wide_section[] = {0, 0, 7, 1, 8};
    static const block_case wide_cases[] = {
        {"a high part of 2^15",
         16,
         15,
         0x80,
         LMC_OK,
         16,
         {4, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 7, 0x80}},
        {"and a sign change",
         16,
         15,
         0x80,
         LMC_OK,
         17,
         {4, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 7, 0x80}},
    };
    CHECK_BLOCKS(LMC_DTYPE_BF16, wide_section, wide_cases);
}

/* A plane of low bytes, of BF16: 4, exceptions, the plane's mode and bytes, sign changes, bucket code, and the odd
 * tail. */
LMC_TEST(test_low_planes)
{
    static const uint8_t section[] = {0, 1, 7, 1, 0};
    static const block_case cases[] = {
        {"constant", 16, 0, 0, LMC_OK, 6, {4, 0, 1, 0, 3, 3}},
        {"stored", 16, 0, 0, LMC_OK, 13, {4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3}},
        {"stored, cut short", 16, 0, 0, LMC_ERR_CORRUPT, 10, {4, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
        {"coded without a table", 16, 0, 0, LMC_ERR_CORRUPT, 6, {4, 0, 2, 0, 3, 3}},
        {"mode 4", 16, 0, 0, LMC_ERR_UNSUPPORTED, 6, {4, 0, 4, 0, 3, 3}},
        {"mode 255", 16, 0, 0, LMC_ERR_UNSUPPORTED, 6, {4, 0, 255, 0, 3, 3}},
        {"no mode", 16, 0, 0, LMC_ERR_CORRUPT, 2, {4, 0}},
        {"7 elements are bytes", 14, 13, 1, LMC_OK, 12, {4, 0, 1, 0, 3, 0, 0, 0, 0, 0, 0, 2}},
        {"7 elements, 6 bytes", 14, 0, 0, LMC_ERR_CORRUPT, 11, {4, 0, 1, 0, 3}},
        {"7 elements, 8 bytes", 14, 0, 0, LMC_ERR_CORRUPT, 13, {4, 0, 1, 0, 3}},
        {"a tail", 17, 16, 9, LMC_OK, 7, {4, 0, 1, 0, 3, 3, 9}},
        {"no tail", 17, 16, 9, LMC_ERR_CORRUPT, 6, {4, 0, 1, 0, 3, 3}},
        {"a longer tail", 17, 16, 9, LMC_ERR_CORRUPT, 8, {4, 0, 1, 0, 3, 3, 9, 9}},
        {"no elements: same", 1, 0, 0, LMC_OK, 1, {3}},
        {"no elements: stored", 1, 0, 9, LMC_OK, 2, {0, 9}},
        {"no elements: delta", 1, 0, 0, LMC_ERR_CORRUPT, 2, {4, 0}},
    };
    CHECK_BLOCKS(LMC_DTYPE_BF16, section, cases);
}

/* Two classes, of which the base fills one, or both. */
LMC_TEST(test_classes)
{
    static const uint8_t section[] = {2, 0, 0, 2, 0x80, 0, 0};
    static const uint8_t block[] = {4, 0, 3, 3, 3};
    forged_frame f = {.dtype = LMC_DTYPE_U8,
                      .mode = LMC_FRAME_DELTA,
                      .content_nbytes = 30,
                      .section = section,
                      .section_nbytes = sizeof section,
                      .block = block};
    for (size_t second = 0; second <= 30; second += 10) {
        memset(bed.base, 0x7f, 30);
        memset(bed.base, 0x80, second);
        memcpy(bed.content, bed.base, 30);
        const size_t used = second % 30 ? 2 : 1;
        for (f.block_nbytes = 1; f.block_nbytes <= sizeof block; f.block_nbytes++)
            check("classes", &f, f.block_nbytes == 2 + used ? LMC_OK : LMC_ERR_CORRUPT);
    }
}

/* Block modes of delta frames in frames without a base. */
LMC_TEST(test_modes_of_static_frames)
{
    const lmc_params params = frame_params(LMC_DTYPE_BF16, LMC_LEVEL_DEFAULT, 10);
    data_fill(bed.content, 5000, LMC_DTYPE_BF16, DATA_WEIGHTS);
    test_frame frame = frame_encode(bed.ctx, &params, bed.content, 5000);
    const deep_base base = {bed.content, 5000};
    lmc_info info = LMC_INIT(lmc_info);
    CU_ASSERT_EQUAL_FATAL(lmc_frame_read_info(frame.bytes, frame.nbytes, &info, NULL), LMC_OK);
    CU_ASSERT_EQUAL_FATAL(info.mode, LMC_FRAME_CODED);
    for (unsigned mode = 3; mode < 7; mode++) {
        frame.bytes[info.head_nbytes] = (uint8_t)mode;
        CU_ASSERT_EQUAL(base_decode_all(&bed, frame.bytes, frame.nbytes, &base, bed.content, 5000),
                        LMC_ERR_UNSUPPORTED);
    }
    frame_free(&frame);
}

LMC_TEST_MAIN_WITH("delta_forged", (bed = base_bed_open(CONTENT_MAX), forged = must_malloc(FORGED_MAX)),
                   (free(forged), base_bed_close(&bed)))
