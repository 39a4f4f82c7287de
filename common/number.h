/*
 * number.h - decimal numbers in text.
 */
#ifndef LMC_COMMON_NUMBER_H
#define LMC_COMMON_NUMBER_H

#include "common/compiler.h"

/* Moves *text behind the digits that it starts with, at most to `end`; NULL: they end with something else, such as a
 * NUL. Returns 1 with their number, or with UINT64_MAX if it does not fit; 0 if there are none. */
LMC_INLINE int lmc_read_number(const char **text, const char *end, uint64_t *number)
{
    const char *const begin = *text;
    *number = 0;
    for (; (!end || *text != end) && **text >= '0' && **text <= '9'; ++*text)
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(**text - '0'), number))
            *number = UINT64_MAX;
    return *text != begin;
}

#endif
