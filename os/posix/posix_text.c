/*
 * posix_text.c - texts of the system. With the extensions of posix.h the C libraries have two calls strerror_r().
 */
#include "os/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void os_error_text(int os_errno, char *text, size_t capacity)
{
    if (strerror_r(os_errno, text, capacity) != 0)
        snprintf(text, capacity, "error %d", os_errno);
}

int os_is_library_name(const char *name)
{
    return strncmp(name, "lib", 3) == 0 && (strstr(name, ".so") != NULL || strstr(name, ".dylib") != NULL);
}

const char *os_environment(const char *name)
{
    const char *const value = getenv(name);
    return value && value[0] != '\0' ? value : NULL;
}
