/*
 * unistd.h - what the tests use of <unistd.h> and <sys/stat.h> beyond what MinGW has of them. Links cannot be made: the
 * calls fail, and tests leave out what needs them.
 */
#ifndef LMC_CROSS_WINDOWS_UNISTD_H
#define LMC_CROSS_WINDOWS_UNISTD_H

#include_next <unistd.h>

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifndef O_CLOEXEC
#define O_CLOEXEC _O_NOINHERIT
#endif
#ifndef O_DIRECTORY
#define O_DIRECTORY 0
#endif
#ifndef O_NOFOLLOW
#define O_NOFOLLOW 0
#endif

#define lstat stat
#define mkdir(path, mode) ((void)(mode), mkdir(path))
#define pipe(ends) _pipe(ends, 65536, _O_BINARY | _O_NOINHERIT)

static inline char *mkdtemp(char *path)
{
    return mktemp(path) && (mkdir)(path) == 0 ? path : NULL;
}

/* Of <windows.h>, which defines names that the tests have, too. rename() replaces nothing on Windows. */
__declspec(dllimport) int __stdcall MoveFileExA(const char *from, const char *to, unsigned long flags);

static inline int lmc_test_rename(const char *from, const char *to)
{
    enum { REPLACE_EXISTING = 1 };
    errno = EACCES;
    return MoveFileExA(from, to, REPLACE_EXISTING) ? 0 : -1;
}
#define rename lmc_test_rename

static inline int setenv(const char *name, const char *value, int replace)
{
    return !replace && getenv(name) ? 0 : _putenv_s(name, value);
}

static inline int unsetenv(const char *name)
{
    return _putenv_s(name, "");
}

static inline int mkfifo(const char *path, unsigned mode)
{
    (void)path;
    (void)mode;
    errno = ENOSYS;
    return -1;
}

static inline int symlink(const char *target, const char *path)
{
    (void)target;
    (void)path;
    errno = ENOSYS;
    return -1;
}

#endif
