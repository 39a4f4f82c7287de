/*
 * removal.c - removing an input and nothing else. A directory's contents are reached from the open directory, and no
 * link is followed. The input first gets a private name in its own folder: nobody who knows it by its old name can
 * replace it there. It is then looked at again, and removed or put back.
 */
#include "tool/removal.h"

#include "os/os.h"
#include "tool/cli.h"
#include "tool/tool_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRIVATE_PREFIX ".lmc-kept-"
#define PRIVATE_TRIES 100
#define PRIVATE_NBYTES (sizeof PRIVATE_PREFIX + 12)

/* A name, and what it is itself: of a link, not of what the link leads to. */
typedef struct entry {
    char *path; /* relative to the directory */
    os_state state;
} entry;

/* All names in a directory and below it, sorted: a directory comes before its contents. */
typedef struct list {
    entry *entries;
    size_t count, capacity;
} list;

struct cli_removal {
    char *path; /* of the input, without slashes at its end */
    os_state state;
    list list; /* of a directory */
    lmc_st_diag diag;
};

/* ---- messages ---- */

/* path: within the input, "" for the input itself. what: NULL for a change of the input. */
static int fail_at(cli_removal *removal, const char *path, const char *what, int os_errno)
{
    char *const full_path = lmc_path_join(&lmc_memory_default, removal->path, path, "");
    const char *const file = full_path ? full_path : removal->path;
    if (what)
        cli_set_os_diag(&removal->diag, file, os_errno, what);
    else
        cli_set_diag(&removal->diag, file, LMC_ERR_IO,
                     "is no longer what was compared with the output: it is kept");
    free(full_path);
    return 0;
}

static int fail_os(cli_removal *removal, const char *path, int os_errno)
{
    return fail_at(removal, path, "cannot remove", os_errno);
}

static int fail_changed(cli_removal *removal, const char *path)
{
    return fail_at(removal, path, NULL, 0);
}

#define OTHERS_ARE_REMOVED "; other parts of the directory are removed"

/* ---- the state of files ---- */

static int is_unchanged(int folder_fd, const char *name, const os_state *state, int is_renamed)
{
    os_state found;
    return os_lstat(folder_fd, name, &found) == 0 && cli_is_same_state(state, &found, is_renamed);
}

/* ---- listing a directory ---- */

/* An open folder that is being listed. */
typedef struct listing {
    cli_removal *removal;
    list *list;
    int fd;
    const char *folder; /* its path within the input */
    const char *what;   /* what fails if this does */
} listing;

static int list_folder(const listing *listing);

/* Adds a name, and those below it. Returns 0, or -1 with the diagnostic set. */
static int list_name(void *user, const char *name)
{
    const listing *const outer = user;
    list *const list = outer->list;
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        entry *const larger = realloc(list->entries, capacity * sizeof *larger);
        list->entries = larger ? larger : list->entries;
        list->capacity = larger ? capacity : list->capacity;
    }
    char *const path =
        list->count < list->capacity ? lmc_path_join(&lmc_memory_default, outer->folder, name, "") : NULL;
    if (!path)
        return fail_at(outer->removal, outer->folder, outer->what, ENOMEM) - 1;
    entry *const entry = &list->entries[list->count++]; /* moves when the list grows */
    entry->path = path;
    const int os_errno = os_lstat(outer->fd, name, &entry->state);
    if (os_errno != 0)
        return fail_at(outer->removal, path, outer->what, os_errno) - 1;
    if (entry->state.kind != OS_FOLDER)
        return 0;
    const listing inner = {outer->removal, list, os_open_own_folder(outer->fd, name), path, outer->what};
    if (inner.fd < 0)
        return fail_at(outer->removal, path, outer->what, errno) - 1;
    const int is_listed = list_folder(&inner);
    (void)os_close(inner.fd);
    return is_listed - 1;
}

static int list_folder(const listing *listing)
{
    const int result = os_visit_folder(listing->fd, list_name, (void *)listing);
    return result > 0 ? fail_at(listing->removal, listing->folder, listing->what, result) : result == 0;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->path, ((const entry *)b)->path);
}

