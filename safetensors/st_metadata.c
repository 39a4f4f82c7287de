/*
 * st_metadata.c - see st_metadata.h: the only file that knows cJSON.
 */
#include "st_metadata.h"

#include <cJSON.h>
#include <stdio.h>

int st_metadata_get(const st_header *header, const char *key, char *value, size_t capacity,
                    lmc_status *status)
{
    *status = LMC_OK;
    if (header->metadata.nbytes == 0 || header->metadata.nbytes > ST_METADATA_NBYTES_MAX) {
        return 0;
    }
    const char *const text = (const char *)header->text + header->metadata.offset;
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
