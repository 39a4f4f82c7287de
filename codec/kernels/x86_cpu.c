/*
 * x86_cpu.c - cpuid, xgetbv, and what their bits mean (Intel's manual, volume 2, CPUID; volume 1, 13.3 and 14.3;
 * AMD's manual, volume 3, appendix E).
 */
#include "codec/kernels/x86_cpu.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define BIT(n) (UINT32_C(1) << (n))

/* leaf 1, ecx */
enum { POPCNT = 23, OSXSAVE = 27, AVX = 28 };
/* leaf 7, ebx */
enum { BMI = 3, AVX2 = 5, BMI2 = 8, AVX512F = 16, AVX512DQ = 17, AVX512BW = 30, AVX512VL = 31 };
/* leaf 7, ecx */
enum { AVX512VBMI = 1, AVX512VBMI2 = 6, AVX512VPOPCNTDQ = 14 };
/* XCR0 */
enum { XMM = 1, YMM = 2, MASKS = 5, ZMM_HALVES = 6, ZMM_16_31 = 7 };

/* A family of AMD. Zen and Zen 2 are 0x17, Hygon's Zen is 0x18, Excavator, the first with BMI2, is 0x15. */
enum { ZEN_3 = 0x19 };

lmc_x86_cpu lmc_x86_cpu_read(void)
{
    lmc_x86_cpu cpu = {0};
#if defined(__x86_64__)
    unsigned eax, ebx, ecx, edx;
    if (__get_cpuid(0, &eax, &ebx, &ecx, &edx)) {
        cpu.leaf_0_ebx = ebx;
        cpu.leaf_0_edx = edx;
        cpu.leaf_0_ecx = ecx;
    }
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) {
        cpu.leaf_1_eax = eax;
        cpu.leaf_1_ecx = ecx;
    }
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
        cpu.leaf_7_ebx = ebx;
        cpu.leaf_7_ecx = ecx;
    }
    if (cpu.leaf_1_ecx & BIT(OSXSAVE)) { /* without it, xgetbv is no instruction */
        __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
        cpu.xcr0 = (uint64_t)edx << 32 | eax;
    }
#endif
    return cpu;
}

static int has_all(uint64_t found, uint32_t wanted)
{
    return (found & wanted) == wanted;
}

int lmc_x86_cpu_has_avx2(const lmc_x86_cpu *cpu)
{
    return has_all(cpu->leaf_1_ecx, BIT(POPCNT) | BIT(OSXSAVE) | BIT(AVX)) &&
           has_all(cpu->leaf_7_ebx, BIT(BMI) | BIT(AVX2) | BIT(BMI2)) &&
           has_all(cpu->xcr0, BIT(XMM) | BIT(YMM));
}

int lmc_x86_cpu_has_avx512(const lmc_x86_cpu *cpu)
{
    return lmc_x86_cpu_has_avx2(cpu) &&
           has_all(cpu->leaf_7_ebx, BIT(AVX512F) | BIT(AVX512DQ) | BIT(AVX512BW) | BIT(AVX512VL)) &&
           has_all(cpu->leaf_7_ecx, BIT(AVX512VBMI) | BIT(AVX512VBMI2) | BIT(AVX512VPOPCNTDQ)) &&
           has_all(cpu->xcr0, BIT(MASKS) | BIT(ZMM_HALVES) | BIT(ZMM_16_31));
}

/* Leaf 0 in ebx, edx, ecx: a name of 12 characters. */
static int is_vendor(const lmc_x86_cpu *cpu, const char *name)
{
    const uint32_t found[3] = {cpu->leaf_0_ebx, cpu->leaf_0_edx, cpu->leaf_0_ecx};
    return memcmp(found, name, sizeof found) == 0;
}

int lmc_x86_cpu_has_slow_pext(const lmc_x86_cpu *cpu)
{
    unsigned family =
        cpu->leaf_1_eax >> 8 & 0xf; /* leaf 1, eax: bits 8..11; if they are all set, plus bits 20..27 */
    if (family == 0xf)
        family += cpu->leaf_1_eax >> 20 & 0xff;
    return (is_vendor(cpu, "AuthenticAMD") || is_vendor(cpu, "HygonGenuine")) && family < ZEN_3;
}
