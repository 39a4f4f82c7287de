/*
 * bitset.c - chooses the mode of a bitset, and codes it. In a hierarchical bitmap two neighbours make a pair. Three
 * bitsets say: is a bit of the pair set; of such pairs, are both set; of the others, is it the second bit. The first
 * two are coded as bitsets again. Each has at most half as many bits, and a larger share of them is set, until a
 * bitmap suits them. That stays within 0.7 % of the entropy. Gaps between members are Rice-coded: low bits as planes,
 * quotients as unary planes, each of which is a bitmap of the quotients that the one before it leaves.
 */
#include "codec/bitset/bitset.h"

#include "codec/common/entropy.h"

/* Pairs halve the number of bits and about double the share of set bits. From this rate on, in stored bits for each bit
 * of the set, that gains nothing. */
#define HIERARCHY_RATE_MAX 0.985
#define HIERARCHY_LOSS 1.005

/* Each step of a hierarchy costs two modes and the ends of planes, and so do the steps within it; measured. */
#define HIERARCHY_STEP_NBITS 90

/* More members than this are slow to code one by one. They become a hierarchy even if gaps are a little smaller. */
#define GAPS_COUNT_MAX 512

typedef struct bitset_coder {
    const lmc_kernels *kernels;
    lmc_scratch *scratch;
} bitset_coder;

size_t lmc_bitset_count(const lmc_kernels *kernels, const uint64_t *bitset, size_t n)
{
    return kernels->bitset_count(bitset, lmc_bitset_words(n));
}

void lmc_bitset_invert(uint64_t *bitset, size_t n)
{
    for (size_t w = 0; w < n / 64; w++)
        bitset[w] = ~bitset[w];
    if (n % 64 != 0)
        bitset[n / 64] = ~bitset[n / 64] & lmc_low_mask(n % 64);
}

/* ---- cost ---- */

/* The Rice parameter for n / m values a member: the largest k with 2^k <= ln 2 * mean gap. With it about half of the
 * quotients are 0 (Rice 1979; Golomb's optimum for a geometric distribution). */
static unsigned rice_parameter(size_t n, size_t m)
{
    const double mean = (double)(n - m) / (double)m;
    unsigned k = 0;
    while (k < LMC_FMT_GAP_LOW_NBITS_MAX && (double)(2u << k) <= 0.6931 * (mean + 1))
        k++;
    return k;
}

/* A gap has k low bits, and a quotient that is at least q with probability (1 - p)^(q 2^k). */
static double gaps_cost_nbits(size_t n, size_t m)
{
    const unsigned k = rice_parameter(n, m);
    const double mean = (double)(n - m) / (double)m;
    return 48 + (double)m * (k + 1 + mean / (double)(1u << k));
}

/* The cost of a hierarchy of n bits with m >= 1 set. */
static double hierarchy_cost_nbits(size_t n, size_t m)
{
    const double a = (double)m, b = (double)(n - m), c = (double)n;
    const double entropy = c * lmc_log2(c) - a * lmc_log2(a) - b * lmc_log2(b);
    const double steps = lmc_log2(c / a);
    return entropy * HIERARCHY_LOSS + steps * HIERARCHY_STEP_NBITS;
}

double lmc_bitset_cost_nbits(size_t n, size_t m)
{
    const size_t minor = lmc_min_size(m, n - m);
    if (minor == 0)
        return 8;
    const double bitmap = 8 + (double)n;
    const double gaps = gaps_cost_nbits(n, minor);
    const double hierarchy = hierarchy_cost_nbits(n, minor);
    const double members = gaps < hierarchy ? gaps : hierarchy;
    return members < bitmap ? members : bitmap;
}

/* ---- encode ---- */

/* Writes the gaps between the set bits among n (inverted: the clear bits), of which there is at least one. gaps: room
 * for n, and slack. Returns the bytes, or 0 when they would exceed `capacity`. */
