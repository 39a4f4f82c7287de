/*
 * mount_tree.c - answers of a mounted source: names, states, and the bytes of files.
 */
#include "tool/mount_tree.h"

#include "tool/cli.h"
#include "tool/mount_node.h"
#include "tool/tool_path.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A file that is open, once for all who have opened it. */
struct mount_file {
    mount_node *node;
    unsigned use_count;
    int fd; /* of a copy; else -1 */
    lmc_st_file *file;
    lmc_st_original *original;
    char last_fault[sizeof((lmc_st_diag *)0)->text]; /* that was logged */
};

struct mount_tree {
    /* Of nodes and files. An archive is opened under it for its size when its name is looked up; files are opened for
     * programs, and read, without it. */
    pthread_mutex_t lock;
    mount_nodes nodes;
    lmc_st_compare_options options;
    lmc_st_cache *cache;
    int is_file; /* the source is one archive */
    void (*log)(const lmc_st_diag *diag);
};

/* ---- states ---- */

static int errno_of(const lmc_st_diag *diag)
{
    static const int told[] = {ENOENT, EACCES, ENOMEM, EMFILE, ENFILE}; /* as they are */
    if (diag->status == LMC_ERR_NOMEM)
        return ENOMEM;
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        if (diag->status == LMC_ERR_IO && diag->os_errno == told[i])
            return told[i];
    return EIO;
}

static lmc_status open_archive(const mount_tree *tree, const mount_node *node, lmc_st_file **file,
                               lmc_st_diag *diag)
{
    lmc_st_open_options options = LMC_INIT(lmc_st_open_options);
    if (!tree->is_file)
        return lmc_st_open_entry(tree->nodes.source, node->path, &tree->options, file, diag);
    options.base = tree->options.base;
    options.base_dirs = tree->options.base_dirs;
    options.base_dir_count = tree->options.base_dir_count;
    return lmc_st_open(tree->nodes.source, &options, file, diag);
}

/* The size of an archive's original. LMC_ERR_CORRUPT: also a plain file; LMC_ERR_ARG if that is the source itself. */
static lmc_status read_size(const mount_tree *tree, const mount_node *node, uint64_t *nbytes,
                            lmc_st_diag *diag)
{
    lmc_st_file *file = NULL;
    lmc_status status = open_archive(tree, node, &file, diag);
    if (status == LMC_OK && !lmc_st_is_archive(file)) {
        status = tree->is_file ? LMC_ERR_ARG : LMC_ERR_CORRUPT;
        cli_set_diag(diag, lmc_st_path(file), status, "is a plain file, not an LMC archive");
    }
    *nbytes = status == LMC_OK ? lmc_st_original_nbytes(file) : 0;
    lmc_st_close(file);
    return status;
}

/* Looks at what the child `*place` of a folder stands for; a child that has changed is replaced by a new node. Returns
 * 0 or an errno. */
static int look_at(mount_tree *tree, mount_node **place)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    os_state now;
    mount_node *node = *place;
    char *const path = mount_path(&tree->nodes, node);
    int os_errno = !path ? ENOMEM : os_stat(OS_HERE, path, &now) == 0 ? 0 : errno;
    free(path);
    if (os_errno != 0)
        return os_errno;
    if ((now.kind == OS_FOLDER) != mount_is_folder(node) || (now.kind != OS_FOLDER && now.kind != OS_FILE))
        return ENOENT; /* it is found under another kind once its folder was listed again */
    const int is_same = cli_is_same_state(&now, &node->stored, 0);
    if (node->is_known && is_same)
        return 0;
    if (node->is_known && !(mount_is_folder(node) && os_is_same_file(&now, &node->stored)) &&
        node->kind != MOUNT_INNER) {
        node = mount_node_new(&tree->nodes, node->kind, node->name, strlen(node->name), node->path);
        if (!node)
            return ENOMEM;
        mount_node_hide(&tree->nodes, *place);
        node->is_shown = 1;
        *place = node;
    }
    node->stored = node->state = now;
    if (node->kind == MOUNT_ARCHIVE && read_size(tree, node, &node->state.nbytes, &diag) != LMC_OK) {
        if (!node->is_faulty || !is_same)
            tree->log(&diag);
        node->is_faulty = 1;
        return errno_of(&diag);
    }
    node->is_known = 1;
    return 0;
}

/* ---- names ---- */

