/*
 * x86_cpu.h - which instructions of x86-64 a program may use: what the CPU has, as far as the operating system saves
 * the registers. The compiler's __builtin_cpu_supports() is not asked: with some compilers it denies everything.
 */
#ifndef LMC_CODEC_KERNELS_X86_CPU_H
#define LMC_CODEC_KERNELS_X86_CPU_H

#include <stdint.h>

/* What cpuid and xgetbv say. A leaf that the CPU does not have is all zeros, and so is everything on other machines. */
typedef struct lmc_x86_cpu {
    uint32_t leaf_1_ecx;
    uint32_t leaf_7_ebx, leaf_7_ecx; /* of subleaf 0 */
    uint64_t xcr0;                   /* the registers that the operating system saves; 0 without OSXSAVE */
    uint32_t leaf_0_ebx, leaf_0_edx, leaf_0_ecx; /* the vendor's name, in this order */
    uint32_t leaf_1_eax;                         /* family, model, stepping */
} lmc_x86_cpu;

/* Asks this CPU. */
lmc_x86_cpu lmc_x86_cpu_read(void);

/* Returns 1 if there is all that the set avx2 uses: AVX, AVX2, BMI, BMI2, POPCNT and the registers ymm. */
int lmc_x86_cpu_has_avx2(const lmc_x86_cpu *cpu);

/* Returns 1 if there is all that the set avx512 uses: the above, AVX-512 F, BW, DQ, VL, VBMI, VBMI2, VPOPCNTDQ, and
 * the registers zmm and k. */
int lmc_x86_cpu_has_avx512(const lmc_x86_cpu *cpu);

/* Returns 1 if pext and pdep are microcode, which takes hundreds of cycles: CPUs of AMD and Hygon before Zen 3. */
int lmc_x86_cpu_has_slow_pext(const lmc_x86_cpu *cpu);

#endif
