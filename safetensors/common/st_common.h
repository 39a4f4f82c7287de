/*
 * st_common.h - what every file of liblmc_st needs: little-endian numbers, checked sums, structs that grow (lmc.h),
 * and the one way to fail. Nothing here allocates or touches a file.
 */
#ifndef LMC_SAFETENSORS_COMMON_ST_COMMON_H
#define LMC_SAFETENSORS_COMMON_ST_COMMON_H

#include "lmc_st_experimental.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "big-endian hosts are not supported"
#endif

static inline uint32_t lmc_load32(const unsigned char *src)
{
    return (uint32_t)src[0] | (uint32_t)src[1] << 8 | (uint32_t)src[2] << 16 | (uint32_t)src[3] << 24;
}

static inline uint64_t lmc_load64(const unsigned char *src)
{
    return (uint64_t)lmc_load32(src) | (uint64_t)lmc_load32(src + 4) << 32;
}

static inline void lmc_store32(unsigned char *dst, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        dst[i] = (unsigned char)(value >> 8 * i);
}

static inline void lmc_store64(unsigned char *dst, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        dst[i] = (unsigned char)(value >> 8 * i);
}

/* The next multiple of 8. */
static inline uint64_t st_padded(uint64_t nbytes)
{
    return (nbytes + 7) / 8 * 8;
}

/* *sum = a + b, *product = a * b; return 1 if it does not fit. */
__attribute__((warn_unused_result)) static inline int lmc_add_overflows(uint64_t a, uint64_t b, uint64_t *sum)
{
    return __builtin_add_overflow(a, b, sum);
}

__attribute__((warn_unused_result)) static inline int lmc_multiply_overflows(uint64_t a, uint64_t b,
                                                                             uint64_t *product)
{
    return __builtin_mul_overflow(a, b, product);
}

/* The struct_size of a caller's struct. */
static inline size_t lmc_struct_size(const void *given)
{
    size_t nbytes;
    memcpy(&nbytes, given, sizeof nbytes);
    return nbytes;
}

/* 1 if a struct of this library, of `known_nbytes` bytes, holds every field of the caller's struct. */
static inline int lmc_struct_is_known(const void *given, size_t known_nbytes)
{
    return lmc_struct_size(given) >= sizeof(size_t) && lmc_struct_size(given) <= known_nbytes;
}

/* Copies the fields that both structs have and leaves struct_size of *dst alone. nbytes: struct_size of the caller's
 * struct, which is the shorter one. */
static inline void lmc_struct_copy(void *dst, const void *src, size_t nbytes)
{
    memcpy((char *)dst + sizeof(size_t), (const char *)src + sizeof(size_t), nbytes - sizeof(size_t));
}

/* Leaves the function that it stands in with the status of `call`, unless that is LMC_OK. */
#define LMC_TRY(call)                         \
    do {                                      \
        const lmc_status try_status = (call); \
        if (try_status != LMC_OK)             \
            return try_status;                \
    } while (0)

/* 1 once the caller of a call wants it to end; cancel may be NULL. */
static inline int st_is_cancelled(const volatile int *cancel)
{
    return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED) != 0;
}

/* Fails with CANCELLED. */
lmc_status st_fail_cancelled(lmc_st_diag *diag);

/* Makes `diag` say "no fault so far in `path`". */
void st_diag_init(lmc_st_diag *diag, const char *path);

/* Fills status, offset and text of `diag` (file and tensor stay) and returns `status`. */
lmc_status st_fail(lmc_st_diag *diag, lmc_status status, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for a failed system call: IO, or NOMEM for ENOMEM. `what` says what could not be done. */
lmc_status st_fail_os(lmc_st_diag *diag, int os_errno, uint64_t offset, const char *what);

/* The same for a failed call of liblmc with `ctx`, whose input began at `offset` of the file (or
 * LMC_ST_NO_OFFSET). */
lmc_status st_fail_codec(lmc_st_diag *diag, const lmc_ctx *ctx, lmc_status status, uint64_t offset);

lmc_status st_fail_nomem(lmc_st_diag *diag);

/* Names the tensor, or another file, that the fault is in. */
void st_diag_set_tensor(lmc_st_diag *diag, const char *name, size_t name_nbytes);
void st_diag_set_file(lmc_st_diag *diag, const char *path);

#endif
