/* sample.c - entropies of bytes, under several views of the same content. */
#include "filter/chunk/sample.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Bytes looked at: runs spread over the content. Each run begins at a multiple of 8. */
#define SAMPLE_RUN_NBYTES 2048
#define SAMPLE_RUN_COUNT 8
#define SAMPLE_NBYTES (SAMPLE_RUN_NBYTES * SAMPLE_RUN_COUNT)

/* A wider element must make bytes more regular by this factor: with more positions there are fewer samples of
 * each, and fewer samples look more regular than they are (at 2048 of noise by 1 %). */
#define WIDER_FACTOR 0.97

/* fp8 is taken when keeping the sign out of the symbols costs no more than this factor. */
#define SIGN_FACTOR 1.005

/* An integer is taken when it is cheaper by this factor: floats lose little under either view. */
#define INTEGER_FACTOR 0.99

/* Copies the sample; returns its size, a multiple of 8 unless the content is smaller than that. */
static size_t take_sample(const unsigned char *content, size_t nbytes, unsigned char *sample)
{
    if (nbytes <= SAMPLE_NBYTES) {
        memcpy(sample, content, nbytes);
        return nbytes;
    }
    const size_t span = nbytes - SAMPLE_RUN_NBYTES;
    for (size_t i = 0; i < SAMPLE_RUN_COUNT; i++) {
        const size_t first = span / (SAMPLE_RUN_COUNT - 1) * i & ~(size_t)7;
        memcpy(sample + i * SAMPLE_RUN_NBYTES, content + first, SAMPLE_RUN_NBYTES);
    }
    return SAMPLE_NBYTES;
}

/* Bits that a byte of this histogram takes. */
static double entropy(const unsigned *counts)
{
    double total = 0;
    double sum = 0;
    for (unsigned i = 0; i < 256; i++) {
        if (counts[i] > 0) {
            total += counts[i];
            sum += counts[i] * log2(counts[i]);
        }
    }
    return total > 0 ? log2(total) - sum / total : 0;
}

/* Bits of an element, byte by byte, as it is or rotated left by one bit as the codec does with floats. */
static double element_cost(const unsigned char *sample, size_t nbytes, unsigned element_nbytes,
                           int is_rotated)
{
    unsigned counts[8][256] = {{0}};
    const unsigned top = 8 * element_nbytes - 1;
    for (size_t i = 0; i + element_nbytes <= nbytes; i += element_nbytes) {
        uint64_t x = 0;
        memcpy(&x, sample + i, element_nbytes);
        if (is_rotated)
            x = x << 1 | x >> top; /* what leaves at the top is in no byte that is counted */
        for (unsigned j = 0; j < element_nbytes; j++)
            counts[j][x >> 8 * j & 0xff]++;
    }
    double cost = 0;
    for (unsigned j = 0; j < element_nbytes; j++)
        cost += entropy(counts[j]);
    return cost;
}

/* Bytes whose top bit is as good as noise, as the signs of fp8 are. Noise and bytes without a rule may pass, too:
 * they cost the same either way. */
static int is_fp8(const unsigned char *sample, size_t nbytes)
{
    unsigned whole[256] = {0};
    unsigned magnitude[256] = {0};
    for (size_t i = 0; i < nbytes; i++) {
        whole[sample[i]]++;
        magnitude[sample[i] & 0x7f]++;
    }
    return entropy(magnitude) + 1 < entropy(whole) * SIGN_FACTOR;
}

lmc_dtype h5_sample_dtype(const unsigned char *content, size_t nbytes, unsigned element_nbytes)
{
    unsigned char sample[SAMPLE_NBYTES];
    const size_t n = take_sample(content, nbytes, sample);
    if (element_nbytes == 1)
        return is_fp8(sample, n) ? LMC_DTYPE_F8_E4M3 : LMC_DTYPE_U8; /* E5M2 is coded alike */
    const int is_integer = element_cost(sample, n, element_nbytes, 0) <
                           element_cost(sample, n, element_nbytes, 1) * INTEGER_FACTOR;
    switch (element_nbytes) {
    case 2:
        return is_integer ? LMC_DTYPE_U16 : LMC_DTYPE_BF16; /* serves f16 too: the codec tries both cuts */
    case 4: return is_integer ? LMC_DTYPE_U32 : LMC_DTYPE_F32;
    default: return is_integer ? LMC_DTYPE_U64 : LMC_DTYPE_F64;
    }
}

unsigned h5_sample_element_nbytes(const unsigned char *content, size_t nbytes)
{
    unsigned char sample[SAMPLE_NBYTES];
    unsigned counts[8][256] = {{0}};
    const size_t n = take_sample(content, nbytes, sample);
    for (size_t i = 0; i < n; i++)
        counts[i % 8][sample[i]]++;
    double cost[4] = {0, 0, 0, 0}; /* of a byte, in elements of 8, 4, 2, 1 */
    for (unsigned step = 0; step < 4; step++) {
        const unsigned positions = 8u >> step;
        for (unsigned p = 0; p < positions; p++)
            cost[step] += entropy(counts[p]) / positions;
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
