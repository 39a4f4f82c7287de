/*
 * staging.c - directories.h: a directory that grows beside its place. Its folder and itself are held open; names are
 * only looked up in them.
 */
#include "common/own_files.h"
#include "safetensors/files/directories.h"
#include "safetensors/files/file.h"
#include "safetensors/files/folder.h"
#include "safetensors/files/kept.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_TRIES 10

/* ---- where ---- */

static int end_list(void *user, const char *name)
{
    (void)user;
    (void)name;
    return EEXIST;
}

/* 0 if the directory is empty, else an errno: one that cannot be listed counts as full. */
static int check_empty(const char *path)
{
    const int os_errno = os_visit_path(path, end_list, NULL);
    return os_errno == 0 || os_errno == ENOMEM ? os_errno : EEXIST;
}

/* Sets staging->old if there is something that is to be replaced. */
static lmc_status check_target(st_staging *staging, const char *source, int force, lmc_st_diag *diag)
{
    os_state found;
    os_state around;
    const char *const target = staging->target;
    const char *const name_fault = os_name_fault(target);
    const char *fault = NULL;
    if (name_fault)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "its name %s", name_fault);
    char *const true_source = os_real_path(source);
    int has_memory =
        true_source || errno != ENOMEM; /* to tell; without it, the output is not touched either */
    char *const working = os_real_path(".");
    has_memory &= working || errno != ENOMEM;
    const int has_target = os_lstat(OS_HERE, target, &found) == 0;
    if (true_source && strcmp(target, true_source) == 0)
        fault = "input and output are the same directory";
    else if (true_source && lmc_path_is_within(target, true_source))
        fault = "the output would be inside the input";
    else if (true_source && lmc_path_is_within(true_source, target))
        fault = "the input is inside the output";
    else if (working && lmc_path_is_within(working, target))
        fault = "the output is the working directory or holds it";
    else if (has_target && found.kind != OS_FOLDER)
        fault = "the output exists and is not a directory";
    else if (has_target && os_fstat(staging->parent_fd, &around) == 0 && around.device != found.device)
        fault = "the output is a mount point and cannot be replaced";
    free(true_source);
    free(working);
    if (!has_memory)
        return st_fail_nomem(diag);
    if (fault)
        return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "%s", fault);
    if (!has_target)
        return LMC_OK;
    if (force) {
        staging->has_old = 1;
        staging->old = found;
        return st_kept_check_below(staging->memory, target, diag);
    }
    const int os_errno = check_empty(target);
    if (os_errno == ENOMEM)
        return st_fail_nomem(diag);
    return os_errno == 0 ? LMC_OK : st_fail_exists(diag);
}

/* ---- opening ---- */

/* Returns 0 if the name is that of the open directory, else an errno: a run that ended, or somebody else, may have
 * renamed or removed it. */
static int check_name(int fd, int folder_fd, const char *name)
{
    os_state by_fd;
    os_state by_name;
    const int os_errno = os_fstat(fd, &by_fd);
    const int name_errno = os_errno != 0 ? os_errno : os_lstat(folder_fd, name, &by_name);
    return name_errno == 0 && !os_is_same_file(&by_fd, &by_name) ? ENOENT : name_errno;
}

/* 1 if the name is known to be another's. */
static int is_taken(int fd, int folder_fd, const char *name)
{
    os_state by_fd;
    os_state by_name;
    return os_fstat(fd, &by_fd) == 0 && os_lstat(folder_fd, name, &by_name) == 0 &&
           !os_is_same_file(&by_fd, &by_name);
}

