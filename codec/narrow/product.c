/* product.c - the largest element of a group is a product of the scale and some factor. For each factor that may be,
 * the interval of the scale is narrowed by the other elements, until it is empty or a scale is left. */
#include "codec/narrow/product.h"

/* Elements that are looked at together. */
#define PIECE_VALUES 256

/* Elements by which a scale is narrowed before it is tried on all; and if it misses some. */
#define NARROWED_VALUES 64
#define NARROWED_VALUES_MORE 1024

/* The first elements, for a quick look at a scale. */
#define START_VALUES 16

/* A scale may miss one element in so many, and one. */
#define MISSED_SHARE 64

/* ---- factors in order ---- */

/* Sorts the numbers of the factors but -0 by value. They are taken in about that order, so that few have to move. */
static void sort_factors(lmc_factor_order *order, const lmc_narrow *narrow)
{
    const int is_list = narrow->factor_kind == LMC_FMT_FACTORS_LIST;
    const int is_integer = narrow->factor_kind <= LMC_FMT_FACTORS_I8_ZEROS;
    const unsigned count = is_list ? narrow->listed_count : LMC_FACTOR_COUNT;
    order->count = 0;
    for (unsigned k = 0; k < count; k++) {
        /* from the lowest number up: integers -128..127; floats from the largest negative one to -0, then from 0 up */
        const unsigned i = is_list ? k : k >= 128 ? k - 128 : is_integer ? k + 128 : 255 - k;
        const float factor = narrow->factors[i];
        if (factor == 0)
            order->zero[lmc_load32(&factor) >> 31] = (uint8_t)i;
        if (lmc_load32(&factor) >> 31 && factor == 0)
            continue;
        unsigned place = order->count++;
        while (place > 0 && narrow->factors[order->number[place - 1]] > factor) {
            order->number[place] = order->number[place - 1];
            place--;
        }
        order->number[place] = (uint8_t)i;
    }
}

/* The factors that the largest element may be: the largest ones of both signs first, since scales are chosen so that
 * they are in use; then all others, the smaller ones first, since multiples of a scale fit as well. */
static void order_largest(lmc_factor_order *order, const lmc_narrow *narrow)
{
    static const int8_t likely_integers[] = {7, -8, -7, 127, -128, -127};
    const int is_integer = narrow->factor_kind <= LMC_FMT_FACTORS_I8_ZEROS;
    order->largest_count = 0;
    if (is_integer) {
        for (size_t i = 0; i < LMC_COUNT(likely_integers); i++)
            order->largest[order->largest_count++] = (uint8_t)likely_integers[i];
        for (unsigned m = 1; m < 127; m++) {
            if (m != 7)
                order->largest[order->largest_count++] = (uint8_t)m;
            if (m != 7 && m != 8)
                order->largest[order->largest_count++] = (uint8_t)(256 - m);
        }
        return;
    }
    for (unsigned low = 0, high = order->count; low < high;) { /* outermost first */
        const float bottom = -narrow->factors[order->number[low]],
                    top = narrow->factors[order->number[high - 1]];
        order->largest[order->largest_count++] = top >= bottom ? order->number[--high] : order->number[low++];
    }
}

void lmc_factor_order_init(lmc_factor_order *order, const lmc_narrow *narrow)
{
    memset(order, 0, sizeof *order);
    sort_factors(order, narrow);
    if (order->zero[1] == 0)
        order->zero[1] = order->zero[0];
    for (unsigned i = 0; i + 1 < order->count; i++)
        order->middle[i] = (narrow->factors[order->number[i]] + narrow->factors[order->number[i + 1]]) / 2;
    /* in the order of quotients: from the last negative cell, whose numbers are greatest, to the last positive one */
    for (unsigned k = 0, i = 0; k < LMC_FACTOR_CELL_COUNT; k++) {
        const int is_negative = k < LMC_FACTOR_CELL_COUNT / 2;
        const unsigned cell = is_negative ? LMC_FACTOR_CELL_COUNT - 1 - k : k - LMC_FACTOR_CELL_COUNT / 2;
        const uint32_t bits = (uint32_t)cell << LMC_FACTOR_CELL_SHIFT;
        const uint32_t least_bits = is_negative ? bits | ((1u << LMC_FACTOR_CELL_SHIFT) - 1) : bits;
        float least;
        memcpy(&least, &least_bits, sizeof least);
        while (i + 1 < order->count && order->middle[i] <= least)
            i++;
        order->first[cell] = (uint8_t)i;
    }
    order_largest(order, narrow);
}

