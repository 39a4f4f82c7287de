/*
 * lmc_experimental.h - calls of liblmc that may change or be removed in any minor version. The conventions are those of
 * lmc.h.
 */
#ifndef LMC_EXPERIMENTAL_H
#define LMC_EXPERIMENTAL_H

#include "lmc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Calls that encode or decode a whole frame, or a range of one, with this context end with LMC_ERR_CANCELLED soon after
 * *cancel becomes non-zero, unless they were about to succeed. The threads of the call have ended then.
 *  cancel: may be set by a signal handler, or by another thread with an atomic store. It is read by atomic loads, once
 *  a block. It must stay valid until another one is set. NULL, the default: no flag.
 * Error: LMC_ERR_ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_ctx_set_cancel(lmc_ctx *ctx, const volatile int *cancel);

/* The number of cores that this process may use: 1 to LMC_THREAD_COUNT_MAX. On Linux, the cores of the calling thread's
 * affinity mask, or the CPU quota of the process's cgroup and its parents, rounded up, if that is less. Elsewhere the
 * cores of the machine, or 1 if the system does not say. */
LMC_API unsigned lmc_core_count(void);

/* Guesses the dtype of little-endian content that nothing else describes. Looks at 16 KiB at most, spread over the
 * content. A wrong guess only makes the frame larger.
 *  element_nbytes: 1, 2, 4 or 8; 0, or any other number, to guess the size as well.
 * Returns an unsigned integer or a float of that size. 16-bit floats are always BF16 and 8-bit floats F8_E4M3, which
 * serve the other formats of their size as well. */
LMC_API lmc_dtype lmc_dtype_guess(const void *content, size_t nbytes, unsigned element_nbytes);

/* What a base form other than LMC_BASE_PLAIN rounds. */
typedef struct lmc_rounding {
    lmc_dtype dtype, base_dtype; /* of the content and of the base */
    unsigned scale;              /* bytes of the base for each byte of content */
} lmc_rounding;

/* What the form rounds; NULL for LMC_BASE_PLAIN and for numbers that are not a form. Static storage. */
LMC_API const lmc_rounding *lmc_base_rounding(lmc_base_form form);

/* Rounds `count` elements of a base to elements of the form's dtype. Both are little-endian, at any address, and must
 * not overlap. Does nothing for LMC_BASE_PLAIN and for numbers that are not a form. */
LMC_API void lmc_base_round(lmc_base_form form, const void *base, size_t count, void *values);

/* The elements of a block that differ from the base, in their order. */
typedef struct lmc_changes {
    uint32_t *places; /* their numbers in the block */
    void *values;     /* the elements, one after the other: lmc_info.element_nbytes bytes each */
    size_t capacity;  /* elements that both have room for; with 0 they may be NULL */
    size_t count;     /* set: elements that differ. If that is more than the capacity, nothing is listed. */
} lmc_changes;

/* As lmc_decode_delta_block(), but only the elements that differ from the base are given. Base and content of the block
 * are verified all the same, also if the changes are too many for their room. For delta frames whose base form is
 * LMC_BASE_PLAIN and whose content is whole elements; others: LMC_ERR_ARG. Neither places nor values may overlap the
 * base, the stored bytes, or each other: LMC_ERR_ARG. changes->count is 0 after a failure. */
LMC_NODISCARD LMC_API lmc_status lmc_decode_delta_changes(lmc_ctx *ctx, const lmc_frame *frame,
                                                          uint64_t block_index, const void *stored,
                                                          size_t stored_nbytes, const void *base,
                                                          size_t base_nbytes, lmc_changes *changes);

/* How a plan cuts an element into a symbol, which has a code, and bits that are stored with it (docs/format.md,
 * section 4). All fields are 0 if the plan cuts no element: a delta, content that does not compress, short content. */
typedef struct lmc_cut {
    size_t struct_size;  /* sizeof(lmc_cut); set by LMC_INIT() */
    int is_rotated;      /* 1: the element is rotated left by one bit first */
    unsigned high_nbits; /* bits of the high part: 16, or 8 of an element of one byte */
    unsigned low_nbits;  /* bits at the bottom of the high part that are not part of the symbol */
    unsigned offset;     /* is added to the high part, modulo 2^high_nbits, before it is cut */
} lmc_cut;

/* Describes the cut, without the offsets of rows and columns. Error: LMC_ERR_ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_plan_cut(const lmc_plan *plan, lmc_cut *cut);

/* About how many bytes the frame will have, by the sample that the plan was made from. Cannot fail. */
LMC_API uint64_t lmc_plan_estimate(const lmc_plan *plan);

/* What the elements of a tensor were found to be: wide elements with narrow contents (docs/format.md, section 4.2). */
typedef enum lmc_form LMC_OF_INT {
    LMC_FORM_PLAIN = 0, /* nothing special */
    LMC_FORM_F16_IN_F32 =
        1, /* F32 elements that are F16 numbers, but for exceptions; likewise the next two */
    LMC_FORM_BF16_IN_F32 = 2,
    LMC_FORM_F32_IN_F64 = 3,
    LMC_FORM_PRODUCT = 4, /* products of the scale of a group and a factor: quantised and held in a float */
    LMC_FORM_PALETTE = 5  /* at most 256 values in a block or group */
} lmc_form;

#define LMC_FORM_TEXT_NBYTES 64

typedef struct lmc_form_info {
    size_t struct_size; /* sizeof(lmc_form_info); set by LMC_INIT() */
    lmc_form form;
    uint32_t group_length; /* of products and palettes: neighbouring elements of a group; else 0 */
    char text
        [LMC_FORM_TEXT_NBYTES]; /* in English, as "I8 times a scale per 64 values"; empty if it is PLAIN */
    int has_rans;               /* 1: symbols have a rANS code (docs/format.md, section 6.4) */
} lmc_form_info;

/* Describe the form that a plan has chosen, or that a frame has. Error: LMC_ERR_ARG. */
LMC_NODISCARD LMC_API lmc_status lmc_plan_form(const lmc_plan *plan, lmc_form_info *form);
LMC_NODISCARD LMC_API lmc_status lmc_frame_form(const lmc_frame *frame, lmc_form_info *form);

/* lmc_frame_read_form() needs at most this many bytes from a frame's start. */
#define LMC_FORM_NBYTES 1068

/* Describes the form of a frame by its first min(frame size, LMC_FORM_NBYTES) bytes. As with lmc_frame_read_info(),
 * nothing is allocated and the answer is unverified. diag may be NULL. Errors: those of lmc_frame_read_info(). */
LMC_NODISCARD LMC_API lmc_status lmc_frame_read_form(const void *frame, size_t nbytes, lmc_form_info *form,
                                                     lmc_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
