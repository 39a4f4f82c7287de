/*
 * folder.h - an open folder whose names belong to this library: what is in it, and locks. Functions return 0 or an
 * errno.
 */
#ifndef LMC_SAFETENSORS_FILES_FOLDER_H
#define LMC_SAFETENSORS_FILES_FOLDER_H

#include "safetensors/files/file.h"

/* *has: 1 if the name is there, whatever it is; _has_folder: if it is a folder and no link. 0 after an error. */
int st_folder_has(int folder_fd, const char *name, int *has);
int st_folder_has_folder(int folder_fd, const char *name, int *has);

/* 1 if the path below the folder is a file, or leads to one; *nbytes: its size. */
int st_folder_file_nbytes(int folder_fd, const char *path, uint64_t *nbytes);

/* Creates an empty file, unless it is there. */
int st_folder_create_file(int folder_fd, const char *name);

/* Opens the file `name`, which is created, and locks it; waits while another process has the lock. The file still has
 * its name then. ECANCELED: *cancel became non-zero. ENOENT: the folder itself has gone. The lock ends with os_close().
 */
int st_lock_file(int folder_fd, const char *name, const volatile int *cancel, int *lock_fd);

/* Locks an open folder, for one alone or shared with others, until os_unlock(). A file system without such locks is no
 * error. */
int st_lock_folder(int folder_fd, os_lock lock, const volatile int *cancel);

#endif
