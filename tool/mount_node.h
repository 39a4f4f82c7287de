/*
 * mount_node.h - the nodes of a mounted source, and the names in its folders. One thread at a time.
 */
#ifndef LMC_TOOL_MOUNT_NODE_H
#define LMC_TOOL_MOUNT_NODE_H

#include "os/mount.h"

#include "lmc_st_experimental.h"

/* What a node stands for. */
typedef enum mount_kind {
    MOUNT_FOLDER,    /* of files, archives and converted directories; it is read again when it has changed */
    MOUNT_CONVERTED, /* a converted directory; the same, with all that is in it */
    MOUNT_INNER,     /* a folder in a converted directory */
    MOUNT_ARCHIVE,
    MOUNT_COPY
} mount_kind;

typedef struct mount_file mount_file; /* mount_tree.c: an open file */

typedef struct mount_node {
    uint64_t number; /* no other node has had it */
    mount_kind kind;
    char *name;      /* as it is shown */
    char *path;      /* of what it stands for, below the source; "": the source itself */
    os_state state;  /* of that; of an archive, nbytes is that of the original */
    os_state stored; /* of that, as it is stored */
    int is_known;    /* both were read */
    int is_faulty;   /* an archive whose size could not be read; that was logged */
    os_state listed; /* of a folder when its names were read */
    int is_listed;
    uint64_t changed_ns;          /* when it was seen that they have changed */
    uint64_t listed_ns;           /* when they were read */
    struct mount_node **children; /* by name */
    size_t child_count, child_capacity;
    mount_file *file;     /* while it is open */
    int is_shown;         /* among the children of a folder */
    uint64_t found_count; /* by the system, which has not forgotten them */
} mount_node;

/* Where a node is while it is there. The lower half of its number says which place this is, from OS_MOUNT_ROOT on; the
 * upper half, how many nodes were here before. */
typedef struct mount_place {
    mount_node *node; /* NULL: it was freed */
    uint32_t round;
    uint32_t next_free; /* if there is no node; MOUNT_NO_PLACE: it is the last */
} mount_place;

#define MOUNT_NO_PLACE UINT32_MAX

/* All nodes. */
typedef struct mount_nodes {
    const char *source;
    const char *mountpoint; /* links into it are not shown */
    mount_place *places;
    size_t count, capacity;
    uint32_t first_free;
} mount_nodes;

static inline int mount_is_folder(const mount_node *node)
{
    return node->kind <= MOUNT_INNER;
}

/* No nodes yet. The paths must outlive them. */
void mount_nodes_start(mount_nodes *nodes, const char *source, const char *mountpoint);

/* The node of a number that the system has found and not forgotten, or of the root. */
mount_node *mount_find_number(const mount_nodes *nodes, uint64_t number);

/* The path of what a node stands for; to be freed. NULL: out of memory. */
char *mount_path(const mount_nodes *nodes, const mount_node *node);

/* The root: of a directory, or the folder of an only file, which follows. Return NULL, and 0: out of memory. */
mount_node *mount_add_root(mount_nodes *nodes);
int mount_add_file(mount_nodes *nodes, mount_node *root, const char *name, size_t name_nbytes);

/* A new node, in no folder yet. NULL: out of memory. */
mount_node *mount_node_new(mount_nodes *nodes, mount_kind kind, const char *name, size_t name_nbytes,
                           const char *path);

/* Frees a node, unless it is shown or open, or the system has not forgotten it. What is in a folder is not shown any
 * more then. */
void mount_node_release(mount_nodes *nodes, mount_node *node);

/* The same for one that is shown no more. What is in a folder that can be read again is shown no more, either. */
void mount_node_hide(mount_nodes *nodes, mount_node *node);

/* Where the name is among the children, or would be; *is_there. */
size_t mount_child_place(const mount_node *folder, const char *name, size_t nbytes, int *is_there);

/* Reads the names of a folder, unless they are known and it has not changed. Errors: as lmc_st_visit_entries(). */
lmc_status mount_list(mount_nodes *nodes, mount_node *folder, lmc_st_diag *diag);

void mount_nodes_free(mount_nodes *nodes);

#endif