static size_t encode_gaps(const lmc_kernels *kernels, uint32_t *gaps, const uint64_t *bitset, size_t n,
                          int inverted, uint8_t *dst, size_t capacity)
{
    size_t m = kernels->gaps_find(bitset, n, inverted, gaps);
    lmc_writer w = {dst, dst + capacity};
    const unsigned count_nbytes = lmc_count_nbytes(n);
    unsigned k = rice_parameter(n, m);
    uint32_t all = 0;
    for (size_t i = 0; i < m; i++)
        all |= gaps[i];
    while (all >> k > 255) /* a quotient that unary planes do not finish must fit a byte */
        k++;
    if (capacity < count_nbytes + 1 + k * lmc_bits_nbytes(m))
        return 0;
    lmc_write_n(&w, m, count_nbytes);
    lmc_write_n(&w, k, 1);
    kernels->gaps_cut(gaps, m, k, w.next);
    w.next += k * lmc_bits_nbytes(m);
    for (unsigned t = 0; t < LMC_FMT_GAP_UNARY_COUNT_MAX && m >= LMC_FMT_GAP_UNARY_VALUES_MIN; t++) {
        const size_t plane_nbytes = lmc_bits_nbytes(m);
        if (lmc_writer_left(&w) < plane_nbytes)
            return 0;
        m = kernels->gaps_unary_split(gaps, m, w.next);
        w.next += plane_nbytes;
    }
    if (lmc_writer_left(&w) < m)
        return 0;
    for (size_t i = 0; i < m; i++)
        w.next[i] = (uint8_t)gaps[i];
    return (size_t)(w.next - dst) + m;
}

static size_t encode_bitset(const bitset_coder *coder, uint64_t *room, const uint64_t *bitset, size_t n,
                            uint8_t *dst, size_t capacity);

/* Three bitsets of at most half as many bits, and the room behind them. */
typedef struct pair_bitsets {
    uint64_t *any, *both, *second, *room;
} pair_bitsets;

static pair_bitsets place_sets(uint64_t *room, size_t n)
{
    const size_t words = lmc_bitset_words(n / 2 + 1) + LMC_BITSET_SLACK_WORDS;
    return (pair_bitsets){room, room + words, room + 2 * words, room + 3 * words};
}

static size_t encode_hierarchy(const bitset_coder *coder, uint64_t *room, const uint64_t *bitset, size_t n,
                               int inverted, uint8_t *dst, size_t capacity)
{
    const pair_bitsets sets = place_sets(room, n);
    lmc_writer w = {dst, dst + capacity};
    const size_t any_count =
        coder->kernels->hierarchy_split(bitset, n, inverted, sets.any, sets.both, sets.second);
    size_t nbytes = encode_bitset(coder, sets.room, sets.any, n - n / 2, w.next, lmc_writer_left(&w));
    w.next += nbytes;
    if (nbytes == 0)
        return 0;
    nbytes = encode_bitset(coder, sets.room, sets.both, any_count, w.next, lmc_writer_left(&w));
    w.next += nbytes;
    const size_t single_count = any_count - lmc_bitset_count(coder->kernels, sets.both, any_count);
    if (nbytes == 0 || lmc_bits_nbytes(single_count) > lmc_writer_left(&w))
        return 0;
    lmc_write_span(&w, sets.second, lmc_bits_nbytes(single_count));
    return (size_t)(w.next - dst);
}

static size_t encode_bitset(const bitset_coder *coder, uint64_t *room, const uint64_t *bitset, size_t n,
                            uint8_t *dst, size_t capacity)
{
    const size_t ones = lmc_bitset_count(coder->kernels, bitset, n);
    if (capacity < 1)
        return 0;
    if (ones == 0 || ones == n) {
        dst[0] = ones == 0 ? LMC_FMT_BITSET_NONE : LMC_FMT_BITSET_ALL;
        return 1;
    }
    /* the rarer of set and clear bits as gaps or as a hierarchy, if that is smaller than the bitmap */
    const int inverted = ones > n - ones;
    const size_t minor = inverted ? n - ones : ones;
    const double most = HIERARCHY_RATE_MAX * (double)n;
    const double gaps = gaps_cost_nbits(n, minor);
    const double hierarchy = hierarchy_cost_nbits(n, minor);
    const size_t allowed = lmc_min_size(capacity, lmc_bits_nbytes(n));
    size_t nbytes = 0;
    if (gaps <= hierarchy && gaps < most && minor <= GAPS_COUNT_MAX) {
        dst[0] = inverted ? LMC_FMT_BITSET_GAPS_OF_ZEROS : LMC_FMT_BITSET_GAPS_OF_ONES;
        nbytes = encode_gaps(coder->kernels, coder->scratch->gaps, bitset, n, inverted, dst + 1, allowed - 1);
    } else if (hierarchy < most) {
        dst[0] = inverted ? LMC_FMT_BITSET_HIERARCHY_OF_ZEROS : LMC_FMT_BITSET_HIERARCHY_OF_ONES;
        nbytes = encode_hierarchy(coder, room, bitset, n, inverted, dst + 1, allowed - 1);
    }
    if (nbytes != 0)
        return 1 + nbytes;
    if (capacity < 1 + lmc_bits_nbytes(n))
        return 0;
    dst[0] = LMC_FMT_BITSET_BITMAP;
    memcpy(dst + 1, bitset, lmc_bits_nbytes(n));
    return 1 + lmc_bits_nbytes(n);
}

