/*
 * show.c - see show.h.
 */
#include "tool/show.h"

#include <stdio.h>
#include <string.h>

void cli_show_shape(const lmc_st_tensor *tensor, char *shown, size_t capacity)
{
    size_t length = (size_t)snprintf(shown, capacity, "[");
    const size_t known_count = tensor->shape == NULL ? 0 : tensor->rank;
    for (size_t i = 0; i < known_count && length < capacity; i++) {
        length += (size_t)snprintf(shown + length, capacity - length, "%s%llu", i == 0 ? "" : ",",
                                   (unsigned long long)tensor->shape[i]);
    }
    if (length + 2 > capacity || known_count < tensor->rank) {
        memcpy(shown + (length + 5 > capacity ? capacity - 5 : length), "...]", 5);
        return;
    }
    memcpy(shown + length, "]", 2);
}
