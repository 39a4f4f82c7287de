/*
 * posix_library.c - libraries that are loaded already. dladdr() is beyond POSIX 2008.
 */
#include "os/posix/posix.h"

#include <dlfcn.h>

int lmc_os_library_find(const void *address, const void **base)
{
    Dl_info place;
    if (dladdr(address, &place) == 0)
        return 0;
    *base = place.dli_fbase;
    return 1;
}

void *lmc_os_library_open(const void *address)
{
    Dl_info place;
    if (!address)
        return dlopen(NULL, RTLD_LAZY);
    return dladdr(address, &place) == 0 ? NULL : dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

void lmc_os_library_close(void *library)
{
    (void)dlclose(library);
}

void *lmc_os_library_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}
