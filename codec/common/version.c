/* version.c - the version of the library that runs. */
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