static int list_directory(cli_removal *removal, list *list, int fd, const char *what)
{
    const listing listing = {removal, list, fd, "", what};
    const int is_listed = list_folder(&listing);
    if (is_listed && list->count > 0)
        qsort(list->entries, list->count, sizeof *list->entries, compare_paths);
    return is_listed;
}

static void free_list(list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->entries[i].path);
    free(list->entries);
}

/* ---- a private name ---- */

/* Returns 0 or an errno. */
static int hide(int folder_fd, const char *name, char private_name[PRIVATE_NBYTES])
{
    int os_errno = EEXIST;
    for (int i = 0; i < PRIVATE_TRIES && os_errno == EEXIST; i++) {
        snprintf(private_name, PRIVATE_NBYTES, PRIVATE_PREFIX "%012llx",
                 (unsigned long long)(os_unforeseen_u64() >> 16));
        os_errno = os_rename_new(folder_fd, name, private_name);
    }
    return os_errno;
}

/* After a failure that stands in the diagnostic: gives the input its name back. */
static int put_back(cli_removal *removal, int folder_fd, const char *private_name, const char *name)
{
    if (os_rename_new(folder_fd, private_name, name) != 0)
        cli_add_to_diag(&removal->diag, ", as %s in that folder: it could not get its name back",
                        private_name);
    return 0;
}

/* ---- removing ---- */

static int remove_file(cli_removal *removal, int folder_fd, const char *name, const char *path,
                       const os_state *state, int is_renamed)
{
    char private_name[PRIVATE_NBYTES];
    if (!is_unchanged(folder_fd, name, state, is_renamed))
        return fail_changed(removal, path);
    int os_errno = hide(folder_fd, name, private_name);
    if (os_errno != 0)
        return fail_os(removal, path, os_errno);
    if (!is_unchanged(folder_fd, private_name, state, 1))
        (void)fail_changed(removal, path);
    else if ((os_errno = os_unlink(folder_fd, private_name)) != 0)
        (void)fail_os(removal, path, os_errno);
    else
        return 1;
    return put_back(removal, folder_fd, private_name, name);
}

/* Looks whether the directory holds what was listed, in the state that it had, and whether all of it may be removed:
 * what cannot be is found while all of it is there. */
static int check_directory(cli_removal *removal, int root_fd, const list *now)
{
    const list *const old = &removal->list;
    for (size_t i = 0; i < old->count && i < now->count; i++) {
        const entry *const was = &old->entries[i];
        const entry *const is = &now->entries[i];
        const int order = strcmp(was->path, is->path);
        if (order != 0)
            return fail_changed(removal, order < 0 ? was->path : is->path);
        if (is->state.device != removal->state.device)
            return fail_os(removal, is->path, EBUSY); /* a mount point */
        const int is_same = was->state.kind == OS_FOLDER && is->state.kind == OS_FOLDER
                                ? os_is_same_file(&was->state, &is->state)
                                : cli_is_same_state(&was->state, &is->state, 0);
        if (!is_same)
            return fail_changed(removal, is->path);
        /* removing a name takes permission to write in the folder */
        char *const slash = strrchr(is->path, '/');
        if (slash)
            *slash = '\0'; /* for a moment */
        const char *const folder = slash ? is->path : "";
        const int os_errno = os_may_remove_from(root_fd, slash ? folder : ".");
        if (os_errno != 0)
            return fail_os(removal, folder, os_errno);
        if (slash)
            *slash = '/';
    }
    return old->count == now->count || fail_changed(removal, "");
}

/* Removes the contents of the open directory: each name from the folder that it is in, which is reached along no link.
 * Needs no memory, so that it cannot run out in the midst: paths are changed for moments. */
