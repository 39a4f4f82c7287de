/*
 * metadata.c - the marks of an archive, by cJSON.
 */
#include "safetensors/header/metadata.h"

#include <cJSON.h>
#include <stdio.h>
#include <string.h>

/* A larger map is not looked at: an archive's own is smaller, and cJSON needs up to 20 times its bytes. */
#define METADATA_NBYTES_MAX 4096

int st_metadata_is_marked(const st_header *header, char *version, lmc_status *status)
{
    static const char nul[] = "\\u0000"; /* it would end a string of C before its end */
    const char *const text = (const char *)header->text + header->metadata.offset;
    const size_t nbytes = header->metadata.nbytes;
    *status = LMC_OK;
    if (nbytes == 0 || nbytes > METADATA_NBYTES_MAX)
        return 0;
    for (size_t i = 0; i + sizeof nul - 1 <= nbytes; i++)
        if (memcmp(text + i, nul, sizeof nul - 1) == 0)
            return 0;
    cJSON *const map = cJSON_ParseWithLength(text, nbytes);
    if (!map) {
        *status = LMC_ERR_NOMEM; /* the text was checked: nothing else can be wrong */
        return 0;
    }
    const char *const format = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(map, "format"));
    const char *const found = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(map, "lmc_archive"));
    const int is_marked = format && strcmp(format, "lmc") == 0 && found;
    if (is_marked)
        snprintf(version, ST_METADATA_VERSION_NBYTES, "%s", found);
    cJSON_Delete(map);
    return is_marked;
}
