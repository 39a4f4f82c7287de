/*
 * make_corpus.c - writes the seeds of the fuzz targets: make_corpus DIRECTORY.
 *
 * frame_decode gets small frames of every dtype family, level and mode, whole and damaged, and frames against the
 * base of base.h; round_trip gets contents of the kinds that the encoder tells apart, and changed contents.
 * tests/fuzz/README.md says when to run it.
 */
#include "fuzz.h"

#include <lmc.h>
#include <lmc_experimental.h>

#include "base.h"
#include "seed.h"

#define CONTENT_NBYTES_MAX 6000

/* ---- contents -------------------------------------------------------------------------------------- */

static void fill_random(uint8_t *dst, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        dst[i] = (uint8_t)next_random();
}

/* Sum of a few uniform numbers: near enough to normally distributed weights. */
static float next_weight(void)
{
    float sum = 0;
    for (int i = 0; i < 8; i++)
        sum += (float)(next_random() & 0xffff) / 65536.0f - 0.5f;
    return sum * 0.02f;
}

static void fill_f32(uint8_t *dst, size_t nbytes)
{
    for (size_t i = 0; i + 4 <= nbytes; i += 4) {
        const float weight = next_weight();
        memcpy(dst + i, &weight, 4);
    }
}

static void fill_bf16(uint8_t *dst, size_t nbytes)
{
    for (size_t i = 0; i + 2 <= nbytes; i += 2) {
        const float weight = next_weight();
        memcpy(dst + i, (const uint8_t *)&weight + 2, 2);
    }
}

static void fill_sparse_bf16(uint8_t *dst, size_t nbytes)
{
    fill_bf16(dst, nbytes);
    for (size_t i = 0; i + 2 <= nbytes; i += 2)
        if (next_random() % 16 != 0)
            dst[i] = dst[i + 1] = 0;
}

/* Half of all values are zero, the rest are weights: what pruning leaves. */
static void fill_pruned_bf16(uint8_t *dst, size_t nbytes)
{
    fill_bf16(dst, nbytes);
    for (size_t i = 0; i + 2 <= nbytes; i += 2)
        if (next_random() % 2 != 0)
            dst[i] = dst[i + 1] = 0;
}

static void fill_small_i32(uint8_t *dst, size_t nbytes)
{
    for (size_t i = 0; i + 4 <= nbytes; i += 4) {
        const int32_t value = (int32_t)(next_random() % 7) - 3;
        memcpy(dst + i, &value, 4);
    }
}

static void fill_i64_ramp(uint8_t *dst, size_t nbytes)
{
    for (size_t i = 0; i + 8 <= nbytes; i += 8) {
        const uint64_t value = i * 3;
        memcpy(dst + i, &value, 8);
    }
}

static void fill_constant(uint8_t *dst, size_t nbytes)
{
    memset(dst, 0x3f, nbytes);
}

static void fill_bool(uint8_t *dst, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        dst[i] = next_random() % 10 == 0;
}

static void fill_f8(uint8_t *dst, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        dst[i] = (uint8_t)(((next_random() & 1) << 7) | (0x28 + (next_random() & 7) + (next_random() & 15)));
}

/* ---- wide elements with narrow contents ---- */

#define GROUP_LENGTH 64

static float group_scale(size_t group)
{
    return (float)(1 + group * 2654435761u % 65521) * 0x1p-26f;
}

static void put_single(uint8_t *dst, size_t i, float x)
{
    memcpy(dst + 4 * i, &x, 4);
}

/* Integers times a scale, with -0 and an exception. */
static void fill_products_f32(uint8_t *dst, size_t nbytes)
{
    for (size_t i = 0; i < nbytes / 4; i++) {
        const int number = (int)(next_random() % 255) - 127;
        put_single(dst, i, group_scale(i / GROUP_LENGTH) * (float)(i % GROUP_LENGTH == 0 ? 127 : number));
        if (i % 333 == 332)
            put_single(dst, i, i % 2 ? -0.0f : 0x1p-20f);
    }
}

