/*
 * st_salvage.h - what must hold of a file that is saved from an archive, damaged or not.
 */
#ifndef LMC_FUZZ_ST_SALVAGE_H
#define LMC_FUZZ_ST_SALVAGE_H

#include <lmc_st_experimental.h>

/* Salvages `path`. archive: the same archive, open; NULL if it cannot be opened. */
void fuzz_salvage(const char *path, unsigned thread_count, const lmc_st_file *archive);

/* Restoring stops at the first fault, verifying goes on and then says more of that fault. */
void fuzz_claim_same_fault(const lmc_st_diag *restored, const lmc_st_diag *verified);

#endif
