/*
 * mount_node.c - which names a folder of a mounted source shows. A directory is a converted one if its name ends in
 * ".lmc", or if it has the list of copies that a conversion writes; everything in that is what restoring it would give.
 * Other directories may hold archives and converted directories, as stores and runs do; their own lists are not shown.
 */
#include "tool/mount_node.h"

#include "tool/cli.h"
#include "tool/tool_path.h"

#include <stdlib.h>
#include <string.h>

/* files of a directory that say what it is (docs/archive.md, docs/run.md, docs/store.md) */
#define LIST_OF_COPIES ".lmc-copied"
#define RUN_LIST "run.json"
#define STORE_MARK "store.json"

#define SUFFIX_NBYTES (sizeof LMC_ARCHIVE_SUFFIX - 1)

/* ---- nodes ---- */

char *mount_path(const mount_nodes *nodes, const mount_node *node)
{
    return lmc_path_join(&lmc_memory_default, nodes->source, node->path, "");
}

/* Doubles the room of a list that is full. Returns 0: out of memory. */
static int make_room(mount_node ***list, size_t count, size_t *capacity)
{
    if (count < *capacity)
        return 1;
    const size_t doubled = 2 * *capacity + 8;
    mount_node **const grown = realloc(*list, doubled * sizeof(mount_node *));
    if (!grown)
        return 0;
    *list = grown;
    *capacity = doubled;
    return 1;
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

mount_node *mount_node_new(mount_nodes *nodes, mount_kind kind, const char *name, size_t name_nbytes,
                           const char *path)
{
    mount_node *const node = calloc(1, sizeof *node);
    if (node) {
        *node = (mount_node){.number = OS_MOUNT_ROOT + nodes->count,
                             .kind = kind,
                             .name = cli_copy(name, name_nbytes),
                             .path = cli_copy(path, strlen(path))};
    }
    if (!node || !node->name || !node->path || !make_room(&nodes->list, nodes->count, &nodes->capacity)) {
        free_node(node);
        return NULL;
    }
    nodes->list[nodes->count++] = node;
    return node;
}

void mount_nodes_free(mount_nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++)
        free_node(nodes->list[i]);
    free(nodes->list);
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
    if (!make_room(&folder->children, folder->child_count, &folder->child_capacity))
        return 0;
    memmove(&folder->children[place + 1], &folder->children[place],
            (folder->child_count - place) * sizeof(mount_node *));
    folder->children[place] = child;
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
    const int is_converted = lmc_is_archive_name(nodes->source) || has_file(nodes->source, LIST_OF_COPIES);
    const mount_kind kind = !os_is_folder(nodes->source) ? MOUNT_INNER
                            : is_converted               ? MOUNT_CONVERTED
                                                         : MOUNT_FOLDER;
    return mount_node_new(nodes, kind, "", 0, "");
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
        node->is_listed = entry == LMC_ST_ENTRY_FOLDER;
    free(below);
    return !visit->has_memory;
}

static lmc_status list_converted(mount_nodes *nodes, mount_node *root, const char *path, lmc_st_diag *diag)
{
    tree_visit visit = {nodes, root, 1};
    root->child_count = 0;
    const lmc_status status = lmc_st_visit_entries(path, NULL, add_entry, &visit, diag);
    if (status != LMC_OK || visit.has_memory)
        return status;
    cli_set_diag(diag, path, LMC_ERR_NOMEM, "out of memory");
    return LMC_ERR_NOMEM;
}

/* ---- other directories ---- */

typedef struct folder_visit {
    mount_nodes *nodes;
    mount_node *folder;
    const char *path; /* of it */
    int is_kept;      /* a store or a run: its own files are not shown */
    mount_node **before;
    size_t before_count;
    int pass; /* 0: what shows its own name; 1: archives and converted directories, whose names may be taken then */
} folder_visit;

/* 1 for the files of a run or a store that are none of a step or a model, and for what is being written. */
static int is_hidden(const folder_visit *visit, const char *name)
{
    return strncmp(name, ".lmc-", 5) == 0 || strstr(name, ".lmc-st-partial") != NULL ||
           (visit->is_kept && (strcmp(name, RUN_LIST) == 0 || strcmp(name, STORE_MARK) == 0 ||
                               strncmp(name, "index.sqlite", 12) == 0));
}

/* What the name in the folder stands for. Returns 0: it is gone, or neither file nor folder. */
static int kind_of(const char *path, const char *name, mount_kind *kind)
{
    os_state state;
    const int has_suffix = lmc_is_archive_name(name);
    if (os_stat(OS_HERE, path, &state) != 0 || (state.kind != OS_FILE && state.kind != OS_FOLDER))
        return 0;
    if (state.kind == OS_FILE)
        *kind = has_suffix ? MOUNT_ARCHIVE : MOUNT_COPY;
    else
        *kind = has_suffix || has_file(path, LIST_OF_COPIES) ? MOUNT_CONVERTED : MOUNT_FOLDER;
    return 1;
}

static int visit_name(void *user, const char *name)
{
    folder_visit *const visit = user;
    mount_kind kind = MOUNT_COPY;
    int is_taken = 0;
    char *const full = lmc_path_join(&lmc_memory_default, visit->path, name, "");
    char *const path = lmc_path_join(&lmc_memory_default, visit->folder->path, name, "");
    int os_errno = full && path ? 0 : ENOMEM;
    if (os_errno == 0 && !is_hidden(visit, name) && kind_of(full, name, &kind)) {
        const int is_cut = lmc_is_archive_name(name) && kind != MOUNT_FOLDER;
        const size_t cut = strlen(name) - (is_cut ? SUFFIX_NBYTES : 0);
        (void)mount_child_place(visit->folder, name, cut, &is_taken);
        if (is_cut == visit->pass) {
            mount_node *node = NULL;
            for (size_t i = 0; i < visit->before_count && !node; i++)
                if (visit->before[i]->kind == kind && strcmp(visit->before[i]->path, path) == 0)
                    node = visit->before[i]; /* it stands for the same as before */
            if (!node)
                node = mount_node_new(visit->nodes, kind, name, is_taken ? strlen(name) : cut, path);
            os_errno = node && add_child(visit->folder, node) ? 0 : ENOMEM;
        }
    }
    free(full);
    free(path);
    return os_errno;
}

static lmc_status list_folder(mount_nodes *nodes, mount_node *folder, const char *path, lmc_st_diag *diag)
{
    mount_node **const before = folder->children;
    folder_visit visit = {.nodes = nodes,
                          .folder = folder,
                          .path = path,
                          .is_kept = has_file(path, RUN_LIST) || has_file(path, STORE_MARK),
                          .before = before,
                          .before_count = folder->child_count};
    int os_errno = 0;
    folder->children = NULL;
    folder->child_count = folder->child_capacity = 0;
    for (; visit.pass < 2 && os_errno == 0; visit.pass++)
        os_errno = os_visit_path(path, visit_name, &visit);
    free(before);
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
    } else if (os_stat(OS_HERE, path, &now) != 0) {
        cli_set_os_diag(diag, path, errno, "cannot find");
        status = diag->status;
    } else if (!folder->is_listed || !os_is_same_file(&now, &folder->listed) ||
               (folder->kind == MOUNT_FOLDER && (now.modified_s != folder->listed.modified_s ||
                                                 now.modified_ns != folder->listed.modified_ns))) {
        status = folder->kind == MOUNT_FOLDER ? list_folder(nodes, folder, path, diag)
                                              : list_converted(nodes, folder, path, diag);
        folder->listed = now;
        folder->is_listed = status == LMC_OK;
    }
    free(path);
    return status;
}
