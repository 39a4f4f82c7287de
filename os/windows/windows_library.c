/*
 * windows_library.c - libraries that are loaded. libh5lmc has this file without the others.
 */
#include "os/windows/windows.h"

#include <string.h>

int lmc_os_library_find(const void *address, const void **base)
{
    HMODULE module = NULL;
    if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                                GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                            (const WCHAR *)address, &module))
        return 0;
    *base = module;
    return 1;
}

/* address: NULL for the program itself. */
void *lmc_os_library_open(const void *address)
{
    HMODULE module = NULL;
    const DWORD flags = address ? GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS : 0;
    return GetModuleHandleExW(flags, (const WCHAR *)address, &module) ? (void *)module : NULL;
}

void lmc_os_library_close(void *library)
{
    (void)FreeLibrary(library);
}

void *lmc_os_library_symbol(void *library, const char *name)
{
    const FARPROC found = GetProcAddress(library, name);
    void *address = NULL;
    memcpy(&address, &found, sizeof address);
    return address;
}
