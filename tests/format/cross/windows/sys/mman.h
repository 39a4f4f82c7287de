/*
 * mman.h - as much of <sys/mman.h> as the tests use, on Windows, which has none: pages that may not be touched, and
 * memory that is aligned as malloc() aligns it.
 */
#ifndef LMC_CROSS_WINDOWS_MMAN_H
#define LMC_CROSS_WINDOWS_MMAN_H

#include <stdlib.h>

/* <windows.h> has names of its own for what tests define. */
__declspec(dllimport) void *__stdcall VirtualAlloc(void *, size_t, unsigned long, unsigned long);
__declspec(dllimport) int __stdcall VirtualProtect(void *, size_t, unsigned long, unsigned long *);
__declspec(dllimport) int __stdcall VirtualFree(void *, size_t, unsigned long);

#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_PRIVATE 2
#define MAP_ANONYMOUS 0x20
#define MAP_NORESERVE 0x4000
#define MAP_FAILED ((void *)-1)

enum {
    MMAN_COMMIT = 0x1000,
    MMAN_RESERVE = 0x2000,
    MMAN_RELEASE = 0x8000,
    MMAN_NO_ACCESS = 1,
    MMAN_READ_ONLY = 2,
    MMAN_READ_WRITE = 4
};

static inline unsigned long mman_protection(int protection)
{
    return protection == PROT_NONE     ? MMAN_NO_ACCESS
           : (protection & PROT_WRITE) ? MMAN_READ_WRITE
                                       : MMAN_READ_ONLY;
}

static inline void *mmap(void *address, size_t nbytes, int protection, int flags, int fd, long long offset)
{
    (void)fd;
    (void)offset;
    /* without its own place in the swap file until mprotect() asks for that */
    const unsigned long kind =
        protection == PROT_NONE || (flags & MAP_NORESERVE) ? MMAN_RESERVE : MMAN_RESERVE | MMAN_COMMIT;
    void *const memory = VirtualAlloc(address, nbytes, kind, mman_protection(protection));
    return memory ? memory : MAP_FAILED;
}

static inline int mprotect(void *memory, size_t nbytes, int protection)
{
    unsigned long old = 0;
    if (protection != PROT_NONE && !VirtualAlloc(memory, nbytes, MMAN_COMMIT, mman_protection(protection)))
        return -1;
    return VirtualProtect(memory, nbytes, mman_protection(protection), &old) ? 0 : -1;
}

static inline int munmap(void *memory, size_t nbytes)
{
    (void)nbytes;
    return VirtualFree(memory, 0, MMAN_RELEASE) ? 0 : -1;
}

static inline int posix_memalign(void **memory, size_t alignment, size_t nbytes)
{
    (void)alignment; /* free() takes nothing that is aligned otherwise */
    *memory = malloc(nbytes);
    return *memory ? 0 : 12;
}

#endif
