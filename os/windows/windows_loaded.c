/*
 * windows_loaded.c - what stays loaded.
 */
#include "os/windows/windows.h"

void lmc_os_stay_loaded(const void *address)
{
    HMODULE module = NULL;
    (void)GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                             (const WCHAR *)address, &module);
}
