/*
 * kernels.h - the pure loops of the codec and their contracts, one table of functions per instruction set.
 *
 * A kernel allocates nothing, cannot fail, and trusts its caller: the stage that calls it has checked every
 * precondition, and asserts are all it has for them. Every set writes the same bytes (padding and slack
 * excepted). "Group" means 64 consecutive values: kernels work group by group.
 *
 * Slack: where a contract says that n bytes are written or read "padded", the kernel may touch up to the
 * next multiple of 64 bytes; everywhere else it touches exactly what it names.
 */
#ifndef LMC_CODEC_KERNELS_KERNELS_H
#define LMC_CODEC_KERNELS_KERNELS_H

#include "codec/common/bits.h"
#include "codec/common/format.h"

/* Values that a stage hands to a kernel at once: the planes of a strip stay in the first-level cache. */
#define LMC_STRIP_VALUES 2048

/* Readable bytes that every plane handed to a decoding kernel needs beyond its end: one strip's worth of
 * bits (a cursor that a damaged stream has brought to the plane's end moves that far before the stage
 * looks), and a group of 64 bytes. */
#define LMC_PLANE_SLACK (LMC_STRIP_VALUES / 8 + 64)

/* ---- canonical codes, level by level (format.md "Symbol code") ---- */

/* One layer of a code. Codes are left-justified to LMC_FMT_LAYER_NBITS_MAX = 6 bits: bit 5 is the first. */
typedef struct lmc_layer {
    uint8_t code[256];    /* encoder: code of each symbol; list_code for symbols of later layers */
    uint8_t symbol[64];   /* decoder: symbol by left-justified code; any value at the list's codes */
    uint8_t threshold[6]; /* first_nbits <= j < last_nbits: a code with left-justified prefix of j bits
                             v is longer than j bits iff v >= threshold[j] */
    uint8_t first_nbits;  /* shortest code, 1..6: planes 0..first_nbits-1 hold a bit of every symbol */
    uint8_t last_nbits;   /* longest code */
    uint8_t has_list;     /* one code stands for "in the list of the next layer" */
    uint8_t list_code;    /* left-justified; meaningful if has_list */
    uint8_t narrow;       /* code[127] == code[128] == ... == code[255] */
} lmc_layer;

/* Where levels_encode() writes. It advances every member past what it wrote. */
typedef struct lmc_levels_out {
    uint8_t *full[6];          /* j < first_nbits: plane j, exactly ceil(n / 8) bytes a call */
    lmc_bit_writer partial[6]; /* first_nbits <= j < last_nbits */
    uint8_t *list;             /* symbols that went to the list, in order; 64 bytes of slack */
} lmc_levels_out;

/* Where levels_decode() reads; every plane and the list with LMC_PLANE_SLACK readable bytes behind its end
 * (list: LMC_STRIP_VALUES + 64). It advances every member past what it used. */
typedef struct lmc_levels_in {
    const uint8_t *full[6];    /* j < first_nbits: n / 8 bytes a call */
    const uint8_t *partial[6]; /* first_nbits <= j < last_nbits: start of the plane; not advanced */
    uint64_t position[6];      /* bit cursor in partial[j] */
    const uint8_t *list;       /* symbols of the next layer */
} lmc_levels_in;

/* ---- elements and planes (format.md "Planes") ---- */

/* How an element is cut. */
typedef struct lmc_split {
    uint8_t rotation;  /* 0 or 1: bits to rotate left first */
    uint8_t low_nbits; /* width of the low plane, 0..8 */
    uint16_t offset;   /* added to the head, mod 2^16 (2^8 for 1-byte elements) */
    uint16_t base;     /* subtracted from the symbol, mod 2^symbol_nbits */
} lmc_split;

/* The planes of n values. */
typedef struct lmc_plane_set {
    uint8_t *symbols; /* n bytes, padded */
    uint8_t *low;     /* ceil(n * low_nbits / 8) bytes; unused if low_nbits == 0 */
    uint8_t
        *rest[6]; /* element bytes below the head, most significant first: element_nbytes - 2 planes of n */
} lmc_plane_set;

