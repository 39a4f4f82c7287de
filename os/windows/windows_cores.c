/*
 * windows_cores.c - the cores that this process may run on. liblmc.a has this file without the others.
 */
#include "os/windows/windows.h"

/* How many bits are set. */
static unsigned count_bits(uint64_t mask)
{
    unsigned count = 0;
    for (; mask != 0; mask &= mask - 1)
        count++;
    return count;
}

unsigned lmc_os_core_count(void)
{
    DWORD_PTR own = 0;
    DWORD_PTR there = 0;
    const unsigned all = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    /* a process with threads in several groups has no mask, nor has one that is not bound to a group */
    if (GetActiveProcessorGroupCount() == 1 && GetProcessAffinityMask(GetCurrentProcess(), &own, &there) &&
        own != 0)
        return count_bits(own);
    return all > 0 ? all : 1;
}

unsigned lmc_os_core_quota(const char *root)
{
    enum { WHOLE = 10000 }; /* of all cores of the machine */
    JOBOBJECT_CPU_RATE_CONTROL_INFORMATION rate = {.ControlFlags = 0};
    const DWORD wanted = JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP;
    if (root[0] != '\0' ||
        !QueryInformationJobObject(NULL, JobObjectCpuRateControlInformation, &rate, sizeof rate, NULL) ||
        (rate.ControlFlags & wanted) != wanted)
        return 0;
    const uint64_t all = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return (unsigned)((all * rate.CpuRate + WHOLE - 1) / WHOLE);
}
