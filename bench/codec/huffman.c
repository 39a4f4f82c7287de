/*
 * huffman.c - a Huffman coder of bytes, in blocks of 64 KiB with a code each: the scheme that arXiv 2505.09810 applies
 * to byte groups. The paper does not give its format. Here, digits 1 and 2 of base two count a run of zeros, as in
 * bzip2. Codes have 12 bits at most. The decoder reads one stream with a table of 4096 entries, up to four symbols a
 * refill. This is plain C without tuning.
 *
 *   block: u8 kind (0 all zeros, 1 as it is, 2 coded); coded: u24 bytes that follow, code lengths, bits.
 *   code lengths: nibbles of the 257 symbols, low one first; after a 0 stands one less than the number of zeros.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/codec/bench.h"

#define BLOCK_NBYTES 65536
#define SYMBOL_COUNT 257 /* 0, 1: digits of a run of zeros; b + 1: byte b */
#define CODE_NBITS_MAX 12
#define TABLE_COUNT (1 << CODE_NBITS_MAX)

enum { KIND_ZEROS, KIND_PLAIN, KIND_CODED };

/* ---- runs of zeros ---- */

static size_t put_run(size_t run, uint16_t *symbols)
{
    size_t n = 0;
    for (; run > 0; run = (run - 1) >> 1)
        symbols[n++] = (uint16_t)((run - 1) & 1);
    return n;
}

static size_t to_symbols(const uint8_t *src, size_t nbytes, uint16_t *symbols, uint32_t *counts)
{
    size_t n = 0, run = 0;
    for (size_t i = 0; i < nbytes; i++) {
        if (src[i] == 0) {
            run++;
            continue;
        }
        if (run)
            n += put_run(run, symbols + n);
        run = 0;
        symbols[n++] = (uint16_t)(src[i] + 1);
    }
    n += put_run(run, symbols + n);
    for (size_t i = 0; i < n; i++)
        counts[symbols[i]]++;
    return n;
}

/* ---- codes ---- */

typedef struct leaf {
    uint32_t count;
    uint16_t symbol;
} leaf;

static int by_count(const void *a, const void *b)
{
    const leaf *const x = a, *const y = b;
    return x->count != y->count ? (x->count > y->count) - (x->count < y->count) : x->symbol - y->symbol;
}

/* Lengths of a Huffman code of n >= 2 leaves in rising order; returns the longest. */
static unsigned tree_lengths(const leaf *leaves, unsigned n, uint8_t *lengths)
{
    uint32_t weight[2 * SYMBOL_COUNT];
    uint16_t parent[2 * SYMBOL_COUNT];
    uint8_t depth[2 * SYMBOL_COUNT];
    unsigned next_leaf = 0, next_node = n;
    for (unsigned node = n; node < 2 * n - 1; node++) {
        weight[node] = 0;
        for (unsigned side = 0; side < 2; side++) {
            const int is_leaf =
                next_leaf < n && (next_node == node || leaves[next_leaf].count <= weight[next_node]);
            const unsigned child = is_leaf ? next_leaf++ : next_node++;
            weight[node] += is_leaf ? leaves[child].count : weight[child];
            parent[child] = (uint16_t)node;
        }
    }
    unsigned longest = 0;
    depth[2 * n - 2] = 0;
    for (unsigned node = 2 * n - 2; node-- > 0;) {
        depth[node] = (uint8_t)(depth[parent[node]] + 1);
        if (node < n) {
            lengths[leaves[node].symbol] = depth[node];
            longest = depth[node] > longest ? depth[node] : longest;
        }
    }
    return longest;
}

static void code_lengths(const uint32_t *counts, uint8_t *lengths)
{
    leaf leaves[SYMBOL_COUNT];
    unsigned n = 0;
    memset(lengths, 0, SYMBOL_COUNT);
    for (unsigned s = 0; s < SYMBOL_COUNT; s++)
        if (counts[s])
            leaves[n++] = (leaf){counts[s], (uint16_t)s};
    if (n == 1) {
        lengths[leaves[0].symbol] = 1;
        return;
    }
    qsort(leaves, n, sizeof leaves[0], by_count);
    while (tree_lengths(leaves, n, lengths) > CODE_NBITS_MAX) /* halving keeps the order */
        for (unsigned i = 0; i < n; i++)
            leaves[i].count = (leaves[i].count + 1) / 2;
}

/* Canonical codes, first bit lowest. */
static void make_codes(const uint8_t *lengths, uint16_t *codes)
{
    unsigned next = 0;
    for (unsigned nbits = 1; nbits <= CODE_NBITS_MAX; nbits++) {
        next <<= 1;
        for (unsigned s = 0; s < SYMBOL_COUNT; s++) {
            if (lengths[s] != nbits)
                continue;
            unsigned reversed = 0;
            for (unsigned b = 0; b < nbits; b++)
                reversed |= (next >> b & 1) << (nbits - 1 - b);
            codes[s] = (uint16_t)reversed;
            next++;
        }
    }
}

static size_t put_lengths(const uint8_t *lengths, uint8_t *dst)
{
    size_t nibbles = 0;
    memset(dst, 0, SYMBOL_COUNT);
    for (unsigned s = 0; s < SYMBOL_COUNT;) {
        unsigned run = 0;
        while (run < 16 && s + run < SYMBOL_COUNT && lengths[s + run] == 0)
            run++;
        if (run == 0) {
            dst[nibbles / 2] |= (uint8_t)(lengths[s++] << nibbles % 2 * 4);
            nibbles++;
            continue;
        }
        nibbles++; /* a 0 is there */
        dst[nibbles / 2] |= (uint8_t)((run - 1) << nibbles % 2 * 4);
        nibbles++;
        s += run;
    }
    return (nibbles + 1) / 2;
}

