/* plane.c - estimates the cost of each mode for a plane, and codes it in the cheapest one; collects the values of
 * escapes from elements, and mends elements by them. */
#include "codec/plain/plane.h"

#include "codec/rans/rans_plane.h"

/* ---- encode ---- */

void lmc_plane_count_more(const uint8_t *plane, size_t n, uint32_t parts[4][256])
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (unsigned k = 0; k < 4; k++)
            parts[k][plane[i + k]]++;
    for (; i < n; i++)
        parts[0][plane[i]]++;
}

void lmc_plane_sum_counts(uint32_t parts[4][256], uint32_t histogram[256])
{
    for (unsigned s = 0; s < 256; s++)
        histogram[s] = parts[0][s] + parts[1][s] + parts[2][s] + parts[3][s];
}

void lmc_plane_count(const uint8_t *plane, size_t n, uint32_t histogram[256])
{
    uint32_t parts[4][256] = {{0}};
    lmc_plane_count_more(plane, n, parts);
    lmc_plane_sum_counts(parts, histogram);
}

/* About what exceptions to a value take that m of n bytes are not, if these take so many bits. */
static double exceptions_nbits(size_t n, size_t m, double nbits)
{
    return 24 + lmc_bitset_cost_nbits(n, m) + nbits;
}

double lmc_plane_uncoded_nbits(const uint32_t histogram[256], size_t n)
{
    uint32_t most = 0;
    for (unsigned s = 0; s < 256; s++)
        most = histogram[s] > most ? histogram[s] : most;
    const size_t m = n - most;
    const double exceptions = exceptions_nbits(n, m, 8.0 * (double)m), stored = 8.0 * (double)n;
    return m == 0 ? 8 : exceptions < stored ? exceptions : stored;
}

static size_t encode_coded(const lmc_plane_coder *coder, const uint8_t *plane, size_t n, uint8_t *dst,
                           size_t capacity)
{
    lmc_symbol_encoder encoder;
    lmc_symbols_encode_begin(&encoder, coder->kernels, coder->table, coder->scratch, n, dst, capacity);
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES)
        lmc_symbols_encode_strip(&encoder, plane + i, lmc_min_size(n - i, LMC_STRIP_VALUES));
    return lmc_symbols_encode_end(&encoder);
}

/* Writes the dominant byte, the bitset of the exceptions, their mode and the exceptions themselves. Returns 0 when that
 * exceeds the capacity. */
static size_t encode_exceptions(const lmc_plane_coder *coder, const uint8_t *plane, size_t n,
                                unsigned dominant, int is_coded, uint8_t *dst, size_t capacity)
{
    lmc_scratch *const scratch = coder->scratch;
    size_t m = 0; /* exceptions: their bits are set, and they go to scratch */
    memset(scratch->bitset, 0, lmc_bitset_words(n) * 8);
    for (size_t i = 0; i < n; i++) {
        const uint64_t differs = plane[i] != dominant;
        scratch->bitset[i / 64] |= differs << i % 64;
        scratch->exceptions[m] = plane[i];
        m += differs;
    }
    if (capacity < 2)
        return 0;
    dst[0] = (uint8_t)dominant;
    size_t used = 1;
    const size_t bitset_nbytes =
        lmc_bitset_encode(coder->kernels, scratch, scratch->bitset, n, dst + 1, capacity - 2);
    if (bitset_nbytes == 0)
        return 0;
    used += bitset_nbytes;
    uint8_t *const mode = dst + used++;
    const size_t left = capacity - used;
    size_t nbytes = 0;
    if (is_coded)
        nbytes = encode_coded(coder, scratch->exceptions, m, dst + used, lmc_min_size(left, m));
    *mode = nbytes != 0 ? LMC_FMT_PLANE_CODED : LMC_FMT_PLANE_STORED;
    if (nbytes == 0) {
        if (m > left)
            return 0;
        memcpy(dst + used, scratch->exceptions, m);
        nbytes = m;
    }
    return used + nbytes;
}

