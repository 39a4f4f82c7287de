/*
 * dependents.h - models that are based on one that is damaged, and is about to be replaced.
 */
#ifndef LMC_SAFETENSORS_STORE_DEPENDENTS_H
#define LMC_SAFETENSORS_STORE_DEPENDENTS_H

#include "safetensors/store/session.h"

/* *fit: whatever is based on the model can be based on the archives that are staged (ST_STORE_STAGED) in its place:
 * every tensor that needs them was read with them, and so verified. An archive that cannot be read does not count.
 * Errors: NOMEM, CANCELLED. */
lmc_status st_dependents_fit(const st_store_session *store, const st_model *model, int *fit);

#endif
