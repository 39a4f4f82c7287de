/*
 * st_common.h - what every file of liblmc_st needs: numbers and structs of common/, and the one way to fail. Nothing
 * here allocates or touches a file.
 */
#ifndef LMC_SAFETENSORS_COMMON_ST_COMMON_H
#define LMC_SAFETENSORS_COMMON_ST_COMMON_H

#include "lmc_st_experimental.h"

#include "common/abi.h"
#include "common/bytes.h"
#include "common/checked.h"
#include "common/try.h"

/* The next multiple of 8. */
static inline uint64_t st_padded(uint64_t nbytes)
{
    return (nbytes + 7) / 8 * 8;
}

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
    LMC_PRINTF(4, 5);

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