static size_t get_lengths(const uint8_t *src, uint8_t *lengths)
{
    size_t nibbles = 0;
    memset(lengths, 0, SYMBOL_COUNT);
    for (unsigned s = 0; s < SYMBOL_COUNT; nibbles++) {
        const unsigned nibble = src[nibbles / 2] >> nibbles % 2 * 4 & 15;
        if (nibble) {
            lengths[s++] = (uint8_t)nibble;
            continue;
        }
        nibbles++;
        s += (src[nibbles / 2] >> nibbles % 2 * 4 & 15) + 1u;
    }
    return (nibbles + 1) / 2;
}

/* ---- blocks ---- */

static size_t put_bits(const uint16_t *symbols, size_t n, const uint8_t *lengths, uint8_t *dst)
{
    uint16_t codes[SYMBOL_COUNT];
    uint64_t bits = 0;
    unsigned nbits = 0;
    uint8_t *at = dst;
    make_codes(lengths, codes);
    for (size_t i = 0; i < n; i++) {
        bits |= (uint64_t)codes[symbols[i]] << nbits;
        nbits += lengths[symbols[i]];
        if (nbits >= 32) {
            memcpy(at, &bits, 4);
            at += 4;
            bits >>= 32;
            nbits -= 32;
        }
    }
    memcpy(at, &bits, 8);
    return (size_t)(at - dst) + (nbits + 7) / 8;
}

static size_t encode_block(const uint8_t *src, size_t nbytes, uint8_t *dst)
{
    static uint16_t symbols[BLOCK_NBYTES];
    uint32_t counts[SYMBOL_COUNT] = {0};
    uint8_t lengths[SYMBOL_COUNT];
    const size_t n = to_symbols(src, nbytes, symbols, counts);
    size_t nbits = 0;
    if (src[0] == 0 && memcmp(src, src + 1, nbytes - 1) == 0) {
        dst[0] = KIND_ZEROS;
        return 1;
    }
    code_lengths(counts, lengths);
    for (unsigned s = 0; s < SYMBOL_COUNT; s++)
        nbits += (size_t)counts[s] * lengths[s];
    size_t size = put_lengths(lengths, dst + 4);
    if (3 + size + (nbits + 7) / 8 >= nbytes) {
        dst[0] = KIND_PLAIN;
        memcpy(dst + 1, src, nbytes);
        return 1 + nbytes;
    }
    size += put_bits(symbols, n, lengths, dst + 4 + size);
    dst[0] = KIND_CODED;
    dst[1] = (uint8_t)size;
    dst[2] = (uint8_t)(size >> 8);
    dst[3] = (uint8_t)(size >> 16);
    return 4 + size;
}

/* Entry: symbol << 4 | bits. */
static void make_table(const uint8_t *lengths, uint16_t *table)
{
    uint16_t codes[SYMBOL_COUNT];
    make_codes(lengths, codes);
    for (unsigned s = 0; s < SYMBOL_COUNT; s++)
        for (unsigned i = codes[s]; lengths[s] && i < TABLE_COUNT; i += 1u << lengths[s])
            table[i] = (uint16_t)(s << 4 | lengths[s]);
}

static void decode_bits(const uint8_t *src, const uint16_t *table, uint8_t *dst, size_t nbytes)
{
    size_t at = 0, run = 0;
    unsigned digit = 0, nbits = 0;
    uint64_t bits = 0, word;
    while (at + run < nbytes) {
        memcpy(&word, src,
               8); /* the end of a block reads into the next one, or into the slack of the buffer */
        bits |= word << nbits;
        src += (63 - nbits) >> 3;
        nbits |= 56;
        for (unsigned k = 0; k < 4 && at + run < nbytes; k++) {
            const unsigned entry = table[bits & (TABLE_COUNT - 1)], symbol = entry >> 4;
            bits >>= entry & 15;
            nbits -= entry & 15;
            if (symbol < 2) {
                run += (size_t)(symbol + 1) << digit++;
                continue;
            }
            if (run) {
                memset(dst + at, 0, run);
                at += run;
                run = digit = 0;
            }
            dst[at++] = (uint8_t)(symbol - 1);
        }
    }
    memset(dst + at, 0, run);
}

static size_t decode_block(const uint8_t *src, uint8_t *dst, size_t nbytes)
{
    uint8_t lengths[SYMBOL_COUNT];
    uint16_t table[TABLE_COUNT];
    if (src[0] == KIND_ZEROS) {
        memset(dst, 0, nbytes);
        return 1;
    }
    if (src[0] == KIND_PLAIN) {
        memcpy(dst, src + 1, nbytes);
        return 1 + nbytes;
    }
    const size_t size = get_lengths(src + 4, lengths);
    memset(table, 0, sizeof table); /* a code of one symbol fills half */
    make_table(lengths, table);
    decode_bits(src + 4 + size, table, dst, nbytes);
    return 4 + ((size_t)src[1] | (size_t)src[2] << 8 | (size_t)src[3] << 16);
}

size_t bench_huffman_encode(const uint8_t *src, size_t nbytes, uint8_t *dst)
{
    size_t size = 0;
    for (size_t i = 0; i < nbytes; i += BLOCK_NBYTES)
        size += encode_block(src + i, nbytes - i < BLOCK_NBYTES ? nbytes - i : BLOCK_NBYTES, dst + size);
    return size;
}

void bench_huffman_decode(const uint8_t *src, uint8_t *dst, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i += BLOCK_NBYTES)
        src += decode_block(src, dst + i, nbytes - i < BLOCK_NBYTES ? nbytes - i : BLOCK_NBYTES);
}