static int remove_contents(cli_removal *removal, int root_fd)
{
    size_t removed_count = 0;
    int is_done = 1;
    for (size_t i = removal->list.count; i > 0 && is_done; i--) {
        entry *const entry = &removal->list.entries[i - 1];
        const char *name = NULL;
        int os_errno = 0;
        const int fd = os_open_folder_of(root_fd, entry->path, &name);
        if (fd < 0)
            is_done = fail_os(removal, entry->path, errno);
        else if (entry->state.kind != OS_FOLDER) /* a file that has several names may have lost one here */
            is_done = remove_file(removal, fd, name, entry->path, &entry->state, entry->state.name_count > 1);
        else if ((os_errno = os_remove_folder(fd, name)) != 0)
            is_done = fail_os(removal, entry->path, os_errno);
        if (fd >= 0)
            (void)os_close(fd);
        removed_count += is_done != 0;
    }
    if (!is_done && removed_count > 0)
        cli_add_to_diag(&removal->diag, OTHERS_ARE_REMOVED);
    return is_done;
}

/* A directory that cannot be renamed, as one from below an overlay, keeps its name while it is removed. */
static int remove_directory(cli_removal *removal, int folder_fd, const char *name)
{
    char private_name[PRIVATE_NBYTES];
    os_state found;
    list now = {.count = 0};
    int os_errno = hide(folder_fd, name, private_name);
    const char *const name_now = os_errno == 0 ? private_name : name;
    if (os_errno != 0 && os_errno != EXDEV)
        return fail_os(removal, "", os_errno);
    const int root_fd = os_open_own_folder(folder_fd, name_now);
    int is_done = root_fd >= 0 || fail_os(removal, "", errno);
    if (is_done && (os_fstat(root_fd, &found) != 0 || !os_is_same_file(&removal->state, &found)))
        is_done = fail_changed(removal, "");
    is_done = is_done && list_directory(removal, &now, root_fd, "cannot remove") &&
              check_directory(removal, root_fd, &now) && remove_contents(removal, root_fd);
    if (root_fd >= 0)
        (void)os_close(root_fd);
    if (is_done && (os_errno = os_remove_folder(folder_fd, name_now)) != 0) {
        is_done = fail_os(removal, "", os_errno);
        if (removal->list.count > 0)
            cli_add_to_diag(&removal->diag, OTHERS_ARE_REMOVED);
    }
    free_list(&now);
    return is_done || name_now == name ? is_done : put_back(removal, folder_fd, name_now, name);
}

int cli_removal_begin(cli_removal **begun, const char *path)
{
    cli_removal *const removal = calloc(1, sizeof *removal);
    *begun = removal;
    if (removal)
        removal->path = cli_copy(path, lmc_path_length(path));
    if (!removal || !removal->path)
        return cli_fail_nomem();
    const int os_errno = os_lstat(OS_HERE, removal->path, &removal->state);
    int is_begun = os_errno == 0 || fail_at(removal, "", "cannot open", os_errno);
    if (is_begun && removal->state.kind == OS_FOLDER) {
        const int fd = os_open_own_folder(OS_HERE, removal->path);
        is_begun = fd >= 0 ? list_directory(removal, &removal->list, fd, "cannot list the directory")
                           : fail_at(removal, "", "cannot open", errno);
        if (fd >= 0)
            (void)os_close(fd);
    }
    return is_begun ? CLI_OK : cli_report(&removal->diag);
}

int cli_removal_finish(cli_removal *removal)
{
    const char *const name = lmc_last_component(removal->path);
    char *const folder = lmc_directory_of(&lmc_memory_default, removal->path);
    errno = ENOMEM;
    const int folder_fd = folder ? os_open_folder(folder) : -1;
    int is_done = folder_fd >= 0 || fail_os(removal, "", errno);
    free(folder);
    if (is_done) {
        is_done = removal->state.kind == OS_FOLDER
                      ? remove_directory(removal, folder_fd, name)
                      : remove_file(removal, folder_fd, name, "", &removal->state, 0);
        (void)os_close(folder_fd);
    }
    return is_done ? CLI_OK : cli_report(&removal->diag);
}

void cli_removal_free(cli_removal *removal)
{
    if (!removal)
        return;
    free_list(&removal->list);
    free(removal->path);
    free(removal);
}
