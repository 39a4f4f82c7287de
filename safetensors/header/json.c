/*
 * json.c - the scanner: strings, numbers, and values that are skipped; and the writer.
 */
#include "safetensors/header/json.h"

#include "common/text.h"

#include <stdio.h>
#include <string.h>

static int fail(st_json *json, const char *fault)
{
    json->fault = fault;
    return 0;
}

static int peek(const st_json *json)
{
    return json->at < json->nbytes ? json->text[json->at] : -1;
}

void st_json_skip_space(st_json *json)
{
    while (json->at < json->nbytes) {
        const unsigned char byte = json->text[json->at];
        if (byte != ' ' && byte != '\n' && byte != '\r' && byte != '\t')
            return;
        json->at++;
    }
}

int st_json_try(st_json *json, unsigned char byte)
{
    st_json_skip_space(json);
    if (peek(json) != byte)
        return 0;
    json->at++;
    return 1;
}

int st_json_take(st_json *json, unsigned char byte, const char *fault)
{
    return st_json_try(json, byte) ? 1 : fail(json, fault);
}

/* ---- strings ---- */

/* Four hexadecimal digits; -1 if they are not there. */
static int32_t read_hex4(const unsigned char *src, size_t nbytes)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    int32_t value = 0;
    if (nbytes < 4)
        return -1;
    for (size_t i = 0; i < 4; i++) {
        const char *const digit = memchr(digits, src[i], sizeof digits - 1);
        if (!digit)
            return -1;
        value = value * 16 + (int32_t)(digit - digits) - (digit - digits < 16 ? 0 : 6);
    }
    return value;
}

/* The escape at src (a backslash): its length, or 0 if it is malformed. */
static size_t read_escape(const unsigned char *src, size_t nbytes, uint32_t *code_point)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    if (nbytes < 2)
        return 0;
    if (src[1] != 'u') {
        const char *const letter = src[1] == '\0' ? NULL : strchr(letters, src[1]);
        if (!letter)
            return 0;
        *code_point = (unsigned char)meanings[letter - letters];
        return 2;
    }
    const int32_t high = read_hex4(src + 2, nbytes - 2);
    if (high < 0 || (high >= 0xdc00 && high <= 0xdfff))
        return 0;
    *code_point = (uint32_t)high;
    if (high < 0xd800 || high > 0xdbff)
        return 6;
    /* A high surrogate means nothing without the low one behind it. */
    if (nbytes < 12 || src[6] != '\\' || src[7] != 'u')
        return 0;
    const int32_t low = read_hex4(src + 8, nbytes - 8);
    if (low < 0xdc00 || low > 0xdfff)
        return 0;
    *code_point = 0x10000u + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
    return 12;
}

int st_json_string(st_json *json, st_span *raw)
{
    if (!st_json_take(json, '"', "a string is expected"))
        return 0;
    const size_t start = json->at - 1;
    for (;;) {
        for (; json->at < json->nbytes;
             json->at++) { /* ASCII that stands for itself: nearly everything in names */
            const unsigned char byte = json->text[json->at];
            if (byte < 0x20 || byte >= 0x80 || byte == '"' || byte == '\\')
                break;
        }
        const unsigned char *const src = json->text + json->at;
        const size_t left = json->nbytes - json->at;
        uint32_t code_point = 0;
        if (left == 0)
            return fail(json, "a string does not end");
        if (*src == '"')
            break;
        if (*src < 0x20)
            return fail(json, "a control character stands in a string");
        const int is_escape = *src == '\\';
        const size_t length =
            is_escape ? read_escape(src, left, &code_point) : lmc_utf8_next(src, left, &code_point);
        if (length == 0)
            return fail(json, is_escape ? "an escape is malformed or a lone surrogate"
                                        : "the text is not valid UTF-8");
        json->at += length;
    }
    json->at++;
    raw->offset = (uint32_t)start;
    raw->nbytes = (uint32_t)(json->at - start);
    return 1;
}

size_t st_json_unescape(const unsigned char *text, st_span raw, char *dst)
{
    const unsigned char *src = text + raw.offset + 1;
    size_t left = raw.nbytes - 2;
    size_t written = 0;
    while (left > 0) {
        const unsigned char *const escape = memchr(src, '\\', left);
        const size_t plain = !escape ? left : (size_t)(escape - src);
        if (dst)
            memcpy(dst + written, src, plain);
        written += plain;
        src += plain;
        left -= plain;
        if (left > 0) {
            unsigned char piece[4];
            uint32_t code_point = 0;
            const size_t length = read_escape(src, left, &code_point);
            const size_t piece_nbytes = lmc_utf8_write(piece, code_point);
            if (dst)
                memcpy(dst + written, piece, piece_nbytes);
            written += piece_nbytes;
            src += length;
            left -= length;
        }
    }
    return written;
}

int st_json_string_is(const unsigned char *text, st_span raw, const char *expected)
{
    char plain[6 * 63];
    const size_t length = strlen(expected);
    /* an escape is at most six bytes for one */
    if (raw.nbytes - 2 < length || raw.nbytes - 2 > 6 * length)
        return 0;
    return st_json_unescape(text, raw, plain) == length && memcmp(plain, expected, length) == 0;
}