/* The number of the factor nearest to a quotient. */
LMC_INLINE uint8_t nearest_factor(const lmc_factor_order *order, float quotient)
{
    unsigned i = order->first[lmc_load32(&quotient) >> LMC_FACTOR_CELL_SHIFT];
    while (i + 1 < order->count && order->middle[i] <= quotient)
        i++;
    return order->number[i];
}

/* ---- elements ---- */

void lmc_product_singles(const lmc_kernels *kernels, unsigned product_type, const uint8_t *src, size_t n,
                         float *singles)
{
    if (product_type == LMC_FMT_PRODUCT_F32)
        memcpy(singles, src, n * sizeof *singles);
    else
        kernels->widen[product_type == LMC_FMT_PRODUCT_F16 ? LMC_FMT_NARROW_F16_IN_F32
                                                           : LMC_FMT_NARROW_BF16_IN_F32](src, n,
                                                                                         (uint8_t *)singles);
}

static void load_singles(const lmc_product_group *group, size_t first, size_t n, float *singles)
{
    const lmc_narrow *const narrow = group->narrow;
    lmc_product_singles(group->kernels, narrow->product_type, group->src + first * narrow->wide_nbytes, n,
                        singles);
}

/* Numbers of integers: quotients are rounded to nearest, halves away from 0, and limited to -128..127. Written on bits
 * and without branches, so that compilers turn it into vector code. A NaN counts as infinity with its sign, which is
 * that of the element: processors differ in the sign of a NaN that they compute. */
static void number_integers(const float *restrict singles, size_t n, float inverse, uint8_t minus_zero,
                            uint8_t *restrict numbers)
{
    for (size_t i = 0; i < n; i++) {
        const float quotient = singles[i] * inverse;
        const uint32_t single_bits = lmc_load32(&singles[i]), sign = single_bits >> 31;
        const uint32_t magnitude_bits = lmc_load32(&quotient) & 0x7fffffff;
        const uint32_t most_bits = 0x42fe0000 + (sign << 17); /* of 127 or 128 */
        const uint32_t limited_bits = magnitude_bits < most_bits ? magnitude_bits : most_bits;
        float limited;
        memcpy(&limited, &limited_bits, sizeof limited);
        const uint32_t magnitude = (uint32_t)(int32_t)(limited + 0.5f);
        const uint32_t number = (magnitude ^ (0 - sign)) + sign; /* 0 for -0 */
        const uint32_t is_minus_zero = single_bits == 0x80000000;
        numbers[i] = (uint8_t)(number | (minus_zero & (0 - is_minus_zero)));
    }
}

/* Numbers of other factors. A NaN counts as 0. */
static void number_floats(const lmc_factor_order *order, const float *singles, size_t n, float inverse,
                          uint8_t *numbers)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = lmc_load32(&singles[i]), magnitude = bits & 0x7fffffff;
        numbers[i] = magnitude == 0 || magnitude > 0x7f800000 ? order->zero[bits >> 31]
                                                              : nearest_factor(order, singles[i] * inverse);
    }
}

