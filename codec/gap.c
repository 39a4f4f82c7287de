/* gap.c - gaps between members of a set, Rice-coded in planes. */
#include "gap.h"

#include "flags.h"
#include "symbols.h"

/* ---- cost ---- */

/* The Rice parameter for n / m values a member: the largest k with 2^k <= ln 2 * mean gap, which keeps about
 * half of the quotients 0 (Rice 1979; Golomb's optimum for a geometric distribution). */
static unsigned rice_parameter(size_t n, size_t m)
{
    const double mean = (double)(n - m) / (double)m;
    unsigned k = 0;
    while (k < LMC_FMT_GAP_LOW_NBITS_MAX && (double)(2u << k) <= 0.6931 * (mean + 1))
        k++;
    return k;
}

/* k low bits, and a quotient that is at least q with probability (1 - p)^(q 2^k). */
double lmc_gaps_cost_nbits(size_t n, size_t m)
{
    const unsigned k = rice_parameter(n, m);
    const double mean = (double)(n - m) / (double)m;
    return 48 + (double)m * (k + 1 + mean / (double)(1u << k));
}

/* ---- encode ---- */

/* Gaps between the members of `flags` (inverted: of its complement), to `gaps`. Returns their number. */
static size_t list_gaps(const uint64_t *flags, size_t n, int inverted, uint32_t *gaps)
{
    size_t m = 0;
    size_t next = 0; /* the least place of the next member */
    for (size_t w = 0; w < lmc_flag_words(n); w++) {
        uint64_t word = inverted ? ~flags[w] : flags[w];
        if (inverted && n - w * 64 < 64)
            word &= lmc_low_mask((unsigned)(n - w * 64));
        for (; word != 0; word &= word - 1) {
            const size_t place = w * 64 + lmc_lowest_bit(word);
            gaps[m++] = (uint32_t)(place - next);
            next = place + 1;
        }
    }
    return m;
}

/* Bit `bit` of each value as a plane, 64 of them at a time. */
static void write_plane(lmc_writer *writer, const uint32_t *values, size_t n, unsigned bit)
{
    for (size_t first = 0; first < n; first += 64) {
        const size_t m = lmc_min_size(n - first, 64);
        uint64_t word = 0;
        for (size_t i = 0; i < m; i++)
            word |= (uint64_t)(values[first + i] >> bit & 1) << i;
        memcpy(writer->next, &word, lmc_bits_nbytes(m));
        writer->next += lmc_bits_nbytes(m);
    }
}

/* One unary level: which of the quotients go on; those, less 1, become the list. Returns its length. Without a
 * branch: half of them do. */
static size_t write_level(lmc_writer *writer, uint32_t *quotients, size_t n)
{
    size_t left = 0;
    for (size_t first = 0; first < n; first += 64) {
        const size_t m = lmc_min_size(n - first, 64);
        uint64_t word = 0;
        for (size_t i = 0; i < m; i++) {
            const uint32_t q = quotients[first + i];
            const uint64_t on = q > 0;
            word |= on << i;
            quotients[left] = q - 1;
            left += on;
        }
        memcpy(writer->next, &word, lmc_bits_nbytes(m));
        writer->next += lmc_bits_nbytes(m);
    }
    return left;
}

static size_t encode_gaps(uint32_t *gaps, size_t n, size_t m, uint8_t *dst, size_t capacity)
{
    lmc_writer w = {dst, dst + capacity};
    const unsigned count_nbytes = lmc_count_nbytes(n);
    unsigned k = rice_parameter(n, m);
    uint32_t largest = 0;
    for (size_t i = 0; i < m; i++)
        largest = gaps[i] > largest ? gaps[i] : largest;
    while (largest >> k > 255) /* what is left of a quotient must fit a byte */
        k++;
    if (capacity < count_nbytes + 1 + k * lmc_bits_nbytes(m))
        return 0;
    lmc_write_n(&w, m, count_nbytes);
    lmc_write_n(&w, k, 1);
    for (unsigned b = 0; b < k; b++)
        write_plane(&w, gaps, m, b);
    for (size_t i = 0; i < m; i++)
        gaps[i] >>= k;
    for (unsigned t = 0; t < LMC_FMT_GAP_LEVEL_COUNT_MAX && m >= LMC_FMT_GAP_LEVEL_VALUES_MIN; t++) {
        if (lmc_writer_left(&w) < lmc_bits_nbytes(m))
            return 0;
        m = write_level(&w, gaps, m);
    }
    if (lmc_writer_left(&w) < m)
        return 0;
    for (size_t i = 0; i < m; i++)
        lmc_write_n(&w, gaps[i], 1);
    return (size_t)(w.next - dst);
}