int st_staging_folds_case(const st_staging *staging)
{
    const char *const name = lmc_last_component(staging->path);
    const size_t stem_nbytes = strlen(name) - strlen(LMC_PARTIAL_SUFFIX);
    char *const other = st_duplicate(staging->memory, name);
    if (!other)
        return 1; /* not known */
    for (char *at = other + stem_nbytes; *at != '\0'; at++)
        *at = (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
    const int folds_case = check_name(staging->fd, staging->parent_fd, other) == 0;
    st_release(staging->memory, other);
    return folds_case;
}

/* What another user has put there, or may have changed, is not gone on with; nor is what has taken the place of a
 * directory that was just created. */
static lmc_status check_is_ours(const st_staging *staging, int is_new, lmc_st_diag *diag)
{
    static const char name[] = ".lmc-st-probe";
    os_state found;
    os_state probe;
    const char *fault = NULL;
    const int os_errno = os_fstat(staging->fd, &found);
    if (os_errno != 0)
        return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot open the unfinished directory beside it");
    int is_ours = found.is_ours;
    if (!is_ours && is_new && os_make_folder(staging->fd, name, 0700) == 0) {
        /* what this process creates there may get the directory's owner: some file systems give all files to one */
        is_ours = os_lstat(staging->fd, name, &probe) == 0 && !probe.is_ours;
        (void)os_remove_folder(staging->fd, name);
    }
    if (!is_ours)
        fault = "belongs to another user";
    else if (!is_new && (found.permissions & 022) != 0)
        fault = "may be written in by other users";
    if (!fault)
        return LMC_OK;
    st_diag_set_file(diag, staging->path);
    return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "this unfinished directory %s: remove it first",
                   fault);
}

/* Creates the directory or opens the one that is there, and locks it. It may go just then. */
static lmc_status open_locked(st_staging *staging, lmc_st_diag *diag)
{
    const char *const name = lmc_last_component(staging->path);
    for (int i = 0; i < OPEN_TRIES; i++) {
        const int made = os_make_folder(staging->parent_fd, name, 0700);
        if (made != 0 && made != EEXIST)
            return st_fail_os(diag, made, LMC_ST_NO_OFFSET, "cannot create a directory beside it");
        staging->fd = os_open_own_folder(staging->parent_fd, name);
        if (staging->fd < 0 && errno == ENOENT)
            continue;
        const lmc_status status =
            staging->fd >= 0
                ? check_is_ours(staging, made == 0, diag)
                : st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot open the unfinished directory beside it");
        if (status != LMC_OK && made == 0)
            (void)os_remove_folder(staging->parent_fd, name);
        if (status != LMC_OK)
            return status;
        if (os_try_lock(staging->fd, OS_LOCK_ALONE) == EWOULDBLOCK) {
            diag->os_errno = EEXIST;
            return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "another process is writing it");
        }
        if (check_name(staging->fd, staging->parent_fd, name) == 0) {
            (void)os_set_permissions(staging->fd, 0700);
            return LMC_OK;
        }
        (void)os_close(staging->fd);
        staging->fd = -1;
    }
    return st_fail(diag, LMC_ERR_IO, LMC_ST_NO_OFFSET, "cannot lock the unfinished directory beside it");
}

lmc_status st_staging_open(st_staging *staging, const lmc_allocator *memory, const char *target,
                           const char *source, int force, lmc_st_diag *diag)
{
    *staging = (st_staging){.fd = -1, .parent_fd = -1, .old_fd = -1, .memory = memory};
    st_diag_set_file(diag, target);
    staging->target = st_true_path(memory, target);
    if (!staging->target)
        return st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a directory there");
    const char *const name = lmc_last_component(staging->target);
    const size_t folder_nbytes = (size_t)(name - staging->target);
    const size_t path_nbytes = strlen(staging->target) + sizeof "." LMC_PARTIAL_SUFFIX;
    char *const folder = lmc_directory_of(memory, staging->target);
    staging->path = st_allocate(memory, path_nbytes);
    lmc_status status = folder && staging->path ? LMC_OK : st_fail_nomem(diag);
    if (status == LMC_OK) {
        snprintf(staging->path, path_nbytes, "%.*s.%s" LMC_PARTIAL_SUFFIX, (int)folder_nbytes,
                 staging->target, name);
        staging->parent_fd = os_open_folder(folder);
        if (staging->parent_fd < 0)
            status = st_fail_os(diag, errno, LMC_ST_NO_OFFSET, "cannot create a directory there");
    }
    st_release(memory, folder);
    if (status == LMC_OK)
        status = check_target(staging, source, force, diag);
    if (status == LMC_OK &&
        strlen(staging->path) > os_path_nbytes_max()) /* it would not be found at the end */
        status = st_fail_os(diag, ENAMETOOLONG, LMC_ST_NO_OFFSET, "cannot create a directory beside it");
    else if (status == LMC_OK)
        status = open_locked(staging, diag);
    if (status != LMC_OK)
        st_staging_leave(staging);
    else
        st_diag_set_file(diag, source);
    return status;
}

