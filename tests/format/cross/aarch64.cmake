# CMake toolchain for AArch64 by a cross compiler, its programs run by qemu's user mode. The names and places are those
# of the Debian packages gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(LMC_TEST_KERNELS neon scalar) # the kernel sets to be tested, the best one first

# Nothing of the machine that compiles: its headers and libraries are of another processor.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# In place of CUnit, of which there is no cross package.
set(CUNIT_INCLUDE_DIR ${CMAKE_CURRENT_LIST_DIR})
set(CUNIT_LIBRARY m) # nothing to link
