// user_cxx.cc - the headers are C++ too.
#include <lmc.h>
#include <lmc_st.h>

#include <cstdio>

int main()
{
    std::puts(lmc_version_text());
    return 0;
}
