/*
 * input_table.h - inputs kept as text: a file with a line for each, of fields between tabs, bytes in base64.
 *
 * tests/fuzz/corpus/TARGET.tsv has a name and the input; EXPECT.tsv of tests/format/vectors has a name, a status, a
 * rule, the input, and the base that it is decoded with if there is one.
 */
#ifndef LMC_INPUT_TABLE_H
#define LMC_INPUT_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct input_line {
    char *name;
    char *status; /* NULL in a table that has no expectations */
    char *rule;
    char *input;
    char *base; /* NULL: none */
} input_line;

/* The bytes of a text in base64, in a block of exactly their size (of 1 for none), to be freed. Text that is not base64
 * ends the program. */
static inline uint8_t *input_bytes(const char *text, size_t *nbytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t count = strcspn(text, "=");
    const size_t padding = strlen(text) - count;
    *nbytes = count * 6 / 8;
    uint8_t *const bytes = malloc(*nbytes > 0 ? *nbytes : 1);
    uint32_t bits = 0;
    size_t used = 0;
    int is_good = bytes && (count + padding) % 4 == 0 && padding <= 2;
    for (size_t i = 0; is_good && i < count; i++) {
        const char *const digit = strchr(digits, text[i]);
        is_good = digit != NULL;
        bits = bits << 6 | (uint32_t)(is_good ? digit - digits : 0);
        if (i % 4 != 0)
            bytes[used++] = (uint8_t)(bits >> (6 - i % 4 * 2));
    }
    if (!is_good || used != *nbytes) {
        fprintf(stderr, "not base64: %.40s\n", text);
        abort();
    }
    return bytes;
}

/* All of a file as text, to be released; NULL: it cannot be read, or is empty. */
static inline char *input_table_text(FILE *file)
{
    size_t nbytes = 0;
    size_t capacity = 0;
    char *text = NULL;
    do {
        capacity = 2 * capacity + 4096;
        char *const larger = realloc(text, capacity);
        if (!larger)
            break;
        text = larger;
        nbytes += fread(text + nbytes, 1, capacity - 1 - nbytes, file);
        text[nbytes] = '\0';
    } while (nbytes == capacity - 1);
    if (nbytes > 0 && !ferror(file))
        return text;
    free(text);
    return NULL;
}

/* The lines of a table, to be released by input_table_free(). A file that cannot be read ends the program. */
static inline input_line *input_table_read(const char *path, size_t *count)
{
    FILE *const file = fopen(path, "rb");
    char *const text = file ? input_table_text(file) : NULL;
    size_t room = 0;
    input_line *lines = NULL;
    if (!text) {
        perror(path);
        abort();
    }
    fclose(file);
    *count = 0;
    for (char *line = text, *next; *line != '\0'; line = next, ++*count) {
        char *fields[5] = {NULL};
        size_t field_count = 0;
        next = line + strcspn(line, "\n");
        if (*next != '\0')
            *next++ = '\0';
        for (char *rest = line; rest && field_count < 5; field_count++) {
            fields[field_count] = rest;
            rest = strchr(rest, '\t');
            if (rest)
                *rest++ = '\0';
        }
        if (*count == room) {
            room = 2 * room + 100;
            lines = realloc(lines, room * sizeof *lines);
        }
        if (!lines || (field_count != 2 && field_count < 4)) {
            fprintf(stderr, "%s: a line of %zu fields, or no memory\n", path, field_count);
            abort();
        }
        if (field_count == 2)
            lines[*count] = (input_line){fields[0], NULL, NULL, fields[1], NULL};
        else
            lines[*count] = (input_line){fields[0], fields[1], fields[2], fields[3], fields[4]};
    }
    return lines;
}

/* The line of that name, which the table has. */
static inline const input_line *input_table_find(const input_line *lines, const char *name)
{
    while (strcmp(lines->name, name) != 0)
        lines++;
    return lines;
}

static inline void input_table_free(input_line *lines)
{
    free(lines[0].name); /* where the text begins */
    free(lines);
}

#endif
