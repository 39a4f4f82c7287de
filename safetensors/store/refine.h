/*
 * refine.h - predictions that are too near to each other to decide are put right by the codec's own sample: the plan of
 * a frame says how many bytes it expects.
 */
#ifndef LMC_SAFETENSORS_STORE_REFINE_H
#define LMC_SAFETENSORS_STORE_REFINE_H

#include "safetensors/convert/source.h"
#include "safetensors/store/relatives.h"

/* Looks at the models on which the source takes about as little as on the best. Some tensors are planned against each
 * of them, and what is predicted for the others of the model is corrected likewise. selection: of `relatives`, whose
 * list changes. Errors: NOMEM, CANCELLED, what reading the source gives. */
lmc_status st_relatives_refine(st_relatives *relatives, const st_selection *selection,
                               const st_source *source, lmc_ctx *ctx);

#endif
