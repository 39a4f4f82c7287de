/*
 * kernels.h - the pure loops of the codec: their contracts, and one table of functions per instruction set.
 *
 * A kernel allocates nothing, cannot fail and trusts its caller. The calling stage has checked every precondition;
 * a kernel only asserts them. All sets write the same bytes, except padding and slack. A "group" is 64 consecutive
 * values. Kernels work group by group.
 *
 * Slack: "padded" means that the kernel may touch up to the next multiple of 64 bytes. Elsewhere it touches exactly the
 * bytes that it names.
 */
#ifndef LMC_CODEC_KERNELS_KERNELS_H
#define LMC_CODEC_KERNELS_KERNELS_H

#include "codec/common/bits.h"
#include "codec/common/format.h"

/* Values that a stage hands to a kernel at once. The planes of such a strip stay in the L1 cache. */
#define LMC_STRIP_VALUES 2048

/* Readable bytes behind every plane that a decoding kernel gets. In a damaged stream a cursor may pass the plane's end
 * by the bits of one strip before the stage looks at it; a group of 64 bytes comes on top. */
#define LMC_PLANE_SLACK (LMC_STRIP_VALUES / 8 + 64)

/* ---- canonical codes, one layer at a time (format.md "Symbol code") ---- */

/* One layer of a code. Codes are left-justified to LMC_FMT_LAYER_NBITS_MAX = 6 bits: bit 5 is the first. */
typedef struct lmc_layer {
    uint8_t
        code[256]; /* encoder: code of each symbol; continuation for symbols that the layer does not code */
    uint8_t symbol[64]; /* decoder: symbol by left-justified code; any value at the continuation */
    uint8_t threshold
        [6]; /* first_nbits <= j < last_nbits: a code whose first j bits are v, left-justified, is longer
                             than j bits iff v >= threshold[j] */
    uint8_t first_nbits;      /* shortest code, 1..6: planes 0..first_nbits-1 hold a bit of every symbol */
    uint8_t last_nbits;       /* longest code */
    uint8_t has_continuation; /* one code stands for all symbols of the next layer, or for literals */
    uint8_t continuation;     /* that code, left-justified; meaningful if has_continuation */
    uint8_t narrow;           /* code[127] == code[128] == ... == code[255] */
} lmc_layer;

/* Where layer_encode() writes. It advances every member past the bytes that it wrote. */
typedef struct lmc_layer_out {
    uint8_t *full[6];          /* j < first_nbits: plane j, exactly ceil(n / 8) bytes a call */
    lmc_bit_writer partial[6]; /* first_nbits <= j < last_nbits */
    uint8_t *next_symbols;     /* symbols of the next layer, in order; 64 bytes of slack */
} lmc_layer_out;

/* Where layer_decode() reads. Every plane has LMC_PLANE_SLACK readable bytes behind its end, next_symbols has
 * LMC_STRIP_VALUES + 64. It advances every member past the bytes that it used. */
typedef struct lmc_layer_in {
    const uint8_t *full[6];      /* j < first_nbits: n / 8 bytes a call */
    const uint8_t *partial[6];   /* first_nbits <= j < last_nbits: start of the plane; not advanced */
    uint64_t position[6];        /* bit cursor in partial[j] */
    const uint8_t *next_symbols; /* symbols of the next layer */
} lmc_layer_in;

/* ---- rANS codes (format.md "rANS planes") ---- */

/* What a slot, a state mod LMC_FMT_RANS_TOTAL, means to a decoder: the symbol in bits 0..7, its frequency less 1 in
 * bits 8..19, the slot less the symbol's start in bits 20..31. */
typedef uint32_t lmc_rans_slot;
_Static_assert(LMC_FMT_RANS_TOTAL_LOG2 == 12, "a slot has 12 bits for a frequency less 1, and for a place");

/* What a symbol means to an encoder. */
typedef struct lmc_rans_symbol {
    uint64_t
        reciprocal; /* ceil(2^44 / frequency): x * reciprocal >> 44 is x / frequency if x < frequency << 20 */
    uint16_t frequency; /* 0: the symbol cannot be coded */
    uint16_t start;
} lmc_rans_symbol;

