/*
 * sniff.h - says what a file is that is no safetensors file. Most "corrupt" models are a page of a web
 * server, a pointer of git-lfs or another format under a wrong name.
 */
#ifndef LMC_SAFETENSORS_HEADER_SNIFF_H
#define LMC_SAFETENSORS_HEADER_SNIFF_H

#include <stddef.h>

#define ST_SNIFF_NBYTES 64

/* What a file looks like from its first bytes (at most ST_SNIFF_NBYTES are looked at); NULL: unknown.
 * Static storage. */
const char *st_sniff(const unsigned char *src, size_t nbytes);

#endif
