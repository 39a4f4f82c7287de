/*
 * lmc_test_data.h - what test programs feed the codec with: random numbers that are the same in every run,
 * contents that look like tensors, and memory that ends at a page that may not be touched.
 * To be included before any other header (it asks for MAP_ANONYMOUS).
 */
#ifndef LMC_TEST_DATA_H
#define LMC_TEST_DATA_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif

#include <lmc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "codec/kernels/kernels.h"

#define MAYBE_UNUSED __attribute__((unused))

/* ---- random numbers ---- */

static uint64_t random_state = 1;

static MAYBE_UNUSED uint64_t random_u64(void)
{
    uint64_t x = random_state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* 0..bound - 1; bound > 0 */
static MAYBE_UNUSED size_t random_below(size_t bound)
{
    return (size_t)(random_u64() % bound);
}

/* 0 with probability 1/2, 1 with 1/4, ... */
static MAYBE_UNUSED unsigned random_geometric(void)
{
    return (unsigned)__builtin_ctzll(random_u64() | UINT64_C(1) << 63);
}

static MAYBE_UNUSED void random_fill(uint8_t *p, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        p[i] = (uint8_t)random_u64();
}

/* ---- memory ---- */

/* malloc that never returns NULL, aligned to 64 bytes. */
static MAYBE_UNUSED void *must_malloc(size_t nbytes)
{
    void *p;
    if (posix_memalign(&p, 64, nbytes > 0 ? nbytes : 1) != 0)
        abort();
    return p;
}

/* The same, with zeros, as the default allocator gives. */
static MAYBE_UNUSED void *must_malloc_zeros(size_t nbytes)
{
    void *const zeros = must_malloc(nbytes);
    memset(zeros, 0, nbytes);
    return zeros;
}

static MAYBE_UNUSED lmc_ctx *must_create_ctx(void)
{
    lmc_ctx *ctx = NULL;
    if (lmc_ctx_create(NULL, &ctx) != LMC_OK)
        abort();
    return ctx;
}

/* Memory of `capacity` bytes; the page behind it may not be touched. */
typedef struct guarded {
    uint8_t *map;
    size_t capacity;
} guarded;

#define GUARD_NBYTES 65536 /* a multiple of every page size there is */

static MAYBE_UNUSED guarded guarded_open(size_t capacity)
{
    guarded g = {NULL, (capacity + GUARD_NBYTES) / GUARD_NBYTES * GUARD_NBYTES};
    g.map = mmap(NULL, g.capacity + GUARD_NBYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED || mprotect(g.map, g.capacity, PROT_READ | PROT_WRITE) != 0)
        abort();
    return g;
}

/* The last nbytes before the guard page. */
static MAYBE_UNUSED uint8_t *guarded_end(const guarded *g, size_t nbytes)
{
    if (nbytes > g->capacity)
        abort();
    return g->map + g->capacity - nbytes;
}

/* A copy of a buffer that ends at the guard page. */
static MAYBE_UNUSED uint8_t *guarded_copy(const guarded *g, const void *src, size_t nbytes)
{
    uint8_t *const p = guarded_end(g, nbytes);
    if (nbytes > 0)
        memcpy(p, src, nbytes);
    return p;
}

static MAYBE_UNUSED void guarded_close(guarded *g)
{
    munmap(g->map, g->capacity + GUARD_NBYTES);
}

/* ---- kernel sets ---- */

#define KERNEL_SETS_MAX 5

/* The sets that this machine has, scalar first. */
static MAYBE_UNUSED size_t kernel_sets(const lmc_kernels *sets[KERNEL_SETS_MAX])
{
    static const char *const names[] = {"scalar", "avx2", "avx2-nopext", "avx512", "neon"};
    size_t count = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        sets[count] = lmc_kernels_find(names[i]);
        count += sets[count] != NULL;
    }
    return count;
}

/* ---- contents ---- */

