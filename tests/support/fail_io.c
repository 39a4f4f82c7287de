/*
 * fail_io.c - makes calls to the operating system fail as the environment says; for LD_PRELOAD.
 *
 *   FAIL_IO        rules CALL:AT:TIMES:ACTION, separated by commas. CALL: a name below or "any" (but
 *                  memory); AT: the first occurrence that is hit, from 1; TIMES: how many are, 0 for all;
 *                  ACTION: eN fails with errno N, sN raises signal N and then makes the call, "short"
 *                  lets one byte through
 *   FAIL_IO_BYTE   of the reads and writes at an offset, only those that transfer this byte count
 *   FAIL_IO_UNDER  only files below this folder count (threads and memory have none: they always do)
 *   FAIL_IO_LOG    gets a line for each hit: the call's name
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RULE_COUNT_MAX 8

typedef struct rule {
    char call[16];
    unsigned long at;
    unsigned long times;
    char kind; /* 'e', 's', or 'h' for short */
    int number;
    unsigned long seen;
} rule;

static rule rules[RULE_COUNT_MAX];
static int rule_count;
static const char *under;
static size_t under_length;
static const char *log_path;
static long long byte_at = -1; /* -1: all count */

__attribute__((constructor)) static void read_settings(void)
{
    const char *text = getenv("FAIL_IO");
    under = getenv("FAIL_IO_UNDER");
    under_length = under == NULL ? 0 : strlen(under);
    log_path = getenv("FAIL_IO_LOG");
    byte_at = getenv("FAIL_IO_BYTE") == NULL ? -1 : atoll(getenv("FAIL_IO_BYTE"));
    int count = 0;
    while (text != NULL && count < RULE_COUNT_MAX) {
        rule *const rule = &rules[count];
        char action[16];
        if (sscanf(text, "%15[a-z]:%lu:%lu:%15[a-z0-9]", rule->call, &rule->at, &rule->times, action) != 4)
            abort();
        rule->kind = strcmp(action, "short") == 0 ? 'h' : action[0];
        rule->number = atoi(action + 1);
        count++;
        text = strchr(text, ',');
        text = text == NULL ? NULL : text + 1;
    }
    rule_count = count;
}

/* ---- which files count ---- */

static int is_under(const char *path)
{
    return under == NULL || (strncmp(path, under, under_length) == 0 &&
                             (path[under_length] == '/' || path[under_length] == '\0'));
}

static int fd_counts(int fd)
{
    char link[40];
    char path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = '\0';
    return length > 0 && is_under(path);
}

static int path_counts(int folder, const char *path)
{
    char current[PATH_MAX];
    if (path[0] == '/')
        return is_under(path);
    if (folder != AT_FDCWD)
        return fd_counts(folder);
    return getcwd(current, sizeof current) != NULL && is_under(current);
}

static int place_counts(long long at, size_t nbytes)
{
    return byte_at < 0 || (at <= byte_at && (unsigned long long)(byte_at - at) < nbytes);
}

/* ---- hits ---- */

/* By system calls: what it would call by name is what it stands for. */
static void note(const char *call)
{
    char line[32];
    if (log_path == NULL)
        return;
    const int length = snprintf(line, sizeof line, "%s\n", call);
    const long fd = syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_APPEND | O_CREAT, 0666);
    (void)!syscall(SYS_write, fd, line, (size_t)length);
    (void)syscall(SYS_close, fd);
}

static int applies(rule *rule, const char *call)
{
    const int is_any = strcmp(rule->call, "any") == 0 && strcmp(call, "alloc") != 0;
    if (!is_any && strcmp(rule->call, call) != 0)
        return 0;
    const unsigned long seen = __atomic_add_fetch(&rule->seen, 1, __ATOMIC_RELAXED);
    return seen >= rule->at && (rule->times == 0 || seen < rule->at + rule->times);
}

/* Returns 1 with errno set if this call is to fail. *nbytes: what it transfers; NULL if it does not. */
static int hit(const char *call, size_t *nbytes)
{
    for (int i = 0; i < rule_count; i++) {
        if (!applies(&rules[i], call))
            continue;
        note(call);
        if (rules[i].kind == 'e') {
            errno = rules[i].number;
            return 1;
        }
        if (rules[i].kind == 's')
            (void)syscall(SYS_kill, getpid(), rules[i].number);
        else if (nbytes != NULL && *nbytes > 1)
            *nbytes = 1;
    }
    return 0;
}

