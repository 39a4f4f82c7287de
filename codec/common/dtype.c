/* dtype.c - the one table of element types; the guess of the dtype of content that nothing describes. */
#include "codec/common/dtype.h"

#include "codec/common/entropy.h"
#include "common/compiler.h"
#include "common/guess_sample.h"
#include "lmc_experimental.h"

typedef struct dtype_row {
    const char *name;
    uint8_t nbits;          /* of one value of the dtype */
    uint8_t element_nbytes; /* of the element that is split */
    uint8_t kind;           /* lmc_dtype_kind */
    uint8_t exponent_nbits; /* floats of 16 bits and more, and fp8 */
} dtype_row;

static const dtype_row rows[LMC_DTYPE_COUNT] = {
    [LMC_DTYPE_U8] = {"U8", 8, 1, LMC_KIND_BYTES, 0},
    [LMC_DTYPE_BOOL] = {"BOOL", 8, 1, LMC_KIND_BYTES, 0},
    [LMC_DTYPE_I8] = {"I8", 8, 1, LMC_KIND_INT, 0},
    [LMC_DTYPE_F4] = {"F4", 4, 1, LMC_KIND_BYTES, 0},
    [LMC_DTYPE_F6_E2M3] = {"F6_E2M3", 6, 1, LMC_KIND_BYTES, 0},
    [LMC_DTYPE_F6_E3M2] = {"F6_E3M2", 6, 1, LMC_KIND_BYTES, 0},
    [LMC_DTYPE_F8_E5M2] = {"F8_E5M2", 8, 1, LMC_KIND_FLOAT, 5},
    [LMC_DTYPE_F8_E4M3] = {"F8_E4M3", 8, 1, LMC_KIND_FLOAT, 4},
    [LMC_DTYPE_F8_E8M0] = {"F8_E8M0", 8, 1, LMC_KIND_BYTES, 0},
    [LMC_DTYPE_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8, 1, LMC_KIND_FLOAT, 4},
    [LMC_DTYPE_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8, 1, LMC_KIND_FLOAT, 5},
    [LMC_DTYPE_I16] = {"I16", 16, 2, LMC_KIND_INT, 0},
    [LMC_DTYPE_U16] = {"U16", 16, 2, LMC_KIND_INT, 0},
    [LMC_DTYPE_F16] = {"F16", 16, 2, LMC_KIND_FLOAT, 5},
    [LMC_DTYPE_BF16] = {"BF16", 16, 2, LMC_KIND_FLOAT, 8},
    [LMC_DTYPE_I32] = {"I32", 32, 4, LMC_KIND_INT, 0},
    [LMC_DTYPE_U32] = {"U32", 32, 4, LMC_KIND_INT, 0},
    [LMC_DTYPE_F32] = {"F32", 32, 4, LMC_KIND_FLOAT, 8},
    [LMC_DTYPE_C64] = {"C64", 64, 4, LMC_KIND_FLOAT, 8},
    [LMC_DTYPE_I64] = {"I64", 64, 8, LMC_KIND_INT, 0},
    [LMC_DTYPE_U64] = {"U64", 64, 8, LMC_KIND_INT, 0},
    [LMC_DTYPE_F64] = {"F64", 64, 8, LMC_KIND_FLOAT, 11},
};

static int is_dtype(lmc_dtype dtype)
{
    return (unsigned)dtype < LMC_DTYPE_COUNT;
}

const char *lmc_dtype_name(lmc_dtype dtype)
{
    return is_dtype(dtype) ? rows[dtype].name : NULL;
}

int lmc_dtype_find(const char *name, size_t name_nbytes, lmc_dtype *dtype)
{
    for (unsigned i = 0; i < LMC_DTYPE_COUNT; i++) {
        if (strlen(rows[i].name) == name_nbytes && memcmp(rows[i].name, name, name_nbytes) == 0) {
            *dtype = (lmc_dtype)i;
            return 1;
        }
    }
    return 0;
}

unsigned lmc_dtype_nbits(lmc_dtype dtype)
{
    return is_dtype(dtype) ? rows[dtype].nbits : 0;
}

lmc_dtype_kind lmc_dtype_get_kind(lmc_dtype dtype)
{
    assert(is_dtype(dtype));
    return (lmc_dtype_kind)rows[dtype].kind;
}

unsigned lmc_dtype_element_nbytes(lmc_dtype dtype)
{
    assert(is_dtype(dtype));
    return rows[dtype].element_nbytes;
}

unsigned lmc_dtype_exponent_nbits(lmc_dtype dtype)
{
    assert(is_dtype(dtype));
    return rows[dtype].exponent_nbits;
}

