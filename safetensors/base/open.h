/*
 * open.h - opening files whose bases are searched for as lmc_st.h says (base/search.h).
 */
#ifndef LMC_SAFETENSORS_BASE_OPEN_H
#define LMC_SAFETENSORS_BASE_OPEN_H

#include "safetensors/base/file.h"

/* Opens a file and reads header and table; lmc_st_open() says what can fail. */
lmc_status st_file_open(const st_open *how, lmc_st_file **file, lmc_st_diag *diag);

/* The same as an input of a call with these options. */
lmc_status st_file_open_input(const char *path, const lmc_st_options *options, lmc_st_file **file,
                              lmc_st_diag *diag);

#endif