size_t lmc_plane_encode(const lmc_plane_coder *coder, const uint8_t *plane, size_t n, uint8_t *dst,
                        size_t capacity, uint8_t *mode)
{
    const lmc_table *const table = coder->table;
    uint32_t histogram[256];
    unsigned dominant = 0;
    lmc_plane_count(plane, n, histogram);
    for (unsigned s = 1; s < 256; s++)
        if (histogram[s] > histogram[dominant])
            dominant = s;
    const size_t m = n - histogram[dominant];
    if (capacity == 0)
        return 0;
    if (m == 0) {
        *mode = LMC_FMT_PLANE_CONSTANT;
        dst[0] = (uint8_t)dominant;
        return 1;
    }
    const double stored_cost = 8.0 * (double)n;
    const double coded_cost = table ? lmc_table_cost_nbits(table, histogram, LMC_TABLE_ALL) : stored_cost;
    const double stored_exceptions_cost = 8.0 * (double)m;
    const double coded_exceptions_cost =
        table ? lmc_table_cost_nbits(table, histogram, dominant) : stored_exceptions_cost;
    const int codes_exceptions = coded_exceptions_cost < stored_exceptions_cost;
    const double bytes_cost = codes_exceptions ? coded_exceptions_cost : stored_exceptions_cost;
    const double scattered_cost = exceptions_nbits(n, m, bytes_cost);
    /* exceptions may stand in runs, as where rows of a matrix end in zeros: each end of a run takes a place */
    size_t ends = 1;
    for (size_t i = 1; i < n; i++)
        ends += (plane[i] == dominant) != (plane[i - 1] == dominant);
    const double run_cost = 24 + 2.0 * (double)(ends * (lmc_highest_bit(n) + 1u)) + bytes_cost;
    const double exceptions_cost = run_cost < scattered_cost ? run_cost : scattered_cost;
    size_t nbytes = 0;
    if (exceptions_cost < coded_cost && exceptions_cost < stored_cost) {
        *mode = LMC_FMT_PLANE_EXCEPTIONS;
        nbytes =
            encode_exceptions(coder, plane, n, dominant, codes_exceptions, dst, lmc_min_size(capacity, n));
    }
    if (nbytes == 0 && coded_cost < stored_cost) {
        *mode = LMC_FMT_PLANE_CODED;
        nbytes = encode_coded(coder, plane, n, dst, lmc_min_size(capacity, n));
    }
    if (nbytes != 0)
        return nbytes;
    if (n > capacity)
        return 0;
    *mode = LMC_FMT_PLANE_STORED;
    memcpy(dst, plane, n);
    return n;
}

/* Fills a packed plane with n equal values. Eight of them take nbits bytes, then the pattern repeats. */
static void fill_packed(uint8_t *plane, size_t n, unsigned nbits, unsigned value)
{
    uint64_t pattern = 0;
    for (unsigned i = 0; i < 8; i++)
        pattern |= (uint64_t)value << i * nbits;
    const size_t nbytes = lmc_plane_nbytes(n, nbits);
    for (size_t i = 0; i < nbytes; i++)
        plane[i] = (uint8_t)(pattern >> 8 * (i % nbits));
    if (n * nbits % 8 != 0)
        plane[nbytes - 1] &= (uint8_t)((1u << n * nbits % 8) - 1);
}

static int is_constant_packed(const uint8_t *plane, size_t n, unsigned nbits)
{
    uint8_t pattern[8 * LMC_FMT_LOW_NBITS_MAX];
    const size_t nbytes = lmc_plane_nbytes(n, nbits);
    const size_t part = lmc_min_size(nbytes, nbits);
    fill_packed(pattern, lmc_min_size(n, 8), nbits, plane[0] & ((1u << nbits) - 1));
    if (memcmp(plane, pattern, part) != 0)
        return 0;
    if (nbytes <= nbits)
        return 1;
    const size_t whole = n * nbits / 8; /* bytes without spare bits; the last byte may have some */
    if (memcmp(plane, plane + nbits, whole - nbits) != 0)
        return 0;
    return whole == nbytes || plane[whole] == (pattern[whole % nbits] & ((1u << n * nbits % 8) - 1));
}

