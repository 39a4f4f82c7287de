/*
 * shown.c - names and shapes as a terminal may show them, and JSON.
 */
#include "tool/cli.h"

#include <stdio.h>
#include <string.h>

const char *cli_shown(char *dst, size_t capacity, const char *src)
{
    lmc_text_escape(dst, capacity, src, strlen(src));
    return dst;
}

void cli_show_shape(const lmc_st_tensor *tensor, char *shown, size_t capacity)
{
    size_t length = (size_t)snprintf(shown, capacity, "[");
    const size_t known_count = tensor->shape ? tensor->rank : 0;
    for (size_t i = 0; i < known_count && length < capacity; i++) {
        length += (size_t)snprintf(shown + length, capacity - length, "%s%llu", i == 0 ? "" : ",",
                                   (unsigned long long)tensor->shape[i]);
    }
    if (length + 2 > capacity || known_count < tensor->rank)
        memcpy(shown + (length + 5 > capacity ? capacity - 5 : length), "...]", 5);
    else
        memcpy(shown + length, "]", 2);
}

void cli_json_string(const char *text, size_t nbytes)
{
    const unsigned char *const bytes = (const unsigned char *)text;
    putchar('"');
    for (size_t at = 0; at < nbytes;) {
        uint32_t code_point = 0;
        const size_t length = lmc_utf8_next(bytes + at, nbytes - at, &code_point);
        if (length == 0)
            printf("\\ufffd");
        else if (code_point == '"' || code_point == '\\')
            printf("\\%c", (int)code_point);
        else if (lmc_text_is_unsafe(code_point))
            printf("\\u%04x", (unsigned)code_point);
        else
            fwrite(bytes + at, 1, length, stdout);
        at += length == 0 ? 1 : length;
    }
    putchar('"');
}

void cli_json_text(const char *text)
{
    if (text)
        cli_json_string(text, strlen(text));
    else
        printf("null");
}

const char *cli_show_ratio(uint64_t stored_nbytes, uint64_t nbytes, char shown[24])
{
    if (nbytes == 0)
        memcpy(shown, "-", 2);
    else
        snprintf(shown, 24, "%.4f", (double)stored_nbytes / (double)nbytes);
    return shown;
}

void cli_json_ratio(uint64_t stored_nbytes, uint64_t nbytes)
{
    if (nbytes == 0)
        printf("null");
    else
        printf("%.6f", (double)stored_nbytes / (double)nbytes);
}