size_t lmc_bitset_encode(const lmc_kernels *kernels, lmc_scratch *scratch, const uint64_t *bitset, size_t n,
                         uint8_t *dst, size_t capacity)
{
    const bitset_coder coder = {kernels, scratch};
    return encode_bitset(&coder, scratch->hierarchy, bitset, n, dst, capacity);
}

/* ---- decode ---- */

/* Reads m gaps: first the quotients, from the last unary plane back to the first, then the low bits. */
static lmc_status decode_gaps(const lmc_kernels *kernels, lmc_reader *reader, size_t m, uint32_t *gaps,
                              lmc_diag *diag)
{
    const uint8_t *unary[LMC_FMT_GAP_UNARY_COUNT_MAX];
    size_t unary_n[LMC_FMT_GAP_UNARY_COUNT_MAX + 1];
    unsigned unary_count = 0;
    const unsigned k = (unsigned)lmc_read_n(reader, 1);
    if (k > LMC_FMT_GAP_LOW_NBITS_MAX)
        return lmc_corrupt(diag, 0, "bitset: too many low bits");
    const uint8_t *const low = reader->next;
    for (unsigned b = 0; b < k; b++)
        if (!lmc_read_bits(reader, m))
            return lmc_corrupt(diag, 0, "bitset: low bits end early or have spare bits set");
    size_t n = m;
    while (unary_count < LMC_FMT_GAP_UNARY_COUNT_MAX && n >= LMC_FMT_GAP_UNARY_VALUES_MIN) {
        unary[unary_count] = lmc_read_bits(reader, n);
        if (!unary[unary_count])
            return lmc_corrupt(diag, 0, "bitset: a unary plane ends early or has spare bits set");
        unary_n[unary_count] = n;
        size_t set_count = 0;
        const uint8_t *plane = unary[unary_count++]; /* at any address */
        for (size_t nbytes = lmc_bits_nbytes(n); nbytes > 0;) {
            uint64_t words[64];
            const size_t part = lmc_min_size(nbytes, sizeof words);
            words[(part - 1) / 8] = 0;
            memcpy(words, plane, part);
            set_count += kernels->bitset_count(words, (part + 7) / 8);
            plane += part;
            nbytes -= part;
        }
        n = set_count;
    }
    unary_n[unary_count] = n;
    const uint8_t *const remaining = lmc_read_span(reader, n);
    if (!remaining)
        return lmc_corrupt(diag, 0, "bitset: the last quotients end early");
    for (size_t i = 0; i < n; i++)
        gaps[i] = remaining[i];
    for (; unary_count > 0; unary_count--)
        kernels->gaps_unary_join(unary[unary_count - 1], unary_n[unary_count - 1], gaps,
                                 unary_n[unary_count]);
    kernels->gaps_join(low, m, k, gaps);
    return LMC_OK;
}

/* Reads gaps, sets the bits of the members and clears all others. */
static lmc_status decode_members(const lmc_kernels *kernels, uint32_t *gaps, lmc_reader *reader, size_t n,
                                 uint64_t *bitset, lmc_diag *diag)
{
    const uint64_t m = lmc_read_n(reader, lmc_count_nbytes(n));
    if (reader->failed || m == 0 || m > n)
        return lmc_corrupt(diag, 0, "bitset: no members, or more than there are places");
    LMC_TRY(decode_gaps(kernels, reader, (size_t)m, gaps, diag));
    uint64_t end = m; /* behind the last member */
    for (size_t i = 0; i < m; i++)
        end += gaps[i];
    if (end > n)
        return lmc_corrupt(diag, 0, "bitset: a member lies beyond the end");
    memset(bitset, 0, lmc_bitset_words(n) * 8);
    size_t place = 0;
    for (size_t i = 0; i < m; i++, place++) {
        place += gaps[i];
        bitset[place / 64] |= UINT64_C(1) << place % 64;
    }
    return LMC_OK;
}

