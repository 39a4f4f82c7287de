/*
 * groups.h - the groups of a block on the wire (format.md "Narrow blocks"): scales or palettes, of new groups only.
 */
#ifndef LMC_CODEC_NARROW_GROUPS_H
#define LMC_CODEC_NARROW_GROUPS_H

#include "codec/narrow/narrow.h"

/* Writes what belongs to the `count` groups in scratch. A group is new unless it equals the one a row of groups before.
 * Uses scratch->plane and what bitsets use. Returns 0 if there is no room. */
int lmc_groups_write(const lmc_narrow *narrow, const lmc_kernels *kernels, lmc_scratch *scratch, size_t count,
                     lmc_writer *writer);

/* Reads them, for a block of n elements: scratch->groups and scratch->palettes. Errors: CORRUPT, UNSUPPORTED. */
LMC_NODISCARD lmc_status lmc_groups_read(const lmc_narrow *narrow, const lmc_kernels *kernels,
                                         lmc_scratch *scratch, size_t count, size_t n, lmc_source *source,
                                         lmc_diag *diag);

#endif
