/* cores.c - how many cores this process may use: those that it may run on, and the quota of its control groups. */
#include "lmc_experimental.h"
#include "os/os.h"

unsigned lmc_core_count(void)
{
    const unsigned there = lmc_os_core_count(), quota = lmc_os_core_quota("");
    const unsigned cores = quota != 0 && quota < there ? quota : there;
    return cores < LMC_THREAD_COUNT_MAX ? cores : LMC_THREAD_COUNT_MAX;
}
