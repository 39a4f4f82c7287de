/*
 * select.c - the choice of a kernel set in lmc-bench, instead of codec/kernels/select.c: the linker finds
 * lmc_kernels_get() here and leaves the library's file out. lmc-bench can change the set while it runs, and can leave
 * out checksums. The library has no such switch.
 */
#include "codec/kernels/kernels.h"

/* The library's own choice and list of sets, under other names. */
#define lmc_kernels_get library_choice
#define lmc_kernels_find library_find
#include "codec/kernels/select.c"
#undef lmc_kernels_get
#undef lmc_kernels_find

#include "bench/codec/bench.h"

static const lmc_kernels *in_use;

const lmc_kernels *lmc_kernels_get(void)
{
    return in_use ? in_use : library_choice();
}

const lmc_kernels *lmc_kernels_find(const char *name)
{
    return library_find(name);
}

static uint64_t no_hash(const void *data, size_t nbytes, uint64_t seed)
{
    (void)data, (void)nbytes, (void)seed;
    return 0;
}

static void no_hash_begin(void *state)
{
    (void)state;
}

static void no_hash_update(void *state, const void *data, size_t nbytes)
{
    (void)state, (void)data, (void)nbytes;
}

static uint64_t no_hash_end(const void *state)
{
    (void)state;
    return 0;
}

int bench_use_set(const char *name, int is_bare)
{
    static lmc_kernels bare;
    const lmc_kernels *const found = library_find(name);
    if (!found)
        return -1;
    in_use = found;
    if (is_bare) {
        bare = *found;
        bare.hash = no_hash;
        bare.hash_begin = no_hash_begin;
        bare.hash_update = no_hash_update;
        bare.hash_end = no_hash_end;
        in_use = &bare;
    }
    return 0;
}
