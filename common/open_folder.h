/*
 * open_folder.h - folders that are held open: what is in them is reached from their descriptors, along no link.
 */
#ifndef LMC_COMMON_OPEN_FOLDER_H
#define LMC_COMMON_OPEN_FOLDER_H

struct stat;

/* Opens a folder to look names up in, also one whose names may not be listed. Returns its descriptor, or -1 with errno
 * set. */
int lmc_open_folder(const char *path);

/* Opens a folder by its name in an open one: no link, ".." or path. Returns as lmc_open_folder(). */
int lmc_open_own_folder(int folder_fd, const char *name);

/* Opens the folder that a relative path below an open one is in, along no link, and sets *name to the last component.
 * The path is changed for moments; no memory is needed. Returns as lmc_open_folder(). */
int lmc_open_folder_of(int root_fd, char *path, const char **name);

/* Calls visit(user, name) for each name in the open folder but "." and "..", in no order. A result other than 0 ends
 * the list and is returned. Else returns 0 or an errno. */
int lmc_visit_folder(int folder_fd, int (*visit)(void *user, const char *name), void *user);

/* 1 if they are of one file, in whatever state. */
int lmc_is_same_file(const struct stat *a, const struct stat *b);

#endif
