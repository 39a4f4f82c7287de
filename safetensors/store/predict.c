/*
 * predict.c - store/predict.h.
 */
#include "safetensors/store/predict.h"

#include <string.h>

/* Adds what one archive takes. totals and rank: room, one per model. */
static lmc_status add_archive(st_catalog *catalog, const st_catalog_file *file,
                              const unsigned char *is_allowed, double *totals, const unsigned *rank,
                              st_prediction *prediction)
{
    lmc_st_diag *const diag = catalog->store->diag;
    const lmc_allocator *const memory = catalog->store->options->allocator;
    const size_t count = catalog->store->models.count;
    st_index_tensor *tensors = NULL;
    size_t tensor_count = 0;
    st_relatives relatives = {.catalog = catalog, .is_allowed = is_allowed, .diag = diag};
    lmc_status status = st_index_load_file(&catalog->index, file->id, &tensors, &tensor_count, diag);
    if (status == LMC_ERR_CORRUPT) { /* it may be made again */
        st_release(memory, tensors);
        tensors = NULL;
        status = st_catalog_rebuild(catalog);
        if (status == LMC_OK)
            status = st_index_load_file(&catalog->index, file->id, &tensors, &tensor_count, diag);
    }
    relatives.tensors = tensors;
    if (status == LMC_OK)
        status = st_relatives_find(&relatives, tensor_count, NULL);
    const st_selection selection = {.memory = memory,
                                    .alone_nbytes = relatives.alone_nbytes,
                                    .wanted_count = relatives.wanted_count,
                                    .relatives = relatives.list,
                                    .relative_count = relatives.count,
                                    .model_count = count,
                                    .is_allowed = is_allowed,
                                    .rank = rank};
    if (status == LMC_OK) {
        st_selection_totals(&selection, totals);
        for (size_t i = 0; i < relatives.wanted_count; i++)
            prediction->alone_nbytes += relatives.alone_nbytes[i];
        for (size_t i = 0; i < count; i++)
            prediction->nbytes[i] += totals[i];
    }
    if (status == LMC_OK && prediction->is_chosen) { /* the models that it would be based on */
        size_t *const chosen = st_allocate_array(memory, relatives.wanted_count + 1, sizeof *chosen);
        if (!chosen || st_selection_choose(&selection, chosen) != LMC_OK)
            status = st_fail_nomem(diag);
        for (size_t i = 0; i < relatives.wanted_count && status == LMC_OK; i++)
            if (chosen[i] != SIZE_MAX)
                prediction->is_chosen[relatives.list[chosen[i]].model] = 1;
        st_release(memory, chosen);
    }
    st_relatives_free(&relatives);
    st_release(memory, tensors);
    return status;
}

lmc_status st_predict_model(st_catalog *catalog, size_t model, unsigned char *is_allowed,
                            st_prediction *prediction)
{
    const st_options *const options = catalog->store->options;
    const size_t count = catalog->store->models.count;
    double *const totals = st_allocate_array(options->allocator, count + 1, sizeof *totals);
    unsigned *const rank = st_allocate_zeroed(options->allocator, count + 1, sizeof *rank);
    lmc_status status = totals && rank ? LMC_OK : st_fail_nomem(catalog->store->diag);
    const unsigned char was_allowed = is_allowed[model];
    is_allowed[model] = 0;
    prediction->alone_nbytes = 0;
    for (size_t i = 0; i < count; i++)
        prediction->nbytes[i] = 0;
    if (prediction->is_chosen)
        memset(prediction->is_chosen, 0, count);
    for (size_t i = 0; i < catalog->count && status == LMC_OK; i++) {
        const st_catalog_file *const file = &catalog->files[i];
        if (st_is_cancelled(options->cancel))
            status = st_fail_cancelled(catalog->store->diag);
        else if (file->model == model && file->id > 0)
            status = add_archive(catalog, file, is_allowed, totals, rank, prediction);
    }
    is_allowed[model] = was_allowed;
    st_release(options->allocator, totals);
    st_release(options->allocator, rank);
    return status;
}
