# CMake toolchain for 32-bit ARM by a cross compiler, its programs run by qemu's user mode: a machine whose size_t is
# narrower than the numbers in a frame. The names and places are those of the Debian packages gcc-arm-linux-gnueabihf,
# libc6-dev-armhf-cross and qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-linux-gnueabihf-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-arm -L /usr/arm-linux-gnueabihf)
set(LMC_TEST_KERNELS scalar) # the kernel sets to be tested, the best one first

# Nothing of the machine that compiles: its headers and libraries are of another processor.
set(CMAKE_FIND_ROOT_PATH /usr/arm-linux-gnueabihf)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# In place of CUnit, of which there is no cross package.
set(CUNIT_INCLUDE_DIR ${CMAKE_CURRENT_LIST_DIR})
set(CUNIT_LIBRARY m) # nothing to link
