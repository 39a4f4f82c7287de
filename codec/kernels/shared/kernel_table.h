/*
 * kernel_table.h - builds the table of a kernel set, in one place for all sets. The including file has defined every
 * kernel under its name in lmc_kernels. A kernel of an array has its width at the end of the name: the bytes of an
 * element, in deltas its bits. SPARSE_STEP is lmc_kernels.sparse_step.
 */
#ifndef LMC_CODEC_KERNELS_SHARED_KERNEL_TABLE_H
#define LMC_CODEC_KERNELS_SHARED_KERNEL_TABLE_H

#define EACH_NBYTES(kernel)                            \
    {                                                  \
        kernel##_1, kernel##_2, kernel##_4, kernel##_8 \
    }
#define EACH_NBITS(kernel)                                \
    {                                                     \
        kernel##_8, kernel##_16, kernel##_32, kernel##_64 \
    }

/* in the order of the forms and of the product types of format.h */
#define EACH_FLOAT(kernel)                                             \
    {                                                                  \
        kernel##_f16_in_f32, kernel##_bf16_in_f32, kernel##_f32_in_f64 \
    }
#define EACH_PRODUCT(kernel)                      \
    {                                             \
        kernel##_f32, kernel##_f16, kernel##_bf16 \
    }

#define DEFINE_KERNELS(set, set_name)              \
    const lmc_kernels lmc_kernels_##set = {        \
        .name = set_name,                          \
        .sparse_step = SPARSE_STEP,                \
        .layer_encode = layer_encode,              \
        .layer_decode = layer_decode,              \
        .rans_decode = rans_decode,                \
        .rans_encode = rans_encode,                \
        .split = EACH_NBYTES(split),               \
        .join = EACH_NBYTES(join),                 \
        .high_parts = EACH_NBYTES(high_parts),     \
        .sum_clipped = sum_clipped,                \
        .sum_elements = EACH_NBYTES(sum_elements), \
        .add_clipped = add_clipped,                \
        .add_shifts = add_shifts,                  \
        .widen = EACH_FLOAT(widen),                \
        .narrow = EACH_FLOAT(narrow),              \
        .multiply = EACH_PRODUCT(multiply),        \
        .mask_split = EACH_NBYTES(mask_split),     \
        .mask_join = EACH_NBYTES(mask_join),       \
        .bitset_count = bitset_count,              \
        .hierarchy_split = hierarchy_split,        \
        .hierarchy_join = hierarchy_join,          \
        .gaps_find = gaps_find,                    \
        .gaps_cut = gaps_cut,                      \
        .gaps_join = gaps_join,                    \
        .gaps_unary_split = gaps_unary_split,      \
        .gaps_unary_join = gaps_unary_join,        \
        .classify = EACH_NBITS(classify),          \
        .delta_split = EACH_NBITS(delta_split),    \
        .delta_join = EACH_NBITS(delta_join),      \
        .scatter = scatter,                        \
        .gather = gather,                          \
        .take_sign_changes = take_sign_changes,    \
        .put_sign_changes = put_sign_changes,      \
        .find_changed = EACH_NBITS(find_changed),  \
        .number_changes = number_changes,          \
        .locate_changes = locate_changes,          \
        .hash = hash_xxh3,                         \
        .hash_begin = hash_xxh3_begin,             \
        .hash_update = hash_xxh3_update,           \
        .hash_end = hash_xxh3_end,                 \
        .copy_past_cache = copy_past_cache,        \
        .end_past_cache = end_past_cache,          \
    }

#endif
