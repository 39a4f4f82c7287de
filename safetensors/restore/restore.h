/*
 * restore.h - decoding all tensors of an archive with several threads, for those who write them, hash
 * them, compare them or only want to know whether they are sound.
 */
#ifndef LMC_SAFETENSORS_RESTORE_RESTORE_H
#define LMC_SAFETENSORS_RESTORE_RESTORE_H

#include "safetensors/base/search.h"
#include "safetensors/restore/damage.h"
#include "safetensors/restore/sha256.h"

/* A tensor that is left out. */
#define ST_NOWHERE UINT64_MAX

typedef struct st_restoration {
    const lmc_st_file *source; /* an archive */
    const st_options *options;

    /* what becomes of the content; each may be NULL */
    st_output *output;
    const uint64_t *places; /* of each tensor in the output, or ST_NOWHERE; NULL: the original ones */
    void *const *dsts; /* memory for each tensor, or NULL for one that is left out; instead of all else */
    const st_input *original; /* must hold the same */
    const char *original_path;
    st_sha256 *sha256;

    int with_skeleton; /* 1: what is no tensor goes to them, too. Its damage is never logged. */
    int without_base;  /* 1: of tensors whose base is missing, only the frame is opened */

    /* NULL: the first damaged tensor ends the call */
    st_damage_log *log;
} st_restoration;

/* Decodes and verifies every tensor. Damage that was logged is no failure of this call. Errors: IO, NOMEM,
 * CANCELLED; CHECKSUM if the original differs; without a log, the damage. */
lmc_status st_restore_tensors(const st_restoration *restoration, lmc_st_diag *diag);

/* restore/restore_file.c: one archive becomes its file, or with damage the part of it that is sound; lmc_st_restore()
 * without directories. Options are complete. */
lmc_status st_restore_file(const char *in_path, const st_place *out, const st_options *options,
                           lmc_st_result *result, lmc_st_diag *diag);

/* restore/verify.c: one file each. archive_fd: -1, or the open archive, which is then read instead of its path. */
lmc_status st_verify_file(const char *in_path, const st_options *options, lmc_st_result *result,
                          lmc_st_diag *diag);
lmc_status st_compare_files(const char *archive_path, int archive_fd, const char *plain_path,
                            const st_options *options, lmc_st_diag *diag);

#endif
