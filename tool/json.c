/*
 * json.c - see json.h.
 */
#include "tool/json.h"

#include "safetensors/common/text.h"

#include <stdio.h>

void cli_json_string(const char *text, size_t nbytes)
{
    const unsigned char *const bytes = (const unsigned char *)text;
    size_t at = 0;
    putchar('"');
    while (at < nbytes) {
        uint32_t code_point = 0;
        const size_t length = st_utf8_next(bytes + at, nbytes - at, &code_point);
        if (length == 0)
            printf("\\ufffd");
        else if (code_point == '"' || code_point == '\\')
            printf("\\%c", (int)code_point);
        else if (st_text_is_unsafe(code_point))
            printf("\\u%04x", (unsigned)code_point); /* none of them lies above U+FFFF */
        else
            fwrite(bytes + at, 1, length, stdout);
        at += length == 0 ? 1 : length;
    }
    putchar('"');
}

void cli_json_ratio(uint64_t stored_nbytes, uint64_t nbytes)
{
    if (nbytes == 0)
        printf("null");
    else
        printf("%.6f", (double)stored_nbytes / (double)nbytes);
}
