/*
 * posix_unmount.c - mount points: what is mounted there is unmounted; which paths lead there.
 */
#include "os/posix/posix.h"

#include "os/mount.h"

#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

int posix_unmount(const char *path, int at_once)
{
    extern char **environ;
    char *argv[] = {"fusermount3", at_once ? "-uqz" : "-uq", "--", (char *)(uintptr_t)path, NULL};
    pid_t child;
    int status = 0;
    if (geteuid() == 0)
        return umount2(path, UMOUNT_NOFOLLOW | (at_once ? MNT_DETACH : 0)) == 0 ? 0 : errno;
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

/* Reads a line of /proc/self/mountinfo. Returns 0 if it is of another path. Fields: id, parent, device, root, mount
 * point, options, others up to "-", type, source, options. */
static int read_mount(char *line, const char *path, posix_mounted *mounted)
{
    char *rest = NULL;
    char *field = strtok_r(line, " ", &rest);
    for (int i = 0; i < 2 && field; i++)
        field = strtok_r(NULL, " ", &rest);
    const char *const device = field;
    for (int i = 0; i < 2 && field; i++)
        field = strtok_r(NULL, " ", &rest);
    char *const place = field;
    while (field && strcmp(field, "-") != 0)
        field = strtok_r(NULL, " ", &rest);
    const char *const type = field ? strtok_r(NULL, " ", &rest) : NULL;
    if (!type)
        return 0;
    unescape(place);
    if (strcmp(place, path) != 0)
        return 0;
    const char *const owner = strstr(rest, "user_id=");
    (void)snprintf(mounted->device, sizeof mounted->device, "%s", device);
    (void)snprintf(mounted->type, sizeof mounted->type, "%s", type);
    mounted->is_ours = !owner || strtoul(owner + strlen("user_id="), NULL, 10) == getuid();
    return 1;
}

int posix_mounted_at(const char *path, posix_mounted *mounted)
{
    char *line = NULL;
    size_t capacity = 0;
    int is_found = 0;
    FILE *const mounts = fopen("/proc/self/mountinfo", "re");
    while (mounts && getline(&line, &capacity, mounts) > 0)
        is_found |= read_mount(line, path, mounted); /* the last one is on top */
    if (mounts)
        (void)fclose(mounts);
    free(line);
    return is_found;
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
    posix_mounted mounted;
    char *const real = realpath(path, NULL);
    char *const place = real ? real : mount_path(path); /* a dead mount has no real path */
    int os_errno = EINVAL;
    if (place && posix_mounted_at(place, &mounted) && strncmp(mounted.type, "fuse.", 5) == 0 &&
        strcmp(mounted.type + 5, type) == 0)
        os_errno = geteuid() == 0 || mounted.is_ours ? posix_unmount(place, 0) : EPERM;
    free(place);
    return os_errno;
}

/* ---- paths ---- */

#define LINKS_MAX 40 /* that the system follows in a path */

/* Takes the first component off *path. Returns its length. */
static size_t take_component(const char **path, const char **component)
{
    *component = *path + strspn(*path, "/");
    const size_t nbytes = strcspn(*component, "/");
    *path = *component + nbytes;
    return nbytes;
}

/* Appends a component to a path without links, or takes one off for "..". Returns 0: it is too long. */
static int walk(char *place, const char *component, size_t nbytes)
{
    const size_t length = strlen(place);
    char *const slash = strrchr(place, '/');
    if (nbytes == 1 && component[0] == '.')
        return 1;
    if (nbytes == 2 && memcmp(component, "..", 2) == 0) {
        *(slash ? slash : place) = '\0';
        return 1;
    }
    if (length + 1 + nbytes >= PATH_MAX)
        return 0;
    place[length] = '/';
    memcpy(place + length + 1, component, nbytes);
    place[length + 1 + nbytes] = '\0';
    return 1;
}

int os_leads_into(const char *path, const char *folder)
{
    char place[PATH_MAX] = "", target[PATH_MAX];
    const size_t folder_nbytes = strlen(folder);
    char *owned = NULL; /* what is left of the path, after a link */
    const char *component;
    int is_inside = 0, link_count = 0;
    for (size_t nbytes = take_component(&path, &component); nbytes > 0 && !is_inside;
         nbytes = take_component(&path, &component)) {
        if (!walk(place, component, nbytes))
            break;
        is_inside = strncmp(place, folder, folder_nbytes) == 0 &&
                    (place[folder_nbytes] == '\0' || place[folder_nbytes] == '/');
        const ssize_t got = is_inside ? -1 : readlink(place, target, sizeof target);
        if (got < 0)
            continue;
        char *joined = NULL;
        if (++link_count > LINKS_MAX || asprintf(&joined, "%.*s/%s", (int)got, target, path) < 0)
            break;
        *strrchr(place, '/') = '\0';
        if (target[0] == '/')
            place[0] = '\0';
        free(owned);
        path = owned = joined;
    }
    free(owned);
    return is_inside;
}
