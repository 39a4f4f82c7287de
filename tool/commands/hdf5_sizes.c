/*
 * hdf5_sizes.c - commands/hdf5_dataset.h: how many bytes a chunk has once the filters are undone. HDF5 before 2.2 takes
 * it for granted that these are as many as the dataset's chunks have, and reads beyond its memory where they are
 * fewer. So this must be known before a chunk of strangers is read. No filter is run to know it.
 */
#include "safetensors/common/common.h"
#include "tool/child.h"
#include "tool/commands/hdf5_dataset.h"

#include <lmc_h5.h>
#include <stdlib.h>

#define CHECKSUM_NBYTES 4 /* of HDF5's fletcher32 */

typedef struct chunk {
    hsize_t offset[HDF5_RANK_MAX +
                   1]; /* 0 behind the dataset's rank: the chunks of a forged file may have more */
    hsize_t nbytes;    /* in the file */
    unsigned filter_mask;
} chunk;

typedef enum verdict { RIGHT, WRONG, REFUSED, UNKNOWN } verdict;

/* ---- bytes ---- */

static int make_room(hdf5_inspection *it, uint64_t nbytes)
{
    if (nbytes > it->file_nbytes || nbytes > SIZE_MAX)
        return 0;
    if (it->stored == NULL || nbytes > it->stored_capacity) {
        free(it->stored);
        it->stored = malloc((size_t)nbytes);
        it->stored_capacity = it->stored != NULL ? (size_t)nbytes : 0;
    }
    return it->stored != NULL;
}

/* Reads what is stored of a chunk, and its filter mask, into it->stored. Returns 0 if it cannot be read. */
static int read_chunk(hdf5_inspection *it, chunk *chunk)
{
    uint32_t filter_mask = 0;
    if (!make_room(it, chunk->nbytes))
        return 0;
#if H5_VERSION_GE(2, 0, 0)
    size_t capacity = it->stored_capacity;
    const herr_t status = it->hdf5->H5Dread_chunk2(it->dataset, H5P_DEFAULT, chunk->offset, &filter_mask,
                                                   it->stored, &capacity);
#else
    const herr_t status =
        it->hdf5->H5Dread_chunk(it->dataset, H5P_DEFAULT, chunk->offset, &filter_mask, it->stored);
#endif
    if (status >= 0)
        chunk->filter_mask = filter_mask;
    return status >= 0;
}

/* ---- sizes ---- */

/* Bytes of the dataset's chunks without filters; 0 if that is not known. */
static uint64_t whole_nbytes(const hdf5_inspection *it)
{
    uint64_t nbytes = it->is_item_fixed ? it->item_nbytes : 0;
    for (int i = 0; i < it->found.rank; i++)
        if (st_multiply_overflows(nbytes, it->found.chunk_shape[i], &nbytes))
            return 0;
    return nbytes;
}

/* Chunks that reach beyond the dataset have no filters where that was asked for. */
static int is_unfiltered(const hdf5_dataset *found, const hsize_t *offset)
{
    for (int i = 0; i < found->rank; i++)
        if (found->shape[i] < offset[i] || found->shape[i] - offset[i] < found->chunk_shape[i])
            return found->leaves_edges;
    return 0;
}

static verdict undo_lmc(const hdf5_inspection *it, uint64_t *nbytes)
{
#ifdef LMC_PLUGIN_DIR_FROM_BIN /* built with the filter */
    size_t decoded_nbytes = 0;
    const lmc_status status = lmc_h5_chunk_nbytes(it->stored, (size_t)*nbytes, &decoded_nbytes);
    *nbytes = decoded_nbytes;
    return status == LMC_OK && decoded_nbytes > 0 ? RIGHT : REFUSED;
#else
    (void)it, (void)nbytes;
    return UNKNOWN;
#endif
}

/* Follows the size of a chunk in it->stored through the filters, the last one first. */
static verdict judge(const hdf5_inspection *it, const chunk *chunk)
{
    const uint64_t wanted_nbytes = whole_nbytes(it);
    uint64_t nbytes = chunk->nbytes;
    int is_stored = 1; /* these are the first bytes in it->stored */
    unsigned left = is_unfiltered(&it->found, chunk->offset) ? 0 : it->found.filter_count;
    verdict found = wanted_nbytes != 0 ? RIGHT : UNKNOWN;
    while (left-- > 0 && found == RIGHT) {
        const int id = it->filters[left].id;
        if ((chunk->filter_mask >> left & 1) != 0)
            continue;
        if (id == H5Z_FILTER_FLETCHER32) {
            found = nbytes < CHECKSUM_NBYTES ? WRONG : RIGHT; /* HDF5 takes them off all the same */
            nbytes -= CHECKSUM_NBYTES;
        } else if (id == LMC_H5_FILTER_ID && is_stored) {
            found = undo_lmc(it, &nbytes);
            is_stored = 0;
        } else if (id == H5Z_FILTER_SHUFFLE) {
            is_stored = 0;
        } else {
            found = UNKNOWN;
        }
    }
    return found == RIGHT && nbytes != wanted_nbytes ? WRONG : found;
}

void hdf5_look_at_chunk(hdf5_inspection *it, const hsize_t *offset)
{
    chunk chunk = {{0}, 0, 0};
    verdict found = UNKNOWN;
    for (int i = 0; i < it->found.rank; i++)
        chunk.offset[i] = offset[i];
    /* by its place, as a reader's libhdf5 finds it, which in a forged file may be another one than it lists */
    if (it->hdf5->H5Dget_chunk_storage_size(it->dataset, chunk.offset, &chunk.nbytes) < 0 ||
        chunk.nbytes == 0)
        return; /* versions of HDF5 differ in what they say of an empty place */
    if (read_chunk(it, &chunk))
        found = judge(it, &chunk);
    it->found.wrong_size_count += found == WRONG;
    it->found.unknown_size_count += found == UNKNOWN;
    hdf5_count_chunk(it, chunk.filter_mask);
    cli_child_goes_on(); /* a chunk may be large */
}
