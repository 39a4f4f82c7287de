/*
 * archive.h - what makes a file an archive: its marks, its table, the original header in that, and whether the archive
 * header describes the tensors of the original one (docs/archive.md, sections 3, 4 and 6).
 */
#ifndef LMC_SAFETENSORS_ARCHIVE_ARCHIVE_H
#define LMC_SAFETENSORS_ARCHIVE_ARCHIVE_H

#include "safetensors/archive/handle.h"

/* *is_archive: the file, whose header was read as that of a plain one, is an archive. Errors: UNSUPPORTED, NOMEM, IO,
 * CORRUPT if it was an archive before someone changed it. */
lmc_status st_archive_detect(const lmc_st_file *file, int *is_archive, lmc_st_diag *diag);

/* Makes an archive of such a file: reads the table, and replaces the archive header by the original one once both were
 * found to fit. */
lmc_status st_archive_read(lmc_st_file *file, lmc_st_diag *diag);

#endif
