/*
 * narrow_plan.h - finds out by a sample whether the elements of a tensor are made from narrow ones, and how. The narrow
 * elements are planned like any other content (plain_plan.h).
 */
#ifndef LMC_CODEC_NARROW_NARROW_PLAN_H
#define LMC_CODEC_NARROW_NARROW_PLAN_H

#include "codec/common/input.h"
#include "codec/narrow/palette.h"
#include "codec/narrow/product.h"

/* Elements that a form is judged by at most. */
#define LMC_NARROW_SAMPLE_VALUES 65536

/* What a decision finds: the form, and what the encoder of blocks needs beside it. */
typedef struct lmc_narrow_choice {
    lmc_narrow narrow;      /* is_used: there is a form */
    lmc_factor_order order; /* of products ... */
    float likely;           /* ... and the likely magnitude of the largest factor */
    /* One palette for the whole tensor: its values in a sample, most frequent first. All blocks number them so. */
    unsigned palette_count;
    uint8_t palette[LMC_PALETTE_VALUES_MAX * sizeof(uint64_t)];
    double side_nbits; /* about what groups and exceptions take, in bits an element */
} lmc_narrow_choice;

/* Working memory of one decision; its content is undefined before. lmc_narrow_content() needs it afterwards. */
typedef struct lmc_narrow_work {
    const lmc_content *content;
    const lmc_narrow_choice *choice;
    lmc_narrow_choice tried;
    size_t sample_count;
    uint8_t numbers[LMC_NARROW_SAMPLE_VALUES]; /* of the sampled elements, by the form that was chosen ... */
    uint8_t tried_numbers[LMC_NARROW_SAMPLE_VALUES]; /* ... or is tried */
} lmc_narrow_work;

/* Looks for a form. buffer: LMC_NARROW_SAMPLE_VALUES elements of 8 bytes, any content. Errors: what the content's read
 * returns. */
LMC_NODISCARD lmc_status lmc_narrow_decide(const lmc_content *content, lmc_narrow_work *work, uint8_t *buffer,
                                           lmc_narrow_choice *choice);

/* The narrow elements of a content for which a form was found, as content of their own. Numbers of factors and palettes
 * are those of the sample, spread over the tensor. */
lmc_content lmc_narrow_content(const lmc_content *content, const lmc_narrow_choice *choice,
                               lmc_narrow_work *work);

#endif
