/* cores.c - counts cores by affinity mask and cgroup quota. Only Linux has both; elsewhere all cores of the machine
 * count. Files are read into buffers of fixed size. A file that is not as expected sets no limit. */
#ifdef __linux__
#define _GNU_SOURCE /* sched_getaffinity */
#endif

#include "codec/common/cores.h"

#include "lmc.h"

#if defined(__linux__)
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>
#elif defined(_WIN32)
#include <windows.h>
#elif defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#if defined(__linux__)

/* ---- files ---- */

#define PATH_NBYTES 4096
#define CGROUPS_NBYTES 16384 /* a line for each hierarchy */
#define QUOTA_NBYTES 64

/* Appends `nbytes` bytes at *used and a NUL behind them. Returns 0 if they do not fit. */
static int append_text(char path[PATH_NBYTES], size_t *used, const char *text, size_t nbytes)
{
    if (nbytes >= PATH_NBYTES - *used)
        return 0;
    memcpy(path + *used, text, nbytes);
    *used += nbytes;
    path[*used] = '\0';
    return 1;
}

/* Reads the beginning of a file as text, `capacity` bytes with the NUL. Returns 0 if it cannot be read. */
static int read_text(const char *path, char *text, size_t capacity)
{
    size_t used = 0;
    ssize_t got = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
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

/* ---- the quota of a cgroup ---- */

/* Reads the number at *text and moves *text behind it. Returns 0 if there is no number, or a very large one. */
static int read_number(const char **text, uint64_t *number)
{
    const char *digit = *text;
    *number = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        if (*number > UINT32_MAX)
            return 0;
        *number = 10 * *number + (uint64_t)(*digit - '0');
    }
    const int is_there = digit != *text;
    *text = digit;
    return is_there;
}

static unsigned cores_of(uint64_t quota, uint64_t period)
{
    const uint64_t cores = period > 0 ? lmc_div_ceil(quota, period) : 0;
    return (unsigned)lmc_min_u64(cores, LMC_THREAD_COUNT_MAX);
}

/* The quota of the cgroup whose directory is the first `used` bytes of `path`; 0: no limit. Version 2 has one file with
 * "QUOTA PERIOD" or "max PERIOD". Version 1 has two files, and a quota of -1 for no limit. */
static unsigned read_quota(char path[PATH_NBYTES], size_t used, int version)
{
    char text[QUOTA_NBYTES];
    const char *at = text;
    const size_t directory_nbytes = used;
    const char *const name = version == 2 ? "/cpu.max" : "/cpu.cfs_quota_us";
    uint64_t quota, period;
    if (!append_text(path, &used, name, strlen(name)) || !read_text(path, text, sizeof text) ||
        !read_number(&at, &quota))
        return 0;
    if (version == 2)
        return *at++ == ' ' && read_number(&at, &period) ? cores_of(quota, period) : 0;
    used = directory_nbytes;
    at = text;
    if (!append_text(path, &used, "/cpu.cfs_period_us", strlen("/cpu.cfs_period_us")) ||
        !read_text(path, text, sizeof text) || !read_number(&at, &period))
        return 0;
    return cores_of(quota, period);
}

