/* user_h5.c - a program outside the tree that uses an installed liblmc_h5. Prints the version, and with any
 * argument the number of the filter that it was compiled for. */
#include <lmc_h5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_NBYTES 40000

int main(int argc, char **argv)
{
    static unsigned char chunk[CHUNK_NBYTES];
    static unsigned char back[CHUNK_NBYTES];
    const unsigned values[] = {LMC_LEVEL_FAST, 4};
    size_t bound, stored_nbytes, chunk_nbytes;
    unsigned char *stored = NULL;
    (void)argv;
    for (size_t i = 0; i < CHUNK_NBYTES; i++)
        chunk[i] = (unsigned char)(i % 4 == 3 ? 0x3f : i * i >> 5);
    if (lmc_h5_encode_bound(CHUNK_NBYTES, &bound) != LMC_OK || (stored = malloc(bound)) == NULL ||
        lmc_h5_encode_chunk(NULL, values, 2, chunk, CHUNK_NBYTES, stored, bound, &stored_nbytes) != LMC_OK ||
        lmc_h5_decode_chunk(NULL, stored, stored_nbytes, back, CHUNK_NBYTES, &chunk_nbytes) != LMC_OK ||
        chunk_nbytes != CHUNK_NBYTES || memcmp(chunk, back, CHUNK_NBYTES) != 0 ||
        stored_nbytes >= CHUNK_NBYTES) {
        printf("round trip failed: %s\n", lmc_h5_last_error());
        return 1;
    }
    free(stored);
    if (argc > 1)
        printf("%d\n", LMC_H5_FILTER_ID);
    else
        printf("%s\n", lmc_version_text());
    return 0;
}