/* ---- the end ---- */

static void close_if_open(int *fd)
{
    if (*fd >= 0)
        (void)os_close(*fd);
    *fd = -1;
}

void st_staging_leave(st_staging *staging)
{
    close_if_open(&staging->fd);
    close_if_open(&staging->old_fd);
    close_if_open(&staging->parent_fd);
    st_release(staging->memory, staging->target);
    st_release(staging->memory, staging->path);
    staging->target = NULL;
    staging->path = NULL;
}

/* 0 if both are of one directory, else an errno. */
static int check_same(int one_fd, int other_fd)
{
    os_state one;
    os_state other;
    const int os_errno = os_fstat(one_fd, &one);
    const int other_errno = os_errno != 0 ? os_errno : os_fstat(other_fd, &other);
    return other_errno == 0 && !os_is_same_file(&one, &other) ? ENOENT : other_errno;
}

/* Removes an open directory that has the unfinished one's name. It is opened again by that name: Wine takes the
 * descriptor of a renamed folder for whatever has its old path now. Returns 0 or an errno. */
static int remove_open(const st_staging *staging, int fd)
{
    const char *const name = lmc_last_component(staging->path);
    (void)os_set_permissions(fd, 0700);
    const int named_fd = os_open_own_folder(staging->parent_fd, name);
    int os_errno = named_fd < 0 ? errno : check_same(fd, named_fd);
    if (os_errno == 0)
        os_errno = st_remove_contents(named_fd);
    if (os_errno == 0)
        os_errno = check_name(fd, staging->parent_fd, name);
    if (named_fd >= 0)
        (void)os_close(named_fd);
    return os_errno != 0 ? os_errno : os_remove_folder(staging->parent_fd, name);
}

void st_staging_discard(st_staging *staging)
{
    (void)remove_open(staging, staging->fd);
    st_staging_leave(staging);
}

static int rename_beside(const st_staging *staging, const char *from, const char *to)
{
    return os_rename(staging->parent_fd, from, to);
}

/* "NAME-old" and a number; to be released. */
static char *old_name(const st_staging *staging)
{
    const char *const name = lmc_last_component(staging->path);
    const size_t length = strlen(name) + sizeof("-old-") + 16;
    char *const aside = st_allocate(staging->memory, length);
    if (aside)
        snprintf(aside, length, "%s-old-%012llx", name, (unsigned long long)(os_unforeseen_u64() >> 16));
    return aside;
}

/* Puts the directory into the place of another, which gets its name. Returns 0 or an errno. */
static int exchange_directories(const st_staging *staging)
{
    const char *const name = lmc_last_component(staging->path);
    const char *const target = lmc_last_component(staging->target);
    int os_errno = os_exchange(staging->parent_fd, name, target);
    if (os_errno != EINVAL && os_errno != ENOSYS)
        return os_errno;
    char *const aside = old_name(staging);
    os_errno = !aside ? ENOMEM : rename_beside(staging, target, aside);
    if (os_errno == 0) {
        os_errno = rename_beside(staging, name, target);
        (void)rename_beside(staging, aside, os_errno == 0 ? name : target);
    }
    st_release(staging->memory, aside);
    return os_errno;
}

/* Returns 0 or an errno; EEXIST: somebody has made the directory a run or a store, or one in it, or is about to. */
static int check_not_kept(const st_staging *staging, int fd, const char *path)
{
    lmc_st_diag unused;
    st_diag_init(&unused, path);
    const int lock_fd = os_open(fd, LMC_STORE_LOCK);
    const int is_locked = lock_fd >= 0 && os_try_lock(lock_fd, OS_LOCK_ALONE) == EWOULDBLOCK;
    if (lock_fd >= 0)
        (void)os_close(lock_fd);
    const lmc_status status = is_locked ? LMC_ERR_ARG : st_kept_check_below(staging->memory, path, &unused);
    if (status == LMC_OK || status == LMC_ERR_ARG)
        return status == LMC_OK ? 0 : EEXIST;
    return status == LMC_ERR_NOMEM ? ENOMEM : unused.os_errno != 0 ? unused.os_errno : EIO;
}

