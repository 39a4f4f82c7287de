/* narrow.c - writes and checks the fields of the plan, finds the groups of elements, and widens them. */
#include "codec/narrow/narrow.h"

void lmc_narrow_set_form(lmc_narrow *narrow, unsigned form, unsigned wide_nbytes)
{
    memset(narrow, 0, sizeof *narrow);
    narrow->is_used = 1;
    narrow->form = (uint8_t)form;
    narrow->wide_nbytes = (uint8_t)wide_nbytes;
    narrow->element_nbytes = form < LMC_FMT_NARROW_F32_IN_F64 ? 2 : form == LMC_FMT_NARROW_F32_IN_F64 ? 4 : 1;
}

/* ---- factors ---- */

/* The number of a float of one byte, with a sign and so many bits of exponent and mantissa; no infinities, no NaN. */
static float small_float(unsigned number, unsigned mantissa_nbits, int least_exponent)
{
    const unsigned exponent = (number & 0x7f) >> mantissa_nbits;
    const unsigned mantissa = number & ((1u << mantissa_nbits) - 1);
    const int is_normal = exponent > 0;
    const float digits = (float)(mantissa + ((unsigned)is_normal << mantissa_nbits));
    float power = 1;
    for (int e = least_exponent + (is_normal ? (int)exponent - 1 : 0); e != 0; e += e < 0 ? 1 : -1)
        power *= e < 0 ? 0.5f : 2.0f;
    return number & 0x80 ? -(digits * power) : digits * power;
}

void lmc_narrow_set_factors(lmc_narrow *narrow, unsigned factor_kind)
{
    narrow->factor_kind = (uint8_t)factor_kind;
    for (unsigned i = 0; i < LMC_FACTOR_COUNT && factor_kind != LMC_FMT_FACTORS_LIST; i++)
        if (factor_kind == LMC_FMT_FACTORS_E4M3)
            narrow->factors[i] = small_float(i, 3, -9);
        else if (factor_kind == LMC_FMT_FACTORS_E5M2)
            narrow->factors[i] = small_float(i, 2, -16);
        else
            narrow->factors[i] = (float)(i < 128 ? (int)i : (int)i - 256);
    if (factor_kind == LMC_FMT_FACTORS_I8_ZEROS)
        narrow->factors[128] = -0.0f;
}

/* ---- fields of the plan ---- */

void lmc_narrow_write(const lmc_narrow *narrow, lmc_writer *writer)
{
    lmc_write_n(writer, narrow->form, 1);
    if (narrow->form == LMC_FMT_NARROW_PRODUCT) {
        lmc_write_n(writer, narrow->product_type, 1);
        lmc_write_n(writer, narrow->factor_kind, 1);
        if (narrow->factor_kind == LMC_FMT_FACTORS_LIST) {
            lmc_write_n(writer, narrow->listed_count - 1u, 1);
            lmc_write_span(writer, narrow->factors, narrow->listed_count * sizeof narrow->factors[0]);
        }
    }
    if (narrow->row_length > 0) {
        lmc_write_n(writer, narrow->row_length, 4);
        lmc_write_n(writer, narrow->group_length, 4);
    }
}

static lmc_status read_product(lmc_reader *reader, lmc_narrow *narrow, lmc_diag *diag)
{
    const unsigned product_type = (unsigned)lmc_read_n(reader, 1);
    const unsigned factor_kind = (unsigned)lmc_read_n(reader, 1);
    if (reader->failed)
        return lmc_corrupt(diag, 0, "plan: its narrow fields are cut short");
    if (product_type > LMC_FMT_PRODUCT_BF16)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 1, "plan: products of type %u", product_type);
    if (factor_kind > LMC_FMT_FACTORS_LIST)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 2, "plan: factors of kind %u", factor_kind);
    if (narrow->wide_nbytes != (product_type == LMC_FMT_PRODUCT_F32 ? 4 : 2))
        return lmc_corrupt(diag, 1, "plan: products of type %u in %u bytes", product_type,
                           narrow->wide_nbytes);
    narrow->product_type = (uint8_t)product_type;
    lmc_narrow_set_factors(narrow, factor_kind);
    if (factor_kind != LMC_FMT_FACTORS_LIST)
        return LMC_OK;
    narrow->listed_count = (uint16_t)(lmc_read_n(reader, 1) + 1);
    const uint8_t *const listed = lmc_read_span(reader, narrow->listed_count * sizeof narrow->factors[0]);
    if (!listed)
        return lmc_corrupt(diag, 3, "plan: its factors are cut short");
    memcpy(narrow->factors, listed, narrow->listed_count * sizeof narrow->factors[0]);
    for (unsigned i = 0; i < narrow->listed_count; i++) {
        const uint32_t magnitude = lmc_load32(listed + 4 * (size_t)i) & 0x7fffffff;
        const uint32_t exponent = magnitude >> 23; /* its limits keep products normal */
        if (magnitude != 0 &&
            (exponent < LMC_FMT_FACTOR_EXPONENT_MIN || exponent > LMC_FMT_FACTOR_EXPONENT_MAX))
            return lmc_corrupt(diag, 4 + 4 * (uint64_t)i, "plan: factor %u is out of range", i);
    }
    return LMC_OK;
}

