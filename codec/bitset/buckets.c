/* buckets.c - rungs are layers of a canonical code whose first plane is a set of flags. */
#include "codec/bitset/buckets.h"

#include "codec/bitset/bitset.h"
#include "codec/prefix/code_table.h"

/* Rung r holds 2^rung_nbits[r] symbols, from where the one before it ends. */
static const uint8_t rung_nbits[LMC_FMT_BUCKET_COUNT] = {0, 1, 1, 1, 2, 2, 3, 3, 5};

unsigned lmc_rung_nbits(unsigned rung)
{
    return rung_nbits[rung];
}

unsigned lmc_rung_first(unsigned rung)
{
    unsigned first = 0;
    for (unsigned r = 0; r < rung; r++)
        first += 1u << rung_nbits[r];
    return first;
}

/* A code of one layer: the rung's symbols in codes of one length, and a list for all others. */
static void init_rung(unsigned rung, lmc_layer *layer)
{
    const unsigned nbits = rung_nbits[rung];
    const unsigned first = lmc_rung_first(rung);
    lmc_code_shape shape = {.layer_count = 1, .first_nbits = {1}, .last_nbits = {(uint8_t)(1 + nbits)}};
    lmc_table table;
    for (unsigned i = 0; i < 1u << nbits; i++)
        shape.nbits[first + i] = (uint8_t)(1 + nbits);
    const lmc_status status = lmc_table_build(&shape, &table, NULL);
    assert(status == LMC_OK);
    (void)status;
    *layer = table.layers[0];
}

void lmc_ladder_init(lmc_ladder *ladder)
{
    for (unsigned r = 0; r < LMC_FMT_BUCKET_COUNT; r++)
        init_rung(r, &ladder->rungs[r]);
}

/* ---- encode ---- */

/* One rung: its flags, and what tells its symbols apart. Those that go on are left in `list`, *list_count of
 * them. Returns 0 when there is no room. */
static int encode_rung(const lmc_layer *layer, const lmc_kernels *kernels, lmc_scratch *scratch,
                       const uint8_t *symbols, size_t n, uint8_t *list, size_t *list_count,
                       lmc_writer *writer)
{
    uint64_t *const flags = scratch->flags;
    lmc_levels_out out = {.full = {(uint8_t *)flags}, .list = list};
    for (unsigned j = 1; j < layer->last_nbits; j++)
        out.partial[j] = (lmc_bit_writer){scratch->partial[j], 0, 0};
    flags[n / 64] = 0;
    kernels->levels_encode(layer, symbols, n, &out);
    if (layer->last_nbits > 1) /* then the list's code is the one that begins with 0 */
        lmc_flags_invert(flags, n);
    *list_count = (size_t)(out.list - list);
    size_t nbytes = lmc_flags_encode(kernels, scratch, flags, n, writer->next, lmc_writer_left(writer));
    writer->next += nbytes;
    const size_t plane_nbytes = lmc_bits_nbytes(n - *list_count);
    if (nbytes == 0 || plane_nbytes * (layer->last_nbits - 1u) > lmc_writer_left(writer))
        return 0;
    for (unsigned j = 1; j < layer->last_nbits; j++) {
        lmc_store64(out.partial[j].next, out.partial[j].pending);
        lmc_write_span(writer, scratch->partial[j], plane_nbytes);
    }
    return 1;
}

size_t lmc_ladder_encode(const lmc_ladder *ladder, const lmc_kernels *kernels, lmc_scratch *scratch,
                         const uint8_t *symbols, size_t n, uint8_t *dst, size_t capacity)
{
    lmc_writer writer = {dst, dst + capacity};
    for (unsigned r = 0; r < LMC_FMT_BUCKET_COUNT && n >= LMC_FMT_BUCKET_VALUES_MIN; r++) {
        uint8_t *const list = scratch->list[r % 2];
        size_t list_count;
        if (!encode_rung(&ladder->rungs[r], kernels, scratch, symbols, n, list, &list_count, &writer))
            return 0;
        symbols = list;
        n = list_count;
    }
    if (n > lmc_writer_left(&writer))
        return 0;
    lmc_write_span(&writer, symbols, n);
    return (size_t)(writer.next - dst);
}

/* ---- decode ---- */

static lmc_status corrupt(lmc_diag *diag, const char *what)
{
    return lmc_fail(diag, LMC_ERR_CORRUPT, 0, "ladder: %s", what);
}

/* One rung while it is read. */
typedef struct rung_reader {
    const lmc_layer *layer;
    lmc_levels_in in;
    size_t n; /* symbols that reach it */
} rung_reader;

/* Reads the planes of a rung of n symbols; *flags: room for its flags, moved behind them. Returns through
 * *list_count how many go on. */
static lmc_status read_rung(rung_reader *rung, const lmc_kernels *kernels, lmc_scratch *scratch,
                            lmc_source *source, uint64_t **flags, size_t *list_count, lmc_diag *diag)
{
    const size_t n = rung->n;
    const lmc_status status = lmc_flags_decode(kernels, scratch, &source->reader, n, *flags, diag);
    if (status != LMC_OK)
        return status;
    *list_count = lmc_flags_count(kernels, *flags, n);
    if (rung->layer->last_nbits > 1)
        lmc_flags_invert(*flags, n);
    rung->in.full[0] = (const uint8_t *)*flags;
    *flags += lmc_bitset_words(n) + LMC_PLANE_SLACK / sizeof **flags;
    for (unsigned j = 1; j < rung->layer->last_nbits; j++) {
        rung->in.partial[j] = lmc_source_bits(source, n - *list_count);
        rung->in.position[j] = 0;
        if (!rung->in.partial[j])
            return corrupt(diag, "a plane ends early or has spare bits set");
    }
    return LMC_OK;
}

lmc_status lmc_ladder_decode(const lmc_ladder *ladder, const lmc_kernels *kernels, lmc_scratch *scratch,
                             lmc_source *source, size_t n, uint8_t *symbols, lmc_diag *diag)
{
    rung_reader rungs[LMC_FMT_BUCKET_COUNT];
    uint64_t *flags = scratch->rung_flags;
    unsigned count = 0;
    const size_t symbol_count = n;
    while (count < LMC_FMT_BUCKET_COUNT && n >= LMC_FMT_BUCKET_VALUES_MIN) {
        rung_reader *const rung = &rungs[count];
        rung->layer = &ladder->rungs[count];
        rung->n = n;
        const lmc_status status = read_rung(rung, kernels, scratch, source, &flags, &n, diag);
        if (status != LMC_OK)
            return status;
        count++;
    }
    const uint8_t *list = lmc_source_plane(source, n, LMC_LIST_SLACK);
    if (!list)
        return corrupt(diag, "its last list ends early");
    if (count == 0)
        memcpy(symbols, list, symbol_count);
    while (count-- > 0) {
        rung_reader *const rung = &rungs[count];
        uint8_t *const out = count == 0 ? symbols : scratch->list[count % 2];
        rung->in.list = list;
        for (size_t i = 0; i < rung->n; i += LMC_STRIP_VALUES)
            kernels->levels_decode(rung->layer, &rung->in, lmc_min_size(rung->n - i, LMC_STRIP_VALUES),
                                   out + i);
        list = out;
    }
    return LMC_OK;
}
