/* rice_gaps.c - chooses the Rice parameter; writes and reads the planes of gaps. */
#include "codec/bitset/rice_gaps.h"

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
double lmc_gaps_cost_nbits(size_t n, size_t m)
{
    const unsigned k = rice_parameter(n, m);
    const double mean = (double)(n - m) / (double)m;
    return 48 + (double)m * (k + 1 + mean / (double)(1u << k));
}

/* ---- encode ---- */

size_t lmc_gaps_encode(const lmc_kernels *kernels, uint32_t *gaps, const uint64_t *bitset, size_t n,
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

/* ---- decode ---- */

/* Bits set in a plane at any address. */
static size_t count_plane_bits(const lmc_kernels *kernels, const uint8_t *plane, size_t n)
{
    uint64_t words[64];
    size_t count = 0;
    for (size_t nbytes = lmc_bits_nbytes(n); nbytes > 0;) {
        const size_t m = lmc_min_size(nbytes, sizeof words);
        words[(m - 1) / 8] = 0;
        memcpy(words, plane, m);
        count += kernels->bitset_count(words, (m + 7) / 8);
        plane += m;
        nbytes -= m;
    }
    return count;
}

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
        n = count_plane_bits(kernels, unary[unary_count++], n);
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

/* Makes a bitset of m gaps. */
static lmc_status set_members(const uint32_t *gaps, size_t m, size_t n, uint64_t *bitset, lmc_diag *diag)
{
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

lmc_status lmc_gaps_decode(const lmc_kernels *kernels, uint32_t *gaps, lmc_reader *reader, size_t n,
                           uint64_t *bitset, lmc_diag *diag)
{
    const uint64_t m = lmc_read_n(reader, lmc_count_nbytes(n));
    if (reader->failed || m == 0 || m > n)
        return lmc_corrupt(diag, 0, "bitset: no members, or more than there are places");
    LMC_TRY(decode_gaps(kernels, reader, (size_t)m, gaps, diag));
    return set_members(gaps, (size_t)m, n, bitset, diag);
}
