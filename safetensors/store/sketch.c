/*
 * sketch.c - the places of a sketch, its elements, and what two of them say. Everything is computed with integers or
 * with exact floating point: all machines choose the same base.
 */
#include "safetensors/store/sketch.h"

#include "lmc_experimental.h"

/* A sign that flips is rare, and not the top bit of a large difference. */
#define FLIP_NBITS 2

/* Elements are sorted into so many classes by the base's exponent; each has at least so many pairs. */
#define CLASS_COUNT_MAX 6
#define CLASS_PAIR_COUNT_MIN 20

#define PAIR_COUNT_MAX (ST_SKETCH_PLACE_COUNT * ST_SKETCH_RUN_NBYTES)
#define NBITS_MIN 0.01

/* Bits of a mantissa; sign and exponent are above it. Integers and packed elements have none of the three. */
static int find_mantissa(unsigned dtype, unsigned *nbits)
{
    switch (dtype) {
    case LMC_DTYPE_F8_E5M2:
    case LMC_DTYPE_F8_E5M2FNUZ: *nbits = 2; return 1;
    case LMC_DTYPE_F8_E4M3:
    case LMC_DTYPE_F8_E4M3FNUZ: *nbits = 3; return 1;
    case LMC_DTYPE_F16: *nbits = 10; return 1;
    case LMC_DTYPE_BF16: *nbits = 7; return 1;
    case LMC_DTYPE_F32:
    case LMC_DTYPE_C64: *nbits = 23; return 1;
    case LMC_DTYPE_F64: *nbits = 52; return 1;
    default: *nbits = 0; return 0;
    }
}

unsigned st_sketch_element_nbytes(unsigned dtype)
{
    const unsigned nbits = dtype == LMC_DTYPE_C64 ? 32 : lmc_dtype_nbits((lmc_dtype)dtype);
    return nbits < 8 ? 1 : nbits / 8;
}

/* What of an element is its magnitude: all but the sign of a float. */
static uint64_t magnitude_mask(unsigned dtype)
{
    unsigned mantissa_nbits;
    const uint64_t all = UINT64_MAX >> (64 - 8 * st_sketch_element_nbytes(dtype));
    return find_mantissa(dtype, &mantissa_nbits) ? all >> 1 : all;
}

/* ---- where the elements are ---- */

/* The finalizer of SplitMix64: neighbouring numbers give unrelated ones. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

/* Element of a place: somewhere in its share of all elements, so far from the end that any run fits. Shares of fewer
 * elements than the longest run begin at their first. */
static uint64_t place_of(uint64_t count, unsigned place)
{
    const uint64_t share = count / ST_SKETCH_PLACE_COUNT;
    const uint64_t begin = share * place + count % ST_SKETCH_PLACE_COUNT * place / ST_SKETCH_PLACE_COUNT;
    const uint64_t room = share < ST_SKETCH_RUN_NBYTES ? 0 : share - ST_SKETCH_RUN_NBYTES;
    return begin + mix(mix(count) + place) % (room + 1);
}

size_t st_sketch_places(unsigned dtype, uint64_t nbytes, uint64_t *offsets)
{
    const unsigned element_nbytes = st_sketch_element_nbytes(dtype);
    if (nbytes <= sizeof(st_sketch))
        return 0;
    for (unsigned i = 0; i < ST_SKETCH_PLACE_COUNT; i++)
        offsets[i] = place_of(nbytes / element_nbytes, i) * element_nbytes;
    return ST_SKETCH_PLACE_COUNT;
}

uint64_t st_sketch_head_nbytes(uint64_t nbytes)
{
    if (nbytes >= ST_SKETCH_HEAD_NBYTES_MAX)
        return ST_SKETCH_HEAD_NBYTES_MAX;
    return nbytes < 2 * sizeof(st_sketch) ? 0 : (uint64_t)1 << (63 - __builtin_clzll(nbytes));
}

unsigned st_sketch_pair_count(unsigned dtype, uint64_t nbytes, lmc_base_form form, int is_head)
{
    const unsigned element_nbytes = st_sketch_element_nbytes(dtype);
    const uint64_t count = nbytes / element_nbytes;
    const unsigned most =
        is_head ? ST_SKETCH_PLACE_COUNT : PAIR_COUNT_MAX / element_nbytes / st_base_scale(form);
    return count < most ? (unsigned)count : most;
}

