/* rans_table.c - divides LMC_FMT_RANS_TOTAL among the symbols of a histogram; writes and reads the frequencies. */
#include "codec/rans/rans_table.h"

#include "codec/common/bits.h"
#include "codec/common/entropy.h"

#define TOTAL LMC_FMT_RANS_TOTAL

/* ---- frequencies ---- */

/* A symbol that occurs. The bits that its next step of frequency saves, and that its last one saved. */
typedef struct share {
    double count, gain, loss;
    uint8_t symbol;
    uint16_t frequency;
} share;

static void set_frequency(share *s, unsigned frequency)
{
    const double log2_of_it = lmc_log2(frequency);
    s->frequency = (uint16_t)frequency;
    s->gain = s->count * (lmc_log2(frequency + 1.) - log2_of_it);
    s->loss = frequency > 1 ? s->count * (log2_of_it - lmc_log2(frequency - 1.)) : 1e300;
}

/* Starts with shares that are rounded down, but at least 1. The cost is a sum of convex functions, so that single
 * steps lead to its minimum. It ends: a step that moves from one symbol to another saves more than the step that it
 * undoes. */
void lmc_rans_normalize(const uint32_t histogram[256], uint16_t frequency[256])
{
    share shares[256];
    uint64_t total = 0;
    unsigned n = 0, sum = 0; /* of the frequencies */
    for (unsigned s = 0; s < 256; s++)
        total += histogram[s];
    assert(total > 0);
    for (unsigned s = 0; s < 256; s++) {
        if (histogram[s] == 0)
            continue;
        const unsigned frequency_below = (unsigned)(histogram[s] * (uint64_t)TOTAL / total);
        shares[n] = (share){.count = histogram[s], .symbol = (uint8_t)s};
        set_frequency(&shares[n], frequency_below > 0 ? frequency_below : 1);
        sum += shares[n++].frequency;
    }
    for (;;) {
        share *most = shares, *least = shares;
        for (share *s = shares + 1; s < shares + n; s++) {
            most = s->gain > most->gain ? s : most;
            least = s->loss < least->loss ? s : least;
        }
        if (sum == TOTAL && (most == least || most->gain <= least->loss))
            break;
        const int grows = sum <= TOTAL, shrinks = sum >= TOTAL; /* both: a step moves */
        if (grows)
            set_frequency(most, most->frequency + 1u);
        if (shrinks)
            set_frequency(least, least->frequency - 1u);
        sum = sum + (unsigned)grows - (unsigned)shrinks;
    }
    memset(frequency, 0, 256 * sizeof *frequency);
    for (unsigned i = 0; i < n; i++)
        frequency[shares[i].symbol] = shares[i].frequency;
}

void lmc_rans_set_symbols(lmc_rans *rans)
{
    const uint64_t numerator = UINT64_C(1) << LMC_RANS_RECIPROCAL_LOG2;
    unsigned start = 0;
    for (unsigned s = 0; s < 256; s++) {
        const unsigned frequency = rans->frequency[s];
        rans->symbols[s] = (lmc_rans_symbol){frequency > 0 ? lmc_div_ceil(numerator, frequency) : 0,
                                             (uint16_t)frequency, (uint16_t)start};
        start += frequency;
    }
}

void lmc_rans_set_slots(lmc_rans *rans)
{
    lmc_rans_slot *slot = rans->slots;
    for (uint32_t s = 0; s < 256; s++) {
        const uint32_t frequency = rans->frequency[s];
        assert(frequency <= (size_t)(rans->slots + TOTAL - slot));
        for (uint32_t i = 0; i < frequency; i++)
            *slot++ = s | (frequency - 1) << 8 | i << 20;
    }
    assert(slot == rans->slots + TOTAL);
}

double lmc_rans_cost_nbits(const uint16_t frequency[256], const uint32_t histogram[256], unsigned left_out)
{
    double nbits = 0;
    for (unsigned s = 0; s < 256; s++) {
        if (histogram[s] == 0 || s == left_out)
            continue;
        if (frequency[s] == 0)
            return 1e300;
        nbits += (double)histogram[s] * (LMC_FMT_RANS_TOTAL_LOG2 - lmc_log2(frequency[s]));
    }
    return nbits;
}

