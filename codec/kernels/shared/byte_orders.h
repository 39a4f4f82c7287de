/*
 * byte_orders.h - tables for shuffles of eight bytes by a mask of eight bits: bytes under the mask to the lowest
 * places, and back.
 */
#ifndef LMC_CODEC_KERNELS_SHARED_BYTE_ORDERS_H
#define LMC_CODEC_KERNELS_SHARED_BYTE_ORDERS_H

#include "codec/kernels/kernels.h"

#define EACH_16(f, m)                                                                                     \
    f(m), f((m) + 1), f((m) + 2), f((m) + 3), f((m) + 4), f((m) + 5), f((m) + 6), f((m) + 7), f((m) + 8), \
        f((m) + 9), f((m) + 10), f((m) + 11), f((m) + 12), f((m) + 13), f((m) + 14), f((m) + 15)
#define EACH_64(f, m) EACH_16(f, m), EACH_16(f, (m) + 16), EACH_16(f, (m) + 32), EACH_16(f, (m) + 48)
#define EACH_256(f) EACH_64(f, 0), EACH_64(f, 64), EACH_64(f, 128), EACH_64(f, 192)
#define BIT(m, i) ((uint64_t)(m) >> (i)&1)

/* pack_order[m]: the places of the bits of m, lowest first, a byte each; then 255, which shuffles take for no place. */
#define PLACE(m, i, further) ((further) << 8 * BIT(m, i) | BIT(m, i) * (i))
#define PACK_ORDER(m) \
    PLACE(m, 0,       \
          PLACE(m, 1, \
                PLACE(m, 2, PLACE(m, 3, PLACE(m, 4, PLACE(m, 5, PLACE(m, 6, PLACE(m, 7, ~UINT64_C(0)))))))))
static const uint64_t pack_order[256] = {EACH_256(PACK_ORDER)};

/* fill_order[m]: for each set bit of m the number of set bits below it; 255 for a clear bit. */
#define BELOW_1(m) UINT64_C(0)
#define BELOW_2(m) (BELOW_1(m) + BIT(m, 0))
#define BELOW_3(m) (BELOW_2(m) + BIT(m, 1))
#define BELOW_4(m) (BELOW_3(m) + BIT(m, 2))
#define BELOW_5(m) (BELOW_4(m) + BIT(m, 3))
#define BELOW_6(m) (BELOW_5(m) + BIT(m, 4))
#define BELOW_7(m) (BELOW_6(m) + BIT(m, 5))
#define BELOW_8(m) (BELOW_7(m) + BIT(m, 6))
#define RANK(m, i, below) ((BIT(m, i) ? (below) : UINT64_C(255)) << 8 * (i))
#define FILL_ORDER(m)                                                                                    \
    (RANK(m, 0, BELOW_1(m)) | RANK(m, 1, BELOW_2(m)) | RANK(m, 2, BELOW_3(m)) | RANK(m, 3, BELOW_4(m)) | \
     RANK(m, 4, BELOW_5(m)) | RANK(m, 5, BELOW_6(m)) | RANK(m, 6, BELOW_7(m)) | RANK(m, 7, BELOW_8(m)))
static const uint64_t fill_order[256] = {EACH_256(FILL_ORDER)};

#endif
