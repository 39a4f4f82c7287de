/*
 * predict.h - what the models of a store would take on each other, by the sketches of the index.
 */
#ifndef LMC_SAFETENSORS_STORE_PREDICT_H
#define LMC_SAFETENSORS_STORE_PREDICT_H

#include "safetensors/store/relatives.h"

/* What a model would take. */
typedef struct st_prediction {
    double alone_nbytes; /* without a base */
    double *nbytes;      /* per model: on it alone; what is not allowed saves nothing */
    unsigned char
        *is_chosen; /* per model, 1: of those that are allowed, a file of the model would be based on it;
                               * NULL: not asked */
} st_prediction;

/* Predicts what model `model` would take on others. is_allowed: per model, 1: it may be a base; its own is taken for 0.
 * The arrays of the prediction are the caller's; their content before the call does not matter. Errors: NOMEM, IO,
 * CANCELLED, CORRUPT (an index that cannot be made again). */
lmc_status st_predict_model(st_catalog *catalog, size_t model, unsigned char *is_allowed,
                            st_prediction *prediction);

#endif
