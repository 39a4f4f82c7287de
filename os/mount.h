/*
 * mount.h - a file system that this process answers for: files that are only read, shown at a folder of the machine's.
 * It is there on Linux, where libfuse 3 is loaded when a file system is mounted. Elsewhere, mounting and unmounting
 * return ENOSYS.
 */
#ifndef LMC_OS_MOUNT_H
#define LMC_OS_MOUNT_H

#include "os/os.h"

/* What a node stands for has changed: the system looks its name up again. */
#ifndef ESTALE
#define ESTALE EIO
#endif

#define OS_MOUNT_ROOT ((uint64_t)1) /* the node of the root folder */

/* Why the calls return ENOSYS. */
#define OS_MOUNT_MISSING \
    "that needs Linux, and an lmc-st that was built with libfuse 3 (Debian: libfuse3-dev)"

/* Names of a folder on their way to a reader. */
typedef struct os_names os_names;

/* Adds a name. Returns 0 or ENOMEM. */
int os_names_add(os_names *names, const char *name, uint64_t node, os_kind kind);

/* What the file system has. A node is a file or a folder. The state of a file, and what it contains, never change: what
 * changes gets another node. Calls return 0 or an errno; several threads make them at once.
 *  find   the node of a name in a folder, and its state (ENOENT). Of the state, kind, nbytes, modified and permissions
 *         count, without the bits to write. The node stays until all that were found are forgotten.
 *  forget the system asks no more for a node that it has found so many times.
 *  list   adds the names of a folder, without "." and "..".
 *  open   *file is what read and close get.
 *  read   up to nbytes from `offset` on; *done: fewer only at the end of the file. */
typedef struct os_mount_answers {
    int (*find)(void *user, uint64_t folder, const char *name, uint64_t *node, os_state *state);
    void (*forget)(void *user, uint64_t node, uint64_t count);
    int (*state)(void *user, uint64_t node, os_state *state);
    int (*list)(void *user, uint64_t folder, os_names *names);
    int (*open)(void *user, uint64_t node, void **file);
    int (*read)(void *user, void *file, uint64_t offset, void *dst, size_t nbytes, size_t *done);
    void (*close)(void *user, void *file);
} os_mount_answers;

typedef struct os_mount os_mount;

/* Mounts at the folder `path`. label: what lists of mounts show as its source. type: its type is "fuse." and this.
 * all_users: others than the one who mounts may see it. After a failure, text says why. The answers are not asked
 * before os_mount_serve(). */
int os_mount_open(os_mount **mount, const char *path, const char *label, const char *type, int all_users,
                  const os_mount_answers *answers, void *user, char *text, size_t capacity);

/* Answers with so many threads until the file system was unmounted, *signal_number is other than 0, or nobody has had
 * a file open or asked for anything for idle_s seconds (0: that does not count). Files that are open then fail. */
int os_mount_serve(os_mount *mount, unsigned thread_count, unsigned idle_s,
                   const volatile int *signal_number);

/* Unmounts, unless that was done, and frees. */
void os_mount_close(os_mount *mount);

/* Unmounts the file system of this type at `path`. EINVAL: there is none; EBUSY: something in it is in use. */
int os_unmount(const char *path, const char *type);

/* 1 if the path, with links followed, is `folder` (a path without links) or below it. Nothing in it is asked for. */
int os_leads_into(const char *path, const char *folder);

/* ---- a process in the background ---- */

/* Goes on in a child process. This process waits for its os_end_start(), or its end, and exits with that status. To be
 * called before there are threads. Returns 0 in the child, or an errno. */
int os_begin_background(void);

/* Lets the parent exit with this status. Standard streams are on nothing from now on, and the working directory is the
 * root. */
void os_end_start(int exit_status);

/* Writes a line to the system's log. */
void os_log(const char *program, const char *text);

#endif
