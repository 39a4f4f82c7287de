/*
 * metadata.c - see header/metadata.h: values that decide what a file is, by cJSON; and the list for callers, for
 * which cJSON is no help, since it ends strings at a NUL.
 */
#include "safetensors/header/metadata.h"

#include <cJSON.h>
#include <stdio.h>
#include <string.h>

/* 1 if a NUL is written in the text, which would end a string of C before its end. */
static int has_nul(const char *text, size_t nbytes)
{
    static const char escape[] = "\\u0000";
    for (size_t i = 0; i + sizeof escape - 1 <= nbytes; i++)
        if (memcmp(text + i, escape, sizeof escape - 1) == 0)
            return 1;
    return 0;
}

int st_metadata_get(const st_header *header, const char *key, char *value, size_t capacity,
                    lmc_status *status)
{
    *status = LMC_OK;
    if (header->metadata.nbytes == 0 || header->metadata.nbytes > ST_METADATA_NBYTES_MAX)
        return 0;
    const char *const text = (const char *)header->text + header->metadata.offset;
    if (has_nul(text, header->metadata.nbytes))
        return 0;
    cJSON *const map = cJSON_ParseWithLength(text, header->metadata.nbytes);
    if (!map) {
        *status = LMC_ERR_NOMEM; /* the text was checked: nothing else can be wrong */
        return 0;
    }
    const char *const found = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(map, key));
    if (found)
        snprintf(value, capacity, "%s", found);
    cJSON_Delete(map);
    return found != NULL;
}

int st_metadata_is_marked(const st_header *header, char *version, lmc_status *status)
{
    char format[8] = "";
    return st_metadata_get(header, "format", format, sizeof format, status) && strcmp(format, "lmc") == 0 &&
           st_metadata_get(header, "lmc_archive", version, ST_METADATA_VERSION_NBYTES, status);
}
