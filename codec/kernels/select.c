/*
 * select.c - chooses the kernel set of this process, once, at first use: the best that the CPU and the operating system
 * offer. LMC_KERNELS=name asks for another set, for tests.
 */
#include "codec/kernels/kernels.h"
#include "codec/kernels/x86_cpu.h"

#include <stdatomic.h>
#include <stdlib.h>

#if defined(__x86_64__)

static int has_avx2(void)
{
    const lmc_x86_cpu cpu = lmc_x86_cpu_read();
    return lmc_x86_cpu_has_avx2(&cpu);
}

static int has_avx512(void)
{
    const lmc_x86_cpu cpu = lmc_x86_cpu_read();
    return lmc_x86_cpu_has_avx512(&cpu);
}

static int has_fast_pext(void)
{
    const lmc_x86_cpu cpu = lmc_x86_cpu_read();
    return !lmc_x86_cpu_has_slow_pext(&cpu);
}

#endif

static int always(void)
{
    return 1;
}

/* All sets of this build, best first. A set that is there may be slower than the next one. */
static const struct {
    const lmc_kernels *kernels;
    int (*is_there)(void);
    int (*is_fast)(void);
} sets[] = {
#if defined(__x86_64__)
    {&lmc_kernels_avx512, has_avx512, always},
    {&lmc_kernels_avx2, has_avx2, has_fast_pext},
    {&lmc_kernels_avx2_nopext, has_avx2, always},
#elif defined(__aarch64__)
    {&lmc_kernels_neon, always, always},
#endif
    {&lmc_kernels_scalar, always, always},
};

const lmc_kernels *lmc_kernels_find(const char *name)
{
    for (size_t i = 0; i < LMC_COUNT(sets); i++)
        if (strcmp(sets[i].kernels->name, name) == 0)
            return sets[i].is_there() ? sets[i].kernels : NULL;
    return NULL;
}

static const lmc_kernels *choose(void)
{
    const char *const wanted = getenv("LMC_KERNELS");
    const lmc_kernels *const found = wanted ? lmc_kernels_find(wanted) : NULL;
    if (found)
        return found;
    size_t i = 0;
    while (!sets[i].is_there() || !sets[i].is_fast()) /* the last set is both */
        i++;
    return sets[i].kernels;
}

const lmc_kernels *lmc_kernels_get(void)
{
    /* Threads that race here make the same choice. */
    static _Atomic(const lmc_kernels *) chosen;
    const lmc_kernels *kernels = atomic_load_explicit(&chosen, memory_order_acquire);
    if (LMC_UNLIKELY(!kernels)) {
        kernels = choose();
        atomic_store_explicit(&chosen, kernels, memory_order_release);
    }
    return kernels;
}