static unsigned smaller_quota(unsigned a, unsigned b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* ---- the cgroups of the process ---- */

/* A line of /proc/self/cgroup, "NUMBER:CONTROLLERS:PATH". */
typedef struct cgroup_line {
    const char *controllers, *path;
    size_t controllers_nbytes, path_nbytes;
} cgroup_line;

/* Parses the line at *text and moves *text behind it. Returns 0 if it is not such a line, or is cut short. */
static int read_line(const char **text, cgroup_line *line)
{
    const char *const begin = *text;
    const char *const end = strchr(begin, '\n');
    *text = end ? end + 1 : begin + strlen(begin);
    if (!end)
        return 0;
    const char *const first = memchr(begin, ':', (size_t)(end - begin));
    const char *const second = first ? memchr(first + 1, ':', (size_t)(end - first - 1)) : NULL;
    if (!second || second[1] != '/')
        return 0;
    line->controllers = first + 1;
    line->controllers_nbytes = (size_t)(second - line->controllers);
    line->path = second + 1;
    line->path_nbytes = (size_t)(end - line->path);
    return 1;
}

/* Controllers are separated by commas. */
static int has_cpu_controller(const cgroup_line *line)
{
    const char *at = line->controllers;
    const char *const end = at + line->controllers_nbytes;
    while (at < end) {
        const char *const comma = memchr(at, ',', (size_t)(end - at));
        const char *const next = comma ? comma : end;
        if (next - at == 3 && memcmp(at, "cpu", 3) == 0)
            return 1;
        at = next + 1;
    }
    return 0;
}

/* 1 if the path leads above the mounted directory: the process's cgroup is outside its namespace. */
static int leads_out(const cgroup_line *line)
{
    return line->path_nbytes >= 3 && memcmp(line->path, "/..", 3) == 0;
}

/* The smallest quota of the cgroup and those above it, in a hierarchy that is mounted at `mount` below the root. In a
 * container the mounted directory may be the cgroup itself, with a path that only the host knows. Then only the mount's
 * own directory is there. */
static unsigned read_hierarchy(const char *root, const char *mount, size_t mount_nbytes,
                               const cgroup_line *line, int version)
{
    static const char cgroups[] = "/sys/fs/cgroup";
    char path[PATH_NBYTES];
    size_t used = 0;
    if (!append_text(path, &used, root, strlen(root)) ||
        !append_text(path, &used, cgroups, sizeof cgroups - 1) ||
        !append_text(path, &used, mount, mount_nbytes))
        return 0;
    const size_t mount_end = used;
    const size_t path_nbytes = leads_out(line) || line->path_nbytes == 1 ? 0 : line->path_nbytes;
    if (!append_text(path, &used, line->path, path_nbytes))
        return 0;
    unsigned quota = read_quota(path, used, version);
    while (used > mount_end) {
        do
            used--;
        while (path[used] != '/');
        quota = smaller_quota(quota, read_quota(path, used, version));
    }
    return quota;
}

/* Version 2 is mounted at /sys/fs/cgroup, or at "unified" below it beside version 1. A hierarchy of version 1 is
 * mounted at a directory with the names of its controllers, or at "cpu". */
static unsigned read_any_hierarchy(const char *root, const cgroup_line *line)
{
    char mount[64] = "/";
    if (line->controllers_nbytes == 0)
        return smaller_quota(read_hierarchy(root, "", 0, line, 2),
                             read_hierarchy(root, "/unified", strlen("/unified"), line, 2));
    if (!has_cpu_controller(line) || line->controllers_nbytes >= sizeof mount)
        return 0;
    memcpy(mount + 1, line->controllers, line->controllers_nbytes);
    return smaller_quota(read_hierarchy(root, mount, 1 + line->controllers_nbytes, line, 1),
                         read_hierarchy(root, "/cpu", strlen("/cpu"), line, 1));
}

unsigned lmc_core_quota(const char *root)
{
    static const char own[] = "/proc/self/cgroup";
    char path[PATH_NBYTES];
    char text[CGROUPS_NBYTES];
    const char *at = text;
    size_t used = 0;
    unsigned quota = 0;
    if (!append_text(path, &used, root, strlen(root)) || !append_text(path, &used, own, sizeof own - 1) ||
        !read_text(path, text, sizeof text))
        return 0;
    while (*at != '\0') {
        cgroup_line line;
        if (read_line(&at, &line))
            quota = smaller_quota(quota, read_any_hierarchy(root, &line));
    }
    return quota;
}

/* Cores in the affinity mask. The set is large enough for every kernel; a kernel with more cores refuses a smaller
 * one. */
static unsigned cores_there(void)
{
    cpu_set_t sets[64];
    if (sched_getaffinity(0, sizeof sets, sets) == 0)
        return (unsigned)CPU_COUNT_S(sizeof sets, sets);
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (unsigned)lmc_min_u64((uint64_t)count, LMC_THREAD_COUNT_MAX) : 1;
}

#else /* not Linux: there are no quotas */

unsigned lmc_core_quota(const char *root)
{
    (void)root;
    return 0;
}

static unsigned cores_there(void)
{
#if defined(_WIN32)
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    return (unsigned)system.dwNumberOfProcessors;
#elif defined(_SC_NPROCESSORS_ONLN)
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (unsigned)lmc_min_u64((uint64_t)count, LMC_THREAD_COUNT_MAX) : 1;
#else
    return 1;
#endif
}

#endif

unsigned lmc_core_count(void)
{
    const unsigned there = cores_there(), quota = lmc_core_quota("");
    const unsigned cores = quota != 0 && quota < there ? quota : there;
    if (cores < 1)
        return 1;
    return cores < LMC_THREAD_COUNT_MAX ? cores : LMC_THREAD_COUNT_MAX;
}
