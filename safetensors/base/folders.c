/*
 * folders.c - base/folders.h: paths are taken apart, and folders are looked for.
 */
#include "safetensors/base/folders.h"

#include "safetensors/base/run_list.h"
#include "safetensors/files/directories.h"
#include "safetensors/files/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h> /* qsort */
#include <string.h>

/* ---- names of steps ---- */

void st_step_name(char name[ST_STEP_NAME_NBYTES], uint64_t step)
{
    snprintf(name, ST_STEP_NAME_NBYTES, "%llu", (unsigned long long)step);
}

int st_step_is_name(const char *name, size_t nbytes, uint64_t *step)
{
    uint64_t value = 0;
    if (nbytes == 0 || nbytes >= ST_STEP_NAME_NBYTES || (name[0] == '0' && nbytes > 1))
        return 0;
    for (size_t i = 0; i < nbytes; i++) {
        if (name[i] < '0' || name[i] > '9')
            return 0;
        value = value * 10 + (uint64_t)(name[i] - '0'); /* 19 digits fit */
    }
    *step = value;
    return value <= LMC_RUN_STEP_MAX;
}

/* ---- the same folder elsewhere ---- */

int st_find_folder(const lmc_allocator *memory, const char *root, char *folder, char **place)
{
    char *name = folder;
    *place = st_duplicate(memory, root);
    int has_memory = *place != NULL;
    while (name && *place && has_memory) {
        char *const slash = strchr(name, '/');
        if (slash)
            *slash = '\0';
        char *next = lmc_path_join(memory, *place, name, "");
        has_memory = next != NULL;
        if (next && !os_is_folder(next)) {
            st_release(memory, next);
            has_memory = st_find_similar_folder(memory, *place, name, &next);
        }
        st_release(memory, *place);
        *place = next;
        if (slash)
            *slash = '/';
        name = !slash ? NULL : slash + 1;
    }
    return has_memory;
}

/* ---- stores ---- */

/* Folders above a file that may be its store: those of a model's name, and of its files. */
#define LEVELS_MAX 200

int st_find_store(const lmc_allocator *memory, const char *path, char **root)
{
    char *const true_path = st_true_path(memory, path);
    int has_memory = true_path || errno != ENOMEM;
    int is_found = 0;
    *root = true_path;
    for (unsigned i = 0; i < LEVELS_MAX && true_path && has_memory && !is_found; i++) {
        char *const slash = strrchr(true_path, '/');
        if (!slash || slash == true_path)
            break;
        *slash = '\0';
        char *const mark = lmc_path_join(memory, true_path, LMC_STORE_MARK, "");
        has_memory = mark != NULL;
        is_found = mark && os_is_file(mark);
        st_release(memory, mark);
    }
    if (is_found)
        return 1;
    st_release(memory, true_path);
    *root = NULL;
    return has_memory;
}

/* ---- neighbours ---- */

/* Orders names that are similar, by their numbers. */
static int compare_numbers(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        const size_t a_nbytes = strspn(a, "0123456789");
        const size_t b_nbytes = strspn(b, "0123456789");
        if (a_nbytes != b_nbytes)
            return a_nbytes < b_nbytes ? -1 : 1;
        const int order = memcmp(a, b, a_nbytes);
        if (order != 0)
            return order;
        a += a_nbytes > 0 ? a_nbytes : 1;
        b += b_nbytes > 0 ? b_nbytes : 1;
    }
    return 0;
}

/* Earlier ones first, the nearest of them first; then later ones. */
typedef struct named {
    char *name;
    int order; /* relative to the own name: below 0 for earlier ones */
} named;

static named *names_of(const st_neighbours *neighbours)
{
    return (named *)(void *)neighbours->room.bytes;
}

static int compare_named(const void *left, const void *right)
{
    const named *const a = left;
    const named *const b = right;
    if ((a->order < 0) != (b->order < 0))
        return a->order < 0 ? -1 : 1;
    const int order = compare_numbers(a->name, b->name);
    if (order != 0)
        return a->order < 0 ? -order : order;
    return strcmp(a->name, b->name);
}

static int add_name(st_neighbours *neighbours, const char *name)
{
    const named one = {st_duplicate(neighbours->memory, name), compare_numbers(name, neighbours->own)};
    unsigned char *const place = one.name ? st_buffer_extend(neighbours->memory, &neighbours->room,
                                                             neighbours->count * sizeof one, sizeof one)
                                          : NULL;
    neighbours->lacks_memory |= !place;
    if (!place) {
        st_release(neighbours->memory, one.name);
        return -1;
    }
    memcpy(place, &one, sizeof one);
    neighbours->count++;
    return 0;
}

