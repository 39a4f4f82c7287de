/* code_table.c - constructs and checks canonical codes; writes and reads them as a length number for each symbol. */
#include "codec/prefix/code_table.h"

#define UNIT (1u << LMC_FMT_LAYER_NBITS_MAX) /* the unit interval in steps of the longest code */

/* ---- construction ---- */

/* Entries of one layer by code length; the continuation is an entry too. */
typedef struct length_count {
    unsigned symbols[LMC_FMT_LAYER_NBITS_MAX + 1];
    unsigned continuation_nbits; /* 0: none */
} length_count;

/* A symbol with a code. */
typedef struct coded_symbol {
    uint8_t symbol, layer, nbits;
} coded_symbol;

/* Lists the symbols with a code, in order, and counts their lengths. Returns how many there are. */
static unsigned list_symbols(const lmc_code_shape *shape, coded_symbol list[256],
                             length_count counts[LMC_FMT_LAYER_COUNT_MAX])
{
    unsigned n = 0;
    memset(counts, 0, shape->layer_count * sizeof *counts);
    for (unsigned first = 0; first < 256; first += sizeof(uint64_t)) {
        if (lmc_load64(shape->nbits + first) == 0) /* most symbols have no code */
            continue;
        for (unsigned s = first; s < first + sizeof(uint64_t); s++) {
            if (shape->nbits[s] == 0)
                continue;
            list[n++] = (coded_symbol){(uint8_t)s, shape->layer[s], shape->nbits[s]};
            counts[shape->layer[s]].symbols[shape->nbits[s]]++;
        }
    }
    return n;
}

static unsigned entries_of_length(const length_count *count, unsigned nbits)
{
    return count->symbols[nbits] + (count->continuation_nbits == nbits);
}

/* Finds what the symbols of a layer leave to the continuation, and checks the layer. */
static lmc_status check_layer(const lmc_code_shape *shape, unsigned layer, length_count *count,
                              lmc_diag *diag)
{
    const unsigned first = shape->first_nbits[layer];
    const unsigned last = shape->last_nbits[layer];
    unsigned used = 0;
    for (unsigned nbits = 1; nbits <= LMC_FMT_LAYER_NBITS_MAX; nbits++)
        used += count->symbols[nbits] * (UNIT >> nbits);
    if (used > UNIT)
        return lmc_corrupt(diag, 0, "layer %u of a code has more codes than there are", layer);
    const unsigned left = UNIT - used;
    if ((left & (left - 1)) != 0)
        return lmc_corrupt(diag, 0, "layer %u of a code is not complete", layer);
    if (left != 0)
        count->continuation_nbits = LMC_FMT_LAYER_NBITS_MAX - lmc_lowest_bit(left);
    if (count->continuation_nbits == 0 && layer + 1 < shape->layer_count)
        return lmc_corrupt(diag, 0, "layer %u of a code has no continuation", layer);
    if (count->continuation_nbits != 0 &&
        (count->continuation_nbits < first || count->continuation_nbits > last))
        return lmc_corrupt(diag, 0, "layer %u of a code has a continuation outside its lengths", layer);
    if (entries_of_length(count, first) == 0 || entries_of_length(count, last) == 0)
        return lmc_corrupt(diag, 0, "layer %u of a code names lengths it does not use", layer);
    return LMC_OK;
}

/* Divides the codes of a layer in order of length, then symbol; the continuation is the last of its length. next: the
 * first code of each length. */
static void divide_codes(const lmc_code_shape *shape, unsigned index, const length_count *count,
                         lmc_layer *layer, unsigned next[LMC_FMT_LAYER_NBITS_MAX + 1])
{
    unsigned code = 0;
    memset(layer, 0, sizeof *layer);
    layer->first_nbits = shape->first_nbits[index];
    layer->last_nbits = shape->last_nbits[index];
    layer->has_continuation = count->continuation_nbits != 0;
    for (unsigned nbits = layer->first_nbits; nbits <= layer->last_nbits; nbits++) {
        const unsigned step = UNIT >> nbits;
        next[nbits] = code;
        code += count->symbols[nbits] * step;
        if (count->continuation_nbits == nbits) {
            layer->continuation = (uint8_t)code;
            code += step;
        }
        if (nbits < layer->last_nbits)
            layer->threshold[nbits] = (uint8_t)code;
    }
    memset(layer->code, layer->continuation, sizeof layer->code); /* 0 without a continuation */
}

