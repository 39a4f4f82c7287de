# CMake toolchain for Windows on x86-64 by MinGW's cross compiler, its programs run by Wine. The names are those of the
# Debian packages gcc-mingw-w64-x86-64, wine and wine64.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR AMD64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
set(CMAKE_CROSSCOMPILING_EMULATOR sh ${CMAKE_CURRENT_LIST_DIR}/../../support/wine.sh)
set(LMC_TEST_KERNELS avx2 scalar) # the kernel sets to be tested, the best one first

# Nothing of the machine that compiles: its headers and libraries are of another system.
set(CMAKE_FIND_ROOT_PATH /usr/x86_64-w64-mingw32)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# A program needs no library beside it.
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
set(CMAKE_SHARED_LINKER_FLAGS_INIT -static)
set(CMAKE_MODULE_LINKER_FLAGS_INIT -static)

# In place of CUnit, of which there is no cross package, and of what tests include that Windows does not have.
set(CUNIT_INCLUDE_DIR ${CMAKE_CURRENT_LIST_DIR} ${CMAKE_CURRENT_LIST_DIR}/windows)
set(CUNIT_LIBRARY m) # nothing to link
