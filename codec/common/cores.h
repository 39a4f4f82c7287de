/*
 * cores.h - how many cores this process may use. lmc_core_count() is the public answer.
 */
#ifndef LMC_CODEC_COMMON_CORES_H
#define LMC_CODEC_COMMON_CORES_H

#include "common/compiler.h"

/* The CPU quota of the process's cgroups in cores, rounded up. 0 if they set no limit, or none can be read.
 * root: the path in front of "/proc/self/cgroup" and "/sys/fs/cgroup", "" outside of tests. */
unsigned lmc_core_quota(const char *root);

#endif
