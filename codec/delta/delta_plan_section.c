/* delta_plan_section.c - writes a delta's plan; reads it and checks every field. */
#include "codec/delta/delta_plan_section.h"

size_t lmc_delta_write(const lmc_delta *delta, uint8_t *dst)
{
    lmc_writer w = {dst, dst + LMC_DELTA_SECTION_NBYTES_MAX};
    lmc_write_n(&w, delta->transform, 1);
    lmc_write_n(&w, delta->low_nbytes, 1);
    lmc_write_n(&w, delta->key_shift, 1);
    lmc_write_n(&w, delta->class_count, 1);
    lmc_write_span(&w, delta->first_key + 1, delta->class_count - 1u);
    lmc_write_span(&w, delta->class_low_nbits, delta->class_count);
    return (size_t)(w.next - dst);
}

static lmc_status check_fields(const lmc_delta *delta, unsigned element_nbytes, lmc_diag *diag)
{
    if (delta->transform > LMC_FMT_DELTA_XOR)
        return lmc_fail(diag, LMC_ERR_UNSUPPORTED, 0, "plan: delta transform %u", delta->transform);
    if (delta->low_nbytes >= element_nbytes)
        return lmc_corrupt(diag, 1, "plan: %u low bytes", delta->low_nbytes);
    if (delta->key_shift >= 8 * element_nbytes)
        return lmc_corrupt(diag, 2, "plan: keys from bit %u", delta->key_shift);
    if (delta->class_count == 0 || delta->class_count > LMC_FMT_CLASS_COUNT_MAX)
        return lmc_corrupt(diag, 3, "plan: %u classes", delta->class_count);
    return LMC_OK;
}

static lmc_status check_classes(const lmc_delta *delta, lmc_diag *diag)
{
    for (unsigned c = 1; c < delta->class_count; c++)
        if (delta->first_key[c] <= delta->first_key[c - 1])
            return lmc_corrupt(diag, 3u + c, "plan: class %u is out of order", c);
    for (unsigned c = 0; c < delta->class_count; c++)
        if (delta->class_low_nbits[c] > LMC_FMT_CLASS_LOW_NBITS_MAX)
            return lmc_corrupt(diag, 3u + delta->class_count + c, "plan: class %u has %u low bits", c,
                               delta->class_low_nbits[c]);
    return LMC_OK;
}

lmc_status lmc_delta_read(const uint8_t *section, size_t nbytes, unsigned element_nbytes, lmc_delta *delta,
                          lmc_diag *diag)
{
    lmc_reader r = {section, section + nbytes, 0};
    memset(delta, 0, sizeof *delta);
    delta->transform = (uint8_t)lmc_read_n(&r, 1);
    delta->low_nbytes = (uint8_t)lmc_read_n(&r, 1);
    delta->key_shift = (uint8_t)lmc_read_n(&r, 1);
    delta->class_count = (uint8_t)lmc_read_n(&r, 1);
    if (r.failed)
        return lmc_corrupt(diag, 0, "plan: the section is cut short");
    LMC_TRY(check_fields(delta, element_nbytes, diag));
    const uint8_t *const keys = lmc_read_span(&r, delta->class_count - 1u);
    const uint8_t *const low_nbits = lmc_read_span(&r, delta->class_count);
    if (r.failed || lmc_reader_left(&r) != 0)
        return lmc_corrupt(diag, 3, "plan: the section is not as long as its classes take");
    memcpy(delta->first_key + 1, keys, delta->class_count - 1u);
    memcpy(delta->class_low_nbits, low_nbits, delta->class_count);
    return check_classes(delta, diag);
}