#define LMC_RANS_RECIPROCAL_LOG2 44 /* of the numerator; with it no product has more than 64 bits */

/* Where rans_decode() is. Its words have LMC_RANS_SLACK readable bytes behind their end. */
typedef struct lmc_rans_in {
    uint32_t state[LMC_FMT_RANS_LANE_COUNT]; /* at least 2^16 each */
    const uint8_t *words;                    /* the next one */
} lmc_rans_in;

/* In a damaged plane the words of one strip may be read beyond their end before the stage looks; those of a group come
 * on top. */
#define LMC_RANS_SLACK (2 * (LMC_STRIP_VALUES + 64))

/* Where rans_encode() is. It writes words from their last one to their first. */
typedef struct lmc_rans_out {
    uint32_t state[LMC_FMT_RANS_LANE_COUNT]; /* at least 2^16 each */
    uint8_t *words; /* the first one so far; there is room for a word for each symbol in front of it */
} lmc_rans_out;

/* ---- elements and planes (format.md "Planes") ---- */

/* How an element is cut. */
typedef struct lmc_split {
    uint8_t rotation;      /* 0 or 1: bits to rotate left first */
    uint8_t low_nbits;     /* width of the low plane, 0..8 */
    uint16_t offset;       /* added to the high part, mod 2^16 (2^8 for 1-byte elements) */
    uint16_t window_start; /* subtracted from the symbol, mod 2^symbol_nbits */
} lmc_split;

/* The planes of n values. */
typedef struct lmc_plane_set {
    uint8_t *symbols;  /* n bytes, padded */
    uint8_t *low;      /* ceil(n * low_nbits / 8) bytes; unused if low_nbits == 0 */
    uint8_t *lower[6]; /* bytes below the high part, most significant first: element_nbytes - 2 planes of n */
    /* Added to the high parts on top of the split's offset, readable padded to 64 elements; NULL: nothing. */
    const uint16_t *shift;
} lmc_plane_set;

/* Elements on their way past the caches, strip by strip. A cache line that is not full yet may wait for the next
 * strip. */
typedef struct lmc_line_stream {
    uint8_t *place;   /* of the next strip */
    size_t waiting;   /* bytes in front of `place`, less than a line, that were not written yet ... */
    uint8_t last[64]; /* ... but stand at the end of this */
} lmc_line_stream;

/* Writes the bytes that wait. */
LMC_INLINE void lmc_stream_flush(lmc_line_stream *stream)
{
    memcpy(stream->place - stream->waiting, stream->last + sizeof stream->last - stream->waiting,
           stream->waiting);
    stream->waiting = 0;
}

/* High parts are summed up by their magnitudes. A magnitude is a high part under the mask; a smaller one than the
 * floor counts as the floor. */
typedef struct lmc_clip {
    uint16_t mask; /* leaves out a sign at the top */
    uint16_t floor;
} lmc_clip;

/* ---- deltas (format.md "Deltas") ---- */

/* How an element is compared with the base's element, and which class the latter belongs to. */
typedef struct lmc_delta {
    uint8_t transform;                          /* LMC_FMT_DELTA_... */
    uint8_t low_nbytes;                         /* bytes of a difference that are planes of their own */
    uint8_t key_shift;                          /* the key is 8 bits of the base's element from this bit on */
    uint8_t class_count;                        /* 1..LMC_FMT_CLASS_COUNT_MAX */
    uint8_t first_key[LMC_FMT_CLASS_COUNT_MAX]; /* of each class, ascending; first_key[0] == 0 */
    uint8_t class_low_nbits[LMC_FMT_CLASS_COUNT_MAX]; /* of each class: low bits that are stored uncoded */
} lmc_delta;

/* The classes that occur in a block. Each of the first direct_count is taken from all elements; the elements of the
 * others are few and may be brought together first. The order is a hint: results do not depend on it. */
typedef struct lmc_class_order {
    uint8_t class[LMC_FMT_CLASS_COUNT_MAX];
    uint8_t count; /* 1..LMC_FMT_CLASS_COUNT_MAX */
    uint8_t direct_count;
} lmc_class_order;