lmc_status lmc_table_build(const lmc_code_shape *shape, lmc_table *table, lmc_diag *diag)
{
    coded_symbol list[256];
    length_count counts[LMC_FMT_LAYER_COUNT_MAX];
    unsigned next[LMC_FMT_LAYER_COUNT_MAX][LMC_FMT_LAYER_NBITS_MAX + 1]; /* code of each length */
    unsigned before[LMC_FMT_LAYER_COUNT_MAX]; /* bits of the codes that pass a symbol on to a layer */
    unsigned passed_nbits = 0;
    const unsigned symbol_count = list_symbols(shape, list, counts);
    table->layer_count = shape->layer_count;
    table->has_literals = 0;
    for (unsigned i = 0; i < shape->layer_count; i++) {
        LMC_TRY(check_layer(shape, i, &counts[i], diag));
        divide_codes(shape, i, &counts[i], &table->layers[i], next[i]);
        before[i] = passed_nbits;
        passed_nbits += counts[i].continuation_nbits;
        table->has_literals = counts[i].continuation_nbits != 0;
    }
    memset(table->is_coded, 0, sizeof table->is_coded);
    memset(table->code_nbits, (int)passed_nbits, sizeof table->code_nbits);
    for (unsigned k = 0; k < symbol_count; k++) {
        const coded_symbol c = list[k];
        lmc_layer *const layer = &table->layers[c.layer];
        const unsigned code = next[c.layer][c.nbits];
        next[c.layer][c.nbits] += UNIT >> c.nbits;
        table->is_coded[c.symbol] = 1;
        table->code_nbits[c.symbol] = (uint8_t)(before[c.layer] + c.nbits);
        layer->code[c.symbol] = (uint8_t)code;
        memset(layer->symbol + code, c.symbol, UNIT >> c.nbits);
    }
    for (unsigned i = 0; i < shape->layer_count; i++) {
        const uint8_t *const code = table->layers[i].code;
        table->layers[i].narrow = memcmp(code + 127, code + 128, 128) == 0;
    }
    return LMC_OK;
}

/* ---- wire: number of layers, a byte of lengths for each, the range of symbols, a length number for each of those
 * ---- */

/* Bits of a length number, 1..count; 0 is a symbol without a code. */
static unsigned length_number_nbits(unsigned count)
{
    unsigned nbits = 0;
    while (count >> nbits != 0)
        nbits++;
    return nbits;
}

double lmc_table_cost_nbits(const lmc_table *table, const uint32_t histogram[256], unsigned left_out)
{
    double nbits = 0;
    for (unsigned s = 0; s < 256; s++) {
        if (histogram[s] == 0 || s == left_out)
            continue;
        if (!table->is_coded[s] && !table->has_literals)
            return 1e300;
        nbits += (double)histogram[s] * (table->code_nbits[s] + (table->is_coded[s] ? 0 : 8));
    }
    return nbits;
}

void lmc_table_write(const lmc_code_shape *shape, lmc_writer *writer)
{
    unsigned number_of_0[LMC_FMT_LAYER_COUNT_MAX]; /* of length 0 in a layer, if there were one */
    unsigned first_symbol = 0, last_symbol = 255;  /* the range that has a length number in the table */
    unsigned next_number = 1;
    lmc_write_n(writer, shape->layer_count, 1);
    for (unsigned i = 0; i < shape->layer_count; i++) {
        lmc_write_n(writer, shape->first_nbits[i] | (unsigned)shape->last_nbits[i] << 4, 1);
        number_of_0[i] = next_number - shape->first_nbits[i];
        next_number += shape->last_nbits[i] - shape->first_nbits[i] + 1u;
    }
    while (first_symbol < 255 && shape->nbits[first_symbol] == 0)
        first_symbol++;
    while (last_symbol > first_symbol && shape->nbits[last_symbol] == 0)
        last_symbol--;
    lmc_write_n(writer, first_symbol, 1);
    lmc_write_n(writer, last_symbol, 1);

    const unsigned width = length_number_nbits(next_number - 1);
    uint8_t packed[LMC_LENGTH_NUMBERS_NBYTES_MAX + sizeof(uint64_t)];
    lmc_bit_writer bits = {packed, 0, 0};
    for (unsigned s = first_symbol; s <= last_symbol; s++)
        lmc_put_bits(&bits, shape->nbits[s] ? number_of_0[shape->layer[s]] + shape->nbits[s] : 0, width);
    const size_t nbytes = lmc_bits_nbytes((last_symbol - first_symbol + 1) * width);
    lmc_store64(bits.next, bits.pending);
    lmc_write_span(writer, packed, nbytes);
}

