/*
 * folders.c - base/folders.h: paths are taken apart, and folders are looked for.
 */
#include "safetensors/base/folders.h"

#include "safetensors/base/run_list.h"
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
        if (next && !lmc_is_directory(next)) {
            st_release(memory, next);
            has_memory = os_find_similar_folder(memory, *place, name, &next);
        }
        st_release(memory, *place);
        *place = next;
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

static int take_name(void *user, const char *name)
{
    search *const search = user;
    uint64_t step = 0;
    int is_wanted = 0;
    if (search->is_run) {
        is_wanted = st_step_is_name(name, strlen(name), &step) && step < search->step;
    } else if (strcmp(name, search->own) != 0 && os_is_similar_name(name, search->own)) {
        is_wanted = 1;
    } else { /* its own name without ".lmc" */
        const size_t stem = strlen(search->own) - strlen(LMC_ARCHIVE_SUFFIX);
        search->own[stem] = '\0';
        is_wanted = strcmp(name, search->own) != 0 && os_is_similar_name(name, search->own);
        search->own[stem] = LMC_ARCHIVE_SUFFIX[0];
    }
    if (!is_wanted)
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
    char *const list = lmc_path_join(memory, path, ST_RUN_LIST_NAME, "");
    const int answer = !list ? -1 : lmc_is_file(list);
    st_release(memory, list);
    return answer;
}

/* Finds the folder that has neighbours, from the end of the path on; search->own stays NULL if there is none. A folder
 * that is named as a step is one without a run.json, too, if nothing else is found: the list may be lost. Returns 0 if
 * memory ran out. */
static int find_own(search *search)
{
    char *unlisted = NULL;
    uint64_t unlisted_step = 0;
    char *end = strrchr(search->path, '/'); /* behind it stands the file's name */
    while (end && end != search->path && !search->own) {
        *end = '\0';
        char *const begin = strrchr(search->path, '/');
        int answer = 0;
        if (begin && begin != search->path && st_step_is_name(begin + 1, strlen(begin + 1), &search->step)) {
            *begin = '\0';
            answer = is_run(search->memory, search->path);
            *begin = '/';
            if (!unlisted) {
                unlisted = begin + 1;
                unlisted_step = search->step;
            }
        }
        search->is_run = answer > 0;
        if (begin && (answer > 0 || lmc_is_archive_name(begin + 1)))
            search->own = begin + 1;
        *end = '/';
        if (answer < 0)
            return 0;
        end = begin;
    }
    if (!search->own && unlisted) {
        search->own = unlisted;
        search->step = unlisted_step;
        search->is_run = 1;
    }
    return 1;
}

/* Lists the folder, and puts the names into their order, behind the one that run.json tells if there is one. Returns 0
 * if memory ran out. */
static int add_others(search *search, st_neighbours *neighbours)
{
    const int fd = lmc_open_folder(neighbours->root);
    const int result = fd < 0 ? 0 : lmc_visit_folder(fd, take_name, search);
    if (fd >= 0)
        os_close(fd);
    named *const found = (named *)(void *)search->room.bytes;
    char **const names =
        result == -1 ? NULL : st_allocate_zeroed(search->memory, search->count + 1, sizeof *names);
    if (names && search->count > 1)
        qsort(found, search->count, sizeof *found, compare_named);
    if (names && neighbours->count > 0)
        names[0] = neighbours->names[0];
    for (size_t i = 0; i < search->count && names; i++) {
        if (neighbours->is_first_known && strcmp(found[i].name, names[0]) == 0)
            continue; /* it is the first */
        names[neighbours->count++] = found[i].name;
        found[i].name = NULL;
    }
    if (names) {
        st_release(search->memory, neighbours->names);
        neighbours->names = names;
    }
    for (size_t i = 0; i < search->count; i++)
        st_release(search->memory, found[i].name);
    st_buffer_free(search->memory, &search->room);
    return names != NULL;
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
        neighbours->is_run = search.is_run;
        search.own[-1] = '\0';
        neighbours->root = st_duplicate(memory, search.path);
        has_memory = neighbours->inner && neighbours->root;
        uint64_t base = 0;
        /* the base that run.json tells comes first */
        if (has_memory && search.is_run &&
            st_run_list_read_base(memory, neighbours->root, search.step, &base)) {
            char first[ST_STEP_NAME_NBYTES];
            st_step_name(first, base);
            neighbours->names = st_allocate_zeroed(memory, 1, sizeof *neighbours->names);
            has_memory = neighbours->names && (neighbours->names[0] = st_duplicate(memory, first)) != NULL;
            neighbours->is_first_known = has_memory;
            neighbours->count = (size_t)has_memory;
        }
        if (has_memory && !(neighbours->is_first_known && is_known_enough))
            has_memory = add_others(&search, neighbours);
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
    char *const root = lmc_path_join(memory, neighbours->root, neighbours->names[index], "");
    if (!root)
        return 0;
    const int has_memory =
        st_find_folder(memory, root, neighbours->inner[0] == '\0' ? NULL : neighbours->inner, folder);
    st_release(memory, root);
    return has_memory;
}