/* The function that this library hides. */
#define NEXT(result, name, parameters) ((result(*) parameters)dlsym(RTLD_NEXT, #name))

#define HIDE(call, result, name, parameters, arguments, counts, nbytes, failure) \
    result name parameters                                                       \
    {                                                                            \
        if ((counts) && hit(call, nbytes))                                       \
            return failure;                                                      \
        return NEXT(result, name, parameters) arguments;                         \
    }

/* ---- opening ---- */

static const char *opening(int flags)
{
    if ((flags & O_TMPFILE) == O_TMPFILE)
        return "tmpfile";
    return (flags & O_CREAT) != 0 ? "create" : "open";
}

#define HIDE_OPEN(name, folder, parameters, arguments)                    \
    int name parameters                                                   \
    {                                                                     \
        mode_t mode = 0;                                                  \
        if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) { \
            va_list list;                                                 \
            va_start(list, flags);                                        \
            mode = va_arg(list, mode_t);                                  \
            va_end(list);                                                 \
        }                                                                 \
        if (path_counts(folder, path) && hit(opening(flags), NULL))       \
            return -1;                                                    \
        return NEXT(int, name, parameters) arguments;                     \
    }

HIDE_OPEN(open, AT_FDCWD, (const char *path, int flags, ...), (path, flags, mode))
HIDE_OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), (path, flags, mode))
HIDE_OPEN(openat, folder, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
HIDE_OPEN(openat64, folder, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

#define HIDE_MKSTEMP(name) \
    HIDE("create", int, name, (char *path), (path), path_counts(AT_FDCWD, path), NULL, -1)
HIDE_MKSTEMP(mkstemp)
HIDE_MKSTEMP(mkstemp64)

HIDE("opendir", DIR *, opendir, (const char *path), (path), path_counts(AT_FDCWD, path), NULL, NULL)
HIDE("opendir", DIR *, fdopendir, (int fd), (fd), fd_counts(fd), NULL, NULL)
HIDE("readdir", struct dirent *, readdir, (DIR * dir), (dir), fd_counts(dirfd(dir)), NULL, NULL)
HIDE("readdir", struct dirent64 *, readdir64, (DIR * dir), (dir), fd_counts(dirfd(dir)), NULL, NULL)

/* ---- open files ---- */

HIDE("close", int, close, (int fd), (fd), fd_counts(fd), NULL, -1)
HIDE("fstat", int, fstat, (int fd, struct stat *to), (fd, to), fd_counts(fd), NULL, -1)
HIDE("fstat", int, fstat64, (int fd, struct stat64 *to), (fd, to), fd_counts(fd), NULL, -1)
HIDE("fsync", int, fsync, (int fd), (fd), fd_counts(fd), NULL, -1)
HIDE("fsync", int, fdatasync, (int fd), (fd), fd_counts(fd), NULL, -1)
HIDE("fchmod", int, fchmod, (int fd, mode_t mode), (fd, mode), fd_counts(fd), NULL, -1)
HIDE("futimens", int, futimens, (int fd, const struct timespec times[2]), (fd, times), fd_counts(fd), NULL,
     -1)
HIDE("ftruncate", int, ftruncate, (int fd, off_t nbytes), (fd, nbytes), fd_counts(fd), NULL, -1)
HIDE("ftruncate", int, ftruncate64, (int fd, off64_t nbytes), (fd, nbytes), fd_counts(fd), NULL, -1)

#define HIDE_FALLOCATE(name, offset)                                                                   \
    HIDE("fallocate", int, name, (int fd, int mode, offset at, offset length), (fd, mode, at, length), \
         fd_counts(fd), NULL, -1)
HIDE_FALLOCATE(fallocate, off_t)
HIDE_FALLOCATE(fallocate64, off64_t)

#define HIDE_AT(call, name, pointer, offset)                                                              \
    HIDE(call, ssize_t, name, (int fd, pointer bytes, size_t nbytes, offset at), (fd, bytes, nbytes, at), \
         place_counts(at, nbytes) && fd_counts(fd), &nbytes, -1)
HIDE_AT("pread", pread, void *, off_t)
HIDE_AT("pread", pread64, void *, off64_t)
HIDE_AT("pwrite", pwrite, const void *, off_t)
HIDE_AT("pwrite", pwrite64, const void *, off64_t)

HIDE("read", ssize_t, read, (int fd, void *bytes, size_t nbytes), (fd, bytes, nbytes), fd_counts(fd), &nbytes,
     -1)
HIDE("write", ssize_t, write, (int fd, const void *bytes, size_t nbytes), (fd, bytes, nbytes), fd_counts(fd),
     &nbytes, -1)

#define HIDE_COPY(name, offset)                                                                        \
    HIDE("copy", ssize_t, name, (int to, int from, offset *at, size_t nbytes), (to, from, at, nbytes), \
         fd_counts(to) || fd_counts(from), &nbytes, -1)
HIDE_COPY(sendfile, off_t)
HIDE_COPY(sendfile64, off64_t)
HIDE("copy", ssize_t, copy_file_range,
     (int from, off64_t *from_at, int to, off64_t *to_at, size_t nbytes, unsigned flags),
     (from, from_at, to, to_at, nbytes, flags), fd_counts(to) || fd_counts(from), &nbytes, -1)

/* ---- names ---- */

#define HIDE_STAT(name, type) \
    HIDE("stat", int, name, (const char *path, type *to), (path, to), path_counts(AT_FDCWD, path), NULL, -1)
HIDE_STAT(stat, struct stat)
HIDE_STAT(stat64, struct stat64)
HIDE_STAT(lstat, struct stat)
HIDE_STAT(lstat64, struct stat64)

#define HIDE_STATAT(name, type)                                                                             \
    HIDE("stat", int, name, (int folder, const char *path, type *to, int flags), (folder, path, to, flags), \
         path_counts(folder, path), NULL, -1)
HIDE_STATAT(fstatat, struct stat)
HIDE_STATAT(fstatat64, struct stat64)

HIDE("link", int, link, (const char *from, const char *to), (from, to), path_counts(AT_FDCWD, to), NULL, -1)
HIDE("link", int, linkat, (int folder, const char *from, int to_folder, const char *to, int flags),
     (folder, from, to_folder, to, flags), path_counts(to_folder, to), NULL, -1)
HIDE("rename", int, rename, (const char *from, const char *to), (from, to), path_counts(AT_FDCWD, to), NULL,
     -1)
HIDE("rename", int, renameat, (int folder, const char *from, int to_folder, const char *to),
     (folder, from, to_folder, to), path_counts(to_folder, to), NULL, -1)
HIDE("rename", int, renameat2, (int folder, const char *from, int to_folder, const char *to, unsigned flags),
     (folder, from, to_folder, to, flags), path_counts(to_folder, to), NULL, -1)
HIDE("unlink", int, unlink, (const char *path), (path), path_counts(AT_FDCWD, path), NULL, -1)
HIDE("unlink", int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags),
     path_counts(folder, path), NULL, -1)
HIDE("mkdir", int, mkdir, (const char *path, mode_t mode), (path, mode), path_counts(AT_FDCWD, path), NULL,
     -1)
HIDE("mkdir", int, mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode),
     path_counts(folder, path), NULL, -1)
HIDE("rmdir", int, rmdir, (const char *path), (path), path_counts(AT_FDCWD, path), NULL, -1)

/* ---- threads and memory ---- */

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument)
{
    if (hit("thread", NULL))
        return errno;
    return NEXT(int, pthread_create, (pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))(
        thread, attributes, start, argument);
}

/* dlsym() itself asks for memory, so the C library's functions are taken by their other names. */
#ifdef __GLIBC__
void *__libc_malloc(size_t nbytes);
void *__libc_calloc(size_t count, size_t nbytes);
void *__libc_realloc(void *old, size_t nbytes);

void *malloc(size_t nbytes)
{
    return hit("alloc", NULL) ? NULL : __libc_malloc(nbytes);
}

void *calloc(size_t count, size_t nbytes)
{
    return hit("alloc", NULL) ? NULL : __libc_calloc(count, nbytes);
}

void *realloc(void *old, size_t nbytes)
{
    return hit("alloc", NULL) ? NULL : __libc_realloc(old, nbytes);
}
#endif
