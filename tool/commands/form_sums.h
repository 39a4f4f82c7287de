/*
 * form_sums.h - how many tensors of a file have narrow contents or rANS codes, and how many bytes these are: what
 * "lmc-st info" and "lmc-st analyze" say of the forms of a file as a whole.
 */
#ifndef LMC_TOOL_COMMANDS_FORM_SUMS_H
#define LMC_TOOL_COMMANDS_FORM_SUMS_H

#include "lmc_experimental.h"

/* Forms with different texts that are listed; others are counted together. */
#define CLI_FORM_COUNT_MAX 32

typedef struct cli_form_sum {
    char text[LMC_FORM_TEXT_NBYTES];
    uint64_t tensor_count, nbytes, stored_nbytes;
} cli_form_sum;

/* Of a file; all 0 at the start. */
typedef struct cli_form_sums {
    cli_form_sum forms[CLI_FORM_COUNT_MAX + 1]; /* in the order of their first tensors */
    unsigned form_count;
    cli_form_sum rans; /* tensors with rANS codes, whatever their form */
} cli_form_sums;

/* Adds a tensor. */
void cli_form_sums_add(cli_form_sums *sums, const lmc_form_info *form, uint64_t nbytes,
                       uint64_t stored_nbytes);

/* Prints a line for each form and one for rANS codes; none for what there is not. */
void cli_form_sums_show(const cli_form_sums *sums);

/* Prints the members "forms" and "rans" of an object. */
void cli_form_sums_print_json(const cli_form_sums *sums);

/* Prints ",", and the members "form" and "rans" of one tensor. */
void cli_form_print_json(const lmc_form_info *form);

/* Prints ", " and what the form and codes of a tensor are, or nothing. */
void cli_form_show(const lmc_form_info *form);

#endif
