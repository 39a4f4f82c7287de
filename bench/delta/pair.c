/* pair.c - the two snapshots that are measured: tensors of two files, or synthetic ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/codec/bench.h"
#include "bench/delta/delta.h"
#include "lmc_st_experimental.h"

/* bzip2 and the lists count in 32 bits. */
#define NBYTES_MAX (1u << 30)

#define SYNTHETIC_SIGMA 0.02
#define SYNTHETIC_SEED 88172645463325252u
#define STEP_TRIALS 48         /* halvings of the logarithm of a step */
#define STEP_SAMPLE (1u << 16) /* values */

static void set_unit(delta_unit *unit, size_t offset, size_t nbytes, lmc_dtype dtype, int has_base)
{
    const unsigned nbits = lmc_dtype_nbits(dtype);
    *unit = (delta_unit){offset, nbytes, dtype, nbits < 8 ? 1 : nbits / 8, has_base};
}

/* Tensors of equal dtype become one unit for the peers; those stand one behind the other. */
static void join_units(delta_pair *pair)
{
    for (size_t i = 0; i < pair->tensor_count; i++) {
        const delta_unit *const tensor = &pair->tensors[i];
        delta_unit *const last = pair->dtype_count ? &pair->dtypes[pair->dtype_count - 1] : NULL;
        if (last && last->dtype == tensor->dtype)
            last->nbytes += tensor->nbytes;
        else
            pair->dtypes[pair->dtype_count++] = *tensor;
    }
}

static void count_changed(delta_pair *pair)
{
    for (size_t i = 0; i < pair->tensor_count; i++) {
        const delta_unit *const t = &pair->tensors[i];
        pair->without_base += !t->has_base;
        if (!t->has_base)
            continue;
        pair->value_count += t->nbytes / t->width;
        for (size_t at = t->offset; at < t->offset + t->nbytes; at += t->width)
            pair->changed_count += memcmp(pair->content + at, pair->base + at, t->width) != 0;
    }
}

/* Memory for all copies. memset touches the pages of the base, for tensors that have none in its file. */
static int allocate(delta_pair *pair, size_t nbytes)
{
    pair->copies = nbytes > pair->nbytes ? (nbytes + pair->nbytes - 1) / pair->nbytes : 1;
    pair->content = malloc(pair->nbytes * pair->copies);
    pair->base = malloc(pair->nbytes * pair->copies);
    if (!pair->content || !pair->base)
        return -1;
    memset(pair->base, 0, pair->nbytes * pair->copies);
    return 0;
}

static void complete_pair(delta_pair *pair)
{
    join_units(pair);
    count_changed(pair);
    for (size_t i = 1; i < pair->copies; i++) {
        memcpy(pair->content + i * pair->nbytes, pair->content, pair->nbytes);
        memcpy(pair->base + i * pair->nbytes, pair->base, pair->nbytes);
    }
}

/* ---- files ---- */

static int find_in_base(const lmc_st_file *base, const lmc_st_tensor *tensor, uint64_t *index)
{
    lmc_st_tensor other = LMC_INIT(lmc_st_tensor);
    return lmc_st_find_tensor_sized(base, tensor->name, tensor->name_nbytes, index) &&
           lmc_st_tensor_info(base, *index, &other) == LMC_OK && other.dtype == tensor->dtype &&
           other.nbytes == tensor->nbytes;
}

static int read_tensor(const lmc_st_file *file, uint64_t index, size_t nbytes, uint8_t *dst)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    if (lmc_st_read_range(file, NULL, index, 0, nbytes, dst, &diag) == LMC_OK)
        return 0;
    fprintf(stderr, "lmc-bench-delta: %s: %s\n", diag.file, diag.text);
    return -1;
}

static int read_dtype(delta_pair *pair, const lmc_st_file *base, const lmc_st_file *file, lmc_dtype dtype,
                      size_t *at)
{
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    uint64_t there;
    for (uint64_t i = 0; i < lmc_st_tensor_count(file); i++) {
        if (lmc_st_tensor_info(file, i, &tensor) != LMC_OK)
            return -1;
        if (tensor.dtype != dtype || tensor.nbytes == 0)
            continue;
        delta_unit *const unit = &pair->tensors[pair->tensor_count++];
        set_unit(unit, *at, (size_t)tensor.nbytes, dtype, find_in_base(base, &tensor, &there));
        if (read_tensor(file, i, unit->nbytes, pair->content + *at) != 0 ||
            (unit->has_base && read_tensor(base, there, unit->nbytes, pair->base + *at) != 0))
            return -1;
        *at += unit->nbytes;
    }
    return 0;
}