static void fill_products_bf16(uint8_t *dst, size_t nbytes)
{
    for (size_t i = 0; i < nbytes / 2; i++) {
        const int number = i % GROUP_LENGTH == 0 ? 7 : (int)(next_random() % 16) - 8;
        const float product = group_scale(i / GROUP_LENGTH) * (float)number;
        uint32_t bits;
        memcpy(&bits, &product, 4);
        bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        dst[2 * i] = (uint8_t)bits;
        dst[2 * i + 1] = (uint8_t)(bits >> 8);
    }
}

/* The numbers 1.m 2^e with three bits of m: those of F8_E4M3. */
static void fill_products_f8(uint8_t *dst, size_t nbytes)
{
    for (size_t i = 0; i < nbytes / 4; i++) {
        const float number = (float)(8 + next_random() % 8) * (float)(1u << next_random() % 8);
        const float signed_number = next_random() & 1 ? number : -number;
        put_single(dst, i,
                   group_scale(i / GROUP_LENGTH) * (i % GROUP_LENGTH == 0 ? 14 * 128.0f : signed_number));
    }
}

static void fill_products_nf4(uint8_t *dst, size_t nbytes)
{
    static const float factors[] = {-1.0f, -0.6961928009986877f, -0.18477343022823334f, 0.0f,
                                    1.0f,  0.07958029955625534f, 0.24611230194568634f,  0.44070982933044434f};
    for (size_t i = 0; i < nbytes / 4; i++)
        put_single(dst, i,
                   group_scale(i / GROUP_LENGTH) * factors[i % GROUP_LENGTH == 0 ? 0 : next_random() % 8]);
}

static void fill_halves_f32(uint8_t *dst, size_t nbytes)
{
    fill_f32(dst, nbytes);
    for (size_t i = 0; i < nbytes / 4; i++) {
        dst[4 * i] = 0; /* 13 bits less of the mantissa */
        dst[4 * i + 1] &= 0xe0;
    }
}

/* F32 numbers, and one in seventy that is none. */
static void fill_singles_f64(uint8_t *dst, size_t nbytes)
{
    for (size_t i = 0; i + 8 <= nbytes; i += 8) {
        const double weight = (double)(next_weight() * next_weight()),
                     number = i % 560 == 552 ? weight / 3 : weight;
        memcpy(dst + i, &number, 8);
    }
}

static void fill_palette_f32(uint8_t *dst, size_t nbytes)
{
    for (size_t i = 0; i < nbytes / 4; i++) {
        const uint32_t value = (1 + next_random() % 50) * 2654435761u;
        memcpy(dst + 4 * i, &value, 4);
    }
}

typedef struct content_kind {
    const char *name;
    lmc_dtype dtype;
    void (*fill)(uint8_t *dst, size_t nbytes);
} content_kind;

static const content_kind kinds[] = {
    {"u8-random", LMC_DTYPE_U8, fill_random},
    {"bool", LMC_DTYPE_BOOL, fill_bool},
    {"f8-e4m3", LMC_DTYPE_F8_E4M3, fill_f8},
    {"bf16", LMC_DTYPE_BF16, fill_bf16},
    {"bf16-sparse", LMC_DTYPE_BF16, fill_sparse_bf16},
    {"bf16-pruned", LMC_DTYPE_BF16, fill_pruned_bf16},
    {"bf16-constant", LMC_DTYPE_BF16, fill_constant},
    {"f16", LMC_DTYPE_F16, fill_bf16},
    {"f32", LMC_DTYPE_F32, fill_f32},
    {"i32-small", LMC_DTYPE_I32, fill_small_i32},
    {"i64-ramp", LMC_DTYPE_I64, fill_i64_ramp},
    {"f64", LMC_DTYPE_F64, fill_i64_ramp},
    {"c64", LMC_DTYPE_C64, fill_f32},
    {"f4", LMC_DTYPE_F4, fill_f8},
    {"products-f32", LMC_DTYPE_F32, fill_products_f32},
    {"products-bf16", LMC_DTYPE_BF16, fill_products_bf16},
    {"products-f8", LMC_DTYPE_F32, fill_products_f8},
    {"products-nf4", LMC_DTYPE_F32, fill_products_nf4},
    {"halves-f32", LMC_DTYPE_F32, fill_halves_f32},
    {"singles-f64", LMC_DTYPE_F64, fill_singles_f64},
    {"palette-f32", LMC_DTYPE_F32, fill_palette_f32},
};

