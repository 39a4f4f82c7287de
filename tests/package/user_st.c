/* user_st.c - a program outside the tree that uses an installed liblmc_st, and liblmc through it. */
#include <lmc_st.h>
#include <stdio.h>

int main(void)
{
    printf("%s\n", lmc_version_text());
    return 0;
}