static int answer_find(void *user, uint64_t folder, const char *name, uint64_t *number, os_state *state)
{
    mount_tree *const tree = user;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    int is_there = 0;
    int os_errno = 0;
    pthread_mutex_lock(&tree->lock);
    mount_node *const in = mount_find_number(&tree->nodes, folder);
    if (!mount_is_folder(in))
        os_errno = ENOTDIR;
    else if (mount_list(&tree->nodes, in, &diag) != LMC_OK)
        os_errno = errno_of(&diag);
    const size_t place = os_errno == 0 ? mount_child_place(in, name, strlen(name), &is_there) : 0;
    if (os_errno == 0)
        os_errno = is_there ? look_at(tree, &in->children[place]) : ENOENT;
    if (os_errno == 0) {
        in->children[place]->found_count++;
        *number = in->children[place]->number;
        *state = in->children[place]->state;
    }
    pthread_mutex_unlock(&tree->lock);
    return os_errno;
}

static void answer_forget(void *user, uint64_t number, uint64_t count)
{
    mount_tree *const tree = user;
    pthread_mutex_lock(&tree->lock);
    mount_node *const node = mount_find_number(&tree->nodes, number);
    node->found_count -= count < node->found_count ? count : node->found_count;
    mount_node_release(&tree->nodes, node);
    pthread_mutex_unlock(&tree->lock);
}

static int answer_state(void *user, uint64_t number, os_state *state)
{
    mount_tree *const tree = user;
    os_state now;
    pthread_mutex_lock(&tree->lock);
    mount_node *const node = mount_find_number(&tree->nodes, number);
    char *const path = mount_is_folder(node) && !tree->is_file ? mount_path(&tree->nodes, node) : NULL;
    if (path && os_stat(OS_HERE, path, &now) == 0 && now.kind == OS_FOLDER)
        node->state = now;
    *state = node->state;
    pthread_mutex_unlock(&tree->lock);
    free(path);
    return 0;
}

static int answer_list(void *user, uint64_t folder, os_names *names)
{
    mount_tree *const tree = user;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    int os_errno = 0;
    pthread_mutex_lock(&tree->lock);
    mount_node *const in = mount_find_number(&tree->nodes, folder);
    if (mount_list(&tree->nodes, in, &diag) != LMC_OK) {
        os_errno = errno_of(&diag);
        if (os_errno != ENOENT) /* a folder that is gone is no fault */
            tree->log(&diag);
    }
    for (size_t i = 0; i < in->child_count && os_errno == 0; i++)
        os_errno = os_names_add(names, in->children[i]->name, in->children[i]->number,
                                mount_is_folder(in->children[i]) ? OS_FOLDER : OS_FILE);
    pthread_mutex_unlock(&tree->lock);
    return os_errno;
}

/* ---- files ---- */

static void free_file(mount_file *file)
{
    if (!file)
        return;
    lmc_st_original_close(file->original);
    lmc_st_close(file->file);
    if (file->fd >= 0)
        (void)os_close(file->fd);
    free(file);
}

/* 0 if a node stands for the same as before. ESTALE: that has changed; the system looks the name up again. */
static int check_node(const mount_tree *tree, const mount_node *node)
{
    os_state now;
    char *const path = mount_path(&tree->nodes, node);
    const int os_errno = !path ? ENOMEM
                         : os_stat(OS_HERE, path, &now) == 0 && cli_is_same_state(&now, &node->stored, 0)
                             ? 0
                             : ESTALE;
    free(path);
    return os_errno;
}

/* Opens what a node stands for. Errors: as check_node(), and those of the file. */
static int open_node(mount_tree *tree, mount_node *node, mount_file **opened)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    char *const path = mount_path(&tree->nodes, node);
    mount_file *const file = calloc(1, sizeof *file);
    int os_errno = path && file ? 0 : ENOMEM;
    if (file)
        *file = (mount_file){.node = node, .use_count = 1, .fd = -1};
    if (os_errno == 0 && node->kind == MOUNT_COPY) {
        file->fd = os_open(OS_HERE, path);
        os_errno = file->fd < 0 ? errno : 0;
    } else if (os_errno == 0 &&
               (open_archive(tree, node, &file->file, &diag) != LMC_OK ||
                lmc_st_original_open(file->file, tree->cache, &file->original, &diag) != LMC_OK)) {
        os_errno = errno_of(&diag);
    }
    const int is_same = os_errno != ENOMEM && check_node(tree, node) == 0;
    if (is_same && os_errno != 0 && node->kind != MOUNT_COPY)
        tree->log(&diag);
    free(path);
    *opened = is_same && os_errno == 0 ? file : NULL;
    if (!*opened)
        free_file(file);
    return is_same || os_errno == ENOMEM ? os_errno : ESTALE;
}

static void answer_close(void *user, void *file)
{
    mount_tree *const tree = user;
    mount_file *const opened = file;
    pthread_mutex_lock(&tree->lock);
    const int is_last = --opened->use_count == 0;
    if (is_last) {
        opened->node->file = NULL;
        mount_node_release(&tree->nodes, opened->node);
    }
    pthread_mutex_unlock(&tree->lock);
    if (is_last)
        free_file(opened);
}

