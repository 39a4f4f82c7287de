/*
 * posix_unmount.c - file systems of processes that are unmounted.
 */
#include "os/posix/posix.h"

#include "os/mount.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

int posix_unmount(const char *path)
{
    extern char **environ;
    char *argv[] = {"fusermount3", "-u", "-q", (char *)(uintptr_t)path, NULL};
    pid_t child;
    int status = 0;
    if (geteuid() == 0)
        return umount2(path, UMOUNT_NOFOLLOW) == 0 ? 0 : errno;
    const int os_errno = posix_spawnp(&child, argv[0], NULL, NULL, argv, environ);
    if (os_errno != 0)
        return os_errno;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EBUSY;
}

/* Undoes the octal escapes of /proc/self/mountinfo, in place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        unsigned code = 0;
        if (*from == '\\' && sscanf(from + 1, "%3o", &code) == 1) {
            *to = (char)code;
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* 1 if a line of /proc/self/mountinfo is of a file system of this type at the path. Fields: id, parent, device, root,
 * mount point, options, others up to "-", type. */
static int is_mount_of(char *line, const char *path, const char *type)
{
    char *rest = NULL;
    char *field = strtok_r(line, " ", &rest);
    for (int i = 0; i < 4 && field; i++)
        field = strtok_r(NULL, " ", &rest);
    char *const place = field;
    while (field && strcmp(field, "-") != 0)
        field = strtok_r(NULL, " ", &rest);
    const char *const found = field ? strtok_r(NULL, " ", &rest) : NULL;
    if (!found || strncmp(found, "fuse.", 5) != 0 || strcmp(found + 5, type) != 0)
        return 0;
    unescape(place);
    return strcmp(place, path) == 0;
}

/* The path, with links in it followed but for its last component, which may be a dead mount. To be freed. */
static char *mount_path(const char *path)
{
    char *copy = strdup(path);
    char *joined = NULL;
    size_t length = copy ? strlen(copy) : 0;
    while (length > 1 && copy[length - 1] == '/')
        copy[--length] = '\0';
    char *const slash = copy ? strrchr(copy, '/') : NULL;
    const char *const name = slash ? slash + 1 : copy;
    if (slash && slash != copy)
        *slash = '\0';
    char *const folder = !copy ? NULL : realpath(!slash ? "." : slash == copy ? "/" : copy, NULL);
    if (folder && asprintf(&joined, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, name) < 0)
        joined = NULL;
    free(folder);
    free(copy);
    return joined;
}

int os_unmount(const char *path, const char *type)
{
    char *line = NULL;
    size_t capacity = 0;
    int is_found = 0;
    char *const real = realpath(path, NULL);
    char *const place = real ? real : mount_path(path); /* a dead mount has no real path */
    FILE *const mounts = fopen("/proc/self/mountinfo", "re");
    while (mounts && place && !is_found && getline(&line, &capacity, mounts) > 0)
        is_found = is_mount_of(line, place, type);
    const int os_errno = is_found ? posix_unmount(place) : EINVAL;
    if (mounts)
        (void)fclose(mounts);
    free(line);
    free(place);
    return os_errno;
}
