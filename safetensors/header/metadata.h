/*
 * metadata.h - single values of a header's `__metadata__`, read by cJSON once header/header.c has checked
 * that it is a map of strings to strings without repeated keys.
 */
#ifndef LMC_SAFETENSORS_HEADER_METADATA_H
#define LMC_SAFETENSORS_HEADER_METADATA_H

#include "safetensors/header/header.h"

/* A larger map is not looked at: an archive's own is smaller, and cJSON needs up to 20 times its bytes. */
#define ST_METADATA_NBYTES_MAX 4096

/* Copies the value of `key`, both NUL-terminated, cut to `capacity`. Returns 1, or 0 if there is no such
 * key. In a map with a NUL in a key or value nothing is found. Error: NOMEM is reported as *status. */
int st_metadata_get(const st_header *header, const char *key, char *value, size_t capacity,
                    lmc_status *status);

#define ST_METADATA_VERSION_NBYTES 16

/* 1 if the map has the marks of an archive; version gets the value of `lmc_archive`, cut to its
 * ST_METADATA_VERSION_NBYTES. *status as above. */
int st_metadata_is_marked(const st_header *header, char *version, lmc_status *status);

#endif