/* How many of n elements of 2 or 4 bytes differ. */
static size_t count_different(const uint8_t *a, const uint8_t *b, size_t n, unsigned nbytes)
{
    size_t count = 0;
    if (memcmp(a, b, n * nbytes) == 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        count += nbytes == 2 ? memcmp(a + i * 2, b + i * 2, 2) != 0 : memcmp(a + i * 4, b + i * 4, 4) != 0;
    return count;
}

/* Numbers of n <= PIECE_VALUES elements from `first` on. Returns how many are no products. */
static size_t number_piece(const lmc_product_group *group, float scale, size_t first, size_t n,
                           uint8_t *numbers)
{
    const lmc_narrow *const narrow = group->narrow;
    const float inverse = 1 / scale;
    float singles[PIECE_VALUES];
    uint8_t products[PIECE_VALUES * sizeof(float)];
    load_singles(group, first, n, singles);
    if (narrow->factor_kind <= LMC_FMT_FACTORS_I8_ZEROS)
        number_integers(singles, n, inverse, group->order->zero[1], numbers);
    else
        number_floats(group->order, singles, n, inverse, numbers);
    group->kernels->multiply[narrow->product_type](narrow->factors, scale, numbers, n, products);
    return count_different(products, group->src + first * narrow->wide_nbytes, n, narrow->wide_nbytes);
}

/* Finds the numbers of all elements by a scale. Returns how many of them are not exactly the product. */
static size_t number_group(const lmc_product_group *group, float scale, uint8_t *numbers)
{
    size_t missed = 0;
    for (size_t i = 0; i < group->n; i += PIECE_VALUES)
        missed += number_piece(group, scale, i, lmc_min_size(PIECE_VALUES, group->n - i), numbers + i);
    return missed;
}

/* ---- the scale ---- */

/* An element, and the interval that rounds to it: half of its last place below and above. */
typedef struct rounded {
    double value, low, high;
} rounded;

/* |x|, without a branch that would be mispredicted for half of the elements. */
LMC_INLINE float magnitude_of(float x)
{
    const uint32_t bits = lmc_load32(&x) & 0x7fffffff;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static rounded interval_of(float single, unsigned product_type)
{
    const unsigned low_nbits = product_type == LMC_FMT_PRODUCT_BF16  ? 16
                               : product_type == LMC_FMT_PRODUCT_F16 ? 13
                                                                     : 0;
    const double magnitude = magnitude_of(single);
    uint64_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    const uint64_t half = UINT64_C(1) << (28 + low_nbits); /* of the last place, in the bits of a double */
    rounded r = {magnitude, 0, 0};
    const uint64_t low = bits - half, high = bits + half;
    memcpy(&r.low, &low, sizeof r.low);
    memcpy(&r.high, &high, sizeof r.high);
    if (product_type == LMC_FMT_PRODUCT_F16 && magnitude < 0x1p-14) { /* denormals are evenly spaced */
        r.low = magnitude - 0x1p-25;
        r.high = magnitude + 0x1p-25;
    }
    return r;
}

typedef struct interval {
    double low, high;
} interval;

/* The size of the factor nearest to a quotient. */
LMC_INLINE double nearest_size(const lmc_product_group *group, float quotient)
{
    const int is_integer = group->narrow->factor_kind <= LMC_FMT_FACTORS_I8_ZEROS;
    if (is_integer && quotient > -128 && quotient < 127)
        return (int)(magnitude_of(quotient) + 0.5f);
    return magnitude_of(group->narrow->factors[nearest_factor(group->order, quotient)]);
}

/* Narrows the scale's interval by elements. Returns 0 once too many of them fit no scale in it. */
static int narrow_scale(const lmc_product_group *group, const float *singles, size_t n, interval *scale,
                        size_t *missed)
{
    double inverse = 2 / (scale->low + scale->high);
    for (size_t i = 0; i < n; i++) {
        const rounded r = interval_of(singles[i], group->narrow->product_type);
        const double size = nearest_size(group, (float)(singles[i] * inverse));
        const double low = scale->low * size, high = scale->high * size;
        if (size == 0 ? r.value != 0 : r.low > high || r.high < low) {
            if (++*missed > 1 + group->n / MISSED_SHARE)
                return 0;
            continue;
        }
        if (size == 0 || (r.low <= low && r.high >= high))
            continue;
        scale->low = r.low > low ? r.low / size : scale->low;
        scale->high = r.high < high ? r.high / size : scale->high;
        inverse = 2 / (scale->low + scale->high);
    }
    return 1;
}

/* The F32 in an interval, but for its very ends, that has the fewest bits; or the nearest to its middle. */
static float simplest_in(const interval *scale)
{
    const double margin = (scale->high - scale->low) / 64;
    float low = (float)(scale->low + margin), high = (float)(scale->high - margin);
    uint32_t low_bits = lmc_load32(&low), high_bits = lmc_load32(&high);
    low_bits += (double)low < scale->low + margin;
    high_bits -= (double)high > scale->high - margin;
    if (low_bits > high_bits)
        return (float)((scale->low + scale->high) / 2);
    uint32_t simplest = high_bits;
    for (uint32_t bit = 1; bit != 0 && (high_bits & ~(bit - 1)) >= low_bits; bit <<= 1)
        simplest = high_bits & ~(bit - 1);
    float found;
    memcpy(&found, &simplest, sizeof found);
    return found;
}

/* The element of the largest magnitude; NaN and infinities are largest. */
static float largest_element(const lmc_product_group *group)
{
    float singles[PIECE_VALUES], largest = 0;
    uint32_t most = 0;
    for (size_t i = 0; i < group->n; i += PIECE_VALUES) {
        const size_t n = lmc_min_size(PIECE_VALUES, group->n - i);
        uint32_t piece_most = 0;
        load_singles(group, i, n, singles);
        for (size_t k = 0; k < n; k++) {
            uint32_t bits;
            memcpy(&bits, &singles[k], sizeof bits);
            bits = bits << 1 | bits >> 31; /* of equals the negative one */
            piece_most = bits > piece_most ? bits : piece_most;
        }
        most = piece_most > most ? piece_most : most;
    }
    most = most >> 1 | most << 31;
    memcpy(&largest, &most, sizeof largest);
    return largest;
}

/* The scale if the largest element is this factor times it, by so many elements; 0 if there is none. */
static float scale_by(const lmc_product_group *group, float largest, float factor, size_t narrowed)
{
    const rounded r = interval_of(largest, group->narrow->product_type);
    const double size = magnitude_of(factor);
    const size_t n = lmc_min_size(group->n, narrowed);
    interval scale = {r.low / size, r.high / size};
    size_t missed = 0;
    for (size_t i = 0; i < n; i += PIECE_VALUES) {
        float singles[PIECE_VALUES];
        const size_t m = lmc_min_size(n - i, PIECE_VALUES);
        load_singles(group, i, m, singles);
        if (!narrow_scale(group, singles, m, &scale, &missed))
            return 0;
    }
    const float found = simplest_in(&scale);
    const uint32_t exponent = lmc_load32(&found) >> 23; /* with the sign */
    return exponent >= LMC_FMT_SCALE_EXPONENT_MIN && exponent <= LMC_FMT_SCALE_EXPONENT_MAX ? found : 0;
}

static float find_scale(const lmc_product_group *group, size_t narrowed, float *likely)
{
    const lmc_factor_order *const order = group->order;
    const float largest = largest_element(group);
    if (largest == 0)
        return 1;
    if (!(largest < 3e38f && largest > -3e38f))
        return 0;
    const float first = group->narrow->factors[nearest_factor(order, largest < 0 ? -*likely : *likely)];
    for (unsigned i = 0; i <= order->largest_count; i++) {
        const float factor = i == 0 ? first : group->narrow->factors[order->largest[i - 1]];
        if (factor == 0 || (factor < 0) != (largest < 0) || (i > 0 && factor == first))
            continue;
        const float scale = scale_by(group, largest, factor, narrowed);
        if (scale != 0) {
            *likely = factor < 0 ? -factor : factor;
            return scale;
        }
    }
    return 0;
}

size_t lmc_product_find(const lmc_product_group *group, float *likely, float *scale, uint8_t *numbers)
{
    size_t missed = group->n;
    *scale = 0;
    for (size_t narrowed = NARROWED_VALUES; missed > 0; narrowed = NARROWED_VALUES_MORE) {
        const float found = find_scale(group, narrowed, likely);
        if (found == 0)
            break;
        *scale = found;
        missed = number_group(group, found, numbers);
        if (narrowed >= group->n || narrowed == NARROWED_VALUES_MORE)
            break;
    }
    if (*scale == 0)
        memset(numbers, group->order->zero[0], group->n);
    return missed;
}

size_t lmc_product_find_below(const lmc_product_group *group, float above, float *likely, float *scale,
                              uint8_t *numbers)
{
    size_t missed = group->n + 1;
    *scale = above;
    /* the first elements alone mostly tell that a scale is wrong */
    const size_t start = lmc_min_size(START_VALUES, group->n);
    if (number_piece(group, above, 0, start, numbers) == 0) {
        missed = number_group(group, above, numbers);
        if (missed == 0)
            return 0;
    }
    float found;
    const size_t found_missed = lmc_product_find(group, likely, &found, numbers);
    *scale = found_missed < missed && found != 0 ? found : above;
    return *scale == found ? found_missed : number_group(group, *scale, numbers);
}
