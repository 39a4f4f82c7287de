# CMake toolchain: zig as a compiler for another system. -DLMC_ZIG=PROGRAM -DLMC_ZIG_TARGET=TARGET, for example
# x86_64-linux-gnu.2.17, aarch64-linux-musl, aarch64-macos.11.0 or x86_64-windows-gnu. python/build_wheel.sh calls it.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LMC_ZIG LMC_ZIG_TARGET)
if(NOT LMC_ZIG_TARGET MATCHES "^([a-z0-9_]+)-(linux|macos|windows)")
  message(FATAL_ERROR "LMC_ZIG_TARGET is \"${LMC_ZIG_TARGET}\"")
endif()
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_1})
set(lmc_system_linux Linux)
set(lmc_system_macos Darwin)
set(lmc_system_windows Windows)
set(CMAKE_SYSTEM_NAME ${lmc_system_${CMAKE_MATCH_2}})
if(CMAKE_SYSTEM_NAME STREQUAL "Darwin")
  set(CMAKE_INSTALL_NAME_TOOL false) # nothing is changed after it has been signed
endif()
if(CMAKE_SYSTEM_NAME STREQUAL "Windows")
  set(CMAKE_RC_COMPILER ${LMC_ZIG}) # CMake wants to have one; no source is for it
endif()

# -s also while compiling: zig compiles a system's C library for files with debugging information and for those without.
set(CMAKE_C_COMPILER ${LMC_ZIG} cc -target ${LMC_ZIG_TARGET} -s)
if(LMC_ZIG_TARGET MATCHES "-musl")
  list(APPEND CMAKE_C_COMPILER -dynamic) # zig would link musl itself into everything
endif()
set(CMAKE_C_ARCHIVE_CREATE "\"${LMC_ZIG}\" ar qcs <TARGET> <OBJECTS>")
set(CMAKE_C_ARCHIVE_APPEND "\"${LMC_ZIG}\" ar qs <TARGET> <OBJECTS>")
set(CMAKE_C_ARCHIVE_FINISH "")

# Nothing of the machine that compiles: its headers and libraries are of another system.
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_USER_MAKE_RULES_OVERRIDE_C ${CMAKE_CURRENT_LIST_DIR}/rules.cmake)