static lmc_status decode_bitset(const bitset_coder *coder, uint64_t *room, lmc_reader *reader, size_t n,
                                uint64_t *bitset, lmc_diag *diag);

/* Reads a plane of n bits, whose spare bits must be 0, to whole words. */
static lmc_status read_words(lmc_reader *reader, size_t n, uint64_t *words, lmc_diag *diag)
{
    const uint8_t *const p = lmc_read_bits(reader, n);
    if (!p)
        return lmc_corrupt(diag, 0, "bitset: a plane ends early or has spare bits set");
    if (n > 0)
        words[(n - 1) / 64] = 0;
    memcpy(words, p, lmc_bits_nbytes(n));
    return LMC_OK;
}

static lmc_status decode_hierarchy(const bitset_coder *coder, uint64_t *room, lmc_reader *reader, size_t n,
                                   uint64_t *bitset, lmc_diag *diag)
{
    const lmc_kernels *const kernels = coder->kernels;
    const pair_bitsets sets = place_sets(room, n);
    const size_t pair_count = n - n / 2;
    if (n < 2)
        return lmc_corrupt(diag, 0, "bitset: a pair of one bit");
    LMC_TRY(decode_bitset(coder, sets.room, reader, pair_count, sets.any, diag));
    const size_t any_count = lmc_bitset_count(kernels, sets.any, pair_count);
    if (any_count == 0)
        return lmc_corrupt(diag, 0, "bitset: pairs of which none has a member");
    LMC_TRY(decode_bitset(coder, sets.room, reader, any_count, sets.both, diag));
    const size_t single_count = any_count - lmc_bitset_count(kernels, sets.both, any_count);
    LMC_TRY(read_words(reader, single_count, sets.second, diag));
    kernels->hierarchy_join(sets.any, sets.both, sets.second, n, bitset);
    if (n % 64 != 0 && bitset[n / 64] >> n % 64 != 0)
        return lmc_corrupt(diag, 0, "bitset: a member lies beyond the end");
    return LMC_OK;
}

static lmc_status decode_bitset(const bitset_coder *coder, uint64_t *room, lmc_reader *reader, size_t n,
                                uint64_t *bitset, lmc_diag *diag)
{
    const unsigned mode = (unsigned)lmc_read_n(reader, 1);
    lmc_status status = LMC_OK;
    if (reader->failed)
        return lmc_corrupt(diag, 0, "bitset: no mode byte");
    switch (mode) {
    case LMC_FMT_BITSET_BITMAP: return read_words(reader, n, bitset, diag);
    case LMC_FMT_BITSET_GAPS_OF_ONES:
    case LMC_FMT_BITSET_GAPS_OF_ZEROS:
        status = decode_members(coder->kernels, coder->scratch->gaps, reader, n, bitset, diag);
        break;
    case LMC_FMT_BITSET_NONE:
    case LMC_FMT_BITSET_ALL: memset(bitset, 0, lmc_bitset_words(n) * sizeof bitset[0]); break;
    case LMC_FMT_BITSET_HIERARCHY_OF_ONES:
    case LMC_FMT_BITSET_HIERARCHY_OF_ZEROS:
        status = decode_hierarchy(coder, room, reader, n, bitset, diag);
        break;
    default: return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 0, "bitset: mode %u", mode);
    }
    if (mode == LMC_FMT_BITSET_GAPS_OF_ZEROS || mode == LMC_FMT_BITSET_ALL ||
        mode == LMC_FMT_BITSET_HIERARCHY_OF_ZEROS)
        lmc_bitset_invert(bitset, n);
    return status;
}

lmc_status lmc_bitset_decode(const lmc_kernels *kernels, lmc_scratch *scratch, lmc_reader *reader, size_t n,
                             uint64_t *bitset, lmc_diag *diag)
{
    const bitset_coder coder = {kernels, scratch};
    return decode_bitset(&coder, scratch->hierarchy, reader, n, bitset, diag);
}