/* Elements that may be read and written behind the end of a list of high parts. */
#define LMC_HIGH_SLACK 64

/* High parts from this one on are wide. */
#define LMC_HIGH_WIDE 255

/* Lists of high parts, one for each class. Most high parts are not wide: a list may have one byte for each. */
typedef struct lmc_high_lists {
    uint8_t *next[LMC_FMT_CLASS_COUNT_MAX];
    uint8_t nbytes[LMC_FMT_CLASS_COUNT_MAX]; /* of a high part in the list: 1 or 2 */
    /* For scatter: the upper byte of a wide high part in a list of bytes is written so far behind its lower byte. Bit c
     * of wide is set if list c has any. */
    size_t upper[LMC_FMT_CLASS_COUNT_MAX];
    uint32_t wide;
} lmc_high_lists;

/* Elements that may be read and written behind the end of a list of gaps. */
#define LMC_GAP_SLACK 64

/* An element of a strip that differs from the base's. */
typedef struct lmc_change {
    uint32_t place;   /* among the elements of its class in the block */
    uint16_t element; /* in the strip */
    uint8_t class;
} lmc_change;

/* Behind the last place of a list: no class has as many elements. */
#define LMC_NO_PLACE UINT32_MAX

/* A walk over the elements of a block that looks for changed ones, class by class. */
typedef struct lmc_change_search {
    const uint32_t *next_place[LMC_FMT_CLASS_COUNT_MAX]; /* places not found yet, rising, then LMC_NO_PLACE */
    uint32_t wanted[LMC_FMT_CLASS_COUNT_MAX];            /* the next place itself */
    uint32_t counts[LMC_FMT_CLASS_COUNT_MAX];            /* elements of each class so far */
    const uint32_t
        *ends; /* the caller's: what counts are to be behind the elements that are looked at next */
} lmc_change_search;

/* places: for each of class_count classes, a list with LMC_NO_PLACE at its end. */
LMC_INLINE void lmc_change_search_open(lmc_change_search *search, const uint32_t *const *places,
                                       unsigned class_count)
{
    static const uint32_t none = LMC_NO_PLACE;
    search->ends = NULL;
    for (unsigned c = 0; c < LMC_FMT_CLASS_COUNT_MAX; c++) {
        search->next_place[c] = c < class_count ? places[c] : &none;
        search->wanted[c] = *search->next_place[c];
        search->counts[c] = 0;
    }
}

/* Bits of a high part that belong to the difference. With magnitudes the top bit is a sign change. */
LMC_INLINE unsigned lmc_delta_high_nbits(const lmc_delta *delta)
{
    return delta->transform == LMC_FMT_DELTA_MAGNITUDE ? 15 : 16;
}

/* The difference of x from the base's element b, both of nbits bits: delta_split() cuts it. */
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

/* The inverse: the element of nbits bits that differs from b by z, and with `sign_change` 1 in its sign. */
LMC_INLINE uint64_t lmc_delta_apply(unsigned transform, uint64_t z, unsigned sign_change, uint64_t b,
                                    unsigned nbits)
{
    const uint64_t all = lmc_low_mask(nbits), magnitude = all >> 1;
    const uint64_t sum = b + (((z & all) >> 1) ^ (0 - (z & 1)));
    if (transform == LMC_FMT_DELTA_XOR)
        return (b ^ z) & all;
    if (transform == LMC_FMT_DELTA_DIFFERENCE)
        return sum & all;
    return (sum & magnitude) | ((b ^ (uint64_t)sign_change << (nbits - 1)) & (all ^ magnitude));
}

/* ---- the table ---- */

/* Bits of a high part: of a symbol and its low bits. */
LMC_INLINE unsigned lmc_high_nbits(unsigned element_nbytes)
{
    return element_nbytes == 1 ? 8 : LMC_FMT_HIGH_NBITS;
}

/* The index of the kernels for elements of 1, 2, 4 or 8 bytes in arrays of four. */
LMC_INLINE unsigned lmc_element_log2(unsigned element_nbytes)
{
    return lmc_lowest_bit(element_nbytes);
}

