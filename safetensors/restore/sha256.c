/*
 * sha256.c - computes SHA-256. Names are those of FIPS 180-4.
 */
#include "safetensors/restore/sha256.h"

#include <string.h>

#define BLOCK_NBYTES 64
#define LENGTH_AT 56 /* of the 8 bytes that end the last block */

/* Section 4.2.2: the first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void store_big_endian(unsigned char *dst, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        dst[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* Section 6.2.2, step 3: one round. Instead of moving eight variables, the next round names them one place on. */
#define ROUND(a, b, c, d, e, f, g, h, t)                                 \
    do {                                                                 \
        const uint32_t S1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);      \
        const uint32_t T1 = h + S1 + ((e & f) ^ (~e & g)) + K[t] + W[t]; \
        const uint32_t S0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);      \
        d += T1;                                                         \
        h = T1 + S0 + ((a & b) ^ (a & c) ^ (b & c));                     \
    } while (0)

static void compress(uint32_t *H, const unsigned char *block)
{
    uint32_t W[64];
    uint32_t a = H[0], b = H[1], c = H[2], d = H[3], e = H[4], f = H[5], g = H[6], h = H[7];
    for (unsigned t = 0; t < 16; t++, block += 4)
        W[t] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
    for (unsigned t = 16; t < 64; t++) {
        const uint32_t s0 = rotr(W[t - 15], 7) ^ rotr(W[t - 15], 18) ^ W[t - 15] >> 3;
        const uint32_t s1 = rotr(W[t - 2], 17) ^ rotr(W[t - 2], 19) ^ W[t - 2] >> 10;
        W[t] = W[t - 16] + s0 + W[t - 7] + s1;
    }
    for (unsigned t = 0; t < 64; t += 8) {
        ROUND(a, b, c, d, e, f, g, h, t);
        ROUND(h, a, b, c, d, e, f, g, t + 1);
        ROUND(g, h, a, b, c, d, e, f, t + 2);
        ROUND(f, g, h, a, b, c, d, e, t + 3);
        ROUND(e, f, g, h, a, b, c, d, t + 4);
        ROUND(d, e, f, g, h, a, b, c, t + 5);
        ROUND(c, d, e, f, g, h, a, b, t + 6);
        ROUND(b, c, d, e, f, g, h, a, t + 7);
    }
    const uint32_t v[8] = {a, b, c, d, e, f, g, h};
    for (unsigned i = 0; i < 8; i++)
        H[i] += v[i];
}

void st_sha256_init(st_sha256 *sha256)
{
    /* section 5.3.3: of the square roots of the first 8 primes */
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memset(sha256, 0, sizeof *sha256);
    memcpy(sha256->state, initial, sizeof initial);
}

void st_sha256_update(st_sha256 *sha256, const void *src, size_t nbytes)
{
    const unsigned char *bytes = src;
    while (nbytes > 0) {
        const size_t filled = (size_t)(sha256->nbytes % BLOCK_NBYTES);
        const size_t room = BLOCK_NBYTES - filled;
        const size_t taken = nbytes < room ? nbytes : room;
        if (taken == BLOCK_NBYTES) {
            compress(sha256->state, bytes);
        } else {
            memcpy(sha256->block + filled, bytes, taken);
            if (taken == room)
                compress(sha256->state, sha256->block);
        }
        sha256->nbytes += taken;
        bytes += taken;
        nbytes -= taken;
    }
}

void st_sha256_finish(st_sha256 *sha256, unsigned char digest[ST_SHA256_NBYTES])
{
    static const unsigned char padding[BLOCK_NBYTES] = {0x80};
    const uint64_t nbits = sha256->nbytes * 8;
    const size_t filled = (size_t)(sha256->nbytes % BLOCK_NBYTES);
    unsigned char length[8];
    store_big_endian(length, (uint32_t)(nbits >> 32));
    store_big_endian(length + 4, (uint32_t)nbits);
    st_sha256_update(sha256, padding, filled < LENGTH_AT ? LENGTH_AT - filled : LENGTH_AT + 64 - filled);
    st_sha256_update(sha256, length, sizeof length);
    for (unsigned i = 0; i < 8; i++)
        store_big_endian(digest + 4 * i, sha256->state[i]);
}
