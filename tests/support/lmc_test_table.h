/* lmc_test_table.h - a program whose tests are functions, and one more for each line of a table of inputs. */
#ifndef LMC_TEST_TABLE_H
#define LMC_TEST_TABLE_H

#include "input_table.h"
#include "lmc_test.h"

static input_line *lmc_test_lines;

/* The line that the running test has its name from. */
static const input_line *lmc_test_line(void)
{
    return input_table_find(lmc_test_lines, CU_get_current_test()->pName);
}

/* lmc_test_main() with `count` tests, and `function` for each line of the table at `path`, of which there are at least
 * `least`. */
static int lmc_test_table_main(const char *suite, const lmc_test *tests, size_t count, const char *path,
                               size_t least, void (*function)(void), int argc, char **argv)
{
    size_t line_count;
    lmc_test_lines = input_table_read(path, &line_count);
    lmc_test *const all = malloc((count + line_count) * sizeof *all);
    if (!all || line_count < least) {
        fprintf(stderr, "%s: %zu lines\n", path, line_count);
        abort();
    }
    memcpy(all, tests, count * sizeof *all);
    for (size_t i = 0; i < line_count; i++)
        all[count + i] = (lmc_test){lmc_test_lines[i].name, function};
    const int result = lmc_test_main(suite, all, count + line_count, argc, argv);
    free(all);
    input_table_free(lmc_test_lines);
    return result;
}

#endif
