/*
 * text.c - UTF-8 and its display.
 */
#include "common/text.h"

#include <stdio.h>
#include <string.h>

size_t lmc_utf8_next(const unsigned char *src, size_t nbytes, uint32_t *code_point)
{
    if (nbytes == 0)
        return 0;
    const unsigned char lead = src[0];
    if (lead < 0x80) {
        *code_point = lead;
        return 1;
    }
    const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || length > nbytes)
        return 0;
    uint32_t value = lead & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((src[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (src[i] & 0x3fu);
    }
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    *code_point = value;
    return length;
}

int lmc_utf8_is_valid(const char *bytes, size_t nbytes)
{
    size_t length = 1;
    uint32_t code_point = 0;
    for (size_t at = 0; at < nbytes && length > 0; at += length)
        length = lmc_utf8_next((const unsigned char *)bytes + at, nbytes - at, &code_point);
    return length > 0;
}

size_t lmc_utf8_write(unsigned char *dst, uint32_t code_point)
{
    if (code_point < 0x80) {
        dst[0] = (unsigned char)code_point;
        return 1;
    }
    const size_t length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        dst[i] = (unsigned char)(0x80 | (code_point & 0x3f));
        code_point >>= 6;
    }
    dst[0] = (unsigned char)((0xf00u >> length) | code_point);
    return length;
}

int lmc_text_is_unsafe(uint32_t code_point)
{
    return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) || code_point == '"' ||
           code_point == '\\' || code_point == 0x061c || (code_point >= 0x200b && code_point <= 0x200f) ||
           (code_point >= 0x2028 && code_point <= 0x202e) || (code_point >= 0x2060 && code_point <= 0x206f) ||
           code_point == 0xfeff;
}

/* Writes the shown form of the next character to `piece` (16 bytes); returns the bytes it took. kept: ASCII characters
 * that are shown as they are. */
static size_t escape_next(const unsigned char *src, size_t nbytes, const char *kept, char *piece)
{
    uint32_t code_point = 0;
    const size_t length = lmc_utf8_next(src, nbytes, &code_point);
    if (length == 0) {
        snprintf(piece, 16, "\\x%02x", src[0]);
        return 1;
    }
    if (!lmc_text_is_unsafe(code_point) || (length == 1 && code_point != 0 && strchr(kept, src[0]) != NULL)) {
        memcpy(piece, src, length);
        piece[length] = '\0';
    } else if (code_point == '"' || code_point == '\\') {
        snprintf(piece, 16, "\\%c", (int)code_point);
    } else if (code_point == '\n') {
        snprintf(piece, 16, "\\n");
    } else {
        snprintf(piece, 16, "\\u%04x", (unsigned)code_point);
    }
    return length;
}

size_t lmc_text_escape(char *dst, size_t capacity, const char *src, size_t src_nbytes)
{
    return lmc_text_escape_but(dst, capacity, src, src_nbytes, "");
}

size_t lmc_text_escape_but(char *dst, size_t capacity, const char *src, size_t src_nbytes, const char *kept)
{
    const unsigned char *const bytes = (const unsigned char *)src;
    size_t at = 0;
    size_t length = 0;
    size_t safe_length = 0; /* the longest prefix of whole characters that leaves room for "..." */
    while (at < src_nbytes) {
        char piece[16];
        at += escape_next(bytes + at, src_nbytes - at, kept, piece);
        const size_t piece_length = strlen(piece);
        if (length + piece_length >= capacity) {
            memcpy(dst + safe_length, "...", 4);
            return safe_length + 3;
        }
        memcpy(dst + length, piece, piece_length);
        length += piece_length;
        if (length + 4 <= capacity)
            safe_length = length;
    }
    dst[length] = '\0';
    return length;
}
