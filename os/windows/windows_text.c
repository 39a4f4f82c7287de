/*
 * windows_text.c - UTF-8 and UTF-16, environment variables, and patterns.
 */
#include "os/windows/windows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

WCHAR *win_wide(const char *text)
{
    const int count = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    if (count <= 0) {
        errno = EILSEQ;
        return NULL;
    }
    WCHAR *const wide = malloc((size_t)count * sizeof *wide);
    if (!wide) {
        errno = ENOMEM;
        return NULL;
    }
    (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, count);
    return wide;
}

char *win_utf8(const WCHAR *text)
{
    const int count = WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, text, -1, NULL, 0, NULL, NULL);
    if (count <= 0) {
        errno = EILSEQ;
        return NULL;
    }
    char *const narrow = malloc((size_t)count);
    if (!narrow) {
        errno = ENOMEM;
        return NULL;
    }
    (void)WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, text, -1, narrow, count, NULL, NULL);
    return narrow;
}

/* ---- environment variables ---- */

/* A text that was returned once: it stays. */
typedef struct variable {
    struct variable *next;
    char *name, *value;
} variable;

static SRWLOCK variables_lock = SRWLOCK_INIT;
static variable *variables;

/* To be freed with free(); NULL: not set, empty, or no memory. */
static char *read_variable(const char *name)
{
    WCHAR *const wide_name = win_wide(name);
    WCHAR *value = NULL;
    char *found = NULL;
    DWORD capacity = 256;
    DWORD length = wide_name ? capacity : 0;
    while (length >= capacity) { /* it may change between two calls */
        capacity = length + 1;
        free(value);
        value = malloc(capacity * sizeof *value);
        length = value ? GetEnvironmentVariableW(wide_name, value, capacity) : 0;
    }
    if (length > 0)
        found = win_utf8(value);
    free(value);
    free(wide_name);
    return found;
}

const char *os_environment(const char *name)
{
    char *value = read_variable(name);
    if (!value)
        return NULL;
    AcquireSRWLockExclusive(&variables_lock);
    variable *known = variables;
    while (known && (strcmp(known->name, name) != 0 || strcmp(known->value, value) != 0))
        known = known->next;
    if (!known) {
        known = malloc(sizeof *known);
        char *const own_name = _strdup(name);
        if (known && own_name) {
            *known = (variable){variables, own_name, value};
            variables = known;
            value = NULL;
        } else {
            free(known);
            free(own_name);
            known = NULL;
        }
    }
    ReleaseSRWLockExclusive(&variables_lock);
    free(value);
    return known ? known->value : NULL;
}

int os_is_library_name(const char *name)
{
    const size_t length = strlen(name);
    return length > 4 && _stricmp(name + length - 4, ".dll") == 0;
}

/* ---- patterns ---- */

/* Takes one character of a set, which a backslash may stand before. */
static const char *take_set_character(const char *at, unsigned char *character)
{
    at += *at == '\\' && at[1] != '\0';
    *character = (unsigned char)*at;
    return at + (*at != '\0');
}

/* 1 if the set that begins behind '[' holds the character; *end: behind its ']'; NULL: it has none and is no set. */
static int is_in_set(const char *at, unsigned char character, const char **end)
{
    const int is_negated = *at == '!' || *at == '^';
    int is_in = 0;
    at += is_negated;
    for (int is_first = 1; *at != '\0' && (*at != ']' || is_first); is_first = 0) {
        unsigned char low = 0;
        at = take_set_character(at, &low);
        unsigned char high = low;
        if (*at == '-' && at[1] != ']' && at[1] != '\0')
            at = take_set_character(at + 1, &high);
        is_in |= low <= character && character <= high;
    }
    *end = *at == ']' ? at + 1 : NULL;
    return is_in != is_negated;
}

int os_matches(const char *pattern, const char *path)
{
    const char *star = NULL; /* behind the last one, and what it is tried to stand before */
    const char *star_path = NULL;
    for (;;) {
        const char *next = pattern + (*pattern != '\0');
        int is_match = *path != '\0' && *pattern != '\0';
        if (*pattern == '*') {
            star = next;
            star_path = path;
            pattern = next;
            continue;
        }
        if (*pattern == '\0' && *path == '\0')
            return 1;
        if (is_match && *pattern == '?') {
            is_match = *path != '/';
        } else if (is_match && *pattern == '[') {
            const char *end = NULL;
            const int is_in = is_in_set(next, (unsigned char)*path, &end);
            is_match = !end ? *path == '[' : is_in && *path != '/';
            next = !end ? next : end;
        } else if (is_match) {
            if (*pattern == '\\' && pattern[1] != '\0') {
                pattern++;
                next = pattern + 1;
            }
            is_match = *pattern == *path;
        }
        if (is_match) {
            pattern = next;
            path++;
        } else if (star && *star_path != '\0' && *star_path != '/') {
            pattern = star;
            path = ++star_path;
        } else {
            return 0;
        }
    }
}
