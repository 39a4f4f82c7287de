/* version.c - what runs: the version of the library, and the kernel set it has chosen. */
#include "codec/kernels/kernels.h"
#include "lmc.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *lmc_version_text(void)
{
    return TEXT(LMC_VERSION_MAJOR) "." TEXT(LMC_VERSION_MINOR) "." TEXT(LMC_VERSION_PATCH);
}

unsigned lmc_version_number(void)
{
    return LMC_VERSION_NUMBER;
}

const char *lmc_kernels_name(void)
{
    return lmc_kernels_get()->name;
}
