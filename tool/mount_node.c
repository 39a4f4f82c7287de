/*
 * mount_node.c - which names a folder of a mounted source shows. A directory is a converted one if its name ends in
 * ".lmc", or if it has the list of copies that a conversion writes; everything in that is what restoring it would give.
 * Other directories may hold archives and converted directories, as stores and runs do; their own lists are not shown.
 */
#include "tool/mount_node.h"
#include "lmc_store.h"

#include "common/own_files.h"
#include "tool/cli.h"
#include "tool/tool_path.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A change of a folder after this time has another time than the last one: far more than the clock of a system's file
 * times needs for a step. */
#define SETTLED_NS ((uint64_t)50000000)

#define SUFFIX_NBYTES (sizeof LMC_ARCHIVE_SUFFIX - 1)

/* ---- nodes ---- */

char *mount_path(const mount_nodes *nodes, const mount_node *node)
{
    return lmc_path_join(&lmc_memory_default, nodes->source, node->path, "");
}

/* The list, with room for one more: moved and twice as long if it is full. NULL: out of memory. */
static void *make_room(void *list, size_t count, size_t *capacity, size_t element_nbytes)
{
    if (count < *capacity)
        return list;
    const size_t doubled = 2 * *capacity + 8;
    void *const grown = realloc(list, doubled * element_nbytes);
    *capacity = grown ? doubled : *capacity;
    return grown;
}

static void free_node(mount_node *node)
{
    if (!node)
        return;
    free(node->name);
    free(node->path);
    free(node->children);
    free(node);
}

static uint32_t place_of(uint64_t number)
{
    return (uint32_t)number - (uint32_t)OS_MOUNT_ROOT;
}

void mount_nodes_start(mount_nodes *nodes, const char *source, const char *mountpoint)
{
    *nodes = (mount_nodes){.source = source, .mountpoint = mountpoint, .first_free = MOUNT_NO_PLACE};
}

mount_node *mount_find_number(const mount_nodes *nodes, uint64_t number)
{
    mount_node *const node = nodes->places[place_of(number)].node;
    assert(node && node->number == number);
    return node;
}

mount_node *mount_node_new(mount_nodes *nodes, mount_kind kind, const char *name, size_t name_nbytes,
                           const char *path)
{
    mount_node *const node = calloc(1, sizeof *node);
    if (node)
        *node = (mount_node){
            .kind = kind, .name = cli_copy(name, name_nbytes), .path = cli_copy(path, strlen(path))};
    if (!node || !node->name || !node->path) {
        free_node(node);
        return NULL;
    }
    uint32_t place = nodes->first_free;
    if (place != MOUNT_NO_PLACE) {
        nodes->first_free = nodes->places[place].next_free;
    } else {
        mount_place *const places =
            nodes->count < MOUNT_NO_PLACE - OS_MOUNT_ROOT
                ? make_room(nodes->places, nodes->count, &nodes->capacity, sizeof *places)
                : NULL;
        if (!places) {
            free_node(node);
            return NULL;
        }
        nodes->places = places;
        place = (uint32_t)nodes->count++;
        places[place] = (mount_place){.node = NULL};
    }
    node->number = (uint64_t)nodes->places[place].round << 32 | (OS_MOUNT_ROOT + place);
    nodes->places[place].node = node;
    return node;
}

/* A folder without children is to be read again. */
static void drop_children(mount_nodes *nodes, mount_node *folder)
{
    for (size_t i = 0; i < folder->child_count; i++)
        mount_node_hide(nodes, folder->children[i]);
    folder->child_count = 0;
    folder->is_listed = 0;
}

void mount_node_release(mount_nodes *nodes, mount_node *node)
{
    if (node->is_shown || node->found_count > 0 || node->file)
        return;
    drop_children(nodes, node);
    const uint32_t place = place_of(node->number);
    /* the number is another one next time: the system cannot take the next node for this one */
    nodes->places[place] =
        (mount_place){.round = nodes->places[place].round + 1, .next_free = nodes->first_free};
    nodes->first_free = place;
    free_node(node);
}

