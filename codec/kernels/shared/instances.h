/*
 * instances.h - compiles one body 21 times. A layer kernel has the code lengths of the layer as compile-time constants.
 * Then every loop over planes unrolls, and every cursor lives in a register.
 */
#ifndef LMC_CODEC_KERNELS_SHARED_INSTANCES_H
#define LMC_CODEC_KERNELS_SHARED_INSTANCES_H

/* Calls body(first, last, ...) with constants equal to the layer's first_nbits and last_nbits. */
#define LMC_LAYER_INSTANCE(layer, body, ...)                           \
    switch ((layer)->last_nbits * 8 + (layer)->first_nbits) {          \
        LMC_INSTANCE_CASE(1, 1, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(1, 2, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(2, 2, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(1, 3, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(2, 3, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(3, 3, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(1, 4, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(2, 4, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(3, 4, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(4, 4, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(1, 5, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(2, 5, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(3, 5, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(4, 5, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(5, 5, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(1, 6, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(2, 6, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(3, 6, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(4, 6, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(5, 6, body, __VA_ARGS__)                     \
        LMC_INSTANCE_CASE(6, 6, body, __VA_ARGS__)                     \
    default: assert(!"first_nbits and last_nbits are 1..6, in order"); \
    }

#define LMC_INSTANCE_CASE(first, last, body, ...) \
    case (last)*8 + (first):                      \
        body(first, last, __VA_ARGS__);           \
        break;

#endif
