/*
 * shown.c - UTF-8 that a terminal may show, and JSON.
 */
#include "tool/cli.h"

#include <stdio.h>
#include <string.h>

/* Length of the UTF-8 sequence at src (1 to 4), and its code point; 0 if it is malformed: overlong, a surrogate, above
 * U+10FFFF, or cut. */
static size_t next_code_point(const unsigned char *src, size_t nbytes, uint32_t *code_point)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char lead = src[0];
    *code_point = lead;
    if (lead < 0x80)
        return 1;
    const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || length > nbytes)
        return 0;
    uint32_t value = lead & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((src[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (src[i] & 0x3fu);
    }
    *code_point = value;
    return value < least[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff) ? 0 : length;
}

/* 1 for characters that move the cursor, change colours or reorder text, and for quotes and backslashes. None of them
 * lies above U+FFFF. */
static int is_unsafe(uint32_t code_point)
{
    return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) || code_point == '"' ||
           code_point == '\\' || code_point == 0x061c || (code_point >= 0x200b && code_point <= 0x200f) ||
           (code_point >= 0x2028 && code_point <= 0x202e) || (code_point >= 0x2060 && code_point <= 0x206f) ||
           code_point == 0xfeff;
}

void cli_escape(char *dst, size_t capacity, const char *src, size_t src_nbytes)
{
    const unsigned char *const bytes = (const unsigned char *)src;
    size_t at = 0;
    size_t length = 0;
    size_t safe_length = 0; /* the longest prefix of whole characters that leaves room for "..." */
    while (at < src_nbytes) {
        char piece[16];
        uint32_t code_point = 0;
        const size_t taken = next_code_point(bytes + at, src_nbytes - at, &code_point);
        if (taken == 0)
            snprintf(piece, sizeof piece, "\\x%02x", bytes[at]);
        else if (!is_unsafe(code_point))
            snprintf(piece, sizeof piece, "%.*s", (int)taken, src + at);
        else if (code_point == '"' || code_point == '\\')
            snprintf(piece, sizeof piece, "\\%c", (int)code_point);
        else if (code_point == '\n')
            snprintf(piece, sizeof piece, "\\n");
        else
            snprintf(piece, sizeof piece, "\\u%04x", (unsigned)code_point);
        at += taken == 0 ? 1 : taken;
        const size_t piece_length = strlen(piece);
        if (length + piece_length >= capacity) {
            memcpy(dst + safe_length, "...", 4);
            return;
        }
        memcpy(dst + length, piece, piece_length);
        length += piece_length;
        if (length + 4 <= capacity)
            safe_length = length;
    }
    dst[length] = '\0';
}

const char *cli_shown(char *dst, size_t capacity, const char *src)
{
    cli_escape(dst, capacity, src, strlen(src));
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
        const size_t length = next_code_point(bytes + at, nbytes - at, &code_point);
        if (length == 0)
            printf("\\ufffd");
        else if (code_point == '"' || code_point == '\\')
            printf("\\%c", (int)code_point);
        else if (is_unsafe(code_point))
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

void cli_json_ratio(uint64_t stored_nbytes, uint64_t nbytes)
{
    if (nbytes == 0)
        printf("null");
    else
        printf("%.6f", (double)stored_nbytes / (double)nbytes);
}
