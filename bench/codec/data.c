/* data.c - the tensors of a safetensors file as data to measure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/codec/bench.h"
#include "lmc_st_experimental.h"

static lmc_dtype commonest_dtype(const lmc_st_file *file, uint64_t *nbytes)
{
    uint64_t sum[LMC_DTYPE_COUNT] = {0};
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    unsigned best = 0;
    for (uint64_t i = 0; i < lmc_st_tensor_count(file); i++)
        if (lmc_st_tensor_info(file, i, &tensor) == LMC_OK)
            sum[tensor.dtype] += tensor.nbytes;
    for (unsigned d = 1; d < LMC_DTYPE_COUNT; d++)
        best = sum[d] > sum[best] ? d : best;
    *nbytes = sum[best];
    return (lmc_dtype)best;
}

static int read_tensors(const lmc_st_file *file, lmc_dtype dtype, uint8_t *dst)
{
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    for (uint64_t i = 0; i < lmc_st_tensor_count(file); i++) {
        if (lmc_st_tensor_info(file, i, &tensor) != LMC_OK || tensor.dtype != dtype)
            continue;
        if (lmc_st_read(file, NULL, i, dst, (size_t)tensor.nbytes, NULL) != LMC_OK)
            return -1;
        dst += tensor.nbytes;
    }
    return 0;
}

int bench_data_load(bench_data *data, const char *path, size_t nbytes)
{
    lmc_st_file *file;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    uint64_t once;
    if (lmc_st_open(path, NULL, &file, &diag) != LMC_OK) {
        fprintf(stderr, "bench: %s: %s\n", path, diag.text);
        return -1;
    }
    data->dtype = commonest_dtype(file, &once);
    data->element_nbytes = (lmc_dtype_nbits(data->dtype) + 7) / 8;
    const uint64_t times = once ? (nbytes + once - 1) / once : 0;
    data->nbytes = (size_t)(once * times);
    data->bytes = times ? malloc(data->nbytes) : NULL;
    const char *const slash = strrchr(path, '/');
    snprintf(data->name, sizeof data->name, "%s", slash ? slash + 1 : path);
    const int failed = !data->bytes || read_tensors(file, data->dtype, data->bytes) != 0;
    lmc_st_close(file);
    if (failed) {
        fprintf(stderr, "bench: %s: no tensors could be read\n", path);
        return -1;
    }
    for (uint64_t i = 1; i < times; i++)
        memcpy(data->bytes + i * once, data->bytes, (size_t)once);
    return 0;
}
