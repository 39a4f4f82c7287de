/*
 * restore.h - decoding all tensors of an archive with several threads, for those who write them, hash
 * them, compare them or only want to know whether they are sound.
 */
#ifndef LMC_SAFETENSORS_RESTORE_RESTORE_H
#define LMC_SAFETENSORS_RESTORE_RESTORE_H

#include "safetensors/restore/restoration.h"

/* Decodes and verifies every tensor. Damage that was logged is no failure of this call. Errors: IO, NOMEM,
 * CANCELLED; CHECKSUM if the original differs; without a log, the damage. */
lmc_status st_restore_tensors(const st_restoration *restoration, lmc_st_diag *diag);

/* restore/restore_file.c: one archive; lmc_st_restore() without directories. Options are complete. */
lmc_status st_restore_file(const char *in_path, const os_place *out, const lmc_st_options *options,
                           lmc_st_result *result, lmc_st_diag *diag);

/* restore/verify.c: one file each. archive_fd: -1, or the open archive, which is then read instead of its path. */
lmc_status st_verify_file(const char *in_path, const lmc_st_options *options, lmc_st_result *result,
                          lmc_st_diag *diag);
lmc_status st_compare_files(const char *archive_path, int archive_fd, const char *plain_path,
                            const lmc_st_options *options, lmc_st_diag *diag);

#endif
