/* test_x86_cpu.c - the choice between kernel sets of x86-64: forged CPUs, and this one as the compiler sees it. */
#include "lmc_test.h"

#include "codec/kernels/kernels.h"
#include "codec/kernels/x86_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All that a set needs, as bits of leaf 1 ecx, leaf 7 ebx, leaf 7 ecx and XCR0. */
static const lmc_x86_cpu least_avx2 = {
    .leaf_1_ecx = 0x18800000, .leaf_7_ebx = 0x00000128, .leaf_7_ecx = 0, .xcr0 = 0x06};
static const lmc_x86_cpu least_avx512 = {
    .leaf_1_ecx = 0x18800000, .leaf_7_ebx = 0xc0030128, .leaf_7_ecx = 0x00004042, .xcr0 = 0xe6};

static const lmc_x86_cpu everything = {
    .leaf_1_ecx = 0xffffffff, .leaf_7_ebx = 0xffffffff, .leaf_7_ecx = 0xffffffff, .xcr0 = UINT64_MAX};

/* The CPU without bit i of all that the four fields have. */
static lmc_x86_cpu without_bit(lmc_x86_cpu cpu, unsigned i)
{
    if (i < 32)
        cpu.leaf_1_ecx &= ~(UINT32_C(1) << i);
    else if (i < 64)
        cpu.leaf_7_ebx &= ~(UINT32_C(1) << (i - 32));
    else if (i < 96)
        cpu.leaf_7_ecx &= ~(UINT32_C(1) << (i - 64));
    else
        cpu.xcr0 &= ~(UINT64_C(1) << (i - 96));
    return cpu;
}

#define BIT_COUNT 160

static int is_same(const lmc_x86_cpu *a, const lmc_x86_cpu *b)
{
    return a->leaf_1_ecx == b->leaf_1_ecx && a->leaf_7_ebx == b->leaf_7_ebx &&
           a->leaf_7_ecx == b->leaf_7_ecx && a->xcr0 == b->xcr0;
}

/* Each bit of `least` is needed, and no other one is. */
static void check_bits(int (*has_set)(const lmc_x86_cpu *), const lmc_x86_cpu *least)
{
    CU_ASSERT(has_set(least));
    CU_ASSERT(has_set(&everything));
    for (unsigned i = 0; i < BIT_COUNT; i++) {
        const lmc_x86_cpu fewer = without_bit(*least, i);
        const lmc_x86_cpu all_but_one = without_bit(everything, i);
        CU_ASSERT_EQUAL(has_set(&fewer), is_same(&fewer, least));
        CU_ASSERT_EQUAL(has_set(&all_but_one), is_same(&fewer, least));
    }
}

LMC_TEST(test_avx2_bits)
{
    check_bits(lmc_x86_cpu_has_avx2, &least_avx2);
}

LMC_TEST(test_avx512_bits)
{
    check_bits(lmc_x86_cpu_has_avx512, &least_avx512);
}

LMC_TEST(test_cpus)
{
    const lmc_x86_cpu nothing = {0};
    lmc_x86_cpu cpu = least_avx512;
    CU_ASSERT(!lmc_x86_cpu_has_avx2(&nothing) && !lmc_x86_cpu_has_avx512(&nothing));
    CU_ASSERT(lmc_x86_cpu_has_avx2(&least_avx512) && !lmc_x86_cpu_has_avx512(&least_avx2));
    cpu.xcr0 = 0x07; /* an operating system that does not save zmm */
    CU_ASSERT(lmc_x86_cpu_has_avx2(&cpu) && !lmc_x86_cpu_has_avx512(&cpu));
    cpu.xcr0 = 0x03; /* nor ymm */
    CU_ASSERT(!lmc_x86_cpu_has_avx2(&cpu) && !lmc_x86_cpu_has_avx512(&cpu));
    cpu = least_avx512;
    cpu.leaf_7_ecx = 0; /* Skylake: AVX-512 without VBMI and VBMI2 */
    CU_ASSERT(lmc_x86_cpu_has_avx2(&cpu) && !lmc_x86_cpu_has_avx512(&cpu));
}

/* ebx, edx and ecx of leaf 0, as manuals and lists of real CPUs have them. */
#define AMD 0x68747541, 0x69746e65, 0x444d4163
#define HYGON 0x6f677948, 0x6e65476e, 0x656e6975
#define INTEL 0x756e6547, 0x49656e69, 0x6c65746e

