/* test_kernels_rans.c - the rANS kernels of every set against the reference, as test_kernels.c does it. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "lmc_test.h"
#include "lmc_test_kernels.h"
#include "lmc_test_rans.h"

#define LANE_COUNT LMC_FMT_RANS_LANE_COUNT

static lmc_rans rans;

/* States of a stream, or the least and the greatest. */
static void random_states(uint32_t state[LANE_COUNT])
{
    static const uint32_t extremes[] = {0x10000,    0x10001,    0x1ffff,   0x20000,
                                        0x7fffffff, 0x80000000, UINT32_MAX};
    for (size_t lane = 0; lane < LANE_COUNT; lane++)
        state[lane] = random_below(4) ? (uint32_t)(random_u64() >> (32 + random_below(16))) | 0x10000
                                      : extremes[random_below(LMC_COUNT(extremes))];
}

/* ---- decoding ---- */

/* Any words and states, in calls of whole groups. */
static int decode_case(const lmc_kernels *k, size_t n, placement place)
{
    uint8_t *const words = take(2 * n + LMC_RANS_SLACK, place);
    uint8_t *const expected = take(padded(n), AT_END), *const found = take(padded(n), place);
    lmc_rans_slot *const slots = (lmc_rans_slot *)(void *)take(sizeof rans.slots, AT_END);
    lmc_rans_in in, reference;
    int good = 1;
    random_fill(words, 2 * n + LMC_RANS_SLACK);
    memcpy(slots, rans.slots, sizeof rans.slots);
    random_states(in.state);
    in.words = words;
    reference = in;
    for (size_t i = 0; i < n;) {
        const size_t step = lmc_min_size(64 * (1 + random_below(40)), lmc_min_size(n - i, LMC_STRIP_VALUES));
        lmc_kernels_scalar.rans_decode(slots, &reference, step, expected + i);
        k->rans_decode(slots, &in, step, found + i);
        good &= in.words == reference.words && in.words <= words + 2 * (i + step);
        good &= memcmp(in.state, reference.state, sizeof in.state) == 0;
        i += step;
    }
    for (size_t lane = 0; lane < LANE_COUNT; lane++)
        good &= in.state[lane] >= 0x10000;
    good &= n == 0 || memcmp(expected, found, n) == 0;
    return good & release_all();
}

LMC_SETS_TEST(test_rans_decode)
{
    for (unsigned kind = 0; kind < RANS_KIND_COUNT; kind++) {
        for (size_t n = 0; n <= SIZE_MAX_TRIED; n = next_size(n)) {
            random_rans((rans_kind)kind, &rans);
            CU_ASSERT(decode_case(k, n, (placement)random_below(3)));
        }
    }
}

/* ---- encoding ---- */

/* One symbol by division. */
static void encode_symbol(unsigned symbol, uint32_t *state, uint8_t **words)
{
    const uint64_t frequency = rans.frequency[symbol];
    if (*state >= frequency << 20) {
        *words -= 2;
        lmc_store16(*words, (uint16_t)*state);
        *state >>= 16;
    }
    *state = (uint32_t)((*state / frequency << 12) + *state % frequency + rans.symbols[symbol].start);
}

/* Encodes n symbols from the last to the first, in calls of whole groups. */
static int encode_case(const lmc_kernels *k, size_t n, placement place)
{
    uint8_t *const expected = take(2 * n, AT_END), *const found = take(2 * n, place);
    uint8_t *const symbols = take(padded(n), place);
    lmc_rans_symbol *const table = (lmc_rans_symbol *)(void *)take(sizeof rans.symbols, AT_END);
    lmc_rans_out out, reference;
    int good = 1;
    memcpy(table, rans.symbols, sizeof rans.symbols);
    random_rans_symbols(&rans, symbols, n);
    random_states(out.state);
    reference = out;
    out.words = found + 2 * n;
    reference.words = expected + 2 * n;
    for (size_t i = n; i-- > 0;)
        encode_symbol(symbols[i], &reference.state[i % LANE_COUNT], &reference.words);
    for (size_t left = n; left > 0;) {
        const size_t step = (left - 1) % 64 + 1 + 64 * random_below(1 + (unsigned)(left - 1) / 64);
        good &= k->rans_encode(table, &out, symbols + left - step, step) == 0;
        left -= step;
    }
    const size_t nbytes = (size_t)(expected + 2 * n - reference.words);
    good &= (size_t)(found + 2 * n - out.words) == nbytes && memcmp(out.words, reference.words, nbytes) == 0;
    good &= memcmp(out.state, reference.state, sizeof out.state) == 0;
    return good & release_all();
}

