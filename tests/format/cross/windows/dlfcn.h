/*
 * dlfcn.h - what the tests use of <dlfcn.h>.
 */
#ifndef LMC_CROSS_WINDOWS_DLFCN_H
#define LMC_CROSS_WINDOWS_DLFCN_H

#include <stdint.h>

/* of <windows.h>, which defines names that the tests have, too */
__declspec(dllimport) void *__stdcall LoadLibraryA(const char *path);
__declspec(dllimport) intptr_t(__stdcall *__stdcall GetProcAddress(void *library, const char *name))(void);
__declspec(dllimport) int __stdcall FreeLibrary(void *library);

#define RTLD_LAZY 0
#define RTLD_NOW 0
#define RTLD_LOCAL 0

static inline void *dlopen(const char *path, int mode)
{
    (void)mode;
    return LoadLibraryA(path);
}

static inline void *dlsym(void *library, const char *name)
{
    return (void *)(intptr_t)GetProcAddress(library, name);
}

static inline int dlclose(void *library)
{
    return !FreeLibrary(library);
}

static inline const char *dlerror(void)
{
    return "the library cannot be loaded";
}

#endif