static int read_files(delta_pair *pair, const lmc_st_file *base, const lmc_st_file *file, size_t nbytes)
{
    lmc_st_tensor tensor = LMC_INIT(lmc_st_tensor);
    uint64_t once = 0;
    size_t at = 0;
    for (uint64_t i = 0; i < lmc_st_tensor_count(file); i++)
        if (lmc_st_tensor_info(file, i, &tensor) == LMC_OK)
            once += tensor.nbytes;
    if (once == 0 || once > NBYTES_MAX) {
        fprintf(stderr, "lmc-bench-delta: %s: no tensors, or more than %u bytes of them\n", pair->name,
                NBYTES_MAX);
        return -1;
    }
    pair->nbytes = (size_t)once;
    pair->tensors = calloc(lmc_st_tensor_count(file), sizeof *pair->tensors);
    if (!pair->tensors || allocate(pair, nbytes) != 0)
        return -1;
    for (unsigned d = 0; d < LMC_DTYPE_COUNT; d++)
        if (read_dtype(pair, base, file, (lmc_dtype)d, &at) != 0)
            return -1;
    return 0;
}

static const char *file_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int delta_pair_load(delta_pair *pair, const char *base_path, const char *path, size_t nbytes)
{
    lmc_st_file *base = NULL, *file = NULL;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    memset(pair, 0, sizeof *pair);
    snprintf(pair->name, sizeof pair->name, "%s -> %s", file_name(base_path), file_name(path));
    int failed = lmc_st_open(base_path, NULL, &base, &diag) != LMC_OK ||
                 lmc_st_open(path, NULL, &file, &diag) != LMC_OK;
    if (failed)
        fprintf(stderr, "lmc-bench-delta: %s: %s\n", diag.file, diag.text);
    else
        failed = read_files(pair, base, file, nbytes) != 0;
    lmc_st_close(base);
    lmc_st_close(file);
    if (!failed)
        complete_pair(pair);
    return failed ? -1 : 0;
}

/* ---- synthetic ---- */

/* Writes n values and, after a step of this size, n values again. Returns how many of them differ. */
static size_t make_values(lmc_dtype dtype, double step, size_t n, uint8_t *base, uint8_t *content)
{
    const unsigned width = lmc_dtype_nbits(dtype) / 8;
    uint64_t state = SYNTHETIC_SEED;
    size_t changed = 0;
    for (size_t i = 0; i < n; i++) {
        const double value = bench_gauss(&state) * SYNTHETIC_SIGMA;
        bench_store_value(base + i * width, dtype, (float)value);
        bench_store_value(content + i * width, dtype, (float)(value + step * bench_gauss(&state)));
        changed += memcmp(base + i * width, content + i * width, width) != 0;
    }
    return changed;
}

/* The step that changes about this share of the values: a larger step changes more. */
static double find_step(lmc_dtype dtype, double changed_share, uint8_t *base, uint8_t *content)
{
    double least = 1e-14, most = 1;
    for (unsigned i = 0; i < STEP_TRIALS; i++) {
        const double step = sqrt(least * most);
        const size_t changed = make_values(dtype, step, STEP_SAMPLE, base, content);
        *((double)changed < changed_share * STEP_SAMPLE ? &least : &most) = step;
    }
    return most;
}

int delta_pair_make(delta_pair *pair, lmc_dtype dtype, double changed_share, size_t nbytes)
{
    const size_t count = (size_t)2 << 20;
    const unsigned width = lmc_dtype_nbits(dtype) / 8;
    memset(pair, 0, sizeof *pair);
    snprintf(pair->name, sizeof pair->name, "synthetic %s", lmc_dtype_name(dtype));
    pair->nbytes = count * width;
    pair->tensors = calloc(1, sizeof *pair->tensors);
    if (!pair->tensors || allocate(pair, nbytes) != 0)
        return -1;
    const double step = find_step(dtype, changed_share, pair->base, pair->content);
    make_values(dtype, step, count, pair->base, pair->content);
    pair->tensor_count = 1;
    set_unit(&pair->tensors[0], 0, pair->nbytes, dtype, 1);
    complete_pair(pair);
    return 0;
}

void delta_pair_free(delta_pair *pair)
{
    free(pair->content);
    free(pair->base);
    free(pair->tensors);
}
