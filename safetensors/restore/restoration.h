/*
 * restoration.h - what is to become of the tensors of an archive: what restore/restore.c, which decodes them, shares
 * with restore/skeleton.c, which delivers what stands between them.
 */
#ifndef LMC_SAFETENSORS_RESTORE_RESTORATION_H
#define LMC_SAFETENSORS_RESTORE_RESTORATION_H

#include "safetensors/base/open.h"
#include "safetensors/restore/damage.h"
#include "safetensors/restore/sha256.h"

/* A tensor that is left out. */
#define ST_NOWHERE UINT64_MAX

typedef struct st_restoration {
    const lmc_st_file *source; /* an archive */
    const lmc_st_options *options;

    /* what becomes of the content; each may be NULL */
    os_output *output;
    const uint64_t *places; /* of each tensor in the output, or ST_NOWHERE; NULL: the original ones */
    void *const *dsts; /* memory for each tensor, or NULL for one that is left out; instead of all else */
    const os_input *original; /* must hold the same */
    const char *original_path;
    st_sha256 *sha256;

    int with_skeleton; /* 1: what is no tensor goes to them, too. Its damage is never logged. */
    int without_base;  /* 1: of tensors whose base is missing, only the frame is opened */

    /* NULL: the first damaged tensor ends the call */
    st_damage_log *log;
} st_restoration;

#endif