LMC_SETS_TEST(test_rans_encode)
{
    for (unsigned kind = 0; kind < RANS_KIND_COUNT; kind++) {
        for (size_t n = 0; n <= SIZE_MAX_TRIED; n = next_size(n)) {
            random_rans((rans_kind)kind, &rans);
            CU_ASSERT(encode_case(k, n, (placement)random_below(3)));
        }
    }
}

/* Two symbols share the total in every way. States are multiples of a frequency and their neighbours, up to the largest
 * one that needs no word and the smallest that does. */
LMC_SETS_TEST(test_rans_encode_divides_exactly)
{
    uint8_t symbols[LANE_COUNT], words[2 * LANE_COUNT], expected[2 * LANE_COUNT];
    for (unsigned frequency = 1; frequency < LMC_FMT_RANS_TOTAL; frequency++) {
        memset(&rans, 0, sizeof rans);
        rans.frequency[7] = (uint16_t)frequency;
        rans.frequency[200] = (uint16_t)(LMC_FMT_RANS_TOTAL - frequency);
        lmc_rans_set_symbols(&rans);
        lmc_rans_out out = {.words = words + sizeof words}, reference;
        for (size_t lane = 0; lane < LANE_COUNT; lane++) {
            symbols[lane] = lane < LANE_COUNT / 2 ? 7 : 200;
            const uint64_t f = rans.frequency[symbols[lane]];
            const uint64_t quotient = lane % 4 ? random_below(1 << 20) + 1 : 1 << 20;
            const uint64_t x = quotient * f - lane / 4 % 2;
            out.state[lane] = (uint32_t)(x < 0x10000      ? (f << 20) - 1 - lane
                                         : x > UINT32_MAX ? UINT32_MAX
                                                          : x);
        }
        reference = out;
        reference.words = expected + sizeof expected;
        for (size_t lane = LANE_COUNT; lane-- > 0;)
            encode_symbol(symbols[lane], &reference.state[lane], &reference.words);
        CU_ASSERT_EQUAL(k->rans_encode(rans.symbols, &out, symbols, LANE_COUNT), 0);
        CU_ASSERT_EQUAL(memcmp(out.state, reference.state, sizeof out.state), 0);
        const size_t nbytes = (size_t)(expected + sizeof expected - reference.words);
        CU_ASSERT_EQUAL_FATAL((size_t)(words + sizeof words - out.words), nbytes);
        CU_ASSERT_EQUAL(memcmp(out.words, reference.words, nbytes), 0);
    }
}

LMC_SETS_TEST(test_rans_encode_finds_symbols_without_a_frequency)
{
    uint8_t symbols[256], words[2 * 256];
    for (size_t n = 1; n <= sizeof symbols; n++) {
        random_rans(RANS_FEW, &rans);
        random_rans_symbols(&rans, symbols, n);
        lmc_rans_out out = {.words = words + sizeof words};
        unsigned missing = random_below(256);
        while (rans.frequency[missing] > 0)
            missing = random_below(256);
        symbols[random_below((unsigned)n)] = (uint8_t)missing;
        random_states(out.state);
        CU_ASSERT_NOT_EQUAL(k->rans_encode(rans.symbols, &out, symbols, n), 0);
        CU_ASSERT(out.words >= words + sizeof words - 2 * n);
    }
}

LMC_TEST_MAIN("kernels_rans")
