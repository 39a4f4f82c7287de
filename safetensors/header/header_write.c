/*
 * header_write.c - puts JSON text and the entries of a header together (header/header_write.h).
 */
#include "safetensors/header/header_write.h"

#include <stdio.h>
#include <string.h>

static void put(st_json_out *out, const void *src, size_t nbytes)
{
    if (out->dst && out->nbytes + nbytes <= out->capacity)
        memcpy(out->dst + out->nbytes, src, nbytes);
    out->nbytes += nbytes;
}

static void put_text(st_json_out *out, const char *text)
{
    put(out, text, strlen(text));
}

static void put_comma(st_json_out *out)
{
    if (out->needs_comma)
        put(out, ",", 1);
    out->needs_comma = 1;
}

void st_json_put_open(st_json_out *out, char bracket)
{
    put_comma(out);
    put(out, &bracket, 1);
    out->needs_comma = 0;
}

void st_json_put_close(st_json_out *out, char bracket)
{
    put(out, &bracket, 1);
    out->needs_comma = 1;
}

void st_json_put_raw(st_json_out *out, const void *text, size_t nbytes)
{
    put_comma(out);
    put(out, text, nbytes);
}

static void put_character(st_json_out *out, unsigned char byte)
{
    static const char letters[] = "btnvfr"; /* of 8 to 13; JSON has none for 11 */
    char escaped[8];
    if (byte == '"' || byte == '\\') {
        snprintf(escaped, sizeof escaped, "\\%c", byte);
    } else if (byte >= 8 && byte <= 13 && byte != 11) {
        snprintf(escaped, sizeof escaped, "\\%c", letters[byte - 8]);
    } else if (byte < 0x20) {
        snprintf(escaped, sizeof escaped, "\\u%04x", byte);
    } else {
        put(out, &byte, 1);
        return;
    }
    put_text(out, escaped);
}

void st_json_put_string(st_json_out *out, const char *bytes, size_t nbytes)
{
    put_comma(out);
    put(out, "\"", 1);
    for (size_t i = 0; i < nbytes; i++)
        put_character(out, (unsigned char)bytes[i]);
    put(out, "\"", 1);
}

void st_json_put_u64(st_json_out *out, uint64_t value)
{
    char digits[24];
    put_comma(out);
    put(out, digits, (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value));
}

void st_json_put_colon(st_json_out *out)
{
    put(out, ":", 1);
    out->needs_comma = 0;
}

void st_header_put_dtype(st_json_out *out, lmc_dtype dtype)
{
    put_text(out, "{\"dtype\":\"");
    put_text(out, lmc_dtype_name(dtype));
    put_text(out, "\",\"shape\":[");
}

void st_header_put_place(st_json_out *out, uint64_t begin, uint64_t end)
{
    put_text(out, "],\"data_offsets\":[");
    out->needs_comma = 0;
    st_json_put_u64(out, begin);
    st_json_put_u64(out, end);
    put_text(out, "]}");
}

void st_header_put_end(st_json_out *out)
{
    put(out, "}", 1);
    while (out->nbytes % 8 != 0)
        put(out, " ", 1);
}

lmc_status st_header_write(const os_output *output, const void *text, size_t nbytes, lmc_st_diag *diag)
{
    unsigned char length[8];
    st_store_u64(length, nbytes);
    ST_TRY(os_output_write(output, 0, length, sizeof length, diag));
    return os_output_write(output, sizeof length, text, nbytes, diag);
}
