/* rans_plan.c - tries low bits and offsets by the entropy of the symbols that they leave. */
#include "codec/plain/rans_plan.h"

#include "codec/common/entropy.h"
#include "codec/rans/rans_plane.h"

/* log2 of the offsets that are tried for a bin. */
#define OFFSETS_LOG2 3

/* Symbols without an escape, and what an escape takes beside its symbol. */
#define SYMBOLS_BEFORE_ESCAPE LMC_FMT_SYMBOL_ESCAPE
#define ESCAPE_NBITS 16

/* About what the frequency of a symbol takes in the table. */
#define FREQUENCY_NBITS 9

/* No frequency is below 1. A rarer symbol than this, in shares of that, is cheaper as an escape, which takes about 14
 * bits more: 1.44 / 14. */
#define RARE_SHARE 0.1

/* Turns rare symbols into escapes. */
static void escape_rare(uint32_t weight[256])
{
    uint64_t total = 0;
    for (unsigned i = 0; i < 256; i++)
        total += weight[i];
    const double rare = RARE_SHARE * (double)total / LMC_FMT_RANS_TOTAL;
    for (unsigned i = 0; i < LMC_FMT_SYMBOL_ESCAPE; i++) {
        if (weight[i] >= rare)
            continue;
        weight[LMC_FMT_SYMBOL_ESCAPE] += weight[i];
        weight[i] = 0;
    }
}

/* The share of the values that are not masked. */
static double kept_share(const lmc_rans_request *request)
{
    return (double)request->sums->total / (double)request->sample->seen_count;
}

/* What weights take, in bits a value, without low bits. Rare symbols take the room of others, since no frequency is
 * below 1. */
static double price(const lmc_rans_request *request, const lmc_symbol_counts *c, const uint32_t weight[256])
{
    const double least = (double)c->total / LMC_FMT_RANS_TOTAL;
    double nbits = 0, sum = 0;
    unsigned used = 0;
    for (unsigned i = 0; i < 256; i++) {
        if (weight[i] == 0)
            continue;
        const double frequency = weight[i] > least ? weight[i] : least;
        nbits -= weight[i] * lmc_log2(frequency);
        sum += frequency;
        used++;
    }
    const double escapes = c->symbol_mask > 255 ? weight[LMC_FMT_SYMBOL_ESCAPE] : 0;
    return (nbits + escapes * ESCAPE_NBITS) / c->total + lmc_log2(sum) +
           FREQUENCY_NBITS * used / ((double)request->sample->value_count * kept_share(request));
}

void lmc_rans_finish(const lmc_rans_request *request, const lmc_split *split, uint32_t weight[256],
                     uint16_t frequency[256])
{
    const unsigned symbol_nbits = request->sums->high_nbits - split->low_nbits;
    if (symbol_nbits > 8) {
        escape_rare(weight);
        weight[LMC_FMT_SYMBOL_ESCAPE] += weight[LMC_FMT_SYMBOL_ESCAPE] == 0;
    } else if (!request->sample->is_exact) {
        uint8_t is_seen[258] = {0};
        for (unsigned i = 0; i < 256; i++)
            is_seen[i + 1] = weight[i] > 0;
        for (unsigned i = 0; i < 1u << symbol_nbits; i++)
            weight[i] += weight[i] == 0 && (is_seen[i] || is_seen[i + 2]);
    }
    lmc_rans_normalize(weight, frequency);
}

void lmc_rans_choose(const lmc_rans_request *request, lmc_rans_choice *choice)
{
    const lmc_high_sums *const sums = request->sums;
    const double block_values =
        (double)lmc_min_u64(request->block_values, request->sample->value_count) * kept_share(request);
    uint32_t weight[256];
    const unsigned sign_place = request->element_nbytes == 1 && request->sample->rotation;
    choice->nbits = 1e9;
    for (unsigned low_nbits = request->low_first; low_nbits <= request->low_last; low_nbits++) {
        const unsigned bin = 1u << low_nbits;
        const unsigned finest = 1u << sums->finest_log2 << sign_place;
        const unsigned step = bin >> OFFSETS_LOG2 > finest ? bin >> OFFSETS_LOG2 : finest;
        for (unsigned offset = 0; offset == 0 || (request->may_move && offset < bin); offset += step) {
            const lmc_symbol_counts c = lmc_symbol_counts_of(sums, low_nbits, offset);
            const uint32_t window_start =
                c.symbol_mask > 255 ? lmc_symbol_counts_best_window(&c, SYMBOLS_BEFORE_ESCAPE) : 0;
            uint32_t before = lmc_values_before_symbol(&c, window_start);
            memset(weight, 0, sizeof weight);
            for (uint32_t i = 0; i <= lmc_min_size(c.symbol_mask, 255); i++) {
                const uint32_t up_to = lmc_values_before_symbol(&c, window_start + i + 1);
                weight[i] = up_to - before;
                before = up_to;
            }
            if (c.symbol_mask > 255) {
                weight[LMC_FMT_SYMBOL_ESCAPE] =
                    c.total - lmc_values_in_window(&c, window_start, SYMBOLS_BEFORE_ESCAPE);
                escape_rare(weight);
            }
            const double nbits = low_nbits + price(request, &c, weight);
            if (nbits >= choice->nbits)
                continue;
            choice->nbits = nbits;
            choice->split = (lmc_split){.rotation = request->sample->rotation,
                                        .low_nbits = (uint8_t)low_nbits,
                                        .offset = (uint16_t)offset,
                                        .window_start = (uint16_t)window_start};
            memcpy(choice->weight, weight, sizeof weight);
        }
    }
    const int carries = choice->split.low_nbits > 0 && !request->is_low_coded;
    choice->nbits += 8 * (LMC_RANS_HEAD_NBYTES - (carries ? LMC_FMT_RANS_CARRIED_NBYTES : 0)) / block_values;
}
