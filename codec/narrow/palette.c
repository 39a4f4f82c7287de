/* palette.c - collects the values of a group in a hash table, and sorts them. */
#include "codec/narrow/palette.h"

#define SLOT_COUNT_LOG2 10 /* at most a quarter is in use */
#define SLOT_COUNT (1u << SLOT_COUNT_LOG2)

/* Values in the order in which they came. */
typedef struct collection {
    unsigned count;
    uint64_t value[LMC_PALETTE_VALUES_MAX];
    uint16_t slot[SLOT_COUNT]; /* the place of a value and 1; 0: free */
} collection;

/* The place of a value, which is added if there is room for one of `most`; -1 without. */
LMC_INLINE int place_of(collection *c, uint64_t value, unsigned most)
{
    unsigned s = (unsigned)(value * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SLOT_COUNT_LOG2));
    while (c->slot[s] != 0 && c->value[c->slot[s] - 1] != value)
        s = (s + 1) % SLOT_COUNT;
    if (c->slot[s] != 0)
        return c->slot[s] - 1;
    if (c->count == most)
        return -1;
    c->value[c->count++] = value;
    c->slot[s] = (uint16_t)c->count;
    return (int)c->count - 1;
}

unsigned lmc_palette_count(const uint8_t *src, size_t n, unsigned nbytes, unsigned most)
{
    collection c;
    c.count = 0;
    memset(c.slot, 0, sizeof c.slot);
    for (size_t i = 0; i < n; i++)
        if (place_of(&c, lmc_load_n(src + i * nbytes, nbytes), most) < 0)
            return most + 1;
    return c.count;
}

unsigned lmc_palette_find(const uint8_t *src, size_t n, unsigned nbytes, size_t missed_max,
                          unsigned known_count, uint8_t *palette, uint8_t *numbers)
{
    collection c;
    uint64_t sorted[LMC_PALETTE_VALUES_MAX];
    uint8_t number[LMC_PALETTE_VALUES_MAX]; /* of each place */
    unsigned used_count = 0;                /* of known values, up to the last one */
    size_t missed = 0;
    c.count = 0;
    memset(c.slot, 0, sizeof c.slot);
    for (unsigned k = 0; k < known_count; k++)
        number[k] =
            (uint8_t)place_of(&c, lmc_load_n(palette + (size_t)k * nbytes, nbytes), LMC_PALETTE_VALUES_MAX);
    for (size_t i = 0; i < n; i++) {
        const int place = place_of(&c, lmc_load_n(src + i * nbytes, nbytes), LMC_PALETTE_VALUES_MAX);
        if (place < 0 && ++missed > missed_max)
            return 0;
        numbers[i] = (uint8_t)(place < 0 ? 0 : place);
        if (place >= (int)used_count && place < (int)known_count)
            used_count = (unsigned)place + 1;
    }
    const unsigned count = used_count + c.count - known_count;
    for (unsigned i = known_count; i < c.count; i++) {
        unsigned k = used_count + i - known_count;
        for (; k > used_count && sorted[k - 1] > c.value[i]; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = c.value[i];
    }
    for (unsigned k = used_count; k < count; k++) {
        lmc_store_n(palette + (size_t)k * nbytes, sorted[k], nbytes);
        number[place_of(&c, sorted[k], LMC_PALETTE_VALUES_MAX)] = (uint8_t)k;
    }
    for (size_t i = 0; i < n; i++)
        numbers[i] = number[numbers[i]];
    return count;
}