size_t lmc_plane_encode_packed(const uint8_t *plane, size_t n, unsigned nbits, uint8_t *dst, uint8_t *mode)
{
    if (is_constant_packed(plane, n, nbits)) {
        *mode = LMC_FMT_PLANE_CONSTANT;
        dst[0] = plane[0] & (uint8_t)((1u << nbits) - 1);
        return 1;
    }
    *mode = LMC_FMT_PLANE_STORED;
    memcpy(dst, plane, lmc_plane_nbytes(n, nbits));
    return lmc_plane_nbytes(n, nbits);
}

/* ---- decode ---- */

static lmc_status decode_stored(lmc_source *source, size_t n, unsigned nbits, const uint8_t **plane,
                                lmc_diag *diag)
{
    *plane = lmc_source_plane(source, lmc_plane_nbytes(n, nbits), 64);
    if (!*plane)
        return lmc_corrupt(diag, 0, "plane: it ends early");
    if (n * nbits % 8 != 0 && (*plane)[lmc_plane_nbytes(n, nbits) - 1] >> n * nbits % 8 != 0)
        return lmc_corrupt(diag, 0, "plane: it has spare bits set");
    return LMC_OK;
}

static lmc_status decode_constant(lmc_reader *reader, size_t n, unsigned nbits, uint8_t *plane,
                                  lmc_diag *diag)
{
    const unsigned value = (unsigned)lmc_read_n(reader, 1);
    if (reader->failed)
        return lmc_corrupt(diag, 0, "plane: it ends early");
    if (value >> nbits != 0)
        return lmc_corrupt(diag, 0, "plane: its constant is too wide");
    if (nbits == 8)
        memset(plane, (int)value, n);
    else
        fill_packed(plane, n, nbits, value);
    return LMC_OK;
}

static lmc_status decode_coded(const lmc_plane_coder *coder, lmc_source *source, size_t n, uint8_t *plane,
                               lmc_diag *diag)
{
    lmc_symbol_decoder decoder;
    if (coder->rans)
        return lmc_rans_plane_decode(coder->kernels, coder->rans, &source->reader, n, plane, coder->carried,
                                     diag);
    if (!coder->table)
        return lmc_corrupt(diag, 0, "plane: it is coded, but has no table");
    LMC_TRY(
        lmc_symbols_decode_begin(&decoder, coder->kernels, coder->table, coder->scratch, source, n, diag));
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
        const size_t m = lmc_min_size(n - i, LMC_STRIP_VALUES);
        LMC_TRY(lmc_symbols_decode_strip(&decoder, m, plane + i, diag));
    }
    return lmc_symbols_decode_end(&decoder, diag);
}

static lmc_status decode_exceptions(const lmc_plane_coder *coder, lmc_source *source, size_t n,
                                    uint8_t *plane, lmc_diag *diag)
{
    static const uint8_t zeros[LMC_FMT_RANS_CARRIED_NBYTES];
    lmc_scratch *const scratch = coder->scratch;
    const uint8_t *exceptions = scratch->exceptions;
    const unsigned dominant = (unsigned)lmc_read_n(&source->reader, 1);
    LMC_TRY(lmc_bitset_decode(coder->kernels, scratch, &source->reader, n, scratch->bitset, diag));
    const unsigned mode = (unsigned)lmc_read_n(&source->reader, 1);
    const size_t m = lmc_bitset_count(coder->kernels, scratch->bitset, n);
    if (m == 0 || source->reader.failed)
        return lmc_corrupt(diag, 0, "plane: its exceptions are missing");
    if (mode == LMC_FMT_PLANE_STORED) {
        LMC_TRY(decode_stored(source, m, 8, &exceptions, diag));
    } else if (mode == LMC_FMT_PLANE_CODED) {
        LMC_TRY(decode_coded(coder, source, m, scratch->exceptions, diag));
        if (coder->rans && memcmp(coder->carried, zeros, sizeof zeros) != 0)
            return lmc_corrupt(diag, 0, "plane: its exceptions carry bytes");
    } else {
        return lmc_corrupt(diag, 0, "plane: exceptions in an unknown mode");
    }
    memset(plane, (int)dominant, n);
    for (size_t w = 0; w < lmc_bitset_words(n); w++)
        for (uint64_t word = scratch->bitset[w]; word != 0; word &= word - 1)
            plane[64 * w + lmc_lowest_bit(word)] = *exceptions++;
    return LMC_OK;
}

