/*
 * search.h - opens files whose bases are searched for as lmc_st.h says. A file of the right size and header is a
 * candidate; if there are several, their content decides. To look at the content of a candidate that has a
 * base itself can take that base. While a file is only a candidate, it is on trial: its base is searched for, and so
 * are theirs, but what would need a further file to be looked at is then not looked at. So the work of a search is
 * bounded by the length of the chain. What was found on trial is forgotten.
 */
#ifndef LMC_SAFETENSORS_BASE_SEARCH_H
#define LMC_SAFETENSORS_BASE_SEARCH_H

#include "safetensors/base/base_file.h"

/* Opens a file and reads header and table; lmc_st_open() says what can fail. */
lmc_status st_file_open(const st_open *how, lmc_st_file **file, lmc_st_diag *diag);

/* The same as an input of a call with these options. */
lmc_status st_file_open_input(const char *path, const st_options *options, lmc_st_file **file,
                              lmc_st_diag *diag);

/* By rising preference. */
typedef enum st_base_fit {
    ST_BASE_DIFFERS, /* it is not the base */
    ST_BASE_UNKNOWN, /* it could not be read, or not be looked at on trial */
    ST_BASE_PARTLY,  /* it fits where that could be done */
    ST_BASE_FITS     /* wherever it was looked at */
} st_base_fit;

/* Looks at up to nine tensors that `file` has coded against base file `number`, the first, the last and the one of
 * the largest frame among them, whether their bases in `base` hold the right content: by the hash of all of it if
 * `base` has one for blocks of the same size, else by their first and last block. is_thorough: at all of these tensors
 * and blocks. is_trial: not at tensors of `base` that need another tensor themselves. Error: NOMEM. */
lmc_status st_base_probe(const lmc_st_file *file, size_t number, const lmc_st_file *base, int is_trial,
                         int is_thorough, st_base_fit *fit);

#endif