typedef enum data_kind {
    DATA_RANDOM, /* every bit is noise */
    DATA_ZERO,
    DATA_ONE_VALUE,
    DATA_WEIGHTS,    /* floats about one scale; integers about 0 */
    DATA_ONE_SIGN,   /* the same without a sign */
    DATA_HALF_ZEROS, /* weights, half of them 0 */
    DATA_RARE,       /* 99 % zeros, else weights */
    DATA_SHORT,      /* weights whose lower half of the bits is 0: as a bf16 in an f32 */
    DATA_SHORTER,    /* weights with few bits set at the top: as an i8 in an f32 */
    DATA_SPECIAL,    /* NaNs with payloads, infinities, both zeros, denormals, among weights */
    DATA_WILD,       /* weights, one in a hundred of any size */
    DATA_STEPS,      /* runs of equal values */
    DATA_PRODUCTS, /* floats of 16 and 32 bits: an integer times a scale per 64 of them, now and then none */
    DATA_HALVES,   /* floats of 32 and 64 bits: numbers of the type half as long, some of them special */
    DATA_PALETTE,  /* about a hundred values of any bits, now and then another one */
    DATA_KIND_COUNT
} data_kind;

/* Exponent and mantissa of a dtype; exponent 0 for those that are no floats. */
static MAYBE_UNUSED void data_float_nbits(lmc_dtype dtype, unsigned *exponent, unsigned *mantissa)
{
    *exponent = *mantissa = 0;
    switch (dtype) {
    case LMC_DTYPE_F8_E5M2:
    case LMC_DTYPE_F8_E5M2FNUZ: *exponent = 5, *mantissa = 2; break;
    case LMC_DTYPE_F8_E4M3:
    case LMC_DTYPE_F8_E4M3FNUZ: *exponent = 4, *mantissa = 3; break;
    case LMC_DTYPE_F16: *exponent = 5, *mantissa = 10; break;
    case LMC_DTYPE_BF16: *exponent = 8, *mantissa = 7; break;
    case LMC_DTYPE_F32:
    case LMC_DTYPE_C64: *exponent = 8, *mantissa = 23; break;
    case LMC_DTYPE_F64: *exponent = 11, *mantissa = 52; break;
    default: break;
    }
}

/* Bytes of the element that is split; a C64 is two. */
static MAYBE_UNUSED unsigned data_element_nbytes(lmc_dtype dtype)
{
    const unsigned nbits = dtype == LMC_DTYPE_C64 ? 32 : lmc_dtype_nbits(dtype);
    return nbits < 8 ? 1 : nbits / 8;
}

static MAYBE_UNUSED uint64_t data_weight(lmc_dtype dtype)
{
    unsigned e, m;
    data_float_nbits(dtype, &e, &m);
    const unsigned nbits = 8 * data_element_nbytes(dtype);
    if (e == 0) {
        const uint64_t size = random_u64() >> (64 - (nbits < 8 ? nbits : 8)) >> random_geometric();
        return random_u64() & 1 ? size : 0 - size;
    }
    const uint64_t scale = (UINT64_C(1) << (e - 1)) - 1 - (e > 4 ? 5 : 1);
    const uint64_t steps = random_geometric();
    const uint64_t exponent = steps < scale ? scale - steps : 0;
    return (random_u64() & 1) << (e + m) | exponent << m | (random_u64() & ((UINT64_C(1) << m) - 1));
}

static MAYBE_UNUSED uint64_t data_special(lmc_dtype dtype)
{
    unsigned e, m;
    data_float_nbits(dtype, &e, &m);
    if (e == 0)
        return random_u64() & 1 ? 0 : ~UINT64_C(0);
    const uint64_t sign = (random_u64() & 1) << (e + m);
    const uint64_t top = ((UINT64_C(1) << e) - 1) << m;
    const uint64_t payload = random_u64() & ((UINT64_C(1) << m) - 1);
    switch (random_below(7)) {
    case 0: return sign;                                         /* zero */
    case 1: return sign | top;                                   /* infinity */
    case 2: return sign | top | payload;                         /* NaN, of either kind */
    case 3: return sign | top | UINT64_C(1) << (m - 1);          /* the usual NaN */
    case 4: return sign | 1;                                     /* the least denormal */
    case 5: return sign | payload;                               /* a denormal */
    default: return sign | (top - (UINT64_C(1) << m)) | payload; /* about the largest */
    }
}

/* ---- wide elements with narrow contents ---- */