/* Returns 0 or an errno; EEXIST: what is there is not the directory that is to be replaced, or not only that. It is
 * locked, so that no other run takes it for an unfinished one. Somebody may have put another directory into the place
 * of one of them just before, or a store into the old one: they are exchanged back then, and nothing is removed. */
static int replace_old(st_staging *staging)
{
    os_state found;
    const char *const target = lmc_last_component(staging->target);
    staging->old_fd = os_open_own_folder(staging->parent_fd, target);
    if (staging->old_fd < 0 && errno == EACCES)
        staging->old_fd = os_open_writable_folder(staging->parent_fd, target);
    const int failed = staging->old_fd < 0 ? errno : os_fstat(staging->old_fd, &found);
    if (failed != 0)
        return failed;
    if (!staging->has_old || !os_is_same_file(&staging->old, &found))
        return EEXIST;
    int os_errno = check_not_kept(staging, staging->old_fd, staging->target);
    if (os_errno != 0)
        return os_errno;
    if (os_try_lock(staging->old_fd, OS_LOCK_ALONE) == EWOULDBLOCK)
        return EBUSY;
    (void)os_set_permissions(staging->old_fd,
                             found.permissions & 0755); /* a later run may have to remove it */
    os_errno = exchange_directories(staging);
    if (os_errno != 0) {
        (void)os_set_permissions(staging->old_fd, found.permissions);
        return os_errno;
    }
    if (is_taken(staging->fd, staging->parent_fd, target) ||
        is_taken(staging->old_fd, staging->parent_fd, lmc_last_component(staging->path)))
        os_errno = ENOENT;
    else
        os_errno = check_not_kept(staging, staging->old_fd, staging->path);
    if (os_errno != 0) {
        (void)exchange_directories(staging);
        (void)os_set_permissions(staging->old_fd, found.permissions);
    }
    return os_errno;
}

lmc_status st_staging_commit(st_staging *staging, const st_attributes *attributes, int force, int no_fsync,
                             lmc_st_diag *diag)
{
    const char *what = "cannot finish the directory";
    st_attributes closed = *attributes;
    closed.permissions &= ~022u; /* a later run does not go on with what others could write in */
    int os_errno = st_finish(staging->fd, &closed, no_fsync);
    if (os_errno == 0)
        what = "cannot give the finished directory its name";
    /* if it or its folder was moved away meanwhile, the target would be somewhere else */
    if (os_errno == 0)
        os_errno = check_name(staging->fd, OS_HERE, staging->path);
    if (os_errno == 0) {
        const char *const target = lmc_last_component(staging->target);
        os_errno =
            rename_beside(staging, lmc_last_component(staging->path), target); /* also over an empty one */
        if (os_errno == ENOTEMPTY || os_errno == EEXIST)
            os_errno = force ? replace_old(staging) : EEXIST;
        else if (os_errno == 0 && is_taken(staging->fd, staging->parent_fd, target))
            os_errno = ENOENT;
    }
    if (os_errno != 0) {
        st_diag_set_file(diag, staging->target);
        close_if_open(&staging->old_fd);
        if (os_errno == EEXIST && force)
            return st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET,
                           "something else has been put in the place of the output, or in it, meanwhile");
        return os_errno == EEXIST ? st_fail_exists(diag) : st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, what);
    }
    if (closed.permissions != attributes->permissions)
        (void)os_set_permissions(staging->fd, attributes->permissions);
    if (!no_fsync)
        (void)os_sync(staging->parent_fd); /* some file systems refuse: then it is theirs */
    /* what cannot be removed of another user's directory must not stand in the way of later runs */
    os_state found;
    if (staging->old_fd >= 0 && remove_open(staging, staging->old_fd) != 0 &&
        os_fstat(staging->old_fd, &found) == 0 && !found.is_ours) {
        char *const aside = old_name(staging);
        if (aside)
            (void)rename_beside(staging, lmc_last_component(staging->path), aside);
        st_release(staging->memory, aside);
    }
    st_staging_leave(staging);
    return LMC_OK;
}

/* ---- what is in it: every path is gone along from the open directory, folder by folder ---- */