lmc_status lmc_narrow_read(lmc_reader *reader, unsigned wide_nbytes, lmc_narrow *narrow, lmc_diag *diag)
{
    const unsigned form = (unsigned)lmc_read_n(reader, 1);
    if (reader->failed)
        return lmc_corrupt(diag, 0, "plan: its narrow fields are cut short");
    if (form > LMC_FMT_NARROW_PALETTE)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 0, "plan: narrow form %u", form);
    lmc_narrow_set_form(narrow, form, wide_nbytes);
    if (form < LMC_FMT_NARROW_PRODUCT ? wide_nbytes != 2u * narrow->element_nbytes : wide_nbytes == 1)
        return lmc_corrupt(diag, 0, "plan: narrow form %u of elements of %u bytes", form, wide_nbytes);
    if (form < LMC_FMT_NARROW_PRODUCT)
        return LMC_OK;
    if (form == LMC_FMT_NARROW_PRODUCT)
        LMC_TRY(read_product(reader, narrow, diag));
    narrow->row_length = (uint32_t)lmc_read_n(reader, 4);
    narrow->group_length = (uint32_t)lmc_read_n(reader, 4);
    if (reader->failed)
        return lmc_corrupt(diag, 0, "plan: its narrow fields are cut short");
    if (narrow->group_length < LMC_FMT_GROUP_LENGTH_MIN || narrow->group_length > narrow->row_length)
        return lmc_corrupt(diag, 0, "plan: groups of %u elements in rows of %u", narrow->group_length,
                           narrow->row_length);
    return LMC_OK;
}

lmc_status lmc_section_read(const uint8_t *section, size_t nbytes, uint32_t features, unsigned element_nbytes,
                            lmc_narrow *narrow, lmc_table *tables, lmc_rans *rans, lmc_coding *coding,
                            lmc_diag *diag)
{
    lmc_reader reader = {section, section + nbytes, 0};
    narrow->is_used = 0;
    if (features & LMC_FMT_FEATURE_NARROW) {
        LMC_TRY(lmc_narrow_read(&reader, element_nbytes, narrow, diag));
        element_nbytes = narrow->element_nbytes;
    }
    const uint64_t offset = (uint64_t)(reader.next - section);
    const lmc_status status =
        lmc_coding_read(reader.next, lmc_reader_left(&reader), element_nbytes, tables, rans, coding, diag);
    LMC_TRY(lmc_diag_shift(diag, status, offset));
    if ((coding->offsets.column_count > 0) != ((features & LMC_FMT_FEATURE_OFFSETS) != 0))
        return lmc_corrupt(diag, offset, "plan: its offsets are not what the head says");
    if (!coding->rans != ((features & LMC_FMT_FEATURE_RANS) == 0))
        return lmc_corrupt(diag, offset, "plan: it has no rANS table, which the head announces");
    return LMC_OK;
}

/* ---- groups ---- */

/* The group of element e of the frame. */
static uint64_t group_of(const lmc_narrow *narrow, uint64_t e)
{
    return e / narrow->row_length * lmc_groups_in_row(narrow) + e % narrow->row_length / narrow->group_length;
}

size_t lmc_group_count(const lmc_narrow *narrow, uint64_t first, size_t n)
{
    return (size_t)(group_of(narrow, first + n - 1) - group_of(narrow, first)) + 1;
}

lmc_group_walk lmc_group_walk_start(const lmc_narrow *narrow, uint64_t first, size_t i)
{
    return (lmc_group_walk){narrow, (uint32_t)((first + i) % narrow->row_length),
                            (size_t)(group_of(narrow, first + i) - group_of(narrow, first))};
}

lmc_group_run lmc_group_walk_next(lmc_group_walk *walk, size_t most)
{
    const lmc_narrow *const narrow = walk->narrow;
    const uint32_t row_left = narrow->row_length - walk->column;
    const uint32_t group_left = narrow->group_length - walk->column % narrow->group_length;
    const uint32_t length = row_left < group_left ? row_left : group_left;
    const lmc_group_run run = {walk->group, lmc_min_size(length, most)};
    walk->column += (uint32_t)run.n;
    if (walk->column == narrow->row_length)
        walk->column = 0;
    walk->group += run.n == length;
    return run;
}

/* ---- widening ---- */

void lmc_narrow_widen(const lmc_narrow *narrow, const lmc_kernels *kernels, const lmc_scratch *scratch,
                      uint64_t first, size_t i, size_t n, uint8_t *dst)
{
    const uint8_t *const elements = scratch->narrow + i * narrow->element_nbytes;
    if (narrow->form < LMC_FMT_NARROW_PRODUCT) {
        kernels->widen[narrow->form](elements, n, dst);
        return;
    }
    const unsigned nbytes = narrow->wide_nbytes;
    lmc_group_walk walk = lmc_group_walk_start(narrow, first, i);
    for (size_t done = 0; done < n;) {
        const lmc_group_run run = lmc_group_walk_next(&walk, n - done);
        const lmc_group *const group = &scratch->groups[run.group];
        const uint8_t *const numbers = elements + done;
        uint8_t *const place = dst + done * nbytes;
        if (narrow->form == LMC_FMT_NARROW_PRODUCT) {
            kernels->multiply[narrow->product_type](narrow->factors, group->scale, numbers, run.n, place);
        } else {
            const uint8_t *const palette = scratch->palettes + (size_t)group->value_first * nbytes;
            const uint32_t value_count = group->value_count;
            for (size_t k = 0; k < run.n; k++) { /* numbers beyond the palette mean 0 */
                const int is_known = numbers[k] < value_count;
                lmc_store_n(place + k * nbytes,
                            is_known ? lmc_load_n(palette + numbers[k] * (size_t)nbytes, nbytes) : 0, nbytes);
            }
        }
        done += run.n;
    }
}