lmc_status lmc_plane_decode(const lmc_plane_coder *coder, lmc_source *source, unsigned mode, size_t n,
                            unsigned nbits, uint8_t *buffer, const uint8_t **plane, lmc_diag *diag)
{
    *plane = buffer;
    switch (mode) {
    case LMC_FMT_PLANE_STORED: return decode_stored(source, n, nbits, plane, diag);
    case LMC_FMT_PLANE_CONSTANT: return decode_constant(&source->reader, n, nbits, buffer, diag);
    case LMC_FMT_PLANE_CODED:
        if (nbits == 8)
            return decode_coded(coder, source, n, buffer, diag);
        break;
    case LMC_FMT_PLANE_EXCEPTIONS:
        if (nbits == 8)
            return decode_exceptions(coder, source, n, buffer, diag);
        break;
    default: return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 0, "plane: mode %u", mode);
    }
    return lmc_corrupt(diag, 0, "plane: a packed plane in a mode of byte planes");
}

/* ---- escapes ---- */

/* An element with its bits rotated left, as the split does. */
static uint64_t load_rotated(const lmc_element_cut *cut, const uint8_t *src)
{
    const unsigned nbits = 8 * cut->element_nbytes;
    const uint64_t x = lmc_load_n(src, cut->element_nbytes);
    return cut->split.rotation ? (x << 1 | x >> (nbits - 1)) & lmc_low_mask(nbits) : x;
}

/* All that is added to the high part of element i. */
static uint16_t offset_of(const lmc_element_cut *cut, size_t i)
{
    return (uint16_t)(cut->split.offset + (cut->shift ? cut->shift[i] : 0));
}

uint16_t *lmc_escapes_collect(const lmc_element_cut *cut, const uint8_t *symbols, const uint8_t *src,
                              size_t n, uint16_t *escapes)
{
    const unsigned lower_nbits = 8 * cut->element_nbytes - LMC_FMT_HIGH_NBITS;
    for (size_t i = 0; i < n; i++) {
        if (symbols[i] != LMC_FMT_SYMBOL_ESCAPE)
            continue;
        const uint16_t high = (uint16_t)(load_rotated(cut, src + i * cut->element_nbytes) >> lower_nbits);
        *escapes++ = (uint16_t)(high + offset_of(cut, i)) >> cut->split.low_nbits;
    }
    return escapes;
}

lmc_status lmc_escapes_apply(const lmc_element_cut *cut, const uint8_t *symbols, size_t n, lmc_reader *reader,
                             uint8_t *dst, lmc_diag *diag)
{
    const unsigned nbits = 8 * cut->element_nbytes, lower_nbits = nbits - LMC_FMT_HIGH_NBITS;
    const unsigned low_nbits = cut->split.low_nbits;
    const uint64_t high_mask = (UINT64_C(0xffff)) << lower_nbits;
    const uint8_t *const end = symbols + n;
    for (const uint8_t *s = symbols; (s = memchr(s, LMC_FMT_SYMBOL_ESCAPE, (size_t)(end - s))) != NULL; s++) {
        const unsigned wide = (unsigned)lmc_read_n(reader, 2);
        if (reader->failed || wide >> (LMC_FMT_HIGH_NBITS - low_nbits) != 0)
            return lmc_corrupt(diag, 0, "block: an escape is missing or too wide");
        const size_t i = (size_t)(s - symbols);
        const uint16_t offset = offset_of(cut, i);
        uint8_t *const element = dst + i * cut->element_nbytes;
        const uint64_t v = load_rotated(cut, element);
        const unsigned low = ((unsigned)(v >> lower_nbits) + offset) & ((1u << low_nbits) - 1);
        const uint16_t high = (uint16_t)((wide << low_nbits | low) - offset);
        const uint64_t mended = (v & ~high_mask) | (uint64_t)high << lower_nbits;
        const uint64_t x =
            cut->split.rotation ? (mended >> 1 | mended << (nbits - 1)) & lmc_low_mask(nbits) : mended;
        memcpy(element, &x, cut->element_nbytes);
    }
    return LMC_OK;
}
