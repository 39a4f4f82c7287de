/*
 * search.h - the search for the base of an open archive. A file of the right size and header is a candidate;
 * if there are several, their content decides (base/probe.h). To look at the content of a candidate that has a
 * base itself can take that base. While a file is only a candidate, it is on trial: its base is searched for, and so
 * are theirs, but what would need a further file to be looked at is then not looked at. So the work of a search is
 * bounded by the length of the chain. What was found on trial is forgotten.
 */
#ifndef LMC_SAFETENSORS_BASE_SEARCH_H
#define LMC_SAFETENSORS_BASE_SEARCH_H

#include "safetensors/base/file.h"

/* An st_base_search_fn. */
lmc_status st_search_base(const lmc_st_file *file, lmc_st_file **found, lmc_st_diag *diag);

#endif
