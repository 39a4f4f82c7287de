/*
 * cli_hdf5_chunks.c - cli_hdf5_dataset.h: which chunks have gone without a filter. HDF5 1.14 tells that of all chunks
 * in one walk. Before, it is asked for one chunk at a time, and steps over all chunks before it to find it (20 to 60
 * nanoseconds each); it finds a chunk by its place at once, but then tells its size only.
 */
#include "cli_child.h"
#include "cli_hdf5_dataset.h"
#include "st_base.h"

#include <lmc_h5.h>
#include <stdlib.h>

#define REPORT_EVERY 1024 /* chunks */

static void take_chunk(hdf5_inspection *it, unsigned filter_mask)
{
    for (unsigned i = 0; i < it->found.filter_count; i++) {
        it->filters[i].skipped_count += filter_mask >> i & 1;
    }
    if (it->found.examined_count++ % REPORT_EVERY == 0) {
        cli_child_goes_on();
    }
}

#if H5_VERSION_GE(1, 14, 0)

/* H5D_chunk_iter_op_t */
static int take_next(const hsize_t *offset, unsigned filter_mask, haddr_t address, hsize_t nbytes, void *user)
{
    (void)offset, (void)address, (void)nbytes;
    take_chunk(user, filter_mask);
    return H5_ITER_CONT;
}

int hdf5_look_at_chunks(hdf5_inspection *it)
{
    return it->hdf5->H5Dchunk_iter(it->dataset, H5P_DEFAULT, take_next, it) >= 0;
}

#else

#define STEPS_MAX 4000000u /* a fraction of a second */

/* ---- by number ---- */

/* All chunks if that takes STEPS_MAX at most, else as many as that allows, spread evenly. */
static int look_by_number(hdf5_inspection *it)
{
    const uint64_t count = it->found.chunk_count;
    const uint64_t affordable = STEPS_MAX / (count / 2 + 1) + 1;
    const uint64_t look_count = count <= affordable ? count : affordable;
    for (uint64_t i = 0; i < look_count; i++) {
        const double spread = (double)i * ((double)count / (double)look_count);
        hsize_t offset[HDF5_RANK_MAX + 1];
        unsigned filter_mask = 0;
        haddr_t address;
        hsize_t nbytes;
        if (it->hdf5->H5Dget_chunk_info(it->dataset, it->space, look_count == count ? i : (uint64_t)spread,
                                        offset, &filter_mask, &address, &nbytes) < 0) {
            return 0;
        }
        take_chunk(it, filter_mask);
    }
    return 1;
}

/* ---- by place ---- */

/* Finds the size that a chunk has when LMC skipped it and nothing else; 0 if other filters make that uncertain. */
static uint64_t size_without_lmc(const hdf5_inspection *it)
{
    uint64_t nbytes = it->item_nbytes;
    uint64_t checksum_nbytes = 0;
    int has_lmc = 0;
    for (int i = 0; i < it->found.rank; i++) {
        if (!st_multiply(nbytes, it->found.chunk_shape[i], &nbytes)) {
            return 0;
        }
    }
    for (unsigned i = 0; i < it->found.filter_count; i++) {
        switch (it->filters[i].id) {
        case LMC_H5_FILTER_ID: has_lmc = 1; break;
        case H5Z_FILTER_SHUFFLE: break;
        case H5Z_FILTER_FLETCHER32: checksum_nbytes += 4; break;
        default: return 0;
        }
    }
    return has_lmc && st_add(nbytes, checksum_nbytes, &nbytes) ? nbytes : 0;
}

/* 1 if every place of the dataset has a chunk. */
static int is_dense(const hdf5_dataset *found)
{
    uint64_t places = 1;
    for (int i = 0; i < found->rank; i++) {
        const uint64_t edge = found->chunk_shape[i];
        if (edge == 0 ||
            !st_multiply(places, found->shape[i] / edge + (found->shape[i] % edge != 0), &places)) {
            return 0;
        }
    }
    return places == found->chunk_count;
}

/* To the next place, as an odometer. Returns 0 after the last one. */
static int step(const hdf5_dataset *found, hsize_t *offset)
{
    for (int i = found->rank; i-- > 0;) {
        if (found->shape[i] - offset[i] > found->chunk_shape[i]) {
            offset[i] += found->chunk_shape[i];
            return 1;
        }
        offset[i] = 0;
    }
    return 0;
}

/* A chunk with another size than plain ones have was coded. One with theirs is read to see how it came to be. */
static int look_by_place(hdf5_inspection *it, uint64_t plain_nbytes)
{
    hsize_t offset[HDF5_RANK_MAX] = {0};
    void *chunk = NULL;
    int is_right = 1;
    do {
        hsize_t nbytes = 0;
        uint32_t filter_mask = 0;
        is_right = it->hdf5->H5Dget_chunk_storage_size(it->dataset, offset, &nbytes) >= 0;
        if (is_right && nbytes == plain_nbytes) {
            chunk = chunk == NULL ? malloc((size_t)plain_nbytes) : chunk;
            if (chunk == NULL) {
                continue;
            }
            is_right = it->hdf5->H5Dread_chunk(it->dataset, H5P_DEFAULT, offset, &filter_mask, chunk) >= 0;
        }
        take_chunk(it, filter_mask);
    } while (is_right && step(&it->found, offset));
    free(chunk);
    return is_right;
}

int hdf5_look_at_chunks(hdf5_inspection *it)
{
    const uint64_t count = it->found.chunk_count;
    const uint64_t plain_nbytes = count / 2 > STEPS_MAX / count ? size_without_lmc(it) : 0;
    return plain_nbytes != 0 && is_dense(&it->found) ? look_by_place(it, plain_nbytes) : look_by_number(it);
}

#endif