/* ---- the guess: entropies of the content's bytes are compared for each width of elements ---- */

/* A wider element must make bytes more regular by this factor. With more positions each has fewer samples, and few
 * samples look more regular than they are: 2048 bytes of noise by 1 %. */
#define WIDER_FACTOR 0.97

/* fp8 is taken when keeping the sign out of the symbols costs no more than this factor. */
#define SIGN_FACTOR 1.005

/* An integer is taken when it is cheaper by this factor: floats lose little under either view. */
#define INTEGER_FACTOR 0.99

/* Bits of an element, byte by byte, as it is or rotated left by one bit as the codec does with floats. */
static double element_cost(const uint8_t *sample, size_t nbytes, unsigned element_nbytes, int is_rotated)
{
    double counts[8][256] = {{0}};
    const unsigned top = 8 * element_nbytes - 1;
    for (size_t i = 0; i + element_nbytes <= nbytes; i += element_nbytes) {
        uint64_t x = 0;
        memcpy(&x, sample + i, element_nbytes);
        if (is_rotated)
            x = x << 1 | x >> top; /* a bit that leaves at the top is in no byte that is counted */
        for (unsigned j = 0; j < element_nbytes; j++)
            counts[j][x >> 8 * j & 0xff]++;
    }
    double cost = 0;
    for (unsigned j = 0; j < element_nbytes; j++)
        cost += lmc_entropy(counts[j], 256);
    return cost;
}

/* The size of element, 1, 2, 4 or 8, under which the bytes are most regular. */
static unsigned guess_element_nbytes(const uint8_t *sample, size_t nbytes)
{
    double counts[8][256] = {{0}};
    for (size_t i = 0; i < nbytes; i++)
        counts[i % 8][sample[i]]++;
    double cost[4] = {0, 0, 0, 0}; /* of a byte, in elements of 8, 4, 2, 1 */
    for (unsigned step = 0; step < 4; step++) {
        const unsigned positions = 8u >> step;
        for (unsigned p = 0; p < positions; p++)
            cost[step] += lmc_entropy(counts[p], 256) / positions;
        for (unsigned p = 0; p < positions / 2; p++) /* halve the positions: p and p + half become one */
            for (unsigned b = 0; b < 256; b++)
                counts[p][b] += counts[p + positions / 2][b];
    }
    unsigned best = 3;
    for (unsigned step = 3; step-- > 0;)
        if (cost[step] < cost[best] * WIDER_FACTOR)
            best = step;
    return 8u >> best;
}

lmc_dtype lmc_dtype_guess(const void *content, size_t nbytes, unsigned element_nbytes)
{
    uint8_t sample[LMC_GUESS_NBYTES];
    const size_t n = lmc_min_size(nbytes, sizeof sample); /* a multiple of 8 unless the content is smaller */
    if (n > 0 && n < sizeof sample)
        memcpy(sample, content, n);
    for (unsigned i = 0; n == sizeof sample && i < LMC_GUESS_RUN_COUNT; i++)
        memcpy(sample + i * LMC_GUESS_RUN_NBYTES,
               (const uint8_t *)content + (size_t)lmc_guess_run_offset(nbytes, i), LMC_GUESS_RUN_NBYTES);
    if (element_nbytes != 1 && element_nbytes != 2 && element_nbytes != 4 && element_nbytes != 8)
        element_nbytes = guess_element_nbytes(sample, n);
    if (element_nbytes == 1) {
        /* Is the top bit of a byte close to noise, as the sign of fp8 is? Noise and bytes without a rule may pass: they
         * cost the same under both dtypes. */
        double whole[256] = {0}, magnitude[256] = {0};
        for (size_t i = 0; i < n; i++) {
            whole[sample[i]]++;
            magnitude[sample[i] & 0x7f]++;
        }
        const int is_fp8 = lmc_entropy(magnitude, 256) + 1 < lmc_entropy(whole, 256) * SIGN_FACTOR;
        return is_fp8 ? LMC_DTYPE_F8_E4M3 : LMC_DTYPE_U8; /* E5M2 is coded alike */
    }
    const int is_integer = element_cost(sample, n, element_nbytes, 0) <
                           element_cost(sample, n, element_nbytes, 1) * INTEGER_FACTOR;
    switch (element_nbytes) {
    case 2:
        return is_integer ? LMC_DTYPE_U16 : LMC_DTYPE_BF16; /* serves f16, too: the codec tries both cuts */
    case 4: return is_integer ? LMC_DTYPE_U32 : LMC_DTYPE_F32;
    default: return is_integer ? LMC_DTYPE_U64 : LMC_DTYPE_F64;
    }
}