/* Powers of two within the normal F64. */
static MAYBE_UNUSED double data_power_of_2(int exponent)
{
    const uint64_t bits = (uint64_t)(1023 + exponent) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* The bits of a number in F16, BF16 or F32, rounded to nearest, ties to even; not for NaN. */
static MAYBE_UNUSED uint64_t data_float_bits(lmc_dtype dtype, double x)
{
    unsigned e, m;
    uint64_t bits;
    data_float_nbits(dtype, &e, &m);
    memcpy(&bits, &x, sizeof bits);
    const uint64_t sign = bits >> 63 << (e + m), infinity = ((UINT64_C(1) << e) - 1) << m;
    const int least = 2 - (1 << (e - 1)), exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    const uint64_t significand = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    const unsigned shift = 52 - m + (unsigned)(exponent < least ? least - exponent : 0);
    if (x == 0 || shift > 53 || exponent > -least + 1)
        return sign | (x == 0 || shift > 53 ? 0 : infinity);
    const uint64_t rest = significand & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
    const uint64_t down = significand >> shift;
    const uint64_t rounded = down + (rest > half || (rest == half && (down & 1)));
    return sign | (rounded + ((uint64_t)(exponent < least ? 0 : exponent - least) << m));
}

/* The number that the bits of an F16, BF16 or F32 mean; not for infinities and NaN. */
static MAYBE_UNUSED double data_float_value(lmc_dtype dtype, uint64_t bits)
{
    unsigned e, m;
    data_float_nbits(dtype, &e, &m);
    const int least = 2 - (1 << (e - 1)), field = (int)(bits >> m & ((1u << e) - 1));
    const uint64_t mantissa = bits & ((UINT64_C(1) << m) - 1);
    const uint64_t significand = field > 0 ? mantissa | UINT64_C(1) << m : mantissa;
    const double size = (double)significand * data_power_of_2(least + (field > 0 ? field - 1 : 0) - (int)m);
    return bits >> (e + m) & 1 ? -size : size;
}

/* The product of two F32, rounded to F32 and then to the type. */
static MAYBE_UNUSED uint64_t data_product(lmc_dtype dtype, float scale, float factor)
{
    const uint64_t single = data_float_bits(LMC_DTYPE_F32, (double)scale * (double)factor);
    const double product = data_float_value(LMC_DTYPE_F32, single);
    return dtype == LMC_DTYPE_F32 ? single : data_float_bits(dtype, product);
}

/* A float in a wider one: the number; infinities and NaN keep their sign and the top of the payload, which becomes
 * quiet in F32. Denormals of F32 are zeros in F64. */
static MAYBE_UNUSED uint64_t data_widened(lmc_dtype narrow, uint64_t bits)
{
    unsigned e, m;
    data_float_nbits(narrow, &e, &m);
    const lmc_dtype wide = narrow == LMC_DTYPE_F32 ? LMC_DTYPE_F64 : LMC_DTYPE_F32;
    unsigned wide_e, wide_m;
    data_float_nbits(wide, &wide_e, &wide_m);
    const uint64_t sign = (bits >> (e + m) & 1) << (wide_e + wide_m);
    const uint64_t mantissa = bits & ((UINT64_C(1) << m) - 1);
    const unsigned field = (unsigned)(bits >> m & ((1u << e) - 1));
    if (field == (1u << e) - 1) {
        const uint64_t quiet = narrow == LMC_DTYPE_F16 && mantissa != 0 ? UINT64_C(1) << (wide_m - 1) : 0;
        return sign | ((UINT64_C(1) << wide_e) - 1) << wide_m | mantissa << (wide_m - m) | quiet;
    }
    if (wide == LMC_DTYPE_F32)
        return narrow == LMC_DTYPE_BF16 ? bits << 16 : data_float_bits(wide, data_float_value(narrow, bits));
    const double number = data_float_value(narrow, field == 0 ? bits >> m << m : bits);
    uint64_t found;
    memcpy(&found, &number, sizeof found);
    return found;
}

static MAYBE_UNUSED uint64_t data_half(lmc_dtype dtype)
{
    const lmc_dtype narrow = dtype == LMC_DTYPE_F64 ? LMC_DTYPE_F32 : LMC_DTYPE_F16;
    if (dtype != LMC_DTYPE_F64 && dtype != LMC_DTYPE_F32)
        return data_weight(dtype);
    return data_widened(narrow, random_below(40) ? data_weight(narrow) : data_special(narrow));
}

/* A number that is the same in every run for the same `number`. */
static MAYBE_UNUSED uint64_t data_hash(uint64_t number)
{
    const uint64_t x = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

#define DATA_GROUP_LENGTH 64

/* Exceptions stand in one group of eight, not in the first one that an encoder sees, and are no larger than the
 * products. */
static MAYBE_UNUSED uint64_t data_of_product(lmc_dtype dtype, size_t i)
{
    const size_t group = i / DATA_GROUP_LENGTH;
    const float scale = 0x1p-30f * (float)(data_hash(group) >> 42); /* less than 2^-8 */
    const int size = (int)(random_u64() % 128 * (random_u64() % 128) / 127);
    const float factor = random_u64() & 1 ? (float)size : -(float)size;
    const int is_exception = group % 8 == 3 && random_below(90) == 0;
    if (dtype != LMC_DTYPE_F32 && dtype != LMC_DTYPE_F16 && dtype != LMC_DTYPE_BF16)
        return data_weight(dtype);
    if (is_exception)
        return data_product(dtype, scale, 1.37f + factor / 3);
    return data_product(dtype, scale, i % DATA_GROUP_LENGTH == 7 ? -127 : factor);
}

static MAYBE_UNUSED uint64_t data_value(lmc_dtype dtype, data_kind kind, size_t i)
{
    const unsigned nbits = 8 * data_element_nbytes(dtype);
    switch (kind) {
    case DATA_RANDOM: return random_u64();
    case DATA_ZERO: return 0;
    case DATA_ONE_VALUE: return UINT64_C(0xbf8123456789abcd) >> (64 - nbits);
    case DATA_ONE_SIGN: return data_weight(dtype) & ~(UINT64_C(1) << (nbits - 1));
    case DATA_HALF_ZEROS: return random_u64() & 1 ? 0 : data_weight(dtype);
    case DATA_RARE: return random_below(100) ? 0 : data_weight(dtype);
    case DATA_SHORT: return data_weight(dtype) >> nbits / 2 << nbits / 2;
    case DATA_SHORTER: return data_weight(dtype) >> nbits / 4 * 3 << nbits / 4 * 3;
    case DATA_SPECIAL: return random_below(3) ? data_weight(dtype) : data_special(dtype);
    case DATA_WILD: return random_below(100) ? data_weight(dtype) : random_u64();
    case DATA_STEPS: return i / 37 * UINT64_C(0x0101);
    case DATA_PRODUCTS: return data_of_product(dtype, i);
    case DATA_HALVES: return data_half(dtype);
    case DATA_PALETTE: return random_below(500) ? data_hash(random_below(100)) >> (64 - nbits) : random_u64();
    default: return data_weight(dtype);
    }
}

/* Fills nbytes at p, which may end within an element. */
static MAYBE_UNUSED void data_fill(uint8_t *p, size_t nbytes, lmc_dtype dtype, data_kind kind)
{
    const unsigned element_nbytes = data_element_nbytes(dtype);
    for (size_t i = 0; i < nbytes; i += element_nbytes) {
        const uint64_t value = data_value(dtype, kind, i / element_nbytes);
        memcpy(p + i, &value, nbytes - i < element_nbytes ? nbytes - i : element_nbytes);
    }
}

/* Scales of rows and columns, in eighths of an octave. */
#define DATA_SCALE_MAX 40

static MAYBE_UNUSED size_t data_scale_of(uint64_t seed, size_t number)
{
    return (seed ^ number * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9) %
           (UINT64_C(1) << 40) % DATA_SCALE_MAX;
}

/* Makes a matrix of floats at p: rows and columns get scales of their own. Small scales go down to zero. */
static MAYBE_UNUSED void data_scale_matrix(uint8_t *p, size_t nbytes, lmc_dtype dtype, size_t column_count)
{
    unsigned e, m;
    const unsigned element_nbytes = data_element_nbytes(dtype);
    const uint64_t row_seed = random_u64(), column_seed = random_u64();
    data_float_nbits(dtype, &e, &m);
    for (size_t i = 0; i < nbytes / element_nbytes; i++) {
        const size_t eighths =
            data_scale_of(row_seed, i / column_count) + data_scale_of(column_seed, i % column_count);
        uint64_t x = 0;
        memcpy(&x, p + i * element_nbytes, element_nbytes);
        const uint64_t sign = UINT64_C(1) << (e + m), magnitude = x & (sign - 1);
        const uint64_t less = ((uint64_t)eighths << m) / (e <= 5 ? 16 : 8);
        x = (x & sign) | (magnitude > less ? magnitude - less : 0);
        memcpy(p + i * element_nbytes, &x, element_nbytes);
    }
}

#endif
