/*
 * old_libc.h - what LMC uses, and glibc has had since 2.28 and musl since 1.2 only. For Linux, build_wheel.sh includes
 * it before every source.
 */
#ifndef LMC_OLD_LIBC_H
#define LMC_OLD_LIBC_H

#include <sys/syscall.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif

long syscall(long number, ...);

static inline __attribute__((unused)) int lmc_renameat2(int from_folder, const char *from, int to_folder,
                                                        const char *to, unsigned flags)
{
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

#define renameat2 lmc_renameat2

#endif