/* ---- wire: number of classes, the range of symbols, a frequency for each of those ---- */

void lmc_rans_table_write(const uint16_t frequency[256], lmc_writer *writer)
{
    unsigned first_symbol = 0, last_symbol = 255;
    uint8_t packed[LMC_RANS_TABLE_NBYTES_MAX + sizeof(uint64_t)];
    lmc_bit_writer bits = {packed, 0, 0};
    while (first_symbol < 255 && frequency[first_symbol] == 0)
        first_symbol++;
    while (last_symbol > first_symbol && frequency[last_symbol] == 0)
        last_symbol--;
    for (unsigned s = first_symbol; s <= last_symbol; s++) {
        const unsigned nbits = frequency[s] > 0 ? lmc_highest_bit(frequency[s]) + 1 : 0;
        lmc_put_bits(&bits, nbits, LMC_FMT_RANS_WIDTH_NBITS);
        if (nbits > 1)
            lmc_put_bits(&bits, frequency[s] - (1u << (nbits - 1)), nbits - 1);
    }
    lmc_store64(bits.next, bits.pending);
    lmc_write_n(writer, 1, 1);
    lmc_write_n(writer, first_symbol, 1);
    lmc_write_n(writer, last_symbol, 1);
    lmc_write_span(writer, packed, lmc_bits_nbytes((size_t)lmc_bits_written(&bits, packed)));
}

/* Bits of a string, the lowest of a byte first. */
typedef struct bit_reader {
    lmc_reader *bytes;
    uint32_t pending; /* bits that were read ahead, fewer than 8 */
    unsigned pending_nbits;
} bit_reader;

/* A number of n <= 12 bits. */
static unsigned read_number(bit_reader *r, unsigned n)
{
    while (r->pending_nbits < n) {
        r->pending |= (uint32_t)lmc_read_n(r->bytes, 1) << r->pending_nbits;
        r->pending_nbits += 8;
    }
    const unsigned number = r->pending & ((1u << n) - 1);
    r->pending >>= n;
    r->pending_nbits -= n;
    return number;
}

lmc_status lmc_rans_table_read(lmc_reader *reader, uint16_t frequency[256], lmc_diag *diag)
{
    const unsigned class_count = (unsigned)lmc_read_n(reader, 1);
    if (!reader->failed && class_count != 1)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 0, "a rANS table has %u classes", class_count);
    const unsigned first_symbol = (unsigned)lmc_read_n(reader, 1);
    const unsigned last_symbol = (unsigned)lmc_read_n(reader, 1);
    if (reader->failed)
        return lmc_corrupt(diag, 0, "a rANS table is cut short");
    if (first_symbol > last_symbol)
        return lmc_corrupt(diag, 1, "a rANS table's symbols run backwards");
    bit_reader bits = {reader, 0, 0};
    unsigned sum = 0;
    memset(frequency, 0, 256 * sizeof *frequency);
    for (unsigned s = first_symbol; s <= last_symbol; s++) {
        const unsigned nbits = read_number(&bits, LMC_FMT_RANS_WIDTH_NBITS);
        if (nbits > LMC_FMT_RANS_TOTAL_LOG2 + 1)
            return lmc_corrupt(diag, 3, "a rANS table has a frequency of %u bits", nbits);
        if (nbits > 0)
            frequency[s] = (uint16_t)(1u << (nbits - 1) | read_number(&bits, nbits - 1));
        sum += frequency[s];
    }
    if (reader->failed)
        return lmc_corrupt(diag, 3, "a rANS table is cut short");
    if (bits.pending != 0)
        return lmc_corrupt(diag, 3, "a rANS table has spare bits set");
    if (sum != TOTAL)
        return lmc_corrupt(diag, 3, "the frequencies of a rANS table have the sum %u", sum);
    if (frequency[first_symbol] == 0 || frequency[last_symbol] == 0)
        return lmc_corrupt(diag, 1, "a rANS table's range begins or ends with a symbol without a frequency");
    return LMC_OK;
}
