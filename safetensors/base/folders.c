/*
 * folders.c - base/folders.h: paths are taken apart, and folders are looked for.
 */
#include "safetensors/base/folders.h"

#include "safetensors/base/run_list.h"
#include "safetensors/common/names.h"
#include "safetensors/os/dir.h"
#include "safetensors/os/folder.h"

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
    return value <= LMC_ST_RUN_STEP_MAX;
}

/* ---- the same folder elsewhere ---- */

/* Goes from *place into the folder `name` there, or into the one that differs from it in digits only. *place is
 * replaced; NULL: there is no such folder. Returns 0 if memory ran out. */
static int enter_folder(const lmc_allocator *memory, char **place, const char *name)
{
    char *next = os_path_join(memory, *place, name, "");
    int has_memory = next != NULL;
    if (next && !os_is_directory(next)) {
        st_release(memory, next);
        has_memory = os_find_similar_folder(memory, *place, name, &next);
    }
    st_release(memory, *place);
    *place = next;
    return has_memory;
}

int st_find_folder(const lmc_allocator *memory, const char *root, char *folder, char **place)
{
    char *name = folder;
    *place = st_duplicate(memory, root);
    int has_memory = *place != NULL;
    while (name && *place && has_memory) {
        char *const slash = strchr(name, '/');
        if (slash)
            *slash = '\0';
        has_memory = enter_folder(memory, place, name);
        if (slash)
            *slash = '/';
        name = !slash ? NULL : slash + 1;
    }
    return has_memory;
}

/* ---- neighbours ---- */

/* A search for neighbours. */
typedef struct search {
    const lmc_allocator *memory;
    char *path;     /* of the file, without links; cut for moments */
    char *own;      /* in it: the name of the folder that has neighbours */
    uint64_t step;  /* if that is a step */
    int is_run;     /* it is */
    st_buffer room; /* of the names */
    size_t count;
} search;

/* Length of a name without ".lmc". */
static size_t stem_length(const char *name)
{
    const size_t length = strlen(name);
    return st_is_archive_name(name) ? length - strlen(ST_ARCHIVE_SUFFIX) : length;
}

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

static int is_neighbour(const search *search, const char *name)
{
    uint64_t step = 0;
    if (search->is_run)
        return st_step_is_name(name, strlen(name), &step) && step < search->step;
    const size_t stem = stem_length(search->own);
    const char suffix = search->own[stem];
    search->own[stem] = '\0';
    const int is_plain = strcmp(name, search->own) != 0 && os_is_similar_name(name, search->own);
    search->own[stem] = suffix;
    return is_plain || (strcmp(name, search->own) != 0 && os_is_similar_name(name, search->own));
}

static int take_name(void *user, const char *name)
{
    search *const search = user;
    if (!is_neighbour(search, name))
        return 0;
    const named one = {st_duplicate(search->memory, name), compare_numbers(name, search->own)};
    const size_t used = search->count * sizeof one;
    unsigned char *const place =
        one.name ? st_buffer_extend(search->memory, &search->room, used, sizeof one) : NULL;
    if (!place) {
        st_release(search->memory, one.name);
        return -1;
    }
    memcpy(place, &one, sizeof one);
    search->count++;
    return 0;
}

/* 1 if the directory is that of a run; -1 if memory ran out. */
static int is_run(const lmc_allocator *memory, const char *path)
{
    char *const list = os_path_join(memory, path, ST_RUN_LIST_NAME, "");
    const int answer = !list ? -1 : os_is_file(list);
    st_release(memory, list);
    return answer;
}

/* Finds the folder that has neighbours, from the end of the path on; search->own stays NULL if there is none. Returns 0
 * if memory ran out. */
static int find_own(search *search)
{
    char *end = strrchr(search->path, '/'); /* behind it stands the file's name */
    while (end && end != search->path && !search->own) {
        *end = '\0';
        char *const begin = strrchr(search->path, '/');
        int answer = 0;
        if (begin && begin != search->path) {
            *begin = '\0';
            answer = st_step_is_name(begin + 1, strlen(begin + 1), &search->step)
                         ? is_run(search->memory, search->path)
                         : 0;
            *begin = '/';
        }
        search->is_run = answer > 0;
        if (begin && (answer > 0 || st_is_archive_name(begin + 1)))
            search->own = begin + 1;
        *end = '/';
        if (answer < 0)
            return 0;
        end = begin;
    }
    return 1;
}

