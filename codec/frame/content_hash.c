/* content_hash.c - hashes the hashes of a frame's blocks, of its content or its base. There may be any number of
 * blocks, so it works in pieces. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codec/common/bytes.h"
#include "lmc.h"

/* of_base: over base_hash, else over content_hash. */
static uint64_t hash_entries(const lmc_block_entry *entries, uint64_t entry_count, int of_base)
{
    uint64_t hashes[256]; /* hashed as bytes: hosts are little-endian (common.h) */
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (uint64_t i = 0; i < entry_count; i += LMC_COUNT(hashes)) {
        const size_t n = (size_t)lmc_min_u64(LMC_COUNT(hashes), entry_count - i);
        for (size_t k = 0; k < n; k++)
            hashes[k] = of_base ? entries[i + k].base_hash : entries[i + k].content_hash;
        XXH3_64bits_update(&state, hashes, n * sizeof hashes[0]);
    }
    return XXH3_64bits_digest(&state);
}

uint64_t lmc_content_hash(const lmc_block_entry *entries, uint64_t entry_count)
{
    return hash_entries(entries, entry_count, 0);
}

uint64_t lmc_base_hash(const lmc_block_entry *entries, uint64_t entry_count)
{
    return hash_entries(entries, entry_count, 1);
}
