/*
 * base_file.h - an open file and the links to its bases, which are other open files: where they are looked for, when
 * they are opened (once, by the first who needs one), and the chains of files that they lead to. How a base is searched
 * for is not known here: whoever opens a file says that (base/search.h).
 */
#ifndef LMC_SAFETENSORS_BASE_BASE_FILE_H
#define LMC_SAFETENSORS_BASE_BASE_FILE_H

#include "safetensors/archive/archive.h"

/* Looks for base file `number` of `file`, whose slot is locked, and opens it. Errors: as lmc_st_open_base(). */
typedef lmc_status (*st_base_search_fn)(const lmc_st_file *file, size_t number, lmc_st_file **found,
                                        lmc_st_diag *diag);

/* One base file. */
typedef struct st_base_slot {
    pthread_mutex_t lock; /* of what follows */
    lmc_st_file *file;    /* NULL: not open yet */
    int is_callers;       /* `file` was given by the caller, who closes it */
    int has_failed;       /* the search has, with this result */
    lmc_st_diag failure;
    struct st_base_slots *counted_by; /* the root's, which count the file; NULL: none do */
} st_base_slot;

/* The base files of an open file, and what their searches share. */
struct st_base_slots {
    st_base_search_fn search;
    char *path; /* what the caller named; may be NULL */
    char **dirs;
    size_t dir_count;
    int is_trial;      /* the file is a candidate itself, or found for one; changed by its search alone */
    int is_thorough;   /* in a search, candidates are compared whole, not by a sample */
    size_t open_count; /* of a root: files below it that were searched for; atomic */
    uint64_t open_headers_nbytes; /* bytes of their headers, equal ones of a chain counted once; atomic */
    size_t count;
    st_base_slot slots[];
};

/* How many base files a file has: 0 for a plain one. */
static inline size_t st_file_base_count(const lmc_st_file *file)
{
    return file->base ? file->base->count : 0;
}

/* st_handle_open(), with a slot if there is a base. Ends with lmc_st_close(). */
lmc_status st_file_open_with(const st_open *how, st_base_search_fn search, lmc_st_file **file,
                             lmc_st_diag *diag);

/* Where the base is looked for, instead of what was said before; none is open yet. Error: NOMEM. */
lmc_status st_file_set_base(lmc_st_file *file, const char *base, const char *const *base_dirs,
                            size_t base_dir_count, lmc_st_diag *diag);

/* lmc_st_open_base(), but a search that has failed is not repeated. `diag` stays as it is after a success. */
lmc_status st_file_open_base(const lmc_st_file *file, size_t number, const lmc_st_file **base,
                             lmc_st_diag *diag);

/* Makes an open file, which stays the caller's, base file `number` of `file`. It is closed after `file`, or after
 * st_file_forget_base(). Errors: BASE, by size and header; ARG: another one is open; LIMIT. */
lmc_status st_file_use_base(const lmc_st_file *file, size_t number, lmc_st_file *base, lmc_st_diag *diag);

/* Closes base file `number` of `file`, and forgets that there was a search. */
void st_file_forget_base(const lmc_st_file *file, size_t number);

/* A result other than LMC_OK ends the walk. */
typedef lmc_status (*st_base_visit_fn)(void *user, const lmc_st_file *base);

/* Opens all bases of `file`, the bases of these, and so on, and calls `visit` for each. Those that are not found fail
 * with diag, unless diag is NULL: then they are left out, but for NOMEM. Errors: what opening gives, and `visit`. */
lmc_status st_file_visit_bases(const lmc_st_file *file, st_base_visit_fn visit, void *user,
                               lmc_st_diag *diag);

/* Bytes of the headers of `file` and the open files whose base it is, directly or not; equal ones count once. */
uint64_t st_file_headers_nbytes(const lmc_st_file *file);

/* Files of the longest chain that begins with `file`; opens all of them. Errors: as lmc_st_open_base(). */
lmc_status st_file_chain_count(const lmc_st_file *file, size_t *count, lmc_st_diag *diag);

/* ARG if the path, or the descriptor if it is not -1, leads to a base of `file`, or a base of that, and so on, as
 * far as they are found. Other errors: NOMEM. */
lmc_status st_file_check_output(const lmc_st_file *file, const char *path, int fd, lmc_st_diag *diag);

/* Fails with BASE: `used`, base file `number` of `file` or `file` itself, does not hold the content that was coded
 * against. */
lmc_status st_file_fail_base(const lmc_st_file *file, size_t number, const lmc_st_file *used,
                             lmc_st_diag *diag);

#endif