void mount_node_hide(mount_nodes *nodes, mount_node *node)
{
    node->is_shown = 0;
    if (node->kind != MOUNT_INNER) /* whoever is in that one could not have it read again */
        drop_children(nodes, node);
    mount_node_release(nodes, node);
}

void mount_nodes_free(mount_nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++)
        free_node(nodes->places[i].node);
    free(nodes->places);
}

size_t mount_child_place(const mount_node *folder, const char *name, size_t nbytes, int *is_there)
{
    size_t first = 0, last = folder->child_count;
    *is_there = 0;
    while (first < last) {
        const size_t middle = first + (last - first) / 2;
        const char *const other = folder->children[middle]->name;
        const int order = strncmp(other, name, nbytes);
        if (order == 0 && other[nbytes] == '\0')
            *is_there = 1;
        if (order < 0)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

/* Puts a node into a folder; a name that is there keeps its node. Returns 0: out of memory. */
static int add_child(mount_node *folder, mount_node *child)
{
    int is_there = 0;
    const size_t place = mount_child_place(folder, child->name, strlen(child->name), &is_there);
    if (is_there)
        return 1;
    mount_node **const children =
        make_room(folder->children, folder->child_count, &folder->child_capacity, sizeof(mount_node *));
    if (!children)
        return 0;
    folder->children = children;
    memmove(&folder->children[place + 1], &folder->children[place],
            (folder->child_count - place) * sizeof(mount_node *));
    folder->children[place] = child;
    child->is_shown = 1;
    folder->child_count++;
    return 1;
}

static int has_file(const char *path, const char *name)
{
    char *const file = lmc_path_join(&lmc_memory_default, path, name, "");
    const int is_found = file && os_is_file(file);
    free(file);
    return is_found;
}

mount_node *mount_add_root(mount_nodes *nodes)
{
    const int is_converted = lmc_is_archive_name(nodes->source) || has_file(nodes->source, LMC_COPIES_LIST);
    const mount_kind kind = !os_is_folder(nodes->source) ? MOUNT_INNER
                            : is_converted               ? MOUNT_CONVERTED
                                                         : MOUNT_FOLDER;
    mount_node *const root = mount_node_new(nodes, kind, "", 0, "");
    if (root)
        root->is_shown = 1;
    return root;
}

int mount_add_file(mount_nodes *nodes, mount_node *root, const char *name, size_t name_nbytes)
{
    mount_node *const node = mount_node_new(nodes, MOUNT_ARCHIVE, name, name_nbytes, "");
    return node && add_child(root, node);
}

/* ---- a converted directory ---- */

typedef struct tree_visit {
    mount_nodes *nodes;
    mount_node *root;
    int has_memory;
} tree_visit;

static int add_entry(void *user, const char *path, lmc_st_entry entry)
{
    tree_visit *const visit = user;
    const char *const name = lmc_last_component(path);
    const size_t nbytes = strlen(name) - (entry == LMC_ST_ENTRY_ARCHIVE ? SUFFIX_NBYTES : 0);
    const mount_kind kind = entry == LMC_ST_ENTRY_FOLDER    ? MOUNT_INNER
                            : entry == LMC_ST_ENTRY_ARCHIVE ? MOUNT_ARCHIVE
                                                            : MOUNT_COPY;
    char *const below = lmc_path_join(&lmc_memory_default, visit->root->path, path, "");
    mount_node *folder = visit->root;
    for (const char *at = path; at < name;
         at = strchr(at, '/') + 1) { /* folders come before what is in them */
        int is_there = 0;
        folder = folder->children[mount_child_place(folder, at, strcspn(at, "/"), &is_there)];
    }
    mount_node *const node = below ? mount_node_new(visit->nodes, kind, name, nbytes, below) : NULL;
    visit->has_memory = node && add_child(folder, node);
    if (node)
        mount_node_release(visit->nodes, node); /* if the name was there */
    free(below);
    return !visit->has_memory;
}

static lmc_status list_converted(mount_nodes *nodes, mount_node *root, const char *path, lmc_st_diag *diag)
{
    tree_visit visit = {nodes, root, 1};
    drop_children(nodes, root);
    const lmc_status status = lmc_st_visit_entries(path, NULL, add_entry, &visit, diag);
    if (status != LMC_OK || visit.has_memory)
        return status;
    cli_set_diag(diag, path, LMC_ERR_NOMEM, "out of memory");
    return LMC_ERR_NOMEM;
}

/* ---- other directories ---- */

/* A name in a directory, and what it stands for. */
typedef struct found_name {
    char *name;
    mount_kind kind;
    int is_cut; /* shown without ".lmc", unless that name is taken */
} found_name;

typedef struct folder_visit {
    const mount_nodes *nodes;
    const mount_node *folder;
    const char *path; /* of it */
    int is_run, is_store;
    found_name *names;
    size_t count, capacity;
} folder_visit;

/* 1 if the folder is, or lies in, what the link leads to: it has no end. */
static int leads_up(const folder_visit *visit, const os_state *target)
{
    os_state state;
    char *const path = cli_copy(visit->path, strlen(visit->path));
    int is_above = !path;
    for (char *end = path ? path + strlen(path) : NULL; end && !is_above; end = strrchr(path, '/')) {
        *end = '\0';
        is_above = os_stat(OS_HERE, *path ? path : "/", &state) == 0 && os_is_same_file(&state, target);
    }
    free(path);
    return is_above;
}

/* What the name in the folder stands for. Returns 0: it is not shown, as it is a file of a run or a store that is none
 * of a step or a model; is being written; is gone; is neither file nor folder; or is a link that cannot be followed. */
static int kind_of(const folder_visit *visit, const char *path, const char *name, mount_kind *kind)
{
    os_state state;
    const int has_suffix = lmc_is_archive_name(name);
    if (strncmp(name, ".lmc-", 5) == 0 || strstr(name, LMC_PARTIAL_SUFFIX) != NULL ||
        (visit->is_run && strcmp(name, LMC_RUN_LIST) == 0) ||
        (visit->is_store && (strcmp(name, LMC_STORE_MARK) == 0 ||
                             strncmp(name, LMC_STORE_INDEX, sizeof LMC_STORE_INDEX - 1) == 0)))
        return 0;
    if (os_lstat(OS_HERE, path, &state) != 0)
        return 0;
    const int is_link = state.kind == OS_LINK;
    if (is_link && (os_leads_into(path, visit->nodes->mountpoint) || os_stat(OS_HERE, path, &state) != 0))
        return 0;
    if (state.kind != OS_FOLDER) {
        *kind = has_suffix ? MOUNT_ARCHIVE : MOUNT_COPY;
        return state.kind == OS_FILE;
    }
    *kind = has_suffix || has_file(path, LMC_COPIES_LIST) ? MOUNT_CONVERTED : MOUNT_FOLDER;
    return !is_link || !leads_up(visit, &state);
}

static int visit_name(void *user, const char *name)
{
    folder_visit *const visit = user;
    found_name found = {.kind = MOUNT_COPY};
    char *const path = lmc_path_join(&lmc_memory_default, visit->path, name, "");
    const int is_shown = path && kind_of(visit, path, name, &found.kind);
    free(path);
    if (!is_shown)
        return path ? 0 : ENOMEM;
    found_name *const names = make_room(visit->names, visit->count, &visit->capacity, sizeof *names);
    if (!names)
        return ENOMEM;
    visit->names = names;
    found.is_cut = lmc_is_archive_name(name) && found.kind != MOUNT_FOLDER;
    found.name = cli_copy(name, strlen(name));
    if (!found.name)
        return ENOMEM;
    visit->names[visit->count++] = found;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const found_name *)a)->name, ((const found_name *)b)->name);
}

