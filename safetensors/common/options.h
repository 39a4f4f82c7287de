/*
 * options.h - what a public call was given: its options, complete and checked, and the library's own result and
 * diagnostic. The struct of options of each call becomes the one struct that the library works with.
 */
#ifndef LMC_SAFETENSORS_COMMON_OPTIONS_H
#define LMC_SAFETENSORS_COMMON_OPTIONS_H

#include "safetensors/common/st_common.h"

/* convert/source.h, convert/alias.h, convert/match.h */
struct st_source;
struct st_aliases;
struct st_base_set;
struct st_matches;

/* The fields of all structs of options. What a call does not have is left at its default. */
typedef struct st_options {
    lmc_level level;
    unsigned thread_count;
    int force, no_fsync;
    void (*progress)(void *user, uint64_t done_nbytes, uint64_t total_nbytes);
    void *user;
    const volatile int *cancel;
    const lmc_allocator *allocator; /* never NULL */
    int in_fd, out_fd;              /* -1: the path is opened */
    int salvage, sha256, raw;
    lmc_st_fault_fn damage, warning;
    lmc_st_file_fn file_done;
    const char *base;
    const char *const *base_dirs;
    size_t base_dir_count;
    const char *const *excludes;
    size_t exclude_count;
    /* In a conversion: chooses bases instead of `base`, for tensors that have no match in their own file; NULL: `base`
     * counts. */
    lmc_status (*choose_bases)(void *choose_user, const struct st_source *source,
                               const struct st_aliases *aliases, struct st_base_set *bases,
                               struct st_matches *matches, lmc_st_diag *diag);
    void *choose_user;
    /* In a conversion: an open file that is the base instead of `base`; the conversion closes it, whatever happens.
     * Only tensors of one name, dtype and shape are compared. */
    lmc_st_file *opened_base;
    const lmc_st_writer *base_writer; /* of lmc_st_write_options */
} st_options;

void st_options_init(st_options *options);

typedef struct st_call {
    st_options options;
    lmc_st_result *result; /* of this struct */
    lmc_st_diag *diag;
    lmc_st_result own_result;
    lmc_st_diag own_diag;
    lmc_st_result *given_result; /* NULL: not wanted */
    lmc_st_diag *given_diag;
    int has_allocator; /* one was given */
} st_call;

/* Notes where result and diag are wanted; both may be NULL. The options are the defaults. Error: ARG. */
lmc_status st_call_begin(st_call *call, const char *path, lmc_st_result *result, lmc_st_diag *diag);

/* The same with the options that were given; NULL: the defaults. Error: ARG, also for a value out of its range. */
lmc_status st_call_begin_plain(st_call *call, const char *path, const lmc_st_options *given,
                               lmc_st_diag *diag);
lmc_status st_call_begin_convert(st_call *call, const char *path, const lmc_st_convert_options *given,
                                 lmc_st_result *result, lmc_st_diag *diag);
lmc_status st_call_begin_restore(st_call *call, const char *path, const lmc_st_restore_options *given,
                                 lmc_st_result *result, lmc_st_diag *diag);
lmc_status st_call_begin_verify(st_call *call, const char *path, const lmc_st_verify_options *given,
                                lmc_st_result *result, lmc_st_diag *diag);
lmc_status st_call_begin_compare(st_call *call, const char *path, const lmc_st_compare_options *given,
                                 lmc_st_diag *diag);
lmc_status st_call_begin_write(st_call *call, const char *path, const lmc_st_write_options *given,
                               lmc_st_result *result, lmc_st_diag *diag);
lmc_status st_call_begin_output(st_call *call, const char *path, const lmc_st_output_options *given,
                                lmc_st_result *result, lmc_st_diag *diag);

/* Copies the fields that the caller's struct has to *own, which has its defaults and its size; given may be NULL.
 * Error: ARG. */
lmc_status st_call_copy(st_call *call, const void *given, void *own);

/* NULL: it stays the default. Error: ARG. */
lmc_status st_call_set_allocator(st_call *call, const lmc_allocator *allocator);

/* Sets the options that every call has. Error: ARG. */
lmc_status st_call_set_common(st_call *call, const lmc_st_common *common);

/* Error: ARG. */
lmc_status st_call_set_level(st_call *call, lmc_level level);

/* Gives the caller what the caller's structs hold, after every st_call_begin...(), and returns status. */
lmc_status st_call_end(st_call *call, lmc_status status);

#endif