/* ---- other values ---- */

static int is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

int st_json_u64(st_json *json, uint64_t *value)
{
    st_json_skip_space(json);
    const size_t start = json->at;
    if (!is_digit(peek(json)))
        return fail(json, "an unsigned integer is expected");
    uint64_t sum = 0;
    for (; is_digit(peek(json)); json->at++) {
        const uint64_t digit = (uint64_t)(json->text[json->at] - '0');
        if (sum > (UINT64_MAX - digit) / 10) {
            json->at = start;
            return fail(json, "a number does not fit 64 bits");
        }
        sum = sum * 10 + digit;
    }
    const int next = peek(json);
    if ((json->text[start] == '0' && json->at > start + 1) || next == '.' || next == 'e' || next == 'E') {
        json->at = start;
        return fail(json, "a number is not a plain integer");
    }
    *value = sum;
    return 1;
}

static int skip_digits(st_json *json)
{
    if (!is_digit(peek(json)))
        return fail(json, "a number is malformed");
    while (is_digit(peek(json)))
        json->at++;
    return 1;
}

static int skip_number(st_json *json)
{
    if (peek(json) == '-')
        json->at++;
    const size_t start = json->at;
    if (!skip_digits(json))
        return 0;
    if (json->text[start] == '0' && json->at > start + 1) {
        json->at = start + 1;
        return fail(json, "a number has a leading zero");
    }
    if (peek(json) == '.') {
        json->at++;
        if (!skip_digits(json))
            return 0;
    }
    if (peek(json) == 'e' || peek(json) == 'E') {
        json->at++;
        if (peek(json) == '+' || peek(json) == '-')
            json->at++;
        return skip_digits(json);
    }
    return 1;
}

int st_json_next(st_json *json, char open, size_t *count, st_span *key)
{
    const int is_object = open == '{';
    const unsigned char end = is_object ? '}' : ']';
    if (*count == 0) {
        if (!st_json_take(json, (unsigned char)open,
                          is_object ? "it is not an object" : "it is not an array") ||
            st_json_try(json, end))
            return 0;
    } else if (!st_json_try(json, ',')) {
        st_json_take(json, end, is_object ? "a ',' or '}' is expected" : "a ',' or ']' is expected");
        return 0;
    }
    ++*count;
    return !is_object || (st_json_string(json, key) && st_json_take(json, ':', "a ':' is expected"));
}

/* Recursion is bounded by `depth`, which the caller limits. */
int st_json_skip_value(st_json *json, unsigned depth)
{
    static const char *const words[] = {"true", "false", "null"};
    st_span raw;
    st_json_skip_space(json);
    const int byte = peek(json);
    if (byte == '{' || byte == '[') {
        if (depth == 0)
            return fail(json, "objects and arrays are nested too deeply");
        for (size_t count = 0; st_json_next(json, (char)byte, &count, &raw);)
            if (!st_json_skip_value(json, depth - 1))
                return 0;
        return !json->fault;
    }
    if (byte == '"')
        return st_json_string(json, &raw);
    if (byte == '-' || is_digit(byte))
        return skip_number(json);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t length = strlen(words[i]);
        if (json->nbytes - json->at >= length && memcmp(json->text + json->at, words[i], length) == 0) {
            json->at += length;
            return 1;
        }
    }
    return fail(json, "a value is expected");
}

/* ---- writing ---- */

static void put(st_json_out *out, const void *src, size_t nbytes)
{
    if (out->dst && out->nbytes + nbytes <= out->capacity)
        memcpy(out->dst + out->nbytes, src, nbytes);
    out->nbytes += nbytes;
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

void st_json_put_string(st_json_out *out, const char *bytes, size_t nbytes)
{
    static const char letters[] = "btnvfr"; /* of 8 to 13; JSON has none for 11 */
    put_comma(out);
    put(out, "\"", 1);
    for (size_t i = 0; i < nbytes; i++) {
        size_t plain = 0;
        char escaped[8];
        while (i + plain < nbytes && (unsigned char)bytes[i + plain] >= 0x20 && bytes[i + plain] != '"' &&
               bytes[i + plain] != '\\')
            plain++;
        put(out, bytes + i, plain);
        i += plain;
        if (i == nbytes)
            break;
        const unsigned char byte = (unsigned char)bytes[i];
        if (byte == '"' || byte == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", byte);
        else if (byte >= 8 && byte <= 13 && byte != 11)
            snprintf(escaped, sizeof escaped, "\\%c", letters[byte - 8]);
        else
            snprintf(escaped, sizeof escaped, "\\u%04x", byte);
        put(out, escaped, strlen(escaped));
    }
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

void st_json_put_key(st_json_out *out, const char *key)
{
    st_json_put_string(out, key, strlen(key));
    st_json_put_colon(out);
}

void st_json_put_spaces(st_json_out *out, unsigned unit)
{
    while (out->nbytes % unit != 0)
        put(out, " ", 1);
}