/* Elements on their way past the caches, strip by strip. A line that is not full yet may wait for the next strip. */
typedef struct lmc_line_stream {
    uint8_t *place;   /* of the next strip */
    size_t waiting;   /* bytes before that, less than a line, which are not there yet ... */
    uint8_t last[64]; /* ... but at the end of this */
} lmc_line_stream;

/* Writes what waits. */
LMC_INLINE void lmc_stream_flush(lmc_line_stream *stream)
{
    memcpy(stream->place - stream->waiting, stream->last + sizeof stream->last - stream->waiting,
           stream->waiting);
    stream->waiting = 0;
}

/* ---- deltas (format.md "Deltas") ---- */

/* How an element is compared with its base's, and which class its base belongs to. */
typedef struct lmc_delta {
    uint8_t transform;                                /* LMC_FMT_DELTA_... */
    uint8_t low_nbytes;                               /* bytes of a difference that are planes of their own */
    uint8_t key_shift;                                /* the key is 8 bits of the base from this one on */
    uint8_t class_count;                              /* 1..LMC_FMT_CLASS_COUNT_MAX */
    uint8_t first_key[LMC_FMT_CLASS_COUNT_MAX];       /* of each class, ascending; first_key[0] == 0 */
    uint8_t class_low_nbits[LMC_FMT_CLASS_COUNT_MAX]; /* of each class: low bits that follow as they are */
} lmc_delta;

/* The classes that occur in a block, and which of them lists are worth a look at all elements for each: the others'
 * elements are few, and may be brought together first. The order is a hint: results do not depend on it. */
typedef struct lmc_class_order {
    uint8_t class[LMC_FMT_CLASS_COUNT_MAX];
    uint8_t count;        /* 1..LMC_FMT_CLASS_COUNT_MAX */
    uint8_t direct_count; /* the first so many are taken from all elements */
} lmc_class_order;

/* Elements that may be read and written behind the end of a list of heads. */
#define LMC_HEAD_SLACK 64

/* Heads from this one on are wide. */
#define LMC_HEAD_WIDE 255

/* Lists of heads, one for each class. Most heads are not wide: a list may have a byte for each. */
typedef struct lmc_head_lists {
    uint8_t *next[LMC_FMT_CLASS_COUNT_MAX];
    uint8_t nbytes[LMC_FMT_CLASS_COUNT_MAX]; /* of a head in the list: 1 or 2 */
    /* For scatter: the high byte of a wide head in a list of bytes is written so far behind its low byte; bit c of
     * wide is set if there are any in list c. */
    size_t high[LMC_FMT_CLASS_COUNT_MAX];
    uint32_t wide;
} lmc_head_lists;

/* Elements that may be read and written behind the end of a list of gaps. */
#define LMC_GAP_SLACK 64

/* Bits of a head that belong to the difference; with magnitudes, the top bit is a sign flip. */
LMC_INLINE unsigned lmc_delta_head_nbits(const lmc_delta *delta)
{
    return delta->transform == LMC_FMT_DELTA_MAGNITUDE ? 15 : 16;
}

/* The difference of x from its base b, elements of nbits bits: what delta_split() cuts. */
LMC_INLINE uint64_t lmc_delta_of(unsigned transform, uint64_t x, uint64_t b, unsigned nbits)
{
    const uint64_t all = lmc_low_mask(nbits);
    if (transform == LMC_FMT_DELTA_XOR)
        return x ^ b;
    const unsigned width = transform == LMC_FMT_DELTA_MAGNITUDE ? nbits - 1 : nbits;
    const uint64_t used = all >> (nbits - width);
    const uint64_t d = ((x & used) - (b & used)) & used;
    return (d << 1 ^ (0 - (d >> (width - 1)))) & used; /* zigzag: 0, -1, 1, -2, ... */
}

/* ---- the table ---- */

#define LMC_HASH_STATE_NBYTES 576

