/*
 * doctor_dataset.h - a dataset of an HDF5 file, for people and for programs.
 */
#ifndef LMC_TOOL_COMMANDS_DOCTOR_DATASET_H
#define LMC_TOOL_COMMANDS_DOCTOR_DATASET_H

#include "tool/commands/hdf5.h"

#include <stddef.h>

typedef struct doctor_dataset {
    const char *name; /* from a file of strangers, as everything here */
    size_t name_nbytes;
    const hdf5_filter *filters;
    unsigned filter_count;
    const hdf5_dataset *numbers;
} doctor_dataset;

/* Chunks that were stored without LMC although it is among the filters. */
uint64_t doctor_dataset_lacking(const doctor_dataset *dataset);

/* Chunks that were not looked at although LMC is among the filters. */
uint64_t doctor_dataset_unexamined(const doctor_dataset *dataset);

/* Two or three lines. */
void doctor_dataset_show(const doctor_dataset *dataset);

/* An object. */
void doctor_dataset_show_json(const doctor_dataset *dataset);

#endif
