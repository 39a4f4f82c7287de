/*
 * st_input.h - files for the fuzz targets of liblmc_st.
 *
 * The input is one file without a name, written again for each input; outputs stand in a directory of their
 * own, which must be empty in the end: a call that failed leaves nothing.
 */
#ifndef LMC_FUZZ_ST_INPUT_H
#define LMC_FUZZ_ST_INPUT_H

#include <stddef.h>
#include <stdint.h>

/* Makes these bytes the content of the input file and returns its path. There is one such file: the bytes of
 * the call before are gone. */
const char *fuzz_input_path(const void *data, size_t nbytes);

typedef struct fuzz_directory {
    char path[64];
    char file[80]; /* a path in it, for an output */
    char other_file[80];
} fuzz_directory;

/* In memory if there is a file system for that. */
void fuzz_directory_make(fuzz_directory *directory);

/* Ends the program if something is left in it. */
void fuzz_directory_remove(const fuzz_directory *directory);

int fuzz_file_exists(const char *path);

/* The file must exist and have exactly these bytes. */
void fuzz_claim_file(const char *path, const void *data, size_t nbytes);

/* Flips a bit of byte `offset`. */
void fuzz_change_file(const char *path, uint64_t offset);

#endif
