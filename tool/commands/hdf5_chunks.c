/*
 * hdf5_chunks.c - commands/hdf5_dataset.h: all chunks of a dataset. Where LMC is among the filters each chunk is found
 * by its place, as it is when somebody reads it. HDF5 1.14 tells places and filter masks of all chunks in one walk.
 * Before, it tells them by number, for which it steps over all chunks before (20 to 60 nanoseconds each). Where the
 * dataset has few more places than chunks, each place is tried.
 */
#include "safetensors/common/common.h"
#include "tool/child.h"
#include "tool/commands/hdf5_dataset.h"

#include <lmc_h5.h>
#include <stdlib.h>
#include <string.h>

#define REPORT_EVERY 1024 /* chunks */

void hdf5_count_chunk(hdf5_inspection *it, unsigned filter_mask)
{
    for (unsigned i = 0; i < it->found.filter_count; i++)
        it->filters[i].skipped_count += filter_mask >> i & 1;
    if (it->found.examined_count++ % REPORT_EVERY == 0)
        cli_child_goes_on();
}

static int has_lmc(const hdf5_inspection *it)
{
    for (unsigned i = 0; i < it->found.filter_count; i++)
        if (it->filters[i].id == LMC_H5_FILTER_ID)
            return 1;
    return 0;
}

/* ---- by place ---- */

#define PLACES_PER_CHUNK 4 /* that are tried at most: an empty one takes about a microsecond */

/* 1 if the dataset has at most PLACES_PER_CHUNK places for each chunk and `more`. */
static int has_few_places(const hdf5_dataset *found, uint64_t more)
{
    uint64_t places = 1;
    uint64_t most = 0;
    for (int i = 0; i < found->rank; i++) {
        const uint64_t edge = found->chunk_shape[i];
        if (edge == 0 ||
            st_multiply_overflows(places, found->shape[i] / edge + (found->shape[i] % edge != 0), &places))
            return 0;
    }
    return !st_multiply_overflows(found->chunk_count, PLACES_PER_CHUNK, &most) &&
           !st_add_overflows(most, more, &most) && places <= most;
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

/* Empty places do not count as progress: cli_child_goes_on() is called for chunks alone. */
static void look_by_place(hdf5_inspection *it)
{
    hsize_t offset[HDF5_RANK_MAX] = {0};
    do {
        hdf5_look_at_chunk(it, offset);
    } while (step(&it->found, offset));
}

#if H5_VERSION_GE(1, 14, 0)

/* ---- in one walk ---- */

/* H5D_chunk_iter_op_t */
static int take_mask(const hsize_t *offset, unsigned filter_mask, haddr_t address, hsize_t nbytes, void *user)
{
    (void)offset, (void)address, (void)nbytes;
    hdf5_count_chunk(user, filter_mask);
    return H5_ITER_CONT;
}

/* Places of chunks. They are collected first: libhdf5 is not asked for a chunk while it walks. */
typedef struct places {
    int rank;
    hsize_t *offsets; /* rank of them for each */
    size_t count;
    size_t capacity;
} places;

/* H5D_chunk_iter_op_t */
static int take_place(const hsize_t *offset, unsigned filter_mask, haddr_t address, hsize_t nbytes,
                      void *user)
{
    places *const all = user;
    (void)filter_mask, (void)address, (void)nbytes;
    if (all->count == all->capacity) {
        const size_t capacity = 2 * all->capacity + 256;
        hsize_t *const offsets = realloc(all->offsets, capacity * (size_t)all->rank * sizeof(*offsets));
        if (offsets == NULL)
            return H5_ITER_ERROR;
        all->offsets = offsets;
        all->capacity = capacity;
    }
    memcpy(all->offsets + all->count * (size_t)all->rank, offset, (size_t)all->rank * sizeof(*offset));
    all->count++;
    return H5_ITER_CONT;
}

static int look_at_masks(hdf5_inspection *it)
{
    return it->hdf5->H5Dchunk_iter(it->dataset, H5P_DEFAULT, take_mask, it) >= 0;
}

static int look_in_turn(hdf5_inspection *it)
{
    places all = {it->found.rank > 0 ? it->found.rank : 1, NULL, 0, 0};
    if (has_few_places(&it->found, 0)) { /* saves the memory for those of very many chunks */
        look_by_place(it);
        return 1;
    }
    const int is_right = it->hdf5->H5Dchunk_iter(it->dataset, H5P_DEFAULT, take_place, &all) >= 0;
    for (size_t i = 0; i < all.count && is_right; i++)
        hdf5_look_at_chunk(it, all.offsets + i * (size_t)all.rank);
    free(all.offsets);
    return is_right;
}

#else

#define STEPS_MAX 4000000u   /* a fraction of a second */
#define MORE_PLACES 1000000u /* about a second */

/* ---- by number ---- */

/* Chunks that can be told by number in STEPS_MAX. */
static uint64_t affordable_count(uint64_t count)
{
    const uint64_t affordable = STEPS_MAX / (count / 2 + 1) + 1;
    return count <= affordable ? count : affordable;
}

/* All chunks if that can be afforded, else as many as can, spread evenly. */
static int look_by_number(hdf5_inspection *it)
{
    const uint64_t count = it->found.chunk_count;
    const uint64_t look_count = affordable_count(count);
    const int is_read = has_lmc(it);
    for (uint64_t i = 0; i < look_count; i++) {
        const double spread = (double)i * ((double)count / (double)look_count);
        hsize_t offset[HDF5_RANK_MAX + 1];
        unsigned filter_mask = 0;
        haddr_t address;
        hsize_t nbytes;
        if (it->hdf5->H5Dget_chunk_info(it->dataset, it->space, look_count == count ? i : (uint64_t)spread,
                                        offset, &filter_mask, &address, &nbytes) < 0)
            return 0;
        if (!is_read)
            hdf5_count_chunk(it, filter_mask);
        else
            hdf5_look_at_chunk(it, offset);
    }
    return 1;
}

static int look_at_masks(hdf5_inspection *it)
{
    return look_by_number(it);
}

static int look_in_turn(hdf5_inspection *it)
{
    const int is_slow = affordable_count(it->found.chunk_count) < it->found.chunk_count;
    if (!is_slow || !has_few_places(&it->found, MORE_PLACES))
        return look_by_number(it);
    look_by_place(it);
    return 1;
}

#endif

int hdf5_look_at_chunks(hdf5_inspection *it)
{
    if (has_lmc(it))
        return look_in_turn(it);
    const int is_right = look_at_masks(it);
    it->found.unknown_size_count = it->found.examined_count;
    return is_right;
}