/* Kinds from here on have narrow elements if they are long enough. */
#define NARROW_FIRST 14

/* ---- seeds ----------------------------------------------------------------------------------------- */

static size_t encode(const content_kind *kind, lmc_level level, const uint8_t *content, size_t content_nbytes,
                     uint8_t **frame)
{
    lmc_params params;
    lmc_params_init(&params);
    params.dtype = kind->dtype;
    params.level = level;
    params.block_log2 = LMC_BLOCK_LOG2_MIN;
    if (kind >=
        &kinds
            [NARROW_FIRST]) /* products and palettes are looked for in small matrices, not in small vectors */
        params.row_nbytes = 64 * lmc_dtype_nbits(kind->dtype) / 8;
    size_t bound, frame_nbytes;
    lmc_ctx *ctx = NULL;
    FUZZ_CLAIM(lmc_ctx_create(NULL, &ctx) == LMC_OK);
    FUZZ_CLAIM(lmc_encode_bound(&params, content_nbytes, &bound) == LMC_OK);
    *frame = fuzz_malloc(bound);
    FUZZ_CLAIM(lmc_encode(ctx, &params, content, content_nbytes, *frame, bound, &frame_nbytes) == LMC_OK);
    lmc_ctx_free(ctx);
    return frame_nbytes;
}

static void write_frame_seeds(const content_kind *kind, lmc_level level, const uint8_t *content,
                              size_t content_nbytes)
{
    char name[128];
    uint8_t *frame;
    const size_t nbytes = encode(kind, level, content, content_nbytes, &frame);
    if (kind >= &kinds[NARROW_FIRST] && content_nbytes == CONTENT_NBYTES_MAX && level == LMC_LEVEL_DEFAULT)
        FUZZ_CLAIM((frame[8] & 0x20) != 0); /* the feature of narrow elements */
    snprintf(name, sizeof(name), "%s-%d-%zu", kind->name, (int)level, content_nbytes);
    write_seed("frame_decode", name, frame, nbytes);

    strcat(name, "-flip");
    frame[next_random() % nbytes] ^= (uint8_t)(1u << (next_random() & 7));
    write_seed("frame_decode", name, frame, nbytes);
    if (level == LMC_LEVEL_DEFAULT) {
        strcat(name, "-cut");
        write_seed("frame_decode", name, frame, next_random() % nbytes);
    }
    free(frame);
}

static void write_content_seed(const content_kind *kind, const uint8_t *content, size_t content_nbytes)
{
    char name[128];
    uint8_t *const seed = fuzz_malloc(content_nbytes + 4);
    seed[0] = (uint8_t)kind->dtype;
    seed[1] = (uint8_t)(content_nbytes % 3);
    seed[2] = (uint8_t)(11 + content_nbytes % 2);
    seed[3] = (uint8_t)(content_nbytes % 5);
    memcpy(seed + 4, content, content_nbytes);
    snprintf(name, sizeof(name), "%s-%zu", kind->name, content_nbytes);
    write_seed("round_trip", name, seed, content_nbytes + 4);
    free(seed);
}

/* ---- with a base ------------------------------------------------------------------------------------ */

typedef struct delta_kind {
    const char *name;
    lmc_dtype dtype;
    lmc_base_form base_form;
} delta_kind;

