/*
 * hdf5_type.c - commands/hdf5_library.h: what a type is, in a word or two.
 */
#include "tool/commands/hdf5_library.h"

#include <stdio.h>

#define DEPTH_MAX 4
#define CLASS_COMPLEX 11 /* of HDF5 2 */

static void name_type(const hdf5_library *hdf5, hid_t type, unsigned depth, char *shown, size_t capacity);

static void name_float(const hdf5_library *hdf5, hid_t type, size_t nbits, char *shown, size_t capacity)
{
    size_t sign = 0;
    size_t exponent = 0;
    size_t exponent_nbits = 0;
    size_t mantissa = 0;
    size_t mantissa_nbits = 0;
    if (hdf5->H5Tget_fields(type, &sign, &exponent, &exponent_nbits, &mantissa, &mantissa_nbits) < 0)
        snprintf(shown, capacity, "f%zu", nbits);
    else if (nbits == 16 && exponent_nbits == 8 && mantissa_nbits == 7)
        snprintf(shown, capacity, "bf16");
    else if ((nbits == 16 && exponent_nbits == 5) || (nbits == 32 && exponent_nbits == 8) ||
             (nbits == 64 && exponent_nbits == 11))
        snprintf(shown, capacity, "f%zu", nbits);
    else
        snprintf(shown, capacity, "f%zu_e%zum%zu", nbits, exponent_nbits, mantissa_nbits);
}

static void name_with_base(const hdf5_library *hdf5, hid_t type, const char *what, unsigned depth,
                           char *shown, size_t capacity)
{
    char base_name[48] = "?";
    const hid_t base = hdf5->H5Tget_super(type);
    if (base >= 0 && depth < DEPTH_MAX)
        name_type(hdf5, base, depth + 1, base_name, sizeof(base_name));
    if (base >= 0)
        hdf5->H5Tclose(base);
    snprintf(shown, capacity, "%s of %s", what, base_name);
}

static const char *order_name(const hdf5_library *hdf5, hid_t type, size_t nbytes)
{
    return nbytes > 1 && hdf5->H5Tget_order(type) == H5T_ORDER_BE ? " big-endian" : "";
}

static void name_type(const hdf5_library *hdf5, hid_t type, unsigned depth, char *shown, size_t capacity)
{
    char number[40];
    const size_t nbytes = hdf5->H5Tget_size(type);
    const int class = (int)hdf5->H5Tget_class(type);
    switch (class) {
    case H5T_INTEGER:
        snprintf(shown, capacity, "%c%zu%s", hdf5->H5Tget_sign(type) == H5T_SGN_NONE ? 'u' : 'i', nbytes * 8,
                 order_name(hdf5, type, nbytes));
        break;
    case H5T_FLOAT:
        name_float(hdf5, type, nbytes * 8, number, sizeof(number));
        snprintf(shown, capacity, "%s%s", number, order_name(hdf5, type, nbytes));
        break;
    case H5T_STRING:
        if (hdf5->H5Tis_variable_str(type) > 0)
            snprintf(shown, capacity, "text");
        else
            snprintf(shown, capacity, "text[%zu]", nbytes);
        break;
    case H5T_BITFIELD: snprintf(shown, capacity, "bits%zu", nbytes * 8); break;
    case H5T_OPAQUE: snprintf(shown, capacity, "opaque[%zu]", nbytes); break;
    case H5T_COMPOUND: snprintf(shown, capacity, "record[%zu]", nbytes); break;
    case H5T_REFERENCE: snprintf(shown, capacity, "reference"); break;
    case H5T_ENUM: name_with_base(hdf5, type, "enum", depth, shown, capacity); break;
    case H5T_VLEN: name_with_base(hdf5, type, "list", depth, shown, capacity); break;
    case H5T_ARRAY: name_with_base(hdf5, type, "array", depth, shown, capacity); break;
    case CLASS_COMPLEX: name_with_base(hdf5, type, "complex", depth, shown, capacity); break;
    default: snprintf(shown, capacity, "class %d, %zu bytes", class, nbytes); break;
    }
}

static int is_fixed(const hdf5_library *hdf5, hid_t type, unsigned depth);

static int is_fixed_part(const hdf5_library *hdf5, hid_t part, unsigned depth)
{
    const int is_one = part >= 0 && depth < DEPTH_MAX && is_fixed(hdf5, part, depth + 1);
    if (part >= 0)
        hdf5->H5Tclose(part);
    return is_one;
}

static int is_fixed(const hdf5_library *hdf5, hid_t type, unsigned depth)
{
    const int count = (int)hdf5->H5Tget_class(type) == H5T_COMPOUND ? hdf5->H5Tget_nmembers(type) : 0;
    switch ((int)hdf5->H5Tget_class(type)) {
    case H5T_INTEGER:
    case H5T_FLOAT:
    case H5T_TIME:
    case H5T_BITFIELD:
    case H5T_OPAQUE:
    case H5T_ENUM: return 1;
    case H5T_STRING: return hdf5->H5Tis_variable_str(type) == 0;
    case H5T_ARRAY:
    case CLASS_COMPLEX: return is_fixed_part(hdf5, hdf5->H5Tget_super(type), depth);
    case H5T_COMPOUND: break;
    default: return 0;
    }
    for (int i = 0; i < count; i++)
        if (!is_fixed_part(hdf5, hdf5->H5Tget_member_type(type, (unsigned)i), depth))
            return 0;
    return count > 0;
}

int hdf5_type_is_fixed(const hdf5_library *hdf5, hid_t type)
{
    return is_fixed(hdf5, type, 0);
}

void hdf5_type_name(const hdf5_library *hdf5, hid_t type, char *shown, size_t capacity)
{
    name_type(hdf5, type, 0, shown, capacity);
}
