/*
 * try.h - the short way to hand on a failure.
 */
#ifndef LMC_COMMON_TRY_H
#define LMC_COMMON_TRY_H

#include "lmc.h"

/* Returns from the calling function unless `call` gives LMC_OK. Only where nothing has to be released. */
#define LMC_TRY(call)                             \
    do {                                          \
        const lmc_status lmc_try_status = (call); \
        if (lmc_try_status != LMC_OK)             \
            return lmc_try_status;                \
    } while (0)

#endif
