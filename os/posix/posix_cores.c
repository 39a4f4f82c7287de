/*
 * posix_cores.c - counts cores by affinity mask and cgroup quota. Only Linux has both; elsewhere all cores of the
 * machine count. Files are read into buffers of fixed size. A file that is not as expected sets no limit.
 */
#include "os/posix/posix.h"

#include "common/number.h"
#include "lmc.h"

#include <errno.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#include <stdio.h>
#include <string.h>
#endif

static unsigned at_least_one(long count)
{
    return count > 1 ? (unsigned)count : 1;
}

#ifdef __linux__

#define PATH_NBYTES 4096
#define CGROUPS_NBYTES 16384 /* a line for each hierarchy */
#define QUOTA_NBYTES 64

/* Reads the beginning of a file as text, `capacity` bytes with the NUL. Its path is the first path_nbytes bytes of
 * `path` and a name. Returns 0 if it cannot be read. */
static int read_text(const char *path, size_t path_nbytes, const char *name, char *text, size_t capacity)
{
    char whole[PATH_NBYTES];
    size_t used = 0;
    ssize_t got = 0;
    const int nbytes = snprintf(whole, sizeof whole, "%.*s%s", (int)path_nbytes, path, name);
    const int fd = nbytes > 0 && nbytes < PATH_NBYTES ? open(whole, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    do {
        got = read(fd, text + used, capacity - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    } while ((got > 0 && used < capacity - 1) || (got < 0 && errno == EINTR));
    close(fd);
    text[used] = '\0';
    return got >= 0;
}

/* The quota of the cgroup whose directory is the first `nbytes` bytes of `path`; 0: no limit. Version 2 has one file
 * with "QUOTA PERIOD" or "max PERIOD". Version 1 has two files, and a quota of -1 for no limit. */
static unsigned read_quota(const char *path, size_t nbytes, int version)
{
    char text[QUOTA_NBYTES];
    const char *at = text;
    uint64_t quota, period;
    if (!read_text(path, nbytes, version == 2 ? "/cpu.max" : "/cpu.cfs_quota_us", text, sizeof text) ||
        !lmc_read_number(&at, NULL, &quota) || quota == UINT64_MAX)
        return 0;
    if (version == 2) {
        if (*at++ != ' ')
            return 0;
    } else {
        if (!read_text(path, nbytes, "/cpu.cfs_period_us", text, sizeof text))
            return 0;
        at = text;
    }
    if (!lmc_read_number(&at, NULL, &period) || period == 0 || period == UINT64_MAX)
        return 0;
    return (unsigned)lmc_min_u64(lmc_div_ceil(quota, period), LMC_THREAD_COUNT_MAX);
}

static unsigned smaller_quota(unsigned a, unsigned b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The smallest quota of the cgroup `cgroup` and those above it, in a hierarchy that is mounted at `mount` below the
 * root. In a container the mounted directory may be the cgroup itself, with a path that only the host knows. Then only
 * the mount's own directory is there. */
static unsigned read_hierarchy(const char *root, const char *mount, const char *cgroup, int version)
{
    char path[PATH_NBYTES];
    const int mount_nbytes = snprintf(path, sizeof path, "%s/sys/fs/cgroup%s", root, mount);
    const int nbytes = snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s", root, mount, cgroup);
    if (mount_nbytes < 0 || nbytes < mount_nbytes || nbytes >= PATH_NBYTES)
        return 0;
    size_t used = (size_t)nbytes;
    unsigned quota = read_quota(path, used, version);
    while (used > (size_t)mount_nbytes) {
        do
            used--;
        while (path[used] != '/');
        quota = smaller_quota(quota, read_quota(path, used, version));
    }
    return quota;
}

/* Controllers are separated by commas. */
static int has_cpu_controller(const char *controllers)
{
    for (const char *at = controllers; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, "cpu", 3) == 0 && (at[3] == ',' || at[3] == '\0'))
            return 1;
    }
    return 0;
}

/* A line of /proc/self/cgroup is "NUMBER:CONTROLLERS:CGROUP"; what is no such line, or cut short, is left out.
 * Version 2 has no controllers, and is mounted at /sys/fs/cgroup, or at "unified" below it beside version 1. A
 * hierarchy of version 1 is mounted at a directory with the names of its controllers, or at "cpu". */
unsigned lmc_os_core_quota(const char *root)
{
    char text[CGROUPS_NBYTES];
    unsigned quota = 0;
    if (!read_text(root, strlen(root), "/proc/self/cgroup", text, sizeof text))
        return 0;
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        char *const mount = strchr(line, ':');
        char *cgroup = mount ? strchr(mount + 1, ':') : NULL;
        if (!cgroup || cgroup[1] != '/')
            continue;
        *mount = '/';
        *cgroup++ = '\0';
        /* the mounted directory itself, or a process outside the namespace of its cgroup */
        if (strcmp(cgroup, "/") == 0 || strncmp(cgroup, "/..", 3) == 0)
            *cgroup = '\0';
        const int version = mount[1] == '\0' ? 2 : 1;
        if (version == 1 && !has_cpu_controller(mount + 1))
            continue;
        quota = smaller_quota(quota, read_hierarchy(root, version == 2 ? "" : mount, cgroup, version));
        quota =
            smaller_quota(quota, read_hierarchy(root, version == 2 ? "/unified" : "/cpu", cgroup, version));
    }
    return quota;
}

/* Cores in the affinity mask. The set is large enough for every kernel; a kernel with more cores refuses a smaller
 * one. */
unsigned lmc_os_core_count(void)
{
    cpu_set_t sets[64];
    if (sched_getaffinity(0, sizeof sets, sets) == 0)
        return at_least_one(CPU_COUNT_S(sizeof sets, sets));
    return at_least_one(sysconf(_SC_NPROCESSORS_ONLN));
}

#else

unsigned lmc_os_core_quota(const char *root)
{
    (void)root;
    return 0;
}

unsigned lmc_os_core_count(void)
{
    return at_least_one(sysconf(_SC_NPROCESSORS_ONLN));
}

#endif
