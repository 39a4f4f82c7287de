/*
 * posix.h - what the files of os/posix/ share. To be included first: it asks for calls beyond POSIX 2008, which Linux
 * and macOS have under names of their own.
 */
#ifndef LMC_OS_POSIX_POSIX_H
#define LMC_OS_POSIX_POSIX_H

#ifdef __linux__
#define _GNU_SOURCE
#endif
#ifdef __APPLE__
#define _DARWIN_C_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include "os/os.h"

#include <fcntl.h>

/* The folder for calls such as openat(). */
static inline int posix_folder(int folder_fd)
{
    return folder_fd == OS_HERE ? AT_FDCWD : folder_fd;
}

/* What is mounted at a path, on top of all else there. */
typedef struct posix_mounted {
    char device[24]; /* "MAJOR:MINOR" */
    char type[40];
    int is_ours; /* this user has mounted it, or no user in particular */
} posix_mounted;

/* Without a question to whoever answers for it. Returns 0: nothing is mounted there. */
int posix_mounted_at(const char *path, posix_mounted *mounted);

/* Unmounts what is at the path, as the superuser does it or by the helper of libfuse; at_once: also what is in use.
 * Returns 0 or an errno. */
int posix_unmount(const char *path, int at_once);

#endif
