/*
 * fuzz.h - what fuzz targets share: the entry point, and a claim that ends the program if it is false.
 */
#ifndef LMC_FUZZ_H
#define LMC_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

#define FUZZ_CLAIM(condition)                                                      \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "%s:%d: false: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                               \
        }                                                                          \
    } while (0)

/* malloc that never gives NULL: with nbytes 0 too, so that the address is one that may not be read. */
static inline void *fuzz_malloc(size_t nbytes)
{
    void *const pointer = malloc(nbytes > 0 ? nbytes : 1);
    FUZZ_CLAIM(pointer != NULL);
    return pointer;
}

#endif
