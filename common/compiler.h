/*
 * compiler.h - compiler macros and small integer helpers. It includes nothing of the project.
 */
#ifndef LMC_COMMON_COMPILER_H
#define LMC_COMMON_COMPILER_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "LMC supports little-endian hosts only"
#endif

#define LMC_INLINE static inline __attribute__((always_inline))
#define LMC_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define LMC_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define LMC_PREFETCH(pointer) __builtin_prefetch(pointer, 0, 2)
#if defined(__MINGW32__) && !defined(__clang__) /* there "printf" means that of Windows, without %zu */
#define LMC_PRINTF(format_index, first_argument) \
    __attribute__((format(gnu_printf, format_index, first_argument)))
#else
#define LMC_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#endif

#define LMC_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What a macro stands for, as a string. */
#define LMC_TEXT_OF(macro) LMC_TEXT_OF_TOKENS(macro)
#define LMC_TEXT_OF_TOKENS(tokens) #tokens

LMC_INLINE size_t lmc_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

LMC_INLINE uint64_t lmc_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ceil(a / b) without overflow; b > 0 */
LMC_INLINE uint64_t lmc_div_ceil(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* Bytes that hold n bits. */
LMC_INLINE size_t lmc_bits_nbytes(size_t n)
{
    return n / 8 + (n % 8 != 0);
}

#endif
