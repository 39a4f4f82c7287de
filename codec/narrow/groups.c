/* groups.c - writes scales and palettes of a block's groups as planes of bytes, and reads and checks them. */
#include "codec/narrow/groups.h"

#include "codec/bitset/bitset.h"
#include "codec/plain/plane.h"

/* ---- writing ---- */

/* Appends a plane of n bytes with its mode. Returns 0 if there is no room. */
static int write_plane(const lmc_kernels *kernels, lmc_scratch *scratch, const uint8_t *plane, size_t n,
                       lmc_writer *writer)
{
    if (lmc_writer_left(writer) < 2)
        return 0;
    uint8_t *const mode = writer->next++;
    const size_t nbytes = lmc_plane_encode(&(lmc_plane_coder){.kernels = kernels, .scratch = scratch}, plane,
                                           n, writer->next, lmc_writer_left(writer), mode);
    writer->next += nbytes;
    return nbytes > 0;
}

int lmc_groups_write(const lmc_narrow *narrow, const lmc_kernels *kernels, lmc_scratch *scratch, size_t count,
                     lmc_writer *writer)
{
    const int has_scales = narrow->form == LMC_FMT_NARROW_PRODUCT;
    const unsigned nbytes = has_scales ? sizeof(float) : narrow->wide_nbytes;
    const uint64_t in_row = lmc_groups_in_row(narrow);
    size_t new_count = 0, value_count = 0;
    memset(scratch->mask, 0, lmc_bitset_words(count) * sizeof *scratch->mask);
    for (size_t i = 0; i < count; i++) {
        const lmc_group *const group = &scratch->groups[i];
        const lmc_group *const above = i >= in_row ? group - in_row : NULL;
        if (above && has_scales && group->scale == above->scale)
            continue;
        if (above && !has_scales && group->value_count == above->value_count &&
            memcmp(scratch->palettes + group->value_first * (size_t)nbytes,
                   scratch->palettes + above->value_first * (size_t)nbytes,
                   group->value_count * (size_t)nbytes) == 0)
            continue;
        scratch->mask[i / 64] |= UINT64_C(1) << i % 64;
        scratch->exceptions[new_count++] = (uint8_t)(group->value_count - 1);
        const uint8_t *const values = has_scales ? (const uint8_t *)&group->scale
                                                 : scratch->palettes + (size_t)group->value_first * nbytes;
        const size_t n = has_scales ? 1 : group->value_count;
        for (unsigned j = 0; j < nbytes; j++) /* the most significant bytes are the first plane */
            for (size_t k = 0; k < n; k++)
                scratch->plane[j][value_count + k] = values[k * nbytes + nbytes - 1 - j];
        value_count += n;
    }
    const size_t bitset_nbytes =
        lmc_bitset_encode(kernels, scratch, scratch->mask, count, writer->next, lmc_writer_left(writer));
    writer->next += bitset_nbytes;
    int fits = bitset_nbytes > 0;
    if (!has_scales) {
        memcpy(scratch->values, scratch->exceptions, new_count); /* coding a plane may use `exceptions` */
        fits = fits && write_plane(kernels, scratch, scratch->values, new_count, writer);
    }
    for (unsigned j = 0; fits && j < nbytes; j++)
        fits = write_plane(kernels, scratch, scratch->plane[j], value_count, writer);
    return fits;
}

/* ---- reading ---- */

static lmc_status read_plane(const lmc_kernels *kernels, lmc_scratch *scratch, lmc_source *source, size_t n,
                             uint8_t *buffer, const uint8_t **plane, lmc_diag *diag)
{
    const lmc_plane_coder coder = {.kernels = kernels, .scratch = scratch}; /* no code: CODED is corrupt */
    const unsigned mode = (unsigned)lmc_read_n(&source->reader, 1);
    if (source->reader.failed)
        return lmc_corrupt(diag, 0, "block: its groups are cut short");
    return lmc_plane_decode(&coder, source, mode, n, 8, buffer, plane, diag);
}

/* Reads n integers of nbytes each to dst. */
static lmc_status read_integers(const lmc_kernels *kernels, lmc_scratch *scratch, lmc_source *source,
                                size_t n, unsigned nbytes, uint8_t *dst, lmc_diag *diag)
{
    for (unsigned j = nbytes; j-- > 0;) {
        const uint8_t *plane;
        LMC_TRY(read_plane(kernels, scratch, source, n, scratch->plane[0], &plane, diag));
        for (size_t i = 0; i < n; i++)
            dst[i * nbytes + j] = plane[i];
    }
    return LMC_OK;
}

/* Reads palettes; counts[i]: the values of palette i, less 1. */
static lmc_status read_palettes(const lmc_narrow *narrow, const lmc_kernels *kernels, lmc_scratch *scratch,
                                size_t new_count, size_t n, lmc_source *source, uint8_t *counts,
                                lmc_diag *diag)
{
    const uint8_t *plane;
    size_t value_count = 0;
    LMC_TRY(read_plane(kernels, scratch, source, new_count, scratch->plane[0], &plane, diag));
    memcpy(counts, plane, new_count);
    for (size_t i = 0; i < new_count; i++)
        value_count += counts[i] + (size_t)1;
    if (value_count > n)
        return lmc_corrupt(diag, 0, "block: palettes of %zu values for %zu elements", value_count, n);
    return read_integers(kernels, scratch, source, value_count, narrow->wide_nbytes, scratch->palettes, diag);
}

lmc_status lmc_groups_read(const lmc_narrow *narrow, const lmc_kernels *kernels, lmc_scratch *scratch,
                           size_t count, size_t n, lmc_source *source, lmc_diag *diag)
{
    const int has_scales = narrow->form == LMC_FMT_NARROW_PRODUCT;
    const uint64_t in_row = lmc_groups_in_row(narrow);
    uint64_t *const is_new = scratch->mask;
    float *const scales = (float *)(void *)scratch->values;
    uint8_t *const counts = scratch->values;
    uint32_t value_first = 0;
    LMC_TRY(lmc_bitset_decode(kernels, scratch, &source->reader, count, is_new, diag));
    const size_t new_count = lmc_bitset_count(kernels, is_new, count);
    if (new_count == 0)
        return lmc_corrupt(diag, 0, "block: its first group is not new");
    if (has_scales)
        LMC_TRY(read_integers(kernels, scratch, source, new_count, sizeof *scales, scratch->values, diag));
    else
        LMC_TRY(read_palettes(narrow, kernels, scratch, new_count, n, source, counts, diag));
    for (size_t i = 0; has_scales && i < new_count; i++) {
        const uint32_t exponent = lmc_load32(&scales[i]) >> 23; /* with the sign */
        if (exponent < LMC_FMT_SCALE_EXPONENT_MIN || exponent > LMC_FMT_SCALE_EXPONENT_MAX)
            return lmc_corrupt(diag, 0, "block: scale %zu is out of range", i);
    }
    for (size_t i = 0, k = 0; i < count; i++) {
        lmc_group *const group = &scratch->groups[i];
        if (is_new[i / 64] >> i % 64 & 1) {
            const uint32_t value_count = has_scales ? 0 : counts[k] + UINT32_C(1);
            *group = (lmc_group){has_scales ? scales[k] : 0, value_first, value_count};
            value_first += value_count;
            k++;
        } else if (i >= in_row) {
            *group = group[-(ptrdiff_t)in_row];
        } else {
            return lmc_corrupt(diag, 0, "block: group %zu is not new, and there is none above", i);
        }
    }
    return LMC_OK;
}
