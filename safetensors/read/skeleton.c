/*
 * skeleton.c - of a plain file, the gaps between its tensors; of an archive, the pieces.
 */
#include "safetensors/read/skeleton.h"

#include <string.h>

static lmc_status read_pieces(const lmc_st_file *file, uint64_t offset, size_t nbytes, unsigned char *dst,
                              lmc_st_diag *diag)
{
    st_skeleton skeleton;
    lmc_status status = st_skeleton_open(&skeleton, file, diag);
    for (size_t done = 0; done < nbytes && status == LMC_OK;) {
        const unsigned char *bytes = NULL;
        size_t got = nbytes - done;
        status = st_skeleton_get(&skeleton, offset + done, &bytes, &got, diag);
        if (status == LMC_OK)
            memcpy(dst + done, bytes, got);
        done += got;
    }
    st_skeleton_close(&skeleton);
    return status;
}

/* The first tensor, or their number, before which more than `offset` bytes of the skeleton stand. */
static size_t find_gap(const lmc_st_file *file, uint64_t offset)
{
    size_t begin = 0;
    size_t end = file->header.tensor_count;
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        if (st_skeleton_before(file, middle) <= offset)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

static lmc_status read_gaps(const lmc_st_file *file, uint64_t offset, size_t nbytes, unsigned char *dst,
                            lmc_st_diag *diag)
{
    const st_header *const header = &file->header;
    for (size_t gap = find_gap(file, offset); nbytes > 0; gap++) {
        const uint64_t left = st_skeleton_before(file, gap) - offset;
        const size_t part = left < nbytes ? (size_t)left : nbytes;
        const uint64_t data_nbytes =
            gap < header->tensor_count ? header->tensors[gap].begin : header->data_nbytes;
        if (part > 0)
            ST_TRY(os_input_read(&file->input, offset + data_nbytes, dst, part, diag));
        offset += part;
        dst += part;
        nbytes -= part;
    }
    return LMC_OK;
}

lmc_status st_read_skeleton(const lmc_st_file *file, uint64_t offset, size_t nbytes, void *dst,
                            lmc_st_diag *diag)
{
    if (offset > file->skeleton.nbytes || nbytes > file->skeleton.nbytes - offset)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                       "the range leaves what stands between the tensors");
    return file->is_archive ? read_pieces(file, offset, nbytes, dst, diag)
                            : read_gaps(file, offset, nbytes, dst, diag);
}