LMC_TEST(test_slow_pext)
{
    static const struct {
        const char *name;
        uint32_t leaf_0_ebx, leaf_0_edx, leaf_0_ecx, leaf_1_eax;
        int is_slow;
    } cpus[] = {
        {"Excavator", AMD, 0x00660f01, 1},
        {"Zen, Naples", AMD, 0x00800f12, 1},
        {"Zen 2, Rome", AMD, 0x00830f10, 1},
        {"Zen 2, Renoir", AMD, 0x00860f01, 1},
        {"Hygon's Zen", HYGON, 0x00900f02, 1},
        {"Zen 3, Milan", AMD, 0x00a00f11, 0},
        {"Zen 4, Genoa", AMD, 0x00a10f11, 0},
        {"Zen 5, Turin", AMD, 0x00b00f21, 0},
        {"Haswell", INTEL, 0x000306c3, 0},
        {"Skylake", INTEL, 0x000506e3, 0},
        {"a family of Intel with the number of Zen", INTEL, 0x00800f12, 0},
        {"an emulator that hides the vendor", 0, 0, 0, 0x00800f12, 0},
        {"nothing", 0, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < LMC_COUNT(cpus); i++) {
        lmc_x86_cpu cpu = least_avx2;
        cpu.leaf_0_ebx = cpus[i].leaf_0_ebx;
        cpu.leaf_0_edx = cpus[i].leaf_0_edx;
        cpu.leaf_0_ecx = cpus[i].leaf_0_ecx;
        cpu.leaf_1_eax = cpus[i].leaf_1_eax;
        const int is_slow = lmc_x86_cpu_has_slow_pext(&cpu);
        CU_ASSERT_EQUAL(is_slow, cpus[i].is_slow);
        if (is_slow != cpus[i].is_slow)
            printf("%s: %d\n", cpus[i].name, is_slow);
        CU_ASSERT(lmc_x86_cpu_has_avx2(&cpu));
    }
}

#if defined(__x86_64__)

LMC_TEST(test_this_cpu)
{
    const lmc_x86_cpu cpu = lmc_x86_cpu_read();
    __builtin_cpu_init();
    const int has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    const int has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
                           __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vpopcntdq");
    CU_ASSERT_EQUAL(lmc_x86_cpu_has_avx2(&cpu), has_avx2);
    CU_ASSERT_EQUAL(lmc_x86_cpu_has_avx512(&cpu), has_avx512);
    CU_ASSERT_EQUAL(lmc_kernels_find("avx2") != NULL, has_avx2);
    CU_ASSERT_EQUAL(lmc_kernels_find("avx2-nopext") != NULL, has_avx2);
    CU_ASSERT_EQUAL(lmc_kernels_find("avx512") != NULL, has_avx512);
}

/* The family as the compiler's library sees it. */
LMC_TEST(test_pext_of_this_cpu)
{
    const lmc_x86_cpu cpu = lmc_x86_cpu_read();
    __builtin_cpu_init();
    if (__builtin_cpu_is("amdfam17h") || __builtin_cpu_is("amdfam15h"))
        CU_ASSERT(lmc_x86_cpu_has_slow_pext(&cpu));
    if (__builtin_cpu_is("intel") || __builtin_cpu_is("amdfam19h"))
        CU_ASSERT(!lmc_x86_cpu_has_slow_pext(&cpu));
}

/* Without LMC_KERNELS: the best set that is fast here. */
LMC_TEST(test_choice)
{
    const lmc_x86_cpu cpu = lmc_x86_cpu_read();
    const char *best = "scalar";
    if (lmc_x86_cpu_has_avx2(&cpu))
        best = lmc_x86_cpu_has_slow_pext(&cpu) ? "avx2-nopext" : "avx2";
    if (lmc_x86_cpu_has_avx512(&cpu))
        best = "avx512";
    if (!getenv("LMC_KERNELS"))
        CU_ASSERT_STRING_EQUAL(lmc_kernels_get()->name, best);
}

#else

LMC_TEST(test_this_cpu)
{
    const lmc_x86_cpu cpu = lmc_x86_cpu_read();
    CU_ASSERT(!lmc_x86_cpu_has_avx2(&cpu) && !lmc_kernels_find("avx2") && !lmc_kernels_find("avx512"));
    CU_ASSERT(!lmc_kernels_find("avx2-nopext"));
}

LMC_TEST(test_pext_of_this_cpu)
{
    const lmc_x86_cpu cpu = lmc_x86_cpu_read();
    CU_ASSERT(!lmc_x86_cpu_has_slow_pext(&cpu));
}

LMC_TEST(test_choice)
{
    if (!getenv("LMC_KERNELS"))
        CU_ASSERT(strncmp(lmc_kernels_get()->name, "avx", 3) != 0);
}

#endif

LMC_TEST_MAIN("x86_cpu")
