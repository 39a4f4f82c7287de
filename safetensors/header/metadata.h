/*
 * metadata.h - the marks of an archive in a header's `__metadata__`, read by cJSON once header/header.c has checked
 * that this is a map of strings to strings without repeated keys.
 */
#ifndef LMC_SAFETENSORS_HEADER_METADATA_H
#define LMC_SAFETENSORS_HEADER_METADATA_H

#include "safetensors/header/header.h"

#define ST_METADATA_VERSION_NBYTES 16

/* 1 if the map has the marks of an archive, as no large map has, and none with a NUL in a key or value. version gets
 * the value of `lmc_archive`, NUL-terminated, cut to its ST_METADATA_VERSION_NBYTES. Error: NOMEM as *status. */
int st_metadata_is_marked(const st_header *header, char *version, lmc_status *status);

#endif
