/*
 * avx2_pext.c - the kernel set avx2, for CPUs with AVX2 and BMI2 (Haswell, Zen 3 and later). What is included after the
 * target is pushed here is compiled for these CPUs. Nothing in it may be called before select.c has asked the CPU.
 */
#include "codec/kernels/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <limits.h>

#include "codec/kernels/shared/instances.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,popcnt")
#endif

#include "codec/kernels/avx2/registers.h"

#include "codec/kernels/avx2/pext_bits_impl.h"

#include "codec/kernels/avx2/avx2_impl.h"

DEFINE_KERNELS(avx2, "avx2");

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int lmc_avx2_is_empty; /* ISO C wants a declaration in every file */
#endif
