# Finds the HDF5 library that `lmc-st doctor FILE` loads when it runs: headers to compile with, and the name that the
# dynamic linker knows it by. Nothing is linked to it. A library for MPI will not do: it wants MPI to be there.

include(CheckCSourceCompiles)

set(LMC_WITH_HDF5 AUTO CACHE STRING
  "lmc-st doctor FILE looks into HDF5 files (needs the headers of HDF5): AUTO, ON or OFF")
set_property(CACHE LMC_WITH_HDF5 PROPERTY STRINGS AUTO ON OFF)

# lmc_find_hdf5(): sets LMC_HDF5_SONAME (empty: without HDF5) and LMC_HDF5_INCLUDE_DIR.
function(lmc_find_hdf5)
  find_path(LMC_HDF5_INCLUDE_DIR hdf5.h PATH_SUFFIXES hdf5/serial)
  find_library(LMC_HDF5_LIBRARY NAMES hdf5_serial hdf5)
  mark_as_advanced(LMC_HDF5_INCLUDE_DIR LMC_HDF5_LIBRARY)
  set(soname "${LMC_HDF5_SONAME}")
  if(NOT soname AND LMC_HDF5_LIBRARY AND CMAKE_OBJDUMP)
    execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${LMC_HDF5_LIBRARY} OUTPUT_VARIABLE dump ERROR_QUIET)
    if(dump MATCHES "SONAME +([^\n ]+)")
      set(soname ${CMAKE_MATCH_1})
    endif()
  endif()
  if(LMC_HDF5_INCLUDE_DIR)
    set(CMAKE_REQUIRED_INCLUDES ${LMC_HDF5_INCLUDE_DIR})
    check_c_source_compiles("#include <hdf5.h>
      #if !H5_VERSION_GE(1, 10, 5) || defined(H5_HAVE_PARALLEL)
      #error too old, or for MPI
      #endif
      int main(void) { return 0; }" LMC_HDF5_HEADERS_SERVE)
  endif()
  if(NOT soname OR NOT LMC_HDF5_HEADERS_SERVE)
    set(soname "")
  endif()
  set(LMC_HDF5_SONAME "${soname}" PARENT_SCOPE)
endfunction()
