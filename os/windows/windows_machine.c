/*
 * windows_machine.c - time, random numbers, and memory.
 */
#include "os/windows/windows.h"

#include <ntsecapi.h> /* RtlGenRandom */
#include <psapi.h>

uint64_t os_clock_ns(void)
{
    LARGE_INTEGER per_second;
    LARGE_INTEGER now;
    (void)QueryPerformanceFrequency(&per_second);
    (void)QueryPerformanceCounter(&now);
    const uint64_t frequency = (uint64_t)per_second.QuadPart;
    const uint64_t count = (uint64_t)now.QuadPart;
    return count / frequency * 1000000000U + count % frequency * 1000000000U / frequency;
}

void os_sleep_ms(unsigned milliseconds)
{
    Sleep(milliseconds);
}

uint64_t os_unforeseen_u64(void)
{
    uint64_t number = 0;
    if (RtlGenRandom(&number, sizeof number))
        return number;
    LARGE_INTEGER now; /* the address space is laid out at random, too */
    (void)QueryPerformanceCounter(&now);
    number = (uint64_t)now.QuadPart ^ (uint64_t)(uintptr_t)&now << 20 ^ (uint64_t)GetCurrentProcessId() << 48;
    return number * 0x9E3779B97F4A7C15U;
}

/* What of a limit is left. */
static uint64_t left_of(int is_limited, uint64_t limit, uint64_t used)
{
    if (!is_limited)
        return UINT64_MAX;
    return limit > used ? limit - used : 0;
}

uint64_t os_room_for(uint64_t nbytes)
{
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION job;
    PROCESS_MEMORY_COUNTERS used;
    if (!QueryInformationJobObject(NULL, JobObjectExtendedLimitInformation, &job, sizeof job, NULL) ||
        !GetProcessMemoryInfo(GetCurrentProcess(), &used, sizeof used))
        return UINT64_MAX;
    const DWORD flags = job.BasicLimitInformation.LimitFlags;
    const uint64_t of_process =
        left_of((flags & JOB_OBJECT_LIMIT_PROCESS_MEMORY) != 0, job.ProcessMemoryLimit, used.PagefileUsage);
    const uint64_t of_job =
        left_of((flags & JOB_OBJECT_LIMIT_JOB_MEMORY) != 0, job.JobMemoryLimit, used.PagefileUsage);
    const uint64_t left = of_process < of_job ? of_process : of_job;
    return left == UINT64_MAX ? UINT64_MAX : left / nbytes;
}

void os_take_pages(void *memory, size_t nbytes)
{
    (void)memory; /* the system does not have such a call */
    (void)nbytes;
}