#define LMC_HASH_STATE_NBYTES 576

/* shared/kernel_table.h fills in such a table for each set. Arrays of four have a kernel for elements of 1, 2, 4, 8
 * bytes. */
typedef struct lmc_kernels {
    const char *name;

    /* Elements for each changed one from which on listing the changed ones is quicker than coding all. Measured; the
     * bytes are the same. */
    size_t sparse_step;

    /* Encodes n symbols of one layer. symbols: n bytes, readable padded. n is a multiple of 64 except in the layer's
     * last call. Every symbol has a code, or the layer has_continuation. In the last group of a call with n % 64 !=
     * 0 the spare bits of a full plane's last byte are 0. */
    void (*layer_encode)(const lmc_layer *layer, const uint8_t *symbols, size_t n, lmc_layer_out *out);

    /* Decodes n <= LMC_STRIP_VALUES symbols of one layer; symbols: n bytes, written padded. n is a multiple of 64
     * except in the last call. Whatever the planes hold, bit cursors move by at most n bits and next_symbols by at most
     * n bytes. Lanes beyond n move nothing. */
    void (*layer_decode)(const lmc_layer *layer, lmc_layer_in *in, size_t n, uint8_t *symbols);

    /* Decodes the next n <= LMC_STRIP_VALUES symbols of a rANS plane by LMC_FMT_RANS_TOTAL slots;
     * symbols: n bytes, written padded. n is a multiple of 64 except in the last call. Lanes beyond n do nothing.
     * Whatever the words hold, it reads at most one of them for each symbol, and states stay at least 2^16. */
    void (*rans_decode)(const lmc_rans_slot *slots, lmc_rans_in *in, size_t n, uint8_t *symbols);

    /* The inverse, from the last symbol to the first, by 256 entries of `table`. Strips come from the last one to the
     * first; n is a multiple of 64 except in the first call. symbols: n bytes, readable padded. Returns nonzero iff
     * some symbol cannot be coded; states and words mean nothing then. */
    unsigned (*rans_encode)(const lmc_rans_symbol *table, lmc_rans_out *out, const uint8_t *symbols,
                            size_t n);

    /* Cuts n elements at src into planes. symbols is written padded, the other planes exactly. n is a multiple of 64
     * except in the last call for a block. Returns nonzero iff some symbol is an escape; symbols of 8 bits or fewer
     * never are. */
    unsigned (*split[4])(const lmc_split *split, const uint8_t *src, size_t n, const lmc_plane_set *dst);

    /* The inverse: writes exactly n elements to dst. Unless `stream` is NULL, it also sends them past the caches to
     * stream->place, which advances; end_past_cache() as for copy_past_cache(). src->symbols is readable padded, the
     * other planes with 64 bytes of slack. An escape comes out as the value that symbol LMC_FMT_SYMBOL_ESCAPE would
     * mean: its low bits are right, and the caller mends its high part. */
    void (*join[4])(const lmc_split *split, const lmc_plane_set *src, size_t n, uint8_t *dst,
                    lmc_line_stream *stream);

    /* The high parts of n elements that are rotated left by `rotation` bits first. */
    void (*high_parts[4])(unsigned rotation, const uint8_t *src, size_t n, uint16_t *high);

    /* The sum of n <= 65536 clipped magnitudes. Before it is clipped, a magnitude is shifted, mod 2^16; shift NULL: by
     * nothing. */
    uint32_t (*sum_clipped)(const lmc_clip *clip, const uint16_t *high, const uint16_t *shift, size_t n);

    /* The sum of the clipped magnitudes of n <= 65536 elements: high_parts() and sum_clipped() at once. */
    uint32_t (*sum_elements[4])(const lmc_clip *clip, unsigned rotation, const uint8_t *src,
                                const uint16_t *shift, size_t n);

    /* Adds n clipped magnitudes, shifted as above, to sums. */
    void (*add_clipped)(const lmc_clip *clip, const uint16_t *high, const uint16_t *shift, size_t n,
                        uint32_t *sums);

    /* sums[i] = a[i] + b[i] + c mod 2^16 for i < n. a and b may be NULL: 0. */
    void (*add_shifts)(const uint16_t *a, const uint16_t *b, uint16_t c, size_t n, uint16_t *sums);

    /* Wide elements from n narrow ones: F32 from F16, F32 from BF16, F64 from F32 (format.md "Wide elements"). */
    void (*widen[LMC_FMT_NARROW_F32_IN_F64 + 1])(const uint8_t *narrow, size_t n, uint8_t *dst);

    /* The inverse, for elements that a narrow one stands for. Others give some narrow element. */
    void (*narrow[LMC_FMT_NARROW_F32_IN_F64 + 1])(const uint8_t *src, size_t n, uint8_t *narrow);

    /* Products of a scale and n of 256 factors, as elements of each product type. Scale and factors are within the
     * limits of format.md. */
    void (*multiply[LMC_FMT_PRODUCT_BF16 + 1])(const float *factors, float scale, const uint8_t *numbers,
                                               size_t n, uint8_t *dst);

    /* Keeps the elements that differ from `value`, in order. kept is written up to 64 bytes beyond them. mask gets a
     * bit for each of the n elements, in whole words with spare bits 0. Returns how many are kept. */
    size_t (*mask_split[4])(uint64_t value, const uint8_t *src, size_t n, uint64_t *mask, uint8_t *kept);

    /* The inverse: writes exactly n elements. 64 bytes behind the kept elements may be read. Bits beyond n mean
     * nothing. Returns how many were kept. */
    size_t (*mask_join[4])(uint64_t value, const uint64_t *mask, const uint8_t *kept, size_t n, uint8_t *dst);

    /* Bits set in so many words. */
    size_t (*bitset_count)(const uint64_t *bitset, size_t word_count);

    /* One step of a hierarchical bitmap. Takes n bits (spare bits 0; inverted: their complement) as pairs of
     * neighbours; a lone last bit is paired with a clear one. any: for each of the ceil(n / 2) pairs, is a bit of it
     * set? both: for each pair in `any`, are both bits set? second: for each pair with one bit set, is it the second?
     * All three are whole words, spare bits 0, with 2 words of slack. Returns how many pairs are in `any`. */
    size_t (*hierarchy_split)(const uint64_t *bitset, size_t n, int inverted, uint64_t *any, uint64_t *both,
                              uint64_t *second);

    /* The inverse; `both` and `second` have 2 readable words behind them. A bit beyond n may come out set if the three
     * sets say so. */
    void (*hierarchy_join)(const uint64_t *any, const uint64_t *both, const uint64_t *second, size_t n,
                           uint64_t *bitset);

    /* Finds the gaps between the set bits of n (inverted: the clear bits). A gap is the number of places before the
     * first member, or between a member and the one before it. Returns the number of gaps. Here and below, gaps has
     * LMC_GAP_SLACK elements of slack. */
    size_t (*gaps_find)(const uint64_t *bitset, size_t n, int inverted, uint32_t *gaps);

    /* Cuts off low bits: bit b < low_nbits <= 31 of n gaps becomes plane b. Planes have exactly ceil(n / 8) bytes and
     * stand one behind the other; spare bits are 0. gaps_join is the inverse, for planes that begin at any byte, and
     * ignores spare bits. */
    void (*gaps_cut)(uint32_t *gaps, size_t n, unsigned low_nbits, uint8_t *planes);
    void (*gaps_join)(const uint8_t *planes, size_t n, unsigned low_nbits, uint32_t *gaps);

    /* One plane of unary codes, of exactly ceil(n / 8) bytes: which of n quotients are not 0? Those, less 1, replace
     * the quotients. Returns how many they are. */
    size_t (*gaps_unary_split)(uint32_t *quotients, size_t n, uint8_t *plane);

    /* The inverse, n >= 1: quotients holds `left` elements, as many as the plane has bits set; spare bits are 0. */
    void (*gaps_unary_join)(const uint8_t *plane, size_t n, uint32_t *quotients, size_t left);

    /* The class of each of n elements of the base; classes is written padded. Unless counts is NULL, counts[c],
     * c < class_count, grows by the elements of class c. */
    void (*classify[4])(const lmc_delta *delta, const uint8_t *base, size_t n, uint8_t *classes,
                        size_t *counts);

    /* Compares n elements with those of the base. The high parts of the differences, with sign changes, go to
     * `high`, written padded to 64 elements. Their lower bytes go to low[0 .. low_nbytes - 1], the most significant
     * first. A difference that is too wide for high part and lower bytes gives its low bits. Returns nonzero iff
     * there is one. */
    unsigned (*delta_split[4])(const lmc_delta *delta, const uint8_t *src, const uint8_t *base, size_t n,
                               uint16_t *high, uint8_t *const *low);

    /* The inverse: writes exactly n elements. high is readable padded, each of low with 64 bytes of slack. */
    void (*delta_join[4])(const lmc_delta *delta, const uint16_t *high, const uint8_t *const *low,
                          const uint8_t *base, size_t n, uint8_t *dst);

    /* Appends high[i] to the list of class classes[i], for n <= LMC_STRIP_VALUES elements: next[c] advances. Every
     * class is one of `order`. classes and high are readable padded. An upper byte that is 0 may be written or not.
     * Meanwhile brings ahead_nbytes bytes from `ahead` on into the caches. */
    void (*scatter)(const lmc_class_order *order, const uint8_t *classes, const uint16_t *high, size_t n,
                    lmc_high_lists *lists, const uint8_t *ahead, size_t ahead_nbytes);

    /* The inverse: takes the next high part of its class for each element; `high` is written padded. Upper bytes do not
     * stand apart here. */
    void (*gather)(const lmc_class_order *order, const uint8_t *classes, size_t n, lmc_high_lists *lists,
                   uint16_t *high, const uint8_t *ahead, size_t ahead_nbytes);

    /* take moves the top bits of n high parts to sign_changes (whole words, spare bits 0), put moves them back. Both
     * change `high` in place, and may change the LMC_HIGH_SLACK elements behind it. */
    void (*take_sign_changes)(uint16_t *high, size_t n, uint64_t *sign_changes);
    void (*put_sign_changes)(uint16_t *high, size_t n, const uint64_t *sign_changes);

    /* Finds which of n elements differ from the base's. changed: whole words, spare bits 0. Returns how many differ. */
    size_t (*find_changed[4])(const uint8_t *src, const uint8_t *base, size_t n, uint64_t *changed);

    /* Lists the changed ones of n <= LMC_STRIP_VALUES elements, in order, and all elements of the classes whose bit is
     * set in `whole`. classes is readable padded. counts: the elements of each of LMC_FMT_CLASS_COUNT_MAX classes so
     * far; grows by the n. changes has room for all elements. Returns how many it lists. */
    size_t (*number_changes)(const uint8_t *classes, const uint64_t *changed, uint32_t whole, size_t n,
                             uint32_t *counts, lmc_change *changes);

    /* The inverse: lists those of n <= LMC_STRIP_VALUES elements whose places are given. search->ends must be set. The
     * changes of a class are in order. Meanwhile brings ahead_nbytes bytes from `ahead` on into the caches. */
    size_t (*locate_changes)(const uint8_t *classes, size_t n, lmc_change_search *search, lmc_change *changes,
                             const uint8_t *ahead, size_t ahead_nbytes);

    /* XXH3-64 with the given seed (0: the plain hash). */
    uint64_t (*hash)(const void *data, size_t nbytes, uint64_t seed);

    /* The plain hash in pieces. state: LMC_HASH_STATE_NBYTES bytes, aligned to 64. */
    void (*hash_begin)(void *state);
    void (*hash_update)(void *state, const void *data, size_t nbytes);
    uint64_t (*hash_end)(const void *state);

    /* Copies past the caches, for output that is larger than they are and is not read soon. Other threads may learn of
     * it only after end_past_cache(). */
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
extern const lmc_kernels lmc_kernels_avx2_nopext;
extern const lmc_kernels lmc_kernels_avx512;
#elif defined(__aarch64__)
extern const lmc_kernels lmc_kernels_neon;
#endif

#endif