typedef struct lmc_kernels {
    const char *name;

    /* Encodes n symbols of one layer. symbols: n bytes, readable padded. n is a multiple of 64 except in
     * the last call for a list. Every symbol has a code (or the layer a list). In the last group of a call
     * with n % 64 != 0 the spare bits of a full plane's last byte are 0. */
    void (*levels_encode)(const lmc_layer *layer, const uint8_t *symbols, size_t n, lmc_levels_out *out);

    /* Decodes n <= LMC_STRIP_VALUES symbols of one layer; symbols: n bytes, written padded. n is a multiple
     * of 64 except in the last call. Cursors move by at most n bits, the list by at most n bytes, whatever
     * the planes hold; lanes beyond n move nothing. */
    void (*levels_decode)(const lmc_layer *layer, lmc_levels_in *in, size_t n, uint8_t *symbols);

    /* Cuts n elements of 1 << i bytes (split[i], i = 0..3) at src into planes. symbols is written padded,
     * the other planes exactly. n is a multiple of 64 except in the last call for a block.
     * Returns nonzero iff some symbol is an escape: never when symbols have 8 bits or fewer. */
    unsigned (*split[4])(const lmc_split *split, const uint8_t *src, size_t n, const lmc_plane_set *dst);

    /* The inverse: writes exactly n elements to dst and, if `stream` is not NULL, sends the same past the caches to
     * stream->place, which advances; end_past_cache() as for copy_past_cache(). src->symbols is readable padded, the
     * other planes with 64 bytes of slack. An escape comes out as the value that symbol LMC_FMT_SYMBOL_ESCAPE would
     * mean: its low bits are right, its head is for the caller to mend. */
    void (*join[4])(const lmc_split *split, const lmc_plane_set *src, size_t n, uint8_t *dst,
                    lmc_line_stream *stream);

    /* Takes the elements that are not `value` out of n elements of 1 << i bytes (i = 0..3), in order: kept is written
     * up to 64 bytes beyond them, mask gets a flag for each of the n, in whole words with spare bits 0. Returns how
     * many are kept. */
    size_t (*mask_split[4])(uint64_t value, const uint8_t *src, size_t n, uint64_t *mask, uint8_t *kept);

    /* The inverse: writes exactly n elements. 64 bytes behind those that are kept may be read. Flags beyond n mean
     * nothing. Returns how many were kept. */
    size_t (*mask_join[4])(uint64_t value, const uint64_t *mask, const uint8_t *kept, size_t n, uint8_t *dst);

    /* Bits set in so many words. */
    size_t (*count_flags)(const uint64_t *flags, size_t word_count);

    /* Takes n flags (spare bits 0; inverted: their complement) in pairs of neighbours, a lone last one with a clear
     * one. any: a flag for each pair, of which ceil(n / 2) are there: is a member in it; both: for each of those: are
     * both; second: for each of those that have one: is it the second. All in whole words, spare bits 0, with
     * 2 words of slack. Returns how many pairs have a member. */
    size_t (*pairs_split)(const uint64_t *flags, size_t n, int inverted, uint64_t *any, uint64_t *both,
                          uint64_t *second);

    /* The inverse; `both` and `second` have 2 readable words behind them. A flag beyond n may come out set if the
     * sets say so. */
    void (*pairs_join)(const uint64_t *any, const uint64_t *both, const uint64_t *second, size_t n,
                       uint64_t *flags);

    /* Gaps between the set flags of n (inverted: the clear ones): how many places lie before the first member, and
     * between each and the one before it. Returns their number. gaps: LMC_GAP_SLACK elements of slack, here and
     * below. */
    size_t (*gaps_list)(const uint64_t *flags, size_t n, int inverted, uint32_t *gaps);

    /* Cuts off low bits: bit b < low_nbits <= 31 of n gaps becomes plane b, of exactly ceil(n / 8) bytes, one plane
     * behind the other; and back, for planes that begin at any byte. Spare bits are 0, and ignored on the way back. */
    void (*gaps_cut)(uint32_t *gaps, size_t n, unsigned low_nbits, uint8_t *planes);
    void (*gaps_join)(const uint8_t *planes, size_t n, unsigned low_nbits, uint32_t *gaps);

    /* A unary level: which of n quotients are not 0, to a plane of exactly ceil(n / 8) bytes. These, less 1, become the
     * list; returns its length. */
    size_t (*gaps_level)(uint32_t *quotients, size_t n, uint8_t *plane);

    /* The inverse, n >= 1: the list has as many elements, `left`, as the plane has bits set; spare bits are 0. */
    void (*gaps_unlevel)(const uint8_t *plane, size_t n, uint32_t *quotients, size_t left);

    /* The class of each of n elements of the base, elements of 1 << i bytes (i = 0..3): classes is written padded.
     * counts[c], c < class_count, grows by the elements of class c. */
    void (*classify[4])(const lmc_delta *delta, const uint8_t *base, size_t n, uint8_t *classes,
                        size_t *counts);

    /* Compares n elements of 1 << i bytes with their bases: the heads of the differences (with sign flips)
     * to head, written padded to 64 elements, their low bytes to low[0 .. low_nbytes - 1], the most significant
     * first. A difference that does not fit a head gives the low bits of it. Returns nonzero iff there is one. */
    unsigned (*delta_split[4])(const lmc_delta *delta, const uint8_t *src, const uint8_t *base, size_t n,
                               uint16_t *head, uint8_t *const *low);

    /* The inverse: writes exactly n elements. head is readable padded, each of low with 64 bytes of slack. */
    void (*delta_join[4])(const lmc_delta *delta, const uint16_t *head, const uint8_t *const *low,
                          const uint8_t *base, size_t n, uint8_t *dst);

    /* Appends head[i] to the list of class classes[i], which is one of `order`, for n <= LMC_STRIP_VALUES elements:
     * next[c] advances. classes and head are readable padded. A high byte that is 0 may be written or not. Brings
     * memory into the caches on the way: ahead_nbytes bytes from `ahead` on. */
    void (*scatter)(const lmc_class_order *order, const uint8_t *classes, const uint16_t *head, size_t n,
                    lmc_head_lists *lists, const uint8_t *ahead, size_t ahead_nbytes);

    /* The inverse, which has no high bytes apart: takes the next head of its class for each element; head is written
     * padded. */
    void (*gather)(const lmc_class_order *order, const uint8_t *classes, size_t n, lmc_head_lists *lists,
                   uint16_t *head, const uint8_t *ahead, size_t ahead_nbytes);

    /* Moves the top bits of n heads to flags (whole words, spare bits 0), and back. Heads are changed in place, and
     * so may be the LMC_HEAD_SLACK elements behind them. */
    void (*take_flips)(uint16_t *head, size_t n, uint64_t *flips);
    void (*put_flips)(uint16_t *head, size_t n, const uint64_t *flips);

    /* XXH3-64 with the given seed (0: the plain hash). */
    uint64_t (*hash)(const void *data, size_t nbytes, uint64_t seed);

    /* The plain hash in pieces. state: LMC_HASH_STATE_NBYTES bytes, aligned to 64. */
    void (*hash_begin)(void *state);
    void (*hash_update)(void *state, const void *data, size_t nbytes);
    uint64_t (*hash_end)(const void *state);

    /* Copies past the caches: for output that is larger than they are and not read soon. Other threads may only be
     * told of it after end_past_cache(). */
    void (*copy_past_cache)(uint8_t *dst, const uint8_t *src, size_t nbytes);
    void (*end_past_cache)(void);
} lmc_kernels;

/* The set in use; chosen once, at first use (select.c). */
const lmc_kernels *lmc_kernels_get(void);

/* A set by name if this CPU can run it, else NULL. For tests and select.c. */
const lmc_kernels *lmc_kernels_find(const char *name);

extern const lmc_kernels lmc_kernels_scalar;
#if defined(__x86_64__)
extern const lmc_kernels lmc_kernels_avx2;
extern const lmc_kernels lmc_kernels_avx512;
#elif defined(__aarch64__)
extern const lmc_kernels lmc_kernels_neon;
#endif

#endif
