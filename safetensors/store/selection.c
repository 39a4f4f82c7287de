/*
 * selection.c - store/selection.h: a greedy choice.
 */
#include "safetensors/store/selection.h"

#include <string.h>

/* Models that a file is based on at most. */
#define MODELS_MAX 16

/* Another model must save so much: it is one more file to open for whoever reads the tensors. */
#define GAIN_NBYTES_MIN 256
#define GAIN_SHARE_MIN 0.002

/* Gains that differ by less than this share are equal: predictions are not better. */
#define TIE_SHARE 0.001

void st_selection_totals(const st_selection *selection, double *total_nbytes)
{
    double alone = 0;
    for (size_t i = 0; i < selection->wanted_count; i++)
        alone += selection->alone_nbytes[i];
    for (size_t i = 0; i < selection->model_count; i++)
        total_nbytes[i] = alone;
    for (size_t i = 0; i < selection->relative_count; i++) {
        const st_relative *const one = &selection->relatives[i];
        const double gain = selection->alone_nbytes[one->wanted] - one->nbytes;
        if (gain > 0 && selection->is_allowed[one->model])
            total_nbytes[one->model] -= gain;
    }
}

/* The model that saves most of what the tensors take now, and how much. */
static size_t find_best(const st_selection *selection, const double *now, double *gain)
{
    size_t best = SIZE_MAX;
    *gain = 0;
    for (size_t i = 0; i < selection->relative_count;) {
        const size_t model = selection->relatives[i].model;
        double saved = 0;
        for (; i < selection->relative_count && selection->relatives[i].model == model; i++) {
            const st_relative *const one = &selection->relatives[i];
            saved += one->nbytes < now[one->wanted] ? now[one->wanted] - one->nbytes : 0;
        }
        if (!selection->is_allowed[model] || saved <= 0)
            continue;
        const int is_tie =
            best != SIZE_MAX && saved > *gain * (1 - TIE_SHARE) && saved < *gain * (1 + TIE_SHARE);
        const int is_better = is_tie ? selection->rank[model] < selection->rank[best] : saved > *gain;
        if (is_better) {
            best = model;
            *gain = saved;
        }
    }
    return best;
}

lmc_status st_selection_choose(const st_selection *selection, size_t *chosen)
{
    const size_t count = selection->wanted_count;
    double *const now = st_allocate_array(selection->memory, count + 1, sizeof *now);
    double total = 0;
    if (!now)
        return LMC_ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        now[i] = selection->alone_nbytes[i];
        total += now[i];
        chosen[i] = SIZE_MAX;
    }
    for (size_t taken = 0; taken < MODELS_MAX; taken++) {
        double gain = 0;
        const size_t best = find_best(selection, now, &gain);
        if (best == SIZE_MAX || gain < GAIN_NBYTES_MIN + total * GAIN_SHARE_MIN)
            break;
        for (size_t i = 0; i < selection->relative_count; i++) {
            const st_relative *const one = &selection->relatives[i];
            if (one->model != best || one->nbytes >= now[one->wanted])
                continue;
            now[one->wanted] = one->nbytes;
            chosen[one->wanted] = i;
        }
        total -= gain;
    }
    st_release(selection->memory, now);
    return LMC_OK;
}