static const delta_kind delta_kinds[] = {
    {"u8", LMC_DTYPE_U8, LMC_BASE_PLAIN},
    {"f8-e4m3", LMC_DTYPE_F8_E4M3, LMC_BASE_PLAIN},
    {"bf16", LMC_DTYPE_BF16, LMC_BASE_PLAIN},
    {"bf16-of-f32", LMC_DTYPE_BF16, LMC_BASE_BF16_OF_F32},
    {"f16-of-f32", LMC_DTYPE_F16, LMC_BASE_F16_OF_F32},
    {"f16-of-bf16", LMC_DTYPE_F16, LMC_BASE_F16_OF_BF16},
    {"i16", LMC_DTYPE_I16, LMC_BASE_PLAIN},
    {"f32", LMC_DTYPE_F32, LMC_BASE_PLAIN},
    {"i32", LMC_DTYPE_I32, LMC_BASE_PLAIN},
    {"f64", LMC_DTYPE_F64, LMC_BASE_PLAIN},
};

/* The base's values with one byte in `rarity` changed a little (0: none), of elements of any kind. */
static void fill_changed(const delta_kind *kind, unsigned rarity, uint8_t *content, size_t nbytes)
{
    static uint8_t base[2 * CONTENT_NBYTES_MAX];
    fuzz_fill_base(base, sizeof(base));
    memcpy(content, base, nbytes);
    if (kind->base_form != LMC_BASE_PLAIN)
        lmc_base_round(kind->base_form, base, nbytes / 2, content);
    for (size_t i = 0; rarity > 0 && i < nbytes; i++)
        if (next_random() % rarity == 0)
            content[i] = (uint8_t)(content[i] + next_random() % 5 - 2);
}

static void write_delta_seed(const delta_kind *kind, unsigned rarity, size_t nbytes)
{
    static uint8_t content[CONTENT_NBYTES_MAX], base[2 * CONTENT_NBYTES_MAX],
        frame[3 * CONTENT_NBYTES_MAX + 4];
    char name[128];
    size_t frame_nbytes;
    lmc_params params;
    lmc_ctx *ctx = NULL;
    lmc_params_init(&params);
    params.dtype = kind->dtype;
    params.base_form = kind->base_form;
    params.block_log2 = LMC_BLOCK_LOG2_MIN;
    const lmc_rounding *const rounding = lmc_base_rounding(kind->base_form);
    const size_t base_nbytes = (rounding ? rounding->scale : 1) * nbytes;
    fuzz_fill_base(base, sizeof(base));
    fill_changed(kind, rarity, content, nbytes);
    FUZZ_CLAIM(lmc_ctx_create(NULL, &ctx) == LMC_OK);
    FUZZ_CLAIM(lmc_encode_delta(ctx, &params, content, nbytes, base, base_nbytes, frame, sizeof(frame),
                                &frame_nbytes) == LMC_OK);
    snprintf(name, sizeof(name), "delta-%s-%u-%zu", kind->name, rarity, nbytes);
    write_seed("frame_decode", name, frame, frame_nbytes);
    lmc_ctx_free(ctx);

    uint8_t *const seed = frame; /* content and base behind four bytes of settings, round_trip.c */
    seed[0] = (uint8_t)kind->dtype;
    seed[1] = 0;
    seed[2] = 11;
    seed[3] = kind->base_form == LMC_BASE_PLAIN ? 3 : 9;
    memcpy(seed + 4, content, nbytes);
    memcpy(seed + 4 + nbytes, base, base_nbytes);
    if (nbytes < CONTENT_NBYTES_MAX)
        write_seed("round_trip", name, seed, 4 + nbytes + base_nbytes);
}

/* ---- matrices ------------------------------------------------------------------------------------------ */

typedef struct matrix_kind {
    const char *name;
    lmc_dtype dtype;
    unsigned column_count;
    uint8_t columns_choice; /* of round_trip.c */
} matrix_kind;

static const matrix_kind matrix_kinds[] = {
    {"bf16", LMC_DTYPE_BF16, 32, 1}, {"bf16-33", LMC_DTYPE_BF16, 33, 2},    {"f16", LMC_DTYPE_F16, 40, 3},
    {"f32", LMC_DTYPE_F32, 32, 1},   {"f8-e5m2", LMC_DTYPE_F8_E5M2, 64, 5},
};

