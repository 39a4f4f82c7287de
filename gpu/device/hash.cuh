/*
 * hash.cuh - XXH3-64 with seed 0 of content that the thread block has written (docs/format.md, section 1). Within a KiB
 * the stripes only add to the accumulators, so they are summed in any order; from one KiB to the next there is a chain.
 */
#ifndef LMC_GPU_DEVICE_HASH_CUH
#define LMC_GPU_DEVICE_HASH_CUH

#include "gpu/device/thread_block.cuh"

#define PRIME32_1 0x9e3779b1u
#define PRIME32_2 0x85ebca77u
#define PRIME32_3 0xc2b2ae3du
#define PRIME64_1 0x9e3779b185ebca87ull
#define PRIME64_2 0xc2b2ae3d27d4eb4full
#define PRIME64_3 0x165667b19e3779f9ull
#define PRIME64_4 0x85ebca77c2b2ae63ull
#define PRIME64_5 0x27d4eb2f165667c5ull
#define PRIME_MX1 0x165667919e3779f9ull
#define PRIME_MX2 0x9fb21c651e98df25ull

#define KIB 1024u
#define STRIPE_NBYTES 64u
#define HASH_SHORT_NBYTES 240u /* longer content goes through accumulators */

/* XXH3's secret of 192 bytes. */
LMC_DEVICE_CONSTANT const uint64_t secret_words[24] = {
    0xbe4ba423396cfeb8ull, 0x1cad21f72c81017cull, 0xdb979083e96dd4deull, 0x1f67b3b7a4a44072ull,
    0x78e5c0cc4ee679cbull, 0x2172ffcc7dd05a82ull, 0x8e2443f7744608b8ull, 0x4c263a81e69035e0ull,
    0xcb00c391bb52283cull, 0xa32e531b8b65d088ull, 0x4ef90da297486471ull, 0xd8acdea946ef1938ull,
    0x3f349ce33f76faa8ull, 0x1d4f0bc7c7bbdcf9ull, 0x3159b4cd4be0518aull, 0x647378d9c97e9fc8ull,
    0xc3ebd33483acc5eaull, 0xeb6313faffa081c5ull, 0x49daf0b751dd0d17ull, 0x9e68d429265516d3ull,
    0xfca1477d58be162bull, 0xce31d07ad1b8f88full, 0x280416958f3acb45ull, 0x7e404bbbcafbd7afull};

LMC_DEVICE void load_secret(shared_state *shared)
{
    for (uint32_t i = cta_thread(); i < 24; i += LMC_CUDA_THREADS)
        shared->secret[i] = secret_words[i];
}

/* 8 bytes of the secret from byte `at` on. */
LMC_DEVICE uint64_t secret_at(const shared_state *shared, uint32_t at)
{
    const uint32_t shift = at % 8 * 8;
    const uint64_t low = shared->secret[at / 8];
    return shift == 0 ? low : low >> shift | shared->secret[at / 8 + 1] << (64 - shift);
}

LMC_DEVICE uint64_t load_64(const uint8_t *p)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < 8; i++)
        value |= (uint64_t)p[i] << 8 * i;
    return value;
}

LMC_DEVICE uint64_t load_32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

LMC_DEVICE uint64_t rotate_left_64(uint64_t value, uint32_t by)
{
    return value << by | value >> (64 - by);
}

LMC_DEVICE uint64_t swap_bytes_64(uint64_t value)
{
    uint64_t swapped = 0;
    for (uint32_t i = 0; i < 8; i++)
        swapped |= (value >> 8 * i & 0xff) << (56 - 8 * i);
    return swapped;
}

/* The halves of the 128-bit product, xored. */
LMC_DEVICE uint64_t multiply_fold(uint64_t a, uint64_t b)
{
    return a * b ^ multiply_high(a, b);
}

LMC_DEVICE uint64_t multiply_halves(uint64_t value)
{
    return (value & 0xffffffffu) * (value >> 32);
}

LMC_DEVICE uint64_t avalanche(uint64_t hash)
{
    hash = (hash ^ hash >> 37) * PRIME_MX1;
    return hash ^ hash >> 32;
}

/* ---- short content: one thread ---- */

LMC_DEVICE uint64_t hash_up_to_16(const shared_state *shared, const uint8_t *content, uint32_t nbytes)
{
    if (nbytes > 8) {
        const uint64_t low = load_64(content) ^ secret_at(shared, 24) ^ secret_at(shared, 32);
        const uint64_t high = load_64(content + nbytes - 8) ^ secret_at(shared, 40) ^ secret_at(shared, 48);
        return avalanche(nbytes + swap_bytes_64(low) + high + multiply_fold(low, high));
    }
    if (nbytes >= 4) {
        const uint64_t both = load_32(content + nbytes - 4) + (load_32(content) << 32);
        uint64_t hash = both ^ secret_at(shared, 8) ^ secret_at(shared, 16);
        hash ^= rotate_left_64(hash, 49) ^ rotate_left_64(hash, 24);
        hash *= PRIME_MX2;
        hash ^= (hash >> 35) + nbytes;
        hash *= PRIME_MX2;
        return hash ^ hash >> 28;
    }
    const uint32_t bytes =
        (uint32_t)content[0] << 16 | (uint32_t)content[nbytes / 2] << 24 | content[nbytes - 1] | nbytes << 8;
    uint64_t hash = bytes ^ ((uint32_t)shared->secret[0] ^ shared->secret[0] >> 32);
    hash = (hash ^ hash >> 33) * PRIME64_2;
    hash = (hash ^ hash >> 29) * PRIME64_3;
    return hash ^ hash >> 32;
}