size_t lmc_gaps_encode(uint32_t *gaps, const uint64_t *flags, size_t n, int inverted, uint8_t *dst,
                       size_t capacity)
{
    return encode_gaps(gaps, n, list_gaps(flags, n, inverted, gaps), dst, capacity);
}

/* ---- decode ---- */

static lmc_status corrupt(lmc_diag *diag, const char *what)
{
    return lmc_fail(diag, LMC_ERR_CORRUPT, 0, "flags: %s", what);
}

/* A plane of n bits whose spare bits are 0, or NULL. */
static const uint8_t *read_plane(lmc_reader *reader, size_t n)
{
    const uint8_t *const p = lmc_read_span(reader, lmc_bits_nbytes(n));
    return p && (n % 8 == 0 || p[n / 8] >> n % 8 == 0) ? p : NULL;
}

LMC_INLINE unsigned bit_at(const uint8_t *plane, size_t i)
{
    return plane[i / 8] >> i % 8 & 1;
}

static size_t count_bits(const uint8_t *plane, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < lmc_bits_nbytes(n); i++)
        count += lmc_popcount64(plane[i]);
    return count;
}

/* Reads m gaps to `gaps`: first the quotients, from the last level's list up, then the low bits. */
static lmc_status decode_gaps(lmc_reader *reader, size_t m, uint32_t *gaps, lmc_diag *diag)
{
    const uint8_t *level[LMC_FMT_GAP_LEVEL_COUNT_MAX];
    size_t level_n[LMC_FMT_GAP_LEVEL_COUNT_MAX];
    unsigned level_count = 0;
    const unsigned k = (unsigned)lmc_read_n(reader, 1);
    if (k > LMC_FMT_GAP_LOW_NBITS_MAX)
        return corrupt(diag, "too many low bits");
    lmc_reader low = *reader; /* the low planes are read last */
    if (!lmc_read_span(reader, k * lmc_bits_nbytes(m)))
        return corrupt(diag, "low bits are cut short");
    size_t n = m;
    while (level_count < LMC_FMT_GAP_LEVEL_COUNT_MAX && n >= LMC_FMT_GAP_LEVEL_VALUES_MIN) {
        level[level_count] = read_plane(reader, n);
        if (!level[level_count])
            return corrupt(diag, "a level ends early or has spare bits set");
        level_n[level_count] = n;
        n = count_bits(level[level_count++], n);
    }
    const uint8_t *const rest = lmc_read_span(reader, n);
    if (!rest)
        return corrupt(diag, "the rest ends early");
    for (size_t i = 0; i < n; i++)
        gaps[i] = rest[i];
    while (level_count-- > 0) { /* in place, from the back: a list never outgrows the one above it */
        const uint8_t *const plane = level[level_count];
        for (size_t i = level_n[level_count]; i-- > 0;) { /* without a branch: half of them go on */
            const uint32_t on = bit_at(plane, i);
            n -= on;
            gaps[i] = (gaps[n] + 1) & (0u - on);
        }
        n = level_n[level_count];
    }
    for (size_t i = 0; i < m; i++)
        gaps[i] <<= k;
    for (unsigned b = 0; b < k; b++) {
        const uint8_t *const plane = read_plane(&low, m);
        if (!plane)
            return corrupt(diag, "low bits have spare bits set");
        for (size_t first = 0; first < m; first += 8) {
            const unsigned byte = plane[first / 8];
            for (size_t i = 0; i < lmc_min_size(m - first, 8); i++)
                gaps[first + i] |= (uint32_t)(byte >> i & 1) << b;
        }
    }
    return LMC_OK;
}

static lmc_status set_members(const uint32_t *gaps, size_t m, size_t n, uint64_t *flags, lmc_diag *diag)
{
    uint64_t next = 0;
    memset(flags, 0, lmc_flag_words(n) * 8);
    for (size_t i = 0; i < m; i++) {
        const uint64_t place = next + gaps[i];
        if (place >= n)
            return corrupt(diag, "a member lies beyond the end");
        flags[place / 64] |= UINT64_C(1) << place % 64;
        next = place + 1;
    }
    return LMC_OK;
}

lmc_status lmc_gaps_decode(uint32_t *gaps, lmc_reader *reader, size_t n, uint64_t *flags, lmc_diag *diag)
{
    const uint64_t m = lmc_read_n(reader, lmc_count_nbytes(n));
    if (reader->failed || m == 0 || m > n)
        return corrupt(diag, "no members, or more than there are places");
    const lmc_status status = decode_gaps(reader, (size_t)m, gaps, diag);
    return status == LMC_OK ? set_members(gaps, (size_t)m, n, flags, diag) : status;
}
