/*
 * step_name.c - lmc_run.h: the step that the name of a snapshot tells.
 */
#include "common/number.h"
#include "lmc_run.h"
#include "os/path.h"

#include <string.h>
#include <strings.h> /* strncasecmp */

static const char *const keywords[] = {"step", "checkpoint", "iter", "epoch"};
#define KEYWORD_COUNT (sizeof keywords / sizeof keywords[0])

/* A part of a name. */
typedef struct part {
    const char *begin, *end;
} part;

static int is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* The last digits that follow the keyword; an empty part if there are none. */
static part find_after(part name, const char *keyword)
{
    const size_t length = strlen(keyword);
    part found = {name.end, name.end};
    for (const char *at = name.begin; at < name.end && (size_t)(name.end - at) > length; at++) {
        if (strncasecmp(at, keyword, length) != 0)
            continue;
        const char *digits = at + length;
        if (*digits == '-' || *digits == '_' || *digits == '=')
            digits++;
        const char *end = digits;
        while (end < name.end && is_digit(*end))
            end++;
        if (end > digits)
            found = (part){digits, end};
    }
    return found;
}

/* Goes back over digits before `end`; returns where they begin. */
static const char *digits_before(part name, const char *end)
{
    while (end > name.begin && is_digit(end[-1]))
        end--;
    return end;
}

/* The last digits, without endings that begin with a letter (".bf16.safetensors") and "-00001-of-00002". */
static part find_last(part name)
{
    static const char of[] = "-of-";
    const size_t length = sizeof of - 1;
    for (const char *at = name.end; at > name.begin + 1; at--) {
        if (at[-1] != '.')
            continue;
        const char next = at == name.end ? '.' : (char)(*at | 0x20);
        if (next < 'a' || next > 'z')
            break;
        name.end = at - 1;
    }
    const char *const total = digits_before(name, name.end);
    if (total < name.end && (size_t)(total - name.begin) >= length &&
        memcmp(total - length, of, length) == 0) {
        const char *const number = digits_before(name, total - length);
        if (number == name.begin)
            name.end = number;
        else if (number < total - length && (number[-1] == '-' || number[-1] == '_'))
            name.end = number - 1;
    }
    while (name.end > name.begin && !is_digit(name.end[-1]))
        name.end--;
    name.begin = digits_before(name, name.end);
    return name;
}

int lmc_run_step_of_name(const char *path, uint64_t *step)
{
    size_t nbytes = 0;
    const char *const last = lmc_path_name(path, &nbytes);
    const part name = {last, last + nbytes};
    part digits = {name.end, name.end};
    for (size_t i = 0; i < KEYWORD_COUNT && digits.begin == digits.end; i++)
        digits = find_after(name, keywords[i]);
    if (digits.begin == digits.end)
        digits = find_last(name);
    uint64_t number = 0;
    if (!lmc_read_number(&digits.begin, digits.end, &number) || number > LMC_RUN_STEP_MAX)
        return 0;
    *step = number;
    return 1;
}
