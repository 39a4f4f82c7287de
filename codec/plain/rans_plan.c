/* rans_plan.c - tries low bits and offsets by the entropy of the symbols that they leave. */
#include "codec/plain/rans_plan.h"

#include "codec/common/entropy.h"
#include "codec/rans/rans_plane.h"

/* log2 of the offsets that are tried for a bin. A sample tells no more apart than LMC_SAMPLE_HIGH_NBITS_MAX. */
#define OFFSETS_LOG2 5

/* Symbols without an escape, and what an escape takes. */
#define WINDOW_SYMBOLS LMC_FMT_SYMBOL_ESCAPE
#define ESCAPE_NBITS 16

/* About what the frequency of a symbol takes in the table. */
#define FREQUENCY_NBITS 9

/* The weights of the symbols from window_start on. The escapes are one symbol, which an encoder may need. */
static void weigh(const lmc_symbol_counts *c, uint32_t window_start, uint32_t weight[256])
{
    const uint32_t count = c->symbol_mask < 255 ? c->symbol_mask + 1 : 256;
    uint32_t before = lmc_values_before_symbol(c, window_start);
    memset(weight, 0, 256 * sizeof *weight);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t up_to = lmc_values_before_symbol(c, window_start + i + 1);
        weight[i] = up_to - before;
        before = up_to;
    }
    if (c->symbol_mask > 255)
        weight[LMC_FMT_SYMBOL_ESCAPE] = c->total - lmc_values_in_window(c, window_start, WINDOW_SYMBOLS);
}

/* What weights take, in bits a value, without low bits. */
static double price(const lmc_rans_request *request, const lmc_symbol_counts *c, const uint32_t weight[256])
{
    unsigned used;
    const double entropy = lmc_counts_entropy(weight, 256, &used);
    const double escapes = c->symbol_mask > 255 ? (double)weight[LMC_FMT_SYMBOL_ESCAPE] / c->total : 0;
    return entropy + escapes * ESCAPE_NBITS + FREQUENCY_NBITS * used / (double)request->sample->value_count;
}

/* A sample may lack symbols of the tensor. Escapes serve where there are some; elsewhere the neighbours of symbols that
 * were seen get a place. */
static void add_unseen(const lmc_rans_request *request, const lmc_split *split, uint32_t weight[256])
{
    const unsigned symbol_nbits = request->sums->high_nbits - split->low_nbits;
    if (symbol_nbits > 8) {
        weight[LMC_FMT_SYMBOL_ESCAPE] += weight[LMC_FMT_SYMBOL_ESCAPE] == 0;
        return;
    }
    if (request->sample->is_exact)
        return;
    uint8_t is_seen[258] = {0};
    for (unsigned i = 0; i < 256; i++)
        is_seen[i + 1] = weight[i] > 0;
    for (unsigned i = 0; i < 1u << symbol_nbits; i++)
        weight[i] += weight[i] == 0 && (is_seen[i] || is_seen[i + 2]);
}

void lmc_rans_choose(const lmc_rans_request *request, lmc_rans_choice *choice)
{
    const lmc_high_sums *const sums = request->sums;
    const double block_values = (double)lmc_min_u64(request->block_values, request->sample->value_count);
    uint32_t weight[256], best_weight[256] = {1};
    const unsigned sign_place = request->element_nbytes == 1 && request->sample->rotation;
    choice->nbits = 1e9;
    for (unsigned low_nbits = request->low_first; low_nbits <= request->low_last; low_nbits++) {
        const unsigned bin = 1u << low_nbits;
        const unsigned finest = 1u << sums->finest_log2 << sign_place;
        const unsigned step = bin >> OFFSETS_LOG2 > finest ? bin >> OFFSETS_LOG2 : finest;
        for (unsigned offset = 0; offset == 0 || (request->may_move && offset < bin); offset += step) {
            const lmc_symbol_counts c = lmc_symbol_counts_of(sums, low_nbits, offset);
            const uint32_t window_start =
                c.symbol_mask > 255 ? lmc_symbol_counts_best_window(&c, WINDOW_SYMBOLS) : 0;
            weigh(&c, window_start, weight);
            const double nbits = low_nbits + price(request, &c, weight);
            if (nbits >= choice->nbits)
                continue;
            choice->nbits = nbits;
            choice->split = (lmc_split){.rotation = request->sample->rotation,
                                        .low_nbits = (uint8_t)low_nbits,
                                        .offset = (uint16_t)offset,
                                        .window_start = (uint16_t)window_start};
            memcpy(best_weight, weight, sizeof weight);
        }
    }
    add_unseen(request, &choice->split, best_weight);
    lmc_rans_normalize(best_weight, choice->frequency);
    const int carries = choice->split.low_nbits > 0;
    choice->nbits += 8 * (LMC_RANS_HEAD_NBYTES - (carries ? LMC_FMT_RANS_CARRIED_NBYTES : 0)) / block_values;
}