lmc_status st_staged_place(const st_staging *staging, const char *path, st_place *place, lmc_st_diag *diag)
{
    char *const shown = lmc_path_join(staging->memory, staging->path, path, "");
    *place = (st_place){-1, NULL, shown};
    if (!shown)
        return st_fail_nomem(diag);
    char *const own = shown + strlen(shown) - strlen(path);
    place->folder_fd = os_open_folder_of(staging->fd, own, &place->name);
    if (place->folder_fd < 0) {
        const int os_errno = errno;
        st_diag_set_file(diag, shown);
        return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, "cannot open the folder that it is to be in");
    }
    return LMC_OK;
}

void st_staged_place_close(const st_staging *staging, st_place *place)
{
    if (place->folder_fd >= 0)
        (void)os_close(place->folder_fd);
    st_release(staging->memory, (char *)place->path);
    *place = (st_place){-1, NULL, NULL};
}

int st_staged_open(const st_place *place)
{
    os_state found;
    const int fd = os_open_own(place->folder_fd, place->name);
    if (fd >= 0 && (os_fstat(fd, &found) != 0 || found.kind != OS_FILE || !found.is_ours)) {
        (void)os_close(fd);
        return -1;
    }
    return fd;
}

int st_staged_link(const st_place *place, const char *path)
{
    os_state found;
    return os_lstat(OS_HERE, path, &found) == 0 && found.kind == OS_FILE && found.is_ours &&
           found.name_count == 1 && os_link(OS_HERE, path, place->folder_fd, place->name) == 0;
}

void st_staged_unlink(const st_place *place)
{
    (void)os_unlink(place->folder_fd, place->name);
}

static lmc_status fail_place(const st_place *place, int os_errno, const char *what, lmc_st_diag *diag)
{
    st_diag_set_file(diag, place->path);
    return st_fail_os(diag, os_errno, LMC_ST_NO_OFFSET, what);
}

lmc_status st_staged_make_directory(const st_staging *staging, const char *path, lmc_st_diag *diag)
{
    st_place place;
    os_state found;
    lmc_status status = st_staged_place(staging, path, &place, diag);
    const char *const fault = status == LMC_OK ? os_name_fault(place.name) : NULL;
    int os_errno = status == LMC_OK && !fault ? os_make_folder(place.folder_fd, place.name, 0700) : 0;
    if (os_errno == EEXIST && os_lstat(place.folder_fd, place.name, &found) == 0 && found.kind == OS_FOLDER &&
        found.is_ours) {
        const int fd = os_open_writable_folder(place.folder_fd, place.name);
        os_errno = fd < 0 ? errno : os_close(fd);
    }
    if (fault) {
        st_diag_set_file(diag, place.path);
        status = st_fail(diag, LMC_ERR_ARG, LMC_ST_NO_OFFSET, "its name %s", fault);
    } else if (os_errno != 0) {
        status = fail_place(&place, os_errno, "cannot create the directory", diag);
    }
    st_staged_place_close(staging, &place);
    return status;
}

lmc_status st_staged_remove(const st_staging *staging, const char *path, lmc_st_diag *diag)
{
    st_place place;
    lmc_status status = st_staged_place(staging, path, &place, diag);
    if (status == LMC_OK) {
        const int os_errno = st_remove_name(place.folder_fd, place.name);
        status = os_errno == 0 ? LMC_OK : fail_place(&place, os_errno, "cannot remove", diag);
    }
    st_staged_place_close(staging, &place);
    return status;
}

lmc_status st_staged_finish_directory(const st_staging *staging, const char *path,
                                      const st_attributes *attributes, int no_fsync, lmc_st_diag *diag)
{
    st_place place;
    lmc_status status = st_staged_place(staging, path, &place, diag);
    if (status == LMC_OK) {
        const int fd = os_open_own_folder(place.folder_fd, place.name);
        const int os_errno = fd < 0 ? errno : st_finish(fd, attributes, no_fsync);
        if (fd >= 0)
            (void)os_close(fd);
        status = os_errno == 0 ? LMC_OK : fail_place(&place, os_errno, "cannot finish the directory", diag);
    }
    st_staged_place_close(staging, &place);
    return status;
}

int st_finish(int fd, const st_attributes *attributes, int no_fsync)
{
    const int os_errno = st_set_attributes(fd, attributes);
    const int sync_errno = os_errno != 0 || no_fsync ? 0 : os_sync(fd);
    return sync_errno != 0 && sync_errno != EINVAL ? sync_errno : os_errno;
}
