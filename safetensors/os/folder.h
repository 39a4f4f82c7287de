/*
 * folder.h - an open folder whose names belong to this library: what is in it, locks, renames. Functions return 0 or an
 * errno.
 */
#ifndef LMC_SAFETENSORS_OS_FOLDER_H
#define LMC_SAFETENSORS_OS_FOLDER_H

#include "common/open_folder.h"
#include "safetensors/os/file.h"

/* Creates a folder by its path, or by its name in an open one, with the permissions that new folders get. */
int os_folder_create(const char *path);
int os_folder_create_in(int folder_fd, const char *name);

/* Removes an empty folder. */
int os_folder_remove_empty(const char *path);

/* 1 if the name is there, whatever it is; _is_folder: if it is a folder and no link. */
int os_folder_has(int folder_fd, const char *name);
int os_folder_is_folder(int folder_fd, const char *name);

/* 1 if the path below the folder is a file, or leads to one; *nbytes: its size. */
int os_folder_file_nbytes(int folder_fd, const char *path, uint64_t *nbytes);

int os_folder_rename(int folder_fd, const char *from, const char *to);

/* The two names get each other's content in one step. EINVAL, ENOSYS: the system or the file system cannot do that. */
int os_folder_exchange(int folder_fd, const char *one, const char *other);

/* Makes the names in the folder durable. Some file systems refuse to sync a folder: then it is theirs. */
void os_folder_sync(int folder_fd);

int os_folder_remove_file(int folder_fd, const char *name);

/* Creates an empty file. */
int os_folder_create_file(int folder_fd, const char *name);

/* Opens the file `name`, which is created, and locks it; waits while another process has the lock. The file still has
 * its name then. ECANCELED: *cancel became non-zero. ENOENT: the folder itself has gone. The lock ends with os_close().
 */
int os_lock_file(int folder_fd, const char *name, const volatile int *cancel, int *lock_fd);

/* Locks an open folder, for one alone or shared with others. A file system without such locks is no error. */
int os_lock_folder(int folder_fd, int is_shared, const volatile int *cancel);
void os_unlock_folder(int folder_fd);

#endif
