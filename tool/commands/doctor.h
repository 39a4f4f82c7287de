/*
 * doctor.h - the second half of the command doctor, which looks at files.
 */
#ifndef LMC_TOOL_COMMANDS_DOCTOR_H
#define LMC_TOOL_COMMANDS_DOCTOR_H

#include "tool/cli.h"

/* doctor FILE...: the datasets of HDF5 files (commands/doctor_file.c). Returns the exit status. */
int doctor_files(const cli_args *args);

/* The file name of the HDF5 library that doctor_files() loads; NULL: built without HDF5. */
const char *doctor_hdf5_library(void);

#endif
