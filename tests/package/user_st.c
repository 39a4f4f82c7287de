/* user_st.c - a program outside the tree that uses an installed liblmc_st, and liblmc through it. */
#include <lmc_st.h>
#include <stdio.h>

int main(void)
{
    lmc_st_writer *writer;
    if (lmc_st_writer_create(NULL, &writer) != LMC_OK)
        return 1;
    lmc_st_writer_free(writer);
    printf("%s\n", lmc_version_text());
    return 0;
}