static lmc_status read_lengths(lmc_reader *reader, lmc_code_shape *shape, lmc_diag *diag)
{
    const unsigned first_symbol = (unsigned)lmc_read_n(reader, 1);
    const unsigned last_symbol = (unsigned)lmc_read_n(reader, 1);
    unsigned count = 0; /* lengths of all layers, each of which has a length number */
    for (unsigned i = 0; i < shape->layer_count; i++)
        count += shape->last_nbits[i] - shape->first_nbits[i] + 1u;
    const unsigned width = length_number_nbits(count);
    if (!reader->failed && first_symbol > last_symbol)
        return lmc_corrupt(diag, 1 + shape->layer_count, "a code table's symbols run backwards");
    const size_t total_nbits = (size_t)(last_symbol - first_symbol + 1) * width;
    const uint8_t *const packed = reader->failed ? NULL : lmc_read_span(reader, lmc_bits_nbytes(total_nbits));
    if (!packed)
        return lmc_corrupt(diag, 1 + shape->layer_count, "a code table is cut short");
    for (size_t i = 0; i < 8 * lmc_bits_nbytes(total_nbits); i += width) {
        unsigned number = 0;
        for (size_t b = i; b < i + width && b < 8 * lmc_bits_nbytes(total_nbits); b++)
            number |= (unsigned)(packed[b / 8] >> b % 8 & 1) << (b - i);
        if (number > count || (i >= total_nbits && number != 0))
            return lmc_corrupt(diag, 3 + shape->layer_count + i / 8,
                               "a code table has a length number that does not exist");
        if (number == 0)
            continue;
        const unsigned symbol = first_symbol + (unsigned)(i / width);
        unsigned layer = 0, index = number - 1;
        while (index > (unsigned)(shape->last_nbits[layer] - shape->first_nbits[layer])) {
            index -= shape->last_nbits[layer] - shape->first_nbits[layer] + 1u;
            layer++;
        }
        shape->layer[symbol] = (uint8_t)layer;
        shape->nbits[symbol] = (uint8_t)(shape->first_nbits[layer] + index);
    }
    if (shape->nbits[first_symbol] == 0 || shape->nbits[last_symbol] == 0)
        return lmc_corrupt(diag, 1 + shape->layer_count,
                           "a code table's range begins or ends with a symbol without a code");
    return LMC_OK;
}

lmc_status lmc_table_read(lmc_reader *reader, lmc_table *table, lmc_diag *diag)
{
    lmc_code_shape shape = {0};
    shape.layer_count = (unsigned)lmc_read_n(reader, 1);
    if (reader->failed)
        return lmc_corrupt(diag, 0, "a code table is cut short");
    if (shape.layer_count == 0 || shape.layer_count > LMC_FMT_LAYER_COUNT_MAX)
        return lmc_corrupt(diag, 0, "a code table has %u layers", shape.layer_count);
    for (unsigned i = 0; i < shape.layer_count; i++) {
        const unsigned lengths = (unsigned)lmc_read_n(reader, 1);
        const unsigned first = lengths & 15, last = lengths >> 4;
        if (reader->failed)
            return lmc_corrupt(diag, 1 + i, "a code table is cut short");
        if (first == 0 || first > last || last > LMC_FMT_LAYER_NBITS_MAX)
            return lmc_corrupt(diag, 1 + i, "layer %u of a code has lengths %u to %u", i, first, last);
        shape.first_nbits[i] = (uint8_t)first;
        shape.last_nbits[i] = (uint8_t)last;
    }
    LMC_TRY(read_lengths(reader, &shape, diag));
    return lmc_table_build(&shape, table, diag);
}
