/*
 * format.h - every constant of wire format 1, each once. docs/format.md explains them by these names.
 */
#ifndef LMC_CODEC_COMMON_FORMAT_H
#define LMC_CODEC_COMMON_FORMAT_H

/* ---- frame head ---- */
#define LMC_FMT_MAGIC 0x434d4c8cu /* bytes 8c 4c 4d 43: never valid UTF-8, then "LMC" */
#define LMC_FMT_VERSION 1

#define LMC_FMT_HEAD_NBYTES 32
#define LMC_FMT_SHORT_HEAD_NBYTES 8
#define LMC_FMT_SHORT_CONTENT_MAX 255 /* its size is one byte */

/* where its fields are: those of both heads, and what follows in a short or in a long one */
#define LMC_FMT_HEAD_VERSION_OFFSET 4 /* behind the magic */
#define LMC_FMT_HEAD_DTYPE_OFFSET 5
#define LMC_FMT_HEAD_MODE_OFFSET 6
#define LMC_FMT_SHORT_HEAD_CONTENT_NBYTES_OFFSET 7
#define LMC_FMT_HEAD_BLOCK_LOG2_OFFSET 7
#define LMC_FMT_HEAD_FEATURES_OFFSET 8
#define LMC_FMT_HEAD_PLAN_NBYTES_OFFSET 12
#define LMC_FMT_HEAD_CONTENT_NBYTES_OFFSET 16
#define LMC_FMT_HEAD_ROW_NBYTES_OFFSET 24
#define LMC_FMT_HEAD_ELEMENT_NBYTES_OFFSET 28
#define LMC_FMT_HEAD_BYTE_ORDER_OFFSET 29
#define LMC_FMT_HEAD_BASE_FORM_OFFSET 30
#define LMC_FMT_HEAD_RESERVED_OFFSET 31

/* frame modes */
#define LMC_FMT_MODE_STORED 0
#define LMC_FMT_MODE_CODED 1
#define LMC_FMT_MODE_SHORT 2
#define LMC_FMT_MODE_DELTA 3

/* how the bytes of a base become values */
#define LMC_FMT_BASE_PLAIN 0
#define LMC_FMT_BASE_BF16_OF_F32 1
#define LMC_FMT_BASE_F16_OF_F32 2
#define LMC_FMT_BASE_F16_OF_BF16 3

/* required features */
#define LMC_FMT_FEATURE_OFFSETS 0x10u /* the plan has LMC_FMT_TRANSFORM_OFFSETS */
#define LMC_FMT_FEATURE_NARROW 0x20u  /* the plan begins with narrow fields */
#define LMC_FMT_FEATURE_RANS 0x40u    /* the plan has a LMC_FMT_PLANE_RANS */
#define LMC_FMT_FEATURES_KNOWN (LMC_FMT_FEATURE_OFFSETS | LMC_FMT_FEATURE_NARROW | LMC_FMT_FEATURE_RANS)

#define LMC_FMT_BYTE_ORDER_LITTLE 0 /* 1 is reserved for big-endian elements */

#define LMC_FMT_BLOCK_LOG2_MIN 10
#define LMC_FMT_BLOCK_LOG2_MAX 20

#define LMC_FMT_PLAN_NBYTES_MAX 4096
#define LMC_FMT_OFFSETS_PLAN_NBYTES_MAX 65536 /* with LMC_FMT_FEATURE_OFFSETS */
#define LMC_FMT_CONTENT_NBYTES_MAX 0x7fffffffffffffffu

/* ---- tail ---- */
#define LMC_FMT_INDEX_ENTRY_NBYTES 12       /* u32 stored bytes, u64 content hash */
#define LMC_FMT_DELTA_INDEX_ENTRY_NBYTES 20 /* and u64 hash of the base's part */
#define LMC_FMT_HASH_NBYTES 8

/* ---- plan ---- */
#define LMC_FMT_TRANSFORM_ROTATE 0x01  /* bits rotate left by one before the split */
#define LMC_FMT_TRANSFORM_MASK 0x02    /* a mask value follows: blocks may be masked */
#define LMC_FMT_TRANSFORM_OFFSETS 0x04 /* rows and columns of a matrix have offsets */
#define LMC_FMT_TRANSFORM_KNOWN 0x07

#define LMC_FMT_COLUMN_COUNT_MIN 32
#define LMC_FMT_OFFSET_NBITS_MAX 8 /* of a column's or a row's value */
#define LMC_FMT_ROWS_NONE 255      /* instead of a row value's bits: the block has no offsets */

#define LMC_FMT_HIGH_NBITS 16        /* of an element of 2 bytes and more: its symbol and its low bits */
#define LMC_FMT_LOW_NBITS_MAX 8      /* with 8 the low plane is a byte plane */
#define LMC_FMT_LOW_NBITS_MIN_WIDE 4 /* elements of 2 bytes and more */
#define LMC_FMT_LOW_NBITS_MAX_BYTE 4 /* elements of 1 byte */

