/*
 * choose.h - finds, for a model that is to be stored, the models of the store that it should be based on: by sketches
 * of the values of its tensors (store/sketch.h), which the index has of all others (store/index.h).
 */
#ifndef LMC_SAFETENSORS_STORE_CHOOSE_H
#define LMC_SAFETENSORS_STORE_CHOOSE_H

#include "safetensors/store/session.h"

typedef struct st_chooser st_chooser;

/* What may be chosen. */
typedef struct st_choice_limits {
    uint64_t depth;            /* how many models it may need, one below the other */
    const unsigned char *goes; /* per model of the store, 1: it cannot be a base; NULL: all can */
    /* Per model, 1: it can be a base, and no other, whatever the rest says; may be NULL. */
    const unsigned char *allowed;
    /* With `allowed`, per model, 1: it can serve for equal tensors; so can none but these. */
    const unsigned char *has_equals;
} st_choice_limits;

/* Makes the conversion of `path`, which becomes the model `name`, choose its bases: sets callbacks of *options, which
 * are the conversion's. The arguments but `limits` must outlive the chooser. A model that needs `name` is no base for
 * it unless it is allowed. Errors: NOMEM, IO. st_chooser_end() or st_chooser_abandon() follows in every case. */
lmc_status st_chooser_begin(st_chooser **chooser, st_store_session *store, const char *name, const char *path,
                            const st_choice_limits *limits, st_options *options);

/* Forgets in the index what the model was, before it becomes another: what the index has of a model must be there.
 * Errors: IO, NOMEM, CANCELLED. */
lmc_status st_chooser_forget(st_chooser *chooser);

/* 1 if a file was given a base so far. */
int st_chooser_has_chosen(const st_chooser *chooser);

/* Notes the model in the index if status, that of its storing, is LMC_OK, and frees the chooser; NULL is allowed.
 * Returns status: an index that cannot be written is one that is made again later. */
lmc_status st_chooser_end(st_chooser *chooser, lmc_status status);

/* Frees the chooser; NULL is allowed. */
void st_chooser_abandon(st_chooser *chooser);

#endif
