/*
 * posix_loaded.c - what stays loaded. dladdr() is beyond POSIX 2008.
 */
#include "os/posix/posix.h"

#ifndef __ELF__
#include <dlfcn.h>
#endif

void lmc_os_stay_loaded(const void *address)
{
#ifdef __ELF__
    (void)address;
#else
    Dl_info place;
    if (dladdr(address, &place) != 0)
        (void)dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD); /* never closed */
#endif
}
