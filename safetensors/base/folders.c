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

/* Earlier steps that are looked at. The base was the nearest of them, unless others came between later on. */
#define EARLIER_STEPS_MAX LMC_ST_CHAIN_MAX

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

/* ---- a file of a run ---- */

/* 1 if the path, cut at `end`, is that of a run. Returns -1 if memory ran out. */
static int is_run(const lmc_allocator *memory, char *path, char *end)
{
    *end = '\0';
    char *const list = os_path_join(memory, path, ST_RUN_LIST_NAME, "");
    *end = '/';
    const int answer = !list ? -1 : os_is_file(list);
    st_release(memory, list);
    return answer;
}

/* Finds the slash in front of the step's folder, from the end of the path on; *found stays NULL if there is none.
 * Returns 0 if memory ran out. */
static int find_step(const lmc_allocator *memory, char *path, char **found, uint64_t *step)
{
    char *end = strrchr(path, '/'); /* behind it stands the file's name */
    while (end && end != path && !*found) {
        *end = '\0';
        char *const begin = strrchr(path, '/');
        const int is_step = begin && begin != path && st_step_is_name(begin + 1, strlen(begin + 1), step);
        *end = '/';
        const int answer = is_step ? is_run(memory, path, begin) : 0;
        if (answer < 0)
            return 0;
        *found = answer ? begin : NULL;
        end = begin;
    }
    return 1;
}

/* The steps of a run that are smaller than `own`. */
typedef struct step_list {
    const lmc_allocator *memory;
    st_buffer room;
    size_t count;
    uint64_t own;
} step_list;

static int take_step(void *user, const char *name)
{
    step_list *const list = user;
    uint64_t step = 0;
    if (!st_step_is_name(name, strlen(name), &step) || step >= list->own)
        return 0;
    unsigned char *const place =
        st_buffer_extend(list->memory, &list->room, list->count * sizeof step, sizeof step);
    if (!place)
        return -1;
    memcpy(place, &step, sizeof step);
    list->count++;
    return 0;
}

static int compare_falling(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;
    return a > b ? -1 : a < b;
}

/* The base of step `own` as run.json has it. Returns 0 if it does not tell. */
static int find_known_base(const lmc_allocator *memory, const char *run, uint64_t own, uint64_t *base)
{
    st_run_list list;
    lmc_st_diag unused = {0};
    const lmc_st_run_step *step = NULL;
    if (st_run_list_read(&list, memory, run, &unused) == LMC_OK)
        step = st_run_list_find(&list, own);
    const int is_known = step && step->has_base && step->base != LMC_ST_RUN_UNKNOWN;
    *base = is_known ? step->base : 0;
    st_run_list_free(&list);
    return is_known;
}

/* Returns 0 if memory ran out. */
static int list_steps(const lmc_allocator *memory, st_run_place *place, uint64_t own)
{
    step_list list = {.memory = memory, .own = own};
    uint64_t known = 0;
    const int fd = os_open_folder(place->run);
    int result = fd < 0 ? 0 : os_folder_visit(fd, take_step, &list);
    if (fd >= 0)
        os_close(fd);
    if (list.count > 1)
        qsort(list.room.bytes, list.count, sizeof known, compare_falling);
    list.count = list.count < EARLIER_STEPS_MAX ? list.count : EARLIER_STEPS_MAX;
    place->is_first_known = find_known_base(memory, place->run, own, &known);
    if (place->is_first_known && result == 0) {
        result = st_buffer_extend(memory, &list.room, list.count * sizeof known, sizeof known) ? 0 : -1;
        if (result == 0) {
            memmove(list.room.bytes + sizeof known, list.room.bytes, list.count * sizeof known);
            memcpy(list.room.bytes, &known, sizeof known);
            list.count++;
        }
    }
    place->steps = (uint64_t *)(void *)list.room.bytes;
    place->step_count = list.count;
    return result != -1;
}

int st_run_place_find(const lmc_allocator *memory, const char *path, st_run_place *place)
{
    char *slash = NULL;
    uint64_t own = 0;
    *place = (st_run_place){0};
    char *const true_path = os_true_path(memory, path);
    if (!true_path)
        return errno != ENOMEM;
    const int has_memory = find_step(memory, true_path, &slash, &own);
    if (!has_memory || !slash) {
        st_release(memory, true_path);
        return has_memory;
    }
    char *const inner = strchr(slash + 1, '/') + 1;
    char *const name = strrchr(true_path, '/');
    name[name >= inner ? 0 : 1] = '\0'; /* the file's name is not wanted */
    *slash = '\0';
    place->run = true_path;
    place->inner = st_duplicate(memory, name >= inner ? inner : "");
    return place->inner && list_steps(memory, place, own);
}

void st_run_place_free(const lmc_allocator *memory, st_run_place *place)
{
    st_release(memory, place->run);
    st_release(memory, place->steps);
    st_release(memory, place->inner);
    *place = (st_run_place){0};
}

int st_run_place_folder(const lmc_allocator *memory, const st_run_place *place, size_t index, char **folder)
{
    char name[ST_STEP_NAME_NBYTES];
    st_step_name(name, place->steps[index]);
    *folder = NULL;
    char *const root = os_path_join(memory, place->run, name, "");
    if (!root)
        return 0;
    const int has_memory =
        st_find_folder(memory, root, place->inner[0] == '\0' ? NULL : place->inner, folder);
    st_release(memory, root);
    return has_memory;
}
