/*
 * stat.h - the parts of a struct stat that files of os/ keep: attributes, and which file it is in which state.
 */
#ifndef LMC_SAFETENSORS_OS_STAT_H
#define LMC_SAFETENSORS_OS_STAT_H

#include "safetensors/os/file.h"

#include <sys/stat.h>

static inline void os_take_attributes(os_attributes *attributes, const struct stat *status)
{
    attributes->is_known = 1;
    attributes->permissions = status->st_mode & 0777;
    attributes->modified_s = (int64_t)status->st_mtim.tv_sec;
    attributes->modified_ns = (int64_t)status->st_mtim.tv_nsec;
}

static inline void os_take_identity(os_identity *identity, const struct stat *status)
{
    identity->device = (uint64_t)status->st_dev;
    identity->inode = (uint64_t)status->st_ino;
    identity->nbytes = (uint64_t)status->st_size;
    identity->name_count = (uint64_t)status->st_nlink;
    identity->modified_s = (int64_t)status->st_mtim.tv_sec;
    identity->modified_ns = (int64_t)status->st_mtim.tv_nsec;
    identity->changed_s = (int64_t)status->st_ctim.tv_sec;
    identity->changed_ns = (int64_t)status->st_ctim.tv_nsec;
}

/* 1 if they are the same file, in whatever state. */
static inline int os_is_identity(const os_identity *identity, const struct stat *status)
{
    return (uint64_t)status->st_dev == identity->device && (uint64_t)status->st_ino == identity->inode;
}

#endif
