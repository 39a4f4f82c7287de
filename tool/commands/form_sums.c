/* form_sums.c - counts and prints the forms of tensors. */
#include "tool/commands/form_sums.h"

#include "tool/inputs.h"

#include <stdio.h>
#include <string.h>

static void add(cli_form_sum *sum, uint64_t nbytes, uint64_t stored_nbytes)
{
    sum->tensor_count++;
    sum->nbytes += nbytes;
    sum->stored_nbytes += stored_nbytes;
}

void cli_form_sums_add(cli_form_sums *sums, const lmc_form_info *form, uint64_t nbytes,
                       uint64_t stored_nbytes)
{
    unsigned i = 0;
    if (form->has_rans)
        add(&sums->rans, nbytes, stored_nbytes);
    if (form->form == LMC_FORM_PLAIN)
        return;
    while (i < sums->form_count && i < CLI_FORM_COUNT_MAX && strcmp(sums->forms[i].text, form->text) != 0)
        i++;
    if (i == sums->form_count) {
        snprintf(sums->forms[i].text, sizeof sums->forms[i].text, "%s",
                 i < CLI_FORM_COUNT_MAX ? form->text : "other forms");
        sums->form_count++;
    }
    add(&sums->forms[i], nbytes, stored_nbytes);
}

static void show_sum(const char *what, const char *text, const cli_form_sum *sum)
{
    printf("%-13s  %s%s%llu tensors, %llu bytes, stored %llu", what, text, *text == '\0' ? "" : ": ",
           (unsigned long long)sum->tensor_count, (unsigned long long)sum->nbytes,
           (unsigned long long)sum->stored_nbytes);
    if (sum->nbytes > 0)
        printf(", ratio %.4f", (double)sum->stored_nbytes / (double)sum->nbytes);
    printf("\n");
}

void cli_form_sums_show(const cli_form_sums *sums)
{
    for (unsigned i = 0; i < sums->form_count; i++)
        show_sum("form:", sums->forms[i].text, &sums->forms[i]);
    if (sums->rans.tensor_count > 0)
        show_sum("rANS codes:", "", &sums->rans);
}

static void print_json_sum(const cli_form_sum *sum)
{
    printf("{\"tensors\":%llu,\"nbytes\":%llu,\"stored_nbytes\":%llu}", (unsigned long long)sum->tensor_count,
           (unsigned long long)sum->nbytes, (unsigned long long)sum->stored_nbytes);
}

void cli_form_sums_print_json(const cli_form_sums *sums)
{
    printf("\"forms\":{");
    for (unsigned i = 0; i < sums->form_count; i++) {
        printf(i == 0 ? "" : ",");
        cli_json_text(sums->forms[i].text);
        printf(":");
        print_json_sum(&sums->forms[i]);
    }
    printf("},\"rans\":");
    print_json_sum(&sums->rans);
}

void cli_form_print_json(const lmc_form_info *form)
{
    printf(",\"form\":");
    cli_json_text(form->form == LMC_FORM_PLAIN ? NULL : form->text);
    printf(",\"rans\":%s", form->has_rans ? "true" : "false");
}

void cli_form_show(const lmc_form_info *form)
{
    if (form->form != LMC_FORM_PLAIN)
        printf(", %s", form->text);
    if (form->has_rans)
        printf(", rANS");
}