/* Adds a child for a name; the one that it had before, if that stands for the same. Returns 0 or ENOMEM. */
static int show_name(mount_nodes *nodes, mount_node *folder, const mount_node *before,
                     const found_name *found)
{
    int is_there = 0;
    mount_node *child = NULL;
    size_t nbytes = strlen(found->name) - (found->is_cut ? SUFFIX_NBYTES : 0);
    (void)mount_child_place(folder, found->name, nbytes, &is_there);
    nbytes = is_there ? strlen(found->name) : nbytes;
    char *const path = lmc_path_join(&lmc_memory_default, folder->path, found->name, "");
    const size_t place = mount_child_place(before, found->name, nbytes, &is_there);
    if (path && is_there && before->children[place]->kind == found->kind &&
        strcmp(before->children[place]->path, path) == 0)
        child = before->children[place];
    else if (path)
        child = mount_node_new(nodes, found->kind, found->name, nbytes, path);
    free(path);
    return child && add_child(folder, child) ? 0 : ENOMEM;
}

/* Names that are shown as they are take precedence. The others follow by their order: X.lmc comes before X.lmc.lmc,
 * which is not named like it then. */
static lmc_status list_folder(mount_nodes *nodes, mount_node *folder, const char *path, lmc_st_diag *diag)
{
    const mount_node before = *folder;
    lmc_store_kind kind = LMC_STORE_NONE;
    unsigned depth = 0;
    const lmc_status located = lmc_store_locate(path, &kind, &depth);
    folder_visit visit = {.nodes = nodes,
                          .folder = folder,
                          .path = path,
                          .is_run = kind == LMC_STORE_RUN && depth == 0,
                          .is_store = kind == LMC_STORE_MODELS && depth == 0};
    int os_errno = located == LMC_OK ? os_visit_path(path, visit_name, &visit) : ENOMEM;
    folder->children = NULL;
    folder->child_count = folder->child_capacity = 0;
    for (size_t i = 0; i < before.child_count; i++)
        before.children[i]->is_shown = 0;
    if (visit.count > 0)
        qsort(visit.names, visit.count, sizeof *visit.names, compare_names);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < visit.count && os_errno == 0; i++)
            if (visit.names[i].is_cut == pass)
                os_errno = show_name(nodes, folder, &before, &visit.names[i]);
    for (size_t i = 0; i < before.child_count; i++)
        if (!before.children[i]->is_shown)
            mount_node_hide(nodes, before.children[i]);
    for (size_t i = 0; i < visit.count; i++)
        free(visit.names[i].name);
    free(visit.names);
    free(before.children);
    if (os_errno == 0)
        return LMC_OK;
    cli_set_os_diag(diag, path, os_errno, "cannot list");
    return diag->status;
}

