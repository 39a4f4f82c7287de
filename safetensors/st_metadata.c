/*
 * st_metadata.c - see st_metadata.h: the only file that knows cJSON; and `__metadata__` as a list, for
 * which cJSON is no help, since it ends strings at a NUL.
 */
#include "st_metadata.h"

#include "st_file.h"

#include <cJSON.h>
#include <stdio.h>
#include <string.h>

/* 1 if a NUL is written in the text, which would end a string of C before its end. */
static int has_nul(const char *text, size_t nbytes)
{
    static const char escape[] = "\\u0000";
    for (size_t i = 0; i + sizeof(escape) - 1 <= nbytes; i++) {
        if (memcmp(text + i, escape, sizeof(escape) - 1) == 0) {
            return 1;
        }
    }
    return 0;
}

int st_metadata_get(const st_header *header, const char *key, char *value, size_t capacity,
                    lmc_status *status)
{
    *status = LMC_OK;
    if (header->metadata.nbytes == 0 || header->metadata.nbytes > ST_METADATA_NBYTES_MAX) {
        return 0;
    }
    const char *const text = (const char *)header->text + header->metadata.offset;
    if (has_nul(text, header->metadata.nbytes)) {
        return 0;
    }
    cJSON *const map = cJSON_ParseWithLength(text, header->metadata.nbytes);
    if (map == NULL) {
        *status = LMC_ERR_NOMEM; /* the text was checked: nothing else can be wrong */
        return 0;
    }
    const char *const found = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(map, key));
    if (found != NULL) {
        snprintf(value, capacity, "%s", found);
    }
    cJSON_Delete(map);
    return found != NULL;
}

int st_metadata_is_marked(const st_header *header, char *version, lmc_status *status)
{
    char format[8] = "";
    return st_metadata_get(header, "format", format, sizeof(format), status) && strcmp(format, "lmc") == 0 &&
           st_metadata_get(header, "lmc_archive", version, ST_METADATA_VERSION_NBYTES, status);
}

/* The text was checked when the header was read: every step below succeeds. */
static void list_entries(lmc_st_file *file)
{
    const st_header *const header = &file->header;
    st_json json = {.text = header->text,
                    .nbytes = header->metadata.offset + header->metadata.nbytes,
                    .at = header->metadata.offset};
    char *end = file->metadata_text;
    (void)st_json_try(&json, '{');
    for (size_t i = 0; i < 2 * file->metadata_count; i++) {
        st_span raw = {0, 0};
        (void)st_json_try(&json, i % 2 == 0 ? ',' : ':');
        st_json_skip_space(&json);
        (void)st_json_string(&json, &raw);
        const st_string text = {end, st_json_unescape(header->text, raw, end)};
        file->metadata[i] = text;
        end += text.nbytes;
        *end++ = '\0';
    }
}

lmc_status st_file_read_metadata(lmc_st_file *file, lmc_st_diag *diag)
{
    const st_header *const header = &file->header;
    file->metadata_count = header->metadata_count;
    if (file->metadata_count == 0) {
        return LMC_OK;
    }
    /* unescaped, a string with its NUL is shorter than it was with its quotes */
    file->metadata = st_allocate(&file->memory, 2 * file->metadata_count * sizeof(*file->metadata));
    file->metadata_text = st_allocate(&file->memory, header->metadata.nbytes);
    if (file->metadata == NULL || file->metadata_text == NULL) {
        return st_fail_nomem(diag);
    }
    list_entries(file);
    return LMC_OK;
}

size_t lmc_st_metadata_count(const lmc_st_file *file)
{
    return file->metadata_count;
}

lmc_status lmc_st_metadata(const lmc_st_file *file, size_t index, const char **key, size_t *key_nbytes,
                           const char **value, size_t *value_nbytes)
{
    if (index >= file->metadata_count) {
        return LMC_ERR_ARG;
    }
    const st_string *const pair = &file->metadata[2 * index];
    *key = pair[0].bytes;
    *key_nbytes = pair[0].nbytes;
    *value = pair[1].bytes;
    *value_nbytes = pair[1].nbytes;
    return LMC_OK;
}
