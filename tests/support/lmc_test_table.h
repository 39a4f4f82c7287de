/* lmc_test_table.h - a program whose tests are functions, and one more for each line of a table of inputs. */
#ifndef LMC_TEST_TABLE_H
#define LMC_TEST_TABLE_H

#include "input_table.h"
#include "lmc_test.h"

#include <limits.h>

static input_line *lmc_test_lines;

/* The line that the running test has its name from. */
static const input_line *lmc_test_line(void)
{
    return input_table_find(lmc_test_lines, CU_get_current_test()->pName);
}

/* lmc_test_main() with one more test, `function`, for each line of the table at `path`, of which there are at least
 * `least`. */
static int lmc_test_table_main(const char *suite, const char *path, size_t least, void (*function)(void),
                               int argc, char **argv)
{
    size_t line_count;
    lmc_test_lines = input_table_read(path, &line_count);
    lmc_test *const tests = malloc(line_count * sizeof *tests);
    if (!tests || line_count < least) {
        fprintf(stderr, "%s: %zu lines\n", path, line_count);
        abort();
    }
    for (size_t i = 0; i < line_count; i++) {
        tests[i] = (lmc_test){lmc_test_lines[i].name, function, INT_MAX, NULL};
        lmc_test_list(&tests[i]);
    }
    const int result = lmc_test_main(suite, argc, argv);
    free(tests);
    input_table_free(lmc_test_lines);
    return result;
}

#endif
