/* type.c - reduces a datatype of HDF5 to class, size, byte order and exponent. */
#include "filter/plugin/type.h"

#include <string.h>

/* Types within types that are followed: deeper ones are taken for what their size says. */
#define DEPTH_MAX 8

static lmc_h5_type read_type(const h5_library *library, h5_id id, unsigned depth);

/* A float like those of IEEE: the sign on top, the exponent next to it, nothing else but the mantissa. 0 for others,
 * and when the library does not tell. */
static unsigned float_exponent_nbits(const h5_library *library, h5_id id, size_t nbytes)
{
    size_t sign;
    size_t exponent;
    size_t exponent_nbits;
    size_t mantissa;
    size_t mantissa_nbits;
    if (!library->type_fields ||
        library->type_fields(id, &sign, &exponent, &exponent_nbits, &mantissa, &mantissa_nbits) < 0)
        return 0;
    const int is_usual = sign + 1 == 8 * nbytes && exponent + exponent_nbits == sign && mantissa == 0 &&
                         mantissa_nbits == exponent;
    return is_usual ? (unsigned)exponent_nbits : 0;
}

static lmc_h5_type read_super(const h5_library *library, h5_id id, unsigned depth)
{
    lmc_h5_type type = {.class_number = H5_CLASS_UNKNOWN, .has_fixed_size = 1};
    const h5_id super = library->type_super(id);
    if (super >= 0) {
        type = read_type(library, super, depth + 1);
        library->type_close(super);
    }
    return type;
}

static int is_number(const lmc_h5_type *type)
{
    return type->class_number == H5_CLASS_INTEGER || type->class_number == H5_CLASS_FLOAT;
}

static int is_same(const lmc_h5_type *a, const lmc_h5_type *b)
{
    return a->class_number == b->class_number && a->nbytes == b->nbytes &&
           a->is_big_endian == b->is_big_endian && a->exponent_nbits == b->exponent_nbits;
}

/* One number many times over, without gaps (complex numbers, vectors), is that number; all others are records. */
static lmc_h5_type read_compound(const h5_library *library, h5_id id, unsigned depth)
{
    const int count = library->type_member_count(id);
    lmc_h5_type record = {
        .class_number = H5_CLASS_COMPOUND, .nbytes = library->type_nbytes(id), .has_fixed_size = 1};
    lmc_h5_type first = {.class_number = H5_CLASS_UNKNOWN};
    size_t sum = 0;
    int is_uniform = count > 0;
    for (int i = 0; i < count; i++) {
        lmc_h5_type type = {.class_number = H5_CLASS_UNKNOWN};
        const h5_id member = library->type_member(id, (unsigned)i);
        if (member >= 0) {
            type = read_type(library, member, depth + 1);
            sum += library->type_nbytes(member); /* an array whole */
            library->type_close(member);
        }
        first = i == 0 ? type : first;
        is_uniform &= is_number(&type) && is_same(&type, &first);
        record.has_fixed_size &= type.has_fixed_size;
    }
    return is_uniform && sum == record.nbytes ? first : record;
}

static lmc_h5_type read_type(const h5_library *library, h5_id id, unsigned depth)
{
    const int class_number = library->type_class(id);
    lmc_h5_type type = {.class_number = class_number < 0 ? H5_CLASS_UNKNOWN : (unsigned)class_number,
                        .nbytes = library->type_nbytes(id),
                        .has_fixed_size = 1};
    if (depth >= DEPTH_MAX) {
        type.has_fixed_size = 0;
        return type;
    }
    switch (type.class_number) {
    case H5_CLASS_ARRAY:
    case H5_CLASS_COMPLEX: return read_super(library, id, depth);
    case H5_CLASS_COMPOUND: return read_compound(library, id, depth);
    case H5_CLASS_FLOAT:
        type.exponent_nbits = float_exponent_nbits(library, id, type.nbytes); /* fall through */
    case H5_CLASS_INTEGER:
    case H5_CLASS_BITFIELD:
    case H5_CLASS_ENUM: type.is_big_endian = library->type_order(id) == H5_ORDER_BIG_ENDIAN; break;
    case H5_CLASS_STRING: type.has_fixed_size = library->type_is_variable_string(id) == 0; break;
    case H5_CLASS_VLEN:
    case H5_CLASS_REFERENCE: type.has_fixed_size = 0; break;
    default: break;
    }
    return type;
}

lmc_h5_type h5_type_read(const h5_library *library, h5_id id)
{
    return read_type(library, id, 0);
}
