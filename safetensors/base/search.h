/*
 * search.h - the search for the base of an open archive. A file of the right size and header is a candidate;
 * if there are several, their content decides (base/probe.h). To look at the content of a candidate that has a
 * base itself can take that base. While a file is only a candidate, it is on trial: its base is searched for, and so
 * are theirs, but what would need a further file to be looked at is then not looked at. So the work of a search is
 * bounded by the length of the chain. What was found on trial is forgotten.
 */
#ifndef LMC_SAFETENSORS_BASE_SEARCH_H
#define LMC_SAFETENSORS_BASE_SEARCH_H

#include "safetensors/archive/file.h"

#include <pthread.h>

struct st_base_state {
    char *path; /* what the caller named; may be NULL */
    char **dirs;
    size_t dir_count;
    int is_trial;         /* the file is a candidate itself, or found for one; changed by its search alone */
    pthread_mutex_t lock; /* of what follows */
    lmc_st_file *file;    /* NULL: not open yet */
    int has_failed;       /* the search has, with this result */
    lmc_st_diag failure;
};

/* Looks for the base of `file`, whose lock is held, and opens it. Errors: as lmc_st_open_base(). */
lmc_status st_base_search(const lmc_st_file *file, lmc_st_file **found, lmc_st_diag *diag);

/* base/base.c: closes the base of `file` and forgets that there was a search. */
void st_base_forget(const lmc_st_file *file);

#endif
