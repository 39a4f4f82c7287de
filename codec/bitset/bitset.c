/*
 * bitset.c - chooses and codes the form of a bitset. In a hierarchical bitmap two neighbours make a pair. Three bitsets
 * say: is a bit of the pair set; of such pairs, are both set; of the others, is it the second bit. The first two are
 * coded as bitsets again. Each has at most half as many bits, and a larger share of them is set, until a bitmap suits
 * them. That stays within 0.7 % of the entropy.
 */
#include "codec/bitset/bitset.h"

#include "codec/bitset/rice_gaps.h"
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
    const double gaps = lmc_gaps_cost_nbits(n, minor);
    const double hierarchy = hierarchy_cost_nbits(n, minor);
    const double members = gaps < hierarchy ? gaps : hierarchy;
    return members < bitmap ? members : bitmap;
}

/* ---- encode ---- */

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

/* Codes the rarer of set and clear bits as gaps or as a hierarchy, if that is smaller than the bitmap; else returns
 * 0. */
static size_t encode_members(const bitset_coder *coder, uint64_t *room, const uint64_t *bitset, size_t n,
                             size_t ones, uint8_t *dst, size_t capacity)
{
    const int inverted = ones > n - ones;
    const size_t minor = inverted ? n - ones : ones;
    const double most = HIERARCHY_RATE_MAX * (double)n;
    const double gaps = lmc_gaps_cost_nbits(n, minor);
    const double hierarchy = hierarchy_cost_nbits(n, minor);
    const size_t allowed = lmc_min_size(capacity, lmc_bits_nbytes(n));
    size_t nbytes = 0;
    if (gaps <= hierarchy && gaps < most && minor <= GAPS_COUNT_MAX) {
        dst[0] = inverted ? LMC_FMT_BITSET_GAPS_OF_ZEROS : LMC_FMT_BITSET_GAPS_OF_ONES;
        nbytes =
            lmc_gaps_encode(coder->kernels, coder->scratch->gaps, bitset, n, inverted, dst + 1, allowed - 1);
    } else if (hierarchy < most) {
        dst[0] = inverted ? LMC_FMT_BITSET_HIERARCHY_OF_ZEROS : LMC_FMT_BITSET_HIERARCHY_OF_ONES;
        nbytes = encode_hierarchy(coder, room, bitset, n, inverted, dst + 1, allowed - 1);
    }
    return nbytes != 0 ? 1 + nbytes : 0;
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
    const size_t nbytes = encode_members(coder, room, bitset, n, ones, dst, capacity);
    if (nbytes != 0)
        return nbytes;
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
        status = lmc_gaps_decode(coder->kernels, coder->scratch->gaps, reader, n, bitset, diag);
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