lmc_status mount_list(mount_nodes *nodes, mount_node *folder, lmc_st_diag *diag)
{
    os_state now;
    if (folder->kind == MOUNT_INNER)
        return LMC_OK;
    char *const path = mount_path(nodes, folder);
    lmc_status status = path ? LMC_OK : LMC_ERR_NOMEM;
    if (!path) {
        cli_set_diag(diag, folder->path, status, "out of memory");
        return status;
    }
    if (os_stat(OS_HERE, path, &now) != 0) {
        cli_set_os_diag(diag, path, errno, "cannot find");
        free(path);
        return diag->status;
    }
    const int has_changed = !folder->is_listed || !cli_is_same_state(&now, &folder->listed, 0);
    if (has_changed)
        folder->changed_ns = os_clock_ns();
    /* soon after a change there may be another, with the same time, that was missed */
    if (has_changed ||
        (folder->kind == MOUNT_FOLDER && folder->listed_ns < folder->changed_ns + SETTLED_NS)) {
        folder->listed_ns = os_clock_ns();
        status = folder->kind == MOUNT_FOLDER ? list_folder(nodes, folder, path, diag)
                                              : list_converted(nodes, folder, path, diag);
        folder->listed = now;
        folder->is_listed = status == LMC_OK;
    }
    free(path);
    return status;
}
