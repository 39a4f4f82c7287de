/*
 * sha256.h - SHA-256 (FIPS 180-4, section 6.2), with which hubs name the files they store. It is not part
 * of any format of LMC. Written out here because its one use does not carry the weight of a cryptographic
 * library among the dependencies.
 */
#ifndef LMC_SAFETENSORS_RESTORE_SHA256_H
#define LMC_SAFETENSORS_RESTORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define ST_SHA256_NBYTES 32

typedef struct st_sha256 {
    uint32_t state[8];
    uint64_t nbytes; /* taken so far */
    unsigned char block[64];
} st_sha256;

void st_sha256_init(st_sha256 *sha256);
void st_sha256_update(st_sha256 *sha256, const void *src, size_t nbytes);
void st_sha256_finish(st_sha256 *sha256, unsigned char digest[ST_SHA256_NBYTES]);

#endif
