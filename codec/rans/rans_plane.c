/* rans_plane.c - codes whole planes strip by strip: forwards by a decoder, backwards by an encoder. */
#include "codec/rans/rans_plane.h"

#define STATE_MIN UINT32_C(0x10000)
#define WORD_NBYTES 2

/* ---- encoding ---- */

/* Symbols that the encoder passes to a kernel at once: their words fit the slack of scratch->next_symbols. */
#define ENCODER_STRIP (LMC_STRIP_VALUES / 2)
_Static_assert(LMC_SYMBOLS_SLACK >= ENCODER_STRIP * WORD_NBYTES, "words of a strip do not fit the slack");

size_t lmc_rans_plane_encode(const lmc_kernels *kernels, const lmc_rans *rans, lmc_scratch *scratch,
                             const uint8_t *symbols, size_t n,
                             const uint8_t carried[LMC_FMT_RANS_CARRIED_NBYTES], uint8_t *dst,
                             size_t capacity)
{
    assert(n >= 1 && n <= scratch->value_capacity);
    const size_t nbytes_max = lmc_min_size(capacity, n - 1);
    if (nbytes_max < LMC_RANS_HEAD_NBYTES)
        return 0;
    lmc_rans_out out;
    for (size_t lane = 0; lane < LMC_FMT_RANS_LANE_COUNT; lane++)
        out.state[lane] = STATE_MIN + lmc_load16(carried + WORD_NBYTES * lane);
    const size_t words_nbytes_max = nbytes_max - LMC_RANS_HEAD_NBYTES;
    size_t words_nbytes = 0;
    uint8_t *const end = scratch->next_symbols[0] + scratch->value_capacity + LMC_SYMBOLS_SLACK;
    out.words = end;
    for (size_t left = n; left > 0;) {
        const size_t m = (left - 1) % ENCODER_STRIP + 1; /* the last strip comes first */
        left -= m;
        const unsigned is_missing = kernels->rans_encode(rans->symbols, &out, symbols + left, m);
        words_nbytes = (size_t)(end - out.words);
        if (is_missing || words_nbytes > words_nbytes_max)
            return 0;
    }
    lmc_writer writer = {dst, dst + capacity};
    lmc_write_n(&writer, words_nbytes / WORD_NBYTES, sizeof(uint32_t));
    lmc_write_span(&writer, out.state, sizeof out.state);
    lmc_write_span(&writer, out.words, words_nbytes);
    return LMC_RANS_HEAD_NBYTES + words_nbytes;
}

/* ---- decoding ---- */

/* The symbols. `end`: of the words, `readable`: of what may be read. The last words, which have less than the slack
 * behind them, are read from a copy. */
static lmc_status decode_symbols(const lmc_kernels *kernels, const lmc_rans *rans, lmc_rans_in *in,
                                 const uint8_t *end, const uint8_t *readable, size_t n, uint8_t *symbols,
                                 lmc_diag *diag)
{
    uint8_t copy[2 * LMC_RANS_SLACK];
    for (size_t i = 0; i < n; i += LMC_STRIP_VALUES) {
        if (readable && (size_t)(readable - in->words) < LMC_RANS_SLACK) {
            const size_t left = (size_t)(end - in->words);
            memcpy(copy, in->words, left);
            memset(copy + left, 0, LMC_RANS_SLACK);
            in->words = copy;
            end = copy + left;
            readable = NULL;
        }
        kernels->rans_decode(rans->slots, in, lmc_min_size(n - i, LMC_STRIP_VALUES), symbols + i);
        if (in->words > end)
            return lmc_corrupt(diag, 0, "rANS plane: it has too few words");
    }
    if (in->words != end)
        return lmc_corrupt(diag, 0, "rANS plane: it has too many words");
    return LMC_OK;
}

lmc_status lmc_rans_plane_decode(const lmc_kernels *kernels, const lmc_rans *rans, lmc_reader *reader,
                                 size_t n, uint8_t *symbols, uint8_t carried[LMC_FMT_RANS_CARRIED_NBYTES],
                                 lmc_diag *diag)
{
    lmc_rans_in in;
    const uint64_t word_count = lmc_read_n(reader, sizeof(uint32_t));
    const uint8_t *const states = lmc_read_span(reader, sizeof in.state);
    if (reader->failed)
        return lmc_corrupt(diag, 0, "rANS plane: its head is cut short");
    if (LMC_RANS_HEAD_NBYTES + WORD_NBYTES * word_count >= n)
        return lmc_corrupt(diag, 0, "rANS plane: it is not smaller than its symbols");
    memcpy(in.state, states, sizeof in.state);
    for (size_t lane = 0; lane < LMC_FMT_RANS_LANE_COUNT; lane++)
        if (in.state[lane] < STATE_MIN)
            return lmc_corrupt(diag, 0, "rANS plane: a first state is too small");
    const size_t words_nbytes = (size_t)(WORD_NBYTES * word_count);
    in.words = lmc_read_span(reader, words_nbytes);
    if (!in.words)
        return lmc_corrupt(diag, 0, "rANS plane: its words end early");
    LMC_TRY(decode_symbols(kernels, rans, &in, in.words + words_nbytes, reader->end, n, symbols, diag));
    for (size_t lane = 0; lane < LMC_FMT_RANS_LANE_COUNT; lane++) {
        const uint32_t state = in.state[lane];
        if (state >= 2 * STATE_MIN)
            return lmc_corrupt(diag, 0, "rANS plane: a last state is too large");
        lmc_store16(carried + WORD_NBYTES * lane, (uint16_t)state);
    }
    return LMC_OK;
}