static int answer_open(void *user, uint64_t number, void **file)
{
    mount_tree *const tree = user;
    pthread_mutex_lock(&tree->lock);
    mount_node *const node = mount_find_number(&tree->nodes, number);
    mount_file *opened = node->file;
    const int was_open = opened != NULL;
    if (was_open)
        opened->use_count++;
    pthread_mutex_unlock(&tree->lock);
    const int os_errno = was_open ? check_node(tree, node) : open_node(tree, node, &opened);
    if (was_open && os_errno != 0) {
        answer_close(tree, opened);
    } else if (!was_open && os_errno == 0) {
        pthread_mutex_lock(&tree->lock);
        mount_file *const first = node->file; /* of another thread */
        if (first)
            first->use_count++;
        else
            node->file = opened;
        pthread_mutex_unlock(&tree->lock);
        if (first)
            free_file(opened);
        opened = first ? first : opened;
    }
    *file = opened;
    return os_errno;
}

static int answer_read(void *user, void *opened, uint64_t offset, void *dst, size_t nbytes, size_t *done)
{
    mount_tree *const tree = user;
    mount_file *const file = opened;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    const uint64_t size = file->node->state.nbytes;
    const uint64_t left = offset < size ? size - offset : 0;
    *done = left < nbytes ? (size_t)left : nbytes;
    if (file->fd >= 0) {
        const int64_t got = os_read_at(file->fd, offset, dst, *done);
        *done = got < 0 ? 0 : (size_t)got;
        return got < 0 ? errno : 0;
    }
    if (lmc_st_original_read(file->original, offset, *done, dst, &diag) == LMC_OK)
        return 0;
    /* the system asks for each page again: what was logged last of this file is not logged again */
    pthread_mutex_lock(&tree->lock);
    const int is_new = strcmp(file->last_fault, diag.text) != 0;
    memcpy(file->last_fault, diag.text, sizeof file->last_fault);
    pthread_mutex_unlock(&tree->lock);
    if (is_new)
        tree->log(&diag);
    return diag.status == LMC_ERR_NOMEM ? ENOMEM : EIO;
}

const os_mount_answers mount_tree_answers = {
    answer_find, answer_forget, answer_state, answer_list, answer_open, answer_read, answer_close,
};

/* ---- begin and end ---- */

lmc_status mount_tree_create(const char *path, const char *mountpoint, const lmc_st_compare_options *options,
                             void (*log)(const lmc_st_diag *diag), mount_tree **created, lmc_st_diag *diag)
{
    mount_tree *const tree = calloc(1, sizeof *tree);
    *created = tree;
    if (tree) {
        *tree = (mount_tree){.options = *options, .log = log};
        mount_nodes_start(&tree->nodes, path, mountpoint);
        pthread_mutex_init(&tree->lock, NULL);
    }
    mount_node *const root = tree ? mount_add_root(&tree->nodes) : NULL;
    lmc_status status = LMC_OK;
    if (!root) {
        status = LMC_ERR_NOMEM;
        cli_set_diag(diag, path, status, "out of memory");
    } else if (os_stat(OS_HERE, path, &root->state) != 0) {
        cli_set_os_diag(diag, path, errno, "cannot find");
        status = diag->status;
    } else {
        tree->is_file = root->state.kind != OS_FOLDER;
        root->stored = root->state;
        root->is_known = 1;
        status = tree->is_file ? LMC_OK : mount_list(&tree->nodes, root, diag);
    }
    if (status == LMC_OK && tree->is_file) {
        size_t nbytes = 0;
        uint64_t unused = 0;
        const char *const name = lmc_path_name(path, &nbytes);
        const size_t cut = lmc_is_archive_name(path) ? strlen(LMC_ARCHIVE_SUFFIX) : 0;
        root->state.kind = OS_FOLDER;
        root->state.permissions |=
            (root->state.permissions & 0444) >> 2; /* who may read the file may look it up */
        if (mount_add_file(&tree->nodes, root, name, nbytes - cut))
            status = read_size(tree, root->children[0], &unused, diag); /* it must be an archive */
        else
            cli_set_diag(diag, path, status = LMC_ERR_NOMEM, "out of memory");
    }
    if (status != LMC_OK) {
        mount_tree_free(tree);
        *created = NULL;
    }
    return status;
}

void mount_tree_use(mount_tree *tree, lmc_st_cache *cache)
{
    tree->cache = cache;
}

void mount_tree_free(mount_tree *tree)
{
    if (!tree)
        return;
    for (size_t i = 0; i < tree->nodes.count; i++)
        if (tree->nodes.places[i].node)
            free_file(tree->nodes.places[i].node->file);
    mount_nodes_free(&tree->nodes);
    pthread_mutex_destroy(&tree->lock);
    free(tree);
}
