/*
 * name.c - the public name of the kernel set in use. It is apart from select.c, so that a program may bring its own
 * lmc_kernels_get() (bench/codec/select.c).
 */
#include "codec/kernels/kernels.h"
#include "lmc.h"

const char *lmc_kernels_name(void)
{
    return lmc_kernels_get()->name;
}
