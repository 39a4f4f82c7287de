/* kernels_name.c - prints the kernel set that the library uses here: tests/run.sh asks whether the set
 * it names in LMC_KERNELS is one that this machine has. */
#include <lmc.h>
#include <stdio.h>

int main(void)
{
    return puts(lmc_kernels_name()) < 0;
}
