/*
 * damage.c - collects the damage of a tensor and of a file, and lists damaged blocks in a sentence.
 */
#include "safetensors/restore/damage.h"

#include <stdio.h>
#include <string.h>

/* Longer lists of blocks end with "...". */
#define LIST_NBYTES 160

int st_is_damage(lmc_status status)
{
    return status == LMC_ERR_TRUNCATED || status == LMC_ERR_CORRUPT || status == LMC_ERR_CHECKSUM ||
           status == LMC_ERR_UNSUPPORTED || status == LMC_ERR_BASE || status == LMC_ERR_LIMIT;
}

lmc_status st_damage_note_block(st_damage *damage, const lmc_allocator *memory, uint64_t block,
                                uint64_t block_count, const lmc_st_diag *diag)
{
    if (damage->is_damaged && !damage->blocks)
        return LMC_OK;
    if (!damage->blocks) {
        damage->blocks = st_allocate_zeroed(memory, block_count / 8 + 1, 1);
        damage->block_count = block_count;
        damage->first_block = UINT64_MAX;
        if (!damage->blocks)
            return LMC_ERR_NOMEM;
    }
    damage->is_damaged = 1;
    damage->blocks[block / 8] |= (unsigned char)(1u << block % 8);
    if (block < damage->first_block) {
        damage->first_block = block;
        damage->diag = *diag;
    }
    return LMC_OK;
}

void st_damage_note(st_damage *damage, const lmc_st_diag *diag)
{
    if (!damage->is_damaged) {
        damage->is_damaged = 1;
        damage->diag = *diag;
    }
}

static int is_bad(const st_damage *damage, uint64_t block)
{
    return block < damage->block_count && (damage->blocks[block / 8] >> block % 8 & 1) != 0;
}

void st_damage_describe(st_damage *damage)
{
    char list[LIST_NBYTES + 8] = ""; /* " 3, 7-9" */
    size_t length = 0;
    uint64_t count = 0;
    if (!damage->blocks)
        return;
    for (uint64_t block = 0; block < damage->block_count; block++) {
        if (!is_bad(damage, block))
            continue;
        const unsigned long long first = block;
        while (is_bad(damage, block + 1))
            block++;
        char piece[48];
        count += block - first + 1;
        snprintf(piece, sizeof piece, block == first ? "%s %llu" : "%s %llu-%llu", length == 0 ? "" : ",",
                 first, (unsigned long long)block);
        if (length + strlen(piece) + sizeof(", ...") <= LIST_NBYTES) {
            length += (size_t)snprintf(list + length, LIST_NBYTES - length, "%s", piece);
        } else if (length < LIST_NBYTES) {
            snprintf(list + length, LIST_NBYTES - length, ", ...");
            length = LIST_NBYTES;
        }
    }
    const size_t text_length = strlen(damage->diag.text);
    snprintf(damage->diag.text + text_length, sizeof damage->diag.text - text_length,
             "; %s: %llu of %llu blocks, number%s%s",
             damage->diag.status == LMC_ERR_BASE ? "not decoded" : "damaged", (unsigned long long)count,
             (unsigned long long)damage->block_count, count == 1 ? "" : "s", list);
}

void st_damage_free(st_damage *damage, const lmc_allocator *memory)
{
    st_release(memory, damage->blocks);
    memset(damage, 0, sizeof *damage);
}

lmc_status st_damage_log_init(st_damage_log *log, const lmc_allocator *memory, size_t tensor_count,
                              lmc_st_diag *diag)
{
    memset(log, 0, sizeof *log);
    log->is_lost = st_allocate_zeroed(memory, tensor_count + 1, 1);
    return log->is_lost ? LMC_OK : st_fail_nomem(diag);
}

void st_damage_log_free(st_damage_log *log, const lmc_allocator *memory)
{
    st_release(memory, log->is_lost);
    memset(log, 0, sizeof *log);
}

void st_damage_log_add(st_damage_log *log, size_t index, const st_damage *damage)
{
    if (log->lost_count == 0)
        log->first = damage->diag;
    log->is_lost[index] = 1;
    log->lost_count++;
}