/* ---- making one ---- */

lmc_status st_sketch_make(unsigned dtype, uint64_t nbytes, st_sketch_read_fn read, void *user,
                          st_sketch *sketch)
{
    const unsigned element_nbytes = st_sketch_element_nbytes(dtype);
    uint64_t offsets[ST_SKETCH_PLACE_COUNT];
    const size_t count = st_sketch_places(dtype, nbytes, offsets);
    memset(sketch, 0, sizeof *sketch);
    if (count == 0)
        return nbytes == 0 ? LMC_OK : read(user, 0, sketch->bytes, (size_t)nbytes);
    for (size_t place = 0; place < count; place++) {
        unsigned char run[ST_SKETCH_RUN_NBYTES];
        LMC_TRY(read(user, offsets[place], run, sizeof run));
        for (size_t i = 0; i < sizeof run / element_nbytes; i++)
            memcpy(sketch->bytes + (i * count + place) * element_nbytes, run + i * element_nbytes,
                   element_nbytes);
    }
    return LMC_OK;
}

lmc_status st_sketch_make_head(unsigned dtype, uint64_t nbytes, st_sketch_read_fn read, void *user,
                               st_sketch *sketch)
{
    const unsigned element_nbytes = st_sketch_element_nbytes(dtype);
    const uint64_t head_nbytes = st_sketch_head_nbytes(nbytes);
    uint64_t offsets[ST_SKETCH_PLACE_COUNT];
    const size_t count = st_sketch_places(dtype, head_nbytes, offsets);
    memset(sketch, 0, sizeof *sketch);
    for (size_t place = 0; place < count; place++)
        LMC_TRY(read(user, offsets[place], sketch->bytes + place * element_nbytes, element_nbytes));
    return LMC_OK;
}

int st_sketch_can_round(lmc_base_form form, uint64_t nbytes)
{
    return nbytes <= sizeof(st_sketch) || nbytes / st_base_scale(form) > sizeof(st_sketch);
}

void st_sketch_round(lmc_base_form form, const st_sketch *base, st_sketch *rounded)
{
    memset(rounded, 0, sizeof *rounded);
    lmc_base_round(form, base->bytes, sizeof base->bytes / 2 / st_base_scale(form), rounded->bytes);
}

lmc_base_form st_sketch_form(unsigned dtype, unsigned base_dtype)
{
    for (int form = LMC_BASE_PLAIN + 1; form < LMC_BASE_FORM_COUNT; form++) {
        const lmc_rounding *const rounding = lmc_base_rounding((lmc_base_form)form);
        if (rounding->dtype == (lmc_dtype)dtype && rounding->base_dtype == (lmc_dtype)base_dtype)
            return (lmc_base_form)form;
    }
    return LMC_BASE_PLAIN;
}

/* ---- coarse distance ---- */

/* The exponent of a float, which instructions on vectors can tell. That of x + 1/2 is the bit length of x and
 * EXPONENT_OF_HALF, for x below 2^31. */
#define EXPONENT_OF_HALF 126

static inline uint32_t exponent_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 23;
}

/* Differences wrap, so that the distance from the largest integer to the smallest is 1. The loops have no branches, and
 * the first has the width of the elements. */