#define LMC_FMT_SYMBOL_ESCAPE 255 /* in symbol planes of more than 8 bits */

#define LMC_FMT_PLANE_RAW 0   /* the plan has no table for the plane */
#define LMC_FMT_PLANE_TABLE 1 /* the table of a prefix code follows */
#define LMC_FMT_PLANE_RANS 2  /* the table of a rANS code follows; 3..255 are reserved for built-in tables */

#define LMC_FMT_PLANE_COUNT_MAX 8 /* symbols, low bits, six lower bytes */

/* ---- table ---- */
#define LMC_FMT_LAYER_COUNT_MAX 16
#define LMC_FMT_LAYER_NBITS_MAX 6

/* ---- rANS codes ---- */
#define LMC_FMT_RANS_LANE_COUNT 64
#define LMC_FMT_RANS_TOTAL_LOG2 12
#define LMC_FMT_RANS_TOTAL (1 << LMC_FMT_RANS_TOTAL_LOG2) /* sum of the frequencies */
#define LMC_FMT_RANS_WIDTH_NBITS 4      /* of the number that gives the width of a frequency */
#define LMC_FMT_RANS_CARRIED_NBYTES 128 /* of other content, in the last states of the lanes */

/* ---- narrow fields: how wide elements are made from narrow ones ---- */
#define LMC_FMT_NARROW_F16_IN_F32 0
#define LMC_FMT_NARROW_BF16_IN_F32 1
#define LMC_FMT_NARROW_F32_IN_F64 2
#define LMC_FMT_NARROW_PRODUCT 3 /* of the scale of a group and a factor */
#define LMC_FMT_NARROW_PALETTE 4 /* a value in the palette of a group */

#define LMC_FMT_PRODUCT_F32 0
#define LMC_FMT_PRODUCT_F16 1
#define LMC_FMT_PRODUCT_BF16 2

#define LMC_FMT_FACTORS_I8 0
#define LMC_FMT_FACTORS_I8_ZEROS 1 /* -128 stands for -0 */
#define LMC_FMT_FACTORS_E4M3 2
#define LMC_FMT_FACTORS_E5M2 3
#define LMC_FMT_FACTORS_LIST 4

#define LMC_FMT_GROUP_LENGTH_MIN 16 /* of a group and of a row */
/* exponent fields of F32 factors that are not 0, and of scales: no product is denormal or infinite */
#define LMC_FMT_FACTOR_EXPONENT_MIN 107
#define LMC_FMT_FACTOR_EXPONENT_MAX 147
#define LMC_FMT_SCALE_EXPONENT_MIN 27
#define LMC_FMT_SCALE_EXPONENT_MAX 227

/* ---- block modes ---- */
#define LMC_FMT_BLOCK_STORED 0
#define LMC_FMT_BLOCK_PLANES 1
#define LMC_FMT_BLOCK_MASKED 2
#define LMC_FMT_BLOCK_SAME 3 /* this mode and the next: in delta frames */
#define LMC_FMT_BLOCK_DELTA 4
#define LMC_FMT_BLOCK_NARROW 5 /* in frames with LMC_FMT_FEATURE_NARROW */

/* ---- plane modes; 4..7 are reserved ---- */
#define LMC_FMT_PLANE_STORED 0
#define LMC_FMT_PLANE_CONSTANT 1
#define LMC_FMT_PLANE_CODED 2
#define LMC_FMT_PLANE_EXCEPTIONS 3

/* ---- deltas ---- */
#define LMC_FMT_DELTA_MAGNITUDE 0  /* of floats: difference of the bits below the sign, and sign changes */
#define LMC_FMT_DELTA_DIFFERENCE 1 /* of integers */
#define LMC_FMT_DELTA_XOR 2
#define LMC_FMT_CLASS_COUNT_MAX 16
#define LMC_FMT_CLASS_LOW_NBITS_MAX 8

/* ---- bucket codes ---- */
#define LMC_FMT_BUCKET_COUNT 9
#define LMC_FMT_BUCKET_NBITS 0, 1, 1, 1, 2, 2, 3, 3, 5 /* what tells the symbols of each bucket apart */
#define LMC_FMT_BUCKET_VALUES_MIN 8                    /* fewer symbols follow as bytes */

/* ---- bitsets ---- */
#define LMC_FMT_BITSET_BITMAP 0
#define LMC_FMT_BITSET_GAPS_OF_ONES 1
#define LMC_FMT_BITSET_GAPS_OF_ZEROS 2
#define LMC_FMT_BITSET_NONE 3 /* no bit is set */
#define LMC_FMT_BITSET_ALL 4  /* all bits are set */
#define LMC_FMT_BITSET_HIERARCHY_OF_ONES 5
#define LMC_FMT_BITSET_HIERARCHY_OF_ZEROS 6
#define LMC_FMT_GAP_LOW_NBITS_MAX 15
#define LMC_FMT_GAP_UNARY_COUNT_MAX 12
#define LMC_FMT_GAP_UNARY_VALUES_MIN 16

#endif