/* Adds a name in the root if it is that of a neighbour. */
static int take_name(void *user, const char *name)
{
    st_neighbours *const neighbours = user;
    char *const own = neighbours->own;
    uint64_t step = 0;
    int is_wanted = 0;
    if (neighbours->is_first_known && strcmp(name, names_of(neighbours)[0].name) == 0)
        return 0;
    if (neighbours->is_run) {
        is_wanted = st_step_is_name(name, strlen(name), &step) && step < neighbours->step;
    } else if (strcmp(name, own) != 0 && st_is_similar_name(name, own)) {
        is_wanted = 1;
    } else { /* its own name without ".lmc" */
        const size_t stem = strlen(own) - strlen(LMC_ARCHIVE_SUFFIX);
        own[stem] = '\0';
        is_wanted = strcmp(name, own) != 0 && st_is_similar_name(name, own);
        own[stem] = LMC_ARCHIVE_SUFFIX[0];
    }
    return is_wanted ? add_name(neighbours, name) : 0;
}

/* 1 if the directory is that of a run; -1 if memory ran out. */
static int is_run(const lmc_allocator *memory, const char *path)
{
    char *const list = lmc_path_join(memory, path, LMC_RUN_LIST, "");
    const int answer = !list ? -1 : os_is_file(list);
    st_release(memory, list);
    return answer;
}

/* Finds the folder that has neighbours, from the end of the path on; neighbours->own stays NULL if there is none. A
 * folder that is named as a step is one without a run.json, too, if nothing else is found: the list may be lost. */
static void find_own(st_neighbours *neighbours, char *path)
{
    char *unlisted = NULL;
    uint64_t unlisted_step = 0;
    char *end = strrchr(path, '/'); /* behind it stands the file's name */
    while (end && end != path && !neighbours->own) {
        *end = '\0';
        char *const begin = strrchr(path, '/');
        int answer = 0;
        if (begin && begin != path && st_step_is_name(begin + 1, strlen(begin + 1), &neighbours->step)) {
            *begin = '\0';
            answer = is_run(neighbours->memory, path);
            *begin = '/';
            if (!unlisted) {
                unlisted = begin + 1;
                unlisted_step = neighbours->step;
            }
        }
        neighbours->is_run = answer > 0;
        if (begin && (answer > 0 || lmc_is_archive_name(begin + 1)))
            neighbours->own = begin + 1;
        *end = '/';
        end = begin;
        neighbours->lacks_memory = answer < 0;
        if (answer < 0)
            return;
    }
    if (!neighbours->own && unlisted) {
        neighbours->own = unlisted;
        neighbours->step = unlisted_step;
        neighbours->is_run = 1;
    }
}

void st_neighbours_find(st_neighbours *neighbours, const lmc_allocator *memory, const char *path)
{
    uint64_t base = 0;
    char first[ST_STEP_NAME_NBYTES];
    *neighbours = (st_neighbours){.memory = memory, .root = st_true_path(memory, path)};
    neighbours->lacks_memory = !neighbours->root && errno == ENOMEM;
    if (neighbours->root)
        find_own(neighbours, neighbours->root);
    if (!neighbours->own || neighbours->lacks_memory)
        return;
    char *const inner = strchr(neighbours->own, '/');
    char *const name = strrchr(inner, '/'); /* the file's own */
    *name = '\0';
    *inner = '\0';
    neighbours->inner = name == inner ? name : inner + 1;
    neighbours->own[-1] = '\0';
    if (!neighbours->is_run || !st_run_list_read_base(memory, neighbours->root, neighbours->step, &base))
        return;
    st_step_name(first, base);
    neighbours->is_first_known = add_name(neighbours, first) == 0;
}

void st_neighbours_free(st_neighbours *neighbours)
{
    for (size_t i = 0; i < neighbours->count; i++)
        st_release(neighbours->memory, names_of(neighbours)[i].name);
    st_buffer_free(neighbours->memory, &neighbours->room);
    st_release(neighbours->memory, neighbours->root);
    *neighbours = (st_neighbours){0};
}

int st_neighbours_folder(st_neighbours *neighbours, size_t index, char **folder)
{
    const lmc_allocator *const memory = neighbours->memory;
    *folder = NULL;
    if (index == neighbours->count && neighbours->own && !neighbours->is_listed &&
        !neighbours->lacks_memory) {
        const size_t first = (size_t)neighbours->is_first_known; /* it stays the first */
        const int fd = os_open_folder(neighbours->root);
        if (fd >= 0) {
            os_visit_folder(fd, take_name, neighbours);
            os_close(fd);
        }
        neighbours->is_listed = 1;
        if (neighbours->count > first + 1)
            qsort(names_of(neighbours) + first, neighbours->count - first, sizeof(named), compare_named);
    }
    if (index >= neighbours->count || neighbours->lacks_memory)
        return 0;
    char *const root = lmc_path_join(memory, neighbours->root, names_of(neighbours)[index].name, "");
    neighbours->lacks_memory =
        !root ||
        !st_find_folder(memory, root, neighbours->inner[0] == '\0' ? NULL : neighbours->inner, folder);
    st_release(memory, root);
    return !neighbours->lacks_memory;
}