#define DISTANCE(width)                                                                                     \
    static uint32_t distance_##width(const unsigned char *one, const unsigned char *other, uint64_t mask)   \
    {                                                                                                       \
        const uint##width##_t magnitude = (uint##width##_t)mask;                                            \
        uint##width##_t a[ST_SKETCH_PLACE_COUNT], b[ST_SKETCH_PLACE_COUNT], sizes[ST_SKETCH_PLACE_COUNT];   \
        uint##width##_t flipped_count = 0;                                                                  \
        uint32_t exponents = 0;                                                                             \
        memcpy(a, one, sizeof a);                                                                           \
        memcpy(b, other, sizeof b);                                                                         \
        for (unsigned i = 0; i < ST_SKETCH_PLACE_COUNT; i++) {                                              \
            const uint##width##_t more = (uint##width##_t)((a[i] & magnitude) - (b[i] & magnitude));        \
            const uint##width##_t less = (uint##width##_t)(0 - more);                                       \
            const uint##width##_t flipped = (uint##width##_t)((a[i] ^ b[i]) & ~magnitude);                  \
            sizes[i] = (int##width##_t)more > (int##width##_t)less ? more : less;                           \
            flipped_count = (uint##width##_t)(flipped_count + (flipped >> (width - 1)));                    \
        }                                                                                                   \
        for (unsigned i = 0; i < ST_SKETCH_PLACE_COUNT; i++)                                                \
            exponents += exponent_of((float)(int32_t)(sizes[i] - ((uint32_t)sizes[i] >> 31)) + 0.5f);       \
        return exponents - ST_SKETCH_PLACE_COUNT * EXPONENT_OF_HALF + FLIP_NBITS * (uint32_t)flipped_count; \
    }

DISTANCE(8)
DISTANCE(16)
DISTANCE(32)

static uint32_t distance_64(const unsigned char *one, const unsigned char *other, uint64_t mask)
{
    uint32_t nbits = 0;
    for (unsigned i = 0; i < ST_SKETCH_PLACE_COUNT; i++) {
        const uint64_t a = lmc_load64(one + 8 * i);
        const uint64_t b = lmc_load64(other + 8 * i);
        const uint64_t difference = (a & mask) - (b & mask);
        const uint64_t size = difference >> 63 ? 0 - difference : difference;
        nbits += size == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(size);
        nbits += FLIP_NBITS * (((a ^ b) & ~mask) != 0);
    }
    return nbits;
}

void st_sketch_distances(unsigned dtype, const st_sketch *one, const unsigned char *rows,
                         size_t stride_nbytes, size_t count, uint32_t *distances)
{
    const uint64_t mask = magnitude_mask(dtype);
    const unsigned element_nbytes = st_sketch_element_nbytes(dtype);
    for (size_t i = 0; i < count; i++) {
        const unsigned char *const row = rows + i * stride_nbytes;
        distances[i] = element_nbytes == 1   ? distance_8(one->bytes, row, mask)
                       : element_nbytes == 2 ? distance_16(one->bytes, row, mask)
                       : element_nbytes == 4 ? distance_32(one->bytes, row, mask)
                                             : distance_64(one->bytes, row, mask);
    }
}

uint32_t st_sketch_spread(unsigned dtype, const st_sketch *one)
{
    const unsigned element_nbytes = st_sketch_element_nbytes(dtype);
    const size_t nbytes = st_sketch_coarse_nbytes(dtype);
    st_sketch other;
    uint32_t spread;
    memcpy(other.bytes, one->bytes + element_nbytes, nbytes - element_nbytes);
    memcpy(other.bytes + nbytes - element_nbytes, one->bytes, element_nbytes);
    st_sketch_distances(dtype, one, other.bytes, nbytes, 1, &spread);
    return spread;
}

/* ---- prediction ---- */

/* 65536 log2(x), x > 0. */
static uint32_t log2_fixed(uint32_t x)
{
    const unsigned whole = 31 - (unsigned)__builtin_clz(x);
    uint64_t rest = ((uint64_t)x << 31) >> whole; /* from 1 to 2, with 31 bits behind the point */
    uint32_t result = whole;
    for (unsigned i = 0; i < 16; i++) {
        rest = (rest * rest) >> 31;
        result = 2 * result + (uint32_t)(rest >> 32);
        rest >>= rest >> 32;
    }
    return result;
}

/* Symbols: 2 times a bit length and a sign, or sign and exponent, or a byte. */
#define SYMBOL_COUNT 4096

/* Bits that all of these symbols take, times 65536. A small sample shows too few symbols: Miller and Madow add half a
 * nat for each symbol but the first. */
static uint64_t entropy(const uint16_t *symbols, unsigned count)
{
    enum { HALF_NAT = 47274 }; /* 65536 log2(e) / 2 */
    uint16_t counts[SYMBOL_COUNT] = {0};
    uint64_t sum = 0;
    unsigned seen = 0;
    for (unsigned i = 0; i < count; i++)
        counts[symbols[i]]++;
    for (unsigned i = 0; i < count; i++) {
        const unsigned n = counts[symbols[i]];
        if (n == 0)
            continue;
        sum += n * (uint64_t)(log2_fixed(count) - log2_fixed(n));
        seen++;
        counts[symbols[i]] = 0;
    }
    return seen == 0 ? 0 : sum + (seen - 1) * (uint64_t)HALF_NAT;
}

typedef struct pair {
    uint16_t exponent, symbol, is_flipped;
} pair;

/* Sorts by falling exponent; few exponents are far from their place. */
static void sort_pairs(pair *pairs, unsigned count)
{
    for (unsigned i = 1; i < count; i++) {
        const pair one = pairs[i];
        unsigned at = i;
        for (; at > 0 && pairs[at - 1].exponent < one.exponent; at--)
            pairs[at] = pairs[at - 1];
        pairs[at] = one;
    }
}

static double bits_each(uint64_t bits, unsigned count)
{
    const double each = (double)bits / 65536 / count;
    return each < NBITS_MIN ? NBITS_MIN : each;
}

double st_sketch_delta_nbits(unsigned dtype, const st_sketch *base, const st_sketch *one, unsigned pair_count)
{
    const unsigned element_nbytes = st_sketch_element_nbytes(dtype);
    const uint64_t mask = magnitude_mask(dtype);
    unsigned mantissa_nbits;
    const int is_float = find_mantissa(dtype, &mantissa_nbits);
    pair pairs[PAIR_COUNT_MAX];
    uint16_t symbols[PAIR_COUNT_MAX];
    uint64_t bits = 0;
    assert(pair_count <= PAIR_COUNT_MAX / element_nbytes);
    if (pair_count == 0)
        return NBITS_MIN;
    for (unsigned i = 0; i < pair_count; i++) {
        const uint64_t a = lmc_load_n(base->bytes + i * element_nbytes, element_nbytes);
        const uint64_t b = lmc_load_n(one->bytes + i * element_nbytes, element_nbytes);
        const uint64_t difference = ((b & mask) - (a & mask)) << (64 - 8 * element_nbytes);
        const int is_less = difference >> 63 != 0;
        const uint64_t size = (is_less ? 0 - difference : difference) >> (64 - 8 * element_nbytes);
        const unsigned length = size == 0 ? 0 : 64 - (unsigned)__builtin_clzll(size);
        pairs[i].exponent = is_float ? (uint16_t)((a & mask) >> mantissa_nbits) : 0;
        pairs[i].symbol = (uint16_t)(2 * length + (unsigned)is_less);
        pairs[i].is_flipped = ((a ^ b) & ~mask) != 0;
        symbols[i] = pairs[i].is_flipped;
        bits += length == 0 ? 0 : (uint64_t)(length - 1) << 16;
    }
    bits += entropy(symbols, pair_count);
    sort_pairs(pairs, pair_count);
    for (unsigned i = 0; i < pair_count; i++)
        symbols[i] = pairs[i].symbol;
    const unsigned most = pair_count / CLASS_PAIR_COUNT_MIN;
    const unsigned class_count = !is_float || most == 0 ? 1 : most < CLASS_COUNT_MAX ? most : CLASS_COUNT_MAX;
    for (unsigned i = 0; i < class_count; i++) {
        const unsigned begin = pair_count * i / class_count;
        bits += entropy(symbols + begin, pair_count * (i + 1) / class_count - begin);
    }
    return bits_each(bits, pair_count);
}

double st_sketch_plain_nbits(unsigned dtype, const st_sketch *one, unsigned count)
{
    const unsigned element_nbytes = st_sketch_element_nbytes(dtype);
    unsigned mantissa_nbits;
    const int is_float = find_mantissa(dtype, &mantissa_nbits);
    uint16_t symbols[PAIR_COUNT_MAX];
    uint64_t bits = 0;
    assert(count <= PAIR_COUNT_MAX / element_nbytes);
    if (count == 0)
        return NBITS_MIN;
    for (unsigned byte = 0; byte < (is_float ? 1 : element_nbytes); byte++) {
        for (unsigned i = 0; i < count; i++) {
            const unsigned char *const element = one->bytes + i * element_nbytes;
            symbols[i] =
                is_float ? (uint16_t)(lmc_load_n(element, element_nbytes) >> mantissa_nbits) : element[byte];
        }
        const uint64_t sum = entropy(symbols, count);
        const uint64_t most = (uint64_t)count << 19; /* 8 bits each */
        bits += !is_float && sum > most ? most : sum;
    }
    return bits_each(bits + ((uint64_t)count * mantissa_nbits << 16), count);
}
