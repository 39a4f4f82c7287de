/*
 * bench_sample.c - see commands/bench.h: which tensors are measured, which tensors of a base belong to them, and
 * reading both.
 */
#include "tool/commands/bench.h"

#include "safetensors/archive/file.h"
#include "tool/cli.h"

#include <stdlib.h>
#include <string.h>

static uint64_t tensor_nbytes(const lmc_st_file *file, uint64_t index)
{
    return st_file_tensor_nbytes(file, (size_t)index);
}

lmc_status cli_sample_choose(const lmc_st_file *file, uint64_t nbytes_max, cli_sample *sample)
{
    const uint64_t count = lmc_st_tensor_count(file);
    uint64_t first = count; /* tensor with any bytes */
    memset(sample, 0, sizeof(*sample));
    sample->file = file;
    sample->indices = malloc((size_t)(count + 1) * sizeof(*sample->indices));
    if (sample->indices == NULL)
        return LMC_ERR_NOMEM;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t nbytes = tensor_nbytes(file, i);
        first = nbytes > 0 && first == count ? i : first;
        if (nbytes > 0 && nbytes <= nbytes_max - sample->nbytes) {
            sample->indices[sample->count++] = i;
            sample->nbytes += nbytes;
        }
    }
    if (sample->count == 0 && first < count) {
        sample->indices[sample->count++] = first;
        sample->cut_nbytes = nbytes_max;
        sample->nbytes = nbytes_max;
    }
    return LMC_OK;
}

void cli_sample_free(cli_sample *sample)
{
    free(sample->indices);
    sample->indices = NULL;
}

/* ---- reading ---- */

/* The tensor of the base that belongs to tensor `wanted`: of the same name and shape, and of its dtype, or F32 for
 * BF16. Returns 1 and sets *index and *form, or returns 0. */
static int find_base(const cli_sample *sample, uint64_t wanted, uint64_t *index, lmc_base_form *form)
{
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    lmc_st_tensor old = LMC_INIT(lmc_st_tensor);
    st_file_describe(sample->file, (size_t)wanted, &tensor);
    if (sample->base == NULL || !lmc_st_find(sample->base, tensor.name, tensor.name_nbytes, index) ||
        !st_header_same_shape(&sample->file->header, (size_t)wanted, &sample->base->header, (size_t)*index))
        return 0;
    st_file_describe(sample->base, (size_t)*index, &old);
    *form = old.dtype == tensor.dtype ? LMC_BASE_PLAIN : LMC_BASE_BF16_OF_F32;
    return *form == LMC_BASE_PLAIN || (tensor.dtype == LMC_DTYPE_BF16 && old.dtype == LMC_DTYPE_F32);
}

static int read_content(const cli_sample *sample, lmc_ctx *ctx, size_t i, unsigned char *dst, cli_part *part)
{
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    st_file_describe(sample->file, (size_t)sample->indices[i], &tensor);
    part->content = dst;
    part->nbytes = (size_t)(sample->cut_nbytes > 0 ? sample->cut_nbytes : tensor.nbytes);
    part->dtype = tensor.dtype;
    part->has_base = find_base(sample, sample->indices[i], &part->base_index, &part->base_form);
    part->base_nbytes = !part->has_base                           ? 0
                        : part->base_form == LMC_BASE_BF16_OF_F32 ? 2 * part->nbytes
                                                                  : part->nbytes;
    return lmc_st_read_range(sample->file, ctx, sample->indices[i], 0, part->nbytes, dst, &diag) == LMC_OK
               ? CLI_OK
               : cli_report(&diag);
}

int cli_sample_read(const cli_sample *sample, lmc_ctx *ctx, unsigned char *content, cli_part *parts)
{
    int exit_status = CLI_OK;
    for (size_t i = 0; i < sample->count && exit_status == CLI_OK; i++) {
        exit_status = read_content(sample, ctx, i, content, &parts[i]);
        content += parts[i].nbytes;
    }
    return exit_status;
}

uint64_t cli_sample_base_nbytes(const cli_sample *sample, const cli_part *parts)
{
    uint64_t nbytes = 0;
    for (size_t i = 0; i < sample->count; i++)
        nbytes += parts[i].base_nbytes;
    return nbytes;
}

int cli_sample_read_base(const cli_sample *sample, lmc_ctx *ctx, unsigned char *dst, cli_part *parts)
{
    for (size_t i = 0; i < sample->count; i++) {
        lmc_st_diag diag = LMC_INIT(lmc_st_diag);
        cli_part *const part = &parts[i];
        if (part->has_base && lmc_st_read_range(sample->base, ctx, part->base_index, 0, part->base_nbytes,
                                                dst, &diag) != LMC_OK)
            return cli_report(&diag);
        part->base = part->has_base ? dst : NULL;
        dst += part->base_nbytes;
    }
    return CLI_OK;
}
