/* plan_section.c - writes the plan section of a coded frame, and reads and checks it. */
#include "codec/plain/plan_section.h"

unsigned lmc_coding_plane_count(unsigned element_nbytes, const lmc_split *split)
{
    const unsigned lower_count = element_nbytes == 1 ? 0 : element_nbytes - 2;
    return LMC_PLANE_LOW + (split->low_nbits > 0) + lower_count;
}

size_t lmc_coding_write(const lmc_coding *coding, const lmc_code_shape *const *shapes, uint8_t *dst)
{
    lmc_writer w = {dst, dst + lmc_section_nbytes_max(coding->offsets.column_count)};
    const unsigned transform = (coding->split.rotation ? LMC_FMT_TRANSFORM_ROTATE : 0) |
                               (coding->has_mask ? LMC_FMT_TRANSFORM_MASK : 0) |
                               (coding->offsets.column_count > 0 ? LMC_FMT_TRANSFORM_OFFSETS : 0);
    lmc_write_n(&w, transform, 1);
    lmc_write_n(&w, coding->split.low_nbits, 1);
    lmc_write_n(&w, coding->split.offset, 2);
    lmc_write_n(&w, coding->split.window_start, 2);
    if (coding->has_mask)
        lmc_write_n(&w, coding->mask_value, coding->element_nbytes);
    if (coding->offsets.column_count > 0)
        lmc_offsets_write(&coding->offsets, &w);
    for (unsigned i = 0; i < coding->plane_count; i++) {
        const int is_rans = i == LMC_PLANE_SYMBOLS && coding->rans;
        lmc_write_n(&w,
                    is_rans            ? LMC_FMT_PLANE_RANS
                    : coding->table[i] ? LMC_FMT_PLANE_TABLE
                                       : LMC_FMT_PLANE_RAW,
                    1);
        if (is_rans)
            lmc_rans_table_write(coding->rans->frequency, &w);
        else if (coding->table[i])
            lmc_table_write(shapes[i], &w);
    }
    return (size_t)(w.next - dst);
}

static lmc_status check_split(const lmc_coding *coding, lmc_diag *diag)
{
    const lmc_split *const s = &coding->split;
    const int is_byte = coding->element_nbytes == 1;
    const unsigned low_min = is_byte ? 0 : LMC_FMT_LOW_NBITS_MIN_WIDE;
    const unsigned low_max = is_byte ? LMC_FMT_LOW_NBITS_MAX_BYTE : LMC_FMT_LOW_NBITS_MAX;
    if (s->low_nbits < low_min || s->low_nbits > low_max)
        return lmc_corrupt(diag, 1, "plan: a low plane of %u bits", s->low_nbits);
    const unsigned high_nbits = lmc_high_nbits(coding->element_nbytes);
    if (s->offset >> (high_nbits - 1) >> 1 != 0)
        return lmc_corrupt(diag, 2, "plan: the offset is wider than the high part");
    if (s->window_start >> (high_nbits - s->low_nbits) != 0)
        return lmc_corrupt(diag, 4, "plan: the window's start is wider than the symbol");
    return LMC_OK;
}

static lmc_status read_table(lmc_reader *reader, unsigned plane, lmc_table *table, lmc_rans *rans,
                             lmc_coding *coding, lmc_diag *diag)
{
    const unsigned kind = (unsigned)lmc_read_n(reader, 1);
    if (reader->failed)
        return lmc_corrupt(diag, 0, "plan: the tables are cut short");
    if (kind == LMC_FMT_PLANE_RAW)
        return LMC_OK;
    if (kind == LMC_FMT_PLANE_RANS) {
        if (plane != LMC_PLANE_SYMBOLS)
            return lmc_corrupt(diag, 0, "plan: a rANS table for plane %u", plane);
        if (!rans)
            return lmc_corrupt(diag, 0, "plan: a rANS table that the head does not announce");
        LMC_TRY(lmc_rans_table_read(reader, rans->frequency, diag));
        lmc_rans_set_slots(rans);
        coding->rans = rans;
        return LMC_OK;
    }
    if (kind != LMC_FMT_PLANE_TABLE)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 0, "plan: built-in table %u", kind);
    if (lmc_coding_plane_nbits(coding, plane) != 8)
        return lmc_corrupt(diag, 0, "plan: a table for a packed plane");
    coding->table[plane] = table;
    return lmc_table_read(reader, table, diag);
}

lmc_status lmc_coding_read(const uint8_t *section, size_t nbytes, unsigned element_nbytes, lmc_table *tables,
                           lmc_rans *rans, lmc_coding *coding, lmc_diag *diag)
{
    lmc_reader r = {section, section + nbytes, 0};
    memset(coding, 0, sizeof *coding);
    coding->element_nbytes = element_nbytes;
    const unsigned transform = (unsigned)lmc_read_n(&r, 1);
    coding->split.rotation = (transform & LMC_FMT_TRANSFORM_ROTATE) != 0;
    coding->split.low_nbits = (uint8_t)lmc_read_n(&r, 1);
    coding->split.offset = (uint16_t)lmc_read_n(&r, 2);
    coding->split.window_start = (uint16_t)lmc_read_n(&r, 2);
    if (r.failed)
        return lmc_corrupt(diag, 0, "plan: the section is cut short");
    if ((transform & ~(unsigned)LMC_FMT_TRANSFORM_KNOWN) != 0)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 0, "plan: transform 0x%02x", transform);
    LMC_TRY(check_split(coding, diag));
    coding->has_mask = (transform & LMC_FMT_TRANSFORM_MASK) != 0;
    if (coding->has_mask)
        coding->mask_value = lmc_read_n(&r, element_nbytes);
    if ((transform & LMC_FMT_TRANSFORM_OFFSETS) != 0) {
        const uint64_t offset = (uint64_t)(r.next - section);
        const int has_sign_at_bottom = coding->split.rotation && element_nbytes <= 2;
        const lmc_status status = lmc_offsets_read(&r, lmc_high_nbits(coding->element_nbytes),
                                                   has_sign_at_bottom, &coding->offsets, diag);
        LMC_TRY(lmc_diag_shift(diag, status, offset));
    }
    coding->plane_count = lmc_coding_plane_count(element_nbytes, &coding->split);
    for (unsigned i = 0; i < coding->plane_count; i++) {
        const uint64_t offset = (uint64_t)(r.next - section);
        LMC_TRY(lmc_diag_shift(diag, read_table(&r, i, &tables[i], rans, coding, diag), offset));
    }
    if (lmc_reader_left(&r) != 0)
        return lmc_corrupt(diag, (uint64_t)(r.next - section), "plan: bytes after its end");
    return LMC_OK;
}
