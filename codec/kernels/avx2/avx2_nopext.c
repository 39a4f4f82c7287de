/*
 * avx2_nopext.c - the kernel set avx2-nopext, for CPUs with AVX2 whose pext and pdep are slow (Zen and Zen 2). Its
 * target has no BMI2, so that no compiler can use them. What is included after the target is pushed here is compiled
 * for these CPUs. Nothing in it may be called before select.c has asked the CPU.
 */
#include "codec/kernels/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <limits.h>

#include "codec/kernels/shared/instances.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,popcnt")
#endif

#include "codec/kernels/avx2/registers.h"

#include "codec/kernels/avx2/vector_bits_impl.h"

#include "codec/kernels/avx2/avx2_impl.h"

DEFINE_KERNELS(avx2_nopext, "avx2-nopext");

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int lmc_avx2_nopext_is_empty; /* ISO C wants a declaration in every file */
#endif
