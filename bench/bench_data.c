/* bench_data.c - the bytes that are measured: synthetic, or the tensors of a file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "lmc_st.h"

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* xorshift64* (Vigna 2016), and the Box-Muller transform on it. */
static double uniform(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return ((double)(*state * UINT64_C(2685821657736338717) >> 11) + 0.5) / 9007199254740992.0;
}

double bench_gauss(uint64_t *state)
{
    const double u = uniform(state), v = uniform(state);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

void bench_store_value(uint8_t *dst, lmc_dtype dtype, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == LMC_DTYPE_F32) {
        memcpy(dst, &bits, sizeof bits);
        return;
    }
    const uint16_t rounded = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    memcpy(dst, &rounded, sizeof rounded);
}

int bench_data_gauss(bench_data *data, lmc_dtype dtype, size_t nbytes)
{
    uint64_t state = 88172645463325252u;
    snprintf(data->name, sizeof data->name, "gauss.%s", dtype == LMC_DTYPE_F32 ? "f32" : "bf16");
    data->dtype = dtype;
    data->element_nbytes = lmc_dtype_nbits(dtype) / 8;
    data->nbytes = nbytes / data->element_nbytes * data->element_nbytes;
    data->bytes = malloc(data->nbytes);
    if (!data->bytes)
        return -1;
    for (size_t i = 0; i < data->nbytes; i += data->element_nbytes)
        bench_store_value(data->bytes + i, dtype, (float)(0.02 * bench_gauss(&state)));
    return 0;
}

static lmc_dtype commonest_dtype(const lmc_st_file *file, uint64_t *nbytes)
{
    uint64_t sum[LMC_DTYPE_COUNT] = {0};
    lmc_st_tensor tensor;
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
    lmc_st_tensor tensor;
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
    lmc_st_diag diag;
    uint64_t once;
    if (lmc_st_open(path, &file, &diag) != LMC_OK) {
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
