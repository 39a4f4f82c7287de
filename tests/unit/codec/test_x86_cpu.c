/* test_x86_cpu.c - the choice between kernel sets of x86-64: forged CPUs, and this one as the compiler sees it. */
#include "lmc_test.h"

#include "codec/kernels/kernels.h"
#include "codec/kernels/x86_cpu.h"

/* All that a set needs, as bits of leaf 1 ecx, leaf 7 ebx, leaf 7 ecx and XCR0. */
static const lmc_x86_cpu least_avx2 = {0x18800000, 0x00000128, 0, 0x06};
static const lmc_x86_cpu least_avx512 = {0x18800000, 0xc0030128, 0x00004042, 0xe6};

static const lmc_x86_cpu everything = {0xffffffff, 0xffffffff, 0xffffffff, UINT64_MAX};

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

static void test_avx2_bits(void)
{
    check_bits(lmc_x86_cpu_has_avx2, &least_avx2);
}

static void test_avx512_bits(void)
{
    check_bits(lmc_x86_cpu_has_avx512, &least_avx512);
}

static void test_cpus(void)
{
    const lmc_x86_cpu nothing = {0, 0, 0, 0};
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

#if defined(__x86_64__)

static void test_this_cpu(void)
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
    CU_ASSERT_EQUAL(lmc_kernels_find("avx512") != NULL, has_avx512);
}

#else

static void test_this_cpu(void)
{
    const lmc_x86_cpu cpu = lmc_x86_cpu_read();
    CU_ASSERT(!lmc_x86_cpu_has_avx2(&cpu) && !lmc_kernels_find("avx2") && !lmc_kernels_find("avx512"));
}

#endif

int main(int argc, char **argv)
{
    static const lmc_test tests[] = {
        LMC_TEST(test_avx2_bits),
        LMC_TEST(test_avx512_bits),
        LMC_TEST(test_cpus),
        LMC_TEST(test_this_cpu),
    };
    return LMC_TEST_MAIN("x86_cpu", tests, argc, argv);
}
