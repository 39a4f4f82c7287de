/* index.c - writes, reads and verifies tails: the block index, or a content hash, and the check. */
#include "codec/frame/index.h"

uint64_t lmc_tail_hash(const lmc_kernels *kernels, const lmc_info *info, const uint8_t *head,
                       const uint8_t *tail)
{
    return kernels->hash(tail, (size_t)lmc_tail_body_nbytes(info), kernels->hash(head, info->head_nbytes, 0));
}

static void write_index(const lmc_info *info, const lmc_block_entry *entries, uint64_t entry_count,
                        uint8_t *dst)
{
    for (uint64_t i = 0; i < entry_count; i++) {
        lmc_store32(dst, entries[i].stored_nbytes);
        lmc_store64(dst + 4, entries[i].content_hash);
        if (info->mode == LMC_FRAME_DELTA)
            lmc_store64(dst + LMC_FMT_INDEX_ENTRY_NBYTES, entries[i].base_hash);
        dst += lmc_entry_nbytes(info);
    }
}

void lmc_tail_write(const lmc_info *info, const uint8_t *head, const lmc_block_entry *entries,
                    uint64_t entry_count, uint8_t *dst)
{
    if (lmc_is_coded(info))
        write_index(info, entries, entry_count, dst);
    else
        lmc_store64(dst, lmc_content_hash(entries, entry_count));
    lmc_store64(dst + lmc_tail_body_nbytes(info), lmc_tail_hash(lmc_kernels_get(), info, head, dst));
}

lmc_status lmc_tail_check(const lmc_info *info, const uint8_t *head, const uint8_t *tail, lmc_diag *diag)
{
    if (lmc_tail_hash(lmc_kernels_get(), info, head, tail) == lmc_load64(tail + lmc_tail_body_nbytes(info)))
        return LMC_OK;
    return lmc_fail(diag, LMC_ERR_CHECKSUM, 0, "frame: head and index do not match their checksum");
}

lmc_status lmc_index_read(const lmc_info *info, const uint8_t *tail, uint64_t frame_nbytes,
                          lmc_block_entry *entries, uint64_t *offsets, lmc_diag *diag)
{
    const uint64_t tail_offset = frame_nbytes - info->tail_nbytes;
    const size_t entry_nbytes = lmc_entry_nbytes(info);
    uint64_t offset = info->head_nbytes;
    for (uint64_t i = 0; i < info->block_count; i++) {
        const uint8_t *const entry = tail + i * entry_nbytes;
        const uint32_t stored_nbytes = lmc_load32(entry);
        if (stored_nbytes == 0 || stored_nbytes > lmc_block_content_nbytes(info, i) + 1)
            return lmc_corrupt(diag, tail_offset + i * entry_nbytes, "index: block %llu has %u bytes",
                               (unsigned long long)i, stored_nbytes);
        entries[i] = (lmc_block_entry){.stored_nbytes = stored_nbytes, .content_hash = lmc_load64(entry + 4)};
        if (info->mode == LMC_FRAME_DELTA)
            entries[i].base_hash = lmc_load64(entry + LMC_FMT_INDEX_ENTRY_NBYTES);
        offsets[i] = offset;
        offset += stored_nbytes;
    }
    offsets[info->block_count] = offset;
    if (offset != tail_offset)
        return lmc_corrupt(diag, tail_offset, "index: the blocks are not as long as the frame");
    return LMC_OK;
}
