/*
 * cores.h - how many cores this process may use: what lmc_core_count() is made of.
 */
#ifndef LMC_CODEC_COMMON_CORES_H
#define LMC_CODEC_COMMON_CORES_H

#include "codec/common/common.h"

/* Cores' worth of time that the process's cgroups allow it, rounded up; 0 if they set no limit, or none can be read.
 * root: what stands before "/proc/self/cgroup" and "/sys/fs/cgroup", "" outside of tests. */
unsigned lmc_core_quota(const char *root);

#endif
