// user_cxx.cc - the headers are C++ too.
#include <lmc.h>
#include <lmc_st.h>

#include <cstdio>
#include <type_traits>

/* values of a later version fit */
static_assert(std::is_same<std::underlying_type<lmc_status>::type, int>::value, "lmc_status");
static_assert(std::is_same<std::underlying_type<lmc_st_container>::type, int>::value, "lmc_st_container");

static lmc_st_diag diag = LMC_INIT(lmc_st_diag);

int main()
{
    const lmc_st_convert_options options = LMC_INIT(lmc_st_convert_options);
    std::puts(lmc_version_text());
    return diag.struct_size != sizeof diag || options.struct_size != sizeof options || options.force;
}
