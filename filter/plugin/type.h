/*
 * type.h - reads a datatype of HDF5 as far as the filter wants to know it.
 */
#ifndef LMC_FILTER_PLUGIN_TYPE_H
#define LMC_FILTER_PLUGIN_TYPE_H

#include "filter/chunk/params.h"
#include "filter/plugin/library.h"

/* Arrays become their base, compounds (and complex numbers) whose members are all the same number, that number. */
lmc_h5_type h5_type_read(const h5_library *library, h5_id id);

#endif