LMC_DEVICE uint64_t mix_16(const shared_state *shared, const uint8_t *content, uint32_t secret)
{
    return multiply_fold(load_64(content) ^ secret_at(shared, secret),
                         load_64(content + 8) ^ secret_at(shared, secret + 8));
}

LMC_DEVICE_CALL uint64_t hash_short(const shared_state *shared, const uint8_t *content, uint32_t nbytes)
{
    if (nbytes <= 16)
        return hash_up_to_16(shared, content, nbytes);
    uint64_t hash = nbytes * PRIME64_1;
    if (nbytes <= 128) {
        for (uint32_t i = 0; i <= (nbytes - 1) / 32; i++)
            hash += mix_16(shared, content + 16 * i, 32 * i) +
                    mix_16(shared, content + nbytes - 16 * (i + 1), 32 * i + 16);
        return avalanche(hash);
    }
    for (uint32_t i = 0; i < 8; i++)
        hash += mix_16(shared, content + 16 * i, 16 * i);
    hash = avalanche(hash);
    for (uint32_t i = 8; i < nbytes / 16; i++)
        hash += mix_16(shared, content + 16 * i, 16 * (i - 8) + 3);
    return avalanche(hash + mix_16(shared, content + nbytes - 16, 136 - 17));
}

/* ---- longer content: all threads sum up, the first warp follows the chain ---- */

LMC_DEVICE uint64_t warp_xor_64(uint64_t value, uint32_t lanes)
{
    return (uint64_t)warp_xor((uint32_t)(value >> 32), lanes) << 32 | warp_xor((uint32_t)value, lanes);
}

/* What a stripe adds to accumulator `lane` % 8, by 8 bytes of the secret. */
LMC_DEVICE uint64_t stripe_sum(const uint64_t *stripe, uint32_t lane, uint64_t secret)
{
    return stripe[lane ^ 1] + multiply_halves(stripe[lane] ^ secret);
}

/* Sums up the stripes of each KiB but the last. A warp takes a KiB at a time, 4 stripes at once. */
LMC_DEVICE void sum_stripes(const shared_state *shared, const uint8_t *content, uint32_t kib_count,
                            uint64_t *sums)
{
    const uint32_t lane = cta_thread() & 7, group = cta_thread() >> 3 & 3;
    for (uint32_t kib = cta_thread() / 32; kib < kib_count; kib += WARP_COUNT) {
        uint64_t sum = 0;
        LMC_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t stripe = group + 4 * i;
            sum += stripe_sum((const uint64_t *)(content + kib * KIB + stripe * STRIPE_NBYTES), lane,
                              shared->secret[stripe + lane]);
        }
        sum += warp_xor_64(sum, 8);
        sum += warp_xor_64(sum, 16);
        if (group == 0)
            sums[kib * 8 + lane] = sum;
    }
}

LMC_DEVICE uint64_t first_accumulator(uint32_t lane)
{
    switch (lane) {
    case 0: return PRIME32_3;
    case 1: return PRIME64_1;
    case 2: return PRIME64_2;
    case 3: return PRIME64_3;
    case 4: return PRIME64_4;
    case 5: return PRIME32_2;
    case 6: return PRIME64_5;
    default: return PRIME32_1;
    }
}

/* The chain over the KiBs' sums, and the last KiB. The first warp calls it. */
LMC_DEVICE uint64_t finish_hash(shared_state *shared, const uint8_t *content, uint32_t nbytes,
                                const uint64_t *sums)
{
    const uint32_t lane = cta_thread() & 7;
    const uint32_t kib_count = (nbytes - 1) / KIB, rest = nbytes - 1 - kib_count * KIB;
    uint64_t value = first_accumulator(lane);
    for (uint32_t kib = 0; kib < kib_count; kib++) {
        value += sums[kib * 8 + lane];
        value = (value ^ value >> 47 ^ shared->secret[16 + lane]) * PRIME32_1;
    }
    const uint8_t *const last = content + kib_count * KIB;
    for (uint32_t stripe = 0; stripe < rest / STRIPE_NBYTES; stripe++)
        value += stripe_sum((const uint64_t *)(last + stripe * STRIPE_NBYTES), lane,
                            shared->secret[stripe + lane]);
    const uint8_t *const end = content + nbytes - STRIPE_NBYTES; /* a stripe at any address */
    value += load_64(end + 8 * (lane ^ 1)) +
             multiply_halves(load_64(end + 8 * lane) ^ secret_at(shared, 192 - STRIPE_NBYTES - 7 + 8 * lane));
    if (cta_thread() < 8)
        shared->accumulator[lane] = value;
    warp_barrier();
    uint64_t hash = nbytes * PRIME64_1;
    for (uint32_t i = 0; i < 4; i++)
        hash += multiply_fold(shared->accumulator[2 * i] ^ secret_at(shared, 11 + 16 * i),
                              shared->accumulator[2 * i + 1] ^ secret_at(shared, 19 + 16 * i));
    return avalanche(hash);
}

/* H of nbytes >= 1 bytes at a multiple of 16 that the thread block has written before a barrier. The result is the
 * first warp's. All threads take part. sums: 64 bytes for each KiB. */
LMC_DEVICE_CALL uint64_t hash_content(shared_state *shared, const uint8_t *content, uint32_t nbytes,
                                      uint64_t *sums)
{
    const uint32_t kib_count = (nbytes - 1) / KIB;
    if (nbytes <= HASH_SHORT_NBYTES)
        return cta_thread() == 0 ? hash_short(shared, content, nbytes) : 0;
    sum_stripes(shared, content, kib_count, sums);
    cta_barrier();
    return cta_thread() < 32 ? finish_hash(shared, content, nbytes, sums) : 0;
}

#endif