/* An exponent and a mantissa by row and column; the lowest bits are noise, and some values are anything. */
static void fill_matrix(const matrix_kind *kind, uint8_t *dst, size_t nbytes)
{
    const unsigned element_nbytes = lmc_dtype_nbits(kind->dtype) / 8;
    const unsigned exponent_nbits = element_nbytes == 1 || kind->dtype == LMC_DTYPE_F16 ? 5 : 8;
    const unsigned mantissa_nbits = 8 * element_nbytes - 1 - exponent_nbits;
    for (size_t i = 0; i < nbytes / element_nbytes; i++) {
        const size_t row = i / kind->column_count, column = i % kind->column_count;
        const uint64_t noise = (uint64_t)next_random() << 32 | next_random();
        uint64_t value = ((uint64_t)(4 + row * 7 % 10 + column * 5 % 12) << mantissa_nbits) +
                         (noise & (((uint64_t)2 << mantissa_nbits) - 1));
        value |= (noise >> 63) << (8 * element_nbytes - 1);
        if (noise % 211 == 0)
            value = noise;
        for (unsigned j = 0; j < element_nbytes; j++, value >>= 8)
            dst[i * element_nbytes + j] = (uint8_t)value;
    }
}

static void write_matrix_seeds(const matrix_kind *kind)
{
    static uint8_t content[CONTENT_NBYTES_MAX], seed[CONTENT_NBYTES_MAX + 4], frame[3 * CONTENT_NBYTES_MAX];
    char name[128];
    size_t frame_nbytes;
    lmc_params params;
    lmc_ctx *ctx = NULL;
    fill_matrix(kind, content, sizeof content);
    lmc_params_init(&params);
    params.dtype = kind->dtype;
    params.block_log2 = LMC_BLOCK_LOG2_MIN;
    params.row_nbytes = kind->column_count * lmc_dtype_nbits(kind->dtype) / 8;
    FUZZ_CLAIM(lmc_ctx_create(NULL, &ctx) == LMC_OK);
    FUZZ_CLAIM(lmc_encode(ctx, &params, content, sizeof content, frame, sizeof frame, &frame_nbytes) ==
               LMC_OK);
    lmc_ctx_free(ctx);
    FUZZ_CLAIM(frame[8] != 0); /* the feature of offsets */
    snprintf(name, sizeof name, "matrix-%s", kind->name);
    write_seed("frame_decode", name, frame, frame_nbytes);
    const uint8_t settings[4] = {(uint8_t)kind->dtype, 0, 11, (uint8_t)(12 * kind->columns_choice)};
    memcpy(seed, settings, sizeof settings);
    memcpy(seed + sizeof settings, content, sizeof content);
    write_seed("round_trip", name, seed, sizeof seed);
    strcat(name, "-flip");
    frame[32 + next_random() % (frame_nbytes - 32)] ^= (uint8_t)(1u << (next_random() & 7));
    write_seed("frame_decode", name, frame, frame_nbytes);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {0, 17, 255, 1025, CONTENT_NBYTES_MAX};
    static uint8_t content[CONTENT_NBYTES_MAX];
    take_directory(argc, argv);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        memset(content, 0, sizeof(content));
        kinds[k].fill(content, sizeof(content));
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            write_frame_seeds(&kinds[k], LMC_LEVEL_DEFAULT, content, sizes[s]);
            if (sizes[s] > 1000) {
                write_frame_seeds(&kinds[k], LMC_LEVEL_FAST, content, sizes[s]);
                write_content_seed(&kinds[k], content, sizes[s]);
            }
        }
    }
    for (size_t k = 0; k < sizeof(delta_kinds) / sizeof(delta_kinds[0]); k++) {
        write_delta_seed(&delta_kinds[k], 0, 2500);
        write_delta_seed(&delta_kinds[k], 400, CONTENT_NBYTES_MAX);
        write_delta_seed(&delta_kinds[k], 20, 2500);
        write_delta_seed(&delta_kinds[k], 4, 1030);
    }
    for (size_t k = 0; k < sizeof(matrix_kinds) / sizeof(matrix_kinds[0]); k++)
        write_matrix_seeds(&matrix_kinds[k]);
    return 0;
}
