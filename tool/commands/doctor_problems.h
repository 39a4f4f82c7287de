/*
 * doctor_problems.h - what the command doctor found not to work, in lines.
 */
#ifndef LMC_TOOL_COMMANDS_DOCTOR_PROBLEMS_H
#define LMC_TOOL_COMMANDS_DOCTOR_PROBLEMS_H

#define DOCTOR_PROBLEMS_MAX 160
#define DOCTOR_PROBLEM_NBYTES 320

typedef struct doctor_problems {
    int count;
    char texts[DOCTOR_PROBLEMS_MAX][DOCTOR_PROBLEM_NBYTES];
} doctor_problems;

/* Adds a line; names in it are escaped already. Of too many the last ones are dropped. */
void doctor_problem(doctor_problems *problems, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
