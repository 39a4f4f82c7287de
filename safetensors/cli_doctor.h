/*
 * cli_doctor.h - what the parts of the command doctor share: the list of what does not work.
 */
#ifndef LMC_ST_CLI_DOCTOR_H
#define LMC_ST_CLI_DOCTOR_H

#include "cli.h"

#define DOCTOR_PROBLEMS_MAX 160
#define DOCTOR_PROBLEM_NBYTES 320

typedef struct doctor_problems {
    int count;
    char texts[DOCTOR_PROBLEMS_MAX][DOCTOR_PROBLEM_NBYTES];
} doctor_problems;

/* Adds a line; names in it are escaped already. Of too many the last ones are dropped. */
void doctor_problem(doctor_problems *problems, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* doctor FILE...: the datasets of HDF5 files (cli_doctor_file.c). Returns the exit status. */
int doctor_files(const cli_args *args);

/* The file name of the HDF5 library that doctor_files() loads; NULL: built without HDF5. */
const char *doctor_hdf5_library(void);

#endif
