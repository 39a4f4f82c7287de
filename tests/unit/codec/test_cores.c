/* test_cores.c - how many cores a process may use: quotas of cgroups, read from trees of files that are made here, and
 * the affinity mask of a child. */
#ifdef __linux__
#define _GNU_SOURCE /* cpu_set_t; before any header */
#endif

#include "lmc_test_data.h"

#include "lmc_test.h"

#include "os/os.h"
#include "codec/frame/ctx.h"
#include "lmc_experimental.h"

#ifdef __linux__

#include <ftw.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[] = "/tmp/lmc-cores-XXXXXX";

/* Writes a file of the tree, and the directories above it. */
static void put(const char *name, const char *text)
{
    char path[9000];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *slash = strchr(path + sizeof root, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *const file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        abort();
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

/* An empty tree in which this process is in the cgroups that `own` says. */
static void begin(const char *own)
{
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    if (mkdir(root, 0700) != 0)
        abort();
    put("/proc/self/cgroup", own);
}

LMC_TEST(test_no_tree)
{
    begin("");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 0);
    CU_ASSERT_EQUAL(lmc_os_core_quota("/Nowhere/at/all"), 0);
    begin("0::/A/b\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 0);
}

static void check_v2(const char *text, unsigned wanted)
{
    begin("0::/U/one\n");
    put("/sys/fs/cgroup/U/one/cpu.max", text);
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), wanted);
}

LMC_TEST(test_texts_of_version_2)
{
    check_v2("200000 100000\n", 2);
    check_v2("100000 100000\n", 1);
    check_v2("100001 100000\n", 2); /* rounded up */
    check_v2("1000 100000\n", 1);
    check_v2("350000 100000", 4);
    check_v2("12345600000 100000\n", LMC_THREAD_COUNT_MAX);
    check_v2("max 100000\n", 0);
    check_v2("max", 0);
    check_v2("", 0);
    check_v2("\n", 0);
    check_v2("200000", 0);
    check_v2("200000 ", 0);
    check_v2("200000 0\n", 0);
    check_v2("200000 max\n", 0);
    check_v2("-1 100000\n", 0);
    check_v2("99999999999999999999999999999999 100000\n", 0);
    check_v2("100000 99999999999999999999999999999999\n", 0);
}

/* The smallest quota of a cgroup and those above it; the root of all has none. */
LMC_TEST(test_parents)
{
    begin("0::/A/b/c\n");
    put("/sys/fs/cgroup/A/b/c/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/A/b/cpu.max", "300000 100000\n");
    put("/sys/fs/cgroup/A/cpu.max", "800000 100000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 3);
    put("/sys/fs/cgroup/A/b/c/cpu.max", "700000 100000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 3);
    put("/sys/fs/cgroup/A/cpu.max", "150000 100000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 2);
    put("/sys/fs/cgroup/other/cpu.max", "100000 100000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 2);
    put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 1);
}

/* In a container the mount is the cgroup itself, whatever its host calls it. */
LMC_TEST(test_containers)
{
    begin("0::/\n");
    put("/sys/fs/cgroup/cpu.max", "250000 100000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 3);
    begin("0::/D/0123456789abcdef\n");
    put("/sys/fs/cgroup/cpu.max", "250000 100000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 3);
    begin("0::/../../other\n"); /* a cgroup outside of the namespace: not to be looked for */
    put("/sys/fs/cgroup/cpu.max", "250000 100000\n");
    put("/sys/other/cpu.max", "100000 100000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 3);
}

LMC_TEST(test_version_1)
{
    begin("12:memory:/m\n4:cpu,cpuacct:/A/b\n1:name=systemd:/A\n0::/A/b\n");
    put("/sys/fs/cgroup/cpu,cpuacct/A/b/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/A/b/cpu.cfs_period_us", "100000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 0);
    put("/sys/fs/cgroup/cpu,cpuacct/A/cpu.cfs_quota_us", "220000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 0); /* no period */
    put("/sys/fs/cgroup/cpu,cpuacct/A/cpu.cfs_period_us", "50000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 5);
    put("/sys/fs/cgroup/unified/A/b/cpu.max", "400000 100000\n"); /* version 2 beside it */
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 4);
    begin("3:cpuacct,cpu:/\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 3);
    begin("3:cpuset,cpuacct:/\n5:xcpu:/\n6:cpux:/\n"); /* none of these is the controller of quotas */
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 0);
}

/* Lines that are none, names of any length: nothing is read past its end, and what can be read counts. */
LMC_TEST(test_odd_lists)
{
    static char longer[40000];
    static const char *const odd[] = {
        "\n", ":", "::", "0:", "0::", "0::\n", "0:::\n", "0::a\n", ":::/\n0", "\n\n\n"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        begin(odd[i]);
        put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
        CU_ASSERT_EQUAL(lmc_os_core_quota(root), 0);
    }
    begin("nonsense\n0::/A\n");
    put("/sys/fs/cgroup/A/cpu.max", "100000 100000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 1);
    memset(longer, 'x', sizeof longer - 1);
    memcpy(longer, "0::/", 4);
    begin(longer);
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 0);
    memcpy(longer + 4090 - sizeof root, "\n7:cpu:/c\n",
           10); /* a path that fits no buffer, then one that does */
    memset(longer + 4090 - sizeof root + 10, '\n', 10);
    longer[4200] = '\0';
    begin(longer);
    put("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "200000\n");
    put("/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
    CU_ASSERT_EQUAL(lmc_os_core_quota(root), 2);
}

/* ---- this process ---- */

LMC_TEST(test_bounds)
{
    const unsigned count = lmc_core_count();
    CU_ASSERT(count >= 1 && count <= LMC_THREAD_COUNT_MAX);
    CU_ASSERT_EQUAL(lmc_core_count(), count);
}

/* A child that may use one core only: 0 if it counts one. */
static int count_with_one_core(void)
{
    cpu_set_t cores, first;
    size_t i = 0;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        return 2;
    while (i < CPU_SETSIZE && !CPU_ISSET(i, &cores))
        i++;
    CPU_ZERO(&first);
    CPU_SET(i, &first);
    if (i == CPU_SETSIZE || sched_setaffinity(0, sizeof first, &first) != 0)
        return 2;
    lmc_ctx *ctx = NULL;
    if (lmc_ctx_create(NULL, &ctx) != LMC_OK || lmc_ctx_set_thread_count(ctx, 0) != LMC_OK)
        return 1;
    const unsigned thread_count = ctx->thread_count;
    lmc_ctx_free(ctx);
    return lmc_core_count() == 1 && thread_count == 1 ? 0 : 1;
}

LMC_TEST(test_affinity)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0)
        _exit(count_with_one_core());
    CU_ASSERT_FATAL(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == 2)
        LMC_TEST_SKIP("the affinity mask cannot be set here");
    CU_ASSERT_EQUAL(WEXITSTATUS(status), 0);
}

int main(int argc, char **argv)
{
    if (!mkdtemp(root))
        abort();
    const int result = lmc_test_main("cores", argc, argv);
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return result;
}

#else

LMC_TEST(test_bounds)
{
    const unsigned count = lmc_core_count();
    CU_ASSERT(count >= 1 && count <= LMC_THREAD_COUNT_MAX);
}

LMC_TEST_MAIN("cores")

#endif
