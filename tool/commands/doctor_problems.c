/* doctor_problems.c - the list of problems. */
#include "tool/commands/doctor_problems.h"

#include <stdarg.h>
#include <stdio.h>

void doctor_problem(doctor_problems *problems, const char *format, ...)
{
    va_list arguments;
    if (problems->count == DOCTOR_PROBLEMS_MAX)
        return;
    va_start(arguments, format);
    vsnprintf(problems->texts[problems->count++], DOCTOR_PROBLEM_NBYTES, format, arguments);
    va_end(arguments);
}