/* The base that run.json tells comes first. Returns 0 if memory ran out. */
static int add_known(const search *search, st_neighbours *neighbours)
{
    uint64_t base = 0;
    char name[ST_STEP_NAME_NBYTES];
    if (!search->is_run || !st_run_list_read_base(search->memory, neighbours->root, search->step, &base))
        return 1;
    st_step_name(name, base);
    neighbours->names[0] = st_duplicate(search->memory, name);
    neighbours->is_first_known = 1;
    neighbours->count = 1;
    return neighbours->names[0] != NULL;
}

/* Puts the names into their order, behind the one that run.json tells. */
static void add_others(const search *search, st_neighbours *neighbours)
{
    named *const found = (named *)(void *)search->room.bytes;
    if (search->count > 1)
        qsort(found, search->count, sizeof *found, compare_named);
    for (size_t i = 0; i < search->count && i < ST_NEIGHBOURS_MAX; i++) {
        if (neighbours->is_first_known && strcmp(found[i].name, neighbours->names[0]) == 0)
            continue; /* it is the first */
        neighbours->names[neighbours->count++] = found[i].name;
        found[i].name = NULL;
    }
}

/* Returns 0 if memory ran out. */
static int list_others(search *search, st_neighbours *neighbours)
{
    const int fd = os_open_folder(neighbours->root);
    const int result = fd < 0 ? 0 : os_folder_visit(fd, take_name, search);
    if (fd >= 0)
        os_close(fd);
    if (result != -1)
        add_others(search, neighbours);
    named *const found = (named *)(void *)search->room.bytes;
    for (size_t i = 0; i < search->count; i++)
        st_release(search->memory, found[i].name);
    st_buffer_free(search->memory, &search->room);
    return result != -1;
}

/* Returns 0 if memory ran out. */
static int add_neighbours(search *search, int is_known_enough, st_neighbours *neighbours)
{
    neighbours->names = st_allocate_zeroed(search->memory, ST_NEIGHBOURS_MAX + 1, sizeof *neighbours->names);
    if (!neighbours->names || !add_known(search, neighbours))
        return 0;
    return (neighbours->is_first_known && is_known_enough) || list_others(search, neighbours);
}

int st_neighbours_find(const lmc_allocator *memory, const char *path, int is_known_enough,
                       st_neighbours *neighbours)
{
    search search = {.memory = memory, .path = os_true_path(memory, path)};
    *neighbours = (st_neighbours){0};
    if (!search.path)
        return errno != ENOMEM;
    int has_memory = find_own(&search);
    if (has_memory && search.own) {
        char *const inner = strchr(search.own, '/');
        char *const name = strrchr(inner, '/'); /* the file's own */
        *name = '\0';
        *inner = '\0';
        neighbours->inner = st_duplicate(memory, name == inner ? "" : inner + 1);
        search.own[-1] = '\0';
        neighbours->root = st_duplicate(memory, search.path);
        has_memory =
            neighbours->inner && neighbours->root && add_neighbours(&search, is_known_enough, neighbours);
    }
    st_release(memory, search.path);
    return has_memory;
}

void st_neighbours_free(const lmc_allocator *memory, st_neighbours *neighbours)
{
    for (size_t i = 0; i < neighbours->count; i++)
        st_release(memory, neighbours->names[i]);
    st_release(memory, neighbours->names);
    st_release(memory, neighbours->root);
    st_release(memory, neighbours->inner);
    *neighbours = (st_neighbours){0};
}

int st_neighbours_folder(const lmc_allocator *memory, const st_neighbours *neighbours, size_t index,
                         char **folder)
{
    *folder = NULL;
    char *const root = os_path_join(memory, neighbours->root, neighbours->names[index], "");
    if (!root)
        return 0;
    const int has_memory =
        st_find_folder(memory, root, neighbours->inner[0] == '\0' ? NULL : neighbours->inner, folder);
    st_release(memory, root);
    return has_memory;
}
